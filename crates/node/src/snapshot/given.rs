//! A snapshot from the user: a file, or a stream.

use super::file::SnapshotFile;
use super::stream::{SharedStream, StreamedSnapshot};
use crate::fault::Fault;
use crate::options::Options;
use primitives::snapshot::SnapshotHeader;
use std::path::{Path, PathBuf};

/// An open snapshot of this network.
#[derive(Debug)]
pub(crate) enum Given {
    /// A file, and its absolute path.
    File(SnapshotFile, PathBuf),
    /// A stream.
    Stream(StreamedSnapshot),
}

impl Given {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// It is missing, not a snapshot, or of another network; an I/O error.
    pub(crate) fn file(options: &Options, path: &Path) -> Result<Given, Fault> {
        let file = SnapshotFile::open(&*options.disk, path)?;
        file.check_network(&options.params)?;
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        Ok(Given::File(file, path))
    }

    /// Waits for the header of a stream.
    ///
    /// # Errors
    ///
    /// Those of [`StreamedSnapshot::open`].
    pub(crate) fn stream(options: &Options, stream: &SharedStream) -> Result<Given, Fault> {
        StreamedSnapshot::open(options, stream).map(Given::Stream)
    }

    /// The header before the coins.
    pub(crate) fn header(&self) -> &SnapshotHeader {
        match self {
            Given::File(file, _) => &file.header,
            Given::Stream(streamed) => &streamed.header,
        }
    }

    /// Its name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Given::File(_, path) => path.display().to_string(),
            Given::Stream(streamed) => streamed.name.clone(),
        }
    }
}
