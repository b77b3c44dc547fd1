//! `sync`: blocks from peers, to the tip that they have, and on from there: what it is told. What it does is in `session`.

pub use crate::handle::DownloadSwitch;
use crate::handle::Handle;
use crate::options::{Clock, unix_seconds};
use crate::session::budget::LocalTime;
pub use crate::session::budget::{DownloadLimits, Hours};
use core::net::SocketAddr;
use p2p::Peers;
pub use p2p::api::{BLOCK_RELAY_COUNT_MAX, OUTBOUND_RESERVED, Reachable};
pub use p2p::permissions::{Permissions, PermittedNet, parse_whitebind};
pub use p2p::wire::PeerAddress;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What sync is told beside what all jobs are.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// `--connect`: only these; an empty list for none at all.
    pub connect: Option<Vec<String>>,
    /// `--addnode`.
    pub addnode: Vec<String>,
    /// `--listen`.
    pub listen: Vec<SocketAddr>,
    /// `--proxy`.
    pub proxy: Option<String>,
    /// End at the tip that the peers have.
    pub exit_at_tip: bool,
    /// `--v2transport`.
    pub v2transport: bool,
    /// `--dnsseed`.
    pub dnsseed: bool,
    /// Outbound connections, at most 12.
    pub outbound: usize,
    /// What else peers see of this node, and how many may connect.
    pub peers: PeerSettings,
    /// How much may be downloaded, and when.
    pub download: Download,
    /// Who may look at the sync and ask it things.
    pub handle: Option<Arc<Handle>>,
    /// `--from`: data directories or block files whose blocks are used beside those of peers.
    pub from: Vec<PathBuf>,
}

impl SyncOptions {
    /// Whether no peer is sought at all.
    pub fn seeks_none(&self) -> bool {
        self.connect.as_ref().is_some_and(Vec::is_empty) && self.addnode.is_empty()
    }

    /// Whether there is no peer, neither way.
    pub(crate) fn is_alone(&self) -> bool {
        self.outbound == 0 && self.connect.as_ref().is_some_and(Vec::is_empty)
    }

    /// No peer, neither way, over either transport: what is in the data directory, and what others ask through the handle.
    pub fn alone() -> SyncOptions {
        SyncOptions {
            connect: Some(Vec::new()),
            addnode: Vec::new(),
            listen: Vec::new(),
            proxy: None,
            exit_at_tip: false,
            v2transport: true,
            dnsseed: false,
            outbound: 0,
            peers: PeerSettings::default(),
            download: Download::default(),
            handle: None,
            from: Vec::new(),
        }
    }
}

/// How much may be downloaded, and when.
#[derive(Clone, Debug)]
pub struct Download {
    /// What the user allows.
    pub limits: DownloadLimits,
    /// Paused and resumed by a person.
    pub switch: Arc<DownloadSwitch>,
    /// Seconds that local time is ahead of UTC, at a time in seconds since 1970.
    pub local_ahead_s: fn(u64) -> i32,
}

impl Default for Download {
    /// No limits, and UTC.
    fn default() -> Download {
        Download { limits: DownloadLimits::default(), switch: Arc::default(), local_ahead_s: |_| 0 }
    }
}

impl Download {
    pub(crate) fn local_time(&self, clock: Clock) -> LocalTime {
        let unix = unix_seconds(clock);
        LocalTime::of(unix, (self.local_ahead_s)(unix))
    }
}

/// Settings of connections that have a default.
#[derive(Clone, Debug, Default)]
pub struct PeerSettings {
    /// `-uacomment`.
    pub user_agent_comments: Vec<String>,
    /// `-seednode`: nodes that are asked for addresses alone.
    pub seed_nodes: Vec<String>,
    /// `-forcednsseed`: DNS seeds are asked whatever addresses are known.
    pub force_dns_seed: bool,
    /// `-fixedseeds=0`.
    pub no_fixed_seeds: bool,
    /// `-onlynet`; every network without.
    pub only_networks: Vec<Reachable>,
    /// `-whitelist`.
    pub whitelist: Vec<PermittedNet>,
    /// `-whitebind`: where to listen besides.
    pub whitebind: Vec<(SocketAddr, Permissions)>,
    /// `-bind=ADDRESS=onion`: where a Tor service connects to.
    pub onion: Vec<SocketAddr>,
    /// The same, where none is named: it is left out where it is taken.
    pub onion_default: Option<SocketAddr>,
    /// `-maxuploadtarget`: bytes of a day; 0: any number.
    pub upload_max: u64,
    /// `-onion`: the proxy for onion services, in place of that for everything.
    pub onion_proxy: Option<String>,
    /// `-proxyrandomize=0`: connections through a proxy have no credentials of their own.
    pub no_proxy_randomize: bool,
    /// `-externalip`: our addresses, which peers are told.
    pub external: Vec<PeerAddress>,
    /// Most connections for blocks alone; the network's default without.
    pub block_relay: Option<usize>,
    /// `-asmap`: file of a map of autonomous systems, relative to the network's directory.
    pub asmap: Option<PathBuf>,
    /// `-test=addrman`: a new address memory has a key that is known.
    pub has_known_key: bool,
    /// `-checkaddrman`: one operation on the address memory in this many is followed by a check of all of it; 0: none.
    pub check_addresses: u32,
    /// `-peerblockfilters`: basic block filters are served, of blockfilterindex.
    pub peer_block_filters: bool,
    /// `-peertimeout`; the network's default without.
    pub timeout: Option<Duration>,
    /// `--debug net`: each message and connection is told of in the log.
    pub debug_net: bool,
    /// `-logips`: with addresses.
    pub log_ips: bool,
    /// `-logratelimit=0`: lines about inbound connections are all in the log.
    pub no_log_rate_limit: bool,
    /// Most inbound connections; the network's default without.
    pub inbound_max: Option<usize>,
    /// How many blocks may be asked for beyond the lowest that has not arrived; Core's number without.
    pub window_blocks: Option<usize>,
    /// What the connections may be asked through while the sync runs.
    pub control: Arc<Peers>,
}

/// The address that `text` is, with this port where it has none; nothing where it is a name.
pub fn peer_address(text: &str, default_port: u16) -> Option<PeerAddress> {
    match p2p::wire::Target::parse(text, default_port).ok()? {
        p2p::wire::Target::Peer(peer) => Some(peer),
        p2p::wire::Target::Name(..) => None,
    }
}

/// Whether `text` can be an address of `--connect` or `--addnode`.
///
/// # Errors
///
/// Why not.
pub fn check_peer_address(text: &str, default_port: u16) -> Result<(), String> {
    let target = p2p::wire::Target::parse(text, default_port).map_err(|why| why.to_string())?;
    match target {
        p2p::wire::Target::Peer(p2p::wire::PeerAddress { port: 0, .. }) | p2p::wire::Target::Name(_, 0) => {
            Err("no peer listens on port 0".to_owned())
        }
        _ => Ok(()),
    }
}
