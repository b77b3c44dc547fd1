//! Changes of the chain that others ask for: headers and blocks to be taken in, marks, pruning.
//!
//! Source: Bitcoin Core b88bffe, validation.cpp, `ProcessNewBlock`, `AcceptBlock`, `InvalidateBlock`, `ResetBlockFailureFlags`,
//! `PreciousBlock`; rpc/mining.cpp, `submitblock`.

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

/// Blocks that are taken off on demand of which the transactions may wait for another block. Source: Core's
/// `InvalidateBlock`.
const RETURNED_BLOCKS_MAX: u32 = 10;

/// What became of a block. Texts are Core's reject reasons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Submitted {
    /// It is connected.
    Connected,
    /// It was there.
    Duplicate,
    /// It is stored, and was not judged: of a chain that is not the best one, or on a block that proved bad.
    Inconclusive,
    /// A rule refuses it.
    Refused(String),
}

/// Core's word for an error that was written with its place.
fn reason(text: &str) -> String {
    text.split(", ").next().unwrap_or_default().to_owned()
}

impl Quiet<'_, '_, '_> {
    /// Takes a header in.
    ///
    /// # Errors
    ///
    /// Core's reject reason, where a rule refuses it.
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

    /// Takes a block in, stores it, and brings the chain to its best block. `bytes` is one block and nothing behind it.
    ///
    /// # Errors
    ///
    /// What the system says.
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
            // The chain may have left it again, for another block of it was refused.
            (Validity::Scripts, _) => Submitted::Connected,
            (_, Fate::Failed) => {
                let why = self.engine.reason_of(id);
                Submitted::Refused(why.map_or_else(|| "rejected".to_owned(), reason))
            }
            // One below it was refused: of this one nothing is known.
            (_, Fate::FailedParent | Fate::Open) => Submitted::Inconclusive,
        })
    }

    /// The rule of `CheckBlock` that a block breaks, whatever its place in the chain: then its header is not taken in.
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

    /// Judges a block that would stand on the tip, without storing anything of it; gives the first rule that it breaks, in Core's
    /// form "reason, debug message". `bytes` is one block and nothing behind it, with its proof of work.
    ///
    /// # Errors
    ///
    /// What the system says.
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
        let question = Question { params, context: &context, bytes, times: &times, spill, alone: Alone::Judge };
        Ok(match recheck::judge(&question, |outpoint| self.engine.coin(outpoint))? {
            Answer::Good => None,
            Answer::Refused { error, .. } => Some(error.to_string()),
            Answer::WrongBody => Some("bad-blk-length".to_owned()),
        })
    }

    /// Takes a block and what stands on it off the chain, for ever marked as invalid, and goes to the best chain without it.
    /// Gives a reason where the blocks to be taken off are not there.
    ///
    /// # Errors
    ///
    /// What the system says.
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
        // Of blocks beyond those nothing waits.
        self.engine.rest(false)?;
        self.datadir.index.write().invalid(id);
        self.activate()?;
        Ok(Ok(()))
    }

    /// Why the chain cannot go back to below a block.
    fn why_not_off(&self, id: NodeId) -> Option<String> {
        let index = self.datadir.index.read();
        if !index.is_active(id) {
            return None;
        }
        let above = &index.active()[index.headers().height(id).to_usize()..];
        let absent = above.iter().find(|&&id| index.place(id).is_none() || index.body(id).undo().is_none())?;
        Some(format!("Failed to read block {}: its data is pruned", index.headers().hash(*absent)))
    }

    /// Takes the marks off a block, its ancestors and what stands on it, and goes to the best chain.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn reconsider(&mut self, id: NodeId) -> Result<(), Fault> {
        self.datadir.index.write().reconsider(id);
        self.activate()
    }

    /// Prefers a block to others with as much work, and goes to the best chain.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn prefer(&mut self, id: NodeId) -> Result<(), Fault> {
        let (tip, _) = self.tip();
        self.datadir.index.write().precious(id, tip);
        self.activate()
    }

    /// Removes block and undo files of which every block lies at or below `height`; the last 288 blocks stay. Gives the height
    /// of the last block that is gone; none where all are there.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// Source: Bitcoin Core b88bffe, `FindFilesToPruneManual`, `GetPruneHeight`.
    pub fn prune_to(&mut self, height: Height) -> Result<Option<Height>, Fault> {
        self.flush()?;
        self.datadir.prune_manually(height)?;
        let first = self.datadir.index.read().prune_height();
        Ok((first > Height::GENESIS).then(|| first - 1))
    }
}
