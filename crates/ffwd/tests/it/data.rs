//! Block files and data directories made of test data.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// First bytes of each record of mainnet's and regtest's block files.
pub(crate) const MAIN_MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
pub(crate) const REGTEST_MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// The records of a block file, magic and size included.
pub(crate) fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut records, mut at) = (Vec::new(), 0);
    while at + 8 <= bytes.len() {
        let size = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        records.push(&bytes[at..at + 8 + size]);
        at += 8 + size;
    }
    records
}

/// Where a network's blocks lie in a data directory.
pub(crate) fn blocks_dir(datadir: &Path, chain: &str) -> PathBuf {
    let net = match chain {
        "main" => "",
        "test" => "testnet3",
        other => other,
    };
    datadir.join(net).join("blocks")
}

/// A data directory with these bytes as its only block file.
pub(crate) fn directory(chain: &str, bytes: &[u8]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(directory.path(), chain);
    fs::create_dir_all(&blocks).unwrap();
    fs::write(blocks.join("blk00000.dat"), bytes).unwrap();
    directory
}

/// A data directory with a real chain of the test data.
pub(crate) fn real(chain: &str, name: &str) -> Option<TempDir> {
    Some(directory(chain, &testkit::data::load(&format!("chains/{name}.blk.xz"))?))
}
