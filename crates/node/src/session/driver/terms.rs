//! What the driver is told, what it says, and what it sees of the world. Plain values.

use crate::chain::headers::AssumeValid;
use crate::chain::index::BlockIndex;
use crate::chain::tree::NodeId;
use crate::pipeline::engine::Standing;
use crate::session::budget::{DownloadLimits, LocalTime};
use crate::snapshot::hints::run::HintedBlocks;
use p2p::{BlockVerdict, Progress, Want};
use primitives::{BlockHash, Height, Work};
use std::time::Duration;

/// What one part of a sync is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// Headers alone, until this block is among them.
    Headers(BlockHash),
    /// The set of coins of a block, with hints.
    Hinted,
    /// The best chain; and where it stands on a snapshot, the past of that when the tip has nothing to do.
    Tip,
    /// The past of the snapshot alone: what lies on top of it is not trusted.
    Past,
}

/// Settings of a sync.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The sync ends at the tip that the peers have.
    pub(crate) ends_at_tip: bool,
    /// `--stopatheight`.
    pub(crate) stop_at: Option<Height>,
    /// Work that a chain must have to be followed.
    pub(crate) minimum_work: Work,
    /// Blocks that are planned for one run of the pipeline.
    pub(crate) run_blocks_max: u32,
    /// Bytes to which files are pruned.
    pub(crate) prune_target: Option<u64>,
    /// Whose scripts are assumed valid.
    pub(crate) assume: AssumeValid,
    /// Seconds between two blocks of this network.
    pub(crate) spacing_s: u32,
    /// Peers are sought, or may connect.
    pub(crate) expects_peers: bool,
    /// The chainstate is that of a snapshot that is not validated: its base block.
    pub(crate) snapshot: Option<NodeId>,
    /// What the user allows to be downloaded.
    pub(crate) limits: DownloadLimits,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A part of the sync begins, of which [`SyncDriver::enter`] said what it is for.
    Begun,
    /// The ends of the chains that peers have, the preferred first.
    Targets(Vec<BlockHash>),
    /// Few blocks of a list are left to ask for.
    WantMore,
    /// New headers are in the index.
    Headers,
    /// What the network says of itself.
    Network(Box<Progress>),
    /// A block from a peer was looked at; `bytes` where it was stored.
    Judged {
        /// Its hash.
        hash: BlockHash,
        /// What the peer is told.
        verdict: BlockVerdict,
        /// Its size.
        bytes: Option<u64>,
    },
    /// A block broke a rule: it and what stands on it is marked.
    Refused {
        /// The block.
        node: NodeId,
        /// Its hash.
        hash: BlockHash,
        /// The rule.
        why: String,
    },
    /// A stored body is damaged, and there is no other copy.
    Lost,
    /// No block is in flight.
    Rested {
        /// Where the engine stands.
        tip: Standing,
        /// Where that of the chain below a snapshot does.
        past: Option<Standing>,
    },
    /// The hash of the coins below a snapshot is known: see [`Action::HashPast`].
    PastHashed,
    /// A snapshot is to be loaded.
    LoadAsked,
    /// The local time, and whether a person paused the download.
    Clock {
        /// The time.
        local: LocalTime,
        /// Whether it is paused.
        is_paused: bool,
    },
    /// The session is to end.
    Stop,
    /// Time passed, or the tip moved.
    Tick,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Ask peers for these blocks.
    Want(Vec<Vec<Want>>),
    /// Tell the network what became of a block.
    Verdict(BlockHash, BlockVerdict),
    /// Tell the thread that waits for a block that something is new.
    Wake,
    /// End the wait for the next block.
    Hurry,
    /// The past of the snapshot leaves its run: the tip goes first.
    Yield,
    /// Let go what is kept of blocks that arrived: another chain is wanted.
    Forget,
    /// Blocks whose trust depends on headers wait in the pipeline's feed too, or no longer do.
    AwaitHeaders(bool),
    /// The chain came to rest at another block.
    NewTip {
        /// Where it was before.
        last: NodeId,
        /// Where it is.
        tip: NodeId,
    },
    /// Look for what an operator must know of the chain.
    LookForAlerts,
    /// Commit what is connected, where that is due.
    Commit,
    /// The step: connect what is stored.
    Activate,
    /// The step: connect up to this block as its ancestors arrive.
    RunTo(NodeId),
    /// The step: validate what is stored of the snapshot's past.
    RunPast,
    /// The step: begin to hash the coins below the snapshot, all of whose blocks are connected. The work at the tip goes on
    /// meanwhile.
    HashPast,
    /// The step: wait for something new.
    Wait,
    /// The step: this part of the sync is over.
    Done(Outcome),
}

/// How a part of a sync ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Its goal is reached.
    Reached,
    /// The height to stop at is reached.
    StopHeight,
    /// Stopped on demand.
    Stopped,
    /// On top of a snapshot a block was refused, or a better chain does not have it.
    Suspect,
    /// A snapshot is to be loaded.
    Load,
    /// The past of the snapshot has reached its base block and its coins are hashed, or it never will.
    PastDone,
}

/// What the driver sees of the world.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Every known block.
    pub(crate) index: &'a BlockIndex,
    /// A commit would make room on the disk.
    pub(crate) is_prune_due: bool,
    /// The last connected block of the chain below a snapshot.
    pub(crate) past_tip: Option<NodeId>,
    /// The blocks of a set that is made with hints.
    pub(crate) hinted: Option<&'a dyn HintedBlocks>,
}

/// What the driver is about, for displays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Waits for the peers' headers.
    AwaitingHeaders,
    /// Waits for this block, which stands on the tip or on what is connected, since that time.
    AwaitingBlock {
        /// The block.
        node: NodeId,
        /// Since when, after the start.
        since: Duration,
    },
    /// Blocks are connected.
    Connecting,
    /// The blocks below a snapshot are validated.
    ValidatingPast,
    /// The tip is that of the peers.
    AtTip,
}
