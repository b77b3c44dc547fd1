//! Fetches headers, and blocks by their hashes, independent of the connected chain: for a repair.
//!
//! No driver, no engine: the network requests the blocks and passes each to the caller for checking. The fetch ends
//! when all blocks have arrived, or when no peer delivers more. The user's download limits apply to blocks as in a
//! sync, and what is downloaded counts for that day.

use super::budget::Budget;
use super::peer_files::KnownPeers;
use super::{config, downloaded, request};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Reporter;
use crate::reporting::state::Pause;
use crate::session::chainview::SharedChain;
use crate::session::options::SyncOptions;
use p2p::{BlockVerdict, Event, Network, PeerId, Want};
use primitives::BlockHash;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use store::private_files::PrivateDir;

/// Maximum serialized size of a block, in bytes.
pub(super) const BLOCK_BYTES_MAX: u64 = 4_000_000;
/// Maximum number of blocks in one request list.
const WANTS_MAX: usize = 4096;
/// Maximum bytes of blocks in flight.
const WINDOW_BYTES: usize = 64 << 20;
/// The fetch ends after this time without a new block or header.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum wait for a network event, before other conditions are checked.
const EVENT_PATIENCE: Duration = Duration::from_millis(50);

/// Context of a fetch.
pub(super) struct Fetching<'f> {
    pub(super) options: &'f Options,
    pub(super) sync: &'f SyncOptions,
    pub(super) reporter: &'f Reporter<'f>,
    /// The chain as peers see it.
    pub(super) chain: Arc<SharedChain>,
}

/// Fetches the blocks of `nodes`, lowest first, and passes each to `take`, which returns an error if it is not the
/// block. Returns the blocks that no peer delivered.
///
/// # Errors
///
/// The network cannot be started, `take` failed, or the fetch was stopped.
pub(super) fn fetch(with: &Fetching<'_>, nodes: &[NodeId], take: &mut Take<'_>) -> Result<Vec<NodeId>, Fault> {
    if nodes.is_empty() || with.sync.seeks_none() {
        return Ok(nodes.to_vec());
    }
    let own = PrivateDir::new(with.chain.disk.clone(), with.chain.layout.private_dir());
    let mut budget = Budget::new(with.sync.download.limits);
    if let Some(kept) = downloaded::read(&own)? {
        budget.go_on(&kept, with.sync.download.local_time(with.options.clock));
    }
    let (network, receiver) = start(with)?;
    let mut fetch = Fetch { with, network, wanted: nodes.to_vec(), budget, pause: None, last: Instant::now() };
    let done = fetch.run(&receiver, take);
    fetch.network.halt();
    downloaded::keep(&own, &fetch.budget, with.reporter)?;
    done.map(|()| fetch.wanted)
}

/// Adds headers from peers to the index until `is_enough`, or until every peer has sent its chain.
///
/// # Errors
///
/// The network cannot be started, or the fetch was stopped.
pub(super) fn headers(with: &Fetching<'_>, is_enough: &dyn Fn() -> bool) -> Result<(), Fault> {
    if with.sync.seeks_none() {
        return Ok(());
    }
    let (network, receiver) = start(with)?;
    let done = wait_for_headers(with, &network, &receiver, is_enough);
    network.halt();
    done
}

fn wait_for_headers(
    with: &Fetching<'_>,
    network: &Network,
    receiver: &Receiver<Event>,
    is_enough: &dyn Fn() -> bool,
) -> Result<(), Fault> {
    let mut count = 0;
    let mut last = Instant::now();
    while !is_enough() {
        if with.reporter.is_stopping() {
            return Err(Fault::Stopped);
        }
        match receiver.recv_timeout(EVENT_PATIENCE) {
            Ok(Event::Note(text)) => with.reporter.note(text),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::internal("the network's thread ended")),
        }
        let now = with.chain.index.headers().len();
        if now > count {
            (count, last) = (now, Instant::now());
        }
        if network.progress().headers_done || last.elapsed() > PATIENCE {
            return Ok(());
        }
    }
    Ok(())
}

/// Starts the network; returns it with its events.
fn start(with: &Fetching<'_>) -> Result<(Network, Receiver<Event>), Fault> {
    let (sender, receiver) = channel();
    let net_dir = PrivateDir::new(with.chain.disk.clone(), with.chain.layout.net_dir().to_owned());
    let known = KnownPeers::for_repair(&net_dir, with.options.params.magic);
    let mut config = config::config(with.options, with.sync, WINDOW_BYTES, known);
    config::log_to(&mut config, &with.sync.peers, with.reporter);
    let network =
        Network::start_for(with.sync.peers.control.clone(), config, with.chain.clone(), sender).map_err(|why| {
            Fault::refused(
                format!("the network cannot be started: {why}"),
                "Give --listen and --bind addresses of this machine",
            )
        })?;
    Ok((network, receiver))
}

/// Checks a block and stores it; returns why it is not the requested one.
pub(super) type Take<'t> = dyn FnMut(NodeId, &[u8]) -> Result<Result<(), String>, Fault> + 't;

struct Fetch<'d, 'f> {
    with: &'d Fetching<'f>,
    network: Network,
    /// Blocks that have not arrived.
    wanted: Vec<NodeId>,
    budget: Budget,
    /// Why the user's limits allow no blocks now.
    pause: Option<Pause>,
    /// When the last block arrived.
    last: Instant,
}

impl Fetch<'_, '_> {
    fn run(&mut self, receiver: &Receiver<Event>, take: &mut Take<'_>) -> Result<(), Fault> {
        let reporter = self.with.reporter;
        self.heed_limits();
        self.ask();
        while !self.wanted.is_empty() {
            if reporter.is_stopping() {
                return Err(Fault::Stopped);
            }
            self.heed_limits();
            match receiver.recv_timeout(EVENT_PATIENCE) {
                Ok(Event::Block { peer, hash, bytes, .. }) => {
                    self.take(peer, hash, &bytes, take)?;
                    if self.budget.has_target() {
                        self.ask(); // The list covers only what is left of the daily limit.
                    }
                }
                Ok(Event::Targets(_) | Event::WantMore) => self.ask(),
                Ok(Event::Note(text)) => reporter.note(text),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if self.is_over() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Fault::internal("the network's thread ended")),
            }
        }
        Ok(())
    }

    /// Requests no blocks while the user's limits allow none.
    fn heed_limits(&mut self) {
        let download = &self.with.sync.download;
        self.budget.look(download.local_time(self.with.options.clock), download.switch.is_paused());
        let pause = self.budget.allowance().pause().filter(|_| self.allowed().is_empty());
        if pause != self.pause {
            pause.into_iter().for_each(|pause| self.with.reporter.note(pause.sentence()));
            (self.pause, self.last) = (pause, Instant::now());
            self.ask();
        }
    }

    fn take(&mut self, peer: PeerId, hash: BlockHash, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Fault> {
        self.budget.took(bytes.len() as u64);
        let known = self.with.chain.index.headers().find(&hash);
        let Some(id) = known.filter(|id| self.wanted.contains(id)) else {
            self.network.verdict(hash, BlockVerdict::Stored);
            return Ok(());
        };
        match take(id, bytes)? {
            Ok(()) => {
                self.wanted.retain(|&wanted| wanted != id);
                self.last = Instant::now();
                self.network.verdict(hash, BlockVerdict::Stored);
            }
            Err(reason) => self.network.verdict(hash, BlockVerdict::BadBody { peer, reason }),
        }
        Ok(())
    }

    /// Requests the same list on every chain of the peers, because it is unknown which of them has the blocks.
    fn ask(&self) {
        self.network.want(vec![self.allowed()]);
    }

    /// The next blocks, within the user's limits.
    fn allowed(&self) -> Vec<Want> {
        let next = self.wanted.iter().take(WANTS_MAX).copied().collect();
        let list = request::wants(&self.with.chain.index.headers(), next);
        let left = self.budget.left_bytes();
        request::within(vec![list], self.budget.allowance(), left, BLOCK_BYTES_MAX).concat()
    }

    /// Whether waiting longer is pointless: all remaining blocks were announced but not delivered, or no block arrived
    /// for [`PATIENCE`] although blocks were requested.
    fn is_over(&self) -> bool {
        if self.pause.is_some() {
            return false;
        }
        let undelivered: HashSet<BlockHash> =
            self.network.progress().undelivered.iter().map(|want| want.hash).collect();
        let tree = self.with.chain.index.headers();
        let is_given_up = !undelivered.is_empty() && self.wanted.iter().all(|&id| undelivered.contains(&tree.hash(id)));
        is_given_up || self.last.elapsed() > PATIENCE
    }
}
