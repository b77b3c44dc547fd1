//! SipHash, which other programs use for hash tables of outpoints: for any bytes, and for an outpoint with the key
//! mixed in beforehand.
//!
//! Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012. Numbers of rounds are parameters: C in each
//! word, D at the end.

/// The four words of state.
#[derive(Clone, Copy)]
struct SipState([u64; 4]);

impl SipState {
    #[inline]
    fn new(key: [u64; 2]) -> SipState {
        SipState([
            key[0] ^ 0x736f_6d65_7073_6575,
            key[1] ^ 0x646f_7261_6e64_6f6d,
            key[0] ^ 0x6c79_6765_6e65_7261,
            key[1] ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }

    #[inline]
    fn word<const C: usize>(&mut self, word: u64) {
        self.0[3] ^= word;
        (0..C).for_each(|_| self.round());
        self.0[0] ^= word;
    }

    #[inline]
    fn finish<const D: usize>(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..D).for_each(|_| self.round());
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }
}

/// SipHash of any bytes.
pub(crate) fn general<const C: usize, const D: usize>(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = SipState::new(key);
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().for_each(|word| state.word::<C>(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    state.word::<C>(u64::from_le_bytes(last));
    state.finish::<D>()
}

/// The hash of an outpoint: always 36 bytes, so there is nothing to count.
#[derive(Clone, Copy)]
pub(crate) struct Presalted<const C: usize, const D: usize>(SipState);

impl<const C: usize, const D: usize> Presalted<C, D> {
    pub(crate) fn new(key: [u64; 2]) -> Presalted<C, D> {
        Presalted(SipState::new(key))
    }

    #[inline]
    pub(crate) fn outpoint(&self, txid: &[u8; 32], vout: u32) -> u64 {
        let mut state = self.0;
        txid.as_chunks::<8>().0.iter().for_each(|word| state.word::<C>(u64::from_le_bytes(*word)));
        state.word::<C>(36 << 56 | u64::from(vout));
        state.finish::<D>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    /// The vectors of the paper's reference implementation: bytes 0, 1, 2, .. under the key 00 01 .. 0f.
    #[test]
    fn siphash_matches_the_papers_vector() {
        let bytes: Vec<u8> = (0..64).collect();
        for (count, want) in [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (8, 0x93f5_f579_9a93_2462),
            (15, 0xa129_ca61_49be_45e5u64),
        ] {
            assert_eq!(general::<2, 4>(KEY, &bytes[..count]), want, "{count} bytes");
        }
    }

    /// The standard library's SipHash-2-4, old but there, is another implementation.
    #[test]
    #[allow(deprecated)]
    fn every_length_agrees_with_the_standard_library() {
        let bytes: Vec<u8> = (0..100).map(|byte: u8| byte.wrapping_mul(7)).collect();
        for count in 0..bytes.len() {
            let mut theirs = std::hash::SipHasher::new_with_keys(KEY[0], KEY[1]);
            theirs.write(&bytes[..count]);
            assert_eq!(general::<2, 4>(KEY, &bytes[..count]), theirs.finish(), "{count} bytes");
        }
    }

    #[test]
    fn presalted_siphash_equals_the_general_one() {
        for number in 0..100u8 {
            let txid: [u8; 32] = std::array::from_fn(|at| number.wrapping_mul(31).wrapping_add(at as u8));
            let vout = u32::from(number) * 0x0101_0101;
            let whole = [&txid[..], &vout.to_le_bytes()].concat();
            assert_eq!(Presalted::<2, 4>::new(KEY).outpoint(&txid, vout), general::<2, 4>(KEY, &whole));
            assert_eq!(Presalted::<1, 3>::new(KEY).outpoint(&txid, vout), general::<1, 3>(KEY, &whole));
        }
    }
}
