//! Hints about signatures from one run to the next: what earlier runs kept in the data directory, and what this one adds.
//!
//! A run keeps the hints of each block whose scripts it verifies. They make later rebuilds, audits and `verify` faster, and
//! no verdict depends on them; a run that cannot write them goes on without.

use crate::chain::block::{BlockContext, Judged};
use crate::options::{Options, Prune};
use crate::reporting::log::Log;
use crate::threads::locks::lock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use store::Layout;
use store::signature_hints::SignatureHints;
use store::signature_hints::kept::{self, Keeper};

/// The hints in a data directory.
#[derive(Debug)]
pub(crate) struct KeptHints {
    disk: Arc<dyn disk::Disk>,
    dir: PathBuf,
    /// What earlier runs kept, once a block asked for it.
    earlier: OnceLock<Option<SignatureHints>>,
    keeper: Mutex<Option<Keeper>>,
    /// Hints could not be written: no more are kept.
    is_given_up: AtomicBool,
}

impl KeptHints {
    /// Opens nothing yet.
    pub(crate) fn new(disk: Arc<dyn disk::Disk>, layout: &Layout) -> KeptHints {
        let (earlier, keeper, is_given_up) = Default::default();
        KeptHints { disk, dir: layout.private_dir(), earlier, keeper, is_given_up }
    }

    /// What earlier runs kept.
    pub(crate) fn earlier(&self, log: &Log) -> Option<&SignatureHints> {
        let open = || match kept::open(&*self.disk, &self.dir) {
            Ok(hints) => {
                if let Some(hints) = &hints {
                    log.line(&format!(
                        "Using hints about signatures that an earlier run kept: {}",
                        hints.path().display()
                    ));
                }
                hints
            }
            Err(why) => {
                log.line(&format!("Hints about signatures of earlier runs are not used: {why}"));
                None
            }
        };
        self.earlier.get_or_init(open).as_ref()
    }

    /// Whether hints are found and kept for blocks whose scripts run. A pruned data directory is never rebuilt.
    pub(crate) fn are_wanted(&self, options: &Options) -> bool {
        options.signature_hints.is_none()
            && options.prune == Prune::Off
            && !self.is_given_up.load(Relaxed)
            && script::lanes::best(options.kernels).finds_hints()
    }

    /// Keeps the hints of a connected block that were found, unless they are kept already.
    pub(crate) fn connected(&self, context: &BlockContext, judged: &Judged, log: &Log) {
        let Some(found) = &judged.found else { return };
        let found = found.bytes();
        if judged.bits.as_ref().is_some_and(|known| known.as_bytes() == found) {
            return;
        }
        self.write(log, |keeper| keeper.put(context.height, &context.hash, &found));
    }

    /// Writes what waits in memory.
    pub(crate) fn write_out(&self, log: &Log) {
        if lock(&self.keeper).is_some() {
            self.write(log, Keeper::write_out);
        }
    }

    fn write(&self, log: &Log, work: impl FnOnce(&mut Keeper) -> store::Result<()>) {
        let mut keeper = lock(&self.keeper);
        if self.is_given_up.load(Relaxed) {
            return;
        }
        let opened = match &mut *keeper {
            Some(keeper) => Ok(keeper),
            none => Keeper::open(&*self.disk, &self.dir).map(|opened| none.insert(opened)),
        };
        if let Err(why) = opened.and_then(work) {
            log.line(&format!("Hints about signatures are no longer kept: {why}"));
            self.is_given_up.store(true, Relaxed);
            *keeper = None;
        }
    }
}
