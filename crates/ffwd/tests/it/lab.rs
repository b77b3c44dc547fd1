//! The lab and the demo, as commands.

use crate::run::{command, run};
use std::fs;
use std::path::Path;

fn block_bytes(directory: &Path) -> Vec<u8> {
    let mut files: Vec<_> =
        fs::read_dir(directory.join("regtest/blocks")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("blk"));
    files.sort();
    files.into_iter().flat_map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn lab_chain_is_generated_reindexed_and_plotted() {
    let directory = tempfile::tempdir().unwrap();
    let go = |line: &str| run(directory.path(), line);
    let options = "--blocks 2 --seed 7 --utxos 2000 --tail 3 --json";
    let made = go(&format!("lab chain --out @/a {options}")).good();
    for field in
        ["height", "bestblock", "blocks_full", "transactions", "inputs", "outputs", "txouts", "bytes", "seconds"]
    {
        assert!(!made[field].is_null(), "{field} in {made}");
    }
    go(&format!("lab chain --out @/b {options} --par 1")).good();
    assert!(block_bytes(&directory.path().join("a")) == block_bytes(&directory.path().join("b")), "the same bytes");
    let ran = go(&format!("lab chain --out @/a {options}"));
    assert!(ran.code == Some(1) && ran.err.contains("is there already"), "{ran:?}");

    let mut hashes = Vec::new();
    for par in [1, 5] {
        let line = format!(
            "reindex --datadir @/a --chain regtest --assumevalid 0 --par {par} --hash hash_serialized_3 --debug bench --json"
        );
        let got = go(&line).good();
        for field in ["bestblock", "txouts", "height", "inputs"] {
            assert_eq!(got[field], made[field], "{field} in {got}");
        }
        assert_eq!(got["scripts_verified"], made["inputs"], "{got}");
        assert!(got["stages"]["scripts"]["busy_seconds"].as_f64().unwrap() > 0.0, "{got}");
        hashes.push(got["hash_serialized_3"].clone());
    }
    assert_eq!(hashes[0], hashes[1]);
    check_bench_lines(&directory.path().join("a/regtest/debug.log"), 2 * made["height"].as_u64().unwrap());

    let plot = go("lab plot @/a/regtest/debug.log --out @/report.html --svg --csv --json").good();
    assert_eq!(plot["runs"].as_array().unwrap().len(), 2, "{plot}");
    for file in plot["files"].as_array().unwrap() {
        assert!(fs::metadata(file.as_str().unwrap()).unwrap().len() > 0, "{file}");
    }
    let ran = go("lab plot @/a/regtest/blocks/blk00000.dat --out @/none.html");
    assert!(
        ran.code == Some(1) && ran.err.contains("nothing to plot") && !directory.path().join("none.html").exists(),
        "{ran:?}"
    );
}

#[test]
fn lab_cores_measures_each_number_of_workers() {
    let directory = tempfile::tempdir().unwrap();
    // A name without a directory, as in docs/lab.md.
    let line = "lab cores cores.json --quick --par 3";
    let ran = command(directory.path(), line).current_dir(directory.path()).output().unwrap();
    assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("first serial stage"), "{ran:?}");
    let text = fs::read_to_string(directory.path().join("cores.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let kinds: Vec<_> =
        rows.iter().map(|row| (row["scripts"].as_str().unwrap(), row["threads"].as_u64().unwrap())).collect();
    let of = |scripts| [(scripts, 1), (scripts, 2), (scripts, 3)];
    assert_eq!(kinds, [of("every script"), of("assumed valid")].concat());
    for row in rows {
        let positive = |value: &serde_json::Value| value.as_f64().is_some_and(|value| value > 0.0);
        assert!(positive(&row["seconds"]) && positive(&row["speedup"]) && positive(&row["model_seconds"]), "{row}");
        assert_eq!(positive(&row["busy_seconds"]["scripts"]), row["scripts"] == "every script", "{row}");
    }
    assert_eq!(report["memory_bandwidth"].as_array().unwrap().len(), 3);
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["cores.json"], "chain and copies are removed");
    let ran = run(directory.path(), "lab cores @ --quick");
    assert!(ran.code == Some(1) && ran.err.contains("cores.json: it is there already"), "{ran:?}");
    assert_eq!(fs::read_to_string(directory.path().join("cores.json")).unwrap(), text);
}

/// What `--debug bench` says of each block, in Core's order, and nothing else.
fn check_bench_lines(log: &Path, blocks: u64) {
    const NAMES: [&str; 9] = [
        "  - Load block from disk: ",
        "    - Sanity checks: ",
        "      - Connect ",
        "    - Verify ",
        "    - Write undo data: ",
        "    - Index writing: ",
        "  - Connect total: ",
        "UpdateTip: new best=",
        "- Connect block: ",
    ];
    let text = fs::read_to_string(log).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| line.contains("[bench] ") || line.contains("UpdateTip: ")).collect();
    let (flushes, lines): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(|line| line.contains("BatchWrite: "));
    assert!(!flushes.is_empty(), "the set was written");
    assert_eq!(lines.len() as u64, blocks * NAMES.len() as u64);
    for (line, name) in lines.iter().zip(NAMES.iter().cycle()) {
        let (_, said) = line.split_once("[bench] ").or(line.split_once("Z ")).unwrap();
        let is_time = line.contains("UpdateTip") || said.contains("ms");
        assert!(said.starts_with(name) && is_time, "{line}: want {name}");
    }
}

#[test]
fn fake_signatures_fail_verification_by_reason() {
    let directory = tempfile::tempdir().unwrap();
    let made =
        run(directory.path(), "lab chain --out @ --blocks 1 --seed 3 --utxos 1000 --signatures fake --json").good();
    let ran = run(directory.path(), "reindex --datadir @ --chain regtest --assumevalid 0 --json");
    let got = ran.good();
    assert!(got["height"].as_u64() < made["height"].as_u64() && got["blocks_invalid"] == 1, "{ran:?}");
    assert!(ran.err.contains("refused: block ") && ran.err.contains("block-script-verify-flag-failed ("), "{ran:?}");
    let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
    let failed = info["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "the first of them is named, and how many stand on it: {info}");
    assert_eq!(failed[0]["height"].as_u64(), got["height"].as_u64().map(|height| height + 1), "{info}");
    let above = made["height"].as_u64().unwrap() - failed[0]["height"].as_u64().unwrap();
    assert_eq!(failed[0]["descendants"], above, "{info}");
    assert_eq!(info["headers"], made["height"], "what stands on it is marked, not forgotten: {info}");
}

/// What `lab chain` says is enough to have its chain taken; and what was taken so is told from damage.
#[test]
fn fake_signatures_pass_below_assumevalid() {
    let directory = tempfile::tempdir().unwrap();
    let line = "lab chain --out @ --blocks 1 --seed 3 --utxos 1000 --tail 2100 --signatures fake";
    let made = run(directory.path(), line).out;
    let assumed = made.split_once("give --assumevalid ").expect("it says how").1.lines().next().unwrap();
    let got =
        run(directory.path(), &format!("reindex --datadir @ --chain regtest --assumevalid {assumed} --json")).good();
    assert_eq!((&got["bestblock"], &got["blocks_invalid"]), (&assumed.into(), &0.into()));
    let ran = run(directory.path(), "verify --datadir @ --chain regtest --level 4 --blocks 0");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let refused = ran.err.split_once("refused: block ").expect("it is named").1.split_once(':').unwrap().0;
    for want in
        [&format!("Error: block {refused} was connected once"), "block-script-verify-flag-failed (", "--assumevalid?"]
    {
        assert!(ran.err.contains(want), "{want} in {}", ran.err);
    }
}

#[test]
fn demo_runs_without_data() {
    let directory = tempfile::tempdir().unwrap();
    let got = run(directory.path(), "demo --blocks 1 --out @/demo --json").good();
    assert_eq!(got["made"]["bestblock"], got["reindex"]["bestblock"], "{got}");
    assert_eq!(got["reindex"]["scripts_verified"], got["made"]["inputs"], "{got}");
    let report = fs::read_to_string(got["report"].as_str().unwrap()).unwrap();
    assert!(report.contains("<html") && report.len() > 20_000);
    let ran = run(directory.path(), "demo --out @/demo");
    assert!(ran.code == Some(2) && ran.err.contains("is not empty"), "{ran:?}");
}

#[test]
fn lab_run_checks_its_plan_first() {
    let directory = tempfile::tempdir().unwrap();
    let example = run(directory.path(), "lab run --example");
    assert!(example.code == Some(0) && example.out.contains("@CHAIN@"), "{example:?}");
    for (row, plan, want) in [
        ("no plan", None, "plan.toml"),
        ("no TOML", Some("this is no TOML"), "plan.toml"),
        ("a chain that is not there", Some(example.out.as_str()), "@CHAIN@"),
    ] {
        if let Some(plan) = plan {
            fs::write(directory.path().join("plan.toml"), plan).unwrap();
        }
        let ran = run(directory.path(), "lab run @/plan.toml --out @/result");
        assert!(ran.code == Some(1) && ran.err.contains(want), "{row}: {ran:?}");
        assert!(!directory.path().join("result").exists(), "{row}: nothing was begun");
    }
}

/// A plan with every work that needs no bitcoind, run in two parts, on a chain that stays as it is.
#[test]
fn lab_run_continues_with_resume() {
    let directory = tempfile::tempdir().unwrap();
    let go = |line: &str| run(directory.path(), line);
    let made = go("lab chain --out @/chain --blocks 1 --seed 9 --utxos 1000 --tail 2 --json").good();
    let before = block_bytes(&directory.path().join("chain"));
    let works: String =
        ["reindex", "rebuild", "verify", "commit"].map(|kind| format!("[[work]]\nkind = \"{kind}\"\n")).concat();
    let plan = format!(
        "repeats = 1\n[[program]]\nlabel = \"ffwd\"\n[[chain]]\nlabel = \"c\"\ndatadir = \"chain\"\n{works}\
         [[settings]]\nlabel = \"s\"\ndbcache_mib = 100\nassumevalid = \"0\"\n"
    );
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let ran = go("lab run @/plan.toml --out @/out --only snapshot");
    assert!(ran.code == Some(2) && ran.err.contains("ffwd rebuild; ffwd verify; ffwd commit"), "{ran:?}");
    let got = go("lab run @/plan.toml --out @/out --only commit --only Rebuild --json").good();
    assert_eq!(got["complete"], false, "{got}");
    let got = go("lab run @/plan.toml --out @/out --resume --json").good();
    assert_eq!(got["complete"], true, "{got}");
    for (cell, trust) in got["cells"].as_array().unwrap().iter().zip(["every", "every", "no", "no"]) {
        assert_eq!((&cell["runs"], &cell["bestblock"]), (&1.into(), &made["bestblock"]), "{cell}");
        assert_eq!(cell["trust"], format!("{trust} script"), "{cell}");
        assert_eq!(cell["hash_serialized_3"], got["cells"][0]["hash_serialized_3"], "{cell}");
    }
    assert!(block_bytes(&directory.path().join("chain")) == before, "the chain is only read");
    assert!(!directory.path().join("chain/regtest/chainstate").exists(), "the chain is only read");
}

/// Without the feature the option says how to build; with it (`cargo test -p ffwd --features heap`) the file is there.
#[test]
fn debug_heap_writes_dhat_file_with_the_feature() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), "lab chain --out @ --blocks 1 --seed 4 --utxos 1000 --json").good();
    let ran = run(directory.path(), "reindex --datadir @ --chain regtest --debug heap --json");
    let file = directory.path().join("regtest/dhat-heap.json");
    if cfg!(feature = "heap") {
        ran.good();
        let heap: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert!(heap["dhatFileVersion"].is_number() && !heap["pps"].as_array().unwrap().is_empty());
    } else {
        assert!(ran.code == Some(2) && ran.err.contains("--features heap") && !file.exists(), "{ran:?}");
    }
}

/// Measures with tiny chains, whose figures say nothing; the time of mainnet follows from any.
#[test]
fn lab_estimate_measures_and_says_how_long() {
    let directory = tempfile::tempdir().unwrap();
    let report = run(directory.path(), "lab estimate --quick --datadir @ --dbcache 100 --download 100 --json").good();
    let ways = report["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 2, "{report}");
    for way in ways {
        let seconds = |key: &str| way[key].as_f64().unwrap();
        // 760 GB at 100 megabits a second take 17 hours at least.
        assert!(seconds("seconds") > 60_000.0 && seconds("low_seconds") <= seconds("high_seconds"), "{way}");
        assert_eq!(way["parts"].as_array().unwrap().len(), 5, "{way}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    let text = run(directory.path(), "lab estimate --quick --datadir @ --made 100");
    assert!(text.code == Some(0) && text.out.contains("every script, from block files"), "{text:?}");
}
