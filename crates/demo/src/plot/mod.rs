//! The command `lab plot`: draws one report from logs and results.
//!
//! In: debug.log files of ffwd and of any Bitcoin Core that writes UpdateTip lines, and results of `lab run`.
//! Out: one self-contained HTML file; on request also an SVG and a CSV file for each chart, and flame graphs of
//! profiled runs (`flames`, with the feature of that name).
//! Absent on purpose: measuring (crate `lab`), and any network access: the page works from disk.

mod charts;
mod csv;
#[cfg(feature = "flames")]
mod flames;
mod html;
mod input;
mod markup;
mod palette;
mod pointer;
mod scale;
mod stacks;
mod svg;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The input and output of a report.
#[derive(Clone, Debug)]
pub struct PlotOptions {
    /// Logs, results (`result.json`), and directories of them.
    pub inputs: Vec<PathBuf>,
    /// Path of the report; charts in the same directory are named `STEM-CHART.svg` and `.csv`.
    pub out: PathBuf,
    /// Writes an SVG file for each chart.
    pub svg: bool,
    /// Writes a CSV file for each chart, with every point that was read.
    pub csv: bool,
    /// The run, cell or program with which the others are compared; by default the slowest.
    pub baseline: Option<String>,
    /// Puts the height on x and the time on y, in charts of both.
    pub height_across: bool,
    /// Height from which on ratios are drawn.
    pub from_height: u32,
    /// Overwrites existing files.
    pub overwrite: bool,
}

/// A file, or a part of one, that is not in the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// What was plotted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlotReport {
    /// The report.
    pub out: PathBuf,
    /// Every file that was written, the report first.
    pub files: Vec<PathBuf>,
    /// Names of the charts.
    pub charts: Vec<String>,
    /// Names of the runs.
    pub runs: Vec<String>,
    /// Lines read.
    pub lines: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Lines that are cut or damaged.
    pub damaged_lines: u64,
    /// Files and parts of files that are not in the report.
    pub skipped: Vec<Skipped>,
    /// Important notes: runs that are not compared, runs that are not drawn.
    pub notes: Vec<String>,
}

/// Why there is no report.
#[derive(Debug)]
pub enum PlotError {
    /// A file or directory could not be read.
    Read {
        /// Which.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A file could not be written.
    Write {
        /// Which.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// An output file exists already.
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// None of the inputs can be plotted.
    Nothing {
        /// Each file with its reason.
        skipped: Vec<Skipped>,
    },
    /// No run has the name of the baseline.
    Baseline {
        /// The given name.
        name: String,
        /// The existing names.
        names: Vec<String>,
    },
}

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Write { path, error } => write!(f, "{} cannot be written: {error}", path.display()),
            Self::Exists { path } => write!(f, "{} is there already", path.display()),
            Self::Nothing { skipped } if skipped.is_empty() => {
                write!(
                    f,
                    "nothing to plot: wanted a debug.log with UpdateTip lines or a result of lab run, found no such file"
                )
            }
            Self::Nothing { skipped } => {
                write!(f, "nothing to plot: wanted a debug.log with UpdateTip lines or a result of lab run")?;
                skipped.iter().try_for_each(|one| write!(f, "; {}: {}", one.path.display(), one.why))
            }
            Self::Baseline { name, names } => write!(f, "no run is named {name:?}; there are: {}", names.join(", ")),
        }
    }
}

impl std::error::Error for PlotError {}

/// Reads `options.inputs` and writes the report.
///
/// # Errors
///
/// See [`PlotError`]. A file that is not a log causes no error if another one can be plotted; the report names it.
pub fn plot(options: &PlotOptions) -> Result<PlotReport, PlotError> {
    check_free(&options.out, options)?;
    let inputs = input::read(&options.inputs)?;
    if inputs.runs.is_empty() && inputs.reports.is_empty() {
        return Err(PlotError::Nothing { skipped: inputs.skipped });
    }
    let charts = charts::make(&inputs, options)?;
    if let Some(directory) = options.out.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).map_err(|error| PlotError::Write { path: directory.to_owned(), error })?;
    }
    let mut files = vec![options.out.clone()];
    write(&options.out, options, |out| out.write_all(html::page(&charts, &inputs).as_bytes()))?;
    for chart in &charts.charts {
        if options.svg {
            files.push(beside(&options.out, &chart.id, "svg"));
            write(&files[files.len() - 1], options, |out| out.write_all(svg::file(chart).as_bytes()))?;
        }
        if options.csv {
            files.push(beside(&options.out, &chart.id, "csv"));
            write(&files[files.len() - 1], options, |out| csv::write(chart, &inputs, out))?;
        }
    }
    #[cfg(feature = "flames")]
    if options.svg {
        flames::write(&inputs.stacks, options, &mut files)?;
    }
    Ok(PlotReport {
        out: options.out.clone(),
        files,
        charts: charts.charts.into_iter().map(|chart| chart.id).collect(),
        runs: inputs.runs.into_iter().map(|run| run.label).collect(),
        lines: inputs.lines,
        bytes: inputs.bytes,
        damaged_lines: inputs.damaged,
        skipped: inputs.skipped,
        notes: charts.notes,
    })
}

/// `report.html` and `height` give `report-height.svg`.
fn beside(out: &Path, chart: &str, extension: &str) -> PathBuf {
    let stem = out.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    out.with_file_name(format!("{stem}-{chart}.{extension}"))
}

/// Rejects an existing file, unless it may be overwritten.
fn check_free(path: &Path, options: &PlotOptions) -> Result<(), PlotError> {
    match path.is_file() && !options.overwrite {
        true => Err(PlotError::Exists { path: path.to_owned() }),
        false => Ok(()),
    }
}

/// Writes a file under another name and renames it, so that it is never incomplete.
fn write(
    path: &Path,
    options: &PlotOptions,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), PlotError> {
    check_free(path, options)?;
    let wrong = |error| PlotError::Write { path: path.to_owned(), error };
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&part).map_err(wrong)?);
    content(&mut out).and_then(|()| out.flush()).map_err(wrong)?;
    drop(out);
    std::fs::rename(&part, path).map_err(wrong)
}
