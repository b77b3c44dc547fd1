//! Modular inverses for an odd modulus of 256 bits, by division steps, 62 at a time.
//!
//! f starts as the modulus, g as the number. If g is odd, a step first adds f to it or exchanges both; then it halves
//! g. In the end g is zero and f is plus or minus the common divisor. 62 steps depend only on the lowest 62 bits: they
//! are computed in single words, as a matrix, which is then applied to the whole numbers. It is also applied to two
//! more, d and e, with the invariant `d number = f`, `e number = g` modulo the modulus. Source: D. J. Bernstein, B.-Y.
//! Yang, "Fast constant-time gcd computation and modular inversion"; several steps at once, and the bounds of d and e:
//! libsecp256k1, `modinv64_impl.h`, the variable-time variant.
//!
//! Layout of [`Signed`]: five limbs of weight 2^(62 i), the lower four from 0 to 2^62, the highest with the sign.
//!
//! Absent on purpose: constant time. Nothing here is secret.

/// Bits of a limb, and steps of a matrix.
const STEPS: u32 = 62;
const LOW: u64 = u64::MAX >> (64 - STEPS);
/// More matrices than any number of 256 bits needs: this variant needs at most 590 steps, so ten matrices.
const MATRICES_MAX: usize = 12;

/// A number of at most 310 bits, and its sign.
type Signed = [i64; 5];

/// u, v, q and r of `f = (u f + v g) / 2^62`, `g = (q f + r g) / 2^62`: |u| + |v| is at most 2^62, and so is |q| + |r|.
type Matrix = [i64; 4];

/// The inverse of a nonzero number below an odd prime modulus of 256 bits; `None` if there is no inverse, as for zero.
pub(super) fn inverse(number: [u64; 4], modulus: [u64; 4]) -> Option<[u64; 4]> {
    let modulus = signed(modulus);
    let mut f = modulus;
    let mut g = signed(number);
    let mut d: Signed = [0; 5];
    let mut e: Signed = [1, 0, 0, 0, 0];
    let of_modulus = inverse_of_word(modulus[0].cast_unsigned());
    let mut eta = -1;
    for _ in 0..MATRICES_MAX {
        let matrix = steps(&mut eta, f[0].cast_unsigned(), g[0].cast_unsigned());
        (d, e) = move_factors(d, e, matrix, &modulus, of_modulus);
        (f, g) = move_numbers(f, g, matrix);
        if g == [0; 5] {
            let is_negative = f[4] < 0;
            let divisor = if is_negative { negative(f) } else { f };
            return (divisor == [1, 0, 0, 0, 0]).then(|| words(within(d, is_negative, &modulus)));
        }
    }
    None
}

/// A number of 256 bits.
fn signed(words: [u64; 4]) -> Signed {
    let limb = |at: usize| {
        let word = at * 62 / 64;
        let shift = at * 62 % 64;
        let above = if shift > 2 && word < 3 { words[word + 1] << (64 - shift) } else { 0 };
        ((words[word] >> shift | above) & LOW).cast_signed()
    };
    [limb(0), limb(1), limb(2), limb(3), limb(4)]
}

/// The words of a number from 0 to 2^256.
fn words(number: Signed) -> [u64; 4] {
    let limbs = number.map(i64::cast_unsigned);
    std::array::from_fn(|word| limbs[word] >> (2 * word) | limbs[word + 1] << (62 - 2 * word))
}

/// The inverse of an odd word modulo 2^62: each step doubles the number of correct bits, starting with three.
fn inverse_of_word(word: u64) -> u64 {
    (0..5).fold(word, |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(word.wrapping_mul(inverse)))) & LOW
}

/// 62 steps on the lowest words of f, which is odd, and g. `eta` is carried from one call to the next.
fn steps(eta: &mut i64, f: u64, g: u64) -> Matrix {
    let mut f = f;
    let mut g = g;
    let mut u = 1u64;
    let mut v = 0u64;
    let mut q = 0u64;
    let mut r = 1u64;
    let mut left = STEPS;
    loop {
        // Skips the steps in which g is even.
        let zeros = (g | u64::MAX << left).trailing_zeros();
        (g, u, v) = (g >> zeros, u << zeros, v << zeros);
        *eta -= i64::from(zeros);
        left -= zeros;
        if left == 0 {
            return [u, v, q, r].map(u64::cast_signed);
        }
        // Both are odd. A multiple of f is added to g that makes as many low bits as possible zero.
        let factor = if *eta < 0 {
            *eta = -*eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
            let bits = (*eta + 1).min(i64::from(left)).min(6) as u32;
            let factor = f.wrapping_mul(g).wrapping_mul(f.wrapping_mul(f).wrapping_sub(2));
            factor & (u64::MAX >> (64 - bits))
        } else {
            let bits = (*eta + 1).min(i64::from(left)).min(4) as u32;
            let factor = f.wrapping_add((f.wrapping_add(1) & 4) << 1);
            factor.wrapping_neg().wrapping_mul(g) & (u64::MAX >> (64 - bits))
        };
        g = g.wrapping_add(f.wrapping_mul(factor));
        q = q.wrapping_add(u.wrapping_mul(factor));
        r = r.wrapping_add(v.wrapping_mul(factor));
    }
}

/// The sum of two products of limbs: `a x + b y`.
#[inline]
fn dot(a: i64, x: i64, b: i64, y: i64) -> i128 {
    i128::from(a) * i128::from(x) + i128::from(b) * i128::from(y)
}

/// The lowest 62 bits.
#[inline]
fn low(number: i128) -> i64 {
    (number as u64 & LOW).cast_signed()
}

/// f and g after the steps; the division is exact.
fn move_numbers(f: Signed, g: Signed, [u, v, q, r]: Matrix) -> (Signed, Signed) {
    let mut to_f = [0; 5];
    let mut to_g = [0; 5];
    let mut sum_f = dot(u, f[0], v, g[0]);
    let mut sum_g = dot(q, f[0], r, g[0]);
    debug_assert!(low(sum_f) == 0 && low(sum_g) == 0);
    for i in 1..5 {
        sum_f = (sum_f >> 62) + dot(u, f[i], v, g[i]);
        sum_g = (sum_g >> 62) + dot(q, f[i], r, g[i]);
        (to_f[i - 1], to_g[i - 1]) = (low(sum_f), low(sum_g));
    }
    (to_f[4], to_g[4]) = ((sum_f >> 62) as i64, (sum_g >> 62) as i64);
    (to_f, to_g)
}

/// d and e after the steps, between -2 and 1 times the modulus before and after; multiples of the modulus are added to
/// make the division exact.
fn move_factors(d: Signed, e: Signed, [u, v, q, r]: Matrix, modulus: &Signed, of_modulus: u64) -> (Signed, Signed) {
    let sign_d = d[4] >> 63;
    let sign_e = e[4] >> 63;
    let mut times_d = (u & sign_d) + (v & sign_e);
    let mut times_e = (q & sign_d) + (r & sign_e);
    let mut sum_d = dot(u, d[0], v, e[0]);
    let mut sum_e = dot(q, d[0], r, e[0]);
    let rest = |sum: i128, times: i64| {
        let wanted = of_modulus.wrapping_mul(sum as u64).wrapping_add(times.cast_unsigned()) & LOW;
        times - wanted.cast_signed()
    };
    (times_d, times_e) = (rest(sum_d, times_d), rest(sum_e, times_e));
    sum_d += i128::from(modulus[0]) * i128::from(times_d);
    sum_e += i128::from(modulus[0]) * i128::from(times_e);
    debug_assert!(low(sum_d) == 0 && low(sum_e) == 0);
    let mut to_d = [0; 5];
    let mut to_e = [0; 5];
    for i in 1..5 {
        sum_d = (sum_d >> 62) + dot(u, d[i], v, e[i]) + i128::from(modulus[i]) * i128::from(times_d);
        sum_e = (sum_e >> 62) + dot(q, d[i], r, e[i]) + i128::from(modulus[i]) * i128::from(times_e);
        (to_d[i - 1], to_e[i - 1]) = (low(sum_d), low(sum_e));
    }
    (to_d[4], to_e[4]) = ((sum_d >> 62) as i64, (sum_e >> 62) as i64);
    (to_d, to_e)
}

/// Carries limbs within 2^63 of zero.
fn carried(mut number: Signed) -> Signed {
    for i in 0..4 {
        number[i + 1] += number[i] >> 62;
        number[i] &= LOW.cast_signed();
    }
    number
}

fn negative(number: Signed) -> Signed {
    carried(number.map(|limb| -limb))
}

fn plus(a: Signed, b: &Signed) -> Signed {
    carried(std::array::from_fn(|i| a[i] + b[i]))
}

/// Reduces a number between -2 and 1 times the modulus, or its negative, to the range 0 to the modulus.
fn within(number: Signed, is_negative: bool, modulus: &Signed) -> Signed {
    let mut number = if number[4] < 0 { plus(number, modulus) } else { number };
    if is_negative {
        number = negative(number);
    }
    if number[4] < 0 { plus(number, modulus) } else { number }
}
