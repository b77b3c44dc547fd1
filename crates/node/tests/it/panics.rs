//! A panic in any thread of the pipeline ends the run with that panic, and does not leave the others waiting.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::memory_backend::Memory;
use coins::Generation;
use coins::table::HashKey;
use consensus::{Chain, Params, ScriptCheckReason};
use disk::SimDisk;
use node::Fault;
use node::chain::block::{Bip30, BlockContext, HeaderContext, Job};
use node::chain::tree::NodeId;
use node::jobs;
use node::pipeline::{Backend, Connected, Outcome, Pipeline, Settings};
use node::reporting::Event;
use primitives::{BlockHash, CoinKey, Header, Height, MedianTime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Calls that a backend gets.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Call {
    Next,
    LookUp,
    Connected,
    /// Asked by a worker that holds the scheduler's state.
    FlushIsDue,
    /// As well.
    TableBytes,
    Sync,
    BeginCommit,
    WritePart,
    FinishCommit,
    Compact,
    /// Asked by the thread that reads, which holds the state sometimes.
    Stopping,
}

/// Panics when it is called so for the n-th time.
struct Panics {
    memory: Memory,
    call: Call,
    left: AtomicU32,
}

impl Panics {
    fn met(&self, call: Call) {
        if call == self.call && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            panic!("on purpose, in {call:?}");
        }
    }
}

impl Backend for Panics {
    fn next(&self, enough: &dyn Fn() -> bool, waited: &mut Duration) -> Result<Option<Job>, Fault> {
        self.met(Call::Next);
        let next = self.memory.next(enough, waited)?;
        // Meanwhile the workers run out of work: who waits has to be told when another one panics.
        if next.as_ref().is_some_and(|job| job.context.height < Height::new(8)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(next)
    }
    fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        self.met(Call::LookUp);
        self.memory.look_up(keys, found)
    }
    fn connected(&self, block: &Connected<'_>) -> Result<(), Fault> {
        self.met(Call::Connected);
        self.memory.connected(block)
    }
    fn flush_is_due(&self) -> bool {
        self.met(Call::FlushIsDue);
        true
    }
    fn sync(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        self.met(Call::Sync);
        self.memory.sync(tip)
    }
    fn begin_commit(&self, tip: (NodeId, BlockHash), records: u64, bytes: u64) -> Result<bool, Fault> {
        self.met(Call::BeginCommit);
        self.memory.begin_commit(tip, records, bytes)
    }
    fn write_part(&self, first_group: usize, groups: &[Generation]) -> Result<(), Fault> {
        self.met(Call::WritePart);
        self.memory.write_part(first_group, groups)
    }
    fn finish_commit(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        self.met(Call::FinishCommit);
        self.memory.finish_commit(tip)
    }
    fn compact(&self) -> Result<bool, Fault> {
        self.met(Call::Compact);
        Ok(false)
    }
    fn table_bytes(&self) -> usize {
        self.met(Call::TableBytes);
        0
    }
    fn stopping(&self) -> bool {
        self.met(Call::Stopping);
        false
    }
}

/// Blocks on genesis, which comes first, as a pipeline takes them.
pub(crate) fn jobs(blocks: &[Vec<u8>]) -> Vec<Job> {
    let time = |height: usize| Header(*blocks[height].first_chunk().unwrap()).time();
    let job = |(height, block): (usize, &Vec<u8>)| {
        let at = HeaderContext {
            node: NodeId::new(height),
            hash: hash_of(block),
            header: Header(*block.first_chunk().unwrap()),
            height: Height::new(height as u32),
            parent_mtp: MedianTime::new(time(height.saturating_sub(6))),
            cleanup: consensus::Cleanup::Off,
        };
        let context = BlockContext {
            at,
            script_reason: Some(ScriptCheckReason::AlwaysVerify),
            flags: script::Flags::NONE,
            // Names that memory does not know are looked up.
            bip30: Bip30::Enforced,
            overwrites: false,
        };
        Job { context, bytes: block.clone().into(), checked: None, contextual: true, undo: Some([1; 4]) }
    };
    blocks.iter().enumerate().skip(1).map(job).collect()
}

/// Runs the chain, and writes all of it; says whether that ended with a panic.
fn run(call: Call, nth: u32, par: usize) -> bool {
    let params = Params::new(Chain::Regtest);
    let world = Panics { memory: Memory::default(), call, left: AtomicU32::new(nth) };
    world.memory.jobs.lock().unwrap().extend(jobs(&chain(110)));
    let settings = Settings { par, window_blocks: 20, budget_bytes: 64 << 20 };
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let pipeline = Pipeline::new(&world, &params, settings, HashKey([1; 4]));
        pipeline.set_times(Arc::new((0..=110).map(MedianTime::new).collect()));
        let outcome = pipeline.run().unwrap();
        assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
        let tip = pipeline.take_tip().expect("blocks were connected");
        pipeline.flush(tip).unwrap();
    }));
    panicked.is_err()
}

#[test]
fn panic_of_a_worker_ends_the_run() {
    use Call::*;
    let calls = [
        Next,
        LookUp,
        Connected,
        FlushIsDue,
        TableBytes,
        Sync,
        BeginCommit,
        WritePart,
        FinishCommit,
        Compact,
        Stopping,
    ];
    for call in calls {
        for (nth, par) in [(1, 1), (1, 8), (2, 3)] {
            let (done, ended) = channel();
            // On a thread of its own, so that one that hangs fails the test.
            std::thread::spawn(move || done.send(run(call, nth, par)));
            let panicked = ended.recv_timeout(Duration::from_secs(60));
            assert_eq!(panicked, Ok(true), "{call:?} for the {nth}th time, {par} workers");
        }
    }
    assert!(!run(Compact, u32::MAX, 2), "nothing is wrong with the run itself");
}

/// Of the whole job, too, whichever of its threads it is.
#[test]
fn panic_of_the_caller_ends_the_job() {
    for said in ["Enabling script verification", "progress"] {
        let (done, ended) = channel();
        std::thread::spawn(move || {
            let disk = SimDisk::new(0);
            put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(&chain(110)));
            let options = options(&disk, false);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _ = jobs::reindex(&options, false, &|event| match event {
                    Event::Note(text) if text.starts_with(said) => panic!("on purpose, while a note is told"),
                    Event::Progress(_) if said == "progress" => panic!("on purpose, while progress is told"),
                    // The work takes longer than the time between two words about it.
                    Event::Note(text) if text.starts_with("Enabling") => std::thread::sleep(Duration::from_millis(400)),
                    _ => {}
                });
            }));
            done.send(panicked.is_err())
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(true), "{said}");
    }
}
