//! Look-ups of keys whose blocks are most likely not in memory, on a thread that may wait for the disk.
//!
//! The block of each key is read through an asynchronous queue of the system, many at a time, and searched on arrival.
//! So the disk is always busy, no page is mapped, and blocks read once stay in the page cache. Filters and indexes
//! select the block. After a filter's false positive the next run's block is read; apart from these a key costs one
//! read.
//!
//! If the system has no such queue, or the disk is simulated, all blocks are read ahead through their maps
//! ([`Snapshot::read_ahead`]) and then looked up in memory: the reference implementation.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use crate::block::{Block, Found};
use crate::bloom::hash;
use crate::error::Result;
use crate::lookup::{BlockRef, Expected, GROUP, PendingKey, RunWalk, Snapshot};
use crate::version::{Shared, Version};
use disk::{DiskError, DiskFile};
use sys::ring::Ring;

/// Concurrent reads of one thread: with a few threads, more than a disk serves in parallel.
const READS: usize = 128;
/// The largest block, with its trailer, that is read through the queue. Our blocks lie within a page, and LevelDB
/// closes its blocks at 4,096 bytes. A block with a larger record is read separately.
const READ_BYTES_MAX: usize = 5 << 10;
/// This share of the reads in flight is awaited at once: the others keep the disk busy meanwhile.
const WAIT_SHARE: usize = 4;

thread_local! {
    /// This thread's queue: untried, refused by the system, or idle.
    static RING: Cell<Queue> = const { Cell::new(Queue::Untried) };
}

#[derive(Default)]
enum Queue {
    Untried,
    #[default]
    Absent,
    Idle(Box<Ring>),
}

/// Takes this thread's read queue; `None` if the system does not support one.
fn take_ring() -> Option<Box<Ring>> {
    match RING.take() {
        Queue::Untried => Ring::new(READS, READ_BYTES_MAX).ok().map(Box::new),
        Queue::Absent => None,
        Queue::Idle(ring) => Some(ring),
    }
}

impl Snapshot {
    /// Looks up many keys in ascending order (duplicates allowed) of which most exist ([`Expected::Present`]) and most
    /// blocks are not in memory. Calls `answer` once for each key with its index in `keys`, in any order. Returns how
    /// many reads had to wait for the disk. The calling thread waits for the disk.
    ///
    /// # Errors
    /// A table that cannot be read or is damaged; some keys may have been answered.
    ///
    /// # Panics
    /// If the keys are not in order.
    pub fn look_up_from_disk<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut answer: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<usize> {
        assert!(keys.is_sorted_by_key(AsRef::as_ref), "the keys of a batch rise");
        let Some(mut ring) = take_ring() else {
            let missing = self.read_ahead(keys)?;
            return self.get_sorted_batch_now(keys, Expected::Present, answer).map(|()| missing);
        };
        // After a fault the ring is dropped, which waits for its reads; the next look-up makes another.
        let result = Search::new(&self.0, keys).run(&mut ring, &mut answer);
        RING.set(if result.is_ok() { Queue::Idle(ring) } else { Queue::Untried });
        if let (Ok(missing), Some(read_ahead)) = (&result, self.read_ahead_state()) {
            read_ahead.note_missing(*missing);
        }
        result
    }
}

/// A block to read, and the keys that it may contain.
struct Read<'s> {
    at: BlockRef<'s>,
    /// Index of its run.
    run: usize,
    /// Indexes of the keys.
    keys: Range<usize>,
}

/// A look-up in progress.
struct Search<'s, 'k, K> {
    version: &'s Version,
    shared: Option<&'s Shared>,
    /// One for each run.
    walks: Vec<RunWalk<'s>>,
    keys: &'k [K],
    /// Keys below this index have a read or an answer.
    next: usize,
    /// All reads so far; a read's tag is its index.
    reads: Vec<Read<'s>>,
    /// Reads not yet submitted.
    waiting: VecDeque<usize>,
}

impl<'s, 'k, K: AsRef<[u8]>> Search<'s, 'k, K> {
    fn new(version: &'s Version, keys: &'k [K]) -> Search<'s, 'k, K> {
        let shared = version.files().next().map(|(_, file)| file.shared());
        let walks = RunWalk::of_all(&version.runs, Expected::Present).collect();
        let reads = Vec::with_capacity(keys.len());
        Search { version, shared, walks, keys, next: 0, reads, waiting: VecDeque::new() }
    }

    /// Reads until every key is answered; returns how many reads were not answered at once.
    fn run(mut self, ring: &mut Ring, answer: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<usize> {
        let mut missing = 0;
        loop {
            while ring.room() > 0 && self.has_waiting(answer)? {
                if let Some(read) = self.waiting.pop_front() {
                    self.begin(ring, read, answer)?;
                }
            }
            if ring.in_flight() == 0 {
                return Ok(missing);
            }
            ring.submit().map_err(|why| self.fault(why))?;
            // Reads that have completed by now were in the page cache.
            if self.take_answers(ring, answer)? == 0 {
                ring.wait(ring.in_flight().div_ceil(WAIT_SHARE)).map_err(|why| self.fault(why))?;
                missing += self.take_answers(ring, answer)?;
            }
        }
    }

    /// Whether a read is waiting; if none is, first finds the blocks of the next keys.
    fn has_waiting(&mut self, answer: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<bool> {
        while self.waiting.is_empty() && self.next < self.keys.len() {
            let end = self.keys.len().min(self.next + GROUP);
            let pending_key = |index| PendingKey { index, hash: hash(self.keys[index].as_ref()) };
            let mut pending: Vec<PendingKey> = (self.next..end).map(pending_key).collect();
            for run in 0..self.walks.len() {
                let blocks = self.walks[run].blocks(self.keys, &pending)?;
                let mut kept = 0;
                for index in 0..pending.len() {
                    let key = pending[index];
                    match blocks[index] {
                        Some(at) => self.add_read(at, run, key.index),
                        None => {
                            pending[kept] = key;
                            kept += 1;
                        }
                    }
                }
                pending.truncate(kept);
                if pending.is_empty() {
                    break;
                }
            }
            pending.iter().for_each(|key| answer(key.index, None));
            self.next = end;
        }
        Ok(!self.waiting.is_empty())
    }

    /// Adds a read for a block that may contain a key. Neighbouring keys in one block share one read.
    fn add_read(&mut self, at: BlockRef<'s>, run: usize, key: usize) {
        if let Some(&last) = self.waiting.back()
            && let last = &mut self.reads[last]
            && last.at.is_same(&at)
            && last.keys.end == key
        {
            last.keys.end = key + 1;
            return;
        }
        self.waiting.push_back(self.reads.len());
        self.reads.push(Read { at, run, keys: key..key + 1 });
    }

    /// Submits the read of a block. If the queue cannot read it, reads it synchronously.
    fn begin(&mut self, ring: &mut Ring, read: usize, answer: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let at = self.reads[read].at;
        let range = at.table.block_range(at.block).filter(|range| range.len() <= READ_BYTES_MAX);
        if let (Some(range), Some(file)) = (range, self.file(at))
            && let Some(file) = file.system_file()
        {
            ring.ask(file, range.start as u64, range.len(), read as u64);
            return Ok(());
        }
        self.search(read, &at.table.block(at.block)?, answer)
    }

    /// The table's open file, besides its map.
    fn file(&self, at: BlockRef<'s>) -> Option<&'s dyn DiskFile> {
        at.table.file(|path| self.shared.and_then(|shared| shared.open_file(path)))
    }

    /// Searches the blocks of completed reads; returns their number.
    fn take_answers(&mut self, ring: &mut Ring, answer: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<usize> {
        let mut result = Ok(());
        let count = ring.answers(|tag, bytes| {
            if result.is_ok() {
                let read = usize::try_from(tag).expect("the index of a read");
                result = self.answered(read, bytes, answer);
            }
        });
        result.map(|()| count)
    }

    fn answered(
        &mut self,
        read: usize,
        bytes: io::Result<&[u8]>,
        answer: &mut impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let at = self.reads[read].at;
        let range = at.table.block_range(at.block).expect("checked when it was asked for");
        let again;
        let bytes = match bytes {
            Ok(bytes) if bytes.len() == range.len() => bytes,
            // The block is read again synchronously, because that error names place and cause.
            _ => {
                let mut own = vec![0; range.len()];
                let file = self.file(at).expect("open when it was asked for");
                file.read_exact_at(range.start as u64, &mut own)?;
                again = own;
                &again
            }
        };
        self.search(read, &at.table.block_of(at.block, bytes)?, answer)
    }

    /// Answers the keys of a read from its block; keys that are not there may be in older runs.
    fn search(&mut self, read: usize, block: &Block<'_>, answer: &mut impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let Read { at, run, ref keys } = self.reads[read];
        for key in keys.clone() {
            match block.find(self.keys[key].as_ref()).ok_or_else(|| at.table.not_a_block(at.block))? {
                Found::Value(value) => answer(key, Some(value)),
                Found::Deleted => answer(key, None),
                Found::Absent => {
                    if !self.look_further(key, run + 1)? {
                        answer(key, None);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a run from index `from` on may contain the key, and will be read.
    fn look_further(&mut self, key: usize, from: usize) -> Result<bool> {
        let bytes = self.keys[key].as_ref();
        for (run, mut walk) in RunWalk::of_all(&self.version.runs, Expected::Present).enumerate().skip(from) {
            if let Some(at) = walk.find_block(bytes)?
                && walk.may_hold(at, hash(bytes))
            {
                self.add_read(at, run, key);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The queue itself failed.
    fn fault(&self, why: io::Error) -> crate::error::Error {
        let dir = self.shared.map_or(std::path::Path::new(""), |shared| &shared.dir);
        DiskError::new("read tables in", dir, why).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Options};
    use disk::RealDisk;
    use std::path::{Path, PathBuf};

    fn key(n: u32) -> [u8; 4] {
        n.wrapping_mul(0x9e37_79b9).to_be_bytes()
    }

    /// Several runs of many small tables, values of all sizes, tombstones; one record larger than what the queue reads.
    fn database(dir: &Path) -> Db {
        let options = Options { table_bytes: 60_000, ..Options::default() };
        let db = Db::create(RealDisk::shared(), dir, options).unwrap();
        for run in 0..4_u32 {
            let value = |n: u32| vec![n.to_le_bytes()[0]; if n % 500 == 3 { 9000 } else { (n % 90) as usize }];
            let mut records: Vec<_> = (run * 1000..run * 1000 + 5000).map(|n| (key(n), Some(value(n + run)))).collect();
            records.extend((0..500).map(|n| (key(n * 7 + run), None)));
            records.sort_by_key(|record| record.0);
            records.dedup_by_key(|record| record.0);
            db.write(&records).unwrap();
        }
        db
    }

    fn from_disk<K: AsRef<[u8]>>(snapshot: &Snapshot, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut answers = vec![None; keys.len()];
        let mut count = 0;
        snapshot.look_up_from_disk(keys, |index, value| {
            answers[index] = value.map(<[u8]>::to_vec);
            count += 1;
        })?;
        assert_eq!(count, keys.len(), "each is answered once");
        Ok(answers)
    }

    /// Through the queue, without one, and by single look-ups: the same answers.
    #[test]
    #[cfg_attr(miri, ignore = "maps of files")]
    fn look_up_from_disk_answers_as_single_look_ups() {
        let directory = tempfile::tempdir().unwrap();
        let db = database(&directory.path().join("db"));
        let snapshot = db.snapshot();
        for step in [1, 3, 40] {
            let mut keys: Vec<_> = (0..11_000).step_by(step).map(key).collect();
            keys.extend(keys.clone().iter().take(50));
            keys.sort_unstable();
            let plain: Vec<_> = keys.iter().map(|key| snapshot.get(key).unwrap()).collect();
            assert!(plain.contains(&None) && plain.iter().flatten().any(|value| value.len() == 9000));
            assert_eq!(from_disk(&snapshot, &keys).unwrap(), plain, "every {step}th");
            RING.set(Queue::Absent);
            assert_eq!(from_disk(&snapshot, &keys).unwrap(), plain, "every {step}th, without a queue");
            RING.set(Queue::Untried);
        }
        assert_eq!(from_disk::<[u8; 4]>(&snapshot, &[]).unwrap(), []);
        let empty = Db::create(RealDisk::shared(), &directory.path().join("empty"), Options::default()).unwrap();
        assert_eq!(from_disk(&empty.snapshot(), &[key(1)]).unwrap(), [None]);
    }

    /// A read-only database whose tables are open and mapped, but for their data blocks, which were not read; and one
    /// table's path.
    fn mapped(path: &Path, keys: &[[u8; 4]]) -> (Db, PathBuf) {
        let db = Db::open_read_only(RealDisk::shared(), path).unwrap();
        let snapshot = db.snapshot();
        for run in &snapshot.0.runs {
            let mut walk = RunWalk::new(run);
            keys.iter().for_each(|key| assert!(walk.find_block(key).is_ok()));
        }
        let table = snapshot.0.runs[0].files[1].path.clone();
        (db, table)
    }

    /// Blocks that were changed, and files that are shorter than their maps: faults that name the file; after them the
    /// next look-up goes well.
    #[test]
    #[cfg_attr(miri, ignore = "maps of files")]
    fn look_up_from_disk_names_the_file_that_it_cannot_read() {
        if Ring::new(1, 1).is_err() {
            println!("skipped: no queue of reads here");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        drop(database(&path));
        let disk = RealDisk::shared();
        let mut keys: Vec<_> = (0..9000).map(key).collect();
        keys.sort_unstable();
        let (db, table) = mapped(&path, &keys);
        let name = table.file_name().unwrap().to_string_lossy().into_owned();
        let file = disk.modify(&table).unwrap();
        let mut byte = [0];
        file.read_exact_at(100, &mut byte).unwrap();
        file.write_at(100, &[byte[0] ^ 1]).unwrap();
        let why = from_disk(&db.snapshot(), &keys).unwrap_err().to_string();
        assert!(why.contains(&name) && why.contains("checksum"), "{why}");
        file.write_at(100, &byte).unwrap();
        let plain: Vec<_> = keys.iter().map(|key| db.get(key).unwrap()).collect();
        assert_eq!(from_disk(&db.snapshot(), &keys).unwrap(), plain);

        let (db, table) = mapped(&path, &keys);
        disk.rename(&table, &path.join("moved")).unwrap();
        disk.create(&table).unwrap().write_at(0, &[0; 50]).unwrap();
        let why = from_disk(&db.snapshot(), &keys).unwrap_err().to_string();
        assert!(why.contains(&name) && why.contains("the file ends"), "{why}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps of files")]
    fn open_files_are_closed_with_their_tables() {
        let directory = tempfile::tempdir().unwrap();
        let db = database(&directory.path().join("db"));
        let (shared, snapshot) = (db.0.shared.clone(), db.snapshot());
        let mut keys: Vec<_> = (0..9000).map(key).collect();
        keys.sort_unstable();
        from_disk(&snapshot, &keys).unwrap();
        let open = if Ring::new(1, 1).is_ok() { snapshot.0.files().count() as u64 } else { 0 };
        assert_eq!(shared.open_files(), open);
        drop((snapshot, db));
        assert_eq!(shared.open_files(), 0);
    }
}
