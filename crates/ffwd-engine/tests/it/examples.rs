//! The programs of `examples/`: they use this library and the standard library alone, and print what they say.

use crate::support::{SMALL_HASH, small};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the example, which it builds with the tests.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples").join(name)
}

fn run(name: &str, dir: &Path, arguments: &[&str]) -> String {
    let program = built(name);
    let done = Command::new(&program).arg(dir).args(arguments).output();
    let done = done.unwrap_or_else(|why| panic!("{}: {why}", program.display()));
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn examples_print_what_they_say() {
    let (folder, _) = small();
    let dir = folder.path();
    let said = run("reindex", dir, &["regtest"]);
    assert!(said.contains("107 blocks, up to height 107") && said.contains(SMALL_HASH), "{said}");
    let said = run("blocks", dir, &["regtest", "106", "107"]);
    assert!(said.contains(":1 900000000 satoshi, scripthash"), "{said}");
    assert!(said.contains("6690000000 satoshi, fee 10000000"), "{said}");
    assert_eq!(run("verify_script", dir, &["regtest", "0", "107"]), "4 scripts hold\n");
    let said = run("coins", dir, &["regtest"]);
    assert!(said.starts_with("the UTXO set at height 107") && said.contains("witness_v1_taproot"), "{said}");
}

#[test]
fn examples_use_nothing_else() {
    for name in ["reindex", "blocks", "verify_script", "coins"] {
        let text = std::fs::read_to_string(format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for line in text.lines().filter(|line| line.starts_with("use ")) {
            assert!(line.starts_with("use ffwd_engine::") || line.starts_with("use std::"), "{name}: {line}");
        }
    }
}
