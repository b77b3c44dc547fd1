//! What was measured: rows, as Markdown, CSV, JSON.

use crate::counters::Counts;
use primitives::human;
use serde::Serialize;
use std::fmt::{self, Write as _};

/// One way of one table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The table.
    pub experiment: String,
    /// The way. The first of a table is the plain one.
    pub variant: String,
    /// Whether this is what ffwd does.
    pub shipped: bool,
    /// What an operation is.
    pub unit: &'static str,
    /// Nanoseconds an operation: the median epoch.
    pub ns_per_op: f64,
    /// Operations a second.
    pub ops_per_second: f64,
    /// How many times as fast as the plain way.
    pub ratio: f64,
    /// Median absolute deviation of the epochs from the median, in percent of it; 0 where there was one epoch.
    pub error_percent: f64,
    /// How many epochs there were.
    pub epochs: usize,
    /// Whether its result is the plain one's.
    pub agrees: bool,
    /// Bytes held an operation, in experiments about memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<f64>,
    /// Allocations an operation, in experiments about memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<f64>,
    /// What the processor counted for an operation, where it counts.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Beside the same row of another run, where one was given.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
}

/// A row beside that of the other run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What the interval says.
    pub verdict: Verdict,
    /// Nanoseconds an operation there; absent where it has no such row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_ns_per_op: Option<f64>,
    /// How many times as fast this run is: middle and ends of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<[f64; 3]>,
}

/// What may be said of a row beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// This run is faster.
    Faster,
    /// This run is slower.
    Slower,
    /// The interval has no difference in it.
    Same,
    /// The other run has no such row.
    New,
    /// One of both has fewer than three epochs, which have no interval.
    Unknown,
}

/// All rows. Serializes as the object that `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The rows, table by table.
    pub experiments: Vec<Row>,
    /// Whether inputs were small and epochs few: no figure is worth anything then.
    pub quick: bool,
    /// Why the processor counted nothing; absent where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_counters: Option<String>,
    /// How long all of it took.
    pub seconds: f64,
}

impl Report {
    /// What does not agree with its plain way: table and way. A run with any has failed.
    #[must_use]
    pub fn disagreements(&self) -> Vec<String> {
        let bad = self.experiments.iter().filter(|row| !row.agrees);
        bad.map(|row| format!("{}: {}", row.experiment, row.variant)).collect()
    }

    /// Rows that are faster than what is shipped in their table, by more than `percent` and more than both errors.
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

    /// The rows as tables in Markdown, columns as nanobench has them. What ffwd ships is in bold.
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

/// A way that is so many times as fast does not do the work: it was done before, with other work. A ratio would be of nothing.
const NO_WORK_RATIO: f64 = 1000.0;

impl Row {
    /// How fast it is beside the plain way, in words.
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
            // One epoch says nothing about its error.
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
            // Of a way that waits for a drive or other threads.
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

/// With two digits behind the point, four below one; thousands apart.
fn grouped(value: f64) -> String {
    let text = if value < 1.0 { format!("{value:.4}") } else { format!("{value:.2}") };
    let (whole, rest) = text.split_once('.').unwrap_or((&text, "00"));
    format!("{}.{rest}", human::grouped(whole))
}

/// With one digit behind the point below 1,000, none above.
fn grouped_short(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { human::grouped(&format!("{value:.0}")) }
}
