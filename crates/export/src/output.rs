//! The paths of the files, and their atomic creation.
//!
//! ```text
//! OUT/TABLE/from_height=0800000/0800000-0800999.parquet     blocks 800000 to 800999, of the thousand that begins there
//! ```
//!
//! A file is written under a hidden name in the same directory, synced, and renamed: a task that runs twice, or dies,
//! only leaves complete files. With `overwrite` an exported range is exported again; a range that overlaps another one
//! is rejected.

use crate::aside::{Aside, failed};
use crate::encode::{self, Format, Group};
use crate::tables::Table;
use node::Fault;
use parquet::file::writer::SerializedFileWriter;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Blocks of a directory.
pub(crate) const PARTITION_BLOCKS: u32 = 1000;
const ENDING: &str = ".parquet";

/// The directory of a table's blocks from `height` on.
fn partition(out: &Path, table: Table, height: u32) -> PathBuf {
    let first = height - height % PARTITION_BLOCKS;
    out.join(table.name()).join(format!("from_height={first:07}"))
}

fn name(from: u32, to: u32) -> String {
    format!("{from:07}-{to:07}{ENDING}")
}

/// The range in the name of a file.
fn range(name: &str) -> Option<(u32, u32)> {
    let (from, to) = name.strip_suffix(ENDING)?.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// The error for a file that blocks the export of a range.
fn in_the_way(path: &Path, first: u32, last: u32, from: u32, to: u32) -> Fault {
    let path = path.display();
    if (first, last) == (from, to) {
        let why = format!("{path}: blocks {from} to {to} are exported already");
        return Fault::refused(why, "Give --force to overwrite the file, or export to another directory");
    }
    let why = format!("{path}: it holds blocks {first} to {last} already, and blocks {from} to {to} overlap them");
    Fault::refused(why, "Remove it, or export to another directory")
}

/// The ranges of the files of a range of blocks: one for each thousand that it touches.
pub(crate) fn partitions(from: u32, to: u32) -> Vec<(u32, u32)> {
    let mut ranges = Vec::new();
    let mut next = Some(from);
    while let Some(first) = next.filter(|first| *first <= to) {
        let last = (first - first % PARTITION_BLOCKS).saturating_add(PARTITION_BLOCKS - 1).min(to);
        ranges.push((first, last));
        next = last.checked_add(1);
    }
    ranges
}

/// Rejects existing files of these tables that contain blocks of a range: files of another range, and without
/// `overwrite` also files of the same range.
///
/// # Errors
///
/// Such a file exists, or an I/O error.
pub(crate) fn check_free(out: &Path, tables: &[Table], ranges: &[(u32, u32)], overwrite: bool) -> Result<(), Fault> {
    for table in tables {
        for &(from, to) in ranges {
            let dir = partition(out, *table, from);
            let entries = match fs::read_dir(&dir) {
                Ok(entries) => entries,
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => continue,
                Err(why) => return Err(failed(&dir, why)),
            };
            for entry in entries {
                let entry = entry.map_err(|why| failed(&dir, why))?;
                let Some(known) = entry.file_name().to_str().and_then(range) else { continue };
                let is_allowed = known == (from, to) && overwrite;
                if known.0 <= to && known.1 >= from && !is_allowed {
                    return Err(in_the_way(&entry.path(), known.0, known.1, from, to));
                }
            }
        }
    }
    Ok(())
}

/// A file that is being written.
pub(crate) struct Partial {
    writer: SerializedFileWriter<File>,
    aside: Aside,
}

impl Partial {
    pub(crate) fn create(out: &Path, table: Table, format: &Format, from: u32, to: u32) -> Result<Partial, Fault> {
        let dir = partition(out, table, from);
        fs::create_dir_all(&dir).map_err(|why| failed(&dir, why))?;
        let path = dir.join(name(from, to));
        let aside = Aside::new(dir.join(format!(".{}.{}", name(from, to), std::process::id())), path)?;
        let writer = format.writer(aside.create()?).map_err(|why| failed(aside.place(), why))?;
        Ok(Partial { writer, aside })
    }

    /// Appends a group of rows.
    pub(crate) fn append(&mut self, group: Group) -> Result<(), Fault> {
        encode::append(&mut self.writer, group, self.aside.place())
    }

    /// Completes the file and renames it; returns its length.
    pub(crate) fn finish(mut self) -> Result<u64, Fault> {
        self.writer.finish().map_err(|why| failed(self.aside.place(), why))?;
        self.aside.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_the_thousands_of_a_range() {
        for (from, to, want) in [
            (0, 0, vec![(0, 0)]),
            (0, 999, vec![(0, 999)]),
            (5, 1000, vec![(5, 999), (1000, 1000)]),
            (1999, 3001, vec![(1999, 1999), (2000, 2999), (3000, 3001)]),
            (u32::MAX - 1, u32::MAX, vec![(u32::MAX - 1, u32::MAX)]),
        ] {
            assert_eq!(partitions(from, to), want);
        }
    }

    #[test]
    fn files_that_overlap_are_refused_and_the_same_range_is_not() {
        let out = tempfile::tempdir().unwrap();
        let dir = partition(out.path(), Table::Inputs, 1500);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(name(1500, 1600)), "").unwrap();
        fs::write(dir.join(".1400-1499.parquet.7"), "").unwrap();
        for (table, range, is_free) in [
            (Table::Inputs, (1500, 1600), true),
            (Table::Inputs, (1601, 1999), true),
            (Table::Inputs, (1000, 1499), true),
            (Table::Inputs, (1500, 1601), false),
            (Table::Inputs, (1550, 1560), false),
            (Table::Inputs, (1000, 1500), false),
            (Table::Outputs, (1000, 1500), true),
        ] {
            assert_eq!(check_free(out.path(), &[table], &[range], true).is_ok(), is_free, "{table:?} {range:?}");
            let is_same = table == Table::Inputs && range == (1500, 1600);
            let without = check_free(out.path(), &[table], &[range], false);
            assert_eq!(without.is_ok(), is_free && !is_same, "{table:?} {range:?}: without --force");
        }
    }
}
