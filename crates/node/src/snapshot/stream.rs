//! A snapshot that comes as a stream: from mirrors, standard input or a pipe. What the loader wants of one.
//!
//! Absent on purpose: sockets and pipes, which the program has; what is done with the bytes (`coming`).

use super::file::{NO_SNAPSHOT, check_network, unparsable};
use crate::fault::{Fault, Message};
use crate::options::Options;
use primitives::snapshot::{HEADER_BYTES, SnapshotHeader};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a read of a stream may wait, so that a stop on demand is heard.
pub(super) const READ_PATIENCE: Duration = Duration::from_millis(200);

/// What a read gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// So many bytes, at least one.
    Bytes(usize),
    /// None yet.
    Waiting,
    /// The file has ended.
    End,
}

/// Where the bytes of a snapshot come from, in order.
pub trait SnapshotStream: Send {
    /// What it is called: a URL, or "standard input".
    fn name(&self) -> String;

    /// Length of the file, once that is known.
    fn bytes(&self) -> Option<u64>;

    /// Whether it can go on from any byte: then what was put into tables is kept when the program ends.
    fn can_seek(&self) -> bool;

    /// The next byte that is read is this one.
    ///
    /// # Errors
    ///
    /// It cannot be had.
    fn seek(&mut self, offset: u64) -> Result<(), Message>;

    /// Reads what comes within `patience`.
    ///
    /// # Errors
    ///
    /// No more comes: why, of each mirror, and what to do.
    fn read(&mut self, out: &mut [u8], patience: Duration) -> Result<Got, Message>;

    /// What happened meanwhile that a person may want to know: lines for the log.
    fn notes(&mut self) -> Vec<String>;

    /// The bytes were not those of the set that was wanted. Says how it is tried again, from the first byte on; `None` where
    /// that is useless.
    fn try_others(&mut self) -> Option<String>;
}

/// A stream in the options of a sync; clones are the same one.
#[derive(Clone)]
pub struct SharedStream(Arc<Mutex<dyn SnapshotStream>>);

impl fmt::Debug for SharedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStream")
    }
}

impl SharedStream {
    /// For [`crate::jobs::FromSnapshot`].
    pub fn new(stream: impl SnapshotStream + 'static) -> SharedStream {
        SharedStream(Arc::new(Mutex::new(stream)))
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.lock().name()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, dyn SnapshotStream + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of which the header was read.
#[derive(Debug)]
pub(crate) struct StreamedSnapshot {
    pub(super) stream: SharedStream,
    pub(crate) header: SnapshotHeader,
    /// What it is called.
    pub(crate) name: String,
}

impl StreamedSnapshot {
    /// Waits for the header, and looks whether it is one of this network.
    ///
    /// # Errors
    ///
    /// No bytes come, they are no snapshot's, or another network's; a stop on demand.
    pub(crate) fn open(options: &Options, stream: &SharedStream) -> Result<StreamedSnapshot, Fault> {
        let mut source = stream.lock();
        let name = source.name();
        let mut start = [0; HEADER_BYTES];
        let mut have = 0;
        while have < start.len() {
            if options.stop.load(Relaxed) {
                return Err(Fault::Stopped);
            }
            match source.read(&mut start[have..], READ_PATIENCE).map_err(Fault::Refused)? {
                Got::Bytes(bytes) => have += bytes,
                Got::Waiting => {}
                Got::End => break,
            }
        }
        let header = SnapshotHeader::decode(&start[..have])
            .map_err(|why| Fault::refused(unparsable(&format!("{why} ({name})")), NO_SNAPSHOT))?;
        drop(source);
        check_network(&header, &options.params, &name)?;
        Ok(StreamedSnapshot { stream: stream.clone(), header, name })
    }
}
