//! Core's optional indexes, made with the blocks and from the files: right after reorgs, accidents and damage.
//!
//! What they must say is taken from the blocks themselves; that the bytes are Core's is the matter of crate `indexes`, and
//! of `crates/ffwd/tests/it/indexes.rs`, where bitcoind reads them.
//!
//! Cases of Core's functional tests that concern files and messages, and where they are (those without a file are here; those of
//! p2p_blockfilters.py are listed in `crates/p2p/src/hub/tests/filters.rs`):
//!
//! | Core's case | test |
//! |---|---|
//! | feature_coinstatsindex.py: output is that without the index, at every height, with block_info | `interop/indexes.py`; `crates/indexes/tests/it/chains.rs` |
//! | a height without the index | `indexes_made_with_the_blocks_are_those_made_from_the_files` |
//! | robust across restarts; -reindex; -reindex-chainstate | `indexes_are_right_after_a_stop_at_any_operation`; `rebuilt_coins_leave_indexes_right` |
//! | a block that does not exist | `indexes_made_with_the_blocks_are_those_made_from_the_files` |
//! | reorgs, and statistics of the stale block | `reorgs_leave_what_core_leaves` |
//! | a reorg while the index is off; an unclean restart after one | `an_index_off_the_chain_is_taken_back`; `indexes_are_right_after_a_stop_at_any_operation` |
//! | an index of version 29 or older is named | `rebuilt_coins_leave_indexes_right` |
//! | rpc_getblockfilter.py: filters of the active chain, and of the stale one | `reorgs_leave_what_core_leaves` |
//! | an unknown block; without the index | `indexes_made_with_the_blocks_are_those_made_from_the_files` |
//! | an unknown filter type | `crates/ffwd/src/args/indexes.rs` |
//! | feature_txindex_compatibility.py: the older format read, said, and gone on with; both formats in one index | `txindex_of_the_older_format_is_read_and_gone_on_with` |
//! | feature_index_prune.py: filters and statistics of pruned blocks | `prune.rs`, `indexes_are_made_before_their_blocks_go` |
//! | indexes off for a while, their blocks still there; pruned beyond them, with Core's message | `prune.rs`, `indexes_left_behind_go_on_until_their_blocks_are_pruned` |
//! | again from the beginning by -reindex | `prune.rs`, `reindex_with_prune_stays_near_its_target` (refused here: its blocks are to be downloaded) |

use crate::chain::{block, chain, coinbase, file, hash_of, numbered_coinbase, put, spend, spend_to_one, subsidy};
use crate::data_directory::{DATADIR, options};
use crate::existing::leave_heads;
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use indexes::locator;
use indexes::txindex::{self, DiskTxPos};
use node::jobs::{self, BlockId, SilentQuestion};
use node::options::{IndexKind, Options};
use node::reporting::Event;
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Height, OutPoint, Tables, Txid};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use store::Layout;
use store::indexes::IndexDb;
use testkit::blocks::GENESIS_TIME;

const BLOCKS: u32 = 110;
const FILTERS: &str = "regtest/indexes/blockfilter/basic/fltr00000.dat";

fn all(disk: &SimDisk, is_eager: bool) -> Options {
    Options { indexes: IndexKind::ALL.to_vec(), ..options(disk, is_eager) }
}

/// A disk with these blocks in a block file.
fn disk_with(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(blocks));
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

/// A reindexed data directory with these blocks and every index.
fn indexed(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = disk_with(blocks);
    jobs::reindex(&all(&disk, false), false, &|_| ()).unwrap();
    disk
}

/// What one block adds: its transactions, and what they spend.
fn spends(bytes: &[u8]) -> Vec<(Txid, Vec<OutPoint>)> {
    let mut tables = Tables::new();
    let block = tables.parse_block(bytes).unwrap();
    let inputs = |index: usize| {
        let tx = block.transaction(index);
        if index == 0 { Vec::new() } else { tx.inputs().map(|input| input.prevout()).collect() }
    };
    block.transactions().enumerate().map(|(index, tx)| (tx.txid(), inputs(index))).collect()
}

/// Every look-up on the chain of `blocks`, a stretch of its heights in full.
pub(crate) fn check(disk: &SimDisk, blocks: &[Vec<u8>], heights: impl Iterator<Item = usize>, row: &str) {
    let options = options(disk, false);
    let say = |what: &str, why: node::Fault| -> ! { panic!("{row}: {what}: {why}") };
    for height in heights {
        let hash = hash_of(&blocks[height]);
        let at = BlockId::Height(Height::from_index(height));
        let filter = jobs::filter(&options, &at, &|_| ()).unwrap_or_else(|why| say("filter", why));
        assert_eq!(filter.block, hash, "{row}: filter of height {height}");
        let set = jobs::set_info_at(&options, &at, &|_| ()).unwrap_or_else(|why| say("coins", why));
        let paid: u64 = (1..=height as u32).map(subsidy).sum();
        assert_eq!(
            (set.block, set.row.totals.amount + set.row.totals.unspendable()),
            (hash, (paid + subsidy(0)).cast_signed()),
            "{row}: all money at height {height}"
        );
        for (txid, spent) in spends(&blocks[height]).into_iter().filter(|_| height > 0) {
            let tx = jobs::tx(&options, txid, &|_| ()).unwrap_or_else(|why| say("tx", why));
            assert_eq!((tx.block, tx.height.to_usize()), (hash, height), "{row}: {txid}");
            for outpoint in spent {
                let found = jobs::spender(&options, outpoint, &|_| ()).unwrap_or_else(|why| say("spender", why));
                assert_eq!(found.spent_by, Some((txid, hash)), "{row}: {outpoint}");
            }
        }
    }
}

/// What the two agree on: filters with headers, and statistics.
fn rows(disk: &SimDisk, count: usize) -> Vec<(Vec<u8>, String, indexes::coinstats::StatsRow)> {
    let options = options(disk, false);
    let row = |height| {
        let at = BlockId::Height(Height::from_index(height));
        let filter = jobs::filter(&options, &at, &|_| ()).unwrap();
        (filter.filter, filter.header.to_string(), jobs::set_info_at(&options, &at, &|_| ()).unwrap().row)
    };
    (0..count).map(row).collect()
}

#[test]
fn indexes_made_with_the_blocks_are_those_made_from_the_files() {
    let blocks = chain(BLOCKS);
    let with = disk_with(&blocks);
    jobs::reindex(&all(&with, true), false, &|_| ()).unwrap();
    check(&with, &blocks, (0..blocks.len()).step_by(9).chain(100..blocks.len()), "with the blocks");
    let after = disk_with(&blocks);
    jobs::reindex(&options(&after, false), false, &|_| ()).unwrap();
    let none = jobs::tx(&options(&after, false), spends(&blocks[5])[0].0, &|_| ()).unwrap_err();
    assert!(none.to_string().contains("Run ffwd index --only txindex"), "{none}");
    let more = Options { par: 3, dbcache_bytes: 4 << 20, ..options(&after, false) };
    let report = jobs::index(&more, &IndexKind::ALL, &|_| ()).unwrap();
    assert_eq!((report.height, report.best), (Height::new(BLOCKS), hash_of(&blocks[BLOCKS as usize])));
    check(&after, &blocks, (0..blocks.len()).step_by(9).chain(100..blocks.len()), "from the files");
    assert_eq!(rows(&with, blocks.len()), rows(&after, blocks.len()));
    let unspent = OutPoint { txid: spends(&blocks[50])[0].0, vout: 0 };
    assert_eq!(jobs::spender(&options(&with, false), unspent, &|_| ()).unwrap().spent_by, None);
    let unknown = BlockId::Hash(BlockHash::from_bytes([7; 32]));
    for (row, why) in [
        ("no such transaction", jobs::tx(&options(&with, false), Txid::from_bytes([7; 32]), &|_| ()).err()),
        ("genesis", jobs::tx(&options(&with, false), spends(&blocks[0])[0].0, &|_| ()).err()),
        ("too high", jobs::filter(&options(&with, false), &BlockId::Height(Height::new(111)), &|_| ()).err()),
        ("no such block", jobs::set_info_at(&options(&with, false), &unknown, &|_| ()).err()),
    ] {
        let why = why.unwrap_or_else(|| panic!("{row}: found"));
        assert!(matches!(why, node::Fault::Refused(_)), "{row}: {why}");
    }
}

/// The watchdog expects reports until the last one. What follows the last block, a commit and compactions, has none.
/// Core writes coins in several batches, between which the set has no best block: the tip is unknown.
#[test]
fn half_flushed_coins_of_core_answer_no_look_up() {
    let blocks = chain(BLOCKS);
    let disk = indexed(&blocks);
    leave_heads(&disk, hash_of(&blocks[110]), hash_of(&blocks[109]));
    let options = options(&disk, false);
    let block = BlockId::Hash(hash_of(&blocks[5]));
    let txid = spends(&blocks[5])[0].0;
    let silent = SilentQuestion::default();
    for (row, why) in [
        ("tx", jobs::tx(&options, txid, &|_| ()).err()),
        ("filter", jobs::filter(&options, &block, &|_| ()).err()),
        ("coins", jobs::set_info_at(&options, &block, &|_| ()).err()),
        ("spender", jobs::spender(&options, OutPoint { txid, vout: 0 }, &|_| ()).err()),
        ("silent payments", jobs::silent_payments(&options, &block, &silent, &|_| ()).err()),
    ] {
        let why = why.unwrap_or_else(|| panic!("{row}: answered")).to_string();
        assert!(why.contains("last flush bitcoind did not finish"), "{row}: {why}");
    }
}

#[test]
fn indexing_ends_its_reports_with_the_last_block() {
    let disk = disk_with(&chain(BLOCKS));
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    let last = Mutex::new(None);
    let events = |event| {
        if let Event::Progress(progress) = event {
            *last.lock().unwrap() = Some((progress.is_last, progress.height));
        }
    };
    jobs::index(&options(&disk, false), &[IndexKind::Tx], &events).unwrap();
    assert_eq!(last.into_inner().unwrap(), Some((true, Height::new(BLOCKS))));
}

/// A branch from below `height` on, of `count` blocks; the first spends what the chain's block there spends, otherwise.
pub(crate) fn branch(blocks: &[Vec<u8>], height: u32, count: u32, number: u32) -> Vec<Vec<u8>> {
    let mut made: Vec<Vec<u8>> = blocks[..height as usize].to_vec();
    for at in height..height + count {
        let mut transactions = vec![numbered_coinbase(at, number, subsidy(at))];
        if at == height && at > 100 {
            transactions.push(spend_to_one(testkit::blocks::txid_of(&coinbase(at - 100)), subsidy(at - 100)));
        } else if at == height + 1 {
            let before = spends(&made[height as usize]).last().unwrap().0;
            transactions.push(spend(before, subsidy(height - 100)));
        }
        made.push(block(hash_of(&made[at as usize - 1]), GENESIS_TIME + 600 * at + number, &transactions));
    }
    made
}

/// Core leaves filters and statistics of stale blocks, and no spenders; a chain that comes back is as it was.
#[test]
fn reorgs_leave_what_core_leaves() {
    let first = chain(BLOCKS);
    let second = branch(&first, 105, 8, 1);
    let third = [&first[..], &branch(&first, BLOCKS + 1, 6, 2)[BLOCKS as usize + 1..]].concat();
    let disk = indexed(&first);
    let before = rows(&disk, first.len());
    for (row, chain, is_eager) in [("another branch", &second, false), ("back, and on", &third, true)] {
        put(&disk, Path::new("/more.dat"), &file(chain));
        let report = jobs::import(&all(&disk, is_eager), &[PathBuf::from("/more.dat")], &|_| ()).unwrap();
        assert_eq!(report.best, hash_of(chain.last().unwrap()), "{row}");
        check(&disk, chain, 95..chain.len(), row);
        let fresh = indexed(chain);
        assert_eq!(rows(&disk, chain.len()), rows(&fresh, chain.len()), "{row}: as if it had always been");
        disk.remove_file(Path::new("/more.dat")).unwrap();
    }
    let stale = hash_of(&second[107]);
    let kept = jobs::filter(&options(&disk, false), &BlockId::Hash(stale), &|_| ()).unwrap();
    assert_eq!((kept.block, kept.height), (stale, Height::new(107)), "the filter of a stale block stays");
    jobs::set_info_at(&options(&disk, false), &BlockId::Hash(stale), &|_| ()).unwrap();
    let tx = jobs::tx(&options(&disk, false), spends(&second[106])[1].0, &|_| ()).unwrap();
    assert_eq!((tx.block, tx.confirmations), (hash_of(&second[106]), 0), "transactions of stale blocks stay");
    let off = spends(&second[106])[1].1[0];
    assert_eq!(jobs::spender(&options(&disk, false), off, &|_| ()).unwrap().spent_by, None, "spenders go");
    assert_eq!(rows(&disk, 105), before[..105]);
}

/// A disk with all indexes of a chain, and in `/more.dat` a better branch from a height on: both, and that disk.
fn before_a_reorg(from: u32, count: u32) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, SimDisk) {
    let first = chain(BLOCKS);
    let second = branch(&first, from, count, 1);
    let disk = indexed(&first);
    put(&disk, Path::new("/more.dat"), &file(&second));
    (first, second, disk)
}

/// Indexes that stand off the chain, or above it, are taken back from the files.
#[test]
fn an_index_off_the_chain_is_taken_back() {
    let (_, second, disk) = before_a_reorg(105, 8);
    // A run that keeps no index leaves them behind.
    jobs::import(&options(&disk, false), &[PathBuf::from("/more.dat")], &|_| ()).unwrap();
    let why = jobs::tx(&options(&disk, false), spends(&second[106])[1].0, &|_| ()).unwrap_err();
    assert!(why.to_string().contains("Run ffwd index --only txindex"), "{why}");
    jobs::index(&options(&disk, false), &[], &|_| ()).unwrap();
    check(&disk, &second, 100..second.len(), "taken back, and on");
    let fresh = indexed(&second);
    assert_eq!(rows(&disk, second.len()), rows(&fresh, second.len()));
}

/// A stop at any operation of a reorg that commits behind each block it takes off the chain, because nothing may stay in
/// memory: the same command ends with the right set and indexes, and in between the coins stand on one of the two branches.
#[test]
fn reorg_with_commits_is_right_after_a_stop_at_any_operation() {
    let (first, second, start) = before_a_reorg(101, 11);
    let run = |disk: &SimDisk| {
        jobs::import(&Options { dbcache_bytes: 0, ..all(disk, false) }, &[PathBuf::from("/more.dat")], &|_| ())
    };
    let fresh = indexed(&second);
    let set = |disk: &SimDisk| jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap().hash;
    let (wanted_set, wanted_rows) = (set(&fresh), rows(&fresh, second.len()));

    let whole = start.reopen(Loss::Nothing);
    let before = whole.operations();
    let flushes = run(&whole).unwrap().stats.flushes;
    assert!(flushes >= 10, "{flushes} commits, where ten blocks are disconnected");
    let count = whole.operations() - before;
    let rows_wanted = if testkit::is_slow() { count } else { 24 };
    let mut heights = std::collections::BTreeSet::new();
    for number in 0..rows_wanted.min(count) {
        let at = count * number / rows_wanted;
        let disk = start.reopen(Loss::Nothing);
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let _ = run(&disk);
        let loss = [Loss::Nothing, Loss::Unsynced, Loss::Random(at)][number as usize % 3];
        let row = format!("stopped at {at} of {count}, {loss:?}");
        let left = disk.reopen(loss);
        let info = jobs::info(&options(&left, false)).unwrap_or_else(|why| panic!("{row}: {why}"));
        let is_there = |blocks: &[Vec<u8>]| blocks.iter().any(|block| hash_of(block) == info.best);
        assert!(is_there(&first) || is_there(&second), "{row}: {info:?}");
        heights.insert(info.height);
        let report = run(&left).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!(report.best, hash_of(second.last().unwrap()), "{row}");
        assert_eq!((set(&left), rows(&left, second.len())), (wanted_set, wanted_rows.clone()), "{row}");
        check(&left, &second, [0, 60, 100, 101, 105, 111].into_iter(), &row);
        let checked = jobs::verify(&options(&left, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!(checked.level, 4, "{row}");
    }
    assert!(heights.contains(&Height::new(100)) || heights.len() > 5, "commits between the branches: {heights:?}");
}

/// A stop at any operation of a reindex that keeps all indexes: the same command ends with right ones, and in between an
/// answer is right or there is none.
#[test]
fn indexes_are_right_after_a_stop_at_any_operation() {
    let blocks = chain(BLOCKS);
    for (is_eager, by_index) in [(false, false), (true, false), (false, true)] {
        let start = disk_with(&blocks);
        if by_index {
            jobs::reindex(&options(&start, false), false, &|_| ()).unwrap();
        }
        let run = |disk: &SimDisk| match by_index {
            false => jobs::reindex(&all(disk, is_eager), false, &|_| ()).map(drop),
            true => jobs::index(&options(disk, false), &IndexKind::ALL, &|_| ()).map(drop),
        };
        let whole = start.reopen(Loss::Nothing);
        let before = whole.operations();
        run(&whole).unwrap();
        let count = whole.operations() - before;
        let rows_wanted = if testkit::is_slow() { count } else { 5 };
        for number in 0..rows_wanted.min(count) {
            // The last operations are those of the indexes' own commits: more of them.
            let at =
                if number % 2 == 0 { count * number / rows_wanted } else { count - 1 - number * 7 % count.min(60) };
            let disk = start.reopen(Loss::Nothing);
            disk.fail_at(disk.operations() + at, 1, Accident::Stop);
            let _ = run(&disk);
            let loss = [Loss::Nothing, Loss::Unsynced, Loss::Random(at)][number as usize % 3];
            let row = format!("eager {is_eager}, by index {by_index}, stopped at {at} of {count}, {loss:?}");
            let left = disk.reopen(loss);
            let (txid, hash) = (spends(&blocks[104])[1].0, hash_of(&blocks[104]));
            if let Ok(found) = jobs::tx(&options(&left, false), txid, &|_| ()) {
                assert_eq!(found.block, hash, "{row}");
            }
            run(&left).unwrap_or_else(|why| panic!("{row}: {why}"));
            check(&left, &blocks, [0, 1, 60, 101, 104, 110].into_iter(), &row);
        }
    }
}

/// With the coins rebuilt the indexes stay; one of version 29 or older is named, in Core's words.
#[test]
fn rebuilt_coins_leave_indexes_right() {
    let blocks = chain(BLOCKS);
    let disk = indexed(&blocks);
    let before = rows(&disk, blocks.len());
    disk.create_dir_all(&Path::new(DATADIR).join("regtest/indexes/coinstats/db")).unwrap();
    jobs::reindex(&all(&disk, false), true, &|_| ()).unwrap();
    assert_eq!(rows(&disk, blocks.len()), before);
    check(&disk, &blocks, 100..blocks.len(), "rebuilt");
    let said = std::sync::Mutex::new(String::new());
    jobs::index(&options(&disk, false), &[IndexKind::CoinStats], &|event| {
        *said.lock().unwrap() += &format!("{event:?}")
    })
    .unwrap();
    let said = said.into_inner().unwrap();
    assert!(said.contains("Old version of coinstatsindex found at") && said.contains("indexes/coinstats."), "{said}");
}

/// Damage is named with the file and the way out, and costs what is damaged alone.
#[test]
fn damage_is_named_and_repaired() {
    let blocks = chain(BLOCKS);
    let disk = indexed(&blocks);
    let path = Path::new(DATADIR).join(FILTERS);
    let sound = disk.open(&path).unwrap().bytes().unwrap().to_vec();
    let used = sound.iter().rposition(|byte| *byte != 0).unwrap();
    let ask = || jobs::filter(&options(&disk, false), &BlockId::Height(Height::new(110)), &|_| ());
    disk.modify(&path).unwrap().write_at(used as u64, &[sound[used] ^ 1]).unwrap();
    let why = ask().unwrap_err().to_string();
    assert!(why.contains("fltr00000.dat at byte") && why.contains("a filter whose hash is as the index says"), "{why}");
    disk.remove_file(&path).unwrap();
    let why = ask().unwrap_err().to_string();
    assert!(why.contains("fltr00000.dat") && why.contains("Run ffwd index"), "{why}");
    jobs::index(&options(&disk, false), &[IndexKind::BlockFilter], &|_| ()).unwrap();
    assert_eq!(disk.open(&path).unwrap().bytes().unwrap()[..=used], sound[..=used], "each filter where it lay");
    check(&disk, &blocks, 100..blocks.len(), "repaired");

    let plain = disk_with(&blocks);
    jobs::reindex(&options(&plain, false), false, &|_| ()).unwrap();
    let undo = Path::new(DATADIR).join("regtest/blocks/rev00000.dat");
    let bytes = plain.open(&undo).unwrap().bytes().unwrap().to_vec();
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    plain.modify(&undo).unwrap().write_at(middle as u64, &[bytes[middle] ^ 1]).unwrap();
    let why = jobs::index(&options(&plain, false), &IndexKind::ALL, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("rev00000.dat"), "{why}");
    plain.modify(&undo).unwrap().write_at(middle as u64, &bytes[middle..=middle]).unwrap();
    jobs::index(&options(&plain, false), &IndexKind::ALL, &|_| ()).unwrap();
    check(&plain, &blocks, 100..blocks.len(), "undo data that is whole again");
}

/// A txindex of Core before v32 is read, and gone on with in the newer format beside it.
/// Source: the cases of Core's feature_txindex_compatibility.py.
#[test]
fn txindex_of_the_older_format_is_read_and_gone_on_with() {
    let blocks = chain(BLOCKS);
    let disk = disk_with(&blocks);
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    let (old, mut rows, mut offset) = (60, Vec::new(), 8);
    for (height, bytes) in blocks.iter().enumerate() {
        let mut tables = Tables::new();
        let block = tables.parse_block(bytes).unwrap();
        let mut at = 1; // Behind the header: the count of transactions has one byte.
        for tx in block.transactions().filter(|_| (1..=old).contains(&height)) {
            let mut value = Vec::new();
            DiskTxPos { file: 0, block: offset, tx: at }.put(&mut value);
            rows.push((txindex::legacy_key(&tx.txid()).to_vec(), value));
            at += tx.bytes().len() as u32;
        }
        offset += 8 + bytes.len() as u32;
    }
    let hashes: Vec<BlockHash> =
        locator::heights(Height::from_index(old)).iter().map(|height| hash_of(&blocks[height.to_usize()])).collect();
    rows.push((txindex::LEGACY_BEST_BLOCK.to_vec(), locator::encode(&hashes)));
    rows.sort();
    let layout = Layout::new(Path::new(DATADIR), "regtest", None);
    let db = IndexDb::open(disk.shared(), &layout, IndexKind::Tx).unwrap();
    db.commit(4096, |records| rows.iter().try_for_each(|(key, value)| records.put(key, value))).unwrap();
    drop(db);
    let find = |height: usize| jobs::tx(&options(&disk, false), spends(&blocks[height]).last().unwrap().0, &|_| ());
    assert_eq!(find(30).unwrap().block, hash_of(&blocks[30]));
    let why = find(105).unwrap_err().to_string();
    assert!(why.contains("txindex is at height 60, the chain at height 110"), "{why}");
    let said = std::sync::Mutex::new(String::new());
    jobs::index(&options(&disk, false), &[], &|event| *said.lock().unwrap() += &format!("{event:?}\n")).unwrap();
    let said = said.into_inner().unwrap();
    assert!(said.contains("entries of the older format") && said.contains("txindex from height 61"), "{said}");
    for height in [1, 30, 60, 61, 105, 110] {
        assert_eq!(find(height).unwrap().block, hash_of(&blocks[height]), "height {height}");
    }
    let db = IndexDb::open(disk.shared(), &layout, IndexKind::Tx).unwrap();
    assert_eq!(db.best_block().unwrap(), Some(hash_of(&blocks[BLOCKS as usize])));
    assert_eq!(
        db.get(txindex::LEGACY_BEST_BLOCK).unwrap(),
        Some(locator::encode(&hashes)),
        "it stays for an older bitcoind"
    );
    assert!(
        tables(&disk, "txindex").iter().any(|(_, bytes)| has_filters(bytes)),
        "entries of the older format want them"
    );
    let sequence = db.get(&txindex::hash_key(&hash_of(&blocks[61]))).unwrap();
    assert_eq!(sequence, Some(vec![0; 4]), "the first block in the newer format");
    // A place that holds another transaction is a fault, and no answer.
    let (txid, other) =
        (spends(&blocks[30])[0].0, db.get(&txindex::legacy_key(&spends(&blocks[31])[0].0)).unwrap().unwrap());
    db.commit(4096, |records| records.put(&txindex::legacy_key(&txid), &other)).unwrap();
    drop(db);
    let why = find(30).unwrap_err().to_string();
    assert!(why.contains("run ffwd index --only txindex, which makes this index again"), "{why}");
}

/// Where the tables of an index lie.
const TABLES: [(IndexKind, &str); 5] = [
    (IndexKind::Tx, "txindex"),
    (IndexKind::BlockFilter, "blockfilter/basic/db"),
    (IndexKind::TxoSpender, "txospenderindex/db"),
    (IndexKind::CoinStats, "coinstatsindex/db"),
    (IndexKind::SilentPayments, "silentpayments/db"),
];

/// The tables of an index, with their bytes.
fn tables(disk: &SimDisk, dir: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(DATADIR).join("regtest/indexes").join(dir);
    let names = disk.list(&dir).unwrap().into_iter().map(|entry| entry.name);
    let paths = names.map(|name| dir.join(name)).filter(|path| path.extension().is_some_and(|end| end == "ldb"));
    paths.map(|path| (path.clone(), disk.open(&path).unwrap().bytes().unwrap().to_vec())).collect()
}

/// Whether a table has filters.
fn has_filters(table: &[u8]) -> bool {
    let name = b"filter.leveldb.BuiltinBloomFilter2";
    table.windows(name.len()).any(|window| window == name)
}

/// Source: Core's `TxIndex::DB` and `TxoSpenderIndex`, which ask LevelDB for no filters.
#[test]
fn tables_have_filters_where_cores_have_them() {
    let disk = disk_with(&chain(BLOCKS));
    jobs::reindex(&all(&disk, true), false, &|_| ()).unwrap();
    for (kind, dir) in TABLES {
        let wanted = matches!(kind, IndexKind::BlockFilter | IndexKind::CoinStats | IndexKind::SilentPayments);
        let tables = tables(&disk, dir);
        assert!(!tables.is_empty(), "{dir}");
        for (path, bytes) in tables {
            assert_eq!(has_filters(&bytes), wanted, "{}", path.display());
        }
    }
}

/// A bit that is wrong in a table gives the right answer or a fault that names the index, and costs that index alone.
#[test]
fn damaged_table_is_named_or_does_not_matter() {
    let blocks = chain(BLOCKS);
    let disk = indexed(&blocks);
    let (height, hash) = (104, hash_of(&blocks[104]));
    let (txid, spent) = spends(&blocks[height]).pop().unwrap();
    let at = BlockId::Height(Height::from_index(height));
    let options = options(&disk, false);
    let ask = |kind| match kind {
        IndexKind::Tx => jobs::tx(&options, txid, &|_| ()).map(|found| format!("{:?}", (found.block, found.bytes))),
        IndexKind::BlockFilter => jobs::filter(&options, &at, &|_| ()).map(|found| format!("{found:?}")),
        IndexKind::TxoSpender => jobs::spender(&options, spent[0], &|_| ()).map(|found| format!("{found:?}")),
        IndexKind::CoinStats => jobs::set_info_at(&options, &at, &|_| ()).map(|found| format!("{found:?}")),
        IndexKind::SilentPayments => {
            jobs::silent_payments(&options, &at, &SilentQuestion::default(), &|_| ()).map(|found| format!("{found:?}"))
        }
    };
    assert!(ask(IndexKind::Tx).unwrap().contains(&format!("{hash:?}")));
    for (kind, dir) in TABLES {
        let (truth, mut faults) = (ask(kind).unwrap(), 0);
        for (path, sound) in tables(&disk, dir) {
            let file = disk.modify(&path).unwrap();
            let places = if testkit::is_slow() { sound.len() } else { 24 };
            for number in 0..places {
                let place = number * sound.len() / places;
                file.write_at(place as u64, &[sound[place] ^ 1 << (number % 8)]).unwrap();
                match ask(kind) {
                    Ok(said) => assert_eq!(said, truth, "{dir}, byte {place}"),
                    Err(why) => {
                        faults += 1;
                        let wanted = format!("ffwd index --only {}", kind.name());
                        assert!(why.to_string().contains(&wanted), "{dir}, byte {place}: {why}");
                    }
                }
                file.write_at(place as u64, &[sound[place]]).unwrap();
            }
        }
        assert!(faults > 0, "{dir}: the answer lies in a table");
        // What the fault says to do.
        disk.remove_dir_all(&store::indexes::root(&Layout::new(Path::new(DATADIR), "regtest", None), kind)).unwrap();
        jobs::index(&options, &[kind], &|_| ()).unwrap();
        assert_eq!(ask(kind).unwrap(), truth, "{dir}: made again");
    }
    check(&disk, &blocks, 100..blocks.len(), "all made again");
}

/// A stop in the middle of a removal does not leave a damaged index; one that another program built since is kept.
#[test]
fn an_index_whose_removal_was_stopped_is_made_again() {
    let blocks = chain(BLOCKS);
    let whole = indexed(&blocks);
    let before = rows(&whole, blocks.len());
    let layout = Layout::new(Path::new(DATADIR), "regtest", None);
    for kind in IndexKind::ALL {
        for at in 0.. {
            let disk = whole.reopen(Loss::Nothing);
            disk.fail_at(disk.operations() + at, 1, Accident::Stop);
            let is_whole = IndexDb::remove(&disk, &layout, kind).is_ok();
            for loss in [Loss::Nothing, Loss::Unsynced] {
                let row = format!("{}, stopped at operation {at}, {loss:?}", kind.name());
                let disk = disk.reopen(loss);
                jobs::index(&all(&disk, false), &[kind], &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
                assert!(rows(&disk, blocks.len()) == before, "{row}");
                let left = disk.list(&layout.private_dir()).unwrap();
                assert!(left.iter().all(|entry| !entry.name.to_string_lossy().contains("removing")), "{row}: {left:?}");
            }
            if is_whole {
                break;
            }
        }
        // The mark of a removal beside an index that is there.
        let disk = whole.reopen(Loss::Nothing);
        let dbs = IndexDb::open_read_only(disk.shared(), &layout, kind).unwrap().unwrap();
        let best = dbs.best_block().unwrap();
        put(&disk, &layout.private_dir().join(format!("removing-{}", kind.name())), b"");
        assert_eq!(IndexDb::open(disk.shared(), &layout, kind).unwrap().best_block().unwrap(), best, "{}", kind.name());
    }
}

/// Statistics of an earlier chain, whose undo data a reindex without this index removed: they are built again.
#[test]
fn an_index_that_is_older_than_a_stopped_reindex_is_made_again() {
    let blocks = chain(BLOCKS);
    let whole = indexed(&blocks);
    let before = rows(&whole, blocks.len());
    let mut stopped = 0;
    for at in (0..400).step_by(40) {
        let disk = whole.reopen(Loss::Nothing);
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        stopped += usize::from(jobs::reindex(&options(&disk, true), false, &|_| ()).is_err());
        let disk = disk.reopen(Loss::Unsynced);
        let all = Options { indexes: IndexKind::ALL.to_vec(), ..options(&disk, true) };
        jobs::reindex(&all, false, &|_| ()).unwrap_or_else(|why| panic!("stopped at operation {at}: {why}"));
        assert!(rows(&disk, blocks.len()) == before, "stopped at operation {at}");
    }
    assert!(stopped > 3, "{stopped}");
}

/// The same, where the index is asked for later: what to do is said.
#[test]
fn statistics_without_the_undo_data_to_rewind_them_are_named() {
    let blocks = chain(BLOCKS);
    let disk = indexed(&blocks);
    let lower = Options { stop_at_height: Some(Height::new(60)), ..options(&disk, false) };
    jobs::reindex(&lower, false, &|_| ()).unwrap();
    let why = jobs::index(&options(&disk, false), &[IndexKind::CoinStats], &|_| ()).unwrap_err().to_string();
    assert!(why.contains("undo data from height 61 on") && why.contains("Remove the directory"), "{why}");
    let layout = Layout::new(Path::new(DATADIR), "regtest", None);
    IndexDb::remove(&disk, &layout, IndexKind::CoinStats).unwrap();
    jobs::index(&options(&disk, false), &[IndexKind::CoinStats], &|_| ()).unwrap();
}
