//! Optimizations that a job can disable, to measure the effect of each: the plain implementation is used instead.
//!
//! The results are the same either way. Compiled only with the feature `ablation`; a set of ideas is part of
//! [`crate::Kernels`].
//!
//! Absent on purpose: the plain implementation of each idea. It is next to the fast one, with the same feature.

/// An optimization, and what happens without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idea {
    /// Neighbouring blocks are read from their file in one go. Without: 4 KiB at a time, as through stdio.
    BulkReads,
    /// Obfuscation is undone 8 to 256 bytes at a time. Without: byte by byte.
    WideXor,
    /// All misses of a block are looked up in the tables as one sorted batch. Without: coin by coin.
    BatchLookUps,
    /// Coins are stored in the records of the hash table. Without: each in a separate allocation.
    PackedCoins,
    /// A generation is sorted and written as a run. Without: each record goes through an ordered map first, as through
    /// a memtable.
    SortedRuns,
    /// Cache lines of tables are prefetched. Without: they are loaded when needed.
    Prefetch,
    /// Large tables use pages of 2 MiB. Without: of 4 KiB.
    HugePages,
    /// Ids, merkle trees, header hashes and signature hashes are computed in vector lanes. Without: one message at a
    /// time, in portable code.
    HashLanes,
    /// Signatures are proven in vector lanes. Without: one at a time, by libsecp256k1.
    SignatureLanes,
    /// Schnorr signatures and tweaks are proven by one sum for many of them. Without: each separately, in the same
    /// lanes.
    SignatureSums,
    /// Several blocks are in flight. Without: one is connected before the next one begins.
    LookAhead,
    /// Blocks continue while a generation is written. Without: they wait until it is durable.
    BackgroundCommits,
}

impl Idea {
    /// All ideas, from the disk up.
    pub const ALL: [Self; 12] = [
        Self::BulkReads,
        Self::WideXor,
        Self::HashLanes,
        Self::PackedCoins,
        Self::HugePages,
        Self::Prefetch,
        Self::BatchLookUps,
        Self::SortedRuns,
        Self::SignatureLanes,
        Self::SignatureSums,
        Self::LookAhead,
        Self::BackgroundCommits,
    ];

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BulkReads => "bulk-reads",
            Self::WideXor => "wide-xor",
            Self::BatchLookUps => "batch-look-ups",
            Self::PackedCoins => "packed-coins",
            Self::SortedRuns => "sorted-runs",
            Self::Prefetch => "prefetch",
            Self::HugePages => "huge-pages",
            Self::HashLanes => "hash-lanes",
            Self::SignatureLanes => "signature-lanes",
            Self::SignatureSums => "signature-sums",
            Self::LookAhead => "look-ahead",
            Self::BackgroundCommits => "background-commits",
        }
    }

    /// The idea with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|idea| idea.name() == name)
    }
}

/// A set of ideas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ideas(u16);

impl Ideas {
    /// The empty set.
    pub(crate) const NONE: Ideas = Ideas(0);

    /// This set and the given ideas.
    pub(crate) fn and(self, ideas: &[Idea]) -> Ideas {
        Ideas(ideas.iter().fold(self.0, |bits, idea| bits | bit(*idea)))
    }

    /// Whether `idea` is in the set.
    #[inline(always)]
    pub(crate) fn has(self, idea: Idea) -> bool {
        self.0 & bit(idea) != 0
    }
}

#[inline(always)]
const fn bit(idea: Idea) -> u16 {
    1 << idea as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_back_and_bits_are_apart() {
        let mut all = Ideas::NONE;
        for idea in Idea::ALL {
            assert_eq!(Idea::from_name(idea.name()), Some(idea));
            assert!(!all.has(idea), "{idea:?}");
            all = all.and(&[idea]);
            assert!(all.has(idea));
        }
        assert_eq!(all, Ideas::NONE.and(&Idea::ALL));
        assert_eq!(Idea::from_name("patience"), None);
    }
}
