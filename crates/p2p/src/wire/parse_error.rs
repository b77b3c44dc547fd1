//! Why the payload of a message cannot be parsed.

use primitives::DecodeError;
use std::fmt;

/// Why a payload does not match its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It ends too early, or a number is not canonical.
    Decode(DecodeError),
    /// A list is longer than the protocol allows.
    Count {
        /// Its length.
        have: usize,
        /// The limit.
        max: usize,
    },
    /// An address of a known network that has another length, in bytes.
    AddressBytes {
        /// BIP155 network number.
        network: u8,
        /// The length.
        have: usize,
    },
}

impl From<DecodeError> for ParseError {
    fn from(error: DecodeError) -> ParseError {
        ParseError::Decode(error)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Decode(error) => write!(f, "{error}"),
            ParseError::Count { have, max } => write!(f, "size = {have}, at most {max}"),
            ParseError::AddressBytes { network, have } => {
                write!(f, "address of network {network} with {have} bytes")
            }
        }
    }
}

impl std::error::Error for ParseError {}
