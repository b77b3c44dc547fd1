//! Outbound peers whose chain stays behind ours: which are checked, protected, and disconnected.
//!
//! Full-relay and block-relay-only peers are checked. The first [`PROTECTED_COUNT_MAX`] full-relay peers that send
//! headers of a chain with our tip's work are protected from this check: if our own tip were the false one, some
//! connections to peers with the other chain would remain.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `UpdatePeerStateForReceivedHeaders` and `ConsiderEviction`.

use super::super::context::Context;
use super::HeaderSync;
use crate::api::PeerId;
use crate::lag::Step;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use primitives::Height;

/// Number of protected peers. Source: Core's `MAX_OUTBOUND_PEERS_TO_PROTECT_FROM_DISCONNECT`.
const PROTECTED_COUNT_MAX: usize = 4;

impl HeaderSync {
    /// Protects a peer that sent headers which are in the tree now, if it qualifies.
    pub(super) fn protect_from_lag(&mut self, cx: &Context, id: PeerId) {
        let tip = cx.chain.tip();
        let count = self.told.values().filter(|told| told.lag.is_protected).count();
        let is_chosen = cx.peers.get(&id).is_some_and(|peer| peer.kind == Kind::Automatic);
        let told = self.of(id);
        if is_chosen && count < PROTECTED_COUNT_MAX && told.best_known.is_some_and(|best| best.work >= tip.work) {
            told.lag.is_protected = true;
        }
    }

    /// Checks every peer against a new tip: its time to reach that tip begins now. Returns whose time is over.
    pub(in super::super) fn look_at_lags(&mut self, cx: &mut Context, now: Now) -> Vec<(PeerId, Reason)> {
        let peers: Vec<PeerId> = cx.peers.keys().copied().collect();
        let mut look = |id| Some((id, self.look_at_lag(cx, id, now).err()?));
        peers.into_iter().filter_map(&mut look).collect()
    }

    /// Checks whether a peer's chain keeps up: on each tick, at a new tip, and when its announced chain has changed.
    ///
    /// # Errors
    ///
    /// [`Reason::Lagging`]: its time is over.
    pub(in super::super) fn look_at_lag(&mut self, cx: &mut Context, id: PeerId, now: Now) -> Result<(), Reason> {
        let tip = cx.chain.tip();
        if tip.height == Height::GENESIS {
            return Ok(()); // Every peer of this network has that block.
        }
        let is_looked_at = |peer: &&Peer| peer.is_ready() && matches!(peer.kind, Kind::Automatic | Kind::BlockRelay);
        if cx.peers.get(&id).filter(is_looked_at).is_none() {
            return Ok(());
        }
        let told = self.of(id);
        match told.lag.look(told.best_known.map(|best| best.work), tip, now.since_start) {
            Step::Wait => {}
            Step::Ask(goal) => {
                let from = if goal.height == Height::GENESIS { goal.hash } else { goal.header.prev() };
                let locator = cx.chain.locator(&from);
                self.ask_headers(cx, id, locator, now);
            }
            Step::Drop => return Err(Reason::Lagging),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::context::alone::{add_peer, context, now};
    use super::*;
    use crate::chain::ChainView as _;
    use crate::lag::{LAG_ANSWER_TIMEOUT, LAG_TIMEOUT};
    use crate::sim::{Chain, made_on};
    use std::sync::Arc;

    /// Peers of a network without blocks have nothing to tell. They stay, and with them their places in anchors.dat.
    #[test]
    fn peers_that_tell_nothing_lag_only_behind_a_chain_of_blocks() {
        let one = made_on(&Chain::new().best_header(), 1, 1, 300);
        for (row, chain, want) in [
            ("the genesis block alone", Chain::new(), Ok(())),
            ("a block on it", Chain::having(&one), Err(Reason::Lagging)),
        ] {
            let mut cx = context(&Arc::new(chain));
            let id = add_peer(&mut cx, Kind::BlockRelay);
            let mut headers = HeaderSync::default();
            headers.add_peer(id);
            let late = LAG_TIMEOUT.as_secs() + 2;
            for seconds in [1, late] {
                assert_eq!(headers.look_at_lag(&mut cx, id, now(seconds)), Ok(()), "{row}");
            }
            assert_eq!(headers.look_at_lag(&mut cx, id, now(late + LAG_ANSWER_TIMEOUT.as_secs() + 1)), want, "{row}");
        }
    }
}
