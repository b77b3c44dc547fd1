//! Blocks that ffwd itself found invalid, kept over restarts in a private file, `ffwd/refused`.
//!
//! The index on disk uses the same mark for a broken rule and for `invalidateblock`. This file keeps the cause, so that
//! a chain with an invalid block is not reported as a better chain, before and after a restart.
//!
//! File: hashes [u8; 32], concatenated, in the order in which the headers arrived
//!
//! Losing the file is harmless: the marks then count as set by the user, and are reported with advice.

use crate::chain::index::SharedIndex;
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::reporting::Reporter;
use crate::threads::locks::lock;
use primitives::BlockHash;
use std::collections::BTreeSet;
use std::sync::Mutex;
use store::private_files::PrivateDir;

const NAME: &str = "refused";
const HASH_BYTES: usize = 32;
/// Maximum number of stored blocks; the latest headers are kept. Each costs its creator proof of work.
const COUNT_MAX: usize = 1_000;

/// The file of invalid blocks.
#[derive(Debug)]
pub(crate) struct RefusedFile {
    dir: PrivateDir,
    /// Contents of the file; `None` before they are known.
    kept: Mutex<Option<BTreeSet<NodeId>>>,
}

impl RefusedFile {
    pub(crate) fn new(dir: PrivateDir) -> RefusedFile {
        RefusedFile { dir, kept: Mutex::default() }
    }

    /// Loads the blocks that earlier runs found invalid into the index. A file that is too large, truncated or
    /// unreadable is ignored.
    pub(crate) fn load(&self, index: &SharedIndex) {
        let Ok(bytes) = self.dir.read(NAME, COUNT_MAX * HASH_BYTES) else { return };
        let bytes = bytes.unwrap_or_default();
        let (hashes, []) = bytes.as_chunks::<HASH_BYTES>() else { return };
        let mut index = index.write();
        hashes.iter().for_each(|hash| index.load_refused(&BlockHash::from_bytes(*hash)));
        if index.refused().len() == hashes.len() {
            *lock(&self.kept) = Some(index.refused().clone());
        }
    }

    /// Writes the index's invalid blocks if they changed. Call this before writing the marks: a mark without its cause
    /// counts as set by the user. Does not wait for space on a full disk.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn keep(&self, index: &SharedIndex, reporter: &Reporter<'_>) -> Result<(), Fault> {
        let mut kept = lock(&self.kept);
        let (refused, bytes) = {
            let index = index.read();
            let refused = index.refused();
            if kept.as_ref() == Some(refused) {
                return Ok(());
            }
            let last = refused.iter().skip(refused.len().saturating_sub(COUNT_MAX));
            let bytes: Vec<u8> = last.flat_map(|&id| index.headers().hash(id).to_bytes()).collect();
            (refused.clone(), bytes)
        };
        let consequence = "Why blocks are marked as invalid is not kept: the next run names these marks";
        reporter.if_room(consequence, || match &bytes[..] {
            [] => self.dir.remove(NAME),
            bytes => self.dir.write(NAME, bytes),
        })?;
        *kept = Some(refused);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::index::BlockIndex;
    use crate::chain::testing::Chains;
    use crate::reporting::log::Log;
    use disk::SimDisk;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn file(disk: &SimDisk) -> RefusedFile {
        RefusedFile::new(PrivateDir::new(Arc::new(disk.clone()), PathBuf::from("/ffwd")))
    }

    /// An index with a chain whose third block is marked.
    fn marked() -> (BlockIndex, Vec<NodeId>) {
        let mut chains = Chains::new();
        let main = chains.grow(None, 5);
        chains.mark(main[2]);
        (chains.into_index(), main)
    }

    #[test]
    fn what_broke_a_rule_is_known_after_a_restart() {
        let disk = SimDisk::new(0);
        let stop = AtomicBool::new(false);
        let reporter = Reporter::new(&|_| (), Log::none(), &stop);
        let (index, main) = marked();
        let index = SharedIndex::new(index);
        let first = file(&disk);
        first.load(&index);
        first.keep(&index, &reporter).unwrap();
        assert!(index.read().refused().is_empty(), "a mark alone says nothing");
        index.write().refuse(main[2]);
        first.keep(&index, &reporter).unwrap();
        let before = disk.operations();
        first.keep(&index, &reporter).unwrap();
        assert_eq!(disk.operations(), before, "it is no news");
        let again = SharedIndex::new(marked().0);
        file(&disk).load(&again);
        assert_eq!(*again.read().refused(), BTreeSet::from([main[2]]));
        // The mark is removed: the next run loads no invalid block.
        again.write().reconsider(main[2]);
        file(&disk).keep(&again, &reporter).unwrap();
        let last = SharedIndex::new(marked().0);
        file(&disk).load(&last);
        assert!(last.read().refused().is_empty());
    }

    #[test]
    fn a_file_that_is_no_list_of_hashes_is_none() {
        for bytes in [vec![7; 31], vec![7; 33], vec![7; COUNT_MAX * HASH_BYTES + HASH_BYTES], vec![7; 64]] {
            let disk = SimDisk::new(0);
            let file = file(&disk);
            file.dir.write(NAME, &bytes).unwrap();
            let index = SharedIndex::new(marked().0);
            file.load(&index);
            assert!(index.read().refused().is_empty(), "{} bytes", bytes.len());
        }
    }

    #[test]
    fn a_full_disk_is_not_waited_for() {
        let disk = SimDisk::new(0);
        let stop = AtomicBool::new(false);
        let said = Mutex::new(0);
        let events = |_| *said.lock().unwrap() += 1;
        let reporter = Reporter::new(&events, Log::none(), &stop);
        let (mut index, main) = marked();
        index.refuse(main[2]);
        disk.fail_at(disk.operations(), u64::MAX / 2, disk::Fault::NoSpace);
        file(&disk).keep(&SharedIndex::new(index), &reporter).unwrap();
        drop(reporter);
        assert_eq!(said.into_inner().unwrap(), 1, "it is said");
    }
}
