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
use primitives::BlockHash;
use std::sync::{Arc, Weak};

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
    /// Expires when the peer disconnects.
    presence: Weak<()>,
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
    /// The first of the blocks, at least one; `None` for a block that is not stored or must not be served. Empty if
    /// the peer had disconnected.
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
    /// `presence` expires when the peer disconnects.
    pub(super) fn new(asked: Asked, v2: bool, buffers: BufferPool, presence: Weak<()>) -> ReadRequest {
        ReadRequest { asked, v2, buffers, presence }
    }

    /// Whether the peer has disconnected, so that the data is not needed.
    fn is_void(&self) -> bool {
        self.presence.strong_count() == 0
    }

    /// Reads, until `READ_BYTES_MAX` are read; no further block once the peer has disconnected.
    pub fn read(&self, chain: &dyn ChainView) -> Served {
        match &self.asked {
            _ if self.is_void() => Served::Blocks(Vec::new()),
            Asked::Blocks(blocks) => Served::Blocks(
                self.read_blocks(blocks, |hash, with_witness, packet| chain.read_block(hash, with_witness, packet)),
            ),
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

    /// `read` is [`ChainView::read_block`].
    fn read_blocks(
        &self,
        blocks: &[Inventory],
        mut read: impl FnMut(&BlockHash, bool, &mut Packet) -> bool,
    ) -> Vec<Option<Payload>> {
        let mut out = Vec::new();
        let mut bytes = 0;
        for block in blocks {
            if bytes >= READ_BYTES_MAX || self.is_void() {
                break;
            }
            let with_witness = matches!(block, Inventory::WitnessBlock(_));
            let mut packet = self.packet();
            let is_there = block.block().is_some_and(|hash| read(&hash, with_witness, &mut packet));
            bytes += if is_there { packet.payload().len() } else { 0 };
            out.push(is_there.then(|| Payload::new(Command::Block, packet, self.v2)).flatten());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_further_block_is_read_for_a_peer_that_disconnected() {
        let blocks = vec![Inventory::WitnessBlock(BlockHash::from_bytes([7; 32])); 5];
        for (row, disconnects_after, want) in [("before the first", 0, 0), ("within the second", 2, 2), ("never", 9, 5)]
        {
            let mut presence = Some(Arc::new(()));
            let weak = presence.as_ref().map(Arc::downgrade).unwrap();
            let request = ReadRequest::new(Asked::Blocks(blocks.clone()), true, BufferPool::default(), weak);
            if disconnects_after == 0 {
                drop(presence.take());
            }
            let mut count = 0;
            let read = request.read_blocks(&blocks, |_, _, packet| {
                packet.payload_mut(100).fill(7);
                count += 1;
                if count == disconnects_after {
                    drop(presence.take());
                }
                true
            });
            assert_eq!((read.len(), count), (want, want), "{row}");
        }
    }
}
