//! Parameters of the five networks: only what differs between chains.
//!
//! Every value is Core's, with the same name in kernel/chainparams.cpp; `networks.rs` names the release. Absent on
//! purpose: DNS seeds (`p2p`), directories and files (`store`).

use crate::deployments::{Deployment, VersionBits};
use primitives::{BlockHash, Hash256, Height, Target, Work};
use std::fmt;

mod genesis;
mod networks;

/// A network, by Core's `-chain` name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Chain {
    /// `main`.
    Main,
    /// `test`: testnet3.
    Test,
    /// `testnet4`.
    Testnet4,
    /// `signet`, the default one or a custom one.
    Signet,
    /// `regtest`.
    Regtest,
}

impl Chain {
    /// All networks.
    pub const ALL: [Chain; 5] = [Chain::Main, Chain::Test, Chain::Testnet4, Chain::Signet, Chain::Regtest];

    /// The name in `-chain` and the RPC.
    pub const fn name(self) -> &'static str {
        match self {
            Chain::Main => "main",
            Chain::Test => "test",
            Chain::Testnet4 => "testnet4",
            Chain::Signet => "signet",
            Chain::Regtest => "regtest",
        }
    }

    /// The chain with this name.
    pub fn from_name(name: &str) -> Option<Chain> {
        Chain::ALL.into_iter().find(|chain| chain.name() == name)
    }

    /// The subdirectory of the network in the data directory; empty for mainnet. Source: chainparamsbase.cpp.
    pub const fn net_dir(self) -> &'static str {
        match self {
            Chain::Main => "",
            Chain::Test => "testnet3",
            Chain::Testnet4 => "testnet4",
            Chain::Signet => "signet",
            Chain::Regtest => "regtest",
        }
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The script flags of an exception block in place of P2SH, witness and taproot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseFlags {
    /// No flag at all.
    None,
    /// P2SH and witness, but not taproot.
    P2shWitness,
}

/// Size of the chain when the parameters were made. For the progress estimate only, not for rules.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChainTxData {
    /// Seconds since 1970.
    pub time: i64,
    /// Transactions up to that time.
    pub tx_count: u64,
    /// Transactions a second after that time.
    pub tx_rate: f64,
}

impl ChainTxData {
    /// Estimated number of transactions in the chain at a time in seconds since 1970; `None` if that is before
    /// [`ChainTxData::time`] or the chain has no data.
    pub fn transactions_at(&self, time: i64) -> Option<f64> {
        (self.tx_count > 0 && time >= self.time)
            .then(|| self.tx_count as f64 + (time - self.time) as f64 * self.tx_rate)
    }
}

/// A block of the last two hours is counted by heights, because miners choose the times.
const RECENT_S: i64 = 2 * 60 * 60;

/// Parameters of headers presync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadersSyncParams {
    /// Headers between two commitments.
    pub commitment_period: u32,
    /// Headers buffered while later commitments are compared.
    pub redownload_buffer_size: u32,
}

/// A UTXO snapshot that Core accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssumeUtxo {
    /// Height of its base block.
    pub height: Height,
    /// Hash of its base block.
    pub block_hash: BlockHash,
    /// `hash_serialized_3` of its coins.
    pub hash_serialized: Hash256,
    /// Transactions of the chain up to its base.
    pub chain_tx_count: u64,
}

/// The parameters of one network.
#[derive(Clone, PartialEq, Debug)]
pub struct Params {
    /// Which network.
    pub chain: Chain,
    /// First bytes of block file records and P2P messages, in that order.
    pub magic: [u8; 4],
    /// Default P2P port.
    pub default_port: u16,
    /// Default RPC port.
    pub rpc_port: u16,
    /// The genesis block, serialized.
    pub genesis: Vec<u8>,
    /// Its hash.
    pub genesis_hash: BlockHash,
    /// The easiest target.
    pub pow_limit: Target,
    /// Target seconds of a difficulty period.
    pub pow_target_timespan: u32,
    /// Target seconds of a block.
    pub pow_target_spacing: u32,
    /// Whether a block more than 20 minutes after its parent may have the easiest target.
    pub pow_allow_min_difficulty_blocks: bool,
    /// Whether difficulty never changes.
    pub pow_no_retargeting: bool,
    /// Whether BIP-0094 is active: retarget from the first block of the period, no timewarp.
    pub enforce_bip94: bool,
    /// Blocks between two halvings of the subsidy.
    pub subsidy_halving_interval: u32,
    /// First height whose coinbase must contain the height.
    pub bip34_height: Height,
    /// Hash of that block in the known chain; zero if it is unknown.
    pub bip34_hash: BlockHash,
    /// First height with CHECKLOCKTIMEVERIFY.
    pub bip65_height: Height,
    /// First height with strict DER signatures.
    pub bip66_height: Height,
    /// First height with BIP-0068, 112 and 113.
    pub csv_height: Height,
    /// First height with witness commitments and NULLDUMMY.
    pub segwit_height: Height,
    /// Deployments by version bits, as [`Deployment::ALL`].
    pub deployments: [VersionBits; Deployment::ALL.len()],
    /// Blocks whose scripts are checked with fewer flags.
    pub script_flag_exceptions: &'static [(BlockHash, BaseFlags)],
    /// Minimum work of a chain to count as the real one.
    pub minimum_chain_work: Work,
    /// The block whose scripts, and those of its ancestors, are assumed valid; zero without one.
    pub default_assume_valid: BlockHash,
    /// Snapshots, lowest first.
    pub assumeutxo: &'static [AssumeUtxo],
    /// Size of the chain, for the progress estimate.
    pub chain_tx_data: ChainTxData,
    /// Nothing is pruned until the chain is above this height.
    pub prune_after_height: Height,
    /// Approximate size of blocks and undo data, in GB.
    pub assumed_blockchain_gb: u64,
    /// Approximate size of the chainstate, in GB.
    pub assumed_chain_state_gb: u64,
    /// Parameters of headers presync.
    pub headers_sync: HeadersSyncParams,
    /// The script that signet blocks must satisfy; `None` on other networks.
    pub signet_challenge: Option<Vec<u8>>,
}

/// Why parameters cannot be changed this way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParamsError {
    /// The change is for another network.
    OtherChain {
        /// The changed parameter.
        what: &'static str,
        /// The network that allows it.
        want: &'static str,
        /// The network of the request.
        have: Chain,
    },
    /// Unknown deployment name.
    UnknownDeployment(String),
    /// A height that Core does not accept either.
    Height(Height),
    /// An option that is never allowed on mainnet.
    NeverOnMainnet(&'static str),
}

/// The values of `-vbparams`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionBitsTimes {
    /// The deployment.
    pub deployment: Deployment,
    /// See [`VersionBits::start_time`].
    pub start_time: i64,
    /// See [`VersionBits::timeout`].
    pub timeout: i64,
    /// See [`VersionBits::min_activation_height`].
    pub min_activation_height: i64,
}

/// The names that [`Params::with_activation_height`] accepts. Source: deploymentinfo.cpp, `GetBuriedDeployment`.
pub const BURIED_DEPLOYMENTS: [&str; 5] = ["segwit", "bip34", "dersig", "cltv", "csv"];

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamsError::OtherChain { what, want, have } => {
                write!(f, "{what} is for {want}, this is {have}: choose -chain={want} or leave it out")
            }
            ParamsError::UnknownDeployment(name) => {
                write!(f, "no deployment is named {name:?}: it is one of {}", BURIED_DEPLOYMENTS.join(", "))
            }
            // Core's words.
            ParamsError::NeverOnMainnet(option) => write!(f, "The {option} option may not be used on mainnet."),
            ParamsError::Height(height) => write!(f, "activation height {height} is not below {HEIGHT_END}"),
        }
    }
}

impl std::error::Error for ParamsError {}

/// First height that does not fit Core's `int`.
const HEIGHT_END: Height = Height::new(i32::MAX.cast_unsigned());

impl Params {
    /// Core's default parameters of a network.
    pub fn new(chain: Chain) -> Params {
        networks::params(chain)
    }

    /// A custom signet: another challenge, and so another magic; no minimum work and no assumed valid block.
    ///
    /// # Errors
    ///
    /// [`ParamsError::OtherChain`] on any network but signet.
    ///
    /// Source: kernel/chainparams.cpp, `SigNetParams`.
    pub fn with_signet_challenge(mut self, challenge: &[u8]) -> Result<Params, ParamsError> {
        self.only_on(Chain::Signet, "a signet challenge")?;
        self.magic = signet_magic(challenge);
        self.signet_challenge = Some(challenge.to_vec());
        self.minimum_chain_work = Work::ZERO;
        self.default_assume_valid = BlockHash::ZERO;
        self.chain_tx_data = ChainTxData { time: 0, tx_count: 0, tx_rate: 0.0 };
        (self.assumed_blockchain_gb, self.assumed_chain_state_gb) = (0, 0);
        Ok(self)
    }

    /// Progress of validation, 0 to 1, at a block up to which the chain has `transactions`; 0 if their number is
    /// unknown. `blocks_left` is the number of blocks from there to the best header; times are in seconds since 1970.
    ///
    /// Source: Bitcoin Core b88bffe, `ChainstateManager::GuessVerificationProgress`.
    pub fn progress(&self, transactions: u64, block_time: u32, blocks_left: u32, now: i64) -> f64 {
        if transactions == 0 {
            return 0.0;
        }
        let data = &self.chain_tx_data;
        let block_time = i64::from(block_time);
        let total = if transactions <= data.tx_count {
            data.tx_count as f64 + (now - data.time) as f64 * data.tx_rate
        } else if (now - block_time).abs() <= RECENT_S {
            transactions as f64 + f64::from(blocks_left) * f64::from(self.pow_target_spacing) * data.tx_rate
        } else {
            transactions as f64 + (now - block_time) as f64 * data.tx_rate
        };
        (transactions as f64 / total).min(1.0)
    }

    /// Changes the height of a buried deployment, as `-testactivationheight=name@height` does on regtest.
    ///
    /// # Errors
    ///
    /// [`ParamsError`]: another network, a name Core does not know, or a height that does not fit Core's `int`.
    ///
    /// Source: chainparams.cpp, `HandleDeploymentArgs`; deploymentinfo.cpp, `GetBuriedDeployment`.
    pub fn with_activation_height(mut self, name: &str, height: Height) -> Result<Params, ParamsError> {
        self.only_on(Chain::Regtest, "an activation height")?;
        if height >= HEIGHT_END {
            return Err(ParamsError::Height(height));
        }
        let at = match name {
            "segwit" => &mut self.segwit_height,
            "bip34" => &mut self.bip34_height,
            "dersig" => &mut self.bip66_height,
            "cltv" => &mut self.bip65_height,
            "csv" => &mut self.csv_height,
            _ => return Err(ParamsError::UnknownDeployment(name.to_owned())),
        };
        *at = height;
        Ok(self)
    }

    /// The buried deployments with their activation heights, with the names of Core's getdeploymentinfo and in its
    /// order.
    pub const fn buried(&self) -> [(&'static str, Height); 5] {
        [
            ("bip34", self.bip34_height),
            ("bip66", self.bip66_height),
            ("bip65", self.bip65_height),
            ("csv", self.csv_height),
            ("segwit", self.segwit_height),
        ]
    }

    /// The activation parameters of a version bits deployment.
    pub fn deployment(&self, which: Deployment) -> &VersionBits {
        &self.deployments[which as usize]
    }

    /// Changes a version bits deployment, as `-vbparams` does.
    ///
    /// # Errors
    ///
    /// [`ParamsError::NeverOnMainnet`] on mainnet.
    ///
    /// Source: init.cpp, `AppInitParameterInteraction`; chainparams.cpp, `HandleDeploymentArgs`.
    pub fn with_version_bits(mut self, moved: &VersionBitsTimes) -> Result<Params, ParamsError> {
        if self.chain == Chain::Main {
            return Err(ParamsError::NeverOnMainnet("-vbparams"));
        }
        let deployment = &mut self.deployments[moved.deployment as usize];
        *deployment = VersionBits {
            start_time: moved.start_time,
            timeout: moved.timeout,
            min_activation_height: moved.min_activation_height,
            ..*deployment
        };
        Ok(self)
    }

    /// Enables BIP-0094 on regtest, as `-test=bip94` does.
    ///
    /// # Errors
    ///
    /// [`ParamsError::OtherChain`] on any network but regtest.
    pub fn with_bip94(mut self) -> Result<Params, ParamsError> {
        self.only_on(Chain::Regtest, "bip94")?;
        self.enforce_bip94 = true;
        Ok(self)
    }

    fn only_on(&self, want: Chain, what: &'static str) -> Result<(), ParamsError> {
        if self.chain == want {
            return Ok(());
        }
        Err(ParamsError::OtherChain { what, want: want.name(), have: self.chain })
    }

    /// Blocks between two changes of difficulty.
    pub const fn difficulty_adjustment_interval(&self) -> u32 {
        self.pow_target_timespan / self.pow_target_spacing
    }

    /// The snapshot with this base block.
    pub fn assumeutxo_for(&self, block_hash: &BlockHash) -> Option<&'static AssumeUtxo> {
        self.assumeutxo.iter().find(|known| known.block_hash == *block_hash)
    }
}

/// Magic of a signet: hash of its serialized challenge. Source: BIP-0325.
fn signet_magic(challenge: &[u8]) -> [u8; 4] {
    let mut bytes = Vec::with_capacity(challenge.len() + 9);
    primitives::encode::put_compact_size(&mut bytes, challenge.len() as u64);
    bytes.extend_from_slice(challenge);
    let hash = kernels::sha256::sha256d(&bytes);
    *hash.first_chunk().expect("a hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::check_proof_of_work;
    use primitives::{Amount, Tables};

    #[test]
    fn progress_is_share_of_transactions() {
        let data = ChainTxData { time: 1_000_000, tx_count: 10_000, tx_rate: 0.5 };
        let params = Params { chain_tx_data: data, ..Params::new(Chain::Main) };
        let now = 1_020_000;
        for (row, transactions, block_time, blocks_left, want) in [
            ("not known", 0, 0, 0, 0.0),
            // 10,000 and half of 20,000 are 20,000.
            ("long ago", 5_000, 900_000, 9, 0.25),
            ("the last that was counted", 10_000, 999_000, 9, 0.5),
            // 18,000 and half of the 10,000 s since.
            ("later", 18_000, 1_010_000, 9, 18.0 / 23.0),
            // Two blocks left: 1,200 s.
            ("of late", 19_000, 1_019_000, 2, 19_000.0 / 19_600.0),
            ("the last", 19_000, 1_026_000, 0, 1.0),
            ("from the future", 19_000, 1_050_000, 0, 1.0),
        ] {
            let got = params.progress(transactions, block_time, blocks_left, now);
            assert!((got - want).abs() < 1e-9, "{row}: {got} for {want}");
        }
        assert_eq!(data.transactions_at(1_020_000), Some(20_000.0));
        assert_eq!(data.transactions_at(999_999), None, "nothing is said about earlier times");
        assert_eq!(Params::new(Chain::Regtest).chain_tx_data.transactions_at(1_020_000), None);
    }

    #[test]
    fn genesis_blocks_have_known_hashes() {
        for (chain, bytes) in
            Chain::ALL.into_iter().map(|chain| (chain, if chain == Chain::Testnet4 { 261 } else { 285 }))
        {
            let params = Params::new(chain);
            let mut tables = Tables::new();
            let block = tables.parse_block(&params.genesis).unwrap();
            assert_eq!((block.bytes().len(), params.genesis.len()), (bytes, bytes), "{chain}");
            assert_eq!(block.header().hash(), params.genesis_hash, "{chain}");
            assert_eq!(block.transaction(0).txid().to_hash256(), block.header().merkle_root(), "{chain}");
            assert!(block.transaction(0).is_coinbase());
            assert_eq!(block.transaction(0).output(0).value(), Amount(5_000_000_000));
            assert_eq!(check_proof_of_work(&params, &params.genesis_hash, block.header().bits()), Ok(()), "{chain}");
            assert_eq!(params.pow_limit.to_compact(), block.header().bits(), "{chain}: the easiest target");
        }
    }

    #[test]
    fn chain_names_and_intervals() {
        for (chain, name, net_dir, magic, interval, snapshots) in [
            (Chain::Main, "main", "", "f9beb4d9", 2016, 5),
            (Chain::Test, "test", "testnet3", "0b110907", 2016, 3),
            (Chain::Testnet4, "testnet4", "testnet4", "1c163f28", 2016, 3),
            (Chain::Signet, "signet", "signet", "0a03cf40", 2016, 3),
            (Chain::Regtest, "regtest", "regtest", "fabfb5da", 144, 3),
        ] {
            let params = Params::new(chain);
            assert_eq!((Chain::from_name(name), chain.name(), chain.net_dir()), (Some(chain), name, net_dir));
            assert_eq!(primitives::hex::encode(&params.magic), magic, "{name}");
            assert_eq!(params.difficulty_adjustment_interval(), interval, "{name}");
            assert_eq!(params.assumeutxo.len(), snapshots, "{name}");
            for known in params.assumeutxo {
                assert_eq!(params.assumeutxo_for(&known.block_hash), Some(known), "{name}");
            }
            assert_eq!(params.assumeutxo_for(&params.genesis_hash), None);
        }
        assert_eq!(Chain::from_name("testnet3"), None, "the subdirectory is no name");
        assert!(Params::new(Chain::Main).assumeutxo.is_sorted_by_key(|known| known.height));
    }

    #[test]
    fn deployments_move_everywhere_but_on_mainnet() {
        let moved = |name: &str, start_time: i64| VersionBitsTimes {
            deployment: Deployment::from_name(name).unwrap(),
            start_time,
            timeout: 3_999_999_999,
            min_activation_height: 5,
        };
        for chain in Chain::ALL {
            let params = Params::new(chain);
            let cleanup = *params.deployment(Deployment::ConsensusCleanup);
            assert_eq!(cleanup.start_time, VersionBits::NEVER_ACTIVE, "{chain}: no network has activated it");
            let dummy = params.deployment(Deployment::TestDummy);
            let is_regtest = chain == Chain::Regtest;
            assert_eq!((dummy.bit, dummy.start_time == 0), (28, is_regtest), "{chain}");
            let changed = params.with_version_bits(&moved("consensuscleanup", 0));
            if chain == Chain::Main {
                let why = changed.unwrap_err().to_string();
                assert_eq!(why, "The -vbparams option may not be used on mainnet.");
                continue;
            }
            let want = VersionBits { start_time: 0, timeout: 3_999_999_999, min_activation_height: 5, ..cleanup };
            let changed = changed.unwrap();
            assert_eq!(changed.deployment(Deployment::ConsensusCleanup), &want, "{chain}");
            assert_eq!((want.period, want.threshold), if is_regtest { (144, 108) } else { (2016, cleanup.threshold) });
        }
        assert_eq!(Deployment::from_name("taproot"), None, "it is buried");
    }

    /// A challenge of one byte (OP_TRUE): its magic is the start of sha256d(01 51).
    #[test]
    fn custom_signet_magic_is_hash_of_challenge() {
        let signet = Params::new(Chain::Signet);
        let custom = signet.clone().with_signet_challenge(&[0x51]).unwrap();
        assert_eq!(custom.magic, *kernels::sha256::sha256d(&[1, 0x51]).first_chunk::<4>().unwrap());
        assert_eq!(custom.signet_challenge.as_deref(), Some(&[0x51][..]));
        assert_eq!((custom.minimum_chain_work, custom.default_assume_valid), (Work::ZERO, BlockHash::ZERO));
        assert_eq!((custom.genesis_hash, custom.pow_limit), (signet.genesis_hash, signet.pow_limit));
        assert!(signet.minimum_chain_work > Work::ZERO && !signet.default_assume_valid.is_zero());
        let long = signet.with_signet_challenge(&[0x51; 300]).unwrap();
        let mut serialized = vec![0xfd, 0x2c, 1];
        serialized.extend_from_slice(&[0x51; 300]);
        assert_eq!(long.magic, *kernels::sha256::sha256d(&serialized).first_chunk::<4>().unwrap());
    }

    #[test]
    fn regtest_activation_heights_move() {
        let heights = |p: &Params| [p.segwit_height, p.bip34_height, p.bip66_height, p.bip65_height, p.csv_height];
        assert_eq!(heights(&Params::new(Chain::Regtest)), [0, 1, 1, 1, 1].map(Height::new));
        for (at, name) in BURIED_DEPLOYMENTS.into_iter().enumerate() {
            let moved = Params::new(Chain::Regtest).with_activation_height(name, Height::new(432)).unwrap();
            let mut want = [0, 1, 1, 1, 1];
            want[at] = 432;
            assert_eq!(heights(&moved), want.map(Height::new), "{name}");
        }
        assert!(Params::new(Chain::Regtest).with_bip94().unwrap().enforce_bip94);
        for (row, refused, want) in [
            ("taproot", Params::new(Chain::Regtest).with_activation_height("taproot", Height::new(1)), "one of segwit"),
            (
                "height",
                Params::new(Chain::Regtest).with_activation_height("csv", Height::new(0x7fff_ffff)),
                "not below",
            ),
            ("mainnet", Params::new(Chain::Main).with_activation_height("csv", Height::new(1)), "this is main"),
            ("bip94", Params::new(Chain::Testnet4).with_bip94(), "this is testnet4"),
            ("challenge", Params::new(Chain::Regtest).with_signet_challenge(&[]), "for signet"),
        ] {
            let why = refused.unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
    }
}
