//! Serving peers: headers, blocks, filters, and announcements of new tips; and the memory of queued answers.
//!
//! Absent on purpose: addresses ([`crate::addresses`]), and data that peers send to us.

mod filters;
pub mod memory;
pub mod room;

use super::Action;
use super::context::Context;
use super::header_sync::HeaderSync;
use super::read::{Asked, Payload, READ_BYTES_MAX, ReadRequest, Served};
use crate::api::PeerId;
use crate::budget::BufferPool;
use crate::chain::HeaderInfo;
use crate::filter_request::FilterRequest;
use crate::peer::{Hearing, Peer, SEND_PAUSE_BYTES};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::upload_target::OLD_BLOCK_S;
use crate::utxo_sets::SetRequest;
use crate::wire::{Inventory, Message, PAYLOAD_BYTES_MAX};
use memory::Takers;
use primitives::{BlockHash, Header};
use room::{SEND_TOTAL_BYTES_MAX, SERVE_BYTES_MAX, may_answer, queued_bytes};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum number of headers announced for a new tip; beyond that an `inv` is sent.
/// Source: Core's `MAX_BLOCKS_TO_ANNOUNCE`.
pub const ANNOUNCE_COUNT_MAX: usize = 8;

/// Maximum number of hashes in an answer to `getblocks`. Source: Core's `nLimit` there.
pub const GET_BLOCKS_COUNT_MAX: usize = 500;

/// A pruned node serves blocks down to this depth: two more than it promises, for races.
/// Source: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`.
pub const LIMITED_DEPTH_MAX: u32 = 290;

/// Maximum number of requested blocks of a peer that were not served yet; further requests are ignored.
pub const SERVE_COUNT_MAX: usize = 4096;
/// Parts of UTXO sets that a peer may have asked for and that were not served yet; further requests are ignored.
pub const SETS_COUNT_MAX: usize = 16;
/// Maximum number of blocks read for one peer at a time: blocks of the chain's first years have 250 bytes.
pub const READ_COUNT_MAX: usize = 64;

/// State of one peer that requests data.
#[derive(Debug, Default)]
struct Asker {
    /// Requested blocks, in order.
    blocks: VecDeque<Inventory>,
    /// The outstanding request for filters: later messages of the peer wait for its answer.
    filters: Option<FilterRequest>,
    /// Parts of UTXO sets that it asked for, in order.
    sets: VecDeque<SetRequest>,
    /// Whether the first of the blocks, of the filters or of the parts of sets is being read.
    is_reading: bool,
    /// Whether that is a read-ahead, after blocks that were read and are not queued yet.
    is_read_ahead: bool,
    /// The best header that we sent or announced to it.
    best_given: Option<BlockHash>,
    /// Dropped when it disconnects: reads for it then end.
    presence: Arc<()>,
}

/// State of serving.
pub(super) struct Serving {
    askers: BTreeMap<PeerId, Asker>,
    /// Reads without a result yet, those for peers that have disconnected included.
    reading_count: usize,
    takers: Takers,
    /// Pool for buffers of read data.
    buffers: BufferPool,
}

impl Serving {
    pub(super) fn new(buffers: BufferPool) -> Serving {
        Serving { askers: BTreeMap::new(), reading_count: 0, takers: Takers::default(), buffers }
    }

    /// Adds a new connection.
    pub(super) fn add_peer(&mut self, id: PeerId) {
        self.askers.insert(id, Asker::default());
    }

    /// Removes a connection that ended. A read for it ends before its next block.
    pub(super) fn remove_peer(&mut self, id: PeerId) {
        self.askers.remove(&id);
    }

    fn of(&mut self, id: PeerId) -> &mut Asker {
        self.askers.get_mut(&id).expect("it just spoke")
    }

    /// Whether messages of a peer wait for the answer to an earlier one.
    pub(super) fn hearing(&self, id: PeerId) -> Hearing {
        let waits = self.askers.get(&id).is_some_and(|asker| asker.filters.is_some());
        if waits { Hearing::Waits } else { Hearing::Heard }
    }

    /// Whether blocks or filters that a peer asked for are not queued yet.
    pub(super) fn owes(&self, id: PeerId) -> bool {
        self.askers.get(&id).is_some_and(|asker| !asker.blocks.is_empty() || asker.filters.is_some())
    }

    /// Handles `getheaders`: sends the headers of the connected chain that follow.
    pub(super) fn on_get_headers(&mut self, cx: &mut Context, id: PeerId, locator: &[BlockHash], stop: &BlockHash) {
        let tip = cx.chain.tip();
        let may_download = cx.peers.get(&id).is_some_and(|peer| peer.permissions().has(Permissions::DOWNLOAD));
        let headers = if tip.work < cx.chain.minimum_work() && !may_download {
            // An empty answer tells the peer that we have no headers yet, so that it need not wait.
            Vec::new()
        } else {
            cx.chain.headers_after(locator, stop)
        };
        if headers.is_empty() && locator.is_empty() {
            return;
        }
        self.of(id).best_given = Some(headers.last().map_or(tip.hash, Header::hash));
        cx.send(id, &Message::Headers(headers));
    }

    /// Handles `getblocks`: sends the hashes of the blocks that follow, without `stop`.
    /// Source: Bitcoin Core b88bffe, `ProcessMessage`, `getblocks`.
    pub(super) fn on_get_blocks(cx: &mut Context, id: PeerId, locator: &[BlockHash], stop: &BlockHash) {
        let headers = cx.chain.headers_after(locator, stop);
        let hashes = headers.iter().map(Header::hash).filter(|hash| hash != stop);
        let list: Vec<_> = hashes.take(GET_BLOCKS_COUNT_MAX).map(Inventory::Block).collect();
        if !list.is_empty() && !locator.is_empty() {
            cx.send(id, &Message::Inv(list));
        }
    }

    /// Handles `getdata`: queues the requested blocks.
    pub(super) fn on_get_data(&mut self, id: PeerId, blocks: Vec<Inventory>) {
        let asker = self.of(id);
        let room = SERVE_COUNT_MAX - asker.blocks.len();
        asker.blocks.extend(blocks.into_iter().take(room));
    }

    /// Handles `getutxotree` or `getutxoset`: the part waits for its turn.
    ///
    /// # Errors
    ///
    /// Those of [`Serving::serve_next`].
    pub(super) fn on_get_set(&mut self, cx: &mut Context, id: PeerId, request: SetRequest) -> Result<(), Reason> {
        let is_served = cx.config.utxo_sets.is_some();
        let asker = self.of(id);
        if is_served && asker.sets.len() < SETS_COUNT_MAX {
            asker.sets.push_back(request);
        }
        self.serve_next(cx, id)
    }

    /// Begins to read the next requested data of a peer, unless a read is in progress or the send queue is long: the
    /// blocks, and then the filters, because the peer's messages after a request for filters wait.
    ///
    /// # Errors
    ///
    /// [`Reason::BeyondOffer`]: the connection ends.
    pub(super) fn serve_next(&mut self, cx: &mut Context, id: PeerId) -> Result<(), Reason> {
        let (Some(peer), Some(asker)) = (cx.peers.get(&id), self.askers.get(&id)) else { return Ok(()) };
        let asks_nothing = asker.blocks.is_empty() && asker.filters.is_none() && asker.sets.is_empty();
        if asker.is_reading || !may_answer(cx, peer) || asks_nothing {
            return Ok(());
        }
        if !self.has_room_to_read(cx) {
            self.takers.note_short();
            return Ok(());
        }
        // Near the upload target, one block at a time is read, and the next one once that counts.
        let is_near = cx.upload.is_reached_after(queued_bytes(cx) + READ_BYTES_MAX + PAYLOAD_BYTES_MAX);
        let count = if is_near { 1 } else { READ_COUNT_MAX };
        let blocks: Vec<_> = asker.blocks.iter().take(count).copied().collect();
        if let Some(beyond) = blocks.iter().filter_map(Inventory::block).find(|hash| is_beyond_offer(cx, peer, hash)) {
            return Err(Reason::BeyondOffer(beyond));
        }
        let is_set_next = blocks.is_empty() && asker.filters.is_none();
        if has_no_upload(cx, peer) && (is_set_next || has_old(cx, &blocks)) {
            // Data that waits for this peer is sent, and counts, before the peer is refused more: only then is the
            // limit reached.
            let is_owed = peer.transport.out_bytes() > 0 && !cx.upload.is_reached_for_old_blocks();
            return if is_owed { Ok(()) } else { Err(Reason::UploadLimit) };
        }
        let asked = match (asker.filters, asker.sets.front(), &cx.config.utxo_sets) {
            _ if !blocks.is_empty() => Asked::Blocks(blocks),
            (Some(request), ..) => Asked::Filters(request),
            (None, Some(part), Some(source)) => Asked::Set(*part, source.clone()),
            (None, ..) => return Ok(()),
        };
        self.begin_to_read(cx, id, asked);
        Ok(())
    }

    /// Whether there is space for the largest possible result of one more read. This also bounds the number of waiting
    /// reads: otherwise a peer that requests data, disconnects and repeats this could queue any number of them.
    fn has_room_to_read(&self, cx: &Context) -> bool {
        queued_bytes(cx) + (self.reading_count + 1) * (READ_BYTES_MAX + PAYLOAD_BYTES_MAX) <= SERVE_BYTES_MAX
    }

    /// Before [`Serving::served`]: if the send queue is short, begins to read the following blocks while the last
    /// ones are encrypted and sent. On a fully loaded machine, each time that one thread waits for the other lasts as
    /// long as the time slices of all running threads.
    pub(super) fn read_ahead(&mut self, cx: &mut Context, id: PeerId, served: &Served) {
        let (Some(peer), Served::Blocks(blocks)) = (cx.peers.get(&id), served) else { return };
        let Some(asker) = self.askers.get(&id) else { return };
        let bytes: usize = blocks.iter().flatten().map(Payload::bytes).sum();
        // Near the upload target each block waits until the previous ones are counted.
        let has_room = !cx.upload.is_reached_after(queued_bytes(cx) + READ_BYTES_MAX + PAYLOAD_BYTES_MAX)
            && peer.transport.out_bytes() < SEND_PAUSE_BYTES
            && queued_bytes(cx).saturating_add(bytes) < SEND_TOTAL_BYTES_MAX
            && self.has_room_to_read(cx);
        let next: Vec<_> = asker.blocks.iter().skip(blocks.len()).take(READ_COUNT_MAX).copied().collect();
        // A request beyond our services is handled when the earlier ones are queued.
        let is_offered = |asked: &Inventory| asked.block().is_none_or(|hash| !is_beyond_offer(cx, peer, &hash));
        if has_room && !next.is_empty() && next.iter().all(is_offered) {
            self.begin_to_read(cx, id, Asked::Blocks(next));
            self.of(id).is_read_ahead = true;
        }
    }

    fn begin_to_read(&mut self, cx: &mut Context, id: PeerId, asked: Asked) {
        let (Some(peer), Some(asker)) = (cx.peers.get(&id), self.askers.get_mut(&id)) else { return };
        let presence = Arc::downgrade(&asker.presence);
        let request = ReadRequest::new(asked, peer.transport.is_v2(), self.buffers.clone(), presence);
        asker.is_reading = true;
        self.reading_count += 1;
        cx.ask(Action::Read { peer: id, request });
    }

    /// Queues the data of [`Action::Read`], and reads the next. Called for every read, also if the peer has
    /// disconnected.
    ///
    /// # Errors
    ///
    /// Those of [`Serving::serve_next`].
    pub(super) fn served(&mut self, cx: &mut Context, id: PeerId, served: Served) -> Result<(), Reason> {
        self.reading_count = self.reading_count.saturating_sub(1);
        let (Some(peer), Some(asker)) = (cx.peers.get_mut(&id), self.askers.get_mut(&id)) else { return Ok(()) };
        asker.is_reading = std::mem::take(&mut asker.is_read_ahead);
        match served {
            Served::Blocks(blocks) => {
                for block in blocks {
                    let Some(asked) = asker.blocks.pop_front() else { return Ok(()) };
                    match block {
                        Some(payload) => payload.send_to(peer),
                        None => peer.send(&Message::NotFound(vec![asked])),
                    }
                }
            }
            Served::Filters(payloads, rest) => {
                payloads.into_iter().for_each(|payload| payload.send_to(peer));
                asker.filters = rest;
            }
            Served::Set(payload) => {
                asker.sets.pop_front();
                payload.into_iter().for_each(|payload| payload.send_to(peer));
            }
        }
        self.serve_next(cx, id)
    }

    /// Announces the tip to peers, unless we are still catching up with a better header.
    pub(super) fn announce_tip(&mut self, cx: &mut Context, headers: &HeaderSync) {
        let tip = cx.chain.tip();
        if tip.work < cx.chain.best_header().work {
            return;
        }
        for id in cx.peer_ids() {
            let peer = &cx.peers[&id];
            if !peer.is_ready() || self.peer_has(cx, headers, id, &tip) || !may_answer(cx, peer) {
                continue;
            }
            let fresh = if peer.wants_headers() { self.headers_unknown_to(cx, headers, id, tip) } else { None };
            let message = match fresh {
                Some(headers) => Message::Headers(headers),
                None => Message::Inv(vec![Inventory::Block(tip.hash)]),
            };
            self.of(id).best_given = Some(tip.hash);
            cx.send(id, &message);
        }
    }

    /// Whether a peer has a header: it announced it or a descendant, or we announced it.
    fn peer_has(&self, cx: &Context, headers: &HeaderSync, id: PeerId, info: &HeaderInfo) -> bool {
        let best_known = headers.best_known(id).map(|best| best.hash);
        let best_given = self.askers.get(&id).and_then(|asker| asker.best_given);
        let known = [best_known, best_given];
        known.iter().flatten().any(|of| cx.chain.ancestor(of, info.height) == Some(info.hash))
    }

    /// The headers up to `tip` that a peer does not have, lowest first; `None` if they are too many.
    fn headers_unknown_to(&self, cx: &Context, known: &HeaderSync, id: PeerId, tip: HeaderInfo) -> Option<Vec<Header>> {
        let mut headers = vec![tip.header];
        let mut at = tip;
        loop {
            at = cx.chain.header(&at.header.prev())?;
            if self.peer_has(cx, known, id, &at) {
                headers.reverse();
                return Some(headers);
            }
            if headers.len() == ANNOUNCE_COUNT_MAX {
                return None;
            }
            headers.push(at.header);
        }
    }

    /// Number of queued blocks of a peer, and whether some are being read.
    #[cfg(test)]
    pub(super) fn waiting(&self, id: PeerId) -> (usize, bool) {
        let asker = &self.askers[&id];
        (asker.blocks.len(), asker.is_reading)
    }
}

/// Whether the rest of `-maxuploadtarget` is reserved for new blocks.
fn has_no_upload(cx: &Context, peer: &Peer) -> bool {
    // Queued data counts, because it is sent before the next answer.
    cx.upload.is_reached_after(queued_bytes(cx)) && !peer.permissions().has(Permissions::DOWNLOAD)
}

/// Whether one of these blocks is old.
fn has_old(cx: &Context, blocks: &[Inventory]) -> bool {
    let best = cx.chain.best_header().header.time();
    let mut times = blocks.iter().filter_map(Inventory::block).filter_map(|hash| cx.chain.header(&hash));
    times.any(|block| best.saturating_sub(block.header.time()) > OLD_BLOCK_S)
}

/// Whether a pruned node must not serve this block: it serves no older blocks, so that peers do not learn which blocks
/// it has. A peer with the permission `noban` gets those that it has.
/// Source: Bitcoin Core b88bffe, `ProcessGetBlockData`.
fn is_beyond_offer(cx: &Context, peer: &Peer, hash: &BlockHash) -> bool {
    if cx.chain.has_all_blocks() || peer.is_noban() {
        return false;
    }
    let tip = cx.chain.tip();
    cx.chain.header(hash).is_some_and(|block| tip.height.blocks_above(block.height) > LIMITED_DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::context::alone::{actions, add_peer, context};
    use super::*;
    use crate::chain::ChainView as _;
    use crate::peer::Kind;
    use crate::sim::{Chain, Made, made_on, mine};
    use crate::upload_target::UploadTarget;
    use std::time::Duration;

    fn served(count: usize) -> Arc<Chain> {
        Arc::new(Chain::having(&made_on(&Chain::new().best_header(), count, 1, 300)))
    }

    #[test]
    fn blocks_that_wait_for_a_peer_are_bounded_and_read_one_piece_at_a_time() {
        let chain = served(100);
        let mut cx = context(&chain);
        let id = add_peer(&mut cx, Kind::Inbound);
        let mut serving = Serving::new(BufferPool::default());
        serving.add_peer(id);
        let hash = chain.tip().hash;
        (0..3).for_each(|_| serving.on_get_data(id, vec![Inventory::WitnessBlock(hash); 3000]));
        assert_eq!(serving.waiting(id), (SERVE_COUNT_MAX, false));
        // What waits to be sent of the handshake leaves room.
        serving.serve_next(&mut cx, id).unwrap();
        serving.serve_next(&mut cx, id).unwrap();
        let reads = actions(&mut cx);
        let [Action::Read { request, .. }] = &reads[..] else { panic!("one reading: {reads:?}") };
        let served = request.read(&*chain);
        serving.served(&mut cx, id, served).unwrap();
        assert_eq!(serving.waiting(id), (SERVE_COUNT_MAX - READ_COUNT_MAX, true), "and the next piece is being read");
        // What comes for a peer that is gone is dropped.
        serving.remove_peer(id);
        serving.served(&mut cx, id, Served::Blocks(vec![None])).unwrap();
        assert_eq!(serving.hearing(id), Hearing::Heard);
    }

    /// A peer requests blocks, disconnects, and repeats this.
    #[test]
    fn reads_for_peers_that_disconnected_are_bounded_and_read_nothing() {
        let chain = served(100);
        let hash = chain.tip().hash;
        let mut cx = context(&chain);
        let mut serving = Serving::new(BufferPool::default());
        let ask = |cx: &mut Context, serving: &mut Serving| {
            let id = add_peer(cx, Kind::Inbound);
            serving.add_peer(id);
            serving.on_get_data(id, vec![Inventory::WitnessBlock(hash); READ_COUNT_MAX]);
            serving.serve_next(cx, id).unwrap();
            id
        };
        for _ in 0..100 {
            let id = ask(&mut cx, &mut serving);
            cx.peers.remove(&id);
            serving.remove_peer(id);
        }
        let reads = actions(&mut cx);
        assert_eq!(reads.len(), SERVE_BYTES_MAX / (READ_BYTES_MAX + PAYLOAD_BYTES_MAX));
        let stays = ask(&mut cx, &mut serving);
        assert_eq!(actions(&mut cx).len(), 0, "it waits until they are over");
        for read in reads {
            let Action::Read { peer, request } = read else { panic!("only reads") };
            let result = request.read(&*chain);
            assert!(matches!(&result, Served::Blocks(blocks) if blocks.is_empty()), "{result:?}");
            serving.served(&mut cx, peer, result).unwrap();
        }
        serving.serve_next(&mut cx, stays).unwrap();
        let reads = actions(&mut cx);
        let [Action::Read { request, .. }] = &reads[..] else { panic!("one reading: {reads:?}") };
        let result = request.read(&*chain);
        assert!(matches!(&result, Served::Blocks(blocks) if blocks.len() == READ_COUNT_MAX), "{result:?}");
    }

    /// Core's feature_maxuploadtarget: old blocks requested below the upload target are sent, and the connection ends
    /// when the target is reached, not before.
    #[test]
    fn old_blocks_below_the_upload_target_are_sent_before_the_connection_ends() {
        let old = made_on(&Chain::new().best_header(), 1, 1, 300);
        let start = Chain::having(&old).best_header();
        let recent = mine(&start, b"recent", start.header.time() + OLD_BLOCK_S + 1);
        let headers = vec![old.headers[0], recent];
        let chain = Arc::new(Chain::having(&Made { headers, bodies: vec![old.bodies[0].clone(), b"recent".to_vec()] }));
        let mut cx = context(&chain);
        let id = add_peer(&mut cx, Kind::Inbound);
        let mut serving = Serving::new(BufferPool::default());
        serving.add_peer(id);
        // A day's blocks of maximum size are reserved for new blocks. The rest is for one answer and a part of another.
        let waits = |cx: &Context| cx.peers[&id].transport.out_bytes();
        let sent = |cx: &mut Context, bytes: usize| {
            cx.peers.get_mut(&id).expect("it stays").transport.sent(bytes);
            cx.upload.sent(bytes, Duration::ZERO);
        };
        let before = waits(&cx);
        sent(&mut cx, before);
        cx.upload = UploadTarget::new(144 * 4_000_000 + 500);
        sent(&mut cx, 0);
        serving.on_get_data(id, vec![Inventory::WitnessBlock(old.headers[0].hash()); 3]);
        serving.serve_next(&mut cx, id).unwrap();
        for _ in 0..2 {
            let reads = actions(&mut cx);
            let [Action::Read { request, .. }] = &reads[..] else { panic!("one reading: {reads:?}") };
            serving.served(&mut cx, id, request.read(&*chain)).unwrap();
        }
        assert_eq!(
            (actions(&mut cx).len(), serving.waiting(id)),
            (0, (1, false)),
            "the third waits until two are sent"
        );
        let promised = waits(&cx);
        assert!((500..1000).contains(&promised), "{promised}");
        sent(&mut cx, 400);
        serving.serve_next(&mut cx, id).unwrap();
        assert!(cx.upload.state().serves_old_blocks);
        sent(&mut cx, promised - 400);
        assert_eq!(serving.serve_next(&mut cx, id), Err(Reason::UploadLimit));
        assert!(!cx.upload.state().serves_old_blocks);
    }

    #[test]
    fn tip_is_announced_once_to_who_does_not_have_it() {
        let chain = served(3);
        let mut cx = context(&chain);
        let (knows, asks) = (add_peer(&mut cx, Kind::Automatic), add_peer(&mut cx, Kind::Inbound));
        let (mut serving, mut headers) = (Serving::new(BufferPool::default()), HeaderSync::default());
        for id in [knows, asks] {
            serving.add_peer(id);
            headers.add_peer(id);
        }
        headers.note_best_known(knows, chain.tip());
        let waiting = |cx: &Context| [knows, asks].map(|id| cx.peers[&id].transport.out_bytes());
        let before = waiting(&cx);
        serving.announce_tip(&mut cx, &headers);
        let after = waiting(&cx);
        assert!(after[0] == before[0] && after[1] > before[1], "{before:?} {after:?}");
        serving.announce_tip(&mut cx, &headers);
        assert_eq!(waiting(&cx), after, "it was told");
    }
}
