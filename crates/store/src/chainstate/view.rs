//! Look-ups of coins, and iteration over all of them.

use crate::db::Obfuscated;
use crate::fault::{Fault, FaultKind, Result};
use crate::record::Obfuscation;
use kernels::Kernels;
use leveldb::{Expected, Iter, Snapshot};
use primitives::coin::{COIN_KEY_PREFIX, decode_coin_key};
use primitives::{CoinKey, OutPoint, Txid};
use std::path::{Path, PathBuf};

/// The coins at one instant. Clones are cheap, and any thread may use them.
#[derive(Clone, Debug)]
pub struct CoinsView {
    snapshot: Snapshot,
    obfuscation: Obfuscation,
    dir: PathBuf,
}

impl CoinsView {
    pub(super) fn new(store: &Obfuscated) -> CoinsView {
        CoinsView {
            snapshot: store.db.snapshot(),
            obfuscation: store.obfuscation(),
            dir: store.db.path().to_path_buf(),
        }
    }

    /// The kernels that undo its obfuscation.
    pub fn kernels(&self) -> Kernels {
        self.obfuscation.kernels
    }

    /// The plain stored bytes of a coin.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Vec<u8>>> {
        let mut value = self.snapshot.get(CoinKey::new(outpoint).as_bytes())?;
        if let Some(value) = &mut value {
            self.obfuscation.apply(value, 0);
        }
        Ok(value)
    }

    /// Whether look-ups have had to wait for the disk recently: then use [`CoinsView::look_up_from_disk`] in place of
    /// [`CoinsView::look_up`]. Each call counts.
    pub fn wants_read_ahead(&self) -> bool {
        self.snapshot.wants_read_ahead()
    }

    /// Looks up many coins, most of which exist. `keys` are in rising order (duplicates allowed). Calls `answer` once
    /// for each index in `keys`, in any order, with the plain stored bytes.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error; some may have been answered.
    ///
    /// # Panics
    ///
    /// When the keys are not in order.
    pub fn look_up(&self, keys: &[CoinKey], answer: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        Ok(self.snapshot.get_sorted_batch_now(keys, Expected::Present, self.plain(answer))?)
    }

    /// Whether any of these coins exists; usually none does. `keys` are in rising order.
    ///
    /// # Errors
    ///
    /// Those of [`CoinsView::look_up`].
    ///
    /// # Panics
    ///
    /// Those of [`CoinsView::look_up`].
    pub fn has_any(&self, keys: &[CoinKey]) -> Result<bool> {
        let mut has_any = false;
        self.snapshot.get_sorted_batch_now(keys, Expected::Unknown, |_, value| has_any |= value.is_some())?;
        Ok(has_any)
    }

    /// [`CoinsView::look_up`] for coins that are most likely not in memory: reads many blocks at a time, on a thread
    /// that may wait for the disk.
    ///
    /// # Errors
    ///
    /// Those of [`CoinsView::look_up`].
    ///
    /// # Panics
    ///
    /// Those of [`CoinsView::look_up`].
    pub fn look_up_from_disk(&self, keys: &[CoinKey], answer: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.snapshot.look_up_from_disk(keys, self.plain(answer))?;
        Ok(())
    }

    /// Undoes the obfuscation of the values.
    fn plain(&self, mut answer: impl FnMut(usize, Option<&[u8]>)) -> impl FnMut(usize, Option<&[u8]>) {
        let mut plain = Vec::with_capacity(128);
        let obfuscation = self.obfuscation;
        move |at, value| match value {
            None => answer(at, None),
            Some(value) => {
                plain.clear();
                plain.extend_from_slice(value);
                obfuscation.apply(&mut plain, 0);
                answer(at, Some(&plain));
            }
        }
    }

    /// All coins, in order of their keys.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn coins(&self) -> Result<CoinsIter> {
        self.coins_between(0, u16::MAX)
    }

    /// The coins whose txids begin with two bytes from `first` to `last`, both included, big-endian: a share for one
    /// thread.
    ///
    /// # Errors
    ///
    /// Those of [`CoinsView::coins`].
    pub fn coins_between(&self, first: u16, last: u16) -> Result<CoinsIter> {
        let key = |start: u16| [&[COIN_KEY_PREFIX][..], &start.to_be_bytes()].concat();
        let end = last.checked_add(1).map_or(vec![COIN_KEY_PREFIX + 1], key);
        let records = self.snapshot.range(&key(first), Some(&end))?;
        Ok(CoinsIter { records, obfuscation: self.obfuscation, plain: Vec::new(), dir: self.dir.clone() })
    }

    /// The coins of one transaction.
    ///
    /// # Errors
    ///
    /// Those of [`CoinsView::coins`].
    pub fn coins_of(&self, txid: &Txid) -> Result<CoinsIter> {
        let first = [&[COIN_KEY_PREFIX][..], txid.as_bytes()].concat();
        // VARINTs of 32 bits begin with a lower byte than this.
        let end = [&first[..], &[u8::MAX]].concat();
        let records = self.snapshot.range(&first, Some(&end))?;
        Ok(CoinsIter { records, obfuscation: self.obfuscation, plain: Vec::new(), dir: self.dir.clone() })
    }

    /// Maximum number of runs of tables that a look-up may read.
    pub fn run_count(&self) -> usize {
        self.snapshot.run_count()
    }

    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.snapshot.runs().iter().map(|run| run.bytes).sum()
    }

    /// The chainstate's directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }
}

/// Coins in key order: by txid, then by the VARINT bytes of vout, which is not numeric order above 16,511.
#[derive(Debug)]
pub struct CoinsIter {
    records: Iter,
    obfuscation: Obfuscation,
    plain: Vec<u8>,
    dir: PathBuf,
}

impl CoinsIter {
    /// The next coin and its plain stored bytes; `None` after the last.
    ///
    /// # Errors
    ///
    /// A malformed key, a damaged table, or an I/O error.
    pub fn next_coin(&mut self) -> Result<Option<(OutPoint, &[u8])>> {
        let Some((key, value)) = self.records.next_record()? else { return Ok(None) };
        let outpoint = decode_coin_key(key).map_err(|why| {
            let wanted = format!("the key of a coin in the record {}", primitives::hex::encode(key));
            Fault::new(FaultKind::Damaged, &self.dir, wanted, why.to_string(), "Run reindex --chainstate-only")
        })?;
        self.plain.clear();
        self.plain.extend_from_slice(value);
        self.obfuscation.apply(&mut self.plain, 0);
        Ok(Some((outpoint, &self.plain)))
    }
}
