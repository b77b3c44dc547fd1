//! A payload for a peer, with space before and after it for the transport's framing: it is sent from the buffer that it
//! was read into, and the buffer is reused.
//!
//! Absent on purpose: the framing ([`crate::transport`]), and the contents of the payload.

use crate::budget::BufferPool;

/// Buffers from this size on are taken from the pool and returned to it. Such a buffer is at most twice as large as
/// its contents, so that twice the bounds of the send queues bound their memory.
pub(crate) const POOLED_BYTES_MIN: usize = 256 << 10;

/// Space after a payload, for the tag of a v2 packet.
pub(crate) const TAIL_BYTES: usize = 16;

/// A payload that is not sent yet.
#[derive(Debug, Default)]
pub struct Packet {
    bytes: Vec<u8>,
    head_bytes: usize,
    buffers: BufferPool,
}

impl Packet {
    /// An empty packet with space for the transport's framing before the payload ([`crate::transport::head_bytes`]).
    pub fn new(head_bytes: usize, buffers: BufferPool) -> Packet {
        Packet { bytes: Vec::new(), head_bytes, buffers }
    }

    /// Space for a payload of this size, with arbitrary contents: the caller must overwrite all of it. An earlier
    /// payload is lost.
    pub fn payload_mut(&mut self, bytes: usize) -> &mut [u8] {
        let all = self.head_bytes.saturating_add(bytes);
        let with_tail = all.saturating_add(TAIL_BYTES);
        let held = self.bytes.capacity();
        // A far too large buffer would wait in a send queue, which counts only its contents.
        if held < with_tail || held / 2 > with_tail.max(POOLED_BYTES_MIN / 2) {
            let bytes = match with_tail {
                POOLED_BYTES_MIN.. => self.buffers.take(with_tail),
                _ => Vec::with_capacity(with_tail),
            };
            let before = std::mem::replace(&mut self.bytes, bytes);
            if held >= POOLED_BYTES_MIN {
                self.buffers.give(before);
            }
        }
        self.bytes.resize(all, 0);
        &mut self.bytes[self.head_bytes..]
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.head_bytes..).unwrap_or_default()
    }

    /// Bytes before the payload.
    pub(crate) fn head_bytes(&self) -> usize {
        self.bytes.len() - self.payload().len()
    }

    /// The buffer, and the number of bytes in it before the payload.
    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.head_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_has_room_on_both_sides() {
        for head in [0, 5, 24] {
            let buffers = BufferPool::default();
            for bytes in [0, 1, 300, POOLED_BYTES_MIN, 3_000_000] {
                let mut packet = Packet::new(head, buffers.clone());
                packet.payload_mut(bytes + 5).fill(1);
                packet.payload_mut(bytes).fill(7);
                assert_eq!(packet.payload(), vec![7; bytes]);
                let (vector, before) = packet.into_parts();
                assert_eq!((before, vector.len()), (head, head + bytes));
                assert!(vector.capacity() >= head + bytes + TAIL_BYTES, "a tag does not move it");
                buffers.give(vector);
            }
        }
        assert_eq!(Packet::default().payload(), [0; 0]);
    }

    #[test]
    fn packet_of_a_small_payload_holds_no_large_vector() {
        let buffers = BufferPool::default();
        for bytes in [0, 1_000, 16_000, POOLED_BYTES_MIN, 1_000_000] {
            let mut packet = Packet::new(5, buffers.clone());
            packet.payload_mut(4_000_000).fill(1);
            packet.payload_mut(bytes).fill(7);
            assert_eq!(packet.payload(), vec![7; bytes]);
            let capacity = packet.into_parts().0.capacity();
            assert!(capacity <= 2 * (5 + bytes + TAIL_BYTES).max(POOLED_BYTES_MIN), "{capacity} for {bytes}");
        }
        assert!(buffers.take(4_000_000).capacity() >= 4_000_000, "the large one waits for a later payload");
    }

    #[test]
    fn packet_takes_a_vector_that_was_used_before() {
        let buffers = BufferPool::default();
        let mut first = Packet::new(5, buffers.clone());
        let place = first.payload_mut(1_000_000).as_ptr();
        buffers.give(first.into_parts().0);
        let mut second = Packet::new(5, buffers);
        assert_eq!(second.payload_mut(900_000).as_ptr(), place);
    }
}
