//! A file of hints: read once from beginning to end, then by height.
//!
//! Memory has the offset of one list in [`LISTS_PER_START`]; the lists after it are skipped.

use crate::fault::Fault;
use disk::{Disk, DiskFile};
use kernels::sha256::Sha256;
use primitives::hints::{HEADER_BYTES, LIST_BYTES_MAX, read_header, read_list, skip_list};
use primitives::{DecodeError, Height, Reader};
use std::path::Path;
use std::sync::Arc;

/// Bytes per read.
const PIECE_BYTES: usize = 1 << 20;
/// Lists from one stored offset to the next.
const LISTS_PER_START: usize = 64;

/// A complete file of hints: every list can be read.
#[derive(Debug)]
pub(crate) struct HintsFile {
    file: Arc<dyn DiskFile>,
    height: Height,
    /// Offset of the first list of each [`LISTS_PER_START`], and of the end.
    starts: Vec<u64>,
    sha256: [u8; 32],
}

impl HintsFile {
    /// Opens a file and reads it to its end.
    ///
    /// # Errors
    ///
    /// It is missing, not a file of hints, truncated, or detectably damaged: the offset; an I/O error.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<HintsFile, Fault> {
        let advice = "Make the file again with ffwd hints make, copy it again, or sync without --hints";
        let refused =
            |why: String| Fault::refused(format!("the hints {} cannot be used: {why}", path.display()), advice);
        let unopened = |why: disk::DiskError| {
            let what = format!("the hints {} cannot be used: {}", path.display(), why.source);
            Fault::system(what, advice, why.source)
        };
        let file = disk.open(path).map_err(unopened)?;
        let bytes = file.len().map_err(store::Fault::from)?;
        let mut sha = Sha256::new();
        let mut buffer = Vec::new();
        let mut begins_at = 0;
        let mut read = 0;
        let mut height = None;
        let mut starts = Vec::new();
        let mut count = 0;
        loop {
            let old = buffer.len();
            let wanted = usize::try_from(bytes - read).unwrap_or(usize::MAX).min(PIECE_BYTES);
            buffer.resize(old + wanted, 0);
            file.read_exact_at(read, &mut buffer[old..]).map_err(store::Fault::from)?;
            sha.update(&buffer[old..]);
            read += wanted as u64;
            let is_last = read == bytes;
            let mut reader = Reader::new(&buffer);
            let damaged = |why: DecodeError| refused(format!("{why}, counted from byte {begins_at} of the file"));
            let known = match height {
                Some(known) => known,
                None => *height.insert(read_header(&mut reader).map_err(damaged)?),
            };
            while count < known.to_usize() && (is_last || reader.remaining() >= LIST_BYTES_MAX) {
                if count % LISTS_PER_START == 0 {
                    starts.push(begins_at + reader.offset() as u64);
                }
                count += 1;
                read_list(&mut reader).map_err(|why| {
                    refused(format!("height {count}: {why}, counted from byte {begins_at} of the file"))
                })?;
            }
            let taken = reader.offset();
            if count == known.to_usize() {
                let end = begins_at + taken as u64;
                if end != bytes {
                    return Err(refused(format!("{} bytes follow its last list, at byte {end}", bytes - end)));
                }
                starts.push(end);
                return Ok(HintsFile { file, height: known, starts, sha256: sha.finalize() });
            }
            buffer.drain(..taken);
            begins_at += taken as u64;
        }
    }

    /// Height of the last block that it covers.
    pub(crate) fn height(&self) -> Height {
        self.height
    }

    /// SHA-256 of the file.
    pub(crate) fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// The indices of the block at a height from 1 to [`HintsFile::height`], in ascending order.
    ///
    /// # Errors
    ///
    /// The file changed since it was opened; an I/O error.
    pub(crate) fn list(&self, height: Height) -> Result<Vec<u32>, Fault> {
        let place = height.to_usize() - 1;
        let start = self.starts[place / LISTS_PER_START];
        let end = self.starts[place / LISTS_PER_START + 1];
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(start, &mut bytes).map_err(store::Fault::from)?;
        let mut reader = Reader::new(&bytes);
        let skipped = (0..place % LISTS_PER_START).try_for_each(|_| skip_list(&mut reader));
        skipped.and_then(|()| read_list(&mut reader)).map_err(|why| {
            let why = format!("the hints {} changed while they were used: {why}", self.file.path().display());
            Fault::refused(why, "Keep the file as it is during a sync, then start again")
        })
    }
}

const _: () = assert!(HEADER_BYTES < PIECE_BYTES && LIST_BYTES_MAX < PIECE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use primitives::hints::{header, put_list};

    const PATH: &str = "/d/hints";

    fn put(disk: &SimDisk, bytes: &[u8]) {
        let _ = disk.remove_file(Path::new(PATH));
        disk.create(Path::new(PATH)).unwrap().write_at(0, bytes).unwrap();
    }

    #[test]
    fn lists_are_found_by_height_and_other_files_refused() {
        let mut rng = testkit::Rng::new(3);
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new("/d")).unwrap();
        // More bytes than a piece, and lists across its end.
        let lists: Vec<Vec<u32>> = (0..700)
            .map(|at| {
                let (end, one_in) = (if at % 10 == 3 { 100_000 } else { rng.below(500) as u32 }, 1 + rng.below(6));
                (0..end).filter(|_| rng.one_in(one_in)).collect()
            })
            .collect();
        let mut bytes = header(Height::new(700)).to_vec();
        lists.iter().for_each(|list| put_list(&mut bytes, list));
        assert!(bytes.len() > PIECE_BYTES);
        put(&disk, &bytes);
        let file = HintsFile::open(&disk, Path::new(PATH)).unwrap();
        assert_eq!((file.height(), file.sha256()), (Height::new(700), kernels::sha256::sha256(&bytes)));
        for (height, list) in (1..).zip(&lists) {
            assert_eq!(&file.list(Height::new(height)).unwrap(), list);
        }
        let refused = |bytes: &[u8]| {
            put(&disk, bytes);
            HintsFile::open(&disk, Path::new(PATH)).unwrap_err().to_string()
        };
        for (row, bytes, want) in [
            ("empty", &[][..], "cut short"),
            ("another magic", b"utxo\0\0\0\0\0", "begin with UTXO"),
            ("a height without lists", &header(Height::new(3)), "height 1: the item at byte 9"),
            ("a height that lies", &header(Height::new(16_000_000)), "height 1: "),
            ("bytes behind the end", &[&bytes[..], &[0]].concat(), "1 bytes follow its last list"),
            ("cut", &bytes[..bytes.len() - 1], "height 700: "),
        ] {
            let why = refused(bytes);
            assert!(why.contains(want) && why.contains(PATH), "{row}: {why}");
        }
        for _ in 0..40 {
            let why = refused(&bytes[..rng.below(bytes.len())]);
            assert!(why.contains("cut short"), "{why}");
        }
        let missing = HintsFile::open(&disk, Path::new("/d/none")).unwrap_err().to_string();
        assert!(missing.contains("the hints /d/none cannot be used"), "{missing}");
    }
}
