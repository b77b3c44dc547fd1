//! Hints of BIP 456: made of a data directory, and a pruned sync that uses them; wrong ones, stopped, killed.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::existing::{everything, layout};
use crate::peers::{Blocks, Far, MINUTE, Until, sync_options};
use crate::snapshot::plain;
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs::{self, DumpOut, DumpTarget, FromSnapshot};
use node::options::{Options, Prune};
use node::reporting::{Event, JobReport};
use node::utxo_stats::SetHash;
use primitives::coin::is_unspendable;
use primitives::hints::{header, put_list, read_header, read_list};
use primitives::{BlockHash, Height, Reader, Tables};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;
use store::{BlockTreeDb, Status};
use testkit::data;

const BLOCKS: u32 = 460;
/// The hinted height: coins of blocks below it are spent on both sides of it.
const HINTED: u32 = 160;
const FILE: &str = "/out/hints";
/// Two weeks of work are 290 blocks.
const SPACING_S: u32 = 60 * 60 * 24 * 14 / 290;

fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn disk_with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), bytes);
    disk.create_dir_all(Path::new("/out")).unwrap();
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    disk
}

fn dumped(disk: &SimDisk) -> Vec<u8> {
    let path = Path::new("/out/dump");
    disk.create_dir_all(Path::new("/out")).unwrap();
    jobs::dump(&options(disk, false), DumpTarget::Tip, DumpOut::File(path.into()), &|_| ()).unwrap();
    let bytes = read(disk, path);
    disk.remove_file(path).unwrap();
    bytes
}

/// The hints that blocks and a snapshot of the set at their end give, the genesis block first.
fn hints_of(blocks: &[Vec<u8>], snapshot: &[u8]) -> Vec<u8> {
    let unspent: HashSet<(Vec<u8>, u64)> = plain(snapshot).1.into_iter().map(|(_, coin)| (coin.0, coin.1)).collect();
    let mut out = header(Height::new(blocks.len() as u32 - 1)).to_vec();
    for block in &blocks[1..] {
        let mut tables = Tables::new();
        let block = tables.parse_block(block).unwrap();
        let (mut count, mut list) = (0, Vec::new());
        for tx in block.transactions() {
            for (vout, _) in (0..).zip(tx.outputs()).filter(|(_, output)| !is_unspendable(output.script())) {
                if unspent.contains(&(tx.txid().as_bytes().to_vec(), vout)) {
                    list.push(count);
                }
                count += 1;
            }
        }
        put_list(&mut out, &list);
    }
    out
}

/// The blocks of a block file that is not obfuscated.
fn records(mut raw: &[u8]) -> Blocks {
    let mut blocks = Vec::new();
    while raw.len() > 8 && raw[..4] != [0; 4] {
        let size = u32::from_le_bytes(raw[4..8].try_into().unwrap()) as usize;
        blocks.push(raw[8..8 + size].to_vec());
        raw = &raw[8 + size..];
    }
    blocks
}

/// Core's own chains, with a transaction of 16,601 outputs and outputs that cannot be spent.
#[test]
fn hints_are_what_blocks_and_set_give() {
    for name in ["assumeutxo_0_399", "wide_0_211"] {
        let Some(bytes) = data::load(&format!("snapshots/regtest_{name}.blk.xz")) else { return };
        let disk = disk_with(&bytes);
        let wanted = hints_of(&records(&bytes), &dumped(&disk));
        let before = everything(&disk);
        for par in [1, 3] {
            let options = Options { par, ..options(&disk, false) };
            let report = jobs::make_hints(&options, Path::new(FILE), &|_| ()).unwrap();
            assert!(read(&disk, Path::new(FILE)) == wanted, "{name}");
            assert_eq!(report.bytes, wanted.len() as u64);
            let taken = jobs::make_hints(&options, Path::new(FILE), &|_| ()).unwrap_err().to_string();
            assert!(taken.contains("already exists"), "{taken}");
            disk.remove_file(Path::new(FILE)).unwrap();
        }
        assert!(everything(&disk) == before, "the data directory is only read");
        assert_eq!(disk.list(Path::new("/out")).unwrap().len(), 0);
    }
}

/// A chain, its set at the end, and hints of it at [`HINTED`].
pub(crate) struct World {
    blocks: Blocks,
    whole: SimDisk,
    set: Vec<u8>,
    pub(crate) hints: Vec<u8>,
}

impl World {
    pub(crate) fn new() -> World {
        let blocks = chain(BLOCKS);
        let below = disk_with(&file(&blocks[..=HINTED as usize]));
        jobs::make_hints(&options(&below, false), Path::new(FILE), &|_| ()).unwrap();
        let whole = disk_with(&file(&blocks));
        World { hints: read(&below, Path::new(FILE)), set: dumped(&whole), blocks, whole }
    }

    pub(crate) fn fresh(&self, hints: &[u8]) -> SimDisk {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        put(&disk, Path::new(FILE), hints);
        disk
    }

    pub(crate) fn peer(&self) -> String {
        Far::new(&self.blocks).listen_at("127.0.0.1:0")
    }

    pub(crate) fn options(&self, disk: &SimDisk) -> Options {
        let mut options = options(disk, false);
        options.params.pow_target_spacing = SPACING_S;
        Options { assumevalid: hash_of(&self.blocks[HINTED as usize + 1]), prune: Prune::Manual, ..options }
    }

    /// A data directory with the whole chain's coins. Whether hints were used, where that is known.
    pub(crate) fn is_whole(&self, disk: &SimDisk, wanted: Option<bool>, row: &str) {
        assert!(dumped(disk) == self.set, "{row}: another set");
        for gone in ["ffwd/chainstate", "ffwd/chainstate_hints", "ffwd/chainstate_hints.old", "ffwd/hints"] {
            assert!(disk.metadata(&layout().net_dir().join(gone)).unwrap().is_none(), "{row}: {gone} is left");
        }
        let loaded = BlockTreeDb::open_read_only(disk.shared(), &layout()).unwrap();
        let loaded = loaded.load(&node::datadir::lock::network(&options(disk, false).params)).unwrap();
        let hinted = loaded.entries[1].data().is_none();
        assert!(wanted.is_none_or(|wanted| wanted == hinted) && hinted <= loaded.is_pruned, "{row}");
        for entry in loaded.entries.iter().skip(1) {
            let flags = if hinted && entry.height <= Height::new(HINTED) { 0 } else { 8 | 16 };
            assert_eq!(entry.status, Status::SCRIPTS.with(Status::OPT_WITNESS | flags), "{row}: {}", entry.height);
            assert_eq!(entry.tx_count, 1 + u32::from(entry.height > Height::new(100)), "{row}");
        }
        let verified = jobs::verify(&self.options(disk), 4, 200, &|_| ());
        verified.unwrap_or_else(|why| panic!("{row}: {why}"));
    }
}

/// A sync with hints to the tip; what it said, in order. `at` is asked at every note whether to stop.
pub(crate) fn sync(
    options: &Options,
    peer: &str,
    at: impl Fn(&str) -> bool + Sync,
) -> (Result<JobReport, String>, Vec<String>) {
    let (said, start) = (Mutex::new(Vec::new()), Instant::now());
    let from = FromSnapshot { hints: Some(FILE.into()), ..FromSnapshot::default() };
    let report = jobs::sync_from(options, &sync_options(&[peer.to_owned()], Until::Tip), &from, &|event| match event {
        Event::Note(text) | Event::Warning(text) => {
            if at(&text) {
                options.stop.store(true, Ordering::Relaxed);
            }
            said.lock().unwrap().push(text);
        }
        Event::Refused { height, hash, why, .. } => {
            said.lock().unwrap().push(format!("refused {height} {hash}: {why}"))
        }
        Event::Progress(_) if start.elapsed() > MINUTE => options.stop.store(true, Ordering::Relaxed),
        _ => {}
    });
    let said = said.into_inner().unwrap();
    assert!(start.elapsed() < MINUTE, "{said:#?}");
    (report.map_err(|why| why.to_string()), said)
}

fn says(said: &[String], words: &str) -> bool {
    said.iter().any(|line| line.contains(words))
}

#[test]
fn sync_with_hints_ends_with_the_set_of_an_ordinary_one() {
    let world = World::new();
    let peer = world.peer();
    // With little memory every block is a run of its own.
    for (par, run_bytes_max) in [(1, usize::MAX), (4, 4096), (3, 0)] {
        let disk = world.fresh(&world.hints);
        let mut options = Options { par, ..world.options(&disk) };
        options.sizes.hinted_run_bytes_max = run_bytes_max;
        let (report, said) = sync(&options, &peer, |_| false);
        let report = report.unwrap_or_else(|why| panic!("{why}: {said:#?}"));
        assert_eq!((report.height, report.blocks), (Height::new(BLOCKS), u64::from(BLOCKS)), "{said:#?}");
        for words in ["no coin is looked up", "amounts, maturity", "the sums", "count as pruned"] {
            assert!(says(&said, words), "{words}: {said:#?}");
        }
        world.is_whole(&disk, Some(true), "with hints");
        // The same command again has nothing to do.
        let (report, said) = sync(&world.options(&disk), &peer, |_| false);
        assert!(report.unwrap().blocks == 0 && says(&said, "has blocks already"), "{said:#?}");
        world.is_whole(&disk, Some(true), "again");
    }
}

/// The lists of a file.
fn lists(file: &[u8]) -> Vec<Vec<u32>> {
    let mut reader = Reader::new(file);
    let height = read_header(&mut reader).unwrap();
    (0..height.to_u32()).map(|_| read_list(&mut reader).unwrap()).collect()
}

fn file_of(lists: &[Vec<u32>]) -> Vec<u8> {
    let mut out = header(Height::new(lists.len() as u32)).to_vec();
    lists.iter().for_each(|list| put_list(&mut out, list));
    out
}

#[test]
fn wrong_hints_are_found_out_and_nothing_of_them_is_kept() {
    let world = World::new();
    let peer = world.peer();
    let good = lists(&world.hints);
    // Block 20's coinbase is spent, block 80's is not, block 130 has three outputs of which the first is not.
    assert_eq!((&good[19][..], &good[79][..], &good[129][..]), (&[][..], &[0][..], &[0, 1, 2][..]));
    let bent = |height: usize, list: &[u32]| {
        let mut lists = good.clone();
        lists[height - 1] = list.to_vec();
        file_of(&lists)
    };
    for (row, hints, why) in [
        ("a spent one called unspent", bent(20, &[0]), "the outpoints that blocks"),
        ("an unspent one called spent", bent(80, &[]), "the outpoints that blocks"),
        ("an output that is not there", bent(130, &[0, 1, 3]), "has no output number 3"),
        ("of another chain", file_of(&vec![vec![0]; HINTED as usize]), "the outpoints that blocks"),
    ] {
        let disk = world.fresh(&hints);
        let (report, said) = sync(&world.options(&disk), &peer, |_| false);
        assert_eq!(report.unwrap().height, Height::new(BLOCKS), "{row}");
        assert!(says(&said, "The hints are wrong") && says(&said, why), "{row}: {said:#?}");
        world.is_whole(&disk, Some(false), row);
    }
}

#[test]
fn hints_are_taken_below_an_assumed_valid_block_alone() {
    let world = World::new();
    let peer = world.peer();
    type Change = fn(&World, &mut Options);
    let rows: [(&str, Change, &str); 6] = [
        ("nothing assumed", |_, options| options.assumevalid = BlockHash::ZERO, "no block is assumed valid"),
        (
            "a block that no peer has",
            |_, options| options.assumevalid = BlockHash::from_bytes([1; 32]),
            "is not in the headers",
        ),
        (
            "assumed below their height",
            |world, options| options.assumevalid = hash_of(&world.blocks[100]),
            "above the assumed-valid block",
        ),
        ("too near the tip", |_, options| options.params.pow_target_spacing = 600, "too recent"),
        (
            "fewer blocks above than a pruned node keeps",
            |_, options| options.params.pow_target_spacing = 1_000_000,
            "fewer than 288 blocks",
        ),
        ("a stop below", |_, options| options.stop_at_height = Some(Height::new(100)), "--stopatheight"),
    ];
    for (row, change, why) in rows {
        let disk = world.fresh(&world.hints);
        let mut options = world.options(&disk);
        change(&world, &mut options);
        if row.starts_with("fewer") {
            // Hints of blocks up to 100 below the tip.
            let blocks = &world.blocks[..=BLOCKS as usize - 100];
            let below = disk_with(&file(blocks));
            put(&disk, Path::new("/out/near"), &hints_of(blocks, &dumped(&below)));
            disk.rename(Path::new("/out/near"), Path::new(FILE)).unwrap();
            options.assumevalid = hash_of(&world.blocks[BLOCKS as usize]);
        }
        let (report, said) = sync(&options, &peer, |_| false);
        assert!(report.is_ok() && says(&said, "The hints are not used") && says(&said, why), "{row}: {said:#?}");
        if options.stop_at_height.is_none() {
            world.is_whole(&disk, Some(false), row);
        }
    }
    let refused = |hints: &[u8], change: fn(&mut Options)| {
        let disk = world.fresh(hints);
        let mut options = world.options(&disk);
        change(&mut options);
        let why = sync(&options, &peer, |_| false).0.unwrap_err();
        assert!(disk.metadata(&layout().chainstate_dir()).unwrap().is_none(), "{why}");
        why
    };
    for (hints, change, want) in [
        (&world.hints[..], (|options| options.prune = Prune::Off) as fn(&mut Options), "Give --prune too"),
        (
            &world.hints,
            |options| options.indexes = vec![node::options::IndexKind::BlockFilter],
            "options that keep indexes",
        ),
        (&world.hints[..40], |_| (), "cut short"),
        (&[&world.hints[..], &[0]].concat(), |_| (), "follow its last list"),
        (b"UTXO\x01", |_| (), "begin with UTXO"),
    ] {
        let why = refused(hints, change);
        assert!(why.contains(want), "{why}");
    }
}

/// Stopped where the user can tell it; then the same command, or a sync without hints.
#[test]
fn sync_with_hints_that_is_stopped_goes_on() {
    let world = World::new();
    let peer = world.peer();
    for words in ["Headers first", "Peer", "no coin is looked up", "the sums", "Shutdown"] {
        for with_hints in [true, false] {
            let disk = world.fresh(&world.hints);
            let seen = Mutex::new(false);
            let (report, said) = sync(&world.options(&disk), &peer, |text| {
                *seen.lock().unwrap() |= text.contains(words);
                *seen.lock().unwrap()
            });
            assert!(report.is_ok(), "{words}: {report:?} {said:#?}");
            if with_hints {
                let (report, said) = sync(&world.options(&disk), &peer, |_| false);
                assert_eq!(report.unwrap().height, Height::new(BLOCKS), "{words}: {said:#?}");
                world.is_whole(&disk, Some(true), words);
            } else {
                let plain = sync_options(std::slice::from_ref(&peer), Until::Tip);
                let report = jobs::sync(&world.options(&disk), &plain, &|_| ()).unwrap();
                assert_eq!(report.height, Height::new(BLOCKS), "{words}");
                world.is_whole(&disk, None, words);
            }
        }
    }
}

/// The machine stops at one operation after another, every few blocks being a run of their own.
#[test]
fn sync_with_hints_that_is_killed_goes_on() {
    let world = World::new();
    let peer = world.peer();
    let (mut at, mut stops) = (20, 0);
    loop {
        let disk = world.fresh(&world.hints);
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let mut options = world.options(&disk);
        options.sizes.hinted_run_bytes_max = 2048;
        let (done, _) = sync(&options, &peer, |_| false);
        if done.is_ok() {
            break;
        }
        stops += 1;
        let disk = disk.reopen(if at % 2 == 0 { Loss::Random(at) } else { Loss::Unsynced });
        if stops % 3 == 0 {
            let plain = sync_options(std::slice::from_ref(&peer), Until::Tip);
            let done = jobs::sync(&world.options(&disk), &plain, &|_| ());
            done.unwrap_or_else(|why| panic!("stopped at {at}, without hints: {why}"));
        } else {
            let (done, said) = sync(&world.options(&disk), &peer, |_| false);
            done.unwrap_or_else(|why| panic!("stopped at {at}: {why}: {said:#?}"));
        }
        world.is_whole(&disk, None, &format!("stopped at {at}"));
        at += if testkit::is_slow() { 17 } else { 1 + at / 3 };
    }
    assert!(stops > 5, "{stops}");
}

/// What stops between the index and the swap of the chainstates: blocks that count as pruned and are not connected.
#[test]
fn every_step_at_the_end_can_be_the_last() {
    let world = World::new();
    let peer = world.peer();
    let mut row = 0;
    loop {
        let disk = world.fresh(&world.hints);
        let armed = Mutex::new(false);
        // All of the set is there when the second part of the network stops.
        let (done, said) = sync(&world.options(&disk), &peer, |text| {
            let mut armed = armed.lock().unwrap();
            if !*armed && text.contains("no coin is looked up") {
                *armed = true;
                disk.fail_at(disk.operations() + 40 + row, 1, Accident::Stop);
            }
            false
        });
        if done.is_ok() {
            break;
        }
        let disk = disk.reopen(if row % 2 == 0 { Loss::Unsynced } else { Loss::Nothing });
        let (done, again) = sync(&world.options(&disk), &peer, |_| false);
        done.unwrap_or_else(|why| panic!("{row}: {why}: {said:#?} {again:#?}"));
        world.is_whole(&disk, None, &format!("row {row}"));
        row += if testkit::is_slow() { 1 } else { 3 + row / 2 };
    }
    assert!(row > 20, "{row}");
    let set = jobs::set_info(&options(&world.whole, false), SetHash::None, &|_| ()).unwrap();
    assert_eq!(set.height, Height::new(BLOCKS));
}
