//! Opens a data directory for reading: nothing is written, so it also works with read permission only.

use super::complete_best;
use super::open::{Existing, Purpose, assume, check_there, nothing_to_look_at};
use crate::datadir::look::{self, Hold};
use crate::datadir::{DataDir, Mode, lock};
use crate::fault::Fault;
use crate::options::Options;
use crate::reporting::Events;
use crate::reporting::Reporter;
use crate::reporting::log::Log;
use store::FileInfos;
use store::chainstate::{self, Chainstate};
use store::index::{self, BlockTreeDb};

/// Refuses a block index of a format that no job reads; checks nothing else.
///
/// # Errors
///
/// Another format of the index; an I/O error.
pub fn check_index_form(options: &Options) -> Result<(), Fault> {
    Ok(index::check_form(&*options.disk, &lock::layout(options).index_dir())?)
}

/// Opens index and coins; if there are two chainstates, the one from the snapshot. Other programs are locked out
/// meanwhile if possible.
///
/// # Errors
///
/// There is nothing to read, a flush that bitcoind did not finish, damage; an I/O error.
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
    let tip = datadir.stand(best)?;
    datadir.set_active(tip);
    Ok(Existing { datadir, tip })
}
