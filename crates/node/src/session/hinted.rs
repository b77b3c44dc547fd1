//! The first part of a sync with hints (SwiftSync). Blocks up to the hinted height arrive in any order, are checked
//! without their context, and are not stored. The UTXO set at that height consists of the outputs that the hints call
//! unspent.
//!
//! The set is built in `ffwd/chainstate_hints`. If the sums agree at the end, the index marks these blocks as connected
//! and pruned, and the two chainstates are swapped in one step. Until then the data directory counts as one without
//! blocks. An ordinary sync connects the blocks above, at least [`BLOCKS_ABOVE_MIN`]. So no reorganization reaches
//! below the height, and bitcoind finds all blocks and undo data that it expects in a pruned data directory.
//!
//! Not checked below the height: amounts, maturity, relative locks, signature operations in spent scripts, that a coin
//! is created before it is spent, and BIP-0030. Scripts are not run either, as for any block that is assumed valid.
//! Source: BIP 455 to 457; for pruned blocks in the index Bitcoin Core b88bffe, `BlockManager::PruneOneBlockFile`.

use crate::chain::block::Checked;
use crate::chain::headers::{AssumeValid, ChainContext};
use crate::chain::tree::{Fate, GENESIS, NodeId};
use crate::datadir::{DataDir, lock};
use crate::fault::Fault;
use crate::options::{Options, Prune};
use crate::reporting::Reporter;
use crate::reporting::{Event, Events};
use crate::snapshot::hints::checkpoint::Checkpoint;
use crate::snapshot::hints::file::HintsFile;
use crate::snapshot::hints::run::{CheckedBlock, HintedRun, Setup};
use disk::Disk;
use primitives::Height;
use std::path::Path;
use std::sync::Arc;
use store::Layout;
use store::chainstate::{self, Chainstate};
use store::index::BlockTreeDb;
use store::private_files::PrivateDir;
use store::prune::BLOCKS_KEPT_MIN;

/// Minimum number of blocks above the hinted height: as many as a pruned data directory keeps.
pub(super) const BLOCKS_ABOVE_MIN: u32 = BLOCKS_KEPT_MIN;
/// Divisor: one part in this many of the budget is for coins that wait to be written as a run.
const BUDGET_SHARE: usize = 4;
/// Index entries per commit.
const ENTRIES_PER_COMMIT: usize = 16_384;

/// Opens a hints file if it can be used, as far as can be decided before headers are known. Otherwise removes the
/// results of an earlier run with hints.
///
/// # Errors
///
/// The file is not a hints file, blocks are to be kept, or an I/O error.
pub(super) fn prepare(options: &Options, path: &Path, events: Events<'_>) -> Result<Option<HintsFile>, Fault> {
    if options.prune == Prune::Off {
        return Err(Fault::refused("hints are used where blocks are pruned", "Give --prune too, or leave --hints out"));
    }
    if !options.indexes.is_empty() {
        let advice = "Leave --hints out, or the options that keep indexes";
        return Err(Fault::refused("hints leave no blocks from which an index could be built", advice));
    }
    let hints = HintsFile::open(&*options.disk, path)?;
    let Some(why) = why_not_yet(options, hints.height(), events)? else { return Ok(Some(hints)) };
    events(Event::Note(format!("The hints are not used: {why}")));
    forget(options, events)?;
    Ok(None)
}

/// Why hints cannot be used, as far as can be decided before headers are known.
fn why_not_yet(options: &Options, height: Height, events: Events<'_>) -> Result<Option<String>, Fault> {
    if options.assumevalid.is_zero() {
        return Ok(Some("no block is assumed valid (--assumevalid), and hints are used only below one".to_owned()));
    }
    if options.stop_at_height.is_some_and(|stop| stop < height) {
        return Ok(Some(format!("they reach up to height {height}, where the sync is not to go (--stopatheight)")));
    }
    if height == Height::GENESIS {
        return Ok(Some("they are about no block".to_owned()));
    }
    if lock::is_unused(options)? {
        return Ok(None);
    }
    let locked = lock::lock(options, events, false)?;
    let disk = &locked.disk;
    let dir = locked.layout.chainstate_dir();
    let has_blocks = "the data directory has blocks already";
    if disk.metadata(&locked.layout.snapshot_dir()).map_err(store::Fault::from)?.is_some() {
        return Ok(Some("the data directory has a snapshot".to_owned()));
    }
    if Chainstate::exists(&**disk, &dir)? {
        let coins = Chainstate::open_read_only(&locked.host, &dir)?;
        let best = coins.best_block()?.filter(|best| *best != options.params.genesis_hash);
        if best.is_some() || coins.head_blocks()?.is_some() {
            return Ok(Some(has_blocks.to_owned()));
        }
    }
    if !BlockTreeDb::exists(&**disk, &locked.layout)? {
        return Ok(None);
    }
    let loaded = BlockTreeDb::open_read_only(&locked.host, &locked.layout)?.load(&lock::network(&options.params))?;
    let is_there = |entry: &store::IndexEntry| entry.height > Height::GENESIS && entry.data().is_some();
    Ok(loaded.entries.iter().any(is_there).then(|| has_blocks.to_owned()))
}

/// Starts to build a UTXO set with hints if the headers allow it; otherwise returns the reason.
///
/// # Errors
///
/// An I/O error.
pub(super) fn open<'h>(datadir: &DataDir<'_>, hints: &'h HintsFile) -> Result<Result<HintedRun<'h>, String>, Fault> {
    let height = hints.height();
    let options = datadir.options;
    let (target, path) = {
        let tree = datadir.headers();
        let Some(assumed) = tree.find(&options.assumevalid) else {
            return Ok(Err("the assumed-valid block is not in the headers".to_owned()));
        };
        let best = tree.best();
        if tree.height(assumed) < height {
            return Ok(Err(format!("they reach up to height {height}, above the assumed-valid block")));
        }
        let target = tree.ancestor(assumed, height);
        let assume = AssumeValid { hash: options.assumevalid, minimum_chain_work: options.minimum_chain_work };
        let context = ChainContext::new(&tree, datadir.params, &assume, target).block(target);
        if let Some(reason) = context.script_reason {
            return Ok(Err(format!("the block at height {height}, where they end, is not assumed valid: {reason}")));
        }
        if tree.height(best) < height.saturating_add(BLOCKS_ABOVE_MIN) || tree.fate(target) != Fate::Open {
            let known = tree.height(best);
            return Ok(Err(format!(
                "fewer than {BLOCKS_ABOVE_MIN} blocks are known above height {height}: up to {known}"
            )));
        }
        (tree.hash(target), tree.path(GENESIS, target))
    };
    if !datadir.index.read().is_without_bodies() {
        return Ok(Err("the data directory has blocks already".to_owned()));
    }
    let waiting_bytes_max = (options.dbcache_bytes / BUDGET_SHARE).min(options.sizes.hinted_run_bytes_max);
    let setup = Setup { host: datadir.host.clone(), layout: &datadir.layout, target, path, waiting_bytes_max };
    let run = HintedRun::open(hints, setup, &datadir.reporter)?;
    datadir.reporter.note(format!(
        "Hints up to height {height}, block {target}: no coin is looked up there. Of these blocks amounts, maturity and locks of \
         spent coins are not checked, as their scripts are not: they are assumed valid"
    ));
    Ok(Ok(run))
}

/// Adds a block of the hinted part whose own checks passed.
///
/// # Errors
///
/// Those of [`HintedRun::take`].
pub(super) fn take(
    datadir: &DataDir<'_>,
    run: &HintedRun<'_>,
    node: NodeId,
    bytes: &[u8],
    checked: &Checked,
) -> Result<(), Fault> {
    let (height, hash) = datadir.height_and_hash(node);
    let block = checked.block(bytes);
    let taken = CheckedBlock { node, height, hash, block: &block, txids: &checked.txids };
    run.take(&taken, &datadir.reporter)?;
    let reporter = &datadir.reporter;
    let height = Height::from_index(run.done());
    reporter.add_block(height, block.bytes().len(), checked.txids.len() as u64);
    Ok(())
}

/// Makes a completed set the chainstate: updates the index first, then swaps the chainstates. Can be repeated after a
/// stop at any point. Returns the data directory with the new coins, and their block.
///
/// # Errors
///
/// The completed set is missing, or an I/O error.
pub(super) fn install<'e>(datadir: DataDir<'e>, hints: &HintsFile) -> Result<(DataDir<'e>, NodeId), Fault> {
    let private = PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
    let lost = || Fault::internal("the coins that were made with hints are missing");
    let checkpoint = Checkpoint::read(&private)?.filter(Checkpoint::is_good).ok_or_else(lost)?;
    let dir = datadir.layout.hinted_chainstate_dir();
    let best = Chainstate::open_read_only(&datadir.host, &dir)?.best_block()?;
    if checkpoint.hints != hints.sha256() || best != Some(checkpoint.target) {
        return Err(lost());
    }
    let target = datadir.headers().find(&checkpoint.target).ok_or_else(lost)?;
    let path = datadir.headers().path(GENESIS, target);
    // Before the first entry is written.
    datadir.writer.set_pruned(true);
    let blocks: Vec<(NodeId, u32)> = path.into_iter().zip(checkpoint.transactions.iter().copied()).collect();
    for some in blocks.chunks(ENTRIES_PER_COMMIT) {
        datadir.index.write().pruned_with_hints(some.iter().copied());
        datadir.write_index(None)?;
    }
    datadir.with_room(|| datadir.writer.settle())?;
    let height = blocks.len();
    let coins = primitives::human::count(checkpoint.coins);
    let disk = datadir.disk.clone();
    let layout = datadir.layout.clone();
    let swap = || chainstate::swap_hinted(&disk, &layout);
    let datadir = datadir.with_other_coins(&layout.chainstate_dir(), swap)?;
    datadir.with_room(|| Checkpoint::remove(&private))?;
    datadir.set_active(target);
    datadir.reporter.note(format!(
        "The hints are right: the sums of what was created and spent agree at height {height}, and {coins} coins survive. The \
         blocks up to there count as pruned"
    ));
    Ok((datadir, target))
}

/// Removes an unfinished set that was built with hints.
///
/// # Errors
///
/// The directory cannot be used, or an I/O error.
pub(super) fn forget(options: &Options, events: Events<'_>) -> Result<(), Fault> {
    if lock::is_unused(options)? {
        return Ok(());
    }
    let locked = lock::lock(options, events, false)?;
    let reporter = Reporter::new(events, crate::reporting::log::Log::none(), &options.stop);
    reporter.with_room(|| chainstate::finish_swap(&locked.disk, &locked.layout))?;
    forget_in(&reporter, &locked.disk, &locked.layout)
}

/// Removes it from an open data directory.
///
/// # Errors
///
/// An I/O error.
pub(super) fn forget_in(reporter: &Reporter<'_>, disk: &Arc<dyn Disk>, layout: &Layout) -> Result<(), Fault> {
    let private = PrivateDir::new(disk.clone(), layout.private_dir());
    reporter.with_room(|| chainstate::remove_hinted(&**disk, layout))?;
    reporter.with_room(|| Checkpoint::remove(&private))
}
