//! What we give to peers: headers, blocks, filters, addresses, and word of new tips.

use super::dispatch::{SEND_TOTAL_BYTES_MAX, SERVE_BYTES_MAX};
use super::{Action, Hub};
use crate::api::PeerId;
use crate::budget::BufferPool;
use crate::chain::{ChainView, HeaderInfo};
use crate::filter_request::FilterRequest;
use crate::packet::Packet;
use crate::peer::{Peer, SEND_PAUSE_BYTES};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use crate::transport::head_bytes;
use crate::wire::{AddressEntry, Command, Inventory, Message, PAYLOAD_BYTES_MAX, Target, checksum, limits};
use primitives::{BlockHash, Header};

/// Headers of a new tip that are announced at once; beyond, an inv says that there is more.
/// Source: Core's `MAX_BLOCKS_TO_ANNOUNCE`.
pub const ANNOUNCE_COUNT_MAX: usize = 8;

/// Hashes of an answer to `getblocks`. Source: Core's `nLimit` there.
pub const GET_BLOCKS_COUNT_MAX: usize = 500;

/// A node with its last blocks only gives them down to this depth: two more than it promises, for races.
/// Source: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`.
pub const LIMITED_DEPTH_MAX: u32 = 290;

/// Blocks that are read for one peer at a time: the chain's first years have blocks of 250 bytes.
pub const READ_COUNT_MAX: usize = 64;
/// And the bytes after which reading stops for this time.
pub const READ_BYTES_MAX: usize = SEND_PAUSE_BYTES;

/// What is to be read for a peer.
#[derive(Debug)]
pub struct ReadRequest {
    asked: Asked,
    /// Whether it goes out by v2, where messages need no checksum.
    v2: bool,
    /// Where vectors for it come from.
    buffers: BufferPool,
}

#[derive(Debug)]
enum Asked {
    /// Blocks, in order; with witnesses where they are asked for with them.
    Blocks(Vec<Inventory>),
    /// Filters, or what is known of them.
    Filters(FilterRequest),
}

/// What was read for a peer.
#[derive(Debug)]
pub enum Served {
    /// The first of the blocks, at least one; `None` for one that is not there or not to be shown.
    Blocks(Vec<Option<Payload>>),
    /// The next messages about filters, and what is left of the request.
    Filters(Vec<Payload>, Option<FilterRequest>),
}

/// A message that was read for a peer.
#[derive(Debug)]
pub struct Payload {
    command: Command,
    packet: Packet,
    /// None where the transport needs none.
    checksum: Option<[u8; 4]>,
}

impl Payload {
    /// The bytes with their checksum: computed where they are read, and not where sockets wait.
    ///
    /// `None` for more than a message can carry.
    fn new(command: Command, packet: Packet, v2: bool) -> Option<Payload> {
        let fits = packet.payload().len() <= PAYLOAD_BYTES_MAX;
        fits.then(|| Payload { command, checksum: (!v2).then(|| checksum(packet.payload())), packet })
    }

    fn bytes(&self) -> usize {
        self.packet.payload().len()
    }

    fn send_to(self, peer: &mut Peer) {
        peer.transport.send_packet(self.command, self.packet, self.checksum);
    }
}

impl ReadRequest {
    /// Reads, until [`READ_BYTES_MAX`] are read.
    pub fn read(&self, chain: &dyn ChainView) -> Served {
        match &self.asked {
            Asked::Blocks(blocks) => Served::Blocks(self.read_blocks(chain, blocks)),
            Asked::Filters(request) => {
                let (messages, rest) = request.read(chain);
                let payload = |(command, bytes): (Command, Vec<u8>)| {
                    let mut packet = self.packet();
                    packet.payload_mut(bytes.len()).copy_from_slice(&bytes);
                    Payload::new(command, packet, self.v2)
                };
                Served::Filters(messages.into_iter().filter_map(payload).collect(), rest)
            }
        }
    }

    fn packet(&self) -> Packet {
        Packet::new(head_bytes(self.v2), self.buffers.clone())
    }

    fn read_blocks(&self, chain: &dyn ChainView, blocks: &[Inventory]) -> Vec<Option<Payload>> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        for block in blocks {
            let with_witness = matches!(block, Inventory::WitnessBlock(_));
            let mut packet = self.packet();
            let is_there = block.block().is_some_and(|hash| chain.read_block(&hash, with_witness, &mut packet));
            bytes += if is_there { packet.payload().len() } else { 0 };
            out.push(is_there.then(|| Payload::new(Command::Block, packet, self.v2)).flatten());
            if bytes >= READ_BYTES_MAX {
                break;
            }
        }
        out
    }
}

impl Hub {
    pub(super) fn on_get_headers(&mut self, id: PeerId, locator: &[BlockHash], stop: &BlockHash) -> Result<(), Reason> {
        let tip = self.chain.tip();
        let may_download = self.peers.get(&id).is_some_and(|peer| peer.permissions.has(Permissions::DOWNLOAD));
        let headers = if tip.work < self.chain.minimum_work() && !may_download {
            // An empty answer says: nothing here yet, and no need to wait.
            Vec::new()
        } else {
            self.chain.headers_after(locator, stop)
        };
        if headers.is_empty() && locator.is_empty() {
            return Ok(());
        }
        let peer = self.peers.get_mut(&id).expect("it just spoke");
        peer.best_given = Some(headers.last().map_or(tip.hash, Header::hash));
        peer.send(&Message::Headers(headers));
        Ok(())
    }

    /// The hashes of the blocks that follow, without `stop`. Source: Bitcoin Core b88bffe, `ProcessMessage`, `getblocks`.
    pub(super) fn on_get_blocks(&mut self, id: PeerId, locator: &[BlockHash], stop: &BlockHash) {
        let headers = self.chain.headers_after(locator, stop);
        let hashes = headers.iter().map(Header::hash).filter(|hash| hash != stop);
        let list: Vec<_> = hashes.take(GET_BLOCKS_COUNT_MAX).map(Inventory::Block).collect();
        if !list.is_empty() && !locator.is_empty() {
            self.peers.get_mut(&id).expect("it just spoke").send(&Message::Inv(list));
        }
    }

    /// Begins to read what a peer asked for next, unless something is being read or much waits to be sent: the blocks, and
    /// then the filters, for it was not heard after it asked for those.
    pub(super) fn serve_next(&mut self, id: PeerId, now: Now) {
        let Some(peer) = self.peers.get(&id) else { return };
        if peer.serving || !self.may_answer(peer) || peer.serve.is_empty() && peer.filters.is_none() {
            return;
        }
        if !self.has_room_to_read() {
            self.takers.is_short = true;
            return;
        }
        let blocks: Vec<_> = peer.serve.iter().take(READ_COUNT_MAX).copied().collect();
        if let Some(beyond) = blocks.iter().filter_map(Inventory::block).find(|hash| self.is_beyond_offer(hash)) {
            self.drop_peer(id, Reason::BeyondOffer(beyond), now);
            return;
        }
        match peer.filters {
            _ if !blocks.is_empty() => self.begin_to_read(id, Asked::Blocks(blocks)),
            Some(request) => self.begin_to_read(id, Asked::Filters(request)),
            None => {}
        }
    }

    /// Whether what one more reading gives has room, as large as it may be.
    fn has_room_to_read(&self) -> bool {
        let reading = self.peers.values().filter(|peer| peer.serving).count();
        self.queued_bytes() + (reading + 1) * (READ_BYTES_MAX + PAYLOAD_BYTES_MAX) <= SERVE_BYTES_MAX
    }

    /// Before [`Hub::served`]: begins to read the blocks behind those that were read, where little waits to be sent, so that they
    /// are read while these are encrypted and sent. Where no processor is idle, each wait of one thread for the other takes as
    /// long as all that run there have their turn.
    pub fn read_ahead(&mut self, id: PeerId, served: &Served) {
        let (Some(peer), Served::Blocks(blocks)) = (self.peers.get(&id), served) else { return };
        let bytes: usize = blocks.iter().flatten().map(Payload::bytes).sum();
        let has_room = peer.transport.out_bytes() < SEND_PAUSE_BYTES
            && self.queued_bytes().saturating_add(bytes) < SEND_TOTAL_BYTES_MAX
            && self.has_room_to_read();
        let next: Vec<_> = peer.serve.iter().skip(blocks.len()).take(READ_COUNT_MAX).copied().collect();
        // Who asks for more than is offered is dealt with when what it asked for before is queued.
        let is_offered = |asked: &Inventory| asked.block().is_none_or(|hash| !self.is_beyond_offer(&hash));
        if has_room && !next.is_empty() && next.iter().all(is_offered) {
            self.begin_to_read(id, Asked::Blocks(next));
            self.peers.get_mut(&id).expect("it was there").is_read_ahead = true;
        }
    }

    fn begin_to_read(&mut self, id: PeerId, asked: Asked) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.serving = true;
        let request = ReadRequest { asked, v2: peer.transport.is_v2(), buffers: self.budget.buffers() };
        self.actions.push_back(Action::Read { peer: id, request });
    }

    /// A node that offers its last blocks only shows no more, so that peers do not learn what it has.
    fn is_beyond_offer(&self, hash: &BlockHash) -> bool {
        if self.chain.has_all_blocks() {
            return false;
        }
        let tip = self.chain.tip();
        self.chain.header(hash).is_some_and(|block| tip.height.blocks_above(block.height) > LIMITED_DEPTH_MAX)
    }

    /// What [`Action::Read`] asked for was read.
    pub fn served(&mut self, id: PeerId, served: Served, now: Now) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.serving = std::mem::take(&mut peer.is_read_ahead);
        match served {
            Served::Blocks(blocks) => {
                for block in blocks {
                    let Some(asked) = peer.serve.pop_front() else { return };
                    match block {
                        Some(payload) => payload.send_to(peer),
                        None => peer.send(&Message::NotFound(vec![asked])),
                    }
                }
            }
            Served::Filters(payloads, rest) => {
                payloads.into_iter().for_each(|payload| payload.send_to(peer));
                peer.filters = rest;
            }
        }
        self.serve_next(id, now);
        self.dispatch_waiting(id, now);
    }

    pub(super) fn on_get_addr(&mut self, id: PeerId, now: Now) -> Result<(), Reason> {
        let peer = self.peers.get(&id).expect("it just spoke");
        let network = if let Target::Peer(remote) = &peer.target { remote.address.network() } else { 0 };
        let (from, has_own) = ((network, peer.local), peer.permissions.has(Permissions::ADDR));
        let mut rng = self.rng.clone();
        let mut answers = std::mem::take(&mut self.address_answers);
        let is_told = |entry: &AddressEntry| {
            let address = &entry.peer.address;
            !self.addresses.is_discouraged(address, now.unix) && !self.is_banned(address, now)
        };
        let choose = |rng: &mut Rng| {
            let mut entries = self.addresses.sample(limits::ADDRESS_COUNT_MAX, now.unix, rng);
            entries.retain(is_told);
            entries
        };
        // Source: Bitcoin Core b88bffe, `ProcessMessage`, `getaddr`: who may ask for addresses has a choice of its own.
        let entries = if has_own { choose(&mut rng) } else { answers.answer(from, now.since_start, &mut rng, choose) };
        (self.rng, self.address_answers) = (rng, answers);
        let peer = self.peers.get_mut(&id).expect("it just spoke");
        if !entries.is_empty() {
            let message = if peer.wants_addrv2 { Message::AddrV2(entries) } else { Message::Addr(entries) };
            peer.send(&message);
        }
        Ok(())
    }

    /// Tells peers of the tip, unless we are still catching up with a better header.
    pub(super) fn announce_tip(&mut self) {
        let tip = self.chain.tip();
        if tip.work < self.chain.best_header().work {
            return;
        }
        for id in self.peer_ids() {
            let peer = &self.peers[&id];
            if !peer.ready || self.peer_has(id, &tip) || !self.may_answer(peer) {
                continue;
            }
            let fresh = if peer.wants_headers { self.headers_unknown_to(id, tip) } else { None };
            let message = match fresh {
                Some(headers) => Message::Headers(headers),
                None => Message::Inv(vec![Inventory::Block(tip.hash)]),
            };
            let peer = self.peers.get_mut(&id).expect("listed");
            peer.best_given = Some(tip.hash);
            peer.send(&message);
        }
    }

    /// Whether a peer has a header: it told us of it or of a descendant, or we told it.
    fn peer_has(&self, id: PeerId, info: &HeaderInfo) -> bool {
        let peer = &self.peers[&id];
        let known = [peer.best_known.map(|best| best.hash), peer.best_given];
        known.iter().flatten().any(|of| self.chain.ancestor(of, info.height) == Some(info.hash))
    }

    /// The headers up to `tip` that a peer does not have, lowest first; `None` when they are too many.
    fn headers_unknown_to(&self, id: PeerId, tip: HeaderInfo) -> Option<Vec<Header>> {
        let mut headers = vec![tip.header];
        let mut at = tip;
        loop {
            at = self.chain.header(&at.header.prev())?;
            if self.peer_has(id, &at) {
                headers.reverse();
                return Some(headers);
            }
            if headers.len() == ANNOUNCE_COUNT_MAX {
                return None;
            }
            headers.push(at.header);
        }
    }
}
