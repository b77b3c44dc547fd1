//! `coins load`: a second chainstate from a snapshot, in the layout of Core's loadtxoutset.
//!
//! The tables are written to a temporary directory; the index, then renaming the directory make them active. An
//! interruption before that leaves the data directory unchanged. Source: Bitcoin Core b88bffe,
//! `ChainstateManager::ActivateSnapshot`, `PopulateAndValidateSnapshot`.

use super::coming::{self, fill_coming};
use super::fill::{Wanted, fill};
use super::given::Given;
use crate::chain::tree::{Fate, NodeId, Tree};
use crate::datadir::DataDir;
use crate::fault::{Fault, Message};
use crate::handle::{Live, NotLoaded};
use crate::mempool::Mempool;
use crate::offline::open::{Purpose, Which, finish_reindex, open_existing};
use crate::options::{Options, Prune};
use crate::pipeline::stats::Snapshot;
use crate::reporting::Events;
use crate::snapshot::file::{NoSnapshot, SnapshotFile};
use consensus::Params;
use consensus::params::AssumeUtxo;
use primitives::{BlockHash, Hash256, Height};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use store::private_files::PrivateDir;

/// Private file with the base block of a loaded snapshot and the hash of its coins, with which the validated history is
/// compared if Core knows no hash.
pub(super) const TRUSTED: &str = "snapshot";

const MORE_THAN_ONCE: &str = "Can't activate a snapshot-based chainstate more than once";
const WHILE_ARCHIVING: &str = "Can't activate a snapshot while pruned blocks are downloaded again (--prune 0). Call loadtxoutset when they are there";
const NO_MORE_WORK: &str = "Population failed: Work does not exceed active chainstate";

/// Result of a load; names are loadtxoutset's.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Coins in the snapshot.
    pub coins_loaded: u64,
    /// Hash of its base block.
    pub tip_hash: BlockHash,
    /// Its height.
    pub base_height: Height,
    /// Absolute path of the file.
    pub path: PathBuf,
    /// `hash_serialized_3` of the coins.
    pub txoutset_hash: Hash256,
    /// Whether Core knows this hash; otherwise the user gave it.
    pub is_known: bool,
    /// Seconds.
    pub seconds: f64,
}

/// Core's assumeutxo data for a base block.
pub(crate) fn known(params: &Params, base: &BlockHash) -> Option<AssumeUtxo> {
    params.assumeutxo.iter().find(|known| known.block_hash == *base).copied()
}

/// The hash that the user trusts for a snapshot with this base block.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn trusted(private: &PrivateDir, base: &BlockHash) -> Result<Option<Hash256>, Fault> {
    let Some(bytes) = private.read(TRUSTED, 64)? else { return Ok(None) };
    let is_of = bytes.len() == 64 && bytes[..32] == base.as_bytes()[..];
    Ok(is_of.then(|| Hash256(*bytes[32..].first_chunk().expect("32 of 64 bytes"))))
}

/// Loads a snapshot as a second chainstate. `users_hash` is the `hash_serialized_3` that the user trusts, if Core has
/// no hash for the base block.
///
/// # Errors
///
/// Core's refusals, in Core's words: then nothing is loaded, and nothing changed. An I/O error.
pub fn load(
    options: &Options,
    path: &Path,
    users_hash: Option<Hash256>,
    events: Events<'_>,
) -> Result<LoadReport, Fault> {
    let given = Given::file(options, path)?;
    // Nothing is pruned here, and a pruned data directory is allowed.
    let prune = if options.prune == Prune::Off { Prune::Manual } else { options.prune };
    let options = Options { prune, ..options.clone() };
    finish_reindex(&options, events)?;
    if options.stop.load(Ordering::Relaxed) {
        return Err(Fault::Stopped);
    }
    let existing = open_existing(&options, events, "coins load", Purpose::Work, Which::Active)?;
    load_into(&existing.datadir, existing.tip, &given, users_hash, &Snapshot::default())
}

/// Like [`load`], into an open data directory with its chain at `tip`. It keeps its coins until it is opened again or
/// [`DataDir::with_other_coins`] switches to the loaded ones. `stats` are the counters of earlier work, for the
/// displays.
///
/// # Errors
///
/// Those of [`load`].
pub(crate) fn load_into(
    datadir: &DataDir<'_>,
    tip: NodeId,
    given: &Given,
    users_hash: Option<Hash256>,
    stats: &Snapshot,
) -> Result<LoadReport, Fault> {
    let begun = std::time::Instant::now();
    let options = datadir.options;
    let header = given.header();
    let base = header.base;
    let name = given.name();
    let failed = |why: String| Fault::refused(refusal(&why, &name), super::LOAD_ADVICE);
    if datadir.assumed.is_some() {
        return Err(failed(MORE_THAN_ONCE.to_owned()));
    }
    let known = known(&options.params, &base);
    let hash = known.map(|known| known.hash_serialized).or(users_hash);
    let hash = hash.ok_or_else(|| failed(not_recognized(&options.params, &base)))?;
    let node = base_node(&datadir.headers(), &base).map_err(failed)?;
    if !is_above(&datadir.headers(), tip, node) {
        return Err(failed(NO_MORE_WORK.to_owned()));
    }
    let height = datadir.headers().height(node);
    if known.is_none() {
        let why = format!("Core knows no UTXO set of block {base}: you must trust the hash {hash}");
        let advice =
            "Run ffwd sync, which validates the past; bitcoind does not start on this data directory before that";
        datadir.reporter.warn(Message::new(why, advice));
    }
    let host = &datadir.host;
    let layout = &datadir.layout;
    let dir = match given {
        Given::File(file, path) => {
            fill(&Wanted { host, layout, file, path, height, hash, par: options.par, stats }, &datadir.reporter)?;
            layout.new_snapshot_dir()
        }
        Given::Stream(given) => {
            fill_coming(&coming::Wanted { host, layout, given, height, hash, stats }, &datadir.reporter)?;
            layout.coming_snapshot_dir()
        }
    };
    install(datadir, &dir, node, base, hash)?;
    datadir.reporter.note(format!("[snapshot] successfully activated snapshot {base}"));
    let seconds = begun.elapsed().as_secs_f64();
    let coins_loaded = header.coins;
    let tip_hash = base;
    let base_height = height;
    let txoutset_hash = hash;
    let is_known = known.is_some();
    let path = PathBuf::from(name);
    Ok(LoadReport { coins_loaded, tip_hash, base_height, path, txoutset_hash, is_known, seconds })
}

/// Core's words for a snapshot that is not loaded.
fn refusal(why: &str, name: &dyn std::fmt::Display) -> String {
    format!("Unable to load UTXO snapshot: {why}. ({name})")
}

fn not_recognized(params: &Params, base: &BlockHash) -> String {
    let heights: Vec<String> = params.assumeutxo.iter().map(|known| known.height.to_string()).collect();
    format!(
        "assumeutxo block hash in snapshot metadata not recognized (hash: {base}). The following snapshot heights are available: \
         {}. If you know the hash of its coins, give it as --snapshot-hash",
        heights.join(", ")
    )
}

/// Checks whether a running sync can load a snapshot, before it stops its work and disconnects its peers. Core's
/// checks, in its order, except those that read the coins.
///
/// # Errors
///
/// Why it cannot.
///
/// Source: Bitcoin Core b88bffe, `loadtxoutset`, `ChainstateManager::ActivateSnapshot`.
pub fn check_snapshot(live: &Live, mempool: &Mempool, path: &Path) -> Result<(), NotLoaded> {
    let file = SnapshotFile::open(&*live.options.disk, path).map_err(|why| match why {
        NoSnapshot::Unopened(..) => NotLoaded::Unopened,
        NoSnapshot::Metadata(why) => NotLoaded::Metadata(why),
    })?;
    file.metadata_of(live.params()).map_err(NotLoaded::Metadata)?;
    let refused = |why: String| NotLoaded::Refused(refusal(&why, &path.display()));
    if live.assumed().is_some() {
        return Err(refused(MORE_THAN_ONCE.to_owned()));
    }
    if live.is_archiving() {
        return Err(refused(WHILE_ARCHIVING.to_owned()));
    }
    let base = file.header.base;
    if known(live.params(), &base).is_none() {
        return Err(refused(not_recognized(live.params(), &base)));
    }
    let index = live.index.read();
    let node = base_node(index.headers(), &base).map_err(refused)?;
    if !mempool.entries().is_empty() {
        return Err(refused("Can't activate a snapshot when mempool not empty".to_owned()));
    }
    if !is_above(index.headers(), index.tip(), node) {
        return Err(refused(NO_MORE_WORK.to_owned()));
    }
    Ok(())
}

/// The base block, if it is on the best header chain.
fn base_node(tree: &Tree, base: &BlockHash) -> Result<NodeId, String> {
    let Some(node) = tree.find(base) else {
        return Err(format!(
            "The base block header ({base}) must appear in the headers chain. Make sure all headers are syncing, and call \
             loadtxoutset again"
        ));
    };
    if tree.fate(node) != Fate::Open {
        return Err(format!("The base block header ({base}) is part of an invalid chain"));
    }
    if !tree.is_ancestor(node, tree.best()) {
        return Err(
            "A forked headers-chain with more work than the chain with the snapshot base block header exists. Please \
                    proceed to sync without AssumeUtxo"
                .to_owned(),
        );
    }
    Ok(node)
}

/// Whether a block has more work than the tip. Of two blocks with equal work the connected one wins.
fn is_above(tree: &Tree, tip: NodeId, base: NodeId) -> bool {
    tree.work(base) > tree.work(tip)
}

/// Makes the filled directory active.
fn install(datadir: &DataDir<'_>, dir: &Path, node: NodeId, base: BlockHash, hash: Hash256) -> Result<(), Fault> {
    let private = PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
    let memory = [*base.as_bytes(), hash.0].concat();
    datadir.with_room(|| private.write(TRUSTED, &memory))?;
    datadir.index.write().assume(node);
    datadir.index.write().list_assumed();
    datadir.write_index(None)?;
    datadir.with_room(|| datadir.writer.settle())?;
    datadir.with_room(|| store::chainstate::install_snapshot(&datadir.disk, &datadir.layout, dir, base))?;
    datadir.with_room(|| coming::forget(&private, &*datadir.disk, &datadir.layout))
}
