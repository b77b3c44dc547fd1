//! A data directory that is damaged: each damage is named, a repair ends with the right set, and no block is fetched that can
//! be read. Damages are combined by seed.
//!
//! `DOCTOR_RUNS=1000` plays more seeds, from the one that `DOCTOR_FROM` names; with `BITCOIND_EXE` bitcoind then starts
//! on each repaired directory. A run that fails says its seed.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{self, DATADIR};
use crate::indexes::branch;
use crate::peers::{Bend, Blocks, Far, Until, open, sync_options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs::{self, Depth, Kind, SyncOptions};
use node::options::{IndexKind, Options};
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Header, Height};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::index::IndexChanges;
use store::indexes::IndexDb;
use store::{BlockTreeDb, FileInfo, IndexEntry, Layout, Status};
use testkit::Rng;
use testkit::bitcoind::{self, Bitcoind, CHECKS};

pub(crate) const TIP: usize = 140;
pub(crate) const PER_FILE: usize = 20;
pub(crate) const KEY: [u8; 8] = [0x5a, 0xc3, 0x0f, 0x87, 0x11, 0x42, 0xd9, 0x6b];
/// Seeds that are played where none are asked for.
const RUNS: u64 = 12;

pub(crate) fn options(disk: &SimDisk) -> Options {
    Options { blocksxor: true, ..data_directory::options(disk, false) }
}

pub(crate) fn net(name: &str) -> PathBuf {
    Path::new(DATADIR).join("regtest").join(name)
}

pub(crate) fn block_file(number: usize, kind: &str) -> PathBuf {
    net(&format!("blocks/{kind}{number:05}.dat"))
}

pub(crate) fn hidden(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= KEY[at % 8]);
    bytes
}

pub(crate) fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    disk.open(path).unwrap().bytes().unwrap().to_vec()
}

pub(crate) fn replace(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let _ = disk.remove_file(path);
    put(disk, path, bytes);
}

/// The chain, a whole data directory with it, and its set.
pub(crate) struct Known {
    pub(crate) blocks: Blocks,
    pub(crate) heights: HashMap<BlockHash, usize>,
    pub(crate) set: String,
}

impl Known {
    pub(crate) fn new() -> Known {
        let blocks = chain(TIP as u32);
        let heights = blocks.iter().enumerate().map(|(height, block)| (hash_of(block), height)).collect();
        let mut known = Known { blocks, heights, set: String::new() };
        known.set = set_of(&known.whole());
        known
    }

    /// A new disk with the whole data directory on it.
    pub(crate) fn whole(&self) -> SimDisk {
        let disk = SimDisk::new(0);
        put(&disk, &net("blocks/xor.dat"), &KEY);
        for (number, blocks) in self.blocks.chunks(PER_FILE).enumerate() {
            put(&disk, &block_file(number, "blk"), &hidden(file(blocks)));
        }
        jobs::reindex(&options(&disk), false, &|_| ()).unwrap();
        disk
    }

    /// Where the record of a block lies in its file.
    pub(crate) fn place(&self, height: usize) -> usize {
        let first = height / PER_FILE * PER_FILE;
        file(&self.blocks[first..height]).len()
    }
}

pub(crate) fn set_of(disk: &SimDisk) -> String {
    format!("{:?}", jobs::set_info(&options(disk), SetHash::Serialized, &|_| ()).unwrap().hash)
}

pub(crate) fn flip(disk: &SimDisk, path: &Path, at: usize) {
    let file = disk.modify(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(at as u64, &mut byte).unwrap();
    file.write_at(at as u64, &[byte[0] ^ 1]).unwrap();
    file.sync().unwrap();
}

/// A damage: its name, the kinds of findings of which one names it, and the heights that may be fetched for it.
pub(crate) struct Damage {
    pub(crate) name: &'static str,
    kinds: &'static [Kind],
    fetch: BTreeSet<usize>,
}

fn of_file(number: usize) -> BTreeSet<usize> {
    (number * PER_FILE..(number + 1) * PER_FILE).collect()
}

const DAMAGES: usize = 20;

/// A file and the one behind it under each other's names.
fn swap(disk: &SimDisk, number: usize) {
    let paths = [block_file(number, "blk"), block_file(number + 1, "blk")];
    let [first, second] = paths.each_ref().map(|path| read(disk, path));
    replace(disk, &paths[0], &second);
    replace(disk, &paths[1], &first);
}

/// The largest table in a directory, unless an earlier damage removed it.
fn largest_table(disk: &SimDisk, dir: &str) -> Option<PathBuf> {
    let dir = net(dir);
    let files = disk.list(&dir).ok()?.into_iter().map(|entry| dir.join(&entry.name));
    let tables = files.filter(|path| path.to_string_lossy().ends_with(".ldb"));
    tables.max_by_key(|path| read(disk, path).len())
}

/// `number`: two flips of one bit would undo each other.
fn flip_table(disk: &SimDisk, dir: &str, number: usize) {
    if let Some(path) = largest_table(disk, dir) {
        flip(disk, &path, read(disk, &path).len() / 3 + number);
    }
}

/// Does one of the damages to file `number`, so that several do not meet in one file.
pub(crate) fn damage(disk: &SimDisk, known: &Known, which: usize, number: usize, random: &mut Rng) -> Damage {
    let path = block_file(number, "blk");
    let height = number * PER_FILE + random.below(PER_FILE);
    let place = known.place(height);
    let one = BTreeSet::from([height]);
    let is = |name, kinds, fetch| Damage { name, kinds, fetch };
    match which {
        0 => {
            flip(disk, &path, place + 8 + 90);
            is("body", &[Kind::BlockDamaged], one)
        }
        1 => {
            flip(disk, &path, place + 8 + 40);
            is("header", &[Kind::BlockDamaged], one)
        }
        2 => {
            flip(disk, &path, place + 4);
            // Where the index is made again too, a scan does not see the block.
            is("size", &[Kind::BlockDamaged], one)
        }
        3 => {
            disk.remove_file(&path).unwrap();
            is("missing", &[Kind::BlockFileMissing], of_file(number))
        }
        4 => {
            let bytes = read(disk, &path);
            replace(disk, &path, &bytes[..place + 50]);
            is("cut", &[Kind::BlockFileCut], (height..(number + 1) * PER_FILE).collect())
        }
        5 => {
            let len = read(disk, &path).len();
            replace(disk, &path, &vec![0; len]);
            is("zeros", &[Kind::BlockFileEmpty], of_file(number))
        }
        6 => {
            replace(disk, &path, &[]);
            is("empty", &[Kind::BlockFileEmpty], of_file(number))
        }
        7 => {
            let plain = hidden(read(disk, &path));
            replace(disk, &path, &plain);
            is("plain", &[Kind::BlockFilePlain], BTreeSet::new())
        }
        8 => {
            put(disk, &block_file(TIP / PER_FILE + 1 + number, "blk"), &read(disk, &path));
            is("twice", &[Kind::NotIndexed], BTreeSet::new())
        }
        9 => {
            let _ = disk.remove_file(&net("blocks/xor.dat"));
            is("key lost", &[Kind::KeyLost], BTreeSet::new())
        }
        10 => {
            flip(disk, &block_file(number, "rev"), 9);
            is("undo", &[Kind::UndoDamaged], BTreeSet::new())
        }
        11 => {
            disk.remove_file(&block_file(number, "rev")).unwrap();
            is("undo missing", &[Kind::UndoFileMissing], BTreeSet::new())
        }
        12 => {
            replace(disk, &net("blocks/index/CURRENT"), &[0; 16]);
            is("index", &[Kind::IndexDamaged, Kind::IndexMissing], BTreeSet::new())
        }
        13 => {
            let _ = disk.remove_dir_all(&net("chainstate"));
            is("chainstate gone", &[Kind::CoinsMissing, Kind::IndexDamaged, Kind::IndexMissing], BTreeSet::new())
        }
        14 => {
            replace(disk, &net("ffwd/chainstate.old/CURRENT"), b"x");
            is("leftover", &[Kind::Leftover], BTreeSet::new())
        }
        15 => {
            swap(disk, number);
            is("swapped", &[Kind::BlockFileSwapped], BTreeSet::new())
        }
        16 => {
            let _ = disk.remove_dir_all(&net("blocks/index"));
            is("index gone", &[Kind::IndexMissing], BTreeSet::new())
        }
        17 => {
            flip_table(disk, "chainstate", number);
            is("a coin table", &[Kind::CoinsDamaged, Kind::CoinsMissing], BTreeSet::new())
        }
        18 => {
            flip_table(disk, "blocks/index", number);
            is("an index table", &[Kind::IndexDamaged], BTreeSet::new())
        }
        _ => {
            largest_table(disk, "blocks/index").into_iter().for_each(|path| disk.remove_file(&path).unwrap());
            is("an index table missing", &[Kind::IndexDamaged, Kind::IndexMissing], BTreeSet::new())
        }
    }
}

/// A peer that notes what it is asked for.
pub(crate) fn peer(known: &Known) -> (SyncOptions, Arc<Mutex<BTreeSet<BlockHash>>>) {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = asked.clone();
    let bend: Bend = Arc::new(move |hash: &BlockHash| {
        noted.lock().unwrap().insert(*hash);
        None
    });
    let address = Far::listen(&known.blocks, bend, &open());
    (sync_options(&[address], Until::Tip), asked)
}

pub(crate) fn check_whole(disk: &SimDisk, known: &Known, row: &str) {
    let left = jobs::doctor(&options(disk), Depth::Deep, &|_| ()).unwrap().findings;
    assert!(left.is_empty(), "{row}: {left:?}");
    assert_eq!(set_of(disk), known.set, "{row}");
}

/// A disk with one to three damages, and the damages.
pub(crate) fn hurt(known: &Known, seed: u64) -> (SimDisk, Vec<Damage>) {
    let mut random = Rng::new(seed);
    let disk = known.whole();
    let count = 1 + random.below(3);
    let mut damages = Vec::new();
    for number in 1..=count {
        let which = if seed < DAMAGES as u64 && number == 1 { seed as usize } else { random.below(DAMAGES) };
        damages.push(damage(&disk, known, which, 2 * number - 1, &mut random));
    }
    (disk, damages)
}

/// Names of the damages, for messages.
pub(crate) fn row_of(seed: u64, damages: &[Damage]) -> String {
    let names: Vec<&str> = damages.iter().map(|damage| damage.name).collect();
    format!("seed {seed}: {}", names.join(", "))
}

/// The heights that may be fetched for these damages.
pub(crate) fn may_fetch(damages: &[Damage]) -> BTreeSet<usize> {
    damages.iter().flat_map(|damage| damage.fetch.iter().copied()).collect()
}

fn play(known: &Known, seed: u64) -> SimDisk {
    let (disk, damages) = hurt(known, seed);
    let row = row_of(seed, &damages);
    let found = jobs::doctor(&options(&disk), Depth::Deep, &|_| ()).unwrap().findings;
    // Without an index, or without a key, no place is known.
    let is_blind =
        found.iter().any(|finding| finding.kind >= Kind::IndexMissing && finding.kind <= Kind::IndexOfOtherNetwork);
    for damage in &damages {
        let is_named = found.iter().any(|finding| damage.kinds.contains(&finding.kind));
        assert!(is_named || is_blind, "{row}: {} is not named in {found:?}", damage.name);
    }
    assert!(!found.is_empty(), "{row}");
    let (sync, asked) = peer(known);
    let report = jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    assert!(report.left.is_empty() && !report.done.is_empty(), "{row}: {report:?}");
    let may = may_fetch(&damages);
    let did: BTreeSet<usize> = asked.lock().unwrap().iter().map(|hash| known.heights[hash]).collect();
    assert!(did.is_subset(&may), "{row}: fetched {:?}", did.difference(&may).collect::<Vec<_>>());
    check_whole(&disk, known, &row);
    disk
}

/// bitcoind starts on a copy of the directory, and finds the chain, its coins, blocks and undo data whole.
fn check_with_bitcoind(disk: &SimDisk, known: &Known) {
    let dir = tempfile::tempdir().unwrap();
    write_out(disk, Path::new(DATADIR), dir.path());
    let core = Bitcoind::start(dir.path(), CHECKS);
    assert_eq!(core.tip(), hash_of(known.blocks.last().unwrap()).to_string());
    let (_, hash) = jobs::set_info(&options(disk), SetHash::Serialized, &|_| ()).unwrap().hash.unwrap();
    let set = core.rpc(&["gettxoutsetinfo"]);
    assert!(set.contains(&hash.to_string()), "{hash} is not in {set}");
    core.stop();
}

/// Copies a directory of a simulated disk to a real one.
pub(crate) fn write_out(disk: &SimDisk, from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in disk.list(from).unwrap() {
        let from = from.join(&entry.name);
        let to = to.join(&entry.name);
        if entry.is_dir {
            write_out(disk, &from, &to);
        } else {
            std::fs::write(to, read(disk, &from)).unwrap();
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// The seeds to play: as many as the variable `runs` says, otherwise `few`, or 20 times as many with `SLOW=1`; from the one
/// that the variable `from` names.
pub(crate) fn seeds(runs: &str, from: &str, few: u64) -> Range<u64> {
    let from = number(from).unwrap_or(0);
    from..from + number(runs).unwrap_or(if testkit::is_slow() { 20 * few } else { few })
}

#[test]
fn damages_are_named_and_mended_with_the_least_work() {
    let known = Known::new();
    let asked = number("DOCTOR_RUNS");
    let from = number("DOCTOR_FROM").unwrap_or(0);
    let with_bitcoind = asked.is_some() && bitcoind::is_there();
    for seed in from..from + asked.unwrap_or(RUNS.max(DAMAGES as u64)) {
        let disk = play(&known, seed);
        if with_bitcoind {
            println!("seed {seed}: bitcoind");
            check_with_bitcoind(&disk, &known);
        }
    }
}

/// Someone removed the undo files to have more room. Each of them alone would be mended by reading the whole chain.
#[test]
fn many_lost_undo_files_are_made_again_in_one_pass() {
    let known = Known::new();
    let disk = known.whole();
    for (undo_bytes_max, want) in [(usize::MAX, "The undo data of 140 blocks"), (4000, "the undo data of many blocks")]
    {
        (0..=TIP / PER_FILE).for_each(|number| disk.remove_file(&block_file(number, "rev")).unwrap());
        let mut options = options(&disk);
        options.sizes.undo_bytes_max = undo_bytes_max;
        let report = jobs::repair(&options, &SyncOptions::alone(), &|_| ()).unwrap();
        assert!(report.done.iter().any(|done| done.contains(want)), "{report:?}");
        check_whole(&disk, &known, want);
    }
}

/// A stop between two moves leaves a file under a name that only says where it goes.
#[test]
fn files_that_were_being_moved_get_their_names_and_nothing_is_fetched() {
    let known = Known::new();
    let alone = SyncOptions::alone();
    let names = [block_file(2, "blk"), block_file(3, "blk")];
    let mut times = 0;
    for at in 0.. {
        let disk = known.whole();
        swap(&disk, 2);
        disk.sync_dir(&net("blocks")).unwrap();
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let is_done = jobs::repair(&options(&disk), &alone, &|_| ()).is_ok();
        let disk = disk.reopen(Loss::Nothing);
        let row = format!("stopped at {at}");
        if names.iter().any(|name| disk.metadata(name).unwrap().is_none()) {
            times += 1;
            jobs::repair(&options(&disk), &alone, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
            check_whole(&disk, &known, &row);
        }
        if is_done {
            assert!(times > 0, "no stop was between two moves");
            return check_whole(&disk, &known, &row);
        }
    }
}

#[test]
fn what_no_program_mends_is_said_and_nothing_is_fetched() {
    let known = Known::new();
    let disk = known.whole();
    disk.remove_file(&block_file(2, "blk")).unwrap();
    let alone = SyncOptions::alone();
    let why = jobs::repair(&options(&disk), &alone, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("20 damaged or missing blocks") && why.contains("height 40"), "{why}");
    let empty = SimDisk::new(0);
    empty.create_dir_all(Path::new(DATADIR)).unwrap();
    let why = jobs::repair(&options(&empty), &alone, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("nothing of this network") && why.contains("ffwd sync"), "{why}");
}

/// What the block index says, and the files of the coins.
pub(crate) type Kept = (Vec<IndexEntry>, Vec<FileInfo>, BTreeMap<String, Vec<u8>>);

pub(crate) fn kept(disk: &SimDisk) -> Kept {
    let options = options(disk);
    let layout = Layout::new(Path::new(DATADIR), "regtest", None);
    let network = node::datadir::lock::network(&options.params);
    let loaded = BlockTreeDb::open_read_only(disk.shared(), &layout).unwrap().load(&network).unwrap();
    let dir = net("chainstate");
    let tables = disk.list(&dir).unwrap().into_iter().filter(|entry| entry.name.to_string_lossy().ends_with(".ldb"));
    let coins = tables.map(|entry| (entry.name.to_string_lossy().into_owned(), read(disk, &dir.join(&entry.name))));
    (loaded.entries, loaded.files, coins.collect())
}

/// The index from the files is the one that was lost, record by record, and the coins are not touched.
#[test]
fn an_index_is_made_of_the_files_and_the_coins_stay() {
    let known = Known::new();
    let alone = SyncOptions::alone();
    for row in ["gone", "damaged", "half written before"] {
        let disk = known.whole();
        let before = kept(&disk);
        match row {
            "damaged" => replace(&disk, &net("blocks/index/CURRENT"), &[0; 16]),
            _ => disk.remove_dir_all(&net("blocks/index")).unwrap(),
        }
        if row == "half written before" {
            put(&disk, &net("blocks/ffwd-index.new/CURRENT"), b"x");
        }
        let report = jobs::repair(&options(&disk), &alone, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(report.done.iter().any(|done| done.contains("the UTXO set stays as it is")), "{row}: {report:?}");
        let (entries, files, coins) = kept(&disk);
        assert_eq!(entries, before.0, "{row}");
        assert_eq!(files, before.1, "{row}");
        assert!(coins == before.2, "{row}: the coins were rewritten");
        check_whole(&disk, &known, row);
    }
}

/// Without an index, and without some of what it named: that alone is made or fetched again.
#[test]
fn what_the_files_lack_beside_a_lost_index_is_fetched_and_the_coins_stay() {
    let known = Known::new();
    let number = 3;
    let height = number * PER_FILE + 7;
    let rows: [(&str, &dyn Fn(&SimDisk), BTreeSet<usize>); 6] = [
        ("a block file", &|disk| disk.remove_file(&block_file(number, "blk")).unwrap(), of_file(number)),
        ("the first block file", &|disk| disk.remove_file(&block_file(0, "blk")).unwrap(), (1..PER_FILE).collect()),
        ("an undo file", &|disk| disk.remove_file(&block_file(number, "rev")).unwrap(), BTreeSet::new()),
        ("undo data of a block", &|disk| flip(disk, &block_file(number, "rev"), 9), BTreeSet::new()),
        (
            "a block's number of transactions",
            &|disk| flip(disk, &block_file(number, "blk"), known.place(height) + 8 + 80),
            BTreeSet::from([height]),
        ),
        (
            "both that number and the undo data",
            &|disk| {
                flip(disk, &block_file(number, "blk"), known.place(height) + 8 + 80);
                disk.remove_file(&block_file(number, "rev")).unwrap();
            },
            BTreeSet::from([height]),
        ),
    ];
    for (row, hurt, may) in rows {
        let disk = known.whole();
        let before = kept(&disk);
        hurt(&disk);
        disk.remove_dir_all(&net("blocks/index")).unwrap();
        let (sync, asked) = peer(&known);
        jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        let did: BTreeSet<usize> = asked.lock().unwrap().iter().map(|hash| known.heights[hash]).collect();
        assert_eq!(did, may, "{row}: fetched");
        let after = kept(&disk);
        assert!(after.2 == before.2, "{row}: the coins were rewritten");
        let facts = |entry: &IndexEntry| (entry.hash, entry.status, entry.tx_count);
        assert!(after.0.iter().map(facts).eq(before.0.iter().map(facts)), "{row}");
        check_whole(&disk, &known, row);
    }
    // Alone it says what is needed, and touches no coin.
    let disk = known.whole();
    let before = kept(&disk);
    disk.remove_file(&block_file(number, "blk")).unwrap();
    disk.remove_dir_all(&net("blocks/index")).unwrap();
    let why = jobs::repair(&options(&disk), &SyncOptions::alone(), &|_| ()).unwrap_err().to_string();
    assert!(why.contains("--from") && why.contains("was not touched"), "{why}");
    let (sync, _) = peer(&known);
    jobs::repair(&options(&disk), &sync, &|_| ()).unwrap();
    assert!(kept(&disk).2 == before.2);
}

#[test]
fn the_index_of_a_pruned_directory_is_not_made_of_what_is_left() {
    let known = Known::new();
    let disk = known.whole();
    for number in 0..3 {
        disk.remove_file(&block_file(number, "blk")).unwrap();
        disk.remove_file(&block_file(number, "rev")).unwrap();
    }
    disk.remove_dir_all(&net("blocks/index")).unwrap();
    let (sync, asked) = peer(&known);
    let why = jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("pruned") && why.contains("Nothing was changed"), "{why}");
    assert!(asked.lock().unwrap().is_empty());
}

/// A mark on a block above which the index has no header: what peers have above it is asked for, and judged.
#[test]
fn a_mark_below_headers_that_are_not_known_is_judged_with_the_chain_of_peers() {
    let known = Known::new();
    let height = 95;
    // The coins stand on another branch, with as much work as the marked block has.
    let other = branch(&known.blocks, height as u32, 1, 7);
    let begun = |bad: bool| {
        let disk = SimDisk::new(0);
        put(&disk, &net("blocks/blk00000.dat"), &file(&other));
        let options = data_directory::options(&disk, false);
        jobs::reindex(&options, false, &|_| ()).unwrap();
        let layout = Layout::new(Path::new(DATADIR), "regtest", None);
        let index = BlockTreeDb::open(disk.shared(), &layout).unwrap();
        let header = Header(*known.blocks[height].first_chunk().unwrap());
        let at = Height::new(height as u32);
        let mut entry = IndexEntry::header_only(header, header.hash(), at);
        entry.status = entry.status.with(Status::FAILED_VALID);
        index.write(&IndexChanges { entries: &[entry], ..IndexChanges::default() }).unwrap();
        if bad {
            put(&disk, &net("ffwd/refused"), header.hash().as_bytes());
        }
        (disk, options, header.hash())
    };
    let (disk, options, marked) = begun(false);
    let (sync, _) = peer(&known);
    let report = jobs::repair(&options, &sync, &|_| ()).unwrap();
    assert!(report.done.iter().any(|done| done.contains(&marked.to_string())), "{report:?}");
    let left = jobs::doctor(&options, Depth::Deep, &|_| ()).unwrap().findings;
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(set_of(&disk), known.set);
    // Without anybody to ask, and where ffwd itself found that the block breaks a rule, the mark stays.
    let (disk, options, _) = begun(false);
    let before = set_of(&disk);
    jobs::repair(&options, &SyncOptions::alone(), &|_| ()).unwrap();
    assert_eq!(set_of(&disk), before);
    let (disk, options, _) = begun(true);
    jobs::repair(&options, &sync, &|_| ()).unwrap();
    assert_eq!(set_of(&disk), before);
}

/// A rebuild removes the optional indexes: stopped anywhere, the next repair knows which there were.
#[test]
fn an_optional_index_is_not_forgotten_by_a_repair_that_is_stopped() {
    let known = Known::new();
    let hurt = || {
        let disk = known.whole();
        jobs::index(&options(&disk), &[IndexKind::Tx], &|_| ()).unwrap();
        disk.remove_dir_all(&net("blocks/index")).unwrap();
        disk.remove_dir_all(&net("chainstate")).unwrap();
        disk.sync_dir(&net("blocks")).unwrap();
        disk.sync_dir(&net("")).unwrap();
        disk
    };
    let alone = SyncOptions::alone();
    let layout = Layout::new(Path::new(DATADIR), "regtest", None);
    let at_tip = |disk: &SimDisk| {
        let index = IndexDb::open_read_only(disk.shared(), &layout, IndexKind::Tx).unwrap();
        index.and_then(|index| index.best_block().unwrap()) == Some(hash_of(&known.blocks[TIP]))
    };
    let disk = hurt();
    let before = disk.operations();
    jobs::repair(&options(&disk), &alone, &|_| ()).unwrap();
    let operations = disk.operations() - before;
    assert!(at_tip(&disk), "never stopped");
    let stride = if testkit::is_slow() { 1 } else { (operations / 16).max(1) };
    for at in (0..operations).step_by(stride as usize) {
        let disk = hurt();
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let _ = jobs::repair(&options(&disk), &alone, &|_| ());
        let disk = disk.reopen(Loss::Unsynced);
        jobs::repair(&options(&disk), &alone, &|_| ()).unwrap_or_else(|why| panic!("stopped at {at}: {why}"));
        assert!(at_tip(&disk), "stopped at {at} of {operations}");
        assert!(disk.metadata(&net("ffwd/repair-indexes")).unwrap().is_none(), "stopped at {at}: it is over");
        check_whole(&disk, &known, "stopped");
    }
}

/// Without an index the blocks of the files are read all the same, and what is damaged is named by its place.
#[test]
fn damaged_blocks_are_named_without_an_index() {
    let known = Known::new();
    let disk = known.whole();
    let body = 3 * PER_FILE + 7;
    flip(&disk, &block_file(3, "blk"), known.place(body) + 8 + 90);
    let header = 5 * PER_FILE + 4;
    flip(&disk, &block_file(5, "blk"), known.place(header) + 8 + 40);
    disk.remove_dir_all(&net("blocks/index")).unwrap();
    let found = jobs::doctor(&options(&disk), Depth::Deep, &|_| ()).unwrap().findings;
    let named: BTreeSet<(PathBuf, u64)> = found
        .iter()
        .filter(|finding| finding.kind == Kind::BlockDamaged)
        .map(|finding| (finding.path.clone(), finding.offset.unwrap()))
        .collect();
    let want = [(3, known.place(body) + 8), (5, known.place(header))];
    let want = want.map(|(number, at)| (block_file(number, "blk"), at as u64));
    assert_eq!(named, BTreeSet::from(want), "{found:?}");
    let quick = jobs::doctor(&options(&disk), Depth::Quick, &|_| ()).unwrap().findings;
    assert!(quick.iter().all(|finding| finding.kind == Kind::IndexMissing), "{quick:?}");
}

/// Files that have what is damaged: no peer is asked for it.
#[test]
fn a_repair_takes_blocks_from_files_that_are_given() {
    let known = Known::new();
    let lay = |disk: &SimDisk, gone: &[usize]| {
        put(disk, Path::new("/other/regtest/blocks/xor.dat"), &[9; 8]);
        for (number, blocks) in known.blocks.chunks(PER_FILE).enumerate().filter(|(number, _)| !gone.contains(number)) {
            let bytes: Vec<u8> = file(blocks).iter().map(|byte| byte ^ 9).collect();
            put(disk, &PathBuf::from(format!("/other/regtest/blocks/blk{number:05}.dat")), &bytes);
        }
    };
    for (row, has_index, gone) in [("all", true, &[][..]), ("all, no index", false, &[]), ("but one", true, &[4])] {
        let disk = known.whole();
        lay(&disk, gone);
        flip(&disk, &block_file(1, "blk"), known.place(PER_FILE + 3) + 8 + 90);
        for number in [2, 4] {
            disk.remove_file(&block_file(number, "blk")).unwrap();
        }
        if !has_index {
            disk.remove_dir_all(&net("blocks/index")).unwrap();
        }
        let (peer, asked) = peer(&known);
        let sync = if gone.is_empty() { SyncOptions::alone() } else { peer };
        let sync = SyncOptions { from: vec!["/other".into()], ..sync };
        let report = jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        let did: BTreeSet<usize> = asked.lock().unwrap().iter().map(|hash| known.heights[hash]).collect();
        let may: BTreeSet<usize> = gone.iter().flat_map(|&number| of_file(number)).collect();
        assert_eq!((did, report.fetched as usize), (may.clone(), may.len()), "{row}");
        check_whole(&disk, &known, row);
    }
    let disk = known.whole();
    lay(&disk, &[2]);
    disk.remove_file(&block_file(2, "blk")).unwrap();
    let sync = SyncOptions { from: vec!["/other".into()], ..SyncOptions::alone() };
    let why = jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_err().to_string();
    assert!(why.contains("20 damaged or missing blocks") && why.contains("--from"), "{why}");
}

/// Another directory's blocks, read where they lie; what it lacks comes from a peer, and no more than that.
#[test]
fn a_sync_from_files_takes_what_they_have_and_the_rest_from_peers() {
    let known = Known::new();
    let lay = |gone: &[usize]| {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        put(&disk, Path::new("/other/regtest/blocks/xor.dat"), &KEY);
        for (number, blocks) in known.blocks.chunks(PER_FILE).enumerate() {
            let path = PathBuf::from(format!("/other/regtest/blocks/blk{number:05}.dat"));
            if !gone.contains(&number) {
                put(&disk, &path, &hidden(file(blocks)));
            }
        }
        disk
    };
    let with = |sync: SyncOptions, path: &str| SyncOptions { from: vec![path.into()], exit_at_tip: true, ..sync };
    for path in ["/other", "/other/regtest", "/other/regtest/blocks"] {
        let disk = lay(&[]);
        let report = jobs::sync(&options(&disk), &with(SyncOptions::alone(), path), &|_| ()).unwrap();
        assert_eq!((report.height.to_u32() as usize, report.end_reason), (TIP, None), "{path}");
        assert_eq!(set_of(&disk), known.set, "{path}");
    }
    let disk = lay(&[2, 4]);
    let before = read(&disk, Path::new("/other/regtest/blocks/blk00003.dat"));
    let (sync, asked) = peer(&known);
    let report = jobs::sync(&options(&disk), &with(sync, "/other"), &|_| ()).unwrap();
    assert_eq!(report.height.to_u32() as usize, TIP);
    let asked: BTreeSet<usize> = asked.lock().unwrap().iter().map(|hash| known.heights[hash]).collect();
    assert_eq!(asked, of_file(2).union(&of_file(4)).copied().collect(), "no more than what is missing");
    assert_eq!(
        (set_of(&disk), read(&disk, Path::new("/other/regtest/blocks/blk00003.dat"))),
        (known.set.clone(), before)
    );
    // Alone it ends below the gap, and says so.
    let disk = lay(&[2]);
    let report = jobs::sync(&options(&disk), &with(SyncOptions::alone(), "/other"), &|_| ()).unwrap();
    assert_eq!(report.height.to_u32() as usize, 2 * PER_FILE - 1);
    let why = jobs::sync(&options(&lay(&[])), &with(SyncOptions::alone(), "/nothing"), &|_| ()).unwrap_err();
    assert!(why.to_string().contains("for --from"), "{why}");
}
