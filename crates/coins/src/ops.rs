//! A block's changes to the UTXO set: a list of operations for each shard, in transaction order.
//!
//! A block's operations are sorted by shard (the first byte of the txid) and keep their order within one: only later
//! transactions see an output. Each group of shards is processed by one worker at a time.
//!
//! Not operations: the coinbase's input, and provably unspendable outputs.

use crate::totals::Totals;
use primitives::coin::{code, coin_bytes_max, is_unspendable, write_coin};
use primitives::encode::copy_short;
use primitives::{Block, Height, Transaction, Txid};

/// Number of shard groups, and therefore the maximum number of workers for one block. A power of two, at most
/// [`SHARDS`].
pub const SHARD_GROUPS: usize = 32;
/// Number of shards: ranges of the txid.
pub const SHARDS: usize = 256;
/// Shards in one shard group; they are neighbours.
pub const SHARDS_PER_GROUP: usize = SHARDS / SHARD_GROUPS;

const TXID_BYTES: usize = 32;
/// A txid and a vout.
const PREVOUT_BYTES: usize = TXID_BYTES + 4;
/// The usual maximum size of a stored coin.
const COIN_BYTES: usize = 44;
/// A larger buffer is not kept for the next block: each worker keeps one.
const KEPT_BYTES_MAX: usize = 2 << 20;

const _: () = assert!(SHARDS == 1 << u8::BITS, "the first byte of the txid is the shard");
const _: () = assert!(SHARDS.is_multiple_of(SHARD_GROUPS), "each group holds whole shards");

/// One operation. Its data is stored with that of its shard, so that the rest of the block need not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Op {
    /// The top bit means create, and the rest is the vout; without it, the index of the input in its block.
    item: u32,
    /// Position of its txid; for a spend the vout follows.
    txid: u32,
    /// Position and length of the coin that it creates.
    coin: (u32, u32),
}

const CREATE: u32 = 1 << 31;

impl Op {
    /// Whether it creates a coin; otherwise it spends one.
    #[inline]
    pub fn is_create(self) -> bool {
        self.item & CREATE != 0
    }

    /// For a spend, the index of the input in its block.
    #[inline]
    pub fn input(self) -> u32 {
        debug_assert!(!self.is_create());
        self.item
    }
}

/// The operations of one block.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    ops: Vec<Op>,
    /// Outpoints and new coins in the order of `ops`: for a spend txid and vout u32 LE; for the creates of a
    /// transaction its txid once, then the coins in sequence.
    bytes: Vec<u8>,
    /// Start of each shard's operations; one more for the end.
    starts: Vec<u32>,
    /// For each input of the block the number of its answer within its shard group; that of the coinbase is unused.
    ordinals: Vec<u32>,
    /// Number of spends in each shard group.
    spends: [u32; SHARD_GROUPS],
    made: Totals,
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
    /// Lists the operations of `block` at `height`; `txids` are its transactions' ids. `coins` is memory to be reused:
    /// fresh pages for each block took a quarter of the time.
    ///
    /// The created coins are encoded here, while the block is in the processor's caches. A shard group is processed
    /// later, when it no longer is, and reads its own operations in sequence.
    pub fn build(coins: &mut NewCoins, block: &Block<'_>, txids: &[Txid], height: Height) -> Ops {
        coins.clear(block);
        // At first the size of each shard, later its start.
        let mut places = vec![NextOp::default(); SHARDS + 1];
        for (index, tx) in block.transactions().enumerate() {
            if index != 0 {
                for input in tx.inputs() {
                    let place = &mut places[usize::from(input.prevout_bytes()[0])];
                    place.op += 1;
                    place.byte += PREVOUT_BYTES as u32;
                    place.spend += 1;
                }
            }
            let place = &mut places[usize::from(txids[index].as_bytes()[0])];
            let (made, bytes) = coins.encode(&tx, code(height, index == 0));
            place.op += made;
            place.byte += if made > 0 { TXID_BYTES as u32 + bytes } else { 0 };
        }
        let mut sum = NextOp::default();
        let mut spends = [0; SHARD_GROUPS];
        for (shard, place) in places.iter_mut().enumerate() {
            let count = std::mem::replace(place, sum);
            if shard < SHARDS {
                spends[group_of(shard as u8)] += count.spend;
            }
            // Answers are numbered within a shard group.
            let is_last_of_group = shard % SHARDS_PER_GROUP == SHARDS_PER_GROUP - 1;
            let spend = if is_last_of_group { 0 } else { sum.spend + count.spend };
            sum = NextOp { op: sum.op + count.op, byte: sum.byte + count.byte, spend };
        }
        let mut ops = Ops {
            ops: vec![Op::default(); sum.op as usize],
            bytes: vec![0; sum.byte as usize],
            starts: places.iter().map(|place| place.op).collect(),
            ordinals: Vec::with_capacity(block.input_count()),
            spends,
            made: coins.totals,
        };
        for (index, tx) in block.transactions().enumerate() {
            if index == 0 {
                ops.ordinals.resize(tx.input_count(), 0);
            } else {
                for input in tx.inputs() {
                    let prevout = input.prevout_bytes();
                    ops.add_spend(&mut places[usize::from(prevout[0])], prevout);
                }
            }
            let txid = &txids[index];
            ops.add_creates(&mut places[usize::from(txid.as_bytes()[0])], txid, coins, &tx);
        }
        if coins.bytes.capacity() + coins.ends.capacity() * size_of::<u32>() > KEPT_BYTES_MAX {
            *coins = NewCoins::default();
        }
        ops
    }

    /// Stores a spend at its shard's next place.
    #[inline]
    fn add_spend(&mut self, place: &mut NextOp, prevout: &[u8; PREVOUT_BYTES]) {
        let at = place.byte as usize;
        self.bytes[at..at + PREVOUT_BYTES].copy_from_slice(prevout);
        self.ops[place.op as usize] = Op { item: self.ordinals.len() as u32, txid: place.byte, coin: (0, 0) };
        self.ordinals.push(place.spend);
        place.op += 1;
        place.byte += PREVOUT_BYTES as u32;
        place.spend += 1;
    }

    /// Stores the creates of a transaction at their shard's next places.
    #[inline]
    fn add_creates(&mut self, place: &mut NextOp, txid: &Txid, coins: &NewCoins, tx: &Transaction<'_>) {
        let name = place.byte;
        let mut end = name as usize + TXID_BYTES;
        for vout in 0..tx.output_count() {
            let coin = coins.get(tx.first_output() + vout);
            if !coin.is_empty() {
                copy_short(&mut self.bytes[end..], coin);
                let coin = (end as u32, coin.len() as u32);
                self.ops[place.op as usize] = Op { item: vout as u32 | CREATE, txid: name, coin };
                place.op += 1;
                end += coin.1 as usize;
                place.byte = end as u32;
            }
        }
        if place.byte != name {
            self.bytes[name as usize..][..TXID_BYTES].copy_from_slice(txid.as_bytes());
        }
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

    /// The totals of the created coins.
    pub fn made(&self) -> Totals {
        self.made
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        let numbers = (self.starts.capacity() + self.ordinals.capacity()) * 4;
        self.ops.capacity() * size_of::<Op>() + self.bytes.capacity() + numbers
    }
}

fn group_slice<'a>(ops: &'a [Op], starts: &[u32], group: usize) -> &'a [Op] {
    let first = group * SHARDS_PER_GROUP;
    &ops[starts[first] as usize..starts[first + SHARDS_PER_GROUP] as usize]
}

impl<'a> GroupOps<'a> {
    /// All operations, shard after shard.
    #[inline]
    pub fn all(&self) -> &'a [Op] {
        group_slice(&self.ops.ops, &self.ops.starts, self.group)
    }

    /// The outpoint that the operation spends or creates: 32 bytes of txid, vout.
    #[inline]
    pub fn outpoint(&self, op: Op) -> (&'a [u8; TXID_BYTES], u32) {
        let (txid, behind) = self.ops.bytes[op.txid as usize..].split_first_chunk().expect("a name has a txid");
        if op.is_create() {
            return (txid, op.item & !CREATE);
        }
        (txid, u32::from_le_bytes(*behind.first_chunk().expect("a prevout has 36 bytes")))
    }

    /// The stored form of the coin that a create makes.
    #[inline]
    pub fn coin(&self, op: Op) -> &'a [u8] {
        &self.ops.bytes[op.coin.0 as usize..][..op.coin.1 as usize]
    }

    /// Number of spends.
    #[inline]
    pub fn spends(&self) -> usize {
        self.ops.spends[self.group] as usize
    }
}

/// The place of a shard's next operation.
#[derive(Clone, Copy, Debug, Default)]
struct NextOp {
    op: u32,
    byte: u32,
    /// Number of the next spend's answer within the shard group.
    spend: u32,
}

/// The coins that a block creates, in order.
#[derive(Default)]
pub struct NewCoins {
    bytes: Vec<u8>,
    /// End of each output's coin; a provably unspendable output has an empty one.
    ends: Vec<u32>,
    totals: Totals,
}

impl NewCoins {
    /// Empties the list, with capacity for a block's coins.
    fn clear(&mut self, block: &Block<'_>) {
        let bytes = block.output_count() * COIN_BYTES;
        if self.bytes.len() < bytes {
            self.bytes.reserve_exact(bytes - self.bytes.len());
            self.bytes.resize(bytes, 0);
        }
        self.ends.clear();
        self.totals = Totals::default();
    }

    /// Adds the coins of the next transaction; returns their number and bytes.
    #[inline]
    fn encode(&mut self, tx: &Transaction<'_>, code: u32) -> (u32, u32) {
        let start = self.ends.last().copied().unwrap_or_default();
        let mut end = start as usize;
        let before = self.totals.coins;
        for output in tx.outputs() {
            let script = output.script();
            if !is_unspendable(script) {
                let end_max = end + coin_bytes_max(script.len());
                if self.bytes.len() < end_max {
                    self.bytes.resize(end_max.max(self.bytes.len() * 2), 0);
                }
                self.totals.count(script.len(), output.value().0);
                end += write_coin(&mut self.bytes[end..end_max], code, output.value(), script);
            }
            self.ends.push(end as u32);
        }
        ((self.totals.coins - before) as u32, end as u32 - start)
    }

    /// The coin of an output; empty for a provably unspendable one.
    #[inline]
    fn get(&self, output: usize) -> &[u8] {
        let start = output.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[output] as usize]
    }
}
