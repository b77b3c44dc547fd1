//! What a job tells: events while it works, how far it is, and in the end what was done. Plain values.

use super::state::{Limit, SessionState};
use crate::fault::Message;
use crate::pipeline::stats::Snapshot;
use primitives::{BlockHash, Height};
use std::path::PathBuf;

/// What a reindex, rebuild, import or sync did.
#[derive(Clone, Debug, Default)]
pub struct JobReport {
    /// Height of the last block that is connected and durable.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Height at which the work was taken up.
    pub height_start: Height,
    /// Blocks refused because they break a rule.
    pub blocks_invalid: u64,
    /// Blocks connected.
    pub blocks: u64,
    /// Transactions of them.
    pub transactions: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Seconds from the start to the last commit durable.
    pub seconds: f64,
    /// It was stopped before its end.
    pub stopped: bool,
    /// Height and hash of blocks that peers announced and none gave: their chains were not followed.
    pub undelivered: Vec<(Height, BlockHash)>,
    /// Height of the best header that is not refused.
    pub headers: Height,
    /// Records of block files that are damaged, of many the first ones.
    pub damaged: Vec<DamagedRecord>,
    /// Records of block files that are blocks of another chain.
    pub other_chain_records: u64,
    /// Why the chain ends below the best one; `None` where that is reached, or was not to be.
    pub end_reason: Option<Message>,
    /// What the session did or waited for when it ended.
    pub state: SessionState,
    /// What a person must know of the chain, as it held at the end.
    pub warnings: Vec<String>,
    /// Where the time went.
    pub stats: Snapshot,
}

/// A record of a block file that is no block, or whose body is not its header's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRecord {
    /// The file.
    pub path: PathBuf,
    /// Where in it the damage begins: a record with its magic, or a body.
    pub offset: u64,
}

/// What a job says while it works.
#[derive(Clone, Debug)]
pub enum Event {
    /// A line for the user and the log: what begins, what was found.
    Note(String),
    /// Something that is not as it should be, and what it costs.
    Warning(String),
    /// A block was refused, or a body lost.
    Refused {
        /// Where it would have stood.
        height: Height,
        /// Its hash.
        hash: BlockHash,
        /// Core's reason, and where.
        why: String,
        /// Whether people are to see it: not where peers cause too many such lines.
        is_shown: bool,
    },
    /// A sync has its peers' thread, and follows the chain from here on.
    Ready,
    /// The chain has come to rest at another block.
    Tip {
        /// Its height.
        height: Height,
        /// Its hash.
        hash: BlockHash,
        /// Whether the initial block download goes on.
        initial_download: bool,
    },
    /// How far it is; a few times a second.
    Progress(Box<Progress>),
}

/// How far a job is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Height of the last connected block.
    pub height: Height,
    /// Height where it ends, as far as is known.
    pub height_end: Height,
    /// Bytes of blocks that are done, and that there are: the measure of work.
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_end: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// The counters.
    pub stats: Snapshot,
    /// Peers, of a job that has to do with them.
    pub peers: Option<u32>,
    /// Height of the best header, while there are peers.
    pub headers: Height,
    /// Height up to which a header chain was looked at whose work is not known to be enough; none of it is kept yet.
    pub presync: Option<Height>,
    /// The last blocks connected, the newest last.
    pub recent: Vec<RecentBlock>,
    /// Whether the initial block download is over, of a job that follows the chain.
    pub is_current: bool,
    /// What a person must know: the alerts that hold.
    pub warnings: Vec<String>,
    /// Lines that peers caused and that were left out of the log.
    pub lines_left_out: u64,
    /// What limits the work, once measured.
    pub limit: Option<Limit>,
    /// What the session does, or waits for: what everybody is shown.
    pub state: SessionState,
    /// Bytes a second that the download budget allows in the mean; any number without.
    pub download_rate_max: Option<f64>,
    /// Whether this part of the work has ended: what comes before the next one may take long, and says nothing.
    pub is_last: bool,
}

/// A block that was connected.
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

/// Who is told.
pub type Events<'a> = &'a (dyn Fn(Event) + Sync);
