//! The blocks of a chain and their undo data, read by height, using only the files of a data directory.
//!
//! A [`ChainSource`] says which blocks these are, and at which positions. For [`Needs::Rules`] the headers of the range are
//! checked against times and nBits of the blocks below, which [`ChainFiles::digests`] identifies.

use crate::chain::block::{Bip30, BlockContext, HeaderContext};
use crate::chain::tree::NodeId;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline::files::chain_plan::PlanFile;
use crate::offline::files::chain_rules::{check_headers, digest, median_time_past};
use crate::offline::files::chain_source::{ChainBlock, ChainSource, IndexSource};
use crate::options::Options;
use consensus::header::Ancestor;
use consensus::{Cleanup, Params, ScriptCheckReason, bip30, flags};
use kernels::Kernels;
use primitives::undo::spent_coins;
use primitives::{Block, BlockHash, CoinRef, Header, Height, MedianTime, Tables, Txid, Work};
use std::path::Path;
use std::sync::Arc;
use store::blockfiles::BlockFiles;
use store::private_files::PrivateDir;
use store::signature_hints::{SignatureHints, kept};
use store::undofiles::UndoFiles;
use store::xor;
use store::{FilePos, Host};
use sys::spill::Spill;

/// Why a chain is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// To validate its blocks: the range's headers are checked.
    Rules,
    /// To read its blocks.
    Blocks,
}

/// Facts from the headers.
struct Rules {
    /// Time and nBits of all blocks from the genesis block to the range's last.
    ancestors: Vec<Ancestor>,
    /// Hash of the block at BIP34's activation height, if the chain has one.
    bip34: Option<BlockHash>,
    /// Whether a coinbase may repeat an earlier one, as far as headers show.
    may_repeat: bool,
    /// Whether BIP-0054 is active for every block except the genesis block.
    cleanup: Cleanup,
}

/// A block of a chain with the coins that it spent: it matches its header, and its undo data has a coin for each input.
pub struct WholeBlock {
    bytes: Vec<u8>,
    tables: Tables,
    txids: Vec<Txid>,
    undo: Spill,
}

impl WholeBlock {
    /// The block.
    pub fn block(&self) -> Block<'_> {
        self.tables.block(&self.bytes)
    }

    /// Ids of its transactions.
    pub fn txids(&self) -> &[Txid] {
        &self.txids
    }

    /// The coins that its inputs spent, in order, without the coinbase's.
    pub fn spent(&self) -> Vec<CoinRef<'_>> {
        spent_coins(&self.undo, &self.block()).expect("it was read once")
    }
}

/// A range of a chain.
pub struct ChainFiles {
    pub(crate) host: Host,
    params: Params,
    first: Height,
    places: Vec<ChainBlock>,
    rules: Option<Rules>,
    /// Blocks below the range whose coinbases may be those of BIP30.
    below: Vec<ChainBlock>,
    files: BlockFiles,
    undo_files: UndoFiles,
    pub(crate) hints: Option<Arc<SignatureHints>>,
}

impl ChainFiles {
    /// Opens the blocks from height `first` to `last`, both included; `last` `None`: to the tip. With a plan the block
    /// index is not read.
    ///
    /// # Errors
    ///
    /// There is no block index or plan, it is damaged, a header breaks a rule, or the chain is lower than `last`; an
    /// I/O error.
    pub fn open(
        options: &Options,
        first: Height,
        last: Option<Height>,
        needs: Needs,
        plan: Option<&Path>,
    ) -> Result<ChainFiles, Fault> {
        let params = options.params.clone();
        let layout = lock::layout(options);
        layout.check(&*options.disk)?;
        let source: Box<dyn ChainSource> = match plan {
            Some(path) => Box::new(PlanFile::open(path, &params, options.kernels)?),
            None => Box::new(IndexSource::open(options)?),
        };
        let tip = source.tip().0;
        let last = last.unwrap_or(tip);
        if first > last || last > tip {
            let dir = layout.net_dir().display();
            let why =
                format!("blocks {first} to {last}: wanted a range of the chain of {dir}, which ends at height {tip}");
            return Err(Fault::refused(why, "Name a range up to the tip"));
        }
        let places = source.places(first.to_usize()..last.to_usize() + 1)?;
        let rules = match needs {
            Needs::Rules => Some(rules(options, &*source, first, &places)?),
            Needs::Blocks => None,
        };
        let below_end = match &rules {
            Some(rules) if rules.may_repeat => first.to_usize().min(params.bip34_height.to_usize()),
            _ => 0,
        };
        let below = source.places(0..below_end)?;
        let network = lock::network(&params);
        let key = xor::find_key(&*options.disk, layout.blocks_dir(), &network)?.key;
        let files = BlockFiles::new(options.host(), layout.blocks_dir(), &network, key);
        let undo_files = UndoFiles::new(options.host(), layout.blocks_dir(), &network, key);
        let hints = match &options.signature_hints {
            Some(given) => Some(given.clone()),
            // With a plan the directory may be far away. Hints that cannot be read are as if there were none.
            None if rules.is_some() && plan.is_none() && options.uses_hints() => {
                let private = PrivateDir::new(options.disk.clone(), layout.private_dir());
                kept::open(&private).ok().flatten().map(Arc::new)
            }
            None => None,
        };
        Ok(ChainFiles { host: options.host(), params, first, places, rules, below, files, undo_files, hints })
    }

    /// Hash functions for its blocks.
    pub fn kernels(&self) -> Kernels {
        self.host.kernels
    }

    /// The network's rules.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Height of the first block of the range.
    pub fn first(&self) -> Height {
        self.first
    }

    /// Height of the last block of the range.
    pub fn last(&self) -> Height {
        self.first + (self.places.len() as u32 - 1)
    }

    fn place(&self, height: Height) -> &ChainBlock {
        &self.places[height.blocks_above(self.first) as usize]
    }

    /// Hash of a block of the range.
    pub fn hash(&self, height: Height) -> BlockHash {
        self.place(height).hash
    }

    /// Header of a block of the range.
    pub fn header(&self, height: Height) -> Header {
        self.place(height).header
    }

    /// Approximate bytes of each block of the range, in order.
    pub fn block_bytes(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.bytes.into()).collect()
    }

    /// Reads a block of the range. Bytes may follow it, as in its record.
    ///
    /// # Errors
    ///
    /// It does not exist, the file is damaged, or an I/O error.
    pub fn read_block(&self, height: Height) -> Result<Vec<u8>, Fault> {
        self.read(self.place(height), height)
    }

    fn read(&self, place: &ChainBlock, height: Height) -> Result<Vec<u8>, Fault> {
        match place.data {
            Some(at) => Ok(self.files.read_block(at)?),
            // The genesis block is built in.
            None if height == Height::GENESIS => Ok(self.params.genesis.clone()),
            None => {
                let why = format!(
                    "block {} at height {height} is not in the block files: it was pruned, or never stored",
                    place.hash
                );
                Err(Fault::refused(why, "Use a data directory that has all blocks, or name a range that this one has"))
            }
        }
    }

    /// Reads the undo data of a block of the range, and checks its checksum.
    ///
    /// # Errors
    ///
    /// Those of [`ChainFiles::read_block`].
    pub fn read_undo(&self, height: Height) -> Result<Spill, Fault> {
        let place = self.place(height);
        let Some(at) = place.undo else {
            let why = format!("block {} at height {height} has no undo data", place.hash);
            return Err(Fault::refused(why, "Run ffwd repair, or use a data directory that is not pruned"));
        };
        Ok(self.undo_files.read(at, &place.header.prev())?)
    }

    /// Reads a block of the range and the coins that it spent. Only two facts are checked: the block matches its
    /// header, and the undo data matches the block.
    ///
    /// # Errors
    ///
    /// Those of [`ChainFiles::read_block`]; the files contain something else.
    pub fn read_whole(&self, height: Height) -> Result<WholeBlock, Fault> {
        let bytes = self.read_block(height)?;
        let place = self.place(height);
        let at = place.data.unwrap_or(FilePos { file: 0, offset: 0 });
        let bad = |found: &str| Fault::damaged_block(&self.files, at, &place.hash, height, found);
        let mut tables = Tables::with(self.host.kernels);
        let block = tables.parse_block(&bytes).map_err(|why| bad(&why.to_string()))?;
        if block.header() != place.header {
            return Err(bad("a block with another header"));
        }
        let txids = block.txids_of_header().ok_or_else(|| bad("transactions that are not those of its header"))?;
        let undo = if height == Height::GENESIS { Spill::from(&[0][..]) } else { self.read_undo(height)? };
        if spent_coins(&undo, &block).is_none() {
            return Err(bad("undo data that does not fit it"));
        }
        if !block.transaction(0).is_coinbase() {
            return Err(bad("a first transaction that is not a coinbase"));
        }
        Ok(WholeBlock { bytes, tables, txids, undo })
    }

    /// Reads the blocks below the range whose coinbases a block of it might repeat, as far as headers show.
    ///
    /// # Errors
    ///
    /// Those of [`ChainFiles::read_block`], and of `take`.
    pub fn blocks_below(&self, mut take: impl FnMut(Height, Vec<u8>) -> Result<(), Fault>) -> Result<(), Fault> {
        for (at, place) in self.below.iter().enumerate() {
            let height = Height::from_index(at);
            let bytes = self.read(place, height)?;
            if !bytes.starts_with(&place.header.0) {
                let hash = place.hash;
                let why = format!("block {hash} at height {height}: its place in the block files has another block");
                return Err(Fault::refused(why, "Run ffwd repair, or ffwd reindex if that finds nothing"));
            }
            take(height, bytes)?;
        }
        Ok(())
    }

    fn rules(&self) -> &Rules {
        self.rules.as_ref().expect("the chain was opened with its rules")
    }

    /// The place in the chain of a block of the range. Its scripts are always run.
    ///
    /// # Panics
    ///
    /// If the files were opened without [`Needs::Rules`].
    pub fn context(&self, height: Height) -> BlockContext {
        let params = &self.params;
        let place = self.place(height);
        let bip34 = self.rules().bip34.as_ref().filter(|_| height > params.bip34_height);
        let bip30 = match bip30::is_enforced(params, height, &place.hash, bip34) {
            false => Bip30::NotEnforced,
            true if bip30::can_be_broken(params) => Bip30::Enforced,
            true => Bip30::Unbreakable,
        };
        let hash = place.hash;
        let header = place.header;
        // Genesis counts as its own parent.
        let parent_mtp = self.median_time_past(height.saturating_sub(1));
        // Core does not check the genesis block.
        let cleanup = if height == Height::GENESIS { Cleanup::Off } else { self.rules().cleanup };
        let at = HeaderContext { node: NodeId::new(height.to_usize()), hash, header, height, parent_mtp, cleanup };
        BlockContext {
            script_reason: Some(ScriptCheckReason::AlwaysVerify),
            flags: flags::of_block(params, height, &hash),
            bip30,
            overwrites: bip30::is_repeat(height, &hash),
            at,
        }
    }

    /// Median time past of a block of the chain up to the range's last.
    ///
    /// # Panics
    ///
    /// Those of [`ChainFiles::context`].
    pub fn median_time_past(&self, height: Height) -> MedianTime {
        median_time_past(&self.rules().ancestors, height)
    }

    /// SHA-256 of times and nBits, eight bytes each, of all blocks below the range, against which its headers and
    /// relative locks are checked; and the same up to the end of the range.
    ///
    /// # Panics
    ///
    /// Those of [`ChainFiles::context`].
    pub fn digests(&self) -> [[u8; 32]; 2] {
        let ancestors = &self.rules().ancestors;
        [digest(&ancestors[..self.first.to_usize()]), digest(ancestors)]
    }

    /// Whether the chain is assumed to have Core's block at BIP34's activation height. If the range includes that
    /// height, this is known, not assumed.
    ///
    /// # Panics
    ///
    /// Those of [`ChainFiles::context`].
    pub fn has_known_bip34(&self) -> bool {
        has_known_bip34(&self.params, self.rules().bip34)
    }

    /// Work of the range's blocks.
    pub fn work(&self) -> Work {
        let work = |place: &ChainBlock| Work::of_bits(place.header.bits());
        self.places.iter().map(work).fold(Work::ZERO, Work::saturating_add)
    }

    /// Whether headers show that no coinbase up to the end of the range repeats an earlier one, except for the pairs
    /// that Core knows: the chain has Core's block of BIP34, or every coinbase from block 1 on begins with its height.
    ///
    /// # Panics
    ///
    /// Those of [`ChainFiles::context`].
    pub fn coinbases_differ(&self) -> bool {
        !self.rules().may_repeat
    }
}

fn has_known_bip34(params: &Params, bip34: Option<BlockHash>) -> bool {
    bip30::can_be_broken(params) && bip34 == Some(params.bip34_hash)
}

/// Checks the headers of the range.
fn rules(options: &Options, source: &dyn ChainSource, first: Height, places: &[ChainBlock]) -> Result<Rules, Fault> {
    let params = &options.params;
    let now = lock::clock(options)?;
    let cleanup = Cleanup::everywhere(params).ok_or_else(|| {
        let why = "blocks of this chain signal for rules (-vbparams), and a range of it does not have all of them";
        Fault::refused(why, "Leave -vbparams out, or let it say always (-1) or never (-2)")
    })?;
    let count = first.to_usize() + places.len();
    let ancestors = source.ancestors(count)?;
    check_headers(params, &ancestors, first, places, now).map_err(|bad| {
        let (height, hash, error) = *bad;
        let why = format!("the header {hash} at height {height} of the block index breaks a rule: {error}");
        Fault::refused(why, "Name the right network with --chain, or run ffwd reindex")
    })?;
    let bip34 = params.bip34_height;
    let bip34 = match bip34 <= source.tip().0 {
        true => source.places(bip34.to_usize()..bip34.to_usize() + 1)?.first().map(|place| place.hash),
        false => None,
    };
    let is_high = Height::from_index(count - 1) >= bip30::BIP34_IMPLIES_BIP30_LIMIT;
    let may_repeat = bip30::can_be_broken(params) && (!has_known_bip34(params, bip34) || is_high);
    Ok(Rules { ancestors, bip34, may_repeat, cleanup })
}
