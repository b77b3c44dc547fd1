//! Experiment: where to store the script of a coin: on the heap, inline in the coin, or packed with the whole coin.
//!
//! Each row builds a map of coins by outpoint, and looks up each coin once. Bytes are those of the whole map, divided
//! by the number of coins: the array of the table, and heap blocks with glibc's rounding (8 bytes more, to a multiple
//! of 16, at least 32).

use crate::bench::Bench;
use crate::input::{self, Digest, Inputs, Mix, StoredCoin};
use crate::{Error, Experiment};
use coins::table::{Found, HashKey, Key, Table};
use primitives::{CoinRef, OutPoint};
use std::collections::HashMap;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[OLD, NEW], run };

const OLD: &str = "scripts in the coin: mostly P2PKH, as before 2017";
const NEW: &str = "scripts in the coin: mostly P2WPKH and P2TR, as in 2025";
/// The smallest chunk of records of a shard, so that the number of chunks is bounded.
const CHUNK_BYTES: usize = 8 * 1024;
const SECRET: HashKey = HashKey([1, 2, 3, 4]);

/// A coin whose script is `S`.
struct Coin<S> {
    code: u32,
    value: i64,
    script: S,
}

/// A script in memory.
trait Script: Sized {
    fn new(script: &[u8]) -> Self;
    fn bytes(&self) -> &[u8];
    /// Bytes that it has on the heap; `None` if it is not on the heap.
    fn heap_bytes(&self) -> Option<usize>;
}

struct OnHeap(Box<[u8]>);

impl Script for OnHeap {
    fn new(script: &[u8]) -> OnHeap {
        OnHeap(script.into())
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn heap_bytes(&self) -> Option<usize> {
        Some(self.0.len()).filter(|&bytes| bytes > 0)
    }
}

/// A script of up to `N` bytes is inline.
enum Inline<const N: usize> {
    Here { len: u8, bytes: [u8; N] },
    Heap(Box<[u8]>),
}

impl<const N: usize> Script for Inline<N> {
    fn new(script: &[u8]) -> Inline<N> {
        if script.len() > N {
            return Inline::Heap(script.into());
        }
        let mut bytes = [0; N];
        bytes[..script.len()].copy_from_slice(script);
        Inline::Here { len: script.len() as u8, bytes }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Inline::Here { len, bytes } => &bytes[..usize::from(*len)],
            Inline::Heap(script) => script,
        }
    }

    fn heap_bytes(&self) -> Option<usize> {
        match self {
            Inline::Here { .. } => None,
            Inline::Heap(script) => Some(script.len()),
        }
    }
}

/// A map, and the result of finding all its coins.
type Map<S> = HashMap<OutPoint, Coin<S>>;

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    one(bench, OLD, Mix::Before2017)?;
    one(bench, NEW, Mix::In2025)
}

fn one(bench: &mut Bench<'_>, name: &'static str, mix: Mix) -> Result<(), Error> {
    let count = bench.size(1_000, 50_000);
    let coins = input::coins(count, mix, 12);
    let coins = &coins[..];
    let Some(mut table) = bench.table(name, "coin", count) else { return Ok(()) };
    by_map::<OnHeap>(&mut table, "on the heap", coins);
    by_map::<Inline<24>>(&mut table, "24 bytes inline", coins);
    by_map::<Inline<28>>(&mut table, "28 bytes inline", coins);
    by_map::<Inline<32>>(&mut table, "32 bytes inline", coins);
    by_map::<Inline<36>>(&mut table, "36 bytes inline", coins);
    by_map::<Inline<40>>(&mut table, "40 bytes inline", coins);
    by_map::<Inline<48>>(&mut table, "48 bytes inline", coins);
    let packed = fill_packed(coins);
    let bytes = packed.memory_bytes() as f64 / count as f64;
    // Records are in chunks of at least 8 KiB, and the array of buckets doubles.
    let allocations = packed.memory_bytes().div_ceil(CHUNK_BYTES) as f64 / count as f64;
    drop(packed);
    table.way("packed with name, amount, height", move || find_packed(&fill_packed(coins), coins));
    table.shipped().memory(bytes, Some(allocations));
    bench.run(table)
}

fn by_map<'a, S: Script>(table: &mut crate::bench::Table<'a, Digest>, name: &str, coins: &'a [StoredCoin]) {
    let map = fill::<S>(coins);
    let blocks: Vec<usize> = map.values().filter_map(|coin| coin.script.heap_bytes()).collect();
    let heap: usize = blocks.iter().map(|bytes| (bytes + 8).next_multiple_of(16).max(32)).sum();
    // Like hashbrown: the number of buckets is a power of two, seven of eight are usable, and each has a control byte.
    let buckets = (map.capacity() * 8 / 7).next_power_of_two();
    let bytes = heap + buckets * (size_of::<(OutPoint, Coin<S>)>() + 1);
    let count = coins.len() as f64;
    drop(map);
    table.way(name, move || find(&fill::<S>(coins), coins));
    table.memory(bytes as f64 / count, Some((blocks.len() + 1) as f64 / count));
}

fn fill<S: Script>(coins: &[StoredCoin]) -> Map<S> {
    let mut map = HashMap::new();
    let mut script = Vec::new();
    for StoredCoin { outpoint, coin } in coins {
        let coin = CoinRef::decode(coin).expect("made as Core makes them");
        script.clear();
        coin.script.append_to(&mut script);
        map.insert(*outpoint, Coin { code: coin.code(), value: coin.value.0, script: S::new(&script) });
    }
    map
}

fn find<S: Script>(map: &Map<S>, coins: &[StoredCoin]) -> Digest {
    let mut digest = Digest::default();
    for StoredCoin { outpoint, .. } in coins {
        if let Some(coin) = map.get(outpoint) {
            add(&mut digest, coin.code, coin.value, coin.script.bytes());
        }
    }
    digest
}

fn fill_packed(coins: &[StoredCoin]) -> Table {
    let mut table = Table::new(0);
    for StoredCoin { outpoint, coin } in coins {
        table.insert_stored(&SECRET, &Key::new(&SECRET, outpoint.txid.as_bytes(), outpoint.vout), coin);
    }
    table
}

fn find_packed(table: &Table, coins: &[StoredCoin]) -> Digest {
    let mut digest = Digest::default();
    let mut script = Vec::new();
    for StoredCoin { outpoint, .. } in coins {
        if let Found::Coin(place) = table.find(&Key::new(&SECRET, outpoint.txid.as_bytes(), outpoint.vout)) {
            let coin = CoinRef::decode(table.coin(place)).expect("it was put in");
            script.clear();
            coin.script.append_to(&mut script);
            add(&mut digest, coin.code(), coin.value.0, &script);
        }
    }
    digest
}

fn add(digest: &mut Digest, code: u32, value: i64, script: &[u8]) {
    digest.add_u64(code.into());
    digest.add_u64(value.cast_unsigned());
    digest.add(script);
}
