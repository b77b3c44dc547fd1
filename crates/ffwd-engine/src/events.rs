//! The events of a running job, and the token that stops it.

use crate::ids::BlockHash;
use node::reporting::{Event as Told, Progress as Figures};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops jobs, from any thread or a signal handler. Clones share one state.
///
/// A stopped job commits the connected blocks, and ends within moments. The next job continues from there.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/chain/folder.in"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = Folder::new("stop"); let path = folder.path();
/// use ffwd_engine::{DataDir, Ended, Event, Network, Stop};
///
/// let dir = DataDir::open(path, Network::Regtest)?;
/// let stop = Stop::new();
/// stop.stop();
/// match dir.reindex().stop(&stop).run() {
///     Ok(report) => assert_eq!(report.ended, Ended::Stopped),
///     Err(why) => assert_eq!(why.kind(), ffwd_engine::ErrorKind::Stopped), // Before anything was changed.
/// }
/// assert_eq!(dir.reindex().run()?.ended, Ended::Complete);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A token that is not stopped.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Stops all jobs that have this token.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// An event of a running job. Several threads send events.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The start of a step, or a finding: a line of text.
    Note(String),
    /// A problem and the remedy: a line of text.
    Warning(String),
    /// A block breaks a rule, or its body does not match its header.
    #[non_exhaustive]
    BlockRefused {
        /// The height that it would have.
        height: u32,
        /// Its hash.
        hash: BlockHash,
        /// Core's reject reason, and its place.
        reason: String,
    },
    /// A sync accepts connections, and searches for peers.
    Ready,
    /// The active chain has a new tip.
    #[non_exhaustive]
    Tip {
        /// Its height.
        height: u32,
        /// Its hash.
        hash: BlockHash,
        /// Whether the initial block download is still in progress.
        is_initial_download: bool,
    },
    /// The progress of the job, a few times a second.
    Progress(Progress),
}

impl Event {
    pub(crate) fn of(told: Told) -> Event {
        match told {
            Told::Note(text) => Event::Note(text),
            Told::Warning(text) => Event::Warning(text),
            Told::Refused { height, hash, why, .. } => {
                Event::BlockRefused { height: height.to_u32(), hash: hash.into(), reason: why }
            }
            Told::Ready => Event::Ready,
            Told::Tip { height, hash, initial_download } => {
                Event::Tip { height: height.to_u32(), hash: hash.into(), is_initial_download: initial_download }
            }
            Told::Progress(figures) => Event::Progress(Progress::of(&figures)),
        }
    }
}

/// The progress of a job.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Progress {
    /// Height of the last connected block.
    pub height: u32,
    /// Height at which the job will end, if known.
    pub height_end: u32,
    /// Bytes of the processed blocks.
    pub bytes: u64,
    /// Bytes of all blocks. With [`Progress::bytes`] it measures the share of work done. 0 while unknown.
    pub bytes_end: u64,
    /// Seconds since the job began.
    pub seconds: f64,
    /// Number of peers, for a sync.
    pub peers: Option<u32>,
    /// The current work, or the cause of waiting: a sentence.
    pub state: String,
}

impl Progress {
    fn of(figures: &Figures) -> Progress {
        Progress {
            height: figures.height.to_u32(),
            height_end: figures.height_end.to_u32(),
            bytes: figures.bytes,
            bytes_end: figures.bytes_end,
            seconds: figures.seconds,
            peers: figures.peers,
            state: figures.state.sentence(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{BlockHash as Hash, Height};

    #[test]
    fn events_say_what_the_engine_tells() {
        let height = Height::new(7);
        let hash = Hash::from_bytes([3; 32]);
        let refused = Told::Refused { height, hash, why: "bad-txns".to_owned(), is_shown: false };
        assert!(matches!(Event::of(refused), Event::BlockRefused { height: 7, reason, .. } if reason == "bad-txns"));
        let tip = Told::Tip { height, hash, initial_download: true };
        assert!(matches!(Event::of(tip), Event::Tip { height: 7, is_initial_download: true, .. }));
        assert!(matches!(Event::of(Told::Note("a".to_owned())), Event::Note(text) if text == "a"));
        assert!(matches!(Event::of(Told::Warning("b".to_owned())), Event::Warning(text) if text == "b"));
        assert!(matches!(Event::of(Told::Ready), Event::Ready));
        let figures = Figures { height, bytes: 5, bytes_end: 9, peers: Some(2), ..Figures::default() };
        let Event::Progress(progress) = Event::of(Told::Progress(Box::new(figures))) else { panic!("progress") };
        assert_eq!((progress.height, progress.bytes, progress.bytes_end, progress.peers), (7, 5, 9, Some(2)));
        assert!(!progress.state.is_empty());
    }

    #[test]
    fn clones_of_a_stop_are_the_same() {
        let stop = Stop::new();
        let other = stop.clone();
        assert!(!other.is_stopped());
        stop.stop();
        assert!(other.is_stopped() && other.flag().load(Ordering::SeqCst));
    }
}
