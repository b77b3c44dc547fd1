//! Keys by height and by hash, and rows of the filter index.
//!
//! ```text
//! 't' | height u32 BE -> block hash | row        the active chain; an index that is behind may have older blocks
//! 's' | block hash    -> row                     blocks that were disconnected
//! row of the filters: hash of the filter 32 | filter header 32 | VARINT file | VARINT offset of its record
//! 'P' -> VARINT file | VARINT offset of the next filter      'B' -> locator
//! ```
//!
//! Source: Bitcoin Core b88bffe, index/db_key.h, index/blockfilterindex.cpp.

use primitives::encode::{DecodeError, Reader, put_varint};
use primitives::{BlockHash, Hash256, Height};

/// Key of the index's locator.
pub const BEST_BLOCK: &[u8] = b"B";
/// Key of the place of the next filter.
pub const FILTER_POSITION: &[u8] = b"P";

/// Key of the row of the block at a height.
pub fn height_key(height: Height) -> [u8; 5] {
    let [a, b, c, d] = height.to_u32().to_be_bytes();
    [b't', a, b, c, d]
}

/// Key of the row of a block that was disconnected.
pub fn hash_key(hash: &BlockHash) -> [u8; 33] {
    let mut key = [b's'; 33];
    key[1..].copy_from_slice(hash.as_bytes());
    key
}

/// Splits a row that is stored by height into the block's hash and the row.
///
/// # Errors
///
/// Less than a hash.
pub fn split_value(value: &[u8]) -> Result<(BlockHash, &[u8]), DecodeError> {
    let mut reader = Reader::new(value);
    let hash = BlockHash::from_bytes(*reader.array()?);
    Ok((hash, &value[reader.offset()..]))
}

/// The height of a key by height; `None` for another key.
pub fn height_of(key: &[u8]) -> Option<Height> {
    let height = key.strip_prefix(b"t")?.try_into().ok()?;
    Some(Height::new(u32::from_be_bytes(height)))
}

/// The block and the row of a filter, of a key by height or by hash.
///
/// # Errors
///
/// Bytes that are malformed.
pub fn split_row(key: &[u8], value: &[u8]) -> Result<(BlockHash, FilterRow), DecodeError> {
    if let Some(hash) = key.strip_prefix(b"s") {
        let mut reader = Reader::new(hash);
        let hash = BlockHash::from_bytes(*reader.array()?);
        reader.finish()?;
        return Ok((hash, FilterRow::decode(value)?));
    }
    let (hash, row) = split_value(value)?;
    Ok((hash, FilterRow::decode(row)?))
}

/// The value stored by height: the block's hash, then the row.
pub fn join_value(hash: &BlockHash, row: &[u8]) -> Vec<u8> {
    [hash.as_bytes(), row].concat()
}

/// The place of a filter's record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct FilterPos {
    /// Number of the file: fltr?????.dat.
    pub file: u32,
    /// Offset in it, in bytes.
    pub offset: u32,
}

impl FilterPos {
    /// Its two VARINTs.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    fn put(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.file));
        put_varint(out, u64::from(self.offset));
    }

    fn read(reader: &mut Reader<'_>) -> Result<FilterPos, DecodeError> {
        Ok(FilterPos { file: reader.varint_u32()?, offset: reader.varint_u32()? })
    }

    /// Decodes exactly one place.
    ///
    /// # Errors
    ///
    /// Malformed bytes.
    pub fn decode(bytes: &[u8]) -> Result<FilterPos, DecodeError> {
        let mut reader = Reader::new(bytes);
        let pos = FilterPos::read(&mut reader)?;
        reader.finish()?;
        Ok(pos)
    }
}

/// The filter index's row of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilterRow {
    /// Double SHA-256 of the filter.
    pub hash: Hash256,
    /// The filter header.
    pub header: Hash256,
    /// Place of the filter.
    pub pos: FilterPos,
}

impl FilterRow {
    /// The bytes of the row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [self.hash.0, self.header.0].concat();
        self.pos.put(&mut out);
        out
    }

    /// Decodes exactly one row.
    ///
    /// # Errors
    ///
    /// Malformed bytes.
    pub fn decode(bytes: &[u8]) -> Result<FilterRow, DecodeError> {
        let mut reader = Reader::new(bytes);
        let hash = Hash256(*reader.array()?);
        let header = Hash256(*reader.array()?);
        let pos = FilterPos::read(&mut reader)?;
        reader.finish()?;
        Ok(FilterRow { hash, header, pos })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_keys_round_trip() {
        assert_eq!(height_key(Height::new(258)), [b't', 0, 0, 1, 2]);
        let row =
            FilterRow { hash: Hash256([1; 32]), header: Hash256([2; 32]), pos: FilterPos { file: 1, offset: 300 } };
        let bytes = row.encode();
        assert_eq!(bytes.len(), 67);
        assert_eq!(FilterRow::decode(&bytes), Ok(row));
        (0..bytes.len()).for_each(|cut| assert!(FilterRow::decode(&bytes[..cut]).is_err()));
        let hash = BlockHash::from_bytes([3; 32]);
        let value = join_value(&hash, &bytes);
        assert_eq!(split_value(&value), Ok((hash, &bytes[..])));
        assert!(split_value(&value[..31]).is_err());
        assert_eq!(split_row(&height_key(Height::new(258)), &value), Ok((hash, row)));
        assert_eq!(split_row(&hash_key(&hash), &bytes), Ok((hash, row)));
        assert!(split_row(&hash_key(&hash)[..9], &bytes).is_err());
        assert_eq!(height_of(&height_key(Height::new(258))), Some(Height::new(258)));
        assert!(height_of(&hash_key(&hash)).is_none() && height_of(b"t").is_none());
        assert_eq!(FilterPos::decode(&row.pos.encode()), Ok(row.pos));
        assert_eq!(hash_key(&hash)[..2], [b's', 3]);
    }
}
