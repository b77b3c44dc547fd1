//! The wire codec: framing of v1 messages, and the messages as values.
//!
//! v1 frame:  magic [u8; 4] | command [u8; 12], padded with zeros | size u32 LE
//!            | first four bytes of sha256d(payload) | payload [u8; size]
//!
//! Absent on purpose: sockets and encryption ([`crate::transport`], [`crate::v2`]); the handling of messages.

mod address;
mod feature;
mod filters;
mod group;
mod message;
mod onion;
mod parse_error;
pub mod utxo_sets;

pub use address::{AddressEntry, NetAddress, PeerAddress, Target, TargetError};
pub use feature::FEATURE_VERSION;
pub use filters::{FilterRange, cfcheckpt, cfheaders, cfilter};
pub use group::Group;
pub use message::{Inventory, Message, Version, limits, services};
pub(crate) use onion::{i2p_hash, key as onion_key};
pub use parse_error::ParseError;

use primitives::{BlockHash, DecodeError, Reader};
use std::fmt;

/// Bytes before the payload of a v1 message.
pub const FRAME_BYTES: usize = 24;

/// Greatest payload. Source: Bitcoin Core b88bffe, `MAX_PROTOCOL_MESSAGE_LENGTH`.
pub const PAYLOAD_BYTES_MAX: usize = 4_000_000;

/// Our protocol version.
pub const PROTOCOL_VERSION: u32 = FEATURE_VERSION;
/// The first protocol version with `sendaddrv2`. Source: Bitcoin Core b88bffe, `ProcessMessage`.
pub const ADDRV2_VERSION: u32 = 70016;

/// Bytes of a command in a frame.
pub const COMMAND_BYTES: usize = 12;

/// Why bytes are not a message of this network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// A frame that starts with another magic.
    Magic {
        /// This network's.
        want: [u8; 4],
        /// The received magic.
        have: [u8; 4],
    },
    /// v2: a peer that speaks v1, with another magic.
    MagicOfV1 {
        /// This network's.
        want: [u8; 4],
        /// The received magic.
        have: [u8; 4],
    },
    /// A command that is not printable text followed by zeros.
    Command([u8; COMMAND_BYTES]),
    /// A message that announces more than [`PAYLOAD_BYTES_MAX`].
    Oversized {
        /// The announced size.
        bytes: usize,
    },
    /// A payload that does not match its checksum.
    Checksum {
        /// The command.
        command: String,
        /// The frame's checksum.
        want: [u8; 4],
        /// The payload's.
        have: [u8; 4],
    },
    /// v2: no garbage terminator within the maximum length of garbage.
    NoGarbageTerminator,
    /// v2: a packet that cannot be decrypted.
    Decryption,
    /// v2: an empty packet, or one whose message type is cut or not text.
    MessageType,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Magic { want, have } | WireError::MagicOfV1 { want, have } => {
                write!(f, "message starts {have:02x?}, not {want:02x?}: another network?")
            }
            WireError::Command(bytes) => write!(f, "command {bytes:02x?} is not text padded with zeros"),
            WireError::Oversized { bytes } => {
                write!(f, "oversized message: {bytes} bytes, at most {PAYLOAD_BYTES_MAX}")
            }
            WireError::Checksum { command, want, have } => {
                write!(f, "wrong checksum: {command} message says {want:02x?}, its payload has {have:02x?}")
            }
            WireError::NoGarbageTerminator => write!(f, "no garbage terminator within 4111 bytes"),
            WireError::Decryption => write!(f, "packet does not decrypt"),
            WireError::MessageType => write!(f, "packet without a message type"),
        }
    }
}

impl std::error::Error for WireError {}

/// Defines [`Command`] with the text of each.
macro_rules! commands {
    ($($name:ident $text:literal,)*) => {
        /// The supported commands; all others are [`Command::Other`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum Command {
            $(#[doc = concat!("`", $text, "`.")] $name,)*
            /// An unsupported command: ignored.
            Other,
        }

        impl Command {
            /// The command of this name.
            pub fn from_name(name: &[u8]) -> Command {
                $(if name == $text.as_bytes() { return Command::$name; })*
                Command::Other
            }

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Command::$name => $text,)*
                    Command::Other => "(other)",
                }
            }

            /// Every command except [`Command::Other`].
            pub(crate) const ALL: &'static [Command] = &[$(Command::$name,)*];
        }
    };
}

commands! {
    Addr "addr",
    AddrV2 "addrv2",
    Block "block",
    CFCheckpt "cfcheckpt",
    CFHeaders "cfheaders",
    CFilter "cfilter",
    Feature "feature",
    FilterAdd "filteradd",
    FilterClear "filterclear",
    FilterLoad "filterload",
    GetAddr "getaddr",
    GetBlocks "getblocks",
    GetCFCheckpt "getcfcheckpt",
    GetCFHeaders "getcfheaders",
    GetCFilters "getcfilters",
    GetData "getdata",
    GetHeaders "getheaders",
    GetUtxoSet "getutxoset",
    GetUtxoTree "getutxotree",
    Headers "headers",
    Inv "inv",
    Mempool "mempool",
    NotFound "notfound",
    Ping "ping",
    Pong "pong",
    SendAddrV2 "sendaddrv2",
    SendHeaders "sendheaders",
    UtxoSet "utxoset",
    UtxoTree "utxotree",
    Verack "verack",
    Version "version",
}

/// The frame of a v1 message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The command.
    pub command: Command,
    /// Bytes of payload, at most [`PAYLOAD_BYTES_MAX`].
    pub payload_bytes: usize,
    /// First four bytes of the payload's double SHA-256.
    pub checksum: [u8; 4],
}

impl Frame {
    /// Parses a frame of the network with `magic`.
    ///
    /// # Errors
    ///
    /// [`WireError::Magic`], [`WireError::Command`], [`WireError::Oversized`].
    pub fn parse(bytes: &[u8; FRAME_BYTES], magic: [u8; 4]) -> Result<Frame, WireError> {
        let [m0, m1, m2, m3, rest @ ..] = *bytes;
        let have = [m0, m1, m2, m3];
        if have != magic {
            return Err(WireError::Magic { want: magic, have });
        }
        let [name @ .., s0, s1, s2, s3, c0, c1, c2, c3] = rest;
        let name: [u8; COMMAND_BYTES] = name;
        let command = Command::from_name(command_name(&name).ok_or(WireError::Command(name))?);
        let payload_bytes = usize::try_from(u32::from_le_bytes([s0, s1, s2, s3])).unwrap_or(usize::MAX);
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(WireError::Oversized { bytes: payload_bytes });
        }
        Ok(Frame { command, payload_bytes, checksum: [c0, c1, c2, c3] })
    }

    /// The frame's bytes.
    ///
    /// # Panics
    ///
    /// On a payload beyond [`PAYLOAD_BYTES_MAX`], which is never sent (a block that large is not served).
    pub fn to_bytes(&self, magic: [u8; 4]) -> [u8; FRAME_BYTES] {
        assert!(self.payload_bytes <= PAYLOAD_BYTES_MAX, "we send no oversized message");
        let mut out = [0; FRAME_BYTES];
        out[..4].copy_from_slice(&magic);
        let name = self.command.name().as_bytes();
        out[4..4 + name.len()].copy_from_slice(name);
        let size = u32::try_from(self.payload_bytes).expect("at most 4,000,000");
        out[16..20].copy_from_slice(&size.to_le_bytes());
        out[20..].copy_from_slice(&self.checksum);
        out
    }

    /// Checks a payload that arrived with this frame.
    ///
    /// # Errors
    ///
    /// [`WireError::Checksum`].
    pub fn check(&self, payload: &[u8]) -> Result<(), WireError> {
        let have = checksum(payload);
        if have == self.checksum {
            return Ok(());
        }
        Err(WireError::Checksum { command: self.command.name().to_owned(), want: self.checksum, have })
    }
}

/// The text of a padded command; `None` if it is not printable text followed by zeros only.
///
/// Source: Bitcoin Core b88bffe, `CMessageHeader::IsMessageTypeValid`.
pub(crate) fn command_name(padded: &[u8; COMMAND_BYTES]) -> Option<&[u8]> {
    let end = padded.iter().position(|&byte| byte == 0).unwrap_or(COMMAND_BYTES);
    let (name, padding) = padded.split_at(end);
    let sound = name.iter().all(|byte| (0x20..=0x7e).contains(byte)) && padding.iter().all(|&byte| byte == 0);
    sound.then_some(name)
}

/// First four bytes of the double SHA-256.
pub fn checksum(payload: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = kernels::sha256::sha256d(payload);
    [a, b, c, d]
}

/// A v1 message.
///
/// # Panics
///
/// On a payload beyond [`PAYLOAD_BYTES_MAX`].
pub fn frame_v1(magic: [u8; 4], command: Command, payload: &[u8]) -> Vec<u8> {
    let frame = Frame { command, payload_bytes: payload.len(), checksum: checksum(payload) };
    [&frame.to_bytes(magic)[..], payload].concat()
}

/// A v1 message with any name and payload, also one that peers refuse.
///
/// # Panics
///
/// On a payload whose length does not fit in 32 bits.
pub fn frame_named(magic: [u8; 4], name: [u8; COMMAND_BYTES], payload: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(payload.len()).expect("the caller keeps it below 4 GiB").to_le_bytes();
    [&magic[..], &name, &bytes, &checksum(payload), payload].concat()
}

/// A block hash of a message.
fn hash(reader: &mut Reader<'_>) -> Result<BlockHash, DecodeError> {
    Ok(BlockHash::from_bytes(*reader.array::<32>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];

    #[test]
    fn frames_round_trip() {
        for &command in Command::ALL {
            let message = frame_v1(MAGIC, command, b"some payload");
            let frame = Frame::parse(message[..FRAME_BYTES].try_into().unwrap(), MAGIC).unwrap();
            assert_eq!((frame.command, frame.payload_bytes), (command, 12));
            frame.check(b"some payload").unwrap();
            assert_eq!(Command::from_name(command.name().as_bytes()), command);
        }
    }

    /// The bytes of a verack on mainnet: Bitcoin developer documentation, and any capture.
    #[test]
    fn verack_frame_matches_known_bytes() {
        let want = primitives::hex::decode("f9beb4d976657261636b000000000000000000005df6e0e2").unwrap();
        assert_eq!(frame_v1(MAGIC, Command::Verack, &[]), want);
    }

    #[test]
    fn bad_frames_fail_with_their_error() {
        let sound = frame_v1(MAGIC, Command::Ping, &[0; 8]);
        for (row, at, byte, want) in [
            ("magic", 0, 0xfa, "another network"),
            ("command with a hole", 5, 0, "not text padded"),
            ("command with a control character", 4, 0x1f, "not text padded"),
            ("command not ended", 15, 0x80, "not text padded"),
            ("gigantic length", 19, 0xff, "oversized"),
            ("just too long", 18, 0x3e, "oversized"),
        ] {
            let mut bytes: [u8; FRAME_BYTES] = sound[..FRAME_BYTES].try_into().unwrap();
            bytes[at] = byte;
            let why = Frame::parse(&bytes, MAGIC).unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        let frame = Frame::parse(sound[..FRAME_BYTES].try_into().unwrap(), MAGIC).unwrap();
        let why = frame.check(&[1; 8]).unwrap_err().to_string();
        assert!(why.contains("wrong checksum: ping"), "{why}");
    }
}
