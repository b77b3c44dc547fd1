//! After a suspension of the machine: peers that have gone meanwhile would hold their slots for a quarter of an hour or
//! more, until the system or a ping gives them up.

use super::Hub;
use crate::api::PeerId;
use crate::peer::Hearing;
use crate::time::Now;

impl Hub {
    /// The machine was suspended, or its clock was set forward: pings all peers. Those that neither answer nor send for
    /// 20 s are disconnected.
    pub fn woke(&mut self, now: Now) {
        self.context.debug(|| "suspended, or the clock was set: pinging all peers".to_owned());
        for peer in self.context.peers.values_mut() {
            peer.wake(now, &mut self.context.rng);
        }
    }

    /// On a tick: ends connections to peers that do not answer after a suspension.
    pub(super) fn tick_woken(&mut self, now: Now) {
        let reads_little = std::mem::take(&mut self.reads_little);
        let awaited = self.context.peers.values().filter(|peer| peer.is_awaited());
        let awaited: Vec<PeerId> = awaited.map(|peer| peer.id).collect();
        for id in awaited {
            let is_heard = !reads_little && self.serving.hearing(id) == Hearing::Heard;
            let is_read = is_heard && self.blocks.may_read(&self.context.config, id);
            let Some(peer) = self.context.peers.get_mut(&id) else { continue };
            if let Err(reason) = peer.tick_awaited(is_read, now) {
                self.drop_peer(id, reason, now);
            }
        }
    }
}
