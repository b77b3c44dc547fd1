//! Options of `sync`, which downloads blocks from peers up to their tip and follows it from there. The work is in
//! `session`.

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

/// Options of a sync, besides those of all jobs.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// `--connect`: connect only to these; an empty list disables outbound connections.
    pub connect: Option<Vec<String>>,
    /// `--addnode`.
    pub addnode: Vec<String>,
    /// `--listen`.
    pub listen: Vec<SocketAddr>,
    /// `--proxy`.
    pub proxy: Option<String>,
    /// End at the tip of the peers' chain.
    pub exit_at_tip: bool,
    /// `--v2transport`.
    pub v2transport: bool,
    /// `--dnsseed`.
    pub dnsseed: bool,
    /// Number of outbound connections, at most 12.
    pub outbound: usize,
    /// Further settings of connections.
    pub peers: PeerSettings,
    /// Limits and pauses of the block download.
    pub download: Download,
    /// The handle for requests to the running sync.
    pub handle: Option<Arc<Handle>>,
    /// `--from`: data directories or block files that supply blocks in addition to peers.
    pub from: Vec<PathBuf>,
    /// `--prune 0` was given: a pruned data directory becomes archival. Without it such a directory is refused.
    pub to_archival: bool,
}

impl SyncOptions {
    /// Whether the sync connects to no peer.
    pub fn seeks_none(&self) -> bool {
        self.connect.as_ref().is_some_and(Vec::is_empty) && self.addnode.is_empty()
    }

    /// Whether there are no connections, outbound or inbound.
    pub(crate) fn is_alone(&self) -> bool {
        self.outbound == 0 && self.connect.as_ref().is_some_and(Vec::is_empty)
    }

    /// No connections, outbound or inbound: the sync only uses the data directory and serves requests through the
    /// handle.
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
            to_archival: false,
        }
    }
}

/// Limits and pauses of the block download.
#[derive(Clone, Debug)]
pub struct Download {
    /// Limits that the user set.
    pub limits: DownloadLimits,
    /// Pauses and resumes the download on request.
    pub switch: Arc<DownloadSwitch>,
    /// Offset of local time from UTC in seconds, at a time in seconds since 1970.
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
    /// `-seednode`: nodes that are only asked for addresses.
    pub seed_nodes: Vec<String>,
    /// `-forcednsseed`: query DNS seeds even if enough addresses are known.
    pub force_dns_seed: bool,
    /// `-fixedseeds=0`.
    pub no_fixed_seeds: bool,
    /// `-onlynet`: only connect to these networks; all networks if empty.
    pub only_networks: Vec<Reachable>,
    /// `-whitelist`.
    pub whitelist: Vec<PermittedNet>,
    /// `-whitebind`: further listening addresses, with permissions.
    pub whitebind: Vec<(SocketAddr, Permissions)>,
    /// `-bind=ADDRESS=onion`: addresses that a Tor service connects to.
    pub onion: Vec<SocketAddr>,
    /// Address for a Tor service if `onion` is empty; skipped if the port is in use.
    pub onion_default: Option<SocketAddr>,
    /// `-maxuploadtarget`: maximum upload in bytes per day; 0 for no limit.
    pub upload_max: u64,
    /// `-onion`: a proxy for onion services, instead of the general proxy.
    pub onion_proxy: Option<String>,
    /// `-proxyrandomize=0`: do not use separate proxy credentials for each connection.
    pub no_proxy_randomize: bool,
    /// `-externalip`: our own addresses, which are announced to peers.
    pub external: Vec<PeerAddress>,
    /// `-discover`: our listening port, if addresses of this machine are announced too.
    pub discover: Option<u16>,
    /// Maximum number of block-relay-only connections; the network's default if `None`.
    pub block_relay: Option<usize>,
    /// `-asmap`: file that maps addresses to autonomous systems, relative to the network's directory.
    pub asmap: Option<PathBuf>,
    /// `-cjdnsreachable`: addresses of fc00::/8 that are added by calls are those of CJDNS.
    pub cjdns: bool,
    /// `-test=addrman`: a new address manager uses a fixed key.
    pub has_known_key: bool,
    /// `-checkaddrman`: checks the whole address manager once in this many operations; 0 disables the check.
    pub check_addresses: u32,
    /// `-peerblockfilters`: serve basic block filters from blockfilterindex.
    pub peer_block_filters: bool,
    /// `-peertimeout`; the network's default if `None`.
    pub timeout: Option<Duration>,
    /// `--debug net`: log each message and connection.
    pub debug_net: bool,
    /// `--debug addrman`: log each check of `-checkaddrman`.
    pub debug_addrman: bool,
    /// `-logips`: log peers' addresses.
    pub log_ips: bool,
    /// `-logratelimit=0`: do not limit the lines that peers cause.
    pub no_log_rate_limit: bool,
    /// Maximum number of inbound connections; the network's default if `None`.
    pub inbound_max: Option<usize>,
    /// Blocks that may be requested beyond the lowest missing one; Core's number if `None`.
    pub window_blocks: Option<usize>,
    /// Access to the connections while the sync runs.
    pub control: Arc<Peers>,
}

/// Parses an address, with this port if `text` has no port; `None` for a host name.
pub fn peer_address(text: &str, default_port: u16) -> Option<PeerAddress> {
    match p2p::wire::Target::parse(text, default_port).ok()? {
        p2p::wire::Target::Peer(peer) => Some(peer),
        p2p::wire::Target::Name(..) => None,
    }
}

/// Checks whether `text` can be an address of `--connect` or `--addnode`.
///
/// # Errors
///
/// The reason why it cannot.
pub fn check_peer_address(text: &str, default_port: u16) -> Result<(), String> {
    let target = p2p::wire::Target::parse(text, default_port).map_err(|why| why.to_string())?;
    match target {
        p2p::wire::Target::Peer(p2p::wire::PeerAddress { port: 0, .. }) | p2p::wire::Target::Name(_, 0) => {
            Err("no peer listens on port 0".to_owned())
        }
        _ => Ok(()),
    }
}
