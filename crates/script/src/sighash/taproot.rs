//! The message that a signature in taproot signs, by key path and by script path. Source: BIP-0341, BIP-0342.

use crate::sighash::{Precomputed, SIGHASH_ALL, SIGHASH_ANYONECANPAY, SIGHASH_DEFAULT, SIGHASH_SINGLE, Sink, Writer};
use kernels::sha256::{Midstate, Sha256, sha256};
use std::sync::LazyLock;

/// The midstate of a tagged hash. Source: BIP-0340.
fn tag(name: &str) -> Sha256 {
    let mut state = Sha256::new();
    state.update(&start(name));
    state
}

/// The first bytes of a tagged hash.
fn start(name: &str) -> [u8; 64] {
    let hash = sha256(name.as_bytes());
    *[hash, hash].as_flattened().first_chunk().expect("two hashes")
}

/// The midstate of a tagged hash, for many messages at a time.
fn midstate(name: &str) -> Midstate {
    let mut state = Midstate::START;
    state.update(&[start(name)]);
    state
}

/// The midstates of taproot's tagged hashes.
pub(crate) mod tagged {
    use super::{LazyLock, Midstate, Sha256, midstate, start, tag};

    /// The signed hash.
    pub(crate) static SIGHASH: LazyLock<Sha256> = LazyLock::new(|| tag("TapSighash"));
    /// Its first bytes.
    pub(crate) static SIGHASH_START: LazyLock<[u8; 64]> = LazyLock::new(|| start("TapSighash"));
    /// A leaf: version and script.
    pub(crate) static LEAF: LazyLock<Sha256> = LazyLock::new(|| tag("TapLeaf"));
    /// A branch: two nodes in order of their bytes.
    pub(crate) static BRANCH: LazyLock<Sha256> = LazyLock::new(|| tag("TapBranch"));
    /// The tweak: internal key and root.
    pub(crate) static TWEAK: LazyLock<Sha256> = LazyLock::new(|| tag("TapTweak"));
    /// Branches, many at a time.
    pub(crate) static BRANCHES: LazyLock<Midstate> = LazyLock::new(|| midstate("TapBranch"));
    /// Tweaks, many at a time.
    pub(crate) static TWEAKS: LazyLock<Midstate> = LazyLock::new(|| midstate("TapTweak"));
    /// The first bytes of a signature's challenge. Source: BIP-0340.
    pub(crate) static CHALLENGE_START: LazyLock<[u8; 64]> = LazyLock::new(|| start("BIP0340/challenge"));
}

/// The place in a tapscript where a signature is checked.
#[derive(Clone, Copy, Debug)]
pub struct Leaf {
    /// Hash of the leaf's version and script.
    pub hash: [u8; 32],
    /// Number of the last executed CODESEPARATOR among the script's instructions; `u32::MAX` before the first.
    pub code_separator: u32,
}

/// The parts of a taproot message that are not in the transaction.
#[derive(Debug, Default)]
pub(crate) struct Extension {
    /// SHA-256 of the annex with its length.
    pub(crate) annex: Option<[u8; 32]>,
    /// Set in tapscript.
    pub(crate) leaf: Option<Leaf>,
    /// SHA-256 of the output that SINGLE signs, once computed: a script may sign it many times.
    pub(crate) output: Option<[u8; 32]>,
}

/// The hash that a signature in taproot signs: `leaf` is `None` for the key path. `annex` includes its first byte, 50,
/// but not its length. `None` if the hash type does not exist, or is SINGLE and there is no output of the input's
/// number.
///
/// # Panics
///
/// If the transaction has no input of that number.
///
/// Source: BIP-0341; Bitcoin Core b88bffe, `SignatureHashSchnorr`.
pub fn taproot(
    tx: &Precomputed<'_>,
    input: usize,
    hash_type: u8,
    annex: Option<&[u8]>,
    leaf: Option<Leaf>,
) -> Option<[u8; 32]> {
    message(tx, input, hash_type, &mut Extension { annex: annex.map(annex_hash), leaf, output: None })
}

/// The hash of a leaf: its version and its script. Source: BIP-0341; Bitcoin Core b88bffe, `ComputeTapleafHash`.
pub fn leaf_hash(version: u8, script: &[u8]) -> [u8; 32] {
    let mut writer = Writer::after(tagged::LEAF.clone());
    writer.put(&[version]);
    writer.put_with_length(script);
    writer.finish().finalize()
}

/// SHA-256 of an annex with its length.
pub(crate) fn annex_hash(annex: &[u8]) -> [u8; 32] {
    let mut writer = Writer::new();
    writer.put_with_length(annex);
    writer.finish().finalize()
}

/// [`taproot`] with cached parts.
pub(crate) fn message(
    tx: &Precomputed<'_>,
    input: usize,
    hash_type: u8,
    extension: &mut Extension,
) -> Option<[u8; 32]> {
    let mut writer = Writer::after(tagged::SIGHASH.clone());
    put_message(&mut writer, tx, input, hash_type, extension)?;
    Some(writer.finish().finalize())
}

/// The message after its tag. On `None` a part of it may have been written.
pub(crate) fn put_message(
    writer: &mut impl Sink,
    tx: &Precomputed<'_>,
    input: usize,
    hash_type: u8,
    extension: &mut Extension,
) -> Option<()> {
    if !matches!(hash_type, 0..=3 | 0x81..=0x83) {
        return None;
    }
    let outputs = if hash_type == SIGHASH_DEFAULT { SIGHASH_ALL } else { hash_type & 3 };
    let alone = hash_type & SIGHASH_ANYONECANPAY != 0;
    let transaction = tx.transaction();
    writer.put(&[0, hash_type]); // The first byte is the epoch.
    writer.put(&transaction.version().to_le_bytes());
    writer.put(&transaction.lock_time().to_le_bytes());
    if !alone {
        let parts = tx.parts();
        let coins = tx.coins();
        writer.put(&parts.prevouts);
        writer.put(&coins.amounts);
        writer.put(&coins.scripts);
        writer.put(&parts.sequences);
    }
    if outputs == SIGHASH_ALL {
        writer.put(&tx.parts().outputs);
    }
    writer.put(&[u8::from(extension.leaf.is_some()) << 1 | u8::from(extension.annex.is_some())]);
    put_input(writer, tx, input, alone);
    if let Some(annex) = &extension.annex {
        writer.put(annex);
    }
    if outputs == SIGHASH_SINGLE {
        if input >= transaction.output_count() {
            return None;
        }
        writer.put(extension.output.get_or_insert_with(|| sha256(transaction.output(input).serialized())));
    }
    if let Some(leaf) = &extension.leaf {
        writer.put(&leaf.hash);
        writer.put(&[0]); // The version of the key.
        writer.put(&leaf.code_separator.to_le_bytes());
    }
    Some(())
}

/// The input: all its data if no other input is signed, otherwise its number.
fn put_input(writer: &mut impl Sink, tx: &Precomputed<'_>, input: usize, alone: bool) {
    let signed = tx.transaction().input(input);
    if !alone {
        writer.put(&u32::try_from(input).expect("a transaction has fewer than 2^32 inputs").to_le_bytes());
        return;
    }
    let coin = &tx.spent()[input];
    writer.put(signed.prevout_bytes());
    writer.put(&coin.value.0.to_le_bytes());
    writer.put_with_length(coin.script);
    writer.put(&signed.sequence().to_le_bytes());
}
