//! Looking at a data directory: nothing is made or written, and no lock is needed, so that it works for who may only read.
//!
//! A program at work in the directory changes files under who reads them. It is found by its locks, which are looked at and
//! not taken, before the look and after one that failed; what it says of itself is worth more than its files.

use super::lock::{self, Locked};
use crate::fault::Fault;
use crate::options::Options;
use disk::LockError;
use std::sync::Arc;
use store::FaultKind;
use store::blockfiles::BlockFiles;
use store::locks::DataDirLocks;
use store::xor::{self, BlocksKey};

/// Whether others are kept out meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// They are not: the look takes a moment.
    Nothing,
    /// The locks are held where this program may take them, for a look that takes long.
    IfPossible,
}

/// The program at work in the data directory, by the first of its locks that is held.
pub(crate) fn holder(options: &Options) -> Option<LockError> {
    DataDirLocks::holder(&*options.disk, &lock::layout(options))
}

/// The program in words: "ffwd (process 12)".
pub(crate) fn named(holder: &LockError) -> String {
    match (&holder.program, holder.pid) {
        (Some(program), Some(pid)) => format!("{program} (process {pid})"),
        (None, Some(pid)) => format!("process {pid}"),
        _ => "a process that the system does not name".to_owned(),
    }
}

/// The command that asks the program at work for what a look is for; `call` is Core's.
pub(crate) fn question(options: &Options, call: &str) -> String {
    format!("bitcoin-cli -datadir={} -chain={} {call}", options.datadir.display(), options.params.chain.name())
}

/// Looks, where no program is at work in the data directory; `call` is Core's, by which that program is asked otherwise.
///
/// # Errors
///
/// A program is at work; those of `look`.
pub fn at_rest<T>(options: &Options, call: &str, look: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let in_use = |holder: LockError| {
        let found = format!("{} at work in it", named(&holder));
        let advice = format!(
            "Ask that program: {} (ffwd answers where it runs as ffwd serve or sync --server); or stop it first",
            question(options, call)
        );
        store::Fault::new(FaultKind::Locked, &holder.path, "a data directory that no program uses", found, advice)
            .into()
    };
    if let Some(holder) = holder(options) {
        return Err(in_use(holder));
    }
    // One that was started meanwhile may be why the look failed.
    look().map_err(|why| holder(options).map_or(why, in_use))
}

/// The data directory, to be read.
///
/// # Errors
///
/// It is missing or cannot be read; the key of its block files is damaged, or lost and not to be worked out.
pub(crate) fn open(options: &Options, hold: Hold) -> Result<Locked, Fault> {
    let disk = options.disk.clone();
    let layout = lock::layout(options);
    layout.check(&*disk)?;
    let locks = match hold {
        Hold::Nothing => DataDirLocks::none(),
        Hold::IfPossible => DataDirLocks::take_if_possible(&*disk, &layout)?,
    };
    let network = lock::network(&options.params);
    let host = lock::host(options, &layout);
    let BlocksKey { key, origin } = xor::find_key(&*disk, layout.blocks_dir(), &network)?;
    let files = Arc::new(BlockFiles::new(&host, layout.blocks_dir(), &network, key));
    Ok(Locked { disk, host, layout, locks, key, key_origin: origin, files, pid: None })
}
