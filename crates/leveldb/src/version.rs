//! Versions: the tables that form the database at one instant. A version never changes; a commit or a compaction makes
//! the next one. A table's file is removed when no version holds it any more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::coding::{prefix_of, user_key};
use crate::edit::{FileMeta, LEVELS};
use crate::error::{Damage, Result};
use crate::levels::RunSize;
use crate::read_ahead::AdaptiveReadAhead;
use crate::table::{FilterMemory, Table};
use disk::{Bytes, Disk, DiskFile};
use kernels::Kernels;

/// State shared by all parts of an open database.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// Memory of open tables.
    pub(crate) index_bytes: AtomicU64,
    /// Files that no version holds: removed by the next writer.
    pub(crate) garbage: Mutex<Vec<PathBuf>>,
    /// The next file's number.
    pub(crate) next_file: AtomicU64,
    /// Memory of copied filters, in addition to `index_bytes`.
    pub(crate) filter_memory: Arc<FilterMemory>,
    pub(crate) read_ahead: AdaptiveReadAhead,
    /// Number of tables whose files are kept open in addition to their maps.
    open_files: AtomicU64,
    pub(crate) kernels: Kernels,
}

/// Maximum number of tables whose files are kept open: a third of a program's usual limit of file descriptors, and
/// enough for 12 GB of coins. The other tables are read through their maps.
const OPEN_FILES_MAX: u64 = 384;

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, kernels: Kernels) -> Shared {
        Shared {
            disk,
            dir: dir.to_path_buf(),
            index_bytes: AtomicU64::new(0),
            garbage: Mutex::new(Vec::new()),
            next_file: AtomicU64::new(1),
            filter_memory: Arc::default(),
            read_ahead: AdaptiveReadAhead::default(),
            open_files: AtomicU64::new(0),
            kernels,
        }
    }

    pub(crate) fn take_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Number of tables whose files are open in addition to their maps.
    #[cfg(test)]
    pub(crate) fn open_files(&self) -> u64 {
        self.open_files.load(Ordering::Relaxed)
    }

    /// Opens the file of a table in addition to its map; `None` if the system has no file descriptor left for it.
    pub(crate) fn open_file(&self, path: &Path) -> Option<Arc<dyn DiskFile>> {
        if self.open_files.fetch_add(1, Ordering::Relaxed) < OPEN_FILES_MAX
            && let Ok(file) = self.disk.open(path)
            && file.system_file().is_some()
        {
            file.advise_random();
            return Some(file);
        }
        self.open_files.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Removes files that no version holds. Files that cannot be removed are removed when the directory is next opened.
    pub(crate) fn remove_garbage(&self) {
        let garbage = std::mem::take(&mut *self.garbage.lock().unwrap_or_else(PoisonError::into_inner));
        for path in garbage {
            let _ = self.disk.remove_file(&path);
        }
    }
}

/// A table of some version, opened on first use.
#[derive(Debug)]
pub(crate) struct TableFile {
    pub(crate) meta: FileMeta,
    /// [`prefix_of`] the first and the last key.
    prefixes: (u64, u64),
    pub(crate) path: PathBuf,
    shared: Arc<Shared>,
    table: OnceLock<Table>,
    opening: Mutex<()>,
    /// The manifest no longer lists it: the file is removed when this value is dropped.
    is_obsolete: AtomicBool,
}

impl TableFile {
    pub(crate) fn new(shared: &Arc<Shared>, meta: FileMeta, path: PathBuf) -> TableFile {
        let prefixes = (prefix_of(user_key(&meta.smallest)), prefix_of(user_key(&meta.largest)));
        TableFile {
            meta,
            prefixes,
            path,
            shared: shared.clone(),
            table: OnceLock::new(),
            opening: Mutex::new(()),
            is_obsolete: AtomicBool::new(false),
        }
    }

    /// A table that exists only in memory.
    pub(crate) fn in_memory(shared: &Arc<Shared>, meta: FileMeta, path: PathBuf, bytes: Vec<u8>) -> Result<TableFile> {
        let file = TableFile::new(shared, meta, path);
        file.keep(Table::open(&file.path, bytes.into(), None, shared.kernels)?);
        Ok(file)
    }

    fn keep(&self, table: Table) -> &Table {
        self.shared.index_bytes.fetch_add(table.memory_bytes(), Ordering::Relaxed);
        self.table.get_or_init(|| table)
    }

    /// The open table.
    #[inline]
    pub(crate) fn table(&self) -> Result<&Table> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Table> {
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let bytes = self.bytes()?;
        Ok(self.keep(Table::open(&self.path, bytes, Some(&self.shared.filter_memory), self.shared.kernels)?))
    }

    /// The file's bytes, for a full scan.
    pub(crate) fn bytes(&self) -> Result<Bytes> {
        let bytes = self.shared.disk.open(&self.path)?.bytes()?;
        if bytes.len() as u64 != self.meta.bytes {
            let wanted = format!("{} bytes, as the manifest says", self.meta.bytes);
            let found = format!("{} bytes", bytes.len());
            return Err(Damage::new(bytes.len(), wanted, found).of(&self.path));
        }
        Ok(bytes)
    }

    /// The read-ahead state of the whole database.
    pub(crate) fn read_ahead(&self) -> &AdaptiveReadAhead {
        &self.shared.read_ahead
    }

    /// The state shared by all tables.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The bytes for a full scan: a separate map, read ahead; `None` if the table is in memory.
    pub(crate) fn scan_bytes(&self) -> Result<Option<Bytes>> {
        if self.table.get().is_some_and(Table::is_in_memory) {
            return Ok(None);
        }
        let bytes = self.bytes()?;
        bytes.advise_sequential();
        Ok(Some(bytes))
    }

    pub(crate) fn first_key(&self) -> &[u8] {
        user_key(&self.meta.smallest)
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        user_key(&self.meta.largest)
    }

    /// Whether all keys are below `key`, whose prefix is `prefix`.
    #[inline]
    pub(crate) fn ends_before(&self, key: &[u8], prefix: u64) -> bool {
        self.prefixes.1 < prefix || (self.prefixes.1 == prefix && self.last_key() < key)
    }

    /// Whether all keys are above `key`, whose prefix is `prefix`.
    #[inline]
    pub(crate) fn begins_behind(&self, key: &[u8], prefix: u64) -> bool {
        self.prefixes.0 > prefix || (self.prefixes.0 == prefix && self.first_key() > key)
    }

    /// Marks the table as no longer named by anything on the disk.
    pub(crate) fn set_obsolete(&self) {
        self.is_obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if let Some(table) = self.table.get() {
            self.shared.index_bytes.fetch_sub(table.memory_bytes(), Ordering::Relaxed);
            self.shared.open_files.fetch_sub(u64::from(table.has_open_file()), Ordering::Relaxed);
        }
        if *self.is_obsolete.get_mut() {
            let mut garbage = self.shared.garbage.lock().unwrap_or_else(PoisonError::into_inner);
            garbage.push(std::mem::take(&mut self.path));
        }
    }
}

/// Tables that are disjoint and in key order: all of a level below 0, or one of level 0.
#[derive(Clone, Debug)]
pub(crate) struct SortedRun {
    pub(crate) level: usize,
    pub(crate) files: Vec<Arc<TableFile>>,
}

impl SortedRun {
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.meta.bytes).sum()
    }

    /// The first file at or after `from` whose last key is at least `key`: the only one that may contain it.
    pub(crate) fn find_file(&self, key: &[u8], from: usize) -> usize {
        let prefix = prefix_of(key);
        from + self.files[from..].partition_point(|file| file.ends_before(key, prefix))
    }
}

/// The runs at one instant, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    pub(crate) runs: Vec<SortedRun>,
}

impl Version {
    /// Sorts the tables of each level.
    ///
    /// # Errors
    /// Two overlapping tables of one level below 0, a table whose keys end before they begin, or one that is listed
    /// twice. The error names `manifest` as the file.
    pub(crate) fn new(levels: [Vec<Arc<TableFile>>; LEVELS], manifest: &Path) -> Result<Version> {
        let mut runs = Vec::new();
        let mut numbers = BTreeSet::new();
        for (level, mut files) in levels.into_iter().enumerate() {
            for file in &files {
                let is_new = numbers.insert(file.meta.number);
                if !is_new || file.first_key() > file.last_key() {
                    let wanted = "tables listed once, whose first key is not behind the last";
                    return Err(Damage::new(0, wanted, file.path.display().to_string()).of(manifest));
                }
            }
            if level == 0 {
                files.sort_by_key(|file| std::cmp::Reverse(file.meta.number));
                runs.extend(files.into_iter().map(|file| SortedRun { level, files: vec![file] }));
            } else if !files.is_empty() {
                files.sort_by(|a, b| a.first_key().cmp(b.first_key()));
                // The same user key may end a table and begin the next: LevelDB may have cut there.
                let overlap = files.windows(2).find(|two| two[0].last_key() > two[1].first_key());
                if let Some(two) = overlap {
                    let a = two[0].path.display();
                    let b = two[1].path.display();
                    let wanted = format!("tables of level {level} that do not overlap");
                    return Err(Damage::new(0, wanted, format!("{a} and {b}")).of(manifest));
                }
                runs.push(SortedRun { level, files });
            }
        }
        Ok(Version { runs })
    }

    /// The sizes for decisions about levels.
    pub(crate) fn sizes(&self) -> Vec<RunSize> {
        let size =
            |run: &SortedRun| RunSize { level: run.level, bytes: run.bytes(), is_one_file: run.files.len() == 1 };
        self.runs.iter().map(size).collect()
    }

    /// All tables with their levels.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.runs.iter().flat_map(|run| run.files.iter().map(|file| (run.level, file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{RealDisk, SimDisk};

    #[test]
    fn no_more_files_are_opened_than_are_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table");
        std::fs::write(&path, b"table").unwrap();
        let shared = Shared::new(RealDisk::shared(), directory.path(), Kernels::AUTO);
        let open: Vec<_> = std::iter::from_fn(|| shared.open_file(&path)).collect();
        assert_eq!((open.len() as u64, shared.open_files()), (OPEN_FILES_MAX, OPEN_FILES_MAX));
        let shared = Shared::new(RealDisk::shared(), directory.path(), Kernels::AUTO);
        assert!(shared.open_file(Path::new("/absent")).is_none() && shared.open_files() == 0);
        let sim = SimDisk::new(0).shared();
        drop(sim.create(Path::new("table")).unwrap());
        let shared = Shared::new(sim, directory.path(), Kernels::AUTO);
        assert!(shared.open_file(Path::new("table")).is_none(), "nothing that the system's queue can read");
    }

    #[test]
    fn version_with_contradictory_tables_is_refused() {
        let shared = Arc::new(Shared::new(SimDisk::new(0).shared(), Path::new("/db"), Kernels::AUTO));
        let file = |number: u64, first: &[u8], last: &[u8]| {
            let internal = |key: &[u8]| [key, &[1; 8]].concat().into();
            let (smallest, largest) = (internal(first), internal(last));
            let meta = FileMeta { number, bytes: 1, smallest, largest };
            let path = PathBuf::from(number.to_string());
            Arc::new(TableFile::new(&shared, meta, path))
        };
        type Row<'a> = (&'a str, &'a [(usize, u64, &'a [u8], &'a [u8])], Option<&'a str>);
        let rows: [Row<'_>; 6] = [
            ("apart", &[(1, 1, b"a", b"b"), (1, 2, b"c", b"d")], None),
            ("one key over two tables", &[(1, 1, b"a", b"b"), (1, 2, b"b", b"d")], None),
            ("overlap in level 0", &[(0, 1, b"a", b"c"), (0, 2, b"b", b"d")], None),
            ("overlap", &[(1, 1, b"a", b"c"), (1, 2, b"b", b"d")], Some("do not overlap")),
            ("backwards", &[(1, 1, b"b", b"a")], Some("not behind the last")),
            ("twice", &[(1, 1, b"a", b"b"), (2, 1, b"a", b"b")], Some("listed once")),
        ];
        for (row, files, want) in rows {
            let mut levels = [const { Vec::new() }; LEVELS];
            for (level, number, first, last) in files {
                levels[*level].push(file(*number, first, last));
            }
            let why = Version::new(levels, Path::new("/db/MANIFEST-1")).err();
            match (&why, want) {
                (None, None) => {}
                (Some(why), Some(want)) if why.to_string().contains(want) => {}
                _ => panic!("{row}: {why:?}"),
            }
        }
    }
}
