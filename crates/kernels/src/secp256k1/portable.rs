//! Two lanes without special instructions: the reference for the others, and the implementation of the ladder on
//! processors without lanes.

use super::vector::{C, LANES_MAX, Vector};

/// Two lanes in two words.
#[derive(Clone, Copy)]
pub(super) struct Portable([u64; 2]);

impl Portable {
    #[inline(always)]
    fn each(self, number: impl Fn(u64) -> u64) -> Portable {
        Portable([number(self.0[0]), number(self.0[1])])
    }

    #[inline(always)]
    fn both(self, other: Portable, number: impl Fn(u64, u64) -> u64) -> Portable {
        Portable([number(self.0[0], other.0[0]), number(self.0[1], other.0[1])])
    }

    #[inline(always)]
    fn mask(self, is: impl Fn(u64) -> bool) -> u8 {
        u8::from(is(self.0[0])) | u8::from(is(self.0[1])) << 1
    }
}

impl Vector for Portable {
    const LANES: usize = 2;
    const LOW: u64 = 0;
    const HIGH: u64 = 0;
    const SIGNED: bool = false;
    const CARRY_BIAS: u64 = 0;
    const MASKS: bool = false;
    type Factor = Portable;

    fn detect() -> Option<Portable> {
        Some(Portable([0; 2]))
    }

    fn run<R>(self, code: impl FnOnce() -> R) -> R {
        code()
    }

    #[inline(always)]
    fn call<R>(self, code: impl FnOnce() -> R) -> R {
        #[inline(never)]
        fn compiled<R>(code: impl FnOnce() -> R) -> R {
            code()
        }
        compiled(code)
    }

    #[inline(always)]
    fn splat(self, word: u64) -> Portable {
        Portable([word; 2])
    }

    #[inline(always)]
    fn load(self, words: &[u64; LANES_MAX]) -> Portable {
        Portable([words[0], words[1]])
    }

    #[inline(always)]
    fn store(self) -> [u64; LANES_MAX] {
        [self.0[0], self.0[1], 0, 0, 0, 0, 0, 0]
    }

    #[inline(always)]
    fn gather(self, rows: [&[u64; 4]; LANES_MAX]) -> [Portable; 4] {
        std::array::from_fn(|word| Portable([rows[0][word], rows[1][word]]))
    }

    #[inline(always)]
    fn scatter(columns: [Portable; 4], rows: [&mut [u64; 4]; LANES_MAX]) {
        for (lane, row) in rows.into_iter().take(2).enumerate() {
            *row = columns.map(|column| column.0[lane]);
        }
    }

    #[inline(always)]
    fn plus(self, other: Portable) -> Portable {
        self.both(other, u64::wrapping_add)
    }

    #[inline(always)]
    fn minus(self, other: Portable) -> Portable {
        self.both(other, u64::wrapping_sub)
    }

    #[inline(always)]
    fn and(self, other: Portable) -> Portable {
        self.both(other, |a, b| a & b)
    }

    #[inline(always)]
    fn or(self, other: Portable) -> Portable {
        self.both(other, |a, b| a | b)
    }

    #[inline(always)]
    fn up<const BITS: u32>(self) -> Portable {
        self.each(|word| word << BITS)
    }

    #[inline(always)]
    fn down<const BITS: u32>(self) -> Portable {
        self.each(|word| word >> BITS)
    }

    #[inline(always)]
    fn carried(self) -> Portable {
        self.each(|word| (word.cast_signed() >> 52).cast_unsigned())
    }

    #[inline(always)]
    fn factor(self) -> Portable {
        debug_assert!(self.0.iter().all(|&word| word < 1 << 52));
        self
    }

    #[inline(always)]
    fn add_product(low: &mut Portable, high: &mut Portable, a: Portable, b: Portable) {
        for lane in 0..2 {
            let product = u128::from(a.0[lane]) * u128::from(b.0[lane]);
            low.0[lane] = low.0[lane].wrapping_add(product as u64 & ((1 << 52) - 1));
            high.0[lane] = high.0[lane].wrapping_add((product >> 52) as u64);
        }
    }

    #[inline(always)]
    fn plus_c_times(self, number: Portable) -> Portable {
        debug_assert!(number.0.iter().all(|&word| word < 1 << 20));
        self.both(number, |word, number| word.wrapping_add(number * C))
    }

    #[inline(always)]
    fn where_else(self, mask: u8, other: Portable) -> Portable {
        Portable([0, 1].map(|lane| if mask >> lane & 1 == 1 { self.0[lane] } else { other.0[lane] }))
    }

    #[inline(always)]
    fn negative_where(self, mask: u8) -> Portable {
        self.each(u64::wrapping_neg).where_else(mask, self)
    }

    #[inline(always)]
    fn zeros(self) -> u8 {
        self.mask(|word| word == 0)
    }

    #[inline(always)]
    fn above(self, bound: i64) -> u8 {
        self.mask(|word| word.cast_signed() > bound)
    }
}
