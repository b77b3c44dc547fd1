//! Selection of a kernel: by the processor's instructions, or by name for tests and measurements.

use std::fmt;

use crate::cpu::Cpu;

use super::engine::{self, Blocks, Engine, Job, Times, block_count, bytes_of, drive};
use super::reference::{Portable, Reference, Words};
use super::stage::{Stage, copy_plain};
use super::{Midstate, Pieces};
#[cfg(all(target_arch = "aarch64", feature = "unproven"))]
use super::{armsha::ArmSha, neon::Neon};
#[cfg(target_arch = "x86_64")]
use super::{avx2::Avx2, avx512::Avx512, avx512x2::Avx512x2, shani::ShaNi};

/// An implementation of SHA-256. All give the same digests.
///
/// A value proves that this processor can run it: those that every processor runs are constants, the others come only
/// from [`Lanes::available`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lanes(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// FIPS 180-4 as written, message by message: the reference implementation.
    Reference,
    /// The `sha2` crate, message by message; it uses the SHA instructions that it knows.
    Portable,
    /// The SHA instructions of x86-64, message by message.
    ShaNi1,
    /// The SHA instructions of x86-64, three messages at a time.
    ShaNi3,
    /// AVX2, eight messages at a time.
    Avx2,
    /// AVX-512 F and BW, sixteen messages at a time.
    Avx512,
    /// AVX-512 F and BW, two vectors interleaved: 32 messages at a time.
    Avx512x2,
    /// NEON, four messages at a time.
    Neon,
    /// ARM's SHA instructions, message by message.
    ArmSha1,
    /// ARM's SHA instructions, three messages at a time.
    ArmSha3,
}

/// An engine's functions, and when to use it.
struct Step {
    /// Number of messages at a time.
    lanes: usize,
    /// Minimum number of messages for which it is used; fewer are left to the next step.
    busy_min: usize,
    drive: Drive,
    pairs: fn(&[[u8; 64]], &mut [[u8; 32]]),
    headers: fn(&[[u8; 80]], &mut [[u8; 32]]),
    pairs_after: PairsAfter,
    /// Only where it saves time. The rounds of a single vector wait for their own results, with or without schedules of
    /// their own: with AVX2 it saves 4 %.
    share: Option<Share>,
}

/// [`engine::drive`] of a specific engine.
type Drive = fn(Times, Vec<Job>, &[usize], &[Pieces<'_>], &mut [[u8; 32]], usize) -> Vec<Job>;

/// [`engine::pairs_after`] of a specific engine.
type PairsAfter = fn(Words, &[u8; 64], &[[u8; 64]], &mut [[u8; 32]]);

/// Hashes the same next blocks of at most as many messages as the engine has lanes.
type Share = fn(&mut [Job], &[[u8; 64]]);

/// One or more engines, from the widest to the one that hashes the remaining messages.
pub(crate) struct Kernel {
    steps: Vec<Step>,
}

impl Kernel {
    /// The fastest kernel if `cpu` was chosen: the widest lanes of this processor, and narrower ones for messages that
    /// do not fill them.
    pub(crate) fn best(cpu: Cpu) -> Kernel {
        let kinds: Vec<Kind> = Lanes::allowed(cpu).into_iter().map(|lanes| lanes.0).collect();
        chain(&kinds)
    }

    /// Hashes of messages of any lengths.
    ///
    /// # Panics
    ///
    /// If the lengths of `messages` and `out` differ.
    pub(crate) fn many(&self, times: Times, messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
        assert_eq!(messages.len(), out.len(), "a place for each message");
        let sorted;
        let mut order = &AS_THEY_COME[..messages.len().min(AS_THEY_COME.len())];
        if messages.len() > order.len() {
            sorted = longest_first(messages);
            order = &sorted;
        }
        self.run(times, Vec::new(), order, messages, out);
    }

    /// Double hashes of messages that begin with the blocks of `starts` and continue with `messages`.
    ///
    /// # Panics
    ///
    /// If the lengths of `starts`, `messages` and `out` differ.
    pub(crate) fn many_after(&self, starts: &[Midstate], messages: &[Pieces<'_>], out: &mut [[u8; 32]]) {
        assert!(starts.len() == messages.len() && messages.len() == out.len(), "a start and a place for each message");
        let job = |(message, start): (usize, &Midstate)| Job {
            message,
            blocks: Blocks { before: start.blocks, done: 0 },
            state: start.words,
        };
        let mut jobs: Vec<Job> = starts.iter().enumerate().map(job).collect();
        self.advance(&mut jobs, messages);
        // They are taken from the end, the longest first.
        jobs.sort_by_key(|job| bytes_of(&messages[job.message]) - job.blocks.done * 64);
        self.run(Times::Twice, jobs, &[], messages, out);
    }

    /// Hashes blocks that many of the messages share (see [`Shared`]), so that few blocks are left.
    fn advance(&self, jobs: &mut [Job], messages: &[Pieces<'_>]) {
        let widest = &self.steps[0];
        let Some(share) = widest.share else { return };
        // A shared block takes 0.6 of the time of others, so that idle lanes cost as much as they save.
        let lanes_min = widest.lanes * 5 / 8;
        if jobs.len() < lanes_min {
            return;
        }
        let shared = |job: &Job| Shared::of(&messages[job.message]);
        // Of those that end at the same place, ones with about as many blocks are adjacent.
        jobs.sort_by_key(|job| (shared(job).end(), shared(job).blocks.len()));
        for group in jobs.chunk_by_mut(|a, b| shared(a).end() == shared(b).end()) {
            for some in group.chunks_mut(widest.lanes).filter(|some| some.len() >= lanes_min) {
                Shared::advance(share, some, messages);
            }
        }
    }

    /// Whether messages with the same second pieces take less time.
    pub(crate) fn shares(&self) -> bool {
        self.steps[0].share.is_some()
    }

    /// Passes messages through the steps: those already begun, and new ones in this order.
    fn run(
        &self,
        times: Times,
        mut jobs: Vec<Job>,
        mut order: &[usize],
        messages: &[Pieces<'_>],
        out: &mut [[u8; 32]],
    ) {
        for step in &self.steps {
            if jobs.len() + order.len() >= step.busy_min {
                jobs = (step.drive)(times, jobs, order, messages, out, step.busy_min);
                order = &[];
            }
        }
        assert!(jobs.is_empty() && order.is_empty(), "the last engine takes single messages");
    }

    /// Double SHA-256 of messages of 64 bytes.
    pub(crate) fn pairs(&self, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
        self.fixed(pairs, out, |step, pairs, out| (step.pairs)(pairs, out));
    }

    /// Double SHA-256 of block headers.
    pub(crate) fn headers(&self, headers: &[[u8; 80]], out: &mut [[u8; 32]]) {
        self.fixed(headers, out, |step, headers, out| (step.headers)(headers, out));
    }

    /// SHA-256 of messages that begin with the blocks of `start` and go on with 64 bytes.
    pub(crate) fn pairs_after(&self, start: Midstate, pairs: &[[u8; 64]], out: &mut [[u8; 32]]) {
        let mut last = [0; 64];
        let bits = (start.blocks as u64 + 1) * 512;
        last[0] = 0x80;
        last[56..].copy_from_slice(&bits.to_be_bytes());
        self.fixed(pairs, out, |step, pairs, out| (step.pairs_after)(start.words, &last, pairs, out));
    }

    /// Passes messages of one fixed length through the steps.
    fn fixed<const B: usize>(
        &self,
        mut messages: &[[u8; B]],
        mut out: &mut [[u8; 32]],
        function: impl Fn(&Step, &[[u8; B]], &mut [[u8; 32]]),
    ) {
        for step in &self.steps {
            let last = messages.len() % step.lanes;
            let left = if last < step.busy_min { last } else { 0 };
            let (now, later) = messages.split_at(messages.len() - left);
            let (out_now, out_later) = out.split_at_mut(now.len());
            function(step, now, out_now);
            (messages, out) = (later, out_later);
        }
        assert!(messages.is_empty(), "the last engine takes single messages");
    }
}

/// The whole blocks of a message's second piece. Messages share them if they are the same bytes in memory.
#[derive(Clone, Copy)]
struct Shared<'a> {
    blocks: &'a [[u8; 64]],
    /// Number of the message's blocks before them.
    before: usize,
}

impl<'a> Shared<'a> {
    fn of(&[first, second, _]: &Pieces<'a>) -> Shared<'a> {
        let before = first.len().div_ceil(64);
        let (blocks, _) = second.get(before * 64 - first.len()..).unwrap_or_default().as_chunks();
        Shared { blocks, before }
    }

    /// Where they end in memory. Of two with the same end, the shorter is a part of the longer.
    fn end(&self) -> usize {
        self.blocks.as_ptr_range().end.addr()
    }

    /// Hashes the blocks that these messages share, which have not been begun, and before them, one after another, the
    /// blocks that they do not share. Does nothing if the latter are too many.
    fn advance(share: Share, jobs: &mut [Job], messages: &[Pieces<'a>]) {
        // A block alone takes up to five times as long as one that is not shared in lanes, a shared one about half.
        const SHARED_FOR_EACH: usize = 16;
        let of = |job: &Job| Shared::of(&messages[job.message]);
        let Some(least) = jobs.iter().map(of).min_by_key(|shared| shared.blocks.len()) else { return };
        let before = |job: &Job| of(job).before + of(job).blocks.len() - least.blocks.len();
        let alone: usize = jobs.iter().map(before).sum();
        if least.blocks.len() * jobs.len() < alone.max(jobs.len()) * SHARED_FOR_EACH {
            return;
        }
        for job in &mut *jobs {
            let end = before(job);
            job.advance_to(end, &messages[job.message]);
        }
        share(jobs, least.blocks);
    }
}

impl Job {
    /// Hashes blocks of the message until `end` are done.
    fn advance_to(&mut self, end: usize, message: &Pieces<'_>) {
        let mut stage = Stage::new();
        while self.blocks.done < end {
            let staged = stage.fill(message, self.blocks, copy_plain);
            let (blocks, _) = staged.unwrap_or_else(|| stage.blocks(0)).as_chunks();
            let blocks = &blocks[..blocks.len().min(end - self.blocks.done)];
            sha2::block_api::compress256(&mut self.state, blocks);
            self.blocks.done += blocks.len();
        }
    }
}

impl Lanes {
    /// The reference implementation.
    pub const REFERENCE: Lanes = Lanes(Kind::Reference);
    /// The `sha2` crate.
    pub const PORTABLE: Lanes = Lanes(Kind::Portable);

    /// The lanes that this processor can run, the reference first.
    #[must_use]
    pub fn available() -> Vec<Lanes> {
        Kind::ALL.map(Lanes).into_iter().filter(|lanes| lanes.detect().is_some()).collect()
    }

    /// Those of these lanes that are used if `cpu` was chosen. Lanes that were not measured must be requested
    /// explicitly.
    fn allowed(cpu: Cpu) -> Vec<Lanes> {
        let is_used = |kind: Cpu| cpu.allows(kind) && (kind != Cpu::Neon || cpu == Cpu::Neon);
        Lanes::available().into_iter().filter(|lanes| is_used(lanes.0.cpu())).collect()
    }

    /// The widest of the allowed lanes.
    pub(crate) fn best(cpu: Cpu) -> Lanes {
        Lanes::allowed(cpu).pop().unwrap_or(Lanes::PORTABLE)
    }

    /// The functions.
    pub(crate) fn kernel(self) -> Kernel {
        self.detect().expect("a value is made only where its engine was detected")
    }

    /// The functions, if this processor can run them.
    fn detect(self) -> Option<Kernel> {
        match self.0 {
            Kind::Reference => alone::<Reference, 1>(),
            Kind::Portable => alone::<Portable, 1>(),
            #[cfg(target_arch = "x86_64")]
            Kind::ShaNi1 => alone::<ShaNi<1>, 1>(),
            #[cfg(target_arch = "x86_64")]
            Kind::ShaNi3 => alone::<ShaNi<3>, 3>(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => alone::<Avx2, 8>(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => alone::<Avx512, 16>(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512x2 => Some(Kernel { steps: vec![two_vectors(1)?] }),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => alone::<Neon, 4>(),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::ArmSha1 => alone::<ArmSha<1>, 1>(),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::ArmSha3 => alone::<ArmSha<3>, 3>(),
            _ => None, // Another processor's.
        }
    }

    /// Its name, for a table of measurements.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Reference => "as the standard writes it",
            Kind::Portable => "the sha2 crate",
            Kind::ShaNi1 => "SHA-NI, one stream",
            Kind::ShaNi3 => "SHA-NI, three streams",
            Kind::Avx2 => "AVX2, 8 lanes",
            Kind::Avx512 => "AVX-512, 16 lanes",
            Kind::Avx512x2 => "AVX-512, two times 16 lanes",
            Kind::Neon => "NEON, 4 lanes",
            Kind::ArmSha1 => "ARM's SHA instructions, one stream",
            Kind::ArmSha3 => "ARM's SHA instructions, three streams",
        }
    }
}

impl Kind {
    /// All compiled kernels, the reference first.
    const ALL: [Kind; 10] = [
        Kind::Reference,
        Kind::Portable,
        Kind::ShaNi1,
        Kind::ShaNi3,
        Kind::Avx2,
        Kind::Avx512,
        Kind::Avx512x2,
        Kind::Neon,
        Kind::ArmSha1,
        Kind::ArmSha3,
    ];

    /// The processors that may run it; SHA-NI is newer than AVX2.
    fn cpu(self) -> Cpu {
        match self {
            Kind::Reference | Kind::Portable => Cpu::Plain,
            Kind::ShaNi1 | Kind::ShaNi3 | Kind::Avx2 => Cpu::Avx2,
            Kind::Avx512 | Kind::Avx512x2 => Cpu::Avx512,
            Kind::Neon | Kind::ArmSha1 | Kind::ArmSha3 => Cpu::Neon,
        }
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fastest chain of those of `allowed` that the processor can run. The number of messages at which a
/// wide engine becomes faster than the next was measured by `cargo bench`.
#[cfg(target_arch = "x86_64")]
fn chain(allowed: &[Kind]) -> Kernel {
    let sha = allowed.contains(&Kind::ShaNi3);
    let avx512 = allowed.contains(&Kind::Avx512);
    let mut steps = Vec::new();
    if avx512 {
        steps.push(two_vectors(20));
        steps.push(step::<Avx512, 16>(if sha { 11 } else { 2 }));
    }
    if sha {
        steps.push(step::<ShaNi<3>, 3>(2));
    } else if !avx512 && allowed.contains(&Kind::Avx2) {
        steps.push(step::<Avx2, 8>(3));
    }
    steps.push(step::<Portable, 1>(1));
    Kernel { steps: steps.into_iter().flatten().collect() }
}

/// The same for this processor, estimated from its instructions, not measured.
#[cfg(all(target_arch = "aarch64", feature = "unproven"))]
fn chain(allowed: &[Kind]) -> Kernel {
    let mut steps = Vec::new();
    if allowed.contains(&Kind::ArmSha3) {
        steps.push(step::<ArmSha<3>, 3>(2));
    } else if allowed.contains(&Kind::Neon) {
        steps.push(step::<Neon, 4>(3));
    }
    steps.push(step::<Portable, 1>(1));
    Kernel { steps: steps.into_iter().flatten().collect() }
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", feature = "unproven"))))]
fn chain(_: &[Kind]) -> Kernel {
    Kernel { steps: step::<Portable, 1>(1).into_iter().collect() }
}

/// A single engine, whatever the number of messages.
fn alone<E: Engine<N>, const N: usize>() -> Option<Kernel> {
    Some(Kernel { steps: vec![step::<E, N>(1)?] })
}

/// The functions of an engine, if the processor can run it.
fn step<E: Engine<N>, const N: usize>(busy_min: usize) -> Option<Step> {
    E::detect()?;
    Some(Step {
        lanes: N,
        busy_min,
        drive: |times, jobs, order, messages, out, busy_min| {
            drive((detect::<E, N>(), times), jobs, order, messages, out, busy_min)
        },
        pairs: |pairs, out| engine::pairs(detect::<E, N>(), pairs, out),
        headers: |headers, out| engine::headers(detect::<E, N>(), headers, out),
        share: None,
        pairs_after: |start, last, pairs, out| engine::pairs_after(detect::<E, N>(), start, last, pairs, out),
    })
}

/// [`step`] of [`Avx512x2`].
#[cfg(target_arch = "x86_64")]
fn two_vectors(busy_min: usize) -> Option<Step> {
    let share: Share = |jobs, blocks| detect::<Avx512x2, 32>().share(jobs, blocks);
    Some(Step { share: Some(share), ..step::<Avx512x2, 32>(busy_min)? })
}

/// The engine of a step.
fn detect<E: Engine<N>, const N: usize>() -> E {
    E::detect().expect("a step is made only where its engine was detected")
}

/// The order of messages if they are too few for wide lanes.
const AS_THEY_COME: [usize; 10] = {
    let mut order = [0; 10];
    let mut at = 0;
    while at < order.len() {
        order[at] = at;
        at += 1;
    }
    order
};

/// The messages by decreasing number of blocks: lanes that start together end together, and the longest messages are
/// not the last ones, for which the other lanes would be idle.
fn longest_first(messages: &[Pieces<'_>]) -> Vec<usize> {
    // Longer ones share the first group and are sorted separately: they are few.
    const GROUPS: usize = 64;
    let mut ends = [0_usize; GROUPS];
    let group = |message| (GROUPS - 1).saturating_sub(block_count(bytes_of(message)));
    for message in messages {
        ends[group(message)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        let count = *end;
        *end = sum;
        sum += count;
    }
    let mut order = vec![0; messages.len()];
    for (at, message) in messages.iter().enumerate() {
        let end = &mut ends[group(message)];
        order[*end] = at;
        *end += 1;
    }
    order[..ends[0]].sort_unstable_by_key(|at| std::cmp::Reverse(bytes_of(&messages[*at])));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    #[test]
    fn longest_come_first_and_none_is_lost() {
        let bytes = vec![1; 20_000];
        let lengths: Vec<usize> = (0..500).map(|at| at * at * 37 % 19_997).collect();
        let messages: Vec<Pieces<'_>> =
            lengths.iter().map(|length| [&bytes[..length / 3], &[], &bytes[length / 3..*length]]).collect();
        let order = longest_first(&messages);
        assert!(order.is_sorted_by(|a, b| block_count(lengths[*a]) >= block_count(lengths[*b])));
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>());
    }

    #[test]
    fn shared_blocks_are_hashed_first() {
        let bytes = Rng::new(9).bytes(8000);
        let (first, second) = bytes.split_at(100);
        for (row, messages, want) in [
            ("the same", vec![[first, second, first]; 96], 96 * 125),
            (
                "one starts later",
                [vec![[first, second, first]; 95], vec![[first, &second[64..], first]]].concat(),
                95 * 125 + 124,
            ),
            ("one ends elsewhere", [vec![[first, second, first]; 95], vec![[first, first, first]]].concat(), 95 * 125),
            (
                "one in the block",
                [vec![[first, second, first]; 95], vec![[&first[1..], second, first]]].concat(),
                95 * 125,
            ),
            ("too few", vec![[first, second, first]; 4], 0),
            ("too short", vec![[first, &second[..500], first]; 96], 0),
        ] {
            for lanes in Lanes::available() {
                let kernel = lanes.kernel();
                let job = |message| Job { message, blocks: Blocks::default(), state: super::super::START };
                let mut jobs: Vec<Job> = (0..messages.len()).map(job).collect();
                kernel.advance(&mut jobs, &messages);
                let done: usize = jobs.iter().map(|job| job.blocks.done).sum();
                assert_eq!(done, if kernel.shares() { want } else { 0 }, "{row}, {lanes:?}");
            }
        }
    }

    #[test]
    fn same_blocks_are_hashed_in_each_lane() {
        let bytes = Rng::new(10).bytes(64 * 70);
        for lanes in Lanes::available() {
            let step = &lanes.kernel().steps[0];
            let Some(share) = step.share else { continue };
            for count in [1, 2, step.lanes - 1, step.lanes, step.lanes + 1, 70] {
                let mut jobs: Vec<Job> = (0..step.lanes)
                    .map(|message| Job { message, blocks: Blocks::default(), state: [message as u32; 8] })
                    .collect();
                share(&mut jobs, &bytes.as_chunks().0[..count]);
                for (message, job) in jobs.iter().enumerate() {
                    let mut want = [message as u32; 8];
                    sha2::block_api::compress256(&mut want, &bytes.as_chunks().0[..count]);
                    assert_eq!((job.state, job.blocks.done), (want, count), "{lanes:?}, lane {message}");
                }
            }
        }
    }

    /// The chains of processors that this one can stand in for.
    #[test]
    fn every_chain_agrees_with_the_reference() {
        let mut rng = Rng::new(6);
        let data = rng.bytes(rounds(9000).max(400));
        let reference = Lanes::REFERENCE.kernel();
        let long = data.len();
        for count in (0..rounds(70)).chain([rounds(900), rounds(400)]) {
            let times = [Times::Once, Times::Twice][count % 2];
            let messages: Vec<Pieces<'_>> = (0..count)
                .map(|at| &data[..if at % 9 == 4 { rng.below(long) } else { rng.below(400) }])
                .map(|bytes| [&bytes[..bytes.len() / 50], &bytes[bytes.len() / 50..], &[]])
                .collect();
            let pairs: Vec<[u8; 64]> = (0..count).map(|at| [at as u8; 64]).collect();
            // Ends that many of them share, a few of them from another place on.
            let after: Vec<Pieces<'_>> =
                (0..count).map(|at| [&data[..64 + at % 7 / 6], &data[100..], &data[..at]]).collect();
            let starts = vec![Midstate::START; count];
            let mut want = (vec![[0; 32]; count], vec![[0; 32]; count], vec![[0; 32]; count]);
            reference.many(times, &messages, &mut want.0);
            reference.pairs(&pairs, &mut want.1);
            reference.many_after(&starts, &after, &mut want.2);
            for allowed in [
                &[][..],
                &[Kind::Avx2],
                &[Kind::ShaNi3],
                &[Kind::Avx2, Kind::ShaNi3],
                &[Kind::Avx2, Kind::Avx512],
                &[Kind::Neon],
                &Kind::ALL,
            ] {
                let chain = chain(allowed);
                let mut have = (vec![[1; 32]; count], vec![[1; 32]; count], vec![[1; 32]; count]);
                chain.many(times, &messages, &mut have.0);
                chain.pairs(&pairs, &mut have.1);
                chain.many_after(&starts, &after, &mut have.2);
                assert!(have == want, "{count} messages, {allowed:?}");
            }
        }
    }
}
