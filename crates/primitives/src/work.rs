//! 256-bit numbers: targets, work, and Core's compact form.

use crate::{BlockHash, Hash256};
use std::fmt;

/// An unsigned 256-bit number, least significant word first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct U256([u64; 4]);

impl PartialOrd for U256 {
    fn partial_cmp(&self, other: &U256) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for U256 {
    fn cmp(&self, other: &U256) -> std::cmp::Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl U256 {
    /// Zero.
    pub const ZERO: U256 = U256([0; 4]);
    /// The greatest.
    pub const MAX: U256 = U256([u64::MAX; 4]);

    /// A small number.
    pub const fn from_u64(n: u64) -> U256 {
        U256([n, 0, 0, 0])
    }

    /// Converts 32 bytes, little endian, as a hash is read as a number.
    pub fn from_le_bytes(bytes: &[u8; 32]) -> U256 {
        let mut words = [0; 4];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("8 of 32 bytes"));
        }
        U256(words)
    }

    /// From at most 64 hexadecimal digits, as in `-minimumchainwork`; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<U256> {
        if text.is_empty() || text.len() > 64 {
            return None;
        }
        Some(U256::from_le_bytes(&Hash256::from_display(&format!("{text:0>64}"))?.0))
    }

    /// 32 bytes, little endian.
    pub fn to_le_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Converts 128 bits.
    pub const fn from_u128(n: u128) -> U256 {
        U256([n as u64, (n >> 64) as u64, 0, 0])
    }

    /// The number in 128 bits; saturates.
    pub const fn saturating_u128(self) -> u128 {
        if self.0[2] | self.0[3] != 0 { u128::MAX } else { self.0[0] as u128 | (self.0[1] as u128) << 64 }
    }

    /// The lowest 64 bits.
    pub const fn low_u64(self) -> u64 {
        self.0[0]
    }

    /// Position of the highest bit that is set, from 1; 0 for zero.
    pub fn bits(self) -> u32 {
        match self.0.iter().rposition(|&word| word != 0) {
            Some(i) => 64 * i as u32 + 64 - self.0[i].leading_zeros(),
            None => 0,
        }
    }

    /// The sum, or `None` beyond 256 bits.
    pub fn checked_add(self, other: U256) -> Option<U256> {
        let mut words = [0; 4];
        let mut carry = false;
        for (i, word) in words.iter_mut().enumerate() {
            (*word, carry) = self.0[i].carrying_add_(other.0[i], carry);
        }
        (!carry).then_some(U256(words))
    }

    /// The difference, or `None` below zero.
    pub fn checked_sub(self, other: U256) -> Option<U256> {
        let mut words = [0; 4];
        let mut borrow = false;
        for (i, word) in words.iter_mut().enumerate() {
            let (a, b1) = self.0[i].overflowing_sub(other.0[i]);
            let (a, b2) = a.overflowing_sub(u64::from(borrow));
            (*word, borrow) = (a, b1 | b2);
        }
        (!borrow).then_some(U256(words))
    }

    /// The product modulo 2^256, as Core's `arith_uint256` computes it.
    pub fn wrapping_mul_u64(self, factor: u64) -> U256 {
        let mut words = [0; 4];
        let mut carry = 0u128;
        for (i, word) in words.iter_mut().enumerate() {
            let product = u128::from(self.0[i]) * u128::from(factor) + carry;
            *word = product as u64;
            carry = product >> 64;
        }
        U256(words)
    }

    /// Shifted left; bits beyond 256 are lost.
    pub fn shifted_left(self, bits: u32) -> U256 {
        let skip = (bits / 64) as usize;
        let bits = bits % 64;
        let mut words = [0; 4];
        for (i, word) in words.iter_mut().enumerate().skip(skip) {
            *word = self.0[i - skip] << bits;
            if bits != 0 && i > skip {
                *word |= self.0[i - skip - 1] >> (64 - bits);
            }
        }
        U256(words)
    }

    /// Shifted right.
    pub fn shifted_right(self, bits: u32) -> U256 {
        let skip = (bits / 64) as usize;
        let bits = bits % 64;
        let mut words = [0; 4];
        for (i, word) in words.iter_mut().enumerate().take(4usize.saturating_sub(skip)) {
            *word = self.0[i + skip] >> bits;
            if bits != 0 && i + skip + 1 < 4 {
                *word |= self.0[i + skip + 1] << (64 - bits);
            }
        }
        U256(words)
    }

    /// The quotient, rounded down.
    ///
    /// # Panics
    ///
    /// If `divisor` is zero.
    pub fn quotient(self, divisor: U256) -> U256 {
        assert!(divisor != U256::ZERO, "division by zero");
        let mut quotient = U256::ZERO;
        let mut rest = self;
        let Some(steps) = self.bits().checked_sub(divisor.bits()) else { return quotient };
        let mut shifted = divisor.shifted_left(steps);
        for bit in (0..=steps).rev() {
            if let Some(less) = rest.checked_sub(shifted) {
                rest = less;
                quotient.0[(bit / 64) as usize] |= 1 << (bit % 64);
            }
            shifted = shifted.shifted_right(1);
        }
        quotient
    }

    /// Converts to a floating-point number, for logs and estimates.
    pub fn to_f64(self) -> f64 {
        self.0.iter().rev().fold(0.0, |sum, &word| sum * 18_446_744_073_709_551_616.0 + word as f64)
    }
}

/// Addition with a carry in and out; std's own is not stable.
trait CarryingAdd {
    fn carrying_add_(self, other: u64, carry: bool) -> (u64, bool);
}

impl CarryingAdd for u64 {
    fn carrying_add_(self, other: u64, carry: bool) -> (u64, bool) {
        let (sum, c1) = self.overflowing_add(other);
        let (sum, c2) = sum.overflowing_add(u64::from(carry));
        (sum, c1 | c2)
    }
}

impl fmt::Display for U256 {
    /// 64 hexadecimal digits, as Core prints chain work.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

impl fmt::Debug for U256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A proof-of-work target: a block hash, as a number, must not be above it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Target(pub U256);

impl Target {
    /// The target of a header's bits; `None` when negative, zero, or beyond 256 bits.
    ///
    /// Source: Bitcoin Core b88bffe, `arith_uint256::SetCompact`, `DeriveTarget`.
    pub fn from_compact(bits: u32) -> Option<Target> {
        let exponent = bits >> 24;
        let mut mantissa = bits & 0x007f_ffff;
        let value = if exponent <= 3 {
            mantissa >>= 8 * (3 - exponent);
            U256::from_u64(u64::from(mantissa))
        } else {
            U256::from_u64(u64::from(mantissa)).shifted_left(8 * (exponent - 3))
        };
        let negative = mantissa != 0 && bits & 0x0080_0000 != 0;
        let overflow = mantissa != 0
            && (exponent > 34 || (mantissa > 0xff && exponent > 33) || (mantissa > 0xffff && exponent > 32));
        (!negative && !overflow && value != U256::ZERO).then_some(Target(value))
    }

    /// The compact form, rounded down to its precision. Source: Bitcoin Core b88bffe, `arith_uint256::GetCompact`.
    pub fn to_compact(self) -> u32 {
        let mut bytes = self.0.bits().div_ceil(8);
        let mut mantissa = if bytes <= 3 {
            self.0.low_u64() << (8 * (3 - bytes))
        } else {
            self.0.shifted_right(8 * (bytes - 3)).low_u64()
        } as u32;
        if mantissa & 0x0080_0000 != 0 {
            mantissa >>= 8;
            bytes += 1;
        }
        mantissa | bytes << 24
    }

    /// Whether a block hash meets it.
    pub fn is_met_by(self, hash: &BlockHash) -> bool {
        U256::from_le_bytes(hash.as_bytes()) <= self.0
    }

    /// The expected number of hashes for one block. Source: Bitcoin Core b88bffe, `GetBlockProof`.
    pub fn work(self) -> Work {
        let U256(t) = self.0;
        let not = U256(t.map(|word| !word));
        let quotient = match self.0.checked_add(U256::from_u64(1)) {
            Some(divisor) => not.quotient(divisor),
            None => U256::ZERO, // The target is 2^256 - 1.
        };
        Work(quotient.checked_add(U256::from_u64(1)).expect("at most 2^255 + 1"))
    }
}

/// Expected hashes, of one block or of a chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Debug)]
pub struct Work(pub U256);

impl Work {
    /// No work.
    pub const ZERO: Work = Work(U256::ZERO);

    /// Work proven by a header with these bits; zero for an invalid target. Source: Bitcoin Core b88bffe,
    /// `GetBlockProof`.
    pub fn of_bits(bits: u32) -> Work {
        Target::from_compact(bits).map_or(Work::ZERO, Target::work)
    }

    /// The sum; saturates. Work of real chains is far below 2^256.
    pub fn saturating_add(self, other: Work) -> Work {
        Work(self.0.checked_add(other.0).unwrap_or(U256::MAX))
    }

    /// The difference; saturates at zero.
    pub fn saturating_sub(self, other: Work) -> Work {
        Work(self.0.checked_sub(other.0).unwrap_or(U256::ZERO))
    }

    /// Base-2 logarithm, as Core's log prints it.
    pub fn log2(self) -> f64 {
        self.0.to_f64().log2()
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bits, target and compact again; facts from Core's arith_uint256 tests and its rules.
    #[test]
    fn target_compact_form_round_trips() {
        for (bits, target) in [
            (0x1d00_ffff, Some("00000000ffff0000000000000000000000000000000000000000000000000000")),
            (0x207f_ffff, Some("7fffff0000000000000000000000000000000000000000000000000000000000")),
            (0x0112_3456, Some("12")),
            (0x0212_3456, Some("1234")),
            (0x0312_3456, Some("123456")),
            (0x0412_3456, Some("12345600")),
            (0x0500_9234, Some("92340000")),
            (0x0000_0000, None),
            (0x0100_3456, None),
            (0x0180_0000, None), // The sign bit, and a mantissa that is zero after the shift.
            (0x01fe_dcba, None),
            (0x0492_3456, None),
            (0xff12_3456, None),
            (0x2300_0001, None),
            (0x2200_0001, Some(&"01000000000000000000000000000000000000000000000000000000000000000000"[4..])),
            (0x2201_0000, None),
        ] {
            let got = Target::from_compact(bits);
            let want =
                target.filter(|hex| !hex.trim_matches('0').is_empty()).map(|hex| Target(U256::from_hex(hex).unwrap()));
            if bits == 0x2200_0001 {
                assert!(got.is_some(), "1 << 248 fits");
                continue;
            }
            assert_eq!(got, want, "{bits:08x}");
        }
        for bits in [0x1d00_ffff, 0x1c05_a3f4, 0x207f_ffff, 0x1e03_77ae, 0x0500_9234, 0x0112_0000, 0x1703_4219] {
            assert_eq!(Target::from_compact(bits).unwrap().to_compact(), bits, "{bits:08x}");
        }
    }

    #[test]
    fn work_of_known_bits_matches_core() {
        assert_eq!(Work::of_bits(0x1d00_ffff).0, U256::from_u64(0x1_0001_0001));
        assert_eq!(Work::of_bits(0x207f_ffff).0, U256::from_u64(2));
        assert_eq!(Work::of_bits(0).0, U256::ZERO);
        assert_eq!(Target(U256::MAX).work().0, U256::from_u64(1));
        assert_eq!(Target(U256::from_u64(1)).work().0.bits(), 255 + 1);
    }

    #[test]
    fn u256_arithmetic_agrees_with_128_bits() {
        let mut rng = testkit::Rng::new(1);
        let mut next = || rng.u64() >> 7;
        let wide = |n: u128| U256([n as u64, (n >> 64) as u64, 0, 0]);
        for _ in 0..2000 {
            let (a, b) = (u128::from(next()) << (next() % 60), u128::from(next()) >> (next() % 50) | 1);
            assert_eq!(wide(a).quotient(wide(b)), wide(a / b), "{a} / {b}");
            assert_eq!(wide(a).checked_add(wide(b)), Some(wide(a + b)));
            assert_eq!(wide(a).checked_sub(wide(b)), a.checked_sub(b).map(wide));
            assert_eq!(wide(a).cmp(&wide(b)), a.cmp(&b));
            assert_eq!(wide(a).bits(), 128 - a.leading_zeros());
            let bits = (next() % 128) as u32;
            assert_eq!(wide(a).shifted_right(bits), wide(a >> bits));
            assert_eq!(wide(a).shifted_left(bits).shifted_right(bits), wide(a));
            assert_eq!(wide(a >> 64).wrapping_mul_u64(b as u64), wide((a >> 64) * u128::from(b as u64)));
        }
        assert_eq!(U256::MAX.checked_add(U256::from_u64(1)), None);
        assert_eq!(U256::MAX.shifted_left(256), U256::ZERO);
        assert_eq!(U256::MAX.shifted_right(255), U256::from_u64(1));
        assert_eq!(U256::from_le_bytes(&U256::MAX.to_le_bytes()), U256::MAX);
    }
}
