//! Statistics of each connection, as plain values: for users and monitoring.

use crate::api::PeerId;
use primitives::Height;
use std::net::SocketAddr;
use std::time::Duration;

/// One connection. Times are seconds since 1970; 0: never.
///
/// Source: Bitcoin Core b88bffe, net.h, `CNodeStats`; net_processing.h, `CNodeStateStats`.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerStats {
    /// Its id.
    pub id: PeerId,
    /// Address of the peer, as text.
    pub address: String,
    /// Our end of the connection.
    pub local: Option<SocketAddr>,
    /// Core's name of its network.
    pub network: &'static str,
    /// The autonomous system of its address; 0 if unknown.
    pub mapped_as: u32,
    /// Services that it offers.
    pub services: u64,
    /// When bytes were last sent.
    pub last_send: u64,
    /// When bytes last arrived.
    pub last_receive: u64,
    /// When a requested block last arrived.
    pub last_block: u64,
    /// When the connection was made.
    pub connected: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// How far its clock is ahead of ours, in seconds.
    pub time_offset: i64,
    /// Time of the last ping.
    pub ping: Option<Duration>,
    /// Shortest time of a ping.
    pub ping_min: Option<Duration>,
    /// Age of the unanswered ping.
    pub ping_wait: Option<Duration>,
    /// Its protocol version; 0 before the handshake.
    pub version: u32,
    /// Its user agent, printable characters only.
    pub agent: String,
    /// Whether it connected to us.
    pub inbound: bool,
    /// Height that presync of its headers has reached.
    pub presynced: Option<Height>,
    /// Height of its last known header.
    pub synced_headers: Option<Height>,
    /// Height of the last block that its chain shares with ours.
    pub synced_blocks: Option<Height>,
    /// Heights of its blocks in flight.
    pub in_flight: Vec<Height>,
    /// Whether addresses are exchanged with it.
    pub relays_addresses: bool,
    /// Number of addresses processed.
    pub addresses_processed: u64,
    /// Number of addresses dropped by the rate limit.
    pub addresses_limited: u64,
    /// Core's names of its permissions.
    pub permissions: Vec<&'static str>,
    /// Bytes sent by message type, without zeros, by name.
    pub sent_by_type: Vec<(&'static str, u64)>,
    /// Bytes received by message type.
    pub received_by_type: Vec<(&'static str, u64)>,
    /// Core's name of the type of connection.
    pub connection_type: &'static str,
    /// `detecting`, `v1` or `v2`.
    pub transport: &'static str,
    /// BIP324 session id, which both ends can compare.
    pub session_id: Option<[u8; 32]>,
    /// Bytes of blocks a second, once measured.
    pub bytes_per_s: Option<f64>,
    /// Age of its request for the lowest missing block.
    pub stalls: Option<Duration>,
}

/// Bytes by message type.
#[derive(Clone, Debug, Default)]
pub struct Traffic([u64; TYPES]);

/// Number of message types with their own counter: those of [`crate::wire::Command`].
const TYPES: usize = 32;

impl Traffic {
    pub(crate) fn add(&mut self, command: crate::wire::Command, bytes: usize) {
        self.0[command as usize] += bytes as u64;
    }

    /// The counters that are not 0, by name.
    pub fn by_type(&self) -> Vec<(&'static str, u64)> {
        let all = crate::wire::Command::ALL.iter().chain([&crate::wire::Command::Other]);
        let mut out: Vec<_> = all.map(|&command| (command.name(), self.0[command as usize])).collect();
        out.retain(|(_, bytes)| *bytes > 0);
        out.sort_unstable();
        out
    }
}

const _: () = assert!(crate::wire::Command::Other as usize + 1 == TYPES, "one place for each type");
