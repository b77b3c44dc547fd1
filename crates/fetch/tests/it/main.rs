//! Transfers over sockets of this machine.

#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod mirror;
mod transfers;
