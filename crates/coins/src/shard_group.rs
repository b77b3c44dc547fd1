//! A shard group: eight neighbouring shards, processed by one worker at a time.
//!
//! A shard has the current generation and the older ones, newest first. A spend is answered from the newest generation
//! that knows the outpoint. A miss in all of them adds a tombstone, and the caller reads the tables.
//!
//! Invariant: an older generation never changes. Generations are evicted oldest first, and only once committed.

use crate::answers::{Answers, Origin};
use crate::ops::{GroupOps, Op, SHARDS_PER_GROUP};
use crate::table::{Found, HashKey, Key, Table};
use kernels::Kernels;
use primitives::encode::Reader;
use primitives::{OutPoint, Txid};
use std::sync::Arc;
use sys::spill::SpillFiles;

/// Operations that are prefetched together before the first is executed.
const BATCH: usize = 32;
/// If a block has at least this number of operations, the lists of chunks are prefetched first: a few cache lines for
/// each table.
const PREFETCH_CHUNKS_MIN: usize = 128;

/// A sealed generation of one shard group: one table a shard.
#[derive(Clone)]
pub struct Generation {
    /// Counts up from 1.
    pub number: u64,
    /// The tables, in the order of the shards.
    pub tables: Vec<Arc<Table>>,
}

impl Generation {
    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        self.tables.iter().map(|table| table.memory_bytes()).sum()
    }

    /// Records, tombstones included.
    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.len()).sum()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The input of a shard group for one block.
#[derive(Clone, Copy)]
pub struct BlockOps<'a> {
    /// Its operations in this shard group.
    pub ops: GroupOps<'a>,
    /// Whether its coins overwrite existing ones with the same outpoint (the two repeated coinbases, the replay of an
    /// unfinished flush).
    pub overwrites: bool,
}

/// The state in memory of the outpoints that a block creates, for BIP30.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    /// Whether one of these outpoints is an unspent coin.
    pub exists: bool,
    /// Outpoints that memory does not know.
    pub unknown: Vec<OutPoint>,
}

/// Settings shared by all shard groups of a run.
#[derive(Clone, Debug)]
pub struct RunSetup {
    /// The secret key of their hashes.
    pub secret: HashKey,
    /// Kernels for prefetches and the memory of tables.
    pub kernels: Kernels,
    /// Files for a block's spent coins if they are large.
    pub spill: SpillFiles,
}

impl From<HashKey> for RunSetup {
    fn from(secret: HashKey) -> RunSetup {
        RunSetup { secret, kernels: Kernels::AUTO, spill: SpillFiles::default() }
    }
}

/// Eight shards.
pub struct ShardGroup {
    secret: HashKey,
    kernels: Kernels,
    spill: SpillFiles,
    first_shard: usize,
    current: Vec<Table>,
    /// Newest first.
    older: Vec<Generation>,
    generation: u64,
}

impl ShardGroup {
    /// An empty shard group; `run` must be the same for all shard groups of a run.
    pub fn new(group: usize, run: impl Into<RunSetup>) -> ShardGroup {
        let RunSetup { secret, kernels, spill } = run.into();
        let first_shard = group * SHARDS_PER_GROUP;
        let tables = (first_shard..).map(|shard| Table::with_expected(shard, 0, kernels));
        let current = tables.take(SHARDS_PER_GROUP).collect();
        ShardGroup { secret, kernels, spill, first_shard, current, older: Vec::new(), generation: 1 }
    }

    /// Sets the expected number of records in each table of the current generation. Tables that already have records
    /// are not changed.
    pub fn expect(&mut self, records: usize) {
        for (table, shard) in self.current.iter_mut().zip(self.first_shard..) {
            if table.is_empty() {
                *table = Table::with_expected(shard, records, self.kernels);
            }
        }
    }

    /// Number of the current generation, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the current generation has no record.
    pub fn is_current_empty(&self) -> bool {
        self.current.iter().all(Table::is_empty)
    }

    /// Bytes allocated by the current generation.
    pub fn current_bytes(&self) -> usize {
        self.current.iter().map(Table::memory_bytes).sum()
    }

    /// Bytes allocated by all generations.
    pub fn memory_bytes(&self) -> usize {
        self.current_bytes() + self.older.iter().map(Generation::memory_bytes).sum::<usize>()
    }

    /// Records in all generations, tombstones included.
    pub fn len(&self) -> usize {
        self.current.iter().map(Table::len).sum::<usize>() + self.older.iter().map(Generation::len).sum::<usize>()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Executes a block's operations and answers its spends, in the order of `ops`.
    pub fn apply(&mut self, block: &BlockOps<'_>) -> Answers {
        let ops = block.ops.all();
        let mut answers = Answers::with_capacity(block.ops.spends(), &self.spill);
        if ops.len() >= PREFETCH_CHUNKS_MIN {
            let older = self.older.iter().flat_map(|generation| &generation.tables).map(|table| &**table);
            self.current.iter().chain(older).for_each(Table::prefetch_chunks);
        }
        for batch in ops.chunks(BATCH) {
            self.apply_batch(block, batch, &mut answers);
        }
        answers
    }

    /// Three passes, so that memory latency overlaps with other work. A block has few operations in a shard, so a batch
    /// spans several shards.
    #[inline]
    fn apply_batch(&mut self, block: &BlockOps<'_>, batch: &[Op], answers: &mut Answers) {
        let mut keys = [const { None }; BATCH];
        // Bytes of new records that the batch has added to the table so far.
        let mut added = 0;
        let mut added_to = usize::MAX;
        for (key, op) in keys.iter_mut().zip(batch) {
            let (within, new) = self.key_of(block, *op);
            let table = &self.current[within];
            table.prefetch_bucket(&new);
            if op.is_create() {
                if added_to != within {
                    (added, added_to) = (0, within);
                }
                added += table.prefetch_room(added, block.ops.coin(*op));
            } else {
                for generation in &self.older {
                    generation.tables[within].prefetch_bucket(&new);
                }
            }
            *key = Some((within, new));
        }
        for ((within, key), op) in keys.iter().flatten().zip(batch) {
            if !op.is_create() {
                self.current[*within].prefetch_record(key);
                for generation in &self.older {
                    generation.tables[*within].prefetch_record(key);
                }
            }
        }
        for ((within, key), op) in keys.iter().flatten().zip(batch) {
            if op.is_create() {
                self.create(*within, key, block, *op);
            } else {
                self.spend(*within, key, op.input(), answers);
            }
        }
    }

    /// The operation's shard within the group, and its key.
    #[inline]
    fn key_of<'a>(&self, block: &BlockOps<'a>, op: Op) -> (usize, Key<'a>) {
        let (txid, vout) = block.ops.outpoint(op);
        (usize::from(txid[0]) - self.first_shard, Key::new(&self.secret, txid, vout))
    }

    #[inline]
    fn create(&mut self, within: usize, key: &Key<'_>, block: &BlockOps<'_>, op: Op) {
        let table = &mut self.current[within];
        // A tombstone of the same outpoint stays: it hides an older coin, which must be deleted from the tables. A coin
        // stays too: no valid block creates it again, so this block will be rewound.
        if block.overwrites
            && let Found::Coin(place) = table.find(key)
        {
            table.mark_spent(place);
        }
        table.insert(&self.secret, key, !block.overwrites, block.ops.coin(op));
    }

    #[inline]
    fn spend(&mut self, within: usize, key: &Key<'_>, input: u32, answers: &mut Answers) {
        let table = &mut self.current[within];
        match table.find(key) {
            Found::Coin(place) => {
                let fresh = table.is_fresh(place);
                answers.push_found(if fresh { Origin::Fresh } else { Origin::Current }, table.coin(place));
                if fresh {
                    table.remove(key, place);
                } else {
                    table.mark_spent(place);
                }
                return;
            }
            Found::Tombstone(_) => return answers.push_missing(),
            Found::Nothing => {}
        }
        for generation in &self.older {
            let older = &generation.tables[within];
            match older.find(key) {
                Found::Coin(place) => {
                    answers.push_found(Origin::Older, older.coin(place));
                    return table.insert_tombstone(&self.secret, key);
                }
                Found::Tombstone(_) => return answers.push_missing(),
                Found::Nothing => {}
            }
        }
        answers.push_miss(input);
        table.insert_tombstone(&self.secret, key);
    }

    /// Which of the outpoints that a block creates in this shard group are already coins. Call it before the block is
    /// applied.
    pub fn probe(&self, block: &BlockOps<'_>) -> Probe {
        let mut probe = Probe::default();
        for op in block.ops.all().iter().filter(|op| op.is_create()) {
            let (txid, vout) = block.ops.outpoint(*op);
            let outpoint = OutPoint { txid: Txid::from_bytes(*txid), vout };
            match self.get(&outpoint) {
                Some(coin) => probe.exists |= coin.is_some(),
                None => probe.unknown.push(outpoint),
            }
        }
        probe
    }

    /// The state of this coin in memory: its bytes, spent (`Some(None)`), or unknown (`None`).
    pub fn get(&self, outpoint: &OutPoint) -> Option<Option<&[u8]>> {
        let within = usize::from(outpoint.txid.as_bytes()[0]) - self.first_shard;
        let key = Key::of(&self.secret, outpoint);
        let tables = std::iter::once(&self.current[within]).chain(self.older.iter().map(|g| &*g.tables[within]));
        for table in tables {
            match table.find(&key) {
                Found::Coin(place) => return Some(Some(table.coin(place))),
                Found::Tombstone(_) => return Some(None),
                Found::Nothing => {}
            }
        }
        None
    }

    /// Undoes a block's operations, the last first. It must be the last block that was applied and not yet rewound.
    pub fn rewind(&mut self, block: &BlockOps<'_>, answers: &Answers) {
        let mut ordinal = answers.len();
        for op in block.ops.all().iter().rev() {
            let (within, key) = self.key_of(block, *op);
            if op.is_create() {
                let code = Reader::new(block.ops.coin(*op)).varint_u32().expect("it was encoded here");
                let table = &mut self.current[within];
                table.remove_created(&key, code);
                // The coin that a repeated coinbase overwrote was unspent before.
                if block.overwrites
                    && let Found::Tombstone(place) = table.find_spent_other(&key, code)
                {
                    table.unmark_spent(place);
                }
            } else {
                ordinal -= 1;
                self.unspend(within, &key, answers, ordinal);
            }
        }
    }

    fn unspend(&mut self, within: usize, key: &Key<'_>, answers: &Answers, ordinal: usize) {
        let table = &mut self.current[within];
        let origin = answers.origin(ordinal);
        let coin = answers.coin(ordinal).unwrap_or_default();
        let tombstone = match origin {
            Origin::Missing => return,
            Origin::Fresh => return table.insert_stored(&self.secret, key, coin),
            Origin::Current => table.find_spent(key, coin),
            Origin::Older | Origin::Tables => table.find_spent(key, &[]),
        };
        match (origin, tombstone) {
            (Origin::Current, Found::Tombstone(place)) => table.unmark_spent(place),
            (_, Found::Tombstone(place)) => table.remove(key, place),
            (origin, found) => unreachable!("a spend from {origin:?} left {found:?}"),
        }
    }

    /// Removes a coin for a disconnected block; returns its previous state. The tables are not read: `None` means that
    /// memory does not know the coin, and then a tombstone is added for it.
    pub fn take(&mut self, outpoint: &OutPoint) -> Option<Option<Vec<u8>>> {
        let known = self.get(outpoint).map(|coin| coin.map(<[u8]>::to_vec));
        let within = usize::from(outpoint.txid.as_bytes()[0]) - self.first_shard;
        let key = Key::of(&self.secret, outpoint);
        let table = &mut self.current[within];
        match table.find(&key) {
            Found::Coin(place) if table.is_fresh(place) => table.remove(&key, place),
            Found::Coin(place) => table.mark_spent(place),
            Found::Tombstone(_) => {}
            Found::Nothing => table.insert_tombstone(&self.secret, &key),
        }
        known
    }

    /// Stores a coin, replacing any record; never fresh.
    pub fn put_back(&mut self, outpoint: &OutPoint, coin: &[u8]) {
        let within = usize::from(outpoint.txid.as_bytes()[0]) - self.first_shard;
        let key = Key::of(&self.secret, outpoint);
        let table = &mut self.current[within];
        if let Found::Coin(place) | Found::Tombstone(place) = table.find(&key) {
            table.remove(&key, place);
        }
        table.insert_stored(&self.secret, &key, coin);
    }

    /// Closes the current generation and starts the next one.
    pub fn seal(&mut self) -> Generation {
        // Generations are about as large as the previous one, or somewhat larger.
        let next = self.current.iter().zip(self.first_shard..);
        let kernels = self.kernels;
        let table =
            |(table, shard): (&Table, usize)| Table::with_expected(shard, table.len() + table.len() / 8, kernels);
        let next = next.map(table).collect();
        let tables = std::mem::replace(&mut self.current, next);
        let sealed = Generation { number: self.generation, tables: tables.into_iter().map(Arc::new).collect() };
        self.generation += 1;
        self.older.insert(0, sealed.clone());
        sealed
    }

    /// Undoes the last [`ShardGroup::seal`]: drops the current generation, all of whose blocks must have been rewound.
    ///
    /// # Panics
    ///
    /// If the sealed generation is still in use elsewhere, for a commit.
    pub fn unseal(&mut self) {
        let sealed = self.older.remove(0);
        self.generation = sealed.number;
        let own = |table| Arc::try_unwrap(table).ok().expect("a generation that is taken back is not being written");
        self.current = sealed.tables.into_iter().map(own).collect();
    }

    /// Removes the generations up to and including `number`, which must be committed. Dropping them frees their memory.
    #[must_use = "dropping what went takes time"]
    pub fn evict_up_to(&mut self, number: u64) -> Vec<Generation> {
        self.older.extract_if(.., |generation| generation.number <= number).collect()
    }

    /// Numbers of the older generations, newest first.
    pub fn older(&self) -> impl Iterator<Item = &Generation> {
        self.older.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{NewCoins, Ops};
    use crate::table::Change;
    use primitives::Height;
    use primitives::Tables;
    use primitives::coin::{code, put_coin};
    use std::collections::BTreeMap;
    use testkit::Rng;

    const SECRET: HashKey = HashKey([1, 2, 3, 4]);

    type Name = OutPoint;
    /// Outpoints that are spent, the txid, the number of outputs.
    type Transaction = (Vec<Name>, Txid, u32);
    /// What memory knows of every name, and what a flush of the current generation would write.
    type State = (Vec<Option<Option<Vec<u8>>>>, BTreeMap<Vec<u8>, Option<Vec<u8>>>);

    /// A block of transactions (spent outpoints, outputs) behind a coinbase that does nothing here.
    struct Made {
        bytes: Vec<u8>,
        txids: Vec<Txid>,
        height: u32,
        overwrites: bool,
    }

    /// Txids of the first shard group; any of them may be given to any transaction.
    fn txid(n: usize) -> Txid {
        let mut bytes = kernels::sha256::sha256(&(n as u64).to_le_bytes());
        bytes[0] = (n % 3) as u8;
        Txid::from_bytes(bytes)
    }

    fn made(height: u32, transactions: &[Transaction]) -> Made {
        let mut bytes = vec![0; 80];
        bytes.push(transactions.len() as u8 + 1);
        let mut txids = vec![Txid::from_bytes([0xff; 32])];
        let put = |bytes: &mut Vec<u8>, inputs: &[Name], outputs: u32| {
            // No transaction is without inputs: this one is of another shard group.
            let inputs =
                if inputs.is_empty() { &[OutPoint { txid: Txid::from_bytes([0xff; 32]), vout: 7 }] } else { inputs };
            bytes.extend(1u32.to_le_bytes());
            bytes.push(inputs.len() as u8);
            for OutPoint { txid, vout } in inputs {
                bytes.extend(txid.to_bytes());
                bytes.extend(vout.to_le_bytes());
                bytes.extend([0, 0xff, 0xff, 0xff, 0xff]);
            }
            bytes.push(outputs as u8);
            for vout in 0..outputs {
                bytes.extend((u64::from(height) * 100 + u64::from(vout)).to_le_bytes());
                bytes.extend([1, 0x51]);
            }
            bytes.extend([0; 4]);
        };
        put(&mut bytes, &[OutPoint::NULL], 1);
        for (inputs, txid, outputs) in transactions {
            put(&mut bytes, inputs, *outputs);
            txids.push(*txid);
        }
        Made { bytes, txids, height, overwrites: false }
    }

    /// Calls `with` with what the first shard group is told about a block.
    fn with_ops<R>(made: &Made, with: impl FnOnce(&BlockOps<'_>) -> R) -> R {
        let mut tables = Tables::new();
        let block = tables.parse_block(&made.bytes).unwrap();
        let ops = Ops::build(&mut NewCoins::default(), &block, &made.txids, Height::new(made.height));
        with(&BlockOps { ops: ops.group(0), overwrites: made.overwrites })
    }

    fn state(group: &ShardGroup) -> State {
        let names = (0..NAMES).flat_map(|n| (0..3).map(move |vout| OutPoint { txid: txid(n), vout }));
        let known = names.map(|name| group.get(&name).map(|coin| coin.map(<[u8]>::to_vec))).collect();
        let mut changes = BTreeMap::new();
        for (shard, table) in group.current.iter().enumerate() {
            for (key, change) in table.sorted() {
                let coin = if let Change::Put(coin) = change { Some(coin.to_vec()) } else { None };
                let twice = changes.insert([&[shard as u8], key].concat(), coin);
                assert_eq!(twice, None, "each key is written once");
            }
        }
        (known, changes)
    }

    const NAMES: usize = 9;

    /// Any block at all, as a bad one may be: outputs that exist already, spends of what is spent.
    fn any_block(rng: &mut Rng, height: u32) -> Made {
        let count = 1 + rng.below(4);
        let transactions: Vec<_> = (0..count)
            .map(|_| {
                let inputs = (0..1 + rng.below(3))
                    .map(|_| OutPoint { txid: txid(rng.below(NAMES)), vout: rng.below(3) as u32 })
                    .collect();
                (inputs, txid(rng.below(NAMES)), 1 + rng.below(3) as u32)
            })
            .collect();
        made(height, &transactions)
    }

    /// A good block: it spends what is there, and makes only what is not.
    fn good_block(rng: &mut Rng, height: u32, coins: &mut BTreeMap<Name, u32>) -> Made {
        let mut transactions = Vec::new();
        for _ in 0..1 + rng.below(3) {
            let names: Vec<Name> = coins.keys().copied().collect();
            let inputs: Vec<_> = names.into_iter().filter(|_| rng.below(3) == 0).collect();
            inputs.iter().for_each(|name| _ = coins.remove(name));
            let id = txid(rng.below(NAMES));
            if (0..3).any(|vout| coins.contains_key(&OutPoint { txid: id, vout })) {
                transactions.push((inputs, Txid::from_bytes([0xfe; 32]), 1));
                continue;
            }
            let outputs = 1 + rng.below(3) as u32;
            coins.extend((0..outputs).map(|vout| (OutPoint { txid: id, vout }, height)));
            transactions.push((inputs, id, outputs));
        }
        made(height, &transactions)
    }

    /// Good blocks, blocks taken off the chain, sealed generations; and at any moment bad blocks, which are taken back.
    #[test]
    fn rewind_restores_state_before_the_block() {
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let mut group = ShardGroup::new(0, SECRET);
            let mut coins: BTreeMap<Name, u32> = BTreeMap::new();
            for height in 1..25 {
                let before = state(&group);
                let bad: Vec<Made> = (0..rng.below(4)).map(|n| any_block(&mut rng, height + n as u32)).collect();
                let mut answers: Vec<Answers> = Vec::new();
                let seal_at = rng.below(6);
                for (at, block) in bad.iter().enumerate() {
                    answers.push(with_ops(block, |ops| group.apply(ops)));
                    if at == seal_at {
                        drop(group.seal());
                    }
                }
                for (at, block) in bad.iter().enumerate().rev() {
                    if at == seal_at {
                        group.unseal();
                    }
                    with_ops(block, |ops| group.rewind(ops, &answers[at]));
                }
                assert_eq!(state(&group), before, "seed {seed}, height {height}");

                let kept = coins.clone();
                let block = good_block(&mut rng, height, &mut coins);
                let answers = with_ops(&block, |ops| group.apply(ops));
                assert!((0..answers.len()).all(|n| answers.coin(n).is_some()), "seed {seed}, height {height}");
                if rng.below(3) == 0 {
                    // Off the chain again, and another block in its place.
                    for name in coins.keys().filter(|name| !kept.contains_key(name)) {
                        group.take(name);
                    }
                    for (name, &height) in kept.iter().filter(|(name, height)| coins.get(name) != Some(height)) {
                        let value = primitives::Amount(i64::from(height) * 100 + i64::from(name.vout));
                        let mut stored = Vec::new();
                        put_coin(&mut stored, code(Height::new(height), false), value, &[0x51]);
                        group.put_back(name, &stored);
                    }
                    coins = kept;
                }
                for (n, vout) in (0..NAMES).flat_map(|n| (0..3).map(move |vout| (n, vout))) {
                    let name = OutPoint { txid: txid(n), vout };
                    let known = group.get(&name).flatten();
                    assert_eq!(known.is_some(), coins.contains_key(&name), "seed {seed}, height {height}");
                }
                if rng.below(8) == 0 {
                    drop(group.seal());
                }
            }
        }
    }

    /// Tables that are empty get room for what is expected, with their first coin; others stay as they are.
    #[test]
    fn tables_have_room_for_what_is_expected() {
        let bytes_with = |expected: [usize; 2]| {
            let mut group = ShardGroup::new(0, SECRET);
            group.expect(expected[0]);
            assert_eq!(group.memory_bytes(), 0);
            with_ops(&made(1, &[(vec![], txid(0), 1)]), |ops| group.apply(ops));
            group.expect(expected[1]);
            assert!(group.get(&OutPoint { txid: txid(0), vout: 0 }).is_some(), "it is still there");
            group.memory_bytes()
        };
        assert_eq!(bytes_with([100_000, 0]) - bytes_with([0, 100_000]), 154 * 4096);
    }

    /// The two repeated coinbases: taken back, what they overwrote is there again.
    #[test]
    fn rewind_of_repeated_coinbase_restores_the_first() {
        let first = made(5, &[(vec![], txid(3), 1)]);
        let second = Made { overwrites: true, ..made(9, &[(vec![], txid(3), 1)]) };
        for sealed in [false, true] {
            let mut group = ShardGroup::new(0, SECRET);
            with_ops(&first, |ops| group.apply(ops));
            if sealed {
                drop(group.seal());
            }
            let before = state(&group);
            let answers = with_ops(&second, |ops| group.apply(ops));
            let spend = made(10, &[(vec![OutPoint { txid: txid(3), vout: 0 }], txid(4), 1)]);
            let spent = with_ops(&spend, |ops| group.apply(ops));
            assert_eq!(
                group.get(&OutPoint { txid: txid(3), vout: 0 }),
                Some(None),
                "the second is spent, and the first is not seen again"
            );
            with_ops(&spend, |ops| group.rewind(ops, &spent));
            assert_ne!(state(&group), before);
            with_ops(&second, |ops| group.rewind(ops, &answers));
            assert_eq!(state(&group), before, "sealed {sealed}");
        }
    }
}
