//! The options, as clap reads them. Names are Core's where Core has one; what they mean together is `settings`.
//!
//! Absent on purpose: defaults that depend on the machine or the network, and everything that bitcoin.conf may say.

#[cfg(feature = "audit")]
pub(crate) mod audit;
pub(crate) mod coins;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod download;
#[cfg(feature = "export")]
pub(crate) mod export;
pub(crate) mod hints;
pub(crate) mod indexes;
#[cfg(feature = "lab")]
pub(crate) mod lab;
pub(crate) mod logging;
pub(crate) mod seeds;
#[cfg(feature = "server")]
pub(crate) mod server;
pub(crate) mod service;

pub(crate) use coins::{Coins, CoinsInfo};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};
use consensus::params::VersionBitsTimes;
use consensus::{Chain, Deployment};
use kernels::cpu::Cpu;
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use node::options::Prune;
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Height, U256, Work, hex};
use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Most worker threads: more than any machine has cores, and few enough for threads to start.
pub(crate) const PAR_MAX: i64 = 1024;
/// Least of Core's `-dbcache`, in MiB. Source: Bitcoin Core b88bffe, kernel/caches.h.
pub(crate) const DBCACHE_MIB_MIN: u64 = 4;
/// Most of it, in MiB: 16 TiB, so that bytes never overflow.
pub(crate) const DBCACHE_MIB_MAX: u64 = 16 << 20;
/// Least of `-prune`, in MiB. Source: Bitcoin Core b88bffe, validation.h, `MIN_DISK_SPACE_FOR_BLOCK_FILES`.
const PRUNE_MIB_MIN: i64 = 550;
/// Most of `-maxconnections`: more need more file descriptors than a process has.
pub(crate) const CONNECTIONS_MAX: u16 = 1000;

/// Commit and compiler of this program.
pub(crate) const BUILD: &str = env!("FFWD_BUILD");
/// What `--version` says: version, commit and compiler.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FFWD_BUILD"), ")");

/// The same, and the features.
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
#[expect(clippy::large_enum_variant, reason = "there is one, made once")]
pub(crate) enum Command {
    /// Generate a realistic chain, validate it, and draw a report; needs no network and no data
    #[cfg(feature = "demo")]
    Demo(demo::Demo),
    /// Download blocks from peers, validate them, and follow the chain
    Sync(Sync),
    /// Answer bitcoind's RPC and REST calls from the data directory, without peers
    #[cfg(feature = "server")]
    Serve(server::Serve),
    /// Stop the ffwd or bitcoind that works on the data directory, by its RPC port and cookie
    #[cfg(feature = "server")]
    Stop(server::Stop),
    /// Rebuild block index, undo files and UTXO set from the block files of the data directory
    Reindex(Reindex),
    /// Import blocks from files such as bootstrap.dat
    Import(Import),
    /// Check the last blocks again, as Core's verifychain does
    Verify(Verify),
    /// Show what the data directory holds, and the next step
    Info(Info),
    /// Show a network's parameters: assumed-valid block, minimum work, snapshots, deployments, port
    Params(Params),
    /// Build Core's optional indexes from the blocks of the data directory
    Index(indexes::Index),
    /// Show a transaction, found by txindex
    Tx(indexes::Tx),
    /// Show the basic filter of a block and its header, from blockfilterindex
    Filter(indexes::Filter),
    /// Show the transaction that spends an output, from txospenderindex
    Spender(indexes::Spender),
    /// Show a running sync on a full screen
    #[cfg(feature = "top")]
    Top(service::Top),
    /// Write man pages and shell completions into a directory
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
    /// Data directory [default: Core's]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// Configuration file, relative to the data directory; 0: read none [default: bitcoin.conf]
    #[arg(long, value_name = "FILE")]
    pub(crate) conf: Option<PathBuf>,
    /// bitcoind's file of settings made at run time, relative to the network's directory; 0: read none [default: settings.json]
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Go on where the data directory has a bitcoin.conf that is not the one in use [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) allowignoredconf: Option<bool>,
    /// Leave out the files that the configuration file includes
    #[arg(long, hide = true)]
    pub(crate) noincludeconf: bool,
    /// Network [default: main]
    #[arg(long, value_parser = chain_parser())]
    pub(crate) chain: Option<Chain>,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
    /// Directory that holds blocks/ [default: the data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) blocksdir: Option<PathBuf>,
    /// Memory for coins, blocks in flight and tables, at least 4; auto: half of what is left, and less when others need it [default: auto]
    #[arg(long, value_name = "MiB|auto", value_parser = dbcache)]
    pub(crate) dbcache: Option<Dbcache>,
    /// Worker threads; 0: one per core, -N: all cores but N [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Kind of processor whose kernels run, to measure and to test; auto: all that this one has [default: auto]
    #[arg(long, value_name = "KIND", value_parser = cpu_parser())]
    pub(crate) cpu: Option<Cpu>,
    /// Assume the scripts of this block and its ancestors valid; 0: verify all [default: Core's]
    #[arg(long, value_name = "HASH|0", value_parser = hash)]
    pub(crate) assumevalid: Option<BlockHash>,
    /// Minimum work of a chain, in hexadecimal [default: Core's]
    #[arg(long, value_name = "HEX", value_parser = cores(work))]
    pub(crate) minimumchainwork: Option<Work>,
    /// Script that the blocks of a signet satisfy [default: the public signet's]
    #[arg(long, value_name = "HEX", value_parser = cores(challenge))]
    pub(crate) signetchallenge: Option<Challenge>,
    /// Activation height of segwit, bip34, dersig, cltv or csv on regtest (repeatable)
    #[arg(long, value_name = "NAME@H", value_parser = cores(activation))]
    pub(crate) testactivationheight: Vec<Activation>,
    /// Test option on regtest; bip94: enforce BIP 94 (repeatable)
    #[arg(long, value_name = "OPTION")]
    pub(crate) test: Vec<TestOption>,
    #[command(flatten)]
    pub(crate) testing: Testing,
}

/// What happens to a file that is there.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Overwrite {
    /// Write over files that are there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Core's options for tests, which its help does not list either.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Testing {
    /// Unix time in place of the clock's, on regtest; 0: the clock's [default: 0]
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub(crate) mocktime: Option<u64>,
    /// Age of the tip above which the initial block download goes on [default: 86400]
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub(crate) maxtipage: Option<u64>,
    /// Check the block index after every N changes of the chain; 0: never [default: 0]
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) checkblockindex: Option<u32>,
    /// Block files of 64 KiB, and pruning from height 100 on regtest [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one, hide = true)]
    pub(crate) fastprune: Option<bool>,
    /// Start, end and activation height of a version bits deployment (repeatable)
    #[arg(long, value_name = "NAME:START:END[:HEIGHT]", value_parser = cores(version_bits), hide = true)]
    pub(crate) vbparams: Vec<VersionBitsTimes>,
}

/// `--dbcache`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dbcache {
    /// What the machine leaves.
    Auto,
    /// This many MiB.
    Mib(u64),
}

/// Reads `--dbcache`.
///
/// # Errors
///
/// Neither `auto` nor a number in its range.
pub(crate) fn dbcache(text: &str) -> Result<Dbcache, String> {
    if text == "auto" {
        return Ok(Dbcache::Auto);
    }
    let range = DBCACHE_MIB_MIN..=DBCACHE_MIB_MAX;
    let mib: u64 = text.parse().map_err(|why| format!("expected auto, or a number of MiB ({why})"))?;
    if range.contains(&mib) { Ok(Dbcache::Mib(mib)) } else { Err(format!("{mib} is not in {range:?}")) }
}

/// Options of the commands that write blocks and coins.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Validation and storage")]
pub(crate) struct Writing {
    /// Stop at exactly this height; 0: do not stop [default: 0]
    #[arg(long, value_name = "HEIGHT", value_parser = clap::value_parser!(u32).map(Height::new))]
    pub(crate) stopatheight: Option<Height>,
    /// Target size of block and undo files, at least 550; 0: keep all, 1: manual pruning [default: 0]
    #[arg(long, value_name = "MiB", allow_negative_numbers = true, value_parser = cores(prune))]
    pub(crate) prune: Option<Prune>,
    /// Obfuscate the block files of a new data directory [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) blocksxor: Option<bool>,
    /// Additional output (repeatable)
    #[arg(long, value_name = "CATEGORY", value_parser = logging::category_parser())]
    pub(crate) debug: Vec<&'static str>,
    /// Times of debug.log in microseconds [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) logtimemicros: Option<bool>,
    /// Progress, notes and warnings on standard error; 0: errors alone, the rest is in debug.log [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) printtoconsole: Option<bool>,
    /// Leave one of the optimizations out, to measure what it gives (repeatable)
    #[cfg(feature = "ablation")]
    #[arg(long, value_name = "IDEA", value_parser = idea_parser())]
    pub(crate) without: Vec<Idea>,
    #[command(flatten)]
    pub(crate) logging: logging::Logging,
    #[command(flatten)]
    pub(crate) indexes: indexes::Flags,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Sync {
    /// Connect only to this node (repeatable); 0: connect to none
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Vec<String>,
    /// Connect to this node as well, and again when it disconnects (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub(crate) addnode: Vec<String>,
    /// Accept connections on IP or IP:PORT (repeatable); 1: on every address, 0: none [default: 0, with --bind 1]
    #[arg(long, value_name = "ADDR|0|1")]
    pub(crate) listen: Vec<String>,
    /// Address to accept connections on, IP or IP:PORT (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Vec<String>,
    /// As --bind, with permissions for who connects there: PERMISSIONS@IP:PORT or IP:PORT (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub(crate) whitebind: Vec<String>,
    /// Permissions for peers of a network: PERMISSIONS@IP/BITS, each part but IP optional (repeatable); noban (the default), download, addr; in, out
    #[arg(long, value_name = "NET")]
    pub(crate) whitelist: Vec<String>,
    /// Port of --listen and --bind without one [default: the network's]
    #[arg(long, value_name = "PORT", value_parser = cores(port))]
    pub(crate) port: Option<u16>,
    /// Seconds for a peer to end its handshake, and within which it is not yet taken for dead, at least 1 [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = cores(peer_timeout))]
    pub(crate) peertimeout: Option<u32>,
    /// Seconds that a ban lasts of which setban says nothing [default: 86400]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) bantime: Option<i64>,
    /// Leave lines about inbound connections out of debug.log beyond 30 a minute [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) logratelimit: Option<bool>,
    /// Most connections, inbound and outbound; 11 of them are outbound [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=i64::from(CONNECTIONS_MAX)))]
    pub(crate) maxconnections: Option<u16>,
    /// Blocks that may be asked for beyond the lowest that has not arrived [default: 1024, as in Core]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) window: Option<u32>,
    #[command(flatten)]
    pub(crate) download: download::Download,
    /// SOCKS5 proxy for every connection, HOST:PORT [default: no proxy]
    #[arg(long, value_name = "ADDR")]
    pub(crate) proxy: Option<String>,
    /// Seek peers in this network alone: ipv4, ipv6 or onion (repeatable) [default: every network]
    #[arg(long, value_name = "NET")]
    pub(crate) onlynet: Vec<String>,
    /// Exit when the peers' best chain is connected, instead of following it. Waits until one peer has sent its headers, and at most a minute for the others of --connect and --addnode
    #[arg(long)]
    pub(crate) exit_at_tip: bool,
    /// Say what becomes of each line of bitcoin.conf and settings.json, and exit
    #[arg(long)]
    pub(crate) check_configuration: bool,
    /// Serve compact block filters to peers (BIP 157); needs --blockfilterindex [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) peerblockfilters: Option<bool>,
    /// Use BIP 324 v2 transport where the peer supports it [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) v2transport: Option<bool>,
    #[command(flatten)]
    pub(crate) seeds: seeds::Seeds,
    /// Text added to the user agent (repeatable)
    #[arg(long, value_name = "TEXT", value_parser = cores(user_agent_comment))]
    pub(crate) uacomment: Vec<String>,
    /// Begin with this snapshot of the UTXO set: headers, then its coins, the blocks from there to the tip, then validate the past in the same run [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: coins::Trust,
    /// Make the UTXO set with these hints (BIP 456) up to their height, without looking a coin up [default: none]; with --prune, in a data directory without blocks, below the assumed-valid block alone. There amounts, maturity and locks of spent coins are not checked, as scripts are not. Wrong hints are found out: then the sync goes the ordinary way
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub(crate) hints: Option<PathBuf>,
    /// Number of outbound connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(8..=12))]
    pub(crate) maxoutbound: u8,
    #[cfg(feature = "server")]
    #[command(flatten)]
    pub(crate) server: server::Server,
    #[command(flatten)]
    pub(crate) own_files: service::OwnFiles,
    #[command(flatten)]
    pub(crate) notify: service::Notify,
    #[command(flatten)]
    pub(crate) before: Before,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What a sync does first.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Before {
    /// Rebuild block index, undo files and UTXO set from the block files first, as `reindex` does [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) reindex: Option<bool>,
    /// Rebuild the UTXO set alone first, as `reindex --chainstate-only` does [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) reindex_chainstate: Option<bool>,
    /// Import the blocks of this file first, as `import` does (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) loadblock: Vec<PathBuf>,
}

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reindex {
    /// Rebuild the UTXO set alone; the old one stays until the new one is complete
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
pub(crate) struct Import {
    /// Block files, bootstrap.dat, pipes (repeatable; "-": standard input): plain or packed (gzip, xz, zstd), obfuscated
    /// with the xor.dat beside them or plain
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Import {
    /// The files, standard input by the name that the system gives it.
    pub(crate) fn sources(&self) -> Vec<PathBuf> {
        let source = |file: &PathBuf| if file.as_os_str() == "-" { "/dev/stdin".into() } else { file.clone() };
        self.files.iter().map(source).collect()
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Verify {
    /// 0 reads blocks, 1 checks each of them, 2 reads undo data, 3 disconnects them in memory, 4 connects them again
    #[arg(long, value_name = "0..4", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub(crate) level: u8,
    /// Number of blocks below the tip; 0: all
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

fn cpu_parser() -> impl TypedValueParser<Value = Cpu> {
    PossibleValuesParser::new(Cpu::ALL.map(Cpu::name))
        .map(|name| Cpu::from_name(&name).expect("only names of kinds are possible values"))
}

#[cfg(feature = "ablation")]
fn idea_parser() -> impl TypedValueParser<Value = Idea> {
    PossibleValuesParser::new(Idea::ALL.map(Idea::name))
        .map(|name| Idea::from_name(&name).expect("only names of ideas are possible values"))
}

fn chain_parser() -> impl TypedValueParser<Value = Chain> {
    PossibleValuesParser::new(Chain::ALL.map(Chain::name))
        .map(|name| Chain::from_name(&name).expect("only names of chains are possible values"))
}

/// Why a value is wrong, in Core's words: it is said without those of clap around it.
#[derive(Debug)]
pub(crate) struct CoresWords(pub(crate) String);

impl fmt::Display for CoresWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CoresWords {}

/// A parser whose errors are Core's words.
fn cores<T>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<T, CoresWords> + Clone + Send + std::marker::Sync + 'static
where
    T: 'static,
{
    move |text| parse(text).map_err(CoresWords)
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

/// A port of `-port`. Source: Bitcoin Core b88bffe, init.cpp, `CheckHostPortOptions`.
fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|&port| port > 0);
    port.ok_or_else(|| format!("Invalid port specified in -port: '{text}'"))
}

/// Seconds of `-peertimeout`.
fn peer_timeout(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok().filter(|&seconds| seconds > 0);
    seconds.ok_or_else(|| "peertimeout must be a positive integer.".to_owned())
}

/// A hash as Core's options take it: up to 64 hexadecimal digits, with or without 0x before them.
pub(crate) fn hash(text: &str) -> Result<BlockHash, String> {
    let number = U256::from_hex(text.strip_prefix("0x").unwrap_or(text));
    let why = || format!("{text:?} is not a block hash: expected up to 64 hexadecimal digits, or 0");
    Ok(BlockHash::from_bytes(number.ok_or_else(why)?.to_le_bytes()))
}

/// Work as Core's options take it: up to 64 hexadecimal digits, with or without 0x before them.
pub(crate) fn work(text: &str) -> Result<Work, String> {
    let number = U256::from_hex(text.strip_prefix("0x").unwrap_or(text));
    number.map(Work).ok_or_else(|| format!("Invalid minimum work specified ({text}), must be up to 64 hex digits"))
}

pub(crate) fn challenge(text: &str) -> Result<Challenge, String> {
    hex::decode(text).map(Challenge).ok_or_else(|| format!("-signetchallenge must be hex, not '{text}'."))
}

pub(crate) fn activation(text: &str) -> Result<Activation, String> {
    let wrong = |what| format!("Invalid {what} ({text}) for -testactivationheight=name@height.");
    let (name, height) = text.split_once('@').ok_or_else(|| wrong("format"))?;
    if !consensus::params::BURIED_DEPLOYMENTS.contains(&name) {
        return Err(wrong("name"));
    }
    let height = height.parse::<i32>().ok().and_then(|height| u32::try_from(height).ok());
    let height = height.map(Height::new).ok_or_else(|| wrong("height value"))?;
    Ok(Activation { name: name.to_owned(), height })
}

/// What `-prune` says: 0 for all files, 1 for manual, else MiB to keep. The words are Core's.
/// Source: Bitcoin Core b88bffe, node/blockmanager_args.cpp.
pub(crate) fn prune(text: &str) -> Result<Prune, String> {
    text.parse().map_or_else(|_| Err(not_a_size(text)), prune_of)
}

/// The same, of a number that was read.
pub(crate) fn prune_of(number: i64) -> Result<Prune, String> {
    match number {
        0 => Ok(Prune::Off),
        1 => Ok(Prune::Manual),
        ..0 => Err("Prune cannot be configured with a negative value.".to_owned()),
        mib @ PRUNE_MIB_MIN..=PRUNE_MIB_MAX => Ok(Prune::Target { bytes: mib.unsigned_abs() << 20 }),
        2..PRUNE_MIB_MIN => {
            Err(format!("Prune configured below the minimum of {PRUNE_MIB_MIN} MiB.  Please use a higher number."))
        }
        number => Err(not_a_size(&number.to_string())),
    }
}

fn not_a_size(text: &str) -> String {
    format!("{text:?} is not a size: expected 0, 1, or at least {PRUNE_MIB_MIN} MiB")
}

/// Core's check of `-vbparams`. Source: Bitcoin Core b88bffe, chainparams.cpp, `HandleDeploymentArgs`.
pub(crate) fn version_bits(text: &str) -> Result<VersionBitsTimes, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |place: usize, name: &str| {
        let part = parts[place];
        part.parse::<i64>().map_err(|_| format!("Invalid {name} ({part})"))
    };
    if !matches!(parts.len(), 3 | 4) {
        let why = "Version bits parameters malformed, expecting deployment:start:end[:min_activation_height]";
        return Err(why.to_owned());
    }
    let start_time = number(1, "nStartTime")?;
    let timeout = number(2, "nTimeout")?;
    let min_activation_height = if parts.len() == 4 { number(3, "min_activation_height")? } else { 0 };
    let deployment = Deployment::from_name(parts[0]).ok_or_else(|| format!("Invalid deployment ({})", parts[0]))?;
    Ok(VersionBitsTimes { deployment, start_time, timeout, min_activation_height })
}

/// A comment for the user agent, of the characters that Core takes.
/// Source: Bitcoin Core b88bffe, util/strencodings.cpp, `SAFE_CHARS_UA_COMMENT`.
pub(crate) fn user_agent_comment(text: &str) -> Result<String, String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || " .,;-_?@".contains(c);
    if text.chars().all(is_safe) {
        return Ok(text.to_owned());
    }
    Err(format!("User Agent comment ({text}) contains unsafe characters."))
}

/// Bytes of this many MiB fit in 63 bits.
const PRUNE_MIB_MAX: i64 = (1 << 43) - 1;

/// A number that is not 0 is yes, as in Core; text is refused, where Core takes it for 0.
pub(crate) fn zero_or_one(text: &str) -> Result<bool, String> {
    text.trim().parse::<i64>().map(|number| number != 0).map_err(|_| "expected 0 or 1".to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::CommandFactory;

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
            ("reindex --test addrman", InvalidValue, "bip94"),
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
            (got.common.chain, got.common.dbcache, got.common.par),
            (Some(Chain::Testnet4), Some(Dbcache::Mib(4)), Some(-1))
        );
        assert_eq!(got.common.assumevalid, Some(BlockHash::ZERO));
        assert_eq!(got.common.minimumchainwork, Some(Work(U256::from_u64(255))));
        assert_eq!(
            (got.writing.stopatheight, got.writing.prune, got.writing.blocksxor),
            (Some(Height::new(7)), Some(Prune::Target { bytes: 550 << 20 }), Some(false))
        );
        assert_eq!(got.writing.debug.len(), 2);

        let line = "sync --chain regtest --connect 127.0.0.1:1 --connect [::1]:2 --testactivationheight segwit@5 --test=bip94 --exit-at-tip";
        let Ok(Command::Sync(got)) = parse(line) else { panic!("{line}") };
        assert_eq!(got.connect, ["127.0.0.1:1", "[::1]:2"]);
        assert_eq!(got.common.testactivationheight, [Activation { name: "segwit".into(), height: Height::new(5) }]);
        assert_eq!((got.common.test.len(), got.exit_at_tip, got.maxoutbound), (1, true, 8));

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
