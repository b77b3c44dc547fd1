//! Why a call failed: a category, a message with advice, and the underlying system error.

use node::Fault;
use node::offline::files::at_rest;
use node::options::Options;
use std::error;
use std::fmt;
use std::io;
use std::path::Path;
use store::FaultKind;

/// The category of an [`Error`], for use by programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file or directory is missing: the data directory, its block files, or its UTXO set.
    Missing,
    /// The process lacks the permission to read or write a file.
    Permission,
    /// The disk or the quota is full. Jobs wait for space instead, until they are stopped.
    NoSpace,
    /// Another I/O error.
    Io,
    /// Another program, or another job of this process, uses the data directory.
    InUse,
    /// A file is damaged: a wrong checksum, a truncated record.
    Damaged,
    /// A file has the format of another program or of a newer version.
    OtherFormat,
    /// The data directory belongs to another network.
    OtherNetwork,
    /// The request does not fit the state of the data directory, or its options contradict each other.
    Refused,
    /// The block index or the UTXO set must be rebuilt: [`crate::DataDir::reindex`].
    NeedsReindex,
    /// A [`crate::Stop`] ended the job before there was a result. Committed work is kept.
    Stopped,
    /// Two computations that must agree do not: failing hardware, or a bug in this library.
    Internal,
}

/// Why a call failed. The message states the problem, the file, and the remedy.
///
/// [`source`](error::Error::source) is the underlying [`std::io::Error`], if there is one.
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
    /// The category of the failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The file or directory that caused the failure, if one did.
    pub fn path(&self) -> Option<&Path> {
        match &self.fault {
            Fault::Store(fault) => Some(&fault.detail().path),
            _ => None,
        }
    }

    /// A rejected request: the reason, and advice.
    pub(crate) fn refused(why: impl Into<String>, advice: &str) -> Error {
        Fault::refused(why, advice).into()
    }

    /// A failure to read files without their locks. If a program that was started meanwhile may be the cause, it is
    /// named.
    pub(crate) fn of_reading(options: &Options, question: &str, fault: Fault) -> Error {
        let failed = at_rest(options, question, || Err::<(), Fault>(fault));
        failed.expect_err("it failed").into()
    }

    /// The failure of a job that was stopped by its token, as [`ErrorKind::Stopped`].
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
