//! The position of a block in a chain, and the time that the rules use there: [`Height`] and [`MedianTime`], two types
//! that cannot be mixed up.
//!
//! ```
//! # use primitives::{Height, MedianTime};
//! # struct Context { height: Height, median_time_past: MedianTime }
//! let context = Context { height: Height::new(1), median_time_past: MedianTime::new(1_231_006_505) };
//! ```
//!
//! Swapping them does not compile, nor does a plain number:
//!
//! ```compile_fail,E0308
//! # use primitives::{Height, MedianTime};
//! # struct Context { height: Height, median_time_past: MedianTime }
//! let context = Context { height: MedianTime::new(1_231_006_505), median_time_past: Height::new(1) };
//! ```
//!
//! ```compile_fail,E0308
//! # use primitives::Height;
//! let height: Height = 1;
//! ```
//!
//! A height plus a number of blocks is a height; the difference of two heights is a number of blocks.

use std::fmt;
use std::num::ParseIntError;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// Defines a number type with a meaning.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The least value.
            pub const ZERO: $name = $name(0);
            /// The greatest value.
            pub const MAX: $name = $name(u32::MAX);

            /// Gives `number` this meaning.
            #[inline]
            pub const fn new(number: u32) -> $name {
                $name(number)
            }

            /// The plain number.
            #[inline]
            pub const fn to_u32(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        const _: () = assert!(size_of::<$name>() == 4 && align_of::<$name>() == 4, "a u32 in memory");
    };
}

number! {
    /// The place of a block in its chain: the genesis block has height 0.
    Height
}
number! {
    /// The median of the times of a block and the ten before it, in seconds since 1970. Source: BIP-0113.
    MedianTime
}

impl Height {
    /// The genesis block's.
    pub const GENESIS: Height = Height(0);

    /// The height as an index in a list that starts with the genesis block.
    #[inline]
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }

    /// The height of the item at `index` of a list that starts with the genesis block.
    ///
    /// # Panics
    ///
    /// If it does not fit in 32 bits.
    #[inline]
    pub fn from_index(index: usize) -> Height {
        Height(u32::try_from(index).expect("a chain has fewer than 2^32 blocks"))
    }

    /// The height `blocks` lower; `None` below the genesis block.
    #[inline]
    pub const fn checked_sub(self, blocks: u32) -> Option<Height> {
        match self.0.checked_sub(blocks) {
            Some(height) => Some(Height(height)),
            None => None,
        }
    }

    /// The height `blocks` higher; `None` beyond 32 bits.
    #[inline]
    pub const fn checked_add(self, blocks: u32) -> Option<Height> {
        match self.0.checked_add(blocks) {
            Some(height) => Some(Height(height)),
            None => None,
        }
    }

    /// The height `blocks` lower, and not below the genesis block.
    #[inline]
    pub const fn saturating_sub(self, blocks: u32) -> Height {
        Height(self.0.saturating_sub(blocks))
    }

    /// The height `blocks` higher, and not beyond 32 bits.
    #[inline]
    pub const fn saturating_add(self, blocks: u32) -> Height {
        Height(self.0.saturating_add(blocks))
    }

    /// Number of blocks above `lower`; 0 if it is not above.
    #[inline]
    pub const fn blocks_above(self, lower: Height) -> u32 {
        self.0.saturating_sub(lower.0)
    }

    /// Whether a period of `blocks` blocks starts here.
    #[inline]
    pub const fn is_multiple_of(self, blocks: u32) -> bool {
        self.0.is_multiple_of(blocks)
    }

    /// The heights from this one to `last`, both included.
    pub fn to(self, last: Height) -> impl DoubleEndedIterator<Item = Height> + Clone {
        (self.0..=last.0).map(Height)
    }
}

impl Add<u32> for Height {
    type Output = Height;

    /// # Panics
    ///
    /// Beyond 32 bits.
    #[inline]
    fn add(self, blocks: u32) -> Height {
        self.checked_add(blocks).expect("a height fits in 32 bits")
    }
}

impl AddAssign<u32> for Height {
    #[inline]
    fn add_assign(&mut self, blocks: u32) {
        *self = *self + blocks;
    }
}

impl Sub<u32> for Height {
    type Output = Height;

    /// # Panics
    ///
    /// For a height below the genesis block.
    #[inline]
    fn sub(self, blocks: u32) -> Height {
        self.checked_sub(blocks).expect("no height is below the genesis block's")
    }
}

impl SubAssign<u32> for Height {
    #[inline]
    fn sub_assign(&mut self, blocks: u32) {
        *self = *self - blocks;
    }
}

impl Sub for Height {
    type Output = u32;

    /// Number of blocks above `lower`.
    ///
    /// # Panics
    ///
    /// If it is below.
    #[inline]
    fn sub(self, lower: Height) -> u32 {
        self.0.checked_sub(lower.0).expect("the lower height is subtracted")
    }
}

impl FromStr for Height {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Height, ParseIntError> {
        text.parse().map(Height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn height_arithmetic_counts_blocks() {
        let [low, high] = [3, 10].map(Height::new);
        assert_eq!((low + 7, high - 7, high - low), (high, low, 7));
        assert_eq!((low.checked_sub(4), low.saturating_sub(4)), (None, Height::GENESIS));
        assert_eq!((Height::MAX.checked_add(1), Height::MAX.saturating_add(1)), (None, Height::MAX));
        assert_eq!((high.blocks_above(low), low.blocks_above(high)), (7, 0));
        assert_eq!(low.to(Height::new(5)).collect::<Vec<_>>(), [3, 4, 5].map(Height::new));
        assert_eq!(high.to(low).next(), None);
        assert_eq!((low.to_u32(), low.to_usize(), Height::from_index(3)), (3, 3, low));
        assert_eq!((format!("{high:>4} {high:?}"), "10".parse()), ("  10 10".to_owned(), Ok(high)));
        assert!("-1".parse::<Height>().is_err());
    }

    #[test]
    #[should_panic(expected = "no height is below the genesis block's")]
    fn height_below_genesis_panics() {
        let _ = Height::GENESIS - 1;
    }

    #[test]
    #[should_panic(expected = "the lower height is subtracted")]
    fn height_minus_higher_height_panics() {
        let _ = Height::GENESIS - Height::new(1);
    }
}
