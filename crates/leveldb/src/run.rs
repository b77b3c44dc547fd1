//! Runs being written: the tables of one commit, or of one compaction.
//!
//! Several threads write tables of disjoint key ranges, each through its own writer. A run for level 1 or deeper
//! becomes tables of about 32 MiB. A run for level 0 becomes a single table, to which all writers append their blocks.
//! No snapshot sees a run before it is committed, and a dropped run removes its files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::build::{PIECE_BYTES, Part, Sink, finish};
use crate::coding::{KIND_DELETED, KIND_VALUE, user_key};
use crate::edit::FileMeta;
use crate::error::{Error, Result};
use crate::format::RECORD_BYTES_MAX;
use crate::names::Name;
use crate::options::Options;
use crate::version::{Shared, TableFile};
use disk::DiskFile;

/// A finished table, durable once it is synced.
#[derive(Debug)]
struct NewFile {
    meta: FileMeta,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    is_synced: bool,
}

/// A file under construction.
#[derive(Debug)]
struct OpenFile {
    number: u64,
    path: PathBuf,
    sink: Sink,
}

impl OpenFile {
    fn create(shared: &Shared, is_shared: bool) -> Result<OpenFile> {
        let number = shared.take_number();
        let path = shared.dir.join(Name::Table(number).to_string());
        let sink = Sink::new(shared.disk.create(&path)?, is_shared);
        Ok(OpenFile { number, path, sink })
    }

    /// Writes the part of the file after the blocks of `parts`.
    fn finish(&self, parts: &[Part]) -> Result<NewFile> {
        let done = finish(&self.sink, parts)?;
        let meta = FileMeta { number: self.number, bytes: done.bytes, smallest: done.smallest, largest: done.largest };
        let file = self.sink.file.clone();
        Ok(NewFile { meta, path: self.path.clone(), file, is_synced: false })
    }
}

/// The tables of one run.
#[derive(Debug)]
pub(crate) struct Outputs {
    shared: Arc<Shared>,
    /// A table is closed when its data reaches this size.
    table_bytes: u64,
    has_filters: bool,
    /// The one table of a run for level 0.
    single: Option<OpenFile>,
    state: Mutex<OutputState>,
}

#[derive(Debug, Default)]
struct OutputState {
    files: Vec<NewFile>,
    /// Finished parts of the single table.
    parts: Vec<Part>,
    /// Every file created, to be removed if the run is abandoned.
    paths: Vec<PathBuf>,
    open_writers: usize,
    /// A writer was dropped before all of its records were written.
    is_broken: bool,
    record_count: u64,
}

impl Outputs {
    pub(crate) fn new(shared: &Arc<Shared>, options: &Options, is_single: bool) -> Result<Arc<Outputs>> {
        let single = if is_single { Some(OpenFile::create(shared, true)?) } else { None };
        let paths = single.iter().map(|file| file.path.clone()).collect();
        let state = Mutex::new(OutputState { paths, ..OutputState::default() });
        let Options { table_bytes, has_filters, .. } = *options;
        Ok(Arc::new(Outputs { shared: shared.clone(), table_bytes, has_filters, single, state }))
    }

    fn state(&self) -> MutexGuard<'_, OutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn writer(self: &Arc<Outputs>) -> Writer {
        self.state().open_writers += 1;
        let limit = self.limit(0);
        Writer {
            outputs: self.clone(),
            part: Part::new(self.has_filters, self.shared.kernels),
            file: None,
            limit,
            is_finished: false,
        }
    }

    /// Maximum bytes of the next piece for a table that has `bytes` so far.
    fn limit(&self, bytes: u64) -> usize {
        let left = usize::try_from(self.table_bytes.saturating_sub(bytes)).unwrap_or(usize::MAX);
        if self.single.is_some() { PIECE_BYTES } else { left.min(PIECE_BYTES) }
    }

    /// Closes the single table, if there is one with records.
    ///
    /// # Panics
    /// If a writer is still open or was not finished, or the keys of two writers overlap.
    pub(crate) fn close(&self) -> Result<()> {
        let mut state = self.state();
        assert_eq!(state.open_writers, 0, "a run is closed when no writer is at work");
        assert!(!state.is_broken, "a run is committed only if every writer was finished");
        let mut parts = std::mem::take(&mut state.parts);
        parts.sort_by(|a, b| a.first_key().cmp(b.first_key()));
        let is_apart = parts.windows(2).all(|two| two[0].last_key() < two[1].first_key());
        assert!(is_apart, "the writers of a run have disjoint ranges of keys");
        if let Some(single) = self.single.as_ref().filter(|_| !parts.is_empty()) {
            let file = single.finish(&parts)?;
            state.files.push(file);
        }
        state.files.sort_by(|a, b| user_key(&a.meta.smallest).cmp(user_key(&b.meta.smallest)));
        let is_apart =
            state.files.windows(2).all(|two| user_key(&two[0].meta.largest) < user_key(&two[1].meta.smallest));
        assert!(is_apart, "the writers of a run have disjoint ranges of keys");
        Ok(())
    }

    /// Makes the finished tables durable. A file's sync is called only once, even if it fails.
    pub(crate) fn sync(&self) -> Result<()> {
        loop {
            let mut state = self.state();
            let Some(file) = state.files.iter_mut().find(|file| !file.is_synced) else {
                return Ok(());
            };
            file.is_synced = true;
            let file = file.file.clone();
            drop(state);
            file.sync()?;
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.state().files.iter().map(|file| file.meta.bytes).sum()
    }

    pub(crate) fn file_count(&self) -> usize {
        self.state().files.len()
    }

    pub(crate) fn record_count(&self) -> u64 {
        self.state().record_count
    }

    /// The lowest key of all tables; `None` without a table. Call after [`Outputs::close`].
    pub(crate) fn first_key(&self) -> Option<Vec<u8>> {
        self.state().files.first().map(|file| user_key(&file.meta.smallest).to_vec())
    }

    /// The tables, synced and in key order; from now on the caller must remove them.
    pub(crate) fn take(&self) -> Vec<Arc<TableFile>> {
        let mut state = self.state();
        assert!(state.files.iter().all(|file| file.is_synced), "a run is synced before it is taken");
        state.paths.clear();
        let file = |file: NewFile| Arc::new(TableFile::new(&self.shared, file.meta, file.path));
        state.files.drain(..).map(file).collect()
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for path in std::mem::take(&mut self.state().paths) {
            let _ = self.shared.disk.remove_file(&path);
        }
    }
}

/// Writes records of one range of keys.
#[derive(Debug)]
pub(crate) struct Writer {
    outputs: Arc<Outputs>,
    part: Part,
    /// A piece is written when it reaches this size in bytes.
    file: Option<OpenFile>,
    /// A piece is written when it reaches this size in bytes.
    limit: usize,
    is_finished: bool,
}

impl Writer {
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], tag: u64, value: &[u8]) -> Result<()> {
        let bytes = key.len().saturating_add(value.len());
        let bytes_max = RECORD_BYTES_MAX;
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        self.part.make_room(key.len(), value.len());
        if self.part.is_between_blocks() && self.part.piece_bytes() >= self.limit {
            self.write()?;
        }
        self.part.add(key, tag, value);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if let Some(single) = &self.outputs.single {
            self.part.write_piece(&single.sink)?;
            return Ok(());
        }
        if self.file.is_none() {
            let file = OpenFile::create(&self.outputs.shared, false)?;
            self.outputs.state().paths.push(file.path.clone());
            self.file = Some(file);
        }
        let file = self.file.as_ref().expect("made above");
        self.part.write_piece(&file.sink)?;
        if file.sink.bytes() >= self.outputs.table_bytes {
            self.finish_table()?;
        }
        self.limit = self.outputs.limit(self.file.as_ref().map_or(0, |file| file.sink.bytes()));
        Ok(())
    }

    /// Closes the table that receives the part, if it has records.
    fn finish_table(&mut self) -> Result<()> {
        let part = std::mem::replace(&mut self.part, Part::new(self.outputs.has_filters, self.outputs.shared.kernels));
        if let Some(file) = self.file.take() {
            let count = part.record_count();
            let done = file.finish(&[part])?;
            let mut state = self.outputs.state();
            state.files.push(done);
            state.record_count += count;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.part.close();
        if self.part.record_count() > 0 {
            self.write()?;
            if self.outputs.single.is_some() {
                let part =
                    std::mem::replace(&mut self.part, Part::new(self.outputs.has_filters, self.outputs.shared.kernels));
                let mut state = self.outputs.state();
                state.record_count += part.record_count();
                state.parts.push(part);
            } else {
                self.finish_table()?;
            }
        }
        self.is_finished = true;
        Ok(())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.part.memory_bytes()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.outputs.state();
        state.open_writers -= 1;
        state.is_broken |= !self.is_finished;
    }
}

/// The tables of a commit in preparation: created by `Db::begin_run`, shared by the threads that fill it, passed to
/// `Db::commit`. A dropped run removes its files.
#[derive(Debug)]
pub struct Run {
    pub(crate) outputs: Arc<Outputs>,
    pub(crate) sequence: u64,
    pub(crate) level: usize,
    pub(crate) place: RunPlace,
    pub(crate) bytes_planned: u64,
    pub(crate) _slot: RunSlot,
}

/// Position of a run relative to the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunPlace {
    /// Above all others, as newer records must be.
    Above,
    /// At the end of the single existing run: all keys are above its keys.
    Behind,
}

/// The right to be the one open run of a database; released on drop.
#[derive(Debug)]
pub(crate) struct RunSlot(pub(crate) Arc<std::sync::atomic::AtomicBool>);

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.store(false, std::sync::atomic::Ordering::Release);
    }
}

impl Run {
    /// A writer for one range of keys. Ranges of different writers do not overlap, and their order in time is free.
    /// Each writer uses about 1 MiB, and for a level 0 run also 3 % of what it wrote.
    pub fn table(&self) -> TableWriter {
        TableWriter {
            writer: self.outputs.writer(),
            put: self.sequence << 8 | KIND_VALUE,
            delete: self.sequence << 8 | KIND_DELETED,
        }
    }

    /// Makes the tables finished so far durable, on a thread that waits for the disk while others still write.
    /// `Db::commit` syncs the rest.
    ///
    /// # Errors
    /// An I/O error; drop the run then, and write it again.
    pub fn sync(&self) -> Result<()> {
        self.outputs.sync()
    }

    /// Bytes of the finished tables.
    pub fn bytes(&self) -> u64 {
        self.outputs.bytes()
    }

    /// The level that the run was planned for.
    pub fn level(&self) -> usize {
        self.level
    }
}

/// Writes records of one range of keys, in rising order, into tables of a [`Run`].
#[derive(Debug)]
pub struct TableWriter {
    writer: Writer,
    put: u64,
    delete: u64,
}

impl TableWriter {
    /// Appends a key with its value.
    ///
    /// # Errors
    /// An I/O error, or [`Error::TooLarge`] above 32 MiB; drop the whole run then, and write it again.
    ///
    /// # Panics
    /// If `key` is not above the previous one: no table could hold it.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.add(key, self.put, value)
    }

    /// Appends a tombstone: older values of the key are deleted.
    ///
    /// # Errors
    /// Those of [`TableWriter::put`].
    ///
    /// # Panics
    /// Those of [`TableWriter::put`].
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.writer.add(key, self.delete, &[])
    }

    /// Writes the remaining records. A run with a writer that was dropped without this cannot be committed.
    ///
    /// # Errors
    /// Those of [`TableWriter::put`].
    pub fn finish(self) -> Result<()> {
        self.writer.finish()
    }

    /// Memory of the writer, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.writer.memory_bytes()
    }
}
