//! What one peer said and was asked about its header chain.
//!
//! Absent on purpose: when a peer is asked, and what its headers are worth ([`crate::hub::headers`]).

use crate::low_work::LowWorkSync;
use crate::time::Now;
use primitives::{BlockHash, Work};
use std::time::Duration;

/// What one peer told and was asked about headers.
#[derive(Debug, Default)]
pub struct PeerHeaders {
    /// When it was asked, while it has not answered.
    pub(crate) asked_at: Option<Duration>,
    /// Whether it was asked once.
    pub(crate) started: bool,
    /// Whether its last answer was the end of its chain.
    pub(crate) at_end: bool,
    /// It has more, and waits for its turn.
    pub(crate) deferred: bool,
    /// It did not answer: it is not asked before this time.
    pub(crate) skipped_until: Option<Duration>,
    /// It took too long, or contradicted itself: what it sends before this time starts nothing.
    pub(crate) backoff_until: Option<Duration>,
    /// Since when it has been asked for one piece of its chain after the other.
    pub(crate) stream_since: Option<Duration>,
    pub(crate) low_work: Option<Box<LowWorkSync>>,
    pub(crate) unconnected_count: u32,
    /// Greatest work of what it told.
    furthest: Work,
    /// Full messages since then that told of no more work, and when the first of them came.
    stale_count: u32,
    stale_since: Option<Duration>,
    /// The last block it announced that is not in the tree.
    pub(crate) unknown: Option<BlockHash>,
    pub(crate) lagging_since: Option<Duration>,
    pub(crate) lag_asked: bool,
}

/// Full messages of headers without more work than those before, until a peer is disconnected: a million headers, as
/// many as an honest peer may have to tell again after a reorganisation.
pub const STALE_COUNT_MAX: u32 = 500;
/// And for how long they are waited for before the end of the headers is said.
pub const STALE_PATIENCE: Duration = Duration::from_secs(60);

impl PeerHeaders {
    /// A message of headers ended with this work; `false` when it was one too many without progress.
    pub(crate) fn note_progress(&mut self, work: Work, is_full: bool, now: Now) -> bool {
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
    pub(crate) fn is_stale(&self, now: Now) -> bool {
        self.stale_since.is_some_and(|since| now.since_start.saturating_sub(since) > STALE_PATIENCE)
    }

    pub(crate) fn is_streaming(&self) -> bool {
        self.asked_at.is_some() || self.low_work.is_some()
    }

    pub(crate) fn is_skipped(&self, now: Now) -> bool {
        self.is_backing_off(now) || self.skipped_until.is_some_and(|until| until > now.since_start)
    }

    pub(crate) fn is_backing_off(&self, now: Now) -> bool {
        self.backoff_until.is_some_and(|until| until > now.since_start)
    }

    /// Forgets what it was asked, for this time.
    pub(crate) fn skip_until(&mut self, until: Duration) {
        (self.asked_at, self.low_work, self.stream_since) = (None, None, None);
        self.skipped_until = Some(until);
        self.started = false;
    }
}
