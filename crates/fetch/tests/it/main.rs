//! Transfers over sockets of this machine.

mod mirror;
mod transfers;
