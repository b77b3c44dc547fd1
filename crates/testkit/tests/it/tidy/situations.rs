//! The table of situations: each row of docs/situations.md has its source, an exit code, and a test that is there.
//!
//! A row: `| situation | source | what ffwd does | code | message | test |`, where
//! - `source` is `review` or public threads (`owner/repo#123`, separated by commas);
//! - `code` is an exit code, or `-` where the program goes on;
//! - `test` is the name of a test function in backticks; of a table-driven test, `: ` and the name of its row may follow.

use super::source::{self, Source};
use std::collections::HashSet;
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/situations.md";
const HEADER: &str = "| situation | source | what ffwd does | code | message | test |";
const LINE: &str = "|---|---|---|---|---|---|";
const CODES: [&str; 6] = ["-", "0", "1", "2", "130", "141"];

/// What is wrong with the page, and how many rows have a public source.
pub(super) fn looked_at(root: &Path) -> (Vec<String>, usize) {
    let text = fs::read_to_string(root.join(PAGE)).unwrap_or_else(|why| panic!("{PAGE}: {why}"));
    faults(&text, &source::all(root))
}

fn faults(text: &str, sources: &[Source]) -> (Vec<String>, usize) {
    let (mut faults, mut sourced) = (Vec::new(), 0);
    let (mut seen, mut before) = (HashSet::new(), "");
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('|') && line != HEADER && line != LINE {
            let fault = row(line, sources, &mut seen);
            faults.extend(fault.into_iter().map(|what| format!("{PAGE}:{}: {what}", number + 1)));
            sourced += usize::from(cells(line).get(1).is_some_and(|cell| cell.contains('#')));
        } else if (line == LINE) != (before == HEADER) {
            faults.push(format!("{PAGE}:{}: a table begins with {HEADER}", number + 1));
        }
        before = line;
    }
    (faults, sourced)
}

/// The cells of a row; `\|` is no border.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').strip_suffix('|').unwrap_or(line);
    inner.replace("\\|", "\u{1}").split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

fn row(line: &str, sources: &[Source], seen: &mut HashSet<String>) -> Option<String> {
    let cells = cells(line);
    let [situation, source, does, code, message, test] = &cells[..] else {
        return Some(format!("{} cells, not 6: {line}", cells.len()));
    };
    if [situation, does, message].into_iter().any(|cell| cell.is_empty()) {
        return Some(format!("an empty cell; \"-\" where there is no message: {line}"));
    }
    if !seen.insert(situation.clone()) {
        return Some(format!("a situation that stands there already: {situation}"));
    }
    if source != "review" && !source.split(", ").all(is_thread) {
        return Some(format!("source {source:?}: neither `review` nor threads such as bitcoin/bitcoin#19274"));
    }
    if !CODES.contains(&code.as_str()) {
        return Some(format!("code {code:?} is none of {CODES:?}"));
    }
    let (name, label) = test.split_once(": ").unwrap_or((test, ""));
    let name = name.trim_matches('`');
    let head = format!("fn {name}(");
    let is_there = |source: &&Source| is_test(&source.text, &head) && source.text.contains(label);
    (name.is_empty() || !sources.iter().any(|source| is_there(&source)))
        .then(|| format!("no test function {test} is in the tree"))
}

/// `owner/repo#123`
fn is_thread(text: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    text.split_once('#').is_some_and(|(repository, number)| {
        let names = repository.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name));
        names && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether a text has a test function whose head is this one.
fn is_test(text: &str, head: &str) -> bool {
    text.match_indices(head).any(|(at, _)| {
        let above = text[..at].rsplit('\n').skip(1).take_while(|line| !line.trim().is_empty() && line.trim() != "}");
        above.take(12).any(|line| line.trim() == "#[test]")
    })
}

#[test]
fn a_row_that_is_not_right_is_named() {
    let source = Source {
        name: "crates/ffwd/tests/it/x.rs".to_owned(),
        crate_name: "ffwd".to_owned(),
        kind: source::Kind::Test,
        text: "//! X\n\n/// Doc.\n#[test]\nfn played() {\n    \"a row\"\n}\n\nfn helper() {}\n".to_owned(),
        code: String::new(),
    };
    let page = |row: &str| format!("{HEADER}\n{LINE}\n{row}\n");
    for (row, want) in [
        ("| a | bitcoin/bitcoin#1, a-b/c.d#22 | b | 1 | c | `played` |", None),
        ("| a | review | b \\| c | - | - | `played`: a row |", None),
        ("| a | review | b | 1 | c |", Some("5 cells")),
        ("| a | review |  | 1 | c | `played` |", Some("empty cell")),
        ("| a | someone | b | 1 | c | `played` |", Some("source \"someone\"")),
        ("| a | bitcoin#5 | b | 1 | c | `played` |", Some("source")),
        ("| a | review | b | 3 | c | `played` |", Some("code \"3\"")),
        ("| a | review | b | 1 | c | `helper` |", Some("no test function")),
        ("| a | review | b | 1 | c | `played`: another row |", Some("no test function")),
        ("| a | review | b | 1 | c | `played` |\n| a | review | b | 1 | c | `played` |", Some("already")),
    ] {
        let (faults, _) = faults(&page(row), std::slice::from_ref(&source));
        match want {
            None => assert!(faults.is_empty(), "{row}: {faults:?}"),
            Some(want) => assert!(faults.len() == 1 && faults[0].contains(want), "{row}: {faults:?}"),
        }
    }
    let (wrong, _) = faults("| a | b |\n|---|---|\n", &[]);
    assert!(!wrong.is_empty());
}
