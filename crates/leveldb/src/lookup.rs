//! Look-ups in a snapshot: single, in sorted batches, and in order.

use std::sync::Arc;

use crate::block::{Block, Found};
use crate::bloom::hash;
use crate::coding::{KIND_VALUE, prefix_of};
use crate::cursor::Merged;
use crate::error::Result;
use crate::read_ahead::{AdaptiveReadAhead, PROBE_MIN};
use crate::table::Table;
use crate::version::{SortedRun, Version};

/// The database at one instant. Clones are cheap; the tables stay as long as a clone exists.
#[derive(Clone, Debug)]
pub struct Snapshot(pub(crate) Arc<Version>);

/// Prior knowledge of the keys of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Unknown: the filters of all runs are read.
    Unknown,
    /// Most keys exist. A key that no newer run contains is in the oldest, whose blocks must be read whatever its
    /// filters say. So the oldest run's filters are not read, and most filters need no memory.
    Present,
}

/// Look-ups of a batch in progress at once: enough for the memory latencies to overlap.
pub(crate) const GROUP: usize = 32;
/// Runs that a single look-up prefetches at once: all of them, except in directories of other programs.
const RUNS_AT_ONCE: usize = 9;

/// A key of a batch that has no answer yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingKey {
    pub(crate) index: usize,
    pub(crate) hash: u32,
}

/// A block of a run that may contain a key.
#[derive(Clone, Copy)]
pub(crate) struct BlockRef<'a> {
    pub(crate) table: &'a Table,
    pub(crate) block: usize,
}

impl<'a> BlockRef<'a> {
    pub(crate) fn is_same(&self, other: &BlockRef<'_>) -> bool {
        std::ptr::eq(self.table, other.table) && self.block == other.block
    }

    fn find(self, key: &[u8]) -> Result<Found<'a>> {
        let block = self.table.block(self.block)?;
        block.find(key).ok_or_else(|| self.table.not_a_block(self.block))
    }

    /// Finds the key's place in the block and prefetches it.
    fn seek(self, key: &[u8]) -> Result<SeekPos<'a>> {
        let block = self.table.block(self.block)?;
        let offset = block.seek(key).ok_or_else(|| self.table.not_a_block(self.block))?;
        block.prefetch(self.table.kernels(), offset);
        Ok(SeekPos { block_ref: self, block, offset })
    }
}

/// The place in a block where a key would be.
#[derive(Clone, Copy)]
struct SeekPos<'a> {
    block_ref: BlockRef<'a>,
    block: Block<'a>,
    offset: usize,
}

impl<'a> SeekPos<'a> {
    fn find(self, key: &[u8]) -> Result<Found<'a>> {
        let found = self.block.scan(self.offset, key);
        found.ok_or_else(|| self.block_ref.table.not_a_block(self.block_ref.block))
    }
}

impl Snapshot {
    /// The value of `key`, copied.
    ///
    /// # Errors
    /// A table that cannot be read or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let hash = hash(key);
        for runs in self.0.runs.chunks(RUNS_AT_ONCE) {
            // The filters of all runs are prefetched before the first is read.
            let mut blocks = [const { None }; RUNS_AT_ONCE];
            for (run, block_ref) in runs.iter().zip(&mut blocks) {
                *block_ref = RunWalk::new(run).find_block(key)?;
                if let Some(BlockRef { table, block }) = block_ref {
                    table.prefetch_filter_place(*block);
                }
            }
            for BlockRef { table, block } in blocks.iter().flatten() {
                table.prefetch_filter(*block);
            }
            for block_ref in blocks.into_iter().flatten() {
                if !block_ref.table.may_hold(block_ref.block, hash) {
                    continue;
                }
                match block_ref.find(key)? {
                    Found::Value(value) => return Ok(Some(value.to_vec())),
                    Found::Deleted => return Ok(None),
                    Found::Absent => {}
                }
            }
        }
        Ok(None)
    }

    /// Looks up many keys in ascending order (duplicates allowed). Calls `answer` once for each key with its index in
    /// `keys`, in any order.
    ///
    /// # Errors
    /// A table that cannot be read or is damaged; some keys may have been answered.
    ///
    /// # Panics
    /// If the keys are not in order.
    pub fn get_sorted_batch<K: AsRef<[u8]>>(&self, keys: &[K], answer: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        if self.wants_read_ahead() {
            self.ask_for_blocks(keys)?;
        }
        self.get_sorted_batch_now(keys, Expected::Unknown, answer)
    }

    /// Whether blocks of recent batches were not in memory: then call [`Snapshot::read_ahead`] before
    /// [`Snapshot::get_sorted_batch_now`]. Each call counts as a batch.
    pub fn wants_read_ahead(&self) -> bool {
        self.read_ahead_state().is_some_and(AdaptiveReadAhead::is_on)
    }

    /// Reads every block that a look-up of these keys needs into memory, all at once, and waits for them. Returns the
    /// number of blocks that were not in memory. The calling thread waits for the disk. The keys may come in any order;
    /// ascending is fastest.
    ///
    /// # Errors
    /// A table that cannot be read or is damaged.
    pub fn read_ahead<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize> {
        let missing = self.ask_for_blocks(keys)?;
        for BlockRef { table, block } in &missing {
            table.wait_for_block(*block);
        }
        if let Some(read_ahead) = self.read_ahead_state() {
            read_ahead.note_missing(missing.len());
        }
        Ok(missing.len())
    }

    pub(crate) fn read_ahead_state(&self) -> Option<&AdaptiveReadAhead> {
        self.0.runs.first().and_then(|run| run.files.first()).map(|file| file.read_ahead())
    }

    /// Requests the blocks from the disk that may contain the keys and are not in memory. For a key that may be in
    /// several runs all of its blocks are requested: thanks to the filters rarely more than the one that contains it.
    #[cold]
    fn ask_for_blocks<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<BlockRef<'_>>> {
        let mut missing = Vec::new();
        for run in &self.0.runs {
            let mut walk = RunWalk::new(run);
            let mut last: Option<BlockRef<'_>> = None;
            for key in keys {
                let key = key.as_ref();
                let Some(found) = walk.find_block(key)? else { continue };
                let is_same = last.is_some_and(|last| last.is_same(&found));
                if !is_same && found.table.may_hold(found.block, hash(key)) {
                    last = Some(found);
                    if found.table.ask_for_block(found.block) {
                        missing.push(found);
                    }
                }
            }
        }
        Ok(missing)
    }

    /// [`Snapshot::get_sorted_batch`] for keys whose blocks were read ahead, or are most likely in memory.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_sorted_batch`].
    ///
    /// # Panics
    /// Those of [`Snapshot::get_sorted_batch`].
    pub fn get_sorted_batch_now<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        expected: Expected,
        mut answer: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        assert!(keys.is_sorted_by_key(AsRef::as_ref), "the keys of a batch rise");
        let pending_key = |(index, key): (usize, &K)| PendingKey { index, hash: hash(key.as_ref()) };
        let mut pending: Vec<PendingKey> = keys.iter().enumerate().map(pending_key).collect();
        for mut walk in RunWalk::of_all(&self.0.runs, expected) {
            if pending.is_empty() {
                break;
            }
            let mut kept = 0;
            let mut probe = (pending.len() >= PROBE_MIN).then(sys::faults::major_faults);
            for start in (0..pending.len()).step_by(GROUP) {
                let end = pending.len().min(start + GROUP);
                if start > 0
                    && let Some(before) = probe.take()
                    && self.note_faults(before)
                {
                    self.ask_for_blocks(keys)?;
                }
                let positions = walk.group(keys, &pending[start..end])?;
                for index in start..end {
                    let pending_key = pending[index];
                    let found = match positions[index - start] {
                        None => Found::Absent,
                        Some(position) => position.find(keys[pending_key.index].as_ref())?,
                    };
                    match found {
                        Found::Value(value) => answer(pending_key.index, Some(value)),
                        Found::Deleted => answer(pending_key.index, None),
                        Found::Absent => {
                            pending[kept] = pending_key;
                            kept += 1;
                        }
                    }
                }
            }
            pending.truncate(kept);
            if let Some(before) = probe {
                // There was only one group, so its faults count for the next batch.
                self.note_faults(before);
            }
        }
        for pending_key in pending {
            answer(pending_key.index, None);
        }
        Ok(())
    }

    /// Reports the major faults since `before`; returns whether they are enough to make reading ahead worthwhile.
    fn note_faults(&self, before: u64) -> bool {
        let faults = sys::faults::major_faults() - before;
        self.read_ahead_state().is_some_and(|read_ahead| read_ahead.note_faults(faults))
    }

    /// All records in key order.
    ///
    /// # Errors
    /// Those of [`Snapshot::range`].
    pub fn iter(&self) -> Result<Iter> {
        self.range(&[], None)
    }

    /// The records from key `start` (included) to `end` (excluded; `None`: to the last).
    ///
    /// # Errors
    /// A table that cannot be read or is damaged.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Result<Iter> {
        let merged = Merged::seek(&self.0.runs, start)?;
        Ok(Iter { merged, end: end.map(Into::into), is_done: false, _held: self.clone() })
    }

    /// Maximum number of runs that a look-up may read.
    pub fn run_count(&self) -> usize {
        self.0.runs.len()
    }

    /// The runs, newest first.
    pub fn runs(&self) -> Vec<RunInfo> {
        let info = |run: &SortedRun| RunInfo { level: run.level, file_count: run.files.len(), bytes: run.bytes() };
        self.0.runs.iter().map(info).collect()
    }
}

/// One run's level and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// The level, 0 to 6.
    pub level: usize,
    /// Number of tables.
    pub file_count: usize,
    /// Bytes of all tables.
    pub bytes: u64,
}

/// A walk through one run with the keys of a batch.
#[derive(Clone)]
pub(crate) struct RunWalk<'a> {
    run: &'a SortedRun,
    /// No later key is before this file.
    file: usize,
    /// Whether the filters are read: see [`Expected`].
    asks_filters: bool,
}

impl<'a> RunWalk<'a> {
    pub(crate) fn new(run: &'a SortedRun) -> RunWalk<'a> {
        RunWalk { run, file: 0, asks_filters: true }
    }

    /// One walk for each run, newest first.
    pub(crate) fn of_all(runs: &'a [SortedRun], expected: Expected) -> impl Iterator<Item = RunWalk<'a>> {
        let asks_filters = move |run| expected == Expected::Unknown || run + 1 < runs.len();
        runs.iter()
            .enumerate()
            .map(move |(run, tables)| RunWalk { asks_filters: asks_filters(run), ..RunWalk::new(tables) })
    }

    /// Finds the blocks that may contain the keys of one group; each step prefetches the data of the next. No data
    /// block is read.
    pub(crate) fn blocks<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        pending: &[PendingKey],
    ) -> Result<[Option<BlockRef<'a>>; GROUP]> {
        let mut searches = [const { None }; GROUP];
        for (pending_key, search) in pending.iter().zip(&mut searches) {
            let key = keys[pending_key.index].as_ref();
            *search = self.find_table(key)?.map(|table| (table, table.begin_search(key)));
        }
        let mut found = [const { None }; GROUP];
        let blocks = &mut found[..pending.len()];
        for ((pending_key, search), block_ref) in pending.iter().zip(searches).zip(blocks.iter_mut()) {
            let Some((table, search)) = search else { continue };
            let block = table.end_search(keys[pending_key.index].as_ref(), search);
            if block < table.block_count() {
                if self.asks_filters {
                    table.prefetch_filter_place(block);
                }
                *block_ref = Some(BlockRef { table, block });
            }
        }
        if !self.asks_filters {
            return Ok(found);
        }
        for BlockRef { table, block } in blocks.iter().flatten() {
            table.prefetch_filter(*block);
        }
        for (pending_key, block_ref) in pending.iter().zip(blocks.iter_mut()) {
            *block_ref = block_ref.filter(|BlockRef { table, block }| table.may_hold(*block, pending_key.hash));
        }
        Ok(found)
    }

    /// Finds the places of the keys of one group in their blocks, as [`RunWalk::blocks`] does.
    fn group<K: AsRef<[u8]>>(&mut self, keys: &[K], pending: &[PendingKey]) -> Result<[Option<SeekPos<'a>>; GROUP]> {
        let blocks = self.blocks(keys, pending)?;
        for BlockRef { table, block } in blocks.iter().flatten() {
            table.prefetch_restarts(*block);
        }
        for BlockRef { table, block } in blocks.iter().flatten() {
            table.prefetch_entries(*block);
        }
        let mut positions = [const { None }; GROUP];
        for ((pending_key, block_ref), position) in pending.iter().zip(blocks.iter()).zip(&mut positions) {
            if let Some(block_ref) = block_ref {
                *position = Some(block_ref.seek(keys[pending_key.index].as_ref())?);
            }
        }
        Ok(positions)
    }

    /// The table that contains `key`, if any of the run does.
    fn find_table(&mut self, key: &[u8]) -> Result<Option<&'a Table>> {
        let files = &self.run.files;
        let prefix = prefix_of(key);
        if files.get(self.file).is_some_and(|file| file.ends_before(key, prefix)) {
            self.file = self.run.find_file(key, self.file + 1);
        } else if self.file > 0 && files.get(self.file - 1).is_some_and(|file| !file.ends_before(key, prefix)) {
            // Keys are not in ascending order: restart from the beginning.
            self.file = self.run.find_file(key, 0);
        }
        match files.get(self.file).filter(|file| !file.begins_behind(key, prefix)) {
            Some(file) => file.table().map(Some),
            None => Ok(None),
        }
    }

    /// Whether a block may contain a key with this hash, if the run's filters are read at all.
    pub(crate) fn may_hold(&self, at: BlockRef<'_>, hash: u32) -> bool {
        !self.asks_filters || at.table.may_hold(at.block, hash)
    }

    pub(crate) fn find_block(&mut self, key: &[u8]) -> Result<Option<BlockRef<'a>>> {
        let Some(table) = self.find_table(key)? else {
            return Ok(None);
        };
        let block = table.find_block(key);
        Ok((block < table.block_count()).then_some(BlockRef { table, block }))
    }
}

/// Records of a snapshot in key order.
#[derive(Debug)]
pub struct Iter {
    merged: Merged,
    end: Option<Box<[u8]>>,
    is_done: bool,
    _held: Snapshot,
}

impl Iter {
    /// The next key and its value; `None` past the last.
    ///
    /// # Errors
    /// A table that cannot be read or is damaged; the iteration is over then.
    pub fn next_record(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while !self.is_done {
            // The iteration counts as over until this step has succeeded.
            self.is_done = true;
            let Some(cursor) = self.merged.advance()? else {
                break;
            };
            if self.end.as_deref().is_some_and(|end| cursor.user_key() >= end) {
                break;
            }
            self.is_done = false;
            if cursor.tag() & 0xff == KIND_VALUE {
                let cursor = self.merged.current();
                return Ok(Some((cursor.user_key(), cursor.value())));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::Expected;
    use crate::read_ahead::{FAULTS_MIN, READ_AHEAD_BATCHES};
    use crate::{Db, Options};
    use disk::RealDisk;

    /// Read ahead or not, a batch has the same answers: what is asked of the disk is advice.
    #[test]
    #[cfg_attr(miri, ignore = "maps of files")]
    fn sorted_batch_answers_do_not_depend_on_read_ahead() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { table_bytes: 40_000, ..Options::default() };
        let db = Db::create(RealDisk::shared(), &directory.path().join("db"), options).unwrap();
        let key = |n: u32| n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        for run in 0..3_u32 {
            let mut records: Vec<_> =
                (run * 1000..run * 1000 + 4000).map(|n| (key(n), Some([n.to_le_bytes()[0]; 40]))).collect();
            records.extend((0..500).map(|n| (key(n * 7 + run), None)));
            records.sort_by_key(|record| record.0);
            records.dedup_by_key(|record| record.0);
            db.write(&records).unwrap();
        }
        let snapshot = db.snapshot();
        let mut keys: Vec<_> = (0..9000).step_by(3).map(key).collect();
        keys.sort_unstable();
        let ask = || {
            let mut answers = vec![None; keys.len()];
            snapshot.get_sorted_batch(&keys, |index, value| answers[index] = value.map(<[u8]>::to_vec)).unwrap();
            answers
        };
        let plain = ask();
        while snapshot.wants_read_ahead() {}
        assert_eq!(ask(), plain);
        assert!(plain.iter().flatten().count() > 1000 && plain.contains(&None));
        let read_ahead = snapshot.read_ahead_state().unwrap();
        assert!(read_ahead.note_faults(FAULTS_MIN));
        assert_eq!(ask(), plain);
        assert!(
            (1..READ_AHEAD_BATCHES).all(|_| read_ahead.is_on()) && !read_ahead.is_on(),
            "it was used, once a batch"
        );
        assert_eq!(snapshot.read_ahead(&keys).unwrap(), 0, "what was just read is in memory");
        assert!(!snapshot.wants_read_ahead());
        assert_eq!(ask(), plain);
        let fallen: Vec<_> = keys.iter().rev().collect();
        assert_eq!(snapshot.read_ahead(&fallen).unwrap(), 0, "in any order");
    }

    /// What the system has dropped from memory is there when the read-ahead ends.
    #[test]
    #[cfg_attr(miri, ignore = "maps of files")]
    fn read_ahead_brings_blocks_that_are_not_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let disk = RealDisk::shared();
        let db = Db::create(disk.clone(), &path, Options { table_bytes: 200_000, ..Options::default() }).unwrap();
        let key = |n: u32| n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        let mut records: Vec<_> = (0..20_000).map(|n| (key(n), Some([n.to_le_bytes()[0]; 40]))).collect();
        records.sort_by_key(|record| record.0);
        db.write(&records).unwrap();
        drop(db);
        for entry in disk.list(&path).unwrap() {
            let file = disk.open(&path.join(entry.name)).unwrap();
            file.drop_page_cache(0, file.len().unwrap());
        }
        let db = Db::open_read_only(disk, &path).unwrap();
        let snapshot = db.snapshot();
        let mut keys: Vec<_> = (0..20_000).step_by(50).map(key).collect();
        keys.sort_unstable();
        assert!(snapshot.wants_read_ahead(), "at first");
        let missing = snapshot.read_ahead(&keys).unwrap();
        if missing == 0 {
            println!("skipped: this file system keeps its files in memory");
        }
        assert!(missing <= keys.len(), "no more than one block a key");
        assert_eq!(snapshot.read_ahead(&keys).unwrap(), 0);
        let mut found = 0;
        snapshot
            .get_sorted_batch_now(&keys, Expected::Present, |_, value| found += usize::from(value.is_some()))
            .unwrap();
        assert_eq!(found, keys.len());
    }

    /// Filters in memory or mapped give the same answers; memory is taken up to the bound and given back.
    #[test]
    #[cfg_attr(miri, ignore = "maps of files")]
    fn filters_in_memory_answer_as_mapped_ones() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { table_bytes: 100_000, ..Options::default() };
        let db = Db::create(RealDisk::shared(), &directory.path().join("db"), options).unwrap();
        let key = |n: u32| n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        let mut records: Vec<_> = (0..20_000).map(|n| (key(n * 2), Some([n.to_le_bytes()[0]; 40]))).collect();
        records.sort_by_key(|record| record.0);
        db.write(&records).unwrap();
        drop(db);
        let mut plain = None;
        for bytes_max in [0, 20_000, u64::MAX] {
            let db = Db::open_read_only(RealDisk::shared(), &directory.path().join("db")).unwrap();
            db.set_filter_bytes_max(bytes_max);
            let (mut found, keys): (usize, Vec<_>) = (0, records.iter().map(|record| record.0).collect());
            let count = |_, value: Option<&[u8]>| found += usize::from(value.is_some());
            db.snapshot().get_sorted_batch_now(&keys, Expected::Present, count).unwrap();
            assert_eq!((found, db.0.shared.filter_memory.bytes()), (20_000, 0), "filters of the one run are not asked");
            let answers: Vec<_> = (0..40_000).step_by(7).map(|n| db.get(&key(n)).unwrap()).collect();
            let filter_bytes = db.0.shared.filter_memory.bytes();
            assert!(filter_bytes <= bytes_max, "{filter_bytes} of {bytes_max}");
            assert_eq!(filter_bytes > 0, bytes_max > 0);
            assert_eq!(plain.get_or_insert_with(|| answers.clone()), &answers);
        }
        assert_eq!(plain.unwrap().iter().flatten().count(), 20_000 / 7 + 1);
    }
}
