//! Does this script accept this input?

pub mod error;
pub mod flags;
pub mod opcode;
pub mod sigops;

pub use error::ScriptError;
pub use flags::Flags;
