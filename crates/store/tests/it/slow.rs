//! Large directories, with `SLOW=1`: results are checked, and what they took is printed.

use crate::common::{block, header, network, record};
use disk::RealDisk;
use primitives::{BlockHash, CoinKey, Height, OutPoint, Txid};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::blockfiles::{BlockAt, BlockFiles, BulkReader, Pool};
use store::index::IndexChanges;
use store::{BlockTreeDb, Chainstate, IndexEntry, Layout, Status};

fn is_slow_wanted() -> bool {
    let is_wanted = testkit::is_slow();
    if !is_wanted {
        println!("skipped: SLOW=1 runs it");
    }
    is_wanted
}

#[test]
fn index_of_a_million_entries_is_written_and_loaded() {
    if !is_slow_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path(), "", None);
    let mut entries: Vec<IndexEntry> = Vec::new();
    for height in 0..1_000_000 {
        let header = header(entries.last().map_or(BlockHash::ZERO, |entry| entry.hash), height);
        let status = Status(157);
        let places = (height / 150, 8 + height % 150 * 900_000, 8 + height % 150 * 100_000);
        let (file, data_offset, undo_offset) = places;
        let entry = IndexEntry::header_only(header, header.hash(), Height::new(height));
        entries.push(IndexEntry { status, tx_count: 2000, file, data_offset, undo_offset, ..entry });
    }
    let network = network("", [0; 4], &entries[0].hash.to_string());
    let index = BlockTreeDb::open(RealDisk::shared(), &layout).unwrap();
    let start = Instant::now();
    index.write(&IndexChanges { entries: &entries, ..IndexChanges::default() }).unwrap();
    println!("index of 1,000,000 entries written in {:?}", start.elapsed());
    drop(index);
    let start = Instant::now();
    let index = BlockTreeDb::open(RealDisk::shared(), &layout).unwrap();
    let loaded = index.load(&network).unwrap();
    println!("and loaded in {:?}", start.elapsed());
    assert!(loaded.entries == entries);
}

#[test]
fn chainstate_of_three_million_coins_is_written_and_read() {
    if !is_slow_wanted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let outpoint = |i: u32| OutPoint { txid: Txid::from_bytes(kernels::sha256::sha256(&i.to_le_bytes())), vout: i % 3 };
    let mut outpoints: Vec<OutPoint> = (0..3_000_000).map(outpoint).collect();
    outpoints.sort_unstable();
    let chainstate = Chainstate::open(RealDisk::shared(), dir.path()).unwrap();
    let coin = [7u8; 30];
    for parts in [1, 2] {
        let start = Instant::now();
        let commit =
            chainstate.begin_commit(BlockHash::from_bytes([1; 32]), 3_000_000, 64 * 3_000_000).unwrap().unwrap();
        std::thread::scope(|scope| {
            for share in outpoints.chunks(outpoints.len() / parts) {
                let mut part = commit.part();
                scope.spawn(move || {
                    let mut key = Vec::new();
                    for outpoint in share {
                        key.clear();
                        key.extend_from_slice(CoinKey::new(outpoint).as_bytes());
                        part.put(&key, &coin).unwrap();
                    }
                    part.finish().unwrap();
                });
            }
        });
        commit.finish().unwrap();
        println!("3,000,000 coins committed in {parts} parts in {:?}", start.elapsed());
    }
    let view = chainstate.view();
    let keys: Vec<CoinKey> = outpoints.iter().step_by(60).map(CoinKey::new).collect();
    for round in 0..3 {
        let (start, mut found) = (Instant::now(), 0);
        for block in keys.chunks(5000) {
            view.look_up(block, |_, value| found += usize::from(value == Some(&coin[..]))).unwrap();
        }
        assert_eq!(found, keys.len());
        println!(
            "round {round}: {found} coins looked up in batches in {:?}, {} runs",
            start.elapsed(),
            view.run_count()
        );
    }
    let start = Instant::now();
    let (mut coins, mut count) = (view.coins().unwrap(), 0);
    while coins.next_coin().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 3_000_000);
    println!("all of them gone through in {:?}", start.elapsed());
}

#[test]
fn scan_and_bulk_read_of_a_gigabyte_of_blocks() {
    if !is_slow_wanted() {
        return;
    }
    let (dir, key) = (tempfile::tempdir().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    let network = network("", [0xfa, 0xbf, 0xb5, 0xda], &"0".repeat(64));
    let made = block(BlockHash::ZERO, 1, 1_500_000);
    for file in 0..8 {
        let mut bytes = record(network.magic, &made).repeat(85);
        kernels::xor::xor(&mut bytes, key, 0);
        std::fs::write(dir.path().join(format!("blk{file:05}.dat")), bytes).unwrap();
    }
    let files = Arc::new(BlockFiles::new(RealDisk::shared(), dir.path(), &network, key));
    let start = Instant::now();
    let numbers = files.numbers().unwrap().there;
    let found = numbers.iter().flat_map(|&file| files.scan(file).unwrap().blocks);
    let wanted: Vec<BlockAt> = found.map(|block| block.location).collect();
    println!("{} blocks found in {:?}", wanted.len(), start.elapsed());
    for round in 0..2 {
        let reader = BulkReader::new(files.clone(), Pool::new(16 << 20, 4, kernels::Kernels::AUTO));
        let (start, mut at, mut bytes) = (Instant::now(), 0, 0);
        while at < wanted.len() {
            for block in reader.read(&wanted[at..], &|| true, &mut Duration::default()).unwrap() {
                let block = block.unwrap();
                assert_eq!(block.len(), made.len());
                bytes += block.len();
                at += 1;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("round {round}: {} MB read in {seconds:.3} s, {:.0} MB/s", bytes >> 20, bytes as f64 / 1e6 / seconds);
    }
    assert_eq!(wanted.len(), 8 * 85);
}
