//! A block on its way into the chain: its context, and the result of each stage.
//!
//! In order: [`HeaderContext`] (enough for the rules that need no coins), [`BlockContext`] (enough for all rules; both
//! are built in `headers`), [`Job`] (the context with the bytes), [`Checked`], [`Prepared`], [`Judged`], or a
//! `Refusal`.
//!
//! Absent on purpose: the stages themselves (`pipeline::stages`), and their scheduling (`pipeline`).

use crate::chain::tree::NodeId;
use coins::Ops;
use consensus::{BlockError, Cleanup, ScriptCheckReason};
use primitives::{Amount, Block, BlockHash, DecodeError, Header, Height, MedianTime, Tables, Txid};
use script::Flags;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use store::blockfiles::BlockBytes;
use store::signature_hints::BlockBits;
use sys::spill::Spill;

/// A header with its context in the chain.
#[derive(Clone, Copy, Debug)]
pub struct HeaderContext {
    /// Its number in the tree.
    pub node: NodeId,
    /// Its hash, as stored in the tree.
    pub hash: BlockHash,
    /// The header, as stored in the tree.
    pub header: Header,
    /// Its height.
    pub height: Height,
    /// Median time past of its parent.
    pub parent_mtp: MedianTime,
    /// Whether BIP-0054 is active for the block.
    pub cleanup: Cleanup,
}

/// Everything that decides which rules apply to a block: its header's context, and what its chain implies for scripts
/// and coins.
#[derive(Clone, Debug)]
pub struct BlockContext {
    /// The header with its context.
    pub at: HeaderContext,
    /// Why its scripts must be verified; `None` if they are assumed valid.
    pub script_reason: Option<ScriptCheckReason>,
    /// The script verification flags.
    pub flags: Flags,
    /// Whether BIP-0030 forbids outputs with the outpoint of an unspent coin.
    pub bip30: Bip30,
    /// Whether its coins overwrite others with the same outpoint.
    pub overwrites: bool,
}

impl BlockContext {
    /// The script verification flags, if its scripts must be verified.
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

/// Whether the outpoints of a block's outputs are looked up among the unspent coins (BIP-0030).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bip30 {
    /// The outputs are not looked up, as in Core.
    NotEnforced,
    /// Core looks them up, but no block of this network can break the rule: only the second judgement looks them up.
    Unbreakable,
    /// Looked up.
    Enforced,
}

/// A block to be connected.
#[derive(Clone)]
pub struct Job {
    /// Its context in the chain.
    pub context: BlockContext,
    /// Its bytes; further bytes may follow the block.
    pub bytes: BlockBytes,
    /// The result of the checks that need no coins, if they were made when the block arrived.
    pub checked: Option<Arc<Checked>>,
    /// Whether to make the checks that Core makes when it accepts a block (not repeated in a rebuild).
    pub contextual: bool,
    /// Network magic of undo records, if undo data must be written.
    pub undo: Option<[u8; 4]>,
}

/// Why a block was refused.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// A rule is broken.
    Rule(BlockError),
    /// Its bytes do not deserialize as a block.
    Unparsable(DecodeError),
    /// The bytes belong to a block with another header.
    WrongBody,
}

/// A parsed body that passed all checks that need no coins.
pub struct Checked {
    pub(crate) tables: Tables,
    /// Txids of its transactions.
    pub txids: Vec<Txid>,
    /// Legacy signature operations of each transaction.
    pub sigops: Vec<u32>,
}

impl Checked {
    /// The block; `bytes` must be the checked bytes.
    #[inline]
    pub fn block<'a>(&'a self, bytes: &'a [u8]) -> Block<'a> {
        self.tables.block(bytes)
    }

    /// Size of the block in bytes, without data that follows it in its record.
    pub fn block_bytes(&self, bytes: &[u8]) -> usize {
        self.tables.block(bytes).bytes().len()
    }

    /// Counts of the block's contents.
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

/// Counts of a block's contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCounts {
    pub(crate) bytes: u64,
    pub(crate) transactions: u64,
    /// Number of inputs without the coinbase's.
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
}

/// A block whose changes of the UTXO set are prepared.
pub struct Prepared {
    pub(crate) checked: Arc<Checked>,
    /// Its changes of the UTXO set.
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
    /// The coin's script, in the gathered scripts.
    #[inline]
    pub(crate) fn script_in<'a>(&self, scripts: &'a [u8]) -> &'a [u8] {
        &scripts[self.script as usize..][..self.script_bytes as usize]
    }
}

/// A block whose spent coins exist and may be spent; only its scripts may still fail.
pub struct Judged {
    /// Spent coins, in the order of the inputs, without the coinbase's.
    pub(crate) spent: Vec<Spent>,
    /// The concatenated scripts of these coins.
    pub(crate) scripts: Spill,
    /// The complete undo record (see `store::undofiles`), if it must be written.
    pub undo: Option<Spill>,
    /// Its change of the totals of the UTXO set.
    pub change: coins::Totals,
    /// Fees and signature operation cost.
    pub totals: consensus::spend::Totals,
    /// Its records for the optional indexes, until they are taken.
    pub(crate) records: std::sync::Mutex<Option<indexes::BlockRecords>>,
    /// Hints about its signatures, if there are some and its scripts run.
    pub(crate) bits: Option<BlockBits>,
    /// Hints about its signatures that are found while its scripts run, if they are wanted.
    pub(crate) found: Option<FoundBits>,
}

/// Hints about the signatures of a block, found by several tasks: a bit for each input, without the coinbase's.
pub(crate) struct FoundBits(Box<[AtomicU8]>);

impl FoundBits {
    /// No bit is set.
    pub(crate) fn new(inputs: usize) -> FoundBits {
        FoundBits((0..inputs.div_ceil(8)).map(|_| AtomicU8::new(0)).collect())
    }

    /// Sets the bit of an input.
    pub(crate) fn set(&self, input: usize) {
        self.0[input / 8].fetch_or(1 << (input % 8), Relaxed);
    }

    /// The bytes that have the bits. Call when all tasks have ended.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.iter().map(|byte| byte.load(Relaxed)).collect()
    }
}

impl Judged {
    /// Number of inputs without the coinbase's.
    pub fn inputs(&self) -> usize {
        self.spent.len()
    }
}
