//! Rebuilds the block index from the block files, and keeps the coins.
//!
//! Of each block the header and the record size are read. On the chain up to the coins' best block, the transaction
//! count and the place of the undo data are read too; the undo data's checksums prove the place. No block is connected.
//! Blocks on other branches and above the coins' best block are added later, each after a check.
//!
//! If the files lack a block of that chain, they lack its header too: headers then come from `--from` and from peers,
//! and the block is fetched like a damaged one.
//!
//! While a snapshot is loaded, that chain has two parts: up to the best block of the past's coins, and from the snapshot
//! on. The blocks in between stay to be validated.
//! Absent on purpose: whether the blocks are intact. The deep check after this step detects damaged ones.

use super::Repair;
use super::blocks::Opened;
use crate::chain::index::BlockIndex;
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::lock::{self, Locked};
use crate::datadir::scan::{self, Scan};
use crate::fault::Fault;
use crate::offline::doctor::transactions;
use crate::options::Prune;
use crate::reporting::Reporter;
use primitives::{BlockHash, Height};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use store::blockfiles::BlockFiles;
use store::chainstate::{self, Chainstate};
use store::index::{IndexChanges, LoadedIndex};
use store::undo_places::{Owner, UndoPlaces};
use store::undofiles::UndoFiles;
use store::{FileInfos, FilePos, Layout, prune};

/// If the first this many block files are missing, they count as pruned; a single missing file may be lost.
const PRUNED_FILES_MIN: u32 = 2;

/// Result of rebuilding the index.
enum Remade {
    /// Complete: the index reaches the coins' best block.
    Whole { height: Height, blocks: usize, absent: usize },
    /// The files do not link the coins' best block to the genesis block. Only headers are in the index.
    Gap,
}

/// The block that the coins belong to.
#[derive(Clone, Copy)]
pub(super) struct Stand {
    best: BlockHash,
    /// The block before an interrupted flush of Core's.
    pub(super) from: Option<BlockHash>,
    /// The snapshot from which the coins were made, if its past is not validated.
    on: Option<OnSnapshot>,
}

#[derive(Clone, Copy)]
struct OnSnapshot {
    base: BlockHash,
    /// Best block of the past's coins, if they can be read.
    past: Option<BlockHash>,
}

/// A block of the chain up to the coins' best block that is stored in a file.
struct OfChain {
    node: NodeId,
    at: FilePos,
    prev: BlockHash,
}

/// Blocks of that chain in one pair of block file and undo file.
struct OfFile {
    /// For each block its transaction count, and the place of its undo data.
    blocks: Vec<(NodeId, u32, Option<u32>)>,
    /// Number of the files.
    file: u32,
    /// End of the last undo data of these blocks.
    undo_end: u32,
}

impl Repair<'_> {
    /// Rebuilds the block index, and keeps the coins if they are valid.
    pub(super) fn index(&mut self) -> Result<(), Fault> {
        let Some(stand) = self.stand() else {
            return self.whole("the block index cannot be read, or does not go with the chainstate");
        };
        if let Some(on) = stand.on
            && self.is_unknown(&on.base)
        {
            // The index is readable: it only lacks that header, or the hash is not that of a block.
            if self.is_alone() {
                return Err(lacks_headers(stand.best));
            }
            self.headers(&on.base)?;
            if self.is_unknown(&on.base) {
                return self.forget_snapshot("no peer knows its base block");
            }
        }
        let mut remade = self.remake(stand)?;
        if matches!(remade, Remade::Gap) {
            if self.is_alone() {
                return Err(lacks_headers(stand.best));
            }
            self.headers(&stand.best)?;
            remade = self.remake(stand)?;
        }
        match remade {
            Remade::Whole { height, blocks, absent } => {
                let lacking =
                    if absent == 0 { String::new() } else { format!("; {absent} of its blocks are in no file") };
                self.done(format!(
                    "The block index was made again from {blocks} blocks of the block files, and the UTXO set stays as it is, at \
                     height {height}{lacking}"
                ));
                self.wants_settle = true;
                self.is_remade = true;
                Ok(())
            }
            Remade::Gap => self.whole("no peer knows the best block of the UTXO set"),
        }
    }

    /// Whether there is a block index, and it lacks this block.
    fn is_unknown(&self, hash: &BlockHash) -> bool {
        let known = self.known_index().filter(|loaded| !loaded.entries.is_empty());
        known.is_some_and(|loaded| loaded.entries.iter().all(|entry| entry.hash != *hash))
    }

    /// Whether there is no other source of headers and blocks.
    pub(super) fn is_alone(&self) -> bool {
        self.sync.seeks_none() && self.sync.from.is_empty()
    }

    /// The block that the coins belong to. `None` if there are no coins worth keeping.
    pub(super) fn stand(&self) -> Option<Stand> {
        let layout = lock::layout(self.options);
        let open = |dir: &Path| Chainstate::open_read_only(self.options.host(), dir).ok();
        let past = layout.chainstate_dir();
        let base = chainstate::snapshot_base(&*self.options.disk, &layout).ok()?;
        let best =
            |coins: Chainstate| Some(coins.head_blocks().ok()?.map(|heads| heads.new).or(coins.best_block().ok()?));
        let on = base.map(|base| OnSnapshot { base, past: open(&past).and_then(best).flatten() });
        let coins = open(&if on.is_some() { layout.snapshot_dir() } else { past })?;
        let stand = match coins.head_blocks().ok()? {
            Some(heads) => Stand { best: heads.new, from: heads.old, on },
            None => Stand { best: coins.best_block().ok()??, from: None, on },
        };
        (stand.best != self.options.params.genesis_hash).then_some(stand)
    }

    fn remake(&self, stand: Stand) -> Result<Remade, Fault> {
        let options = self.options;
        let now = lock::clock(options)?;
        // Up to its base a snapshot needs no blocks.
        let locked = lock::lock(options, self.events, stand.on.is_none())?;
        let reporter = lock::reporter(self.events, options, "repair");
        let Locked { host, layout, files, .. } = &locked;
        let network = lock::network(&options.params);
        let known = self.known_index();
        not_pruned(options.prune, known.as_ref(), files, layout)?;
        let Scan { blocks: found, ends, .. } = scan::scan(files, options.par, &reporter)?;
        let count = found.len();
        let mut index = BlockIndex::new(&options.params);
        index.reserve(count);
        known.iter().for_each(|known| take_known(&mut index, known));
        index.take_in(&options.params, found, now);
        let mut infos = FileInfos::default();
        let headers = index.headers();
        let stands = headers.find(&stand.best).filter(|&tip| {
            let is_below = |hash: BlockHash| headers.find(&hash).is_some_and(|at| headers.is_ancestor(at, tip));
            stand.from.is_none_or(is_below) && stand.on.is_none_or(|on| is_below(on.base))
        });
        let absent = match stands {
            Some(tip) => {
                let chain = match stand.on {
                    None => headers.path(GENESIS, tip),
                    Some(OnSnapshot { base, past }) => {
                        let base = headers.find(&base).expect("it is below the tip");
                        let past = past.and_then(|past| headers.find(&past));
                        let past = past.filter(|&past| headers.height(past) <= headers.height(base));
                        let mut chain = headers.path(GENESIS, past.unwrap_or(GENESIS));
                        chain.extend(headers.path(base, tip));
                        index.assume(base);
                        index.list_assumed();
                        chain
                    }
                };
                let undo = UndoFiles::new(host, layout.blocks_dir(), &network, locked.key);
                let from = FromFiles { blocks: files, undo: &undo, par: options.par, reporter: &reporter };
                from.connect(&mut index, &mut infos, chain)?
            }
            None => {
                index.list_all();
                0
            }
        };
        infos.cover_all(&ends);
        let entries = index.listed_entries();
        let changes = IndexChanges {
            entries: &entries,
            files: &infos.take_changed(),
            last_file: Some(infos.last_file()),
            pruned: known.is_some_and(|known| known.is_pruned).then_some(true),
            ..IndexChanges::default()
        };
        reporter.with_room(|| store::reindex::replace_index(host, layout, &changes)?.settle())?;
        reporter.with_room(|| store::reindex::forget(&locked.disk, layout))?;
        Ok(match stands {
            Some(tip) => Remade::Whole { height: index.headers().height(tip), blocks: count, absent },
            None => Remade::Gap,
        })
    }

    /// Adds headers from `--from` and from peers to the existing index, until the header `wanted` is known.
    fn headers(&self, wanted: &BlockHash) -> Result<(), Fault> {
        let opened = Opened::new(self.options, self.events)?;
        let is_there = |opened: &Opened<'_>| opened.index.headers().find(wanted).is_some();
        opened.headers_from_files(self.sync)?;
        if !is_there(&opened) {
            opened.headers_from_peers(self.sync, &|opened| is_there(opened))?;
        }
        opened.writer.commit(&opened.reporter, None)
    }
}

/// Fails if the directory is pruned and no readable index describes its pruned blocks.
fn not_pruned(prune: Prune, known: Option<&LoadedIndex>, files: &BlockFiles, layout: &Layout) -> Result<(), Fault> {
    let numbers = files.numbers()?;
    let first = numbers.there.first().copied().unwrap_or_default();
    if known.is_some() || (prune == Prune::Off && first < PRUNED_FILES_MIN) {
        return Ok(());
    }
    let why = format!(
        "{}: the block index of a pruned data directory cannot be rebuilt: only that index has the transaction \
         counts of the pruned blocks (the first block file is number {first}). Nothing was changed",
        layout.index_dir().display()
    );
    let advice =
        "Put the block index back from a copy; or start again in an empty data directory, with ffwd sync --prune";
    Err(Fault::refused(why, advice))
}

fn lacks_headers(best: BlockHash) -> Fault {
    let why = format!(
        "the block index is made again from the block files, and these lack blocks below {best}, the best block of the UTXO set. \
         The UTXO set was not touched"
    );
    Fault::refused(
        why,
        "Run ffwd repair with peers that have the whole chain (--connect), or with files that have it (--from)",
    )
}

/// Takes over headers, marks and pruned blocks from a readable index that does not reach the coins.
fn take_known(index: &mut BlockIndex, known: &LoadedIndex) {
    for entry in &known.entries {
        let Some(id) = index.insert_known(entry) else { continue };
        if prune::is_block_pruned(known, entry) {
            index.load_pruned(id, entry);
        } else if entry.status.is_failed() {
            index.invalid(id);
        }
    }
}

/// Context of reading the files.
struct FromFiles<'f> {
    blocks: &'f BlockFiles,
    undo: &'f UndoFiles,
    par: usize,
    reporter: &'f Reporter<'f>,
}

impl FromFiles<'_> {
    /// Marks the blocks of `chain` as connected, with the facts read from them. Returns the number of blocks that are in
    /// no file.
    fn connect(&self, index: &mut BlockIndex, infos: &mut FileInfos, chain: Vec<NodeId>) -> Result<usize, Fault> {
        let mut by_file: BTreeMap<u32, Vec<OfChain>> = BTreeMap::new();
        for &node in &chain {
            if let Some(at) = index.body(node).location() {
                let prev = index.headers().header(node).prev();
                by_file.entry(at.file).or_default().push(OfChain { node, at, prev });
            }
        }
        let by_file: Vec<(u32, Vec<OfChain>)> = by_file.into_iter().collect();
        let look = |at: usize| self.look(by_file[at].0, &by_file[at].1);
        let mut of_chain: HashMap<NodeId, (u32, Option<u32>)> = HashMap::with_capacity(chain.len());
        for OfFile { blocks, file, undo_end } in scan::scan_each(by_file.len(), self.par, self.reporter, look)? {
            infos.change(file, |info| info.undo_size = undo_end);
            of_chain.extend(blocks.into_iter().map(|(node, transactions, undo)| (node, (transactions, undo))));
        }
        if index.body(GENESIS).location().is_some() {
            index.checked_genesis();
        }
        let mut absent = 0;
        for &node in &chain {
            match of_chain.get(&node) {
                Some(&(transactions, undo)) => index.connected(node, transactions, undo),
                None => {
                    absent += usize::from(!index.body(node).is_pruned());
                    index.connected(node, index.body(node).transactions(), None);
                }
            }
        }
        for node in [GENESIS].into_iter().chain(chain) {
            let body = *index.body(node);
            if let Some(at) = body.location() {
                infos.add_existing(at, body.size(), index.headers().height(node), index.headers().time(node));
            }
        }
        Ok(absent)
    }

    /// Reads the facts of these blocks from one pair of files.
    fn look(&self, file: u32, blocks: &[OfChain]) -> store::Result<OfFile> {
        let mut owners = Vec::with_capacity(blocks.len());
        for OfChain { at, prev, .. } in blocks {
            owners.push(Owner { prev: *prev, transactions: transactions(self.blocks, *at)? });
        }
        let UndoPlaces { places, end, .. } = self.undo.places(file, &owners)?;
        let found = blocks.iter().zip(owners).zip(places);
        let found = found.map(|((block, owner), undo)| {
            // A transaction count from the undo data is proven by its checksum; the block's own count is not.
            let transactions = undo.map_or(owner.transactions, |undo| undo.transactions);
            (block.node, transactions, undo.map(|undo| undo.offset))
        });
        Ok(OfFile { blocks: found.collect(), file, undo_end: end })
    }
}
