//! Judges made chains by the rules of `consensus` and `script`, which had no part in making them, and counts what is in them.

use super::coin::Coin;
use super::keys::Keys;
use super::plan::{BlockPlan, Planner, Shape};
use super::{Error, Options, Profile, Report, Signatures, generate};
use consensus::block::{self, Context, Scratch};
use consensus::header::{self, Ancestor, Parent, median_time_past};
use consensus::{BlockSpend, Chain, Params, SpentCoin, transaction};
use primitives::coin::is_unspendable;
use primitives::{Amount, Block, BlockHash, Height, MedianTime, OutPoint, Tables, Txid};
use script::{Immediate, Precomputed, SpentOutput};
use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

fn made(options: &Options) -> Report {
    generate(options, |_| ()).unwrap()
}

fn options(directory: &tempfile::TempDir, name: &str, blocks: u32, signatures: Signatures) -> Options {
    Options { utxos: 1_000, signatures, ..Options::new(directory.path().join(name), blocks, 7) }
}

/// The bytes of all block files, one after the other.
fn bytes_of(out: &Path) -> Vec<u8> {
    let mut paths: Vec<_> =
        fs::read_dir(out.join("regtest/blocks")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn chain_is_the_same_for_the_same_options() {
    let directory = tempfile::tempdir().unwrap();
    for (signatures, blocks) in [(Signatures::Fake, 3), (Signatures::Real, 1)] {
        let chain = |name: &str, seed, threads| {
            let options = options(&directory, &format!("{signatures}-{name}"), blocks, signatures);
            let report = made(&Options { seed, threads: NonZeroUsize::new(threads), ..options.clone() });
            (bytes_of(&options.out), Report { seconds: 0.0, ..report })
        };
        let (bytes, report) = chain("one", 7, 1);
        assert_eq!(report.bytes, bytes.len() as u64);
        for threads in [2, 5] {
            let (other, other_report) = chain(&threads.to_string(), 7, threads);
            assert!(other == bytes && other_report == report, "{signatures}, {threads} threads: other bytes");
        }
        let (other, _) = chain("seed", 8, 2);
        // The genesis block is all that they share; the first coinbase is another already.
        let same = bytes.iter().zip(&other).take_while(|(a, b)| a == b).count();
        assert!(same < 400, "{signatures}: another seed gives the same {same} bytes");
    }
}

/// A coin, as a judge remembers it.
struct Known {
    height: u32,
    coinbase: bool,
    value: Amount,
    script: Vec<u8>,
}

/// What a judge counts.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    transactions: u64,
    inputs: u64,
    outputs: u64,
    op_returns: u64,
    /// Inputs that spend a coin of the same block.
    same_block: u64,
    /// Coins spent, by the first opcode of their script.
    p2wpkh: u64,
    p2wsh: u64,
    p2tr: u64,
    p2pkh: u64,
    p2sh: u64,
    weight: u64,
    bytes: u64,
}

/// Takes a chain block by block.
struct Judge {
    params: Params,
    coins: HashMap<OutPoint, Known>,
    /// Of each block up to now.
    times: Vec<u32>,
    tip: BlockHash,
    scripts: bool,
    /// By height.
    counts: Vec<Counts>,
}

impl Judge {
    fn new(scripts: bool) -> Judge {
        let params = Params::new(Chain::Regtest);
        let tip = params.genesis_hash;
        Judge { params, coins: HashMap::new(), times: Vec::new(), tip, scripts, counts: Vec::new() }
    }

    /// Takes all records of block files.
    fn take_files(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        let mut tables = Tables::new();
        while let Some((head, after)) = rest.split_at_checked(8) {
            assert_eq!(head[..4], self.params.magic);
            let (record, after) = after.split_at(u32::from_le_bytes(head[4..].try_into().unwrap()) as usize);
            let block = tables.parse_block(record).unwrap();
            assert_eq!(block.bytes().len(), record.len(), "nothing behind the block");
            if self.times.is_empty() {
                assert_eq!(record, self.params.genesis, "the first record is the genesis block");
                self.times.push(block.header().time());
                self.counts.push(Counts::default());
            } else {
                self.take(&block);
            }
            rest = after;
        }
        assert!(rest.is_empty(), "{} bytes behind the last record", rest.len());
    }

    fn take(&mut self, block: &Block<'_>) {
        let height = self.times.len() as u32;
        let header = block.header();
        let mtp = median_time_past(self.times.iter().rev().take(11).copied());
        let bits = header.bits();
        let parent = Parent {
            height: Height::new(height - 1),
            time: self.times[height as usize - 1],
            bits,
            median_time_past: mtp,
            real_bits: None,
            cleanup: consensus::Cleanup::Off,
        };
        assert_eq!(header.prev(), self.tip);
        assert_eq!(bits, 0x207f_ffff);
        header::check(&self.params, &header, &parent, 1_700_000_000, |_| Ancestor { time: 0, bits }).unwrap();
        let (mut txids, mut wtxids, mut sigops) = (Vec::new(), Vec::new(), Vec::new());
        block.txids_into(&mut txids);
        block.wtxids_into(&txids, &mut wtxids);
        let (hash, mut scratch) = (header.hash(), Scratch::default());
        block::check(&self.params, block, &hash, &txids, &mut sigops, &mut scratch).unwrap();
        assert!(block::commitment(block).is_some(), "block {height} has a witness commitment");
        let context = Context { height: Height::new(height), median_time_past: mtp, cleanup: consensus::Cleanup::Off };
        block::check_context(&self.params, block, &context, &txids, &wtxids, &mut scratch).unwrap();
        self.spend(block, height, &hash, mtp, &txids);
        self.tip = hash;
        self.times.push(header.time());
    }

    fn spend(&mut self, block: &Block<'_>, height: u32, hash: &BlockHash, mtp: MedianTime, txids: &[Txid]) {
        let mut spend = BlockSpend::new(&self.params, Height::new(height), hash, mtp);
        let mut counts =
            Counts { weight: block.weight() as u64, bytes: block.bytes().len() as u64, ..Counts::default() };
        for (tx, txid) in block.transactions().zip(txids) {
            let spent: Vec<Known> = tx
                .inputs()
                .filter(|_| !tx.is_coinbase())
                .map(|input| self.coins.remove(&input.prevout()).expect("a coin is spent once, and after it is made"))
                .collect();
            let coin = |input: usize| {
                let known = &spent[input];
                Some(SpentCoin {
                    height: Height::new(known.height),
                    coinbase: known.coinbase,
                    value: known.value,
                    script: &known.script,
                })
            };
            spend.transaction(&tx, txid, transaction::legacy_sigops(&tx), coin, |_| MedianTime::ZERO).unwrap();
            if self.scripts && !tx.is_coinbase() {
                let outputs: Vec<SpentOutput<'_>> =
                    spent.iter().map(|known| SpentOutput { value: known.value, script: &known.script }).collect();
                let precomputed = Precomputed::new(tx, &outputs);
                let mut scratch = script::Scratch::new();
                for input in 0..outputs.len() {
                    script::verify(&precomputed, input, spend.flags(), &mut Immediate, &mut scratch)
                        .unwrap_or_else(|why| panic!("input {input} of {txid} in block {height}: {why:?}"));
                }
            }
            counts.add(&spent, height);
            for (vout, output) in tx.outputs().enumerate() {
                counts.outputs += 1;
                let script = output.script().to_vec();
                if is_unspendable(&script) {
                    counts.op_returns += u64::from(!tx.is_coinbase());
                    continue;
                }
                let known = Known { height, coinbase: tx.is_coinbase(), value: output.value(), script };
                let before = self.coins.insert(OutPoint { txid: *txid, vout: vout as u32 }, known);
                assert!(before.is_none(), "no txid comes twice");
            }
        }
        // Not a satoshi is lost either.
        let value_out: i64 = block.transaction(0).outputs().map(|output| output.value().0).sum();
        let totals = spend.finish(&block.transaction(0)).unwrap();
        assert_eq!(value_out, totals.fees.0 + consensus::spend::subsidy(&self.params, Height::new(height)).0);
        self.counts.push(counts);
    }
}

impl Counts {
    fn add(&mut self, spent: &[Known], height: u32) {
        self.transactions += 1;
        self.inputs += spent.len() as u64;
        self.same_block += spent.iter().filter(|known| known.height == height).count() as u64;
        for known in spent {
            *match known.script[0] {
                0x51 => &mut self.p2tr,
                0x76 => &mut self.p2pkh,
                0xa9 => &mut self.p2sh,
                _ if known.script.len() == 22 => &mut self.p2wpkh,
                _ => &mut self.p2wsh,
            } += 1;
        }
    }

    fn sum(counts: &[Counts], of: impl Fn(&Counts) -> u64) -> u64 {
        counts.iter().map(of).sum()
    }
}

#[test]
fn chain_is_valid_and_has_the_wanted_shape() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { utxos: 40_000, tail: 3, ..options(&directory, "chain", 12, Signatures::Fake) };
    let report = made(&options);
    let mut judge = Judge::new(false);
    judge.take_files(&bytes_of(&options.out));
    let all = &judge.counts;
    let (height, bestblock, txouts) = (all.len() as u32 - 1, judge.tip.to_string(), judge.coins.len() as u64);
    assert_eq!((report.height, &report.bestblock, report.txouts), (height, &bestblock, txouts));
    assert_eq!((report.height, report.blocks_full), (100 + 3 + 12 + 3, 12));
    assert_eq!(report.transactions, Counts::sum(all, |c| c.transactions));
    assert_eq!(report.inputs, Counts::sum(all, |c| c.inputs));
    assert_eq!(report.outputs, Counts::sum(all, |c| c.outputs));

    assert!(all[1..=100].iter().chain(&all[116..]).all(|c| (c.transactions, c.outputs) == (1, 2)), "empty where empty");
    let full = &all[104..116];
    assert!(full.iter().all(|c| c.weight > 3_850_000), "full is full: {full:?}");
    let inputs = Counts::sum(full, |c| c.inputs);
    let transactions = Counts::sum(full, |c| c.transactions);
    for (what, have, want, of) in [
        ("transactions a block", transactions, 3_780, 12),
        ("inputs a block", inputs, 7_360, 12),
        ("outputs a block", Counts::sum(full, |c| c.outputs), 9_850, 12),
        ("bytes a block", Counts::sum(full, |c| c.bytes), 1_520_000, 12),
        ("OP_RETURN per mille of transactions", 1_000 * Counts::sum(full, |c| c.op_returns), 380, transactions),
        ("same block per mille of inputs", 1_000 * Counts::sum(full, |c| c.same_block), 120, inputs),
        ("P2WPKH per mille of inputs", 1_000 * Counts::sum(full, |c| c.p2wpkh), 500, inputs),
        ("P2TR per mille of inputs", 1_000 * Counts::sum(full, |c| c.p2tr), 260, inputs),
        ("P2PKH per mille of inputs", 1_000 * Counts::sum(full, |c| c.p2pkh), 140, inputs),
        ("P2SH per mille of inputs", 1_000 * Counts::sum(full, |c| c.p2sh), 50, inputs),
        ("P2WSH per mille of inputs", 1_000 * Counts::sum(full, |c| c.p2wsh), 50, inputs),
    ] {
        let have = have / of;
        assert!(have.abs_diff(want) * 100 <= want * 8, "{what}: {have}, want {want}");
    }
}

/// Chains like those of other years are valid too; that of 2023 has every kind of input, with signatures that verify.
#[test]
fn chains_of_every_era_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    for (profile, signatures) in [
        (Profile::Mainnet2012, Signatures::Fake),
        (Profile::Mainnet2016, Signatures::Fake),
        (Profile::Mainnet2019, Signatures::Fake),
        (Profile::Mainnet2023, Signatures::Real),
    ] {
        let options = Options { profile, ..options(&directory, profile.name(), 1, signatures) };
        let report = made(&options);
        let mut judge = Judge::new(signatures == Signatures::Real);
        judge.take_files(&bytes_of(&options.out));
        let full = judge.counts.last().unwrap();
        assert_eq!(judge.tip.to_string(), report.bestblock, "{profile}");
        assert_eq!(full.p2wpkh > 0, profile >= Profile::Mainnet2019, "{profile}: {full:?}");
        assert!(full.p2pkh > 500 && (full.p2sh > 0) == (profile > Profile::Mainnet2012), "{profile}: {full:?}");
    }
}

#[test]
fn real_signatures_verify_and_fake_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let real = options(&directory, "real", 1, Signatures::Real);
    made(&real);
    Judge::new(true).take_files(&bytes_of(&real.out));
    let fake = options(&directory, "fake", 1, Signatures::Fake);
    made(&fake);
    let bytes = bytes_of(&fake.out);
    Judge::new(false).take_files(&bytes);
    assert!(std::panic::catch_unwind(|| Judge::new(true).take_files(&bytes)).is_err(), "a fake signature verifies");
}

/// Blocks that a chain of some hundred thousand coins plans.
fn planned(coins: u64, full: u32) -> (Vec<BlockPlan>, Shape, super::plan::Totals) {
    let shape = Shape::new(coins, full, 0).unwrap();
    let keys = Keys::new(1, 8, 1);
    let mut planner = Planner::new(Profile::Mainnet2025.model(), Params::new(Chain::Regtest), shape, coins, &keys, 5);
    (planner.by_ref().collect(), shape, planner.totals())
}

#[test]
fn spent_coins_follow_the_age_distribution() {
    let (blocks, shape, totals) = planned(600_000, 130);
    assert_eq!(blocks.len(), shape.height().to_usize());
    let height_of = |coin: &Coin| blocks.partition_point(|block| block.first_tx <= coin.tx);
    let spent = blocks[blocks.len() - 15..].iter().flat_map(|block| {
        let height = block.height.to_usize();
        block.inputs.iter().map(move |coin| height - height_of(coin))
    });
    let ages: Vec<usize> = spent.collect();
    for (age, want) in [(0, 120), (1, 211), (10, 371), (100, 600)] {
        let have = ages.iter().filter(|&&have| have <= age).count() * 1_000 / ages.len();
        assert!(have.abs_diff(want) < 20, "{have} of a thousand at most {age} blocks old, want {want}");
    }
    let growth = (totals.txouts - 600_000) / 130;
    assert!((700..1_800).contains(&growth), "{growth} coins more with each full block");
}

#[test]
fn subsidies_cover_any_number_of_coins() {
    for coins in [super::UTXOS_MIN, 17_700, 17_701, 3_000_000] {
        let (blocks, shape, totals) = planned(coins, 1);
        assert_eq!(blocks.len(), shape.height().to_usize());
        let first_full = &blocks[shape.fan_out as usize];
        assert!(first_full.txs.len() > 3_000, "{coins} coins: {} transactions", first_full.txs.len());
        assert!(totals.txouts >= coins, "{coins} coins: {} at the end", totals.txouts);
    }
}

/// What is spent of the first phase's coins, made again from their draws, is what its blocks made.
#[test]
fn coins_that_are_spent_are_those_that_were_made() {
    // More blocks than are kept as they are; money is short in the last ones, and the last is not full.
    let (blocks, shape, _) = planned(17_700 * 130 + 30, 3);
    let mut made = std::collections::HashMap::new();
    let (mut spent, mut of_splits) = (0, 0);
    for block in &blocks {
        for coin in &block.inputs {
            if let Some(out) = made.remove(&(coin.tx, coin.vout)) {
                assert_eq!(out, coin.out, "{coin:?}");
                spent += 1;
                of_splits += u32::from(block.height.to_u32() > shape.fan_out);
            }
        }
        let mut from = 0;
        for (index, tx) in block.txs.iter().enumerate() {
            let outputs = &block.outputs[from..tx.outputs_end as usize];
            let number = block.first_tx + 1 + index as u32;
            made.extend((0..).zip(outputs).map(|(vout, out)| ((number, vout), *out)));
            from = tx.outputs_end as usize;
        }
    }
    assert!(spent > 10_000 && of_splits > 5_000, "{spent} and {of_splits}");
}

#[test]
fn bad_options_are_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let good = options(&directory, "taken", 0, Signatures::Fake);
    made(&good);
    fs::write(directory.path().join("file"), "").unwrap();
    for (row, options, want) in [
        ("no coins", Options { utxos: 999, ..good.clone() }, "999 coins: give from 1000 to"),
        ("too many coins", Options { utxos: u64::MAX, ..good.clone() }, "coins: give from 1000 to 200000000"),
        ("too high", Options { tail: 1_400_000, ..good.clone() }, "height 1400101, the limit is 1400000"),
        ("beyond 32 bits", Options { blocks: u32::MAX, ..good.clone() }, "more than 1400000 blocks"),
        ("taken", good.clone(), "blk00000.dat is there already: give an empty directory"),
        ("no directory", Options { out: directory.path().join("file"), ..good.clone() }, "cannot make the directory"),
    ] {
        let why = generate(&options, |_| ()).unwrap_err();
        assert!(why.to_string().contains(want), "{row}: {why}");
        assert_eq!(matches!(why, Error::Io { .. }), row == "no directory", "{row}");
    }
}

#[test]
fn progress_counts_up_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { tail: 2, ..options(&directory, "progress", 2, Signatures::Fake) };
    let mut seen = Vec::new();
    let report = generate(&options, |progress| seen.push(progress)).unwrap();
    assert!(seen.iter().enumerate().all(|(i, progress)| progress.blocks as usize == i + 1));
    let last = seen.last().unwrap();
    assert_eq!((last.blocks, last.blocks_total, last.bytes), (report.height, report.height, report.bytes));
    assert_eq!((seen[50].seconds_left, last.seconds_left.map(|left| left.abs() < 1e-6)), (None, Some(true)));
}
