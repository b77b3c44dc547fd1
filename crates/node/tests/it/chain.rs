//! A small chain of our own: regtest blocks that need no signature, so that tests need no data from outside.

use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use primitives::{OutPoint, Txid};
use std::path::Path;
use testkit::blocks::{self, Tx};

pub(crate) use testkit::blocks::{GENESIS_TIME, block_of_bytes as block, hash_of, txid_of as id};

/// What a block pays at most, in satoshis.
pub(crate) fn subsidy(height: u32) -> u64 {
    blocks::subsidy(height).cast_unsigned()
}

/// See [`blocks::chain`].
pub(crate) fn chain(count: u32) -> Vec<Vec<u8>> {
    blocks::chain(&Params::new(Chain::Regtest).genesis, count)
}

/// The same blocks as one block file.
pub(crate) fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
    let magic = Params::new(Chain::Regtest).magic;
    blocks.iter().flat_map(|block| blocks::record(magic, block)).collect()
}

/// The coinbase of a block of [`chain`].
pub(crate) fn coinbase(height: u32) -> Vec<u8> {
    blocks::coinbase(height).bytes()
}

/// The same with other outputs.
pub(crate) fn coinbase_to(height: u32, outputs: Vec<(i64, Vec<u8>)>) -> Vec<u8> {
    Tx { outputs, ..blocks::coinbase(height) }.bytes()
}

/// A coinbase with a number in it, so that there are several of a height.
pub(crate) fn numbered_coinbase(height: u32, number: u32, value: u64) -> Vec<u8> {
    let mut tx = Tx { version: 1, ..Tx::coinbase(height, value.cast_signed()) };
    tx.inputs[0].script_sig = [&blocks::height_push(height)[..], &[4], &number.to_le_bytes()].concat();
    tx.bytes()
}

/// Makes two coins of the first output of a transaction.
pub(crate) fn spend(of: Txid, value: u64) -> Vec<u8> {
    blocks::split(of, value.cast_signed()).bytes()
}

/// Makes one coin of it.
pub(crate) fn spend_to_one(of: Txid, value: u64) -> Vec<u8> {
    Tx { version: 1, ..Tx::spend(OutPoint { txid: of, vout: 0 }, value.cast_signed()) }.bytes()
}

/// Puts a file on a disk, for good.
pub(crate) fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let directory = path.parent().unwrap();
    disk.create_dir_all(directory).unwrap();
    let file = disk.create(path).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    for directory in path.ancestors().skip(1) {
        disk.sync_dir(directory).unwrap();
    }
}
