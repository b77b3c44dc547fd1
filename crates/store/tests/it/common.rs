//! What the tests share: made blocks, networks, real chains.

use disk::Disk;
use primitives::{BlockHash, Hash256, Header, OutPoint, Target, U256};
use std::path::Path;
use store::Network;
use testkit::blocks::{self, Tx};

pub(crate) use testkit::blocks::{hash_of, record};

/// Regtest: any second header meets its target.
pub(crate) fn regtest() -> Network {
    network("regtest", [0xfa, 0xbf, 0xb5, 0xda], "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")
}

/// A network by its facts; the easiest target of all, for no test here is about it.
pub(crate) fn network(directory: &'static str, magic: [u8; 4], genesis: &str) -> Network {
    let pow_limit = Target(U256::MAX.shifted_right(1));
    Network { directory, magic, genesis: BlockHash::literal(genesis), pow_limit }
}

/// The Merkle root of every block here: bodies do not count.
const ROOT: Hash256 = Hash256([7; 32]);

/// A header on `prev` that meets regtest's target.
pub(crate) fn header(prev: BlockHash, time: u32) -> Header {
    blocks::mine(4, prev, ROOT, time, blocks::EASIEST)
}

/// A header that does not meet regtest's target.
pub(crate) fn bad_header(prev: BlockHash, time: u32) -> Header {
    blocks::without_work(4, prev, ROOT, time, blocks::EASIEST)
}

/// A block that parses: one transaction with one output whose script has `script_bytes` bytes.
pub(crate) fn block(prev: BlockHash, time: u32, script_bytes: usize) -> Vec<u8> {
    let script = (0..script_bytes).map(|index| index.to_le_bytes()[0] | 1).collect();
    let outputs = vec![(50 * blocks::COIN, script)];
    let tx = Tx { version: 1, outputs, ..Tx::spend(OutPoint::NULL, 0) };
    blocks::with_body(header(prev, time), &[tx.bytes()])
}

/// Blocks on one another, of growing and differing sizes.
pub(crate) fn chain(count: u32, script_bytes: impl Fn(u32) -> usize) -> Vec<Vec<u8>> {
    let mut prev = BlockHash::ZERO;
    let mut blocks = Vec::new();
    for time in 1..=count {
        blocks.push(block(prev, time, script_bytes(time)));
        prev = hash_of(blocks.last().unwrap());
    }
    blocks
}

/// Writes a file whole, obfuscated.
pub(crate) fn put_file(disk: &dyn Disk, path: &Path, bytes: &[u8], key: [u8; 8]) {
    let mut bytes = bytes.to_vec();
    kernels::xor::xor(&mut bytes, key, 0);
    if let Some(dir) = path.parent() {
        disk.create_dir_all(dir).unwrap();
    }
    if disk.metadata(path).unwrap().is_some() {
        disk.remove_file(path).unwrap();
    }
    disk.create(path).unwrap().write_at(0, &bytes).unwrap();
}
