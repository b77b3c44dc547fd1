//! anchors.dat: the peers for blocks alone of the last run, to which the next goes back first.
//!
//! Contents: count CompactSize | addresses, in the frame and form of [`super::disk_form`]
//!
//! Source: Bitcoin Core b88bffe, addrdb.cpp, `DumpAnchors`, `ReadAnchors`.
//! Absent on purpose: the file itself, which goes when it was read.

use super::disk_form::{Form, Source, begin, end, put_address};
use crate::wire::AddressEntry;
use primitives::encode::put_compact_size;

/// Addresses that are kept and used. Source: Core's `MAX_BLOCK_RELAY_ONLY_ANCHORS`.
pub const ANCHOR_COUNT_MAX: usize = 2;
/// Largest file that is read.
pub const ANCHORS_BYTES_MAX: usize = 1 << 20;

/// The file of these addresses.
pub fn to_bytes(anchors: &[AddressEntry], magic: [u8; 4]) -> Vec<u8> {
    let mut out = begin(magic);
    put_compact_size(&mut out, anchors.len() as u64);
    anchors.iter().for_each(|anchor| put_address(&mut out, anchor));
    end(out)
}

/// The addresses of such a file; none of one that is not sound. The bytes are untrusted: no input panics.
pub fn from_bytes(bytes: &[u8], magic: [u8; 4]) -> Vec<AddressEntry> {
    let read = || {
        let mut source = Source::new(bytes, magic)?;
        // Each takes bytes of the file: the count cannot be believed, and need not.
        let anchors = (0..source.size()?).map(|_| source.address(Form::Bip155)).collect::<Result<Vec<_>, _>>()?;
        source.finish().map(|()| anchors)
    };
    read().unwrap_or_else(|_: String| Vec::new())
}
