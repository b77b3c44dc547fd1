//! The block index in the flat files of a newer Core: read only.
//!
//! ```text
//! headers.dat     0x1d5e2eb2 u32 LE | version u32 LE | rows of 108 bytes: height, status, transactions, file, data
//!                 offset, undo offset (4 bytes each, LE) | header 80 | crc32c u32 LE
//! blockfiles.dat  0x6e2e2f44 u32 LE | version u32 LE | rows of 40 bytes: blocks, size, undo size, lowest height,
//!                 greatest height (u32 LE) | earliest time, latest time (u64 LE) | crc32c u32 LE
//! log.dat         changes that are not in these files yet
//! reindex.dat, prune.dat   flags: a file that exists, and is empty or does not begin with 0
//! ```
//!
//! The checksum covers the row and its place in the file, 8 bytes LE. Absent on purpose: writing it, and its log: the
//! format still changes. Source: bitcoin/bitcoin#32427, which is not merged.

use super::load::{check_numbers, check_work, sorted, without_parent};
use super::{IndexEntry, LoadedIndex, Status};
use crate::fault::{Fault, FaultKind, Result};
use crate::fileinfo::FileInfo;
use crate::layout::{FILE_NUMBER_MAX, Network};
use disk::{Disk, DiskFile};
use kernels::crc32c::{append, crc32c};
use primitives::header::HEADER_BYTES;
use primitives::{Header, Height};
use std::path::Path;
use std::sync::Arc;

/// The files of this format; any of them identifies it.
pub(super) const FILES: [&str; 3] = [HEADERS, BLOCK_FILES, LOG];
const HEADERS: &str = "headers.dat";
const BLOCK_FILES: &str = "blockfiles.dat";
const LOG: &str = "log.dat";
const REINDEXING: &str = "reindex.dat";
const PRUNE_FLAG: &str = "prune.dat";

const HEADERS_MAGIC: u32 = 0x1d5e_2eb2;
const BLOCK_FILES_MAGIC: u32 = 0x6e2e_2f44;
const VERSION: u32 = 1;
/// Bytes before the first row.
const HEAD_BYTES: u64 = 8;
const HEADER_ROW_BYTES: usize = 6 * 4 + HEADER_BYTES;
const FILE_ROW_BYTES: usize = 5 * 4 + 2 * 8;
const CHECKSUM_BYTES: usize = 4;
/// Rows read at a time.
const ROWS_AT_ONCE: usize = 4096;

/// Advice for a damaged file, or an unknown version.
const ADVICE: &str =
    "Use the bitcoind that wrote it, or run ffwd reindex, which makes a block index from the block files";

/// Reads all of it, with the same checks as for the LevelDB form.
pub(super) fn load(disk: &dyn Disk, dir: &Path, network: &Network) -> Result<LoadedIndex> {
    let mut loaded = LoadedIndex {
        is_reindexing: flag(disk, dir, REINDEXING)?,
        is_pruned: flag(disk, dir, PRUNE_FLAG)?,
        ..LoadedIndex::default()
    };
    let headers = dir.join(HEADERS);
    rows::<HEADER_ROW_BYTES>(disk, &headers, HEADERS_MAGIC, |at, row| {
        let entry = entry_of(row);
        let judged = check_numbers(&entry).and_then(|()| check_work(network, &entry));
        loaded.entries.push(entry);
        judged.map_err(|(wanted, found)| damaged(&headers, at, wanted, found))
    })?;
    let files = dir.join(BLOCK_FILES);
    rows::<FILE_ROW_BYTES>(disk, &files, BLOCK_FILES_MAGIC, |at, row| {
        loaded.files.push(file_of(row));
        match loaded.files.len() > FILE_NUMBER_MAX as usize {
            true => Err(damaged(&files, at, format!("at most {FILE_NUMBER_MAX} files"), "more".to_owned())),
            false => Ok(()),
        }
    })?;
    loaded.entries = sorted(loaded.entries);
    if let Some(entry) = without_parent(network, &loaded.entries) {
        let wanted = format!("a parent at the height below {}", entry.height);
        return Err(damaged(&headers, 0, wanted, format!("none of {}", entry.hash)));
    }
    Ok(loaded)
}

fn damaged(path: &Path, at: u64, wanted: impl Into<String>, found: String) -> Fault {
    Fault::new(FaultKind::Damaged, path, wanted, found, ADVICE).at_offset(at)
}

/// Whether a flag is set: its file is empty, or begins with a byte other than 0 and "0".
fn flag(disk: &dyn Disk, dir: &Path, name: &str) -> Result<bool> {
    let path = dir.join(name);
    if disk.metadata(&path)?.is_none() {
        return Ok(false);
    }
    let mut byte = [1];
    let count = disk.open(&path)?.read_at(0, &mut byte)?;
    Ok(count == 0 || !matches!(byte[0], 0 | b'0'))
}

/// Passes each row of a file, with its place, to `take`. A missing file has no rows.
fn rows<const BYTES: usize>(
    disk: &dyn Disk,
    path: &Path,
    magic: u32,
    mut take: impl FnMut(u64, &[u8; BYTES]) -> Result<()>,
) -> Result<()> {
    if disk.metadata(path)?.is_none() {
        return Ok(());
    }
    let file: Arc<dyn DiskFile> = disk.open(path)?;
    let bytes = file.len()?;
    let mut head = [0; HEAD_BYTES as usize];
    if bytes < HEAD_BYTES {
        return Err(damaged(path, 0, "a head of 8 bytes", format!("{bytes} bytes")));
    }
    file.read_exact_at(0, &mut head)?;
    let number = |at: usize| u32_at(&head, at);
    if number(0) != magic || number(4) != VERSION {
        let found = format!("{:#010x}, version {}", number(0), number(4));
        let wanted = format!("{magic:#010x}, version {VERSION}");
        return Err(Fault::new(FaultKind::OtherForm, path, wanted, found, ADVICE));
    }
    let whole = BYTES + CHECKSUM_BYTES;
    if !(bytes - HEAD_BYTES).is_multiple_of(whole as u64) {
        return Err(damaged(path, bytes, format!("rows of {whole} bytes"), "a part of one at the end".to_owned()));
    }
    let mut buffer = vec![0; whole * ROWS_AT_ONCE];
    let mut at = HEAD_BYTES;
    while at < bytes {
        let count = usize::try_from(bytes - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        file.read_exact_at(at, &mut buffer[..count])?;
        for stored in buffer[..count].chunks_exact(whole) {
            let (row, sum) = stored.split_first_chunk::<BYTES>().expect("a chunk is a row and its checksum");
            if u32_at(sum, 0) != checksum(row, at) {
                return Err(damaged(path, at, "a row that meets its checksum", format!("{:08x}", u32_at(sum, 0))));
            }
            take(at, row)?;
            at += whole as u64;
        }
    }
    Ok(())
}

/// The checksum of a row and its place.
fn checksum(row: &[u8], at: u64) -> u32 {
    append(crc32c(row), &at.to_le_bytes())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes of a row of a known length"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes of a row of a known length"))
}

fn entry_of(row: &[u8; HEADER_ROW_BYTES]) -> IndexEntry {
    let header = Header(*row.last_chunk().expect("a row ends with its header"));
    let mut status = Status(u32_at(row, 4));
    if status.has(Status::FAILED_CHILD) {
        status = status.without(Status::FAILED_CHILD).with(Status::FAILED_VALID);
    }
    let of = |flags: u32, at: usize| if status.0 & flags == 0 { 0 } else { u32_at(row, at) };
    IndexEntry {
        hash: header.hash(),
        header,
        height: Height::new(u32_at(row, 0)),
        status,
        tx_count: u32_at(row, 8),
        file: of(Status::HAVE_DATA | Status::HAVE_UNDO, 12),
        data_offset: of(Status::HAVE_DATA, 16),
        undo_offset: of(Status::HAVE_UNDO, 20),
    }
}

fn file_of(row: &[u8; FILE_ROW_BYTES]) -> FileInfo {
    FileInfo {
        blocks: u32_at(row, 0),
        size: u32_at(row, 4),
        undo_size: u32_at(row, 8),
        height_first: Height::new(u32_at(row, 12)),
        height_last: Height::new(u32_at(row, 16)),
        time_first: u64_at(row, 20),
        time_last: u64_at(row, 28),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::RealDisk;
    use primitives::{BlockHash, Hash256, Target};

    const EASY: u32 = 0x207f_ffff;

    /// Headers with work, each on the one before.
    fn chain(count: u32) -> Vec<Header> {
        let mut all: Vec<Header> = Vec::new();
        for height in 0..count {
            let prev = all.last().map_or(BlockHash::ZERO, Header::hash);
            let with = |nonce| Header::new(4, prev, Hash256([height as u8; 32]), height, EASY, nonce);
            let meets = |header: &Header| Target::from_compact(EASY).unwrap().is_met_by(&header.hash());
            all.push((0..).map(with).find(meets).unwrap());
        }
        all
    }

    fn network(genesis: &Header) -> Network {
        let pow_limit = Target::from_compact(EASY).unwrap();
        Network { directory: "regtest", magic: [0xfa, 0xbf, 0xb5, 0xda], genesis: genesis.hash(), pow_limit }
    }

    fn with_sums(magic: u32, rows: &[Vec<u8>]) -> Vec<u8> {
        let mut file = [magic.to_le_bytes(), VERSION.to_le_bytes()].concat();
        for row in rows {
            let sum = checksum(row, file.len() as u64);
            file.extend([&row[..], &sum.to_le_bytes()].concat());
        }
        file
    }

    fn row(height: u32, status: u32, header: &Header) -> Vec<u8> {
        let numbers = [height, status, 1, 0, 8 + height, 0].map(u32::to_le_bytes);
        [&numbers.concat()[..], &header.0].concat()
    }

    #[test]
    fn flat_files_are_read_as_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::shared();
        let headers = chain(5);
        let network = network(&headers[0]);
        let status = Status::HAVE_DATA | 3;
        let mut rows: Vec<Vec<u8>> = (0..).zip(&headers).map(|(height, header)| row(height, status, header)).collect();
        // In the order in which they came.
        rows.swap(2, 4);
        let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
        write(HEADERS, &with_sums(HEADERS_MAGIC, &rows));
        let info = [5u32, 900, 70, 0, 4].map(u32::to_le_bytes).concat();
        let info = [&info[..], &7u64.to_le_bytes(), &9u64.to_le_bytes()].concat();
        write(BLOCK_FILES, &with_sums(BLOCK_FILES_MAGIC, &[info]));
        let got = load(&*disk, dir.path(), &network).unwrap();
        let heights: Vec<u32> = got.entries.iter().map(|entry| entry.height.to_u32()).collect();
        assert_eq!((heights, got.is_pruned, got.is_reindexing), (vec![0, 1, 2, 3, 4], false, false));
        assert_eq!(got.entries[3].data().map(|at| at.offset), Some(11));
        assert_eq!((got.files[0].size, got.files[0].time_last, got.files[0].height_last), (900, 9, Height::new(4)));
        write(PRUNE_FLAG, b"");
        write(REINDEXING, b"\0");
        let got = load(&*disk, dir.path(), &network).unwrap();
        assert_eq!((got.is_pruned, got.is_reindexing), (true, false));
    }

    #[test]
    fn every_cut_and_flipped_bit_of_a_row_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::shared();
        let headers = chain(2);
        let network = network(&headers[0]);
        let rows: Vec<Vec<u8>> = (0..).zip(&headers).map(|(height, header)| row(height, 2, header)).collect();
        let good = with_sums(HEADERS_MAGIC, &rows);
        let judge = |bytes: &[u8]| {
            std::fs::write(dir.path().join(HEADERS), bytes).unwrap();
            load(&*disk, dir.path(), &network)
        };
        assert_eq!(judge(&good).unwrap().entries.len(), 2);
        for at in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[at / 8] ^= 1 << (at % 8);
            let kind = judge(&bad).unwrap_err().kind();
            let want = if at < 64 { FaultKind::OtherForm } else { FaultKind::Damaged };
            assert_eq!(kind, want, "bit {at}");
        }
        for cut in (0..good.len()).filter(|cut| *cut as u64 != HEAD_BYTES && *cut != 8 + 108) {
            assert_eq!(judge(&good[..cut]).unwrap_err().kind(), FaultKind::Damaged, "{cut} bytes");
        }
        let mut swapped = good.clone();
        swapped[8..].rotate_left(108);
        assert_eq!(judge(&swapped).unwrap_err().kind(), FaultKind::Damaged, "a row at another's place");
        let alone = with_sums(HEADERS_MAGIC, &rows[1..]);
        assert!(judge(&alone).unwrap_err().to_string().contains("a parent"), "a header without its parent");
    }
}
