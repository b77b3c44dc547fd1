//! The public keys of inputs. Source: BIP 352, "Inputs For Shared Secret Derivation".
//!
//! A key counts if its input spends pay-to-taproot, P2WPKH, P2SH-P2WPKH or P2PKH, and only if it is compressed. Whether
//! it is a point of the curve is checked later: other keys are skipped.

use kernels::Kernels;
use primitives::Transaction;
use primitives::block::Input;
use primitives::coin::{CoinRef, CompressedScript};
use primitives::script_type::ScriptType;

use super::taproot_key;

/// Bytes of a compressed key.
const KEY_BYTES: usize = 33;
/// The x of a point with an unknown discrete logarithm: an internal key that cannot sign. Source: BIP 341, "H".
const NUMS: [u8; 32] = [
    0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e, 0x07, 0x8a, 0x5a,
    0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
];
/// First byte of an annex. Source: BIP 341.
const ANNEX: u8 = 0x50;

/// Keys of transactions, concatenated.
#[derive(Default)]
pub(super) struct Keys<'a> {
    keys: Vec<[u8; KEY_BYTES]>,
    /// End of the keys of each transaction.
    ends: Vec<usize>,
    /// The entries of `keys` that must match a hash.
    hashed: Vec<Hashed<'a>>,
}

/// The candidate for a key at the end of a scriptSig, and the hash in the spent output that it must match.
struct Hashed<'a> {
    place: usize,
    hash: [u8; 20],
    script_sig: &'a [u8],
}

/// The key of an input.
enum Shown<'a> {
    Nothing,
    Key([u8; KEY_BYTES]),
    /// A key with this hash, anywhere in the scriptSig.
    Hashed {
        hash: [u8; 20],
        script_sig: &'a [u8],
    },
}

impl<'a> Keys<'a> {
    /// Adds a transaction that spends these coins; returns the smallest of its outpoints. `None`, and nothing is added,
    /// if it spends a witness program of version 2 or more, or no input can have a key.
    pub(super) fn add(&mut self, tx: &Transaction<'a>, spent: &[CoinRef<'_>]) -> Option<[u8; 36]> {
        let first = self.keys.len();
        let first_hashed = self.hashed.len();
        let mut smallest: Option<&[u8; 36]> = None;
        let mut buffer = Vec::new();
        for (input, coin) in tx.inputs().zip(spent) {
            let script = script_of(&coin.script, &mut buffer);
            if is_later_program(script) {
                self.keys.truncate(first);
                self.hashed.truncate(first_hashed);
                return None;
            }
            smallest = smallest.into_iter().chain([input.prevout_bytes()]).min();
            match shown(&input, script) {
                Shown::Nothing => {}
                Shown::Key(key) => self.keys.push(key),
                Shown::Hashed { hash, script_sig } => {
                    self.hashed.push(Hashed { place: self.keys.len(), hash, script_sig });
                    self.keys.push(script_sig.last_chunk().copied().unwrap_or([0; KEY_BYTES]));
                }
            }
        }
        if self.keys.len() == first {
            return None;
        }
        self.ends.push(self.keys.len());
        smallest.copied()
    }

    /// The keys, and the number of keys of each transaction.
    pub(super) fn finish(mut self, kernels: Kernels) -> (Vec<[u8; KEY_BYTES]>, Vec<usize>) {
        let missing = self.find_hashed(kernels);
        let mut counts = Vec::with_capacity(self.ends.len());
        let mut start = 0;
        for &end in &self.ends {
            counts.push((start..end).filter(|place| missing.binary_search(place).is_err()).count());
            start = end;
        }
        if !missing.is_empty() {
            let mut place = 0;
            self.keys.retain(|_| {
                place += 1;
                missing.binary_search(&(place - 1)).is_err()
            });
        }
        (self.keys, counts)
    }

    /// Stores the keys with matching hashes at their positions; returns the positions without a key, in order.
    fn find_hashed(&mut self, kernels: Kernels) -> Vec<usize> {
        let last: Vec<&[u8]> = self.hashed.iter().map(|hashed| &self.keys[hashed.place][..]).collect();
        let hashes = hash160(kernels, &last);
        let mut missing = Vec::new();
        for (hashed, hash) in self.hashed.iter().zip(hashes) {
            if hash == hashed.hash && is_compressed(&self.keys[hashed.place]) {
                continue;
            }
            match find(kernels, hashed) {
                Some(key) => self.keys[hashed.place] = key,
                None => missing.push(hashed.place),
            }
        }
        missing
    }
}

fn is_compressed(key: &[u8]) -> bool {
    key.len() == KEY_BYTES && matches!(key[0], 2 | 3)
}

/// The last window of a scriptSig that is a compressed key with this hash: third parties may have added pushes after
/// it.
fn find(kernels: Kernels, hashed: &Hashed<'_>) -> Option<[u8; KEY_BYTES]> {
    let windows: Vec<&[u8]> = hashed.script_sig.windows(KEY_BYTES).rev().filter(|key| is_compressed(key)).collect();
    let at = hash160(kernels, &windows).iter().position(|hash| *hash == hashed.hash)?;
    windows[at].try_into().ok()
}

/// RIPEMD-160 of SHA-256 of each message.
fn hash160(kernels: Kernels, messages: &[&[u8]]) -> Vec<[u8; 20]> {
    let pieces: Vec<_> = messages.iter().map(|&message| [message, &[], &[]]).collect();
    let mut digests = vec![[0; 32]; messages.len()];
    kernels.sha256_many(&pieces, &mut digests);
    let mut hashes = vec![[0; 20]; messages.len()];
    kernels.ripemd160(&digests, &mut hashes);
    hashes
}

/// The script of a coin; empty if it pays to a bare key, which does not count.
fn script_of<'s>(script: &CompressedScript<'s>, buffer: &'s mut Vec<u8>) -> &'s [u8] {
    if let Some(raw) = script.raw() {
        return raw;
    }
    buffer.clear();
    if matches!(ScriptType::of(script), ScriptType::PubKeyHash | ScriptType::ScriptHash) {
        script.append_to(buffer);
    }
    buffer
}

/// Whether a script is a witness program of version 2 or more. Source: BIP 141.
fn is_later_program(script: &[u8]) -> bool {
    matches!(script, [0x52..=0x60, bytes @ 2..=40, program @ ..] if program.len() == usize::from(*bytes))
}

fn is_key_hash_program(script: &[u8]) -> bool {
    matches!(script, [0, 20, hash @ ..] if hash.len() == 20)
}

fn shown<'a>(input: &Input<'a>, script: &[u8]) -> Shown<'a> {
    match script {
        [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] if hash.len() == 20 => {
            let hash = hash.try_into().expect("it has 20 bytes");
            Shown::Hashed { hash, script_sig: input.script_sig() }
        }
        [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 => match input.script_sig() {
            [_, redeem @ ..] if is_key_hash_program(redeem) => witness_key(input),
            _ => Shown::Nothing,
        },
        script if is_key_hash_program(script) => witness_key(input),
        script => taproot_key(script).map_or(Shown::Nothing, |key| taproot(input, key)),
    }
}

/// The last item of a witness, if it is a compressed key.
fn witness_key<'a>(input: &Input<'a>) -> Shown<'a> {
    match input.witness().last() {
        Some(key) if is_compressed(key) => Shown::Key(key.try_into().expect("it has 33 bytes")),
        _ => Shown::Nothing,
    }
}

/// The output key, with even y, unless a script was run and the internal key is [`NUMS`].
fn taproot<'a>(input: &Input<'a>, key: &[u8; 32]) -> Shown<'a> {
    let mut count = input.witness().len();
    // Items from the top of the stack down.
    let mut last: [&[u8]; 2] = [&[], &[]];
    input.witness().for_each(|item| last = [item, last[0]]);
    let mut top = last[0];
    if count > 1 && top.first() == Some(&ANNEX) {
        (count, top) = (count - 1, last[1]);
    }
    if count == 0 || (count > 1 && top.get(1..33) == Some(&NUMS[..])) {
        return Shown::Nothing;
    }
    let mut even = [2; KEY_BYTES];
    even[1..].copy_from_slice(key);
    Shown::Key(even)
}
