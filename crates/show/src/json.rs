//! JSON values in the form of Core's UniValue: fields keep their order, numbers their digits.
//!
//! Absent on purpose: parsing (`json_read`), the meaning of a value.
//! Source: Bitcoin Core b88bffe, univalue/lib/univalue_write.cpp.

use std::borrow::Cow;

/// A value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number, as text.
    Num(String),
    /// Text.
    Str(String),
    /// Values in their order.
    Arr(Vec<Json>),
    /// Fields in their order.
    Obj(Vec<(Cow<'static, str>, Json)>),
    /// Serialized JSON, inserted unchanged.
    Raw(String),
}

impl Json {
    /// An object without fields, to be filled.
    pub fn object() -> Fields {
        Fields(Vec::new())
    }

    /// A double, with up to 16 digits. Source: Core's `UniValue::setFloat`.
    pub fn double(value: f64) -> Json {
        Json::Num(double(value))
    }

    /// An amount in satoshis, as bitcoins with eight decimals. Source: Core's `ValueFromAmount`.
    pub fn amount(satoshis: i64) -> Json {
        let sign = if satoshis < 0 { "-" } else { "" };
        let all = satoshis.unsigned_abs();
        Json::Num(format!("{sign}{}.{:08}", all / 100_000_000, all % 100_000_000))
    }

    /// The name of the type, in Core's words.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "bool",
            Json::Int(_) | Json::Num(_) => "number",
            Json::Str(_) => "string",
            Json::Arr(_) => "array",
            Json::Obj(_) | Json::Raw(_) => "object",
        }
    }

    /// Whether it is `null`, like a missing value.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }

    /// The field of an object with this name.
    pub fn field(&self, name: &str) -> Option<&Json> {
        let Json::Obj(fields) = self else { return None };
        fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Its text on one line, without spaces.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends its text to `out`, on one line, without spaces.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Int(value) => out.push_str(&value.to_string()),
            Json::Num(text) | Json::Raw(text) => out.push_str(text),
            Json::Str(text) => write_text(out, text),
            Json::Arr(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    value.write(out);
                }
                out.push(']');
            }
            Json::Obj(fields) => {
                out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    write_text(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Its text on several lines, each level indented by four spaces.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write_pretty(&mut out, 1);
        out
    }

    fn write_pretty(&self, out: &mut String, depth: usize) {
        let line = |out: &mut String, depth: usize| out.push_str(&format!("\n{:1$}", "", depth * 4));
        match self {
            Json::Arr(values) if !values.is_empty() => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    line(out, depth);
                    value.write_pretty(out, depth + 1);
                }
                line(out, depth - 1);
                out.push(']');
            }
            Json::Obj(fields) if !fields.is_empty() => {
                out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    line(out, depth);
                    write_text(out, name);
                    out.push_str(": ");
                    value.write_pretty(out, depth + 1);
                }
                line(out, depth - 1);
                out.push('}');
            }
            other => other.write(out),
        }
    }
}

/// The fields of an object under construction.
#[derive(Debug, Default)]
pub struct Fields(Vec<(Cow<'static, str>, Json)>);

impl Fields {
    /// Adds a field.
    #[must_use]
    pub fn put(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Json>) -> Fields {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Adds a field if there is a value.
    #[must_use]
    pub fn put_some(self, name: impl Into<Cow<'static, str>>, value: Option<impl Into<Json>>) -> Fields {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    /// The object.
    pub fn end(self) -> Json {
        Json::Obj(self.0)
    }
}

macro_rules! from_small_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Json {
            fn from(value: $int) -> Json {
                Json::Int(i64::from(value))
            }
        }
    )*};
}

from_small_int!(i32, u32, u16, u8, i64);

impl From<u64> for Json {
    fn from(value: u64) -> Json {
        i64::try_from(value).map_or_else(|_| Json::Num(value.to_string()), Json::Int)
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Json {
        Json::from(value as u64)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Str(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Str(text)
    }
}

impl From<Vec<Json>> for Json {
    fn from(values: Vec<Json>) -> Json {
        Json::Arr(values)
    }
}

impl From<Fields> for Json {
    fn from(fields: Fields) -> Json {
        fields.end()
    }
}

impl From<primitives::Height> for Json {
    fn from(height: primitives::Height) -> Json {
        Json::from(height.to_u32())
    }
}

/// Hashes are written in reversed byte order.
macro_rules! from_hash {
    ($($hash:ty),*) => {$(
        impl From<$hash> for Json {
            fn from(hash: $hash) -> Json {
                Json::Str(hash.to_string())
            }
        }
    )*};
}

from_hash!(primitives::BlockHash, primitives::Hash256, primitives::Txid);

/// Text in quotes. Source: Core's `json_escape`.
fn write_text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\' | '\x7f')) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\x08' => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'\x0c' => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            byte => out.push_str(&format!("\\u{byte:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// As C's `%.16g`.
fn double(value: f64) -> String {
    const DIGITS: i32 = 16;
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let text = format!("{value:.15e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let plain = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", plain(mantissa), exponent.abs());
    }
    plain(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits are those of `std::setprecision(16)`.
    #[test]
    fn doubles_and_amounts_are_written_as_core_does() {
        for (value, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (4.656542373906925e-10, "4.656542373906925e-10"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.3333333333333333"),
            (0.999_999_999_999_999_9, "0.9999999999999999"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (123_456_789.125, "123456789.125"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-2.5, "-2.5"),
            (155_973_032_196_071.9, "155973032196071.9"),
        ] {
            assert_eq!(Json::double(value).text(), want);
        }
        for (satoshis, want) in
            [(0, "0.00000000"), (1, "0.00000001"), (-1, "-0.00000001"), (5_000_000_000, "50.00000000")]
        {
            assert_eq!(Json::amount(satoshis).text(), want);
        }
    }
}
