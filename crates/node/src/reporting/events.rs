//! Output of a job: events and progress while it runs, and a report at its end. Plain values.

use super::state::{Limit, SessionState};
use crate::fault::Message;
use crate::pipeline::stats::Snapshot;
use primitives::{BlockHash, Height};
use std::path::PathBuf;

/// Result of a reindex, rebuild, import or sync.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// Height of the last block that is connected and durable.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Height at which the work began.
    pub height_start: Height,
    /// Number of blocks refused because they break a rule.
    pub blocks_invalid: u64,
    /// Number of connected blocks.
    pub blocks: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds from the start to the last durable commit.
    pub seconds: f64,
    /// Whether it was interrupted.
    pub stopped: bool,
    /// Height and hash of blocks that peers announced but did not deliver: their chains were not connected.
    pub undelivered: Vec<(Height, BlockHash)>,
    /// Height of the best header that is not refused.
    pub headers: Height,
    /// Damaged records of block files; if they are many, only the first ones.
    pub damaged: Vec<DamagedRecord>,
    /// Number of records of block files that are blocks of another chain.
    pub other_chain_records: u64,
    /// Why the chain ends below the best one; `None` if it was reached, or was not the target.
    pub end_reason: Option<Message>,
    /// State of the session when it ended.
    pub state: SessionState,
    /// Alerts about the chain that were active at the end.
    pub warnings: Vec<String>,
    /// The time counters.
    pub stats: Snapshot,
}

/// A record of a block file that is not a block, or whose body does not match its header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRecord {
    /// The file.
    pub path: PathBuf,
    /// Offset of the damage: a record with its magic, or a body.
    pub offset: u64,
}

/// An event during a job.
#[derive(Clone, Debug)]
pub enum Event {
    /// A line for the user and the log: a step begins, or a fact.
    Note(String),
    /// A problem, and its consequence.
    Warning(String),
    /// A block was refused, or a body is unusable.
    Refused {
        /// Its height, if it had been connected.
        height: Height,
        /// Its hash.
        hash: BlockHash,
        /// Core's reason, and where.
        why: String,
        /// Whether to show it to the user; false if peers cause too many such lines.
        is_shown: bool,
    },
    /// A sync has started its network thread, and now follows the chain.
    Ready,
    /// The chain is at rest at another block.
    Tip {
        /// Its height.
        height: Height,
        /// Its hash.
        hash: BlockHash,
        /// Whether the initial block download continues.
        initial_download: bool,
    },
    /// Progress; a few times per second.
    Progress(Box<Progress>),
}

/// Progress of a job.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Height of the last connected block.
    pub height: Height,
    /// Height at which it ends, if known so far.
    pub height_end: Height,
    /// Bytes of processed blocks, and of all blocks: the measure of work.
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_end: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// The counters.
    pub stats: Snapshot,
    /// Number of peers; `None` for a job without a network.
    pub peers: Option<u32>,
    /// Height of the best header, while there are peers.
    pub headers: Height,
    /// Height of a header chain that is being checked for minimum work; none of its headers are stored yet.
    pub presync: Option<Height>,
    /// The last blocks connected, the newest last.
    pub recent: Vec<RecentBlock>,
    /// Whether the initial block download is over, for a job that follows the chain.
    pub is_current: bool,
    /// Texts of active alerts.
    pub warnings: Vec<String>,
    /// Lines caused by peers that were left out of the log.
    pub lines_left_out: u64,
    /// What limits the speed, once measured.
    pub limit: Option<Limit>,
    /// State of the session: all displays show this one.
    pub state: SessionState,
    /// Mean bytes per second that the download budget allows; `None` without a budget.
    pub download_rate_max: Option<f64>,
    /// Whether this is the last report of this part of the work. Preparing the next part may take long, without
    /// reports.
    pub is_last: bool,
}

/// A connected block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentBlock {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// Its time, seconds since 1970.
    pub time: u32,
    /// Its transactions.
    pub transactions: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Receiver of the events.
pub type Events<'a> = &'a (dyn Fn(Event) + Sync);
