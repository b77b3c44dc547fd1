//! How fast tables are built and committed, keys looked up, runs compacted.
//!
//! `cargo bench -p ffwd-leveldb`; under `cargo test` the same work is done small, and its results are
//! checked either way. Records are like coins: 34-byte keys that look random, 30-byte values.
//! Files lie in the system's directory for temporary files, and are in its cache when they are read.
//!
//! What one thread does alone is given in the time that it had the processor, so that a busy machine
//! disturbs less; what waits for the disk in the time that passed.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use disk::RealDisk;
use leveldb::{Db, Options, Snapshot};

const KEY_BYTES: usize = 34;
const VALUE: [u8; 30] = [0x5a; 30];
const RECORD_BYTES: u64 = 34 + 30 + 14;
/// Look-ups of one block.
const BATCH: usize = 5000;

type Key = [u8; KEY_BYTES];

fn main() {
    let bench = testkit::Bench::from_args();
    let count = bench.size(20_000, 6_000_000);
    println!("{count} records of {KEY_BYTES} and {} bytes", VALUE.len());
    let keys = keys(count);
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    for repeat in 0..bench.size(1, 3) {
        build(&keys, &dir.path().join(format!("build{repeat}")));
    }
    for run_count in [1, 3, 6, 8] {
        look_up(&keys, run_count, &dir.path().join(format!("runs{run_count}")));
    }
    compaction(&keys, &dir.path().join("compaction"));
}

/// Keys in order, spread over the whole range.
fn keys(count: usize) -> Vec<Key> {
    let mut keys: Vec<Key> = (0..count as u64).map(key).collect();
    keys.sort_unstable();
    keys
}

fn key(number: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    key[0] = b'C';
    for (index, piece) in key[1..33].chunks_exact_mut(8).enumerate() {
        piece.copy_from_slice(&mix(number * 4 + index as u64).to_be_bytes());
    }
    key
}

fn mix(number: u64) -> u64 {
    testkit::Rng::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64()
}

fn create(dir: &Path) -> Db {
    Db::create(RealDisk::shared(), dir, Options::default()).expect("the directory is new")
}

/// Commits the keys; gives the time to build the tables, and the time of the whole commit.
fn commit<'a>(db: &Db, keys: impl ExactSizeIterator<Item = &'a Key>) -> (Duration, Duration) {
    let begun = Instant::now();
    let run = db.begin_run(keys.len() as u64 * RECORD_BYTES).expect("there is room");
    let (built, ()) = timed(|| {
        let mut table = run.table();
        for key in keys {
            table.put(key, &VALUE).expect("the disk has room");
        }
        table.finish().expect("the disk has room");
    });
    db.commit(run).expect("the disk has room");
    (built, begun.elapsed())
}

/// Time that this thread had the processor, where the system tells; else time that passes.
fn cpu(epoch: Instant) -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = text.and_then(|text| text.split_whitespace().next()?.parse().ok());
    spent.map_or(epoch.elapsed(), Duration::from_nanos)
}

/// What `work` gives, and how long the processor had it.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let epoch = Instant::now();
    let begun = cpu(epoch);
    let result = work();
    (cpu(epoch).saturating_sub(begun), result)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ns(count: usize, time: Duration) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}

/// One thread builds and commits one run.
fn build(keys: &[Key], dir: &Path) {
    let db = create(dir);
    let (built, committed) = commit(&db, keys.iter());
    let bytes: u64 = db.snapshot().runs().iter().map(|run| run.bytes).sum();
    println!(
        "build: {:.2} M records/s; with fsync and edit {:.2} M records/s; {} MB",
        rate(keys.len(), built),
        rate(keys.len(), committed),
        bytes / 1_000_000
    );
    assert_eq!(db.get(&keys[keys.len() / 2]).expect("readable").as_deref(), Some(&VALUE[..]));
    std::fs::remove_dir_all(dir).expect("our own directory");
}

/// Look-ups by the number of runs in which the records lie.
fn look_up(keys: &[Key], run_count: usize, dir: &Path) {
    let db = create(dir);
    for run in 0..run_count {
        commit(&db, keys[run..].iter().step_by(run_count));
    }
    let snapshot = db.snapshot();
    assert_eq!(snapshot.run_count(), run_count);
    let batches = (keys.len() / BATCH).clamp(1, 200);
    let chosen: Vec<Vec<Key>> = (0..batches as u64)
        .map(|batch| {
            let index = |n| mix(batch << 32 | n) % keys.len() as u64;
            let index = |n| usize::try_from(index(n)).expect("an index");
            let mut chosen: Vec<Key> = (0..BATCH as u64).map(|n| keys[index(n)]).collect();
            chosen.sort_unstable();
            chosen
        })
        .collect();
    // The first round also checks every block, and maps it.
    let (cold, _) = batch(&snapshot, &chosen);
    let (warm, found) = batch(&snapshot, &chosen);
    assert_eq!(found, batches * BATCH);
    let (single, found) = singles(&snapshot, &chosen);
    assert_eq!(found, batches * BATCH);
    let absent: Vec<Vec<Key>> = chosen
        .iter()
        .map(|batch| batch.iter().map(|key| key.map(|byte| byte ^ 1)).collect())
        .map(|mut batch: Vec<Key>| {
            batch.iter_mut().for_each(|key| key[0] = b'C');
            batch.sort_unstable();
            batch
        })
        .collect();
    let (missed, found) = batch(&snapshot, &absent);
    assert_eq!(found, 0);
    println!(
        "{run_count} runs: batch {:.0} ns a key (first time {:.0}, absent {:.0}), single {:.0} ns; \
         index {} KB",
        ns(batches * BATCH, warm),
        ns(batches * BATCH, cold),
        ns(batches * BATCH, missed),
        ns(batches * BATCH, single),
        db.index_bytes() / 1000
    );
    drop((snapshot, db));
    std::fs::remove_dir_all(dir).expect("our own directory");
}

fn batch(snapshot: &Snapshot, batches: &[Vec<Key>]) -> (Duration, usize) {
    timed(|| {
        let mut found = 0;
        for keys in batches {
            let answer = |_, value: Option<&[u8]>| found += usize::from(black_box(value).is_some());
            snapshot.get_sorted_batch(keys, answer).expect("readable");
        }
        found
    })
}

fn singles(snapshot: &Snapshot, batches: &[Vec<Key>]) -> (Duration, usize) {
    // In an order that is not the tables'.
    let mut keys: Vec<&Key> = batches.iter().flatten().collect();
    keys.sort_by_key(|key| key[20..].to_vec());
    timed(|| {
        let get = |key: &&Key| black_box(snapshot.get(&key[..]).expect("readable")).is_some();
        keys.iter().filter(|key| get(key)).count()
    })
}

/// One thread compacts four runs, half of whose keys are in two of them; then all are read in order.
fn compaction(keys: &[Key], dir: &Path) {
    let db = create(dir);
    for start in [0, 1, 2, 1] {
        commit(&db, keys[start..].iter().step_by(3));
    }
    let compaction = db.plan_full_compaction().expect("readable").expect("several runs");
    let bytes = usize::try_from(compaction.bytes()).expect("fits into memory");
    let records = keys.len() / 3 * 4;
    let begun = Instant::now();
    let (seconds, ()) = timed(|| while compaction.step().expect("the disk has room") {});
    compaction.finish().expect("the disk has room");
    let finished = begun.elapsed();
    println!(
        "compaction: {:.0} MB/s read, {:.2} M records/s; with fsync and edit {:.0} MB/s",
        rate(bytes, seconds),
        rate(records, seconds),
        rate(bytes, finished)
    );
    let (scanned, count) = timed(|| {
        let mut iter = db.iter().expect("readable");
        let mut count = 0;
        while let Some((key, _)) = iter.next_record().expect("readable") {
            black_box(key);
            count += 1;
        }
        count
    });
    assert_eq!(count, keys.len());
    println!("scan: {:.2} M records/s", rate(count, scanned));
}
