//! State shared by the runs of a plan: the plan, the programs, the prepared directories; the order of runs and the
//! names of their directories.
//!
//! Absent on purpose: making runs (`engine.rs`), and preparing them (`prepare.rs`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::RunError;
use super::check::Programs;
use super::plan::{Plan, PlannedCell};
use super::profile::Profiler;
use super::progress::Progress;
use super::snapshot::Prepared;
use super::survey::Surveyed;
use demo::result::{RUN_FILE, RunRecord};

/// Result of a search for the minimum memory, by the name of the cell: the smallest limit that sufficed and the
/// largest that did not.
pub(super) type Least = (String, Result<(u64, u64), String>);

/// Everything that the runs of a plan need.
pub(super) struct Engine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) programs: &'a Programs,
    /// The ffwd that reads the results of the programs.
    pub(super) ffwd: &'a Path,
    pub(super) chains: &'a [Surveyed],
    pub(super) out: &'a Path,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: Progress,
    pub(super) records: Vec<RunRecord>,
    /// Directories prepared for works that need index and coins, by chain and program; or why one is missing.
    pub(super) prepared: BTreeMap<(usize, usize), Result<PathBuf, String>>,
    /// Inputs of loads, by chain, preparing program and height; or why one is missing.
    pub(super) loads: BTreeMap<(usize, usize, u32), Result<Prepared, String>>,
    pub(super) page_cache: &'static str,
    /// Only cells with one of these words in their name are run; if empty, all.
    pub(super) only: &'a [String],
    /// Profiles every run, if set.
    pub(super) profiler: Option<Profiler>,
    /// The memory limit of the current run, overriding the plan's.
    pub(super) memory_mib: Option<u64>,
}

/// One run of the plan.
pub(super) struct Turn<'a> {
    pub(super) number: usize,
    pub(super) repeat: usize,
    pub(super) cell: &'a PlannedCell,
}

/// The runs in order: each repeat has every cell once, starting one further than the last time.
pub(super) fn turns(plan: &Plan) -> Vec<Turn<'_>> {
    let cells = plan.cells.len();
    let one = |repeat: usize| (0..cells).map(move |at| (repeat, (at + repeat) % cells));
    let order = (0..plan.repeats as usize).flat_map(one);
    order
        .enumerate()
        .map(|(at, (repeat, cell))| Turn { number: at + 1, repeat: repeat + 1, cell: &plan.cells[cell] })
        .collect()
}

/// Whether a cell of this name is selected.
pub(super) fn is_wanted(only: &[String], name: &str) -> bool {
    let name = name.to_lowercase();
    only.is_empty() || only.iter().any(|word| name.contains(&word.to_lowercase()))
}

/// The directory of a run, below that of the results.
pub(super) fn directory_of(turn: &Turn<'_>) -> String {
    format!("runs/{:03}-{}-{}", turn.number, slug(&turn.cell.name), turn.repeat)
}

/// `name` as a file name.
pub(super) fn slug(name: &str) -> String {
    let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let mut slug: String = letters.collect();
    while slug.contains("--") {
        slug = slug.replace("--", "-");
    }
    slug.trim_matches('-').to_owned()
}

/// The record of an earlier run, if it belongs to this turn.
pub(super) fn read_record(directory: &Path, turn: &Turn<'_>) -> Option<RunRecord> {
    let record: RunRecord = serde_json::from_slice(&fs::read(directory.join(RUN_FILE)).ok()?).ok()?;
    (record.run == turn.number && record.cell == turn.cell.name && record.repeat == turn.repeat).then_some(record)
}

/// Removes a directory of this program, if it exists.
pub(super) fn wipe(directory: &Path) -> Result<(), RunError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RunError::io(directory, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_interleaved() {
        let text = "repeats = 3\n[[program]]\nlabel = \"a\"\n[[program]]\nlabel = \"b\"\n[[chain]]\nlabel = \"c\"\ndatadir = \"x\"\n[[work]]\nkind = \"reindex\"\n";
        let plan = super::super::plan::parse(text, Path::new("/")).unwrap();
        let order: Vec<_> =
            turns(&plan).iter().map(|turn| format!("{} {} {}", turn.number, turn.cell.name, turn.repeat)).collect();
        assert_eq!(
            order,
            ["1 a reindex 1", "2 b reindex 1", "3 b reindex 2", "4 a reindex 2", "5 a reindex 3", "6 b reindex 3"]
        );
        assert_eq!(directory_of(&turns(&plan)[0]), "runs/001-a-reindex-1");
        assert_eq!(slug("../A b: c+"), "a-b-c");
    }
}
