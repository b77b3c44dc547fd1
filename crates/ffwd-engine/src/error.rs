//! Why a call failed: what sort of failure, the message with what to do, and the system's error behind it.

use node::Fault;
use node::offline::files::at_rest;
use node::options::Options;
use std::error;
use std::fmt;
use std::io;
use std::path::Path;
use store::FaultKind;

/// The sort of failure that an [`Error`] is, for programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or directory is missing: the data directory, its block files, or its UTXO set.
    Missing,
    /// The system does not let this process read or write a file.
    Permission,
    /// The disk or the quota is full. A job waits for space instead, until it is stopped.
    NoSpace,
    /// The system failed to read or write for another reason.
    Io,
    /// Another program, or another job of this process, uses the data directory.
    InUse,
    /// A file does not hold what it should: a wrong checksum, a record that is cut short.
    Damaged,
    /// A file has the format of another or a newer program.
    OtherFormat,
    /// The data directory belongs to another network.
    OtherNetwork,
    /// The request does not fit the state of the data directory, or its own options contradict each other.
    Refused,
    /// The block index or the UTXO set must be rebuilt: [`crate::DataDir::reindex`].
    NeedsReindex,
    /// A [`crate::Stop`] ended the job before there was a result. Nothing that was committed is lost.
    Stopped,
    /// Two computations that must agree do not: failing hardware, or a mistake of this library.
    Internal,
}

/// Why a call failed. The message says what happened, to which file, and what to do.
///
/// [`source`](error::Error::source) is the [`std::io::Error`] of the system, with its number, where there is one.
///
/// ```
/// use ffwd_engine::{DataDir, ErrorKind, Network};
///
/// let error = DataDir::open("/no/such/directory", Network::Main).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Missing);
/// assert!(error.to_string().starts_with("/no/such/directory: "));
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    fault: Fault,
}

impl Error {
    /// The sort of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file or directory that it is about, where it is about one.
    pub fn path(&self) -> Option<&Path> {
        match &self.fault {
            Fault::Store(fault) => Some(&fault.detail().path),
            _ => None,
        }
    }

    /// A refused request: why, and what to do.
    pub(crate) fn refused(why: impl Into<String>, advice: &str) -> Error {
        Fault::refused(why, advice).into()
    }

    /// A failure to read files without their locks. The cause may be a program that was started meanwhile: it is named.
    pub(crate) fn of_reading(options: &Options, question: &str, fault: Fault) -> Error {
        let failed = at_rest(options, question, || Err::<(), Fault>(fault));
        failed.expect_err("it failed").into()
    }

    /// The same failure of a job that was told to stop, and stopped for that reason.
    pub(crate) fn into_stopped(mut self) -> Error {
        self.kind = ErrorKind::Stopped;
        self
    }
}

fn kind_of(fault: &Fault) -> ErrorKind {
    match fault {
        Fault::Store(fault) => match fault.kind() {
            FaultKind::Missing => ErrorKind::Missing,
            FaultKind::Permission => ErrorKind::Permission,
            FaultKind::NoSpace => ErrorKind::NoSpace,
            FaultKind::Io => ErrorKind::Io,
            FaultKind::Locked => ErrorKind::InUse,
            FaultKind::Damaged => ErrorKind::Damaged,
            FaultKind::OtherForm => ErrorKind::OtherFormat,
            FaultKind::OtherNetwork => ErrorKind::OtherNetwork,
            FaultKind::Refused => ErrorKind::Refused,
        },
        Fault::Refused(_) => ErrorKind::Refused,
        Fault::System(_, source) => match source.kind() {
            io::ErrorKind::NotFound => ErrorKind::Missing,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Permission,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        },
        Fault::Rebuild(_) => ErrorKind::NeedsReindex,
        Fault::Stopped => ErrorKind::Stopped,
        Fault::Internal(_) => ErrorKind::Internal,
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error { kind: kind_of(&fault), fault }
    }
}

impl From<store::Fault> for Error {
    fn from(fault: store::Fault) -> Error {
        Fault::from(fault).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault, f)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        error::Error::source(&self.fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_kind() {
        for (fault, want) in [
            (FaultKind::Missing, ErrorKind::Missing),
            (FaultKind::Permission, ErrorKind::Permission),
            (FaultKind::NoSpace, ErrorKind::NoSpace),
            (FaultKind::Io, ErrorKind::Io),
            (FaultKind::Locked, ErrorKind::InUse),
            (FaultKind::Damaged, ErrorKind::Damaged),
            (FaultKind::OtherForm, ErrorKind::OtherFormat),
            (FaultKind::OtherNetwork, ErrorKind::OtherNetwork),
            (FaultKind::Refused, ErrorKind::Refused),
        ] {
            let error = Error::from(store::Fault::new(fault, Path::new("/d/f"), "a file", "none", "Put it back"));
            assert_eq!((error.kind(), error.path()), (want, Some(Path::new("/d/f"))), "{error}");
        }
        for (fault, want) in [
            (Fault::refused("no", "Say yes"), ErrorKind::Refused),
            (Fault::system("no", "Say yes", io::Error::from_raw_os_error(13)), ErrorKind::Permission),
            (Fault::system("no", "Say yes", io::Error::from_raw_os_error(98)), ErrorKind::Io),
            (Fault::Rebuild("it is old".to_owned()), ErrorKind::NeedsReindex),
            (Fault::Stopped, ErrorKind::Stopped),
            (Fault::internal("1 is 2"), ErrorKind::Internal),
        ] {
            let error = Error::from(fault);
            assert_eq!((error.kind(), error.path()), (want, None), "{error}");
        }
        assert_eq!(Error::refused("no", "Say yes").into_stopped().kind(), ErrorKind::Stopped);
    }
}
