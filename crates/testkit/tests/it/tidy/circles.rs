//! Circles of imports between the files of a crate.
//!
//! An import is a path that ends at an item of another file of the same crate. `mod x;` is none, nor is what a file
//! takes from the modules that it lies in (`super::`), for that is how Rust nests. Methods leave no path and are not seen.
//! Paths are followed through `use`, globs too, to the file that defines their end.

use super::source::{Kind, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Circles that stay: an interface and what implements it.
const LEAVE: [&[&str]; 2] = [
    // A parser and its error.
    &["wire/address.rs", "wire/message.rs"],
    // One algorithm over a trait, and the kernels that implement it.
    &[
        "sha256/avx2.rs",
        "sha256/avx512.rs",
        "sha256/avx512x2.rs",
        "sha256/engine.rs",
        "sha256/reference.rs",
        "sha256/stage.rs",
    ],
];

const ITEMS: [&str; 9] = ["struct", "enum", "union", "trait", "type", "const", "static", "fn", "mod"];

/// Groups of files that reach each other, one line for each.
pub(super) fn found(sources: &[Source]) -> Vec<String> {
    let names: BTreeSet<&str> = sources.iter().map(|source| source.crate_name.as_str()).collect();
    let mut found = Vec::new();
    for name in names {
        let prefix = format!("crates/{name}/src/");
        let files = sources.iter().filter(|source| source.kind == Kind::Code && source.name.starts_with(&prefix));
        let files: Vec<(&str, &str)> =
            files.map(|source| (&source.name[prefix.len()..], source.code.as_str())).collect();
        for group in Crate::new(name, &files).circles() {
            let is_left = |leave: &&[&str]| group.iter().all(|file| leave.contains(&file.as_str()));
            if !LEAVE.iter().any(is_left) {
                found.push(format!("{name}: {}", group.join(" <-> ")));
            }
        }
    }
    found
}

type Module = Vec<String>;

/// What a module says.
#[derive(Default)]
struct Unit {
    file: String,
    items: HashSet<String>,
    /// A name, and the path that it stands for.
    uses: HashMap<String, Module>,
    globs: Vec<Module>,
    /// Every path with `::` outside of `use`.
    paths: Vec<Module>,
}

struct Crate {
    name: String,
    units: BTreeMap<Module, Unit>,
}

impl Crate {
    /// Of files (path in `src`, code without comments and tests).
    fn new(name: &str, files: &[(&str, &str)]) -> Crate {
        let units = files.iter().map(|(file, code)| {
            let mut module: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
                module.pop();
            }
            (module, Unit::new(file, code))
        });
        Crate { name: name.replace('-', "_"), units: units.collect() }
    }

    /// The module that defines the item at `path`, as written in `module`; none in another crate.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        if depth > 20 {
            return None;
        }
        let unit = self.units.get(module)?;
        let child = [&module[..], std::slice::from_ref(first)].concat();
        let here = match first.as_str() {
            "self" => module.clone(),
            "super" => module.get(..module.len().checked_sub(1)?)?.to_vec(),
            first if first == "crate" || first == self.name => Module::new(),
            _ if self.units.contains_key(&child) => child,
            first => {
                if let Some(used) = unit.uses.get(first) {
                    return self.resolve(module, &[&used[..], rest].concat(), depth + 1);
                }
                if unit.items.contains(first) {
                    return Some(module.clone());
                }
                return unit.globs.iter().find_map(|glob| self.resolve(module, &[&glob[..], path].concat(), depth + 1));
            }
        };
        if rest.is_empty() {
            return self.units.contains_key(&here).then_some(here);
        }
        self.resolve(&here, rest, depth + 1)
    }

    /// file -> files that it takes an item from.
    fn edges(&self) -> BTreeMap<String, BTreeSet<String>> {
        let edges = self.units.iter().map(|(module, unit)| {
            let paths = unit.uses.values().chain(&unit.globs).chain(&unit.paths);
            let taken =
                paths.filter_map(|path| self.resolve(module, path, 0)).filter(|target| !module.starts_with(target));
            (unit.file.clone(), taken.map(|target| self.units[&target].file.clone()).collect())
        });
        edges.collect()
    }

    /// Circles between files, then between the crate's topmost modules where no circle of files shows them.
    fn circles(&self) -> Vec<Vec<String>> {
        let room = |file: &str| file.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let edges = self.edges();
        let mut groups = connected(&edges);
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, taken) in &edges {
            let others = taken.iter().map(|other| room(other));
            let others = others.filter(|other| *other != room(file) && !matches!(other.as_str(), "lib" | "main"));
            rooms.entry(room(file)).or_default().extend(others);
        }
        let seen: Vec<BTreeSet<String>> =
            groups.iter().map(|group| group.iter().map(|file| room(file)).collect()).collect();
        let is_new = |group: &Vec<String>| {
            !seen.iter().any(|rooms| rooms.len() > 1 && rooms.iter().all(|room| group.contains(room)))
        };
        groups.extend(connected(&rooms).into_iter().filter(is_new));
        groups
    }
}

impl Unit {
    fn new(file: &str, code: &str) -> Unit {
        let mut unit = Unit { file: file.to_owned(), ..Unit::default() };
        let mut rest = code;
        let mut last = "";
        while let Some(start) = rest.find(is_word_char) {
            rest = &rest[start..];
            let word = &rest[..rest.find(|c| !is_word_char(c)).unwrap_or(rest.len())];
            if word == "use" {
                let end = rest.find(';').unwrap_or(rest.len());
                for (name, path) in expand(&rest[3..end], &[]) {
                    if name == "*" {
                        unit.globs.push(path);
                    } else if name != "_" {
                        unit.uses.insert(name, path);
                    }
                }
                rest = &rest[end..];
                continue;
            }
            if ITEMS.contains(&last) || (matches!(last, "mut") && unit.items.is_empty()) {
                unit.items.insert(word.to_owned());
            }
            let path = &rest[..rest.find(|c| !is_word_char(c) && c != ':').unwrap_or(rest.len())];
            let path = path.trim_end_matches(':');
            if path.contains("::") {
                unit.paths.push(path.split("::").map(str::to_owned).collect());
                rest = &rest[path.len()..];
                last = "";
            } else {
                rest = &rest[word.len()..];
                last = if word == "macro_rules" { "fn" } else { word };
                if word == "macro_rules" {
                    rest = rest.strip_prefix('!').unwrap_or(rest);
                }
            }
        }
        unit
    }
}

fn is_word_char(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}

/// The paths of a use tree, each with the name that it gets.
fn expand(tree: &str, head: &[String]) -> Vec<(String, Module)> {
    let tree = tree.trim();
    let parts = |path: &str| -> Module {
        path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    };
    if let Some((prefix, rest)) = tree.split_once('{') {
        let head = [head, &parts(prefix)].concat();
        let rest = rest.rsplit_once('}').map_or(rest, |(rest, _)| rest);
        let (mut depth, mut start, mut found) = (0, 0, Vec::new());
        for (index, c) in rest.char_indices().chain([(rest.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    let part = &rest[start..index];
                    start = (index + 1).min(rest.len());
                    if !part.trim().is_empty() {
                        found.extend(expand(part, &head));
                    }
                }
                _ => {}
            }
        }
        return found;
    }
    let (path, name) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name.trim())));
    let mut path = [head, &parts(path)].concat();
    let end = path.last().cloned().unwrap_or_default();
    match end.as_str() {
        "self" => {
            path.pop();
            let name = name.map_or_else(|| path.last().cloned().unwrap_or_default(), str::to_owned);
            vec![(name, path)]
        }
        "*" => {
            path.pop();
            vec![("*".to_owned(), path)]
        }
        _ => vec![(name.map_or(end, str::to_owned), path)],
    }
}

/// Groups of more than one node that all reach each other.
fn connected(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach = |start: &String| {
        let (mut seen, mut stack) = (BTreeSet::new(), vec![start]);
        while let Some(next) = stack.pop() {
            let new = graph.get(next).into_iter().flatten().filter(|to| seen.insert((*to).clone()));
            stack.extend(new);
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|node| (node, reach(node))).collect();
    let mut groups: BTreeSet<Vec<String>> = BTreeSet::new();
    for (node, there) in &reached {
        let group: Vec<String> =
            there.iter().filter(|to| reached.get(to).is_some_and(|back| back.contains(*node))).cloned().collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

#[test]
fn circles_are_seen_through_use_glob_and_path() {
    for (row, a, b, want) in [
        ("use", "use crate::b::B; pub struct A;", "use crate::a::A; pub struct B;", 1),
        ("a path alone", "pub struct A; fn f() -> crate::b::B {}", "use super::a::{self}; pub struct B(a::A);", 1),
        ("a glob", "use crate::b::*; pub struct A(B);", "use crate::a::{A as X}; pub struct B;", 1),
        ("one way", "use crate::b::B; pub struct A;", "use std::fmt; pub struct B;", 0),
        ("only a module", "use crate::b::B; pub struct A;", "mod a; pub struct B;", 0),
    ] {
        let files = [("lib.rs", "mod a; mod b; pub use a::A;"), ("a.rs", a), ("b.rs", b)];
        let circles = Crate::new("x", &files).circles();
        assert_eq!(circles.len(), want, "{row}: {circles:?}");
    }
}

#[test]
fn expand_names_every_path() {
    let found = expand("a::{self, b::{C as D, E}, f::*}", &[]);
    let found: Vec<String> = found.iter().map(|(name, path)| format!("{name}={}", path.join("::"))).collect();
    assert_eq!(found, ["a=a", "D=a::b::C", "E=a::b::E", "*=a::f"]);
}
