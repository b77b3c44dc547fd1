//! ChaCha20 (RFC 8439), block by block: only the key stream.
//!
//! For MuHash, and for the lengths of BIP-0324's packets, which need single bytes of the stream: `ring` has no
//! interface for those. Packets themselves are encrypted by `ring`; MuHash has its own lanes, tested against this.
//! Absent on purpose: vectors, Poly1305.

/// One block of key stream, as words in little-endian order. Source: RFC 8439, section 2.3.
pub fn words(key: &[u8; 32], nonce: &[u8; 12], counter: u32) -> [u32; 16] {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let mut start = [0; 16];
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    start[4..12].iter_mut().zip(key.chunks_exact(4)).for_each(|(to, from)| *to = word(from));
    start[12] = counter;
    start[13..].iter_mut().zip(nonce.chunks_exact(4)).for_each(|(to, from)| *to = word(from));

    let mut x = start;
    let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
        for (add, to, rotate) in [((a, b), d, 16), ((c, d), b, 12), ((a, b), d, 8), ((c, d), b, 7)] {
            x[add.0] = x[add.0].wrapping_add(x[add.1]);
            x[to] = (x[to] ^ x[add.0]).rotate_left(rotate);
        }
    };
    for _ in 0..10 {
        (0..4).for_each(|i| quarter(i, 4 + i, 8 + i, 12 + i));
        (0..4).for_each(|i| quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4));
    }
    std::array::from_fn(|i| x[i].wrapping_add(start[i]))
}

/// [`words`] as bytes.
pub fn block(key: &[u8; 32], nonce: &[u8; 12], counter: u32) -> [u8; 64] {
    let mut out = [0; 64];
    for (bytes, word) in out.chunks_exact_mut(4).zip(words(key, nonce, counter)) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8439, section 2.3.2.
    #[test]
    fn block_matches_rfc_8439() {
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
        let want = "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
                    d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e";
        let got: String = block(&key, &nonce, 1).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(got, want);
    }
}
