//! Rebuilds missing filter files, each filter at its old position.
//!
//! The rows list a file's filters with their hashes; rebuilt ones must match.

use super::Indexing;
use super::part::PartState;
use crate::fault::{Fault, Message};
use crate::reporting::Reporter;
use crate::threads::locks::lock;
use indexes::IndexKind;
use indexes::block::BlockFilter;
use indexes::heights::{self, FilterRow};
use primitives::BlockHash;
use store::indexes::IndexDb;

impl Indexing {
    /// Rebuilds the missing filter files. `make` returns the filter of a block, by its hash and the number of the
    /// filter file; `None` for a block that is no longer known.
    ///
    /// # Errors
    ///
    /// Errors of `make`; a filter that does not match; or an I/O error.
    pub(crate) fn repair_filters(
        &self,
        reporter: &Reporter<'_>,
        make: &dyn Fn(BlockHash, u32) -> Result<Option<BlockFilter>, Fault>,
    ) -> Result<(), Fault> {
        let part = self.parts.iter().find(|part| lock(part).db.kind() == IndexKind::BlockFilter);
        let Some(part) = part else { return Ok(()) };
        let (db, missing) = {
            let part = lock(part);
            let PartState::Filter { files, .. } = &part.state else { return Ok(()) };
            (part.db.clone(), files.missing()?)
        };
        for file in missing {
            let rows = rows_in(&db, file)?;
            let why =
                format!("The file fltr{file:05}.dat is missing or short: its {} filters are made again", rows.len());
            reporter.warn(Message::new(why, "No action is needed: they are built from the blocks"));
            for (hash, row) in rows {
                let Some(made) = make(hash, file)? else { continue };
                if made.hash != row.hash {
                    let wanted = format!("hash {} of the filter of block {hash}", made.hash);
                    return Err(db.bad_record(&heights::hash_key(&hash), wanted, row.hash.to_string()).into());
                }
                let mut part = lock(part);
                let PartState::Filter { files, .. } = &mut part.state else { return Ok(()) };
                reporter.with_room(|| files.restore(row.pos, &hash, &made.bytes))?;
            }
            let part = lock(part);
            let PartState::Filter { files, .. } = &part.state else { return Ok(()) };
            reporter.with_room(|| files.sync_restored(file))?;
        }
        Ok(())
    }
}

/// The rows of the filters in a file, with their blocks.
fn rows_in(db: &IndexDb, file: u32) -> Result<Vec<(BlockHash, FilterRow)>, Fault> {
    let mut rows = Vec::new();
    for prefix in [b't', b's'] {
        let mut records = db.with_prefix(&[prefix])?;
        while let Some((key, value)) = records.next_record()? {
            let bad = |why: primitives::DecodeError| db.bad_record(&key, "a row of a filter", why.to_string());
            let (hash, row) = heights::split_row(&key, &value).map_err(bad)?;
            if row.pos.file == file {
                rows.push((hash, row));
            }
        }
    }
    Ok(rows)
}
