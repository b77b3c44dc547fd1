//! Transfers by seed: mirrors that are honest and not, in any order of events, without sockets.

use super::*;

const MIB: usize = 1 << 20;

/// How a mirror behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Good,
    /// Every byte from a third of the file on is another one.
    Lies,
    /// Each answer breaks off.
    Cuts,
    /// It answers, and then sends nothing.
    Mute,
    /// It sends a byte at a time.
    Drips,
    /// It cannot be reached.
    Closed,
    /// It sends the whole file each time.
    Whole,
    /// From its second answer on the file is another one.
    Changes,
    /// Another file.
    Other,
}

#[derive(Default)]
struct Doing {
    task: Option<Task>,
    at: u64,
    to: u64,
    answers: u32,
}

struct World {
    file: Vec<u8>,
    ways: Vec<Way>,
    plan: Plan,
    doing: Vec<Doing>,
    now: Duration,
    rng: testkit::Rng,
    sent: u64,
    memory: usize,
}

fn names(ways: &[Way]) -> Vec<String> {
    ways.iter().enumerate().map(|(number, way)| format!("{number}:{way:?}")).collect()
}

impl World {
    fn new(ways: &[Way], bytes: usize, seed: u64) -> World {
        let mut rng = testkit::Rng::new(seed);
        let file = [b"utxo\xff".to_vec(), (0..bytes).map(|_| rng.u32() as u8).collect()].concat();
        let plan = Plan::new(names(ways), b"utxo\xff", 51, Rng::Seeded(seed));
        let doing = ways.iter().map(|_| Doing::default()).collect();
        World { file, ways: ways.to_vec(), plan, doing, now: Duration::ZERO, rng, sent: 0, memory: 0 }
    }

    fn bytes(&self, mirror: usize, from: u64, to: u64) -> Vec<u8> {
        let lies_from = self.file.len() / 3;
        let way = self.ways[mirror];
        (from as usize..to as usize)
            .map(|at| match way {
                Way::Lies if at >= lies_from => !self.file[at],
                Way::Other if at < 51 => 0,
                _ => self.file[at],
            })
            .collect()
    }

    fn fail(&mut self, mirror: usize, why: &str) {
        self.plan.failed(mirror, &Failure::Later(why.to_owned()), self.now);
        self.doing[mirror].task = None;
    }

    /// A mirror answers a request.
    fn answer(&mut self, mirror: usize, task: Task) {
        let way = self.ways[mirror];
        let total = self.file.len() as u64;
        if way == Way::Closed {
            return self.fail(mirror, "refused");
        }
        self.doing[mirror].answers += 1;
        let changed = u64::from(way == Way::Changes && self.doing[mirror].answers > 1);
        let (from, to) = match task {
            Task::Probe(bytes) => (0, bytes),
            Task::Range { from, to } => (from, to.unwrap_or(total)),
            Task::Sample { from, to } => (from, to),
            Task::Whole { needed } => (needed, total),
            Task::Rest(_) => return,
        };
        let body = Body { from, to, total: total + changed, has_ranges: way != Way::Whole, tag: None };
        let first = matches!(task, Task::Probe(_)).then(|| self.bytes(mirror, from, to));
        if self.plan.offered(mirror, &body, first.as_deref()).is_err() {
            self.plan.failed(mirror, &Failure::Never("changed".to_owned()), self.now);
            return;
        }
        match task {
            Task::Probe(_) => self.plan.done(mirror),
            Task::Sample { from, to } if way != Way::Mute => {
                self.sent += to - from;
                let bytes = self.bytes(mirror, from, to);
                self.plan.sampled(mirror, from, bytes);
                self.plan.done(mirror);
            }
            task => {
                let answers = self.doing[mirror].answers;
                self.doing[mirror] = Doing { task: Some(task), at: from, to, answers };
            }
        }
    }

    /// A mirror sends some bytes of what it was asked for.
    fn send(&mut self, mirror: usize) {
        let way = self.ways[mirror];
        if way == Way::Mute {
            if self.rng.one_in(20) {
                self.fail(mirror, "silent");
            }
            return;
        }
        if way == Way::Cuts && self.rng.one_in(6) {
            return self.fail(mirror, "cut");
        }
        let Doing { at, to, .. } = self.doing[mirror];
        match self.plan.room(mirror, at, self.now) {
            Room::Bytes(room) => {
                let most = if way == Way::Drips { 1 } else { 100_000 };
                let count = room.min(to - at).min(1 + self.rng.below(most) as u64);
                let bytes = self.bytes(mirror, at, at + count);
                self.sent += count;
                self.plan.came(mirror, at, &bytes, self.now);
                self.doing[mirror].at += count;
            }
            Room::Wait => {}
            Room::Stop => self.doing[mirror].task = None,
        }
        if self.doing[mirror].at == to {
            self.doing[mirror].task = None;
        }
        if self.doing[mirror].task.is_none() {
            self.plan.done(mirror);
        }
    }

    /// Runs to the end of the file, or until no mirror is left; what was given on.
    fn run(&mut self) -> Result<Vec<u8>, String> {
        let mut got = Vec::new();
        for _ in 0..2_000_000 {
            self.now += Duration::from_millis(20);
            let mirror = self.rng.below(self.ways.len());
            if self.doing[mirror].task.is_some() {
                self.send(mirror);
            } else {
                let task = self.plan.task(mirror, self.now);
                self.answer(mirror, task);
            }
            self.memory = self.memory.max(self.plan.memory_bytes());
            let mut out = vec![0; 1 + self.rng.below(300_000)];
            match self.plan.take(&mut out) {
                Taken::Bytes(count) => got.extend_from_slice(&out[..count]),
                Taken::Nothing => {}
                Taken::End => return Ok(got),
                Taken::Failed(why) => return Err(why),
            }
        }
        panic!("{:?}: it does not end: {:?}", self.ways, self.plan);
    }
}

/// Any set of mirrors of which one is good gives the file, in bounded memory.
#[test]
fn one_good_mirror_is_enough() {
    use Way::*;
    for ways in [
        &[Good][..],
        &[Whole],
        &[Cuts],
        &[Good, Good, Good],
        &[Closed, Good],
        &[Mute, Good],
        &[Cuts, Good],
        &[Whole, Good],
        &[Changes, Good],
        &[Other, Good],
        &[Closed, Whole],
        &[Mute, Closed, Cuts],
        &[Changes, Mute, Closed, Whole, Other, Cuts, Good],
    ] {
        for seed in 0..4 {
            let mut world = World::new(ways, 4 * MIB, seed);
            let got = world.run().unwrap_or_else(|why| panic!("{ways:?} {seed}: {why}"));
            assert!(got == world.file, "{ways:?} {seed}: {} of {} bytes", got.len(), world.file.len());
            assert!(world.memory <= 2 * WINDOW_PIECES * PIECE_BYTES_MIN as usize, "{ways:?}: {} bytes", world.memory);
            let most = if ways.contains(&Mute) || ways.contains(&Changes) { 140 } else { 110 };
            assert!(world.sent * 100 <= most * world.file.len() as u64, "{ways:?} {seed}: {} bytes sent", world.sent);
        }
    }
}

/// A mirror that sends a byte now and then holds no piece for long while another one is idle.
#[test]
fn a_dripping_mirror_does_not_delay_the_others() {
    use Way::*;
    for ways in [&[Drips, Good][..], &[Good, Drips, Drips], &[Drips, Good, Good]] {
        for seed in 0..4 {
            let mut world = World::new(ways, 4 * MIB, seed);
            let got = world.run().unwrap_or_else(|why| panic!("{ways:?} {seed}: {why}"));
            assert!(got == world.file, "{ways:?} {seed}: {} of {} bytes", got.len(), world.file.len());
            assert!(world.now <= Duration::from_secs(120), "{ways:?} {seed}: {:?}", world.now);
        }
    }
}

/// Two that agree outvote one, whatever its place, before any of its bytes is given on.
#[test]
fn a_third_mirror_says_which_one_lies() {
    use Way::*;
    for ways in [[Lies, Good, Good], [Good, Lies, Good], [Good, Good, Lies]] {
        for seed in 0..8 {
            let mut world = World::new(&ways, 4 * MIB, seed);
            assert!(world.run().unwrap() == world.file, "{ways:?} {seed}");
            let notes = world.plan.notes().join("\n");
            assert!(notes.contains(":Lies: not used any more: it sends other bytes than two others"), "{notes}");
            assert!(!notes.contains("Good: not used"), "{notes}");
        }
    }
}

/// Of two that differ the first is believed; should the whole be wrong, the other is asked for all of it.
#[test]
fn of_two_that_differ_the_other_is_tried_when_the_whole_is_wrong() {
    use Way::*;
    for ways in [[Lies, Good], [Good, Lies]] {
        for seed in 0..8 {
            let mut world = World::new(&ways, 4 * MIB, seed);
            let got = world.run().unwrap();
            let notes = world.plan.notes().join("\n");
            assert!(notes.contains("send different bytes near byte"), "{ways:?} {seed}: {notes}");
            if ways[0] == Good {
                assert!(got == world.file, "{seed}");
                continue;
            }
            assert!(got != world.file, "{seed}: the first was believed");
            let how = world.plan.try_others().expect("two differed");
            assert!(how.contains("with 1:Good in place of 0:Lies"), "{how}");
            world.doing.iter_mut().for_each(|doing| doing.task = None);
            assert!(world.run().unwrap() == world.file, "{seed}: the second try");
            assert_eq!(world.plan.try_others(), None);
        }
    }
    let mut alone = World::new(&[Lies], MIB, 1);
    alone.run().unwrap();
    assert_eq!(alone.plan.try_others(), None, "there is no other");
}

#[test]
fn without_a_mirror_each_is_named_with_its_reason() {
    use Way::*;
    let mut world = World::new(&[Closed, Other, Changes], MIB, 1);
    let why = world.run().unwrap_err();
    for want in [
        "0:Closed: refused (3 times)",
        "1:Other: its file is not a snapshot",
        "2:Changes: its file has changed: it had",
    ] {
        assert!(why.contains(want), "{want}: {why}");
    }
}

/// A transfer goes on from any byte, and does not ask for what stands before.
#[test]
fn a_transfer_goes_on_from_any_byte() {
    for seed in 0..8 {
        let mut world = World::new(&[Way::Good, Way::Good], 4 * MIB, seed);
        let offset = world.rng.below(world.file.len()) as u64;
        world.plan.seek(offset);
        let got = world.run().unwrap();
        assert!(got == world.file[offset as usize..], "{offset}");
        let left = world.file.len() as u64 - offset;
        assert!(world.sent <= left + left / 8 + 2 * PIECE_BYTES_MIN, "{offset}: {} sent", world.sent);
    }
}

/// Both of two mirrors have a part in it.
#[test]
fn mirrors_share_the_file() {
    let mut world = World::new(&[Way::Good, Way::Good], 8 * MIB, 3);
    let mut parts = [0_u64; 2];
    let mut got = Vec::new();
    while got.len() < world.file.len() {
        world.now += Duration::from_millis(20);
        let mirror = world.rng.below(2);
        let before = world.sent;
        if world.doing[mirror].task.is_some() {
            world.send(mirror);
        } else {
            let task = world.plan.task(mirror, world.now);
            world.answer(mirror, task);
        }
        parts[mirror] += world.sent - before;
        let mut out = vec![0; MIB];
        if let Taken::Bytes(count) = world.plan.take(&mut out) {
            got.extend_from_slice(&out[..count]);
        }
    }
    assert!(parts.iter().all(|&part| part > world.file.len() as u64 / 4), "{parts:?}");
}
