//! Flame graphs of each cell, and of the difference of two cells.
//!
//! Absent on purpose: our own drawing code; the crate inferno draws.

use std::io::{self, Write};
use std::path::PathBuf;

use inferno::{differential, flamegraph};

use super::stacks::Stacks;
use super::{PlotError, PlotOptions, beside};

/// Writes the flame graph of each profiled cell, and of its difference from the cell with which it is compared.
pub(super) fn write(all: &[Stacks], options: &PlotOptions, files: &mut Vec<PathBuf>) -> Result<(), PlotError> {
    for (at, stacks) in all.iter().enumerate() {
        files.push(beside(&options.out, &format!("flame-{}", at + 1), "svg"));
        super::write(&files[files.len() - 1], options, |out| stacks.draw(out))?;
        let before = stacks.against.as_ref().and_then(|to| all.iter().find(|other| other.cell == *to));
        if let Some(before) = before {
            files.push(beside(&options.out, &format!("flame-{}-difference", at + 1), "svg"));
            super::write(&files[files.len() - 1], options, |out| stacks.draw_against(before, out))?;
        }
    }
    Ok(())
}

impl Stacks {
    fn lines(&self) -> String {
        self.folded.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
    }

    /// The flame graph of the cell.
    pub(super) fn draw(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut options = flamegraph::Options::default();
        options.title = self.cell.clone();
        flamegraph::from_reader(&mut options, self.lines().as_bytes(), out).map_err(io::Error::other)
    }

    /// The flame graph of the cell, coloured where its share of samples is higher (red) or lower (blue) than in
    /// `before`.
    pub(super) fn draw_against(&self, before: &Stacks, out: &mut dyn Write) -> io::Result<()> {
        let mut difference = Vec::new();
        let compared = differential::Options { normalize: true, ..differential::Options::default() };
        differential::from_readers(compared, before.lines().as_bytes(), self.lines().as_bytes(), &mut difference)?;
        let mut options = flamegraph::Options::default();
        options.title = format!("{}, against {}", self.cell, before.cell);
        flamegraph::from_reader(&mut options, &difference[..], out).map_err(io::Error::other)
    }
}
