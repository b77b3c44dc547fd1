//! Inputs, actions and view of the driver, as plain values.

use crate::chain::headers::AssumeValid;
use crate::chain::index::BlockIndex;
use crate::chain::tree::NodeId;
use crate::pipeline::engine::Standing;
use crate::session::budget::{DownloadLimits, LocalTime};
use crate::snapshot::hints::run::HintedBlocks;
use p2p::{BlockVerdict, Progress, Want};
use primitives::{BlockHash, Height, Work};
use std::time::Duration;

/// Goal of one part of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// Only headers, until this block's header is known.
    Headers(BlockHash),
    /// The UTXO set at a block, with hints.
    Hinted,
    /// The best chain. On a snapshot, also the blocks below it, while there is nothing to do at the tip.
    Tip,
    /// Only the blocks below the snapshot: the blocks on top of it are not trusted.
    Past,
}

/// Settings of a sync.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether the sync ends at the peers' tip.
    pub(crate) ends_at_tip: bool,
    /// `--stopatheight`.
    pub(crate) stop_at: Option<Height>,
    /// Minimum work of a chain to be followed.
    pub(crate) minimum_work: Work,
    /// Maximum number of blocks planned for one run of the pipeline.
    pub(crate) run_blocks_max: u32,
    /// Pruning target in bytes.
    pub(crate) prune_target: Option<u64>,
    /// Which blocks are assumed valid.
    pub(crate) assume: AssumeValid,
    /// Target block spacing of this network in seconds.
    pub(crate) spacing_s: u32,
    /// Whether peers are connected to, or may connect.
    pub(crate) expects_peers: bool,
    /// Base block of the snapshot that the chainstate comes from, while it is not validated.
    pub(crate) snapshot: Option<NodeId>,
    /// `snapshot` is the last pruned block of a data directory that becomes archival. The chainstate is then the
    /// directory's own, so nothing above needs validation, and no sets are compared.
    pub(crate) is_archiving: bool,
    /// The user's download limits.
    pub(crate) limits: DownloadLimits,
}

/// Events that the driver handles.
#[derive(Debug)]
pub(crate) enum Input {
    /// A part of the sync starts; [`SyncDriver::enter`] has set its goal.
    Begun,
    /// The tips of the peers' chains, the preferred first.
    Targets(Vec<BlockHash>),
    /// The network has nearly used up a list.
    WantMore,
    /// New headers are in the index.
    Headers,
    /// Progress of the network.
    Network(Box<Progress>),
    /// A block from a peer was checked; `bytes` is set if it was stored.
    Judged {
        /// Its hash.
        hash: BlockHash,
        /// The verdict, which is passed to the network.
        verdict: BlockVerdict,
        /// Its size.
        bytes: Option<u64>,
    },
    /// A block came that was marked invalid before: it or a block below it was refused.
    KnownInvalid {
        /// Its hash.
        hash: BlockHash,
        /// The rule.
        why: String,
    },
    /// A block broke a rule: it and its descendants are marked invalid.
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
        /// State of the engine at the tip.
        tip: Standing,
        /// State of the engine on the chain below a snapshot.
        past: Option<Standing>,
    },
    /// The coins below a snapshot are hashed: see [`Action::HashPast`].
    PastHashed,
    /// Loading a snapshot was requested.
    LoadAsked,
    /// The local time, and whether the user paused the download.
    Clock {
        /// The time.
        local: LocalTime,
        /// Whether it is paused.
        is_paused: bool,
    },
    /// The session must end.
    Stop,
    /// Time passed, or the tip moved.
    Tick,
}

/// Actions that the driver returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Request these blocks from peers.
    Want(Vec<Vec<Want>>),
    /// Report the verdict on a block to the network.
    Verdict(BlockHash, BlockVerdict),
    /// Wake the thread that waits for a block: there is news.
    Wake,
    /// End the wait for the next block.
    Hurry,
    /// End the run below the snapshot: the tip has priority.
    Yield,
    /// Drop the blocks that arrived for the old plan: another chain is followed.
    Forget,
    /// Whether blocks whose script checks depend on missing headers wait in the pipeline's feed.
    AwaitHeaders(bool),
    /// The engine paused at another tip.
    NewTip {
        /// The previous tip.
        last: NodeId,
        /// The new tip.
        tip: NodeId,
    },
    /// Check whether the chain needs a warning to the operator.
    LookForAlerts,
    /// Commit the connected blocks, if a commit is due.
    Commit,
    /// Step: connect stored blocks.
    Activate,
    /// Step: connect up to this block as its ancestors arrive.
    RunTo(NodeId),
    /// Step: validate stored blocks below the snapshot.
    RunPast,
    /// Step: start to hash the coins below the snapshot, because all its blocks are connected. The work at the tip
    /// continues meanwhile.
    HashPast,
    /// Step: wait for news.
    Wait,
    /// Step: this part of the sync is over.
    Done(Outcome),
}

/// Result of a part of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Its goal is reached.
    Reached,
    /// The stop height is reached.
    StopHeight,
    /// Stopped on request.
    Stopped,
    /// A block on top of the snapshot was refused, or a better chain does not contain the snapshot's base block.
    Suspect,
    /// A snapshot must be loaded.
    Load,
    /// The chain below the snapshot has reached the base block and its coins are hashed, or it can never reach it.
    PastDone,
}

/// The state outside the driver that its decisions use.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Every known block.
    pub(crate) index: &'a BlockIndex,
    /// Whether a commit would free disk space.
    pub(crate) is_prune_due: bool,
    /// The last connected block of the chain below a snapshot.
    pub(crate) past_tip: Option<NodeId>,
    /// The blocks of a UTXO set that is built with hints.
    pub(crate) hinted: Option<&'a dyn HintedBlocks>,
}

/// The current activity, for displays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Waits for the peers' headers.
    AwaitingHeaders,
    /// Waits for this block, the next one to connect.
    AwaitingBlock {
        /// The block.
        node: NodeId,
        /// Start of the wait, as time since the start.
        since: Duration,
    },
    /// Connects blocks.
    Connecting,
    /// Validates blocks below a snapshot.
    ValidatingPast,
    /// The tip is the peers' tip.
    AtTip,
}
