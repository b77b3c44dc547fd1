//! Parameters of each network on the wire: magic, port, seeds, and those of header sync.
//!
//! Source: Bitcoin Core b88bffe, kernel/chainparams.cpp. Rules and genesis blocks are in `consensus`.

use crate::fixed_seeds;

/// A network as its peers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkParams {
    /// First four bytes of each v1 message, and salt of v2. Derived from the challenge on signet.
    pub magic: [u8; 4],
    /// Default port.
    pub port: u16,
    /// DNS seeds, as absolute domain names.
    pub dns_seeds: &'static [&'static str],
    /// Addresses of peers: see [`crate::fixed_seeds`].
    pub fixed_seeds: &'static [u8],
    /// Presync keeps the bit of one header in this many.
    pub commitment_period: u32,
    /// Number of headers that must follow before redownload releases one.
    pub redownload_buffer_count: usize,
}

/// Mainnet.
pub const MAIN: NetworkParams = NetworkParams {
    magic: [0xf9, 0xbe, 0xb4, 0xd9],
    port: 8333,
    dns_seeds: &[
        "dnsseed.bluematt.me.",
        "seed.bitcoin.jonasschnelli.ch.",
        "seed.btc.petertodd.net.",
        "seed.bitcoin.sprovoost.nl.",
        "dnsseed.emzy.de.",
        "seed.bitcoin.wiz.biz.",
        "seed.mainnet.achownodes.xyz.",
    ],
    fixed_seeds: fixed_seeds::MAIN,
    commitment_period: 641,
    redownload_buffer_count: 15_218,
};

/// Testnet3.
pub const TEST: NetworkParams = NetworkParams {
    magic: [0x0b, 0x11, 0x09, 0x07],
    port: 18333,
    dns_seeds: &[
        "testnet-seed.bitcoin.jonasschnelli.ch.",
        "seed.tbtc.petertodd.net.",
        "testnet-seed.bluematt.me.",
        "seed.testnet.achownodes.xyz.",
    ],
    fixed_seeds: fixed_seeds::TEST,
    commitment_period: 673,
    redownload_buffer_count: 14_460,
};

/// Testnet4.
pub const TESTNET4: NetworkParams = NetworkParams {
    magic: [0x1c, 0x16, 0x3f, 0x28],
    port: 48333,
    dns_seeds: &["seed.testnet4.bitcoin.sprovoost.nl.", "seed.testnet4.wiz.biz."],
    fixed_seeds: fixed_seeds::TESTNET4,
    commitment_period: 606,
    redownload_buffer_count: 16_092,
};

/// The default signet. For a custom challenge replace `magic`, and empty both kinds of seeds.
pub const SIGNET: NetworkParams = NetworkParams {
    magic: [0x0a, 0x03, 0xcf, 0x40],
    port: 38333,
    dns_seeds: &["seed.signet.bitcoin.sprovoost.nl.", "seed.signet.achownodes.xyz."],
    fixed_seeds: fixed_seeds::SIGNET,
    commitment_period: 620,
    redownload_buffer_count: 15_724,
};

/// Regtest: its seed is a name that cannot have an address.
pub const REGTEST: NetworkParams = NetworkParams {
    magic: [0xfa, 0xbf, 0xb5, 0xda],
    port: 18444,
    dns_seeds: &["dummySeed.invalid."],
    fixed_seeds: &[],
    commitment_period: 275,
    redownload_buffer_count: 7017,
};
