//! The built command, driven as a user drives it: options in, exit code, JSON and messages out.
//!
//! Real chains need test data; without it those tests say so and pass. `SLOW=1` adds repeats.

#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod audit;
mod bad_input;
mod bip54;
mod bitcoind;
mod both_ways;
mod commands;
mod cpu;
mod data;
mod databases;
mod disk_errors;
mod doctor;
#[cfg(feature = "export")]
mod export;
mod export_coins;
mod export_page;
mod file_systems;
mod first_steps;
mod gaps;
mod hints;
mod hostile;
mod indexes;
mod json_page;
mod keys;
mod lab;
mod limits;
mod memory;
mod options;
mod others;
mod own_files;
mod peer_files;
mod peers_core;
mod prune;
mod run;
mod same_answers;
mod serve;
mod sets;
mod signature_hints;
mod silent_payments;
mod situations;
mod snapshots;
mod spelling;
mod stop;
mod sync;
mod watched;
#[cfg(feature = "ablation")]
mod without;
mod worst;
