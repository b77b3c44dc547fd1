//! Appends blocks to block files, as Core would.
//!
//! Space is reserved 16 MiB at a time. A record is appended to the current file if it ends below 128 MiB; otherwise the
//! file is truncated to its contents and the next one begun. Existing records are never changed: a file with more than
//! the infos count is left as it is, and the next one begun. Source: facts of Bitcoin Core b88bffe,
//! `BlockManager::FindNextBlockPos`, `WriteBlock`.

use super::{READ_SIZE_MAX, RECORD_HEADER_BYTES};
use crate::FilePos;
use crate::append::{AppendSet, Tail};
use crate::fault::{Fault, FaultKind, Result};
use crate::fileinfo::{COVERED_BYTES_MAX, FileInfos};
use crate::host::Host;
use crate::layout::{self, FILE_NUMBER_MAX, Network};
use crate::xor::{FileKeys, Key};
use primitives::Height;
use std::path::Path;

pub use crate::append::Flush;

/// Maximum size of files. The default is Core's; tests make it small, as Core's `-fastprune` does.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A block file stays below this many bytes.
    pub file_bytes_max: u32,
    /// Space is reserved in pieces of this many bytes.
    pub chunk_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { file_bytes_max: 128 * 1024 * 1024, chunk_bytes: 16 * 1024 * 1024 }
    }
}

const _: () = assert!(COVERED_BYTES_MAX < u32::MAX - READ_SIZE_MAX - RECORD_HEADER_BYTES);

/// Appends to the last block file.
///
/// The infos belong to the caller, because undo files share them; they give the place to append at. Readers see a block
/// after [`BlockWriter::write_out`]; it is durable after a flush has completed.
#[derive(Debug)]
pub struct BlockWriter {
    append_set: AppendSet,
    magic: [u8; 4],
    file_bytes_max: u32,
    /// Number of the file being appended to.
    current: u32,
    tail: Option<Tail>,
    /// The greatest file number in the directory or in the infos.
    greatest: u32,
}

impl BlockWriter {
    /// A writer that continues the last file of `infos`. Opens no file yet.
    ///
    /// # Errors
    ///
    /// A missing or unreadable directory.
    pub fn new(
        host: impl Into<Host>,
        blocks_dir: &Path,
        network: &Network,
        key: Key,
        infos: &FileInfos,
        limits: Limits,
    ) -> Result<BlockWriter> {
        let host = host.into();
        let entries = host.disk.list(blocks_dir)?;
        let there = entries.iter().filter_map(|entry| layout::block_file_number(&entry.name)).max();
        let current = infos.last_file();
        let keys = FileKeys::new(key, network.magic, host.kernels);
        let append_set = AppendSet::new(host.disk, blocks_dir, keys, limits.chunk_bytes);
        let greatest = there.unwrap_or(0).max(current);
        Ok(BlockWriter {
            append_set,
            magic: network.magic,
            file_bytes_max: limits.file_bytes_max,
            current,
            tail: None,
            greatest,
        })
    }

    /// Appends a block and adds it to `infos`.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error. Nothing was appended then. After no space the call can be repeated.
    pub fn append(&mut self, infos: &mut FileInfos, block: &[u8], height: Height, time: u32) -> Result<FilePos> {
        let size = u32::try_from(block.len()).ok().filter(|&size| size <= READ_SIZE_MAX);
        let Some(size) = size else {
            let wanted = format!("a block of at most {READ_SIZE_MAX} bytes");
            let found = format!("one of {}", block.len());
            return Err(Fault::new(
                FaultKind::Refused,
                &self.append_set.dir,
                wanted,
                found,
                "No such block can be stored",
            ));
        };
        let record_bytes = size + RECORD_HEADER_BYTES;
        let used = infos.get(self.current).size;
        if used > 0 && used.saturating_add(record_bytes) >= self.file_bytes_max {
            self.start_new_file()?;
        }
        let mut tail = match self.tail.take() {
            Some(tail) => tail,
            None => self.open_tail(infos)?,
        };
        let start = infos.get(self.current).size;
        assert_eq!(tail.end(), u64::from(start), "one writer appends, and counts into one set of infos");
        let reserved = self.append_set.reserve(&mut tail, u64::from(record_bytes));
        if reserved.is_ok() {
            self.append_set.put(&mut tail, &[&self.magic, &size.to_le_bytes(), block]);
            infos.change(self.current, |info| {
                info.add_block(height, time);
                info.size += record_bytes;
            });
        }
        self.tail = Some(tail);
        reserved?;
        Ok(FilePos { file: self.current, offset: start + RECORD_HEADER_BYTES })
    }

    /// Opens the current file at its end. Begins a new one if the current file has more than `infos` count, or is plain
    /// although the directory has a key: Core could not read it.
    fn open_tail(&mut self, infos: &mut FileInfos) -> Result<Tail> {
        loop {
            let path = layout::block_file(&self.append_set.dir, self.current);
            let tail = self.append_set.open(&path, u64::from(infos.get(self.current).size))?;
            if self.append_set.holds_more(&tail)? {
                // A record may end with zeros, so its end is not known here.
                infos.cover(self.current, tail.file_bytes());
            } else if !tail.is_plain_beside(&self.append_set.keys) {
                return Ok(tail);
            }
            self.start_new_file()?;
        }
    }

    /// Continues in this file, which must be in the infos; call before the first block is appended.
    ///
    /// # Panics
    ///
    /// When a block was appended.
    pub fn go_on_in(&mut self, file: u32) {
        assert!(self.tail.is_none(), "a file is chosen once");
        self.current = file;
    }

    /// Number of the file being appended to.
    pub fn current(&self) -> u32 {
        self.current
    }

    /// The greatest block file number known to this writer.
    pub fn greatest(&self) -> u32 {
        self.greatest
    }

    /// Notes that another writer has files up to this number.
    pub fn note_greatest(&mut self, greatest: u32) {
        self.greatest = self.greatest.max(greatest);
    }

    /// Begins a file after all others; truncates a file that this writer appended to.
    ///
    /// # Errors
    ///
    /// The maximum number of files is reached, or an I/O error; the call can be repeated.
    pub fn start_new_file(&mut self) -> Result<()> {
        if self.greatest >= FILE_NUMBER_MAX {
            let path = layout::block_file(&self.append_set.dir, self.greatest);
            let wanted =
                format!("a block file with a number below {FILE_NUMBER_MAX}: the next block goes after all others");
            let advice = "Move a file with such a number, which neither Core nor ffwd made, out of the directory";
            return Err(Fault::new(FaultKind::Refused, &path, wanted, "it", advice));
        }
        if let Some(tail) = &mut self.tail {
            self.append_set.finalise(tail)?;
        }
        self.tail = None;
        self.current = self.greatest + 1;
        self.greatest = self.current;
        Ok(())
    }

    /// Writes all appended blocks, so that readers see them.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error; the blocks are kept, and the call can be repeated.
    pub fn write_out(&mut self) -> Result<()> {
        match &mut self.tail {
            Some(tail) => self.append_set.write_out(tail),
            None => Ok(()),
        }
    }

    /// Writes out, and returns the flush that makes all appended blocks durable.
    ///
    /// # Errors
    ///
    /// Those of [`BlockWriter::write_out`].
    pub fn begin_flush(&mut self) -> Result<Flush> {
        self.write_out()?;
        self.append_set.take_flush()
    }

    /// Makes all appended blocks durable.
    ///
    /// # Errors
    ///
    /// Those of [`BlockWriter::write_out`] and [`Flush::run`].
    pub fn flush(&mut self) -> Result<()> {
        self.begin_flush()?.run()
    }
}
