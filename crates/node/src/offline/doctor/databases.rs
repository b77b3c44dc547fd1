//! Block index, chainstate and optional indexes: whether they can be opened, and match each other.

use super::{At, Depth, Files, Kind, Look, read_through, rebuilt};
use crate::chain::index::BlockIndex;
use crate::chain::tree::{GENESIS, NodeId};
use crate::datadir::lock;
use crate::options::{IndexKind, Prune};
use crate::utxo_stats::{SetHash, set_totals, setinfo};
use indexes::heights;
use primitives::{BlockHash, Height};
use std::path::PathBuf;
use store::FaultKind;
use store::chainstate::{self, Chainstate};
use store::index::{BlockTreeDb, LoadedIndex};
use store::indexes::IndexDb;
use store::private_files::PrivateDir;

/// The block index, and its tree of headers.
pub(super) struct Indexed {
    pub(super) loaded: LoadedIndex,
    pub(super) tree: BlockIndex,
}

impl Indexed {
    /// Bytes of all block files, by the index.
    pub(super) fn block_bytes(&self) -> u64 {
        self.loaded.files.iter().map(|file| u64::from(file.size)).sum()
    }
}

/// Whether a block was ever connected.
pub(crate) fn has_connected(loaded: &LoadedIndex) -> bool {
    loaded.entries.iter().any(|entry| entry.height > Height::GENESIS && entry.status.is_connected())
}

/// A chainstate, and the time to make it again.
struct Coins {
    dir: PathBuf,
    of: Of,
    seconds: u64,
}

/// What a chainstate has the coins of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The chain from the genesis block on.
    Chain,
    /// The chain from a snapshot on, which has this base block.
    Snapshot(BlockHash),
    /// The chain up to that base block.
    Past(BlockHash),
}

impl Look<'_> {
    /// The block index; `None` if there is no readable one.
    pub(super) fn index(&mut self, files: &Files) -> Option<Indexed> {
        let disk = self.options.disk.clone();
        let dir = self.layout.index_dir();
        let network = lock::network(&self.options.params);
        let seconds = self.time_to_index(files);
        let exists = match BlockTreeDb::exists(&*disk, &self.layout) {
            Ok(exists) => exists,
            Err(fault) => {
                self.index_fault(&fault, seconds);
                return None;
            }
        };
        if !exists {
            let what = match disk.metadata(&dir) {
                Ok(Some(_)) => "the directory has no file CURRENT",
                _ => "nothing is there",
            };
            self.find(Kind::IndexMissing, &dir, At::ALL, format!("block index: {what}"), seconds);
            return None;
        }
        let is_deep = self.depth == Depth::Deep && !self.is_beside;
        let loaded = BlockTreeDb::open_read_only(self.options.host(), &self.layout).and_then(|index| {
            if is_deep {
                index.read_all()?;
            }
            index.load(&network)
        });
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(fault) => {
                self.index_fault(&fault, seconds);
                return None;
            }
        };
        if loaded.is_reindexing {
            self.find(Kind::ReindexUnfinished, &dir, At::ALL, "block index: its flag for a reindex is set", seconds);
        }
        if loaded.is_pruned && self.options.prune == Prune::Off {
            self.find(Kind::PrunedUnsaid, &dir, At::ALL, "block index: block files were pruned", 1);
        }
        let mut tree = BlockIndex::new(&self.options.params);
        tree.reserve(loaded.entries.len());
        for entry in &loaded.entries {
            tree.load(entry);
        }
        Some(Indexed { loaded, tree })
    }

    /// Reports a fault of any file in `blocks/index`.
    fn index_fault(&mut self, fault: &store::Fault, seconds: u64) {
        let kind = match fault.kind() {
            FaultKind::OtherForm => Kind::IndexOfOtherForm,
            FaultKind::OtherNetwork => Kind::IndexOfOtherNetwork,
            _ => Kind::IndexDamaged,
        };
        self.fault(kind, fault, At::ALL, seconds);
    }

    /// Seconds to build an index from the files.
    fn time_to_index(&self, files: &Files) -> u64 {
        let numbers = files.blocks.numbers().unwrap_or_default().there;
        1 + numbers.len() as u64 / 50
    }

    /// The block to which the coins belong, if index and coins match. While a snapshot is loaded, the coins of the chain
    /// below it are checked too.
    pub(super) fn coins(&mut self, known: Option<&Indexed>) -> Option<NodeId> {
        let seconds = known.map_or(1, |known| rebuilt(known.block_bytes()));
        let coins = |dir, of| Coins { dir, of, seconds };
        match chainstate::snapshot_base(&*self.options.disk, &self.layout) {
            Ok(None) => {
                let tip = self.coins_in(&coins(self.layout.chainstate_dir(), Of::Chain), known);
                self.connected.extend(tip.map(|tip| (GENESIS, tip)));
                tip
            }
            Ok(Some(base)) if known.is_some_and(|known| known.tree.headers().find(&base).is_none()) => {
                let what = format!("the block index lacks block {base}, which is named as the base of a snapshot");
                self.find(Kind::CoinsApart, &self.layout.snapshot_dir(), At::ALL, what, seconds);
                None
            }
            Ok(Some(base)) => {
                let past = self.coins_in(&coins(self.layout.chainstate_dir(), Of::Past(base)), known);
                let tip = self.coins_in(&coins(self.layout.snapshot_dir(), Of::Snapshot(base)), known);
                self.connected.extend(past.map(|past| (GENESIS, past)));
                let base = known.and_then(|known| known.tree.headers().find(&base));
                self.connected.extend(base.zip(tip));
                tip
            }
            Err(fault) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                None
            }
        }
    }

    /// The block to which the coins of one chainstate belong.
    fn coins_in(&mut self, of: &Coins, known: Option<&Indexed>) -> Option<NodeId> {
        let Coins { dir, of, seconds } = of;
        let seconds = *seconds;
        let is_past = matches!(of, Of::Past(_));
        match Chainstate::exists(&*self.options.disk, dir) {
            Ok(true) => {}
            Ok(false) => {
                if Chainstate::lacks_current(&*self.options.disk, dir).is_ok_and(|lacks| lacks) {
                    let kind = if is_past { Kind::CoinsDamaged } else { Kind::CoinsMissing };
                    self.find(kind, dir, At::ALL, "chainstate: it has no file CURRENT", seconds);
                } else if !is_past && known.is_some_and(|known| has_connected(&known.loaded)) {
                    self.find(Kind::CoinsMissing, dir, At::ALL, "chainstate: nothing is there", seconds);
                }
                return None;
            }
            Err(fault) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                return None;
            }
        }
        let stands = Chainstate::open_read_only(self.options.host(), dir)
            .and_then(|coins| Ok((coins.best_block()?, coins.head_blocks()?, coins)));
        let (best, heads, coins) = match stands {
            Ok(stands) => stands,
            Err(fault) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                return None;
            }
        };
        if heads.is_none() && self.depth == Depth::Deep && !self.is_beside {
            coins.read_others().unwrap_or_else(|fault| self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds));
            self.every_coin(&coins, best, seconds);
        }
        let best = heads.map_or(best, |heads| Some(heads.new))?;
        let tree = &known?.tree;
        let tip = tree.headers().find(&best);
        let at = At { hash: Some(best), ..At::ALL };
        let Some(tip) = tip.filter(|&id| *of == Of::Snapshot(best) || tree.was_connected(id)) else {
            let lacks = if tip.is_some() { "the block index has only the header of" } else { "the block index lacks" };
            let what = format!("chainstate: {lacks} its best block {best}");
            self.find(Kind::CoinsApart, dir, at, what, seconds);
            return tip.filter(|_| !is_past);
        };
        if let Of::Past(base) = of
            && tree.headers().find(base).is_some_and(|base| tree.headers().height(tip) > tree.headers().height(base))
        {
            let what = format!("chainstate: it should end at the base of the snapshot, and its best block is {best}");
            self.find(Kind::CoinsDamaged, dir, at, what, seconds);
            return None;
        }
        // A sync finishes that of the past.
        if heads.is_some() && !is_past {
            let what = "chainstate: a flush of bitcoind's is unfinished";
            self.find(Kind::CoinsHalfWritten, dir, At::ALL, what, seconds);
            return None;
        }
        Some(tip)
    }

    /// Reads every coin, and compares the totals with those that an earlier run stored for this block.
    fn every_coin(&mut self, coins: &Chainstate, best: Option<BlockHash>, seconds: u64) {
        let info = match setinfo::set_info(&coins.view(), SetHash::None, false, self.options.par) {
            Ok(info) => info,
            Err(crate::fault::Fault::Store(fault)) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                return;
            }
            Err(_) => return,
        };
        let own = PrivateDir::new(self.options.disk.clone(), self.layout.private_dir());
        let counted = best.and_then(|best| set_totals::read(&own, &best));
        if counted.is_some_and(|counted| counted != info.totals()) {
            let what = "chainstate: its coins do not add up to what they did when they were written";
            let dir = coins.path().to_path_buf();
            self.find(Kind::CoinsDamaged, &dir, At::ALL, what, seconds);
        }
    }

    /// Checks that an index with a row for each height has that of its best block there. A kill of bitcoind in a reorg
    /// leaves one of another block, and bitcoind does not start with the index.
    fn row_of_best(&mut self, db: &IndexDb, best: BlockHash, known: &Indexed, seconds: u64) -> store::Result<()> {
        let tree = known.tree.headers();
        let Some(height) = tree.find(&best).map(|id| tree.height(id)) else { return Ok(()) };
        if self.is_beside
            || height == Height::GENESIS
            || !matches!(db.kind(), IndexKind::BlockFilter | IndexKind::CoinStats)
        {
            return Ok(());
        }
        let key = heights::height_key(height);
        let row = db.get(&key)?.unwrap_or_default();
        let is_of_best = heights::split_value(&row).is_ok_and(|(hash, _)| hash == best);
        if !is_of_best {
            let what = "the row of its best block is that of another block";
            let root = store::indexes::root(&self.layout, db.kind());
            let at = At { hash: Some(best), ..At::height(height) };
            self.find(Kind::OptionalIndexDamaged, &root, at, what, seconds);
        }
        Ok(())
    }

    /// Checks the optional indexes that exist, by Core's names.
    pub(super) fn optional_indexes(&mut self, known: Option<&Indexed>) {
        let bytes: u64 = self.layout.used_space(&*self.options.disk).map_or(0, |used| used.blocks);
        for kind in IndexKind::ALL {
            if IndexDb::lacks_current(&*self.options.disk, &self.layout, kind).is_ok_and(|lacks| lacks) {
                let root = store::indexes::root(&self.layout, kind);
                let what = "its database has no file CURRENT";
                self.find(Kind::OptionalIndexDamaged, &root, At::ALL, what, read_through(bytes));
                continue;
            }
            let there = IndexDb::open_read_only(self.options.host(), &self.layout, kind);
            let looked = there.and_then(|db| {
                let Some(db) = db else { return Ok(()) };
                let best = db.best_block()?;
                if let (Some(best), Some(known)) = (best, known) {
                    self.row_of_best(&db, best, known, read_through(bytes))?;
                }
                if self.depth == Depth::Deep && !self.is_beside {
                    let mut records = db.with_prefix(&[])?;
                    while records.next_record()?.is_some() {}
                }
                if kind == IndexKind::BlockFilter { self.filter_files(&db) } else { Ok(()) }
            });
            if let Err(fault) = looked {
                self.fault(Kind::OptionalIndexDamaged, &fault, At::ALL, read_through(bytes));
            }
        }
    }
}
