//! Blocks of the best chain with the coins that their inputs spend, read from block files and undo files.

use crate::error::Error;
use crate::ids::{BlockHash, OutPoint, Txid};
use crate::script::{ScriptType, SpentOutput};
use node::offline::files::{ChainFiles, Needs, WholeBlock, at_rest};
use node::options::Options;
use primitives::Height;
use std::fmt;
use std::ops::{Bound, Range, RangeBounds};

/// The RPC call that answers the same question while another program uses the data directory.
const QUESTION: &str = "getblock HASH 3";

/// The blocks of a range of heights, in order: [`crate::DataDir::blocks`].
///
/// A block is read when the iterator reaches it. It is compared with its header in the block index, and its undo data
/// with its inputs; no other rule is checked ([`crate::DataDir::verify`] does that). After an error the iterator
/// continues at the next height.
pub struct Blocks {
    options: Options,
    chain: Option<ChainFiles>,
    heights: Range<u32>,
}

impl Blocks {
    pub(crate) fn open(options: Options, range: impl RangeBounds<u32>) -> Result<Blocks, Error> {
        let first = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(last.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        if end.is_some_and(|end| end <= first) {
            return Ok(Blocks { options, chain: None, heights: 0..0 });
        }
        let last = end.map(|end| Height::new(end - 1));
        let open = || ChainFiles::open(&options, Height::new(first), last, Needs::Blocks, None);
        let chain = at_rest(&options, QUESTION, open)?;
        let heights = first..chain.last().to_u32() + 1;
        Ok(Blocks { options, chain: Some(chain), heights })
    }

    /// The remaining heights.
    pub fn heights(&self) -> Range<u32> {
        self.heights.clone()
    }
}

impl Iterator for Blocks {
    type Item = Result<Block, Error>;

    fn next(&mut self) -> Option<Result<Block, Error>> {
        let chain = self.chain.as_ref()?;
        let height = self.heights.next()?;
        let whole = chain.read_whole(Height::new(height));
        let failed = |fault| Error::of_reading(&self.options, QUESTION, fault);
        Some(whole.map(|whole| Block::new(height, whole)).map_err(failed))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.heights.size_hint()
    }
}

impl ExactSizeIterator for Blocks {}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks").field("heights", &self.heights).finish_non_exhaustive()
    }
}

/// The coin that an input spends; its script is a range of [`Block::scripts`].
struct Spent {
    value: i64,
    script: Range<usize>,
    height: u32,
    is_coinbase: bool,
}

/// A block of the best chain, with the coins that its inputs spend.
///
/// It owns its bytes and the scripts that it spends: usually less than a megabyte of scripts, at most 244 MB.
pub struct Block {
    height: u32,
    hash: BlockHash,
    whole: WholeBlock,
    spent: Vec<Spent>,
    scripts: Vec<u8>,
}

impl Block {
    fn new(height: u32, whole: WholeBlock) -> Block {
        let mut scripts = Vec::new();
        let mut spent = Vec::new();
        for coin in whole.spent() {
            let start = scripts.len();
            coin.script.append_to(&mut scripts);
            spent.push(Spent {
                value: coin.value.0,
                script: start..scripts.len(),
                height: coin.height.to_u32(),
                is_coinbase: coin.coinbase,
            });
        }
        let hash = whole.block().header().hash().into();
        Block { height, hash, whole, spent, scripts }
    }

    /// Its height.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Hash of its header.
    pub fn hash(&self) -> BlockHash {
        self.hash
    }

    /// Its header.
    pub fn header(&self) -> Header {
        let header = self.whole.block().header();
        Header {
            version: header.version(),
            previous: header.prev().into(),
            merkle_root: header.merkle_root().0,
            time: header.time(),
            bits: header.bits(),
            nonce: header.nonce(),
        }
    }

    /// Its bytes, with witnesses, as on the network.
    pub fn bytes(&self) -> &[u8] {
        self.whole.block().bytes()
    }

    /// Its size in bytes without witnesses: Core's `strippedsize`.
    pub fn stripped_size(&self) -> usize {
        self.whole.block().stripped_bytes()
    }

    /// Its weight. Source: BIP-0141.
    pub fn weight(&self) -> usize {
        self.whole.block().weight()
    }

    /// Its transactions, the coinbase first.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = Transaction<'_>> {
        (0..self.whole.txids().len()).map(|index| self.transaction(index))
    }

    /// Transaction number `index`, from 0.
    ///
    /// # Panics
    ///
    /// If the block has no such transaction.
    pub fn transaction(&self, index: usize) -> Transaction<'_> {
        assert!(index < self.whole.txids().len(), "the block has no transaction {index}");
        Transaction { block: self, index, tx: self.whole.block().transaction(index) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("height", &self.height).field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// The header of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Header {
    /// Version, some bits of which are signals. Source: BIP-0009.
    pub version: i32,
    /// Hash of the previous block.
    pub previous: BlockHash,
    /// Merkle root of its transactions' ids, in internal byte order.
    pub merkle_root: [u8; 32],
    /// The time that its miner set, in seconds since 1970.
    pub time: u32,
    /// The target in compact form: Core's `nBits`.
    pub bits: u32,
    /// The nonce.
    pub nonce: u32,
}

/// A transaction of a block.
#[derive(Clone, Copy)]
pub struct Transaction<'b> {
    block: &'b Block,
    index: usize,
    tx: primitives::Transaction<'b>,
}

impl<'b> Transaction<'b> {
    /// Its id.
    pub fn txid(&self) -> Txid {
        self.block.whole.txids()[self.index].into()
    }

    /// Its bytes, with witnesses.
    pub fn bytes(&self) -> &'b [u8] {
        self.tx.bytes()
    }

    /// Its size in virtual bytes: a quarter of its weight, rounded up. Source: BIP-0141.
    pub fn virtual_size(&self) -> usize {
        (3 * self.tx.stripped_bytes() + self.tx.bytes().len()).div_ceil(4)
    }

    /// Its version.
    pub fn version(&self) -> u32 {
        self.tx.version()
    }

    /// Its lock time: a height below 500,000,000, otherwise a Unix time.
    pub fn lock_time(&self) -> u32 {
        self.tx.lock_time()
    }

    /// Whether it is the coinbase of its block.
    pub fn is_coinbase(&self) -> bool {
        self.index == 0
    }

    /// Its inputs.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Input<'b>> + use<'b> {
        // The coinbase has one input, which spends nothing.
        let block = self.block;
        let first = self.tx.first_input();
        self.tx.inputs().enumerate().map(move |(at, input)| Input {
            input,
            spent: (first + at).checked_sub(1).map(|at| &block.spent[at]),
            scripts: &block.scripts,
        })
    }

    /// Its outputs.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Output<'b>> + use<'b> {
        self.tx.outputs().map(|output| Output { value: output.value().0, script: output.script() })
    }

    /// The outputs that its inputs spend, in order, as [`crate::verify_script`] takes them; empty for a coinbase.
    pub fn spent_outputs(&self) -> Vec<SpentOutput<'b>> {
        self.inputs()
            .filter_map(|input| input.prevout())
            .map(|prevout| SpentOutput::new(prevout.value, prevout.script))
            .collect()
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transaction").field(&self.txid()).finish()
    }
}

/// An input of a transaction.
#[derive(Clone, Copy)]
pub struct Input<'b> {
    input: primitives::Input<'b>,
    spent: Option<&'b Spent>,
    scripts: &'b [u8],
}

impl<'b> Input<'b> {
    /// The output that it spends; for a coinbase, a null id and the number 0xffffffff.
    pub fn outpoint(&self) -> OutPoint {
        self.input.prevout().into()
    }

    /// The coin that it spends, from the undo data; `None` for a coinbase.
    pub fn prevout(&self) -> Option<Prevout<'b>> {
        let Spent { value, script, height, is_coinbase } = self.spent?;
        Some(Prevout {
            value: *value,
            script: &self.scripts[script.clone()],
            height: *height,
            is_coinbase: *is_coinbase,
        })
    }

    /// Its script.
    pub fn script_sig(&self) -> &'b [u8] {
        self.input.script_sig()
    }

    /// Its sequence number. Source: BIP-0068.
    pub fn sequence(&self) -> u32 {
        self.input.sequence()
    }

    /// The items of its witness, the bottom of the stack first. Source: BIP-0141.
    pub fn witness(&self) -> impl ExactSizeIterator<Item = &'b [u8]> + use<'b> {
        self.input.witness()
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("outpoint", &self.outpoint())
            .field("prevout", &self.prevout())
            .finish_non_exhaustive()
    }
}

/// A coin that an input spends. Core's undo data has it as `CTxUndo::vprevout`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Prevout<'b> {
    /// Its amount in satoshi.
    pub value: i64,
    /// Its script.
    pub script: &'b [u8],
    /// Height of the block that created it.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}

impl Prevout<'_> {
    /// The type of its script.
    pub fn script_type(&self) -> ScriptType {
        ScriptType::of(self.script)
    }
}

/// An output of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Output<'b> {
    /// Its amount in satoshi.
    pub value: i64,
    /// Its script.
    pub script: &'b [u8],
}

impl Output<'_> {
    /// The type of its script.
    pub fn script_type(&self) -> ScriptType {
        ScriptType::of(self.script)
    }
}
