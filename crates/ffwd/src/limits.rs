//! Limits of the process, checked before the work begins: threads and address space.
//!
//! A limit that is only reached later is a fault of `node`, or ends the program (`sys::allocator`).
//! Absent on purpose: raising the limits, which the user set.

use crate::Failure;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Threads in addition to the workers: signals, network, arrivals, progress, and connections being made.
const THREADS_BESIDE: usize = 24;
/// Address space of a thread's stack.
const THREAD_BYTES: u64 = 8 << 20;
/// Address space of an arena of glibc's allocator. It makes one for each thread, at most [`ARENAS_PER_CORE`] a core.
/// Source: mallopt(3), `M_ARENA_MAX`.
const ARENA_BYTES: u64 = 64 << 20;
const ARENAS_PER_CORE: usize = 8;
/// Address space of the program itself, the block index of a young chain, and buffers without a budget.
const PROGRAM_BYTES: u64 = 96 << 20;

/// Advice printed when a thread cannot be started.
pub(crate) const THREADS: &str = "Raise the limit of processes and threads, or of address space, or lower --par";

/// Checks that a job with `workers` workers and `dbcache_bytes` of cache can get its threads and its memory.
///
/// # Errors
///
/// The limit that is too low, with its value.
pub(crate) fn check(workers: usize, dbcache_bytes: usize) -> Result<(), Failure> {
    let count = workers + THREADS_BESIDE;
    if let Some(limit) = read("Max address space") {
        let want = beside_bytes(count) + dbcache_bytes as u64;
        if limit < want {
            let what = format!(
                "the limit of address space (ulimit -v, RLIMIT_AS) is {} MiB, and {count} threads with --dbcache {} take up to {} MiB",
                limit >> 20,
                dbcache_bytes >> 20,
                want.div_ceil(1 << 20)
            );
            return Err(Failure::fault(what, "Raise it, or lower --dbcache or --par"));
        }
    }
    check_threads(count)
}

/// Address space of a job with this number of threads, excluding its cache.
fn beside_bytes(threads: usize) -> u64 {
    let arenas = thread::available_parallelism().map_or(1, |cores| cores.get() * ARENAS_PER_CORE).min(threads);
    PROGRAM_BYTES + threads as u64 * THREAD_BYTES + arenas as u64 * ARENA_BYTES
}

/// The address space left for the cache of a job with `workers` workers. `None` if there is no limit.
pub(crate) fn cache_bytes_max(workers: usize) -> Option<u64> {
    let limit = read("Max address space")?;
    Some(limit.saturating_sub(beside_bytes(workers + THREADS_BESIDE)))
}

/// Starts as many threads as a job needs, then ends them.
fn check_threads(count: usize) -> Result<(), Failure> {
    let gate = Mutex::new(());
    let refused = thread::scope(|scope| {
        let _closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).find_map(|started| {
            let wait = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
            let thread = thread::Builder::new().spawn_scoped(scope, wait);
            thread.err().map(|why| (started, why))
        })
    });
    let Some((started, why)) = refused else { return Ok(()) };
    let limit = |name| read(name).map_or_else(|| "unlimited".to_owned(), |value| value.to_string());
    let what = format!(
        "{started} of {count} threads started, the next was refused ({why}); the limit of processes and threads (ulimit -u, RLIMIT_NPROC) is {}, of address space (ulimit -v, RLIMIT_AS) {}",
        limit("Max processes"),
        limit("Max address space")
    );
    Err(Failure::fault(what, THREADS))
}

/// A soft limit of this process; `None` if unlimited.
fn read(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_passes_without_limits() {
        // Where the tests run under limits of their own there is nothing to see.
        if read("Max address space").is_none() {
            assert!(check(2, 4 << 20).is_ok());
        }
        assert_eq!(read("Max nonsense"), None);
        assert!(read("Max open files").is_some_and(|count| count > 2));
    }
}
