//! SipHash-2-4, and Core's SipHash-1-3 without padding.
//!
//! Source: "SipHash: a fast short-input PRF" (Aumasson, Bernstein); Bitcoin Core b88bffe, crypto/siphash.h.

/// The key of a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SipKey {
    /// The first eight bytes, little endian.
    pub k0: u64,
    /// The last eight bytes.
    pub k1: u64,
}

impl SipKey {
    /// Reads a key of 16 bytes, as Core stores a pair of numbers.
    pub fn from_bytes(bytes: &[u8; 16]) -> SipKey {
        SipKey { k0: word(&bytes[..8]), k1: word(&bytes[8..]) }
    }

    /// The 16 bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.k1) << 64 | u128::from(self.k0)).to_le_bytes()
    }
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

struct SipState([u64; 4]);

impl SipState {
    #[inline]
    fn new(key: SipKey) -> SipState {
        SipState([
            0x736f_6d65_7073_6575 ^ key.k0,
            0x646f_7261_6e64_6f6d ^ key.k1,
            0x6c79_6765_6e65_7261 ^ key.k0,
            0x7465_6462_7974_6573 ^ key.k1,
        ])
    }

    #[inline]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    #[inline]
    fn compress2(&mut self, data: u64) {
        self.0[3] ^= data;
        self.round();
        self.round();
        self.0[0] ^= data;
    }

    #[inline]
    fn end(self) -> u64 {
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }
}

/// SipHash-2-4 of `data`.
#[inline]
pub fn siphash24(key: SipKey, data: &[u8]) -> u64 {
    let mut state = SipState::new(key);
    let (words, _) = data.as_chunks::<8>();
    words.iter().for_each(|eight| state.compress2(u64::from_le_bytes(*eight)));
    state.compress2(last_word(data));
    state.0[2] ^= 0xff;
    (0..4).for_each(|_| state.round());
    state.end()
}

/// Messages hashed side by side: a single one has to wait for the result of each step.
const LANES: usize = 4;
/// Longer messages, in words of eight bytes, are hashed singly.
const LANE_WORDS_MAX: usize = 8;

/// [`siphash24`] of each message, into the same position of `out`: messages of equal numbers of whole words side by
/// side.
///
/// # Panics
///
/// If the lengths of `messages` and `out` differ.
pub fn siphash24_many(key: SipKey, messages: &[&[u8]], out: &mut [u64]) {
    assert_eq!(messages.len(), out.len(), "a place for each message");
    let mut waiting = [([0; LANES], 0); LANE_WORDS_MAX + 1];
    for (at, message) in messages.iter().enumerate() {
        let words = message.len() / 8;
        let Some((places, count)) = waiting.get_mut(words) else {
            out[at] = siphash24(key, message);
            continue;
        };
        places[*count] = at;
        *count += 1;
        if *count == LANES {
            *count = 0;
            let hashes = side_by_side(key, words, places.map(|at| messages[at]));
            places.iter().zip(hashes).for_each(|(at, hash)| out[*at] = hash);
        }
    }
    for (places, count) in waiting {
        places[..count].iter().for_each(|at| out[*at] = siphash24(key, messages[*at]));
    }
}

/// [`siphash24`] of messages of `words` whole words each.
#[inline]
fn side_by_side(key: SipKey, words: usize, messages: [&[u8]; LANES]) -> [u64; LANES] {
    let mut states: [SipState; LANES] = std::array::from_fn(|_| SipState::new(key));
    let mut compress = |data: [u64; LANES]| {
        states.iter_mut().zip(data).for_each(|(state, data)| state.0[3] ^= data);
        states.iter_mut().for_each(SipState::round);
        states.iter_mut().for_each(SipState::round);
        states.iter_mut().zip(data).for_each(|(state, data)| state.0[0] ^= data);
    };
    for at in 0..words {
        compress(messages.map(|message| word(&message[8 * at..8 * at + 8])));
    }
    compress(messages.map(last_word));
    for state in &mut states {
        state.0[2] ^= 0xff;
    }
    for _ in 0..4 {
        states.iter_mut().for_each(SipState::round);
    }
    states.map(SipState::end)
}

/// The bytes of a message after its whole words, and its length in the highest byte.
#[inline]
fn last_word(message: &[u8]) -> u64 {
    let rest = message.len() % 8;
    let mut last = (message.len() as u64 & 0xff) << 56;
    if message.len() >= 8 && rest > 0 {
        // The last eight bytes, without those before.
        last |= word(&message[message.len() - 8..]) >> (64 - 8 * rest);
    } else {
        for (place, &byte) in message[message.len() - rest..].iter().enumerate() {
            last |= u64::from(byte) << (8 * place);
        }
    }
    last
}

/// Core's `SipHasher13UJ` of one hash, as one jumbo block: one round for all 32 bytes, three at the end.
#[inline]
pub fn siphash13_jumbo(key: SipKey, hash: &[u8; 32]) -> u64 {
    let data: [u64; 4] = std::array::from_fn(|i| word(&hash[i * 8..i * 8 + 8]));
    let mut state = SipState::new(key);
    for (place, data) in [(3, data[0]), (0, data[1]), (1, data[2]), (2, data[3])] {
        state.0[place] ^= data;
    }
    state.round();
    (0..4).for_each(|place| state.0[place] ^= data[place]);
    state.0[2] ^= 0x6465_6464_6170_6e75;
    (0..3).for_each(|_| state.round());
    state.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Core's hash_tests.cpp, `siphash`: key 00 to 0f, messages 00, 01, ... of rising length.
    #[test]
    fn siphash24_matches_core() {
        let key = SipKey { k0: 0x0706_0504_0302_0100, k1: 0x0f0e_0d0c_0b0a_0908 };
        let message: Vec<u8> = (0..64).collect();
        for (bytes, want) in [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (8, 0x93f5_f579_9a93_2462),
            (16, 0x3f2a_cc7f_57c2_9bdb),
            (18, 0x4bc1_b3f0_968d_d39c),
            (32, 0x7127_512f_72f2_7cce),
        ] {
            assert_eq!(siphash24(key, &message[..bytes]), want, "{bytes} bytes");
        }
        assert_eq!(SipKey::from_bytes(&key.to_bytes()), key);
    }

    #[test]
    fn hashes_side_by_side_are_those_of_each_alone() {
        let mut rng = testkit::Rng::new(24);
        let key = SipKey { k0: rng.u64(), k1: rng.u64() };
        for count in [0, 1, 3, 4, 5, 200] {
            let messages: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let bytes = if rng.one_in(9) { rng.below(600) } else { rng.below(40) };
                    rng.bytes(bytes)
                })
                .collect();
            let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; count];
            siphash24_many(key, &messages, &mut out);
            let want: Vec<u64> = messages.iter().map(|message| siphash24(key, message)).collect();
            assert_eq!(out, want);
        }
    }

    /// From Core's test/data/siphash.json, `siphash13uj` of one hash.
    #[test]
    fn siphash13_jumbo_matches_core() {
        let counting = std::array::from_fn(|i| i as u8);
        for (row, key, hash, want) in [
            ("zeros", (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908), [0; 32], 0x6a74_cba0_0ddb_feba),
            ("ones", (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908), [0xff; 32], 0x7f74_5a47_1ec7_c2f6),
            ("counting", (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908), counting, 0xc67d_87b0_8ca4_b5c6),
            ("no key", (0, 0), [0; 32], 0x44ba_508b_b47f_860a),
        ] {
            assert_eq!(siphash13_jumbo(SipKey { k0: key.0, k1: key.1 }, &hash), want, "{row}");
        }
    }

    /// The definition in words, written down a second time: every step on its own line.
    #[test]
    fn siphash13_jumbo_is_its_definition() {
        fn plain(k0: u64, k1: u64, d: [u64; 4]) -> u64 {
            let mut v =
                [0x736f6d6570736575 ^ k0, 0x646f72616e646f6d ^ k1, 0x6c7967656e657261 ^ k0, 0x7465646279746573 ^ k1];
            let round = |v: &mut [u64; 4]| {
                v[0] = v[0].wrapping_add(v[1]);
                v[2] = v[2].wrapping_add(v[3]);
                v[1] = v[1].rotate_left(13) ^ v[0];
                v[3] = v[3].rotate_left(16) ^ v[2];
                v[0] = v[0].rotate_left(32);
                v[2] = v[2].wrapping_add(v[1]);
                v[0] = v[0].wrapping_add(v[3]);
                v[1] = v[1].rotate_left(17) ^ v[2];
                v[3] = v[3].rotate_left(21) ^ v[0];
                v[2] = v[2].rotate_left(32);
            };
            (v[3], v[0], v[1], v[2]) = (v[3] ^ d[0], v[0] ^ d[1], v[1] ^ d[2], v[2] ^ d[3]);
            round(&mut v);
            for i in 0..4 {
                v[i] ^= d[i];
            }
            v[2] ^= u64::from_le_bytes(*b"unpadded".first_chunk().unwrap());
            for _ in 0..3 {
                round(&mut v);
            }
            v[0] ^ v[1] ^ v[2] ^ v[3]
        }
        let mut rng = testkit::Rng::new(3);
        for _ in 0..100 {
            let d: [u64; 4] = std::array::from_fn(|_| rng.u64());
            let (k0, k1) = (rng.u64(), rng.u64());
            let mut hash = [0; 32];
            d.iter().zip(hash.chunks_exact_mut(8)).for_each(|(d, to)| to.copy_from_slice(&d.to_le_bytes()));
            assert_eq!(siphash13_jumbo(SipKey { k0, k1 }, &hash), plain(k0, k1, d));
        }
    }
}
