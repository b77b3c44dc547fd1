//! What happens to the databases of real users: tables lost, cut, changed or copied from elsewhere, in the chainstate, the block
//! index and the optional indexes. Each is named, nothing is lost meanwhile, and the command that the message names mends it.

use crate::run::{Ran, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const AT: &str = "--datadir @ --chain regtest --json";
/// A command that goes on with a data directory and finds nothing new.
const GO_ON: &str = "import @/regtest/blocks/blk00000.dat";
const INDEXES: &str = "--txindex --blockfilterindex --coinstatsindex --txospenderindex";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    assert!(Command::new("cp").arg("-r").arg(from.join("regtest")).arg(to).status().unwrap().success());
}

fn set(directory: &Path) -> Value {
    run(directory, &format!("coins info {AT}")).good()["hash_serialized_3"].clone()
}

/// Files of a database with this ending, the largest first.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_string_lossy().contains(end));
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
    found
}

fn change(path: &Path, with: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    with(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// What may happen to the directory of a database.
type Accident = fn(&Path);

const ACCIDENTS: [(&str, Accident); 9] = [
    ("a table is lost", |dir| fs::remove_file(&files(dir, ".ldb")[0]).unwrap()),
    ("a table is cut short", |dir| change(&files(dir, ".ldb")[0], |bytes| bytes.truncate(bytes.len() / 2))),
    ("a table is empty", |dir| change(&files(dir, ".ldb")[0], Vec::clear)),
    ("a table is zeros", |dir| change(&files(dir, ".ldb")[0], |bytes| bytes.fill(0))),
    ("a byte of a table is another", |dir| change(&files(dir, ".ldb")[0], |bytes| bytes[20] ^= 1)),
    ("CURRENT is empty", |dir| change(&dir.join("CURRENT"), Vec::clear)),
    ("CURRENT has no end of line", |dir| change(&dir.join("CURRENT"), |bytes| bytes.truncate(bytes.len() - 1))),
    ("CURRENT is lost", |dir| fs::remove_file(dir.join("CURRENT")).unwrap()),
    ("the manifest is lost", |dir| fs::remove_file(&files(dir, "MANIFEST-")[0]).unwrap()),
];

struct Bench {
    dir: tempfile::TempDir,
    set: Value,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole");
        run(&whole, "lab chain --out @ --blocks 2 --seed 5 --utxos 2000 --json").good();
        run(&whole, &format!("reindex {AT} {INDEXES}")).good();
        Bench { set: set(&whole), dir }
    }

    fn copied(&self, name: &str) -> PathBuf {
        let to = self.dir.path().join(name.replace(' ', "-"));
        copy(&self.dir.path().join("whole"), &to);
        to
    }
}

/// A repair without peers does what was advised.
fn check_repair(bench: &Bench, accident: &str, happen: Accident, damaged: &str) {
    let directory = bench.copied(&format!("{accident} mended"));
    happen(&directory.join(damaged));
    let ran = run(&directory, &format!("repair --connect 0 {AT}"));
    assert_eq!((ran.code, set(&directory)), (Some(0), bench.set.clone()), "{accident}: {ran:?}");
    fs::remove_dir_all(&directory).unwrap();
}

/// It ends with a fault that names a file of the directory, and says what to run.
fn is_named(ran: &Ran, directory: &Path, advice: &str, row: &str) {
    assert_eq!(ran.code, Some(1), "{row}: {ran:?}");
    let fault = ran.err.lines().find(|line| line.starts_with("Error: ")).unwrap_or_else(|| panic!("{row}: {ran:?}"));
    assert!(fault.contains(&*directory.to_string_lossy()) && fault.contains(advice), "{row}: {fault}");
}

#[test]
fn accidents_of_a_chainstate_are_named_and_mended() {
    let bench = Bench::new();
    for (accident, happen) in ACCIDENTS {
        let directory = bench.copied(accident);
        happen(&directory.join("regtest/chainstate"));
        is_named(&run(&directory, &format!("coins info {AT}")), &directory, "repair", accident);
        // What goes on says so too, where it needs what is damaged.
        let goes_on = run(&directory, &format!("{GO_ON} {AT}"));
        if goes_on.code != Some(0) {
            is_named(&goes_on, &directory, "repair", accident);
        }
        check_repair(&bench, accident, happen, "regtest/chainstate");
        run(&directory, &format!("reindex --chainstate-only {AT}")).good();
        assert_eq!(set(&directory), bench.set, "{accident}");
        run(&directory, &format!("verify --level 4 --blocks 0 {AT}")).good();
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn accidents_of_a_block_index_are_named_and_mended() {
    let bench = Bench::new();
    for (accident, happen) in ACCIDENTS {
        let directory = bench.copied(accident);
        happen(&directory.join("regtest/blocks/index"));
        is_named(&run(&directory, &format!("verify {AT}")), &directory, "repair", accident);
        check_repair(&bench, accident, happen, "regtest/blocks/index");
        run(&directory, &format!("reindex {AT}")).good();
        assert_eq!(set(&directory), bench.set, "{accident}");
        fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn accidents_of_an_optional_index_are_named_and_mended() {
    let bench = Bench::new();
    let whole = bench.dir.path().join("whole");
    let ask = |directory: &Path| run(directory, &format!("coins info --height 5 {AT}"));
    let want = ask(&whole).good();
    for (accident, happen) in ACCIDENTS {
        let directory = bench.copied(accident);
        let root = directory.join("regtest/indexes/coinstatsindex");
        happen(&root.join("db"));
        let ran = ask(&directory);
        // A database without CURRENT is none: then it is missing.
        is_named(&ran, &directory, "coinstatsindex", accident);
        let again = run(&directory, &format!("index --only coinstatsindex {AT}"));
        if again.code != Some(0) {
            is_named(&again, &directory, "coinstatsindex", accident);
            fs::remove_dir_all(&root).unwrap();
            run(&directory, &format!("index --only coinstatsindex {AT}")).good();
        }
        assert_eq!(ask(&directory).good(), want, "{accident}");
        assert_eq!(set(&directory), bench.set, "{accident}: the chain itself is untouched");
        fs::remove_dir_all(&directory).unwrap();
    }
}

/// What else lies in such directories, and is no accident.
#[test]
fn what_others_leave_in_a_database_is_no_matter() {
    let bench = Bench::new();
    type Leave = fn(&Path);
    let rows: [(&str, Leave); 4] = [
        ("a LOCK of a program that is gone", |dir| fs::write(dir.join("LOCK"), b"").unwrap()),
        ("files of the system", |dir| {
            for name in [".DS_Store", "._CURRENT", "Thumbs.db", "desktop.ini", ".fuse_hidden0000001200000001"] {
                fs::write(dir.join(name), b"\0\0\0\x01Bud1").unwrap();
            }
        }),
        ("LevelDB's own log, and one of before", |dir| {
            fs::write(dir.join("LOG"), b"2026/11/26-20:00:00.000000 7f Recovering log #3\n").unwrap();
            fs::write(dir.join("LOG.old"), b"").unwrap();
        }),
        ("tables that nothing needs", |dir| {
            fs::copy(&files(dir, ".ldb")[0], dir.join("900000.ldb")).unwrap();
            fs::write(dir.join("900001.dbtmp"), b"MANIFEST-9").unwrap();
        }),
    ];
    for (row, leave) in rows {
        let directory = bench.copied(row);
        for dir in ["chainstate", "blocks/index", "indexes/txindex"] {
            leave(&directory.join("regtest").join(dir));
        }
        run(&directory, &format!("verify --level 4 --blocks 0 {AT}")).good();
        assert_eq!(set(&directory), bench.set, "{row}");
        run(&directory, &format!("{GO_ON} {AT}")).good();
        run(&directory, &format!("reindex --chainstate-only {AT}")).good();
        assert_eq!(set(&directory), bench.set, "{row}");
    }
}

/// A chainstate of another copy, behind or ahead of the block index; and none at all.
#[test]
fn a_chainstate_from_elsewhere_is_gone_on_with_or_named() {
    let bench = Bench::new();
    let behind = bench.copied("behind");
    // The same chain, but not so far.
    let part = bench.dir.path().join("part");
    fs::create_dir_all(part.join("regtest/blocks")).unwrap();
    for name in ["blk00000.dat", "xor.dat"] {
        fs::copy(behind.join("regtest/blocks").join(name), part.join("regtest/blocks").join(name)).unwrap();
    }
    run(&part, &format!("reindex --stopatheight 20 {AT}")).good();
    let put = |directory: &Path, from: &Path| {
        fs::remove_dir_all(directory.join("regtest/chainstate")).unwrap();
        let copied =
            Command::new("cp").arg("-r").arg(from.join("regtest/chainstate")).arg(directory.join("regtest")).status();
        assert!(copied.unwrap().success());
    };
    put(&behind, &part);
    let report = run(&behind, &format!("{GO_ON} {AT}")).good();
    assert_eq!(set(&behind), bench.set, "{report}");
    // Of another chain.
    let other = bench.dir.path().join("other");
    run(&other, "lab chain --out @ --blocks 2 --seed 6 --utxos 2000 --json").good();
    run(&other, &format!("reindex {AT}")).good();
    let foreign = bench.copied("foreign");
    put(&foreign, &other);
    let ran = run(&foreign, &format!("{GO_ON} {AT}"));
    assert!(
        ran.code == Some(1) && ran.err.contains("do not belong together") && ran.err.contains("ffwd repair"),
        "{ran:?}"
    );
    // What stands higher than the files reach is not thrown away in passing.
    let ran = run(&foreign, &format!("reindex {AT}"));
    assert!(ran.code == Some(1) && ran.err.contains("remove the directories chainstate and blocks/index"), "{ran:?}");
    for dir in ["chainstate", "blocks/index"] {
        fs::remove_dir_all(foreign.join("regtest").join(dir)).unwrap();
    }
    run(&foreign, &format!("reindex {AT}")).good();
    assert_eq!(set(&foreign), bench.set);
    // None: the coins are made again from the blocks that are there.
    let none = bench.copied("none");
    fs::remove_dir_all(none.join("regtest/chainstate")).unwrap();
    run(&none, &format!("{GO_ON} {AT}")).good();
    assert_eq!(set(&none), bench.set);
}
