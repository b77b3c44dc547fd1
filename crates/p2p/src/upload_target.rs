//! Daily upload limit (`-maxuploadtarget`): near it no old blocks are served, so that the rest is available for new
//! ones.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `CConnman::OutboundTargetReached`, `RecordBytesSent`; net_processing.cpp,
//! `ProcessGetBlockData`.

use std::time::Duration;

/// Length of a cycle. Source: Core's `MAX_UPLOAD_TIMEFRAME`.
pub const CYCLE: Duration = Duration::from_secs(24 * 3600);
/// Age in seconds, relative to the best header, from which on a block is old. Source: Core's `HISTORICAL_BLOCK_AGE`.
pub const OLD_BLOCK_S: u32 = 7 * 24 * 3600;
/// Time between blocks, and maximum size of a block: reserved for each that may still arrive in the cycle.
const BLOCK_INTERVAL: Duration = Duration::from_secs(600);
const BLOCK_BYTES_MAX: u64 = 4_000_000;

/// The limit, and the bytes sent in the cycle.
#[derive(Clone, Debug, Default)]
pub struct UploadTarget {
    /// Bytes of a cycle; 0: no limit.
    limit: u64,
    /// Start of the cycle; `None` before the first byte.
    began_at: Option<Duration>,
    /// Bytes sent in the cycle.
    bytes: u64,
    /// Time of the last update.
    now: Duration,
}

/// State of an upload target, for reports. Source: Core's `getnettotals`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadState {
    /// Bytes of a cycle; 0: no limit.
    pub target: u64,
    /// The limit is reached.
    pub is_reached: bool,
    /// Old blocks are served.
    pub serves_old_blocks: bool,
    /// Bytes left in the cycle.
    pub bytes_left: u64,
    /// Seconds left in the cycle.
    pub seconds_left: u64,
}

impl UploadTarget {
    /// A target of `limit` bytes in each cycle; 0: no limit.
    pub fn new(limit: u64) -> UploadTarget {
        UploadTarget { limit, ..UploadTarget::default() }
    }

    /// Records sent bytes. Times are since the start.
    pub fn sent(&mut self, bytes: usize, now: Duration) {
        self.now = now;
        if self.began_at.is_none_or(|began| began + CYCLE < now) {
            self.began_at = Some(now);
            self.bytes = 0;
        }
        self.bytes += bytes as u64;
    }

    /// Updates the time.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
    }

    /// Time left in the cycle; a whole cycle before the first byte.
    fn left(&self) -> Duration {
        if self.limit == 0 {
            return Duration::ZERO;
        }
        self.began_at.map_or(CYCLE, |began| (began + CYCLE).saturating_sub(self.now))
    }

    /// Whether the cycle is over, and nothing was sent since then.
    fn is_over(&self) -> bool {
        self.began_at.is_some_and(|began| began + CYCLE < self.now)
    }

    fn sent_bytes(&self) -> u64 {
        if self.is_over() { 0 } else { self.bytes }
    }

    /// Whether the limit is reached.
    pub fn is_reached(&self) -> bool {
        self.limit != 0 && self.sent_bytes() >= self.limit
    }

    /// Whether the rest of the limit is reserved for the new blocks of this cycle.
    pub fn is_reached_for_old_blocks(&self) -> bool {
        self.is_reached_after(0)
    }

    /// Whether the rest is reserved after `bytes` more are sent.
    pub fn is_reached_after(&self, bytes: usize) -> bool {
        let left = if self.is_over() { CYCLE } else { self.left() };
        let kept = left.as_secs() / BLOCK_INTERVAL.as_secs() * BLOCK_BYTES_MAX;
        let sent = self.sent_bytes().saturating_add(bytes as u64);
        self.limit != 0 && (kept >= self.limit || sent >= self.limit - kept)
    }

    /// Its state, for reports.
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
        assert!(!target.is_reached_after(0) && target.is_reached_after(1), "bytes that wait to be sent count");
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
