//! Parsers of the values of bitcoind's options on the command line, with Core's error messages if it has any.
//!
//! Absent on purpose: the form of values in files (`conf`), and the meaning of a value (`settings`).

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use consensus::params::VersionBitsTimes;
use consensus::{Chain, Deployment};
use node::options::Prune;
use primitives::{BlockHash, Height, U256, Work, hex};
use std::fmt;

/// Maximum number of worker threads: more than any machine has cores, and few enough for threads to start.
pub(crate) const PAR_MAX: i64 = 1024;
/// Minimum of Core's `-dbcache`, in MiB. Source: Bitcoin Core b88bffe, kernel/caches.h.
pub(crate) const DBCACHE_MIB_MIN: u64 = 4;
/// Maximum of `-dbcache`, in MiB: 16 TiB, so that bytes never overflow.
pub(crate) const DBCACHE_MIB_MAX: u64 = 16 << 20;
/// Minimum of `-prune`, in MiB.
const PRUNE_MIB_MIN: i64 = (Prune::TARGET_BYTES_MIN >> 20) as i64;
/// Maximum of `-maxconnections`: more would exceed a process's file descriptors.
pub(crate) const CONNECTIONS_MAX: u16 = 1000;

/// Bytes of `5`, `5M` or `5g`; M without a unit.
pub(crate) fn byte_units(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, unit) if unit.is_ascii_alphabetic() => (&text[..at], unit),
        _ => (text, 'M'),
    };
    let unit: u64 = match unit {
        'k' => 1_000,
        'K' => 1 << 10,
        'm' => 1_000_000,
        'M' => 1 << 20,
        'g' => 1_000_000_000,
        'G' => 1 << 30,
        't' => 1_000_000_000_000,
        'T' => 1 << 40,
        _ => return None,
    };
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(unit)
}

/// `--dbcache`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dbcache {
    /// Chosen from the machine's free memory.
    Auto,
    /// This many MiB.
    Mib(u64),
}

/// Parses `--dbcache`.
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

/// A value of Core's `-test` that changes a rule.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestOption {
    Addrman,
    Bip94,
}

/// The bytes of a signet challenge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Challenge(pub(crate) Vec<u8>);

/// Start of a deployment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Activation {
    pub(crate) name: String,
    pub(crate) height: Height,
}

pub(crate) fn chain_parser() -> impl TypedValueParser<Value = Chain> {
    PossibleValuesParser::new(Chain::ALL.map(Chain::name))
        .map(|name| Chain::from_name(&name).expect("only names of chains are possible values"))
}

/// Why a value is wrong, in Core's words. It is printed without clap's text around it.
#[derive(Debug)]
pub(crate) struct CoresWords(pub(crate) String);

impl fmt::Display for CoresWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CoresWords {}

/// A parser whose errors are Core's messages.
pub(crate) fn cores<T>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<T, CoresWords> + Clone + Send + std::marker::Sync + 'static
where
    T: 'static,
{
    move |text| parse(text).map_err(CoresWords)
}

/// Parses `-port`. Source: Bitcoin Core b88bffe, init.cpp, `CheckHostPortOptions`.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|&port| port > 0);
    port.ok_or_else(|| format!("Invalid port specified in -port: '{text}'"))
}

/// `-maxuploadtarget`, in bytes.
pub(crate) fn upload_target(text: &str) -> Result<u64, String> {
    byte_units(text).ok_or_else(|| format!("Unable to parse -maxuploadtarget: '{text}'"))
}

/// Seconds of `-peertimeout`.
pub(crate) fn peer_timeout(text: &str) -> Result<u32, String> {
    let seconds = text.parse().ok().filter(|&seconds| seconds > 0);
    seconds.ok_or_else(|| "peertimeout must be a positive integer.".to_owned())
}

/// Parses a hash as Core's options do: up to 64 hexadecimal digits, with an optional 0x prefix.
pub(crate) fn hash(text: &str) -> Result<BlockHash, String> {
    let number = U256::from_hex(text.strip_prefix("0x").unwrap_or(text));
    let why = || format!("{text:?} is not a block hash: expected up to 64 hexadecimal digits, or 0");
    Ok(BlockHash::from_bytes(number.ok_or_else(why)?.to_le_bytes()))
}

/// Parses chain work as Core's options do: up to 64 hexadecimal digits, with an optional 0x prefix.
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

/// Parses `-prune`: 0 keeps all files, 1 selects manual pruning, else the number of MiB to keep. The messages are
/// Core's.
/// Source: Bitcoin Core b88bffe, node/blockmanager_args.cpp.
pub(crate) fn prune(text: &str) -> Result<Prune, String> {
    text.parse().map_or_else(|_| Err(not_a_size(text)), prune_of)
}

/// Like [`prune`], for a number.
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

/// Checks a comment for the user agent, which may only have the characters that Core accepts.
/// Source: Bitcoin Core b88bffe, util/strencodings.cpp, `SAFE_CHARS_UA_COMMENT`.
pub(crate) fn user_agent_comment(text: &str) -> Result<String, String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || " .,;-_?@".contains(c);
    if text.chars().all(is_safe) {
        return Ok(text.to_owned());
    }
    Err(format!("User Agent comment ({text}) contains unsafe characters."))
}

/// Maximum of `-prune` in MiB: the number of bytes must fit in 63 bits.
const PRUNE_MIB_MAX: i64 = (1 << 43) - 1;

/// Parses a boolean: a number other than 0 is true, as in Core. Text is rejected; Core reads it as 0.
pub(crate) fn zero_or_one(text: &str) -> Result<bool, String> {
    text.trim().parse::<i64>().map(|number| number != 0).map_err(|_| "expected 0 or 1".to_owned())
}

/// Parses `-blockfilterindex`. Source: Bitcoin Core b88bffe, init.cpp.
pub(crate) fn filter_type(text: &str) -> Result<bool, String> {
    match text.trim() {
        "" | "1" | "basic" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("Unknown -blockfilterindex value {text}.")),
    }
}
