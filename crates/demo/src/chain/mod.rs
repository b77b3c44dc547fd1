//! Generates chains: valid on regtest, similar to mainnet's, and reproducible from their arguments.
//!
//! In: a seed and a size. Out: block files in the layout of a data directory, which any Bitcoin node accepts. The
//! first phase creates coins for later blocks to spend. Full blocks follow, then empty ones, so that a node may assume
//! the scripts of the full ones valid.
//!
//! - [`profile`]: number, kinds and ages of inputs and outputs.
//! - `plan`: the coins that each transaction spends. `coins`: the unspent coins; `split`: most of them, recomputed on
//!   demand.
//! - `keys`, `sign`, `build`, `ids`: serialization. `pipeline`: threads. `files`: block files.
//!
//! Absent on purpose: validation. Others check that the chain is valid (the tests, Core, ffwd itself).

mod build;
mod coin;
mod coins;
pub(crate) mod files;
mod ids;
pub(crate) mod keys;
mod pipeline;
mod plan;
pub mod profile;
mod rng;
mod sign;
mod split;
#[cfg(test)]
mod tests;

pub use profile::Profile;

use consensus::{Chain, Params};
use files::BlockFiles;
use keys::Keys;
use plan::{Planner, Shape};
use primitives::Height;
use serde::Serialize;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Instant;

/// Minimum number of coins of a chain: with fewer, a full block is not like a real one.
pub const UTXOS_MIN: u64 = 1_000;
/// Maximum number of coins of a chain: somewhat more than mainnet has. With many more, regtest's money would not be
/// enough for the fees.
pub const UTXOS_MAX: u64 = 200_000_000;
/// Maximum height of a chain. Block times begin in 2011, and none may be in the future.
pub const HEIGHT_MAX: u32 = 1_400_000;
/// Height up to which blocks are ten minutes apart; in a higher chain they are five.
const HEIGHT_SPACED: u32 = HEIGHT_MAX / 2;
/// Coins for each key of the pool, and the minimum and maximum number of keys.
const COINS_PER_KEY: u64 = 64;
const KEYS_MIN: u64 = 1_024;
const KEYS_MAX: u64 = 16_384;

/// Whether signatures verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Signatures {
    /// They do.
    #[default]
    Real,
    /// They have the right size and encoding, but random contents, for works that do not verify them. Signing takes
    /// nearly all the time of generating a chain.
    Fake,
}

impl Signatures {
    /// The name that `--signatures` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Signatures::Real => "real",
            Signatures::Fake => "fake",
        }
    }
}

impl fmt::Display for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Signatures {
    type Err = String;

    fn from_str(name: &str) -> Result<Signatures, String> {
        match name {
            "real" => Ok(Signatures::Real),
            "fake" => Ok(Signatures::Fake),
            _ => Err(format!("signatures are real or fake, not {name:?}")),
        }
    }
}

/// Which chain to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory to create. Blocks are written to `regtest/blocks` in it.
    pub out: PathBuf,
    /// Full blocks. Each takes 0.14 MB of memory until the end (36 bytes for each txid). Each coin of the first phase
    /// takes 2 bytes, and some 60 after it was spent.
    pub blocks: u32,
    /// Chains of different seeds have nothing in common.
    pub seed: u64,
    /// Number of coins that are created before the first full block.
    pub utxos: u64,
    /// Number of empty blocks after the full ones.
    pub tail: u32,
    /// Whether signatures verify.
    pub signatures: Signatures,
    /// The model of the full blocks.
    pub profile: Profile,
    /// Threads that make transactions; `None` for one on each core. Changes no byte.
    pub threads: Option<NonZeroUsize>,
}

impl Options {
    /// A chain with real signatures, a million coins and no tail.
    pub fn new(out: impl Into<PathBuf>, blocks: u32, seed: u64) -> Options {
        Options {
            out: out.into(),
            blocks,
            seed,
            utxos: 1_000_000,
            tail: 0,
            signatures: Signatures::default(),
            profile: Profile::default(),
            threads: None,
        }
    }
}

/// The progress.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Blocks written.
    pub blocks: u32,
    /// Total number of blocks to write.
    pub blocks_total: u32,
    /// Bytes written.
    pub bytes: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// Estimated seconds left, if known.
    pub seconds_left: Option<f64>,
}

/// What was made.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Height of the last block.
    pub height: u32,
    /// Its hash, as RPC prints it.
    pub bestblock: String,
    /// Full blocks.
    pub blocks_full: u32,
    /// Transactions of all blocks except genesis, coinbases included.
    pub transactions: u64,
    /// Inputs of all blocks, without those of coinbases.
    pub inputs: u64,
    /// Outputs of all blocks except genesis, including those that create no coin.
    pub outputs: u64,
    /// Coins at the tip, as `gettxoutsetinfo` counts them.
    pub txouts: u64,
    /// Bytes of the block files.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Why a chain cannot be made.
#[derive(Debug)]
pub enum Error {
    /// The number of coins is not allowed.
    Utxos(u64),
    /// There are more blocks than block times.
    TooHigh {
        /// The height that the chain would have; `None` if it does not fit in 32 bits.
        height: Option<u32>,
    },
    /// The directory already has blocks, or other files of a node.
    Taken {
        /// The file that was found.
        found: PathBuf,
    },
    /// The world.
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl Error {
    fn io(what: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { what, path: path.to_owned(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Utxos(utxos) => write!(f, "{utxos} coins: give from {UTXOS_MIN} to {UTXOS_MAX} as --utxos"),
            Error::TooHigh { height: Some(height) } => {
                write!(
                    f,
                    "the chain would reach height {height}, the limit is {HEIGHT_MAX}: ask for fewer blocks, tail or utxos"
                )
            }
            Error::TooHigh { height: None } => {
                write!(f, "the chain would have more than {HEIGHT_MAX} blocks: ask for fewer")
            }
            Error::Taken { found } => {
                write!(f, "{} is there already: give an empty directory, or remove what is in it", found.display())
            }
            Error::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::StorageFull => {
                        write!(f, "; free some space, remove the written files, and start again")
                    }
                    io::ErrorKind::PermissionDenied => write!(f, "; give a directory that you may write to"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Generates a chain; calls `progress` after each block.
///
/// # Errors
///
/// [`Error`]. After a failure, the files written so far remain.
pub fn generate(options: &Options, mut progress: impl FnMut(Progress)) -> Result<Report, Error> {
    let start = Instant::now();
    let shape = shape(options)?;
    let params = Params::new(Chain::Regtest);
    let directory = options.out.join(Chain::Regtest.net_dir()).join("blocks");
    let spacing = params.pow_target_spacing / if shape.height() > Height::new(HEIGHT_SPACED) { 2 } else { 1 };
    let mut files = BlockFiles::create(&directory, &params, spacing)?;
    let threads = options.threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let count = (options.utxos / COINS_PER_KEY).clamp(KEYS_MIN, KEYS_MAX);
    let keys = Keys::new(options.seed, count as usize, threads.get());
    let planner = Planner::new(options.profile.model(), params, shape, options.utxos, &keys, options.seed);
    let totals = pipeline::run(options, &keys, threads, planner, &mut files, |height, files| {
        let seconds = start.elapsed().as_secs_f64();
        progress(Progress {
            blocks: height.to_u32(),
            blocks_total: shape.height().to_u32(),
            bytes: files.bytes(),
            seconds,
            seconds_left: shape.share_done(height, options.signatures).map(|share| seconds / share - seconds),
        });
    })?;
    Ok(Report {
        height: shape.height().to_u32(),
        bestblock: files.tip().to_string(),
        blocks_full: options.blocks,
        transactions: totals.transactions,
        inputs: totals.inputs,
        outputs: totals.outputs,
        txouts: totals.txouts,
        bytes: files.bytes(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn shape(options: &Options) -> Result<Shape, Error> {
    if !(UTXOS_MIN..=UTXOS_MAX).contains(&options.utxos) {
        return Err(Error::Utxos(options.utxos));
    }
    match Shape::new(options.utxos, options.blocks, options.tail) {
        Some(shape) if shape.height() <= Height::new(HEIGHT_MAX) => Ok(shape),
        shape => Err(Error::TooHigh { height: shape.map(|shape| shape.height().to_u32()) }),
    }
}
