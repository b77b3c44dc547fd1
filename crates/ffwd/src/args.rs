//! The options, as clap reads them. Names are Core's where Core has one; what they mean together is `settings`.
//!
//! Absent on purpose: defaults that depend on the machine or the network, and everything that bitcoin.conf may say.

#[cfg(feature = "lab")]
pub(crate) mod lab;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use consensus::Chain;
use node::options::{Prune, SetHash};
use primitives::{Hash256, Height, U256, Work, hex};
use std::path::PathBuf;

/// Workers that may be asked for: more than any machine has cores, and few enough for threads to start.
pub(crate) const PAR_MAX: i64 = 1024;
/// Least of Core's `-dbcache`, in MiB. Source: Bitcoin Core b88bffe, kernel/caches.h.
pub(crate) const DBCACHE_MIB_MIN: u64 = 4;
/// Most of it, in MiB: 16 TiB, so that bytes never overflow.
pub(crate) const DBCACHE_MIB_MAX: u64 = 16 << 20;
/// Least of `-prune`, in MiB. Source: Bitcoin Core b88bffe, validation.h, `MIN_DISK_SPACE_FOR_BLOCK_FILES`.
const PRUNE_MIB_MIN: i64 = 550;

/// Fast-forwards a Bitcoin node: from nothing to the tip of the chain, in Bitcoin Core's own files.
#[derive(Parser, Debug)]
#[command(name = "ffwd", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make a realistic chain, validate it, show what happened; needs nothing, leaves a report
    #[cfg(feature = "lab")]
    Demo(lab::Demo),
    /// Blocks from peers: bring the folder to their tip, and follow it
    Sync(Sync),
    /// Blocks from the block files that are there: build index, undo files and coins
    Reindex(Reindex),
    /// Blocks from bootstrap.dat or loose block files
    Import(Import),
    /// Check the last blocks again, as Core's verifychain
    Verify(Verify),
    /// What is in the folder, and what would be done next
    Info(Info),
    /// The set of unspent coins
    #[command(subcommand)]
    Coins(Coins),
    /// Make chains, measure, compare, plot
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(lab::Lab),
}

/// Which folder of which network, and what every command over one needs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Folder and network")]
pub(crate) struct Common {
    /// The data directory [default: Core's]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// The configuration file, relative to the data directory [default: bitcoin.conf]
    #[arg(long, value_name = "FILE")]
    pub(crate) conf: Option<PathBuf>,
    /// The network [default: main]
    #[arg(long, value_parser = chain_parser())]
    pub(crate) chain: Option<Chain>,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the blocks folder lies, if not in the data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) blocksdir: Option<PathBuf>,
    /// Memory for coins, blocks in flight and tables, at least 4 [default: 1024, below 4 GiB of memory 450]
    #[arg(long, value_name = "MiB", value_parser = clap::value_parser!(u64).range(DBCACHE_MIB_MIN..=DBCACHE_MIB_MAX))]
    pub(crate) dbcache: Option<u64>,
    /// Workers; 0 for one a core, negative to leave that many cores free [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Assume the scripts of this block and its ancestors valid; 0 to verify all [default: Core's]
    #[arg(long, value_name = "HASH|0", value_parser = hash)]
    pub(crate) assumevalid: Option<Hash256>,
    /// Work below which no chain counts as the real one [default: Core's]
    #[arg(long, value_name = "HEX", value_parser = work)]
    pub(crate) minimumchainwork: Option<Work>,
    /// On signet: the script that blocks are signed for
    #[arg(long, value_name = "HEX", value_parser = challenge)]
    pub(crate) signetchallenge: Option<Challenge>,
    /// On regtest: where segwit, bip34, dersig, cltv or csv begins
    #[arg(long, value_name = "NAME@H", value_parser = activation)]
    pub(crate) testactivationheight: Vec<Activation>,
    /// On regtest: follow BIP 94
    #[arg(long, value_name = "OPTION")]
    pub(crate) test: Vec<TestOption>,
}

/// What commands take that write blocks and coins.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Work")]
pub(crate) struct Writing {
    /// Stop exactly at this height; 0 for not
    #[arg(long, value_name = "N")]
    pub(crate) stopatheight: Option<Height>,
    /// Remove old block files, to keep about so much of them, at least 550; 0 keeps all, 1 only goes on in a pruned folder
    #[arg(long, value_name = "MiB", allow_negative_numbers = true, value_parser = prune)]
    pub(crate) prune: Option<Prune>,
    /// Whether block files of a new folder are obfuscated [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) blocksxor: Option<bool>,
    /// More to look at: the time of each stage in debug.log; allocations, of an ffwd built with the feature heap
    #[arg(long, value_name = "CATEGORY")]
    pub(crate) debug: Vec<DebugCategory>,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Sync {
    /// Connect only to this node (repeatable); 0 for none
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Vec<String>,
    /// Keep a connection to this node besides (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub(crate) addnode: Vec<String>,
    /// Serve peers that connect here (repeatable): IP or IP:PORT
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// A SOCKS5 proxy for every connection: HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub(crate) proxy: Option<String>,
    /// End where the peers' best chain ends, instead of following it. One must have told its chain; others of --connect and --addnode that cannot be reached are waited for at most a minute
    #[arg(long)]
    pub(crate) exit_at_tip: bool,
    /// Whether BIP 324 transport is offered and tried first [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) v2transport: Option<bool>,
    /// Whether DNS seeds are asked for peers [default: 1, with --connect 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) dnsseed: Option<bool>,
    /// Outbound connections to seek
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(8..=12))]
    pub(crate) maxoutbound: u8,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reindex {
    /// Rebuild the coins alone, beside the old ones
    #[arg(long)]
    pub(crate) chainstate_only: bool,
    /// Which hash of the set to compute at the end
    #[arg(long, value_enum, default_value_t)]
    pub(crate) hash: HashType,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// Files of blocks, in the order in which they are read
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Verify {
    /// How thorough: 0 reads blocks, 1 checks each alone, 2 reads undo data, 3 disconnects them in memory, 4 connects them again
    #[arg(long, value_name = "0..4", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) level: u8,
    /// How many blocks, counted from the tip; 0 for all
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) blocks: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Coins {
    /// Counts, amounts and hash of the set at the tip, as Core's gettxoutsetinfo
    Info(CoinsInfo),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CoinsInfo {
    /// Which hash of the set to compute
    #[arg(long, value_enum, default_value_t = HashType::Serialized)]
    pub(crate) hash: HashType,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Which hash of the set, by the names of gettxoutsetinfo.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum HashType {
    #[default]
    None,
    #[value(name = "hash_serialized_3")]
    Serialized,
    Muhash,
}

impl From<HashType> for SetHash {
    fn from(hash: HashType) -> SetHash {
        match hash {
            HashType::None => SetHash::None,
            HashType::Serialized => SetHash::Serialized,
            HashType::Muhash => SetHash::Muhash,
        }
    }
}

/// A category of debug.log that is off by default.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DebugCategory {
    /// The time of each stage, in debug.log
    Bench,
    /// Every allocation, in dhat-heap.json beside debug.log; slow
    Heap,
}

/// An option of Core's `-test` that changes a rule.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestOption {
    Bip94,
}

/// The bytes of a signet challenge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Challenge(pub(crate) Vec<u8>);

/// Where a deployment begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Activation {
    pub(crate) name: String,
    pub(crate) height: Height,
}

fn chain_parser() -> impl TypedValueParser<Value = Chain> {
    PossibleValuesParser::new(Chain::ALL.map(Chain::name))
        .map(|name| Chain::from_name(&name).expect("only names of chains are possible values"))
}

/// A hash as Core's options take it: up to 64 hexadecimal digits, with or without 0x before them.
pub(crate) fn hash(text: &str) -> Result<Hash256, String> {
    let number = U256::from_hex(text.strip_prefix("0x").unwrap_or(text));
    let why = || format!("{text:?} is no block hash: up to 64 hexadecimal digits are wanted, or 0");
    Ok(Hash256(number.ok_or_else(why)?.to_le_bytes()))
}

/// Work as Core's options take it: up to 64 hexadecimal digits, with or without 0x before them.
pub(crate) fn work(text: &str) -> Result<Work, String> {
    let number = U256::from_hex(text.strip_prefix("0x").unwrap_or(text));
    number.map(Work).ok_or_else(|| format!("{text:?} is no work: up to 64 hexadecimal digits are wanted"))
}

pub(crate) fn challenge(text: &str) -> Result<Challenge, String> {
    hex::decode(text)
        .map(Challenge)
        .ok_or_else(|| format!("{text:?} is no script: pairs of hexadecimal digits are wanted"))
}

pub(crate) fn activation(text: &str) -> Result<Activation, String> {
    let (name, height) = text.split_once('@').ok_or_else(|| format!("{text:?} has no @: NAME@HEIGHT is wanted"))?;
    let height = height.parse().map_err(|why| format!("the height of {text:?} is no number: {why}"))?;
    Ok(Activation { name: name.to_owned(), height })
}

/// What `-prune` says: 0 for all files, 1 for manual, else MiB to keep. The words are Core's.
/// Source: Bitcoin Core b88bffe, node/blockmanager_args.cpp.
pub(crate) fn prune(text: &str) -> Result<Prune, String> {
    match text.parse() {
        Ok(0) => Ok(Prune::Off),
        Ok(1) => Ok(Prune::Manual),
        Ok(..0) => Err("Prune cannot be configured with a negative value.".to_owned()),
        Ok(mib @ PRUNE_MIB_MIN..=PRUNE_MIB_MAX) => Ok(Prune::Target { bytes: mib.unsigned_abs() << 20 }),
        Ok(..PRUNE_MIB_MIN) => {
            Err(format!("Prune configured below the minimum of {PRUNE_MIB_MIN} MiB.  Please use a higher number."))
        }
        _ => Err(format!("{text:?} is no size: 0, 1, or a number of MiB from {PRUNE_MIB_MIN} on is wanted")),
    }
}

/// Bytes of this many MiB fit in 63 bits.
const PRUNE_MIB_MAX: i64 = (1 << 43) - 1;

fn zero_or_one(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("0 or 1 is wanted".to_owned()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    pub(crate) fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(std::iter::once("ffwd").chain(line.split_whitespace())).map(|cli| cli.command)
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_use_says_why() {
        use ErrorKind::*;
        for (line, kind, want) in [
            ("", DisplayHelpOnMissingArgumentOrSubcommand, "Usage"),
            ("rewind", InvalidSubcommand, "rewind"),
            ("reindex --datdir /x", UnknownArgument, "--datadir"),
            ("reindex --chain testnet3", InvalidValue, "testnet4"),
            ("reindex --dbcache 3", ValueValidation, "4.."),
            ("reindex --dbcache lots", ValueValidation, "lots"),
            ("reindex --par 2000", ValueValidation, "2000"),
            ("reindex --hash sha256", InvalidValue, "hash_serialized_3"),
            ("reindex --prune 2", ValueValidation, "Prune configured below the minimum of 550 MiB.  Please use"),
            ("reindex --prune 549", ValueValidation, "Please use a higher number."),
            ("reindex --prune -1", ValueValidation, "Prune cannot be configured with a negative value."),
            ("reindex --prune 99999999999999999999", ValueValidation, "is no size"),
            ("reindex --assumevalid xyz", ValueValidation, "is no block hash"),
            ("reindex --minimumchainwork ''", ValueValidation, "is no work"),
            ("reindex --stopatheight -5", UnknownArgument, "-5"),
            ("reindex --blocksxor yes", ValueValidation, "0 or 1"),
            ("reindex --signetchallenge 5", ValueValidation, "is no script"),
            ("reindex --testactivationheight csv", ValueValidation, "has no @"),
            ("reindex --testactivationheight csv@high", ValueValidation, "is no number"),
            ("reindex --test addrman", InvalidValue, "bip94"),
            ("reindex --debug net", InvalidValue, "bench"),
            ("reindex --chain main --chain test", ArgumentConflict, "--chain"),
            ("import", MissingRequiredArgument, "FILE"),
            ("verify --level 5", ValueValidation, "0..=4"),
            ("sync --maxoutbound 13", ValueValidation, "8..=12"),
            ("coins", DisplayHelpOnMissingArgumentOrSubcommand, "info"),
            ("coins dump x", InvalidSubcommand, "dump"),
        ] {
            let why = parse(line).expect_err(line);
            assert_eq!(why.kind(), kind, "{line}: {why}");
            assert!(why.to_string().contains(want), "{line}: {why}");
        }
    }

    /// Without the feature there is nothing of the lab, in the help neither.
    #[test]
    fn demo_and_lab_are_there_with_their_feature() {
        for name in ["demo", "lab"] {
            let there = Cli::command().find_subcommand(name).is_some();
            assert_eq!(there, cfg!(feature = "lab"), "{name}");
        }
    }

    #[test]
    fn options_are_read() {
        let line = "reindex --chainstate-only --hash muhash --datadir /d --chain testnet4 --json --dbcache 4 --par -1 --assumevalid 0 \
                    --minimumchainwork 0xff --stopatheight 7 --prune 550 --blocksxor 0 --debug bench --debug bench";
        let Ok(Command::Reindex(got)) = parse(line) else { panic!("{line}") };
        assert!(got.chainstate_only && got.common.json);
        assert_eq!(SetHash::from(got.hash), SetHash::Muhash);
        assert_eq!((got.common.chain, got.common.dbcache, got.common.par), (Some(Chain::Testnet4), Some(4), Some(-1)));
        assert_eq!(got.common.assumevalid, Some(Hash256::ZERO));
        assert_eq!(got.common.minimumchainwork, Some(Work(U256::from_u64(255))));
        assert_eq!(
            (got.writing.stopatheight, got.writing.prune, got.writing.blocksxor),
            (Some(7), Some(Prune::Target { bytes: 550 << 20 }), Some(false))
        );
        assert_eq!(got.writing.debug.len(), 2);

        let line = "sync --chain regtest --connect 127.0.0.1:1 --connect [::1]:2 --testactivationheight segwit@5 --test=bip94 --exit-at-tip";
        let Ok(Command::Sync(got)) = parse(line) else { panic!("{line}") };
        assert_eq!(got.connect, ["127.0.0.1:1", "[::1]:2"]);
        assert_eq!(got.common.testactivationheight, [Activation { name: "segwit".into(), height: 5 }]);
        assert_eq!((got.common.test.len(), got.exit_at_tip, got.maxoutbound), (1, true, 8));

        let Ok(Command::Coins(Coins::Info(got))) = parse("coins info") else { panic!("coins info") };
        assert_eq!(SetHash::from(got.hash), SetHash::Serialized, "Core's default");
        let Ok(Command::Verify(got)) = parse("verify") else { panic!("verify") };
        assert_eq!((got.level, got.blocks), (3, 6), "Core's defaults");
    }

    #[test]
    fn hashes_are_numbers() {
        let tip = "00000000000000000000ccebd6d74d9194d8dcdc1d177c478e094bfad51ba5ac";
        for (row, text, want) in [
            ("whole", tip, Hash256::from_display(tip)),
            ("without leading zeros", tip.trim_start_matches('0'), Hash256::from_display(tip)),
            ("with 0x", &format!("0x{tip}"), Hash256::from_display(tip)),
            ("none", "0", Some(Hash256::ZERO)),
            ("too long", &format!("0{tip}"), None),
            ("empty", "", None),
        ] {
            assert_eq!(hash(text).ok(), want, "{row}");
        }
    }
}
