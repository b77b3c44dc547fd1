//! The engine, from outside.

mod data;
mod memory;
mod pipeline;
mod traps;
