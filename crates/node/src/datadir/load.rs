//! What an index on disk says, taken into the one in memory: all of it, or what an interrupted reindex had done.

use super::DataDir;
use crate::chain::tree::{GENESIS, NodeId, Tree};
use crate::fault::Fault;
use primitives::{BlockHash, Header, Height};
use store::FilePos;
use store::blockfiles::BlockAt;
use store::index::LoadedIndex;

impl DataDir<'_> {
    /// Headers that an older index knew, so that none of them is forgotten.
    pub(crate) fn keep_headers(&self, entries: &[store::IndexEntry]) {
        let mut index = self.index.write();
        for entry in entries {
            index.insert_known(entry);
        }
    }

    /// The same for those that were kept when this reindex began.
    ///
    /// # Errors
    ///
    /// An I/O error of the file that they are in.
    pub(crate) fn keep_bare_headers(&self, now: i64) -> Result<(), Fault> {
        for header in store::reindex::kept_headers(&self.disk, &self.layout)? {
            // What does not hold any more is not taken: the file is not Core's, and has no checksum.
            let _ = self.index.write().accept(self.params, &header, header.hash(), now);
        }
        Ok(())
    }

    /// What an index of an interrupted run says of blocks that lie where it says, also where a scan finds others first:
    /// such a run found that one false, and looked for what lies inside.
    ///
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

    /// Says no where the coins stand on blocks that the files do not hold, or that the index does not call connected.
    ///
    /// # Errors
    ///
    /// Such a block: which, and what to do.
    pub(crate) fn check_connected(&self, tip: NodeId) -> Result<(), Fault> {
        let broken = self.index.read().first_unconnected(tip);
        let Some(id) = broken else { return Ok(()) };
        let (height, hash) = self.height_and_hash(id);
        let wanted = format!("block {hash} at height {height}, which the chainstate's best block builds on");
        let advice = "Put the block file back that this reindex began with; or remove the directory chainstate, and ffwd reindex begins again with the files that are there";
        let dir = self.layout.blocks_dir();
        let found = "no such block where the index says";
        Err(store::Fault::new(store::FaultKind::Missing, dir, wanted, found, advice).into())
    }

    /// Takes a whole index in as it is: headers, places, marks.
    ///
    /// # Errors
    ///
    /// A block that does not lie where the index says, or a block file that cannot be read.
    pub(crate) fn take_index(&self, loaded: &LoadedIndex) -> Result<(), Fault> {
        let count = loaded.entries.len();
        // And for those of the next weeks: with no room at all the first one would double everything.
        self.index.write().reserve(count + count / 64);
        for entry in &loaded.entries {
            let Some(id) = self.index.write().load(entry) else { continue };
            if let Some(at) = entry.data() {
                self.known_place(id, at)?;
            }
        }
        Ok(())
    }

    /// A block whose place the index names; its size comes from its record.
    fn known_place(&self, id: NodeId, at: FilePos) -> Result<(), Fault> {
        let Some(found) = self.files.probe(at)?.filter(|found| found.hash == self.headers().hash(id)) else {
            let hash = self.headers().hash(id);
            let path = self.files.path(at.file);
            let found = "none there";
            let advice = "The index and the block files do not belong together: run ffwd reindex";
            let fault = store::Fault::new(store::FaultKind::Damaged, &path, format!("block {hash}"), found, advice);
            return Err(fault.at_offset(u64::from(at.offset)).into());
        };
        self.index.write().loaded_body(id, found.location.size);
        Ok(())
    }

    /// Writes the genesis block into a new file behind the others, where no file has it.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn write_genesis(&self) -> Result<(), Fault> {
        let genesis = *self.index.read().body(GENESIS);
        if genesis.location().is_some() || genesis.is_pruned() {
            return Ok(());
        }
        let genesis = &self.params.genesis;
        let header = Header(*genesis.first_chunk().expect("a block has a header"));
        if !self.files.numbers()?.there.is_empty() {
            self.writer.begin_new_file(&self.reporter)?;
        }
        let at = self.writer.append_block(&self.reporter, genesis, Height::GENESIS, header.time())?;
        self.index
            .write()
            .found(GENESIS, BlockAt { file: at.file, offset: u64::from(at.offset), size: genesis.len() as u32 });
        Ok(())
    }

    /// The genesis block is never connected, and always there.
    pub(crate) fn mark_genesis(&self) {
        self.index.write().checked_genesis();
    }

    /// What an index of an interrupted run says of blocks whose files are gone: they were connected, or are beside the
    /// chain. Their headers are not in the files.
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

/// The chain that is to be built on: its tree needs a tip to start from.
pub(crate) fn start_of(tree: &Tree, best: Option<BlockHash>) -> Option<NodeId> {
    best.map_or(Some(GENESIS), |hash| tree.find(&hash))
}
