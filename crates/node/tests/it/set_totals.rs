//! What the coins of the UTXO set add up to, carried along with the blocks, beside a count of all of them.

use crate::chain::{GENESIS_TIME, block, chain, coinbase_to, file, hash_of, id, put, spend, subsidy};
use crate::data_directory::{DATADIR, options};
use crate::memory_backend::Memory;
use crate::panics::jobs as pipeline_jobs;
use coins::Totals;
use coins::table::HashKey;
use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use node::chain::block::Bip30;
use node::jobs;
use node::options::Options;
use node::pipeline::{Outcome, Pipeline, Settings};
use node::utxo_stats::{SetHash, SetInfo};
use primitives::coin::CoinRef;
use primitives::{Height, MedianTime};
use std::path::Path;
use std::sync::Arc;

fn sums(info: &SetInfo) -> (u64, u64, i64, String, u32) {
    (info.txouts, info.bogosize, info.total_amount, info.best.to_string(), info.height.to_u32())
}

/// What a job says at its end beside what the coins are; says whether they were counted for it.
fn is_counted(row: &str, options: &Options) -> bool {
    let after = jobs::set_after(options, SetHash::None, &|_| ()).unwrap();
    let counted = jobs::set_info(options, SetHash::None, &|_| ()).unwrap();
    assert_eq!(sums(&after), sums(&counted), "{row}");
    assert!(counted.transactions.is_some(), "{row}");
    after.transactions.is_some()
}

/// 110 blocks, and two branches on them: each spends coins, of which one can never be spent again.
fn branches() -> (Vec<Vec<u8>>, Vec<u8>, Vec<Vec<u8>>) {
    let blocks = chain(110);
    let old = |height: u32| (id(&blocks[height as usize][81..]), subsidy(height));
    let (first, second) = (spend(old(3).0, old(3).1), spend(old(5).0, old(5).1));
    let burns = |height: u32| coinbase_to(height, vec![(7, vec![0x6a, 1, 2]), (11, vec![0x51; 40])]);
    let prev = hash_of(&blocks[110]);
    let time = GENESIS_TIME + 600 * 111;
    let left = block(prev, time, &[burns(111), first.clone()]);
    let right = block(prev, time + 1, &[burns(111), second.clone(), first]);
    let next = block(hash_of(&right), time + 600, &[burns(112), spend(id(&second), old(5).1 / 2)]);
    (blocks, left, vec![right, next])
}

#[test]
fn totals_at_the_end_of_a_job_are_those_of_a_count() {
    let (blocks, left, right) = branches();
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(&[&blocks[..], &[left]].concat()));
    let all = options(&disk, false);
    let part = Options { stop_at_height: Some(Height::new(60)), ..options(&disk, false) };
    jobs::reindex(&part, false, &|_| ()).unwrap();
    assert!(!is_counted("from nothing to block 60", &part));
    jobs::reindex(&all, false, &|_| ()).unwrap();
    assert!(!is_counted("and on", &all));
    let foreign = Path::new("/foreign.dat");
    put(&disk, foreign, &file(&right));
    jobs::import(&all, &[foreign.to_path_buf()], &|_| ()).unwrap();
    // The block that was disconnected is not among those of this run.
    is_counted("on another branch", &all);
    assert!(!is_counted("what was counted is kept", &all));
    jobs::import(&all, &[], &|_| ()).unwrap();
    assert!(!is_counted("and taken up", &all));
    jobs::reindex(&all, true, &|_| ()).unwrap();
    assert!(!is_counted("rebuilt", &all));

    let name = Path::new(DATADIR).join("regtest/ffwd/set-totals");
    let kept = disk.open(&name).unwrap().bytes().unwrap().to_vec();
    disk.modify(&name).unwrap().write_at(40, &[kept[40] ^ 1]).unwrap();
    assert!(is_counted("from a damaged file nothing is taken", &all));
    assert!(!is_counted("a count makes a new one", &all));
    disk.modify(&name).unwrap().set_len(0).unwrap();
    jobs::import(&all, &[], &|_| ()).unwrap();
    assert!(is_counted("nor by the next job", &all));
}

/// A coinbase that repeats an earlier one, with the same coins: they are there once. As on mainnet, before BIP 34.
#[test]
fn block_that_overwrites_coins_adds_none() {
    let mut blocks = chain(9);
    let coinbase = blocks[4][81..].to_vec();
    blocks.push(block(hash_of(&blocks[9]), GENESIS_TIME + 6000, &[coinbase]));
    let params = Params::new(Chain::Regtest);
    let world = Memory::default();
    for mut job in pipeline_jobs(&blocks) {
        job.context.overwrites = job.context.at.height == Height::new(10);
        job.context.bip30 = Bip30::Unbreakable;
        job.contextual = false;
        world.jobs.lock().unwrap().push_back(job);
    }
    let settings = Settings { par: 1, window_blocks: 20, budget_bytes: 64 << 20 };
    let pipeline = Pipeline::new(&world, &params, settings, HashKey([1; 4]));
    pipeline.set_times(Arc::new((0..=10).map(MedianTime::new).collect()));
    assert!(matches!(pipeline.run().unwrap(), Outcome::Done));
    pipeline.flush(pipeline.take_tip().unwrap()).unwrap();
    let changes = world.changes.lock().unwrap();
    let carried = changes.iter().fold(Totals::default(), |sum, change| sum.plus(*change));
    let mut counted = Totals::default();
    for coin in world.tables.lock().unwrap().values() {
        let coin = CoinRef::decode(coin).unwrap();
        counted.count(coin.script.script_bytes(), coin.value.0);
    }
    assert_eq!((carried, changes.len(), changes[9].coins), (counted, 10, 0));
}
