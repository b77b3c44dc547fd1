//! Outbound connections, named by the user or automatic, and why they fail. Sources of addresses: [`seeds`].
//!
//! Absent on purpose: the address memory ([`crate::addresses`]), and the use of a connection.

pub mod automatic;
pub mod extra;
mod fixed_seeds;
pub mod seeds;

use super::Action;
use super::context::Context;
use crate::addresses::Addresses;
use crate::api::{self, Config, Event, PeerId};
use crate::bad_ports;
use crate::facts::DialFacts;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use crate::trouble::{DialError, TroubleKind, Troubles};
use crate::wire::{NetAddress, PeerAddress, Target, TargetError, services};
use automatic::Automatic;
use extra::Extra;
use fixed_seeds::FixedSeeds;
use seeds::Seeds;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of connection attempts at a time.
pub const DIAL_COUNT_MAX: usize = 8;
/// Interval between two automatic connection attempts. Source: Core's `ThreadOpenConnections`.
pub const DIAL_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before a named peer is tried again, doubled up to [`RETRY_MAX`].
pub const RETRY_MIN: Duration = Duration::from_secs(1);
/// Maximum of that delay. Core tries `-addnode` every minute.
pub const RETRY_MAX: Duration = Duration::from_secs(60);
/// Maximum duration of an address-fetch connection. Source: Core's ten times `AVG_ADDRESS_BROADCAST_INTERVAL`.
pub const ADDRESS_FETCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long from the start header sync waits for a named peer that cannot be reached.
pub const NAMED_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of peers that the user may name in one run.
pub const NAMED_COUNT_MAX: usize = 10_000;

/// Maximum number of automatic connections: of [`Config::outbound_count`].
pub const OUTBOUND_COUNT_MAX: usize = 12;

/// A connection to be made.
pub(super) struct Dialed {
    pub(super) kind: Kind,
    pub(super) target: Target,
    /// Whether v2 is tried first, if we support it.
    pub(super) v2: bool,
    pub(super) failures: Failures,
}

/// Whether a failure counts in the address memory: not if we may be offline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failures {
    Counted,
    NotCounted,
}

impl Dialed {
    pub(super) fn of(kind: Kind, target: Target) -> Dialed {
        Dialed::with(kind, target, true)
    }

    pub(super) fn with(kind: Kind, target: Target, v2: bool) -> Dialed {
        Dialed { kind, target, v2, failures: Failures::NotCounted }
    }
}

/// A connection attempt in progress.
struct Dial {
    of: Dialed,
    begun_at: Duration,
}

/// A peer that the user named.
struct Named {
    target: Target,
    /// Whether it is connected or connecting.
    taken: bool,
    next_at: Duration,
    wait: Duration,
    /// Header sync waits for its chain: it has neither sent the chain nor failed.
    awaited: bool,
    /// The user removed it; its index stays reserved because indices identify named peers.
    is_removed: bool,
}

impl Named {
    fn new(target: Target, now: Now) -> Named {
        Named { target, taken: false, next_at: now.since_start, wait: RETRY_MIN, awaited: true, is_removed: false }
    }
}

/// State of outbound connections.
pub(super) struct Outbound {
    named: Vec<Named>,
    automatic: bool,
    automatic_state: Automatic,
    extra: Extra,
    dials: BTreeMap<PeerId, Dial>,
    /// Names being looked up, and since when.
    resolving: BTreeMap<String, Duration>,
    started_at: Duration,
    begun_count: u64,
    made_count: u64,
    /// Why connections fail.
    troubles: Troubles,
    seeds: Seeds,
    fixed_seeds: FixedSeeds,
}

impl Outbound {
    pub(super) fn new(config: &Config, now: Now, rng: &mut Rng) -> Result<Outbound, TargetError> {
        let only = match &config.outbound {
            api::Outbound::Only(list) => &list[..],
            api::Outbound::Automatic => &[],
        };
        let named = only
            .iter()
            .chain(&config.add_nodes)
            .map(|text| Ok(Named::new(Target::parse(text, config.network.port)?, now)));
        let automatic = config.outbound == api::Outbound::Automatic;
        Ok(Outbound {
            named: named.collect::<Result<_, _>>()?,
            automatic,
            automatic_state: Automatic::new(config, now, rng),
            extra: Extra::new(now),
            dials: BTreeMap::new(),
            resolving: BTreeMap::new(),
            started_at: now.since_start,
            begun_count: 0,
            made_count: 0,
            troubles: Troubles::default(),
            seeds: Seeds::new(config, now)?,
            fixed_seeds: FixedSeeds::default(),
        })
    }

    /// A connection was made: ends its attempt, and forgets the errors that it disproves. `None`: the network was
    /// turned off meanwhile, and the connection is closed.
    pub(super) fn made(&mut self, cx: &mut Context, addresses: &mut Addresses, id: PeerId, now: Now) -> Option<Dialed> {
        let dialed = self.dials.remove(&id)?.of;
        self.made_count += 1;
        self.troubles.connected(&dialed.target, cx.config.proxy_of(&dialed.target).is_some());
        note_attempt(addresses, &dialed, now);
        if cx.is_off {
            self.failed(dialed.kind, false, now);
            cx.ask(Action::Close { peer: id });
            return None;
        }
        Some(dialed)
    }

    /// A connection attempt failed: logs one line for each kind of error, and counts the rest.
    pub(super) fn not_made(
        &mut self,
        cx: &mut Context,
        addresses: &mut Addresses,
        id: PeerId,
        error: &DialError,
        now: Now,
    ) {
        let Some(Dial { of: dialed, .. }) = self.dials.remove(&id) else { return };
        // A proxy that cannot be reached says nothing of the peer.
        if error.kind != TroubleKind::ProxyUnreachable {
            note_attempt(addresses, &dialed, now);
        }
        self.failed(dialed.kind, false, now);
        let target = dialed.target.to_string();
        let line = format!("connection to {target} failed: {error}");
        if self.troubles.meet(error, &target, now.since_start) {
            cx.event(Event::Note(format!("{line}. Repeats are counted, not logged")));
        } else {
            cx.debug(|| line);
        }
    }

    /// An outbound connection ended. Returns whether that is reported: before the handshake only the first time for
    /// each peer.
    pub(super) fn ended(&mut self, peer: &Peer, reason: &Reason, now: Now) -> bool {
        let offence = reason.is_offence() || matches!(reason, Reason::OnInvalidChain(_));
        self.failed(peer.kind, offence, now);
        match reason {
            Reason::Stopping | Reason::Asked | Reason::Banned | Reason::FeelerDone => true,
            _ if peer.is_ready() || !peer.is_outbound() => true,
            _ => self.troubles.ended(&peer.target.to_string(), &reason.to_string(), now.since_start),
        }
    }

    /// Facts about outbound connections, without the number of addresses, which another part knows.
    pub(super) fn facts(&self, now: Duration) -> DialFacts {
        DialFacts {
            named_count: self.named.iter().filter(|named| !named.is_removed).count(),
            is_automatic: self.automatic,
            known_count: 0,
            begun_count: self.begun_count,
            made_count: self.made_count,
            open_count: self.dials.len(),
            lookup_count: self.resolving.len(),
            troubles: self.troubles.list(now),
        }
    }

    /// A connection of this kind ended, or an attempt failed. After misbehaviour the delay is longest.
    fn failed(&mut self, kind: Kind, offence: bool, now: Now) {
        let Kind::Manual(place) = kind else { return };
        let Some(named) = self.named.get_mut(place) else { return };
        named.taken = false;
        if offence {
            named.wait = RETRY_MAX;
            named.awaited = false;
        }
        named.next_at = now.since_start + named.wait;
        named.wait = (named.wait * 2).min(RETRY_MAX);
    }

    /// The handshake with a peer succeeded.
    pub(super) fn succeeded(&mut self, kind: Kind, address: &str) {
        self.troubles.shaken(address);
        if let Kind::Manual(place) = kind
            && let Some(named) = self.named.get_mut(place)
        {
            named.wait = RETRY_MIN;
        }
    }

    fn is_dialing(&self, address: &NetAddress) -> bool {
        self.dials.values().any(|dial| matches!(&dial.of.target, Target::Peer(peer) if peer.address == *address))
    }

    /// Whether a connection attempt began within `age`.
    pub(super) fn has_young(&self, age: Duration, now: Now) -> bool {
        self.dials.values().any(|dial| now.since_start.saturating_sub(dial.begun_at) < age)
    }

    /// A named peer has sent its chain, or will not.
    pub(super) fn heard(&mut self, kind: Kind) {
        if let Kind::Manual(place) = kind
            && let Some(named) = self.named.get_mut(place)
        {
            named.awaited = false;
        }
    }

    /// Whether peers with a better chain may still connect: named ones that were not reached, or those of the first
    /// lookups of seeds. Header sync does not wait for later lookups, which may go on indefinitely.
    pub(super) fn may_bring_more(&self, now: Now) -> bool {
        let is_early = |at: Duration| at.saturating_sub(self.started_at) < NAMED_PATIENCE;
        let early = is_early(now.since_start);
        let resolving = self.resolving.values().any(|at| is_early(*at));
        let is_named = |dial: &Dial| matches!(dial.of.kind, Kind::Manual(_));
        let unreached = self.named.iter().any(|named| named.awaited && !named.taken && !named.is_removed);
        resolving || (early && (unreached || self.dials.values().any(is_named)))
    }

    /// Adds a peer that the user names.
    pub(super) fn add_named(&mut self, target: Target, now: Now) {
        if let Some(known) = self.named.iter_mut().find(|named| named.target == target) {
            known.is_removed = false;
        } else if self.named.len() < NAMED_COUNT_MAX {
            // No sync waits for it: header sync may already be complete.
            self.named.push(Named { awaited: false, ..Named::new(target, now) });
        }
    }

    /// Removes a named peer; a connection to it stays.
    pub(super) fn remove_named(&mut self, target: &Target) {
        self.named.iter_mut().filter(|named| named.target == *target).for_each(|named| named.is_removed = true);
    }

    /// Number of connection attempts in progress.
    fn dial_count(&self) -> usize {
        self.dials.len()
    }

    /// Records that a name is to be looked up; returns false if a lookup is in progress.
    fn begin_resolving(&mut self, name: &str, now: Now) -> bool {
        self.resolving.insert(name.to_owned(), now.since_start).is_none()
    }

    /// Records that a lookup has ended.
    fn end_resolving(&mut self, name: &str) {
        self.resolving.remove(name);
    }

    /// Whether a name is being looked up.
    fn is_resolving(&self) -> bool {
        !self.resolving.is_empty()
    }

    /// Number of connection attempts of this kind in progress.
    pub(super) fn count_of(&self, kind: Kind) -> usize {
        self.dials.values().filter(|dial| dial.of.kind == kind).count()
    }
}

/// Records a connection attempt. Source: Bitcoin Core b88bffe, `CConnman::ConnectNode`.
fn note_attempt(addresses: &mut Addresses, dialed: &Dialed, now: Now) {
    if let Target::Peer(peer) = &dialed.target {
        addresses.attempted(peer, dialed.failures == Failures::Counted, now.unix);
    }
}

/// Whether an address-fetch connection has timed out.
pub(super) fn is_fetched(peer: &Peer, now: Now) -> bool {
    let age = now.since_start.saturating_sub(peer.connected_at());
    peer.kind == Kind::AddressFetch && age > ADDRESS_FETCH_TIMEOUT
}

/// Whether an automatic peer offers the required services in its `version` message.
pub(super) fn offers_enough(offered: u64, initial_download: bool) -> bool {
    may_offer_enough(offered, initial_download) && offered & services::OTHER_CHAIN == 0
}

/// Whether a peer at an address with these services in gossip, peers.dat or anchors.dat may offer enough.
///
/// Gossip can add any bit to any address, so no bit may count against an address. That of another chain counts only
/// in a `version` message: otherwise one peer could exclude all honest addresses.
pub(super) fn may_offer_enough(told: u64, initial_download: bool) -> bool {
    let expected = expected_services(told, initial_download);
    told & expected == expected
}

/// Services that an automatic peer must offer: witnesses, and all blocks, or after initial download only the last ones.
/// Source: Bitcoin Core b88bffe, `GetDesirableServiceFlags`.
pub(super) fn expected_services(offered: u64, initial_download: bool) -> u64 {
    let is_limited = offered & services::NETWORK_LIMITED != 0 && !initial_download;
    services::WITNESS | if is_limited { services::NETWORK_LIMITED } else { services::NETWORK }
}

/// Whether the port belongs to another service: gossip may name any port. Source: Bitcoin Core b88bffe,
/// `ThreadOpenConnections`.
fn is_of_other_service(config: &Config, peer: &PeerAddress) -> bool {
    let has_ports = matches!(peer.address, NetAddress::V4(_) | NetAddress::V6(_));
    has_ports && peer.port != config.network.port && bad_ports::is_bad(peer.port)
}

/// Whether peers at such an address are sought.
pub(super) fn can_reach(config: &Config, address: NetAddress) -> bool {
    automatic::reachable(config).has_number(address.network().into())
}

impl Outbound {
    /// Begins a connection attempt.
    pub(super) fn dial(&mut self, cx: &mut Context, dialed: Dialed, now: Now) {
        if cx.is_off {
            return;
        }
        let peer = cx.new_id();
        let Dialed { kind, target, v2, failures } = dialed;
        let v2 = v2 && cx.config.v2transport;
        if let Kind::Manual(place) = kind
            && let Some(named) = self.named.get_mut(place)
        {
            named.taken = true;
        }
        cx.debug(|| {
            // Source of the words: Bitcoin Core b88bffe, net.cpp, `ConnectNode`.
            let version = if v2 { "v2" } else { "v1" };
            format!("trying {version} connection ({}) to {target}, lastseen=0.0hrs", kind.name())
        });
        self.begun_count += 1;
        let of = Dialed { kind, target: target.clone(), v2, failures };
        self.dials.insert(peer, Dial { of, begun_at: now.since_start });
        cx.ask(Action::Dial { peer, target });
    }

    /// Begins the connection attempts that are due.
    pub(super) fn tick(&mut self, cx: &mut Context, addresses: &mut Addresses, now: Now) {
        self.troubles.forget(now.since_start);
        if cx.is_off {
            return;
        }
        for place in 0..self.named.len() {
            let named = &self.named[place];
            let is_due = !named.taken && !named.is_removed && named.next_at <= now.since_start;
            if is_due && self.dials.len() < DIAL_COUNT_MAX {
                let target = named.target.clone();
                self.dial(cx, Dialed::of(Kind::Manual(place), target), now);
            }
        }
        self.seek_addresses(cx, addresses, now);
        if self.automatic {
            self.seek_fixed_seeds(cx, addresses, now);
            self.seek_peer(cx, addresses, now);
        }
    }

    /// Whether a disconnected peer can be replaced by another.
    pub(super) fn can_replace(&self, cx: &Context, addresses: &Addresses) -> bool {
        self.automatic && addresses.count() > cx.config.outbound_count
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::alone::{actions, add_peer, context, now};
    use super::*;
    use crate::sim::Chain;
    use crate::trouble::TroubleKind;
    use std::sync::Arc;

    fn dialed(cx: &mut Context) -> Vec<PeerId> {
        let dials = actions(cx).into_iter();
        dials.filter_map(|action| if let Action::Dial { peer, .. } = action { Some(peer) } else { None }).collect()
    }

    /// Seconds at which a named peer is connected to that refuses each time.
    #[test]
    fn named_peer_is_tried_again_after_twice_the_time() {
        let mut cx = context(&Arc::new(Chain::new()));
        cx.config.outbound = api::Outbound::Only(vec!["9.9.9.9:1".to_owned()]);
        let mut addresses = Addresses::plain(&mut Rng::Seeded(1));
        let mut outbound = Outbound::new(&cx.config, now(0), &mut Rng::Seeded(1)).unwrap();
        let refused = DialError::of_peer(TroubleKind::Refused, "refused");
        let mut tried = Vec::new();
        for second in 0..200 {
            outbound.tick(&mut cx, &mut addresses, now(second));
            for id in dialed(&mut cx) {
                tried.push(second);
                outbound.not_made(&mut cx, &mut addresses, id, &refused, now(second));
            }
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
        let facts = outbound.facts(now(200).since_start);
        assert_eq!((facts.begun_count, facts.made_count, facts.troubles[0].count), (9, 0, 9));
        // Nobody is connected to while a person wants no connections, nor one that a person takes back.
        cx.is_off = true;
        outbound.tick(&mut cx, &mut addresses, now(400));
        cx.is_off = false;
        outbound.remove_named(&Target::parse("9.9.9.9:1", 1).unwrap());
        outbound.tick(&mut cx, &mut addresses, now(401));
        assert_eq!(dialed(&mut cx), []);
    }

    /// An address whose test a proxy prevented keeps its place in "tried".
    #[test]
    fn only_an_attempt_that_the_proxy_made_is_recorded() {
        let peer = PeerAddress { address: NetAddress::V4([9, 9, 9, 9]), port: 8333 };
        for (kind, want) in [
            (TroubleKind::ProxyUnreachable, 0),
            (TroubleKind::ProxyRefuses, now(7).unix as i64),
            (TroubleKind::Refused, now(7).unix as i64),
        ] {
            let mut cx = context(&Arc::new(Chain::new()));
            let mut addresses = Addresses::plain(&mut Rng::Seeded(1));
            let mut outbound = Outbound::new(&cx.config, now(0), &mut Rng::Seeded(1)).unwrap();
            let told = crate::wire::AddressEntry { peer, services: services::NETWORK, time: now(1).unix as u32 };
            addresses.add(&[told], peer.address, 0, now(1).unix);
            outbound.dial(&mut cx, Dialed::of(Kind::Feeler, Target::Peer(peer)), now(6));
            let [id] = dialed(&mut cx)[..] else { panic!("one dial") };
            outbound.not_made(&mut cx, &mut addresses, id, &DialError::of_peer(kind, "it failed"), now(7));
            let entry = addresses.entry(&peer).unwrap();
            assert_eq!(entry.last_try(), want, "{kind:?}");
        }
    }

    #[test]
    fn dial_that_was_made_is_no_dial_any_more() {
        let mut cx = context(&Arc::new(Chain::new()));
        let mut addresses = Addresses::plain(&mut Rng::Seeded(1));
        let mut outbound = Outbound::new(&cx.config, now(0), &mut Rng::Seeded(1)).unwrap();
        let target = Target::parse("9.9.9.9:1", 1).unwrap();
        outbound.dial(&mut cx, Dialed::of(Kind::Automatic, target.clone()), now(1));
        let [id] = dialed(&mut cx)[..] else { panic!("one dial") };
        assert_eq!((outbound.count_of(Kind::Automatic), outbound.has_young(RETRY_MIN, now(1))), (1, true));
        let made = outbound.made(&mut cx, &mut addresses, id, now(2)).expect("it was dialed");
        assert_eq!((made.kind, made.target, outbound.count_of(Kind::Automatic)), (Kind::Automatic, target, 0));
        assert!(outbound.made(&mut cx, &mut addresses, id, now(2)).is_none(), "once");
        let peer = add_peer(&mut cx, Kind::Automatic);
        assert!(outbound.ended(&cx.peers[&peer], &Reason::Closed, now(2)), "its handshake was done: people are told");
    }
}
