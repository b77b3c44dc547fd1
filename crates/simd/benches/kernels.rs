//! Benchmarks of the kernels, each variant by name: `cargo bench -p simd`, or with a word to choose
//! rows, `cargo bench -p simd -- sha256`. Small, and only checked, without `--bench`.
//!
//! A row is the least and the median of 101 runs of a millisecond or more, on this thread, in
//! nanoseconds an operation (`ns/op`) or GB/s (10^9 bytes a second).

use std::hint::black_box;
use std::time::Instant;

use simd::bucket::{Bucket, Buckets};
use simd::memory::Pages;
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
        let repeats = (0.001 / once).ceil().max(1.0);
        let mut runs: Vec<f64> = (0..101)
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

/// Work: double SHA-256 of 1024 messages of one length, in three pieces as a transaction's are, and
/// of pairs and headers. Checked: against the plain kernel.
fn hashes(bench: &mut Bench) {
    let count = bench.size(40, 1024);
    let data = random_bytes(count * 1100);
    let mut out = vec![[0; 32]; count];
    let mut want = out.clone();
    for bytes in [64, 80, 250, 1000] {
        let messages: Vec<Pieces<'_>> =
            data.chunks(1100).map(|data| [&data[..4], &data[7..bytes - 1], &data[1050..1054]]).collect();
        sha256::sha256d_many_with(Lanes::Plain, &messages, &mut want);
        for lanes in Lanes::available() {
            let row = format!("sha256d_many {bytes} B {lanes:?}");
            bench.time(&row, count, count * bytes, || {
                sha256::sha256d_many_with(lanes, black_box(&messages), &mut out);
                assert!(out == want, "{lanes:?} hashes as the plain kernel");
            });
        }
    }
    let pairs: Vec<[u8; 64]> = data.as_chunks().0[..count].to_vec();
    sha256::sha256d_64_with(Lanes::Plain, &pairs, &mut want);
    for lanes in Lanes::available() {
        bench.time(&format!("sha256d_64 {lanes:?}"), count, count * 64, || {
            sha256::sha256d_64_with(lanes, black_box(&pairs), &mut out);
            assert!(out == want, "{lanes:?} hashes as the plain kernel");
        });
    }
    let headers: Vec<[u8; 80]> = data.as_chunks().0[..count].to_vec();
    sha256::sha256d_80_with(Lanes::Plain, &headers, &mut want);
    for lanes in Lanes::available() {
        bench.time(&format!("sha256d_80 {lanes:?}"), count, count * 80, || {
            sha256::sha256d_80_with(lanes, black_box(&headers), &mut out);
            assert!(out == want, "{lanes:?} hashes as the plain kernel");
        });
    }
}

/// Work: the txids of a block of 2500 transactions, most of 190 to 600 bytes, one in 50 up to 10 kB,
/// one of 100 kB, lying one behind the other. Checked: against the plain kernel.
fn transactions(bench: &mut Bench) {
    let count = bench.size(60, 2500);
    let mut state = 3;
    let lengths: Vec<usize> = (0..count)
        .map(|at| match (at, random(&mut state) as usize) {
            (30, _) => 100_000,
            (_, odd) if odd % 50 == 0 => 600 + odd / 64 % 9400,
            (_, odd) => 190 + (odd / 64 % 400) * (odd / 65536 % 400) / 400,
        })
        .collect();
    let total = lengths.iter().sum();
    let block = random_bytes(total);
    let mut rest = &block[..];
    let mut messages: Vec<Pieces<'_>> = Vec::new();
    for length in &lengths {
        let (message, after) = rest.split_at(*length);
        messages.push([&message[..4], &message[4..length - 4], &message[length - 4..]]);
        rest = after;
    }
    let (mut out, mut want) = (vec![[0; 32]; count], vec![[0; 32]; count]);
    sha256::sha256d_many_with(Lanes::Plain, &messages, &mut want);
    for lanes in Lanes::available() {
        bench.time(&format!("a block's txids {lanes:?}"), count, total, || {
            sha256::sha256d_many_with(lanes, black_box(&messages), &mut out);
            assert!(out == want, "{lanes:?} hashes as the plain kernel");
        });
    }
    bench.time("a block's txids, best", count, total, || {
        sha256::sha256d_many(black_box(&messages), &mut out);
        assert!(out == want, "the best kernel hashes as the plain one");
    });
}

/// Work: double SHA-256 of few messages of 250 bytes: where do wide lanes begin to win? Checked:
/// against the plain kernel.
fn crossover(bench: &mut Bench) {
    let data = random_bytes(48 * 250);
    let messages: Vec<Pieces<'_>> = data.chunks(250).map(|data| [&data[..4], &data[4..246], &data[246..]]).collect();
    let mut want = vec![[0; 32]; 48];
    sha256::sha256d_many_with(Lanes::Plain, &messages, &mut want);
    for count in [1, 2, 3, 8, 12, 14, 16, 18, 20, 24, 32, 48] {
        let mut out = vec![[0; 32]; count];
        let messages = &messages[..count];
        for lanes in Lanes::available().into_iter().skip(1) {
            bench.time(&format!("few: {count} x 250 B {lanes:?}"), count, count * 250, || {
                sha256::sha256d_many_with(lanes, black_box(messages), &mut out);
                assert!(out == want[..count], "{lanes:?} hashes as the plain kernel");
            });
        }
        bench.time(&format!("few: {count} x 250 B, best"), count, count * 250, || {
            sha256::sha256d_many(black_box(messages), &mut out);
            assert!(out == want[..count], "the best kernel hashes as the plain one");
        });
    }
}

/// Work: XOR of bytes in the caches, from an odd offset. Checked: twice gives the bytes back.
fn xors(bench: &mut Bench) {
    let key = [1, 2, 3, 4, 5, 6, 7, 8];
    for bytes in [100, bench.size(1000, 65_536), bench.size(2000, 4 << 20)] {
        let want = random_bytes(bytes);
        let mut data = want.clone();
        for kernel in xor::Kernel::available() {
            bench.time(&format!("xor {bytes} B {kernel:?}"), 2, bytes * 2, || {
                xor::xor_with(kernel, black_box(&mut data), key, 3);
                xor::xor_with(kernel, black_box(&mut data), key, 3);
            });
            assert!(data == want, "{kernel:?} twice is nothing");
        }
    }
}

/// Work: CRC-32C of bytes in the caches. Checked: against the table.
fn checksums(bench: &mut Bench) {
    for bytes in [20, 200, 4096, bench.size(5000, 1 << 20)] {
        let data = random_bytes(bytes);
        let want = crc32c::append_with(crc32c::Kernel::Table, 0, &data);
        for kernel in crc32c::Kernel::available() {
            bench.time(&format!("crc32c {bytes} B {kernel:?}"), 1, bytes, || {
                let have = crc32c::append_with(kernel, 0, black_box(&data));
                assert_eq!(have, want, "{kernel:?} sums as the table");
            });
        }
    }
}

/// Work: random look-ups in a table of buckets much larger than the caches, on small and huge pages,
/// one by one and prefetched in groups of 32. Checked: every look-up finds its tag.
fn look_ups(bench: &mut Bench) {
    let count = bench.size(1 << 10, 1 << 22);
    for pages in [Pages::Small, Pages::Huge] {
        let mut buckets = Buckets::with_pages(count, pages).expect("memory for the benchmark");
        for bucket in buckets.iter_mut() {
            bucket.tags = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        }
        let mut state = 9;
        let indexes: Vec<usize> = (0..bench.size(100, 1 << 20)).map(|_| random(&mut state) as usize % count).collect();
        for group in [1, 32] {
            let row = format!("buckets, {} MiB, {pages:?} pages, groups of {group}", count >> 14);
            bench.time(&row, indexes.len(), indexes.len() * 64, || {
                let found = find(&buckets, &indexes, group, black_box(0));
                assert_eq!(found, indexes.len() * 7, "every tag is found in place 7");
            });
        }
    }
}

/// The sum of the places of tag 7 in the buckets named. `zero` is 0, which only the caller knows: so
/// each group's addresses wait for the last group's result.
fn find(buckets: &[Bucket], indexes: &[usize], group: usize, zero: usize) -> usize {
    let mut sum = 0;
    for indexes in indexes.chunks(group) {
        let turn = sum & zero;
        if group > 1 {
            for index in indexes {
                prefetch::prefetch(buckets, index + turn);
            }
        }
        for index in indexes {
            sum += buckets[index + turn].match_tag(7).trailing_zeros() as usize;
        }
    }
    sum
}
