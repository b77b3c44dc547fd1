//! What a block does to the UTXO set: a list of operations a shard, in transaction order.
//!
//! A block's operations are sorted by shard (the first byte of the txid) and keep their order within one:
//! an output is seen by later transactions only. One worker at a time works on a group of shards.
//!
//! Never an operation: the coinbase's input, an output that can never be spent.

use crate::totals::Totals;
use primitives::coin::{code, coin_bytes_max, is_unspendable, write_coin};
use primitives::{Block, Height, Txid};

/// Shard groups: what workers can do at the same time for one block. A power of two, at most [`SHARDS`].
pub const SHARD_GROUPS: usize = 32;
/// Shards: ranges of the txid.
pub const SHARDS: usize = 256;
/// Shards of one shard group; they are neighbours.
pub const SHARDS_PER_GROUP: usize = SHARDS / SHARD_GROUPS;

const TXID_BYTES: usize = 32;
/// A txid and a vout.
const PREVOUT_BYTES: usize = TXID_BYTES + 4;
/// What a stored coin most often has at most.
const COIN_BYTES: usize = 44;

const _: () = assert!(SHARDS == 1 << u8::BITS, "the first byte of the txid is the shard");
const _: () = assert!(SHARDS.is_multiple_of(SHARD_GROUPS), "each group holds whole shards");

/// One operation. What it needs lies with its shard's others, so that nothing else of the block is read to do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Op {
    /// The top bit says create, and the rest is the vout; without it, the index of the input in its block.
    item: u32,
    /// Where its txid lies; that of a spend is followed by the vout.
    txid: u32,
    /// Where the coin that it makes lies, and its length.
    coin: (u32, u32),
}

const CREATE: u32 = 1 << 31;

impl Op {
    /// Whether it makes a coin; otherwise it spends one.
    #[inline]
    pub fn is_create(self) -> bool {
        self.item & CREATE != 0
    }

    /// Of a spend, the index of the input in its block.
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
    /// Names and new coins in the order of `ops`: of a spend txid and vout u32 LE; of the creates of a transaction its txid
    /// once, then coin after coin.
    bytes: Vec<u8>,
    /// Where each shard's operations start; one more for the end.
    starts: Vec<u32>,
    /// For each input of the block the number of its answer within its shard group; the coinbase's is not used.
    ordinals: Vec<u32>,
    /// How many spends each shard group has.
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
    /// Lists what `block` at `height` does; `txids` are its transactions' ids.
    ///
    /// The coins that it makes are encoded here, while the block is at hand: a shard group comes to it later, when the
    /// block has left the processor's caches, and reads its own operations from the first to the last.
    pub fn build(block: &Block<'_>, txids: &[Txid], height: Height) -> Ops {
        let coins = NewCoins::encode(block, height);
        let mut places = vec![Place::default(); SHARDS + 1];
        each(block, txids, &coins, |item| {
            let place = &mut places[item.shard];
            place.op += 1;
            place.byte += item.bytes();
        });
        let mut sum = Place::default();
        for place in &mut places {
            let count = std::mem::replace(place, sum);
            sum = Place { op: sum.op + count.op, byte: sum.byte + count.byte, txid: 0 };
        }
        let starts: Vec<u32> = places.iter().map(|place| place.op).collect();
        let mut ops = Ops {
            ops: vec![Op::default(); sum.op as usize],
            bytes: vec![0; sum.byte as usize],
            starts,
            ordinals: vec![0; block.input_count()],
            spends: [0; SHARD_GROUPS],
            made: coins.totals,
        };
        each(block, txids, &coins, |item| ops.add(&mut places[item.shard], &item));
        ops.number_spends();
        ops
    }

    /// Puts an operation where its shard's next one goes.
    #[inline]
    fn add(&mut self, place: &mut Place, item: &Item<'_>) {
        let at = place.byte as usize;
        let op = match item.kind {
            ItemKind::Spend { input, prevout } => {
                self.bytes[at..at + PREVOUT_BYTES].copy_from_slice(prevout);
                Op { item: input, txid: place.byte, coin: (0, 0) }
            }
            ItemKind::Create { txid, vout, coin, is_first } => {
                let mut start = at;
                if is_first {
                    self.bytes[at..at + TXID_BYTES].copy_from_slice(txid.as_bytes());
                    start += TXID_BYTES;
                    place.txid = place.byte;
                }
                self.bytes[start..start + coin.len()].copy_from_slice(coin);
                Op { item: vout | CREATE, txid: place.txid, coin: (start as u32, coin.len() as u32) }
            }
        };
        self.ops[place.op as usize] = op;
        place.op += 1;
        place.byte += item.bytes();
    }

    fn number_spends(&mut self) {
        for group in 0..SHARD_GROUPS {
            let mut spends = 0;
            for op in group_slice(&self.ops, &self.starts, group).iter().filter(|op| !op.is_create()) {
                self.ordinals[op.item as usize] = spends;
                spends += 1;
            }
            self.spends[group] = spends;
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

    /// What the coins that it makes add up to.
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
    /// All of them, shard after shard.
    #[inline]
    pub fn all(&self) -> &'a [Op] {
        group_slice(&self.ops.ops, &self.ops.starts, self.group)
    }

    /// The outpoint that one of them spends or makes: 32 bytes of txid, vout.
    #[inline]
    pub fn outpoint(&self, op: Op) -> (&'a [u8; TXID_BYTES], u32) {
        let (txid, behind) = self.ops.bytes[op.txid as usize..].split_first_chunk().expect("a name has a txid");
        if op.is_create() {
            return (txid, op.item & !CREATE);
        }
        (txid, u32::from_le_bytes(*behind.first_chunk().expect("a prevout has 36 bytes")))
    }

    /// The coin that a create makes, as it is stored.
    #[inline]
    pub fn coin(&self, op: Op) -> &'a [u8] {
        &self.ops.bytes[op.coin.0 as usize..][..op.coin.1 as usize]
    }

    /// How many of them are spends.
    #[inline]
    pub fn spends(&self) -> usize {
        self.ops.spends[self.group] as usize
    }
}

/// Where the next operation of a shard goes.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    op: u32,
    byte: u32,
    /// The txid of the creates of one transaction.
    txid: u32,
}

/// The coins that a block makes, in its order.
struct NewCoins {
    bytes: Vec<u8>,
    /// Where each output's coin ends; one that can never be spent has none.
    ends: Vec<u32>,
    totals: Totals,
}

impl NewCoins {
    fn encode(block: &Block<'_>, height: Height) -> NewCoins {
        let mut bytes = vec![0; block.output_count() * COIN_BYTES];
        let (mut ends, mut end) = (Vec::with_capacity(block.output_count()), 0);
        let mut totals = Totals::default();
        for (index, tx) in block.transactions().enumerate() {
            let code = code(height, index == 0);
            for output in tx.outputs() {
                if !is_unspendable(output.script()) {
                    let end_max = end + coin_bytes_max(output.script().len());
                    if bytes.len() < end_max {
                        bytes.resize(end_max.max(bytes.len() * 2), 0);
                    }
                    totals.count(output.script().len(), output.value().0);
                    end += write_coin(&mut bytes[end..], code, output.value(), output.script());
                }
                ends.push(end as u32);
            }
        }
        NewCoins { bytes, ends, totals }
    }

    /// The coin of an output; empty where it has none.
    #[inline]
    fn get(&self, output: usize) -> &[u8] {
        let start = output.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[output] as usize]
    }
}

/// An operation before it is put among those of its shard.
struct Item<'a> {
    shard: usize,
    kind: ItemKind<'a>,
}

enum ItemKind<'a> {
    Spend {
        input: u32,
        prevout: &'a [u8; PREVOUT_BYTES],
    },
    /// `is_first`: no output of its transaction before it makes a coin.
    Create {
        txid: &'a Txid,
        vout: u32,
        coin: &'a [u8],
        is_first: bool,
    },
}

impl Item<'_> {
    /// Bytes that it takes.
    #[inline]
    fn bytes(&self) -> u32 {
        match self.kind {
            ItemKind::Spend { .. } => PREVOUT_BYTES as u32,
            ItemKind::Create { coin, is_first, .. } => coin.len() as u32 + u32::from(is_first) * TXID_BYTES as u32,
        }
    }
}

/// Calls `take` with each operation, in transaction order: inputs before outputs.
#[inline]
fn each<'a>(block: &Block<'a>, txids: &'a [Txid], coins: &'a NewCoins, mut take: impl FnMut(Item<'a>)) {
    for (index, tx) in block.transactions().enumerate() {
        if index != 0 {
            for (at, input) in tx.inputs().enumerate() {
                let prevout = input.prevout_bytes();
                let kind = ItemKind::Spend { input: (tx.first_input() + at) as u32, prevout };
                take(Item { shard: usize::from(prevout[0]), kind });
            }
        }
        let txid = &txids[index];
        let mut is_first = true;
        for vout in 0..tx.output_count() {
            let coin = coins.get(tx.first_output() + vout);
            if !coin.is_empty() {
                let kind = ItemKind::Create { txid, vout: vout as u32, coin, is_first };
                take(Item { shard: usize::from(txid.as_bytes()[0]), kind });
                is_first = false;
            }
        }
    }
}
