//! What the files of `--from` are read with, whatever they are read for.

use crate::datadir::DataDir;
use crate::options::Options;
use crate::reporting::Reporter;
use store::Host;

/// What files are read with.
#[derive(Clone, Copy)]
pub(in crate::session) struct Reading<'r> {
    pub(in crate::session) options: &'r Options,
    pub(in crate::session) host: &'r Host,
    pub(in crate::session) reporter: &'r Reporter<'r>,
}

impl<'r> Reading<'r> {
    /// As a data directory that is open does.
    pub(in crate::session) fn of(datadir: &'r DataDir<'_>) -> Reading<'r> {
        Reading { options: datadir.options, host: &datadir.host, reporter: &datadir.reporter }
    }
}
