//! Reads parts of a data directory without its locks: the whole block index, the active chainstate, its best block.

use crate::datadir::lock;
use crate::fault::Fault;
use crate::options::Options;
use primitives::BlockHash;
use std::path::{Path, PathBuf};
use store::chainstate::{self, Chainstate};
use store::index::{IndexEntry, LoadedIndex};
use store::{FaultKind, Layout};

/// Opens the block index of a data directory; also returns the directory's layout.
fn open(options: &Options) -> Result<(store::BlockTreeDb, Layout), Fault> {
    let disk = options.disk.clone();
    let layout = lock::layout(options);
    layout.check(&*disk)?;
    if !store::BlockTreeDb::exists(&*disk, &layout)? {
        let advice =
            "Name the data directory with --datadir and --chain; where it has block files alone, run ffwd repair";
        return Err(store::Fault::new(FaultKind::Missing, &layout.index_dir(), "a block index", "none", advice).into());
    }
    Ok((store::BlockTreeDb::open_read_only(options.host(), &layout)?, layout))
}

/// The whole block index of a data directory, and the directory's layout.
pub(crate) fn load(options: &Options) -> Result<(LoadedIndex, Layout), Fault> {
    let (index, layout) = open(options)?;
    let loaded = index.load(&lock::network(&options.params))?;
    if loaded.entries.is_empty() {
        let advice = "Run ffwd repair where block files are, or ffwd sync";
        let fault = store::Fault::new(FaultKind::Missing, &layout.index_dir(), "a block index", "an empty one", advice);
        return Err(fault.into());
    }
    Ok((loaded, layout))
}

/// The entry of one block in the block index.
pub(crate) fn entry(options: &Options, hash: &BlockHash) -> Result<Option<IndexEntry>, Fault> {
    let network = lock::network(&options.params);
    let (index, _) = open(options)?;
    index.check_genesis(&network)?;
    Ok(index.find(&network, hash)?)
}

/// Directory of the active chainstate; `None` without any.
pub(crate) fn chainstate_dir(options: &Options) -> Result<Option<PathBuf>, Fault> {
    let disk = &*options.disk;
    let layout = lock::layout(options);
    let dir = match chainstate::snapshot_base(disk, &layout)? {
        Some(_) => layout.snapshot_dir(),
        None => layout.chainstate_dir(),
    };
    Ok(Chainstate::exists(disk, &dir)?.then_some(dir))
}

/// The best block of the coins in `dir`; `None` for an empty set, and during a flush of Core's.
pub(crate) fn best_block(options: &Options, dir: &Path) -> Result<Option<BlockHash>, Fault> {
    Ok(Chainstate::open_read_only(options.host(), dir)?.best_block()?)
}
