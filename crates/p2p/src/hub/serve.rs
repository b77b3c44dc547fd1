//! What we give to peers: headers, blocks, addresses, and word of new tips.

use super::{Action, Hub};
use crate::api::PeerId;
use crate::chain::{ChainView, HeaderInfo};
use crate::peer::SEND_PAUSE_BYTES;
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::{Command, Inventory, Message, PAYLOAD_BYTES_MAX, checksum, limits};
use primitives::{BlockHash, Header};

/// Headers of a new tip that are announced at once; beyond, an inv says that there is more.
/// Source: Core's `MAX_BLOCKS_TO_ANNOUNCE`.
pub const ANNOUNCE_COUNT_MAX: usize = 8;

/// A node with its last blocks only gives them down to this depth: two more than it promises, for races.
/// Source: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS`.
pub const LIMITED_DEPTH_MAX: u32 = 290;

/// Blocks that are read for one peer at a time: the chain's first years have blocks of 250 bytes.
pub const READ_COUNT_MAX: usize = 64;
/// And the bytes after which reading stops for this time.
pub const READ_BYTES_MAX: usize = SEND_PAUSE_BYTES;

/// A block that was read for a peer.
#[derive(Debug)]
pub struct ServedBlock {
    bytes: Vec<u8>,
    /// None where the transport needs none.
    checksum: Option<[u8; 4]>,
}

impl ServedBlock {
    /// The bytes with their checksum: computed where the block is read, and not where sockets wait.
    ///
    /// `None` for a block that no message can carry.
    fn new(bytes: Vec<u8>, v2: bool) -> Option<ServedBlock> {
        let fits = bytes.len() <= PAYLOAD_BYTES_MAX;
        fits.then(|| ServedBlock { checksum: (!v2).then(|| checksum(&bytes)), bytes })
    }

    /// Reads what [`Action::Read`] asks for.
    pub fn read(chain: &dyn ChainView, blocks: &[Inventory], v2: bool) -> Vec<Option<ServedBlock>> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        for block in blocks {
            let with_witness = matches!(block, Inventory::WitnessBlock(_));
            let bytes_read = block.block().and_then(|hash| chain.block(&hash, with_witness));
            let read = bytes_read.and_then(|bytes| ServedBlock::new(bytes, v2));
            bytes += read.as_ref().map_or(0, |read| read.bytes.len());
            out.push(read);
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

    /// Begins to read the next blocks that a peer asked for, unless some are being read or much waits to be sent.
    pub(super) fn serve_next(&mut self, id: PeerId, now: Now) {
        let Some(peer) = self.peers.get(&id) else { return };
        if peer.serving || peer.serve.is_empty() || !self.may_answer(peer) {
            return;
        }
        let blocks: Vec<_> = peer.serve.iter().take(READ_COUNT_MAX).copied().collect();
        if let Some(beyond) = blocks.iter().filter_map(Inventory::block).find(|hash| self.is_beyond_offer(hash)) {
            self.drop_peer(id, Reason::BeyondOffer(beyond), now);
            return;
        }
        let v2 = peer.transport.is_v2();
        self.peers.get_mut(&id).expect("it was there").serving = true;
        self.actions.push_back(Action::Read { peer: id, blocks, v2 });
    }

    /// A node that offers its last blocks only shows no more, so that peers do not learn what it has.
    fn is_beyond_offer(&self, hash: &BlockHash) -> bool {
        if self.chain.has_all_blocks() {
            return false;
        }
        let tip = self.chain.tip();
        self.chain.header(hash).is_some_and(|block| tip.height.blocks_above(block.height) > LIMITED_DEPTH_MAX)
    }

    /// The first of what [`Action::Read`] asked for; `None` for a block that is not there or not to be shown.
    pub fn served(&mut self, id: PeerId, blocks: Vec<Option<ServedBlock>>, now: Now) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.serving = false;
        for block in blocks {
            let Some(asked) = peer.serve.pop_front() else { return };
            match block {
                Some(ServedBlock { bytes, checksum: Some(sum) }) => peer.transport.send_block(bytes, sum),
                Some(ServedBlock { bytes, checksum: None }) => peer.transport.send(Command::Block, &bytes),
                None => peer.send(&Message::NotFound(vec![asked])),
            }
        }
        self.serve_next(id, now);
    }

    pub(super) fn on_get_addr(&mut self, id: PeerId, now: Now) -> Result<(), Reason> {
        let entries = self.addresses.some(limits::ADDRESS_COUNT_MAX, now.unix, &mut self.rng);
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
