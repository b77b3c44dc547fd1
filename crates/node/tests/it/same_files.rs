//! The same block files give the same undo files and the same index records, whatever the workers, the cache, the commits;
//! in another order they give the same best block and the same set.

use crate::chain::{file, put};
use crate::data_directory::{DATADIR, options};
use crate::schedule::story;
use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use node::datadir::lock::network;
use node::jobs;
use node::options::Options;
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Hash256};
use std::path::{Path, PathBuf};
use store::Layout;
use store::index::BlockTreeDb;
use testkit::Rng;

/// Everything that must be the same: block by block what the index says, its file infos, the undo files, the set.
#[derive(PartialEq)]
struct End {
    index: String,
    undo: Vec<(PathBuf, Vec<u8>)>,
    best: BlockHash,
    set: Hash256,
    refused: u64,
}

fn run(blocks: &[u8], random: &mut Rng) -> End {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), blocks);
    let options = Options {
        dbcache_bytes: [4 << 20, 64 << 20][random.below(2)],
        par: 1 + random.below(8),
        ..options(&disk, random.below(2) == 0)
    };
    let report = jobs::reindex(&options, false, &|_| ()).unwrap();
    let net = network(&options.params);
    let layout = Layout::new(&options.datadir, net.directory, None);
    let index = BlockTreeDb::open_read_only(disk.shared(), &layout).unwrap().load(&net).unwrap();
    let entries = disk.list(&Path::new(DATADIR).join("regtest/blocks")).unwrap();
    let mut undo: Vec<(PathBuf, Vec<u8>)> = entries
        .iter()
        .filter(|entry| entry.name.to_str().is_some_and(|name| name.starts_with("rev")))
        .map(|entry| {
            let path = Path::new(DATADIR).join("regtest/blocks").join(&entry.name);
            let bytes = disk.open(&path).unwrap().bytes().unwrap().to_vec();
            (path, bytes)
        })
        .collect();
    undo.sort();
    let set = jobs::set_info(&options, SetHash::Serialized, &|_| ()).unwrap();
    End {
        index: format!("{:?}\n{:?}", index.entries, index.files),
        undo,
        best: report.best,
        set: set.hash.unwrap().1,
        refused: report.blocks_invalid,
    }
}

#[test]
fn files_are_the_same_with_any_workers_and_cache() {
    let seeds = if testkit::is_slow() { 200 } else { 5 };
    let mut refused = 0;
    for seed in 1000..1000 + seeds {
        let mut random = Rng::new(seed);
        let story = story(&mut random);
        let mut blocks: Vec<Vec<u8>> = story.groups.concat();
        let mut shuffled = || {
            for at in (1..blocks.len()).rev() {
                blocks.swap(at, random.below(at + 1));
            }
            file(&[&[Params::new(Chain::Regtest).genesis.to_vec()][..], &blocks].concat())
        };
        let (bytes, other_order) = (shuffled(), shuffled());
        let first = run(&bytes, &mut random);
        assert_eq!(first.best, story.end.tip, "seed {seed}");
        assert!(!first.undo.is_empty(), "seed {seed}");
        refused += first.refused;
        for _ in 0..4 {
            let other = run(&bytes, &mut random);
            assert_eq!(first.index, other.index, "seed {seed}");
            assert!(first == other, "seed {seed}: undo files or sets differ");
        }
        let other = run(&other_order, &mut random);
        assert_eq!((first.best, first.set), (other.best, other.set), "seed {seed}: another order in the files");
    }
    assert!(refused > 0, "some blocks are refused");
}
