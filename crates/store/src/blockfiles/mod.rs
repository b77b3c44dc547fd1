//! Block files (`blk?????.dat`): raw blocks, one record after another, in order of arrival.
//!
//! ```text
//! record   magic [u8; 4] | size u32 LE | block [u8; size]
//! tail     zeros, reserved ahead and not obfuscated
//! ```
//!
//! Every byte except the tail is XORed with the data directory's key by its offset in the file. Foreign files
//! (bootstrap.dat) hold the same records without obfuscation, and have any name and size.
//!
//! [`scan`] finds the records, [`bulk`] reads many of them in large pieces, [`mod@write`] appends. Existing records are
//! never changed. Absent on purpose: heights, and whether a block is valid.

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

/// The largest block that a reader accepts, as in Core: `MAX_SIZE`.
pub const READ_SIZE_MAX: u32 = 0x0200_0000;
/// A single block is read in pieces of this size, so that its obfuscation is undone in the processor's cache.
const PIECE_BYTES: usize = 128 * 1024;

/// Place and size of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockAt {
    /// Number of the file; for foreign files, the index in their list.
    pub file: u32,
    /// Offset of the block's first byte; its record starts [`RECORD_HEADER_BYTES`] before.
    pub offset: u64,
    /// Size in bytes, from its record.
    pub size: u32,
}

impl BlockAt {
    /// The place as stored in the block index; `None` above 4 GiB.
    pub fn file_pos(&self) -> Option<FilePos> {
        Some(FilePos { file: self.file, offset: u32::try_from(self.offset).ok()? })
    }
}

/// A set of files with block records, for reading. Shared by all threads.
#[derive(Debug)]
pub struct BlockFiles {
    files: OpenFiles,
}

/// Numbers of the existing block files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    /// The numbers, ascending.
    pub there: Vec<u32>,
    /// Gaps: missing numbers below the last one, as ranges (first, last). Core's reindex stops at the first gap.
    pub missing: Vec<(u32, u32)>,
}

impl BlockFiles {
    /// Core's block files in `blocks_dir`, obfuscated with `key`.
    pub fn new(host: impl Into<Host>, blocks_dir: &Path, network: &Network, key: Key) -> BlockFiles {
        let host = host.into();
        let names = FileNames::Blocks(blocks_dir.to_path_buf());
        BlockFiles { files: OpenFiles::new(host.disk, names, FileKeys::new(key, network.magic, host.kernels)) }
    }

    /// The same files for occasional reads: each read checks that the open file is still the one of that name.
    #[must_use]
    pub fn seeing_names(&self) -> BlockFiles {
        BlockFiles { files: self.files.seeing_names() }
    }

    /// Files of any name, each obfuscated with its key, or plain if the key is zero; file number `i` is the one at
    /// index `i`.
    pub fn foreign(host: impl Into<Host>, files: Vec<(PathBuf, Key)>, network: &Network) -> BlockFiles {
        let host = host.into();
        let keys = FileKeys::new(NO_KEY, network.magic, host.kernels);
        BlockFiles { files: OpenFiles::new(host.disk, FileNames::Foreign(files), keys) }
    }

    /// A single file, number 0: plain bytes of a stream that is named `path`.
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

    /// The directory's obfuscation key; a file that begins with the plain magic is read without it.
    pub fn key(&self) -> Key {
        self.files.keys.obfuscation.key
    }

    /// The magic before every record.
    pub fn magic(&self) -> [u8; 4] {
        self.files.keys.magic
    }

    /// The numbers of the existing files.
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
    /// A missing file, or an I/O error.
    pub fn file_bytes(&self, file: u32) -> Result<u64> {
        self.file(file)?.len()
    }

    fn file(&self, number: u32) -> Result<RecordFile> {
        self.files.open(number)
    }

    /// Closes open files: needed after files were removed or replaced.
    pub fn forget_open_files(&self) {
        self.files.forget();
    }

    /// Reads one block given only its place, as Core does: the record must have the magic and a possible size.
    ///
    /// # Errors
    ///
    /// A missing file, a place without a record, a truncated block; an I/O error.
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

    /// Reads the start of a block into `out`, up to the whole block: [`BlockFiles::read_block`] for callers that know
    /// the size and have a buffer.
    ///
    /// # Errors
    ///
    /// Those of [`BlockFiles::read_block`]; also a record that is smaller.
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

    /// Reads only `bytes` of a block, from `from` on; `None` if the block has no such part.
    ///
    /// # Errors
    ///
    /// Those of [`BlockFiles::read_block`].
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

    /// Bytes of a file, with the obfuscation undone.
    ///
    /// # Errors
    ///
    /// A missing file, or one that ends earlier; an I/O error.
    pub fn read_range(&self, file: u32, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let file = self.file(file)?;
        let have = file.len()?.saturating_sub(offset);
        let mut range = vec![0; usize::try_from(bytes.min(have)).unwrap_or(usize::MAX)];
        file.read_exact_at(offset, &mut range)?;
        Ok(range)
    }

    /// Size of the block at `offset`, from the header of its record.
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

    /// Checks the 8 bytes before a block; returns the block's size.
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
