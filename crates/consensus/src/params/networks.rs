//! The values of each network.
//!
//! Mainnet's values are complete; the other networks list only their differences from another one. Source:
//! kernel/chainparams.cpp of Bitcoin Core b88bffe; assumed blocks and snapshots of 32.1 (bitcoin/bitcoin#36196).
//! Minimum work: mainnet's is that of 32.1, confirmed by two sources. For the other networks there is only one source,
//! and a value that is too high by one unit keeps a node out of its network, so they keep the lower values of b88bffe.
//! The numbers for headers presync and the transaction rates are also from b88bffe, because those of 32.1 were not
//! available. To add a network, write one function with the differences from another one, and one row of [`params`].

use super::genesis::{STANDARD_GENESIS, TESTNET4_GENESIS, genesis_block};
use super::{AssumeUtxo, BaseFlags, Chain, ChainTxData, HeadersSyncParams, Params, signet_magic};
use crate::deployments::{Deployment, VersionBits};
use primitives::{BlockHash, Hash256, Height, Target, U256, Work, hex};

/// Challenge of the default signet. Source: kernel/chainparams.cpp, `SigNetParams`.
const DEFAULT_SIGNET_CHALLENGE: [u8; 71] = hex::literal(concat!(
    "512103ad5e0edad18cb1f0fc0d28a3d4f1f3e445640337489abb10404f2d1e086be430",
    "210359ef5021964fe22d6f8e05b2463c9540ce96883fe3b278760f048f5189f2e6c452ae"
));

const DAY: u32 = 24 * 60 * 60;

pub(super) fn params(chain: Chain) -> Params {
    match chain {
        Chain::Main => main(),
        Chain::Test => testnet3(),
        Chain::Testnet4 => testnet4(),
        Chain::Signet => signet(),
        Chain::Regtest => regtest(),
    }
}

fn main() -> Params {
    Params {
        chain: Chain::Main,
        magic: [0xf9, 0xbe, 0xb4, 0xd9],
        default_port: 8333,
        rpc_port: 8332,
        genesis: genesis_block(&STANDARD_GENESIS, 1_231_006_505, 0x1d00_ffff, 2_083_236_893),
        genesis_hash: BlockHash::literal("000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"),
        pow_limit: Target(number("00000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffff")),
        pow_target_timespan: 14 * DAY,
        pow_target_spacing: 600,
        pow_allow_min_difficulty_blocks: false,
        pow_no_retargeting: false,
        enforce_bip94: false,
        subsidy_halving_interval: 210_000,
        bip34_height: Height::new(227_931),
        bip34_hash: BlockHash::literal("000000000000024b89b42a942fe0d9fea3bb44ab7bd1b19115dd6a759c0808b8"),
        bip65_height: Height::new(388_381),
        bip66_height: Height::new(363_725),
        csv_height: Height::new(419_328),
        segwit_height: Height::new(481_824),
        deployments: never_active(1815),
        script_flag_exceptions: MAIN_EXCEPTIONS,
        minimum_chain_work: Work(number("0145ec036acc5ba740052af1a0")),
        default_assume_valid: BlockHash::literal("00000000000000000000748969ec33043c0e52a763c6dd5193861f559f2c72e3"),
        assumeutxo: MAIN_SNAPSHOTS,
        chain_tx_data: ChainTxData { time: 1_772_055_173, tx_count: 1_315_805_869, tx_rate: 5.40111006496122 },
        prune_after_height: Height::new(100_000),
        assumed_blockchain_gb: 856,
        assumed_chain_state_gb: 14,
        headers_sync: HeadersSyncParams { commitment_period: 641, redownload_buffer_size: 15_218 },
        signet_challenge: None,
    }
}

fn testnet3() -> Params {
    Params {
        chain: Chain::Test,
        magic: [0x0b, 0x11, 0x09, 0x07],
        default_port: 18_333,
        rpc_port: 18_332,
        genesis: genesis_block(&STANDARD_GENESIS, 1_296_688_602, 0x1d00_ffff, 414_098_458),
        genesis_hash: BlockHash::literal("000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943"),
        pow_allow_min_difficulty_blocks: true,
        bip34_height: Height::new(21_111),
        bip34_hash: BlockHash::literal("0000000023b3a96d3484e5abb3755c413e7d41500f8e2a5c3f0dd01299cd8ef8"),
        bip65_height: Height::new(581_885),
        bip66_height: Height::new(330_776),
        csv_height: Height::new(770_112),
        segwit_height: Height::new(834_624),
        deployments: never_active(1512),
        script_flag_exceptions: TESTNET3_EXCEPTIONS,
        minimum_chain_work: Work(number("17dde1c649f3708d14b6")),
        default_assume_valid: BlockHash::literal("00000000b318a3703d14a844c55ef507f4c2fc8f8766e24271fd43c180c51637"),
        assumeutxo: TESTNET3_SNAPSHOTS,
        chain_tx_data: ChainTxData { time: 1_772_051_651, tx_count: 536_108_416, tx_rate: 0.02691479016257117 },
        prune_after_height: Height::new(1000),
        assumed_blockchain_gb: 245,
        assumed_chain_state_gb: 19,
        headers_sync: HeadersSyncParams { commitment_period: 673, redownload_buffer_size: 14_460 },
        ..main()
    }
}

fn testnet4() -> Params {
    Params {
        chain: Chain::Testnet4,
        magic: [0x1c, 0x16, 0x3f, 0x28],
        default_port: 48_333,
        rpc_port: 48_332,
        genesis: genesis_block(&TESTNET4_GENESIS, 1_714_777_860, 0x1d00_ffff, 393_743_547),
        genesis_hash: BlockHash::literal("00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043"),
        enforce_bip94: true,
        minimum_chain_work: Work(number("09a0fe15d0177d086304")),
        default_assume_valid: BlockHash::literal("0000000021df65b91665a342e26ceb05e54826ad7d8fcd40316230058fa3b865"),
        assumeutxo: TESTNET4_SNAPSHOTS,
        chain_tx_data: ChainTxData { time: 1_772_013_387, tx_count: 14_191_421, tx_rate: 0.01848579579528412 },
        assumed_blockchain_gb: 31,
        assumed_chain_state_gb: 2,
        headers_sync: HeadersSyncParams { commitment_period: 606, redownload_buffer_size: 16_092 },
        ..active_from_the_start(testnet3())
    }
}

fn signet() -> Params {
    Params {
        chain: Chain::Signet,
        magic: signet_magic(&DEFAULT_SIGNET_CHALLENGE),
        default_port: 38_333,
        rpc_port: 38_332,
        genesis: genesis_block(&STANDARD_GENESIS, 1_598_918_400, 0x1e03_77ae, 52_613_770),
        genesis_hash: BlockHash::literal("00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6"),
        pow_limit: Target(number("00000377ae000000000000000000000000000000000000000000000000000000")),
        minimum_chain_work: Work(number("0b463ea0a4b8")),
        default_assume_valid: BlockHash::literal("00000002a5e0ba0498f1e9f4591af0b66b63c654665efe65206fd0ae7bbaf923"),
        assumeutxo: SIGNET_SNAPSHOTS,
        chain_tx_data: ChainTxData { time: 1_772_055_248, tx_count: 28_676_833, tx_rate: 0.06736623436338929 },
        prune_after_height: Height::new(1000),
        assumed_blockchain_gb: 24,
        assumed_chain_state_gb: 4,
        headers_sync: HeadersSyncParams { commitment_period: 620, redownload_buffer_size: 15_724 },
        signet_challenge: Some(DEFAULT_SIGNET_CHALLENGE.to_vec()),
        ..active_from_the_start(main())
    }
}

fn regtest() -> Params {
    Params {
        chain: Chain::Regtest,
        magic: [0xfa, 0xbf, 0xb5, 0xda],
        default_port: 18_444,
        rpc_port: 18_443,
        genesis: genesis_block(&STANDARD_GENESIS, 1_296_688_602, 0x207f_ffff, 2),
        genesis_hash: BlockHash::literal("0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"),
        pow_limit: Target(number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff")),
        pow_target_timespan: DAY,
        pow_allow_min_difficulty_blocks: true,
        pow_no_retargeting: true,
        subsidy_halving_interval: 150,
        segwit_height: Height::GENESIS,
        deployments: regtest_deployments(),
        minimum_chain_work: Work::ZERO,
        default_assume_valid: BlockHash::ZERO,
        assumeutxo: REGTEST_SNAPSHOTS,
        chain_tx_data: ChainTxData { time: 0, tx_count: 0, tx_rate: 0.001 },
        prune_after_height: Height::new(1000),
        assumed_blockchain_gb: 0,
        assumed_chain_state_gb: 0,
        headers_sync: HeadersSyncParams { commitment_period: 275, redownload_buffer_size: 7017 },
        ..active_from_the_start(main())
    }
}

/// Every buried deployment active from block 1, no known hash of a BIP-0034 block, no exceptions.
fn active_from_the_start(params: Params) -> Params {
    Params {
        bip34_height: Height::new(1),
        bip34_hash: BlockHash::ZERO,
        bip65_height: Height::new(1),
        bip66_height: Height::new(1),
        csv_height: Height::new(1),
        segwit_height: Height::new(1),
        script_flag_exceptions: &[],
        ..params
    }
}

/// No deployment ever starts, unless `-vbparams` changes it. `threshold` of 2,016 blocks would have to signal.
const fn never_active(threshold: u32) -> [VersionBits; Deployment::ALL.len()] {
    let never = VersionBits {
        bit: 28,
        start_time: VersionBits::NEVER_ACTIVE,
        timeout: VersionBits::NO_TIMEOUT,
        min_activation_height: 0,
        period: 2016,
        threshold,
    };
    // The second bit is that of bitcoin/bitcoin#35793, which is not merged.
    [never, VersionBits { bit: 3, ..never }]
}

/// Core's tests signal for the first from the genesis block on; the second starts only with `-vbparams`.
fn regtest_deployments() -> [VersionBits; Deployment::ALL.len()] {
    let [dummy, cleanup] = never_active(108).map(|never| VersionBits { period: 144, ..never });
    [VersionBits { start_time: 0, ..dummy }, cleanup]
}

fn number(hex: &str) -> U256 {
    U256::from_hex(hex).expect("a literal of hexadecimal digits")
}

/// The BIP-0016 exception, then the taproot exception.
const MAIN_EXCEPTIONS: &[(BlockHash, BaseFlags)] = &[
    (BlockHash::literal("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22"), BaseFlags::None),
    (BlockHash::literal("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad"), BaseFlags::P2shWitness),
];

/// The BIP-0016 exception.
const TESTNET3_EXCEPTIONS: &[(BlockHash, BaseFlags)] =
    &[(BlockHash::literal("00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105"), BaseFlags::None)];

const fn snapshot(height: u32, block: &str, coins: &str, chain_tx_count: u64) -> AssumeUtxo {
    AssumeUtxo {
        height: Height::new(height),
        block_hash: BlockHash::literal(block),
        hash_serialized: Hash256::literal(coins),
        chain_tx_count,
    }
}

const MAIN_SNAPSHOTS: &[AssumeUtxo] = &[
    snapshot(
        840_000,
        "0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5",
        "a2a5521b1b5ab65f67818e5e8eccabb7171a517f9e2382208f77687310768f96",
        991_032_194,
    ),
    snapshot(
        880_000,
        "000000000000000000010b17283c3c400507969a9c2afd1dcf2082ec5cca2880",
        "dbd190983eaf433ef7c15f78a278ae42c00ef52e0fd2a54953782175fbadcea9",
        1_145_604_538,
    ),
    snapshot(
        910_000,
        "0000000000000000000108970acb9522ffd516eae17acddcb1bd16469194a821",
        "4daf8a17b4902498c5787966a2b51c613acdab5df5db73f196fa59a4da2f1568",
        1_226_586_151,
    ),
    snapshot(
        935_000,
        "0000000000000000000147034958af1652b2b91bba607beacc5e72a56f0fb5ee",
        "e4b90ef9eae834f56c4b64d2d50143cee10ad87994c614d7d04125e2a6025050",
        1_305_397_408,
    ),
    snapshot(
        965_000,
        "00000000000000000001595977e6000ce56129f5c9b4073e31ccc30b90b97da9",
        "4a8d794337118c0c615b574f817c7306c687584a537184b8d233df42bf477ec2",
        1_429_611_231,
    ),
];

const TESTNET3_SNAPSHOTS: &[AssumeUtxo] = &[
    snapshot(
        2_500_000,
        "0000000000000093bcb68c03a9a168ae252572d348a2eaeba2cdf9231d73206f",
        "f841584909f68e47897952345234e37fcd9128cd818f41ee6c3ca68db8071be7",
        66_484_552,
    ),
    snapshot(
        4_840_000,
        "00000000000000f4971a7fb37fbdff89315b69a2e1920c467654a382f0d64786",
        "ce6bb677bb2ee9789c4a1c9d73e6683c53fc20e8fdbedbdaaf468982a0c8db2a",
        536_078_574,
    ),
    snapshot(
        5_125_000,
        "00000000000009ad1946e21cb4f1a6323ee99c89017b59d5166472672b868133",
        "d05430f34c9b7dd7eb98c0718cdf03782bcce8273847557d68ac2efc1365d4b8",
        536_708_663,
    ),
];

const TESTNET4_SNAPSHOTS: &[AssumeUtxo] = &[
    snapshot(
        90_000,
        "0000000002ebe8bcda020e0dd6ccfbdfac531d2f6a81457191b99fc2df2dbe3b",
        "784fb5e98241de66fdd429f4392155c9e7db5c017148e66e8fdbc95746f8b9b5",
        11_347_043,
    ),
    snapshot(
        120_000,
        "000000000bd2317e51b3c5794981c35ba894ce27d3e772d5c39ecd9cbce01dc8",
        "10b05d05ad468d0971162e1b222a4aa66caca89da2bb2a93f8f37fb29c4794b0",
        14_141_057,
    ),
    snapshot(
        150_000,
        "0000000000d9877342754dea8ec1eb24631517d38e3443c370465ee53a8b7434",
        "ca068cae50679d7c947454bbe4f0e6aeec1fbe2c6c2735a08bb988623649f950",
        14_810_011,
    ),
];

const SIGNET_SNAPSHOTS: &[AssumeUtxo] = &[
    snapshot(
        160_000,
        "0000003ca3c99aff040f2563c2ad8f8ec88bd0fd6b8f0895cfaf1ef90353a62c",
        "fe0a44309b74d6b5883d246cb419c6221bcccf0b308c9b59b7d70783dbdf928a",
        2_289_496,
    ),
    snapshot(
        290_000,
        "0000000577f2741bb30cd9d39d6d71b023afbeb9764f6260786a97969d5c9ac0",
        "97267e000b4b876800167e71b9123f1529d13b14308abec2888bbd2160d14545",
        28_547_497,
    ),
    snapshot(
        320_000,
        "0000000740ae66b284da84387dcfa14d7b1385b0bad482005ba4e770ea6c4b95",
        "1aaf72ecb376cc16957fbb8d5d406bfd6e3165510e2fc83879b6d14cd20b4462",
        32_079_110,
    ),
];

const REGTEST_SNAPSHOTS: &[AssumeUtxo] = &[
    snapshot(
        110,
        "135eec25a6fb277884e5824e7aa7d052c4868161c99a5122170b5266f86c273d",
        "86e9a1205b418b16dde3a18a78c730e30137e28466bda5dbf6b33ab8fc05447c",
        111,
    ),
    snapshot(
        200,
        "385901ccbd69dff6bbd00065d01fb8a9e464dede7cfe0372443884f9b1dcf6b9",
        "17dcc016d188d16068907cdeb38b75691a118d43053b8cd6a25969419381d13a",
        201,
    ),
    snapshot(
        299,
        "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853",
        "106b2c56233e378a824cf0d5ff2be42ed32c72f1605c9be288d00942908a40ac",
        334,
    ),
];
