//! Address relay: which peers get which addresses, when, and our own address.
//!
//! - A peer takes part once it was asked for addresses, or sent a message about them itself; a block-relay-only peer
//!   or a feeler never does.
//! - An address from a small message, seen within the last ten minutes, goes to two peers, the same ones for a day;
//!   if we do not reach its network, to one or two.
//! - Addresses for a peer wait half a minute on average, so that their timing reveals little about their origin.
//! - Our own address is sent when a peer begins to take part, in a message of its own, and about once a day.
//! - A peer does not get addresses that it sent, or was sent already, within the bounded memory of
//!   `KnownAddresses`.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `ProcessAddrs`, `RelayAddress`, `PushAddress`, `MaybeSendAddr`,
//! `SetupAddressRelay`; net.cpp, `GetLocal`. Absent on purpose: the address memory, and the answers to `getaddr`.

use super::context::Context;
use super::outbound::automatic::{has_addresses, reachable};
use super::outbound::may_offer_enough;
use crate::api::PeerId;
use crate::own_addresses;
use crate::peer::{Kind, Peer};
use crate::permissions::Permissions;
use crate::rng::{Rng, keyed_hash};
use crate::time::Now;
use crate::wire::{AddressEntry, Message, NetAddress, PeerAddress, limits};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Mean interval between two address messages to a peer. Source: Core's `AVG_ADDRESS_BROADCAST_INTERVAL`.
pub const SEND_INTERVAL: Duration = Duration::from_secs(30);
/// Mean interval between two announcements of our own address. Source: Core's `AVG_LOCAL_ADDRESS_BROADCAST_INTERVAL`.
pub const OWN_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// How long an address is relayed to the same peers, in seconds. Source: Core's `ROTATE_ADDR_RELAY_DEST_INTERVAL`.
const ROTATION_S: u64 = 24 * 3600;
/// Maximum number of addresses in a message that is relayed. Source: Core.
const RELAYED_COUNT_MAX: usize = 10;
/// A relayed address was seen within this time, in seconds. Source: Core.
const FRESH_S: u64 = 600;
/// A time before this one is not valid. Source: Core.
const TIME_MIN: u64 = 100_000_000;
/// Assumed age of an address without a valid time. Source: Core.
const UNKNOWN_AGE_S: u64 = 5 * 24 * 3600;
/// Minimum number of addresses remembered for each peer. Source: Core remembers 5,000, with one error in a thousand.
const REMEMBERED_COUNT: usize = 2500;

/// Addresses that a peer recently sent or was sent: two generations.
#[derive(Debug, Default)]
struct KnownAddresses {
    young: HashSet<u64>,
    old: HashSet<u64>,
}

impl KnownAddresses {
    fn has(&self, hash: u64) -> bool {
        self.young.contains(&hash) || self.old.contains(&hash)
    }

    /// Adds an address; returns whether it is new.
    fn add(&mut self, hash: u64) -> bool {
        if self.has(hash) {
            return false;
        }
        if self.young.len() >= REMEMBERED_COUNT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash)
    }
}

/// State of one peer.
#[derive(Debug, Default)]
struct Talk {
    /// Whether it takes part.
    is_on: bool,
    known: KnownAddresses,
    /// Addresses to be sent.
    queue: Vec<AddressEntry>,
    send_at: Duration,
    /// When our own address is sent next; `None`: it was never sent.
    own_at: Option<Duration>,
    /// It was asked for addresses, and its answer is outstanding.
    is_asked: bool,
}

/// Which addresses are relayed to which peers.
pub(super) struct AddressRelay {
    talks: BTreeMap<PeerId, Talk>,
    /// Secret of the choice of peers.
    key: u64,
}

/// Result of an address message.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Addresses for the address memory.
    pub(super) kept: Vec<AddressEntry>,
    /// Number of addresses in the message.
    pub(super) told_count: usize,
}

impl AddressRelay {
    pub(super) fn new(rng: &mut Rng) -> AddressRelay {
        AddressRelay { talks: BTreeMap::new(), key: rng.number() }
    }

    /// A connection was made.
    pub(super) fn add_peer(&mut self, id: PeerId) {
        self.talks.insert(id, Talk::default());
    }

    /// A connection ended.
    pub(super) fn remove_peer(&mut self, id: PeerId) {
        self.talks.remove(&id);
    }

    /// Whether a peer takes part.
    pub(super) fn is_on(&self, id: PeerId) -> bool {
        self.talks.get(&id).is_some_and(|talk| talk.is_on)
    }

    /// A peer sent a message about addresses, or is about to be asked for some; returns whether it takes part.
    pub(super) fn set_up(&mut self, peer: &Peer) -> bool {
        let may = !matches!(peer.kind, Kind::BlockRelay | Kind::Feeler);
        let Some(talk) = self.talks.get_mut(&peer.id) else { return false };
        talk.is_on |= may;
        may
    }

    /// Records that a peer is asked for addresses.
    pub(super) fn note_asked(&mut self, id: PeerId) {
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.is_asked = true;
        }
    }

    /// Handles addresses from a peer: relays those that qualify; returns those to be remembered.
    pub(super) fn hear(&mut self, cx: &mut Context, id: PeerId, mut told: Vec<AddressEntry>, now: Now) -> Heard {
        let told_count = told.len();
        let mut heard = Heard { kept: Vec::new(), told_count };
        // If there are too many, the peer cannot choose which are accepted.
        for place in (1..told.len()).rev() {
            let other = cx.rng.below(place + 1);
            told.swap(place, other);
        }
        let Some(peer) = cx.peers.get_mut(&id) else { return heard };
        let taken = peer.take_addresses(told_count, now);
        let initial = cx.chain.initial_download();
        let sought = reachable(&cx.config);
        let mut processed = 0;
        for mut entry in told.into_iter().take(taken) {
            if !has_addresses(entry.services) && !may_offer_enough(entry.services, initial) {
                continue;
            }
            entry.time = believed(entry.time, now);
            let hash = keyed_hash(self.key, entry.peer);
            let Some(talk) = self.talks.get_mut(&id) else { return heard };
            talk.known.add(hash);
            let address = entry.peer.address;
            if cx.is_shunned(&address, now) {
                continue;
            }
            processed += 1;
            let is_fresh = u64::from(entry.time) + FRESH_S > now.unix;
            let is_small = told_count <= RELAYED_COUNT_MAX && !talk.is_asked;
            let is_reachable = sought.has(address);
            if is_fresh && is_small && address.is_routable() {
                self.relay(cx, id, &entry, is_reachable, now);
            }
            if is_reachable {
                heard.kept.push(entry);
            }
        }
        if let Some(talk) = self.talks.get_mut(&id).filter(|_| told_count < limits::ADDRESS_COUNT_MAX) {
            talk.is_asked = false;
        }
        if let Some(peer) = cx.peers.get_mut(&id) {
            peer.note_addresses(told_count, taken, processed);
        }
        heard
    }

    /// Relays an address to two peers, or to one if we do not reach its network.
    fn relay(&mut self, cx: &mut Context, from: PeerId, entry: &AddressEntry, is_reachable: bool, now: Now) {
        let address_hash = keyed_hash(self.key, entry.peer);
        // Each address has its own time of day.
        let day = (now.unix.wrapping_add(address_hash % ROTATION_S)) / ROTATION_S;
        let choice = keyed_hash(self.key, (address_hash, day));
        let count = if is_reachable || choice & 1 != 0 { 2 } else { 1 };
        let may = |id: PeerId| {
            let is_on = id != from && self.is_on(id);
            is_on && cx.peers.get(&id).is_some_and(|peer| takes(peer, entry.peer.address))
        };
        let mut best: Vec<(u64, PeerId)> =
            self.talks.keys().filter(|id| may(**id)).map(|id| (keyed_hash(self.key, (choice, id)), *id)).collect();
        best.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in best.into_iter().take(count) {
            self.push(cx, id, entry);
        }
    }

    /// Queues an address for a peer, unless it knows it.
    fn push(&mut self, cx: &mut Context, id: PeerId, entry: &AddressEntry) {
        let hash = keyed_hash(self.key, entry.peer);
        let (Some(talk), Some(peer)) = (self.talks.get_mut(&id), cx.peers.get(&id)) else { return };
        let address = entry.peer.address;
        if talk.known.has(hash) || !address.is_valid() || !takes(peer, address) {
            return;
        }
        if talk.queue.len() < limits::ADDRESS_COUNT_MAX {
            talk.queue.push(entry.clone());
        } else {
            let place = cx.rng.below(talk.queue.len());
            talk.queue[place] = entry.clone();
        }
    }

    /// Queues the answer to `getaddr`, replacing all other addresses.
    pub(super) fn answer(&mut self, cx: &mut Context, id: PeerId, entries: &[AddressEntry]) {
        if let Some(talk) = self.talks.get_mut(&id) {
            talk.queue.clear();
        }
        entries.iter().for_each(|entry| self.push(cx, id, entry));
    }

    /// Sends a peer the addresses that are due.
    pub(super) fn send_due(&mut self, cx: &mut Context, id: PeerId, offered: u64, now: Now) {
        let at = now.since_start;
        let is_ready = cx.peers.get(&id).is_some_and(Peer::is_ready);
        if !is_ready || !self.is_on(id) {
            return;
        }
        self.tell_own(cx, id, offered, now);
        let key = self.key;
        let Some(talk) = self.talks.get_mut(&id) else { return };
        if at <= talk.send_at && talk.send_at > Duration::ZERO {
            return;
        }
        talk.send_at = at + cx.rng.exponential(SEND_INTERVAL);
        let mut told = std::mem::take(&mut talk.queue);
        told.retain(|entry| talk.known.add(keyed_hash(key, entry.peer)));
        if !told.is_empty() {
            send(cx, id, told);
        }
    }

    /// Sends a peer our own address if we have one, listen, and are not behind.
    fn tell_own(&mut self, cx: &mut Context, id: PeerId, offered: u64, now: Now) {
        let at = now.since_start;
        let has_caught_up = cx.has_caught_up();
        let Some(talk) = self.talks.get_mut(&id) else { return };
        let is_due = talk.own_at.is_none_or(|due| due < at);
        if !is_due || !cx.config.listens() || !has_caught_up {
            return;
        }
        let is_first = talk.own_at.is_none();
        talk.own_at = Some(at + cx.rng.exponential(OWN_INTERVAL));
        if !is_first {
            talk.known = KnownAddresses::default();
        }
        let Some(peer) = cx.peers.get(&id) else { return };
        let Some(own) = own_for(cx, peer) else { return };
        cx.debug(|| format!("Advertising address {own} to peer={id}"));
        let time = u32::try_from(now.unix).unwrap_or(u32::MAX);
        let entry = AddressEntry { peer: own, services: offered, time };
        match is_first {
            true if takes(&cx.peers[&id], own.address) => send(cx, id, vec![entry]),
            true => {}
            false => self.push(cx, id, &entry),
        }
    }
}

/// Whether the peer's message format can carry such an address.
fn takes(peer: &Peer, address: NetAddress) -> bool {
    peer.wants_addrv2() || address.is_ip()
}

fn send(cx: &mut Context, id: PeerId, entries: Vec<AddressEntry>) {
    let is_v2 = cx.peers.get(&id).is_some_and(Peer::wants_addrv2);
    let message = if is_v2 { Message::AddrV2(entries) } else { Message::Addr(entries) };
    cx.send(id, &message);
}

/// The time at which an address was seen, with an impossible value replaced.
fn believed(time: u32, now: Now) -> u32 {
    let is_possible = u64::from(time) > TIME_MIN && u64::from(time) <= now.unix + FRESH_S;
    if is_possible { time } else { u32::try_from(now.unix.saturating_sub(UNKNOWN_AGE_S)).unwrap_or(u32::MAX) }
}

/// Our address for a peer: to a network of hidden services only one of that network, to others none of those.
/// Source: Core's `GetLocal`; unlike Core, our addresses as reported by peers are ignored.
fn own_for(cx: &Context, peer: &Peer) -> Option<PeerAddress> {
    let through = peer.network();
    let is_private = |network: u8| matches!(network, 4 | 5);
    let remote = peer.remote().map(|remote| remote.address.network());
    let may = |own: NetAddress| {
        let network = own.network();
        network == through || !(is_private(network) || is_private(through))
    };
    own_addresses::best(&cx.config.external, remote, may)
}

/// Whether the peer has the permission `addr`, and so gets an answer of its own.
pub(super) fn has_own_answer(peer: &Peer) -> bool {
    peer.permissions().has(Permissions::ADDR)
}
