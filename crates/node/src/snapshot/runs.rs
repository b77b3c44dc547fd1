//! Sorted runs of changes in temporary files, and their merge: an external sort.
//!
//! ```text
//! record:  key length u8 | key | tip u32 LE | bytes of the coin u32 LE | coin
//! tip:     0 = absent at the tip, else the code of the coin that must be there, and one more
//! coin:    none = absent at the target
//! ```
//!
//! The files are private to one run of this program, and removed when it ends.

use crate::fault::Fault;
use crate::threads::shares::Shares;
use disk::{Appender, Disk, DiskFile};
use primitives::CoinKey;
use primitives::coin::COIN_KEY_BYTES_MAX;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file per read or write.
const PIECE_BYTES: usize = 64 << 10;
/// At this number runs are merged into one, so that their readers use few MiB.
const RUNS_MAX: usize = 32;
/// Maximum bytes of a record before its coin.
const RECORD_BYTES_MAX: usize = 1 + COIN_KEY_BYTES_MAX + 4 + 4;

/// The states of one coin at the tip and at the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// Code of the coin that exists at the tip; `None` if it does not exist.
    pub(super) tip: Option<u32>,
    /// The stored coin at the target; `None` if it does not exist.
    pub(super) target: Option<Box<[u8]>>,
}

impl Change {
    /// Combines two changes of a coin: `self` is nearer to the tip.
    fn then(self, lower: Change) -> Change {
        Change { tip: self.tip, target: lower.target }
    }
}

/// A run in a file.
#[derive(Debug)]
struct Run {
    file: Arc<dyn DiskFile>,
    /// Start offset of each share, and the end.
    starts: Vec<u64>,
}

/// All runs, the one nearest to the tip first.
#[derive(Debug)]
pub(super) struct Runs {
    disk: Arc<dyn Disk>,
    /// Name of the files without their numbers.
    stem: PathBuf,
    shares: Shares,
    runs: Vec<Run>,
    next: u32,
}

impl Runs {
    /// No runs; files get the name `stem` and a number.
    pub(super) fn new(disk: Arc<dyn Disk>, stem: &Path, shares: Shares) -> Runs {
        Runs { disk, stem: stem.to_path_buf(), shares, runs: Vec::new(), next: 0 }
    }

    /// The shares of the set.
    pub(super) fn shares(&self) -> Shares {
        self.shares
    }

    /// Writes changes as a new run, the lowest one.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error.
    pub(super) fn spill(&mut self, changes: HashMap<CoinKey, Change>) -> Result<(), Fault> {
        let mut sorted: Vec<(CoinKey, Change)> = changes.into_iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        let mut writer = RunWriter::create(self)?;
        for (key, change) in &sorted {
            writer.put(self.shares, key, change)?;
        }
        let run = writer.finish(self.shares)?;
        self.runs.push(run);
        if self.runs.len() < RUNS_MAX {
            return Ok(());
        }
        let mut writer = RunWriter::create(self)?;
        let mut merge = self.merge(0, self.shares.count() - 1)?;
        while let Some((key, change)) = merge.next()? {
            writer.put(self.shares, &key, &change)?;
        }
        drop(merge);
        let run = writer.finish(self.shares)?;
        for old in std::mem::replace(&mut self.runs, vec![run]) {
            self.disk.remove_file(old.file.path()).map_err(store::Fault::from)?;
        }
        Ok(())
    }

    /// The changes of the shares from `first` to `last`, in the order of their keys.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(super) fn merge(&self, first: usize, last: usize) -> Result<Merge, Fault> {
        let readers = self.runs.iter().map(|run| RunReader::new(run, first, last)).collect::<Result<_, _>>()?;
        Ok(Merge { readers })
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        for run in &self.runs {
            let _ = self.disk.remove_file(run.file.path());
        }
    }
}

struct RunWriter {
    out: Appender,
    pending: Vec<u8>,
    starts: Vec<u64>,
}

impl RunWriter {
    fn create(runs: &mut Runs) -> Result<RunWriter, Fault> {
        let mut name = runs.stem.clone().into_os_string();
        name.push(format!(".{}", runs.next));
        runs.next += 1;
        let path = PathBuf::from(name);
        if runs.disk.metadata(&path).map_err(store::Fault::from)?.is_some() {
            runs.disk.remove_file(&path).map_err(store::Fault::from)?;
        }
        let file = runs.disk.create(&path).map_err(store::Fault::from)?;
        Ok(RunWriter { out: Appender::new(file, 0), pending: Vec::new(), starts: vec![0] })
    }

    fn end(&self) -> u64 {
        self.out.offset() + self.pending.len() as u64
    }

    fn put(&mut self, shares: Shares, key: &CoinKey, change: &Change) -> Result<(), Fault> {
        let share = shares.of_txid(key.outpoint().txid.as_bytes());
        self.starts.resize(self.starts.len().max(share + 1), self.end());
        let key = key.as_bytes();
        self.pending.push(key.len() as u8);
        self.pending.extend_from_slice(key);
        let tip = change.tip.map_or(0, |code| code + 1);
        self.pending.extend_from_slice(&tip.to_le_bytes());
        let coin = change.target.as_deref().unwrap_or_default();
        self.pending.extend_from_slice(&(coin.len() as u32).to_le_bytes());
        self.pending.extend_from_slice(coin);
        if self.pending.len() >= PIECE_BYTES {
            self.out.write_all(&self.pending).map_err(store::Fault::from)?;
            self.pending.clear();
        }
        Ok(())
    }

    fn finish(mut self, shares: Shares) -> Result<Run, Fault> {
        self.out.write_all(&self.pending).map_err(store::Fault::from)?;
        let end = self.out.offset();
        self.starts.resize(shares.count() + 1, end);
        Ok(Run { file: self.out.file().clone(), starts: self.starts })
    }
}

/// Reads a range of one run.
struct RunReader {
    file: Arc<dyn DiskFile>,
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    place: usize,
    head: Option<(CoinKey, Change)>,
}

impl RunReader {
    fn new(run: &Run, first: usize, last: usize) -> Result<RunReader, Fault> {
        let at = run.starts[first];
        let end = run.starts[last + 1];
        let mut reader = RunReader { file: run.file.clone(), at, end, buffer: Vec::new(), place: 0, head: None };
        reader.advance()?;
        Ok(reader)
    }

    /// The next `count` bytes, which must exist: this program wrote them.
    fn bytes(&mut self, count: usize) -> Result<&[u8], Fault> {
        if self.buffer.len() - self.place < count {
            self.buffer.drain(..self.place);
            self.place = 0;
            let kept = self.buffer.len();
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let wanted = (PIECE_BYTES + count).min(left);
            self.buffer.resize(kept + wanted, 0);
            self.file.read_exact_at(self.at, &mut self.buffer[kept..]).map_err(store::Fault::from)?;
            self.at += wanted as u64;
            if self.buffer.len() < count {
                return Err(Fault::internal(format!("{} ends inside a record", self.file.path().display())));
            }
        }
        self.place += count;
        Ok(&self.buffer[self.place - count..self.place])
    }

    fn advance(&mut self) -> Result<(), Fault> {
        if self.at == self.end && self.place == self.buffer.len() {
            self.head = None;
            return Ok(());
        }
        let broken = || Fault::internal("a temporary file of changes differs from what was written");
        let len = usize::from(self.bytes(1)?[0]);
        let mut start = [0; RECORD_BYTES_MAX];
        let start = start.get_mut(..len + 8).ok_or_else(broken)?;
        start.copy_from_slice(self.bytes(len + 8)?);
        let number = |at: usize| u32::from_le_bytes(*start[at..].first_chunk().expect("8 bytes stand behind the key"));
        let key = primitives::coin::decode_coin_key(&start[..len]).map_err(|_| broken())?;
        let tip = number(len);
        let bytes = number(len + 4) as usize;
        let coin = self.bytes(bytes)?;
        let target = (!coin.is_empty()).then(|| coin.into());
        self.head = Some((CoinKey::new(&key), Change { tip: tip.checked_sub(1), target }));
        Ok(())
    }
}

/// Merges the changes of several runs.
pub(super) struct Merge {
    readers: Vec<RunReader>,
}

impl Merge {
    /// The next change, in the order of the keys; `None` after the last.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(super) fn next(&mut self) -> Result<Option<(CoinKey, Change)>, Fault> {
        let heads = self.readers.iter().filter_map(|reader| reader.head.as_ref().map(|(key, _)| *key));
        let Some(key) = heads.min() else { return Ok(None) };
        let mut whole: Option<Change> = None;
        for reader in &mut self.readers {
            if let Some((_, change)) = reader.head.take_if(|(head, _)| *head == key) {
                whole = Some(match whole {
                    Some(upper) => upper.then(change),
                    None => change,
                });
                reader.advance()?;
            }
        }
        Ok(whole.map(|change| (key, change)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use primitives::{OutPoint, Txid};
    use std::collections::BTreeMap;

    /// Against one map, through more runs than are kept.
    #[test]
    fn merged_runs_are_one_map() {
        let mut rng = testkit::Rng::new(5);
        let sim = SimDisk::new(1);
        sim.create_dir_all(Path::new("/d")).unwrap();
        let shares = Shares::of(0);
        let mut runs = Runs::new(sim.shared(), Path::new("/d/f"), shares);
        let mut model: BTreeMap<CoinKey, Change> = BTreeMap::new();
        for _ in 0..RUNS_MAX + 5 {
            let mut changes = HashMap::new();
            for _ in 0..rng.below(60) {
                let txid =
                    Txid::from_bytes([[rng.below(5) as u8 * 60; 31].as_slice(), &[1]].concat().try_into().unwrap());
                let key = CoinKey::new(&OutPoint { txid, vout: rng.below(4) as u32 * 9000 });
                let some = |rng: &mut testkit::Rng| (!rng.one_in(3)).then(|| rng.u32() >> 1);
                let target = some(&mut rng).map(|code| vec![code as u8 | 1; 1 + rng.below(100)].into());
                changes.insert(key, Change { tip: some(&mut rng), target });
            }
            for (key, change) in &changes {
                let upper = model.remove(key);
                model.insert(*key, upper.map_or(change.clone(), |upper| upper.then(change.clone())));
            }
            runs.spill(changes).unwrap();
        }
        assert!(runs.runs.len() < RUNS_MAX);
        let mut all = Vec::new();
        for share in 0..shares.count() {
            let mut merge = runs.merge(share, share).unwrap();
            while let Some((key, change)) = merge.next().unwrap() {
                assert_eq!(shares.of_txid(key.outpoint().txid.as_bytes()), share);
                all.push((key, change));
            }
        }
        assert!(all.into_iter().eq(model));
        drop(runs);
        assert_eq!(sim.list(Path::new("/d")).unwrap().len(), 0, "the files go with it");
    }
}
