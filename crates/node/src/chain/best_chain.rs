//! Selects the best block: the complete, valid block with the most work.
//!
//! A block is complete if its own body and those of all its ancestors are stored. Of blocks with equal work the one
//! that became complete first is the best, even if another one is connected. The chain that was connected when the data
//! directory was opened precedes all others, and blocks that the user preferred precede that chain, the latest
//! preference first. The set contains only blocks that end a branch, because only these can be the best. It is ordered,
//! so finding the best costs nothing, however many headers there are. Changes of the set cost at most one pass over the
//! headers. Source: Bitcoin Core b88bffe, `setBlockIndexCandidates`, `m_blocks_unlinked`, `CBlockIndexWorkComparator`,
//! `nSequenceId`, `ReceivedBlockTransactions`, `PreciousBlock`.

use crate::chain::tree::{Fate, GENESIS, NodeId, Tree};
use primitives::Work;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Order of completion of a block whose body is missing.
const ABSENT: i32 = i32::MIN;
/// Order of completion of a block whose body is stored, but an ancestor's is missing.
const UNLINKED: i32 = i32::MAX;
/// Order of the chain that was connected when the data directory was opened. Source: Core's
/// `SEQ_ID_BEST_CHAIN_FROM_DISK`.
const CONNECTED: i32 = 0;
/// Order of the user's first preferred block; later ones are lower. Source: Core's `nBlockReverseSequenceId`.
const PRECIOUS: i32 = -1;
const PRECIOUS_LAST: i32 = ABSENT + 1;

/// The complete blocks, and the best of them.
#[derive(Clone, Debug)]
pub(crate) struct CandidateSet {
    /// For each node its order of completion, [`ABSENT`] or [`UNLINKED`].
    order: Vec<i32>,
    next: i32,
    next_precious: i32,
    /// Work of the tip when the user last preferred a block.
    precious_work: Work,
    /// Stored children of incomplete blocks, by parent, in order of arrival.
    unlinked: HashMap<NodeId, Vec<NodeId>>,
    /// Complete, valid blocks without such a descendant.
    ends: BTreeSet<Candidate>,
}

/// The greater candidate is the better one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    work: Work,
    order: Reverse<i32>,
    id: Reverse<NodeId>,
}

impl CandidateSet {
    /// A set with only the genesis block.
    pub(crate) fn new(tree: &Tree) -> CandidateSet {
        let genesis = Candidate { work: tree.work(GENESIS), order: Reverse(CONNECTED), id: Reverse(GENESIS) };
        CandidateSet {
            order: vec![CONNECTED],
            next: CONNECTED + 1,
            next_precious: PRECIOUS,
            precious_work: Work::ZERO,
            unlinked: HashMap::new(),
            ends: BTreeSet::from([genesis]),
        }
    }

    fn order(&self, id: NodeId) -> i32 {
        self.order.get(id.index()).copied().unwrap_or(ABSENT)
    }

    /// Whether a block and all its ancestors have bodies.
    pub(crate) fn is_complete(&self, id: NodeId) -> bool {
        !matches!(self.order(id), ABSENT | UNLINKED)
    }

    /// Whether a block's body is stored.
    pub(crate) fn has_body(&self, id: NodeId) -> bool {
        self.order(id) != ABSENT
    }

    fn candidate(&self, tree: &Tree, id: NodeId) -> Option<Candidate> {
        let is_one = self.is_complete(id) && tree.fate(id) == Fate::Open;
        is_one.then(|| Candidate { work: tree.work(id), order: Reverse(self.order(id)), id: Reverse(id) })
    }

    /// Adds a block whose body is now stored.
    pub(crate) fn add(&mut self, tree: &Tree, id: NodeId) {
        self.order.resize(tree.len(), ABSENT);
        if self.has_body(id) {
            return;
        }
        let parent = tree.parent(id).expect("the genesis block is always there");
        if !self.is_complete(parent) {
            self.order[id.index()] = UNLINKED;
            return self.unlinked.entry(parent).or_default().push(id);
        }
        let mut queue = VecDeque::from([id]);
        while let Some(id) = queue.pop_front() {
            self.order[id.index()] = self.next;
            self.next += 1;
            if let Some(candidate) = self.candidate(tree, id) {
                let parent = tree.parent(id).and_then(|parent| self.candidate(tree, parent));
                parent.map(|parent| self.ends.remove(&parent));
                self.ends.insert(candidate);
            }
            queue.extend(self.unlinked.remove(&id).unwrap_or_default());
        }
    }

    /// Removes blocks whose bodies are now missing. Their descendants, `above`, become unlinked until the bodies are
    /// stored again.
    pub(crate) fn remove(&mut self, tree: &Tree, absent: &[NodeId], above: &[NodeId]) {
        self.order.resize(tree.len(), ABSENT);
        let without: HashSet<NodeId> = absent.iter().copied().filter(|&id| self.has_body(id)).collect();
        let mut above: Vec<(i32, NodeId)> = above.iter().map(|&id| (self.order(id), id)).collect();
        above.retain(|(_, id)| self.is_complete(*id) && !without.contains(id));
        // Siblings keep their order of arrival.
        above.sort_unstable();
        for &id in without.iter().chain(above.iter().map(|(_, id)| id)) {
            self.candidate(tree, id).map(|candidate| self.ends.remove(&candidate));
        }
        for &id in &without {
            let parent = tree.parent(id).expect("the genesis block is always there");
            if self.order(id) == UNLINKED
                && let Some(waiting) = self.unlinked.get_mut(&parent)
            {
                waiting.retain(|&other| other != id);
                if waiting.is_empty() {
                    self.unlinked.remove(&parent);
                }
            }
            self.order[id.index()] = ABSENT;
        }
        for (_, id) in above {
            self.order[id.index()] = UNLINKED;
            self.unlinked.entry(tree.parent(id).expect("it stands on another")).or_default().push(id);
        }
        absent.iter().for_each(|&id| self.end_at_parent(tree, id));
    }

    /// Updates the set after a block and its descendants were marked invalid in the tree.
    pub(crate) fn invalid(&mut self, tree: &Tree, id: NodeId) {
        self.ends.retain(|end| tree.fate(end.id.0) == Fate::Open);
        self.end_at_parent(tree, id);
    }

    /// Updates the set after invalid marks were removed in the tree.
    pub(crate) fn reopened(&mut self, tree: &Tree) {
        let mut has_child = vec![false; tree.len()];
        self.ends.clear();
        // Children are removed before their parents.
        for id in tree.ids().rev() {
            let Some(candidate) = self.candidate(tree, id) else { continue };
            if !has_child[id.index()] {
                self.ends.insert(candidate);
            }
            if let Some(parent) = tree.parent(id) {
                has_child[parent.index()] = true;
            }
        }
    }

    /// Makes the parent of a removed candidate the end of its branch, unless it has another descendant in the set.
    fn end_at_parent(&mut self, tree: &Tree, id: NodeId) {
        let Some(parent) = tree.parent(id).and_then(|parent| self.candidate(tree, parent)) else { return };
        if !self.ends.iter().any(|end| tree.is_ancestor(parent.id.0, end.id.0)) {
            self.ends.insert(parent);
        }
    }

    /// Sets the chain, by height, that is connected when a data directory is opened: it precedes all others with equal
    /// work.
    pub(crate) fn connected(&mut self, tree: &Tree, chain: &[NodeId]) {
        let is_on_it = |id: NodeId| chain.get(tree.height(id).to_usize()) == Some(&id);
        let ends: Vec<Candidate> = self.ends.iter().filter(|end| is_on_it(end.id.0)).copied().collect();
        self.ends.retain(|end| !is_on_it(end.id.0));
        for &id in chain {
            if self.is_complete(id) {
                self.order[id.index()] = CONNECTED;
            }
        }
        self.ends.extend(ends.into_iter().map(|end| Candidate { order: Reverse(CONNECTED), ..end }));
    }

    /// Prefers a block to others with equal work. Has no effect if the block has less work than the tip; the preference
    /// is not kept if its body is missing.
    pub(crate) fn precious(&mut self, tree: &Tree, id: NodeId, tip: NodeId) {
        let tip_work = tree.work(tip);
        if tree.work(id) < tip_work {
            return;
        }
        if tip_work > self.precious_work {
            self.next_precious = PRECIOUS;
        }
        self.precious_work = tip_work;
        let order = self.next_precious;
        self.next_precious = (order - 1).max(PRECIOUS_LAST);
        if self.is_complete(id) {
            let end = self.candidate(tree, id).and_then(|candidate| self.ends.take(&candidate));
            self.order[id.index()] = order;
            self.ends.extend(end.map(|end| Candidate { order: Reverse(order), ..end }));
        }
    }

    /// The best block; `tip` is the last connected block.
    pub(crate) fn best(&self, tree: &Tree, tip: NodeId) -> NodeId {
        let Some(end) = self.ends.last() else { return tip };
        let is_better = match self.candidate(tree, tip) {
            Some(tip) => *end > tip,
            // The tip's body was lost after it was connected: only a chain with more work replaces it.
            None => end.work > tree.work(tip),
        };
        if is_better { end.id.0 } else { tip }
    }

    /// Checks the invariants.
    pub(crate) fn invariants(&self, tree: &Tree) {
        let is_candidate = |id: NodeId| self.candidate(tree, id).is_some();
        let mut has_child = vec![false; tree.len()];
        for id in tree.ids().filter(|&id| id != GENESIS) {
            let parent = tree.parent(id).expect("not genesis");
            match self.order(id) {
                ABSENT => {}
                UNLINKED => {
                    assert!(!self.is_complete(parent), "a block on a complete one is complete");
                    assert!(self.unlinked[&parent].contains(&id), "what is not linked waits for its parent");
                }
                order => {
                    assert!(self.is_complete(parent), "the parent of a complete block is complete");
                    assert!(order < self.next, "the next one is the last");
                }
            }
            has_child[parent.index()] |= is_candidate(id);
        }
        assert!(self.unlinked.values().flatten().all(|&id| self.order(id) == UNLINKED), "nothing else waits");
        let ends = tree.ids().filter(|&id| is_candidate(id) && !has_child[id.index()]);
        let mut ends: Vec<Candidate> = ends.filter_map(|id| self.candidate(tree, id)).collect();
        ends.sort_unstable();
        assert!(self.ends.iter().eq(&ends), "the ends of all branches, and nothing else");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{BlockHash, Hash256, Header};

    fn child(tree: &mut Tree, parent: NodeId, nonce: u32) -> NodeId {
        let header = Header::new(4, tree.hash(parent), Hash256::ZERO, 1, 0x207f_ffff, nonce);
        tree.insert(&header, header.hash(), parent)
    }

    #[test]
    fn best_of_equal_work_is_what_the_user_prefers_then_the_first_complete() {
        let mut tree = Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 0, 0x207f_ffff, 0));
        let (a1, b1) = (child(&mut tree, GENESIS, 1), child(&mut tree, GENESIS, 2));
        let (a2, b2) = (child(&mut tree, a1, 3), child(&mut tree, b1, 4));
        let mut links = CandidateSet::new(&tree);
        // The body of a2 arrives first, but b2 is complete first.
        for id in [a2, b1, b2] {
            links.add(&tree, id);
        }
        assert_eq!(links.best(&tree, GENESIS), b2);
        links.add(&tree, a1);
        assert!(links.is_complete(a2));
        assert_eq!(links.best(&tree, GENESIS), b2);
        assert_eq!(links.best(&tree, a2), b2, "it is gone back to");
        let mut other = links.clone();
        other.connected(&tree, &[GENESIS, a1, a2]);
        other.invariants(&tree);
        assert_eq!(other.best(&tree, b2), a2, "what was connected at the start");
        links.precious(&tree, a2, b2);
        links.invariants(&tree);
        assert_eq!(links.best(&tree, b2), a2, "what the user prefers");
        links.precious(&tree, b2, a2);
        assert_eq!(links.best(&tree, a2), b2, "and now prefers");
        links.precious(&tree, a1, b2);
        assert_eq!(links.best(&tree, b2), b2, "less work than the tip");
        tree.fail(b1);
        links.invalid(&tree, b1);
        assert_eq!(links.best(&tree, GENESIS), a2);
        let a3 = child(&mut tree, a2, 5);
        links.precious(&tree, a3, a2);
        assert_eq!(links.best(&tree, a2), a2, "there is no body to be preferred");
        links.add(&tree, a3);
        assert_eq!(links.best(&tree, a2), a3);
        links.remove(&tree, &[a3], &[]);
        assert_eq!(links.best(&tree, a3), a3, "connected, and its body lost");
        // The same chain with only the last body stored.
        let mut links = CandidateSet::new(&tree);
        links.add(&tree, a3);
        assert!(!links.is_complete(a3));
        tree.path(GENESIS, a2).into_iter().for_each(|id| links.add(&tree, id));
        assert_eq!(links.best(&tree, a2), a3);
    }
}
