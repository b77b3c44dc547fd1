//! Executes the runs of a plan: all cells once, then again in a rotated order, and prints results as they arrive.
//!
//! A run works in `work/` on a copy that is removed afterwards. Its results are written completely before the next run
//! begins, so that `--resume` only makes the missing runs.
//! Absent on purpose: evaluating the figures (`compare.rs`), and preparing a run (`prepare.rs`).

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::limits::Applied;
use super::plan::{Limits, PageCache, Plan, PlannedCell, ProgramKind, WorkKind};
use super::prepare::SetUp;
use super::process::{self, Ended};
use super::profile::{self, Profiler};
use super::program::{self, Job};
use super::progress;
use super::snapshot::{self, DUMPED, Driver, Prepared};
use super::state::{Engine, Least, Turn, directory_of, is_wanted, read_record, turns, wipe};
use super::{RunError, compare, sample};
use crate::machine;
use demo::result::{self, Cell, FORMAT, Outcome, RESULT_FILE, RUN_FILE, Report, RunRecord, SAMPLES_FILE, STACKS_FILE};

/// Maximum share of sampling in the time of a run. More than this causes a note.
const SAMPLING_SHARE_MAX: f64 = 0.01;

/// Name of dhat's file, which an ffwd with the feature `heap` and `--debug heap` writes next to its log.
const HEAP_FILE: &str = "dhat-heap.json";

/// Name of the profiler's file in a run's directory, until it is folded.
const PERF_FILE: &str = "perf.data";

/// Shorter runs are sampled more densely, so their share is not evaluated.
const COSTLY_SECONDS_MIN: f64 = 2.0;

impl Engine<'_> {
    /// Makes every missing run; returns whether the plan is complete.
    pub(super) fn run(&mut self) -> Result<bool, RunError> {
        let plan = self.plan;
        let mut turns = turns(plan);
        let mut skipped = 0;
        let mut at = 0;
        while at < turns.len() {
            let turn = &turns[at];
            let directory = self.out.join(directory_of(turn));
            if let Some(record) = read_record(&directory, turn) {
                self.records.push(record);
            } else if !is_wanted(self.only, &turn.cell.name) {
                skipped += 1;
            } else {
                let wanted = |turn: &&Turn<'_>| is_wanted(self.only, &turn.cell.name);
                let left: Vec<_> = turns[at..].iter().filter(wanted).map(|turn| turn.cell).collect();
                let to_go = progress::to_go(self.progress.left(plan, &self.records, &left));
                self.progress.line(&format!("{}; {to_go}", title(turn, turns.len())));
                let Some(record) = self.turn(turn, &directory, &left, turns.len())? else {
                    return Err(self.stopped(turns.len()));
                };
                self.tell(&record);
                self.progress.made(record.seconds);
                self.records.push(record);
                self.write_report(false, &[])?;
            }
            at += 1;
            if at == turns.len() {
                turns.extend(self.more(plan, turns[at - 1].repeat));
            }
        }
        Ok(skipped == 0)
    }

    /// Writes the report of all runs; `complete` is whether no run of the plan is missing.
    pub(super) fn finish(&self, complete: bool, least: &[Least]) -> Result<Report, RunError> {
        // Directories that the rest of the plan needs are kept.
        let done_with: &[&str] = if complete { &["work", "prepared", "chains"] } else { &["work"] };
        done_with.iter().try_for_each(|directory| wipe(&self.out.join(directory)))?;
        self.write_report(complete, least)
    }

    /// Writes the report of an interrupted plan, and returns the error for it.
    pub(super) fn stopped(&self, of: usize) -> RunError {
        match self.write_report(false, &[]) {
            Ok(_) => RunError::Stopped { done: self.records.len(), of, out: self.out.to_owned() },
            Err(error) => error,
        }
    }

    /// The next repeats of cells whose interval is still too wide. Empty if the plan sets no target.
    fn more<'p>(&self, plan: &'p Plan, last: usize) -> Vec<Turn<'p>> {
        let Some(wanted) = plan.until_interval.filter(|_| last < plan.repeats_max as usize) else { return Vec::new() };
        let is_wide = |cell: &PlannedCell| {
            let done = self.records.iter().filter(|run| run.cell == cell.name && run.outcome == Outcome::Done);
            let seconds: Vec<f64> = done.map(|run| run.seconds).collect();
            // A cell without a successful run is not repeated.
            !seconds.is_empty() && compare::interval_percent(&seconds).is_none_or(|percent| percent > wanted)
        };
        let cells = plan.cells.iter().enumerate().filter(|(_, cell)| is_wanted(self.only, &cell.name) && is_wide(cell));
        cells.map(|(at, cell)| Turn { number: last * plan.cells.len() + at + 1, repeat: last + 1, cell }).collect()
    }

    fn tell(&self, record: &RunRecord) {
        let memory = record.peak_rss_anon_bytes as f64 / 1_048_576.0;
        let end = match record.outcome {
            Outcome::Done => String::new(),
            Outcome::Failed | Outcome::Killed | Outcome::Timeout => format!("; {}", record.why),
        };
        self.progress.line(&format!("      {}, peak {memory:.0} MiB{end}", progress::duration(record.seconds)));
    }

    /// Makes one run; `None` if it was stopped from outside.
    pub(super) fn turn(
        &mut self,
        turn: &Turn<'_>,
        directory: &Path,
        left: &[&PlannedCell],
        of: usize,
    ) -> Result<Option<RunRecord>, RunError> {
        let cell = turn.cell;
        let plan = self.plan;
        let chain = &self.chains[cell.chain];
        let work = &self.plan.works[cell.work];
        let mut record = RunRecord {
            run: turn.number,
            cell: cell.name.clone(),
            repeat: turn.repeat,
            directory: directory_of(turn),
            commit: program::commit(&self.programs.versions[cell.program]),
            ..RunRecord::default()
        };
        wipe(directory)?;
        fs::create_dir_all(directory).map_err(|error| RunError::io(directory, error))?;
        let datadir = self.out.join("work");
        let server = match self.set_up(cell, &datadir, &mut record) {
            Ok(server) => server,
            Err(SetUp::Fault(error)) => return Err(error),
            Err(SetUp::Failed(why)) => {
                (record.outcome, record.why) = (Outcome::Failed, why);
                return self.keep(record, directory).map(Some);
            }
        };
        let key = |height| (cell.chain, plan.preparer(cell.program), height);
        let loaded = work.stopatheight.and_then(|height| self.loads.get(&key(height)));
        let loaded = loaded.filter(|_| work.kind == WorkKind::Load).cloned().and_then(Result::ok);
        let driver = self.driver(cell, &datadir, loaded.as_ref())?;
        let job = Job {
            kind: plan.programs[cell.program].kind,
            exe: &self.programs.exes[cell.program],
            extra: &plan.programs[cell.program].args,
            work,
            settings: &plan.settings[cell.settings],
            chain,
            directory: &datadir,
            connect: server.as_ref().map(|server| server.at),
            loaded: loaded.as_ref(),
            driver: driver.as_ref(),
        };
        let asked = Limits { memory_mib: self.memory_mib.or(work.limits.memory_mib), ..work.limits.clone() };
        let limits = Applied::new(&asked, &datadir);
        record.limits.extend_from_slice(&limits.said);
        record.command = job.command();
        let (ended, call) = std::thread::scope(|scope| {
            let call = driver.as_ref().map(|driver| scope.spawn(|| driver.drive()));
            let ended = self.watch(&job, &limits, directory, &title(turn, of), left);
            (ended, call.map(|call| call.join().expect("nothing in it panics")))
        });
        let ended = ended?;
        drop(server);
        if ended.stopped {
            wipe(directory)?;
            wipe(&datadir)?;
            return Ok(None);
        }
        self.judge(&mut record, &job, &ended, &limits, directory)?;
        if work.kind.is_a_call() {
            let said = program::object_in(&directory.join("stdout.txt"));
            snapshot::take_seconds(&mut record, call, said.and_then(|object| object.get("seconds")?.as_f64()));
        }
        wipe(&datadir)?;
        self.keep(record, directory).map(Some)
    }

    /// The commands that make a bitcoind write or load a snapshot.
    fn driver(
        &self,
        cell: &PlannedCell,
        datadir: &Path,
        loaded: Option<&Prepared>,
    ) -> Result<Option<Driver>, RunError> {
        let work = &self.plan.works[cell.work];
        if self.plan.programs[cell.program].kind != ProgramKind::Bitcoind || !work.kind.is_a_call() {
            return Ok(None);
        }
        let exe = &self.programs.exes[cell.program];
        let network = self.chains[cell.chain].network;
        let file = loaded.map_or_else(|| datadir.join(DUMPED), |loaded| loaded.file.clone());
        let driver = Driver::new(exe, datadir, network, work.kind, work.stopatheight, &file);
        driver.map(Some).map_err(|error| RunError::io(Path::new("127.0.0.1"), error))
    }

    /// Runs the program and samples it.
    fn watch(
        &mut self,
        job: &Job<'_>,
        limits: &Applied,
        directory: &Path,
        title: &str,
        left: &[&PlannedCell],
    ) -> Result<Ended, RunError> {
        let command = job.command();
        let target = job.target();
        let expected = progress::expected(self.plan, &self.records, left[0]);
        let after = self.progress.left(self.plan, &self.records, &left[1..]);
        let progress = &mut self.progress;
        let mut watch = |seconds: f64, height: Option<u32>| {
            let by_height =
                height.filter(|&height| height > 0).map(|height| seconds * f64::from(target) / f64::from(height));
            let own = expected.or(by_height).map(|whole| (whole - seconds).max(0.0));
            progress.running(title, seconds, height, target, own.zip(after).map(|(own, after)| own + after));
        };
        let job = process::Job {
            command: &command,
            directory,
            log: &job.log(),
            limits,
            profile: self.profiler.as_ref().map(|profiler| (profiler, directory.join(PERF_FILE))),
            timeout: Duration::from_secs_f64(self.plan.timeout_s),
            sample: Duration::from_millis(self.plan.sample_ms),
            stop: self.stop,
        };
        process::run(&job, &mut watch).map_err(|error| RunError::io(Path::new(&command[0]), error))
    }

    /// Fills in the figures of a run, and its results.
    fn judge(
        &self,
        record: &mut RunRecord,
        job: &Job<'_>,
        ended: &Ended,
        limits: &Applied,
        directory: &Path,
    ) -> Result<(), RunError> {
        record.started_unix_us = ended.started_unix_us;
        record.seconds = ended.seconds;
        record.cpu_seconds = ended.usage.user_seconds + ended.usage.system_seconds;
        (record.user_seconds, record.system_seconds) = (ended.usage.user_seconds, ended.usage.system_seconds);
        (record.read_calls, record.write_calls) = (ended.usage.read_calls, ended.usage.write_calls);
        record.peak_rss_anon_bytes = ended.peak_rss_anon_bytes;
        record.peak_rss_bytes = ended.usage.peak_rss_bytes;
        (record.bytes_read, record.bytes_written) = (ended.usage.read_bytes, ended.usage.write_bytes);
        record.sampling_share = ended.sampling_share;
        let first = ended.samples.iter().position(|sample| sample.height.is_some_and(|height| height > 0));
        // If the first sample already has blocks, the time of the first block is unknown.
        record.seconds_from_first_block =
            first.filter(|&at| at > 0).map(|at| ended.seconds - ended.samples[at].seconds.min(ended.seconds));
        if let Some(said) = program::object_in(&directory.join("stdout.txt")) {
            record.flushes = said.get("flushes").or(said.get("generations")).and_then(serde_json::Value::as_u64);
            record.commit_seconds = said.get("commit_seconds").and_then(serde_json::Value::as_f64);
        }
        let data = directory.join(PERF_FILE);
        if data.is_file() && profile::fold(&data, &directory.join(STACKS_FILE)).is_ok() {
            record.stacks = Some(STACKS_FILE.to_owned());
        }
        sample::write(&ended.samples, &directory.join(SAMPLES_FILE)).map_err(|error| RunError::io(directory, error))?;
        let log = directory.join("debug.log");
        for name in ["debug.log", HEAP_FILE] {
            let left = job.log().with_file_name(name);
            let kept = directory.join(name);
            if left.is_file() {
                fs::rename(left, &kept).map_err(|error| RunError::io(&kept, error))?;
            }
        }
        let from_log = if job.work.kind.runs_scripts_of_blocks() { program::trust_of_log(&log) } else { None };
        record.trust = from_log.unwrap_or_else(|| job.trust()).to_owned();
        record.trust_from_log = from_log.is_some();
        let stderr = directory.join("stderr.txt");
        let last_word = || program::last_lines(&[&stderr]).pop().map_or(String::new(), |line| format!(", {line}"));
        (record.outcome, record.why) = if ended.timed_out {
            (Outcome::Timeout, format!("took longer than {} and was ended", progress::duration(self.plan.timeout_s)))
        } else if ended.status.code().is_none() {
            let memory = if limits.ran_out_of_memory() { ": it wanted more memory than the plan allows" } else { "" };
            (Outcome::Killed, format!("{}{memory}", ended.how()))
        } else if !ended.status.success() {
            (Outcome::Failed, format!("{}{}", ended.how(), last_word()))
        } else {
            match self.found(record, job, directory) {
                Ok(()) => (Outcome::Done, String::new()),
                Err(why) => (Outcome::Failed, why),
            }
        };
        if record.outcome != Outcome::Done {
            record.last_lines = program::last_lines(&[&log, &stderr]);
        }
        Ok(())
    }

    /// Reads tip and UTXO set that a run produced. The error is why the run does not count.
    fn found(&self, record: &mut RunRecord, job: &Job<'_>, directory: &Path) -> Result<(), String> {
        if job.kind == ProgramKind::Ffwd && program::object_in(&directory.join("stdout.txt")).is_none() {
            return Err("no JSON object on its standard output".to_owned());
        }
        let hash = self.plan.check_every || record.repeat == 1;
        let dumped = (job.work.kind == WorkKind::Dump).then(|| job.directory.join(DUMPED));
        let found = program::coins_info(self.ffwd, job.directory, dumped.as_deref(), job.chain.network, hash)?;
        record.height = found.height;
        record.bestblock = found.bestblock;
        record.txouts = found.txouts;
        record.hash_serialized_3 = found.hash_serialized_3;
        let target = job.target();
        match record.height {
            Some(height) if height >= target => Ok(()),
            Some(height) => Err(format!("ended at height {height}, wanted {target}")),
            None => Err("the height at which it ended is not known".to_owned()),
        }
    }

    fn keep(&self, record: RunRecord, directory: &Path) -> Result<RunRecord, RunError> {
        let path = directory.join(RUN_FILE);
        result::write_whole(&path, &result::json(&record)).map_err(|error| RunError::io(&path, error))?;
        Ok(record)
    }

    /// Writes the report of the runs so far.
    fn write_report(&self, complete: bool, least: &[Least]) -> Result<Report, RunError> {
        let curves = |run: &RunRecord| sample::read_memory(&self.out.join(&run.directory).join(SAMPLES_FILE));
        let facts: Vec<_> = self.chains.iter().map(|chain| chain.facts.clone()).collect();
        let strip = |run: &RunRecord| RunRecord { last_lines: Vec::new(), ..run.clone() };
        let mut cells = compare::cells(self.plan, &facts, &self.records, &curves);
        let mut notes = self.notes(&cells);
        for (name, found) in least {
            match found {
                Ok(between) => cells
                    .iter_mut()
                    .filter(|cell| cell.cell == *name)
                    .for_each(|cell| cell.least_memory_mib = Some(*between)),
                Err(why) => notes.push(format!("Least memory of {name}: {why}.")),
            }
        }
        let report = Report {
            format: FORMAT.to_owned(),
            title: self.plan.title.clone(),
            baseline: self.plan.programs[self.plan.baseline].label.clone(),
            complete,
            machine: machine::here(self.out),
            page_cache: self.page_cache.to_owned(),
            notes,
            cells,
            chains: facts,
            runs: self.records.iter().map(strip).collect(),
        };
        let path = self.out.join(RESULT_FILE);
        result::write_whole(&path, &result::json(&report)).map_err(|error| RunError::io(&path, error))?;
        Ok(report)
    }

    fn notes(&self, cells: &[Cell]) -> Vec<String> {
        let programs = self.plan.programs.iter().zip(&self.programs.versions);
        let mut notes: Vec<_> = programs.map(|(program, version)| format!("{} is {version}.", program.label)).collect();
        let mut limits: Vec<_> =
            self.records.iter().flat_map(|run| &run.limits).map(|said| format!("Limit: {said}.")).collect();
        limits.sort();
        limits.dedup();
        notes.extend(limits);
        notes.extend(self.profiler.as_ref().map(Profiler::said));
        if self.plan.works.iter().any(|work| work.limits.cpus.is_none()) {
            notes.push("Programs were not bound to processors ([limits] cpus).".to_owned());
        }
        for cell in cells {
            let far = compare::outliers(&cell.seconds).into_iter().map(|at| progress::duration(cell.seconds[at]));
            let far: Vec<_> = far.collect();
            if !far.is_empty() {
                notes.push(format!(
                    "{}: {} lies far from its other runs, and is part of the mean.",
                    cell.cell,
                    far.join(", ")
                ));
            }
        }
        if self.plan.works.iter().any(|work| work.kind == WorkKind::Reindex) {
            notes.push(
                "A reindex starts from only block files: an older index, undo files and coins are not in its directory."
                    .to_owned(),
            );
        }
        if self.plan.page_cache == PageCache::Kept
            && self.chains.iter().any(|chain| chain.facts.bytes > machine::here(self.out).memory_bytes / 2)
        {
            notes.push("A chain is larger than half of the memory: the page cache cannot hold all of it.".to_owned());
        }
        let costly = |run: &&RunRecord| run.sampling_share > SAMPLING_SHARE_MAX && run.seconds > COSTLY_SECONDS_MIN;
        let costly = self.records.iter().filter(costly).count();
        if costly > 0 {
            notes.push(format!("Sampling took more than 1 % of one processor in {costly} runs."));
        }
        notes
    }
}

fn title(turn: &Turn<'_>, of: usize) -> String {
    format!("[{}/{of}] {}, repeat {}", turn.number, turn.cell.name, turn.repeat)
}
