//! Messages of a peer that its connection does not handle itself.

use crate::transport::Received;
use crate::utxo_sets::{ChunkTree, SetRequest};
use crate::wire::{AddressEntry, FilterRange, Inventory};
use primitives::{BlockHash, Header};

/// Input for other parts: messages that the connection does not handle itself.
#[derive(Debug)]
pub enum Input {
    /// The handshake is done.
    Ready,
    /// `headers`
    Headers(Vec<Header>),
    /// `block`
    Block(Received),
    /// `getheaders`
    GetHeaders(Vec<BlockHash>, BlockHash),
    /// `getblocks`
    GetBlocks(Vec<BlockHash>, BlockHash),
    /// `inv`.
    Inv(Vec<Inventory>),
    /// `getdata`: the blocks in it; its other entries are answered already.
    GetData(Vec<Inventory>),
    /// `notfound`
    NotFound(Vec<Inventory>),
    /// `addr` or `addrv2`.
    Addresses(Vec<AddressEntry>),
    /// `getaddr`, the first from an inbound peer.
    GetAddr,
    /// `getcfilters`
    GetFilters(FilterRange),
    /// `getcfheaders`
    GetFilterHashes(FilterRange),
    /// `getcfcheckpt`
    GetFilterCheckpoints(u8, BlockHash),
    /// `getutxotree` or `getutxoset`
    GetSet(SetRequest),
    /// `utxotree`
    SetTree(BlockHash, ChunkTree),
    /// `utxoset`
    SetChunk(Received),
    /// `ping`
    Ping(u64),
    /// A message that the connection handled itself.
    Answered,
}
