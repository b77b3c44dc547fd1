//! Events of an index that wait for a commit: a block was connected or disconnected, with the resulting changes.

use indexes::coinstats::{BlockStats, Totals};
use indexes::heights::{FilterPos, FilterRow};
use primitives::{BlockHash, Height};
use store::FilePos;

/// The data of a block that indexes need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexedBlock {
    pub(crate) hash: BlockHash,
    pub(crate) prev: BlockHash,
    pub(crate) height: Height,
    /// Position of the block.
    pub(crate) pos: FilePos,
}

/// A block was connected or disconnected, with the changes to one index.
pub(super) struct Event {
    pub(super) block: IndexedBlock,
    pub(super) is_connected: bool,
    pub(super) payload: Payload,
}

/// The changes.
pub(super) enum Payload {
    /// Places of the transactions; empty for a disconnected block, which changes nothing.
    Tx(Vec<u64>),
    /// The entries that are added or deleted.
    Spenders(Vec<(u64, u32)>),
    /// The row of the block, and the position of the next filter.
    Filter { row: FilterRow, next: FilterPos },
    /// The block was disconnected.
    FilterOff { next: FilterPos },
    /// The block's changes to the UTXO set, and the totals after it.
    Stats { block: Box<BlockStats>, totals: Box<Totals> },
    /// The silent payments row of the block.
    Tweaks(Vec<u8>),
    /// The block was disconnected.
    TweaksOff,
}

impl Event {
    /// The best block of the index after this event.
    pub(super) fn stands_at(&self) -> BlockHash {
        if self.is_connected { self.block.hash } else { self.block.prev }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // Sorting needs this memory once more, or twice more.
        size_of::<Event>()
            + match &self.payload {
                Payload::Tx(places) => places.len() * (size_of::<u64>() + 16),
                Payload::Spenders(entries) => entries.len() * (size_of::<(u64, u32)>() + 24),
                Payload::Filter { .. } | Payload::FilterOff { .. } => 256,
                Payload::Tweaks(row) => row.capacity() + 256,
                Payload::TweaksOff => 256,
                Payload::Stats { .. } => size_of::<BlockStats>() + size_of::<Totals>() + 1024,
            }
    }
}

/// The events to commit.
pub(super) struct Due {
    pub(super) events: Vec<Event>,
}

impl Due {
    pub(super) fn new(events: Vec<Event>) -> Due {
        Due { events }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.events.iter().map(Event::memory_bytes).sum()
    }
}
