//! The interface of kernels, and the scheduling of many messages onto their lanes.
//!
//! A lane processes one message at a time and takes the next message when it has finished one, so that few lanes are
//! idle. Digests of finished messages are collected and, for a double hash, hashed again a full set at a time.
//!
//! Absent on purpose: instructions (see the engines), padding (see [`super::stage`]).

use super::Pieces;
use super::reference::{START, Words};
use super::stage::{STAGE_BYTES, Stage, copy_plain};
use crate::prefetch::prefetch;

/// A kernel with `N` lanes. A value proves that this processor has its instructions.
pub(super) trait Engine<const N: usize>: Copy {
    /// The state words of all lanes, in the kernel's layout.
    type State: Clone;

    /// The engine, if the processor can run it.
    fn detect() -> Option<Self>;

    /// The state of `N` lanes before their first blocks.
    fn start() -> Self::State;

    /// Sets the state words of one lane.
    fn set(state: &mut Self::State, lane: usize, words: Words);

    /// The state words of one lane.
    fn get(state: &Self::State, lane: usize) -> Words;

    /// Hashes the first `count` blocks of each lane into its state.
    ///
    /// # Panics
    ///
    /// If a lane has fewer blocks.
    fn compress(self, state: &mut Self::State, lanes: &[&[u8]; N], count: usize);

    /// Hashes into each state the block of padding that follows 64 bytes.
    fn pad_64(self, state: &mut Self::State);

    /// Replaces each state, read as a digest, by that digest's SHA-256.
    fn again(self, state: &mut Self::State);

    /// Writes the bytes of each state, read as a digest.
    #[inline]
    fn digests(self, state: &Self::State, out: &mut [[u8; 32]; N]) {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = digest(Self::get(state, lane));
        }
    }

    /// [`Stage::fill`] with the kernel's copy function.
    #[inline]
    fn stage<'a>(self, stage: &mut Stage, message: &Pieces<'a>, blocks: Blocks) -> Option<&'a [u8]> {
        stage.fill(message, blocks, copy_plain)
    }
}

/// The first `count` blocks of a lane.
///
/// # Panics
///
/// If it has fewer.
#[inline]
pub(super) fn blocks_of(lane: &[u8], count: usize) -> &[[u8; 64]] {
    let (blocks, _) = lane.as_chunks();
    &blocks[..count]
}

/// Number of 64-byte blocks of a message of `bytes` bytes, including padding and length.
#[inline]
pub(super) fn block_count(bytes: usize) -> usize {
    (bytes + 9).div_ceil(64)
}

/// The bytes of a message.
#[inline]
pub(super) fn bytes_of(message: &Pieces<'_>) -> usize {
    message[0].len() + message[1].len() + message[2].len()
}

/// The number of times that a message is hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// SHA-256.
    Once,
    /// SHA-256 of the SHA-256.
    Twice,
}

/// Blocks of a message that have been hashed.
#[derive(Clone, Copy, Default)]
pub(super) struct Blocks {
    /// The blocks before its pieces: they are missing, because the given state includes them.
    pub(super) before: usize,
    /// Those of its pieces.
    pub(super) done: usize,
}

/// A message whose first blocks have been hashed.
#[derive(Clone, Copy)]
pub(super) struct Job {
    /// Index of the message.
    pub(super) message: usize,
    /// Number of its blocks in `state`.
    pub(super) blocks: Blocks,
    pub(super) state: Words,
}

/// Computes the hashes of the messages in `order` and of those in `jobs`, which have been begun, into their positions
/// of `out`.
///
/// When fewer than `busy_min` lanes (at least 1) have work, it returns the remaining jobs, for another engine.
pub(super) fn drive<E: Engine<N>, const N: usize>(
    (engine, times): (E, Times),
    jobs: Vec<Job>,
    order: &[usize],
    messages: &[Pieces<'_>],
    out: &mut [[u8; 32]],
    busy_min: usize,
) -> Vec<Job> {
    let mut stages = [const { Stage::new() }; N];
    let mut lanes = LaneSet::<E, N>::new((engine, times), jobs, order);
    loop {
        lanes.finish(out);
        let busy = lanes.refill(messages, &mut stages);
        if busy < busy_min && lanes.is_last() {
            lanes.flush(out);
            return lanes.leave();
        }
        lanes.step(&stages);
    }
}

/// Finished lanes wait for those with a message of at most this many blocks: short messages that start and end together
/// cost less than the blocks for which a lane waits.
const SHORT_BLOCKS_MAX: usize = STAGE_BYTES / 64;

/// Only engines with at least this number of lanes let lanes wait; in the others an idle lane costs more.
const WIDE: usize = 8;

/// A message in progress.
#[derive(Clone, Copy)]
struct Lane<'a> {
    message: usize,
    /// Blocks of the message that are in the state.
    blocks: Blocks,
    /// Blocks of the message's pieces; 0: the lane is idle.
    total: usize,
    /// The next blocks in place, in the message itself; `None` if they are staged.
    direct: Option<&'a [u8]>,
    /// Number of blocks already taken from there, and of blocks available there.
    taken: usize,
    have: usize,
}

impl Lane<'_> {
    const IDLE: Self =
        Lane { message: 0, blocks: Blocks { before: 0, done: 0 }, total: 0, direct: None, taken: 0, have: 0 };
}

struct LaneSet<'a, 'o, E: Engine<N>, const N: usize> {
    engine: E,
    times: Times,
    /// Messages waiting for a lane: those already begun, then new ones.
    jobs: Vec<Job>,
    order: std::slice::Iter<'o, usize>,
    lanes: [Lane<'a>; N],
    state: E::State,
    /// Whether every idle lane's state is that of a new message.
    clean: bool,
    /// Digests that wait for their second hash or for output, and their messages.
    digests: E::State,
    owners: [usize; N],
    waiting: usize,
}

impl<'a, 'o, E: Engine<N>, const N: usize> LaneSet<'a, 'o, E, N> {
    fn new((engine, times): (E, Times), jobs: Vec<Job>, order: &'o [usize]) -> Self {
        LaneSet {
            engine,
            times,
            jobs,
            order: order.iter(),
            lanes: [Lane::IDLE; N],
            state: E::start(),
            clean: true,
            digests: E::start(),
            owners: [0; N],
            waiting: 0,
        }
    }

    /// Removes finished messages from their lanes.
    fn finish(&mut self, out: &mut [[u8; 32]]) {
        let has_ended = |lane: &Lane<'_>| lane.blocks.done == lane.total && lane.total > 0;
        let ended = self.lanes.iter().filter(|lane| has_ended(lane)).count();
        if ended * 2 >= N {
            // The usual case, because messages are ordered by their number of blocks: lanes need not be moved
            // individually.
            self.write_ended(ended, out);
            return;
        }
        for at in 0..N {
            let lane = &mut self.lanes[at];
            if has_ended(lane) {
                E::set(&mut self.digests, self.waiting, E::get(&self.state, at));
                self.owners[self.waiting] = lane.message;
                self.waiting += 1;
                (*lane, self.clean) = (Lane::IDLE, false);
                if self.waiting == N {
                    self.flush(out);
                }
            }
        }
    }

    /// Hashes all states again if the hash is double, and writes the digests of the `ended` lanes that have finished.
    fn write_ended(&mut self, ended: usize, out: &mut [[u8; 32]]) {
        let mut state = self.state.clone();
        let mut digests = [[0; 32]; N];
        if self.times == Times::Twice {
            self.engine.again(&mut state);
        }
        self.engine.digests(&state, &mut digests);
        for (lane, digest) in self.lanes.iter_mut().zip(&digests) {
            if lane.blocks.done == lane.total && lane.total > 0 {
                out[lane.message] = *digest;
                *lane = Lane::IDLE;
            }
        }
        self.clean = ended == N;
        if self.clean {
            self.state = E::start();
        }
    }

    /// Hashes the waiting digests again if the hash is double, and writes them to their places.
    fn flush(&mut self, out: &mut [[u8; 32]]) {
        if self.waiting > 0 {
            if self.times == Times::Twice {
                self.engine.again(&mut self.digests);
            }
            let mut digests = [[0; 32]; N];
            self.engine.digests(&self.digests, &mut digests);
            for (digest, owner) in digests.iter().zip(&self.owners[..self.waiting]) {
                out[*owner] = *digest;
            }
            self.waiting = 0;
        }
    }

    /// Supplies every lane with blocks, of its message or of a new one. Returns the number of busy lanes.
    fn refill(&mut self, messages: &[Pieces<'a>], stages: &mut [Stage; N]) -> usize {
        let mut busy = 0;
        let wait = N >= WIDE && self.lanes.iter().any(|lane| (1..=SHORT_BLOCKS_MAX).contains(&lane.total));
        for (at, stage) in stages.iter_mut().enumerate() {
            if self.lanes[at].total == 0 && (wait || !self.begin(at, messages)) {
                continue;
            }
            busy += 1;
            let lane = &mut self.lanes[at];
            if lane.taken == lane.have {
                let message = &messages[lane.message];
                lane.direct = self.engine.stage(stage, message, lane.blocks);
                lane.have = lane.direct.map_or(stage.count(), |bytes| bytes.len() / 64);
                lane.taken = 0;
            }
        }
        busy
    }

    /// Starts the next message in a lane, if there is one.
    #[inline]
    fn begin(&mut self, at: usize, messages: &[Pieces<'a>]) -> bool {
        let lane = &mut self.lanes[at];
        if let Some(job) = self.jobs.pop() {
            (lane.message, lane.blocks) = (job.message, job.blocks);
            E::set(&mut self.state, at, job.state);
        } else if let Some(message) = self.order.next() {
            lane.message = *message;
            if !self.clean {
                E::set(&mut self.state, at, START);
            }
        } else {
            return false;
        }
        lane.total = block_count(bytes_of(&messages[lane.message]));
        if let Some(later) = self.order.as_slice().get(N - 1) {
            prefetch_start(&messages[*later]);
        }
        true
    }

    /// Whether no message waits for a lane.
    fn is_last(&self) -> bool {
        self.jobs.is_empty() && self.order.len() == 0
    }

    /// Hashes the same number of blocks in every busy lane: the smallest number that one of them has left.
    fn step(&mut self, stages: &[Stage; N]) {
        let mut count = usize::MAX;
        let mut spare: &[u8] = &[];
        let mut blocks = [spare; N];
        for ((lane, stage), blocks) in self.lanes.iter().zip(stages).zip(&mut blocks) {
            if lane.total > 0 {
                *blocks = match lane.direct {
                    None => stage.blocks(lane.taken),
                    Some(bytes) => &bytes[lane.taken * 64..],
                };
                if lane.have - lane.taken < count {
                    count = lane.have - lane.taken;
                    spare = blocks;
                }
            }
        }
        for (lane, blocks) in self.lanes.iter_mut().zip(&mut blocks) {
            if lane.total > 0 {
                lane.taken += count;
                lane.blocks.done += count;
            } else {
                // An idle lane repeats another's blocks; its state is not read.
                (*blocks, self.clean) = (spare, false);
            }
        }
        self.engine.compress(&mut self.state, &blocks, count);
    }

    /// The unfinished jobs.
    fn leave(self) -> Vec<Job> {
        let job = |(at, lane): (usize, &Lane<'_>)| Job {
            message: lane.message,
            blocks: lane.blocks,
            state: E::get(&self.state, at),
        };
        let busy = self.lanes.iter().enumerate().filter(|(_, lane)| lane.total > 0);
        busy.map(job).collect()
    }
}

/// Prefetches the first bytes of a message: messages that are sorted by length are scattered in memory.
#[inline]
fn prefetch_start(message: &Pieces<'_>) {
    for piece in message {
        for at in (0..piece.len().min(STAGE_BYTES)).step_by(64) {
            prefetch(piece, at);
        }
    }
}

/// The bytes of a digest.
#[inline]
fn digest(words: Words) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

/// Writes the digests of as many lanes as `out` has places.
#[inline]
fn write_first<E: Engine<N>, const N: usize>(engine: E, state: &E::State, out: &mut [[u8; 32]]) {
    if let Ok(out) = out.try_into() {
        engine.digests(state, out);
    } else {
        let mut digests = [[0; 32]; N];
        engine.digests(state, &mut digests);
        out.copy_from_slice(&digests[..out.len()]);
    }
}

/// Double SHA-256 of messages of 64 bytes, `N` at a time; the last set may have idle lanes.
pub(super) fn pairs<E: Engine<N>, const N: usize>(engine: E, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
    for (pairs, out) in pairs.chunks(N).zip(out.chunks_mut(N)) {
        let mut state = E::start();
        // A lane without a pair repeats the first lane's pair; its digest is not read.
        let lanes: [&[u8]; N] = std::array::from_fn(|at| &pairs.get(at).unwrap_or(&pairs[0])[..]);
        engine.compress(&mut state, &lanes, 1);
        engine.pad_64(&mut state);
        engine.again(&mut state);
        write_first(engine, &state, out);
    }
}

/// SHA-256 of messages that begin with the blocks of `start`, go on with 64 bytes and end with the padding `last`, `N` at
/// a time; the last set may have idle lanes.
pub(super) fn pairs_after<E: Engine<N>, const N: usize>(
    engine: E,
    start: Words,
    last: &[u8; 64],
    pairs: &[[u8; 64]],
    out: &mut [[u8; 32]],
) {
    let mut begun = E::start();
    (0..N).for_each(|lane| E::set(&mut begun, lane, start));
    for (pairs, out) in pairs.chunks(N).zip(out.chunks_mut(N)) {
        let mut state = begun.clone();
        let lanes: [&[u8]; N] = std::array::from_fn(|at| &pairs.get(at).unwrap_or(&pairs[0])[..]);
        engine.compress(&mut state, &lanes, 1);
        engine.compress(&mut state, &[&last[..]; N], 1);
        write_first(engine, &state, out);
    }
}

/// Double SHA-256 of block headers, `N` at a time; the last set may have idle lanes.
pub(super) fn headers<E: Engine<N>, const N: usize>(engine: E, headers: &[[u8; 80]], out: &mut [[u8; 32]]) {
    // The second block: the last 16 bytes, the padding's first bit, the length of 640 bits.
    let mut tails = [[0; 64]; N];
    for tail in &mut tails {
        (tail[16], tail[62], tail[63]) = (0x80, 2, 0x80);
    }
    for (headers, out) in headers.chunks(N).zip(out.chunks_mut(N)) {
        let mut state = E::start();
        for (tail, header) in tails.iter_mut().zip(headers) {
            tail[..16].copy_from_slice(&header[64..]);
        }
        let lanes: [&[u8]; N] = std::array::from_fn(|at| &headers.get(at).unwrap_or(&headers[0])[..64]);
        engine.compress(&mut state, &lanes, 1);
        engine.compress(&mut state, &tails.each_ref().map(|tail| &tail[..]), 1);
        engine.again(&mut state);
        write_first(engine, &state, out);
    }
}
