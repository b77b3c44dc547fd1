//! `ffwd`: parses options, returns an exit code.
//!
//! In: the command line ([`args`]), bitcoin.conf and settings.json ([`conf`], merged in [`settings`]).
//! Out: a job of `node` or `lab`, its progress on standard error ([`progress`]), its result on standard output ([`output`]).
//! Exit codes: [`exit_codes`].
//!
//! Absent on purpose: any logic of its own. `node` reads and changes data directories.

mod args;
#[cfg(feature = "audit")]
mod audit_command;
mod before_sync;
#[cfg(feature = "demo")]
mod block_bar;
mod checks;
mod clock;
mod coins_command;
mod conf;
#[cfg(feature = "demo")]
mod demo_command;
mod doctor_command;
mod exit_codes;
#[cfg(feature = "export")]
mod export_command;
mod features;
mod heap;
mod help;
mod hints_command;
#[cfg(feature = "lab")]
mod lab_command;
mod limits;
mod listening;
mod locate;
mod look_up;
#[cfg(feature = "manuals")]
mod manuals;
#[cfg(feature = "micro")]
mod micro_command;
mod options;
#[cfg(any(feature = "audit", feature = "export", feature = "lab", feature = "manuals"))]
mod out_file;
mod output;
mod params_command;
mod progress;
#[cfg(feature = "manuals")]
mod reference;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod server_settings;
mod services;
mod settings;
mod signals;
mod snapshot_source;
mod spelling;
mod standard_output;
mod sync_command;
mod sync_settings;
#[cfg(test)]
mod test_line;
#[cfg(feature = "top")]
mod top;
#[cfg(any(feature = "audit", feature = "lab"))]
mod written_file;

use args::{Cli, Command, Common, HashType, Info, Verify, Writing};
use clap::FromArgMatches as _;
use conf::OnLine;
use node::jobs;
use node::options::Options;
use node::reporting::{Event, Events, JobReport};
use node::{Fault, Message};
use progress::Reporter;
use services::Services;
use settings::{Role, Settings};
use signals::Hangup;
use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use exit_codes::INTERRUPTED;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong: exit code 2. The message names the option; `ffwd help COMMAND` lists the
    /// options.
    Usage(String),
    /// A line of bitcoin.conf or settings.json is wrong: exit code 1. The message names the line to correct.
    Conf(String),
    /// A fault of disk, network, data or a file: exit code 1.
    Fault(Message),
    /// An internal error of the engine: exit code 1.
    Engine(Fault),
}

impl Failure {
    /// A fault: what happened, and what to do about it.
    pub(crate) fn fault(what: impl Into<String>, advice: impl Into<String>) -> Failure {
        Failure::Fault(Message::new(what, advice))
    }

    /// Prints it on standard error.
    pub(crate) fn tell(&self) {
        // Core shows it without a prefix.
        let prefix = if matches!(self, Failure::Engine(Fault::Rebuild(_))) { "" } else { "Error: " };
        progress::say(&format!("{prefix}{self}"));
    }

    /// The exit code.
    fn code(&self) -> ExitCode {
        ExitCode::from(if matches!(self, Failure::Usage(_)) { exit_codes::USAGE } else { exit_codes::FAULT })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::Conf(why) => f.write_str(why),
            Failure::Fault(message) => message.fmt(f),
            Failure::Engine(fault) => fault.fmt(f),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Engine(fault)
    }
}

impl From<conf::ConfError> for Failure {
    fn from(error: conf::ConfError) -> Failure {
        Failure::Conf(error.to_string())
    }
}

/// Advice printed when a mapped table cannot be read.
const UNREADABLE: &str = "Committed data is not lost: check the drive and the system's log, restore the file if it \
                          was changed, then start again; ffwd reindex rebuilds unreadable data";

fn main() -> ExitCode {
    sys::bus_error::end_with_a_message(UNREADABLE);
    let line = spelling::rewrite(std::env::args_os()).map_err(Failure::Usage);
    match line.and_then(|line| run(parse(line.words)?.command, &line.on_line)) {
        Ok(_) if standard_output::lost() => ExitCode::from(exit_codes::FAULT),
        Ok(code) => code,
        Err(failure) => {
            failure.tell();
            failure.code()
        }
    }
}

/// Parses the command line. Prints clap's help and errors, and then exits.
fn parse(words: Vec<std::ffi::OsString>) -> Result<Cli, Failure> {
    if words.get(1..).is_some_and(|words| words == ["help", "exit-codes"]) {
        output::print(&exit_codes::text());
        std::process::exit(exit_codes::DONE.into());
    }
    if let Some(why) = features::missing(&words) {
        return Err(Failure::Usage(why));
    }
    let read = help::command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    read.map_err(|error| match args::cores_words(&error) {
        Some(words) => Failure::Usage(words),
        None => error.exit(),
    })
}

/// Runs a command. `line` has the options as bitcoind would read them.
fn run(command: Command, line: &OnLine) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(feature = "demo")]
        Command::Demo(given) => {
            limits::check(settings::workers(given.par.unwrap_or(0)), 0)?;
            demo_command::run(&given)
        }
        Command::Sync(given) => sync_command::run(&given, line),
        #[cfg(feature = "server")]
        Command::Serve(given) => serve::run(&given, line),
        #[cfg(feature = "server")]
        Command::Stop(given) => serve::stop(&given),
        Command::Reindex(given) => {
            let settings = load(&given.common, Some(&given.writing))?;
            let title = if given.chainstate_only { "rebuild" } else { "reindex" };
            work(title, &settings, &given.common, given.hash, true, |options, events| {
                jobs::reindex(options, given.chainstate_only, events)
            })
        }
        Command::Import(given) => {
            let settings = load(&given.common, Some(&given.writing))?;
            settings.make_default_datadir()?;
            work("import", &settings, &given.common, HashType::None, true, |options, events| {
                jobs::import(options, &given.sources(), events)
            })
        }
        Command::Verify(given) => verify(&given),
        Command::Info(given) => info(&given),
        Command::Params(given) => params_command::run(&given),
        Command::Doctor(given) => doctor_command::run(&given),
        Command::Repair(given) => doctor_command::repair(&given, line),
        Command::Index(given) => look_up::index(&given),
        Command::Tx(given) => look_up::tx(&given),
        Command::Filter(given) => look_up::filter(&given),
        Command::Spender(given) => look_up::spender(&given),
        Command::Silentpayments(given) => look_up::silent_payments(&given),
        #[cfg(feature = "top")]
        Command::Top(given) => top::run(&given),
        #[cfg(feature = "manuals")]
        Command::Manuals(given) => manuals::run(&given),
        Command::Coins(given) => coins_command::run(given),
        #[cfg(feature = "audit")]
        Command::Audit(given) => audit_command::run(&given),
        #[cfg(feature = "export")]
        Command::Export(given) => export_command::run(&given),
        Command::Hints(given) => hints_command::run(given),
        #[cfg(feature = "lab")]
        Command::Lab(given) => {
            limits::check(settings::workers(0), 0)?;
            lab_command::run(&given)
        }
    }
}

/// The settings of a command that reads a data directory, or that does one job on it with the options `writing`.
pub(crate) fn load(common: &Common, writing: Option<&Writing>) -> Result<Settings, Failure> {
    let role = if writing.is_some() { Role::Job } else { Role::Reads };
    load_as(role, common, writing, &OnLine::default())
}

/// The settings of a command with this role.
pub(crate) fn load_as(
    role: Role,
    common: &Common,
    writing: Option<&Writing>,
    line: &OnLine,
) -> Result<Settings, Failure> {
    settings::load(common, writing, role, line, Arc::new(AtomicBool::new(false)))
}

/// Prints the settings' notes through a new reporter, and sets the handler for Ctrl-C.
pub(crate) fn begin(settings: &Settings) -> Result<Arc<Reporter>, Failure> {
    let reporter = Reporter::new(&settings.options, settings.is_quiet);
    let stopping = reporter.clone();
    heed_ctrl_c(&settings.options, &reporter, Hangup::Ends, move || stopping.stopping())?;
    tell_notes(settings, &reporter);
    Ok(reporter)
}

fn tell_notes(settings: &Settings, reporter: &Reporter) {
    settings.notes().into_iter().for_each(|note| reporter.event(Event::Note(note)));
    settings.warnings.iter().for_each(|warning| reporter.event(Event::Warning(warning.clone())));
}

/// Like [`begin`], for a command that writes nothing: the first Ctrl-C exits.
pub(crate) fn begin_read_only(settings: &Settings) -> Result<Arc<Reporter>, Failure> {
    limits::check(settings.options.par, 0)?;
    let reporter = begin(settings)?;
    reporter.commits_nothing();
    Ok(reporter)
}

/// At the first Ctrl-C or SIGTERM the job commits and stops; a later Ctrl-C exits. If there is nothing left to commit,
/// the first exits. `stopping` is called at the first.
fn heed_ctrl_c(
    options: &Options,
    reporter: &Arc<Reporter>,
    hangup: Hangup,
    stopping: impl Fn() + Send + 'static,
) -> Result<(), Failure> {
    let stop = options.stop.clone();
    let reporter = reporter.clone();
    let handler = move |at_once: bool| {
        if reporter.may_end_at_once() || at_once {
            std::process::exit(INTERRUPTED.into());
        }
        if !stop.swap(true, Ordering::SeqCst) {
            stopping();
        }
    };
    signals::heed(hangup, handler)
}

/// Restricts new files to the current user, as bitcoind does. Source: Bitcoin Core b88bffe, `SetupEnvironment`.
pub(crate) fn private_files() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Whether a job ended because the user stopped it, which is no fault; tells the user. On a full disk Ctrl-C ends the
/// waiting.
pub(crate) fn was_stopped(fault: &Fault, options: &Options, reporter: &Reporter) -> bool {
    match fault {
        Fault::Stopped => reporter.say(&fault.to_string()),
        fault if fault.is_no_space() && options.stop.load(Ordering::SeqCst) => {
            reporter.say(&format!("stopped: {fault}; nothing that was committed is lost"));
        }
        _ => return false,
    }
    true
}

/// Runs a job that connects blocks, computes the UTXO set's statistics, and prints both.
pub(crate) fn work(
    title: &str,
    settings: &Settings,
    common: &Common,
    hash: HashType,
    ends: bool,
    job: impl FnOnce(&Options, Events<'_>) -> Result<JobReport, Fault>,
) -> Result<ExitCode, Failure> {
    private_files();
    let lacking = jobs::file_system_warning(&settings.options).map(|message| message.to_string());
    let warnings = settings.warnings.iter().chain(&lacking).cloned().collect();
    let options = &Options { warnings, ..settings.options.clone() };
    let heap = heap::record(settings.heap, &options.datadir.join(options.params.chain.net_dir()))?;
    limits::check(options.par, options.dbcache_bytes)?;
    let reporter = Reporter::new(options, settings.is_quiet);
    let services = Services::start(settings, &reporter)?;
    let told = reporter.clone();
    let also = services.clone();
    heed_ctrl_c(options, &reporter, Hangup::ReopensLog(options.own_files.reopen.clone()), move || {
        also.stopping();
        told.stopping();
    })?;
    tell_notes(settings, &reporter);
    let events = |event: Event| {
        services.event(&event);
        reporter.event(event);
    };
    lacking.into_iter().for_each(|warning| events(Event::Warning(warning)));
    let done = job(options, &events);
    services.stopping();
    reporter.finish();
    services.ended();
    settings::hints_used(options).into_iter().for_each(|line| reporter.say(&line));
    if let Some(heap) = heap {
        heap.end();
    }
    let report = match done {
        Err(fault) if was_stopped(&fault, options, &reporter) => {
            let is_success = !ends && matches!(fault, Fault::Stopped);
            return Ok(ExitCode::from(if is_success { exit_codes::DONE } else { INTERRUPTED }));
        }
        done => done?,
    };
    reporter.commits_nothing();
    let set = if report.stopped { None } else { Some(jobs::set_after(options, hash.into(), &events)?) };
    let chain = options.params.chain.name();
    output::print(&if common.json {
        output::job_json(chain, options.kernels, &report, set.as_ref())
    } else {
        output::job_lines(title, chain, &report, set.as_ref())
    });
    if let Some(why) = &report.end_reason {
        let what = format!("the chain ends at height {}: {}", report.height, why.what());
        return Err(Failure::fault(what, why.advice()));
    }
    Ok(if report.stopped && ends { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

fn verify(given: &Verify) -> Result<ExitCode, Failure> {
    let mut settings = load(&given.common, None)?;
    settings.options.signature_hints = settings::signature_hints(&given.signature_hints)?;
    let options = &settings.options;
    let reporter = begin_read_only(&settings)?;
    let done = jobs::verify(options, given.level, given.blocks, &|event| reporter.event(event));
    reporter.finish();
    settings::hints_used(options).into_iter().for_each(|line| reporter.say(&line));
    let report = done?;
    let chain = options.params.chain.name();
    output::print(&if given.common.json {
        output::verify_json(chain, &report)
    } else {
        output::verify_lines(chain, &report)
    });
    Ok(ExitCode::SUCCESS)
}

fn info(given: &Info) -> Result<ExitCode, Failure> {
    let mut settings = load(&given.common, None)?;
    // Only for the forecast of disk space; an invalid value is refused by the jobs that prune.
    let prune = settings.files.value(None, "prune", |setting| options::values::prune(setting.value.text()));
    settings.options.prune = prune.ok().flatten().unwrap_or_default();
    let reporter = begin_read_only(&settings)?;
    let done = jobs::info(&settings.options);
    reporter.finish();
    let info = done?;
    output::print(&if given.common.json { output::info_json(&info) } else { info.to_string() });
    Ok(ExitCode::SUCCESS)
}
