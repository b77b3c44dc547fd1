//! RIPEMD-160 of digests of 32 bytes, many at a time in vector lanes: the second half of HASH160.
//!
//! A digest and its padding are one block, so every message takes the same steps, and half of the block is constant.
//! [`crate::Kernels`] selects the lanes; [`of_digests_with`] takes them by name, for tests and measurements.
//!
//! Absent on purpose: messages of other lengths (the `ripemd` crate), constant time.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod lanes;

use crate::cpu::Cpu;
use ripemd::{Digest, Ripemd160};
use std::fmt;

/// Lanes of this processor: a value proves that it has them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lanes(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The `ripemd` crate, message by message: the reference implementation.
    Portable,
    /// AVX2, eight messages at a time.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, sixteen messages at a time.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Lanes {
    /// The `ripemd` crate.
    pub const PORTABLE: Lanes = Lanes(Kind::Portable);

    /// The lanes that this processor can run, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Lanes> {
        #[allow(unused_mut, reason = "other processors have no more")]
        let mut kinds = vec![Kind::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            kinds.extend(is_x86_feature_detected!("avx2").then_some(Kind::Avx2));
            kinds.extend(is_x86_feature_detected!("avx512f").then_some(Kind::Avx512));
        }
        kinds.into_iter().map(Lanes).collect()
    }

    /// The fastest lanes if `cpu` was chosen.
    pub(crate) fn best(cpu: Cpu) -> Lanes {
        Lanes::available().into_iter().rfind(|lanes| cpu.allows(lanes.cpu())).unwrap_or(Lanes::PORTABLE)
    }

    /// The processors that have these lanes.
    fn cpu(self) -> Cpu {
        match self.0 {
            Kind::Portable => Cpu::Plain,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Cpu::Avx2,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Cpu::Avx512,
        }
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// RIPEMD-160 of each digest, into the same position of `out`, by the given lanes.
///
/// # Panics
///
/// If the lengths of `digests` and `out` differ.
pub fn of_digests_with(lanes: Lanes, digests: &[[u8; 32]], out: &mut [[u8; 20]]) {
    assert_eq!(digests.len(), out.len(), "a place for each digest");
    match lanes.0 {
        Kind::Portable => one_by_one(digests, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a value of Lanes is made only if they were detected.
        Kind::Avx2 => in_lanes(|words| unsafe { avx2::compress(words) }, digests, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx512 => in_lanes(|words| unsafe { avx512::compress(words) }, digests, out),
    }
}

fn one_by_one(digests: &[[u8; 32]], out: &mut [[u8; 20]]) {
    for (digest, out) in digests.iter().zip(out) {
        *out = Ripemd160::digest(digest).into();
    }
}

/// Hashes `N` at a time; idle lanes of the last set hash zeros. Too few messages for lanes are hashed singly.
#[cfg(target_arch = "x86_64")]
fn in_lanes<const N: usize>(
    compress: impl Fn(&[[u32; N]; 8]) -> [[u32; N]; 5],
    digests: &[[u8; 32]],
    out: &mut [[u8; 20]],
) {
    for (digests, out) in digests.chunks(N).zip(out.chunks_mut(N)) {
        if digests.len() < 3 {
            one_by_one(digests, out);
            continue;
        }
        let mut words = [[0; N]; 8];
        for (lane, digest) in digests.iter().enumerate() {
            for (words, bytes) in words.iter_mut().zip(digest.as_chunks().0) {
                words[lane] = u32::from_le_bytes(*bytes);
            }
        }
        let state = compress(&words);
        for (lane, out) in out.iter_mut().enumerate() {
            for (bytes, words) in out.as_chunks_mut().0.iter_mut().zip(&state) {
                *bytes = words[lane].to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn lanes_agree_with_one_by_one() {
        let mut rng = Rng::new(8);
        for count in (0..40).chain([100, 1000]) {
            let digests: Vec<[u8; 32]> = (0..count)
                .map(|at| match at {
                    0 => [0; 32],
                    1 => [0xff; 32],
                    _ => rng.bytes(32).try_into().unwrap(),
                })
                .collect();
            let mut want = vec![[0; 20]; count];
            of_digests_with(Lanes::PORTABLE, &digests, &mut want);
            for lanes in Lanes::available() {
                let mut have = vec![[1; 20]; count];
                of_digests_with(lanes, &digests, &mut have);
                assert!(have == want, "{count} digests, {lanes:?}");
            }
            let mut have = vec![[1; 20]; count];
            crate::Kernels::default().ripemd160(&digests, &mut have);
            assert!(have == want, "{count} digests, the best lanes");
        }
    }

    /// HASH160 of the key that BIP-0143's first P2WPKH example spends with.
    #[test]
    fn known_hash160() {
        let key = "025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee6357";
        let want = "1d0f172a0ecb48aee1be1f2687d2963ae33f71a1";
        let key: Vec<u8> = (0..33).map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap()).collect();
        let digests = [crate::sha256::sha256(&key); 5];
        let mut out = [[0; 20]; 5];
        crate::Kernels::default().ripemd160(&digests, &mut out);
        for hash in out {
            assert_eq!(hash.map(|byte| format!("{byte:02x}")).concat(), want);
        }
    }
}
