//! The words of the states: a stable name for programs, and a sentence for people with advice.
//!
//! Only a current tip is called final ("following"). Numbers in a sentence may change from one call to the next.

use super::state::{BlockWait, Loading, Past, Pause, SessionState, ShutOut};
use crate::fault::Message;
use primitives::{Height, human};

impl SessionState {
    /// The names of all states: stable, for programs.
    pub const NAMES: [&str; 29] = [
        "opening",
        "stopping",
        "serving",
        "disk_full",
        "paused",
        "chain_shut_out",
        "at_stop_height",
        "network_off",
        "no_connections",
        "connecting",
        "no_network",
        "dns_failed",
        "proxy_refuses",
        "no_peer",
        "no_peer_past_proxy",
        "no_headers",
        "little_work",
        "peers_pruned",
        "peers_behind",
        "waiting_for_block",
        "headers",
        "blocks",
        "network_bound",
        "cpu_bound",
        "disk_bound",
        "loading_snapshot",
        "validating_past",
        "following",
        "waiting_for_newer_blocks",
    ];

    /// The name: one of [`SessionState::NAMES`].
    pub fn name(&self) -> &'static str {
        match self {
            SessionState::Opening => "opening",
            SessionState::Stopping => "stopping",
            SessionState::Serving => "serving",
            SessionState::DiskFull => "disk_full",
            SessionState::Paused(_) => "paused",
            SessionState::ChainShutOut(_) => "chain_shut_out",
            SessionState::AtStopHeight { .. } => "at_stop_height",
            SessionState::NetworkOff => "network_off",
            SessionState::NoConnections { .. } => "no_connections",
            SessionState::Connecting => "connecting",
            SessionState::NoNetwork => "no_network",
            SessionState::DnsFailed { .. } => "dns_failed",
            SessionState::ProxyRefuses { .. } => "proxy_refuses",
            SessionState::NoPeer { .. } => "no_peer",
            SessionState::NoPeerPastProxy { .. } => "no_peer_past_proxy",
            SessionState::NoHeaders => "no_headers",
            SessionState::LittleWork => "little_work",
            SessionState::PeersPruned { .. } => "peers_pruned",
            SessionState::PeersBehind { .. } => "peers_behind",
            SessionState::WaitingForBlock(_) => "waiting_for_block",
            SessionState::Headers { .. } => "headers",
            SessionState::Blocks => "blocks",
            SessionState::NetworkBound => "network_bound",
            SessionState::CpuBound => "cpu_bound",
            SessionState::DiskBound => "disk_bound",
            SessionState::LoadingSnapshot(_) => "loading_snapshot",
            SessionState::ValidatingPast(_) => "validating_past",
            SessionState::Following { .. } => "following",
            SessionState::WaitingForNewerBlocks { .. } => "waiting_for_newer_blocks",
        }
    }

    /// The state in a sentence, with advice if something helps.
    pub fn sentence(&self) -> String {
        let count = |height: &Height| human::count(height.to_u32().into());
        match self {
            SessionState::Opening => "Opening the data directory".to_owned(),
            SessionState::Stopping => "Stopping: connected blocks are committed first".to_owned(),
            SessionState::Serving => "Serving a data directory, without peers".to_owned(),
            SessionState::DiskFull => "The disk is full: the work goes on when there is space".to_owned(),
            SessionState::Paused(pause) => pause.sentence(),
            SessionState::ChainShutOut(shut_out) => shut_out.message().to_string(),
            SessionState::AtStopHeight { stop, height } if height > stop => {
                format!("The chain is at height {}, already above --stopatheight {}", height, stop)
            }
            SessionState::AtStopHeight { stop, .. } => format!("Ended at height {stop}, as --stopatheight asks"),
            SessionState::NetworkOff => "The network is off: setnetworkactive true switches it on".to_owned(),
            SessionState::NoConnections { listens: true } => {
                "No peers: no connection is attempted (--connect 0), and no peer has connected".to_owned()
            }
            SessionState::NoConnections { listens: false } => {
                "No peers: connections are neither attempted nor accepted (--connect 0)".to_owned()
            }
            SessionState::Connecting => "Connecting to peers".to_owned(),
            SessionState::NoNetwork => "No network: no route to any peer. Is this machine connected?".to_owned(),
            SessionState::DnsFailed { name } => {
                format!("DNS fails: no address for {name}. Check the name server, or give addresses with --addnode")
            }
            SessionState::ProxyRefuses { proxy, why } => {
                format!("Proxy {proxy} does not connect ({why}). Is it running, and is --proxy its address?")
            }
            SessionState::NoPeer { address, why } => {
                format!("No peer can be reached; the last one tried was {address} ({why})")
            }
            SessionState::NoPeerPastProxy { address, why } => format!(
                "No peer can be reached; the last one tried was {address} ({why}), not through the proxy: it is a local address"
            ),
            SessionState::NoHeaders => "No peer has sent headers yet".to_owned(),
            SessionState::LittleWork => {
                "The chains of all peers have less work than --minimumchainwork: they are not followed".to_owned()
            }
            SessionState::PeersPruned { lowest, needed } => format!(
                "All peers are pruned: they have no blocks below height {}, and block {} is needed",
                count(lowest),
                count(needed)
            ),
            SessionState::PeersBehind { best, known } => {
                format!(
                    "All peers are behind: the best one is at height {}, this node at {}",
                    count(best),
                    count(known)
                )
            }
            SessionState::WaitingForBlock(wait) => wait.sentence(),
            SessionState::Headers { height } => format!("Downloading headers: {} so far", count(height)),
            SessionState::Blocks => "Connecting blocks".to_owned(),
            SessionState::NetworkBound => {
                "Connecting blocks, network-bound: peers send less than is possible".to_owned()
            }
            SessionState::CpuBound => "Connecting blocks, CPU-bound".to_owned(),
            SessionState::DiskBound => "Connecting blocks, disk-bound".to_owned(),
            SessionState::LoadingSnapshot(loading) => loading.sentence(),
            SessionState::ValidatingPast(past) => past.sentence(),
            SessionState::Following { height } => format!("Following the chain at height {}", count(height)),
            SessionState::WaitingForNewerBlocks { height, age_s } => format!(
                "Waiting for newer blocks: the last one, at height {}, is {} old",
                count(height),
                human::duration(*age_s as f64)
            ),
        }
    }

    /// Whether it is a problem that the user can fix: then it is also a warning.
    pub fn is_trouble(&self) -> bool {
        match self {
            SessionState::DiskFull
            | SessionState::ChainShutOut(_)
            | SessionState::NetworkOff
            | SessionState::NoNetwork
            | SessionState::DnsFailed { .. }
            | SessionState::ProxyRefuses { .. }
            | SessionState::NoPeer { .. }
            | SessionState::NoPeerPastProxy { .. }
            | SessionState::NoHeaders
            | SessionState::LittleWork
            | SessionState::PeersPruned { .. }
            | SessionState::PeersBehind { .. }
            | SessionState::WaitingForBlock(_) => true,
            SessionState::Opening
            | SessionState::Stopping
            | SessionState::Serving
            | SessionState::Paused(_)
            | SessionState::AtStopHeight { .. }
            | SessionState::NoConnections { .. }
            | SessionState::Connecting
            | SessionState::Headers { .. }
            | SessionState::Blocks
            | SessionState::NetworkBound
            | SessionState::CpuBound
            | SessionState::DiskBound
            | SessionState::LoadingSnapshot(_)
            | SessionState::ValidatingPast(_)
            | SessionState::Following { .. }
            | SessionState::WaitingForNewerBlocks { .. } => false,
        }
    }

    /// Whether blocks are being connected at the speed that some resource allows.
    pub fn is_working(&self) -> bool {
        matches!(
            self,
            SessionState::Headers { .. }
                | SessionState::Blocks
                | SessionState::NetworkBound
                | SessionState::CpuBound
                | SessionState::DiskBound
                | SessionState::LoadingSnapshot(_)
                | SessionState::ValidatingPast(_)
        )
    }
}

impl Past {
    fn sentence(self) -> String {
        let Past { height, end, were_pruned } = self;
        let [height, end] = [height, end].map(|height| human::count(height.to_u32().into()));
        match were_pruned {
            true => format!("Downloading and validating the pruned blocks: height {height} of {end}"),
            false => format!("Validating the blocks below the snapshot: height {height} of {end}"),
        }
    }
}

impl Loading {
    fn sentence(self) -> String {
        let bytes = human::bytes(self.bytes);
        let end = self.bytes_end.filter(|&end| end > 0).map(|end| {
            let percent = u128::from(self.bytes) * 100 / u128::from(end);
            format!(" of {} ({percent} %)", human::bytes(end))
        });
        let left = self.seconds_left.map(|left| format!(", about {} left", human::duration(left as f64)));
        format!("Loading the snapshot: {bytes}{}{}", end.unwrap_or_default(), left.unwrap_or_default())
    }
}

impl Pause {
    /// Why nothing is downloaded, and until when.
    pub(crate) fn sentence(self) -> String {
        match self {
            Pause::Call => "Downloads are paused: the call resumedownload or SIGUSR2 resumes them".to_owned(),
            Pause::Hours { from } => format!("Downloads are paused until {from:02}:00 (--download-hours)"),
            Pause::Target { mib } => {
                format!("Downloads are paused: {mib} MiB of this day are used up (--maxdownloadtarget)")
            }
        }
    }
}

impl ShutOut {
    /// The excluded chain, and advice.
    pub fn message(&self) -> Message {
        let ShutOut { hash, height, blocks } = self;
        Message::new(
            format!(
                "A chain with more work is shut out: block {hash} at height {height} is marked invalid, with {blocks} blocks \
                 from it on"
            ),
            "If the mark is wrong, remove it: bitcoin-cli reconsiderblock with that hash, or ffwd reindex, which judges all \
             blocks again",
        )
    }
}

impl BlockWait {
    fn sentence(&self) -> String {
        let BlockWait { height, peer, seconds } = self;
        let time = human::duration(*seconds as f64);
        match peer {
            Some(peer) => format!("Waiting for block {height} from peer {peer} for {time}"),
            None => format!("Waiting for block {height} for {time}: no connected peer sends it"),
        }
    }
}
