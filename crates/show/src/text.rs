//! JSON as Core prints it, written straight into bytes: a full block makes megabytes of it, too many for a tree of
//! values.
//!
//! Members appear in the order of the calls. The writer inserts commas; it writes no comma after `{`, `[`, `:` or at
//! the start. Numbers have Core's digits; an amount is a number with eight decimals. Source: Bitcoin Core b88bffe,
//! univalue_write.cpp, `ValueFromAmount`.

use crate::json::Json;
use primitives::{Amount, Hash256};

/// JSON text under construction.
#[derive(Clone, Debug, Default)]
pub struct JsonText {
    out: Vec<u8>,
}

/// Two hexadecimal digits of each byte.
const HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    table
};

/// Appends the hexadecimal digits of `bytes`.
#[inline]
pub fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(2 * bytes.len());
    // Whole words are written into chunks of fixed length: a call for each byte is several times slower.
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        let mut digits = [0; 16];
        for (two, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(chunk) {
            *two = HEX[usize::from(*byte)];
        }
        out.extend_from_slice(&digits);
    }
    rest.iter().for_each(|byte| out.extend_from_slice(&HEX[usize::from(*byte)]));
}

/// Appends the digits of `number`.
#[inline]
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends satoshis as bitcoins: sign, whole coins, point, eight decimals.
///
/// Source: Bitcoin Core b88bffe, `ValueFromAmount`.
#[inline]
pub fn put_amount(out: &mut Vec<u8>, amount: Amount) {
    const COIN: u64 = Amount::COIN.0.unsigned_abs();
    if amount.0 < 0 {
        out.push(b'-');
    }
    let satoshis = amount.0.unsigned_abs();
    put_number(out, satoshis / COIN);
    out.push(b'.');
    let mut decimals = [b'0'; 8];
    let mut rest = satoshis % COIN;
    for digit in decimals.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&decimals);
}

impl JsonText {
    /// Empty text.
    pub fn new() -> JsonText {
        JsonText::default()
    }

    /// Empty text with capacity for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> JsonText {
        JsonText { out: Vec::with_capacity(bytes) }
    }

    /// The written bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// The written text.
    pub fn into_string(self) -> String {
        // Validated in one pass, at several GB/s.
        String::from_utf8(self.out).expect("only characters are written")
    }

    /// The written text as a value of a reply.
    pub fn into_json(self) -> Json {
        Json::Raw(self.into_string())
    }

    #[inline]
    fn comma(&mut self) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }

    /// Writes the name of the next member.
    #[inline]
    pub fn key(&mut self, name: &'static str) -> &mut JsonText {
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self
    }

    /// `{`.
    #[inline]
    pub fn open(&mut self) {
        self.comma();
        self.out.push(b'{');
    }

    /// `}`.
    #[inline]
    pub fn close(&mut self) {
        self.out.push(b'}');
    }

    /// `[`.
    #[inline]
    pub fn open_list(&mut self) {
        self.comma();
        self.out.push(b'[');
    }

    /// `]`.
    #[inline]
    pub fn close_list(&mut self) {
        self.out.push(b']');
    }

    /// Writes serialized JSON.
    pub fn raw(&mut self, json: &str) {
        self.comma();
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Writes the members of a serialized object.
    pub fn members(&mut self, object: &str) {
        let members = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        if !members.is_empty() {
            self.raw(members);
        }
    }

    /// Writes a string, with escapes if needed.
    pub fn string(&mut self, text: &str) {
        self.comma();
        self.out.push(b'"');
        for char in text.bytes() {
            match char {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                0..=0x1f | 0x7f => {
                    self.out.extend_from_slice(b"\\u00");
                    put_hex(&mut self.out, &[char]);
                }
                other => self.out.push(other),
            }
        }
        self.out.push(b'"');
    }

    /// Writes a string of characters that need no escape, which `put` appends.
    #[inline]
    pub fn plain(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        self.comma();
        self.out.push(b'"');
        put(&mut self.out);
        self.out.push(b'"');
    }

    /// A string of hexadecimal digits.
    #[inline]
    pub fn hex(&mut self, bytes: &[u8]) {
        self.plain(|out| put_hex(out, bytes));
    }

    /// Writes a hash as Core prints it: reversed bytes in hexadecimal digits.
    #[inline]
    pub fn hash(&mut self, hash: &Hash256) {
        let mut bytes = hash.0;
        bytes.reverse();
        self.hex(&bytes);
    }

    /// A number.
    #[inline]
    pub fn number(&mut self, number: u64) {
        self.comma();
        put_number(&mut self.out, number);
    }

    /// A number with a sign.
    #[inline]
    pub fn signed(&mut self, number: i64) {
        self.comma();
        if number < 0 {
            self.out.push(b'-');
        }
        put_number(&mut self.out, number.unsigned_abs());
    }

    /// An amount.
    #[inline]
    pub fn amount(&mut self, amount: Amount) {
        self.comma();
        put_amount(&mut self.out, amount);
    }

    /// `true` or `false`.
    #[inline]
    pub fn bool(&mut self, yes: bool) {
        self.comma();
        self.out.extend_from_slice(if yes { b"true" } else { b"false" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_values_have_commas_between_them() {
        let mut json = JsonText::new();
        json.open();
        json.key("a").number(0);
        json.key("b").open_list();
        json.number(u64::MAX);
        json.signed(-5);
        json.open();
        json.close();
        json.raw("7");
        json.open();
        json.members("{}");
        json.members("{\"x\":8,\"y\":9}");
        json.close();
        json.close_list();
        json.key("c").string("q\"\\\n\u{1}\u{7f}é/");
        json.key("d").hex(&[0, 1, 0xfe, 3, 4, 5, 6, 7, 8, 0xff]);
        json.key("e").bool(true);
        json.close();
        let want = r#"{"a":0,"b":[18446744073709551615,-5,{},7,{"x":8,"y":9}],"c":"q\"\\\n\u0001\u007fé/","d":"0001fe03040506070"#;
        assert_eq!(json.into_string(), format!("{want}8ff\",\"e\":true}}"));
    }

    /// From Core's rpc_tests.cpp, `rpc_format_monetary_values`.
    #[test]
    fn amounts_are_printed_as_in_core() {
        for (satoshis, want) in [
            (0, "0.00000000"),
            (1, "0.00000001"),
            (17_622_195, "0.17622195"),
            (50_000_000, "0.50000000"),
            (89_898_989, "0.89898989"),
            (100_000_000, "1.00000000"),
            (2_099_999_999_999_990, "20999999.99999990"),
            (2_099_999_999_999_999, "20999999.99999999"),
            (-100_000, "-0.00100000"),
            (-100_000_000, "-1.00000000"),
            (i64::MAX, "92233720368.54775807"),
            (i64::MIN, "-92233720368.54775808"),
        ] {
            let mut out = Vec::new();
            put_amount(&mut out, Amount(satoshis));
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }
}
