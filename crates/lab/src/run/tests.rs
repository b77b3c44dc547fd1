//! Whole plans, with a program that behaves as ffwd's command does and does as it is told: a shell script.

use super::*;
use consensus::{Chain, Params};
use demo::result::{ASSUMED_VALID, EVERY_SCRIPT, Outcome};
use primitives::Header;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A stand-in for ffwd. `--fake WORD` among its arguments says how it misbehaves; it notes each work in `works.txt` beside it.
const FAKE: &str = r#"#!/bin/sh
here=$(dirname "$0")
[ "$1" = --version ] && { echo "ffwd 0.0.0 (0123456789ab-dirty, stand-in)"; exit 0; }
case " $* " in
  *" --wrong "*" --help "*) echo "error: unexpected argument '--wrong' found" >&2; exit 2;;
  *" --help "*) exit 0;;
esac
first=$1; second=$2
while [ $# -gt 0 ]; do
  case "$1" in
    --datadir|--out) dir=$2;;
    --fake) fake=$2;;
    --assumevalid) valid=$2;;
    --hash) hash=$2;;
  esac
  shift
done
net=$dir/regtest
if [ "$first" = lab ] && [ "$second" = chain ]; then cp -r "$here/chain/regtest" "$dir" 2>/dev/null || { mkdir -p "$dir"; cp -r "$here/chain/regtest" "$dir/"; }; exit 0; fi
if [ "$first" = coins ]; then
  set=$(cat "$net/set") || exit 1
  [ "$hash" = none ] && set=
  echo "{\"height\":$(cat "$net/height"),\"bestblock\":\"best\",\"txouts\":7,\"hash_serialized_3\":\"$set\"}"
  exit 0
fi
echo "$first $fake" >> "$here/works.txt"
log=$net/debug.log
echo "2026-01-01T00:00:00Z ffwd version v0.0.0 ($first)" >> "$log"
[ "$valid" = 0 ] || echo "2026-01-01T00:00:00Z Disabling script verification at block #1 (00)." >> "$log"
for h in 0 1 2 3; do
  echo "2026-01-01T00:00:0${h}Z UpdateTip: new best=000000000000000000000000000000000000000000000000000000000000000$h height=$h version=0x2 log2_work=2.0 tx=$h date='2026-01-01T00:00:00Z' progress=0.5 cache=1.5MiB(12txo)" >> "$log"
done
case "$fake" in
  crash) echo "an assertion failed" >&2; exit 134;;
  kill) kill -9 $$;;
  hang) exec sleep 60;;
  slow) sleep 0.4;;
  silent) echo 3 > "$net/height"; echo set > "$net/set"; exit 0;;
  short) echo 2 > "$net/height"; echo set > "$net/set"; echo '{"height":2}'; exit 0;;
  other) echo 3 > "$net/height"; echo other > "$net/set"; echo '{"height":3}'; exit 0;;
esac
mkdir -p "$net/blocks/index" "$net/chainstate"
echo x > "$net/blocks/index/CURRENT"; echo x > "$net/chainstate/CURRENT"
echo 3 > "$net/height"; echo set > "$net/set"
echo '{"chain":"regtest","height":3,"seconds":0.1}'
"#;

/// A directory with the stand-in, a chain of height 3, and room for plans.
struct Bench {
    scratch: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let bench = Self { scratch };
        let exe = bench.path("ffwd");
        fs::write(&exe, FAKE).unwrap();
        fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).unwrap();
        // Another test may have forked while the script was open for writing; its child closes it in a moment.
        let start = Instant::now();
        while program::version(&exe).is_err() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let blocks = bench.path("chain/regtest/blocks");
        fs::create_dir_all(&blocks).unwrap();
        fs::write(blocks.join("blk00000.dat"), block_file(3)).unwrap();
        fs::write(bench.path("chain/regtest/debug.log"), "an old log\n").unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn plan(&self, text: &str) -> RunOptions {
        let text = text.replace("@CHAIN@", self.path("chain").to_str().unwrap());
        fs::write(self.path("plan.toml"), text).unwrap();
        let quiet = RunOptions::new(self.path("plan.toml"), self.path("out"));
        RunOptions { ffwd: Some(self.path("ffwd")), quiet: true, ..quiet }
    }

    fn works(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("works.txt")).unwrap_or_default();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}

/// A block file with the genesis block of regtest and `count` blocks upon it, each with a copy of its transaction.
fn block_file(count: u32) -> Vec<u8> {
    let params = Params::new(Chain::Regtest);
    let record = |block: &[u8]| [&params.magic[..], &(block.len() as u32).to_le_bytes(), block].concat();
    let mut file = record(&params.genesis);
    let (head, body) = params.genesis.split_at(80);
    let genesis = Header(head.try_into().unwrap());
    let mut prev = params.genesis_hash;
    for height in 1..=count {
        let header = (0..)
            .map(|nonce| Header::new(4, prev, genesis.merkle_root(), genesis.time() + height, genesis.bits(), nonce));
        let header = header.into_iter().find(|header| header.hash().as_bytes()[31] < 0x7f).unwrap();
        prev = header.hash();
        file.extend(record(&[&header.0[..], body].concat()));
    }
    file
}

/// A plan with one chain, before programs and works.
const HEAD: &str = "repeats = 2\nsample_ms = 20\n[[chain]]\nlabel = \"c\"\ndatadir = \"@CHAIN@\"\n";

fn program(label: &str, fake: &str) -> String {
    format!("[[program]]\nlabel = \"{label}\"\nargs = [\"--fake\", \"{fake}\"]\n")
}

#[test]
fn arguments_that_a_program_does_not_take_end_the_plan_before_any_run() {
    let bench = Bench::new();
    let wrong = "[[program]]\nlabel = \"b\"\nargs = [\"--wrong\", \"x\"]\n";
    let options = bench.plan(&format!("{HEAD}{}{wrong}[[work]]\nkind = \"reindex\"\n", program("a", "")));
    let why = run(&options).unwrap_err().to_string();
    assert!(why.contains("b refuses its args in the work reindex") && why.contains("'--wrong'"), "{why}");
    assert!(bench.works().is_empty() && !bench.path("out").exists());
    // Where no work has the program, its arguments are of no account.
    let only = format!("{HEAD}{}{wrong}[[work]]\nkind = \"reindex\"\nprograms = [\"a\"]\n", program("a", ""));
    assert!(run(&bench.plan(&only)).unwrap().complete);
}

#[test]
fn example_plan_runs_and_plots() {
    let bench = Bench::new();
    let before = fs::read(bench.path("chain/regtest/blocks/blk00000.dat")).unwrap();
    let options = bench.plan(EXAMPLE);
    let report = run(&options).unwrap();
    assert!(report.complete && report.machine.cores > 0);
    let names: Vec<_> = report.cells.iter().map(|cell| (cell.cell.as_str(), cell.runs, cell.failed)).collect();
    assert_eq!(names, [("ffwd reindex, 100", 2, 0), ("ffwd reindex, 450", 2, 0)]);
    let cell = &report.cells[1];
    assert!(cell.mean_seconds.unwrap() > 0.0 && cell.min_seconds <= cell.max_seconds && cell.stddev_seconds.is_some());
    assert_eq!(
        (cell.bestblock.as_deref(), cell.hash_serialized_3.as_deref(), cell.height),
        (Some("best"), Some("set"), Some(3))
    );
    assert_eq!((cell.trust.as_str(), cell.ratio_to.as_deref()), (ASSUMED_VALID, Some("ffwd reindex, 100")));
    assert!(cell.ratio_low <= cell.ratio && cell.ratio <= cell.ratio_high && cell.ratio.is_some(), "{cell:?}");
    assert_eq!((report.chains[0].blocks, report.chains[0].height), (4, 3));
    let json = serde_json::to_value(&report).unwrap();
    for key in "program work chain settings runs mean_seconds stddev_seconds min_seconds max_seconds ratio peak_rss_anon_bytes bytes_written \
                cpu_seconds bestblock hash_serialized_3 trust"
        .split(' ')
    {
        assert!(json["cells"][0].get(key).is_some(), "{key}");
    }
    let run: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("out/runs/001-ffwd-reindex-100-1/run.json")).unwrap()).unwrap();
    for run in [&run, &json["runs"][0]] {
        assert_eq!(run["commit"], "0123456789ab-dirty", "of the program, from its --version");
    }
    let there = |name: &str| bench.path("out").join(name).exists();
    for name in [
        "result.json",
        "plan.toml",
        "runs/001-ffwd-reindex-100-1/run.json",
        "runs/004-ffwd-reindex-100-2/debug.log",
        "runs/003-ffwd-reindex-450-2/samples.csv",
    ] {
        assert!(there(name), "{name}");
    }
    assert!(!there("work") && !there("prepared"), "copies are removed");
    assert_eq!(fs::read(bench.path("chain/regtest/blocks/blk00000.dat")).unwrap(), before, "the chain is as it was");
    assert_eq!(fs::read_dir(bench.path("chain/regtest")).unwrap().count(), 2, "nothing was added to it");
    let out = bench.path("report.html");
    let plotted = demo::plot::plot(&demo::plot::PlotOptions {
        overwrite: true,
        inputs: vec![options.out],
        out,
        svg: true,
        csv: true,
        baseline: None,
        height_across: false,
        from_height: 0,
    })
    .unwrap();
    assert_eq!(plotted.runs.len(), 4);
    assert!(
        plotted.charts.iter().any(|chart| chart == "cells") && plotted.charts.iter().any(|chart| chart == "height"),
        "{:?}",
        plotted.charts
    );
}

#[test]
fn failed_program_becomes_a_result() {
    let bench = Bench::new();
    let kinds = ["good", "crash", "kill", "hang", "silent", "short"];
    let programs: String = kinds.iter().map(|kind| program(kind, kind)).collect();
    let options = bench.plan(
        &format!("timeout_minutes = 0.02\n{HEAD}{programs}[[work]]\nkind = \"reindex\"\n")
            .replace("repeats = 2", "repeats = 1"),
    );
    let report = run(&options).unwrap();
    assert!(report.complete);
    for (kind, outcome, why) in [
        ("good", Outcome::Done, ""),
        ("crash", Outcome::Failed, "exit code 134, stderr.txt: an assertion failed"),
        ("kill", Outcome::Killed, "signal 9"),
        ("hang", Outcome::Timeout, "took longer than 1.20 s"),
        ("silent", Outcome::Failed, "no JSON object"),
        ("short", Outcome::Failed, "ended at height 2, wanted 3"),
    ] {
        let record = report.runs.iter().find(|run| run.cell == format!("{kind} reindex")).unwrap();
        assert_eq!(record.outcome, outcome, "{kind}: {}", record.why);
        assert!(record.why.contains(why), "{kind}: {}", record.why);
        let cell = report.cells.iter().find(|cell| cell.program == kind).unwrap();
        assert_eq!((cell.runs, cell.failed), if kind == "good" { (1, 0) } else { (0, 1) }, "{kind}");
        if kind != "good" {
            let lines = &cell.failures[0].last_lines;
            assert!(
                lines.iter().any(|line| line.starts_with("debug.log: ") && line.contains("height=3")),
                "{kind}: {lines:?}"
            );
            assert!(cell.ratio.is_none() && cell.not_compared.is_some(), "{kind}");
        }
    }
}

#[test]
fn cells_with_different_tips_are_not_compared() {
    let bench = Bench::new();
    let settings = "[[settings]]\nlabel = \"s\"\nassumevalid = \"0\"\n";
    let plan =
        format!("{HEAD}{}{}[[work]]\nkind = \"reindex\"\n{settings}", program("a", "good"), program("b", "other"));
    let report = run(&bench.plan(&plan)).unwrap();
    let why = report.cells[1].not_compared.as_deref().unwrap();
    assert!(why.contains("another UTXO set hash, other and set"), "{why}");
    assert_eq!((report.cells[1].ratio, report.cells[0].ratio), (None, Some(1.0)));
    assert_eq!(report.cells[0].trust, EVERY_SCRIPT);
}

#[test]
fn rebuild_runs_share_one_preparation() {
    let bench = Bench::new();
    let plan = format!(
        "check = \"first\"\n{HEAD}{}[[work]]\nkind = \"rebuild\"\n[[work]]\nkind = \"verify\"\n",
        program("a", "good")
    );
    let report = run(&bench.plan(&plan)).unwrap();
    assert_eq!(bench.works(), ["reindex good", "reindex good", "verify good", "verify good", "reindex good"]);
    assert!(
        report.cells.iter().all(|cell| cell.runs == 2 && cell.hash_serialized_3.as_deref() == Some("set")),
        "{:?}",
        report.cells
    );
    let command = &report.runs[0].command;
    assert!(command.contains(&"--chainstate-only".to_owned()), "{command:?}");
    assert_eq!(
        report.runs.iter().filter(|run| run.hash_serialized_3.is_some()).count(),
        2,
        "hashed after the first of each cell"
    );
}

#[test]
fn failed_preparation_becomes_a_result() {
    let bench = Bench::new();
    let plan = format!("{HEAD}{}[[work]]\nkind = \"rebuild\"\n", program("a", "crash"));
    let report = run(&bench.plan(&plan)).unwrap();
    assert_eq!(bench.works().len(), 1, "it is not tried again");
    assert!(
        report.runs.iter().all(|run| run.why.contains("could not be made first: exit code 134")),
        "{:?}",
        report.runs
    );
}

#[test]
fn stopped_plan_resumes() {
    let bench = Bench::new();
    let plan = format!("{HEAD}{}{}[[work]]\nkind = \"reindex\"\n", program("a", "good"), program("b", "slow"));
    let options = bench.plan(&plan);
    let stop = options.stop.clone();
    let works = bench.path("works.txt");
    let stopper = std::thread::spawn(move || {
        let start = Instant::now();
        while fs::read_to_string(&works).unwrap_or_default().lines().count() < 2
            && start.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stopped = run(&options).unwrap_err();
    stopper.join().unwrap();
    assert!(matches!(stopped, RunError::Stopped { done: 1, of: 4, .. }), "{stopped}");
    let half: Report = serde_json::from_slice(&fs::read(options.out.join(RESULT_FILE)).unwrap()).unwrap();
    assert!(!half.complete && half.runs.len() == 1);

    options.stop.store(false, Ordering::Relaxed);
    let again = run(&options).unwrap_err();
    assert!(matches!(again, RunError::Taken { other_plan: false, .. }), "{again}");
    let report = run(&RunOptions { resume: true, ..options.clone() }).unwrap();
    assert!(report.complete && report.cells.iter().all(|cell| cell.runs == 2));
    assert_eq!(bench.works(), ["reindex good", "reindex slow", "reindex slow", "reindex slow", "reindex good"]);
    let nothing_left = run(&RunOptions { resume: true, ..options.clone() }).unwrap();
    assert_eq!((nothing_left.cells, bench.works().len()), (report.cells, 5), "a complete result is only read");

    fs::write(&options.plan, fs::read_to_string(&options.plan).unwrap() + "# more\n").unwrap();
    let other = run(&RunOptions { resume: true, ..options }).unwrap_err();
    assert!(matches!(other, RunError::Taken { other_plan: true, .. }), "{other}");
}

/// Part of a plan now, the rest later: what was made for it is kept until then.
#[test]
fn only_selects_cells_by_word() {
    let bench = Bench::new();
    let plan = format!(
        "repeats = 1\n[[chain]]\nlabel = \"made\"\nmake = [\"--blocks\", \"3\"]\n{}[[work]]\nkind = \"reindex\"\n[[work]]\nkind = \"commit\"\n",
        program("a", "good")
    );
    let options = bench.plan(&plan);
    let none = run(&RunOptions { only: vec!["Commit".into(), "sync".into()], ..options.clone() }).unwrap_err();
    assert_eq!(none.to_string(), "no cell has \"sync\" in its name; there are: a reindex; a commit");
    assert!(!bench.path("out").exists() && bench.works().is_empty());
    let report = run(&RunOptions { only: vec!["Commit".into()], ..options.clone() }).unwrap();
    assert!(!report.complete);
    assert_eq!(report.cells.iter().map(|cell| cell.runs).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((report.cells[1].trust.as_str(), bench.works().len()), ("no script", 2), "prepared, then committed");
    assert!(report.runs[0].command.join(" ").contains(" lab commit --datadir "), "{:?}", report.runs[0].command);
    assert!(bench.path("out/chains/made/made.ok").exists(), "the rest needs it");
    let report = run(&RunOptions { resume: true, ..options }).unwrap();
    assert!(report.complete && report.cells.iter().all(|cell| cell.runs == 1));
    assert_eq!(bench.works().len(), 3, "only what was missing is run");
    assert!(!bench.path("out/chains").exists());
}

#[test]
fn chain_with_make_is_generated() {
    let bench = Bench::new();
    let plan = format!(
        "repeats = 1\n[[chain]]\nlabel = \"made\"\nmake = [\"--blocks\", \"3\"]\n{}[[work]]\nkind = \"reindex\"\n",
        program("a", "good")
    );
    let report = run(&bench.plan(&plan)).unwrap();
    assert_eq!((report.chains[0].height, report.cells[0].runs), (3, 1));
    assert!(!bench.path("out/chains").exists());
}

#[test]
fn impossible_plan_is_refused_with_its_line() {
    let bench = Bench::new();
    let empty = bench.path("empty/regtest/blocks");
    fs::create_dir_all(&empty).unwrap();
    let foreign = bench.path("foreign/regtest/blocks");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("blk00000.dat"), [7; 1000]).unwrap();
    let large = bench.path("large/regtest/blocks");
    fs::create_dir_all(&large).unwrap();
    fs::write(large.join("blk00000.dat"), block_file(1)).unwrap();
    let is_sparse = fs::File::create(large.join("rev00000.dat")).unwrap().set_len(8 << 40).is_ok();
    let good = format!("{HEAD}{}[[work]]\nkind = \"reindex\"\n", program("a", "good"));
    let mut rows = vec![
        (
            "program not there",
            good.replace("label = \"a\"", "label = \"a\"\npath = \"/nowhere/ffwd\""),
            8,
            "no program at /nowhere/ffwd",
        ),
        (
            "file that is no program",
            good.replace("label = \"a\"", "label = \"a\"\npath = \"chain/regtest/debug.log\""),
            8,
            "no program at",
        ),
        (
            "program without a version",
            good.replace("label = \"a\"", "label = \"a\"\npath = \"/bin/false\""),
            8,
            "--version",
        ),
        ("chain not there", good.replace("@CHAIN@", "/nowhere"), 5, "no chain at /nowhere"),
        ("placeholder left", good.replace("@CHAIN@", "@HERE@"), 5, "no chain at"),
        ("no block files", good.replace("@CHAIN@", "empty"), 5, "no block files in"),
        ("unknown files", good.replace("@CHAIN@", "foreign"), 5, "and no xor.dat in its directory"),
        ("beyond the chain", good.replace("\"reindex\"", "\"reindex\"\nstopatheight = 4"), 10, "ends at height 3"),
        (
            "a height for a commit",
            good.replace("\"reindex\"", "\"commit\"\nstopatheight = 2"),
            10,
            "has no stopatheight",
        ),
        (
            "a commit by a bitcoind",
            good.replace("label = \"a\"", "label = \"a\"\nkind = \"bitcoind\"\npath = \"ffwd\"")
                .replace("\"reindex\"", "\"commit\""),
            12,
            "cannot do the work commit",
        ),
        (
            "an export by a bitcoind",
            good.replace("label = \"a\"", "label = \"a\"\nkind = \"bitcoind\"\npath = \"ffwd\"")
                .replace("\"reindex\"", "\"export\""),
            12,
            "cannot do the work export: it has no such command",
        ),
        ("unknown key", good.replace("sample_ms", "sampling_ms"), 2, "unknown field"),
    ];
    if is_sparse {
        rows.push(("no room", good.replace("@CHAIN@", "large"), 5, "no room to work on copies"));
    } else {
        println!("skipped: this file system has no sparse files, the row about room is left out");
    }
    for (row, plan, line, want) in rows {
        let error = run(&bench.plan(&plan)).unwrap_err();
        let RunError::Plan { problems, .. } = &error else { panic!("{row}: {error}") };
        assert_eq!(problems[0].line, Some(line), "{row}: {error}");
        assert!(problems[0].what.contains(want), "{row}: {error}");
        assert!(!bench.path("out").exists(), "{row}: nothing is left behind");
    }
    assert_eq!(bench.works().len(), 0, "nothing was run");
    let inside = RunOptions { out: bench.path("chain/out"), ..bench.plan(&good) };
    let error = run(&inside).unwrap_err();
    assert!(error.to_string().contains("must be outside the chain's own directory"), "{error}");
}

/// Every plan of the project reads; those that want a bitcoind say so where none is named.
#[test]
fn project_plans_parse() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let mut count = 0;
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        count += 1;
        match plan::parse(&text, &directory) {
            Ok(plan) => {
                assert!(plan.cells.len() > 1 || plan.programs.len() > 1, "{}: nothing to compare", path.display())
            }
            Err(problems) => assert!(
                text.contains("$BITCOIND_EXE")
                    && problems.iter().all(|problem| problem.what.contains("BITCOIND_EXE is not set")),
                "{}: {problems:?}",
                path.display()
            ),
        }
    }
    assert!(count >= 5, "{count} plans in {}", directory.display());
    assert!(plan::parse(EXAMPLE, &directory).is_ok());
}

#[test]
fn commits_are_taken_from_versions() {
    for (version, want) in [
        ("ffwd 0.1.0 (ef1bea7ec9b0, rustc 1.95.0)", Some("ef1bea7ec9b0")),
        ("ffwd 0.1.0 (ef1bea7ec9b0-dirty, rustc 1.95.0)", Some("ef1bea7ec9b0-dirty")),
        ("Bitcoin Core daemon version v31.99.0-b88bffe550a3 bitcoind", Some("b88bffe550a3")),
        ("ffwd 0.1.0 (no commit, rustc 1.95.0)", None),
        ("Bitcoin Core daemon version v30.0.0", None),
        ("a deadbeefs defaced", Some("defaced")),
    ] {
        assert_eq!(program::commit(version).as_deref(), want, "{version}");
    }
}
