//! Inbound slots: how many one address or network may use, and which peer is evicted.
//!
//! - One address may use at most a quarter of the slots, one network group at most half. Addresses that are not
//!   routable (a local network) are not counted: those peers are the user's own.
//! - If all slots are used, a peer without a finished handshake after [`HALF_OPEN_GRACE`] is evicted first: the
//!   oldest one of the network group with most of them.
//! - Then Core's rule applies to all peers, with or without a finished handshake. Protected are the best
//!   [`PROTECTED_BY_GROUP`] by a keyed hash of their network group, [`PROTECTED_BY_PING`] by their shortest ping, up
//!   to [`PROTECTED_FOR_BLOCKS`] useful block-relay-only peers and [`PROTECTED_BY_BLOCK`] others by the last block
//!   that they delivered, and half of the rest by the age of their connection; up to half of these are local
//!   connections (such as those of a Tor service). Of the remaining peers, those that misbehaved before are evicted
//!   first; among them the youngest of the network group with most connections. If all are protected, the new
//!   connection is refused. If only one slot is free, a connection from a discouraged address is refused.
//! - A peer with the permission `noban` is not counted by address or network, and is never evicted.
//!
//! Source: Bitcoin Core b88bffe, node/eviction.cpp, `SelectNodeToEvict`. Absent: Core's criteria about transactions,
//! which this node does not relay, and about I2P and CJDNS, on which it does not listen.

use super::context::Context;
use super::outbound::expected_services;
use crate::api::PeerId;
use crate::peer::Peer;
use crate::permissions::Permissions;
use crate::rng::{Rng, keyed_hash};
use crate::time::Now;
use crate::wire::{Group, NetAddress, Target};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for a handshake before the peer may be evicted.
pub const HALF_OPEN_GRACE: Duration = Duration::from_secs(1);
/// Peers protected by a keyed hash of their network group. Source: Core.
pub const PROTECTED_BY_GROUP: usize = 4;
/// Peers protected by their shortest ping. Source: Core.
pub const PROTECTED_BY_PING: usize = 8;
/// Peers protected by the last block that they delivered. Source: Core.
pub const PROTECTED_BY_BLOCK: usize = 4;

/// Block-relay-only peers protected by the last block that they delivered. Source: Core.
pub const PROTECTED_FOR_BLOCKS: usize = 8;

/// Properties of a peer that decide about its eviction.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: PeerId,
    group: Group,
    keyed_group: u64,
    connected_at: Duration,
    round_trip: Option<Duration>,
    last_block_at: Option<Duration>,
    /// It relays no transactions, and offers the services that we look for.
    is_for_blocks: bool,
    is_local: bool,
    /// Its address is discouraged.
    is_discouraged: bool,
}

/// Removes `count` candidates from the list: the last ones in the order of `key`.
fn protect<K: Ord>(candidates: &mut Vec<Candidate>, count: usize, key: impl Fn(&Candidate) -> K) {
    protect_those(candidates, count, key, |_| true);
}

/// Of the last `count` candidates in the order of `key`, removes only those for which `may` is true.
fn protect_those<K: Ord>(
    candidates: &mut Vec<Candidate>,
    count: usize,
    key: impl Fn(&Candidate) -> K,
    may: impl Fn(&Candidate) -> bool,
) {
    candidates.sort_by_key(|candidate| key(candidate));
    let last = candidates.split_off(candidates.len().saturating_sub(count));
    candidates.extend(last.into_iter().filter(|candidate| !may(candidate)));
}

/// Members of the network group with most candidates; of equal groups, the one with the youngest member.
fn largest_group(candidates: &[Candidate]) -> Vec<Candidate> {
    let mut groups: BTreeMap<&[u8], Vec<Candidate>> = BTreeMap::new();
    for candidate in candidates {
        groups.entry(candidate.group.bytes()).or_default().push(*candidate);
    }
    let youngest = |group: &[Candidate]| group.iter().map(|candidate| candidate.connected_at).max();
    groups.into_values().max_by_key(|group| (group.len(), youngest(group))).unwrap_or_default()
}

/// The peer to evict.
fn select(mut candidates: Vec<Candidate>) -> Option<PeerId> {
    protect(&mut candidates, PROTECTED_BY_GROUP, |c| c.keyed_group);
    protect(&mut candidates, PROTECTED_BY_PING, |c| {
        (Reverse(c.round_trip.unwrap_or(Duration::MAX)), Reverse(c.connected_at))
    });
    let by_block = |c: &Candidate| (c.is_for_blocks, c.last_block_at, Reverse(c.connected_at));
    protect_those(&mut candidates, PROTECTED_FOR_BLOCKS, by_block, |c| c.is_for_blocks);
    protect(&mut candidates, PROTECTED_BY_BLOCK, |c| (c.last_block_at, Reverse(c.connected_at)));
    let before = candidates.len();
    let half = candidates.len() / 2;
    protect_those(&mut candidates, half / 2, |c| (c.is_local, Reverse(c.connected_at)), |c| c.is_local);
    let left = half.saturating_sub(before - candidates.len());
    protect(&mut candidates, left, |c| Reverse(c.connected_at));
    if candidates.iter().any(|c| c.is_discouraged) {
        candidates.retain(|c| c.is_discouraged);
    }
    largest_group(&candidates).into_iter().max_by_key(|c| c.connected_at).map(|c| c.id)
}

/// The slot of a new inbound peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboundPlace {
    /// A free slot.
    Free,
    /// The slot of this peer, which is to be evicted.
    Of(PeerId),
    /// There is no slot.
    None,
}

/// The inbound slots.
pub(super) struct Places {
    /// Secret key of the order in which network groups are protected.
    key: u64,
}

impl Places {
    pub(super) fn new(rng: &mut Rng) -> Places {
        Places { key: rng.number() }
    }

    /// The slot for a connection from this address. `last_block_at` returns when a peer last delivered a block.
    pub(super) fn place(
        &self,
        cx: &Context,
        last_block_at: impl Fn(PeerId) -> Option<Duration>,
        remote: &NetAddress,
        permissions: Permissions,
        now: Now,
    ) -> InboundPlace {
        let places = cx.config.inbound_count_max;
        let inbound = || cx.peers.values().filter(|peer| !peer.is_outbound());
        let of = |peer: &Peer| match &peer.target {
            Target::Peer(peer) => Some(peer.address),
            Target::Name(..) => None,
        };
        if remote.is_routable() && !permissions.has(Permissions::NOBAN) {
            let same = inbound().filter(|peer| of(peer) == Some(*remote)).count();
            let group = inbound()
                .filter(|peer| {
                    of(peer).is_some_and(|other| cx.config.groups.group(other) == cx.config.groups.group(*remote))
                })
                .count();
            if same >= places.div_ceil(4) || group >= places.div_ceil(2) {
                return InboundPlace::None;
            }
        }
        let count = inbound().count();
        let is_refused = cx.discouraged.has(remote, now.unix) && !permissions.has(Permissions::NOBAN);
        if is_refused && count + 1 >= places {
            return InboundPlace::None;
        }
        if count < places {
            return InboundPlace::Free;
        }
        self.place_to_free(cx, last_block_at, now).map_or(InboundPlace::None, InboundPlace::Of)
    }

    fn place_to_free(
        &self,
        cx: &Context,
        last_block_at: impl Fn(PeerId) -> Option<Duration>,
        now: Now,
    ) -> Option<PeerId> {
        let candidate = |peer: &Peer| {
            let Target::Peer(remote) = &peer.target else { return None };
            let group = cx.config.groups.group(remote.address);
            Some(Candidate {
                id: peer.id,
                group,
                keyed_group: keyed_hash(self.key, group.bytes()),
                connected_at: peer.connected_at(),
                round_trip: peer.round_trip(),
                last_block_at: last_block_at(peer.id),
                is_for_blocks: peer.version().is_some_and(|version| !version.relay) && is_of_use(cx, peer),
                is_local: remote.address.is_loopback(),
                is_discouraged: cx.discouraged.has(&remote.address, now.unix),
            })
        };
        let inbound = || cx.peers.values().filter(|peer| !peer.is_outbound() && !peer.is_noban());
        let is_late = |peer: &&Peer| now.since_start.saturating_sub(peer.connected_at()) >= HALF_OPEN_GRACE;
        let half_open: Vec<_> =
            inbound().filter(|peer| !peer.is_ready()).filter(is_late).filter_map(candidate).collect();
        let oldest = largest_group(&half_open).into_iter().min_by_key(|c| c.connected_at);
        oldest.map(|c| c.id).or_else(|| select(inbound().filter_map(candidate).collect()))
    }
}

/// Source: Bitcoin Core b88bffe, `HasAllDesirableServiceFlags`.
fn is_of_use(cx: &Context, peer: &Peer) -> bool {
    let expected = expected_services(peer.services(), cx.chain.initial_download());
    peer.services() & expected == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u64, group: u8) -> Candidate {
        Candidate {
            id: PeerId(id),
            group: NetAddress::V4([group, 1, 0, 0]).group(),
            keyed_group: u64::from(group),
            connected_at: Duration::from_secs(id),
            round_trip: None,
            last_block_at: None,
            is_for_blocks: false,
            is_local: false,
            is_discouraged: false,
        }
    }

    #[test]
    fn select_follows_cores_protections() {
        // Forty peers of the same kind from one network, and one each from four others with the highest keys.
        let crowd = || (0..40).map(|id| candidate(id, 1)).chain((0..4).map(|i| candidate(100 + i, 200 + i as u8)));
        assert_eq!(select(crowd().collect()), Some(PeerId(39)), "the youngest of the largest group");
        let with = |change: fn(&mut Candidate)| {
            let changed = crowd().map(|mut c| {
                if c.id.0 >= 36 && c.id.0 < 40 {
                    change(&mut c);
                }
                c
            });
            select(changed.collect()).map(|id| id.0)
        };
        for (row, change, want) in [
            (
                "quick pings are protected",
                (|c| c.round_trip = Some(Duration::from_millis(c.id.0))) as fn(&mut Candidate),
                35,
            ),
            ("who gave blocks is protected", |c| c.last_block_at = Some(Duration::from_secs(c.id.0)), 35),
            ("the highest keys are protected", |c| c.keyed_group = u64::MAX - c.id.0, 35),
            ("who wants blocks alone is protected", |c| c.is_for_blocks = true, 35),
            ("those of this machine are protected", |c| c.is_local = true, 35),
            ("who misbehaved goes first", |c| c.is_discouraged = c.id.0 == 37, 37),
        ] {
            assert_eq!(with(change), Some(want), "{row}");
        }
        assert_eq!(select((0..16).map(|id| candidate(id, 1)).collect()), None, "all are protected");
        assert_eq!(select(Vec::new()), None);
    }
}
