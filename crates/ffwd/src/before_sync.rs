//! Steps before a sync: reports the disk space that the chain needs, then runs `-reindex`, `-reindex-chainstate`
//! and `-loadblock` if bitcoind's options request them.
//!
//! Source: Bitcoin Core b88bffe, init.cpp, `AppInitMain`; node/blockstorage.cpp, `ImportBlocks`.
//! Absent on purpose: the implementation, which `ffwd reindex` and `ffwd import` share.

use crate::Failure;
use crate::args::Before;
use crate::settings::Files;
use node::Fault;
use node::jobs::{self, Forecast};
use node::options::Options;
use node::reporting::{Event, Events, JobReport};
use std::path::PathBuf;

/// Jobs that run before a sync. Default: none.
#[derive(Debug, Default)]
pub(crate) struct BeforeSync {
    reindex: bool,
    chainstate_only: bool,
    import: Vec<PathBuf>,
}

impl Files {
    /// The jobs that the command line or the files request.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    pub(crate) fn before_sync(&mut self, given: &Before) -> Result<BeforeSync, Failure> {
        let reindex = self.flag(given, "reindex")?;
        let coins = self.flag(given, "reindex-chainstate")?;
        let of_files = self.paths("loadblock").into_iter().filter(|path| path.exists());
        Ok(BeforeSync {
            reindex: reindex == Some(true),
            chainstate_only: coins == Some(true),
            // `Files::missing_blocks` reports files that do not exist.
            import: given.many("loadblock").into_iter().chain(of_files).collect(),
        })
    }
}

impl Files {
    /// Block files named in bitcoin.conf or settings.json that do not exist. bitcoind continues without them.
    pub(crate) fn missing_blocks(&self) -> Vec<String> {
        let all = self.conf.list("loadblock", self.chain);
        let missing = all.iter().filter(|setting| !setting.path().exists());
        missing
            .map(|setting| format!("Could not open blocks file {} ({})", setting.path().display(), setting.place))
            .collect()
    }
}

impl BeforeSync {
    /// Runs the jobs. Returns the report of a job that was stopped; the sync is then skipped.
    ///
    /// # Errors
    ///
    /// The errors of the jobs.
    pub(crate) fn run(&self, options: &Options, events: Events<'_>) -> Result<Option<JobReport>, Fault> {
        tell_space(options, events);
        if self.reindex || self.chainstate_only {
            let report = match self.reindex {
                true => jobs::reindex_before_sync(options, events)?,
                false => jobs::reindex(options, true, events)?,
            };
            if report.stopped {
                return Ok(Some(report));
            }
        }
        if !self.import.is_empty() {
            let report = jobs::import(options, &self.import, events)?;
            if report.stopped {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }
}

/// Reports the disk space that the chain needs, and whether it is available.
fn tell_space(options: &Options, events: Events<'_>) {
    if let Some(forecast) = Forecast::of(options) {
        events(Event::Note(format!("Disk space: {forecast}")));
        forecast.warning().into_iter().for_each(|why| events(Event::Warning(why.to_string())));
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Role;
    use crate::test_line;
    use std::path::PathBuf;

    #[test]
    fn jobs_before_a_sync_are_of_the_command_line_and_the_files() {
        for (row, conf, line, want) in [
            ("none", "", "", (false, false, vec![])),
            ("of the command line", "", "--reindex 1 --loadblock a", (true, false, vec!["a"])),
            ("of the file", "reindex-chainstate=1\nloadblock=/", "--loadblock a", (false, true, vec!["a", "/"])),
            ("not there", "loadblock=/nowhere/x", "", (false, false, vec![])),
            ("off above the file", "reindex=1", "--reindex 0", (false, false, vec![])),
        ] {
            let given = test_line::sync(conf, line);
            let mut settings = given.load(Role::Sync).unwrap();
            let given = given.sync;
            let got = settings.files.before_sync(&given.before).unwrap();
            assert_eq!(settings.files.missing_blocks().len(), usize::from(row == "not there"));
            let files: Vec<PathBuf> = want.2.into_iter().map(PathBuf::from).collect();
            assert_eq!((got.reindex, got.chainstate_only, got.import), (want.0, want.1, files), "{row}");
        }
    }
}
