//! Bytes to messages and back: the v1 and v2 transports of one connection, without a socket.
//!
//! Received bytes are put into a staging buffer of [`STAGING_BYTES`]. A larger payload is read from the socket into its
//! own buffer, which is then handed out, so the body of a block is not copied again. The capacity of a buffer is at
//! most the bytes received plus the greater of that number and [`STEP_BYTES`]. Exception: while a block of the peer is
//! in flight, the buffer is allocated in full, or a pooled one is used. A block for a peer is encrypted in and sent
//! from the buffer that it was read into (`Packet`); then the buffer is reused.
//!
//! The checksum of a v1 block is not computed: the receiver hashes its header, and detects a body that does not
//! match. Every other v1 payload is checked; v2 packets all are.

mod send;

use crate::budget::BufferPool;
use crate::packet::TAIL_BYTES;
use crate::rng::Rng;
use crate::stats::Traffic;
use crate::v2::{self, Cipher, Keys};
use crate::wire::{Command, FRAME_BYTES, Frame, WireError};
use std::collections::VecDeque;

/// Size of the staging buffer.
pub const STAGING_BYTES: usize = 64 << 10;

/// Initial capacity of a payload's buffer.
pub const STEP_BYTES: usize = 256 << 10;

/// Payloads from this size on use a pooled buffer, if there is one.
const BUFFER_BYTES_MIN: usize = 64 << 10;

/// Capacity of the send queue that is kept when it is empty.
const OUT_COUNT_KEPT: usize = 16;

/// First bytes of a v1 connection: magic, `version`, zeros. Source: BIP324.
const V1_PREFIX_BYTES: usize = 16;

const _: () = assert!(v2::TAG_BYTES <= TAIL_BYTES, "a packet has room for its tag");

/// Bytes of a message before its payload: a v1 frame, or the header of a v2 packet with a short message type.
pub const fn head_bytes(is_v2: bool) -> usize {
    if is_v2 { v2::SHORT_HEAD_BYTES } else { FRAME_BYTES }
}

/// A received message with an unparsed payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The command.
    pub command: Command,
    /// Holds the payload, from `start` on.
    pub bytes: Vec<u8>,
    /// Offset of the payload.
    pub start: usize,
    /// A v1 block's frame, whose checksum was not checked.
    pub unchecked: Option<Frame>,
}

impl Received {
    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// The next expected input.
enum Awaited {
    /// A v1 frame.
    V1,
    /// As responder: the first bytes, which tell v1 from v2.
    Detect(Box<Handshake>),
    /// The peer's key.
    Key(Box<Handshake>),
    /// The end of the peer's garbage.
    Garbage,
    /// The packet with ignored contents that ends the handshake.
    VersionPacket,
    /// Packets with messages.
    Packets,
}

struct Handshake {
    keys: Keys,
    garbage: Vec<u8>,
    initiator: bool,
}

/// An incomplete payload or packet.
struct Partial {
    /// The v1 frame; `None` for a v2 packet.
    frame: Option<Frame>,
    /// As long as the space allocated; the first `have_bytes` of it have arrived.
    bytes: Vec<u8>,
    have_bytes: usize,
    want_bytes: usize,
}

/// The transport of one connection.
pub struct Transport {
    magic: [u8; 4],
    state: Awaited,
    cipher: Option<Box<Cipher>>,
    /// The peer's garbage: authenticated by the first packet.
    aad: Vec<u8>,
    /// Empty until the first byte is to arrive.
    staging: Vec<u8>,
    /// Start of the received but unprocessed bytes in `staging`.
    used: usize,
    filled: usize,
    partial: Option<Partial>,
    /// v1: remaining bytes of a payload with an unknown command.
    skip_bytes: usize,
    /// Bytes of messages with unknown commands, and of decoys.
    unknown_bytes: u64,
    block_owed: bool,
    /// Pool for buffers of blocks.
    buffers: BufferPool,
    received_bytes: u64,
    sent_bytes: u64,
    received_by_type: Traffic,
    sent_by_type: Traffic,
    out: VecDeque<Vec<u8>>,
    /// Bytes of the first entry of `out` that are sent.
    sent: usize,
    out_bytes: usize,
    /// Messages that wait for the v2 handshake.
    waiting: Vec<(Command, Vec<u8>)>,
}

impl Transport {
    /// Plain v1.
    pub fn v1(magic: [u8; 4]) -> Transport {
        Transport::new(magic, Awaited::V1)
    }

    /// v2 as initiator: our key is sent at once.
    pub fn v2_initiator(magic: [u8; 4], rng: &mut Rng) -> Transport {
        let mut transport = Transport::new(magic, Awaited::V1);
        let handshake = Handshake::new(true, rng);
        transport.push(handshake.first_bytes());
        transport.state = Awaited::Key(Box::new(handshake));
        transport
    }

    /// As responder: v2, or v1 if the peer speaks it.
    pub fn responder(magic: [u8; 4], rng: &mut Rng) -> Transport {
        Transport::new(magic, Awaited::Detect(Box::new(Handshake::new(false, rng))))
    }

    fn new(magic: [u8; 4], state: Awaited) -> Transport {
        Transport {
            magic,
            state,
            cipher: None,
            aad: Vec::new(),
            staging: Vec::new(),
            used: 0,
            filled: 0,
            partial: None,
            skip_bytes: 0,
            unknown_bytes: 0,
            block_owed: false,
            buffers: BufferPool::default(),
            received_bytes: 0,
            sent_bytes: 0,
            received_by_type: Traffic::default(),
            sent_by_type: Traffic::default(),
            out: VecDeque::new(),
            sent: 0,
            out_bytes: 0,
            waiting: Vec::new(),
        }
    }

    /// Whether the connection is encrypted, and its handshake finished.
    pub fn is_v2(&self) -> bool {
        matches!(self.state, Awaited::Packets)
    }

    /// Whether this is an outbound v2 connection without any answer: if it is closed now, the peer may speak only v1.
    pub fn may_retry_v1(&self) -> bool {
        matches!(self.state, Awaited::Key(_)) && self.received_bytes == 0
    }

    /// Sets whether a block is in flight: its buffer is then allocated in full at once.
    pub fn set_block_owed(&mut self, owed: bool) {
        self.block_owed = owed;
    }

    /// Sets the pool for buffers of blocks.
    pub fn set_buffer_pool(&mut self, buffers: BufferPool) {
        self.buffers = buffers;
    }

    /// Bytes received.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Received bytes for which [`Transport::next`] returns nothing: messages with unknown commands, and decoys.
    pub fn unknown_bytes(&self) -> u64 {
        self.unknown_bytes
    }

    /// Bytes sent.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes of messages received and sent, by type.
    pub fn traffic(&self) -> (&Traffic, &Traffic) {
        (&self.received_by_type, &self.sent_by_type)
    }

    /// BIP324 session id, which both ends can compare; `None` before the handshake of v2 is finished.
    pub fn session_id(&self) -> Option<[u8; 32]> {
        self.cipher.as_ref().filter(|_| self.is_v2()).map(|cipher| *cipher.session_id())
    }

    /// Core's name of the transport. Source: Bitcoin Core b88bffe, `TransportTypeAsString`.
    pub fn name(&self) -> &'static str {
        match self.state {
            Awaited::V1 => "v1",
            Awaited::Packets => "v2",
            _ => "detecting",
        }
    }

    // Receiving.

    /// Buffer for the next bytes, to be filled from its start; never empty. Then call [`Transport::received`], and
    /// [`Transport::next`] until it returns `None`.
    pub fn space(&mut self) -> &mut [u8] {
        if let Some(partial) = &mut self.partial {
            return partial.space(self.block_owed);
        }
        // Less than a frame or the garbage of a handshake is left: the buffer is never full.
        self.staging.resize(STAGING_BYTES, 0);
        self.staging.copy_within(self.used..self.filled, 0);
        (self.used, self.filled) = (0, self.filled - self.used);
        &mut self.staging[self.filled..]
    }

    /// Bytes by which [`Transport::space`] will grow memory for an unsolicited message.
    pub fn growth(&self) -> usize {
        self.partial.as_ref().filter(|_| !self.block_owed).map_or(0, |partial| partial.growth(false))
    }

    /// Records that `bytes` bytes were put into [`Transport::space`].
    pub fn received(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        match &mut self.partial {
            Some(partial) => partial.have_bytes += bytes,
            None => self.filled += bytes,
        }
    }

    /// Accepts `bytes` as from a socket, for tests; returns how many. Then call [`Transport::next`] until it returns
    /// `None`.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let space = self.space();
        let taken = bytes.len().min(space.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        self.received(taken);
        taken
    }

    /// The next message, if it is complete.
    ///
    /// # Errors
    ///
    /// [`WireError`]: the connection cannot be used any more.
    #[expect(clippy::should_implement_trait, reason = "fallible, and not an iterator")]
    pub fn next(&mut self) -> Result<Option<Received>, WireError> {
        loop {
            let step = match self.state {
                Awaited::V1 => self.step_v1()?,
                Awaited::Detect(_) => self.step_detect(),
                Awaited::Key(_) => self.step_key()?,
                Awaited::Garbage => self.step_garbage()?,
                Awaited::VersionPacket | Awaited::Packets => self.step_packet()?,
            };
            match step {
                Step::Message(received) => return Ok(Some(received)),
                Step::Wait => return Ok(None),
                Step::Again => {}
            }
        }
    }

    fn staged(&self) -> &[u8] {
        &self.staging[self.used..self.filled]
    }

    fn step_v1(&mut self) -> Result<Step, WireError> {
        if self.skip_bytes > 0 {
            let skipped = self.skip_bytes.min(self.staged().len());
            self.used += skipped;
            self.skip_bytes -= skipped;
            self.unknown_bytes += skipped as u64;
            return Ok(if self.skip_bytes > 0 { Step::Wait } else { Step::Again });
        }
        if self.partial.is_none() {
            let Some(head) = self.staged().first_chunk::<FRAME_BYTES>() else { return Ok(Step::Wait) };
            let frame = Frame::parse(head, self.magic)?;
            self.used += FRAME_BYTES;
            self.received_by_type.add(frame.command, FRAME_BYTES + frame.payload_bytes);
            if frame.command == Command::Other {
                self.skip_bytes = frame.payload_bytes;
                self.unknown_bytes += FRAME_BYTES as u64;
                return Ok(Step::Again);
            }
            self.begin(Some(frame), frame.payload_bytes);
        }
        let Some(Partial { frame: Some(frame), bytes, .. }) = self.take_whole() else { return Ok(Step::Wait) };
        let is_block = frame.command == Command::Block;
        if !is_block {
            frame.check(&bytes)?;
        }
        Ok(Step::Message(Received { command: frame.command, bytes, start: 0, unchecked: is_block.then_some(frame) }))
    }

    /// Starts a payload with its staged part.
    fn begin(&mut self, frame: Option<Frame>, want_bytes: usize) {
        let have_bytes = self.staged().len().min(want_bytes);
        let mut bytes = match want_bytes {
            BUFFER_BYTES_MIN.. if self.block_owed => self.buffers.take(want_bytes),
            _ if self.block_owed => vec![0; want_bytes],
            _ => vec![0; want_bytes.min(have_bytes + STEP_BYTES)],
        };
        bytes[..have_bytes].copy_from_slice(&self.staged()[..have_bytes]);
        self.used += have_bytes;
        self.partial = Some(Partial { frame, bytes, have_bytes, want_bytes });
    }

    fn take_whole(&mut self) -> Option<Partial> {
        self.partial.take_if(|partial| partial.have_bytes == partial.want_bytes)
    }

    fn step_detect(&mut self) -> Step {
        let mut prefix = [0; V1_PREFIX_BYTES];
        prefix[..4].copy_from_slice(&self.magic);
        prefix[4..11].copy_from_slice(b"version");
        let have = self.staged().len().min(V1_PREFIX_BYTES);
        let is_v1 = self.staged()[..have] == prefix[..have];
        if is_v1 && have < V1_PREFIX_BYTES {
            return Step::Wait;
        }
        let Awaited::Detect(handshake) = std::mem::replace(&mut self.state, Awaited::V1) else {
            unreachable!("called in this state only")
        };
        if is_v1 {
            for (command, payload) in std::mem::take(&mut self.waiting) {
                self.send(command, &payload);
            }
        } else {
            self.push(handshake.first_bytes());
            self.state = Awaited::Key(handshake);
        }
        Step::Again
    }

    fn step_key(&mut self) -> Result<Step, WireError> {
        // The bytes of a v1 peer of another network would look like a key: report it. Source: Core's
        // `ProcessReceivedKeyBytes`.
        if let [m0, m1, m2, m3, b'v', b'e', b'r', b's', b'i', b'o', b'n', 0, 0, 0, 0, 0, ..] = *self.staged() {
            return Err(WireError::MagicOfV1 { want: self.magic, have: [m0, m1, m2, m3] });
        }
        let Some(theirs) = self.staged().first_chunk::<{ v2::KEY_BYTES }>() else {
            return Ok(Step::Wait);
        };
        let Awaited::Key(handshake) = &self.state else { unreachable!("called in this state only") };
        let mut cipher = handshake.keys.agree(theirs, handshake.initiator, self.magic);
        let mut bytes = cipher.send_terminator().to_vec();
        cipher.seal(&mut bytes, &handshake.garbage, false, |_| ());
        self.cipher = Some(Box::new(cipher));
        self.used += v2::KEY_BYTES;
        self.state = Awaited::Garbage;
        self.push(bytes);
        for (command, payload) in std::mem::take(&mut self.waiting) {
            self.send(command, &payload);
        }
        Ok(Step::Again)
    }

    fn step_garbage(&mut self) -> Result<Step, WireError> {
        let terminator = *self.cipher().recv_terminator();
        let staged = self.staged();
        let seen = &staged[..staged.len().min(v2::GARBAGE_BYTES_MAX + v2::TERMINATOR_BYTES)];
        let Some(at) = seen.windows(v2::TERMINATOR_BYTES).position(|window| window == terminator) else {
            let full = seen.len() == v2::GARBAGE_BYTES_MAX + v2::TERMINATOR_BYTES;
            return if full { Err(WireError::NoGarbageTerminator) } else { Ok(Step::Wait) };
        };
        self.aad = seen[..at].to_vec();
        self.used += at + v2::TERMINATOR_BYTES;
        self.state = Awaited::VersionPacket;
        Ok(Step::Again)
    }

    fn step_packet(&mut self) -> Result<Step, WireError> {
        if self.partial.is_none() {
            let Some(&length) = self.staged().first_chunk::<{ v2::LENGTH_BYTES }>() else {
                return Ok(Step::Wait);
            };
            let contents = self.cipher().open_length(length);
            if contents > v2::CONTENTS_BYTES_MAX {
                return Err(WireError::Oversized { bytes: contents });
            }
            self.used += v2::LENGTH_BYTES;
            self.begin(None, v2::HEADER_BYTES + contents + v2::TAG_BYTES);
        }
        let Some(Partial { mut bytes, .. }) = self.take_whole() else { return Ok(Step::Wait) };
        let aad = std::mem::take(&mut self.aad);
        let decoy = self.cipher().open(&mut bytes, &aad)?;
        let packet_bytes = v2::LENGTH_BYTES + bytes.len();
        if decoy {
            self.unknown_bytes += packet_bytes as u64;
            return Ok(Step::Again);
        }
        if matches!(self.state, Awaited::VersionPacket) {
            self.state = Awaited::Packets;
            return Ok(Step::Again);
        }
        bytes.truncate(bytes.len() - v2::TAG_BYTES);
        let (command, start) = v2::message_type(&bytes[v2::HEADER_BYTES..])?;
        self.received_by_type.add(command, v2::LENGTH_BYTES + bytes.len() + v2::TAG_BYTES);
        if command == Command::Other {
            self.unknown_bytes += packet_bytes as u64;
            return Ok(Step::Again);
        }
        Ok(Step::Message(Received { command, bytes, start: v2::HEADER_BYTES + start, unchecked: None }))
    }

    fn cipher(&mut self) -> &mut Cipher {
        self.cipher.as_mut().expect("these states follow the key exchange")
    }

    /// Bytes of an unfinished message; while a block is in flight, only those beyond `block_bytes`, which count in
    /// the window.
    pub fn unfinished_bytes(&self, block_bytes: usize) -> usize {
        let own = if self.block_owed { block_bytes } else { 0 };
        self.partial.as_ref().map_or(0, |partial| partial.bytes.len().saturating_sub(own))
    }
}

enum Step {
    Message(Received),
    /// The state changed.
    Again,
    /// More bytes are needed.
    Wait,
}

impl Handshake {
    fn new(initiator: bool, rng: &mut Rng) -> Handshake {
        let keys = loop {
            if let Some(keys) = Keys::new(rng.bytes(), rng.bytes()) {
                break keys;
            }
        };
        let mut garbage = vec![0; rng.below(v2::GARBAGE_BYTES_MAX + 1)];
        rng.fill(&mut garbage);
        Handshake { keys, garbage, initiator }
    }

    fn first_bytes(&self) -> Vec<u8> {
        [&self.keys.public()[..], &self.garbage].concat()
    }
}

impl Partial {
    /// Bytes by which the next call of `space` grows memory: 0 while there is space.
    fn growth(&self, in_full: bool) -> usize {
        if self.bytes.len() > self.have_bytes {
            return 0;
        }
        let want = self.want_bytes - self.have_bytes;
        if in_full { want } else { want.min(self.have_bytes.max(STEP_BYTES)) }
    }

    /// Space for at least one byte and at most the missing ones.
    fn space(&mut self, in_full: bool) -> &mut [u8] {
        let more = self.growth(in_full);
        if more > 0 {
            self.bytes.reserve_exact(more);
            self.bytes.resize(self.have_bytes + more, 0);
        }
        &mut self.bytes[self.have_bytes..]
    }
}

#[cfg(test)]
mod tests;
