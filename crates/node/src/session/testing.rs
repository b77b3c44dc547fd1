//! What peers say of the chains of the unit tests of this folder.

pub(crate) use crate::chain::testing::Chains;

use crate::chain::tree::NodeId;
use p2p::{HeaderInfo, Want};

/// What a peer claims as its best block.
pub(crate) fn claim(chains: &Chains, node: NodeId) -> HeaderInfo {
    let tree = chains.index().headers();
    HeaderInfo {
        header: tree.header(node),
        hash: tree.hash(node),
        height: tree.height(node),
        work: tree.work(node),
        invalid: false,
    }
}

/// The heights of lists of wanted blocks.
pub(crate) fn heights(lists: &[Vec<Want>]) -> Vec<Vec<u32>> {
    lists.iter().map(|list| list.iter().map(|want| want.height.to_u32()).collect()).collect()
}
