//! Liveness after the machine was suspended: the peer may have gone meanwhile, and then its end of the connection says
//! nothing.
//!
//! The peer is pinged, and must answer within [`WAKE_TIMEOUT`]. Each byte that passes begins this time anew, because an
//! answer waits behind earlier data. While the node reads nothing from the peer, no time passes.
//! Core's timeouts are by the wall clock, which includes the suspension (Bitcoin Core b88bffe, `InactivityCheck`).

use super::Peer;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use std::time::Duration;

/// Maximum silence of a peer after the ping. A peer that connects blocks answers late: ffwd after
/// [`crate::pongs::PATIENCE`].
const WAKE_TIMEOUT: Duration = Duration::from_secs(60);
const _: () = assert!(WAKE_TIMEOUT.as_secs() > 2 * crate::pongs::PATIENCE.as_secs());

impl Peer {
    /// Pings the peer after a suspension. During its handshake it has the timeout of that.
    pub(crate) fn wake(&mut self, now: Now, rng: &mut Rng) {
        self.ping_again(now, rng);
        self.awaited_since = self.ready.then_some(now.since_start);
    }

    /// Whether it did not answer the ping after a suspension yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited_since.is_some()
    }

    /// On a tick: checks whether it answers after a suspension. `is_read`: the node reads what it sends.
    ///
    /// # Errors
    ///
    /// The [`Reason`] for ending the connection.
    pub(crate) fn tick_awaited(&mut self, is_read: bool, now: Now) -> Result<(), Reason> {
        let Some(since) = self.awaited_since.filter(|_| self.ping.is_some()) else {
            self.awaited_since = None;
            return Ok(());
        };
        let at = now.since_start;
        let mut since = since.max(self.last_received);
        if !is_read {
            since = at;
        } else if self.transport.out_bytes() > 0 {
            // The ping waits behind data, which the peer may be reading.
            since = since.max(self.sent_at.unwrap_or_default());
        }
        self.awaited_since = Some(since);
        let silent = at.saturating_sub(since);
        if silent > WAKE_TIMEOUT { Err(Reason::PingTimeout(silent)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, peer};
    use super::*;

    /// One with a finished handshake, pinged after a suspension, at 100 s.
    fn woken() -> Peer {
        let mut peer = peer();
        peer.ready = true;
        peer.wake(at(100), &mut Rng::Seeded(2));
        assert!(peer.is_awaited());
        peer
    }

    #[test]
    fn peer_that_is_silent_after_a_suspension_is_gone() {
        type Row = (&'static str, fn(&mut Peer), u64);
        let rows: [Row; 4] = [
            ("nothing passes", |_| (), 160),
            ("it sends", |peer| peer.note_received(at(115)), 175),
            ("it takes what waits before the ping", |peer| peer.note_sent(at(115)), 175),
            ("it is not read", |peer| assert_eq!(peer.tick_awaited(false, at(115)), Ok(())), 175),
        ];
        for (row, happens, last) in rows {
            let mut peer = woken();
            happens(&mut peer);
            assert_eq!(peer.tick_awaited(true, at(last)), Ok(()), "{row}");
            let late = Err(Reason::PingTimeout(Duration::from_secs(61)));
            assert_eq!(peer.tick_awaited(true, at(last + 1)), late, "{row}");
        }
    }

    #[test]
    fn peer_that_answers_after_a_suspension_stays() {
        let mut peer = woken();
        let (nonce, _) = peer.ping.unwrap();
        peer.on_pong(nonce, 8, at(159));
        assert_eq!(peer.tick_awaited(true, at(160)), Ok(()));
        assert!(!peer.is_awaited());
        assert_eq!(peer.tick_awaited(true, at(500)), Ok(()), "later silence has the usual timeout");
    }
}
