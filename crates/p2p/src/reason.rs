//! Why a connection ends: every reason has a name, and [`Reason::is_offence`] is true if the peer misbehaved.

use crate::wire::{WireError, limits, services};
use primitives::BlockHash;
use std::fmt;
use std::time::Duration;

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The peer closed it.
    Closed,
    /// The socket failed, or the connection could not be made.
    Io(String),
    /// This node shuts down.
    Stopping,
    /// The user disconnected it.
    Asked,
    /// The user banned its address.
    Banned,
    /// The handshake was not finished within this time.
    HandshakeTimeout,
    /// Its transport was not detected within this time.
    V2HandshakeTimeout,
    /// Within this time it sent nothing at all, or we sent nothing.
    NeverSpoke {
        /// The limit.
        time: Duration,
        /// Whether bytes arrived.
        has_received: bool,
        /// Whether bytes were sent.
        has_sent: bool,
    },
    /// Nothing arrived for this time.
    Silent(Duration),
    /// A ping was not answered for this time.
    PingTimeout(Duration),
    /// The peer's receive window stayed closed for this time.
    SendTimeout(Duration),
    /// Slowest reader while send memory is full.
    TakesLeast {
        /// Bytes that it read.
        bytes: u64,
        /// Interval.
        time: Duration,
    },
    /// The nonce of its version message is our own.
    SelfConnection,
    /// Its protocol version is too old.
    ObsoleteVersion(u32),
    /// It lacks services that an automatic peer must offer.
    MissingServices {
        /// Those that it offers.
        offered: u64,
        /// The services that it must offer.
        expected: u64,
    },
    /// It sent the requested addresses; the connection was made only for that.
    AddressesFetched,
    /// It answered; the connection was made only to test that.
    FeelerDone,
    /// Its complete header chain has less than minimum work.
    LittleWork,
    /// Its chain stays behind ours.
    Lagging,
    /// It was asked for headers and did not continue.
    HeadersStalled,
    /// It stalled the download window for this time.
    BlockStalled(Duration),
    /// A requested block did not arrive in time.
    BlockTimeout(BlockHash),
    /// Much slower than the median of others.
    Slow {
        /// Its rate.
        bytes_per_s: u64,
        /// The median of the other automatic peers.
        median_bytes_per_s: u64,
    },
    /// It requested a block that our services do not include.
    BeyondOffer(BlockHash),
    /// It requested an old block, and the day's upload is reserved for new ones (`-maxuploadtarget`).
    UploadLimit,
    /// It requested filters of a type that we do not offer.
    FilterType(u8),
    /// It requested filters up to a block that is unknown, or must not be served.
    FilterStop(BlockHash),
    /// It requested filters from a height above that of the last block.
    FilterRange {
        /// The first height.
        start: u32,
        /// The last block's.
        stop: u32,
    },
    /// It requested too many filters, or filter hashes, at once.
    FilterCount {
        /// The number.
        count: u32,
        /// The maximum.
        max: u32,
    },
    /// It sent a request that needs bloom filters, which we do not offer.
    OfBloom(&'static str),
    /// Its `feature` message is not well-formed.
    Feature,
    /// It sent a `feature` message, which the common protocol version does not have.
    FeatureVersion(u32),
    /// A message out of order in the handshake.
    OutOfTurn(&'static str),
    /// A request with too many hashes in its locator.
    LongLocator {
        /// The command.
        command: &'static str,
        /// The number of hashes.
        count: usize,
    },
    /// A surplus connection, made to learn of a better tip.
    Extra,
    /// Its inbound slot went to another peer.
    Evicted,
    /// Its unfinished message took this many bytes when memory for them was short.
    Unfinished(usize),
    /// It is on a chain with an invalid block.
    OnInvalidChain(BlockHash),

    // The following reasons are offences.
    /// Bytes that are not a message.
    Wire(WireError),
    /// A message that does not match its command.
    BadMessage {
        /// The command.
        command: &'static str,
        /// The error.
        why: String,
    },
    /// Headers that are not one chain.
    HeadersNotContinuous,
    /// A header without proof of work.
    HeaderWork,
    /// A header that a rule refuses.
    HeaderInvalid {
        /// The header's hash.
        hash: BlockHash,
        /// Core's reject string.
        reason: String,
    },
    /// Too many unconnecting headers.
    HeadersUnconnected,
    /// Repeated full headers messages without more work.
    HeadersRepeated,
    /// A body that does not match its header, or that CheckBlock refuses.
    BadBody {
        /// The block.
        hash: BlockHash,
        /// The error.
        reason: String,
    },
    /// A permanently invalid block.
    InvalidBlock {
        /// The block.
        hash: BlockHash,
        /// Core's reject string.
        reason: String,
    },
    /// Too many unsolicited blocks with unknown headers.
    UnaskedBlocks,
    /// A UTXO set, or a chunk of one, that is not the requested one.
    BadUtxoSet(&'static str),
}

impl Reason {
    /// An unrequested tree or chunk of a UTXO set.
    pub(crate) const UNASKED_UTXO_SET: Reason = Reason::BadUtxoSet("a part of a UTXO set that was not asked for");

    /// Whether it was disconnected because requested data did not arrive in time.
    pub fn is_stall(&self) -> bool {
        matches!(self, Reason::BlockStalled(_) | Reason::BlockTimeout(_) | Reason::HeadersStalled | Reason::Slow { .. })
    }

    /// Whether the peer misbehaved: its address is discouraged for a day.
    pub fn is_offence(&self) -> bool {
        matches!(
            self,
            Reason::Wire(_)
                | Reason::BadMessage { .. }
                | Reason::HeadersNotContinuous
                | Reason::HeaderWork
                | Reason::HeaderInvalid { .. }
                | Reason::HeadersUnconnected
                | Reason::HeadersRepeated
                | Reason::BadBody { .. }
                | Reason::InvalidBlock { .. }
                | Reason::UnaskedBlocks
                | Reason::BadUtxoSet(_)
        )
    }
}

impl Reason {
    /// Whether a peer with the permission `noban` stays connected despite this reason: it misbehaved, but its next
    /// message can be read.
    /// Source: Bitcoin Core b88bffe, `MaybeDiscourageAndDisconnect`.
    pub fn is_forgivable(&self) -> bool {
        let is_offence = self.is_offence() || matches!(self, Reason::OnInvalidChain(_));
        is_offence && !matches!(self, Reason::Wire(_))
    }
}

impl Reason {
    /// The text of a reason without fault.
    fn plain(&self) -> &'static str {
        match self {
            Reason::Stopping => "shutting down",
            Reason::Asked => "disconnected on request",
            Reason::Banned => "banned on request",
            Reason::Extra => "extra connection, no longer needed",
            _ => "closed by the peer",
        }
    }
}

impl Reason {
    /// Writes why a request of the peer was refused.
    fn fmt_request(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::BeyondOffer(hash) => write!(f, "asked for block {hash}, which we do not offer"),
            Reason::UploadLimit => {
                write!(f, "asked for an old block, and the upload of the day (-maxuploadtarget) is for new ones")
            }
            Reason::FilterType(kind) => write!(f, "asked for filters of type {kind}, which we do not offer"),
            Reason::FilterStop(hash) => write!(f, "asked for filters up to block {hash}, which we do not show"),
            Reason::FilterRange { start, stop } => {
                write!(f, "asked for filters from height {start} up to height {stop}")
            }
            Reason::FilterCount { count, max } => {
                write!(f, "asked for {count} filters or filter hashes at once, at most {max}")
            }
            Reason::OfBloom(what) => write!(f, "{what} received, and bloom filters are not offered"),
            Reason::LongLocator { command, count } => {
                let max = limits::LOCATOR_COUNT_MAX;
                write!(f, "{command} message with a locator of {count} hashes, at most {max}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Io(why) => write!(f, "{why}"),
            Reason::Closed | Reason::Stopping | Reason::Asked | Reason::Banned | Reason::Extra => {
                f.write_str(self.plain())
            }
            Reason::HandshakeTimeout => write!(f, "handshake not done in time"),
            Reason::V2HandshakeTimeout => write!(f, "v2 handshake not done in time"),
            Reason::NeverSpoke { time, .. } => {
                write!(f, "handshake not done in time: no message for {} s", time.as_secs())
            }
            Reason::Silent(time) => write!(f, "silent for {} s", time.as_secs()),
            Reason::PingTimeout(time) => write!(f, "ping unanswered for {} s", time.as_secs()),
            Reason::SendTimeout(time) => write!(f, "took no bytes for {} s", time.as_secs()),
            Reason::TakesLeast { bytes, time } => {
                let time = time.as_secs();
                write!(f, "took {bytes} bytes in {time} s, the least of all peers, as memory for answers is short")
            }
            Reason::SelfConnection => write!(f, "connected to ourselves"),
            Reason::ObsoleteVersion(version) => write!(f, "obsolete protocol version {version}"),
            Reason::MissingServices { offered, .. } if offered & services::OTHER_CHAIN != 0 => {
                write!(f, "follows another chain (service bit 28, as Knots 29.4.1): offers {offered:#x}")
            }
            Reason::MissingServices { offered, expected } => {
                write!(f, "lacks services: offers {offered:#x}, expected {expected:#x}")
            }
            Reason::AddressesFetched => write!(f, "addresses fetched"),
            Reason::FeelerDone => write!(f, "feeler connection completed"),
            Reason::LittleWork => write!(f, "header chain has less than minimum work"),
            Reason::Lagging => write!(f, "its chain stays behind ours"),
            Reason::HeadersStalled => write!(f, "stalls header sync"),
            Reason::BlockStalled(time) => write!(f, "stalls block download for {} s", time.as_secs()),
            Reason::BlockTimeout(hash) => write!(f, "block {hash} did not come in time"),
            Reason::Slow { bytes_per_s, median_bytes_per_s } => {
                write!(f, "slow: {bytes_per_s} bytes/s where the others' median is {median_bytes_per_s}")
            }
            Reason::BeyondOffer(_)
            | Reason::UploadLimit
            | Reason::FilterType(_)
            | Reason::FilterStop(_)
            | Reason::FilterRange { .. }
            | Reason::FilterCount { .. }
            | Reason::OfBloom(_)
            | Reason::LongLocator { .. } => self.fmt_request(f),
            Reason::Feature => write!(f, "its feature message is not well-formed"),
            Reason::FeatureVersion(version) => write!(f, "feature message, unknown in version {version}"),
            Reason::OutOfTurn(command) => write!(f, "{command} message out of turn"),
            Reason::Unfinished(bytes) => {
                write!(f, "{bytes} bytes of an unfinished message while memory for them is short")
            }
            Reason::Evicted => write!(f, "evicted for another inbound peer"),
            Reason::OnInvalidChain(hash) => write!(f, "its chain has refused block {hash}"),
            Reason::Wire(error) => write!(f, "misbehaving: {error}"),
            Reason::BadMessage { command, why } => write!(f, "misbehaving: {command} message: {why}"),
            Reason::HeadersNotContinuous => write!(f, "misbehaving: headers are not one chain"),
            Reason::HeaderWork => write!(f, "misbehaving: header without proof of work"),
            Reason::HeaderInvalid { hash, reason } => write!(f, "misbehaving: header {hash}: {reason}"),
            Reason::HeadersUnconnected => write!(f, "misbehaving: too many unconnecting headers"),
            Reason::HeadersRepeated => write!(f, "misbehaving: repeats headers without more work"),
            Reason::BadBody { hash, reason } => write!(f, "misbehaving: body of block {hash}: {reason}"),
            Reason::InvalidBlock { hash, reason } => write!(f, "misbehaving: invalid block {hash}: {reason}"),
            Reason::UnaskedBlocks => write!(f, "misbehaving: unrequested blocks on unknown headers"),
            Reason::BadUtxoSet(what) => write!(f, "misbehaving: sent {what}"),
        }
    }
}
