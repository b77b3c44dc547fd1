//! Computes an obfuscation key from a block file.
//!
//! ```text
//! record          magic [u8; 4] | size u32 LE | header [u8; 80] | …
//! obfuscated      byte p of the file XOR key[p % 8]
//! ```
//!
//! The magic is known, so the first four bytes of the file give the first half of the key. The other half follows from
//! the size of the first block. It is 285 bytes in blk00000.dat, which begins with a genesis block; for other files
//! every possible size is tried. A size is accepted if it is followed by the next record, the end of the file or
//! reserved space, and if the header meets its own nBits under the resulting key. Absent on purpose: whole blocks; undo
//! files.

use crate::fault::Result;
use crate::record::{Key, NO_KEY, RECORD_HEADER_BYTES, SCAN_SIZE_MAX, SCAN_SIZE_MIN};
use disk::DiskFile;
use kernels::xor::xor;
use memchr::memmem::Finder;
use primitives::Target;
use primitives::header::{HEADER_BYTES, Header};

const RECORD_BYTES: usize = RECORD_HEADER_BYTES as usize;
/// Bytes of a record up to the end of its block's header.
const HEAD_BYTES: usize = RECORD_BYTES + HEADER_BYTES;
/// The bytes read of a file: the largest record, and the magic of the next one.
const READ_BYTES: usize = RECORD_BYTES + SCAN_SIZE_MAX as usize + HEAD_BYTES;
/// Size of a genesis block with the coinbase that most networks share.
const GENESIS_SIZE: u32 = 285;

/// The obfuscation of a block file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Nothing was written to it.
    Empty,
    /// Plain.
    Plain,
    /// Obfuscated with this key.
    Obfuscated(Key),
    /// No record found; the file's first bytes.
    Unknown([u8; 4]),
}

/// The start of a file, long enough to compute its key.
///
/// # Errors
///
/// An I/O error.
pub(super) fn start_of(file: &dyn DiskFile) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX).min(READ_BYTES)];
    let have = file.read_at(0, &mut bytes)?;
    bytes.truncate(have);
    Ok(bytes)
}

/// Examines the start of a block file of `file_bytes` in total.
pub(super) fn content(bytes: &[u8], file_bytes: u64, magic: [u8; 4]) -> Content {
    let bytes = &bytes[..bytes.len().min(READ_BYTES)];
    let mut first = [0; 4];
    let known = bytes.len().min(first.len());
    first[..known].copy_from_slice(&bytes[..known]);
    if bytes.iter().all(|&byte| byte == 0) {
        return Content::Empty;
    }
    let plain_size = bytes.get(4..8).and_then(|size| Some(u32::from_le_bytes(size.try_into().ok()?)));
    let plain_size = plain_size.filter(|size| first == magic && (SCAN_SIZE_MIN..=SCAN_SIZE_MAX).contains(size));
    let likely = plain_size.into_iter().chain([GENESIS_SIZE]);
    // The bytes after a record must be available for the check.
    let fits = |size: u32| RECORD_BYTES + size as usize <= bytes.len();
    let sizes = likely.chain((SCAN_SIZE_MIN..=SCAN_SIZE_MAX).take_while(|&size| fits(size)));
    let key = sizes.map_while(|size| key_of_size(bytes, magic, size)).find(|&(size, key)| {
        ends_a_record(bytes, file_bytes, RECORD_BYTES + size as usize, magic, key) && has_proof_of_work(bytes, key)
    });
    match key {
        Some((_, NO_KEY)) => Content::Plain,
        Some((_, key)) => Content::Obfuscated(key),
        None if first == magic || has_a_plain_record(bytes, magic) => Content::Plain,
        None => Content::Unknown(first),
    }
}

/// The key that gives the first record this size; `None` if there is not even a whole header.
fn key_of_size(bytes: &[u8], magic: [u8; 4], size: u32) -> Option<(u32, Key)> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let mut key = NO_KEY;
    let known = magic.into_iter().chain(size.to_le_bytes());
    key.iter_mut().zip(known).zip(head).for_each(|((key, known), there)| *key = known ^ there);
    Some((size, key))
}

/// Whether a record may end at `end`: another begins there, the file ends, or only reserved space follows.
fn ends_a_record(bytes: &[u8], file_bytes: u64, end: usize, magic: [u8; 4], key: Key) -> bool {
    if end as u64 == file_bytes {
        return true;
    }
    let Some(behind) = bytes.get(end..).filter(|behind| behind.len() >= magic.len()) else { return false };
    let is_record =
        magic.iter().zip(end..).zip(behind).all(|((known, at), there)| known ^ key[at % key.len()] == *there);
    is_record || behind.iter().take(HEAD_BYTES).all(|&byte| byte == 0)
}

fn has_proof_of_work(bytes: &[u8], key: Key) -> bool {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return false };
    let mut head = *head;
    xor(&mut head, key, 0);
    meets_its_target(&head)
}

/// Whether a plain record begins anywhere, with a header that meets its own nBits.
fn has_a_plain_record(bytes: &[u8], magic: [u8; 4]) -> bool {
    let places = Finder::new(&magic);
    places.find_iter(bytes).filter_map(|at| bytes[at..].first_chunk()).any(meets_its_target)
}

fn meets_its_target(head: &[u8; HEAD_BYTES]) -> bool {
    let header = Header(*head.last_chunk().expect("a record's head ends with a header"));
    Target::from_compact(header.bits()).is_some_and(|target| target.is_met_by(&header.hash()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
    const KEY: Key = [0x9d, 1, 0, 0xfe, 7, 0x33, 0x80, 5];

    /// A record of `size` bytes whose header meets its own nBits (half of all headers do on regtest).
    fn record(rng: &mut Rng, size: u32) -> Vec<u8> {
        loop {
            let mut block: Vec<u8> = (0..size).map(|_| rng.byte()).collect();
            block[72..76].copy_from_slice(&0x207f_ffff_u32.to_le_bytes());
            let record = [MAGIC.as_slice(), &size.to_le_bytes(), &block].concat();
            if meets_its_target(record.first_chunk().unwrap()) {
                return record;
            }
        }
    }

    fn content_of(bytes: &[u8]) -> Content {
        content(bytes, bytes.len() as u64, MAGIC)
    }

    #[test]
    fn content_of_a_block_file() {
        let mut rng = Rng::new(7);
        let genesis = record(&mut rng, GENESIS_SIZE);
        let other = record(&mut rng, 71_234);
        let largest = record(&mut rng, SCAN_SIZE_MAX);
        let noise: Vec<u8> = (0..50_000).map(|_| rng.byte()).collect();
        let rows: [(&str, Vec<u8>, Content); 8] = [
            ("genesis, another", [&genesis[..], &other].concat(), Content::Plain),
            ("another alone", other.clone(), Content::Plain),
            ("another twice", [&other[..], &other].concat(), Content::Plain),
            ("another, a part of one", [&other[..], &genesis[..20]].concat(), Content::Plain),
            ("the largest", [&largest[..], &other].concat(), Content::Plain),
            ("a damaged first record", [&[0x77; 300], &genesis[..], &other].concat(), Content::Plain),
            ("noise", noise.clone(), Content::Unknown(*noise.first_chunk().unwrap())),
            ("three bytes", vec![1, 2, 3], Content::Unknown([1, 2, 3, 0])),
        ];
        for (row, bytes, want) in rows {
            assert_eq!(content_of(&bytes), want, "{row}");
            let mut hidden = bytes.clone();
            xor(&mut hidden, KEY, 0);
            let got = content_of(&hidden);
            match want {
                Content::Plain if row != "a damaged first record" => assert_eq!(got, Content::Obfuscated(KEY), "{row}"),
                _ => assert!(matches!(got, Content::Unknown(_)), "{row}: {got:?}"),
            }
            hidden.resize(hidden.len() + 10_000, 0);
            if want == Content::Plain && !matches!(row, "a damaged first record") {
                assert_eq!(content_of(&hidden), Content::Obfuscated(KEY), "{row}, then reserved room");
            }
        }
        for (row, bytes) in [("nothing", 0), ("reserved room", 5_000_000)] {
            assert_eq!(content_of(&vec![0; bytes]), Content::Empty, "{row}");
        }
    }

    #[test]
    fn content_of_real_block_files() {
        let Some(data) = testkit::data::load("snapshots/regtest_assumeutxo_0_399.blk.xz") else { return };
        assert_eq!(content_of(&data), Content::Plain);
        for key in [KEY, [1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]] {
            let mut hidden = data.clone();
            xor(&mut hidden, key, 0);
            assert_eq!(content_of(&hidden), Content::Obfuscated(key));
        }
    }
}
