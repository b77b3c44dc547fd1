//! Databases to test with, and what they should hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use leveldb::fuzz::commit_in_parts;
use leveldb::{Options, Snapshot};
use testkit::Rng;

/// What a database should hold.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A record of a commit: a value, or `None` to delete.
pub(crate) type Record = (Vec<u8>, Option<Vec<u8>>);

/// Tables and levels so small that a few thousand records use all of them.
pub(crate) const SMALL: Options =
    Options { table_bytes: 8 << 10, level1_bytes: 4 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };

pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/db")
}

/// A key like a coin's, but for its first bytes so few that they collide.
pub(crate) fn key(number: u64) -> Vec<u8> {
    let mut key = b"C".to_vec();
    key.extend_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key.resize(34, b'.');
    if number.is_multiple_of(7) {
        key.extend_from_slice(&[0x80, 0x01]);
    }
    key
}

/// A commit of `count` random records over `keys` keys; a third are tombstones.
pub(crate) fn commit(rng: &mut Rng, keys: u64, count: usize) -> Vec<Record> {
    let mut records = BTreeMap::new();
    for _ in 0..count {
        let number = rng.u64() % keys;
        let value = (rng.below(3) > 0).then(|| {
            let length = rng.below(60);
            vec![rng.u64().to_le_bytes()[0]; length]
        });
        records.insert(key(number), value);
    }
    records.into_iter().collect()
}

pub(crate) fn apply(model: &mut Model, records: &[Record]) {
    for (key, value) in records {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

pub(crate) fn contents(snapshot: &Snapshot) -> Model {
    let mut iter = snapshot.iter().unwrap();
    let mut found = Model::new();
    while let Some((key, value)) = iter.next_record().unwrap() {
        assert!(found.last_key_value().is_none_or(|(last, _)| **last < *key), "keys rise");
        found.insert(key.to_vec(), value.to_vec());
    }
    found
}

/// Every way to read gives the model: iteration, single look-ups, batches, ranges.
pub(crate) fn check(snapshot: &Snapshot, model: &Model, keys: u64) {
    assert!(contents(snapshot) == *model, "iteration");
    let mut all: Vec<Vec<u8>> = (0..keys + 5).map(key).collect();
    all.push(Vec::new());
    all.push(vec![0xff; 40]);
    all.push(all[0].clone());
    all.sort();
    let mut found = vec![None; all.len()];
    let mut answers = vec![0; all.len()];
    let answer = |index: usize, value: Option<&[u8]>| {
        found[index] = value.map(<[u8]>::to_vec);
        answers[index] += 1;
    };
    snapshot.get_sorted_batch(&all, answer).unwrap();
    assert!(answers.iter().all(|count| *count == 1), "each key is answered once");
    for (key, found) in all.iter().zip(&found) {
        assert_eq!(found.as_ref(), model.get(key), "batch: {key:02x?}");
        assert_eq!(snapshot.get(key).unwrap().as_ref(), model.get(key), "single: {key:02x?}");
    }
    for pair in all.windows(2).step_by(all.len() / 7 + 1) {
        let mut iter = snapshot.range(&pair[0], Some(&pair[1])).unwrap();
        let mut want = model.range(pair[0].clone()..pair[1].clone());
        while let Some((key, value)) = iter.next_record().unwrap() {
            assert_eq!(want.next(), Some((&key.to_vec(), &value.to_vec())));
        }
        assert_eq!(want.next(), None);
    }
}

/// What lies in a directory besides tables: for messages.
pub(crate) fn names(disk: &dyn disk::Disk, dir: &Path) -> Vec<String> {
    let list = disk.list(dir).unwrap();
    list.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}
