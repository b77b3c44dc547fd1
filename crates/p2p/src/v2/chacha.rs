//! ChaCha20 block by block: the cipher of packet lengths needs single bytes of the key stream,
//! three for each packet, which no interface of `ring` gives. Speed is of no matter for them.

/// One block of key stream. Source: RFC 8439, section 2.3.
pub(super) fn block(key: &[u8; 32], nonce: &[u8; 12], counter: u32) -> [u8; 64] {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    let mut start = [0u32; 16];
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    start[4..12].iter_mut().zip(key.chunks_exact(4)).for_each(|(to, from)| *to = word(from));
    start[12] = counter;
    start[13..].iter_mut().zip(nonce.chunks_exact(4)).for_each(|(to, from)| *to = word(from));

    let mut state = start;
    for _ in 0..10 {
        for [a, b, c, d] in COLUMNS_AND_DIAGONALS {
            quarter_round(&mut state, a, b, c, d);
        }
    }
    let mut out = [0; 64];
    for ((bytes, mixed), first) in out.chunks_exact_mut(4).zip(state).zip(start) {
        bytes.copy_from_slice(&mixed.wrapping_add(first).to_le_bytes());
    }
    out
}

const COLUMNS_AND_DIAGONALS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];

fn quarter_round(state: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    for (x, y, z, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[x] = state[x].wrapping_add(state[y]);
        state[z] = (state[z] ^ state[x]).rotate_left(turn);
    }
}

/// BIP324's FSChaCha20: a stream of chunks, a new key after every [`super::REKEY_INTERVAL`].
pub(super) struct LengthCipher {
    key: [u8; 32],
    chunk_count: u64,
    block_count: u32,
    stream: [u8; 64],
    /// Bytes of `stream` that are used.
    used: usize,
}

impl LengthCipher {
    pub(super) fn new(key: [u8; 32]) -> LengthCipher {
        LengthCipher { key, chunk_count: 0, block_count: 0, stream: [0; 64], used: 64 }
    }

    fn next_byte(&mut self) -> u8 {
        if self.used == self.stream.len() {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&(self.chunk_count / u64::from(super::REKEY_INTERVAL)).to_le_bytes());
            self.stream = block(&self.key, &nonce, self.block_count);
            self.block_count += 1;
            self.used = 0;
        }
        self.used += 1;
        self.stream[self.used - 1]
    }

    /// Encrypts or decrypts the next chunk.
    pub(super) fn crypt(&mut self, chunk: &mut [u8]) {
        for byte in chunk {
            *byte ^= self.next_byte();
        }
        if (self.chunk_count + 1).is_multiple_of(u64::from(super::REKEY_INTERVAL)) {
            self.key = std::array::from_fn(|_| self.next_byte());
            self.block_count = 0;
            self.used = self.stream.len();
        }
        self.chunk_count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// RFC 8439, section 2.3.2.
    #[test]
    fn keystream_matches_rfc_8439() {
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        let want = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
                    d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e";
        assert_eq!(block(&key, &nonce, 1).to_vec(), hex::decode(want).unwrap());
    }

    #[test]
    fn keystream_continues_until_rekey() {
        let mut a = LengthCipher::new([7; 32]);
        let mut b = LengthCipher::new([7; 32]);
        for _ in 0..3 * super::super::REKEY_INTERVAL {
            let mut chunk = *b"abc";
            a.crypt(&mut chunk);
            b.crypt(&mut chunk);
            assert_eq!(&chunk, b"abc");
        }
        assert_ne!(a.key, [7; 32]);
    }
}
