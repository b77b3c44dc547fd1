//! What one peer said and was asked about its header chain.
//!
//! Absent on purpose: when a peer is asked, and what its headers are worth ([`crate::hub::headers`]).

use crate::low_work::LowWorkSync;
use crate::time::Now;
use primitives::BlockHash;
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
    /// The last block it announced that is not in the tree.
    pub(crate) unknown: Option<BlockHash>,
    pub(crate) lagging_since: Option<Duration>,
    pub(crate) lag_asked: bool,
}

impl PeerHeaders {
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
