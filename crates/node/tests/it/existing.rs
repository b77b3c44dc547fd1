//! Folders that somebody else left, or left half: what is there is gone on with as it is meant, or refused by name.

use crate::chain::{GENESIS_TIME, block, chain, coinbase, file, hash_of, id, put, spend, subsidy};
use crate::folder::{FOLDER, options};
use leveldb::fs::{Disk, SimDisk};
use node::jobs;
use node::options::{SetHash, SetInfo};
use std::path::{Path, PathBuf};

const BLOCKS: u32 = 110;
const BLOCK_FILE: &str = "regtest/blocks/blk00000.dat";
const CHAINSTATE: &str = "regtest/chainstate";

fn disk(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(FOLDER).join(BLOCK_FILE), bytes);
    disk
}

fn set(disk: &SimDisk) -> SetInfo {
    jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap()
}

/// Every file of a folder.
fn files(disk: &SimDisk, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let names = disk.list(dir).unwrap().into_iter().map(|entry| dir.join(entry.name));
    names.map(|path| (path.clone(), disk.open(&path).unwrap().bytes().unwrap().to_vec())).collect()
}

/// The first transaction's coins are spent in the same block; on the other branch they never were.
#[test]
fn a_replay_across_a_fork_ends_with_the_other_branchs_coins() {
    let blocks = chain(BLOCKS);
    let height = BLOCKS + 1;
    let coin_of = |height: u32| (id(&blocks[height as usize][81..]), subsidy(height));
    let (txid, value) = coin_of(height - 100);
    let made = spend(txid, value);
    let in_block = spend(id(&made), value / 2);
    let prev = hash_of(&blocks[BLOCKS as usize]);
    let left = block(prev, GENESIS_TIME + 600 * height, &[coinbase(height), made, in_block]);
    let right = block(prev, GENESIS_TIME + 600 * height + 1, &[coinbase(height)]);
    let (txid, value) = coin_of(height - 99);
    let next = [coinbase(height + 1), spend(txid, value)];
    let top = block(hash_of(&right), GENESIS_TIME + 600 * height + 600, &next);
    let (old, new) = (hash_of(&left), hash_of(&top));

    let disk = disk(&file(&[&blocks[..], &[left]].concat()));
    assert_eq!(jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap().best, old);
    let dir = Path::new(FOLDER).join(CHAINSTATE);
    let on_left = files(&disk, &dir);
    let foreign = PathBuf::from("/foreign.dat");
    put(&disk, &foreign, &file(&[right, top]));
    assert_eq!(jobs::import(&options(&disk, false), &[foreign], &|_| ()).unwrap().best, new);
    let want = set(&disk);
    let on_right = files(&disk, &dir);
    // Core may have written none of the changes, or all but the last.
    for (row, left) in [("nothing written", on_left), ("all written", on_right)] {
        disk.remove_dir_all(&dir).unwrap();
        left.iter().for_each(|(path, bytes)| put(&disk, path, bytes));
        let db = leveldb::Db::open(disk.shared(), &dir, leveldb::Options::default()).unwrap();
        let key = db.get(b"\x0e\0obfuscate_key").unwrap().unwrap();
        let mut heads = [&[2], &new.0[..], &old.0].concat();
        simd::xor::xor(&mut heads, key[1..].try_into().unwrap(), 0);
        db.write(&[(&b"B"[..], None), (&b"H"[..], Some(heads))]).unwrap();
        drop(db);
        let report = jobs::import(&options(&disk, false), &[], &|_| ()).unwrap();
        assert_eq!((report.best, report.height), (new, height + 1), "{row}");
        let got = set(&disk);
        assert_eq!((got.hash, got.txouts), (want.hash, want.txouts), "{row}");
        jobs::verify(&options(&disk, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    }
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    assert_eq!(set(&disk).hash, want.hash, "a fresh reindex");
}
