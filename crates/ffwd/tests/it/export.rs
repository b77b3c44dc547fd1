//! Exports by the command: whole files under their names, ranges that fit and ranges that do not.

use crate::data;
use crate::run::run;
use std::fs;
use std::path::Path;

/// Files below a directory, by their paths in it.
fn files(top: &Path) -> Vec<String> {
    let (mut found, mut dirs) = (Vec::new(), vec![top.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path)
            } else {
                found.push(path.strip_prefix(top).unwrap().display().to_string())
            }
        }
    }
    found.sort();
    found
}

#[test]
fn ranges_become_whole_files_that_can_be_written_again() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let on = "--datadir @ --chain regtest --json";
    run(directory.path(), &format!("reindex {on}")).good();
    let done = run(directory.path(), &format!("export --out @/out --to 99 {on}")).good();
    assert_eq!(
        (&done["blocks"], &done["from"], &done["to"], &done["files"]),
        (&100.into(), &0.into(), &99.into(), &4.into())
    );
    let rest = run(directory.path(), &format!("export --out @/out --from 100 --par 3 {on}")).good();
    assert_eq!((&rest["blocks"], &rest["to"]), (&107.into(), &206.into()));
    let out = directory.path().join("out");
    let names = files(&out);
    let want = |table: &str| {
        ["0000000-0000099", "0000100-0000206"].map(|range| format!("{table}/from_height=0000000/{range}.parquet"))
    };
    assert_eq!(
        names,
        ["blocks", "inputs", "outputs", "transactions"].iter().flat_map(|table| want(table)).collect::<Vec<_>>()
    );
    let read = |names: &[String]| names.iter().map(|name| fs::read(out.join(name)).unwrap()).collect::<Vec<_>>();
    let before = read(&names);
    assert!(before.iter().all(|bytes| bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")));
    run(directory.path(), &format!("export --out @/out --from 100 --par 1 --force {on}")).good();
    assert!(read(&names) == before, "the same blocks make the same bytes, by any number of workers");
    run(directory.path(), &format!("audit plan --parts 1 --out @/plan {on}")).good();
    fs::rename(directory.path().join("regtest/blocks/index"), directory.path().join("aside")).unwrap();
    run(directory.path(), &format!("export --out @/out --from 100 --plan @/plan --force {on}")).good();
    assert!(read(&names) == before, "a plan stands for the block index");
    fs::rename(directory.path().join("aside"), directory.path().join("regtest/blocks/index")).unwrap();
    let over = run(directory.path(), &format!("export --out @/out --from 50 --to 120 {on}"));
    assert!(over.code == Some(1) && over.err.contains("already, and blocks 50 to 120 overlap"), "{over:?}");
    assert_eq!(files(&out), names);
}

#[test]
fn wrong_use_and_damage_are_said() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let on = "--datadir @ --chain regtest --json";
    run(directory.path(), &format!("reindex {on}")).good();
    for (line, code, want) in [
        ("--tables block", 2, "no table block"),
        ("--columns fees", 2, "a column fees"),
        ("--tables blocks,outputs --columns value", 2, "no column of blocks"),
        ("--format csv", 2, "parquet"),
        ("--from 5 --to 300", 1, "blocks 5 to 300"),
        ("--from 9 --to 8", 1, "blocks 9 to 8"),
    ] {
        let ran = run(directory.path(), &format!("export --out @/out {line} {on}"));
        assert!(ran.code == Some(code) && ran.err.contains(want), "{line}: {ran:?}");
        assert!(!directory.path().join("out").exists(), "{line}");
    }
    let blocks = data::blocks_dir(directory.path(), "regtest").join("blk00000.dat");
    let mut bytes = fs::read(&blocks).unwrap();
    let key = fs::read(blocks.with_file_name("xor.dat")).unwrap();
    assert_eq!(key, [0; 8], "what lies there is plain");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&blocks, &bytes).unwrap();
    let ran = run(directory.path(), &format!("export --out @/out {on}"));
    assert!(ran.code == Some(1), "{ran:?}");
    let out = directory.path().join("out");
    assert!(!out.exists() || files(&out).is_empty(), "no part of a file is left");
}
