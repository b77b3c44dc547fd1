//! A job's state at one moment, from which metrics are made.

use crate::machine::Machine;
use node::options::Clock;
use node::reporting::Progress;
use node::reporting::state::SessionState;
use p2p::PeerStats;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Values that do not change while a job runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Version of the program.
    pub version: String,
    /// Commit and compiler.
    pub build: String,
    /// Core's name of the network.
    pub chain: String,
    /// Path of the data directory; not shown to readers.
    pub datadir: PathBuf,
    /// The configured size of the cache.
    pub dbcache_bytes: u64,
    /// Number of worker threads.
    pub workers: usize,
    /// Whether there is no job: a data directory is only served.
    pub at_rest: bool,
    /// Source of the time of day.
    pub clock: Clock,
}

impl Default for Settings {
    /// Empty settings, and a fixed clock.
    fn default() -> Settings {
        Settings {
            version: String::new(),
            build: String::new(),
            chain: String::new(),
            datadir: PathBuf::new(),
            dbcache_bytes: 0,
            workers: 0,
            at_rest: false,
            clock: || UNIX_EPOCH,
        }
    }
}

/// Inputs of the metrics.
pub(crate) struct Sight<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) progress: &'a Progress,
    /// Blocks refused, by reason.
    pub(crate) refused: &'a BTreeMap<String, u64>,
    pub(crate) state: SessionState,
    pub(crate) to_go_s: Option<f64>,
    pub(crate) uptime_s: f64,
    pub(crate) machine: Machine,
    pub(crate) peers: Vec<PeerStats>,
    /// Bytes received and sent, by type of connection and transport.
    pub(crate) by_kind: BTreeMap<(&'static str, &'static str), (u64, u64)>,
    pub(crate) network: p2p::Progress,
    /// Bytes received and sent.
    pub(crate) totals: (u64, u64),
}
