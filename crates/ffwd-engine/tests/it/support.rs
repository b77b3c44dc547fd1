//! Data directories with real chains.

use ffwd_engine::{DataDir, Network};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The chain of the examples: 108 blocks of regtest that bitcoind b88bffe made.
pub(crate) const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/chain/regtest_0_107.blk");
/// What that bitcoind said of its UTXO set: gettxoutsetinfo.
pub(crate) const SMALL_HASH: &str = "be8a56a52755a51d2a607ab1a23990223c5fa0cc4a9b8a814817039410fc35b9";
pub(crate) const SMALL_BEST: &str = "2539af599d8b5c64cde25f5f795c112d6dcd026b8d4b2a203080b721f324a26b";

/// The directory of the block files of a network's data directory, made.
pub(crate) fn blocks_dir(dir: &Path, network: Network) -> PathBuf {
    let net = match network {
        Network::Main => "",
        Network::Testnet3 => "testnet3",
        network => network.name(),
    };
    let blocks = dir.join(net).join("blocks");
    std::fs::create_dir_all(&blocks).unwrap();
    blocks
}

/// A data directory of regtest with the chain of the examples as its block file.
pub(crate) fn small() -> (TempDir, DataDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(SMALL, blocks_dir(folder.path(), Network::Regtest).join("blk00000.dat")).unwrap();
    let dir = DataDir::open(folder.path(), Network::Regtest).unwrap();
    (folder, dir)
}

/// The same with its index, undo files and UTXO set.
pub(crate) fn indexed() -> (TempDir, DataDir) {
    let (folder, dir) = small();
    dir.reindex().cache_bytes(16 << 20).run().unwrap();
    (folder, dir)
}

/// A data directory with a chain of the test data, whose file begins with the genesis block; none without test data.
pub(crate) fn real(network: Network, file: &str) -> Option<(TempDir, DataDir)> {
    let blocks = testkit::data::load(file)?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(blocks_dir(folder.path(), network).join("blk00000.dat"), blocks).unwrap();
    let dir = DataDir::builder(folder.path(), network).threads(2).open().unwrap();
    Some((folder, dir))
}

/// What a program that is not this one says of a chain of the test data at a height.
pub(crate) fn expected(chain: &str, height: u32) -> serde_json::Value {
    let text = testkit::data::load("chains/expected_utxo.json").unwrap();
    serde_json::from_slice::<serde_json::Value>(&text).unwrap()[chain][height.to_string()].clone()
}

/// Changes bytes of a file from `at` on.
pub(crate) fn damage(path: &Path, at: impl FnOnce(&[u8]) -> usize, count: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at(&bytes);
    bytes[at..at + count].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(path, bytes).unwrap();
}

/// The place that is `back` bytes before the last that is not zero.
pub(crate) fn near_end(back: usize) -> impl Fn(&[u8]) -> usize {
    move |bytes| bytes.iter().rposition(|byte| *byte != 0).unwrap() - back
}
