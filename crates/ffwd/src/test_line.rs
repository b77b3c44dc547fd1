//! For unit tests: a data directory with a bitcoin.conf, and a command line of `ffwd sync` for it.

use crate::Failure;
use crate::args::{Cli, Command, Sync};
use crate::conf::OnLine;
use crate::settings::{Role, Settings, load};
use crate::spelling::rewrite;
use clap::Parser;
use node::jobs::SyncOptions;
use std::ffi::OsString;
use std::fs;
use std::sync::Arc;
use tempfile::TempDir;

/// A data directory with this bitcoin.conf, and the parsed `ffwd sync --datadir DIR LINE`.
pub(crate) struct Given {
    pub(crate) sync: Sync,
    pub(crate) line: OnLine,
    datadir: TempDir,
}

impl Given {
    /// The settings.
    pub(crate) fn load(&self, role: Role) -> Result<Settings, Failure> {
        assert!(self.datadir.path().is_dir());
        load(&self.sync.with_peers.common, Some(&self.sync.with_peers.writing), role, &self.line, Arc::default())
    }
}

/// The options of a sync with this bitcoin.conf and this command line.
///
/// # Errors
///
/// A setting is refused.
///
/// # Panics
///
/// Those of [`sync`].
pub(crate) fn sync_options(conf: &str, line: &str) -> Result<SyncOptions, Failure> {
    let given = sync(conf, line);
    given.load(Role::Sync)?.sync(&given.sync.with_peers, given.sync.exit_at_tip)
}

/// Creates both.
///
/// # Panics
///
/// If the command line is invalid.
pub(crate) fn sync(conf: &str, line: &str) -> Given {
    let datadir = tempfile::tempdir().unwrap();
    fs::write(datadir.path().join("bitcoin.conf"), conf).unwrap();
    let start = ["ffwd", "sync", "--datadir", datadir.path().to_str().unwrap()].into_iter();
    let line = rewrite(start.chain(line.split_whitespace()).map(OsString::from)).unwrap();
    match Cli::try_parse_from(line.words) {
        Ok(Cli { command: Command::Sync(sync) }) => Given { sync: *sync, line: line.on_line, datadir },
        _ => panic!("{conf}"),
    }
}
