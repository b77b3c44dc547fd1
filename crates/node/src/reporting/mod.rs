//! Output for the user and debug.log: events, progress, state, and the report at the end.
//!
//! For the engine it is write-only: no decision reads it.
//!
//! The engine calls `reporter` and `counters`. `state` computes the one state that all displays show from plain facts,
//! `sentence` has its texts, `limit` measures what limits the speed; `assumed` finds an assumed-valid block that is not
//! on the best header chain.

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
