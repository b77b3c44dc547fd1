//! `coins info FILE` and `coins diff A B`: snapshot files, read sequentially.

use crate::fault::Fault;
use crate::snapshot::file::{CoinsReader, SnapshotFile, network_of};
use crate::utxo_stats::setinfo::{Part, Whole};
use crate::utxo_stats::{SetHash, SetInfo};
use consensus::{Chain, Params};
use disk::Disk;
use kernels::Kernels;
use primitives::{BlockHash, CoinKey, Height, OutPoint};
use std::collections::VecDeque;
use std::path::Path;

/// Text before the reason if a file is incomplete.
const FAILED: &str = "";

/// Contents of a snapshot file.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// The network; `None` if the magic is that of a custom one.
    pub chain: Option<Chain>,
    /// Its coins. The height is the base block's if Core knows it, otherwise that of the highest coin.
    pub set: SetInfo,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the set is the one that Core knows of this base block; `None` if it has no such set, or no
    /// hash was computed.
    pub is_known: Option<bool>,
}

/// Maximum height of a coin in a file: its base block's, if that is known.
pub(super) fn height_max(file: &SnapshotFile) -> (Height, Option<consensus::params::AssumeUtxo>) {
    let params = network_of(file.header.network).map(Params::new);
    let known =
        params.and_then(|params| params.assumeutxo.iter().find(|one| one.block_hash == file.header.base).copied());
    (known.map_or(Height::MAX, |known| known.height), known)
}

/// Reads a snapshot file to its end. `hash` is computed over its coins; they must be in the order that Core writes.
///
/// # Errors
///
/// Not a snapshot; damage, with its offset; or an I/O error.
pub fn file_info(disk: &dyn Disk, path: &Path, hash: SetHash, kernels: Kernels) -> Result<FileInfo, Fault> {
    let file = SnapshotFile::open(disk, path)?;
    let (height_max, known) = height_max(&file);
    let mut part = Part::new(hash, true, kernels);
    let mut whole = Whole::new(hash);
    let mut coins = file.coins(height_max, FAILED);
    let mut last: Option<CoinKey> = None;
    loop {
        let before = coins.count();
        let start = coins.offset();
        let mut count = 0;
        let goes_on = coins.piece(|coin| {
            in_order(&mut last, &coin.outpoint, before + count, start, path)?;
            count += 1;
            part.count(&coin.outpoint, &coin.coin);
            Ok(())
        })?;
        part.hash_ready(whole.sha());
        if !goes_on {
            break;
        }
    }
    whole.add(part);
    let mut set = SetInfo { best: file.header.base, disk_size: file.bytes(), ..whole.finish() };
    let highest = set.stats.as_ref().map_or(Height::GENESIS, |stats| stats.height_max());
    set.height = known.map_or(highest, |known| known.height);
    let serialized = set.hash.filter(|(name, _)| *name == "hash_serialized_3");
    let is_known = known.zip(serialized).map(|(known, (_, hash))| known.hash_serialized == hash);
    Ok(FileInfo { chain: network_of(file.header.network), bytes: file.bytes(), set, is_known })
}

/// Refuses a coin whose key does not follow the one before.
///
/// # Errors
///
/// The coin, and its offset.
pub(super) fn in_order(
    last: &mut Option<CoinKey>,
    outpoint: &OutPoint,
    after: u64,
    near: u64,
    path: &Path,
) -> Result<(), Fault> {
    let key = CoinKey::new(outpoint);
    if last.replace(key).is_some_and(|last| last >= key) {
        let why = format!(
            "{}: coin {outpoint} follows one that belongs after it, as number {} of the file (near byte {near}): \
             not in the order that Core writes",
            path.display(),
            after + 1
        );
        return Err(Fault::refused(why, "Make the file again with ffwd coins dump or dumptxoutset, or copy it again"));
    }
    Ok(())
}

/// How two snapshots differ in one coin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// The coin is only in the first.
    First,
    /// The coin is only in the second.
    Second,
    /// The coin is in both, with different contents.
    Changed,
}

/// Differences of two snapshots.
#[derive(Clone, Debug, Default)]
pub struct DiffReport {
    /// Base block of the first, and its number of coins.
    pub first: (BlockHash, u64),
    /// Base block of the second, and its number of coins.
    pub second: (BlockHash, u64),
    /// Coins that are only in the first.
    pub only_first: u64,
    /// Coins that are only in the second.
    pub only_second: u64,
    /// Coins that are in both and differ.
    pub changed: u64,
}

/// Iterates over a file's coins.
struct Coins<'f> {
    reader: CoinsReader<'f>,
    path: &'f Path,
    waiting: VecDeque<(CoinKey, Vec<u8>)>,
    last: Option<CoinKey>,
    goes_on: bool,
}

impl<'f> Coins<'f> {
    fn new(file: &'f SnapshotFile, path: &'f Path) -> Coins<'f> {
        let reader = file.coins(height_max(file).0, FAILED);
        Coins { reader, path, waiting: VecDeque::new(), last: None, goes_on: true }
    }

    fn head(&mut self) -> Result<Option<&(CoinKey, Vec<u8>)>, Fault> {
        while self.waiting.is_empty() && self.goes_on {
            let before = self.reader.count();
            let start = self.reader.offset();
            let Coins { reader, path, waiting, last, .. } = self;
            self.goes_on = reader.piece(|coin| {
                in_order(last, &coin.outpoint, before + waiting.len() as u64, start, path)?;
                let mut stored = Vec::with_capacity(coin.bytes.len());
                coin.stored_into(&mut stored);
                waiting.push_back((CoinKey::new(&coin.outpoint), stored));
                Ok(())
            })?;
        }
        Ok(self.waiting.front())
    }

    fn pop(&mut self) {
        self.waiting.pop_front();
    }
}

/// Passes the coins in which two snapshots differ to `differs`, in the order of their keys.
///
/// # Errors
///
/// Those of [`file_info`]; two networks; errors of `differs`.
pub fn diff(
    disk: &dyn Disk,
    first: &Path,
    second: &Path,
    mut differs: impl FnMut(Difference, &OutPoint) -> Result<(), Fault>,
) -> Result<DiffReport, Fault> {
    let files = (SnapshotFile::open(disk, first)?, SnapshotFile::open(disk, second)?);
    if files.0.header.network != files.1.header.network {
        let why = format!("{} and {} are snapshots of two networks", first.display(), second.display());
        return Err(Fault::refused(why, "Name two files of one network"));
    }
    let mut a = Coins::new(&files.0, first);
    let mut b = Coins::new(&files.1, second);
    let mut report = DiffReport {
        first: (files.0.header.base, files.0.header.coins),
        second: (files.1.header.base, files.1.header.coins),
        ..DiffReport::default()
    };
    loop {
        let (difference, key) = match (a.head()?, b.head()?) {
            (None, None) => return Ok(report),
            (Some((key, _)), None) => (Difference::First, *key),
            (None, Some((key, _))) => (Difference::Second, *key),
            (Some((x, _)), Some((y, _))) if x < y => (Difference::First, *x),
            (Some((x, _)), Some((y, _))) if x > y => (Difference::Second, *y),
            (Some((key, x)), Some((_, y))) if x != y => (Difference::Changed, *key),
            (Some(_), Some(_)) => {
                a.pop();
                b.pop();
                continue;
            }
        };
        let count = match difference {
            Difference::First => {
                a.pop();
                &mut report.only_first
            }
            Difference::Second => {
                b.pop();
                &mut report.only_second
            }
            Difference::Changed => {
                a.pop();
                b.pop();
                &mut report.changed
            }
        };
        *count += 1;
        differs(difference, &key.outpoint())?;
    }
}
