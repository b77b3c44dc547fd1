//! Parser of JSON like Core's UniValue: fields keep their order, numbers keep their text.
//!
//! At most [`VALUES_MAX`] values, [`DEPTH_MAX`] deep.
//! Source: Bitcoin Core b88bffe, univalue/lib/univalue_read.cpp.

use crate::json::Json;
use std::borrow::Cow;
use std::fmt;

/// Maximum number of values in one text: a value takes more memory than its text, and no call needs as many.
pub const VALUES_MAX: usize = 1_000_000;
/// Maximum nesting of lists and objects. Source: Core's `MAX_JSON_DEPTH`.
pub const DEPTH_MAX: usize = 512;

/// A text is not JSON, or exceeds the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotJson {
    /// Offset of the error.
    pub offset: usize,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no JSON, or too much of it, at byte {}", self.offset)
    }
}

impl std::error::Error for NotJson {}

impl Json {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// It is not JSON, or exceeds the limits.
    pub fn parse(text: &[u8]) -> Result<Json, NotJson> {
        let mut reader = Reader { text, at: 0, left: VALUES_MAX };
        let json = reader.value(0).and_then(|json| if reader.peek().is_none() { Some(json) } else { None });
        json.ok_or(NotJson { offset: reader.at })
    }
}

/// The unparsed rest of a text. Each method returns `None` if the text does not continue with what it parses.
struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    /// Number of values still allowed.
    left: usize,
}

impl Reader<'_> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Skips `byte`, if it is the next one.
    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// A value within `depth` lists and objects.
    fn value(&mut self, depth: usize) -> Option<Json> {
        self.left = self.left.checked_sub(1)?;
        match self.peek()? {
            b'{' if depth < DEPTH_MAX => self.object(depth + 1),
            b'[' if depth < DEPTH_MAX => self.list(depth + 1),
            b'"' => self.string().map(Json::Str),
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Option<Json> {
        let is_it = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if is_it { word.len() } else { 0 };
        is_it.then_some(value)
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut values = Vec::new();
        if self.take(b']') {
            return Some(Json::Arr(values));
        }
        loop {
            values.push(self.value(depth)?);
            if self.take(b']') {
                return Some(Json::Arr(values));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut fields = Vec::new();
        if self.take(b'}') {
            return Some(Json::Obj(fields));
        }
        loop {
            if self.peek() != Some(b'"') {
                return None;
            }
            let name = Cow::Owned(self.string()?);
            if !self.take(b':') {
                return None;
            }
            fields.push((name, self.value(depth)?));
            if self.take(b'}') {
                return Some(Json::Obj(fields));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// Skips digits; there must be one.
    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.at;
        self.at += usize::from(self.text[self.at] == b'-');
        let first = self.at;
        self.digits()?;
        if self.text[first] == b'0' && self.at > first + 1 {
            return None;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'-' | b'+')));
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).expect("digits are ASCII");
        let whole = text.parse::<i64>().ok().filter(|_| text != "-0");
        Some(whole.map_or_else(|| Json::Num(text.to_owned()), Json::Int))
    }

    /// A quoted text; the next byte is its first quote.
    fn string(&mut self) -> Option<String> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let start = self.at;
            while self.text.get(self.at).is_some_and(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            out.extend_from_slice(&self.text[start..self.at]);
            match self.text.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return String::from_utf8(out).ok();
                }
                b'\\' => {
                    self.at += 1;
                    let letter = self.escaped()?;
                    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return None,
            }
        }
    }

    /// The escape after a backslash.
    fn escaped(&mut self) -> Option<char> {
        let letter = match self.text.get(self.at)? {
            byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return None,
        };
        self.at += 1;
        Some(letter)
    }

    /// `uXXXX`, or two of them if the first is a high surrogate.
    fn code_point(&mut self) -> Option<char> {
        let high = self.unit()?;
        if !(0xd800..0xdc00).contains(&high) {
            // A low surrogate on its own is not a code point.
            return char::from_u32(high);
        }
        if self.text.get(self.at) != Some(&b'\\') {
            return None;
        }
        self.at += 1;
        let low = self.unit()?;
        let is_low = (0xdc00..0xe000).contains(&low);
        if is_low { char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)) } else { None }
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 5).filter(|text| text[0] == b'u')?;
        let is_hex = digits[1..].iter().all(u8::is_ascii_hexdigit);
        self.at += 5;
        if !is_hex {
            return None;
        }
        u32::from_str_radix(std::str::from_utf8(&digits[1..]).ok()?, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_numbers_and_order_survive() {
        for text in [
            r#"{"b":1,"a":[null,true,-5,18446744073709551615],"":{}}"#,
            r#"["\"\\\b\t\n\f\r\u0001\u007fä€"]"#,
            "[]",
            "1.5",
            "[-0,-0.0,1.5e3,1E+3,2e-7,18446744073709551616,1e400,0.10,-9223372036854775808]",
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().text(), text);
        }
        for (text, want) in [
            (" [ 1 , 2 ] \r\n", "[1,2]"),
            ("{ \"a\" : { } }", "{\"a\":{}}"),
            (r#"["\u00e4\u20AC\ud83d\ude00\/"]"#, "[\"ä€😀/\"]"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap().text(), want, "{text}");
        }
        assert_eq!(
            Json::parse(b"[7,-0,7.0]"),
            Ok(Json::Arr(vec![Json::Int(7), Json::Num("-0".into()), Json::Num("7.0".into())]))
        );
        let deep = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
        assert!(Json::parse(deep.as_bytes()).is_ok());
    }

    #[test]
    fn what_is_not_json_or_too_much_is_refused() {
        let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
        let open = "[".repeat(100_000);
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        for text in [&deep, &open, &many] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{}", text.len());
        }
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1:2]",
            "]",
            "[}",
            "{]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{1:2}",
            "{\"a\":1 \"b\":2}",
            "{} {}",
            "{}x",
            "nul",
            "True",
            "-",
            "[-]",
            "01",
            "[-01]",
            "1.",
            ".5",
            "1e",
            "1e+",
            "+1",
            "0x1",
            "NaN",
            "\"",
            "[\"\\x\"]",
            "[\"\\u12\"]",
            "[\"\\u12g4\"]",
            "[\"\\ud800\"]",
            "[\"\\udc00\"]",
            "[\"\\ud800\\u0041\"]",
            "[\"\\ud800x\"]",
            "[\"\n\"]",
            "[\"a\u{0}\"]",
            "'a'",
            "/* */ 1",
        ] {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text}");
        }
        for text in [&b"\xff\xfe{}"[..], b"[\"\xff\"]", b"[\"\xed\xa0\x80\"]", b"[\"\xc0\xaf\"]", b"[\"\\", b"[\"\\u"] {
            assert!(Json::parse(text).is_err(), "{text:?}");
        }
    }

    /// Every cut of a text is none, and no changed byte makes reading it panic.
    #[test]
    fn every_cut_is_refused_and_no_change_panics() {
        let text = r#"{"a":[1.5e3,-0,"\ud83d\ude00\n",true,null],"b":{"c":false}}"#.as_bytes();
        for end in 0..text.len() {
            assert!(Json::parse(&text[..end]).is_err(), "{end}");
        }
        for at in 0..text.len() {
            for byte in 0..=255 {
                let mut changed = text.to_vec();
                changed[at] = byte;
                let _ = Json::parse(&changed);
            }
        }
    }
}
