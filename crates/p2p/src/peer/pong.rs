//! Our pings, their answers, and defects of such answers.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `PeerManagerImpl::ProcessPong`.

use super::{PING_INTERVAL, Peer};
use crate::rng::Rng;
use crate::time::Now;
use crate::wire::Message;

/// Bytes of a nonce.
const NONCE_BYTES: usize = 8;

impl Peer {
    pub(super) fn ping_if_due(&mut self, now: Now, rng: &mut Rng) {
        if self.ping.is_none() && now.since_start.saturating_sub(self.last_ping) > PING_INTERVAL {
            self.ping(rng.number(), now);
        }
    }

    pub(super) fn ping(&mut self, nonce: u64, now: Now) {
        self.ping = Some((nonce, now.since_start));
        self.last_ping = now.since_start;
        self.send(&Message::Ping(Some(nonce)));
    }

    /// Pings again, whether or not the last ping was answered. Source: Bitcoin Core b88bffe, `SendPings`.
    pub(crate) fn ping_again(&mut self, now: Now, rng: &mut Rng) {
        if self.ready {
            self.ping(rng.number(), now);
        }
    }

    /// Handles a pong with a payload of `bytes`; `nonce` is 0 if the payload is too short for one.
    pub(super) fn on_pong(&mut self, nonce: u64, bytes: usize, now: Now) {
        let expected = self.ping.map_or(0, |(ours, _)| ours);
        let problem = match self.ping {
            // A defect of the peer's implementation: we do not wait for this ping any longer.
            _ if bytes < NONCE_BYTES => {
                self.ping = None;
                "Short payload"
            }
            None => "Unsolicited pong without ping",
            Some((ours, sent_at)) if ours == nonce => {
                let took = now.since_start.saturating_sub(sent_at);
                self.last_round_trip = Some(took);
                self.round_trip = Some(self.round_trip.map_or(took, |least| least.min(took)));
                self.ping = None;
                return;
            }
            Some(_) if nonce == 0 => {
                self.ping = None;
                "Nonce zero"
            }
            Some(_) => "Nonce mismatch",
        };
        let peer = self.id;
        self.journal
            .say(|| format!("pong peer={peer}: {problem}, {expected:x} expected, {nonce:x} received, {bytes} bytes"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{at, peer};
    use std::time::Duration;

    /// The cases of Core's p2p_ping.py.
    #[test]
    fn wrong_pongs_are_named_and_some_end_the_ping() {
        for (row, ping, nonce, bytes, want, waits) in [
            ("short", Some(255), 0, 0, "Short payload, ff expected, 0 received, 0 bytes", false),
            ("none asked for", None, 0, 8, "Unsolicited pong without ping, 0 expected, 0 received, 8 bytes", false),
            ("another", Some(255), 254, 8, "Nonce mismatch, ff expected, fe received, 8 bytes", true),
            ("zero", Some(255), 0, 8, "Nonce zero, ff expected, 0 received, 8 bytes", false),
        ] {
            let mut peer = peer();
            peer.ping = ping.map(|nonce| (nonce, at(1).since_start));
            peer.on_pong(nonce, bytes, at(9));
            assert_eq!(peer.journal.take(), [format!("pong peer=3: {want}")], "{row}");
            assert_eq!((peer.ping.is_some(), peer.last_round_trip), (waits, None), "{row}");
        }
        let mut peer = peer();
        for (sent, answered) in [(1, 30), (40, 49)] {
            peer.ping = Some((255, at(sent).since_start));
            peer.on_pong(255, 8, at(answered));
        }
        let trips = (peer.last_round_trip, peer.round_trip);
        assert_eq!(trips, (Some(Duration::from_secs(9)), Some(Duration::from_secs(9))));
        assert!(peer.journal.take().is_empty() && peer.ping.is_none());
    }
}
