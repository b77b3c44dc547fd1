//! `reindex`: index, undo data and coins from the block files that are there.
//!
//! Headers of all files first, then each block of the best chain once, in chain order; blocks beside it last.
//! The flag `R` stands in the index from before anything is removed until every block of the files is listed.

use super::{activate, engine, report};
use crate::engine::Activated;
use crate::fault::Fault;
use crate::folder::Folder;
use crate::folder::open::{self, Locked};
use crate::folder::prune;
use crate::options::{Events, Options, Prune, Report};
use crate::tree::{NodeId, Tree};
use primitives::Hash256;
use std::sync::atomic::Ordering::Relaxed;
use store::FileInfos;
use store::blockfiles::BlockAt;
use store::chainstate::Chainstate;
use store::index::{BlockIndex, LoadedIndex};

/// What lay in the folder before.
struct Before {
    loaded: Option<LoadedIndex>,
    /// The block that the coins stand at.
    best: Option<Hash256>,
    /// The flag `R` is set, and the coins are those of the run that set it.
    resumes: bool,
}

pub(super) fn run(options: &Options, events: Events<'_>) -> Result<Report, Fault> {
    let now = open::clock(options)?;
    let locked = open::lock(options, true)?;
    let teller = open::teller(events, &locked.layout, "reindex");
    let before = look(&locked, options)?;
    prune::check(options, &*locked.disk, &locked.layout)?.into_iter().for_each(|warning| teller.warn(warning));
    let scan = match &before.loaded {
        // Only a run of this command that was stopped leaves both: its gaps are known.
        Some(loaded) if loaded.is_pruned => {
            prune::finish_removal(&*locked.disk, &locked.layout, loaded)?;
            open::scan_files(&locked.files, &locked.files.numbers()?.there, options.par, &teller)?
        }
        _ => open::scan(&locked.files, options.par, &teller)?,
    };
    let places: Vec<BlockAt> = scan.blocks.iter().map(|block| block.at).collect();

    let (index, infos) = if before.resumes {
        let loaded = before.loaded.as_ref().expect("a resumed index was loaded");
        (BlockIndex::open(locked.disk.clone(), &locked.layout)?, undo_only(&loaded.files))
    } else {
        compare(options, &before, &scan.blocks, now, &locked)?;
        let begun = store::reindex::begin(&locked.disk, &locked.layout)?;
        if begun.was_damaged {
            teller.warn("The old block index was damaged and gave way to a new one");
        }
        if begun.removed_snapshot {
            teller.note("A chainstate from a snapshot was removed: it is built anew from the blocks");
        }
        (begun.index, FileInfos::default())
    };
    let coins = Chainstate::open(locked.disk.clone(), &locked.layout.chainstate_dir())?;
    let folder = Folder::assemble(options, teller, locked, index, coins, infos);
    let mut links = crate::candidates::Links::new();
    if let Some(loaded) = before.loaded.as_ref().filter(|_| before.resumes) {
        folder.keep_pruned(loaded);
    }
    folder.take_in(scan.blocks, &mut links, now)?;
    if let Some(loaded) = &before.loaded {
        folder.keep_headers(&loaded.entries);
        if before.resumes {
            folder.keep_work(loaded);
        }
    }
    folder.count_files(&places);
    folder.write_genesis()?;
    folder.mark_genesis();
    work(&folder, links, &before)
}

/// Connects, checks what lies beside, and ends the reindex.
fn work(folder: &Folder<'_>, mut links: crate::candidates::Links, before: &Before) -> Result<Report, Fault> {
    let best = before.best.filter(|_| before.resumes);
    let start = open::start_of(&folder.tree(), best).ok_or_else(|| {
        Fault::refused("the coins stand at a block that is not in the block files: the files are not those that this reindex began with; start it anew by removing the folder chainstate")
    })?;
    let height_start = folder.tree().height(start);
    if height_start > 0 {
        folder.teller.note(format!("Going on from height {height_start}, where an earlier run was stopped"));
    }
    folder.set_active(start);
    folder.link_connected(&mut links, start);
    let mut engine = engine(folder, start);
    engine.links = links;
    let mut stopped = false;
    let mut bodies = usize::MAX;
    // Where a body beside the chain is none, others may be found inside it: they may make a better chain.
    while !stopped && bodies != engine.links.in_order().count() {
        stopped = activate(folder, &mut engine)? == Activated::Stopped;
        bodies = engine.links.in_order().count();
        if !stopped {
            stopped = engine.check_beside(&mut |id, transactions| {
                let mut tree = folder.tree_mut();
                let body = tree.body_mut(id);
                (body.level, body.transactions) = (3, transactions as u32);
            })?;
        }
    }
    engine.pipeline.flush(engine.tip_and_hash())?;
    if !stopped {
        folder.write_index(Some(false))?;
        folder.coins.settle()?;
        folder.index.settle()?;
    }
    if folder.teller.blocks.load(Relaxed) == 0 && height_start == 0 {
        folder.teller.warn("No block of the files could be connected: are they this network's?");
    }
    Ok(report(folder, &engine, height_start, stopped))
}

fn look(locked: &Locked, options: &Options) -> Result<Before, Fault> {
    let Locked { disk, layout, .. } = locked;
    store::reindex::finish_index_swap(&**disk, layout)?;
    store::chainstate::finish_swap(&**disk, layout)?;
    let mut before = Before { loaded: None, best: None, resumes: false };
    if !BlockIndex::exists(&**disk, layout)? {
        return Ok(before);
    }
    // A damaged index is what reindex is for; only another network's is a reason to stop.
    let loaded = BlockIndex::open(disk.clone(), layout).and_then(|index| index.load(&open::network(&options.params)));
    match loaded {
        Ok(loaded) => before.loaded = Some(loaded),
        Err(why) if why.kind() == store::FaultKind::Damaged => return Ok(before),
        Err(why) => return Err(why.into()),
    }
    let loaded = before.loaded.as_ref().expect("just loaded");
    let dir = layout.chainstate_dir();
    if Chainstate::exists(&**disk, &dir)?
        && let Ok(coins) = Chainstate::open(disk.clone(), &dir)
    {
        before.best = coins.best_block().unwrap_or(None);
        // Stopped between the first steps: they are done again.
        before.resumes = loaded.is_reindexing && !store::reindex::is_beginning(&**disk, layout)?;
    }
    if before.resumes && options.prune == Prune::Off {
        store::index::check_not_pruned(loaded, layout)?;
    }
    if loaded.is_pruned && !before.resumes {
        let advice = "A reindex needs every block from the first on. Go on from what is there with ffwd sync --prune or \
                      bitcoind -prune; to have all coins built anew, fetch the blocks again: ffwd sync --prune in an \
                      empty folder";
        let (wanted, found) = ("all block files", "a pruned folder");
        let dir = layout.blocks_dir();
        return Err(store::Fault::new(store::FaultKind::Refused, dir, wanted, found, advice).into());
    }
    Ok(before)
}

/// Undo files go on where the index says that they end; blocks are counted anew.
fn undo_only(files: &[store::FileInfo]) -> FileInfos {
    let mut infos = FileInfos::default();
    for (number, info) in files.iter().enumerate() {
        infos.change(number as u32).undo_size = info.undo_size;
    }
    infos
}

/// Says no where the block files reach less far than the coins that are there.
fn compare(
    options: &Options,
    before: &Before,
    found: &[store::blockfiles::FoundBlock],
    now: i64,
    locked: &Locked,
) -> Result<(), Fault> {
    let (Some(loaded), Some(best)) = (&before.loaded, before.best) else { return Ok(()) };
    if loaded.is_reindexing {
        return Ok(());
    }
    let Some(entry) = loaded.entries.iter().find(|entry| entry.hash == best) else { return Ok(()) };
    let (reached, is_ahead) = reach(options, found, now);
    let stop = options.stop_at_height.unwrap_or(u32::MAX);
    if reached < entry.height.min(stop) && is_ahead {
        return Err(Fault::refused(format!(
            "by this machine's clock, {}, the blocks behind height {reached} are more than two hours in the future, and the coins stand at height {}: set the clock, then run this again. Nothing was changed",
            crate::log::date(now.unsigned_abs()),
            entry.height
        )));
    }
    if reached < entry.height.min(stop) {
        let wanted = format!("block files up to height {}, where the coins stand", entry.height);
        let advice = "A block file is missing or damaged: put it back, or let ffwd sync or bitcoind fetch the blocks again. Nothing was changed";
        let found = format!("blocks up to height {reached}");
        let fault = store::Fault::new(store::FaultKind::Refused, locked.layout.blocks_dir(), wanted, found, advice);
        return Err(fault.into());
    }
    Ok(())
}

/// Height of the best complete chain of the files, by headers; and whether any header is ahead of the clock.
fn reach(options: &Options, found: &[store::blockfiles::FoundBlock], now: i64) -> (u32, bool) {
    let mut tree: Tree = crate::headers::genesis_tree(&options.params);
    let mut rest: Vec<&store::blockfiles::FoundBlock> = found.iter().collect();
    let mut best: NodeId = crate::tree::GENESIS;
    let mut is_ahead = false;
    // Blocks lie in the order of the chain but for a window, so few passes do.
    loop {
        let before = rest.len();
        rest.retain(|block| match crate::headers::accept(&mut tree, &options.params, &block.header, block.hash, now) {
            Ok(id) => {
                if tree.work(id) > tree.work(best) {
                    best = id;
                }
                false
            }
            Err(error) => {
                is_ahead |= error.class() == consensus::Class::TimeFuture;
                error.class() == consensus::Class::MissingPrev
            }
        });
        if rest.len() == before {
            return (tree.height(best), is_ahead);
        }
    }
}
