//! Output descriptors: of a script, and the scripts that one stands for.
//!
//! Source: BIP-0380 to 0386; Bitcoin Core b88bffe, script/descriptor.cpp.

mod expand;
pub mod infer;
mod key;
mod known;
mod miniscript_text;
mod parse;
mod show;

pub use ::show::descriptor::{checksum, put_descriptor};
pub use expand::{Descriptors, Expanded, Range, expand};
pub use infer::infer;
pub use known::{Known, Origin, hash160};
