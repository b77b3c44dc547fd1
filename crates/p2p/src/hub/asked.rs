//! Connection commands of the user: list, name, disconnect and ping peers.
//!
//! Source: Bitcoin Core b88bffe, rpc/net.cpp and the functions of net.cpp that it calls.

use super::Hub;
use super::outbound::Dialed;
use crate::addresses::groups::NetGroups;
use crate::addresses::{Placed, Table};
use crate::api::PeerId;
use crate::bans::Subnet;
use crate::chain::HeaderInfo;
use crate::peer::Kind;
use crate::reason::Reason;
use crate::stats::PeerStats;
use crate::time::Now;
use crate::upload_target::UploadState;
use crate::wire::{AddressEntry, PeerAddress, Target, services};
use primitives::{BlockHash, Height};
use std::sync::Arc;
use std::time::Duration;

/// Type of a connection that the user requests. Source: Bitcoin Core b88bffe, `ConnectionType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Full relay, like automatic outbound connections.
    Everything,
    /// Block relay only.
    Blocks,
    /// Address fetch, then disconnect.
    Addresses,
    /// A feeler: test whether the peer answers, then disconnect.
    Feeler,
}

/// Result of adding an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// It was added.
    Yes,
    /// It is already known, or there is no place for it.
    No,
    /// It was added to "new"; its place in "tried" is occupied.
    NewAlone,
}

/// Number of addresses of each network in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressCounts {
    /// For each network by its BIP155 number, `None` for all: new and tried addresses.
    pub of: Vec<(Option<u8>, usize, usize)>,
}

/// Both tables, and how addresses are grouped.
#[derive(Clone, Debug)]
pub struct AddressTables {
    /// Addresses from gossip.
    pub new: Vec<Placed>,
    /// Addresses that a connection was made to.
    pub tried: Vec<Placed>,
    /// The groups.
    pub groups: Arc<NetGroups>,
}

/// Kind of a connection that is tried once: it has no index of a named peer.
const ONE_TRY: Kind = Kind::Manual(usize::MAX);

impl Hub {
    /// State of `-maxuploadtarget`.
    pub fn upload(&self) -> UploadState {
        self.context.upload.state()
    }

    /// Every connection.
    pub(crate) fn peer_stats(&self, now: Now) -> Vec<PeerStats> {
        self.context
            .peers
            .values()
            .map(|peer| {
                let (in_flight, bytes_per_s, stalls) = self.blocks.seen_of(peer.id, now);
                let presynced = self.headers.presynced(peer.id);
                let best = self.headers.best_known(peer.id);
                let synced_blocks = best.map(|best| self.common_height(&best));
                let unix = |at: Duration| now.unix.saturating_sub(now.since_start.saturating_sub(at).as_secs());
                let last_block = self.blocks.last_block_at(peer.id).map_or(0, unix);
                PeerStats {
                    last_block,
                    presynced,
                    synced_headers: best.map(|best| best.height),
                    synced_blocks,
                    in_flight,
                    bytes_per_s,
                    stalls,
                    relays_addresses: self.address_relay.is_on(peer.id),
                    mapped_as: self.system_of(peer.remote()),
                    ..peer.stats(now)
                }
            })
            .collect()
    }

    /// Height of the last block that a peer's chain shares with ours.
    fn common_height(&self, best: &HeaderInfo) -> Height {
        let tip = self.context.chain.tip();
        let is_common = |height: u32| {
            let height = Height::new(height);
            let theirs = self.context.chain.ancestor(&best.hash, height);
            theirs.is_some() && theirs == self.context.chain.ancestor(&tip.hash, height)
        };
        // Genesis is common to all; the first block that differs is above `low`.
        let mut low = 0;
        let mut high = best.height.min(tip.height).to_u32();
        if is_common(high) {
            return Height::new(high);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_common(middle) { low = middle } else { high = middle }
        }
        Height::new(low)
    }

    /// Adds a named peer: it is connected to, and reconnected when it is lost.
    pub(crate) fn add_named(&mut self, target: Target, now: Now) {
        self.outbound.add_named(target, now);
    }

    /// Removes a named peer; an existing connection stays.
    pub(crate) fn remove_named(&mut self, target: &Target) {
        self.outbound.remove_named(target);
    }

    /// Connects to this peer once, unless it is connected.
    pub(crate) fn try_once(&mut self, target: Target, v2: bool, now: Now) {
        let is_there = self.context.peers.values().any(|peer| peer.target == target);
        if !is_there {
            self.dial(Dialed::with(ONE_TRY, target, v2), now);
        }
    }

    /// Makes a connection of this type; `false`: the limit for this type is reached.
    /// Source: Bitcoin Core b88bffe, `CConnman::AddConnection`.
    pub(crate) fn connect_for(&mut self, purpose: Purpose, target: Target, v2: bool, now: Now) -> bool {
        let (kind, max) = match purpose {
            Purpose::Everything => (Kind::Automatic, self.context.config.outbound_count),
            Purpose::Blocks => (Kind::BlockRelay, self.context.config.block_relay_count),
            Purpose::Addresses => (Kind::AddressFetch, usize::MAX),
            Purpose::Feeler => (Kind::Feeler, usize::MAX),
        };
        let there = self.context.peers.values().filter(|peer| peer.kind == kind).count();
        let has_room = there + self.outbound.count_of(kind) < max;
        if has_room {
            self.dial(Dialed::with(kind, target, v2), now);
        }
        has_room
    }

    /// The autonomous system of a peer's address; 0 if unknown.
    fn system_of(&self, remote: Option<&PeerAddress>) -> u32 {
        remote.map_or(0, |remote| self.context.config.groups.system_of(remote.address))
    }

    /// Adds the address of a peer, as if the peer had announced it. Source: Bitcoin Core b88bffe, `addpeeraddress`.
    pub(crate) fn add_address(&mut self, peer: PeerAddress, is_good: bool, now: Now) -> Added {
        let address = if self.context.config.cjdns { peer.address.or_cjdns() } else { peer.address };
        let peer = PeerAddress { address, ..peer };
        let offered = services::NETWORK | services::WITNESS;
        let entry = AddressEntry { peer, services: offered, time: u32::try_from(now.unix).unwrap_or(u32::MAX) };
        let is_added = self.addresses.add(&[entry], peer.address, 0, now.unix);
        let is_left_in_new = is_added && is_good && !self.addresses.good(&peer, now.unix);
        self.tell_said();
        match (is_added, is_left_in_new) {
            (false, _) => Added::No,
            (true, true) => Added::NewAlone,
            (true, false) => Added::Yes,
        }
    }

    /// Number of addresses of each network in the tables.
    pub(crate) fn address_counts(&self) -> AddressCounts {
        let networks = [1, 2, 4, 5, 6].into_iter().map(Some).chain([None]);
        let count = |table, network| self.addresses.count_in(table, network);
        let of = networks.map(|network| (network, count(Table::New, network), count(Table::Tried, network)));
        AddressCounts { of: of.collect() }
    }

    /// The present contents of both tables.
    pub(crate) fn address_tables(&self) -> AddressTables {
        let groups = self.addresses.groups().clone();
        AddressTables { new: self.addresses.placed(Table::New), tried: self.addresses.placed(Table::Tried), groups }
    }

    /// SHA-256 of the map of autonomous systems.
    pub(crate) fn map_file_hash(&self) -> Option<[u8; 32]> {
        self.addresses.groups().map_file_hash()
    }

    /// Sends a message with any name and payload; `false`: there is no such peer, or the message cannot be sent.
    pub(crate) fn send_to(&mut self, id: PeerId, name: &str, payload: &[u8]) -> bool {
        self.context.peers.get_mut(&id).is_some_and(|peer| peer.transport.send_named(name, payload))
    }

    /// Requests a block from a peer for the user.
    ///
    /// # Errors
    ///
    /// Why that is impossible, in Core's words.
    pub(crate) fn fetch_from(&mut self, id: PeerId, hash: BlockHash) -> Result<(), &'static str> {
        self.blocks.fetch_from(&mut self.context, id, hash)
    }

    /// Requests of a peer outside the download: for fuzzing.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn direct_count(&self, id: PeerId) -> usize {
        self.blocks.direct_count(id)
    }

    /// Turns the network off, ending all connections, or on again. The line is Core's.
    pub(crate) fn set_active(&mut self, is_active: bool, now: Now) {
        self.context.log(format!("SetNetworkActive: {is_active}"));
        self.context.is_off = !is_active;
        if self.context.is_off {
            self.disconnect_where(&Reason::Asked, now, |_| true);
        }
    }

    /// Ends the connections for which `is_meant` is true; returns their number.
    fn disconnect_where(&mut self, reason: &Reason, now: Now, is_meant: impl Fn(&PeerStats) -> bool) -> usize {
        let all = self.peer_stats(now);
        let meant: Vec<PeerId> = all.iter().filter(|stats| is_meant(stats)).map(|stats| stats.id).collect();
        meant.iter().for_each(|id| self.drop_peer(*id, reason.clone(), now));
        meant.len()
    }

    /// Ends the connection to this address; returns whether there was one.
    pub(crate) fn disconnect_address(&mut self, address: &str, now: Now) -> bool {
        self.disconnect_where(&Reason::Asked, now, |stats| stats.address == address) > 0
    }

    /// Ends the connection with this id; returns whether there was one.
    pub(crate) fn disconnect_id(&mut self, id: PeerId, now: Now) -> bool {
        self.disconnect_where(&Reason::Asked, now, |stats| stats.id == id) > 0
    }

    /// Ends the connections to a subnet that was banned.
    pub(crate) fn disconnect_subnet(&mut self, subnet: &Subnet, now: Now) {
        let ids: Vec<PeerId> = self
            .context
            .peers
            .values()
            .filter(|peer| peer.remote().is_some_and(|remote| subnet.has(&remote.address)))
            .map(|peer| peer.id)
            .collect();
        ids.into_iter().for_each(|id| self.drop_peer(id, Reason::Banned, now));
    }

    /// Pings every peer.
    pub(crate) fn ping_all(&mut self, now: Now) {
        let mut rng = self.context.rng.clone();
        self.context.peers.values_mut().for_each(|peer| peer.ping_again(now, &mut rng));
        self.context.rng = rng;
    }

    /// Known addresses without discouraged ones, see [`crate::addresses::Addresses::get`].
    pub(crate) fn known_addresses(&mut self, count: usize, network: Option<u8>, now: Now) -> Vec<AddressEntry> {
        let mut known = self.addresses.get(count, 0, network, now.unix);
        self.tell_said();
        known.retain(|entry| !self.context.is_shunned(&entry.peer.address, now));
        known
    }
}
