//! Opens a data directory to continue it: loads index and coins, and completes an interrupted write of Core or ffwd.

use super::replay::replay;
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::lock::{self, Locked};
use crate::datadir::{Assumed, DataDir, Origin, prune};
use crate::fault::Fault;
use crate::options::{Options, Prune};
use crate::reporting::{Event, Events};
use consensus::header::MAX_FUTURE_BLOCK_TIME_S;
use primitives::{BlockHash, Height};
use std::path::Path;
use store::chainstate::{self, Chainstate};
use store::index::{self, BlockTreeDb, LoadedIndex};
use store::{FaultKind, FileInfos, IndexEntry, Status};

/// An open data directory, and its coins' best block.
pub(crate) struct Existing<'e> {
    pub(crate) datadir: DataDir<'e>,
    pub(crate) tip: NodeId,
}

/// Why a data directory is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To add blocks, and to prune files if configured.
    Work,
    /// Like [`Purpose::Work`], and if the directory was pruned, to download the pruned blocks again.
    Archival,
    /// To read the directory, pruned or not.
    Look,
}

impl Purpose {
    fn works(self) -> bool {
        self != Purpose::Look
    }
}

/// Which of two chainstates to open, while a snapshot is not validated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// The one from the snapshot.
    Active,
    /// The one that is being built up to the snapshot's base block.
    Past,
}

/// Opens or creates a data directory. The caller must finish an unfinished reindex first.
pub(crate) fn open_existing<'e>(
    options: &'e Options,
    events: Events<'e>,
    job: &str,
    purpose: Purpose,
    which: Which,
) -> Result<Existing<'e>, Fault> {
    if purpose == Purpose::Look && lock::is_unused(options)? {
        return Err(nothing_to_look_at(&lock::layout(options).index_dir(), "a block index", "none"));
    }
    let locked = lock::lock(options, events, false)?;
    let disk = locked.disk.clone();
    let host = locked.host.clone();
    let layout = locked.layout.clone();
    let reporter = lock::reporter(events, options, job);
    if purpose.works() {
        reporter.with_room(|| chainstate::finish_snapshot(&disk, &layout))?;
    }
    let false_base = if purpose.works() { chainstate::invalid_base(&*disk, &layout)? } else { None };
    let base = chainstate::snapshot_base(&*disk, &layout)?;
    reporter.with_room(|| chainstate::finish_swap(&disk, &layout))?;
    reporter.with_room(|| store::reindex::finish_index_swap(&disk, &layout))?;
    check_there(&locked, purpose, options.params.genesis_hash)?;
    let block_index = reporter.with_room(|| BlockTreeDb::open(&host, &layout))?;
    let loaded = block_index.load(&lock::network(&options.params))?;
    if purpose.works() {
        if !loaded.is_reindexing {
            reporter.with_room(|| store::reindex::forget(&disk, &layout))?;
        }
        if options.prune == Prune::Off && purpose != Purpose::Archival {
            index::check_not_pruned(&loaded, &layout)?;
        }
        prune::check(options, &*disk, &layout)?.into_iter().for_each(|warning| reporter.warn(warning));
        prune::finish_removal(&*disk, &layout, &loaded, &reporter)?;
    }
    index::check_files_exist(&loaded, &locked.files.numbers()?, &layout)?;
    let is_past = base.is_some() && which == Which::Past;
    let dir = if base.is_some() && !is_past { layout.snapshot_dir() } else { layout.chainstate_dir() };
    let coins = reporter.with_room(|| Chainstate::open(&host, &dir))?;
    let best = coins.best_block()?;
    let heads = coins.head_blocks()?;
    let mut datadir =
        DataDir::new(options, reporter, locked, block_index, coins, FileInfos::new(loaded.files.clone()))?;
    datadir.writer.set_pruned(loaded.is_pruned);
    let lost = datadir.load_index(&loaded)?;
    check_lost(&datadir, purpose, &lost, &[best, base, heads.map(|it| it.new), heads.and_then(|it| it.old)])?;
    base.map_or(Ok(()), |base| assume(&mut datadir, base, is_past))?;
    if purpose == Purpose::Look && loaded.entries.is_empty() {
        return Err(nothing_to_look_at(&datadir.layout.index_dir(), "a block index", "an empty one"));
    }
    let tip = match heads {
        Some(heads) => replay(&datadir, heads)?,
        None => datadir.stand(best)?,
    };
    datadir.set_active(tip);
    datadir.refused.load(&datadir.index);
    if purpose.works() {
        // What follows writes, so it is done only when it is known that the data directory can be continued.
        false_base.map_or(Ok(()), |base| finish_refusal(&datadir, base))?;
        take_in(&datadir, purpose, &lost)?;
        datadir.store_genesis()?;
        check_tip_time(&datadir, tip)?;
        if base.is_none() {
            check_witnesses(&datadir, &loaded)?;
        }
        datadir.prune(tip)?;
        say_earlier_state(&datadir, tip, which);
    }
    Ok(Existing { datadir, tip })
}

/// Refuses lost blocks: for work those that `needed` build on, because it downloads the others again; else all.
fn check_lost(
    datadir: &DataDir<'_>,
    purpose: Purpose,
    lost: &[NodeId],
    needed: &[Option<BlockHash>],
) -> Result<(), Fault> {
    if purpose.works() { datadir.check_none_needed(lost, needed) } else { datadir.check_none_lost(lost) }
}

/// Goes on with a snapshot that proved invalid, where an earlier run ended between its last steps: the index forgets
/// what was connected on its coins, then they are moved away.
fn finish_refusal(datadir: &DataDir<'_>, base: BlockHash) -> Result<(), Fault> {
    let base = datadir.headers().find(&base);
    if let Some(base) = base {
        datadir.index.write().distrust(base);
        datadir.write_index(None)?;
    }
    datadir.with_room(|| chainstate::invalid_snapshot(&*datadir.disk, &datadir.layout))?;
    datadir.reporter.note("The snapshot proved false in an earlier run: nothing that was built on it counts");
    Ok(())
}

/// Makes the index agree with the block files.
fn take_in(datadir: &DataDir<'_>, purpose: Purpose, lost: &[NodeId]) -> Result<(), Fault> {
    datadir.forget_lost(lost);
    if purpose == Purpose::Archival {
        datadir.index.write().want_pruned();
    }
    datadir.take_in_unindexed(lock::clock(datadir.options)?)
}

/// The state that an earlier run left is reported once, only for the active chain.
fn say_earlier_state(datadir: &DataDir<'_>, tip: NodeId, which: Which) {
    if which == Which::Active {
        datadir.say_earlier_state(tip);
    }
}

/// Refuses a connected block that was stored without its witnesses although its height requires them: by a program
/// without segwit, or on a test network whose activation height was changed. Source: Bitcoin Core b88bffe,
/// `Chainstate::NeedsRedownload`.
fn check_witnesses(datadir: &DataDir<'_>, loaded: &LoadedIndex) -> Result<(), Fault> {
    let from = datadir.params.segwit_height;
    let index = datadir.index.read();
    let lacks = |entry: &&IndexEntry| {
        let active = || index.active().get(entry.height.to_usize()).map(|&id| index.headers().hash(id));
        entry.height >= from
            && entry.height > Height::GENESIS
            && !entry.status.has(Status::OPT_WITNESS)
            && active() == Some(entry.hash)
    };
    loaded.entries.iter().find(lacks).map_or(Ok(()), |entry| {
        datadir.reporter.log().line(&format!("Block {} at height {} has no witnesses", entry.hash, entry.height));
        let why = "requires validation. Please restart with -reindex.";
        Err(Fault::Rebuild(format!("Witness data for blocks after height {from} {why}")))
    })
}

/// Refuses a tip that is further ahead of the clock than a block may be: the clock is wrong. Source: Bitcoin Core
/// b88bffe, `VerifyLoadedChainstate`.
fn check_tip_time(datadir: &DataDir<'_>, tip: NodeId) -> Result<(), Fault> {
    let time = i64::from(datadir.headers().time(tip));
    // The genesis block's time is not checked.
    if tip == GENESIS || time <= lock::clock(datadir.options)?.saturating_add(MAX_FUTURE_BLOCK_TIME_S) {
        return Ok(());
    }
    let why = "The block database contains a block which appears to be from the future. This may be due to your computer's date \
               and time being set incorrectly. Only rebuild the block database if you are sure that your computer's date and \
               time are correct";
    Err(Fault::Rebuild(why.to_owned()))
}

/// Treats the blocks up to the base of a snapshot that is not validated as connected.
pub(super) fn assume(datadir: &mut DataDir<'_>, base: BlockHash, is_past: bool) -> Result<(), Fault> {
    let base = datadir.headers().find(&base).ok_or_else(|| super::apart(base))?;
    datadir.assumed = Some(Assumed { base, is_past, origin: Origin::Snapshot });
    let mut index = datadir.index.write();
    index.assume(base);
    index.reopen_above(base);
    Ok(())
}

/// Refuses a directory without anything to read, and one with coins but no index that has their block. Checked before
/// anything is created.
pub(super) fn check_there(locked: &Locked, purpose: Purpose, genesis: BlockHash) -> Result<(), Fault> {
    let Locked { disk, layout, host, .. } = locked;
    let has_index = BlockTreeDb::exists(&**disk, layout)?;
    if purpose == Purpose::Look && !has_index {
        return Err(nothing_to_look_at(&layout.index_dir(), "a block index", "none"));
    }
    let dir = layout.chainstate_dir();
    if !Chainstate::exists(&**disk, &dir)? {
        return match purpose {
            Purpose::Work | Purpose::Archival => Ok(()),
            Purpose::Look => Err(nothing_to_look_at(&dir, "a chainstate", "none")),
        };
    }
    if !has_index {
        let coins = Chainstate::open_read_only(host, &dir)?;
        let best = coins.best_block()?.or(coins.head_blocks()?.map(|heads| heads.new));
        return best.filter(|best| *best != genesis).map_or(Ok(()), |best| Err(super::apart(best)));
    }
    Ok(())
}

pub(super) fn nothing_to_look_at(dir: &Path, wanted: &str, found: &str) -> Fault {
    let advice = "Run ffwd repair where block files are, or ffwd sync";
    store::Fault::new(FaultKind::Missing, dir, wanted, found, advice).into()
}

/// Finishes an interrupted reindex of this data directory. Also indexes block files that no index lists: the user
/// copied only the files, or the run that stored them ended before its first commit.
pub(crate) fn finish_reindex(options: &Options, events: Events<'_>) -> Result<(), Fault> {
    if must_reindex(options, events)? {
        let why = "An earlier reindex was not finished, or block files lie here that no index lists: they are indexed first, then the \
                   work goes on";
        events(Event::Note(why.to_owned()));
        super::reindex(options, false, events)?;
    }
    Ok(())
}

fn must_reindex(options: &Options, events: Events<'_>) -> Result<bool, Fault> {
    let locked = lock::lock(options, events, false)?;
    let disk = &locked.disk;
    let layout = &locked.layout;
    if BlockTreeDb::exists(&**disk, layout)? {
        let index = BlockTreeDb::open_read_only(&locked.host, layout)?;
        if index.is_reindexing()? || !index.is_empty()? {
            return Ok(index.is_reindexing()?);
        }
    }
    // Coins without an index are not removed silently: opening the data directory reports what to do.
    if Chainstate::has_block(&locked.host, &layout.chainstate_dir())? {
        return Ok(false);
    }
    for file in locked.files.numbers()?.there {
        if locked.files.scan(file)?.blocks.iter().any(|block| block.hash != options.params.genesis_hash) {
            return Ok(true);
        }
    }
    Ok(false)
}
