//! How long the end of header sync waits for peers that may still send a better chain.
//!
//! Once one peer has sent its whole chain and the best chain has minimum work, each peer that is still being asked
//! has [`PATIENCE`] in total without sending more work; then header sync ends with the headers of the others. The
//! time applies to each named peer, to all automatic peers together, and to all connection attempts together: neither
//! a reconnect nor taking turns extends it. The peer is still asked; when it sends more work, header sync waits for
//! it again.
//!
//! A slow peer that is the source of the headers is not affected: before one chain was sent completely no time is
//! counted, and each headers message with more work restarts the time. 2,000 headers in [`PATIENCE`] are 2,700 bytes
//! a second.

use crate::peer::Kind;
use primitives::Work;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time to wait for one of `Waited` without progress. Together with the minute after which another peer is asked
/// ([`super::schedule::STREAM_INTERVAL`]), one peer delays the end of header sync by at most two minutes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time counted between two ticks: a suspended machine has not waited.
const STEP_MAX: Duration = Duration::from_secs(1);

/// The peers whose headers are awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waited {
    /// Connection attempts.
    Dial,
    /// Automatic peers.
    Automatic,
    /// A named peer, by its index.
    Manual(usize),
}

impl Waited {
    /// `None`: headers of peers of this kind are processed, but never waited for.
    pub(super) fn of(kind: Kind) -> Option<Waited> {
        match kind {
            Kind::Inbound | Kind::AddressFetch | Kind::BlockRelay | Kind::Feeler => None,
            Kind::Automatic => Some(Waited::Automatic),
            Kind::Manual(place) => Some(Waited::Manual(place)),
        }
    }
}

/// The time spent waiting for each.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Time since it last sent more work, and that work.
    spent: BTreeMap<Waited, (Duration, Work)>,
    looked_at: Duration,
}

impl Patience {
    /// Whether to wait for one of these, given the greatest work that each has sent. Time counts only if
    /// `is_counted`: while nothing else is awaited.
    pub(super) fn waits(&mut self, waited: &[(Waited, Work)], is_counted: bool, now: Duration) -> bool {
        let passed = if is_counted { now.saturating_sub(self.looked_at).min(STEP_MAX) } else { Duration::ZERO };
        self.looked_at = now;
        let mut most: BTreeMap<Waited, Work> = BTreeMap::new();
        for (of, work) in waited {
            let known = most.entry(*of).or_default();
            *known = (*known).max(*work);
        }
        let mut waits = false;
        for (of, work) in most {
            let (spent, told) = self.spent.entry(of).or_default();
            if work > *told {
                (*spent, *told) = (Duration::ZERO, work);
            }
            *spent += passed;
            waits |= *spent <= PATIENCE;
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn work(amount: u32) -> Work {
        (0..amount).fold(Work::ZERO, |sum, _| sum.saturating_add(Work::of_bits(0x207f_ffff)))
    }

    #[test]
    fn patience_is_spent_by_each_and_renewed_by_work() {
        let mut patience = Patience::default();
        let (one, two) = (Waited::Manual(0), Waited::Automatic);
        let mut at = 0;
        let mut waits = |waited: &[(Waited, Work)], is_counted| {
            at += 1;
            patience.waits(waited, is_counted, at * S)
        };
        assert!((0..500).all(|_| waits(&[(one, Work::ZERO)], false)), "no time is counted yet");
        assert!((0..60).all(|_| waits(&[(one, Work::ZERO)], true)));
        assert!(!waits(&[(one, Work::ZERO)], true), "a minute is over");
        assert!(!waits(&[], true) && !waits(&[(one, Work::ZERO)], true), "and stay so when it comes again");
        assert!(waits(&[(one, Work::ZERO), (two, Work::ZERO)], true), "another has its own");
        assert!(waits(&[(one, work(2))], true), "more work begins it again");
        assert!((0..50).all(|_| waits(&[(one, work(1)), (one, work(2))], true)));
        assert!((0..20).any(|_| !waits(&[(one, work(2))], true)), "the same work does not");
        // A machine that slept for an hour.
        assert!(patience.waits(&[(Waited::Dial, Work::ZERO)], true, 10_000 * S));
        assert!(patience.waits(&[(Waited::Dial, Work::ZERO)], true, 20_000 * S));
    }
}
