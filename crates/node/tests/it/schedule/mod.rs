//! Random chains in random orders of tasks: every order ends with the UTXO set, the undo data and the verdicts of a plain
//! model.
//!
//! One thread plays all workers (`Pipeline::set_deterministic`), so that a seed gives the same order again, and what must
//! hold of the scheduler is checked after each step; about half of the runs use threads instead. `SLOW=1` runs for ten
//! minutes. A run that fails prints how to play it again.
//!
//! `model` says how a chain ends, `story` makes chains; here they are run and compared.

mod model;
mod story;

use crate::memory_backend::Memory;
use coins::table::HashKey;
use consensus::{Chain, Params};
use node::chain::headers::AssumeValid;
use node::pipeline::engine::{Activated, Engine, Setup};
use node::pipeline::{Runnable, Settings};
use primitives::{BlockHash, Header, Work};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::Rng;

pub(crate) use story::{Story, story};

const NOW: i64 = 1_795_262_400;

/// What runs of one story have in common.
#[derive(Default)]
struct Same {
    /// Undo data by block.
    undo: HashMap<BlockHash, Option<Vec<u8>>>,
    /// What was refused or lost and why, in order.
    reasons: Option<Vec<String>>,
    /// Questions behind which a better chain was left.
    left_count: usize,
}

/// One way to run a story.
#[derive(Clone, Debug)]
struct Way {
    settings: Settings,
    eager: bool,
    /// The order in which one thread does everything; with `None` several threads do.
    choices: Option<Rng>,
    /// When commits wait for compactions, or find the disk full; with `None` never.
    moods: Option<Rng>,
    /// When someone asks, so that a run ends before its last block; with `None` never.
    questions: Option<Rng>,
    /// Look-ups wait for the disk.
    has_slow_disk: bool,
}

impl Way {
    fn any(random: &mut Rng) -> Way {
        let settings = Settings {
            par: 1 + random.below(8),
            window_blocks: [1, 2, 5, 30, 200][random.below(5)],
            budget_bytes: [0, 100 << 10, 1 << 20, 64 << 20][random.below(4)],
        };
        let eager = random.below(2) == 0;
        let (choices, moods) = (Rng::new(random.u64()), Rng::new(random.u64()));
        let choices = (random.below(2) == 0).then_some(choices);
        let moods = (random.below(2) == 0).then_some(moods);
        let has_slow_disk = random.below(2) == 0;
        let questions = Rng::new(random.u64());
        let questions = (random.below(2) == 0).then_some(questions);
        Way { settings, eager, choices, moods, questions, has_slow_disk }
    }
}

/// Brings the chain to its best block, however often a run is ended by a question. Gives the number of questions behind
/// which a better chain was left.
fn activate(engine: &mut Engine<'_>, memory: &Memory) -> usize {
    let mut left_count = 0;
    loop {
        match engine.activate().unwrap() {
            Activated::Tip => {
                assert!(engine.is_at_best(), "a better chain is stored");
                return left_count;
            }
            Activated::Asked => left_count += usize::from(!engine.is_at_best()),
            ended => panic!("{ended:?}"),
        }
        memory.is_asked.store(false, Ordering::Relaxed);
    }
}

/// What was done, step by step, of all that could be done.
type Steps = Arc<Mutex<Vec<Runnable>>>;

/// Runs a story and compares its end with the model's, and with what other runs gave. Gives the steps of a run by one
/// thread.
fn check(story: &Story, way: Way, same: &mut Same) -> Vec<Runnable> {
    let steps = Steps::default();
    let params = Params::new(Chain::Regtest);
    let memory = Memory::new(&params);
    let index = memory.index();
    memory.eager.store(way.eager, Ordering::Relaxed);
    memory.has_slow_disk.store(way.has_slow_disk, Ordering::Relaxed);
    *memory.moods.lock().unwrap() = way.moods;
    *memory.questions.lock().unwrap() = way.questions;
    let setup = Setup {
        pipeline: way.settings,
        assume: AssumeValid { hash: BlockHash::ZERO, minimum_chain_work: Work::ZERO },
        stop_at: None,
        tip: node::chain::tree::GENESIS,
        secret: HashKey([1, 2, 3, 4]),
    };
    let mut engine = Engine::new(&params, &memory, index, setup);
    if let Some(mut random) = way.choices {
        let steps = Arc::clone(&steps);
        engine.pipeline.set_deterministic(Box::new(move |runnable| {
            let chosen = random.below(runnable.len());
            steps.lock().unwrap().push(runnable[chosen]);
            chosen
        }));
    }
    for block in story.groups.iter().flat_map(|group| group.iter().map(Some).chain([None])) {
        let Some(block) = block else {
            same.left_count += activate(&mut engine, &memory);
            continue;
        };
        let header = Header(*block.first_chunk().unwrap());
        let accepted = index.write().accept(&params, &header, header.hash(), NOW);
        // On a block that is refused by now nothing is built.
        let Ok(id) = accepted else { continue };
        memory.found(id, block.clone());
    }
    let (tip, best) = engine.tip_and_hash();
    engine.pipeline.flush((tip, best)).unwrap();
    drop(engine);
    assert_eq!((index.headers().height(tip).to_u32(), best), (story.end.height, story.end.tip));
    assert_eq!(*memory.tables.lock().unwrap(), story.end.table());
    let reasons = std::mem::take(&mut *memory.reasons.lock().unwrap());
    let want = &story.flaws;
    let all = reasons.len() == want.len() && reasons.iter().zip(want).all(|(reason, flaw)| flaw.says(reason));
    assert!(all, "{reasons:?}, want {want:?}");
    assert_eq!(*same.reasons.get_or_insert_with(|| reasons.clone()), reasons, "the same verdicts each time");
    for (node, bytes) in memory.connected.lock().unwrap().iter() {
        let hash = index.headers().hash(*node);
        assert_eq!(same.undo.entry(hash).or_insert_with(|| bytes.clone()), bytes, "undo data are the same each time");
    }
    std::mem::take(&mut *steps.lock().unwrap())
}

#[test]
fn random_schedules_agree_with_the_model() {
    const RUNS: usize = 4;
    let end = testkit::is_slow().then(|| Instant::now() + Duration::from_secs(600));
    let (mut stories, mut invalid, mut left_count, mut flaws) = (0, 0, 0, HashSet::new());
    for seed in testkit::seeds(if end.is_some() { u64::MAX } else { 10 }) {
        let mut random = Rng::new(seed);
        let (story, mut same) = (story(&mut random), Same::default());
        for run in 1..=RUNS {
            let way = Way::any(&mut random);
            println!(
                "run {run}: {way:?}\nto play it again{}: SEED={seed} cargo test -p ffwd-node --test it random_schedules",
                if way.choices.is_some() { "" } else { ", with threads in another order" }
            );
            check(&story, way, &mut same);
        }
        stories += 1;
        invalid += story.flaws.len();
        left_count += same.left_count;
        flaws.extend(story.flaws.iter().copied());
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    println!(
        "{} runs, {invalid} invalid blocks in their stories, of {} kinds; {left_count} questions left a better chain",
        stories * RUNS,
        flaws.len()
    );
    assert!(stories < 10 || flaws.len() > 5, "blocks are refused at many stages: {flaws:?}");
    assert!(stories < 10 || left_count > 10, "questions end runs before their last block: {left_count}");
}

#[test]
fn seed_played_again_takes_the_same_steps() {
    for seed in testkit::seeds(3) {
        let mut random = Rng::new(seed);
        let (story, mut same) = (story(&mut random), Same::default());
        let way = Way { choices: Some(Rng::new(seed)), ..Way::any(&mut random) };
        let first = check(&story, way.clone(), &mut same);
        assert!(first.len() > 1000 && first == check(&story, way, &mut same));
    }
}
