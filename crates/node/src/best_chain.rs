//! Which block the chain should end with: the most work of what is complete and not refused.
//!
//! Complete: its body, and those of all its ancestors, are there. Between equals the chain that was held stays, else the
//! one that was linked first: it and all its ancestors there.
//! Source: Bitcoin Core b88bffe, `CBlockIndexWorkComparator`, `ReceivedBlockTransactions`.

use crate::tree::{Fate, GENESIS, NodeId, Tree};

/// Which bodies are there, and in what order blocks became complete.
#[derive(Clone, Debug, Default)]
pub struct CandidateSet {
    there: Vec<bool>,
    /// Order in which a block became complete; 0 for not.
    linked: Vec<u32>,
    next: u32,
    /// All bodies, in order of arrival.
    arrived: Vec<NodeId>,
    /// Children of blocks that are not complete, in order of arrival.
    waiting: std::collections::HashMap<NodeId, Vec<NodeId>>,
}

impl CandidateSet {
    /// Only the genesis block.
    pub fn new() -> CandidateSet {
        CandidateSet { there: vec![true], linked: vec![1], next: 2, ..CandidateSet::default() }
    }

    /// Notes that a block's body is there.
    pub fn add(&mut self, tree: &Tree, id: NodeId) {
        self.there.resize(tree.len(), false);
        self.linked.resize(tree.len(), 0);
        if std::mem::replace(&mut self.there[id.index()], true) || id == GENESIS {
            return;
        }
        self.arrived.push(id);
        let parent = tree.parent(id).expect("not genesis");
        if self.linked[parent.index()] == 0 {
            return self.waiting.entry(parent).or_default().push(id);
        }
        let mut queue = std::collections::VecDeque::from([id]);
        while let Some(id) = queue.pop_front() {
            self.linked[id.index()] = self.next;
            self.next += 1;
            queue.extend(self.waiting.remove(&id).unwrap_or_default());
        }
    }

    /// Counts a connected chain as complete, also where its bodies are pruned.
    pub fn add_connected(&mut self, tree: &Tree, tip: NodeId) {
        tree.path(GENESIS, tip).into_iter().for_each(|id| self.add(tree, id));
    }

    /// All blocks with bodies, in order of arrival, without the genesis block.
    pub fn in_order(&self) -> impl Iterator<Item = NodeId> + use<'_> {
        self.arrived.iter().copied()
    }

    /// Whether a block and all its ancestors have bodies.
    pub fn is_complete(&self, id: NodeId) -> bool {
        self.linked.get(id.index()).is_some_and(|&order| order != 0)
    }

    /// Whether a block's body is there.
    pub fn has_body(&self, id: NodeId) -> bool {
        self.there.get(id.index()).copied().unwrap_or(false)
    }

    /// The best block: `tip`, unless another has more work, or as much and a better claim: `held` has the best, then who
    /// was linked first. `held` is the block that the chain last came to rest at, `tip` where it is now: they differ
    /// after a branch was tried and proved invalid half-way, and then the chain goes back.
    pub fn best(&self, tree: &Tree, tip: NodeId, held: NodeId) -> NodeId {
        let order = |id: NodeId| self.linked.get(id.index()).copied().unwrap_or(0);
        let mut best = tip;
        for id in tree.ids().filter(|&id| self.is_complete(id) && tree.fate(id) == Fate::Open) {
            let (work, have) = (tree.work(id), tree.work(best));
            let claims = best != held && (id == held || order(id) < order(best));
            if work > have || (work == have && claims) {
                best = id;
            }
        }
        best
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
    fn the_first_linked_wins_and_the_tip_stays() {
        let mut tree = Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 0, 0x207f_ffff, 0));
        let (a1, b1) = (child(&mut tree, GENESIS, 1), child(&mut tree, GENESIS, 2));
        let (a2, b2) = (child(&mut tree, a1, 3), child(&mut tree, b1, 4));
        let mut links = CandidateSet::new();
        // a2's body comes first, but b2 is complete first.
        for id in [a2, b1, b2] {
            links.add(&tree, id);
        }
        assert_eq!(links.best(&tree, GENESIS, GENESIS), b2);
        links.add(&tree, a1);
        assert!(links.is_complete(a2));
        assert_eq!(links.best(&tree, GENESIS, GENESIS), b2);
        assert_eq!(links.best(&tree, a2, a2), a2, "between equals the held one stays");
        assert_eq!(links.best(&tree, a2, b2), b2, "and is gone back to");
        assert_eq!(links.best(&tree, a2, GENESIS), b2, "else the first linked");
        tree.fail(b1);
        assert_eq!(links.best(&tree, GENESIS, GENESIS), a2);
        let a3 = child(&mut tree, a2, 5);
        links.add(&tree, a3);
        assert_eq!(links.best(&tree, a2, a2), a3);
        assert_eq!(links.best(&tree, a3, b2), a3, "what was held is refused now");
        // The same chain, of which only the last body was kept.
        let mut links = CandidateSet::new();
        links.add(&tree, a3);
        assert!(!links.is_complete(a3));
        links.add_connected(&tree, a2);
        assert_eq!(links.best(&tree, a2, a2), a3);
    }
}
