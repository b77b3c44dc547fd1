//! Pruning, with small files and a small target: a reindex, a sync, and a machine that stops at any write.

use crate::chain::{chain, hash_of};
use crate::data_directory::{self, DATADIR};
use crate::peers::{Far, Until, honest, open, sync_options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs::{self, BlockId, SyncOptions};
use node::options::{IndexKind, Options, Prune, Sizes, real_disk};
use node::reporting::Event;
use node::utxo_stats::{SetHash, SetInfo};
use primitives::Height;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use store::blockfiles::Limits;
use store::{BlockTreeDb, IndexEntry};

pub(crate) const BLOCKS: u32 = 900;
pub(crate) const TARGET_BYTES: u64 = 120 << 10;
const FILE_BYTES: u32 = 16 << 10;
const CHUNK_BYTES: u64 = 4 << 10;
const KEPT: u32 = 288;

pub(crate) fn options(datadir: &Path, disk: Arc<dyn Disk>, prune: Prune) -> Options {
    let mut options = Options {
        disk,
        datadir: datadir.to_path_buf(),
        par: 2,
        prune,
        ..data_directory::options(&SimDisk::new(0), false)
    };
    options.params.prune_after_height = Height::new(100);
    options.sizes = Sizes {
        limits: Limits { file_bytes_max: FILE_BYTES, chunk_bytes: CHUNK_BYTES },
        prune_buffer_bytes: CHUNK_BYTES,
        ..Sizes::default()
    };
    options
}

/// Block files as Core's `-fastprune` would have made them.
pub(crate) fn write_files(options: &Options, blocks: &[Vec<u8>]) {
    let (disk, dir) = (&options.disk, options.datadir.join("regtest/blocks"));
    disk.create_dir_all(&dir).unwrap();
    let mut file: Vec<u8> = Vec::new();
    let mut number = 0;
    for block in blocks.iter().map(Some).chain([None]) {
        if block.is_none_or(|block| file.len() + 8 + block.len() >= FILE_BYTES as usize) {
            let path = dir.join(format!("blk{number:05}.dat"));
            if disk.metadata(&path).unwrap().is_some() {
                disk.remove_file(&path).unwrap();
            }
            let open = disk.create(&path).unwrap();
            open.write_at(0, &file).unwrap();
            open.sync().unwrap();
            (file, number) = (Vec::new(), number + 1);
        }
        if let Some(block) = block {
            file.extend_from_slice(&options.params.magic);
            file.extend_from_slice(&(block.len() as u32).to_le_bytes());
            file.extend_from_slice(block);
        }
    }
    for dir in dir.ancestors() {
        disk.sync_dir(dir).unwrap();
    }
}

fn set(options: &Options) -> SetInfo {
    jobs::set_info(options, SetHash::Serialized, &|_| {}).unwrap()
}

/// What a pruned data directory must be, after any stop.
struct Checked {
    entries: Vec<IndexEntry>,
    there: BTreeSet<u32>,
    usage: u64,
}

/// Every entry is as Core leaves it, every file that is named is there, and none besides but the last.
fn check(options: &Options, row: &str) -> Checked {
    let disk = &options.disk;
    let layout = store::Layout::new(&options.datadir, "regtest", None);
    let network = node::datadir::lock::network(&options.params);
    let loaded = BlockTreeDb::open_read_only(disk.clone(), &layout).unwrap().load(&network).unwrap();
    let key = store::xor::read_key(&**disk, layout.blocks_dir()).unwrap().unwrap();
    let files = store::blockfiles::BlockFiles::new(disk.clone(), layout.blocks_dir(), &network, key);
    let undo = store::undofiles::UndoFiles::new(disk.clone(), layout.blocks_dir(), &network, key);
    let (mut named, tip) = (BTreeSet::new(), jobs::info(options).unwrap().height);
    for entry in &loaded.entries {
        let height = entry.height;
        if let Some(at) = entry.data() {
            named.insert(at.file);
            assert_eq!(hash_of(&files.read_block(at).unwrap()), entry.hash, "{row}, height {height}");
            assert!(loaded.files[at.file as usize].height_last >= height, "{row}, height {height}");
        } else {
            let places = (entry.file, entry.data_offset, entry.undo_offset);
            assert_eq!(places, (0, 0, 0), "{row}, height {height}");
            let was_connected = (entry.status.level() == 5 || height == Height::GENESIS) && entry.tx_count > 0;
            assert!(was_connected || height > tip, "{row}: {entry:?}");
        }
        if let Some(at) = entry.undo() {
            assert!(entry.data().is_some(), "{row}, height {height}");
            undo.read(at, &entry.header.prev()).unwrap();
        }
    }
    for (number, info) in (0..).zip(&loaded.files) {
        assert_eq!(info.size > 0, named.contains(&number) || loaded.is_reindexing && info.size > 0, "{row}, {number}");
    }
    let there: BTreeSet<u32> = files.numbers().unwrap().there.into_iter().collect();
    let usage = loaded.files.iter().map(|info| u64::from(info.size) + u64::from(info.undo_size)).sum();
    Checked { entries: loaded.entries, there, usage }
}

/// Of a run that went to the tip.
pub(crate) fn check_at_tip(options: &Options, blocks: &[Vec<u8>], row: &str) {
    let Checked { entries, there, usage } = check(options, row);
    let tip = BLOCKS;
    let lowest = entries.iter().filter(|entry| entry.data().is_some()).map(|entry| entry.height).min().unwrap();
    assert!(lowest > Height::new(1) && lowest + KEPT <= Height::new(tip), "{row}: {lowest}");
    assert!(usage < TARGET_BYTES, "{row}: {usage} bytes");
    assert_eq!(entries.len(), blocks.len(), "{row}: no header is forgotten");
    let named: BTreeSet<u32> = entries.iter().filter_map(|entry| entry.data().map(|at| at.file)).collect();
    assert_eq!(there, named, "{row}");
    let info = jobs::info(options).unwrap();
    assert_eq!((info.prune_height, info.height.to_u32(), info.reindexing), (Some(lowest), tip, false), "{row}");
    assert!(!entries.iter().any(|entry| entry.status.is_failed()), "{row}");
}

fn refusal(done: Result<impl std::fmt::Debug, node::Fault>) -> String {
    done.unwrap_err().to_string()
}

/// Core's feature_remove_pruned_files_on_startup: a pruned directory begins anew where bitcoind's option says so, and what comes
/// then is connected from the first block on.
#[test]
fn reindex_before_a_sync_begins_a_pruned_directory_anew() {
    let blocks = chain(BLOCKS);
    let directory = tempfile::tempdir().unwrap();
    let pruned = options(directory.path(), real_disk(), Prune::Target { bytes: TARGET_BYTES });
    write_files(&pruned, &blocks);
    jobs::reindex(&pruned, false, &|_| {}).unwrap();
    check_at_tip(&pruned, &blocks, "pruned");
    let names = || {
        let all = std::fs::read_dir(directory.path().join("regtest/blocks")).unwrap();
        let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.starts_with("blk") || name.starts_with("rev")).collect();
        names.sort();
        names
    };
    let before = names();
    assert!(before.len() > 4, "{before:?}");
    let plain = Options { prune: Prune::Off, ..pruned.clone() };
    let why = jobs::reindex_before_sync(&plain, &|_| {}).unwrap_err().to_string();
    assert!(why.contains("a pruned data directory") && names() == before, "without pruning it stays: {why}");

    // As often as it is asked for.
    for _ in 0..2 {
        let report = jobs::reindex_before_sync(&pruned, &|_| {}).unwrap();
        assert_eq!((report.height, report.stopped), (Height::GENESIS, false));
        assert_eq!(names().first().map(String::as_str), Some("blk00000.dat"));
        assert!(names().len() <= 2 && jobs::info(&pruned).unwrap().prune_height.is_none(), "{:?}", names());
    }
    write_files(&pruned, &blocks);
    assert_eq!(jobs::reindex_before_sync(&pruned, &|_| {}).unwrap().best, hash_of(blocks.last().unwrap()));
    check_at_tip(&pruned, &blocks, "again");
}

/// Wherever it is stopped, the next sync goes on: it removes the rest, and downloads the chain.
#[test]
fn stopped_reindex_of_a_pruned_directory_goes_on_with_a_sync() {
    let blocks = chain(BLOCKS);
    let target = Prune::Target { bytes: TARGET_BYTES };
    let disk = SimDisk::new(0);
    let pruned = |disk: &SimDisk| options(Path::new(DATADIR), disk.shared(), target);
    write_files(&pruned(&disk), &blocks);
    jobs::reindex(&pruned(&disk), false, &|_| {}).unwrap();
    let whole = disk.reopen(Loss::Nothing);
    let begin = whole.operations();
    jobs::reindex_before_sync(&pruned(&whole), &|_| {}).unwrap();
    let operations = whole.operations() - begin;
    let peer = Far::listen(&Arc::new(blocks.clone()), honest(), &open());
    let sync = sync_options(&[peer], Until::Tip);
    let stride = if testkit::is_slow() { 1 } else { operations / 8 };
    for at in (0..operations).step_by(stride as usize) {
        let hurt = disk.reopen(Loss::Nothing);
        hurt.fail_at(hurt.operations() + at, 1, Accident::Stop);
        let _ = jobs::reindex_before_sync(&pruned(&hurt), &|_| {});
        for loss in [Loss::Nothing, Loss::Unsynced] {
            let row = format!("stopped at operation {at} of {operations}, {loss:?}");
            let left = pruned(&hurt.reopen(loss));
            let report = jobs::sync(&left, &sync, &|_| {}).unwrap_or_else(|why| panic!("{row}: {why}"));
            assert_eq!((report.height, report.end_reason), (Height::new(BLOCKS), None), "{row}");
            check_at_tip(&left, &blocks, &row);
        }
    }
}

#[test]
fn reindex_with_prune_stays_near_its_target() {
    let blocks = chain(BLOCKS);
    let disk = real_disk();
    let full = tempfile::tempdir().unwrap();
    let plain = options(full.path(), disk.clone(), Prune::Off);
    write_files(&plain, &blocks);
    jobs::reindex(&plain, false, &|_| {}).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let pruned = options(directory.path(), disk, Prune::Target { bytes: TARGET_BYTES });
    write_files(&pruned, &blocks);
    std::fs::create_dir_all(directory.path().join("regtest/wallets/old")).unwrap();
    let said = std::sync::Mutex::new(Vec::new());
    let report = jobs::reindex(&pruned, false, &|event| said.lock().unwrap().push(format!("{event:?}"))).unwrap();
    assert_eq!(report.best, hash_of(blocks.last().unwrap()));
    check_at_tip(&pruned, &blocks, "reindex");
    assert_eq!(set(&pruned).hash, set(&plain).hash);
    let said = said.into_inner().unwrap().join("\n");
    for want in ["wallets in a data directory that is pruned", "bitcoind must run with -prune"] {
        assert!(said.contains(want), "{want} in {said}");
    }

    // What is there is verified, by Core's meaning of 0: all of it, down and up again.
    let look = Options { prune: Prune::Off, ..pruned.clone() };
    let verified = jobs::verify(&look, 4, 0, &|_| {}).unwrap();
    assert!(verified.blocks >= KEPT && verified.blocks < verified.height.to_u32(), "{verified:?}");
    check_at_tip(&pruned, &blocks, "verified");

    let core = "You need to rebuild the database using -reindex to go back to unpruned mode.";
    for (row, why, want) in [
        ("sync without --prune", refusal(jobs::sync(&look, &alone(), &|_| {})), core),
        ("import without --prune", refusal(jobs::import(&look, &[], &|_| {})), core),
        ("reindex", refusal(jobs::reindex(&pruned, false, &|_| {})), "ffwd sync --prune"),
        ("reindex without --prune", refusal(jobs::reindex(&look, false, &|_| {})), "a pruned data directory"),
        (
            "rebuild",
            refusal(jobs::reindex(&pruned, true, &|_| {})),
            "Prune mode is incompatible with -reindex-chainstate. Use full -reindex instead.",
        ),
        ("rebuild without --prune", refusal(jobs::reindex(&look, true, &|_| {})), core),
    ] {
        assert!(why.contains(want), "{row}: {why}");
    }
    check_at_tip(&pruned, &blocks, "refused");

    // An index that is asked for and needs what is gone is refused in Core's words; one that is there and not asked for
    // counts for nothing, as in Core.
    let filters = Options { indexes: vec![IndexKind::BlockFilter], ..pruned.clone() };
    let why = refusal(jobs::import(&filters, &[], &|_| {}));
    assert!(why.contains(&beyond("basic block filter index")), "{why}");
    jobs::import(&pruned, &[], &|_| {}).unwrap();
    let manual = Options { prune: Prune::Manual, ..pruned.clone() };
    jobs::import(&manual, &[], &|_| {}).unwrap();
    check_at_tip(&pruned, &blocks, "manual");
}

/// No peer at all.
fn alone() -> SyncOptions {
    SyncOptions { exit_at_tip: true, v2transport: false, outbound: 8, ..SyncOptions::alone() }
}

struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn sync_with_prune_stays_near_its_target_and_resumes() {
    let blocks = chain(BLOCKS);
    let disk = real_disk();
    let full = tempfile::tempdir().unwrap();
    let plain = options(full.path(), disk.clone(), Prune::Off);
    write_files(&plain, &blocks);
    jobs::reindex(&plain, false, &|_| {}).unwrap();
    let want = set(&plain).hash;
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let serving = SyncOptions { listen: vec![address], exit_at_tip: false, ..alone() };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| jobs::sync(&plain, &serving, &|_| {}));
        let directory = tempfile::tempdir().unwrap();
        let pruned = options(directory.path(), disk, Prune::Target { bytes: TARGET_BYTES });
        let client = SyncOptions { connect: Some(vec![address.to_string()]), ..alone() };
        let half = Options { stop_at_height: Some(Height::new(600)), ..pruned.clone() };
        // Also where the rest panics: the scope waits for the server.
        let stop = Stop(plain.stop.clone());
        assert_eq!(jobs::sync(&half, &client, &|_| {}).unwrap().height, Height::new(600));
        let there = check(&half, "half-way").there;
        assert!(!there.contains(&0), "files went before the end: {there:?}");
        assert_eq!(jobs::sync(&pruned, &client, &|_| {}).unwrap().best, hash_of(blocks.last().unwrap()));
        check_at_tip(&pruned, &blocks, "sync");
        assert_eq!(set(&pruned).hash, want);
        drop(stop);
        server.join().unwrap().unwrap();
    });
}

/// Brings a directory that was left anyhow to the tip.
pub(crate) fn go_on(options: &Options, row: &str) {
    let info = jobs::info(options).unwrap_or_else(|why| panic!("{row}: {why}"));
    if info.reindexing || info.headers == Height::GENESIS {
        jobs::reindex(options, false, &|_| {}).unwrap_or_else(|why| panic!("{row}: {why}"));
    } else {
        jobs::import(options, &[], &|_| {}).unwrap_or_else(|why| panic!("{row}: {why}"));
    }
}

/// Between coins, index, flag and files, and everywhere else: what is left opens, and ends where the whole run ends.
#[test]
fn pruning_stopped_at_any_write_resumes() {
    let blocks = chain(BLOCKS);
    let datadir = PathBuf::from(DATADIR);
    let full = SimDisk::new(0);
    let of = |disk: &SimDisk| options(&datadir, disk.shared(), Prune::Target { bytes: TARGET_BYTES });
    // With a commit, and so a removal, at every chance.
    let eager = |disk: &SimDisk| Options { commit_interval: Duration::ZERO, ..of(disk) };
    write_files(&of(&full), &blocks);
    let whole = full.reopen(Loss::Nothing);
    let removed_at = AtomicU64::new(0);
    let note = |event| {
        if matches!(event, Event::Note(text) if text.starts_with("Pruning block files")) {
            removed_at.store(whole.operations(), Ordering::SeqCst);
        }
    };
    jobs::reindex(&eager(&whole), false, &note).unwrap();
    check_at_tip(&of(&whole), &blocks, "whole");
    let (want, count) = (set(&of(&whole)).hash, whole.operations());
    // Some of all, and each before the first files are gone: their names, the index, the coins.
    let removed_at = removed_at.into_inner();
    assert!(removed_at > 0);
    let tries = if testkit::is_slow() { count } else { 12 };
    let some = (0..count).step_by((count / tries) as usize);
    for at in some.chain(removed_at.saturating_sub(14)..removed_at) {
        let sim = full.reopen(Loss::Nothing);
        sim.fail_at(at, 1, Accident::Stop);
        let stopped = jobs::reindex(&eager(&sim), false, &|_| {});
        for loss in [Loss::Unsynced, Loss::Random(at)] {
            let row = format!("stopped at {at} of {count}, {loss:?}: {:?}", stopped.as_ref().err());
            let left = sim.reopen(loss);
            go_on(&of(&left), &row);
            check_at_tip(&of(&left), &blocks, &row);
            assert_eq!(set(&of(&left)).hash, want, "{row}");
        }
    }
}

/// What Core says of an index whose next block is pruned. Source: its feature_index_prune.py.
fn beyond(name: &str) -> String {
    format!(
        "{name} best block of the index goes beyond pruned data (including undo data). Please disable the index or reindex \
         (which will download the whole blockchain again)"
    )
}

/// Indexes that were left out for a while go on where they stood if their blocks are there, and are refused if not.
#[test]
fn indexes_left_behind_go_on_until_their_blocks_are_pruned() {
    let blocks = chain(BLOCKS);
    let directory = tempfile::tempdir().unwrap();
    let without = options(directory.path(), real_disk(), Prune::Target { bytes: TARGET_BYTES });
    let with = |indexes: &[IndexKind]| Options { indexes: indexes.to_vec(), ..without.clone() };
    let to = |options: &Options, height| Options { stop_at_height: Some(Height::new(height)), ..options.clone() };
    let both = with(&[IndexKind::BlockFilter, IndexKind::CoinStats, IndexKind::SilentPayments]);
    write_files(&without, &blocks);
    let half = BLOCKS / 2;
    jobs::reindex(&to(&both, half), false, &|_| {}).unwrap();
    jobs::import(&to(&without, half + 20), &[], &|_| {}).unwrap();
    let look = |height: u32| {
        let at = BlockId::Height(Height::new(height));
        jobs::filter(&both, &at, &|_| {})?;
        jobs::set_info_at(&both, &at, &|_| {}).map(|set| assert_eq!(set.block, hash_of(&blocks[height as usize])))
    };
    look(half).unwrap();
    let why = look(half + 20).unwrap_err().to_string();
    assert!(why.contains("Run ffwd index --only blockfilterindex"), "{why}");
    jobs::import(&to(&both, half + 40), &[], &|_| {}).unwrap();
    (half - 1..=half + 40).for_each(|height| look(height).unwrap());
    // What lies in files that are pruned is still looked up.
    let lowest = jobs::info(&without).unwrap().prune_height.expect("files are gone");
    assert!(lowest > Height::new(1) && look(1).is_ok(), "{lowest}");
    jobs::import(&without, &[], &|_| {}).unwrap();
    assert!(jobs::info(&without).unwrap().prune_height > Some(Height::new(half + 41)), "beyond the indexes");
    for (kind, name) in [
        (IndexKind::BlockFilter, "basic block filter index"),
        (IndexKind::CoinStats, "coinstatsindex"),
        (IndexKind::SilentPayments, "silentpaymentindex"),
    ] {
        let why = refusal(jobs::import(&with(&[kind]), &[], &|_| {}));
        assert!(why.contains(&beyond(name)), "{why}");
    }
    check_at_tip(&without, &blocks, "refused");
}

/// Filters and statistics are made before their blocks go: those of all heights are there, also where it was stopped.
#[test]
fn indexes_are_made_before_their_blocks_go() {
    let blocks = chain(BLOCKS);
    let directory = tempfile::tempdir().unwrap();
    let plain = options(directory.path(), real_disk(), Prune::Target { bytes: TARGET_BYTES });
    let kinds = vec![IndexKind::BlockFilter, IndexKind::CoinStats, IndexKind::SilentPayments];
    let pruned = Options { indexes: kinds, ..plain };
    write_files(&pruned, &blocks);
    let half = Options { stop_at_height: Some(Height::new(BLOCKS / 2)), ..pruned.clone() };
    jobs::reindex(&half, false, &|_| {}).unwrap();
    jobs::import(&pruned, &[], &|_| {}).unwrap();
    check_at_tip(&pruned, &blocks, "with indexes");
    for height in [0, 1, BLOCKS / 2, BLOCKS / 2 + 1, BLOCKS] {
        let at = BlockId::Height(Height::new(height));
        assert_eq!(jobs::filter(&pruned, &at, &|_| {}).unwrap().block, hash_of(&blocks[height as usize]));
        assert_eq!(jobs::set_info_at(&pruned, &at, &|_| {}).unwrap().height, Height::new(height));
        let tweaks = jobs::silent_payments(&pruned, &at, &jobs::SilentQuestion::default(), &|_| {}).unwrap();
        assert_eq!(tweaks.block, hash_of(&blocks[height as usize]));
    }
}
