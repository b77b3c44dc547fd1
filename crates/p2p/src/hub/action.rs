//! What the hub asks of the world, and what the node says to the hub.

use super::read::ReadRequest;
use crate::api::{BlockVerdict, Event, PeerId, Want};
use crate::wire::Target;
use primitives::BlockHash;

/// What the world is asked to do.
#[derive(Debug)]
pub enum Action {
    /// Connect, and say [`super::Hub::connected`] or [`super::Hub::not_connected`].
    Dial {
        /// The connection's name.
        peer: PeerId,
        /// Where to.
        target: Target,
    },
    /// The connection is over: close its socket.
    Close {
        /// The connection.
        peer: PeerId,
    },
    /// Do [`ReadRequest::read`] for a peer, and say [`super::Hub::served`].
    Read {
        /// Who asked.
        peer: PeerId,
        /// For what.
        request: ReadRequest,
    },
    /// Look up a name, and say [`super::Hub::resolved`].
    Resolve {
        /// The name.
        name: String,
        /// The port of the addresses.
        port: u16,
    },
    /// Tell the node.
    Event(Event),
}

/// What the node says.
#[derive(Debug)]
pub enum NodeMessage {
    /// See [`crate::Network::want`].
    Want(Vec<Vec<Want>>),
    /// See [`crate::Network::verdict`].
    Verdict(BlockHash, BlockVerdict),
    /// See [`crate::Network::new_tip`].
    NewTip,
    /// See [`crate::Network::echo`].
    Echo,
}
