//! `reindex`: index, undo data and coins from the stored block files.
//!
//! It reads the headers of all files first, then each block of the best chain once, in chain order, and blocks of other
//! chains last. The flag `R` is in the index from before anything is removed until every block of the files is listed.

use super::reindex_preflight::{Before, Pruned};
use super::{activate, engine_for_set, flush, report};
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::DataDir;
use crate::datadir::{lock, prune, scan, start_of};
use crate::fault::{Ended, Fault, Message};
use crate::options::Options;
use crate::pipeline::engine::Activated;
use crate::reporting::{Events, JobReport, Reporter};
use disk::Disk;
use primitives::{BlockHash, Height};
use std::sync::Arc;
use store::chainstate::{self, Chainstate};
use store::index::BlockTreeDb;
use store::indexes::IndexDb;
use store::{FileInfos, Layout};

const REMOVED_SNAPSHOT: &str = "A chainstate from a snapshot was removed: rebuilding it from the blocks";

pub(super) fn run(options: &Options, pruned: Pruned, events: Events<'_>) -> Result<JobReport, Fault> {
    let now = lock::clock(options)?;
    let locked = lock::lock(options, events, true)?;
    let disk = locked.disk.clone();
    let host = locked.host.clone();
    let layout = locked.layout.clone();
    let reporter = lock::reporter(events, options, "reindex");
    let before = Before::look(&locked, options, pruned, &reporter)?;
    prune::check(options, &*disk, &layout)?.into_iter().for_each(|warning| reporter.warn(warning));
    let scan = match &before.loaded {
        // Only an interrupted run of this command leaves both, so its gaps are expected.
        Some(loaded) if loaded.is_pruned => {
            prune::finish_removal(&*disk, &layout, loaded, &reporter)?;
            scan::scan_files(&locked.files, &locked.files.numbers()?.there, options.par, &reporter)?
        }
        _ => scan::scan(&locked.files, options.par, &reporter)?,
    };
    if let (true, Some(note)) = (scan.blocks.is_empty(), &scan.first_note) {
        return Err(Fault::Refused(scan::why_unreadable(&options.params, note)));
    }

    let mut base = None;
    let (index, infos) = if before.resumes {
        let loaded = before.loaded.as_ref().expect("a resumed index was loaded");
        let index = reporter.with_room(|| BlockTreeDb::open(&host, &layout))?;
        base = remove_later_snapshot(&disk, &layout, &reporter)?;
        (index, undo_only(&loaded.files))
    } else {
        before.compare(options, &scan.blocks, now, &locked)?;
        let headers = before.bare_headers(&scan.blocks, &locked)?;
        if reporter.is_stopping() {
            return Err(Fault::Stopped);
        }
        // Optional indexes are built again with the blocks, as in Core. They are removed first: if the run is
        // interrupted, an old one next to a rebuilt block index could be mistaken for this run's.
        for &kind in &options.indexes {
            reporter.with_room(|| IndexDb::remove(&*disk, &layout, kind))?;
        }
        let begun = reporter.with_room(|| store::reindex::begin(&host, &layout, &headers))?;
        if begun.was_damaged {
            reporter.warn(Message::new("The old block index was damaged and is replaced", "No action is needed"));
        }
        if begun.removed_snapshot {
            reporter.note(REMOVED_SNAPSHOT);
        }
        (begun.index, FileInfos::default())
    };
    let coins = reporter.with_room(|| Chainstate::open(&host, &layout.chainstate_dir()))?;
    let datadir = DataDir::new(options, reporter, locked, index, coins, infos)?;
    if let Some(loaded) = before.loaded.as_ref().filter(|_| before.resumes) {
        datadir.keep_pruned(loaded);
    }
    datadir.take_in(scan.blocks, now);
    if let Some(loaded) = &before.loaded {
        datadir.keep_headers(&loaded.entries);
        if before.resumes {
            datadir.keep_work(loaded)?;
            let base = base.and_then(|base| datadir.headers().find(&base));
            base.into_iter().for_each(|base| datadir.index.write().distrust(base));
        }
    }
    datadir.keep_bare_headers(now)?;
    datadir.take_in_orphans(now);
    datadir.writer.count_files(&scan.ends);
    datadir.write_genesis()?;
    datadir.mark_genesis();
    work(&datadir, &before)
}

/// Removes a snapshot that was loaded after the interrupted run began, which removed one itself: the coins are not those
/// of its past. Returns its base.
fn remove_later_snapshot(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    reporter: &Reporter<'_>,
) -> Result<Option<BlockHash>, Fault> {
    let base = chainstate::named_base(&**disk, layout).ok().flatten();
    if reporter.with_room(|| chainstate::remove_snapshot(&**disk, layout))? {
        reporter.note(REMOVED_SNAPSHOT);
    }
    Ok(base)
}

/// Connects the best chain, checks blocks of other chains, and ends the reindex.
fn work(datadir: &DataDir<'_>, before: &Before) -> Result<JobReport, Fault> {
    let best = before.best.filter(|_| before.resumes);
    let start = start_of(&datadir.headers(), best).ok_or_else(|| {
        let why = "the chainstate's best block is not in the block files: the files are not those that this reindex began with";
        Fault::refused(why, "Put the block files back, or begin again by removing the directory chainstate")
    })?;
    datadir.check_connected(start)?;
    let height_start = datadir.headers().height(start);
    if height_start > Height::GENESIS {
        datadir.reporter.note(format!("Going on from height {height_start}, where an earlier run was stopped"));
    }
    datadir.set_active(start);
    if before.resumes {
        remove_older_indexes(datadir, start)?;
    }
    datadir.open_indexes(&datadir.options.indexes, start)?;
    let mut engine = engine_for_set(datadir, start, before.coins);
    let mut stopped = false;
    let mut found_count = None;
    // A damaged body of a stale block may contain other blocks, which may make a better chain.
    while !stopped && found_count != Some(datadir.index.read().found_count()) {
        stopped = activate(datadir, &mut engine)? == Activated::Stopped;
        found_count = Some(datadir.index.read().found_count());
        if !stopped {
            stopped = engine.check_stale_blocks()? == Ended::Stopped;
        }
    }
    flush(datadir, &engine)?;
    if !stopped {
        datadir.writer.recount_files();
        datadir.write_index(Some(false))?;
        datadir.with_room(|| store::reindex::forget(&datadir.disk, &datadir.layout))?;
        datadir.reporter.log().line("Reindexing finished");
        datadir.with_room(|| datadir.coins.settle())?;
        datadir.with_room(|| datadir.writer.settle())?;
        datadir.finish_indexes(engine.tip())?;
    }
    if engine.tip() == GENESIS && height_start == Height::GENESIS {
        let why = "No block of the files could be connected: are they this network's?";
        datadir.reporter.warn(Message::new(
            why,
            "Name the network with --chain, or the right directory with --datadir or --blocksdir",
        ));
    } else if !stopped {
        say_what_is_missing(datadir, engine.tip());
    }
    Ok(report(datadir, engine.tip(), height_start, engine.pipeline.stats().snapshot(), stopped))
}

/// Removes optional indexes that the interrupted run did not build, because it had no option for them, and that cannot be
/// rewound to its chain: that run wrote no undo data of their last blocks.
fn remove_older_indexes(datadir: &DataDir<'_>, start: NodeId) -> Result<(), Fault> {
    for &kind in &datadir.options.indexes {
        let best =
            IndexDb::open_read_only(&datadir.host, &datadir.layout, kind)?.map(|db| db.best_block()).transpose()?;
        let Some(best) = best.flatten() else { continue };
        let can_rewind = {
            let index = datadir.index.read();
            let node = index.headers().find(&best);
            node.is_some_and(|node| index.first_unconnected(node, start).is_none())
        };
        if !can_rewind {
            datadir.reporter.note(format!("{} is older than this reindex, and is built again", kind.name()));
            datadir.with_room(|| IndexDb::remove(&*datadir.disk, &datadir.layout, kind))?;
        }
    }
    Ok(())
}

/// Reports a better chain of which only headers are known: blocks of it are missing in the files, or damaged.
fn say_what_is_missing(datadir: &DataDir<'_>, tip: NodeId) {
    let (height, end) = {
        let tree = datadir.headers();
        let is_better = tree.work(tree.best()) > tree.work(tip);
        (tree.height(tip), is_better.then(|| tree.height(tree.best())))
    };
    let stop = datadir.options.stop_at_height.unwrap_or(Height::MAX);
    if let Some(end) = end.filter(|_| height < stop) {
        let why = format!("The block files give a chain up to height {height}, the headers continue to height {end}");
        datadir.reporter.warn(Message::new(why, "ffwd sync fetches the blocks that are missing"));
    }
}

/// File infos in which undo files end as in the index; blocks are counted again.
fn undo_only(files: &[store::FileInfo]) -> FileInfos {
    let mut infos = FileInfos::default();
    for (number, info) in files.iter().enumerate() {
        infos.change(number as u32, |kept| kept.undo_size = info.undo_size);
    }
    infos
}
