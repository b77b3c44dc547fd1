//! Calls that make connections of one type, and that turn the network off. Source: Bitcoin Core b88bffe, rpc/net.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use consensus::Chain;
use node::options::Prune;
use p2p::hub::{Added, Purpose};
use p2p::wire::{COMMAND_BYTES, NetAddress, PeerAddress};
use primitives::hex;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "hidden",
        name: "addconnection",
        about: "Open an outbound connection to a specified node. This RPC is for testing only.",
        args: &[
            Arg::needed("address", Kind::Str, "The IP address and port to attempt connecting to."),
            Arg::needed(
                "connection_type",
                Kind::Str,
                "Type of connection to open (\"outbound-full-relay\", \"block-relay-only\", \"addr-fetch\" or \"feeler\").",
            ),
            Arg::needed("v2transport", Kind::Bool, "Attempt to connect using BIP324 v2 transport protocol"),
        ],
        run: Run::Now(add_connection),
    },
    Call {
        category: "hidden",
        name: "addpeeraddress",
        about: "Add the address of a potential peer to an address manager table. This RPC is for testing only.",
        args: &[
            Arg::needed("address", Kind::Str, "The IP address of the peer"),
            Arg::needed("port", Kind::Num, "The port of the peer"),
            Arg::optional("tried", Kind::Bool, "If true, attempt to add the peer to the tried addresses table"),
        ],
        run: Run::Now(add_peer_address),
    },
    Call {
        category: "blockchain",
        name: "getblockfrompeer",
        about: "Attempt to fetch block from a given peer.\n\n\
                We must have the header for this block, e.g. using submitheader.\n\
                The block will not have any undo data which can limit the usage of the block data in a context where the undo data is needed.\n\
                Peers generally ignore requests for a stale block that they never fully verified, or one that is more than a month old.\n\
                Note: The block could be re-pruned as soon as it is received.\n\n\
                Returns an empty JSON object if the request was successfully scheduled.",
        args: &[
            Arg::needed("blockhash", Kind::Hex, "The block hash to try to fetch"),
            Arg::needed("peer_id", Kind::Num, "The peer to fetch it from (see getpeerinfo for peer IDs)"),
        ],
        run: Run::Now(get_block_from_peer),
    },
    Call {
        category: "hidden",
        name: "sendmsgtopeer",
        about: "Send a p2p message to a peer specified by id.\n\
                The message type and body must be provided, the message header will be generated.\n\
                This RPC is for testing only.",
        args: &[
            Arg::needed("peer_id", Kind::Num, "The peer to send the message to."),
            Arg::needed("msg_type", Kind::Str, "The message type (maximum length 12)"),
            Arg::needed("msg", Kind::Hex, "The serialized message body to send, in hex, without a message header"),
        ],
        run: Run::Now(send_message),
    },
    Call {
        category: "network",
        name: "pausedownload",
        about: "Pause the download of blocks until resumedownload is called. Blocks that peers were asked for may still arrive; headers are not paused.",
        args: &[],
        run: Run::Now(pause_download),
    },
    Call {
        category: "network",
        name: "resumedownload",
        about: "Resume the download of blocks that pausedownload paused.",
        args: &[],
        run: Run::Now(resume_download),
    },
    Call {
        category: "network",
        name: "setnetworkactive",
        about: "Disable/enable all p2p network activity.",
        args: &[Arg::needed("state", Kind::Bool, "true to enable networking, false to disable")],
        run: Run::Now(set_network_active),
    },
];

fn pause_download(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    context.handle.download().pause();
    Ok(Json::Null)
}

fn resume_download(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    context.handle.download().resume();
    Ok(Json::Null)
}

fn add_connection(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    if context.live()?.params().chain != Chain::Regtest {
        return Err(RpcError::misc("addconnection is for regression testing (-regtest mode) only."));
    }
    let address = args.text(0)?;
    let name = args.text(1)?.trim();
    let peers = &context.program.peers;
    let purpose = match name {
        "outbound-full-relay" => Purpose::Everything,
        "block-relay-only" => Purpose::Blocks,
        "addr-fetch" => Purpose::Addresses,
        "feeler" => Purpose::Feeler,
        _ => return Err(RpcError::parameter(context.registry.help("addconnection"))),
    };
    let v2 = args.bool(2)?;
    if v2 && !peers.offers_v2() {
        let why = "Error: Adding v2transport connections requires -v2transport init flag to be set.";
        return Err(RpcError::parameter(why));
    }
    if !peers.connect_for(purpose, address, v2) {
        let why = "Error: Already at capacity for specified connection type.";
        return Err(RpcError::new(Code::NodeCapacityReached, why));
    }
    Ok(Json::object().put("address", address).put("connection_type", name).end())
}

fn add_peer_address(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let invalid = || RpcError::new(Code::InvalidIpOrSubnet, "Invalid IP address");
    let text = args.text(0)?;
    let port = crate::args::int::<u16>(args.get(1))?;
    let is_tried = args.bool_or(2, false)?;
    let address = NetAddress::parse(text).ok_or_else(invalid)?;
    let added = context.program.peers.add_address(PeerAddress { address, port }, is_tried);
    let error = match added {
        Added::Yes => None,
        Added::No => Some("failed-adding-to-new"),
        Added::NewAlone => Some("failed-adding-to-tried"),
    };
    Ok(Json::object().put_some("error", error).put("success", error.is_none()).end())
}

fn get_block_from_peer(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let hash = args.block_hash(0, "blockhash")?;
    let peer = args.int64(1)?;
    let live = context.live()?;
    {
        let index = live.index.read();
        let tree = index.headers();
        let id = tree.find(&hash).ok_or_else(|| RpcError::misc("Block header missing"))?;
        if live.options.prune != Prune::Off && tree.height(id) > tree.height(index.tip()) {
            let why =
                "In prune mode, only blocks that the node has already synced previously can be fetched from a peer";
            return Err(RpcError::misc(why));
        }
        if index.body(id).location().is_some() {
            return Err(RpcError::misc("Block already downloaded"));
        }
    }
    let peer = u64::try_from(peer).map_err(|_| RpcError::misc("Peer does not exist"))?;
    context.program.peers.fetch_block(peer, hash).map_err(RpcError::misc)?;
    Ok(Json::object().end())
}

fn send_message(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let peer = args.int64(0)?;
    let name = args.text(1)?;
    if name.len() > COMMAND_BYTES {
        let why = format!("Error: msg_type too long, max length is {COMMAND_BYTES}");
        return Err(RpcError::parameter(why));
    }
    let message = hex::decode(args.text(2)?).ok_or_else(|| RpcError::parameter("Error parsing input for msg"))?;
    let peers = &context.program.peers;
    let is_sent = u64::try_from(peer).is_ok_and(|peer| peers.send_to(peer, name.to_owned(), message));
    if is_sent { Ok(Json::object().end()) } else { Err(RpcError::misc("Error: Could not send message to peer")) }
}

fn set_network_active(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let is_active = args.bool(0)?;
    context.program.peers.set_active(is_active);
    Ok(is_active.into())
}
