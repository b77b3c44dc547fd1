//! Faults: failures outside the program, such as disk errors. One type for the whole crate.
//!
//! A fault is never about a block's validity; that is a verdict, and belongs to another crate.

use disk::{DiskError, LockError};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Result of every operation on a file.
pub type Result<T> = std::result::Result<T, Fault>;

/// The kind of a fault: how a caller may react without reading the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// A required file or directory is missing.
    Missing,
    /// The system does not let this program read or write.
    Permission,
    /// The disk or the quota is full: the same call can be made again once there is free space.
    NoSpace,
    /// The system failed to read or write for another reason: a disconnected drive, a bad sector.
    Io,
    /// Another program holds the data directory.
    Locked,
    /// Unexpected bytes: a wrong checksum, a truncated record, an entry that does not decode.
    Damaged,
    /// Written by another or a newer program, in an unsupported form.
    OtherForm,
    /// The data directory belongs to another network.
    OtherNetwork,
    /// The request does not fit the state of the data directory.
    Refused,
}

/// What is wrong, in which file, and what to do about it.
#[derive(Debug)]
pub struct Fault(Box<Detail>);

/// The parts of a [`Fault`].
#[derive(Debug)]
pub struct Detail {
    /// Its kind.
    pub kind: FaultKind,
    /// The file or directory.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: Option<u64>,
    /// The expected content or result.
    pub wanted: String,
    /// The actual content or result.
    pub found: String,
    /// The next step for the user.
    pub advice: String,
    /// Whether a reindex helps too, if the advice cannot be followed.
    pub is_for_reindex: bool,
    /// The system's error with its number, if there is one.
    pub source: Option<io::Error>,
}

impl Fault {
    /// A fault at `path`; see [`Detail`] for the arguments.
    pub fn new(
        kind: FaultKind,
        path: &Path,
        wanted: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Fault {
        let wanted = wanted.into();
        let found = found.into();
        let advice = advice.into();
        Fault(Box::new(Detail {
            kind,
            path: path.to_path_buf(),
            offset: None,
            wanted,
            found,
            advice,
            is_for_reindex: false,
            source: None,
        }))
    }

    /// A fault from an I/O error, which it keeps as its source.
    fn of_system(kind: FaultKind, path: &Path, wanted: String, source: io::Error) -> Fault {
        let mut fault = Fault::new(kind, path, wanted, source.to_string(), advice_for(kind, &source));
        fault.0.source = Some(source);
        fault
    }

    /// The fault with its offset in the file.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Fault {
        self.0.offset = Some(offset);
        self
    }

    /// The fault with more specific advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Fault {
        self.0.advice = advice.into();
        self
    }

    /// The fault, marked as one that a reindex repairs too.
    #[must_use]
    pub fn or_reindex(mut self) -> Fault {
        self.0.is_for_reindex = true;
        self
    }

    /// The fault without that mark: it is reported within a reindex, or less than a reindex helps.
    #[must_use]
    pub fn without_reindex(mut self) -> Fault {
        self.0.is_for_reindex = false;
        self
    }

    /// The message without the advice.
    pub fn what(&self) -> String {
        let Detail { path, offset, wanted, found, .. } = &*self.0;
        let at = offset.map_or(String::new(), |offset| format!(" at byte {offset}"));
        format!("{}{at}: wanted {wanted}, found {found}", path.display())
    }

    /// Its kind.
    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    /// The disk is full: the same call can be made again once there is free space.
    pub fn is_no_space(&self) -> bool {
        self.0.kind == FaultKind::NoSpace
    }

    /// All of its parts.
    pub fn detail(&self) -> &Detail {
        &self.0
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Detail { advice, is_for_reindex, .. } = &*self.0;
        f.write_str(&self.what())?;
        if !advice.is_empty() {
            write!(f, ". {advice}")?;
        }
        if *is_for_reindex {
            write!(f, ". If that is impossible, run ffwd repair")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

fn kind_of(error: &io::Error) -> FaultKind {
    match error.kind() {
        io::ErrorKind::NotFound => FaultKind::Missing,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FaultKind::Permission,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FaultKind::NoSpace,
        io::ErrorKind::UnexpectedEof => FaultKind::Damaged,
        io::ErrorKind::Unsupported => FaultKind::Refused,
        _ => FaultKind::Io,
    }
}

/// `EMFILE` of Linux, macOS and the BSDs.
const TOO_MANY_OPEN_FILES: i32 = 24;

/// The next step after an I/O error.
fn advice_for(kind: FaultKind, source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::IsADirectory => return "A directory is in the place of this file: move it away",
        io::ErrorKind::NotADirectory => return "A file is in the place of this directory: move it away",
        io::ErrorKind::FileTooLarge => {
            return "Raise the limit of file sizes (ulimit -f), or use a file system that takes larger files";
        }
        io::ErrorKind::ResourceBusy => return "Something is mounted there: mount the directory instead of the file",
        _ if matches!(source.raw_os_error(), Some(TOO_MANY_OPEN_FILES)) => {
            return "Raise the limit of open files (ulimit -n)";
        }
        _ => {}
    }
    match kind {
        FaultKind::Missing => "Is the drive there, and the path right?",
        FaultKind::Permission => "Let this user read and write it (chmod, chown, or a mount that is not read-only)",
        FaultKind::NoSpace => "Free disk space; work resumes automatically",
        FaultKind::Damaged => "The file is shorter than it was: was it truncated, or copied only in part?",
        FaultKind::Refused => {
            "Neither ffwd nor bitcoind works there: use a directory on another file system, or mount this one otherwise (NFS with \
             locks: without nolock, its lock service running; FUSE without direct_io)"
        }
        _ => "Look at the drive and the system's log",
    }
}

/// The space that an operation needs; a new name with the file system's metadata needs little.
fn space(bytes: Option<u64>) -> String {
    bytes.map_or("a few KiB".to_owned(), |bytes| format!("{bytes} bytes"))
}

impl From<DiskError> for Fault {
    fn from(error: DiskError) -> Fault {
        let kind = kind_of(&error.source);
        let wanted = match kind {
            FaultKind::NoSpace => format!("to {} it, which takes {}", error.action, space(error.bytes)),
            _ => format!("to {} it", error.action),
        };
        let offset = error.offset;
        let fault = Fault::of_system(kind, &error.path, wanted, error.source);
        match offset {
            Some(offset) => fault.at_offset(offset),
            None => fault,
        }
    }
}

impl From<LockError> for Fault {
    fn from(error: LockError) -> Fault {
        let wanted = "a data directory without another program";
        if let Some(source) = error.source {
            let kind = kind_of(&source);
            let takes =
                if kind == FaultKind::NoSpace { format!(", which takes {}", space(None)) } else { String::new() };
            return Fault::of_system(kind, &error.path, wanted.to_owned() + &takes, source);
        }
        let holder = match (error.pid, &error.program) {
            (Some(pid), Some(program)) => format!("it held by process {pid} ({program})"),
            (Some(pid), None) => format!("it held by process {pid}"),
            _ => "it held by a process that the system does not name".to_owned(),
        };
        Fault::new(FaultKind::Locked, &error.path, wanted, holder, "Stop that program, or use another data directory")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_text_has_path_offset_and_advice() {
        let path = Path::new("/d/blk00000.dat");
        for (row, kind, want) in [
            (io::ErrorKind::NotFound, FaultKind::Missing, "Is the drive there"),
            (io::ErrorKind::PermissionDenied, FaultKind::Permission, "chmod"),
            (io::ErrorKind::ReadOnlyFilesystem, FaultKind::Permission, "read-only"),
            (io::ErrorKind::StorageFull, FaultKind::NoSpace, "Free disk space"),
            (io::ErrorKind::QuotaExceeded, FaultKind::NoSpace, "Free disk space"),
            (io::ErrorKind::UnexpectedEof, FaultKind::Damaged, "shorter"),
            (io::ErrorKind::Unsupported, FaultKind::Refused, "another file system"),
            (io::ErrorKind::Other, FaultKind::Io, "Look at the drive"),
        ] {
            let fault = Fault::from(DiskError::new("read", path, io::Error::from(row)).at_offset(7));
            assert_eq!((fault.kind(), fault.is_no_space()), (kind, kind == FaultKind::NoSpace), "{row:?}");
            let text = fault.to_string();
            assert!(text.starts_with("/d/blk00000.dat at byte 7: wanted to read it"), "{text}");
            assert_eq!(text.contains("which takes a few KiB, found"), kind == FaultKind::NoSpace, "{text}");
            assert!(text.contains(want), "{row:?}: {text}");
        }
    }

    #[test]
    fn fault_of_the_system_keeps_its_number() {
        use std::error::Error;
        let number = |fault: Fault| fault.source()?.downcast_ref::<io::Error>()?.raw_os_error();
        let io = |number| io::Error::from_raw_os_error(number);
        assert_eq!(number(DiskError::new("sync", Path::new("/d/f"), io(5)).into()), Some(5));
        let locked = LockError { path: PathBuf::from("/d/.lock"), pid: None, program: None, source: Some(io(13)) };
        assert_eq!(number(locked.into()), Some(13));
        let damaged = Fault::new(FaultKind::Damaged, Path::new("/d"), "a block", "none", "Run reindex");
        assert_eq!(number(damaged), None);
    }

    #[test]
    fn causes_that_are_no_failure_of_the_drive_are_told() {
        let of = |number| Fault::from(DiskError::new("open", Path::new("/d/f"), io::Error::from_raw_os_error(number)));
        for (number, want) in
            [(24, "ulimit -n"), (27, "ulimit -f"), (21, "A directory is in the place"), (16, "mounted"), (5, "drive")]
        {
            let text = of(number).to_string();
            assert!(text.contains(want), "{number}: {text}");
        }
    }

    /// What helps twice is no advice: ffwd reindex is not told to run ffwd reindex.
    #[test]
    fn reindex_is_not_advised_within_a_reindex() {
        let gone = || Fault::new(FaultKind::Missing, Path::new("/d"), "a file", "none", "Put it back").or_reindex();
        assert!(gone().to_string().ends_with("Put it back. If that is impossible, run ffwd repair"), "{}", gone());
        assert!(gone().without_reindex().to_string().ends_with("Put it back"));
    }

    #[test]
    fn full_disk_fault_says_how_much_space_is_wanted() {
        let full = || DiskError::new("write", Path::new("/d/f"), io::Error::from(io::ErrorKind::StorageFull));
        let fault = Fault::from(full().taking(4096));
        assert!(fault.to_string().contains("wanted to write it, which takes 4096 bytes, found"), "{fault}");
        let fault = Fault::from(full().of_last_try());
        assert!(!fault.is_no_space() && fault.to_string().contains("free disk space, then start again"), "{fault}");
        let missing = DiskError::new("sync", Path::new("/d/f"), io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(Fault::from(missing.of_last_try()).kind(), FaultKind::Missing);
    }

    #[test]
    fn lock_fault_names_the_holder() {
        let error = |pid, program: Option<&str>, source: Option<io::ErrorKind>| LockError {
            path: PathBuf::from("/d/.lock"),
            pid,
            program: program.map(str::to_owned),
            source: source.map(io::Error::from),
        };
        for (error, kind, want) in [
            (error(Some(12), Some("bitcoind"), None), FaultKind::Locked, "process 12 (bitcoind). Stop"),
            (error(Some(12), None, None), FaultKind::Locked, "process 12. Stop"),
            (error(None, None, None), FaultKind::Locked, "does not name"),
            (error(None, None, Some(io::ErrorKind::PermissionDenied)), FaultKind::Permission, "chmod"),
            (error(None, None, Some(io::ErrorKind::Unsupported)), FaultKind::Refused, "without nolock"),
        ] {
            let fault = Fault::from(error);
            assert_eq!(fault.kind(), kind);
            assert!(fault.to_string().contains(want), "{fault}");
        }
    }
}
