//! Experiment: validate a block whose coins are loaded: Core's ConnectBlock without the coin cache.
//!
//! Real blocks with their real coins, in one thread: one that only has ECDSA signatures, and one of 2024 with both
//! kinds; of the latter also the inputs of one kind. Also a single transaction: parsed, hashed, checked. Without the
//! test data, a generated block is used and its signatures are not verified; the rows state this.

use crate::bench::Bench;
use crate::input::{Inputs, Sample};
use crate::{Error, Experiment};
use consensus::block::{self, Context};
use consensus::{BlockSpend, SpentCoin, transaction};
use primitives::{Amount, Height, MedianTime, Reader, Tables};
use script::sighash::hash_shared;
use script::{Batch, Deferred, Flags, Immediate, Precomputed, Scratch, SpentOutput, lanes, verify, verify_all};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[ECDSA, MIXED, TAPROOT, WITNESS_V0, TRANSACTION], run };

const ECDSA: &str = "ConnectBlock: block 300025, ECDSA";
const MIXED: &str = "ConnectBlock: block 866342, ECDSA and Schnorr";
const TAPROOT: &str = "scripts of block 866342: taproot";
const WITNESS_V0: &str = "scripts of block 866342: all but taproot";
const TRANSACTION: &str = "transaction: parsed, hashed, checked";
/// A median time after which no lock of these blocks is in the future.
const MEDIAN_TIME: u32 = 1_231_006_505;
const ONE_BY_ONE: &str = "libsecp256k1, one signature at a time";
const BATCH: &str = "signatures in batches, in lanes where there are";
const ABSENT: &str = " (a made block stands in, without scripts)";

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    for (name, block, height) in
        [(ECDSA, "main_300025_58a9022cc78c", 300_025), (MIXED, "main_866342_b101d3c8f1f1", 866_342)]
    {
        if bench.wants(name) {
            whole(bench, name, &Work::new(inputs, block)?, Height::new(height))?;
        }
    }
    for (name, is_taproot) in [(TAPROOT, true), (WITNESS_V0, false)] {
        if bench.wants(name) {
            scripts(bench, name, &Work::new(inputs, "main_866342_b101d3c8f1f1")?, is_taproot)?;
        }
    }
    single(bench, inputs.real()?)
}

/// A block, and the serialized outputs that it spends.
struct Work {
    sample: Sample,
    spent: Option<Vec<u8>>,
}

impl Work {
    fn new(inputs: &Inputs, name: &str) -> Result<Work, Error> {
        if let Some((sample, spent)) = inputs.with_coins(name)? {
            return Ok(Work { sample, spent: Some(spent) });
        }
        let full = inputs.full()?;
        let sample = Sample { bytes: full.bytes.clone(), params: full.params.clone(), note: ABSENT };
        Ok(Work { sample, spent: None })
    }

    /// Amount and script of each coin, in the order of the inputs; for a generated block the same small coin for each.
    fn coins(&self, tables: &Tables) -> Result<Vec<SpentOutput<'_>>, Error> {
        let Some(spent) = &self.spent else {
            let inputs = tables.block(&self.sample.bytes).input_count() - 1;
            return Ok(vec![SpentOutput { value: Amount(10_000_000_000), script: &[0x51] }; inputs]);
        };
        let mut reader = Reader::new(spent);
        let mut coins = Vec::new();
        let broken = |why| Error::Broken(format!("spent coins of the test data: {why}"));
        while reader.remaining() > 0 {
            let value = Amount(reader.u64().map_err(broken)?.cast_signed());
            let bytes = reader.compact_size().map_err(broken)?;
            coins.push(SpentOutput { value, script: reader.take(bytes).map_err(broken)? });
        }
        Ok(coins)
    }

    fn flags(&self, height: Height, tables: &Tables) -> Flags {
        let hash = tables.block(&self.sample.bytes).header().hash();
        BlockSpend::new(&self.sample.params, height, &hash, MedianTime::new(MEDIAN_TIME)).flags()
    }
}

/// Full validation: block rules, amounts, signature operations, scripts.
fn whole(bench: &mut Bench<'_>, name: &'static str, work: &Work, height: Height) -> Result<(), Error> {
    let tables = &work.sample.tables()?;
    let coins = &work.coins(tables)?[..];
    let flags = work.flags(height, tables);
    let Some(mut table) = bench.table(name, "input", coins.len()) else { return Ok(()) };
    let scripted = work.spent.is_some();
    table.try_way(work.sample.name(ONE_BY_ONE), move || {
        let cost = rules(&work.sample, tables, coins, height)?;
        let verified = if scripted { one_by_one(&work.sample, tables, coins, flags, |_| true)? } else { 0 };
        Ok((cost, verified))
    })?;
    table.try_way(work.sample.name(BATCH), move || {
        let cost = rules(&work.sample, tables, coins, height)?;
        let verified = if scripted { in_batches(&work.sample, tables, coins, flags, |_| true)? } else { 0 };
        Ok((cost, verified))
    })?;
    table.shipped();
    bench.run(table)
}

/// Only scripts, of the inputs that spend taproot outputs or of the others.
fn scripts(bench: &mut Bench<'_>, name: &'static str, work: &Work, is_taproot: bool) -> Result<(), Error> {
    let tables = &work.sample.tables()?;
    let coins = &work.coins(tables)?[..];
    let flags = work.flags(Height::new(866_342), tables);
    let scripted = work.spent.is_some();
    let wanted =
        move |script: &[u8]| scripted && (script.len() == 34 && script.starts_with(&[0x51, 0x20])) == is_taproot;
    let count = coins.iter().filter(|coin| wanted(coin.script)).count();
    let Some(mut table) = bench.table(name, "input", count.max(1)) else { return Ok(()) };
    table.try_way(work.sample.name(ONE_BY_ONE), move || one_by_one(&work.sample, tables, coins, flags, wanted))?;
    table.try_way(work.sample.name(BATCH), move || in_batches(&work.sample, tables, coins, flags, wanted))?;
    table.shipped();
    bench.run(table)
}

/// The signature operation cost of a valid block.
fn rules(sample: &Sample, tables: &Tables, coins: &[SpentOutput<'_>], height: Height) -> Result<u64, Error> {
    let broken = |why: &dyn std::fmt::Display| Error::Broken(format!("a good block is refused: {why}"));
    let block = tables.block(&sample.bytes);
    let hash = block.header().hash();
    let mut txids = Vec::new();
    let mut wtxids = Vec::new();
    let mut sigops = Vec::new();
    block.txids_into(&mut txids);
    block.wtxids_into(&txids, &mut wtxids);
    let mut scratch = block::Scratch::default();
    block::check(&sample.params, &block, &hash, &txids, &mut sigops, &mut scratch).map_err(|why| broken(&why))?;
    let median_time_past = MedianTime::new(MEDIAN_TIME);
    // The generated block has another height; the same context is used for both.
    let context = Context { height, median_time_past, cleanup: consensus::Cleanup::Off };
    if sample.note.is_empty() {
        block::check_context(&sample.params, &block, &context, &txids, &wtxids, &mut scratch)
            .map_err(|why| broken(&why))?;
    }
    let mut spend = BlockSpend::new(&sample.params, height, &hash, median_time_past);
    let mut next = coins.iter();
    for (index, tx) in block.transactions().enumerate() {
        let coin = |_: usize| {
            let coin = next.next()?;
            Some(SpentCoin { height: Height::GENESIS, coinbase: false, value: coin.value, script: coin.script })
        };
        spend.transaction(&tx, &txids[index], sigops[index], coin, |_| MedianTime::ZERO).map_err(|why| broken(&why))?;
    }
    let totals = if sample.note.is_empty() {
        spend.finish(&block.transaction(0)).map_err(|why| broken(&why))?.sigop_cost
    } else {
        0
    };
    Ok(totals)
}

/// Every transaction except the coinbase, with the coins that it spends.
fn spending<'a>(sample: &'a Sample, tables: &'a Tables, coins: &'a [SpentOutput<'a>]) -> Vec<Precomputed<'a>> {
    let mut rest = coins;
    let transactions = tables.block(&sample.bytes).transactions().skip(1);
    let with_coins = transactions.map(|tx| {
        let (mine, others) = rest.split_at(tx.input_count());
        rest = others;
        Precomputed::new(tx, mine)
    });
    with_coins.collect()
}

/// Number of inputs with a valid script.
fn one_by_one(
    sample: &Sample,
    tables: &Tables,
    coins: &[SpentOutput<'_>],
    flags: Flags,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<usize, Error> {
    let mut scratch = Scratch::new();
    let mut verified = 0;
    for tx in &spending(sample, tables, coins) {
        for input in (0..tx.spent().len()).filter(|&input| wanted(tx.spent()[input].script)) {
            verify(tx, input, flags, &mut Immediate, &mut scratch)
                .map_err(|why| Error::Broken(format!("a good input is refused: {why}")))?;
            verified += 1;
        }
    }
    Ok(verified)
}

/// Like [`one_by_one`].
fn in_batches(
    sample: &Sample,
    tables: &Tables,
    coins: &[SpentOutput<'_>],
    flags: Flags,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<usize, Error> {
    let spending = spending(sample, tables, coins);
    if lanes::best(kernels::Kernels::AUTO).takes_hashes() {
        hash_shared(kernels::Kernels::AUTO, &spending);
    }
    let all = spending.iter().flat_map(|tx| (0..tx.spent().len()).map(move |input| (tx, input)));
    let mut verified = 0;
    let wanted = &wanted;
    let inputs = all.filter(|(tx, input)| wanted(tx.spent()[*input].script)).inspect(|_| verified += 1);
    let mut deferred = Deferred::for_batch(&lanes::best(kernels::Kernels::AUTO));
    verify_all(inputs, flags, &lanes::best(kernels::Kernels::AUTO), &mut deferred, &mut Scratch::new())
        .map_err(|(_, why)| Error::Broken(format!("a good input is refused: {why}")))?;
    Ok(verified)
}

/// Each transaction of a block separately, like a mempool or a decoder.
fn single(bench: &mut Bench<'_>, sample: &Sample) -> Result<(), Error> {
    let tables = sample.tables()?;
    let block = tables.block(&sample.bytes);
    let transactions: Vec<&[u8]> = block.transactions().map(|tx| tx.bytes()).collect();
    let transactions = &transactions[..];
    let Some(mut table) = bench.table(TRANSACTION, "transaction", transactions.len()) else { return Ok(()) };
    let ids = |each: &mut dyn FnMut(&[u8]) -> Result<primitives::Txid, Error>| {
        transactions.iter().map(|bytes| each(bytes)).collect::<Result<Vec<_>, Error>>()
    };
    table.try_way(sample.name("the bitcoin crate, 0.32, without the checks"), move || {
        ids(&mut |bytes| crate::library::transaction_id(bytes))
    })?;
    let checked = |tables: &mut Tables, scratch: &mut transaction::Scratch, bytes: &[u8]| {
        let tx = tables.parse_transaction(bytes).map_err(|why| Error::Broken(format!("a transaction: {why}")))?;
        transaction::check(&tx, scratch)
            .map_err(|why| Error::Broken(format!("a good transaction is refused: {why}")))?;
        Ok(tx.txid())
    };
    table.try_way(sample.name("tables of offsets, new ones"), move || {
        ids(&mut |bytes| checked(&mut Tables::new(), &mut transaction::Scratch::default(), bytes))
    })?;
    let mut used = Tables::new();
    let mut scratch = transaction::Scratch::default();
    table.try_way(sample.name("tables of offsets, used again"), move || {
        ids(&mut |bytes| checked(&mut used, &mut scratch, bytes))
    })?;
    table.shipped();
    bench.run(table)
}
