//! The software bill of materials: CycloneDX 1.5 of the crates that are compiled into the program.

use crate::Outcome;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Makes the document from the output of `cargo metadata` for one target with the features of a release.
///
/// # Errors
///
/// The output of cargo has an unexpected form.
pub(crate) fn document(metadata: &Value, program: &str) -> Outcome<Value> {
    let (root, below) = compiled(metadata, program)?;
    let mut components: Vec<Value> = below.iter().map(|package| component(package, "library")).collect();
    components.sort_by_key(|component| component["bom-ref"].to_string());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(root, "application") },
        "components": components,
    }))
}

/// The program's package, and all packages that are compiled into it.
///
/// # Errors
///
/// The output of cargo has an unexpected form.
pub(crate) fn compiled<'a>(metadata: &'a Value, program: &str) -> Outcome<(&'a Value, Vec<&'a Value>)> {
    let wrong = || "cargo metadata printed another form than was expected";
    let packages: BTreeMap<&str, &Value> =
        array(&metadata["packages"]).iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes: BTreeMap<&str, &Value> =
        array(&metadata["resolve"]["nodes"]).iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let (root, _) = packages.iter().find(|(_, package)| package["name"] == program).ok_or_else(wrong)?;
    let mut seen = BTreeSet::from([*root]);
    let mut waiting = vec![*root];
    while let Some(id) = waiting.pop() {
        for below in array(&nodes.get(id).ok_or_else(wrong)?["deps"]) {
            let is_for_tests = array(&below["dep_kinds"]).iter().all(|kind| kind["kind"] == "dev");
            let id = below["pkg"].as_str().ok_or_else(wrong)?;
            if !is_for_tests && seen.insert(id) {
                waiting.push(id);
            }
        }
    }
    Ok((packages[root], seen.iter().filter(|id| *id != root).map(|id| packages[id]).collect()))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn component(package: &Value, kind: &str) -> Value {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    let url = format!("pkg:cargo/{}@{}", text("name"), text("version"));
    let mut component = json!({
        "type": kind,
        "bom-ref": url,
        "name": text("name"),
        "version": text("version"),
    });
    if package["source"].is_string() {
        component["purl"] = json!(url);
    }
    if let Some(license) = package["license"].as_str() {
        // Before version 2.1, SPDX expressions used a slash for OR.
        component["licenses"] = json!([{ "expression": license.replace(" / ", " OR ").replace('/', " OR ") }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_has_what_is_compiled_in_and_nothing_for_tests() {
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source });
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("ffwd", Value::Null), package("a", json!("registry")), package("b", json!("registry")), package("t", json!("registry"))],
            "resolve": { "nodes": [
                { "id": "ffwd", "deps": [dep("a", Value::Null), dep("t", json!("dev"))] },
                { "id": "a", "deps": [dep("b", json!("build"))] },
                { "id": "b", "deps": [] },
                { "id": "t", "deps": [] },
            ] },
        });
        let document = document(&metadata, "ffwd").unwrap();
        assert_eq!(document["metadata"]["component"]["name"], "ffwd");
        let names: Vec<&str> = array(&document["components"]).iter().filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(document["components"][0]["purl"], "pkg:cargo/a@1.0.0");
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(super::document(&json!({}), "ffwd").is_err());
    }
}
