//! Joins all records of an audit to one verdict. The ranges must be consecutive from the genesis block to the block of
//! the UTXO set, and created less spent coins must equal the set.

use crate::locate;
use crate::record::{BlocksRecord, CoinsRecord, Record, blocks_text};
use crate::sums::Sums;
use consensus::{Chain, Params};
use kernels::sha256::sha256;
use primitives::muhash::{MuHash, NUMBER_BYTES};
use primitives::{BlockHash, Hash256, U256, hex};
use std::collections::BTreeMap;
use std::fmt;

/// The verdict of an audit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// The network.
    pub chain: String,
    /// Height of the last block.
    pub height: u32,
    /// Its hash.
    pub best: String,
    /// Work of the chain, in hexadecimal.
    pub work: String,
    /// Number of block ranges, and of parts of the set.
    pub parts: (usize, usize),
    /// Transactions, coinbases included.
    pub transactions: u64,
    /// Inputs, without those of coinbases.
    pub inputs: u64,
    /// Outputs.
    pub outputs: u64,
    /// Fees, in satoshi.
    pub fees: u64,
    /// Number of coins in the set.
    pub coins: u64,
    /// Their sum in satoshi.
    pub amount: u64,
    /// Sum over coins of 50 and the length of the script.
    pub bogosize: u64,
    /// Core's `muhash` of the set, if all parts of the set have it.
    pub muhash: Option<String>,
    /// Core's `hash_serialized_3`, if the set's record has it.
    pub hash_serialized_3: Option<String>,
}

/// Why there is no verdict, or a negative one, and the ranges concerned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason in words, including the ranges.
    pub why: String,
    /// First and last height of each.
    pub ranges: Vec<(u32, u32)>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

fn refusal(why: impl Into<String>, ranges: &[(u32, u32)]) -> Refusal {
    Refusal { why: why.into(), ranges: ranges.to_vec() }
}

/// Joins the records of one audit, given as name (for messages) and text, in any order.
///
/// # Errors
///
/// An unreadable record, records of different audits, missing or duplicate blocks, or sums that do not match.
pub fn join(records: &[(String, String)]) -> Result<Verdict, Refusal> {
    let mut read = Vec::new();
    for (name, text) in records {
        read.push((name, Record::from_text(text).map_err(|why| refusal(format!("{name}: {why}"), &[]))?));
    }
    same_audit(&read)?;
    let mut blocks = Vec::new();
    let mut coins = Vec::new();
    for (_, record) in &read {
        match record {
            Record::Blocks(record) => blocks.push(record),
            Record::Coins(record) => coins.push(record),
        }
    }
    blocks.sort_by_key(|record| (record.from, record.to));
    coins.sort_by_key(|record| (record.keys_from, record.keys_to));
    whole_set(&coins)?;
    whole_chain(&blocks, coins[0])?;
    one_context(&blocks)?;
    balanced(&blocks, &coins)?;
    Ok(verdict(&blocks, &coins))
}

fn range_of(record: &Record) -> Option<(u32, u32)> {
    match record {
        Record::Blocks(blocks) => Some((blocks.from, blocks.to)),
        Record::Coins(_) => None,
    }
}

/// Checks that all records have the same salt, network and rules as the majority.
fn same_audit(records: &[(&String, Record)]) -> Result<(), Refusal> {
    let mut votes: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (_, record) in records {
        *votes.entry(record.audit()).or_default() += 1;
    }
    let Some((most, _)) = votes.iter().max_by_key(|(_, votes)| **votes) else {
        return Err(refusal("there is no record to join", &[]));
    };
    let others: Vec<_> = records.iter().filter(|(_, record)| record.audit() != *most).collect();
    if others.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = others.iter().map(|(name, record)| format!("{} ({name})", record.what())).collect();
    let ranges: Vec<_> = others.iter().filter_map(|(_, record)| range_of(record)).collect();
    let why = format!("of another audit than the other records (another salt, network or rules): {}", named.join(", "));
    Err(refusal(why, &ranges))
}

/// Checks that the parts of the set have every key once, and the same best block.
fn whole_set(coins: &[&CoinsRecord]) -> Result<(), Refusal> {
    let advice = "make it with ffwd audit coins";
    let Some(first) = coins.first() else {
        return Err(refusal(format!("there is no record of the coins: {advice}"), &[]));
    };
    let mut next = 0u32;
    for record in coins {
        let from = u32::from(record.keys_from);
        if from > next {
            return Err(refusal(format!("the coins {next:04x} to {:04x} are missing: {advice}", from - 1), &[]));
        }
        if from < next {
            return Err(refusal(format!("the coins from {from:04x} on are in two records"), &[]));
        }
        next = u32::from(record.keys_to) + 1;
        if (record.height, &record.best) != (first.height, &first.best) {
            let why = format!("the UTXO set is at two blocks: {} and {}", first.best, record.best);
            return Err(refusal(why, &[]));
        }
    }
    if next <= u32::from(u16::MAX) {
        return Err(refusal(format!("the coins {next:04x} to ffff are missing: {advice}"), &[]));
    }
    Ok(())
}

/// Checks that the ranges are consecutive from the genesis block to that of the set.
fn whole_chain(blocks: &[&BlocksRecord], coins: &CoinsRecord) -> Result<(), Refusal> {
    let missing = |from: u32, to: u32| Err(refusal(format!("{} are missing", blocks_text(from, to)), &[(from, to)]));
    let mut next: u32 = 0;
    let mut last: Option<&BlocksRecord> = None;
    for &record in blocks {
        let here = blocks_text(record.from, record.to);
        let range = (record.from, record.to);
        if record.from > next {
            return missing(next, record.from - 1);
        }
        if let Some(last) = last {
            let before = (last.from, last.to);
            if before == range {
                return Err(refusal(format!("{here} are in two records"), &[range]));
            }
            if record.from < next {
                let why = format!("{} and {here} overlap", blocks_text(last.from, last.to));
                return Err(refusal(why, &[before, range]));
            }
            if record.prev != last.last {
                let why = format!(
                    "{here} do not build on {}: their parent is {}, not {}",
                    blocks_text(last.from, last.to),
                    record.prev,
                    last.last
                );
                return Err(refusal(why, &[before, range]));
            }
        } else if let Some(genesis) = genesis(&record.chain).filter(|genesis| genesis.to_string() != record.first) {
            return Err(refusal(format!("{here} begin with {}, not with {genesis}", record.first), &[range]));
        }
        let Some(above) = record.to.checked_add(1) else {
            return Err(refusal(format!("{here}: no chain is so high"), &[range]));
        };
        (next, last) = (above, Some(record));
    }
    if next <= coins.height {
        return missing(next, coins.height);
    }
    let last = last.expect("blocks reach the height of the coins");
    if (last.to, &last.last) != (coins.height, &coins.best) {
        let why = format!(
            "{} end with block {}, and the UTXO set is at block {} at height {}",
            blocks_text(last.from, last.to),
            last.last,
            coins.best,
            coins.height
        );
        return Err(refusal(why, &[(last.from, last.to)]));
    }
    Ok(())
}

/// Checks that each range was validated with the times and nBits of the headers of the lower ranges, and with the
/// BIP34 block of the range that contains that height. The ranges are consecutive.
fn one_context(blocks: &[&BlocksRecord]) -> Result<(), Refusal> {
    let mut below: Option<&BlocksRecord> = None;
    let nothing = hex::encode(&sha256(&[]));
    for &record in blocks {
        let here = (record.from, record.to);
        let (want, before) = match below {
            Some(before) => (&before.through, blocks_text(before.from, before.to)),
            None => (&nothing, "the genesis block".to_owned()),
        };
        if record.below != *want {
            let why = format!(
                "{} were judged by other times or nBits of the blocks below than {before} have: their plan was of another chain, or damaged",
                blocks_text(here.0, here.1)
            );
            let ranges = below.map(|before| (before.from, before.to)).into_iter().chain([here]);
            return Err(refusal(why, &ranges.collect::<Vec<_>>()));
        }
        below = Some(record);
    }
    let Some(taken) = blocks.iter().find(|record| record.bip34) else { return Ok(()) };
    let height = Chain::from_name(&taken.chain).map(|chain| Params::new(chain).bip34_height.to_u32());
    let at = height.and_then(|height| blocks.iter().find(|record| (record.from..=record.to).contains(&height)));
    if at.is_some_and(|at| at.bip34) {
        return Ok(());
    }
    let range = (taken.from, taken.to);
    let why = format!(
        "{} assumed that the chain has the BIP34 block that Core knows, but it does not: their plan was of another chain",
        blocks_text(range.0, range.1)
    );
    Err(refusal(why, &[range]))
}

/// The genesis block of a network; `None` if options can change it, or if the network is unknown.
fn genesis(chain: &str) -> Option<BlockHash> {
    Chain::from_name(chain).map(|chain| Params::new(chain).genesis_hash)
}

/// Checks that created less spent coins equal the set.
fn balanced(blocks: &[&BlocksRecord], coins: &[&CoinsRecord]) -> Result<(), Refusal> {
    const CHECKED: &str = "sums were checked when the record was read";
    let made = blocks.iter().fold(Sums::default(), |sum, record| sum.plus(&record.made_sums().expect(CHECKED)));
    let left = coins.iter().fold(Sums::default(), |sum, record| sum.plus(&record.sums().expect(CHECKED)));
    let difference = made.minus(&left);
    if difference.is_zero() {
        return Ok(());
    }
    let (coin_gap, amount_gap) = gaps(blocks, coins);
    let gap = match (coin_gap, amount_gap) {
        (0, 0) => "as many coins, worth as much, but not the same".to_owned(),
        (coins, amount) => format!("made less spent less left: {coins} coins, {amount} satoshi"),
    };
    let height = coins[0].height;
    let Some(heights) = locate::heights(&difference, height) else {
        let why = format!(
            "coins of more than {} blocks among {} do not add up ({gap}): the undo data or the UTXO set is not that of these blocks",
            locate::HEIGHTS_MAX,
            blocks_text(0, height)
        );
        return Err(refusal(why, &[(0, height)]));
    };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut named = Vec::new();
    for height in heights {
        let record =
            blocks.iter().find(|record| (record.from..=record.to).contains(&height)).expect("ranges have no gap");
        named.push(format!("block {height} ({})", blocks_text(record.from, record.to)));
        if !ranges.contains(&(record.from, record.to)) {
            ranges.push((record.from, record.to));
        }
    }
    let why = format!(
        "the coins made by {} do not add up ({gap}): undo data above, or the UTXO set, has others than these blocks made",
        named.join(", ")
    );
    Err(refusal(why, &ranges))
}

/// Number and amount of coins created, less those spent, less those in the set.
fn gaps(blocks: &[&BlocksRecord], coins: &[&CoinsRecord]) -> (i128, i128) {
    let of = |made: u64, spent: u64| i128::from(made) - i128::from(spent);
    let coin_gap: i128 = blocks.iter().map(|record| of(record.made_coins, record.spent_coins)).sum();
    let amount_gap: i128 = blocks.iter().map(|record| of(record.made_amount, record.spent_amount)).sum();
    let left = coins.iter().fold((0, 0), |sum: (i128, i128), record| {
        (sum.0 + i128::from(record.coins), sum.1 + i128::from(record.amount))
    });
    (coin_gap - left.0, amount_gap - left.1)
}

fn verdict(blocks: &[&BlocksRecord], coins: &[&CoinsRecord]) -> Verdict {
    let sum = |of: fn(&BlocksRecord) -> u64| blocks.iter().fold(0u64, |sum, record| sum.saturating_add(of(record)));
    let left = |of: fn(&CoinsRecord) -> u64| coins.iter().fold(0u64, |sum, record| sum.saturating_add(of(record)));
    let work = blocks.iter().filter_map(|record| U256::from_hex(&record.work));
    let work = work.fold(U256::ZERO, |sum, work| sum.checked_add(work).unwrap_or(U256::MAX));
    let work = hex::encode(&work.to_le_bytes().into_iter().rev().collect::<Vec<u8>>());
    Verdict {
        chain: coins[0].chain.clone(),
        height: coins[0].height,
        best: coins[0].best.clone(),
        work,
        parts: (blocks.len(), coins.len()),
        transactions: sum(|record| record.transactions),
        inputs: sum(|record| record.inputs),
        outputs: sum(|record| record.outputs),
        fees: sum(|record| record.fees),
        coins: left(|record| record.coins),
        amount: left(|record| record.amount),
        bogosize: left(|record| record.bogosize),
        muhash: muhash(coins),
        hash_serialized_3: if coins.len() == 1 { coins[0].hash_serialized_3.clone() } else { None },
    }
}

/// The hash of the product of all parts; `None` if a part lacks it.
fn muhash(coins: &[&CoinsRecord]) -> Option<String> {
    let mut whole = MuHash::new();
    for record in coins {
        let bytes: [u8; NUMBER_BYTES] = hex::decode(record.muhash_product.as_ref()?)?.try_into().ok()?;
        whole.combine(&MuHash::from_bytes(&bytes));
    }
    Some(Hash256(whole.finalize()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Number;
    use crate::record::tests::{blocks, coins};
    use crate::record::weighted;

    /// Four ranges of regtest and the set, in which nothing was made.
    fn good() -> Vec<Record> {
        let genesis = Params::new(Chain::Regtest).genesis_hash.to_string();
        let mut first = blocks(0, 9, "00", "11");
        first.first = genesis;
        let mut all = vec![first, blocks(10, 19, "11", "22"), blocks(20, 29, "22", "33"), blocks(30, 39, "33", "44")];
        for record in &mut all {
            (record.made_coins, record.made_amount) = (record.spent_coins, record.spent_amount);
        }
        let mut left = coins(39, "44");
        (left.coins, left.amount) = (0, 0);
        let records = all.into_iter().map(Record::Blocks);
        records.chain([Record::Coins(left)]).collect()
    }

    fn joined(records: &[Record]) -> Result<Verdict, Refusal> {
        let texts = records.iter().enumerate().map(|(at, record)| (format!("file{at}"), record.to_text()));
        join(&texts.rev().collect::<Vec<_>>())
    }

    fn blocks_of(record: &mut Record) -> &mut BlocksRecord {
        let Record::Blocks(blocks) = record else { panic!("a range") };
        blocks
    }

    fn coins_of(record: &mut Record) -> &mut CoinsRecord {
        let Record::Coins(coins) = record else { panic!("the coins") };
        coins
    }

    #[test]
    fn a_good_audit_joins_in_any_order() {
        let verdict = joined(&good()).unwrap();
        assert_eq!((verdict.height, verdict.best, verdict.parts), (39, "44".repeat(32), (4, 1)));
        assert_eq!((verdict.work, verdict.transactions), (format!("{}8", "0".repeat(63)), 12));
    }

    /// Each row breaks one thing, and the range is named.
    #[test]
    fn what_does_not_fit_is_named() {
        type Break = fn(&mut Vec<Record>);
        type Row = (&'static str, Break, &'static str, &'static [(u32, u32)]);
        let rows: [Row; 20] = [
            ("missing", |all| drop(all.remove(1)), "blocks 10 to 19 are missing", &[(10, 19)]),
            ("first missing", |all| drop(all.remove(0)), "blocks 0 to 9 are missing", &[(0, 9)]),
            ("last missing", |all| drop(all.remove(3)), "blocks 30 to 39 are missing", &[(30, 39)]),
            ("twice", |all| all.push(all[1].clone()), "blocks 10 to 19 are in two records", &[(10, 19)]),
            (
                "overlap",
                |all| blocks_of(&mut all[1]).to = 25,
                "blocks 10 to 25 and blocks 20 to 29 overlap",
                &[(10, 25), (20, 29)],
            ),
            ("another salt", |all| blocks_of(&mut all[2]).audit = "a2".into(), "blocks 20 to 29 (file2)", &[(20, 29)]),
            ("other rules", |all| blocks_of(&mut all[2]).rules = "r2".into(), "blocks 20 to 29 (file2)", &[(20, 29)]),
            ("another chain", |all| coins_of(&mut all[4]).chain = "main".into(), "coins 0000 to ffff (file4)", &[]),
            (
                "another parent",
                |all| blocks_of(&mut all[2]).prev = "55".repeat(32),
                "do not build on",
                &[(10, 19), (20, 29)],
            ),
            (
                "another genesis",
                |all| blocks_of(&mut all[0]).first = "55".repeat(32),
                "blocks 0 to 9 begin with",
                &[(0, 9)],
            ),
            (
                "other times below",
                |all| blocks_of(&mut all[2]).below = "55".repeat(32),
                "judged by other times",
                &[(10, 19), (20, 29)],
            ),
            (
                "blocks below the genesis block",
                |all| blocks_of(&mut all[0]).below = "55".repeat(32),
                "judged by other times",
                &[(0, 9)],
            ),
            (
                "a block of BIP34 that is not there",
                |all| blocks_of(&mut all[3]).bip34 = true,
                "assumed that the chain has the BIP34 block",
                &[(30, 39)],
            ),
            (
                "a block of BIP34 that is another",
                |all| {
                    // Of testnet3, whose block of BIP34 is at height 21,111.
                    let genesis = Params::new(Chain::Test).genesis_hash.to_string();
                    for record in all.iter_mut() {
                        match record {
                            Record::Blocks(blocks) => blocks.chain = "test".into(),
                            Record::Coins(coins) => (coins.chain, coins.height) = ("test".into(), 30_000),
                        }
                    }
                    (blocks_of(&mut all[0]).first, blocks_of(&mut all[3]).to) = (genesis, 30_000);
                    blocks_of(&mut all[1]).bip34 = true;
                },
                "assumed that the chain has the BIP34 block",
                &[(10, 19)],
            ),
            ("no coins", |all| drop(all.pop()), "no record of the coins", &[]),
            ("half of the coins", |all| coins_of(&mut all[4]).keys_to = 0x7fff, "coins 8000 to ffff are missing", &[]),
            ("the other half", |all| coins_of(&mut all[4]).keys_from = 2, "coins 0000 to 0001 are missing", &[]),
            ("coins twice", |all| all.push(all[4].clone()), "from 0000 on are in two records", &[]),
            (
                "coins of another block",
                |all| coins_of(&mut all[4]).best = "55".repeat(32),
                "blocks 30 to 39 end with",
                &[(30, 39)],
            ),
            (
                "coins of a lower block",
                |all| coins_of(&mut all[4]).height = 35,
                "blocks 30 to 39 end with",
                &[(30, 39)],
            ),
        ];
        for (row, broken, want, ranges) in rows {
            let mut all = good();
            broken(&mut all);
            let refusal = joined(&all).unwrap_err();
            assert!(refusal.why.contains(want), "{row}: {refusal}");
            assert_eq!(refusal.ranges, ranges, "{row}");
        }
        let mut texts: Vec<_> = good().iter().map(|record| ("a".to_owned(), record.to_text())).collect();
        texts[2] = ("short".to_owned(), texts[2].1[..100].to_owned());
        assert!(join(&texts).unwrap_err().why.starts_with("short: "));
        assert_eq!(join(&[]).unwrap_err().why, "there is no record to join");
    }

    fn number(n: u64) -> Number {
        Number::from_u64(n).inverse()
    }

    /// A coin that is spent, made or left too much, by height.
    #[test]
    fn coins_that_do_not_add_up_name_the_range_that_made_them() {
        for (heights, want) in [
            (&[12][..], &[(10, 19)][..]),
            (&[0], &[(0, 9)]),
            (&[5, 7], &[(0, 9)]),
            (&[5, 31], &[(0, 9), (30, 39)]),
            (&[1, 11, 21, 31], &[(0, 9), (10, 19), (20, 29), (30, 39)]),
            (&[1, 2, 3, 4, 5, 16, 17, 18], &[(0, 9), (10, 19)]),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[(0, 39)]),
        ] {
            let mut sums = Sums::default();
            heights.iter().for_each(|height| sums.add(number(u64::from(*height) + 7), *height));
            // In the set, or as made and never spent: both are found.
            let mut all = good();
            let left = coins_of(&mut all[4]);
            (left.sum, left.weighted, left.coins) = (sums.0[0].to_hex(), weighted(&sums), 1);
            let refusal = joined(&all).unwrap_err();
            assert_eq!(refusal.ranges, want, "{refusal}");
            assert!(refusal.why.contains("-1 coins"), "{refusal}");
            let mut all = good();
            let range = blocks_of(&mut all[3]);
            (range.made, range.weighted) = (sums.0[0].to_hex(), weighted(&sums));
            assert_eq!(joined(&all).unwrap_err().ranges, want);
            // What is made and left is good.
            let left = coins_of(&mut all[4]);
            (left.sum, left.weighted) = (sums.0[0].to_hex(), weighted(&sums));
            joined(&all).unwrap();
        }
    }

    /// A ledger of eight blocks in four ranges, summed as parts sum it: what is forged names a range of the coins' heights.
    #[test]
    fn forged_ledgers_do_not_balance() {
        use crate::sums::{Adder, Salt, Side};
        use primitives::{Amount, Height, OutPoint, Txid};
        type Coin = (u8, u32, i64);
        type Forge = fn(&mut Vec<(usize, Coin)>, &mut Vec<Coin>);
        let made: Vec<(usize, Coin)> =
            (0..40).map(|n: u8| (usize::from(n) / 10, (n, u32::from(n), 50 + i64::from(n)))).collect();
        // Half of each range is spent in the next ones; the rest is left.
        let spent: Vec<(usize, Coin)> = made
            .iter()
            .filter(|(_, coin)| coin.0 % 2 == 0 && coin.0 < 30)
            .map(|(range, coin)| (range + 1, *coin))
            .collect();
        let left: Vec<Coin> =
            made.iter().map(|(_, coin)| *coin).filter(|coin| spent.iter().all(|(_, gone)| gone != coin)).collect();
        type Row = (&'static str, Forge, &'static [(u32, u32)]);
        let rows: [Row; 9] = [
            ("good", |_, _| {}, &[]),
            ("an amount", |spent, _| spent[0].1.2 += 1, &[(0, 9)]),
            ("a height", |spent, _| spent[6].1.1 -= 3, &[(0, 9), (10, 19)]),
            (
                "heights swapped between ranges",
                |spent, _| {
                    let (a, b) = (spent[1].1.1, spent[7].1.1);
                    (spent[1].1.1, spent[7].1.1) = (b, a);
                },
                &[(0, 9), (10, 19)],
            ),
            ("spent twice, in two ranges", |spent, _| spent.push((3, spent[0].1)), &[(0, 9)]),
            (
                "spent twice, not left",
                |spent, left| {
                    spent.push((3, spent[0].1));
                    left.remove(0);
                },
                &[(0, 9)],
            ),
            ("never spent", |spent, _| spent.truncate(14), &[(20, 29)]),
            ("one coin more", |_, left| left.push((99, 25, 7)), &[(20, 29)]),
            ("one coin less", |_, left| left.truncate(left.len() - 1), &[(30, 39)]),
        ];
        for (row, forge, want) in rows {
            let (mut spent, mut left) = (spent.clone(), left.clone());
            forge(&mut spent, &mut left);
            let salt = Salt::from_hex(&"07".repeat(32)).unwrap();
            let add = |adder: &mut Adder, side, (name, height, value): Coin| {
                let outpoint = OutPoint { txid: Txid::from_bytes([name; 32]), vout: 0 };
                adder.add(side, &outpoint, Height::new(height), false, Amount(value), &[0x51]);
            };
            let mut all = good();
            for (range, record) in all[..4].iter_mut().enumerate() {
                let mut adder = Adder::new(&salt, kernels::Kernels::AUTO);
                made.iter().filter(|one| one.0 == range).for_each(|one| add(&mut adder, Side::Made, one.1));
                spent.iter().filter(|one| one.0 == range).for_each(|one| add(&mut adder, Side::Spent, one.1));
                let (made, spent) = adder.finish();
                let record = blocks_of(record);
                (record.made, record.spent) = (made.0[0].to_hex(), spent.0[0].to_hex());
                record.weighted = weighted(&made.minus(&spent));
            }
            let mut adder = Adder::new(&salt, kernels::Kernels::AUTO);
            left.iter().for_each(|coin| add(&mut adder, Side::Made, *coin));
            let (sums, _) = adder.finish();
            let record = coins_of(&mut all[4]);
            (record.sum, record.weighted) = (sums.0[0].to_hex(), weighted(&sums));
            let found = joined(&all).err().map(|refusal| refusal.ranges).unwrap_or_default();
            assert_eq!(found, want, "{row}");
        }
    }

    #[test]
    fn muhash_of_parts_is_that_of_the_whole() {
        let (mut whole, mut low, mut high) = (MuHash::new(), MuHash::new(), MuHash::new());
        for n in 0..9u8 {
            whole.insert(&[n]);
            if n < 4 { low.insert(&[n]) } else { high.insert(&[n]) }
        }
        let mut all = good();
        let mut second = all[4].clone();
        (coins_of(&mut all[4]).keys_to, coins_of(&mut second).keys_from) = (99, 100);
        coins_of(&mut all[4]).muhash_product = Some(hex::encode(&low.to_bytes()));
        coins_of(&mut second).muhash_product = Some(hex::encode(&high.to_bytes()));
        all.push(second);
        let want = Hash256(whole.finalize()).to_string();
        assert_eq!(joined(&all).unwrap().muhash, Some(want));
        coins_of(&mut all[5]).muhash_product = None;
        assert_eq!(joined(&all).unwrap().muhash, None);
    }
}
