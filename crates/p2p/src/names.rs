//! Identifiers of connections and of blocks to download.

use primitives::{BlockHash, Height};
use std::fmt;

/// Identifies a connection; never reused in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u64);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A block to download: on the chain of a peer, and not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
}
