//! Decides whether the scripts of a block are verified. The decision uses the headers known at that time, and waits
//! until the headers that matter have arrived.
//!
//! Headers arrive in several messages, and blocks may arrive in between. A block whose scripts would be verified only
//! because a header is still missing waits for the remaining headers. So a sync verifies the same scripts as a reindex
//! with the same assumed-valid block, whatever the latency. The wait is limited, because a peer may send its headers
//! arbitrarily slowly.
//!
//! Source: Bitcoin Core b88bffe, `ConnectBlock` (`script_check_reason`), which does not wait.

use crate::chain::headers::may_vanish;
use consensus::ScriptCheckReason;
use std::time::Duration;

/// How long blocks wait for headers, counted from the first waiting block. Half a million headers arrive in this time
/// at a round trip of 100 ms. Before the chain has minimum work no block is requested.
pub(crate) const HEADERS_PATIENCE: Duration = Duration::from_secs(60);

/// Whether blocks wait for headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeadersGate {
    /// An assumed-valid block is set, and peers are expected.
    may_wait: bool,
    /// A chosen peer has more headers, or no peer has sent its chain yet.
    is_coming: bool,
    /// End of the wait, set by the first block that waits.
    until: Option<Duration>,
}

impl HeadersGate {
    /// The state before the first header; always open if no block is assumed valid or no peer is expected.
    pub(crate) fn new(may_wait: bool) -> HeadersGate {
        HeadersGate { may_wait, is_coming: may_wait, until: None }
    }

    /// Updates the gate after network progress. `is_settled`: every chosen peer has sent its whole chain, and there is
    /// at least one.
    pub(crate) fn heard(&mut self, is_settled: bool) {
        self.is_coming = self.may_wait && !is_settled;
    }

    /// Whether a block waits, if its scripts would be verified for this reason.
    pub(crate) fn waits(&mut self, reason: Option<ScriptCheckReason>, now: Duration) -> bool {
        if !self.is_coming || !reason.is_some_and(may_vanish) {
            return false;
        }
        now < *self.until.get_or_insert(now + HEADERS_PATIENCE)
    }

    /// Whether a block might have to wait now.
    pub(crate) fn is_closed(&self, now: Duration) -> bool {
        self.is_coming && self.until.is_none_or(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: Option<ScriptCheckReason> = Some(ScriptCheckReason::HashNotInHeaders);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_reasons_that_headers_change_wait() {
        for (reason, want) in [
            (None, false),
            (Some(ScriptCheckReason::AlwaysVerify), false),
            (Some(ScriptCheckReason::AboveAssumedValid), false),
            (Some(ScriptCheckReason::NotInAssumedValidChain), false),
            (Some(ScriptCheckReason::HashNotInHeaders), true),
            (Some(ScriptCheckReason::LowChainWork), true),
            (Some(ScriptCheckReason::NotInBestHeaderChain), true),
            (Some(ScriptCheckReason::TooRecent), true),
        ] {
            assert_eq!(HeadersGate::new(true).waits(reason, at(1)), want, "{reason:?}");
        }
    }

    #[test]
    fn blocks_wait_until_the_headers_are_told() {
        let mut gate = HeadersGate::new(true);
        assert!(gate.waits(UNKNOWN, at(1)) && gate.is_closed(at(1)));
        gate.heard(false);
        assert!(gate.waits(UNKNOWN, at(2)));
        gate.heard(true);
        assert!(!gate.waits(UNKNOWN, at(3)) && !gate.is_closed(at(3)));
    }

    #[test]
    fn a_peer_that_dribbles_holds_up_nothing_for_long() {
        let mut gate = HeadersGate::new(true);
        let first = at(100);
        assert!(gate.waits(UNKNOWN, first), "however long it was before the first block");
        let last = first + HEADERS_PATIENCE;
        assert!(gate.waits(UNKNOWN, last - at(1)));
        assert!(!gate.waits(UNKNOWN, last) && !gate.is_closed(last));
        // Another peer starts to send its chain: the wait is not extended.
        gate.heard(true);
        gate.heard(false);
        assert!(!gate.waits(UNKNOWN, last + at(1)));
    }

    #[test]
    fn nothing_waits_where_nothing_is_assumed_or_no_peer_comes() {
        let mut gate = HeadersGate::new(false);
        assert!(!gate.waits(UNKNOWN, at(0)) && !gate.is_closed(at(0)));
    }

    /// A network without peers reports that no headers were sent: then no block waits for them.
    #[test]
    fn gate_that_is_open_from_the_begin_stays_open() {
        let mut gate = HeadersGate::new(false);
        gate.heard(false);
        assert!(!gate.is_closed(at(0)) && !gate.waits(UNKNOWN, at(1)) && !gate.is_closed(at(2)));
    }
}
