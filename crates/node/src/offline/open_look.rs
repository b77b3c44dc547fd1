//! Opening a data directory to look at it: without writing a byte, and so also where this program may only read.

use super::complete_best;
use super::open::{Existing, Purpose, assume, check_there, nothing_to_look_at};
use crate::datadir::look::{self, Hold};
use crate::datadir::{DataDir, Mode, lock, start_of};
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Events;
use crate::reporting::Reporter;
use crate::reporting::log::Log;
use store::FileInfos;
use store::chainstate::{self, Chainstate};
use store::index::{self, BlockTreeDb};

/// Says no where the block index is one that no job reads; nothing else is looked at.
///
/// # Errors
///
/// Another form of the index; what the system says.
pub fn check_index_form(options: &Options) -> Result<(), Fault> {
    Ok(index::check_form(&*options.disk, &lock::layout(options).index_dir())?)
}

/// Opens what counts: of two chainstates the one from the snapshot. Others are kept out meanwhile where that is possible.
///
/// # Errors
///
/// There is nothing to look at, a flush that bitcoind did not finish, damage; what the system says.
pub(super) fn open_to_look<'e>(options: &'e Options, events: Events<'e>) -> Result<Existing<'e>, Fault> {
    if lock::is_unused(options)? {
        return Err(nothing_to_look_at(&lock::layout(options).index_dir(), "a block index", "none"));
    }
    let locked = look::open(options, Hold::IfPossible)?;
    let disk = locked.disk.clone();
    let host = locked.host.clone();
    let layout = locked.layout.clone();
    let reporter = Reporter::new(events, Log::none(), &options.stop);
    let base = chainstate::snapshot_base(&*disk, &layout)?;
    check_there(&locked, Purpose::Look, options.params.genesis_hash)?;
    let block_index = BlockTreeDb::open_read_only(&host, &layout)?;
    let loaded = block_index.load(&lock::network(&options.params))?;
    if loaded.entries.is_empty() {
        return Err(nothing_to_look_at(&layout.index_dir(), "a block index", "an empty one"));
    }
    index::check_files_exist(&loaded, &locked.files.numbers()?, &layout)?;
    let dir = if base.is_some() { layout.snapshot_dir() } else { layout.chainstate_dir() };
    let coins = Chainstate::open_read_only(host, &dir)?;
    let best = complete_best(&coins, &dir)?;
    let infos = FileInfos::new(loaded.files.clone());
    let mut datadir = DataDir::new(options, reporter, locked, block_index, coins, infos)?;
    datadir.mode = Mode::ReadOnly;
    datadir.writer.set_pruned(loaded.is_pruned);
    datadir.take_index(&loaded)?;
    base.map_or(Ok(()), |base| assume(&mut datadir, base, false))?;
    let tip = start_of(&datadir.headers(), best).ok_or_else(|| super::apart(best.unwrap_or_default()))?;
    datadir.set_active(tip);
    Ok(Existing { datadir, tip })
}
