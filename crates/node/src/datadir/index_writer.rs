//! Writing the block index: block and undo data are durable before an entry names them.

use super::Folder;
use crate::fault::Fault;
use crate::tree::{Fate, NodeId, Tree, Validity};
use store::index::IndexChanges;
use store::{IndexEntry, Status};

impl Folder<'_> {
    /// Writes every entry that changed, and what `extra` does to the flags, in one durable commit; block and undo data
    /// are durable before.
    pub(crate) fn write_index(&self, reindexing: Option<bool>) -> Result<(), Fault> {
        let _one_at_a_time = self.index_write.lock().expect("nobody panics with it");
        // All under one lock: an entry must never name undo data or a block that the infos do not count.
        let (flush, infos, pruned, ids, entries) = {
            let mut writers = self.writers();
            let mut flush = self.with_room(|| writers.undo.begin_flush())?;
            if let Some(blocks) = writers.blocks.as_mut() {
                flush = flush.and(self.with_room(|| blocks.begin_flush())?);
            }
            let tree = self.tree();
            let (ids, entries): (Vec<NodeId>, Vec<IndexEntry>) =
                tree.ids().filter(|&id| tree.body(id).dirty).map(|id| (id, self.entry(&tree, id))).unzip();
            (flush, writers.infos.take_changed(), writers.is_pruned.then_some(true), ids, entries)
        };
        flush.run()?;
        if entries.is_empty() && infos.is_empty() && reindexing.is_none() && pruned.is_none() {
            return Ok(());
        }
        let last_file = Some(self.writers().infos.last_file());
        let changes = IndexChanges { entries: &entries, files: &infos, last_file, reindexing, pruned };
        self.with_room(|| self.index.write(&changes))?;
        let mut tree = self.tree_mut();
        for (id, written) in ids.into_iter().zip(entries) {
            // What changed while it was being written is written again next time.
            if self.entry(&tree, id) == written {
                tree.written(id);
            }
        }
        Ok(())
    }

    /// What the index says of a block.
    pub(crate) fn entry(&self, tree: &Tree, id: NodeId) -> IndexEntry {
        let body = tree.body(id);
        let height = tree.height(id);
        let mut status = Status(body.validity.level());
        let is_checked = body.validity >= Validity::Transactions;
        let data = body.location().filter(|_| is_checked);
        let undo = body.undo().filter(|_| data.is_some());
        if data.is_some() {
            status = status.with(Status::HAVE_DATA);
        }
        if undo.is_some() {
            status = status.with(Status::HAVE_UNDO);
        }
        if is_checked && height >= self.params.segwit_height {
            status = status.with(Status::OPT_WITNESS);
        }
        if tree.fate(id) != Fate::Open {
            status = status.with(Status::FAILED_VALID);
        }
        IndexEntry {
            hash: tree.hash(id),
            header: tree.header(id),
            height,
            status,
            tx_count: body.transactions,
            file: data.map_or(0, |at| at.file),
            data_offset: data.map_or(0, |at| at.offset),
            undo_offset: undo.map_or(0, |at| at.offset),
        }
    }
}
