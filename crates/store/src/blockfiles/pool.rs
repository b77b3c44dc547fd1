//! A pool of large reusable buffers, and blocks that share them.

use kernels::Kernels;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use sys::memory::Buffer;

/// Interval at which a thread that waits for a buffer calls `is_wanted`.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// A fixed number of buffers of one size. Their pages are faulted in once and stay.
///
/// If all buffers are in use, a thread waits until one is returned. So read-ahead stays within
/// `buffer_bytes * count_max`.
pub struct Pool {
    buffer_bytes: usize,
    count_max: usize,
    kernels: Kernels,
    state: Mutex<PoolState>,
    came_back: Condvar,
}

struct PoolState {
    idle: Vec<Buffer>,
    made: usize,
    is_closed: bool,
}

impl Pool {
    /// At most `count_max` buffers (at least one) of `buffer_bytes` each, allocated on demand. `kernels` decides the
    /// page size.
    pub fn new(buffer_bytes: usize, count_max: usize, kernels: Kernels) -> Arc<Pool> {
        let state = PoolState { idle: Vec::new(), made: 0, is_closed: false };
        Arc::new(Pool {
            buffer_bytes,
            count_max: count_max.max(1),
            kernels,
            state: Mutex::new(state),
            came_back: Condvar::new(),
        })
    }

    /// Bytes of one buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// The kernels for jobs that read into the buffers.
    #[cfg(feature = "ablation")]
    pub(super) fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Bytes of all buffers made so far.
    pub fn made_bytes(&self) -> usize {
        self.lock().made * self.buffer_bytes
    }

    /// Wakes all threads that wait for a buffer; later calls get no buffer.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.came_back.notify_all();
    }

    /// A buffer with arbitrary contents; waits until one is free. Returns `None` once the pool is closed, or when
    /// `is_wanted`, called while it waits, returns false.
    pub(super) fn take(self: &Arc<Pool>, is_wanted: &dyn Fn() -> bool) -> Option<Piece> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(buffer) = state.idle.pop() {
                return Some(Piece { memory: Memory::Pooled(Some(buffer), self.clone()) });
            }
            if state.made < self.count_max {
                state.made += 1;
                drop(state);
                return Some(Piece {
                    memory: Memory::Pooled(Some(self.kernels.buffer(self.buffer_bytes)), self.clone()),
                });
            }
            drop(state);
            if !is_wanted() {
                return None;
            }
            state = self.lock();
            // A buffer may have been returned in between. Another thread requested it, so this one may not be woken.
            if state.idle.is_empty() && !state.is_closed {
                state = self.came_back.wait_timeout(state, ASK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} of at most {} buffers of {} bytes)", self.lock().made, self.count_max, self.buffer_bytes)
    }
}

/// A buffer in use.
pub(super) struct Piece {
    memory: Memory,
}

enum Memory {
    /// Returned to its pool on drop; `None` only then.
    Pooled(Option<Buffer>, Arc<Pool>),
    Owned(Vec<u8>),
    /// Returned to its lender on drop; `None` only then.
    Lent(Option<Vec<u8>>, GiveBack),
}

/// Called to return a lent vector.
pub type GiveBack = Arc<dyn Fn(Vec<u8>) + Send + Sync>;

impl Piece {
    pub(super) fn own(bytes: Vec<u8>) -> Piece {
        Piece { memory: Memory::Owned(bytes) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Pooled(buffer, _) => buffer.as_ref().expect("taken only at the end"),
            Memory::Owned(bytes) => bytes,
            Memory::Lent(bytes, _) => bytes.as_ref().expect("taken only at the end"),
        }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Pooled(buffer, _) => buffer.as_mut().expect("taken only at the end"),
            Memory::Owned(bytes) => bytes,
            Memory::Lent(bytes, _) => bytes.as_mut().expect("taken only at the end"),
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        match &mut self.memory {
            Memory::Pooled(buffer, pool) => {
                pool.lock().idle.extend(buffer.take());
                pool.came_back.notify_one();
            }
            Memory::Lent(bytes, back) => bytes.take().into_iter().for_each(|bytes| back(bytes)),
            Memory::Owned(_) => {}
        }
    }
}

/// One block's bytes, in a buffer that it may share with its neighbours. Cheap to clone.
///
/// The whole buffer stays in use as long as any clone exists.
#[derive(Clone)]
pub struct BlockBytes {
    piece: Arc<Piece>,
    start: usize,
    end: usize,
}

impl BlockBytes {
    pub(super) fn new(piece: &Arc<Piece>, start: usize, end: usize) -> BlockBytes {
        assert!(start <= end && end <= piece.bytes().len(), "a block is in its buffer");
        BlockBytes { piece: piece.clone(), start, end }
    }

    /// `bytes[start..]`, in a vector that is passed to `back` when the last clone is dropped.
    ///
    /// # Panics
    ///
    /// If `start` is past the end.
    pub fn lent(bytes: Vec<u8>, start: usize, back: GiveBack) -> BlockBytes {
        let end = bytes.len();
        BlockBytes::new(&Arc::new(Piece { memory: Memory::Lent(Some(bytes), back) }), start, end)
    }

    /// A copy in separate memory, so that the shared buffer can be reused.
    pub fn detached(&self) -> BlockBytes {
        BlockBytes::from(self.to_vec())
    }
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> BlockBytes {
        let end = bytes.len();
        BlockBytes { piece: Arc::new(Piece::own(bytes)), start: 0, end }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.piece.bytes()[self.start..self.end]
    }
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockBytes({} bytes)", self.end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_vector_returns_with_its_last_holder() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let block = BlockBytes::lent(vec![1, 2, 3], 1, Arc::new(move |bytes| sender.send(bytes).unwrap()));
        let other = block.clone();
        assert_eq!(*block, [2, 3]);
        drop(block);
        assert!(receiver.try_recv().is_err(), "it is held");
        drop(other);
        assert_eq!(receiver.try_recv().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn pool_reuses_returned_buffers() {
        let pool = Pool::new(4096, 2, Kernels::AUTO);
        let (one, two) = (Arc::new(pool.take(&|| true).unwrap()), pool.take(&|| true).unwrap());
        assert_eq!(pool.made_bytes(), 8192);
        let block = BlockBytes::new(&one, 10, 20);
        drop(one);
        let waiting = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take(&|| true).is_some()
        });
        let copy = block.detached();
        drop(block);
        assert!(waiting.join().unwrap(), "the buffer came back when its last block went");
        drop(two);
        assert_eq!((copy.len(), pool.made_bytes()), (10, 8192));
        let held = (pool.take(&|| true), pool.take(&|| true));
        assert!(pool.take(&|| false).is_none(), "it is not wanted");
        let waiting = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take(&|| true).is_none()
        });
        pool.close();
        assert!(waiting.join().unwrap(), "closing wakes who waits");
        drop(held);
    }
}
