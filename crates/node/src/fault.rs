//! Faults: the world is wrong, or we are. Never about a block's validity.

use std::fmt;

/// The last line of [`Fault::Rebuild`], in Core's words. Source: Bitcoin Core b88bffe, init.cpp, `AppInitMain`.
pub const REBUILD_ADVICE: &str = "Please restart with -reindex or -reindex-chainstate to recover.";

/// What keeps the engine from going on.
#[derive(Debug)]
pub enum Fault {
    /// A file, directory, disk or lock.
    Store(store::fault::Fault),
    /// Something between programs or options: what was wanted, what was found, what to do.
    Refused(String),
    /// What is there cannot be gone on with, and a rebuild mends it: why, in Core's words. Core shows it without a prefix.
    Rebuild(String),
    /// Stopped on demand, before anything was changed.
    Stopped,
    /// Two computations that must agree do not: failing hardware, or a mistake of this program.
    Internal(String),
}

impl Fault {
    /// The disk is full: with room, the same work can be done.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Fault::Store(fault) if fault.is_no_space())
    }

    /// A mistake of this program, or of the machine.
    pub fn internal(what: impl Into<String>) -> Fault {
        Fault::Internal(what.into())
    }

    /// Something that cannot be done as asked.
    pub fn refused(why: impl Into<String>) -> Fault {
        Fault::Refused(why.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Store(fault) => fmt::Display::fmt(fault, f),
            Fault::Refused(why) => f.write_str(why),
            Fault::Stopped => f.write_str("stopped before anything was changed"),
            Fault::Rebuild(why) => write!(f, "{why}.\n{REBUILD_ADVICE}"),
            Fault::Internal(what) => write!(
                f,
                "{what}: this is a fault of the machine or of this program, not of a block; nothing was marked, what was committed stands"
            ),
        }
    }
}

impl std::error::Error for Fault {}

impl From<store::fault::Fault> for Fault {
    fn from(fault: store::fault::Fault) -> Fault {
        Fault::Store(fault)
    }
}
