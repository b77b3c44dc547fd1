//! One connection: handshake, liveness, and the messages that concern only the two ends of it.
//!
//! Input: bytes through [`Peer::transport`]. Output: [`Peer::next`] returns the messages for other parts ([`Input`]),
//! and bytes to send wait in the transport.
//!
//! Absent on purpose: headers and blocks, and the choice of peers ([`crate::hub`]).

mod handshake;
mod input;
mod pong;
mod seen;
#[cfg(test)]
mod testing;
mod unparsed;
mod wake;

pub use input::Input;
use unparsed::{is_dropped, of_unparsed};

use crate::address_bucket::{ADDRESS_TOKENS_MAX, AddressBucket};
use crate::api::{Config, HANDSHAKE_TIMEOUT, PeerId, PeerInfo};
use crate::journal::Journal;
use crate::permissions::Permissions;
use crate::pongs::Pongs;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use crate::transport::{Received, Transport};
use crate::utxo_sets::SetRequest;
use crate::wire::{Command, FRAME_BYTES, Inventory, Message, PeerAddress, Target, Version, services};
use std::net::SocketAddr;
use std::time::Duration;

/// Peers with an older protocol version are refused. Source: Bitcoin Core b88bffe, `MIN_PEER_PROTO_VERSION`.
pub const VERSION_MIN: u32 = 31_800;
/// A connection is ended if nothing arrives, or nothing can be sent, for this time. Source: `TIMEOUT_INTERVAL`.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Interval of pings. Source: `PING_INTERVAL`.
pub const PING_INTERVAL: Duration = Duration::from_secs(2 * 60);
/// While this many bytes wait to be sent, nothing more is read or dispatched. Source: `-maxsendbuffer`, 1000 kB.
pub const SEND_PAUSE_BYTES: usize = 1_000_000;
// A read for a peer returns at most as many bytes as may wait to be sent.
const _: () = assert!(crate::filter_request::READ_BYTES_MAX <= SEND_PAUSE_BYTES);

/// Type of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Inbound.
    Inbound,
    /// A peer from the address memory.
    Automatic,
    /// Named by `--connect` or `--addnode`: its index. Never replaced, only reconnected.
    Manual(usize),
    /// A peer from which addresses are fetched, then disconnected.
    AddressFetch,
    /// Block relay only, requested by the user: no addresses are exchanged.
    BlockRelay,
    /// To test whether a peer answers, requested by the user, then disconnected.
    Feeler,
}

impl Kind {
    /// Its name. Source: Bitcoin Core b88bffe, `ConnectionTypeAsString`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Inbound => "inbound",
            Kind::Automatic => "outbound-full-relay",
            Kind::Manual(_) => "manual",
            Kind::AddressFetch => "addr-fetch",
            Kind::BlockRelay => "block-relay-only",
            Kind::Feeler => "feeler",
        }
    }
}

/// Whether messages of a peer are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// They are read.
    Heard,
    /// They wait for an answer that the peer reads in pieces: a peer that reads nothing then counts as silent.
    Waits,
}

/// Our data in a `version` message.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// Services that we offer.
    pub services: u64,
    /// The whole user agent.
    pub agent: String,
    /// Height of our tip.
    pub height: i32,
    /// Whether UTXO sets are exchanged (BIP-0452).
    pub utxo_sets: bool,
}

/// One connection.
pub struct Peer {
    /// Its id.
    pub id: PeerId,
    /// Its type.
    pub kind: Kind,
    /// Address of the peer.
    pub target: Target,
    /// Bytes in and out.
    pub transport: Transport,
    /// The peer's version message, once it has arrived.
    version: Option<Version>,
    /// Whether the handshake is finished.
    ready: bool,
    /// Its permissions.
    permissions: Permissions,
    /// Handshake and inactivity timeout: `-peertimeout`.
    timeout: Duration,
    /// Its waiting pings.
    pub(crate) pongs: Pongs,
    pub(crate) journal: Journal,
    /// Whether the log line about its version includes its address.
    is_address_logged: bool,
    /// It connected through a Tor service, so its address is that of the service's local end.
    is_from_onion: bool,
    /// Whether new blocks are announced to it by headers.
    wants_headers: bool,
    /// Whether it accepts `addrv2`.
    wants_addrv2: bool,
    /// Whether it offered to exchange UTXO sets.
    speaks_utxo_sets: bool,
    /// Shortest round trip of a ping.
    round_trip: Option<Duration>,
    /// Our end of the connection.
    local: Option<SocketAddr>,
    /// Its end, unless a proxy looked its name up.
    remote: Option<PeerAddress>,
    /// Whether received messages wait for space in the send queue.
    has_undispatched: bool,
    nonce: u64,
    /// Another number than that of our version message, which the peer could answer before it received the ping.
    first_ping_nonce: u64,
    greeting: Greeting,
    connected_at: Duration,
    last_received: Duration,
    last_sent: Duration,
    last_ping: Duration,
    /// When bytes of ours were last accepted by the socket.
    sent_at: Option<Duration>,
    last_round_trip: Option<Duration>,
    time_offset: i64,
    addresses_processed: u64,
    addresses_limited: u64,
    ping: Option<(u64, Duration)>,
    /// After a suspension, until the ping is answered: when it was sent, or bytes last passed.
    awaited_since: Option<Duration>,
    bucket: AddressBucket,
    getaddr_answered: bool,
    /// Whether `sendheaders` was sent.
    asked_for_headers: bool,
    /// Bytes of complete messages that were not requested blocks.
    other_bytes: u64,
}

impl Peer {
    /// A new connection.
    pub fn new(
        id: PeerId,
        kind: Kind,
        target: Target,
        transport: Transport,
        greeting: Greeting,
        now: Now,
        rng: &mut Rng,
    ) -> Peer {
        let at = now.since_start;
        let remote = if let Target::Peer(remote) = &target { Some(*remote) } else { None };
        let mut peer = Peer {
            id,
            kind,
            target,
            transport,
            version: None,
            ready: false,
            permissions: Permissions::NONE,
            timeout: HANDSHAKE_TIMEOUT,
            pongs: Pongs::default(),
            journal: Journal::default(),
            is_address_logged: false,
            is_from_onion: false,
            wants_headers: false,
            wants_addrv2: false,
            speaks_utxo_sets: false,
            round_trip: None,
            local: None,
            remote,
            has_undispatched: false,
            nonce: rng.number(),
            first_ping_nonce: rng.number(),
            greeting,
            connected_at: at,
            last_received: at,
            last_sent: at,
            last_ping: at,
            sent_at: None,
            last_round_trip: None,
            time_offset: 0,
            addresses_processed: 0,
            addresses_limited: 0,
            ping: None,
            awaited_since: None,
            bucket: AddressBucket::new(at),
            getaddr_answered: false,
            asked_for_headers: false,
            other_bytes: 0,
        };
        if kind != Kind::Inbound {
            peer.send_version(now);
        }
        peer
    }

    /// Sets its permissions, and applies the settings.
    pub fn with_settings(mut self, permissions: Permissions, config: &Config) -> Peer {
        self.permissions = permissions;
        self.timeout = config.peer_timeout;
        self.journal = Journal::new(config.debug_net.is_some());
        self.is_address_logged = config.log_ips;
        self
    }

    /// Records that it connected through a socket for a Tor service.
    pub(crate) fn note_onion(&mut self) {
        self.is_from_onion = true;
    }

    /// Whether the handshake is finished.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// The peer's version message, once it has arrived.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Its permissions.
    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    /// Whether new blocks are announced to it by headers.
    pub fn wants_headers(&self) -> bool {
        self.wants_headers
    }

    /// Whether it accepts `addrv2`.
    pub fn wants_addrv2(&self) -> bool {
        self.wants_addrv2
    }

    /// Whether both ends exchange UTXO sets (BIP-0452).
    pub fn speaks_utxo_sets(&self) -> bool {
        self.greeting.utxo_sets && self.speaks_utxo_sets
    }

    /// Shortest round trip of a ping.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Our end of the connection, if it is known.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Sets our end of the connection.
    pub fn set_local(&mut self, local: Option<SocketAddr>) {
        self.local = local;
    }

    /// Its address, unless it has a name that a proxy looked up.
    pub(crate) fn remote(&self) -> Option<&PeerAddress> {
        self.remote.as_ref()
    }

    /// Sets the address that its name led to, and its permissions.
    pub(crate) fn set_remote(&mut self, remote: PeerAddress, permissions: Permissions) {
        (self.remote, self.permissions) = (Some(remote), permissions);
    }

    /// Whether received messages wait for space in the send queue.
    pub fn has_undispatched(&self) -> bool {
        self.has_undispatched
    }

    /// Sets whether received messages wait for space in the send queue.
    pub fn set_undispatched(&mut self, has_undispatched: bool) {
        self.has_undispatched = has_undispatched;
    }

    /// The nonce in our version message, which detects a connection to ourselves.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Whether it is exempt from punishment for misbehaviour.
    pub fn is_noban(&self) -> bool {
        self.permissions.has(Permissions::NOBAN)
    }

    /// Whether we made the connection.
    pub fn is_outbound(&self) -> bool {
        self.kind != Kind::Inbound
    }

    /// When the connection was made.
    pub fn connected_at(&self) -> Duration {
        self.connected_at
    }

    /// When bytes last arrived.
    pub fn last_received(&self) -> Duration {
        self.last_received
    }

    /// Services that the peer offers; none before its version message.
    pub fn services(&self) -> u64 {
        self.version.as_ref().map_or(0, |version| version.services)
    }

    /// Properties of the peer, for reports.
    pub fn info(&self) -> PeerInfo {
        let version = self.version.as_ref();
        let printable = |bytes: &[u8]| {
            bytes.iter().filter(|b| (0x20..0x7f).contains(*b)).map(|&b| char::from(b)).collect::<String>()
        };
        PeerInfo {
            address: self.target.to_string(),
            inbound: !self.is_outbound(),
            v2: self.transport.is_v2(),
            version: version.map_or(0, |v| v.version),
            services: self.services(),
            agent: version.map_or_else(String::new, |v| printable(&v.agent)),
            height: version.map_or(-1, |v| v.height),
        }
    }

    /// Queues a message.
    pub fn send(&mut self, message: &Message) {
        let (command, payload) = message.encode();
        self.journal.sending(command, payload.len(), self.id);
        self.transport.send(command, &payload);
    }

    /// Records that bytes arrived.
    pub fn note_received(&mut self, now: Now) {
        self.last_received = now.since_start;
    }

    /// Records that bytes of ours were accepted by the socket.
    pub fn note_sent(&mut self, now: Now) {
        self.last_sent = now.since_start;
        self.sent_at = Some(now.since_start);
    }

    /// The next input from the peer; `None` if more bytes are needed.
    ///
    /// `is_own_nonce` returns whether a nonce belongs to another connection of ours.
    ///
    /// # Errors
    ///
    /// The [`Reason`] for ending the connection.
    pub fn next(&mut self, now: Now, is_own_nonce: impl Fn(u64) -> bool) -> Result<Option<Input>, Reason> {
        let Some(received) = self.transport.next().map_err(Reason::Wire)? else { return Ok(None) };
        // One message at a time: there may be no space for the answer to the next.
        let input = self.dispatch(received, now, &is_own_nonce)?;
        Ok(Some(input.unwrap_or(Input::Answered)))
    }

    fn dispatch(
        &mut self,
        received: Received,
        now: Now,
        is_own_nonce: &impl Fn(u64) -> bool,
    ) -> Result<Option<Input>, Reason> {
        let command = received.command;
        let bytes = received.payload().len();
        self.journal.received(command, bytes, self.id);
        if command != Command::Block {
            self.note_other_bytes(bytes);
        } else {
            return Ok(self.ready.then_some(Input::Block(received)));
        }
        if command == Command::UtxoSet {
            return Ok(self.ready.then_some(Input::SetChunk(received)));
        }
        let message = match Message::parse(command, received.payload()) {
            Ok(message) => message,
            Err(why) if self.ready && is_dropped(command, &why) => {
                let name = command.name();
                self.journal.say(|| format!("ProcessMessages({name}, {bytes} bytes): Exception '{why}' caught"));
                return Ok(None);
            }
            Err(why) => return Err(of_unparsed(command, &why)),
        };
        if !self.ready {
            return self.shake_hands(command, message, now, is_own_nonce);
        }
        self.converse(message, bytes, now)
    }

    fn converse(&mut self, message: Message, bytes: usize, now: Now) -> Result<Option<Input>, Reason> {
        Ok(match message {
            Message::Ping(nonce) => nonce.map(Input::Ping),
            Message::Pong(nonce) => {
                self.on_pong(nonce, bytes, now);
                None
            }
            Message::Headers(headers) => Some(Input::Headers(headers)),
            Message::GetHeaders(locator, stop) => Some(Input::GetHeaders(locator, stop)),
            Message::GetBlocks(locator, stop) => Some(Input::GetBlocks(locator, stop)),
            Message::Inv(list) => Some(Input::Inv(list)),
            Message::NotFound(list) => Some(Input::NotFound(list)),
            // Source: Bitcoin Core b88bffe, `ProcessMessage`, where bloom filters are not offered.
            Message::OfBloom(command) => return Err(Reason::OfBloom(command.name())),
            Message::GetData(list) if list.iter().any(Inventory::is_filtered_block) => {
                return Err(Reason::OfBloom("filtered block request"));
            }
            Message::GetData(list) => self.take_blocks(list),
            Message::Addr(entries) | Message::AddrV2(entries) => Some(Input::Addresses(entries)),
            Message::GetAddr => self.take_get_addr(),
            Message::GetCFilters(range) => Some(Input::GetFilters(range)),
            Message::GetCFHeaders(range) => Some(Input::GetFilterHashes(range)),
            Message::GetCFCheckpt(kind, stop) => Some(Input::GetFilterCheckpoints(kind, stop)),
            // A peer that did not offer the feature gets no answer.
            Message::GetUtxoTree(_) | Message::GetUtxoSet(..) if !self.speaks_utxo_sets() => None,
            Message::GetUtxoTree(base) => Some(Input::GetSet(SetRequest::Tree(base))),
            Message::GetUtxoSet(base, index) => Some(Input::GetSet(SetRequest::Chunk(base, index))),
            Message::UtxoTree(base, tree) => Some(Input::SetTree(base, tree)),
            Message::SendHeaders => {
                self.wants_headers = true;
                None
            }
            Message::SendAddrV2 => return Err(Reason::OutOfTurn("sendaddrv2")),
            Message::Feature(_) => return Err(Reason::OutOfTurn("feature")),
            Message::Version(_) | Message::Verack => {
                let name = if message == Message::Verack { "ignoring redundant verack" } else { "redundant version" };
                let id = self.id;
                self.journal.say(|| format!("{name} message from peer={id}"));
                None
            }
            Message::Ignored => None,
        })
    }

    /// `getaddr` is answered once, and only for inbound peers.
    fn take_get_addr(&mut self) -> Option<Input> {
        let id = self.id;
        let kind = self.kind.name();
        if self.is_outbound() {
            self.journal.say(|| format!("Ignoring \"getaddr\" from {kind} connection. peer={id}"));
            return None;
        }
        if std::mem::replace(&mut self.getaddr_answered, true) {
            self.journal.say(|| format!("Ignoring repeated \"getaddr\". peer={id}"));
            return None;
        }
        Some(Input::GetAddr)
    }

    /// How many of `count` addresses may be processed now.
    pub(crate) fn take_addresses(&mut self, count: usize, now: Now) -> usize {
        let has_room = self.permissions.has(Permissions::ADDR);
        let taken = self.bucket.take(count, now.since_start);
        if has_room { count } else { taken }
    }

    /// Records the results of an address message.
    pub(crate) fn note_addresses(&mut self, count: usize, taken: usize, processed: u64) {
        self.addresses_processed += processed;
        let limited = (count - taken) as u64;
        self.addresses_limited += limited;
        let id = self.id;
        self.journal.say(|| {
            format!("Received addr: {count} addresses ({processed} processed, {limited} rate-limited) from peer={id}")
        });
    }

    /// BIP155 number of its network: Tor's for a peer that connected through a Tor service; 0 if it is not routable.
    pub(crate) fn network(&self) -> u8 {
        match &self.remote {
            _ if self.is_from_onion => 4,
            Some(remote) if remote.address.is_routable() => remote.address.network(),
            _ => 0,
        }
    }

    /// The requested blocks; we have no transactions or other inventory.
    fn take_blocks(&mut self, list: Vec<Inventory>) -> Option<Input> {
        let (blocks, others): (Vec<_>, Vec<_>) = list.into_iter().partition(|entry| entry.block().is_some());
        if !others.is_empty() {
            self.send(&Message::NotFound(others));
        }
        (!blocks.is_empty()).then_some(Input::GetData(blocks))
    }

    /// Sends `sendheaders`, once. Core sends it to a peer whose chain has minimum work.
    pub fn ask_for_headers(&mut self) {
        if !std::mem::replace(&mut self.asked_for_headers, true) {
            self.send(&Message::SendHeaders);
        }
    }

    /// Records a message of `payload_bytes` bytes that was not a requested block.
    pub fn note_other_bytes(&mut self, payload_bytes: usize) {
        self.other_bytes += (payload_bytes + FRAME_BYTES) as u64;
    }

    /// Received bytes that may belong to blocks: a message counts while it arrives, and is subtracted if it was
    /// something else.
    pub fn block_bytes(&self) -> u64 {
        self.transport.received_bytes().saturating_sub(self.other_bytes + self.transport.unknown_bytes())
    }

    /// Sends `getaddr`, and adds tokens for the answer. Source: Core's handling of `version`.
    pub fn ask_addresses(&mut self) {
        self.bucket.add(ADDRESS_TOKENS_MAX);
        self.send(&Message::GetAddr);
    }

    /// On a tick: sends pings, and checks timeouts.
    ///
    /// # Errors
    ///
    /// The [`Reason`] for ending the connection.
    pub fn tick(&mut self, hearing: Hearing, now: Now, rng: &mut Rng) -> Result<(), Reason> {
        let at = now.since_start;
        if !self.ready {
            let late = at.saturating_sub(self.connected_at) > self.timeout;
            let has_received = self.transport.received_bytes() > 0;
            let has_sent = self.transport.sent_bytes() > 0;
            return match self.transport.name() {
                _ if !late => Ok(()),
                _ if !has_received || !has_sent => {
                    Err(Reason::NeverSpoke { time: self.timeout, has_received, has_sent })
                }
                "detecting" => Err(Reason::V2HandshakeTimeout),
                _ => Err(Reason::HandshakeTimeout),
            };
        }
        let is_heard = hearing == Hearing::Heard;
        // Source: Bitcoin Core b88bffe, `ShouldRunInactivityChecks`.
        if at.saturating_sub(self.connected_at) <= self.timeout {
            self.ping_if_due(now, rng);
            return Ok(());
        }
        if is_heard && at.saturating_sub(self.last_received) > SILENCE_TIMEOUT {
            return Err(Reason::Silent(SILENCE_TIMEOUT));
        }
        if self.transport.out_bytes() > 0 {
            if at.saturating_sub(self.last_sent) > SILENCE_TIMEOUT {
                return Err(Reason::SendTimeout(SILENCE_TIMEOUT));
            }
        } else {
            self.last_sent = at;
        }
        match self.ping {
            Some((_, sent_at)) if is_heard && at.saturating_sub(sent_at) > SILENCE_TIMEOUT => {
                Err(Reason::PingTimeout(at.saturating_sub(sent_at)))
            }
            _ => {
                self.ping_if_due(now, rng);
                Ok(())
            }
        }
    }

    /// Whether it follows another chain: it is not a source of headers or blocks.
    pub fn is_of_other_chain(&self) -> bool {
        self.services() & services::OTHER_CHAIN != 0
    }

    /// Whether it serves whole blocks with witnesses, all of them or the last ones.
    pub fn serves_blocks(&self) -> bool {
        let offered = self.services();
        !self.is_of_other_chain()
            && offered & services::WITNESS != 0
            && offered & (services::NETWORK | services::NETWORK_LIMITED) != 0
    }

    /// Whether it serves only its last 288 blocks.
    pub fn is_limited(&self) -> bool {
        self.services() & services::NETWORK == 0
    }
}
