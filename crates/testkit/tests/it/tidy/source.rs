//! The Rust files of the repository.

use super::text;
use std::fs;
use std::path::Path;

/// What a file is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Part of a library or a program.
    Code,
    /// A test, a benchmark or what they share.
    Test,
}

/// A file.
pub(super) struct Source {
    /// Its path from the repository's root, with slashes.
    pub(super) name: String,
    /// The crate, as its directory is called.
    pub(super) crate_name: String,
    pub(super) kind: Kind,
    pub(super) text: String,
    /// The text without `#[cfg(test)]` items, comments and literals as spaces.
    pub(super) code: String,
}

/// All Rust files below `crates` and `fuzz`, in the order of their names.
pub(super) fn all(root: &Path) -> Vec<Source> {
    let mut names = Vec::new();
    for start in ["crates", "fuzz"] {
        list(root, start, &mut names);
    }
    names.retain(|name| name.ends_with(".rs"));
    names.sort();
    names.into_iter().map(|name| source(root, name)).collect()
}

fn source(root: &Path, name: String) -> Source {
    let text = fs::read_to_string(root.join(&name)).unwrap_or_else(|why| panic!("{name}: {why}"));
    let code = text::without_tests(&text::blank(&text).code);
    let crate_name = name.split('/').nth(1).unwrap_or_default().to_owned();
    let kind = if is_test(&name) { Kind::Test } else { Kind::Code };
    Source { name, crate_name, kind, text, code }
}

fn is_test(name: &str) -> bool {
    let mut parts = name.split('/');
    let file = parts.next_back().unwrap_or_default();
    matches!(file, "tests.rs" | "fuzz.rs")
        || name.starts_with("fuzz/")
        || parts.any(|part| matches!(part, "tests" | "benches" | "testkit"))
}

/// The names of all files below a directory, from the root, without what is built or hidden.
pub(super) fn list(root: &Path, start: &str, names: &mut Vec<String>) {
    let entries = fs::read_dir(root.join(start)).unwrap_or_else(|why| panic!("{start}: {why}"));
    for entry in entries {
        let entry = entry.expect("a directory can be read to its end");
        let file = entry.file_name().into_string().expect("names are UTF-8");
        let name = if start == "." { file.clone() } else { format!("{start}/{file}") };
        let is_built = matches!(file.as_str(), "target" | "node_modules" | "__pycache__" | "corpus" | "artifacts");
        if is_built || (file.starts_with('.') && file != ".ci") {
            continue;
        }
        if entry.file_type().expect("a file has a type").is_dir() {
            list(root, &name, names);
        } else {
            names.push(name);
        }
    }
}
