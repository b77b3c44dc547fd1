//! Opens a data directory: checks that it is one and of which network, takes its locks, and opens its log, before other
//! files are read.

use super::seems;
use crate::datadir::pid_file::PidFile;
use crate::fault::{Fault, Message};
use crate::options::{Options, Prune};
use crate::reporting::Events;
use crate::reporting::Reporter;
use crate::reporting::log::Log;
use consensus::{Chain, Params};
use disk::Disk;
use primitives::hex;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use store::Host;
use store::blockfiles::BlockFiles;
use store::chainstate::Chainstate;
use store::index::BlockTreeDb;
use store::locks::DataDirLocks;
use store::private_files::PrivateDir;
use store::xor::BlocksKey;
use store::{Layout, Network, xor};
use sys::spill::SpillFiles;

/// The parameters of a network that the store needs.
pub fn network(params: &Params) -> Network {
    Network {
        directory: params.chain.net_dir(),
        magic: params.magic,
        genesis: params.genesis_hash,
        pow_limit: params.pow_limit,
    }
}

/// Minimum free disk space, in bytes, for spilling spent coins to disk; below it they stay in memory, and the space is
/// left for blocks and coins.
const SPILL_SPARE_BYTES: u64 = 1 << 30;

/// The disk and kernels of a job. Spent coins of blocks are spilled to files in the network's directory if they are too
/// many for memory.
pub(crate) fn host(options: &Options, layout: &Layout) -> Host {
    let disk = options.disk.clone();
    let within = layout.net_dir().to_path_buf();
    let spill = SpillFiles::new(layout.net_dir(), move |bytes| {
        let has_room = disk.free_space_bytes(&within).is_ok_and(|free| free >= bytes + SPILL_SPARE_BYTES);
        if !has_room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.unnamed_file(&within, bytes).map_err(|why| why.source)
    });
    Host { spill, ..options.host() }
}

/// A data directory with its locks held; no other file has been read.
pub(crate) struct Locked {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) host: Host,
    pub(crate) layout: Layout,
    /// Declared before the locks so that it is dropped first: the next process writes its own file once it has the
    /// locks.
    pub(crate) pid: Option<PidFile>,
    pub(crate) locks: DataDirLocks,
    pub(crate) key: xor::Key,
    /// Source of the key in this process.
    pub(crate) key_origin: xor::Origin,
    pub(crate) files: Arc<BlockFiles>,
}

/// Seconds since 1970.
///
/// # Errors
///
/// The clock must be wrong: it is before the first block of any chain.
pub(crate) fn clock(options: &Options) -> Result<i64, Fault> {
    const FIRST_BLOCK: u64 = 1_231_006_505;
    let wrong = |says: &str| {
        let first = crate::reporting::log::date(FIRST_BLOCK);
        let why = format!("this machine's clock {says}, and the first block is of {first}");
        Fault::refused(why, "Set the clock: headers are judged by it")
    };
    let now = (options.clock)().duration_since(UNIX_EPOCH).map_err(|_| wrong("says a time before 1970"))?.as_secs();
    if now < FIRST_BLOCK {
        return Err(wrong(&format!("says {}", crate::reporting::log::date(now))));
    }
    i64::try_from(now).map_err(|_| wrong("is beyond all bounds"))
}

/// Checks the data directory and takes its locks, before other files are read; waits while the disk is full. With
/// `needs_blocks` it fails if there are no block files.
///
/// # Errors
///
/// The data directory belongs to another network, is in use, or lacks required block files; an I/O error.
pub(crate) fn lock(options: &Options, events: Events<'_>, needs_blocks: bool) -> Result<Locked, Fault> {
    // The log file is in the data directory, so it cannot be used yet.
    let reporter = Reporter::new(events, Log::none(), &options.stop);
    let locked = reporter.with_room(|| lock_now(options, needs_blocks))?;
    if let xor::Origin::WorkedOut(file) = &locked.key_origin {
        let what = format!(
            "{} was missing, and the block files are obfuscated: the key {} was computed from {} and stored",
            locked.layout.blocks_dir().join("xor.dat").display(),
            hex::encode(&locked.key),
            file.display()
        );
        reporter.warn(Message::new(
            what,
            "No action is needed; a copy of these files needs this xor.dat in the same directory",
        ));
    }
    Ok(locked)
}

/// Like [`lock`], but does not wait for disk space.
///
/// # Errors
///
/// Those of [`lock`], and a full disk.
pub(crate) fn lock_now(options: &Options, needs_blocks: bool) -> Result<Locked, Fault> {
    let disk = options.disk.clone();
    let net = network(&options.params);
    let layout = layout(options);
    layout.check(&*disk)?;
    if needs_blocks && disk.metadata(layout.blocks_dir()).map_err(store::Fault::from)?.is_none() {
        return Err(no_blocks(options, &layout));
    }
    seems::check_new(options, &layout)?;
    layout.create(&*disk)?;
    let locks = DataDirLocks::take(&*disk, &layout)?;
    // The databases' own locks are taken when they are opened. A program that holds one of them is reported here,
    // before any change.
    for dir in [layout.index_dir(), layout.chainstate_dir(), layout.snapshot_dir()] {
        // No lock file is created in a block index of an unknown format.
        if disk.metadata(&dir.join("CURRENT")).map_err(store::Fault::from)?.is_some() {
            drop(disk.lock(&dir.join("LOCK")).map_err(store::Fault::from)?);
        }
    }
    let pid = options.own_files.pid.as_ref();
    let pid = pid.map(|file| PidFile::write(&disk, layout.net_dir(), file)).transpose()?;
    if let Some((path, text)) = &options.own_files.settings {
        write_settings(&disk, path, text)?;
    }
    let host = host(options, &layout);
    let BlocksKey { key, origin } = xor::open_key(&*disk, layout.blocks_dir(), &net, options.blocksxor)?;
    let files = Arc::new(BlockFiles::new(&host, layout.blocks_dir(), &net, key));
    if needs_blocks && files.numbers()?.there.is_empty() && !has_begun_anew(&*disk, &host, &layout).unwrap_or(false) {
        return Err(no_blocks(options, &layout));
    }
    Ok(Locked { disk, host, layout, locks, key, key_origin: origin, files, pid })
}

/// Whether a reindex that removes the blocks of a pruned directory was stopped before any block came.
fn has_begun_anew(disk: &dyn Disk, host: &Host, layout: &Layout) -> store::Result<bool> {
    if store::reindex::is_beginning(disk, layout)? {
        return Ok(true);
    }
    let is_reindexing =
        BlockTreeDb::exists(disk, layout)? && BlockTreeDb::open_read_only(host, layout)?.is_reindexing()?;
    Ok(is_reindexing && !Chainstate::has_block(host, &layout.chainstate_dir())?)
}

/// Writes the settings file, as bitcoind does at each start.
fn write_settings(disk: &Arc<dyn Disk>, path: &Path, text: &str) -> Result<(), Fault> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return Ok(()) };
    if disk.metadata(dir).map_err(store::Fault::from)?.is_none() {
        let advice = "Make the directory, or give --settings another file; 0 for none";
        let wanted = "the directory of the settings file";
        return Err(store::Fault::new(store::FaultKind::Missing, dir, wanted, "nothing", advice).into());
    }
    Ok(PrivateDir::new(disk.clone(), dir.to_owned()).write(name, text.as_bytes())?)
}

fn no_blocks(options: &Options, layout: &Layout) -> Fault {
    if let Ok(Some(seems)) = seems::seems(options, layout) {
        let found = seems.to_string();
        let kind = store::FaultKind::Missing;
        return store::Fault::new(kind, layout.blocks_dir(), "block files", found, seems.advice()).into();
    }
    let found = "no block file (blk00000.dat and so on)";
    let has_coins = matches!(Chainstate::exists(&*options.disk, &layout.chainstate_dir()), Ok(true));
    let advice = match has_coins {
        true => {
            "Name the directory that has them with --datadir, --blocksdir, --chain. If they are lost, the UTXO set is of no use: \
             remove the directory chainstate, and run ffwd sync"
        }
        false => "Name the directory that has them with --datadir, --blocksdir, --chain; or fetch them with ffwd sync",
    };
    store::Fault::new(store::FaultKind::Missing, layout.blocks_dir(), "block files", found, advice).into()
}

/// Whether the data directory contains no data of this network; creates no files.
///
/// # Errors
///
/// The data directory is a file, or cannot be read.
pub(crate) fn is_unused(options: &Options) -> Result<bool, Fault> {
    let layout = layout(options);
    layout.check(&*options.disk)?;
    Ok(layout.is_unused(&*options.disk)?)
}

/// The paths of the data directory.
pub(crate) fn layout(options: &Options) -> Layout {
    Layout::new(&options.datadir, options.params.chain.net_dir(), options.blocksdir.as_deref())
}

/// A reporter with the log of this data directory.
pub(crate) fn reporter<'e>(events: Events<'e>, options: &'e Options, job: &str) -> Reporter<'e> {
    let reopen = options.own_files.reopen.clone();
    let log = Log::open(options.disk.clone(), options.log_path(), options.clock, options.log_time_micros, reopen);
    log.line(&format!("ffwd version v{} ({job}; {})", env!("CARGO_PKG_VERSION"), options.build));
    let kernels = options.kernels;
    // Small batches of messages use narrower implementations.
    log.line(&format!("Using the '{:?}' SHA256 implementation", kernels.widest_sha256()));
    let signatures = script::lanes::best(kernels).name();
    log.line(&format!("Using {signatures} for signatures (--cpu {})", kernels.cpu().name()));
    #[cfg(feature = "ablation")]
    if !kernels.left_out().is_empty() {
        log.line(&format!("Left out: {}", kernels.left_out().join(",")));
    }
    log.line(&format!(
        "Settings: dbcache={} par={} assumevalid={} blocksxor={}{}",
        options.dbcache_bytes >> 20,
        options.par,
        options.assumevalid,
        u8::from(options.blocksxor),
        if let Prune::Target { bytes } = options.prune { format!(" prune={}", bytes >> 20) } else { String::new() },
    ));
    if options.params.chain == Chain::Signet {
        log.line(&format!("Signet derived magic (message start): {}", hex::encode(&options.params.magic)));
    }
    options.own_files.first_lines.iter().for_each(|text| log.line(text));
    options.warnings.iter().for_each(|why| log.line(&format!("[warning] {why}")));
    Reporter::new(events, log, &options.stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magics_of_the_store_are_the_networks() {
        for chain in Chain::ALL {
            assert_eq!(store::layout::network_of_magic(Params::new(chain).magic), Some(chain.name()));
        }
        assert_eq!(store::layout::network_of_magic([0; 4]), None);
    }
}
