//! Core's and the BIPs' vectors, and statistics beside plain products.

#![allow(clippy::unwrap_used)]

mod bip158;
mod bip352;
mod chains;
mod passing;
