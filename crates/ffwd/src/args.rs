//! The options, as clap reads them. Names are Core's where Core has one; what they mean together is `settings`.
//!
//! Absent on purpose: defaults that depend on the machine or the network, and everything that bitcoin.conf may say.

#[cfg(feature = "audit")]
pub(crate) mod audit;
pub(crate) mod coins;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod download;
#[cfg(feature = "export")]
pub(crate) mod export;
pub(crate) mod hints;
pub(crate) mod import;
pub(crate) mod indexes;
#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(feature = "server")]
pub(crate) mod server;
pub(crate) mod service;

pub(crate) use coins::{Coins, CoinsInfo};

use crate::options::Place;
use crate::options::given::Given;
use crate::options::values::{CoresWords, chain_parser};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use consensus::Chain;
use kernels::cpu::Cpu;
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use node::options::Prune;
use node::utxo_stats::SetHash;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Commit and compiler of this program.
pub(crate) const BUILD: &str = env!("FFWD_BUILD");
/// The output of `--version`: version, commit and compiler.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FFWD_BUILD"), ")");

/// [`VERSION`], and the features.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| format!("{VERSION}\n{}", crate::features::line()));

/// Fast-forwards a Bitcoin node: from nothing to the tip of the chain, in Bitcoin Core's own files.
#[derive(Parser, Debug)]
#[command(name = "ffwd", version = VERSION, long_version = LONG_VERSION.as_str())]
#[command(arg_required_else_help = true, args_override_self = true)]
#[command(after_help = "ffwd help exit-codes lists the exit codes.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Generate a realistic chain, validate it, and draw a report; needs no network and no data
    #[cfg(feature = "demo")]
    Demo(demo::Demo),
    /// Download blocks from peers, validate them, and follow the chain
    Sync(Box<Sync>),
    /// Answer bitcoind's RPC and REST calls from the data directory, without peers
    #[cfg(feature = "server")]
    Serve(server::Serve),
    /// Stop the ffwd or bitcoind that works on the data directory, by its RPC port and cookie
    #[cfg(feature = "server")]
    Stop(server::Stop),
    /// Rebuild block index, undo files and UTXO set from the block files of the data directory
    Reindex(Reindex),
    /// Import blocks from files such as bootstrap.dat
    Import(import::Import),
    /// Check the last blocks again, as Core's verifychain does
    Verify(Verify),
    /// Show what the data directory holds, and the next step
    Info(Info),
    /// Show a network's parameters: assumed-valid block, minimum work, snapshots, deployments, port
    Params(Params),
    /// Check the data directory: each defect, its effect, and the command that repairs it; changes nothing
    Doctor(doctor::Doctor),
    /// Repair the data directory with the least work: keep readable data, download damaged or missing blocks
    Repair(doctor::Repair),
    /// Build optional indexes from the blocks of the data directory
    Index(indexes::Index),
    /// Show a transaction, found by txindex
    Tx(indexes::Tx),
    /// Show the basic filter of a block and its header, from blockfilterindex
    Filter(indexes::Filter),
    /// Show the transaction that spends an output, from txospenderindex
    Spender(indexes::Spender),
    /// Show the tweaks of a block for receivers of silent payments (BIP 352), from silentpaymentindex
    Silentpayments(indexes::SilentPayments),
    /// Show a running sync on a full screen
    #[cfg(feature = "top")]
    Top(service::Top),
    /// Write man pages, shell completions and reference pages into a directory
    #[cfg(feature = "manuals")]
    Manuals(service::Manuals),
    /// Inspect, write, load and compare UTXO sets
    #[command(subcommand)]
    Coins(Coins),
    /// Audit the whole chain in parts, on as many machines as there are
    #[cfg(feature = "audit")]
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Write blocks, transactions, inputs with what they spend, and outputs to Parquet files
    #[cfg(feature = "export")]
    Export(export::Export),
    /// Write hints (BIP 456): which outputs of each block are unspent
    #[command(subcommand)]
    Hints(hints::Hints),
    /// Generate chains, measure, compare, plot
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    Lab(lab::Lab),
}

/// Data directory, network, and what every command on one takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Data directory and network")]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) core: Given<{ Place::Common as u8 }>,
    /// Ignore includeconf lines of the configuration file
    #[arg(long, hide = true)]
    pub(crate) noincludeconf: bool,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
    /// Instruction set to use, for benchmarks and tests; auto: the best of this processor [default: auto]
    #[arg(long, value_name = "KIND", value_parser = cpu_parser())]
    pub(crate) cpu: Option<Cpu>,
}

/// What happens to a file that is there.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Overwrite {
    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
}

/// Options of the commands that write blocks and coins.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Validation and storage")]
pub(crate) struct Writing {
    #[command(flatten)]
    pub(crate) core: Given<{ Place::Writing as u8 }>,
    /// What `coins load` has in place of `--prune`.
    #[arg(skip)]
    pub(crate) prune: Option<Prune>,
    /// Disable one optimization, for benchmarks (repeatable)
    #[cfg(feature = "ablation")]
    #[arg(long, value_name = "IDEA", value_parser = idea_parser())]
    pub(crate) without: Vec<Idea>,
    #[command(flatten)]
    pub(crate) signature_hints: SignatureHintsFile,
    #[command(flatten)]
    pub(crate) indexes: indexes::Flags,
}

/// Hints about signatures.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SignatureHintsFile {
    /// Verify signatures faster with this file of `hints make --signatures` [default: hints that earlier runs kept in the data directory]. It is not trusted: wrong hints cost time, and change no verdict
    #[arg(long, value_name = "FILE")]
    pub(crate) signature_hints: Option<PathBuf>,
}

/// Options of the commands that download blocks from peers.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WithPeers {
    #[command(flatten)]
    pub(crate) core: Given<{ Place::Sync as u8 }>,
    /// Use the blocks of this data directory, blocks directory or block file, in addition to peers (repeatable). It is only read, with any obfuscation key, plain or compressed (gzip, xz, zstd); its node may run
    #[arg(long, value_name = "PATH")]
    pub(crate) from: Vec<PathBuf>,
    /// Download window: blocks requested beyond the lowest missing one, 1 to 100000 [default: 1024, as in Core]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) window: Option<u32>,
    #[command(flatten)]
    pub(crate) download: download::Download,
    /// Report how each line of bitcoin.conf and settings.json is handled, and exit
    #[arg(long)]
    pub(crate) check_configuration: bool,
    /// Number of outbound connections, 8 to 12
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(8..=12))]
    pub(crate) maxoutbound: u8,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Sync {
    #[command(flatten)]
    pub(crate) with_peers: WithPeers,
    /// Exit when the best chain of the peers is connected, instead of following it. Waits for the headers of one peer, and up to a minute for the other peers of --connect and --addnode
    #[arg(long)]
    pub(crate) exit_at_tip: bool,
    /// Start from this snapshot of the UTXO set: load its coins, connect the blocks from there to the tip, then validate the past in the same run [default: none]. A file; a pipe; -: standard input; http:// or https://: a mirror of the file (repeatable: all of them at once; no copy is kept; a break is resumed); auto: the mirrors of the highest snapshot of --snapshot-list that this program knows; peers: chunks from the outbound peers that serve the highest snapshot that this program knows (BIP 452, a draft), peers:HASH: of the block with this hash
    #[arg(long, value_name = "FILE|URL|-|auto|peers")]
    pub(crate) snapshot: Vec<String>,
    /// List of network, height and URL, one a line, for --snapshot auto [default: snapshots.txt in the data directory]
    #[arg(long, value_name = "FILE", requires = "snapshot")]
    pub(crate) snapshot_list: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: coins::Trust,
    /// Build the UTXO set with these hints (BIP 456) up to their height, without coin look-ups [default: none]. Needs --prune and a data directory without blocks. Below that height amounts, maturity and locks of spent coins are not checked, as scripts are not. Invalid hints are detected; the sync then falls back to full validation
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub(crate) hints: Option<PathBuf>,
    #[cfg(feature = "server")]
    #[command(flatten)]
    pub(crate) server: server::Server,
    #[command(flatten)]
    pub(crate) own_files: service::OwnFiles,
    #[command(flatten)]
    pub(crate) notify: service::Notify,
    #[command(flatten)]
    pub(crate) before: Before,
}

/// What a sync does first.
pub(crate) type Before = Given<{ Place::Before as u8 }>;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reindex {
    /// Rebuild only the UTXO set; the old one stays until the new one is complete
    #[arg(long)]
    pub(crate) chainstate_only: bool,
    /// Hash of the UTXO set to compute at the end
    #[arg(long, value_enum, default_value_t)]
    pub(crate) hash: HashType,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Verify {
    /// Depth: 0 reads blocks, 1 checks them, 2 reads undo data, 3 disconnects them in memory, 4 connects them again
    #[arg(long, value_name = "0..4", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) level: u8,
    /// Number of blocks below the tip; 0: all
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) blocks: u32,
    #[command(flatten)]
    pub(crate) signature_hints: SignatureHintsFile,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Params {
    /// Network [default: main]
    #[arg(long, value_parser = chain_parser())]
    pub(crate) chain: Option<Chain>,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Hashes of the UTXO set, by the names of gettxoutsetinfo.
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

fn cpu_parser() -> impl TypedValueParser<Value = Cpu> {
    PossibleValuesParser::new(Cpu::ALL.map(Cpu::name))
        .map(|name| Cpu::from_name(&name).expect("only names of kinds are possible values"))
}

#[cfg(feature = "ablation")]
fn idea_parser() -> impl TypedValueParser<Value = Idea> {
    PossibleValuesParser::new(Idea::ALL.map(Idea::name))
        .map(|name| Idea::from_name(&name).expect("only names of ideas are possible values"))
}

/// Core's words for why the command line is wrong, if they are all there is to say.
pub(crate) fn cores_words(error: &clap::Error) -> Option<String> {
    use std::error::Error;
    let named = |kind| error.get(kind).map(ToString::to_string);
    let option = named(ContextKind::InvalidArg).unwrap_or_default();
    let option = option.trim_start_matches('-').split(' ').next().unwrap_or_default();
    if error.kind() == ErrorKind::InvalidValue && matches!(option, "debug" | "debugexclude") {
        let value = named(ContextKind::InvalidValue).unwrap_or_default();
        return Some(format!("Unsupported logging category -{option}={value}."));
    }
    error.source().and_then(|why| why.downcast_ref::<CoresWords>()).map(ToString::to_string)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::options::values::{Activation, Dbcache, TestOption, hash};
    use clap::CommandFactory;
    use primitives::{BlockHash, Height, U256, Work};

    pub(crate) fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(std::iter::once("ffwd").chain(line.split_whitespace())).map(|cli| cli.command)
    }

    #[test]
    fn cli_definition_passes_claps_checks() {
        Cli::command().debug_assert();
    }

    #[test]
    fn parse_refuses_wrong_use_with_the_reason() {
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
            ("reindex --prune 99999999999999999999", ValueValidation, "is not a size"),
            ("reindex --assumevalid xyz", ValueValidation, "is not a block hash"),
            ("reindex --minimumchainwork ''", ValueValidation, "Invalid minimum work specified (''), must be"),
            ("reindex --stopatheight -5", UnknownArgument, "-5"),
            ("reindex --blocksxor yes", ValueValidation, "0 or 1"),
            ("reindex --signetchallenge 5", ValueValidation, "-signetchallenge must be hex, not '5'."),
            (
                "reindex --testactivationheight csv",
                ValueValidation,
                "Invalid format (csv) for -testactivationheight=name@height.",
            ),
            ("reindex --testactivationheight taproot@1", ValueValidation, "Invalid name (taproot@1) for"),
            ("reindex --testactivationheight csv@high", ValueValidation, "Invalid height value (csv@high) for"),
            ("reindex --test nosuch", InvalidValue, "bip94"),
            ("reindex --debug nett", InvalidValue, "bench"),
            ("import", MissingRequiredArgument, "FILE"),
            ("verify --level 5", ValueValidation, "0..=4"),
            ("sync --maxoutbound 13", ValueValidation, "8..=12"),
            ("coins", DisplayHelpOnMissingArgumentOrSubcommand, "info"),
            ("coins weigh x", InvalidSubcommand, "weigh"),
            ("coins dump", MissingRequiredArgument, "FILE"),
            ("coins dump x --height 1 --hash 2", ArgumentConflict, "--hash"),
            ("coins load x --snapshot-hash y", ValueValidation, "is not a block hash"),
            ("coins diff x", MissingRequiredArgument, "<B>"),
            ("hints make", MissingRequiredArgument, "FILE"),
            ("sync --hints x --snapshot y", ArgumentConflict, "--snapshot"),
            ("repair --snapshot x", UnknownArgument, "--snapshot"),
            ("repair --reindex 1", UnknownArgument, "--reindex"),
            ("repair --server 1", UnknownArgument, "--server"),
            ("repair --blocknotify x", UnknownArgument, "--blocknotify"),
            ("repair --debuglogfile x", UnknownArgument, "--debuglogfile"),
        ] {
            let why = parse(line).expect_err(line);
            assert_eq!(why.kind(), kind, "{line}: {why}");
            assert!(why.to_string().contains(want), "{line}: {why}");
        }
    }

    /// Without its feature a command is not there, in the help neither.
    #[test]
    fn commands_exist_only_with_their_feature() {
        for (name, has) in [
            ("audit", cfg!(feature = "audit")),
            ("demo", cfg!(feature = "demo")),
            ("export", cfg!(feature = "export")),
            ("lab", cfg!(feature = "lab")),
            ("manuals", cfg!(feature = "manuals")),
            ("serve", cfg!(feature = "server")),
            ("top", cfg!(feature = "top")),
        ] {
            assert_eq!(Cli::command().find_subcommand(name).is_some(), has, "{name}");
        }
    }

    #[test]
    fn parse_reads_every_kind_of_option() {
        let line = "reindex --chainstate-only --hash muhash --datadir /d --chain testnet4 --json --dbcache 4 --par -1 --assumevalid 0 \
                    --minimumchainwork 0xff --stopatheight 7 --prune 550 --blocksxor 0 --debug bench --debug bench";
        let Ok(Command::Reindex(got)) = parse(line) else { panic!("{line}") };
        assert!(got.chainstate_only && got.common.json);
        assert_eq!(SetHash::from(got.hash), SetHash::Muhash);
        assert_eq!(
            (got.common.core.one("chain"), got.common.core.one("dbcache"), got.common.core.one("par")),
            (Some(Chain::Testnet4), Some(Dbcache::Mib(4)), Some(-1_i64))
        );
        assert_eq!(got.common.core.one("assumevalid"), Some(BlockHash::ZERO));
        assert_eq!(got.common.core.one("minimumchainwork"), Some(Work(U256::from_u64(255))));
        assert_eq!(
            (got.writing.core.one("stopatheight"), got.writing.core.one("prune"), got.writing.core.one("blocksxor")),
            (Some(Height::new(7)), Some(Prune::Target { bytes: 550 << 20 }), Some(false))
        );
        assert_eq!(got.writing.core.many::<&str>("debug").len(), 2);

        let line = "sync --chain regtest --connect 127.0.0.1:1 --connect [::1]:2 --testactivationheight segwit@5 --test=bip94 --exit-at-tip";
        let Ok(Command::Sync(got)) = parse(line) else { panic!("{line}") };
        assert_eq!(got.with_peers.core.many::<String>("connect"), ["127.0.0.1:1", "[::1]:2"]);
        assert_eq!(
            got.with_peers.common.core.many::<Activation>("testactivationheight"),
            [Activation { name: "segwit".into(), height: Height::new(5) }]
        );
        let tests = got.with_peers.common.core.many::<TestOption>("test").len();
        assert_eq!((tests, got.exit_at_tip, got.with_peers.maxoutbound), (1, true, 8));

        let Ok(Command::Coins(Coins::Info(got))) = parse("coins info") else { panic!("coins info") };
        assert_eq!(SetHash::from(got.hash()), SetHash::Serialized, "Core's default");
        let Ok(Command::Verify(got)) = parse("verify") else { panic!("verify") };
        assert_eq!((got.level, got.blocks), (3, 6), "Core's defaults");
    }

    #[test]
    fn hash_is_read_as_a_number() {
        let tip = "00000000000000000000ccebd6d74d9194d8dcdc1d177c478e094bfad51ba5ac";
        for (row, text, want) in [
            ("whole", tip, BlockHash::from_display(tip)),
            ("without leading zeros", tip.trim_start_matches('0'), BlockHash::from_display(tip)),
            ("with 0x", &format!("0x{tip}"), BlockHash::from_display(tip)),
            ("none", "0", Some(BlockHash::ZERO)),
            ("too long", &format!("0{tip}"), None),
            ("empty", "", None),
        ] {
            assert_eq!(hash(text).ok(), want, "{row}");
        }
    }
}
