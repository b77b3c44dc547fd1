//! A plan: TOML in, [`Plan`] out, or every problem with its line.
//!
//! Tables: `[[program]]`, `[[chain]]`, `[[work]]`, `[[settings]]`, `[limits]`, and a few keys above them; `example.toml` has
//! all of them with a word each. Cells are chains x works x settings x programs, where a work may name some of each.
//! Absent on purpose: looking at the disk and starting programs; see `check.rs`.

mod read;

use std::fmt;
use std::path::PathBuf;

use consensus::Chain;
use demo::result::Settings;

pub(super) use read::parse;

/// Bytes of a plan.
pub(super) const PLAN_BYTES_MAX: u64 = 1 << 20;

/// Something wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line in the plan, from 1; none where it is about the whole.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    Ffwd,
    Bitcoind,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) label: String,
    pub(super) kind: ProgramKind,
    /// None for the executable that runs the plan.
    pub(super) path: Option<PathBuf>,
    /// What is built first, in place of a path.
    pub(super) build: Option<Build>,
    /// Given to it in every work, after our own.
    pub(super) args: Vec<String>,
    pub(super) line: usize,
}

impl Program {
    /// The same program under another name, without the ideas of these names.
    #[cfg(feature = "ablation")]
    fn without(&self, label: &str, ideas: &[&str]) -> Program {
        let mut program = Program { label: label.to_owned(), ..self.clone() };
        program.args.extend(ideas.iter().flat_map(|idea| ["--without", idea]).map(str::to_owned));
        program
    }

    /// The ideas that its arguments leave out.
    pub(super) fn ideas_off(&self) -> Vec<String> {
        let pairs = self.args.windows(2).filter(|pair| pair[0] == "--without");
        pairs.map(|pair| pair[1].clone()).collect()
    }

    /// Its arguments, but for the ideas that they leave out.
    fn args_with_all_ideas(&self) -> Vec<&str> {
        let mut kept = Vec::new();
        let mut args = self.args.iter();
        while let Some(arg) = args.next() {
            if arg == "--without" {
                args.next();
            } else {
                kept.push(arg.as_str());
            }
        }
        kept
    }
}

/// An ffwd of another commit, or built in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Build {
    /// Whatever git takes for a commit.
    pub(super) commit: String,
    /// The repository that has it.
    pub(super) repository: PathBuf,
    /// `RUSTFLAGS` of the build.
    pub(super) rustflags: String,
}

/// Where a chain comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A data directory, only read.
    DataDir(PathBuf),
    /// Arguments of `lab chain`.
    Make(Vec<String>),
}

#[derive(Clone, Debug)]
pub(super) struct PlannedChain {
    pub(super) label: String,
    pub(super) source: Source,
    pub(super) network: Chain,
    pub(super) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// Index, undo and coins from the block files.
    Reindex,
    /// The coins alone.
    Rebuild,
    /// All of it from another program on this machine.
    Sync,
    /// The last blocks once more.
    Verify,
    /// The set that is there written again, as a flush writes it.
    Commit,
    /// All blocks judged by their undo data, as one part of an audit.
    Audit,
    /// All blocks written to Parquet files.
    Export,
    /// Every byte of a data directory looked at.
    Doctor,
    /// Optional indexes built from the blocks that are there.
    Index,
    /// MuHash of the set.
    Muhash,
    /// A snapshot of the set.
    Dump,
    /// A snapshot loaded beside the chainstate.
    Load,
}

impl WorkKind {
    /// Whether a bitcoind has no such work.
    pub(super) fn is_ffwds_alone(self) -> bool {
        matches!(self, Self::Commit | Self::Audit | Self::Export | Self::Doctor | Self::Index)
    }

    /// Whether blocks are connected, so that the log says which scripts were run.
    pub(super) fn runs_scripts_of_blocks(self) -> bool {
        matches!(self, Self::Reindex | Self::Rebuild | Self::Sync)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reindex => "reindex",
            Self::Rebuild => "rebuild",
            Self::Sync => "sync",
            Self::Verify => "verify",
            Self::Commit => "commit",
            Self::Audit => "audit",
            Self::Export => "export",
            Self::Doctor => "doctor",
            Self::Index => "index",
            Self::Muhash => "muhash",
            Self::Dump => "dump",
            Self::Load => "load",
        }
    }

    /// Whether it is about a snapshot.
    pub(super) fn has_snapshot(self) -> bool {
        matches!(self, Self::Dump | Self::Load)
    }

    /// Whether a bitcoind is told to do it by a call.
    pub(super) fn is_a_call(self) -> bool {
        self.has_snapshot() || self == Self::Muhash
    }
}

#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) kind: WorkKind,
    /// The height at which the work stops, or of its snapshot; none for the tip.
    pub(super) stopatheight: Option<u32>,
    /// Of a sync: index of the program that serves.
    pub(super) server: Option<usize>,
    /// Of a verify.
    pub(super) level: u32,
    pub(super) blocks: u32,
    /// Those of the plan, and its own in their place.
    pub(super) limits: Limits,
    pub(super) line: usize,
}

/// Whether block files lie in the system's cache when a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageCache {
    Kept,
    Dropped,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    pub(super) memory_mib: Option<u64>,
    /// Processors as a list: `0-1,4`.
    pub(super) cpus: Option<Vec<usize>>,
    pub(super) read_mib_per_s: Option<u64>,
    pub(super) write_mib_per_s: Option<u64>,
    pub(super) reads_per_s: Option<u64>,
    pub(super) writes_per_s: Option<u64>,
    /// Processor time in percent of one processor's.
    pub(super) cpu_percent: Option<u64>,
    /// Of the line between a sync and its server.
    pub(super) link: Link,
    /// From and to which memory in MiB the least is sought with which a work ends.
    pub(super) least_memory_mib: Option<(u64, u64)>,
}

impl Limits {
    /// Those that are set here, and else those of `other`.
    pub(super) fn or(self, other: &Limits) -> Limits {
        let link = Link {
            mbit_per_s: self.link.mbit_per_s.or(other.link.mbit_per_s),
            round_trip_ms: self.link.round_trip_ms.or(other.link.round_trip_ms),
            loss_percent: self.link.loss_percent.or(other.link.loss_percent),
            cut_every_s: self.link.cut_every_s.or(other.link.cut_every_s),
        };
        Limits {
            memory_mib: self.memory_mib.or(other.memory_mib),
            cpus: self.cpus.or_else(|| other.cpus.clone()),
            read_mib_per_s: self.read_mib_per_s.or(other.read_mib_per_s),
            write_mib_per_s: self.write_mib_per_s.or(other.write_mib_per_s),
            reads_per_s: self.reads_per_s.or(other.reads_per_s),
            writes_per_s: self.writes_per_s.or(other.writes_per_s),
            cpu_percent: self.cpu_percent.or(other.cpu_percent),
            link,
            least_memory_mib: self.least_memory_mib.or(other.least_memory_mib),
        }
    }

    /// Words for the name of a cell.
    fn words(&self) -> Vec<String> {
        let word = |value: Option<String>, unit: &str| value.map(|value| format!("{value} {unit}"));
        let number = |value: Option<u64>, unit: &str| word(value.map(|value| value.to_string()), unit);
        let decimal = |value: Option<f64>, unit: &str| word(value.map(|value| value.to_string()), unit);
        let Limits {
            memory_mib, cpus, read_mib_per_s, write_mib_per_s, reads_per_s, writes_per_s, cpu_percent, ..
        } = self;
        let cpus = cpus.as_ref().map(|cpus| cpus.len().to_string());
        [
            number(*memory_mib, "MiB of memory"),
            word(cpus, "processors"),
            number(*cpu_percent, "percent of a processor"),
            number(*read_mib_per_s, "MiB read a second"),
            number(*write_mib_per_s, "MiB written a second"),
            number(*reads_per_s, "reads a second"),
            number(*writes_per_s, "writes a second"),
            number(self.link.round_trip_ms, "ms"),
            decimal(self.link.mbit_per_s, "Mbit a second"),
            decimal(self.link.loss_percent, "percent lost"),
            word(self.link.cut_every_s.map(|seconds| format!("cut every {seconds}")), "s"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A line that is not as good as one within a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Link {
    /// Megabits a second, each way.
    pub(super) mbit_per_s: Option<f64>,
    pub(super) round_trip_ms: Option<u64>,
    /// Of a hundred segments, those that are lost and sent again.
    pub(super) loss_percent: Option<f64>,
    /// Every connection is cut after this time.
    pub(super) cut_every_s: Option<f64>,
}

impl Link {
    pub(super) fn is_limited(&self) -> bool {
        *self != Link::default()
    }
}

/// Indices into the plan's lists.
#[derive(Clone, Debug)]
pub(super) struct PlannedCell {
    pub(super) name: String,
    pub(super) program: usize,
    pub(super) work: usize,
    pub(super) chain: usize,
    pub(super) settings: usize,
}

/// A plan that makes sense by itself.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) title: String,
    pub(super) repeats: u32,
    /// Cells whose mean is known less well than to this percentage are repeated further, up to `repeats_max` times.
    pub(super) until_interval: Option<f64>,
    pub(super) repeats_max: u32,
    /// Index of the program that others are compared with.
    pub(super) baseline: usize,
    pub(super) page_cache: PageCache,
    pub(super) timeout_s: f64,
    pub(super) sample_ms: u64,
    /// Hash the UTXO set after every run, not only after the first of each cell.
    pub(super) check_every: bool,
    pub(super) limits: Limits,
    pub(super) programs: Vec<Program>,
    pub(super) chains: Vec<PlannedChain>,
    pub(super) works: Vec<Work>,
    pub(super) settings: Vec<Settings>,
    pub(super) cells: Vec<PlannedCell>,
}

impl Plan {
    /// The program that makes index and coins where `program` needs them made: the same one with all ideas on, where the plan has
    /// it, because what it leaves does not depend on them.
    pub(super) fn preparer(&self, program: usize) -> usize {
        let own = &self.programs[program];
        let wanted = own.args_with_all_ideas();
        let is_same = |other: &Program| {
            (other.kind, &other.path, &other.build) == (own.kind, &own.path, &own.build) && other.args == wanted
        };
        self.programs.iter().position(is_same).unwrap_or(program)
    }
}

/// Names each cell by what tells it apart; a name that still stands twice gets a number.
fn name_cells(plan: &mut Plan) {
    let one_chain = plan.chains.len() < 2;
    let one_setting = plan.settings.len() < 2;
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for cell in &mut plan.cells {
        let work = &plan.works[cell.work];
        let mut name = format!("{} {}", plan.programs[cell.program].label, work.kind.name());
        if let Some(height) = work.stopatheight {
            name += &format!(" {} {height}", if work.kind.has_snapshot() { "at" } else { "to" });
        }
        if work.limits != plan.limits {
            let own = work.limits.words().into_iter().filter(|word| !plan.limits.words().contains(word));
            own.for_each(|word| name += &format!(", {word}"));
        }
        if !one_chain {
            name += &format!(", {}", plan.chains[cell.chain].label);
        }
        if !one_setting {
            name += &format!(", {}", plan.settings[cell.settings].label);
        }
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        cell.name = if *count > 1 { format!("{name} [{count}]") } else { name };
    }
}
