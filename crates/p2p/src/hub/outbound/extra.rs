//! Extra connections: one more is sought while our tip is stale, and surplus ones are ended.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `CheckForStaleTipAndEvictPeers`, `EvictExtraOutboundPeers`,
//! `TipMayBeStale`.

use super::super::block_download::BlockDownload;
use super::super::context::Context;
use super::super::header_sync::HeaderSync;
use super::Outbound;
use crate::api::PeerId;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use std::cmp::Reverse;
use std::time::Duration;

/// Interval of checks for surplus connections. Source: Core's `EXTRA_PEER_CHECK_INTERVAL`.
pub const EXTRA_PEER_CHECK_INTERVAL: Duration = Duration::from_secs(45);
/// Interval of checks whether our tip is stale. Source: Core's `STALE_CHECK_INTERVAL`.
pub const STALE_CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// A tip of this age may be stale: three blocks are overdue. Source: Core's `TipMayBeStale`.
pub const STALE_TIP_AGE: Duration = Duration::from_secs(3 * 600);
/// A connection is not ended before this age. Source: Core's `MINIMUM_CONNECT_TIME`.
const CONNECTED_MIN: Duration = Duration::from_secs(30);

/// Times of the last checks, and of the last change of our tip.
pub(super) struct Extra {
    tip_at: Duration,
    stale_look_at: Duration,
    looked_at: Duration,
}

impl Extra {
    pub(super) fn new(now: Now) -> Extra {
        let at = now.since_start;
        Extra { tip_at: at, stale_look_at: at, looked_at: at }
    }
}

/// Full-relay outbound and named peers in the network with this BIP155 number. Source: Core's
/// `m_network_conn_counts`.
pub(super) fn kept_in(cx: &Context, number: u8) -> usize {
    let is_there = |peer: &&Peer| {
        let is_kept = matches!(peer.kind, Kind::Automatic | Kind::Manual(_));
        is_kept && peer.network() == number
    };
    cx.peers.values().filter(is_there).count()
}

/// State of other parts that the choice needs.
pub(in super::super) struct Seen<'a> {
    pub(in super::super) headers: &'a HeaderSync,
    pub(in super::super) blocks: &'a BlockDownload,
}

impl Outbound {
    /// Records a new tip.
    pub(in super::super) fn note_tip(&mut self, now: Now) {
        self.extra.tip_at = now.since_start;
    }

    /// On a tick: ends surplus connections, and decides whether an extra one is sought.
    pub(in super::super) fn look_at_extra(
        &mut self,
        cx: &mut Context,
        seen: &Seen<'_>,
        now: Now,
    ) -> Vec<(PeerId, Reason)> {
        let at = now.since_start;
        if !self.automatic || at.saturating_sub(self.extra.looked_at) < EXTRA_PEER_CHECK_INTERVAL {
            return Vec::new();
        }
        self.extra.looked_at = at;
        let mut gone = Vec::new();
        gone.extend(extra_block_relay(cx, seen, at));
        if let Some(extra) = extra_full(cx, seen, at) {
            self.automatic_state.wants_another = false;
            gone.push(extra);
        }
        if at.saturating_sub(self.extra.stale_look_at) > STALE_CHECK_INTERVAL {
            self.extra.stale_look_at = at;
            let age = at.saturating_sub(self.extra.tip_at);
            let is_stale = age > STALE_TIP_AGE && seen.blocks.in_flight_count() == 0 && !cx.is_off;
            if is_stale {
                let seconds = age.as_secs();
                cx.log(format!(
                    "Potential stale tip detected, will try using extra outbound peer (last tip update: {seconds} seconds ago)"
                ));
            }
            self.automatic_state.wants_another = is_stale;
        }
        gone
    }
}

fn may_go(seen: &Seen<'_>, peer: &Peer, at: Duration) -> bool {
    at.saturating_sub(peer.connected_at()) >= CONNECTED_MIN && !seen.blocks.is_asked(peer.id)
}

/// Of the two youngest block-relay-only peers, the one whose last block is older; if neither delivered one, the
/// youngest.
fn extra_block_relay(cx: &Context, seen: &Seen<'_>, at: Duration) -> Option<(PeerId, Reason)> {
    let mut peers: Vec<&Peer> = cx.peers.values().filter(|peer| peer.kind == Kind::BlockRelay).collect();
    let ready = peers.iter().filter(|peer| peer.is_ready()).count();
    if ready <= cx.config.block_relay_count {
        return None;
    }
    peers.sort_by_key(|peer| Reverse(peer.id));
    let last_block = |peer: &Peer| seen.blocks.last_block_at(peer.id);
    let youngest = peers.first()?;
    let other = peers.get(1).filter(|other| last_block(youngest) > last_block(other));
    let goes = other.unwrap_or(youngest);
    may_go(seen, goes, at).then_some((goes.id, Reason::Extra))
}

/// The full-relay peer whose last announcement of a block is oldest; never a protected one, nor the only one in its
/// network.
fn extra_full(cx: &Context, seen: &Seen<'_>, at: Duration) -> Option<(PeerId, Reason)> {
    let peers = || cx.peers.values().filter(|peer| peer.kind == Kind::Automatic);
    if peers().filter(|peer| peer.is_ready()).count() <= cx.config.outbound_count {
        return None;
    }
    let may = |peer: &&Peer| !seen.headers.is_protected(peer.id) && kept_in(cx, peer.network()) > 1;
    let goes = peers().filter(may).min_by_key(|peer| (seen.headers.announced_at(peer.id), Reverse(peer.id)))?;
    may_go(seen, goes, at).then_some((goes.id, Reason::Extra))
}
