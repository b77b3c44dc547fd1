//! Data for the page and `ffwd top`, once a second: plain values, sent as one line of JSON.
//!
//! It has no secrets: no password, no path, no key.

use serde::{Deserialize, Serialize};

/// A job's state at one moment. Times in seconds, sizes in bytes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Version of the program.
    pub version: String,
    /// Core's name of the network.
    pub chain: String,
    /// The current activity, or reason for waiting.
    pub state: StateView,
    /// Height of the last connected block.
    pub height: u32,
    /// Height of the best header.
    pub headers: u32,
    /// Height at the end of the work, as far as known.
    pub height_end: u32,
    /// Height that presync of headers has reached.
    pub presync: Option<u32>,
    /// Share of the work that is done, 0 to 1: by bytes of blocks. It is 1 only if the tip is current.
    pub share: f64,
    /// Estimated time left, if known.
    pub to_go_s: Option<f64>,
    /// The bottleneck: `processor`, `disk`, `network`; empty without work.
    pub limit: String,
    /// Time since the start.
    pub uptime_s: f64,
    /// Time of this view, in seconds since 1970.
    pub time: u64,
    /// Recent blocks a second.
    pub blocks_per_s: f64,
    /// Bytes of blocks a second.
    pub bytes_per_s: f64,
    /// Inputs a second.
    pub inputs_per_s: f64,
    /// Number of worker threads.
    pub workers: usize,
    /// Time spent in each stage.
    pub stages: Vec<StageView>,
    /// The UTXO set in memory.
    pub cache: CacheView,
    /// The machine.
    pub machine: MachineView,
    /// Bytes received from peers.
    pub received: u64,
    /// Bytes sent to peers.
    pub sent: u64,
    /// The connections.
    pub peers: Vec<PeerView>,
    /// The last blocks, the newest first.
    pub blocks: Vec<BlockView>,
    /// The last lines, the newest last.
    pub log: Vec<LogLine>,
    /// Reorganisations to a better chain.
    pub reorgs: u64,
    /// Blocks refused, by Core's reason.
    pub refused: Vec<(String, u64)>,
    /// Warnings about the chain that the user must know, while they apply; absent in older versions of ffwd.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The state of the session: see `node::reporting::state`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StateView {
    /// Its stable name.
    pub name: String,
    /// Its description for users.
    pub sentence: String,
    /// Whether something is wrong that the user may be able to fix.
    pub is_trouble: bool,
}

/// A stage of the work.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StageView {
    /// Its name.
    pub name: String,
    /// Recent average number of threads busy with it.
    pub busy: f64,
    /// Recent average number of tasks that waited for a worker.
    pub queue: f64,
    /// Thread time spent on it since the start.
    pub total_s: f64,
}

/// The UTXO set in memory.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct CacheView {
    /// Records.
    pub coins: u64,
    /// Bytes of these coins.
    pub bytes: u64,
    /// The budget.
    pub bytes_max: u64,
    /// Number of lookups since the start.
    pub lookups: u64,
    /// Cache misses since the start.
    pub misses: u64,
    /// Recent cache hit rate.
    pub hit_rate: Option<f64>,
    /// Number of flushes.
    pub flushes: u64,
    /// Average time of a flush.
    pub flush_mean_s: Option<f64>,
    /// Pieces of compactions.
    pub compactions: u64,
}

/// The machine.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct MachineView {
    /// Anonymous memory of the program.
    pub anonymous_bytes: u64,
    /// Its resident memory, including mapped files.
    pub resident_bytes: u64,
    /// Recent average number of processors in use.
    pub processors: f64,
    /// Bytes a second read from the disk.
    pub read_per_s: f64,
    /// Bytes a second written to the disk.
    pub written_per_s: f64,
    /// Bytes free on the file system of the data directory.
    pub free_bytes: Option<u64>,
}

/// A connection.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct PeerView {
    /// Its id.
    pub id: u64,
    /// Its address.
    pub address: String,
    /// Whether it connected to us.
    pub inbound: bool,
    /// Core's name of the type of connection.
    pub kind: String,
    /// `v1`, `v2` or `detecting`.
    pub transport: String,
    /// Its user agent.
    pub agent: String,
    /// Height of its last known header.
    pub height: Option<u32>,
    /// Bytes received from it.
    pub received: u64,
    /// Bytes sent to it.
    pub sent: u64,
    /// Recent bytes a second, both ways.
    pub bytes_per_s: f64,
    /// Number of its blocks in flight.
    pub in_flight: usize,
    /// Age of its request for the next block.
    pub stalls_s: Option<f64>,
    /// Shortest time of a ping.
    pub ping_s: Option<f64>,
}

/// A connected block.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct BlockView {
    /// Its height.
    pub height: u32,
    /// Its hash.
    pub hash: String,
    /// Its time, seconds since 1970.
    pub time: u32,
    /// Its transactions.
    pub transactions: u64,
    /// Its size.
    pub bytes: u64,
}

/// A line of the log.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct LogLine {
    /// Seconds since 1970.
    pub time: u64,
    /// `note`, `warning` or `error`.
    pub level: String,
    /// Its text.
    pub text: String,
}
