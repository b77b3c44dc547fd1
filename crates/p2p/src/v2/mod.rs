//! BIP324: the encrypted transport's keys, ciphers and message types.
//!
//! Handshake:  ElligatorSwift key 64 | garbage 0..4095 | garbage terminator 16 | version packet, both ways
//! Packet:     encrypted length 3 | encrypted (header 1 | contents) | tag 16
//! Contents:   message type 1 (or 0, then 12 as in v1) | payload
//!
//! Absent on purpose: the order of the parts ([`crate::transport`]).

mod cipher;
mod length_cipher;

pub use cipher::{Cipher, Keys};

use crate::wire::{COMMAND_BYTES, Command, PAYLOAD_BYTES_MAX, WireError};

/// Bytes of an encoded public key.
pub const KEY_BYTES: usize = 64;
/// Bytes of a garbage terminator.
pub const TERMINATOR_BYTES: usize = 16;
/// Greatest length of garbage.
pub const GARBAGE_BYTES_MAX: usize = 4095;
/// Bytes of a packet's encrypted length.
pub const LENGTH_BYTES: usize = 3;
/// Bytes of a packet's header, inside the encryption.
pub const HEADER_BYTES: usize = 1;
/// Bytes of a packet's tag.
pub const TAG_BYTES: usize = 16;
/// Bytes of a packet with a short message type before its payload.
pub const SHORT_HEAD_BYTES: usize = LENGTH_BYTES + HEADER_BYTES + 1;
/// Set in the header of a decoy.
pub const IGNORE_BIT: u8 = 0x80;
/// Greatest length of contents: a long message type and the largest payload.
pub const CONTENTS_BYTES_MAX: usize = 1 + COMMAND_BYTES + PAYLOAD_BYTES_MAX;
/// Number of packets after which both ciphers change keys.
pub const REKEY_INTERVAL: u32 = 224;

/// The supported short types. Source: BIP324's table; BIP-0434.
const SHORT_TYPES: [(u8, Command); 23] = [
    (1, Command::Addr),
    (2, Command::Block),
    (6, Command::FilterAdd),
    (7, Command::FilterClear),
    (8, Command::FilterLoad),
    (9, Command::GetBlocks),
    (11, Command::GetData),
    (12, Command::GetHeaders),
    (13, Command::Headers),
    (14, Command::Inv),
    (15, Command::Mempool),
    (17, Command::NotFound),
    (18, Command::Ping),
    (19, Command::Pong),
    (22, Command::GetCFilters),
    (23, Command::CFilter),
    (24, Command::GetCFHeaders),
    (25, Command::CFHeaders),
    (26, Command::GetCFCheckpt),
    (27, Command::CFCheckpt),
    (28, Command::AddrV2),
    (37, Command::Feature),
    // 0: 12 bytes of command follow.
    (0, Command::Other),
];

/// The message type at the start of `contents`, and the offset of the payload.
///
/// # Errors
///
/// [`WireError::MessageType`] for empty contents, or a cut or unprintable long type.
pub fn message_type(contents: &[u8]) -> Result<(Command, usize), WireError> {
    let (&first, rest) = contents.split_first().ok_or(WireError::MessageType)?;
    if first != 0 {
        let known = SHORT_TYPES.iter().find(|(id, _)| *id == first);
        return Ok((known.map_or(Command::Other, |(_, command)| *command), 1));
    }
    let padded = rest.first_chunk::<COMMAND_BYTES>().ok_or(WireError::MessageType)?;
    let name = crate::wire::command_name(padded).ok_or(WireError::MessageType)?;
    Ok((Command::from_name(name), 1 + COMMAND_BYTES))
}

/// The short message type of `command`, if it has one.
pub fn short_type(command: Command) -> Option<u8> {
    SHORT_TYPES.iter().find(|(id, known)| *id != 0 && *known == command).map(|(id, _)| *id)
}

/// Writes the message type of `command` to `out`.
pub fn put_message_type(out: &mut Vec<u8>, command: Command) {
    if let Some(id) = short_type(command) {
        out.push(id);
        return;
    }
    out.push(0);
    let start = out.len();
    out.extend_from_slice(command.name().as_bytes());
    out.resize(start + COMMAND_BYTES, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_types_round_trip() {
        for &command in Command::ALL {
            let mut out = Vec::new();
            put_message_type(&mut out, command);
            assert_eq!(message_type(&out), Ok((command, out.len())), "{command:?}");
        }
        for (row, contents, want) in [
            ("empty", &[][..], Err(WireError::MessageType)),
            ("unknown short type", &[200, 1, 2], Ok((Command::Other, 1))),
            ("feature", &[37, 1, 2], Ok((Command::Feature, 1))),
            ("a transaction", &[21, 1, 2], Ok((Command::Other, 1))),
            ("cut long type", &[0, b'p', b'i'], Err(WireError::MessageType)),
            ("hole in long type", b"\0pi\0g\0\0\0\0\0\0\0\0", Err(WireError::MessageType)),
            ("long type", b"\0ping\0\0\0\0\0\0\0\0", Ok((Command::Ping, 13))),
        ] {
            assert_eq!(message_type(contents), want, "{row}");
        }
    }
}
