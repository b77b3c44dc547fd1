//! Steps shared by jobs that connect blocks: making the engine on a data directory, ending the work, the report.

use crate::chain::headers::AssumeValid;
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::{Assumed, DataDir};
use crate::fault::Fault;
use crate::options::unix_seconds;
use crate::pipeline::Settings;
use crate::pipeline::engine::{Aim, Engine, Setup};
use crate::pipeline::stats::Snapshot;
use crate::reporting::JobReport;
use coins::table::HashKey;
use primitives::Height;

/// A secret key for the hash of this run's coin tables.
fn secret() -> HashKey {
    let mut bytes = [0; 32];
    // If the system has no random bytes, only the protection against chosen txids is lost.
    let _ = getrandom::fill(&mut bytes);
    HashKey(std::array::from_fn(|i| u64::from_le_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes"))))
}

/// An engine on a data directory.
pub(crate) fn engine<'f>(datadir: &'f DataDir<'_>, tip: NodeId) -> Engine<'f> {
    engine_with(datadir, tip, datadir.options.dbcache_bytes)
}

/// Like [`engine`], for rebuilding a UTXO set that probably has about this number of coins.
pub(crate) fn engine_for_set<'f>(datadir: &'f DataDir<'_>, tip: NodeId, coins: usize) -> Engine<'f> {
    let engine = engine(datadir, tip);
    if tip == GENESIS {
        engine.pipeline.expect_coins(coins);
    }
    engine
}

/// Like [`engine`], with another memory budget.
pub(crate) fn engine_with<'f>(datadir: &'f DataDir<'_>, tip: NodeId, budget_bytes: usize) -> Engine<'f> {
    let options = datadir.options;
    let mib = options.dbcache_bytes >> 20;
    let chosen = if options.sizes.dbcache_follows { ", chosen by the memory that is left" } else { "" };
    datadir.reporter.log().line(&format!("Memory for coins, blocks in flight and tables: dbcache={mib} MiB{chosen}"));
    datadir.reporter.set_transactions(datadir.transactions_up_to(tip));
    datadir.reporter.set_workers(options.par);
    let setup = Setup {
        pipeline: Settings { par: options.par, budget_bytes, window_blocks: 4096 },
        assume: AssumeValid { hash: options.assumevalid, minimum_chain_work: options.minimum_chain_work },
        // The history below a snapshot ends at its base, whatever the stop height.
        stop_at: options.stop_at_height.filter(|_| !datadir.is_past()),
        tip,
        secret: secret(),
    };
    let mut engine = Engine::new(datadir.params, datadir, &datadir.index, setup);
    if let Some(Assumed { base, is_past, .. }) = datadir.assumed {
        engine.aim(if is_past { Aim::To(base) } else { Aim::From(base) });
    }
    engine
}

/// Commits everything, and stores the totals of the coins.
pub(crate) fn flush(datadir: &DataDir<'_>, engine: &Engine<'_>) -> Result<(), Fault> {
    engine.pipeline.flush(engine.tip_and_hash())?;
    datadir.keep_totals(engine.tip())
}

/// Commits everything, and finishes LevelDB's pending work.
pub(crate) fn finish(datadir: &DataDir<'_>, engine: &mut Engine<'_>) -> Result<(), Fault> {
    flush(datadir, engine)?;
    datadir.write_index(None)?;
    datadir.with_room(|| datadir.coins.settle())?;
    datadir.with_room(|| datadir.writer.settle())?;
    datadir.finish_indexes(engine.tip())
}

/// Like [`finish`], for the chain below a snapshot, while another chain uses the same data directory.
pub(crate) fn finish_past(datadir: &DataDir<'_>, engine: &mut Engine<'_>) -> Result<(), Fault> {
    engine.pipeline.flush(engine.tip_and_hash())?;
    datadir.write_index(None)?;
    datadir.with_room(|| datadir.coins.settle())?;
    datadir.finish_indexes(engine.tip())
}

/// The report of a job, from its start to the last durable commit.
pub(crate) fn report(
    datadir: &DataDir<'_>,
    tip: NodeId,
    height_start: Height,
    stats: Snapshot,
    stopped: bool,
) -> JobReport {
    let reporter = &datadir.reporter;
    datadir.tell_pruned();
    datadir.check_index();
    datadir.end_earlier_state(tip);
    let best = datadir.height_and_hash(tip).1;
    let (height, headers, end_reason) = {
        let index = datadir.index.read();
        let tree = index.headers();
        let height = tree.height(tip);
        let ends_early = !stopped && datadir.options.stop_at_height.is_none_or(|stop| height < stop);
        let time = u64::from(tree.time(tip));
        let now = unix_seconds(datadir.options.clock);
        let is_current = time <= now && now - time <= datadir.options.sizes.tip_age_max_s;
        let is_stored = |node| index.place(node).is_some();
        let reason = || reporter.shortfall.reason(tree, tip, is_current, &is_stored);
        let why = || datadir.shut_out_reason(&index, tip).or_else(reason);
        (height, tree.height(tree.best()), ends_early.then(why).flatten())
    };
    reporter.report(JobReport {
        height,
        headers,
        end_reason,
        best,
        height_start,
        stopped,
        stats,
        ..JobReport::default()
    })
}
