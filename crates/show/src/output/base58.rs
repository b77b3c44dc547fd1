//! Base58. Addresses are encoded without big-number division: an export has hundreds of millions of them.
//!
//! 25 bytes (a prefix, a hash of 20 bytes, four bytes of checksum) are a number of 200 bits; it is divided repeatedly
//! by 58^5, which fits in a word, and each remainder gives five digits. A leading zero byte is a digit of its own.
//! Source: Bitcoin Core b88bffe, base58.cpp, `EncodeBase58Check`.

use kernels::sha256::sha256d;

const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const PAYLOAD_BYTES: usize = 21;
const CHECKSUM_BYTES: usize = 4;
/// Number of digits computed at a time, and the resulting divisor.
const GROUP_DIGITS: usize = 5;
const GROUP: u64 = 58 * 58 * 58 * 58 * 58;
/// 58^35 is more than 2^200.
const GROUPS: usize = 7;
const LIMBS: usize = 7;

/// Appends a prefix and a hash as base58 with their checksum.
pub(super) fn put_base58_check(out: &mut Vec<u8>, payload: &[u8; PAYLOAD_BYTES]) {
    let mut bytes = [0; PAYLOAD_BYTES + CHECKSUM_BYTES];
    bytes[..PAYLOAD_BYTES].copy_from_slice(payload);
    bytes[PAYLOAD_BYTES..].copy_from_slice(&sha256d(payload)[..CHECKSUM_BYTES]);
    // The highest limb first; three zero bytes precede the number.
    let mut padded = [0; 4 * LIMBS];
    padded[4 * LIMBS - bytes.len()..].copy_from_slice(&bytes);
    let mut limbs = [0u32; LIMBS];
    for (limb, bytes) in limbs.iter_mut().zip(padded.as_chunks::<4>().0) {
        *limb = u32::from_be_bytes(*bytes);
    }
    let mut digits = [0u8; GROUPS * GROUP_DIGITS];
    for group in digits.as_chunks_mut::<GROUP_DIGITS>().0.iter_mut().rev() {
        let mut rest = 0u64;
        for limb in &mut limbs {
            let value = rest << 32 | u64::from(*limb);
            (*limb, rest) = ((value / GROUP) as u32, value % GROUP);
        }
        for digit in group.iter_mut().rev() {
            (*digit, rest) = ((rest % 58) as u8, rest / 58);
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    out.extend(std::iter::repeat_n(DIGITS[0], zeros));
    let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
    out.extend(digits[first..].iter().map(|digit| DIGITS[usize::from(*digit)]));
}

/// The value of a character; `None` if it is not a base58 digit.
fn digit(character: u8) -> Option<u32> {
    DIGITS.iter().position(|digit| *digit == character).map(|digit| digit as u32)
}

/// The bytes of a base58 text; `None` if a character is not a digit. The time is quadratic: the caller bounds the
/// text.
/// Source: Bitcoin Core b88bffe, base58.cpp, `DecodeBase58`.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    // The lowest byte first.
    let mut number: Vec<u8> = Vec::with_capacity(text.len());
    for character in text.bytes() {
        let mut carry = digit(character)?;
        for byte in &mut number {
            carry += 58 * u32::from(*byte);
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        // Below 58: a byte holds it.
        number.extend((carry != 0).then_some(carry as u8));
    }
    let zeros = text.bytes().take_while(|character| *character == DIGITS[0]).count();
    number.extend(std::iter::repeat_n(0, zeros));
    number.reverse();
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// The plain twin is base58ck's.
    #[test]
    fn addresses_are_those_of_a_division_byte_by_byte() {
        let mut rng = Rng::new(58);
        for round in 0..2000 {
            let mut payload: [u8; PAYLOAD_BYTES] = std::array::from_fn(|_| rng.byte());
            let zeros = if round % 3 == 0 { rng.below(PAYLOAD_BYTES + 1) } else { round % 2 };
            payload[..zeros].fill(0);
            if round % 7 == 0 {
                payload[zeros..].fill(0xff);
            }
            let mut out = Vec::new();
            put_base58_check(&mut out, &payload);
            assert_eq!(String::from_utf8(out).unwrap(), base58ck::encode_check(&payload), "{payload:02x?}");
        }
    }
    /// Texts of all lengths, with digits for zero in front, and with a character that is none.
    #[test]
    fn decoded_texts_are_those_of_base58ck() {
        let mut rng = Rng::new(85);
        for round in 0..3000 {
            let mut text: Vec<u8> = (0..rng.below(120)).map(|_| DIGITS[rng.below(58)]).collect();
            let zeros = if round % 2 == 0 { rng.below(text.len() + 1) } else { 0 };
            text[..zeros].fill(DIGITS[0]);
            if round % 5 == 0 && !text.is_empty() {
                let at = rng.below(text.len());
                text[at] = *b"0OIl+ ~\x00".get(rng.below(8)).unwrap();
            }
            let text = String::from_utf8(text).unwrap();
            assert_eq!(decode(&text), base58ck::decode(&text).ok(), "{text:?}");
        }
        assert_eq!(decode("\u{e4}"), None);
    }
}
