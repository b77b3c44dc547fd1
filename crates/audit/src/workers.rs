//! Validates the blocks of a range on several threads: a block is checked by one thread, its scripts by all.
//!
//! A thread prefers pieces of scripts to another block, so that few blocks are in progress, and all threads share the
//! last one. Absent on purpose: processing of a validated block.

use node::Fault;
use node::offline::files::{self, ChainFiles, JudgedBlock, Wrong};
use primitives::Height;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Inputs of a piece: enough to fill a batch of signatures.
const INPUTS_PER_PIECE: usize = 256;
/// Blocks in work for each thread: bounds the memory.
const OPEN_BLOCKS: usize = 2;

/// Some inputs of a block.
struct Piece {
    block: Arc<Open>,
    inputs: Range<usize>,
}

/// A block whose scripts are run.
struct Open {
    height: Height,
    judged: JudgedBlock,
    pieces_left: AtomicUsize,
}

enum Task {
    Block(Height),
    Piece(Piece),
}

struct WorkList {
    /// The next block; above the last one at the end.
    next: u64,
    pieces: VecDeque<Piece>,
    /// Number of blocks in progress.
    open: usize,
    /// The lowest invalid block.
    wrong: Option<(Height, Wrong)>,
    is_panicking: bool,
}

struct Work<'c> {
    chain: &'c ChainFiles,
    par: usize,
    state: Mutex<WorkList>,
    changed: Condvar,
}

/// Stops the other threads if one of them panics.
struct EndOnPanic<'w, 'c>(&'w Work<'c>);

impl Drop for EndOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_panicking = true;
            self.0.changed.notify_all();
        }
    }
}

impl Work<'_> {
    fn lock(&self) -> MutexGuard<'_, WorkList> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_task(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.is_panicking {
                return None;
            }
            if let Some(piece) = state.pieces.pop_front() {
                return Some(Task::Piece(piece));
            }
            let is_left = state.wrong.is_none() && state.next <= u64::from(self.chain.last().to_u32());
            if is_left && state.open < self.par * OPEN_BLOCKS {
                let height = Height::new(state.next as u32);
                state.next += 1;
                state.open += 1;
                return Some(Task::Block(height));
            }
            if !is_left && state.open == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records an invalid block, unless a lower one is invalid. Blocks above it need not be checked any more.
    fn wrong(&self, height: Height, why: Wrong) {
        let mut state = self.lock();
        if state.wrong.as_ref().is_none_or(|(lowest, _)| height < *lowest) {
            state.wrong = Some((height, why));
        }
    }

    fn block_done(&self) {
        self.lock().open -= 1;
        self.changed.notify_all();
    }

    fn block<T>(&self, height: Height, own: &mut T, take: &(impl Fn(&mut T, &JudgedBlock) + Sync)) {
        let judged = match files::judge(self.chain, height) {
            Ok(judged) => judged,
            Err(why) => {
                self.wrong(height, why);
                return self.block_done();
            }
        };
        take(own, &judged);
        let inputs = judged.inputs();
        let pieces = inputs.div_ceil(INPUTS_PER_PIECE);
        if pieces == 0 {
            return self.block_done();
        }
        let block = Arc::new(Open { height, judged, pieces_left: AtomicUsize::new(pieces) });
        let first = (0..pieces).map(|at| {
            let start = at * INPUTS_PER_PIECE;
            Piece { block: block.clone(), inputs: start..inputs.min(start + INPUTS_PER_PIECE) }
        });
        self.lock().pieces.extend(first);
        self.changed.notify_all();
    }

    fn piece(&self, piece: Piece) {
        let height = piece.block.height;
        let is_wanted = self.lock().wrong.as_ref().is_none_or(|(lowest, _)| height <= *lowest);
        if is_wanted && let Err(why) = files::scripts(&piece.block.judged, piece.inputs) {
            self.wrong(height, why);
        }
        if piece.block.pieces_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.block_done();
        }
    }
}

/// Why the validation stopped.
pub(crate) struct Stopped {
    /// The lowest invalid block, if a block is the cause.
    pub(crate) height: Option<Height>,
    /// The reason.
    pub(crate) wrong: Wrong,
}

/// Validates every block of the range with `par` threads. Each thread has a value made by `new`; `take` passes the
/// thread's blocks to it, in any order; `done` receives the values at the end.
///
/// # Errors
///
/// The lowest invalid block with the reason, or the failure to start a thread.
pub(crate) fn judge_all<T: Send>(
    chain: &ChainFiles,
    par: usize,
    new: impl Fn() -> T + Sync,
    take: impl Fn(&mut T, &JudgedBlock) + Sync,
    mut done: impl FnMut(T),
) -> Result<(), Box<Stopped>> {
    let state = WorkList {
        next: chain.first().to_u32().into(),
        pieces: VecDeque::new(),
        open: 0,
        wrong: None,
        is_panicking: false,
    };
    let work = Work { chain, par: par.max(1), state: Mutex::new(state), changed: Condvar::new() };
    let worker = || {
        let _end = EndOnPanic(&work);
        let mut own = new();
        while let Some(task) = work.next_task() {
            match task {
                Task::Block(height) => work.block(height, &mut own, &take),
                Task::Piece(piece) => work.piece(piece),
            }
        }
        own
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for n in 0..work.par {
            match std::thread::Builder::new().name(format!("audit.{n:02}")).spawn_scoped(scope, worker) {
                Ok(thread) => threads.push(thread),
                // The threads that could be started do the work.
                Err(_) if n > 0 => break,
                Err(why) => {
                    let fault = Fault::refused(
                        format!("no thread can be started: {why}"),
                        "Raise the limit of processes and threads (ulimit -u), or lower --par",
                    );
                    return Err(Box::new(Stopped { height: None, wrong: Wrong::Fault(fault) }));
                }
            }
        }
        for thread in threads {
            match thread.join() {
                Ok(own) => done(own),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })?;
    let state = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.wrong {
        Some((height, wrong)) => Err(Box::new(Stopped { height: Some(height), wrong })),
        None => Ok(()),
    }
}
