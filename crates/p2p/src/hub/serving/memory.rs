//! Memory used by inbound peers: which peer is disconnected when a bound is reached.
//!
//! - Unfinished messages: a peer may begin a message of 4 MB and never end it. If those of all inbound peers together
//!   exceed [`UNFINISHED_BYTES_MAX`], or would exceed it with the space that one more needs, the peer with the largest
//!   one is disconnected before that space is allocated. Core bounds each peer (`-maxreceivebuffer`, 5 MB), but not all
//!   together.
//! - Answers that are not read: while the send queues are full ([`super::room::SEND_TOTAL_BYTES_MAX`]), the peer with
//!   the longest queue among those that have read nothing for [`UNREAD_TIMEOUT`] is disconnected. Core waits for 20
//!   minutes. If there is also no space for blocks or filters ([`super::room::SERVE_BYTES_MAX`]), the peer that read
//!   least in that time is disconnected as well.
//!
//! Outbound peers are few, and a requested block counts in the download window, up to twice the mean block size:
//! neither is affected here.

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

/// Maximum bytes of unfinished messages of all inbound peers: blocks of 4 MB from sixteen peers.
pub const UNFINISHED_BYTES_MAX: usize = 64_000_000;
/// An unfinished message below this size does not trigger a check of all of them. All inbound peers together have
/// fewer such bytes than the bound.
const LARGE_BYTES_MIN: usize = STEP_BYTES;
const _: () = assert!(LARGE_BYTES_MIN * 200 <= UNFINISHED_BYTES_MAX);
/// While the send queues are full, a peer that reads no byte for this time is disconnected.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(20);

/// How much peers read from their send queues.
#[derive(Debug, Default)]
pub(super) struct Takers {
    /// Start of the current interval with a queue that was never empty, and the bytes that the peer had read at that
    /// time.
    looked: BTreeMap<PeerId, (Duration, u64)>,
    /// Bytes read in the last complete interval of [`UNREAD_TIMEOUT`].
    taken: BTreeMap<PeerId, u64>,
    /// Since the last tick a block or filter was not read because of lack of space.
    is_short: bool,
    /// Maximum bytes of unfinished messages since memory was last freed.
    unfinished_peak: usize,
    /// Much of that memory was freed.
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
    /// On a tick: updates the memory of peers, and how much they read.
    pub(in super::super) fn look_at_memory(&mut self, cx: &Context, block_bytes: usize, now: Now) {
        self.takers.note_unfinished(unfinished_bytes(cx, block_bytes));
        self.takers.look(cx.peers.values(), now.since_start);
    }

    /// The peer to disconnect because it reads nothing, or little; call it until it returns `None`.
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

    /// Whether much memory was freed since the last call: an allocator may keep it from the system.
    pub(in super::super) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.takers.has_freed)
    }
}

/// The peer to disconnect because all unfinished messages exceed their bound, or would with `more` bytes; call it
/// until it returns `None`. `block_bytes` is the mean block size.
pub(in super::super) fn who_holds_most(cx: &Context, more: usize, block_bytes: usize) -> Option<(PeerId, Reason)> {
    let is_full = unfinished_bytes(cx, block_bytes) + more > UNFINISHED_BYTES_MAX;
    let (id, bytes) = most_of(cx, |peer| unfinished(peer, block_bytes)).filter(|_| is_full)?;
    Some((id, Reason::Unfinished(bytes)))
}

/// After bytes of a peer arrived: whether its unfinished message is so large that all of them are to be checked.
pub(in super::super) fn is_large(peer: &Peer, block_bytes: usize) -> bool {
    unfinished(peer, block_bytes) >= LARGE_BYTES_MIN
}

/// Bytes of unfinished, unsolicited messages of inbound peers.
pub(in super::super) fn unfinished_bytes(cx: &Context, block_bytes: usize) -> usize {
    cx.peers.values().map(|peer| unfinished(peer, block_bytes)).sum()
}

/// Bytes of a peer's unfinished message; of a requested block only those beyond twice the mean block size.
fn unfinished(peer: &Peer, block_bytes: usize) -> usize {
    if peer.is_outbound() { 0 } else { peer.transport.unfinished_bytes(2 * block_bytes) }
}

/// The inbound peer with most bytes, if any has some; of equal ones the youngest.
fn most_of(cx: &Context, bytes: impl Fn(&Peer) -> usize) -> Option<(PeerId, usize)> {
    let inbound = cx.peers.values().filter(|peer| !peer.is_outbound());
    let held = inbound.map(|peer| (peer, bytes(peer))).filter(|(_, held)| *held > 0);
    held.max_by_key(|(peer, held)| (*held, peer.connected_at(), Reverse(peer.id))).map(|(peer, held)| (peer.id, held))
}
