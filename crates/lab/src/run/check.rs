//! Checks everything that can be checked before a run: programs, chains, disk space. In: a plan. Out: paths and sizes.
//!
//! Absent on purpose: writing, except for a test whether files can be reflinked.

use std::path::{Path, PathBuf};

use super::copy;
use super::plan::{Plan, Problem, Source, WorkKind};
use super::program::{is_executable, net_dir, takes, version};
use super::survey::{Surveyed, survey};

/// Size of index, undo data and coins that a work adds, as a share of the block files.
const GROWTH: f64 = 0.5;

/// The programs of a plan: paths and versions.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) exes: Vec<PathBuf>,
    pub(super) versions: Vec<String>,
}

/// Finds every program of `plan`. `own` is the ffwd that runs the plan, `built` are the programs built for it.
pub(super) fn programs(plan: &Plan, own: &Path, built: &[Option<PathBuf>]) -> Result<Programs, Vec<Problem>> {
    let mut found = Programs { exes: Vec::new(), versions: Vec::new() };
    let mut problems = Vec::new();
    for (program, built) in plan.programs.iter().zip(built) {
        let exe = program.path.clone().or(built.clone()).unwrap_or_else(|| own.to_owned());
        let what = if is_executable(&exe) { version(&exe) } else { Err(format!("no program at {}", exe.display())) };
        match what {
            Ok(version) => found.versions.push(version),
            Err(what) => {
                problems.push(Problem { line: Some(program.line), what: format!("{}: {what}", program.label) })
            }
        }
        found.exes.push(exe);
    }
    if problems.is_empty() {
        problems = arguments(plan, &found);
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Problems with arguments that a program rejects in one of its works.
fn arguments(plan: &Plan, programs: &Programs) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut asked: Vec<(usize, WorkKind)> = Vec::new();
    for cell in &plan.cells {
        let work = plan.works[cell.work].kind;
        let program = &plan.programs[cell.program];
        if program.args.is_empty() || asked.contains(&(cell.program, work)) {
            continue;
        }
        asked.push((cell.program, work));
        if let Err(why) = takes(&programs.exes[cell.program], program.kind, work, &program.args) {
            let what = format!("{} refuses its args in the work {}: {why}", program.label, work.name());
            problems.push(Problem { line: Some(program.line), what });
        }
    }
    problems
}

/// Checks every existing chain; `None` for one that has to be generated. `made` is the directory of generated chains.
pub(super) fn chains(
    plan: &Plan,
    out: &Path,
    made: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Vec<Option<Surveyed>>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut found = Vec::new();
    for chain in &plan.chains {
        let directory = match &chain.source {
            Source::DataDir(datadir) => Some(datadir.clone()),
            Source::Make(_) => made(&chain.label),
        };
        let looked = directory.map(|directory| {
            if is_inside(out, &directory) {
                return Err(format!("the results must be outside the chain's own directory {}", directory.display()));
            }
            survey(&chain.label, &directory, chain.network)
        });
        match looked.transpose() {
            Ok(chain) => found.push(chain),
            Err(what) => problems.push(Problem { line: Some(chain.line), what: format!("{}: {what}", chain.label) }),
        }
    }
    for (at, work) in plan.works.iter().enumerate().filter(|(_, work)| work.stopatheight.is_some()) {
        problems.extend(too_high(plan, &found, at, work));
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

fn too_high(plan: &Plan, chains: &[Option<Surveyed>], at: usize, work: &super::plan::Work) -> Option<Problem> {
    let wanted = work.stopatheight?;
    let used = plan.cells.iter().filter(|cell| cell.work == at).filter_map(|cell| chains.get(cell.chain)?.as_ref());
    let short = used.into_iter().find(|chain| chain.facts.height < wanted)?;
    let what = format!("stopatheight {wanted}: chain {} ends at height {}", short.facts.label, short.facts.height);
    Some(Problem { line: Some(work.line), what })
}

fn is_inside(directory: &Path, of: &Path) -> bool {
    match (directory.canonicalize(), of.canonicalize()) {
        (Ok(directory), Ok(of)) => directory.starts_with(of),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Whether the copies of the existing chains fit on the disk of `out`.
pub(super) fn room(plan: &Plan, out: &Path, chains: &[Option<Surveyed>]) -> Result<(), Vec<Problem>> {
    let mut wanted = 0.0f64;
    let mut largest: Option<(f64, usize)> = None;
    for (at, chain) in chains.iter().enumerate() {
        let Some(chain) = chain else { continue };
        let bytes = chain.whole_bytes as f64;
        let copied = if copy::can_reflink(&net_dir(&chain.directory, chain.network), out) { 0.0 } else { bytes };
        let one = copied + bytes * GROWTH;
        wanted += one * prepared(plan, at, chain).len() as f64;
        if largest.is_none_or(|(most, _)| one > most) {
            largest = Some((one, at));
        }
    }
    let Some((one, at)) = largest else { return Ok(()) };
    wanted += one;
    let free = copy::free_bytes(out).map_or(f64::INFINITY, |bytes| bytes as f64);
    if free >= wanted {
        return Ok(());
    }
    let mib = |bytes: f64| (bytes / 1_048_576.0).ceil();
    let what = format!(
        "no room to work on copies: {} MiB are needed below {}, {} are free; give --out on another disk",
        mib(wanted),
        out.display(),
        mib(free)
    );
    Err(vec![Problem { line: Some(plan.chains[at].line), what }])
}

/// The programs that prepare a directory of a chain: for works that need index and coins if they are missing, and for
/// servers.
pub(super) fn prepared(plan: &Plan, chain: usize, found: &Surveyed) -> Vec<usize> {
    let needs = |cell: &super::plan::PlannedCell| {
        let work = &plan.works[cell.work];
        match work.kind {
            WorkKind::Reindex => None,
            // The directory that serves the headers.
            WorkKind::Load => Some(cell.program),
            WorkKind::Sync => work.server,
            _ => (!found.is_whole).then_some(cell.program),
        }
    };
    let needed = plan.cells.iter().filter(|cell| cell.chain == chain).filter_map(needs);
    let mut programs: Vec<_> = needed.map(|program| plan.preparer(program)).collect();
    programs.sort_unstable();
    programs.dedup();
    programs
}
