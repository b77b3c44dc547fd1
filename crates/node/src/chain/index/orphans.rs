//! Blocks of the files whose parents are not known yet: where they lie, and what takes them in as soon as a header comes.
//!
//! In: blocks that a scan found. Out: a place for the body of each header that is known, whoever brought it: a peer, another
//! file, an older index. So a block that lies in a file is never asked for.
//!
//! Absent on purpose: reading files. As many are held as the files have, about 250 bytes each.

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
    /// By the hash of their parent.
    by_parent: HashMap<BlockHash, Vec<FoundBlock>>,
    count: usize,
    /// Blocks that waited, have a place now, and are not counted into the infos of their files.
    uncounted: HashSet<NodeId>,
    /// Blocks that waited and have a place now, since that was asked for.
    adopted: usize,
}

impl Orphans {
    fn push(&mut self, block: FoundBlock) {
        // What is found twice is left out when all are taken: a file may have a million children of one parent.
        self.by_parent.entry(block.header.prev()).or_default().push(block);
        self.count += 1;
    }

    fn take_children(&mut self, parent: &BlockHash) -> Vec<FoundBlock> {
        let children = self.by_parent.remove(parent).unwrap_or_default();
        self.count -= children.len();
        children
    }

    /// Those that are gone with their files wait no longer.
    pub(super) fn retain(&mut self, stays: impl Fn(&FoundBlock) -> bool) {
        self.by_parent.values_mut().for_each(|blocks| blocks.retain(&stays));
        self.by_parent.retain(|_, blocks| !blocks.is_empty());
        self.count = self.by_parent.values().map(Vec::len).sum();
    }

    /// The place in use for a block is another one than the infos have counted.
    pub(super) fn count_again(&mut self, id: NodeId) {
        self.uncounted.insert(id);
    }
}

/// A block that is to be counted into the info of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Uncounted {
    pub(crate) at: FilePos,
    pub(crate) size: u32,
    pub(crate) height: Height,
    pub(crate) time: u32,
}

impl BlockIndex {
    /// Blocks that wait for a parent.
    pub fn orphan_count(&self) -> usize {
        self.orphans.count
    }

    /// The one of them that lies first.
    pub fn first_orphan(&self) -> Option<BlockAt> {
        self.orphans.by_parent.values().flatten().map(|block| block.location).min()
    }

    /// All blocks that wait for a parent, in the order of the files.
    pub fn take_orphans(&mut self) -> Vec<FoundBlock> {
        let mut all: Vec<FoundBlock> = std::mem::take(&mut self.orphans.by_parent).into_values().flatten().collect();
        self.orphans.count = 0;
        all.sort_unstable_by_key(|block| block.location);
        all.dedup_by_key(|block| block.location);
        all
    }

    /// These wait for a parent, too.
    pub fn add_orphans(&mut self, orphans: Vec<FoundBlock>) {
        orphans.into_iter().for_each(|block| self.orphans.push(block));
    }

    /// Blocks that lie in the files and that nothing is known of: those whose header or parent is known have a place from
    /// now on, and the others wait. Says how many bodies have their first place.
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

    /// A header is new: the blocks that wait for it have a place from now on, and so have those that wait for them.
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
                    // The clock may be wrong: it waits for the next start.
                    Err(error) if error.class() == Class::TimeFuture => self.orphans.push(child),
                    // It breaks a rule: no chain has it.
                    Err(_) => {}
                }
            }
        }
    }

    /// What is pruned stays so.
    fn adopt(&mut self, id: NodeId, at: BlockAt) {
        if !self.body(id).is_pruned() && self.found(id, at) == Found::First {
            self.orphans.adopted += 1;
            self.orphans.uncounted.insert(id);
        }
    }

    /// Blocks that waited and have a place now, since this was asked.
    pub(crate) fn take_adopted_count(&mut self) -> usize {
        std::mem::take(&mut self.orphans.adopted)
    }

    /// Blocks that the index names by now, and the infos of their files do not count.
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

    /// The infos were made anew: they count all places.
    pub(crate) fn all_counted(&mut self) {
        self.orphans.uncounted.clear();
    }
}
