//! Experiment: fields of a fixed size, read from a stream or from a slice.
//!
//! Eight fields of 32 bytes, such as hashes and keys, are read through the same interface as files and messages.

use crate::bench::Bench;
use crate::input::{Digest, Inputs, Rng};
use crate::{Error, Experiment};
use primitives::Reader;
use std::io::{BufReader, Read};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[READ, SKIP], run };

const READ: &str = "stream: eight fields of 32 bytes";
const SKIP: &str = "stream: seven of eight fields skipped";
const FIELD_BYTES: usize = 32;
const FIELDS: usize = 8;
const RECORD_BYTES: usize = FIELD_BYTES * FIELDS;
/// Buffer size of C's streams.
const STREAM_BYTES: usize = 4096;

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let count = bench.size(100, 20_000);
    let bytes = Rng(21).bytes(count * RECORD_BYTES);
    one(bench, READ, &bytes, FIELDS)?;
    one(bench, SKIP, &bytes, 1)
}

/// Of each record of `bytes` bytes, the first `wanted` fields are read, and the others skipped.
fn one(bench: &mut Bench<'_>, name: &'static str, bytes: &[u8], wanted: usize) -> Result<(), Error> {
    let count = bytes.len() / RECORD_BYTES;
    let Some(mut table) = bench.table(name, "record", count) else { return Ok(()) };
    let streamed = move |mut from: Box<dyn Read + '_>| -> Digest {
        let mut digest = Digest::default();
        let mut field = [0; FIELD_BYTES];
        for _ in 0..count {
            for at in 0..FIELDS {
                from.read_exact(&mut field).expect("memory has it all");
                if at < wanted {
                    digest.add(&field);
                }
            }
        }
        digest
    };
    table.way("a stream with a buffer of 4 KiB", move || {
        streamed(Box::new(BufReader::with_capacity(STREAM_BYTES, bytes)))
    });
    table.way("a stream over memory", move || streamed(Box::new(bytes)));
    table.way("slices, borrowed and checked", move || {
        let mut digest = Digest::default();
        let mut reader = Reader::new(bytes);
        for _ in 0..count {
            for _ in 0..wanted {
                digest.add(reader.take(FIELD_BYTES).expect("memory has it all"));
            }
            reader.take(RECORD_BYTES - wanted * FIELD_BYTES).expect("memory has it all");
        }
        digest
    });
    table.shipped();
    bench.run(table)
}
