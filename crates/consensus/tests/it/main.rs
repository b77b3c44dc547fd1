//! Tests on real data and on whole blocks made for one rule each.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod bip54;
mod blocks;
mod chains;
mod data;
mod error_blocks;
mod headers;
mod ledger;
mod rules;
mod verdicts;
