//! Block files (`blk?????.dat`): raw blocks, one record after another, in order of arrival.
//!
//! ```text
//! record   magic [u8; 4] | size u32 LE | block [u8; size]
//! tail     zeros, reserved ahead and not obfuscated
//! ```
//!
//! Every byte but the tail is XORed with the data directory's key by its offset in the file. The same records without
//! obfuscation make up foreign files (bootstrap.dat), of any name and size.
//!
//! [`scan`] finds the records, [`bulk`] reads many of them in large pieces, [`mod@write`] appends.
//! Absent on purpose: heights, and whether a block is good. Records that are there are never changed.

pub mod bulk;
mod pool;
pub mod scan;
pub(crate) mod view;
pub mod write;

use crate::FilePos;
use crate::fault::{Fault, FaultKind, Result};
use crate::host::Host;
use crate::layout::{self, Network};
use crate::open_files::{FileNames, OpenFiles, Piece, RecordFile};
use crate::xor::{FileKeys, Key, NO_KEY};
use disk::Disk;
use kernels::Kernels;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::record::{RECORD_HEADER_BYTES, SCAN_SIZE_MAX, SCAN_SIZE_MIN};
pub use bulk::BulkReader;
pub use pool::{BlockBytes, GiveBack, Pool};
pub use scan::{FileScan, FoundBlock, Note, Reason};
pub use write::{BlockWriter, Flush, Limits};

/// The greatest size that a reader takes, as Core's: `MAX_SIZE`.
pub const READ_SIZE_MAX: u32 = 0x0200_0000;
/// A block alone is read in pieces of this size, whose obfuscation is undone while they lie in the processor's own cache.
const PIECE_BYTES: usize = 128 * 1024;

/// Where a block lies, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockAt {
    /// Number of the file; for foreign files, the index in their list.
    pub file: u32,
    /// Offset of the block's first byte; its record starts [`RECORD_HEADER_BYTES`] before.
    pub offset: u64,
    /// Its bytes, as its record says.
    pub size: u32,
}

impl BlockAt {
    /// As a place that the block index can hold; `None` beyond 4 GiB.
    pub fn file_pos(&self) -> Option<FilePos> {
        Some(FilePos { file: self.file, offset: u32::try_from(self.offset).ok()? })
    }
}

/// A set of files with block records, for reading. Shared by all threads.
#[derive(Debug)]
pub struct BlockFiles {
    files: OpenFiles,
}

/// The block files that are there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    /// Their numbers, ascending.
    pub there: Vec<u32>,
    /// Runs of numbers that are missing below the last one, first and last of each. Core's reindex stops at the first.
    pub missing: Vec<(u32, u32)>,
}

impl BlockFiles {
    /// Core's block files in `blocks_dir`, obfuscated with `key`.
    pub fn new(host: impl Into<Host>, blocks_dir: &Path, network: &Network, key: Key) -> BlockFiles {
        let host = host.into();
        let names = FileNames::Blocks(blocks_dir.to_path_buf());
        BlockFiles { files: OpenFiles::new(host.disk, names, FileKeys::new(key, network.magic, host.kernels)) }
    }

    /// The same files for who reads now and then: each read sees whether a file is still the one of its name.
    #[must_use]
    pub fn seeing_names(&self) -> BlockFiles {
        BlockFiles { files: self.files.seeing_names() }
    }

    /// Files of any name, each obfuscated with the key beside it, or plain; file number `i` is the one at `i`.
    pub fn foreign(host: impl Into<Host>, files: Vec<(PathBuf, Key)>, network: &Network) -> BlockFiles {
        let host = host.into();
        let keys = FileKeys::new(NO_KEY, network.magic, host.kernels);
        BlockFiles { files: OpenFiles::new(host.disk, FileNames::Foreign(files), keys) }
    }

    /// One file, number 0: plain bytes of a stream that `path` names.
    pub fn piece(disk: Arc<dyn Disk>, path: PathBuf, bytes: Vec<u8>, network: &Network) -> BlockFiles {
        let names = FileNames::Piece(Arc::new(Piece { path, bytes }));
        BlockFiles { files: OpenFiles::new(disk, names, FileKeys::new(NO_KEY, network.magic, Kernels::AUTO)) }
    }

    /// Path of file number `file`.
    ///
    /// # Panics
    ///
    /// For a foreign file that is not in the list.
    pub fn path(&self, file: u32) -> PathBuf {
        self.files.path(file)
    }

    /// The obfuscation key of the directory; a file that begins with the plain magic has none.
    pub fn key(&self) -> Key {
        self.files.keys.obfuscation.key
    }

    /// The magic before every record.
    pub fn magic(&self) -> [u8; 4] {
        self.files.keys.magic
    }

    /// Which files are there.
    ///
    /// # Errors
    ///
    /// A missing or unreadable directory; for foreign files, any that is missing.
    pub fn numbers(&self) -> Result<Numbers> {
        let mut there: Vec<u32> = match &self.files.names {
            FileNames::Blocks(dir) | FileNames::Undo(dir) => {
                let entries = self.files.disk.list(dir)?;
                entries.iter().filter(|e| !e.is_dir).filter_map(|e| layout::block_file_number(&e.name)).collect()
            }
            FileNames::Foreign(paths) => {
                let mut there = Vec::new();
                for (number, _) in (0..).zip(paths) {
                    self.file(number)?;
                    there.push(number);
                }
                there
            }
            FileNames::Piece(_) => vec![0],
        };
        there.sort_unstable();
        let mut missing = Vec::new();
        let mut next = 0;
        for &number in &there {
            if number > next {
                missing.push((next, number - 1));
            }
            next = number + 1;
        }
        Ok(Numbers { there, missing })
    }

    /// Length of file number `file` in bytes, reserved space included.
    ///
    /// # Errors
    ///
    /// A missing file, or what the system says.
    pub fn file_bytes(&self, file: u32) -> Result<u64> {
        self.file(file)?.len()
    }

    fn file(&self, number: u32) -> Result<RecordFile> {
        self.files.open(number)
    }

    /// Forgets open files: those of removed or replaced files must be opened again.
    pub fn forget_open_files(&self) {
        self.files.forget();
    }

    /// Reads one block by its place alone, as Core does: the record's magic must be there, and its size be possible.
    ///
    /// # Errors
    ///
    /// A missing file, a place that has no record, a cut; what the system says.
    ///
    /// Source: facts of Bitcoin Core b88bffe, `BlockManager::ReadRawBlock`.
    pub fn read_block(&self, at: FilePos) -> Result<Vec<u8>> {
        let file = self.file(at.file)?;
        let size = self.record_size(at.file, &file, u64::from(at.offset))?;
        let have = file.len()?.saturating_sub(u64::from(at.offset));
        if u64::from(size) > have {
            let wanted = format!("a block of {size} bytes");
            return Err(self.not_a_block(at.file, u64::from(at.offset), wanted, format!("{have} bytes to the end")));
        }
        let mut block = vec![0; size as usize];
        file.read_exact_at(u64::from(at.offset), &mut block)?;
        Ok(block)
    }

    /// Reads the start of a block into `out`, which has room for all of it or less: as [`BlockFiles::read_block`], for who
    /// knows the size and has the memory.
    ///
    /// # Errors
    ///
    /// As there; a record that is smaller.
    pub fn read_block_into(&self, at: FilePos, out: &mut [u8]) -> Result<()> {
        let file = self.file(at.file)?;
        let offset = u64::from(at.offset);
        let bytes = out.len() as u64;
        let wanted = || format!("a block of {bytes} bytes");
        let size = self.record_size(at.file, &file, offset)?;
        if u64::from(size) < bytes {
            return Err(self.not_a_block(at.file, offset, wanted(), format!("one of {size}")));
        }
        let have = file.len()?.saturating_sub(offset);
        if have < bytes {
            return Err(self.not_a_block(at.file, offset, wanted(), format!("{have} bytes to the end")));
        }
        for (at, piece) in (offset..).step_by(PIECE_BYTES).zip(out.chunks_mut(PIECE_BYTES)) {
            file.read_exact_at(at, piece)?;
        }
        Ok(())
    }

    /// Reads `bytes` of a block from `from` on, and nothing else of it; `None` where the block has no such part.
    ///
    /// # Errors
    ///
    /// As [`BlockFiles::read_block`].
    ///
    /// Source: Bitcoin Core b88bffe, `BlockManager::ReadRawBlock` with a part.
    pub fn read_block_part(&self, at: FilePos, from: usize, bytes: usize) -> Result<Option<Vec<u8>>> {
        let file = self.file(at.file)?;
        let size = self.record_size(at.file, &file, u64::from(at.offset))? as usize;
        if bytes == 0 || from.saturating_add(bytes) > size {
            return Ok(None);
        }
        let start = u64::from(at.offset) + from as u64;
        let have = file.len()?.saturating_sub(start);
        if bytes as u64 > have {
            let wanted = format!("a block of {size} bytes");
            return Err(self.not_a_block(at.file, u64::from(at.offset), wanted, "the end of the file".into()));
        }
        let mut part = vec![0; bytes];
        file.read_exact_at(start, &mut part)?;
        Ok(Some(part))
    }

    /// Bytes of a file as they are, obfuscation undone.
    ///
    /// # Errors
    ///
    /// A missing file, one that ends earlier; what the system says.
    pub fn read_range(&self, file: u32, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let file = self.file(file)?;
        let have = file.len()?.saturating_sub(offset);
        let mut range = vec![0; usize::try_from(bytes.min(have)).unwrap_or(usize::MAX)];
        file.read_exact_at(offset, &mut range)?;
        Ok(range)
    }

    /// Size of the block at `offset` as the header of its record says.
    fn record_size(&self, number: u32, file: &RecordFile, offset: u64) -> Result<u32> {
        let Some(start) = offset.checked_sub(u64::from(RECORD_HEADER_BYTES)) else {
            return Err(self.not_a_block(
                number,
                offset,
                "an offset behind a record's header".into(),
                offset.to_string(),
            ));
        };
        let mut header = [0; RECORD_HEADER_BYTES as usize];
        let have = file.read_at(start, &mut header)?;
        if have < header.len() {
            return Err(self.not_a_block(number, offset, "a block".into(), "the end of the file".into()));
        }
        self.check_record_header(number, offset, header, None)
    }

    /// Looks at the 8 bytes before a block; says its size.
    fn check_record_header(&self, file: u32, offset: u64, header: [u8; 8], size: Option<u32>) -> Result<u32> {
        let [m0, m1, m2, m3, s0, s1, s2, s3] = header;
        let magic = [m0, m1, m2, m3];
        let there = u32::from_le_bytes([s0, s1, s2, s3]);
        if magic != self.files.keys.magic {
            let wanted = format!("a record with magic {:02x?}", self.files.keys.magic);
            return Err(self.not_a_block(file, offset, wanted, format!("{magic:02x?}")));
        }
        match size {
            Some(size) if size != there => {
                Err(self.not_a_block(file, offset, format!("a block of {size} bytes"), format!("one of {there}")))
            }
            _ if there > READ_SIZE_MAX => {
                let wanted = format!("a block of at most {READ_SIZE_MAX} bytes");
                Err(self.not_a_block(file, offset, wanted, format!("one of {there}")))
            }
            _ => Ok(there),
        }
    }

    fn not_a_block(&self, file: u32, offset: u64, wanted: String, found: String) -> Fault {
        let advice = "The file was damaged or replaced after it was listed: look at the drive, then start again";
        Fault::new(FaultKind::Damaged, &self.path(file), wanted, found, advice).at_offset(offset).or_reindex()
    }
}
