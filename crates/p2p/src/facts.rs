//! What the network knows of itself: the facts by which a sync says why it goes on, or does not.
//!
//! Plain data, made ten times a second ([`crate::Progress::facts`]); the sentences are made of it elsewhere.
//!
//! Absent on purpose: what to do about it, and what was before ([`crate::Progress`] has counters since the start).

use crate::names::{PeerId, Want};
use crate::trouble::Trouble;
use primitives::{Height, Work};
use std::time::Duration;

/// What the network knows of itself at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFacts {
    /// A person wants no connections at the moment (`setnetworkactive false`).
    pub is_off: bool,
    /// Connections that we make.
    pub dials: DialFacts,
    /// Peers that are connected.
    pub peers: PeerFacts,
    /// The lowest block that is wanted and not there; `None` where none is wanted, or it could come as soon as there is room for it.
    pub waits_for: Option<BlockWait>,
}

/// Connections that we make, and why they fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialFacts {
    /// Peers that a person named, by `--connect`, `--addnode` or a call.
    pub named_count: usize,
    /// Whether peers are sought besides.
    pub is_automatic: bool,
    /// Addresses that are known of peers.
    pub known_count: usize,
    /// Connections that were begun, since the start.
    pub begun_count: u64,
    /// Of those, connections that were made: 0 says that no dial has succeeded so far.
    pub made_count: u64,
    /// Connections that are being made now.
    pub open_count: usize,
    /// Names that are being looked up now.
    pub lookup_count: usize,
    /// Why connections fail now, what was met most first: see [`crate::trouble`].
    pub troubles: Vec<Trouble>,
}

impl DialFacts {
    /// Whether any connection that we began was made so far.
    pub fn has_connected(&self) -> bool {
        self.made_count > 0
    }
}

/// Peers that are connected, those that connected to us too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFacts {
    /// All connections.
    pub connected_count: usize,
    /// Of those, with a handshake that is done.
    pub handshaked_count: usize,
    /// Of those, peers that have answered with headers, none included.
    pub headers_count: usize,
    /// Peers with a handshake that offer blocks with witnesses: all, or their last ones.
    pub serving_count: usize,
    /// Of those, peers that offer their last blocks alone (`NODE_NETWORK_LIMITED`).
    pub pruned_count: usize,
    /// The lowest height that one of the pruned peers serves; `None` before one has told its chain.
    pub pruned_from: Option<Height>,
    /// The end of the chain of most work that a peer told of.
    pub best: Option<ChainEnd>,
}

impl PeerFacts {
    /// Whether there are peers that offer blocks, and all of them only their last ones.
    pub fn are_all_pruned(&self) -> bool {
        self.pruned_count > 0 && self.pruned_count == self.serving_count
    }
}

/// The end of a peer's chain, as far as the peer told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// Who told it.
    pub peer: PeerId,
    /// Its height.
    pub height: Height,
    /// Work of the whole chain.
    pub work: Work,
    /// Whether that is less than minimum work: its headers are not stored then.
    pub is_below_minimum: bool,
}

/// The lowest block that is wanted and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockWait {
    /// The block.
    pub want: Want,
    /// Who was asked for it first, and where that peer is; `None`: no connected peer has it to give.
    pub peer: Option<(PeerId, String)>,
    /// For how long it has been asked for; where no peer has it, for how long it has been the lowest.
    pub time: Duration,
}
