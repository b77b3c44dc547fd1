//! Adaptive read-ahead: whether the look-ups of a batch request their blocks from the disk before they read them.
//!
//! A read of a page that is not in memory blocks, one page after another, although the disk could serve many at once.
//! So when batches meet such pages, the blocks of all keys are requested before the first is read, by a thread that may
//! wait for them ([`crate::Snapshot::read_ahead`]). Requesting blocks that are in memory costs more than reading them.
//! So if the last batches with read-ahead found everything in memory, the first keys of a batch are tried without it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Batches with fewer keys are not probed for pages that are not in memory.
pub(crate) const PROBE_MIN: usize = 16;
/// Major faults among the first keys of a batch that switch read-ahead on.
pub(crate) const FAULTS_MIN: u64 = 2;
/// Batches that find everything in memory before read-ahead is switched off.
pub(crate) const READ_AHEAD_BATCHES: u32 = 64;

/// The remaining number of batches to read ahead.
#[derive(Debug)]
pub(crate) struct AdaptiveReadAhead(AtomicU32);

impl Default for AdaptiveReadAhead {
    /// A database that was just opened may be in memory or not: the first batches read ahead.
    fn default() -> AdaptiveReadAhead {
        AdaptiveReadAhead(AtomicU32::new(READ_AHEAD_BATCHES))
    }
}

impl AdaptiveReadAhead {
    /// Whether to read ahead for this batch; each call counts as a batch.
    pub(crate) fn is_on(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Reports the number of major faults among the first keys of a batch; returns whether to read ahead for the rest.
    pub(crate) fn note_faults(&self, faults: u64) -> bool {
        let is_slow = faults >= FAULTS_MIN;
        if is_slow {
            self.0.store(READ_AHEAD_BATCHES, Relaxed);
        }
        is_slow
    }

    /// Reports the number of blocks that a batch had to wait for.
    pub(crate) fn note_missing(&self, blocks: usize) {
        if blocks > 0 {
            self.0.store(READ_AHEAD_BATCHES, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_after_enough_faults_is_on_for_the_stated_batches() {
        let read_ahead = AdaptiveReadAhead::default();
        assert_eq!((0..2 * READ_AHEAD_BATCHES).filter(|_| read_ahead.is_on()).count(), READ_AHEAD_BATCHES as usize);
        assert!(!read_ahead.is_on() && !read_ahead.note_faults(FAULTS_MIN - 1) && !read_ahead.is_on());
        read_ahead.note_missing(0);
        assert!(!read_ahead.is_on());
        read_ahead.note_missing(1);
        assert!(read_ahead.is_on());
        assert!(read_ahead.note_faults(FAULTS_MIN));
        assert_eq!((0..2 * READ_AHEAD_BATCHES).filter(|_| read_ahead.is_on()).count(), READ_AHEAD_BATCHES as usize);
    }
}
