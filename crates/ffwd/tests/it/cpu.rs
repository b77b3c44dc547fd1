//! `--cpu`: the kernels of less than the processor has give the same, and debug.log names them.

use crate::run::run;
use kernels::cpu::Cpu;
use std::fs;

#[test]
fn every_kind_of_processor_gives_the_same_set() {
    let directory = tempfile::tempdir().unwrap();
    let go = |line: &str| run(directory.path(), line);
    go("lab chain --out @ --blocks 2 --seed 5 --utxos 3000 --tail 3 --json").good();
    let reindex = "reindex --datadir @ --chain regtest --assumevalid 0 --hash hash_serialized_3 --json";
    let want = go(reindex).good();
    assert_eq!(want["scripts_verified"], want["inputs"], "{want}");
    for cpu in Cpu::ALL {
        // Hints that the run before kept would prove signatures otherwise.
        let _ = fs::remove_dir_all(directory.path().join("regtest/ffwd"));
        let ran = go(&format!("{reindex} --cpu {}", cpu.name()));
        if !cpu.is_here() {
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(ran.err.contains("which this processor lacks"), "{ran:?}");
            continue;
        }
        let set = ran.good();
        for key in ["hash_serialized_3", "scripts_verified"] {
            assert_eq!(set[key], want[key], "{cpu:?}: {key}");
        }
        let log = fs::read_to_string(directory.path().join("regtest/debug.log")).unwrap();
        let said = log.lines().rev().find(|line| line.contains("signatures")).unwrap();
        let what = match cpu {
            Cpu::Plain => "libsecp256k1",
            Cpu::Avx2 => "AVX2",
            Cpu::Avx512 => "AVX-512",
            _ => "for signatures",
        };
        assert!(said.contains(what), "{cpu:?}: {said}");
    }
    assert_eq!(go(&format!("{reindex} --cpu abacus")).code, Some(2));
}

/// The program says which commit and compiler it was built from, and so does the first line of a log.
#[test]
fn version_names_commit_and_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let version = run(directory.path(), "--version").out;
    let first = version.lines().next().unwrap();
    let (_, build) = first.trim_end_matches(')').split_once(" (").unwrap();
    let (commit, compiler) = build.split_once(", ").unwrap();
    let digits = commit.trim_end_matches("-dirty");
    let is_commit = (7..=40).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!((is_commit || commit == "no commit") && compiler.contains("rustc 1."), "{version}");
    run(directory.path(), "lab chain --out @ --blocks 1 --seed 5 --utxos 1000 --tail 3 --json").good();
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let log = fs::read_to_string(directory.path().join("regtest/debug.log")).unwrap();
    let first = log.lines().find(|line| line.contains("ffwd version v")).unwrap();
    assert!(first.ends_with(&format!("(reindex; {build})")), "{first}");
}
