//! Another LevelDB (`rusty-leveldb`, pure Rust) reads what we write, and the other way round.

use std::path::Path;

use disk::RealDisk;
use leveldb::{Db, Options};
use rusty_leveldb::{DB, LdbIterator, WriteBatch};

use testkit::Rng;

use crate::support::{Model, SMALL, apply, check, commit, commit_in_parts, key};

const KEYS: u64 = 4000;

/// The other LevelDB with Bitcoin Core's settings, but for buffers that are small.
fn theirs(path: &Path) -> DB {
    let options = rusty_leveldb::Options {
        create_if_missing: true,
        paranoid_checks: true,
        compressor: 0,
        write_buffer_size: 20 << 10,
        max_file_size: 16 << 10,
        ..rusty_leveldb::Options::default()
    };
    DB::open(path, options).unwrap()
}

fn check_theirs(db: &mut DB, model: &Model) {
    let mut iter = db.new_iter().unwrap();
    let mut found = Model::new();
    while let Some((key, value)) = iter.next() {
        found.insert(key.to_vec(), value.to_vec());
    }
    assert!(found == *model, "their iterator: {} records, not {}", found.len(), model.len());
    // Not by their `get`: it takes the tombstone of the next greater key for one of the key itself
    // wherever a filter is wrong (rusty-leveldb 4.0.2, version.rs). C++ LevelDB compares the key.
    for number in 0..KEYS + 5 {
        let key = key(number);
        iter.seek(&key);
        let found = iter.current().filter(|(found, _)| **found == key);
        let found = found.map(|(_, value)| value.to_vec());
        assert_eq!(found.as_ref(), model.get(&key), "their seek of {number}");
    }
}

/// Commits until every level from 0 to 6 has had a run; gives the levels that were in use at the end.
fn fill_ours(db: &Db, model: &mut Model, options: Options, commits: usize) -> Vec<usize> {
    let mut rng = Rng::new(options.table_bytes);
    for index in 0..commits {
        let records = commit(&mut rng, KEYS, 2000 >> (index % 8));
        commit_in_parts(db, &records, 1 + index % 3).unwrap();
        apply(model, &records);
    }
    db.snapshot().runs().iter().map(|run| run.level).collect()
}

#[test]
fn rusty_leveldb_reads_what_we_write() {
    for commits in [1, 7, 30] {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("db");
        let mut model = Model::new();
        let db = Db::create(RealDisk::shared(), &path, SMALL).unwrap();
        let levels = fill_ours(&db, &mut model, SMALL, commits);
        if commits == 7 {
            assert_eq!(levels, [0, 0, 2, 3, 4, 5, 6], "runs in most levels");
        }
        drop(db);
        let mut other = theirs(&path);
        check_theirs(&mut other, &model);
        other.compact_range(&[0], &[0xff; 40]).unwrap();
        check_theirs(&mut other, &model);
        other.close().unwrap();
        drop(other);
        let db = Db::open(RealDisk::shared(), &path, SMALL).unwrap();
        check(&db.snapshot(), &model, KEYS);
    }
}

#[test]
fn we_and_rusty_leveldb_continue_each_others_databases() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("db");
    let mut model = Model::new();
    let mut rng = Rng::new(3);
    for round in 0..6 {
        // They write batches; some stay in their log, for nothing is flushed at the end.
        let mut other = theirs(&path);
        check_theirs(&mut other, &model);
        for index in 0..20 {
            let records = commit(&mut rng, KEYS, 10 + index * 20);
            let mut batch = WriteBatch::default();
            for (key, value) in &records {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                }
            }
            other.write(batch, false).unwrap();
            apply(&mut model, &records);
        }
        if round == 3 {
            other.compact_range(&[0], &[0xff; 40]).unwrap();
        }
        drop(other);

        let read_only = Db::open_read_only(RealDisk::shared(), &path).unwrap();
        check(&read_only.snapshot(), &model, KEYS);
        drop(read_only);
        let db = Db::open(RealDisk::shared(), &path, SMALL).unwrap();
        check(&db.snapshot(), &model, KEYS);
        for index in 0..round {
            let records = commit(&mut rng, KEYS, 500 >> index);
            commit_in_parts(&db, &records, 2).unwrap();
            apply(&mut model, &records);
        }
        if round == 4 {
            while db.compact_now().unwrap() {}
        }
        if round == 5 {
            db.settle().unwrap();
        }
        check(&db.snapshot(), &model, KEYS);
    }
    check_theirs(&mut theirs(&path), &model);
}
