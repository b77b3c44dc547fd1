//! The command `lab run`: executes a plan, and returns comparable cells.
//!
//! A plan (`example.toml`) names programs, works, chains and settings. Each cell is run several times, in interleaved order, on a
//! copy of its chain, while memory, CPU, bytes and height are sampled. Cells whose runs ended at another tip or with another UTXO
//! set, or that ran the scripts of other blocks, are not compared. A crash, a timeout or a kill is a result.
//!
//! `plan`: parses TOML into a plan. `check`, `survey`: find problems before anything runs; `build`: programs named by
//! commit. `engine`, `state`, `prepare`, `program`, `process`, `sample`, `limits`, `link`, `copy`, `snapshot`: the
//! runs; `profile`: their stacks; `least`: runs with decreasing memory. `compare`: the results, in the form of
//! `demo::result`. Absent on purpose: charts (`demo::plot` draws a result), and validating blocks.

mod build;
mod check;
mod compare;
mod copy;
mod engine;
mod least;
mod limits;
mod link;
mod plan;
mod prepare;
mod process;
mod profile;
mod program;
mod progress;
mod sample;
mod snapshot;
mod state;
mod survey;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use plan::Problem;

pub(crate) use program::object_in;

use demo::result::{self, RESULT_FILE, Report};
use plan::{Plan, Source};
use profile::Profiler;
use progress::Progress;
use state::Engine;
use survey::Surveyed;

/// A commented plan, with `@CHAIN@` in place of a chain's directory.
pub const EXAMPLE: &str = include_str!("example.toml");

/// A copy of the plan, stored with its results.
const PLAN_FILE: &str = "plan.toml";

/// The plan to run, and where to write the results.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The plan.
    pub plan: PathBuf,
    /// The directory of the results. It also contains the copies of chains while runs are made.
    pub out: PathBuf,
    /// Continues with existing results, instead of refusing to overwrite them.
    pub resume: bool,
    /// Only cells with one of these words in their name are run, ignoring case; if empty, all. A resume runs the rest
    /// of the plan.
    pub only: Vec<String>,
    /// The ffwd for programs without a path, which also reads the results; `None` for this executable.
    pub ffwd: Option<PathBuf>,
    /// Profiles every run; such runs are not valid benchmarks.
    pub profile: bool,
    /// Disables progress on standard error.
    pub quiet: bool,
    /// Set from outside (Ctrl-C) to stop: the current run is ended, and made again by a resume.
    pub stop: Arc<AtomicBool>,
}

impl RunOptions {
    /// Options to run `plan` into `out`, with progress on standard error.
    pub fn new(plan: impl Into<PathBuf>, out: impl Into<PathBuf>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        Self {
            plan: plan.into(),
            out: out.into(),
            resume: false,
            only: Vec::new(),
            ffwd: None,
            profile: false,
            quiet: false,
            stop,
        }
    }
}

/// Why there is no report.
#[derive(Debug)]
pub enum RunError {
    /// The plan is wrong; nothing was run.
    Plan {
        /// The plan.
        path: PathBuf,
        /// Each problem, with its line.
        problems: Vec<Problem>,
    },
    /// There are results in the directory.
    Taken {
        /// The directory.
        out: PathBuf,
        /// Whether the results belong to another plan, so that resuming is impossible.
        other_plan: bool,
    },
    /// A word matches no cell.
    Only {
        /// The word.
        word: String,
        /// The existing cells.
        cells: Vec<String>,
    },
    /// Profiling does not work on this machine.
    Profile(String),
    /// A chain could not be generated.
    Chain {
        /// Its label.
        label: String,
        /// The program's message.
        why: String,
    },
    /// A file, directory or program.
    Io {
        /// Its path.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// Stopped from outside.
    Stopped {
        /// Number of completed runs.
        done: usize,
        /// Number of runs in the plan.
        of: usize,
        /// The directory.
        out: PathBuf,
    },
}

impl RunError {
    fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan { path, problems } => {
                write!(f, "{} is not run:", path.display())?;
                problems.iter().try_for_each(|problem| write!(f, " {problem};"))?;
                write!(f, " nothing was started")
            }
            Self::Taken { out, other_plan: true } => {
                write!(f, "{} has results of another plan: give another --out, or remove it", out.display())
            }
            Self::Taken { out, other_plan: false } => {
                write!(f, "{} has results: --resume continues them; or give another --out", out.display())
            }
            Self::Only { word, cells } => {
                write!(f, "no cell has {word:?} in its name; there are: {}", cells.join("; "))
            }
            Self::Profile(why) => f.write_str(why),
            Self::Chain { label, why } => write!(f, "chain {label} could not be made: {why}"),
            Self::Io { path, error } => {
                write!(f, "{}: {error}; what was run is kept, --resume goes on", path.display())
            }
            Self::Stopped { done, of, out } => {
                write!(f, "stopped after {done} of {of} runs; --resume continues those in {}", out.display())
            }
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Plan { .. }
            | Self::Taken { .. }
            | Self::Only { .. }
            | Self::Profile(_)
            | Self::Chain { .. }
            | Self::Stopped { .. } => None,
        }
    }
}

/// Runs a plan and returns the report, which is also written to `out` as [`RESULT_FILE`].
///
/// # Errors
///
/// See [`RunError`]. The failure of a program is not an error; the report contains it.
pub fn run(options: &RunOptions) -> Result<Report, RunError> {
    let text = read_plan(&options.plan)?;
    let directory =
        options.plan.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = |problems| RunError::Plan { path: options.plan.clone(), problems };
    let plan = plan::parse(&text, &absolute(directory)?).map_err(refused)?;
    let ffwd = match &options.ffwd {
        Some(path) => absolute(path)?,
        None => std::env::current_exe().map_err(|error| RunError::io(Path::new("this executable"), error))?,
    };
    none_wanted(&plan, &options.only)?;
    let profiler = options.profile.then(|| Profiler::find(&std::env::temp_dir())).transpose();
    let profiler = profiler.map_err(RunError::Profile)?;
    let progress = Progress::new(options.quiet);
    let is_new_out = !options.out.exists();
    let out = absolute(&options.out)?;
    let built = build::all(&plan, &out, &progress).map_err(refused)?;
    let programs = check::programs(&plan, &ffwd, &built).map_err(refused)?;
    fs::create_dir_all(&out).map_err(|error| RunError::io(&out, error))?;
    let checked = claim(&out, &text, options.resume, || ready(&plan, &out).map_err(refused));
    if let (Err(RunError::Plan { .. }), true) = (&checked, is_new_out) {
        let _ = fs::remove_dir(&out); // The directory is empty, because nothing was run; otherwise it stays.
    }
    checked?;
    let chains = make_chains(&plan, &out, &ffwd, &progress)?;
    check::room(&plan, &out, &chains).map_err(refused)?;
    let chains: Vec<_> = chains.into_iter().flatten().collect();
    let mut engine = Engine {
        plan: &plan,
        programs: &programs,
        ffwd: &ffwd,
        chains: &chains,
        out: &out,
        stop: &options.stop,
        progress,
        records: Vec::new(),
        prepared: std::collections::BTreeMap::new(),
        loads: std::collections::BTreeMap::new(),
        page_cache: "",
        only: &options.only,
        profiler,
        memory_mib: None,
    };
    let complete = engine.run()?;
    let least = engine.least_memory()?;
    engine.finish(complete, &least)
}

/// The names of a plan's cells.
#[cfg(test)]
pub(crate) fn cells_of(text: &str) -> Result<Vec<String>, Vec<Problem>> {
    Ok(plan::parse(text, Path::new("/"))?.cells.into_iter().map(|cell| cell.name).collect())
}

/// Rejects words that match no cell.
fn none_wanted(plan: &Plan, only: &[String]) -> Result<(), RunError> {
    let names = || plan.cells.iter().map(|cell| cell.name.clone());
    let word = only.iter().find(|word| !names().any(|name| state::is_wanted(std::slice::from_ref(word), &name)));
    word.map_or(Ok(()), |word| Err(RunError::Only { word: word.clone(), cells: names().collect() }))
}

fn read_plan(path: &Path) -> Result<String, RunError> {
    let wrong = |what| RunError::Plan { path: path.to_owned(), problems: vec![Problem { line: None, what }] };
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(plan::PLAN_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|why| wrong(why.to_string()))?;
    if text.len() as u64 > plan::PLAN_BYTES_MAX {
        return Err(wrong(format!("a plan has at most {} bytes", plan::PLAN_BYTES_MAX)));
    }
    Ok(text)
}

fn absolute(path: &Path) -> Result<PathBuf, RunError> {
    std::path::absolute(path).map_err(|error| RunError::io(path, error))
}

/// Checks everything that can be checked before a run.
fn ready(plan: &Plan, out: &Path) -> Result<(), Vec<Problem>> {
    let there = check::chains(plan, out, &|label| made_chain(out, label))?;
    check::room(plan, out, &there)
}

/// Prepares the result directory for this plan: new, or resumed with the same plan.
fn claim(out: &Path, text: &str, resume: bool, check: impl FnOnce() -> Result<(), RunError>) -> Result<(), RunError> {
    let path = out.join(PLAN_FILE);
    match fs::read_to_string(&path) {
        Ok(there) if there != text => return Err(RunError::Taken { out: out.to_owned(), other_plan: true }),
        Ok(_) if !resume => return Err(RunError::Taken { out: out.to_owned(), other_plan: false }),
        Ok(_) => return check(),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(RunError::io(&path, error)),
        Err(_) => {}
    }
    if out.join(RESULT_FILE).exists() {
        return Err(RunError::Taken { out: out.to_owned(), other_plan: true });
    }
    check()?;
    result::write_whole(&path, text.as_bytes()).map_err(|error| RunError::io(&path, error))
}

/// The directory of a chain that was generated for an earlier plan.
fn made_chain(out: &Path, label: &str) -> Option<PathBuf> {
    let directory = out.join("chains").join(state::slug(label));
    directory.join("made.ok").is_file().then_some(directory)
}

/// Generates the chains that the plan needs, and surveys all of them.
fn make_chains(plan: &Plan, out: &Path, ffwd: &Path, progress: &Progress) -> Result<Vec<Option<Surveyed>>, RunError> {
    for chain in &plan.chains {
        let Source::Make(args) = &chain.source else { continue };
        if made_chain(out, &chain.label).is_some() {
            continue;
        }
        let directory = out.join("chains").join(state::slug(&chain.label));
        state::wipe(&directory)?;
        progress.line(&format!("      chain {} is made: ffwd lab chain {}", chain.label, args.join(" ")));
        let mut command = Command::new(ffwd);
        command.args(["lab", "chain", "--out"]).arg(&directory).args(args).arg("--json").stdin(Stdio::null());
        let output = command.output().map_err(|error| RunError::io(ffwd, error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing said");
            return Err(RunError::Chain { label: chain.label.clone(), why: format!("{}: {last}", output.status) });
        }
        let marker = directory.join("made.ok");
        fs::write(&marker, "").map_err(|error| RunError::io(&marker, error))?;
    }
    let chains = check::chains(plan, out, &|label| made_chain(out, label));
    chains.map_err(|problems| RunError::Plan { path: out.join(PLAN_FILE), problems })
}
