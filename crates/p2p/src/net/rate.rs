//! Limit of the bytes read from all sockets together: a token bucket (Turner 1986).
//!
//! Unread bytes wait in the system's buffers, and then at the peers: TCP slows them down.
//!
//! The sockets take turns (round robin), and no read takes more than its share of the bucket: otherwise a peer that
//! always has something to read would leave nothing to the others.

use crate::api::PeerId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Capacity of the bucket, as a time at the limit.
const BURST: Duration = Duration::from_millis(250);
/// Minimum capacity, so that a slow line is read in pieces of a useful size.
const BURST_BYTES_MIN: f64 = 16.0 * 1024.0;

/// Minimum bytes of a read.
const PIECE_BYTES_MIN: f64 = 2048.0;

/// Bytes a second while the download is paused: pings, headers and the rest of a block in transfer. TCP announces
/// free buffer space to a peer in steps of up to 64 KiB: such a step then arrives at once, and nothing for half a
/// minute.
const PAUSED_BYTES_PER_S: f64 = 2.0 * 1024.0;

/// The token bucket.
#[derive(Debug)]
pub(super) struct RateLimit {
    bytes_per_s: Option<f64>,
    is_paused: Arc<AtomicBool>,
    tokens: f64,
    at: Duration,
}

impl RateLimit {
    /// Whether the user paused the download.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// A limit of `bytes_per_s`; `None`: no limit. While `is_paused` is set, hardly anything may be read.
    pub(super) fn new(bytes_per_s: Option<u64>, is_paused: Arc<AtomicBool>) -> RateLimit {
        let bytes_per_s = bytes_per_s.map(|rate| rate.max(1) as f64);
        RateLimit { bytes_per_s, is_paused, tokens: 0.0, at: Duration::ZERO }
    }

    fn rate(&self) -> Option<f64> {
        if !self.is_paused.load(Relaxed) {
            return self.bytes_per_s;
        }
        Some(self.bytes_per_s.map_or(PAUSED_BYTES_PER_S, |rate| rate.min(PAUSED_BYTES_PER_S)))
    }

    /// Bytes that may be read now, `now` after the start.
    pub(super) fn available(&mut self, now: Duration) -> usize {
        let Some(rate) = self.rate() else { return usize::MAX };
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = now;
        let most = (rate * BURST.as_secs_f64()).max(BURST_BYTES_MIN);
        self.tokens = (self.tokens + rate * passed).min(most);
        if self.tokens < PIECE_BYTES_MIN { 0 } else { self.tokens as usize }
    }

    /// Maximum bytes of one read, if this number of sockets is ready.
    pub(super) fn share(&mut self, ready_count: usize, now: Duration) -> usize {
        (self.available(now) / ready_count.max(1)).max(PIECE_BYTES_MIN as usize)
    }

    /// Records that bytes were read.
    pub(super) fn took(&mut self, bytes: usize) {
        if self.rate().is_some() {
            self.tokens -= bytes as f64;
        }
    }
}

/// The order in which sockets are read.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The last socket that was read.
    last: Option<PeerId>,
}

impl Turns {
    /// Orders the sockets that are ready, lowest id first: those after the last one that was read have their turn.
    pub(super) fn order(&self, ready: &mut [PeerId]) {
        let next = ready.partition_point(|id| Some(*id) <= self.last);
        ready.rotate_left(next);
    }

    /// Records that a socket had its turn.
    pub(super) fn had(&mut self, id: PeerId) {
        self.last = Some(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Two peers that send as fast as we read, and one with 1,000 bytes each second.
    #[test]
    fn peers_that_always_send_leave_each_other_the_same_share() {
        for rate in [10_000, 1_000_000] {
            let mut limit = RateLimit::new(Some(rate), Arc::default());
            let mut turns = Turns::default();
            let mut read: BTreeMap<PeerId, usize> = BTreeMap::new();
            for ms in 0..60_000_u64 {
                let now = Duration::from_millis(ms);
                if limit.available(now) == 0 {
                    continue;
                }
                let small = PeerId(9);
                let waits = |id: PeerId, read: &BTreeMap<PeerId, usize>| match read.get(&id).copied().unwrap_or(0) {
                    bytes if id == small => usize::try_from(ms).unwrap().saturating_sub(bytes),
                    _ => usize::MAX,
                };
                let mut ready: Vec<_> =
                    [PeerId(1), PeerId(5), small].into_iter().filter(|id| waits(*id, &read) > 0).collect();
                turns.order(&mut ready);
                let share = limit.share(ready.len(), now);
                for id in ready {
                    let bytes = share.min(limit.available(now)).min(waits(id, &read));
                    if bytes > 0 {
                        turns.had(id);
                        limit.took(bytes);
                        *read.entry(id).or_default() += bytes;
                    }
                }
            }
            let [low, high, small] = [1, 5, 9].map(|id| read[&PeerId(id)]);
            assert!(low.abs_diff(high) < low / 10, "{rate}: {low} and {high} bytes");
            assert!(small > 57_000, "{rate}: {small} of 60,000 bytes");
        }
    }

    #[test]
    fn turns_go_round() {
        let mut turns = Turns::default();
        for (last, want) in [(None, [1, 4, 7]), (Some(1), [4, 7, 1]), (Some(5), [7, 1, 4]), (Some(7), [1, 4, 7])] {
            last.into_iter().for_each(|id| turns.had(PeerId(id)));
            let mut ready = [1, 4, 7].map(PeerId);
            turns.order(&mut ready);
            assert_eq!(ready, want.map(PeerId), "{last:?}");
        }
    }

    #[test]
    fn a_limited_line_keeps_to_its_rate() {
        let mut limit = RateLimit::new(Some(1_000_000), Arc::default());
        let mut read = 0;
        for tick in 0..1000 {
            let bytes = limit.available(Duration::from_millis(10 * tick)).min(40_000);
            limit.took(bytes);
            read += bytes;
        }
        assert!((9_900_000..10_300_000).contains(&read), "{read} bytes in 10 s");
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut limit = RateLimit::new(Some(1_000_000), Arc::default());
        assert_eq!(limit.available(Duration::from_secs(60)), 250_000);
        limit.took(250_000);
        assert_eq!(limit.available(Duration::from_secs(60)), 0);
        assert_eq!(
            RateLimit::new(Some(10), Arc::default()).available(Duration::from_secs(3600)),
            16 * 1024,
            "the least piece"
        );
    }

    #[test]
    fn without_a_limit_everything_may_be_read() {
        let mut limit = RateLimit::new(None, Arc::default());
        limit.took(1 << 40);
        assert_eq!(limit.available(Duration::ZERO), usize::MAX);
    }

    #[test]
    fn while_paused_hardly_anything_is_read() {
        let paused = Arc::new(AtomicBool::new(true));
        let mut limit = RateLimit::new(None, paused.clone());
        let mut read = 0;
        for tick in 0..100 {
            let bytes = limit.available(Duration::from_millis(100 * tick)).min(40_000);
            limit.took(bytes);
            read += bytes;
        }
        assert!((15_000..40_000).contains(&read), "{read} bytes in 10 s");
        paused.store(false, Relaxed);
        assert_eq!(limit.available(Duration::from_secs(11)), usize::MAX);
    }
}
