//! References to files and modules, in comments and on pages: what they name is in the repository.
//!
//! A file may be named by the end of its path, or as seen from the directory of who names it. A module is named from
//! its crate (`node::pipeline::rewind`); what follows the last module is an item, and a word of that crate's code.
//! Not seen: names of items alone (rustdoc checks its own links), patterns, files of other projects.

use super::source::{self, Source};
use super::text;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Endings of files that only a repository has; others are also names in a data directory or of other projects.
const ENDINGS: [&str; 4] = [".rs", ".md", ".py", ".sh"];
/// A path that begins with one of these is one of this repository, whatever its ending.
const DIRS: [&str; 7] = [".ci/", "bench/", "contrib/", "crates/", "docs/", "fuzz/", "interop/"];
/// Names of Core's functional tests begin with one of these: they are there, not here.
const CORES_TESTS: [&str; 7] = ["feature_", "interface_", "mempool_", "mining_", "p2p_", "rpc_", "tool_"];
/// What names something that is not there.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    source::list(root, ".", &mut files);
    files.retain(|name| !name.starts_with("shared/"));
    let tree = Tree { sources: source::all(root), files };
    let mut found = Vec::new();
    for name in &tree.files {
        let Some(text) = words(root, name) else { continue };
        for (line, text) in text.lines().enumerate() {
            let bad = paths(text).filter(|path| !tree.has_file(name, path));
            let bad = bad.chain(modules(text).filter(|path| !tree.has_module(path)));
            found.extend(bad.map(|what| format!("{name}:{}: {what}", line + 1)));
            if text.contains("see DESIGN") || text.contains("DESIGN.md") {
                found.push(format!("{name}:{}: DESIGN is not in the repository", line + 1));
            }
        }
    }
    found
}

/// The words of a file that are for people: comments, or the whole page.
fn words(root: &Path, name: &str) -> Option<String> {
    let read = || fs::read_to_string(root.join(name)).ok();
    if name.ends_with(".rs") {
        // This file names what is not there.
        return if name.ends_with("tidy/references.rs") {
            None
        } else {
            read().map(|text| text::blank(&text).comments)
        };
    }
    // History says what was.
    let is_page = name.ends_with(".md") && name != "CHANGELOG.md" && !name.starts_with("plans/");
    is_page.then(read).flatten()
}

/// Words between characters that no path has.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_alphanumeric() || "_./-*?<>:{}".contains(c)));
    parts.map(|part| part.trim_matches(|c| ".:".contains(c) && c != '.').trim_end_matches('.'))
}

fn paths(text: &str) -> impl Iterator<Item = &str> {
    tokens(text).filter(|word| {
        let is_pattern =
            word.contains(['*', '?', '<', '>', ':', '{', '}']) || word.contains("//") || word.contains("...");
        // As in fuzz/seeds/TARGET.
        let is_blank =
            word.rsplit('/').next().is_some_and(|end| !end.is_empty() && end.chars().all(|c| c.is_ascii_uppercase()));
        let is_ours = DIRS.iter().any(|dir| word.strip_prefix("./").unwrap_or(word).starts_with(dir));
        let is_file = ENDINGS.iter().any(|ending| word.strip_suffix(ending).is_some_and(|stem| !stem.is_empty()));
        let is_cores = word.ends_with(".py") && CORES_TESTS.iter().any(|begin| word.starts_with(begin));
        !is_pattern && !is_blank && !is_cores && (is_ours || is_file)
    })
}

fn modules(text: &str) -> impl Iterator<Item = &str> {
    tokens(text).filter(|word| word.contains("::") && word.chars().all(|c| c == '_' || c == ':' || c.is_alphanumeric()))
}

struct Tree {
    sources: Vec<Source>,
    files: Vec<String>,
}

impl Tree {
    fn has_file(&self, from: &str, path: &str) -> bool {
        let path = path.strip_prefix("./").unwrap_or(path).trim_end_matches('/');
        let mut path = path.to_owned();
        let mut dir = from.rsplit_once('/').map_or("", |(dir, _)| dir);
        while let Some(rest) = path.strip_prefix("../") {
            (path, dir) = (rest.to_owned(), dir.rsplit_once('/').map_or("", |(dir, _)| dir));
        }
        let beside = if dir.is_empty() { path.clone() } else { format!("{dir}/{path}") };
        self.files.iter().any(|file| {
            let is_dir = |dir: &str| file.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
            let is_end = file.strip_suffix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
            is_end || is_dir(&path) || is_dir(&beside)
        })
    }

    /// Of a path from a crate's name; others are taken as they are.
    fn has_module(&self, path: &str) -> bool {
        let mut parts = path.split("::");
        let name = parts.next().unwrap_or_default();
        let own: Vec<&Source> = self.sources.iter().filter(|source| source.crate_name == name).collect();
        if own.is_empty() {
            return true;
        }
        let mut module = format!("crates/{name}/src");
        let mut parts = parts.peekable();
        while let Some(part) = parts.peek() {
            let next = format!("{module}/{part}");
            let is_module =
                |source: &&Source| source.name == format!("{next}.rs") || source.name == format!("{next}/mod.rs");
            if !own.iter().any(is_module) {
                break;
            }
            module = next;
            parts.next();
        }
        let words: HashSet<&str> =
            own.iter().flat_map(|source| source.text.split(|c: char| c != '_' && !c.is_alphanumeric())).collect();
        parts.all(|part| words.contains(part))
    }
}

#[test]
fn paths_and_modules_are_found_in_prose() {
    let text = "see `docs/gaps.md`, crates/x/src. (a/b.rs); https://x.org/y.md blk*.dat `node::a::B` std::fs, x.dat ../z.md docs/NAME";
    assert_eq!(paths(text).collect::<Vec<_>>(), ["docs/gaps.md", "crates/x/src", "a/b.rs", "../z.md"]);
    assert_eq!(modules(text).collect::<Vec<_>>(), ["node::a::B", "std::fs"]);
}
