//! Brings indexes up to a block of the chain from block and undo files. All processors take part, and each block is
//! read once for all indexes.
//!
//! An index that is off the chain, or above its end, is rewound first. Workers build the records of blocks in any
//! order; the calling thread adds them in block order and commits at intervals, so that an interrupted run continues
//! there.

use super::DataDir;
use crate::chain::tree::NodeId;
use crate::fault::{Ended, Fault, Message};
use crate::indexing::{IndexedBlock, Indexing};
use crate::pipeline::engine::EngineBackend;
use crate::pipeline::stages::block_place;
use crate::pipeline::stats::Snapshot;
use crate::threads::locks::{lock, wait};
use crate::threads::{self, AtEnd};
use indexes::block::BlockFilter;
use indexes::{BlockRecords, IndexKind, Wanted, locator};
use primitives::undo::spent_coins;
use primitives::{BlockHash, Height, Tables};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use store::indexes::rebuild_advice;
use store::{FaultKind, FilePos};
use sys::spill::Spill;

/// Maximum number of finished blocks that wait for their turn, per worker.
const BLOCKS_AHEAD: usize = 32;
/// Time between commits. Source: Core's `SYNC_LOCATOR_WRITE_INTERVAL`.
const COMMIT_INTERVAL: Duration = Duration::from_secs(30);

/// First block that an index lacks.
#[derive(Clone, Copy)]
struct From {
    kind: IndexKind,
    first: Height,
}

/// Blocks between the workers and the thread that adds them in order.
struct Ahead {
    claimed: usize,
    taken: usize,
    done: BTreeMap<usize, Result<(IndexedBlock, BlockRecords), Fault>>,
}

impl DataDir<'_> {
    /// Opens the configured indexes and brings them up to `tip`, the coins' best block.
    ///
    /// # Errors
    ///
    /// An index that is damaged or does not match the chain, blocks that are pruned or damaged, or an I/O error.
    pub(crate) fn open_indexes(&self, kinds: &[IndexKind], tip: NodeId) -> Result<Ended, Fault> {
        if kinds.is_empty() || self.indexing.get().is_some() {
            return Ok(Ended::Done);
        }
        self.say_old(kinds)?;
        let opened =
            self.reporter.with_room(|| Indexing::open(&self.host, &self.layout, kinds, self.options.dbcache_bytes))?;
        let indexing = self.indexing.get_or_init(|| opened);
        self.bring_indexes_up(indexing, tip)
    }

    /// Brings open indexes up to `tip`, the coins' best block.
    ///
    /// # Errors
    ///
    /// Those of [`DataDir::open_indexes`].
    pub(crate) fn bring_indexes_up(&self, indexing: &Indexing, tip: NodeId) -> Result<Ended, Fault> {
        let from = self.take_up(indexing, tip)?;
        indexing.repair_filters(&self.reporter, &|hash, file| self.filter_again(hash, file))?;
        if self.rewind_indexes(indexing, tip)? == Ended::Stopped {
            return Ok(Ended::Stopped);
        }
        let ended = self.index_up_to(indexing, &from, tip)?;
        self.commit_indexes(tip)?;
        Ok(ended)
    }

    /// Warns of an index directory in an obsolete format. Source: Bitcoin Core b88bffe,
    /// `CoinStatsIndex::CoinStatsIndex`.
    fn say_old(&self, kinds: &[IndexKind]) -> Result<(), Fault> {
        let old = self.layout.indexes_dir().join("coinstats");
        if kinds.contains(&IndexKind::CoinStats) && self.disk.metadata(&old).map_err(store::Fault::from)?.is_some() {
            let why = format!("Old version of coinstatsindex found at {}.", old.display());
            let advice =
                "This directory can be safely deleted unless you plan to downgrade your node to version 29 or lower.";
            self.reporter.warn(Message::new(why, advice));
        }
        Ok(())
    }

    /// Commits the indexes up to `tip`; the coins of `tip` must be committed already.
    pub(crate) fn commit_indexes(&self, tip: NodeId) -> Result<(), Fault> {
        let Some(indexing) = self.fed_indexes() else { return Ok(()) };
        let (hash, locator) = self.locator(tip);
        indexing.commit(&self.reporter, self.options.par, hash, &locator)
    }

    /// Commits the indexes up to `tip` and completes pending LevelDB work, for a clean shutdown.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn finish_indexes(&self, tip: NodeId) -> Result<(), Fault> {
        self.commit_indexes(tip)?;
        self.fed_indexes().map_or(Ok(()), |indexing| indexing.settle(&self.reporter))
    }

    fn locator(&self, tip: NodeId) -> (BlockHash, Vec<BlockHash>) {
        let tree = self.headers();
        let heights = locator::heights(tree.height(tip));
        (tree.hash(tip), heights.into_iter().map(|height| tree.hash(tree.ancestor(tip, height))).collect())
    }

    /// Determines for each index the first block on the chain of `tip` that it lacks.
    fn take_up(&self, indexing: &Indexing, tip: NodeId) -> Result<Vec<From>, Fault> {
        let mut from = Vec::new();
        for (kind, root, best) in indexing.positions() {
            let Some(best) = best else {
                from.push(From { kind, first: Height::GENESIS });
                continue;
            };
            let place = {
                let tree = self.headers();
                tree.find(&best).map(|node| (tree.height(node), tree.height(tree.fork(node, tip))))
            };
            let Some((height, fork)) = place else {
                let wanted = "an index of this chain";
                let found =
                    format!("best block of {} not found ({best}): it is ahead, or of another chain", kind.core_name());
                let advice = rebuild_advice(kind, &root);
                return Err(store::Fault::new(FaultKind::Refused, &root, wanted, found, advice).into());
            };
            let has_legacy = indexing.take_up(kind, best, height)?;
            from.push(From { kind, first: fork + 1 });
            if has_legacy {
                self.reporter.note(format!(
                    "{}: txindex has entries of the older format, which are read; new ones are of the newer format, which is \
                     smaller. To have all of them so, remove that directory and run ffwd index --only txindex",
                    root.display()
                ));
            }
            if height > fork {
                self.check_rewind(kind, &root, best, tip)?;
                let blocks = height.blocks_above(fork);
                self.reporter.note(format!(
                    "{} is at height {height}, off the chain or above its end: its last {blocks} blocks are disconnected",
                    kind.name()
                ));
            }
        }
        Ok(from)
    }

    /// Fails if an index must be rewound past blocks without the data that this needs. coinstatsindex needs undo data: a
    /// reindex removed it, and did not connect these blocks again. txospenderindex needs the blocks: they were lost.
    fn check_rewind(&self, kind: IndexKind, root: &Path, best: BlockHash, tip: NodeId) -> Result<(), Fault> {
        let index = self.index.read();
        let tree = index.headers();
        let Some(node) = tree.find(&best) else { return Ok(()) };
        let (needed, lacking) = match kind {
            IndexKind::CoinStats => ("undo data", index.first_unconnected(node, tip)),
            IndexKind::TxoSpender => {
                let path = tree.path(tree.fork(node, tip), node);
                ("blocks", path.into_iter().find(|&id| index.body(id).location().is_none()))
            }
            _ => return Ok(()),
        };
        let Some(lacking) = lacking else { return Ok(()) };
        let height = tree.height(lacking);
        let wanted = format!("{needed} from height {height} on, to rewind {} to the chain", kind.core_name());
        let found = match kind {
            IndexKind::TxoSpender => "none: they were lost",
            _ => "none: the index is older than the block index",
        };
        Err(store::Fault::new(FaultKind::Refused, root, wanted, found, rebuild_advice(kind, root)).into())
    }

    /// Rewinds indexes that are off the chain of `tip`, the highest block first.
    fn rewind_indexes(&self, indexing: &Indexing, tip: NodeId) -> Result<Ended, Fault> {
        loop {
            let off = {
                let positions = indexing.positions();
                let tree = self.headers();
                let best = positions.iter().filter_map(|(.., best)| tree.find(best.as_ref()?));
                best.filter(|&node| !tree.is_ancestor(node, tip)).max_by_key(|&node| tree.height(node))
            };
            let Some(node) = off else { return Ok(Ended::Done) };
            if self.reporter.is_stopping() {
                return Ok(Ended::Stopped);
            }
            self.disconnect_indexed(indexing, node)?;
        }
    }

    /// Disconnects a block from the indexes whose best block it is.
    pub(crate) fn disconnect_indexed(&self, indexing: &Indexing, node: NodeId) -> Result<(), Fault> {
        let hash = self.headers().hash(node);
        let Some(wanted) = indexing.wanted_off(hash) else { return Ok(()) };
        let (block, records) = match wanted.is_none() {
            true => (self.indexed(node), BlockRecords::default()),
            false => self.index_block(node, &wanted)?,
        };
        indexing.disconnected(&block, records)
    }

    /// Reads the blocks from the lowest of `from` up to `tip`, and adds them to the indexes.
    fn index_up_to(&self, indexing: &Indexing, from: &[From], tip: NodeId) -> Result<Ended, Fault> {
        let Some(first) = from.iter().map(|from| from.first).min() else { return Ok(Ended::Done) };
        let nodes = {
            let tree = self.headers();
            if first > tree.height(tip) {
                return Ok(Ended::Done);
            }
            match first.to_u32().checked_sub(1) {
                Some(below) => tree.path(tree.ancestor(tip, Height::new(below)), tip),
                None => {
                    let genesis = tree.ancestor(tip, Height::GENESIS);
                    [vec![genesis], tree.path(genesis, tip)].concat()
                }
            }
        };
        self.check_bodies(from, &nodes)?;
        self.say_begin(from, &nodes);
        let ahead = Mutex::new(Ahead { claimed: 0, taken: 0, done: BTreeMap::new() });
        let changed = Condvar::new();
        let par = self.options.par.max(1);
        let count = nodes.len();
        let worker = || {
            loop {
                let at = {
                    let mut all = lock(&ahead);
                    while all.claimed < count && all.claimed >= all.taken + par * BLOCKS_AHEAD {
                        all = wait(&changed, all);
                    }
                    if all.claimed >= count {
                        return;
                    }
                    all.claimed += 1;
                    all.claimed - 1
                };
                let height = first + at as u32;
                let _end = AtEnd(|| {
                    if std::thread::panicking() {
                        // The other thread waits for this block.
                        lock(&ahead).done.insert(at, Err(Fault::internal("a thread that reads blocks panicked")));
                        changed.notify_all();
                    }
                });
                let made = self.index_block(nodes[at], &wanted_at(from, indexing.wanted(), height));
                lock(&ahead).done.insert(at, made);
                changed.notify_all();
            }
        };
        let end = |all: &Mutex<Ahead>| {
            lock(all).claimed = count;
            changed.notify_all();
        };
        std::thread::scope(|scope| {
            for n in 0..par {
                if let Err(fault) = threads::spawn(scope, format!("index.{n:02}"), worker) {
                    end(&ahead);
                    return Err(fault);
                }
            }
            let done = self.feed_indexes(indexing, &nodes, &ahead, &changed);
            // The commit that follows may take long, without reports.
            self.reporter.last_progress(Snapshot::default());
            self.reporter.end_indexing();
            end(&ahead);
            done
        })
    }

    /// Adds blocks in order. If the job is stopped, the finished part is committed.
    fn feed_indexes(
        &self,
        indexing: &Indexing,
        nodes: &[NodeId],
        ahead: &Mutex<Ahead>,
        changed: &Condvar,
    ) -> Result<Ended, Fault> {
        let mut committed = Instant::now();
        for (at, &node) in nodes.iter().enumerate() {
            let made = {
                let mut all = lock(ahead);
                loop {
                    if let Some(made) = all.done.remove(&at) {
                        all.taken += 1;
                        break made;
                    }
                    all = wait(changed, all);
                }
            };
            changed.notify_all();
            let (block, records) = made?;
            indexing.connected(&self.reporter, &block, records)?;
            self.reporter.set_height(block.height);
            self.reporter.add_indexed(self.index.read().body(node).size() as usize);
            self.reporter.progress(Snapshot::default);
            let stops = self.reporter.is_stopping();
            if stops || indexing.is_full() || committed.elapsed() > COMMIT_INTERVAL {
                self.commit_indexes(node)?;
                committed = Instant::now();
            }
            if stops {
                return Ok(Ended::Stopped);
            }
        }
        Ok(Ended::Done)
    }

    /// Fails with Core's message if a needed block is pruned.
    fn check_bodies(&self, from: &[From], nodes: &[NodeId]) -> Result<(), Fault> {
        let index = self.index.read();
        let gone = nodes.iter().rfind(|&&node| index.body(node).is_pruned() && index.headers().parent(node).is_some());
        let Some(&gone) = gone else { return Ok(()) };
        let height = index.headers().height(gone);
        let lacking = from.iter().find(|from| from.first <= height);
        let name = lacking.map_or("", |from| from.kind.core_name());
        let why = format!("{name} best block of the index goes beyond pruned data (including undo data).");
        let advice = format!(
            "Please disable the index or reindex (which will download the whole blockchain again). The block at height \
             {height} is pruned"
        );
        Err(Fault::refused(why, advice))
    }

    /// The lowest height of the open indexes; `otherwise` if no index is open.
    pub(crate) fn indexed_height(&self, otherwise: Height) -> Height {
        let positions = self.indexing.get().map(Indexing::positions).unwrap_or_default();
        let tree = self.headers();
        let height = |best: Option<BlockHash>| {
            best.and_then(|best| tree.find(&best)).map_or(Height::GENESIS, |id| tree.height(id))
        };
        positions.into_iter().map(|(.., best)| height(best)).min().unwrap_or(otherwise)
    }

    fn say_begin(&self, from: &[From], nodes: &[NodeId]) {
        let index = self.index.read();
        let bytes: u64 = nodes.iter().map(|&node| u64::from(index.body(node).size())).sum();
        let end = index.headers().height(*nodes.last().expect("there is a block"));
        drop(index);
        self.reporter.set_end(end);
        self.reporter.set_bytes_left(bytes);
        if nodes.len() > 1 {
            let names = from.iter().map(|from| format!("{} from height {}", from.kind.name(), from.first));
            let names = names.collect::<Vec<_>>().join(", ");
            self.reporter.note(format!("Indexing {} blocks up to height {end}: {names}", nodes.len()));
        }
    }

    /// Reads a block and the coins that it spent, and builds its index records.
    ///
    /// # Errors
    ///
    /// Files that are damaged or missing, or an I/O error.
    pub(crate) fn index_block(&self, node: NodeId, wanted: &Wanted) -> Result<(IndexedBlock, BlockRecords), Fault> {
        let block = self.indexed(node);
        // The genesis block is built in, even if no file contains it.
        let is_genesis = block.height == Height::GENESIS;
        let bytes = if is_genesis { self.params.genesis.clone() } else { self.read(node)? };
        let bad = |found: &str| Fault::damaged_block(&self.files, block.pos, &block.hash, block.height, found);
        let mut tables = Tables::with(self.options.kernels);
        let parsed = tables.parse_block(&bytes).map_err(|why| bad(&why.to_string()))?;
        if parsed.header().hash() != block.hash {
            return Err(bad("a block with another header"));
        }
        let txids = parsed.txids_of_header().ok_or_else(|| bad("transactions that are not those of its header"))?;
        let needs_undo = wanted.needs_coins() && block.height > Height::GENESIS;
        let undo = if needs_undo { self.read_undo(node, block.prev)? } else { Spill::new() };
        let spent = match needs_undo {
            true => spent_coins(&undo, &parsed).ok_or_else(|| bad("undo data that does not fit it"))?,
            false => Vec::new(),
        };
        let place = block_place(self.params, block.height, block.hash);
        Ok((block, BlockRecords::build(wanted, &place, &parsed, &txids, &spent, &self.host.spill)))
    }

    /// Rebuilds the filter of a block; `None` if the block is unknown.
    fn filter_again(&self, hash: BlockHash, file: u32) -> Result<Option<BlockFilter>, Fault> {
        let Some(node) = self.headers().find(&hash) else { return Ok(None) };
        if self.index.read().body(node).location().is_none() {
            let why = format!("fltr{file:05}.dat is missing, and block {hash}, whose filter was there, is pruned");
            let advice = "Put the file back, or remove the directory indexes/blockfilter and download the whole blockchain again";
            return Err(Fault::refused(why, advice));
        }
        let (_, records) = self.index_block(node, &Wanted { filter: true, ..Wanted::default() })?;
        Ok(records.filter)
    }

    /// The facts of a block that the indexes need.
    pub(crate) fn indexed(&self, node: NodeId) -> IndexedBlock {
        let index = self.index.read();
        let pos = index.body(node).location().unwrap_or(FilePos { file: 0, offset: 0 });
        let tree = index.headers();
        IndexedBlock { hash: tree.hash(node), prev: tree.header(node).prev(), height: tree.height(node), pos }
    }
}

/// The records that indexes lacking a block at `height` need from it.
fn wanted_at(from: &[From], all: &Wanted, height: Height) -> Wanted {
    let has = |kind| from.iter().any(|from| from.kind == kind && from.first <= height);
    Wanted {
        tx: all.tx.filter(|_| has(IndexKind::Tx)),
        spender: all.spender.filter(|_| has(IndexKind::TxoSpender)),
        filter: has(IndexKind::BlockFilter),
        stats: has(IndexKind::CoinStats),
        tweaks: has(IndexKind::SilentPayments),
    }
}
