//! How many bytes of blocks the node holds: counted by guards that travel with the bytes. And memory that came back.
//! The network thread waits here for the node: for room, and for verdicts.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of vectors that wait to be used again, at most.
const BUFFER_BYTES_MAX: usize = 16 << 20;
/// New ones are as large as the next multiple of this, so that somewhat larger blocks fit, too.
const BUFFER_STEP_BYTES: usize = 512 << 10;

/// The counter behind every [`Reservation`], shared with the network thread.
#[derive(Default, Debug)]
pub struct InFlightBudget {
    held_bytes: AtomicUsize,
    /// Verdicts that the node has said.
    verdicts_said: AtomicUsize,
    /// Set by the network thread when it waits for the node: the next drop or verdict wakes it. In one order with `held_bytes`
    /// and `verdicts_said` (sequentially consistent): a drop sees that the thread waits, or the thread sees the drop's bytes
    /// afterwards.
    starved: AtomicBool,
    waker: OnceLock<Waker>,
    buffers: BufferPool,
}

/// Vectors of blocks that are done with, for the next ones: their pages are there already.
#[derive(Clone, Default, Debug)]
pub struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

impl BufferPool {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a vector back. What waits longest is freed when there is too much.
    pub fn give(&self, bytes: Vec<u8>) {
        let mut buffers = self.lock();
        buffers.push(bytes);
        while buffers.iter().map(Vec::capacity).sum::<usize>() > BUFFER_BYTES_MAX {
            buffers.remove(0);
        }
    }

    /// A vector of `bytes` bytes, whatever they are, in room for twice as many at most; the one that came back last, if
    /// one fits.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut buffers = self.lock();
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= bytes && buffer.capacity() / 2 <= bytes;
        let found = buffers.iter().rposition(fits).map(|at| buffers.remove(at));
        drop(buffers);
        // Zeros from the allocator cost nothing until they are written over.
        let mut found = found.unwrap_or_else(|| vec![0; bytes.next_multiple_of(BUFFER_STEP_BYTES)]);
        found.resize(bytes, 0);
        found
    }
}

impl InFlightBudget {
    /// Where vectors of blocks go when they are done with.
    pub(crate) fn buffers(&self) -> BufferPool {
        self.buffers.clone()
    }

    /// Bytes held at this moment.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::SeqCst)
    }

    /// The node has said a verdict, which is in the inbox of the network thread.
    pub(crate) fn verdict_said(&self) {
        self.verdicts_said.fetch_add(1, Ordering::SeqCst);
        self.wake_starved();
    }

    /// The network thread waits for the node, having seen `seen_bytes` held and heard `heard_verdicts`: the next drop or
    /// verdict wakes it, and one since then at once.
    pub(crate) fn wait_for_node(&self, seen_bytes: usize, heard_verdicts: usize) {
        self.starved.store(true, Ordering::SeqCst);
        if self.held_bytes() < seen_bytes || self.verdicts_said.load(Ordering::SeqCst) > heard_verdicts {
            self.wake_starved();
        }
    }

    /// The network thread does not wait for the node, or is gone.
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

    /// What wakes the network thread; set once.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Counts `bytes` until the guard is dropped.
    pub(crate) fn hold(self: &Arc<InFlightBudget>, bytes: usize) -> Reservation {
        self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        Reservation { bytes, budget: Some(Arc::clone(self)) }
    }
}

/// Room in the download window, free again when this is dropped. Keep it as long as the block's memory.
#[derive(Debug)]
#[must_use = "dropping it says that the block's memory is free"]
pub struct Reservation {
    bytes: usize,
    budget: Option<Arc<InFlightBudget>>,
}

impl Reservation {
    /// A guard of nothing, for blocks that came from elsewhere.
    pub fn none() -> Reservation {
        Reservation { bytes: 0, budget: None }
    }

    /// Where the vector of its block goes when it is done with.
    pub fn buffers(&self) -> BufferPool {
        self.budget.as_ref().map(|budget| budget.buffers()).unwrap_or_default()
    }

    /// How many bytes this guard stands for.
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

/// Wakes a thread that polls the other end of a socket pair. A thread that was woken and has not looked yet
/// is not woken again: many small orders cost one system call.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<(AtomicBool, UnixStream)>);

impl Waker {
    /// `stream` is one end of a non-blocking pair.
    pub(crate) fn new(stream: UnixStream) -> Waker {
        Waker(Arc::new((AtomicBool::new(false), stream)))
    }

    /// Wakes. A closed pipe means that the thread is gone, and then nothing is to be done.
    pub(crate) fn wake(&self) {
        let (woken, stream) = &*self.0;
        if !woken.swap(true, Ordering::AcqRel) {
            let _ = (&*stream).write(&[1]);
        }
    }

    /// The thread looks now: whatever is put into its inbox from here on wakes it again.
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
