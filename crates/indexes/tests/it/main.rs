//! Core's and the BIPs' vectors.

#![allow(clippy::unwrap_used)]

mod bip158;
mod chains;
