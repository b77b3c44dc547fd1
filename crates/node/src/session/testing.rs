//! Claims of peers about chains, for the unit tests of this folder.

pub(crate) use crate::chain::testing::Chains;

use crate::chain::tree::NodeId;
use p2p::{HeaderInfo, Want};

/// A peer's claim of its best block.
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

/// Heights of lists of requested blocks.
pub(crate) fn heights(lists: &[Vec<Want>]) -> Vec<Vec<u32>> {
    lists.iter().map(|list| list.iter().map(|want| want.height.to_u32()).collect()).collect()
}
