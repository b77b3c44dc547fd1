//! Prepares a run: a copy of its chain, index and coins if the work needs them, a server, a snapshot.
//!
//! Slow preparations are made once and kept until the plan is done.
//! Absent on purpose: the runs; see `engine.rs`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::RunError;
use super::copy::{self, What};
use super::limits::Applied;
use super::link::{self, Line};
use super::plan::{Limits, Link, PlannedCell, Work, WorkKind};
use super::process::{self, Server};
use super::program::{self, Job, SALT_FILE, net_dir};
use super::snapshot::{self, Prepared};
use super::state::{Engine, slug, turns, wipe};
use demo::result::{RunRecord, Settings};

/// Time limit for a server to answer.
const SERVER_STARTS: Duration = Duration::from_secs(120);

/// Why a run could not begin.
pub(super) enum SetUp {
    /// A fault of the environment: the plan stops, and can be resumed.
    Fault(RunError),
    /// A failure of the program: it is the result of the run.
    Failed(String),
}

impl From<RunError> for SetUp {
    fn from(error: RunError) -> Self {
        Self::Fault(error)
    }
}

/// A running server, optionally behind a simulated link.
pub(super) struct Serving {
    /// Dropped before the server.
    _line: Option<Line>,
    _server: Server,
    /// The address to connect to.
    pub(super) at: SocketAddr,
}

impl Engine<'_> {
    /// Creates the directory of the run, and the server that it needs.
    pub(super) fn set_up(
        &mut self,
        cell: &PlannedCell,
        datadir: &Path,
        record: &mut RunRecord,
    ) -> Result<Option<Serving>, SetUp> {
        let chain = &self.chains[cell.chain];
        let work = &self.plan.works[cell.work];
        wipe(datadir)?;
        let to = net_dir(datadir, chain.network);
        let (from, what) = match work.kind {
            WorkKind::Reindex => (Some(chain.directory.clone()), What::Blocks),
            WorkKind::Load => (Some(self.load_of(cell.chain, cell.program, work.stopatheight)?.directory), What::All),
            WorkKind::Sync => (None, What::Blocks),
            _ if chain.is_whole => (Some(chain.directory.clone()), What::All),
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
            // A benchmark needs no secret salt.
            fs::write(datadir.join(SALT_FILE), "5a".repeat(32)).map_err(wrong)?;
        }
        let server = match (work.kind, work.server) {
            (WorkKind::Sync, Some(server)) => Some(self.behind_line(work.limits.link, cell.chain, server, record)?),
            _ => None,
        };
        self.page_cache = copy::page_cache(&to, self.plan.page_cache).map_err(wrong)?;
        Ok(server)
    }

    /// A server behind the simulated link of the plan.
    fn behind_line(
        &mut self,
        link: Link,
        chain: usize,
        program: usize,
        record: &mut RunRecord,
    ) -> Result<Serving, SetUp> {
        let (server, at) = self.serve(chain, program)?;
        if !link.is_limited() {
            return Ok(Serving { _line: None, _server: server, at });
        }
        let line = Line::open(at, link).map_err(|error| RunError::io(Path::new("127.0.0.1"), error))?;
        record.limits.push(link::said(&link));
        Ok(Serving { at: line.at, _line: Some(line), _server: server })
    }

    /// The directory of a chain with index and coins, made by a program and kept until the plan is done.
    fn prepare(&mut self, chain: usize, program: usize) -> Result<PathBuf, SetUp> {
        let program = self.plan.preparer(program);
        if let Some(known) = self.prepared.get(&(chain, program)) {
            return known.clone().map_err(SetUp::Failed);
        }
        let label = slug(&format!("{} {}", self.chains[chain].facts.label, self.plan.programs[program].label));
        let directory = self.out.join("prepared").join(label);
        let marker = directory.join("prepared.ok");
        let made = if marker.is_file() { Ok(()) } else { self.make_prepared(chain, program, &directory)? };
        if made.is_ok() {
            fs::write(&marker, "").map_err(|error| RunError::io(&marker, error))?;
        }
        let known = made.map(|()| directory);
        self.prepared.insert((chain, program), known.clone());
        known.map_err(SetUp::Failed)
    }

    fn make_prepared(
        &mut self,
        chain: usize,
        program: usize,
        directory: &Path,
    ) -> Result<Result<(), String>, RunError> {
        let found = &self.chains[chain];
        let planned = &self.plan.programs[program];
        self.progress.line(&format!(
            "      {} makes index and coins of {} first, which is not timed",
            planned.label, found.facts.label
        ));
        wipe(directory)?;
        let to = net_dir(directory, found.network);
        let what = if found.is_whole { What::All } else { What::Blocks };
        copy::chain(&net_dir(&found.directory, found.network), &to, what).map_err(|error| RunError::io(&to, error))?;
        if found.is_whole {
            return Ok(Ok(()));
        }
        let settings = Settings { assumevalid: Some("tip".to_owned()), ..Settings::default() };
        let work = Work {
            kind: WorkKind::Reindex,
            stopatheight: None,
            server: None,
            level: 0,
            blocks: 0,
            limits: Limits::default(),
            line: 0,
        };
        let exe = &self.programs.exes[program];
        let extra = &planned.args;
        let job = Job {
            kind: planned.kind,
            exe,
            extra,
            work: &work,
            settings: &settings,
            chain: found,
            directory,
            connect: None,
            loaded: None,
            driver: None,
        };
        let command = job.command();
        let run = process::Job {
            command: &command,
            directory,
            log: &job.log(),
            limits: &Applied::default(),
            profile: None,
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
            let lines = program::last_lines(&[&job.log(), &directory.join("stderr.txt")]);
            let last = lines.last().cloned().unwrap_or_default();
            return Ok(Err(format!("index and coins could not be made first: {}; {last}", ended.how())));
        }
        let there = program::coins_info(self.ffwd, directory, None, found.network, false);
        Ok(there.map(|_| ()).map_err(|why| format!("index and coins could not be made first: {why}")))
    }

    /// The input of a load, made once and kept until the plan is done.
    fn load_of(&mut self, chain: usize, program: usize, height: Option<u32>) -> Result<Prepared, SetUp> {
        let program = self.plan.preparer(program);
        let height = height.unwrap_or(self.chains[chain].facts.height);
        let key = (chain, program, height);
        if let Some(known) = self.loads.get(&key) {
            return known.clone().map_err(SetUp::Failed);
        }
        let source = self.prepare(chain, program)?;
        let found = &self.chains[chain];
        let network = found.network;
        let label = format!("{} load {program} {height}", found.facts.label);
        let out = self.out.join("prepared").join(slug(&label));
        wipe(&out)?;
        fs::create_dir_all(&out).map_err(|error| RunError::io(&out, error))?;
        let mut made = snapshot::dump(self.ffwd, &out, &source, network, height);
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
        let directory = self.prepare(chain, program)?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let at = free.map_err(|error| RunError::io(Path::new("127.0.0.1"), error))?;
        let exe = &self.programs.exes[program];
        let kind = self.plan.programs[program].kind;
        let command = program::server(kind, exe, &directory, self.chains[chain].network, at);
        let mut server = Server::start(&command).map_err(|error| RunError::io(exe, error))?;
        let start = Instant::now();
        while TcpStream::connect_timeout(&at, Duration::from_millis(200)).is_err() {
            if !server.is_running() || start.elapsed() > SERVER_STARTS {
                let log = net_dir(&directory, self.chains[chain].network).join("debug.log");
                let last = program::last_lines(&[&log]).pop().unwrap_or_default();
                return Err(SetUp::Failed(format!("the server does not answer at {at}; {last}")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok((server, at))
    }
}
