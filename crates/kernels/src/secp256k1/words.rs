//! Numbers of 256 bits in lanes: from words of 64 bits to limbs of 52, and back.
//!
//! Vector `i` holds the lanes' word or limb `i`, the lowest first.

use super::field::{Fe, LIMB, TOP, carry_up};
use super::vector::{LANES_MAX, Vector};

/// The limbs of numbers of 256 bits.
#[inline(always)]
pub(super) fn limbs<V: Vector>(w: [V; 4]) -> [V; 5] {
    let limb = w[0].splat(LIMB);
    [
        w[0].and(limb),
        w[0].down::<52>().or(w[1].up::<12>()).and(limb),
        w[1].down::<40>().or(w[2].up::<24>()).and(limb),
        w[2].down::<28>().or(w[3].up::<36>()).and(limb),
        w[3].down::<16>(),
    ]
}

/// The words of numbers of 256 bits.
#[inline(always)]
pub(super) fn words<V: Vector>(t: [V; 5]) -> [V; 4] {
    [
        t[0].or(t[1].up::<52>()),
        t[1].down::<12>().or(t[2].up::<40>()),
        t[2].down::<24>().or(t[3].up::<28>()),
        t[3].down::<36>().or(t[4].up::<16>()),
    ]
}

/// The limbs of one number of 256 bits a lane.
#[inline(always)]
pub(super) fn limbs_of_lanes<V: Vector>(like: V, numbers: &[[u64; 4]; LANES_MAX]) -> [V; 5] {
    let mut words = [[0; LANES_MAX]; 4];
    for (lane, number) in numbers.iter().enumerate() {
        for word in 0..4 {
            words[word][lane] = number[word];
        }
    }
    limbs([like.load(&words[0]), like.load(&words[1]), like.load(&words[2]), like.load(&words[3])])
}

/// The limbs of the same number in all lanes.
#[inline(always)]
pub(super) fn limbs_splat<V: Vector>(like: V, w: [u64; 4]) -> [V; 5] {
    limbs([like.splat(w[0]), like.splat(w[1]), like.splat(w[2]), like.splat(w[3])])
}

impl<V: Vector> Fe<V> {
    /// The same number of 256 bits in all lanes.
    #[inline(always)]
    pub(super) fn splat(like: V, words: [u64; 4]) -> Fe<V> {
        Fe::from_vectors(limbs_splat(like, words))
    }

    /// Numbers of 256 bits; vector `i` holds the lanes' word `i`.
    #[inline(always)]
    pub(super) fn from_words(words: [V; 4]) -> Fe<V> {
        Fe::from_vectors(limbs(words))
    }

    /// Words of the same numbers, below 2^256 but not necessarily reduced below the prime; vector `i` holds the lanes'
    /// word `i`.
    #[inline(always)]
    pub(super) fn to_words(self) -> [V; 4] {
        words(self.below_2_256())
    }

    /// Limbs of the same numbers, below 2^256 but not necessarily reduced below the prime.
    #[inline(always)]
    fn below_2_256(self) -> [V; 5] {
        // Below 2^258: at most three times 2^256 are folded, which leaves less than 2^256 + 3 C. If that is not below
        // 2^256 it exceeds it by less than 3 C, and folding once more leaves less than 4 C: only in limb 0.
        let mut t = self.vectors();
        let like = t[0];
        t[0] = t[0].plus_c_times(t[4].down::<48>());
        t[4] = t[4].and(like.splat(TOP));
        t = carry_up(t);
        t[0] = t[0].plus_c_times(t[4].down::<48>());
        t[4] = t[4].and(like.splat(TOP));
        debug_assert!(t[0].above(LIMB.cast_signed()) == 0 && t[4].above(TOP.cast_signed()) == 0);
        t
    }

    /// One number of 256 bits in each lane.
    #[inline(always)]
    pub(super) fn from_lanes(like: V, numbers: &[[u64; 4]; LANES_MAX]) -> Fe<V> {
        Fe::from_vectors(limbs_of_lanes(like, numbers))
    }

    /// The numbers of a [`reduced`](Fe::reduced) element.
    #[cfg(test)]
    pub(super) fn to_lanes(self) -> [[u64; 4]; LANES_MAX] {
        let limbs = self.limbs();
        std::array::from_fn(|lane| {
            let l = limbs.map(|limb| limb[lane]);
            [l[0] | l[1] << 52, l[1] >> 12 | l[2] << 40, l[2] >> 24 | l[3] << 28, l[3] >> 36 | l[4] << 16]
        })
    }
}
