//! The header tree: every known header, linked to its parent, with its height, work and fate.
//!
//! In: headers whose rules were checked. Out: ancestors, paths, median times, the best header. Memory: 88 bytes per
//! header, 28 for one in sixteen (its work and jumps), and 4.6 to 5.7 for the look-up by hash. Headers are never
//! removed.
//!
//! Absent on purpose: rules (`consensus`), bodies (`index`), files (`store`).

pub use super::fate::Fate;

use super::fate::HeightAndFate;
use super::kept::{Kept, skip_number};
use primitives::{BlockHash, Hash256, Header, Height, MedianTime, U256, Work};

/// Number of a header in the tree; the genesis block has the lowest, and a parent has a lower number than its children.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(u32);

impl NodeId {
    /// The header with this number.
    ///
    /// # Panics
    ///
    /// For 2^32 and more: no tree has as many headers.
    pub fn new(index: usize) -> NodeId {
        NodeId(u32::try_from(index).expect("fewer than 2^32 headers"))
    }

    /// The number as an index into arrays with one element per header.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The genesis block.
pub const GENESIS: NodeId = NodeId(0);
/// The number that stands for a missing parent, and for an empty slot.
const NONE: NodeId = NodeId(u32::MAX);
/// Number of slots of a new tree.
const SLOTS_MIN: usize = 1024;
/// The number of slots grows by one part in this many: this wastes little memory, and links a header four more times on
/// average.
const SLOTS_GROWTH: usize = 4;

#[derive(Debug)]
struct Node {
    hash: BlockHash,
    merkle_root: Hash256,
    version: i32,
    time: u32,
    bits: u32,
    nonce: u32,
    parent: NodeId,
    place: HeightAndFate,
}

const _: () = assert!(size_of::<Node>() <= 88);

/// Blocks whose height is a multiple of this are anchors. Data that is too large to store for every block is stored for
/// them; every other block is at most fifteen steps above one.
const ANCHOR_STEP: u32 = 16;

/// Data of a block at such a height.
#[derive(Debug)]
struct Anchor {
    id: NodeId,
    /// Index of the anchor sixteen blocks lower; for the genesis block its own index.
    below: u32,
    /// Index of a lower anchor, for jumps.
    skip: u32,
    /// Work of the chain up to and including it.
    work: PackedWork,
}

const _: () = assert!(size_of::<Anchor>() <= 28);

/// A sum of work in 128 bits, low word first: a `u128` would require an alignment of 16 bytes.
#[derive(Clone, Copy, Debug)]
struct PackedWork([u32; 4]);

impl PackedWork {
    fn new(work: u128) -> PackedWork {
        PackedWork([0, 32, 64, 96].map(|shift| (work >> shift) as u32))
    }

    fn get(self) -> u128 {
        self.0.iter().rev().fold(0, |work, &word| work << 32 | u128::from(word))
    }
}

/// Every known header.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    /// Anchors in the order of their node numbers.
    anchors: Vec<Anchor>,
    /// Open addressing over `nodes`, by hash.
    slots: Vec<NodeId>,
    /// The header with the most work that is not known to be invalid, and that work.
    best: (NodeId, u128),
    /// The invalid header (marked, or with a marked ancestor) with the most work, and that work; 0 without one.
    shut_out: (NodeId, u128),
    /// The last added header, and its work: usually the next one's parent.
    last: (NodeId, u128),
    /// The last bits, and the work of one block with them, because the division is slow.
    proof: (u32, u128),
    /// States of deployments in the period after a block: see [`crate::chain::deployments`].
    pub(crate) states: Kept<NodeId>,
}

impl Tree {
    /// A tree with only the genesis block.
    pub fn new(genesis: &Header) -> Tree {
        let work = proof_of(genesis.bits());
        let slots = vec![NONE; SLOTS_MIN];
        let best = (GENESIS, work);
        let proof = (genesis.bits(), work);
        let shut_out = (GENESIS, 0);
        let nodes = Vec::new();
        let anchors = Vec::new();
        let states = Kept::default();
        let mut tree = Tree { nodes, anchors, slots, best, shut_out, last: best, proof, states };
        tree.push(genesis, genesis.hash(), NONE, Height::GENESIS, work);
        tree
    }

    /// Reserves memory for this number of further headers.
    pub fn reserve(&mut self, more: usize) {
        self.nodes.reserve_exact(more);
        self.anchors.reserve_exact(more / ANCHOR_STEP as usize);
        let wanted = (self.nodes.len() + more).saturating_mul(8) / 7 + SLOTS_MIN;
        if wanted > self.slots.len() {
            self.set_slots(wanted);
        }
    }

    /// Number of headers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false: the genesis block is in every tree.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Bytes of memory used.
    pub fn memory_bytes(&self) -> usize {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        nodes + self.anchors.capacity() * size_of::<Anchor>() + self.slots.len() * 4
    }

    /// The header with this hash.
    pub fn find(&self, hash: &BlockHash) -> Option<NodeId> {
        let mut at = self.home(hash);
        loop {
            match self.slots[at] {
                NONE => return None,
                id if self.nodes[id.index()].hash == *hash => return Some(id),
                _ => at = self.slot_after(at),
            }
        }
    }

    /// Adds a header that follows all rules; its parent is `parent`. Adding it again returns the same number.
    pub fn insert(&mut self, header: &Header, hash: BlockHash, parent: NodeId) -> NodeId {
        if let Some(id) = self.find(&hash) {
            return id;
        }
        let place = self.nodes[parent.index()].place;
        let fate = if place.fate() == Fate::Open { Fate::Open } else { Fate::FailedParent };
        if self.proof.0 != header.bits() {
            self.proof = (header.bits(), proof_of(header.bits()));
        }
        let below = if self.last.0 == parent { self.last.1 } else { self.sum(parent) };
        let work = below.saturating_add(self.proof.1);
        let id = self.push(header, hash, parent, place.height() + 1, work);
        self.set_fate(id, fate);
        self.last = (id, work);
        if fate == Fate::Open && work > self.best.1 {
            self.best = (id, work);
        } else if fate != Fate::Open && work > self.shut_out.1 {
            self.shut_out = (id, work);
        }
        id
    }

    /// The last header of an invalid chain with more work than [`Tree::best`]; of several the one with the most.
    pub fn shut_out_end(&self) -> Option<NodeId> {
        (self.shut_out.1 > self.best.1).then_some(self.shut_out.0)
    }

    /// Finds the invalid header with the most work, after marks were removed.
    fn find_shut_out(&mut self) {
        let marked = self.ids().filter(|&id| self.fate(id) != Fate::Open).map(|id| (id, self.sum(id)));
        self.shut_out = marked.max_by_key(|&(id, work)| (work, std::cmp::Reverse(id))).unwrap_or((GENESIS, 0));
    }

    /// The header with the most work that is not known to be invalid; of equals the first.
    pub fn best(&self) -> NodeId {
        self.best.0
    }

    /// Finds the header with the most work that is not known to be invalid, after a mark.
    fn find_best(&mut self) {
        let open = self.ids().filter(|&id| self.fate(id) == Fate::Open).map(|id| (id, self.sum(id)));
        let best = open.max_by_key(|&(id, work)| (work, std::cmp::Reverse(id)));
        self.best = best.unwrap_or_else(|| (GENESIS, self.sum(GENESIS)));
    }

    fn push(&mut self, header: &Header, hash: BlockHash, parent: NodeId, height: Height, work: u128) -> NodeId {
        let id = NodeId::new(self.nodes.len());
        self.nodes.push(Node {
            hash,
            merkle_root: header.merkle_root(),
            version: header.version(),
            time: header.time(),
            bits: header.bits(),
            nonce: header.nonce(),
            parent,
            place: HeightAndFate::new(height, Fate::Open),
        });
        if height.to_u32().is_multiple_of(ANCHOR_STEP) {
            self.push_anchor(id, work);
        }
        // At most seven of eight slots are used: a look-up then compares four other headers on average if the header is
        // known, 32 if not.
        if self.nodes.len() * 8 > self.slots.len() * 7 {
            self.set_slots(self.slots.len() + self.slots.len() / SLOTS_GROWTH);
        } else {
            self.link(id);
        }
        id
    }

    /// Rebuilds the look-up of all headers, with `count` slots.
    fn set_slots(&mut self, count: usize) {
        self.slots = vec![NONE; count];
        (0..self.nodes.len()).for_each(|index| self.link(NodeId::new(index)));
    }

    fn link(&mut self, id: NodeId) {
        let mut at = self.home(&self.nodes[id.index()].hash);
        while self.slots[at] != NONE {
            at = self.slot_after(at);
        }
        self.slots[at] = id;
    }

    /// The first slot of the search for a hash.
    fn home(&self, hash: &BlockHash) -> usize {
        // The first bytes are not constrained by the proof of work; a keyed hash is unnecessary, because each header
        // costs work.
        let first = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("8 of 32 bytes"));
        ((u128::from(first) * self.slots.len() as u128) >> 64) as usize
    }

    fn slot_after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Adds the anchor of a block that was just added.
    fn push_anchor(&mut self, id: NodeId, work: u128) {
        let number = self.height(id).to_u32() / ANCHOR_STEP;
        let mut below = 0;
        let mut skip = 0;
        if let Some(parent) = self.parent(id) {
            below = self.anchor(self.anchor_below(parent));
            skip = self.anchor_above(below, Height::new(skip_number(number) * ANCHOR_STEP));
        }
        self.anchors.push(Anchor { id, below: below as u32, skip: skip as u32, work: PackedWork::new(work) });
    }

    /// The block itself if it is an anchor, otherwise the highest anchor below it.
    fn anchor_below(&self, mut id: NodeId) -> NodeId {
        while !self.height(id).to_u32().is_multiple_of(ANCHOR_STEP) {
            id = self.node(id).parent;
        }
        id
    }

    /// Index of an anchor.
    fn anchor(&self, id: NodeId) -> usize {
        // With a single chain they are in the order of their heights.
        let guess = (self.height(id).to_u32() / ANCHOR_STEP) as usize;
        if self.anchors.get(guess).is_some_and(|anchor| anchor.id == id) {
            return guess;
        }
        self.anchors.binary_search_by_key(&id, |anchor| anchor.id).expect("a block at such a height is an anchor")
    }

    /// The lowest anchor at or below this one whose height is at least `height`.
    fn anchor_above(&self, mut at: usize, height: Height) -> usize {
        loop {
            let Anchor { below, skip, .. } = self.anchors[at];
            let nexts = [skip as usize, below as usize];
            let next = nexts.into_iter().find(|&next| next != at && self.height(self.anchors[next].id) >= height);
            let Some(next) = next else { return at };
            at = next;
        }
    }

    /// Work of the chain up to and including a block.
    fn sum(&self, id: NodeId) -> u128 {
        let mut at = id;
        let mut sum = 0_u128;
        let mut proof = (0, 0);
        while !self.height(at).to_u32().is_multiple_of(ANCHOR_STEP) {
            let node = self.node(at);
            if node.bits != proof.0 {
                proof = (node.bits, proof_of(node.bits));
            }
            sum = sum.saturating_add(proof.1);
            at = node.parent;
        }
        self.anchors[self.anchor(at)].work.get().saturating_add(sum)
    }

    fn set_fate(&mut self, id: NodeId, fate: Fate) {
        let place = &mut self.nodes[id.index()].place;
        *place = HeightAndFate::new(place.height(), fate);
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The header's hash.
    pub fn hash(&self, id: NodeId) -> BlockHash {
        self.node(id).hash
    }

    /// The header's height.
    pub fn height(&self, id: NodeId) -> Height {
        self.node(id).place.height()
    }

    /// The header's time.
    pub fn time(&self, id: NodeId) -> u32 {
        self.node(id).time
    }

    /// The header's compact target (`nBits`).
    pub fn bits(&self, id: NodeId) -> u32 {
        self.node(id).bits
    }

    /// The header's version.
    pub fn version(&self, id: NodeId) -> i32 {
        self.node(id).version
    }

    /// Work of the chain up to and including it.
    pub fn work(&self, id: NodeId) -> Work {
        Work(U256::from_u128(self.sum(id)))
    }

    /// The header's parent; `None` for the genesis block.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        Some(self.node(id).parent).filter(|&parent| parent != NONE)
    }

    /// The serialized header of 80 bytes.
    pub fn header(&self, id: NodeId) -> Header {
        let node = self.node(id);
        let prev = self.parent(id).map_or(BlockHash::ZERO, |parent| self.hash(parent));
        Header::new(node.version, prev, node.merkle_root, node.time, node.bits, node.nonce)
    }

    /// The header's fate.
    pub fn fate(&self, id: NodeId) -> Fate {
        self.node(id).place.fate()
    }

    /// All descendants of these blocks, parents before children, in one pass.
    pub fn descendants(&self, roots: &[NodeId]) -> Vec<NodeId> {
        let Some(lowest) = roots.iter().map(|id| id.index()).min() else { return Vec::new() };
        let mut is_above = vec![false; self.nodes.len() - lowest];
        roots.iter().for_each(|id| is_above[id.index() - lowest] = true);
        let mut descendants = Vec::new();
        // A child always has a higher number than its parent.
        for index in lowest + 1..self.nodes.len() {
            let parent = self.nodes[index].parent.index();
            if parent >= lowest && is_above[parent - lowest] {
                is_above[index - lowest] = true;
                descendants.push(NodeId::new(index));
            }
        }
        descendants
    }

    /// Marks a block and all its descendants invalid; returns the block and the newly marked ones.
    pub fn fail(&mut self, id: NodeId) -> Vec<NodeId> {
        let mut marked = self.descendants(&[id]);
        marked.retain(|id| self.fate(*id) == Fate::Open);
        for id in &marked {
            self.set_fate(*id, Fate::FailedParent);
        }
        self.set_fate(id, Fate::Failed);
        marked.insert(0, id);
        for id in &marked {
            let work = self.sum(*id);
            if work > self.shut_out.1 {
                self.shut_out = (*id, work);
            }
        }
        if self.fate(self.best.0) != Fate::Open {
            self.find_best();
        }
        marked
    }

    /// Removes marks of [`Tree::fail`]; returns the blocks that are no longer known to be invalid.
    pub fn reopen(&mut self, ids: &[NodeId]) -> Vec<NodeId> {
        ids.iter().for_each(|id| self.set_fate(*id, Fate::FailedParent));
        let mut below = self.descendants(ids);
        below.extend_from_slice(ids);
        // Parents have lower numbers than their children.
        below.sort_unstable();
        below.dedup();
        let mut reopened = Vec::new();
        for id in below {
            let is_parent_open = self.parent(id).is_none_or(|parent| self.fate(parent) == Fate::Open);
            if is_parent_open && self.fate(id) == Fate::FailedParent {
                self.set_fate(id, Fate::Open);
                reopened.push(id);
                let work = self.sum(id);
                if work > self.best.1 {
                    self.best = (id, work);
                }
            }
        }
        self.find_shut_out();
        reopened
    }

    /// Removes the marks of a block, its ancestors and its descendants, and no others. A block outside of these that
    /// was invalid only because of a marked ancestor gets its own mark. Returns the blocks whose marks changed.
    ///
    /// Source: Bitcoin Core b88bffe, `Chainstate::ResetBlockFailureFlags`.
    pub fn reconsider(&mut self, id: NodeId) -> Vec<NodeId> {
        let mut changed = self.descendants(&[id]);
        changed.extend(std::iter::successors(Some(id), |&id| self.parent(id)));
        changed.retain(|&id| self.fate(id) != Fate::Open);
        changed.iter().for_each(|id| self.set_fate(*id, Fate::Open));
        let Some(lowest) = changed.iter().min().copied() else { return changed };
        for id in self.descendants(&[lowest]) {
            let is_parent_open = self.parent(id).is_some_and(|parent| self.fate(parent) == Fate::Open);
            if self.fate(id) == Fate::FailedParent && is_parent_open {
                self.set_fate(id, Fate::Failed);
            }
        }
        self.find_best();
        self.find_shut_out();
        changed
    }

    /// The ancestor at `height`, or the block itself.
    ///
    /// # Panics
    ///
    /// If `height` is above the block's own.
    pub fn ancestor(&self, id: NodeId, height: Height) -> NodeId {
        let mut at = id;
        assert!(height <= self.height(id), "an ancestor is not higher");
        let mut has_jumped = false;
        while self.height(at) > height {
            if !has_jumped && self.height(at).to_u32().is_multiple_of(ANCHOR_STEP) {
                at = self.anchors[self.anchor_above(self.anchor(at), height)].id;
                has_jumped = true;
            } else {
                at = self.node(at).parent;
            }
        }
        at
    }

    /// Whether `below` is `above` or one of its ancestors.
    pub fn is_ancestor(&self, below: NodeId, above: NodeId) -> bool {
        self.height(below) <= self.height(above) && self.ancestor(above, self.height(below)) == below
    }

    /// The last common ancestor.
    pub fn fork(&self, a: NodeId, b: NodeId) -> NodeId {
        let height = self.height(a).min(self.height(b));
        let mut a = self.ancestor(a, height);
        let mut b = self.ancestor(b, height);
        while a != b {
            if self.height(a).to_u32().is_multiple_of(ANCHOR_STEP) {
                (a, b) = self.lowest_apart(a, b);
            }
            (a, b) = (self.node(a).parent, self.node(b).parent);
        }
        a
    }

    /// The lowest anchors that differ, on two branches given by anchors of equal height.
    fn lowest_apart(&self, a: NodeId, b: NodeId) -> (NodeId, NodeId) {
        let mut a = &self.anchors[self.anchor(a)];
        let mut b = &self.anchors[self.anchor(b)];
        loop {
            (a, b) = if a.skip != b.skip {
                (&self.anchors[a.skip as usize], &self.anchors[b.skip as usize])
            } else if a.below != b.below {
                (&self.anchors[a.below as usize], &self.anchors[b.below as usize])
            } else {
                return (a.id, b.id);
            };
        }
    }

    /// The blocks above `from` up to and including `to`, lowest first; `from` must be an ancestor of `to`.
    pub fn path(&self, from: NodeId, to: NodeId) -> Vec<NodeId> {
        let mut path = Vec::with_capacity((self.height(to) - self.height(from)) as usize);
        let mut at = to;
        while at != from {
            path.push(at);
            at = self.node(at).parent;
        }
        path.reverse();
        path
    }

    /// Median of the times of the last eleven blocks, itself included.
    /// Source: Bitcoin Core b88bffe, `CBlockIndex::GetMedianTimePast`.
    pub fn median_time_past(&self, id: NodeId) -> MedianTime {
        let mut times = [0; 11];
        let mut count = 0;
        for at in std::iter::successors(Some(id), |&at| self.parent(at)).take(times.len()) {
            times[count] = self.node(at).time;
            count += 1;
        }
        times[..count].sort_unstable();
        MedianTime::new(times[count / 2])
    }

    /// All node numbers, parents before children.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
}

/// Work of one block with these bits.
fn proof_of(bits: u32) -> u128 {
    Work::of_bits(bits).0.saturating_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_packs_work() {
        for work in [0, 1, u128::from(u32::MAX), 1 << 32, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210, u128::MAX] {
            assert_eq!(PackedWork::new(work).get(), work);
        }
    }

    fn child(tree: &mut Tree, parent: NodeId, time: u32, nonce: u32) -> NodeId {
        child_with(tree, parent, time, nonce, 0x207f_ffff)
    }

    fn child_with(tree: &mut Tree, parent: NodeId, time: u32, nonce: u32, bits: u32) -> NodeId {
        let header = Header::new(4, tree.hash(parent), Hash256::ZERO, time, bits, nonce);
        tree.insert(&header, header.hash(), parent)
    }

    fn tree() -> Tree {
        Tree::new(&Header::new(1, BlockHash::ZERO, Hash256::ZERO, 0, 0x207f_ffff, 0))
    }

    #[test]
    fn ancestor_fork_and_path_agree_with_a_plain_walk() {
        let mut tree = tree();
        let mut ids = vec![GENESIS];
        let mut rng = testkit::Rng::new(1);
        for n in 1..3000u32 {
            let back = if rng.one_in(16) { rng.below(ids.len()) } else { ids.len() - 1 };
            let parent = ids[back];
            let bits = if rng.one_in(3) { 0x207f_ffff } else { 0x1d00_ffff + rng.u32() % 3 };
            ids.push(child_with(&mut tree, parent, n, n, bits));
        }
        let best = ids.iter().max_by_key(|&&id| (tree.work(id), std::cmp::Reverse(id)));
        assert_eq!(Some(&tree.best()), best);
        tree.reserve(5000);
        let plain_work = |id: NodeId| {
            let chain = std::iter::successors(Some(id), |&id| tree.parent(id));
            chain.map(|id| proof_of(tree.bits(id))).sum::<u128>()
        };
        let plain = |mut id: NodeId, height| {
            while tree.height(id) > height {
                id = tree.parent(id).unwrap();
            }
            id
        };
        for &id in ids.iter().step_by(37) {
            for height in Height::GENESIS.to(tree.height(id)).step_by(11) {
                assert_eq!(tree.ancestor(id, height), plain(id, height));
            }
            assert_eq!(tree.sum(id), plain_work(id));
            assert_eq!(tree.header(id).hash(), tree.hash(id));
            assert_eq!(tree.find(&tree.hash(id)), Some(id));
            for &other in ids.iter().step_by(101) {
                let fork = tree.fork(id, other);
                assert!(tree.is_ancestor(fork, id) && tree.is_ancestor(fork, other));
                let path = tree.path(fork, id);
                assert_eq!(path.len() as u32, tree.height(id) - tree.height(fork));
                let above =
                    |to: NodeId| (tree.height(to) > tree.height(fork)).then(|| plain(to, tree.height(fork) + 1));
                assert!(above(id).is_none() || above(id) != above(other));
            }
        }
    }

    #[test]
    fn reconsider_opens_ancestors_and_descendants_alone() {
        let mut tree = tree();
        let a = child(&mut tree, GENESIS, 1, 1);
        let b = child(&mut tree, a, 2, 2);
        let beside = child(&mut tree, a, 3, 3);
        let c = child(&mut tree, b, 4, 4);
        let d = child(&mut tree, c, 5, 5);
        tree.fail(c);
        tree.fail(a);
        assert_eq!(tree.best(), GENESIS);
        assert_eq!(tree.reconsider(b).len(), 4);
        let fates: Vec<Fate> = [a, b, beside, c, d].map(|id| tree.fate(id)).into();
        assert_eq!(fates, [Fate::Open, Fate::Open, Fate::Failed, Fate::Open, Fate::Open]);
        assert_eq!(tree.best(), d);
        assert!(tree.reconsider(d).is_empty());
    }

    #[test]
    fn fail_marks_descendants() {
        let mut tree = tree();
        let a = child(&mut tree, GENESIS, 1, 1);
        let b = child(&mut tree, a, 2, 2);
        let c = child(&mut tree, b, 3, 3);
        let other = child(&mut tree, a, 4, 4);
        assert_eq!(tree.fail(b), [b, c]);
        let late = child(&mut tree, c, 5, 5);
        let fates: Vec<Fate> = [a, b, c, other, late].map(|id| tree.fate(id)).into();
        assert_eq!(fates, [Fate::Open, Fate::Failed, Fate::FailedParent, Fate::Open, Fate::FailedParent]);
        assert_eq!(tree.fail(b), [b]);
        tree.fail(late);
        assert_eq!(tree.reopen(&[b]), [b, c], "late has a mark of its own");
        assert_eq!((tree.best(), tree.fate(late)), (c, Fate::Failed));
        assert_eq!(tree.reopen(&[late]), [late]);
        assert_eq!(tree.best(), late);
    }

    /// Median of n times: the element at n / 2 of the sorted list, up to eleven.
    #[test]
    fn median_time_past_is_that_of_eleven_blocks() {
        let mut tree = tree();
        let mut tip = GENESIS;
        for (time, want) in [(10, 10), (5, 5), (7, 7), (20, 7), (1, 7), (2, 5), (9, 7)] {
            tip = child(&mut tree, tip, time, time);
            assert_eq!(tree.median_time_past(tip), MedianTime::new(want), "after {time}");
        }
        for time in 100..120 {
            tip = child(&mut tree, tip, time, time);
        }
        assert_eq!(tree.median_time_past(tip), MedianTime::new(114));
    }
}
