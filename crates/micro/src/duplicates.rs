//! Experiment: no two inputs of a transaction may spend the same coin, and no input may have a null outpoint.

use crate::bench::Bench;
use crate::input::{Inputs, Rng};
use crate::{Error, Experiment};
use consensus::transaction::{Scratch, check_duplicate_inputs, check_prevouts};
use primitives::{OutPoint, Tables, Transaction};
use std::collections::{BTreeSet, HashSet};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[MANY, ONE, TWO, BLOCK, NULL], run };

const MANY: &str = "duplicate inputs: one transaction that fills a block";
const BLOCK: &str = "duplicate inputs: every transaction of a full block";
const ONE: &str = "duplicate inputs: one input";
const TWO: &str = "duplicate inputs: two inputs";
const NULL: &str = "null prevouts: a full block";
/// Number of inputs that fit in a block: 41 bytes each, without witness.
const INPUTS_MAX: usize = 24_386;

/// The 36 bytes of a null prevout.
const NULL_PREVOUT: [u8; 36] = {
    let mut bytes = [0; 36];
    let mut at = 32;
    while at < 36 {
        bytes[at] = 0xff;
        at += 1;
    }
    bytes
};

/// Whether two inputs are the same.
type HasDuplicate = fn(&Transaction<'_>, &mut Scratch) -> bool;

const WAYS: [(&str, HasDuplicate); 5] = [
    ("ordered set", |tx, _| {
        let mut seen = BTreeSet::new();
        !tx.inputs().all(|input| seen.insert(input.prevout()))
    }),
    ("hash set", |tx, _| {
        let mut seen = HashSet::new();
        !tx.inputs().all(|input| seen.insert(input.prevout()))
    }),
    ("sorted vector", |tx, _| sorted_has(tx)),
    ("sorted vector, one and two apart", |tx, _| match tx.input_count() {
        0 | 1 => false,
        2 => tx.input(0).prevout() == tx.input(1).prevout(),
        _ => sorted_has(tx),
    }),
    ("sorted 64-bit keys, one and two apart", |tx, scratch| check_duplicate_inputs(tx, scratch).is_err()),
];

fn sorted_has(tx: &Transaction<'_>) -> bool {
    let mut prevouts: Vec<OutPoint> = tx.inputs().map(|input| input.prevout()).collect();
    prevouts.sort_unstable();
    prevouts.windows(2).any(|pair| pair[0] == pair[1])
}

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    for (name, count) in [(MANY, bench.size(100, INPUTS_MAX)), (ONE, 1), (TWO, 2)] {
        // Inputs with and without a duplicate: both verdicts are compared, and the usual case is timed.
        let good = transaction(count, None);
        let bad = transaction(count.max(2), Some(0));
        let mut tables = [Tables::new(), Tables::new()];
        let [of_good, of_bad] = &mut tables;
        let good = parsed(of_good, &good)?;
        let bad = parsed(of_bad, &bad)?;
        let Some(mut table) = bench.table(name, "transaction", 1) else { continue };
        for (way, has) in WAYS {
            let mut scratch = Scratch::default();
            let result = (has(&good, &mut scratch), has(&bad, &mut scratch));
            table.add(way, result, move || Ok(has(&good, &mut scratch)));
        }
        table.shipped();
        bench.run(table)?;
    }
    let sample = inputs.full()?;
    let tables = sample.tables()?;
    let block = tables.block(&sample.bytes);
    if let Some(mut table) = bench.table(BLOCK, "block", 1) {
        for (way, has) in WAYS {
            let mut scratch = Scratch::default();
            table.way(way, move || block.transactions().filter(|tx| has(tx, &mut scratch)).count());
        }
        table.shipped();
        bench.run(table)?;
    }
    let Some(mut table) = bench.table(NULL, "block", 1) else { return Ok(()) };
    let is_null = |tx: &Transaction<'_>| tx.inputs().any(|input| input.prevout().is_null());
    table.way("outpoint built, then compared", move || block.transactions().filter(is_null).count());
    let whole = |tx: &Transaction<'_>| tx.inputs().any(|input| *input.prevout_bytes() == NULL_PREVOUT);
    table.way("36 bytes compared in place", move || block.transactions().filter(whole).count());
    table.way("number first, then the hash", move || {
        block.transactions().filter(|tx| check_prevouts(tx).is_err()).count()
    });
    table.shipped();
    bench.run(table)
}

fn parsed<'a>(tables: &'a mut Tables, bytes: &'a [u8]) -> Result<Transaction<'a>, Error> {
    tables.parse_transaction(bytes).map_err(|why| Error::Broken(format!("a made transaction: {why}")))
}

/// A transaction with one output and `count` inputs of different coins; the last input repeats input `again`, if that
/// is given.
fn transaction(count: usize, again: Option<usize>) -> Vec<u8> {
    let mut rng = Rng(8);
    let mut prevouts: Vec<Vec<u8>> = (0..count).map(|_| [rng.bytes(32), vec![1, 0, 0, 0]].concat()).collect();
    if let Some(again) = again {
        prevouts[count - 1] = prevouts[again].clone();
    }
    let mut bytes = vec![2, 0, 0, 0];
    primitives::encode::put_compact_size(&mut bytes, count as u64);
    for prevout in prevouts {
        bytes.extend_from_slice(&prevout);
        bytes.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff]);
    }
    bytes.extend_from_slice(&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0; 4]);
    bytes
}
