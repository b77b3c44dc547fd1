//! Writes blocks, undo data, and the index on disk that names them: everything except the coins.
//!
//! The durability order is enforced only here: block and undo data are synced before an index entry that names them is
//! written. One lock guards the append state. It is held while bytes are appended, but never while the disk syncs, the
//! index is written, or the job waits for disk space.
//!
//! Absent on purpose: formats (`store`), the choice of blocks (`datadir`), coins (`coins_io`).

use crate::chain::index::{BlockIndex, Replacement, SharedIndex, Uncounted, Validity};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::reporting::Reporter;
use crate::threads::locks::{lock, wait};
use primitives::Height;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use store::Host;
use store::blockfiles::{BlockAt, BlockWriter, Flush, Limits};
use store::index::{BlockTreeDb, IndexChanges};
use store::presence::Presence;
use store::prune::Selection;
use store::undofiles::UndoWriter;
use store::{FileEnd, FileInfo, FileInfos, FilePos, IndexEntry, Network, xor};

/// Location and format of the block files.
#[derive(Clone, Debug)]
pub(crate) struct BlockFileSetup {
    pub(crate) host: Host,
    pub(crate) blocks_dir: PathBuf,
    pub(crate) network: Network,
    pub(crate) key: xor::Key,
    pub(crate) limits: Limits,
}

/// The only writer of blocks, undo data and the index on disk.
#[derive(Debug)]
pub(crate) struct Writer {
    setup: BlockFileSetup,
    db: BlockTreeDb,
    index: Arc<SharedIndex>,
    state: Mutex<WriterState>,
    /// Bytes of all files in use when the state was last unlocked: readers do not wait for an append.
    used_bytes: AtomicU64,
    presence: Presence,
    /// Signals that a commit of the index ended.
    committed: Condvar,
}

#[derive(Debug)]
struct WriterState {
    infos: FileInfos,
    undo: UndoWriter,
    /// Created when the first block is appended.
    blocks: Option<BlockWriter>,
    /// Set while a snapshot is not validated: blocks above its base go to separate files.
    above: Option<Above>,
    /// The index on disk says that block files were pruned, or the next commit will.
    is_pruned: bool,
    /// The pruning flag was removed in memory: the next commit resets it on disk.
    is_whole_again: bool,
    /// The index is being written: older entries must never overwrite newer ones.
    is_committing: bool,
}

/// Writer of the blocks above a snapshot's base.
#[derive(Debug)]
struct Above {
    base: Height,
    blocks: BlockWriter,
}

impl WriterState {
    /// All writers of blocks.
    fn writers(&mut self) -> impl Iterator<Item = &mut BlockWriter> {
        self.blocks.iter_mut().chain(self.above.as_mut().map(|above| &mut above.blocks))
    }

    fn blocks(&mut self, setup: &BlockFileSetup) -> store::Result<&mut BlockWriter> {
        if self.blocks.is_none() {
            let BlockFileSetup { host, blocks_dir, network, key, limits } = setup;
            self.blocks = Some(BlockWriter::new(host, blocks_dir, network, *key, &self.infos, *limits)?);
        }
        Ok(self.blocks.as_mut().expect("just made"))
    }
}

/// The state, locked.
struct Locked<'w> {
    state: MutexGuard<'w, WriterState>,
    used_bytes: &'w AtomicU64,
}

impl Deref for Locked<'_> {
    type Target = WriterState;

    fn deref(&self) -> &WriterState {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut WriterState {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.used_bytes.store(self.state.infos.used_bytes(), Relaxed);
    }
}

/// A commit of the index in progress, which ends when this is dropped.
struct Commit<'w>(&'w Writer);

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        // Also after a panic of an appending thread: other threads must see the poisoned lock instead of waiting here.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).is_committing = false;
        self.0.committed.notify_one();
    }
}

impl Writer {
    /// A writer that continues where the files end according to `infos`.
    ///
    /// # Errors
    ///
    /// The directory of block files cannot be read.
    pub(crate) fn new(
        setup: BlockFileSetup,
        db: BlockTreeDb,
        index: Arc<SharedIndex>,
        infos: FileInfos,
    ) -> store::Result<Writer> {
        let presence = Presence::new(setup.host.disk.clone(), &setup.blocks_dir)?;
        let undo = UndoWriter::new(&setup.host, &setup.blocks_dir, &setup.network, setup.key);
        let state = WriterState {
            infos,
            undo,
            blocks: None,
            above: None,
            is_pruned: false,
            is_whole_again: false,
            is_committing: false,
        };
        let used_bytes = AtomicU64::new(state.infos.used_bytes());
        Ok(Writer { setup, db, index, state: Mutex::new(state), used_bytes, presence, committed: Condvar::new() })
    }

    fn lock(&self) -> Locked<'_> {
        Locked { state: lock(&self.state), used_bytes: &self.used_bytes }
    }

    /// Whether the index on disk says that block files were pruned, or the next commit will.
    pub(crate) fn is_pruned(&self) -> bool {
        self.lock().is_pruned
    }

    /// Sets whether block files count as pruned in the index on disk.
    pub(crate) fn set_pruned(&self, is_pruned: bool) {
        let mut state = self.lock();
        state.is_whole_again = state.is_pruned && !is_pruned;
        state.is_pruned = is_pruned;
    }

    /// Bytes of block and undo files that are in use. Takes no lock.
    pub(crate) fn usage_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Appends a block to the block files.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn append_block(
        &self,
        reporter: &Reporter<'_>,
        block: &[u8],
        height: Height,
        time: u32,
    ) -> Result<FilePos, Fault> {
        reporter.with_room(|| {
            let mut state = self.lock();
            state.blocks(&self.setup)?;
            let WriterState { infos, blocks, above, .. } = &mut *state;
            let below = blocks.as_mut().expect("just made");
            match above.as_mut().filter(|above| height > above.base) {
                Some(above) => {
                    above.blocks.note_greatest(below.greatest());
                    above.blocks.append(infos, block, height, time)
                }
                None => {
                    above.iter().for_each(|above| below.note_greatest(above.blocks.greatest()));
                    below.append(infos, block, height, time)
                }
            }
        })
    }

    /// Starts a new file for the next block after all others, unless a block was appended before.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn begin_new_file(&self, reporter: &Reporter<'_>) -> Result<(), Fault> {
        let mut is_new = None;
        reporter.with_room(|| {
            let mut state = self.lock();
            let is_new = *is_new.get_or_insert(state.blocks.is_none());
            let blocks = state.blocks(&self.setup)?;
            if is_new { blocks.start_new_file() } else { Ok(()) }
        })
    }

    /// Keeps blocks above a height in separate files from those up to it, as Core does while a snapshot is not
    /// validated. Each kind continues in its own last file, or in a new one.
    ///
    /// # Errors
    ///
    /// An I/O error.
    ///
    /// Source: Bitcoin Core b88bffe, `BlockManager::BlockfileTypeForHeight`, `FindNextBlockPos`.
    pub(crate) fn keep_apart(&self, reporter: &Reporter<'_>, base: Height) -> Result<(), Fault> {
        reporter.with_room(|| -> store::Result<()> {
            let mut state = self.lock();
            if state.above.is_some() {
                return Ok(());
            }
            // The writer flushes its appended blocks; two new writers replace it.
            if let Some(blocks) = state.blocks.as_mut() {
                blocks.flush()?;
            }
            state.blocks = None;
            let of_kind = |infos: &FileInfos, is_above: bool| {
                let is_of = |info: &FileInfo| info.size > 0 && (info.height_last > base) == is_above;
                infos.all().iter().rposition(is_of)
            };
            let BlockFileSetup { host, blocks_dir, network, key, limits } = &self.setup;
            let make = |infos: &FileInfos| BlockWriter::new(host, blocks_dir, network, *key, infos, *limits);
            let is_empty = state.infos.all().iter().all(|info| info.size == 0);
            let mut below = make(&state.infos)?;
            let mut blocks = make(&state.infos)?;
            match of_kind(&state.infos, false) {
                Some(file) => below.go_on_in(file as u32),
                None if is_empty => {}
                None => below.start_new_file()?,
            }
            match of_kind(&state.infos, true) {
                Some(file) => blocks.go_on_in(file as u32),
                None => {
                    blocks.note_greatest(below.greatest());
                    blocks.start_new_file()?;
                }
            }
            state.blocks = Some(below);
            state.above = Some(Above { base, blocks });
            Ok(())
        })
    }

    /// Ends that separation, because the snapshot is validated or no longer used: blocks of any height go to the last
    /// file.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn keep_together(&self, reporter: &Reporter<'_>) -> Result<(), Fault> {
        reporter.with_room(|| -> store::Result<()> {
            let mut state = self.lock();
            for blocks in state.writers() {
                blocks.flush()?;
            }
            (state.blocks, state.above) = (None, None);
            Ok(())
        })
    }

    /// Appends an undo record to the undo file with this number; returns its offset.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn append_undo(&self, reporter: &Reporter<'_>, file: u32, record: &[u8]) -> Result<u32, Fault> {
        reporter.with_room(|| {
            let WriterState { infos, undo, .. } = &mut *self.lock();
            undo.append(infos, file, record)
        })
    }

    /// Writes appended blocks to the operating system, so that readers see them.
    ///
    /// # Errors
    ///
    /// An I/O error, a full disk included.
    pub(crate) fn write_out_blocks(&self) -> store::Result<()> {
        self.lock().writers().try_for_each(BlockWriter::write_out)
    }

    /// Writes appended undo data to the operating system, so that readers see it.
    ///
    /// # Errors
    ///
    /// An I/O error, a full disk included.
    pub(crate) fn write_out_undo(&self) -> store::Result<()> {
        self.lock().undo.write_out()
    }

    /// Fails if a block or undo file that the index refers to was removed or moved since the last call.
    ///
    /// # Errors
    ///
    /// Such a file was removed or moved; an I/O error.
    pub(crate) fn check_files(&self) -> store::Result<()> {
        let gone = self.presence.look()?;
        gone.check(&self.lock().infos)
    }

    /// Writes every changed entry and file info, and `reindexing` to its flag, in one durable commit. Block and undo
    /// data are made durable first. Changes made meanwhile are written by the next commit, and so are all of a commit that
    /// failed.
    ///
    /// # Errors
    ///
    /// An I/O error; a file that the index refers to is missing.
    pub(crate) fn commit(&self, reporter: &Reporter<'_>, reindexing: Option<bool>) -> Result<(), Fault> {
        let _commit = self.begin_commit();
        self.check_files()?;
        let mut flush = Flush::default();
        // All this is done under one lock, because an entry must never name undo data or a block that the infos do not
        // include.
        let (infos, last_file, pruned, entries) = reporter.with_room(|| -> store::Result<_> {
            let mut state = self.lock();
            let WriterState { infos, undo, .. } = &mut *state;
            undo.create(infos, infos.last_file())?;
            flush.add(undo.begin_flush()?);
            for blocks in state.writers() {
                flush.add(blocks.begin_flush()?);
            }
            let mut index = self.index.write();
            let entries = index.take_dirty();
            for Uncounted { at, size, height, time } in index.take_uncounted() {
                state.infos.add_existing(at, size, height, time);
            }
            drop(index);
            let pruned = (state.is_pruned || state.is_whole_again).then_some(state.is_pruned);
            Ok((state.infos.take_changed(), state.infos.last_file(), pruned, entries))
        })?;
        let changes = IndexChanges { entries: &entries, files: &infos, last_file: Some(last_file), reindexing, pruned };
        let written = self.write(reporter, flush, &changes);
        match &written {
            Err(_) => self.give_back(&entries, &infos),
            Ok(()) if pruned == Some(false) => self.lock().is_whole_again = false,
            Ok(()) => {}
        }
        written
    }

    /// Leaves the changes of a commit that failed to the next one: another thread may wait for its turn, and must not
    /// take them for written.
    fn give_back(&self, entries: &[IndexEntry], infos: &[(u32, FileInfo)]) {
        let mut state = self.lock();
        self.index.write().mark_unwritten(entries);
        state.infos.mark_changed(infos.iter().map(|(file, _)| *file));
    }

    /// Makes block and undo data durable, then the changes of the index, unless there are none.
    fn write(&self, reporter: &Reporter<'_>, flush: Flush, changes: &IndexChanges<'_>) -> Result<(), Fault> {
        flush.run()?;
        let IndexChanges { entries, files, reindexing, pruned, .. } = changes;
        if entries.is_empty() && files.is_empty() && reindexing.is_none() && pruned.is_none() {
            return Ok(());
        }
        reporter.with_room(|| self.db.write(changes))
    }

    fn begin_commit(&self) -> Commit<'_> {
        let mut state = lock(&self.state);
        while state.is_committing {
            state = wait(&self.committed, state);
        }
        state.is_committing = true;
        Commit(self)
    }

    /// Completes pending LevelDB work.
    ///
    /// # Errors
    ///
    /// An I/O error, a full disk included.
    pub(crate) fn settle(&self) -> store::Result<()> {
        self.db.settle()
    }

    /// The files that pruning by `select` would remove.
    pub(crate) fn select(&self, select: impl FnOnce(&[FileInfo], &BlockIndex) -> Selection) -> Selection {
        let state = self.lock();
        select(state.infos.all(), &self.index.read())
    }

    /// Selects files with `select`, and removes their blocks from the index; `None` if no file may be removed. Later
    /// commits of the index are consistent: entries, infos and flag change under one lock.
    pub(crate) fn prune(&self, select: impl FnOnce(&[FileInfo], &BlockIndex) -> Selection) -> Option<Selection> {
        let mut state = self.lock();
        let mut selected = select(state.infos.all(), &self.index.read());
        // While two kinds of blocks are kept in separate files, the current file need not be the last one.
        let current: Vec<u32> = state.writers().map(|blocks| blocks.current()).collect();
        selected.files.retain(|file| !current.contains(file));
        if selected.files.is_empty() {
            return None;
        }
        self.index.write().pruned(|file| selected.files.binary_search(&file).is_ok());
        selected.files.iter().for_each(|&file| state.infos.prune(file));
        state.is_pruned = true;
        Some(selected)
    }

    /// Closes undo files that are about to be removed: an open file keeps its disk space.
    pub(crate) fn forget_undo(&self, files: &[u32]) {
        self.lock().undo.forget(files);
    }

    /// See [`BlockIndex::body_lost`]; blocks found inside the damaged record are added to the infos of their files.
    pub(crate) fn body_lost(&self, node: NodeId, inside: &[(NodeId, BlockAt)]) -> Replacement {
        let mut state = self.lock();
        let mut index = self.index.write();
        let replacement = index.body_lost(node, inside);
        for &(id, at) in &replacement.first {
            if let Some(pos) = at.file_pos() {
                let headers = index.headers();
                state.infos.add_existing(pos, at.size, headers.height(id), headers.time(id));
            }
        }
        replacement
    }

    /// See [`BlockIndex::bodies_lost`].
    pub(crate) fn bodies_lost(&self, lost: &[NodeId]) {
        // A commit must not see a part of the change.
        let _state = self.lock();
        self.index.write().bodies_lost(lost);
    }

    /// Recomputes the file infos from the blocks that the index names, as Core does, which counts a block when it
    /// accepts it. The ends of the files stay, so that records without an index entry are not overwritten.
    pub(crate) fn recount_files(&self) {
        let mut state = self.lock();
        let mut index = self.index.write();
        index.all_counted();
        let headers = index.headers();
        let is_named = |&(id, _, _): &(NodeId, FilePos, u32)| index.body(id).validity() >= Validity::Transactions;
        let named = index.places().filter(is_named);
        state.infos.recount(named.map(|(id, at, size)| (at, size, headers.height(id), headers.time(id))));
    }

    /// Adds the blocks in use to the file infos, which start from the undo data in the files. Other data before the
    /// files' `ends` must not be overwritten either.
    pub(crate) fn count_files(&self, ends: &[FileEnd]) {
        let mut state = self.lock();
        let mut index = self.index.write();
        index.all_counted();
        for (id, at, size) in index.places() {
            state.infos.add_existing(at, size, index.headers().height(id), index.headers().time(id));
        }
        drop(index);
        state.infos.cover_all(ends);
    }

    /// Raises the end of each file to at least these ends: see [`FileInfos::cover_all`]. Files in `cut` have only these
    /// bytes. Returns whether the infos changed.
    pub(crate) fn cover_files(&self, ends: &[FileEnd], cut: &[FileEnd]) -> bool {
        let mut state = self.lock();
        cut.iter().for_each(|end| state.infos.cut(end.file, end.written));
        state.infos.cover_all(ends);
        state.infos.has_changes()
    }

    /// Bytes in use of each block file, according to the infos.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        self.lock().infos.all().iter().map(|info| info.size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datadir::lock::network;
    use crate::reporting::log::Log;
    use consensus::{Chain, Params};
    use disk::{Disk, Fault as Accident, Loss, SimDisk};
    use primitives::Header;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use store::Layout;
    use store::blockfiles::BlockFiles;
    use testkit::blocks;

    const BLOCKS: u32 = 3;
    const KEY: xor::Key = [1, 2, 3, 4, 5, 6, 7, 8];

    fn layout() -> Layout {
        Layout::new(Path::new("/d"), "regtest", None)
    }

    /// A writer whose index on the disk has only the genesis block.
    fn writer(sim: &SimDisk, params: &Params, reporter: &Reporter<'_>) -> Writer {
        layout().create(sim).unwrap();
        sim.sync_dir(Path::new("/")).unwrap();
        let limits = Limits { file_bytes_max: 1 << 20, chunk_bytes: 1_000 };
        let blocks_dir = layout().blocks_dir().to_path_buf();
        let setup =
            BlockFileSetup { host: Host::from(sim.shared()), blocks_dir, network: network(params), key: KEY, limits };
        let index = Arc::new(SharedIndex::new(BlockIndex::new(params)));
        let db = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
        let writer = Writer::new(setup, db, index, FileInfos::default()).unwrap();
        writer.commit(reporter, None).unwrap();
        writer
    }

    fn put_block(writer: &Writer, params: &Params, block: &[u8], height: u32, reporter: &Reporter<'_>) {
        let header = Header(*block.first_chunk().unwrap());
        let now = i64::from(header.time());
        let id = writer.index.write().accept(params, &header, header.hash(), now).unwrap();
        let at = writer.append_block(reporter, block, Height::new(height), header.time()).unwrap();
        let place = BlockAt { file: at.file, offset: u64::from(at.offset), size: block.len() as u32 };
        let mut index = writer.index.write();
        index.found(id, place);
        index.checked(id, 1);
    }

    /// All blocks are in the index on the disk, and where it says.
    fn check_left(sim: &SimDisk, params: &Params, chain: &[Vec<u8>], row: &str) {
        let loaded = BlockTreeDb::open_read_only(sim.shared(), &layout()).unwrap().load(&network(params)).unwrap();
        assert_eq!(loaded.entries.len(), chain.len(), "{row}");
        assert_eq!(loaded.files.first().map(|info| info.blocks), Some(BLOCKS), "{row}");
        let files = BlockFiles::new(sim.shared(), layout().blocks_dir(), &network(params), KEY);
        for entry in loaded.entries.iter().filter(|entry| entry.height > Height::GENESIS) {
            let at = entry.data().unwrap_or_else(|| panic!("{row}: {} has no place", entry.height));
            let bytes = files.read_block(at).unwrap_or_else(|why| panic!("{row}: {why}"));
            assert_eq!(blocks::hash_of(&bytes), entry.hash, "{row}");
        }
    }

    /// A commit waited for one that failed: what it calls written is on the disk.
    #[test]
    fn a_commit_writes_what_a_failed_one_took() {
        let params = Params::new(Chain::Regtest);
        let chain = blocks::chain(&params.genesis, BLOCKS);
        // Nothing waits for space.
        let stop = AtomicBool::new(true);
        let reporter = Reporter::new(&|_| (), Log::none(), &stop);
        for accident in [Accident::Io, Accident::NoSpace] {
            let mut went_on = 0;
            for at in 0.. {
                let row = format!("{accident:?} at {at}");
                let sim = SimDisk::new(at);
                let writer = writer(&sim, &params, &reporter);
                for (height, block) in (0..).zip(&chain).skip(1) {
                    put_block(&writer, &params, block, height, &reporter);
                }
                let fails_at = sim.operations() + at;
                sim.fail_at(fails_at, 1, accident);
                let first = writer.commit(&reporter, None);
                let was_met = sim.operations() > fails_at;
                let second = writer.commit(&reporter, None);
                if second.is_ok() {
                    check_left(&sim.reopen(Loss::Unsynced), &params, &chain, &row);
                    went_on += usize::from(first.is_err());
                }
                if !was_met {
                    first.unwrap();
                    break;
                }
                assert!(at < 200, "{row}: a commit has fewer operations");
            }
            assert!(went_on > 3, "{accident:?}: {went_on}");
        }
    }
}
