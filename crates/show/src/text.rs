//! JSON as Core prints it, written straight into bytes: a full block makes megabytes of it, and no tree of values.
//!
//! Members come in the order in which they are put. Commas are the writer's business: a value follows `{`, `[`, `:` or
//! nothing without one. Numbers are digits as Core prints them; an amount is a number with eight decimals.
//! Source: Bitcoin Core b88bffe, univalue_write.cpp, `ValueFromAmount`.

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
    // Whole words are written into room of fixed length: a call for each byte is several times slower.
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
    /// Nothing yet.
    pub fn new() -> JsonText {
        JsonText::default()
    }

    /// Room for `bytes` of text.
    pub fn with_capacity(bytes: usize) -> JsonText {
        JsonText { out: Vec::with_capacity(bytes) }
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// What was written, as text.
    pub fn into_string(self) -> String {
        // Looked through once, at several GB/s.
        String::from_utf8(self.out).expect("only characters are written")
    }

    /// What was written, as a value of a reply.
    pub fn into_json(self) -> Json {
        Json::Raw(self.into_string())
    }

    #[inline]
    fn comma(&mut self) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }

    /// The name of the member that comes next.
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

    /// A value that is JSON already.
    pub fn raw(&mut self, json: &str) {
        self.comma();
        self.out.extend_from_slice(json.as_bytes());
    }

    /// The members of an object that is JSON already.
    pub fn members(&mut self, object: &str) {
        let members = object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
        if !members.is_empty() {
            self.raw(members);
        }
    }

    /// A string, with escapes where it needs them.
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

    /// A string of characters that need no escape, which `put` appends.
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

    /// A hash as Core prints it: its bytes reversed, in hexadecimal digits.
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
