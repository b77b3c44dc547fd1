//! Does this script accept this input?
//!
//! In: a transaction, the coins that it spends, flags. Out: yes, or Core's error. [`verify()`] is the door;
//! [`Precomputed`] is what the inputs of a transaction share; a [`Checker`] answers for signatures, on the spot
//! ([`Immediate`]) or later in a batch ([`Deferred`]). [`sigops`] counts without running, [`signet`] judges a signet
//! block's solution.
//!
//! Must never know: files, blocks' heights, which flags a block has, threads.

pub mod check;
pub mod deferred;
mod encoding;
pub mod error;
pub mod flags;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
mod interpreter;
pub mod lanes;
mod number;
pub mod opcode;
pub mod sighash;
pub mod signet;
pub mod sigops;
mod stack;
mod templates;
pub mod verify;

pub use check::{Batch, Check, Checker, Immediate, OneByOne};
pub use deferred::{Deferred, verify_all};
pub use encoding::is_strict_der;
pub use error::ScriptError;
pub use flags::Flags;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use fuzz::fuzz_script;
pub use lanes::Lanes;
pub use sighash::{Precomputed, SpentOutput};
pub use verify::{Scratch, verify};
