//! The rules of CONTRIBUTING.md that a machine can check, checked on the tree that this test was compiled in.
//!
//! `cargo test -p testkit tidy`. Each test lists every place that breaks its rule, not only the first.
//! Absent on purpose: what clippy, rustfmt and rustdoc check already; history.

mod circles;
mod layers;
mod links;
mod messages;
mod references;
mod situations;
mod source;
mod text;
mod tuples;

use source::{Kind, Source};
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
/// Functions whose parameters may be tuple patterns: pairs of the kernels that are one thing.
const TUPLE_PARAMETERS_MAX: usize = 4;
/// Rows with a public source that docs/situations.md has at least.
const SITUATIONS_MIN: usize = 120;
/// Crates that may ask the system for the time: the others get it as a value.
const CLOCK_CRATES: [&str; 3] = ["ffwd", "lab", "micro"];

/// The repository.
fn root() -> PathBuf {
    // As cargo says now, not when this was compiled: a copy of the tree may share the build's directory.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&here).join("../..");
    root.canonicalize().expect("the tree that this was compiled in is still there")
}

/// Fails with every place, each on its line.
fn none(rule: &str, places: &[String]) {
    assert!(places.is_empty(), "{rule}:\n    {}\n", places.join("\n    "));
}

fn places(kinds: &[Kind], found: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    let sources = source::all(&root());
    assert!(sources.len() > 100, "only {} sources in {}", sources.len(), root().display());
    sources.iter().filter(|source| kinds.contains(&source.kind)).flat_map(found).collect()
}

/// Without its `#[cfg(test)]` modules; test files and benchmarks are apart.
#[test]
fn files_are_short() {
    let long = places(&[Kind::Code], |source| {
        let lines = source.code.lines().count();
        if lines > FILE_LINES_MAX { vec![format!("{}: {lines} lines", source.name)] } else { vec![] }
    });
    none(&format!("a file has at most {FILE_LINES_MAX} lines without its tests"), &long);
}

#[test]
fn functions_are_short() {
    let long = places(&[Kind::Code], |source| {
        let functions = text::functions(&source.code);
        let long = functions.into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        long.map(|(name, lines)| format!("{}: {name}, {lines} lines", source.name)).collect()
    });
    none(&format!("a function has at most {FUNCTION_LINES_MAX} lines"), &long);
}

#[test]
fn files_open_with_what_they_are() {
    let bare = places(&[Kind::Code, Kind::Test], |source| {
        if source.text.starts_with("//!") { vec![] } else { vec![source.name.clone()] }
    });
    none("a file opens with //!", &bare);
}

#[test]
fn time_is_a_value() {
    let clocks = places(&[Kind::Code], |source| {
        if CLOCK_CRATES.contains(&source.crate_name.as_str()) {
            return vec![];
        }
        let lines = source.code.lines().enumerate().filter(|(_, line)| line.contains("SystemTime::now()"));
        lines.map(|(line, _)| format!("{}:{}", source.name, line + 1)).collect()
    });
    none(&format!("only {CLOCK_CRATES:?} read the system's clock"), &clocks);
}

/// A line for each value, and a struct for values that belong together.
#[test]
fn tuples_dodge_no_limit() {
    let lets = places(&[Kind::Code], |source| {
        tuples::lets(&source.code).into_iter().map(|found| format!("{}:{found}", source.name)).collect()
    });
    none("one binding a let", &lets);
    let parameters = places(&[Kind::Code], |source| {
        tuples::parameters(&source.code).into_iter().map(|found| format!("{}:{found}", source.name)).collect()
    });
    let rule = format!("at most {TUPLE_PARAMETERS_MAX} functions take a tuple apart in their parameters");
    none(&rule, if parameters.len() > TUPLE_PARAMETERS_MAX { &parameters } else { &[] });
}

/// What the engine decides it decides by its own state: the counters of a job are for those who show them.
#[test]
fn progress_counters_are_outputs() {
    let reads = places(&[Kind::Code], |source| {
        let is_node = source.name.starts_with("crates/node/src/");
        let is_reporting = source.name.starts_with("crates/node/src/reporting/");
        if !is_node || is_reporting {
            return vec![];
        }
        let lines = source.code.lines().enumerate().filter(|(_, line)| text::reads_counters(line));
        lines.map(|(line, _)| format!("{}:{}", source.name, line + 1)).collect()
    });
    none("outside reporting (crates/node/src/reporting) no progress counter is read", &reads);
}

#[test]
fn references_resolve() {
    none("what a comment or a page names is there", &references::broken(&root()));
}

#[test]
fn links_resolve() {
    none("a link of a page leads to a file, and to a heading of it", &links::broken(&root()));
}

#[test]
fn situations_are_played() {
    let (faults, sourced) = situations::looked_at(&root());
    none("a row of docs/situations.md has its source, its code and its test", &faults);
    assert!(sourced >= SITUATIONS_MIN, "{sourced} situations with a public source, {SITUATIONS_MIN} at least");
}

#[test]
fn messages_have_their_remedies_on_the_page() {
    let (page, bare) = messages::page(&root());
    none("a message says what is to be done", &bare);
    let path = root().join(messages::PAGE);
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let old: std::collections::HashSet<&str> = there.lines().collect();
    let new: Vec<String> = page.lines().filter(|line| !old.contains(line)).map(str::to_owned).collect();
    none("docs/messages.md has what the code says; UPDATE_MESSAGES=1 cargo test -p testkit messages writes it", &new);
    assert!(there == page, "docs/messages.md has lines that the code does not: UPDATE_MESSAGES=1 writes it");
}

#[test]
fn crates_depend_downwards() {
    none("a crate takes from those below it in ARCHITECTURE.md", &layers::broken(&root()));
}

#[test]
fn files_import_in_one_direction() {
    none("no file takes from a file that takes from it", &circles::found(&source::all(&root())));
}
