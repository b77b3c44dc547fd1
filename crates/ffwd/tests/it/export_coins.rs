//! The UTXO set as a table: of the tip, of an earlier block, of a snapshot file.

use crate::data;
use crate::run::run;
use std::fs;
use std::path::Path;

/// A chain whose set Core dumped, brought to its tip.
fn chain(name: &str) -> Option<tempfile::TempDir> {
    let directory = data::directory("regtest", &testkit::data::load(&format!("snapshots/{name}"))?);
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    Some(directory)
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn earlier_set_is_that_of_cores_snapshot_in_every_format() {
    let Some(directory) = chain("regtest_assumeutxo_0_399.blk.xz") else { return };
    let top = directory.path();
    let on = "--datadir @ --chain regtest --json";
    fs::write(top.join("299.dat"), testkit::data::load("snapshots/regtest_assumeutxo_299.dat").unwrap()).unwrap();
    let rolled = run(top, &format!("export --coins --format csv --out @/rolled --height 299 {on}")).good();
    let none = top.join("none");
    fs::create_dir(&none).unwrap();
    let file = run(&none, &format!("export --coins --format csv --out @/../file --snapshot @/../299.dat {on}")).good();
    assert_eq!((&rolled["txouts"], &file["txouts"], &rolled["height"]), (&299.into(), &299.into(), &299.into()));
    assert_eq!(rolled["total_amount"], file["total_amount"]);
    assert_eq!(fs::read_dir(&none).unwrap().count(), 0, "a snapshot needs no data directory");
    let rows = lines(&top.join("rolled"));
    assert!(rows == lines(&top.join("file")), "undo data and Core give the same coins");
    assert_eq!((rows.len(), &rows[0][..]), (300, "txid,vout,height,coinbase,amount,script,type,address"));
    for par in [1, 3] {
        run(top, &format!("export --coins --format csv --out @/again --force --height 299 --par {par} {on}")).good();
        assert!(rows == lines(&top.join("again")), "by any number of workers");
    }
    let tip = run(top, &format!("export --coins --out @/tip.parquet {on}")).good();
    let info = run(top, &format!("coins info --hash none {on}")).good();
    assert_eq!((&tip["txouts"], &tip["total_amount"]), (&info["txouts"], &info["total_amount"]));
    let bytes = fs::read(top.join("tip.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    run(top, &format!("export --coins --format sqlite --out @/tip.sqlite {on}")).good();
    let bytes = fs::read(top.join("tip.sqlite")).unwrap();
    assert!(bytes.starts_with(b"SQLite format 3\0"));
    // Every row is there as text of the format: the last txid of the CSV, in digits.
    let last = rows.last().unwrap().split(',').next().unwrap();
    run(top, &format!("export --coins --format sqlite --out @/299.sqlite --snapshot @/299.dat {on}")).good();
    let bytes = fs::read(top.join("299.sqlite")).unwrap();
    assert!(bytes.windows(64).any(|digits| digits == last.as_bytes()));
}

/// A rename onto /dev/null would take the device's place.
#[test]
fn device_or_pipe_is_written_to_as_it_is() {
    use std::os::unix::fs::FileTypeExt as _;
    let Some(directory) = chain("regtest_assumeutxo_0_399.blk.xz") else { return };
    let top = directory.path();
    let on = "--datadir @ --chain regtest --json";
    for format in ["csv", "parquet"] {
        let said = run(top, &format!("export --coins --format {format} --out /dev/null {on}")).good();
        assert_eq!((&said["txouts"], &said["bytes_out"]), (&399.into(), &0.into()));
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let ran = run(top, &format!("export --coins --format sqlite --out /dev/null {on}"));
    assert!(ran.code == Some(1) && ran.err.contains("a pipe or a device"), "{ran:?}");
}

/// LevelDB has output 16512 before 256.
#[test]
fn outputs_come_by_their_numbers() {
    let Some(directory) = chain("regtest_wide_0_211.blk.xz") else { return };
    let top = directory.path();
    fs::write(top.join("wide.dat"), testkit::data::load("snapshots/regtest_wide_211.dat.xz").unwrap()).unwrap();
    for (name, of) in [("tip", ""), ("file", "--snapshot @/wide.dat"), ("below", "--height 200")] {
        let line = format!("export --coins --format csv --out @/{name} {of} --datadir @ --chain regtest --json");
        let said = run(top, &line).good();
        let rows = lines(&top.join(name));
        assert_eq!(said["txouts"], rows.len() - 1);
        let key = |row: &String| {
            let mut cells = row.split(',');
            let mut txid = primitives::hex::decode(cells.next().unwrap()).unwrap();
            txid.reverse();
            (txid, cells.next().unwrap().parse::<u32>().unwrap())
        };
        assert!(rows[1..].iter().map(key).is_sorted(), "{name}");
    }
    assert!(lines(&top.join("tip")) == lines(&top.join("file")));
}

#[test]
fn wrong_use_and_damage_leave_no_table() {
    let Some(directory) = chain("regtest_assumeutxo_0_399.blk.xz") else { return };
    let top = directory.path();
    let good = testkit::data::load("snapshots/regtest_assumeutxo_299.dat").unwrap();
    let snapshot = |name: &str, bytes: &[u8]| fs::write(top.join(name), bytes).unwrap();
    snapshot("good.dat", &good);
    snapshot("cut.dat", &good[..good.len() - 5]);
    snapshot("more.dat", &[&good[..], b"x"].concat());
    // The first txid, behind the header, is the greatest.
    let mut swapped = good.clone();
    swapped[51..51 + 32].fill(0xff);
    snapshot("swapped.dat", &swapped);
    fs::write(top.join("there"), "mine").unwrap();
    for (line, code, want) in [
        ("--coins --out @/there", 1, "there already"),
        ("--coins --out @ --force", 1, "makes one file"),
        ("--coins --out @/none/x", 1, "none/x"),
        ("--coins --out @/x --from 5", 2, "--from"),
        ("--coins --out @/x --tables blocks", 2, "--tables"),
        ("--out @/x --height 5", 2, "--coins"),
        ("--out @/x --snapshot @/good.dat", 2, "--coins"),
        ("--out @/x --format csv", 2, "--coins"),
        ("--coins --out @/x --height 400", 1, "after current tip 399"),
        ("--coins --out @/x --height 5 --snapshot @/good.dat", 2, "--snapshot"),
        ("--coins --out @/x --snapshot @/cut.dat", 1, "cut.dat"),
        ("--coins --out @/x --snapshot @/more.dat", 1, "left over"),
        ("--coins --out @/x --snapshot @/swapped.dat", 1, "not in the order"),
        ("--coins --out @/x --snapshot @/there", 1, "there"),
    ] {
        for format in ["parquet", "csv", "sqlite"] {
            let format = if line.contains("--format") { String::new() } else { format!("--format {format}") };
            if !line.contains("--coins") && !format.is_empty() && !format.ends_with("parquet") {
                continue;
            }
            let ran = run(top, &format!("export {line} {format} --datadir @ --chain regtest --json"));
            assert!(ran.code == Some(code) && ran.err.contains(want), "{line} {format}: {ran:?}");
            for left in ["x", "x.incomplete", "x.rollback.0"] {
                assert!(!top.join(left).exists(), "{line}: {left}");
            }
        }
    }
    assert_eq!(fs::read(top.join("there")).unwrap(), b"mine");
    let other = run(top, "export --coins --out @/x --snapshot @/good.dat --datadir @/none --chain main --json");
    assert!(other.code == Some(1) && other.err.contains("does not match"), "{other:?}");
    // Without --chain the file says which network it is of.
    let own = run(top, "export --coins --format csv --out @/x --snapshot @/good.dat --datadir @/none --json").good();
    assert_eq!(own["chain"], "regtest");
}
