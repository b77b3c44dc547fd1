//! Checks that all variants of a table agree, then times them alternately.
//!
//! Variants that never block are timed by the processor time of their thread, which other programs on the machine do
//! not lengthen. Variants that wait for a drive or for threads are timed by the clock.
//!
//! Absent on purpose: a mean. Disturbances only make a run longer, never shorter; nanobench also reports the median
//! and the median absolute deviation.

use crate::counters::Counters;
use crate::report::Row;
use crate::{Error, Progress};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of epochs of a table with short works, and of one with long works. It is odd, so that there is a middle
/// epoch.
const EPOCHS: usize = 41;
const EPOCHS_MIN: usize = 11;
/// An epoch repeats its work until it takes this long.
const EPOCH: Duration = Duration::from_millis(2);
/// Approximate time of a table; one with longer works still gets [`EPOCHS_MIN`] epochs.
const TABLE: Duration = Duration::from_secs(4);
const EPOCHS_QUICK: usize = 1;

/// Does its work the given number of times.
type Work<'a> = Box<dyn FnMut(u64) -> Result<(), Error> + 'a>;

/// Collects rows.
pub(crate) struct Bench<'p> {
    quick: bool,
    /// A table takes at least this long.
    min_time: Option<Duration>,
    /// `None` if the processor has no counters, or they are not accessible.
    counters: Option<Counters>,
    wanted: &'p dyn Fn(&str) -> bool,
    done: usize,
    total: usize,
    progress: &'p mut dyn FnMut(Progress<'_>),
    rows: Vec<Row>,
}

/// One work in several variants. `R` is the type of the result, which must be equal.
pub(crate) struct Table<'a, R> {
    name: &'static str,
    unit: &'static str,
    /// Units that one call of a work does.
    units: f64,
    /// Result of the first variant.
    plain: Option<R>,
    clock: ClockId,
    ways: Vec<Way<'a>>,
}

struct Way<'a> {
    name: String,
    shipped: bool,
    agrees: bool,
    bytes: Option<f64>,
    allocations: Option<f64>,
    work: Work<'a>,
    /// Calls of an epoch.
    calls: u64,
    /// Seconds for each call, by epoch.
    seconds: Vec<f64>,
}

impl<'p> Bench<'p> {
    pub(crate) fn new(
        quick: bool,
        wanted: &'p dyn Fn(&str) -> bool,
        total: usize,
        progress: &'p mut dyn FnMut(Progress<'_>),
    ) -> Bench<'p> {
        Bench { quick, min_time: None, counters: None, wanted, done: 0, total, progress, rows: Vec::new() }
    }

    /// From now on every table takes at least this long.
    pub(crate) fn at_least(&mut self, time: Option<Duration>) {
        self.min_time = time;
    }

    /// Enables counting of instructions and other events; returns the reason if that is impossible.
    pub(crate) fn count(&mut self) -> Option<String> {
        match Counters::open() {
            Ok(counters) => self.counters = Some(counters),
            Err(why) => return Some(format!("no hardware counters: {why}")),
        }
        None
    }

    /// Whether this table is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        (self.wanted)(name)
    }

    /// `quick` or `full`: the kind of the run.
    pub(crate) fn size(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// An empty table, if it is selected; one call of its works processes `units` units.
    pub(crate) fn table<'a, R: PartialEq>(
        &mut self,
        name: &'static str,
        unit: &'static str,
        units: usize,
    ) -> Option<Table<'a, R>> {
        if !(self.wanted)(name) {
            return None;
        }
        (self.progress)(Progress { experiment: name, done: self.done, total: self.total });
        self.done += 1;
        Some(Table { name, unit, units: units as f64, plain: None, clock: ClockId::ThreadCPUTime, ways: Vec::new() })
    }

    /// Times the variants of a table, and keeps its rows.
    pub(crate) fn run<R>(&mut self, mut table: Table<'_, R>) -> Result<(), Error> {
        let round: Duration = table.ways.iter_mut().try_fold(Duration::ZERO, |sum, way| {
            let epoch = if self.quick { Duration::ZERO } else { EPOCH };
            way.choose_calls(epoch).map(|time| sum + time)
        })?;
        let fitting = (TABLE.as_secs_f64() / round.as_secs_f64().max(1e-9)) as usize;
        let epochs = if self.quick { EPOCHS_QUICK } else { fitting.clamp(EPOCHS_MIN, EPOCHS) | 1 };
        // The times of a quick run are discarded, and Valgrind hides the kernel page in which rustix looks up clocks.
        let clock = (!self.quick).then_some(table.clock);
        let start = Instant::now();
        let mut have = table.ways.iter().map(|way| way.seconds.len()).min().unwrap_or_default();
        while have < epochs || self.min_time.is_some_and(|time| start.elapsed() < time) {
            table.ways.iter_mut().try_for_each(|way| way.epoch(clock))?;
            have += 1;
        }
        let plain = table.ways.first_mut().map_or(0.0, |way| median(&mut way.seconds));
        for mut way in table.ways {
            let seconds = median(&mut way.seconds);
            // Other threads and the drive are not counted, so waiting variants would appear cheap.
            let counters = self.counters.as_mut().filter(|_| table.clock == ClockId::ThreadCPUTime);
            let counts = counters
                .and_then(|counters| counters.count(table.units * way.calls as f64, || (way.work)(way.calls)).ok())
                .and_then(|(done, counts)| done.ok().map(|()| counts));
            let ns_per_op = seconds * 1e9 / table.units;
            let mut errors: Vec<f64> =
                way.seconds.iter().map(|run| (run - seconds).abs() / seconds.max(1e-12)).collect();
            self.rows.push(Row {
                experiment: table.name.to_owned(),
                variant: way.name,
                shipped: way.shipped,
                unit: table.unit,
                ns_per_op,
                ops_per_second: 1e9 / ns_per_op.max(1e-9),
                ratio: plain / seconds.max(1e-12),
                error_percent: upper_median(&mut errors) * 100.0,
                epochs: way.seconds.len(),
                agrees: way.agrees,
                bytes: way.bytes,
                allocations: way.allocations,
                counts,
                compared: None,
            });
        }
        Ok(())
    }

    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

impl<'a, R: PartialEq> Table<'a, R> {
    /// Adds a variant whose result is compared.
    pub(crate) fn way(&mut self, name: impl Into<String>, mut work: impl FnMut() -> R + 'a) -> &mut Self {
        let result = work();
        self.add(name, result, move || Ok(work()))
    }

    /// Like [`Table::way`], for a work that may fail.
    pub(crate) fn try_way(
        &mut self,
        name: impl Into<String>,
        mut work: impl FnMut() -> Result<R, Error> + 'a,
    ) -> Result<&mut Self, Error> {
        let result = work()?;
        Ok(self.add(name, result, work))
    }

    /// Adds a variant with a known `result`; the result of the timed work is discarded.
    pub(crate) fn add<T>(
        &mut self,
        name: impl Into<String>,
        result: R,
        mut work: impl FnMut() -> Result<T, Error> + 'a,
    ) -> &mut Self {
        let agrees = self.plain.as_ref().is_none_or(|plain| *plain == result);
        self.plain.get_or_insert(result);
        let work = Box::new(move |calls| {
            for _ in 0..calls {
                black_box(work()?);
            }
            Ok(())
        });
        let name = name.into();
        let seconds = Vec::new();
        let way = Way { name, shipped: false, agrees, bytes: None, allocations: None, work, calls: 1, seconds };
        self.ways.push(way);
        self
    }

    /// Marks its works as waiting for a drive or for other threads.
    pub(crate) fn waits(&mut self) {
        self.clock = ClockId::Monotonic;
    }

    /// Sets the time of the call that made the last variant's result: if it takes seconds, that call is an epoch.
    pub(crate) fn took(&mut self, time: Duration) -> &mut Self {
        self.last().seconds.push(time.as_secs_f64());
        self
    }

    /// Marks the last variant as the one that ffwd ships.
    pub(crate) fn shipped(&mut self) -> &mut Self {
        self.last().shipped = true;
        self
    }

    /// Sets the memory that the last variant uses for each unit.
    pub(crate) fn memory(&mut self, bytes: f64, allocations: Option<f64>) -> &mut Self {
        let last = self.last();
        (last.bytes, last.allocations) = (Some(bytes), allocations);
        self
    }

    fn last(&mut self) -> &mut Way<'a> {
        self.ways.last_mut().expect("said of a way that was just added")
    }
}

impl Way<'_> {
    /// Finds how many calls an epoch takes, and warms up; returns how long such an epoch is.
    fn choose_calls(&mut self, epoch: Duration) -> Result<Duration, Error> {
        if let Some(&seconds) = self.seconds.first() {
            return Ok(Duration::from_secs_f64(seconds)); // Further calls would not warm it up more.
        }
        loop {
            let start = Instant::now();
            (self.work)(self.calls)?;
            let took = start.elapsed();
            if took >= epoch {
                return Ok(took);
            }
            let factor = epoch.as_secs_f64() / took.as_secs_f64().max(1e-7);
            self.calls = (self.calls as f64 * factor.clamp(1.2, 100.0)).ceil() as u64;
        }
    }

    /// Times one epoch by `clock`, else by the standard library's.
    fn epoch(&mut self, clock: Option<ClockId>) -> Result<(), Error> {
        let start = clock.map(seconds_of);
        let began = Instant::now();
        timed_calls(&mut self.work, self.calls)?;
        let took = match (clock, start) {
            (Some(clock), Some(start)) => seconds_of(clock) - start,
            _ => began.elapsed().as_secs_f64(),
        };
        self.seconds.push(took / self.calls as f64);
        Ok(())
    }
}

/// The timed loop. A separate function, by whose name Callgrind counts only its instructions: `bench/instructions`.
#[inline(never)]
fn timed_calls(work: &mut Work<'_>, calls: u64) -> Result<(), Error> {
    work(calls)
}

fn seconds_of(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// The upper median, so that two epochs have an error. Sorts the values.
fn upper_median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The lower median. Sorts the values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}
