//! Headers ahead of the tip where a network has no minimum work: they cost a peer nothing, and memory here.
//!
//! Elsewhere headers are stored only with minimum work behind them ([`crate::low_work`]). On a network without
//! (regtest, a custom signet), each peer may be [`AHEAD_COUNT_MAX`] new headers ahead; who has more waits until as many
//! blocks are connected. Peers that connected to us share one such number, those of the address memory another, for
//! either can come again under other addresses; a named peer keeps its own when it is connected to again.

use super::Hub;
use crate::peer::Kind;
use primitives::{Height, Work};
use std::collections::BTreeMap;

/// New headers that a peer may be ahead of the tip. A header takes some 300 bytes in the header tree.
pub const AHEAD_COUNT_MAX: usize = 250_000;

/// Who a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Inbound,
    Automatic,
    Manual(usize),
}

/// New headers that came, less the blocks that were connected since.
#[derive(Debug, Default)]
pub(super) struct HeaderQuota {
    ahead: BTreeMap<Holder, usize>,
    tip: Height,
}

impl HeaderQuota {
    fn holder(kind: Kind) -> Holder {
        match kind {
            Kind::Inbound => Holder::Inbound,
            Kind::Automatic | Kind::AddressFetch | Kind::BlockRelay | Kind::Feeler => Holder::Automatic,
            Kind::Manual(place) => Holder::Manual(place),
        }
    }

    fn add(&mut self, kind: Kind, count: usize) {
        *self.ahead.entry(HeaderQuota::holder(kind)).or_default() += count;
    }

    fn is_used_up(&self, kind: Kind) -> bool {
        self.ahead.get(&HeaderQuota::holder(kind)).is_some_and(|&count| count >= AHEAD_COUNT_MAX)
    }

    /// The tip is at `tip` now.
    fn set_tip(&mut self, tip: Height) {
        let connected = usize::try_from(tip.blocks_above(self.tip)).unwrap_or(usize::MAX);
        self.ahead.values_mut().for_each(|count| *count = count.saturating_sub(connected));
        self.tip = tip;
    }
}

impl Hub {
    /// Whether no new header is taken of a peer of this kind for now.
    pub(super) fn is_far_ahead(&self, kind: Kind) -> bool {
        self.chain.minimum_work() == Work::ZERO && self.header_quota.is_used_up(kind)
    }

    pub(super) fn note_new_headers(&mut self, kind: Kind, count: usize) {
        self.header_quota.add(kind, count);
    }

    pub(super) fn tick_header_quota(&mut self) {
        self.header_quota.set_tip(self.chain.tip().height);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_per_holder_and_freed_by_connected_blocks() {
        let mut quota = HeaderQuota::default();
        for kind in [Kind::Inbound, Kind::Manual(1)] {
            quota.add(kind, AHEAD_COUNT_MAX - 1);
            assert!(!quota.is_used_up(kind));
            quota.add(kind, 2000);
            assert!(quota.is_used_up(kind), "{kind:?}");
        }
        assert!(!quota.is_used_up(Kind::Manual(0)) && !quota.is_used_up(Kind::Automatic));
        quota.set_tip(Height::new(1999));
        assert!(quota.is_used_up(Kind::Inbound), "one too many");
        quota.set_tip(Height::new(2000));
        assert!(!quota.is_used_up(Kind::Inbound));
        // A reorganisation to a lower tip frees nothing, and takes nothing.
        quota.set_tip(Height::new(1000));
        assert!(!quota.is_used_up(Kind::Inbound));
    }
}
