//! Peers that we chose and whose chain stays behind ours: who is looked at, who is protected, and who goes.
//!
//! Peers for everything and for blocks alone are looked at. The first [`PROTECTED_COUNT_MAX`] for everything that tell, by
//! headers, of a chain with the work of our tip are kept from then on: were our own tip the false one, the connections to
//! those that do not have it would not all end.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `UpdatePeerStateForReceivedHeaders` and `ConsiderEviction`.

use super::Hub;
use crate::api::PeerId;
use crate::lag::Step;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use primitives::Height;

/// Peers that are kept. Source: Core's `MAX_OUTBOUND_PEERS_TO_PROTECT_FROM_DISCONNECT`.
pub const PROTECTED_COUNT_MAX: usize = 4;

impl Hub {
    /// A peer told of headers that are known now.
    pub(super) fn protect_from_lag(&mut self, id: PeerId) {
        let tip = self.context.chain.tip();
        let count = self.context.peers.values().filter(|peer| peer.headers.lag.is_protected).count();
        let Some(peer) = self.context.peers.get_mut(&id).filter(|peer| peer.kind == Kind::Automatic) else { return };
        if count < PROTECTED_COUNT_MAX && peer.best_known.is_some_and(|best| best.work >= tip.work) {
            peer.headers.lag.is_protected = true;
        }
    }

    /// Looks whether a peer keeps up: by the clock, and where what it told has changed.
    ///
    /// # Errors
    ///
    /// [`Reason::Lagging`]: its time is over.
    pub(super) fn look_at_lag(&mut self, id: PeerId, now: Now) -> Result<(), Reason> {
        let tip = self.context.chain.tip();
        let is_looked_at = |peer: &&mut Peer| peer.ready && matches!(peer.kind, Kind::Automatic | Kind::BlockRelay);
        let Some(peer) = self.context.peers.get_mut(&id).filter(is_looked_at) else { return Ok(()) };
        match peer.headers.lag.look(peer.best_known.map(|best| best.work), tip, now.since_start) {
            Step::Wait => {}
            Step::Ask(goal) => {
                let from = if goal.height == Height::GENESIS { goal.hash } else { goal.header.prev() };
                self.ask_headers(id, self.context.chain.locator(&from), now);
            }
            Step::Drop => return Err(Reason::Lagging),
        }
        Ok(())
    }
}
