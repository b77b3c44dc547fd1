//! An allocator that ends the program with a message and exit code 1 when memory runs out. It wraps the system's
//! allocator, or another one.
//!
//! By default Rust aborts the process: a signal, without advice. A program's data on disk must survive a crash at any
//! moment anyway. Absent on purpose: continuing without the memory. A fallible reservation (`try_reserve`) ends the
//! program too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// Exit code of a program that ran out of memory.
const EXIT_CODE: i32 = 1;
/// Maximum bytes of the message, which is formatted without an allocation.
const MESSAGE_BYTES_MAX: usize = 512;

/// Declare it as `#[global_allocator]`, around the allocator to use.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndsWithoutMemory<A = System>(
    /// The wrapped allocator.
    pub A,
);

// SAFETY: each call goes to the other allocator as it came, and its pointer comes back unless it is null.
unsafe impl<A: GlobalAlloc> GlobalAlloc for EndsWithoutMemory<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is the other's too.
        not_null(unsafe { self.0.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        not_null(unsafe { self.0.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as in `alloc`; `start` came from the other allocator, as every pointer here does.
        not_null(unsafe { self.0.realloc(start, layout, bytes) }, bytes)
    }

    #[inline]
    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { self.0.dealloc(start, layout) }
    }
}

/// Makes the system's allocator return freed memory to the system. The time grows with the heap, so use it after a
/// rare, large peak. Does nothing with other allocators.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it has no argument that could be wrong, and may be called by any thread at any time (malloc_trim(3),
    // MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}

#[inline]
fn not_null(start: *mut u8, bytes: usize) -> *mut u8 {
    if start.is_null() {
        out_of_memory(bytes);
    }
    start
}

/// Ends the program because `bytes` of memory were refused; the message names the limit that caused it, and what helps.
#[cold]
pub fn out_of_memory(bytes: usize) -> ! {
    let mut message = [0; MESSAGE_BYTES_MAX];
    let length = message_into(&mut message, bytes, address_space_max());
    to_standard_error(&message[..length]);
    // SAFETY: ends the process. Destructors and exit handlers could need memory.
    unsafe { libc::_exit(EXIT_CODE) }
}

/// Allocates nothing. Standard error may be closed; that is ignored.
#[cfg(unix)]
fn to_standard_error(text: &[u8]) {
    // SAFETY: the slice has as many bytes as are written.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Writes with std, which does not buffer standard error.
#[cfg(not(unix))]
fn to_standard_error(text: &[u8]) {
    let _ = std::io::stderr().write_all(text);
}

/// Writes the message; returns its length.
fn message_into(message: &mut [u8; MESSAGE_BYTES_MAX], bytes: usize, limit: Option<u64>) -> usize {
    let mut rest = &mut message[..];
    // A message that does not fit is truncated.
    let _ = match limit {
        Some(limit) => writeln!(
            rest,
            "Error: out of memory: {bytes} bytes were refused; the limit of address space (ulimit -v, RLIMIT_AS) is {limit} bytes: raise it, or lower --dbcache or --par"
        ),
        None => {
            writeln!(rest, "Error: out of memory: {bytes} bytes were refused by the system: lower --dbcache or --par")
        }
    };
    let left = rest.len();
    MESSAGE_BYTES_MAX - left
}

/// The value of `RLIMIT_AS`, if it is limited.
#[cfg(unix)]
#[allow(clippy::useless_conversion, reason = "with 32 bits it has 32")]
fn address_space_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let asked = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    (asked == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur.into())
}

/// There is no such limit on this system.
#[cfg(not(unix))]
fn address_space_max() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_bytes_and_limit() {
        for (limit, want) in [
            (Some(99), "12345 bytes were refused; the limit of address space (ulimit -v, RLIMIT_AS) is 99 bytes"),
            (None, "12345 bytes were refused by the system"),
        ] {
            let mut message = [0; MESSAGE_BYTES_MAX];
            let length = message_into(&mut message, 12_345, limit);
            let text = std::str::from_utf8(&message[..length]).unwrap();
            assert!(text.contains(want) && text.ends_with('\n'), "{text}");
        }
    }

    #[test]
    fn allocator_gives_the_systems_memory() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        let allocator = EndsWithoutMemory(System);
        // SAFETY: the layout is not empty, and each pointer goes back with the layout that it has.
        unsafe {
            let start = allocator.alloc_zeroed(layout);
            assert_eq!(std::slice::from_raw_parts(start, 100), [0; 100]);
            start.write_bytes(7, 100);
            let start = allocator.realloc(start, layout, 200);
            assert_eq!(std::slice::from_raw_parts(start, 100), [7; 100]);
            allocator.dealloc(start, Layout::from_size_align(200, 8).unwrap());
            let start = allocator.alloc(layout);
            allocator.dealloc(start, layout);
        }
    }
}
