//! Signs the inputs of a transaction: the three signature hashes, and real or fake signatures.
//!
//! A real signature is valid: ECDSA with the nonces of RFC 6979 and a low S, Schnorr without auxiliary randomness, so
//! that signing is reproducible. A fake one has the size and the encoding of a real one, with random content. All
//! signatures commit to everything: SIGHASH_ALL, and SIGHASH_DEFAULT in taproot.
//!
//! Absent on purpose: the position of a signature (`build`).

use super::Signatures;
use super::coin::Coin;
use super::keys::{Key, Keys, tagged};
use super::profile::Kind;
use super::rng::Rng;
use kernels::sha256::{Sha256, sha256, sha256d};
use primitives::encode::put_compact_size;
use secp256k1::{Keypair, Message, ecdsa, schnorr};

const SIGHASH_ALL: u8 = 1;

/// The parts of a transaction to which its signatures commit. All inputs have the same sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spending<'a> {
    pub(super) version: u32,
    pub(super) lock_time: u32,
    pub(super) sequence: u32,
    /// Outpoints, 36 bytes for each input.
    pub(super) outpoints: &'a [u8],
    /// The coins that the inputs spend.
    pub(super) coins: &'a [Coin],
    /// All outputs, serialized, preceded by their count.
    pub(super) outputs: &'a [u8],
    /// Bytes of that count.
    pub(super) outputs_count_bytes: usize,
}

impl Spending<'_> {
    fn outpoint(&self, index: usize) -> &[u8] {
        &self.outpoints[36 * index..36 * (index + 1)]
    }

    fn outputs_alone(&self) -> &[u8] {
        &self.outputs[self.outputs_count_bytes..]
    }
}

/// Makes signatures; stores the data that the inputs of a transaction share.
#[derive(Debug)]
pub(super) struct Signer<'a> {
    keys: &'a Keys,
    signatures: Signatures,
    /// The generator of fake signatures.
    pub(super) rng: Rng,
    scratch: Vec<u8>,
    shared: Shared,
    /// The hasher of TapSighash, with its tag already added.
    tap_sighash: Sha256,
}

/// Single SHA-256 of the data that all inputs share. BIP-0143 hashes it once more.
#[derive(Clone, Copy, Debug, Default)]
struct Shared {
    prevouts: [u8; 32],
    amounts: [u8; 32],
    scripts: [u8; 32],
    sequences: [u8; 32],
    outputs: [u8; 32],
}

impl<'a> Signer<'a> {
    pub(super) fn new(keys: &'a Keys, signatures: Signatures) -> Signer<'a> {
        Signer {
            keys,
            signatures,
            rng: Rng::new(0, 0),
            scratch: Vec::new(),
            shared: Shared::default(),
            tap_sighash: tagged("TapSighash"),
        }
    }

    /// Prepares for the inputs of a transaction.
    pub(super) fn begin(&mut self, spending: &Spending<'_>) {
        if self.signatures == Signatures::Fake || spending.coins.iter().all(is_legacy) {
            return;
        }
        self.shared.prevouts = sha256(spending.outpoints);
        self.shared.outputs = sha256(spending.outputs_alone());
        self.scratch.clear();
        spending.coins.iter().for_each(|_| self.scratch.extend_from_slice(&spending.sequence.to_le_bytes()));
        self.shared.sequences = sha256(&self.scratch);
        if spending.coins.iter().all(|coin| !is_taproot(coin)) {
            return;
        }
        self.scratch.clear();
        spending.coins.iter().for_each(|coin| self.scratch.extend_from_slice(&coin.out.value().to_le_bytes()));
        self.shared.amounts = sha256(&self.scratch);
        self.scratch.clear();
        for coin in spending.coins {
            self.keys.get(coin.out.key()).locking(coin.out.kind()).put(&mut self.scratch);
        }
        self.shared.scripts = sha256(&self.scratch);
    }

    /// Appends the pushes of the signatures by each of `signers`, for an input without witness.
    pub(super) fn legacy(
        &mut self,
        spending: &Spending<'_>,
        index: usize,
        script: &[u8],
        signers: &[&Key],
        out: &mut Vec<u8>,
    ) {
        self.ecdsa(signers, out, |signer| signer.legacy_hash(spending, index, script));
    }

    /// The hash that a signature of an input without witness commits to.
    fn legacy_hash(&mut self, spending: &Spending<'_>, index: usize, script: &[u8]) -> [u8; 32] {
        let data = &mut self.scratch;
        data.clear();
        data.extend_from_slice(&spending.version.to_le_bytes());
        put_compact_size(data, spending.coins.len() as u64);
        for (i, outpoint) in spending.outpoints.chunks_exact(36).enumerate() {
            data.extend_from_slice(outpoint);
            let script = if i == index { script } else { &[] };
            put_compact_size(data, script.len() as u64);
            data.extend_from_slice(script);
            data.extend_from_slice(&spending.sequence.to_le_bytes());
        }
        data.extend_from_slice(spending.outputs);
        data.extend_from_slice(&spending.lock_time.to_le_bytes());
        data.extend_from_slice(&u32::from(SIGHASH_ALL).to_le_bytes());
        sha256d(data)
    }

    /// Appends length and signature for each of `signers`, for an input with witness v0.
    pub(super) fn witness_v0(
        &mut self,
        spending: &Spending<'_>,
        index: usize,
        script: &[u8],
        signers: &[&Key],
        out: &mut Vec<u8>,
    ) {
        self.ecdsa(signers, out, |signer| signer.witness_v0_hash(spending, index, script));
    }

    /// Source: BIP-0143.
    fn witness_v0_hash(&mut self, spending: &Spending<'_>, index: usize, script: &[u8]) -> [u8; 32] {
        let data = &mut self.scratch;
        data.clear();
        data.extend_from_slice(&spending.version.to_le_bytes());
        data.extend_from_slice(&sha256(&self.shared.prevouts));
        data.extend_from_slice(&sha256(&self.shared.sequences));
        data.extend_from_slice(spending.outpoint(index));
        put_compact_size(data, script.len() as u64);
        data.extend_from_slice(script);
        data.extend_from_slice(&spending.coins[index].out.value().to_le_bytes());
        data.extend_from_slice(&spending.sequence.to_le_bytes());
        data.extend_from_slice(&sha256(&self.shared.outputs));
        data.extend_from_slice(&spending.lock_time.to_le_bytes());
        data.extend_from_slice(&u32::from(SIGHASH_ALL).to_le_bytes());
        sha256d(data)
    }

    /// Appends the length and the signature of a taproot input; `leaf` is the hash of the script, where one is run.
    pub(super) fn taproot(
        &mut self,
        spending: &Spending<'_>,
        index: usize,
        pair: &Keypair,
        leaf: Option<&[u8; 32]>,
        out: &mut Vec<u8>,
    ) {
        let mut signature = [0; 64];
        match self.signatures {
            Signatures::Fake => self.rng.fill(&mut signature),
            Signatures::Real => {
                let hash = self.taproot_hash(spending, index, leaf);
                signature = schnorr::sign_no_aux_rand(&hash, pair).to_byte_array();
            }
        }
        out.push(64);
        out.extend_from_slice(&signature);
    }

    /// Source: BIP-0341, BIP-0342.
    fn taproot_hash(&mut self, spending: &Spending<'_>, index: usize, leaf: Option<&[u8; 32]>) -> [u8; 32] {
        let data = &mut self.scratch;
        data.clear();
        // The epoch, and the hash type SIGHASH_DEFAULT.
        data.extend_from_slice(&[0, 0]);
        data.extend_from_slice(&spending.version.to_le_bytes());
        data.extend_from_slice(&spending.lock_time.to_le_bytes());
        let shared = &self.shared;
        for hash in [&shared.prevouts, &shared.amounts, &shared.scripts, &shared.sequences, &shared.outputs] {
            data.extend_from_slice(hash);
        }
        // The spend type: no annex, and twice the extension.
        data.push(if leaf.is_some() { 2 } else { 0 });
        data.extend_from_slice(&(index as u32).to_le_bytes());
        if let Some(leaf) = leaf {
            data.extend_from_slice(leaf);
            // Key version, and no OP_CODESEPARATOR.
            data.push(0);
            data.extend_from_slice(&u32::MAX.to_le_bytes());
        }
        let mut hasher = self.tap_sighash.clone();
        hasher.update(data);
        hasher.finalize()
    }

    /// Appends length and signature for each of `signers`, over the result of `hash`.
    fn ecdsa(&mut self, signers: &[&Key], out: &mut Vec<u8>, hash: impl FnOnce(&mut Self) -> [u8; 32]) {
        if self.signatures == Signatures::Fake {
            return signers.iter().for_each(|_| self.fake_ecdsa(out));
        }
        let hash = hash(self);
        signers.iter().for_each(|key| put_ecdsa(hash, key, out));
    }

    /// Appends the length and random bytes with the encoding of a signature.
    fn fake_ecdsa(&mut self, out: &mut Vec<u8>) {
        let mut junk = [0; 64];
        self.rng.fill(&mut junk);
        // Half of all R have their highest bit set, and so a leading zero byte.
        let high = junk[0] & 0x80 != 0;
        junk[0] = junk[0].max(1);
        junk[32] = (junk[32] & 0x7f).max(1);
        let r = 32 + u8::from(high);
        out.extend_from_slice(&[7 + r + 32, 0x30, 4 + r + 32, 0x02, r]);
        out.extend(high.then_some(0));
        out.extend_from_slice(&junk[..32]);
        out.extend_from_slice(&[0x02, 32]);
        out.extend_from_slice(&junk[32..]);
        out.push(SIGHASH_ALL);
    }
}

fn is_legacy(coin: &Coin) -> bool {
    matches!(coin.out.kind(), Kind::P2pkh | Kind::P2shMultisig)
}

fn is_taproot(coin: &Coin) -> bool {
    matches!(coin.out.kind(), Kind::P2tr | Kind::P2trScript)
}

/// Appends the length and the signature with its hash type.
fn put_ecdsa(hash: [u8; 32], key: &Key, out: &mut Vec<u8>) {
    let der = ecdsa::sign(Message::from_digest(hash), &key.secret).serialize_der();
    out.push(der.len() as u8 + 1);
    out.extend_from_slice(&der);
    out.push(SIGHASH_ALL);
}
