//! The block index's record of each pair of block and undo files.
//!
//! ```text
//! VARINT x 7: blocks, size, undo size, lowest height, greatest height (u32 each), earliest time, latest time (u64)
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe, `CBlockFileInfo` in node/blockstorage.h.

use crate::FilePos;
use crate::layout::FILE_NUMBER_MAX;
use primitives::Height;
use primitives::encode::{DecodeError, Reader, put_varint};
use std::collections::BTreeSet;

/// The limit of [`FileInfos::cover`]. Core adds a record's bytes to the size in 32 bits, which must not wrap: then the
/// file would count as empty.
pub(crate) const COVERED_BYTES_MAX: u32 = u32::MAX - 64 * 1024 * 1024;

/// One pair of files. A pruned pair is all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileInfo {
    /// Blocks stored.
    pub blocks: u32,
    /// Bytes used of the block file, which is the offset of the next record.
    pub size: u32,
    /// Bytes used of the undo file, which is the offset of the next record.
    pub undo_size: u32,
    /// Lowest height of a block in it.
    pub height_first: Height,
    /// Greatest height of a block in it.
    pub height_last: Height,
    /// Earliest header time of a block in it, in seconds since 1970.
    pub time_first: u64,
    /// Latest header time.
    pub time_last: u64,
}

impl FileInfo {
    /// Reads a stored value.
    ///
    /// # Errors
    ///
    /// Truncated data, a number beyond its type, or trailing bytes.
    pub fn decode(value: &[u8]) -> Result<FileInfo, DecodeError> {
        let mut reader = Reader::new(value);
        let info = FileInfo {
            blocks: reader.varint_u32()?,
            size: reader.varint_u32()?,
            undo_size: reader.varint_u32()?,
            height_first: Height::new(reader.varint_u32()?),
            height_last: Height::new(reader.varint_u32()?),
            time_first: reader.varint()?,
            time_last: reader.varint()?,
        };
        reader.finish()?;
        Ok(info)
    }

    /// Appends the stored value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.blocks, self.size, self.undo_size, self.height_first.to_u32(), self.height_last.to_u32()] {
            put_varint(out, u64::from(number));
        }
        put_varint(out, self.time_first);
        put_varint(out, self.time_last);
    }

    /// Bytes used of both files, without the reserved space after them.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.size) + u64::from(self.undo_size)
    }

    /// Adds a block to the counts. Source: facts of Bitcoin Core b88bffe, `CBlockFileInfo::AddBlock`.
    pub fn add_block(&mut self, height: Height, time: u32) {
        let time = u64::from(time);
        if self.blocks == 0 || height < self.height_first {
            self.height_first = height;
        }
        if self.blocks == 0 || time < self.time_first {
            self.time_first = time;
        }
        self.blocks += 1;
        self.height_last = self.height_last.max(height);
        self.time_last = self.time_last.max(time);
    }
}

/// The end of the written part of a file: only reserved space, which was never written, may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileEnd {
    /// Number of the file.
    pub file: u32,
    /// Offset after the last written byte.
    pub written: u64,
    /// The next record goes into another file: this file ends in a partial record, or is plain although the directory
    /// has a key.
    pub is_closed: bool,
}

/// All pairs of files, in order of their numbers, with marks on the ones that changed since the last commit of the
/// index.
#[derive(Clone, Debug, Default)]
pub struct FileInfos {
    infos: Vec<FileInfo>,
    changed: BTreeSet<u32>,
    /// The sum of [`FileInfo::used_bytes`].
    used_bytes: u64,
}

impl FileInfos {
    /// The pairs that a block index lists, unchanged.
    pub fn new(infos: Vec<FileInfo>) -> FileInfos {
        let used_bytes = infos.iter().map(FileInfo::used_bytes).sum();
        FileInfos { infos, changed: BTreeSet::new(), used_bytes }
    }

    /// All pairs; the position is the number.
    pub fn all(&self) -> &[FileInfo] {
        &self.infos
    }

    /// The pair with this number; zeros if it is not listed.
    pub fn get(&self, file: u32) -> FileInfo {
        self.infos.get(file as usize).copied().unwrap_or_default()
    }

    /// The greatest number listed; 0 without one, as in Core.
    pub fn last_file(&self) -> u32 {
        u32::try_from(self.infos.len().saturating_sub(1)).expect("numbers of files fit 31 bits")
    }

    /// Changes the pair with this number; it is listed from now on.
    ///
    /// # Panics
    ///
    /// For a number above [`FILE_NUMBER_MAX`].
    pub fn change(&mut self, file: u32, change: impl FnOnce(&mut FileInfo)) {
        assert!(file <= FILE_NUMBER_MAX, "numbers of files are bounded where they are read");
        let count = self.infos.len().max(file as usize + 1);
        // A file between two listed ones is listed too: Core reads infos up to the last file.
        for missing in self.infos.len()..count {
            self.changed.insert(missing as u32);
        }
        self.infos.resize(count, FileInfo::default());
        self.changed.insert(file);
        let info = &mut self.infos[file as usize];
        self.used_bytes -= info.used_bytes();
        change(info);
        self.used_bytes += info.used_bytes();
    }

    /// Clears the info of a pruned file. Source: facts of Core's `BlockManager::PruneOneBlockFile`.
    pub fn prune(&mut self, file: u32) {
        self.change(file, |info| *info = FileInfo::default());
    }

    /// Adds a block that is in a block file already. Source: facts of Core's `BlockManager::UpdateBlockInfo`.
    pub fn add_existing(&mut self, at: FilePos, bytes: u32, height: Height, time: u32) {
        self.change(at.file, |info| {
            info.add_block(height, time);
            info.size = info.size.max(at.offset.saturating_add(bytes));
        });
    }

    /// Raises the size of a block file to the end of its written part, so that nothing is appended before that. This
    /// also holds for Core: it begins at the size of the last file, truncates a file to its size when it leaves it, and
    /// treats a file of size 0 as pruned.
    pub fn cover(&mut self, file: u32, written: u64) {
        let written = u32::try_from(written).map_or(COVERED_BYTES_MAX, |written| written.min(COVERED_BYTES_MAX));
        if written > self.get(file).size {
            self.change(file, |info| info.size = written);
        }
    }

    /// [`FileInfos::cover`] for all files. If the last file is closed, a new one is begun after it. Core needs that
    /// too: its reindex reads a record after a torn one as part of it, and does not read plain files.
    pub fn cover_all(&mut self, ends: &[FileEnd]) {
        ends.iter().for_each(|end| self.cover(end.file, end.written));
        let last = ends.iter().max_by_key(|end| end.file);
        if last.is_some_and(|last| last.is_closed && last.file == self.last_file()) {
            self.begin_behind();
        }
    }

    /// Lowers the size of a block file that is shorter; its counted blocks need no more than `bytes`.
    pub fn cut(&mut self, file: u32, bytes: u64) {
        if let Ok(bytes) = u32::try_from(bytes)
            && bytes < self.get(file).size
        {
            self.change(file, |info| info.size = bytes);
        }
    }

    /// Lists an empty file after all others, where appending continues, unless the last one is empty.
    pub fn begin_behind(&mut self) {
        if let Some(next) = self.last_file().checked_add(1).filter(|&next| next <= FILE_NUMBER_MAX)
            && self.get(self.last_file()).size > 0
        {
            self.change(next, |_| {});
        }
    }

    /// Counts exactly these blocks again: place, bytes, height and time of each. Undo sizes and file sizes do not
    /// shrink.
    pub fn recount(&mut self, blocks: impl Iterator<Item = (FilePos, u32, Height, u32)>) {
        let mut again = FileInfos::default();
        for (number, info) in (0..).zip(&self.infos) {
            again.change(number, |again| (again.size, again.undo_size) = (info.size, info.undo_size));
        }
        blocks.for_each(|(at, bytes, height, time)| again.add_existing(at, bytes, height, time));
        for (number, counted) in (0..).zip(again.infos) {
            if self.infos.get(number as usize) != Some(&counted) {
                self.change(number, |info| *info = counted);
            }
        }
    }

    /// Bytes used by all block and undo files, without the reserved space after them.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Whether any pair changed since [`FileInfos::take_changed`].
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The pairs that changed since the last call, for the next commit of the index. If that commit fails, pass them to
    /// [`FileInfos::mark_changed`].
    pub fn take_changed(&mut self) -> Vec<(u32, FileInfo)> {
        std::mem::take(&mut self.changed).into_iter().map(|file| (file, self.infos[file as usize])).collect()
    }

    /// Marks pairs as not yet committed to the index.
    pub fn mark_changed(&mut self, files: impl IntoIterator<Item = u32>) {
        let count = self.infos.len();
        self.changed.extend(files.into_iter().filter(|&file| (file as usize) < count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// A file that holds only mainnet's genesis block: computed from Core's rules.
    #[test]
    fn file_info_of_the_genesis_block_matches_core() {
        let mut infos = FileInfos::default();
        infos.add_existing(FilePos { file: 0, offset: 8 }, 285, Height::GENESIS, 1_231_006_505);
        let mut out = Vec::new();
        infos.get(0).encode(&mut out);
        assert_eq!(hex::encode(&out), "01812500000083c9fdd52983c9fdd529");
        assert_eq!(FileInfo::decode(&out).unwrap(), infos.get(0));
        for cut in 0..out.len() {
            assert!(FileInfo::decode(&out[..cut]).is_err(), "cut at {cut}");
        }
        out.push(0);
        assert!(FileInfo::decode(&out).is_err(), "a byte behind it");
        assert_eq!(infos.used_bytes(), 293);
        assert_eq!((infos.last_file(), FileInfos::default().last_file()), (0, 0));
    }

    /// The sum that is kept is that of the files, whatever is done to them.
    #[test]
    fn used_bytes_is_the_sum_of_all_files() {
        let sum = |infos: &FileInfos| infos.all().iter().map(FileInfo::used_bytes).sum::<u64>();
        let mut infos =
            FileInfos::new(vec![FileInfo { size: 1_000, undo_size: 50, ..FileInfo::default() }, FileInfo::default()]);
        let at = |file, offset| FilePos { file, offset };
        for (row, change, want) in [
            ("as they are listed", (|_| {}) as fn(&mut FileInfos), 1_050),
            ("undo data", |infos| infos.change(1, |info| info.undo_size = 7), 1_057),
            ("less of it", |infos| infos.change(1, |info| info.undo_size = 5), 1_055),
            ("a file is pruned", |infos| infos.prune(0), 5),
            ("pruned again", |infos| infos.prune(0), 5),
        ] {
            change(&mut infos);
            assert_eq!((infos.used_bytes(), sum(&infos)), (want, want), "{row}");
        }
        infos.add_existing(at(3, 8), 100, Height::new(1), 1);
        assert_eq!((infos.used_bytes(), sum(&infos)), (113, 113), "a block in a file beyond the last one");
        infos.recount([(at(0, 8), 10, Height::GENESIS, 1)].into_iter());
        assert_eq!((infos.used_bytes(), sum(&infos)), (131, 131), "counted again: undo data and sizes stay");
    }

    #[test]
    fn take_changed_reports_each_change_once() {
        let mut infos = FileInfos::new(vec![FileInfo::default()]);
        assert!(infos.take_changed().is_empty());
        infos.add_existing(FilePos { file: 3, offset: 8 }, 100, Height::new(7), 50);
        infos.add_existing(FilePos { file: 3, offset: 500 }, 100, Height::new(5), 60);
        infos.add_existing(FilePos { file: 3, offset: 200 }, 100, Height::new(9), 40);
        let changed: Vec<u32> = infos.take_changed().into_iter().map(|(file, _)| file).collect();
        assert_eq!(changed, [1, 2, 3]);
        assert!(infos.take_changed().is_empty());
        infos.mark_changed([3, 9]);
        let want = FileInfo {
            blocks: 3,
            size: 600,
            undo_size: 0,
            height_first: Height::new(5),
            height_last: Height::new(9),
            time_first: 40,
            time_last: 60,
        };
        assert_eq!(infos.take_changed(), [(3, want)]);
        assert_eq!(infos.last_file(), 3);
        infos.prune(3);
        assert_eq!(infos.take_changed(), [(3, FileInfo::default())]);
        assert_eq!(infos.last_file(), 3, "its number is not used again");
    }
}
