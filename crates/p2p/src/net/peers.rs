//! Handle for other threads to the connections, with or without a running network: added peers and bans stay from one
//! network to the next.

use super::{LoopMessage, LoopSender};
use crate::api::{Config, PeerId, Progress, Reachable};
use crate::bans::{BanList, Subnet};
use crate::hub::{Added, AddressCounts, AddressTables, Hub, Purpose};
use crate::own_addresses::OwnAddress;
use crate::stats::PeerStats;
use crate::time::Now;
use crate::upload_target::UploadState;
use crate::wire::{AddressEntry, PeerAddress, Target};
use primitives::BlockHash;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait for an answer of the network's thread, which reads its inbox at least every tenth of a second.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// A call to run in the network's thread.
pub(super) type Question = Box<dyn FnOnce(&mut Hub, Now) + Send>;

/// The handle.
#[derive(Default)]
pub struct Peers {
    state: Mutex<LinkState>,
    bans: Arc<Mutex<BanList>>,
}

#[derive(Default)]
struct LinkState {
    added: Vec<Named>,
    link: Option<Link>,
    /// Bytes that earlier networks received and sent.
    before: (u64, u64),
    /// Settings of the last network.
    reach: Reach,
}

/// Settings of a network.
struct Reach {
    v2: bool,
    filters: bool,
    is_off: bool,
    /// Version in the user agent, with comments; empty before the first network.
    version: String,
    proxy: Option<String>,
    onion_proxy: Option<String>,
    randomizes: bool,
    external: Vec<OwnAddress>,
    only: Vec<Reachable>,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach {
            v2: true,
            filters: false,
            is_off: false,
            version: String::new(),
            proxy: None,
            onion_proxy: None,
            randomizes: true,
            external: Vec::new(),
            only: Vec::new(),
        }
    }
}

/// How networks are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The proxy for every network except Tor's.
    pub proxy: Option<String>,
    /// The proxy for Tor's onion services.
    pub onion_proxy: Option<String>,
    /// Whether each connection through them has random credentials.
    pub randomizes: bool,
    /// The networks in which peers are sought; empty: all.
    pub only: Vec<Reachable>,
}

/// A peer that the user added, as text.
struct Named {
    text: String,
    /// `None` if the text is not an address: such a peer is listed, but never connected to.
    target: Option<Target>,
}

struct Link {
    sender: LoopSender,
    progress: Arc<Mutex<Progress>>,
    port: u16,
}

/// A peer of the list of `addnode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedPeer {
    /// The text with which it was added.
    pub text: String,
    /// The address of its connection, and whether it is inbound.
    pub connected: Option<(String, bool)>,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Peers")
    }
}

impl Peers {
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bans.
    pub fn bans(&self) -> MutexGuard<'_, BanList> {
        self.bans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shared_bans(&self) -> Arc<Mutex<BanList>> {
        self.bans.clone()
    }

    /// The added peers, including those of `-addnode`, whose text is an address.
    pub(super) fn take_added(&self, named: &[String], port: u16) -> Vec<String> {
        let mut state = self.state();
        named.iter().for_each(|text| drop(add(&mut state.added, text, port)));
        state.added.iter().filter(|added| added.target.is_some()).map(|added| added.text.clone()).collect()
    }

    pub(super) fn note_reach(&self, config: &Config) {
        let mut state = self.state();
        let is_off = state.reach.is_off;
        state.reach = Reach {
            v2: config.v2transport,
            filters: config.compact_filters,
            is_off,
            version: config.version.clone(),
            proxy: config.proxy.clone(),
            onion_proxy: config.onion_proxy.clone(),
            randomizes: config.proxy_randomize,
            external: config.external.clone(),
            only: config.only_networks.clone(),
        };
    }

    /// The version in the user agent, with comments; `None` before the first network.
    pub fn agent_version(&self) -> Option<String> {
        Some(self.state().reach.version.clone()).filter(|version| !version.is_empty())
    }

    /// Whether the network is on.
    pub fn is_active(&self) -> bool {
        !self.state().reach.is_off
    }

    /// Turns the network off, ending all connections, or on again; the next network keeps this state.
    pub fn set_active(&self, is_active: bool) {
        self.state().reach.is_off = !is_active;
        self.ask(move |hub, now| hub.set_active(is_active, now));
    }

    /// Makes a connection of this type; `false`: the text is not an address, there is no network, or the limit is
    /// reached.
    pub fn connect_for(&self, purpose: Purpose, text: &str, v2: bool) -> bool {
        let Some(port) = self.state().link.as_ref().map(|link| link.port) else { return false };
        let Ok(target) = Target::parse(text.trim(), port) else { return false };
        self.ask(move |hub, now| hub.connect_for(purpose, target, v2, now)).unwrap_or(false)
    }

    /// Sends a message with any name and payload to the connection with this id; `false`: impossible.
    pub fn send_to(&self, id: u64, name: String, payload: Vec<u8>) -> bool {
        self.ask(move |hub, _| hub.send_to(PeerId(id), &name, &payload)).unwrap_or(false)
    }

    /// Requests a block from the connection with this id.
    ///
    /// # Errors
    ///
    /// Why that is impossible, in Core's words.
    pub fn fetch_block(&self, id: u64, hash: BlockHash) -> Result<(), &'static str> {
        self.ask(move |hub, _| hub.fetch_from(PeerId(id), hash)).unwrap_or(Err("Peer does not exist"))
    }

    /// Adds the address of a peer; if `is_good`, as one that a connection was made to.
    pub fn add_address(&self, peer: PeerAddress, is_good: bool) -> Added {
        self.ask(move |hub, now| hub.add_address(peer, is_good, now)).unwrap_or(Added::No)
    }

    /// Number of known addresses of each network; `None` without a network.
    pub fn address_counts(&self) -> Option<AddressCounts> {
        self.ask(|hub, _| hub.address_counts())
    }

    /// The address tables; `None` without a network.
    pub fn address_tables(&self) -> Option<AddressTables> {
        self.ask(|hub, _| hub.address_tables())
    }

    /// SHA-256 of the map of autonomous systems in use (`-asmap`).
    pub fn map_file_hash(&self) -> Option<[u8; 32]> {
        self.ask(|hub, _| hub.map_file_hash()).flatten()
    }

    /// Our addresses, which are announced to peers.
    pub fn external(&self) -> Vec<OwnAddress> {
        self.state().reach.external.clone()
    }

    /// Whether filters are offered.
    pub fn offers_filters(&self) -> bool {
        self.state().reach.filters
    }

    /// Whether the v2 transport is offered.
    pub fn offers_v2(&self) -> bool {
        self.state().reach.v2
    }

    /// How networks are reached.
    pub fn reach(&self) -> Reached {
        let state = self.state();
        let Reach { proxy, onion_proxy, randomizes, only, .. } = &state.reach;
        Reached {
            proxy: proxy.clone(),
            onion_proxy: onion_proxy.clone().or_else(|| proxy.clone()),
            randomizes: *randomizes,
            only: only.clone(),
        }
    }

    pub(super) fn attach(&self, sender: LoopSender, progress: Arc<Mutex<Progress>>, port: u16) {
        let is_off = {
            let mut state = self.state();
            state.link = Some(Link { sender, progress, port });
            state.reach.is_off
        };
        if is_off {
            self.set_active(false);
        }
    }

    /// Detaches a network that ends.
    pub(super) fn detach_if(&self, of: &Arc<Mutex<Progress>>) {
        let mut state = self.state();
        if let Some(link) = state.link.take_if(|link| Arc::ptr_eq(&link.progress, of)) {
            let progress = link.progress.lock().unwrap_or_else(PoisonError::into_inner);
            state.before.0 += progress.received_bytes;
            state.before.1 += progress.sent_bytes;
        }
    }

    /// Runs a call in the network's thread; `None` if there is no network, or no answer in time.
    fn ask<R: Send + 'static>(&self, question: impl FnOnce(&mut Hub, Now) -> R + Send + 'static) -> Option<R> {
        let sender = self.state().link.as_ref()?.sender.clone();
        let (answer, answers) = channel();
        let question: Question = Box::new(move |hub, now| drop(answer.send(question(hub, now))));
        sender.send(LoopMessage::Asked(question));
        answers.recv_timeout(ANSWER_PATIENCE).ok()
    }

    /// Whether there is a network.
    pub fn has_network(&self) -> bool {
        self.state().link.is_some()
    }

    /// Every connection.
    pub fn peers(&self) -> Vec<PeerStats> {
        self.ask(|hub, now| hub.peer_stats(now)).unwrap_or_default()
    }

    /// Progress of the network, at most a tenth of a second old; `None` without a network.
    pub fn progress(&self) -> Option<Progress> {
        let state = self.state();
        let progress = state.link.as_ref()?.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(progress)
    }

    /// Bytes received and sent since the start, at most a tenth of a second old.
    pub fn totals(&self) -> (u64, u64) {
        let state = self.state();
        let (received, sent) = state.before;
        let Some(link) = &state.link else { return (received, sent) };
        let now = link.progress.lock().unwrap_or_else(PoisonError::into_inner);
        (received + now.received_bytes, sent + now.sent_bytes)
    }

    /// Bytes received and sent since the start, up to date: waits for the network's thread.
    pub fn totals_now(&self) -> (u64, u64) {
        let Some((received, sent)) = self.ask(|hub, _| hub.totals()) else { return self.totals() };
        let before = self.state().before;
        (received + before.0, sent + before.1)
    }

    /// State of `-maxuploadtarget`; `None` without a network.
    pub fn upload(&self) -> Option<UploadState> {
        self.ask(|hub, _| hub.upload())
    }

    /// Adds a peer to the list of peers to stay connected to; `false`: it is there already.
    /// `port` is the default for an address without one.
    pub fn add(&self, text: &str, port: u16) -> bool {
        let target = {
            let mut state = self.state();
            let Some(target) = add(&mut state.added, text, port) else { return false };
            target
        };
        if let Some(target) = target {
            self.ask(|hub, now| hub.add_named(target, now));
        }
        true
    }

    /// Removes a peer from that list; `false`: it is not there. A connection to it stays.
    pub fn remove(&self, text: &str) -> bool {
        let removed = {
            let mut state = self.state();
            let Some(place) = state.added.iter().position(|added| added.text == text) else { return false };
            state.added.remove(place)
        };
        if let Some(target) = removed.target {
            self.ask(move |hub, _| hub.remove_named(&target));
        }
        true
    }

    /// Connects to a peer once.
    pub fn try_once(&self, text: &str, v2: bool) {
        let Some(port) = self.state().link.as_ref().map(|link| link.port) else { return };
        if let Ok(target) = Target::parse(text.trim(), port) {
            self.ask(move |hub, now| hub.try_once(target, v2, now));
        }
    }

    /// The list of added peers, with the connections to them.
    pub fn added(&self) -> Vec<AddedPeer> {
        let peers = self.peers();
        let state = self.state();
        let connected = |added: &Named| {
            let address = added.target.as_ref()?.to_string();
            peers.iter().find(|peer| peer.address == address).map(|peer| (address, peer.inbound))
        };
        state.added.iter().map(|added| AddedPeer { text: added.text.clone(), connected: connected(added) }).collect()
    }

    /// Ends the connection to this address; `false`: there is no such connection.
    pub fn disconnect(&self, address: &str) -> bool {
        let address = address.to_owned();
        self.ask(move |hub, now| hub.disconnect_address(&address, now)).unwrap_or(false)
    }

    /// Ends the connection with this id; `false`: there is no such connection.
    pub fn disconnect_id(&self, id: u64) -> bool {
        self.ask(move |hub, now| hub.disconnect_id(PeerId(id), now)).unwrap_or(false)
    }

    /// Ends the connections to a subnet that was banned.
    pub fn disconnect_subnet(&self, subnet: Subnet) {
        self.ask(move |hub, now| hub.disconnect_subnet(&subnet, now));
    }

    /// Pings every peer.
    pub fn ping(&self) {
        self.ask(|hub, now| hub.ping_all(now));
    }

    /// Known addresses: of the network with this BIP155 number, or of all; at most `count`, 0: all.
    pub fn addresses(&self, count: usize, network: Option<u8>) -> Vec<AddressEntry> {
        self.ask(move |hub, now| hub.known_addresses(count, network, now)).unwrap_or_default()
    }
}

/// Adds to the list; `None` if it is there already, with this text or as the same address.
fn add(list: &mut Vec<Named>, text: &str, port: u16) -> Option<Option<Target>> {
    let target = Target::parse(text, port).ok();
    let is_known = |added: &Named| added.text == text || (target.is_some() && added.target == target);
    if list.iter().any(is_known) || list.len() >= crate::hub::outbound::NAMED_COUNT_MAX {
        return None;
    }
    list.push(Named { text: text.to_owned(), target: target.clone() });
    Some(target)
}
