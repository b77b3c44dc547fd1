//! Filters for peers, of blocks whose rows are durable and of those that wait for a commit.

use super::Indexing;
use super::part::{Part, PartState, stored_row};
use crate::threads::locks::lock;
use disk::Disk;
use indexes::IndexKind;
use indexes::heights::FilterRow;
use primitives::{BlockHash, Height};
use std::sync::Mutex;
use store::indexes::read_filter;
use store::{Fault, FaultKind, Layout};

impl Indexing {
    fn filters(&self) -> Option<&Mutex<Part>> {
        self.parts.iter().find(|part| lock(part).db.kind() == IndexKind::BlockFilter)
    }

    /// The row of a block; `None` if the block is not indexed, or the index is not enabled. Waits while rows are
    /// written.
    ///
    /// # Errors
    ///
    /// A damaged table or row, or an I/O error.
    pub(crate) fn served_filter_row(&self, hash: BlockHash, height: Height) -> Result<Option<FilterRow>, Fault> {
        let Some(part) = self.filters() else { return Ok(None) };
        let (waiting, db) = {
            let part = lock(part);
            (part.waiting_filter_row(hash), part.db.clone())
        };
        if waiting.is_some() {
            return Ok(waiting);
        }
        if let Some(row) = stored_row(&db, hash, height, FilterRow::decode)? {
            return Ok(Some(row));
        }
        // A commit may have taken the row and not written it yet.
        let _no_commit = lock(&self.committing);
        stored_row(&db, hash, height, FilterRow::decode)
    }

    /// The filter of a block; `None` as in [`Indexing::served_filter_row`].
    ///
    /// # Errors
    ///
    /// Those of [`Indexing::served_filter_row`]; a filter file that is missing or damaged.
    pub(crate) fn served_filter(
        &self,
        disk: &dyn Disk,
        layout: &Layout,
        hash: BlockHash,
        height: Height,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let (Some(part), Some(row)) = (self.filters(), self.served_filter_row(hash, height)?) else { return Ok(None) };
        if let Part { state: PartState::Filter { files, .. }, .. } = &mut *lock(part) {
            // A filter that was appended just now may still be in the buffer.
            files.write_out()?;
        }
        let (of, filter) = read_filter(disk, layout, row.pos, &row.hash)?;
        if of == hash {
            return Ok(Some(filter));
        }
        let root = store::indexes::root(layout, IndexKind::BlockFilter);
        let file = row.pos.file;
        let advice = store::indexes::rebuild_advice(IndexKind::BlockFilter, &root);
        let found = format!("that of block {of} in fltr{file:05}.dat");
        Err(Fault::new(FaultKind::Damaged, &root, format!("the filter of block {hash}"), found, advice))
    }
}
