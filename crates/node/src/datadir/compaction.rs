//! Compaction of the chainstate beside the blocks, and the free space that writing coins needs.

use super::Folder;
use crate::fault::Fault;
use std::sync::Arc;

/// What stays free beside what is about to be written: as much as Core wants before it goes on.
const SPARE_BYTES: u64 = 50 << 20;

impl Folder<'_> {
    /// Merges a piece, beside others who do, or ends the merge; says whether there may be more to do.
    pub(super) fn merge_some(&self) -> Result<bool, Fault> {
        let lock = || self.merge.lock().expect("nobody panics with it");
        let merge = {
            let mut merge = lock();
            if merge.is_none()
                && let Some(planned) = self.coins.plan_compaction()?
            {
                self.check_room(planned.bytes())?;
                *merge = Some(Arc::new(planned));
            }
            let Some(running) = &*merge else { return Ok(false) };
            Arc::clone(running)
        };
        match merge.step() {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => {
                // Nobody may end it any more; what was written goes with the last handle.
                lock().take_if(|running| Arc::ptr_eq(running, &merge));
                return Err(why.into());
            }
        }
        // Who comes back last ends it. Handles are made under the lock only: with one left beside this there is nobody else.
        let mut running = lock();
        if !running.as_ref().is_some_and(|running| Arc::ptr_eq(running, &merge)) {
            return Ok(true); // Another one found no room.
        }
        drop(merge);
        let done = running.take().expect("just seen");
        match Arc::try_unwrap(done) {
            Ok(done) => done.finish()?,
            Err(busy) => {
                *running = Some(busy);
                return Ok(false);
            }
        }
        self.waits.end(&self.teller);
        Ok(true)
    }

    /// Says no where the disk has less than `bytes` free and some to spare.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), store::Fault> {
        let free = self.disk.free_space_bytes(self.coins.path())?;
        let wanted = bytes.saturating_add(SPARE_BYTES);
        if free >= wanted {
            return Ok(());
        }
        let (wanted, found) = (format!("{wanted} bytes of room for coins"), format!("{free} bytes free"));
        let advice = "Make room; the work goes on by itself";
        Err(store::Fault::new(store::FaultKind::NoSpace, self.coins.path(), wanted, found, advice))
    }
}
