//! The traps for re-implementers, and btcd's suite: every case ends where Core ends, whatever the threads, window, cache.
//!
//! Cases whose records are damaged run through a block file and the whole job.

use crate::chain::{file, put};
use crate::data_directory::{DATADIR, options};
use crate::memory_backend::Memory;
use coins::table::HashKey;
use consensus::{Chain, Params};
use disk::SimDisk;
use node::chain::headers::AssumeValid;
use node::jobs;
use node::options::Options;
use node::pipeline::Settings;
use node::pipeline::engine::{Activated, Engine, Setup};
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Hash256, Header, Work, hex};
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Noon of 2026-11-21.
pub(crate) const NOW: i64 = 1_795_262_400;

pub(crate) struct End {
    height: u32,
    best: BlockHash,
    pub(crate) set: Hash256,
    reasons: Vec<String>,
    /// Coins that the tables were asked for.
    asked: u64,
    /// Commits of coins, and the most bytes that coins took in memory, where blocks come one by one.
    pub(crate) commits: u32,
    pub(crate) coin_bytes_max: u64,
}

/// Takes blocks in file order, and brings the chain to the best of them.
fn run(blocks: &[Vec<u8>], settings: Settings, eager: bool) -> End {
    run_groups(&[blocks], settings, eager)
}

/// The same, bringing the chain up to date after each group.
pub(crate) fn run_groups(groups: &[&[Vec<u8>]], settings: Settings, eager: bool) -> End {
    let params = Params::new(Chain::Regtest);
    run_groups_on(&params, Memory::new(&params), groups, settings, eager)
}

/// The same in this memory.
pub(crate) fn run_groups_on(
    params: &Params,
    memory: Memory,
    groups: &[&[Vec<u8>]],
    settings: Settings,
    eager: bool,
) -> End {
    let index = memory.index();
    memory.eager.store(eager, Ordering::Relaxed);
    let mut reasons = Vec::new();
    let mut waiting: HashMap<BlockHash, Vec<Vec<u8>>> = HashMap::new();
    let mut engine = engine_on(params, &memory, settings);
    let mut left: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let mut group = 0;
    for block in groups.iter().copied().flatten() {
        while left[group] == 0 {
            assert_eq!(engine.activate().unwrap(), Activated::Tip);
            group += 1;
        }
        left[group] -= 1;
        let mut queue = std::collections::VecDeque::from([block.clone()]);
        while let Some(block) = queue.pop_front() {
            let Some(header) = block.first_chunk().map(|bytes| Header(*bytes)) else { continue };
            let mut tables = primitives::Tables::new();
            if tables.parse_block(&block).is_err() {
                continue;
            }
            let known = index.headers().find(&header.prev()).is_some();
            if !known && header.hash() != params.genesis_hash {
                waiting.entry(header.prev()).or_default().push(block);
                continue;
            }
            let accepted = index.write().accept(params, &header, header.hash(), NOW);
            match accepted {
                Ok(node::chain::tree::GENESIS) => {}
                Ok(id) => {
                    memory.found(id, block);
                    queue.extend(waiting.remove(&header.hash()).unwrap_or_default());
                }
                Err(error) => reasons.push(error.to_string()),
            }
        }
    }
    assert_eq!(engine.activate().unwrap(), Activated::Tip);
    engine.check_stale_blocks().unwrap();
    let (tip, best) = engine.tip_and_hash();
    engine.pipeline.flush((tip, best)).unwrap();
    let stats = engine.pipeline.stats().snapshot();
    let (asked, coin_bytes_max) = (stats.asked, stats.coin_bytes_max);
    drop(engine);
    reasons.append(&mut memory.reasons.lock().unwrap());
    let (height, set) = (index.headers().height(tip).to_u32(), memory.hash_serialized());
    End { height, best, set, reasons, asked, commits: memory.commits.load(Ordering::Relaxed), coin_bytes_max }
}

/// Reindexes a file of records, of which those that begin with `raw:` are bytes as they lie there.
fn run_file(base: &[Vec<u8>], records: &[&str], settings: Settings, eager: bool) -> End {
    let mut bytes = file(base);
    for record in records {
        match record.strip_prefix("raw:") {
            Some(raw) => bytes.extend(hex::decode(raw).unwrap()),
            None => bytes.extend(file(&[hex::decode(record).unwrap()])),
        }
    }
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &bytes);
    let (par, dbcache_bytes) = (settings.par, settings.budget_bytes);
    let options = Options { par, dbcache_bytes, ..options(&disk, eager) };
    let report = jobs::reindex(&options, false, &|_| ()).unwrap();
    let set = jobs::set_info(&options, SetHash::Serialized, &|_| ()).unwrap();
    let (height, best, asked) = (report.height, report.best, report.stats.asked);
    End {
        height: height.to_u32(),
        best,
        set: set.hash.unwrap().1,
        reasons: Vec::new(),
        asked,
        commits: 0,
        coin_bytes_max: 0,
    }
}

/// An engine that verifies every script, on top of nothing.
pub(crate) fn engine_on<'w>(params: &'w Params, memory: &'w Memory, settings: Settings) -> Engine<'w> {
    let setup = Setup {
        pipeline: settings,
        assume: AssumeValid { hash: BlockHash::ZERO, minimum_chain_work: Work::ZERO },
        stop_at: None,
        tip: node::chain::tree::GENESIS,
        secret: HashKey([9, 8, 7, 6]),
    };
    Engine::new(params, memory, memory.index(), setup)
}

pub(crate) fn combinations() -> Vec<(Settings, bool)> {
    let all: &[(usize, usize)] = if testkit::is_slow() {
        &[(1, 1), (1, 200), (2, 2), (2, 200), (3, 5), (3, 200), (8, 3), (8, 200)]
    } else {
        &[(1, 1), (2, 200), (3, 5), (8, 7)]
    };
    // A flush at the end only; at every chance; and with nothing kept in memory, so that the tables are asked.
    let settings = |&(par, window_blocks), budget_bytes| Settings { par, window_blocks, budget_bytes };
    all.iter()
        .flat_map(|one| [(settings(one, 64 << 20), false), (settings(one, 64 << 20), true), (settings(one, 0), true)])
        .collect()
}

#[test]
fn every_trap_ends_at_cores_tip() {
    let Some(bytes) = testkit::data::load("suites/consensus_traps.jsonl.xz") else { return };
    let text = String::from_utf8(bytes).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let blocks_of = |case: &serde_json::Value| -> Option<Vec<Vec<u8>>> {
        case["blocks"].as_array().unwrap().iter().map(|block| hex::decode(block.as_str().unwrap())).collect()
    };
    let base = blocks_of(&lines.next().unwrap()).unwrap();
    let cases: Vec<serde_json::Value> = lines.collect();
    // Coins asked for with each cache, in one case.
    let play = |case: &serde_json::Value| {
        let mut asked = HashMap::<usize, u64>::new();
        let name = case["name"].as_str().unwrap();
        let own = blocks_of(case);
        let is_file = own.is_none();
        let records: Vec<&str> = case["blocks"].as_array().unwrap().iter().map(|b| b.as_str().unwrap()).collect();
        let blocks: Vec<Vec<u8>> = base.iter().cloned().chain(own.into_iter().flatten()).collect();
        for (settings, eager) in combinations() {
            let end = if is_file { run_file(&base, &records, settings, eager) } else { run(&blocks, settings, eager) };
            *asked.entry(settings.budget_bytes).or_default() += end.asked;
            let (want, core) = (&case["want"], &case["core"]);
            let got = (u64::from(end.height), end.best.to_string(), end.set.to_string());
            let text = |field: &str| want[field].as_str().unwrap().to_owned();
            let all = (want["height"].as_u64().unwrap(), text("bestblock"), text("hash_serialized_3"));
            assert_eq!(got, all, "{name}, {settings:?}, eager {eager}: {:?}", end.reasons);
            let reason = core["reason"].as_str().unwrap();
            if !is_file && !reason.is_empty() && !reason.contains("parse") && case.get("core_loses_blocks").is_none() {
                assert!(end.reasons.iter().any(|r| r.contains(reason)), "{name}: {:?}, want {reason}", end.reasons);
            }
        }
        asked
    };
    // Cases are independent, so several are played in parallel.
    let next = AtomicUsize::new(0);
    let play_some = || -> Vec<_> {
        let one = || cases.get(next.fetch_add(1, Ordering::Relaxed)).map(&play);
        std::iter::from_fn(one).collect()
    };
    let played: Vec<HashMap<usize, u64>> = std::thread::scope(|scope| {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let players: Vec<_> = (0..count).map(|_| scope.spawn(play_some)).collect();
        players.into_iter().flat_map(|player| player.join().unwrap_or_else(|why| resume_unwind(why))).collect()
    });
    let asked_without_memory: u64 = played.iter().filter_map(|asked| asked.get(&0)).sum();
    let ran = played.len();
    let ran_files = cases.iter().filter(|case| blocks_of(case).is_none()).count();
    assert!(ran > 100 && ran_files > 1, "{ran} cases ran, {ran_files} of them as files");
    assert!(asked_without_memory > 50, "without memory the tables are asked: {asked_without_memory}");
}

/// All of btcd's blocks as one file: Core ends at this height and set.
#[test]
fn btcd_suite_in_file_order_ends_at_its_tip() {
    let Some(bytes) = testkit::data::load("suites/btcd_fullblocktests.jsonl.xz") else { return };
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for line in String::from_utf8(bytes).unwrap().lines() {
        let step: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(raw) = step["raw"].as_str() {
            let raw = hex::decode(raw).unwrap();
            if !blocks.contains(&raw) {
                blocks.push(raw);
            }
        }
    }
    for (settings, eager) in combinations() {
        let end = run(&blocks, settings, eager);
        assert_eq!(
            (end.height, end.best.to_string().as_str(), end.set.to_string().as_str()),
            (
                131,
                "43d276d5c9c437afec5d593c71352fa7c5d51a69778391156b7ba495b3d07315",
                "fb8571396f289a3716157395c57a98136fb7a3530e6c890e786fae4eebed8389"
            ),
            "{settings:?}, eager {eager}: {:?}",
            end.reasons
        );
    }
}

/// The easiest header on regtest for these transactions.
fn mined(version: i32, prev: BlockHash, transactions: &[u8], root: Hash256, time: u32) -> Vec<u8> {
    let target = primitives::Target::from_compact(0x207f_ffff).unwrap();
    let header = (0..).map(|nonce| Header::new(version, prev, root, time, 0x207f_ffff, nonce));
    let header = header.into_iter().find(|header| target.is_met_by(&header.hash())).unwrap();
    [&header.0[..], transactions].concat()
}

/// A block of a coinbase alone that stands on `parent`, at a height from 17 to 127.
pub(crate) fn child(parent: &[u8], version: i32, height: u8, time: u32) -> Vec<u8> {
    let coinbase = format!(
        "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff0201{height:02x}ffffffff0100f2052a01000000015100000000"
    );
    let coinbase = hex::decode(&coinbase).unwrap();
    let prev = Header(*parent.first_chunk().unwrap()).hash();
    let root = Hash256(kernels::sha256::sha256d(&coinbase));
    mined(version, prev, &[&[1], &coinbase[..]].concat(), root, time)
}

/// A reorganisation onto a branch that has the same transactions: coins are made again where the disconnected block left
/// tombstones, spent again, and a third branch brings them back once more.
#[test]
fn reorg_with_the_same_transactions_on_both_branches_keeps_the_coins() {
    let Some(bytes) = testkit::data::load("suites/consensus_traps.jsonl.xz") else { return };
    let text = String::from_utf8(bytes).unwrap();
    let cases: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let blocks_of = |case: &serde_json::Value| -> Vec<Vec<u8>> {
        case["blocks"].as_array().unwrap().iter().map(|block| hex::decode(block.as_str().unwrap()).unwrap()).collect()
    };
    let base = blocks_of(&cases[0]);
    let case = cases.iter().find(|case| case["name"] == "create then spend in one block").unwrap();
    let first = blocks_of(case).remove(0);
    let header = Header(*first.first_chunk().unwrap());
    let again = |time: u32| mined(header.version(), header.prev(), &first[80..], header.merkle_root(), time);
    let child = |parent: &[u8], height: u8, time: u32| child(parent, header.version(), height, time);
    let (b1, c1) = (again(header.time() + 1), again(header.time() + 2));
    let b2 = child(&b1, 122, header.time() + 10);
    let c2 = child(&c1, 122, header.time() + 11);
    let c3 = child(&c2, 123, header.time() + 20);
    let a = vec![first];
    let (b, c) = (vec![b1, b2.clone()], vec![c1, c2, c3.clone()]);
    let mut sets = std::collections::HashSet::new();
    for (settings, eager) in combinations() {
        let end = run_groups(&[&base, &a, &b, &c], settings, eager);
        let best = Header(*c3.first_chunk().unwrap()).hash();
        assert_eq!((end.height, end.best), (123, best), "{settings:?}, eager {eager}: {:?}", end.reasons);
        sets.insert(end.set);
        let straight = run_groups(&[&base, &c], settings, eager);
        assert_eq!(straight.best, best);
        sets.insert(straight.set);
    }
    assert_eq!(sets.len(), 1, "every way ends with the same coins");
}
