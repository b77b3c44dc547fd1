//! Links of the pages, as a browser follows them: a relative one leads to a file, and one with a `#` to a heading there.
//!
//! Absent on purpose: links to other hosts, and what stands in code.

use super::source;
use std::fs;
use std::path::Path;

/// What begins a link, and what ends it.
const FORMS: [(&str, char); 4] = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')];

/// The links that lead nowhere.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let mut pages = Vec::new();
    source::list(root, ".", &mut pages);
    pages.retain(|name| name.ends_with(".md") && !name.starts_with("shared/"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
    let mut found = Vec::new();
    for page in &pages {
        let text = read(page);
        let leads_nowhere = |link: &&str| {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { beside(page, file) };
            let has_heading = || headings(&read(&target)).any(|slug| slug == heading);
            !root.join(&target).exists() || (!heading.is_empty() && !has_heading())
        };
        found.extend(links(&prose(&text)).filter(leads_nowhere).map(|link| format!("{page}: {link}")));
    }
    found
}

/// A page without its code: indented blocks, and what stands between backticks.
fn prose(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("    "));
    lines.flat_map(|line| line.split('`').step_by(2).chain(["\n"])).collect()
}

/// The relative links of a page.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    let all = FORMS.into_iter().flat_map(move |(begin, end)| {
        prose.split(begin).skip(1).filter_map(move |rest| rest.split_once(end).map(|(link, _)| link))
    });
    all.filter(|link| !link.contains("://"))
}

/// The path that `link` names from the directory of `page`.
fn beside(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What a link may have behind its `#`: headings as GitHub names them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles.map(|title| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    })
}

#[test]
fn links_are_those_outside_of_code() {
    let text = "a [b](c.md) `[d](e.md)`\n\n    [f](g.md)\n<img src=\"h.png\"> [i](https://j/k.md) [l](../m.md#n-o)\n";
    assert_eq!(links(&prose(text)).collect::<Vec<_>>(), ["c.md", "../m.md#n-o", "h.png"]);
}

#[test]
fn links_are_followed_from_their_page() {
    for (page, link, want) in [
        ("README.md", "docs/a.md", "docs/a.md"),
        ("docs/a.md", "b.md", "docs/b.md"),
        ("docs/a.md", "../plans", "plans"),
        ("docs/a.md", "./../../out.md", "../out.md"),
    ] {
        assert_eq!(beside(page, link), want, "{page}: {link}");
    }
}

#[test]
fn headings_are_named_as_github_names_them() {
    let text = "# On disk\ntext\n## What `x_y` is, and why\n";
    assert_eq!(headings(text).collect::<Vec<_>>(), ["on-disk", "what-x_y-is-and-why"]);
}
