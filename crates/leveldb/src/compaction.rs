//! Compactions: neighbouring runs are merged into one in the background, during look-ups and commits.
//!
//! A compaction is divided by key ranges into sub-compactions, each about one table long by the indexes of all inputs.
//! Any thread may take the next one. The newest record of each key stays, with its sequence number. A tombstone is
//! dropped only if no older run is left below. When all sub-compactions are done, one edit swaps the runs. The old
//! files are removed when the last snapshot that holds them is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::coding::{KIND_VALUE, prefix_of};
use crate::cursor::Merged;
use crate::db::{Db, move_runs};
use crate::error::Result;
use crate::run::{Outputs, RunSlot, Writer};
use crate::version::{SortedRun, Version};

/// Samples of an input run for each table's length of it. The samples decide the ranges of the sub-compactions.
const SAMPLES: u64 = 256;

/// A compaction in progress. If it is dropped before [`Compaction::finish`], its files are removed.
#[derive(Debug)]
pub struct Compaction {
    db: Db,
    /// The runs to merge, newest first.
    inputs: Vec<SortedRun>,
    /// No older run is below, so tombstones can be dropped.
    is_lowest: bool,
    /// The first key of each sub-compaction.
    starts: Vec<Box<[u8]>>,
    next: AtomicUsize,
    done: AtomicUsize,
    outputs: Arc<Outputs>,
    _slot: RunSlot,
}

/// One key range in progress.
struct SubCompaction {
    merged: Merged,
    writer: Writer,
    /// Index in `starts` of the first key past this range.
    end: usize,
}

impl Db {
    /// Whether a compaction would shorten look-ups or keep commits from waiting.
    pub fn wants_compaction(&self) -> bool {
        self.0.limits.choose_compaction(&self.0.version().sizes()).is_some()
    }

    /// Begins the most urgent compaction; `None` if there is no need for one, or one is in progress.
    ///
    /// # Errors
    /// A table that cannot be opened; [`crate::Error::ReadOnly`].
    pub fn plan_compaction(&self) -> Result<Option<Compaction>> {
        let version = self.0.version();
        match self.0.limits.choose_compaction(&version.sizes()) {
            Some(range) => self.begin_compaction(&version, range),
            None => Ok(None),
        }
    }

    /// Begins a compaction of all runs into one; `None` if there is only one run, or a compaction is in progress.
    ///
    /// # Errors
    /// Those of [`Db::plan_compaction`].
    pub fn plan_full_compaction(&self) -> Result<Option<Compaction>> {
        let version = self.0.version();
        if version.runs.len() < 2 {
            return Ok(None);
        }
        self.begin_compaction(&version, 0..version.runs.len())
    }

    fn begin_compaction(&self, version: &Version, range: std::ops::Range<usize>) -> Result<Option<Compaction>> {
        drop(self.0.manifest()?);
        if self.0.has_compaction.swap(true, Ordering::Acquire) {
            return Ok(None);
        }
        let slot = RunSlot(self.0.has_compaction.clone());
        let is_lowest = range.end == version.runs.len();
        let inputs = version.runs[range].to_vec();
        let starts = subcompaction_starts(&inputs, self.0.options.table_bytes)?;
        let outputs = Outputs::new(&self.0.shared, &self.0.options, false)?;
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        Ok(Some(Compaction { db: self.clone(), inputs, is_lowest, starts, next, done, outputs, _slot: slot }))
    }

    /// Runs the most urgent compaction on this thread; `false` if there is no need for one, or one is in progress.
    ///
    /// # Errors
    /// Those of [`Compaction::step`] and [`Compaction::finish`].
    pub fn compact_now(&self) -> Result<bool> {
        match self.plan_compaction()? {
            Some(compaction) => compaction.run().map(|()| true),
            None => Ok(false),
        }
    }

    /// Leaves nothing for LevelDB to compact: fewer than four files in level 0, every level below its limit. For a
    /// clean shutdown; usually there is nothing to do.
    ///
    /// # Errors
    /// Those of [`Db::commit`] and [`Compaction::step`].
    ///
    /// # Panics
    /// If a compaction is in progress: finish or drop it first.
    pub fn settle(&self) -> Result<()> {
        let inner = &self.0;
        loop {
            let sizes = inner.version().sizes();
            if !inner.limits.would_compact(&sizes) {
                return Ok(());
            }
            if let Some(levels) = inner.limits.deepest(&sizes) {
                return self.move_to(levels);
            }
            let has_compacted = self.compact_now()?;
            assert!(has_compacted, "no compaction is under way when a database is settled");
        }
    }

    /// Moves all runs to new levels. No commit or compaction may be in progress.
    fn move_to(&self, levels: Vec<usize>) -> Result<()> {
        let mut manifest = self.0.manifest()?;
        let version = self.0.version();
        manifest.make_ready(&self.0.shared, &version)?;
        let mut runs = version.runs.clone();
        let mut edit = self.0.edit(manifest.last_sequence);
        move_runs(&mut runs, Some(levels), &mut edit);
        manifest.append(&edit, &[])?;
        self.0.set_version(Version { runs });
        Ok(())
    }
}

impl Compaction {
    /// Bytes that the compaction reads, and the maximum that it writes.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(SortedRun::bytes).sum()
    }

    /// Total number of sub-compactions.
    pub fn subcompaction_count(&self) -> usize {
        self.starts.len()
    }

    /// Runs the next sub-compaction; `false` if all are taken. Several threads may call this at once. The compaction
    /// can be finished when all of them have returned.
    ///
    /// # Errors
    /// A damaged table, or an I/O error; drop the compaction then.
    pub fn step(&self) -> Result<bool> {
        let Some(mut sub) = self.begin_sub()? else {
            return Ok(false);
        };
        while !self.advance(&mut sub, usize::MAX)? {}
        self.end_sub(sub)?;
        Ok(true)
    }

    /// Takes the next sub-compaction, if there is one.
    fn begin_sub(&self) -> Result<Option<SubCompaction>> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(start) = self.starts.get(index) else {
            return Ok(None);
        };
        let merged = Merged::seek(&self.inputs, start)?;
        Ok(Some(SubCompaction { merged, writer: self.outputs.writer(), end: index + 1 }))
    }

    /// Merges up to `records` records of a sub-compaction; returns whether it is at its end.
    fn advance(&self, sub: &mut SubCompaction, records: usize) -> Result<bool> {
        let end = self.starts.get(sub.end).map(|end| (prefix_of(end), end));
        for _ in 0..records {
            let Some(cursor) = sub.merged.advance()? else {
                return Ok(true);
            };
            if end.is_some_and(|(prefix, end)| cursor.prefix() >= prefix && *cursor.user_key() >= **end) {
                return Ok(true);
            }
            if !self.is_lowest || cursor.tag() & 0xff == KIND_VALUE {
                sub.writer.add(cursor.user_key(), cursor.tag(), cursor.value())?;
            }
        }
        Ok(false)
    }

    fn end_sub(&self, sub: SubCompaction) -> Result<()> {
        sub.writer.finish()?;
        self.done.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Makes the tables finished so far durable, as `Run::sync`.
    ///
    /// # Errors
    /// An I/O error; drop the compaction then.
    pub fn sync(&self) -> Result<()> {
        self.outputs.sync()
    }

    /// Replaces the old runs by the new one, in one durable edit.
    ///
    /// # Errors
    /// The old runs stay; the compaction may be planned again.
    ///
    /// # Panics
    /// If a sub-compaction was not done.
    pub fn finish(self) -> Result<()> {
        let is_done = self.done.load(Ordering::Acquire) == self.starts.len();
        assert!(is_done, "a compaction is finished when all its sub-compactions are done");
        let inner = &self.db.0;
        self.outputs.close()?;
        self.outputs.sync()?;
        inner.shared.disk.sync_dir(&inner.shared.dir)?;
        let mut manifest = inner.manifest()?;
        let version = inner.version();
        manifest.make_ready(&inner.shared, &version)?;

        let first = self.inputs[0].files[0].meta.number;
        let is_first = |run: &SortedRun| run.files[0].meta.number == first;
        let start = version.runs.iter().position(is_first).expect("only a compaction removes runs");
        let range = start..start + self.inputs.len();
        let sizes = version.sizes();
        let levels = inner
            .limits
            .place_compacted(&sizes, &range, self.outputs.bytes())
            .ok_or_else(|| inner.compact_first(&sizes))?;
        let files = self.outputs.take();
        let mut edit = inner.edit(manifest.last_sequence);
        let mut runs = version.runs.clone();
        let old: Vec<SortedRun> = runs.splice(range, [SortedRun { level: 0, files }]).collect();
        for run in &old {
            edit.deleted.extend(run.files.iter().map(|file| (run.level, file.meta.number)));
        }
        let files = runs[start].files.clone();
        runs[start].level = levels[start];
        edit.added.extend(files.iter().map(|file| (levels[start], file.meta.clone())));
        move_runs(&mut runs, Some(levels), &mut edit);
        if files.is_empty() {
            runs.remove(start);
        }
        manifest.append(&edit, &files)?;
        inner.set_version(Version { runs });
        drop(manifest);
        for file in old.iter().flat_map(|run| &run.files) {
            file.set_obsolete();
        }
        let db = self.db.clone();
        drop((old, version, self));
        db.0.shared.remove_garbage();
        Ok(())
    }

    /// Runs all sub-compactions, then finishes.
    ///
    /// # Errors
    /// Those of [`Compaction::step`] and [`Compaction::finish`].
    pub fn run(self) -> Result<()> {
        while self.step()? {}
        self.finish()
    }
}

/// The first keys of sub-compactions of somewhat less than `table_bytes` of input each, so that each makes one table.
///
/// Sizes are exact to one sample of each run, the length of a few blocks.
fn subcompaction_starts(inputs: &[SortedRun], table_bytes: u64) -> Result<Vec<Box<[u8]>>> {
    let bytes_max = table_bytes - table_bytes / 16;
    let sample_bytes = table_bytes / SAMPLES;
    let mut samples: Vec<(&[u8], u64)> = Vec::new();
    for run in inputs {
        let mut since = 0;
        for file in &run.files {
            let table = file.table()?;
            for block in 0..table.block_count() {
                since += table.handle(block).bytes;
                if since >= sample_bytes {
                    // The index key of the last block may be far above its keys.
                    let is_last = block + 1 == table.block_count();
                    samples.push((if is_last { file.last_key() } else { table.block_end(block) }, since));
                    since = 0;
                }
            }
        }
    }
    samples.sort_unstable();
    let mut starts: Vec<Box<[u8]>> = vec![Box::default()];
    let mut since = 0;
    for (key, bytes) in samples {
        since += bytes;
        if since >= bytes_max && starts.last().is_none_or(|last| **last < *key) {
            starts.push(key.into());
            since = 0;
        }
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Options;
    use crate::coding::mask;
    use crate::table::Table;
    use disk::{Disk, SimDisk};

    use std::collections::{BTreeMap, BTreeSet};
    use testkit::Rng;

    const TINY: Options =
        Options { table_bytes: 1 << 10, level1_bytes: 1 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };

    fn key(number: u8) -> [u8; 3] {
        [b'k', number, b'.']
    }

    /// Reads and compacts what is there; faults are welcome, panics are not.
    fn use_all(disk: &SimDisk) -> Result<()> {
        let db = Db::open(disk.shared(), Path::new("/db"), TINY)?;
        let _ = (0..=255).try_for_each(|number| db.get(&key(number)).map(|_| ()));
        let keys: Vec<_> = (0..=255).map(key).collect();
        let _ = db.snapshot().get_sorted_batch(&keys, |_, _| ());
        if let Ok(mut iter) = db.iter() {
            while let Ok(Some(_)) = iter.next_record() {}
        }
        match db.plan_full_compaction()? {
            Some(compaction) => compaction.run(),
            None => Ok(()),
        }
    }

    /// Blocks whose checksums are right and whose contents are anything: as a hostile directory has.
    #[test]
    fn compaction_of_false_contents_under_a_right_checksum_is_a_fault_not_a_panic() {
        let disk = SimDisk::new(0);
        let db = Db::create(disk.shared(), Path::new("/db"), TINY).unwrap();
        for start in 0..3_u8 {
            let numbers = (start..=255).step_by(4);
            let records: Vec<_> = numbers.map(|number| (key(number), Some([7; 9]))).collect();
            db.write(&records).unwrap();
        }
        let path = db.snapshot().0.runs[1].files[0].path.clone();
        drop(db);
        let good = disk.open(&path).unwrap().bytes().unwrap().to_vec();
        let blocks: Vec<_> = {
            let table = Table::open(&path, good.clone().into(), None, kernels::Kernels::AUTO).unwrap();
            (0..table.block_count()).map(|index| table.handle(index)).collect()
        };
        let (mut faults, mut tries) = (0, 0);
        for handle in blocks {
            let start = usize::try_from(handle.offset).unwrap();
            let end = start + usize::try_from(handle.bytes).unwrap();
            for at in start..end {
                for value in [0, 0x80, good[at] ^ 4] {
                    let mut bad = good.clone();
                    bad[at] = value;
                    let crc = mask(kernels::crc32c::crc32c(&bad[start..=end]));
                    bad[end + 1..end + 5].copy_from_slice(&crc.to_le_bytes());
                    let disk = disk.reopen(disk::Loss::Nothing);
                    disk.modify(&path).unwrap().write_at(0, &bad).unwrap();
                    if let Err(why) = use_all(&disk) {
                        assert!(why.is_damage(), "{why}");
                        faults += 1;
                    }
                    tries += 1;
                }
            }
        }
        assert!(faults > tries / 8, "{faults} of {tries} were noticed");
    }

    type Records = BTreeMap<Vec<u8>, Vec<u8>>;

    /// A database of several runs with keys in common and tombstones, and what is in it.
    fn several_runs() -> (SimDisk, Records) {
        let disk = SimDisk::new(0);
        let db = Db::create(disk.shared(), Path::new("/db"), TINY).unwrap();
        let (mut rng, mut model) = (Rng::new(3), Records::new());
        for round in 0..4_u8 {
            let mut records: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
            for _ in 0..60 {
                let value = (!rng.one_in(5)).then(|| vec![round; 5 + rng.below(40)]);
                records.insert(key(rng.below(200) as u8).to_vec(), value);
            }
            for (key, value) in &records {
                match value {
                    Some(value) => _ = model.insert(key.clone(), value.clone()),
                    None => _ = model.remove(key),
                }
            }
            db.write(&records.into_iter().collect::<Vec<_>>()).unwrap();
        }
        (disk, model)
    }

    fn contents(db: &Db) -> Records {
        let (mut iter, mut all) = (db.iter().unwrap(), Records::new());
        while let Some((key, value)) = iter.next_record().unwrap() {
            all.insert(key.to_vec(), value.to_vec());
        }
        all
    }

    /// Compacts everything as several workers do: by turns, a few records each.
    fn compact_by_turns(db: &Db, workers: usize, rng: &mut Rng) -> Result<usize> {
        let compaction = db.plan_full_compaction()?.expect("several runs");
        let (mut subs, mut most) = (Vec::new(), 0);
        loop {
            while subs.len() < workers
                && let Some(sub) = compaction.begin_sub()?
            {
                subs.push(sub);
            }
            most = most.max(subs.len());
            if subs.is_empty() {
                compaction.finish()?;
                return Ok(most);
            }
            let at = rng.below(subs.len());
            if compaction.advance(&mut subs[at], 1 + rng.below(12))? {
                compaction.end_sub(subs.swap_remove(at))?;
                if rng.one_in(3) {
                    compaction.sync()?;
                }
            }
        }
    }

    #[test]
    fn stop_at_any_operation_of_a_compaction_by_several_workers_loses_nothing() {
        let (base, model) = several_runs();
        for (seed, workers) in [(1, 2), (2, 4)] {
            let begin = || {
                let disk = base.reopen(disk::Loss::Nothing);
                let db = Db::open(disk.shared(), Path::new("/db"), TINY).unwrap();
                (disk, db)
            };
            let (whole, db) = begin();
            let begun = whole.operations();
            assert_eq!(compact_by_turns(&db, workers, &mut Rng::new(seed)).unwrap(), workers, "all at once");
            let operations = whole.operations() - begun;
            assert_eq!((contents(&db), db.snapshot().run_count()), (model.clone(), 1));
            let mut stopped = 0;
            for operation in 0..operations {
                let (disk, db) = begin();
                disk.fail_at(disk.operations() + operation, 1, disk::Fault::Stop);
                // Behind the edit old files are removed, which may fail.
                stopped += u64::from(compact_by_turns(&db, workers, &mut Rng::new(seed)).is_err());
                drop(db);
                for loss in [disk::Loss::Nothing, disk::Loss::Unsynced, disk::Loss::Random(operation)] {
                    let left = disk.reopen(loss);
                    let db = Db::open(left.shared(), Path::new("/db"), TINY).unwrap();
                    assert_eq!(contents(&db), model, "stopped at {operation} of {operations}, {loss:?}");
                    if operation % 8 == 0 && db.snapshot().run_count() > 1 {
                        compact_by_turns(&db, workers, &mut Rng::new(seed)).unwrap();
                        assert_eq!(contents(&db), model, "and goes on, {operation}, {loss:?}");
                    }
                }
            }
            assert!(stopped >= operations / 2, "{stopped} of {operations}");
        }
    }

    /// Runs that lie apart, above each other, one much longer than the other: the parts are alike, and each makes one
    /// table.
    #[test]
    fn sub_compactions_have_equal_bytes_of_all_inputs() {
        let options = Options {
            table_bytes: 256 << 10,
            level1_bytes: 1 << 20,
            has_filters: true,
            kernels: kernels::Kernels::AUTO,
        };
        let disk = SimDisk::new(0);
        let db = Db::create(disk.shared(), Path::new("/db"), options).unwrap();
        for range in [0..12_000_u32, 1600..4000, 8000..24_000, 23_200..24_000] {
            let records: Vec<_> = range.map(|number| (number.to_be_bytes(), Some([1; 90]))).collect();
            db.write(&records).unwrap();
        }
        let compaction = db.plan_full_compaction().unwrap().unwrap();
        let bytes = compaction.bytes();
        let count = compaction.subcompaction_count();
        let least = usize::try_from(bytes / (256 << 10)).unwrap();
        assert!((least..=least + 2).contains(&count), "{count} for {bytes} bytes");
        compaction.run().unwrap();
        let files: Vec<u64> = db.0.version().files().map(|(_, file)| file.meta.bytes).collect();
        let small = files.iter().filter(|bytes| **bytes < 64 << 10).count();
        assert!(small <= 1 && files.iter().all(|bytes| *bytes < 300 << 10), "{files:?}");
    }

    /// Bytes that are written for each byte of 300 commits, on the disk: within what `levels` states for it.
    #[test]
    fn write_amplification_of_300_generations_is_bounded() {
        let options =
            Options { table_bytes: 8 << 10, level1_bytes: 4 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };
        let disk = SimDisk::new(0);
        let db = Db::create(disk.shared(), Path::new("/db"), options).unwrap();
        let (mut seen, mut written, mut committed) = (BTreeSet::new(), 0, 0);
        let mut count_new = || -> u64 {
            let version = db.0.version();
            version.files().filter(|(_, file)| seen.insert(file.meta.number)).map(|(_, file)| file.meta.bytes).sum()
        };
        let mut rng = Rng::new(9);
        for generation in 0..300_u64 {
            let mut records: Vec<_> = (0..24).map(|_| (rng.u64().to_be_bytes(), Some([2; 40]))).collect();
            records.sort_unstable();
            db.write(&records).unwrap();
            let bytes = count_new();
            (written, committed) = (written + bytes, committed + bytes);
            // As the node does it: beside the blocks, sometimes late.
            while generation % 3 != 0 && db.compact_now().unwrap() {
                written += count_new();
            }
            written += count_new();
        }
        let factor = written * 100 / committed;
        println!("{factor} bytes written for each 100 of 300 commits");
        assert!((200..850).contains(&factor), "{factor} %");
        db.settle().unwrap();
        assert!(!db.0.limits.would_compact(&db.0.version().sizes()));
    }
}
