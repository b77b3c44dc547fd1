//! How long the end of the headers waits for those who may still tell of a better chain.
//!
//! Once one peer has told its whole chain and the best chain has minimum work, a peer that is still being asked has
//! [`PATIENCE`] in all, without telling of more work: then what the others told is the end. The time is that of a named peer,
//! of all automatic peers together, or of all connections being made: a peer that comes again has no more of it, nor have
//! several that take turns. It goes on being asked; when it tells of more work it is waited for again.
//!
//! A slow peer is not harmed by that while it is the one that headers come from: before one chain was told whole no time is
//! counted, and every message of headers with more work begins it again: 2,000 headers in [`PATIENCE`] are 2,700 bytes a second.

use crate::peer::Kind;
use primitives::Work;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long one of `Waited` is waited for without progress. With the minute after which another peer is asked
/// ([`super::schedule::STREAM_INTERVAL`]), whatever one peer does holds up the end of the headers for two minutes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two looks at the clock are taken to be no further apart: a machine that slept has not waited.
const STEP_MAX: Duration = Duration::from_secs(1);

/// Who is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waited {
    /// Connections that are being made.
    Dial,
    /// Automatic peers.
    Automatic,
    /// A named peer, by its place in the list.
    Manual(usize),
}

impl Waited {
    /// `None`: peers of this kind are heard, and never waited for.
    pub(super) fn of(kind: Kind) -> Option<Waited> {
        match kind {
            Kind::Inbound | Kind::AddressFetch | Kind::BlockRelay | Kind::Feeler => None,
            Kind::Automatic => Some(Waited::Automatic),
            Kind::Manual(place) => Some(Waited::Manual(place)),
        }
    }
}

/// The time that each was waited for.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Time since it last told of more work, and that work.
    spent: BTreeMap<Waited, (Duration, Work)>,
    looked_at: Duration,
}

impl Patience {
    /// Whether one of these, with the greatest work that each has told of, is to be waited for. Time is `counted` only
    /// while nothing else is waited for.
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
