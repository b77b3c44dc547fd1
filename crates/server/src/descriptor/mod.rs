//! Output descriptors: the descriptor of a script, and, with the feature `descriptors`, the scripts of a descriptor.
//!
//! Source: BIP-0380 to 0386; Bitcoin Core b88bffe, script/descriptor.cpp.

#[cfg(feature = "descriptors")]
mod expand;
pub mod infer;
#[cfg(feature = "descriptors")]
mod key;
mod known;
#[cfg(feature = "descriptors")]
mod miniscript_text;
#[cfg(feature = "descriptors")]
mod parse;
#[cfg(feature = "descriptors")]
mod show;

pub use ::show::descriptor::{checksum, put_descriptor};
#[cfg(feature = "descriptors")]
pub use expand::{Descriptors, Expanded, Range, expand};
#[cfg(feature = "descriptors")]
pub(crate) use expand::{multi, pay_to_script_hash};
pub use infer::infer;
#[cfg(feature = "descriptors")]
pub(crate) use key::{PrivateKey, private_key};
pub use known::{Known, Origin, hash160};
