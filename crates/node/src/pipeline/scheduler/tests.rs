//! Each rule of the scheduler, without threads and without blocks: a flight is a number.

use super::seal::WRITE_PARTS;
use super::*;
use crate::chain::tree::NodeId;
use coins::Generation;
use consensus::Rule;
use primitives::{BlockHash, Txid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;
use testkit::Rng;

/// What the world says: over budget, flush due.
#[derive(Clone, Copy)]
struct World(bool, bool);

impl Pressure for World {
    fn is_over_budget(&self) -> bool {
        self.0
    }

    fn flush_is_due(&self) -> bool {
        self.1
    }
}

const CALM: World = World(false, false);
const WIDE: Window = Window { blocks: 100, bytes: 1000 };
const BLOCK_BYTES: usize = 10;

fn tip(number: u64) -> Tip {
    (NodeId::new(number as usize), BlockHash::from_bytes([0; 32]))
}

fn seq(number: u64) -> Seq {
    Seq::new(number)
}

fn broken(input: usize) -> BlockError {
    BlockError::in_input(Rule::BadTxnsInputsMissingorspent, 1, Txid::from_bytes([0; 32]), input)
}

fn full_disk() -> Fault {
    store::Fault::new(store::FaultKind::NoSpace, Path::new("/"), "room", "none", "").into()
}

fn takes(coin_bytes: usize) -> Takes {
    Takes { bytes: BLOCK_BYTES, coin_bytes }
}

fn part(number: u64) -> Generation {
    Generation { number, tables: Vec::new() }
}

/// A scheduler, and the clock that it is told.
struct Bench {
    scheduler: Scheduler<u64>,
    now: Instant,
    admitted: u64,
    /// Blocks that were committed.
    committed: u64,
    /// Script tasks that each block needs.
    chunks: usize,
    /// Bytes of the coins that each block makes.
    coin_bytes: usize,
}

impl Bench {
    fn new(workers: usize) -> Bench {
        let scheduler = Scheduler::new(workers);
        Bench { scheduler, now: Instant::now(), admitted: 0, committed: 0, chunks: 2, coin_bytes: 0 }
    }

    fn admit(&mut self, blocks: usize) {
        for _ in 0..blocks {
            self.scheduler.admit(self.admitted, BLOCK_BYTES, self.now);
            self.admitted += 1;
        }
    }

    /// Takes the next work, if there is any.
    fn next(&mut self) -> Option<Work> {
        self.scheduler.next(self.now, &CALM).map(|(work, _)| work)
    }

    /// Does work that was taken, and nothing goes wrong.
    fn finish(&mut self, work: Work) {
        let (scheduler, now) = (&mut self.scheduler, self.now);
        match work {
            Work::Block(seq, Task::Decode) => drop(scheduler.decoded(seq, Ok(takes(self.coin_bytes)), now)),
            Work::Block(seq, Task::Apply { group }) => {
                let group = usize::from(group);
                scheduler.applied(seq, group, now, || part(1));
                scheduler.release_group(group, now);
            }
            Work::Block(seq, Task::LookUp) => drop(scheduler.looked_up(seq, now)),
            Work::Block(seq, Task::Judge) => drop(scheduler.judged(seq, Ok(self.chunks), now)),
            Work::Block(seq, Task::Scripts { .. }) => drop(scheduler.scripts_done(seq, Ok(()), now)),
            Work::Block(_, Task::Commit) => loop {
                let committed = scheduler.committed(tip(self.committed), now);
                assert_eq!(committed.done, self.committed, "blocks are committed in order");
                self.committed += 1;
                if committed.next.is_none() {
                    break;
                }
            },
            Work::Background(Background::Sync) => drop(scheduler.synced(now)),
            Work::Background(Background::Begin) => drop(scheduler.begun(true, now)),
            Work::Background(Background::WritePart { .. }) => drop(scheduler.part_written(None, now).unwrap()),
            Work::Background(Background::Finish) => drop(scheduler.finished(now)),
            Work::Background(Background::Compact) => drop(scheduler.compacted(false, now)),
        }
        scheduler.done(work);
        scheduler.invariants();
    }

    /// Does one piece of work, if there is any.
    fn step(&mut self) -> Option<Work> {
        let work = self.next()?;
        self.finish(work);
        Some(work)
    }

    fn run_until(&mut self, is_there: impl Fn(Work) -> bool) -> Work {
        loop {
            let work = self.next().expect("it comes");
            if is_there(work) {
                return work;
            }
            self.finish(work);
        }
    }

    fn run_until_task(&mut self, of: u64, stage: crate::pipeline::stats::Stage) -> Task {
        let Work::Block(_, task) =
            self.run_until(|work| matches!(work, Work::Block(at, task) if at == seq(of) && task.stage() == stage))
        else {
            unreachable!("a block's task was asked for")
        };
        task
    }
}

#[test]
fn block_passes_every_phase_in_order() {
    let mut bench = Bench::new(4);
    bench.admit(1);
    let work: Vec<Work> = std::iter::from_fn(|| bench.step()).collect();
    let mut want = vec![Task::Decode];
    want.extend((0..SHARD_GROUPS as u8).map(|group| Task::Apply { group }));
    want.extend([Task::LookUp, Task::Judge, Task::Scripts { chunk: 0 }, Task::Scripts { chunk: 1 }, Task::Commit]);
    assert_eq!(work, want.into_iter().map(|task| Work::Block(seq(0), task)).collect::<Vec<_>>());
    assert!(bench.scheduler.is_drained());
    assert_eq!((bench.committed, bench.scheduler.take_tip(), bench.scheduler.take_tip()), (1, Some(tip(0)), None));
}

#[test]
fn look_up_that_awaits_the_disk_holds_no_worker() {
    for is_stopped in [false, true] {
        let mut bench = Bench::new(1);
        bench.admit(3);
        for number in [0, 1] {
            bench.run_until_task(number, crate::pipeline::stats::Stage::LookUp);
            bench.scheduler.await_disk(seq(number));
            bench.scheduler.done(Work::Block(seq(number), Task::LookUp));
            bench.scheduler.invariants();
        }
        while bench.step().is_some() {}
        assert_eq!(bench.committed, 0, "the third is good, and waits for them");
        assert_eq!(bench.scheduler.waiting_reads().collect::<Vec<_>>(), [seq(0), seq(1)]);
        assert_eq!(bench.scheduler.next_read(), Some((seq(0), 0)));
        assert!(!bench.scheduler.is_drained());
        if is_stopped {
            bench.scheduler.stop();
            assert_eq!(bench.scheduler.next_read(), None);
        } else {
            assert_eq!(bench.scheduler.next_read(), Some((seq(1), 1)));
            assert_eq!(bench.scheduler.read(seq(1), bench.now), 1);
        }
        assert_eq!(bench.scheduler.read(seq(0), bench.now), 1);
        bench.scheduler.invariants();
        while bench.step().is_some() {}
        assert!(bench.scheduler.is_drained());
        assert_eq!(bench.committed, if is_stopped { 0 } else { 3 });
        if is_stopped {
            assert_eq!(bench.scheduler.take_back().flights.len(), 3);
            assert_eq!(bench.scheduler.waiting_reads().count(), 0);
        }
    }
}

#[test]
fn work_of_low_blocks_and_late_stages_goes_first() {
    let mut bench = Bench::new(1);
    let tasks = [
        (seq(1), Task::Decode),
        (seq(0), Task::Decode),
        (seq(0), Task::Apply { group: 3 }),
        (seq(0), Task::Apply { group: 1 }),
        (seq(0), Task::Scripts { chunk: 1 }),
        (seq(0), Task::LookUp),
        (seq(0), Task::Commit),
        (seq(0), Task::Judge),
        (seq(2), Task::Commit),
    ];
    for (seq, task) in tasks {
        bench.scheduler.push(seq, task, bench.now);
    }
    let mut want = tasks;
    want.sort_unstable();
    assert_eq!(bench.scheduler.ready_tasks(), want);
    let order: Vec<Work> = std::iter::from_fn(|| bench.next()).collect();
    let stages = [(0, 6), (0, 4), (0, 7), (0, 5), (0, 3), (0, 2), (0, 1), (1, 0), (2, 8)];
    for (work, (number, index)) in order.iter().zip(stages) {
        assert_eq!(*work, Work::Block(seq(number), tasks[index].1));
    }
}

#[test]
fn script_task_that_stops_is_left_in_a_halted_run() {
    let mut bench = Bench::new(2);
    bench.admit(1);
    let task = bench.run_until_task(0, crate::pipeline::stats::Stage::Scripts);
    bench.scheduler.stop();
    let Task::Scripts { chunk } = task else { panic!("{task:?}") };
    bench.scheduler.scripts_stopped(seq(0), chunk as usize, bench.now);
    bench.scheduler.done(Work::Block(seq(0), task));
    bench.scheduler.invariants();
    assert_eq!(bench.next(), None, "nothing begins");
    assert!(bench.scheduler.is_drained());
    assert!(matches!(bench.scheduler.end_run(), Ok(RunEnd::Stopped)));
    assert_eq!(bench.scheduler.take_back().flights, [0], "the block is given back");
}

#[test]
fn may_admit_needs_room() {
    for (row, blocks, window, is_marked, is_over, want) in [
        ("nothing is in flight", 0, Window { blocks: 0, bytes: 0 }, false, true, true),
        ("there is room", 3, WIDE, false, true, true),
        ("enough blocks", 3, Window { blocks: 3, ..WIDE }, false, false, false),
        ("one block fewer", 2, Window { blocks: 3, ..WIDE }, false, false, true),
        ("enough bytes", 3, Window { bytes: 3 * BLOCK_BYTES, ..WIDE }, false, false, false),
        ("one byte fewer", 3, Window { bytes: 3 * BLOCK_BYTES + 1, ..WIDE }, false, false, true),
        ("memory is short, and a generation on its way", 3, WIDE, true, true, false),
        ("a generation is on its way, and memory there", 3, WIDE, true, false, true),
    ] {
        let mut bench = Bench::new(1);
        bench.admit(blocks);
        if is_marked {
            bench.scheduler.begin_seal(bench.now);
        }
        assert_eq!(bench.scheduler.may_admit(window, &World(is_over, false)), want, "{row}");
    }
}

#[test]
fn mark_behind_the_block_to_come_is_not_waited_for() {
    let mut bench = Bench::new(1);
    bench.admit(2);
    bench.run_until_task(1, crate::pipeline::stats::Stage::LookUp);
    // Every group has applied all that is in flight.
    bench.scheduler.begin_seal(bench.now);
    let has_room = |bench: &Bench| bench.scheduler.may_admit(WIDE, &World(true, false));
    assert!(has_room(&bench), "else the block never comes");
    bench.admit(1);
    assert!(!has_room(&bench));
}

#[test]
fn groups_apply_blocks_in_order() {
    let mut bench = Bench::new(1);
    bench.admit(3);
    let decode = |bench: &mut Bench, number| {
        bench.scheduler.take_task((seq(number), Task::Decode));
        let ready = bench.scheduler.decoded(seq(number), Ok(takes(0)), bench.now);
        bench.scheduler.done(Work::Block(seq(number), Task::Decode));
        bench.scheduler.invariants();
        ready
    };
    assert_eq!(decode(&mut bench, 1), 0, "block 0 is not decoded");
    assert_eq!(decode(&mut bench, 0), SHARD_GROUPS);
    bench.scheduler.take_task((seq(0), Task::Apply { group: 5 }));
    assert_eq!(bench.scheduler.applied(seq(0), 5, bench.now, || unreachable!("nothing is marked")), 0);
    assert_eq!(bench.scheduler.next_of_group(5), Some((seq(1), 1)), "the same worker goes on");
    bench.scheduler.applied(seq(1), 5, bench.now, || unreachable!("nothing is marked"));
    assert_eq!(bench.scheduler.next_of_group(5), None, "block 2 is not decoded");
    assert_eq!(bench.scheduler.release_group(5, bench.now), 0);
    assert_eq!(decode(&mut bench, 2), 1, "the group that waits for it, alone");
}

#[test]
fn coins_wait_for_room_before_they_are_made() {
    let mut bench = Bench::new(1);
    bench.coin_bytes = 10;
    bench.scheduler.set_room(25, bench.now);
    bench.admit(4);
    // Two blocks have room, and nothing is applied of the third.
    while bench.step().is_some() {}
    assert_eq!((bench.committed, bench.scheduler.is_gated()), (2, true));
    assert!(!bench.scheduler.is_drained(), "it waits");
    assert_eq!(bench.scheduler.set_room(9, bench.now), 0, "too little");
    assert_eq!(bench.scheduler.set_room(10, bench.now), SHARD_GROUPS);
    // What is set aside and not made yet is not there for others.
    assert_eq!(bench.scheduler.set_room(19, bench.now), 0);
    while bench.step().is_some() {}
    assert_eq!((bench.committed, bench.scheduler.is_gated()), (3, true));
    assert_eq!(bench.scheduler.set_room(10, bench.now), SHARD_GROUPS);
    while bench.step().is_some() {}
    assert_eq!((bench.committed, bench.scheduler.is_gated()), (4, false));
}

#[test]
fn block_that_a_mark_waits_for_needs_no_room() {
    let mut bench = Bench::new(1);
    bench.coin_bytes = 10;
    bench.scheduler.set_room(0, bench.now);
    bench.admit(3);
    while bench.step().is_some() {}
    assert_eq!((bench.committed, bench.scheduler.is_gated()), (0, true));
    let has_room = |bench: &Bench| bench.scheduler.may_admit(WIDE, &CALM);
    assert!(has_room(&bench), "no generation is on its way that could be waited for");
    assert_eq!(bench.scheduler.begin_seal(bench.now), SHARD_GROUPS);
    bench.run_until(|work| work == Work::Background(Background::Sync));
    assert_eq!((bench.committed, bench.scheduler.is_gated()), (1, true), "the next one waits again");
    assert!(!has_room(&bench), "for the generation");
    let is_urgent = bench.scheduler.is_memory_short(&CALM);
    assert!(is_urgent, "which is written first");
}

#[test]
fn bytes_in_flight_are_known_better_later() {
    let mut bench = Bench::new(1);
    bench.admit(2);
    let admits = |bench: &Bench, bytes| bench.scheduler.may_admit(Window { blocks: 9, bytes }, &CALM);
    let work = bench.next().unwrap();
    let takes = Takes { bytes: 3, coin_bytes: 0 };
    bench.scheduler.decoded(seq(0), Ok(takes), bench.now);
    bench.scheduler.done(work);
    assert_eq!((admits(&bench, BLOCK_BYTES + 3), admits(&bench, BLOCK_BYTES + 4)), (false, true));
    bench.scheduler.grow(seq(0), 5);
    assert_eq!((admits(&bench, BLOCK_BYTES + 8), admits(&bench, BLOCK_BYTES + 9)), (false, true));
    bench.scheduler.invariants();
    while bench.step().is_some() {}
    assert_eq!((bench.committed, bench.scheduler.bytes_in_flight), (2, 0));
}

/// Where a block is refused.
#[derive(Clone, Copy, Debug)]
enum At {
    Decode,
    Judge,
    Scripts,
}

#[test]
fn refused_block_ends_the_run_when_it_is_the_lowest() {
    for at in [At::Decode, At::Judge, At::Scripts] {
        for bad in [0, 1, 4] {
            let mut bench = Bench::new(3);
            bench.admit(6);
            bench.scheduler.set_fed();
            while let Some(work) = bench.next() {
                match (work, at) {
                    (Work::Block(of, Task::Decode), At::Decode) if of == seq(bad) => {
                        bench.scheduler.decoded(of, Err(Refusal::WrongBody), bench.now);
                        bench.scheduler.done(work);
                    }
                    (Work::Block(of, Task::Judge), At::Judge) if of == seq(bad) => {
                        bench.scheduler.judged(of, Err(broken(0)), bench.now);
                        bench.scheduler.done(work);
                    }
                    (Work::Block(of, Task::Scripts { chunk: 0 }), At::Scripts) if of == seq(bad) => {
                        bench.scheduler.scripts_done(of, Err(broken(0)), bench.now);
                        bench.scheduler.done(work);
                    }
                    _ => bench.finish(work),
                }
                bench.scheduler.invariants();
            }
            let row = format!("block {bad} at {at:?}");
            assert!(bench.scheduler.is_drained(), "{row}");
            assert_eq!(bench.committed, bad, "{row}: those below it are committed");
            let RunEnd::Refused(flight, refusal) = bench.scheduler.end_run().unwrap() else { panic!("{row}") };
            assert_eq!((flight, matches!(refusal, Refusal::WrongBody)), (bad, matches!(at, At::Decode)), "{row}");
            bench.scheduler.take_back();
            bench.scheduler.begin_run();
        }
    }
}

#[test]
fn scripts_that_fail_report_the_first_in_the_block() {
    for (row, results, want) in [
        ("none", [None, None, None], None),
        ("the second", [None, Some(1), None], Some(1)),
        ("two, the first one first", [Some(0), None, Some(2)], Some(0)),
        ("two, the last one first", [Some(2), Some(0), None], Some(0)),
        ("all", [Some(1), Some(2), Some(0)], Some(0)),
    ] {
        let mut bench = Bench::new(1);
        bench.chunks = results.len();
        bench.admit(1);
        for result in results {
            let task = bench.run_until_task(0, crate::pipeline::stats::Stage::Scripts);
            assert!(!bench.scheduler.is_halted(), "{row}: some scripts still run");
            let result = result.map_or(Ok(()), |input| Err(broken(input)));
            bench.scheduler.scripts_done(seq(0), result, bench.now);
            bench.scheduler.done(Work::Block(seq(0), task));
            bench.scheduler.invariants();
        }
        while bench.step().is_some() {}
        let said = match bench.scheduler.end_run().unwrap() {
            RunEnd::Refused(_, Refusal::Rule(error)) => Some(error.to_string()),
            RunEnd::Done => None,
            other => panic!("{row}: {other:?}"),
        };
        assert_eq!(said, want.map(|input| broken(input).to_string()), "{row}");
    }
}

#[test]
fn run_ends_by_its_gravest_reason() {
    let refuse = |bench: &mut Bench| {
        bench.run_until_task(0, crate::pipeline::stats::Stage::Decode);
        bench.scheduler.decoded(seq(0), Err(Refusal::WrongBody), bench.now);
        bench.scheduler.done(Work::Block(seq(0), Task::Decode));
    };
    let stop = |bench: &mut Bench| bench.scheduler.stop();
    let fail = |bench: &mut Bench| bench.scheduler.fail(Fault::internal("first"));
    let fail_again = |bench: &mut Bench| bench.scheduler.fail(Fault::internal("second"));
    type Event = dyn Fn(&mut Bench);
    let rows: [(&str, &[&Event], &str); 7] = [
        ("refused", &[&refuse], "Ok(Refused(0, WrongBody))"),
        ("stopped", &[&stop], "Ok(Stopped)"),
        ("refused, then stopped", &[&refuse, &stop], "Ok(Stopped)"),
        ("failed", &[&fail], "first"),
        ("failed twice", &[&fail, &fail_again], "first"),
        ("refused and stopped, then failed", &[&refuse, &stop, &fail], "first"),
        ("failed, then stopped", &[&fail, &stop], "first"),
    ];
    for (row, events, want) in rows {
        let mut bench = Bench::new(1);
        bench.admit(1);
        events.iter().for_each(|event| event(&mut bench));
        assert!(bench.scheduler.is_halted(), "{row}");
        let said = format!("{:?}", bench.scheduler.end_run());
        assert!(said.contains(want), "{row}: {said}");
    }
    let mut bench = Bench::new(1);
    assert!(matches!(bench.scheduler.end_run(), Ok(RunEnd::Done)));
    bench.scheduler.stop();
    assert!(matches!(bench.scheduler.end_run(), Ok(RunEnd::Stopped)), "also with nothing in flight");
}

#[test]
fn background_work_takes_turns_with_blocks() {
    let late = turns::PATIENCE;
    let early = Duration::ZERO;
    // Workers, those at background work already, whether blocks are ready, how long the work waits, what the world says.
    for (row, workers, running, has_ready, waited, world, want) in [
        ("blocks go first", 8, 0, true, early, CALM, false),
        ("for a moment", 8, 0, true, late, CALM, true),
        ("where there are any", 8, 0, false, early, CALM, true),
        ("a quarter of the workers", 8, 1, true, late, CALM, true),
        ("and no more", 8, 2, true, late, CALM, false),
        ("nor without ready blocks", 8, 2, false, early, CALM, false),
        ("one worker at least", 2, 0, true, late, CALM, true),
        ("and then no more", 2, 1, true, late, CALM, false),
        ("all, where memory is short", 8, 7, true, early, World(true, false), true),
        ("all, where the next commit is due", 8, 7, true, early, World(false, true), true),
    ] {
        let mut bench = Bench::new(workers);
        // A generation is being written, and a block above it is in flight.
        bench.scheduler.begin_seal(bench.now);
        bench.admit(1);
        while bench.committed == 0 {
            let work = bench.run_until(|work| matches!(work, Work::Block(..)));
            bench.finish(work);
        }
        bench.admit(2);
        if !has_ready {
            while !bench.scheduler.ready.is_empty() {
                bench.scheduler.ready.pop();
            }
        }
        bench.scheduler.background_running = running;
        bench.now += waited;
        let next = bench.scheduler.next(bench.now, &world);
        let is_background = matches!(next, Some((Work::Background(Background::Sync), _)));
        assert_eq!(is_background, want, "{row}: {next:?}");
        assert!(!is_background || next.is_some_and(|(_, after)| after == waited), "{row}: it waited as long");
    }
}

#[test]
fn background_work_follows_a_halt() {
    for (row, halt, want) in [
        ("stopped", (|scheduler| scheduler.stop()) as fn(&mut Scheduler<u64>), true),
        ("failed", |scheduler| scheduler.fail(full_disk()), false),
    ] {
        let mut bench = Bench::new(1);
        bench.scheduler.add_background(Background::Compact, bench.now);
        bench.scheduler.compacting = 1;
        bench.admit(1);
        halt(&mut bench.scheduler);
        assert_eq!(bench.next().is_some(), want, "{row}");
        assert!(!matches!(bench.next(), Some(Work::Block(..))), "{row}: no block task begins");
        assert!(bench.scheduler.is_drained() != want, "{row}: what runs is waited for");
    }
}

/// What happens to a commit that is begun, written and finished.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Luck {
    /// It waits for a compaction.
    Compact,
    /// A part finds the disk full.
    PartFull,
    /// Finishing it finds the disk full.
    FinishFull,
    Good,
}

#[test]
fn generation_is_written_until_it_is_durable() {
    let write = || (0..WRITE_PARTS).map(|part| Background::WritePart { part }).collect::<Vec<_>>();
    let rows: [(&str, &[Luck], Vec<Background>); 4] = [
        ("good", &[Luck::Good], vec![]),
        ("a compaction first", &[Luck::Compact, Luck::Good], vec![Background::Begin, Background::Compact]),
        ("full while writing", &[Luck::PartFull, Luck::Good], [vec![Background::Begin], write()].concat()),
        (
            "full while finishing",
            &[Luck::FinishFull, Luck::Good],
            [vec![Background::Begin], write(), vec![Background::Finish]].concat(),
        ),
    ];
    for (row, luck, extra) in rows {
        let mut bench = Bench::new(1);
        bench.scheduler.seal_everything(tip(7), std::array::from_fn(|_| part(3)), bench.now);
        let (mut luck, mut done) = (luck.iter().copied(), Vec::new());
        let mut now_is = Luck::Good;
        while let Some(work) = bench.next() {
            let Work::Background(background) = work else { panic!("{row}: {work:?}") };
            done.push(background);
            let (scheduler, now) = (&mut bench.scheduler, bench.now);
            match background {
                Background::Begin => {
                    now_is = luck.next().expect("begun as often as there is luck");
                    assert_eq!(scheduler.writing().tip(), tip(7), "{row}");
                    scheduler.begun(now_is != Luck::Compact, now);
                }
                Background::WritePart { part } => {
                    let is_spared = now_is == Luck::PartFull && part > 2;
                    assert_eq!(scheduler.writing().part(part).1.is_none(), is_spared, "{row}: part {part}");
                    let no_space = (now_is == Luck::PartFull && part == 2).then(full_disk);
                    if let Err(fault) = scheduler.part_written(no_space, now) {
                        assert!(fault.is_no_space() && part == WRITE_PARTS - 1, "{row}: after the last part");
                        scheduler.begin_again(now);
                    }
                }
                Background::Finish if now_is == Luck::FinishFull => {
                    scheduler.finish_failed();
                    scheduler.begin_again(now);
                }
                _ => {
                    bench.finish(work);
                    continue;
                }
            }
            scheduler.done(work);
            scheduler.invariants();
        }
        let good = [vec![Background::Begin], write(), vec![Background::Finish, Background::Compact]].concat();
        assert_eq!(done, [vec![Background::Sync], extra, good].concat(), "{row}");
        assert!(bench.scheduler.is_background_done() && bench.scheduler.may_seal(), "{row}");
        assert_eq!(bench.scheduler.durable_generation(), 3, "{row}");
    }
}

#[test]
fn groups_seal_right_after_the_last_block_of_a_generation() {
    let mut bench = Bench::new(1);
    bench.admit(3);
    bench.run_until_task(0, crate::pipeline::stats::Stage::LookUp);
    bench.scheduler.looked_up(seq(0), bench.now);
    bench.scheduler.done(Work::Block(seq(0), Task::LookUp));
    // Group 9 is a block ahead: the mark lies behind block 2.
    let ahead = Work::Block(seq(1), Task::Apply { group: 9 });
    bench.run_until_task(1, crate::pipeline::stats::Stage::Decode);
    bench.finish(Work::Block(seq(1), Task::Decode));
    bench.scheduler.take_task((seq(1), Task::Apply { group: 9 }));
    bench.finish(ahead);
    assert!(bench.scheduler.may_seal());
    bench.scheduler.begin_seal(bench.now);
    assert!(!bench.scheduler.may_seal(), "one at a time");
    let mark = |bench: &Bench| bench.scheduler.seal.as_ref().map(|seal| (seal.end(), seal.is_writing()));
    assert_eq!(mark(&bench), Some((seq(3), false)));
    while bench.committed < 2 {
        bench.step();
    }
    bench.run_until_task(2, crate::pipeline::stats::Stage::Commit);
    assert_eq!(mark(&bench), Some((seq(3), false)), "the last block of it is not committed");
    let committed = bench.scheduler.committed(tip(2), bench.now);
    assert_eq!((committed.done, committed.next, committed.ready), (2, None, 1));
    assert_eq!(mark(&bench), Some((seq(3), true)));
    assert_eq!(bench.scheduler.writing().tip(), tip(2));
}

#[test]
fn mark_that_no_block_reached_is_dropped_between_runs() {
    let mut bench = Bench::new(1);
    bench.scheduler.begin_seal(bench.now);
    bench.scheduler.begin_background_run();
    assert!(bench.scheduler.may_seal());
}

#[test]
fn compactions_are_as_many_as_may() {
    for (row, workers, in_flight, compacting, want) in [
        ("one at least", 1, 0, 0, 1),
        ("all workers, with nothing else to do", 6, 0, 0, 6),
        ("as many as there are parts", 40, 0, 0, WRITE_PARTS),
        ("a quarter beside blocks", 16, 1, 0, 4),
        ("one at least beside blocks", 2, 1, 0, 1),
        ("those that compact are counted", 16, 1, 3, 1),
        ("none beside enough", 16, 1, 6, 0),
    ] {
        let mut bench = Bench::new(workers);
        bench.admit(in_flight);
        // One piece of a compaction is done, and there is more.
        bench.scheduler.compacting = compacting + 1;
        assert_eq!(bench.scheduler.compacted(true, bench.now), want, "{row}");
        assert_eq!(bench.scheduler.compacting, compacting + want, "{row}");
    }
}

#[test]
fn last_compaction_begins_the_commit_that_waits() {
    for (row, compacting, has_more, want) in [
        ("others go on", 2, false, vec![]),
        ("the last one", 1, false, vec![Background::Begin]),
        ("one that has more", 1, true, vec![Background::Begin, Background::Compact]),
    ] {
        let mut bench = Bench::new(1);
        bench.scheduler.seal_everything(tip(0), std::array::from_fn(|_| part(1)), bench.now);
        bench.scheduler.background.clear();
        bench.scheduler.synced(bench.now);
        bench.scheduler.background.clear();
        bench.scheduler.begun(false, bench.now);
        bench.scheduler.background.clear();
        bench.scheduler.compacting = compacting;
        assert_eq!(bench.scheduler.compacted(has_more, bench.now), want.len(), "{row}");
        assert_eq!(bench.scheduler.waiting_background().collect::<Vec<_>>(), want, "{row}");
    }
}

#[test]
fn take_back_says_what_each_group_has_done() {
    let mut bench = Bench::new(1);
    bench.admit(5);
    while bench.committed == 0 {
        bench.step();
    }
    // Behind block 1, of which one group does its part.
    bench.scheduler.begin_seal(bench.now);
    bench.run_until_task(1, crate::pipeline::stats::Stage::Decode);
    bench.finish(Work::Block(seq(1), Task::Decode));
    bench.run_until_task(1, crate::pipeline::stats::Stage::Apply);
    bench.finish(Work::Block(seq(1), Task::Apply { group: 0 }));
    bench.scheduler.stop();
    let taken = bench.scheduler.take_back();
    assert_eq!(taken.flights, [1, 2, 3, 4]);
    for (group, index, want) in [(0, 0, true), (0, 1, false), (1, 0, false)] {
        assert_eq!(taken.is_applied(group, index), want, "group {group}, block {}", 1 + index);
        assert_eq!(taken.is_sealed_after(group, index), want, "group {group}, block {}", 1 + index);
    }
    bench.scheduler.begin_run();
    bench.scheduler.invariants();
    bench.admitted = 1;
    bench.admit(2);
    while bench.step().is_some() {}
    assert_eq!(bench.committed, 3, "the same blocks can be connected after that");
}

#[test]
fn generation_that_is_written_is_not_taken_back() {
    let mut bench = Bench::new(1);
    bench.scheduler.begin_seal(bench.now);
    bench.admit(3);
    while bench.committed == 0 {
        bench.step();
    }
    bench.scheduler.stop();
    let taken = bench.scheduler.take_back();
    assert!((0..SHARD_GROUPS).all(|group| !taken.is_sealed_after(group, 0)));
    assert!(bench.scheduler.seal.as_ref().is_some_and(Seal::is_writing));
    bench.scheduler.begin_background_run();
    while bench.step().is_some() {}
    assert_eq!(bench.scheduler.durable_generation(), 1);
}

#[test]
fn abort_ends_all_workers() {
    let mut bench = Bench::new(2);
    bench.admit(1);
    bench.next();
    bench.scheduler.abort(Fault::internal("a thread panicked"));
    assert!(bench.scheduler.is_over() && bench.scheduler.is_drained() && bench.scheduler.is_background_done());
    assert!(bench.scheduler.end_run().is_err());
}

/// Whatever breaks a scheduler is seen.
#[test]
fn invariants_panic_where_one_is_broken() {
    type Break = fn(&mut Scheduler<u64>);
    let rows: [(&str, Break); 10] = [
        ("bytes in flight", |scheduler| scheduler.bytes_in_flight += 1),
        ("background work is work", |scheduler| scheduler.background_running = 1),
        ("to Seq(2) are in flight", |scheduler| scheduler.group_next[4] = seq(3)),
        ("groups have applied", |scheduler| scheduler.group_next[4] = seq(1)),
        ("which is not in flight", |scheduler| scheduler.push(seq(2), Task::Decode, Instant::now())),
        ("twice", |scheduler| scheduler.push(seq(0), Task::Decode, Instant::now())),
        ("in another phase", |scheduler| scheduler.push(seq(0), Task::Judge, Instant::now())),
        ("nothing is lost of Seq(0)", |scheduler| assert!(scheduler.ready.pop().is_some())),
        ("not what the seal needs", |scheduler| scheduler.background.push_back((Background::Sync, Instant::now()))),
        ("no compaction is lost", |scheduler| scheduler.compacting = 1),
    ];
    for (want, break_it) in rows {
        let mut bench = Bench::new(1);
        bench.admit(2);
        bench.scheduler.invariants();
        break_it(&mut bench.scheduler);
        let panic = catch_unwind(AssertUnwindSafe(|| bench.scheduler.invariants())).expect_err(want);
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default();
        assert!(said.contains(want), "{want}: {said}");
    }
}

/// A run of random blocks by random workers.
struct RandomRun {
    bench: Bench,
    rng: Rng,
    workers: usize,
    /// Where each block is refused, if it is.
    verdicts: Vec<Option<At>>,
    at_work: Vec<Work>,
}

impl RandomRun {
    fn new(seed: u64) -> RandomRun {
        let mut rng = Rng::new(seed);
        let workers = 1 + rng.below(6);
        let count = rng.below(30);
        let mut verdict = || rng.one_in(20).then(|| *rng.pick(&[At::Decode, At::Judge, At::Scripts]));
        let verdicts = (0..count).map(|_| verdict()).collect();
        RandomRun { bench: Bench::new(workers), rng, workers, verdicts, at_work: Vec::new() }
    }

    /// What a worker takes now: anything that waits.
    fn take(&mut self) -> Option<Work> {
        let scheduler = &mut self.bench.scheduler;
        let background = if scheduler.is_failed() { 0 } else { scheduler.waiting_background().count() };
        let tasks = if scheduler.is_halted() { Vec::new() } else { scheduler.ready_tasks() };
        if background + tasks.len() == 0 {
            return None;
        }
        let chosen = self.rng.below(background + tasks.len());
        if chosen < background {
            return scheduler.take_background(chosen).map(Work::Background);
        }
        let task = tasks[chosen - background];
        scheduler.take_task(task);
        Some(Work::Block(task.0, task.1))
    }

    /// A worker ends its work, or a part of it.
    fn end(&mut self, work: Work) {
        let (scheduler, now, rng) = (&mut self.bench.scheduler, self.bench.now, &mut self.rng);
        let number = |at: Seq| at.since(seq(0));
        match work {
            Work::Block(at, Task::Decode) => {
                let is_bad = matches!(self.verdicts[number(at)], Some(At::Decode));
                let takes = takes(rng.below(40));
                scheduler.decoded(at, if is_bad { Err(Refusal::WrongBody) } else { Ok(takes) }, now);
            }
            Work::Block(at, Task::Apply { group }) => {
                let (mut at, group) = (at, usize::from(group));
                loop {
                    scheduler.applied(at, group, now, || part(1));
                    match scheduler.next_of_group(group) {
                        Some((next, _)) if !rng.one_in(3) => at = next,
                        _ => break,
                    }
                }
                scheduler.release_group(group, now);
            }
            Work::Block(at, Task::Judge) => {
                let is_bad = matches!(self.verdicts[number(at)], Some(At::Judge));
                let chunks = if matches!(self.verdicts[number(at)], Some(At::Scripts)) { 3 } else { rng.below(4) };
                scheduler.judged(at, if is_bad { Err(broken(0)) } else { Ok(chunks) }, now);
            }
            Work::Block(at, Task::Scripts { chunk }) => {
                let is_bad = matches!(self.verdicts[number(at)], Some(At::Scripts)) && chunk > 0;
                let result = if is_bad { Err(broken(chunk as usize)) } else { Ok(()) };
                scheduler.scripts_done(at, result, now);
            }
            Work::Block(at, Task::Commit) => {
                let committed = scheduler.committed(tip(self.bench.committed), now);
                assert_eq!(committed.done, self.bench.committed, "blocks are committed in order");
                self.bench.committed += 1;
                if committed.next.is_some() {
                    // The same worker goes on with the next one.
                    self.at_work.push(Work::Block(at.next(), Task::Commit));
                    return scheduler.invariants();
                }
            }
            Work::Background(Background::Begin) => drop(scheduler.begun(!rng.one_in(3), now)),
            Work::Background(Background::WritePart { .. }) => {
                let no_space = rng.one_in(20).then(full_disk);
                if scheduler.part_written(no_space, now).is_err() {
                    scheduler.begin_again(now);
                }
            }
            Work::Background(Background::Finish) if rng.one_in(5) => {
                scheduler.finish_failed();
                scheduler.begin_again(now);
            }
            Work::Background(Background::Compact) => drop(scheduler.compacted(rng.one_in(2), now)),
            _ => return self.bench.finish(work),
        }
        scheduler.done(work);
        scheduler.invariants();
    }

    /// One step of one of the workers, or of the thread that feeds; nothing where none can do any.
    fn step(&mut self) -> Option<()> {
        let is_fed = self.bench.admitted as usize == self.verdicts.len();
        if self.rng.one_in(8) && !self.bench.scheduler.is_halted() && self.bench.scheduler.may_seal() {
            self.bench.scheduler.begin_seal(self.bench.now);
        }
        if self.rng.one_in(8) && !self.bench.scheduler.is_halted() {
            self.bench.scheduler.set_room(self.rng.below(100), self.bench.now);
            if self.bench.scheduler.is_gated() && self.bench.scheduler.may_seal() {
                self.bench.scheduler.begin_seal(self.bench.now);
            }
        }
        let may_admit = !is_fed && !self.bench.scheduler.is_halted();
        if may_admit && self.bench.scheduler.may_admit(Window { blocks: 12, bytes: 1000 }, &CALM) && self.rng.one_in(3)
        {
            self.bench.admit(1);
            return Some(());
        }
        if self.at_work.len() < self.workers
            && self.rng.one_in(2)
            && let Some(work) = self.take()
        {
            self.at_work.push(work);
            return Some(());
        }
        if !self.at_work.is_empty() {
            let index = self.rng.below(self.at_work.len());
            let work = self.at_work.swap_remove(index);
            self.end(work);
            return Some(());
        }
        let is_idle = self.bench.scheduler.is_halted() || (is_fed && self.bench.scheduler.in_flight.is_empty());
        (!is_idle).then_some(())
    }

    fn check(mut self) {
        while self.step().is_some() {
            self.bench.scheduler.invariants();
        }
        assert!(self.bench.scheduler.is_drained());
        let bad = self.verdicts.iter().position(Option::is_some);
        assert_eq!(self.bench.committed as usize, bad.unwrap_or(self.verdicts.len()), "all below the lowest bad one");
        let end = self.bench.scheduler.end_run().unwrap();
        assert_eq!(matches!(end, RunEnd::Refused(..)), bad.is_some(), "{end:?}");
        self.bench.scheduler.take_back();
        self.bench.scheduler.begin_background_run();
        while let Some(work) = self.take() {
            self.end(work);
        }
        assert!(self.bench.scheduler.is_background_done() && self.bench.scheduler.may_seal(), "all is durable");
    }
}

#[test]
fn any_order_of_work_commits_what_is_good() {
    for seed in testkit::seeds(testkit::rounds(300) as u64) {
        RandomRun::new(seed).check();
    }
}
