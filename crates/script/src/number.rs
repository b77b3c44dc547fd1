//! Numbers on the stack: little endian, the top bit of the last byte is the sign.
//!
//! Operands have at most 4 bytes (5 for locktimes). Results may be longer: they are refused only as operands.

use crate::error::ScriptError;
use crate::stack::Element;

/// Bytes of an operand of the numeric opcodes.
pub(crate) const OPERAND_BYTES_MAX: usize = 4;
/// Bytes of an operand of CHECKLOCKTIMEVERIFY and CHECKSEQUENCEVERIFY.
pub(crate) const LOCKTIME_BYTES_MAX: usize = 5;

/// The number encoded by `bytes`.
///
/// # Errors
///
/// [`ScriptError::Scriptnum`] if there are more than `bytes_max` (at most 8) bytes, or, with `minimal`, more than
/// needed.
///
/// Source: Bitcoin Core b88bffe, `CScriptNum`.
#[inline]
pub(crate) fn decode(bytes: &[u8], minimal: bool, bytes_max: usize) -> Result<i64, ScriptError> {
    if bytes.len() > bytes_max || (minimal && !is_minimal(bytes)) {
        return Err(ScriptError::Scriptnum);
    }
    let Some((&last, rest)) = bytes.split_last() else { return Ok(0) };
    let low = rest.iter().rev().fold(i64::from(last & 0x7f), |number, &byte| number << 8 | i64::from(byte));
    Ok(if last & 0x80 != 0 { -low } else { low })
}

/// Whether the last byte holds more than the sign, or the one before it needs its top bit.
fn is_minimal(bytes: &[u8]) -> bool {
    match bytes {
        [] => true,
        [.., before, last] if last & 0x7f == 0 => before & 0x80 != 0,
        [.., last] => last & 0x7f != 0,
    }
}

/// The shortest bytes for `number`. Source: Bitcoin Core b88bffe, `CScriptNum::serialize`.
#[inline]
pub(crate) fn encode<'a>(number: i64) -> Element<'a> {
    let magnitude = number.unsigned_abs();
    let mut bytes = [0; 9];
    bytes[..8].copy_from_slice(&magnitude.to_le_bytes());
    let mut used = 8 - magnitude.leading_zeros() as usize / 8;
    if used > 0 && bytes[used - 1] & 0x80 != 0 {
        used += 1; // The sign needs a byte of its own.
    }
    if number < 0 {
        bytes[used - 1] |= 0x80;
    }
    Element::computed(&bytes[..used])
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    #[test]
    fn script_numbers_match_core() {
        for (number, text) in [
            (0, ""),
            (1, "01"),
            (-1, "81"),
            (16, "10"),
            (127, "7f"),
            (-127, "ff"),
            (128, "8000"),
            (-128, "8080"),
            (255, "ff00"),
            (-255, "ff80"),
            (256, "0001"),
            (32_767, "ff7f"),
            (32_768, "008000"),
            (-32_768, "008080"),
            (0x7fff_ffff, "ffffff7f"),
            (-0x7fff_ffff, "ffffffff"),
            (0x8000_0000, "0000008000"),
            (0xffff_fffe, "feffffff00"),
            (-0xffff_fffe, "feffffff80"),
        ] {
            let bytes = hex::decode(text).unwrap();
            assert_eq!(encode(number).bytes(), bytes, "{number}");
            assert_eq!(decode(&bytes, true, 5), Ok(number), "{text}");
            let fits = bytes.len() <= OPERAND_BYTES_MAX;
            assert_eq!(decode(&bytes, false, OPERAND_BYTES_MAX).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn script_number_must_be_minimal() {
        for (text, number) in [("00", 0), ("80", 0), ("0100", 1), ("0180", -1), ("7f00", 127), ("00000000", 0)] {
            let bytes = hex::decode(text).unwrap();
            assert_eq!(decode(&bytes, false, 4), Ok(number), "{text}");
            assert_eq!(decode(&bytes, true, 4), Err(ScriptError::Scriptnum), "{text}");
        }
        assert_eq!(decode(&[0; 5], false, 4), Err(ScriptError::Scriptnum));
        assert_eq!(decode(&[0; 6], false, 5), Err(ScriptError::Scriptnum));
    }
}
