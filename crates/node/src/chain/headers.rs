//! Adds headers to the tree after checking all header rules, and derives the context of blocks from their chain of
//! headers.

use crate::chain::block::{Bip30, BlockContext, HeaderContext};
use crate::chain::deployments;
use crate::chain::tree::{GENESIS, NodeId, Tree};
use consensus::header::{self, Ancestor, Parent};
use consensus::{BlockError, Cleanup, Params, Rule, ScriptCheckReason, assume_valid, bip30, flags};
use primitives::{BlockHash, Header, Height, MedianTime, Work};
use std::sync::Arc;

/// Maximum age of a current tip in seconds. Source: Bitcoin Core b88bffe, `DEFAULT_MAX_TIP_AGE`.
pub(crate) const TIP_AGE_MAX_S: u64 = 24 * 60 * 60;

/// A tree with this network's genesis block.
pub fn genesis_tree(params: &Params) -> Tree {
    let header = Header(*params.genesis.first_chunk().expect("a genesis block has a header"));
    Tree::new(&header)
}

/// Adds a header, or finds it. `hash` is its hash; `now` is in seconds since 1970.
///
/// # Errors
///
/// The first rule that it breaks, in Core's order; the header is not added. [`Rule::TimeTooNew`] may pass later.
///
/// Source: Bitcoin Core b88bffe, `ChainstateManager::AcceptBlockHeader`.
pub fn accept(
    tree: &mut Tree,
    params: &Params,
    header: &Header,
    hash: BlockHash,
    now: i64,
) -> Result<NodeId, BlockError> {
    if let Some(id) = tree.find(&hash) {
        return Ok(id);
    }
    header::check_proof_of_work(params, &hash, header.bits())?;
    let Some(parent) = tree.find(&header.prev()) else { return Err(Rule::PrevBlkNotFound.into()) };
    check_on(tree, params, header, parent, now)?;
    Ok(tree.insert(header, hash, parent))
}

/// Checks the rules of a header on top of `parent`, except for its proof of work. `now` is in seconds since 1970.
///
/// # Errors
///
/// The first rule that it breaks, in Core's order.
///
/// Source: Bitcoin Core b88bffe, `ContextualCheckBlockHeader`.
pub fn check_on(tree: &Tree, params: &Params, header: &Header, parent: NodeId, now: i64) -> Result<(), BlockError> {
    let known = Parent {
        height: tree.height(parent),
        time: tree.time(parent),
        bits: tree.bits(parent),
        median_time_past: tree.median_time_past(parent),
        real_bits: None,
        cleanup: deployments::cleanup_after(tree, params, parent),
    };
    // The search for the last regular bits walks down block by block, so its position is kept.
    let mut at = parent;
    let ancestor = |height: Height| {
        at = if tree.height(at) == height + 1 {
            tree.parent(at).expect("not genesis")
        } else {
            tree.ancestor(parent, height)
        };
        Ancestor { time: tree.time(at), bits: tree.bits(at) }
    };
    header::check(params, header, &known, now, ancestor)
}

/// The context of a header in its chain. Genesis counts as its own parent.
pub fn context(tree: &Tree, params: &Params, node: NodeId) -> HeaderContext {
    let parent = tree.parent(node);
    HeaderContext {
        node,
        hash: tree.hash(node),
        header: tree.header(node),
        height: tree.height(node),
        parent_mtp: tree.median_time_past(parent.unwrap_or(GENESIS)),
        cleanup: parent.map_or(Cleanup::Off, |parent| deployments::cleanup_after(tree, params, parent)),
    }
}

/// Median times past by height, from genesis to `tip`.
pub fn median_times(tree: &Tree, tip: NodeId) -> Arc<Vec<MedianTime>> {
    let mut ids = tree.path(GENESIS, tip);
    ids.insert(0, GENESIS);
    let times: Vec<u32> = ids.iter().map(|&id| tree.time(id)).collect();
    Arc::new(
        (0..times.len())
            .map(|end| header::median_time_past(times[end.saturating_sub(10)..=end].iter().copied()))
            .collect(),
    )
}

/// Computes [`median_times`] of successive chains, and reuses the part below their fork.
#[derive(Default)]
pub struct Times {
    tip: NodeId,
    known: Arc<Vec<MedianTime>>,
}

impl Times {
    /// Median times past by height, from genesis to `tip`.
    pub fn to(&mut self, tree: &Tree, tip: NodeId) -> Arc<Vec<MedianTime>> {
        let fork = if self.known.is_empty() { GENESIS } else { tree.fork(self.tip, tip) };
        let known = Arc::make_mut(&mut self.known);
        known.truncate(tree.height(fork).to_usize() + 1);
        if known.is_empty() {
            known.push(tree.median_time_past(GENESIS));
        }
        known.extend(tree.path(fork, tip).into_iter().map(|id| tree.median_time_past(id)));
        self.tip = tip;
        self.known.clone()
    }
}

/// Whether a tip with this work and time is in the initial block download at time `now`, in seconds since 1970.
pub(crate) fn is_initial(work: Work, time: u32, minimum_work: Work, tip_age_max_s: u64, now: u64) -> bool {
    work < minimum_work || u64::from(time).saturating_add(tip_age_max_s) < now
}

/// Settings that decide whether scripts are verified.
#[derive(Clone, Debug)]
pub struct AssumeValid {
    /// The block whose ancestors are assumed valid; zero for none.
    pub hash: BlockHash,
    /// Minimum work of the best header chain.
    pub minimum_chain_work: Work,
}

/// Why the scripts of a block must be verified, according to the headers known now; `None` if they may be skipped.
/// `spacing_s` is the network's block spacing in seconds.
pub(crate) fn script_reason(
    tree: &Tree,
    assume: &AssumeValid,
    spacing_s: u32,
    id: NodeId,
) -> Option<ScriptCheckReason> {
    let assumed = match tree.find(&assume.hash) {
        _ if assume.hash.is_zero() => assume_valid::AssumedValid::Nothing,
        None => assume_valid::AssumedValid::UnknownHeader,
        Some(block) => assume_valid::AssumedValid::Known {
            height: tree.height(block),
            contains_block: tree.is_ancestor(id, block),
        },
    };
    let block = assume_valid::BlockInChain { height: tree.height(id), chain_work: tree.work(id) };
    let best = assume_valid::BestHeader {
        chain_work: tree.work(tree.best()),
        bits: tree.bits(tree.best()),
        contains_block: tree.is_ancestor(id, tree.best()),
    };
    consensus::script_check_reason(assumed, block, best, assume.minimum_chain_work, spacing_s)
}

/// Derives the contexts of the blocks of one chain from its headers.
pub struct ChainContext<'a> {
    tree: &'a Tree,
    params: &'a Params,
    assume: &'a AssumeValid,
    bip34: Option<BlockHash>,
}

impl<'a> ChainContext<'a> {
    /// The context of the chain that ends with `tip`.
    pub fn new(tree: &'a Tree, params: &'a Params, assume: &'a AssumeValid, tip: NodeId) -> ChainContext<'a> {
        let bip34 =
            (params.bip34_height <= tree.height(tip)).then(|| tree.hash(tree.ancestor(tip, params.bip34_height)));
        ChainContext { tree, params, assume, bip34 }
    }

    /// The context of a block on this chain.
    pub fn block(&self, id: NodeId) -> BlockContext {
        let at = context(self.tree, self.params, id);
        BlockContext {
            script_reason: script_reason(self.tree, self.assume, self.params.pow_target_spacing, id),
            flags: flags::of_block(self.params, at.height, &at.hash),
            bip30: self.bip30(&at),
            overwrites: bip30::is_repeat(at.height, &at.hash),
            at,
        }
    }

    fn bip30(&self, at: &HeaderContext) -> Bip30 {
        let bip34 = self.bip34.as_ref().filter(|_| at.height > self.params.bip34_height);
        match bip30::is_enforced(self.params, at.height, &at.hash, bip34) {
            false => Bip30::NotEnforced,
            true if bip30::can_be_broken(self.params) => Bip30::Enforced,
            true => Bip30::Unbreakable,
        }
    }
}

/// Whether further headers may remove this reason.
pub(crate) fn may_vanish(reason: ScriptCheckReason) -> bool {
    match reason {
        ScriptCheckReason::HashNotInHeaders
        | ScriptCheckReason::LowChainWork
        | ScriptCheckReason::NotInBestHeaderChain
        | ScriptCheckReason::TooRecent => true,
        ScriptCheckReason::AlwaysVerify
        | ScriptCheckReason::AboveAssumedValid
        | ScriptCheckReason::NotInAssumedValidChain => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Hash256;

    #[test]
    fn times_of_a_next_chain_equal_those_made_from_scratch() {
        let mut tree = Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 5, 0x207f_ffff, 0));
        let mut grow = |from: NodeId, count: u32| {
            (0..count).fold(from, |parent, i| {
                let time = (i * 7919) % 1000;
                let header = Header::new(4, tree.hash(parent), Hash256::ZERO, time, 0x207f_ffff, count);
                tree.insert(&header, header.hash(), parent)
            })
        };
        let a = grow(GENESIS, 40);
        let (b, c) = (grow(a, 25), grow(a, 10));
        let mut times = Times::default();
        for tip in [a, b, b, c, a, GENESIS, c] {
            assert_eq!(times.to(&tree, tip), median_times(&tree, tip));
        }
    }
}
