//! Reads a data directory without creating or writing files and without needing a lock, so that read permission
//! suffices.
//!
//! A program that uses the directory may change files during the read. It is detected by its locks, which are tested
//! but not taken, before the read and after a failed one. Such a program can be queried, which is more reliable than
//! its files.

use super::lock::{self, Locked};
use crate::fault::Fault;
use crate::options::Options;
use disk::LockError;
use std::sync::Arc;
use store::FaultKind;
use store::blockfiles::BlockFiles;
use store::locks::DataDirLocks;
use store::xor::{self, BlocksKey};

/// Whether other programs are locked out during the read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// Other programs are not locked out, because the read is short.
    Nothing,
    /// The locks are taken if permissions allow, for a long read.
    IfPossible,
}

/// The program that uses the data directory, according to the first of its locks that is held.
pub(crate) fn holder(options: &Options) -> Option<LockError> {
    DataDirLocks::holder(&*options.disk, &lock::layout(options))
}

/// The program as text: "ffwd (process 12)".
pub(crate) fn named(holder: &LockError) -> String {
    match (&holder.program, holder.pid) {
        (Some(program), Some(pid)) => format!("{program} (process {pid})"),
        (None, Some(pid)) => format!("process {pid}"),
        _ => "a process that the system does not name".to_owned(),
    }
}

/// The command that queries the running program instead of reading its files; `call` is the name of Core's RPC.
pub(crate) fn question(options: &Options, call: &str) -> String {
    format!("bitcoin-cli -datadir={} -chain={} {call}", options.datadir.display(), options.params.chain.name())
}

/// Runs `look` if no program uses the data directory; otherwise the error advises to query that program with Core's RPC
/// `call`.
///
/// # Errors
///
/// A program uses the directory; or the errors of `look`.
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
    // A program started meanwhile may be the cause of the failure.
    look().map_err(|why| holder(options).map_or(why, in_use))
}

/// Opens the data directory for reading.
///
/// # Errors
///
/// It is missing or cannot be read; the key of its block files is damaged, or is missing and cannot be computed.
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
