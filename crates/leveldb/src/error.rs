//! Errors of a LevelDB directory, with file and place.

use std::fmt;
use std::path::{Path, PathBuf};

use disk::{DiskError, LockError};

/// An error outside the program: of a LevelDB directory, its disk or its lock.
#[derive(Debug)]
pub enum Error {
    /// The system refused an operation.
    Disk(DiskError),
    /// The directory's LOCK could not be taken.
    Lock(LockError),
    /// A file has unexpected bytes.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in the file, in bytes.
        offset: u64,
        /// The expected content.
        wanted: String,
        /// The actual content.
        found: String,
    },
    /// A file that others refer to is missing.
    Missing {
        /// The file.
        path: PathBuf,
        /// The file or part that refers to it.
        wanted_by: String,
    },
    /// A new database was requested in a directory that already has one.
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// A change was requested of a directory that is open for reading only.
    ReadOnly {
        /// The directory.
        path: PathBuf,
    },
    /// A record is larger than any table may hold.
    TooLarge {
        /// Bytes of key and value.
        bytes: usize,
        /// The limit, in bytes.
        bytes_max: usize,
    },
    /// No level above the existing runs is free: a compaction must free one first.
    CompactFirst {
        /// The directory.
        path: PathBuf,
        /// Files in level 0; the limit is three.
        level0_count: usize,
    },
}

impl Error {
    /// The disk is full. Once space is freed, the operation can be repeated.
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::Disk(why) => why.is_no_space(),
            Error::Lock(why) => why.source.as_ref().is_some_and(|source| {
                matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
            }),
            _ => false,
        }
    }

    /// Bytes on the disk are wrong or missing: a retry does not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. } | Error::Missing { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Disk(why) => why.fmt(f),
            Error::Lock(why) => why.fmt(f),
            Error::Damaged { path, offset, wanted, found } => write!(
                f,
                "{} is damaged at byte {offset}: wanted {wanted}, found {found}; \
                 restore the file or rebuild the database",
                path.display()
            ),
            Error::Missing { path, wanted_by } => write!(
                f,
                "{} is missing, {wanted_by} needs it; restore the file or rebuild the database",
                path.display()
            ),
            Error::Exists { path } => {
                write!(f, "{} holds a database already: remove it or open it", path.display())
            }
            Error::ReadOnly { path } => {
                write!(f, "{} was opened for reading only: nothing is written", path.display())
            }
            Error::TooLarge { bytes, bytes_max } => {
                write!(f, "a record has {bytes} bytes, a table takes {bytes_max}: split it")
            }
            Error::CompactFirst { path, level0_count } => write!(
                f,
                "{} has {level0_count} files in level 0 and no free level: compact, then commit",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Disk(why) => Some(why),
            Error::Lock(why) => Some(why),
            _ => None,
        }
    }
}

impl From<DiskError> for Error {
    fn from(why: DiskError) -> Error {
        Error::Disk(why)
    }
}

impl From<LockError> for Error {
    fn from(why: LockError) -> Error {
        Error::Lock(why)
    }
}

/// Result of an operation on a database.
pub type Result<T> = std::result::Result<T, Error>;

/// Damage found by a parser, which has the bytes but not the file's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) wanted: String,
    pub(crate) found: String,
}

impl Damage {
    pub(crate) fn new(offset: impl TryInto<u64>, wanted: impl Into<String>, found: impl Into<String>) -> Damage {
        let offset = offset.try_into().unwrap_or(u64::MAX);
        Damage { offset, wanted: wanted.into(), found: found.into() }
    }

    /// The damage as an [`Error`] with the file's name.
    pub(crate) fn of(self, path: &Path) -> Error {
        let Damage { offset, wanted, found } = self;
        Error::Damaged { path: path.to_path_buf(), offset, wanted, found }
    }
}
