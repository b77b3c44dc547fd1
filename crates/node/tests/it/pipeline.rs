//! The pipeline gives the same set and the same undo data whatever the threads, the window, the memory.

use crate::memory_backend::Memory;
use coins::table::HashKey;
use consensus::{Chain, Params, ScriptCheckReason};
use node::chain::block::{BlockContext, Job};
use node::chain::headers::{self, AssumeValid, ChainContext};
use node::chain::tree::{GENESIS, NodeId};
use node::pipeline::{Outcome, Pipeline, Settings};
use primitives::{BlockHash, Header, MedianTime, Work};
use std::sync::Arc;
use std::sync::atomic::Ordering;

struct World {
    params: Params,
    jobs: Vec<Job>,
    times: Arc<Vec<MedianTime>>,
}

/// The chain of a file of records, every script to be run unless `assume`.
fn world(chain: Chain, file: &str, scripts: bool) -> Option<World> {
    let params = Params::new(chain);
    let mut tree = headers::genesis_tree(&params);
    let blocks =
        testkit::data::records(&testkit::data::load(file)?).into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
    let mut ids: Vec<NodeId> = Vec::new();
    for block in &blocks {
        let header = Header(*block.first_chunk().unwrap());
        ids.push(headers::accept(&mut tree, &params, &header, header.hash(), 1 << 40).unwrap());
    }
    let tip = *ids.last().unwrap();
    let assume = AssumeValid { hash: BlockHash::ZERO, minimum_chain_work: Work::ZERO };
    let context = ChainContext::new(&tree, &params, &assume, tip);
    let jobs = ids.iter().zip(blocks).filter(|(id, _)| **id != GENESIS).map(|(&id, block)| {
        let script_reason = scripts.then_some(ScriptCheckReason::AlwaysVerify);
        let context = BlockContext { script_reason, ..context.block(id) };
        Job { context, bytes: block.into(), checked: None, contextual: true, undo: Some([1; 4]) }
    });
    let jobs = jobs.collect();
    Some(World { times: headers::median_times(&tree, tip), params, jobs })
}

fn run(world: &World, settings: Settings, eager: bool) -> (Outcome, Memory) {
    let memory = Memory::default();
    memory.eager.store(eager, Ordering::Relaxed);
    memory.jobs.lock().unwrap().extend(world.jobs.iter().cloned());
    let outcome = {
        let pipeline = Pipeline::new(&memory, &world.params, settings, HashKey([5, 6, 7, 8]));
        pipeline.set_times(Arc::clone(&world.times));
        let outcome = pipeline.run().unwrap();
        let tip = memory.connected.lock().unwrap().last().map_or(GENESIS, |(node, _)| *node);
        let hash =
            world.jobs.iter().find(|job| job.context.node == tip).map_or(BlockHash::ZERO, |job| job.context.hash);
        pipeline.flush((tip, hash)).unwrap();
        outcome
    };
    (outcome, memory)
}

fn settings() -> impl Iterator<Item = (Settings, bool)> {
    let all = [(1, 1), (2, 256), (8, 17)];
    all.into_iter().flat_map(|(par, window_blocks)| {
        [false, true].map(|eager| (Settings { par, window_blocks, budget_bytes: 64 << 20 }, eager))
    })
}

/// Sets from expected_utxo.json.
#[test]
fn pipeline_of_real_chains_gives_the_expected_utxo_set() {
    for (chain, file, want) in [
        (Chain::Regtest, "chains/regtest_1_206.blk.xz", "regtest_kernel"),
        (Chain::Test, "chains/testnet3_1_2100.blk.xz", "testnet3"),
    ] {
        let (Some(world), Some(expected)) =
            (world(chain, file, true), testkit::data::load("chains/expected_utxo.json"))
        else {
            return;
        };
        let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
        let heights = expected[want].as_object().unwrap();
        let last = heights.iter().max_by_key(|(height, _)| height.parse::<u32>().unwrap()).unwrap().1;
        let mut first: Option<Vec<(NodeId, Option<Vec<u8>>)>> = None;
        for (settings, eager) in settings() {
            let (outcome, memory) = run(&world, settings, eager);
            assert!(matches!(outcome, Outcome::Done), "{file}, {settings:?}: {outcome:?}");
            let hash = memory.hash_serialized().to_string();
            assert_eq!(hash, last["hash_serialized_3"].as_str().unwrap(), "{file}, {settings:?}, eager {eager}");
            let connected = std::mem::take(&mut *memory.connected.lock().unwrap());
            assert_eq!(*first.get_or_insert_with(|| connected.clone()), connected, "{file}, {settings:?}");
            assert!(memory.commits.load(Ordering::Relaxed) >= if eager { 2 } else { 1 });
        }
    }
}
