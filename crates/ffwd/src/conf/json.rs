//! Parses settings.json, in which bitcoind stores settings at run time.
//!
//! ```text
//! { name: text | number | true | false | null | [values] }, in the network's directory
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe: common/settings.cpp, `ReadSettings`; common/args.cpp, `ReadSettingsFile`, `SettingTo`
//! and `SettingToBool`, which throw on a value of another type.
//! Absent on purpose: writing. The file belongs to bitcoind.

use super::ConfError;
use super::file::shown;
use super::value::{Entry, Place, Setting, Value};
use crate::options::{self, CoreOption, Effect, Kind, Times};
use serde::de::{MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The key of the comment that bitcoind writes.
const COMMENT: &str = "_warning_";
/// Options that take effect before settings.json is read.
const TOO_LATE: [&str; 10] = [
    "allowignoredconf",
    "chain",
    "conf",
    "datadir",
    "includeconf",
    "regtest",
    "settings",
    "signet",
    "testnet",
    "testnet4",
];

/// A JSON object with unique keys.
struct Object(BTreeMap<String, serde_json::Value>);

impl<'de> serde::Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Object, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
                    if all.contains_key(&name) {
                        return Err(serde::de::Error::custom(format_args!("{DUPLICATE}{name}")));
                    }
                    all.insert(name, value);
                }
                Ok(Object(all))
            }
        }
        from.deserialize_map(Names)
    }
}

/// Prefix of the one parse error that is not about syntax.
const DUPLICATE: &str = "duplicate key ";

/// The settings of the file, and warnings about it.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) entries: Vec<Entry>,
    pub(super) warnings: Vec<String>,
}

/// Parses settings.json, which was read from `path`.
///
/// # Errors
///
/// The content that Core rejects, in Core's words.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Stored, ConfError> {
    let refuse = |why: String| ConfError::Json { why };
    let file = path.display();
    let object: Object = serde_json::from_slice(bytes).map_err(|why| {
        let text = why.to_string();
        let key = text.strip_prefix(DUPLICATE).and_then(|rest| rest.rsplit_once(" at line ")).map(|(key, _)| key);
        refuse(match (key, serde_json::from_slice::<serde_json::Value>(bytes)) {
            (Some(key), _) => format!("Found duplicate key {} in settings file {file}", shown(key)),
            (None, Ok(other)) => {
                format!("Found non-object value {} in settings file {file}", shown(&other.to_string()))
            }
            (None, Err(_)) => format!(
                "Settings file {file} does not contain valid JSON. This may be caused by a crash, power loss, full disk, or storage error, and can be fixed by removing the file, which will reset settings to default values. ({text})"
            ),
        })
    })?;
    let mut out = Stored::default();
    for (name, value) in object.0 {
        if name == COMMENT {
            continue;
        }
        let place = Place::Json { file: path.to_owned() };
        // Whether a name is known is decided without section and "no"; a known name with one of them has no
        // effect.
        let plain = name.split_once('.').map_or(&*name, |(_, name)| name);
        let plain = plain.strip_prefix("no").unwrap_or(plain);
        let Some(option) = options::find(plain) else {
            let hint = options::hint(plain);
            out.warnings.push(format!("{place}: Ignoring unknown rw_settings value {}{hint}", shown(&name)));
            continue;
        };
        if plain != name {
            let meant = option.name;
            out.warnings.push(format!(
                "{place}: {} has no effect, in bitcoind neither: names have no section and no \"no\" here; false negates {meant}",
                shown(&name)
            ));
        } else if TOO_LATE.contains(&plain) || option.effect == Effect::LineOnly {
            out.warnings.push(format!("{place}: {name} has no effect here: it is decided before this file is read"));
        } else {
            add(&mut out.entries, option, value, &place)?;
        }
    }
    Ok(out)
}

/// Adds the values of an option.
fn add(
    entries: &mut Vec<Entry>,
    option: &CoreOption,
    value: serde_json::Value,
    place: &Place,
) -> Result<(), ConfError> {
    let name = option.name;
    let values = match value {
        serde_json::Value::Array(values) if option.times == Times::Many => values,
        one => vec![one],
    };
    for value in values {
        let value = match value {
            serde_json::Value::Bool(false) => Value::No,
            serde_json::Value::Bool(true) => Value::Yes,
            serde_json::Value::String(text) => Value::Text(text),
            serde_json::Value::Null if option.times == Times::Once => Value::Null,
            serde_json::Value::Number(number) if takes_number(option, &number) => Value::Number(number.to_string()),
            other => {
                let kind = kind_of(&other);
                let wants = if option.kind == Kind::Number { "a whole number" } else { "text" };
                let why = format!(
                    "{place}: {name}: JSON value of type {kind} is not of expected type string: expected {wants}, true or false"
                );
                return Err(ConfError::Json { why });
            }
        };
        entries.push(Entry::plain(name, Setting::new(value, place.clone())));
    }
    Ok(())
}

/// Whether Core accepts a JSON number for this option: booleans and list items must be text, and a numeric
/// option needs a whole number.
fn takes_number(option: &CoreOption, number: &serde_json::Number) -> bool {
    match option.kind {
        // Its first value is read before it is a list.
        _ if option.times == Times::Many && option.name != "blockfilterindex" => false,
        Kind::Flag => false,
        Kind::Number => number.is_i64(),
        Kind::FlagOrText | Kind::Text | Kind::Path => true,
    }
}

fn kind_of(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "bool",
        serde_json::Value::Number(_) => "number",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Stored, String> {
        read(Path::new("s"), text.as_bytes()).map_err(|why| why.to_string())
    }

    #[test]
    fn values_are_cores() {
        for (text, want) in [
            (r#"{"dbcache": "7", "_warning_": "x"}"#, vec![Value::Text("7".into())]),
            (r#"{"dbcache": 8}"#, vec![Value::Number("8".into())]),
            (r#"{"blockfilterindex": 1}"#, vec![Value::Number("1".into())]),
            (r#"{"listen": false}"#, vec![Value::No]),
            (r#"{"listen": true}"#, vec![Value::Yes]),
            (r#"{"wallet": ["a", "b"]}"#, vec![Value::Text("a".into()), Value::Text("b".into())]),
            (r#"{"dbcache": null}"#, vec![Value::Null]),
            ("{}", vec![]),
        ] {
            let got = read_text(text).unwrap();
            let values: Vec<Value> = got.entries.into_iter().map(|entry| entry.setting.value).collect();
            assert_eq!((values, got.warnings), (want, vec![]), "{text}");
        }
    }

    #[test]
    fn what_core_refuses_is_refused_in_its_words() {
        for (text, want) in [
            ("[1]", "Settings file could not be read: Found non-object value [1] in settings file s"),
            ("5", "Found non-object value 5"),
            (r#"{"dbcache":"#, "Settings file s does not contain valid JSON. This may be caused by a crash"),
            ("", "does not contain valid JSON"),
            (r#"{"par": 1, "par": 2}"#, "Found duplicate key par in settings file s"),
            (r#"{"dbcache": {}}"#, "dbcache: JSON value of type object is not of expected type string"),
            (r#"{"dbcache": [1]}"#, "JSON value of type array"),
            (r#"{"dbcache": 1.5}"#, "JSON value of type number"),
            (r#"{"listen": 1}"#, "JSON value of type number"),
            (r#"{"addnode": ["a", null]}"#, "JSON value of type null"),
            (r#"{"addnode": [7]}"#, "JSON value of type number"),
        ] {
            let why = read_text(text).expect_err(text);
            assert!(why.contains(want), "{text}: {why}");
        }
        let whole = r#"{"_warning_": "x", "addnode": ["a", "\u00e4"], "dbcache": 5, "nolisten": null}"#.as_bytes();
        for at in 0..whole.len() {
            assert!(read(Path::new("s"), &whole[..at]).is_err(), "cut at {at}");
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0x80;
            let _ = read(Path::new("s"), &bytes);
        }
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read_text(&deep).is_err(), "nesting has a bound");
    }

    #[test]
    fn what_has_no_effect_is_named() {
        for (text, want) in [
            (r#"{"dbcahe": 99}"#, "s: Ignoring unknown rw_settings value dbcahe: did you mean dbcache?"),
            (r#"{"prune-prev": 1}"#, "Ignoring unknown rw_settings value prune-prev"),
            (r#"{"nolisten": true}"#, "nolisten has no effect, in bitcoind neither"),
            (r#"{"regtest.par": 1}"#, "regtest.par has no effect"),
            (r#"{"datadir": "/x"}"#, "datadir has no effect here: it is decided before"),
            (r#"{"regtest": true}"#, "regtest has no effect here"),
        ] {
            let got = read_text(text).unwrap();
            assert!(got.entries.is_empty() && got.warnings.len() == 1, "{text}: {got:?}");
            assert!(got.warnings[0].contains(want), "{text}: {:?}", got.warnings);
        }
    }
}
