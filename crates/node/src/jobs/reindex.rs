//! `reindex`: index, undo data and coins from the block files that are there.
//!
//! Headers of all files first, then each block of the best chain once, in chain order; blocks beside it last.
//! The flag `R` stands in the index from before anything is removed until every block of the files is listed.

use super::reindex_preflight::Before;
use super::{activate, engine, report};
use crate::datadir::Folder;
use crate::datadir::open;
use crate::datadir::prune;
use crate::engine::Activated;
use crate::fault::Fault;
use crate::options::{Events, Options, Report};
use crate::tree::NodeId;
use primitives::Height;
use std::sync::atomic::Ordering::Relaxed;
use store::FileInfos;
use store::blockfiles::BlockAt;
use store::chainstate::Chainstate;
use store::index::BlockIndex;

pub(super) fn run(options: &Options, events: Events<'_>) -> Result<Report, Fault> {
    let now = open::clock(options)?;
    let locked = open::lock(options, events, true)?;
    let (disk, layout, stop) = (locked.disk.clone(), locked.layout.clone(), &options.stop);
    let teller = open::teller(events, options, &layout, "reindex");
    let before = Before::look(&locked, options, &teller)?;
    prune::check(options, &*disk, &layout)?.into_iter().for_each(|warning| teller.warn(warning));
    let scan = match &before.loaded {
        // Only a run of this command that was stopped leaves both: its gaps are known.
        Some(loaded) if loaded.is_pruned => {
            teller.with_room(stop, || prune::finish_removal(&*disk, &layout, loaded))?;
            open::scan_files(&locked.files, &locked.files.numbers()?.there, options.par, &teller)?
        }
        _ => open::scan(&locked.files, options.par, &teller)?,
    };
    let places: Vec<BlockAt> = scan.blocks.iter().map(|block| block.at).collect();

    let (index, infos) = if before.resumes {
        let loaded = before.loaded.as_ref().expect("a resumed index was loaded");
        let index = teller.with_room(stop, || BlockIndex::open(disk.clone(), &layout))?;
        (index, undo_only(&loaded.files))
    } else {
        before.compare(options, &scan.blocks, now, &locked)?;
        let headers = before.bare_headers(&scan.blocks, &locked)?;
        let begun = teller.with_room(stop, || store::reindex::begin(&disk, &layout, &headers))?;
        if begun.was_damaged {
            teller.warn("The old block index was damaged and gave way to a new one");
        }
        if begun.removed_snapshot {
            teller.note("A chainstate from a snapshot was removed: it is built anew from the blocks");
        }
        (begun.index, FileInfos::default())
    };
    let coins = teller.with_room(stop, || Chainstate::open(disk.clone(), &layout.chainstate_dir()))?;
    let folder = Folder::assemble(options, teller, locked, index, coins, infos);
    if let Some(loaded) = before.loaded.as_ref().filter(|_| before.resumes) {
        folder.keep_pruned(loaded);
    }
    folder.take_in(scan.blocks, now);
    if let Some(loaded) = &before.loaded {
        folder.keep_headers(&loaded.entries);
        if before.resumes {
            folder.keep_work(loaded)?;
        }
    }
    folder.keep_bare_headers(now)?;
    folder.take_in_orphans(now);
    folder.count_files(&places);
    folder.write_genesis()?;
    folder.mark_genesis();
    work(&folder, &before)
}

/// Connects, checks what lies beside, and ends the reindex.
fn work(folder: &Folder<'_>, before: &Before) -> Result<Report, Fault> {
    let best = before.best.filter(|_| before.resumes);
    let start = open::start_of(&folder.headers(), best).ok_or_else(|| {
        Fault::refused("the coins stand at a block that is not in the block files: the files are not those that this reindex began with; start it anew by removing the folder chainstate")
    })?;
    folder.check_connected(start)?;
    let height_start = folder.headers().height(start);
    if height_start > Height::GENESIS {
        folder.teller.note(format!("Going on from height {height_start}, where an earlier run was stopped"));
    }
    folder.set_active(start);
    let mut engine = engine(folder, start);
    let mut stopped = false;
    let mut found_count = None;
    // Inside a damaged body of a stale block others may be found: they may make a better chain.
    while !stopped && found_count != Some(folder.index.read().found_count()) {
        stopped = activate(folder, &mut engine)? == Activated::Stopped;
        found_count = Some(folder.index.read().found_count());
        if !stopped {
            stopped = engine.check_stale_blocks()?;
        }
    }
    engine.pipeline.flush(engine.tip_and_hash())?;
    if !stopped {
        folder.write_index(Some(false))?;
        folder.with_room(|| store::reindex::forget(&folder.disk, &folder.layout))?;
        folder.with_room(|| folder.coins.settle())?;
        folder.with_room(|| folder.index_db.settle())?;
    }
    if folder.teller.blocks.load(Relaxed) == 0 && height_start == Height::GENESIS {
        folder.teller.warn("No block of the files could be connected: are they this network's?");
    } else if !stopped {
        say_what_is_missing(folder, engine.tip());
    }
    Ok(report(folder, &engine, height_start, stopped))
}

/// A better chain is known by its headers alone: blocks of it are missing in the files, or damaged.
fn say_what_is_missing(folder: &Folder<'_>, tip: NodeId) {
    let (height, end) = {
        let tree = folder.headers();
        let is_better = tree.work(tree.best()) > tree.work(tip);
        (tree.height(tip), is_better.then(|| tree.height(tree.best())))
    };
    let stop = folder.options.stop_at_height.unwrap_or(Height::MAX);
    if let Some(end) = end.filter(|_| height < stop) {
        folder.teller.warn(format!(
            "The block files give a chain up to height {height}, the headers go on to height {end}: ffwd sync fetches the blocks \
             that are missing"
        ));
    }
}

/// Undo files go on where the index says that they end; blocks are counted anew.
fn undo_only(files: &[store::FileInfo]) -> FileInfos {
    let mut infos = FileInfos::default();
    for (number, info) in files.iter().enumerate() {
        infos.change(number as u32).undo_size = info.undo_size;
    }
    infos
}
