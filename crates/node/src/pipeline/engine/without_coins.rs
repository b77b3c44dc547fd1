//! Checks blocks by the rules that need no coins: those off the best chain, and those of a chain that was connected before.

use super::Engine;
use crate::chain::block::Refusal;
use crate::chain::headers;
use crate::chain::tree::NodeId;
use crate::fault::{Ended, Fault};
use crate::pipeline::recheck;
use crate::pipeline::scratch;
use crate::pipeline::stages;
use consensus::BlockError;

/// Why a body is bad.
enum BadBody {
    /// A rule of the block: the block is invalid.
    Refused(BlockError),
    /// A block that does not match its header: no verdict on the header.
    Mutated(BlockError),
    /// The bytes are not this block's: no verdict on the block.
    Damaged(String),
}

impl Engine<'_> {
    /// Checks a block by the rules that need no coins, and returns the number of its transactions.
    ///
    /// # Errors
    ///
    /// A fault that names the block: it was valid before and no longer is.
    pub fn check_alone(&self, node: NodeId, bytes: Vec<u8>) -> Result<usize, Fault> {
        self.check_body(node, &bytes).map_err(|why| {
            let (height, hash) = self.height_and_hash(node);
            let why = match why {
                BadBody::Refused(error) | BadBody::Mutated(error) => error.to_string(),
                BadBody::Damaged(why) => why,
            };
            let advice = "Look at the disk, then run ffwd repair, which fetches only damaged blocks";
            Fault::refused(format!("block {hash} at height {height} is damaged: {why}"), advice)
        })
    }

    /// Checks blocks off the chain by the rules that need no coins: those with a body that are not connected, and none
    /// of whose ancestors was refused on arrival.
    ///
    /// # Errors
    ///
    /// An I/O error; or the two checks of a block that is about to be marked disagree.
    pub fn check_stale_blocks(&mut self) -> Result<Ended, Fault> {
        let waiting = self.index.read().unchecked_stale_blocks(self.tip);
        for node in waiting {
            if self.world.stopping() {
                return Ok(Ended::Stopped);
            }
            while self.index.read().is_acceptable(node) && self.check_stale(node)? {}
        }
        Ok(Ended::Done)
    }

    /// Returns whether the body was damaged and another copy of it is to be checked.
    fn check_stale(&mut self, node: NodeId) -> Result<bool, Fault> {
        let bytes = self.world.read(node)?;
        match self.check_body(node, &bytes) {
            Ok(transactions) => self.index.write().checked(node, transactions as u32),
            Err(BadBody::Refused(first)) => {
                let header = headers::context(&self.headers(), self.params, node);
                let (error, _) = recheck::confirm(self.params, &header, &bytes, &first)?;
                self.index.write().refuse(node);
                self.world.refused(node, &error);
            }
            Err(BadBody::Mutated(error)) => return self.lose_mutated(node, &error),
            Err(BadBody::Damaged(why)) => return self.lose(node, &why),
        }
        Ok(false)
    }

    fn check_body(&self, node: NodeId, bytes: &[u8]) -> Result<usize, BadBody> {
        let header = headers::context(&self.headers(), self.params, node);
        let checked = scratch::with_check(self.world.kernels(), |scratch| {
            stages::check(self.params, &header, bytes, true, scratch)
        });
        match checked {
            Ok(checked) => Ok(checked.txids.len()),
            Err(Refusal::Rule(error)) if error.mutated() => Err(BadBody::Mutated(error)),
            Err(Refusal::Rule(error)) => Err(BadBody::Refused(error)),
            Err(Refusal::Unparsable(why)) => Err(BadBody::Damaged(why.to_string())),
            Err(Refusal::WrongBody) => {
                Err(BadBody::Damaged("record contains a different block than the index says".into()))
            }
        }
    }
}
