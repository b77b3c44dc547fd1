//! The list of crates in ARCHITECTURE.md: each crate has its line, and takes from those below it alone.

use std::fs;
use std::path::Path;

/// For tests alone; its line stands last.
const TESTKIT: &str = "testkit";

/// What breaks the rule.
pub(super) fn broken(root: &Path) -> Vec<String> {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let layers = layers(&page);
    let mut found = Vec::new();
    let entries = fs::read_dir(root.join("crates")).expect("crates can be read");
    let mut crates: Vec<String> =
        entries.map(|entry| entry.expect("crates can be read").file_name().into_string().expect("UTF-8")).collect();
    crates.retain(|name| root.join("crates").join(name).join("Cargo.toml").is_file());
    crates.sort();
    found.extend(crates.iter().filter(|name| !layers.contains(name)).map(|name| format!("{name} has no line")));
    found.extend(layers.iter().filter(|name| !crates.contains(name)).map(|name| format!("{name} is no crate")));
    for name in &crates {
        let manifest = fs::read_to_string(root.join("crates").join(name).join("Cargo.toml")).expect("it is there");
        found.extend(arrows(&manifest).into_iter().filter_map(|(is_dev, below)| {
            let place = |name: &str| layers.iter().position(|layer| layer == name);
            let is_down = match (name.as_str(), below.as_str()) {
                (_, TESTKIT) => is_dev,
                (TESTKIT, below) => place(below).is_none() || matches!(below, "primitives" | "kernels"),
                // Its own tests are given what is behind the feature `testing`.
                (name, below) if name == below => is_dev,
                (name, below) => place(below)? > place(name)?,
            };
            (!is_down).then(|| format!("{name} takes from {below}"))
        }));
    }
    found
}

/// The names at the beginning of the indented lines of the first list.
fn layers(page: &str) -> Vec<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with("    "));
    let names = lines.take_while(|line| line.starts_with("    ")).map(|line| &line[4..]);
    let names = names.filter(|line| !line.starts_with(' ')).flat_map(|line| {
        let names = line.split("  ").next().unwrap_or_default();
        names.split(", ").map(str::to_owned).collect::<Vec<_>>()
    });
    names.collect()
}

/// The crates of this repository that a manifest names, and whether for tests alone.
fn arrows(manifest: &str) -> Vec<(bool, String)> {
    let (mut arrows, mut section) = (Vec::new(), "");
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        } else if section.ends_with("dependencies") && line.contains('=') {
            let name = line.split([' ', '.', '=']).next().unwrap_or_default();
            arrows.push((section == "dev-dependencies", name.to_owned()));
        }
    }
    arrows
}

#[test]
fn layers_are_the_names_of_the_list() {
    let page = "# A\n\ntext\n\n    ffwd       x  y\n               more\n    lab, micro  z\n\n    not   this\n";
    assert_eq!(layers(page), ["ffwd", "lab", "micro"]);
}

#[test]
fn arrows_tell_tests_from_the_rest() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nkernels = { workspace = true }\nlibc.workspace = true\n[dev-dependencies]\ntestkit = {}\n";
    let want = [(false, "kernels"), (false, "libc"), (true, "testkit")];
    assert_eq!(arrows(manifest), want.map(|(dev, name)| (dev, name.to_owned())));
}
