//! What the page and `ffwd top` show, once a second: plain values that go out as one line of JSON.
//!
//! Nothing secret is in it: no password, no path, no key.

use serde::{Deserialize, Serialize};

/// A job at one moment. Times in seconds, sizes in bytes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Version of the program.
    pub version: String,
    /// Core's name of the network.
    pub chain: String,
    /// What the program does, or waits for.
    pub state: StateView,
    /// Height of the last connected block.
    pub height: u32,
    /// Height of the best header.
    pub headers: u32,
    /// Height where the work ends, as far as is known.
    pub height_end: u32,
    /// How far presync of headers is.
    pub presync: Option<u32>,
    /// Share of the work that is done, 0 to 1: by bytes of blocks. It is 1 where the tip is current alone.
    pub share: f64,
    /// How long the rest takes, where that is known.
    pub to_go_s: Option<f64>,
    /// What limits the work: `processor`, `disk`, `network`; empty where nothing is done.
    pub limit: String,
    /// Since the start.
    pub uptime_s: f64,
    /// Seconds since 1970 when this was made.
    pub time: u64,
    /// Blocks a second, of late.
    pub blocks_per_s: f64,
    /// Bytes of blocks a second.
    pub bytes_per_s: f64,
    /// Inputs a second.
    pub inputs_per_s: f64,
    /// Threads that work on blocks.
    pub workers: usize,
    /// Where the time goes.
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
    /// What a person must know of the chain, while it holds; an older ffwd does not say it.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The state of the session: see `node::reporting::state`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StateView {
    /// Its stable name.
    pub name: String,
    /// A sentence for people.
    pub sentence: String,
    /// Whether something is wrong that a person may mend.
    pub is_trouble: bool,
}

/// A stage of the work.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StageView {
    /// Its name.
    pub name: String,
    /// Threads that were busy with it of late, on average.
    pub busy: f64,
    /// Tasks that waited for a worker of late, on average.
    pub queue: f64,
    /// How long threads were busy with it since the start.
    pub total_s: f64,
}

/// The UTXO set in memory.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct CacheView {
    /// Records.
    pub coins: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The budget.
    pub bytes_max: u64,
    /// Coins that were asked for, since the start.
    pub lookups: u64,
    /// Those that were not in memory.
    pub misses: u64,
    /// Share that was in memory of late.
    pub hit_rate: Option<f64>,
    /// Times that coins were made durable.
    pub flushes: u64,
    /// How long one took, on average.
    pub flush_mean_s: Option<f64>,
    /// Pieces of compactions.
    pub compactions: u64,
}

/// The machine.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct MachineView {
    /// Anonymous memory of the program.
    pub anonymous_bytes: u64,
    /// Its resident memory, mapped files with it.
    pub resident_bytes: u64,
    /// Processors that it used of late, on average.
    pub processors: f64,
    /// Bytes a second that the disk gave.
    pub read_per_s: f64,
    /// Bytes a second that the disk was given.
    pub written_per_s: f64,
    /// Bytes that are free where the data directory is.
    pub free_bytes: Option<u64>,
}

/// A connection.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct PeerView {
    /// Its number.
    pub id: u64,
    /// Where it is.
    pub address: String,
    /// Whether it connected to us.
    pub inbound: bool,
    /// Core's name of the type of connection.
    pub kind: String,
    /// `v1`, `v2` or `detecting`.
    pub transport: String,
    /// Its user agent.
    pub agent: String,
    /// Its last header that we know.
    pub height: Option<u32>,
    /// Bytes received from it.
    pub received: u64,
    /// Bytes sent to it.
    pub sent: u64,
    /// Bytes a second of late, both ways.
    pub bytes_per_s: f64,
    /// Blocks that it was asked for.
    pub in_flight: usize,
    /// How long the next block has been waited for, which it was asked for.
    pub stalls_s: Option<f64>,
    /// Shortest time of a ping.
    pub ping_s: Option<f64>,
}

/// A block that was connected.
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

/// A line of what was said.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct LogLine {
    /// Seconds since 1970.
    pub time: u64,
    /// `note`, `warning` or `error`.
    pub level: String,
    /// What.
    pub text: String,
}
