//! Reads blocks and filters for peers in a thread of their own, as messages that are ready to be sent.
//!
//! Absent on purpose: which requests are served, and when ([`super::serving`]).

use crate::budget::BufferPool;
use crate::chain::ChainView;
use crate::filter_request::FilterRequest;
use crate::packet::Packet;
use crate::peer::{Peer, SEND_PAUSE_BYTES};
use crate::transport::head_bytes;
use crate::utxo_sets::{CHUNK_BYTES, SetRequest, SetSource, chunk_payload_head};
use crate::wire::{Command, Inventory, PAYLOAD_BYTES_MAX, checksum};
use std::sync::Arc;

/// Number of bytes after which reading pauses.
pub(super) const READ_BYTES_MAX: usize = SEND_PAUSE_BYTES;

/// A read for a peer.
#[derive(Debug)]
pub struct ReadRequest {
    asked: Asked,
    /// Whether it is sent with v2, where messages need no checksum.
    v2: bool,
    /// Pool for its buffers.
    buffers: BufferPool,
}

/// The requested data.
#[derive(Debug)]
pub(super) enum Asked {
    /// Blocks, in order; with witnesses if requested with them.
    Blocks(Vec<Inventory>),
    /// Filters, or their hashes or headers.
    Filters(FilterRequest),
    /// A tree or chunk of a UTXO set.
    Set(SetRequest, Arc<dyn SetSource>),
}

/// The data that was read for a peer.
#[derive(Debug)]
pub enum Served {
    /// The first of the blocks, at least one; `None` for a block that is not stored or must not be served.
    Blocks(Vec<Option<Payload>>),
    /// The next messages about filters, and the rest of the request.
    Filters(Vec<Payload>, Option<FilterRequest>),
    /// A tree or chunk of a UTXO set; `None` if it is not served.
    Set(Option<Payload>),
}

/// A message that was read for a peer.
#[derive(Debug)]
pub struct Payload {
    command: Command,
    packet: Packet,
    /// The checksum; `None` if the transport needs none.
    checksum: Option<[u8; 4]>,
}

impl Payload {
    /// The bytes with their checksum, which is computed in the reading thread, not in the thread with the sockets.
    ///
    /// `None` for more bytes than a message can carry.
    fn new(command: Command, packet: Packet, v2: bool) -> Option<Payload> {
        let fits = packet.payload().len() <= PAYLOAD_BYTES_MAX;
        fits.then(|| Payload { command, checksum: (!v2).then(|| checksum(packet.payload())), packet })
    }

    pub(super) fn bytes(&self) -> usize {
        self.packet.payload().len()
    }

    pub(super) fn send_to(self, peer: &mut Peer) {
        peer.transport.send_packet(self.command, self.packet, self.checksum);
    }
}

impl ReadRequest {
    pub(super) fn new(asked: Asked, v2: bool, buffers: BufferPool) -> ReadRequest {
        ReadRequest { asked, v2, buffers }
    }

    /// Reads, until `READ_BYTES_MAX` are read.
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
            Asked::Set(request, source) => Served::Set(self.read_set(request, &**source)),
        }
    }

    /// Source: BIP-0452: what cannot be served is not answered.
    fn read_set(&self, request: &SetRequest, source: &dyn SetSource) -> Option<Payload> {
        let mut packet = self.packet();
        let command = match request {
            SetRequest::Tree(base) => {
                let mut bytes = Vec::new();
                source.tree(base)?.put(&mut bytes, base);
                packet.payload_mut(bytes.len()).copy_from_slice(&bytes);
                Command::UtxoTree
            }
            SetRequest::Chunk(base, index) => {
                let bytes = source.tree(base)?.chunk_bytes(*index)?;
                let head = chunk_payload_head(base, *index, bytes);
                let (start, chunk) = packet.payload_mut(head.len() + bytes).split_at_mut(head.len());
                start.copy_from_slice(&head);
                source.read(base, u64::from(*index) * CHUNK_BYTES as u64, chunk).then_some(())?;
                Command::UtxoSet
            }
        };
        Payload::new(command, packet, self.v2)
    }

    fn packet(&self) -> Packet {
        Packet::new(head_bytes(self.v2), self.buffers.clone())
    }

    fn read_blocks(&self, chain: &dyn ChainView, blocks: &[Inventory]) -> Vec<Option<Payload>> {
        let mut out = Vec::new();
        let mut bytes = 0;
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
