//! The pool of threads: how many calls may run, and how many may wait for a thread.
//!
//! The queue of tokio's pool has no bound, and a client that disconnects leaves its work there. So none may form: work
//! is passed on only with a permit for a thread. Its permits are released when the work ends, not when its client goes.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Threads for short work that must not wait for slow calls: metrics, and the user of a connection.
const SPARE_THREADS: usize = 2;

/// The permits for threads.
pub(crate) struct Pool {
    /// For running calls, and those that wait for a thread or a block.
    places: Arc<Semaphore>,
    /// For running calls.
    threads: Arc<Semaphore>,
    /// For short work.
    spare: Arc<Semaphore>,
    /// Maximum number of threads for everything.
    threads_max: usize,
}

impl Pool {
    /// At most `threads` running calls, and `work_queue` waiting ones; at least one of each.
    pub(super) fn new(threads: usize, work_queue: usize) -> Pool {
        let threads = threads.max(1);
        Pool {
            places: Arc::new(Semaphore::new(threads + work_queue.max(1))),
            threads: Arc::new(Semaphore::new(threads)),
            spare: Arc::new(Semaphore::new(SPARE_THREADS)),
            threads_max: threads + SPARE_THREADS,
        }
    }

    /// Number of threads with which no work that has a permit waits for a thread.
    pub(crate) fn threads_max(&self) -> usize {
        self.threads_max
    }

    /// Whether no more calls are accepted.
    pub(crate) fn is_crowded(&self) -> bool {
        self.places.available_permits() == 0
    }

    /// Waits for a place for a call.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        permit(&self.places).await
    }

    /// Runs a call on a thread, after a wait for a place and for a thread. `None`: it panicked.
    pub(crate) async fn on_thread<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        let place = self.place().await;
        let thread = permit(&self.threads).await;
        run(work, [place, thread]).await
    }

    /// Runs short work on a thread that no call uses. `None`: it panicked.
    pub(crate) async fn on_spare_thread<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        let thread = permit(&self.spare).await;
        run(work, [thread]).await
    }
}

async fn permit(of: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // It is never closed.
    of.clone().acquire_owned().await.ok()
}

/// Runs `work`, which holds the permits until it ends, also after its client has disconnected.
async fn run<R: Send + 'static, const N: usize>(
    work: impl FnOnce() -> R + Send + 'static,
    permits: [Option<OwnedSemaphorePermit>; N],
) -> Option<R> {
    let work = move || {
        let _permits = permits;
        work()
    };
    spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;
    use tokio::time::timeout;

    const MOMENT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(10);

    /// Work that runs until the sender is dropped, and then sends a value.
    fn blocked() -> (Sender<()>, impl FnOnce() -> u32 + Send + 'static) {
        let (end, ended): (Sender<()>, Receiver<()>) = channel();
        let work = move || {
            let _ = ended.recv();
            7
        };
        (end, work)
    }

    fn with_pool(threads: usize, work_queue: usize, test: impl AsyncFnOnce(Pool)) {
        let pool = Pool::new(threads, work_queue);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(pool.threads_max())
            .build()
            .unwrap();
        runtime.block_on(test(pool));
    }

    /// A client that disconnects frees no place while its work runs, and leaves no work in a queue.
    #[test]
    fn place_is_taken_until_the_work_ends() {
        with_pool(1, 1, async |pool| {
            let (end, work) = blocked();
            assert!(timeout(MOMENT, pool.on_thread(work)).await.is_err(), "it is blocked, and its client goes");
            let (begun, begins) = channel();
            let waiting = pool.on_thread(move || begun.send(()));
            assert!(timeout(MOMENT, waiting).await.is_err(), "it waits for the thread, and its client goes");
            assert!(!pool.is_crowded(), "work that has not begun is gone with its client");
            let mut third = std::pin::pin!(pool.on_thread(|| 8));
            assert!(timeout(MOMENT, third.as_mut()).await.is_err());
            assert!(pool.is_crowded(), "one runs, one waits");
            drop(end);
            assert_eq!(timeout(LONG, third).await.unwrap(), Some(8));
            assert!(begins.recv().is_err(), "the second one was never run");
            assert!(!pool.is_crowded());
        });
    }

    #[test]
    fn short_work_has_its_own_threads() {
        with_pool(1, 1, async |pool| {
            let (end, work) = blocked();
            let mut call = std::pin::pin!(pool.on_thread(work));
            assert!(timeout(MOMENT, call.as_mut()).await.is_err(), "all threads for calls are blocked");
            assert_eq!(timeout(LONG, pool.on_spare_thread(|| 9)).await.unwrap(), Some(9));
            let (more, works): (Vec<_>, Vec<_>) = (0..SPARE_THREADS).map(|_| blocked()).unzip();
            for work in works {
                assert!(timeout(MOMENT, pool.on_spare_thread(work)).await.is_err(), "blocked");
            }
            assert!(timeout(MOMENT, pool.on_spare_thread(|| 9)).await.is_err(), "there is a bound");
            drop((end, more));
            assert_eq!(timeout(LONG, call).await.unwrap(), Some(7));
            assert_eq!(timeout(LONG, pool.on_spare_thread(|| 9)).await.unwrap(), Some(9));
            assert_eq!(pool.on_thread(|| panic!("a test's panic")).await, None::<()>);
            assert_eq!(pool.on_thread(|| 7).await, Some(7), "its permits are free again");
        });
    }
}
