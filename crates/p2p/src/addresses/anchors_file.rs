//! anchors.dat: the block-relay-only peers of the last run, to which the next run connects first.
//!
//! Contents: count CompactSize | addresses, in the frame and form of `super::disk_form`
//!
//! Source: Bitcoin Core b88bffe, addrdb.cpp, `DumpAnchors`, `ReadAnchors`.
//! Absent on purpose: reading the file, and deleting it afterwards.

use super::disk_form::{Form, Source, begin, end, put_address};
use crate::wire::AddressEntry;
use primitives::encode::put_compact_size;

/// Maximum number of anchors that are kept and used. Source: Core's `MAX_BLOCK_RELAY_ONLY_ANCHORS`.
pub const ANCHOR_COUNT_MAX: usize = 2;
/// Largest file that is read.
pub const ANCHORS_BYTES_MAX: usize = 1 << 20;

/// Serializes these addresses.
pub fn to_bytes(anchors: &[AddressEntry], magic: [u8; 4]) -> Vec<u8> {
    let mut out = begin(magic);
    put_compact_size(&mut out, anchors.len() as u64);
    anchors.iter().for_each(|anchor| put_address(&mut out, anchor));
    end(out)
}

/// Parses the file; returns no addresses if it is damaged. The bytes are untrusted: no input panics.
pub fn from_bytes(bytes: &[u8], magic: [u8; 4]) -> Vec<AddressEntry> {
    let read = || {
        let mut source = Source::new(bytes, magic)?;
        // Each address takes bytes of the file, so an untrusted count is harmless.
        let anchors = (0..source.size()?).map(|_| source.address(Form::Bip155)).collect::<Result<Vec<_>, _>>()?;
        source.finish().map(|()| anchors)
    };
    read().unwrap_or_else(|_: String| Vec::new())
}
