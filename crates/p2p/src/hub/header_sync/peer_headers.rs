//! State of one peer's header chain, and of the requests for it.
//!
//! Absent on purpose: when a peer is asked, and the validity of its headers (the module above).

use crate::chain::HeaderInfo;
use crate::lag::Lag;
use crate::low_work::LowWorkSync;
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
/// Another peer is asked as well if an answer arrives slower than this, in bytes a second,
const ADVANCING_RATE_MIN: f64 = 1000.0;
/// after this time.
const ADVANCING_AFTER: Duration = Duration::from_secs(5);

impl PeerHeaders {
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
        self.backoff_until.is_some_and(|until| until > now.since_start)
    }

    /// Forgets the outstanding request until this time.
    pub(super) fn skip_until(&mut self, until: Duration) {
        self.begin_anew();
        self.skipped_until = Some(until);
    }

    /// Forgets the outstanding request, so that it is asked from the best header on.
    pub(super) fn begin_anew(&mut self) {
        (self.asked_at, self.low_work, self.stream_since) = (None, None, None);
        self.started = false;
    }
}
