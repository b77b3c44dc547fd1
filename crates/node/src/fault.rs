//! Faults: an error of the environment (disk, options, system) or of this program. Never a verdict on a block.

use primitives::{BlockHash, Height};
use std::fmt;
use std::io;
use store::blockfiles::BlockFiles;
use store::{FaultKind, FilePos};

/// The last line of [`Fault::Rebuild`], in Core's words. Source: Bitcoin Core b88bffe, init.cpp, `AppInitMain`.
pub const REBUILD_ADVICE: &str = "Please restart with -reindex or -reindex-chainstate to recover.";

/// What happened, and what to do about it. Every message has advice; docs/messages.md lists them all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    what: String,
    advice: String,
}

impl Message {
    /// `what` is the text after "Error: " or "warning: "; `advice` is a separate sentence, without a full stop.
    pub fn new(what: impl Into<String>, advice: impl Into<String>) -> Message {
        Message { what: what.into(), advice: advice.into() }
    }

    /// What happened.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do about it.
    pub fn advice(&self) -> &str {
        &self.advice
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let point = if self.what.ends_with(['.', '?', '!']) { "" } else { "." };
        write!(f, "{}{point} {}", self.what, self.advice)
    }
}

/// How a task that can be interrupted ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// It is complete.
    Done,
    /// It was interrupted. Its progress is kept, and the next start continues there.
    Stopped,
}

/// Why the engine cannot continue.
#[derive(Debug)]
pub enum Fault {
    /// A file, directory, disk or lock.
    Store(store::fault::Fault),
    /// A conflict with another program or between options.
    Refused(Message),
    /// The system refused a thread, port or output file. The source is the I/O error of the system.
    System(Message, io::Error),
    /// The data directory needs a rebuild: the reason, in Core's words. Core shows it without a prefix.
    Rebuild(String),
    /// Interrupted by the user. Nothing is lost: the same job begins again, or goes on.
    Stopped,
    /// Two computations that must agree do not: failing hardware, or a bug in this program.
    Internal(String),
}

impl Fault {
    /// The block files do not contain the block that the index records at this position.
    pub(crate) fn damaged_block(
        files: &BlockFiles,
        at: FilePos,
        hash: &BlockHash,
        height: Height,
        found: &str,
    ) -> Fault {
        let path = files.path(at.file);
        let wanted = format!("block {hash} at height {height}");
        let advice = "The block file is damaged: look at the drive, then put the file back, or run ffwd repair, \
                      which fetches only damaged blocks";
        store::Fault::new(FaultKind::Damaged, &path, wanted, found, advice).at_offset(u64::from(at.offset)).into()
    }

    /// Whether the disk is full: after space is freed, the same operation can succeed.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Fault::Store(fault) if fault.is_no_space())
    }

    /// A bug in this program, or failing hardware.
    pub fn internal(what: impl Into<String>) -> Fault {
        Fault::Internal(what.into())
    }

    /// A request that was refused: the reason, and what to do about it.
    pub fn refused(why: impl Into<String>, advice: impl Into<String>) -> Fault {
        Fault::Refused(Message::new(why, advice))
    }

    /// A system error outside the data directory: what failed, with the system's message, and what to do about it.
    pub fn system(why: impl Into<String>, advice: impl Into<String>, source: io::Error) -> Fault {
        Fault::System(Message::new(why, advice), source)
    }

    /// The fault as a reindex reports it: without the advice to reindex.
    #[must_use]
    pub fn without_reindex(self) -> Fault {
        match self {
            Fault::Store(fault) => Fault::Store(fault.without_reindex()),
            other => other,
        }
    }

    /// What happened, without the advice if that is stored separately: the text with which Core's RPC calls answer.
    pub fn what(&self) -> String {
        match self {
            Fault::Refused(message) | Fault::System(message, _) => message.what().to_owned(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Store(fault) => fmt::Display::fmt(fault, f),
            Fault::Refused(message) | Fault::System(message, _) => fmt::Display::fmt(message, f),
            Fault::Stopped => f.write_str("stopped; the same command begins again, or goes on"),
            Fault::Rebuild(why) => write!(f, "{why}.\n{REBUILD_ADVICE}"),
            Fault::Internal(what) => write!(
                f,
                "{what}: this is a fault of the machine or of this program, not of a block; nothing was marked, what was committed stands"
            ),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Fault::Store(fault) => fault.source(),
            Fault::System(_, source) => Some(source),
            Fault::Refused(_) | Fault::Rebuild(_) | Fault::Stopped | Fault::Internal(_) => None,
        }
    }
}

impl From<store::fault::Fault> for Fault {
    fn from(fault: store::fault::Fault) -> Fault {
        Fault::Store(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;
    use std::path::Path;

    #[test]
    fn message_has_one_point_between_its_sentences() {
        for (what, want) in [
            ("the clock is wrong", "the clock is wrong. Set it"),
            ("Prune mode is on.", "Prune mode is on. Set it"),
            ("is it this network's?", "is it this network's? Set it"),
        ] {
            assert_eq!(Message::new(what, "Set it").to_string(), want);
            assert_eq!(Fault::refused(what, "Set it").what(), what);
        }
    }

    #[test]
    fn fault_of_the_system_keeps_its_number() {
        let full = || disk::DiskError::new("write", Path::new("/d"), io::Error::from_raw_os_error(28));
        let port = Fault::system("no port", "Give another", io::Error::from_raw_os_error(98));
        for (row, fault, want) in [
            ("of a file", store::Fault::from(full()).into(), 28),
            ("of a sync", store::Fault::from(full().of_last_try()).into(), 28),
            ("of no file", port, 98),
        ] {
            let sources = std::iter::successors(fault.source(), |&source| source.source());
            let mut numbers = sources.filter_map(|source| source.downcast_ref::<io::Error>()?.raw_os_error());
            assert_eq!(numbers.next(), Some(want), "{row}: {fault}");
        }
        assert!(Fault::refused("no", "Say yes").source().is_none());
    }
}
