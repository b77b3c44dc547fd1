//! The context-free rules of a transaction.
//!
//! Absent on purpose: scripts are counted for signature operations, never run; coins are unknown here (`spend`).

use crate::verdict::Rule;
use crate::{MAX_BLOCK_WEIGHT, WITNESS_SCALE_FACTOR};
use primitives::{Amount, Height, Transaction};
use script::sigops;

/// A lower locktime is a height; this and higher ones are times. Source: Bitcoin Core b88bffe, `LOCKTIME_THRESHOLD`.
pub const LOCKTIME_THRESHOLD: u32 = 500_000_000;
/// The sequence of an input that ignores the locktime. Source: Bitcoin Core b88bffe, `SEQUENCE_FINAL`.
pub const SEQUENCE_FINAL: u32 = u32::MAX;
/// Allowed lengths of a coinbase's scriptSig in bytes.
const COINBASE_SCRIPT_BYTES: std::ops::RangeInclusive<usize> = 2..=100;
/// Memory for one transaction's prevouts, reused for the next.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    keys: Vec<u64>,
    prevouts: Vec<[u8; 36]>,
}

/// A transaction MUST have an input (`bad-txns-vin-empty`) and an output (`bad-txns-vout-empty`).
pub fn check_not_empty(tx: &Transaction<'_>) -> Result<(), Rule> {
    if tx.input_count() == 0 {
        return Err(Rule::BadTxnsVinEmpty);
    }
    if tx.output_count() == 0 {
        return Err(Rule::BadTxnsVoutEmpty);
    }
    Ok(())
}

/// A transaction without its witnesses MUST NOT have more than 1,000,000 bytes: `bad-txns-oversize`.
pub fn check_size(tx: &Transaction<'_>) -> Result<(), Rule> {
    let stripped_bytes = tx.stripped_bytes();
    if stripped_bytes * WITNESS_SCALE_FACTOR > MAX_BLOCK_WEIGHT {
        return Err(Rule::BadTxnsOversize { stripped_bytes });
    }
    Ok(())
}

/// The sum of the outputs.
///
/// An output MUST NOT be negative (`bad-txns-vout-negative`) or above 21 million bitcoins (`bad-txns-vout-toolarge`),
/// nor may the sum of the outputs exceed that (`bad-txns-txouttotal-toolarge`).
///
/// Source: Bitcoin Core b88bffe, `CheckTransaction`.
pub fn value_out(tx: &Transaction<'_>) -> Result<Amount, Rule> {
    let mut sum = Amount(0);
    for output in tx.outputs() {
        let value = output.value();
        if value < Amount(0) {
            return Err(Rule::BadTxnsVoutNegative { value });
        }
        if value > Amount::MAX {
            return Err(Rule::BadTxnsVoutToolarge { value });
        }
        sum = sum.plus(value).ok_or(Rule::BadTxnsTxouttotalToolarge)?;
    }
    Ok(sum)
}

/// No two inputs MUST spend the same coin: `bad-txns-inputs-duplicate` (CVE-2018-17144).
///
/// One input needs no check, two are compared. More are sorted by 64 bits of their prevouts; only if two of these are
/// equal (a duplicate, or crafted txids) the whole prevouts are sorted.
#[inline]
pub fn check_duplicate_inputs(tx: &Transaction<'_>, scratch: &mut Scratch) -> Result<(), Rule> {
    let duplicate = match tx.input_count() {
        0 | 1 => false,
        2 => tx.input(0).prevout_bytes() == tx.input(1).prevout_bytes(),
        _ => many_meet(tx, scratch),
    };
    if duplicate { Err(Rule::BadTxnsInputsDuplicate) } else { Ok(()) }
}

/// A separate function, so that the common cases are inlined in the callers.
#[inline(never)]
fn many_meet(tx: &Transaction<'_>, scratch: &mut Scratch) -> bool {
    keys_meet(tx, &mut scratch.keys) && prevouts_meet(tx, &mut scratch.prevouts)
}

fn keys_meet(tx: &Transaction<'_>, keys: &mut Vec<u64>) -> bool {
    keys.clear();
    keys.extend(tx.inputs().map(|input| {
        let bytes = input.prevout_bytes();
        let txid = u64::from_le_bytes(*bytes.first_chunk().expect("8 of 36 bytes"));
        let vout = u32::from_le_bytes(*bytes.last_chunk().expect("4 of 36 bytes"));
        txid.wrapping_add(u64::from(vout) << 32)
    }));
    sorted_has_equal(keys)
}

fn prevouts_meet(tx: &Transaction<'_>, prevouts: &mut Vec<[u8; 36]>) -> bool {
    prevouts.clear();
    prevouts.extend(tx.inputs().map(|input| *input.prevout_bytes()));
    sorted_has_equal(prevouts)
}

fn sorted_has_equal<T: Ord>(items: &mut [T]) -> bool {
    items.sort_unstable();
    items.windows(2).any(|pair| pair[0] == pair[1])
}

/// The scriptSig of a coinbase MUST have 2 to 100 bytes: `bad-cb-length`.
pub fn check_coinbase_length(coinbase: &Transaction<'_>) -> Result<(), Rule> {
    let bytes = coinbase.input(0).script_sig().len();
    if COINBASE_SCRIPT_BYTES.contains(&bytes) { Ok(()) } else { Err(Rule::BadCbLength { bytes }) }
}

/// Every input of a transaction except a coinbase MUST name a coin: `bad-txns-prevout-null`.
///
/// The output number is checked first: no coin has that of the null prevout, so 4 of 36 bytes nearly always decide
/// (three times as fast; `lab micro null`).
#[inline]
pub fn check_prevouts(tx: &Transaction<'_>) -> Result<(), Rule> {
    let is_null = |bytes: &[u8; 36]| bytes[32..] == [0xff; 4] && bytes[..32] == [0; 32];
    if tx.inputs().any(|input| is_null(input.prevout_bytes())) {
        return Err(Rule::BadTxnsPrevoutNull);
    }
    Ok(())
}

/// Checks all of these rules, in Core's order.
///
/// Source: Bitcoin Core b88bffe, `CheckTransaction`.
pub fn check(tx: &Transaction<'_>, scratch: &mut Scratch) -> Result<(), Rule> {
    check_not_empty(tx)?;
    check_size(tx)?;
    value_out(tx)?;
    check_duplicate_inputs(tx, scratch)?;
    if tx.is_coinbase() { check_coinbase_length(tx) } else { check_prevouts(tx) }
}

/// Whether the locktime permits a transaction in a block of this height; `cutoff` is in seconds since 1970.
///
/// Source: Bitcoin Core b88bffe, `IsFinalTx`.
#[inline]
pub fn is_final(tx: &Transaction<'_>, height: Height, cutoff: u32) -> bool {
    let lock_time = tx.lock_time();
    let end = if lock_time < LOCKTIME_THRESHOLD { height.to_u32() } else { cutoff };
    lock_time == 0 || lock_time < end || tx.inputs().all(|input| input.sequence() == SEQUENCE_FINAL)
}

/// Signature operations of all its own scripts, counted with the legacy method.
///
/// Source: Bitcoin Core b88bffe, `GetLegacySigOpCount`.
pub fn legacy_sigops(tx: &Transaction<'_>) -> u32 {
    let inputs = tx.inputs().map(|input| sigops::count(input.script_sig(), false));
    let outputs = tx.outputs().map(|output| sigops::count(output.script(), false));
    // The count of a transaction within the size limits is far below 2^32; a larger transaction is refused for its
    // size.
    inputs.chain(outputs).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Tables;

    /// Inputs that name these coins: a txid of one byte value, and a number.
    fn with_prevouts(prevouts: &[([u8; 32], u32)]) -> Vec<u8> {
        let mut bytes = vec![1, 0, 0, 0];
        primitives::encode::put_compact_size(&mut bytes, prevouts.len() as u64);
        for (txid, vout) in prevouts {
            bytes.extend_from_slice(txid);
            bytes.extend_from_slice(&vout.to_le_bytes());
            bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff]);
        }
        bytes.extend_from_slice(&[0, 0, 0, 0, 0]);
        bytes
    }

    fn duplicate(prevouts: &[([u8; 32], u32)]) -> bool {
        let bytes = with_prevouts(prevouts);
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&bytes).unwrap();
        match check_duplicate_inputs(&tx, &mut Scratch::default()) {
            Ok(()) => false,
            Err(rule) => rule == Rule::BadTxnsInputsDuplicate,
        }
    }

    #[test]
    fn duplicate_inputs_found_at_any_position() {
        let id = |n: u8| [n; 32];
        // The same 64 bits, another txid: only the whole prevout tells them apart.
        let mut near = id(1);
        near[31] = 9;
        let mut meets = id(1);
        meets[4] = 2; // One more in bits 32 to 39 of the txid is as good as one more in vout.
        for (row, prevouts, want) in [
            ("one", vec![(id(1), 0)], false),
            ("two", vec![(id(1), 0), (id(1), 1)], false),
            ("two equal", vec![(id(1), 0), (id(1), 0)], true),
            ("three", vec![(id(1), 0), (id(2), 0), (id(1), 1)], false),
            ("first and third", vec![(id(1), 0), (id(2), 0), (id(1), 0)], true),
            ("same 64 bits", vec![(id(1), 0), (id(2), 0), (near, 0)], false),
            ("same 64 bits and a pair", vec![(id(1), 0), (id(2), 7), (near, 0), (id(2), 7)], true),
            ("keys that meet", vec![(id(1), 1), (id(3), 0), (meets, 0)], false),
        ] {
            assert_eq!(duplicate(&prevouts), want, "{row}");
        }
        // Against the plain way, on random lists with few different coins.
        let mut rng = testkit::Rng::new(7);
        let mut next = |bound| rng.below(bound) as u32;
        let mut seen = [0, 0];
        for _ in 0..3000 {
            let prevouts: Vec<_> = (0..1 + next(9)).map(|_| (id(next(5) as u8), next(6))).collect();
            let plain = (1..prevouts.len()).any(|at| prevouts[..at].contains(&prevouts[at]));
            assert_eq!(duplicate(&prevouts), plain, "{prevouts:?}");
            seen[usize::from(plain)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 500), "{seen:?}");
    }

    /// Against the plain way, an outpoint that is compared whole: the null one, and with any one byte changed.
    #[test]
    fn null_prevout_needs_hash_and_number() {
        let null = [&[0; 32][..], &[0xff; 4]].concat();
        let changed = (0..36).map(|at| {
            let mut bytes = null.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        });
        let rows = [null.clone(), vec![0; 36], vec![0xff; 36]].into_iter().chain(changed);
        let mut seen = 0;
        for row in rows {
            let prevout = (*row.first_chunk().unwrap(), u32::from_le_bytes(*row.last_chunk().unwrap()));
            let bytes = with_prevouts(&[([9; 32], 0), prevout]);
            let mut tables = Tables::new();
            let tx = tables.parse_transaction(&bytes).unwrap();
            let plain = tx.inputs().any(|input| input.prevout().is_null());
            seen += usize::from(plain);
            assert_eq!(check_prevouts(&tx), if plain { Err(Rule::BadTxnsPrevoutNull) } else { Ok(()) }, "{row:?}");
        }
        assert_eq!(seen, 1, "only the null one is null");
    }

    /// Locktime, sequences, height 100, cutoff 600,000,000.
    #[test]
    fn is_final_by_locktime_and_sequence() {
        for (lock_time, sequences, want) in [
            (0, [0, 0], true),
            (99, [0, 0], true),
            (100, [0, 0], false),
            (100, [u32::MAX, u32::MAX], true),
            (100, [u32::MAX, u32::MAX - 1], false),
            (499_999_999, [0, 0], false),
            (500_000_000, [0, 0], true),
            (599_999_999, [0, 0], true),
            (600_000_000, [0, 0], false),
            (u32::MAX, [u32::MAX, u32::MAX], true),
        ] {
            let mut bytes = with_prevouts(&[([1; 32], 0), ([2; 32], 0)]);
            for (at, sequence) in [46 - 4, 87 - 4].into_iter().zip(sequences) {
                bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(sequence));
            }
            let end = bytes.len();
            bytes[end - 4..].copy_from_slice(&u32::to_le_bytes(lock_time));
            let mut tables = Tables::new();
            let tx = tables.parse_transaction(&bytes).unwrap();
            assert_eq!(tx.input(0).sequence(), sequences[0]);
            assert_eq!(is_final(&tx, Height::new(100), 600_000_000), want, "{lock_time} {sequences:?}");
        }
    }
}
