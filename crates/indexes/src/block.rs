//! One block's records for each index: computed from only the block and the coins that it spends, by any worker, in any
//! order.
//!
//! The parts that depend on earlier blocks are added in order later: sequence numbers, filter headers, sums, and the
//! block's place in the files.

use crate::coinstats::{BlockStats, CoinbaseKind, bogosize};
use crate::filter;
use crate::siphash::SipKey;
use crate::{IndexKind, silentpayments, spender, txindex};
use primitives::coin::{CoinRef, code, is_unspendable};
use primitives::encode::put_compact_size;
use primitives::muhash::Product;
use primitives::{Amount, Block, BlockHash, Hash256, Height, Txid};
use sys::spill::{Spill, SpillFiles};

/// Bytes of a header.
const HEADER_BYTES: u32 = 80;

/// The enabled indexes, with the keys of their hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// `txindex`, with its salt.
    pub tx: Option<SipKey>,
    /// `txospenderindex`, with its key.
    pub spender: Option<SipKey>,
    /// `blockfilterindex`.
    pub filter: bool,
    /// `coinstatsindex`.
    pub stats: bool,
    /// `silentpaymentindex`.
    pub tweaks: bool,
}

impl Wanted {
    /// Whether this index is enabled.
    pub fn has(&self, kind: IndexKind) -> bool {
        match kind {
            IndexKind::Tx => self.tx.is_some(),
            IndexKind::BlockFilter => self.filter,
            IndexKind::TxoSpender => self.spender.is_some(),
            IndexKind::CoinStats => self.stats,
            IndexKind::SilentPayments => self.tweaks,
        }
    }

    /// Whether the coins that a block spends are needed.
    pub fn needs_coins(&self) -> bool {
        self.filter || self.stats || self.tweaks
    }

    /// Whether no index is enabled.
    pub fn is_none(&self) -> bool {
        !IndexKind::ALL.into_iter().any(|kind| self.has(kind))
    }
}

/// A block's place in its chain, and values that depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPlace {
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
    /// The subsidy of that height.
    pub subsidy: Amount,
    /// A later block repeats its coinbase, and the coins count only in that block.
    pub coinbase_is_repeated: bool,
}

/// A filter, and its hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFilter {
    /// The filter's bytes.
    pub bytes: Vec<u8>,
    /// Double SHA-256 of these bytes.
    pub hash: Hash256,
}

/// A block's records for the enabled indexes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockRecords {
    /// For each transaction its [`txindex::place`], in the order of the block.
    pub tx: Option<Vec<u64>>,
    /// For each input except the coinbase's its [`spender::order`], and the offset of its transaction after the header.
    pub spenders: Option<Vec<(u64, u32)>>,
    /// The filter.
    pub filter: Option<BlockFilter>,
    /// Its changes to the UTXO set.
    pub stats: Option<Box<BlockStats>>,
    /// The row of `silentpaymentindex`.
    pub tweaks: Option<Vec<u8>>,
}

impl BlockRecords {
    /// Computes the records of `block`, whose transactions have these ids and whose inputs, without the coinbase's,
    /// spend these coins, in order. Large amounts of scripts are stored in a file of `spill`.
    ///
    /// # Panics
    ///
    /// If the number of ids or of coins does not match the block. The genesis block spends no coins.
    pub fn build(
        wanted: &Wanted,
        place: &BlockPlace,
        block: &Block<'_>,
        txids: &[Txid],
        spent: &[CoinRef<'_>],
        spill: &SpillFiles,
    ) -> BlockRecords {
        assert_eq!(txids.len(), block.transaction_count(), "an id for each transaction");
        let mut records = BlockRecords::default();
        if wanted.tx.is_some() || wanted.spender.is_some() {
            records.add_places(wanted, place, block, txids);
        }
        if wanted.needs_coins() {
            assert_eq!(spent.len() + 1, block.input_count(), "a coin for each input but the coinbase's");
        }
        if wanted.tweaks {
            records.tweaks = Some(silentpayments::encode(&silentpayments::entries(block, spent)));
        }
        if wanted.filter || wanted.stats {
            let scripts = Scripts::of(spent, spill);
            if wanted.filter {
                let bytes = filter_of(&place.hash, block, &scripts);
                records.filter = Some(BlockFilter { hash: filter::hash(&bytes), bytes });
            }
            if wanted.stats {
                records.stats = Some(Box::new(stats_of(place, block, txids, spent, &scripts)));
            }
        }
        records
    }

    fn add_places(&mut self, wanted: &Wanted, place: &BlockPlace, block: &Block<'_>, txids: &[Txid]) {
        // The transaction of the genesis block is not indexed, as in Core.
        let salt = wanted.tx.filter(|_| place.height > Height::GENESIS);
        let mut places = Vec::with_capacity(if salt.is_some() { txids.len() } else { 0 });
        let mut spenders = Vec::with_capacity(if wanted.spender.is_some() { block.input_count() } else { 0 });
        let mut count = Vec::new();
        put_compact_size(&mut count, txids.len() as u64);
        let mut offset = count.len() as u32;
        for (index, (tx, txid)) in block.transactions().zip(txids).enumerate() {
            if let Some(salt) = salt {
                places.push(txindex::place(salt, txid, HEADER_BYTES + offset));
            }
            if let Some(key) = wanted.spender.filter(|_| index > 0) {
                spenders.extend(tx.inputs().map(|input| (spender::order(key, input.prevout_bytes()), offset)));
            }
            offset += tx.bytes().len() as u32;
        }
        self.tx = wanted.tx.map(|_| places);
        self.spenders = wanted.spender.map(|_| spenders);
    }

    /// Memory that they hold, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<BlockRecords>()
            + self.tx.as_ref().map_or(0, |places| places.capacity() * size_of::<u64>())
            + self.spenders.as_ref().map_or(0, |spenders| spenders.capacity() * size_of::<(u64, u32)>())
            + self.filter.as_ref().map_or(0, |filter| filter.bytes.capacity())
            + self.stats.as_ref().map_or(0, |_| size_of::<BlockStats>())
            + self.tweaks.as_ref().map_or(0, Vec::capacity)
    }
}

/// The scripts of coins, concatenated.
struct Scripts {
    bytes: Spill,
    ends: Vec<usize>,
}

impl Scripts {
    fn of(coins: &[CoinRef<'_>], spill: &SpillFiles) -> Scripts {
        let bytes = coins.iter().map(|coin| coin.script.script_bytes()).sum();
        let mut scripts = Scripts { bytes: spill.with_capacity(bytes), ends: Vec::with_capacity(coins.len()) };
        for coin in coins {
            coin.script.append_to(&mut scripts.bytes);
            scripts.ends.push(scripts.bytes.len());
        }
        scripts
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let script = &self.bytes[start..end];
            start = end;
            script
        })
    }
}

fn filter_of(hash: &BlockHash, block: &Block<'_>, spent: &Scripts) -> Vec<u8> {
    let made = (0..block.output_count()).map(|index| block.output(index).script());
    let made = made.filter(|script| filter::is_element_of_output(script));
    let count = block.output_count() + spent.ends.len();
    filter::encode(hash, count, made.chain(spent.iter().filter(|script| !script.is_empty())))
}

fn stats_of(
    place: &BlockPlace,
    block: &Block<'_>,
    txids: &[Txid],
    spent: &[CoinRef<'_>],
    scripts: &Scripts,
) -> BlockStats {
    let kind = match place.height {
        Height::GENESIS => CoinbaseKind::Genesis,
        _ if place.coinbase_is_repeated => CoinbaseKind::Repeated,
        _ => CoinbaseKind::Normal,
    };
    let mut stats = BlockStats::new(place.subsidy.0, kind);
    if kind == CoinbaseKind::Genesis {
        return stats;
    }
    let mut passing = Passing::of(place.height, block, spent);
    add_created(&mut stats, place, block, txids, &mut passing);
    let mut gone = Product::new(block.kernels());
    for (index, (coin, script)) in spent.iter().zip(scripts.iter()).enumerate() {
        stats.prevouts += i128::from(coin.value.0);
        stats.outputs.1 += 1;
        stats.bogosize.1 += bogosize(script.len());
        if !passing.is_made(index) {
            gone.push_with(|element| {
                element.extend_from_slice(block.input(index + 1).prevout_bytes());
                element.extend_from_slice(&coin.code().to_le_bytes());
                element.extend_from_slice(&coin.value.0.to_le_bytes());
                put_compact_size(element, script.len() as u64);
                element.extend_from_slice(script);
            });
        }
    }
    stats.spent = gone.finish();
    stats
}

/// Adds the coins that a block creates, and finds those among them that it also spends.
fn add_created(
    stats: &mut BlockStats,
    place: &BlockPlace,
    block: &Block<'_>,
    txids: &[Txid],
    passing: &mut Passing<'_>,
) {
    let mut created = Product::new(block.kernels());
    for (index, (tx, txid)) in block.transactions().zip(txids).enumerate() {
        if index == 0 && stats.kind == CoinbaseKind::Repeated {
            continue;
        }
        let code = code(place.height, index == 0).to_le_bytes();
        let may_pass = passing.may_have(txid);
        let mut name = [0; 36];
        name[..32].copy_from_slice(txid.as_bytes());
        for (vout, output) in tx.outputs().enumerate() {
            let value = i128::from(output.value().0);
            if is_unspendable(output.script()) {
                stats.unspendable += value;
                continue;
            }
            *(if index == 0 { &mut stats.coinbase } else { &mut stats.new_outputs }) += value;
            stats.outputs.0 += 1;
            stats.bogosize.0 += bogosize(output.script().len());
            name[32..].copy_from_slice(&(vout as u32).to_le_bytes());
            if may_pass && passing.make(&name) {
                continue;
            }
            created.push_with(|element| {
                element.extend_from_slice(&name);
                element.extend_from_slice(&code);
                element.extend_from_slice(output.serialized());
            });
        }
    }
    stats.created = created.finish();
}

/// Coins that a block both creates and spends: they would be a factor of both products, so they are left out of both.
struct Passing<'a> {
    /// First bytes of their outpoints, the outpoints, and the index of the spend; sorted.
    spends: Vec<(u64, &'a [u8; 36], usize)>,
    /// A bit for each value that occurs in the first bits of their txids.
    bits: Vec<u64>,
    /// For each spend of the block, whether its coin was found among the created ones.
    made: Vec<bool>,
}

/// Number of distinguished values of the first bits of a txid.
const PASSING_BITS: usize = 1 << 14;

impl<'a> Passing<'a> {
    /// The candidates among the spent coins: those with the block's own height.
    fn of(height: Height, block: &Block<'a>, spent: &[CoinRef<'_>]) -> Passing<'a> {
        let own = spent.iter().enumerate().filter(|(_, coin)| coin.height == height);
        let mut spends: Vec<_> = own
            .map(|(spend, _)| {
                let name = block.input(spend + 1).prevout_bytes();
                (Passing::beginning(name), name, spend)
            })
            .collect();
        spends.sort_unstable();
        let mut bits = vec![0; if spends.is_empty() { 0 } else { PASSING_BITS / 64 }];
        for (beginning, ..) in &spends {
            let bit = *beginning as usize % PASSING_BITS;
            bits[bit / 64] |= 1 << (bit % 64);
        }
        Passing { spends, bits, made: vec![false; spent.len()] }
    }

    fn beginning(name: &[u8]) -> u64 {
        u64::from_le_bytes(*name.first_chunk().expect("a txid has more"))
    }

    /// Whether a coin of this transaction may be one of them.
    #[inline]
    fn may_have(&self, txid: &Txid) -> bool {
        let bit = Passing::beginning(txid.as_bytes()) as usize % PASSING_BITS;
        self.bits.get(bit / 64).is_some_and(|bits| bits >> (bit % 64) & 1 == 1)
    }

    /// Handles a created coin; returns whether it is one of them.
    fn make(&mut self, name: &[u8; 36]) -> bool {
        let wanted = (Passing::beginning(name), name);
        let found = self.spends.binary_search_by(|&(beginning, name, _)| (beginning, name).cmp(&wanted));
        let Ok(at) = found else { return false };
        !std::mem::replace(&mut self.made[self.spends[at].2], true)
    }

    /// Whether the coin of this spend was created by the block.
    fn is_made(&self, spend: usize) -> bool {
        self.made[spend]
    }
}
