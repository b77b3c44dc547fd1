//! Block download in the hub: requests to peers, arrived blocks, and their delivery to the node.
//!
//! - The scheduler ([`crate::download`]) decides which block is requested from which peer.
//! - [`targets`]: the chains to download. [`delivery`]: blocks that peers announce and do not deliver. `direct`:
//!   blocks outside those chains, near the tip or for the user.
//! - The state of each peer is kept here by its id: its requests in flight, withheld blocks, unsolicited blocks.
//!
//! Absent on purpose: validity of blocks (the node decides it), and headers.

pub mod delivery;
mod direct;
pub mod targets;

use super::context::Context;
use super::header_sync::HeaderSync;
use crate::api::{BlockBytes, BlockVerdict, Config, Event, PeerId, Progress, Want};
use crate::budget::InFlightBudget;
use crate::chain::HeaderInfo;
use crate::download::{Arrival, Download, IN_FLIGHT_COUNT_START, IN_FLIGHT_COUNT_TIP, Limits, Source, Turn};
use crate::peer::Kind;
use crate::reason::Reason;
use crate::time::Now;
use crate::transport::Received;
use crate::wire::{Command, Inventory, Message};
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Header, Height};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use targets::Targets;

/// Maximum number of unsolicited blocks without a known parent, from one peer.
pub const UNASKED_COUNT_MAX: u32 = 16;
/// Maximum number of `block` messages that do not deserialize, from one peer.
pub const UNREADABLE_COUNT_MAX: u32 = 3;
/// An unsolicited block further above the tip than this is ignored. Source: Bitcoin Core b88bffe,
/// `MIN_BLOCKS_TO_KEEP`.
pub const UNASKED_AHEAD_MAX: u32 = 288;

/// Limit of arrived bytes that the node has not processed: above it, reading pauses. More would leave the processor's
/// caches before the node processes them, and need new memory pages. Enough for a node that processes several blocks
/// at a time.
fn unjudged_bytes_max(config: &Config) -> usize {
    config.window_bytes / 4
}

/// Soft limit of bytes held by the node: above it, only the peer with the request for the lowest block is read, and
/// only once the node has processed all arrived blocks.
fn soft_bytes(config: &Config) -> usize {
    config.window_bytes.saturating_add(8 << 20)
}

/// Hard limit of bytes held by the node: above it, not even that peer is read, unless the lowest block is the next
/// that it sends. Only bodies of more than twice the expected size reach it; the peer is then disconnected, because
/// with fewer requests in flight the block arrives first.
fn hard_bytes(config: &Config) -> usize {
    config.window_bytes.saturating_mul(2).saturating_add(64 << 20)
}

/// State of one peer that may serve blocks.
#[derive(Debug, Default)]
struct Giver {
    /// Unsolicited blocks with unknown headers.
    unasked_count: u32,
    /// `block` messages that did not deserialize.
    unreadable_count: u32,
    /// Requests by direct fetch or by the user, in order: see `direct`.
    direct: VecDeque<BlockHash>,
    /// Version of the lists and best block for which the scheduler has this peer's reach.
    reach_of: Option<(u64, Option<BlockHash>)>,
    /// When the node last stored a block that it delivered.
    last_block_at: Option<Duration>,
    /// The block that it announced and did not deliver: see [`delivery`].
    withheld: Option<Want>,
}

/// The download of blocks.
pub(super) struct BlockDownload {
    download: Download,
    budget: Arc<InFlightBudget>,
    /// State of each peer, by id.
    givers: BTreeMap<PeerId, Giver>,
    targets: Targets,
    undelivered: Vec<Want>,
    /// What named peers withhold, by their index, kept when they reconnect.
    named_withheld: BTreeMap<usize, Want>,
    /// Whether reading was paused for any peer since speeds were last measured.
    paused: bool,
    /// Whether reading was paused because the node has not processed enough of the arrived blocks.
    is_node_behind: bool,
    /// Number of verdicts that the node has given and that were handled here.
    verdicts_heard: usize,
    /// Blocks passed to the node, and their bytes; blocks that arrived twice or unsolicited.
    blocks_count: u64,
    blocks_bytes: u64,
    dropped_count: u64,
}

/// Result for an arrived block.
pub(super) enum Came {
    /// It was requested, and is handled.
    Asked,
    /// It is unsolicited: its header is to be processed first.
    Unasked(Received, Header),
}

impl BlockDownload {
    /// `rate_max`: the user's limit of the download, in bytes a second.
    pub(super) fn new(budget: Arc<InFlightBudget>, rate_max: Option<u64>) -> BlockDownload {
        let mut download = Download::default();
        download.limit_rate(rate_max);
        BlockDownload {
            download,
            budget,
            givers: BTreeMap::new(),
            targets: Targets::default(),
            undelivered: Vec::new(),
            named_withheld: BTreeMap::new(),
            paused: false,
            is_node_behind: false,
            verdicts_heard: 0,
            blocks_count: 0,
            blocks_bytes: 0,
            dropped_count: 0,
        }
    }

    /// Adds a new connection.
    pub(super) fn add_peer(&mut self, id: PeerId, kind: Kind) {
        let withheld = if let Kind::Manual(place) = kind { self.named_withheld.get(&place).copied() } else { None };
        self.givers.insert(id, Giver { withheld, ..Giver::default() });
    }

    /// Removes a connection that ended: its requests go to other peers.
    pub(super) fn remove_peer(&mut self, id: PeerId) {
        self.download.remove_peer(id);
        self.givers.remove(&id);
    }

    /// The handshake is finished: blocks may be requested from the peer if it serves blocks.
    pub(super) fn on_ready(&mut self, cx: &Context, id: PeerId, now: Now) {
        let peer = &cx.peers[&id];
        if !peer.serves_blocks() || peer.kind == Kind::AddressFetch {
            return;
        }
        let source = match peer.kind {
            Kind::Inbound if peer.is_noban() => Source::Sought,
            Kind::Inbound => Source::Inbound,
            Kind::Manual(_) => Source::Named,
            Kind::Automatic | Kind::AddressFetch | Kind::BlockRelay | Kind::Feeler => Source::Sought,
        };
        self.download.add_peer(id, source, peer.block_bytes(), now.since_start);
    }

    fn of(&mut self, id: PeerId) -> &mut Giver {
        self.givers.get_mut(&id).expect("every connection has an entry")
    }

    // State for other parts.

    /// When a peer last delivered a requested block.
    pub(super) fn last_block_at(&self, id: PeerId) -> Option<Duration> {
        self.givers.get(&id)?.last_block_at
    }

    /// See [`Download::seen_of`].
    pub(super) fn seen_of(&self, id: PeerId, now: Now) -> (Vec<Height>, Option<f64>, Option<Duration>) {
        self.download.seen_of(id, now.since_start)
    }

    /// See [`Download::waits_for`].
    pub(super) fn waits_for(&self, now: Duration) -> Option<(Want, Option<PeerId>, Duration)> {
        self.download.waits_for(now)
    }

    /// Mean size of recent blocks.
    pub(super) fn mean_block_bytes(&self) -> usize {
        self.download.mean_block_bytes()
    }

    /// Whether a peer has requests in flight.
    pub(super) fn is_asked(&self, id: PeerId) -> bool {
        !self.download.seen_of(id, Duration::ZERO).0.is_empty()
    }

    pub(super) fn in_flight_count(&self) -> usize {
        self.download.in_flight_count()
    }

    /// Whether a block of this peer waits for the node's verdict.
    pub(super) fn is_judging(&self, id: PeerId) -> bool {
        self.download.is_judging(id)
    }

    /// Whether new targets were sent to the node, and its lists are outstanding.
    pub(super) fn is_asking(&self) -> bool {
        self.targets.is_told
    }

    /// The fields of [`Progress`] that this part owns.
    pub(super) fn progress(&self, cx: &Context, headers: &HeaderSync) -> Progress {
        Progress {
            download_peer_count: self.download.peer_count(),
            blocks_count: self.blocks_count,
            blocks_bytes: self.blocks_bytes,
            blocks_dropped_count: self.dropped_count,
            in_flight_count: self.download.in_flight_count(),
            held_bytes: self.budget.held_bytes(),
            wanted_count: self.download.open_count(),
            best_claim: self.best_claim(cx, headers),
            undelivered: self.undelivered(cx),
            window_full: self.download.is_window_full(),
            ..Progress::default()
        }
    }

    // Arrivals.

    /// Whether more may be read from a connection now. No blocks are read until the node has processed enough of the
    /// arrived ones; while it holds more than the window, blocks are read only from the peer with the request for the
    /// block that the node waits for.
    pub(super) fn may_read(&mut self, config: &Config, id: PeerId) -> bool {
        if !self.download.owes(id) {
            return true;
        }
        // The node processes every arrived block, whichever it waits for: this ends by itself.
        if self.waits_for_verdicts(config) {
            self.is_node_behind = true;
            return false;
        }
        let held = self.budget.held_bytes();
        if held <= soft_bytes(config) {
            return true;
        }
        let may = match self.download.turn_of_first(id) {
            // Arrived blocks without a verdict come first: the node may be the bottleneck.
            Turn::Next => self.download.node_waits(),
            Turn::Queued => held <= hard_bytes(config),
            Turn::Elsewhere => false,
        };
        self.paused |= !may;
        may
    }

    /// Handles `block`.
    ///
    /// # Errors
    ///
    /// [`Reason::BadMessage`]: it has no header.
    pub(super) fn on_block(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        received: Received,
        now: Now,
    ) -> Result<Came, Reason> {
        let Some(head) = received.payload().first_chunk::<HEADER_BYTES>() else {
            let why = format!("{} bytes do not deserialize as a block", received.payload().len());
            return Err(Reason::BadMessage { command: Command::Block.name(), why });
        };
        let header = Header(*head);
        let hash = header.hash();
        let bytes = received.payload().len();
        match self.download.arrived(id, &hash, bytes, now.since_start) {
            Arrival::Wanted(want) => {
                self.blocks_count += 1;
                self.blocks_bytes += bytes as u64;
                self.give(cx, id, received, want, now);
            }
            Arrival::Twice => self.dropped_count += 1,
            // As in Core, a requested block is kept.
            Arrival::Late => {
                let height = cx.chain.header(&hash).filter(|info| !info.invalid).map(|info| info.height);
                self.hand_over(cx, id, received, hash, height, now);
            }
            Arrival::Unasked => {
                if let Some(peer) = cx.peers.get_mut(&id) {
                    peer.note_other_bytes(bytes);
                }
                return Ok(Came::Unasked(received, header));
            }
        }
        Ok(Came::Asked)
    }

    /// Passes a block to the node.
    fn give(&mut self, cx: &mut Context, id: PeerId, received: Received, want: Want, now: Now) {
        self.note_delivered(cx, id, &want, now);
        let Want { hash, height } = want;
        let held = self.budget.hold(received.payload().len());
        let bytes = BlockBytes::new(received.bytes, received.start, held);
        cx.event(Event::Block { peer: id, hash, height, bytes });
    }

    /// Passes a block outside all lists to the node, if its height is known and it is not stored.
    fn hand_over(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        received: Received,
        hash: BlockHash,
        height: Option<Height>,
        now: Now,
    ) {
        let bytes = received.payload().len();
        let Some(height) = height.filter(|_| self.download.taken_unasked(id, &hash, bytes)) else {
            self.dropped_count += 1;
            return;
        };
        self.of(id).unasked_count = 0;
        self.give(cx, id, received, Want { hash, height }, now);
    }

    /// An unsolicited block has an unknown header: checks whether the header may be processed as an announcement.
    ///
    /// # Errors
    ///
    /// The [`Reason`] for ending the connection.
    pub(super) fn check_unasked(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        received: &mut Received,
        header: &Header,
    ) -> Result<(), Reason> {
        if let Some(frame) = received.unchecked.take() {
            frame.check(received.payload()).map_err(Reason::Wire)?;
        }
        self.of(id).unasked_count += 1;
        if self.of(id).unasked_count > UNASKED_COUNT_MAX {
            return Err(Reason::UnaskedBlocks);
        }
        if !cx.chain.check_proof_of_work(std::slice::from_ref(header), &[header.hash()]) {
            let why = "ProcessNewBlock: AcceptBlock FAILED (high-hash, proof of work failed)";
            cx.peers.get_mut(&id).expect("it just spoke").journal.say(|| why.to_owned());
            return Err(Reason::HeaderWork);
        }
        // Source: Bitcoin Core b88bffe, `MaybePunishNodeForBlock`, `BLOCK_MISSING_PREV`.
        if cx.chain.header(&header.prev()).is_none() { Err(Reason::UnaskedBlocks) } else { Ok(()) }
    }

    /// An unsolicited block whose header was processed: accepted under the same conditions as in Core.
    pub(super) fn take_unasked(&mut self, cx: &mut Context, id: PeerId, received: Received, hash: BlockHash, now: Now) {
        let is_direct = self.take_direct(id, &hash);
        let has_room = self.budget.held_bytes() <= cx.config.window_bytes;
        let is_taken = |info: &HeaderInfo| has_room && !info.invalid && (is_direct || self.takes_unasked(cx, info));
        let height = cx.chain.header(&hash).filter(is_taken).map(|info| info.height);
        self.hand_over(cx, id, received, hash, height, now);
    }

    /// Whether an unsolicited block is accepted: it can end the best chain, and is not far ahead of the tip.
    /// Source: Bitcoin Core b88bffe, `AcceptBlock`.
    fn takes_unasked(&self, cx: &Context, info: &HeaderInfo) -> bool {
        let tip = cx.chain.tip();
        let is_connected = cx.chain.ancestor(&tip.hash, info.height) == Some(info.hash);
        // Blocks that arrived without a gap are connected within moments: the last one counts as the tip because
        // Core's tip is already there.
        let reached = self.download.arrived_to().unwrap_or(tip.height).max(tip.height);
        let is_near = info.height.to_u32() <= reached.to_u32().saturating_add(UNASKED_AHEAD_MAX);
        is_near && !is_connected && info.work >= tip.work.max(cx.chain.minimum_work())
    }

    /// Handles `notfound`.
    pub(super) fn on_not_found(&mut self, id: PeerId, list: &[Inventory], now: Now) {
        for entry in list {
            self.download.not_found(id, &BlockHash::from_hash256(entry.hash()), now.since_start);
        }
    }

    // Messages of the node.

    /// Replaces the lists of blocks to download: see [`crate::Network::want`].
    pub(super) fn want(&mut self, lists: Vec<Vec<Want>>) {
        self.targets.is_told = false;
        self.download.want(lists);
    }

    /// Handles the node's verdict on a block; returns the peer to punish, and why.
    pub(super) fn judge(
        &mut self,
        cx: &mut Context,
        hash: BlockHash,
        verdict: BlockVerdict,
        now: Now,
    ) -> Option<(PeerId, Reason)> {
        self.verdicts_heard += 1;
        match verdict {
            BlockVerdict::Stored => {
                // As in Core, only the first sound copy counts as delivered.
                let giver = self.download.judged(&hash).and_then(|peer| self.givers.get_mut(&peer));
                giver.into_iter().for_each(|giver| giver.last_block_at = Some(now.since_start));
                self.drop_direct(&hash);
                None
            }
            BlockVerdict::BadBody { peer, reason } => {
                self.bad_body(cx, peer, &hash, now);
                Some((peer, Reason::BadBody { hash, reason }))
            }
            // As in Core, a message that does not deserialize is dropped, and its sender kept; here a few times.
            // Source: Bitcoin Core b88bffe, `PeerManagerImpl::ProcessMessages`.
            BlockVerdict::Unreadable { peer: id, reason } => {
                self.bad_body(cx, id, &hash, now);
                let peer = cx.peers.get_mut(&id)?;
                peer.journal.say(|| format!("ProcessMessages(block): Exception '{reason}' caught, peer={id}"));
                let count = &mut self.of(id).unreadable_count;
                *count += 1;
                (*count > UNREADABLE_COUNT_MAX).then_some((id, Reason::BadBody { hash, reason }))
            }
            BlockVerdict::Invalid(reason) => {
                self.drop_direct(&hash);
                let peer = self.download.judged(&hash)?;
                Some((peer, Reason::InvalidBlock { hash, reason }))
            }
        }
    }

    /// The body of a block was invalid: for a while it is not requested again from the peer that sent it, even if
    /// that peer stays connected.
    fn bad_body(&mut self, cx: &Context, peer: PeerId, hash: &BlockHash, now: Now) {
        self.download.bad_body(peer, hash);
        if let Some(info) = cx.chain.header(hash) {
            self.download.lacks(peer, info.height, now.since_start);
        }
    }

    /// Whether the node has too many unprocessed blocks to read more.
    fn waits_for_verdicts(&self, config: &Config) -> bool {
        self.download.unjudged_bytes() > unjudged_bytes_max(config)
    }

    // Requests.

    /// Requests blocks.
    pub(super) fn schedule(&mut self, cx: &mut Context, headers: &HeaderSync, now: Now) {
        self.update_targets(cx, headers);
        self.update_reach(cx, headers);
        // Source: Bitcoin Core b88bffe, `HeadersDirectFetchBlocks`: more blocks than this are not fetched at once.
        let missing = cx.chain.best_header().height.blocks_above(cx.chain.tip().height);
        let is_at_tip = !cx.chain.initial_download() && missing as usize <= IN_FLIGHT_COUNT_TIP;
        let start_count = if is_at_tip { IN_FLIGHT_COUNT_TIP } else { IN_FLIGHT_COUNT_START };
        let limits = Limits { window_bytes: cx.config.window_bytes, window_count: cx.config.window_count, start_count };
        let held_bytes = self.budget.held_bytes();
        for (id, wants) in self.download.assign(held_bytes, limits, now.since_start) {
            let list = wants.iter().map(|want| Inventory::WitnessBlock(want.hash)).collect();
            cx.send(id, &Message::GetData(list));
        }
        for (id, peer) in &mut cx.peers {
            peer.transport.set_block_owed(self.download.owes(*id));
        }
        if self.download.wants_more() {
            cx.event(Event::WantMore);
        }
    }

    /// Sets the condition on which the node wakes this thread. Call it right before waiting for sockets: sending
    /// after [`BlockDownload::schedule`] may unblock waiting blocks.
    pub(super) fn will_wait(&self, config: &Config) {
        let held_bytes = self.budget.held_bytes();
        let has_room = held_bytes <= soft_bytes(config) && !self.download.is_window_full();
        if self.waits_for_verdicts(config) || !has_room || self.paused {
            self.budget.wait_for_node(held_bytes, self.verdicts_heard);
        } else {
            self.budget.wait_no_more();
        }
    }

    // The clock.

    /// Reading is paused: what peers send is no measure of them.
    pub(super) fn reading_is_paused(&mut self) {
        self.paused = true;
    }

    /// Measures speeds.
    pub(super) fn sample(&mut self, cx: &Context, now: Now) {
        let paused = std::mem::take(&mut self.paused) | std::mem::take(&mut self.is_node_behind);
        let counters = |id| cx.peers.get(&id).map(|peer| (peer.block_bytes(), peer.round_trip()));
        self.download.sample(paused, now.since_start, counters);
    }

    /// The peer that sends other blocks before the one that the node waits for, while there is no space for them.
    pub(super) fn who_has_no_room(&self, config: &Config) -> Option<(PeerId, Reason)> {
        let is_full = self.budget.held_bytes() > hard_bytes(config);
        let id = if is_full { self.download.first_is_queued_at()? } else { return None };
        Some((id, Reason::BlockStalled(Duration::ZERO)))
    }

    /// The peer that delays the download; `can_replace`: another peer can replace it.
    pub(super) fn who_holds_up(&mut self, can_replace: bool, now: Now) -> Option<(PeerId, Reason)> {
        self.download.peer_to_disconnect(can_replace, now.since_start)
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::alone::{actions, add_peer, context, now};
    use super::*;
    use crate::chain::ChainView as _;
    use crate::hub::Action;
    use crate::sim::{Chain, made_on};

    /// A part with one peer of this kind, which has these blocks.
    fn begun(kind: Kind) -> (Arc<Chain>, crate::sim::Made, Context, PeerId, BlockDownload, HeaderSync) {
        let chain = Arc::new(Chain::new());
        let made = made_on(&chain.best_header(), 3, 1, 300);
        let hashes: Vec<_> = made.headers.iter().map(Header::hash).collect();
        chain.accept_headers(&made.headers, &hashes, u64::MAX / 2);
        let mut cx = context(&chain);
        let id = add_peer(&mut cx, kind);
        let (mut blocks, mut headers) = (BlockDownload::new(Arc::default(), None), HeaderSync::default());
        blocks.add_peer(id, kind);
        headers.add_peer(id);
        headers.note_best_known(id, cx.chain.best_header());
        blocks.on_ready(&cx, id, now(1));
        blocks.schedule(&mut cx, &headers, now(1));
        (chain, made, cx, id, blocks, headers)
    }

    fn received(block: Vec<u8>) -> Received {
        Received { command: Command::Block, bytes: block, start: 0, unchecked: None }
    }

    #[test]
    fn wanted_blocks_are_asked_for_and_go_to_the_node() {
        let (chain, made, mut cx, id, mut blocks, headers) = begun(Kind::Automatic);
        let best = chain.best_header();
        let targets = actions(&mut cx);
        assert!(matches!(&targets[..], [Action::Event(Event::Targets(list))] if *list == [best.hash]), "{targets:?}");
        assert!(blocks.is_asking());
        blocks.want(vec![chain.wanted_up_to(&best.hash, 10)]);
        blocks.schedule(&mut cx, &headers, now(2));
        let asked = blocks.waits_for(now(4).since_start).map(|(want, peer, time)| (want.height, peer, time));
        assert_eq!(asked, Some((Height::new(1), Some(id), Duration::from_secs(2))));
        let came = blocks.on_block(&mut cx, id, received(made.block(0)), now(5)).unwrap();
        assert!(matches!(came, Came::Asked));
        let given = actions(&mut cx);
        let is_first =
            |action: &Action| matches!(action, Action::Event(Event::Block { height, .. }) if *height == Height::new(1));
        assert!(given.iter().any(is_first) && blocks.last_block_at(id).is_none(), "{given:?}");
        // Its body proves bad: it is requested again.
        let hash = made.headers[0].hash();
        let bad = BlockVerdict::BadBody { peer: id, reason: "bad-txnmrklroot".to_owned() };
        let culprit = blocks.judge(&mut cx, hash, bad, now(6)).map(|(peer, _)| peer);
        assert_eq!((culprit, blocks.download.is_asked(&hash)), (Some(id), false));
        assert!(blocks.last_block_at(id).is_none(), "it delivered nothing");
    }

    /// Unsolicited junk arrives while the block is requested from an honest peer, before or after that one's copy.
    #[test]
    fn junk_is_blamed_on_its_sender_in_every_order() {
        const HONEST: usize = 0;
        for order in [&[1, HONEST][..], &[HONEST, 1], &[1, HONEST, 2], &[1, 2, HONEST], &[HONEST, 1, 2]] {
            let (chain, made, mut cx, honest, mut blocks, headers) = begun(Kind::Automatic);
            blocks.want(vec![chain.wanted_up_to(&chain.best_header().hash, 10)]);
            blocks.schedule(&mut cx, &headers, now(2));
            let peers = [honest, add_peer(&mut cx, Kind::Inbound), add_peer(&mut cx, Kind::Inbound)];
            peers[1..].iter().for_each(|id| blocks.add_peer(*id, Kind::Inbound));
            for place in order {
                let mut block = made.block(0);
                *block.last_mut().expect("a body") ^= u8::from(*place != HONEST);
                let came = blocks.on_block(&mut cx, peers[*place], received(block), now(3)).unwrap();
                if let Came::Unasked(received, header) = came {
                    blocks.take_unasked(&mut cx, peers[*place], received, header.hash(), now(3));
                }
            }
            let mut blamed = Vec::new();
            for action in actions(&mut cx) {
                let Action::Event(Event::Block { peer, hash, bytes, .. }) = action else { continue };
                let verdict = chain.store(peer, &bytes);
                blamed.extend(blocks.judge(&mut cx, hash, verdict, now(4)).map(|(peer, _)| peer));
            }
            let delivered = peers.map(|id| blocks.last_block_at(id).is_some());
            assert_eq!(delivered, [true, false, false], "{order:?}");
            let has_passed_junk = order[0] != HONEST;
            assert_eq!(blamed, if has_passed_junk { vec![peers[1]] } else { vec![] }, "{order:?}");
            assert_eq!(chain.wanted(1)[0].height, Height::new(2), "{order:?}: the honest copy was stored");
            assert!(blocks.download.node_waits(), "{order:?}: nothing is left without a verdict");
        }
    }

    /// Until another peer delivers it, or it delivers blocks of another chain.
    #[test]
    fn named_peer_that_was_late_counts_again() {
        for (row, is_other, on_side, want) in [
            ("another peer delivers the block", true, false, false),
            ("it delivers a block of another chain", false, true, false),
            ("it delivers a later one of the same chain", false, false, true),
        ] {
            let (chain, made, mut cx, id, mut blocks, headers) = begun(Kind::Manual(3));
            blocks.want(vec![chain.wanted_up_to(&chain.best_header().hash, 10)]);
            blocks.schedule(&mut cx, &headers, now(2));
            blocks.tick_delivery(&cx, now(3));
            blocks.tick_delivery(&cx, now(200));
            assert!(blocks.withholds(id), "{row}");
            blocks.remove_peer(id);
            cx.peers.remove(&id);
            let again = add_peer(&mut cx, Kind::Manual(3));
            let other = add_peer(&mut cx, Kind::Automatic);
            blocks.add_peer(again, Kind::Manual(3));
            blocks.add_peer(other, Kind::Automatic);
            let side = crate::sim::made_on(&Chain::new().best_header(), 2, 99, 0);
            let hashes: Vec<_> = side.headers.iter().map(Header::hash).collect();
            chain.accept_headers(&side.headers, &hashes, u64::MAX / 2);
            let delivered = match (is_other, on_side) {
                (true, _) => Want { hash: made.headers[0].hash(), height: Height::new(1) },
                (false, true) => Want { hash: hashes[1], height: Height::new(2) },
                (false, false) => Want { hash: made.headers[1].hash(), height: Height::new(2) },
            };
            blocks.note_delivered(&cx, if is_other { other } else { again }, &delivered, now(201));
            assert_eq!(blocks.withholds(again), want, "{row}");
            blocks.remove_peer(again);
            blocks.add_peer(again, Kind::Manual(3));
            assert_eq!(blocks.withholds(again), want, "{row}: it comes again");
        }
    }

    /// The request stays open, as the peer never answers it.
    #[test]
    fn named_peer_on_another_chain_stays_counted() {
        let (chain, _, mut cx, id, mut blocks, headers) = begun(Kind::Manual(3));
        blocks.want(vec![chain.wanted_up_to(&chain.best_header().hash, 10)]);
        blocks.schedule(&mut cx, &headers, now(2));
        blocks.tick_delivery(&cx, now(3));
        blocks.tick_delivery(&cx, now(200));
        let side = crate::sim::made_on(&Chain::new().best_header(), 2, 99, 0);
        let hashes: Vec<_> = side.headers.iter().map(Header::hash).collect();
        chain.accept_headers(&side.headers, &hashes, u64::MAX / 2);
        blocks.note_delivered(&cx, id, &Want { hash: hashes[1], height: Height::new(2) }, now(201));
        blocks.tick_delivery(&cx, now(202));
        assert!(!blocks.withholds(id));
    }

    /// The user's pause is no fault of the peer.
    #[test]
    fn peer_is_not_late_while_reading_is_paused() {
        for (is_paused, want) in [(true, false), (false, true)] {
            let (chain, _, mut cx, id, mut blocks, headers) = begun(Kind::Manual(3));
            blocks.want(vec![chain.wanted_up_to(&chain.best_header().hash, 10)]);
            blocks.schedule(&mut cx, &headers, now(2));
            for second in 3..200 {
                if is_paused {
                    blocks.reading_is_paused();
                }
                blocks.sample(&cx, now(second));
                blocks.tick_delivery(&cx, now(second));
            }
            assert_eq!(blocks.withholds(id), want, "{is_paused}");
        }
    }

    /// Also when it comes again; any other peer begins anew.
    #[test]
    fn named_peer_that_withholds_is_remembered() {
        for (kind, is_remembered) in [(Kind::Manual(3), true), (Kind::Automatic, false)] {
            let (chain, _, mut cx, id, mut blocks, headers) = begun(kind);
            blocks.want(vec![chain.wanted_up_to(&chain.best_header().hash, 10)]);
            blocks.schedule(&mut cx, &headers, now(2));
            assert!(blocks.tick_delivery(&cx, now(3)).is_empty() && !blocks.withholds(id));
            let ended = blocks.tick_delivery(&cx, now(200));
            assert_eq!((blocks.withholds(id), ended.len()), (true, usize::from(!is_remembered)), "{kind:?}");
            assert_eq!(blocks.best_claim(&cx, &headers), None, "it has no say");
            blocks.remove_peer(id);
            cx.peers.remove(&id);
            let again = add_peer(&mut cx, kind);
            blocks.add_peer(again, kind);
            assert_eq!(blocks.withholds(again), is_remembered, "{kind:?}");
        }
    }
}
