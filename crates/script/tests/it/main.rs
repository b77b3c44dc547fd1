//! Core's vectors, the BIPs' vectors, real blocks, and twins against each other.

#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod ahead;
mod assembler;
mod bips;
mod blocks;
mod data;
mod hints;
mod lanes;
mod long_messages;
mod pieces;
mod random;
mod script_vectors;
mod sighash_vectors;
mod signet;
mod taproot_vectors;
mod tx_vectors;
mod wallet;
