//! What the user and debug.log are told: what happens, how far it is, what the work waits for, what was done.
//!
//! For the engine it is write-only: nothing that is decided reads it.
//!
//! `reporter` is what the engine talks to, with `counters`; `state` makes the one state that everybody is shown from plain
//! facts, `sentence` puts it into words, `limit` measures what the work waits for; `assumed` finds an assumed-valid block that
//! is not on the best header chain.

pub mod alerts;
pub mod assumed;
pub(crate) mod bench_lines;
mod counters;
pub(crate) mod disk_space;
mod events;
pub mod limit;
pub(crate) mod log;
pub(crate) mod peer_lines;
mod reporter;
mod sentence;
mod shortfall;
pub mod state;

pub use counters::{Counted, Figures};
pub use events::{DamagedRecord, Event, Events, JobReport, Progress, RecentBlock};
pub(crate) use reporter::Reporter;
