//! Parses the text of a plan: TOML with the position of every value, so that every problem has its line.
//!
//! Unknown keys and implausible values are problems.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use consensus::Chain;
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use serde::Deserialize;
use toml::Spanned;

use super::{
    Build, Limits, Link, PageCache, Plan, PlannedCell, PlannedChain, Problem, Program, ProgramKind, Source, Work,
    WorkKind, name_cells,
};
use demo::result::Settings;

/// Maximum number of repeats of a cell; more would not improve the result.
const REPEATS_MAX: u32 = 1_000;

/// Default maximum number of repeats of a cell whose interval stays wide.
const REPEATS_UNTIL: u32 = 20;

/// Maximum number of cells of a plan.
const CELLS_MAX: usize = 10_000;

/// Maximum length of a label.
const LABEL_MAX: usize = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    #[serde(default)]
    title: String,
    repeats: Option<Spanned<u32>>,
    until_interval: Option<Spanned<f64>>,
    repeats_max: Option<Spanned<u32>>,
    baseline: Option<Spanned<String>>,
    page_cache: Option<Spanned<String>>,
    timeout_minutes: Option<Spanned<f64>>,
    sample_ms: Option<Spanned<u64>>,
    check: Option<Spanned<String>>,
    limits: Option<RawLimits>,
    #[serde(default)]
    program: Vec<Spanned<RawProgram>>,
    #[serde(default)]
    chain: Vec<Spanned<RawChain>>,
    #[serde(default)]
    work: Vec<Spanned<RawWork>>,
    #[serde(default)]
    settings: Vec<Spanned<RawSettings>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    memory_mib: Option<Spanned<u64>>,
    cpus: Option<Spanned<String>>,
    read_mib_per_s: Option<Spanned<u64>>,
    write_mib_per_s: Option<Spanned<u64>>,
    reads_per_s: Option<Spanned<u64>>,
    writes_per_s: Option<Spanned<u64>>,
    cpu_percent: Option<Spanned<u64>>,
    mbit_per_s: Option<Spanned<f64>>,
    round_trip_ms: Option<Spanned<u64>>,
    loss_percent: Option<Spanned<f64>>,
    cut_every_s: Option<Spanned<f64>>,
    least_memory_mib: Option<Spanned<(u64, u64)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProgram {
    label: Spanned<String>,
    kind: Option<Spanned<String>>,
    path: Option<Spanned<String>>,
    commit: Option<Spanned<String>>,
    repository: Option<Spanned<String>>,
    rustflags: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    waterfall: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChain {
    label: Spanned<String>,
    /// Named `folder` in earlier plans.
    #[serde(alias = "folder")]
    datadir: Option<Spanned<String>>,
    make: Option<Spanned<Vec<String>>>,
    network: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWork {
    kind: Spanned<String>,
    programs: Option<Vec<Spanned<String>>>,
    chains: Option<Vec<Spanned<String>>>,
    settings: Option<Vec<Spanned<String>>>,
    stopatheight: Option<u32>,
    server: Option<Spanned<String>>,
    level: Option<Spanned<u32>>,
    blocks: Option<u32>,
    limits: Option<RawLimits>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSettings {
    label: Spanned<String>,
    dbcache_mib: Option<Spanned<u64>>,
    par: Option<i64>,
    assumevalid: Option<Spanned<String>>,
    batch_mib: Option<Spanned<u64>>,
}

/// Parses a plan. Relative paths in it start at `directory`.
///
/// # Errors
///
/// Every problem that is visible in the text.
pub(in crate::run) fn parse(text: &str, directory: &Path) -> Result<Plan, Vec<Problem>> {
    let raw: RawPlan = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        vec![Problem { line, what: error.message().to_owned() }]
    })?;
    let mut reader = Reader { text, directory, problems: Vec::new() };
    let plan = reader.plan(raw);
    if reader.problems.is_empty() { Ok(plan) } else { Err(reader.problems) }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// Parses the parts and collects the problems.
struct Reader<'a> {
    text: &'a str,
    directory: &'a Path,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn wrong(&mut self, span: Range<usize>, what: impl Into<String>) {
        let line = Some(line_of(self.text, span.start));
        self.problems.push(Problem { line, what: what.into() });
    }

    fn plan(&mut self, raw: RawPlan) -> Plan {
        for (count, what) in [(raw.program.len(), "program"), (raw.chain.len(), "chain"), (raw.work.len(), "work")] {
            if count == 0 {
                self.problems.push(Problem { line: None, what: format!("no [[{what}]]: a plan needs at least one") });
            }
        }
        let programs: Vec<_> = raw.program.into_iter().flat_map(|program| self.programs(program)).collect();
        let chains: Vec<_> = raw.chain.into_iter().map(|chain| self.chain(chain)).collect();
        let settings: Vec<_> = raw.settings.into_iter().map(|settings| self.settings(settings, &programs)).collect();
        let settings = if settings.is_empty() { vec![Settings::default()] } else { settings };
        let mut plan = Plan {
            title: raw.title,
            repeats: self.between(raw.repeats, 1, REPEATS_MAX, "repeats").unwrap_or(3),
            until_interval: self.between(raw.until_interval, 0.1, 100.0, "until_interval"),
            repeats_max: self.between(raw.repeats_max, 1, REPEATS_MAX, "repeats_max").unwrap_or(REPEATS_UNTIL),
            baseline: 0,
            page_cache: self.page_cache(raw.page_cache),
            timeout_s: 60.0 * self.between(raw.timeout_minutes, 0.001, 1e6, "timeout_minutes").unwrap_or(24.0 * 60.0),
            sample_ms: self.between(raw.sample_ms, 10, 60_000, "sample_ms").unwrap_or(100),
            check_every: self.check(raw.check),
            limits: raw.limits.map(|limits| self.limits(limits)).unwrap_or_default(),
            programs,
            chains,
            works: Vec::new(),
            settings,
            cells: Vec::new(),
        };
        plan.baseline =
            raw.baseline.and_then(|name| self.named(&name, &labels(&plan.programs), "program")).unwrap_or(0);
        self.unique(plan.programs.iter().map(|one| (one.label.as_str(), one.line)));
        self.unique(plan.chains.iter().map(|one| (one.label.as_str(), one.line)));
        for work in raw.work {
            self.work(work, &mut plan);
        }
        name_cells(&mut plan);
        if plan.cells.len() > CELLS_MAX {
            let what = format!("{} cells are too many: at most {CELLS_MAX}", plan.cells.len());
            self.problems.push(Problem { line: None, what });
        }
        plan
    }

    /// A program; for a waterfall, one for each of its steps.
    fn programs(&mut self, raw: Spanned<RawProgram>) -> Vec<Program> {
        let wanted = raw.get_ref().waterfall.clone();
        let program = self.program(raw);
        let Some(wanted) = wanted.filter(|wanted| *wanted.get_ref()) else { return vec![program] };
        if program.kind == ProgramKind::Bitcoind {
            self.wrong(wanted.span(), "a waterfall is made by leaving out ideas of ffwd; a bitcoind has no --without");
        }
        #[cfg(feature = "ablation")]
        return waterfall().into_iter().map(|(label, without)| program.without(&label, &without)).collect();
        #[cfg(not(feature = "ablation"))]
        {
            let what = "a waterfall leaves optimizations out, which this ffwd cannot: build it with --features full";
            self.wrong(wanted.span(), what);
            vec![program]
        }
    }

    fn program(&mut self, raw: Spanned<RawProgram>) -> Program {
        let raw = raw.into_inner();
        let kind = match raw.kind.as_ref().map(|kind| kind.get_ref().as_str()) {
            None | Some("ffwd") => ProgramKind::Ffwd,
            Some("bitcoind") => ProgramKind::Bitcoind,
            Some(other) => {
                let what = format!("unknown kind {other:?}: \"ffwd\" or \"bitcoind\"");
                self.wrong(raw.kind.as_ref().map_or(0..0, Spanned::span), what);
                ProgramKind::Ffwd
            }
        };
        if kind == ProgramKind::Bitcoind && raw.path.is_none() {
            self.wrong(raw.label.span(), "a bitcoind needs its path");
        }
        let line = line_of(self.text, raw.path.as_ref().unwrap_or(&raw.label).span().start);
        if let Some(commit) = raw.commit.as_ref().filter(|_| kind == ProgramKind::Bitcoind || raw.path.is_some()) {
            self.wrong(commit.span(), "commit is for an ffwd that is built for this plan: no path, no bitcoind");
        }
        let repository = raw.repository.and_then(|path| self.path(path)).unwrap_or_else(|| self.directory.to_owned());
        let rustflags = raw.rustflags.unwrap_or_default();
        let build = raw.commit.map(|commit| Build { commit: commit.into_inner(), repository, rustflags });
        let path = raw.path.and_then(|path| self.path(path));
        Program { label: self.label(raw.label), kind, path, build, args: raw.args, line }
    }

    fn chain(&mut self, raw: Spanned<RawChain>) -> PlannedChain {
        let table = raw.span();
        let raw = raw.into_inner();
        let network = match raw.network {
            None => Chain::Regtest,
            Some(name) => Chain::from_name(name.get_ref()).unwrap_or_else(|| {
                self.wrong(
                    name.span(),
                    format!("unknown network {:?}: main, test, testnet4, signet or regtest", name.get_ref()),
                );
                Chain::Regtest
            }),
        };
        let mut line = line_of(self.text, raw.label.span().start);
        let source = match (raw.datadir, raw.make) {
            (Some(datadir), None) => {
                line = line_of(self.text, datadir.span().start);
                Source::DataDir(self.path(datadir).unwrap_or_default())
            }
            (None, Some(make)) => {
                if network != Chain::Regtest {
                    self.wrong(make.span(), "lab chain makes regtest chains only");
                }
                if make.get_ref().iter().any(|arg| arg == "--out" || arg.starts_with("--out=")) {
                    self.wrong(
                        make.span(),
                        "--out is not for the plan to say: a chain is made below the directory of the results",
                    );
                }
                Source::Make(make.into_inner())
            }
            _ => {
                self.wrong(table, "a chain needs datadir = \"DATADIR\" or make = [arguments of lab chain]");
                Source::Make(Vec::new())
            }
        };
        PlannedChain { label: self.label(raw.label), source, network, line }
    }

    fn settings(&mut self, raw: Spanned<RawSettings>, programs: &[Program]) -> Settings {
        let raw = raw.into_inner();
        let assumevalid = raw.assumevalid.map(|value| {
            let text = value.get_ref();
            let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !(text == "tip" || text == "0" || is_hash) {
                self.wrong(value.span(), format!("assumevalid {text:?}: \"tip\", \"0\" or a block hash"));
            }
            value.into_inner()
        });
        if let Some(batch) = raw.batch_mib.as_ref().filter(|_| programs.iter().any(|one| one.kind == ProgramKind::Ffwd))
        {
            let what = "batch_mib is only for plans of bitcoind: ffwd writes a generation as tables, it has no batches to size";
            self.wrong(batch.span(), what);
        }
        Settings {
            label: self.label(raw.label),
            dbcache_mib: self.between(raw.dbcache_mib, 4, 1 << 24, "dbcache_mib"),
            par: raw.par,
            assumevalid,
            batch_mib: self.between(raw.batch_mib, 1, 4096, "batch_mib"),
        }
    }

    fn limits(&mut self, raw: RawLimits) -> Limits {
        let cpus = raw.cpus.and_then(|list| {
            let cpus = cpu_list(list.get_ref());
            if cpus.is_none() {
                self.wrong(list.span(), format!("cpus {:?}: a list such as \"0-1,4\"", list.get_ref()));
            }
            cpus
        });
        Limits {
            memory_mib: self.between(raw.memory_mib, 16, 1 << 24, "memory_mib"),
            cpus,
            read_mib_per_s: self.between(raw.read_mib_per_s, 1, 1 << 20, "read_mib_per_s"),
            write_mib_per_s: self.between(raw.write_mib_per_s, 1, 1 << 20, "write_mib_per_s"),
            reads_per_s: self.between(raw.reads_per_s, 1, 1 << 24, "reads_per_s"),
            writes_per_s: self.between(raw.writes_per_s, 1, 1 << 24, "writes_per_s"),
            cpu_percent: self.between(raw.cpu_percent, 1, 100 << 10, "cpu_percent"),
            link: Link {
                mbit_per_s: self.between(raw.mbit_per_s, 0.01, 1e6, "mbit_per_s"),
                round_trip_ms: self.between(raw.round_trip_ms, 0, 60_000, "round_trip_ms"),
                loss_percent: self.between(raw.loss_percent, 0.0, 50.0, "loss_percent"),
                cut_every_s: self.between(raw.cut_every_s, 0.1, 1e6, "cut_every_s"),
            },
            least_memory_mib: self.least_memory(raw.least_memory_mib),
        }
    }

    fn least_memory(&mut self, raw: Option<Spanned<(u64, u64)>>) -> Option<(u64, u64)> {
        let raw = raw?;
        let (from, to) = *raw.get_ref();
        if !(16..to).contains(&from) || to > 1 << 24 {
            self.wrong(raw.span(), format!("least_memory_mib = [{from}, {to}]: from 16 on, the smaller one first"));
            return None;
        }
        Some((from, to))
    }

    fn work(&mut self, raw: Spanned<RawWork>, plan: &mut Plan) {
        let raw = raw.into_inner();
        let Some(kind) = self.work_kind(&raw.kind) else { return };
        let server = match (&raw.server, kind) {
            (Some(name), WorkKind::Sync) => self.named(name, &labels(&plan.programs), "program"),
            (None, WorkKind::Sync) => {
                self.wrong(raw.kind.span(), "a sync needs server, the label of the program that serves the chain");
                None
            }
            (Some(name), _) => {
                self.wrong(name.span(), "only a sync has a server");
                None
            }
            (None, _) => None,
        };
        if let Some(level) = raw.level.as_ref().filter(|level| *level.get_ref() > 4) {
            self.wrong(level.span(), "level is 0 to 4, as Core's -checklevel");
        }
        let line = line_of(self.text, raw.kind.span().start);
        let level = raw.level.map_or(3, Spanned::into_inner);
        let limits = raw.limits.map(|limits| self.limits(limits)).unwrap_or_default().or(&plan.limits);
        plan.works.push(Work {
            kind,
            stopatheight: raw.stopatheight,
            server,
            level,
            blocks: raw.blocks.unwrap_or(6),
            limits,
            line,
        });
        let work = plan.works.len() - 1;
        let programs = self.some_of(raw.programs, &labels(&plan.programs), "program");
        if kind.is_ffwds_alone() && programs.iter().any(|&one| plan.programs[one].kind == ProgramKind::Bitcoind) {
            let why = match kind {
                WorkKind::Commit => "its loadtxoutset takes only sets whose hash it was built with",
                _ => "it has no such command",
            };
            let what = format!(
                "a bitcoind cannot do the work {}: {why}. Name the programs of this work: programs = [..]",
                kind.name()
            );
            self.wrong(raw.kind.span(), what);
        }
        if kind == WorkKind::Load && raw.stopatheight.is_none() {
            self.wrong(
                raw.kind.span(),
                "load needs stopatheight, the height of the snapshot: below the tip, for the headers above",
            );
        }
        if !kind.runs_scripts_of_blocks() && !kind.has_snapshot() && raw.stopatheight.is_some() {
            self.wrong(
                raw.kind.span(),
                format!("{} has no stopatheight: it works on the existing blocks", kind.name()),
            );
        }
        let chains =
            self.some_of(raw.chains, &plan.chains.iter().map(|one| one.label.clone()).collect::<Vec<_>>(), "chain");
        let settings = self.some_of(
            raw.settings,
            &plan.settings.iter().map(|one| one.label.clone()).collect::<Vec<_>>(),
            "settings",
        );
        for &chain in &chains {
            for &setting in &settings {
                let cell =
                    |&program: &usize| PlannedCell { name: String::new(), program, work, chain, settings: setting };
                plan.cells.extend(programs.iter().map(cell));
            }
        }
    }

    fn work_kind(&mut self, kind: &Spanned<String>) -> Option<WorkKind> {
        match kind.get_ref().as_str() {
            "reindex" => Some(WorkKind::Reindex),
            "rebuild" => Some(WorkKind::Rebuild),
            "sync" => Some(WorkKind::Sync),
            "verify" => Some(WorkKind::Verify),
            "commit" => Some(WorkKind::Commit),
            "audit" => Some(WorkKind::Audit),
            "export" => Some(WorkKind::Export),
            "doctor" => Some(WorkKind::Doctor),
            "index" => Some(WorkKind::Index),
            "muhash" => Some(WorkKind::Muhash),
            "dump" => Some(WorkKind::Dump),
            "load" => Some(WorkKind::Load),
            other => {
                let known =
                    "reindex, rebuild, sync, verify, commit, audit, export, doctor, index, muhash, dump or load";
                self.wrong(kind.span(), format!("unknown work {other:?}: {known}"));
                None
            }
        }
    }

    fn page_cache(&mut self, raw: Option<Spanned<String>>) -> PageCache {
        match raw.as_ref().map(|value| value.get_ref().as_str()) {
            None | Some("kept") => PageCache::Kept,
            Some("dropped") => PageCache::Dropped,
            Some(other) => {
                let what = format!("page_cache {other:?}: \"kept\" or \"dropped\"");
                self.wrong(raw.as_ref().map_or(0..0, Spanned::span), what);
                PageCache::Kept
            }
        }
    }

    fn check(&mut self, raw: Option<Spanned<String>>) -> bool {
        match raw.as_ref().map(|value| value.get_ref().as_str()) {
            None | Some("every") => true,
            Some("first") => false,
            Some(other) => {
                let what = format!("check {other:?}: \"every\" or \"first\"");
                self.wrong(raw.as_ref().map_or(0..0, Spanned::span), what);
                true
            }
        }
    }

    /// A path; `$NAME` at its start is replaced by the environment variable.
    fn path(&mut self, raw: Spanned<String>) -> Option<PathBuf> {
        let text = raw.get_ref();
        let Some(rest) = text.strip_prefix('$') else { return Some(self.directory.join(text)) };
        let (name, rest) = rest.split_once('/').map_or((rest, None), |(name, rest)| (name, Some(rest)));
        match std::env::var_os(name).filter(|value| !value.is_empty()) {
            Some(value) => Some(rest.map_or_else(|| PathBuf::from(&value), |rest| Path::new(&value).join(rest))),
            None => {
                self.wrong(
                    raw.span(),
                    format!("the environment variable {name} is not set: set it, or write the path here"),
                );
                None
            }
        }
    }

    fn label(&mut self, raw: Spanned<String>) -> String {
        let text = raw.get_ref();
        let good = |c: char| c.is_alphanumeric() || " -_.+:".contains(c);
        if text.trim().is_empty() || text.chars().count() > LABEL_MAX || !text.chars().all(good) {
            self.wrong(raw.span(), format!("label {text:?}: 1 to {LABEL_MAX} letters, digits, spaces and -_.+:"));
        }
        raw.into_inner()
    }

    fn unique<'b>(&mut self, labels: impl Iterator<Item = (&'b str, usize)>) {
        let mut seen = Vec::new();
        for (label, line) in labels {
            if seen.contains(&label) {
                self.problems.push(Problem { line: Some(line), what: format!("label {label:?} is there twice") });
            }
            seen.push(label);
        }
    }

    fn named(&mut self, name: &Spanned<String>, labels: &[String], what: &str) -> Option<usize> {
        let at = labels.iter().position(|label| label == name.get_ref());
        if at.is_none() {
            self.wrong(
                name.span(),
                format!("no {what} is labelled {:?}; there are: {}", name.get_ref(), labels.join(", ")),
            );
        }
        at
    }

    fn some_of(&mut self, names: Option<Vec<Spanned<String>>>, labels: &[String], what: &str) -> Vec<usize> {
        match names {
            None => (0..labels.len()).collect(),
            Some(names) => names.iter().filter_map(|name| self.named(name, labels, what)).collect(),
        }
    }

    fn between<T: PartialOrd + fmt::Display + Copy>(
        &mut self,
        value: Option<Spanned<T>>,
        low: T,
        high: T,
        what: &str,
    ) -> Option<T> {
        let value = value?;
        if !(low..=high).contains(value.get_ref()) {
            self.wrong(value.span(), format!("{what} = {}: from {low} to {high}", value.get_ref()));
            return None;
        }
        Some(value.into_inner())
    }
}

/// The programs of a waterfall, each with its disabled optimizations: in the first all are disabled, then they are
/// enabled one by one; at the end each is disabled separately.
#[cfg(feature = "ablation")]
fn waterfall() -> Vec<(String, Vec<&'static str>)> {
    let names = Idea::ALL.map(Idea::name);
    let steps = (0..=names.len()).map(|on| {
        let label = match on {
            0 => "all off".to_owned(),
            _ => format!("+ {}", names[on - 1]),
        };
        (label, names[on..].to_vec())
    });
    let alone = names.iter().map(|idea| (format!("all but {idea}"), vec![*idea]));
    // The last but one step already has only the last optimization disabled.
    let known = |without: &[&str]| *without == names[names.len() - 1..];
    steps.chain(alone.filter(|(_, without)| !known(without))).collect()
}

fn labels(programs: &[Program]) -> Vec<String> {
    programs.iter().map(|one| one.label.clone()).collect()
}

/// Parses `0-1,4` into numbers; `None` if malformed.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    const CPUS_MAX: usize = 1024;
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: usize = from.trim().parse().ok()?;
        let to: usize = to.trim().parse().ok()?;
        if from > to || to >= CPUS_MAX {
            return None;
        }
        cpus.extend(from..=to);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan that is right, to be spoiled.
    const GOOD: &str = "repeats = 2\n[[program]]\nlabel = \"a\"\n[[chain]]\nlabel = \"c\"\ndatadir = \"x\"\n[[work]]\nkind = \"reindex\"\n";

    #[test]
    fn plan_expands_to_cells() {
        let text = format!(
            "{GOOD}[[work]]\nkind = \"rebuild\"\nsettings = [\"s2\"]\n[[program]]\nlabel = \"core\"\nkind = \"bitcoind\"\npath = \"/b\"\n\
             [[settings]]\nlabel = \"s1\"\ndbcache_mib = 100\n[[settings]]\nlabel = \"s2\"\nassumevalid = \"tip\"\n"
        );
        let plan = parse(&text, Path::new("/plans")).unwrap();
        let names: Vec<_> = plan.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "a reindex, s1",
                "core reindex, s1",
                "a reindex, s2",
                "core reindex, s2",
                "a rebuild, s2",
                "core rebuild, s2"
            ]
        );
        let is_x =
            |plan: &Plan| matches!(&plan.chains[0].source, Source::DataDir(path) if path == Path::new("/plans/x"));
        assert!(is_x(&plan));
        assert_eq!((plan.repeats, plan.baseline, plan.check_every), (2, 0, true));
    }

    #[cfg(feature = "ablation")]
    #[test]
    fn waterfall_turns_ideas_on_one_by_one_then_each_off_alone() {
        let text = GOOD.replace("label = \"a\"", "label = \"a\"\nargs = [\"--par\", \"2\"]\nwaterfall = true");
        let plan = parse(&text, Path::new("/plans")).unwrap();
        let labels: Vec<_> = plan.programs.iter().map(|one| one.label.as_str()).collect();
        let count = Idea::ALL.len();
        assert_eq!((labels.len(), labels[0], labels[count]), (2 * count, "all off", "+ background-commits"));
        assert_eq!(labels[count + 1], "all but bulk-reads");
        assert_eq!(plan.programs[count].args, ["--par", "2"]);
        assert_eq!(plan.programs[1].args.len(), 2 + 2 * (count - 1));
        assert_eq!(plan.programs[count + 1].args[2..], ["--without", "bulk-reads"]);
        assert_eq!(plan.programs[count + 1].ideas_off(), ["bulk-reads"]);
        assert!(
            (0..plan.programs.len()).all(|program| plan.preparer(program) == count),
            "index and coins are made once"
        );
    }

    #[test]
    fn builds_links_and_intervals_are_read() {
        let text = format!(
            "until_interval = 2.5\n{GOOD}[[program]]\nlabel = \"old\"\ncommit = \"v1\"\nrustflags = \"-Ctarget-cpu=native\"\n\
             [limits]\nmbit_per_s = 10.0\nround_trip_ms = 50\nleast_memory_mib = [64, 4096]\n"
        );
        let plan = parse(&text, Path::new("/plans")).unwrap();
        assert_eq!((plan.until_interval, plan.repeats_max), (Some(2.5), REPEATS_UNTIL));
        assert_eq!((plan.preparer(0), plan.preparer(1)), (0, 1), "another commit makes its own index and coins");
        let build = plan.programs[1].build.clone().unwrap();
        assert_eq!((build.commit.as_str(), build.repository.as_path()), ("v1", Path::new("/plans")));
        assert_eq!(build.rustflags, "-Ctarget-cpu=native");
        assert!(plan.limits.link.is_limited() && plan.limits.link.round_trip_ms == Some(50));
        assert_eq!(plan.limits.least_memory_mib, Some((64, 4096)));
    }

    #[test]
    fn work_has_the_limits_of_the_plan_but_for_its_own() {
        let text = format!(
            "{GOOD}[[work]]\nkind = \"sync\"\nserver = \"a\"\nlimits = {{ round_trip_ms = 50, mbit_per_s = 100.0 }}\n\
             [[work]]\nkind = \"sync\"\nserver = \"a\"\n[limits]\nround_trip_ms = 5\nmemory_mib = 512\n"
        );
        let plan = parse(&text, Path::new("/plans")).unwrap();
        let of = |at: usize| {
            let limits = &plan.works[at].limits;
            (limits.memory_mib, limits.link.round_trip_ms, limits.link.mbit_per_s)
        };
        assert_eq!((of(0), of(1)), ((Some(512), Some(5), None), (Some(512), Some(50), Some(100.0))));
        let names: Vec<_> = plan.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names, ["a reindex", "a sync, 50 ms, 100 Mbit a second", "a sync"]);
        let wrong = text.replace("round_trip_ms = 50", "round_trip_ms = 500000");
        assert!(parse(&wrong, Path::new("/plans")).unwrap_err()[0].what.contains("round_trip_ms"));
    }

    #[test]
    fn bad_plan_is_refused_with_its_line() {
        for (row, from, to, line, want) in [
            ("unknown key", "repeats = 2", "repeat = 2", 1, "unknown field `repeat`"),
            ("unknown key in a table", "datadir = \"x\"", "datadir = \"x\"\nfold = 1", 7, "unknown field `fold`"),
            ("no TOML", "repeats = 2", "repeats = = 2", 1, ""),
            ("wrong type", "repeats = 2", "repeats = \"2\"", 1, "invalid type"),
            ("too many repeats", "repeats = 2", "repeats = 0", 1, "from 1 to 1000"),
            ("a load of no height", "\"reindex\"", "\"load\"", 8, "load needs stopatheight"),
            (
                "unknown work",
                "\"reindex\"",
                "\"reindx\"",
                8,
                "reindex, rebuild, sync, verify, commit, audit, export, doctor, index, muhash, dump or load",
            ),
            ("unknown kind", "label = \"a\"", "label = \"a\"\nkind = \"btcd\"", 4, "\"ffwd\" or \"bitcoind\""),
            (
                "waterfall of a bitcoind",
                "label = \"a\"",
                "label = \"a\"\nkind = \"bitcoind\"\npath = \"/b\"\nwaterfall = true",
                6,
                "a bitcoind has no --without",
            ),
            ("bitcoind without a path", "label = \"a\"", "label = \"a\"\nkind = \"bitcoind\"", 3, "needs its path"),
            (
                "variable not set",
                "label = \"a\"",
                "label = \"a\"\npath = \"$FFWD_NOT_SET/x\"",
                4,
                "FFWD_NOT_SET is not set",
            ),
            ("neither directory nor make", "datadir = \"x\"", "", 4, "needs datadir = "),
            ("make beyond regtest", "datadir = \"x\"", "make = []\nnetwork = \"main\"", 6, "regtest chains only"),
            ("make with --out", "datadir = \"x\"", "make = [\"--out\", \"y\"]", 6, "--out is not for the plan"),
            ("unknown network", "datadir = \"x\"", "datadir = \"x\"\nnetwork = \"mars\"", 7, "main, test, testnet4"),
            ("sync without server", "\"reindex\"", "\"sync\"", 8, "needs server"),
            ("unknown server", "\"reindex\"", "\"sync\"\nserver = \"b\"", 9, "there are: a"),
            ("server of a reindex", "\"reindex\"", "\"reindex\"\nserver = \"a\"", 9, "only a sync"),
            ("unknown label", "\"reindex\"", "\"reindex\"\nprograms = [\"b\"]", 9, "there are: a"),
            ("label with a slash", "label = \"a\"", "label = \"../a\"", 3, "letters, digits"),
            ("level", "\"reindex\"", "\"verify\"\nlevel = 5", 9, "0 to 4"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{row}: nothing was spoiled");
            let problems = parse(&text, Path::new("/plans")).unwrap_err();
            assert_eq!(problems[0].line, Some(line), "{row}: {}", problems[0]);
            assert!(problems[0].what.contains(want), "{row}: {}", problems[0]);
        }
        for (row, more, want) in [
            ("batches of ffwd", "[[settings]]\nlabel = \"s\"\nbatch_mib = 16\n", "no batches"),
            ("assumevalid", "[[settings]]\nlabel = \"s\"\nassumevalid = \"yes\"\n", "or a block hash"),
            ("page cache", "", ""),
            ("label twice", "[[chain]]\nlabel = \"c\"\ndatadir = \"y\"\n", "there twice"),
            ("cpus", "[limits]\ncpus = \"1-0\"\n", "\"0-1,4\""),
            ("memory", "[limits]\nmemory_mib = 1\n", "memory_mib = 1: from 16"),
            ("processor time", "[limits]\ncpu_percent = 0\n", "cpu_percent = 0: from 1"),
            ("operations", "[limits]\nreads_per_s = 0\n", "reads_per_s = 0: from 1"),
            ("least memory", "[limits]\nleast_memory_mib = [64, 32]\n", "the smaller one first"),
            ("loss", "[limits]\nloss_percent = 80.0\n", "loss_percent = 80: from 0 to 50"),
            ("a commit with a path", "[[program]]\nlabel = \"o\"\npath = \"/x\"\ncommit = \"main\"\n", "no path"),
        ] {
            let text = if more.is_empty() { format!("page_cache = \"cold\"\n{GOOD}") } else { format!("{GOOD}{more}") };
            let problems = parse(&text, Path::new("/plans")).unwrap_err();
            assert!(problems.iter().any(|one| one.line.is_some() && one.what.contains(want)), "{row}: {problems:?}");
        }
        assert_eq!(parse("", Path::new("/")).unwrap_err().len(), 3, "an empty plan lacks three things");
    }

    #[test]
    fn cpu_list_parses_ranges() {
        for (text, want) in
            [("0-1,4", Some(vec![0, 1, 4])), ("3", Some(vec![3])), ("", None), ("2-1", None), ("0-9999999999", None)]
        {
            assert_eq!(cpu_list(text), want, "{text}");
        }
    }
}
