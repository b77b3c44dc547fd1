//! Fetches headers, and blocks by their hashes, independent of the connected chain: for a repair.
//!
//! No driver, no engine: the network requests the blocks and passes each to the caller for checking. The fetch ends
//! when all blocks have arrived, or when no peer delivers more. The user's download limits apply to blocks as in a
//! sync, and what is downloaded counts for that day.

use super::budget::{Allowance, Budget};
use super::fetch_queue::Queue;
use super::peer_files::KnownPeers;
use super::{config, downloaded, request};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Reporter;
use crate::reporting::state::Pause;
use crate::session::chainview::SharedChain;
use crate::session::options::SyncOptions;
use p2p::{BlockVerdict, Event, Network, PeerId};
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
/// Minimum bytes in that time of a block on its way: at the rate below which `p2p` ignores a peer.
const USEFUL_BYTES: u64 = 4000 * PATIENCE.as_secs();
/// Interval for storing the usage of the daily limit.
const KEEP_INTERVAL: Duration = Duration::from_secs(30);
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

/// What becomes of the blocks of a fetch.
pub(super) trait Sink {
    /// Checks a block and stores it; returns why it is not the requested one.
    ///
    /// # Errors
    ///
    /// It cannot be stored.
    fn take(&mut self, id: NodeId, bytes: &[u8]) -> Result<Result<(), String>, Fault>;

    /// Makes the stored blocks durable.
    ///
    /// # Errors
    ///
    /// An I/O error.
    fn sync(&mut self) -> Result<(), Fault>;
}

/// Fetches the blocks of `nodes`, lowest first, and passes each to `sink`. Returns the blocks that no peer delivered.
///
/// # Errors
///
/// The network cannot be started, `sink` failed, or the fetch was stopped.
pub(super) fn fetch(with: &Fetching<'_>, nodes: &[NodeId], sink: &mut dyn Sink) -> Result<Vec<NodeId>, Fault> {
    if nodes.is_empty() || with.sync.seeks_none() {
        return Ok(nodes.to_vec());
    }
    let own = PrivateDir::new(with.chain.disk.clone(), with.chain.layout.private_dir());
    let mut budget = Budget::new(with.sync.download.limits);
    if let Some(kept) = downloaded::read(&own)? {
        budget.go_on(&kept, with.sync.download.local_time(with.options.clock));
    }
    let (network, receiver) = start(with)?;
    let queue = Queue::new(nodes.to_vec());
    let now = Instant::now();
    let mut fetch = Fetch { with, network, own, queue, budget, pause: None, last: now, received: None, kept: now };
    let done = fetch.run(&receiver, sink);
    fetch.network.halt();
    let kept = downloaded::keep(&fetch.own, &fetch.budget, with.reporter);
    done?;
    kept?;
    Ok(fetch.queue.into_wanted())
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

struct Fetch<'d, 'f> {
    with: &'d Fetching<'f>,
    network: Network,
    /// ffwd's own files in the data directory.
    own: PrivateDir,
    queue: Queue,
    budget: Budget,
    /// Why the user's limits allow no blocks now.
    pause: Option<Pause>,
    /// When the last block arrived, or a new list was begun because none of the last one did, or blocks were on their
    /// way.
    last: Instant,
    /// Bytes received from all peers at that time; `None` before the next look at them.
    received: Option<u64>,
    /// When the usage of the daily limit was stored.
    kept: Instant,
}

impl Fetch<'_, '_> {
    fn run(&mut self, receiver: &Receiver<Event>, sink: &mut dyn Sink) -> Result<(), Fault> {
        let reporter = self.with.reporter;
        self.heed_limits(sink)?;
        self.ask();
        while !self.queue.is_empty() {
            if reporter.is_stopping() {
                return Err(Fault::Stopped);
            }
            self.heed_limits(sink)?;
            match receiver.recv_timeout(EVENT_PATIENCE) {
                Ok(Event::Block { peer, hash, bytes, .. }) => self.take(peer, hash, &bytes, sink)?,
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

    /// Requests no blocks while the user's limits allow none, and stores the usage of the daily limit.
    fn heed_limits(&mut self, sink: &mut dyn Sink) -> Result<(), Fault> {
        let download = &self.with.sync.download;
        let is_paused = download.switch.is_paused();
        self.network.pause(is_paused);
        self.budget.look(download.local_time(self.with.options.clock), is_paused);
        let pause = self.budget.allowance().pause();
        let is_new = pause != self.pause;
        if is_new {
            pause.into_iter().for_each(|pause| self.with.reporter.note(pause.sentence()));
            (self.pause, self.last) = (pause, Instant::now());
            self.queue.begin_anew();
            self.ask();
            // The pause may be long.
            sink.sync()?;
        }
        if is_new || self.kept.elapsed() > KEEP_INTERVAL {
            self.kept = Instant::now();
            downloaded::keep(&self.own, &self.budget, self.with.reporter)?;
        }
        Ok(())
    }

    fn take(&mut self, peer: PeerId, hash: BlockHash, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), Fault> {
        self.budget.took(bytes.len() as u64);
        let known = self.with.chain.index.headers().find(&hash);
        let Some(id) = known.filter(|&id| self.queue.wants(id)) else {
            self.network.verdict(hash, BlockVerdict::Stored);
            return Ok(());
        };
        match sink.take(id, bytes)? {
            Ok(()) => {
                (self.last, self.received) = (Instant::now(), None);
                self.network.verdict(hash, BlockVerdict::Stored);
                if self.queue.took(id) {
                    self.ask();
                }
            }
            Err(reason) => self.network.verdict(hash, BlockVerdict::BadBody { peer, reason }),
        }
        Ok(())
    }

    /// Requests the next blocks within the user's limits. Every chain of the peers gets the same list, because it is
    /// unknown which of them has the blocks.
    ///
    /// The blocks may be at any height, so that the share of the limits for new blocks at the tip is not for them.
    fn ask(&mut self) {
        let allowed = match self.budget.allowance() {
            Allowance::All => self
                .budget
                .left_bytes()
                .map_or(usize::MAX, |left| usize::try_from(left / BLOCK_BYTES_MAX).unwrap_or(usize::MAX).max(1)),
            Allowance::NearTip(_) | Allowance::Nothing(_) => 0,
        };
        let next = self.queue.list(WANTS_MAX, allowed).to_vec();
        self.network.want(vec![request::wants(&self.with.chain.index.headers(), next)]);
    }

    /// Whether waiting longer is pointless: all remaining blocks were announced but not delivered, or no block arrived
    /// for [`PATIENCE`] although blocks were requested. If the daily limit cut the list, the other blocks come first.
    fn is_over(&mut self) -> bool {
        if self.pause.is_some() {
            return false;
        }
        let progress = self.network.progress();
        let received = *self.received.get_or_insert(progress.received_bytes);
        let undelivered: HashSet<BlockHash> = progress.undelivered.iter().map(|want| want.hash).collect();
        let is_given_up = {
            let tree = self.with.chain.index.headers();
            let listed = self.queue.listed();
            !listed.is_empty() && listed.iter().all(|&id| undelivered.contains(&tree.hash(id)))
        };
        if !is_given_up && self.last.elapsed() <= PATIENCE {
            return false;
        }
        self.received = None;
        let came = progress.received_bytes.saturating_sub(received);
        if !is_given_up && progress.in_flight_count > 0 && came >= USEFUL_BYTES {
            self.last = Instant::now(); // On a slow line a block takes longer than that.
            return false;
        }
        if progress.outbound_count == 0 || !self.queue.pass() {
            return true;
        }
        self.last = Instant::now();
        self.ask();
        false
    }
}
