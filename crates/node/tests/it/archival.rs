//! From pruned to archival in place: only blocks that are in no file are downloaded, and a stop at any operation loses
//! nothing.

use crate::chain::{chain, hash_of};
use crate::data_directory::DATADIR;
use crate::peers::{Bend, Far, MINUTE, Until, open, sync_options};
use crate::prune::{BLOCKS, TARGET_BYTES, options, write_files};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::datadir::lock;
use node::handle::{Handle, NotLoaded};
use node::jobs::{self, Depth, DumpOut, DumpTarget, SyncOptions};
use node::options::{IndexKind, Options, Prune};
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Height};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::index::LoadedIndex;
use store::indexes::IndexDb;
use store::{BlockTreeDb, Layout};

/// A pruned data directory with this chain.
fn pruned(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    let target = Prune::Target { bytes: TARGET_BYTES };
    let options = options(Path::new(DATADIR), disk.shared(), target);
    write_files(&options, blocks);
    jobs::reindex(&options, false, &|_| ()).unwrap();
    disk
}

pub(crate) fn unpruned(disk: &SimDisk) -> Options {
    options(Path::new(DATADIR), disk.shared(), Prune::Off)
}

fn layout() -> Layout {
    Layout::new(Path::new(DATADIR), "regtest", None)
}

fn index(disk: &SimDisk) -> LoadedIndex {
    let network = lock::network(&unpruned(disk).params);
    BlockTreeDb::open_read_only(disk.shared(), &layout()).unwrap().load(&network).unwrap()
}

/// Blocks of the chain that are in no file.
fn missing(disk: &SimDisk) -> BTreeSet<BlockHash> {
    index(disk).entries.iter().filter(|entry| entry.data().is_none()).map(|entry| entry.hash).collect()
}

/// Blocks that are whole in a file, whether or not the index names them.
fn in_files(disk: &SimDisk) -> BTreeSet<BlockHash> {
    let network = lock::network(&unpruned(disk).params);
    let key = store::xor::read_key(disk, layout().blocks_dir()).unwrap().unwrap();
    let files = store::blockfiles::BlockFiles::new(disk.shared(), layout().blocks_dir(), &network, key);
    let there = files.numbers().unwrap().there;
    there.into_iter().flat_map(|file| files.scan(file).unwrap().blocks).map(|block| block.hash).collect()
}

pub(crate) fn set_of(disk: &SimDisk) -> String {
    format!("{:?}", jobs::set_info(&unpruned(disk), SetHash::Serialized, &|_| ()).unwrap().hash)
}

type Asked = Arc<Mutex<BTreeSet<BlockHash>>>;

/// A peer that notes what it is asked for.
fn peer(blocks: &[Vec<u8>]) -> (SyncOptions, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let bend: Bend = Arc::new(move |hash: &BlockHash| {
        noted.lock().unwrap().insert(*hash);
        None
    });
    let blocks = Arc::new(blocks.to_vec());
    let address = Far::listen(&blocks, bend, &open());
    (SyncOptions { to_archival: true, ..sync_options(&[address], Until::Tip) }, asked)
}

pub(crate) fn check_archival(disk: &SimDisk, set: &str, row: &str) {
    let loaded = index(disk);
    assert!(!loaded.is_pruned, "{row}");
    assert_eq!(missing(disk), BTreeSet::new(), "{row}");
    assert!(disk.metadata(&layout().private_dir().join("past")).unwrap().is_none(), "{row}");
    assert_eq!(set_of(disk), set, "{row}");
    let found = jobs::doctor(&unpruned(disk), Depth::Deep, &|_| ()).unwrap().findings;
    assert!(found.is_empty(), "{row}: {found:?}");
    let verified = jobs::verify(&unpruned(disk), 4, 0, &|_| ()).unwrap();
    assert_eq!(verified.blocks, verified.height.to_u32(), "{row}");
}

#[test]
fn a_pruned_directory_becomes_archival_and_only_pruned_blocks_are_fetched() {
    let blocks = chain(BLOCKS + 3);
    let disk = pruned(&blocks[..=BLOCKS as usize]);
    let gone = missing(&disk);
    assert!(gone.len() > 300 && gone.contains(&hash_of(&blocks[0])), "{}", gone.len());
    let (sync, asked) = peer(&blocks);
    // Who does not ask for it does not download the past.
    let why = jobs::sync(&unpruned(&disk), &SyncOptions { to_archival: false, ..sync.clone() }, &|_| ()).unwrap_err();
    assert!(why.to_string().contains("ffwd sync --prune 0"), "{why}");
    assert!(asked.lock().unwrap().is_empty());
    let indexed = Options { indexes: vec![IndexKind::Tx], ..unpruned(&disk) };
    let report = jobs::sync(&indexed, &sync, &|_| ()).unwrap();
    assert_eq!((report.height, report.end_reason), (Height::new(BLOCKS + 3), None));
    let new = blocks[BLOCKS as usize + 1..].iter().map(|block| hash_of(block));
    let mut may: BTreeSet<BlockHash> = gone.into_iter().chain(new).collect();
    may.remove(&hash_of(&blocks[0]));
    assert_eq!(*asked.lock().unwrap(), may);
    let whole = SimDisk::new(0);
    write_files(&unpruned(&whole), &blocks);
    jobs::reindex(&unpruned(&whole), false, &|_| ()).unwrap();
    check_archival(&disk, &set_of(&whole), "synced");
    let txs = IndexDb::open_read_only(disk.shared(), &layout(), IndexKind::Tx).unwrap().unwrap();
    assert_eq!(txs.best_block().unwrap(), Some(hash_of(&blocks[BLOCKS as usize + 3])), "an index is built at the end");
}

/// The only peer lacks our last blocks, and its tip is in our locator: it has all that were pruned.
#[test]
fn pruned_blocks_come_from_a_peer_behind_the_tip() {
    let blocks = chain(BLOCKS);
    let disk = pruned(&blocks);
    let set = set_of(&disk);
    let mut gone = missing(&disk);
    gone.remove(&hash_of(&blocks[0]));
    for behind in [1, 5, 40] {
        let row = format!("{behind} behind");
        let disk = disk.reopen(Loss::Nothing);
        let (sync, asked) = peer(&blocks[..=(BLOCKS - behind) as usize]);
        let options = unpruned(&disk);
        let start = Instant::now();
        let report = jobs::sync(&options, &sync, &|_| {
            if start.elapsed() > MINUTE {
                options.stop.store(true, Ordering::Relaxed);
            }
        });
        assert!(start.elapsed() < MINUTE, "{row}: it never ends");
        assert_eq!(report.unwrap().height, Height::new(BLOCKS), "{row}");
        assert_eq!(*asked.lock().unwrap(), gone, "{row}");
        check_archival(&disk, &set, &row);
    }
}

/// The user's bitcoin.conf says `prune=0`.
#[test]
fn a_pruned_directory_stays_one_in_a_repair() {
    let blocks = chain(BLOCKS);
    let disk = pruned(&blocks[..=BLOCKS as usize - 5]);
    let (sync, _) = peer(&blocks[..=BLOCKS as usize - 5]);
    let gone = missing(&disk);
    // Left by an earlier repair, whose sync is still due.
    disk.create_dir_all(&layout().private_dir().join("repair")).unwrap();
    jobs::repair(&unpruned(&disk), &sync, &|_| ()).unwrap();
    assert!(index(&disk).is_pruned);
    assert_eq!(missing(&disk), gone);
}

/// The call would wait for the end of the download.
#[test]
fn a_snapshot_is_refused_while_pruned_blocks_are_fetched() {
    let blocks = chain(BLOCKS);
    let disk = pruned(&blocks);
    let options = unpruned(&disk);
    let path = Path::new(DATADIR).join("set.dat");
    jobs::dump(&options, DumpTarget::Tip, DumpOut::File(path.clone()), &|_| ()).unwrap();
    let (mut sync, _) = peer(&blocks);
    sync.download.switch.pause();
    let handle = Arc::new(Handle::default());
    sync.handle = Some(handle.clone());
    let stop = options.stop.clone();
    let asking = std::thread::spawn(move || {
        let begin = Instant::now();
        while handle.live().is_err() && begin.elapsed() < MINUTE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let answer = handle.live().map(|live| jobs::check_snapshot(&live, handle.mempool(), &path));
        stop.store(true, Ordering::Relaxed);
        answer
    });
    jobs::sync(&options, &sync, &|_| ()).unwrap();
    match asking.join().unwrap() {
        Ok(Err(NotLoaded::Refused(why))) => assert!(why.contains("--prune 0"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_archival_download_that_is_stopped_goes_on() {
    let blocks = chain(BLOCKS);
    let disk = pruned(&blocks);
    let set = set_of(&disk);
    let (sync, _) = peer(&blocks);
    let whole = disk.reopen(Loss::Nothing);
    let before = whole.operations();
    jobs::sync(&unpruned(&whole), &sync, &|_| ()).unwrap();
    let operations = whole.operations() - before;
    check_archival(&whole, &set, "never stopped");
    let stride = if testkit::is_slow() { (operations / 200).max(1) } else { (operations / 6).max(1) };
    for at in (0..operations).step_by(stride as usize) {
        let hurt = disk.reopen(Loss::Nothing);
        hurt.fail_at(hurt.operations() + at, 1, Accident::Stop);
        let stopped = jobs::sync(&unpruned(&hurt), &sync, &|_| ()).is_ok();
        for loss in [Loss::Nothing, Loss::Unsynced] {
            let row = format!("stopped at operation {at} of {operations}, {loss:?}, ended: {stopped}");
            let hurt = hurt.reopen(loss);
            let left = missing(&hurt);
            let target = Prune::Target { bytes: TARGET_BYTES };
            let as_pruned = options(Path::new(DATADIR), hurt.shared(), target);
            if index(&hurt).is_pruned {
                let found = jobs::doctor(&as_pruned, Depth::Deep, &|_| ()).unwrap().findings;
                assert!(found.iter().all(|finding| finding.kind == jobs::Kind::NotIndexed), "{row}: {found:?}");
            }
            let in_files = in_files(&hurt);
            let (sync, asked) = peer(&blocks);
            jobs::sync(&unpruned(&hurt), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
            let asked = asked.lock().unwrap();
            assert!(asked.is_subset(&left) && asked.is_disjoint(&in_files), "{row}");
            check_archival(&hurt, &set, &row);
        }
    }
}

/// Pruned again before it was archival: the second chainstate is of no use then.
#[test]
fn a_directory_that_is_pruned_again_meanwhile_begins_again() {
    let blocks = chain(BLOCKS);
    let disk = pruned(&blocks);
    let set = set_of(&disk);
    let (sync, _) = peer(&blocks);
    let at = disk.operations();
    let whole = disk.reopen(Loss::Nothing);
    jobs::sync(&unpruned(&whole), &sync, &|_| ()).unwrap();
    let operations = whole.operations() - at;
    disk.fail_at(disk.operations() + operations * 3 / 4, 1, Accident::Stop);
    jobs::sync(&unpruned(&disk), &sync, &|_| ()).unwrap_err();
    let disk = disk.reopen(Loss::Nothing);
    let again = options(Path::new(DATADIR), disk.shared(), Prune::Target { bytes: TARGET_BYTES });
    jobs::sync(&again, &SyncOptions { to_archival: false, ..sync.clone() }, &|_| ()).unwrap();
    assert!(disk.metadata(&layout().private_dir().join("past")).unwrap().is_none(), "nothing is left of it");
    jobs::sync(&unpruned(&disk), &sync, &|_| ()).unwrap();
    check_archival(&disk, &set, "again");
}
