//! The block of `--assumevalid` that is not on the best header chain. Every script runs then, which takes many times as
//! long, so the user gets the reason.
//!
//! Absent on purpose: why scripts of one block run (`chain::headers::script_reason`), and reporting it (`reporter`).
//! Source: Bitcoin Core b88bffe, `ConnectBlock`, `script_check_reason`.

use crate::chain::tree::{Fate, Tree};
use crate::fault::Message;
use primitives::{BlockHash, Height};

/// The assumed-valid block, and its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssumedElsewhere {
    /// The block.
    pub hash: BlockHash,
    /// Its position.
    pub place: AssumedPlace,
}

/// Position of a block that is not on the best header chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssumedPlace {
    /// On another chain, which has less work.
    OtherChain(Height),
    /// On a chain that is excluded by a mark.
    Marked(Height),
    /// On none of the peers' chains, all of which have been announced.
    NoChain,
}

impl AssumedElsewhere {
    /// Searches the headers for the block. If it is missing, it may still arrive: that is not reported.
    pub(crate) fn find(tree: &Tree, assumed: &BlockHash) -> Option<AssumedElsewhere> {
        let id = tree.find(assumed)?;
        if tree.is_ancestor(id, tree.best()) {
            return None;
        }
        let height = tree.height(id);
        let is_open = tree.fate(id) == Fate::Open;
        let place = if is_open { AssumedPlace::OtherChain(height) } else { AssumedPlace::Marked(height) };
        Some(AssumedElsewhere { hash: *assumed, place })
    }

    /// Like [`AssumedElsewhere::find`], when all headers of the peers are known: a missing block will not arrive any
    /// more.
    pub(crate) fn find_in_all(tree: &Tree, assumed: &BlockHash) -> Option<AssumedElsewhere> {
        if !assumed.is_zero() && tree.find(assumed).is_none() {
            return Some(AssumedElsewhere { hash: *assumed, place: AssumedPlace::NoChain });
        }
        AssumedElsewhere::find(tree, assumed)
    }

    /// The problem, and the command that helps.
    pub fn message(&self) -> Message {
        let hash = self.hash;
        match self.place {
            AssumedPlace::OtherChain(height) => Message::new(
                format!(
                    "Block {hash} at height {height}, assumed valid, is not on the best header chain: every script is verified"
                ),
                "bitcoin-cli getchaintips lists the chains. If the best one is right, name a block of it with \
                 --assumevalid (bitcoin-cli getblockhash HEIGHT prints its hash)",
            ),
            AssumedPlace::Marked(height) => Message::new(
                format!(
                    "Block {hash} at height {height}, assumed valid, is marked invalid and so not on the best header chain: \
                     every script is verified"
                ),
                "If the mark is wrong, remove it: bitcoin-cli reconsiderblock with that hash, or ffwd reindex, which judges \
                 all blocks again",
            ),
            AssumedPlace::NoChain => Message::new(
                format!(
                    "Block {hash}, assumed valid, is not on the best header chain nor on another chain of the peers: every \
                     script is verified"
                ),
                "Correct --assumevalid, or leave it out; bitcoin-cli getblockhash HEIGHT on another node prints a hash",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::tree::{GENESIS, NodeId};
    use primitives::{Hash256, Header};

    /// So many headers on the genesis block, told apart by `nonce`.
    fn grow(tree: &mut Tree, count: u32, nonce: u32) -> Vec<NodeId> {
        let mut parent = GENESIS;
        let mut add = |_| {
            let header = Header::new(4, tree.hash(parent), Hash256::ZERO, 1, 0x207f_ffff, nonce);
            parent = tree.insert(&header, header.hash(), parent);
            parent
        };
        (0..count).map(&mut add).collect()
    }

    #[test]
    fn the_assumed_block_is_found_on_the_best_chain_or_named() {
        let mut tree = Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 0, 0x207f_ffff, 0));
        let (main, side, refused) = (grow(&mut tree, 6, 1), grow(&mut tree, 3, 2), grow(&mut tree, 9, 3));
        tree.fail(refused[4]);
        let unknown = BlockHash::from_bytes([7; 32]);
        let at = |id| tree.hash(id);
        for (row, hash, place, word) in [
            ("on the best chain", at(main[2]), None, ""),
            ("the best header", at(main[5]), None, ""),
            ("genesis", at(GENESIS), None, ""),
            ("beside", at(side[2]), Some(AssumedPlace::OtherChain(Height::new(3))), "getchaintips"),
            ("marked", at(refused[4]), Some(AssumedPlace::Marked(Height::new(5))), "reconsiderblock"),
            ("above a mark", at(refused[8]), Some(AssumedPlace::Marked(Height::new(9))), "reconsiderblock"),
            ("below a mark", at(refused[1]), Some(AssumedPlace::OtherChain(Height::new(2))), "getchaintips"),
            ("unknown", unknown, Some(AssumedPlace::NoChain), "getblockhash"),
            ("none", BlockHash::ZERO, None, ""),
        ] {
            let found = AssumedElsewhere::find_in_all(&tree, &hash);
            assert_eq!(found.map(|found| found.place), place, "{row}");
            let early = AssumedElsewhere::find(&tree, &hash);
            assert_eq!(early, found.filter(|found| found.place != AssumedPlace::NoChain), "{row}");
            if let Some(found) = found {
                let text = found.message().to_string();
                let hash = hash.to_string();
                let has_all = [word, "not on the best header chain", &hash].iter().all(|word| text.contains(word));
                assert!(has_all, "{row}: {text}");
            }
        }
    }
}
