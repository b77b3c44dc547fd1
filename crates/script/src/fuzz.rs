//! Arbitrary bytes as an input with its coin: every way to verify it must give the same verdict, without a panic.
//!
//! Layout: flags u32 LE | value i64 LE | script length u16 LE | script | transaction. Every input spends the same coin.

use crate::check::{Batch, Immediate, OneByOne};
use crate::deferred::{Deferred, verify_all};
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::lanes::Compared;
use crate::sighash::{Precomputed, SpentOutput};
use crate::sigops;
use crate::verify::{Scratch, verify, verify_by_interpreter};
use primitives::{Amount, DecodeError, Reader, Tables};

/// Maximum number of inputs that are verified; more would only take time.
const INPUTS_MAX: usize = 4;

/// The verdict on the first input, or `None` if the bytes do not parse as an input with a coin.
pub fn fuzz_script(data: &[u8]) -> Option<Result<(), ScriptError>> {
    let (flags, coin, bytes) = read(data).ok()?;
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(bytes).ok()?;
    let spent = vec![coin; tx.input_count()];
    let precomputed = Precomputed::new(tx, &spent);
    let mut scratch = Scratch::new();
    let mut first = None;
    for (index, input) in tx.inputs().enumerate().take(INPUTS_MAX) {
        let verdict = verify(&precomputed, index, flags, &mut Immediate, &mut scratch);
        let plain = verify_by_interpreter(&precomputed, index, flags, &mut Immediate, &mut scratch);
        assert_eq!(verdict, plain, "with templates and without, under {flags:?}");
        let ways: [(&dyn Batch, Deferred); 3] =
            [(&OneByOne, Deferred::new()), (&OneByOne, Deferred::with_pairs()), (&Compared, Deferred::with_pairs())];
        for (batch, mut deferred) in ways {
            let later = verify_all([(&precomputed, index)], flags, batch, &mut deferred, &mut scratch);
            assert_eq!(later.map_err(|(_, why)| why), verdict, "deferred, under {flags:?}");
        }
        let legacy = sigops::count(input.script_sig(), false);
        assert!(sigops::count(input.script_sig(), true) <= legacy, "accurate counts are never higher");
        let _ = sigops::p2sh(input.script_sig(), coin.script);
        let _ = sigops::witness(input.script_sig(), coin.script, input.witness(), flags);
        first = first.or(Some(verdict));
    }
    first
}

/// Flags (made consistent), coin, transaction.
fn read(data: &[u8]) -> Result<(Flags, SpentOutput<'_>, &[u8]), DecodeError> {
    let mut reader = Reader::new(data);
    let bits = reader.u32()?;
    let named = Flags::NAMES.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    let mut flags = named.fold(Flags::NONE, |flags, (_, &(_, flag))| flags | flag);
    if !flags.has(Flags::P2SH) {
        flags = flags & !Flags::WITNESS;
    }
    if !flags.has(Flags::WITNESS) {
        flags = flags & !Flags::CLEANSTACK;
    }
    let value = Amount(reader.u64()?.cast_signed());
    let length = usize::from(reader.u16()?);
    let script = reader.take(length)?;
    Ok((flags, SpentOutput { value, script }, reader.take(reader.remaining())?))
}
