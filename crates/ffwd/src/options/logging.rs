//! The categories and levels of debug.log, with Core's names.
//!
//! Source: Bitcoin Core b88bffe, logging.cpp, `LOG_CATEGORIES_BY_STR`; init/common.cpp, `SetLoggingLevel`, `SetLoggingCategories`.
//! Absent on purpose: levels of lines. ffwd's lines have a single level, so `-loglevel` is checked but has no effect.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use node::LOG_CATEGORIES;

/// A category that Core removed but still accepts.
pub(crate) const REMOVED: &str = "libevent";
/// Levels that a user may set. Source: Core's `LogLevelsString`.
const LEVELS: [&str; 3] = ["info", "debug", "trace"];
/// ffwd's own category: heap allocations.
pub(crate) const HEAP: &str = "heap";
/// Every category of Core's.
const ALL: &str = "all";
/// Discards the categories before it.
const NONE: &str = "none";

/// Finds a category by its name: an existing one, `all` or `none`.
pub(crate) fn category(name: &str) -> Option<&'static str> {
    match name {
        "" | "1" | ALL => Some(ALL),
        "0" | NONE => Some(NONE),
        HEAP => Some(HEAP),
        REMOVED => Some(REMOVED),
        name => LOG_CATEGORIES.into_iter().find(|one| *one == name),
    }
}

/// The clap parser of a category.
pub(crate) fn category_parser() -> impl TypedValueParser<Value = &'static str> {
    let shown = |name: &str| match name {
        "bench" => Some("Time of each stage, in debug.log"),
        HEAP => Some("Allocations, in dhat-heap.json beside debug.log; needs feature heap; slow"),
        "net" => Some("Each message and connection, in debug.log"),
        _ => None,
    };
    let names = [HEAP, ALL, NONE, REMOVED, "0", "1"].into_iter().chain(LOG_CATEGORIES);
    let mut values: Vec<_> = names
        .map(|name| match shown(name) {
            Some(help) => PossibleValue::new(name).help(help),
            None => PossibleValue::new(name).hide(true),
        })
        .collect();
    values.sort_by(|a, b| a.get_name().cmp(b.get_name()));
    PossibleValuesParser::new(values).map(|name| category(&name).expect("only names of categories are possible values"))
}

/// The enabled categories, sorted by name: those after the last `none`, without the excluded ones.
pub(crate) fn left_of(given: &[&'static str], excluded: &[&'static str]) -> Vec<&'static str> {
    let after = given.iter().rposition(|one| *one == NONE).map_or(0, |last| last + 1);
    let has = |list: &[&str], name: &str| list.contains(&name) || list.contains(&ALL) && name != HEAP;
    let all = LOG_CATEGORIES.into_iter().chain([HEAP]);
    all.filter(|name| has(&given[after..], name) && !has(excluded, name)).collect()
}

/// Checks a value of `-loglevel`. The error is Core's message.
pub(crate) fn level(text: &str) -> Result<String, String> {
    let levels = LEVELS.join(", ");
    let is_level = |text: &str| LEVELS.contains(&text);
    if !text.as_bytes().iter().skip(3).any(|byte| *byte == b':') {
        let why = || format!("Unsupported global logging level -loglevel={text}. Valid values: {levels}.");
        return is_level(text).then(|| text.to_owned()).ok_or_else(why);
    }
    let parts: Vec<&str> = text.split(':').collect();
    let is_category = |name: &str| category(name).is_some_and(|one| one != NONE && one != HEAP);
    if matches!(parts[..], [name, level] if is_category(name) && is_level(level)) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "Unsupported category-specific logging level -loglevel={text}. Expected -loglevel=<category>:<loglevel>. \
         Valid categories: {}. Valid loglevels: {levels}.",
        LOG_CATEGORIES.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_those_after_the_last_none() {
        let all = LOG_CATEGORIES.len();
        for (row, given, excluded, want) in [
            ("nothing", vec![], vec![], vec![]),
            ("some", vec!["net", "bench"], vec![], vec!["bench", "net"]),
            ("after none", vec!["http", NONE, "rpc", "net"], vec![], vec!["net", "rpc"]),
            ("excluded", vec!["rpc", "net"], vec!["net"], vec!["rpc"]),
            ("all excluded", vec![ALL], vec![ALL], vec![]),
            ("heap is ffwd's own", vec![HEAP], vec![ALL], vec![HEAP]),
        ] {
            assert_eq!(left_of(&given, &excluded), want, "{row}");
        }
        assert_eq!(left_of(&[ALL], &["leveldb", REMOVED]).len(), all - 1);
        assert_eq!((category("1"), category("0"), category("abc")), (Some(ALL), Some(NONE), None));
    }

    /// The words are those of Core's feature_logging.py.
    #[test]
    fn levels_are_checked_as_cores() {
        for text in ["info", "debug", "trace", "net:trace", "http:debug", "all:info"] {
            assert_eq!(level(text).as_deref(), Ok(text));
        }
        for (text, want) in [
            ("abc", "Unsupported global logging level -loglevel=abc. Valid values: info, debug, trace."),
            ("warning", "Unsupported global logging level -loglevel=warning."),
            ("net:abc", "Unsupported category-specific logging level -loglevel=net:abc."),
            ("net:info:abc", "Unsupported category-specific logging level -loglevel=net:info:abc."),
            ("abc:info", "Unsupported category-specific logging level -loglevel=abc:info."),
            ("heap:info", "Unsupported category-specific logging level"),
        ] {
            let why = level(text).expect_err(text);
            assert!(why.starts_with(want), "{why}");
        }
    }
}
