//! Pings that are answered after the earlier messages of their sender were handled.
//!
//! Core handles a peer's messages in order: its pong means that the blocks before the ping are validated. Here blocks
//! are validated elsewhere, and the pong waits for that; it does not wait for a bulk transfer of blocks
//! ([`crate::hub`]).

use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of waiting pings of one peer; one more is answered at once.
pub(crate) const WAITING_COUNT_MAX: usize = 16;
/// Maximum delay of a pong, so that a peer with a timeout does not disconnect us.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The pings of one peer.
#[derive(Debug, Default)]
pub(crate) struct Pongs {
    /// Whether it sent a message that other parts have to handle.
    is_unsettled: bool,
    /// Nonces, and when they arrived.
    waiting: VecDeque<(u64, Duration)>,
}

impl Pongs {
    /// Records a message that is not handled at once.
    pub(crate) fn unsettle(&mut self) {
        self.is_unsettled = true;
    }

    /// Records a ping; returns whether to answer it now.
    pub(crate) fn ping(&mut self, nonce: u64, at: Duration) -> bool {
        let is_now = !self.is_unsettled || self.waiting.len() >= WAITING_COUNT_MAX;
        if !is_now {
            self.waiting.push_back((nonce, at));
        }
        is_now
    }

    /// Whether a ping waits.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes and returns the nonces to answer now, in order; `is_settled`: all earlier messages are handled.
    pub(crate) fn take(&mut self, is_settled: bool, at: Duration) -> Vec<u64> {
        if is_settled {
            self.is_unsettled = false;
            return self.waiting.drain(..).map(|(nonce, _)| nonce).collect();
        }
        let is_late = |since: Duration| at.saturating_sub(since) >= PATIENCE;
        let late = self.waiting.iter().take_while(|(_, since)| is_late(*since)).count();
        self.waiting.drain(..late).map(|(nonce, _)| nonce).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pongs_wait_until_all_is_settled_and_not_for_ever() {
        let at = Duration::from_secs;
        let mut pongs = Pongs::default();
        assert!(pongs.ping(1, at(0)), "nothing was said before it");
        pongs.unsettle();
        assert!(!pongs.ping(2, at(1)) && !pongs.ping(3, at(2)));
        assert_eq!(pongs.take(false, at(3)), Vec::<u64>::new());
        assert_eq!(pongs.take(false, at(1) + PATIENCE), [2], "that one has waited long enough");
        assert_eq!(pongs.take(true, at(4)), [3]);
        assert!(pongs.ping(4, at(5)) && !pongs.is_waiting());
        pongs.unsettle();
        let answered = (0..100).filter(|nonce| pongs.ping(*nonce, at(6))).count();
        assert_eq!(answered, 100 - WAITING_COUNT_MAX, "no more than that wait");
    }
}
