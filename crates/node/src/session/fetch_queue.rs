//! The blocks that a fetch still wants, and which of them are in the current request list.
//!
//! In: arrived blocks, the maximum length of a list. Out: the list, and whether another one may help. If the user's
//! daily limit shortens the list, blocks that no peer delivers could take all its places. Then they move behind the
//! others, and the fetch ends when each block was in a list.
//!
//! Absent on purpose: the network, the limits, time.

use crate::chain::tree::NodeId;

/// A cut list is renewed when one part in this many of it has arrived.
const RENEWAL_SHARE: usize = 64;

/// Blocks that have not arrived: first those of the list, last those that had their turn.
#[derive(Debug)]
pub(super) struct Queue {
    wanted: Vec<NodeId>,
    /// Number of blocks of the list that have not arrived.
    listed: usize,
    /// Number of blocks of the list that have arrived.
    arrived: usize,
    /// Whether the list is shorter than the blocks that could be requested.
    is_cut: bool,
    /// Number of blocks at the end that had their turn.
    passed: usize,
}

impl Queue {
    pub(super) fn new(wanted: Vec<NodeId>) -> Queue {
        Queue { wanted, listed: 0, arrived: 0, is_cut: false, passed: 0 }
    }

    /// Blocks that have not arrived.
    pub(super) fn into_wanted(self) -> Vec<NodeId> {
        self.wanted
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Begins a new list: at most `count_max` blocks, and at most `allowed` of them within the user's limits.
    pub(super) fn list(&mut self, count_max: usize, allowed: usize) -> &[NodeId] {
        let most = self.wanted.len().min(count_max);
        (self.listed, self.arrived, self.is_cut) = (most.min(allowed), 0, allowed < most);
        self.listed()
    }

    /// The blocks of the list that have not arrived.
    pub(super) fn listed(&self) -> &[NodeId] {
        &self.wanted[..self.listed]
    }

    pub(super) fn wants(&self, id: NodeId) -> bool {
        self.wanted.contains(&id)
    }

    /// A wanted block arrived. Returns whether the list should be renewed.
    pub(super) fn took(&mut self, id: NodeId) -> bool {
        let Some(place) = self.wanted.iter().position(|&wanted| wanted == id) else { return false };
        if place + self.passed >= self.wanted.len() {
            self.passed -= 1;
        }
        self.wanted.remove(place);
        if place < self.listed {
            self.listed -= 1;
            self.arrived += 1;
        }
        self.is_cut && self.arrived * RENEWAL_SHARE >= self.listed
    }

    /// No peer delivers the listed blocks. Returns whether others did not have their turn: then a new list has them.
    pub(super) fn pass(&mut self) -> bool {
        self.passed += self.listed;
        if !self.is_cut || self.passed >= self.wanted.len() {
            return false;
        }
        self.wanted.rotate_left(self.listed);
        true
    }

    /// Each block has its turn again.
    pub(super) fn begin_anew(&mut self) {
        self.passed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::Chains;
    use testkit::Rng;

    fn nodes(count: usize) -> Vec<NodeId> {
        Chains::new().grow(None, count)
    }

    #[test]
    fn blocks_that_nobody_has_hold_up_no_other() {
        let nodes = nodes(7);
        let stale = &nodes[..3];
        let mut queue = Queue::new(nodes.clone());
        let mut turns = 0;
        loop {
            let listed = queue.list(4096, 2).to_vec();
            let came: Vec<NodeId> = listed.into_iter().filter(|id| !stale.contains(id)).collect();
            if came.is_empty() {
                turns += 1;
                if !queue.pass() {
                    break;
                }
            }
            came.into_iter().for_each(|id| _ = queue.took(id));
        }
        assert_eq!(queue.into_wanted().iter().filter(|id| stale.contains(id)).count(), 3);
        assert_eq!(turns, 2, "of two blocks each");
    }

    #[test]
    fn only_a_cut_list_is_renewed_early_and_passed() {
        let nodes = nodes(300);
        let mut queue = Queue::new(nodes.clone());
        assert_eq!(queue.list(200, usize::MAX).len(), 200);
        assert!(!queue.took(nodes[0]) && !queue.pass(), "the network asks for more of itself");
        let mut queue = Queue::new(nodes.clone());
        assert_eq!(queue.list(200, 130).len(), 130);
        assert_eq!(nodes[..3].iter().map(|&id| queue.took(id)).collect::<Vec<_>>(), [false, true, true]);
        assert!(!queue.took(nodes[0]), "twice");
        assert!(queue.pass());
        assert_eq!(queue.list(200, 1), [nodes[130]]);
        queue.begin_anew();
        let passes = |queue: &mut Queue| queue.list(200, 1).len() == 1 && queue.pass();
        assert_eq!((0..300).take_while(|_| passes(&mut queue)).count(), 296);
    }

    /// By seed: whatever arrives, in whatever order, each block had its turn at the end, and none is lost.
    #[test]
    fn each_block_has_its_turn() {
        for seed in 0..200 {
            let mut random = Rng::new(seed);
            let nodes = nodes(1 + random.below(40));
            let held: Vec<NodeId> = nodes.iter().copied().filter(|_| random.below(3) > 0).collect();
            let mut queue = Queue::new(nodes.clone());
            let mut seen = Vec::new();
            for _ in 0..1000 {
                let listed = queue.list(4096, 1 + random.below(6)).to_vec();
                seen.extend_from_slice(&listed);
                let came: Vec<NodeId> = listed.into_iter().filter(|id| held.contains(id)).collect();
                if came.is_empty() && !queue.pass() {
                    break;
                }
                came.into_iter().for_each(|id| _ = queue.took(id));
            }
            let left: Vec<NodeId> = nodes.iter().copied().filter(|id| queue.wants(*id)).collect();
            assert!(left.iter().all(|id| !held.contains(id)), "seed {seed}");
            assert!(left.iter().all(|id| seen.contains(id)), "seed {seed}");
            assert_eq!(left.len() + held.len(), nodes.len(), "seed {seed}");
        }
    }
}
