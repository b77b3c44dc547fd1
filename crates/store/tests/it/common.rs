//! What the tests share: made blocks, networks, real chains.

use disk::Disk;
use primitives::{BlockHash, Hash256, Header, Target, U256};
use std::path::Path;
use store::Network;

/// Regtest: any second header meets its target.
pub(crate) fn regtest() -> Network {
    network("regtest", [0xfa, 0xbf, 0xb5, 0xda], "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206")
}

/// A network by its facts; the easiest target of all, for no test here is about it.
pub(crate) fn network(folder: &'static str, magic: [u8; 4], genesis: &str) -> Network {
    let pow_limit = Target(U256::MAX.shifted_right(1));
    Network { folder, magic, genesis: BlockHash::literal(genesis), pow_limit }
}

/// A header on `prev` that meets regtest's target.
pub(crate) fn header(prev: BlockHash, time: u32) -> Header {
    let target = Target::from_compact(0x207f_ffff).unwrap();
    let made = (0..).map(|nonce| Header::new(4, prev, Hash256([7; 32]), time, 0x207f_ffff, nonce));
    made.into_iter().find(|header| target.is_met_by(&header.hash())).unwrap()
}

/// A header that does not meet regtest's target.
pub(crate) fn bad_header(prev: BlockHash, time: u32) -> Header {
    let target = Target::from_compact(0x207f_ffff).unwrap();
    let made = (0..).map(|nonce| Header::new(4, prev, Hash256([7; 32]), time, 0x207f_ffff, nonce));
    made.into_iter().find(|header| !target.is_met_by(&header.hash())).unwrap()
}

/// A block that parses: one transaction with one output whose script has `script_bytes` bytes.
pub(crate) fn block(prev: BlockHash, time: u32, script_bytes: usize) -> Vec<u8> {
    let mut out = header(prev, time).0.to_vec();
    out.push(1);
    out.extend_from_slice(&1u32.to_le_bytes());
    out.push(1);
    out.extend_from_slice(&[0; 32]);
    out.extend_from_slice(&[0xff; 4]);
    out.extend_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 1]);
    out.extend_from_slice(&5_000_000_000u64.to_le_bytes());
    primitives::encode::put_compact_size(&mut out, script_bytes as u64);
    out.extend((0..script_bytes).map(|at| at.to_le_bytes()[0] | 1));
    out.extend_from_slice(&[0; 4]);
    out
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

/// Hash of a block.
pub(crate) fn hash_of(block: &[u8]) -> BlockHash {
    Header(*block.first_chunk().unwrap()).hash()
}

/// A record of a block.
pub(crate) fn record(magic: [u8; 4], block: &[u8]) -> Vec<u8> {
    [&magic[..], &u32::try_from(block.len()).unwrap().to_le_bytes(), block].concat()
}

/// Writes a file whole, obfuscated.
pub(crate) fn put_file(disk: &dyn Disk, path: &Path, bytes: &[u8], key: [u8; 8]) {
    let mut bytes = bytes.to_vec();
    simd::xor::xor(&mut bytes, key, 0);
    if let Some(dir) = path.parent() {
        disk.create_dir_all(dir).unwrap();
    }
    if disk.metadata(path).unwrap().is_some() {
        disk.remove_file(path).unwrap();
    }
    disk.create(path).unwrap().write_at(0, &bytes).unwrap();
}
