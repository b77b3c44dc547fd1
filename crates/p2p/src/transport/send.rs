//! The sending half of [`Transport`]: from messages to queued bytes.

use super::{Awaited, OUT_COUNT_KEPT, STAGING_BYTES, Transport};
use crate::packet::{POOLED_BYTES_MIN, Packet};
use crate::v2;
use crate::wire::{COMMAND_BYTES, Command, FRAME_BYTES, Frame, PAYLOAD_BYTES_MAX, frame_named, frame_v1};

/// Largest payload that the user may send: the length of a v2 packet has three bytes, and its contents begin with the
/// name.
const NAMED_BYTES_MAX: usize = (1 << 24) - 1 - (1 + COMMAND_BYTES);

impl Transport {
    /// Queues a message.
    ///
    /// # Panics
    ///
    /// On a payload beyond [`PAYLOAD_BYTES_MAX`].
    pub fn send(&mut self, command: Command, payload: &[u8]) {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "we send no oversized message");
        match (&self.state, &mut self.cipher) {
            (Awaited::V1, _) => {
                self.sent_by_type.add(command, FRAME_BYTES + payload.len());
                self.push(frame_v1(self.magic, command, payload));
            }
            (_, Some(cipher)) => {
                let mut out = Vec::with_capacity(payload.len() + 64);
                cipher.seal(&mut out, &[], false, |out| {
                    v2::put_message_type(out, command);
                    out.extend_from_slice(payload);
                });
                self.sent_by_type.add(command, out.len());
                self.push(out);
            }
            (_, None) => self.waiting.push((command, payload.to_vec())),
        }
    }

    /// Queues a message with any name, at most [`COMMAND_BYTES`] long, for the user. `false`: the name is too long,
    /// the payload does not fit in a packet, or the handshake of the transport is not finished. As in Core, a payload
    /// may be larger than a peer accepts.
    pub fn send_named(&mut self, name: &str, payload: &[u8]) -> bool {
        if name.len() > COMMAND_BYTES || payload.len() > NAMED_BYTES_MAX {
            return false;
        }
        let mut padded = [0; COMMAND_BYTES];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        let out = match (&self.state, &mut self.cipher) {
            (Awaited::V1, _) => frame_named(self.magic, padded, payload),
            (_, Some(cipher)) => {
                let mut out = Vec::with_capacity(payload.len() + 64);
                cipher.seal(&mut out, &[], false, |out| {
                    out.push(0);
                    out.extend_from_slice(&padded);
                    out.extend_from_slice(payload);
                });
                out
            }
            (_, None) => return false,
        };
        self.sent_by_type.add(Command::from_name(name.as_bytes()), out.len());
        self.push(out);
        true
    }

    /// Queues a message without a copy, from the buffer that its payload was read into, if `packet` was made for this
    /// transport.
    /// `checksum` is the payload's for v1, if known.
    ///
    /// # Panics
    ///
    /// On a payload beyond [`PAYLOAD_BYTES_MAX`].
    pub fn send_packet(&mut self, command: Command, packet: Packet, checksum: Option<[u8; 4]>) {
        let payload_bytes = packet.payload().len();
        assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "we send no oversized message");
        let out = match (&self.state, &mut self.cipher, v2::short_type(command)) {
            (Awaited::V1, ..) if packet.head_bytes() == FRAME_BYTES => {
                let checksum = checksum.unwrap_or_else(|| crate::wire::checksum(packet.payload()));
                let frame = Frame { command, payload_bytes, checksum };
                let (mut out, _) = packet.into_parts();
                out[..FRAME_BYTES].copy_from_slice(&frame.to_bytes(self.magic));
                out
            }
            (Awaited::Packets, Some(cipher), Some(id)) if packet.head_bytes() == v2::SHORT_HEAD_BYTES => {
                let (mut out, head_bytes) = packet.into_parts();
                out[head_bytes - 1] = id;
                cipher.seal_in_place(&mut out, 0, &[], false);
                out
            }
            _ => return self.send(command, packet.payload()),
        };
        self.sent_by_type.add(command, out.len());
        self.push(out);
    }

    pub(super) fn push(&mut self, bytes: Vec<u8>) {
        self.out_bytes += bytes.len();
        match self.out.back_mut() {
            // Small messages are sent together.
            Some(last) if last.len() + bytes.len() <= STAGING_BYTES => last.extend_from_slice(&bytes),
            _ if bytes.is_empty() => {}
            _ => self.out.push_back(bytes),
        }
    }

    /// Queues raw bytes: for simulated peers that break every rule.
    #[cfg(test)]
    pub(crate) fn push_raw(&mut self, bytes: Vec<u8>) {
        self.push(bytes);
    }

    /// Queues a v2 packet with any contents: for simulated peers that break every rule.
    #[cfg(test)]
    pub(crate) fn push_packet(&mut self, contents: &[u8], is_decoy: bool, is_damaged: bool) {
        let mut out = Vec::new();
        self.cipher().seal(&mut out, &[], is_decoy, |out| out.extend_from_slice(contents));
        if is_damaged {
            *out.last_mut().expect("a packet has a tag") ^= 1;
        }
        self.push(out);
    }

    /// The next bytes to send; empty if no bytes wait.
    pub fn to_send(&self) -> &[u8] {
        self.out.front().map_or(&[], |first| &first[self.sent..])
    }

    /// Records that `bytes` bytes of [`Transport::to_send`] were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        self.sent_bytes += bytes as u64;
        self.out_bytes -= bytes;
        if let Some(first) = self.out.pop_front_if(|first| first.len() == self.sent) {
            self.sent = 0;
            // A buffer of small messages is not reused for blocks.
            if first.len() > POOLED_BYTES_MIN {
                self.buffers.give(first);
            }
            // Frees the memory of a burst of answers.
            if self.out.is_empty() {
                self.out.shrink_to(OUT_COUNT_KEPT);
            }
        }
    }

    /// Bytes waiting to be sent.
    pub fn out_bytes(&self) -> usize {
        self.out_bytes
    }
}
