//! How much may be uploaded in a day (`-maxuploadtarget`): near it no old blocks are given, so that the rest is for new ones.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `CConnman::OutboundTargetReached`, `RecordBytesSent`; net_processing.cpp,
//! `ProcessGetBlockData`.

use std::time::Duration;

/// Time of one cycle. Source: Core's `MAX_UPLOAD_TIMEFRAME`.
pub const CYCLE: Duration = Duration::from_secs(24 * 3600);
/// A block is old that is that much older than the best header. Source: Core's `HISTORICAL_BLOCK_AGE`.
pub const OLD_BLOCK_S: u32 = 7 * 24 * 3600;
/// Time between blocks, and bytes of the largest: what is kept for each that may still come in the cycle.
const BLOCK_INTERVAL: Duration = Duration::from_secs(600);
const BLOCK_BYTES_MAX: u64 = 4_000_000;

/// The limit, and what was sent of it.
#[derive(Clone, Debug, Default)]
pub struct UploadTarget {
    /// Bytes of a cycle; 0: any number.
    limit: u64,
    /// When the cycle began, since the start; none before the first byte.
    began_at: Option<Duration>,
    /// Bytes that were sent in it.
    bytes: u64,
    /// When that was last looked at.
    now: Duration,
}

/// Where an upload target stands, for people. Source: Core's `getnettotals`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadState {
    /// Bytes of a cycle; 0: any number.
    pub target: u64,
    /// Nothing is left of it.
    pub is_reached: bool,
    /// Old blocks are given.
    pub serves_old_blocks: bool,
    /// What is left of the target.
    pub bytes_left: u64,
    /// What is left of the cycle, in seconds.
    pub seconds_left: u64,
}

impl UploadTarget {
    /// A target of `limit` bytes in each cycle; 0: none.
    pub fn new(limit: u64) -> UploadTarget {
        UploadTarget { limit, ..UploadTarget::default() }
    }

    /// Bytes were sent. Times are since the start.
    pub fn sent(&mut self, bytes: usize, now: Duration) {
        self.now = now;
        if self.began_at.is_none_or(|began| began + CYCLE < now) {
            self.began_at = Some(now);
            self.bytes = 0;
        }
        self.bytes += bytes as u64;
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
    }

    /// What is left of the cycle; a whole one before the first byte.
    fn left(&self) -> Duration {
        if self.limit == 0 {
            return Duration::ZERO;
        }
        self.began_at.map_or(CYCLE, |began| (began + CYCLE).saturating_sub(self.now))
    }

    /// Whether the cycle is over, and nothing was sent since.
    fn is_over(&self) -> bool {
        self.began_at.is_some_and(|began| began + CYCLE < self.now)
    }

    fn sent_bytes(&self) -> u64 {
        if self.is_over() { 0 } else { self.bytes }
    }

    /// Whether nothing is left.
    pub fn is_reached(&self) -> bool {
        self.limit != 0 && self.sent_bytes() >= self.limit
    }

    /// Whether what is left is for the new blocks of this cycle.
    pub fn is_reached_for_old_blocks(&self) -> bool {
        let left = if self.is_over() { CYCLE } else { self.left() };
        let kept = left.as_secs() / BLOCK_INTERVAL.as_secs() * BLOCK_BYTES_MAX;
        self.limit != 0 && (kept >= self.limit || self.sent_bytes() >= self.limit - kept)
    }

    /// All that there is to say of it.
    pub fn state(&self) -> UploadState {
        UploadState {
            target: self.limit,
            is_reached: self.is_reached(),
            serves_old_blocks: !self.is_reached_for_old_blocks(),
            bytes_left: self.limit.saturating_sub(self.sent_bytes()),
            seconds_left: self.left().as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(hours: u64) -> Duration {
        Duration::from_secs(hours * 3600)
    }

    #[test]
    fn old_blocks_end_before_the_target_and_a_day_later_all_begins_again() {
        let mut none = UploadTarget::new(0);
        none.sent(usize::MAX >> 1, at(1));
        assert!(!none.is_reached() && !none.is_reached_for_old_blocks());
        assert_eq!((none.state().seconds_left, none.state().bytes_left), (0, 0));

        // Core's feature_maxuploadtarget: of 800 MiB, 144 blocks of 4 MB are kept for a day.
        let mut target = UploadTarget::new(800 * MIB);
        assert!(!target.is_reached_for_old_blocks());
        target.sent((800 * MIB - 576_000_000) as usize - 1, at(0));
        assert!(!target.is_reached_for_old_blocks());
        target.sent(1, at(0));
        assert!(target.is_reached_for_old_blocks() && !target.is_reached());
        target.tick(at(12));
        assert!(!target.is_reached_for_old_blocks(), "half of the day is over, and half of what is kept is free");
        target.sent(576_000_000, at(12));
        assert!(target.is_reached() && target.is_reached_for_old_blocks());
        assert_eq!((target.state().bytes_left, target.state().seconds_left), (0, 12 * 3600));
        target.tick(at(25));
        assert!(!target.is_reached() && !target.is_reached_for_old_blocks());
        target.sent(5, at(25));
        assert_eq!(target.state().bytes_left, 800 * MIB - 5);

        let small = UploadTarget::new(MIB);
        assert!(small.is_reached_for_old_blocks() && !small.is_reached(), "too little for any old block");
    }
}
