//! Builds the planned blocks on all cores, in order.
//!
//! One thread plans, several build transactions, the caller's thread writes. Work is distributed in chunks of
//! [`CHUNK_TRANSACTIONS`] in the order of the chain, across blocks. A chunk that needs a txid waits for it (`ids`);
//! everything that it can wait for was distributed earlier. The thread that builds the last chunk of a block also
//! builds its coinbase and its merkle root.
//!
//! Absent on purpose: anything that depends on thread scheduling, so that any number of threads produces the same
//! bytes.

use super::build::{Builder, Chunk, coinbase};
use super::files::{BlockFiles, Body};
use super::ids::Ids;
use super::keys::Keys;
use super::plan::{BlockPlan, Planner, Totals};
use super::{Error, Options};
use primitives::{Hash256, Height, Wtxid, merkle};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// Number of transactions that are built at a time: some milliseconds of signing.
const CHUNK_TRANSACTIONS: usize = 64;
/// Number of blocks that are planned ahead of the one being written; each takes a few megabytes.
const BLOCKS_AHEAD: usize = 8;

/// A block that is being built.
#[derive(Debug)]
struct Job {
    plan: BlockPlan,
    /// Number of pieces that are not built yet.
    missing: AtomicUsize,
    chunks: Vec<OnceLock<Chunk>>,
    top: OnceLock<Top>,
}

/// The coinbase, which is built last.
#[derive(Debug)]
struct Top {
    coinbase: Vec<u8>,
    merkle_root: Hash256,
}

impl Job {
    fn new(plan: BlockPlan) -> Job {
        // A block without transactions still needs a task that builds its coinbase.
        let chunks = plan.txs.len().div_ceil(CHUNK_TRANSACTIONS).max(1);
        Job {
            plan,
            missing: AtomicUsize::new(chunks),
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            top: OnceLock::new(),
        }
    }

    fn make(&self, index: usize, builder: &mut Builder<'_>, shared: &Shared<'_>) {
        let from = index * CHUNK_TRANSACTIONS;
        let to = self.plan.txs.len().min(from + CHUNK_TRANSACTIONS);
        let chunk = builder.chunk(&self.plan, from..to);
        self.chunks[index].set(chunk).expect("each piece is made once");
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.top.set(self.make_top(shared)).expect("one piece is the last");
        }
    }

    fn make_top(&self, shared: &Shared<'_>) -> Top {
        let wtxids: Vec<Wtxid> = self.made().flat_map(|chunk| &chunk.wtxids).copied().collect();
        let first = self.plan.first_tx;
        let (coinbase, txid) = coinbase(&self.plan, shared.keys, shared.seed, &wtxids);
        shared.ids.set(first, txid);
        let numbers = first..=first + self.plan.txs.len() as u32;
        let mut leaves = numbers.map(|number| shared.ids.wait(number).to_hash256()).collect();
        Top { coinbase, merkle_root: merkle::root(kernels::Kernels::AUTO, &mut leaves).0 }
    }

    fn made(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().map(|chunk| chunk.get().expect("every piece is made by now"))
    }

    fn write(&self, files: &mut BlockFiles) -> Result<(), Error> {
        let top = self.top.wait();
        let pieces: Vec<&[u8]> =
            std::iter::once(&top.coinbase[..]).chain(self.made().map(|chunk| &chunk.bytes[..])).collect();
        files.append(&Body { merkle_root: top.merkle_root, transactions: self.plan.txs.len() + 1, pieces: &pieces })
    }
}

/// Data that all threads read.
struct Shared<'a> {
    keys: &'a Keys,
    ids: &'a Ids,
    seed: u64,
}

type Task = (Arc<Job>, usize);

/// Builds and writes all blocks that `planner` plans; calls `written` after each of them. Returns the counts of the
/// planned chain.
pub(super) fn run(
    options: &Options,
    keys: &Keys,
    threads: NonZeroUsize,
    mut planner: Planner,
    files: &mut BlockFiles,
    mut written: impl FnMut(Height, &BlockFiles),
) -> Result<Totals, Error> {
    let ids = Ids::new();
    let shared = Shared { keys, ids: &ids, seed: options.seed };
    let (jobs_in, jobs_out) = sync_channel::<Arc<Job>>(BLOCKS_AHEAD);
    let (tasks_in, tasks_out) = sync_channel::<Task>(threads.get() * 4);
    let tasks_out = Mutex::new(tasks_out);
    thread::scope(|scope| {
        let planned = scope.spawn(move || {
            hand_out(&mut planner, &jobs_in, &tasks_in);
            planner.totals()
        });
        for _ in 0..threads.get() {
            scope.spawn(|| work(&tasks_out, options, &shared));
        }
        // Moved in, so that it is dropped if writing fails: then the planner stops, and afterwards all threads.
        let mut write = move |jobs_out: Receiver<Arc<Job>>| -> Result<(), Error> {
            for job in jobs_out {
                job.write(files)?;
                written(job.plan.height, files);
            }
            files.flush()
        };
        let result = write(jobs_out);
        let totals = planned.join().expect("planning does not panic");
        result.map(|()| totals)
    })
}

/// Plans and distributes chunks until the end, or until the writer was dropped.
fn hand_out(planner: &mut Planner, jobs: &SyncSender<Arc<Job>>, tasks: &SyncSender<Task>) {
    for plan in planner {
        let job = Arc::new(Job::new(plan));
        if jobs.send(Arc::clone(&job)).is_err() {
            return;
        }
        for index in 0..job.chunks.len() {
            tasks.send((Arc::clone(&job), index)).expect("workers stay until the sender is gone");
        }
    }
}

fn work(tasks: &Mutex<Receiver<Task>>, options: &Options, shared: &Shared<'_>) {
    let mut builder = Builder::new(shared.keys, shared.ids, options.signatures, shared.seed);
    loop {
        // The lock is held while waiting: tasks are taken in order, by one at a time.
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, index)) = task else { return };
        job.make(index, &mut builder, shared);
    }
}
