//! `feature`: announces a feature beyond the messages of the protocol version, sent before `verack`.
//!
//! Layout: compact size and bytes of a name | compact size and bytes of its data
//!
//! Source: BIP-0434; Bitcoin Core b88bffe, net_processing.cpp, `ProcessMessage`.
//! Absent on purpose: features; ffwd offers and supports only [`crate::utxo_sets::FEATURE`].

use primitives::Reader;
use primitives::encode::put_compact_size;

/// First protocol version with this message. Source: Core's `FEATURE_VERSION`.
pub const FEATURE_VERSION: u32 = 70017;
/// Minimum bytes of a name. Source: BIP-0434.
const NAME_BYTES_MIN: usize = 4;
const NAME_BYTES_MAX: usize = 80;
/// Maximum bytes of its data. Source: BIP-0434.
const DATA_BYTES_MAX: usize = 512;

/// The name of a feature; `None` if the payload does not have this layout, or has bytes after it.
pub(super) fn parse_feature(payload: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(payload);
    let mut part = |max: usize| {
        let bytes = reader.compact_size().ok().filter(|bytes| *bytes <= max)?;
        reader.take(bytes).ok()
    };
    let name = part(NAME_BYTES_MAX)?.to_vec();
    part(DATA_BYTES_MAX)?;
    (name.len() >= NAME_BYTES_MIN && reader.remaining() == 0).then_some(name)
}

/// A `feature` message's payload.
pub(super) fn put_feature(out: &mut Vec<u8>, name: &[u8]) {
    put_compact_size(out, name.len() as u64);
    out.extend_from_slice(name);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(name: &[u8], data: &[u8], behind: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [name, data] {
            put_compact_size(&mut out, part.len() as u64);
            out.extend_from_slice(part);
        }
        [&out, behind].concat()
    }

    /// The lengths are those of Core's p2p_bip434_feature.py.
    #[test]
    fn features_are_taken_within_their_limits() {
        for (row, payload, is_taken) in [
            ("no name", payload(b"", b"", b""), false),
            ("a short name", payload(b"abc", b"", b""), false),
            ("the shortest name", payload(b"abcd", b"", b""), true),
            ("the longest name", payload(&[b'a'; 80], b"", b""), true),
            ("a long name", payload(&[b'a'; 81], b"", b""), false),
            ("a name that is no text", payload(&[0, 255, 1, 127], b"", b""), true),
            ("most data", payload(b"abcd", &[0; 512], b""), true),
            ("more data", payload(b"abcd", &[0; 513], b""), false),
            ("bytes behind", payload(b"abcd", b"", &[0]), false),
            ("a name cut short", b"\x0aabcde".to_vec(), false),
            ("data cut short", b"\x04abcd\x0axx".to_vec(), false),
            ("nothing", Vec::new(), false),
        ] {
            assert_eq!(parse_feature(&payload).is_some(), is_taken, "{row}");
        }
    }
}
