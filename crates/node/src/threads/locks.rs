//! Taking locks whose holders do not panic.
//!
//! A panic in any thread ends the program: `AbortOnPanic` of the pipeline and the guards of the jobs stop all other
//! threads, then the panic is passed on. So a thread that meets a poisoned lock is about to end as well. It panics too:
//! the data behind the lock may be half changed, and must not be used.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

const POISONED: &str = "another thread panicked with this lock held";

/// Locks, and waits for the current holder.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(POISONED)
}

/// Locks for reading; other readers are not blocked.
#[inline]
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect(POISONED)
}

/// Locks for writing, exclusively.
#[inline]
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect(POISONED)
}

/// Releases the lock until the condition is signalled.
#[inline]
pub(crate) fn wait<'m, T>(condition: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condition.wait(guard).expect(POISONED)
}

/// Releases the lock until the condition is signalled, or the time has passed; the second result is whether it has.
#[inline]
pub(crate) fn wait_for<'m, T>(
    condition: &Condvar,
    guard: MutexGuard<'m, T>,
    time: Duration,
) -> (MutexGuard<'m, T>, bool) {
    let (guard, result) = condition.wait_timeout(guard, time).expect(POISONED);
    (guard, result.timed_out())
}

/// A condition variable whose state changes far more often than a thread waits for it: a signal without a waiter makes
/// no system call.
///
/// All threads use it with one lock. A waiter is counted while it holds the lock, and a signalling thread has held the
/// lock since the change. So a thread that the signal does not count takes the lock later, and then sees the change.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    condition: Condvar,
    waiting: AtomicUsize,
}

impl Signal {
    /// Like [`wait`].
    #[inline]
    pub(crate) fn wait<'m, T>(&self, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.waiting.fetch_add(1, Relaxed);
        let guard = wait(&self.condition, guard);
        self.waiting.fetch_sub(1, Relaxed);
        guard
    }

    /// Like [`wait_for`].
    #[inline]
    pub(crate) fn wait_for<'m, T>(&self, guard: MutexGuard<'m, T>, time: Duration) -> (MutexGuard<'m, T>, bool) {
        self.waiting.fetch_add(1, Relaxed);
        let waited = wait_for(&self.condition, guard, time);
        self.waiting.fetch_sub(1, Relaxed);
        waited
    }

    /// Wakes one of the threads that wait.
    #[inline]
    pub(crate) fn notify_one(&self) {
        if self.waiting.load(Relaxed) > 0 {
            self.condition.notify_one();
        }
    }

    /// Wakes all waiting threads.
    #[inline]
    pub(crate) fn notify_all(&self) {
        if self.waiting.load(Relaxed) > 0 {
            self.condition.notify_all();
        }
    }
}

/// The data behind a lock that no thread uses any more.
pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().expect(POISONED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;

    /// Threads hand numbers on, one at a time, and signal after they have unlocked: where a signal were lost, all would wait.
    #[test]
    fn no_signal_is_lost() {
        const ROUNDS: usize = 5_000;
        static TURN: Mutex<usize> = Mutex::new(0);
        for threads in [2, 3] {
            *lock(&TURN) = 0;
            let signal: &Signal = Box::leak(Box::default());
            let (done, ended) = channel();
            for thread in 0..threads {
                let done = done.clone();
                std::thread::spawn(move || {
                    loop {
                        let mut turn = lock(&TURN);
                        while *turn % threads != thread && *turn < ROUNDS {
                            turn = signal.wait(turn);
                        }
                        if *turn >= ROUNDS {
                            break;
                        }
                        *turn += 1;
                        drop(turn);
                        signal.notify_all();
                    }
                    signal.notify_all();
                    done.send(())
                });
            }
            for _ in 0..threads {
                ended.recv_timeout(Duration::from_secs(60)).expect("a thread waits for ever");
            }
            assert_eq!(signal.waiting.load(Relaxed), 0);
        }
    }

    #[test]
    fn wait_for_ends_with_its_time_or_its_signal() {
        let (signal, state, is_told) = (Signal::default(), Mutex::new(false), AtomicBool::new(false));
        let (guard, is_over) = signal.wait_for(lock(&state), Duration::from_millis(1));
        assert!(is_over && !*guard && signal.waiting.load(Relaxed) == 0);
        drop(guard);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut guard = lock(&state);
                while !*guard {
                    (guard, _) = signal.wait_for(guard, Duration::from_secs(60));
                }
                is_told.store(true, Relaxed);
            });
            *lock(&state) = true;
            signal.notify_one();
        });
        assert!(is_told.load(Relaxed));
    }
}
