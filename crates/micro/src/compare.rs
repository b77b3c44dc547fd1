//! Compares the rows of this run with those of another: of a saved run, or of another build of this program.
//!
//! The verdict uses intervals. A row's median has a standard error that follows from its median absolute deviation
//! (1.4826 of those are a standard deviation; the median of n epochs has 1.2533 / √n of one: Gauss). Two rows differ
//! if the interval of 2.2 standard errors around the logarithm of their ratio (95 % for eleven epochs) is more than 1
//! % away from equality. Two builds of one source can differ by 1 %, depending on where the linker places a loop.

use crate::report::{Compared, Report, Row, Verdict};
use crate::{Error, Options, Progress};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Half width of the 95 % interval in standard errors, for eleven epochs.
const STANDARD_ERRORS: f64 = 2.2;
/// A median absolute deviation of 1 in standard errors of the median, times the root of the number of epochs.
const OF_MEDIAN: f64 = 1.4826 * 1.2533;
/// Differences up to this share may be caused by code placement.
const LAYOUT: f64 = 0.01;

/// The run to compare with.
#[derive(Clone, Debug)]
pub enum Other {
    /// The saved output of `lab micro --json`.
    Saved(PathBuf),
    /// Another ffwd. It runs the same tables before and after this one; drift of the machine between its two runs
    /// widens the interval.
    Program(PathBuf),
}

/// The values read from another run's row.
#[derive(Clone, Debug, Deserialize)]
struct OtherRow {
    experiment: String,
    variant: String,
    ns_per_op: f64,
    error_percent: f64,
    epochs: usize,
}

#[derive(Deserialize)]
struct OtherReport {
    experiments: Vec<OtherRow>,
}

impl Other {
    /// A file whose first byte begins a JSON object is a saved run; any other file is a program.
    ///
    /// # Errors
    ///
    /// [`Error::Compare`]: the file does not exist.
    pub fn at(path: &Path) -> Result<Other, Error> {
        let read = |why| Error::Compare(format!("cannot read {}: {why}", path.display()));
        let mut first = [0];
        let mut file = std::fs::File::open(path).map_err(read)?;
        std::io::Read::read(&mut file, &mut first).map_err(read)?;
        let path = path.to_owned();
        Ok(if first[0].is_ascii_whitespace() || first[0] == b'{' { Other::Saved(path) } else { Other::Program(path) })
    }
}

/// Like [`crate::run`], with each row compared with that of `other`.
///
/// # Errors
///
/// Those of [`crate::run`]; [`Error::Compare`]: the file is not a saved run, or the program fails.
pub fn run_beside(options: &Options, other: &Other, progress: impl FnMut(Progress<'_>)) -> Result<Report, Error> {
    let (report, rows) = match other {
        Other::Saved(path) => {
            let text =
                std::fs::read(path).map_err(|why| Error::Compare(format!("cannot read {}: {why}", path.display())))?;
            let rows = parsed(&text, path)?;
            (crate::run(options, progress)?, rows)
        }
        Other::Program(path) => {
            let before = run_program(path, options)?;
            let report = crate::run(options, progress)?;
            (report, pooled(before, &run_program(path, options)?))
        }
    };
    Ok(report.beside(&rows))
}

/// Merges two runs of one program: the mean of the medians, and an error that includes their difference.
fn pooled(before: Vec<OtherRow>, after: &[OtherRow]) -> Vec<OtherRow> {
    let pool = |row: OtherRow| {
        let same = |other: &&OtherRow| other.experiment == row.experiment && other.variant == row.variant;
        let Some(other) = after.iter().find(same) else { return row };
        let epochs = row.epochs.min(other.epochs);
        let apart = (row.ns_per_op / other.ns_per_op).ln().abs() / 2.0;
        let between = apart * 100.0 * (epochs as f64).sqrt() / OF_MEDIAN;
        let error_percent = row.error_percent.max(other.error_percent).hypot(between);
        OtherRow { ns_per_op: (row.ns_per_op * other.ns_per_op).sqrt(), error_percent, epochs, ..row }
    };
    before.into_iter().map(pool).collect()
}

impl Report {
    fn beside(mut self, rows: &[OtherRow]) -> Report {
        let by_name: HashMap<(&str, &str), &OtherRow> =
            rows.iter().map(|row| ((&row.experiment[..], &row.variant[..]), row)).collect();
        for row in &mut self.experiments {
            row.compared = Some(compared(row, by_name.get(&(&row.experiment[..], &row.variant[..])).copied()));
        }
        self
    }

    /// Tables and shipped variants that are slower than in the other run.
    #[must_use]
    pub fn slower_than_other(&self) -> Vec<String> {
        let slower = |row: &&Row| row.shipped && row.compared.is_some_and(|other| other.verdict == Verdict::Slower);
        let rows = self.experiments.iter().filter(slower);
        rows.map(|row| format!("{}: {}", row.experiment, row.variant)).collect()
    }
}

fn parsed(text: &[u8], from: &Path) -> Result<Vec<OtherRow>, Error> {
    let report: Result<OtherReport, _> = serde_json::from_slice(text);
    let why = |why| format!("{} is not what `ffwd lab micro --json` prints: {why}", from.display());
    report.map(|report| report.experiments).map_err(|error| Error::Compare(why(error)))
}

/// The rows of `lab micro --json` of another program.
fn run_program(program: &Path, options: &Options) -> Result<Vec<OtherRow>, Error> {
    let min_time = options.min_time.map(|time| format!("--min-time={}", time.as_secs_f64()));
    let out = Command::new(program)
        .args(["lab", "micro", "--json"])
        .args(min_time)
        .args(&options.filter)
        .output()
        .map_err(|why| Error::Compare(format!("cannot run {}: {why}", program.display())))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let last = said.lines().last().unwrap_or_default();
        return Err(Error::Compare(format!("{} lab micro ends with {}: {last}", program.display(), out.status)));
    }
    parsed(&out.stdout, program)
}

fn compared(row: &Row, other: Option<&OtherRow>) -> Compared {
    let Some(other) = other else { return Compared { verdict: Verdict::New, other_ns_per_op: None, speedup: None } };
    let other_ns_per_op = Some(other.ns_per_op);
    if row.epochs.min(other.epochs) < 3 || row.ns_per_op <= 0.0 || other.ns_per_op <= 0.0 {
        return Compared { verdict: Verdict::Unknown, other_ns_per_op, speedup: None };
    }
    let error = |percent: f64, epochs: usize| OF_MEDIAN * percent / 100.0 / (epochs as f64).sqrt();
    let half = STANDARD_ERRORS * error(row.error_percent, row.epochs).hypot(error(other.error_percent, other.epochs));
    let middle = (other.ns_per_op / row.ns_per_op).ln();
    let verdict = match middle {
        _ if middle - half > LAYOUT => Verdict::Faster,
        _ if middle + half < -LAYOUT => Verdict::Slower,
        _ => Verdict::Same,
    };
    let speedup = Some([middle.exp(), (middle - half).exp(), (middle + half).exp()]);
    Compared { verdict, other_ns_per_op, speedup }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ns_per_op: f64, error_percent: f64, epochs: usize) -> Row {
        Row {
            experiment: "e".into(),
            variant: "v".into(),
            shipped: true,
            unit: "op",
            ns_per_op,
            ops_per_second: 1e9 / ns_per_op,
            ratio: 1.0,
            error_percent,
            epochs,
            agrees: true,
            bytes: None,
            allocations: None,
            counts: None,
            compared: None,
        }
    }

    fn beside(ns_per_op: f64, error_percent: f64, epochs: usize) -> Compared {
        let other = OtherRow { experiment: "e".into(), variant: "v".into(), ns_per_op, error_percent, epochs };
        compared(&row(100.0, 1.0, 11), Some(&other))
    }

    #[test]
    fn verdicts_follow_the_interval() {
        assert_eq!(beside(120.0, 1.0, 11).verdict, Verdict::Faster);
        assert_eq!(beside(85.0, 1.0, 11).verdict, Verdict::Slower);
        assert_eq!(beside(102.0, 1.0, 11).verdict, Verdict::Same, "2 % are within the interval");
        assert_eq!(beside(120.0, 30.0, 11).verdict, Verdict::Same, "noisy epochs prove nothing");
        assert_eq!(beside(120.0, 30.0, 4_000).verdict, Verdict::Faster, "but many of them do");
        assert_eq!(beside(120.0, 0.0, 1).verdict, Verdict::Unknown);
        assert_eq!(beside(100.9, 0.0, 11).verdict, Verdict::Same, "code lies elsewhere in another build");
        let [middle, low, high] = beside(120.0, 1.0, 11).speedup.unwrap();
        assert!((middle - 1.2).abs() < 1e-9 && low < middle && middle < high && low > 1.17, "{low} {middle} {high}");
    }

    #[test]
    fn saved_run_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        let mut report =
            Report { experiments: vec![row(100.0, 1.0, 11)], quick: false, no_counters: None, seconds: 1.0 };
        std::fs::write(&path, serde_json::to_vec(&report).unwrap()).unwrap();
        let saved = parsed(&std::fs::read(&path).unwrap(), &path).unwrap();
        report.experiments[0].ns_per_op = 200.0;
        report.experiments.push(Row { variant: "w".into(), ..row(1.0, 1.0, 11) });
        let report = report.beside(&saved);
        let verdicts: Vec<_> = report.experiments.iter().map(|row| row.compared.unwrap().verdict).collect();
        assert_eq!(verdicts, [Verdict::Slower, Verdict::New]);
        assert_eq!(report.slower_than_other(), ["e: v"]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["experiments"][0]["verdict"], "slower");
        assert!(report.markdown().contains("50.0% slower | **v**"), "{}", report.markdown());

        let options = Options { quick: true, filter: Some("VARINT: reading, one".into()), ..Options::default() };
        let report = run_beside(&options, &Other::at(&path).unwrap(), |_| {}).unwrap();
        assert!(report.experiments.iter().all(|row| row.compared.unwrap().verdict == Verdict::New));
        std::fs::write(&path, "{\"experiments\": 3}").unwrap();
        let why = run_beside(&options, &Other::at(&path).unwrap(), |_| {}).unwrap_err().to_string();
        assert!(why.contains("run.json") && why.contains("lab micro --json"), "{why}");
        let why = Other::at(&dir.path().join("nothing")).unwrap_err().to_string();
        assert!(why.contains("nothing"), "{why}");
        let why = run_program(&path, &options).unwrap_err().to_string();
        assert!(why.contains("cannot run"), "{why}");
    }

    #[test]
    fn what_lies_between_two_runs_is_part_of_the_error() {
        let other = |ns_per_op| OtherRow {
            experiment: "e".into(),
            variant: "v".into(),
            ns_per_op,
            error_percent: 1.0,
            epochs: 11,
        };
        let near = &pooled(vec![other(120.0)], &[other(120.5)])[0];
        assert_eq!(compared(&row(100.0, 1.0, 11), Some(near)).verdict, Verdict::Faster);
        let far = &pooled(vec![other(150.0)], &[other(96.0)])[0];
        assert!((far.ns_per_op - 120.0).abs() < 1e-9, "{far:?}");
        assert_eq!(compared(&row(100.0, 1.0, 11), Some(far)).verdict, Verdict::Same);
    }
}
