//! How many bytes of blocks the node holds: counted by guards that travel with the bytes.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The counter behind every [`Held`], shared with the network thread.
#[derive(Default, Debug)]
pub struct Window {
    held_bytes: AtomicUsize,
    /// Set by the network thread when it waits for room: the next drop wakes it.
    starved: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Window {
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
}
