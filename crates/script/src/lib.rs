//! Script verification: does this input satisfy the script of the coin that it spends?
//!
//! Input: a transaction, the coins that it spends, flags. Output: success, or Core's error. [`verify()`] is the entry
//! point; [`Precomputed`] is the data shared by the inputs of a transaction; a [`Checker`] decides signatures,
//! immediately ([`Immediate`]) or later in a batch ([`Deferred`]). [`sigops`] counts signature operations without
//! running scripts, [`signet`] verifies a signet block's solution.
//!
//! The crate does not know files, block heights, the flags of a block, or threads.

pub mod check;
pub mod commitment;
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
pub use deferred::{Deferred, Ended, Found, Stop, VerifyOptions, make_hints, verify_all, verify_all_with};
pub use encoding::is_strict_der;
pub use error::ScriptError;
pub use flags::Flags;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use fuzz::fuzz_script;
pub use lanes::Lanes;
pub use sighash::{Precomputed, SpentOutput};
pub use verify::{Scratch, verify};
