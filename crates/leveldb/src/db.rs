//! An open database: snapshots for readers, runs for the one writer.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::coding::SEQUENCE_MAX;
use crate::edit::{Edit, FileMeta, LEVELS};
use crate::error::{Damage, Error, Result};
use crate::levels::{Limits, Placement, RunSize, level0_count};
use crate::lookup::{Iter, Snapshot};
use crate::manifest::Manifest;
use crate::names::{CURRENT, LOCK, Name};
use crate::options::Options;
use crate::recover::{Recovered, manifest_named, recover};
use crate::run::{Outputs, Run, RunPlace, RunSlot};
use crate::version::{Shared, SortedRun, TableFile, Version};
use disk::{Appender, Disk, LockGuard};
use kernels::Kernels;

/// An open database. All clones share it; it closes when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Db(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
    pub(crate) limits: Limits,
    current: RwLock<Arc<Version>>,
    /// `None`: opened for reading only.
    manifest: Option<Mutex<Manifest>>,
    has_run: Arc<AtomicBool>,
    pub(crate) has_compaction: Arc<AtomicBool>,
    _lock: Option<LockGuard>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.manifest.is_some() {
            self.shared.remove_garbage();
        }
    }
}

impl Db {
    /// Whether the directory contains a database, that is a file CURRENT.
    ///
    /// # Errors
    /// An I/O error.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(disk.metadata(&dir.join(CURRENT))?.is_some())
    }

    /// Whether the directory contains tables or logs of a database whose file CURRENT is missing.
    ///
    /// # Errors
    /// An I/O error.
    pub fn lacks_current(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        if disk.metadata(dir)?.is_none() || Db::exists(disk, dir)? {
            return Ok(false);
        }
        let is_data = |name: &OsStr| matches!(Name::parse(name), Some(Name::Table(_) | Name::Log(_)));
        Ok(disk.list(dir)?.iter().any(|entry| is_data(&entry.name)))
    }

    /// Creates an empty database in a directory that does not exist or has no database.
    ///
    /// # Errors
    /// [`Error::Exists`] if the directory has a CURRENT, a table or a log; the lock is held; an I/O error.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Db> {
        disk.create_dir_all(dir)?;
        // The directory's name is made durable before CURRENT exists, because no later opening does it.
        if let Some(parent) = dir.parent() {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            disk.sync_dir_once(parent)?;
        }
        let lock = disk.lock(&dir.join(LOCK))?;
        let shared = Arc::new(Shared::new(disk, dir, options.kernels));
        for entry in shared.disk.list(dir)? {
            let name = Name::parse(&entry.name);
            if entry.name == CURRENT || matches!(name, Some(Name::Table(_) | Name::Log(_))) {
                return Err(Error::Exists { path: dir.to_path_buf() });
            }
            let behind = name.map_or(1, Name::number).saturating_add(1);
            shared.next_file.fetch_max(behind, Ordering::Relaxed);
        }
        let version = Version::default();
        let mut manifest = Manifest::new(0, 0);
        manifest.begin(&shared, &version)?;
        // Tables are mapped. If the file system does not support that, fail before there is anything to lose.
        shared.disk.open(&manifest_named(&shared)?)?.bytes()?;
        Ok(Db::new(shared, options, version, Some(manifest), Some(lock)))
    }

    /// Opens a database for reading and writing. The records of its log become a table, and unreferenced files are
    /// removed, as in LevelDB.
    ///
    /// # Errors
    /// The lock is held, a file is damaged or missing, or an I/O error.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: Options) -> Result<Db> {
        if !Db::exists(&*disk, dir)? {
            let wanted_by = "the database".to_owned();
            return Err(Error::Missing { path: dir.join(CURRENT), wanted_by });
        }
        let lock = disk.lock(&dir.join(LOCK))?;
        let shared = Arc::new(Shared::new(disk, dir, options.kernels));
        let Recovered { mut version, from_logs, last_sequence } = recover(&shared, options.has_filters)?;
        if let Some((meta, bytes)) = from_logs {
            let path = dir.join(Name::Table(meta.number).to_string());
            let mut file = Appender::new(shared.disk.create(&path)?, 0);
            file.write_all(&bytes)?;
            file.sync()?;
            let file = TableFile::new(&shared, meta, path);
            version.runs.insert(0, SortedRun { level: 0, files: vec![Arc::new(file)] });
        }
        let mut manifest = Manifest::new(shared.take_number(), last_sequence);
        manifest.begin(&shared, &version)?;
        remove_stale(&shared, &version, manifest.log_number);
        Ok(Db::new(shared, options, version, Some(manifest), Some(lock)))
    }

    /// Opens a database for reading. Nothing is written and no lock is taken: no other program may have the database
    /// open for writing meanwhile.
    ///
    /// # Errors
    /// A file is damaged or missing, or an I/O error.
    pub fn open_read_only(disk: Arc<dyn Disk>, dir: &Path) -> Result<Db> {
        Db::open_read_only_with(disk, dir, Kernels::AUTO)
    }

    /// [`Db::open_read_only`] with the given kernels.
    ///
    /// # Errors
    /// Those of [`Db::open_read_only`].
    pub fn open_read_only_with(disk: Arc<dyn Disk>, dir: &Path, kernels: Kernels) -> Result<Db> {
        let options = Options { kernels, ..Options::default() };
        let shared = Arc::new(Shared::new(disk, dir, kernels));
        let Recovered { mut version, from_logs, .. } = recover(&shared, false)?;
        if let Some((meta, bytes)) = from_logs {
            let path = dir.join("(log)");
            let file = TableFile::in_memory(&shared, meta, path, bytes)?;
            version.runs.insert(0, SortedRun { level: 0, files: vec![Arc::new(file)] });
        }
        Ok(Db::new(shared, options, version, None, None))
    }

    /// The kernels in use.
    pub fn kernels(&self) -> Kernels {
        self.0.options.kernels
    }

    fn new(
        shared: Arc<Shared>,
        options: Options,
        version: Version,
        manifest: Option<Manifest>,
        lock: Option<LockGuard>,
    ) -> Db {
        Db(Arc::new(Inner {
            shared,
            options,
            limits: Limits { level1_bytes: options.level1_bytes },
            current: RwLock::new(Arc::new(version)),
            manifest: manifest.map(Mutex::new),
            has_run: Arc::new(AtomicBool::new(false)),
            has_compaction: Arc::new(AtomicBool::new(false)),
            _lock: lock,
        }))
    }

    /// The state that a manifest would list: the tables with their levels, and the last sequence number. The log's
    /// records are in a table by now.
    pub(crate) fn contents(&self) -> Result<(Vec<(usize, FileMeta)>, u64)> {
        let last_sequence = self.0.manifest()?.last_sequence;
        let tables = self.0.version().files().map(|(level, file)| (level, file.meta.clone())).collect();
        Ok((tables, last_sequence))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0.shared.dir
    }

    /// The database as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.version())
    }

    /// The value of `key` now: [`Snapshot::get`].
    ///
    /// # Errors
    /// Those of the same method of [`Snapshot`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.snapshot().get(key)
    }

    /// All current records: [`Snapshot::iter`].
    ///
    /// # Errors
    /// Those of the same method of [`Snapshot`].
    pub fn iter(&self) -> Result<Iter> {
        self.snapshot().iter()
    }

    /// Memory of open tables in bytes: indexes, filters, and tables held in memory. Their files are mapped and not
    /// counted.
    pub fn index_bytes(&self) -> u64 {
        self.0.shared.index_bytes.load(Ordering::Relaxed) + self.0.shared.filter_memory.bytes()
    }

    /// From now on the filters of tables are copied into memory on first use, up to `bytes` in total: 1.3 bytes a
    /// record. The copies count in [`Db::index_bytes`]. Without this, filters are read from the mapped files.
    pub fn set_filter_bytes_max(&self, bytes: u64) {
        self.0.shared.filter_memory.set_max(bytes);
    }

    /// Whether a run of about `bytes` of tables would find a level without a compaction.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.0.limits.place(&self.0.version().sizes(), bytes).is_some()
    }

    /// Begins a run of about `bytes` of tables, which any number of threads may fill. A good estimate of `bytes`: for
    /// each record the lengths of key and value plus 14. Only one run is open at a time.
    ///
    /// # Errors
    /// [`Error::CompactFirst`] if no level is free; [`Error::ReadOnly`]; an I/O error.
    ///
    /// # Panics
    /// If another run is open.
    pub fn begin_run(&self, bytes: u64) -> Result<Run> {
        let (slot, sequence) = self.0.next_run()?;
        let inner = &self.0;
        let sizes = inner.version().sizes();
        let Placement { level, .. } = inner.limits.place(&sizes, bytes).ok_or_else(|| inner.compact_first(&sizes))?;
        let outputs = Outputs::new(&inner.shared, &inner.options, level == 0)?;
        Ok(Run { outputs, sequence, level, place: RunPlace::Above, bytes_planned: bytes, _slot: slot })
    }

    /// Begins a run whose keys are all above those of the database, which has at most one run: the new run extends it.
    /// So a set that arrives in key order is committed in pieces, each byte written once.
    ///
    /// # Errors
    /// [`Error::CompactFirst`] if there are several runs, or one in level 0; [`Error::ReadOnly`]; an I/O error.
    ///
    /// # Panics
    /// If another run is open.
    pub fn begin_run_behind(&self) -> Result<Run> {
        let (slot, sequence) = self.0.next_run()?;
        let inner = &self.0;
        let level = match &inner.version().runs[..] {
            [] => LEVELS - 1,
            [one] if one.level > 0 => one.level,
            _ => return Err(inner.compact_first(&inner.version().sizes())),
        };
        let outputs = Outputs::new(&inner.shared, &inner.options, false)?;
        Ok(Run { outputs, sequence, level, place: RunPlace::Behind, bytes_planned: 0, _slot: slot })
    }

    /// Commits a run: makes its tables and their names durable, then one edit of the manifest. When this returns, every
    /// new snapshot has all of the run, now and after any crash.
    ///
    /// # Errors
    /// The run is lost and must be written again. After a failed edit it may still turn out to be committed after a
    /// crash; the next successful commit or compaction rules that out. A run without records cannot reappear.
    ///
    /// # Panics
    /// If a writer of the run is still open or was not finished, or two overlap; if a run of [`Db::begin_run_behind`]
    /// begins before the database ends.
    pub fn commit(&self, run: Run) -> Result<()> {
        let inner = &self.0;
        run.outputs.close()?;
        run.outputs.sync()?;
        if run.outputs.record_count() == 0 {
            return Ok(());
        }
        inner.shared.disk.sync_dir(&inner.shared.dir)?;
        let mut manifest = inner.manifest()?;
        let version = inner.version();
        manifest.make_ready(&inner.shared, &version)?;
        let mut runs = version.runs.clone();
        let mut edit = inner.edit(run.sequence);
        let Placement { level, moves } = match run.place {
            RunPlace::Above => inner.place_now(&run, &version.sizes())?,
            RunPlace::Behind => Placement { level: run.level, moves: None },
        };
        if run.place == RunPlace::Behind {
            let last = runs.first().and_then(|run| run.files.last()).map(|file| file.last_key().to_vec());
            assert!(last < run.outputs.first_key(), "a run behind another begins where that has ended");
        }
        let files = run.outputs.take();
        move_runs(&mut runs, moves, &mut edit);
        edit.added.extend(files.iter().map(|file| (level, file.meta.clone())));
        manifest.append(&edit, &files)?;
        match runs.first_mut().filter(|_| run.place == RunPlace::Behind) {
            Some(first) => first.files.extend(files),
            None => runs.insert(0, SortedRun { level, files }),
        }
        inner.set_version(Version { runs });
        drop(manifest);
        inner.shared.remove_garbage();
        Ok(())
    }

    /// Commits a few records (key, and value or `None` to delete) in rising order of keys; compacts first if needed.
    ///
    /// # Errors
    /// Those of [`Db::commit`].
    ///
    /// # Panics
    /// If the keys do not rise, or a run or compaction is open.
    pub fn write<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: &[(K, Option<V>)]) -> Result<()> {
        let value_len = |value: &Option<V>| value.as_ref().map_or(0, |value| value.as_ref().len());
        let bytes: usize = records.iter().map(|(key, value)| key.as_ref().len() + value_len(value) + 14).sum();
        let bytes = bytes as u64 + 1024;
        while !self.has_room(bytes) {
            self.compact_now()?;
        }
        let run = self.begin_run(bytes)?;
        let mut table = run.table();
        for (key, value) in records {
            match value {
                Some(value) => table.put(key.as_ref(), value.as_ref())?,
                None => table.delete(key.as_ref())?,
            }
        }
        table.finish()?;
        self.commit(run)
    }
}

impl Inner {
    /// The right to write the next run, and its sequence number.
    fn next_run(&self) -> Result<(RunSlot, u64)> {
        let was_open = self.has_run.swap(true, Ordering::Acquire);
        assert!(!was_open, "a database has one open run at a time");
        let slot = RunSlot(self.has_run.clone());
        let sequence = self.manifest()?.last_sequence + 1;
        if sequence > SEQUENCE_MAX {
            let wanted = "a sequence below 2^56 - 1";
            return Err(Damage::new(0, wanted, "the last one there is").of(&self.shared.dir));
        }
        Ok((slot, sequence))
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_version(&self, version: Version) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(version);
    }

    /// The right to append an edit to the manifest.
    pub(crate) fn manifest(&self) -> Result<MutexGuard<'_, Manifest>> {
        match &self.manifest {
            Some(manifest) => Ok(manifest.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Err(Error::ReadOnly { path: self.shared.dir.clone() }),
        }
    }

    pub(crate) fn compact_first(&self, sizes: &[RunSize]) -> Error {
        Error::CompactFirst { path: self.shared.dir.clone(), level0_count: level0_count(sizes) }
    }

    /// An edit that does not change any table yet.
    pub(crate) fn edit(&self, last_sequence: u64) -> Edit {
        Edit {
            next_file: Some(self.shared.next_file.load(Ordering::Relaxed)),
            last_sequence: Some(last_sequence),
            ..Edit::default()
        }
    }

    /// The place of a finished run, now that its size is known.
    fn place_now(&self, run: &Run, sizes: &[RunSize]) -> Result<Placement> {
        let bytes = run.outputs.bytes();
        let is_one_file = run.outputs.file_count() == 1;
        let fits = |place: &Placement| place.level > 0 || is_one_file;
        let place = self.limits.place(sizes, bytes).filter(fits);
        // The run is larger than planned: it is above its level's limit for a while, but the order of levels is right.
        let place = place.or_else(|| self.limits.place(sizes, bytes.min(run.bytes_planned)).filter(fits));
        match place {
            Some(place) => Ok(place),
            None if is_one_file => Ok(Placement { level: 0, moves: None }),
            None => Err(self.compact_first(sizes)),
        }
    }
}

/// Moves the runs to new levels and adds the moves to the edit.
pub(crate) fn move_runs(runs: &mut [SortedRun], levels: Option<Vec<usize>>, edit: &mut Edit) {
    for (run, level) in runs.iter_mut().zip(levels.unwrap_or_default()) {
        if run.level != level {
            edit.deleted.extend(run.files.iter().map(|file| (run.level, file.meta.number)));
            let meta = |file: &Arc<TableFile>| -> (usize, FileMeta) { (level, file.meta.clone()) };
            edit.added.extend(run.files.iter().map(meta));
            run.level = level;
        }
    }
}

/// Removes leftovers of earlier openings: tables and logs that the manifest does not need.
fn remove_stale(shared: &Shared, version: &Version, log_number: u64) {
    let Ok(entries) = shared.disk.list(&shared.dir) else {
        return;
    };
    let live: std::collections::BTreeSet<u64> = version.files().map(|(_, file)| file.meta.number).collect();
    for entry in entries {
        let is_stale = match Name::parse(&entry.name) {
            Some(Name::Table(number)) => !live.contains(&number),
            Some(Name::Log(number)) => number < log_number,
            _ => false,
        };
        if is_stale {
            let _ = shared.disk.remove_file(&shared.dir.join(&entry.name));
        }
    }
}
