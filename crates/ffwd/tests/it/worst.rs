//! Blocks of `lab worst`: every script of them is verified, and the kind with an invalid one ends below it.

use crate::run::run;

#[test]
fn worst_blocks_are_valid_but_for_the_kind_that_is_not() {
    let top = tempfile::tempdir().unwrap();
    let help = run(top.path(), "lab worst --help").out;
    let kinds = help.split("possible values: ").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    let kinds: Vec<&str> = kinds.split(',').map(str::trim).collect();
    assert_eq!(kinds.len(), 8, "{kinds:?}");
    for kind in kinds {
        let made = run(top.path(), &format!("lab worst --kind {kind} --out @/{kind} --json")).good();
        assert!(made["largest_block_bytes"].as_u64() > Some(100_000), "{made}");
        let line = format!("reindex --datadir @/{kind} --chain regtest --assumevalid 0 --dbcache 450 --json");
        let ran = run(top.path(), &line);
        let said = ran.json();
        assert_eq!(
            (&said["height"], said["blocks_invalid"].as_u64()),
            (&made["height_valid"], Some((made["height"] != made["height_valid"]) as u64)),
            "{kind}: {ran:?}"
        );
        std::fs::remove_dir_all(top.path().join(kind)).unwrap();
    }
}
