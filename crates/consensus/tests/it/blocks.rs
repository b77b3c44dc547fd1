//! Real blocks out of the middle of their chains: every rule for which the data gives the context.
//!
//! What it does not give, and so is not judged here: the block before (required bits, times), the median time past (its
//! least possible value is used: see `MEDIAN_TIME_PAST_LEAST`), heights of the spent coins but for three blocks, and the
//! spent coins themselves of eight.

use consensus::block::{self, Context};
use consensus::header::{check_proof_of_work, check_version};
use consensus::spend::Totals;
use consensus::transaction::is_final;
use consensus::{BlockSpend, Chain, Params, Rule, SpentCoin, bip30};
use primitives::{Amount, BlockHash, Height, MedianTime, OutPoint, Reader, Tables, Txid, Wtxid};
use std::collections::HashMap;
use std::fs::read;
use std::path::Path;

/// No median time past is below the genesis block's time, and a locktime below it is past.
const MEDIAN_TIME_PAST_LEAST: u32 = 1_231_006_505;

/// One row a block: file name, fees and coinbase as the MANIFEST has them, cost of the signature operations as counted by
/// an independent program over block and spent outputs.
const WITH_SPENT: [(&str, i64, i64, u64); 14] = [
    ("main_24835_6d160a9dacc0", 0, 5_000_000_000, 8),
    ("main_57043_83b0aaac1fd8", 99_000_000, 5_099_000_000, 8),
    ("main_91722_f3f2574dd08e", 0, 5_000_000_000, 4),
    ("main_150013_b6f2166d577c", 2_455_419, 5_002_455_419, 352),
    ("main_255018_52f705dd8d96", 4_441_000, 2_504_441_000, 1220),
    ("main_277647_de6eb1e052a8", 4_737_355, 2_504_737_355, 3076),
    ("main_300025_58a9022cc78c", 7_773_345, 2_507_773_345, 5284),
    ("main_367891_872592b29970", 14_001_930, 2_514_001_930, 3408),
    ("main_403200_73e9ac3b6d01", 7_962_867, 2_507_962_867, 5644),
    ("main_757739_abad1cabd0ea", 107_042, 625_107_042, 278),
    ("main_866342_b101d3c8f1f1", 5_026_183, 317_526_183, 5666),
    ("test3_928816_a5ff0141a378", 34_138_981, 346_638_981, 9109),
    ("test3_928828_f9c4b9cf76c2", 8_300_088, 320_800_088, 23_236),
    ("test3_928831_698dc8022c0a", 36_706_665, 349_206_665, 10_035),
];

/// Blocks without spent outputs: legacy signature operations, counted by the same program.
const ALONE: [(&str, u64); 9] = [
    ("main_91812_83d6f9306f2f", 2),
    ("main_91842_c8e300e0caec", 1),
    ("main_91880_084ccb7cd721", 3),
    ("main_413567", 2841),
    ("main_481823_349362811b80", 3103),
    ("main_481824_1902167f9893", 3409),
    ("main_709632_4ec0a94d8244", 1611),
    ("main_800000_a8d72728a054", 684),
    ("main_880000_82ec5cca2880", 196),
];

struct Loaded {
    params: Params,
    height: Height,
    bytes: Vec<u8>,
}

fn load(directory: &Path, name: &str) -> Loaded {
    let mut parts = name.split('_');
    let chain = if parts.next() == Some("main") { Chain::Main } else { Chain::Test };
    let height = parts.next().unwrap().parse().unwrap();
    let bytes = read(directory.join(format!("blocks/{name}.blk"))).unwrap();
    Loaded { params: Params::new(chain), height, bytes }
}

/// Header rules that need no parent, [`block::check`] and [`block::check_context`]; returns the legacy counts.
fn judge(name: &str, loaded: &Loaded) -> Vec<u32> {
    let Loaded { params, height, bytes } = loaded;
    let mut tables = Tables::new();
    let block = tables.parse_block(bytes).unwrap();
    let (header, hash) = (block.header(), block.header().hash());
    if let Some(end) = name.split('_').nth(2) {
        assert!(hash.to_string().ends_with(end), "{name}");
    }
    check_proof_of_work(params, &hash, header.bits()).unwrap();
    check_version(params, header.version(), *height).unwrap();
    let (mut txids, mut wtxids, mut sigops) = (Vec::new(), Vec::new(), Vec::new());
    block.txids_into(&mut txids);
    block.wtxids_into(&txids, &mut wtxids);
    let mut scratch = block::Scratch::default();
    block::check(params, &block, &hash, &txids, &mut sigops, &mut scratch).unwrap_or_else(|e| panic!("{name}: {e}"));
    let context = Context {
        height: *height,
        median_time_past: MedianTime::new(MEDIAN_TIME_PAST_LEAST),
        cleanup: consensus::Cleanup::Off,
    };
    block::check_context(params, &block, &context, &txids, &wtxids, &mut scratch)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let segwit = *height >= params.segwit_height;
    assert_eq!(block::mutation(&block, segwit, &txids, &wtxids, &mut scratch), None, "{name}");
    if block::needs_wtxids(params, &block, *height) {
        // One bit of a witness: only the commitment can see it.
        let last = wtxids.len() - 1;
        let mut other = wtxids[last].to_bytes();
        other[0] ^= 1;
        wtxids[last] = Wtxid::from_bytes(other);
        let got = block::check_context(params, &block, &context, &txids, &wtxids, &mut scratch);
        assert_eq!(got.unwrap_err().rule, Rule::BadWitnessMerkleMatch, "{name}");
    }
    sigops
}

#[test]
fn real_blocks_pass_alone() {
    let Some(directory) = testkit::data::dir() else { return };
    for (name, want) in ALONE {
        let sigops = judge(name, &load(&directory, name));
        assert_eq!(sigops.iter().map(|&count| u64::from(count)).sum::<u64>(), want, "{name}");
    }
}

/// Value and script of each spent coin, in the order of the inputs.
fn spent_outputs(bytes: &[u8]) -> Vec<(Amount, &[u8])> {
    let (mut reader, mut outputs) = (Reader::new(bytes), Vec::new());
    while reader.remaining() != 0 {
        let value = Amount(reader.u64().unwrap().cast_signed());
        let script_bytes = reader.compact_size().unwrap();
        outputs.push((value, reader.take(script_bytes).unwrap()));
    }
    outputs
}

/// Height and coinbase flag of each spent coin, where there is a file of them.
fn spent_heights(directory: &Path, name: &str) -> Option<Vec<(Height, bool)>> {
    let names = [name.to_owned(), name.rsplit_once('_')?.0.to_owned()];
    let path =
        names.iter().map(|name| directory.join(format!("blocks/{name}.coins.tsv.xz"))).find(|path| path.exists())?;
    let text = String::from_utf8(testkit::data::read(&path)).unwrap();
    let parse = |line: &str| {
        let mut columns = line.split('\t');
        (columns.next().unwrap().parse().unwrap(), columns.next().unwrap() == "1")
    };
    Some(text.lines().map(parse).collect())
}

/// Spends `coins` in the block, as if one were `change`d.
fn spend(loaded: &Loaded, sigops: &[u32], coins: &[SpentCoin<'_>]) -> Result<Totals, Rule> {
    let mut tables = Tables::new();
    let block = tables.parse_block(&loaded.bytes).unwrap();
    let hash = block.header().hash();
    let mut spend = BlockSpend::new(&loaded.params, loaded.height, &hash, MedianTime::new(MEDIAN_TIME_PAST_LEAST));
    let mut next = coins.iter();
    let mut fees = Amount(0);
    for (tx, &sigops) in block.transactions().zip(sigops) {
        // No input of these blocks has a lock in time.
        let time_lock = |_| panic!("the median time past of a coin is asked for");
        let fee = spend.transaction(&tx, &Txid::ZERO, sigops, |_| next.next().copied(), time_lock);
        fees = fees.plus(fee.map_err(|error| error.rule)?).unwrap();
    }
    assert_eq!(next.next(), None, "every coin was asked for");
    let totals = spend.finish(&block.transaction(0)).map_err(|error| error.rule)?;
    assert_eq!(totals.fees, fees);
    Ok(totals)
}

#[test]
fn real_blocks_pass_with_spent_outputs() {
    let Some(directory) = testkit::data::dir() else { return };
    let mut with_heights = 0;
    for (name, fees, coinbase, cost) in WITH_SPENT {
        let loaded = load(&directory, name);
        let sigops = judge(name, &loaded);
        let outputs = testkit::data::read(&directory.join(format!("blocks/{name}.spent.xz")));
        let heights = spent_heights(&directory, name);
        with_heights += usize::from(heights.is_some());
        let coin = |(at, (value, script))| {
            // Without heights: old enough for every rule.
            let (height, coinbase) = heights.as_ref().map_or((Height::GENESIS, false), |heights| heights[at]);
            SpentCoin { height, coinbase, value, script }
        };
        let mut coins: Vec<SpentCoin<'_>> = spent_outputs(&outputs).into_iter().enumerate().map(coin).collect();
        if let Some(heights) = &heights {
            assert_eq!(heights.len(), coins.len(), "{name}");
        }
        let want = Totals { fees: Amount(fees), sigop_cost: cost };
        assert_eq!(spend(&loaded, &sigops, &coins), Ok(want), "{name}");
        // One satoshi less among the inputs and the coinbase takes too much, for it takes all.
        let mut tables = Tables::new();
        let paid =
            consensus::transaction::value_out(&tables.parse_block(&loaded.bytes).unwrap().transaction(0)).unwrap();
        assert_eq!(paid, Amount(coinbase), "{name}");
        let Some(last) = coins.last_mut() else { continue };
        last.value.0 -= 1;
        let short = spend(&loaded, &sigops, &coins).unwrap_err();
        assert!(matches!(short, Rule::BadCbAmount { .. } | Rule::BadTxnsInBelowout { .. }), "{name}: {short:?}");
    }
    assert_eq!(with_heights, 3);
}

/// Those past CSV whose median time past the data lacks have no locktime that it could decide.
#[test]
fn real_blocks_have_no_locktime_near_median_time_past() {
    let Some(directory) = testkit::data::dir() else { return };
    for name in ALONE.iter().map(|row| row.0).chain(WITH_SPENT.iter().map(|row| row.0)) {
        let loaded = load(&directory, name);
        let mut tables = Tables::new();
        let block = tables.parse_block(&loaded.bytes).unwrap();
        let with = |cutoff| block.transactions().filter(|tx| is_final(tx, loaded.height, cutoff)).count();
        assert_eq!(with(MEDIAN_TIME_PAST_LEAST), with(block.header().time()), "{name}");
    }
}

/// The two pairs of equal coinbases, applied in the order of their heights: two coins are left, the later ones.
#[test]
fn overwritten_coinbases_are_the_known_two() {
    let Some(directory) = testkit::data::dir() else { return };
    let mut coins: HashMap<OutPoint, Height> = HashMap::new();
    let rows =
        ["main_91722_f3f2574dd08e", "main_91812_83d6f9306f2f", "main_91842_c8e300e0caec", "main_91880_084ccb7cd721"];
    for (name, repeat, overwritten) in
        rows.into_iter().zip([false, false, true, true]).map(|(name, repeat)| (name, repeat, !repeat))
    {
        let loaded = load(&directory, name);
        let mut tables = Tables::new();
        let block = tables.parse_block(&loaded.bytes).unwrap();
        let (coinbase, hash) = (block.transaction(0), block.header().hash());
        let outpoint = OutPoint { txid: coinbase.txid(), vout: 0 };
        assert_eq!(coinbase.output_count(), 1);
        let exists = coins.contains_key(&outpoint);
        assert_eq!(exists, repeat, "{name}");
        assert_eq!(bip30::is_repeat(loaded.height, &hash), repeat, "{name}");
        assert_eq!(bip30::is_overwritten(loaded.height, &hash), overwritten, "{name}");
        let enforced = bip30::is_enforced(&loaded.params, loaded.height, &hash, None);
        assert_eq!(bip30::check(enforced, exists), Ok(()), "{name}");
        // The same coinbase in another block of that height, or that block at another height.
        let other = BlockHash::literal("00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0cae0");
        for enforced in [
            bip30::is_enforced(&loaded.params, loaded.height, &other, None),
            bip30::is_enforced(&loaded.params, loaded.height + 1, &hash, None),
        ] {
            let want = if repeat { Err(Rule::BadTxnsBip30) } else { Ok(()) };
            assert_eq!(bip30::check(enforced, exists), want, "{name}");
        }
        assert!(bip30::makes_coin(loaded.height, coinbase.output(0).script()));
        coins.insert(outpoint, loaded.height);
    }
    let mut heights: Vec<Height> = coins.into_values().collect();
    heights.sort_unstable();
    assert_eq!(heights, [91_842, 91_880].map(Height::new));
}
