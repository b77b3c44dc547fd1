//! Which blocks are asked for: those of the chains that peers have and that are not there, as far ahead as may be.
//!
//! In: the block index, the ends of the peers' chains, limits. Out: lists of blocks, one for each chain.
//! Pure functions: what was asked for before, and when it is asked again, is the driver's.
//!
//! Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`: of each peer's own chain, so that one whose bodies do not come
//! stands before no other.

use super::budget::{Allowance, NEAR_BLOCKS};
use crate::chain::index::BlockIndex;
use crate::chain::tree::{Fate, NodeId, Tree};
use p2p::Want;
use primitives::{BlockHash, Height, Work};

/// Blocks asked for in one list.
pub(crate) const WANTS_MAX: usize = 4096;
/// Part of the pruning target that blocks may take which are stored and not connected.
const AHEAD_SHARE: u64 = 8;
/// Fewest blocks ahead of the tip, however large blocks are.
const AHEAD_MIN: u32 = 16;

/// How far requests may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// `--stopatheight`; the greatest height without.
    pub(crate) stop_at: Height,
    /// Blocks above the tip that may be stored before they are connected; any number where none is pruned.
    pub(crate) ahead_max: Option<u32>,
    /// A commit would make room on the disk: until then nothing more is asked for.
    pub(crate) is_prune_due: bool,
    /// Height up to which blocks were asked for before.
    pub(crate) wanted_to: Height,
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Requests {
    /// For each chain the blocks that are missing, the lowest first.
    pub(crate) lists: Vec<Vec<Want>>,
    /// Height up to which blocks are asked for from here on.
    pub(crate) wanted_to: Height,
    /// Less is asked for than could be: a commit is to make room first.
    pub(crate) is_held_back: bool,
}

/// How many blocks above the tip may be stored before they are connected, where files are pruned to `prune_target` bytes
/// and a block has `block_bytes`.
pub(crate) fn ahead_max(prune_target: Option<u64>, block_bytes: u64) -> Option<u32> {
    let blocks = prune_target? / AHEAD_SHARE / block_bytes.max(1);
    Some(u32::try_from(blocks).unwrap_or(u32::MAX).max(AHEAD_MIN))
}

/// The ends of the peers' chains that may be followed: those that are known, not refused, and have the minimum work; in the
/// order in which they were given, the preferred first.
pub(crate) fn open_targets(tree: &Tree, targets: &[BlockHash], minimum: Work) -> Vec<NodeId> {
    let known = targets.iter().filter_map(|hash| tree.find(hash));
    known.filter(|&id| tree.fate(id) == Fate::Open && tree.work(id) >= minimum).collect()
}

/// What is asked for of the chains that end with `targets`, above the connected chain that ends with `tip`.
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

/// The blocks that are missing between the connected chain and `target`, up to height `end`.
fn missing_to(index: &BlockIndex, tip: NodeId, target: NodeId, end: Height) -> Vec<Want> {
    let tree = index.headers();
    let from = tree.fork(tip, target);
    let end = end.clamp(tree.height(from), tree.height(target));
    wants(tree, index.missing_from(from, target, end, WANTS_MAX))
}

/// What of the lists may be asked for: all, those of chains that are near their tip, or none; and of a day's bytes no more blocks
/// than are left, of `block_bytes` each.
pub(crate) fn within(
    mut lists: Vec<Vec<Want>>,
    allowance: Allowance,
    left_bytes: Option<u64>,
    block_bytes: u64,
) -> Vec<Vec<Want>> {
    match allowance {
        Allowance::Nothing(_) => Vec::new(),
        Allowance::NearTip(_) if lists.iter().all(|list| list.len() <= NEAR_BLOCKS) => lists,
        Allowance::NearTip(_) => Vec::new(),
        Allowance::All => {
            let most = left_bytes.map_or(usize::MAX, |left| (left / block_bytes.max(1)).max(1) as usize);
            lists.iter_mut().for_each(|list| list.truncate(most));
            lists
        }
    }
}

/// These blocks, as the network takes them.
pub(crate) fn wants(tree: &Tree, nodes: Vec<NodeId>) -> Vec<Want> {
    nodes.into_iter().map(|node| Want { hash: tree.hash(node), height: tree.height(node) }).collect()
}

/// Whether the tip has come so near to the last block asked for that more are to be asked for: where at most `ahead`
/// blocks may lie ahead of it, and chains go up to `end`.
pub(crate) fn is_short(tip: Height, wanted_to: Height, ahead: u32, end: Height) -> bool {
    wanted_to < end && wanted_to.blocks_above(tip) < ahead - ahead / 8
}

/// The last block of the next run, of at most `blocks_max`: of the first chain that stands on the tip, there or still to come.
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
        assert_eq!(lengths(within(far(), Allowance::All, None, 100)), [1000, 5]);
        assert_eq!(lengths(within(far(), Allowance::All, Some(700), 100)), [7, 5]);
        assert_eq!(lengths(within(far(), Allowance::All, Some(1), 100)), [1, 1], "the last one may be cut by none");
        let hours = Allowance::NearTip(Pause::Hours { from: 3 });
        assert_eq!(lengths(within(far(), hours, None, 100)), [0; 0]);
        assert_eq!(lengths(within(vec![list(144), list(5)], hours, None, 100)), [144, 5], "near the tip");
        assert_eq!(lengths(within(vec![list(5)], Allowance::Nothing(Pause::Call), None, 100)), [0; 0]);
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
