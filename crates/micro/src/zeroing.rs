//! Experiment: zero buffers when they are freed, like allocators for secrets.
//!
//! Nothing in a block chain is secret, so ffwd frees memory without zeroing. Core zeroed the scripts and messages that
//! its network code read.

use crate::bench::Bench;
use crate::input::{Digest, Inputs, Rng};
use crate::{Error, Experiment};
use std::hint::black_box;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[SCRIPT, MESSAGE, FLUSH], run };

const SCRIPT: &str = "zeroed when freed: script of 1,000 bytes";
const MESSAGE: &str = "zeroed when freed: block message of 1.5 MB";
const FLUSH: &str = "zeroed when freed: 32 MiB of a flush";

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let bytes = Rng(13).bytes(bench.size(100_000, 32 * 1024 * 1024));
    one(bench, SCRIPT, &bytes[..1_000], 1_000)?;
    one(bench, MESSAGE, &bytes[..bytes.len().min(1_500_000)], 1_500_000)?;
    // A flush frees its memory in pieces.
    one(bench, FLUSH, &bytes, 64 * 1024)
}

/// The treatment of a buffer before it is freed.
type Free = fn(&mut Vec<u8>);

/// Allocates `bytes` bytes in pieces, each in its own buffer, and frees them.
fn one(bench: &mut Bench<'_>, name: &'static str, bytes: &[u8], piece: usize) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "byte", bytes.len()) else { return Ok(()) };
    let ways: [(&str, Free); 4] = [
        ("zeroed with a barrier", |buffer| {
            buffer.fill(0);
            // The optimizer must assume that the buffer is read.
            black_box(&buffer[..]);
        }),
        ("zeroed, byte by byte", |buffer| {
            buffer.iter_mut().for_each(|byte| {
                *byte = 0;
                black_box(&byte);
            });
        }),
        // The cost of a barrier itself: in Core's measurements it is the larger part on some processors.
        ("a barrier, not zeroed", |buffer| {
            black_box(&buffer[..]);
        }),
        ("not zeroed", |_| {}),
    ];
    for (way, free) in ways {
        let copy = move |digest: Option<&mut Digest>| {
            let mut digest = digest;
            for part in bytes.chunks(piece) {
                let mut buffer = part.to_vec();
                black_box(&buffer[..]);
                if let Some(digest) = digest.as_deref_mut() {
                    digest.add(&buffer);
                }
                free(&mut buffer);
            }
        };
        let mut digest = Digest::default();
        copy(Some(&mut digest));
        table.add(way, digest, move || {
            copy(None);
            Ok(())
        });
    }
    table.shipped();
    bench.run(table)
}
