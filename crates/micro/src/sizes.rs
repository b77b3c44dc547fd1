//! Experiment: the serialized size of a block, and its serialization.

use crate::bench::Bench;
use crate::block_io::parsed;
use crate::input::{Digest, Inputs};
use crate::owned::{self, Counter, Transaction};
use crate::{Error, Experiment};
use primitives::encode::compact_size_bytes;
use std::hint::black_box;
use std::io::Write;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[WEIGHT, WRITE], run };

const WEIGHT: &str = "size computing: weight of a block";
const WRITE: &str = "serialization: a block to memory";
/// Size of the pieces in which one of the variants writes a block.
const CHUNK_BYTES: usize = 4096;

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let sample = inputs.full()?;
    let block = &parsed(sample)?;
    let tables = &sample.tables()?;
    if let Some(mut table) = bench.table(WEIGHT, "block", 1) {
        table.way("generic writer to a counter", || 3 * counted(block, false) + counted(block, true));
        table.way("specialised size", || 3 * specialised(block, false) + specialised(block, true));
        let sizes: Vec<(u64, u64)> =
            block.transactions.iter().map(|tx| (bytes_of(tx, false), bytes_of(tx, true))).collect();
        table.way("size kept in each transaction", move || {
            let (stripped, whole) = sizes.iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
            let head = 80 + compact_size_bytes(sizes.len() as u64) as u64;
            3 * (head + stripped) + head + whole
        });
        table.way("from the table of offsets", || {
            let block = tables.block(&sample.bytes);
            let stripped: usize = block.transactions().map(|tx| tx.stripped_bytes()).sum();
            let head = 80 + compact_size_bytes(block.transaction_count() as u64);
            (3 * (head + stripped) + block.bytes().len()) as u64
        });
        table.way("summed while parsing", || black_box(tables.block(&sample.bytes)).weight() as u64).shipped();
        bench.run(table)?;
    }
    let Some(mut table) = bench.table(WRITE, "block", 1) else { return Ok(()) };
    table.add("field by field, no room reserved", Digest::of(&fields(block, 0)), || Ok(fields(block, 0)));
    let sized = || fields(block, counted(block, true) as usize);
    table.add("field by field, size computed first", Digest::of(&sized()), move || Ok(sized()));
    table.add("field by field, in chunks of 4 KiB", Digest::of(&chunks(block)), || Ok(chunks(block)));
    let copied = move || tables.block(&sample.bytes).bytes().to_vec();
    table.add("bytes as they came", Digest::of(&copied()), move || Ok(copied())).shipped();
    bench.run(table)
}

fn fields(block: &owned::Block, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room);
    block.write(&mut out, true).expect("memory takes everything");
    out
}

fn chunks(block: &owned::Block) -> Vec<u8> {
    let mut out = std::io::BufWriter::with_capacity(CHUNK_BYTES, Vec::new());
    block.write(&mut out, true).and_then(|()| out.flush()).expect("memory takes everything");
    out.into_inner().expect("it was just flushed")
}

fn counted(block: &owned::Block, witness: bool) -> u64 {
    let mut counter = Counter::default();
    block.write(&mut counter, witness).expect("counting cannot fail");
    counter.0
}

fn specialised(block: &owned::Block, witness: bool) -> u64 {
    let count = compact_size_bytes(block.transactions.len() as u64) as u64;
    80 + count + block.transactions.iter().map(|tx| bytes_of(tx, witness)).sum::<u64>()
}

fn string(bytes: &[u8]) -> u64 {
    (compact_size_bytes(bytes.len() as u64) + bytes.len()) as u64
}

/// The size, by arithmetic.
fn bytes_of(tx: &Transaction, witness: bool) -> u64 {
    let counts = compact_size_bytes(tx.inputs.len() as u64) + compact_size_bytes(tx.outputs.len() as u64);
    let inputs: u64 = tx.inputs.iter().map(|input| 40 + string(&input.script_sig)).sum();
    let outputs: u64 = tx.outputs.iter().map(|output| 8 + string(&output.script)).sum();
    let mut bytes = 8 + counts as u64 + inputs + outputs;
    if witness && tx.has_witness() {
        let stack = |items: &Vec<Vec<u8>>| {
            compact_size_bytes(items.len() as u64) as u64 + items.iter().map(|item| string(item)).sum::<u64>()
        };
        bytes += 2 + tx.inputs.iter().map(|input| stack(&input.witness)).sum::<u64>();
    }
    bytes
}
