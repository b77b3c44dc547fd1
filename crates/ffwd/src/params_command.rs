//! The command `ffwd params`: prints the rules and limits of a network, as compiled into this program.
//!
//! Names and groups are those of Core's `bitcoin-util getchainparams` where it has them. No data directory or
//! configuration is read, so options and bitcoin.conf do not change the output.

use crate::Failure;
use crate::args::Params as Given;
use crate::output;
use consensus::deployments::{VersionBits, fixed_state};
use consensus::params::{AssumeUtxo, Chain, Params};
use consensus::{Deployment, deployments};
use primitives::{hex, human};
use serde::{Serialize, Serializer};
use std::fmt;
use std::process::ExitCode;

/// Prints the parameters.
///
/// # Errors
///
/// None: the result is the program's own.
pub(crate) fn run(given: &Given) -> Result<ExitCode, Failure> {
    let params = Params::new(given.chain.unwrap_or(Chain::Main));
    output::print(&if given.json { output::json(&Shown::new(&params)) } else { Text(&params).to_string() });
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Shown<'a> {
    chain: &'static str,
    genesis_hash: String,
    subsidy_halving_interval: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    signet: Option<Signet>,
    pow: Pow,
    net: Net,
    assumed_valid: Option<String>,
    minimum_chain_work: String,
    snapshots: Vec<Snapshot>,
    deployments: Deployments<'a>,
    headers_sync: HeadersSync,
    chain_tx_data: ChainTxData,
    prune_after_height: u32,
    assumed_blockchain_gb: u64,
    assumed_chain_state_gb: u64,
}

#[derive(Serialize)]
struct Signet {
    challenge: String,
}

#[derive(Serialize)]
struct Pow {
    limit: String,
    target_spacing: u32,
    difficulty_retarget_interval: u32,
    mindiff_blocks: &'static str,
}

#[derive(Serialize)]
struct Net {
    default_port: u16,
    default_rpc_port: u16,
    magic: String,
}

#[derive(Serialize)]
struct Snapshot {
    height: u32,
    blockhash: String,
    hash_serialized_3: String,
    nchaintx: u64,
}

#[derive(Serialize)]
struct HeadersSync {
    commitment_period: u32,
    redownload_buffer_size: u32,
}

#[derive(Serialize)]
struct ChainTxData {
    time: i64,
    tx_count: u64,
    tx_rate: f64,
}

/// The buried deployments, then those by version bits.
struct Deployments<'a>(&'a Params);

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Shape {
    Buried { height: u32 },
    Bip9 { bit: u8, start_time: i64, timeout: i64, min_activation_height: i64, period: u32, threshold: u32 },
}

impl Serialize for Deployments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let buried = self.0.buried().map(|(name, height)| (name, Shape::Buried { height: height.to_u32() }));
        let signalled = Deployment::ALL.map(|one| {
            let VersionBits { bit, start_time, timeout, min_activation_height, period, threshold } =
                *self.0.deployment(one);
            (one.name(), Shape::Bip9 { bit, start_time, timeout, min_activation_height, period, threshold })
        });
        serializer.collect_map(buried.into_iter().chain(signalled))
    }
}

impl From<&AssumeUtxo> for Snapshot {
    fn from(known: &AssumeUtxo) -> Snapshot {
        Snapshot {
            height: known.height.to_u32(),
            blockhash: known.block_hash.to_string(),
            hash_serialized_3: known.hash_serialized.to_string(),
            nchaintx: known.chain_tx_count,
        }
    }
}

impl<'a> Shown<'a> {
    fn new(params: &'a Params) -> Shown<'a> {
        let data = &params.chain_tx_data;
        let sync = &params.headers_sync;
        Shown {
            chain: params.chain.name(),
            genesis_hash: params.genesis_hash.to_string(),
            subsidy_halving_interval: params.subsidy_halving_interval,
            signet: params.signet_challenge.as_deref().map(|bytes| Signet { challenge: hex::encode(bytes) }),
            pow: Pow {
                limit: params.pow_limit.0.to_string(),
                target_spacing: params.pow_target_spacing,
                difficulty_retarget_interval: params.difficulty_adjustment_interval(),
                mindiff_blocks: easy_blocks(params),
            },
            net: Net {
                default_port: params.default_port,
                default_rpc_port: params.rpc_port,
                magic: hex::encode(&params.magic),
            },
            assumed_valid: assumed(params),
            minimum_chain_work: params.minimum_chain_work.to_string(),
            snapshots: params.assumeutxo.iter().map(Snapshot::from).collect(),
            deployments: Deployments(params),
            headers_sync: HeadersSync {
                commitment_period: sync.commitment_period,
                redownload_buffer_size: sync.redownload_buffer_size,
            },
            chain_tx_data: ChainTxData { time: data.time, tx_count: data.tx_count, tx_rate: data.tx_rate },
            prune_after_height: params.prune_after_height.to_u32(),
            assumed_blockchain_gb: params.assumed_blockchain_gb,
            assumed_chain_state_gb: params.assumed_chain_state_gb,
        }
    }
}

/// Whether a late block may have the minimum difficulty, in Core's words.
fn easy_blocks(params: &Params) -> &'static str {
    match (params.pow_allow_min_difficulty_blocks, params.enforce_bip94) {
        (false, _) => "no",
        (true, false) => "yes",
        (true, true) => "bip94",
    }
}

fn assumed(params: &Params) -> Option<String> {
    (!params.default_assume_valid.is_zero()).then(|| params.default_assume_valid.to_string())
}

/// The parameters as text.
struct Text<'a>(&'a Params);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params = self.0;
        writeln!(f, "network             {}", params.chain)?;
        writeln!(f, "magic, port         {}, {}", hex::encode(&params.magic), params.default_port)?;
        writeln!(f, "genesis block       {}", params.genesis_hash)?;
        writeln!(f, "assumed valid to    {}", assumed(params).as_deref().unwrap_or("none"))?;
        writeln!(f, "minimum work        {}", params.minimum_chain_work)?;
        for known in params.assumeutxo {
            let height = human::count(known.height.to_u32().into());
            writeln!(f, "snapshot            {height}, {}, {}", known.block_hash, known.hash_serialized)?;
        }
        for (name, height) in params.buried() {
            writeln!(f, "{name:<20}from height {}", human::count(height.to_u32().into()))?;
        }
        for one in Deployment::ALL {
            let by = params.deployment(one);
            match fixed_state(by) {
                Some(state) => writeln!(f, "{:<20}{}, bit {}", one.name(), state.name(), by.bit)?,
                None => {
                    let of = by.period;
                    let top = deployments::TOP_BITS;
                    let need = by.threshold;
                    writeln!(f, "{:<20}bit {} of versions {top:#x}, {need} of {of} blocks", one.name(), by.bit)?;
                }
            }
        }
        let sync = &params.headers_sync;
        write!(
            f,
            "headers sync        a commitment every {} headers, {} held back",
            human::count(sync.commitment_period.into()),
            human::count(sync.redownload_buffer_size.into())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_what_json_has() {
        for chain in Chain::ALL {
            let params = Params::new(chain);
            let text = Text(&params).to_string();
            let json = output::json(&Shown::new(&params));
            for known in params.assumeutxo {
                let hash = known.hash_serialized.to_string();
                assert!(text.contains(&hash) && json.contains(&hash), "{chain}: {text} {json}");
            }
            let work = params.minimum_chain_work.to_string();
            assert!(text.contains(&work) && json.contains(&work), "{chain}");
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(value["net"]["default_port"], params.default_port, "{chain}");
            assert_eq!(value["deployments"]["segwit"]["height"], params.segwit_height.to_u32(), "{chain}");
            assert_eq!(value["deployments"]["consensuscleanup"]["start_time"], VersionBits::NEVER_ACTIVE, "{chain}");
            assert_eq!(value["assumed_valid"].is_null(), chain == Chain::Regtest, "{chain}");
            assert_eq!(value["signet"]["challenge"].is_string(), chain == Chain::Signet, "{chain}");
        }
    }
}
