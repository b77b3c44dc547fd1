//! Context of reading the files of `--from`, for a sync or a repair.

use crate::datadir::DataDir;
use crate::options::Options;
use crate::reporting::Reporter;
use store::Host;

/// Context of reading files.
#[derive(Clone, Copy)]
pub(in crate::session) struct Reading<'r> {
    pub(in crate::session) options: &'r Options,
    pub(in crate::session) host: &'r Host,
    pub(in crate::session) reporter: &'r Reporter<'r>,
}

impl<'r> Reading<'r> {
    /// The context of an open data directory.
    pub(in crate::session) fn of(datadir: &'r DataDir<'_>) -> Reading<'r> {
        Reading { options: datadir.options, host: &datadir.host, reporter: &datadir.reporter }
    }
}
