//! Checks a block from a peer or a foreign file without coins, and appends it to the block files.

use super::DataDir;
use crate::chain::block::{Checked, HeaderContext, Refusal};
use crate::chain::headers;
use crate::chain::tree::{Fate, NodeId};
use crate::fault::Fault;
use crate::pipeline::recheck::{self, Check};
use crate::pipeline::{scratch, stages};
use consensus::{BlockError, Rule};
use primitives::DecodeError;
use std::sync::Arc;
use store::blockfiles::BlockAt;

/// Source of a block, which decides the consequences of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A file that the user named. Source: Bitcoin Core b88bffe, `ChainstateManager::AcceptBlock`.
    File,
    /// A peer. First it is checked whether the body can belong to the header at all. A body that `CheckBlock` refuses
    /// does not prove the header invalid, because the bytes come from the peer. Source: Bitcoin Core b88bffe,
    /// `PeerManagerImpl::ProcessMessage`, `IsBlockMutated`, `ChainstateManager::ProcessNewBlock`.
    Peer,
    /// The RPC `submitblock`: treated like a peer, but rules are checked in the order of Core's `AcceptBlock`.
    Call,
}

/// Why a block was not stored.
#[derive(Clone, Debug)]
pub enum NotStored {
    /// This body is unusable; another body of the same header may be valid.
    Body(String),
    /// These bytes are not a block.
    Unreadable(String),
    /// The block is invalid, and was already marked invalid.
    Known(BlockError),
    /// The block is invalid, and is now marked so in the index.
    Invalid(BlockError),
}

impl std::fmt::Display for NotStored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotStored::Body(why) | NotStored::Unreadable(why) => {
                write!(f, "{why} (this body only: its header is not marked)")
            }
            NotStored::Known(error) | NotStored::Invalid(error) => error.fmt(f),
        }
    }
}

impl DataDir<'_> {
    /// Makes the checks of a block that need no coins.
    ///
    /// # Errors
    ///
    /// Fast and reference checks disagree on a block that is about to be marked invalid.
    pub(crate) fn check_block(
        &self,
        id: NodeId,
        bytes: &[u8],
        source: Source,
    ) -> Result<Result<Arc<Checked>, NotStored>, Fault> {
        let (header, fate) = {
            let tree = self.headers();
            (headers::context(&tree, self.params, id), tree.fate(id))
        };
        match fate {
            Fate::Open => {}
            Fate::Failed => return Ok(Err(NotStored::Known(Rule::DuplicateInvalid.into()))),
            Fate::FailedParent => return Ok(Err(NotStored::Known(Rule::BadPrevblk.into()))),
        }
        let check = if source == Source::Peer { stages::check_arrived } else { stages::check_from_file };
        match scratch::with_check(self.options.kernels, |scratch| check(self.params, &header, bytes, scratch)) {
            Ok(checked) => Ok(Ok(Arc::new(checked))),
            Err(refusal) => self.not_stored(&header, bytes, source, refusal).map(Err),
        }
    }

    /// Appends a block to the block files if the checks that need no coins pass. Bytes after the block are not stored.
    /// `keep` receives the result of the checks before other threads can see the block.
    ///
    /// # Errors
    ///
    /// An I/O error; or as [`DataDir::check_block`].
    pub(crate) fn store_block(
        &self,
        id: NodeId,
        bytes: &[u8],
        source: Source,
        keep: impl FnOnce(Arc<Checked>),
    ) -> Result<Result<(), NotStored>, Fault> {
        let checked = match self.check_block(id, bytes, source)? {
            Ok(checked) => checked,
            Err(why) => return Ok(Err(why)),
        };
        keep(checked.clone());
        let bytes = &bytes[..checked.block_bytes(bytes)];
        let (height, time) = {
            let tree = self.headers();
            (tree.height(id), tree.time(id))
        };
        let at = self.writer.append_block(&self.reporter, bytes, height, time)?;
        let size = bytes.len() as u32;
        let mut index = self.index.write();
        index.found(id, BlockAt { file: at.file, offset: u64::from(at.offset), size });
        index.checked(id, checked.txids.len() as u32);
        Ok(Ok(()))
    }

    /// Decides what a refusal means for the header, and marks it invalid if Core does.
    fn not_stored(
        &self,
        header: &HeaderContext,
        bytes: &[u8],
        source: Source,
        refusal: Refusal,
    ) -> Result<NotStored, Fault> {
        let first = match refusal {
            Refusal::Unparsable(why) => {
                // Core's message, if it has one.
                let cores = if matches!(why, DecodeError::NonMinimal { .. }) {
                    "non-canonical ReadCompactSize(): "
                } else {
                    ""
                };
                let bytes = bytes.len();
                return Ok(NotStored::Unreadable(format!("{cores}{bytes} bytes do not deserialize as a block: {why}")));
            }
            Refusal::WrongBody => {
                return Ok(NotStored::Body("record contains a different block than the index says".to_owned()));
            }
            Refusal::Rule(error) if error.mutated() => {
                self.index.write().list(header.node);
                return Ok(NotStored::Body(error.to_string()));
            }
            Refusal::Rule(error) => error,
        };
        match recheck::confirm(self.params, header, bytes, &first)? {
            (error, _) if error.mutated() => Ok(NotStored::Body(error.to_string())),
            (error, Check::CheckBlock) if source != Source::File => Ok(NotStored::Body(error.to_string())),
            (error, _) => {
                self.index.write().refuse(header.node);
                Ok(NotStored::Invalid(error))
            }
        }
    }
}
