//! Experiment: a header's hash computed at every use, or once.
//!
//! Core needed the hash of a block hundreds of times while it processed the block; here the hash of every header is
//! needed ten times.

use crate::bench::Bench;
use crate::input::{Inputs, Rng};
use crate::{Error, Experiment};
use kernels::Kernels;
use primitives::Header;
use std::hint::black_box;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[NAME], run };

const NAME: &str = "header hash: asked for ten times";
const ASKS: usize = 10;

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let count = bench.size(20, 2_000);
    let bytes = Rng(14).bytes(count * 80);
    let headers: &[[u8; 80]] = bytes.as_chunks().0;
    let first = |hash: &[u8; 32]| u64::from_le_bytes(*hash.first_chunk().expect("8 of 32 bytes"));
    let Some(mut table) = bench.table(NAME, "ask", count * ASKS) else { return Ok(()) };
    table.way("each time", move || {
        asked(
            headers
                .iter()
                .flat_map(|header| (0..ASKS).map(move |_| first(&Header(*black_box(header)).hash().to_bytes()))),
        )
    });
    table.way("kept by the maker of the header", move || {
        asked(headers.iter().flat_map(|header| {
            let hash = Header(*header).hash();
            (0..ASKS).map(move |_| first(black_box(&hash).as_bytes()))
        }))
    });
    table.way("many at once in lanes, kept", move || {
        let mut hashes = vec![[0; 32]; headers.len()];
        Kernels::AUTO.sha256d_80(headers, &mut hashes);
        asked(hashes.iter().flat_map(|hash| (0..ASKS).map(move |_| first(black_box(hash)))))
    });
    table.shipped();
    bench.run(table)
}

fn asked(answers: impl Iterator<Item = u64>) -> u64 {
    answers.fold(0, |sum, answer| sum.rotate_left(1) ^ answer)
}
