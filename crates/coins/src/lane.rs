//! A lane: eight neighbouring shards, worked on by one worker at a time.
//!
//! A shard is the current generation and the older ones behind it, newest first. A spend is answered from the newest
//! that knows the outpoint; what none knows leaves a tombstone and is asked of the tables by the caller.
//!
//! Invariant: an older generation never changes. Generations are let go oldest first, and only once committed.

use crate::answers::{Answers, Origin};
use crate::ops::{LaneOps, Op, SHARDS_PER_LANE};
use crate::table::{Found, HashKey, Key, Table};
use primitives::coin::{coin_bytes_max, write_coin};
use primitives::{Block, Hash256};
use std::sync::Arc;

/// Operations that are asked for together before the first of them is done.
const GROUP: usize = 32;

/// A sealed generation of one lane: one table a shard.
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

/// What a lane is told about a block.
#[derive(Clone, Copy)]
pub struct BlockOps<'a> {
    /// The block.
    pub block: Block<'a>,
    /// Ids of its transactions.
    pub txids: &'a [Hash256],
    /// Its operations in this lane.
    pub ops: LaneOps<'a>,
    /// Its height.
    pub height: u32,
    /// Whether its coins overwrite others of the same name (the two repeated coinbases, the replay of a half-done flush).
    pub overwrites: bool,
}

/// What memory says to the names that a block makes, for BIP30.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    /// One of them is an unspent coin.
    pub exists: bool,
    /// Names that memory does not know.
    pub unknown: Vec<(Hash256, u32)>,
}

/// Eight shards.
pub struct Lane {
    secret: HashKey,
    first_shard: usize,
    current: Vec<Table>,
    /// Newest first.
    older: Vec<Generation>,
    generation: u64,
    /// Blocks were disconnected in the current generation: what is made now may have a tombstone there already.
    has_disconnected: bool,
}

impl Lane {
    /// An empty lane; `secret` is one and the same for all lanes of a run.
    pub fn new(lane: usize, secret: HashKey) -> Lane {
        let first_shard = lane * SHARDS_PER_LANE;
        Lane {
            secret,
            first_shard,
            current: Lane::tables(first_shard),
            older: Vec::new(),
            generation: 1,
            has_disconnected: false,
        }
    }

    fn tables(first: usize) -> Vec<Table> {
        (first..first + SHARDS_PER_LANE).map(Table::new).collect()
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

    /// Does a block's operations and answers its spends, in the order of `ops`.
    pub fn apply(&mut self, block: &BlockOps<'_>) -> Answers {
        let mut answers = Answers::with_capacity(block.ops.spends());
        for within in 0..SHARDS_PER_LANE {
            for group in block.ops.shard(within).chunks(GROUP) {
                self.apply_group(within, block, group, &mut answers);
            }
        }
        answers
    }

    /// Three passes, so that what memory has to bring is on its way while something else is done.
    #[inline]
    fn apply_group(&mut self, within: usize, block: &BlockOps<'_>, group: &[Op], answers: &mut Answers) {
        let secret = self.secret;
        let mut keys = [const { None }; GROUP];
        for (key, op) in keys.iter_mut().zip(group) {
            let new = key_of(&secret, block, *op);
            self.current[within].prefetch_bucket(&new);
            if !op.is_create() {
                for generation in &self.older {
                    generation.tables[within].prefetch_bucket(&new);
                }
            }
            *key = Some(new);
        }
        for (key, op) in keys.iter().flatten().zip(group) {
            if !op.is_create() {
                self.current[within].prefetch_record(key);
                for generation in &self.older {
                    generation.tables[within].prefetch_record(key);
                }
            }
        }
        for (key, op) in keys.iter().flatten().zip(group) {
            if op.is_create() {
                self.create(within, key, block, *op);
            } else {
                self.spend(within, key, op.index() as u32, answers);
            }
        }
    }

    #[inline]
    fn create(&mut self, within: usize, key: &Key<'_>, block: &BlockOps<'_>, op: Op) {
        let table = &mut self.current[within];
        let mut fresh = !block.overwrites;
        if (block.overwrites || self.has_disconnected)
            && let Found::Coin(place) | Found::Tombstone(place) = table.find(key)
        {
            // A tombstone may hide an older coin, which has to go from the tables when this one is spent.
            table.remove(key, place);
            fresh = false;
        }
        let output = block.block.output(op.index());
        let code = primitives::coin::code(block.height, op.transaction() == 0);
        table.insert(&self.secret, key, fresh, coin_bytes_max(output.script().len()), |out| {
            write_coin(out, code, output.value(), output.script())
        });
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
                    table.bury(place);
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
        answers.push_asked(input);
        table.insert_tombstone(&self.secret, key);
    }

    /// Which of the names that a block makes in this lane are coins already; to be asked before the block is applied.
    pub fn probe(&self, block: &BlockOps<'_>) -> Probe {
        let mut probe = Probe::default();
        for op in block.ops.all().iter().filter(|op| op.is_create()) {
            let txid = block.txids[op.transaction()];
            let vout = (op.index() - block.block.transaction(op.transaction()).first_output()) as u32;
            match self.get(&txid, vout) {
                Some(coin) => probe.exists |= coin.is_some(),
                None => probe.unknown.push((txid, vout)),
            }
        }
        probe
    }

    /// The coin of this name as memory knows it: its bytes, that it is spent (`Some(None)`), or nothing.
    pub fn get(&self, txid: &Hash256, vout: u32) -> Option<Option<&[u8]>> {
        let within = usize::from(txid.0[0]) - self.first_shard;
        let key = Key::new(&self.secret, &txid.0, vout);
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

    /// Takes a block's operations back, the last first. It must be the last that was applied, and not taken back yet.
    pub fn rewind(&mut self, block: &BlockOps<'_>, answers: &Answers) {
        let mut ordinal = answers.len();
        for within in (0..SHARDS_PER_LANE).rev() {
            for op in block.ops.shard(within).iter().rev() {
                let key = key_of(&self.secret, block, *op);
                if op.is_create() {
                    let code = primitives::coin::code(block.height, op.transaction() == 0);
                    let removed = self.current[within].remove_created(&key, code);
                    if self.has_disconnected && removed == Some(false) {
                        self.current[within].insert_tombstone(&self.secret, &key);
                    }
                } else {
                    ordinal -= 1;
                    self.unspend(within, &key, answers, ordinal);
                }
            }
        }
    }

    fn unspend(&mut self, within: usize, key: &Key<'_>, answers: &Answers, ordinal: usize) {
        let table = &mut self.current[within];
        match (answers.origin(ordinal), table.find(key)) {
            (Origin::Missing, _) => {}
            (Origin::Fresh, _) => {
                let coin = answers.coin(ordinal).expect("a fresh coin was answered from memory");
                table.insert_stored(&self.secret, key, coin);
            }
            (Origin::Current, Found::Tombstone(place)) => table.revive(place),
            (Origin::Older | Origin::Asked, Found::Tombstone(place)) => table.remove(key, place),
            (origin, found) => unreachable!("a spend from {origin:?} left {found:?}"),
        }
    }

    /// Takes a coin out for a disconnected block; says what it was. Asks nobody: `None` means that memory does not know it,
    /// and then a tombstone stands for it.
    pub fn take(&mut self, txid: &Hash256, vout: u32) -> Option<Option<Vec<u8>>> {
        self.has_disconnected = true;
        let known = self.get(txid, vout).map(|coin| coin.map(<[u8]>::to_vec));
        let within = usize::from(txid.0[0]) - self.first_shard;
        let key = Key::new(&self.secret, &txid.0, vout);
        let table = &mut self.current[within];
        match table.find(&key) {
            Found::Coin(place) if table.is_fresh(place) => table.remove(&key, place),
            Found::Coin(place) => table.bury(place),
            Found::Tombstone(_) => {}
            Found::Nothing => table.insert_tombstone(&self.secret, &key),
        }
        known
    }

    /// Puts a stored coin in, over whatever is there; never fresh.
    pub fn put_back(&mut self, txid: &Hash256, vout: u32, coin: &[u8]) {
        self.has_disconnected = true;
        let within = usize::from(txid.0[0]) - self.first_shard;
        let key = Key::new(&self.secret, &txid.0, vout);
        let table = &mut self.current[within];
        if let Found::Coin(place) | Found::Tombstone(place) = table.find(&key) {
            table.remove(&key, place);
        }
        table.insert_stored(&self.secret, &key, coin);
    }

    /// Closes the current generation and starts the next one.
    pub fn seal(&mut self) -> Generation {
        let tables = std::mem::replace(&mut self.current, Lane::tables(self.first_shard));
        let sealed = Generation { number: self.generation, tables: tables.into_iter().map(Arc::new).collect() };
        self.generation += 1;
        self.has_disconnected = false;
        self.older.insert(0, sealed.clone());
        sealed
    }

    /// Undoes the last [`Lane::seal`]: the current generation, from which everything must have been taken back, is dropped.
    ///
    /// # Panics
    ///
    /// When somebody else still holds the sealed generation.
    pub fn unseal(&mut self) {
        let sealed = self.older.remove(0);
        self.generation = sealed.number;
        self.has_disconnected = true; // It may have been so.
        let own = |table| Arc::try_unwrap(table).ok().expect("nobody writes a generation that is taken back");
        self.current = sealed.tables.into_iter().map(own).collect();
    }

    /// Lets go of the generations up to and with `number`; they must be committed.
    pub fn let_go(&mut self, number: u64) {
        self.older.retain(|generation| generation.number > number);
    }

    /// Numbers of the older generations, newest first.
    pub fn older(&self) -> impl Iterator<Item = &Generation> {
        self.older.iter()
    }
}

#[inline]
fn key_of<'a>(secret: &HashKey, block: &BlockOps<'a>, op: Op) -> Key<'a> {
    if op.is_create() {
        let first = block.block.transaction(op.transaction()).first_output();
        Key::new(secret, &block.txids[op.transaction()].0, (op.index() - first) as u32)
    } else {
        let prevout = block.block.input(op.index()).prevout_bytes();
        let (txid, vout) = prevout.split_first_chunk::<32>().expect("36 bytes");
        Key::new(secret, txid, u32::from_le_bytes(vout.try_into().expect("4 bytes")))
    }
}
