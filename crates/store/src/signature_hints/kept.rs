//! Hints about signatures that a run keeps for later runs, block by block as it connects them: two private files.
//!
//! ```text
//! signature_hints.index: for each height from 1 on an entry, zeros where there is none
//! signature_hints.bits:  the bits of blocks, in the order in which they were connected
//! ```
//!
//! Neither is synced. Both may be removed while no program runs; if one is missing, the next run that keeps hints empties the
//! other. After a crash an entry may point at lost bits, or at those of another block. That costs time, and no verdict.

use super::{ENTRY_BYTES, HEIGHT_MAX, SignatureHints, entry, place_of};
use crate::fault::{Fault, FaultKind, Result};
use crate::private_files::PrivateDir;
use disk::{Appender, Disk, DiskFile};
use primitives::{BlockHash, Height};
use std::sync::Arc;

/// The file of the entries.
const INDEX: &str = "signature_hints.index";
/// The file of the bits.
const BITS: &str = "signature_hints.bits";
/// Bits and entries wait in memory until one list has this many bytes.
const WAITING_BYTES_MAX: usize = 64 << 10;
/// Space that is left to other files.
const SPARE_BYTES: u64 = 1 << 30;

/// The hints that earlier runs kept in this directory, as they are now; `None` if there are none.
///
/// # Errors
///
/// An I/O error.
pub fn open(dir: &PrivateDir) -> Result<Option<SignatureHints>> {
    let existing = |name: &str| match dir.disk().open(&dir.path_of(name)) {
        Err(why) if why.is_not_found() => Ok(None),
        opened => opened.map(Some),
    };
    let (Some(index), Some(bits)) = (existing(INDEX)?, existing(BITS)?) else { return Ok(None) };
    let bytes = bits.len()?;
    let entries = (index.len()? / ENTRY_BYTES as u64).min(u64::from(HEIGHT_MAX));
    Ok(Some(SignatureHints::new([index, bits], 0, &dir.path_of(BITS), bytes, Height::new(entries as u32))))
}

/// Appends the hints of connected blocks.
#[derive(Debug)]
pub struct Keeper {
    disk: Arc<dyn Disk>,
    index: Arc<dyn DiskFile>,
    bits: Appender,
    /// Bits that are not written yet.
    waiting: Vec<u8>,
    /// Entries that are not written yet, of consecutive blocks from height `first` on.
    entries: Vec<u8>,
    first: Height,
}

impl Keeper {
    /// Opens the files in this directory, which are made if they are missing.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error.
    pub fn open(dir: &PrivateDir) -> Result<Keeper> {
        dir.make()?;
        let disk = dir.disk().clone();
        let modified = |name: &str| match disk.modify(&dir.path_of(name)) {
            Err(why) if why.is_not_found() => Ok((disk.create(&dir.path_of(name))?, true)),
            opened => opened.map(|file| (file, false)),
        };
        let (index, is_new_index) = modified(INDEX)?;
        let (bits, are_new_bits) = modified(BITS)?;
        if is_new_index || are_new_bits {
            // What one has without the other is of no use.
            index.set_len(0)?;
            bits.set_len(0)?;
        }
        let end = bits.len()?;
        let waiting = Vec::new();
        let entries = Vec::new();
        Ok(Keeper { disk, index, bits: Appender::new(bits, end), waiting, entries, first: Height::GENESIS })
    }

    /// Takes the bits of a block above the genesis block, instead of those of another block at its height.
    ///
    /// # Errors
    ///
    /// Less than 1 GiB of free space, or an I/O error: then nothing more can be kept.
    pub fn put(&mut self, height: Height, hash: &BlockHash, bits: &[u8]) -> Result<()> {
        if height != self.next() || self.waiting.len().max(self.entries.len()) >= WAITING_BYTES_MAX {
            self.write_out()?;
            self.first = height;
        }
        self.entries.extend_from_slice(&entry(hash, self.bits.offset() + self.waiting.len() as u64));
        self.waiting.extend_from_slice(bits);
        Ok(())
    }

    /// The height above the last entry that waits.
    fn next(&self) -> Height {
        self.first + (self.entries.len() / ENTRY_BYTES) as u32
    }

    /// Writes what waits in memory.
    ///
    /// # Errors
    ///
    /// Those of [`Keeper::put`].
    pub fn write_out(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let path = self.index.path();
        let free = self.disk.free_space_bytes(path.parent().unwrap_or(path))?;
        if free < SPARE_BYTES {
            let wanted = format!("{SPARE_BYTES} bytes of free space");
            let advice = "Free disk space to have the hints of later blocks kept in the next run";
            return Err(Fault::new(FaultKind::NoSpace, path, wanted, free.to_string(), advice));
        }
        self.bits.write_all(&self.waiting)?;
        self.index.write_at(place_of(self.first), &self.entries)?;
        self.first = self.next();
        self.waiting.clear();
        self.entries.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use std::collections::BTreeMap;
    use testkit::Rng;

    fn dir(disk: &SimDisk) -> PrivateDir {
        PrivateDir::new(disk.shared(), "/n/ffwd".into())
    }

    fn hash(number: usize) -> BlockHash {
        BlockHash::from_bytes([number as u8 + 1; 32])
    }

    /// Runs that begin anywhere, go back, and end with or without writing what waits.
    #[test]
    fn bits_come_back_in_later_runs() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let disk = SimDisk::new(seed);
            let mut written: BTreeMap<u32, (usize, Vec<u8>)> = BTreeMap::new();
            assert!(open(&dir(&disk)).unwrap().is_none());
            for run in 0..4 {
                let mut keeper = Keeper::open(&dir(&disk)).unwrap();
                let mut height = 1 + rng.below(20) as u32;
                let mut put = BTreeMap::new();
                for block in 0..rng.below(40) {
                    let size = [0, 1, 9, 3000][rng.below(4)];
                    let bits: Vec<u8> = (0..size).map(|_| rng.below(256) as u8).collect();
                    let number = run * 50 + block;
                    keeper.put(Height::new(height), &hash(number), &bits).unwrap();
                    put.insert(height, (number, bits));
                    height = if rng.below(9) == 0 { 1 + rng.below(30) as u32 } else { height + 1 };
                    if rng.below(9) == 0 {
                        keeper.write_out().unwrap();
                    }
                }
                keeper.write_out().unwrap();
                written.extend(put);
                let hints = open(&dir(&disk)).unwrap().expect("they were made");
                for (&height, (number, bits)) in &written {
                    let at = Height::new(height);
                    let inputs = 8 * bits.len();
                    let back = hints.of_block(at, &hash(*number), inputs).expect("it was kept");
                    assert_eq!(back.as_bytes(), bits, "seed {seed}, height {height}");
                    assert_eq!(hints.of_block(at, &hash(number + 1), inputs), None, "another block");
                }
                let missing = (1..60).filter(|height| !written.contains_key(height));
                missing.for_each(|height| assert_eq!(hints.of_block(Height::new(height), &hash(0), 1), None));
                assert_eq!(hints.unread(), None);
            }
        }
    }

    #[test]
    fn space_is_left_to_others() {
        let disk = SimDisk::new(1);
        let mut keeper = Keeper::open(&dir(&disk)).unwrap();
        keeper.put(Height::new(1), &hash(1), &[1; 30]).unwrap();
        disk.set_free_bytes(SPARE_BYTES - 1);
        assert!(keeper.write_out().unwrap_err().is_no_space());
        assert!(open(&dir(&disk)).unwrap().unwrap().of_block(Height::new(1), &hash(1), 240).is_none());
        disk.set_free_bytes(SPARE_BYTES);
        keeper.write_out().unwrap();
    }

    /// Whatever is in the files, reading them gives bits or none.
    #[test]
    fn damaged_files_give_bits_or_none() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let disk = SimDisk::new(seed);
            let mut keeper = Keeper::open(&dir(&disk)).unwrap();
            (1..20).for_each(|height| keeper.put(Height::new(height), &hash(height as usize), &[7; 30]).unwrap());
            keeper.write_out().unwrap();
            let name = [INDEX, BITS][rng.below(2)];
            let file = disk.modify(&dir(&disk).path_of(name)).unwrap();
            if rng.below(2) == 0 {
                file.set_len(rng.below(file.len().unwrap() as usize) as u64).unwrap();
            } else {
                (0..20).for_each(|_| file.write_at(rng.below(300) as u64, &[rng.below(256) as u8]).unwrap());
            }
            let hints = open(&dir(&disk)).unwrap().expect("they are there");
            for height in 0..30 {
                if let Some(bits) = hints.of_block(Height::new(height), &hash(height as usize), 240) {
                    assert_eq!(bits.as_bytes().len(), 30);
                }
            }
            // And more can be kept, also where one file was removed: then nothing else is left.
            let is_removed = rng.below(4) == 0;
            if is_removed {
                disk.remove_file(&dir(&disk).path_of([INDEX, BITS][rng.below(2)])).unwrap();
            }
            let mut keeper = Keeper::open(&dir(&disk)).unwrap();
            keeper.put(Height::new(7), &hash(7), &[9; 30]).unwrap();
            keeper.write_out().unwrap();
            let hints = open(&dir(&disk)).unwrap().expect("they are there");
            let back = hints.of_block(Height::new(7), &hash(7), 240).expect("just kept");
            assert_eq!(back.as_bytes(), [9; 30]);
            let others = (1..20).filter(|&height| height != 7);
            let left =
                others.filter(|&height| hints.of_block(Height::new(height), &hash(height as usize), 240).is_some());
            assert!(!is_removed || left.count() == 0, "seed {seed}");
        }
    }
}
