//! `reindex --chainstate-only`: the coins from the blocks that the index knows, beside the old ones, swapped in when whole.

use super::{activate, engine, reindex_preflight, report};
use crate::datadir::{Folder, Mode, open};
use crate::engine::{Activated, Engine};
use crate::fault::Fault;
use crate::options::{Events, Options, Prune, Report};
use primitives::Height;
use std::sync::atomic::Ordering::Relaxed;
use store::FileInfos;
use store::chainstate::{self, Chainstate, Rebuilt};
use store::index::{self, BlockIndex};

pub(super) fn run(options: &Options, events: Events<'_>) -> Result<Report, Fault> {
    if options.prune != Prune::Off {
        return Err(Fault::refused(
            "Prune mode is incompatible with -reindex-chainstate. Use full -reindex instead. \
             That is ffwd reindex with --prune, or leave --prune away here",
        ));
    }
    let locked = open::lock(options, events, true)?;
    let (disk, layout, stop) = (locked.disk.clone(), locked.layout.clone(), &options.stop);
    let teller = open::teller(events, options, &layout, "reindex --chainstate-only");
    chainstate::check_no_snapshot(&*disk, &layout)?;
    let rebuilt = teller.with_room(stop, || chainstate::rebuilt(&*disk, &layout))?;
    let block_index = teller.with_room(stop, || BlockIndex::open(disk.clone(), &layout))?;
    let loaded = block_index.load(&open::network(&options.params))?;
    if loaded.is_reindexing || loaded.entries.is_empty() {
        let found = if loaded.is_reindexing { "one whose reindex is not finished" } else { "an empty one" };
        let advice = "Run ffwd reindex";
        let fault =
            store::Fault::new(store::FaultKind::Refused, &layout.index_dir(), "a whole block index", found, advice);
        return Err(fault.into());
    }
    teller.with_room(stop, || store::reindex::forget(&disk, &layout))?;
    index::check_not_pruned(&loaded, &layout)?;
    index::check_files_exist(&loaded, &locked.files.numbers()?, &layout)?;
    // Nobody may use the old coins while the new ones are made.
    let old = layout.chainstate_dir();
    teller.with_room(stop, || disk.create_dir_all(&old).map_err(store::Fault::from))?;
    let old_lock = teller.with_room(stop, || disk.lock(&old.join("LOCK")).map_err(store::Fault::from))?;
    let height_before = reindex_preflight::height_of_coins(&locked, &loaded, &teller)?;
    let coins = teller.with_room(stop, || Chainstate::open(disk.clone(), &layout.rebuilt_chainstate_dir()))?;
    let best = coins.best_block()?;
    let infos = FileInfos::new(loaded.files.clone());
    let mut folder = Folder::assemble(options, teller, locked, block_index, coins, infos);
    folder.mode = Mode::RebuildCoins;
    folder.take_index(&loaded)?;
    let start = open::start_of(&folder.headers(), best).ok_or_else(|| {
        Fault::refused(
            "the half-built coins stand at an unknown block: remove the folder ffwd/chainstate and start again",
        )
    })?;
    folder.set_active(start);
    let height_start = folder.headers().height(start);
    if rebuilt == Rebuilt::Started && height_start > Height::GENESIS {
        folder.teller.note(format!("Going on from height {height_start}, where an earlier run was stopped"));
    }
    let (done, stopped) = {
        let mut engine = engine(&folder, start);
        let stopped = activate(&folder, &mut engine)? == Activated::Stopped;
        engine.pipeline.flush(engine.tip_and_hash())?;
        folder.write_index(None)?;
        if !stopped {
            check_height(&folder, &engine, height_before)?;
            folder.with_room(|| folder.coins.settle())?;
        }
        (report(&folder, &engine, height_start, stopped), stopped)
    };
    if !stopped {
        folder.with_room(|| folder.index_db.settle())?;
        let Folder { coins, teller, _locks, .. } = folder;
        drop(coins);
        teller.with_room(stop, || chainstate::swap_rebuilt(&*disk, &layout))?;
        drop(old_lock);
        return Ok(Report { seconds: teller.seconds(), ..done });
    }
    Ok(done)
}

/// Says no to coins that stand lower than the old ones, unless that was asked for, or a block proved to be invalid.
fn check_height(folder: &Folder<'_>, engine: &Engine<'_>, height_before: Height) -> Result<(), Fault> {
    let (height, best) = folder.height_and_hash(engine.tip());
    let wanted = height_before.min(folder.options.stop_at_height.unwrap_or(Height::MAX));
    if height >= wanted || folder.teller.invalid.load(Relaxed) > 0 {
        return Ok(());
    }
    let wanted = format!("blocks up to height {wanted}, where the coins stand");
    let found = format!("a chain that ends at height {height} (block {best})");
    let advice = "The index lacks blocks that were connected: run ffwd reindex. The coins stay as they were";
    Err(store::Fault::new(store::FaultKind::Refused, &folder.layout.index_dir(), wanted, found, advice).into())
}
