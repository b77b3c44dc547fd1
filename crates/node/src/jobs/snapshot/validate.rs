//! The past of a snapshot: how far it is validated, and what becomes of the snapshot at its end.
//!
//! Source: Bitcoin Core b88bffe, `ChainstateManager::MaybeValidateSnapshot`, `ValidatedSnapshotCleanup`.

use super::load::{known, trusted};
use crate::datadir::lock;
use crate::fault::Fault;
use crate::jobs::open::{Purpose, Which, open_existing};
use crate::options::{Events, Options, Prune, SetHash};
use crate::report::Reporter;
use crate::tree::Fate;
use primitives::{BlockHash, Hash256, Height};
use store::chainstate::{self, Chainstate};
use store::index::{BlockIndex, LoadedIndex};
use store::private_files::PrivateDir;

/// A snapshot that is not validated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// Its base block.
    pub(crate) base: BlockHash,
    /// Height of that.
    pub(crate) height: Height,
    /// Height up to which the past is validated.
    pub(crate) past: Height,
}

/// What is in the index, read only.
fn index(options: &Options, locked: &lock::Locked) -> Result<LoadedIndex, Fault> {
    if !BlockIndex::exists(&*locked.disk, &locked.layout)? {
        return Ok(LoadedIndex::default());
    }
    Ok(BlockIndex::open_read_only(locked.disk.clone(), &locked.layout)?.load(&lock::network(&options.params))?)
}

/// The snapshot in a data directory, after what was cut short is ended.
///
/// # Errors
///
/// The directory cannot be used, index and coins do not belong together, or what the system says.
pub(crate) fn state(options: &Options, events: Events<'_>) -> Result<Option<State>, Fault> {
    if lock::is_unused(options)? {
        return Ok(None);
    }
    let locked = lock::lock(options, events, false)?;
    let reporter = Reporter::new(events, crate::log::Log::none(), &options.stop);
    reporter.with_room(|| chainstate::finish_snapshot(&locked.disk, &locked.layout))?;
    let Some(base) = chainstate::snapshot_base(&*locked.disk, &locked.layout)? else {
        // Of one that is loaded no more.
        let private = PrivateDir::new(locked.disk.clone(), locked.layout.private_dir());
        reporter.with_room(|| private.remove(super::load::TRUSTED))?;
        return Ok(None);
    };
    let loaded = index(options, &locked)?;
    let height = crate::jobs::height_of(&loaded, base).map_err(|_| {
        let dir = locked.layout.snapshot_dir();
        let why = format!("{}: the base block of the snapshot, {base}, is not in the block index", dir.display());
        Fault::refused(why, "Remove the directory, or run a full reindex, which removes it")
    })?;
    let dir = locked.layout.chainstate_dir();
    let mut past = Height::GENESIS;
    if Chainstate::exists(&*locked.disk, &dir)?
        && let Some(best) = Chainstate::open_read_only(locked.disk.clone(), &dir)?.best_block()?
    {
        past = crate::jobs::height_of(&loaded, best)?;
    }
    Ok(Some(State { base, height, past }))
}

/// Whether the chainstate has at least the work of a block: heights say that on one chain.
///
/// # Errors
///
/// As [`state`].
pub(crate) fn is_beyond(options: &Options, base: &BlockHash, events: Events<'_>) -> Result<bool, Fault> {
    if lock::is_unused(options)? {
        return Ok(false);
    }
    let locked = lock::lock(options, events, false)?;
    let loaded = index(options, &locked)?;
    let dir = locked.layout.chainstate_dir();
    if !Chainstate::exists(&*locked.disk, &dir)? {
        return Ok(false);
    }
    let Some(mut at) = Chainstate::open_read_only(locked.disk.clone(), &dir)?.best_block()? else { return Ok(false) };
    // Parents stand before their children.
    for entry in loaded.entries.iter().rev().filter(|entry| entry.height > Height::GENESIS) {
        if entry.hash == at {
            if at == *base {
                return Ok(true);
            }
            at = entry.header.prev();
        }
    }
    Ok(false)
}

/// Whether a block is among the headers.
///
/// # Errors
///
/// As [`state`].
pub(crate) fn has_header(options: &Options, base: &BlockHash, events: Events<'_>) -> Result<bool, Fault> {
    if lock::is_unused(options)? {
        return Ok(false);
    }
    let locked = lock::lock(options, events, false)?;
    Ok(index(options, &locked)?.entries.iter().any(|entry| entry.hash == *base))
}

/// The past has reached the base, or cannot: compares the coins, and makes the data directory an ordinary one.
///
/// # Errors
///
/// The snapshot was false: it is out of use, and the next sync goes on without. What the system says.
pub(crate) fn validate(options: &Options, users_hash: Option<Hash256>, events: Events<'_>) -> Result<(), Fault> {
    let prune = if options.prune == Prune::Off { Prune::Manual } else { options.prune };
    let options = Options { prune, ..options.clone() };
    let existing = open_existing(&options, events, "validate", Purpose::Work, Which::Past)?;
    let datadir = &existing.datadir;
    let Some(assumed) = datadir.assumed else { return Ok(()) };
    let ((height, base), fate) = (datadir.height_and_hash(assumed.base), datadir.headers().fate(assumed.base));
    if fate != Fate::Open {
        let why = format!("its base block {base} at height {height} is part of an invalid chain");
        return Err(refuse(existing, &why));
    }
    if existing.tip != assumed.base {
        return Err(Fault::internal(format!("the past ends below the snapshot's base block {base}")));
    }
    let private = PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
    let wanted = match known(&options.params, &base) {
        Some(known) => Some(known.hash_serialized),
        None => trusted(&private, &base)?.or(users_hash),
    };
    let wanted = wanted.ok_or_else(|| {
        let why = format!("the hash of the snapshot at block {base} is not known here any more");
        Fault::refused(why, "Give it again, with ffwd sync --snapshot-hash")
    })?;
    datadir.reporter.note("[snapshot] computing UTXO stats for background chainstate to validate snapshot");
    let coins = Chainstate::open_read_only(datadir.disk.clone(), &datadir.layout.chainstate_dir())?;
    let set = crate::setinfo::set_info(&coins.view(), SetHash::Serialized, false, options.par)?;
    drop(coins);
    let got = set.hash.map_or(Hash256::ZERO, |(_, hash)| hash);
    if got != wanted {
        return Err(refuse(existing, &format!("[snapshot] hash mismatch: actual={got}, expected={wanted}")));
    }
    datadir.reporter.note(format!("[snapshot] snapshot beginning at {base} has been fully validated"));
    let (disk, layout) = (datadir.disk.clone(), datadir.layout.clone());
    let crate::jobs::open::Existing { datadir, .. } = existing;
    let crate::datadir::DataDir { coins, writer, reporter, locks: _locks, .. } = datadir;
    drop((coins, writer));
    reporter.with_room(|| chainstate::validated_snapshot(&disk, &layout))?;
    reporter.with_room(|| private.remove(super::load::TRUSTED))?;
    reporter.note("The data directory is an ordinary one: the UTXO set from the snapshot took the place of the other");
    Ok(())
}

/// The snapshot is false: no block above its base counts as connected, and its coins are moved away.
fn refuse(existing: crate::jobs::open::Existing<'_>, why: &str) -> Fault {
    let crate::jobs::open::Existing { datadir, tip } = existing;
    let height = datadir.headers().height(tip);
    let done = || -> Result<Option<std::path::PathBuf>, Fault> {
        if let Some(assumed) = datadir.assumed {
            datadir.index.write().distrust(assumed.base);
        }
        datadir.write_index(None)?;
        let (disk, layout) = (&datadir.disk, &datadir.layout);
        let aside = datadir.with_room(|| chainstate::invalid_snapshot(&**disk, layout))?;
        let private = PrivateDir::new(disk.clone(), layout.private_dir());
        datadir.with_room(|| private.remove(super::load::TRUSTED))?;
        Ok(aside)
    };
    match done() {
        Ok(path) => {
            let coins = path.map_or("were removed".to_owned(), |path| format!("are in {}", path.display()));
            Fault::refused(
                format!("{why}: the snapshot is false, and nothing that was built on it counts. Its coins {coins}"),
                format!("Run ffwd sync again, which goes on from height {height} without it"),
            )
        }
        Err(fault) => Fault::refused(
            format!("{why}: the snapshot is false, and cannot be moved away: {fault}"),
            "Remove the directory chainstate_snapshot, then run ffwd sync",
        ),
    }
}
