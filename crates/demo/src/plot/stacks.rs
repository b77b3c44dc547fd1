//! Reads the folded stacks of profiled runs, and returns the samples of each cell.
//!
//! Absent on purpose: sampling (crate `lab`), and flame graphs (`flames`).

use std::collections::BTreeMap;
use std::path::Path;

use crate::result::{Report, STACKS_FILE};

/// Maximum bytes that are read of one run's stacks.
const STACKS_BYTES_MAX: u64 = 256 << 20;

/// The samples of all runs of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stacks {
    /// The cell.
    pub(super) cell: String,
    /// The other cell with which it is compared, for flame graphs.
    #[cfg_attr(not(feature = "flames"), allow(dead_code, reason = "flame graphs alone show it"))]
    pub(super) against: Option<String>,
    /// Samples by stack: `thread;main;f`.
    pub(super) folded: BTreeMap<String, u64>,
}

/// Reads the stacks of every run in `directory` that has any, cell by cell.
pub(super) fn of(report: &Report, directory: &Path) -> Vec<Stacks> {
    let mut all: Vec<Stacks> = Vec::new();
    for record in report.runs.iter().filter(|run| run.stacks.as_deref() == Some(STACKS_FILE)) {
        let path = directory.join(&record.directory).join(STACKS_FILE);
        let is_small = std::fs::metadata(&path).is_ok_and(|meta| meta.len() <= STACKS_BYTES_MAX);
        let Some(text) = is_small.then(|| std::fs::read_to_string(&path).ok()).flatten() else { continue };
        let at = all.iter().position(|stacks| stacks.cell == record.cell).unwrap_or_else(|| {
            let cell = report.cells.iter().find(|cell| cell.cell == record.cell);
            let against = cell.and_then(|cell| cell.ratio_to.clone()).filter(|to| *to != record.cell);
            all.push(Stacks { cell: record.cell.clone(), against, folded: BTreeMap::new() });
            all.len() - 1
        });
        for line in text.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else { continue };
            *all[at].folded.entry(stack.to_owned()).or_default() += count.parse().unwrap_or(0);
        }
    }
    all
}

impl Stacks {
    /// Share of all samples in each function itself, without called functions; the greatest first.
    pub(super) fn shares(&self) -> Vec<(&str, f64)> {
        let mut own = BTreeMap::<&str, u64>::new();
        for (stack, count) in &self.folded {
            *own.entry(stack.rsplit(';').next().unwrap_or(stack)).or_default() += count;
        }
        let all = self.folded.values().sum::<u64>().max(1) as f64;
        let mut shares: Vec<_> = own.into_iter().map(|(function, count)| (function, count as f64 / all)).collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Cell, RunRecord};

    #[test]
    fn stacks_of_a_cell_are_summed_and_drawn() {
        let scratch = tempfile::tempdir().unwrap();
        let mut report = Report::default();
        for (at, cell, text) in [
            (1, "a", "w;main;hash 30\nw;main;sort 10\nbroken\n"),
            (2, "a", "w;main;hash 60\n"),
            (3, "b", "w;main;hash 10\nw;main;sort 90\n"),
        ] {
            let directory = format!("run{at}");
            std::fs::create_dir(scratch.path().join(&directory)).unwrap();
            std::fs::write(scratch.path().join(&directory).join(STACKS_FILE), text).unwrap();
            let stacks = Some(STACKS_FILE.to_owned());
            report.runs.push(RunRecord { cell: cell.to_owned(), directory, stacks, ..RunRecord::default() });
        }
        let outside = Some("../passwords".to_owned());
        report.runs.push(RunRecord {
            cell: "c".to_owned(),
            directory: "run1".to_owned(),
            stacks: outside,
            ..RunRecord::default()
        });
        report.cells = ["a", "b"]
            .map(|cell| Cell { cell: cell.to_owned(), ratio_to: Some("a".to_owned()), ..Cell::default() })
            .into();
        let [a, b] = &of(&report, scratch.path())[..] else { panic!("two cells") };
        assert_eq!((a.against.as_deref(), b.against.as_deref()), (None, Some("a")));
        assert_eq!(a.shares(), [("hash", 0.9), ("sort", 0.1)]);
        #[cfg(feature = "flames")]
        {
            let mut svg = Vec::new();
            a.draw(&mut svg).unwrap();
            b.draw_against(a, &mut svg).unwrap();
            let svg = String::from_utf8(svg).unwrap();
            assert!(svg.matches("<?xml").count() == 2, "two files");
            for want in ["hash (90 samples", "sort (90 samples, 90.00%; +80.00%)", "b, against a"] {
                assert!(svg.contains(want), "{want}");
            }
        }
    }
}
