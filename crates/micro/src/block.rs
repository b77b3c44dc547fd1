//! Experiment: process whole blocks: parse, parse with ids, check, read from disk, write.
//!
//! The plain variant uses objects for everything, single hashes, and sets for duplicates; another uses the `bitcoin`
//! crate. Blocks are 413567 of mainnet, which Core's benchmarks use, and a full one like those of 2025.

use crate::bench::Bench;
use crate::block_io;
use crate::hashes::root_by;
use crate::input::{Digest, Inputs, Sample};
use crate::library;
use crate::owned;
use crate::{Error, Experiment};
use consensus::block::{Scratch, check};
use kernels::sha256::Lanes;
use primitives::{Tables, Txid};
use script::sigops;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    tables: &[
        REAL.parse, REAL.ids, REAL.check, REAL.read, REAL.write, FULL.parse, FULL.ids, FULL.check, FULL.read,
        FULL.write,
    ],
    run,
};

/// The names of one block's tables.
struct Names {
    parse: &'static str,
    ids: &'static str,
    check: &'static str,
    read: &'static str,
    write: &'static str,
}

const REAL: Names = Names {
    parse: "block 413567: parse",
    ids: "block 413567: parse and ids",
    check: "block 413567: check",
    read: "block 413567: read from disk",
    write: "block 413567: write",
};
const FULL: Names = Names {
    parse: "full block of 2025: parse",
    ids: "full block of 2025: parse and ids",
    check: "full block of 2025: check",
    read: "full block of 2025: read from disk",
    write: "full block of 2025: write",
};
const OBJECTS: &str = "objects, field by field";
const SHIPPED: &str = "tables of offsets, lanes";
const MONEY_MAX: i64 = 2_100_000_000_000_000;

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    one(bench, &REAL, inputs.real()?, &inputs.directory("block-413567")?)?;
    one(bench, &FULL, inputs.full()?, &inputs.directory("block-2025")?)
}

fn one(bench: &mut Bench<'_>, names: &Names, sample: &Sample, dir: &Path) -> Result<(), Error> {
    parse(bench, names.parse, sample)?;
    ids(bench, names.ids, sample)?;
    check_table(bench, names.check, sample)?;
    block_io::read_table(bench, names.read, sample, dir)?;
    block_io::write_table(bench, names.write, sample, dir)
}

fn parse(bench: &mut Bench<'_>, name: &'static str, sample: &Sample) -> Result<(), Error> {
    let plain = block_io::bytes_of(&block_io::parsed(sample)?);
    let objects = |block: &owned::Block| {
        let inputs = block.transactions.iter().map(|tx| tx.inputs.len()).sum();
        let outputs = block.transactions.iter().map(|tx| tx.outputs.len()).sum();
        (Digest::of(&plain), block.transactions.len(), inputs, outputs)
    };
    let result: (Digest, usize, usize, usize) = objects(&block_io::parsed(sample)?);
    let Some(mut table) = bench.table(name, "block", 1) else { return Ok(()) };
    table.add(sample.name(OBJECTS), result, || block_io::parsed(sample));
    let theirs = library::parse(&sample.bytes)?;
    let counts = (
        theirs.txdata.len(),
        theirs.txdata.iter().map(|tx| tx.input.len()).sum(),
        theirs.txdata.iter().map(|tx| tx.output.len()).sum(),
    );
    let result = (Digest::of(&library::bytes_of(&theirs)), counts.0, counts.1, counts.2);
    table.add(sample.name(library::OBJECTS), result, || library::parse(&sample.bytes));
    let fresh = || {
        let tables = sample.tables()?;
        let block = tables.block(&sample.bytes);
        Ok::<_, Error>((
            Digest::of(block.bytes()),
            block.transaction_count(),
            block.input_count(),
            block.output_count(),
        ))
    };
    table.add(sample.name("tables of offsets, new ones"), fresh()?, || sample.tables());
    let mut tables = Tables::new();
    table.add(sample.name("tables of offsets, used again"), fresh()?, move || {
        let block = tables.parse_block(&sample.bytes).map_err(|why| Error::Broken(why.to_string()))?;
        Ok(block.transaction_count())
    });
    table.shipped();
    bench.run(table)
}

fn ids(bench: &mut Bench<'_>, name: &'static str, sample: &Sample) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "block", 1) else { return Ok(()) };
    table.try_way(sample.name(OBJECTS), || {
        let block = block_io::parsed(sample)?;
        Ok(block.transactions.iter().map(owned::Transaction::txid).collect::<Vec<Txid>>())
    })?;
    table.try_way(sample.name(library::OBJECTS), || Ok(library::ids(&library::parse(&sample.bytes)?)))?;
    table.try_way(sample.name("tables of offsets, one by one"), || {
        let tables = sample.tables()?;
        Ok(tables.block(&sample.bytes).transactions().map(|tx| tx.txid()).collect())
    })?;
    let mut tables = Tables::new();
    table.try_way(sample.name(SHIPPED), move || {
        let block = tables.parse_block(&sample.bytes).map_err(|why| Error::Broken(why.to_string()))?;
        let mut ids = Vec::new();
        block.txids_into(&mut ids);
        Ok(ids)
    })?;
    table.shipped();
    bench.run(table)
}

/// Context-free block rules, for a parsed block with known ids.
fn check_table(bench: &mut Bench<'_>, name: &'static str, sample: &Sample) -> Result<(), Error> {
    let block = &block_io::parsed(sample)?;
    let ids: Vec<Txid> = block.transactions.iter().map(owned::Transaction::txid).collect();
    let ids = &ids[..];
    let tables = &sample.tables()?;
    let Some(mut table) = bench.table(name, "block", 1) else { return Ok(()) };
    table.way(sample.name(OBJECTS), move || plain_check(block, ids));
    let theirs = library::parse(&sample.bytes)?;
    let their_ids = library::library_ids(ids);
    table.way(sample.name(library::OBJECTS), move || library::check(&theirs, &their_ids));
    let mut sigops = Vec::new();
    let mut scratch = Scratch::default();
    table.way(sample.name(SHIPPED), move || {
        let block = tables.block(&sample.bytes);
        check(&sample.params, &block, &block.header().hash(), ids, &mut sigops, &mut scratch)
            .ok()
            .map(|()| sigops.iter().sum())
    });
    table.shipped();
    bench.run(table)
}

/// Signature operations of a block; `None` if it breaks a context-free rule.
fn plain_check(block: &owned::Block, ids: &[Txid]) -> Option<u32> {
    let mut stripped = owned::Counter::default();
    block.write(&mut stripped, false).ok()?;
    let (merkle_root, mutated) = root_by(Lanes::PORTABLE, ids.iter().map(|id| id.to_bytes()).collect());
    let is_coinbase = |tx: &owned::Transaction| tx.inputs.len() == 1 && tx.inputs[0].prevout.is_null();
    let coinbases = block.transactions.iter().position(is_coinbase) == Some(0)
        && !block.transactions.iter().skip(1).any(is_coinbase);
    let sound = block.transactions.iter().all(|tx| plain_check_transaction(tx, is_coinbase(tx)));
    if stripped.0 > 1_000_000 || merkle_root != block.header.merkle_root || mutated || !coinbases || !sound {
        return None;
    }
    let count = |tx: &owned::Transaction| -> u32 {
        let inputs: u32 = tx.inputs.iter().map(|input| sigops::count(&input.script_sig, false)).sum();
        inputs + tx.outputs.iter().map(|output| sigops::count(&output.script, false)).sum::<u32>()
    };
    Some(block.transactions.iter().map(count).sum()).filter(|&sigops| sigops <= 20_000)
}

fn plain_check_transaction(tx: &owned::Transaction, is_coinbase: bool) -> bool {
    let mut bytes = owned::Counter::default();
    if tx.write(&mut bytes, false).is_err() || bytes.0 > 1_000_000 || tx.inputs.is_empty() || tx.outputs.is_empty() {
        return false;
    }
    let mut sum = 0;
    for output in &tx.outputs {
        sum += output.value;
        if !(0..=MONEY_MAX).contains(&output.value) || !(0..=MONEY_MAX).contains(&sum) {
            return false;
        }
    }
    let mut seen = BTreeSet::new();
    tx.inputs.iter().all(|input| seen.insert(input.prevout))
        && if is_coinbase {
            (2..=100).contains(&tx.inputs[0].script_sig.len())
        } else {
            !tx.inputs.iter().any(|input| input.prevout.is_null())
        }
}
