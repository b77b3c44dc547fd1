//! Core's and the BIPs' vectors.

mod bip158;
mod chains;
