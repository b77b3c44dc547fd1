//! Makes a pruned data directory archival: pruned blocks are downloaded again and connected on a second chainstate,
//! which makes their undo data, while the first one follows the tip.
//!
//! The second chainstate is `ffwd/past`, which bitcoind does not read. A block gets its place in the index when it is
//! stored, and its undo data when it is connected; `prunedblockfiles` stays set meanwhile. So bitcoind, run with -prune,
//! starts on the data directory at every instant. At the end the flag is reset, and `ffwd/past` is removed.
//!
//! After a stop or a kill the next run continues from the last commit. If blocks were pruned again meanwhile, the
//! second chainstate begins at the genesis block, and only blocks that are in no file are downloaded. Absent on
//! purpose: how the two chains share peers, memory and the processor (`driver`, `work`).

use crate::chain::index::BlockIndex;
use crate::chain::tree::{Fate, GENESIS, NodeId};
use crate::datadir::{Assumed, DataDir, Origin};
use crate::fault::Fault;
use crate::options::Prune;
use std::path::PathBuf;
use store::Layout;
use store::chainstate::{self, Chainstate};

/// The second chainstate.
pub(super) fn dir(layout: &Layout) -> PathBuf {
    layout.private_dir().join("past")
}

/// Finds the pruned blocks, if the data directory was opened to become archival. If there are none, removes the second
/// chainstate that an earlier run left.
///
/// # Errors
///
/// An I/O error.
pub(super) fn begin(datadir: &mut DataDir<'_>, tip: NodeId) -> Result<(), Fault> {
    let is_wanted = datadir.options.prune == Prune::Off && datadir.writer.is_pruned() && datadir.assumed.is_none();
    if !is_wanted {
        return forget(datadir);
    }
    restore_genesis(datadir)?;
    let Some(base) = last_missing(&datadir.index.read(), tip) else { return end(datadir, tip) };
    datadir.assumed = Some(Assumed { base, is_past: false, origin: Origin::Pruned });
    datadir.index.write().assume(base);
    if !goes_on(datadir, base)? {
        forget(datadir)?;
    }
    Ok(())
}

/// Turns the data directory into an archival one. All blocks of the second chain are connected, and it is closed.
///
/// # Errors
///
/// A block of the directory's own chain breaks a rule, or was lost meanwhile; an I/O error.
pub(super) fn end(datadir: &mut DataDir<'_>, tip: NodeId) -> Result<(), Fault> {
    if let Some(Assumed { base, .. }) = datadir.assumed {
        let (height, hash) = datadir.height_and_hash(base);
        if datadir.headers().fate(base) != Fate::Open {
            // The chain was validated before, so the second chainstate is wrong, and would refuse the block each time.
            datadir.index.write().reconsider(base);
            datadir.write_index(None)?;
            forget(datadir)?;
            let why = format!(
                "a pruned block at or below height {height} ({hash}) breaks a rule, but was connected before: no block was \
                 marked, and the second UTXO set was removed"
            );
            let advice = "Run the same command again, which begins with new coins; if it says this again, run ffwd doctor --deep, and report what it says";
            return Err(Fault::refused(why, advice));
        }
        let missing = last_missing(&datadir.index.read(), base);
        if let Some(missing) = missing {
            let (height, hash) = datadir.height_and_hash(missing);
            let why = format!("block {hash} at height {height} was lost while the pruned blocks were downloaded");
            return Err(Fault::refused(why, "Run the same command again, which downloads it"));
        }
        datadir.assumed = None;
        datadir.index.write().end_assumption();
    }
    datadir.writer.set_pruned(false);
    datadir.write_index(None)?;
    forget(datadir)?;
    datadir.reporter.note(
        "The data directory is archival: all blocks and undo data are there. bitcoind needs no -prune on it; a prune= in \
         bitcoin.conf would remove the blocks again",
    );
    datadir.open_indexes(datadir.kept_indexes(), tip)?;
    Ok(())
}

/// The highest block up to `tip` whose block or undo data is missing.
fn last_missing(index: &BlockIndex, tip: NodeId) -> Option<NodeId> {
    let tree = index.headers();
    let chain = std::iter::successors(Some(tip), |&id| tree.parent(id));
    chain.take_while(|&id| id != GENESIS).find(|&id| {
        let body = index.body(id);
        body.location().is_none() || body.undo().is_none()
    })
}

/// Whether the second chainstate of an earlier run can be used: all its blocks are stored, and on the chain up to
/// `base`.
fn goes_on(datadir: &DataDir<'_>, base: NodeId) -> Result<bool, Fault> {
    let dir = dir(&datadir.layout);
    if !Chainstate::exists(&*datadir.disk, &dir)? {
        return Ok(false);
    }
    let opened = Chainstate::open_read_only(&datadir.host, &dir).and_then(|coins| {
        let heads = coins.head_blocks()?;
        Ok((coins.best_block()?, heads.is_some()))
    });
    let Ok((Some(best), false)) = opened else { return Ok(false) };
    let index = datadir.index.read();
    let tree = index.headers();
    let tip = tree.find(&best).filter(|&tip| tip == base || tree.is_ancestor(tip, base));
    Ok(tip.is_some_and(|tip| last_missing(&index, tip).is_none()))
}

/// Writes the genesis block if it was pruned: no peer is asked for it.
fn restore_genesis(datadir: &DataDir<'_>) -> Result<(), Fault> {
    if datadir.index.read().body(GENESIS).location().is_some() {
        return Ok(());
    }
    datadir.append_genesis()?;
    datadir.mark_genesis();
    Ok(())
}

/// Removes the second chainstate, if there is one.
fn forget(datadir: &DataDir<'_>) -> Result<(), Fault> {
    Ok(chainstate::remove_if_there(&*datadir.disk, &dir(&datadir.layout))?)
}
