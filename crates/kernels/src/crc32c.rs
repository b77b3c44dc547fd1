//! CRC-32C (Castagnoli): the checksum of LevelDB's blocks and logs, unmasked.
//!
//! Polynomial 0x1EDC6F41, bits reflected, register and result inverted (RFC 3720, appendix B.4).
//!
//! Absent on purpose: LevelDB's mask of checksums (crate `leveldb`).

use std::fmt;

use crate::cpu::Cpu;

/// The polynomial, bits reflected: bit 31 is x^0, and x^32 is left out.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// An implementation of CRC-32C. All give the same checksum.
///
/// A value proves that this processor can run it: values come only from [`Kernel::available`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One byte at a time from a table: the reference implementation.
    Table,
    /// Eight bytes at a time from eight tables.
    Slicing8,
    /// The `crc32` instruction on one stream (SSE 4.2).
    #[cfg(target_arch = "x86_64")]
    Sse42,
    /// The `crc32` instruction on three streams, combined by carry-less products (SSE 4.2, PCLMULQDQ).
    #[cfg(target_arch = "x86_64")]
    Sse42x3,
}

/// The CRC-32C of `data`, without special instructions; [`crate::Kernels::crc32c`] has faster ones.
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    append(0, data)
}

/// The CRC-32C of data whose CRC-32C is `crc`, followed by `data`, without special instructions.
#[must_use]
pub fn append(crc: u32, data: &[u8]) -> u32 {
    append_with(Kernel(Kind::Slicing8), crc, data)
}

/// The CRC-32C of data whose CRC-32C is `crc`, followed by `data`, by the given kernel.
#[must_use]
pub fn append_with(kernel: Kernel, crc: u32, data: &[u8]) -> u32 {
    let register = !crc;
    !match kernel.0 {
        Kind::Table => by_table(register, data),
        Kind::Slicing8 => by_slicing(register, data),
        // SAFETY: the processor has SSE 4.2, because a `Kernel` of it was made (`Kernel::available`).
        #[cfg(target_arch = "x86_64")]
        Kind::Sse42 => unsafe { x86::by_instruction(register, data) },
        // SAFETY: the processor has SSE 4.2 and PCLMULQDQ, because a `Kernel` of them was made (`Kernel::available`).
        #[cfg(target_arch = "x86_64")]
        Kind::Sse42x3 => unsafe { x86::by_three_streams(register, data) },
    }
}

impl Kernel {
    /// The reference implementation, which every processor runs.
    pub const REFERENCE: Kernel = Kernel(Kind::Table);

    /// The kernels that this processor can run, the reference first, the fastest last.
    #[must_use]
    pub fn available() -> Vec<Kernel> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "others have no more"))]
        let mut kernels = vec![Kind::Table, Kind::Slicing8];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("sse4.2") {
            kernels.push(Kind::Sse42);
            kernels.extend(is_x86_feature_detected!("pclmulqdq").then_some(Kind::Sse42x3));
        }
        kernels.into_iter().map(Kernel).collect()
    }

    /// The fastest kernel if `cpu` was chosen.
    pub(crate) fn best(cpu: Cpu) -> Kernel {
        let is_plain = |kernel: &Kernel| matches!(kernel.0, Kind::Table | Kind::Slicing8);
        let is_allowed = |kernel: &Kernel| is_plain(kernel) || cpu.allows(Cpu::Avx2);
        Kernel::available().into_iter().rfind(is_allowed).unwrap_or(Kernel::REFERENCE)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `TABLES[0][b]`: the register after byte `b` into a zero register; `TABLES[i]`: after byte `b` and `i` zero bytes.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u32;
        let mut zeroes = 0;
        while zeroes < 8 {
            let mut bit = 0;
            while bit < 8 {
                register = times_x(register);
                bit += 1;
            }
            tables[zeroes][byte] = register;
            zeroes += 1;
        }
        byte += 1;
    }
    tables
};

/// `register` times x, modulo the polynomial: appends a zero bit.
const fn times_x(register: u32) -> u32 {
    register >> 1 ^ (POLYNOMIAL & (register & 1).wrapping_neg())
}

fn by_table(mut register: u32, data: &[u8]) -> u32 {
    for byte in data {
        let [low, ..] = register.to_le_bytes();
        register = register >> 8 ^ TABLES[0][usize::from(low ^ byte)];
    }
    register
}

fn by_slicing(mut register: u32, data: &[u8]) -> u32 {
    let (words, rest) = data.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word) ^ u64::from(register);
        register = 0;
        for (byte, table) in word.to_le_bytes().into_iter().zip(TABLES.iter().rev()) {
            register ^= table[usize::from(byte)];
        }
    }
    by_table(register, rest)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::times_x;
    use std::arch::x86_64::*;

    /// The longest streams, in words of 8 bytes: three make 4096 bytes, LevelDB's usual block.
    const STREAM_WORDS_MAX: usize = 170;

    /// Shorter data is computed as one stream: combining three costs more than they save.
    const STREAM_WORDS_MIN: usize = 8;

    /// x^(64n - 33) and x^(128n - 33) modulo the polynomial, for streams of n words: multiplied by x^33 these are the
    /// factors that advance a register by one or two streams.
    static SHIFTS: [[u32; 2]; STREAM_WORDS_MAX + 1] = {
        let mut shifts = [[0; 2]; STREAM_WORDS_MAX + 1];
        let mut power = 1_u32 << 31; // x^0, then x^31, x^95, ...
        let mut exponent = 0;
        while exponent + 33 <= 128 * STREAM_WORDS_MAX {
            if (exponent + 33).is_multiple_of(64) {
                let words = (exponent + 33) / 64;
                if words <= STREAM_WORDS_MAX {
                    shifts[words][0] = power;
                }
                if words.is_multiple_of(2) {
                    shifts[words / 2][1] = power;
                }
            }
            power = times_x(power);
            exponent += 1;
        }
        shifts
    };

    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn word(register: u64, word: &[u8; 8]) -> u64 {
        _mm_crc32_u64(register, u64::from_le_bytes(*word))
    }

    /// The low half of a register: the instruction leaves the high half zero.
    fn narrow(register: u64) -> u32 {
        register as u32
    }

    #[target_feature(enable = "sse4.2")]
    pub(super) fn by_instruction(register: u32, data: &[u8]) -> u32 {
        let (words, mut rest) = data.as_chunks::<8>();
        let mut long = u64::from(register);
        for eight in words {
            long = word(long, eight);
        }
        let mut register = narrow(long);
        if let Some((four, after)) = rest.split_first_chunk() {
            register = _mm_crc32_u32(register, u32::from_le_bytes(*four));
            rest = after;
        }
        for byte in rest {
            register = _mm_crc32_u8(register, *byte);
        }
        register
    }

    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub(super) fn by_three_streams(mut register: u32, data: &[u8]) -> u32 {
        let (mut words, _) = data.as_chunks::<8>();
        while words.len() / 3 >= STREAM_WORDS_MIN {
            let count = (words.len() / 3).min(STREAM_WORDS_MAX);
            let (first, rest) = words.split_at(count);
            let (second, rest) = rest.split_at(count);
            let (third, rest) = rest.split_at(count);
            register = three(register, first, second, third);
            words = rest;
        }
        by_instruction(register, &data[data.len() / 8 * 8 - words.len() * 8..])
    }

    /// The register after three consecutive streams of the same length.
    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn three(register: u32, first: &[[u8; 8]], second: &[[u8; 8]], third: &[[u8; 8]]) -> u32 {
        let [one, two] = SHIFTS[first.len()];
        let mut a = u64::from(register);
        let mut b = 0;
        let mut c = 0;
        for ((first, second), third) in first.iter().zip(second).zip(third) {
            a = word(a, first);
            b = word(b, second);
            c = word(c, third);
        }
        narrow(c) ^ shift(narrow(a), two) ^ shift(narrow(b), one)
    }

    /// `register` times `power` times x^33: the product of two reflected polynomials is one bit short,
    /// and the instruction multiplies by x^32 and reduces.
    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn shift(register: u32, power: u32) -> u32 {
        let factors = _mm_set_epi64x(i64::from(power), i64::from(register));
        let product = _mm_clmulepi64_si128::<0x10>(factors, factors);
        narrow(_mm_crc32_u64(0, _mm_cvtsi128_si64(product).cast_unsigned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    #[test]
    fn vectors_of_rfc_3720() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        for (row, data, want) in [
            ("nothing", &[][..], 0),
            ("zeroes", &[0; 32], 0x8A91_36AA),
            ("ones", &[0xFF; 32], 0x62A8_AB43),
            ("rising", &rising, 0x46DD_794E),
            ("falling", &falling, 0x113F_DB5C),
            ("digits", b"123456789", 0xE306_9283),
        ] {
            assert_eq!(crc32c(data), want, "{row}");
            for kernel in Kernel::available() {
                assert_eq!(append_with(kernel, 0, data), want, "{row}, {kernel:?}");
            }
        }
    }

    #[test]
    fn every_kernel_agrees_with_the_table() {
        let mut rng = Rng::new(12);
        let data = rng.bytes(if cfg!(miri) { 5000 } else { 20_000 });
        for round in (0..2500).step_by(2500 / rounds(2500)) {
            let start = rng.below(20);
            let length = match round {
                0..600 => round,
                600..1100 => 4096 - 250 + round - 600,
                _ if cfg!(miri) => rng.below(300),
                _ => rng.below(data.len() - 20),
            };
            let crc = rng.u64().to_le_bytes()[..4].try_into().map(u32::from_le_bytes).unwrap();
            let part = &data[start..start + length];
            let want = append_with(Kernel::REFERENCE, crc, part);
            for kernel in Kernel::available() {
                assert_eq!(append_with(kernel, crc, part), want, "{kernel:?}, {length} bytes");
            }
            let best = crate::Kernels::default();
            assert_eq!(append(crc, part), want, "by words, {length} bytes");
            assert_eq!(best.crc32c_append(crc, part), want, "best, {length} bytes");
            let (head, tail) = part.split_at(rng.below(length + 1));
            let have = best.crc32c_append(best.crc32c_append(crc, head), tail);
            assert_eq!(have, want, "in two parts, {length} bytes");
        }
    }
}
