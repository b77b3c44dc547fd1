//! Undo files (`rev?????.dat`): the coins that each block spent, which are needed to disconnect it.
//!
//! ```text
//! record   magic [u8; 4] | size u32 LE | payload [u8; size] | sha256d(hash of the block's parent | payload)
//! tail     zeros, reserved ahead and not obfuscated
//! ```
//!
//! A block's undo data is in the undo file with the number of its block file, in order of connection. Every byte except
//! the tail is XORed with the key of the block files. The index has the place of the payload. Absent on purpose: the
//! meaning of a payload (`primitives::undo`). Source: facts of Bitcoin Core b88bffe, `BlockManager::WriteBlockUndo`,
//! `ReadBlockUndo`.

use crate::FilePos;
use crate::append::{AppendSet, Flush, Tail};
use crate::fault::{Fault, FaultKind, Result};
use crate::fileinfo::FileInfos;
use crate::host::Host;
use crate::layout::{self, Network};
use crate::open_files::{FileNames, OpenFiles, RecordFile};
use crate::xor::{FileKeys, Key};
use kernels::sha256::{Sha256, sha256};
use primitives::BlockHash;
use primitives::undo::UndoReader;
use std::collections::BTreeSet;
use std::path::Path;
use sys::spill::{Spill, SpillFiles};

/// Bytes before a payload: magic and size.
pub(crate) const HEADER_BYTES: usize = 8;
/// Bytes after a payload.
pub(crate) const CHECKSUM_BYTES: usize = 32;
/// Bytes of a record in addition to its payload. Source: Core's `UNDO_DATA_DISK_OVERHEAD`.
pub const UNDO_OVERHEAD_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;
/// More than any block can spend: 1,000,000 bytes without witnesses hold 24,390 inputs of 41 bytes, and each spends a
/// coin with a script of at most 10,000 bytes.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// First read of undo data of unknown length.
const FIRST_READ_BYTES: usize = 1024 * 1024;
/// Space is reserved in pieces of this many bytes.
const UNDO_CHUNK_BYTES: u64 = 1024 * 1024;
/// Files being appended to at the same time: blocks in chain order alternate between neighbouring files.
const OPEN_TAILS_MAX: usize = 16;

/// The checksum of a payload. `prev` is the hash of the block's parent.
fn checksum(prev: &BlockHash, payload: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut first = Sha256::new();
    first.update(prev.as_bytes());
    first.update(payload);
    sha256(&first.finalize())
}

/// Whether `there` is the checksum of a payload for the block with this parent.
pub(crate) fn is_of(prev: &BlockHash, payload: &[u8], there: &[u8]) -> bool {
    checksum(prev, payload)[..] == *there
}

/// A whole record without obfuscation: any thread may make it, and one appends it.
///
/// # Panics
///
/// For a payload above 4 GiB, which no block of valid size has.
pub fn undo_record(magic: [u8; 4], prev: &BlockHash, payload: &[u8]) -> Spill {
    undo_record_in_place(
        magic,
        prev,
        SpillFiles::default().with_capacity(payload.len() + UNDO_OVERHEAD_BYTES),
        |record| {
            record.extend_from_slice(payload);
        },
    )
}

/// [`undo_record`] of a payload that `put` appends; `record` is empty, and has capacity for it and
/// [`UNDO_OVERHEAD_BYTES`].
pub fn undo_record_in_place(
    magic: [u8; 4],
    prev: &BlockHash,
    mut record: Spill,
    put: impl FnOnce(&mut Spill),
) -> Spill {
    record.extend_from_slice(&magic);
    record.extend_from_slice(&[0; 4]);
    put(&mut record);
    let payload = &record[HEADER_BYTES..];
    let size = u32::try_from(payload.len()).expect("undo data of a block stays below 4 GiB");
    let checksum = checksum(prev, payload);
    record[4..HEADER_BYTES].copy_from_slice(&size.to_le_bytes());
    record.extend_from_slice(&checksum);
    record
}

/// Appends to undo files.
///
/// The infos belong to the caller, because block files share them; they give the place to append at.
#[derive(Debug)]
pub struct UndoWriter {
    append_set: AppendSet,
    /// Ordered by use: the file appended to last is at the end.
    tails: Vec<(u32, Tail)>,
    /// Files that this writer opened. One that is shorter or missing later was changed by another program.
    opened: BTreeSet<u32>,
}

impl UndoWriter {
    /// A writer for the undo files in `blocks_dir`. Opens no file yet.
    pub fn new(host: impl Into<Host>, blocks_dir: &Path, network: &Network, key: Key) -> UndoWriter {
        let host = host.into();
        let keys = FileKeys::new(key, network.magic, host.kernels);
        let append_set = AppendSet::new(host.disk, blocks_dir, keys, UNDO_CHUNK_BYTES);
        UndoWriter { append_set, tails: Vec::new(), opened: BTreeSet::new() }
    }

    /// Appends a record made by [`undo_record`] to undo file number `file`, which is that of the block's own file;
    /// returns the place of its payload. A file that lost data, or is missing, keeps zeros in its place.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error. Nothing was appended then. After no space the call can be repeated.
    pub fn append(&mut self, infos: &mut FileInfos, file: u32, record: &[u8]) -> Result<u32> {
        let start = infos.get(file).undo_size;
        let Some(end) = u32::try_from(record.len()).ok().and_then(|bytes| start.checked_add(bytes)) else {
            let path = layout::undo_file(&self.append_set.dir, file);
            let found = format!("{start} bytes and {} more", record.len());
            return Err(Fault::new(FaultKind::Refused, &path, "less than 4 GiB in one file", found, "Run reindex"));
        };
        let mut tail = self.tail(file, u64::from(start))?;
        assert_eq!(tail.end(), u64::from(start), "one writer appends, and counts into one set of infos");
        let reserved = self.append_set.reserve(&mut tail, record.len() as u64);
        if reserved.is_ok() {
            self.append_set.put(&mut tail, &[record]);
            infos.change(file, |info| info.undo_size = end);
        }
        self.tails.push((file, tail));
        reserved?;
        Ok(start + HEADER_BYTES as u32)
    }

    /// Takes the tail of a file from the open ones, or opens it; closes the oldest if there are many. A file may lack
    /// data when it is opened first: bitcoind syncs only its last undo file before it writes the index.
    fn tail(&mut self, file: u32, used: u64) -> Result<Tail> {
        if let Some(at) = self.tails.iter().position(|(known, _)| *known == file) {
            return Ok(self.tails.remove(at).1);
        }
        if self.tails.len() >= OPEN_TAILS_MAX {
            self.append_set.write_out(&mut self.tails[0].1)?;
            self.tails.remove(0);
        }
        let path = layout::undo_file(&self.append_set.dir, file);
        if self.opened.contains(&file) {
            return self.append_set.open(&path, used);
        }
        let tail = self.append_set.open_extended(&path, used)?;
        self.opened.insert(file);
        Ok(tail)
    }

    /// Creates the undo file of a block file whose blocks have no undo data yet. Source: Bitcoin Core b88bffe,
    /// blockstorage.cpp, `BlockManager::FlushUndoFile`, which leaves an empty file.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn create(&mut self, infos: &FileInfos, file: u32) -> Result<()> {
        let info = infos.get(file);
        if info.size == 0 || info.undo_size > 0 || self.tails.iter().any(|(known, _)| *known == file) {
            return Ok(());
        }
        let tail = self.tail(file, 0)?;
        self.tails.push((file, tail));
        Ok(())
    }

    /// Writes all appended records, so that readers see them.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error; the records are kept, and the call can be repeated.
    pub fn write_out(&mut self) -> Result<()> {
        self.tails.iter_mut().try_for_each(|(_, tail)| self.append_set.write_out(tail))
    }

    /// Truncates the reserved space of a file whose blocks all have their undo data; more can still be appended.
    /// Source: facts of Core's `FlushUndoFile` with `finalize`.
    ///
    /// # Errors
    ///
    /// Those of [`UndoWriter::write_out`].
    pub fn finalise(&mut self, infos: &FileInfos, file: u32) -> Result<()> {
        let used = u64::from(infos.get(file).undo_size);
        if used == 0 {
            return Ok(());
        }
        let mut tail = self.tail(file, used)?;
        let done = self.append_set.finalise(&mut tail);
        if done.is_err() {
            self.tails.push((file, tail)); // Pending bytes must not be lost.
        }
        done
    }

    /// Closes pruned files. Records appended to them must be durable, or no longer needed.
    pub fn forget(&mut self, files: &[u32]) {
        self.tails.retain(|(number, _)| !files.contains(number));
        for &file in files {
            let path = layout::undo_file(&self.append_set.dir, file);
            self.append_set.forget(&path);
            self.opened.remove(&file);
        }
    }

    /// Writes out, and returns the flush that makes all appended records durable.
    ///
    /// # Errors
    ///
    /// Those of [`UndoWriter::write_out`].
    pub fn begin_flush(&mut self) -> Result<Flush> {
        self.write_out()?;
        self.append_set.take_flush()
    }

    /// Makes all appended records durable.
    ///
    /// # Errors
    ///
    /// Those of [`UndoWriter::write_out`] and [`Flush::run`].
    pub fn flush(&mut self) -> Result<()> {
        self.begin_flush()?.run()
    }
}

/// Undo files, for reading. Shared by all threads.
#[derive(Debug)]
pub struct UndoFiles {
    files: OpenFiles,
    spill: SpillFiles,
}

impl UndoFiles {
    /// The undo files in `blocks_dir`, obfuscated with `key`.
    pub fn new(host: impl Into<Host>, blocks_dir: &Path, network: &Network, key: Key) -> UndoFiles {
        let host = host.into();
        let names = FileNames::Undo(blocks_dir.to_path_buf());
        let keys = FileKeys::new(key, network.magic, host.kernels);
        UndoFiles { files: OpenFiles::new(host.disk, names, keys), spill: host.spill }
    }

    /// The same files for occasional reads: each read checks that the open file is still the one of that name.
    #[must_use]
    pub fn seeing_names(&self) -> UndoFiles {
        UndoFiles { files: self.files.seeing_names(), spill: self.spill.clone() }
    }

    /// Reads the payload at `at` and verifies its checksum. `prev` is the hash of the block's parent.
    ///
    /// # Errors
    ///
    /// A missing file, a truncated record, a wrong checksum; an I/O error.
    pub fn read(&self, at: FilePos, prev: &BlockHash) -> Result<Spill> {
        let file = self.files.open(at.file)?;
        let offset = u64::from(at.offset);
        let Some(start) = offset.checked_sub(HEADER_BYTES as u64) else {
            return Err(self.damaged(at, "an offset behind a record's header", offset.to_string()));
        };
        let mut header = [0; HEADER_BYTES];
        let have = file.read_at(start, &mut header)?;
        if have < HEADER_BYTES {
            return Err(self.damaged(at, "undo data", "the end of the file".to_owned()));
        }
        let size = u64::from(u32::from_le_bytes(header[4..].try_into().expect("four bytes")));
        let left = file.len()?.saturating_sub(offset);
        let is_possible = size <= PAYLOAD_BYTES_MAX as u64 && size + CHECKSUM_BYTES as u64 <= left;
        if header[..4] == self.files.keys.magic && is_possible {
            let mut payload = self.read_bytes(&file, offset, size as usize + CHECKSUM_BYTES)?;
            if self.is_sound(&mut payload, prev) {
                return Ok(payload);
            }
        }
        self.read_without_header(&file, at, left, prev)
    }

    /// Core never reads the header of an undo record, because the payload determines its own length.
    fn read_without_header(&self, file: &RecordFile, at: FilePos, left: u64, prev: &BlockHash) -> Result<Spill> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(PAYLOAD_BYTES_MAX + CHECKSUM_BYTES);
        let mut wanted = FIRST_READ_BYTES.min(most);
        loop {
            let mut payload = self.read_bytes(file, u64::from(at.offset), wanted)?;
            match payload_bytes(&payload) {
                Some(bytes) if bytes + CHECKSUM_BYTES <= payload.len() => {
                    payload.truncate(bytes + CHECKSUM_BYTES);
                    let found = primitives::hex::encode(&payload[bytes..]);
                    if self.is_sound(&mut payload, prev) {
                        return Ok(payload);
                    }
                    return Err(self.damaged(at, "undo data whose checksum fits", format!("checksum {found}")));
                }
                _ if wanted == most => {
                    return Err(self.damaged(at, "undo data", "malformed bytes".to_owned()));
                }
                _ => wanted = wanted.saturating_mul(8).min(most),
            }
        }
    }

    /// Removes the checksum, and returns whether it is correct.
    fn is_sound(&self, payload: &mut Spill, prev: &BlockHash) -> bool {
        let (bytes, there) = payload.split_at(payload.len() - CHECKSUM_BYTES);
        let is_sound = is_of(prev, bytes, there);
        payload.truncate(payload.len() - CHECKSUM_BYTES);
        is_sound
    }

    pub(crate) fn read_bytes(&self, file: &RecordFile, offset: u64, bytes: usize) -> Result<Spill> {
        let mut buffer = self.spill.zeroed(bytes);
        file.read_exact_at(offset, &mut buffer)?;
        Ok(buffer)
    }

    fn damaged(&self, at: FilePos, wanted: &str, found: String) -> Fault {
        let advice =
            "The undo file was damaged: look at the drive, then run ffwd repair, which makes it again from the blocks";
        Fault::new(FaultKind::Damaged, &self.files.path(at.file), wanted, found, advice).at_offset(u64::from(at.offset))
    }

    /// The undo file with this number, open.
    pub(crate) fn record_file(&self, file: u32) -> Result<RecordFile> {
        self.files.open(file)
    }

    /// The magic before every record.
    pub(crate) fn magic(&self) -> [u8; 4] {
        self.files.keys.magic
    }

    /// Closes open files: needed after files were removed or replaced.
    pub fn forget_open_files(&self) {
        self.files.forget();
    }
}

/// Length of the payload at the start of `bytes`; `None` if it is malformed.
fn payload_bytes(bytes: &[u8]) -> Option<usize> {
    let mut reader = UndoReader::new(bytes);
    for _ in 0..reader.count().ok()? {
        for _ in 0..reader.count().ok()? {
            reader.entry().ok()?;
        }
    }
    Some(reader.offset())
}
