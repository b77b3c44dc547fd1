//! The networks, by Core's names.

use crate::ids::BlockHash;
use consensus::{Chain, Params};
use std::error;
use std::fmt;
use std::str::FromStr;

/// A network, named as in Core's `-chain`.
///
/// ```
/// use ffwd_engine::Network;
///
/// let network: Network = "testnet4".parse()?;
/// assert_eq!((network, network.name()), (Network::Testnet4, "testnet4"));
/// # Ok::<(), ffwd_engine::ParseNetworkError>(())
/// ```
///
/// Source: Bitcoin Core b88bffe, util/chaintype.cpp, `ChainTypeFromString`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Network {
    /// The main network: `main`.
    Main,
    /// The third test network: `test`.
    Testnet3,
    /// The fourth test network: `testnet4`. Source: BIP-0094.
    Testnet4,
    /// The test network whose blocks are signed: `signet`. Source: BIP-0325.
    Signet,
    /// A private network with trivial proof of work: `regtest`.
    Regtest,
}

impl Network {
    /// All networks.
    pub const ALL: [Network; 5] =
        [Network::Main, Network::Testnet3, Network::Testnet4, Network::Signet, Network::Regtest];

    /// Core's name.
    pub fn name(self) -> &'static str {
        self.chain().name()
    }

    /// Default port of its peers.
    pub fn default_port(self) -> u16 {
        self.params().default_port
    }

    /// Hash of its genesis block.
    pub fn genesis_hash(self) -> BlockHash {
        self.params().genesis_hash.into()
    }

    fn chain(self) -> Chain {
        match self {
            Network::Main => Chain::Main,
            Network::Testnet3 => Chain::Test,
            Network::Testnet4 => Chain::Testnet4,
            Network::Signet => Chain::Signet,
            Network::Regtest => Chain::Regtest,
        }
    }

    pub(crate) fn params(self) -> Params {
        Params::new(self.chain())
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Network, ParseNetworkError> {
        Network::ALL
            .into_iter()
            .find(|network| network.name() == text)
            .ok_or_else(|| ParseNetworkError(text.to_owned()))
    }
}

/// No network has this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseNetworkError(String);

impl fmt::Display for ParseNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Network::ALL.map(Network::name).join(", ");
        write!(f, "no network is called {:?}: use one of {names}", self.0)
    }
}

impl error::Error for ParseNetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_cores_names() {
        for (network, name, port) in [
            (Network::Main, "main", 8333),
            (Network::Testnet3, "test", 18333),
            (Network::Testnet4, "testnet4", 48333),
            (Network::Signet, "signet", 38333),
            (Network::Regtest, "regtest", 18444),
        ] {
            assert_eq!((name.parse(), network.to_string().as_str()), (Ok(network), name));
            assert_eq!(network.default_port(), port);
        }
        let why = "mainnet".parse::<Network>().unwrap_err().to_string();
        assert!(why.contains("\"mainnet\"") && why.contains("main, test, testnet4, signet, regtest"), "{why}");
        let genesis = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        assert_eq!(Network::Regtest.genesis_hash().to_string(), genesis);
    }
}
