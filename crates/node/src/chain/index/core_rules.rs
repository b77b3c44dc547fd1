//! Compares random sequences of headers, blocks, `invalidateblock`, `reconsiderblock` and `preciousblock` with a plain
//! model of Core's rules: a candidate set that Core prunes, marks on every block, and activation in steps.
//!
//! Source: Bitcoin Core b88bffe, validation.cpp: `ReceivedBlockTransactions`, `TryAddBlockIndexCandidate`,
//! `FindMostWorkChain`, `ActivateBestChainStep`, `InvalidateBlock`, `InvalidChainFound`, `ResetBlockFailureFlags`,
//! `PreciousBlock`.

use super::*;
use consensus::Chain;
use primitives::{Hash256, Header};
use testkit::Rng;

/// A block in Core's model. Its number equals that of the header in ffwd's tree.
struct CoreBlock {
    parent: usize,
    height: usize,
    sequence: i64,
    failed: bool,
    has_data: bool,
    /// `HaveNumChainTxs`.
    is_linked: bool,
    /// Whether it breaks a rule when it is connected.
    is_bad: bool,
}

/// All blocks have the same work, so height stands for work.
struct Core {
    blocks: Vec<CoreBlock>,
    active: Vec<usize>,
    candidates: Vec<usize>,
    unlinked: Vec<usize>,
    next_sequence: i64,
    next_precious: i64,
    precious_height: usize,
}

impl Core {
    fn new() -> Core {
        let genesis = CoreBlock {
            parent: 0,
            height: 0,
            sequence: 0,
            failed: false,
            has_data: true,
            is_linked: true,
            is_bad: false,
        };
        Core {
            blocks: vec![genesis],
            active: vec![0],
            candidates: vec![0],
            unlinked: Vec::new(),
            next_sequence: 2,
            next_precious: -1,
            precious_height: 0,
        }
    }

    fn tip(&self) -> usize {
        *self.active.last().unwrap()
    }

    /// `CBlockIndexWorkComparator`.
    fn is_worse(&self, a: usize, b: usize) -> bool {
        let key = |id: usize| (self.blocks[id].height, -self.blocks[id].sequence);
        key(a) < key(b)
    }

    fn is_on(&self, mut id: usize, ancestor: usize) -> bool {
        while self.blocks[id].height > self.blocks[ancestor].height {
            id = self.blocks[id].parent;
        }
        id == ancestor
    }

    fn contains(&self, id: usize) -> bool {
        self.active.get(self.blocks[id].height) == Some(&id)
    }

    fn add_candidate(&mut self, id: usize) {
        if !self.candidates.contains(&id) {
            self.candidates.push(id);
        }
    }

    fn header(&mut self, parent: usize, is_bad: bool) {
        let height = self.blocks[parent].height + 1;
        let (failed, has_data, is_linked) = Default::default();
        self.blocks.push(CoreBlock { parent, height, sequence: 1, failed, has_data, is_linked, is_bad });
    }

    fn receive(&mut self, id: usize) {
        self.blocks[id].has_data = true;
        if !self.blocks[self.blocks[id].parent].is_linked {
            self.unlinked.push(id);
            return;
        }
        let mut queue = VecDeque::from([id]);
        while let Some(id) = queue.pop_front() {
            self.blocks[id].is_linked = true;
            self.blocks[id].sequence = self.next_sequence;
            self.next_sequence += 1;
            if !self.is_worse(id, self.tip()) {
                self.add_candidate(id);
            }
            let blocks = &self.blocks;
            queue.extend(self.unlinked.extract_if(.., |child| blocks[*child].parent == id));
        }
    }

    fn mark(&mut self, id: usize) {
        for other in 0..self.blocks.len() {
            if self.is_on(other, id) {
                self.blocks[other].failed = true;
            }
        }
    }

    fn find_most_work(&mut self) -> usize {
        loop {
            let best = self.candidates.iter().copied().reduce(|a, b| if self.is_worse(a, b) { b } else { a }).unwrap();
            let mut path = vec![best];
            while !self.contains(*path.last().unwrap()) {
                path.push(self.blocks[*path.last().unwrap()].parent);
            }
            let Some(place) = path.iter().position(|&id| !self.contains(id) && self.blocks[id].failed) else {
                return best;
            };
            self.candidates.retain(|id| !path[..=place].contains(id));
        }
    }

    fn activate(&mut self) {
        loop {
            let best = self.find_most_work();
            if best == self.tip() {
                return;
            }
            let mut path = Vec::new();
            let mut at = best;
            while !self.contains(at) {
                path.push(at);
                at = self.blocks[at].parent;
            }
            self.active.truncate(self.blocks[at].height + 1);
            for &id in path.iter().rev() {
                if self.blocks[id].is_bad {
                    self.blocks[id].failed = true;
                    self.candidates.retain(|&other| other != id);
                    self.mark(id);
                    break;
                }
                self.active.push(id);
                let tip = id;
                let blocks = std::mem::take(&mut self.candidates);
                self.candidates = blocks.into_iter().filter(|&id| !self.is_worse(id, tip)).collect();
            }
        }
    }

    fn invalidate(&mut self, id: usize) {
        let was_active = self.contains(id);
        let mut last = id;
        while self.contains(id) {
            last = self.active.pop().unwrap();
            self.blocks[last].failed = true;
            self.candidates.retain(|&other| other != last);
            self.add_candidate(self.tip());
            for other in 0..self.blocks.len() {
                if !self.contains(other) && self.is_on(other, last) {
                    self.blocks[other].failed = true;
                }
            }
        }
        if !was_active {
            self.blocks[id].failed = true;
            self.candidates.retain(|&other| other != id);
        }
        for other in 0..self.blocks.len() {
            let block = &self.blocks[other];
            if block.is_linked && !block.failed && !self.is_worse(other, self.tip()) {
                self.add_candidate(other);
            }
        }
        self.mark(last);
        self.activate();
    }

    fn reconsider(&mut self, id: usize) {
        for other in 0..self.blocks.len() {
            let is_related = self.is_on(other, id) || self.is_on(id, other);
            if self.blocks[other].failed && is_related {
                self.blocks[other].failed = false;
                if self.blocks[other].is_linked && self.is_worse(self.tip(), other) {
                    self.add_candidate(other);
                }
            }
        }
        self.activate();
    }

    fn precious(&mut self, id: usize) {
        let tip_height = self.blocks[self.tip()].height;
        if self.blocks[id].height < tip_height {
            return;
        }
        if tip_height > self.precious_height {
            self.next_precious = -1;
        }
        self.precious_height = tip_height;
        self.candidates.retain(|&other| other != id);
        self.blocks[id].sequence = self.next_precious;
        self.next_precious -= 1;
        if self.blocks[id].is_linked && !self.blocks[id].failed {
            self.add_candidate(id);
        }
        self.activate();
    }
}

/// The index, with the engine's procedure to activate the best chain.
struct Ours {
    index: BlockIndex,
    bad: HashSet<NodeId>,
}

impl Ours {
    fn activate(&mut self) {
        loop {
            let tip = self.index.tip();
            let best = self.index.best_candidate(self.index.tip());
            if best == tip {
                return self.index.invariants();
            }
            let fork = self.index.headers.fork(tip, best);
            while self.index.tip() != fork {
                self.index.disconnected();
            }
            for id in self.index.headers.path(fork, best) {
                if self.bad.contains(&id) {
                    self.index.invalid(id);
                    break;
                }
                self.index.connected(id, 1, Some(id.index() as u32));
            }
        }
    }

    fn invalidate(&mut self, id: NodeId) {
        while self.index.is_active(id) {
            self.index.disconnected();
        }
        self.index.invalid(id);
    }
}

fn header(index: &mut BlockIndex, parent: NodeId, nonce: u32) -> NodeId {
    let header = Header::new(4, index.headers.hash(parent), Hash256::ZERO, 1, 0x207f_ffff, nonce);
    let id = index.headers.insert(&header, header.hash(), parent);
    index.add_bodies(true);
    id
}

/// Applies one random operation to both; returns its description.
fn step(ours: &mut Ours, core: &mut Core, rng: &mut Rng, nonce: u32) -> String {
    let number = rng.below(core.blocks.len());
    let id = NodeId::new(number);
    match rng.below(16) {
        0..=4 => {
            // Most headers are added near the tip, where chains with equal work compete.
            let near = core.active[core.active.len().saturating_sub(1 + rng.below(3))];
            let parent = if rng.one_in(3) { number } else { near };
            if core.blocks[parent].failed {
                return "a header on an invalid block is not taken in".to_owned();
            }
            let is_bad = rng.one_in(8);
            core.header(parent, is_bad);
            let id = header(&mut ours.index, NodeId::new(parent), nonce);
            if is_bad {
                ours.bad.insert(id);
            }
            assert_eq!(id.index(), core.blocks.len() - 1);
            format!("header {} on {parent}, bad {is_bad}", id.index())
        }
        5..=11 => {
            let waits: Vec<usize> =
                (0..core.blocks.len()).filter(|&id| !core.blocks[id].has_data && !core.blocks[id].failed).collect();
            if waits.is_empty() {
                return "no block to receive".to_owned();
            }
            let number = *rng.pick(&waits);
            core.receive(number);
            core.activate();
            let id = NodeId::new(number);
            ours.index.found(id, BlockAt { file: 0, offset: u64::from(nonce) * 1000, size: 100 });
            ours.index.checked(id, 1);
            ours.activate();
            format!("block {number}")
        }
        12 | 13 if number > 0 && !rng.one_in(3) => {
            core.invalidate(number);
            ours.invalidate(id);
            ours.activate();
            format!("invalidateblock {number}")
        }
        14 => {
            core.precious(number);
            let tip = ours.index.tip();
            ours.index.precious(id, tip);
            ours.activate();
            format!("preciousblock {number}")
        }
        _ => {
            core.reconsider(number);
            ours.index.reconsider(id);
            ours.activate();
            format!("reconsiderblock {number}")
        }
    }
}

#[test]
fn chain_and_marks_are_cores_after_random_episodes() {
    for seed in 0..testkit::rounds(150) as u64 {
        let mut core = Core::new();
        let mut rng = Rng::new(seed);
        let mut ours = Ours { index: BlockIndex::new(&Params::new(Chain::Regtest)), bad: HashSet::new() };
        let mut done = Vec::new();
        for nonce in 1..80 {
            done.push(step(&mut ours, &mut core, &mut rng, nonce));
            let chain: Vec<usize> = ours.index.active().iter().map(|id| id.index()).collect();
            assert_eq!(chain, core.active, "seed {seed}: {done:#?}");
            for (number, block) in core.blocks.iter().enumerate() {
                let is_failed = ours.index.headers.fate(NodeId::new(number)) != Fate::Open;
                assert_eq!(is_failed, block.failed, "seed {seed}, block {number}: {done:#?}");
            }
        }
    }
}
