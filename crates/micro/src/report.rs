//! The results: rows, as Markdown, CSV, JSON.

use crate::counters::Counts;
use primitives::human;
use serde::Serialize;
use std::fmt::{self, Write as _};

/// One variant of one table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The table.
    pub experiment: String,
    /// The variant. The first variant of a table is the plain one.
    pub variant: String,
    /// Whether this is the variant that ffwd ships.
    pub shipped: bool,
    /// The unit of work.
    pub unit: &'static str,
    /// Nanoseconds for each operation: the median epoch.
    pub ns_per_op: f64,
    /// Operations a second.
    pub ops_per_second: f64,
    /// Speed relative to the plain variant.
    pub ratio: f64,
    /// Median absolute deviation of the epochs from the median, in percent of it; 0 for a single epoch.
    pub error_percent: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// Whether its result equals the plain one's.
    pub agrees: bool,
    /// Bytes for each operation, in experiments about memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<f64>,
    /// Allocations for each operation, in experiments about memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<f64>,
    /// Hardware counters for each operation, if available.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Comparison with the same row of another run, if one is given.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
}

/// A row compared with that of the other run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The verdict of the interval.
    pub verdict: Verdict,
    /// Nanoseconds for each operation there; absent if that run lacks the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_ns_per_op: Option<f64>,
    /// Speed-up of this run: centre and ends of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<[f64; 3]>,
}

/// Verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// This run is faster.
    Faster,
    /// This run is slower.
    Slower,
    /// The interval contains equality.
    Same,
    /// The other run has no such row.
    New,
    /// One of the rows has fewer than three epochs, and so no interval.
    Unknown,
}

/// All rows. Serializes as the object that `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The rows, table by table.
    pub experiments: Vec<Row>,
    /// Whether inputs were small and epochs few: the times are then meaningless.
    pub quick: bool,
    /// Why there are no counters; absent if there are counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_counters: Option<String>,
    /// Total time in seconds.
    pub seconds: f64,
}

impl Report {
    /// Variants that disagree with their plain one: table and variant. A run with any of them has failed.
    #[must_use]
    pub fn disagreements(&self) -> Vec<String> {
        let bad = self.experiments.iter().filter(|row| !row.agrees);
        bad.map(|row| format!("{}: {}", row.experiment, row.variant)).collect()
    }

    /// Rows that are faster than the shipped variant of their table, by more than `percent` and both errors.
    #[must_use]
    pub fn faster_than_shipped(&self, percent: f64) -> Vec<(&Row, &Row)> {
        let mut found = Vec::new();
        for shipped in self.experiments.iter().filter(|row| row.shipped) {
            for row in self.experiments.iter().filter(|row| row.experiment == shipped.experiment) {
                let margin = 1.0 + (percent + row.error_percent + shipped.error_percent) / 100.0;
                if row.ns_per_op * margin < shipped.ns_per_op {
                    found.push((shipped, row));
                }
            }
        }
        found
    }

    /// The rows as tables in Markdown, with nanobench's columns. Shipped variants are in bold.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for rows in self.experiments.chunk_by(|a, b| a.experiment == b.experiment) {
            let has_memory = rows.iter().any(|row| row.bytes.is_some());
            let is_compared = rows.iter().any(|row| row.compared.is_some());
            let is_counted = rows.iter().any(|row| row.counts.is_some());
            if !out.is_empty() {
                out.push('\n');
            }
            let unit = rows[0].unit;
            let memory = if has_memory { "         bytes |   allocs |" } else { "" };
            let line = if has_memory { "--------------:|---------:|" } else { "" };
            let beside = if is_compared { "  relative to other |" } else { "" };
            let counted =
                if is_counted { "       ins/op |       cyc/op |    IPC |       bra/op |  miss% |" } else { "" };
            let counted_line =
                if is_counted { "-------------:|-------------:|-------:|-------------:|-------:|" } else { "" };
            let beside_line = if is_compared { "----------------------:|" } else { "" };
            let _ = writeln!(
                out,
                "| relative | {:>20} | {:>20} |    err% |{counted}{memory}{beside} {}",
                format!("ns/{unit}"),
                format!("{unit}/s"),
                rows[0].experiment
            );
            let _ = writeln!(
                out,
                "|---------:|---------------------:|---------------------:|--------:|{counted_line}{line}{beside_line}:---"
            );
            rows.iter().for_each(|row| row.put(&mut out, has_memory, is_counted));
        }
        out
    }

    /// The rows as CSV, with a line of names.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = "experiment,variant,shipped,unit,ns_per_op,ops_per_second,ratio,error_percent,epochs,agrees,bytes,allocations\n"
            .to_owned();
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
        for row in &self.experiments {
            let _ = writeln!(
                out,
                "\"{}\",\"{}\",{},{},{:.4},{:.1},{:.4},{:.2},{},{},{},{}",
                row.experiment,
                row.variant,
                row.shipped,
                row.unit,
                row.ns_per_op,
                row.ops_per_second,
                row.ratio,
                row.error_percent,
                row.epochs,
                row.agrees,
                number(row.bytes),
                number(row.allocations)
            );
        }
        out
    }
}

/// A variant that is faster by this factor did its work earlier, as part of other work. A ratio would be meaningless.
const NO_WORK_RATIO: f64 = 1000.0;

impl Row {
    /// Speed relative to the plain variant, in words.
    fn relative(&self) -> String {
        if self.ratio > NO_WORK_RATIO { "no work".to_owned() } else { format!("{:.1}%", self.ratio * 100.0) }
    }

    fn put(&self, out: &mut String, has_memory: bool, is_counted: bool) {
        let variant = if self.shipped { format!("**{}**", self.variant) } else { self.variant.clone() };
        let disagrees = if self.agrees { "" } else { " DOES NOT AGREE" };
        let _ = write!(
            out,
            "| {:>8} | {:>20} | {:>20} | {:>7} |",
            self.relative(),
            grouped(self.ns_per_op),
            grouped(self.ops_per_second),
            // A single epoch has no error.
            if self.epochs < 2 { "-".to_owned() } else { format!("{:.1}%", self.error_percent) }
        );
        if is_counted {
            let columns = self.counts.map(|counts| {
                let share = |part: f64, whole: f64| part / whole.max(1e-9);
                let per_cycle = share(counts.instructions, counts.cycles);
                let missed = share(counts.branch_misses, counts.branches) * 100.0;
                let [instructions, cycles, branches] =
                    [counts.instructions, counts.cycles, counts.branches].map(grouped);
                format!(" {instructions:>12} | {cycles:>12} | {per_cycle:>6.2} | {branches:>12} | {missed:>5.1}% |")
            });
            // The variant waits for a drive or other threads.
            out.push_str(&columns.unwrap_or_else(|| format!(" {0:>12} | {0:>12} | {0:>6} | {0:>12} | {0:>6} |", "-")));
        }
        if has_memory {
            let bytes = self.bytes.map_or_else(String::new, grouped_short);
            let allocations = self.allocations.map_or_else(String::new, |count| format!("{count:.2}"));
            let _ = write!(out, " {bytes:>13} | {allocations:>8} |");
        }
        if let Some(compared) = &self.compared {
            let _ = write!(out, " {:>21} |", compared.to_string());
        }
        let _ = writeln!(out, " {variant}{disagrees}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::New => "new",
            Verdict::Unknown => "too few epochs",
        })
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.speedup {
            Some([speedup, ..]) => write!(f, "{:.1}% {}", speedup * 100.0, self.verdict),
            None => write!(f, "{}", self.verdict),
        }
    }
}

/// Two decimals, four below one; with thousands separators.
fn grouped(value: f64) -> String {
    let text = if value < 1.0 { format!("{value:.4}") } else { format!("{value:.2}") };
    let (whole, rest) = text.split_once('.').unwrap_or((&text, "00"));
    format!("{}.{rest}", human::grouped(whole))
}

/// One decimal below 1,000, otherwise none.
fn grouped_short(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { human::grouped(&format!("{value:.0}")) }
}
