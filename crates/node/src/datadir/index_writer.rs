//! Writing the block index: block and undo data are durable before an entry names them.

use super::Folder;
use crate::fault::Fault;
use store::index::IndexChanges;

impl Folder<'_> {
    /// Writes every entry that changed, and what `extra` does to the flags, in one durable commit; block and undo data
    /// are durable before.
    pub(crate) fn write_index(&self, reindexing: Option<bool>) -> Result<(), Fault> {
        let _one_at_a_time = self.index_write.lock().expect("nobody panics with it");
        // All under one lock: an entry must never name undo data or a block that the infos do not count.
        let (flush, infos, pruned, entries) = {
            let mut writers = self.writers();
            let mut flush = self.with_room(|| writers.undo.begin_flush())?;
            if let Some(blocks) = writers.blocks.as_mut() {
                flush = flush.and(self.with_room(|| blocks.begin_flush())?);
            }
            let entries = self.index.write().take_dirty();
            (flush, writers.infos.take_changed(), writers.is_pruned.then_some(true), entries)
        };
        flush.run()?;
        if entries.is_empty() && infos.is_empty() && reindexing.is_none() && pruned.is_none() {
            return Ok(());
        }
        let last_file = Some(self.writers().infos.last_file());
        let changes = IndexChanges { entries: &entries, files: &infos, last_file, reindexing, pruned };
        self.with_room(|| self.index_db.write(&changes))
    }
}
