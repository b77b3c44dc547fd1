//! The pool of keys, each with its secret and the scripts of every kind of coin that it can lock.
//!
//! Coins share keys, as wallets reuse addresses; a chain of a million coins has about 15,000 keys. Key number `i` also
//! signs, with its two successors, for the 2-of-3 scripts of number `i`.
//!
//! Absent on purpose: signing (`sign`), and secrecy: every key follows from the seed.

use super::profile::Kind;
use kernels::sha256::{Sha256, sha256};
use primitives::encode::put_compact_size;
use ripemd::{Digest, Ripemd160};
use secp256k1::{Keypair, Parity, Scalar, SecretKey};
use std::thread;

/// Bytes of the 2-of-3 script: three keys with their pushes, and three opcodes.
pub(super) const MULTISIG_BYTES: usize = 3 * 34 + 3;
/// Keys of a 2-of-3 script.
pub(super) const MULTISIG_KEYS: usize = 3;
/// Tapscript's leaf version. Source: BIP-0342.
const LEAF_TAPSCRIPT: u8 = 0xc0;
/// One leaf in this many carries data in an envelope that is never executed, as inscriptions do.
const ENVELOPE_EVERY: usize = 4;
/// One leaf in this many has a sibling, and so a longer control block.
const SIBLING_EVERY: usize = 3;
/// Maximum bytes of a push in a script. Source: Bitcoin Core b88bffe, `MAX_SCRIPT_ELEMENT_SIZE`.
const PUSH_BYTES_MAX: usize = 520;

const OP_0: u8 = 0x00;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_1: u8 = 0x51;
const OP_2: u8 = 0x52;
const OP_3: u8 = 0x53;
const OP_IF: u8 = 0x63;
const OP_ENDIF: u8 = 0x68;
const OP_DUP: u8 = 0x76;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_HASH160: u8 = 0xa9;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKMULTISIG: u8 = 0xae;

/// A script of at most 34 bytes, preceded by its length, as in an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locking {
    len: u8,
    bytes: [u8; 34],
}

impl Locking {
    fn new(pieces: &[&[u8]]) -> Locking {
        let mut script = Locking { len: 0, bytes: [0; 34] };
        for piece in pieces {
            let at = usize::from(script.len);
            script.bytes[at..at + piece.len()].copy_from_slice(piece);
            script.len += piece.len() as u8;
        }
        script
    }

    /// The script without its length.
    pub(super) fn script(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Appends the length and the script.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.len);
        out.extend_from_slice(self.script());
    }
}

/// One key and the scripts that it locks.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) secret: SecretKey,
    pub(super) pair: Keypair,
    /// The pair whose public half is the key of the P2TR output without scripts.
    pub(super) tweaked: Keypair,
    /// Compressed.
    pub(super) public: [u8; 33],
    /// HASH160 of `public`.
    pub(super) hash: [u8; 20],
    /// Script of the P2WSH output, and of the P2SH output before witnesses: 2 of this key and the two after it.
    pub(super) multisig: [u8; MULTISIG_BYTES],
    /// Script of the leaf of the P2TR output with scripts.
    pub(super) leaf: Vec<u8>,
    /// Hash of that leaf.
    pub(super) leaf_hash: [u8; 32],
    /// The control block: proves that the leaf is committed to by the output.
    pub(super) control: Vec<u8>,
    locking: [Locking; Kind::COINS.len()],
}

impl Key {
    /// The script of an output of `kind`.
    pub(super) fn locking(&self, kind: Kind) -> &Locking {
        &self.locking[kind as usize]
    }
}

/// The whole pool.
#[derive(Debug)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// Generates `count` keys on `threads` threads. A key depends only on `seed` and its number.
    pub(super) fn new(seed: u64, count: usize, threads: usize) -> Keys {
        let pairs: Vec<Keypair> = in_parallel(count, threads, |i| pair(seed, i as u64));
        let publics: Vec<[u8; 33]> = pairs.iter().map(|pair| pair.public_key().serialize()).collect();
        Keys(in_parallel(count, threads, |i| {
            let followers = [1, 2].map(|step| publics[(i + step) % count]);
            key(i, pairs[i], [publics[i], followers[0], followers[1]])
        }))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, index: u16) -> &Key {
        &self.0[usize::from(index)]
    }

    /// One of the keys of the 2-of-3 script of number `index`.
    pub(super) fn of_multisig(&self, index: u16, which: usize) -> &Key {
        &self.0[(usize::from(index) + which) % self.0.len()]
    }
}

/// The results of `make` for 0 to `count`, in order.
fn in_parallel<T: Send>(count: usize, threads: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let share = count.div_ceil(threads).max(1);
    thread::scope(|scope| {
        let make = &make;
        let workers: Vec<_> = (0..count)
            .step_by(share)
            .map(|from| scope.spawn(move || (from..count.min(from + share)).map(make).collect::<Vec<T>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("making a key does not panic")).collect()
    })
}

/// The key pair with this number. Hashes that are not a valid secret key are skipped.
fn pair(seed: u64, index: u64) -> Keypair {
    (0u64..)
        .find_map(|attempt| {
            let numbers = [seed.to_le_bytes(), index.to_le_bytes(), attempt.to_le_bytes()].concat();
            SecretKey::from_secret_bytes(sha256(&[b"lab chain key ", &numbers[..]].concat())).ok()
        })
        .expect("almost every hash is a secret key")
        .keypair()
}

fn key(index: usize, pair: Keypair, publics: [[u8; 33]; MULTISIG_KEYS]) -> Key {
    let hash = hash160(&publics[0]);
    let internal = pair.x_only_public_key().0.to_byte_array();
    let (tweaked, x_only, _) = tweak(pair, &[]);
    let leaf = leaf_script(index, &internal);
    let sibling = sibling(index);
    let leaf_hash = tapleaf(&leaf);
    let root = sibling.map_or(leaf_hash, |other| tapbranch(leaf_hash, other));
    let (_, script_x_only, parity) = tweak(pair, &root);
    let mut control = vec![LEAF_TAPSCRIPT | parity.to_u8()];
    control.extend_from_slice(&internal);
    control.extend(sibling.into_iter().flatten());
    let multisig = multisig(&publics);
    let locking = [
        Locking::new(&[&[OP_0, 20], &hash]),
        Locking::new(&[&[OP_1, 32], &x_only]),
        Locking::new(&[&[OP_DUP, OP_HASH160, 20], &hash, &[OP_EQUALVERIFY, OP_CHECKSIG]]),
        Locking::new(&[&[OP_HASH160, 20], &hash160(&redeem_script(&hash)), &[OP_EQUAL]]),
        Locking::new(&[&[OP_0, 32], &sha256(&multisig)]),
        Locking::new(&[&[OP_1, 32], &script_x_only]),
        Locking::new(&[&[OP_HASH160, 20], &hash160(&multisig), &[OP_EQUAL]]),
    ];
    let secret = pair.secret_key();
    Key { secret, pair, tweaked, public: publics[0], hash, multisig, leaf, leaf_hash, control, locking }
}

/// The push of a P2SH-P2WPKH input: the P2WPKH script.
pub(super) fn redeem_script(hash: &[u8; 20]) -> [u8; 22] {
    let mut script = [0; 22];
    (script[0], script[1]) = (OP_0, 20);
    script[2..].copy_from_slice(hash);
    script
}

/// The script of a P2PKH output, also signed by a P2WPKH input.
pub(super) fn p2pkh_script(hash: &[u8; 20]) -> [u8; 25] {
    let mut script = [0; 25];
    script[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
    script[3..23].copy_from_slice(hash);
    script[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
    script
}

fn multisig(publics: &[[u8; 33]; MULTISIG_KEYS]) -> [u8; MULTISIG_BYTES] {
    let mut script = [0; MULTISIG_BYTES];
    script[0] = OP_2;
    for (push, public) in script[1..].chunks_exact_mut(34).zip(publics) {
        push[0] = 33;
        push[1..].copy_from_slice(public);
    }
    script[MULTISIG_BYTES - 2..].copy_from_slice(&[OP_3, OP_CHECKMULTISIG]);
    script
}

fn leaf_script(index: usize, x_only: &[u8; 32]) -> Vec<u8> {
    let mut script = vec![32];
    script.extend_from_slice(x_only);
    script.push(OP_CHECKSIG);
    if index.is_multiple_of(ENVELOPE_EVERY) {
        let bytes = 256 + index * 37 % (PUSH_BYTES_MAX - 256);
        script.extend_from_slice(&[OP_0, OP_IF, OP_PUSHDATA2]);
        script.extend_from_slice(&(bytes as u16).to_le_bytes());
        script.extend((0..bytes).map(|i| i as u8 ^ x_only[i % 32]));
        script.push(OP_ENDIF);
    }
    script
}

fn sibling(index: usize) -> Option<[u8; 32]> {
    index.is_multiple_of(SIBLING_EVERY).then(|| sha256(&[b"lab chain leaf ", &index.to_le_bytes()[..]].concat()))
}

/// RIPEMD-160 of SHA-256.
pub(super) fn hash160(data: &[u8]) -> [u8; 20] {
    Ripemd160::digest(sha256(data)).into()
}

/// A hasher to which the tag has been added. Source: BIP-0340.
pub(crate) fn tagged(tag: &str) -> Sha256 {
    let tag = sha256(tag.as_bytes());
    let mut hasher = Sha256::new();
    hasher.update(&tag);
    hasher.update(&tag);
    hasher
}

/// Source: BIP-0341.
fn tapleaf(script: &[u8]) -> [u8; 32] {
    let mut head = vec![LEAF_TAPSCRIPT];
    put_compact_size(&mut head, script.len() as u64);
    let mut hasher = tagged("TapLeaf");
    hasher.update(&head);
    hasher.update(script);
    hasher.finalize()
}

/// Source: BIP-0341.
fn tapbranch(a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
    let mut hasher = tagged("TapBranch");
    hasher.update(&a.min(b));
    hasher.update(&a.max(b));
    hasher.finalize()
}

/// The pair tweaked with a merkle root (or nothing), its public half, and the parity for the control block.
///
/// Source: BIP-0341.
pub(crate) fn tweak(pair: Keypair, root: &[u8]) -> (Keypair, [u8; 32], Parity) {
    let mut hasher = tagged("TapTweak");
    hasher.update(&pair.x_only_public_key().0.to_byte_array());
    hasher.update(root);
    let tweak =
        Scalar::from_be_bytes(hasher.finalize()).expect("a hash is almost never the order of the group or more");
    let tweaked = pair.add_xonly_tweak(&tweak).expect("a hash is almost never the key's own negative");
    let (x_only, parity) = tweaked.x_only_public_key();
    (tweaked, x_only.to_byte_array(), parity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_seed_and_number_alone() {
        let one = Keys::new(7, 12, 1);
        let three = Keys::new(7, 12, 3);
        let other = Keys::new(8, 12, 2);
        for i in 0..12 {
            assert_eq!(one.get(i).public, three.get(i).public);
            assert_eq!(one.get(i).control, three.get(i).control);
            assert_ne!(one.get(i).public, other.get(i).public);
        }
        assert_eq!(one.of_multisig(11, 2).public, one.get(1).public);
    }

    /// BIP-0341, wallet test vectors, the first and second rows: internal key and what becomes of it.
    #[test]
    fn taproot_tweaks_match_bip341_vectors() {
        let hex = |text: &str| -> [u8; 32] { primitives::hex::decode(text).unwrap().try_into().unwrap() };
        let leaf_key = hex("d85a959b0290bf19bb89ed43c916be835475d013da4b362117393e25a48229b8");
        let mut script = vec![32];
        script.extend_from_slice(&leaf_key);
        script.push(OP_CHECKSIG);
        assert_eq!(tapleaf(&script), hex("5b75adecf53548f3ec6ad7d78383bf84cc57b55a3127c72b9a2481752dd88b21"));
        // BIP-0341, keyPathSpending, first input: the private key, tweaked.
        let pair = Keypair::from_secret_bytes(hex("6b973d88838f27366ed61c9ad6367663045cb456e28335c109e30717ae0c6baa"));
        let (tweaked, _, _) = tweak(pair.unwrap(), &[]);
        assert_eq!(tweaked.to_secret_bytes(), hex("2405b971772ad26915c8dcdf10f238753a9b837e5f8e6a86fd7c0cce5b7296d9"));
    }
}
