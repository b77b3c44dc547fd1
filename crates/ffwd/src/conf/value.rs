//! A value, its place, and how bitcoind converts it to a number or a boolean.
//!
//! Source: facts of Bitcoin Core b88bffe: common/args.cpp, `InterpretKey`, `InterpretValue` and `InterpretBool`;
//! util/strencodings.h, `LocaleIndependentAtoi`.

use crate::options::{self, Kind, Shown};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The value that an option was set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// `noname=1`, or false in settings.json.
    No,
    /// `noname=0`, or true in settings.json.
    Yes,
    /// `name=text`.
    Text(String),
    /// A number in settings.json.
    Number(String),
    /// null in settings.json: the option counts as unset, and later values are ignored.
    Null,
}

/// A number as bitcoind parses it, and whether it uses the whole text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Read {
    pub(crate) number: i64,
    pub(crate) is_whole: bool,
}

impl Value {
    /// As a boolean: empty text is true, otherwise the leading number is compared with 0.
    pub(crate) fn truth(&self) -> bool {
        self.text().is_empty() || self.number() != 0
    }

    /// The value as text.
    pub(crate) fn text(&self) -> &str {
        match self {
            Value::No => "0",
            Value::Yes => "1",
            Value::Text(text) | Value::Number(text) => text,
            Value::Null => "",
        }
    }

    /// The value as JSON, as Core logs it.
    fn json(&self) -> String {
        match self {
            Value::No => "false".to_owned(),
            Value::Yes => "true".to_owned(),
            Value::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            Value::Number(text) => text.clone(),
            Value::Null => "null".to_owned(),
        }
    }

    /// As a number: the leading digits (0 without any), saturated to 64 bits.
    pub(crate) fn number(&self) -> i64 {
        self.read_number().number
    }

    /// Like [`Value::number`], and returns whether the text consists only of digits.
    pub(crate) fn read_number(&self) -> Read {
        let text = self.text().trim_matches([' ', '\x0c', '\n', '\r', '\t', '\x0b']);
        let text = match text.strip_prefix('+') {
            Some(rest) if rest.starts_with('-') => "",
            Some(rest) => rest,
            None => text,
        };
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let number = format!("{sign}{}", &digits[..count]);
        let nearest = if sign.is_empty() { i64::MAX } else { i64::MIN };
        let number = if count == 0 { 0 } else { number.parse().unwrap_or(nearest) };
        Read { number, is_whole: count > 0 && count == digits.len() }
    }
}

/// The place of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    CommandLine,
    /// A line of a configuration file, counted from 1.
    Line {
        file: PathBuf,
        line: usize,
    },
    /// settings.json.
    Json {
        file: PathBuf,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::CommandLine => f.write_str("the command line"),
            Place::Line { file, line } => write!(f, "{} line {line}", file.display()),
            Place::Json { file } => write!(f, "{}", file.display()),
        }
    }
}

/// A value, and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) place: Place,
    /// The bytes, if they are not valid UTF-8.
    raw: Option<Vec<u8>>,
}

impl Setting {
    pub(crate) fn new(value: Value, place: Place) -> Setting {
        Setting { value, place, raw: None }
    }

    /// A text value of arbitrary bytes.
    pub(crate) fn of_bytes(bytes: &[u8], place: Place) -> Setting {
        let text = String::from_utf8_lossy(bytes);
        let raw = matches!(text, std::borrow::Cow::Owned(_)).then(|| bytes.to_vec());
        Setting { value: Value::Text(text.into_owned()), place, raw }
    }

    /// Whether the value is valid UTF-8; otherwise [`Value::text`] has replacement characters.
    #[cfg(feature = "server")]
    pub(crate) fn is_text(&self) -> bool {
        self.raw.is_none()
    }

    /// The value as a path.
    pub(crate) fn path(&self) -> PathBuf {
        match &self.raw {
            Some(bytes) => PathBuf::from(OsString::from_vec(bytes.clone())),
            None => PathBuf::from(self.value.text()),
        }
    }
}

/// A setting, its name, and its section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Empty for an entry before any section.
    pub(crate) section: String,
    pub(crate) name: String,
    /// The name as written, with section and "no".
    pub(crate) written: String,
    pub(crate) setting: Setting,
}

impl Entry {
    /// An option before any section.
    pub(crate) fn plain(name: &str, setting: Setting) -> Entry {
        Entry { section: String::new(), name: name.to_owned(), written: name.to_owned(), setting }
    }

    /// The line of debug.log about it; none for a name that is no option.
    pub(super) fn log_line(&self, prefix: &str) -> Option<String> {
        let option = options::find(&self.name)?;
        let value = if option.shown == Shown::Never { "****".to_owned() } else { self.setting.value.json() };
        let section = if self.section.is_empty() { String::new() } else { format!("[{}] ", self.section) };
        Some(format!("{prefix} {section}{}={value}", self.name))
    }

    /// Whether it requests the default behaviour: `daemon=0`, `networkactive=1`, an empty address.
    pub(crate) fn asks_for_nothing(&self) -> bool {
        match options::find(&self.name) {
            Some(option) if option.kind == Kind::Flag => self.setting.value.truth() == (option.name == "networkactive"),
            _ => matches!(self.setting.value.text(), "" | "0"),
        }
    }

    /// Splits the name: `test.noprune` is section `test`, name `prune`, negated. If its value is false, the
    /// result is "yes", otherwise "no".
    pub(crate) fn new(written: &str, setting: Setting) -> Entry {
        let (section, name) = written.split_once('.').unwrap_or(("", written));
        let (name, value) = match name.strip_prefix("no") {
            Some(name) if setting.value.truth() => (name, Some(Value::No)),
            Some(name) => (name, Some(Value::Yes)),
            None => (name, None),
        };
        let setting = match value {
            Some(value) => Setting::new(value, setting.place),
            None => setting,
        };
        Entry { section: section.to_owned(), name: name.to_owned(), written: written.to_owned(), setting }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_and_number_of_a_value_are_cores() {
        for (text, number, is_whole, truth) in [
            ("", 0, false, true),
            ("1", 1, true, true),
            ("0", 0, true, false),
            ("00", 0, true, false),
            ("yes", 0, false, false),
            ("true", 0, false, false),
            ("2x", 2, false, true),
            ("4G", 4, false, true),
            (" -1 ", -1, true, true),
            ("+0", 0, true, false),
            ("+5", 5, true, true),
            ("+-5", 0, false, false),
            ("--5", 0, false, false),
            ("0x10", 0, false, false),
            ("1.5", 1, false, true),
            ("99999999999999999999", i64::MAX, true, true),
            ("-99999999999999999999", i64::MIN, true, true),
        ] {
            let value = Value::Text(text.to_owned());
            assert_eq!(value.read_number(), Read { number, is_whole }, "{text:?}");
            assert_eq!(value.truth(), truth, "{text:?}");
        }
        assert_eq!((Value::Yes.number(), Value::No.number()), (1, 0));
    }

    #[test]
    fn bytes_that_are_no_text_stay_a_path() {
        let place = || Place::Line { file: PathBuf::from("f"), line: 1 };
        let setting = Setting::of_bytes(b"/d/\xe4", place());
        assert_eq!(setting.path().into_os_string().into_vec(), b"/d/\xe4");
        assert_eq!(Setting::of_bytes(b"/d", place()).path(), PathBuf::from("/d"));
        assert_eq!(place().to_string(), "f line 1");
    }
}
