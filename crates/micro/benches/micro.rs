//! The small experiments of `ffwd lab micro`: `cargo bench -p ffwd-micro`, or with a word to choose, `cargo bench -p ffwd-micro -- sha256`.
//! Small, and only checked, without `--bench`. With `--csv` the rows come as CSV.

use micro::{Options, default_data, run};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Cargo runs benchmarks in the directory of their crate.
    let beside = PathBuf::from("../../../shared/data");
    let csv = words.iter().any(|word| word == "--csv");
    let options = Options {
        quick: !words.iter().any(|word| word == "--bench"),
        filter: words.into_iter().find(|word| !word.starts_with('-')),
        data: default_data().or_else(|| beside.is_dir().then_some(beside)),
        ..Options::default()
    };
    let report = match run(&options, |progress| {
        eprintln!("{} of {}: {}", progress.done + 1, progress.total, progress.experiment);
    }) {
        Ok(report) => report,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    if !options.quick {
        print!("{}", if csv { report.csv() } else { report.markdown() });
    }
    let bad = report.disagreements();
    bad.iter().for_each(|row| eprintln!("error: does not agree with the plain variant: {row}"));
    if bad.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
