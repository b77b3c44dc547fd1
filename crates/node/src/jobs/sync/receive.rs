//! The thread that takes what the network says, and those that check and store blocks.

use super::request::{hurry_if_elsewhere, want, want_if_ahead};
use super::{Shared, hinted, keep_addresses};
use crate::datadir::store_block::{NotStored, Source};
use crate::fault::Fault;
use crate::locks::lock;
use crate::peer_lines::PeerLine;
use crate::threads::spawn;
use p2p::{BlockVerdict, Event, PeerId};
use primitives::BlockHash;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use store::blockfiles::BlockBytes;

/// Time between two commits of the index, so that a restart does not fetch the same blocks again; between two looks whether
/// its files are there, where it has nothing to commit.
const INDEX_INTERVAL: Duration = Duration::from_secs(30);

/// Takes what the network says until the work is done, and leaves the rest.
pub(super) fn take(
    shared: &Shared<'_, '_>,
    events: Receiver<Event>,
    own: &store::private_files::PrivateDir,
) -> Receiver<Event> {
    let _alarm = shared.alarm("takes what arrives");
    std::thread::scope(|scope| {
        let storers: Result<Vec<Sender<Arrived>>, Fault> = (0..storer_count(shared))
            .map(|n| {
                let (sender, blocks) = channel();
                spawn(scope, format!("arrive.{n:02}"), move || store_all(shared, blocks))?;
                Ok(sender)
            })
            .collect();
        let taken = storers.and_then(|storers| take_events(shared, &events, own, &storers));
        if let Err(fault) = taken {
            shared.end_by(fault);
        }
    });
    events
}

/// Threads that check and store blocks in place of the one that takes what arrives: one of them keeps up with four or
/// five workers, and with few workers there is no processor for it. With hints there is no other work.
fn storer_count(shared: &Shared<'_, '_>) -> usize {
    match shared.datadir.options.par {
        par if shared.hinted.is_some() => par,
        par if par < 8 => 0,
        par => (par / 4).min(8),
    }
}

/// A block that was asked for.
struct Arrived {
    peer: PeerId,
    hash: BlockHash,
    bytes: p2p::BlockBytes,
}

/// Stores what arrives until nothing more comes; after the end of the work nothing is stored.
fn store_all(shared: &Shared<'_, '_>, blocks: Receiver<Arrived>) {
    let _alarm = shared.alarm("stores blocks");
    for arrived in blocks {
        if shared.done.load(Relaxed) {
            return;
        }
        if let Err(fault) = store(shared, arrived) {
            return shared.end_by(fault);
        }
    }
}

fn take_events(
    shared: &Shared<'_, '_>,
    events: &Receiver<Event>,
    own: &store::private_files::PrivateDir,
    storers: &[Sender<Arrived>],
) -> Result<(), Fault> {
    let mut last_index = Instant::now();
    let reporter = &shared.datadir.reporter;
    if shared.no_log_rate_limit {
        reporter.peer_lines().switch_off();
    }
    while !shared.done.load(Relaxed) {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => take_event(shared, event, own, storers)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::internal("the network's thread ended")),
        }
        want_if_ahead(shared);
        reporter.say_left_out();
        if last_index.elapsed() > INDEX_INTERVAL {
            if shared.dirty.swap(false, Relaxed) {
                shared.datadir.write_index(None)?;
            } else {
                shared.datadir.writer.check_files()?;
            }
            last_index = Instant::now();
        }
    }
    Ok(())
}

fn take_event(
    shared: &Shared<'_, '_>,
    event: Event,
    own: &store::private_files::PrivateDir,
    storers: &[Sender<Arrived>],
) -> Result<(), Fault> {
    let reporter = &shared.datadir.reporter;
    match event {
        Event::PeerConnected { peer, info } => {
            let way = if info.inbound { "from" } else { "to" };
            let transport = if info.v2 { "v2" } else { "v1" };
            reporter.peer_note(connection_line(info.inbound), || {
                format!("Peer {peer}: connected {way} {} {} ({transport})", info.address, info.agent)
            });
        }
        Event::PeerGone { peer, address, inbound, reason } => {
            reporter.peer_note(connection_line(inbound), || format!("Peer {peer}: {address} gone: {reason}"));
        }
        Event::Log(text) => reporter.log().line(&text),
        Event::Debug(text) => reporter.log().line(&format!("[net] {text}")),
        Event::Note(text) => reporter.note(text),
        Event::PeerNote { inbound, text } => {
            let line = if inbound { PeerLine::InboundSays } else { PeerLine::OutboundSays };
            reporter.peer_note(line, || text);
        }
        Event::Targets(targets) => {
            *lock(&shared.targets) = targets;
            hurry_if_elsewhere(shared);
            want(shared);
            // A new chain may be the one to follow.
            shared.arrivals.arrived();
        }
        Event::WantMore => want(shared),
        Event::Headers { .. } => {
            if reporter.peer_lines().allow(PeerLine::Headers) {
                shared.datadir.say_headers();
            }
        }
        Event::HeadersDone | Event::Echo => {}
        Event::Addresses(bytes) => keep_addresses(shared.datadir, own, &bytes)?,
        Event::Block { peer, hash, bytes, .. } => {
            let arrived = Arrived { peer, hash, bytes };
            // A block that comes twice comes to the same storer. One that has ended has said why.
            match storers.get(usize::from(hash.as_bytes()[0]) % storers.len().max(1)) {
                Some(storer) => drop(storer.send(arrived)),
                None => store(shared, arrived)?,
            }
        }
    }
    Ok(())
}

/// What a line about a connection is.
fn connection_line(is_inbound: bool) -> PeerLine {
    if is_inbound { PeerLine::Inbound } else { PeerLine::Outbound }
}

/// Checks a block and stores it, if that was not done before.
fn store(shared: &Shared<'_, '_>, Arrived { peer, hash, bytes }: Arrived) -> Result<(), Fault> {
    let datadir = shared.datadir;
    let known = datadir.headers().find(&hash);
    let Some(id) = known.filter(|&id| datadir.place(id).is_none()) else {
        shared.network.verdict(hash, BlockVerdict::Stored);
        return Ok(());
    };
    let height = datadir.headers().height(id);
    let (bytes, start, held) = bytes.into_parts();
    let buffers = held.buffers();
    let bytes = BlockBytes::lent(bytes, start, Arc::new(move |done| buffers.give(done)));
    let stored = match &shared.hinted {
        Some(hinted) if !hinted.wants(height, id) => Ok(()),
        Some(hinted) => match datadir.check_block(id, &bytes, Source::Peer)? {
            Ok(checked) => Ok(hinted::take(datadir, hinted, id, (&bytes, &checked))?),
            Err(why) => Err(why),
        },
        None => {
            let keep = |checked| shared.arrivals.keep((height, id), bytes.clone(), checked, held);
            datadir.store_block(id, &bytes, Source::Peer, keep)?
        }
    };
    match stored {
        Ok(()) => {
            let (before, now) = (shared.block_bytes.load(Relaxed), bytes.len() as u64);
            shared.block_bytes.store((before * 31 + now) / 32, Relaxed);
            shared.dirty.fetch_or(shared.hinted.is_none(), Relaxed);
            shared.arrivals.arrived();
            shared.network.verdict(hash, BlockVerdict::Stored);
        }
        Err(NotStored::Body(error)) => {
            let why = format!("{error} (this body only, from a peer: its header is not marked)");
            datadir.reporter.refused_body(Some(peer), height, hash, &why);
            shared.network.verdict(hash, BlockVerdict::BadBody(error));
        }
        Err(NotStored::Unreadable(why)) => {
            let text = format!("{why} (this body only, from a peer: its header is not marked)");
            datadir.reporter.refused_body(Some(peer), height, hash, &text);
            shared.network.verdict(hash, BlockVerdict::Unreadable(why));
        }
        Err(NotStored::Known(error)) => shared.network.verdict(hash, BlockVerdict::Invalid(error.to_string())),
        Err(NotStored::Invalid(error)) => {
            if let Some(hinted) = &shared.hinted {
                hinted.set_wrong(format!("block {hash} at height {height} is invalid: {error}"));
            }
            shared.dirty.store(true, Relaxed);
            datadir.reporter.refused(height, hash, &error, true);
            shared.network.verdict(hash, BlockVerdict::Invalid(error.to_string()));
        }
    }
    Ok(())
}
