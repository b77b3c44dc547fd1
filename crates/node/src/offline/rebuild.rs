//! `reindex --chainstate-only`: builds the coins from indexed blocks next to the old ones, and replaces those when
//! complete.

use super::{activate, engine_for_set, flush, reindex_preflight, report};
use crate::datadir::{DataDir, Mode, lock, start_of};
use crate::fault::Fault;
use crate::options::{Options, Prune};
use crate::pipeline::engine::{Activated, Engine};
use crate::reporting::{Events, JobReport};
use primitives::{BlockHash, Height};
use store::FileInfos;
use store::chainstate::{self, Chainstate, Rebuilt};
use store::index::{self, BlockTreeDb};

pub(super) fn run(options: &Options, events: Events<'_>) -> Result<JobReport, Fault> {
    if options.prune != Prune::Off {
        let why = "Prune mode is incompatible with -reindex-chainstate.";
        return Err(Fault::refused(why, "Use full -reindex instead."));
    }
    let locked = lock::lock(options, events, true)?;
    let disk = locked.disk.clone();
    let host = locked.host.clone();
    let layout = locked.layout.clone();
    let reporter = lock::reporter(events, options, "reindex --chainstate-only");
    reporter.with_room(|| chainstate::finish_snapshot(&disk, &layout))?;
    let rebuilt = reporter.with_room(|| chainstate::rebuilt(&disk, &layout))?;
    let block_index = reporter.with_room(|| BlockTreeDb::open(&host, &layout))?;
    let loaded = block_index.load(&lock::network(&options.params))?;
    if loaded.is_reindexing || loaded.entries.is_empty() {
        let found = if loaded.is_reindexing { "one whose reindex is not finished" } else { "an empty one" };
        let advice = "Run ffwd reindex";
        let fault =
            store::Fault::new(store::FaultKind::Refused, &layout.index_dir(), "a whole block index", found, advice);
        return Err(fault.into());
    }
    reporter.with_room(|| store::reindex::forget(&disk, &layout))?;
    index::check_not_pruned(&loaded, &layout)?;
    index::check_files_exist(&loaded, &locked.files.numbers()?, &layout)?;
    // A base that cannot be read is of no snapshot that bitcoind would use.
    let base = chainstate::named_base(&*disk, &layout).ok().flatten();
    // No other program may use the old coins while the new ones are built.
    let old = layout.chainstate_dir();
    reporter.with_room(|| disk.create_dir_all(&old).map_err(store::Fault::from))?;
    let old_lock = reporter.with_room(|| disk.lock(&old.join("LOCK")).map_err(store::Fault::from))?;
    let (height_before, coins_before) = reindex_preflight::old_coins(&locked, &loaded, base, &reporter)?;
    let coins = reporter.with_room(|| Chainstate::open(&host, &layout.rebuilt_chainstate_dir()))?;
    let best = coins.best_block()?;
    let mut datadir =
        DataDir::new(options, reporter, locked, block_index, coins, FileInfos::new(loaded.files.clone()))?;
    datadir.mode = Mode::RebuildCoins;
    datadir.take_index(&loaded)?;
    remove_snapshot(&datadir, base)?;
    let start = start_of(&datadir.headers(), best).ok_or_else(|| {
        let why = "the best block of the half-built chainstate is not in the block index";
        Fault::refused(why, "Remove the directory ffwd/chainstate and start again")
    })?;
    datadir.set_active(start);
    let height_start = datadir.headers().height(start);
    if rebuilt == Rebuilt::Started && height_start > Height::GENESIS {
        datadir.reporter.note(format!("Going on from height {height_start}, where an earlier run was stopped"));
    }
    let (done, stopped) = {
        let mut engine = engine_for_set(&datadir, start, coins_before);
        let stopped = activate(&datadir, &mut engine)? == Activated::Stopped;
        flush(&datadir, &engine)?;
        datadir.write_index(None)?;
        if !stopped {
            check_height(&datadir, &engine, height_before)?;
            datadir.with_room(|| datadir.coins.settle())?;
        }
        (report(&datadir, engine.tip(), height_start, engine.pipeline.stats().snapshot(), stopped), stopped)
    };
    if !stopped {
        datadir.with_room(|| datadir.writer.settle())?;
        let DataDir { coins, reporter, locks: _locks, .. } = datadir;
        drop(coins);
        reporter.with_room(|| chainstate::swap_rebuilt(&disk, &layout))?;
        drop(old_lock);
        return Ok(JobReport { seconds: reporter.seconds(), ..done });
    }
    Ok(done)
}

/// Removes a chainstate from a snapshot, as Core's -reindex-chainstate does. First the index forgets what was connected
/// on its coins, which nobody validated.
fn remove_snapshot(datadir: &DataDir<'_>, base: Option<BlockHash>) -> Result<(), Fault> {
    let base = base.and_then(|base| datadir.headers().find(&base));
    if let Some(base) = base {
        datadir.index.write().distrust(base);
        datadir.write_index(None)?;
    }
    if datadir.with_room(|| chainstate::remove_snapshot(&*datadir.disk, &datadir.layout))? {
        datadir.reporter.note("[snapshot] deleting snapshot chainstate due to reindexing");
    }
    Ok(())
}

/// Refuses coins that end below the old ones, unless the user set that height, or a block proved to be invalid.
fn check_height(datadir: &DataDir<'_>, engine: &Engine<'_>, height_before: Height) -> Result<(), Fault> {
    let (height, best) = datadir.height_and_hash(engine.tip());
    let wanted = height_before.min(datadir.options.stop_at_height.unwrap_or(Height::MAX));
    if height >= wanted || datadir.reporter.shortfall.has_refused() {
        return Ok(());
    }
    let wanted = format!("blocks up to height {wanted}, the height of the chainstate");
    let found = format!("a chain that ends at height {height} (block {best})");
    let advice = "The index lacks blocks that were connected: run ffwd repair. The chainstate is unchanged";
    Err(store::Fault::new(store::FaultKind::Refused, &datadir.layout.index_dir(), wanted, found, advice).into())
}
