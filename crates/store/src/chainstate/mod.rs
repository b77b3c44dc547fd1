//! The chainstate: the UTXO set, and its best block.
//!
//! ```text
//! 'C' | txid 32 | VARINT vout   -> a coin (see `primitives::coin`)
//! 'B'                           -> hash of the best block
//! 'H'                           -> 02 | hash of the new tip | hash of the old one or zeros, while Core is half-way
//! ```
//!
//! Values are obfuscated with the database's own key, made at random for a new one. Keys at or above 63 00.. mean an
//! old format. A commit is one durable edit with the coins and the best block: never half a flush.
//! Absent on purpose: caches, and what a coin is worth.
//! Source: facts of Bitcoin Core b88bffe, txdb.cpp, dbwrapper.cpp.

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
use std::path::Path;

pub use commit::{CoinsCommit, CoinsCompaction, CoinsPart};
pub use replace::{
    Rebuilt, check_place, empty, finish_swap, hinted, rebuilt, remove_hinted, swap_hinted, swap_rebuilt,
};
pub use snapshot::{
    begin_snapshot, finish_snapshot, forget_coming, install_snapshot, invalid_snapshot, remove_snapshot, snapshot_base,
    validated_snapshot,
};
pub use view::{CoinsIter, CoinsView};

const BEST_BLOCK: &[u8] = b"B";
const HEAD_BLOCKS: &[u8] = b"H";

/// An open chainstate. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Chainstate {
    store: Obfuscated,
}

/// Core was stopped while it went from one tip to another: the coins in between may be of either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadBlocks {
    /// The tip that was being written.
    pub new: BlockHash,
    /// The tip before; `None` for the first flush.
    pub old: Option<BlockHash>,
}

impl Chainstate {
    /// Whether a chainstate lies in `dir`.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        Ok(Db::exists(disk, dir)?)
    }

    /// Opens the chainstate in `dir`, or makes an empty one where it is missing. An empty one without a key gets one at
    /// random, as in Core.
    ///
    /// # Errors
    ///
    /// Another program holds it, it is damaged or of an old format, or what the system says.
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

    /// The same with a given key for an empty one, for the same bytes each time.
    ///
    /// # Errors
    ///
    /// As [`Chainstate::open`].
    pub fn open_with(host: impl Into<Host>, dir: &Path, key: Key) -> Result<Chainstate> {
        Chainstate::checked(Obfuscated::open_or_create(host.into(), dir)?.obfuscate_if_empty(key)?)
    }

    /// Opens the chainstate in `dir` to read it only; nothing is written, no lock is taken.
    ///
    /// # Errors
    ///
    /// It is missing, damaged or of an old format, or what the system says.
    pub fn open_read_only(host: impl Into<Host>, dir: &Path) -> Result<Chainstate> {
        Chainstate::checked(Obfuscated::open_read_only(host.into(), dir)?)
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

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.store.db.path()
    }

    /// The obfuscation key.
    pub fn key(&self) -> Key {
        self.store.key
    }

    /// The best block of the set; `None` for an empty set, and half-way through a flush of Core's.
    ///
    /// # Errors
    ///
    /// A record that is not a hash, a damaged table, or what the system says.
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

    /// What Core left half-way; see [`HeadBlocks`].
    ///
    /// # Errors
    ///
    /// A record that is not two hashes, a damaged table, or what the system says.
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

    /// The coins as they are now; never changes. Cheap.
    pub fn view(&self) -> CoinsView {
        CoinsView::new(&self.store)
    }

    /// Keeps filters of tables in memory, up to `bytes` of them, from when they are first asked on: 1.3 bytes a coin.
    /// They count as indexes.
    pub fn set_filter_bytes_max(&self, bytes: u64) {
        self.store.db.set_filter_bytes_max(bytes);
    }

    /// Memory of the tables' indexes and filters, in bytes. The tables themselves are mapped and not counted.
    pub fn index_bytes(&self) -> u64 {
        self.store.db.index_bytes()
    }

    /// For a clean end: leaves nothing for LevelDB to compact. No commit or compaction may be under way.
    ///
    /// # Errors
    ///
    /// No space, a damaged table, or what the system says.
    pub fn settle(&self) -> Result<()> {
        Ok(self.store.db.settle()?)
    }
}
