//! The bounds of the send queues: messages are dispatched only while the answers have room.
//!
//! - One peer: nothing is dispatched while its queue holds [`SEND_PAUSE_BYTES`] or more. What came and waits for that
//!   stays in the transport's staging buffer, and the socket is not read. Source: Core's `fPauseSend`. The same while
//!   filters that it asked for are read: one request of a peer at a time, answered before what it says next.
//! - All peers: while their queues hold [`SEND_TOTAL_BYTES_MAX`] or more, only a peer whose queue is empty is answered, so
//!   that peers that read nothing take no answer from those that read.
//!
//! - Blocks and filters are read for nobody while what waits in all queues, and what is being read at its largest, has no room in
//!   [`SERVE_BYTES_MAX`]; then who takes least gives its place up ([`super::memory`]).
//!
//! Blocks are read ahead of an answer before it is queued (`super::Serving::read_ahead`), so that the queue of one peer holds two answers
//! more than [`SEND_PAUSE_BYTES`] at most.
//!
//! Memory of the queues: [`SERVE_BYTES_MAX`], and one answer of headers for each peer; at most twice that, because vectors are used
//! again for smaller answers.

use super::super::context::Context;
use crate::peer::{Peer, SEND_PAUSE_BYTES};

/// While all send queues together hold this many bytes, only peers with an empty one are answered: Core's bound of one
/// peer for 32 of them, which is what a node with the default number of inbound peers holds in Core.
pub const SEND_TOTAL_BYTES_MAX: usize = 32 * SEND_PAUSE_BYTES;

/// No block or filter is read that would have no room in these, though it were of the largest.
pub const SERVE_BYTES_MAX: usize = 4 * SEND_TOTAL_BYTES_MAX;

/// Whether an answer to this peer has room.
pub(in super::super) fn may_answer(cx: &Context, peer: &Peer) -> bool {
    match peer.transport.out_bytes() {
        0 => true,
        SEND_PAUSE_BYTES.. => false,
        _ => queued_bytes(cx) < SEND_TOTAL_BYTES_MAX,
    }
}

/// Bytes that wait in all send queues.
pub(in super::super) fn queued_bytes(cx: &Context) -> usize {
    cx.peers.values().map(|peer| peer.transport.out_bytes()).sum()
}
