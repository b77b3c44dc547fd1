//! Memory that inbound peers hold: who gives it back when a bound is reached.
//!
//! - Unfinished messages: a peer may begin a message of 4 MB and never end it. While those of all inbound peers take more
//!   than [`UNFINISHED_BYTES_MAX`], or would with the room that one more needs, the one with the largest is disconnected: before
//!   that room is taken, so that many at once do not take more. Core bounds each peer (`-maxreceivebuffer`,
//!   5 MB), and not all together.
//! - Answers that are not read: while the send queues are full ([`super::room::SEND_TOTAL_BYTES_MAX`]), the one with the
//!   longest queue of those that have taken nothing for [`UNREAD_TIMEOUT`] is disconnected. Core waits for 20 minutes. Where
//!   blocks or filters have no room besides ([`super::room::SERVE_BYTES_MAX`]), so is the one that took least in that time.
//!
//! Peers that we connected to are few, and a block that a peer was asked for is of the window, up to twice the mean of blocks:
//! neither is touched here.

use super::super::context::Context;
use super::Serving;
use super::room::{SEND_TOTAL_BYTES_MAX, queued_bytes};
use crate::api::PeerId;
use crate::peer::Peer;
use crate::reason::Reason;
use crate::time::Now;
use crate::transport::STEP_BYTES;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of unfinished messages of all inbound peers. A block of 4 MB from each of sixteen.
pub const UNFINISHED_BYTES_MAX: usize = 64_000_000;
/// An unfinished message of less is no reason to look at all of them. All inbound peers together have fewer such bytes than the
/// bound.
const LARGE_BYTES_MIN: usize = STEP_BYTES;
const _: () = assert!(LARGE_BYTES_MIN * 200 <= UNFINISHED_BYTES_MAX);
/// Without taking a byte for this time a peer is disconnected while the send queues are full.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(20);

/// What peers take of what waits for them.
#[derive(Debug, Default)]
pub(super) struct Takers {
    /// Since when something has waited without a pause, or was looked at, and what the peer had taken by then.
    looked: BTreeMap<PeerId, (Duration, u64)>,
    /// What it took between two looks, [`UNREAD_TIMEOUT`] apart.
    taken: BTreeMap<PeerId, u64>,
    /// Since the last tick a block or filter was not read for want of room.
    is_short: bool,
    /// Greatest number of bytes in unfinished messages since memory was last given back.
    unfinished_peak: usize,
    /// Much of that was freed.
    has_freed: bool,
}

impl Takers {
    pub(super) fn note_short(&mut self) {
        self.is_short = true;
    }

    fn note_unfinished(&mut self, bytes: usize) {
        self.unfinished_peak = self.unfinished_peak.max(bytes);
        if self.unfinished_peak >= UNFINISHED_BYTES_MAX / 2 && bytes <= UNFINISHED_BYTES_MAX / 8 {
            (self.unfinished_peak, self.has_freed) = (bytes, true);
        }
    }

    fn look<'a>(&mut self, peers: impl Iterator<Item = &'a Peer>, now: Duration) {
        let waiting = peers.filter(|peer| peer.transport.out_bytes() > 0);
        let waiting: BTreeMap<PeerId, u64> = waiting.map(|peer| (peer.id, peer.transport.sent_bytes())).collect();
        self.looked.retain(|id, _| waiting.contains_key(id));
        self.taken.retain(|id, _| waiting.contains_key(id));
        for (id, sent) in waiting {
            let (since, before) = self.looked.entry(id).or_insert((now, sent));
            if now.saturating_sub(*since) >= UNREAD_TIMEOUT {
                self.taken.insert(id, sent.saturating_sub(*before));
                (*since, *before) = (now, sent);
            }
        }
    }
}

impl Serving {
    /// Looks at the clock: what peers hold, and what they take.
    pub(in super::super) fn look_at_memory(&mut self, cx: &Context, block_bytes: usize, now: Now) {
        self.takers.note_unfinished(unfinished_bytes(cx, block_bytes));
        self.takers.look(cx.peers.values(), now.since_start);
    }

    /// Which peer gives its place up because it reads nothing, or little; to be asked until none does.
    pub(in super::super) fn who_reads_little(&mut self, cx: &Context) -> Option<(PeerId, Reason)> {
        if queued_bytes(cx) < SEND_TOTAL_BYTES_MAX {
            self.takers.is_short = false;
            return None;
        }
        let taken = &self.takers.taken;
        let unread = |peer: &Peer| if taken.get(&peer.id) == Some(&0) { peer.transport.out_bytes() } else { 0 };
        if let Some((id, _)) = most_of(cx, unread) {
            return Some((id, Reason::SendTimeout(UNREAD_TIMEOUT)));
        }
        if !std::mem::take(&mut self.takers.is_short) {
            return None;
        }
        let inbound = cx.peers.values().filter(|peer| !peer.is_outbound() && !peer.is_noban());
        let (bytes, id) = inbound.filter_map(|peer| Some((*taken.get(&peer.id)?, peer.id))).min()?;
        Some((id, Reason::TakesLeast { bytes, time: UNREAD_TIMEOUT }))
    }

    /// Whether much memory was given back since this was asked: an allocator may keep it from the system.
    pub(in super::super) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.takers.has_freed)
    }
}

/// Which peer gives its place up because all unfinished messages take too much, or would with `more` bytes; to be asked until
/// none does. `block_bytes` is the mean of blocks.
pub(in super::super) fn who_holds_most(cx: &Context, more: usize, block_bytes: usize) -> Option<(PeerId, Reason)> {
    let is_full = unfinished_bytes(cx, block_bytes) + more > UNFINISHED_BYTES_MAX;
    let (id, bytes) = most_of(cx, |peer| unfinished(peer, block_bytes)).filter(|_| is_full)?;
    Some((id, Reason::Unfinished(bytes)))
}

/// After bytes of a peer came: whether its message has begun, or grown, so that all of them are to be looked at.
pub(in super::super) fn is_large(peer: &Peer, block_bytes: usize) -> bool {
    unfinished(peer, block_bytes) >= LARGE_BYTES_MIN
}

/// Bytes of unfinished messages of inbound peers that they were not asked for.
pub(in super::super) fn unfinished_bytes(cx: &Context, block_bytes: usize) -> usize {
    cx.peers.values().map(|peer| unfinished(peer, block_bytes)).sum()
}

/// Of one that was asked for a block, what is beyond twice the mean of blocks.
fn unfinished(peer: &Peer, block_bytes: usize) -> usize {
    if peer.is_outbound() { 0 } else { peer.transport.unfinished_bytes(2 * block_bytes) }
}

/// The inbound peer of which there is most, if there is any; of several the youngest.
fn most_of(cx: &Context, bytes: impl Fn(&Peer) -> usize) -> Option<(PeerId, usize)> {
    let inbound = cx.peers.values().filter(|peer| !peer.is_outbound());
    let held = inbound.map(|peer| (peer, bytes(peer))).filter(|(_, held)| *held > 0);
    held.max_by_key(|(peer, held)| (*held, peer.connected_at(), Reverse(peer.id))).map(|(peer, held)| (peer.id, held))
}
