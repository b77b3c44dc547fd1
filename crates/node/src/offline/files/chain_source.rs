//! A chain without its blocks: headers, and positions of blocks and undo data, by height.
//!
//! A [`ChainSource`] is the block index of a data directory ([`IndexSource`]), or a plan that was made from one
//! (`chain_plan`). Nothing in it is trusted: headers are checked when they are used, blocks are compared with their
//! headers. The chain is that of the coins; if there is no chainstate, the chain with the most work among those that
//! were connected.

use crate::datadir::apart;
use crate::fault::Fault;
use crate::offline::read_only::{best_block, chainstate_dir, load};
use crate::options::Options;
use consensus::header::Ancestor;
use primitives::{BlockHash, Header, Height, Work};
use std::collections::HashMap;
use std::ops::Range;
use store::blockfiles::RECORD_HEADER_BYTES;
use store::index::LoadedIndex;
use store::{FilePos, IndexEntry, Status};

/// A block of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChainBlock {
    pub(crate) hash: BlockHash,
    pub(crate) header: Header,
    pub(crate) data: Option<FilePos>,
    pub(crate) undo: Option<FilePos>,
    /// Its approximate bytes: the distance to the next position in its file.
    pub(crate) bytes: u32,
}

/// Source of a chain.
pub(crate) trait ChainSource {
    /// Height and hash of the last block.
    fn tip(&self) -> (Height, BlockHash);

    /// Times and nBits of `count` blocks, from the genesis block on; the chain has at least this number.
    ///
    /// # Errors
    ///
    /// An I/O error.
    fn ancestors(&self, count: usize) -> Result<Vec<Ancestor>, Fault>;

    /// The blocks of these heights, which are in the chain.
    ///
    /// # Errors
    ///
    /// Malformed rows, or an I/O error.
    fn places(&self, heights: Range<usize>) -> Result<Vec<ChainBlock>, Fault>;
}

/// The chain of a data directory, by its block index.
pub(crate) struct IndexSource {
    loaded: LoadedIndex,
    /// Indexes of the chain's entries, by height.
    chain: Vec<u32>,
    /// Positions of blocks of all chains, sorted.
    starts: Vec<FilePos>,
}

impl IndexSource {
    /// Reads the block index, and the coins' best block.
    ///
    /// # Errors
    ///
    /// There is no block index, it is damaged, or the coins belong to another chain; an I/O error.
    pub(crate) fn open(options: &Options) -> Result<IndexSource, Fault> {
        let (loaded, _) = load(options)?;
        let chain = chain(options, &loaded)?;
        let mut starts: Vec<FilePos> = loaded.entries.iter().filter_map(IndexEntry::data).collect();
        starts.sort_unstable();
        Ok(IndexSource { loaded, chain, starts })
    }

    fn entry(&self, height: usize) -> &IndexEntry {
        &self.loaded.entries[self.chain[height] as usize]
    }

    /// Number of blocks in the chain.
    pub(crate) fn count(&self) -> usize {
        self.chain.len()
    }

    /// Approximate bytes of a block.
    pub(crate) fn bytes(&self, height: usize) -> u32 {
        let Some(at) = self.entry(height).data() else { return 0 };
        let next = self.starts.partition_point(|start| *start <= at);
        let end = match self.starts.get(next) {
            Some(next) if next.file == at.file => next.offset - RECORD_HEADER_BYTES.min(next.offset),
            _ => self.loaded.files.get(at.file as usize).map_or(0, |info| info.size),
        };
        end.saturating_sub(at.offset)
    }
}

impl ChainSource for IndexSource {
    fn tip(&self) -> (Height, BlockHash) {
        let tip = self.entry(self.count() - 1);
        (tip.height, tip.hash)
    }

    fn ancestors(&self, count: usize) -> Result<Vec<Ancestor>, Fault> {
        let ancestor = |height| {
            let header = self.entry(height).header;
            Ancestor { time: header.time(), bits: header.bits() }
        };
        Ok((0..count).map(ancestor).collect())
    }

    fn places(&self, heights: Range<usize>) -> Result<Vec<ChainBlock>, Fault> {
        let place = |height| {
            let entry = self.entry(height);
            let hash = entry.hash;
            let header = entry.header;
            ChainBlock { hash, header, data: entry.data(), undo: entry.undo(), bytes: self.bytes(height) }
        };
        Ok(heights.map(place).collect())
    }
}

/// Indexes of the entries of the chain, by height.
fn chain(options: &Options, loaded: &LoadedIndex) -> Result<Vec<u32>, Fault> {
    let best = match chainstate_dir(options)? {
        Some(dir) => best_block(options, &dir)?,
        None => None,
    };
    let entries = &loaded.entries;
    let tip = match best {
        Some(best) => entries.iter().rposition(|entry| entry.hash == best).ok_or_else(|| apart(best))?,
        None => most_work(entries),
    };
    let mut chain = vec![tip as u32];
    let mut at = tip;
    while entries[at].height > Height::GENESIS {
        let parent = entries[at].header.prev();
        // Sorted by height: a parent is among the few entries before.
        at = entries[..at].iter().rposition(|entry| entry.hash == parent).expect("every entry's parent is there");
        chain.push(at as u32);
    }
    chain.reverse();
    Ok(chain)
}

/// Index of the entry with the most work among those that were connected; the genesis block if there are no others.
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

/// Hash of each block of the chain by height, and its approximate bytes: the distance to the next position in its file.
///
/// # Errors
///
/// There is no block index, or it is damaged; an I/O error.
pub fn block_bytes(options: &Options) -> Result<Vec<(BlockHash, u64)>, Fault> {
    let source = IndexSource::open(options)?;
    let block = |height| (source.entry(height).hash, u64::from(source.bytes(height)));
    Ok((0..source.count()).map(block).collect())
}
