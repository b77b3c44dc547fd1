//! Whether the scripts of a block run: by the headers that are known when they would, and not before those are there that
//! decide it.
//!
//! A sync gets its headers in messages, and blocks may come between two of them. A block that would be verified only because
//! a header is not known yet waits for the rest of the headers: so a sync verifies the scripts that a reindex with the same
//! assumed block verifies, whatever the latency. The wait has an end, for a peer may send its headers as slowly as it likes.
//!
//! Source: Bitcoin Core b88bffe, `ConnectBlock` (`script_check_reason`), which does not wait.

use crate::chain::headers::may_vanish;
use consensus::ScriptCheckReason;
use std::time::Duration;

/// How long blocks wait for headers, from the first that does. Half a million headers come in this time over a line with
/// 100 ms, and before the chain has minimum work no block is asked for.
pub(crate) const HEADERS_PATIENCE: Duration = Duration::from_secs(60);

/// Whether blocks wait for headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeadersGate {
    /// Something is assumed valid, and peers are to come.
    may_wait: bool,
    /// A peer that was chosen has more headers, or none has told its chain yet.
    is_coming: bool,
    /// Since the first block that waited: when no block waits any more.
    until: Option<Duration>,
}

impl HeadersGate {
    /// Before the first header; open where nothing is assumed valid, or no peer is to come.
    pub(crate) fn new(may_wait: bool) -> HeadersGate {
        HeadersGate { may_wait, is_coming: may_wait, until: None }
    }

    /// The network has heard more: whether every peer that was chosen has told its whole chain, and one did.
    pub(crate) fn heard(&mut self, is_settled: bool) {
        self.is_coming = self.may_wait && !is_settled;
    }

    /// Whether a block whose scripts run for this reason waits.
    pub(crate) fn waits(&mut self, reason: Option<ScriptCheckReason>, now: Duration) -> bool {
        if !self.is_coming || !reason.is_some_and(may_vanish) {
            return false;
        }
        now < *self.until.get_or_insert(now + HEADERS_PATIENCE)
    }

    /// Whether a block might wait now.
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
        // Another peer begins to tell its chain: the time is not given again.
        gate.heard(true);
        gate.heard(false);
        assert!(!gate.waits(UNKNOWN, last + at(1)));
    }

    #[test]
    fn nothing_waits_where_nothing_is_assumed_or_no_peer_comes() {
        let mut gate = HeadersGate::new(false);
        assert!(!gate.waits(UNKNOWN, at(0)) && !gate.is_closed(at(0)));
    }

    /// A network without peers says that nobody has told his headers: nothing waits for that.
    #[test]
    fn gate_that_is_open_from_the_begin_stays_open() {
        let mut gate = HeadersGate::new(false);
        gate.heard(false);
        assert!(!gate.is_closed(at(0)) && !gate.waits(UNKNOWN, at(1)) && !gate.is_closed(at(2)));
    }
}
