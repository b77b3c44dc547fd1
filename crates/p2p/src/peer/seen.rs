//! State of a connection, for reports.

use super::Peer;
use crate::stats::PeerStats;
use crate::time::Now;
use std::time::Duration;

impl Peer {
    /// The statistics of the connection, without those of the chain and the downloads.
    pub(crate) fn stats(&self, now: Now) -> PeerStats {
        let unix = |at: Duration| now.unix.saturating_sub(now.since_start.saturating_sub(at).as_secs());
        let info = self.info();
        let (received, sent) = self.transport.traffic();
        let received_bytes = self.transport.received_bytes();
        PeerStats {
            id: self.id,
            address: info.address,
            local: self.local,
            network: match &self.remote {
                _ if self.is_from_onion => "onion",
                Some(remote) => remote.address.network_name(),
                None => self.target.network_name(),
            },
            mapped_as: 0,
            services: info.services,
            last_send: self.sent_at.map_or(0, unix),
            last_receive: if received_bytes > 0 { unix(self.last_received) } else { 0 },
            last_block: 0,
            connected: unix(self.connected_at),
            sent_bytes: self.transport.sent_bytes(),
            received_bytes,
            time_offset: self.time_offset,
            ping: self.last_round_trip,
            ping_min: self.round_trip,
            ping_wait: self.ping.map(|(_, sent_at)| now.since_start.saturating_sub(sent_at)),
            version: info.version,
            agent: info.agent,
            inbound: info.inbound,
            presynced: None,
            synced_headers: None,
            synced_blocks: None,
            in_flight: Vec::new(),
            relays_addresses: false,
            addresses_processed: self.addresses_processed,
            addresses_limited: self.addresses_limited,
            permissions: self.permissions.names(),
            sent_by_type: sent.by_type(),
            received_by_type: received.by_type(),
            connection_type: self.kind.name(),
            transport: self.transport.name(),
            session_id: self.transport.session_id(),
            bytes_per_s: None,
            stalls: None,
        }
    }
}
