//! Interface between `node` and the network, besides [`crate::ChainView`]: settings, commands, events.

use crate::addresses::Addresses;
use crate::addresses::groups::NetGroups;
use crate::bans::BanList;
use crate::budget::Reservation;
use crate::chain::HeaderInfo;
use crate::facts::NetworkFacts;
pub use crate::names::{PeerId, Want};
use crate::own_addresses::OwnAddress;
use crate::params::NetworkParams;
use crate::permissions::{Permissions, PermittedNet};
use crate::reason::Reason;
use crate::set_exchange::SetExchange;
use crate::utxo_sets::SetSource;
use crate::wire::{AddressEntry, NetAddress, Target};
use kernels::Kernels;
use primitives::{BlockHash, Height};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// How outbound peers are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// Peers are found through the address memory and DNS seeds.
    Automatic,
    /// `--connect`: only these, each reconnected when it is lost; an empty list (`--connect 0`) makes no connection.
    /// Forms of an address: `host`, `host:port`, `[v6]:port`, `name.onion:port`.
    Only(Vec<String>),
}

/// A network in which peers are sought.
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
/// Connections of `-maxconnections` that are not inbound: 8 full-relay peers, 2 block-relay-only peers, a feeler.
/// Source: Bitcoin Core b88bffe, net.h, `m_max_automatic_outbound`.
pub const OUTBOUND_RESERVED: usize = 11;
/// Maximum number of block-relay-only connections. Source: Bitcoin Core b88bffe, `MAX_BLOCK_RELAY_ONLY_CONNECTIONS`.
pub const BLOCK_RELAY_COUNT_MAX: usize = 2;

/// Handshake timeout, from the connection on. Source: Bitcoin Core b88bffe, `DEFAULT_PEER_CONNECT_TIMEOUT`.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Receives lines for the log on the network's thread. As in Core, a line about a message or a call is written before
/// the message is sent, or the call is answered: when a peer has the message, or the user the answer, the line is in
/// the log.
#[derive(Clone)]
pub struct LogLines(Arc<dyn Fn(&str) + Send + Sync>);

impl LogLines {
    /// Passes each line to `write`, which must not wait for the network.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> LogLines {
        LogLines(Arc::new(write))
    }

    /// Drops all lines.
    pub fn none() -> LogLines {
        LogLines::new(|_| {})
    }

    pub(crate) fn write(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for LogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLines")
    }
}

/// Settings of the network.
#[derive(Clone, Debug)]
pub struct Config {
    /// The network.
    pub network: NetworkParams,
    /// How outbound peers are chosen.
    pub outbound: Outbound,
    /// `--addnode`: additional peers to connect to, with the forms of [`Outbound::Only`].
    pub add_nodes: Vec<String>,
    /// Target number of automatic outbound connections, 1 to `crate::hub::OUTBOUND_COUNT_MAX`.
    pub outbound_count: usize,
    /// Target number of automatic block-relay-only connections.
    pub block_relay_count: usize,
    /// Maximum number of inbound connections.
    pub inbound_count_max: usize,
    /// `--listen`: sockets that accept inbound connections; empty by default.
    pub listen: Vec<SocketAddr>,
    /// `--proxy`: a SOCKS5 proxy (host:port) for every connection and name lookup.
    pub proxy: Option<String>,
    /// `--onion`: a SOCKS5 proxy for Tor's onion services, instead of the general one.
    pub onion_proxy: Option<String>,
    /// `--proxyrandomize`: whether each connection through a proxy has credentials of its own.
    pub proxy_randomize: bool,
    /// Our addresses, which are announced to peers ([`crate::own_addresses()`]).
    pub external: Vec<OwnAddress>,
    /// `--onlynet`: peers are sought only in these networks; in all networks if the list is empty. Inbound
    /// connections and peers that the user names are not restricted.
    pub only_networks: Vec<Reachable>,
    /// `-cjdnsreachable`: addresses of fc00::/8 that the user adds are CJDNS addresses. No peers are sought in CJDNS.
    pub cjdns: bool,
    /// `--peertimeout`: handshake and inactivity timeout.
    pub peer_timeout: Duration,
    /// `--whitelist`: permissions for peers from some networks.
    pub whitelist: Vec<PermittedNet>,
    /// `--whitebind`: sockets besides `listen`, with the permissions of peers that connect there.
    pub whitebind: Vec<(SocketAddr, Permissions)>,
    /// `-bind=ADDRESS=onion`: sockets for a Tor service on this machine.
    pub onion: Vec<SocketAddr>,
    /// The default socket for a Tor service if no address is given: another program may already use it.
    pub onion_default: Option<SocketAddr>,
    /// `-maxuploadtarget`: maximum number of bytes sent in a day; 0: no limit.
    pub upload_max: u64,
    /// `--seednode`: nodes that are asked for addresses and then disconnected, with the forms of [`Outbound::Only`].
    pub seed_nodes: Vec<String>,
    /// Whether DNS seeds may be queried (`--dnsseed`).
    pub dns_seed: bool,
    /// Whether all DNS seeds are queried at once, even if addresses are known (`--forcednsseed`).
    pub force_dns_seed: bool,
    /// Whether fixed seeds are used if no other source gives addresses (`--fixedseeds`).
    pub fixed_seeds: bool,
    /// Whether basic block filters are served (`--peerblockfilters`).
    pub compact_filters: bool,
    /// UTXO sets that are served in chunks (BIP-0452).
    pub utxo_sets: Option<Arc<dyn SetSource>>,
    /// The state through which a UTXO set is fetched from peers in chunks.
    pub set_exchange: Option<Arc<SetExchange>>,
    /// Receives the lines that are always logged. Peers must not be able to cause many of them: their number has no
    /// other bound.
    pub log: LogLines,
    /// Receives a line for each message and connection (`--debug net`).
    pub debug_net: Option<LogLines>,
    /// Receives the lines about checks of the address memory (`--debug addrman`).
    pub debug_addrman: Option<LogLines>,
    /// Whether those lines include addresses (`--logips`).
    pub log_ips: bool,
    /// Whether the v2 transport is offered and tried first (`--v2transport`).
    pub v2transport: bool,
    /// Our version for the user agent `/ffwd:VERSION/`.
    pub version: String,
    /// The address memory of an earlier run; `None`: an empty one.
    pub addresses: Option<Addresses>,
    /// How addresses are grouped (`--asmap`); the address memory uses the same groups.
    pub groups: Arc<NetGroups>,
    /// Block-relay-only peers of the last run (anchors), which are connected to first.
    pub anchors: Vec<AddressEntry>,
    /// Download window: bytes of blocks that may be requested or held by the receiver of events at a time.
    ///
    /// Never exceeded by more than the same size again plus 64 MiB, see [`crate::download`].
    pub window_bytes: usize,
    /// How many blocks beyond the lowest missing one may be requested.
    pub window_count: usize,
    /// `--maxdownload`: bytes a second that are read from all peers together; `None`: no limit.
    pub download_rate_max: Option<u64>,
    /// Banned addresses: ffwd does not connect to them, and refuses inbound connections from them.
    pub bans: Arc<Mutex<BanList>>,
    /// Source of the time of day: the machine's clock, or another.
    pub clock: fn() -> SystemTime,
    /// Hash implementation for headers (`--cpu`).
    pub kernels: Kernels,
}

impl Config {
    /// Defaults: 8 outbound peers, at most 189 inbound ones, no listening, v2 on, a window of 64 MiB and 1,024
    /// blocks.
    ///
    /// 1,024 blocks are Core's `BLOCK_DOWNLOAD_WINDOW`, which bounds how far out of order blocks are in the block
    /// files.
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
            cjdns: false,
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
            utxo_sets: None,
            set_exchange: None,
            log: LogLines::none(),
            debug_net: None,
            debug_addrman: None,
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

    /// Whether onion services are reachable.
    pub(crate) fn reaches_onion(&self) -> bool {
        self.proxy.is_some() || self.onion_proxy.is_some()
    }

    /// Whether inbound connections are accepted.
    pub(crate) fn listens(&self) -> bool {
        !(self.listen.is_empty() && self.whitebind.is_empty() && self.onion.is_empty())
    }
}

/// Chooses between the general proxy and the one for onion services.
pub(crate) fn proxy_for<'a>(target: &Target, all: Option<&'a str>, onion: Option<&'a str>) -> Option<&'a str> {
    let is_onion = matches!(target, Target::Peer(peer) if matches!(peer.address, NetAddress::TorV3(_)));
    onion.filter(|_| is_onion).or_else(|| all.filter(|_| target.is_proxied()))
}

/// The node's verdict on a received block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockVerdict {
    /// It is well-formed and stored, or no longer needed: it is not requested again.
    Stored,
    /// Its bytes are not a body of its header, or CheckBlock refuses them: the peer that sent them is disconnected,
    /// and the block is requested from another. The header is not marked.
    BadBody {
        /// The peer of [`Event::Block`]: several peers may have sent a body of this block.
        peer: PeerId,
        /// Why, in Core's words.
        reason: String,
    },
    /// Its bytes are not a block: it is requested again, from another peer or later. A peer that sends such bytes
    /// repeatedly is disconnected.
    Unreadable {
        /// The peer of [`Event::Block`].
        peer: PeerId,
        /// Why.
        reason: String,
    },
    /// The block is permanently invalid. The node marks its header *before* it reports this verdict. The peer that
    /// sent the block is disconnected, and so is every peer whose best chain has it.
    Invalid(String),
}

/// The bytes of a received block, and the space they occupy in the download window.
///
/// Dereferences to the serialized block. The space in the window is released when this value (or the [`Reservation`]
/// of [`BlockBytes::into_parts`]) is dropped: keep it exactly as long as the memory.
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

    /// A block outside any window.
    pub fn detached(bytes: Vec<u8>) -> BlockBytes {
        BlockBytes { bytes, start: 0, reservation: Reservation::none() }
    }

    /// The vector, the offset of the block in it, and the window's guard. Return the vector to
    /// [`Reservation::buffers`] after use.
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

/// Properties of a peer after its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address, as text.
    pub address: String,
    /// Whether it connected to us.
    pub inbound: bool,
    /// Whether the connection is encrypted (BIP324).
    pub v2: bool,
    /// Its protocol version.
    pub version: u32,
    /// The services that it offers.
    pub services: u64,
    /// Its user agent, printable characters only.
    pub agent: String,
    /// The height in its `version` message. Not verified.
    pub height: i32,
}

/// Events from the network to the node, in order.
#[derive(Debug)]
pub enum Event {
    /// A handshake is done.
    PeerConnected {
        /// The connection.
        peer: PeerId,
        /// Properties of the peer.
        info: PeerInfo,
    },
    /// A connection ended. If it could not be made, there is an [`Event::Note`] for each kind of error. If it ended
    /// before its handshake, this event is sent only the first time for each peer. All others are only counted
    /// ([`crate::facts::DialFacts::troubles`]).
    PeerGone {
        /// The connection.
        peer: PeerId,
        /// Its address, as text.
        address: String,
        /// Whether it had connected to us.
        inbound: bool,
        /// The reason; see [`Reason::is_offence`] for misbehaviour.
        reason: Reason,
    },
    /// New headers are in the tree: the best chain may have changed, see [`crate::Network::want`].
    Headers {
        /// The peer that sent them.
        peer: PeerId,
        /// Number of new headers.
        new_count: usize,
    },
    /// A requested block has arrived. The node answers with [`crate::Network::verdict`].
    Block {
        /// The peer that sent it.
        peer: PeerId,
        /// Its hash.
        hash: BlockHash,
        /// Its height, as given in the [`Want`].
        height: Height,
        /// Its bytes.
        bytes: BlockBytes,
    },
    /// The best blocks of the peers with at least our tip's work, preferred ones first. Call [`crate::Network::want`]
    /// with the blocks missing up to each, in the same order.
    ///
    /// Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`: each peer is asked for the blocks of its own chain.
    Targets(Vec<BlockHash>),
    /// Few blocks of a list are left to request: provide the next lists with [`crate::Network::want`].
    ///
    /// Sent once per list, and only if the list was not empty.
    WantMore,
    /// Header sync is complete: every outbound peer has sent its whole header chain (or its time for that is over),
    /// at least one did, and the best chain has minimum work. Once the last block of that chain is connected, our tip
    /// is the tip of the peers.
    /// Named peers that cannot be reached have [`crate::hub::outbound::NAMED_PATIENCE`].
    ///
    /// Sent whenever this becomes true; [`Progress::headers_done`] has the current state.
    HeadersDone,
    /// The answer to [`crate::Network::echo`].
    Echo,
    /// The address memory as bytes of peers.dat, for [`Config::addresses`] of the next run.
    /// Sent every quarter of an hour, and when the network stops.
    Addresses(Vec<u8>),
    /// The block-relay-only peers when the network stops: their number, and the bytes of anchors.dat.
    Anchors(usize, Vec<u8>),
    /// A line for the log that is neither an offence nor a fault. No peer can cause many of them.
    Note(String),
    /// A line for the log that peers can cause without limit.
    PeerNote {
        /// The connection, if there is one.
        peer: Option<PeerId>,
        /// Whether the peer connected to us.
        inbound: bool,
        /// The line.
        text: String,
    },
}

/// Progress of the network. All counters are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Outbound peers with a finished handshake.
    pub outbound_count: usize,
    /// Inbound peers with a finished handshake.
    pub inbound_count: usize,
    /// Peers that can serve the next blocks to download.
    pub download_peer_count: usize,
    /// Bytes received on all sockets.
    pub received_bytes: u64,
    /// Bytes sent on all sockets.
    pub sent_bytes: u64,
    /// Blocks passed to the node.
    pub blocks_count: u64,
    /// Bytes of those blocks.
    pub blocks_bytes: u64,
    /// Connections ended because a requested answer did not arrive in time.
    pub stalled_count: u64,
    /// Connections ended because the peer misbehaved.
    pub misbehaved_count: u64,
    /// Blocks that arrived twice or unsolicited.
    pub blocks_dropped_count: u64,
    /// Blocks in flight: requested and not yet received.
    pub in_flight_count: usize,
    /// Bytes of blocks held by the node, see [`BlockBytes`].
    pub held_bytes: usize,
    /// Blocks of the current list that have not arrived.
    pub wanted_count: usize,
    /// Height of the most advanced presync, if there is one.
    pub presync_height: Option<Height>,
    /// See [`Event::HeadersDone`].
    pub headers_done: bool,
    /// Whether at least one outbound peer has sent its whole header chain, and none of the others is about to send
    /// more of its own: the last headers message of each was not full.
    pub headers_settled: bool,
    /// The block with most work among the chains of outbound peers that deliver the blocks they announce. Together
    /// with [`Progress::headers_done`]: a chain with as much work is the tip of the peers.
    pub best_claim: Option<HeaderInfo>,
    /// Blocks that peers announced and none delivered, see [`crate::hub::block_download::delivery`].
    pub undelivered: Vec<Want>,
    /// Whether at least half of the outbound peers that have sent their chains have headers more than two hours ahead
    /// of our clock: the clock may be wrong.
    pub headers_too_new: bool,
    /// Whether the window is full, so that the network waits for the node (disk or processor). If false while blocks
    /// are missing, the node waits for the network.
    pub window_full: bool,
    /// The state of the network that explains its progress, or the lack of it.
    pub facts: NetworkFacts,
}
