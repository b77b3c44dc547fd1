//! Calls that list connections and network settings. Source: Bitcoin Core b88bffe, rpc/net.cpp.

use super::info::warnings;
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::{Fields, Json};
use crate::registry::{Call, Run};
use node::options::Prune;
use p2p::api::Reachable;
use p2p::own_addresses::OwnAddress;
use p2p::upload_target::{CYCLE, UploadTarget};
use p2p::wire::{PROTOCOL_VERSION, services};
use p2p::{PeerStats, Reached};
use primitives::hex;
use std::time::{Duration, UNIX_EPOCH};

/// The release of Core with these answers, 32.1: clients choose their calls by it.
const CORE_VERSION: u32 = 320_100;
/// Names of services by bit. Source: Bitcoin Core b88bffe, protocol.cpp, `serviceFlagToStr`.
const SERVICES: [(u32, &str); 6] =
    [(0, "NETWORK"), (2, "BLOOM"), (3, "WITNESS"), (6, "COMPACT_FILTERS"), (10, "NETWORK_LIMITED"), (11, "P2P_V2")];
/// Core's default of `-minrelaytxfee` and `-incrementalrelayfee`, in satoshis per kvB.
const RELAY_FEE: i64 = 100;
/// Characters of a user agent that are shown, in addition to letters and digits. Source: Bitcoin Core b88bffe,
/// util/strencodings.cpp, `SAFE_CHARS_DEFAULT`.
const SAFE: &str = " .,;-_/:?@()";

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "network",
        name: "getconnectioncount",
        about: "Returns the number of connections to other nodes.",
        args: &[],
        run: Run::Now(get_connection_count),
    },
    Call {
        category: "network",
        name: "getnettotals",
        about: "Returns information about network traffic, including bytes in, bytes out,\nand current system time.",
        args: &[],
        run: Run::Now(get_net_totals),
    },
    Call {
        category: "network",
        name: "getnetworkinfo",
        about: "Returns an object containing various state info regarding P2P networking.\n\
            It has an entry for each network (ipv4, ipv6, onion, i2p, cjdns).",
        args: &[],
        run: Run::Now(get_network_info),
    },
    Call {
        category: "network",
        name: "getpeerinfo",
        about: "Returns data about each connected network peer as a json array of objects.\n\
            The network of a peer is one of (ipv4, ipv6, onion, i2p, cjdns, not_publicly_routable).",
        args: &[],
        run: Run::Now(get_peer_info),
    },
];

fn get_connection_count(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    Ok(context.program.peers.peers().len().into())
}

fn get_net_totals(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let (received, sent) = context.program.peers.totals_now();
    let since = (context.live()?.clock())().duration_since(UNIX_EPOCH).unwrap_or_default();
    let upload = context.program.peers.upload().unwrap_or_else(|| UploadTarget::default().state());
    let target = Json::object()
        .put("timeframe", CYCLE.as_secs())
        .put("target", upload.target)
        .put("target_reached", upload.is_reached)
        .put("serve_historical_blocks", upload.serves_old_blocks)
        .put("bytes_left_in_cycle", upload.bytes_left)
        .put("time_left_in_cycle", upload.seconds_left)
        .end();
    Ok(Json::object()
        .put("totalbytesrecv", received)
        .put("totalbytessent", sent)
        .put("timemillis", u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
        .put("uploadtarget", target)
        .end())
}

/// The names of services. Source: Bitcoin Core b88bffe, protocol.cpp, `serviceFlagsToStr`.
fn service_names(offered: u64) -> Json {
    let bits = (0..64_u32).filter(|bit| offered & 1 << bit != 0);
    let name = |bit: u32| {
        let known = SERVICES.iter().find(|(known, _)| *known == bit);
        known.map_or_else(|| format!("UNKNOWN[2^{bit}]"), |(_, name)| (*name).to_owned())
    };
    bits.map(|bit| Json::from(name(bit))).collect::<Vec<_>>().into()
}

/// With fewer peers the median is not computed, and 0 is shown. Source: Bitcoin Core b88bffe, `TimeOffsets::Median`.
const OFFSETS_MIN: usize = 5;

/// The median of the clocks of peers, in seconds ahead of ours.
fn median_offset(mut offsets: Vec<i64>) -> i64 {
    offsets.sort_unstable();
    if offsets.len() < OFFSETS_MIN { 0 } else { offsets[offsets.len() / 2] }
}

fn get_network_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let peers = &context.program.peers;
    let live = context.live()?;
    let has_all_blocks = live.options.prune == Prune::Off && live.assumed().is_none() && !live.is_archiving();
    let blocks = if has_all_blocks { services::NETWORK } else { 0 } | services::NETWORK_LIMITED;
    let v2 = if peers.offers_v2() { services::P2P_V2 } else { 0 };
    let filters = if peers.offers_filters() { services::COMPACT_FILTERS } else { 0 };
    let offered = blocks | services::WITNESS | filters | v2;
    let all = peers.peers();
    let inbound = all.iter().filter(|peer| peer.inbound).count();
    let greeted = all.iter().filter(|peer| !peer.inbound && peer.version > 0);
    let offset = median_offset(greeted.map(|peer| peer.time_offset).collect());
    let relay_fee = Json::amount(RELAY_FEE);
    let version = peers.agent_version();
    Ok(Json::object()
        .put("version", CORE_VERSION)
        .put("subversion", format!("/ffwd:{}/", version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"))))
        .put("protocolversion", PROTOCOL_VERSION)
        .put("localservices", format!("{offered:016x}"))
        .put("localservicesnames", service_names(offered))
        .put("localrelay", false)
        .put("timeoffset", offset)
        .put("networkactive", peers.is_active())
        .put("connections", all.len())
        .put("connections_in", inbound)
        .put("connections_out", all.len() - inbound)
        .put("networks", networks(context))
        .put("relayfee", relay_fee.clone())
        .put("incrementalfee", relay_fee)
        .put("localaddresses", local_addresses(context))
        // Core 32 has it; its place among the others is assumed.
        .put_some("asmap_version", peers.map_file_hash().map(|hash| primitives::hex::encode(&hash)))
        .put("warnings", warnings(&live))
        .end())
}

/// Our addresses, with Core's scores.
fn local_addresses(context: &Context) -> Vec<Json> {
    let one = |own: OwnAddress| {
        let port = u32::from(own.peer.port);
        let fields = Json::object().put("address", own.peer.address.to_string()).put("port", port);
        fields.put("score", own.score).end()
    };
    context.program.peers.external().into_iter().map(one).collect()
}

/// Which networks are reachable, and through which proxy. Source: Core's `GetNetworksInfo`.
fn networks(context: &Context) -> Json {
    let Reached { proxy, onion_proxy, randomizes, only } = context.program.peers.reach();
    let one = |(name, network): (&str, Option<Reachable>)| {
        let is_reachable = network.is_some_and(|network| {
            (only.is_empty() || only.contains(&network)) && (network != Reachable::Onion || onion_proxy.is_some())
        });
        let of = if network == Some(Reachable::Onion) { &onion_proxy } else { &proxy };
        let proxy = of.clone().filter(|_| is_reachable).unwrap_or_default();
        Json::object()
            .put("name", name)
            .put("limited", !is_reachable)
            .put("reachable", is_reachable)
            .put("proxy", proxy.as_str())
            .put("proxy_randomize_credentials", randomizes && !proxy.is_empty())
            .end()
    };
    let all = [
        ("ipv4", Some(Reachable::Ipv4)),
        ("ipv6", Some(Reachable::Ipv6)),
        ("onion", Some(Reachable::Onion)),
        ("i2p", None),
        ("cjdns", None),
    ];
    all.into_iter().map(one).collect::<Vec<_>>().into()
}

fn get_peer_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    Ok(context.program.peers.peers().iter().map(peer_info).collect::<Vec<_>>().into())
}

fn seconds(time: Duration) -> Json {
    Json::double(time.as_secs_f64())
}

fn by_type(bytes: &[(&'static str, u64)]) -> Json {
    // Core's name of unknown commands.
    let name = |name: &'static str| if name == "(other)" { "*other*" } else { name };
    bytes.iter().fold(Json::object(), |fields, (of, count)| fields.put(name(of), *count)).end()
}

/// One connection. Core's transaction counters are 0 here.
fn peer_info(peer: &PeerStats) -> Json {
    let height = |height: Option<primitives::Height>| height.map_or(-1, |height| i64::from(height.to_u32()));
    let agent: String = peer.agent.chars().filter(|c| c.is_ascii_alphanumeric() || SAFE.contains(*c)).collect();
    let list = |texts: &[&'static str]| texts.iter().map(|text| Json::from(*text)).collect::<Vec<_>>();
    let fields: Fields = Json::object()
        .put("id", peer.id.0)
        .put("addr", peer.address.as_str())
        .put_some("addrbind", peer.local.map(|local| local.to_string()))
        .put("network", peer.network)
        .put_some("mapped_as", Some(peer.mapped_as).filter(|system| *system != 0))
        .put("services", format!("{:016x}", peer.services))
        .put("servicesnames", service_names(peer.services))
        .put("relaytxes", false)
        .put("last_inv_sequence", 0_u32)
        .put("inv_to_send", 0_u32)
        .put("lastsend", peer.last_send)
        .put("lastrecv", peer.last_receive)
        .put("last_transaction", 0_u32)
        .put("last_block", peer.last_block)
        .put("bytessent", peer.sent_bytes)
        .put("bytesrecv", peer.received_bytes)
        .put("conntime", peer.connected)
        .put("timeoffset", peer.time_offset)
        .put_some("pingtime", peer.ping.map(seconds))
        .put_some("minping", peer.ping_min.map(seconds))
        .put_some("pingwait", peer.ping_wait.filter(|wait| !wait.is_zero()).map(seconds))
        .put("version", peer.version)
        .put("subver", agent)
        .put("inbound", peer.inbound)
        .put("bip152_hb_to", false)
        .put("bip152_hb_from", false)
        .put("presynced_headers", height(peer.presynced))
        .put("synced_headers", height(peer.synced_headers))
        .put("synced_blocks", height(peer.synced_blocks))
        .put("inflight", peer.in_flight.iter().map(|height| Json::from(*height)).collect::<Vec<_>>())
        .put("addr_relay_enabled", peer.relays_addresses)
        .put("addr_processed", peer.addresses_processed)
        .put("addr_rate_limited", peer.addresses_limited)
        .put("permissions", list(&peer.permissions))
        .put("minfeefilter", Json::amount(0))
        .put("bytessent_per_msg", by_type(&peer.sent_by_type))
        .put("bytesrecv_per_msg", by_type(&peer.received_by_type))
        .put("connection_type", peer.connection_type)
        .put("transport_protocol_type", peer.transport)
        .put("session_id", peer.session_id.map_or_else(String::new, |id| hex::encode(&id)));
    fields.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_five_peers_have_no_median_of_clocks() {
        for (offsets, want) in [(vec![], 0), (vec![7; 4], 0), (vec![9, -3, 7, 1, 2], 2), (vec![5, 1, 2, 3, 4, 6], 4)] {
            assert_eq!(median_offset(offsets.clone()), want, "{offsets:?}");
        }
    }

    #[test]
    fn service_names_are_cores() {
        let text = |offered| service_names(offered).text();
        assert_eq!(text(0), "[]");
        assert_eq!(text(0xc09), r#"["NETWORK","WITNESS","NETWORK_LIMITED","P2P_V2"]"#);
        assert_eq!(text(1 << 40 | 4), r#"["BLOOM","UNKNOWN[2^40]"]"#);
    }
}
