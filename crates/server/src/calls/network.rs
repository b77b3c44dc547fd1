//! Calls about connections and peers. Source: Bitcoin Core b88bffe, rpc/net.cpp.

use crate::args::Args;
use crate::context::{Context, Program};
use crate::error::{Code, RpcError};
use crate::json::{Fields, Json};
use crate::registry::{Arg, Call, Kind, Run};
use p2p::bans::Subnet;

/// Networks of `getnodeaddresses`, with BIP155's numbers.
const NETWORKS: [(&str, u8); 5] = [("ipv4", 1), ("ipv6", 2), ("onion", 4), ("i2p", 5), ("cjdns", 6)];

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "network",
        name: "addnode",
        about: "Attempts to add or remove a node from the addnode list.\n\
                Or try a connection to a node once.\n\
                Nodes added using addnode (or -connect) are protected from DoS disconnection.",
        args: &[
            Arg::needed(
                "node",
                Kind::Str,
                "The IP address/hostname optionally followed by :port of the peer to connect to",
            ),
            Arg::needed(
                "command",
                Kind::Str,
                "'add' to add a node to the list, 'remove' to remove a node from the list, 'onetry' to try a connection to the node once",
            ),
            Arg::optional(
                "v2transport",
                Kind::Bool,
                "Attempt to connect using BIP324 v2 transport protocol (ignored for 'remove' command)",
            ),
        ],
        run: Run::Now(add_node),
    },
    Call {
        category: "network",
        name: "clearbanned",
        about: "Clear all banned IPs.",
        args: &[],
        run: Run::Now(clear_banned),
    },
    Call {
        category: "network",
        name: "disconnectnode",
        about: "Immediately disconnects from the specified peer node.\n\n\
                Strictly one out of 'address' and 'nodeid' can be provided to identify the node.\n\n\
                To disconnect by nodeid, either set 'address' to the empty string, or call using the named 'nodeid' argument only.",
        args: &[
            Arg::optional("address", Kind::Str, "The IP address/port of the node"),
            Arg::optional("nodeid", Kind::Num, "The node ID (see getpeerinfo for node IDs)"),
        ],
        run: Run::Now(disconnect_node),
    },
    Call {
        category: "network",
        name: "getaddednodeinfo",
        about: "Returns information about the given added node, or all added nodes\n(note that onetry addnodes are not listed here)",
        args: &[Arg::optional(
            "node",
            Kind::Str,
            "If provided, return information about this specific node, otherwise all nodes are returned.",
        )],
        run: Run::Now(get_added_node_info),
    },
    Call {
        category: "network",
        name: "exportasmap",
        about: "Export the embedded ASMap data to a file. Any existing file at the path will be overwritten.\n\
                This program has no embedded data: -asmap names the file of a map.",
        args: &[Arg::needed("path", Kind::Str, "Path to the output file. If relative, will be prefixed by datadir.")],
        run: Run::Now(export_asmap),
    },
    Call {
        category: "network",
        name: "getaddrmaninfo",
        about: "Provides information about the node's address manager by returning the number of addresses in the `new` and `tried` tables and their sum for all networks.",
        args: &[],
        run: Run::Now(get_addrman_info),
    },
    Call {
        category: "network",
        name: "getnodeaddresses",
        about: "Return known addresses, after filtering for quality and recency.\n\
                These can potentially be used to find new peers in the network.\n\
                The total number of addresses known to the node may be higher.",
        args: &[
            Arg::optional(
                "count",
                Kind::Num,
                "The maximum number of addresses to return. Specify 0 to return all known addresses.",
            ),
            Arg::optional(
                "network",
                Kind::Str,
                "Return only addresses of the specified network. Can be one of: ipv4, ipv6, onion, i2p, cjdns.",
            ),
        ],
        run: Run::Now(get_node_addresses),
    },
    Call {
        category: "hidden",
        name: "getrawaddrman",
        about: "EXPERIMENTAL warning: this call may be changed in future releases.\n\n\
                Returns information on all address manager entries for the new and tried tables.",
        args: &[],
        run: Run::Now(get_raw_addrman),
    },
    Call {
        category: "network",
        name: "listbanned",
        about: "List all manually banned IPs/Subnets.",
        args: &[],
        run: Run::Now(list_banned),
    },
    Call {
        category: "network",
        name: "ping",
        about: "Requests that a ping be sent to all other nodes, to measure ping time.\n\
                Results are provided in getpeerinfo.\n\
                Ping command is handled in queue with all other commands, so it measures processing backlog, not just network ping.",
        args: &[],
        run: Run::Now(ping),
    },
    Call {
        category: "network",
        name: "setban",
        about: "Attempts to add or remove an IP/Subnet from the banned list.",
        args: &[
            Arg::needed(
                "subnet",
                Kind::Str,
                "The IP/Subnet (see getpeerinfo for nodes IP) with an optional netmask (default is /32 = single IP)",
            ),
            Arg::needed(
                "command",
                Kind::Str,
                "'add' to add an IP/Subnet to the list, 'remove' to remove an IP/Subnet from the list",
            ),
            Arg::optional(
                "bantime",
                Kind::Num,
                "time in seconds how long (or until when if [absolute] is set) the IP is banned (0 or empty means using the default time of 24h)",
            ),
            Arg::optional(
                "absolute",
                Kind::Bool,
                "If set, the bantime must be an absolute timestamp expressed in UNIX epoch time",
            ),
        ],
        run: Run::Now(set_ban),
    },
];

/// Wrong use of a call: returns its help.
fn wrong_use(context: &Context, name: &str) -> RpcError {
    RpcError::misc(context.registry.help(name))
}

fn ping(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    context.program.peers.ping();
    Ok(Json::Null)
}

fn add_node(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let node = args.text(0)?;
    let command = args.text(1)?;
    let peers = &context.program.peers;
    if !matches!(command, "add" | "remove" | "onetry") {
        return Err(wrong_use(context, "addnode"));
    }
    if node.trim().is_empty() {
        return Err(RpcError::parameter("Error: Node address cannot be empty"));
    }
    let offers_v2 = peers.offers_v2();
    let v2 = args.bool_or(2, offers_v2)?;
    if v2 && !offers_v2 {
        return Err(RpcError::parameter("Error: v2transport requested but not enabled (see -v2transport)"));
    }
    match command {
        "onetry" => peers.try_once(node, v2),
        "add" if !peers.add(node, context.live()?.params().default_port) => {
            return Err(RpcError::new(Code::NodeAlreadyAdded, "Error: Node already added"));
        }
        "remove" if !peers.remove(node) => {
            let why = "Error: Node could not be removed. It has not been added previously.";
            return Err(RpcError::new(Code::NodeNotAdded, why));
        }
        _ => {}
    }
    Ok(Json::Null)
}

fn get_added_node_info(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let mut added = context.program.peers.added();
    if let Some(node) = args.maybe_text(0)? {
        added.retain(|peer| peer.text == node);
        if added.is_empty() {
            return Err(RpcError::new(Code::NodeNotAdded, "Error: Node has not been added."));
        }
    }
    let one = |peer: p2p::AddedPeer| {
        let way = |inbound| if inbound { "inbound" } else { "outbound" };
        let address = |(address, inbound): (String, bool)| {
            Json::object().put("address", address).put("connected", way(inbound)).end()
        };
        let is_connected = peer.connected.is_some();
        let addresses: Vec<Json> = peer.connected.into_iter().map(address).collect();
        Json::object().put("addednode", peer.text).put("connected", is_connected).put("addresses", addresses).end()
    };
    Ok(added.into_iter().map(one).collect::<Vec<_>>().into())
}

fn disconnect_node(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let address = args.maybe_text(0)?;
    let id = args.maybe_int64(1)?;
    let peers = &context.program.peers;
    let is_done = match (address, id) {
        (Some(address), None) => peers.disconnect(address),
        (None | Some(""), Some(id)) => u64::try_from(id).is_ok_and(|id| peers.disconnect_id(id)),
        _ => {
            let why = "Only one of address and nodeid should be provided.";
            return Err(RpcError::new(Code::InvalidParams, why));
        }
    };
    if is_done {
        Ok(Json::Null)
    } else {
        Err(RpcError::new(Code::NodeNotConnected, "Node not found in connected nodes"))
    }
}

fn get_node_addresses(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let count = if args.is_given(0) { args.int(0)? } else { 1 };
    let count = usize::try_from(count).map_err(|_| RpcError::parameter("Address count out of range"))?;
    let network = match args.maybe_text(1)? {
        None => None,
        Some(name) => {
            let known = NETWORKS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
            let unknown = || RpcError::parameter(format!("Network not recognized: {name}"));
            Some(known.ok_or_else(unknown)?.1)
        }
    };
    let one = |entry: p2p::wire::AddressEntry| {
        let address = entry.peer.address;
        Json::object()
            .put("time", entry.time)
            .put("services", entry.services)
            .put("address", address.to_string())
            .put("port", u32::from(entry.peer.port))
            .put("network", address.class_name())
            .end()
    };
    let addresses = context.program.peers.addresses(count, network);
    Ok(addresses.into_iter().map(one).collect::<Vec<_>>().into())
}

fn export_asmap(_context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    Err(RpcError::misc("No embedded ASMap data available"))
}

fn get_addrman_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let counts = context.program.peers.address_counts().map_or_else(Vec::new, |counts| counts.of);
    let name = |network: Option<u8>| match network {
        Some(network) => NETWORKS.iter().find(|(_, number)| *number == network).map_or("", |(name, _)| *name),
        None => "all_networks",
    };
    let put = |fields: Fields, (network, new, tried): (Option<u8>, usize, usize)| {
        let of = Json::object().put("new", new).put("tried", tried).put("total", new + tried).end();
        fields.put(name(network), of)
    };
    Ok(counts.into_iter().fold(Json::object(), put).end())
}

fn get_raw_addrman(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let Some(tables) = context.program.peers.address_tables() else { return Ok(Json::object().end()) };
    let system = |address| Some(tables.groups.system_of(address)).filter(|system| *system != 0);
    let one = |entry: &p2p::addresses::Entry| {
        let address = entry.peer.address;
        Json::object()
            .put("address", address.to_string())
            .put_some("mapped_as", system(address))
            .put("port", u32::from(entry.peer.port))
            .put("services", entry.services)
            .put("time", entry.time)
            .put("network", address.class_name())
            .put("source", entry.source.to_string())
            .put("source_network", entry.source.class_name())
            .put_some("source_mapped_as", system(entry.source))
            .end()
    };
    let table = |placed: &[p2p::addresses::Placed]| {
        let put = |fields: Fields, placed: &p2p::addresses::Placed| {
            let place = format!("{}/{}", placed.place.bucket, placed.place.position);
            fields.put(place, one(&placed.entry))
        };
        placed.iter().fold(Json::object(), put).end()
    };
    Ok(Json::object().put("new", table(&tables.new)).put("tried", table(&tables.tried)).end())
}

/// Seconds since 1970, by the clock of the job.
fn now(context: &Context) -> Result<i64, RpcError> {
    Ok(i64::try_from(context.live()?.unix_time()).unwrap_or(i64::MAX))
}

fn set_ban(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let text = args.text(0)?;
    let command = args.text(1)?;
    let peers = &context.program.peers;
    if !matches!(command, "add" | "remove") {
        return Err(wrong_use(context, "setban"));
    }
    let invalid = || RpcError::new(Code::InvalidIpOrSubnet, "Error: Invalid IP/Subnet");
    let is_valid = |subnet: &Subnet| text.contains('/') || subnet.is_valid();
    let subnet = Subnet::parse(text).filter(is_valid).ok_or_else(invalid)?;
    let now = now(context)?;
    if command == "remove" {
        if !peers.bans().unban(&subnet) {
            let why = "Error: Unban failed. Requested address/subnet was not previously manually banned.";
            return Err(RpcError::new(Code::InvalidIpOrSubnet, why));
        }
        return keep(context, now);
    }
    let is_banned = match text.contains('/') {
        true => peers.bans().has(&subnet, now),
        false => p2p::wire::NetAddress::parse(text).is_some_and(|address| peers.bans().is_banned(&address, now)),
    };
    if is_banned {
        return Err(RpcError::new(Code::NodeAlreadyAdded, "Error: IP/Subnet already banned"));
    }
    let seconds = args.maybe_int64(2)?.unwrap_or(0);
    let is_absolute = args.bool_or(3, false)?;
    if is_absolute && seconds < now {
        return Err(RpcError::parameter("Error: Absolute timestamp is in the past"));
    }
    peers.bans().ban(subnet, seconds, is_absolute, now);
    peers.disconnect_subnet(subnet);
    keep(context, now)
}

/// Writes the bans to the file; on an error they last until the program ends, as in Core, and the caller gets the
/// error.
fn keep(context: &Context, now: i64) -> Result<Json, RpcError> {
    let Program { bans, peers, .. } = &context.program;
    let written = bans.write(|| peers.bans().list(now));
    written.map(|()| Json::Null).map_err(|why| RpcError::new(Code::Database, why.to_string()))
}

fn clear_banned(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let now = now(context)?;
    context.program.peers.bans().clear();
    keep(context, now)
}

fn list_banned(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let now = now(context)?;
    let bans = context.program.peers.bans().list(now);
    let one = |(subnet, ban): (Subnet, p2p::bans::Ban)| {
        Json::object()
            .put("address", subnet.to_string())
            .put("ban_created", ban.created)
            .put("banned_until", ban.until)
            .put("ban_duration", ban.until - ban.created)
            .put("time_remaining", ban.until - now)
            .end()
    };
    Ok(bans.into_iter().map(one).collect::<Vec<_>>().into())
}
