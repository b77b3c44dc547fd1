//! Experiment: read scripts and other byte strings from a block.
//!
//! A length from outside is untrusted: a string that is longer than the input must fail before anything large is
//! allocated.

use crate::bench::Bench;
use crate::input::{Digest, Inputs, Mix, Rng};
use crate::owned;
use crate::{Error, Experiment};
use primitives::Reader;
use primitives::encode::put_compact_size;
use std::hint::black_box;
use std::io::Write;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[SCRIPTS, EMPTY, LARGE, OVERSIZED, WRITE], run };

const SCRIPTS: &str = "byte strings: scripts, some empty";
const EMPTY: &str = "byte strings: all empty";
const LARGE: &str = "byte strings: 1 MB";
const OVERSIZED: &str = "byte strings: 32 MiB said, 100 bytes there";
const WRITE: &str = "byte strings: writing, 107 bytes";
/// Size of a P2PKH input's script: two pushes, a signature and a key.
const INPUT_SCRIPT_BYTES: usize = 107;
/// Size of the pieces in the variant that reads in pieces.
const PIECE_BYTES: usize = 4096;

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let mut rng = Rng(6);
    let mut scripts = Vec::new();
    let count = bench.size(100, 10_000);
    for at in 0..count {
        // Half of the strings of a block are the empty scriptSigs of witness inputs.
        put(&mut scripts, &if at % 2 == 0 { Vec::new() } else { Mix::In2025.script(&mut rng) });
    }
    one(bench, SCRIPTS, &scripts, count)?;
    one(bench, EMPTY, &vec![0; count], count)?;
    let mut large = Vec::new();
    put(&mut large, &rng.bytes(1_000_000));
    one(bench, LARGE, &large, 1)?;
    let mut oversized = Vec::new();
    put_compact_size(&mut oversized, 32 * 1024 * 1024);
    oversized.extend_from_slice(&rng.bytes(100));
    one(bench, OVERSIZED, &oversized, 1)?;
    write(bench, &mut rng)
}

/// Consecutive strings, each preceded by its length.
fn write(bench: &mut Bench<'_>, rng: &mut Rng) -> Result<(), Error> {
    let count = bench.size(100, 10_000);
    let strings: Vec<Vec<u8>> = (0..count).map(|_| rng.bytes(INPUT_SCRIPT_BYTES)).collect();
    let strings = &strings[..];
    let Some(mut table) = bench.table(WRITE, "string", count) else { return Ok(()) };
    table.way("a stream, byte after byte", move || {
        let mut out = Vec::new();
        for string in strings {
            owned::write_compact_size(&mut out, string.len() as u64).expect("memory takes everything");
            for byte in string {
                let to: &mut dyn Write = &mut out;
                to.write_all(std::slice::from_ref(byte)).expect("memory takes everything");
            }
        }
        out
    });
    table.way("a stream, whole strings", move || {
        let mut out = Vec::new();
        for string in strings {
            let mut to: &mut dyn Write = &mut out;
            owned::write_compact_size(&mut to, string.len() as u64)
                .and_then(|()| to.write_all(string))
                .expect("memory takes everything");
        }
        out
    });
    let appended = move |room: usize| {
        let mut out = Vec::with_capacity(room);
        for string in strings {
            put(&mut out, string);
        }
        out
    };
    table.way("appended", move || appended(0));
    table.way("appended, room reserved", move || appended(count * (INPUT_SCRIPT_BYTES + 1))).shipped();
    bench.run(table)
}

fn put(out: &mut Vec<u8>, string: &[u8]) {
    put_compact_size(out, string.len() as u64);
    out.extend_from_slice(string);
}

/// Reads a string; `None` if its length exceeds the input.
type ReadOne = fn(&mut &[u8]) -> Option<Vec<u8>>;

fn one(bench: &mut Bench<'_>, name: &'static str, bytes: &[u8], count: usize) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "string", count) else { return Ok(()) };
    let ways: [(&str, ReadOne); 4] = [
        ("byte by byte", by_bytes),
        ("pieces of 4 KiB", |from| in_pieces(from, PIECE_BYTES)),
        ("pieces of 5 MB", |from| owned::read_bytes(from).ok()),
        ("one piece, length checked first", at_once),
    ];
    for (way, read) in ways {
        let mut digest = Digest::default();
        let mut rest = bytes;
        (0..count).for_each(|_| add(&mut digest, read(&mut rest).as_deref()));
        let work = move || {
            let mut rest = bytes;
            (0..count).for_each(|_| {
                black_box(read(&mut rest));
            });
            Ok(())
        };
        table.add(way, digest, work);
    }
    let mut digest = Digest::default();
    let mut reader = Reader::new(bytes);
    (0..count).for_each(|_| add(&mut digest, borrowed(&mut reader)));
    let work = move || {
        let mut reader = Reader::new(bytes);
        (0..count).for_each(|_| {
            black_box(borrowed(&mut reader));
        });
        Ok(())
    };
    table.add("borrowed, not copied", digest, work).shipped();
    bench.run(table)
}

fn add(digest: &mut Digest, string: Option<&[u8]>) {
    match string {
        Some(string) => digest.add(string),
        None => digest.add_u64(u64::MAX),
    }
}

fn borrowed<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let bytes = reader.compact_size().ok()?;
    reader.take(bytes).ok()
}

fn by_bytes(from: &mut &[u8]) -> Option<Vec<u8>> {
    let count = owned::read_compact_size(from).ok()?;
    let mut out = Vec::new();
    for _ in 0..count {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        out.push(byte);
    }
    Some(out)
}

fn in_pieces(from: &mut &[u8], piece: usize) -> Option<Vec<u8>> {
    let count = owned::read_compact_size(from).ok()? as usize;
    let mut out = Vec::new();
    while out.len() < count {
        let (now, rest) = from.split_at_checked((count - out.len()).min(piece))?;
        *from = rest;
        out.extend_from_slice(now);
    }
    Some(out)
}

fn at_once(from: &mut &[u8]) -> Option<Vec<u8>> {
    let count = owned::read_compact_size(from).ok()? as usize;
    let (now, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(now.to_vec())
}
