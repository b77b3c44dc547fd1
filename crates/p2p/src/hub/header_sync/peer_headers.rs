//! What one peer said and was asked about its header chain.
//!
//! Absent on purpose: when a peer is asked, and what its headers are worth (the module above).

use crate::chain::HeaderInfo;
use crate::lag::Lag;
use crate::low_work::LowWorkSync;
use crate::time::Now;
use primitives::{BlockHash, Height, Work};
use std::time::Duration;

/// What one peer told and was asked about headers.
#[derive(Debug, Default)]
pub(super) struct PeerHeaders {
    /// The best block that we know the peer to have.
    pub(super) best_known: Option<HeaderInfo>,
    /// When it was asked, while it has not answered.
    pub(super) asked_at: Option<Duration>,
    /// Bytes that had come of it then.
    pub(super) asked_bytes: u64,
    /// Whether it was asked once.
    pub(super) started: bool,
    /// Whether its last answer was the end of its chain.
    pub(super) at_end: bool,
    /// It has more, and waits for its turn.
    pub(super) deferred: bool,
    /// It did not answer: it is not asked before this time.
    pub(super) skipped_until: Option<Duration>,
    /// It took too long, or contradicted itself: what it sends before this time starts nothing.
    pub(super) backoff_until: Option<Duration>,
    /// Since when it has been asked for one piece of its chain after the other.
    pub(super) stream_since: Option<Duration>,
    pub(super) low_work: Option<Box<LowWorkSync>>,
    pub(super) unconnected_count: u32,
    /// Greatest work of what it told.
    furthest: Work,
    /// Full messages since then that told of no more work, and when the first of them came.
    stale_count: u32,
    stale_since: Option<Duration>,
    /// The last block it announced that is not in the tree.
    pub(super) unknown: Option<BlockHash>,
    /// Whether it answered with headers, be it with none.
    pub(super) is_heard: bool,
    /// Height and work of the end of its chain, where that has too little work to be stored.
    pub(super) short: Option<(Height, Work)>,
    /// Whether its chain ends, as far as it told it last, with headers that are too far ahead of the clock.
    pub(super) too_new: bool,
    /// When it last announced a new block with more work than our tip had.
    pub(super) announced_at: Option<Duration>,
    /// Whether its chain keeps up with ours.
    pub(super) lag: Lag,
}

/// Full messages of headers without more work than those before, until a peer is disconnected: a million headers, as
/// many as an honest peer may have to tell again after a reorganisation.
const STALE_COUNT_MAX: u32 = 500;
/// And for how long they are waited for before the end of the headers is said.
const STALE_PATIENCE: Duration = Duration::from_secs(60);
/// After this many of them another peer is asked besides,
const STALE_COUNT_ADVANCING: u32 = 4;
/// and where an answer comes with fewer bytes a second than this
const ADVANCING_RATE_MIN: f64 = 1000.0;
/// after this time.
const ADVANCING_AFTER: Duration = Duration::from_secs(5);

impl PeerHeaders {
    /// It is known to have this block: it told so, or gave a descendant.
    pub(super) fn note_best_known(&mut self, info: HeaderInfo) {
        if !info.invalid && self.best_known.is_none_or(|best| info.work >= best.work) {
            self.best_known = Some(info);
        }
    }

    /// A message of headers ended with this work; `false` when it was one too many without progress.
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

    /// Whether it has told nothing new for a while, although it goes on.
    pub(super) fn is_stale(&self, now: Now) -> bool {
        self.stale_since.is_some_and(|since| now.since_start.saturating_sub(since) > STALE_PATIENCE)
    }

    /// Whether it goes on with its chain: it sends something, and not the same again.
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

    /// Forgets what it was asked, for this time.
    pub(super) fn skip_until(&mut self, until: Duration) {
        self.begin_anew();
        self.skipped_until = Some(until);
    }

    /// Forgets what it was asked, so that it is asked from the best header on.
    pub(super) fn begin_anew(&mut self) {
        (self.asked_at, self.low_work, self.stream_since) = (None, None, None);
        self.started = false;
    }
}
