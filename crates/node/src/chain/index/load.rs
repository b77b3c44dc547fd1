//! Adds headers and entries of the index on disk to the block index. A header is *listed* if it has an entry on disk.

use super::{BlockIndex, Body, Validity};
use crate::chain::headers;
use crate::chain::tree::{GENESIS, NodeId};
use consensus::{BlockError, Params};
use primitives::{BlockHash, Header, Height};
use store::IndexEntry;

impl BlockIndex {
    /// Adds a header, or finds it: see [`headers::accept`]. The header is listed, so it gets an entry in the index on
    /// disk.
    ///
    /// # Errors
    ///
    /// Those of [`headers::accept`].
    pub fn accept(
        &mut self,
        params: &Params,
        header: &Header,
        hash: BlockHash,
        now: i64,
    ) -> Result<NodeId, BlockError> {
        let id = self.accept_in_file(params, header, hash, now)?;
        self.list(id);
        Ok(id)
    }

    /// Like [`BlockIndex::accept`], for the header of a block in a file. A new header is listed once its body is
    /// checked: in Core a block of a file that does not deserialize, or whose parent is invalid, leaves no entry.
    /// Source: Bitcoin Core b88bffe, `ChainstateManager::LoadExternalBlockFile`, `AcceptBlock`.
    ///
    /// # Errors
    ///
    /// Those of [`headers::accept`].
    pub fn accept_in_file(
        &mut self,
        params: &Params,
        header: &Header,
        hash: BlockHash,
        now: i64,
    ) -> Result<NodeId, BlockError> {
        let known_count = self.headers.len();
        let id = headers::accept(&mut self.headers, params, header, hash, now)?;
        if self.headers.len() > known_count {
            self.add_bodies(false);
            self.adopt_children(params, hash, now);
        }
        Ok(id)
    }

    /// Lists this header and all its ancestors: each gets an entry in the index on disk, because an entry requires its
    /// parent's.
    pub fn list(&mut self, id: NodeId) {
        let mut next = Some(id);
        while let Some(id) = next
            && !self.bodies[id.index()].is_listed()
        {
            self.bodies[id.index()].set_listed(true);
            self.change(id);
            next = self.headers.parent(id);
        }
    }

    /// Adds a header of an older index; `None` if its parent is unknown.
    pub fn insert_known(&mut self, entry: &IndexEntry) -> Option<NodeId> {
        if entry.height == Height::GENESIS {
            return Some(GENESIS);
        }
        let parent = self.headers.find(&entry.header.prev())?;
        let known_count = self.headers.len();
        let id = self.headers.insert(&entry.header, entry.hash, parent);
        self.add_bodies(false);
        if self.headers.len() > known_count {
            self.list(id);
        }
        Some(id)
    }

    /// Loads an entry of the index on disk: header and marks. Its body is not usable before
    /// [`BlockIndex::loaded_body`].
    pub fn load(&mut self, entry: &IndexEntry) -> Option<NodeId> {
        let id = self.insert_known(entry)?;
        if entry.status.is_failed() {
            self.invalid(id);
        }
        self.clean(id);
        self.bodies[id.index()] = Body::of_entry(entry);
        Some(id)
    }

    /// Confirms that the body of a loaded entry is at its place, and sets its size.
    pub fn loaded_body(&mut self, id: NodeId, size: u32) {
        self.bodies[id.index()].set_size(size);
        self.add_candidate(id);
    }

    /// Loads the entry of a block whose file was removed. Its header is known, see [`BlockIndex::insert_known`].
    pub fn load_pruned(&mut self, id: NodeId, entry: &IndexEntry) {
        if entry.status.is_failed() {
            self.invalid(id);
        }
        let body = &mut self.bodies[id.index()];
        body.set_checked(Validity::of_level(entry.status.level()), entry.tx_count);
        body.set_listed(true);
        self.clean(id);
    }

    /// Loads the entry of a block that is at the place named in the entry.
    pub fn load_checked(&mut self, id: NodeId, entry: &IndexEntry) {
        let body = &mut self.bodies[id.index()];
        body.set_checked(Validity::of_level(entry.status.level()), entry.tx_count);
        body.set_undo(entry.undo_offset);
        body.set_listed(true);
        self.clean(id);
    }

    /// Sets the connected chain, which ends with `tip`.
    pub fn set_active(&mut self, tip: NodeId) {
        // Filled in place: the memory of a temporary path would not be returned to the system.
        let chain = std::iter::successors(Some(tip), |&id| self.headers.parent(id));
        self.active = vec![GENESIS; self.headers.height(tip).to_usize() + 1];
        self.active.iter_mut().rev().zip(chain).for_each(|(place, id)| *place = id);
        self.candidates.connected(&self.headers, &self.active);
    }

    /// Makes the connected chain count as complete, even where its bodies are pruned.
    pub fn complete_active(&mut self) {
        self.active.iter().for_each(|&id| self.candidates.add(&self.headers, id));
        self.candidates.connected(&self.headers, &self.active);
    }

    /// Lists all known headers.
    pub(crate) fn list_all(&mut self) {
        let all: Vec<NodeId> = self.headers.ids().collect();
        all.into_iter().for_each(|id| self.list(id));
    }

    /// Makes taken entries dirty again: the commit that took them failed.
    pub(crate) fn mark_unwritten(&mut self, entries: &[IndexEntry]) {
        for entry in entries {
            let id = self.headers.find(&entry.hash).expect("it was taken from this index");
            self.change(id);
        }
    }

    /// All entries that the index on disk has or will have, for writing a new one.
    pub(crate) fn listed_entries(&self) -> Vec<IndexEntry> {
        self.headers.ids().filter(|id| self.bodies[id.index()].is_listed()).map(|id| self.entry(id)).collect()
    }

    pub(super) fn add_bodies(&mut self, are_listed: bool) {
        for index in self.bodies.len()..self.headers.len() {
            self.bodies.push(Body::absent(are_listed));
            self.change(NodeId::new(index));
        }
    }
}
