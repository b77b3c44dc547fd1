//! The configuration of the network, from a sync's options.

use crate::options::Options;
use crate::reporting::Reporter;
use crate::session::options::{PeerSettings, SyncOptions};
use crate::session::peer_files::KnownPeers;
use consensus::Chain;
use p2p::{Config, Machine, NetworkParams, Outbound};

/// The network's configuration. `known` has the stored peers; `window_bytes` is the memory for blocks that arrived
/// ahead of the tip.
pub(super) fn config(options: &Options, sync: &SyncOptions, window_bytes: usize, known: KnownPeers) -> Config {
    let params = &options.params;
    let network = match params.chain {
        Chain::Main => p2p::params::MAIN,
        Chain::Test => p2p::params::TEST,
        Chain::Testnet4 => p2p::params::TESTNET4,
        Chain::Signet => p2p::params::SIGNET,
        Chain::Regtest => p2p::params::REGTEST,
    };
    // A custom signet has another magic, and none of the known seeds.
    let (dns_seeds, fixed_seeds) =
        if params.magic == network.magic { (network.dns_seeds, network.fixed_seeds) } else { (&[][..], &[][..]) };
    let mut config = Config::new(NetworkParams { magic: params.magic, dns_seeds, fixed_seeds, ..network });
    if let Some(only) = &sync.connect {
        config.outbound = Outbound::Only(only.clone());
    }
    config.add_nodes = sync.addnode.clone();
    config.listen = sync.listen.clone();
    config.proxy = sync.proxy.clone();
    (config.whitelist, config.whitebind) = (sync.peers.whitelist.clone(), sync.peers.whitebind.clone());
    (config.onion, config.onion_default) = (sync.peers.onion.clone(), sync.peers.onion_default);
    config.upload_max = sync.peers.upload_max;
    config.only_networks = sync.peers.only_networks.clone();
    config.compact_filters = sync.peers.peer_block_filters;
    config.v2transport = sync.v2transport;
    config.seed_nodes = sync.peers.seed_nodes.clone();
    (config.dns_seed, config.force_dns_seed) = (sync.dnsseed, sync.peers.force_dns_seed);
    config.fixed_seeds = !sync.peers.no_fixed_seeds;
    config.outbound_count = sync.outbound;
    config.version = user_agent_version(&sync.peers.user_agent_comments);
    config.log_ips = sync.peers.log_ips;
    config.cjdns = sync.peers.cjdns;
    config.peer_timeout = sync.peers.timeout.unwrap_or(config.peer_timeout);
    config.inbound_count_max = sync.peers.inbound_max.unwrap_or(config.inbound_count_max);
    (config.groups, config.addresses, config.anchors) = (known.groups, known.addresses, known.anchors);
    config.onion_proxy = sync.peers.onion_proxy.clone();
    config.proxy_randomize = !sync.peers.no_proxy_randomize;
    let interfaces = sync.peers.discover.map(|_| sys::interfaces::addresses()).unwrap_or_default();
    let machine = sync.peers.discover.map(|port| Machine { port, interfaces: &interfaces });
    config.external = p2p::own_addresses(&config, &sync.peers.external, machine);
    config.block_relay_count = sync.peers.block_relay.unwrap_or(config.block_relay_count);
    config.clock = options.clock;
    config.kernels = options.kernels;
    config.window_bytes = window_bytes;
    config.download_rate_max = sync.download.limits.rate_max;
    config.window_count = sync.peers.window_blocks.unwrap_or(config.window_count);
    config
}

/// Sets where the network's lines go: to debug.log.
pub(super) fn log_to(config: &mut Config, settings: &PeerSettings, reporter: &Reporter<'_>) {
    config.log = reporter.log_lines(None);
    config.debug_net = settings.debug_net.then(|| reporter.log_lines(Some("net")));
    config.debug_addrman = settings.debug_addrman.then(|| reporter.log_lines(Some("addrman")));
}

/// The version in the user agent, with comments as in BIP-0014.
fn user_agent_version(comments: &[String]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if comments.is_empty() { version.to_owned() } else { format!("{version}({})", comments.join("; ")) }
}
