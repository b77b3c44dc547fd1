//! Single checks of `doctor`, and the steps of `repair` for them: the machine, peers.dat, block filters, files without an
//! index, marks.

use crate::chain::{file, hash_of, put};
use crate::data_directory::{self, DATADIR};
use crate::doctor::{Known, PER_FILE, TIP, block_file, check_whole, flip, kept, net, options, peer, read, replace};
use crate::indexes::branch;
use crate::peers::{Far, MINUTE, Until, open, sync_options};
use disk::{Disk, Loss, SimDisk};
use indexes::heights;
use node::Fault;
use node::jobs::{self, Depth, Finding, Hours, Kind, SyncOptions};
use node::options::{IndexKind, Options};
use node::reporting::Event;
use primitives::{BlockHash, Header, Height};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::index::IndexChanges;
use store::indexes::IndexDb;
use store::{BlockTreeDb, FileInfo, IndexEntry, Layout, Status};

fn findings(options: &Options, depth: Depth) -> Vec<Finding> {
    jobs::doctor(options, depth, &|_| ()).unwrap().findings
}

/// The only peer lacks our last blocks, and its tip is in our locator: it has those of a lost file.
#[test]
fn a_repair_takes_blocks_from_a_peer_behind_the_tip() {
    let known = Known::new();
    for behind in [1, 3, 5, 40] {
        let disk = known.whole();
        disk.remove_file(&block_file(1, "blk")).unwrap();
        let address = Far::new(&known.blocks[..=TIP - behind].to_vec()).listen_at("127.0.0.1:0");
        let start = Instant::now();
        let report = jobs::repair(&options(&disk), &sync_options(&[address], Until::Tip), &|_| ());
        report.unwrap_or_else(|why| panic!("{behind} behind: {why}"));
        assert!(start.elapsed() < MINUTE, "{behind} behind");
        check_whole(&disk, &known, &format!("{behind} behind"));
    }
}

/// The user's limits of the download apply to a repair, and what it downloads counts for that day.
#[test]
fn a_repair_heeds_the_limits_of_the_download() {
    let known = Known::new();
    let disk = known.whole();
    let (mut sync, asked) = peer(&known);
    sync.download.limits.target_mib = Some(100);
    disk.remove_file(&block_file(1, "blk")).unwrap();
    sync.download.switch.pause();
    let switch = sync.download.switch.clone();
    let so_far = asked.clone();
    let resumes = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        let count = so_far.lock().unwrap().len();
        switch.resume();
        count
    });
    let notes = Mutex::new(Vec::new());
    let take_note = |event: Event| {
        if let Event::Note(text) = event {
            notes.lock().unwrap().push(text);
        }
    };
    jobs::repair(&options(&disk), &sync, &take_note).unwrap();
    assert_eq!(resumes.join().unwrap(), 0, "nothing while it is paused");
    assert!(notes.lock().unwrap().iter().any(|text| text.contains("SIGUSR2 resumes")));
    check_whole(&disk, &known, "paused and resumed");
    let fetched = std::mem::take(&mut *asked.lock().unwrap());
    let bytes: u64 = fetched.iter().map(|hash| known.blocks[known.heights[hash]].len() as u64).sum();
    let kept = read(&disk, &net(DOWNLOADED));
    assert_eq!((fetched.len(), &kept[8..]), (PER_FILE, &bytes.to_le_bytes()[..]));
}

const DOWNLOADED: &str = "ffwd/downloaded";

/// Repairs until some time after a note with these words, or to the end; returns what the peer was asked for, and whether
/// it was stopped.
fn repair_until(disk: &SimDisk, known: &Known, sync: &SyncOptions, words: &str) -> (BTreeSet<BlockHash>, bool) {
    let (peer, asked) = peer(known);
    let sync = SyncOptions { connect: peer.connect, ..sync.clone() };
    let options = options(disk);
    let done = jobs::repair(&options, &sync, &|event| {
        if matches!(&event, Event::Note(text) if text.contains(words)) {
            let stop = options.stop.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                stop.store(true, Ordering::Relaxed);
            });
        }
    });
    let is_stopped = matches!(done, Err(Fault::Stopped));
    assert!(is_stopped || done.is_ok(), "{done:?}");
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    (asked, is_stopped)
}

/// Each block is requested once, also where the power fails while a repair waits for the next day.
#[test]
fn a_repair_stops_at_the_limit_of_a_day() {
    let known = Known::new();
    let disk = known.whole();
    let mut sync = sync_options(&[], Until::Tip);
    sync.download.limits.target_mib = Some(100);
    disk.remove_file(&block_file(1, "blk")).unwrap();
    repair_until(&disk, &known, &sync, "no note has this");
    let day = read(&disk, &net(DOWNLOADED))[..8].to_vec();
    let used = |disk: &SimDisk, bytes: u64| {
        replace(disk, &net(DOWNLOADED), &[&day[..], &bytes.to_le_bytes()].concat());
    };
    let words = "100 MiB of this day are used up";

    used(&disk, 100 << 20);
    disk.remove_file(&block_file(1, "blk")).unwrap();
    assert_eq!(repair_until(&disk, &known, &sync, words), (BTreeSet::new(), true), "all is used up");
    used(&disk, 90 << 20);
    assert_eq!(repair_until(&disk, &known, &sync, words), (BTreeSet::new(), true), "what is left is for the tip");
    used(&disk, (90 << 20) - 1000);
    let (first, is_stopped) = repair_until(&disk, &known, &sync, words);
    assert!(is_stopped && (1..PER_FILE).contains(&first.len()), "{} blocks", first.len());
    let disk = disk.reopen(Loss::Unsynced);
    assert_eq!(read(&disk, &net(DOWNLOADED))[..8], day);
    used(&disk, 0);
    let (second, is_stopped) = repair_until(&disk, &known, &sync, words);
    assert!(!is_stopped && first.is_disjoint(&second));
    assert_eq!(first.len() + second.len(), PER_FILE);
    check_whole(&disk, &known, "two days");
}

/// At most a day's blocks are damaged, and they are not at the tip.
#[test]
fn a_repair_waits_for_the_download_hours() {
    let known = Known::new();
    let mut stopped = 0;
    for hours in ["0-12", "12-24"] {
        let disk = known.whole();
        disk.remove_file(&block_file(1, "blk")).unwrap();
        let mut sync = sync_options(&[], Until::Tip);
        sync.download.limits.hours = Some(Hours::parse(hours).unwrap());
        let (asked, is_stopped) = repair_until(&disk, &known, &sync, "--download-hours");
        assert_eq!(asked.len(), if is_stopped { 0 } else { PER_FILE }, "{hours}");
        stopped += u32::from(is_stopped);
    }
    assert_eq!(stopped, 1, "one of them is now");
}

/// No program starts beside a damaged peers.dat, a repair that needs peers included.
#[test]
fn a_damaged_peers_dat_is_named_and_moved_aside() {
    let known = Known::new();
    let disk = known.whole();
    let (sync, _) = peer(&known);
    jobs::sync(&options(&disk), &sync, &|_| ()).unwrap();
    let path = net("peers.dat");
    flip(&disk, &path, 10);
    let damaged = read(&disk, &path);
    let found = findings(&options(&disk), Depth::Quick);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.kind, &finding.path), (Kind::PeersDamaged, &path));
    assert!(finding.detail.contains("Checksum mismatch") && finding.command.starts_with("ffwd repair"), "{finding:?}");
    disk.remove_file(&block_file(3, "blk")).unwrap();
    jobs::sync(&options(&disk), &sync, &|_| ()).unwrap_err();
    jobs::repair(&options(&disk), &sync, &|_| ()).unwrap();
    assert_eq!(read(&disk, &net("ffwd/aside/peers.dat")), damaged);
    check_whole(&disk, &known, "a damaged peers.dat");
}

/// A file system may have free bytes and no free inodes.
#[test]
fn a_file_system_without_inodes_is_named_and_nothing_is_begun() {
    let known = Known::new();
    let disk = known.whole();
    assert_eq!(findings(&options(&disk), Depth::Quick), []);
    disk.set_free_inodes(3);
    let found = findings(&options(&disk), Depth::Quick);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.kind, Kind::NoInodes);
    assert!(finding.detail.starts_with("3 inodes") && finding.command.starts_with("du --inodes"), "{finding:?}");
    disk.remove_file(&block_file(2, "rev")).unwrap();
    let before = disk.operations();
    let why = jobs::repair(&options(&disk), &SyncOptions::alone(), &|_| ()).unwrap_err().to_string();
    assert!(why.contains("inodes") && why.contains("Nothing was changed"), "{why}");
    assert_eq!(disk.operations(), before);
    disk.set_free_inodes(1 << 20);
    jobs::repair(&options(&disk), &SyncOptions::alone(), &|_| ()).unwrap();
    check_whole(&disk, &known, "inodes are free again");
}

/// bitcoind that is killed in a reorg leaves rows of another chain beside the old best block of an index, and does not
/// start with it again.
#[test]
fn an_index_with_the_row_of_another_block_is_named_and_made_again() {
    let known = Known::new();
    for kind in [IndexKind::BlockFilter, IndexKind::CoinStats] {
        let disk = known.whole();
        jobs::index(&options(&disk), &[kind], &|_| ()).unwrap();
        assert_eq!(findings(&options(&disk), Depth::Deep), []);
        let layout = Layout::new(Path::new(DATADIR), "regtest", None);
        let own = heights::hash_key(&hash_of(known.blocks.last().unwrap()));
        let key = heights::height_key(Height::new(TIP as u32));
        {
            let db = IndexDb::open(disk.shared(), &layout, kind).unwrap();
            let row = db.get(&key).unwrap().unwrap();
            let (_, row) = heights::split_value(&row).unwrap();
            let other = heights::join_value(&hash_of(&known.blocks[5]), row);
            db.commit(1000, |records| records.put(&own, row).and_then(|()| records.put(&key, &other))).unwrap();
        }
        // A better chain disconnects that block: its row is where a disconnected block has it.
        let forked = disk.reopen(Loss::Nothing);
        let longer = branch(&known.blocks, TIP as u32 - 2, 6, 7);
        let sync = sync_options(&[Far::listen(&Arc::new(longer), Arc::new(|_: &BlockHash| None), &open())], Until::Tip);
        let with_index = Options { indexes: vec![kind], ..options(&forked) };
        jobs::sync(&with_index, &sync, &|_| ()).unwrap();
        assert_eq!(findings(&options(&forked), Depth::Deep), [], "{kind:?}");

        let found = findings(&options(&disk), Depth::Quick);
        let [finding] = &found[..] else { panic!("{kind:?}: {found:?}") };
        assert_eq!((finding.kind, finding.height), (Kind::OptionalIndexDamaged, Some(Height::new(TIP as u32))));
        jobs::repair(&options(&disk), &SyncOptions::alone(), &|_| ()).unwrap();
        assert_eq!(findings(&options(&disk), Depth::Deep), []);
    }
}

/// A damaged file of filters is made again byte by byte, and the database of the filters stays.
#[test]
fn a_filter_file_is_named_and_made_again_alone() {
    let known = Known::new();
    let whole = known.whole();
    jobs::index(&options(&whole), &[IndexKind::BlockFilter], &|_| ()).unwrap();
    let path = net("indexes/blockfilter/basic/fltr00000.dat");
    let good = read(&whole, &path);
    let end = good.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert_eq!(findings(&options(&whole), Depth::Deep), []);
    let hurt = |row: &str, disk: &SimDisk| match row {
        "gone" => disk.remove_file(&path).unwrap(),
        "cut" => replace(disk, &path, &good[..end / 2]),
        "a bit" => flip(disk, &path, end - 1),
        _ => replace(disk, &path, &vec![0; good.len()]),
    };
    for (row, is_seen_quickly) in [("gone", true), ("cut", true), ("a bit", false), ("zeros", false)] {
        let disk = whole.reopen(disk::Loss::Nothing);
        hurt(row, &disk);
        let quick = findings(&options(&disk), Depth::Quick);
        assert_eq!(!quick.is_empty(), is_seen_quickly, "{row}: {quick:?}");
        let found = findings(&options(&disk), Depth::Deep);
        let [finding] = &found[..] else { panic!("{row}: {found:?}") };
        assert_eq!((finding.kind, &finding.path), (Kind::FilterFileDamaged, &path), "{row}");
        if row == "a bit" {
            assert!(finding.height.is_some() && finding.offset.is_some(), "{finding:?}");
        }
        let report = jobs::repair(&options(&disk), &SyncOptions::alone(), &|_| ()).unwrap();
        assert!(report.done.iter().all(|done| !done.contains("was made again")), "{row}: {report:?}");
        assert!(read(&disk, &path).starts_with(&good[..end]), "{row}: the same bytes");
        check_whole(&disk, &known, row);
    }
}

/// Without an index everything that the files tell by themselves is named, above a gap too.
#[test]
fn several_damages_are_named_without_an_index() {
    let known = Known::new();
    let disk = known.whole();
    disk.remove_dir_all(&net("blocks/index")).unwrap();
    disk.remove_file(&block_file(2, "blk")).unwrap();
    let height = 4 * PER_FILE + 7;
    flip(&disk, &block_file(4, "blk"), known.place(height) + 8 + 90);
    flip(&disk, &block_file(5, "rev"), 9);
    disk.remove_file(&block_file(3, "rev")).unwrap();
    let found = findings(&options(&disk), Depth::Deep);
    let named: BTreeSet<_> = found.iter().map(|finding| (finding.kind, finding.path.clone(), finding.offset)).collect();
    let want = [
        (Kind::IndexMissing, net("blocks/index"), None),
        (Kind::BlockFileMissing, block_file(2, "blk"), None),
        (Kind::BlockDamaged, block_file(4, "blk"), Some(known.place(height) as u64 + 8)),
        (Kind::UndoFileMissing, block_file(3, "rev"), None),
        (Kind::UndoDamaged, block_file(5, "rev"), Some(0)),
    ];
    assert_eq!(named, BTreeSet::from(want), "{found:?}");
    let quick: Vec<Kind> = findings(&options(&disk), Depth::Quick).iter().map(|finding| finding.kind).collect();
    assert_eq!(quick, [Kind::BlockFileMissing, Kind::UndoFileMissing, Kind::IndexMissing]);
    let (sync, _) = peer(&known);
    jobs::repair(&options(&disk), &sync, &|_| ()).unwrap();
    check_whole(&disk, &known, "without an index");
}

/// A mark on a block that had passed every check, below headers that the index lacks.
#[test]
fn a_mark_on_a_block_that_was_connected_is_a_finding() {
    let known = Known::new();
    let height = 95;
    let other = branch(&known.blocks, height as u32, 1, 7);
    for (status, is_found) in [(Status::SCRIPTS, true), (Status::TREE, false)] {
        let disk = SimDisk::new(0);
        put(&disk, &net("blocks/blk00000.dat"), &file(&other));
        let options = data_directory::options(&disk, false);
        jobs::reindex(&options, false, &|_| ()).unwrap();
        let layout = Layout::new(Path::new(DATADIR), "regtest", None);
        let index = BlockTreeDb::open(disk.shared(), &layout).unwrap();
        let header = Header(*known.blocks[height].first_chunk().unwrap());
        let entry = IndexEntry::header_only(header, header.hash(), Height::new(height as u32));
        let entry = IndexEntry { status: status.with(Status::FAILED_VALID), ..entry };
        index.write(&IndexChanges { entries: &[entry], ..IndexChanges::default() }).unwrap();
        drop(index);
        let found = findings(&options, Depth::Quick);
        if !is_found {
            assert_eq!(found, []);
            continue;
        }
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.kind, finding.hash), (Kind::MarkedLater, Some(header.hash())));
        assert_eq!(finding.height, Some(Height::new(height as u32)));
        let (sync, _) = peer(&known);
        jobs::repair(&options, &sync, &|_| ()).unwrap();
        check_whole(&disk, &known, "the mark is gone");
    }
}

/// An index that has only headers, as a repair leaves it that was stopped between headers and places: the blocks are
/// used where they lie, nothing is fetched or copied, and the coins stay.
#[test]
fn an_index_with_headers_alone_is_made_again_from_the_files() {
    let known = Known::new();
    let disk = known.whole();
    let before = kept(&disk);
    let headers: Vec<IndexEntry> =
        before.0.iter().map(|entry| IndexEntry::header_only(entry.header, entry.hash, entry.height)).collect();
    let layout = Layout::new(Path::new(DATADIR), "regtest", None);
    let files: Vec<(u32, FileInfo)> = (0..).zip(before.1.iter().cloned()).collect();
    let changes = IndexChanges { entries: &headers, files: &files, ..IndexChanges::default() };
    store::reindex::replace_index(disk.shared(), &layout, &changes).unwrap().settle().unwrap();
    let found = findings(&options(&disk), Depth::Quick);
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!(finding.kind, Kind::CoinsApart);
    assert!(finding.detail.contains("has only the header of"), "{finding:?}");
    for why in [
        jobs::verify(&options(&disk), 4, 0, &|_| ()).unwrap_err().to_string(),
        jobs::import(&options(&disk), &[], &|_| ()).unwrap_err().to_string(),
    ] {
        assert!(why.contains("as a connected block") && why.contains("Run ffwd repair"), "{why}");
    }
    let blocks = |disk: &SimDisk| -> Vec<Vec<u8>> {
        (0..=TIP / PER_FILE).map(|number| read(disk, &block_file(number, "blk"))).collect()
    };
    let stored = blocks(&disk);
    let report = jobs::repair(&options(&disk), &SyncOptions::alone(), &|_| ()).unwrap();
    assert_eq!(report.fetched, 0);
    assert!(blocks(&disk) == stored && disk.metadata(&block_file(TIP / PER_FILE + 1, "blk")).unwrap().is_none());
    let after = kept(&disk);
    assert_eq!(after.0, before.0);
    assert!(after.2 == before.2, "the coins were rewritten");
    check_whole(&disk, &known, "headers alone");
}

/// `info` names the step that keeps most, and says nothing of what it cannot know.
#[test]
fn info_of_a_directory_with_parts_missing_is_true() {
    let known = Known::new();
    let remove =
        |disk: &SimDisk, names: &[&str]| names.iter().for_each(|name| disk.remove_dir_all(&net(name)).unwrap());
    let block_files = |disk: &SimDisk| {
        (0..=TIP / PER_FILE).for_each(|number| disk.remove_file(&block_file(number, "blk")).unwrap());
    };
    for (row, gone, has_blocks, want) in [
        ("no index", &["blocks/index"][..], true, "ffwd repair: the block index is made again"),
        ("coins alone", &["blocks/index"], false, "remove the directory chainstate, then ffwd sync"),
        ("no coins", &["chainstate"], true, "ffwd repair: there is no UTXO set"),
        ("blocks alone", &["blocks/index", "chainstate"], true, "ffwd reindex: there are block files and no index"),
        ("no blocks", &[], false, "--blocksdir"),
    ] {
        let disk = known.whole();
        remove(&disk, gone);
        if !has_blocks {
            block_files(&disk);
        }
        let info = jobs::info(&options(&disk)).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(info.next_step.contains(want), "{row}: {}", info.next_step);
        let has_coins = !gone.contains(&"chainstate");
        let is_alone = gone.contains(&"blocks/index");
        assert_eq!(info.chainstate_bytes > 0, has_coins, "{row}");
        assert_eq!(info.blocks_bytes > 0, has_blocks || !is_alone, "{row}");
        let tip = hash_of(known.blocks.last().unwrap());
        assert_eq!(info.best == tip, has_coins, "{row}: {}", info.best);
        assert_eq!(info.remark.is_some(), has_coins && is_alone, "{row}: {:?}", info.remark);
    }
}

/// More likely they are in another place than lost; fetching them would fill the wrong drive.
#[test]
fn a_repair_without_any_block_file_asks_where_they_are() {
    let known = Known::new();
    let disk = known.whole();
    (0..=TIP / PER_FILE).for_each(|number| disk.remove_file(&block_file(number, "blk")).unwrap());
    let (sync, asked) = peer(&known);
    let why = jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("found none of them") && why.contains("--blocksdir"), "{why}");
    assert_eq!(asked.lock().unwrap().len(), 0);
}
