//! Blocks that peers announce and do not deliver.
//!
//! A requested block that no peer has delivered within [`crate::download::DELIVERY_TIMEOUT`] is recorded here. A
//! chain with such a block is ignored when the tip of the peers is determined, and so is everything else that the
//! same peer announces, until the block is delivered. The peer is disconnected, unless the user named it: then it
//! still gets requests, and only its announcements are ignored. The same applies to a pruned peer while the lowest
//! missing block is below the blocks it keeps. A peer that serves no blocks never counts.

use super::super::context::Context;
use super::super::header_sync::HeaderSync;
use super::BlockDownload;
use crate::api::{PeerId, Want};
use crate::chain::HeaderInfo;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;

/// Maximum number of undelivered blocks that are remembered; the oldest is forgotten first.
pub const UNDELIVERED_COUNT_MAX: usize = 64;

impl BlockDownload {
    /// Finds peers with an overdue block; returns those to disconnect, and why.
    pub(in super::super) fn tick_delivery(&mut self, cx: &Context, now: Now) -> Vec<(PeerId, Reason)> {
        let mut ended = Vec::new();
        for (id, want, keeps) in self.download.overdue(now.since_start) {
            if !self.undelivered.contains(&want) {
                if self.undelivered.len() >= UNDELIVERED_COUNT_MAX {
                    self.undelivered.remove(0);
                }
                self.undelivered.push(want);
            }
            let Some(peer) = cx.peers.get(&id) else { continue };
            self.of(id).withheld = Some(want);
            if let Kind::Manual(place) = peer.kind {
                self.named_withheld.insert(place, want);
            }
            if keeps && !matches!(peer.kind, Kind::Manual(_)) {
                ended.push((id, Reason::BlockTimeout(want.hash)));
            }
        }
        ended
    }

    /// Records a block that this peer delivered. From then on no peer counts as withholding it, and this peer does not
    /// count as withholding a block of another chain, which it has left.
    pub(super) fn note_delivered(&mut self, cx: &Context, id: PeerId, delivered: &Want, now: Now) {
        let is_left = |want: &Want| {
            delivered.height >= want.height && cx.chain.ancestor(&delivered.hash, want.height) != Some(want.hash)
        };
        let left = self.of(id).withheld.filter(is_left);
        if let Some(want) = left {
            self.download.forgo(id, &want.hash, now.since_start);
            self.of(id).withheld = None;
            if let Some(Kind::Manual(place)) = cx.peers.get(&id).map(|peer| peer.kind) {
                self.named_withheld.remove(&place);
            }
        }
        let is_open = |want: &Want| want.hash != delivered.hash;
        self.undelivered.retain(is_open);
        self.named_withheld.retain(|_, want| is_open(want));
        self.givers.values_mut().for_each(|giver| giver.withheld = giver.withheld.filter(is_open));
    }

    /// Whether a peer did not deliver a block that it announced.
    pub(in super::super) fn withholds(&self, id: PeerId) -> bool {
        self.givers.get(&id).is_some_and(|giver| giver.withheld.is_some())
    }

    /// Undelivered blocks; those on an invalid chain are removed.
    pub(super) fn undelivered(&self, cx: &Context) -> Vec<Want> {
        let is_open = |want: &&Want| cx.chain.header(&want.hash).is_some_and(|info| !info.invalid);
        self.undelivered.iter().filter(is_open).copied().collect()
    }

    /// The block with most work among the chains of outbound peers that deliver.
    pub(super) fn best_claim(&self, cx: &Context, headers: &HeaderSync) -> Option<HeaderInfo> {
        let has_say = |peer: &&Peer| {
            let serves = peer.kind != Kind::AddressFetch && peer.kind != Kind::Feeler && peer.serves_blocks();
            peer.is_outbound() && peer.is_ready() && serves && !self.withholds(peer.id)
        };
        let peers = cx.peers.values().filter(has_say);
        let is_delivered = |best: &HeaderInfo| {
            let lacks = |want: &Want| cx.chain.ancestor(&best.hash, want.height) == Some(want.hash);
            !self.undelivered.iter().any(lacks) && cx.chain.header(&best.hash).is_some_and(|known| !known.invalid)
        };
        peers.filter_map(|peer| headers.best_known(peer.id)).filter(is_delivered).max_by_key(|best| best.work)
    }
}
