//! Bounds of the send queues: messages are dispatched only while there is space for their answers.
//!
//! - One peer: nothing is dispatched while its queue holds [`SEND_PAUSE_BYTES`] or more. Received messages stay in
//!   the transport's staging buffer, and the socket is not read. Source: Core's `fPauseSend`. Nothing is dispatched
//!   either while filters for the peer are read: one request at a time, answered before its next message.
//! - All peers: while their queues hold [`SEND_TOTAL_BYTES_MAX`] or more, only a peer with an empty queue is
//!   answered, so that peers that read nothing do not block the others.
//! - No blocks and filters are read while all queues, plus the largest possible result of reads that wait or are in
//!   progress, exceed [`SERVE_BYTES_MAX`]; then the peer that reads least is disconnected ([`super::memory`]). Reads
//!   for peers that have disconnected count until the reading thread has skipped them.
//!
//! Blocks are read ahead of an answer before it is queued (`super::Serving::read_ahead`), so the queue of one peer
//! holds at most two answers more than [`SEND_PAUSE_BYTES`].
//!
//! Memory of the queues: [`SERVE_BYTES_MAX`], and one answer of headers for each peer; at most twice that, because
//! buffers are reused for smaller answers.

use super::super::context::Context;
use crate::peer::{Peer, SEND_PAUSE_BYTES};

/// If all send queues together hold this many bytes, only peers with an empty queue are answered: 32 times Core's
/// bound of one peer, which is what a node with the default number of inbound peers holds in Core.
pub const SEND_TOTAL_BYTES_MAX: usize = 32 * SEND_PAUSE_BYTES;

/// A block or filter is read only if one of maximum size fits these bytes.
pub const SERVE_BYTES_MAX: usize = 4 * SEND_TOTAL_BYTES_MAX;

/// Whether there is space for an answer to this peer.
pub(in super::super) fn may_answer(cx: &Context, peer: &Peer) -> bool {
    match peer.transport.out_bytes() {
        0 => true,
        SEND_PAUSE_BYTES.. => false,
        _ => queued_bytes(cx) < SEND_TOTAL_BYTES_MAX,
    }
}

/// Bytes in all send queues.
pub(in super::super) fn queued_bytes(cx: &Context) -> usize {
    cx.peers.values().map(|peer| peer.transport.out_bytes()).sum()
}
