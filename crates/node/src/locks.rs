//! Taking locks whose holders do not panic.
//!
//! A panic in any thread of the program ends it: `AbortOnPanic` of the pipeline and the guards of the jobs tell all other
//! threads to end, and the panic is passed on. So a poisoned lock is met by a thread that is about to end as well, and
//! it panics in its turn: what the lock guards may be half changed, and nothing must be made of it.

use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

const POISONED: &str = "another thread panicked with this lock held";

/// Locks, after any other holder.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(POISONED)
}

/// Locks to read, beside other readers.
#[inline]
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect(POISONED)
}

/// Locks to write, alone.
#[inline]
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect(POISONED)
}

/// Unlocks until the condition is signalled.
#[inline]
pub(crate) fn wait<'m, T>(condition: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condition.wait(guard).expect(POISONED)
}

/// Unlocks until the condition is signalled, or the time is over; whether it is over comes second.
#[inline]
pub(crate) fn wait_for<'m, T>(
    condition: &Condvar,
    guard: MutexGuard<'m, T>,
    time: Duration,
) -> (MutexGuard<'m, T>, bool) {
    let (guard, result) = condition.wait_timeout(guard, time).expect(POISONED);
    (guard, result.timed_out())
}

/// What a lock guards that no thread takes any more.
pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().expect(POISONED)
}
