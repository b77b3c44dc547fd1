//! Messages about compact block filters.
//!
//! ```text
//! getcfilters, getcfheaders   filter type u8 | first height u32 LE | last block's hash
//! getcfcheckpt                filter type u8 | last block's hash
//! cfilter                     filter type u8 | block's hash | CompactSize bytes | filter
//! cfheaders                   filter type u8 | last block's hash | filter header before the first | CompactSize n | n filter hashes
//! cfcheckpt                   filter type u8 | last block's hash | CompactSize n | n filter headers
//! ```
//!
//! Source: BIP-0157. Absent on purpose: parsing the answers, because ffwd never requests filters.

use super::{Command, hash};
use primitives::encode::put_compact_size;
use primitives::{BlockHash, DecodeError, Hash256, Reader};

/// The filters that a peer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRange {
    /// Filter type; 0 is the basic one.
    pub kind: u8,
    /// Height of the first block.
    pub start: u32,
    /// Hash of the last block.
    pub stop: BlockHash,
}

pub(super) fn parse_range(reader: &mut Reader<'_>) -> Result<FilterRange, DecodeError> {
    Ok(FilterRange { kind: reader.u8()?, start: reader.u32()?, stop: hash(reader)? })
}

pub(super) fn put_range(out: &mut Vec<u8>, range: &FilterRange, command: Command) -> Command {
    out.push(range.kind);
    out.extend_from_slice(&range.start.to_le_bytes());
    out.extend_from_slice(range.stop.as_bytes());
    command
}

/// Payload of `cfilter`.
pub fn cfilter(kind: u8, block: &BlockHash, filter: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(42 + filter.len());
    out.push(kind);
    out.extend_from_slice(block.as_bytes());
    put_compact_size(&mut out, filter.len() as u64);
    out.extend_from_slice(filter);
    out
}

/// Payload of `cfheaders`: the filter header before the first block, and the hashes of the filters.
pub fn cfheaders(kind: u8, stop: &BlockHash, before: &Hash256, hashes: &[Hash256]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(stop.as_bytes());
    out.extend_from_slice(&before.0);
    put_hashes(&mut out, hashes);
    out
}

/// Payload of `cfcheckpt`: the filter headers at every checkpoint.
pub fn cfcheckpt(kind: u8, stop: &BlockHash, headers: &[Hash256]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(stop.as_bytes());
    put_hashes(&mut out, headers);
    out
}

fn put_hashes(out: &mut Vec<u8>, hashes: &[Hash256]) {
    put_compact_size(out, hashes.len() as u64);
    hashes.iter().for_each(|hash| out.extend_from_slice(&hash.0));
}
