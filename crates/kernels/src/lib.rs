//! Arithmetic and hashing behind safe functions, each with a reference implementation that it is tested against.
//!
//! Input: bytes. Output: bytes. Only this crate and [`sys`] have `unsafe`. The instructions of the processor are
//! detected at run time, so that one program runs on every machine.
//!
//! - [`Kernels`]: the choice of a job, passed down; [`cpu`]: kinds of processors. With the feature `ablation`, `ideas`:
//!   optimizations that a job can disable, to measure their effect.
//! - [`sha256`]: single, double and incremental SHA-256, many messages at a time in vector lanes.
//! - [`ripemd160`]: RIPEMD-160 of digests, many at a time in vector lanes.
//! - [`xor`]: the 8-byte obfuscation of block files and the chainstate.
//! - [`crc32c`]: the checksum of LevelDB's blocks and logs.
//! - [`muhash`]: products of numbers of 3072 bits, eight or four at a time in vector lanes; [`chacha20`] expands keys
//!   into them.
//! - [`secp256k1`]: statements about points of that curve, many at a time in vector lanes.
//! - [`bucket`]: one cache line of a hash table. [`prefetch`]: loads a cache line early.
//!
//! Absent on purpose: anything specific to Bitcoin, LevelDB, files, or threads.

pub mod bucket;
pub mod chacha20;
mod choice;
pub mod cpu;
pub mod crc32c;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", feature = "unproven")))]
mod doubles;
#[cfg(feature = "ablation")]
pub mod ideas;
pub mod muhash;
pub mod prefetch;
pub mod ripemd160;
pub mod secp256k1;
pub mod sha256;
pub mod xor;

pub use choice::Kernels;
