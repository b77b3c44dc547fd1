//! Situations of real users, played on the built command: docs/situations.md has the public reports.
//!
//! Absent on purpose: those that need peers, mounts or a configuration, which are played where these are.

use crate::data::{self, blocks_dir};
use crate::run::{Ran, command, run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use tempfile::TempDir;

/// Height and last block of the chain that is played on.
const HEIGHT: u64 = 206;

/// A data directory of regtest with all indexes, at height 206; made once.
static BASE: LazyLock<Option<TempDir>> = LazyLock::new(|| {
    let directory = data::real("regtest", "regtest_1_206")?;
    let line =
        "reindex --datadir @ --chain regtest --json --txindex --blockfilterindex --txospenderindex --coinstatsindex";
    run(directory.path(), line).good();
    Some(directory)
});

/// A copy of it as `d` in a directory of its own; none without test data.
fn copy() -> Option<TempDir> {
    let base = BASE.as_ref()?;
    let directory = tempfile::tempdir().unwrap();
    copy_dir(base.path(), &directory.path().join("d"));
    Some(directory)
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Runs a line on the copy, whose network is regtest.
fn go(top: &Path, line: &str) -> Ran {
    run(top, &format!("{line} --datadir @/d --chain regtest"))
}

/// The first file of a directory whose name ends so.
fn first(dir: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found.into_iter().find(|path| path.to_string_lossy().ends_with(ending)).unwrap()
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

/// What is where a data directory of regtest was changed by hand, and what a command says of it.
struct Row {
    name: &'static str,
    change: fn(&Path),
    line: &'static str,
    code: i32,
    /// Words of what is said, on either output.
    says: &'static [&'static str],
}

fn play(rows: &[Row]) {
    for Row { name, change, line, code, says } in rows {
        let Some(top) = copy() else { return };
        change(&top.path().join("d/regtest"));
        let ran = go(top.path(), line);
        let text = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(*code), "{name}: {ran:?}");
        for want in *says {
            assert!(text.contains(want), "{name}: {want:?} in {text}");
        }
    }
}

/// A command on directories that lie in one of its own.
struct Place {
    name: &'static str,
    make: fn(&Path),
    line: &'static str,
    code: i32,
    says: &'static [&'static str],
    /// What must not be there afterwards.
    makes_no: &'static str,
}

#[test]
fn directory_that_is_not_what_it_seems_is_named() {
    let rows = [
        (
            "info inside blocks",
            "info --datadir @/d/regtest/blocks",
            0,
            "Give --datadir @/d",
            "d/regtest/blocks/regtest",
        ),
        (
            "a sync into blocks",
            "sync --connect 0 --datadir @/d/regtest/blocks",
            1,
            "Give --datadir @/d",
            "d/regtest/blocks/regtest",
        ),
        (
            "a sync into chainstate",
            "sync --connect 0 --datadir @/d/regtest/chainstate",
            1,
            "the directory chainstate of a data directory",
            "d/regtest/chainstate/regtest",
        ),
        (
            "a sync into the index",
            "sync --connect 0 --datadir @/d/regtest/blocks/index",
            1,
            "the directory blocks/index of a data directory",
            "d/regtest/blocks/index/regtest",
        ),
        (
            "a sync into the network's directory",
            "sync --connect 0 --datadir @/d/regtest",
            1,
            "Give --datadir @/d --chain regtest",
            "d/regtest/regtest",
        ),
        (
            "an import into blocks",
            "import @/none.dat --datadir @/d/regtest/blocks",
            1,
            "Give --datadir @/d",
            "d/regtest/blocks/regtest",
        ),
        (
            "blocks itself as blocksdir",
            "sync --connect 0 --datadir @/d --blocksdir @/d/regtest/blocks",
            1,
            "Give --blocksdir @/d:",
            "d/regtest/blocks/regtest",
        ),
        ("info of another network", "info --datadir @/d --chain main", 0, "data of regtest in @/d/regtest", "d/blocks"),
        ("a data directory that is missing", "sync --connect 0 --datadir @/none", 1, "mkdir -p @/none", "none"),
        ("a path with ~", "sync --connect 0 --datadir=~/d", 1, "write the whole path", "~"),
        (
            "a file as data directory",
            "info --datadir @/d/regtest/debug.log",
            1,
            "Name the directory, not a file in it",
            "none",
        ),
        ("a relative path", "info --datadir d", 0, "height 206", "none"),
    ];
    for (name, line, code, says, makes_no) in rows {
        let Some(top) = copy() else { return };
        let line = if line.contains("--chain") { line.to_owned() } else { format!("{line} --chain regtest") };
        let mut command = command(top.path(), &line);
        let output = command.current_dir(top.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let says = says.replace('@', top.path().to_str().unwrap());
        assert_eq!(output.status.code(), Some(code), "{name}: {text}");
        assert!(text.contains(&says) && !text.contains("is empty"), "{name}: {says:?} in {text}");
        assert!(!top.path().join(makes_no).exists(), "{name}: nothing is made");
    }
}

#[test]
fn directory_that_was_put_together_by_hand_is_named() {
    let rows = [
        Place {
            name: "block files alone",
            make: |top| {
                fs::create_dir(top.join("d")).unwrap();
                fs::copy(block_file(top), top.join("d/blk00000.dat")).unwrap();
            },
            line: "info --datadir @/d",
            code: 0,
            says: &["1 block files (blk?????.dat) outside of a directory blocks", "then run ffwd reindex"],
            makes_no: "d/regtest",
        },
        Place {
            name: "a reindex with only block files",
            make: |top| {
                fs::create_dir(top.join("d")).unwrap();
                fs::copy(block_file(top), top.join("d/blk00000.dat")).unwrap();
            },
            line: "reindex --datadir @/d",
            code: 1,
            says: &["outside of a directory blocks", "Move them to"],
            makes_no: "d/regtest",
        },
        Place {
            name: "an import with only block files",
            make: |top| {
                fs::create_dir(top.join("d")).unwrap();
                fs::copy(block_file(top), top.join("blk00000.dat")).unwrap();
            },
            line: "import @/blk00000.dat --datadir @/d",
            code: 0,
            says: &["206 blocks were new", "height 206"],
            makes_no: "d/chainstate",
        },
        Place {
            name: "a link to a data directory that is not there",
            make: |top| symlink("/none/drive", top.join("d")).unwrap(),
            line: "sync --connect 0 --datadir @/d",
            code: 1,
            says: &["a link to /none/drive, which is not there", "Mount the drive"],
            makes_no: "d/regtest",
        },
        Place {
            name: "a link to blocks that are not there",
            make: |top| {
                fs::create_dir_all(top.join("d/regtest")).unwrap();
                symlink("/none/drive", top.join("d/regtest/blocks")).unwrap();
            },
            line: "sync --connect 0 --datadir @/d",
            code: 1,
            says: &["d/regtest/blocks: wanted a directory, found a link", "/none/drive"],
            makes_no: "d/regtest/chainstate",
        },
        Place {
            name: "a link to a chainstate that is not there",
            make: |top| {
                fs::create_dir_all(top.join("d/regtest")).unwrap();
                symlink("/none/drive", top.join("d/regtest/chainstate")).unwrap();
            },
            line: "info --datadir @/d",
            code: 1,
            says: &["d/regtest/chainstate: wanted a directory", "/none/drive"],
            makes_no: "d/regtest/blocks",
        },
        Place {
            name: "a link to a data directory",
            make: |top| {
                copy_dir(BASE.as_ref().unwrap().path(), &top.join("far"));
                symlink(top.join("far"), top.join("d")).unwrap();
            },
            line: "verify --datadir @/d",
            code: 0,
            says: &["up to height 206"],
            makes_no: "none",
        },
        Place {
            name: "an empty directory",
            make: |top| fs::create_dir(top.join("d")).unwrap(),
            line: "coins info --datadir @/d",
            code: 1,
            says: &["wanted a chainstate, found none", "ffwd sync"],
            makes_no: "d/regtest",
        },
    ];
    for Place { name, make, line, code, says, makes_no } in rows {
        if BASE.is_none() {
            return;
        }
        let top = tempfile::tempdir().unwrap();
        make(top.path());
        let ran = run(top.path(), &format!("{line} --chain regtest"));
        let text = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(code), "{name}: {ran:?}");
        says.iter().for_each(|want| assert!(text.contains(want), "{name}: {want:?} in {text}"));
        assert!(!top.path().join(makes_no).exists(), "{name}: {makes_no} is made");
    }
}

/// The block file of the base, which has no obfuscation where it was made of test data.
fn block_file(_: &Path) -> PathBuf {
    blocks_dir(BASE.as_ref().unwrap().path(), "regtest").join("blk00000.dat")
}

#[test]
fn files_that_are_linked_elsewhere_work_and_are_named_when_they_are_gone() {
    play(&[
        Row {
            name: "block files linked to another drive",
            change: |net| {
                let (there, far) = (net.join("blocks/blk00000.dat"), net.join("../far.dat"));
                fs::rename(&there, &far).unwrap();
                symlink(far, there).unwrap();
            },
            line: "verify --blocks 0",
            code: 0,
            says: &["last 206 blocks"],
        },
        Row {
            name: "the directory blocks linked to another drive",
            change: |net| {
                fs::rename(net.join("blocks"), net.join("../far")).unwrap();
                symlink(net.join("../far"), net.join("blocks")).unwrap();
            },
            line: "reindex",
            code: 0,
            says: &["to height 206"],
        },
        Row {
            name: "files of the index linked one by one",
            change: |net| {
                for entry in fs::read_dir(net.join("blocks/index")).unwrap() {
                    let (path, name) = (entry.as_ref().unwrap().path(), entry.as_ref().unwrap().file_name());
                    let far = net.join("..").join(name);
                    fs::rename(&path, &far).unwrap();
                    symlink(&far, &path).unwrap();
                }
            },
            line: "verify",
            code: 0,
            says: &["height 206"],
        },
        Row {
            name: "a linked block file whose drive is missing",
            change: |net| {
                fs::remove_file(net.join("blocks/blk00000.dat")).unwrap();
                symlink("/none/blk00000.dat", net.join("blocks/blk00000.dat")).unwrap();
            },
            line: "verify",
            code: 1,
            says: &["a link to /none/blk00000.dat, which is not there", "Mount the drive"],
        },
        Row {
            name: "a reindex with a linked block file whose drive is missing",
            change: |net| {
                fs::remove_file(net.join("blocks/blk00000.dat")).unwrap();
                symlink("/none/blk00000.dat", net.join("blocks/blk00000.dat")).unwrap();
            },
            line: "reindex",
            code: 1,
            says: &["a link to /none/blk00000.dat, which is not there"],
        },
    ]);
}

#[test]
fn damaged_database_is_named_with_its_file_and_what_helps() {
    const HELPS: &str = "If that is impossible, run ffwd repair";
    play(&[
        Row {
            name: "the chainstate's CURRENT is empty",
            change: |net| fs::write(net.join("chainstate/CURRENT"), "").unwrap(),
            line: "verify",
            code: 1,
            says: &["chainstate/CURRENT at byte 0", HELPS],
        },
        Row {
            name: "the chainstate's CURRENT has another line end",
            change: |net| {
                let text = fs::read_to_string(net.join("chainstate/CURRENT")).unwrap();
                fs::write(net.join("chainstate/CURRENT"), text.replace('\n', "\r\n")).unwrap();
            },
            line: "coins info",
            code: 1,
            says: &["chainstate/CURRENT at byte 0", HELPS],
        },
        Row {
            name: "the chainstate's manifest is missing",
            change: |net| fs::remove_file(net.join("chainstate/MANIFEST-000002")).unwrap(),
            line: "coins info",
            code: 1,
            says: &["MANIFEST-000002: wanted the file, which CURRENT needs", HELPS],
        },
        Row {
            name: "a table of the chainstate is missing",
            change: |net| fs::remove_file(first(&net.join("chainstate"), ".ldb")).unwrap(),
            line: "coins info",
            code: 1,
            says: &[".ldb: wanted the file, which level", HELPS],
        },
        Row {
            name: "a table of the chainstate is damaged",
            change: |net| flip(&first(&net.join("chainstate"), ".ldb")),
            line: "verify",
            code: 1,
            says: &[".ldb at byte", "checksum", HELPS],
        },
        Row {
            name: "a table of the chainstate is empty",
            change: |net| fs::write(first(&net.join("chainstate"), ".ldb"), "").unwrap(),
            line: "info",
            code: 1,
            says: &["bytes, as the manifest says, found 0 bytes", HELPS],
        },
        Row {
            name: "a table of the block index is damaged",
            change: |net| flip(&first(&net.join("blocks/index"), ".ldb")),
            line: "info",
            code: 1,
            says: &["blocks/index/", "checksum", HELPS],
        },
        Row {
            name: "the chainstate is missing",
            change: |net| fs::remove_dir_all(net.join("chainstate")).unwrap(),
            line: "coins info",
            code: 1,
            says: &["chainstate: wanted a chainstate, found none", "ffwd repair"],
        },
        Row {
            name: "the block index is missing",
            change: |net| fs::remove_dir_all(net.join("blocks/index")).unwrap(),
            line: "coins info",
            code: 1,
            says: &["the two do not belong together", "Run ffwd repair"],
        },
        Row {
            name: "the chainstate of another copy",
            change: |net| {
                fs::remove_dir_all(net.join("blocks/index")).unwrap();
                fs::create_dir(net.join("blocks/index")).unwrap();
            },
            line: "import ../none.dat",
            code: 1,
            says: &["the two do not belong together", "Run ffwd repair"],
        },
    ]);
}

#[test]
fn damaged_database_is_mended_by_a_reindex_that_does_not_advise_itself() {
    /// A name, what is changed, and the command that mends it.
    type Mended = (&'static str, fn(&Path), &'static str);
    let rows: [Mended; 6] = [
        (
            "a table of the chainstate is damaged",
            |net| flip(&first(&net.join("chainstate"), ".ldb")),
            "reindex --chainstate-only",
        ),
        ("a table of the block index is damaged", |net| flip(&first(&net.join("blocks/index"), ".ldb")), "reindex"),
        ("the block index has no CURRENT", |net| fs::remove_file(net.join("blocks/index/CURRENT")).unwrap(), "reindex"),
        ("the block index is missing", |net| fs::remove_dir_all(net.join("blocks/index")).unwrap(), "reindex"),
        (
            "both databases are missing",
            |net| {
                fs::remove_dir_all(net.join("blocks/index")).unwrap();
                fs::remove_dir_all(net.join("chainstate")).unwrap();
            },
            "reindex",
        ),
        ("the undo file is missing", |net| fs::remove_file(net.join("blocks/rev00000.dat")).unwrap(), "reindex"),
    ];
    let Some(base) = BASE.as_ref() else { return };
    let want = run(base.path(), "coins info --json --datadir @ --chain regtest").good();
    for (name, change, line) in rows {
        let Some(top) = copy() else { return };
        change(&top.path().join("d/regtest"));
        let ran = go(top.path(), line);
        assert!(ran.code == Some(0) && !ran.err.contains("run ffwd reindex"), "{name}: {ran:?}");
        let got = go(top.path(), "coins info --json").good();
        assert_eq!(got["hash_serialized_3"], want["hash_serialized_3"], "{name}");
    }
}

#[test]
fn missing_or_damaged_block_and_undo_files_are_named() {
    play(&[
        Row {
            name: "a block file is missing, and info is asked",
            change: |net| fs::remove_file(net.join("blocks/blk00000.dat")).unwrap(),
            line: "info",
            code: 0,
            says: &["blk00000.dat: wanted the block file, for the index names blocks in it", "Put the file back"],
        },
        Row {
            name: "a block file is missing, and blocks are imported",
            change: |net| fs::remove_file(net.join("blocks/blk00000.dat")).unwrap(),
            line: "import ../none.dat",
            code: 1,
            says: &["blk00000.dat: wanted the block file", "Put the file back"],
        },
        Row {
            name: "a block file is missing, and a reindex begins",
            change: |net| fs::remove_file(net.join("blocks/blk00000.dat")).unwrap(),
            line: "reindex",
            code: 1,
            says: &["wanted block files up to height 206", "Nothing was changed"],
        },
        Row {
            name: "the undo file is missing",
            change: |net| fs::remove_file(net.join("blocks/rev00000.dat")).unwrap(),
            line: "verify",
            code: 1,
            says: &["rev00000.dat", "Put the file back", "ffwd repair"],
        },
        Row {
            name: "the undo file is cut short",
            change: |net| {
                let bytes = fs::read(net.join("blocks/rev00000.dat")).unwrap();
                fs::write(net.join("blocks/rev00000.dat"), &bytes[..5000]).unwrap();
            },
            line: "verify --blocks 0 --level 4",
            code: 1,
            says: &["rev00000.dat at byte", "undo"],
        },
        Row {
            name: "a block file is cut short",
            change: |net| {
                let bytes = fs::read(net.join("blocks/blk00000.dat")).unwrap();
                fs::write(net.join("blocks/blk00000.dat"), &bytes[..20_000]).unwrap();
            },
            line: "verify --blocks 0",
            code: 1,
            says: &["blk00000.dat at byte"],
        },
    ]);
}

#[test]
fn leftovers_and_foreign_names_are_no_harm() {
    play(&[
        Row {
            name: "files of a file manager next to the block files",
            change: |net| {
                for name in
                    [".DS_Store", "desktop.ini", "Thumbs.db", "blk00000 (1).dat", "blk00001.dat.part", "._blk00000.dat"]
                {
                    fs::write(net.join("blocks").join(name), "x").unwrap();
                }
            },
            line: "reindex",
            code: 0,
            says: &["to height 206"],
        },
        Row {
            name: "lost+found in the data directory",
            change: |net| fs::create_dir(net.join("../lost+found")).unwrap(),
            line: "info",
            code: 0,
            says: &["height 206"],
        },
        Row {
            name: "a lock file that is not held",
            change: |net| {
                fs::write(net.join(".lock"), "").unwrap();
                fs::write(net.join("bitcoind.pid"), "1\n").unwrap();
            },
            line: "verify",
            code: 0,
            says: &["height 206"],
        },
        Row {
            name: "databases without their LOCK files",
            change: |net| {
                for dir in ["chainstate", "blocks/index"] {
                    let _ = fs::remove_file(net.join(dir).join("LOCK"));
                }
            },
            line: "verify",
            code: 0,
            says: &["height 206"],
        },
        Row {
            name: "tables with the ending of older releases",
            change: |net| {
                for entry in fs::read_dir(net.join("chainstate")).unwrap() {
                    let path = entry.unwrap().path();
                    if path.extension().is_some_and(|ending| ending == "ldb") {
                        fs::rename(&path, path.with_extension("sst")).unwrap();
                    }
                }
            },
            line: "coins info",
            code: 0,
            says: &["height 206"],
        },
        Row {
            name: "a log of LevelDB's that grew large",
            change: |net| fs::write(net.join("chainstate/LOG"), vec![b'x'; 1 << 20]).unwrap(),
            line: "coins info",
            code: 0,
            says: &["height 206"],
        },
    ]);
}

#[test]
fn optional_index_that_is_missing_or_damaged_is_named() {
    const TXID: &str = "0000000000000000000000000000000000000000000000000000000000000001";
    play(&[
        Row {
            name: "the transaction index is missing",
            change: |net| fs::remove_dir_all(net.join("indexes/txindex")).unwrap(),
            line: "tx 0000000000000000000000000000000000000000000000000000000000000001",
            code: 1,
            says: &["txindex", "Run ffwd index --only txindex"],
        },
        Row {
            name: "a table of the transaction index is missing",
            change: |net| fs::remove_file(first(&net.join("indexes/txindex"), ".ldb")).unwrap(),
            line: "tx 0000000000000000000000000000000000000000000000000000000000000001",
            code: 1,
            says: &["indexes/txindex", "ffwd index --only txindex"],
        },
        Row {
            name: "a file of filters is missing",
            change: |net| {
                let dir = net.join("indexes/blockfilter/basic");
                fs::remove_file(first(&dir, "fltr00000.dat")).unwrap();
            },
            line: "filter 5",
            code: 1,
            says: &["fltr00000.dat", "ffwd index"],
        },
        Row {
            name: "an index is asked for a transaction that is in none",
            change: |_| (),
            line: "tx 0000000000000000000000000000000000000000000000000000000000000001",
            code: 1,
            says: &["No such blockchain transaction", "in no block yet"],
        },
        Row {
            name: "a filter above the tip",
            change: |_| (),
            line: "filter 999",
            code: 1,
            says: &["Target block height 999 after current tip 206", "Name a height up to the tip's"],
        },
        Row {
            name: "statistics of a block without the index",
            change: |net| fs::remove_dir_all(net.join("indexes/coinstatsindex")).unwrap(),
            line: "coins info --height 100",
            code: 1,
            says: &["coinstatsindex", "ffwd index --only coinstatsindex"],
        },
    ]);
    let Some(top) = copy() else { return };
    fs::remove_dir_all(top.path().join("d/regtest/indexes/txindex")).unwrap();
    assert_eq!(go(top.path(), "index --only txindex").code, Some(0));
    assert!(go(top.path(), &format!("tx {TXID}")).err.contains("No such blockchain transaction"), "it is made again");
}

/// Core's newer block index, and that of Knots 29.4.1's chain, are never taken for an empty or a damaged one.
#[test]
fn block_index_of_another_program_is_named_and_left_until_it_is_made_again() {
    let flat: fn(&Path) = |net| {
        fs::remove_dir_all(net.join("blocks/index")).unwrap();
        fs::create_dir(net.join("blocks/index")).unwrap();
        for name in ["headers.dat", "blockfiles.dat", "log.dat"] {
            fs::write(net.join("blocks/index").join(name), [0; 4096]).unwrap();
        }
    };
    let rows = [
        ("a flat index", flat, "Core's newer flat form"),
        ("an index with blocks of Knots 29.4.1's chain", of_the_split, "Knots 29.4.1"),
    ];
    for (name, change, says) in rows {
        let Some(top) = copy() else { return };
        let net = top.path().join("d/regtest");
        change(&net);
        let before = fs::read_dir(net.join("blocks/index")).unwrap().count();
        let info = go(top.path(), "info");
        assert!(info.code == Some(0) && info.out.contains(says), "{name}: {info:?}");
        assert!(info.out.contains("ffwd reindex"), "{name}: {info:?}");
        for line in ["sync --connect 0", "verify", "import @/none.dat", "reindex --chainstate-only"] {
            let ran = go(top.path(), line);
            assert!(ran.code == Some(1) && ran.err.contains(says), "{name}: {line}: {ran:?}");
        }
        assert_eq!(fs::read_dir(net.join("blocks/index")).unwrap().count(), before, "{name}: nothing is added");
        let ran = go(top.path(), "repair --connect 0");
        assert!(ran.code == Some(0) && ran.out.contains("The block index was made again from"), "{name}: {ran:?}");
        assert!(go(top.path(), "info").out.contains("height 206"), "{name}");
        change(&net);
        let ran = go(top.path(), "reindex");
        assert!(ran.code == Some(0) && ran.out.contains("to height 206"), "{name}: {ran:?}");
        assert!(!ran.err.contains("run ffwd reindex"), "{name}: {ran:?}");
        assert!(go(top.path(), "info").out.contains("height 206"), "{name}");
    }
}

/// Adds a block with a header of 164 bytes, as a row of the index and as a record of a block file.
fn of_the_split(net: &Path) {
    let mut header = [7; 164];
    header[..4].copy_from_slice(&0xa000_0000u32.to_le_bytes());
    let real = disk::RealDisk::shared();
    let db = leveldb::Db::open(real, &net.join("blocks/index"), leveldb::Options::default()).unwrap();
    let key = db.get(b"\x0e\0obfuscate_key").unwrap().map_or(vec![0; 8], |value| value[1..].to_vec());
    // Version, height, status (header, transactions, data), transactions, file, offset; each below 128 is one byte, but for
    // the version and the height.
    let mut value = vec![0x8e, 0xed, 0x3c, 0x80, 0x4f, 0x0b, 1, 0, 100];
    value.extend_from_slice(&header);
    value.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= key[at % key.len()]);
    db.write(&[([&b"b"[..], &[9; 32]].concat(), Some(value))]).unwrap();
    drop(db);
    let path = net.join("blocks/blk00000.dat");
    let mut bytes = fs::read(&path).unwrap();
    let record = [&data::REGTEST_MAGIC[..], &200u32.to_le_bytes(), &header, &[0; 36]].concat();
    bytes.extend_from_slice(&record);
    fs::write(path, bytes).unwrap();
}

#[test]
fn command_line_that_is_wrong_is_answered_with_what_is_right() {
    let top = tempfile::tempdir().unwrap();
    for (name, line, code, says) in [
        ("a misspelt command", "synch", 2, "a similar subcommand exists: 'sync'"),
        ("a misspelt network", "info --datadir @ --chain regtst", 2, "a similar value exists: 'regtest'"),
        ("an unknown option", "sync --datadir @ --frob", 2, "unexpected argument '--frob'"),
        ("a call in place of a command", "getblockchaininfo", 2, "unrecognized subcommand"),
        ("a cache with a unit", "sync --datadir @ --dbcache 4G", 2, "a number of MiB"),
        ("a cache that is too small", "sync --datadir @ --dbcache 1", 2, "1 is not in 4..="),
        ("pruning to too little", "sync --datadir @ --prune 100", 2, "below the minimum of 550 MiB"),
        ("an invalid size", "sync --datadir @ --prune 1x", 2, "expected 0, 1, or at least 550 MiB"),
        ("an option without its value", "sync --datadir @ --connect", 2, "a value is required for '--connect"),
        ("an invalid txid", "tx zz --datadir @ --chain regtest", 2, "expected 64 hexadecimal digits"),
        ("an unknown hash of the set", "coins info --hash md5 --datadir @", 2, "hash_serialized_3, muhash"),
        (
            "an unknown table",
            "export --out @/x --tables foo --datadir @ --chain regtest",
            2,
            "blocks, transactions, inputs, outputs",
        ),
        ("an unknown index", "index --only foo --datadir @", 2, "possible values: txindex"),
        ("bitcoin-cli's way of naming a network", "-regtest info -datadir=@", 0, "chain        regtest"),
        ("exit codes", "help exit-codes", 0, "130"),
        (
            "a reindex of a directory without blocks",
            "reindex --datadir @ --chain regtest",
            1,
            "or fetch them with ffwd sync",
        ),
    ] {
        let ran = run(top.path(), line);
        let text = format!("{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(code), "{name}: {ran:?}");
        assert!(text.contains(says), "{name}: {says:?} in {text}");
        assert!(!top.path().join("blocks").exists() && !top.path().join("x").exists(), "{name}: nothing is made");
    }
}

/// A program such as head(1) that has read enough.
#[test]
fn closed_pipe_ends_every_command_quietly() {
    let Some(top) = copy() else { return };
    let snapshot = |name: &str| format!("coins dump @/{name} --datadir @/d --chain regtest");
    assert_eq!(run(top.path(), &snapshot("a")).code, Some(0));
    assert_eq!(run(top.path(), &(snapshot("b") + " --height 100")).code, Some(0));
    for (line, codes) in [
        ("info --datadir @/d --chain regtest", [0, 0]),
        ("info --json --datadir @/d --chain regtest", [0, 0]),
        ("verify --datadir @/d --chain regtest", [0, 0]),
        ("coins info @/a", [0, 0]),
        ("coins diff @/a @/b", [1, 1]),
        ("coins dump - --datadir @/d --chain regtest", [141, 141]),
        ("audit plan --parts 2 --datadir @/d --chain regtest", [0, 0]),
        ("help", [0, 0]),
        ("help exit-codes", [0, 0]),
        ("lab run --example", [0, 0]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(top.path(), line);
        let output = command.stdout(Stdio::from(writer)).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{line}: {output:?}");
        assert!(!["rror", "ipe", "panic"].iter().any(|word| err.contains(word)), "{line}: {err}");
    }
}

#[test]
fn coins_diff_ends_as_diff_does() {
    let Some(top) = copy() else { return };
    for (name, height) in [("a", 206), ("b", 100)] {
        let line = format!("coins dump @/{name} --height {height} --datadir @/d --chain regtest");
        assert_eq!(run(top.path(), &line).code, Some(0));
    }
    for (files, code) in [("@/a @/b", 1), ("@/b @/a", 1), ("@/a @/a", 0), ("@/a @/none", 2), ("@/none @/a", 2)] {
        let ran = run(top.path(), &format!("coins diff {files}"));
        assert_eq!(ran.code, Some(code), "{files}: {ran:?}");
        assert_eq!(ran.err.is_empty(), code != 2, "{files}: {ran:?}");
        assert_eq!(run(top.path(), &format!("coins diff --json {files}")).code, Some(code), "{files}");
    }
}

#[test]
fn output_file_is_written_over_by_force_alone() {
    let Some(top) = copy() else { return };
    fs::write(top.path().join("salt"), "ab".repeat(32)).unwrap();
    let mine = top.path().join("mine");
    let at = "--datadir @/d --chain regtest";
    for (line, has_force) in [
        (format!("audit plan --parts 2 --out @/mine {at}"), true),
        (format!("audit part --from 1 --to 50 --salt @/salt --out @/mine {at}"), true),
        (format!("audit coins --salt @/salt --out @/mine {at}"), true),
        (format!("coins dump @/mine {at}"), false),
        (format!("hints make @/mine {at}"), false),
        ("lab plot @/d/regtest/debug.log --out @/mine".to_owned(), true),
    ] {
        fs::write(&mine, "mine").unwrap();
        let ran = run(top.path(), &line);
        assert!(ran.code == Some(1) && ran.err.contains("already"), "{line}: {ran:?}");
        assert_eq!(fs::read(&mine).unwrap(), b"mine", "{line}");
        if has_force {
            let ran = run(top.path(), &format!("{line} --force"));
            assert!(ran.code == Some(0) && fs::read(&mine).unwrap() != b"mine", "{line}: {ran:?}");
        }
    }
    let manuals = |more: &str| run(top.path(), &format!("manuals @/manuals{more}")).code;
    assert_eq!([manuals(""), manuals(""), manuals(" --force")], [Some(0), Some(1), Some(0)]);
    let export = |more: &str| run(top.path(), &format!("export --out @/tables {at}{more}")).code;
    assert_eq!([export(""), export(""), export(" --force")], [Some(0), Some(1), Some(0)]);
}

/// As bitcoind: with wallets/, for whoever runs it alone; a directory that was named is never made.
#[test]
fn default_data_directory_is_made_by_commands_that_write() {
    let Some(blocks) = testkit::data::load("chains/regtest_1_206.blk.xz") else { return };
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("blocks.dat"), blocks).unwrap();
    for line in ["info --chain regtest", "reindex --chain regtest", "verify --chain regtest"] {
        assert_eq!(run(home.path(), line).code, Some(1), "{line}");
        assert!(!home.path().join(".bitcoin").exists(), "{line}");
    }
    let ran = run(home.path(), "import @/blocks.dat --chain regtest --json");
    assert_eq!(ran.good()["height"], HEIGHT);
    assert!(home.path().join(".bitcoin/wallets").is_dir() && home.path().join(".bitcoin/regtest/blocks").is_dir());
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(home.path().join(".bitcoin")).unwrap());
    assert_eq!(mode & 0o777, 0o700);
}

/// Transactions of decoded blocks that were never connected do not count.
#[test]
fn counters_count_connected_blocks() {
    let Some(good) = testkit::data::load("chains/regtest_1_206.blk.xz") else { return };
    let mut bytes = good.clone();
    // The amount of block 101's coinbase, or of whatever lies at its middle: the block no longer connects.
    let records = data::records(&good);
    let at: usize = records[..101].iter().map(|record| record.len()).sum();
    let record = records[101];
    let pays = record.windows(8).position(|bytes| bytes == 50_0000_0000u64.to_le_bytes()).unwrap();
    bytes[at + pays + 6] = 1;
    let directory = data::directory("regtest", &bytes);
    let got = run(directory.path(), "reindex --datadir @ --chain regtest --json");
    let got = got.json();
    let height = got["height"].as_u64().unwrap();
    assert!(height < HEIGHT, "{got}");
    assert_eq!(got["blocks"].as_u64(), Some(height), "{got}");
    let all = run(BASE.as_ref().unwrap().path(), "info --datadir @ --chain regtest --json").good();
    assert_eq!(all["height"], HEIGHT);
    let stop = data::directory("regtest", &good);
    let want = run(stop.path(), &format!("reindex --datadir @ --chain regtest --json --stopatheight {height}")).good();
    for field in ["blocks", "transactions", "inputs", "outputs", "bytes"] {
        assert_eq!(got[field], want[field], "{field}: {got}");
    }
}
