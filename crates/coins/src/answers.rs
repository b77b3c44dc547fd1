//! The results of one block's spends in one shard group.
//!
//! An answer is the spent coin's stored bytes, which are both its undo data and the input of all later rules.

use primitives::coin::SCRIPT_BYTES_MAX;
use sys::spill::{Spill, SpillFiles};

/// Maximum bytes of a coin: answers and records store its length in 16 bits.
pub const COIN_BYTES_MAX: usize = u16::MAX as usize;
const _: () = assert!(SCRIPT_BYTES_MAX + 30 < COIN_BYTES_MAX, "the set has no longer script");

/// Maximum bytes of one block's coins in one shard group that are kept in memory; more are in a file. Most blocks have
/// 10,000.
const IN_MEMORY: usize = 256 << 10;

/// Origin of a spent coin, which decides what a rewind must restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Origin {
    /// Created in the current generation and known to be nowhere else: its record was removed.
    Fresh,
    /// In the current generation, and perhaps also in an older one or a table: its record became a tombstone.
    Current,
    /// In an older generation: a tombstone was added to the current one.
    Older,
    /// Not in memory: a tombstone was added, and the tables must be read.
    Tables,
    /// Already spent, according to a tombstone in memory: nothing was changed.
    Missing,
}

/// One answer; its bytes are stored with those of its shard group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    start: u32,
    bytes: u16,
    origin: Origin,
}

/// The answers of one block in one shard group, in the order of its spends.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    answers: Vec<Answer>,
    bytes: Spill<IN_MEMORY>,
    /// Spends that memory could not answer: ordinal and input index.
    misses: Vec<(u32, u32)>,
}

impl Answers {
    /// Capacity for `spends` answers; the bytes of many coins go to a file of `spill`.
    pub fn with_capacity(spends: usize, spill: &SpillFiles) -> Answers {
        let bytes = spill.with_capacity((spends * 36).min(IN_MEMORY));
        Answers { answers: Vec::with_capacity(spends), bytes, misses: Vec::new() }
    }

    #[inline]
    pub(crate) fn push_found(&mut self, origin: Origin, coin: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(coin);
        self.answers.push(Answer { start, bytes: coin.len() as u16, origin });
    }

    #[inline]
    pub(crate) fn push_missing(&mut self) {
        self.answers.push(Answer { start: 0, bytes: 0, origin: Origin::Missing });
    }

    #[inline]
    pub(crate) fn push_miss(&mut self, input: u32) {
        self.misses.push((self.answers.len() as u32, input));
        self.answers.push(Answer { start: 0, bytes: 0, origin: Origin::Tables });
    }

    /// The coin of the spend with this ordinal; `None` if it is missing or not found yet.
    #[inline]
    pub fn coin(&self, ordinal: usize) -> Option<&[u8]> {
        let answer = self.answers[ordinal];
        if answer.bytes == 0 {
            return None; // Every coin has at least one byte.
        }
        Some(&self.bytes[answer.start as usize..][..usize::from(answer.bytes)])
    }

    /// The coin's origin.
    #[inline]
    pub fn origin(&self, ordinal: usize) -> Origin {
        self.answers[ordinal].origin
    }

    /// Spends to look up in the tables: ordinal, and index of the input in the block.
    #[inline]
    pub fn misses(&self) -> &[(u32, u32)] {
        &self.misses
    }

    /// Stores the coin found in the tables for a spend that memory missed. It has at most [`COIN_BYTES_MAX`].
    pub fn fill(&mut self, ordinal: usize, coin: &[u8]) {
        debug_assert_eq!(self.answers[ordinal].origin, Origin::Tables);
        debug_assert!(coin.len() <= COIN_BYTES_MAX);
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(coin);
        self.answers[ordinal] = Answer { start, bytes: coin.len() as u16, origin: Origin::Tables };
    }

    /// Number of answers.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether the block spends nothing in this shard group.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Bytes of the answers, in memory or in a file.
    pub fn memory_bytes(&self) -> usize {
        self.answers.capacity() * size_of::<Answer>() + self.bytes.capacity() + self.misses.capacity() * 8
    }
}
