//! The cipher of packet lengths: three bytes of ChaCha20's key stream for each packet. Speed does not matter for them.

use primitives::chacha20;

/// BIP324's FSChaCha20: a stream of chunks, a new key after every [`super::REKEY_INTERVAL`].
pub(super) struct LengthCipher {
    key: [u8; 32],
    chunk_count: u64,
    block_count: u32,
    stream: [u8; 64],
    /// Number of used bytes in `stream`.
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
            self.stream = chacha20::block(&self.key, &nonce, self.block_count);
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
