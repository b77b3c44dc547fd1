//! SHA-256 (FIPS 180-4): single, double and incremental, many messages at a time in vector lanes.
//!
//! Double SHA-256 gives Bitcoin's ids, merkle trees and header hashes. A single message cannot use a vector; sixteen at
//! a time can, for two to four times the speed. [`crate::Kernels`] selects the kernel; the `_with` functions take one
//! by name, for tests and measurements. They hash messages of any lengths, a merkle level, or headers.
//!
//! Absent on purpose: constant time (nothing here is secret), other hashes, threads.

#[cfg(all(target_arch = "aarch64", feature = "unproven"))]
mod armsha;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512x2;
mod engine;
mod lanes;
#[cfg(all(target_arch = "aarch64", feature = "unproven"))]
mod neon;
mod reference;
#[cfg(target_arch = "x86_64")]
mod shani;
mod stage;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", feature = "unproven")))]
mod streams;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", feature = "unproven")))]
mod vector;

use reference::{START, Words};
use sha2::Digest;

pub(crate) use engine::Times;
pub(crate) use lanes::Kernel;
pub use lanes::Lanes;

/// A message in up to three pieces, hashed as if they were one; any piece may be empty.
///
/// A transaction's txid skips marker, flag and witness: version, inputs and outputs, locktime.
pub type Pieces<'a> = [&'a [u8]; 3];

/// The SHA-256 of `data`.
#[must_use]
pub fn sha256(data: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(data).into()
}

/// The SHA-256 of the SHA-256 of `data`: Bitcoin's usual hash.
#[must_use]
pub fn sha256d(data: &[u8]) -> [u8; 32] {
    sha256(&sha256(data))
}

/// Double SHA-256 of each message, of any length, into the same position of `out`, by one kernel.
///
/// # Panics
///
/// If the lengths of `messages` and `out` differ.
pub fn sha256d_many_with(lanes: Lanes, messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
    lanes.kernel().many(Times::Twice, messages, out);
}

/// Single SHA-256 of each message, of any length, into the same position of `out`, by one kernel.
///
/// # Panics
///
/// If the lengths of `messages` and `out` differ.
pub fn sha256_many_with(lanes: Lanes, messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
    lanes.kernel().many(Times::Once, messages, out);
}

/// Double SHA-256 of messages that begin with the blocks of `starts` and continue with `messages`, by one kernel.
///
/// If the second pieces of many messages are parts of the same bytes that end together, at the same place in a block of
/// SHA-256, 32 lanes take 0.6 of the time: the schedule of such a block is computed once for all of them.
///
/// # Panics
///
/// If the lengths of `starts`, `messages` and `out` differ.
pub fn sha256d_after_with(lanes: Lanes, starts: &[Midstate], messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
    lanes.kernel().many_after(starts, messages, out);
}

/// Double SHA-256 of each pair of hashes: one level of a merkle tree. By one kernel.
///
/// # Panics
///
/// If the lengths of `pairs` and `out` differ.
pub fn sha256d_64_with(lanes: Lanes, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
    assert_eq!(pairs.len(), out.len(), "a place for each pair");
    lanes.kernel().pairs(pairs, out);
}

/// SHA-256 of messages that begin with the blocks of `start` and go on with 64 bytes: one level of many trees of hashes
/// with a tag. By one kernel.
///
/// # Panics
///
/// If the lengths of `pairs` and `out` differ.
pub fn sha256_64_after_with(lanes: Lanes, start: Midstate, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
    assert_eq!(pairs.len(), out.len(), "a place for each pair");
    lanes.kernel().pairs_after(start, pairs, out);
}

/// Double SHA-256 of each block header, by one kernel.
///
/// # Panics
///
/// If the lengths of `headers` and `out` differ.
pub fn sha256d_80_with(lanes: Lanes, headers: &[[u8; 80]], out: &mut [[u8; 32]]) {
    assert_eq!(headers.len(), out.len(), "a place for each header");
    lanes.kernel().headers(headers, out);
}

/// The state after a common start of whole blocks: hash it once, then continue with many messages at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Midstate {
    words: Words,
    blocks: usize,
}

impl Midstate {
    /// The start of a message.
    pub const START: Midstate = Midstate { words: START, blocks: 0 };

    /// Appends blocks. Uses the SHA instructions if the processor has them.
    pub fn update(&mut self, blocks: &[[u8; 64]]) {
        sha2::block_api::compress256(&mut self.words, blocks);
        self.blocks += blocks.len();
    }
}

/// Incremental SHA-256. A clone is a midstate: hash a common start once.
///
/// Uses the SHA instructions if the processor has them (the `sha2` crate detects them).
#[derive(Clone, Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    /// The start of a message.
    #[must_use]
    pub fn new() -> Sha256 {
        Sha256::default()
    }

    /// Appends `data` to the message.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The hash of the message.
    #[must_use]
    pub fn finalize(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

impl std::fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sha256")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernels;
    use testkit::{Rng, rounds};

    /// The oracle: the `sha2` crate on the message in one piece.
    fn want(message: &Pieces<'_>) -> [u8; 32] {
        sha2::Sha256::digest(once(message)).into()
    }

    fn once(message: &Pieces<'_>) -> [u8; 32] {
        sha2::Sha256::digest(message.concat()).into()
    }

    /// Checks every kernel, and the mixed one, on the same messages.
    fn check_many(row: &str, messages: &[Pieces<'_>]) {
        let want: Vec<_> = messages.iter().map(want).collect();
        let want_once: Vec<_> = messages.iter().map(once).collect();
        let mut out = vec![[0; 32]; messages.len()];
        Kernels::default().sha256d_many(messages, &mut out);
        assert!(out == want, "{row}: {} messages, best kernel", messages.len());
        Kernels::default().sha256_many(messages, &mut out);
        assert!(out == want_once, "{row}: {} messages once, best kernel", messages.len());
        for lanes in Lanes::available() {
            out.fill([0; 32]);
            sha256d_many_with(lanes, messages, &mut out);
            assert!(out == want, "{row}: {} messages, {lanes:?}", messages.len());
            sha256_many_with(lanes, messages, &mut out);
            assert!(out == want_once, "{row}: {} messages once, {lanes:?}", messages.len());
        }
    }

    /// Cuts `bytes` in three at random places.
    fn cut<'a>(bytes: &'a [u8], rng: &mut Rng) -> Pieces<'a> {
        let (head, last) = bytes.split_at(rng.below(bytes.len() + 1));
        let (first, second) = head.split_at(rng.below(head.len() + 1));
        [first, second, last]
    }

    #[test]
    fn many_of_every_length_and_cut() {
        let mut rng = Rng::new(2);
        let data = rng.bytes(if cfg!(miri) { 700 } else { 4200 });
        check_many("nothing", &[]);
        check_many("an empty message", &[[&[], &[], &[]]]);
        let messages: Vec<_> =
            (0..700).step_by(700 / rounds(700)).map(|length| cut(&data[..length], &mut rng)).collect();
        check_many("every length to 700", &messages);
        let edges = [55, 56, 63, 64, 119, 120, 127, 128, 503, 504, 511, 512, 513, 575, 576, 1023, 4096];
        for edge in edges.into_iter().filter(|edge| *edge < data.len()).take(rounds(600)) {
            let cuts: Vec<Pieces<'_>> = (0..=edge)
                .step_by(if cfg!(miri) { 50 } else { 1 })
                .map(|at| [&data[..at / 2], &data[at / 2..at], &data[at..edge]])
                .collect();
            check_many(&format!("{edge} bytes cut anywhere"), &cuts);
        }
        let whole = &data[..];
        check_many("long pieces", &[[whole, whole, whole], [&[], whole, &data[..1]], [&data[..4], whole, &data[..4]]]);
    }

    #[test]
    fn many_of_mixed_lengths() {
        let mut rng = Rng::new(3);
        let data = rng.bytes(rounds(1_000_003));
        for round in 0..rounds(60) {
            let count = rng.below(120);
            let lengths: Vec<_> = (0..count)
                .map(|_| match rng.below(20) {
                    0 => rng.below(data.len() / 17),
                    1 => rng.below(3000),
                    _ => 60 + rng.below(600),
                })
                .collect();
            let messages: Vec<_> = lengths
                .iter()
                .map(|length| {
                    let start = rng.below(data.len() - length);
                    cut(&data[start..start + length], &mut rng)
                })
                .collect();
            check_many(&format!("round {round}"), &messages);
        }
        let short = [&data[..4], &data[9..300], &data[5..9]];
        check_many("a giant among dwarfs", &[short, [&data[..4], &data[4..], &[]], short, short]);
    }

    #[test]
    fn messages_go_on_from_their_starts() {
        let mut rng = Rng::new(5);
        let data = rng.bytes(rounds(60_000).max(3000));
        for count in [0, 1, 2, 5, 13, 40, 70] {
            // Blocks that a state has, and the end of the whole message.
            let messages: Vec<(usize, usize)> = (0..count)
                .map(|at| {
                    let blocks = [0, 1, 2, rng.below(data.len() / 64)][at % 4];
                    (blocks, blocks * 64 + rng.below(data.len() - blocks * 64 + 1))
                })
                .collect();
            let start = |&(blocks, _): &(usize, usize)| {
                let mut start = Midstate::START;
                let (first, second) = data[..blocks * 64].as_chunks().0.split_at(blocks / 2);
                start.update(first);
                start.update(second);
                start
            };
            let starts: Vec<Midstate> = messages.iter().map(start).collect();
            let rest: Vec<_> = messages.iter().map(|&(blocks, end)| cut(&data[blocks * 64..end], &mut rng)).collect();
            let want: Vec<[u8; 32]> = messages.iter().map(|&(_, end)| want(&[&data[..end], &[], &[]])).collect();
            let mut out = vec![[0; 32]; count];
            Kernels::default().sha256d_after(&starts, &rest, &mut out);
            assert!(out == want, "{count} messages, best kernel");
            for lanes in Lanes::available() {
                out.fill([0; 32]);
                sha256d_after_with(lanes, &starts, &rest, &mut out);
                assert!(out == want, "{count} messages, {lanes:?}");
            }
        }
    }

    /// As the messages of one transaction's inputs: their second pieces are parts of the same bytes, and mostly end
    /// together.
    #[test]
    fn messages_share_their_middles() {
        let mut rng = Rng::new(8);
        let shared = rng.bytes(if cfg!(miri) { 3000 } else { 40_000 });
        let own = rng.bytes(700);
        for round in 0..rounds(60) {
            let count = [1, 9, 17, 40, 100, 300][round % 6];
            let phases = [1, 2, 30][round % 3];
            let messages: Vec<Pieces<'_>> = (0..count)
                .map(|_| {
                    let first = &own[rng.below(300)..][..rng.below(phases) + [0, 64, 300][rng.below(3)]];
                    let start = rng.below([1, 100, shared.len()][round / 6 % 3]);
                    let end = shared.len() - if rng.below(20) == 0 { rng.below(shared.len() - start + 1) } else { 0 };
                    [first, &shared[start..end], &own[..rng.below(80)]]
                })
                .collect();
            let begin = |at: usize| {
                let mut start = Midstate::START;
                start.update(&own.as_chunks().0[..at % 3]);
                start
            };
            let starts: Vec<Midstate> = (0..count).map(begin).collect();
            let want: Vec<[u8; 32]> =
                (0..count).map(|at| sha256d(&[&own[..at % 3 * 64], &messages[at].concat()].concat())).collect();
            let mut out = vec![[0; 32]; count];
            Kernels::default().sha256d_after(&starts, &messages, &mut out);
            assert!(out == want, "round {round}, best kernel");
            for lanes in Lanes::available() {
                out.fill([0; 32]);
                sha256d_after_with(lanes, &starts, &messages, &mut out);
                assert!(out == want, "round {round}, {lanes:?}");
            }
        }
    }

    #[test]
    fn pairs_and_headers_of_every_count() {
        let mut rng = Rng::new(4);
        for count in (0..rounds(70)).chain(if cfg!(miri) { [1, 4, 9] } else { [100, 333, 1000] }) {
            let pairs: Vec<[u8; 64]> = (0..count).map(|_| rng.bytes(64).try_into().unwrap()).collect();
            let headers: Vec<[u8; 80]> = (0..count).map(|_| rng.bytes(80).try_into().unwrap()).collect();
            let want_pairs: Vec<_> = pairs.iter().map(|pair| want(&[pair, &[], &[]])).collect();
            let want_headers: Vec<_> = headers.iter().map(|header| want(&[header, &[], &[]])).collect();
            let mut start = Midstate::START;
            let before = rng.bytes(64 * (count % 4));
            start.update(before.as_chunks().0);
            let want_after: Vec<_> = pairs.iter().map(|pair| once(&[&before, pair, &[]])).collect();
            let mut out = vec![[0; 32]; count];
            Kernels::default().sha256_64_after(start, &pairs, &mut out);
            assert!(out == want_after, "{count} pairs after {} bytes, best kernel", before.len());
            Kernels::default().sha256d_64(&pairs, &mut out);
            assert!(out == want_pairs, "{count} pairs, best kernel");
            Kernels::default().sha256d_80(&headers, &mut out);
            assert!(out == want_headers, "{count} headers, best kernel");
            for lanes in Lanes::available() {
                out.fill([0; 32]);
                sha256_64_after_with(lanes, start, &pairs, &mut out);
                assert!(out == want_after, "{count} pairs after {} bytes, {lanes:?}", before.len());
                sha256d_64_with(lanes, &pairs, &mut out);
                assert!(out == want_pairs, "{count} pairs, {lanes:?}");
                sha256d_80_with(lanes, &headers, &mut out);
                assert!(out == want_headers, "{count} headers, {lanes:?}");
            }
        }
    }

    #[test]
    fn one_and_incremental() {
        // FIPS 180-4's examples; the double one is Bitcoin's genesis header in Core's chainparams.cpp.
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&sha256(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let mut genesis = [0_u8; 80];
        genesis[0] = 1;
        genesis[36..68].copy_from_slice(&GENESIS_MERKLE_ROOT);
        genesis[68..].copy_from_slice(&[0x29, 0xAB, 0x5F, 0x49, 0xFF, 0xFF, 0, 0x1D, 0x1D, 0xAC, 0x2B, 0x7C]);
        let want = "6fe28c0ab6f1b372c1a6a246ae63f74f931e8365e15a089c68d6190000000000";
        assert_eq!(hex(&sha256d(&genesis)), want);
        let mut out = [[0; 32]];
        Kernels::default().sha256d_80(&[genesis], &mut out);
        assert_eq!(hex(&out[0]), want);
        let mut start = Sha256::new();
        start.update(&genesis[..70]);
        for end in [70, 71, 80] {
            let mut whole = start.clone();
            whole.update(&genesis[70..end]);
            assert_eq!(whole.finalize(), sha256(&genesis[..end]), "midstate and {end}");
        }
    }

    /// The merkle root of the main chain's genesis block, in the order of its bytes.
    const GENESIS_MERKLE_ROOT: [u8; 32] = [
        0x3B, 0xA3, 0xED, 0xFD, 0x7A, 0x7B, 0x12, 0xB2, 0x7A, 0xC7, 0x2C, 0x3E, 0x67, 0x76, 0x8F, 0x61, 0x7F, 0xC8,
        0x1B, 0xC3, 0x88, 0x8A, 0x51, 0x32, 0x3A, 0x9F, 0xB8, 0xAA, 0x4B, 0x1E, 0x5E, 0x4A,
    ];
}
