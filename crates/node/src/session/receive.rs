//! Handles network events: blocks are checked and stored, other events go to the driver or to the log.

use super::driver::Input;
use super::hinted;
use super::link::Session;
use super::peer_files::Kept;
use crate::chain::tree::NodeId;
use crate::datadir::store_block::{NotStored, Source};
use crate::fault::Fault;
use crate::reporting::peer_lines::PeerLine;
use p2p::{BlockVerdict, Event, PeerId};
use primitives::{BlockHash, Height};
use std::path::Path;
use std::sync::Arc;
use store::blockfiles::BlockBytes;

/// A requested block.
pub(super) struct Arrived {
    pub(super) peer: PeerId,
    pub(super) hash: BlockHash,
    pub(super) bytes: p2p::BlockBytes,
}

/// Handles a network event; returns a block that must be stored.
///
/// # Errors
///
/// An I/O error.
pub(super) fn take_event(session: &Session<'_, '_>, event: Event, kept: &Kept) -> Result<Option<Arrived>, Fault> {
    let reporter = &session.datadir.reporter;
    match event {
        Event::PeerConnected { peer, info } => {
            let way = if info.inbound { "from" } else { "to" };
            let transport = if info.v2 { "v2" } else { "v1" };
            reporter.peer_lines().came(peer, &info.address);
            let text = format!("Peer {peer}: connected {way} {} {} ({transport})", info.address, info.agent);
            reporter.peer_note(connection_line(info.inbound), Some(peer), text);
        }
        Event::PeerGone { peer, address, inbound, reason } => {
            // The peer may have disconnected before its handshake.
            reporter.peer_lines().came(peer, &address);
            let text = format!("Peer {peer}: {address} gone: {reason}");
            reporter.peer_note(connection_line(inbound), Some(peer), text);
            reporter.peer_lines().went(peer);
        }
        Event::Note(text) => reporter.note(text),
        Event::PeerNote { peer, inbound, text } => {
            let line = if inbound { PeerLine::InboundSays } else { PeerLine::OutboundSays };
            reporter.peer_note(line, peer, text);
        }
        Event::Targets(targets) => session.tell_targets(targets),
        Event::WantMore => session.tell(Input::WantMore),
        Event::Headers { .. } => {
            session.datadir.say_headers();
            session.tell(Input::Headers);
        }
        Event::HeadersDone | Event::Echo => {}
        Event::Addresses(bytes) => kept.peers.keep_addresses(session.datadir, &bytes)?,
        Event::Anchors(count, bytes) => kept.peers.keep_anchors(session.datadir, count, &bytes)?,
        Event::Block { peer, hash, bytes, .. } => return Ok(Some(Arrived { peer, hash, bytes })),
    }
    Ok(None)
}

/// The kind of a log line about a connection.
fn connection_line(is_inbound: bool) -> PeerLine {
    if is_inbound { PeerLine::Inbound } else { PeerLine::Outbound }
}

/// Checks a block and stores it, unless it is stored already.
///
/// # Errors
///
/// An I/O error; or the two checks of a block that is about to be marked disagree.
pub(super) fn store(session: &Session<'_, '_>, Arrived { peer, hash, bytes }: Arrived) -> Result<(), Fault> {
    let datadir = session.datadir;
    let known = datadir.headers().find(&hash);
    let Some(id) = known.filter(|&id| datadir.place(id).is_none()) else {
        session.tell(Input::Judged { hash, verdict: BlockVerdict::Stored, bytes: None });
        return Ok(());
    };
    let (bytes, start, held) = bytes.into_parts();
    let buffers = held.buffers();
    let bytes = BlockBytes::lent(bytes, start, Arc::new(move |done| buffers.give(done)));
    put(session, Brought { by: Bringer::Peer(peer), id, hash, bytes, held }).map(drop)
}

/// Source of a block.
#[derive(Clone, Copy)]
pub(super) enum Bringer<'b> {
    /// A peer.
    Peer(PeerId),
    /// A file of `--from`.
    File(&'b Path),
}

/// A block that is not stored yet.
pub(super) struct Brought<'b> {
    pub(super) by: Bringer<'b>,
    pub(super) id: NodeId,
    pub(super) hash: BlockHash,
    pub(super) bytes: BlockBytes,
    /// Its reservation in the download window.
    pub(super) held: p2p::Reservation,
}

/// Checks a block and stores it; returns whether its body matches its header.
///
/// # Errors
///
/// Those of [`store`].
pub(super) fn put(session: &Session<'_, '_>, brought: Brought<'_>) -> Result<bool, Fault> {
    let Brought { by, id, hash, bytes, held } = brought;
    let datadir = session.datadir;
    let height = datadir.headers().height(id);
    let stored = match &session.hinted {
        Some(hinted) if !hinted.wants(height, id) => Ok(()),
        Some(hinted) => match datadir.check_block(id, &bytes, Source::Peer)? {
            Ok(checked) => {
                hinted::take(datadir, hinted, id, &bytes, &checked)?;
                session.stats.add_decoded();
                session.stats.add_connected(checked.counts(&bytes));
                Ok(())
            }
            Err(why) => Err(why),
        },
        None => {
            let keep = |checked| session.inbox_of(id).keep(height, id, bytes.clone(), checked, held);
            datadir.store_block(id, &bytes, Source::Peer, keep)?
        }
    };
    match stored {
        Ok(()) => {
            session.note_dirty(session.hinted.is_none());
            let bytes = Some(bytes.len() as u64);
            session.tell(Input::Judged { hash, verdict: BlockVerdict::Stored, bytes });
            Ok(true)
        }
        Err(why) => {
            let is_body = matches!(why, NotStored::Body(_) | NotStored::Unreadable(_));
            refuse(session, by, height, hash, why);
            Ok(!is_body)
        }
    }
}

/// Reports to the user and the network why a block was not stored.
fn refuse(session: &Session<'_, '_>, by: Bringer<'_>, height: Height, hash: BlockHash, why: NotStored) {
    let reporter = &session.datadir.reporter;
    let this_body = |why: &str| format!("{why} (this body only, from a peer: its header is not marked)");
    let verdict = match (why, by) {
        // No peer is at fault: another one may be about to send the right block.
        (NotStored::Body(error) | NotStored::Unreadable(error), Bringer::File(path)) => {
            let path = path.display();
            let text = format!("{error} (this body only, from {path}: its header is not marked)");
            return reporter.refused_body(None, height, hash, &text);
        }
        (NotStored::Body(reason), Bringer::Peer(peer)) => {
            reporter.refused_body(Some(peer), height, hash, &this_body(&reason));
            BlockVerdict::BadBody { peer, reason }
        }
        (NotStored::Unreadable(reason), Bringer::Peer(peer)) => {
            reporter.refused_body(Some(peer), height, hash, &this_body(&reason));
            BlockVerdict::Unreadable { peer, reason }
        }
        (NotStored::Known(error), _) => return session.tell(Input::KnownInvalid { hash, why: error.to_string() }),
        (NotStored::Invalid(error), by) => {
            if let Some(hinted) = &session.hinted {
                hinted.set_wrong(format!("block {hash} at height {height} is invalid: {error}"));
            }
            session.note_dirty(true);
            let peer = if let Bringer::Peer(peer) = by { Some(peer) } else { None };
            reporter.refused_block(peer, height, hash, &error);
            BlockVerdict::Invalid(error.to_string())
        }
    };
    session.tell(Input::Judged { hash, verdict, bytes: None });
}
