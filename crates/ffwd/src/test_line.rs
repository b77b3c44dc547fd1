//! For unit tests: a data directory with a bitcoin.conf, and what `ffwd sync` is given on it.

use crate::args::{Cli, Command, Sync};
use clap::Parser;
use std::fs;
use tempfile::TempDir;

/// A data directory with this bitcoin.conf, and `ffwd sync --datadir DIR LINE` as it is read.
///
/// # Panics
///
/// If the line is wrong use.
pub(crate) fn sync(conf: &str, line: &str) -> (TempDir, Sync) {
    let datadir = tempfile::tempdir().unwrap();
    fs::write(datadir.path().join("bitcoin.conf"), conf).unwrap();
    let start = ["ffwd", "sync", "--datadir", datadir.path().to_str().unwrap()].into_iter();
    match Cli::try_parse_from(start.chain(line.split_whitespace())) {
        Ok(Cli { command: Command::Sync(given) }) => (datadir, given),
        _ => panic!("{line}"),
    }
}
