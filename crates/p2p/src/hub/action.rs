//! Actions that the hub requests from the I/O code, and messages from the node to the hub.

use super::read::ReadRequest;
use crate::api::{BlockVerdict, Event, PeerId, Want};
use crate::wire::Target;
use primitives::BlockHash;

/// An action for the I/O code.
#[derive(Debug)]
pub enum Action {
    /// Connect, and report [`super::Hub::connected`] or [`super::Hub::not_connected`].
    Dial {
        /// The id of the connection.
        peer: PeerId,
        /// Its target.
        target: Target,
    },
    /// The connection is over: close its socket.
    Close {
        /// The connection.
        peer: PeerId,
    },
    /// Run [`ReadRequest::read`] for a peer, and report [`super::Hub::served`].
    Read {
        /// The peer.
        peer: PeerId,
        /// Its request.
        request: ReadRequest,
    },
    /// Look up a name, and report [`super::Hub::resolved`].
    Resolve {
        /// The name.
        name: String,
        /// The port of the addresses.
        port: u16,
    },
    /// Pass the event to the node.
    Event(Event),
}

/// A message from the node.
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
