//! The bytes of a record in a table: one coin, or the tombstone of one.
//!
//! record:  flags u8 | coin bytes u16 | txid without its first byte 31 | VARINT vout | coin
//!
//! A slice that starts with a record may have more bytes after it: the record's fields give its end. Absent on purpose:
//! the place of records, and the search for them (`table`).

use primitives::encode::Reader;

pub(crate) const FLAGS_AT: usize = 0;
pub(crate) const COIN_BYTES_AT: usize = 1;
pub(crate) const TXID_AT: usize = 3;
pub(crate) const VOUT_AT: usize = TXID_AT + 31;

/// Flag of a record: the coin is spent.
pub(crate) const TOMBSTONE: u8 = 1;
/// Flag of a record: the coin is known to be in no older generation and no table.
pub(crate) const FRESH: u8 = 2;
/// Flag of a record: the coin has a separate allocation, whose number the record contains.
#[cfg(feature = "ablation")]
pub(crate) const APART: u8 = 4;

#[inline]
pub(crate) fn is_dead(record: &[u8]) -> bool {
    record[FLAGS_AT] & TOMBSTONE != 0
}

#[inline]
pub(crate) fn vout_of(record: &[u8]) -> u32 {
    match record[VOUT_AT] {
        small @ 0..=127 => u32::from(small),
        _ => Reader::at(record, VOUT_AT).varint_u32().expect("a record holds a vout"),
    }
}

/// Bytes of the vout of a record: the top bit of its last byte is clear.
#[inline]
pub(crate) fn vout_bytes(record: &[u8]) -> usize {
    record[VOUT_AT..].iter().position(|byte| byte & 0x80 == 0).expect("a record holds a vout") + 1
}

#[inline]
pub(crate) fn coin_bytes(record: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([record[COIN_BYTES_AT], record[COIN_BYTES_AT + 1]]))
}

/// The part of a record after its key: the coin. With the feature `ablation` it may be the number of its allocation.
#[inline]
pub(crate) fn stored_of(record: &[u8]) -> &[u8] {
    &record[VOUT_AT + vout_bytes(record)..][..coin_bytes(record)]
}

/// The number of the separate allocation of a record's coin.
#[cfg(feature = "ablation")]
#[inline]
pub(crate) fn apart_of(record: &[u8]) -> Option<u32> {
    let number = || u32::from_le_bytes(stored_of(record).try_into().expect("a number has four bytes"));
    (record[FLAGS_AT] & APART != 0).then(number)
}

#[inline]
pub(crate) fn key_of(record: &[u8]) -> &[u8] {
    &record[TXID_AT..VOUT_AT + vout_bytes(record)]
}

#[inline]
pub(crate) fn record_bytes(record: &[u8]) -> usize {
    VOUT_AT + vout_bytes(record) + coin_bytes(record)
}
