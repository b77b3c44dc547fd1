//! Block index, chainstate and optional indexes: whether they can be opened, and match each other.

use super::{At, Depth, Files, Kind, Look, read_through, rebuilt};
use crate::chain::index::BlockIndex;
use crate::chain::tree::NodeId;
use crate::datadir::lock;
use crate::options::{IndexKind, Prune};
use crate::utxo_stats::{SetHash, set_totals, setinfo};
use primitives::{BlockHash, Height};
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

    /// Whether a block was ever connected.
    fn has_connected(&self) -> bool {
        self.loaded.entries.iter().any(|entry| entry.height > Height::GENESIS && entry.status.is_connected())
    }
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
        let loaded =
            BlockTreeDb::open_read_only(self.options.host(), &self.layout).and_then(|index| index.load(&network));
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

    /// The block to which the coins belong, if index and coins match.
    pub(super) fn coins(&mut self, known: Option<&Indexed>) -> Option<NodeId> {
        let disk = self.options.disk.clone();
        let seconds = known.map_or(1, |known| rebuilt(known.block_bytes()));
        let dir = match chainstate::snapshot_base(&*disk, &self.layout) {
            Ok(Some(_)) => self.layout.snapshot_dir(),
            Ok(None) => self.layout.chainstate_dir(),
            Err(fault) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                return None;
            }
        };
        match Chainstate::exists(&*disk, &dir) {
            Ok(true) => {}
            Ok(false) => {
                if known.is_some_and(Indexed::has_connected) {
                    self.find(Kind::CoinsMissing, &dir, At::ALL, "chainstate: nothing is there", seconds);
                }
                return None;
            }
            Err(fault) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                return None;
            }
        }
        let stands = Chainstate::open_read_only(self.options.host(), &dir).and_then(|coins| {
            let heads = coins.head_blocks()?;
            Ok((coins.best_block()?, heads.is_some(), coins))
        });
        let (best, is_half, coins) = match stands {
            Ok(stands) => stands,
            Err(fault) => {
                self.fault(Kind::CoinsDamaged, &fault, At::ALL, seconds);
                return None;
            }
        };
        if is_half {
            self.find(
                Kind::CoinsHalfWritten,
                &dir,
                At::ALL,
                "chainstate: a flush of bitcoind's is unfinished",
                seconds,
            );
            return None;
        }
        if self.depth == Depth::Deep && !self.is_beside {
            self.every_coin(&coins, best, seconds);
        }
        let best = best?;
        let tree = &known?.tree;
        let tip = tree.headers().find(&best);
        let is_of_snapshot = dir != self.layout.chainstate_dir();
        if !tip.is_some_and(|id| is_of_snapshot || tree.was_connected(id)) {
            let lacks = if tip.is_some() { "the block index has only the header of" } else { "the block index lacks" };
            let what = format!("chainstate: {lacks} its best block {best}");
            self.find(Kind::CoinsApart, &dir, At { hash: Some(best), ..At::ALL }, what, seconds);
        }
        tip
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

    /// Checks the optional indexes that exist, by Core's names.
    pub(super) fn optional_indexes(&mut self) {
        let bytes: u64 = self.layout.used_space(&*self.options.disk).map_or(0, |used| used.blocks);
        for kind in IndexKind::ALL {
            let there = IndexDb::open_read_only(self.options.host(), &self.layout, kind);
            let looked = there.and_then(|db| {
                let Some(db) = db else { return Ok(()) };
                db.best_block()?;
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
