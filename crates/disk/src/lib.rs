//! Files and directories behind one small interface: the machine's own file system, and a simulated one.
//!
//! Input: paths, offsets, bytes. Output: bytes, maps, locks, and a [`DiskError`] that names the failed operation and
//! the file. The crate knows neither LevelDB nor Bitcoin.
//!
//! [`Disk`] is a file system, [`DiskFile`] one open file. [`RealDisk`] is the machine's own; [`ServedDisk`] reads files
//! through another program, for example from an object store; [`MemoryFile`] is a file in memory. With the feature
//! `testing` there is `SimDisk`: it is in memory and can stop, tear writes, lose data and fail, so that tests can prove
//! the state of a directory after every kind of crash or error.
//!
//! Rules for both file systems:
//! - Written data is durable only after [`DiskFile::sync`]. A created, moved or removed name is durable only after
//!   [`Disk::sync_dir`] of its directory.
//! - A failed sync is never retried: the system may have dropped the pages, and then reports success for the next sync.
//!   Write the file again, under a new name.
//!
//! Absent on purpose: buffering (callers write in large pieces), seek positions, permissions.

#![warn(clippy::missing_errors_doc)]

mod left;
mod lock;
mod memory_file;
mod real;
mod regular;
#[cfg(unix)]
mod served;
#[cfg(any(test, feature = "testing"))]
mod sim;
mod system;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use left::{is_still_open, remove_tree};
pub use lock::{LockError, LockGuard, lock_file};
pub use memory_file::MemoryFile;
pub use real::RealDisk;
#[cfg(unix)]
pub use served::ServedDisk;
#[cfg(all(unix, any(test, feature = "testing")))]
pub use served::fuzz_served;
#[cfg(any(test, feature = "testing"))]
pub use sim::{Fault, Kind, Loss, SimDisk};

/// The text of a file that the system generates on reading, such as those of /proc and of control groups; `None` if it
/// is missing. Such a file is not on a disk, so this is not a method of [`Disk`].
#[must_use]
pub fn system_text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// A failed operation on a file or directory.
#[derive(Debug)]
pub struct DiskError {
    /// The operation, as a verb: "write", "sync", "rename".
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// Offset in the file, in bytes, if the operation has one.
    pub offset: Option<u64>,
    /// Space that the operation needs, in bytes, if it is known.
    pub bytes: Option<u64>,
    /// The system's error.
    pub source: io::Error,
}

impl DiskError {
    /// Makes an error for `action` on `path`.
    pub fn new(action: &'static str, path: &Path, source: impl Into<io::Error>) -> DiskError {
        DiskError { action, path: path.to_path_buf(), offset: None, bytes: None, source: source.into() }
    }

    /// The error with its offset in the file.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> DiskError {
        self.offset = Some(offset);
        self
    }

    /// The error with the space that the operation needs, in bytes.
    #[must_use]
    pub fn taking(mut self, bytes: u64) -> DiskError {
        self.bytes = Some(bytes);
        self
    }

    /// The error of a sync that is not repeated after a failure: freeing space does not repair that.
    #[must_use]
    pub fn of_last_try(mut self) -> DiskError {
        if self.is_no_space() {
            self.source = io::Error::other(FullInSync(self.source));
        }
        self
    }

    /// The disk or the quota is full: once there is free space, the operation can be repeated.
    pub fn is_no_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// The file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// The system does not support the operation (such as an exchange on this file system).
    pub fn is_unsupported(&self) -> bool {
        self.source.kind() == io::ErrorKind::Unsupported
    }

    /// This name cannot be moved or swapped there, and nothing was done: the file system has no such operation, the
    /// directory is a mount point (EBUSY), or the other place is on another file system or layer (EXDEV, also of
    /// overlayfs).
    pub fn is_immovable(&self) -> bool {
        let kind = self.source.kind();
        matches!(kind, io::ErrorKind::Unsupported | io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices)
    }
}

/// A full disk during a sync. Its error kind does not cause a retry; the system's error is its source.
#[derive(Debug)]
struct FullInSync(io::Error);

impl fmt::Display for FullInSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in a sync, which is never tried again: free disk space, then start again", self.0)
    }
}

impl std::error::Error for FullInSync {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.action, self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.source)
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Result of an operation on a [`Disk`] or [`DiskFile`].
pub type DiskResult<T> = Result<T, DiskError>;

/// Properties of a file or directory that are known without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// It is a directory.
    pub is_dir: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: OsString,
    /// It is a directory.
    pub is_dir: bool,
}

/// The program's rights on a file or directory of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// It may write there.
    pub may_write: bool,
    /// It belongs to the user that runs the program, and that user may change its permissions.
    pub is_owner: bool,
}

impl Rights {
    /// All rights.
    pub const ALL: Rights = Rights { may_write: true, is_owner: true };
}

/// A file system: operations on names of files and directories. Shared by all threads.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file that exists, for reading only.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>>;

    /// Whether this is a pipe or a device, which can be read only once, from beginning to end. Opens nothing.
    ///
    /// # Errors
    /// An I/O error, other than not found.
    fn is_pipe(&self, path: &Path) -> DiskResult<bool> {
        let _ = path;
        Ok(false)
    }

    /// Opens a pipe or device ([`Disk::is_pipe`]) for reading. Waits for the writer of a named pipe.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn open_pipe(&self, path: &Path) -> DiskResult<Box<dyn io::Read + Send>> {
        Err(DiskError::new("open as a pipe", path, io::ErrorKind::Unsupported))
    }

    /// Opens a pipe or device ([`Disk::is_pipe`]) for writing; `None` while a named pipe has no reader. Writes wait for
    /// the reader.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn open_pipe_to_write(&self, path: &Path) -> DiskResult<Option<Box<dyn io::Write + Send>>> {
        Err(DiskError::new("open as a pipe", path, io::ErrorKind::Unsupported))
    }

    /// Creates a new, empty file for reading and writing.
    ///
    /// # Errors
    /// The name is taken, the directory is missing, no space, or an I/O error.
    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>>;

    /// Opens a file that exists, for reading and writing in place.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn modify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>>;

    /// Opens a file for appending, created if it is missing: for logs, which no other file depends on and which are
    /// never synced.
    ///
    /// # Errors
    /// A directory is in the way or missing, no space, or an I/O error.
    fn append(&self, path: &Path) -> DiskResult<Box<dyn io::Write + Send>>;

    /// Renames `from` to `to` in one step, replacing an existing `to`.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()>;

    /// Swaps two names (files or directories) in one step.
    ///
    /// # Errors
    /// [`DiskError::is_unsupported`] if the file system has no such operation; then nothing was done.
    fn exchange(&self, a: &Path, b: &Path) -> DiskResult<()>;

    /// Removes a file. A file that is open or mapped stays readable for its holders.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn remove_file(&self, path: &Path) -> DiskResult<()>;

    /// Removes a directory with all its contents. Not atomic.
    ///
    /// # Errors
    /// Not found, or an I/O error.
    fn remove_dir_all(&self, path: &Path) -> DiskResult<()>;

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// A file is in the way, no space, or an I/O error.
    fn create_dir_all(&self, path: &Path) -> DiskResult<()>;

    /// The names in a directory, in byte order.
    ///
    /// # Errors
    /// Not found, not a directory, or an I/O error.
    fn list(&self, path: &Path) -> DiskResult<Vec<DirEntry>>;

    /// Length and kind; `None` if the name does not exist.
    ///
    /// # Errors
    /// An I/O error, other than not found.
    fn metadata(&self, path: &Path) -> DiskResult<Option<Metadata>>;

    /// The target of a link; `None` for anything else, and on systems without links.
    ///
    /// # Errors
    /// An I/O error.
    fn read_link(&self, path: &Path) -> DiskResult<Option<PathBuf>> {
        let _ = path;
        Ok(None)
    }

    /// This program's rights on `path`, without a test write: all rights if they are unknown.
    fn rights(&self, path: &Path) -> Rights {
        let _ = path;
        Rights::ALL
    }

    /// Makes the names in a directory durable: created, moved and removed ones. If the file system does not support
    /// that, this is not an error, as in LevelDB; [`Disk::can_sync_dir`] tells.
    ///
    /// # Errors
    /// An I/O error.
    fn sync_dir(&self, path: &Path) -> DiskResult<()>;

    /// Whether names in a directory can be made durable: some network and FUSE file systems do not support fsync of a
    /// directory.
    ///
    /// # Errors
    /// An I/O error.
    fn can_sync_dir(&self, path: &Path) -> DiskResult<bool> {
        let _ = path;
        Ok(true)
    }

    /// [`Disk::sync_dir`] for names that would not be created again after a failure: then a full disk is an error like
    /// any other.
    ///
    /// # Errors
    /// An I/O error.
    fn sync_dir_once(&self, path: &Path) -> DiskResult<()> {
        self.sync_dir(path).map_err(DiskError::of_last_try)
    }

    /// Bytes that an unprivileged program can still write below `path`.
    ///
    /// # Errors
    /// An I/O error.
    fn free_space_bytes(&self, path: &Path) -> DiskResult<u64>;

    /// Number of files that an unprivileged program can still create below `path`; `None` if the file system does not
    /// limit it.
    ///
    /// # Errors
    /// What the system says.
    fn free_inodes(&self, path: &Path) -> DiskResult<Option<u64>> {
        let _ = path;
        Ok(None)
    }

    /// A new file of `bytes` in a directory, with reserved space, that never has a name: the system removes it when it
    /// is closed, even after a crash of the program.
    ///
    /// # Errors
    /// [`DiskError::is_unsupported`] if there are no such files, or no reservations; no space; an I/O error.
    fn unnamed_file(&self, dir: &Path, bytes: u64) -> DiskResult<std::fs::File> {
        let _ = bytes;
        Err(DiskError::new("create a file without a name in", dir, io::ErrorKind::Unsupported))
    }

    /// Takes a lock of Core's kind on a file, which is created if it is missing. The lock is held until the guard is
    /// dropped.
    ///
    /// # Errors
    /// [`LockError`] names the program that holds it.
    fn lock(&self, path: &Path) -> Result<LockGuard, LockError>;

    /// The holder of the lock on a file, without taking the lock or writing anything; `None` if it is free, if there is
    /// no such file, or if the system does not let this program check.
    fn lock_holder(&self, path: &Path) -> Option<LockError> {
        let _ = path;
        None
    }
}

/// One open file. All access is by position, from any thread.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// The name used to open it.
    fn path(&self) -> &Path;

    /// Length in bytes.
    ///
    /// # Errors
    /// An I/O error.
    fn len(&self) -> DiskResult<u64>;

    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// An I/O error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<usize>;

    /// The whole file as it is now, mapped if the system can. The file must not be written to.
    ///
    /// The caller promises that the file is not truncated while this is held.
    ///
    /// # Errors
    /// An I/O error.
    fn bytes(&self) -> DiskResult<Bytes>;

    /// Writes all of `data` at `offset`, growing the file if needed.
    ///
    /// # Errors
    /// No space, or an I/O error; part of it may have been written.
    fn write_at(&self, offset: u64, data: &[u8]) -> DiskResult<()>;

    /// Truncates the file, or extends it with zeros, to `len` bytes.
    ///
    /// # Errors
    /// An I/O error.
    fn set_len(&self, len: u64) -> DiskResult<()>;

    /// Reserves space for `len` bytes at `offset`, and extends the file with zeros as posix_fallocate does.
    ///
    /// # Errors
    /// No space, or an I/O error.
    fn allocate(&self, offset: u64, len: u64) -> DiskResult<()>;

    /// Advises the system that these bytes will not be read soon: it may start writing dirty pages to the disk, and
    /// drops clean ones. This affects neither reads nor syncs.
    fn drop_page_cache(&self, offset: u64, len: u64);

    /// Advises the system that reads will be random: it does not read ahead.
    fn advise_random(&self) {}

    /// The system's open file, for a queue of reads (`sys::ring`); `None` if there is no such file, as on a simulated
    /// disk.
    fn system_file(&self) -> Option<&std::fs::File> {
        None
    }

    /// Whether the name used to open it still leads to this file: it has not been removed, moved or replaced.
    ///
    /// # Errors
    /// An I/O error, other than not found.
    fn is_in_place(&self) -> DiskResult<bool>;

    /// Makes contents and length durable (fdatasync). After an error, see the crate's rules.
    ///
    /// # Errors
    /// An I/O error.
    fn sync(&self) -> DiskResult<()>;

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// The file ends too early, or an I/O error.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> DiskResult<()> {
        let count = self.read_at(offset, buffer)?;
        if count == buffer.len() {
            return Ok(());
        }
        let why = format!("wanted {} bytes, the file ends after {count}", buffer.len());
        let why = io::Error::new(io::ErrorKind::UnexpectedEof, why);
        Err(DiskError::new("read", self.path(), why).at_offset(offset))
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// An I/O error.
    fn is_empty(&self) -> DiskResult<bool> {
        Ok(self.len()? == 0)
    }
}

/// Writes pieces in sequence to the end of a file.
#[derive(Debug)]
pub struct Appender {
    file: Arc<dyn DiskFile>,
    offset: u64,
}

impl Appender {
    /// Continues at `offset` of `file`.
    pub fn new(file: Arc<dyn DiskFile>, offset: u64) -> Appender {
        Appender { file, offset }
    }

    /// Appends all of `data`.
    ///
    /// # Errors
    /// Those of [`DiskFile::write_at`]; do not append to the file again then.
    pub fn write_all(&mut self, data: &[u8]) -> DiskResult<()> {
        self.file.write_at(self.offset, data)?;
        self.offset += data.len() as u64;
        Ok(())
    }

    /// Makes all of it durable.
    ///
    /// # Errors
    /// Those of [`DiskFile::sync`]; never retry.
    pub fn sync(&self) -> DiskResult<()> {
        self.file.sync()
    }

    /// The offset of the next piece, in bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The file itself.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }
}

/// A whole file's contents: mapped, or in memory.
pub struct Bytes(Inner);

enum Inner {
    Owned(Vec<u8>),
    /// Contents of a simulated file, which counts as open as long as this lives, as a mapped one does.
    #[cfg(any(test, feature = "testing"))]
    Open {
        bytes: Vec<u8>,
        _file: Arc<dyn DiskFile>,
    },
    Mapped(sys::map::Map),
}

impl Bytes {
    /// Whether these bytes are in the system's page cache and not in this process's memory.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Inner::Mapped(_))
    }

    /// Advises the system that reads will be random: no read-ahead.
    pub fn advise_random(&self) {
        if let Inner::Mapped(map) = &self.0 {
            map.advise_random();
        }
    }

    /// Asks the system to start reading a range now.
    pub fn advise_will_need(&self, range: Range<usize>) {
        if let Inner::Mapped(map) = &self.0 {
            map.advise_will_need(range);
        }
    }

    /// Whether a range is in memory, so that reading it does not wait for the disk; true if the system does not tell.
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        match &self.0 {
            Inner::Owned(_) => true,
            #[cfg(any(test, feature = "testing"))]
            Inner::Open { .. } => true,
            Inner::Mapped(map) => map.is_resident(range),
        }
    }

    /// Advises the system that reads will be sequential.
    pub fn advise_sequential(&self) {
        if let Inner::Mapped(map) = &self.0 {
            map.advise_sequential();
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Inner::Owned(bytes))
    }
}

impl From<sys::map::Map> for Bytes {
    fn from(map: sys::map::Map) -> Bytes {
        Bytes(Inner::Mapped(map))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Inner::Owned(bytes) => bytes,
            #[cfg(any(test, feature = "testing"))]
            Inner::Open { bytes, .. } => bytes,
            Inner::Mapped(map) => map,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({}, mapped: {})", self.len(), self.is_mapped())
    }
}
