//! Hints about ECDSA signatures: for each input of a chain's blocks, whether the y of the point R of its signature is
//! odd.
//!
//! With this bit many signatures are verified by one sum, as Schnorr signatures are. The file is not trusted: with a
//! wrong bit the sum fails, and each signature is verified separately, which takes longer and changes no verdict.
//!
//! ```text
//! 46 46 53 48 | version u8 = 1 | height u32 LE | for each height from 1 on one entry | bits
//! entry: first 8 bytes of the block's hash | offset of the block's bits in the file, u64 LE
//! ```
//!
//! A block has one bit for each input without the coinbase's, in order, the lowest bit of a byte first, rounded up to
//! bytes; 0 for an input without exactly one ECDSA signature. Mainnet has some 400 MB of them.
//!
//! A run keeps hints of its own in two private files ([`kept`]): one has the entries, without a header, the other the
//! bits.

pub mod kept;

use crate::fault::{Fault, FaultKind, Result};
use disk::{Appender, Disk, DiskFile};
use primitives::{BlockHash, Height};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

const MAGIC: [u8; 4] = *b"FFSH";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 9;
const ENTRY_BYTES: usize = 16;
/// Greater heights are refused: three hundred years of blocks.
const HEIGHT_MAX: u32 = 1 << 24;
/// More bytes than a block has for its inputs: each takes 41 of its 1,000,000 bytes without witnesses.
const BITS_MAX: usize = 1_000_000 / 41 / 8 + 1;
const ADVICE: &str = "Make the file again with ffwd hints make --signatures, copy it again, or go on without it";

/// An open file, or the two of an earlier run.
#[derive(Debug)]
pub struct SignatureHints {
    /// Has the entries, the first one at `entries_at`.
    index: Arc<dyn DiskFile>,
    entries_at: u64,
    /// Has the bits.
    bits: Arc<dyn DiskFile>,
    path: PathBuf,
    /// Length of `bits`.
    bytes: u64,
    height: Height,
    blocks: AtomicU64,
    unread: OnceLock<String>,
}

/// The bits of one block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockBits(Vec<u8>);

impl BlockBits {
    /// The bit of an input, numbered through the block, the coinbase's not counted; `None` beyond the last byte.
    pub fn bit(&self, input: usize) -> Option<bool> {
        self.0.get(input / 8).map(|byte| byte >> (input % 8) & 1 == 1)
    }

    /// The bytes that have the bits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl SignatureHints {
    /// Opens a file; only its header is read.
    ///
    /// # Errors
    ///
    /// It is missing, of another kind or version, or shorter than its entries; an I/O error.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<SignatureHints> {
        let file = disk.open(path).map_err(|why| Fault::from(why).advise(ADVICE))?;
        let bytes = file.len()?;
        let mut header = [0; HEADER_BYTES];
        let wanted = header.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
        file.read_exact_at(0, &mut header[..wanted])?;
        let [magic @ .., version, a, b, c, d] = header;
        if magic != MAGIC || version != VERSION {
            let found = format!("{} bytes that begin with {}", bytes, primitives::hex::encode(&header[..wanted]));
            let wanted = "a file of ffwd hints make --signatures, version 1";
            return Err(Fault::new(FaultKind::OtherForm, path, wanted, found, ADVICE));
        }
        let height = u32::from_le_bytes([a, b, c, d]);
        let least = HEADER_BYTES as u64 + u64::from(height) * ENTRY_BYTES as u64;
        if height > HEIGHT_MAX || bytes < least {
            let wanted = format!("at least {least} bytes, for hints up to height {height}, at most {HEIGHT_MAX}");
            return Err(Fault::new(FaultKind::Damaged, path, wanted, format!("{bytes} bytes"), ADVICE));
        }
        let height = Height::new(height);
        Ok(SignatureHints::new([file.clone(), file], HEADER_BYTES as u64, path, bytes, height))
    }

    fn new(
        [index, bits]: [Arc<dyn DiskFile>; 2],
        entries_at: u64,
        path: &Path,
        bytes: u64,
        height: Height,
    ) -> SignatureHints {
        let (blocks, unread) = Default::default();
        SignatureHints { index, entries_at, bits, path: path.to_path_buf(), bytes, height, blocks, unread }
    }

    /// The path of the file with the bits.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The height of the last block with hints.
    pub fn height(&self) -> Height {
        self.height
    }

    /// Number of blocks whose bits were read.
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Why the bits of some block could not be read: after such an error nothing more is read.
    pub fn unread(&self) -> Option<&str> {
        self.unread.get().map(String::as_str)
    }

    /// The bits of a block with this number of inputs, without the coinbase's. `None` if the file has none or those of another
    /// block, or cannot be read: no block needs them.
    pub fn of_block(&self, height: Height, hash: &BlockHash, inputs: usize) -> Option<BlockBits> {
        if self.unread().is_some() {
            return None;
        }
        let read = self.read(height, hash, inputs).unwrap_or_else(|why| {
            let _ = self.unread.set(why.to_string()); // Two threads may read at the same time.
            None
        })?;
        self.blocks.fetch_add(1, Relaxed);
        Some(read)
    }

    fn read(&self, height: Height, hash: &BlockHash, inputs: usize) -> Result<Option<BlockBits>> {
        let length = inputs.div_ceil(8);
        if height == Height::GENESIS || height > self.height || length > BITS_MAX {
            return Ok(None);
        }
        let mut entry = [0; ENTRY_BYTES];
        self.index.read_exact_at(self.entries_at + place_of(height), &mut entry)?;
        let [prefix, offset] = *entry.as_chunks::<8>().0 else { unreachable!("two numbers") };
        let offset = u64::from_le_bytes(offset);
        let is_inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.bytes);
        if prefix != prefix_of(hash) || !is_inside {
            return Ok(None);
        }
        let mut bits = vec![0; length];
        self.bits.read_exact_at(offset, &mut bits)?;
        Ok(Some(BlockBits(bits)))
    }
}

/// The offset among the entries of that of a block above the genesis block.
fn place_of(height: Height) -> u64 {
    u64::from(height.to_u32() - 1) * ENTRY_BYTES as u64
}

/// The entry of a block whose bits begin at `offset`.
fn entry(hash: &BlockHash, offset: u64) -> [u8; ENTRY_BYTES] {
    *[prefix_of(hash), offset.to_le_bytes()].as_flattened().first_chunk().expect("two numbers")
}

fn prefix_of(hash: &BlockHash) -> [u8; 8] {
    *hash.as_bytes().first_chunk().expect("8 of 32 bytes")
}

/// Writes a file, block by block from height 1 on.
pub struct Writer {
    out: Appender,
    height: Height,
    entries: Vec<u8>,
}

impl Writer {
    /// For blocks up to `height`, into an empty file.
    pub fn new(file: Arc<dyn DiskFile>, height: Height) -> Writer {
        let start = HEADER_BYTES as u64 + place_of(height + 1);
        Writer { out: Appender::new(file, start), height, entries: Vec::new() }
    }

    /// Appends the bits of the next block.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn put(&mut self, hash: &BlockHash, odd: &[bool]) -> Result<()> {
        self.entries.extend_from_slice(&entry(hash, self.out.offset()));
        let mut bits = vec![0; odd.len().div_ceil(8)];
        odd.iter().enumerate().filter(|(_, odd)| **odd).for_each(|(input, _)| bits[input / 8] |= 1 << (input % 8));
        Ok(self.out.write_all(&bits)?)
    }

    /// Writes header and entries, and returns the file's length. Call after the last block.
    ///
    /// # Errors
    ///
    /// An I/O error.
    ///
    /// # Panics
    ///
    /// If blocks are missing.
    pub fn finish(self) -> Result<u64> {
        assert_eq!(self.entries.len(), self.height.to_usize() * ENTRY_BYTES, "an entry for each height");
        let height = self.height.to_u32().to_le_bytes();
        let header = [&MAGIC[..], &[VERSION], &height, &self.entries].concat();
        let file = self.out.file();
        file.write_at(0, &header)?;
        file.sync()?;
        Ok(self.out.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use testkit::Rng;

    const PATH: &str = "/hints";

    fn hash(number: usize) -> BlockHash {
        BlockHash::from_bytes([number as u8 + 1; 32])
    }

    fn written(disk: &dyn Disk, blocks: &[Vec<bool>]) -> u64 {
        let file = disk.create(Path::new(PATH)).unwrap();
        let mut writer = Writer::new(file, Height::new(blocks.len() as u32));
        for (at, odd) in blocks.iter().enumerate() {
            writer.put(&hash(at), odd).unwrap();
        }
        writer.finish().unwrap()
    }

    fn put(disk: &dyn Disk, bytes: &[u8]) {
        disk.remove_file(Path::new(PATH)).unwrap();
        disk.create(Path::new(PATH)).unwrap().write_at(0, bytes).unwrap();
    }

    #[test]
    fn bits_come_back_by_height_and_hash() {
        let mut rng = Rng::new(1);
        let disk = SimDisk::new(1);
        let blocks: Vec<Vec<bool>> =
            [0, 1, 7, 8, 9, 700].map(|inputs| (0..inputs).map(|_| rng.below(2) == 1).collect()).into();
        let bytes = written(&disk, &blocks);
        let hints = SignatureHints::open(&disk, Path::new(PATH)).unwrap();
        assert_eq!((hints.height(), hints.bytes), (Height::new(6), bytes));
        for (at, odd) in blocks.iter().enumerate() {
            let height = Height::new(at as u32 + 1);
            let bits = hints.of_block(height, &hash(at), odd.len()).expect("it was written");
            let back: Vec<bool> = (0..odd.len()).map(|input| bits.bit(input).unwrap()).collect();
            assert_eq!(&back, odd, "block {at}");
            assert_eq!(bits.bit(odd.len().next_multiple_of(8)), None);
            assert_eq!(hints.of_block(height, &hash(at + 1), odd.len()), None, "another block");
        }
        assert_eq!(hints.of_block(Height::GENESIS, &hash(0), 1), None);
        assert_eq!(hints.of_block(Height::new(7), &hash(6), 1), None);
        assert_eq!((hints.blocks(), hints.unread()), (6, None));
        // The last block's bits end with the file.
        assert_eq!(hints.of_block(Height::new(6), &hash(5), 800), None, "more inputs than bits");
        assert_eq!(hints.of_block(Height::new(1), &hash(0), usize::MAX), None);
    }

    #[test]
    fn other_files_are_refused() {
        let disk = SimDisk::new(1);
        let missing = SignatureHints::open(&disk, Path::new(PATH)).unwrap_err();
        assert!(missing.to_string().contains(ADVICE), "{missing}");
        written(&disk, &[vec![true; 9]]);
        let whole = disk.open(Path::new(PATH)).unwrap().bytes().unwrap().to_vec();
        for (row, length, at, kind) in [
            ("empty", 0, None, FaultKind::OtherForm),
            ("another magic", whole.len(), Some((0, 0)), FaultKind::OtherForm),
            ("another version", whole.len(), Some((4, 2)), FaultKind::OtherForm),
            ("a cut header", 8, None, FaultKind::Damaged),
            ("a cut entry", 24, None, FaultKind::Damaged),
            ("too high", whole.len(), Some((8, 1)), FaultKind::Damaged),
        ] {
            let mut bytes = whole[..length].to_vec();
            if let Some((at, byte)) = at {
                bytes[at] = byte;
            }
            put(&disk, &bytes);
            assert_eq!(SignatureHints::open(&disk, Path::new(PATH)).unwrap_err().kind(), kind, "{row}");
        }
    }

    #[test]
    fn hostile_bytes_do_no_harm() {
        let mut rng = Rng::new(2);
        let disk = SimDisk::new(1);
        written(&disk, &[vec![true; 90], vec![false; 3], vec![true; 20]]);
        let whole = disk.open(Path::new(PATH)).unwrap().bytes().unwrap().to_vec();
        for _ in 0..testkit::rounds(2000) {
            let mut bytes = whole[..rng.below(whole.len() + 1)].to_vec();
            for _ in 0..rng.below(4) {
                if let Some(byte) = bytes.get_mut(rng.below(whole.len())) {
                    *byte = rng.u64() as u8;
                }
            }
            put(&disk, &bytes);
            if let Ok(hints) = SignatureHints::open(&disk, Path::new(PATH)) {
                for at in 0..4 {
                    hints.of_block(Height::new(at as u32 + 1), &hash(at), rng.below(200));
                }
            }
        }
    }
}
