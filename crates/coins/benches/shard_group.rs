//! What a block does to the UTXO set in memory, against a plain map: `cargo bench -p ffwd-coins`. Small, and only checked, without `--bench`.
//!
//! The stream is made from a seed in the mix of the baseline work: 1.9 inputs and 3.3 outputs a transaction, coins of
//! 22 to 34 bytes of script, an input spends any of the coins that are there. A row is the median of the blocks at the end
//! of the stream, on one thread, in nanoseconds a coin that is spent or created (`ns/op`). Ids are not in it.

use coins::ops::{NewCoins, Ops, SHARD_GROUPS};
use coins::shard_group::BlockOps;
use coins::table::HashKey;
use coins::{Answers, ShardGroup};
use primitives::coin::{code, put_coin};
use primitives::{Amount, Height, OutPoint, Tables, Txid};
use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};
use testkit::{Bench, Rng};

const SECRET: HashKey = HashKey([1, 2, 3, 4]);
const TRANSACTIONS: usize = 2500;

/// A block and its ids; it spends from `coins`, and adds what it makes.
fn block(height: u32, rng: &mut Rng, coins: &mut Vec<OutPoint>) -> (Vec<u8>, Vec<Txid>) {
    let mut bytes = vec![0; 80];
    primitives::encode::put_compact_size(&mut bytes, TRANSACTIONS as u64);
    let (mut txids, mut made) = (Vec::new(), Vec::new());
    for index in 0..TRANSACTIONS {
        let start = bytes.len();
        let inputs = if index == 0 { 1 } else { (1 + rng.below(10) / 5 + rng.below(9) / 8).min(coins.len().max(1)) };
        bytes.extend(1u32.to_le_bytes());
        bytes.push(inputs as u8);
        for _ in 0..inputs {
            let is_own = index == 0 || coins.is_empty();
            let name = if is_own {
                OutPoint { txid: Txid::ZERO, vout: u32::MAX - height }
            } else {
                coins.swap_remove(rng.below(coins.len()))
            };
            bytes.extend(name.txid.to_bytes());
            bytes.extend(name.vout.to_le_bytes());
            bytes.extend([0, 0xff, 0xff, 0xff, 0xff]);
        }
        let outputs = 1 + rng.below(5) + usize::from(rng.below(10) < 3);
        bytes.push(outputs as u8);
        for _ in 0..outputs {
            bytes.extend((1 + rng.below(1 << 30) as u64).to_le_bytes());
            let script = [22, 23, 25, 34][rng.below(4)];
            bytes.push(script as u8);
            bytes.extend(std::iter::repeat_n(0x51, script));
        }
        bytes.extend([0; 4]);
        let txid = Txid::from_bytes(kernels::sha256::sha256(&bytes[start..]));
        made.extend((0..outputs as u32).map(|vout| OutPoint { txid, vout }));
        txids.push(txid);
    }
    coins.extend(made);
    (bytes, txids)
}

fn main() {
    for blocks in Bench::from_args().size(&[4][..], &[100, 800]) {
        rows(*blocks);
    }
}

fn rows(blocks: u32) {
    let (mut rng, mut names) = (Rng::new(7), Vec::new());
    let mut groups: Vec<ShardGroup> = (0..SHARD_GROUPS).map(|group| ShardGroup::new(group, SECRET)).collect();
    let mut map: HashMap<OutPoint, Vec<u8>> = HashMap::new();
    let (mut builds, mut applies, mut plains, mut rewinds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut tables, mut new_coins) = (Tables::new(), NewCoins::default());
    let (mut coins, mut bytes_held) = (0, 0);
    for height in 1..=blocks {
        let (bytes, txids) = block(height, &mut rng, &mut names);
        let parsed = tables.parse_block(&bytes).expect("a block");
        let count = parsed.input_count() + parsed.output_count() - 1;
        let each = |since: Instant| since.elapsed() / count as u32;
        let since = Instant::now();
        let ops = black_box(Ops::build(&mut new_coins, &parsed, &txids, Height::new(height)));
        builds.push(each(since));
        let told = |group: usize| BlockOps { ops: ops.group(group), overwrites: false };
        let apply = |groups: &mut [ShardGroup]| -> Vec<Answers> {
            groups.iter_mut().enumerate().map(|(number, group)| group.apply(&told(number))).collect()
        };
        let since = Instant::now();
        let answers = apply(&mut groups);
        applies.push(each(since));
        if height == blocks {
            coins = groups.iter().map(ShardGroup::len).sum();
            bytes_held = groups.iter().map(ShardGroup::memory_bytes).sum();
            let since = Instant::now();
            for (number, (group, answers)) in groups.iter_mut().zip(&answers).enumerate() {
                group.rewind(&told(number), answers);
            }
            rewinds.push(each(since));
        }
        let since = Instant::now();
        let mut spent = 0;
        for (index, tx) in parsed.transactions().enumerate() {
            for input in tx.inputs().filter(|_| index > 0) {
                let prevout = input.prevout();
                spent += map.remove(&prevout).map_or(0, |coin| coin.len());
            }
            for (vout, output) in tx.outputs().enumerate() {
                let mut coin = Vec::new();
                put_coin(&mut coin, code(Height::new(height), index == 0), Amount(output.value().0), output.script());
                map.insert(OutPoint { txid: txids[index], vout: vout as u32 }, coin);
            }
        }
        plains.push(each(since));
        let answered: usize = (1..parsed.input_count())
            .map(|input| {
                let group = coins::ops::group_of(parsed.input(input).prevout_bytes()[0]);
                answers[group].coin(ops.ordinal(input)).map_or(0, <[u8]>::len)
            })
            .sum();
        assert_eq!(answered, spent, "the same coins were spent at height {height}");
    }
    assert_eq!(coins, map.len() + 1, "the same coins are left, and the tombstone of a coin that block 1 had not");
    println!("{coins} coins after {blocks} blocks, {:.1} bytes each", bytes_held as f64 / coins as f64);
    for (name, mut times) in [
        ("operations listed and sorted", builds),
        ("spend and create, shard groups", applies),
        ("spend and create, one HashMap", plains),
        ("the last block taken back", rewinds),
    ] {
        let mut last = times.split_off(times.len() - times.len().div_ceil(4));
        last.sort();
        println!("  {name:32} {:7.1} ns/op (least {:.1})", ns(last[last.len() / 2]), ns(last[0]));
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}
