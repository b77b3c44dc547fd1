//! Supplies the blocks of `--from`: the threads that read them, and a network that is not asked for blocks that the
//! files have.
//!
//! `sources` decides which blocks are needed and from which file they are read.

use super::driver::Input;
use super::link::{Line, Session};
use super::receive::{Bringer, Brought, put};
use super::sources::{Next, Reading, Sources};
use crate::fault::Fault;
use p2p::{BlockVerdict, Progress, Want};
use primitives::BlockHash;
use std::path::Path;
use std::sync::Arc;
use store::blockfiles::{BlockAt, BlockBytes};

/// The network, combined with files that also supply blocks.
pub(super) struct WithSources {
    pub(super) network: Arc<dyn Line>,
    pub(super) sources: Arc<Sources>,
}

impl Line for WithSources {
    fn want(&self, lists: Vec<Vec<Want>>) {
        self.network.want(self.sources.want(lists));
    }

    fn verdict(&self, hash: BlockHash, verdict: BlockVerdict) {
        self.network.verdict(hash, verdict);
    }

    fn pause(&self, is_paused: bool) {
        self.network.pause(is_paused);
    }

    fn new_tip(&self) {
        self.network.new_tip();
    }

    fn echo(&self) {
        self.network.echo();
    }

    fn progress(&self) -> Progress {
        self.sources.progress(self.network.progress())
    }

    fn halt(&self) {
        self.network.halt();
    }
}

/// Reads and stores blocks from plain files until the session ends.
pub(super) fn bring(session: &Session<'_, '_>, sources: &Sources) {
    let _alarm = session.alarm("reads blocks of --from");
    while !session.is_ending() {
        let done = match sources.next() {
            Next::Wait => Ok(()),
            Next::AskMore => {
                session.tell(Input::WantMore);
                Ok(())
            }
            Next::Bring(want, at) => bring_one(session, sources, want, at),
        };
        if let Err(fault) = done {
            return session.end_by(fault);
        }
    }
}

fn bring_one(session: &Session<'_, '_>, sources: &Sources, want: Want, at: BlockAt) -> Result<(), Fault> {
    let (path, bytes) = sources.read(at);
    let is_good = match bytes {
        Some(Ok(bytes)) => bring_bytes(session, &path, want.hash, bytes)?,
        Some(Err(why)) => {
            session.datadir.reporter.note(format!("A block of --from is left out: {why}"));
            false
        }
        None => false,
    };
    let is_last = sources.brought(want.hash, is_good);
    // Request from peers: blocks that the files did not supply, and those above the last requested one.
    if !is_good || is_last {
        session.tell(Input::WantMore);
    }
    Ok(())
}

/// Stores a block unless it is stored already; returns whether it is valid.
fn bring_bytes(session: &Session<'_, '_>, path: &Path, hash: BlockHash, bytes: Vec<u8>) -> Result<bool, Fault> {
    let Some(id) = session.datadir.headers().find(&hash) else { return Ok(true) };
    if session.datadir.place(id).is_some() {
        return Ok(true);
    }
    let bytes = BlockBytes::from(bytes);
    put(session, Brought { by: Bringer::File(path), id, hash, bytes, held: p2p::Reservation::none() })
}

/// Reads and stores blocks from packed files until they have no more needed blocks.
pub(super) fn unpack(session: &Session<'_, '_>, sources: &Sources) {
    let _alarm = session.alarm("unpacks blocks of --from");
    while !session.is_ending() {
        match sources.wants_packed() {
            None => return,
            Some(false) => continue,
            Some(true) => {}
        }
        let mut take = |path: &Path, hash: BlockHash, bytes: Vec<u8>| bring_bytes(session, path, hash, bytes);
        let is_wanted = |hash: &BlockHash| sources.is_for_pass(session.datadir, hash);
        match sources.packed().pass(Reading::of(session.datadir), &|| session.is_ending(), &is_wanted, &mut take) {
            Ok(0) if !session.is_ending() => sources.packed_over(),
            Ok(_) => {}
            Err(fault) => return session.end_by(fault),
        }
        session.tell(Input::WantMore);
    }
}
