//! Every job on file systems that do some things otherwise: mount points, overlayfs, FUSE, NFS, no fsync of directories. Each ends
//! with the right set, or, where nothing could work, is refused before its work. On real ones: `crates/ffwd/tests/it/file_systems.rs`.

use crate::chain::{chain, file, hash_of, id, put};
use crate::data_directory::{DATADIR, options};
use crate::existing::{damage, layout};
use crate::{doctor, hints, snapshot_sync};
use disk::{Disk, Fault as Accident, Kind, SimDisk};
use node::jobs::{self, BlockId, DumpOut, DumpTarget};
use node::options::{IndexKind, Options, Prune};
use node::reporting::Event;
use node::utxo_stats::SetHash;
use primitives::{Hash256, Height, OutPoint};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use store::indexes::IndexDb;

const BLOCKS: u32 = 110;

type Scene = (&'static str, fn(&SimDisk));

/// What a data directory can lie on; can be told again, of what is there by then.
const SCENES: [Scene; 6] = [
    ("no fsync of directories", |disk| disk.be(Kind::NoDirectorySync)),
    ("no exchange of names", |disk| disk.be(Kind::NoExchange)),
    ("FUSE", |disk| [Kind::NoExchange, Kind::FuseNames].into_iter().for_each(|kind| disk.be(kind))),
    ("NFS", |disk| [Kind::NoExchange, Kind::NfsNames].into_iter().for_each(|kind| disk.be(kind))),
    ("mount points", |disk| {
        for dir in [
            layout().blocks_dir().to_path_buf(),
            layout().index_dir(),
            layout().chainstate_dir(),
            layout().indexes_dir(),
        ] {
            disk.create_dir_all(&dir).unwrap();
            disk.mount(&dir);
        }
    }),
    ("overlayfs", |disk| disk.be(Kind::Overlay)),
];

fn with_indexes(disk: &SimDisk) -> Options {
    Options { indexes: IndexKind::ALL.to_vec(), ..options(disk, false) }
}

fn set(disk: &SimDisk) -> (u32, Hash256) {
    let set = jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap();
    (set.height.to_u32(), set.hash.unwrap().1)
}

fn raw(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(blocks));
    disk.create_dir_all(Path::new("/out")).unwrap();
    disk
}

/// No file is left that only an open one needs, and nothing of a swap.
fn is_clean(disk: &SimDisk, row: &str) {
    for dir in
        [layout().net_dir().to_path_buf(), layout().chainstate_dir(), layout().index_dir(), layout().private_dir()]
    {
        if disk.metadata(&dir).unwrap().is_none() {
            continue;
        }
        for entry in disk.list(&dir).unwrap() {
            let name = entry.name.to_string_lossy();
            let is_left = disk::is_still_open(&entry.name) || name.contains("install") || name.ends_with(".old");
            let is_half = dir == layout().private_dir() && entry.is_dir;
            assert!(!is_left && !is_half, "{row}: {}: {name}", dir.display());
        }
    }
}

#[test]
fn every_job_on_block_files_ends_as_elsewhere() {
    let blocks = chain(BLOCKS);
    let plain = raw(&blocks);
    jobs::reindex(&options(&plain, false), false, &|_| ()).unwrap();
    let want = set(&plain);
    for (scene, be) in SCENES {
        let disk = raw(&blocks);
        be(&disk);
        let reindex = |chainstate_only: bool, row: &str| {
            let row = format!("{scene}, {row}");
            let report = jobs::reindex(&with_indexes(&disk), chainstate_only, &|_| ());
            let report = report.unwrap_or_else(|why| panic!("{row}: {why}"));
            assert_eq!((report.height.to_u32(), set(&disk)), want_of(&want), "{row}");
            is_clean(&disk, &row);
        };
        reindex(false, "a first reindex");
        reindex(true, "a rebuild");
        be(&disk);
        reindex(true, "a rebuild of what lies there");
        reindex(false, "a reindex of what lies there");
        be(&disk);
        damage(&disk, &layout().index_dir());
        reindex(false, "a damaged index");
        be(&disk);
        let report = jobs::import(&with_indexes(&disk), &[], &|_| ()).unwrap_or_else(|why| panic!("{scene}: {why}"));
        assert_eq!(report.height.to_u32(), BLOCKS, "{scene}");
        look(&disk, &blocks, scene);
        IndexDb::remove(&disk, &layout(), IndexKind::Tx).unwrap_or_else(|why| panic!("{scene}: {why}"));
        jobs::index(&options(&disk, false), &[IndexKind::Tx], &|_| ()).unwrap_or_else(|why| panic!("{scene}: {why}"));
    }
}

/// Index and UTXO set are damaged, and a block file is lost: all is made again, also where nothing can be moved away.
#[test]
fn a_repair_makes_all_again() {
    let known = doctor::Known::new();
    let scenes = SCENES.into_iter().chain([
        ("blocks on another drive", (|disk| disk.mount(layout().blocks_dir())) as fn(&SimDisk)),
        ("chainstate on another drive", |disk| disk.mount(&layout().chainstate_dir())),
    ]);
    for (scene, be) in scenes {
        let disk = known.whole();
        be(&disk);
        for dir in [layout().index_dir(), layout().chainstate_dir()] {
            damage(&disk, &dir);
        }
        disk.remove_file(&doctor::block_file(3, "blk")).unwrap();
        let (sync, asked) = doctor::peer(&known);
        let report = jobs::repair(&doctor::options(&disk), &sync, &|_| ());
        let report = report.unwrap_or_else(|why| panic!("{scene}: {why}"));
        assert!(report.done.iter().any(|step| step.contains("are made again")), "{scene}: {report:?}");
        assert_eq!(asked.lock().unwrap().len(), doctor::PER_FILE, "{scene}");
        doctor::check_whole(&disk, &known, scene);
    }
}

fn want_of(want: &(u32, Hash256)) -> (u32, (u32, Hash256)) {
    (BLOCKS, *want)
}

/// All that only reads, with its right answers.
fn look(disk: &SimDisk, blocks: &[Vec<u8>], row: &str) {
    let options = options(disk, false);
    let info = jobs::info(&options).unwrap_or_else(|why| panic!("{row}: {why}"));
    assert_eq!((info.height.to_u32(), info.headers.to_u32(), info.in_use.is_none()), (BLOCKS, BLOCKS, true), "{row}");
    let verified = jobs::verify(&options, 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    assert_eq!((verified.blocks, verified.level), (BLOCKS, 4), "{row}");
    let tip = &blocks[BLOCKS as usize];
    let (coinbase, height) = (id(&blocks[1][81..]), Height::new(BLOCKS));
    let found = jobs::tx(&options, coinbase, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    assert_eq!((found.block, found.confirmations), (hash_of(&blocks[1]), BLOCKS), "{row}");
    let filter = jobs::filter(&options, &BlockId::Height(height), &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    assert_eq!(filter.block, hash_of(tip), "{row}");
    let spent = jobs::spender(&options, OutPoint { txid: coinbase, vout: 0 }, &|_| ());
    assert!(spent.unwrap_or_else(|why| panic!("{row}: {why}")).spent_by.is_some(), "{row}");
    let at = jobs::set_info_at(&options, &BlockId::Hash(hash_of(tip)), &|_| ());
    assert_eq!(at.unwrap_or_else(|why| panic!("{row}: {why}")).height, height, "{row}");
    for target in [DumpTarget::Tip, DumpTarget::Height(Height::new(105))] {
        jobs::dump(&options, target, DumpOut::Stream(&mut Vec::new()), &|_| ())
            .unwrap_or_else(|why| panic!("{row}: {why}"));
    }
}

/// Nothing is written, and nothing needs to be: each operation that changes something fails.
#[test]
fn looking_needs_no_right_to_write() {
    let blocks = chain(BLOCKS);
    let disk = raw(&blocks);
    jobs::reindex(&with_indexes(&disk), false, &|_| ()).unwrap();
    disk.fail_at(disk.operations(), u64::MAX, Accident::ReadOnly);
    let before = disk.operations();
    let options = options(&disk, false);
    let info = jobs::info(&options).unwrap();
    assert_eq!(info.height.to_u32(), BLOCKS);
    jobs::verify(&options, 4, 0, &|_| ()).unwrap();
    jobs::set_info(&options, SetHash::Serialized, &|_| ()).unwrap();
    jobs::tx(&options, id(&blocks[1][81..]), &|_| ()).unwrap();
    jobs::filter(&options, &BlockId::Height(Height::new(5)), &|_| ()).unwrap();
    jobs::spender(&options, OutPoint { txid: id(&blocks[1][81..]), vout: 0 }, &|_| ()).unwrap();
    jobs::set_info_at(&options, &BlockId::Height(Height::new(5)), &|_| ()).unwrap();
    jobs::dump(&options, DumpTarget::Tip, DumpOut::Stream(&mut Vec::new()), &|_| ()).unwrap();
    assert_eq!(disk.operations(), before, "nothing was even tried");
    // Nothing there is no reason to make something either.
    let empty = SimDisk::new(0);
    empty.create_dir_all(Path::new(DATADIR)).unwrap();
    let before = empty.operations();
    assert!(jobs::verify(&crate::data_directory::options(&empty, false), 4, 0, &|_| ()).is_err());
    jobs::info(&crate::data_directory::options(&empty, false)).unwrap();
    assert_eq!(empty.operations(), before);
}

/// To the tip on a snapshot, and its past; stopped in between, where the directories are old ones.
#[test]
fn snapshot_takes_its_place_at_the_end() {
    let world = snapshot_sync::World::new();
    let peer = world.peer();
    // Each takes its seconds.
    let chosen = |scene: &&Scene| testkit::is_slow() || ["NFS", "mount points", "overlayfs"].contains(&scene.0);
    for (scene, be) in SCENES.iter().filter(chosen) {
        let disk = world.fresh(&world.snapshot);
        be(&disk);
        let go = |stops: bool| {
            let at = |text: &str| stops && text.contains("Validating the past");
            snapshot_sync::sync(&disk, &peer, Some(world.hash), options(&disk, false), at)
        };
        let (report, said) = go(true);
        assert!(report.unwrap_or_else(|why| panic!("{scene}: {why}")).stopped, "{scene}: {said:#?}");
        be(&disk);
        let (report, said) = go(false);
        report.unwrap_or_else(|why| panic!("{scene}: {why}: {said:#?}"));
        world.is_whole(&disk, scene);
        is_clean(&disk, scene);
    }
}

#[test]
fn set_made_with_hints_takes_its_place_at_the_end() {
    let world = hints::World::new();
    let peer = world.peer();
    for (scene, be) in SCENES {
        let disk = world.fresh(&world.hints);
        be(&disk);
        // The empty chainstate is there by then.
        let (report, said) = hints::sync(&world.options(&disk), &peer, |text| text.contains("no coin is looked up"));
        assert!(report.unwrap_or_else(|why| panic!("{scene}: {why}")).stopped, "{scene}: {said:#?}");
        be(&disk);
        let (report, said) = hints::sync(&world.options(&disk), &peer, |_| false);
        report.unwrap_or_else(|why| panic!("{scene}: {why}: {said:#?}"));
        world.is_whole(&disk, Some(true), scene);
        is_clean(&disk, scene);
    }
}

/// As in bitcoind and LevelDB; with words for what is missing, before anything is made.
#[test]
fn a_file_system_without_locks_or_maps_is_refused_before_the_work() {
    let blocks = chain(BLOCKS);
    for (kind, words) in [(Kind::NoLocks, "no file locks"), (Kind::NoMaps, "cannot map files")] {
        let jobs: [(&str, fn(&Options) -> Result<(), node::Fault>); 3] = [
            ("reindex", |options| jobs::reindex(options, false, &|_| ()).map(drop)),
            ("rebuild", |options| jobs::reindex(options, true, &|_| ()).map(drop)),
            ("import", |options| jobs::import(options, &[PathBuf::from("/foreign.dat")], &|_| ()).map(drop)),
        ];
        for (name, job) in jobs {
            for is_whole in [false, true] {
                let row = format!("{name}, {words}, whole {is_whole}");
                let disk = raw(&blocks);
                put(&disk, Path::new("/foreign.dat"), &file(&blocks));
                if is_whole {
                    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
                }
                disk.be(kind);
                let why = job(&options(&disk, false)).unwrap_err().to_string();
                if name != "rebuild" || is_whole {
                    assert!(why.contains(words) && why.contains("another file system"), "{row}: {why}");
                }
                let has_coins = disk.metadata(&layout().chainstate_dir().join("CURRENT")).unwrap().is_some();
                assert_eq!(has_coins, is_whole, "{row}: {why}");
            }
        }
    }
}

#[test]
fn what_a_file_system_lacks_is_said_once() {
    let disk = raw(&chain(3));
    assert_eq!(jobs::file_system_warning(&options(&disk, false)), None);
    disk.be(Kind::NoDirectorySync);
    let why = jobs::file_system_warning(&options(&disk, false)).unwrap().to_string();
    assert!(why.contains("takes no fsync of a directory") && why.contains("ffwd verify"), "{why}");
    // The jobs themselves say nothing of it.
    let said = Mutex::new(Vec::new());
    let events = |event: Event| {
        if let Event::Warning(text) = event {
            said.lock().unwrap().push(text);
        }
    };
    let pruned = Options { prune: Prune::Manual, ..options(&disk, false) };
    jobs::reindex(&pruned, false, &events).unwrap();
    assert_eq!(*said.lock().unwrap(), Vec::<String>::new());
}
