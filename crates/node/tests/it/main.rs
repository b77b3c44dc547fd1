//! The engine, from outside.
#![allow(
    clippy::unwrap_used,
    clippy::type_complexity,
    reason = "a test that finds something else than it needs should fail there"
)]

mod any_jobs;
mod archival;
mod assumed;
mod btcd_steps;
mod budget;
mod chain;
mod clock;
mod crash;
mod damaged_records;
mod data_directory;
mod doctor;
mod doctor_checks;
mod doctor_stops;
mod existing;
mod failed_run_ends;
mod file_systems;
mod following;
mod gaps;
mod hints;
mod import;
mod indexes;
mod io_errors;
mod lookup_stall;
mod many_workers;
mod memory_backend;
mod mounts;
mod panics;
mod peers;
mod pipeline;
mod prune;
mod rebuild;
mod same_files;
mod schedule;
mod served;
mod set_totals;
mod snapshot;
mod snapshot_jobs;
mod snapshot_sync;
mod states;
mod traps;
mod two_jobs;
