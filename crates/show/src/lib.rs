//! Scripts, addresses and transactions as Bitcoin Core shows them: as JSON, with its names, and as text.
//!
//! In: parsed transactions, scripts, coins. Out: JSON text that [`text`] writes straight into bytes, or values of
//! [`json`].
//! [`output`] has scripts as text, their kinds and addresses; [`descriptor`] their descriptors; [`tx_json`] whole
//! transactions.
//! It must never know: the best chain, files, clients.
//!
//! Source: Bitcoin Core b88bffe, core_io.cpp, key_io.cpp, univalue.

pub mod descriptor;
pub mod json;
pub mod json_read;
pub mod output;
pub mod text;
pub mod tx_json;
