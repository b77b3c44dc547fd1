//! Reads files and directories into [`Run`]s, from which every chart is drawn.
//!
//! A directory with `result.json` is a result of `lab run`; any other directory is searched for such directories and
//! for logs. Time 0 of a run is its first line, or under `lab run` the start of its program.
//!
//! Absent on purpose: drawing.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use super::stacks::{self, Stacks};
use super::{PlotError, Skipped};
use crate::debug_log::{self, LogRun, StageSums, Tip};
use crate::result::{Cell, FORMAT, Outcome, RESULT_FILE, Report, RunRecord, SAMPLES_FILE, SAMPLES_HEADER};

/// Maximum depth of searched directories.
const DEPTH_MAX: usize = 6;

/// Maximum number of files from one directory; further ones are listed as omitted.
const FILES_MAX: usize = 10_000;

/// Maximum size of a result of `lab run`, which has a few kilobytes for each run.
const RESULT_BYTES_MAX: u64 = 256 << 20;

/// Maximum number of samples: ten a second for a month.
const SAMPLES_MAX: usize = 26_000_000;

/// If a cache keeps less than this share of its bytes from one block to the next, it was flushed.
const FLUSH_KEEPS: f32 = 0.5;

/// Minimum cache size in MiB for the detection of flushes by a shrinking cache.
const FLUSH_MIB_MIN: f32 = 1.0;

/// A block that became the tip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Seconds since the start of the run.
    pub(super) t: f64,
    /// Height.
    pub(super) height: u32,
    /// Transactions of the chain up to this tip; 0 if unknown.
    pub(super) tx: u64,
    /// Coins cache in MiB; NaN if unknown.
    pub(super) cache_mib: f32,
    /// Entries of the coins cache.
    pub(super) entries: u64,
    /// The last 64 bits of the hash; 0 where unknown.
    pub(super) hash: u64,
}

/// A write of the coins cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flush {
    /// Seconds since the start of the run.
    pub(super) t: f64,
    /// Height of the tip.
    pub(super) height: u32,
    /// Milliseconds it took.
    pub(super) ms: Option<f64>,
    /// Coins written.
    pub(super) coins: Option<u64>,
}

/// One sample of `lab run`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since the start of the run.
    pub(super) t: f64,
    /// Bytes of anonymous memory.
    pub(super) rss_anon: f64,
    /// Bytes written to storage since the start.
    pub(super) written: f64,
    /// Height of the last tip in the log.
    pub(super) height: Option<u32>,
}

/// A run as it is drawn.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Unique name.
    pub(super) label: String,
    /// Runs with the same group share a colour: the cell of a plan, or the run itself.
    pub(super) group: String,
    /// Label of the program under `lab run`; empty for a log.
    pub(super) program: String,
    /// Work and chain under `lab run`: runs with other values are not compared with it. Empty for a log.
    pub(super) work: String,
    /// Version line of the program.
    pub(super) version: String,
    /// Which scripts ran; empty if unknown.
    pub(super) trust: String,
    /// How it ended, in words.
    pub(super) ending: String,
    /// Its tips.
    pub(super) points: Vec<Point>,
    /// Its flushes.
    pub(super) flushes: Vec<Flush>,
    /// Whether the flushes were inferred from the size of the cache, not from lines about them.
    pub(super) flushes_inferred: bool,
    /// Number of parts in which the coins of flushes were written, without the last part of each.
    pub(super) partial_batches: u64,
    /// Stage times.
    pub(super) stages: BTreeMap<u32, StageSums>,
    /// Milliseconds of each block.
    pub(super) block_ms: Vec<f32>,
    /// Whether `block_ms` is the time between tips, divided among the blocks of one clock tick.
    pub(super) block_ms_from_tips: bool,
    /// Samples of `lab run`.
    pub(super) samples: Vec<Sample>,
    /// Seconds from the start of the program to its end, or to the last line.
    pub(super) seconds: f64,
    /// Damaged lines.
    pub(super) damaged: u64,
}

impl Run {
    /// Seconds at which `height` was first reached, interpolated linearly between two tips; `None` outside of them.
    pub(super) fn reached(&self, height: f64) -> Option<f64> {
        let at = self.points.partition_point(|point| f64::from(point.height) < height);
        let next = self.points.get(at)?;
        let Some(before) = at.checked_sub(1).map(|at| &self.points[at]) else {
            return (f64::from(next.height) <= height).then_some(next.t);
        };
        let span = f64::from(next.height) - f64::from(before.height);
        let share = if span > 0.0 { (height - f64::from(before.height)) / span } else { 1.0 };
        Some(before.t + (next.t - before.t) * share)
    }

    /// Height at `t`, interpolated linearly between two tips; 0 before the first.
    pub(super) fn height_at(&self, t: f64) -> f64 {
        let at = self.points.partition_point(|point| point.t < t);
        let height = |point: &Point| f64::from(point.height);
        match (at.checked_sub(1).map(|at| &self.points[at]), self.points.get(at)) {
            (Some(before), Some(next)) if next.t > before.t => {
                height(before) + (height(next) - height(before)) * (t - before.t) / (next.t - before.t)
            }
            (_, Some(next)) => height(next),
            (Some(last), None) => height(last),
            (None, None) => 0.0,
        }
    }
}

/// The runs and results that were read.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Runs with at least one tip or sample.
    pub(super) runs: Vec<Run>,
    /// Results of `lab run`.
    pub(super) reports: Vec<Report>,
    /// Stacks of the cells that were profiled.
    pub(super) stacks: Vec<Stacks>,
    /// Files that are not plotted, and why.
    pub(super) skipped: Vec<Skipped>,
    /// Number of starts of a program that connected no block.
    pub(super) starts_without_blocks: usize,
    /// Lines read.
    pub(super) lines: u64,
    /// Bytes read.
    pub(super) bytes: u64,
    /// Lines damaged.
    pub(super) damaged: u64,
}

/// Reads all of `paths`.
///
/// # Errors
///
/// A path cannot be read. A file that is not a log does not cause an error; it is in `skipped`.
pub(super) fn read(paths: &[PathBuf]) -> Result<Inputs, PlotError> {
    let mut inputs = Inputs::default();
    for path in paths {
        let kind = std::fs::metadata(path).map_err(|error| PlotError::Read { path: path.clone(), error })?;
        if kind.is_dir() {
            let mut files = Vec::new();
            find(path, 0, &mut files, &mut inputs)?;
            files.iter().try_for_each(|file| one(file, &mut inputs))?;
        } else {
            one(path, &mut inputs)?;
        }
    }
    tell_apart(&mut inputs.runs);
    Ok(inputs)
}

/// Collects the results and logs below `directory`, in the order of their names.
fn find(directory: &Path, depth: usize, files: &mut Vec<PathBuf>, inputs: &mut Inputs) -> Result<(), PlotError> {
    let wrong = |error| PlotError::Read { path: directory.to_owned(), error };
    let result = directory.join(RESULT_FILE);
    if result.is_file() {
        files.push(result);
        return Ok(());
    }
    if directory.join("CURRENT").is_file() {
        return Ok(()); // A LevelDB: its write-ahead log is called .log too.
    }
    let mut entries = std::fs::read_dir(directory).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(wrong)?;
        if kind.is_dir() && depth < DEPTH_MAX {
            find(&entry.path(), depth + 1, files, inputs)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|end| end == "log") {
            if files.len() == FILES_MAX {
                inputs
                    .skipped
                    .push(Skipped { path: entry.path(), why: format!("more than {FILES_MAX} files in one directory") });
                return Ok(());
            }
            files.push(entry.path());
        }
    }
    Ok(())
}

fn one(path: &Path, inputs: &mut Inputs) -> Result<(), PlotError> {
    if path.extension().is_some_and(|end| end == "json") {
        return result(path, inputs);
    }
    let wrong = |error| PlotError::Read { path: path.to_owned(), error };
    let log = debug_log::read(File::open(path).map_err(wrong)?).map_err(wrong)?;
    (inputs.lines, inputs.bytes) = (inputs.lines + log.lines, inputs.bytes + log.bytes);
    if !log.runs.iter().any(is_drawn) {
        let why = if log.timed == 0 {
            "no line begins with a time: not a debug.log".to_owned()
        } else {
            format!(
                "{} of {} lines begin with a time, but no line is a whole \"UpdateTip: new best=\" or a flush",
                log.timed, log.lines
            )
        };
        inputs.skipped.push(Skipped { path: path.to_owned(), why });
        return Ok(());
    }
    for (count, what) in [(log.tips_left_out, "tips"), (log.runs_left_out, "starts")] {
        if count > 0 {
            inputs.skipped.push(Skipped {
                path: path.to_owned(),
                why: format!("its last {count} {what} are beyond what one log may hold"),
            });
        }
    }
    let name = name_of(path);
    let drawn = log.runs.iter().filter(|run| has_own(run)).count();
    let mut number = 0;
    for run in log.runs {
        inputs.damaged += run.damaged;
        inputs.starts_without_blocks += usize::from(run.tips.is_empty() && run.start_us.is_some());
        if !is_drawn(&run) {
            continue;
        }
        number += 1;
        let label = if drawn > 1 { format!("{name} #{number}") } else { name.clone() };
        push(run, label, inputs);
    }
    Ok(())
}

/// Whether a run of a log has data of its own to draw: tips, or only flushes, as the load of a snapshot.
fn has_own(run: &LogRun) -> bool {
    !run.tips.is_empty() || !run.flushes.is_empty()
}

/// Whether any data of a run of a log is drawn.
fn is_drawn(run: &LogRun) -> bool {
    has_own(run) || !run.background.is_empty()
}

/// The file's name, preceded by its directory's if it has the usual name of a log.
fn name_of(path: &Path) -> String {
    let text =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
    let name = text(path.file_stem());
    if name != "debug" {
        return name;
    }
    let mut directory = path.parent();
    if directory.is_some_and(|directory| {
        ["regtest", "signet", "testnet3", "testnet4"].contains(&text(directory.file_name()).as_str())
    }) {
        directory = directory.and_then(Path::parent);
    }
    let directory = text(directory.and_then(Path::file_name));
    if directory.is_empty() { "debug.log".to_owned() } else { format!("{directory}/debug.log") }
}

/// Converts a run of a log to a run to draw; its background validation becomes a separate one.
fn push(mut log: LogRun, label: String, inputs: &mut Inputs) {
    let start_us = log.start_us.unwrap_or_default();
    let background = std::mem::take(&mut log.background);
    if !background.is_empty() {
        let seconds = seconds_since(start_us, background.last().map_or(0, |tip| tip.time_us));
        let label = format!("{label}, background");
        let points = points(&background, start_us, None);
        inputs.runs.push(Run {
            group: label.clone(),
            label,
            points,
            seconds,
            version: log.version.clone(),
            ..Run::default()
        });
    }
    if !has_own(&log) {
        return;
    }
    let ending = if log.shut_down { "shut down" } else { "log ends" };
    let mut run = from_log(log, start_us, None);
    (run.group, run.label, run.ending) = (label.clone(), label, ending.to_owned());
    inputs.runs.push(run);
}

fn from_log(log: LogRun, start_us: i64, seen: Option<&Run>) -> Run {
    let points = points(&log.tips, start_us, seen);
    let mut flushes: Vec<_> = log
        .flushes
        .iter()
        .map(|flush| Flush {
            t: seconds_since(start_us, flush.time_us),
            height: flush.height,
            ms: flush.ms,
            coins: flush.coins,
        })
        .collect();
    let flushes_inferred = flushes.is_empty();
    if flushes_inferred {
        flushes = flushes_by_size(&points);
    }
    let block_ms_from_tips = log.block_ms.is_empty();
    let block_ms = if block_ms_from_tips { spread(&log.tips, log.micros) } else { log.block_ms };
    let last = log.tips.last().map_or(log.end_us, |tip| tip.time_us);
    Run {
        version: log.version,
        trust: log.trust.map_or("", debug_log::Trust::words).to_owned(),
        flushes_inferred,
        flushes,
        partial_batches: log.partial_batches,
        stages: log.stages,
        block_ms,
        block_ms_from_tips,
        seconds: seconds_since(start_us, if log.shut_down { log.end_us.max(last) } else { last }),
        damaged: log.damaged,
        points,
        ..Run::default()
    }
}

/// Converts tips to points. If the log has only whole seconds, the time of a tip is taken from the sample in `seen`
/// with its height, within that second; without samples the tips of a second are spread evenly over it.
fn points(tips: &[Tip], start_us: i64, seen: Option<&Run>) -> Vec<Point> {
    let mut clock = 0.0f64; // If the clock was set back, the line must not go backwards.
    let mut points = Vec::with_capacity(tips.len());
    for second in tips.chunk_by(|a, b| a.time_us == b.time_us) {
        let begin = second[0].time_us.saturating_sub(start_us) as f64 / 1e6;
        let is_whole = second[0].time_us % 1_000_000 == 0;
        let share = if is_whole { 1.0 / second.len() as f64 } else { 0.0 };
        for (at, tip) in second.iter().enumerate() {
            let f = tip.fields;
            let sampled = seen.filter(|_| is_whole).and_then(|seen| seen.reached(f64::from(f.height)));
            let t = sampled.map_or(begin + at as f64 * share, |t| t.clamp(begin, begin + 1.0));
            clock = clock.max(t);
            let cache_mib = f.cache_mib;
            let entries = f.entries;
            points.push(Point { t: clock, height: f.height, tx: f.tx, cache_mib, entries, hash: f.hash });
        }
    }
    points
}

fn seconds_since(start_us: i64, time_us: i64) -> f64 {
    time_us.saturating_sub(start_us).max(0) as f64 / 1e6
}

/// Flushes that the log does not mention: the cache is much smaller than at the previous block.
fn flushes_by_size(points: &[Point]) -> Vec<Flush> {
    let shrank =
        |pair: &&[Point]| pair[0].cache_mib > FLUSH_MIB_MIN && pair[1].cache_mib < pair[0].cache_mib * FLUSH_KEEPS;
    let flush = |pair: &[Point]| Flush { t: pair[1].t, height: pair[1].height, ms: None, coins: None };
    points.windows(2).filter(shrank).map(flush).collect()
}

/// Milliseconds for each block, computed from the times of the tips. If the log has only whole seconds, the blocks of
/// one second share the time to the next second that has any.
fn spread(tips: &[Tip], micros: bool) -> Vec<f32> {
    if micros {
        return tips
            .windows(2)
            .map(|pair| pair[1].time_us.saturating_sub(pair[0].time_us).max(0) as f32 / 1e3)
            .collect();
    }
    let mut ms = Vec::with_capacity(tips.len());
    let mut first = 0;
    for at in 1..tips.len() {
        let elapsed_us = tips[at].time_us.saturating_sub(tips[first].time_us);
        if elapsed_us > 0 {
            let blocks = at - first;
            ms.extend(std::iter::repeat_n(elapsed_us as f32 / 1e3 / blocks as f32, blocks));
            first = at;
        }
    }
    ms
}

/// Reads a result of `lab run` and the files of its runs.
fn result(path: &Path, inputs: &mut Inputs) -> Result<(), PlotError> {
    let wrong = |error| PlotError::Read { path: path.to_owned(), error };
    let mut skip = |why: String| inputs.skipped.push(Skipped { path: path.to_owned(), why });
    let bytes = std::fs::metadata(path).map_err(wrong)?.len();
    if bytes > RESULT_BYTES_MAX {
        skip(format!("{bytes} bytes are too many for a result of lab run"));
        return Ok(());
    }
    let text = std::fs::read(path).map_err(wrong)?;
    let report: Report = match serde_json::from_slice(&text) {
        Ok(report) => report,
        Err(error) => {
            skip(format!("not a result of lab run: {error}"));
            return Ok(());
        }
    };
    if report.format != FORMAT {
        skip(format!("not a result of lab run: format is {:?}, wanted {FORMAT:?}", report.format));
        return Ok(());
    }
    inputs.bytes += bytes;
    let directory = path.parent().unwrap_or(Path::new("."));
    for record in &report.runs {
        // The directory's name comes from a file, so it must not lead out of the result.
        if Path::new(&record.directory).components().any(|part| !matches!(part, Component::Normal(_))) {
            inputs.skipped.push(Skipped {
                path: path.to_owned(),
                why: format!("run {}: directory {:?} leads out of the result", record.run, record.directory),
            });
            continue;
        }
        let cell = report.cells.iter().find(|cell| cell.cell == record.cell);
        let run = measured(&directory.join(&record.directory), record, cell, inputs)?;
        if !run.points.is_empty() || !run.samples.is_empty() {
            inputs.runs.push(run);
        }
    }
    let is_inside =
        |run: &&RunRecord| Path::new(&run.directory).components().all(|part| matches!(part, Component::Normal(_)));
    let safe = Report { runs: report.runs.iter().filter(is_inside).cloned().collect(), ..report.clone() };
    inputs.stacks.extend(stacks::of(&safe, directory));
    inputs.reports.push(report);
    Ok(())
}

/// One run of a plan: its log, shifted to the start of the program, and its samples.
fn measured(directory: &Path, record: &RunRecord, cell: Option<&Cell>, inputs: &mut Inputs) -> Result<Run, PlotError> {
    let mut damaged = 0;
    let samples = directory.join(SAMPLES_FILE);
    let text = if samples.is_file() {
        std::fs::read_to_string(&samples).map_err(|error| PlotError::Read { path: samples.clone(), error })?
    } else {
        String::new()
    };
    let (samples, points) = samples_of(&text, &mut damaged);
    let mut run = Run { points, ..Run::default() };
    let path = directory.join("debug.log");
    if path.is_file() {
        let wrong = |error| PlotError::Read { path: path.clone(), error };
        let log = debug_log::read(File::open(&path).map_err(wrong)?).map_err(wrong)?;
        (inputs.lines, inputs.bytes) = (inputs.lines + log.lines, inputs.bytes + log.bytes);
        damaged += log.runs.iter().map(|run| run.damaged).sum::<u64>();
        if let Some(log) = log.runs.into_iter().filter(|run| !run.tips.is_empty()).max_by_key(|run| run.tips.len()) {
            run = from_log(log, record.started_unix_us, Some(&run));
        }
    }
    inputs.damaged += damaged;
    (run.samples, run.damaged) = (samples, damaged);
    run.group.clone_from(&record.cell);
    run.label = if cell.is_none_or(|cell| cell.runs + cell.failed < 2) {
        record.cell.clone()
    } else {
        format!("{} ({})", record.cell, record.repeat)
    };
    run.trust.clone_from(&record.trust);
    if let Some(cell) = cell {
        run.program.clone_from(&cell.program);
        run.work = format!("{} of {}", cell.work, cell.chain);
    }
    run.seconds = record.seconds;
    run.ending = match record.outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::Failed | Outcome::Killed | Outcome::Timeout => record.why.clone(),
    };
    Ok(run)
}

/// Reads samples; a malformed line is counted as damaged.
fn samples_of(text: &str, damaged: &mut u64) -> (Vec<Sample>, Vec<Point>) {
    let mut samples = Vec::new();
    let mut heights = Vec::<Point>::new();
    for line in text.lines().filter(|line| *line != SAMPLES_HEADER).take(SAMPLES_MAX) {
        let mut columns = line.split(',');
        let mut number = || {
            columns.next().and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite() && *value >= 0.0)
        };
        let (Some(t), Some(rss_anon), Some(_cpu), Some(_read), Some(written)) =
            (number(), number(), number(), number(), number())
        else {
            *damaged += 1;
            continue;
        };
        let height = columns.next().and_then(|text| text.parse().ok());
        samples.push(Sample { t, rss_anon, written, height });
        if let Some(height) = height.filter(|&height| heights.last().is_none_or(|last| last.height != height)) {
            heights.push(Point { t, height, tx: 0, cache_mib: f32::NAN, entries: 0, hash: 0 });
        }
    }
    (samples, heights)
}

/// Numbers runs with the same name.
fn tell_apart(runs: &mut [Run]) {
    let mut seen = BTreeMap::<String, usize>::new();
    for run in runs.iter() {
        *seen.entry(run.label.clone()).or_default() += 1;
    }
    let mut next = BTreeMap::<String, usize>::new();
    for run in runs.iter_mut().filter(|run| seen[&run.label] > 1) {
        let number = next.entry(run.label.clone()).or_default();
        *number += 1;
        let own_group = run.group == run.label;
        run.label = format!("{} [{number}]", run.label);
        if own_group {
            run.group.clone_from(&run.label);
        }
    }
}
