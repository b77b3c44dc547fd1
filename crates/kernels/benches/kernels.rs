//! Benchmarks of the kernels, each variant by name: `cargo bench -p ffwd-kernels`, or with a word to choose
//! rows, `cargo bench -p ffwd-kernels -- sha256`. Small, and only checked, without `--bench`.
//!
//! A row is as `testkit::bench` says, in nanoseconds an operation (`ns/op`) and GB/s (10^9 bytes a second).

use std::hint::black_box;

use kernels::Kernels;
use kernels::bucket::{Bucket, Buckets};
use kernels::muhash::Accumulator;
use kernels::secp256k1::{Claim, Y};
use kernels::sha256::{self, Lanes, Pieces};
use kernels::{crc32c, prefetch, xor};
use sys::memory::Pages;
use testkit::{Bench, Per, Rng};

fn main() {
    let bench = Bench::from_args();
    hashes(&bench);
    transactions(&bench);
    crossover(&bench);
    xors(&bench);
    checksums(&bench);
    look_ups(&bench);
    signatures(&bench);
    muhash(&bench);
}

/// Work: double SHA-256 of 1024 messages of one length, in three pieces as a transaction's are, and
/// of pairs and headers. Checked: against the reference kernel.
fn hashes(bench: &Bench) {
    let count = bench.size(40, 1024);
    let data = Rng::new(5).bytes(count * 1100);
    let mut out = vec![[0; 32]; count];
    let mut want = out.clone();
    for bytes in [64, 80, 250, 1000] {
        let messages: Vec<Pieces<'_>> =
            data.chunks(1100).map(|data| [&data[..4], &data[7..bytes - 1], &data[1050..1054]]).collect();
        sha256::sha256d_many_with(Lanes::REFERENCE, &messages, &mut want);
        for lanes in Lanes::available() {
            let row = format!("sha256d_many {bytes} B {lanes:?}");
            bench.time(&row, Per::of(count, "op").bytes(count * bytes), || {
                sha256::sha256d_many_with(lanes, black_box(&messages), &mut out);
                assert!(out == want, "{lanes:?} hashes as the reference kernel");
            });
        }
    }
    let pairs: Vec<[u8; 64]> = data.as_chunks().0[..count].to_vec();
    sha256::sha256d_64_with(Lanes::REFERENCE, &pairs, &mut want);
    for lanes in Lanes::available() {
        bench.time(&format!("sha256d_64 {lanes:?}"), Per::of(count, "op").bytes(count * 64), || {
            sha256::sha256d_64_with(lanes, black_box(&pairs), &mut out);
            assert!(out == want, "{lanes:?} hashes as the reference kernel");
        });
    }
    let headers: Vec<[u8; 80]> = data.as_chunks().0[..count].to_vec();
    sha256::sha256d_80_with(Lanes::REFERENCE, &headers, &mut want);
    for lanes in Lanes::available() {
        bench.time(&format!("sha256d_80 {lanes:?}"), Per::of(count, "op").bytes(count * 80), || {
            sha256::sha256d_80_with(lanes, black_box(&headers), &mut out);
            assert!(out == want, "{lanes:?} hashes as the reference kernel");
        });
    }
}

/// Work: the txids of a block of 2500 transactions, most of 190 to 600 bytes, one in 50 up to 10 kB,
/// one of 100 kB, lying one behind the other. Checked: against the reference kernel.
fn transactions(bench: &Bench) {
    let count = bench.size(60, 2500);
    let mut rng = Rng::new(3);
    let lengths: Vec<usize> = (0..count)
        .map(|at| match (at, rng.u64() as usize) {
            (30, _) => 100_000,
            (_, odd) if odd % 50 == 0 => 600 + odd / 64 % 9400,
            (_, odd) => 190 + (odd / 64 % 400) * (odd / 65536 % 400) / 400,
        })
        .collect();
    let total = lengths.iter().sum();
    let block = Rng::new(5).bytes(total);
    let mut rest = &block[..];
    let mut messages: Vec<Pieces<'_>> = Vec::new();
    for length in &lengths {
        let (message, after) = rest.split_at(*length);
        messages.push([&message[..4], &message[4..length - 4], &message[length - 4..]]);
        rest = after;
    }
    let (mut out, mut want) = (vec![[0; 32]; count], vec![[0; 32]; count]);
    sha256::sha256d_many_with(Lanes::REFERENCE, &messages, &mut want);
    for lanes in Lanes::available() {
        bench.time(&format!("a block's txids {lanes:?}"), Per::of(count, "op").bytes(total), || {
            sha256::sha256d_many_with(lanes, black_box(&messages), &mut out);
            assert!(out == want, "{lanes:?} hashes as the reference kernel");
        });
    }
    bench.time("a block's txids, best", Per::of(count, "op").bytes(total), || {
        Kernels::default().sha256d_many(black_box(&messages), &mut out);
        assert!(out == want, "the best kernel hashes as the reference");
    });
}

/// Work: double SHA-256 of few messages of 250 bytes: where do wide lanes begin to win? Checked:
/// against the reference kernel.
fn crossover(bench: &Bench) {
    let data = Rng::new(5).bytes(48 * 250);
    let messages: Vec<Pieces<'_>> = data.chunks(250).map(|data| [&data[..4], &data[4..246], &data[246..]]).collect();
    let mut want = vec![[0; 32]; 48];
    sha256::sha256d_many_with(Lanes::REFERENCE, &messages, &mut want);
    for count in [1, 2, 3, 8, 12, 14, 16, 18, 20, 24, 32, 48] {
        let mut out = vec![[0; 32]; count];
        let messages = &messages[..count];
        for lanes in Lanes::available().into_iter().skip(1) {
            bench.time(&format!("few: {count} x 250 B {lanes:?}"), Per::of(count, "op").bytes(count * 250), || {
                sha256::sha256d_many_with(lanes, black_box(messages), &mut out);
                assert!(out == want[..count], "{lanes:?} hashes as the reference kernel");
            });
        }
        bench.time(&format!("few: {count} x 250 B, best"), Per::of(count, "op").bytes(count * 250), || {
            Kernels::default().sha256d_many(black_box(messages), &mut out);
            assert!(out == want[..count], "the best kernel hashes as the reference");
        });
    }
}

/// Work: XOR of bytes in the caches, from an odd offset. Checked: twice gives the bytes back.
fn xors(bench: &Bench) {
    let key = [1, 2, 3, 4, 5, 6, 7, 8];
    for bytes in [100, bench.size(1000, 65_536), bench.size(2000, 4 << 20)] {
        let want = Rng::new(5).bytes(bytes);
        let mut data = want.clone();
        for kernel in xor::Kernel::available() {
            bench.time(&format!("xor {bytes} B {kernel:?}"), Per::of(2, "op").bytes(bytes * 2), || {
                xor::xor_with(kernel, black_box(&mut data), key, 3);
                xor::xor_with(kernel, black_box(&mut data), key, 3);
            });
            assert!(data == want, "{kernel:?} twice is nothing");
        }
    }
}

/// Work: CRC-32C of bytes in the caches. Checked: against the table.
fn checksums(bench: &Bench) {
    for bytes in [20, 200, 4096, bench.size(5000, 1 << 20)] {
        let data = Rng::new(5).bytes(bytes);
        let want = crc32c::append_with(crc32c::Kernel::REFERENCE, 0, &data);
        for kernel in crc32c::Kernel::available() {
            bench.time(&format!("crc32c {bytes} B {kernel:?}"), Per::of(1, "op").bytes(bytes), || {
                let have = crc32c::append_with(kernel, 0, black_box(&data));
                assert_eq!(have, want, "{kernel:?} sums as the table");
            });
        }
    }
}

/// Work: random look-ups in a table of buckets much larger than the caches, on small and huge pages,
/// one by one and prefetched in groups of 32. Checked: every look-up finds its tag.
fn look_ups(bench: &Bench) {
    let count = bench.size(1 << 10, 1 << 22);
    for pages in [Pages::Small, Pages::Huge] {
        let mut buckets = Buckets::with_pages(count, pages).expect("memory for the benchmark");
        for bucket in buckets.iter_mut() {
            bucket.tags = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        }
        let mut rng = Rng::new(9);
        let indexes: Vec<usize> = (0..bench.size(100, 1 << 20)).map(|_| rng.below(count)).collect();
        for group in [1, 32] {
            let row = format!("buckets, {} MiB, {pages:?} pages, groups of {group}", count >> 14);
            bench.time(&row, Per::of(indexes.len(), "op").bytes(indexes.len() * 64), || {
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

/// The generator's x. Source: SEC 2, secp256k1.
#[rustfmt::skip]
const GENERATOR: [u8; 32] = [
    0x79, 0xBE, 0x66, 0x7E, 0xF9, 0xDC, 0xBB, 0xAC, 0x55, 0xA0, 0x62, 0x95, 0xCE, 0x87, 0x0B, 0x07,
    0x02, 0x9B, 0xFC, 0xDB, 0x2D, 0xCE, 0x28, 0xD9, 0x59, 0xF2, 0x81, 0x5B, 0x16, 0xF8, 0x17, 0x98,
];

/// The order less that.
#[rustfmt::skip]
const MINUS_GENERATOR: [u8; 32] = [
    0x86, 0x41, 0x99, 0x81, 0x06, 0x23, 0x44, 0x53, 0xAA, 0x5F, 0x9D, 0x6A, 0x31, 0x78, 0xF4, 0xF7,
    0xB8, 0x12, 0xE0, 0x0B, 0x81, 0x7A, 0x77, 0x62, 0x65, 0xDF, 0xDD, 0x31, 0xB9, 0x3E, 0x29, 0xA9,
];

/// Work: ECDSA and Schnorr signatures by the secret one with the nonce one, `s` from two on, so that the message is
/// `s - r`, the challenge `s - 1`, which is not zero. Every other one has another message, and does not hold. Checked: which are proven.
fn signatures(bench: &Bench) {
    let count = bench.size(20, 256);
    let small = |number: usize| {
        let mut bytes = [0; 32];
        bytes[24..].copy_from_slice(&(number as u64).to_be_bytes());
        bytes
    };
    let (mut ecdsa, mut schnorr) = (Vec::new(), Vec::new());
    for s in 2..count + 2 {
        // The last two bytes are far enough below 2^16.
        let mut message = MINUS_GENERATOR;
        let low = u16::from_be_bytes([message[30], message[31]]) + (s + usize::from(s % 2 == 0)) as u16;
        message[30..].copy_from_slice(&low.to_be_bytes());
        ecdsa.push(Claim::Ecdsa { x: GENERATOR, y: Y::Even, r: GENERATOR, s: small(s), message });
        let challenge = small(s - 1 + usize::from(s % 2 == 0));
        schnorr.push(Claim::Schnorr { x: GENERATOR, r: GENERATOR, s: small(s), challenge });
    }
    let want: Vec<bool> = (2..count + 2).map(|s| s % 2 == 1).collect();
    for lanes in kernels::secp256k1::Lanes::available() {
        for (name, claims) in [("ECDSA", &ecdsa), ("Schnorr", &schnorr)] {
            bench.time(&format!("{name} signatures {lanes:?}"), Per::of(count, "op"), || {
                assert!(lanes.prove(black_box(claims)) == want, "{lanes:?} proves every other one");
            });
        }
    }
}

/// Work: the product of the numbers of 4,096 keys, by each kind of lanes. Checked: the product.
fn muhash(bench: &Bench) {
    let count = bench.size(40, 4096);
    let mut rng = Rng::new(3072);
    let keys: Vec<[u8; 32]> = (0..count).map(|_| rng.array()).collect();
    let product = |mut all: Accumulator| {
        keys.iter().for_each(|key| all.push(key));
        kernels::muhash::reduce(&all.finish())
    };
    let want = product(Accumulator::reference());
    let row = |name: &str, make: &dyn Fn() -> Accumulator| {
        bench.time(&format!("muhash {name}"), Per::of(count, "op"), || assert_eq!(product(make()), want));
    };
    row("plain", &Accumulator::reference);
    #[cfg(target_arch = "x86_64")]
    for kind in [kernels::cpu::Cpu::Avx2, kernels::cpu::Cpu::Avx512] {
        if Accumulator::with(kind).is_some() {
            row(kind.name(), &|| Accumulator::with(kind).expect("it was there just now"));
        }
    }
}
