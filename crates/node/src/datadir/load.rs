//! Loads an index from disk into the one in memory: all of it, or the results of an interrupted reindex.

use super::DataDir;
use crate::chain::tree::{GENESIS, NodeId, Tree};
use crate::fault::Fault;
use primitives::{BlockHash, Header, Height};
use std::path::PathBuf;
use store::blockfiles::BlockAt;
use store::index::LoadedIndex;

impl DataDir<'_> {
    /// Adds the headers of an older index, so that they are not lost.
    pub(crate) fn keep_headers(&self, entries: &[store::IndexEntry]) {
        let mut index = self.index.write();
        for entry in entries {
            index.insert_known(entry);
        }
    }

    /// Adds the headers that were saved when this reindex began.
    ///
    /// # Errors
    ///
    /// An I/O error of their file.
    pub(crate) fn keep_bare_headers(&self, now: i64) -> Result<(), Fault> {
        for header in store::reindex::kept_headers(&self.disk, &self.layout)? {
            // Invalid headers are skipped: the file is not Core's, and has no checksum.
            let _ = self.index.write().accept(self.params, &header, header.hash(), now);
        }
        Ok(())
    }

    /// Takes over places and marks of blocks from the index of an interrupted run, after verifying each place. They
    /// take precedence over the scan's places: the interrupted run found a damaged record, and searched for blocks
    /// inside it.
    /// # Errors
    ///
    /// A block file that cannot be read.
    pub(crate) fn keep_work(&self, loaded: &LoadedIndex) -> Result<(), Fault> {
        for entry in &loaded.entries {
            let (Some(id), Some(at)) = (self.headers().find(&entry.hash), entry.data()) else { continue };
            let known = self.index.read().body(id).location();
            if known != Some(at) {
                let Some(found) = self.files.probe(at)?.filter(|found| found.hash == entry.hash) else { continue };
                let scanned = self.place(id);
                self.index.write().prefer(id, found.location);
                if let Some(scanned) = scanned {
                    let inside = self.blocks_inside(scanned)?;
                    self.index.write().found_all(&inside);
                }
            }
            self.index.write().load_checked(id, entry);
        }
        Ok(())
    }

    /// The block from which the chain is built, in a loaded index.
    ///
    /// # Errors
    ///
    /// The index does not have the coins' best block as a connected block, nor as the base of their snapshot: it is older
    /// than the coins, or an interrupted repair left one that has only headers.
    pub(crate) fn stand(&self, best: Option<BlockHash>) -> Result<NodeId, Fault> {
        let index = self.index.read();
        let start = start_of(index.headers(), best);
        let snapshot = self.assumed.filter(|assumed| assumed.is_on_snapshot());
        let start = start.filter(|&id| snapshot.is_some_and(|it| it.base == id) || index.was_connected(id));
        start.ok_or_else(|| apart(best.unwrap_or_default()))
    }

    /// Fails if the coins depend on blocks that are missing from the files, or not marked as connected in the index.
    ///
    /// # Errors
    ///
    /// Names such a block, and the remedy.
    pub(crate) fn check_connected(&self, tip: NodeId) -> Result<(), Fault> {
        let broken = self.index.read().first_unconnected(tip, GENESIS);
        let Some(id) = broken else { return Ok(()) };
        let (height, hash) = self.height_and_hash(id);
        let wanted = format!("block {hash} at height {height}, which the chainstate's best block builds on");
        let advice = "Put the block file back that this reindex began with; or remove the directory chainstate, and ffwd reindex begins again with the files that are there";
        let dir = self.layout.blocks_dir();
        let found = "no such block where the index says";
        Err(store::Fault::new(store::FaultKind::Missing, dir, wanted, found, advice).into())
    }

    /// Loads a whole index unchanged: headers, places, marks.
    ///
    /// # Errors
    ///
    /// A block that is not at its place according to the index, or a block file that cannot be read.
    pub(crate) fn take_index(&self, loaded: &LoadedIndex) -> Result<(), Fault> {
        let lost = self.load_index(loaded)?;
        self.check_none_lost(&lost)
    }

    /// Fails if a block is not at its place: see [`DataDir::load_index`].
    ///
    /// # Errors
    ///
    /// Names the first such block.
    pub(crate) fn check_none_lost(&self, lost: &[NodeId]) -> Result<(), Fault> {
        lost.first().map_or(Ok(()), |&id| Err(self.not_at_its_place(id)))
    }

    /// Like [`DataDir::take_index`], but returns the blocks that are not at their places.
    ///
    /// # Errors
    ///
    /// A block file that cannot be read.
    pub(crate) fn load_index(&self, loaded: &LoadedIndex) -> Result<Vec<NodeId>, Fault> {
        let count = loaded.entries.len();
        // Reserves spare capacity for the blocks of the next weeks, because growing later would double the memory.
        self.index.write().reserve(count + count / 64);
        let mut lost = Vec::new();
        for entry in &loaded.entries {
            let Some(id) = self.index.write().load(entry) else { continue };
            let Some(at) = entry.data() else { continue };
            // The index on disk has no sizes.
            match self.files.probe(at)?.filter(|found| found.hash == entry.hash) {
                Some(found) => self.index.write().loaded_body(id, found.location.size),
                None => lost.push(id),
            }
        }
        Ok(lost)
    }

    /// Fails if the genesis block is lost, or one that these blocks build on, or one of them.
    ///
    /// # Errors
    ///
    /// Names such a block.
    pub(crate) fn check_none_needed(&self, lost: &[NodeId], by: &[Option<BlockHash>]) -> Result<(), Fault> {
        let needed = {
            let tree = self.headers();
            let tops: Vec<NodeId> = by.iter().flatten().filter_map(|hash| tree.find(hash)).chain([GENESIS]).collect();
            lost.iter().copied().find(|&id| tops.iter().any(|&top| tree.is_ancestor(id, top)))
        };
        needed.map_or(Ok(()), |id| Err(self.not_at_its_place(id)))
    }

    /// Forgets the places of lost blocks that are not connected, so that those on the best chain are downloaded again:
    /// the machine lost power after the index was written, and before the blocks were; or their file is lost, and they
    /// are off the chain.
    pub(crate) fn forget_lost(&self, lost: &[NodeId]) {
        let Some(&first) = lost.first() else { return };
        let (height, hash) = self.height_and_hash(first);
        let (path, offset) = self.path_and_offset(first);
        self.reporter.note(format!(
            "{} blocks are not in the block files where the index says, and not connected: they are looked for in the files, \
             and downloaded if the best chain needs them. The first is {hash} at height {height} ({} byte {offset})",
            lost.len(),
            path.display()
        ));
        for &id in lost {
            let (path, offset) = self.path_and_offset(id);
            self.reporter.shortfall.damaged(path, offset, Some(id));
        }
        self.writer.bodies_lost(lost);
    }

    /// The fault for a block that is not where the index says.
    fn not_at_its_place(&self, id: NodeId) -> Fault {
        let (path, offset) = self.path_and_offset(id);
        let hash = self.headers().hash(id);
        let advice = "A block was lost, or index and block files do not belong together: run ffwd repair, which fetches only what is lost";
        let fault = store::Fault::new(store::FaultKind::Damaged, &path, format!("block {hash}"), "none there", advice);
        fault.at_offset(offset).into()
    }

    /// The file of a block and the place in it, according to the index.
    pub(crate) fn path_and_offset(&self, id: NodeId) -> (PathBuf, u64) {
        let at = self.place(id);
        (at.map_or(self.layout.blocks_dir().to_path_buf(), |at| self.files.path(at.file)), at.map_or(0, |at| at.offset))
    }

    /// Stores the genesis block in a new data directory.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn store_genesis(&self) -> Result<(), Fault> {
        if self.index.read().lacks_genesis() {
            self.write_genesis()?;
            self.mark_genesis();
        }
        Ok(())
    }

    /// Writes the genesis block into a new file after the others, if no file has it whole: no check of its data follows,
    /// because it is never connected.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn write_genesis(&self) -> Result<(), Fault> {
        let genesis = *self.index.read().body(GENESIS);
        let is_whole = |at| self.files.read_block(at).is_ok_and(|bytes| bytes == self.params.genesis);
        if genesis.location().is_some_and(is_whole) || genesis.is_pruned() {
            return Ok(());
        }
        if !self.files.numbers()?.there.is_empty() {
            self.writer.begin_new_file(&self.reporter)?;
        }
        self.append_genesis()
    }

    /// Writes the genesis block after the last block.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn append_genesis(&self) -> Result<(), Fault> {
        let genesis = &self.params.genesis;
        let header = Header(*genesis.first_chunk().expect("a block has a header"));
        let at = self.writer.append_block(&self.reporter, genesis, Height::GENESIS, header.time())?;
        self.index
            .write()
            .prefer(GENESIS, BlockAt { file: at.file, offset: u64::from(at.offset), size: genesis.len() as u32 });
        Ok(())
    }

    /// Marks the genesis block as stored and checked; it is never connected.
    pub(crate) fn mark_genesis(&self) {
        self.index.write().checked_genesis();
    }

    /// Takes over pruned blocks from the index of an interrupted run: they were connected, or are on side branches.
    /// Their headers are not in the files.
    pub(crate) fn keep_pruned(&self, loaded: &LoadedIndex) {
        self.writer.set_pruned(loaded.is_pruned);
        let is_gone = |entry: &&store::IndexEntry| store::prune::is_block_pruned(loaded, entry);
        let Some(highest) = loaded.entries.iter().filter(is_gone).map(|entry| entry.height).max() else { return };
        let mut index = self.index.write();
        for entry in loaded.entries.iter().filter(|entry| entry.height <= highest) {
            let Some(id) = index.insert_known(entry) else { continue };
            if is_gone(&entry) {
                index.load_pruned(id, entry);
            }
        }
    }
}

/// The block from which the chain is built; `None` if the header of the coins' best block is unknown.
pub(crate) fn start_of(tree: &Tree, best: Option<BlockHash>) -> Option<NodeId> {
    best.map_or(Some(GENESIS), |hash| tree.find(&hash))
}

/// The fault for coins whose best block is not in the index, or not connected there.
pub(crate) fn apart(best: BlockHash) -> Fault {
    let why = format!(
        "the block index does not have the chainstate's best block {best} as a connected block: the two do not belong together"
    );
    Fault::refused(why, "Run ffwd repair")
}
