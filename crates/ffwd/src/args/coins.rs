//! The options of `ffwd coins`.

use super::indexes::block;
use super::{Common, HashType};
use crate::options::values::{hash, prune};
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use node::jobs::BlockId;
use node::options::Prune;
use primitives::{BlockHash, Height};
use std::path::PathBuf;

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Coins {
    /// Show count, amount, hash, script types and ages of the UTXO set at the tip, or of a snapshot file
    Info(CoinsInfo),
    /// Write the UTXO set as a snapshot: the file that Core's dumptxoutset writes, at any height
    Dump(CoinsDump),
    /// Load a snapshot as a second chainstate, like Core's loadtxoutset; ffwd sync or bitcoind then validates the past
    Load(CoinsLoad),
    /// Compare two snapshot files: - marks coins only in the first, + only in the second, ! changed coins
    Diff(CoinsDiff),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CoinsInfo {
    /// Snapshot file, in place of the data directory
    #[arg(value_name = "FILE", conflicts_with = "height")]
    pub(crate) file: Option<PathBuf>,
    /// Hash of the UTXO set to compute [default: hash_serialized_3; with --height muhash]
    #[arg(long, value_enum)]
    pub(crate) hash: Option<HashType>,
    /// Show the set as of this height or block hash, from coinstatsindex, and what that block changed [default: the tip, from the coins]
    #[arg(long, value_name = "HEIGHT|HASH", value_parser = block)]
    pub(crate) height: Option<BlockId>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl CoinsInfo {
    /// The hash that is wanted of the set at the tip, or of a file.
    pub(crate) fn hash(&self) -> HashType {
        self.hash.unwrap_or(HashType::Serialized)
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CoinsDump {
    /// File to write, which must not exist; `-`: standard output. It bears its name once it is complete
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The UTXO set at this height of the chain, computed with undo data; temporary files go next to FILE, or with - into ffwd/ in the network's directory [default: the tip]
    #[arg(long, value_name = "HEIGHT", conflicts_with = "hash", value_parser = clap::value_parser!(u32).map(Height::new))]
    pub(crate) height: Option<Height>,
    /// The same, by the hash of the block [default: the tip]
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub(crate) hash: Option<BlockHash>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What the user vouches for.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Trust {
    /// hash_serialized_3 of a snapshot whose base block Core does not know. You trust it until the past is validated [default: the snapshots that Core knows]
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub(crate) snapshot_hash: Option<BlockHash>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CoinsLoad {
    /// Snapshot file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// As for sync; nothing is removed here [default: 0]
    #[arg(long, value_name = "MiB", allow_negative_numbers = true, value_parser = prune)]
    pub(crate) prune: Option<Prune>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CoinsDiff {
    /// The first snapshot file
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,
    /// The second
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,
    /// Print only the counts, as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}
