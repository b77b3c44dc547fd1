//! Calls of the operating system behind safe functions.
//!
//! This crate and `kernels` alone have `unsafe`. Each module has an implementation for systems that lack the call: no huge
//! pages, no io_uring, no signals.
//!
//! - [`memory`]: zeroed memory on huge pages. [`map`]: a file as a slice. [`spill`]: bytes that lie in a file where they are
//!   many. [`ring`]: many reads at once (io_uring). [`faults`]: how often a thread waited for a page.
//! - [`allocator`]: the end of a program without memory. [`bus_error`]: of one whose mapped file cannot be read.
//! - [`local_time`]: the system's time zone.
//!
//! Absent on purpose: anything that knows Bitcoin, LevelDB, a file's layout, or a thread.

pub mod allocator;
#[cfg_attr(not(unix), path = "bus_error/elsewhere.rs")]
pub mod bus_error;
pub mod faults;
pub mod local_time;
pub mod map;
pub mod memory;
pub mod ring;
pub mod spill;
