//! Kernels behind safe functions, each with a reference implementation that it is tested against.
//!
//! In: bytes. Out: bytes. The only crate of the workspace with `unsafe`; what its functions need from
//! the processor is asked for at run time, so that one program runs on every machine.
//!
//! - [`cpu`]: which kernels run, where not all that the processor has.
//! - [`ideas`]: what can be off for a whole run, to measure what it gives.
//! - [`sha256`]: single, double and incremental SHA-256, many messages at a time in vector lanes.
//! - [`ripemd160`]: RIPEMD-160 of digests, many at a time in vector lanes.
//! - [`xor`]: the 8-byte obfuscation of block files and the chainstate.
//! - [`crc32c`]: the checksum of LevelDB's blocks and logs.
//! - [`muhash`]: products of numbers of 3072 bits, eight or four at a time in vector lanes; [`chacha20`] makes them of keys.
//! - [`secp256k1`]: statements about points of that curve, many at a time in vector lanes.
//! - [`memory`]: zeroed memory on huge pages. [`map`]: a file as a slice. [`spill`]: bytes that lie in a file where they are
//!   many. [`ring`]: many reads at once. [`prefetch`]: a cache line, early.
//! - [`bucket`]: one cache line of a hash table. [`allocator`]: the end of a program without memory. [`bus_error`]: of one
//!   whose mapped file cannot be read.
//!
//! Absent on purpose: anything that knows Bitcoin, LevelDB, a file's layout, or a thread.

pub mod allocator;
pub mod bucket;
#[cfg_attr(not(unix), path = "bus_error/elsewhere.rs")]
pub mod bus_error;
pub mod chacha20;
pub mod cpu;
pub mod crc32c;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod doubles;
pub mod faults;
pub mod ideas;
pub mod map;
pub mod memory;
pub mod muhash;
pub mod prefetch;
pub mod ring;
pub mod ripemd160;
pub mod secp256k1;
pub mod sha256;
pub mod spill;
pub mod xor;
