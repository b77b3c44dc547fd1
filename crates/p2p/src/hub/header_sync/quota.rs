//! Quota of headers ahead of the tip on networks without minimum work, where headers cost a peer nothing and us
//! memory.
//!
//! On other networks headers are stored only if their chain has the minimum work ([`crate::low_work`]). Without it
//! (regtest, a custom signet), each named peer may be [`AHEAD_COUNT_MAX`] new headers ahead; beyond that it waits until
//! as many blocks are connected. Its count survives a reconnect. All inbound peers share one count, and all peers of
//! the address memory another, because either can reconnect under other addresses; one network group may use at most a
//! quarter of a shared count, so that no single peer blocks the others' headers. With `-asmap` a group is an autonomous
//! system.

use super::super::context::Context;
use super::HeaderSync;
use crate::addresses::groups::NetGroups;
use crate::peer::{Kind, Peer};
use crate::wire::{Group, Target};
use primitives::{Height, Work};
use std::collections::BTreeMap;

/// Maximum number of new headers ahead of the tip for a named peer, for all inbound peers, or for all peers of the
/// address memory. A header takes some 300 bytes in the header tree.
pub const AHEAD_COUNT_MAX: usize = 250_000;
/// Maximum share of one network group in a shared count.
const GROUP_AHEAD_COUNT_MAX: usize = AHEAD_COUNT_MAX / 4;

/// The owner of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Holder {
    Inbound(Group),
    Automatic(Group),
    Manual(usize),
}

impl Holder {
    /// The count of a peer; `groups` has the groups of addresses (`-asmap`).
    pub(in super::super) fn of(peer: &Peer, groups: &NetGroups) -> Holder {
        let group = match &peer.target {
            Target::Peer(remote) => groups.group(remote.address),
            Target::Name(name, _) => Group::of_name(name),
        };
        match peer.kind {
            Kind::Inbound => Holder::Inbound(group),
            Kind::Automatic | Kind::AddressFetch | Kind::BlockRelay | Kind::Feeler => Holder::Automatic(group),
            Kind::Manual(place) => Holder::Manual(place),
        }
    }

    /// The shared count that it uses.
    fn shared(self) -> Option<Shared> {
        match self {
            Holder::Inbound(_) => Some(Shared::Inbound),
            Holder::Automatic(_) => Some(Shared::Automatic),
            Holder::Manual(_) => None,
        }
    }
}

/// A count shared by many peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shared {
    Inbound,
    Automatic,
}

/// New headers received, less the blocks connected since.
#[derive(Debug, Default)]
pub(super) struct HeaderQuota {
    ahead: BTreeMap<Holder, usize>,
    shared: BTreeMap<Shared, usize>,
    tip: Height,
}

impl HeaderQuota {
    pub(super) fn add(&mut self, holder: Holder, count: usize) {
        *self.ahead.entry(holder).or_default() += count;
        if let Some(shared) = holder.shared() {
            *self.shared.entry(shared).or_default() += count;
        }
    }

    fn is_used_up(&self, holder: Holder) -> bool {
        let own = self.ahead.get(&holder).copied().unwrap_or(0);
        match holder.shared() {
            None => own >= AHEAD_COUNT_MAX,
            Some(shared) => {
                let all = self.shared.get(&shared).copied().unwrap_or(0);
                own >= GROUP_AHEAD_COUNT_MAX || all >= AHEAD_COUNT_MAX
            }
        }
    }

    /// Sets the height of the tip.
    pub(super) fn set_tip(&mut self, tip: Height) {
        let connected = usize::try_from(tip.blocks_above(self.tip)).unwrap_or(usize::MAX);
        let counts = self.ahead.values_mut().chain(self.shared.values_mut());
        counts.for_each(|count| *count = count.saturating_sub(connected));
        self.ahead.retain(|_, count| *count > 0);
        self.tip = tip;
    }
}

impl HeaderSync {
    /// Whether new headers of this owner are currently refused.
    pub(in super::super) fn is_far_ahead(&self, cx: &Context, holder: Holder) -> bool {
        cx.chain.minimum_work() == Work::ZERO && self.quota.is_used_up(holder)
    }

    /// Counts new headers of this owner.
    #[cfg(test)]
    pub(in super::super) fn note_new(&mut self, holder: Holder, count: usize) {
        self.quota.add(holder, count);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::context::alone::{add_peer, context};
    use super::*;
    use crate::addresses::asmap::AsMap;
    use crate::sim::Chain;
    use crate::wire::{NetAddress, PeerAddress};
    use std::sync::Arc;

    fn group(first: u8) -> Group {
        NetAddress::V4([first, 1, 2, 3]).group()
    }

    #[test]
    fn quota_is_per_holder_and_freed_by_connected_blocks() {
        let mut quota = HeaderQuota::default();
        for (holder, most) in [(Holder::Inbound(group(8)), GROUP_AHEAD_COUNT_MAX), (Holder::Manual(1), AHEAD_COUNT_MAX)]
        {
            quota.add(holder, most - 1);
            assert!(!quota.is_used_up(holder));
            quota.add(holder, 2000);
            assert!(quota.is_used_up(holder), "{holder:?}");
        }
        assert!(!quota.is_used_up(Holder::Manual(0)) && !quota.is_used_up(Holder::Automatic(group(8))));
        for (tip, is_used_up, row) in [
            (1999, true, "one too many"),
            (2000, false, "room for one"),
            (1000, false, "a reorganisation to a lower tip takes nothing"),
        ] {
            quota.set_tip(Height::new(tip));
            for holder in [Holder::Inbound(group(8)), Holder::Manual(1)] {
                assert_eq!(quota.is_used_up(holder), is_used_up, "{row}: {holder:?}");
            }
        }
        quota.add(Holder::Manual(1), 1);
        quota.set_tip(Height::new(900));
        assert!(quota.is_used_up(Holder::Manual(1)), "nor does it free anything");
    }

    /// Core's map has 101.0.0.0/16 and 101.1.0.0/16 in one system, and 101.2.0.0/16 in another.
    #[test]
    fn peers_of_one_autonomous_system_share_a_quarter() {
        let raw = "fb03ec0fb03fc0fe00fb03ec0fb03fc0fe00fb03ec0fb0fffffeffedb0ffd486e628290000400000400040990100800180040000050006001cf039";
        let map = AsMap::new(primitives::hex::decode(raw).unwrap()).unwrap();
        let mut cx = context(&Arc::new(Chain::new()));
        for (groups, want) in [(NetGroups::default(), [false, false]), (NetGroups::of(map), [true, false])] {
            let holders = [0, 1, 2].map(|second| {
                let id = add_peer(&mut cx, Kind::Inbound);
                let remote = PeerAddress { address: NetAddress::V4([101, second, 0, 1]), port: 1 };
                let peer = cx.peers.get_mut(&id).unwrap();
                peer.target = Target::Peer(remote);
                Holder::of(peer, &groups)
            });
            assert_eq!([holders[0] == holders[1], holders[0] == holders[2]], want);
        }
    }

    /// One group's peers do not use up what all share; four groups do.
    #[test]
    fn one_group_has_a_quarter_of_what_is_shared() {
        let mut quota = HeaderQuota::default();
        for (number, holder) in (0..4).map(|number| (number, Holder::Inbound(group(20 + number)))) {
            assert!(!quota.is_used_up(Holder::Inbound(group(99))), "{number} groups have all of theirs");
            quota.add(holder, GROUP_AHEAD_COUNT_MAX);
            assert!(quota.is_used_up(holder));
        }
        assert!(quota.is_used_up(Holder::Inbound(group(99))), "nothing is left");
        assert!(!quota.is_used_up(Holder::Automatic(group(99))));
        quota.set_tip(Height::new(1));
        assert!(!quota.is_used_up(Holder::Inbound(group(99))));
    }
}
