//! The blocks of a message in pieces: read in place if 64 bytes are contiguous, otherwise copied into a small buffer,
//! with the padding at the end.

use super::Pieces;
use super::engine::{Blocks, block_count, bytes_of};

/// Bytes of a message that are copied at a time: most transactions are shorter. A multiple of 64; sixteen stages fit
/// easily into a first-level cache of 32 KiB.
pub(super) const STAGE_BYTES: usize = 512;

/// A piece with this many bytes left is read in place.
const DIRECT_BYTES_MIN: usize = STAGE_BYTES;

/// Additional space after the message's bytes: for the padding, and for bytes that a copy may write in excess.
pub(super) const SLACK_BYTES: usize = 128;

/// A few copied blocks.
#[repr(align(64))]
pub(super) struct Stage {
    bytes: [u8; STAGE_BYTES + SLACK_BYTES],
    count: usize,
}

impl Stage {
    pub(super) const fn new() -> Stage {
        Stage { bytes: [0; STAGE_BYTES + SLACK_BYTES], count: 0 }
    }

    /// Number of staged blocks.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The bytes of the staged blocks from `start` on.
    #[inline]
    pub(super) fn blocks(&self, start: usize) -> &[u8] {
        &self.bytes[start * 64..self.count * 64]
    }

    /// Finds or stages the blocks of `message` after those that are done, at least one. Returns whole blocks of the
    /// message itself, or `None` if they are staged. Not all of its blocks are done.
    ///
    /// `copy` copies its second argument to the start of the first, which has [`SLACK_BYTES`] more that it may
    /// overwrite.
    #[inline(always)]
    pub(super) fn fill<'a>(
        &mut self,
        message: &Pieces<'a>,
        Blocks { before, done }: Blocks,
        copy: impl Fn(&mut [u8], &[u8]),
    ) -> Option<&'a [u8]> {
        let start = done * 64;
        let bytes = bytes_of(message);
        let mut skip = start;
        let mut filled = 0;
        for piece in message {
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let rest = &piece[skip..];
            skip = 0;
            let mut take = rest.len().min(STAGE_BYTES - filled);
            if rest.len() >= DIRECT_BYTES_MIN {
                if filled == 0 {
                    return Some(&rest[..rest.len() / 64 * 64]);
                }
                // Only up to the next block; the rest is read in place.
                take = filled.next_multiple_of(64) - filled;
            }
            copy(&mut self.bytes[filled..filled + take + SLACK_BYTES], &rest[..take]);
            filled += take;
            if take < rest.len() {
                self.count = filled / 64;
                return None;
            }
        }
        self.pad(filled, before * 64 + bytes, start <= bytes);
        self.count = block_count(bytes) - done;
        None
    }

    /// Pads a message of `bytes` bytes whose last byte is at `filled`; `mark`: writes the first bit of the padding,
    /// which a previous block may already have.
    #[inline(always)]
    fn pad(&mut self, filled: usize, bytes: usize, mark: bool) {
        let tail: &mut [u8; SLACK_BYTES] =
            self.bytes[filled..].first_chunk_mut().expect("the stage has slack behind any byte");
        *tail = [0; SLACK_BYTES];
        let mut end = 64;
        if mark {
            tail[0] = 0x80;
            end = (filled + 9).next_multiple_of(64);
        }
        let bits = bytes as u64 * 8;
        self.bytes[end - 8..end].copy_from_slice(&bits.to_be_bytes());
    }
}

/// Copies `from` to the start of `to`, for [`Stage::fill`]: in pieces of fixed lengths, the last two of which overlap,
/// so that short copies need no call.
#[inline]
pub(super) fn copy_plain(to: &mut [u8], from: &[u8]) {
    match from.len() {
        64.. => copy_by::<64>(to, from),
        32.. => copy_by::<32>(to, from),
        16.. => copy_by::<16>(to, from),
        8.. => copy_by::<8>(to, from),
        4.. => copy_by::<4>(to, from),
        _ => to[..from.len()].copy_from_slice(from),
    }
}

/// Copies `from`, which has at least `B` bytes, to the start of `to`, `B` bytes at a time.
#[inline(always)]
fn copy_by<const B: usize>(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.as_chunks_mut::<B>().0.iter_mut().zip(from.as_chunks::<B>().0) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to[..from.len()].last_chunk_mut::<B>(), from.last_chunk::<B>()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    /// The padded message, byte by byte (FIPS 180-4, 5.1.1).
    fn padded(message: &Pieces<'_>) -> Vec<u8> {
        let mut bytes = message.concat();
        let bits = bytes.len() as u64 * 8;
        bytes.push(0x80);
        while bytes.len() % 64 != 56 {
            bytes.push(0);
        }
        bytes.extend(bits.to_be_bytes());
        bytes
    }

    #[test]
    fn stages_are_the_padded_message() {
        let mut rng = Rng::new(7);
        let mut stage = Stage::new();
        for round in 0..rounds(4000) {
            let most = [8, 70, 130, 700, 3000][round % 5];
            let lengths: [usize; 3] = std::array::from_fn(|_| rng.below(most));
            let pieces = lengths.map(|length| rng.bytes(length));
            let message = pieces.each_ref().map(|piece| &piece[..]);
            let want = padded(&message);
            let total = block_count(bytes_of(&message));
            assert_eq!(want.len(), total * 64, "{lengths:?}");
            // From any block on, as after a change of engines, and from there to the end.
            let mut done = rng.below(total);
            while done < total {
                let have = match stage.fill(&message, Blocks { before: 0, done }, copy_plain) {
                    None => stage.blocks(0),
                    Some(bytes) => bytes,
                };
                let count = have.len() / 64;
                assert!(count > 0 && done + count <= total, "{lengths:?} at {done}");
                assert_eq!(have, &want[done * 64..(done + count) * 64], "{lengths:?} at {done}");
                done += count;
            }
        }
    }

    #[test]
    fn length_counts_blocks_before_pieces() {
        let mut stage = Stage::new();
        for (before, bytes) in [(1, 0), (3, 55), (1 << 20, 56), (7, 130)] {
            let rest = vec![7; bytes];
            assert!(
                stage.fill(&[&rest, &[], &[]], Blocks { before, done: 0 }, copy_plain).is_none(),
                "{bytes} are staged"
            );
            let have = stage.blocks(0);
            assert_eq!(have.len(), block_count(bytes) * 64, "{bytes}");
            let bits = ((before * 64 + bytes) * 8) as u64;
            assert_eq!(have.last_chunk(), Some(&bits.to_be_bytes()), "{before} blocks and {bytes} bytes");
            assert_eq!(have[bytes], 0x80, "{bytes}");
        }
    }
}
