//! The message that a signature in a version 0 witness script signs: a digest of fixed form. Source: BIP-0143.

use crate::sighash::{Outputs, Precomputed, SIGHASH_ANYONECANPAY, Sink, Writer, with_hash_type};
use kernels::sha256::{Sha256, sha256d};

/// The hash that a signature in a version 0 witness script signs.
///
/// `script_code` is the script after the last executed CODESEPARATOR; nothing is removed from it.
///
/// # Panics
///
/// If the transaction has no input of that number.
///
/// Source: BIP-0143; Bitcoin Core b88bffe, `SignatureHash` for `SigVersion::WITNESS_V0`.
#[inline]
pub fn witness_v0(tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u32) -> [u8; 32] {
    with_hash_type(state(tx, input, script_code, hash_type), hash_type)
}

/// The hash up to the hash type.
#[inline]
pub(crate) fn state(tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u32) -> Sha256 {
    let mut writer = Writer::new();
    put(&mut writer, tx, input, script_code, hash_type);
    writer.finish()
}

/// The whole message, whose double hash is [`witness_v0`].
#[inline]
pub(crate) fn put_message(out: &mut Vec<u8>, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u32) {
    put(out, tx, input, script_code, hash_type);
    out.put(&hash_type.to_le_bytes());
}

/// The message up to the hash type.
#[inline]
fn put(out: &mut impl Sink, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u32) {
    let outputs = Outputs::of(hash_type);
    let alone = hash_type & u32::from(SIGHASH_ANYONECANPAY) != 0;
    let transaction = tx.transaction();
    let signed = transaction.input(input);
    let parts = tx.parts_twice();
    out.put(&transaction.version().to_le_bytes());
    out.put(if alone { &[0; 32] } else { &parts.prevouts });
    out.put(if alone || outputs != Outputs::All { &[0; 32] } else { &parts.sequences });
    out.put(signed.prevout_bytes());
    out.put_with_length(script_code);
    out.put(&tx.spent()[input].value.0.to_le_bytes());
    out.put(&signed.sequence().to_le_bytes());
    match outputs {
        Outputs::All => out.put(&parts.outputs),
        Outputs::Single if input < transaction.output_count() => {
            out.put(&sha256d(transaction.output(input).serialized()));
        }
        Outputs::Single | Outputs::None => out.put(&[0; 32]),
    }
    out.put(&transaction.lock_time().to_le_bytes());
}
