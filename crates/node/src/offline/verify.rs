//! `verify`: like Core's verifychain, on a data directory that no other program uses, without changing it.
//!
//! Level 0 reads blocks, 1 checks each without its chain, 2 reads their undo data, 3 disconnects them in memory, 4
//! connects them again. Source: Bitcoin Core b88bffe, `CVerifyDB::VerifyDB`.

use super::open_look::open_to_look;
use crate::chain::tree::NodeId;
use crate::datadir::{DataDir, look};
use crate::fault::{Fault, Message};
use crate::options::Options;
use crate::pipeline::engine::{Engine, EngineBackend};
use crate::reporting::Events;
use primitives::{BlockHash, Height};
use std::time::Instant;

/// Bytes beyond `--dbcache` for the coins that a block spent, when it is disconnected.
const BESIDE_BYTES: usize = 64 << 20;

/// Advice if fewer blocks were disconnected than requested.
const VERIFY_ADVICE: &str = "Give a larger --dbcache to check them at a higher level";

/// What was checked.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Number of blocks, from the tip down.
    pub blocks: u32,
    /// Level that was reached.
    pub level: u8,
    /// Height of the tip.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Transactions in those blocks.
    pub transactions: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Checks the last `blocks` blocks (0: all) at `level` (0 to 4); in a pruned data directory those that are stored.
///
/// # Errors
///
/// The first fault found: where, and what to do.
pub fn verify(options: &Options, level: u8, blocks: u32, events: Events<'_>) -> Result<VerifyReport, Fault> {
    look::at_rest(options, "verifychain", || check(options, level, blocks, events))
}

fn check(options: &Options, level: u8, blocks: u32, events: Events<'_>) -> Result<VerifyReport, Fault> {
    let start = Instant::now();
    let existing = open_to_look(options, events)?;
    let datadir = &existing.datadir;
    let tip = existing.tip;
    let height = datadir.headers().height(tip);
    let count = if blocks == 0 { height.to_u32() } else { blocks.min(height.to_u32()) };
    let mut report =
        VerifyReport { blocks: count, level, height, best: datadir.headers().hash(tip), ..Default::default() };
    let mut engine = super::engine_with(datadir, tip, usize::MAX / 8);
    let mut limit = None;
    {
        let index = datadir.index.read();
        let tree = index.headers();
        let bytes = |node: &NodeId| u64::from(index.body(*node).size());
        let bytes: u64 = tree.path(tree.ancestor(tip, height - count), tip).iter().map(bytes).sum();
        // Level 4 processes all of them twice.
        datadir.reporter.set_bytes_left(if level >= 4 { 2 * bytes } else { bytes });
        datadir.reporter.set_end(height);
    }
    for step in 0..count {
        if datadir.reporter.is_stopping() {
            return Err(stopped());
        }
        let node = datadir.headers().ancestor(tip, height - step);
        if let Some(why) = why_absent(datadir, node) {
            let at = height - step;
            datadir.reporter.note(format!("Block verification stopping at height {at} (no data): {why}"));
            report.blocks = step;
            break;
        }
        let bytes = datadir.read(node)?;
        datadir.reporter.add_bytes(bytes.len());
        if level >= 1 {
            report.transactions += engine.check_alone(node, bytes)? as u64;
        }
        let mut undo_bytes = 0;
        let has_undo = datadir.index.read().body(node).undo().is_some();
        if level >= 2 && has_undo {
            let prev = {
                let tree = datadir.headers();
                tree.hash(tree.parent(node).expect("not genesis"))
            };
            undo_bytes = datadir.read_undo(node, prev)?.len();
        }
        if level >= 3 && limit.is_none() {
            if let Some(why) = no_room(engine.pipeline.coins_in_memory().1, undo_bytes, options.dbcache_bytes) {
                limit = Some(step);
                let from = height - step;
                let why = format!("Blocks from height {from} down are checked at level 2 only: {why}");
                datadir.reporter.warn(Message::new(why, VERIFY_ADVICE));
            } else {
                engine.disconnect_tip()?;
            }
        }
        datadir.reporter.set_height(height - step);
        datadir.reporter.progress(|| engine.pipeline.stats().snapshot());
    }
    if level >= 4 && !super::telling(datadir, &mut engine, |engine| engine.reconnect(tip))? {
        return Err(if datadir.reporter.is_stopping() { stopped() } else { does_not_connect(datadir, &engine, tip) });
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Why no further block is disconnected in memory. `coins` and `undo_bytes` are the bytes of coins in memory, and of
/// those that the next block spent.
fn no_room(coins: usize, undo_bytes: usize, dbcache_bytes: usize) -> Option<&'static str> {
    if coins > dbcache_bytes {
        Some("--dbcache is used up")
    } else if coins + undo_bytes > dbcache_bytes + BESIDE_BYTES {
        Some("--dbcache is less than the coins that the first of them spends")
    } else {
        None
    }
}

/// Why a block of the chain and those below it cannot be verified.
fn why_absent(datadir: &DataDir<'_>, node: NodeId) -> Option<&'static str> {
    let index = datadir.index.read();
    let height = |node| index.headers().height(node);
    // Blocks below a snapshot's base were not connected yet.
    let is_past = datadir.assumed.is_some_and(|assumed| height(node) <= height(assumed.base));
    if is_past {
        Some("the past is not validated yet")
    } else {
        index.body(node).is_pruned().then_some("the data directory is pruned")
    }
}

fn stopped() -> Fault {
    Fault::refused("stopped before everything was checked", "The same command checks from the beginning")
}

/// The fault for the first block after those connected, on the way to `tip`, with the reason of its refusal.
fn does_not_connect(datadir: &DataDir<'_>, engine: &Engine<'_>, tip: NodeId) -> Fault {
    let node = {
        let tree = datadir.headers();
        tree.ancestor(tip, (tree.height(engine.tip()) + 1).min(tree.height(tip)))
    };
    let (height, hash) = datadir.height_and_hash(node);
    let why = engine.reason_of(node).unwrap_or("see above");
    let why = format!(
        "block {hash} at height {height} was connected once and does not connect again: {why}. Nothing was marked"
    );
    let advice = "Were its scripts assumed valid then, by another --assumevalid? If not, its coins or its undo data are \
                  damaged: look at the disk, then run ffwd repair, or ffwd reindex if that finds nothing";
    Fault::refused(why, advice)
}
