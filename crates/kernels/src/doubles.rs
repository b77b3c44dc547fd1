//! Halves of 104-bit products by doubles with one rounding (FMA), for processors without 52-bit multiplication.
//!
//! With a and b below 2^52, `upper = a b + 2^104`, rounded to a double, is 2^104 + r 2^52; the bits of that double are
//! those of 2^104 plus r. Then `a b - r 2^52` is within 2^51 of zero, and `a b + (3 * 2^51 - r 2^52)` is exact, with
//! the bits of 3 * 2^51 plus it. The value in brackets is exact, too. It is computed as `2^104 + 3 * 2^51` less
//! `upper`; since `2^104 + 3 * 2^51` has more bits than a double, it is computed as a product of two. Rounding is to
//! nearest, as every Rust program may rely on. Source: N. Emmart, F. Zheng, C. Weems, "Faster Modular Exponentiation
//! Using Double Precision Floating Point Arithmetic on the GPU" has the two halves, but with rounding to zero, which
//! does not need that product.

/// 2^52, whose last bit is one.
pub(crate) const TWO_52: f64 = (1u64 << 52) as f64;
/// 2^104, whose last bit is 2^52.
pub(crate) const TWO_104: f64 = TWO_52 * TWO_52;
/// The constant in a lower column in addition to the lower half.
pub(crate) const LOW: f64 = (3u64 << 51) as f64;
/// Two numbers whose product is `2^104 + 3 * 2^51`, or `2^51 (2^53 + 3)`.
pub(crate) const MIDDLE: [f64; 2] = [(5u64 << 51) as f64, FACTOR as f64];

const FACTOR: u64 = 1_801_439_850_948_199;
const _: () = assert!(5 * FACTOR == (1 << 53) + 3 && FACTOR < 1 << 53);
