//! Experiment: hash outpoints, and look up coins by them.
//!
//! Hashes of different functions differ, so the variants of the first table agree in their number of distinct hashes.
//! Those of the second one agree in the coins found.

use crate::bench::Bench;
use crate::input::{self, Inputs, Mix, Rng};
use crate::siphash::{Presalted, general};
use crate::{Error, Experiment};
use coins::table::{Found, HashKey, Key, Table};
use primitives::OutPoint;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::hint::black_box;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[HASH, FIND], run };

const HASH: &str = "outpoint hash: hashing";
const FIND: &str = "outpoint hash: looking up among 400,000 coins";
const KEY: [u64; 2] = [0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321];
const SECRET: HashKey =
    HashKey([0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321, 0x55aa_1177_3399_bbdd, 0x7171_4242_9393_c5c5]);
/// Number of look-ups that are prefetched together.
const GROUP: usize = 32;

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    hashing(bench)?;
    finding(bench)
}

fn finding(bench: &mut Bench<'_>) -> Result<(), Error> {
    let count = bench.size(2_000, 400_000);
    let coins = input::coins(count, Mix::In2025, 9);
    let names: Vec<OutPoint> = coins.iter().map(|coin| coin.outpoint).collect();
    let mut rng = Rng(10);
    // A tenth of the wanted coins does not exist.
    let wanted: Vec<OutPoint> = (0..count / 8)
        .map(|at| match at % 10 {
            0 => OutPoint { txid: rng.txid(), vout: 0 },
            _ => names[rng.below(count as u64) as usize],
        })
        .collect();
    let wanted = &wanted[..];
    let mut ours = Table::new(0);
    for coin in &coins {
        ours.insert_stored(&SECRET, &Key::new(&SECRET, coin.outpoint.txid.as_bytes(), coin.outpoint.vout), &coin.coin);
    }
    let ours = &ours;
    let Some(mut table) = bench.table(FIND, "look-up", count / 8) else { return Ok(()) };
    let general = filled(&names, Sip::General);
    table.way("hash map, SipHash-2-4, general", move || found(&general, wanted));
    let presalted = filled(&names, Sip::Presalted24(Presalted::new(KEY)));
    table.way("hash map, SipHash-2-4, presalted", move || found(&presalted, wanted));
    let faster = filled(&names, Sip::Presalted13(Presalted::new(KEY)));
    table.way("hash map, SipHash-1-3, presalted", move || found(&faster, wanted));
    let standard: HashMap<OutPoint, u32> = names.iter().zip(0..).map(|(name, at)| (*name, at)).collect();
    table.way("hash map of the standard library", move || found(&standard, wanted));
    let folded = filled(&names, Sip::Ours);
    table.way("hash map, two folded multiplications", move || found(&folded, wanted));
    table.way("ours, one by one", move || {
        wanted.iter().filter(|name| matches!(ours.find(&key(name)), Found::Coin(_))).count()
    });
    table.way("ours, in groups asked for ahead", move || wanted.chunks(GROUP).map(|group| in_group(ours, group)).sum());
    table.shipped();
    bench.run(table)
}

fn hashing(bench: &mut Bench<'_>) -> Result<(), Error> {
    let count = bench.size(1_000, 50_000);
    let names: Vec<OutPoint> = input::coins(count, Mix::In2025, 11).into_iter().map(|coin| coin.outpoint).collect();
    let names = &names[..];
    let Some(mut table) = bench.table(HASH, "hash", count) else { return Ok(()) };
    let distinct = |hash: &dyn Fn(&OutPoint) -> u64| names.iter().map(hash).collect::<HashSet<u64>>().len();
    let by_general = |name: &OutPoint| general::<2, 4>(black_box(KEY), &name.to_bytes());
    table.add("SipHash-2-4, general", distinct(&by_general), move || summed(names, by_general));
    let state = Presalted::<2, 4>::new(KEY);
    let by_state = move |name: &OutPoint| state.outpoint(name.txid.as_bytes(), name.vout);
    table.add("SipHash-2-4, presalted", distinct(&by_state), move || summed(names, by_state));
    let state = Presalted::<1, 3>::new(KEY);
    let by_state = move |name: &OutPoint| state.outpoint(name.txid.as_bytes(), name.vout);
    table.add("SipHash-1-3, presalted", distinct(&by_state), move || summed(names, by_state));
    let by_key = |name: &OutPoint| key(name).hash();
    table.add("two folded multiplications, keyed", distinct(&by_key), move || summed(names, by_key)).shipped();
    bench.run(table)
}

#[inline]
fn summed(names: &[OutPoint], hash: impl Fn(&OutPoint) -> u64) -> Result<(), Error> {
    names.iter().for_each(|name| {
        black_box(hash(black_box(name)));
    });
    Ok(())
}

#[inline]
fn key(name: &OutPoint) -> Key<'_> {
    Key::new(&SECRET, name.txid.as_bytes(), name.vout)
}

fn filled<S: BuildHasher>(names: &[OutPoint], hasher: S) -> HashMap<OutPoint, u32, S> {
    let mut map = HashMap::with_hasher(hasher);
    map.extend(names.iter().copied().zip(0..));
    map
}

fn found<S: BuildHasher>(map: &HashMap<OutPoint, u32, S>, wanted: &[OutPoint]) -> usize {
    wanted.iter().filter(|name| map.contains_key(name)).count()
}

fn in_group(table: &Table, group: &[OutPoint]) -> usize {
    let mut keys = [const { None }; GROUP];
    for (slot, name) in keys.iter_mut().zip(group) {
        let key = key(name);
        table.prefetch_bucket(&key);
        *slot = Some(key);
    }
    keys.iter().flatten().for_each(|key| table.prefetch_record(key));
    keys.iter().flatten().filter(|key| matches!(table.find(key), Found::Coin(_))).count()
}

/// Makes hashers of outpoints.
#[derive(Clone, Copy)]
enum Sip {
    General,
    Presalted24(Presalted<2, 4>),
    Presalted13(Presalted<1, 3>),
    /// The coin table's.
    Ours,
}

/// Receives an outpoint in the form of its derived `Hash`: a length, 32 bytes, a number.
struct SipOf {
    sip: Sip,
    txid: [u8; 32],
    vout: u32,
}

impl BuildHasher for Sip {
    type Hasher = SipOf;

    #[inline]
    fn build_hasher(&self) -> SipOf {
        SipOf { sip: *self, txid: [0; 32], vout: 0 }
    }
}

impl Hasher for SipOf {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if let Some(txid) = bytes.first_chunk() {
            self.txid = *txid;
        }
    }

    #[inline]
    fn write_u32(&mut self, vout: u32) {
        self.vout = vout;
    }

    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        match self.sip {
            Sip::General => {
                let mut whole = [0; 36];
                whole[..32].copy_from_slice(&self.txid);
                whole[32..].copy_from_slice(&self.vout.to_le_bytes());
                general::<2, 4>(KEY, &whole)
            }
            Sip::Presalted24(state) => state.outpoint(&self.txid, self.vout),
            Sip::Presalted13(state) => state.outpoint(&self.txid, self.vout),
            Sip::Ours => Key::new(&SECRET, &self.txid, self.vout).hash(),
        }
    }
}
