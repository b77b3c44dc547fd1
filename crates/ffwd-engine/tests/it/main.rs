//! The library from outside, on chains that Bitcoin Core made: each call's result, and its errors.

#![allow(clippy::unwrap_used)]

mod coins;
mod errors;
mod examples;
mod reading;
mod reindex;
mod support;
mod sync;
