//! Bytes of blocks held by the node, counted by guards that travel with the bytes; and a pool of returned buffers.
//! The network thread waits here for the node: for space in the window, and for verdicts.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum bytes of pooled buffers.
const BUFFER_BYTES_MAX: usize = 16 << 20;
/// New buffers are a multiple of this size, so that somewhat larger blocks fit, too.
const BUFFER_STEP_BYTES: usize = 512 << 10;

/// The counter behind every [`Reservation`], shared with the network thread.
#[derive(Default, Debug)]
pub struct InFlightBudget {
    held_bytes: AtomicUsize,
    /// Number of verdicts that the node has given.
    verdicts_said: AtomicUsize,
    /// Set by the network thread when it waits for the node: the next drop or verdict wakes it. Sequentially consistent
    /// with `held_bytes` and `verdicts_said`: either a drop sees that the thread waits, or the thread then sees the
    /// bytes that the drop released.
    starved: AtomicBool,
    waker: OnceLock<Waker>,
    buffers: BufferPool,
}

/// Used buffers of blocks, for the next blocks: their pages are already mapped.
#[derive(Clone, Default, Debug)]
pub struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

impl BufferPool {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a buffer to the pool. If the pool is too large, the oldest buffer is freed.
    pub fn give(&self, bytes: Vec<u8>) {
        let mut buffers = self.lock();
        buffers.push(bytes);
        while buffers.iter().map(Vec::capacity).sum::<usize>() > BUFFER_BYTES_MAX {
            buffers.remove(0);
        }
    }

    /// A buffer of `bytes` bytes with arbitrary contents and at most twice that capacity: the most recently returned
    /// one that fits, or a new one.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut buffers = self.lock();
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= bytes && buffer.capacity() / 2 <= bytes;
        let found = buffers.iter().rposition(fits).map(|at| buffers.remove(at));
        drop(buffers);
        // Zeros from the allocator cost nothing until they are overwritten.
        let mut found = found.unwrap_or_else(|| vec![0; bytes.next_multiple_of(BUFFER_STEP_BYTES)]);
        found.resize(bytes, 0);
        found
    }
}

impl InFlightBudget {
    /// The pool for used buffers of blocks.
    pub(crate) fn buffers(&self) -> BufferPool {
        self.buffers.clone()
    }

    /// Bytes currently held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::SeqCst)
    }

    /// Records that the node gave a verdict, which is in the inbox of the network thread.
    pub(crate) fn verdict_said(&self) {
        self.verdicts_said.fetch_add(1, Ordering::SeqCst);
        self.wake_starved();
    }

    /// Records that the network thread waits for the node, after it saw `seen_bytes` held and `heard_verdicts`
    /// verdicts: the next drop or verdict wakes it; if one has happened since, it wakes at once.
    pub(crate) fn wait_for_node(&self, seen_bytes: usize, heard_verdicts: usize) {
        self.starved.store(true, Ordering::SeqCst);
        if self.held_bytes() < seen_bytes || self.verdicts_said.load(Ordering::SeqCst) > heard_verdicts {
            self.wake_starved();
        }
    }

    /// Records that the network thread does not wait for the node, or has ended.
    pub(crate) fn wait_no_more(&self) {
        self.starved.store(false, Ordering::SeqCst);
    }

    fn wake_starved(&self) {
        if self.starved.swap(false, Ordering::SeqCst)
            && let Some(waker) = self.waker.get()
        {
            waker.wake();
        }
    }

    /// Sets the waker of the network thread; called once.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Counts `bytes` until the guard is dropped.
    pub(crate) fn hold(self: &Arc<InFlightBudget>, bytes: usize) -> Reservation {
        self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        Reservation { bytes, budget: Some(Arc::clone(self)) }
    }
}

/// Space in the download window, released on drop. Keep it as long as the block's memory.
#[derive(Debug)]
#[must_use = "dropping it says that the block's memory is free"]
pub struct Reservation {
    bytes: usize,
    budget: Option<Arc<InFlightBudget>>,
}

impl Reservation {
    /// An empty guard, for blocks from another source.
    pub fn none() -> Reservation {
        Reservation { bytes: 0, budget: None }
    }

    /// The pool for the block's buffer after use.
    pub fn buffers(&self) -> BufferPool {
        self.budget.as_ref().map(|budget| budget.buffers()).unwrap_or_default()
    }

    /// Number of bytes that this guard holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(budget) = &self.budget else { return };
        budget.held_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        budget.wake_starved();
    }
}

/// Wakes a thread that polls the other end of a socket pair. A thread that was woken and has not read its inbox yet
/// is not woken again: many small commands cost one system call.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<(AtomicBool, UnixStream)>);

impl Waker {
    /// `stream` is one end of a non-blocking pair.
    pub(crate) fn new(stream: UnixStream) -> Waker {
        Waker(Arc::new((AtomicBool::new(false), stream)))
    }

    /// Wakes the thread. A closed pipe means that the thread has ended; there is nothing to do then.
    pub(crate) fn wake(&self) {
        let (woken, stream) = &*self.0;
        if !woken.swap(true, Ordering::AcqRel) {
            let _ = (&*stream).write(&[1]);
        }
    }

    /// Records that the thread reads its inbox now: whatever is added afterwards wakes it again.
    pub(crate) fn looks(&self) {
        self.0.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn dropped_reservations_free_bytes_and_wake_once() {
        let budget = Arc::new(InFlightBudget::default());
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let waker = Waker::new(near);
        budget.set_waker(waker.clone());
        let (a, b) = (budget.hold(5), budget.hold(7));
        assert_eq!(budget.held_bytes(), 12);
        drop(a);
        assert_eq!(budget.held_bytes(), 7);
        assert!(far.read(&mut [0; 8]).is_err(), "no thread waited");
        budget.wait_for_node(7, 0);
        assert!(far.read(&mut [0; 8]).is_err(), "nothing was dropped since");
        drop(b);
        drop(budget.hold(1));
        assert_eq!(budget.held_bytes(), 0);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 1, "woken once");
        waker.looks();
        budget.wait_for_node(7, 0);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 1, "what was dropped before the wait wakes at once");
        assert_eq!(Reservation::none().bytes(), 0);
    }

    #[test]
    fn verdicts_wake_who_waits_for_the_node() {
        let budget = InFlightBudget::default();
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let waker = Waker::new(near);
        budget.set_waker(waker.clone());
        budget.verdict_said();
        assert!(far.read(&mut [0; 8]).is_err(), "no thread waited");
        budget.wait_for_node(0, 1);
        assert!(far.read(&mut [0; 8]).is_err(), "it was heard");
        budget.verdict_said();
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 1);
        waker.looks();
        budget.wait_for_node(0, 1);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 1, "what was said before the wait and not heard wakes at once");
    }

    #[test]
    fn buffer_pool_reuses_fitting_vectors() {
        let buffers = BufferPool::default();
        let place = |buffer: &Vec<u8>| (buffer.as_ptr(), buffer.capacity());
        assert_eq!((buffers.take(5).len(), buffers.take(5).capacity()), (5, BUFFER_STEP_BYTES));
        let (small, large) = (vec![1; 1000], vec![2; 3000]);
        let (small_place, large_place) = (place(&small), place(&large));
        buffers.give(large);
        buffers.give(small);
        assert_eq!(place(&buffers.take(1600)), large_place, "the small one is too small");
        assert_ne!(place(&buffers.take(400)), small_place, "it is more than twice as large");
        let again = buffers.take(1000);
        assert_eq!((place(&again), again.len()), (small_place, 1000));
        (0..40).for_each(|_| buffers.give(Vec::with_capacity(1 << 20)));
        assert_eq!(buffers.lock().len(), 16, "so much is kept");
    }
}
