//! LevelDB's log format: records in blocks of 32 KiB. The manifest and the write-ahead log use it.
//!
//! Piece:  masked crc32c u32 LE (of kind and payload) | length u16 LE | kind u8 | payload
//! A record is one FULL piece, or FIRST, any MIDDLEs, and LAST; a piece never crosses a block, and a
//! block's last bytes are zeros if no header fits.
//!
//! A record torn at the end of the file ends the file. Any other inconsistency is damage: LevelDB with paranoid checks,
//! as Bitcoin Core runs it, refuses such a file too.
//!
//! Source: Bitcoin Core b88bffe, leveldb/db/log_reader.cc and log_writer.cc.

use std::borrow::Cow;

use crate::coding::{fixed32, mask};
use crate::error::Damage;

const BLOCK_BYTES: usize = 32_768;
const HEADER_BYTES: usize = 7;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// The records of a log that is wholly in memory.
#[derive(Debug)]
pub(crate) struct LogReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

/// One record: the offset of its first piece, and its payload.
type Record<'a> = (usize, Cow<'a, [u8]>);

/// One piece: its offset, kind and payload.
type Piece<'a> = (usize, u8, &'a [u8]);

impl<'a> LogReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> LogReader<'a> {
        LogReader { bytes, offset: 0 }
    }

    /// The next record; `None` at the end, or if the last one is torn.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'a>>, Damage> {
        let mut begun: Option<(usize, Vec<u8>)> = None;
        loop {
            let Some((start, kind, payload)) = self.piece(begun.is_some())? else {
                return Ok(None);
            };
            // An old writer left an empty FIRST at the end of a block and began again: allowed.
            let is_open = begun.as_ref().is_some_and(|(_, bytes)| !bytes.is_empty());
            match (kind, &mut begun) {
                (FULL | FIRST, _) if is_open => {
                    return Err(Damage::new(start, "the rest of a record", "another record's start"));
                }
                (FULL, _) => return Ok(Some((start, Cow::Borrowed(payload)))),
                (FIRST, _) => begun = Some((start, payload.to_vec())),
                (MIDDLE, Some((_, bytes))) => bytes.extend_from_slice(payload),
                (LAST, Some((first, bytes))) => {
                    bytes.extend_from_slice(payload);
                    return Ok(Some((*first, Cow::Owned(std::mem::take(bytes)))));
                }
                (MIDDLE | LAST, None) => {
                    return Err(Damage::new(start, "a record's start", "its later part"));
                }
                (kind, _) => {
                    return Err(Damage::new(start, "a piece of kind 1 to 4", format!("kind {kind}")));
                }
            }
        }
    }

    /// The next piece; `None` at the end, or if the last one is torn.
    fn piece(&mut self, is_inside: bool) -> Result<Option<Piece<'a>>, Damage> {
        loop {
            let block_end = (self.offset / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let is_last_block = block_end > self.bytes.len();
            let block = &self.bytes[self.offset..block_end.min(self.bytes.len())];
            if block.len() < HEADER_BYTES {
                if is_last_block {
                    return Ok(None);
                }
                self.offset = block_end;
                continue;
            }
            let start = self.offset;
            let length = usize::from(u16::from_le_bytes([block[4], block[5]]));
            let kind = block[6];
            let Some(piece) = block.get(..HEADER_BYTES + length) else {
                if is_last_block {
                    return Ok(None);
                }
                let room = block.len() - HEADER_BYTES;
                let wanted = format!("a piece of at most {room} bytes");
                return Err(Damage::new(start, wanted, format!("length {length}")));
            };
            if kind == 0 && length == 0 {
                // Space that was reserved and never written.
                if is_inside && !is_last_block {
                    return Err(Damage::new(start, "the rest of a record", "zeros"));
                }
                self.offset = block_end.min(self.bytes.len());
                continue;
            }
            let wanted = fixed32(&piece[..4]);
            let found = mask(kernels::crc32c::crc32c(&piece[6..]));
            if wanted != found {
                let wanted = format!("a piece of {length} bytes with checksum {wanted:08x}");
                return Err(Damage::new(start, wanted, format!("checksum {found:08x}")));
            }
            self.offset += piece.len();
            return Ok(Some((start, kind, &piece[HEADER_BYTES..])));
        }
    }
}

/// Appends `record` to `out`, framed for a file of `file_bytes` so far.
pub(crate) fn put_record(out: &mut Vec<u8>, file_bytes: u64, record: &[u8]) {
    let begun = usize::try_from(file_bytes % BLOCK_BYTES as u64).expect("below a block");
    let out_start = out.len();
    let mut rest = record;
    let mut is_first = true;
    loop {
        let room = BLOCK_BYTES - (begun + out.len() - out_start) % BLOCK_BYTES;
        if room < HEADER_BYTES {
            out.resize(out.len() + room, 0);
            continue;
        }
        let length = rest.len().min(room - HEADER_BYTES);
        let (payload, behind) = rest.split_at(length);
        let kind = match (is_first, behind.is_empty()) {
            (true, true) => FULL,
            (true, false) => FIRST,
            (false, false) => MIDDLE,
            (false, true) => LAST,
        };
        let crc = kernels::crc32c::append(kernels::crc32c::crc32c(&[kind]), payload);
        out.extend_from_slice(&mask(crc).to_le_bytes());
        out.extend_from_slice(&u16::try_from(length).expect("below a block").to_le_bytes());
        out.push(kind);
        out.extend_from_slice(payload);
        rest = behind;
        is_first = false;
        if rest.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(records: &[Vec<u8>]) -> Vec<u8> {
        let mut file = Vec::new();
        for record in records {
            let mut out = Vec::new();
            put_record(&mut out, file.len() as u64, record);
            file.extend_from_slice(&out);
        }
        file
    }

    fn read(file: &[u8]) -> (Vec<Vec<u8>>, Option<Damage>) {
        let mut reader = LogReader::new(file);
        let mut records = Vec::new();
        loop {
            match reader.next() {
                Ok(Some((_, record))) => records.push(record.into_owned()),
                Ok(None) => return (records, None),
                Err(why) => return (records, Some(why)),
            }
        }
    }

    #[test]
    fn log_records_of_every_length_around_a_block_round_trip() {
        for first in (BLOCK_BYTES - 24)..(BLOCK_BYTES + 24) {
            let records = vec![vec![1; first], vec![2; 3], Vec::new(), vec![3; 2 * BLOCK_BYTES]];
            assert_eq!(read(&written(&records)), (records, None), "first is {first} bytes");
        }
    }

    #[test]
    fn cut_log_ends_early_and_a_flipped_bit_is_never_believed() {
        let records = vec![vec![1; 9], vec![2; 20], vec![3; 33_000], vec![4; 5]];
        let file = written(&records);
        for end in (0..200).chain(32_700..32_800).chain(33_000..file.len()) {
            let (found, damage) = read(&file[..end]);
            assert_eq!(damage, None, "cut at {end}");
            assert_eq!(found, records[..found.len()], "cut at {end}");
        }
        for at in (0..120).chain(32_700..32_800).chain(33_000..file.len()) {
            let mut bent = file.clone();
            bent[at] ^= 0x10;
            let (found, damage) = read(&bent);
            assert_eq!(found, records[..found.len()], "bent at {at}");
            assert!(damage.is_some() || found.len() < records.len(), "bent at {at}");
        }
    }

    #[test]
    fn log_damage_says_its_offset() {
        let piece = |kind: u8, payload: &[u8]| {
            let crc = mask(kernels::crc32c::crc32c(&[&[kind], payload].concat()));
            let length = u16::try_from(payload.len()).unwrap();
            [&crc.to_le_bytes()[..], &length.to_le_bytes(), &[kind], payload].concat()
        };
        for (row, file, want) in [
            ("unknown kind", piece(9, b"x"), Some((0, "kind 9"))),
            ("no start", [piece(1, b"x"), piece(3, b"y")].concat(), Some((8, "its later part"))),
            ("no end", [piece(2, b"x"), piece(1, b"y")].concat(), Some((8, "another record's"))),
            ("an old writer's empty start", [piece(2, b""), piece(1, b"y")].concat(), None),
            ("torn inside", piece(2, b"x"), None),
            ("zeros behind", [piece(1, b"x"), vec![0; 99]].concat(), None),
        ] {
            let found = read(&file).1.map(|damage| (damage.offset, damage.found));
            match (found, want) {
                (None, None) => {}
                (Some((offset, found)), Some((at, text))) => {
                    assert!(offset == at && found.contains(text), "{row}: {offset} {found}");
                }
                (found, want) => panic!("{row}: {found:?}, not {want:?}"),
            }
        }
    }
}
