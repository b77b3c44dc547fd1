//! Compares random transitions with a plain model that keeps a list of bodies and recomputes everything each time.

use super::*;
use consensus::Chain;
use primitives::{BlockHash, Hash256, Header, Height, Work};
use std::collections::{BTreeMap, BTreeSet};
use testkit::Rng;

fn regtest() -> BlockIndex {
    BlockIndex::new(&Params::new(Chain::Regtest))
}

/// A header on `parent`, without a body.
fn header(index: &mut BlockIndex, parent: NodeId, nonce: u32) -> NodeId {
    let header = Header::new(4, index.headers.hash(parent), Hash256::ZERO, 1, 0x207f_ffff, nonce);
    let id = index.headers.insert(&header, header.hash(), parent);
    index.add_bodies(true);
    id
}

fn at(file: u32, offset: u64) -> BlockAt {
    BlockAt { file, offset, size: 100 }
}

/// The expected state of the index, by definition.
#[derive(Default)]
struct Model {
    /// Places of bodies, in the order in which they are used.
    places: BTreeMap<NodeId, Vec<BlockAt>>,
    /// Bodies that were connected and pruned.
    kept: BTreeSet<NodeId>,
    /// All bodies, in order of arrival.
    arrived: Vec<NodeId>,
    /// Ranks of blocks that precede others with equal work: preferred and connected blocks.
    ranks: BTreeMap<NodeId, i64>,
    /// Next rank of a preferred block, and work of the tip at the last preference.
    precious: (i64, Work),
    /// Contents of the index on disk.
    disk: BTreeMap<Height, Vec<IndexEntry>>,
}

impl Model {
    fn arrive(&mut self, id: NodeId) {
        if !self.arrived.contains(&id) {
            self.arrived.push(id);
        }
    }

    fn leave(&mut self, id: NodeId) {
        self.arrived.retain(|&other| other != id);
    }

    /// Blocks in the order in which they became complete.
    fn complete(&self, tree: &Tree) -> Vec<NodeId> {
        let (mut complete, mut waiting) = (vec![GENESIS], Vec::new());
        for &id in &self.arrived {
            waiting.push(id);
            let mut queue = VecDeque::from([id]);
            while let Some(id) = queue.pop_front() {
                if complete.contains(&tree.parent(id).unwrap()) {
                    complete.push(id);
                    waiting.retain(|&other| other != id);
                    queue.extend(waiting.iter().filter(|&&child| tree.parent(child) == Some(id)));
                }
            }
        }
        complete
    }

    /// A scan of all blocks, without a candidate set.
    fn best(&self, tree: &Tree, tip: NodeId) -> NodeId {
        let complete = self.complete(tree);
        let rank = |id: NodeId| match self.ranks.get(&id) {
            Some(&rank) => Some(rank),
            None => complete.iter().position(|&other| other == id).map(|place| place as i64 + 1),
        };
        let mut best = tip;
        for id in tree.ids().filter(|&id| complete.contains(&id) && tree.fate(id) == Fate::Open) {
            if tree.work(id) > tree.work(best) || (tree.work(id) == tree.work(best) && rank(id) < rank(best)) {
                best = id;
            }
        }
        best
    }

    /// Gives precedence to the connected chain.
    fn keep_connected(&mut self, index: &BlockIndex) {
        let complete = self.complete(&index.headers);
        self.ranks.extend(index.active.iter().filter(|id| complete.contains(id)).map(|&id| (id, 0)));
    }

    fn prefer(&mut self, tree: &Tree, id: NodeId, tip: NodeId) {
        if tree.work(id) < tree.work(tip) {
            return;
        }
        let rank = if tree.work(tip) > self.precious.1 { -1 } else { self.precious.0 };
        self.precious = (rank - 1, tree.work(tip));
        if self.complete(tree).contains(&id) {
            self.ranks.insert(id, rank);
        }
    }

    fn compare(&mut self, index: &BlockIndex, rng: &mut Rng, row: &str) {
        index.invariants();
        for id in index.headers.ids().filter(|&id| id != GENESIS) {
            assert_eq!(index.place(id), self.places.get(&id).and_then(|all| all.first()).copied(), "{row}: {id:?}");
            assert_eq!(index.has_body(id), self.arrived.contains(&id), "{row}: {id:?}");
        }
        // From the present tip and earlier ones: any complete block.
        let complete = self.complete(&index.headers);
        self.ranks.retain(|id, _| complete.contains(id));
        let open: Vec<NodeId> = complete.into_iter().filter(|&id| index.headers.fate(id) == Fate::Open).collect();
        for _ in 0..3 {
            let tip = *rng.pick(&open);
            assert_eq!(index.best_candidate(tip), self.best(&index.headers, tip), "{row}: from {tip:?}");
        }
    }
}

/// Applies one random operation to both.
fn step(index: &mut BlockIndex, model: &mut Model, rng: &mut Rng, nonce: u32) -> &'static str {
    let any = NodeId::new(rng.below(index.headers.len()));
    match rng.below(14) {
        0..=3 => {
            let parent = if rng.one_in(3) { any } else { NodeId::new(index.headers.len() - 1) };
            header(index, parent, nonce);
            "a header"
        }
        4..=6 if any != GENESIS => {
            // Sometimes beyond 4 GiB.
            let place = at(rng.u32() % 4, u64::from(nonce) * 1000 + (u64::from(rng.one_in(8)) << 32));
            let is_lost = index.is_active(any) && !index.has_body(any);
            index.found(any, place);
            model.arrive(any);
            if is_lost {
                index.checked(any, 1);
                model.keep_connected(index);
            }
            model.places.entry(any).or_default().push(place);
            "a body"
        }
        7 if model.places.contains_key(&any) => {
            let mut inside = Vec::new();
            let other = NodeId::new(1 + rng.below(index.headers.len() - 1));
            if rng.one_in(3) && !index.body(other).is_pruned() {
                inside.push((other, at(rng.u32() % 4, u64::from(nonce) * 1000)));
            }
            let replacement = index.body_lost(any, &inside);
            model.places.get_mut(&any).unwrap().remove(0);
            for (other, place) in inside {
                let is_back = index.is_active(other) && !model.arrived.contains(&other);
                model.arrive(other);
                model.places.entry(other).or_default().push(place);
                if is_back {
                    index.checked(other, 1);
                    model.keep_connected(index);
                }
            }
            assert_eq!(replacement.has_copy, !model.places[&any].is_empty());
            if !replacement.has_copy {
                model.places.remove(&any);
                model.leave(any);
            }
            "a damaged body"
        }
        8 if rng.one_in(4) && any != GENESIS => {
            index.invalid(any);
            "an invalid block"
        }
        9 if rng.one_in(6) => {
            let file = rng.u32() % 4;
            index.pruned(|other| other == file);
            let has_named = |all: &[BlockAt]| all[0].file == file && all[0].file_pos().is_some();
            let gone: Vec<NodeId> = model.places.iter().filter(|(_, all)| has_named(all)).map(|(&id, _)| id).collect();
            for all in model.places.values_mut() {
                all.retain(|place| place.file != file);
            }
            model.places.retain(|id, all| !gone.contains(id) && !all.is_empty());
            for id in model.arrived.clone() {
                if model.places.contains_key(&id) || model.kept.contains(&id) {
                    continue;
                }
                if index.is_active(id) {
                    model.kept.insert(id)
                } else {
                    model.leave(id);
                    true
                };
            }
            "pruned files"
        }
        10 => {
            let tip = index.tip();
            index.precious(any, tip);
            model.prefer(&index.headers, any, tip);
            "a preferred block"
        }
        11 if rng.one_in(4) => {
            // As after reopening the data directory.
            index.candidates.connected(&index.headers, &index.active);
            model.keep_connected(index);
            "opened again"
        }
        12 => {
            // Connects or disconnects one block.
            let tip = index.tip();
            let next = index.headers.ids().find(|&id| {
                index.headers.parent(id) == Some(tip)
                    && index.place(id).is_some()
                    && index.headers.fate(id) == Fate::Open
            });
            match next {
                Some(next) if !rng.one_in(4) => {
                    index.connected(next, 1, index.body(next).undo().is_none().then_some(nonce))
                }
                _ if tip != GENESIS && !model.kept.contains(&tip) => index.disconnected(),
                _ => {}
            }
            "the chain"
        }
        _ => {
            // Only entries that differ from those on disk are written; afterwards none is dirty.
            for entry in index.take_dirty() {
                let there = model.disk.entry(entry.height).or_default();
                there.retain(|known| known.hash != entry.hash);
                there.push(entry);
            }
            for id in index.headers.ids() {
                let entry = index.entry(id);
                assert!(model.disk[&entry.height].contains(&entry), "the index on disk is whole");
            }
            assert!(index.take_dirty().is_empty());
            "a commit"
        }
    }
}

#[test]
fn random_transitions_keep_the_invariants_and_agree_with_the_model() {
    for seed in 0..testkit::rounds(60) as u64 {
        let (mut index, mut model, mut rng) = (regtest(), Model::default(), Rng::new(seed));
        let mut seen = PruneHeight::default();
        for nonce in 1..120 {
            let what = step(&mut index, &mut model, &mut rng, nonce);
            model.compare(&index, &mut rng, &format!("seed {seed}, step {nonce}, {what}"));
            // Not after every step, so that several changes happen between two queries.
            if nonce % 3 == 0 {
                let again = index.prune_height_since(&mut seen);
                assert_eq!(again, index.prune_height(), "seed {seed}, step {nonce}, {what}");
            }
        }
    }
}

/// A repeated query only looks at new blocks, because it may be made a hundred times per second during a sync.
#[test]
fn prune_height_looks_at_new_blocks_alone() {
    let mut index = regtest();
    let mut chain = vec![GENESIS];
    for nonce in 1..=6 {
        let id = header(&mut index, *chain.last().unwrap(), nonce);
        index.found(id, at(nonce / 3, u64::from(nonce) * 1000));
        index.connected(id, 1, Some(nonce));
        chain.push(id);
    }
    let mut seen = PruneHeight::default();
    assert_eq!(index.prune_height_since(&mut seen), index.prune_height());
    // Changed without the index's methods: known blocks are not looked at again.
    index.bodies[chain[4].index()].set_pruned();
    assert_eq!(index.prune_height(), Height::new(5));
    assert_eq!(index.prune_height_since(&mut seen), Height::new(1));
    for (row, change, want) in [
        ("files are pruned", (|index, _| index.pruned(|file| file == 0)) as fn(&mut BlockIndex, &[NodeId]), 5),
        ("another tip", |index, _| index.disconnected(), 5),
        (
            "a block comes again, without undo data",
            |index, chain| assert_eq!(index.found(chain[4], at(9, 8)), Found::First),
            5,
        ),
        ("the highest is damaged", |index, chain| drop(index.body_lost(chain[5], &[])), 6),
    ] {
        change(&mut index, &chain);
        assert_eq!(index.prune_height_since(&mut seen), Height::new(want), "{row}");
        assert_eq!(index.prune_height(), Height::new(want), "{row}");
    }
}

/// A repeated query only looks at new blocks: it is made while the past of a snapshot is validated, on the thread of
/// all connections.
#[test]
fn transactions_of_counted_blocks_are_not_counted_again() {
    let mut index = regtest();
    let mut chain = vec![GENESIS];
    for nonce in 1..=6 {
        let id = header(&mut index, *chain.last().unwrap(), nonce);
        index.found(id, at(0, u64::from(nonce) * 1000));
        index.connected(id, 10 * nonce, Some(nonce));
        chain.push(id);
    }
    let branch = header(&mut index, chain[3], 7);
    let mut seen = TransactionCount::default();
    for (row, id) in [
        ("the first", chain[2]),
        ("above it", chain[4]),
        ("the same", chain[4]),
        ("below it", chain[1]),
        ("above that", chain[5]),
        ("another branch", branch),
        ("and back", chain[4]),
    ] {
        assert_eq!(index.transactions_since(id, &mut seen), index.transactions_up_to(id), "{row}");
    }
    let counted = index.transactions_up_to(chain[4]);
    // Changed without the index's methods: known blocks are not looked at again.
    index.bodies[chain[1].index()].set_checked(Validity::Scripts, 1_000);
    assert_eq!(index.transactions_since(chain[6], &mut seen), counted + 50 + 60);
}

#[test]
fn body_lost_without_a_copy_lowers_what_stands_on_it() {
    let mut index = regtest();
    let a = header(&mut index, GENESIS, 1);
    let (b, other) = (header(&mut index, a, 2), header(&mut index, GENESIS, 3));
    let c = header(&mut index, b, 4);
    for (n, id) in [a, b, c, other].into_iter().enumerate() {
        index.found(id, at(0, 8 + 108 * n as u64));
    }
    [a, b, c].into_iter().for_each(|id| index.connected(id, 1, None));
    index.disconnected();
    index.disconnected();
    index.take_dirty();
    assert_eq!(index.body_lost(b, &[]), Replacement::default());
    let of = |id: NodeId| (index.body(id).validity(), index.body(id).transactions(), index.place(id).is_some());
    let want = [(Validity::Scripts, 1, true), (Validity::Tree, 0, false), (Validity::Transactions, 1, true)];
    assert_eq!([a, b, c].map(of), want);
    assert_eq!(of(other), (Validity::Tree, 0, true));
    assert_eq!(index.best_candidate(a), a);
    let written: Vec<BlockHash> = index.take_dirty().into_iter().map(|entry| entry.hash).collect();
    assert_eq!(written, [b, c].map(|id| index.headers.hash(id)));
}

#[test]
fn take_dirty_gives_again_what_changed_since() {
    let mut index = regtest();
    let a = header(&mut index, GENESIS, 1);
    assert_eq!(index.take_dirty().len(), 2);
    index.found(a, at(0, 8));
    index.checked(a, 3);
    let entries = index.take_dirty();
    assert_eq!((entries.len(), entries[0].tx_count, entries[0].data_offset), (1, 3, 8));
    // The block is connected while its entry is being written.
    index.connected(a, 3, Some(9));
    let entries = index.take_dirty();
    assert_eq!((entries.len(), entries[0].status.level(), entries[0].undo_offset), (1, 5, 9));
    assert!(index.take_dirty().is_empty());
}

#[test]
fn missing_from_gives_the_lowest_that_are_absent() {
    let mut index = regtest();
    let chain: Vec<NodeId> = (1..=9)
        .scan(GENESIS, |tip, n| {
            *tip = header(&mut index, *tip, n);
            Some(*tip)
        })
        .collect();
    for n in [0, 3, 4] {
        index.found(chain[n], at(0, 8 + n as u64 * 108));
    }
    let best = chain[8];
    for (row, height, limit, want) in [
        ("all", 9, 100, &[1, 2, 5, 6, 7, 8][..]),
        ("up to a height", 6, 100, &[1, 2, 5]),
        ("not too many", 9, 2, &[1, 2]),
        ("none below the first", 0, 100, &[]),
    ] {
        let want: Vec<NodeId> = want.iter().map(|&n: &usize| chain[n]).collect();
        assert_eq!(index.missing_from(GENESIS, best, Height::new(height), limit), want, "{row}");
    }
}

#[test]
fn serve_gives_the_chain_and_what_was_connected_near_it() {
    let mut index = regtest();
    let (a, b) = (header(&mut index, GENESIS, 1), header(&mut index, GENESIS, 2));
    for (id, offset) in [(a, 8), (b, 116)] {
        index.found(id, at(0, offset));
    }
    index.connected(a, 1, None);
    let served = |index: &BlockIndex, id: NodeId| index.serve(&index.headers.hash(id)).map(|(at, _)| at.offset);
    assert_eq!((served(&index, a), served(&index, b)), (Some(8), None), "b was never connected");
    index.disconnected();
    index.connected(b, 1, None);
    assert_eq!((served(&index, a), served(&index, b)), (Some(8), Some(116)));
    index.invalid(a);
    assert_eq!(served(&index, a), None);
}

/// As in Core's p2p_fingerprint.py, and a case that it lacks: a month's worth of work.
#[test]
fn stale_block_is_shown_for_a_month_by_time_and_by_work() {
    let month = u32::try_from(STALE_AGE_MAX_S).unwrap();
    for (row, time_apart, blocks_above, want) in [
        ("younger", month - 1, 1, true),
        ("a month by time", month, 1, false),
        ("a month less a block by work", 0, month / SPACING_S - 1, true),
        ("a month by work", 0, month / SPACING_S, false),
    ] {
        let mut index = regtest();
        let stale = header(&mut index, GENESIS, 1);
        index.found(stale, at(0, 8));
        index.connected(stale, 1, None);
        index.disconnected();
        let mut tip = GENESIS;
        // The best header has one block more than the distance in work, because the stale block is on genesis, too.
        for n in 0..=blocks_above {
            let time = if n == blocks_above { 1 + time_apart } else { 1 };
            let next = Header::new(4, index.headers.hash(tip), Hash256::ZERO, time, 0x207f_ffff, 2 + n);
            tip = index.headers.insert(&next, next.hash(), tip);
        }
        index.add_bodies(true);
        assert_eq!(index.is_shown(stale), want, "{row}");
    }
}

/// A header on `parent`, found in a block file.
fn in_file(index: &mut BlockIndex, parent: NodeId, nonce: u32) -> NodeId {
    let header = Header::new(4, index.headers.hash(parent), Hash256::ZERO, 1, 0x207f_ffff, nonce);
    let id = index.headers.insert(&header, header.hash(), parent);
    index.add_bodies(false);
    id
}

#[test]
fn take_dirty_lists_a_block_of_a_file_once_it_was_checked_or_refused() {
    let mut index = regtest();
    index.take_dirty();
    let good = in_file(&mut index, GENESIS, 1);
    let refused_on_arrival = in_file(&mut index, good, 2);
    let above_that = in_file(&mut index, refused_on_arrival, 3);
    let refused_for_coins = in_file(&mut index, good, 4);
    let above_these = in_file(&mut index, refused_for_coins, 5);
    for (offset, id) in [good, refused_on_arrival, above_that, refused_for_coins, above_these].into_iter().enumerate() {
        index.found(id, at(0, 1000 + offset as u64));
    }
    assert!(index.take_dirty().is_empty(), "headers of a file alone have no entry");
    index.connected(good, 1, Some(8));
    index.invalid(refused_on_arrival);
    index.checked(refused_for_coins, 1);
    index.invalid(refused_for_coins);
    assert!(!index.is_acceptable(above_that) && index.is_acceptable(above_these));
    index.checked(above_these, 1);
    let (data, failed) = (Status::HAVE_DATA, Status::FAILED_VALID);
    let entries = index.take_dirty();
    let told: Vec<_> = entries.iter().map(|entry| (entry.hash, entry.status.level(), entry.data().is_some())).collect();
    let hash = |id: NodeId| index.headers.hash(id);
    let want = [(good, 5, true), (refused_on_arrival, 2, false), (refused_for_coins, 3, true), (above_these, 3, true)];
    assert_eq!(told, want.map(|(id, level, has_data)| (hash(id), level, has_data)));
    let is_marked = |entry: &IndexEntry| entry.status.0 & failed == failed;
    assert_eq!(entries.iter().map(is_marked).collect::<Vec<_>>(), [false, true, true, true]);
    assert!(entries.iter().all(|entry| (entry.status.0 & data == data) == entry.data().is_some()));
}

#[test]
fn take_dirty_lists_the_ancestors_of_a_listed_block() {
    let mut index = regtest();
    index.take_dirty();
    let damaged = in_file(&mut index, GENESIS, 1);
    let above = in_file(&mut index, damaged, 2);
    index.found(above, at(0, 2000));
    index.checked(above, 1);
    let listed: Vec<BlockHash> = index.take_dirty().iter().map(|entry| entry.hash).collect();
    assert_eq!(listed, [damaged, above].map(|id| index.headers.hash(id)));
}

/// Marks above a snapshot are removed, including those of descendants without bodies; in a reopened index each of these
/// has its own mark. A block elsewhere keeps its mark.
#[test]
fn marks_above_a_snapshot_are_forgotten_after_a_restart() {
    let mut index = regtest();
    let mut chain = vec![GENESIS];
    for nonce in 0..6 {
        chain.push(header(&mut index, chain[chain.len() - 1], nonce));
    }
    let elsewhere = header(&mut index, GENESIS, 77);
    let (base, refused) = (chain[2], chain[4]);
    chain[1..=4].iter().zip(1..).for_each(|(&id, offset)| {
        index.found(id, at(0, 1000 * offset));
        index.checked(id, 1);
    });
    index.invalid(refused);
    index.invalid(elsewhere);
    let entries: Vec<IndexEntry> = index.headers.ids().skip(1).map(|id| index.entry(id)).collect();
    let mut again = regtest();
    entries.iter().for_each(|entry| assert!(again.load(entry).is_some()));
    let failed = |index: &BlockIndex| index.headers.ids().filter(|&id| index.headers.fate(id) != Fate::Open).count();
    assert_eq!(failed(&again), 4, "it, the two that stand on it, and the one elsewhere");
    again.assume(base);
    again.reopen_above(base);
    assert_eq!(failed(&again), 1);
    assert_ne!(again.headers.fate(elsewhere), Fate::Open);
}

/// Blocks wait for their parents in any number and order, and each place waits once.
#[test]
fn orphans_are_taken_in_with_their_parents_header() {
    let params = Params::new(Chain::Regtest);
    let blocks = testkit::blocks::chain(&params.genesis, 4);
    let found = |height: usize, offset: u64| {
        let header = Header(*blocks[height].first_chunk().unwrap());
        let location = BlockAt { file: 3, offset, size: blocks[height].len() as u32 };
        FoundBlock { location, header, hash: header.hash(), is_parsed: false }
    };
    let now = i64::from(u32::MAX);
    let mut index = BlockIndex::new(&params);
    assert_eq!(index.take_in(&params, vec![found(4, 800), found(3, 600), found(3, 900)], now), 0);
    index.add_orphans(vec![found(4, 800)]);
    assert_eq!((index.orphan_count(), index.first_orphan().unwrap().offset), (4, 600));
    let again = index.take_orphans();
    assert_eq!((again.len(), index.orphan_count()), (3, 0), "one place waits once");
    index.add_orphans(again);
    for height in 1..=2 {
        assert_eq!(index.take_adopted_count(), 0, "before block {height}");
        let FoundBlock { header, hash, .. } = found(height, 8);
        index.accept(&params, &header, hash, now).unwrap();
    }
    assert_eq!((index.orphan_count(), index.take_adopted_count()), (0, 2), "3 and 4, each with its first place");
    let third = index.headers().find(&found(3, 8).hash).unwrap();
    let fourth = index.headers().find(&found(4, 8).hash).unwrap();
    assert_eq!((index.place(third).unwrap().offset, index.place(fourth).unwrap().offset), (600, 800));
    assert!(index.take_uncounted().is_empty(), "the index on disk names neither");
    index.checked(fourth, 1);
    let counted: Vec<u32> = index.take_uncounted().iter().map(|block| block.at.offset).collect();
    assert_eq!((counted, index.take_uncounted().len()), (vec![800], 0));
    index.checked(third, 1);
    assert_eq!(index.take_uncounted().len(), 1);
    index.invariants();
}
