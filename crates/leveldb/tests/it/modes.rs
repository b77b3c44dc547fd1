//! Making, opening, reading only: what is refused, what is written, what is left alone.

use std::path::Path;
use std::sync::Arc;

use disk::{Appender, Disk, RealDisk, SimDisk};
use leveldb::{Db, Error, Options};

use testkit::Rng;

use crate::support::{Model, SMALL, apply, check, commit, commit_in_parts, dir, names};

const KEYS: u64 = 500;

fn filled(disk: &Arc<dyn Disk>, dir: &Path) -> Model {
    let db = Db::create(disk.clone(), dir, SMALL).unwrap();
    let mut model = Model::new();
    for seed in 0..4 {
        let records = commit(&mut Rng::new(seed), KEYS, 300);
        commit_in_parts(&db, &records, 2).unwrap();
        apply(&mut model, &records);
    }
    model
}

fn put_file(disk: &dyn Disk, name: &str, bytes: &[u8]) {
    let path = dir().join(name);
    if disk.metadata(&path).unwrap().is_some() {
        disk.remove_file(&path).unwrap();
    }
    Appender::new(disk.create(&path).unwrap(), 0).write_all(bytes).unwrap();
}

#[test]
fn create_refuses_an_existing_database_and_open_can_be_repeated() {
    let disk = SimDisk::new(0).shared();
    assert!(!Db::exists(&*disk, &dir()).unwrap());
    let why = Db::open(disk.clone(), &dir(), SMALL).unwrap_err();
    assert!(matches!(why, Error::Missing { .. }), "{why}");
    let model = filled(&disk, &dir());
    assert!(Db::exists(&*disk, &dir()).unwrap());
    let why = Db::create(disk.clone(), &dir(), SMALL).unwrap_err();
    assert!(matches!(why, Error::Exists { .. }), "{why}");
    for _ in 0..3 {
        let db = Db::open(disk.clone(), &dir(), SMALL).unwrap();
        check(&db.snapshot(), &model, KEYS);
    }
    // Without CURRENT the tables are a database all the same.
    disk.remove_file(&dir().join("CURRENT")).unwrap();
    let why = Db::create(disk.clone(), &dir(), SMALL).unwrap_err();
    assert!(matches!(why, Error::Exists { .. }), "{why}");
}

#[test]
fn open_read_only_writes_nothing() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    let model = filled(&disk, &dir());
    let (before, list) = (sim.operations(), names(&*disk, &dir()));
    let db = Db::open_read_only(disk.clone(), &dir()).unwrap();
    check(&db.snapshot(), &model, KEYS);
    let why = db.write(&[(b"key", Some(b"value"))]).unwrap_err();
    assert!(matches!(why, Error::ReadOnly { .. }), "{why}");
    assert!(matches!(db.plan_full_compaction(), Err(Error::ReadOnly { .. })));
    drop(db);
    assert_eq!(sim.operations(), before);
    assert_eq!(names(&*disk, &dir()), list);
}

#[test]
fn open_takes_the_lock_and_leaves_foreign_files() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("a/db");
    let disk = RealDisk::shared();
    let model = filled(&disk, &path);
    for name in ["000099.ldb", "000098.log", "MANIFEST-000001", "000097.dbtmp", "LOG", "note.txt"] {
        std::fs::write(path.join(name), b"").unwrap();
    }
    let db = Db::open(disk.clone(), &path, SMALL).unwrap();
    let why = Db::open(disk.clone(), &path, SMALL).unwrap_err();
    assert!(matches!(&why, Error::Lock(why) if why.pid == Some(std::process::id())), "{why}");
    check(&db.snapshot(), &model, KEYS);
    let there: Vec<String> = names(&*disk, &path).into_iter().filter(|name| !name.ends_with(".ldb")).collect();
    let [current, lock, log, manifest, note] = &there[..] else {
        panic!("other files: {there:?}");
    };
    assert!(manifest.starts_with("MANIFEST-"), "{there:?}");
    assert_eq!([&**current, &**lock, &**log, &**note], ["CURRENT", "LOCK", "LOG", "note.txt"]);
    drop(db);
    drop(Db::open(disk, &path, SMALL).unwrap());
}

#[test]
fn tables_named_sst_are_read() {
    let disk = SimDisk::new(0).shared();
    let model = filled(&disk, &dir());
    for name in names(&*disk, &dir()) {
        if let Some(number) = name.strip_suffix(".ldb") {
            let (from, to) = (dir().join(&name), dir().join(format!("{number}.sst")));
            disk.rename(&from, &to).unwrap();
        }
    }
    let db = Db::open(disk, &dir(), SMALL).unwrap();
    check(&db.snapshot(), &model, KEYS);
    while let Some(compaction) = db.plan_full_compaction().unwrap() {
        compaction.run().unwrap();
    }
    check(&db.snapshot(), &model, KEYS);
}

#[test]
fn snapshot_keeps_its_files_until_dropped() {
    let disk = SimDisk::new(0).shared();
    let model = filled(&disk, &dir());
    let db = Db::open(disk.clone(), &dir(), SMALL).unwrap();
    let tables = || names(&*disk, &dir()).iter().filter(|name| name.ends_with(".ldb")).count();
    let before = tables();
    let old = db.snapshot();
    db.plan_full_compaction().unwrap().unwrap().run().unwrap();
    let merged = db.snapshot().runs()[0].file_count;
    assert_eq!(tables(), before + merged, "the old ones are held");
    check(&old, &model, KEYS);
    let with_both = db.index_bytes();
    drop(old);
    assert!(db.index_bytes() < with_both, "what is let go costs nothing");
    db.write(&[(b"key", Some(b"value"))]).unwrap();
    assert_eq!(tables(), merged + 1, "the old ones are gone");
}

#[test]
fn open_error_names_the_damaged_or_missing_file() {
    for (row, name, bytes, want) in [
        ("no name", "CURRENT", Some(&b""[..]), "CURRENT is damaged at byte 0"),
        ("no end of line", "CURRENT", Some(b"MANIFEST-000001"), "CURRENT is damaged"),
        ("a path", "CURRENT", Some(b"../MANIFEST-000001\n"), "CURRENT is damaged"),
        ("too long", "CURRENT", Some(&[b'x'; 2000]), "found 2000 bytes"),
        ("not there", "CURRENT", Some(b"MANIFEST-999999\n"), "MANIFEST-999999 is missing"),
        ("empty", "MANIFEST", Some(b""), "wanted a next file number"),
        ("gone", "MANIFEST", None, "is missing, CURRENT needs it"),
        ("gone", ".ldb", None, "is missing, level "),
        ("cut", ".ldb", Some(b"short"), "as the manifest says, found 5 bytes"),
    ] {
        let disk = SimDisk::new(0).shared();
        filled(&disk, &dir());
        let name = names(&*disk, &dir()).into_iter().find(|other| other.contains(name)).unwrap();
        match bytes {
            Some(bytes) => put_file(&*disk, &name, bytes),
            None => disk.remove_file(&dir().join(name)).unwrap(),
        }
        for result in [Db::open_read_only(disk.clone(), &dir()), Db::open(disk, &dir(), SMALL)] {
            let why = result.unwrap_err();
            assert!(why.to_string().contains(want) && why.is_damage(), "{row}: {why}");
        }
    }
}

#[test]
fn dropped_run_leaves_no_files() {
    let disk = SimDisk::new(0).shared();
    let model = filled(&disk, &dir());
    let db = Db::open(disk.clone(), &dir(), SMALL).unwrap();
    let before = names(&*disk, &dir());
    let run = db.begin_run(1 << 20).unwrap();
    let mut table = run.table();
    for number in 0..2000_u32 {
        table.put(&number.to_be_bytes(), &[1; 40]).unwrap();
    }
    drop((table, run));
    drop(db.plan_full_compaction().unwrap().map(|compaction| compaction.step()));
    assert_eq!(names(&*disk, &dir()), before);
    check(&db.snapshot(), &model, KEYS);
    // One that is larger than was said finds a place, or is refused without harm.
    for bytes in [1, 100_000] {
        let run = db.begin_run(bytes).unwrap();
        let mut table = run.table();
        for number in 0..2000_u32 {
            table.put(&number.to_be_bytes(), &[1; 40]).unwrap();
        }
        table.finish().unwrap();
        db.commit(run).unwrap();
        assert_eq!(db.get(&7_u32.to_be_bytes()).unwrap(), Some(vec![1; 40]));
    }
    let run = db.begin_run(1).unwrap();
    let why = run.table().put(b"key", &vec![0; 33 << 20]).unwrap_err();
    assert!(matches!(why, Error::TooLarge { .. }), "{why}");
    drop(run);
    db.settle().unwrap();
    let default = Options::default();
    assert_eq!((default.table_bytes, default.level1_bytes), (32 << 20, 10 << 20));
}
