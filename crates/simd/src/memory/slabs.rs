//! Buffers that are cut from larger ones, so that huge pages hold many of them.
//!
//! A slab is a buffer of some megabytes, cut into pieces of one size. It is made when a piece is wanted and none of that
//! size is free, and given back to the system with its last piece. One lock guards all of it: pieces are large and live
//! long.

use super::{Buffer, HUGE_PAGE_BYTES, Memory};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Larger buffers have pages of their own.
pub(super) const PIECE_BYTES_MAX: usize = HUGE_PAGE_BYTES / 2;
/// Pieces are whole pages.
const PAGE_BYTES: usize = super::ALIGNMENT;
/// Huge pages of a slab, at most.
const SLAB_PAGES_MAX: usize = 4;

/// A large buffer and which of its pieces are out.
struct Slab {
    /// Its bytes are never touched through this, only through the pieces.
    whole: Arc<Buffer>,
    /// Pieces that came back.
    free: Vec<usize>,
    /// Pieces that were handed out ever; the others are still zero.
    made: usize,
}

/// The slabs by the size of their pieces.
static SLABS: Mutex<BTreeMap<usize, Vec<Slab>>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<usize, Vec<Slab>>> {
    SLABS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a slab: few huge pages, of which no more than a sixteenth is left over, if there is such a number.
fn slab_bytes(piece_bytes: usize) -> usize {
    let fits = |bytes: &usize| bytes % piece_bytes <= bytes / 16;
    let sizes = (1..=SLAB_PAGES_MAX).map(|pages| pages * HUGE_PAGE_BYTES);
    sizes.clone().find(fits).unwrap_or(SLAB_PAGES_MAX * HUGE_PAGE_BYTES)
}

/// A buffer of `bytes` zero bytes, which are at least 1 and at most [`PIECE_BYTES_MAX`].
pub(super) fn cut(bytes: usize) -> Buffer {
    let piece_bytes = bytes.next_multiple_of(PAGE_BYTES);
    let (whole, index, is_used) = take(piece_bytes);
    // SAFETY: piece `index` is inside the slab.
    let start = unsafe { whole.start.add(index * piece_bytes) };
    let cut = Cut { whole, index, piece_bytes };
    let mut buffer = Buffer { start, bytes, memory: Some(Box::new(Memory::Cut(cut))) };
    if is_used {
        buffer.fill(0);
    }
    buffer
}

/// A slab, a piece of it that is free, and whether that was used before.
fn take(piece_bytes: usize) -> (Arc<Buffer>, usize, bool) {
    let mut slabs = lock();
    let slabs = slabs.entry(piece_bytes).or_default();
    let count = slab_bytes(piece_bytes) / piece_bytes;
    for slab in slabs.iter_mut() {
        if let Some(index) = slab.free.pop() {
            return (slab.whole.clone(), index, true);
        }
        if slab.made < count {
            slab.made += 1;
            return (slab.whole.clone(), slab.made - 1, false);
        }
    }
    let whole = Arc::new(Buffer::new(slab_bytes(piece_bytes)));
    slabs.push(Slab { whole: whole.clone(), free: Vec::new(), made: 1 });
    (whole, 0, false)
}

/// One piece while it is out: nothing else reads or writes its bytes. Goes back to its slab at the end.
pub(super) struct Cut {
    whole: Arc<Buffer>,
    index: usize,
    piece_bytes: usize,
}

impl Drop for Cut {
    fn drop(&mut self) {
        let mut slabs = lock();
        let Some(same) = slabs.get_mut(&self.piece_bytes) else { return };
        let Some(at) = same.iter().position(|slab| Arc::ptr_eq(&slab.whole, &self.whole)) else { return };
        same[at].free.push(self.index);
        if same[at].free.len() == same[at].made {
            // The memory goes with `self`, who is the last to hold it.
            same.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    /// Random buffers of a few sizes come and go: each is zero at first, and holds what was written into it alone.
    #[test]
    fn pieces_are_zeroed_and_not_shared() {
        let sizes = [1, 4096, 5000, 100_000, 300_000, PIECE_BYTES_MAX];
        // Miri reads byte by byte.
        let sizes = if cfg!(miri) { &sizes[..3] } else { &sizes[..] };
        let mut held: Vec<(Buffer, u8)> = Vec::new();
        let mut rng = Rng::new(5);
        for round in 0..rounds(3000) {
            if rng.one_in(4) && !held.is_empty() {
                let (buffer, byte) = held.swap_remove(rng.below(held.len()));
                assert!(buffer.iter().all(|have| *have == byte), "round {round}");
            } else if held.len() < 60 {
                let mut buffer = Buffer::cut(*rng.pick(sizes));
                assert!(buffer.iter().all(|have| *have == 0), "round {round}: zeroed");
                assert!(buffer.as_ptr().addr().is_multiple_of(PAGE_BYTES));
                buffer.fill(round as u8 | 1);
                held.push((buffer, round as u8 | 1));
            }
        }
        for (buffer, byte) in &held {
            assert!(buffer.iter().all(|have| have == byte));
        }
    }

    #[test]
    fn slabs_go_with_their_last_piece() {
        // A size that no other test has.
        let bytes = 77 * PAGE_BYTES;
        let slabs = || lock().get(&bytes).map_or(0, Vec::len);
        let count = slab_bytes(bytes) / bytes;
        assert!(count >= 6);
        let held: Vec<Buffer> = (0..=count).map(|_| Buffer::cut(bytes - 5)).collect();
        assert_eq!((held[0].len(), slabs()), (bytes - 5, 2));
        let clear_of_others =
            held.windows(2).all(|two| two[0].as_ptr().addr().abs_diff(two[1].as_ptr().addr()) >= bytes);
        assert!(clear_of_others);
        drop(held);
        assert_eq!(slabs(), 0);
        assert_eq!((Buffer::cut(0).len(), Buffer::cut(PIECE_BYTES_MAX + 1).len()), (0, PIECE_BYTES_MAX + 1));
    }

    #[test]
    fn slabs_waste_little() {
        for pages in 1..=PIECE_BYTES_MAX / PAGE_BYTES {
            let piece = pages * PAGE_BYTES;
            let slab = slab_bytes(piece);
            assert!(slab % piece <= slab / 8, "{piece}: {} of {slab}", slab % piece);
        }
    }
}
