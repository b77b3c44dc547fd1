//! XOR with an 8-byte key: the obfuscation of Core's block files and chainstate values.
//!
//! Sources: Bitcoin Core's `Obfuscation` (blocks, from 28.0 on; chainstate, from 0.12 on). The key's first byte applies
//! to byte 0 of the file or value, so a part of it needs its offset.
//!
//! Absent on purpose: the source of keys, and the list of files that have one.

use std::fmt;

use crate::cpu::Cpu;

/// An implementation of XOR. All give the same bytes.
///
/// A value proves that this processor can run it: values come only from [`Kernel::available`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One byte at a time, with a look-up of the key's byte: the reference implementation.
    Bytes,
    /// Eight bytes at a time.
    Words,
    /// Sixty-four bytes at a time in eight words, which the compiler turns into the vectors of the target's baseline
    /// instructions (SSE2 on x86-64).
    Unrolled,
    /// 256-bit vectors, four at a time (AVX2).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors, four at a time (AVX-512 F).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Below this size the start-up cost of the widest vectors does not pay; a stored coin has some forty bytes.
pub(crate) const WIDE_BYTES_MIN: usize = 256;

/// XORs `data` with `key`, starting at key byte `offset % 8`: `data[i] ^= key[(offset + i) % 8]`. Without special
/// instructions, for short data; [`crate::Kernels::xor`] has wider ones.
#[inline]
pub fn xor(data: &mut [u8], key: [u8; 8], offset: u64) {
    by_words(data, turned(key, offset));
}

/// [`xor()`] by the given kernel.
pub fn xor_with(kernel: Kernel, data: &mut [u8], key: [u8; 8], offset: u64) {
    if key == [0; 8] {
        return;
    }
    let key = turned(key, offset);
    match kernel.0 {
        Kind::Bytes => by_bytes(data, key),
        Kind::Words => by_words(data, key),
        Kind::Unrolled => unrolled(data, key),
        // SAFETY: the processor has AVX2, because a `Kernel` of it was made (`Kernel::available`).
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { x86::by_avx2(data, key) },
        // SAFETY: the processor has AVX-512 F, because a `Kernel` of it was made (`Kernel::available`).
        #[cfg(target_arch = "x86_64")]
        Kind::Avx512 => unsafe { x86::by_avx512(data, key) },
    }
}

impl Kernel {
    /// The reference implementation, which every processor runs.
    pub const REFERENCE: Kernel = Kernel(Kind::Bytes);

    /// The kernels that this processor can run, the reference first, the widest last.
    #[must_use]
    pub fn available() -> Vec<Kernel> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "others have no more"))]
        let mut kernels = vec![Kind::Bytes, Kind::Words, Kind::Unrolled];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(is_x86_feature_detected!("avx2").then_some(Kind::Avx2));
            kernels.extend(is_x86_feature_detected!("avx512f").then_some(Kind::Avx512));
        }
        kernels.into_iter().map(Kernel).collect()
    }

    /// The widest kernel if `cpu` was chosen.
    pub(crate) fn best(cpu: Cpu) -> Kernel {
        let needs = |kernel: &Kernel| match kernel.0 {
            Kind::Bytes | Kind::Words | Kind::Unrolled => Cpu::Plain,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Cpu::Avx2,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Cpu::Avx512,
        };
        Kernel::available().into_iter().rfind(|kernel| cpu.allows(needs(kernel))).unwrap_or(Kernel::REFERENCE)
    }

    /// Its name, for a table of measurements.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Bytes => "byte by byte",
            Kind::Words => "8 bytes at a time",
            Kind::Unrolled => "64 bytes at a time, unrolled",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The key rotated for the first byte of the data.
#[inline]
fn turned(mut key: [u8; 8], offset: u64) -> [u8; 8] {
    let [low, ..] = offset.to_le_bytes();
    key.rotate_left(usize::from(low % 8));
    key
}

#[inline]
fn by_bytes(data: &mut [u8], key: [u8; 8]) {
    for (at, byte) in data.iter_mut().enumerate() {
        *byte ^= key[at % 8];
    }
}

#[inline]
fn by_words(data: &mut [u8], key: [u8; 8]) {
    let (words, rest) = data.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(key)).to_ne_bytes();
    }
    by_bytes(rest, key);
}

fn unrolled(data: &mut [u8], key: [u8; 8]) {
    let (lines, rest) = data.as_chunks_mut::<64>();
    for line in lines {
        for word in line.as_chunks_mut::<8>().0 {
            *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(key)).to_ne_bytes();
        }
    }
    by_words(rest, key);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    pub(super) fn by_avx2(data: &mut [u8], key: [u8; 8]) {
        let keys = _mm256_set1_epi64x(i64::from_ne_bytes(key));
        let (lines, rest) = data.as_chunks_mut::<128>();
        for line in lines {
            for part in line.as_chunks_mut::<32>().0 {
                let at: *mut __m256i = part.as_mut_ptr().cast();
                // SAFETY: reads and writes the 32 bytes of `part`; no alignment needed.
                unsafe { _mm256_storeu_si256(at, _mm256_xor_si256(_mm256_loadu_si256(at), keys)) };
            }
        }
        super::unrolled(rest, key);
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn by_avx512(data: &mut [u8], key: [u8; 8]) {
        let keys = _mm512_set1_epi64(i64::from_ne_bytes(key));
        let (lines, rest) = data.as_chunks_mut::<256>();
        for line in lines {
            for part in line.as_chunks_mut::<64>().0 {
                let at: *mut __m512i = part.as_mut_ptr().cast();
                // SAFETY: reads and writes the 64 bytes of `part`; no alignment needed.
                unsafe { _mm512_storeu_si512(at, _mm512_xor_si512(_mm512_loadu_si512(at), keys)) };
            }
        }
        super::unrolled(rest, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    #[test]
    fn every_kernel_agrees_with_the_definition() {
        let mut rng = Rng::new(11);
        let data = rng.bytes(3000);
        for round in 0..rounds(2000) {
            let start = rng.below(100);
            let length = if round < 700 { round } else { rng.below(2900) };
            let key = if round % 50 == 7 { [0; 8] } else { rng.u64().to_le_bytes() };
            let offset = if round % 3 == 0 { rng.u64() >> 1 } else { rng.u64() % 16 };
            let part = &data[start..start + length];
            let want: Vec<u8> =
                (offset..).zip(part).map(|(at, byte)| byte ^ key[usize::try_from(at % 8).unwrap()]).collect();
            for kernel in Kernel::available() {
                let mut whole = data.clone();
                xor_with(kernel, &mut whole[start..start + length], key, offset);
                assert_eq!(whole[start..start + length], want, "{kernel:?}, {length} bytes at {offset}");
                whole[start..start + length].copy_from_slice(part);
                assert!(whole == data, "{kernel:?} writes nothing else");
            }
            let mut have = part.to_vec();
            xor(&mut have, key, offset);
            assert_eq!(have, want, "by words, {length} bytes at {offset}");
            crate::Kernels::default().xor(&mut have, key, offset);
            assert_eq!(have, part, "best, {length} bytes at {offset}");
        }
    }
}
