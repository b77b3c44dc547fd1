//! A snapshot that arrives as a stream, from mirrors, standard input or a pipe: the interface that the loader needs.
//!
//! Absent on purpose: sockets and pipes, which the program has; processing of the bytes (`coming`).

use super::file::{NO_SNAPSHOT, check_network, unparsable};
use crate::fault::{Fault, Message};
use crate::options::Options;
use primitives::snapshot::{HEADER_BYTES, SnapshotHeader};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Timeout of a read, so that a stop request is seen.
pub(super) const READ_PATIENCE: Duration = Duration::from_millis(200);

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Got {
    /// Number of bytes read, at least one.
    Bytes(usize),
    /// No bytes yet.
    Waiting,
    /// The file has ended.
    End,
}

/// A source of a snapshot's bytes, in order.
pub trait SnapshotStream: Send {
    /// Its name: a URL, or "standard input".
    fn name(&self) -> String;

    /// Length of the file, if known.
    fn bytes(&self) -> Option<u64>;

    /// Whether it can continue from any byte: then the tables built so far are kept when the program ends.
    fn can_seek(&self) -> bool;

    /// Sets the offset of the next byte to read.
    ///
    /// # Errors
    ///
    /// The stream cannot continue there.
    fn seek(&mut self, offset: u64) -> Result<(), Message>;

    /// Reads the bytes that arrive within `patience`.
    ///
    /// # Errors
    ///
    /// No more bytes will arrive: the reason, for each mirror, and what to do.
    fn read(&mut self, out: &mut [u8], patience: Duration) -> Result<Got, Message>;

    /// Events since the last call: lines for the log.
    fn notes(&mut self) -> Vec<String>;

    /// Called if the bytes were not those of the required set. Returns a description of the next attempt, which starts
    /// at the first byte; `None` if another attempt is useless.
    fn try_others(&mut self) -> Option<String>;
}

/// A stream in the options of a sync; clones share it.
#[derive(Clone)]
pub struct SharedStream(Arc<Mutex<dyn SnapshotStream>>);

impl fmt::Debug for SharedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStream")
    }
}

impl SharedStream {
    /// Makes a stream for [`crate::jobs::FromSnapshot`].
    pub fn new(stream: impl SnapshotStream + 'static) -> SharedStream {
        SharedStream(Arc::new(Mutex::new(stream)))
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.lock().name()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, dyn SnapshotStream + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose header was read.
#[derive(Debug)]
pub(crate) struct StreamedSnapshot {
    pub(super) stream: SharedStream,
    pub(crate) header: SnapshotHeader,
    /// Its name.
    pub(crate) name: String,
}

impl StreamedSnapshot {
    /// Waits for the header, and checks whether it is of this network.
    ///
    /// # Errors
    ///
    /// No bytes arrive, they are not a snapshot's, or another network's; the user stopped it.
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
