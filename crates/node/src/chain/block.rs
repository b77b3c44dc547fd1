//! A block on its way into the chain: what its chain says about it, and what each stage makes of it.
//!
//! In order: [`HeaderContext`] (enough for the rules of the block alone), [`BlockContext`] (enough for all rules; both are
//! made in `headers`), [`Job`] (the context with the bytes), [`Checked`], [`Prepared`], [`Judged`], or a `Refusal`.
//!
//! Absent on purpose: what is done (`pipeline::stages`), by which thread and when (`pipeline`).

use crate::chain::tree::NodeId;
use coins::Ops;
use consensus::{BlockError, Cleanup, ScriptCheckReason};
use primitives::{Amount, Block, BlockHash, DecodeError, Header, Height, MedianTime, Tables, Txid};
use script::Flags;
use std::ops::Deref;
use std::sync::Arc;
use store::blockfiles::BlockBytes;
use sys::spill::Spill;

/// Where a header stands in its chain.
#[derive(Clone, Copy, Debug)]
pub struct HeaderContext {
    /// Its number in the tree.
    pub node: NodeId,
    /// Its hash, as the tree knows it.
    pub hash: BlockHash,
    /// The header, as the tree knows it.
    pub header: Header,
    /// Its height.
    pub height: Height,
    /// Median time past of its parent.
    pub parent_mtp: MedianTime,
    /// Whether BIP-0054 holds for the block.
    pub cleanup: Cleanup,
}

/// What decides which rules a block is judged by: its header's place, and what its chain says about scripts and coins.
#[derive(Clone, Debug)]
pub struct BlockContext {
    /// Where its header stands.
    pub at: HeaderContext,
    /// Why its scripts must run; none where they are assumed valid.
    pub script_reason: Option<ScriptCheckReason>,
    /// The flags with which they run.
    pub flags: Flags,
    /// Whether no output may have the name of an unspent coin.
    pub bip30: Bip30,
    /// Whether its coins overwrite others of the same name.
    pub overwrites: bool,
}

impl BlockContext {
    /// The flags of its scripts, where they must run.
    #[inline]
    pub fn scripts(&self) -> Option<Flags> {
        self.script_reason.map(|_| self.flags)
    }
}

impl Deref for BlockContext {
    type Target = HeaderContext;

    #[inline]
    fn deref(&self) -> &HeaderContext {
        &self.at
    }
}

/// Whether the names of a block's outputs are looked up among the unspent coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bip30 {
    /// Core does not.
    NotEnforced,
    /// Core does, but no block of this network can break the rule: only the second judgement does.
    Unbreakable,
    /// They are.
    Enforced,
}

/// A block to be connected.
#[derive(Clone)]
pub struct Job {
    /// What its chain says about it.
    pub context: BlockContext,
    /// Its bytes; more may follow the block.
    pub bytes: BlockBytes,
    /// What checking these bytes gave, at this place in the chain, where that was done when they arrived.
    pub checked: Option<Arc<Checked>>,
    /// Whether the checks of the block alone are made that Core makes when it takes a block in (not again in a rebuild).
    pub contextual: bool,
    /// Magic of undo records, where undo data is wanted.
    pub undo: Option<[u8; 4]>,
}

/// Why a block does not go on.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// A rule is broken.
    Rule(BlockError),
    /// Its bytes do not deserialize as a block.
    Unparsable(DecodeError),
    /// The bytes are of a block with another header.
    WrongBody,
}

/// A body that was taken apart, and found good as far as it can be alone.
pub struct Checked {
    pub(crate) tables: Tables,
    /// Ids of its transactions.
    pub txids: Vec<Txid>,
    /// Legacy signature operations of each transaction.
    pub sigops: Vec<u32>,
}

impl Checked {
    /// The block; `bytes` must be those that were checked.
    #[inline]
    pub fn block<'a>(&'a self, bytes: &'a [u8]) -> Block<'a> {
        self.tables.block(bytes)
    }

    /// Bytes of the block without anything that follows it in its record.
    pub fn block_bytes(&self, bytes: &[u8]) -> usize {
        self.tables.block(bytes).bytes().len()
    }

    /// How much is in the block.
    pub(crate) fn counts(&self, bytes: &[u8]) -> BlockCounts {
        let block = self.block(bytes);
        BlockCounts {
            bytes: block.bytes().len() as u64,
            transactions: block.transaction_count() as u64,
            inputs: block.input_count() as u64 - 1,
            outputs: block.output_count() as u64,
        }
    }
}

/// How much is in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCounts {
    pub(crate) bytes: u64,
    pub(crate) transactions: u64,
    /// The coinbase's is not counted.
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
}

/// A block that is ready to spend and create.
pub struct Prepared {
    pub(crate) checked: Arc<Checked>,
    /// What it does to the UTXO set.
    pub ops: Ops,
}

impl Deref for Prepared {
    type Target = Checked;

    #[inline]
    fn deref(&self) -> &Checked {
        &self.checked
    }
}

/// A coin that an input of a block in flight spends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) value: Amount,
    pub(crate) height: Height,
    pub(crate) script: u32,
    pub(crate) script_bytes: u32,
    pub(crate) coinbase: bool,
    pub(crate) found: bool,
}

impl Spent {
    /// Its script, of those that were gathered.
    #[inline]
    pub(crate) fn script_in<'a>(&self, scripts: &'a [u8]) -> &'a [u8] {
        &scripts[self.script as usize..][..self.script_bytes as usize]
    }
}

/// A block whose coins are there and allowed; only its scripts may still fail.
pub struct Judged {
    /// What its inputs spend, in order, without the coinbase's.
    pub(crate) spent: Vec<Spent>,
    /// The scripts of these coins, one after the other.
    pub(crate) scripts: Spill,
    /// The whole undo record (see `store::undofiles`), where it is wanted.
    pub undo: Option<Spill>,
    /// By how much it changes what the coins of the set add up to.
    pub change: coins::Totals,
    /// Fees and cost of signature operations.
    pub totals: consensus::spend::Totals,
    /// What it adds to the optional indexes, until that is taken.
    pub(crate) records: std::sync::Mutex<Option<indexes::BlockRecords>>,
}

impl Judged {
    /// Inputs, without the coinbase's.
    pub fn inputs(&self) -> usize {
        self.spent.len()
    }
}
