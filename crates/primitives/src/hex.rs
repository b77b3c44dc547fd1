//! Hexadecimal text.

/// Value of one hexadecimal digit.
///
/// # Panics
///
/// On any other byte; for literals only. Use [`decode`] for foreign text.
pub(crate) const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => panic!("not a hexadecimal digit"),
    }
}

/// Bytes of a hexadecimal text; `None` if it has an odd length or another character.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(2) || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    Some(text.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

/// Bytes of a hexadecimal literal of known length, at compile time.
///
/// # Panics
///
/// If the text is not `2 * N` hexadecimal digits.
pub const fn literal<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    assert!(text.len() == 2 * N, "two digits a byte");
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = digit(text[2 * i]) << 4 | digit(text[2 * i + 1]);
        i += 1;
    }
    bytes
}

/// Lower-case hexadecimal text of `bytes`.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    digits.map(char::from).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn hex_round_trips_and_refuses_other_text() {
        assert_eq!(super::decode("00ffA5").unwrap(), [0, 255, 165]);
        assert_eq!(super::encode(&[0, 255, 165]), "00ffa5");
        assert_eq!(super::literal::<2>("beef"), [0xbe, 0xef]);
        for bad in ["0", "0g", "é"] {
            assert_eq!(super::decode(bad), None, "{bad}");
        }
    }
}
