//! A chain with more work that forks off below the pruned blocks. The connected chain cannot be rewound to the fork
//! because the blocks and undo data needed for that are missing.
//!
//! bitcoind stops there with a fatal error ("Failed to disconnect block"). Source: Bitcoin Core b88bffe,
//! `Chainstate::ActivateBestChainStep`.

use crate::chain::tree::{NodeId, Tree};
use crate::fault::Message;
use primitives::{BlockHash, Height};

/// The better chain, and the missing range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrunedFork {
    /// Its first block that is not on the connected chain.
    pub first: BlockHash,
    /// Height of that block.
    pub height: Height,
    /// Height of its last known block.
    pub end: Height,
    /// Lowest height from which on the blocks of the connected chain are stored.
    pub kept_from: Height,
}

impl PrunedFork {
    /// Checks whether the chain up to `best` has more work than the one up to `tip`, and forks off below the height
    /// that `kept_from` returns.
    pub(crate) fn find(
        tree: &Tree,
        tip: NodeId,
        best: NodeId,
        kept_from: impl FnOnce() -> Height,
    ) -> Option<PrunedFork> {
        if tree.is_ancestor(tip, best) || tree.work(best) <= tree.work(tip) {
            return None;
        }
        let height = tree.height(tree.fork(tip, best)) + 1;
        let kept_from = kept_from();
        let first = || tree.hash(tree.ancestor(best, height));
        (height < kept_from).then(|| PrunedFork { first: first(), height, end: tree.height(best), kept_from })
    }

    /// The problem, and what the user can do.
    pub fn message(&self) -> Message {
        let PrunedFork { first, height, end, kept_from } = self;
        Message::new(
            format!(
                "A chain with more work, up to height {end}, leaves the connected chain at height {height}, block {first}: the \
                 connected chain cannot be disconnected to there: its blocks below height {kept_from} are missing (pruned, or lost)"
            ),
            "To have that chain, sync an empty data directory: ffwd sync --datadir DIR, with a greater --prune or without",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::tree::GENESIS;
    use primitives::{Hash256, Header};

    fn grow(tree: &mut Tree, on: NodeId, count: u32, nonce: u32) -> Vec<NodeId> {
        let mut grown = vec![on];
        for _ in 0..count {
            let parent = grown[grown.len() - 1];
            let header = Header::new(4, tree.hash(parent), Hash256::ZERO, 1, 0x207f_ffff, nonce);
            grown.push(tree.insert(&header, header.hash(), parent));
        }
        grown
    }

    #[test]
    fn a_better_chain_is_named_where_it_begins_below_the_kept_blocks() {
        let mut tree = Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 0, 0x207f_ffff, 0));
        let main = grow(&mut tree, GENESIS, 20, 1);
        let better = grow(&mut tree, main[9], 15, 2);
        let equal = grow(&mut tree, main[5], 15, 3);
        let higher = grow(&mut tree, main[20], 5, 1);
        let found = |best: NodeId, kept: u32| PrunedFork::find(&tree, main[20], best, || Height::new(kept));
        let want = PrunedFork {
            first: tree.hash(better[1]),
            height: Height::new(10),
            end: Height::new(24),
            kept_from: Height::new(11),
        };
        assert_eq!(found(better[15], 11), Some(want));
        assert_eq!(found(better[15], 10), None, "what is taken back is there");
        assert_eq!(found(equal[15], 20), None, "no more work");
        assert_eq!(found(higher[5], 20), None, "nothing is taken back");
        let text = want.message().to_string();
        let words = ["height 10", "up to height 24", "below height 11", &want.first.to_string(), "ffwd sync --datadir"];
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}
