//! docs/json.md beside the JSON that the commands print.

use crate::data;
use crate::run::run;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/json.md");

/// The lines of a section of the page.
fn section(title: &str) -> Vec<&'static str> {
    let lines = PAGE.lines().skip_while(|line| *line != format!("## {title}")).skip(1);
    let found: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    assert!(found.len() > 2, "docs/json.md has no section {title}");
    found
}

/// Names in backticks of these lines.
fn names<'a>(lines: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    lines.into_iter().flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// Fields of a section's table that each output has.
fn required(title: &str) -> BTreeSet<&'static str> {
    let rows = section(title).into_iter().filter(|line| line.starts_with("| `") && !line.contains("optional"));
    names(rows.filter_map(|row| row.split('|').nth(1)))
}

#[test]
fn fields_of_the_json_output_are_those_of_the_page() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    for (title, line) in [
        ("sync, reindex, import", "reindex --hash hash_serialized_3"),
        ("info", "info"),
        ("verify", "verify --level 4 --blocks 10"),
        ("coins info", "coins info"),
    ] {
        let got = run(directory.path(), &format!("{line} --datadir @ --chain regtest --json")).good();
        let printed: BTreeSet<&str> = got.as_object().unwrap().keys().map(String::as_str).collect();
        let documented = names(section(title));
        let unknown: Vec<_> = printed.difference(&documented).collect();
        assert!(unknown.is_empty(), "{line}: docs/json.md does not name {unknown:?}");
        let required = required(title);
        let missing: Vec<_> = required.difference(&printed).collect();
        assert!(missing.is_empty(), "{line}: it does not print {missing:?}, which docs/json.md promises: {got}");
    }
    assert!(required("info").contains("next_step") && !required("info").contains("remark"), "the page can be read");
}
