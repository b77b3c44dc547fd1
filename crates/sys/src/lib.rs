//! Calls of the operating system behind safe functions.
//!
//! Only this crate and `kernels` have `unsafe`. Each module has a fallback for systems that lack the call: no huge
//! pages, no io_uring, no signals.
//!
//! - [`memory`]: zeroed memory on huge pages. [`map`]: a file as a slice. [`spill`]: bytes that move to a file when
//!   there are many. [`ring`]: many concurrent reads (io_uring). [`faults`]: how often a thread waited for a page.
//! - [`allocator`]: ends a program that runs out of memory with a message. [`bus_error`]: the same if a mapped file
//!   cannot be read.
//! - [`local_time`]: the system's time zone. [`interfaces`]: addresses of network interfaces.
//!
//! Absent on purpose: anything specific to Bitcoin, LevelDB, a file's layout, or threads.

pub mod allocator;
#[cfg_attr(not(unix), path = "bus_error/elsewhere.rs")]
pub mod bus_error;
pub mod faults;
pub mod interfaces;
pub mod local_time;
pub mod map;
pub mod memory;
pub mod ring;
pub mod spill;
