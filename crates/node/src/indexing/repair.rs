//! Files of filters that are missing: made again from the blocks, each filter where it lay.
//!
//! The rows say which filters a file held, and their hashes; what is made must have them.

use super::Indexing;
use super::part::PartState;
use crate::datadir::DataDir;
use crate::fault::Fault;
use crate::locks::lock;
use indexes::heights::{self, FilterRow};
use indexes::{IndexKind, Wanted};
use primitives::BlockHash;
use store::indexes::IndexDb;

impl DataDir<'_> {
    /// Makes the missing files of filters again.
    ///
    /// # Errors
    ///
    /// A block whose filter lay there cannot be read; or what the system says.
    pub(super) fn repair_filters(&self, indexing: &Indexing) -> Result<(), Fault> {
        let part = indexing.parts.iter().find(|part| lock(part).db.kind() == IndexKind::BlockFilter);
        let Some(part) = part else { return Ok(()) };
        let mut part = lock(part);
        let db = part.db.clone();
        let PartState::Filter { files, .. } = &mut part.state else { return Ok(()) };
        for file in files.missing()? {
            let rows = rows_in(&db, file)?;
            self.reporter.warn(format!(
                "The file fltr{file:05}.dat is missing or short: its {} filters are made again from the blocks",
                rows.len()
            ));
            for (hash, row) in rows {
                let Some(node) = self.headers().find(&hash) else { continue };
                if self.index.read().body(node).location().is_none() {
                    return Err(Fault::refused(format!(
                        "fltr{file:05}.dat is missing, and block {hash}, whose filter lay there, is pruned: put the file back, or \
                         remove the directory indexes/blockfilter and download the whole blockchain again"
                    )));
                }
                let wanted = Wanted { filter: true, ..Wanted::default() };
                let (_, records) = self.index_block(node, &wanted)?;
                let made = records.filter.expect("it was asked for");
                if made.hash != row.hash {
                    let wanted = format!("hash {} of the filter of block {hash}", made.hash);
                    return Err(db.bad_record(&heights::hash_key(&hash), wanted, row.hash.to_string()).into());
                }
                self.with_room(|| files.restore(row.pos, &hash, &made.bytes))?;
            }
            self.with_room(|| files.sync_restored(file))?;
        }
        Ok(())
    }
}

/// The rows of the filters that lie in a file, with their blocks.
fn rows_in(db: &IndexDb, file: u32) -> Result<Vec<(BlockHash, FilterRow)>, Fault> {
    let mut rows = Vec::new();
    for prefix in [b't', b's'] {
        let mut records = db.with_prefix(&[prefix])?;
        while let Some((key, value)) = records.next_record()? {
            let bad = |why: primitives::DecodeError| db.bad_record(&key, "a row of a filter", why.to_string());
            let (hash, row) = if prefix == b't' {
                heights::split_value(&value).map_err(bad)?
            } else {
                let hash = key.get(1..).and_then(|hash| hash.try_into().ok());
                let hash = hash.ok_or_else(|| db.bad_record(&key, "the hash of a block", "another length"))?;
                (BlockHash::from_bytes(hash), &value[..])
            };
            let row = FilterRow::decode(row).map_err(bad)?;
            if row.pos.file == file {
                rows.push((hash, row));
            }
        }
    }
    Ok(rows)
}
