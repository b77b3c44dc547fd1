//! The chainstate: the UTXO set, and its best block.
//!
//! ```text
//! 'C' | txid 32 | VARINT vout   -> a coin (see `primitives::coin`)
//! 'B'                           -> hash of the best block
//! 'H'                           -> 02 | hash of the new tip | hash of the old one or zeros, during a flush of Core's
//! ```
//!
//! Values are obfuscated with the database's own key, which is random for a new one. Keys from 63 00.. on indicate an
//! old format. A commit is one durable edit with the coins and the best block, never half a flush. Absent on purpose:
//! caches, and the meaning of a coin. Source: facts of Bitcoin Core b88bffe, txdb.cpp, dbwrapper.cpp.

mod commit;
mod replace;
mod snapshot;
mod view;

use crate::db::Obfuscated;
use crate::fault::{Fault, FaultKind, Result};
use crate::host::Host;
use crate::xor::{Key, NO_KEY};
use disk::Disk;
use leveldb::Db;
use primitives::BlockHash;
use primitives::coin::COIN_KEY_PREFIX;
use std::path::Path;

pub use commit::{CoinsCommit, CoinsCompaction, CoinsPart};
pub use replace::{
    Rebuilt, check_place, empty, finish_swap, hinted, rebuilt, remove_hinted, remove_if_there, swap_hinted,
    swap_rebuilt,
};
pub use snapshot::{
    begin_snapshot, finish_snapshot, install_snapshot, invalid_base, invalid_snapshot, mark_invalid, named_base,
    remove_snapshot, snapshot_base, validated_snapshot,
};
pub use view::{CoinsIter, CoinsView};

const BEST_BLOCK: &[u8] = b"B";
const HEAD_BLOCKS: &[u8] = b"H";

/// An open chainstate. All clones share it.
#[derive(Clone, Debug)]
pub struct Chainstate {
    store: Obfuscated,
}

/// Core was stopped while it flushed the change from one tip to another: the coins in between may be of either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadBlocks {
    /// The tip that was being written.
    pub new: BlockHash,
    /// The previous tip; `None` for the first flush.
    pub old: Option<BlockHash>,
}

impl Chainstate {
    /// Whether `dir` contains a chainstate.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(Db::exists(disk, dir)?)
    }

    /// Whether `dir` contains what a chainstate left that lost its file CURRENT.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn lacks_current(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(Db::lacks_current(disk, dir)?)
    }

    /// Opens the chainstate in `dir`, or creates an empty one if it is missing. An empty one without a key gets a
    /// random one, as in Core.
    ///
    /// # Errors
    ///
    /// Another program holds it, it is damaged or of an old format, or an I/O error.
    pub fn open(host: impl Into<Host>, dir: &Path) -> Result<Chainstate> {
        let mut key = NO_KEY;
        getrandom::fill(&mut key).map_err(|why| {
            Fault::new(
                FaultKind::Io,
                dir,
                "8 random bytes from the system",
                why.to_string(),
                "Use a system that has them",
            )
        })?;
        Chainstate::open_with(host, dir, key)
    }

    /// [`Chainstate::open`] with the given key for an empty chainstate, so that tests get the same bytes each time.
    ///
    /// # Errors
    ///
    /// Those of [`Chainstate::open`].
    pub fn open_with(host: impl Into<Host>, dir: &Path, key: Key) -> Result<Chainstate> {
        Chainstate::checked(Obfuscated::open_or_create(host.into(), dir)?.obfuscate_if_empty(key)?)
    }

    /// Opens the chainstate in `dir` for reading only; nothing is written, no lock is taken.
    ///
    /// # Errors
    ///
    /// It is missing, damaged or of an old format, or an I/O error.
    pub fn open_read_only(host: impl Into<Host>, dir: &Path) -> Result<Chainstate> {
        Chainstate::checked(Obfuscated::open_read_only(host.into(), dir)?)
    }

    /// Whether there is a chainstate in `dir` with a best block, or with a flush that Core did not finish.
    ///
    /// # Errors
    ///
    /// It is damaged or of an old format, or an I/O error.
    pub fn has_block(host: &Host, dir: &Path) -> Result<bool> {
        if !Chainstate::exists(&*host.disk, dir)? {
            return Ok(false);
        }
        let coins = Chainstate::open_read_only(host, dir)?;
        Ok(coins.best_block()?.is_some() || coins.head_blocks()?.is_some())
    }

    fn checked(store: Obfuscated) -> Result<Chainstate> {
        let old = [&b"c"[..], &[0; 32]].concat();
        if store.db.snapshot().range(&old, None)?.next_record()?.is_some() {
            let found = "Unsupported chainstate database format found. Please restart with -reindex-chainstate. \
                         This will rebuild the chainstate database.";
            let advice = "Run reindex --chainstate-only";
            return Err(Fault::new(FaultKind::Refused, store.db.path(), "coins in Core's present form", found, advice));
        }
        Ok(Chainstate { store })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.store.db.path()
    }

    /// The obfuscation key.
    pub fn key(&self) -> Key {
        self.store.key
    }

    /// The best block of the set; `None` for an empty set, and during an unfinished flush of Core's.
    ///
    /// # Errors
    ///
    /// A record that is not a hash, a damaged table, or an I/O error.
    pub fn best_block(&self) -> Result<Option<BlockHash>> {
        match self.store.get(BEST_BLOCK)? {
            None => Ok(None),
            Some(value) => match <[u8; 32]>::try_from(&value[..]) {
                Ok(hash) => Ok(Some(BlockHash::from_bytes(hash)).filter(|hash| !hash.is_zero())),
                Err(_) => {
                    Err(self.store.bad_record(BEST_BLOCK, "a hash of 32 bytes", format!("{} bytes", value.len())))
                }
            },
        }
    }

    /// The state of Core's unfinished flush; see [`HeadBlocks`].
    ///
    /// # Errors
    ///
    /// A record that is not two hashes, a damaged table, or an I/O error.
    pub fn head_blocks(&self) -> Result<Option<HeadBlocks>> {
        match self.store.get(HEAD_BLOCKS)?.as_deref() {
            None | Some([0]) => Ok(None),
            Some([2, hashes @ ..]) if hashes.len() == 64 => {
                let hash =
                    |start: usize| BlockHash::from_bytes(hashes[start..start + 32].try_into().expect("just measured"));
                Ok(Some(HeadBlocks { new: hash(0), old: Some(hash(32)).filter(|hash| !hash.is_zero()) }))
            }
            Some(value) => {
                let found = format!("{} bytes", value.len());
                Err(self.store.bad_record(HEAD_BLOCKS, "two hashes, new tip and old", found))
            }
        }
    }

    /// Reads all records that are not coins, for a check of every table.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn read_others(&self) -> Result<()> {
        self.store.read(&[], Some(&[COIN_KEY_PREFIX]))?;
        self.store.read(&[COIN_KEY_PREFIX + 1], None)
    }

    /// A snapshot of the current coins, which never changes. Cheap.
    pub fn view(&self) -> CoinsView {
        CoinsView::new(&self.store)
    }

    /// From now on keeps up to `bytes` of table filters in memory, each from its first use: 1.3 bytes a coin. They
    /// count in [`Chainstate::index_bytes`].
    pub fn set_filter_bytes_max(&self, bytes: u64) {
        self.store.db.set_filter_bytes_max(bytes);
    }

    /// Memory of the tables' indexes and filters, in bytes. The tables themselves are mapped and not counted.
    pub fn index_bytes(&self) -> u64 {
        self.store.db.index_bytes()
    }

    /// For a clean shutdown: leaves nothing for LevelDB to compact. No commit or compaction may be in progress.
    ///
    /// # Errors
    ///
    /// No space, a damaged table, or an I/O error.
    pub fn settle(&self) -> Result<()> {
        Ok(self.store.db.settle()?)
    }
}
