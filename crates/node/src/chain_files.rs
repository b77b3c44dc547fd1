//! The blocks of a chain and their undo data, read by height from the files of a data directory alone.
//!
//! The chain is the one that the coins stand on; where there is no chainstate, the one of most work among those that were
//! connected. For [`Needs::Rules`] all headers up to the range's last are checked, from the genesis block on: they say
//! what a range needs and does not hold, difficulty, median times, soft forks.

use crate::block::BlockContext;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::headers::{self, AssumeValid, ChainContext};
use crate::options::Options;
use crate::read_only::{apart, best_block, chainstate_dir, load};
use crate::tree::{NodeId, Tree};
use consensus::{Params, bip30};
use primitives::{BlockHash, Header, Height, MedianTime, Work};
use std::collections::HashMap;
use store::blockfiles::{BlockFiles, RECORD_HEADER_BYTES};
use store::index::LoadedIndex;
use store::undofiles::UndoFiles;
use store::{FilePos, IndexEntry, Status, xor};

/// What a chain is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// To judge its blocks: all headers from the genesis block on are kept and checked.
    Rules,
    /// To read its blocks.
    Blocks,
}

/// A block of the range.
struct Place {
    hash: BlockHash,
    header: Header,
    data: Option<FilePos>,
    undo: Option<FilePos>,
}

/// What the headers from the genesis block on say.
struct Rules {
    tree: Tree,
    times: Vec<MedianTime>,
    assume: AssumeValid,
    /// Whether headers leave it open that a coinbase repeats an earlier one.
    may_repeat: bool,
}

/// A range of a chain.
pub struct ChainFiles {
    params: Params,
    first: Height,
    places: Vec<Place>,
    tip: (Height, BlockHash),
    rules: Option<Rules>,
    /// Blocks below the range that may hold the coinbases which BIP30 is about.
    below: Vec<Place>,
    files: BlockFiles,
    undo_files: UndoFiles,
}

impl ChainFiles {
    /// Opens the blocks from height `first` to `last`, both included; `last` `None`: to the tip.
    ///
    /// # Errors
    ///
    /// There is no block index, it is damaged, a header breaks a rule, the chain is lower than `last`; what the system says.
    pub fn open(options: &Options, first: Height, last: Option<Height>, needs: Needs) -> Result<ChainFiles, Fault> {
        let (loaded, layout) = load(options)?;
        let chain = chain(options, &loaded)?;
        let tip = chain.last().map(|tip| (tip.height, tip.hash)).expect("a chain has its genesis block");
        let last = last.unwrap_or(tip.0);
        if first > last || last > tip.0 {
            let dir = layout.net_dir().display();
            return Err(Fault::refused(format!(
                "blocks {first} to {last}: wanted a range of the chain of {dir}, which ends at height {}",
                tip.0
            )));
        }
        let rules = match needs {
            Needs::Rules => Some(rules(options, &chain, last)?),
            Needs::Blocks => None,
        };
        let place = |entry: &&IndexEntry| Place {
            hash: entry.hash,
            header: entry.header,
            data: entry.data(),
            undo: entry.undo(),
        };
        let params = options.params.clone();
        let below_end = match &rules {
            Some(rules) if rules.may_repeat => first.to_usize().min(params.bip34_height.to_usize()),
            _ => 0,
        };
        let below = chain[..below_end].iter().map(place).collect();
        let places = chain[first.to_usize()..=last.to_usize()].iter().map(place).collect();
        let network = lock::network(&params);
        let key = xor::read_key(&*options.disk, layout.blocks_dir())?.unwrap_or(xor::NO_KEY);
        let files = BlockFiles::new(options.disk.clone(), layout.blocks_dir(), &network, key);
        let undo_files = UndoFiles::new(options.disk.clone(), layout.blocks_dir(), &network, key);
        Ok(ChainFiles { params, first, places, tip, rules, below, files, undo_files })
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

    /// Height and hash of the chain's last block.
    pub fn tip(&self) -> (Height, BlockHash) {
        self.tip
    }

    fn place(&self, height: Height) -> &Place {
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

    /// Reads a block of the range. Bytes may follow it, as its record has them.
    ///
    /// # Errors
    ///
    /// It is not there, the file is damaged, or what the system says.
    pub fn read_block(&self, height: Height) -> Result<Vec<u8>, Fault> {
        self.read(self.place(height), height)
    }

    fn read(&self, place: &Place, height: Height) -> Result<Vec<u8>, Fault> {
        match place.data {
            Some(at) => Ok(self.files.read_block(at)?),
            // Every program has this one.
            None if height == Height::GENESIS => Ok(self.params.genesis.clone()),
            None => Err(Fault::refused(format!(
                "block {} at height {height} is not in the block files: it was pruned, or never stored",
                place.hash
            ))),
        }
    }

    /// Reads what a block of the range spent; its checksum fits.
    ///
    /// # Errors
    ///
    /// As [`ChainFiles::read_block`].
    pub fn read_undo(&self, height: Height) -> Result<Vec<u8>, Fault> {
        let place = self.place(height);
        let Some(at) = place.undo else {
            return Err(Fault::refused(format!("block {} at height {height} has no undo data", place.hash)));
        };
        Ok(self.undo_files.read(at, &place.header.prev())?)
    }

    /// The blocks below the range whose coinbases a block of it might repeat, which headers cannot rule out.
    ///
    /// # Errors
    ///
    /// As [`ChainFiles::read_block`]; what `take` says.
    pub fn blocks_below(&self, mut take: impl FnMut(Height, Vec<u8>) -> Result<(), Fault>) -> Result<(), Fault> {
        for (at, place) in self.below.iter().enumerate() {
            let height = Height::from_index(at);
            take(height, self.read(place, height)?)?;
        }
        Ok(())
    }

    fn rules(&self) -> &Rules {
        self.rules.as_ref().expect("the chain was opened with its rules")
    }

    /// What the chain says about a block of the range.
    ///
    /// # Panics
    ///
    /// Without [`Needs::Rules`].
    pub fn context(&self, height: Height) -> BlockContext {
        let Rules { tree, assume, .. } = self.rules();
        ChainContext::new(tree, &self.params, assume, NodeId::new(tree.len() - 1)).block(NodeId::new(height.to_usize()))
    }

    /// Median times past by height, from the genesis block to the end of the range.
    ///
    /// # Panics
    ///
    /// As [`ChainFiles::context`].
    pub fn times(&self) -> &[MedianTime] {
        &self.rules().times
    }

    /// Work of the range's blocks.
    pub fn work(&self) -> Work {
        let work = |place: &Place| Work::of_bits(place.header.bits());
        self.places.iter().map(work).fold(Work::ZERO, Work::saturating_add)
    }

    /// Whether headers alone say that no coinbase up to the end of the range repeats an earlier one, but for the pairs that
    /// Core knows: the chain has Core's block of BIP34, or every coinbase from block 1 on begins with its height.
    ///
    /// # Panics
    ///
    /// As [`ChainFiles::context`].
    pub fn coinbases_differ(&self) -> bool {
        !self.rules().may_repeat
    }
}

/// Every header from the genesis block to `last`, checked.
fn rules(options: &Options, chain: &[&IndexEntry], last: Height) -> Result<Rules, Fault> {
    let (params, now) = (&options.params, lock::clock(options)?);
    let mut tree = headers::genesis_tree(params);
    for entry in &chain[1..=last.to_usize()] {
        headers::accept(&mut tree, params, &entry.header, entry.hash, now).map_err(|error| {
            let (height, hash) = (entry.height, entry.hash);
            Fault::refused(format!("the header {hash} at height {height} of the block index breaks a rule: {error}"))
        })?;
    }
    let times = headers::median_times(&tree, NodeId::new(tree.len() - 1)).to_vec();
    let known = chain.get(params.bip34_height.to_usize());
    let is_known = known.is_some_and(|entry| entry.hash == params.bip34_hash);
    let may_repeat = bip30::can_be_broken(params) && (!is_known || last >= bip30::BIP34_IMPLIES_BIP30_LIMIT);
    let assume = AssumeValid { hash: BlockHash::ZERO, minimum_chain_work: Work::ZERO };
    Ok(Rules { tree, times, assume, may_repeat })
}

/// The entries of the chain, by height.
fn chain<'l>(options: &Options, loaded: &'l LoadedIndex) -> Result<Vec<&'l IndexEntry>, Fault> {
    let best = match chainstate_dir(options)? {
        Some(dir) => best_block(options, &dir)?,
        None => None,
    };
    let entries = &loaded.entries;
    let tip = match best {
        Some(best) => entries.iter().rposition(|entry| entry.hash == best).ok_or_else(|| apart(best))?,
        None => most_work(entries),
    };
    let (mut chain, mut at) = (vec![&entries[tip]], tip);
    while entries[at].height > Height::GENESIS {
        let parent = entries[at].header.prev();
        // Sorted by height: a parent is among the few entries before.
        at = entries[..at].iter().rposition(|entry| entry.hash == parent).expect("every entry's parent is there");
        chain.push(&entries[at]);
    }
    chain.reverse();
    Ok(chain)
}

/// Number of the entry of most work among those that were connected; the genesis block where there are no others.
fn most_work(entries: &[IndexEntry]) -> usize {
    let mut works: HashMap<BlockHash, Work> = HashMap::new();
    let mut best = (Work::ZERO, 0);
    for (at, entry) in entries.iter().enumerate() {
        let below = works.get(&entry.header.prev()).copied().unwrap_or(Work::ZERO);
        let work = below.saturating_add(Work::of_bits(entry.header.bits()));
        works.insert(entry.hash, work);
        let is_connected = entry.status.level() >= Status::CHAIN.level() && !entry.status.is_failed();
        if is_connected && entry.undo().is_some() && work > best.0 {
            best = (work, at);
        }
    }
    best.1
}

/// Bytes of each block of the chain by height, about: the distance to what follows in its file. And hash of the last one.
///
/// # Errors
///
/// As [`ChainFiles::open`].
pub fn block_bytes(options: &Options) -> Result<(Vec<u64>, BlockHash), Fault> {
    let (loaded, _) = load(options)?;
    let chain = chain(options, &loaded)?;
    let mut starts: Vec<FilePos> = loaded.entries.iter().filter_map(IndexEntry::data).collect();
    starts.sort_unstable();
    let end_of = |file: u32| loaded.files.get(file as usize).map_or(0, |info| u64::from(info.size));
    let bytes = chain.iter().map(|entry| {
        let Some(at) = entry.data() else { return 0 };
        let next = starts.partition_point(|start| *start <= at);
        let end = match starts.get(next) {
            Some(next) if next.file == at.file => u64::from(next.offset - RECORD_HEADER_BYTES.min(next.offset)),
            _ => end_of(at.file),
        };
        end.saturating_sub(u64::from(at.offset))
    });
    Ok((bytes.collect(), chain.last().expect("a chain has its genesis block").hash))
}
