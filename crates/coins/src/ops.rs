//! What a block does to the UTXO set: a list of operations a shard, in transaction order.
//!
//! A block's operations are sorted by shard (the first byte of the txid) and keep their order within one:
//! an output is seen by later transactions only. One worker at a time works on a group of shards.
//!
//! Never an operation: the coinbase's input, an output that can never be spent.

use primitives::coin::is_unspendable;
use primitives::{Block, Txid};

/// Shard groups: what workers can do at the same time for one block. A power of two, at most [`SHARDS`].
pub const SHARD_GROUPS: usize = 32;
/// Shards: ranges of the txid.
pub const SHARDS: usize = 256;
/// Shards of one shard group; they are neighbours.
pub const SHARDS_PER_GROUP: usize = SHARDS / SHARD_GROUPS;

const _: () = assert!(SHARDS == 1 << u8::BITS, "the first byte of the txid is the shard");
const _: () = assert!(SHARDS.is_multiple_of(SHARD_GROUPS), "each group holds whole shards");

/// One operation: the top bit says create, the rest is the index of the output or input in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    item: u32,
    /// For a create, the index of its transaction.
    transaction: u32,
}

const CREATE: u32 = 1 << 31;

impl Op {
    /// Whether it makes a coin; otherwise it spends one.
    #[inline]
    pub fn is_create(self) -> bool {
        self.item & CREATE != 0
    }

    /// Index of the output or input in its block.
    #[inline]
    pub fn index(self) -> usize {
        (self.item & !CREATE) as usize
    }

    /// Index of the transaction that makes the coin.
    #[inline]
    pub fn transaction(self) -> usize {
        self.transaction as usize
    }
}

/// The operations of one block.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    ops: Vec<Op>,
    /// Where each shard's operations start; one more for the end.
    starts: Vec<u32>,
    /// For each input of the block the number of its answer within its shard group; the coinbase's is not used.
    ordinals: Vec<u32>,
    /// How many spends each shard group has.
    spends: [u32; SHARD_GROUPS],
}

/// The operations of one block in one shard group.
#[derive(Clone, Copy, Debug)]
pub struct GroupOps<'a> {
    ops: &'a Ops,
    group: usize,
}

/// The shard group of a txid.
#[inline]
pub fn group_of(first_txid_byte: u8) -> usize {
    usize::from(first_txid_byte) / SHARDS_PER_GROUP
}

impl Ops {
    /// Lists what `block` does; `txids` are its transactions' ids.
    pub fn build(block: &Block<'_>, txids: &[Txid]) -> Ops {
        let mut ops = Ops { starts: vec![0; SHARDS + 1], ..Ops::default() };
        let mut counts = [0u32; SHARDS];
        each(block, txids, |shard, _| counts[shard] += 1);
        let mut sum = 0;
        for (shard, count) in counts.iter().enumerate() {
            ops.starts[shard] = sum;
            sum += count;
        }
        ops.starts[SHARDS] = sum;
        let mut next = [0u32; SHARDS];
        next.copy_from_slice(&ops.starts[..SHARDS]);
        ops.ops.resize(sum as usize, Op { item: 0, transaction: 0 });
        each(block, txids, |shard, op| {
            ops.ops[next[shard] as usize] = op;
            next[shard] += 1;
        });
        ops.ordinals.resize(block.input_count(), 0);
        for group in 0..SHARD_GROUPS {
            let mut spends = 0;
            for op in group_slice(&ops.ops, &ops.starts, group).iter().filter(|op| !op.is_create()) {
                ops.ordinals[op.index()] = spends;
                spends += 1;
            }
            ops.spends[group] = spends;
        }
        ops
    }

    /// The operations of one shard group.
    #[inline]
    pub fn group(&self, group: usize) -> GroupOps<'_> {
        GroupOps { ops: self, group }
    }

    /// Number of an input's answer within its shard group.
    #[inline]
    pub fn ordinal(&self, input: usize) -> usize {
        self.ordinals[input] as usize
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.ops.capacity() * size_of::<Op>() + (self.starts.capacity() + self.ordinals.capacity()) * 4
    }
}

fn group_slice<'a>(ops: &'a [Op], starts: &[u32], group: usize) -> &'a [Op] {
    let first = group * SHARDS_PER_GROUP;
    &ops[starts[first] as usize..starts[first + SHARDS_PER_GROUP] as usize]
}

impl<'a> GroupOps<'a> {
    /// All of them, shard after shard.
    #[inline]
    pub fn all(&self) -> &'a [Op] {
        group_slice(&self.ops.ops, &self.ops.starts, self.group)
    }

    /// Those of shard `within` (0 to [`SHARDS_PER_GROUP`]) of this shard group.
    #[inline]
    pub fn shard(&self, within: usize) -> &'a [Op] {
        let shard = self.group * SHARDS_PER_GROUP + within;
        &self.ops.ops[self.ops.starts[shard] as usize..self.ops.starts[shard + 1] as usize]
    }

    /// How many of them are spends.
    #[inline]
    pub fn spends(&self) -> usize {
        self.ops.spends[self.group] as usize
    }
}

/// Calls `take` with shard and operation for each, in transaction order: inputs before outputs.
#[inline]
fn each(block: &Block<'_>, txids: &[Txid], mut take: impl FnMut(usize, Op)) {
    for (index, tx) in block.transactions().enumerate() {
        if index != 0 {
            for (at, input) in tx.inputs().enumerate() {
                let item = (tx.first_input() + at) as u32;
                take(usize::from(input.prevout_bytes()[0]), Op { item, transaction: index as u32 });
            }
        }
        let shard = usize::from(txids[index].as_bytes()[0]);
        for (at, output) in tx.outputs().enumerate() {
            if !is_unspendable(output.script()) {
                let item = (tx.first_output() + at) as u32 | CREATE;
                take(shard, Op { item, transaction: index as u32 });
            }
        }
    }
}
