//! Changes of the chain on request: new headers and blocks, validity marks, pruning.
//!
//! Source: Bitcoin Core b88bffe, validation.cpp, `ProcessNewBlock`, `AcceptBlock`, `InvalidateBlock`,
//! `ResetBlockFailureFlags`, `PreciousBlock`; rpc/mining.cpp, `submitblock`.

use super::quiet::Quiet;
use crate::chain::block::{Bip30, BlockContext, HeaderContext};
use crate::chain::deployments::cleanup_after;
use crate::chain::headers;
use crate::chain::index::Validity;
use crate::chain::tree::{Fate, GENESIS, NodeId};
use crate::datadir::store_block::{NotStored, Source};
use crate::fault::Fault;
use crate::options::unix_seconds;
use crate::pipeline::recheck::{self, Alone, Answer, Check, Question};
use consensus::{BlockError, Cleanup, Rule, ScriptCheckReason, flags};
use primitives::{Header, Height, MedianTime};

/// `invalidate` returns the transactions of at most this many disconnected blocks to the mempool. Source: Core's
/// `InvalidateBlock`.
const RETURNED_BLOCKS_MAX: u32 = 10;

/// Result of submitting a block. Texts are Core's reject reasons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It is connected.
    Connected,
    /// It was already stored.
    Duplicate,
    /// It is stored but not fully validated: it is on a side branch, or on an invalid block.
    Inconclusive,
    /// It breaks a rule: the reject reason.
    Refused(String),
}

/// Core's reject reason: the text of an error up to the details of its place.
fn reason(text: &str) -> String {
    text.split(", ").next().unwrap_or_default().to_owned()
}

impl Quiet<'_, '_, '_> {
    /// Adds a header to the header tree.
    ///
    /// # Errors
    ///
    /// Core's reject reason if the header breaks a rule.
    pub fn submit_header(&mut self, header: &Header) -> Result<NodeId, String> {
        let now = i64::try_from(unix_seconds(self.datadir.options.clock)).unwrap_or(i64::MAX);
        let hash = header.hash();
        let mut index = self.datadir.index.write();
        let tree = index.headers();
        let refuse = |rule: Rule| Err(BlockError::from(rule).reject_reason().into_owned());
        if let Some(id) = tree.find(&hash) {
            return if tree.fate(id) == Fate::Open { Ok(id) } else { refuse(Rule::DuplicateInvalid) };
        }
        if let Err(rule) = consensus::header::check_proof_of_work(self.datadir.params, &hash, header.bits()) {
            return refuse(rule);
        }
        match tree.find(&header.prev()) {
            None => return refuse(Rule::PrevBlkNotFound),
            Some(parent) if tree.fate(parent) != Fate::Open => return refuse(Rule::BadPrevblk),
            Some(_) => {}
        }
        index.accept(self.datadir.params, header, hash, now).map_err(|error| error.reject_reason().into_owned())
    }

    /// Stores a block and activates the best chain. `bytes` is exactly one block.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn submit_block(&mut self, bytes: &[u8]) -> Result<Submitted, Fault> {
        let Some(header) = bytes.first_chunk().map(|header| Header(*header)) else {
            return Ok(Submitted::Refused("bad-blk-length".to_owned()));
        };
        if let Some(error) = self.check_block(&header, bytes) {
            return Ok(Submitted::Refused(error.reject_reason().into_owned()));
        }
        let id = match self.submit_header(&header) {
            Ok(id) => id,
            Err(why) => return Ok(Submitted::Refused(why)),
        };
        if self.datadir.place(id).is_some() {
            self.activate()?;
            return Ok(Submitted::Duplicate);
        }
        match self.datadir.store_block(id, bytes, Source::Call, |_| {})? {
            Ok(()) => {}
            Err(NotStored::Body(why) | NotStored::Unreadable(why)) => return Ok(Submitted::Refused(reason(&why))),
            Err(NotStored::Known(error)) => return Ok(Submitted::Refused(error.reject_reason().into_owned())),
            Err(NotStored::Invalid(error)) => {
                let (height, hash) = self.datadir.height_and_hash(id);
                self.datadir.reporter.refused(height, hash, &error, true);
                return Ok(Submitted::Refused(error.reject_reason().into_owned()));
            }
        }
        self.activate()?;
        let (validity, fate) = {
            let index = self.datadir.index.read();
            (index.body(id).validity(), index.headers().fate(id))
        };
        Ok(match (validity, fate) {
            // The chain may have left it again because another block on it was refused.
            (Validity::Scripts, _) => Submitted::Connected,
            (_, Fate::Failed) => {
                let why = self.engine.reason_of(id);
                Submitted::Refused(why.map_or_else(|| "rejected".to_owned(), reason))
            }
            // A block below it was refused: this one was not validated.
            (_, Fate::FailedParent | Fate::Open) => Submitted::Inconclusive,
        })
    }

    /// The rule of `CheckBlock` that a block breaks regardless of its place in the chain. Its header is then
    /// not added either.
    fn check_block(&self, header: &Header, bytes: &[u8]) -> Option<BlockError> {
        let hash = header.hash();
        if let Err(rule) = consensus::header::check_proof_of_work(self.datadir.params, &hash, header.bits()) {
            return Some(rule.into());
        }
        let anywhere = HeaderContext {
            node: GENESIS,
            hash,
            header: *header,
            height: Height::GENESIS,
            parent_mtp: MedianTime::new(0),
            cleanup: Cleanup::Off,
        };
        let refused = recheck::alone_of(self.datadir.params, &anywhere, bytes);
        refused.filter(|(_, check)| *check == Check::CheckBlock).map(|(error, _)| error)
    }

    /// Validates a block on top of the tip without storing it. Returns the first rule that it breaks, in Core's form
    /// "reason, debug message". `bytes` is exactly one block, with its proof of work.
    ///
    /// # Errors
    ///
    /// An I/O error.
    ///
    /// Source: Bitcoin Core b88bffe, `TestBlockValidity`.
    pub fn test_block(&mut self, bytes: &[u8]) -> Result<Option<String>, Fault> {
        let Some(header) = bytes.first_chunk().map(|header| Header(*header)) else {
            return Ok(Some("bad-blk-length".to_owned()));
        };
        let (tip, best) = self.tip();
        if header.prev() != best {
            return Ok(Some("inconclusive-not-best-prevblk".to_owned()));
        }
        if let Some(error) = self.check_block(&header, bytes) {
            return Ok(Some(error.to_string()));
        }
        let params = self.datadir.params;
        let now = i64::try_from(self.unix_time()).unwrap_or(i64::MAX);
        let (context, times) = {
            let tree = self.datadir.headers();
            if let Err(error) = headers::check_on(&tree, params, &header, tip, now) {
                return Ok(Some(error.to_string()));
            }
            let height = tree.height(tip) + 1;
            let hash = header.hash();
            let parent_mtp = tree.median_time_past(tip);
            let cleanup = cleanup_after(&tree, params, tip);
            let at = HeaderContext { node: tip, hash, header, height, parent_mtp, cleanup };
            let flags = flags::of_block(params, height, &hash);
            let script_reason = Some(ScriptCheckReason::AlwaysVerify);
            let context = BlockContext { at, script_reason, flags, bip30: Bip30::Enforced, overwrites: false };
            (context, headers::median_times(&tree, tip))
        };
        let spill = &self.engine.spill_files();
        let alone = Alone::Judge;
        let question = Question { params, context: &context, bytes, times: &times, spill, alone, suspect: None };
        Ok(match recheck::judge(&question, |outpoint| self.engine.coin(outpoint))? {
            Answer::Good => None,
            Answer::Refused { error, .. } => Some(error.to_string()),
            Answer::WrongBody => Some("bad-blk-length".to_owned()),
        })
    }

    /// Marks a block and its descendants as permanently invalid, disconnects them, and activates the best remaining
    /// chain. Returns a reason if block or undo data needed for that is missing.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn invalidate(&mut self, id: NodeId) -> Result<Result<(), String>, Fault> {
        if id == GENESIS {
            return Ok(Ok(()));
        }
        if let Some(why) = self.why_not_off(id) {
            return Ok(Err(why));
        }
        let mut disconnected = 0;
        while self.datadir.index.read().is_active(id) {
            self.engine.disconnect_tip()?;
            disconnected += 1;
            if disconnected <= RETURNED_BLOCKS_MAX {
                self.engine.rest(true)?;
            }
            self.datadir.commit_if_due(self.engine)?;
            if self.datadir.stopping_now() {
                return Ok(Err("Shutting down".to_owned()));
            }
        }
        // Transactions of deeper blocks are not kept.
        self.engine.rest(false)?;
        self.datadir.index.write().invalid(id);
        self.activate()?;
        Ok(Ok(()))
    }

    /// Why the chain cannot be rewound to below a block; `None` if it can.
    fn why_not_off(&self, id: NodeId) -> Option<String> {
        let index = self.datadir.index.read();
        if !index.is_active(id) {
            return None;
        }
        let above = &index.active()[index.headers().height(id).to_usize()..];
        let absent = above.iter().find(|&&id| index.place(id).is_none() || index.body(id).undo().is_none())?;
        Some(format!("Failed to read block {}: its data is pruned", index.headers().hash(*absent)))
    }

    /// Removes the invalid marks of a block, its ancestors and its descendants, and activates the best chain.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn reconsider(&mut self, id: NodeId) -> Result<(), Fault> {
        self.datadir.index.write().reconsider(id);
        self.activate()
    }

    /// Prefers a block over others with equal work, and activates the best chain.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn prefer(&mut self, id: NodeId) -> Result<(), Fault> {
        let (tip, _) = self.tip();
        self.datadir.index.write().precious(id, tip);
        self.activate()
    }

    /// Removes block and undo files whose blocks are all at or below `height`; the last 288 blocks stay. Returns the
    /// height of the last removed block; `None` if no block is pruned.
    ///
    /// # Errors
    ///
    /// An I/O error.
    ///
    /// Source: Bitcoin Core b88bffe, `FindFilesToPruneManual`, `GetPruneHeight`.
    pub fn prune_to(&mut self, height: Height) -> Result<Option<Height>, Fault> {
        self.flush()?;
        self.datadir.prune_manually(height)?;
        let first = self.datadir.index.read().prune_height();
        Ok((first > Height::GENESIS).then(|| first - 1))
    }
}
