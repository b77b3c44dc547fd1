//! Licences of the crates and C libraries that are compiled into the program. Most of them require that a copy goes with
//! each program.
//!
//! Texts that several packages share are listed once. Absent on purpose: musl and Rust's standard library (both MIT),
//! which have no package; the head of the document names them.

use crate::{Outcome, sbom};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Directories below a package that are searched: C libraries are in `depend/NAME` and the like.
const DEPTH_MAX: usize = 3;
/// Beginnings of the names of files with a licence, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const HEAD: &str =
    "ffwd is licensed under MIT or Apache-2.0. The program also contains the packages below, under these licences,
and parts of musl and of Rust's standard library, both under MIT.
";

/// The document, from the output of `cargo metadata` for one target with the features of a release.
///
/// # Errors
///
/// The output of cargo has an unexpected form, or an I/O error.
pub(crate) fn document(metadata: &Value, program: &str) -> Outcome<String> {
    let (_, below) = sbom::compiled(metadata, program)?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for package in below.iter().filter(|package| package["source"].is_string()) {
        let text = |name: &str| package[name].as_str().unwrap_or_default();
        let name = format!("{} {}", text("name"), text("version"));
        let mut found = Vec::new();
        let dir =
            Path::new(text("manifest_path")).parent().ok_or("cargo metadata printed a package without a place")?;
        collect(dir, DEPTH_MAX, &mut found)?;
        if found.is_empty() {
            without.push(format!("{name}: {}\n", text("license")));
        }
        found.sort();
        found.dedup();
        for licence in found {
            texts.entry(licence).or_default().push(name.clone());
        }
    }
    let mut parts: Vec<(Vec<String>, String)> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    parts.iter_mut().for_each(|(names, _)| names.sort());
    parts.sort();
    let mut out = HEAD.to_owned();
    for (names, text) in parts {
        out += &format!("\n{}\n{}\n\n{text}\n", "-".repeat(80), names.join(", "));
    }
    if !without.is_empty() {
        without.sort();
        out += &format!("\n{}\nPackages without a file of their licence:\n\n{}", "-".repeat(80), without.concat());
    }
    Ok(out)
}

/// Adds the texts of all licences in a directory and the directories below it.
fn collect(dir: &Path, depth: usize, into: &mut Vec<String>) -> Outcome<()> {
    for entry in fs::read_dir(dir).map_err(|why| format!("{}: {why}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_ascii_uppercase();
        let kind = entry.file_type()?;
        let is_licence = NAMES.iter().any(|start| name.starts_with(start)) && !name.ends_with(".RS");
        if kind.is_file() && is_licence {
            let bytes = fs::read(entry.path())?;
            into.push(String::from_utf8_lossy(&bytes).replace('\r', "").trim_end().to_owned());
        } else if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, into)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn document_has_each_text_once_with_its_packages() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/LICENSE-MIT", "shared\r\ntext\n");
        write("b/licence.txt", "shared\ntext");
        write("b/depend/c/COPYING", "of the C library");
        write("b/src/license.rs", "fn no_licence() {}");
        write("n/src/lib.rs", "");
        let package = |name: &str| {
            let place = dir.path().join(name).join("Cargo.toml");
            json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": "registry", "manifest_path": place })
        };
        let dep = |name: &str| json!({ "pkg": name, "dep_kinds": [{ "kind": Value::Null }] });
        let node = |name: &str| json!({ "id": name, "deps": [] });
        let metadata = json!({
            "packages": [{ "id": "ffwd", "name": "ffwd", "source": Value::Null }, package("a"), package("b"), package("n")],
            "resolve": { "nodes": [
                { "id": "ffwd", "deps": [dep("a"), dep("b"), dep("n")] }, node("a"), node("b"), node("n"),
            ] },
        });
        let text = document(&metadata, "ffwd").unwrap();
        assert_eq!(text.matches("shared\ntext").count(), 1, "{text}");
        for want in ["\na 1.0.0, b 1.0.0\n\nshared", "\nb 1.0.0\n\nof the C library", "n 1.0.0: MIT\n"] {
            assert!(text.contains(want), "{want}: {text}");
        }
        assert!(!text.contains("no_licence"));
    }
}
