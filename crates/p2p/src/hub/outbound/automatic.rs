//! Automatic connections: which kind is next, and to which address.
//!
//! In this order: block-relay-only peers of the last run (anchors); up to [`Config::outbound_count`] full-relay
//! peers; up to [`Config::block_relay_count`] block-relay-only peers; one extra full-relay peer while our tip is
//! stale; occasionally an extra block-relay-only peer, to learn of a better tip; every two minutes a feeler, to test
//! an address; and occasionally a peer in a network without one.
//!
//! At most one peer of each IPv4 and IPv6 network group. Ports of other services are not connected to.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `ThreadOpenConnections`. Unlike Core, such a port is not accepted even
//! after 50 draws, several connections are made at a time, and if a discouraged or banned address is drawn, another
//! is drawn.

use super::super::context::Context;
use super::{
    DIAL_COUNT_MAX, DIAL_INTERVAL, Dialed, Failures, Outbound, can_reach, is_of_other_service, may_offer_enough,
};
use crate::addresses::{Addresses, From, Networks};
use crate::api::{Config, Reachable};
use crate::peer::Kind;
use crate::rng::Rng;
use crate::time::Now;
use crate::wire::{AddressEntry, Group, NetAddress, PeerAddress, Target, services};
use std::collections::HashSet;
use std::time::Duration;

/// Mean interval between two feelers. Source: Core's `FEELER_INTERVAL`.
pub const FEELER_INTERVAL: Duration = Duration::from_secs(2 * 60);
/// Mean interval between two extra block-relay-only peers. Source: Core's `EXTRA_BLOCK_RELAY_ONLY_PEER_INTERVAL`.
pub const EXTRA_BLOCK_RELAY_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Mean interval between two peers in a network without one. Source: Core's `EXTRA_NETWORK_PEER_INTERVAL`.
pub const EXTRA_NETWORK_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// With this number of full-relay connections, one to another network is made. Source: Core's
/// `MAX_OUTBOUND_FULL_RELAY_CONNECTIONS`.
const FULL_RELAY_COUNT: usize = 8;
/// Maximum number of addresses drawn for one connection. Source: Core.
const DRAW_COUNT_MAX: usize = 100;
/// Number of draws after which a recently tried address is accepted. Source: Core.
const DRAWS_OF_RESTED: usize = 30;
/// Time before an address is tried again. Source: Core.
const REST_S: i64 = 10 * 60;

/// State of automatic connections.
pub(super) struct Automatic {
    dialed_at: Option<Duration>,
    /// Block-relay-only peers of the last run that were not tried yet.
    anchors: Vec<AddressEntry>,
    feeler_at: Duration,
    extra_block_relay_at: Duration,
    network_at: Duration,
    /// Our tip is stale: an extra peer may know a better one.
    pub(super) wants_another: bool,
}

/// Type of the next connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Anchor,
    Of(Kind),
    /// Full relay, in the network with this BIP155 number.
    InNetwork(u8),
}

impl Next {
    fn kind(self) -> Kind {
        match self {
            Next::Anchor => Kind::BlockRelay,
            Next::Of(kind) => kind,
            Next::InNetwork(_) => Kind::Automatic,
        }
    }
}

/// The networks in which peers are sought.
pub(in super::super) fn reachable(config: &Config) -> Networks {
    let all = [(Reachable::Ipv4, 1), (Reachable::Ipv6, 2), (Reachable::Onion, 4)];
    let is_sought = |network: &Reachable| config.only_networks.is_empty() || config.only_networks.contains(network);
    let may = |network: &Reachable| *network != Reachable::Onion || config.reaches_onion();
    let sought = all.iter().filter(|(network, _)| is_sought(network) && may(network));
    sought.fold(Networks::NONE, |all, (_, number)| all.with(*number))
}

impl Automatic {
    pub(super) fn new(config: &Config, now: Now, rng: &mut Rng) -> Automatic {
        let mut after = |mean| now.since_start + rng.exponential(mean);
        Automatic {
            dialed_at: None,
            anchors: config.anchors.clone(),
            feeler_at: after(FEELER_INTERVAL),
            extra_block_relay_at: after(EXTRA_BLOCK_RELAY_INTERVAL),
            network_at: after(EXTRA_NETWORK_INTERVAL),
            wants_another: false,
        }
    }
}

/// A drawn address with its announced services.
struct Drawn {
    peer: PeerAddress,
    offered: u64,
}

impl Outbound {
    /// Connections of a kind, made or in progress.
    fn count(&self, cx: &Context, kind: Kind) -> usize {
        cx.peers.values().filter(|peer| peer.kind == kind).count() + self.count_of(kind)
    }

    /// Type of the next connection. Timers restart whether or not an address is found.
    fn next(&mut self, cx: &mut Context, addresses: &Addresses, at: Duration) -> Option<Next> {
        let full = self.count(cx, Kind::Automatic);
        let block_relay = self.count(cx, Kind::BlockRelay);
        let Config { outbound_count, block_relay_count, .. } = cx.config;
        let has_feeler = self.count(cx, Kind::Feeler) > 0;
        let automatic = &mut self.automatic_state;
        if !automatic.anchors.is_empty() && block_relay < block_relay_count {
            return Some(Next::Anchor);
        }
        if full < outbound_count {
            return Some(Next::Of(Kind::Automatic));
        }
        if block_relay < block_relay_count {
            return Some(Next::Of(Kind::BlockRelay));
        }
        if automatic.wants_another && full == outbound_count {
            return Some(Next::Of(Kind::Automatic));
        }
        let is_extra = block_relay_count > 0 && block_relay == block_relay_count && cx.has_caught_up();
        if is_extra && at > automatic.extra_block_relay_at {
            automatic.extra_block_relay_at = at + cx.rng.exponential(EXTRA_BLOCK_RELAY_INTERVAL);
            return Some(Next::Of(Kind::BlockRelay));
        }
        if !has_feeler && at > automatic.feeler_at {
            automatic.feeler_at = at + cx.rng.exponential(FEELER_INTERVAL);
            return Some(Next::Of(Kind::Feeler));
        }
        let may_extend = full == outbound_count && outbound_count == FULL_RELAY_COUNT;
        if may_extend && at > automatic.network_at {
            let network = self.network_without_peer(cx, addresses)?;
            self.automatic_state.network_at = at + cx.rng.exponential(EXTRA_NETWORK_INTERVAL);
            return Some(Next::InNetwork(network));
        }
        None
    }

    /// A network in which peers are sought, which has known addresses but no connected peer. Source: Core's
    /// `MaybePickPreferredNetwork`.
    fn network_without_peer(&self, cx: &mut Context, addresses: &Addresses) -> Option<u8> {
        let sought = reachable(&cx.config);
        let mut found: Vec<u8> = (1..=6).filter(|number| sought.has_number(usize::from(*number))).collect();
        found.retain(|number| addresses.count_of(*number) > 0 && super::extra::kept_in(cx, *number) == 0);
        let place = cx.rng.below(found.len());
        found.get(place).copied()
    }

    /// Begins the next automatic connection, if one is due.
    pub(super) fn seek_peer(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) {
        let at = now.since_start;
        let early = self.automatic_state.dialed_at.is_some_and(|last| at.saturating_sub(last) < DIAL_INTERVAL);
        let kinds = [Kind::Automatic, Kind::BlockRelay, Kind::Feeler, Kind::AddressFetch];
        let there: usize = kinds.into_iter().map(|kind| self.count(cx, kind)).sum();
        let is_full = there > cx.config.outbound_count + cx.config.block_relay_count;
        if early || is_full || self.dials.len() >= DIAL_COUNT_MAX {
            return;
        }
        let Some(next) = self.next(cx, addresses, at) else { return };
        addresses.resolve_collisions(now.unix);
        let kept = self.groups_of_kept(cx);
        let drawn = match next {
            Next::Anchor => self.next_anchor(cx, &kept.groups, now),
            Next::Of(_) | Next::InNetwork(_) => self.draw(cx, addresses, next, &kept.groups, now),
        };
        let Some(Drawn { peer, offered }) = drawn else { return };
        self.automatic_state.dialed_at = Some(at);
        let least = (cx.config.outbound_count + cx.config.block_relay_count).saturating_sub(1).min(2);
        let failures = if kept.count() >= least { Failures::Counted } else { Failures::NotCounted };
        match next {
            Next::Anchor => cx.debug(|| format!("Trying to make an anchor connection to {peer}")),
            Next::Of(Kind::Feeler) => cx.debug(|| format!("Making feeler connection to {peer}")),
            Next::Of(_) => {}
            Next::InNetwork(_) => {
                let network = peer.address.network_name();
                cx.debug(|| format!("Making network specific connection to {peer} on {network}."));
            }
        }
        // A peer that is not known to support v2 is connected with v1 at once; a second connection costs more than it
        // is worth.
        let v2 = offered & services::P2P_V2 != 0;
        let dialed = Dialed { failures, ..Dialed::with(next.kind(), Target::Peer(peer), v2) };
        self.dial(cx, dialed, now);
    }

    /// Removes anchors, the last first, until one may be connected to.
    fn next_anchor(&mut self, cx: &Context, groups: &HashSet<Group>, now: Now) -> Option<Drawn> {
        while let Some(anchor) = self.automatic_state.anchors.pop() {
            let address = anchor.peer.address;
            let may = address.is_valid()
                && can_reach(&cx.config, address)
                && may_offer_enough(anchor.services, cx.chain.initial_download())
                && !groups.contains(&cx.config.groups.group(address))
                && self.may_dial(cx, &anchor.peer, now);
            if may {
                return Some(Drawn { peer: anchor.peer, offered: anchor.services });
            }
        }
        None
    }

    /// Whether a connection is allowed, apart from rules for its type.
    fn may_dial(&self, cx: &Context, peer: &PeerAddress, now: Now) -> bool {
        !cx.is_shunned(&peer.address, now)
            && !self.is_connected(cx, &peer.address)
            && !cx.config.external.iter().any(|own| own.peer == *peer)
    }

    fn draw(
        &self,
        cx: &Context,
        addresses: &mut Addresses,
        next: Next,
        groups: &HashSet<Group>,
        now: Now,
    ) -> Option<Drawn> {
        let sought = reachable(&cx.config);
        let unix = i64::try_from(now.unix).unwrap_or(i64::MAX);
        let initial = cx.chain.initial_download();
        for draw in 1..=DRAW_COUNT_MAX {
            let entry = match next {
                Next::Of(Kind::Feeler) => self.draw_for_feeler(cx, addresses, sought, now)?,
                Next::InNetwork(number) => addresses.select(From::Both, Networks::NONE.with(number), now.unix)?,
                Next::Of(_) | Next::Anchor => addresses.select(From::Both, sought, now.unix)?,
            };
            let is_feeler = next == Next::Of(Kind::Feeler);
            let address = entry.peer.address;
            let is_rested = unix.saturating_sub(entry.last_try()) >= REST_S || draw >= DRAWS_OF_RESTED;
            let offers =
                if is_feeler { has_addresses(entry.services) } else { may_offer_enough(entry.services, initial) };
            let may = can_reach(&cx.config, address)
                && is_rested
                && offers
                && (is_feeler || !groups.contains(&cx.config.groups.group(address)))
                && !is_of_other_service(&cx.config, &entry.peer)
                && !self.is_named(&entry.peer)
                && self.may_dial(cx, &entry.peer, now);
            if may {
                return Some(Drawn { peer: entry.peer, offered: entry.services });
            }
        }
        None
    }

    /// An address in "tried" whose place another waits for; otherwise one from "new".
    fn draw_for_feeler(
        &self,
        cx: &Context,
        addresses: &mut Addresses,
        sought: Networks,
        now: Now,
    ) -> Option<crate::addresses::Entry> {
        match addresses.select_collision() {
            Some(entry) if is_made(cx, &entry.peer.address) => {
                // It is connected: it keeps its place.
                addresses.good(&entry.peer, now.unix);
            }
            Some(entry) if !self.is_dialing(&entry.peer.address) => return Some(entry),
            // Another connection is about to test it.
            Some(_) => {}
            None => {}
        }
        addresses.select(From::New, sought, now.unix)
    }

    /// Whether the user named this address: it has its own connection.
    fn is_named(&self, peer: &PeerAddress) -> bool {
        self.named.iter().any(|named| !named.is_removed && named.target == Target::Peer(*peer))
    }

    /// Whether we are connected to an address, or are connecting.
    fn is_connected(&self, cx: &Context, address: &NetAddress) -> bool {
        is_made(cx, address) || self.is_dialing(address)
    }

    /// Network groups of lasting outbound connections over IPv4 and IPv6, made or in progress.
    fn groups_of_kept(&self, cx: &Context) -> Kept {
        let is_kept = |kind: Kind| matches!(kind, Kind::Automatic | Kind::BlockRelay | Kind::Manual(_));
        let peers = cx.peers.values().filter(|peer| is_kept(peer.kind)).filter_map(|peer| peer.remote());
        let mut kept = Kept::default();
        let mut add = |peer: &PeerAddress, is_made: bool| {
            if peer.address.is_ip() {
                let group = cx.config.groups.group(peer.address);
                kept.groups.insert(group);
                kept.made.extend(is_made.then_some(group));
            } else if is_made {
                kept.private_count += 1;
            }
        };
        peers.for_each(|peer| add(peer, true));
        for dial in self.dials.values().filter(|dial| is_kept(dial.of.kind)) {
            if let Target::Peer(peer) = &dial.of.target {
                add(peer, false);
            }
        }
        kept
    }
}

/// Locations of the lasting outbound peers.
#[derive(Default)]
struct Kept {
    /// Groups of IPv4 and IPv6, including connections in progress.
    groups: HashSet<Group>,
    /// Groups of finished connections only.
    made: HashSet<Group>,
    /// Peers of other networks.
    private_count: usize,
}

impl Kept {
    /// Number of distinct locations in the network: fewer than two may mean that we are offline.
    fn count(&self) -> usize {
        self.made.len() + self.private_count
    }
}

/// Whether a connection to an address was made.
fn is_made(cx: &Context, address: &NetAddress) -> bool {
    cx.peers.values().any(|peer| peer.remote().is_some_and(|remote| remote.address == *address))
}

/// Whether a peer with these services has a useful address memory. Source: Core's `MayHaveUsefulAddressDB`.
pub(in super::super) fn has_addresses(offered: u64) -> bool {
    offered & (services::NETWORK | services::NETWORK_LIMITED) != 0
}
