//! Blocks of the files whose parents are unknown: their places, and their adoption when a header arrives.
//!
//! In: blocks found by a scan. Out: a place for the body of each header that becomes known, from a peer, another file
//! or an older index. So a block that is in a file is never requested from peers.
//!
//! Absent on purpose: reading files. The number is limited only by the files; each block needs about 250 bytes.

use super::{BlockIndex, Found};
use crate::chain::headers;
use crate::chain::index::Validity;
use crate::chain::tree::NodeId;
use consensus::{Class, Params};
use primitives::{BlockHash, Height};
use std::collections::{HashMap, HashSet, VecDeque};
use store::FilePos;
use store::blockfiles::{BlockAt, FoundBlock};

/// Blocks that wait for a header.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Blocks by the hash of their parent.
    by_parent: HashMap<BlockHash, Vec<FoundBlock>>,
    count: usize,
    /// Adopted blocks that the infos of their files do not include yet.
    uncounted: HashSet<NodeId>,
    /// Number of blocks adopted since the last query.
    adopted: usize,
    /// Whether pruned blocks are wanted again.
    wants_pruned: bool,
}

impl Orphans {
    fn push(&mut self, block: FoundBlock) {
        // Duplicates are removed only when all blocks are taken, because a file may have a million children of one
        // parent.
        self.by_parent.entry(block.header.prev()).or_default().push(block);
        self.count += 1;
    }

    fn take_children(&mut self, parent: &BlockHash) -> Vec<FoundBlock> {
        let children = self.by_parent.remove(parent).unwrap_or_default();
        self.count -= children.len();
        children
    }

    /// Removes waiting blocks whose files were removed.
    pub(super) fn retain(&mut self, stays: impl Fn(&FoundBlock) -> bool) {
        self.by_parent.values_mut().for_each(|blocks| blocks.retain(&stays));
        self.by_parent.retain(|_, blocks| !blocks.is_empty());
        self.count = self.by_parent.values().map(Vec::len).sum();
    }

    /// Marks a block for counting again, because another place is in use than the infos include.
    pub(super) fn count_again(&mut self, id: NodeId) {
        self.uncounted.insert(id);
    }
}

/// A block to be added to the info of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Uncounted {
    pub(crate) at: FilePos,
    pub(crate) size: u32,
    pub(crate) height: Height,
    pub(crate) time: u32,
}

impl BlockIndex {
    /// Number of blocks that wait for a parent.
    pub fn orphan_count(&self) -> usize {
        self.orphans.count
    }

    /// The first of these blocks in file order.
    pub fn first_orphan(&self) -> Option<BlockAt> {
        self.orphans.by_parent.values().flatten().map(|block| block.location).min()
    }

    /// Takes all blocks that wait for a parent, in file order.
    pub fn take_orphans(&mut self) -> Vec<FoundBlock> {
        let mut all: Vec<FoundBlock> = std::mem::take(&mut self.orphans.by_parent).into_values().flatten().collect();
        self.orphans.count = 0;
        all.sort_unstable_by_key(|block| block.location);
        all.dedup_by_key(|block| block.location);
        all
    }

    /// Adds blocks that wait for a parent.
    pub fn add_orphans(&mut self, orphans: Vec<FoundBlock>) {
        orphans.into_iter().for_each(|block| self.orphans.push(block));
    }

    /// Adds blocks found in the files. Those whose header or parent is known get a place, and the others wait. Returns
    /// how many bodies got their first place.
    pub fn take_in(&mut self, params: &Params, blocks: Vec<FoundBlock>, now: i64) -> usize {
        let before = self.orphans.adopted;
        let mut parents = Vec::new();
        for block in blocks {
            match self.headers.find(&block.hash) {
                Some(id) => self.adopt(id, block.location),
                None => {
                    parents.extend(self.headers.find(&block.header.prev()).map(|_| block.header.prev()));
                    self.orphans.push(block);
                }
            }
        }
        parents.into_iter().for_each(|parent| self.adopt_children(params, parent, now));
        self.orphans.adopted - before
    }

    /// Gives places to the blocks that wait for a new header, and to their waiting descendants.
    pub(super) fn adopt_children(&mut self, params: &Params, parent: BlockHash, now: i64) {
        let mut queue = VecDeque::from([parent]);
        while let Some(parent) = queue.pop_front() {
            for child in self.orphans.take_children(&parent) {
                match headers::accept(&mut self.headers, params, &child.header, child.hash, now) {
                    Ok(id) => {
                        self.add_bodies(false);
                        self.adopt(id, child.location);
                        queue.push_back(child.hash);
                    }
                    // The clock may be wrong, so the block waits for the next start.
                    Err(error) if error.class() == Class::TimeFuture => self.orphans.push(child),
                    // It breaks a rule, so no chain contains it.
                    Err(_) => {}
                }
            }
        }
    }

    /// Adds a place of a waiting block; pruned blocks stay pruned, unless they are wanted again.
    fn adopt(&mut self, id: NodeId, at: BlockAt) {
        let stays = self.body(id).is_pruned() && !self.orphans.wants_pruned;
        if !stays && self.found(id, at) == Found::First {
            self.orphans.adopted += 1;
            self.orphans.uncounted.insert(id);
        }
    }

    /// Uses blocks of the files although they were pruned: the data directory becomes archival.
    pub(crate) fn want_pruned(&mut self) {
        self.orphans.wants_pruned = true;
    }

    /// Number of waiting blocks that got a place since the last call.
    pub(crate) fn take_adopted_count(&mut self) -> usize {
        std::mem::take(&mut self.orphans.adopted)
    }

    /// Takes blocks that the index now names but the infos of their files do not include.
    pub(crate) fn take_uncounted(&mut self) -> Vec<Uncounted> {
        let mut counted = Vec::new();
        let waiting = std::mem::take(&mut self.orphans.uncounted);
        for id in waiting {
            let body = self.body(id);
            let size = body.size();
            let validity = body.validity();
            match body.location() {
                Some(at) if validity >= Validity::Transactions => {
                    let height = self.headers.height(id);
                    let time = self.headers.time(id);
                    counted.push(Uncounted { at, size, height, time });
                }
                Some(_) => {
                    self.orphans.uncounted.insert(id);
                }
                None => {}
            }
        }
        counted
    }

    /// The infos were rebuilt and include all places.
    pub(crate) fn all_counted(&mut self) {
        self.orphans.uncounted.clear();
    }
}
