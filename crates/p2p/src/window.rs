//! How many bytes of blocks the node holds: counted by guards that travel with the bytes. And memory that came back.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of vectors that wait to be used again, at most.
const SPARE_BYTES_MAX: usize = 16 << 20;
/// New ones are as large as the next multiple of this, so that somewhat larger blocks fit, too.
const SPARE_STEP_BYTES: usize = 512 << 10;

/// The counter behind every [`Held`], shared with the network thread.
#[derive(Default, Debug)]
pub struct Window {
    held_bytes: AtomicUsize,
    /// Set by the network thread when it waits for room: the next drop wakes it.
    starved: AtomicBool,
    waker: OnceLock<Waker>,
    spares: Spares,
}

/// Vectors of blocks that are done with, for the next ones: their pages are there already.
#[derive(Clone, Default, Debug)]
pub struct Spares(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spares {
    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a vector back. What waits longest is freed when there is too much.
    pub fn give(&self, bytes: Vec<u8>) {
        let mut spares = self.lock();
        spares.push(bytes);
        while spares.iter().map(Vec::capacity).sum::<usize>() > SPARE_BYTES_MAX {
            spares.remove(0);
        }
    }

    /// A vector of `bytes` bytes, whatever they are, in room for twice as many at most; the one that came back last, if
    /// one fits.
    pub(crate) fn take(&self, bytes: usize) -> Vec<u8> {
        let mut spares = self.lock();
        let fits = |spare: &Vec<u8>| spare.capacity() >= bytes && spare.capacity() / 2 <= bytes;
        let found = spares.iter().rposition(fits).map(|at| spares.remove(at));
        drop(spares);
        // Zeros from the allocator cost nothing until they are written over.
        let mut found = found.unwrap_or_else(|| vec![0; bytes.next_multiple_of(SPARE_STEP_BYTES)]);
        found.resize(bytes, 0);
        found
    }
}

impl Window {
    /// Where vectors of blocks go when they are done with.
    pub(crate) fn spares(&self) -> Spares {
        self.spares.clone()
    }

    /// Bytes held at this moment.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Acquire)
    }

    /// Says whether the network thread waits for room.
    pub(crate) fn set_starved(&self, starved: bool) {
        self.starved.store(starved, Ordering::Release);
    }

    /// What wakes the network thread; set once.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Counts `bytes` until the guard is dropped.
    pub(crate) fn hold(self: &Arc<Window>, bytes: usize) -> Held {
        self.held_bytes.fetch_add(bytes, Ordering::AcqRel);
        Held { bytes, window: Some(Arc::clone(self)) }
    }
}

/// Room in the download window, free again when this is dropped. Keep it as long as the block's memory.
#[derive(Debug)]
#[must_use = "dropping it says that the block's memory is free"]
pub struct Held {
    bytes: usize,
    window: Option<Arc<Window>>,
}

impl Held {
    /// A guard of nothing, for blocks that came from elsewhere.
    pub fn none() -> Held {
        Held { bytes: 0, window: None }
    }

    /// Where the vector of its block goes when it is done with.
    pub fn spares(&self) -> Spares {
        self.window.as_ref().map(|window| window.spares()).unwrap_or_default()
    }

    /// How many bytes this guard stands for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(window) = &self.window else { return };
        window.held_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if window.starved.swap(false, Ordering::AcqRel)
            && let Some(waker) = window.waker.get()
        {
            waker.wake();
        }
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
    fn drops_free_room_and_wake_once() {
        let window = Arc::new(Window::default());
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        window.set_waker(Waker::new(near));
        let (a, b) = (window.hold(5), window.hold(7));
        assert_eq!(window.held_bytes(), 12);
        drop(a);
        assert_eq!(window.held_bytes(), 7);
        assert!(far.read(&mut [0; 8]).is_err(), "nobody waited");
        window.set_starved(true);
        drop(b);
        drop(window.hold(1));
        assert_eq!(window.held_bytes(), 0);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 1, "woken once");
        assert_eq!(Held::none().bytes(), 0);
    }

    #[test]
    fn vectors_come_back() {
        let spares = Spares::default();
        let place = |spare: &Vec<u8>| (spare.as_ptr(), spare.capacity());
        assert_eq!((spares.take(5).len(), spares.take(5).capacity()), (5, SPARE_STEP_BYTES));
        let (small, large) = (vec![1; 1000], vec![2; 3000]);
        let (small_place, large_place) = (place(&small), place(&large));
        spares.give(large);
        spares.give(small);
        assert_eq!(place(&spares.take(1600)), large_place, "the small one is too small");
        assert_ne!(place(&spares.take(400)), small_place, "it is more than twice as large");
        let again = spares.take(1000);
        assert_eq!((place(&again), again.len()), (small_place, 1000));
        (0..40).for_each(|_| spares.give(Vec::with_capacity(1 << 20)));
        assert_eq!(spares.lock().len(), 16, "so much is kept");
    }
}
