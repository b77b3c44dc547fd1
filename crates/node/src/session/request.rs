//! Selects the blocks to request: the missing blocks of the peers' chains, as far ahead as the limits allow.
//!
//! In: the block index, the tips of the peers' chains, limits. Out: one list of blocks per chain. Pure functions: the
//! driver keeps what was requested before, and decides when to request again.
//!
//! Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`. As there, each peer's own chain has its list, so that a
//! chain whose blocks do not arrive delays no other.

use super::budget::{Allowance, NEAR_BLOCKS};
use crate::chain::index::BlockIndex;
use crate::chain::tree::{Fate, NodeId, Tree};
use p2p::Want;
use primitives::{BlockHash, Height, Work};

/// Maximum number of blocks in one list.
pub(crate) const WANTS_MAX: usize = 4096;
/// Divisor: stored blocks that are not connected yet may use one part in this many of the pruning target.
const AHEAD_SHARE: u64 = 8;
/// Minimum number of blocks ahead of the tip, however large blocks are.
const AHEAD_MIN: u32 = 16;

/// Bounds of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// `--stopatheight`; the maximum height if it is not set.
    pub(crate) stop_at: Height,
    /// Maximum number of stored blocks above the tip that are not connected; `None` without pruning.
    pub(crate) ahead_max: Option<u32>,
    /// A commit would free disk space: no further blocks are requested before it.
    pub(crate) is_prune_due: bool,
    /// Height up to which blocks were already requested.
    pub(crate) wanted_to: Height,
}

/// The blocks to request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Requests {
    /// The missing blocks of each chain, the lowest first.
    pub(crate) lists: Vec<Vec<Want>>,
    /// Height up to which blocks are requested, including these lists.
    pub(crate) wanted_to: Height,
    /// Fewer blocks are requested than possible, because a commit must free space first.
    pub(crate) is_held_back: bool,
}

/// Maximum number of stored blocks above the tip that are not connected, if files are pruned to `prune_target` bytes
/// and a block has `block_bytes`.
pub(crate) fn ahead_max(prune_target: Option<u64>, block_bytes: u64) -> Option<u32> {
    let blocks = prune_target? / AHEAD_SHARE / block_bytes.max(1);
    Some(u32::try_from(blocks).unwrap_or(u32::MAX).max(AHEAD_MIN))
}

/// The tips of the peers' chains that may be followed: known, not refused, and with the minimum work. The order of
/// `targets`, the preferred first, is kept.
pub(crate) fn open_targets(tree: &Tree, targets: &[BlockHash], minimum: Work) -> Vec<NodeId> {
    let known = targets.iter().filter_map(|hash| tree.find(hash));
    known.filter(|&id| tree.fate(id) == Fate::Open && tree.work(id) >= minimum).collect()
}

/// The blocks to request of the chains that end with `targets`, above the connected chain that ends with `tip`.
pub(crate) fn requests(index: &BlockIndex, tip: NodeId, targets: &[NodeId], limits: Limits) -> Requests {
    let tree = index.headers();
    let ahead = limits.ahead_max.unwrap_or(u32::MAX);
    let mut end = limits.stop_at.min(tree.height(tip).saturating_add(ahead));
    let highest = targets.iter().map(|&target| tree.height(target)).max();
    let wanted = limits.wanted_to.max(tree.height(tip));
    let is_held_back = limits.is_prune_due && highest.is_some_and(|highest| wanted < end.min(highest));
    if is_held_back {
        end = wanted;
    }
    let lists = targets.iter().map(|&target| missing_to(index, tip, target, end)).collect();
    Requests { lists, wanted_to: end.min(highest.unwrap_or(Height::GENESIS)), is_held_back }
}

/// The missing blocks between the connected chain and `target`, up to height `end`.
fn missing_to(index: &BlockIndex, tip: NodeId, target: NodeId, end: Height) -> Vec<Want> {
    let tree = index.headers();
    let from = tree.fork(tip, target);
    let end = end.clamp(tree.height(from), tree.height(target));
    wants(tree, index.missing_from(from, target, end, WANTS_MAX))
}

/// Whether each chain that ends with one of `targets` is near its tip: it lacks at most a day's blocks above the connected
/// chain, whichever of them are requested now.
pub(crate) fn is_near(index: &BlockIndex, tip: NodeId, targets: &[NodeId]) -> bool {
    let tree = index.headers();
    targets.iter().all(|&target| {
        let from = tree.fork(tip, target);
        index.missing_from(from, target, tree.height(target), NEAR_BLOCKS + 1).len() <= NEAR_BLOCKS
    })
}

/// The part of the lists that the allowance permits: all, only if every chain is near its tip, or nothing. With a daily
/// limit each list has at most as many blocks of `block_bytes` as are left.
pub(crate) fn within(
    mut lists: Vec<Vec<Want>>,
    allowance: Allowance,
    is_near: impl FnOnce() -> bool,
    left_bytes: Option<u64>,
    block_bytes: u64,
) -> Vec<Vec<Want>> {
    match allowance {
        Allowance::Nothing(_) => Vec::new(),
        Allowance::NearTip(_) if is_near() => lists,
        Allowance::NearTip(_) => Vec::new(),
        Allowance::All => {
            let most = left_bytes.map_or(usize::MAX, |left| (left / block_bytes.max(1)).max(1) as usize);
            lists.iter_mut().for_each(|list| list.truncate(most));
            lists
        }
    }
}

/// Converts blocks to the network's request type.
pub(crate) fn wants(tree: &Tree, nodes: Vec<NodeId>) -> Vec<Want> {
    nodes.into_iter().map(|node| Want { hash: tree.hash(node), height: tree.height(node) }).collect()
}

/// Whether more blocks must be requested, because the tip has come close to the last requested block. At most `ahead`
/// blocks may be ahead of the tip, and chains end at height `end`.
pub(crate) fn is_short(tip: Height, wanted_to: Height, ahead: u32, end: Height) -> bool {
    wanted_to < end && wanted_to.blocks_above(tip) < ahead - ahead / 8
}

/// The last block of the next run of at most `blocks_max` blocks: on the first chain that extends the tip, whether its
/// blocks are stored or not.
pub(crate) fn next_run(tree: &Tree, tip: NodeId, targets: &[NodeId], blocks_max: u32) -> Option<NodeId> {
    let target = targets.iter().copied().find(|&target| target != tip && tree.is_ancestor(tip, target))?;
    let end = tree.height(target).min(tree.height(tip).saturating_add(blocks_max));
    Some(tree.ancestor(target, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporting::state::Pause;
    use crate::session::testing::{Chains, heights};

    fn unlimited() -> Limits {
        Limits { stop_at: Height::MAX, ahead_max: None, is_prune_due: false, wanted_to: Height::GENESIS }
    }

    #[test]
    fn ahead_is_a_part_of_the_pruning_target() {
        for (row, target, block_bytes, want) in [
            ("no pruning", None, 1_000_000, None),
            ("large blocks", Some(800_000_000), 1_000_000, Some(100)),
            ("small blocks", Some(800_000_000), 1_000, Some(100_000)),
            ("at least a few", Some(1), 1_000_000, Some(AHEAD_MIN)),
            ("no size known", Some(8_000), 0, Some(1_000)),
        ] {
            assert_eq!(ahead_max(target, block_bytes), want, "{row}");
        }
    }

    #[test]
    fn targets_are_known_open_and_have_the_minimum_work() {
        let mut chains = Chains::new();
        let (main, side) = (chains.grow(None, 5), chains.grow(None, 3));
        let hashes = [chains.hash(side[2]), BlockHash::from_bytes([9; 32]), chains.hash(main[4])];
        let minimum = chains.work(side[2]);
        let targets = |chains: &Chains, minimum| open_targets(chains.index().headers(), &hashes, minimum);
        assert_eq!(targets(&chains, minimum), [side[2], main[4]], "in the given order");
        assert_eq!(targets(&chains, chains.work(main[4])), [main[4]]);
        chains.refuse(main[2]);
        assert_eq!(targets(&chains, minimum), [side[2]]);
    }

    #[test]
    fn missing_blocks_are_asked_for_from_the_fork_on() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 6);
        let side = chains.grow(Some(main[1]), 3);
        chains.store(&main[..3]);
        chains.connect(&main[..3]);
        let asked = requests(chains.index(), main[2], &[main[5], side[2]], unlimited());
        assert_eq!(heights(&asked.lists), [vec![4, 5, 6], vec![3, 4, 5]]);
        assert_eq!((asked.wanted_to, asked.is_held_back), (Height::new(6), false));
    }

    #[test]
    fn what_is_stored_is_not_asked_for() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 6);
        chains.store(&[main[1], main[4]]);
        let asked = requests(chains.index(), chains.genesis(), &[main[5]], unlimited());
        assert_eq!(heights(&asked.lists), [vec![1, 3, 4, 6]]);
    }

    #[test]
    fn limits_end_the_lists() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 40);
        let lists = |limits: Limits| {
            let asked = requests(chains.index(), chains.genesis(), &[main[39]], limits);
            (asked.lists[0].len(), asked.wanted_to.to_u32(), asked.is_held_back)
        };
        assert_eq!(lists(unlimited()), (40, 40, false));
        assert_eq!(lists(Limits { stop_at: Height::new(7), ..unlimited() }), (7, 7, false));
        assert_eq!(lists(Limits { ahead_max: Some(16), ..unlimited() }), (16, 16, false));
        let held = Limits { is_prune_due: true, ahead_max: Some(16), wanted_to: Height::new(5), ..unlimited() };
        assert_eq!(lists(held), (5, 5, true), "until a commit has made room");
        let reached = Limits { is_prune_due: true, wanted_to: Height::new(40), ..unlimited() };
        assert_eq!(lists(reached), (40, 40, false), "nothing more could be asked for");
    }

    #[test]
    fn the_budget_shortens_the_lists() {
        let list = |count: u32| -> Vec<Want> {
            (1..=count).map(|height| Want { hash: BlockHash::ZERO, height: Height::new(height) }).collect()
        };
        let lengths = |lists: Vec<Vec<Want>>| lists.iter().map(Vec::len).collect::<Vec<_>>();
        let far = || vec![list(1000), list(5)];
        let all = |left| lengths(within(far(), Allowance::All, || unreachable!("it may be far"), left, 100));
        assert_eq!(all(None), [1000, 5]);
        assert_eq!(all(Some(700)), [7, 5]);
        assert_eq!(all(Some(1)), [1, 1], "the last one may be cut by none");
        let hours = Allowance::NearTip(Pause::Hours { from: 3 });
        assert_eq!(lengths(within(far(), hours, || false, None, 100)), [0; 0]);
        assert_eq!(lengths(within(vec![list(144), list(5)], hours, || true, None, 100)), [144, 5], "near the tip");
        assert_eq!(lengths(within(vec![list(5)], Allowance::Nothing(Pause::Call), || true, None, 100)), [0; 0]);
    }

    #[test]
    fn a_chain_is_near_its_tip_if_it_lacks_a_day_of_blocks() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 200);
        let near = |chains: &Chains, targets: &[NodeId]| is_near(chains.index(), chains.genesis(), targets);
        assert!(near(&chains, &[]) && near(&chains, &main[143..144]) && !near(&chains, &main[144..145]));
        assert!(!near(&chains, &[main[10], main[199]]), "one of them is far");
        chains.store(&main[10..60]);
        assert!(near(&chains, &main[193..194]) && !near(&chains, &main[194..195]), "stored blocks are not missing");
    }

    #[test]
    fn no_target_asks_for_nothing() {
        let chains = Chains::new();
        let asked = requests(chains.index(), chains.genesis(), &[], unlimited());
        assert_eq!(asked, Requests::default());
    }

    #[test]
    fn lists_have_an_end() {
        let mut chains = Chains::new();
        let main = chains.grow(None, WANTS_MAX + 10);
        let asked = requests(chains.index(), chains.genesis(), &[*main.last().unwrap()], unlimited());
        assert_eq!(asked.lists[0].len(), WANTS_MAX);
        assert_eq!(asked.lists[0][0].height, Height::new(1));
    }

    #[test]
    fn more_is_asked_for_as_the_tip_comes_near() {
        for (row, tip, wanted, end, want) in [
            ("as far ahead as may be", 0, 80, 1_000, false),
            ("an eighth less", 10, 80, 1_000, false),
            ("a little less than that", 11, 80, 1_000, true),
            ("the tip passed it", 90, 80, 1_000, true),
            ("nothing is left", 79, 80, 80, false),
        ] {
            let short = is_short(Height::new(tip), Height::new(wanted), 80, Height::new(end));
            assert_eq!(short, want, "{row}");
        }
    }

    #[test]
    fn next_run_follows_the_first_chain_on_the_tip() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 6);
        let side = chains.grow(Some(main[1]), 9);
        let run = |tip: NodeId, targets: &[NodeId]| next_run(chains.index().headers(), tip, targets, 99);
        assert_eq!(run(main[2], &[side[8], main[5]]), Some(main[5]), "the other one does not stand on it");
        assert_eq!(run(main[1], &[side[8], main[5]]), Some(side[8]));
        assert_eq!(run(main[5], &[main[5]]), None, "it is reached");
        assert_eq!(run(main[1], &[]), None);
    }

    #[test]
    fn a_run_is_limited() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 20);
        let end = |tip: NodeId| next_run(chains.index().headers(), tip, &main[19..], 8);
        assert_eq!(end(chains.genesis()), Some(main[7]));
        assert_eq!(end(main[7]), Some(main[15]));
        assert_eq!(end(main[15]), Some(main[19]));
    }
}
