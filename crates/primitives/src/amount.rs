//! Amounts of money, and their compressed form in coins and undo data.

/// Satoshis. Signed as in Core, because an output may contain any 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Amount(pub i64);

impl Amount {
    /// One bitcoin.
    pub const COIN: Amount = Amount(100_000_000);
    /// The greatest valid amount. Source: Bitcoin Core b88bffe, consensus/amount.h.
    pub const MAX: Amount = Amount(21_000_000 * 100_000_000);

    /// Core's `MoneyRange`.
    pub const fn in_range(self) -> bool {
        self.0 >= 0 && self.0 <= Amount::MAX.0
    }

    /// The sum, if it is in range. Both operands must be in range already, so nothing overflows.
    pub const fn plus(self, other: Amount) -> Option<Amount> {
        let sum = Amount(self.0.wrapping_add(other.0));
        if sum.in_range() && self.in_range() && other.in_range() { Some(sum) } else { None }
    }
}

/// The compressed form: trailing decimal zeros become an exponent.
///
/// Source: Bitcoin Core b88bffe, `CompressAmount`.
#[inline]
pub fn compress(amount: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let mut n = amount;
    let mut e = 0;
    while e < 9 && n.is_multiple_of(10) {
        n /= 10;
        e += 1;
    }
    if e < 9 {
        let d = n % 10;
        // Amounts from a coin are in range, so this cannot overflow; foreign ones wrap as in Core.
        (n / 10).wrapping_mul(9).wrapping_add(d).wrapping_sub(1).wrapping_mul(10).wrapping_add(1 + e)
    } else {
        n.wrapping_sub(1).wrapping_mul(10).wrapping_add(10)
    }
}

/// The inverse of [`compress`]. Source: Bitcoin Core b88bffe, `DecompressAmount`.
#[inline]
pub fn decompress(value: u64) -> u64 {
    const TENS: [u64; 10] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
    if value == 0 {
        return 0;
    }
    let x = value - 1;
    let e = x % 10;
    let x = x / 10;
    let n = if e < 9 { (x / 9).wrapping_mul(10).wrapping_add(x % 9 + 1) } else { x.wrapping_add(1) };
    n.wrapping_mul(TENS[e as usize])
}

/// Whether [`compress`] gives another number for the amount that this one encodes: Core reads such a number, and stores
/// the other one.
///
/// Up to the first number whose amount exceeds 64 bits and wraps, each amount has only one number.
#[inline]
pub fn is_odd(compressed: u64) -> bool {
    const FIRST_THAT_WRAPS: u64 = u64::MAX / 1_000_000_000 * 10 + 10;
    compressed >= FIRST_THAT_WRAPS && compress(decompress(compressed)) != compressed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Core's compress_tests.cpp and facts of undo data.
    #[test]
    fn amount_compression_matches_core() {
        for (amount, value) in [
            (0, 0),
            (1, 1),
            (1_000_000, 7),
            (100_000_000, 9),
            (5_000_000_000, 0x32),
            (2_100_000_000_000_000, 0x0140_6f40),
            (546, 0x132f),
            (312_500_000, 0x6dde),
        ] {
            assert_eq!(compress(amount), value, "{amount}");
            assert_eq!(decompress(value), amount, "{amount}");
        }
        for n in (0..100_000).chain((0..60).map(|i| 1 << i)) {
            if n <= Amount::MAX.0 as u64 {
                assert_eq!(decompress(compress(n)), n);
            }
        }
        let _ = (compress(u64::MAX), decompress(u64::MAX)); // Foreign values wrap; they do not panic.
    }

    /// Beside what the definition says, around the first number that wraps and at all sizes.
    #[test]
    fn other_numbers_for_an_amount_are_odd() {
        let plain = |number: u64| compress(decompress(number)) != number;
        assert!(is_odd(184_467_440_740) && decompress(184_467_440_740) == 290_448_384);
        for number in 184_467_430_000..184_467_450_000 {
            assert_eq!(is_odd(number), plain(number), "{number}");
            assert!(number >= 184_467_440_740 || !plain(number), "{number}");
        }
        let mut rng = testkit::Rng::new(5);
        for _ in 0..100_000 {
            let number = rng.u64() >> rng.below(64);
            assert_eq!(is_odd(number), plain(number), "{number}");
        }
    }

    #[test]
    fn amount_range_ends_at_max_money() {
        assert!(Amount(0).in_range() && Amount::MAX.in_range());
        assert!(!Amount(-1).in_range() && !Amount(Amount::MAX.0 + 1).in_range());
        assert_eq!(Amount::MAX.plus(Amount(1)), None);
        assert_eq!(Amount(2).plus(Amount(3)), Some(Amount(5)));
        assert_eq!(Amount(i64::MAX).plus(Amount(i64::MAX)), None);
    }
}
