//! Errors of calls: Core's codes and texts.

use crate::json::Json;
use node::handle::Unanswered;
use std::fmt;

/// Core's codes. Source: Bitcoin Core b88bffe, rpc/protocol.h, `RPCErrorCode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// The JSON is not a request.
    InvalidRequest = -32600,
    /// There is no call with this name.
    MethodNotFound = -32601,
    /// Parameters that exclude each other.
    InvalidParams = -32602,
    /// A bug of the program, or a damaged file.
    Internal = -32603,
    /// Not JSON.
    Parse = -32700,
    /// Any error without a code of its own; help on wrong use.
    Misc = -1,
    /// A parameter of another type.
    Type = -3,
    /// An address, hash or key that is unknown or invalid.
    InvalidAddressOrKey = -5,
    /// There is not enough memory.
    OutOfMemory = -7,
    /// A parameter that is invalid, missing, or given twice.
    InvalidParameter = -8,
    /// There are no connections, or the program is ending.
    NotConnected = -9,
    /// Initial block download is in progress.
    InInitialDownload = -10,
    /// A file or database cannot be read or written.
    Database = -20,
    /// Bytes that do not deserialize.
    Deserialization = -22,
    /// This node was already added.
    NodeAlreadyAdded = -23,
    /// This node was not added.
    NodeNotAdded = -24,
    /// A block or transaction that cannot be accepted.
    Verify = -25,
    /// A block or transaction that a rule refuses.
    VerifyRejected = -26,
    /// The outputs of a transaction are in the UTXO set.
    AlreadyInUtxoSet = -27,
    /// The program is starting.
    InWarmup = -28,
    /// No such peer.
    NodeNotConnected = -29,
    /// An address or network that does not parse, or is (not) banned.
    InvalidIpOrSubnet = -30,
    /// There is no network.
    P2pDisabled = -31,
    /// The call was removed.
    MethodDeprecated = -32,
    /// The mempool is disabled.
    MempoolDisabled = -33,
    /// The maximum number of connections is reached.
    NodeCapacityReached = -34,
    /// The limit of a resource is reached.
    LimitExceeded = -37,
}

/// Why a call has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RpcError {
    /// Its code.
    pub code: Code,
    /// The message for users.
    pub message: String,
}

impl RpcError {
    /// An error with Core's code and text.
    pub fn new(code: Code, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into() }
    }

    /// [`Code::Misc`].
    pub fn misc(message: impl Into<String>) -> RpcError {
        RpcError::new(Code::Misc, message)
    }

    /// [`Code::InvalidParameter`].
    pub fn parameter(message: impl Into<String>) -> RpcError {
        RpcError::new(Code::InvalidParameter, message)
    }

    /// [`Code::InvalidAddressOrKey`].
    pub fn not_found(message: impl Into<String>) -> RpcError {
        RpcError::new(Code::InvalidAddressOrKey, message)
    }

    /// A value of the wrong type. Source: Core's `UniValue::checkType`.
    pub fn of_type(found: &Json, wanted: &str) -> RpcError {
        let message = format!("JSON value of type {} is not of expected type {wanted}", found.type_name());
        RpcError::new(Code::Type, message)
    }

    /// The field `error` of a reply.
    pub fn json(&self) -> Json {
        Json::object().put("code", self.code as i32).put("message", self.message.as_str()).end()
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code as i32)
    }
}

impl std::error::Error for RpcError {}

/// A file that cannot be read, or is damaged: Core ends then, or returns this code. Work that the end of the program
/// stopped ends as in Core.
impl From<node::Fault> for RpcError {
    fn from(fault: node::Fault) -> RpcError {
        match fault {
            node::Fault::Stopped => Unanswered::Ended.into(),
            fault => RpcError::new(Code::Internal, fault.what()),
        }
    }
}

impl From<Unanswered> for RpcError {
    fn from(why: Unanswered) -> RpcError {
        match why {
            Unanswered::Opening(what) => RpcError::new(Code::InWarmup, what),
            Unanswered::Ended => RpcError::new(Code::NotConnected, "Shutting down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_work_ends_as_the_program() {
        for (fault, code, message) in [
            (node::Fault::Stopped, Code::NotConnected, "Shutting down"),
            (node::Fault::refused("it is so", "Do that"), Code::Internal, "it is so"),
        ] {
            assert_eq!(RpcError::from(fault), RpcError::new(code, message));
        }
    }
}
