//! What was done to an index and waits for a commit: a block connected or disconnected, and what that changes.

use indexes::coinstats::{BlockStats, Totals};
use indexes::heights::{FilterPos, FilterRow};
use primitives::{BlockHash, Height};
use store::FilePos;

/// A block, as far as the indexes must know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IndexedBlock {
    pub(crate) hash: BlockHash,
    pub(crate) prev: BlockHash,
    pub(crate) height: Height,
    /// Where it lies.
    pub(crate) pos: FilePos,
}

/// A block was connected or disconnected, and what that does to one index.
pub(super) struct Event {
    pub(super) block: IndexedBlock,
    pub(super) is_connected: bool,
    pub(super) payload: Payload,
}

/// What it does.
pub(super) enum Payload {
    /// Places of the transactions; of a block that was disconnected nothing changes.
    Tx(Vec<u64>),
    /// The entries that come or go.
    Spenders(Vec<(u64, u32)>),
    /// The row of the block, and where the next filter goes.
    Filter { row: FilterRow, next: FilterPos },
    /// The block was disconnected.
    FilterOff { next: FilterPos },
    /// What the block does to the UTXO set, and the sums behind it.
    Stats { block: Box<BlockStats>, totals: Box<Totals> },
    /// The row of silent payments of the block.
    Tweaks(Vec<u8>),
    /// The block was disconnected.
    TweaksOff,
}

impl Event {
    /// Where the index stands behind it.
    pub(super) fn stands_at(&self) -> BlockHash {
        if self.is_connected { self.block.hash } else { self.block.prev }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        // What it is sorted in takes as much again, or twice that.
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

/// What is to be committed.
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
