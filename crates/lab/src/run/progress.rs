//! Progress of a plan on standard error: the current run, its height, and the time left for the plan.
//!
//! The time left counts each remaining run by the mean of its cell, or of its work if the cell has not run yet. If
//! neither is known, the line states this.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use super::plan::{Plan, PlannedCell};
use demo::result::RunRecord;

/// Update interval of the line on a terminal.
const EVERY: Duration = Duration::from_millis(500);

pub(super) struct Progress {
    quiet: bool,
    terminal: bool,
    start: Instant,
    last: Instant,
    /// Runs since the start, and their seconds; the rest of the elapsed time is copying and hashing.
    made: u32,
    made_seconds: f64,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        Self { quiet, terminal: std::io::stderr().is_terminal(), start: now, last: now, made: 0, made_seconds: 0.0 }
    }

    /// Prints a permanent line.
    pub(super) fn line(&self, text: &str) {
        if !self.quiet {
            let clear = if self.terminal { "\r\x1b[K" } else { "" };
            let _ = writeln!(std::io::stderr(), "{clear}{text}"); // A closed standard error is no reason to stop.
        }
    }

    /// Updates the temporary line, on a terminal only.
    pub(super) fn running(&mut self, text: &str, at_seconds: f64, height: Option<u32>, target: u32, left: Option<f64>) {
        if self.quiet || !self.terminal || self.last.elapsed() < EVERY {
            return;
        }
        self.last = Instant::now();
        let height = height.map_or(String::new(), |height| format!(" height {height} of {target},"));
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}:{height} {}; {}", duration(at_seconds), to_go(left));
    }

    /// Counts a run that was made.
    pub(super) fn made(&mut self, seconds: f64) {
        self.made += 1;
        self.made_seconds += seconds;
    }

    /// Seconds for the runs of `left`, estimated from `done`.
    pub(super) fn left(&self, plan: &Plan, done: &[RunRecord], left: &[&PlannedCell]) -> Option<f64> {
        let beside = match self.made {
            0 => 0.0,
            made => (self.start.elapsed().as_secs_f64() - self.made_seconds).max(0.0) / f64::from(made),
        };
        left.iter().map(|cell| Some(expected(plan, done, cell)? + beside)).sum()
    }
}

/// Seconds for a run of `cell`: the mean of its cell, otherwise of its work on the same chain by the same program,
/// otherwise of any run.
pub(super) fn expected(plan: &Plan, done: &[RunRecord], cell: &PlannedCell) -> Option<f64> {
    let planned = |run: &RunRecord| plan.cells.iter().find(|cell| cell.name == run.cell);
    let alike: [&dyn Fn(&PlannedCell) -> bool; 3] = [
        &|other| other.name == cell.name,
        &|other| other.work == cell.work && other.chain == cell.chain && other.program == cell.program,
        &|other| other.work == cell.work && other.chain == cell.chain,
    ];
    alike.iter().find_map(|alike| {
        let seconds: Vec<_> =
            done.iter().filter(|run| planned(run).is_some_and(alike)).map(|run| run.seconds).collect();
        (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64)
    })
}

/// The time left in words.
pub(super) fn to_go(seconds: Option<f64>) -> String {
    seconds.map_or("ETA: measuring".to_owned(), |seconds| format!("to go {}", duration(seconds)))
}

pub(super) fn duration(seconds: f64) -> String {
    primitives::human::duration(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_finished_runs() {
        let text = "[[program]]\nlabel = \"a\"\n[[program]]\nlabel = \"b\"\n[[chain]]\nlabel = \"c\"\ndatadir = \"x\"\n[[work]]\nkind = \"reindex\"\n[[work]]\nkind = \"rebuild\"\n";
        let plan = super::super::plan::parse(text, std::path::Path::new("/")).unwrap();
        let run = |cell: &str, seconds| RunRecord { cell: cell.to_owned(), seconds, ..RunRecord::default() };
        let done = [run("a reindex", 2.0), run("a reindex", 4.0), run("b reindex", 10.0)];
        for (cell, want) in [("a reindex", Some(3.0)), ("b reindex", Some(10.0)), ("a rebuild", None)] {
            let planned = plan.cells.iter().find(|planned| planned.name == cell).unwrap();
            assert_eq!(expected(&plan, &done, planned), want, "{cell}");
        }
        let left: Vec<_> = plan.cells.iter().collect();
        let progress = Progress::new(true);
        assert_eq!(progress.left(&plan, &done, &left[..2]), Some(13.0));
        assert_eq!(progress.left(&plan, &done, &left), None, "a work that was never done");
        assert_eq!((to_go(None).as_str(), to_go(Some(125.0)).as_str()), ("ETA: measuring", "to go 2 min 05 s"));
    }
}
