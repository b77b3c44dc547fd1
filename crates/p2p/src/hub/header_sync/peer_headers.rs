//! State of one peer's header chain, and of the requests for it.
//!
//! Absent on purpose: when a peer is asked, and the validity of its headers (the module above).

use crate::chain::HeaderInfo;
use crate::lag::Lag;
use crate::low_work::{LowWorkSync, Phase};
use crate::time::Now;
use primitives::{BlockHash, Height, Work};
use std::time::Duration;

/// State of one peer's header chain, and of the requests for it.
#[derive(Debug, Default)]
pub(super) struct PeerHeaders {
    /// The best block that the peer is known to have.
    pub(super) best_known: Option<HeaderInfo>,
    /// Time of the outstanding request.
    pub(super) asked_at: Option<Duration>,
    /// Bytes received from the peer at that time.
    pub(super) asked_bytes: u64,
    /// Whether it was ever asked.
    pub(super) started: bool,
    /// Whether its last answer was the end of its chain.
    pub(super) at_end: bool,
    /// It has more headers, and waits for its turn.
    pub(super) deferred: bool,
    /// It did not answer: it is not asked before this time.
    pub(super) skipped_until: Option<Duration>,
    /// It was too slow, or contradicted itself: before this time its headers start no low-work sync.
    pub(super) backoff_until: Option<Duration>,
    /// Since when it has been asked continuously for parts of its chain.
    pub(super) stream_since: Option<Duration>,
    pub(super) low_work: Option<Box<LowWorkSync>>,
    pub(super) unconnected_count: u32,
    /// Greatest work of the headers that it sent.
    furthest: Work,
    /// Number of full messages without more work since then, and when the first of them arrived.
    stale_count: u32,
    stale_since: Option<Duration>,
    /// The last block it announced that is not in the tree.
    pub(super) unknown: Option<BlockHash>,
    /// Whether it answered with a headers message, even an empty one.
    pub(super) is_heard: bool,
    /// Whether it was asked once for headers that we have, because it is behind.
    pub(super) is_asked_below: bool,
    /// Height and work of the end of its chain, if that has too little work to be stored.
    pub(super) short: Option<(Height, Work)>,
    /// Whether its chain, as last sent, ends with headers too far ahead of the clock.
    pub(super) too_new: bool,
    /// Its low-work sync met such a header, and begins again at this time of the clock: seconds since 1970.
    pub(super) too_new_until: Option<u64>,
    /// The last look at the pace of its stream, see [`PeerHeaders::look_at_pace`].
    pace: Option<Pace>,
    /// When it last announced a new block with more work than our tip had.
    pub(super) announced_at: Option<Duration>,
    /// Whether its chain keeps up with ours.
    pub(super) lag: Lag,
}

/// Maximum number of full headers messages without more work before the peer is disconnected: a million headers, as
/// many as an honest peer may have to send again after a reorganisation.
const STALE_COUNT_MAX: u32 = 500;
/// Time to wait for such a peer before header sync ends.
const STALE_PATIENCE: Duration = Duration::from_secs(60);
/// After this many such messages another peer is asked as well.
const STALE_COUNT_ADVANCING: u32 = 4;
/// The stream that is furthest goes on while it is fast enough to end within this time. With less, streams that share a
/// slow line would be ended; with more, a bad peer could delay the others for longer.
const STREAM_PATIENCE: Duration = Duration::from_secs(6 * 3600);
/// Another peer is asked as well if an answer arrives slower than this, in bytes a second,
const ADVANCING_RATE_MIN: f64 = 1000.0;
/// after this time.
const ADVANCING_AFTER: Duration = Duration::from_secs(5);

/// Interval in which the progress of a stream is measured.
const PACE_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// A look at the pace of a stream.
#[derive(Clone, Copy, Debug)]
struct Pace {
    at: Duration,
    /// Headers that it had sent by then.
    count: u32,
    /// Whether it kept the pace in the interval before.
    is_kept: bool,
}

impl PeerHeaders {
    /// Measures the pace of its stream, if it has one; `pace_count`: headers that it must send in [`PACE_INTERVAL`].
    pub(super) fn look_at_pace(&mut self, pace_count: u32, now: Duration) {
        if !self.is_streaming() {
            self.pace = None;
            return;
        }
        let presynced = self.low_work.as_ref().map_or(Height::GENESIS, |sync| sync.height());
        let redownloaded = self.low_work.as_ref().filter(|sync| sync.phase() == Phase::Redownload);
        let redownloaded = redownloaded.map(|sync| sync.redownload_height());
        let stored = redownloaded.or(self.best_known.map(|best| best.height)).unwrap_or(Height::GENESIS);
        let count = presynced.to_u32().saturating_add(stored.to_u32());
        match self.pace {
            Some(last) if now.saturating_sub(last.at) < PACE_INTERVAL => {}
            // Its low-work sync ended: it goes on with fewer, each of which counts once.
            Some(last) if count >= last.count => {
                let is_kept = count.saturating_sub(last.count) >= pace_count;
                self.pace = Some(Pace { at: now, count, is_kept });
            }
            _ => self.pace = Some(Pace { at: now, count, is_kept: true }),
        }
    }

    /// Whether its stream keeps the pace at which it ends in [`STREAM_PATIENCE`].
    pub(super) fn keeps_pace(&self) -> bool {
        self.pace.is_none_or(|pace| pace.is_kept)
    }

    /// Minimum number of headers in [`PACE_INTERVAL`] that keeps the pace, if `missing` are left. In a low-work sync each
    /// header is sent twice.
    pub(super) fn pace_count(&self, missing: u64) -> u32 {
        let times = if self.low_work.is_some() { 2 } else { 1 };
        let count = times * missing * PACE_INTERVAL.as_secs() / STREAM_PATIENCE.as_secs();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Records that it has a block: it announced it, or a descendant.
    pub(super) fn note_best_known(&mut self, info: HeaderInfo) {
        if !info.invalid && self.best_known.is_none_or(|best| info.work >= best.work) {
            self.best_known = Some(info);
        }
    }

    /// Records a headers message that ended with this work; `false` if it was one too many without progress.
    pub(super) fn note_progress(&mut self, work: Work, is_full: bool, now: Now) -> bool {
        if work > self.furthest || !is_full {
            self.furthest = self.furthest.max(work);
            (self.stale_count, self.stale_since) = (0, None);
            return true;
        }
        self.stale_count += 1;
        self.stale_since.get_or_insert(now.since_start);
        self.stale_count <= STALE_COUNT_MAX
    }

    /// Whether it has sent nothing new for a while, although it keeps sending.
    pub(super) fn is_stale(&self, now: Now) -> bool {
        self.stale_since.is_some_and(|since| now.since_start.saturating_sub(since) > STALE_PATIENCE)
    }

    /// Whether it makes progress with its chain: it sends something, and not the same headers again.
    pub(super) fn is_advancing(&self, received_bytes: u64, last_received: Duration, now: Now) -> bool {
        let is_slow = |asked: Duration| {
            let passed = now.since_start.saturating_sub(asked);
            let rate = received_bytes.saturating_sub(self.asked_bytes) as f64 / passed.as_secs_f64().max(1.0);
            let is_silent = now.since_start.saturating_sub(last_received) > ADVANCING_AFTER;
            passed > ADVANCING_AFTER && (is_silent || rate < ADVANCING_RATE_MIN)
        };
        !self.asked_at.is_some_and(is_slow) && self.stale_count <= STALE_COUNT_ADVANCING
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.asked_at.is_some() || self.low_work.is_some()
    }

    pub(super) fn is_skipped(&self, now: Now) -> bool {
        self.is_backing_off(now) || self.skipped_until.is_some_and(|until| until > now.since_start)
    }

    pub(super) fn is_backing_off(&self, now: Now) -> bool {
        let is_ahead = self.too_new_until.is_some_and(|until| until > now.unix);
        is_ahead || self.backoff_until.is_some_and(|until| until > now.since_start)
    }

    /// Its low-work sync met a header too far in the future: the sync ends, and begins again when the clock has reached
    /// `until`. It is no offence, because the clock may be wrong.
    pub(super) fn end_at_too_new(&mut self, until: u64) {
        self.begin_anew();
        (self.at_end, self.too_new, self.too_new_until) = (true, true, Some(until));
    }

    /// If the clock has reached that time, it can be asked again.
    pub(super) fn look_at_clock(&mut self, now: Now) {
        if self.too_new_until.is_some_and(|until| until <= now.unix) {
            (self.at_end, self.too_new, self.too_new_until) = (false, false, None);
        }
    }

    /// Forgets the outstanding request until this time.
    pub(super) fn skip_until(&mut self, until: Duration) {
        self.begin_anew();
        self.skipped_until = Some(until);
    }

    /// Forgets the outstanding request, so that it is asked from the best header on.
    pub(super) fn begin_anew(&mut self) {
        (self.asked_at, self.low_work, self.stream_since, self.pace) = (None, None, None, None);
        self.started = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ChainView as _;
    use crate::sim::{Chain, made_on};

    /// Whoever sends the first half fast and drips in the second one keeps no pace.
    #[test]
    fn pace_is_that_of_the_last_interval() {
        let chain = Chain::having(&made_on(&Chain::new().best_header(), 300, 1, 0));
        let mut told = PeerHeaders { asked_at: Some(Duration::ZERO), ..PeerHeaders::default() };
        for (intervals, height, want) in
            [(0, 0, true), (1, 200, true), (2, 250, true), (3, 299, false), (4, 299, false)]
        {
            told.best_known = chain.header(&chain.ancestor(&chain.best_header().hash, Height::new(height)).unwrap());
            let at = PACE_INTERVAL * intervals;
            told.look_at_pace(50, at);
            assert_eq!(told.keeps_pace(), want, "{intervals} intervals");
            told.look_at_pace(50, at + PACE_INTERVAL / 2);
            assert_eq!(told.keeps_pace(), want, "{intervals} intervals and a half");
        }
        told.asked_at = None;
        told.look_at_pace(50, PACE_INTERVAL * 5);
        assert!(told.keeps_pace(), "another stream");
        assert_eq!(told.pace_count(940_000), 13_055);
    }
}
