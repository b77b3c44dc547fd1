//! Hints about signatures from one run to the next: what earlier runs kept in the data directory, and what this one adds.
//!
//! A run keeps the hints of each block whose scripts it verifies. They make later rebuilds, audits and `verify` faster, and
//! no verdict depends on them; a run that cannot write them goes on without.

use crate::chain::block::{BlockContext, Judged};
use crate::options::{Options, Prune};
use crate::reporting::log::Log;
use crate::threads::locks::lock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use store::private_files::PrivateDir;
use store::signature_hints::SignatureHints;
use store::signature_hints::kept::{self, Keeper};

/// The hints in a data directory.
#[derive(Debug)]
pub(crate) struct KeptHints {
    dir: PrivateDir,
    /// What earlier runs kept, once a block asked for it.
    earlier: OnceLock<Option<SignatureHints>>,
    keeper: Mutex<Option<Keeper>>,
    /// Hints could not be written: no more are kept.
    is_given_up: AtomicBool,
    /// It was said why those of earlier runs cannot be read.
    is_said: AtomicBool,
}

impl KeptHints {
    /// Opens nothing yet.
    pub(crate) fn new(dir: PrivateDir) -> KeptHints {
        let (earlier, keeper, is_given_up, is_said) = Default::default();
        KeptHints { dir, earlier, keeper, is_given_up, is_said }
    }

    /// What earlier runs kept.
    pub(crate) fn earlier(&self, log: &Log) -> Option<&SignatureHints> {
        let open = || match kept::open(&self.dir) {
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

    /// Whether hints are kept for blocks whose scripts run. A pruned data directory is never rebuilt.
    pub(crate) fn are_wanted(&self, options: &Options) -> bool {
        options.uses_hints()
            && options.signature_hints.is_none()
            && options.prune == Prune::Off
            && !self.is_given_up.load(Relaxed)
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
        let unread = self.earlier.get().and_then(|earlier| earlier.as_ref()?.unread());
        if let Some(why) = unread
            && !self.is_said.swap(true, Relaxed)
        {
            log.line(&format!("Hints about signatures of earlier runs are no longer used: {why}"));
        }
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
            none => Keeper::open(&self.dir).map(|opened| none.insert(opened)),
        };
        if let Err(why) = opened.and_then(work) {
            log.line(&format!("Hints about signatures are no longer kept: {why}"));
            self.is_given_up.store(true, Relaxed);
            *keeper = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ReopenLog;
    use disk::{Disk, Fault, SimDisk};
    use primitives::{BlockHash, Height};
    use std::path::Path;
    use std::time::UNIX_EPOCH;

    /// An accident at each operation: it is said once, nothing more is written, and the next run goes on.
    #[test]
    fn accidents_end_the_keeping_alone() {
        let new = |sim: &SimDisk| KeptHints::new(PrivateDir::new(sim.shared(), "/n/ffwd".into()));
        let mut ended = 0;
        for fault in [Fault::NoSpace, Fault::Io, Fault::ReadOnly, Fault::Stop] {
            for at in 0..16 {
                let beside = SimDisk::new(2);
                let log = Log::open(beside.shared(), Some("/log".into()), || UNIX_EPOCH, false, ReopenLog::default());
                let put_all = |hints: &KeptHints| {
                    for height in 1..6 {
                        let hash = BlockHash::from_bytes([height; 32]);
                        hints.write(&log, |keeper| keeper.put(Height::new(height.into()), &hash, &[height; 9]));
                        hints.write_out(&log);
                    }
                };
                let sim = SimDisk::new(at);
                sim.fail_at(sim.operations() + at, 1, fault);
                let hints = new(&sim);
                put_all(&hints);
                let text =
                    String::from_utf8(beside.open(Path::new("/log")).unwrap().bytes().unwrap().to_vec()).unwrap();
                let said = text.matches("Hints about signatures are no longer kept").count();
                let is_given_up = hints.is_given_up.load(Relaxed);
                assert_eq!(said, usize::from(is_given_up), "{fault:?} at {at}: {text}");
                ended += said;

                let sim = sim.reopen(disk::Loss::Nothing);
                put_all(&new(&sim));
                let next = new(&sim);
                let earlier = next.earlier(&log).expect("they were kept");
                for height in 1..6 {
                    let hash = BlockHash::from_bytes([height; 32]);
                    let bits = earlier.of_block(Height::new(height.into()), &hash, 72).expect("it was kept");
                    assert_eq!(bits.as_bytes(), [height; 9], "{fault:?} at {at}");
                }
            }
        }
        assert!(ended >= 20, "{ended} accidents");
    }
}
