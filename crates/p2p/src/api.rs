//! What `node` and the network say to each other, next to [`crate::ChainView`]: settings, commands, events.

use crate::addresses::Addresses;
use crate::addresses::groups::NetGroups;
use crate::bans::BanList;
use crate::budget::Reservation;
use crate::chain::HeaderInfo;
use crate::facts::NetworkFacts;
pub use crate::names::{PeerId, Want};
use crate::params::NetworkParams;
use crate::permissions::{Permissions, PermittedNet};
use crate::reason::Reason;
use crate::wire::{AddressEntry, NetAddress, PeerAddress, Target};
use kernels::Kernels;
use primitives::{BlockHash, Height};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Which peers are sought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// Peers are found through the address memory and DNS seeds.
    Automatic,
    /// `--connect`: only these, each kept up; an empty list (`--connect 0`) makes no connection.
    /// Addresses as `host`, `host:port`, `[v6]:port`, `name.onion:port`.
    Only(Vec<String>),
}

/// A network that peers are sought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachable {
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
    /// Tor's onion services, through a proxy.
    Onion,
}

/// Connections without `-maxconnections`. Source: Bitcoin Core b88bffe, net.h, `DEFAULT_MAX_PEER_CONNECTIONS`.
pub const CONNECTIONS_DEFAULT: usize = 200;
/// Connections of `-maxconnections` that are not inbound: 8 peers, 2 for blocks alone, a feeler. Source: Bitcoin Core
/// b88bffe, net.h, `m_max_automatic_outbound`.
pub const OUTBOUND_RESERVED: usize = 11;
/// Connections for blocks alone. Source: Bitcoin Core b88bffe, `MAX_BLOCK_RELAY_ONLY_CONNECTIONS`.
pub const BLOCK_RELAY_COUNT_MAX: usize = 2;

/// How long a handshake may take, from the connection on. Source: Bitcoin Core b88bffe, `DEFAULT_PEER_CONNECT_TIMEOUT`.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of the network.
#[derive(Clone, Debug)]
pub struct Config {
    /// The network.
    pub network: NetworkParams,
    /// What [`Outbound`] peers there are.
    pub outbound: Outbound,
    /// `--addnode`: kept up besides, with the forms of [`Outbound::Only`].
    pub add_nodes: Vec<String>,
    /// Automatic outbound connections sought, 1 to `crate::hub::OUTBOUND_COUNT_MAX`.
    pub outbound_count: usize,
    /// Automatic connections for blocks alone.
    pub block_relay_count: usize,
    /// Inbound connections taken at most.
    pub inbound_count_max: usize,
    /// `--listen`: sockets on which inbound connections are taken; none by default.
    pub listen: Vec<SocketAddr>,
    /// `--proxy`: a SOCKS5 proxy (host:port) through which every connection and name goes.
    pub proxy: Option<String>,
    /// `--onion`: a SOCKS5 proxy for Tor's onion services, in place of the other.
    pub onion_proxy: Option<String>,
    /// `--proxyrandomize`: whether each connection through a proxy has credentials of its own.
    pub proxy_randomize: bool,
    /// `--externalip`: our addresses, which peers are told.
    pub external: Vec<PeerAddress>,
    /// `--onlynet`: peers are sought in these networks alone; in all of them where the list is empty. Inbound connections and
    /// those that a person names are not restricted.
    pub only_networks: Vec<Reachable>,
    /// `--peertimeout`: how long a handshake may take, and how long a peer is not taken for dead.
    pub peer_timeout: Duration,
    /// `--whitelist`: what peers of some networks may do.
    pub whitelist: Vec<PermittedNet>,
    /// `--whitebind`: sockets besides `listen`, and what who connects there may do.
    pub whitebind: Vec<(SocketAddr, Permissions)>,
    /// `-bind=ADDRESS=onion`: sockets to which a Tor service on this machine connects.
    pub onion: Vec<SocketAddr>,
    /// The same, where no address is named: it may be taken by another program.
    pub onion_default: Option<SocketAddr>,
    /// `-maxuploadtarget`: bytes that may be sent in a day; 0: any number.
    pub upload_max: u64,
    /// `--seednode`: nodes that are asked for addresses, and then left, with the forms of [`Outbound::Only`].
    pub seed_nodes: Vec<String>,
    /// Whether DNS seeds may be asked (`--dnsseed`).
    pub dns_seed: bool,
    /// Whether they are asked, all at once, whatever addresses are known (`--forcednsseed`).
    pub force_dns_seed: bool,
    /// Whether fixed seeds are taken where nothing else gives addresses (`--fixedseeds`).
    pub fixed_seeds: bool,
    /// Whether basic block filters are served (`--peerblockfilters`).
    pub compact_filters: bool,
    /// Whether each message and connection is told of in [`Event::Debug`] (`--debug net`).
    pub debug_net: bool,
    /// Whether addresses are in those lines that say so (`--logips`).
    pub log_ips: bool,
    /// Whether the v2 transport is offered and tried first (`--v2transport`).
    pub v2transport: bool,
    /// Our version for the user agent `/ffwd:VERSION/`.
    pub version: String,
    /// The address memory of an earlier run; an empty one without.
    pub addresses: Option<Addresses>,
    /// By what addresses are grouped (`--asmap`); the address memory has the same.
    pub groups: Arc<NetGroups>,
    /// Peers for blocks alone of the last run, to which this one goes back first.
    pub anchors: Vec<AddressEntry>,
    /// Bytes of blocks that may be asked for or held by the receiver of events at a time.
    ///
    /// Never exceeded by more than as much again and 64 MiB, see [`crate::download`].
    pub window_bytes: usize,
    /// How many blocks may be asked for beyond the lowest that has not arrived.
    pub window_count: usize,
    /// `--maxdownload`: bytes a second that are read from all peers together; any number without.
    pub download_rate_max: Option<u64>,
    /// Addresses that a person does not want as peers: none of them is connected to, and none is taken that connects to us.
    pub bans: Arc<Mutex<BanList>>,
    /// Where the time of the day comes from: the machine's clock, or another.
    pub clock: fn() -> SystemTime,
    /// What hashes headers (`--cpu`).
    pub kernels: Kernels,
}

impl Config {
    /// Defaults: 8 outbound, 189 inbound peers at most, no listening, v2 on, a window of 64 MiB and 1,024 blocks.
    ///
    /// 1,024 blocks are Core's `BLOCK_DOWNLOAD_WINDOW`: how far out of order blocks lie in the block files.
    pub fn new(network: NetworkParams) -> Config {
        Config {
            network,
            outbound: Outbound::Automatic,
            add_nodes: Vec::new(),
            outbound_count: 8,
            block_relay_count: BLOCK_RELAY_COUNT_MAX,
            inbound_count_max: CONNECTIONS_DEFAULT - OUTBOUND_RESERVED,
            listen: Vec::new(),
            proxy: None,
            onion_proxy: None,
            proxy_randomize: true,
            external: Vec::new(),
            only_networks: Vec::new(),
            peer_timeout: HANDSHAKE_TIMEOUT,
            whitelist: Vec::new(),
            whitebind: Vec::new(),
            onion: Vec::new(),
            onion_default: None,
            upload_max: 0,
            seed_nodes: Vec::new(),
            dns_seed: true,
            force_dns_seed: false,
            fixed_seeds: true,
            compact_filters: false,
            debug_net: false,
            log_ips: false,
            v2transport: true,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            addresses: None,
            groups: Arc::default(),
            anchors: Vec::new(),
            window_bytes: 64 << 20,
            window_count: 1024,
            download_rate_max: None,
            bans: Arc::default(),
            clock: SystemTime::now,
            kernels: Kernels::AUTO,
        }
    }
}

impl Config {
    /// The proxy for a connection.
    pub(crate) fn proxy_of(&self, target: &Target) -> Option<&str> {
        proxy_for(target, self.proxy.as_deref(), self.onion_proxy.as_deref())
    }

    /// Whether onion services can be reached.
    pub(crate) fn reaches_onion(&self) -> bool {
        self.proxy.is_some() || self.onion_proxy.is_some()
    }

    /// Whether inbound connections are taken.
    pub(crate) fn listens(&self) -> bool {
        !(self.listen.is_empty() && self.whitebind.is_empty() && self.onion.is_empty())
    }
}

/// Of the proxies for everything and for onion services that for a connection.
pub(crate) fn proxy_for<'a>(target: &Target, all: Option<&'a str>, onion: Option<&'a str>) -> Option<&'a str> {
    let is_onion = matches!(target, Target::Peer(peer) if matches!(peer.address, NetAddress::TorV3(_)));
    onion.filter(|_| is_onion).or_else(|| all.filter(|_| target.is_proxied()))
}

/// What the node found about a block that it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockVerdict {
    /// It is whole and stored (or needed no more): it is not asked for again.
    Stored,
    /// Its bytes are not a body of its header, or CheckBlock refuses them: the peer that sent them goes,
    /// the block is asked for from another. The header is not marked.
    BadBody(String),
    /// Its bytes are no block at all: it is asked for again, of another peer or later. Who sends such again and again goes.
    Unreadable(String),
    /// The block is refused for ever, its header marked by the node *before* this is said: the peer that
    /// sent it goes, and so do all whose best chain has it.
    Invalid(String),
}

/// The bytes of a block as they came from a peer, and the room they take in the window.
///
/// Dereferences to the serialized block. The room in the window is free again when this (or the
/// [`Reservation`] of [`BlockBytes::into_parts`]) is dropped: keep it exactly as long as the memory.
pub struct BlockBytes {
    bytes: Vec<u8>,
    start: usize,
    reservation: Reservation,
}

impl BlockBytes {
    /// `bytes[start..]` is the block. Public for tests of the node: see [`BlockBytes::detached`].
    pub(crate) fn new(bytes: Vec<u8>, start: usize, reservation: Reservation) -> BlockBytes {
        BlockBytes { bytes, start, reservation }
    }

    /// A block that belongs to no window.
    pub fn detached(bytes: Vec<u8>) -> BlockBytes {
        BlockBytes { bytes, start: 0, reservation: Reservation::none() }
    }

    /// The vector, where in it the block starts, and the window's guard. When the vector is done with it goes to
    /// [`Reservation::buffers`].
    pub fn into_parts(self) -> (Vec<u8>, usize, Reservation) {
        (self.bytes, self.start, self.reservation)
    }
}

impl Deref for BlockBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockBytes({} bytes)", self.len())
    }
}

/// What is known of a peer when its handshake is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Where it is, as text.
    pub address: String,
    /// Whether it connected to us.
    pub inbound: bool,
    /// Whether the connection is encrypted (BIP324).
    pub v2: bool,
    /// The protocol version that it sent.
    pub version: u32,
    /// The services that it offers.
    pub services: u64,
    /// Its user agent, printable characters only.
    pub agent: String,
    /// The height that it said it has. Not to be relied on.
    pub height: i32,
}

/// What the network says to the node, in order.
#[derive(Debug)]
pub enum Event {
    /// A handshake is done.
    PeerConnected {
        /// The connection.
        peer: PeerId,
        /// Who is there.
        info: PeerInfo,
    },
    /// A connection ended. Of one that could not be made there is an [`Event::Note`] for each kind of trouble, and of one that
    /// ended before its handshake this for each peer the first time: the rest is counted
    /// ([`crate::facts::DialFacts::troubles`]).
    PeerGone {
        /// The connection.
        peer: PeerId,
        /// Where it was, as text.
        address: String,
        /// Whether it had connected to us.
        inbound: bool,
        /// Why; [`Reason::is_offence`] says whether the peer misbehaved.
        reason: Reason,
    },
    /// New headers are in the tree: the best chain may be another, see [`crate::Network::want`].
    Headers {
        /// Who sent them.
        peer: PeerId,
        /// How many are new.
        new_count: usize,
    },
    /// A block that was asked for is there. The node answers with [`crate::Network::verdict`].
    Block {
        /// Who sent it.
        peer: PeerId,
        /// Its hash.
        hash: BlockHash,
        /// Its height, as given in the [`Want`].
        height: Height,
        /// Its bytes.
        bytes: BlockBytes,
    },
    /// The best blocks of the peers that have at least our tip's work, those first that are to be preferred: what is
    /// missing up to each is to be given with [`crate::Network::want`], in the same order.
    ///
    /// Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`: each peer is asked for the blocks of its own chain.
    Targets(Vec<BlockHash>),
    /// Few blocks of a list are left to ask for: give the next lists with [`crate::Network::want`].
    ///
    /// Said once per list, and only if the list was not empty.
    WantMore,
    /// Every peer that we connected to has told its whole header chain (or had its time for it), at least one did,
    /// and the best chain has minimum work: with its last block connected, this is the tip that the peers have.
    /// Named peers that cannot be reached have [`crate::hub::outbound::NAMED_PATIENCE`].
    ///
    /// Said whenever this becomes true; [`Progress::headers_done`] has the present state.
    HeadersDone,
    /// The answer to [`crate::Network::echo`].
    Echo,
    /// The address memory as bytes of peers.dat, to be given back as [`Config::addresses`] in the next run.
    /// Every quarter of an hour, and when the network is stopped.
    Addresses(Vec<u8>),
    /// When the network is stopped: the peers for blocks alone, how many and as bytes of anchors.dat.
    Anchors(usize, Vec<u8>),
    /// Something that a person may want to read in a log: one line, no offence and no fault. No peer can cause many of them.
    Note(String),
    /// The same, where peers can cause as many as they like.
    PeerNote {
        /// The connection, where there is one.
        peer: Option<PeerId>,
        /// Whether the peer connected to us.
        inbound: bool,
        /// The line.
        text: String,
    },
    /// A line for the log alone.
    Log(String),
    /// The same, with [`Config::debug_net`].
    Debug(String),
}

/// How far the network is. All counters are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Peers whose handshake is done and that we connected to.
    pub outbound_count: usize,
    /// Peers whose handshake is done and that connected to us.
    pub inbound_count: usize,
    /// Peers that can serve the blocks that are wanted next.
    pub download_peer_count: usize,
    /// Bytes from all sockets.
    pub received_bytes: u64,
    /// Bytes to all sockets.
    pub sent_bytes: u64,
    /// Blocks handed to the node.
    pub blocks_count: u64,
    /// Bytes of those blocks.
    pub blocks_bytes: u64,
    /// Connections ended because a requested answer did not arrive in time.
    pub stalled_count: u64,
    /// Connections ended because the peer misbehaved.
    pub misbehaved_count: u64,
    /// Blocks that came twice or unasked.
    pub blocks_dropped_count: u64,
    /// Blocks asked for and not there yet.
    pub in_flight_count: usize,
    /// Bytes of blocks that the node holds, see [`BlockBytes`].
    pub held_bytes: usize,
    /// Blocks of the present list that have not arrived.
    pub wanted_count: usize,
    /// Height of the peer that is furthest in presync, while there is one.
    pub presync_height: Option<Height>,
    /// See [`Event::HeadersDone`].
    pub headers_done: bool,
    /// Whether a peer that we connected to has told its whole header chain, and no other is about to tell more of its own: the
    /// last headers message of each was not full.
    pub headers_settled: bool,
    /// The block of most work that a peer to which we connected has, of those that deliver what they announce: with
    /// [`Progress::headers_done`], a chain with as much work is the tip that the peers have.
    pub best_claim: Option<HeaderInfo>,
    /// Blocks that peers announced and none delivered: see [`crate::hub::block_download::delivery`].
    pub undelivered: Vec<Want>,
    /// Whether at least half of the peers that we connected to, and that have told their chains, have headers that are more
    /// than two hours ahead of the clock: then the clock may be wrong.
    pub headers_too_new: bool,
    /// Whether the window is full, so that the network waits for the node (disk or processor).
    /// When false while blocks are wanted, the node waits for the network.
    pub window_full: bool,
    /// What the network knows of itself: why it brings what it brings, or nothing.
    pub facts: NetworkFacts,
}
