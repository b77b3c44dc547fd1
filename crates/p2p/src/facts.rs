//! State of the network that explains the progress of a sync, or the lack of it.
//!
//! Plain data, made ten times a second ([`crate::Progress::facts`]); another crate makes sentences of it.
//!
//! Absent on purpose: reactions, and history ([`crate::Progress`] has counters since the start).

use crate::names::{PeerId, Want};
use crate::trouble::Trouble;
use primitives::{Height, Work};
use std::time::Duration;

/// State of the network at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFacts {
    /// The user has turned the network off (`setnetworkactive false`).
    pub is_off: bool,
    /// Outbound connection attempts.
    pub dials: DialFacts,
    /// Peers that are connected.
    pub peers: PeerFacts,
    /// The lowest missing block; `None` if no block is missing, or if it is requested once there is space for it.
    pub waits_for: Option<BlockWait>,
}

/// Outbound connection attempts, and why they fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialFacts {
    /// Peers that the user named, by `--connect`, `--addnode` or a call.
    pub named_count: usize,
    /// Whether other peers are sought as well.
    pub is_automatic: bool,
    /// Known addresses of peers.
    pub known_count: usize,
    /// Connection attempts since the start.
    pub begun_count: u64,
    /// Successful connections among them: 0 means that no attempt has succeeded so far.
    pub made_count: u64,
    /// Connection attempts in progress.
    pub open_count: usize,
    /// Name lookups in progress.
    pub lookup_count: usize,
    /// Why connections fail now, the most frequent error first: see [`crate::trouble`].
    pub troubles: Vec<Trouble>,
}

impl DialFacts {
    /// Whether any outbound connection has succeeded so far.
    pub fn has_connected(&self) -> bool {
        self.made_count > 0
    }
}

/// Connected peers, inbound ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFacts {
    /// All connections.
    pub connected_count: usize,
    /// Connections with a finished handshake.
    pub handshaked_count: usize,
    /// Those of them that have answered with a headers message, even an empty one.
    pub headers_count: usize,
    /// Peers with a finished handshake that serve blocks with witnesses: all blocks, or the last ones.
    pub serving_count: usize,
    /// Of those, peers that serve only their last blocks (`NODE_NETWORK_LIMITED`).
    pub pruned_count: usize,
    /// The lowest height that one of the pruned peers serves; `None` before one has sent its chain.
    pub pruned_from: Option<Height>,
    /// The end of the chain with most work that a peer has sent.
    pub best: Option<ChainEnd>,
}

impl PeerFacts {
    /// Whether there are peers that serve blocks, and all of them are pruned.
    pub fn are_all_pruned(&self) -> bool {
        self.pruned_count > 0 && self.pruned_count == self.serving_count
    }
}

/// The end of a peer's chain, as far as the peer has sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// The peer that sent it.
    pub peer: PeerId,
    /// Its height.
    pub height: Height,
    /// Work of the whole chain.
    pub work: Work,
    /// Whether that is less than minimum work: its headers are not stored then.
    pub is_below_minimum: bool,
}

/// The lowest missing block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockWait {
    /// The block.
    pub want: Want,
    /// The peer that it was first requested from, and its address; `None`: no connected peer can serve it.
    pub peer: Option<(PeerId, String)>,
    /// How long it has been requested and the lowest; if no peer has it, how long it has been the lowest.
    pub time: Duration,
}
