//! A plan: parses TOML into a [`Plan`], or reports every problem with its line.
//!
//! Tables: `[[program]]`, `[[chain]]`, `[[work]]`, `[[settings]]`, `[limits]`, and a few keys above them;
//! `example.toml` explains all of them. Cells are chains x works x settings x programs; a work may select some of
//! each.
//! Absent on purpose: reading the disk and starting programs; see `check.rs`.

mod read;

use std::fmt;
use std::path::PathBuf;

use consensus::Chain;
use demo::result::Settings;

pub(super) use read::parse;

/// Maximum size of a plan in bytes.
pub(super) const PLAN_BYTES_MAX: u64 = 1 << 20;

/// A problem in a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line in the plan, from 1; `None` if it concerns the whole plan.
    pub line: Option<usize>,
    /// The problem and the remedy.
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

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    Ffwd,
    Bitcoind,
}

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) label: String,
    pub(super) kind: ProgramKind,
    /// `None` for the executable that runs the plan.
    pub(super) path: Option<PathBuf>,
    /// The commit to build first, instead of a path.
    pub(super) build: Option<Build>,
    /// Additional arguments in every work, after our own.
    pub(super) args: Vec<String>,
    pub(super) line: usize,
}

impl Program {
    /// The same program under another name, with these optimizations disabled.
    #[cfg(feature = "ablation")]
    fn without(&self, label: &str, ideas: &[&str]) -> Program {
        let mut program = Program { label: label.to_owned(), ..self.clone() };
        program.args.extend(ideas.iter().flat_map(|idea| ["--without", idea]).map(str::to_owned));
        program
    }

    /// The optimizations that its arguments disable.
    pub(super) fn ideas_off(&self) -> Vec<String> {
        let pairs = self.args.windows(2).filter(|pair| pair[0] == "--without");
        pairs.map(|pair| pair[1].clone()).collect()
    }

    /// Its arguments without the ones that disable optimizations.
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

/// An ffwd of another commit, or with other build flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Build {
    /// Anything that git accepts as a commit.
    pub(super) commit: String,
    /// The repository that has it.
    pub(super) repository: PathBuf,
    /// `RUSTFLAGS` of the build.
    pub(super) rustflags: String,
}

/// The origin of a chain.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A data directory, which is only read.
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
    /// Rebuilds index, undo data and coins from the block files.
    Reindex,
    /// Rebuilds only the coins.
    Rebuild,
    /// Downloads everything from another program on this machine.
    Sync,
    /// Verifies the last blocks again.
    Verify,
    /// Writes the existing set again, as a flush does.
    Commit,
    /// Validates all blocks with their undo data, as one part of an audit.
    Audit,
    /// Writes all blocks to Parquet files.
    Export,
    /// Checks every byte of a data directory.
    Doctor,
    /// Builds optional indexes from the stored blocks.
    Index,
    /// Computes the MuHash of the set.
    Muhash,
    /// Writes a snapshot of the set.
    Dump,
    /// Loads a snapshot as a second chainstate.
    Load,
}

impl WorkKind {
    /// Whether bitcoind has no equivalent.
    pub(super) fn is_ffwds_alone(self) -> bool {
        matches!(self, Self::Commit | Self::Audit | Self::Export | Self::Doctor | Self::Index)
    }

    /// Whether blocks are connected, so that the log shows which scripts were verified.
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

    /// Whether it concerns a snapshot.
    pub(super) fn has_snapshot(self) -> bool {
        matches!(self, Self::Dump | Self::Load)
    }

    /// Whether bitcoind does it in response to an RPC call.
    pub(super) fn is_a_call(self) -> bool {
        self.has_snapshot() || self == Self::Muhash
    }
}

#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) kind: WorkKind,
    /// The height at which the work stops, or of its snapshot; `None` for the tip.
    pub(super) stopatheight: Option<u32>,
    /// Index of the serving program of a sync.
    pub(super) server: Option<usize>,
    /// Level of a verify.
    pub(super) level: u32,
    pub(super) blocks: u32,
    /// The plan's limits, overridden by those of the work.
    pub(super) limits: Limits,
    pub(super) line: usize,
}

/// Whether block files are in the page cache when a run starts.
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
    /// Processor time in percent of one processor.
    pub(super) cpu_percent: Option<u64>,
    /// The simulated link between a sync and its server.
    pub(super) link: Link,
    /// Range in MiB for the search for the minimum memory of a work.
    pub(super) least_memory_mib: Option<(u64, u64)>,
}

impl Limits {
    /// The limits set here, otherwise those of `other`.
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

/// A link that is worse than the loopback interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Link {
    /// Megabits a second, each way.
    pub(super) mbit_per_s: Option<f64>,
    pub(super) round_trip_ms: Option<u64>,
    /// Percentage of segments that are lost and retransmitted.
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

/// A consistent plan.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) title: String,
    pub(super) repeats: u32,
    /// Target width of the interval in percent: wider cells are repeated up to `repeats_max` times.
    pub(super) until_interval: Option<f64>,
    pub(super) repeats_max: u32,
    /// Index of the program with which the others are compared.
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
    /// The program that makes index and coins if `program` needs them: the same one with all optimizations, if the
    /// plan has it, because its results do not depend on them.
    pub(super) fn preparer(&self, program: usize) -> usize {
        let own = &self.programs[program];
        let wanted = own.args_with_all_ideas();
        let is_same = |other: &Program| {
            (other.kind, &other.path, &other.build) == (own.kind, &own.path, &own.build) && other.args == wanted
        };
        self.programs.iter().position(is_same).unwrap_or(program)
    }
}

/// Names each cell by its distinguishing parts; a duplicate name gets a number.
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
