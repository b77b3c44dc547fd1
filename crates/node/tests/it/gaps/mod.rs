//! Block files with gaps, damage and leftovers, followed by any order of reindex, sync and import: no block that can be read is
//! lost, written over or asked for again, the next program that appends does so behind all of them, and the end is right.
//!
//! By seed, on a simulated disk; `SLOW=1` plays more. A run that fails prints how to play it again.

mod rows;

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{self, DATADIR};
use crate::peers::{Bend, Blocks, Far, Until, open, sync_options};
use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use node::datadir::lock;
use node::jobs;
use node::options::Options;
use node::reporting::Event;
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Height};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::index::BlockTreeDb;
use store::{Layout, xor};
use testkit::Rng;

/// Height of the chain's last block.
const TIP: usize = 140;
/// The file that `import` is given.
const FOREIGN: &str = "/foreign.dat";

/// The chain that everybody has, and a data directory with its set.
struct Known {
    blocks: Blocks,
    heights: HashMap<BlockHash, usize>,
    set: String,
}

impl Known {
    fn new() -> Known {
        let blocks = chain(TIP as u32);
        let heights = blocks.iter().enumerate().map(|(height, block)| (hash_of(block), height)).collect();
        let good = SimDisk::new(0);
        put(&good, &block_path(0), &file(&blocks));
        jobs::reindex(&options(&good, false), false, &|_| ()).unwrap();
        Known { blocks, heights, set: set_of(&good) }
    }
}

fn options(disk: &SimDisk, is_eager: bool) -> Options {
    Options { blocksxor: true, ..data_directory::options(disk, is_eager) }
}

fn blocks_dir() -> PathBuf {
    Path::new(DATADIR).join("regtest/blocks")
}

fn block_path(number: u32) -> PathBuf {
    blocks_dir().join(format!("blk{number:05}.dat"))
}

fn set_of(disk: &SimDisk) -> String {
    format!("{:?}", jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap().hash)
}

fn key_of(disk: &SimDisk) -> xor::Key {
    xor::read_key(disk, &blocks_dir()).unwrap().unwrap_or(xor::NO_KEY)
}

fn flipped(bytes: &mut [u8], key: xor::Key) {
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= key[at % 8]);
}

/// Every block file as it is on the disk.
fn raw_files(disk: &SimDisk) -> BTreeMap<u32, Vec<u8>> {
    let number = |name: &str| name.strip_prefix("blk")?.strip_suffix(".dat")?.parse().ok();
    let numbers: Vec<u32> =
        disk.list(&blocks_dir()).unwrap().iter().filter_map(|entry| number(entry.name.to_str()?)).collect();
    numbers.into_iter().map(|n| (n, disk.open(&block_path(n)).unwrap().bytes().unwrap().to_vec())).collect()
}

/// Every whole record of a block of the chain: height, file, offset of the record; wherever it lies.
fn lying(disk: &SimDisk, known: &Known) -> Vec<(usize, u32, usize)> {
    let (magic, key) = (Params::new(Chain::Regtest).magic, key_of(disk));
    let mut found = Vec::new();
    for (number, mut bytes) in raw_files(disk) {
        flipped(&mut bytes, key);
        for at in 0..bytes.len().saturating_sub(88) {
            if bytes[at..].starts_with(&magic) {
                let height = known.heights.get(&hash_of(&bytes[at + 8..at + 88]));
                let record = height.map(|&height| file(std::slice::from_ref(&known.blocks[height])));
                if record.is_some_and(|record| bytes[at..].starts_with(&record)) {
                    found.push((*height.unwrap(), number, at));
                }
            }
        }
    }
    found
}

/// What lies in the block files at one time, to compare with later.
struct Kept {
    records: Vec<(usize, u32, usize)>,
    /// The bytes of each file up to its last whole record.
    bytes: BTreeMap<u32, Vec<u8>>,
}

impl Kept {
    fn new(disk: &SimDisk, known: &Known) -> Kept {
        let records = lying(disk, known);
        let mut bytes = BTreeMap::new();
        for (number, raw) in raw_files(disk) {
            let ends = records.iter().filter(|(_, file, _)| *file == number);
            let end = ends.map(|(height, _, at)| at + 8 + known.blocks[*height].len()).max().unwrap_or(0);
            bytes.insert(number, raw[..end].to_vec());
        }
        Kept { records, bytes }
    }

    fn heights(&self) -> BTreeSet<usize> {
        self.records.iter().map(|(height, ..)| *height).collect()
    }

    fn copies(&self, height: usize) -> usize {
        self.records.iter().filter(|(of, ..)| *of == height).count()
    }

    /// Nothing that lay there is gone, written over or there once more.
    fn check(&self, disk: &SimDisk, known: &Known, row: &str) {
        let now = Kept::new(disk, known);
        let files = raw_files(disk);
        for (number, bytes) in self.bytes.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let there = files.get(number).unwrap_or_else(|| panic!("{row}: blk{number:05}.dat is gone"));
            let differs = bytes.iter().zip(there).position(|(a, b)| a != b);
            assert!(there.len() >= bytes.len() && differs.is_none(), "{row}: blk{number:05}.dat at {differs:?}");
        }
        for height in now.heights() {
            assert!(now.copies(height) <= self.copies(height).max(1), "{row}: block {height} is there once more");
        }
    }
}

/// Where bitcoind would append: behind every whole record of the last file that the index lists, and no file lies behind that.
/// Source: Bitcoin Core b88bffe, `BlockManager::LoadBlockIndexDB`, `FindNextBlockPos`.
fn check_where_core_appends(disk: &SimDisk, known: &Known, row: &str) {
    let params = Params::new(Chain::Regtest);
    let layout = Layout::new(Path::new(DATADIR), lock::network(&params).directory, None);
    let index = BlockTreeDb::open_read_only(disk.shared(), &layout).unwrap();
    let infos = index.load(&lock::network(&params)).unwrap().files;
    for (height, number, at) in lying(disk, known) {
        let info = infos.get(number as usize).unwrap_or_else(|| panic!("{row}: blk{number:05}.dat is not listed"));
        let end = at + 8 + known.blocks[height].len();
        assert!(
            info.size as usize >= end,
            "{row}: block {height} ends at {end} of blk{number:05}.dat, listed: {info:?}"
        );
    }
    let last = infos.len() as u32 - 1;
    let files = raw_files(disk);
    if let Some(bytes) = files.get(&last) {
        let behind = bytes.get(infos[last as usize].size as usize..).unwrap_or_default();
        assert!(behind.iter().all(|&byte| byte == 0), "{row}: bytes behind the end of the last file");
    }
}

/// One way to spoil block files; each leaves the genesis block where it is.
fn spoil(disk: &SimDisk, known: &Known, random: &mut Rng) -> String {
    let key = key_of(disk);
    let files = raw_files(disk);
    let (&number, raw) = files.iter().nth(random.below(files.len())).unwrap();
    let mut bytes = raw.clone();
    flipped(&mut bytes, key);
    let records: Vec<(usize, u32, usize)> =
        lying(disk, known).into_iter().filter(|&(height, file, _)| file == number && height > 0).collect();
    let what = *random.pick(&[
        "file gone",
        "header",
        "body",
        "record gone",
        "twice",
        "cut",
        "room behind",
        "junk behind",
        "junk before",
        "zeros",
        "renamed",
        "twice in a new file",
        "false record",
    ]);
    let row = format!("{what} blk{number:05}.dat");
    let Some(&(height, _, at)) = (!records.is_empty()).then(|| random.pick(&records)) else { return row };
    let end = at + 8 + known.blocks[height].len();
    let mut next = files.keys().last().unwrap() + 1;
    let mut target = number;
    let junk_bytes = 1 + random.below(300);
    let junk = random.bytes(junk_bytes);
    match what {
        "file gone" if number > 0 => return disk.remove_file(&block_path(number)).map(|()| row).unwrap(),
        "file gone" => return row,
        "header" => bytes[at + 8 + random.below(80)] ^= 1 << random.below(8),
        "body" => bytes[at + 88 + random.below(end - at - 88)] ^= 1,
        "record gone" => drop(bytes.drain(at..end)),
        "twice" => bytes.extend_from_within(at..end),
        "cut" => bytes.truncate(at + 8 + random.below(end - at - 8)),
        "room behind" => {}
        "junk behind" => bytes.extend(junk),
        "junk before" => drop(bytes.splice(at..at, junk)),
        "zeros" => bytes[at..end].fill(0),
        "renamed" if number > 0 => {
            next += random.below(3) as u32;
            return disk.rename(&block_path(number), &block_path(next)).map(|()| row).unwrap();
        }
        "renamed" => return row,
        "twice in a new file" => (bytes, target) = (bytes[at..end].to_vec(), next),
        // A header with a size that reaches over its neighbours.
        _ => {
            let size = (2 * known.blocks[height].len()) as u32;
            bytes[at + 4..at + 8].copy_from_slice(&size.to_le_bytes());
        }
    }
    flipped(&mut bytes, key);
    if what == "room behind" {
        bytes.extend([0; 9000]);
    }
    if target == number {
        disk.remove_file(&block_path(number)).unwrap();
    }
    put(disk, &block_path(target), &bytes);
    row
}

/// A data directory of block files alone, in one to six files, spoilt in one to four ways; some are obfuscated, and blocks lie
/// in the order of the chain or nearly so.
fn spoilt(known: &Known, random: &mut Rng) -> (SimDisk, String) {
    let disk = SimDisk::new(0);
    let mut order: Vec<usize> = (0..known.blocks.len()).collect();
    if random.one_in(2) {
        order[1..].chunks_mut(8).for_each(|window| window.reverse());
    }
    let key = if random.one_in(2) { random.array() } else { xor::NO_KEY };
    put(&disk, &blocks_dir().join("xor.dat"), &key);
    let count = 1 + random.below(6);
    for (number, part) in order.chunks(known.blocks.len().div_ceil(count)).enumerate() {
        let part: Vec<Vec<u8>> = part.iter().map(|&height| known.blocks[height].clone()).collect();
        let mut bytes = file(&part);
        flipped(&mut bytes, key);
        put(&disk, &block_path(number as u32), &bytes);
    }
    let rows: Vec<String> = (0..1 + random.below(4)).map(|_| spoil(&disk, known, random)).collect();
    (disk, rows.join(", "))
}

/// A peer with the whole chain that writes down what it is asked for.
fn peer(known: &Known) -> (String, Arc<Mutex<BTreeSet<usize>>>) {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let (heights, list) = (known.heights.clone(), asked.clone());
    let bend: Bend = Arc::new(move |hash| {
        list.lock().unwrap().extend(heights.get(hash));
        None
    });
    (Far::listen(&known.blocks, bend, &open()), asked)
}

/// A sync from that peer, up to a height; what it was asked for.
fn sync(disk: &SimDisk, known: &Known, until: Until, row: &str) -> BTreeSet<usize> {
    let (address, asked) = peer(known);
    let stop_at_height = if let Until::Stop(height) = until { Some(Height::new(height)) } else { None };
    let options = Options { stop_at_height, par: 2, ..options(disk, false) };
    let said = Mutex::new(Vec::new());
    let start = std::time::Instant::now();
    let ended = jobs::sync(&options, &sync_options(&[address], until), &|event| match event {
        Event::Progress(_) if start.elapsed() > crate::peers::MINUTE => {
            options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Event::Note(text) | Event::Warning(text) => said.lock().unwrap().push(text),
        _ => {}
    });
    ended.unwrap_or_else(|why| panic!("{row}: {why}: {said:?}"));
    assert!(start.elapsed() < crate::peers::MINUTE, "{row}: {said:#?}");
    asked.lock().unwrap().clone()
}

/// The chain is whole, and the set right.
fn ends_whole(disk: &SimDisk, known: &Known, row: &str) {
    let info = jobs::info(&options(disk, false)).unwrap();
    let tip = hash_of(&known.blocks[TIP]);
    assert_eq!((info.height.to_usize(), info.best, set_of(disk)), (TIP, tip, known.set.clone()), "{row}");
    jobs::verify(&options(disk, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
}

fn run(seed: u64, known: &Known) {
    let mut random = Rng::new(seed);
    let (disk, spoilt) = spoilt(known, &mut random);
    let there = Kept::new(&disk, known).heights();
    let mut missing: Vec<usize> = (0..known.blocks.len()).filter(|height| !there.contains(height)).collect();
    missing.retain(|_| random.one_in(2));
    let foreign: Vec<Vec<u8>> = missing.iter().map(|&height| known.blocks[height].clone()).collect();
    put(&disk, Path::new(FOREIGN), &file(&foreign));
    let mut row = format!("SEED={seed} cargo test -p ffwd-node --test it gaps: {spoilt}");
    let steps = (0..3).map(|_| random.below(4)).chain([0, 4]).collect::<Vec<_>>();
    for step in steps {
        let kept = Kept::new(&disk, known);
        let mut asked = BTreeSet::new();
        match step {
            0 => {
                row += "; reindex";
                jobs::reindex(&options(&disk, random.one_in(2)), false, &|_| ())
                    .unwrap_or_else(|why| panic!("{row}: {why}"));
            }
            1 => {
                row += "; import";
                jobs::import(&options(&disk, false), &[FOREIGN.into()], &|_| ())
                    .unwrap_or_else(|why| panic!("{row}: {why}"));
            }
            2 | 3 => {
                let height = 1 + random.below(TIP - 1) as u32;
                row += &format!("; sync to {height}");
                asked = sync(&disk, known, Until::Stop(height), &row);
            }
            _ => {
                row += "; sync to the end";
                asked = sync(&disk, known, Until::Tip, &row);
            }
        }
        kept.check(&disk, known, &row);
        let again: Vec<usize> = asked.intersection(&kept.heights()).copied().collect();
        assert!(again.is_empty(), "{row}: asked for again: {again:?}");
        check_where_core_appends(&disk, known, &row);
    }
    ends_whole(&disk, known, &row);
}

#[test]
fn gaps_and_damage_in_any_order_of_jobs_lose_nothing() {
    let known = Known::new();
    for seed in testkit::seeds(if testkit::is_slow() { 500 } else { 5 }) {
        run(seed, &known);
    }
}
