//! Progress of `lab chain` on standard error: a bar on a terminal, otherwise a line from time to time.

use crate::progress::{LINE_EVERY, bar, say};
use indicatif::ProgressBar;
use primitives::human;
use std::io::IsTerminal;
use std::time::Instant;

/// A progress bar that counts blocks. Without a terminal it prints a line every ten seconds.
pub(crate) struct BlockBar {
    bar: Option<ProgressBar>,
    line_at: Instant,
}

impl BlockBar {
    pub(crate) fn new() -> BlockBar {
        BlockBar { bar: std::io::stderr().is_terminal().then(bar), line_at: Instant::now() }
    }

    /// Shows the progress of `lab chain`.
    pub(crate) fn progress(&mut self, progress: &demo::chain::Progress) {
        let text = || {
            let height = human::count(progress.blocks.into());
            let end = human::count(progress.blocks_total.into());
            let left = progress
                .seconds_left
                .map(|seconds| format!(", {} to go", human::duration(seconds)))
                .unwrap_or_default();
            format!("block {height} of {end}, {}{left}", human::bytes(progress.bytes))
        };
        match &self.bar {
            Some(bar) => {
                // The estimate is based on work, not on blocks: the last blocks of a chain are empty.
                let left = progress.seconds_left.unwrap_or(0.0);
                let share =
                    if progress.seconds_left.is_some() { progress.seconds / (progress.seconds + left) } else { 0.0 };
                bar.set_length(1_000);
                bar.set_position((share * 1_000.0) as u64);
                bar.set_message(text());
            }
            None if self.line_at.elapsed() >= LINE_EVERY => {
                self.line_at = Instant::now();
                say(&text());
            }
            None => {}
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
