//! Chains of headers for unit tests.

use super::index::BlockIndex;
use super::tree::{GENESIS, NodeId};
use consensus::{Chain, Params};
use primitives::{BlockHash, Hash256, Header, Work};
use store::blockfiles::BlockAt;
use store::{IndexEntry, Status};

/// A block index that grows by headers without proof of work.
pub(crate) struct Chains {
    index: BlockIndex,
    count: u32,
}

impl Chains {
    pub(crate) fn new() -> Chains {
        Chains { index: BlockIndex::new(&Params::new(Chain::Regtest)), count: 0 }
    }

    pub(crate) fn index(&self) -> &BlockIndex {
        &self.index
    }

    pub(crate) fn into_index(self) -> BlockIndex {
        self.index
    }

    pub(crate) fn index_mut(&mut self) -> &mut BlockIndex {
        &mut self.index
    }

    pub(crate) fn genesis(&self) -> NodeId {
        GENESIS
    }

    /// Adds `count` headers on top of this block, or of the genesis block.
    pub(crate) fn grow(&mut self, on: Option<NodeId>, count: usize) -> Vec<NodeId> {
        let mut parent = on.unwrap_or(GENESIS);
        let mut grown = Vec::with_capacity(count);
        for _ in 0..count {
            self.count += 1;
            let tree = self.index.headers();
            let time = tree.time(parent) + 600;
            let height = tree.height(parent) + 1;
            let header = Header::new(4, tree.hash(parent), Hash256::ZERO, time, 0x207f_ffff, self.count);
            let entry = IndexEntry {
                hash: header.hash(),
                header,
                height,
                status: Status(0),
                tx_count: 0,
                file: 0,
                data_offset: 0,
                undo_offset: 0,
            };
            parent = self.index.insert_known(&entry).expect("its parent is there");
            grown.push(parent);
        }
        grown
    }

    /// Stores their bodies.
    pub(crate) fn store(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            let at = BlockAt { file: 0, offset: 8 + 1000 * node.index() as u64, size: 900 };
            self.index.found(node, at);
            self.index.checked(node, 1);
        }
    }

    /// Connects them in order.
    pub(crate) fn connect(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            self.index.connected(node, 1, Some(8));
        }
    }

    /// Makes the chain up to this block count as connected, by a snapshot.
    pub(crate) fn assume(&mut self, base: NodeId) {
        self.index.assume(base);
        self.index.set_active(base);
        self.index.complete_active();
    }

    /// Makes the chain up to this block the connected one.
    pub(crate) fn set_active(&mut self, tip: NodeId) {
        self.index.set_active(tip);
    }

    /// Marks it invalid because it broke a rule.
    pub(crate) fn refuse(&mut self, node: NodeId) {
        self.index.refuse(node);
    }

    /// Marks it invalid on the user's request.
    pub(crate) fn mark(&mut self, node: NodeId) {
        self.index.invalid(node);
    }

    pub(crate) fn hash(&self, node: NodeId) -> BlockHash {
        self.index.headers().hash(node)
    }

    pub(crate) fn work(&self, node: NodeId) -> Work {
        self.index.headers().work(node)
    }
}
