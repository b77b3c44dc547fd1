//! Data directories exchanged with a real bitcoind; skipped without `BITCOIND_EXE`.

use crate::common::regtest;
use disk::{Disk, RealDisk};
use primitives::{BlockHash, CoinKey};
use std::path::Path;
use std::sync::Arc;
use store::blockfiles::{BlockFiles, BlockWriter, Limits};
use store::index::IndexChanges;
use store::locks::DataDirLocks;
use store::undofiles::{UndoFiles, UndoWriter, undo_record};
use store::{BlockTreeDb, Chainstate, FaultKind, FileInfos, IndexEntry, Layout, Status, reindex, xor};
use testkit::bitcoind::{self, Bitcoind, CHECKS};

/// Starts bitcoind on `dir`, without peers. Returns `None` if `BITCOIND_EXE` names no bitcoind.
fn start(dir: &Path, options: &[&str]) -> Option<Bitcoind> {
    bitcoind::is_there().then(|| Bitcoind::start(dir, options))
}

/// Best block, number of coins, hash of the set.
fn set_of(core: &Bitcoind) -> (String, u64, String) {
    let json = core.rpc(&["gettxoutsetinfo"]);
    let field = |name: &str| {
        let at = json.find(&format!("\"{name}\": ")).unwrap() + name.len() + 4;
        json[at..].split([',', '\n']).next().unwrap().trim_matches('"').to_owned()
    };
    (field("bestblock"), field("txouts").parse().unwrap(), field("hash_serialized_3"))
}

/// Everything that a directory holds.
struct Directory {
    entries: Vec<IndexEntry>,
    blocks: Vec<Vec<u8>>,
    undo: Vec<Option<Vec<u8>>>,
    coins: Vec<(Vec<u8>, Vec<u8>)>,
    best: Option<BlockHash>,
}

fn disk() -> Arc<dyn Disk> {
    RealDisk::shared()
}

fn read(layout: &Layout) -> Directory {
    let network = regtest();
    let _locks = DataDirLocks::take(&*disk(), layout).unwrap();
    let key = xor::read_key(&*disk(), layout.blocks_dir()).unwrap().unwrap();
    let files = BlockFiles::new(disk(), layout.blocks_dir(), &network, key);
    let undo_files = UndoFiles::new(disk(), layout.blocks_dir(), &network, key);
    let index = BlockTreeDb::open(disk(), layout).unwrap();
    let loaded = index.load(&network).unwrap();
    let blocks: Vec<Vec<u8>> = loaded.entries.iter().map(|e| files.read_block(e.data().unwrap()).unwrap()).collect();
    let undo = loaded
        .entries
        .iter()
        .map(|e| e.undo().map(|at| undo_files.read(at, &e.header.prev()).unwrap().to_vec()))
        .collect();
    let found = files.scan(0).unwrap();
    for (entry, block) in loaded.entries.iter().zip(&blocks) {
        assert_eq!(block[..80], entry.header.0);
        let at = found.blocks.iter().find(|b| b.hash == entry.hash).unwrap().location;
        assert_eq!(at.file_pos(), entry.data());
        assert_eq!(files.probe(entry.data().unwrap()).unwrap().unwrap().hash, entry.hash);
    }
    // After a kill more may lie in the file than the index knows.
    let listed = loaded.entries.iter().map(|e| e.data_offset).max().unwrap();
    assert!(loaded.files[0].size > listed && found.blocks.len() >= loaded.entries.len());
    let chainstate = Chainstate::open(disk(), &layout.chainstate_dir()).unwrap();
    let mut coins = Vec::new();
    let mut all = chainstate.view().coins().unwrap();
    while let Some((outpoint, coin)) = all.next_coin().unwrap() {
        let key = CoinKey::new(&outpoint).as_bytes().to_vec();
        primitives::CoinRef::decode(coin).unwrap();
        coins.push((key, coin.to_vec()));
    }
    Directory { entries: loaded.entries, blocks, undo, coins, best: chainstate.best_block().unwrap() }
}

/// Writes a directory of our own, with what another one holds.
fn write(layout: &Layout, directory: &Directory) {
    layout.create(&*disk()).unwrap();
    let _locks = DataDirLocks::take(&*disk(), layout).unwrap();
    let key = xor::open_key(&*disk(), layout.blocks_dir(), &regtest(), true).unwrap().key;
    assert_ne!(key, xor::NO_KEY);
    let mut infos = FileInfos::default();
    let dir = layout.blocks_dir();
    let mut blocks = BlockWriter::new(disk(), dir, &regtest(), key, &infos, Limits::default()).unwrap();
    let mut undo = UndoWriter::new(disk(), dir, &regtest(), key);
    let mut entries = directory.entries.clone();
    for ((entry, block), payload) in entries.iter_mut().zip(&directory.blocks).zip(&directory.undo) {
        let at = blocks.append(&mut infos, block, entry.height, entry.header.time()).unwrap();
        (entry.file, entry.data_offset) = (at.file, at.offset);
        if let Some(payload) = payload {
            let record = undo_record(regtest().magic, &entry.header.prev(), payload);
            entry.undo_offset = undo.append(&mut infos, at.file, &record).unwrap();
        }
    }
    let mut flush = blocks.begin_flush().unwrap();
    flush.add(undo.begin_flush().unwrap());
    flush.run().unwrap();
    let index = BlockTreeDb::open(disk(), layout).unwrap();
    let files = infos.take_changed();
    let last_file = Some(infos.last_file());
    index.write(&IndexChanges { entries: &entries, files: &files, last_file, ..IndexChanges::default() }).unwrap();
    index.settle().unwrap();
    let chainstate = Chainstate::open(disk(), &layout.chainstate_dir()).unwrap();
    let commit =
        chainstate.begin_commit(directory.best.unwrap(), directory.coins.len() as u64, 1 << 20).unwrap().unwrap();
    let mut part = commit.first_part().unwrap();
    directory.coins.iter().for_each(|(key, coin)| part.put(key, coin).unwrap());
    part.finish().unwrap();
    commit.finish().unwrap();
    chainstate.settle().unwrap();
}

#[test]
fn data_directory_round_trips_with_bitcoind() {
    let theirs = tempfile::tempdir().unwrap();
    let Some(core) = start(theirs.path(), &[]) else { return };
    let layout = Layout::new(theirs.path(), "regtest", None);
    core.generate(120);
    let why = DataDirLocks::take(&*disk(), &layout).unwrap_err();
    assert_eq!(why.kind(), FaultKind::Locked);
    assert!(why.to_string().contains(&format!("{} (b", core.id())), "the program is named: {why}");
    let set = set_of(&core);
    core.stop();
    let directory = read(&layout);
    assert_eq!((directory.entries.len(), directory.coins.len() as u64), (121, set.1));
    assert_eq!(directory.best, BlockHash::from_display(&set.0));
    let statuses: Vec<u32> = directory.entries.iter().map(|e| e.status.0).collect();
    assert_eq!((statuses[0], &statuses[1..]), (139, &[157; 120][..]));
    assert!(directory.entries.iter().all(|e| e.status.has(Status::HAVE_DATA)));

    // Ours, opened by Core, extended, and killed.
    let ours = tempfile::tempdir().unwrap();
    let layout = Layout::new(ours.path(), "regtest", None);
    write(&layout, &directory);
    let core = start(ours.path(), CHECKS).unwrap();
    assert_eq!(set_of(&core), set);
    core.generate(30);
    assert_eq!(core.rpc(&["verifychain", "4", "0"]), "true");
    core.kill();
    let killed = read(&layout);
    let best = killed.best.unwrap();
    assert!(killed.entries.iter().any(|entry| entry.hash == best), "after a kill the coins stand at a listed block");
    let core = start(ours.path(), CHECKS).unwrap();
    core.generate(1);
    let set = set_of(&core);
    core.stop();
    let directory = read(&layout);
    assert_eq!((directory.best, directory.coins.len() as u64), (BlockHash::from_display(&set.0), set.1));
}

/// The first steps of a reindex, each state given to bitcoind.
#[test]
fn bitcoind_finishes_a_reindex_that_store_began() {
    let made = tempfile::tempdir().unwrap();
    let Some(core) = start(made.path(), &[]) else { return };
    core.generate(50);
    let set = set_of(&core);
    core.stop();
    let layout = Layout::new(made.path(), "regtest", None);
    let set_r = || {
        let index = BlockTreeDb::open(disk(), &layout).unwrap();
        index.write(&IndexChanges { reindexing: Some(true), ..IndexChanges::default() }).unwrap();
    };
    for step in ["R", "R, no chainstate", "R, no chainstate, no index", "all"] {
        match step {
            "R" => set_r(),
            "R, no chainstate" => {
                set_r();
                store::chainstate::empty(&*disk(), &layout).unwrap();
            }
            "R, no chainstate, no index" => {
                set_r();
                store::chainstate::empty(&*disk(), &layout).unwrap();
                BlockTreeDb::open(disk(), &layout).unwrap().clear_for_reindex().unwrap();
            }
            _ => drop(reindex::begin(disk(), &layout, &[]).unwrap()),
        }
        let core = start(made.path(), &[]).unwrap();
        for _ in 0..300 {
            if core.tip() == set.0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert_eq!(set_of(&core), set, "{step}");
        core.stop();
        let directory = read(&layout);
        assert!(!BlockTreeDb::open(disk(), &layout).unwrap().is_reindexing().unwrap(), "{step}");
        assert_eq!(directory.best, BlockHash::from_display(&set.0), "{step}");
        assert_eq!(directory.entries.iter().filter(|e| e.status.0 == 157).count(), 50, "{step}");
    }
}
