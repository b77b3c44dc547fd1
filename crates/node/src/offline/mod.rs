//! Jobs without peers, one function per command: rebuild, import, verify, look up. Options in, report out, events
//! meanwhile.
//!
//! `open` opens a data directory for every job, including a sync, and `common` ends one; `files` reads it for audits
//! and exports without a lock. Absent on purpose: snapshots and hints (`snapshot`), peers (`session`).

pub(crate) mod cache;
pub(crate) mod common;
pub mod doctor;
mod file_system;
pub mod files;
mod forecast;
pub(crate) mod import;
mod index;
mod info;
mod look_up;
pub(crate) mod open;
mod open_look;
pub(crate) mod read_only;
mod rebuild;
mod reindex;
mod reindex_preflight;
pub(crate) mod replay;
mod silent_payments;
mod verify;

pub use crate::datadir::unindexed::Unindexed;
pub use file_system::file_system_warning;
pub use forecast::{Forecast, Share};
pub use import::import;
pub use index::{IndexReport, index};
pub use info::{DataDirInfo, Failed, InUse, info};
pub use look_up::{BlockId, Filter, FoundTx, SetAt, Spender, filter, set_info_at, spender, tx};
pub use open_look::check_index_form;
pub use silent_payments::{SilentPayments, SilentQuestion, each_silent_block, silent_payments};
pub use verify::{VerifyReport, verify};

pub(crate) use self::cache::FollowingCache;
use self::common::{engine, engine_for_set, flush};
pub(crate) use self::common::{engine_with, finish, finish_past, report};
pub(crate) use crate::datadir::apart;
use crate::datadir::lock::Locked;
use crate::datadir::look::{self, Hold};
use crate::datadir::{self, DataDir};
use crate::fault::Fault;
use crate::options::Options;
use crate::pipeline::engine::{Activated, Engine};
use crate::reporting::{Events, JobReport};
use crate::threads::{self, AtEnd};
use crate::utxo_stats::set_totals;
use crate::utxo_stats::{SetHash, SetInfo};
use primitives::{BlockHash, Height};
use std::sync::atomic::Ordering::Relaxed;
use store::chainstate::{Chainstate, CoinsView};
use store::index::{BlockTreeDb, LoadedIndex};
use store::private_files::PrivateDir;

/// Rebuilds index, undo data and coins from the block files, or only the coins.
///
/// # Errors
///
/// The data directory cannot be used, its block files end below its coins' height, or an I/O error.
pub fn reindex(options: &Options, chainstate_only: bool, events: Events<'_>) -> Result<JobReport, Fault> {
    // A full reindex must not advise to reindex.
    if !chainstate_only {
        return reindex::run(options, reindex_preflight::Pruned::Refuse, events).map_err(Fault::without_reindex);
    }
    let report = rebuild::run(options, events)?;
    // The coins are exchanged in one step at the end; the indexes follow.
    if !report.stopped && !options.indexes.is_empty() {
        index(options, &options.indexes, events)?;
    }
    Ok(report)
}

/// `-reindex` as in bitcoind: in a pruned data directory, with pruning on, all block files are removed, and nothing is
/// connected; a sync downloads all blocks again. Otherwise like [`reindex`]. Source: Bitcoin Core b88bffe,
/// node/blockstorage.cpp, `CleanupBlockRevFiles`.
///
/// # Errors
///
/// Those of [`reindex`].
pub fn reindex_before_sync(options: &Options, events: Events<'_>) -> Result<JobReport, Fault> {
    reindex::run(options, reindex_preflight::Pruned::BeginAnew, events).map_err(Fault::without_reindex)
}

/// Counts and hashes the coins in the tables. If there are two sets, because a snapshot is not validated, counts those
/// from the snapshot, as in Core's RPCs.
///
/// # Errors
///
/// There is no complete chainstate, it is damaged, or an I/O error.
pub fn set_info(options: &Options, hash: SetHash, _: Events<'_>) -> Result<SetInfo, Fault> {
    count_set(options, hash, false)
}

/// Like [`set_info`], with counts by script and age.
///
/// # Errors
///
/// Those of [`set_info`].
pub fn set_details(options: &Options, hash: SetHash, _: Events<'_>) -> Result<SetInfo, Fault> {
    count_set(options, hash, true)
}

/// Like [`set_info`], for the data directory of a job that has just ended. Without a hash only the block index is read,
/// if the job stored the totals of the coins; otherwise they are counted, and stored for the next job.
///
/// # Errors
///
/// Those of [`set_info`].
pub fn set_after(options: &Options, hash: SetHash, events: Events<'_>) -> Result<SetInfo, Fault> {
    let count = |locked: &Locked, view: &CoinsView, best: &BlockHash| {
        let own = PrivateDir::new(locked.disk.clone(), locked.layout.private_dir());
        if hash == SetHash::None
            && let Some(totals) = set_totals::read(&own, best)
        {
            return Ok(SetInfo { disk_size: view.table_bytes(), ..SetInfo::of(totals) });
        }
        let info = crate::utxo_stats::setinfo::set_info(view, hash, false, options.par)?;
        // This is only a cache, so an error does not matter.
        let _ = set_totals::write(&own, best, info.totals());
        Ok(info)
    };
    look_at_set(options, || datadir::lock::lock(options, events, false), count)
}

fn count_set(options: &Options, hash: SetHash, wants_stats: bool) -> Result<SetInfo, Fault> {
    let count = |_: &Locked, view: &CoinsView, _: &BlockHash| {
        crate::utxo_stats::setinfo::set_info(view, hash, wants_stats, options.par)
    };
    look::at_rest(options, "gettxoutsetinfo", || look_at_set(options, || look::open(options, Hold::IfPossible), count))
}

/// Opens the coins, runs `count` on them, and adds height and hash of their best block.
fn look_at_set(
    options: &Options,
    open: impl FnOnce() -> Result<Locked, Fault>,
    count: impl FnOnce(&Locked, &CoinsView, &BlockHash) -> Result<SetInfo, Fault>,
) -> Result<SetInfo, Fault> {
    if datadir::lock::is_unused(options)? {
        return Err(no_coins(&datadir::lock::layout(options).chainstate_dir()));
    }
    let locked = open()?;
    let dir = match store::chainstate::snapshot_base(&*locked.disk, &locked.layout)? {
        Some(_) => locked.layout.snapshot_dir(),
        None => locked.layout.chainstate_dir(),
    };
    if !Chainstate::exists(&*locked.disk, &dir)? {
        return Err(no_coins(&dir));
    }
    let coins = Chainstate::open_read_only(&locked.host, &dir)?;
    let best = complete_best(&coins, &dir)?;
    let mut info = count(&locked, &coins.view(), &best.unwrap_or_default())?;
    if let Some(best) = best {
        (info.best, info.height) = (best, stored_height(&locked, options, best)?);
    }
    Ok(info)
}

pub(crate) fn no_coins(dir: &std::path::Path) -> Fault {
    let advice = "Make one: ffwd sync, or ffwd repair where block files are";
    store::Fault::new(store::FaultKind::Missing, dir, "a chainstate", "none", advice).into()
}

/// The best block of coins. A write that bitcoind did not finish is an error.
pub(crate) fn complete_best(coins: &Chainstate, dir: &std::path::Path) -> Result<Option<BlockHash>, Fault> {
    if coins.head_blocks()?.is_some() {
        let advice = "Let bitcoind or ffwd finish it: start one of them on this data directory";
        let found = "one whose last flush bitcoind did not finish";
        return Err(store::Fault::new(store::FaultKind::Refused, dir, "a complete UTXO set", found, advice).into());
    }
    Ok(coins.best_block()?)
}

/// Height of the coins' best block.
pub(crate) fn height_of(loaded: &LoadedIndex, best: BlockHash) -> Result<Height, Fault> {
    let entry = loaded.entries.iter().find(|entry| entry.hash == best);
    entry.map(|entry| entry.height).ok_or_else(|| apart(best))
}

/// Like [`height_of`], if nothing else of the index is read.
fn stored_height(locked: &Locked, options: &Options, best: BlockHash) -> Result<Height, Fault> {
    if !BlockTreeDb::exists(&*locked.disk, &locked.layout)? {
        return Err(apart(best));
    }
    let index = BlockTreeDb::open_read_only(&locked.host, &locked.layout)?;
    let network = datadir::lock::network(&options.params);
    index.check_genesis(&network)?;
    let entry = index.find(&network, &best)?;
    entry.map(|entry| entry.height).ok_or_else(|| apart(best))
}

/// Refuses a data directory that another program uses.
///
/// # Errors
///
/// It is in use, or cannot be opened.
pub fn check_free(options: &Options, events: Events<'_>) -> Result<(), Fault> {
    datadir::lock::lock(options, events, false).map(drop)
}

/// Connects the best chain and commits it; reports progress meanwhile.
fn activate(datadir: &DataDir<'_>, engine: &mut Engine<'_>) -> Result<Activated, Fault> {
    datadir.say_assumed_elsewhere();
    telling(datadir, engine, Engine::activate)
}

/// Reports progress while `work` runs.
fn telling<'f, T>(
    datadir: &DataDir<'_>,
    engine: &mut Engine<'f>,
    work: impl FnOnce(&mut Engine<'f>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let done = std::sync::atomic::AtomicBool::new(false);
    let stats = engine.pipeline.stats();
    let mut cache = FollowingCache::of(datadir, engine);
    std::thread::scope(|scope| {
        let reporter = threads::spawn(scope, "tell", || {
            while !done.load(Relaxed) {
                cache.look(datadir);
                std::thread::park_timeout(std::time::Duration::from_millis(100));
                datadir.reporter.progress(|| stats.snapshot());
            }
            datadir.reporter.last_progress(stats.snapshot());
        })?;
        let _end = AtEnd(|| {
            done.store(true, Relaxed);
            reporter.thread().unpark();
        });
        work(engine)
    })
}
