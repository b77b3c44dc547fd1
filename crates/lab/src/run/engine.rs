//! Makes the runs of a plan: each cell once, then each again, in an order that turns by one each time; the results as they come.
//!
//! A run works in `work/` on a copy that is removed afterwards. What a run left is written whole before the next begins, so that
//! `--resume` makes exactly those that are missing.
//! Absent on purpose: judging the figures; see `compare.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check::Programs;
use super::copy::{self, What};
use super::limits::Applied;
use super::plan::{PageCache, Plan, PlannedCell, ProgramKind, Work, WorkKind};
use super::process::{self, Ended, Server};
use super::program::{self, Job, SALT_FILE, net_dir};
use super::progress::{self, Progress};
use super::snapshot::{self, DUMPED, Driver, Prepared};
use super::survey::Surveyed;
use super::{RunError, compare, sample};
use crate::result::{self, FORMAT, Machine, Outcome, RESULT_FILE, RUN_FILE, Report, RunRecord, SAMPLES_FILE, Settings};

/// How long a server may take until it answers.
const SERVER_STARTS: Duration = Duration::from_secs(120);

/// A share of sampling in the time of a run that is worth a note.
const SAMPLING_SHARE_MAX: f64 = 0.01;

/// What an ffwd leaves beside its log that is built with dhat and told `--debug heap`.
const HEAP_FILE: &str = "dhat-heap.json";

/// Shorter runs are sampled more densely, and say nothing about the share.
const COSTLY_SECONDS_MIN: f64 = 2.0;

/// Everything that the runs of a plan need.
pub(super) struct Engine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) programs: &'a Programs,
    /// The ffwd that reads what the programs left.
    pub(super) ffwd: &'a Path,
    pub(super) chains: &'a [Surveyed],
    pub(super) out: &'a Path,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: Progress,
    pub(super) records: Vec<RunRecord>,
    /// Directories made for works that need index and coins, by chain and program; or why one is missing.
    pub(super) prepared: BTreeMap<(usize, usize), Result<PathBuf, String>>,
    /// What is loaded, by chain, program and height; or why it is missing.
    pub(super) loads: BTreeMap<(usize, usize, u32), Result<Prepared, String>>,
    pub(super) page_cache: &'static str,
    /// Only cells with one of these words in their name are run; without any, all.
    pub(super) only: &'a [String],
}

/// One run of the plan.
struct Turn<'a> {
    number: usize,
    repeat: usize,
    cell: &'a PlannedCell,
}

impl Engine<'_> {
    /// Makes every run that is not there yet.
    pub(super) fn run(&mut self) -> Result<Report, RunError> {
        let plan = self.plan;
        let turns = turns(plan);
        let mut skipped = 0;
        for (at, turn) in turns.iter().enumerate() {
            let folder = self.out.join(folder_of(turn));
            if let Some(record) = read_record(&folder, turn) {
                self.records.push(record);
                continue;
            }
            if !is_wanted(self.only, &turn.cell.name) {
                skipped += 1;
                continue;
            }
            let wanted = |turn: &&Turn<'_>| is_wanted(self.only, &turn.cell.name);
            let left: Vec<_> = turns[at..].iter().filter(wanted).map(|turn| turn.cell).collect();
            self.progress.line(&format!(
                "{}; {}",
                title(turn, turns.len()),
                progress::to_go(self.progress.left(plan, &self.records, &left))
            ));
            let record = self.turn(turn, &folder, &left, turns.len())?;
            let Some(record) = record else {
                self.write_report(false)?;
                return Err(RunError::Stopped { done: self.records.len(), of: turns.len(), out: self.out.to_owned() });
            };
            self.tell(&record);
            self.progress.made(record.seconds);
            self.records.push(record);
            self.write_report(false)?;
        }
        // What the rest of the plan needs is kept for it.
        let done_with: &[&str] = if skipped == 0 { &["work", "prepared", "chains"] } else { &["work"] };
        done_with.iter().try_for_each(|folder| wipe(&self.out.join(folder)))?;
        self.write_report(skipped == 0)
    }

    fn tell(&self, record: &RunRecord) {
        let memory = record.peak_rss_anon_bytes as f64 / 1_048_576.0;
        let end = match record.outcome {
            Outcome::Done => String::new(),
            Outcome::Failed | Outcome::Killed | Outcome::Timeout => format!("; {}", record.why),
        };
        self.progress.line(&format!("      {}, peak {memory:.0} MiB{end}", progress::duration(record.seconds)));
    }

    /// Makes one run; none where it was stopped from outside.
    fn turn(
        &mut self,
        turn: &Turn<'_>,
        folder: &Path,
        left: &[&PlannedCell],
        of: usize,
    ) -> Result<Option<RunRecord>, RunError> {
        let cell = turn.cell;
        let (plan, chain, work) = (self.plan, &self.chains[cell.chain], &self.plan.works[cell.work]);
        let mut record = RunRecord {
            run: turn.number,
            cell: cell.name.clone(),
            repeat: turn.repeat,
            folder: folder_of(turn),
            commit: program::commit(&self.programs.versions[cell.program]),
            ..RunRecord::default()
        };
        wipe(folder)?;
        fs::create_dir_all(folder).map_err(|error| RunError::io(folder, error))?;
        let datadir = self.out.join("work");
        let server = match self.set_up(cell, &datadir, &mut record) {
            Ok(server) => server,
            Err(SetUp::Fault(error)) => return Err(error),
            Err(SetUp::Failed(why)) => {
                (record.outcome, record.why) = (Outcome::Failed, why);
                return self.keep(record, folder).map(Some);
            }
        };
        let program = &plan.programs[cell.program];
        let exe = &self.programs.exes[cell.program];
        let loaded = work.stopatheight.and_then(|height| self.loads.get(&(cell.chain, cell.program, height)));
        let loaded = loaded.filter(|_| work.kind == WorkKind::Load).cloned().and_then(Result::ok);
        let driver = self.driver(cell, &datadir, loaded.as_ref())?;
        let job = Job {
            kind: program.kind,
            exe,
            extra: &program.args,
            work,
            settings: &plan.settings[cell.settings],
            chain,
            folder: &datadir,
            connect: server.as_ref().map(|(_, at)| *at),
            loaded: loaded.as_ref(),
            driver: driver.as_ref(),
        };
        let limits = Applied::new(&plan.limits, &datadir);
        record.limits.clone_from(&limits.said);
        record.command = job.command();
        let (ended, call) = std::thread::scope(|scope| {
            let call = driver.as_ref().map(|driver| scope.spawn(|| driver.drive()));
            let ended = self.watch(&job, &limits, folder, &title(turn, of), left);
            (ended, call.map(|call| call.join().expect("nothing in it panics")))
        });
        let ended = ended?;
        drop(server);
        if ended.stopped {
            wipe(folder)?;
            wipe(&datadir)?;
            return Ok(None);
        }
        self.judge(&mut record, &job, &ended, &limits, folder)?;
        if work.kind.has_snapshot() {
            let said = program::object_in(&folder.join("stdout.txt"));
            snapshot::take_seconds(&mut record, call, said.and_then(|object| object.get("seconds")?.as_f64()));
        }
        wipe(&datadir)?;
        self.keep(record, folder).map(Some)
    }

    /// What tells a bitcoind to write or load a snapshot.
    fn driver(
        &self,
        cell: &PlannedCell,
        datadir: &Path,
        loaded: Option<&Prepared>,
    ) -> Result<Option<Driver>, RunError> {
        let work = &self.plan.works[cell.work];
        if self.plan.programs[cell.program].kind != ProgramKind::Bitcoind || !work.kind.has_snapshot() {
            return Ok(None);
        }
        let (exe, network) = (&self.programs.exes[cell.program], self.chains[cell.chain].network);
        let file = loaded.map_or_else(|| datadir.join(DUMPED), |loaded| loaded.file.clone());
        let driver = Driver::new(exe, (datadir, network), (work.kind, work.stopatheight), &file);
        driver.map(Some).map_err(|error| RunError::io(Path::new("127.0.0.1"), error))
    }

    /// The program's time.
    fn watch(
        &mut self,
        job: &Job<'_>,
        limits: &Applied,
        folder: &Path,
        title: &str,
        left: &[&PlannedCell],
    ) -> Result<Ended, RunError> {
        let command = job.command();
        let (target, expected) = (job.target(), progress::expected(self.plan, &self.records, left[0]));
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
            folder,
            log: &job.log(),
            limits,
            timeout: Duration::from_secs_f64(self.plan.timeout_s),
            sample: Duration::from_millis(self.plan.sample_ms),
            stop: self.stop,
        };
        process::run(&job, &mut watch).map_err(|error| RunError::io(Path::new(&command[0]), error))
    }

    /// Fills in how the run went, and what it left.
    fn judge(
        &self,
        record: &mut RunRecord,
        job: &Job<'_>,
        ended: &Ended,
        limits: &Applied,
        folder: &Path,
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
        sample::write(&ended.samples, &folder.join(SAMPLES_FILE)).map_err(|error| RunError::io(folder, error))?;
        let log = folder.join("debug.log");
        for name in ["debug.log", HEAP_FILE] {
            let (left, kept) = (job.log().with_file_name(name), folder.join(name));
            if left.is_file() {
                fs::rename(left, &kept).map_err(|error| RunError::io(&kept, error))?;
            }
        }
        let from_log = if job.work.kind.runs_scripts_of_blocks() { program::trust_of_log(&log) } else { None };
        record.trust = from_log.unwrap_or_else(|| job.trust()).to_owned();
        record.trust_from_log = from_log.is_some();
        let stderr = folder.join("stderr.txt");
        let last_word = || program::last_lines(&[&stderr]).pop().map_or(String::new(), |line| format!(", {line}"));
        (record.outcome, record.why) = if ended.timed_out {
            (Outcome::Timeout, format!("took longer than {} and was ended", progress::duration(self.plan.timeout_s)))
        } else if ended.status.code().is_none() {
            let memory = if limits.ran_out_of_memory() { ": it wanted more memory than the plan allows" } else { "" };
            (Outcome::Killed, format!("{}{memory}", ended.how()))
        } else if !ended.status.success() {
            (Outcome::Failed, format!("{}{}", ended.how(), last_word()))
        } else {
            match self.found(record, job, folder) {
                Ok(()) => (Outcome::Done, String::new()),
                Err(why) => (Outcome::Failed, why),
            }
        };
        if record.outcome != Outcome::Done {
            record.last_lines = program::last_lines(&[&log, &stderr]);
        }
        Ok(())
    }

    /// Reads tip and set of what a run left; why it does not count where it does not.
    fn found(&self, record: &mut RunRecord, job: &Job<'_>, folder: &Path) -> Result<(), String> {
        if job.kind == ProgramKind::Ffwd && program::object_in(&folder.join("stdout.txt")).is_none() {
            return Err("no JSON object on its standard output".to_owned());
        }
        let hash = self.plan.check_every || record.repeat == 1;
        let dumped = (job.work.kind == WorkKind::Dump).then(|| job.folder.join(DUMPED));
        let found = program::coins_info(self.ffwd, job.folder, dumped.as_deref(), job.chain.network, hash)?;
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

    fn keep(&self, record: RunRecord, folder: &Path) -> Result<RunRecord, RunError> {
        let path = folder.join(RUN_FILE);
        result::write_whole(&path, &result::json(&record)).map_err(|error| RunError::io(&path, error))?;
        Ok(record)
    }

    /// Makes the folder that the run works on, and the server it needs.
    fn set_up(
        &mut self,
        cell: &PlannedCell,
        datadir: &Path,
        record: &mut RunRecord,
    ) -> Result<Option<(Server, SocketAddr)>, SetUp> {
        let chain = &self.chains[cell.chain];
        let work = &self.plan.works[cell.work];
        wipe(datadir)?;
        let to = net_dir(datadir, chain.network);
        let (from, what) = match work.kind {
            WorkKind::Reindex => (Some(chain.folder.clone()), What::Blocks),
            WorkKind::Load => (Some(self.load_of(cell.chain, cell.program, work.stopatheight)?.folder), What::All),
            WorkKind::Sync => (None, What::Blocks),
            _ if chain.is_whole => (Some(chain.folder.clone()), What::All),
            _ => (Some(self.prepare(cell.chain, cell.program)?), What::All),
        };
        let wrong = |error| RunError::io(&to, error);
        let chain = &self.chains[cell.chain];
        fs::create_dir_all(&to).map_err(wrong)?;
        if let Some(from) = from {
            let copied = copy::chain(&net_dir(&from, chain.network), &to, what).map_err(wrong)?;
            copied.by().clone_into(&mut record.chain_by);
        }
        if work.kind == WorkKind::Audit {
            // What is measured needs no secret.
            fs::write(datadir.join(SALT_FILE), "5a".repeat(32)).map_err(wrong)?;
        }
        let server = match (work.kind, work.server) {
            (WorkKind::Sync, Some(server)) => Some(self.serve(cell.chain, server)?),
            _ => None,
        };
        self.page_cache = copy::page_cache(&to, self.plan.page_cache).map_err(wrong)?;
        Ok(server)
    }

    /// The folder of a chain with index and coins, made by a program and kept until the plan is done.
    fn prepare(&mut self, chain: usize, program: usize) -> Result<PathBuf, SetUp> {
        if let Some(known) = self.prepared.get(&(chain, program)) {
            return known.clone().map_err(SetUp::Failed);
        }
        let label = slug(&format!("{} {}", self.chains[chain].facts.label, self.plan.programs[program].label));
        let folder = self.out.join("prepared").join(label);
        let marker = folder.join("prepared.ok");
        let made = if marker.is_file() { Ok(()) } else { self.make_prepared(chain, program, &folder)? };
        if made.is_ok() {
            fs::write(&marker, "").map_err(|error| RunError::io(&marker, error))?;
        }
        let known = made.map(|()| folder);
        self.prepared.insert((chain, program), known.clone());
        known.map_err(SetUp::Failed)
    }

    fn make_prepared(&mut self, chain: usize, program: usize, folder: &Path) -> Result<Result<(), String>, RunError> {
        let (found, planned) = (&self.chains[chain], &self.plan.programs[program]);
        self.progress.line(&format!(
            "      {} makes index and coins of {} first, which is not timed",
            planned.label, found.facts.label
        ));
        wipe(folder)?;
        let to = net_dir(folder, found.network);
        let what = if found.is_whole { What::All } else { What::Blocks };
        copy::chain(&net_dir(&found.folder, found.network), &to, what).map_err(|error| RunError::io(&to, error))?;
        if found.is_whole {
            return Ok(Ok(()));
        }
        let settings = Settings { assumevalid: Some("tip".to_owned()), ..Settings::default() };
        let work = Work { kind: WorkKind::Reindex, stopatheight: None, server: None, level: 0, blocks: 0, line: 0 };
        let (exe, extra) = (&self.programs.exes[program], &planned.args);
        let job = Job {
            kind: planned.kind,
            exe,
            extra,
            work: &work,
            settings: &settings,
            chain: found,
            folder,
            connect: None,
            loaded: None,
            driver: None,
        };
        let command = job.command();
        let run = process::Job {
            command: &command,
            folder,
            log: &job.log(),
            limits: &Applied::default(),
            timeout: Duration::from_secs_f64(self.plan.timeout_s),
            sample: Duration::from_secs(1),
            stop: self.stop,
        };
        let ended = process::run(&run, &mut |_, _| {}).map_err(|error| RunError::io(exe, error))?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Stopped {
                done: self.records.len(),
                of: turns(self.plan).len(),
                out: self.out.to_owned(),
            });
        }
        if !ended.status.success() {
            let lines = program::last_lines(&[&job.log(), &folder.join("stderr.txt")]);
            let last = lines.last().cloned().unwrap_or_default();
            return Ok(Err(format!("index and coins could not be made first: {}; {last}", ended.how())));
        }
        let there = program::coins_info(self.ffwd, folder, None, found.network, false);
        Ok(there.map(|_| ()).map_err(|why| format!("index and coins could not be made first: {why}")))
    }

    /// What a load works on, made once and kept until the plan is done.
    fn load_of(&mut self, chain: usize, program: usize, height: Option<u32>) -> Result<Prepared, SetUp> {
        let height = height.unwrap_or(self.chains[chain].facts.height);
        let key = (chain, program, height);
        if let Some(known) = self.loads.get(&key) {
            return known.clone().map_err(SetUp::Failed);
        }
        let (source, found) = (self.prepare(chain, program)?, &self.chains[chain]);
        let (network, label) = (found.network, format!("{} load {program} {height}", found.facts.label));
        let out = self.out.join("prepared").join(slug(&label));
        wipe(&out)?;
        fs::create_dir_all(&out).map_err(|error| RunError::io(&out, error))?;
        let mut made = snapshot::dump(self.ffwd, &out, (&source, network, height));
        if made.is_ok() {
            let (server, at) = self.serve(chain, program)?;
            made = snapshot::headers(self.ffwd, &out, network, at).and(made);
            drop(server);
        }
        self.loads.insert(key, made.clone());
        made.map_err(SetUp::Failed)
    }

    /// Starts a server of a chain and waits until it answers.
    fn serve(&mut self, chain: usize, program: usize) -> Result<(Server, SocketAddr), SetUp> {
        let folder = self.prepare(chain, program)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let at = free.map_err(|error| RunError::io(Path::new("127.0.0.1"), error))?;
        let exe = &self.programs.exes[program];
        let kind = self.plan.programs[program].kind;
        let command = program::server(kind, exe, &folder, self.chains[chain].network, at);
        let mut server = Server::start(&command).map_err(|error| RunError::io(exe, error))?;
        let start = Instant::now();
        while TcpStream::connect_timeout(&at, Duration::from_millis(200)).is_err() {
            if !server.is_running() || start.elapsed() > SERVER_STARTS {
                let log = net_dir(&folder, self.chains[chain].network).join("debug.log");
                let last = program::last_lines(&[&log]).pop().unwrap_or_default();
                return Err(SetUp::Failed(format!("the server does not answer at {at}; {last}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok((server, at))
    }

    /// Writes the report of the runs so far.
    fn write_report(&self, complete: bool) -> Result<Report, RunError> {
        let curves = |run: &RunRecord| sample::read_memory(&self.out.join(&run.folder).join(SAMPLES_FILE));
        let facts: Vec<_> = self.chains.iter().map(|chain| chain.facts.clone()).collect();
        let strip = |run: &RunRecord| RunRecord { last_lines: Vec::new(), ..run.clone() };
        let report = Report {
            format: FORMAT.to_owned(),
            title: self.plan.title.clone(),
            baseline: self.plan.programs[self.plan.baseline].label.clone(),
            complete,
            machine: machine(),
            page_cache: self.page_cache.to_owned(),
            notes: self.notes(),
            cells: compare::cells(self.plan, &facts, &self.records, &curves),
            chains: facts,
            runs: self.records.iter().map(strip).collect(),
        };
        let path = self.out.join(RESULT_FILE);
        result::write_whole(&path, &result::json(&report)).map_err(|error| RunError::io(&path, error))?;
        Ok(report)
    }

    fn notes(&self) -> Vec<String> {
        let programs = self.plan.programs.iter().zip(&self.programs.versions);
        let mut notes: Vec<_> = programs.map(|(program, version)| format!("{} is {version}.", program.label)).collect();
        let mut limits: Vec<_> =
            self.records.iter().flat_map(|run| &run.limits).map(|said| format!("Limit: {said}.")).collect();
        limits.sort();
        limits.dedup();
        notes.extend(limits);
        if self.plan.works.iter().any(|work| work.kind == WorkKind::Reindex) {
            notes.push(
                "A reindex starts from block files alone: an older index, undo files and coins are not in its directory."
                    .to_owned(),
            );
        }
        if self.plan.page_cache == PageCache::Kept
            && self.chains.iter().any(|chain| chain.facts.bytes > machine().memory_bytes / 2)
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

/// Why a run could not begin.
enum SetUp {
    /// The world: the plan ends here, to be resumed.
    Fault(RunError),
    /// The program's doing: that is the run's result.
    Failed(String),
}

impl From<RunError> for SetUp {
    fn from(error: RunError) -> Self {
        Self::Fault(error)
    }
}

/// The runs in their order: in each repeat every cell once, beginning one further than the last time.
fn turns(plan: &Plan) -> Vec<Turn<'_>> {
    let cells = plan.cells.len();
    let one = |repeat: usize| (0..cells).map(move |at| (repeat, (at + repeat) % cells));
    let order = (0..plan.repeats as usize).flat_map(one);
    order
        .enumerate()
        .map(|(at, (repeat, cell))| Turn { number: at + 1, repeat: repeat + 1, cell: &plan.cells[cell] })
        .collect()
}

/// Whether a cell of this name is to be run.
pub(super) fn is_wanted(only: &[String], name: &str) -> bool {
    let name = name.to_lowercase();
    only.is_empty() || only.iter().any(|word| name.contains(&word.to_lowercase()))
}

fn title(turn: &Turn<'_>, of: usize) -> String {
    format!("[{}/{of}] {}, repeat {}", turn.number, turn.cell.name, turn.repeat)
}

fn folder_of(turn: &Turn<'_>) -> String {
    format!("runs/{:03}-{}-{}", turn.number, slug(&turn.cell.name), turn.repeat)
}

/// `name` as a file name.
pub(super) fn slug(name: &str) -> String {
    let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let mut slug: String = letters.collect();
    while slug.contains("--") {
        slug = slug.replace("--", "-");
    }
    slug.trim_matches('-').to_owned()
}

/// The record of a run that was made before, if it is this one.
fn read_record(folder: &Path, turn: &Turn<'_>) -> Option<RunRecord> {
    let record: RunRecord = serde_json::from_slice(&fs::read(folder.join(RUN_FILE)).ok()?).ok()?;
    (record.run == turn.number && record.cell == turn.cell.name && record.repeat == turn.repeat).then_some(record)
}

/// Removes a folder of ours, if it is there.
pub(super) fn wipe(folder: &Path) -> Result<(), RunError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RunError::io(folder, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// This machine, as the system describes it.
fn machine() -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str, separator: char| {
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(separator));
        line.map(|(_, value)| value.trim().trim_matches('"').to_owned()).unwrap_or_default()
    };
    let memory = field(&text("/proc/meminfo"), "MemTotal", ':');
    let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let os = field(&text("/etc/os-release"), "PRETTY_NAME", '=');
    let kernel = text("/proc/sys/kernel/osrelease").trim().to_owned();
    Machine {
        cpu: field(&text("/proc/cpuinfo"), "model name", ':'),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: kib * 1024,
        system: [os, format!("Linux {kernel}")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_interleaved() {
        let text = "repeats = 3\n[[program]]\nlabel = \"a\"\n[[program]]\nlabel = \"b\"\n[[chain]]\nlabel = \"c\"\nfolder = \"x\"\n[[work]]\nkind = \"reindex\"\n";
        let plan = super::super::plan::parse(text, Path::new("/")).unwrap();
        let order: Vec<_> =
            turns(&plan).iter().map(|turn| format!("{} {} {}", turn.number, turn.cell.name, turn.repeat)).collect();
        assert_eq!(
            order,
            ["1 a reindex 1", "2 b reindex 1", "3 b reindex 2", "4 a reindex 2", "5 a reindex 3", "6 b reindex 3"]
        );
        assert_eq!(folder_of(&turns(&plan)[0]), "runs/001-a-reindex-1");
        assert_eq!(slug("../A b: c+"), "a-b-c");
        assert!(machine().cores > 0 && machine().memory_bytes > 0);
    }
}
