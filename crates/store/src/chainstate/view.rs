//! Looking up coins, and going through all of them.

use crate::db::Obfuscated;
use crate::fault::{Fault, FaultKind, Result};
use crate::record::Obfuscation;
use kernels::Kernels;
use leveldb::{Expected, Iter, Snapshot};
use primitives::coin::{COIN_KEY_PREFIX, decode_coin_key};
use primitives::{CoinKey, OutPoint, Txid};
use std::path::{Path, PathBuf};

/// The coins at one instant. Clones are cheap; any thread may ask.
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

    /// What undoes its obfuscation.
    pub fn kernels(&self) -> Kernels {
        self.obfuscation.kernels
    }

    /// The stored bytes of a coin, plain.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Vec<u8>>> {
        let mut value = self.snapshot.get(CoinKey::new(outpoint).as_bytes())?;
        if let Some(value) = &mut value {
            self.obfuscation.apply(value, 0);
        }
        Ok(value)
    }

    /// Whether look-ups wait for the disk in these times: then [`CoinsView::look_up_from_disk`] should come in place of
    /// [`CoinsView::look_up`]. Each answer counts.
    pub fn wants_read_ahead(&self) -> bool {
        self.snapshot.wants_read_ahead()
    }

    /// Looks up many coins, most of which are there. `keys` are in rising order (equal ones may come); `answer` gets
    /// the place in `keys` and the stored bytes, plain, each place once, in no particular order.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says; some may have been answered.
    ///
    /// # Panics
    ///
    /// When the keys are not in order.
    pub fn look_up(&self, keys: &[CoinKey], answer: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        Ok(self.snapshot.get_sorted_batch_now(keys, Expected::Present, self.plain(answer))?)
    }

    /// Whether any of these coins is there; most likely none is. `keys` are in rising order.
    ///
    /// # Errors
    ///
    /// As [`CoinsView::look_up`].
    ///
    /// # Panics
    ///
    /// As [`CoinsView::look_up`].
    pub fn has_any(&self, keys: &[CoinKey]) -> Result<bool> {
        let mut has_any = false;
        self.snapshot.get_sorted_batch_now(keys, Expected::Unknown, |_, value| has_any |= value.is_some())?;
        Ok(has_any)
    }

    /// As [`CoinsView::look_up`], for coins that are most likely not in memory: for a thread that has nothing else to do
    /// than to wait for the disk, which is asked for many at a time.
    ///
    /// # Errors
    ///
    /// As [`CoinsView::look_up`].
    ///
    /// # Panics
    ///
    /// As [`CoinsView::look_up`].
    pub fn look_up_from_disk(&self, keys: &[CoinKey], answer: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.snapshot.look_up_from_disk(keys, self.plain(answer))?;
        Ok(())
    }

    /// Undoes the obfuscation of what is looked up.
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
    /// A damaged table, or what the system says.
    pub fn coins(&self) -> Result<CoinsIter> {
        self.coins_between(0, u16::MAX)
    }

    /// The coins whose txid starts with two bytes from `first` to `last`, both included, the first byte the higher one: a
    /// share for one thread.
    ///
    /// # Errors
    ///
    /// As [`CoinsView::coins`].
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
    /// As [`CoinsView::coins`].
    pub fn coins_of(&self, txid: &Txid) -> Result<CoinsIter> {
        let first = [&[COIN_KEY_PREFIX][..], txid.as_bytes()].concat();
        // VARINTs of 32 bits begin with less than this byte.
        let end = [&first[..], &[u8::MAX]].concat();
        let records = self.snapshot.range(&first, Some(&end))?;
        Ok(CoinsIter { records, obfuscation: self.obfuscation, plain: Vec::new(), dir: self.dir.clone() })
    }

    /// How many runs of tables a look-up may have to ask.
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

/// Coins in order of their keys: by txid, then by the VARINT bytes of vout, which above 16,511 is not its order.
#[derive(Debug)]
pub struct CoinsIter {
    records: Iter,
    obfuscation: Obfuscation,
    plain: Vec<u8>,
    dir: PathBuf,
}

impl CoinsIter {
    /// The next coin and its stored bytes, plain; `None` behind the last.
    ///
    /// # Errors
    ///
    /// A malformed key, a damaged table, or what the system says.
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
