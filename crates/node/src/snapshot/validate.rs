//! Validation of the history below a snapshot: its progress, and the result for the snapshot.
//!
//! Source: Bitcoin Core b88bffe, `ChainstateManager::MaybeValidateSnapshot`, `ValidatedSnapshotCleanup`.

use super::load::{known, trusted};
use crate::chain::tree::{Fate, NodeId};
use crate::datadir::{DataDir, lock};
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Events;
use crate::reporting::Reporter;
use primitives::{BlockHash, Hash256, Height};
use store::chainstate::{self, Chainstate};
use store::index::{BlockTreeDb, LoadedIndex};
use store::private_files::PrivateDir;

/// A snapshot that is not validated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unvalidated {
    /// Its base block.
    pub(crate) base: BlockHash,
    /// Height of the base block.
    pub(crate) height: Height,
    /// Height up to which the history is validated.
    pub(crate) past: Height,
}

/// Reads the block index without changing it.
fn index(options: &Options, locked: &lock::Locked) -> Result<LoadedIndex, Fault> {
    if !BlockTreeDb::exists(&*locked.disk, &locked.layout)? {
        return Ok(LoadedIndex::default());
    }
    Ok(BlockTreeDb::open_read_only(&locked.host, &locked.layout)?.load(&lock::network(&options.params))?)
}

/// The snapshot in a data directory, after interrupted work is completed.
///
/// # Errors
///
/// The directory cannot be used, index and coins do not match, or an I/O error.
pub(crate) fn state(options: &Options, events: Events<'_>) -> Result<Option<Unvalidated>, Fault> {
    if lock::is_unused(options)? {
        return Ok(None);
    }
    let locked = lock::lock(options, events, false)?;
    let reporter = Reporter::new(events, crate::reporting::log::Log::none(), &options.stop);
    reporter.with_room(|| chainstate::finish_snapshot(&locked.disk, &locked.layout))?;
    let Some(base) = chainstate::snapshot_base(&*locked.disk, &locked.layout)? else {
        // The file is that of a snapshot that is no longer loaded, or is about to be moved away.
        let private = PrivateDir::new(locked.disk.clone(), locked.layout.private_dir());
        reporter.with_room(|| private.remove(super::load::TRUSTED))?;
        return Ok(None);
    };
    let loaded = index(options, &locked)?;
    let height = crate::offline::height_of(&loaded, base).map_err(|_| {
        let dir = locked.layout.snapshot_dir();
        let why = format!("{}: the base block of the snapshot, {base}, is not in the block index", dir.display());
        Fault::refused(why, "Remove the directory, or run a full reindex, which removes it")
    })?;
    let dir = locked.layout.chainstate_dir();
    let mut past = Height::GENESIS;
    if Chainstate::exists(&*locked.disk, &dir)?
        && let Some(best) = Chainstate::open_read_only(&locked.host, &dir)?.best_block()?
    {
        past = crate::offline::height_of(&loaded, best)?;
    }
    Ok(Some(Unvalidated { base, height, past }))
}

/// The set of coins of the chain below a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PastSet {
    /// The last connected block of that chain.
    pub(crate) tip: NodeId,
    /// The hash of its coins; `None` if the chain does not reach the snapshot.
    pub(crate) hash: Option<Hash256>,
}

/// Compares the hashes of the coins, and leaves a data directory with one chainstate. Call it when the history has
/// reached the base, or cannot reach it. The coins of both chains are committed, and no engine uses them; those of the
/// history are closed.
///
/// # Errors
///
/// The snapshot was wrong: it is disabled, and the next sync continues without it. An I/O error.
pub(crate) fn validate<'e>(
    datadir: DataDir<'e>,
    past: PastSet,
    tip: NodeId,
    users_hash: Option<Hash256>,
) -> Result<DataDir<'e>, Fault> {
    let Some(assumed) = datadir.assumed else { return Ok(datadir) };
    let (height, base) = datadir.height_and_hash(assumed.base);
    let fate = datadir.headers().fate(assumed.base);
    if fate != Fate::Open {
        let why = format!("its base block {base} at height {height} is part of an invalid chain");
        return Err(refuse(datadir, past.tip, &why));
    }
    let Some(got) = past.hash.filter(|_| past.tip == assumed.base) else {
        return Err(Fault::internal(format!("the past ends below the snapshot's base block {base}")));
    };
    let private = PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
    let wanted = match known(datadir.params, &base) {
        Some(known) => Some(known.hash_serialized),
        None => trusted(&private, &base)?.or(users_hash),
    };
    let wanted = wanted.ok_or_else(|| {
        let why = format!("the hash of the snapshot at block {base} is not known here any more");
        Fault::refused(why, "Give it again, with ffwd sync --snapshot-hash")
    })?;
    if got != wanted {
        return Err(refuse(datadir, past.tip, &format!("[snapshot] hash mismatch: actual={got}, expected={wanted}")));
    }
    datadir.reporter.note(format!("[snapshot] snapshot beginning at {base} has been fully validated"));
    let disk = datadir.disk.clone();
    let layout = datadir.layout.clone();
    let swap = || chainstate::validated_snapshot(&disk, &layout);
    let mut datadir = datadir.with_other_coins(&layout.chainstate_dir(), swap)?;
    datadir.assumed = None;
    datadir.index.write().end_assumption();
    datadir.writer.keep_together(&datadir.reporter)?;
    datadir.with_room(|| private.remove(super::load::TRUSTED))?;
    datadir
        .reporter
        .note("The data directory is an ordinary one: the UTXO set from the snapshot took the place of the other");
    if let Some(indexing) = datadir.indexing.get() {
        datadir.bring_indexes_up(indexing, tip)?;
    }
    Ok(datadir)
}

/// Rejects the snapshot: no block above its base counts as connected, and its coins are moved away. The sync then ends.
/// After a kill between two steps the next opening for work goes on, because the snapshot is marked first. Moved away
/// first, it would leave undo data that was made from its coins, and is never written again.
fn refuse(datadir: DataDir<'_>, past_tip: NodeId, why: &str) -> Fault {
    let height = datadir.headers().height(past_tip);
    let done = || -> Result<Option<std::path::PathBuf>, Fault> {
        datadir.with_room(|| chainstate::mark_invalid(&*datadir.disk, &datadir.layout))?;
        if let Some(assumed) = datadir.assumed {
            datadir.index.write().distrust(assumed.base);
        }
        datadir.write_index(None)?;
        let DataDir { coins, disk, layout, reporter, locks: _locks, .. } = datadir;
        drop(coins);
        let aside = reporter.with_room(|| chainstate::invalid_snapshot(&*disk, &layout))?;
        let private = PrivateDir::new(disk.clone(), layout.private_dir());
        reporter.with_room(|| private.remove(super::load::TRUSTED))?;
        Ok(aside)
    };
    match done() {
        Ok(path) => {
            let coins = path.map_or("were removed".to_owned(), |path| format!("are in {}", path.display()));
            Fault::refused(
                format!("{why}: the snapshot is false, and nothing that was built on it counts. Its coins {coins}"),
                format!("Run ffwd sync again, which continues from height {height} without it"),
            )
        }
        Err(fault) => Fault::refused(
            format!("{why}: the snapshot is false, and cannot be moved away: {fault}"),
            "Run ffwd sync again, which moves it away first",
        ),
    }
}
