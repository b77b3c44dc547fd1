//! Bytes as the history of a database: writes, compactions, reopenings, and a disk that fails or stops at any of them.
//!
//! A map models the acknowledged records. Every way to read must give the map. After a stop the database must equal the
//! last commit, or the one in progress. A snapshot never changes. Each step is a byte and its arguments; past the last
//! byte arguments are 0.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::db::Db;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::{Compaction, Snapshot};
use disk::{Disk, Fault, Loss, SimDisk};

/// Steps of one history; more would only take time.
const STEPS_MAX: usize = 48;
/// Snapshots that are kept to the end.
const SNAPSHOTS_MAX: usize = 4;
const KEYS: u8 = 48;
/// Tables and levels so small that a few records use all of them.
const TINY: Options =
    Options { table_bytes: 1 << 10, level1_bytes: 2 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Record = (Vec<u8>, Option<Vec<u8>>);

/// A history, and the conditions that it must satisfy.
struct History<'a> {
    bytes: &'a [u8],
    disk: SimDisk,
    db: Option<Db>,
    acknowledged: Model,
    /// The states that a failed commit may have left.
    possible: Vec<Model>,
    snapshots: Vec<(Snapshot, Model)>,
}

/// Plays the history and returns the number of steps; panics if the database differs from the map.
pub fn fuzz_history(data: &[u8]) -> usize {
    let disk = SimDisk::new(u64::from(data.first().copied().unwrap_or(0)));
    disk.create_dir_all(&dir()).expect("nothing fails yet");
    disk.sync_dir("/".as_ref()).expect("nothing fails yet");
    let db = Db::create(disk.shared(), &dir(), TINY).expect("nothing fails yet");
    let mut history = History {
        bytes: data.get(1..).unwrap_or(&[]),
        disk,
        db: Some(db),
        acknowledged: Model::new(),
        possible: Vec::new(),
        snapshots: Vec::new(),
    };
    let mut steps = 0;
    while !history.bytes.is_empty() && steps < STEPS_MAX {
        history.step();
        steps += 1;
    }
    history.look();
    history.disk.heal();
    for (snapshot, model) in &history.snapshots {
        check(snapshot, model);
    }
    history.reopen(Loss::Nothing);
    let db = history.db.take().expect("it was just opened");
    db.settle().expect("the disk is whole");
    check(&db.snapshot(), &history.acknowledged);
    steps
}

fn dir() -> PathBuf {
    PathBuf::from("/db")
}

/// Keys with few distinct first bytes, some of them long, in the order of their numbers.
fn key(number: u8) -> Vec<u8> {
    let mut key = vec![b'k', number / 8, number % 8];
    if number.is_multiple_of(5) {
        key.extend([number; 20]);
    }
    key
}

/// Reads in every way and compares with the model.
fn check(snapshot: &Snapshot, model: &Model) {
    assert!(contents(snapshot) == *model, "iteration");
    let keys: Vec<Vec<u8>> = (0..KEYS + 2).map(key).collect();
    let mut found = vec![None; keys.len()];
    let mut answers = 0;
    let answer = |index: usize, value: Option<&[u8]>| {
        found[index] = value.map(<[u8]>::to_vec);
        answers += 1;
    };
    snapshot.get_sorted_batch(&keys, answer).expect("the disk does not fail when it is read");
    assert_eq!(answers, keys.len(), "each key is answered once");
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(found.as_ref(), model.get(key), "batch: {key:02x?}");
        assert_eq!(snapshot.get(key).expect("as above").as_ref(), model.get(key), "single: {key:02x?}");
    }
}

fn contents(snapshot: &Snapshot) -> Model {
    let mut iter = snapshot.iter().expect("the disk does not fail when it is read");
    let mut found = Model::new();
    while let Some((key, value)) = iter.next_record().expect("as above") {
        assert!(found.last_key_value().is_none_or(|(last, _)| **last < *key), "keys rise");
        found.insert(key.to_vec(), value.to_vec());
    }
    found
}

impl History<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    fn step(&mut self) {
        match self.next() % 10 {
            0 | 1 => self.commit(1),
            2 => {
                let parts = 2 + usize::from(self.next() % 3);
                self.commit(parts);
            }
            3 => self.work(|db| db.compact_now().map(drop)),
            4 => self.work(|db| db.plan_full_compaction()?.map_or(Ok(()), Compaction::run)),
            5 => self.work(Db::settle),
            6 => {
                self.reopen(Loss::Nothing);
                self.look();
            }
            7 if self.snapshots.len() < SNAPSHOTS_MAX => {
                let snapshot = self.db().snapshot();
                self.snapshots.push((snapshot, self.acknowledged.clone()));
            }
            8 => {
                let after = u64::from(self.next());
                self.disk.fail_at(self.disk.operations() + after, 1, Fault::Stop);
            }
            _ => {
                let after = u64::from(self.next());
                let times = u64::from(self.next() % 4);
                let fault = [Fault::NoSpace, Fault::Io, Fault::ReadOnly, Fault::Io][times as usize];
                self.disk.fail_at(self.disk.operations() + after, 1 + times / 2, fault);
            }
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between steps")
    }

    /// A commit of some records, as one batch or as a run of several tables.
    fn commit(&mut self, parts: usize) {
        let mut records = BTreeMap::new();
        for _ in 0..self.next() % 32 {
            let number = self.next() % KEYS;
            let bytes = self.next();
            records.insert(key(number), (!bytes.is_multiple_of(4)).then(|| vec![bytes; usize::from(bytes)]));
        }
        let records: Vec<Record> = records.into_iter().collect();
        let mut next = self.acknowledged.clone();
        for (key, value) in &records {
            match value {
                Some(value) => next.insert(key.clone(), value.clone()),
                None => next.remove(key),
            };
        }
        let result = match parts {
            1 => self.db().write(&records),
            _ => commit_in_parts(self.db(), &records, parts),
        };
        match result {
            // Without records nothing is written: the result of the commit before may still reappear.
            Ok(()) if records.is_empty() => {}
            Ok(()) => {
                self.acknowledged = next;
                self.possible.clear();
            }
            Err(why) => {
                self.possible.push(next);
                only_disk(&why);
            }
        }
        self.look();
    }

    /// Runs work that does not change the records.
    fn work(&mut self, work: impl FnOnce(&Db) -> Result<()>) {
        if let Err(why) = work(self.db()) {
            only_disk(&why);
        }
        self.look();
    }

    /// Reads everything. If the machine stopped, first reopens what the disk kept.
    fn look(&mut self) {
        if self.disk.is_stopped() {
            let loss = match self.next() % 4 {
                0 => Loss::Nothing,
                1 => Loss::Unsynced,
                seed => Loss::Random(seed.into()),
            };
            self.reopen(loss);
        }
        check(&self.db().snapshot(), &self.acknowledged);
    }

    fn reopen(&mut self, loss: Loss) {
        self.snapshots.clear();
        self.db = None;
        if self.disk.is_stopped() {
            self.disk = self.disk.reopen(loss);
        }
        self.disk.heal();
        let db = Db::open(self.disk.shared(), &dir(), TINY).expect("what was made is opened again");
        let found = contents(&db.snapshot());
        let is_known = found == self.acknowledged || self.possible.contains(&found);
        assert!(is_known, "neither what was committed nor what was being committed");
        check(&db.snapshot(), &found);
        self.acknowledged = found;
        self.possible.clear();
        self.db = Some(db);
    }
}

fn only_disk(why: &Error) {
    assert!(matches!(why, Error::Disk(_) | Error::Lock(_)), "only the disk can be wrong here: {why}");
}

/// Commits records, in order of their keys, as one run of `parts` tables, the last of them first, as threads might.
/// Compacts until a level is free.
///
/// # Errors
///
/// Errors are handled as for a commit and a compaction.
pub fn commit_in_parts(db: &Db, records: &[Record], parts: usize) -> Result<()> {
    let bytes: usize = records.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len) + 14).sum();
    while !db.has_room(bytes as u64 + 500) {
        db.compact_now()?;
    }
    let run = db.begin_run(bytes as u64 + 500)?;
    for part in records.chunks(records.len().div_ceil(parts).max(1)).rev() {
        let mut table = run.table();
        for (key, value) in part {
            match value {
                Some(value) => table.put(key, value)?,
                None => table.delete(key)?,
            }
        }
        table.finish()?;
    }
    db.commit(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn random_histories_match_a_map() {
        for seed in testkit::seeds(if testkit::is_slow() { 100_000 } else { 400 }) {
            let mut rng = Rng::new(seed);
            let mut data = rng.bytes(rng.clone().below(600));
            // Half of them without faults, so that levels fill.
            if seed.is_multiple_of(2) {
                data.iter_mut().for_each(|byte| *byte -= if *byte % 10 > 7 { 2 } else { 0 });
            }
            fuzz_history(&data);
        }
    }

    #[test]
    fn seeds_of_the_fuzzer_hold() {
        for seed in testkit::fuzz_seeds("history") {
            fuzz_history(&seed);
        }
    }
}
