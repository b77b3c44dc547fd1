//! Blocks: what arrives goes to the node, what it wants goes to the scheduler ([`crate::download`]).

use super::Hub;
use crate::api::{BlockBytes, BlockVerdict, Config, Event, PeerId};
use crate::chain::HeaderInfo;
use crate::download::{Arrival, Limits};
use crate::reason::Reason;
use crate::time::Now;
use crate::transport::Received;
use crate::wire::{Command, Inventory, Message};
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Header, Height};
use std::time::Duration;

/// Unasked blocks that stand on no known header, from one peer.
pub const UNASKED_COUNT_MAX: u32 = 16;
/// Messages that are to be a block and do not deserialize, from one peer.
pub const UNREADABLE_COUNT_MAX: u32 = 3;
/// An unasked block further above the tip than this is not taken. Source: Bitcoin Core b88bffe, `MIN_BLOCKS_TO_KEEP`.
pub const UNASKED_AHEAD_MAX: u32 = 288;

/// While blocks of more than this came that the node has not looked at, no more are read: they would leave the processor's
/// caches before it does, and take pages that the system has to make. Enough for a node that looks at several at a time.
fn unjudged_bytes_max(config: &Config) -> usize {
    config.window_bytes / 4
}

/// While the node holds more than this, only the peer that owes the lowest block is read, and only if the node has done
/// with what came.
pub(super) fn soft_bytes(config: &Config) -> usize {
    config.window_bytes.saturating_add(8 << 20)
}

/// While the node holds more than this, not even that one is read, unless that block is what it sends next.
/// It takes bodies of more than twice the size that was expected; the peer is then disconnected, for with fewer
/// requests in flight the block comes first.
pub(super) fn hard_bytes(config: &Config) -> usize {
    config.window_bytes.saturating_mul(2).saturating_add(64 << 20)
}

impl Hub {
    pub(super) fn on_block(&mut self, id: PeerId, received: Received, now: Now) -> Result<(), Reason> {
        let Some(head) = received.payload().first_chunk::<HEADER_BYTES>() else {
            let why = format!("{} bytes do not deserialize as a block", received.payload().len());
            return Err(Reason::BadMessage { command: Command::Block.name(), why });
        };
        let header = Header(*head);
        let hash = header.hash();
        let bytes = received.payload().len();
        match self.download.arrived(id, &hash, bytes, now.since_start) {
            Arrival::Wanted(want) => {
                self.note_delivered(id, &hash, now);
                self.progress.blocks_count += 1;
                self.progress.blocks_bytes += bytes as u64;
                let held = self.budget.hold(bytes);
                let bytes = BlockBytes::new(received.bytes, received.start, held);
                self.context.event(Event::Block { peer: id, hash, height: want.height, bytes });
                Ok(())
            }
            Arrival::Twice => {
                self.progress.blocks_dropped_count += 1;
                Ok(())
            }
            // As in Core, what was asked for is kept.
            Arrival::Late => {
                let height = self.context.chain.header(&hash).filter(|info| !info.invalid).map(|info| info.height);
                self.hand_over(id, received, (hash, height), now);
                Ok(())
            }
            Arrival::Unasked => self.on_unasked_block(id, received, &header, now),
        }
    }

    /// Gives a block that no list has to the node, where it has a height and is not there.
    fn hand_over(&mut self, id: PeerId, received: Received, (hash, height): (BlockHash, Option<Height>), now: Now) {
        let bytes = received.payload().len();
        let Some(height) = height.filter(|_| self.download.taken_unasked(id, &hash, bytes)) else {
            self.progress.blocks_dropped_count += 1;
            return;
        };
        if let Some(peer) = self.context.peers.get_mut(&id) {
            peer.unasked_count = 0;
        }
        self.note_delivered(id, &hash, now);
        let held = self.budget.hold(bytes);
        let bytes = BlockBytes::new(received.bytes, received.start, held);
        self.context.event(Event::Block { peer: id, hash, height, bytes });
    }

    /// Its header is looked at as an announcement; then the block is taken where Core takes one that it did not ask for.
    fn on_unasked_block(&mut self, id: PeerId, received: Received, header: &Header, now: Now) -> Result<(), Reason> {
        if let Some(peer) = self.context.peers.get_mut(&id) {
            peer.note_other_bytes(received.payload().len());
        }
        let hash = header.hash();
        if self.context.chain.header(&hash).is_none() {
            if let Some(frame) = received.unchecked {
                frame.check(received.payload()).map_err(Reason::Wire)?;
            }
            let peer = self.context.peers.get_mut(&id).expect("it just spoke");
            peer.unasked_count += 1;
            if peer.unasked_count > UNASKED_COUNT_MAX {
                return Err(Reason::UnaskedBlocks);
            }
            if !self.context.chain.check_proof_of_work(std::slice::from_ref(header), std::slice::from_ref(&hash)) {
                peer.journal.say(|| "ProcessNewBlock: AcceptBlock FAILED (high-hash, proof of work failed)".to_owned());
                return Err(Reason::HeaderWork);
            }
            // Source: Bitcoin Core b88bffe, `MaybePunishNodeForBlock`, `BLOCK_MISSING_PREV`.
            if self.context.chain.header(&header.prev()).is_none() {
                return Err(Reason::UnaskedBlocks);
            }
            self.on_headers(id, std::slice::from_ref(header), now)?;
            if self.context.config.debug_net && self.context.chain.header(&hash).is_none() {
                let why = "missing anti-dos proof-of-work validation";
                self.context
                    .event(Event::Debug(format!("AcceptBlockHeader: not adding new block header {hash}, {why}")));
            }
        }
        let is_direct = self.take_direct(id, &hash);
        let has_room = self.budget.held_bytes() <= self.context.config.window_bytes;
        let is_taken = |info: &HeaderInfo| has_room && !info.invalid && (is_direct || self.takes_unasked(info));
        let height = self.context.chain.header(&hash).filter(is_taken).map(|info| info.height);
        self.hand_over(id, received, (hash, height), now);
        Ok(())
    }

    /// Whether a block is taken that was not asked for: it can end the best chain, and is not far ahead of the tip.
    /// Source: Bitcoin Core b88bffe, `AcceptBlock`.
    fn takes_unasked(&self, info: &HeaderInfo) -> bool {
        let tip = self.context.chain.tip();
        let is_connected = self.context.chain.ancestor(&tip.hash, info.height) == Some(info.hash);
        // What arrived without a gap is connected in moments: it counts as the tip, where Core's is there already.
        let reached = self.download.arrived_to().unwrap_or(tip.height).max(tip.height);
        let is_near = info.height.to_u32() <= reached.to_u32().saturating_add(UNASKED_AHEAD_MAX);
        is_near && !is_connected && info.work >= tip.work.max(self.context.chain.minimum_work())
    }

    pub(super) fn on_verdict(&mut self, hash: BlockHash, verdict: BlockVerdict, now: Now) {
        match verdict {
            BlockVerdict::Stored => {
                self.download.judged(&hash);
                self.drop_direct(&hash);
            }
            BlockVerdict::BadBody(reason) => {
                if let Some(peer) = self.download.bad_body(&hash) {
                    // Who is kept all the same is not asked for it again at once.
                    if let Some(info) = self.context.chain.header(&hash) {
                        self.download.lacks(peer, info.height, now.since_start);
                    }
                    self.punish(peer, Reason::BadBody { hash, reason }, now);
                }
            }
            BlockVerdict::Unreadable(reason) => self.on_unreadable(hash, reason, now),
            BlockVerdict::Invalid(reason) => {
                self.drop_direct(&hash);
                if let Some(peer) = self.download.judged(&hash) {
                    self.punish(peer, Reason::InvalidBlock { hash, reason }, now);
                }
                self.drop_those_on(hash, now);
                self.headers.ask_all_again();
            }
        }
    }

    /// As in Core, a message that does not deserialize is dropped, and its sender kept; here a few times.
    /// Source: Bitcoin Core b88bffe, `PeerManagerImpl::ProcessMessages`.
    fn on_unreadable(&mut self, hash: BlockHash, reason: String, now: Now) {
        let Some(id) = self.download.bad_body(&hash) else { return };
        if let Some(info) = self.context.chain.header(&hash) {
            self.download.lacks(id, info.height, now.since_start);
        }
        let Some(peer) = self.context.peers.get_mut(&id) else { return };
        peer.unreadable_count += 1;
        peer.journal.say(|| format!("ProcessMessages(block): Exception '{reason}' caught, peer={id}"));
        if peer.unreadable_count > UNREADABLE_COUNT_MAX {
            self.punish(id, Reason::BadBody { hash, reason }, now);
        }
    }

    /// Disconnects all whose best chain has a refused block.
    fn drop_those_on(&mut self, hash: BlockHash, now: Now) {
        let Some(refused) = self.context.chain.header(&hash) else { return };
        let ids = self.headers.those_on(&self.context, hash, refused.height);
        for id in ids {
            self.punish(id, Reason::OnInvalidChain(hash), now);
        }
    }

    /// Whether the node has too many blocks to look at for more to be read.
    pub(super) fn waits_for_verdicts(&self) -> bool {
        self.download.unjudged_bytes() > unjudged_bytes_max(&self.context.config)
    }

    /// Asks for blocks. To be called when a round of messages, commands or ticks is done.
    pub fn schedule(&mut self, now: Now) {
        self.update_targets();
        self.update_reach();
        let limits =
            Limits { window_bytes: self.context.config.window_bytes, window_count: self.context.config.window_count };
        let held_bytes = self.budget.held_bytes();
        for (id, wants) in self.download.assign(held_bytes, limits, now.since_start) {
            let list = wants.iter().map(|want| Inventory::WitnessBlock(want.hash)).collect();
            if let Some(peer) = self.context.peers.get_mut(&id) {
                peer.send(&Message::GetData(list));
            }
        }
        for (id, peer) in &mut self.context.peers {
            peer.transport.set_block_owed(self.download.owes(*id));
        }
        if self.download.wants_more() {
            self.context.event(Event::WantMore);
        }
        self.answer_pings(now);
        self.tell_journals();
    }

    /// Says what the node is to wake us for. To be called right before sockets are waited for: what is sent after
    /// [`Hub::schedule`] may let blocks through that waited.
    pub fn will_wait(&self) {
        let held_bytes = self.budget.held_bytes();
        let has_room = held_bytes <= soft_bytes(&self.context.config) && !self.download.is_window_full();
        if self.waits_for_verdicts() || !has_room || self.paused {
            self.budget.wait_for_node(held_bytes, self.verdicts_heard);
        } else {
            self.budget.wait_no_more();
        }
    }

    pub(super) fn tick_download(&mut self, now: Now) {
        let paused = std::mem::take(&mut self.paused) | std::mem::take(&mut self.is_node_behind);
        let peers = &self.context.peers;
        self.download
            .sample(paused, now.since_start, |id| peers.get(&id).map(|peer| (peer.block_bytes(), peer.round_trip)));
        if self.budget.held_bytes() > hard_bytes(&self.context.config)
            && let Some(id) = self.download.first_is_queued_at()
        {
            self.drop_peer(id, Reason::BlockStalled(Duration::ZERO), now);
        }
        let can_replace = self.outbound.can_replace(&self.context, &self.addresses);
        if let Some((id, reason)) = self.download.peer_to_disconnect(can_replace, now.since_start) {
            self.drop_peer(id, reason, now);
        }
        self.tick_delivery(now);
    }
}
