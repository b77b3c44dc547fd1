//! Ideas that can be off for a whole run, so that what each of them gives can be measured: the plain way does its work then.
//!
//! All are on unless [`turn_off`] was called, once and before any work. The results are the same either way.
//!
//! Absent on purpose: how each idea's plain way works. That stands where the idea does.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// An idea, named after what does not happen without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idea {
    /// Neighbouring blocks are read from their file in one go. Without: block by block, 4 KiB at a time, as through stdio.
    BulkReads,
    /// Obfuscation is undone 8 to 256 bytes at a time. Without: byte by byte.
    WideXor,
    /// All misses of a block are looked up in the tables as one sorted batch. Without: one coin after the other.
    BatchLookUps,
    /// Coins lie in the records of the hash table. Without: each in an allocation of its own.
    PackedCoins,
    /// A generation is sorted and written as a run. Without: each record goes through an ordered map first, as through a memtable.
    SortedRuns,
    /// Cache lines are asked for before they are needed. Without: when they are.
    Prefetch,
    /// Large tables lie in pages of 2 MiB. Without: of 4 KiB.
    HugePages,
    /// Ids, merkle trees, header hashes and what signatures sign are computed in vector lanes. Without: one message at a
    /// time, in portable code.
    HashLanes,
    /// Signatures are proven in vector lanes. Without: one at a time, by libsecp256k1.
    SignatureLanes,
    /// Schnorr signatures and tweaks are proven by one sum for many of them. Without: each by its own, in the same lanes.
    SignatureSums,
    /// Several blocks are in flight. Without: one is connected before the next one begins.
    LookAhead,
    /// Blocks go on while a generation is written. Without: they wait until it is durable.
    BackgroundCommits,
}

impl Idea {
    /// All of them, from the disk up.
    pub const ALL: [Idea; 12] = [
        Idea::BulkReads,
        Idea::WideXor,
        Idea::HashLanes,
        Idea::PackedCoins,
        Idea::HugePages,
        Idea::Prefetch,
        Idea::BatchLookUps,
        Idea::SortedRuns,
        Idea::SignatureLanes,
        Idea::SignatureSums,
        Idea::LookAhead,
        Idea::BackgroundCommits,
    ];

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Idea::BulkReads => "bulk-reads",
            Idea::WideXor => "wide-xor",
            Idea::BatchLookUps => "batch-look-ups",
            Idea::PackedCoins => "packed-coins",
            Idea::SortedRuns => "sorted-runs",
            Idea::Prefetch => "prefetch",
            Idea::HugePages => "huge-pages",
            Idea::HashLanes => "hash-lanes",
            Idea::SignatureLanes => "signature-lanes",
            Idea::SignatureSums => "signature-sums",
            Idea::LookAhead => "look-ahead",
            Idea::BackgroundCommits => "background-commits",
        }
    }

    /// The idea of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Idea> {
        Idea::ALL.into_iter().find(|idea| idea.name() == name)
    }

    /// Whether it is in use.
    #[inline(always)]
    #[must_use]
    pub fn is_on(self) -> bool {
        OFF.load(Relaxed) & self.bit() == 0
    }

    #[inline(always)]
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The bits of those that are off.
static OFF: AtomicU32 = AtomicU32::new(0);

/// Leaves these out for the rest of the program's life. What was made before, and kernels that were chosen, stay as they are.
pub fn turn_off(ideas: &[Idea]) {
    OFF.fetch_or(ideas.iter().fold(0, |bits, idea| bits | idea.bit()), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_back_and_bits_are_apart() {
        let mut bits = 0;
        for idea in Idea::ALL {
            assert_eq!(Idea::from_name(idea.name()), Some(idea));
            assert_eq!(bits & idea.bit(), 0, "{idea:?}");
            bits |= idea.bit();
        }
        assert_eq!(bits.count_ones() as usize, Idea::ALL.len());
        assert_eq!(Idea::from_name("patience"), None);
    }
}
