//! Blocks that are slow to verify for their size, as a hostile miner would make them.
//!
//! In: a kind. Out: block files like those of [`crate::chain`], on regtest, whose last blocks are of that kind. All
//! blocks except those of [`Kind::SigopsBadLast`] are valid by consensus, most of them against policy. No signature
//! hash repeats, so that caches are useless.
//!
//! Absent on purpose: validating them, and measuring the time (`lab run`, docs/lab.md).

mod blocks;
mod kinds;
mod scripts;
mod tx;

use serde::Serialize;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use crate::chain::Error;
use blocks::Blocks;

/// The property that makes the blocks slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Legacy inputs in one transaction as large as a block: each signature hashes all of it.
    QuadraticLegacy,
    /// 80,000 signatures of witness version 0, the last of which is wrong, so that the block is invalid.
    SigopsBadLast,
    /// Legacy scripts of 10,000 bytes that every check of a signature searches for the signature (FindAndDelete).
    FindAndDelete,
    /// CHECKMULTISIG of 20 keys, where the matching key is tried last.
    Multisig,
    /// Legacy scripts with an OP_CODESEPARATOR before each check: no hash of an input is used twice.
    CodeSeparator,
    /// Taproot scripts 128 levels deep in their Merkle trees.
    DeepMast,
    /// As many checks of Schnorr signatures as the budget of tapscript allows.
    Tapscript,
    /// Transactions of minimum size, each with a unique script and witness: they fill caches, and are found in no
    /// cache.
    ScriptCache,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] = [
        Kind::QuadraticLegacy,
        Kind::SigopsBadLast,
        Kind::FindAndDelete,
        Kind::Multisig,
        Kind::CodeSeparator,
        Kind::DeepMast,
        Kind::Tapscript,
        Kind::ScriptCache,
    ];

    /// The name that `--kind` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::QuadraticLegacy => "quadratic-legacy",
            Kind::SigopsBadLast => "sigops-bad-last",
            Kind::FindAndDelete => "find-and-delete",
            Kind::Multisig => "multisig",
            Kind::CodeSeparator => "code-separator",
            Kind::DeepMast => "deep-mast",
            Kind::Tapscript => "tapscript",
            Kind::ScriptCache => "script-cache",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let names = || Kind::ALL.map(Kind::name).join(", ");
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("kinds are {}", names()))
    }
}

/// What was made.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WorstReport {
    /// The kind.
    pub kind: &'static str,
    /// Height of the last block in the files.
    pub height: u32,
    /// Its hash, as RPC prints it.
    pub bestblock: String,
    /// Height of the last valid block: one less if the last block is invalid.
    pub height_valid: u32,
    /// Blocks of the kind.
    pub blocks_worst: u32,
    /// Bytes of the largest block.
    pub largest_block_bytes: u64,
    /// Bytes of the block files.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Generates a chain whose last blocks are of `kind`, in the new data directory `out`.
///
/// # Errors
///
/// [`Error`]. After a failure, the files written so far remain.
pub fn generate(out: &Path, kind: Kind) -> Result<WorstReport, Error> {
    let start = Instant::now();
    let mut blocks = Blocks::new(out)?;
    let blocks_worst = kinds::append(kind, &mut blocks)?;
    let height = blocks.height();
    let largest_block_bytes = blocks.largest_block_bytes;
    let (bestblock, bytes) = blocks.finish()?;
    Ok(WorstReport {
        kind: kind.name(),
        height,
        bestblock,
        height_valid: height - u32::from(kind == Kind::SigopsBadLast),
        blocks_worst,
        largest_block_bytes,
        bytes,
        seconds: start.elapsed().as_secs_f64(),
    })
}

#[cfg(test)]
mod tests;
