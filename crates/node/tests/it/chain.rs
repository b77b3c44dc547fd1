//! A small chain of our own: regtest blocks that anyone may spend, so that tests need no data from outside.

use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use primitives::{BlockHash, Header, Target, Txid};
use std::path::Path;

/// What a block pays at most, in satoshis: halved every 150 blocks.
pub(crate) fn subsidy(height: u32) -> u64 {
    5_000_000_000 >> (height / 150)
}

/// Blocks after which a coinbase may be spent.
const MATURITY: u32 = 100;
/// The genesis block of regtest is of this second.
pub(crate) const GENESIS_TIME: u32 = 1_296_688_602;

/// `count` blocks on regtest's genesis block, the genesis block first. From height 101 on each has a second transaction,
/// which spends the coinbase of 100 blocks before and makes two coins of it.
pub(crate) fn chain(count: u32) -> Vec<Vec<u8>> {
    let params = Params::new(Chain::Regtest);
    let mut blocks = vec![params.genesis.to_vec()];
    let (mut prev, mut coinbases) = (params.genesis_hash, vec![Txid::ZERO]);
    for height in 1..=count {
        let mut transactions = vec![coinbase(height)];
        coinbases.push(id(&transactions[0]));
        if height > MATURITY {
            let spent = height - MATURITY;
            transactions.push(spend(coinbases[spent as usize], subsidy(spent)));
        }
        let block = block(prev, GENESIS_TIME + 600 * height, &transactions);
        prev = hash_of(&block);
        blocks.push(block);
    }
    blocks
}

/// The same blocks as one block file.
pub(crate) fn file(blocks: &[Vec<u8>]) -> Vec<u8> {
    let magic = Params::new(Chain::Regtest).magic;
    let record = |block: &Vec<u8>| [&magic[..], &(block.len() as u32).to_le_bytes(), block].concat();
    blocks.iter().flat_map(record).collect()
}

/// Hash of a block.
pub(crate) fn hash_of(block: &[u8]) -> BlockHash {
    Header(*block.first_chunk().unwrap()).hash()
}

pub(crate) fn id(transaction: &[u8]) -> Txid {
    Txid::from_bytes(simd::sha256::sha256d(transaction))
}

pub(crate) fn block(prev: BlockHash, time: u32, transactions: &[Vec<u8>]) -> Vec<u8> {
    let mut level: Vec<Txid> = transactions.iter().map(|transaction| id(transaction)).collect();
    while level.len() > 1 {
        let pair = |pair: &[Txid]| id(&[pair[0].to_bytes(), pair[pair.len() - 1].to_bytes()].concat());
        level = level.chunks(2).map(pair).collect();
    }
    let root = level[0].to_hash256();
    let target = Target::from_compact(0x207f_ffff).unwrap();
    let header = (0..).map(|nonce| Header::new(4, prev, root, time, 0x207f_ffff, nonce));
    let header = header.into_iter().find(|header| target.is_met_by(&header.hash())).unwrap();
    [&header.0[..], &[transactions.len() as u8], &transactions.concat()].concat()
}

/// Pays to a script that is always true.
pub(crate) fn output(value: u64) -> Vec<u8> {
    [&value.to_le_bytes()[..], &[1, 0x51]].concat()
}

/// The height comes first, as BIP34 wants it: heights up to 16 as one byte, those up to 127 as a push of one, and so on.
pub(crate) fn coinbase(height: u32) -> Vec<u8> {
    coinbase_to(height, &[output(subsidy(height))])
}

/// The same with other outputs.
pub(crate) fn coinbase_to(height: u32, outputs: &[Vec<u8>]) -> Vec<u8> {
    let script = match u16::try_from(height).expect("few blocks").to_le_bytes() {
        [low @ ..=16, 0] => vec![0x50 + low, 0],
        [low @ ..=0x7f, 0] => vec![1, low, 0],
        [low, high] => {
            assert!(high < 0x80, "few blocks");
            vec![2, low, high, 0]
        }
    };
    let input = [&[1][..], &[0; 32], &[0xff; 4], &[script.len() as u8], &script, &[0xff; 4]].concat();
    [&[1, 0, 0, 0][..], &input, &[outputs.len() as u8], &outputs.concat(), &[0; 4]].concat()
}

pub(crate) fn spend(of: Txid, value: u64) -> Vec<u8> {
    let input = [&[1][..], of.as_bytes(), &[0; 4], &[0], &[0xff; 4]].concat();
    let outputs = [&[2][..], &output(value / 2), &output(value / 2)].concat();
    [&[1, 0, 0, 0][..], &input, &outputs, &[0; 4]].concat()
}

/// Puts a file on a disk, for good.
pub(crate) fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let folder = path.parent().unwrap();
    disk.create_dir_all(folder).unwrap();
    let file = disk.create(path).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    for folder in path.ancestors().skip(1) {
        disk.sync_dir(folder).unwrap();
    }
}
