//! A sync in parts. With hints, the hinted blocks come first. With a snapshot: headers up to its base block, loading
//! it, then syncing to the tip while the blocks below it are validated in the background, then following the best
//! chain.
//!
//! The data directory stays open and the peers stay connected over all parts. Directories are swapped in durable steps:
//! after a stop or a kill at any point ffwd or bitcoind can continue from the data directory.
//! Source: Bitcoin Core b88bffe, `ChainstateManager::ActivateBestChains`, `MaybeValidateSnapshot`.

use super::driver::{Goal, Outcome};
use super::threads::{Conduct, Threads};
use super::{Run, archive, hinted, past};
use crate::datadir::{Assumed, Origin, apart, lock};
use crate::fault::{Fault, Message};
use crate::handle::{Loaded, NotLoaded};
use crate::offline::open::finish_reindex;
use crate::options::Options;
use crate::reporting::{Events, JobReport};
use crate::session::options::SyncOptions;
use crate::snapshot::coming;
use crate::snapshot::from_peers::PeerStream;
use crate::snapshot::given::Given;
use crate::snapshot::hints::file::HintsFile;
use crate::snapshot::load::load_into;
use crate::snapshot::stream::SharedStream;
use crate::snapshot::validate::{PastSet, state, validate};
use crate::threads::AtEnd;
use p2p::SetExchange;
use primitives::{BlockHash, Hash256};
use std::path::PathBuf;
use std::sync::Arc;

/// The snapshot or hints that a sync starts from.
#[derive(Clone, Debug, Default)]
pub struct FromSnapshot {
    /// `--snapshot`: this file, unless a snapshot is loaded already or the chain is beyond it.
    pub file: Option<PathBuf>,
    /// `--snapshot` with mirrors, standard input or a pipe, instead of `file`.
    pub stream: Option<SharedStream>,
    /// `--snapshot peers`: the base block of a snapshot that peers send in chunks (BIP 452), instead of `file`.
    pub peers: Option<BlockHash>,
    /// `--snapshot-hash`: the UTXO set hash that the user trusts if Core knows no hash for the base block.
    pub hash: Option<Hash256>,
    /// `--hints`: this hints file, used up to its height in a data directory without blocks.
    pub hints: Option<PathBuf>,
}

/// Syncs the data directory to the tip of its peers.
///
/// # Errors
///
/// The data directory cannot be used, the network cannot be started, a snapshot is invalid, or an I/O error. Peers
/// cannot cause an error.
pub fn sync(options: &Options, sync: &SyncOptions, events: Events<'_>) -> Result<JobReport, Fault> {
    sync_from(options, sync, &FromSnapshot::default(), events)
}

/// Like [`sync`], but starts from a snapshot: syncs to the tip first, then validates the blocks below the snapshot.
///
/// # Errors
///
/// Those of [`sync`], and Core's refusals of a snapshot.
pub fn sync_from(
    options: &Options,
    sync: &SyncOptions,
    from: &FromSnapshot,
    events: Events<'_>,
) -> Result<JobReport, Fault> {
    sync_with(options, sync, from, &mut Threads::default(), events)
}

/// Like [`sync_from`], with the threads and network of `conduct`.
///
/// # Errors
///
/// Those of [`sync_from`].
pub(super) fn sync_with(
    options: &Options,
    sync: &SyncOptions,
    from: &FromSnapshot,
    conduct: &mut dyn Conduct,
    events: Events<'_>,
) -> Result<JobReport, Fault> {
    let _end = AtEnd(|| sync.handle.iter().for_each(|handle| handle.end_load()));
    lock::clock(options)?;
    finish_reindex(options, events)?;
    let hints = match &from.hints {
        Some(path) => hinted::prepare(options, path, events)?,
        None => {
            hinted::forget(options, events)?;
            None
        }
    };
    let has_snapshot = state(options, events)?.is_some();
    let from_peers = from.peers.filter(|_| !has_snapshot);
    let given = match (&from.file, &from.stream) {
        _ if has_snapshot || from_peers.is_some() => None,
        (_, Some(stream)) => Some(Given::stream(options, stream)?),
        (file, None) => file.as_deref().map(|path| Given::file(options, path)).transpose()?,
    };
    let from_peers = from_peers.map(|base| FromPeers { base, exchange: Arc::default() });
    let exchange = from_peers.as_ref().map(|from| from.exchange.clone());
    let mut run = Run::new(options, sync, exchange, conduct, events)?;
    if !matches!(given, Some(Given::Stream(_))) && from_peers.is_none() {
        run.forget_coming()?;
    }
    if let Some(from_peers) = from_peers
        && run.begin_on_peers(&from_peers, from.hash)? == Outcome::Stopped
    {
        return run.end(Outcome::Stopped);
    }
    let outcome = run.work(hints, given, from.hash)?;
    run.end(outcome)
}

/// A snapshot that peers send.
struct FromPeers {
    base: BlockHash,
    exchange: Arc<SetExchange>,
}

impl Run<'_> {
    /// Runs all parts of a sync; returns the outcome of the last one.
    fn work(
        &mut self,
        hints: Option<HintsFile>,
        given: Option<Given>,
        hash: Option<Hash256>,
    ) -> Result<Outcome, Fault> {
        if let Some(hints) = hints
            && self.with_hints(&hints)? == Outcome::Stopped
        {
            return Ok(Outcome::Stopped);
        }
        if let Some(given) = given
            && self.begin_on(&given, hash)? == Outcome::Stopped
        {
            return Ok(Outcome::Stopped);
        }
        loop {
            self.say_snapshot();
            let mut outcome = self.part(Goal::Tip, None)?.outcome;
            if outcome == Outcome::Suspect {
                let why = "A block or a chain conflicts with the snapshot: the snapshot's past is validated first";
                self.datadir().reporter.warn(Message::new(why, "Let it run: the result names the wrong one"));
                // Blocks refused on top of the snapshot may be valid.
                self.snapshot().into_iter().for_each(|base| self.datadir().index.write().reopen_above(base));
                outcome = self.part(Goal::Past, None)?.outcome;
            }
            match outcome {
                Outcome::PastDone => self.validate(hash)?,
                Outcome::Load => self.load_asked()?,
                ended => return Ok(ended),
            }
        }
    }

    /// Builds the UTXO set at the hinted height. If the hints are wrong or unusable, the sync falls back to full
    /// validation.
    fn with_hints(&mut self, hints: &HintsFile) -> Result<Outcome, Fault> {
        let assumed = self.options.assumevalid;
        // All headers each time: whether a block is assumed valid depends on its depth.
        self.datadir().reporter.note(format!("Headers first, beyond the assumed-valid block {assumed}"));
        if self.part(Goal::Headers(assumed), None)?.outcome == Outcome::Stopped {
            return Ok(Outcome::Stopped);
        }
        let part = self.part(Goal::Hinted, Some(hints))?;
        match part.hinted {
            Some(Ok(())) => {
                let datadir = self.datadir.take().expect("it is open between two parts");
                let (datadir, target) = hinted::install(datadir, hints)?;
                (self.datadir, self.tip) = (Some(datadir), target);
                return Ok(part.outcome);
            }
            Some(Err(why)) => {
                let why = format!("The hints are wrong: {why}. Nothing of them is kept");
                let advice = "No action is needed: the sync falls back to full validation";
                self.datadir().reporter.warn(Message::new(why, advice));
            }
            None if part.outcome == Outcome::Stopped => return Ok(Outcome::Stopped),
            None => {}
        }
        self.stats.forget_connected();
        let datadir = self.datadir();
        datadir.reporter.forget_blocks();
        hinted::forget_in(&datadir.reporter, &datadir.disk, &datadir.layout)?;
        Ok(part.outcome)
    }

    /// Downloads headers up to the base block, then loads the snapshot that peers send.
    fn begin_on_peers(&mut self, from: &FromPeers, hash: Option<Hash256>) -> Result<Outcome, Fault> {
        if let Some(ended) = self.reach_base(from.base, "the snapshot of the peers")? {
            return Ok(ended);
        }
        let stream = SharedStream::new(PeerStream::new(from.exchange.clone(), from.base));
        let given = loop {
            let why = match Given::stream(self.options, &stream) {
                Ok(given) if given.header().base == from.base => break given,
                Ok(given) => Fault::refused(
                    format!("peers sent a snapshot of block {}, not of {}", given.header().base, from.base),
                    "Name a file or URL with --snapshot, or sync without one",
                ),
                Err(Fault::Stopped) => return Ok(Outcome::Stopped),
                Err(why) => why,
            };
            if stream.lock().try_others().is_none() {
                return Err(why);
            }
        };
        self.load_first(&given, hash)
    }

    /// Downloads headers up to the base block of a snapshot, then loads it.
    fn begin_on(&mut self, given: &Given, hash: Option<Hash256>) -> Result<Outcome, Fault> {
        if let Some(ended) = self.reach_base(given.header().base, &given.name())? {
            return Ok(ended);
        }
        self.load_first(given, hash)
    }

    /// Loads the snapshot that the sync begins with.
    fn load_first(&mut self, given: &Given, hash: Option<Hash256>) -> Result<Outcome, Fault> {
        match self.load(given, hash) {
            Ok(_) => Ok(Outcome::Reached),
            Err(Fault::Stopped) => Ok(Outcome::Stopped),
            Err(why) => Err(why),
        }
    }

    /// Downloads headers up to the base block of a snapshot; `name` is the snapshot's. An outcome if it is not to be
    /// loaded: the block is connected already, or the sync was stopped.
    fn reach_base(&mut self, base: BlockHash, name: &str) -> Result<Option<Outcome>, Fault> {
        let reporter = &self.datadir().reporter;
        let is_beyond = {
            let index = self.datadir().index.read();
            index.headers().find(&base).map(|id| index.is_active(id))
        };
        if is_beyond == Some(true) {
            reporter.note(format!("The chain has block {base} already: {name} is not needed"));
            self.forget_coming()?;
            return Ok(Some(Outcome::Reached));
        }
        if is_beyond.is_none() {
            reporter.note(format!("Headers first, up to the snapshot's base block {base}"));
            if self.part(Goal::Headers(base), None)?.outcome == Outcome::Stopped {
                return Ok(Some(Outcome::Stopped));
            }
        }
        Ok(None)
    }

    /// Loads a snapshot and continues from it, with the blocks below it as a second chain.
    fn load(&mut self, given: &Given, hash: Option<Hash256>) -> Result<Loaded, Fault> {
        // No blocks are accepted during the load.
        self.network.want(Vec::new());
        let loaded = load_into(self.datadir(), self.tip, given, hash, &self.stats)?;
        let datadir = self.datadir.take().expect("it is open between two parts");
        let dir = datadir.layout.snapshot_dir();
        let mut datadir = datadir.with_other_coins(&dir, || Ok(()))?;
        let base = datadir.headers().find(&loaded.tip_hash).ok_or_else(|| apart(loaded.tip_hash))?;
        datadir.assumed = Some(Assumed { base, is_past: false, origin: Origin::Snapshot });
        datadir.index.write().reopen_above(base);
        datadir.set_active(base);
        self.tip = base;
        self.past = past::open(&datadir, self.window_bytes / 2)?;
        self.datadir = Some(datadir);
        Ok(Loaded { coins: loaded.coins_loaded, base: loaded.tip_hash, height: loaded.base_height })
    }

    /// Removes the downloaded parts of a snapshot, which are not needed any more.
    fn forget_coming(&self) -> Result<(), Fault> {
        let datadir = self.datadir();
        datadir.with_room(|| coming::forget(&self.kept.own, &*datadir.disk, &datadir.layout))
    }

    /// Loads a snapshot on a caller's request. The caller gets an error of the file as the answer, and the sync
    /// continues.
    fn load_asked(&mut self) -> Result<(), Fault> {
        let Some(handle) = self.sync.handle.as_deref() else { return Ok(()) };
        let Some(request) = handle.take_load() else { return Ok(()) };
        let loaded = Given::file(self.options, &request.path).and_then(|given| self.load(&given, None));
        if self.datadir.is_none() {
            // The directories are half-way swapped, so the sync cannot continue.
            return loaded.map(drop);
        }
        match loaded {
            // The caller is told that the program shuts down.
            Err(Fault::Stopped) => drop(request),
            loaded => handle.answer_load(request, loaded.map_err(|why| NotLoaded::Refused(why.what()))),
        }
        Ok(())
    }

    /// Logs that a snapshot is loaded, and how far the blocks below it are validated.
    fn say_snapshot(&self) {
        let (Some(base), Some(past)) = (self.snapshot(), &self.past) else { return };
        let datadir = self.datadir();
        let (height, hash) = datadir.height_and_hash(base);
        let past = datadir.headers().height(past.past_tip.get());
        datadir.reporter.note(match datadir.assumed.map(|assumed| assumed.origin) {
            Some(Origin::Pruned) => format!(
                "Blocks up to height {height} were pruned: the tip first, then they are downloaded and validated, from height \
                 {past} on"
            ),
            _ => format!(
                "The UTXO set comes from a snapshot at height {height}, block {hash}: the tip first, then the past is \
                 validated from height {past} on"
            ),
        });
        if let Some(handle) = &self.sync.handle {
            handle.set_past_height(past);
            // Another snapshot was requested while one was being loaded.
            if let Some(request) = handle.take_load() {
                handle.answer_load(request, Err(NotLoaded::Refused("Another snapshot is loaded".to_owned())));
            }
        }
    }

    /// Compares the coins of the validated chain with the snapshot's, and turns the data directory into an ordinary
    /// one. One that was pruned becomes archival.
    fn validate(&mut self, hash: Option<Hash256>) -> Result<(), Fault> {
        let Some(past) = self.leave_past() else { return Ok(()) };
        let mut datadir = self.datadir.take().expect("it is open between two parts");
        if datadir.assumed.is_some_and(|assumed| assumed.origin == Origin::Pruned) {
            drop(past);
            archive::end(&mut datadir, self.tip)?;
            self.datadir = Some(datadir);
            return Ok(());
        }
        let set = PastSet { tip: past.past_tip.get(), hash: self.past_hash.take() };
        drop(past);
        self.datadir = Some(validate(datadir, set, self.tip, hash)?);
        Ok(())
    }
}
