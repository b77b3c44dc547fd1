//! The chainstate: commits, look-ups, iteration, formats, and the swap of a rebuilt one.

use disk::{Disk, Fault as Accident, Kind, Loss, SimDisk};
use leveldb::{Db, Options};
use primitives::{BlockHash, CoinKey, OutPoint, Txid, hex};
use std::path::Path;
use std::sync::Arc;
use store::chainstate::{HeadBlocks, Rebuilt, finish_swap, rebuilt, swap_rebuilt};
use store::{Chainstate, FaultKind, Layout};

const KEY: [u8; 8] = *b"abcdefgh";

fn dir() -> &'static Path {
    Path::new("/d/chainstate")
}

/// Outpoints in the order of their keys.
fn outpoints(count: u32) -> Vec<OutPoint> {
    let hash = |i: u32| Txid::from_bytes(kernels::sha256::sha256(&i.to_le_bytes()));
    let mut all: Vec<OutPoint> = (0..count).map(|i| OutPoint { txid: hash(i / 3), vout: i % 3 * 16_500 }).collect();
    all.sort_by_key(key);
    all
}

fn key(outpoint: &OutPoint) -> Vec<u8> {
    CoinKey::new(outpoint).as_bytes().to_vec()
}

/// Commits these coins in `parts` parts; an empty value deletes.
fn commit(chainstate: &Chainstate, best: BlockHash, coins: &[(OutPoint, Vec<u8>)], parts: usize) {
    let commit = chainstate.begin_commit(best, coins.len() as u64, 100 * coins.len() as u64).unwrap().unwrap();
    std::thread::scope(|scope| {
        for (i, share) in coins.chunks(coins.len().div_ceil(parts).max(1)).enumerate() {
            let mut part = if i == 0 { commit.first_part().unwrap() } else { commit.part() };
            scope.spawn(move || {
                for (outpoint, value) in share {
                    match value.is_empty() {
                        true => part.delete(&key(outpoint)).unwrap(),
                        false => part.put(&key(outpoint), value).unwrap(),
                    }
                }
                part.finish().unwrap();
            });
        }
    });
    commit.finish().unwrap();
}

fn all_coins(chainstate: &Chainstate) -> Vec<(OutPoint, Vec<u8>)> {
    let mut coins = chainstate.view().coins().unwrap();
    let mut all = Vec::new();
    while let Some((outpoint, value)) = coins.next_coin().unwrap() {
        all.push((outpoint, value.to_vec()));
    }
    all
}

#[test]
fn commit_adds_and_removes_coins() {
    let sim = SimDisk::new(0);
    let chainstate = Chainstate::open_with(sim.shared(), dir(), KEY).unwrap();
    assert_eq!((chainstate.best_block().unwrap(), chainstate.head_blocks().unwrap()), (None, None));
    let outpoints = outpoints(3000);
    let value = |i: usize, round: u8| vec![round; 1 + i % 40];
    let mut want: Vec<(OutPoint, Vec<u8>)> = outpoints.iter().enumerate().map(|(i, o)| (*o, value(i, 1))).collect();
    commit(&chainstate, BlockHash::from_bytes([1; 32]), &want, 4);
    assert_eq!(all_coins(&chainstate), want);
    let old_view = chainstate.view();
    // Every third goes, every fifth is written again.
    let changes: Vec<(OutPoint, Vec<u8>)> = (0..want.len())
        .filter(|i| i % 3 == 0 || i % 5 == 0)
        .map(|i| (want[i].0, if i % 3 == 0 { Vec::new() } else { value(i, 2) }))
        .collect();
    commit(&chainstate, BlockHash::from_bytes([2; 32]), &changes, 3);
    let mut i = 0;
    want.retain_mut(|(_, stored)| {
        i += 1;
        if (i - 1) % 5 == 0 {
            *stored = value(i - 1, 2);
        }
        (i - 1) % 3 != 0
    });
    for reopened in [false, true] {
        let chainstate =
            if reopened { Chainstate::open_read_only(sim.shared(), dir()).unwrap() } else { chainstate.clone() };
        assert_eq!(chainstate.key(), KEY);
        assert_eq!(chainstate.best_block().unwrap(), Some(BlockHash::from_bytes([2; 32])));
        assert_eq!(all_coins(&chainstate), want, "reopened: {reopened}");
        let view = chainstate.view();
        let keys: Vec<CoinKey> = outpoints.iter().map(CoinKey::new).collect();
        let mut found = vec![None; keys.len()];
        view.look_up(&keys, |at, value| found[at] = value.map(<[u8]>::to_vec)).unwrap();
        for (outpoint, batch) in outpoints.iter().zip(&found) {
            let want = want.iter().find(|(o, _)| o == outpoint).map(|(_, value)| value);
            assert_eq!(view.get(outpoint).unwrap().as_ref(), want);
            assert_eq!(batch.as_ref(), want);
        }
        let absent: Vec<CoinKey> =
            keys.iter().zip(&found).filter(|(_, coin)| coin.is_none()).map(|(key, _)| *key).collect();
        assert!(!absent.is_empty() && !view.has_any(&absent).unwrap() && !view.has_any(&[]).unwrap());
        assert!(keys.iter().zip(&found).all(|(key, coin)| view.has_any(&[*key]).unwrap() == coin.is_some()));
        let shares = [(0, 0), (1, 100), (101, 254), (255, 255)];
        let mut shared = Vec::new();
        for (first, last) in shares {
            let mut coins = view.coins_between(first << 8, last << 8 | 255).unwrap();
            while let Some((outpoint, value)) = coins.next_coin().unwrap() {
                assert!((first..=last).contains(&u16::from(outpoint.txid.as_bytes()[0])));
                shared.push((outpoint, value.to_vec()));
            }
        }
        assert_eq!(shared, want, "the shares together are everything");
        assert!(view.run_count() >= 1 && view.table_bytes() > 10_000);
    }
    assert_eq!(old_view.get(&outpoints[0]).unwrap(), Some(value(0, 1)), "a view never changes");
    chainstate.settle().unwrap();
    let compaction = chainstate.plan_full_compaction().unwrap();
    if let Some(compaction) = compaction {
        while compaction.step().unwrap() {}
        compaction.finish().unwrap();
    }
    assert_eq!(all_coins(&chainstate), want);
}

/// The stored bytes are Core's: key record, obfuscated values.
#[test]
fn chainstate_records_have_cores_bytes() {
    let sim = SimDisk::new(0);
    let chainstate = Chainstate::open_with(sim.shared(), dir(), KEY).unwrap();
    let outpoint =
        OutPoint { txid: Txid::literal("0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098"), vout: 0 };
    let coin = hex::decode("03320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52").unwrap();
    commit(&chainstate, BlockHash::from_bytes([9; 32]), &[(outpoint, coin.clone())], 1);
    drop(chainstate);
    let db = Db::open(sim.shared(), dir(), Options::default()).unwrap();
    let mut records = db.iter().unwrap();
    let mut all = Vec::new();
    while let Some((key, value)) = records.next_record().unwrap() {
        all.push((hex::encode(key), value.to_vec()));
    }
    let plain = |value: &[u8]| {
        let mut value = value.to_vec();
        kernels::xor::xor(&mut value, KEY, 0);
        value
    };
    assert_eq!(all.len(), 3);
    assert_eq!(all[0], ("0e006f62667573636174655f6b6579".to_owned(), [&[8], &KEY[..]].concat()));
    assert_eq!((&all[1].0[..], plain(&all[1].1)), ("42", vec![9; 32]));
    assert_eq!(all[2].0, "43982051fd1e4ba744bbbe680e1fee14677ba1a3c3540bf7b1cdb606e857233e0e00");
    assert_eq!(plain(&all[2].1), coin);
}

#[test]
fn malformed_chainstate_records_are_named() {
    let heads = [&[2][..], &[1; 32], &[2; 32]].concat();
    let first = [&[2][..], &[1; 32], &[0; 32]].concat();
    type Got = (Option<BlockHash>, Option<HeadBlocks>);
    type Row<'a> = (&'static str, &'a [(&'a [u8], &'a [u8])], Result<Got, &'static str>);
    let new = BlockHash::from_bytes([1; 32]);
    let rows: [Row<'_>; 9] = [
        ("empty", &[], Ok((None, None))),
        ("best block", &[(b"B", &[1; 32])], Ok((Some(new), None))),
        ("best block of zeros", &[(b"B", &[0; 32])], Ok((None, None))),
        (
            "half-way",
            &[(b"H", &heads)],
            Ok((None, Some(HeadBlocks { new, old: Some(BlockHash::from_bytes([2; 32])) }))),
        ),
        ("half-way of the first flush", &[(b"H", &first)], Ok((None, Some(HeadBlocks { new, old: None })))),
        ("a short best block", &[(b"B", &[1; 31])], Err("a hash of 32 bytes")),
        ("short heads", &[(b"H", &heads[..64])], Err("two hashes")),
        (
            "an old format",
            &[(b"c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", b"x")],
            Err("Unsupported chainstate"),
        ),
        ("a key of the future", &[(b"z", b"x")], Err("Unsupported chainstate")),
    ];
    for (row, records, want) in rows {
        for obfuscated in [false, true] {
            let sim = SimDisk::new(0);
            let db = Db::create(sim.shared(), dir(), Options::default()).unwrap();
            if obfuscated {
                db.write(&[(&b"\x0e\0obfuscate_key"[..], Some([&[8], &KEY[..]].concat()))]).unwrap();
            }
            for (key, value) in records {
                let mut value = value.to_vec();
                kernels::xor::xor(&mut value, if obfuscated { KEY } else { [0; 8] }, 0);
                db.write(&[(key, Some(value))]).unwrap();
            }
            drop(db);
            let got = Chainstate::open_with(sim.shared(), dir(), *b"12345678")
                .and_then(|chainstate| Ok((chainstate.best_block()?, chainstate.head_blocks()?)));
            match (got, want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{row}"),
                (Err(why), Err(text)) => assert!(why.to_string().contains(text), "{row}: {why}"),
                (got, want) => panic!("{row}: {got:?}, want {want:?}"),
            }
        }
    }
}

#[test]
fn commit_removes_cores_head_blocks_marker() {
    let sim = SimDisk::new(0);
    let db = Db::create(sim.shared(), dir(), Options::default()).unwrap();
    db.write(&[(b"H", Some([&[2][..], &[1; 32], &[2; 32]].concat()))]).unwrap();
    drop(db);
    let chainstate = Chainstate::open_with(sim.shared(), dir(), KEY).unwrap();
    assert_eq!(chainstate.key(), [0; 8], "a database with records and no key stays plain");
    commit(&chainstate, BlockHash::from_bytes([1; 32]), &[], 1);
    assert_eq!(chainstate.best_block().unwrap(), Some(BlockHash::from_bytes([1; 32])));
    assert_eq!(chainstate.head_blocks().unwrap(), None);
}

#[test]
fn new_chainstate_gets_a_random_key() {
    let sim = SimDisk::new(0);
    let key = Chainstate::open(sim.shared(), dir()).unwrap().key();
    assert_ne!(key, [0; 8]);
    assert_eq!(Chainstate::open(sim.shared(), dir()).unwrap().key(), key);
    sim.shared().remove_file(&dir().join("CURRENT")).unwrap();
    let why = Chainstate::open(sim.shared(), dir()).unwrap_err();
    assert!(why.kind() == FaultKind::Damaged && why.to_string().contains("CURRENT"), "never a silent reset: {why}");
}

/// A rebuilt chainstate takes the old one's place at any crash: always one of the two is in place, and the next start
/// ends what was begun.
#[test]
fn chainstate_swap_survives_a_stop_at_any_operation() {
    let layout = Layout::new(Path::new("/d"), "", None);
    let coin = |n: u8| (OutPoint { txid: Txid::from_bytes([n; 32]), vout: 0 }, vec![n]);
    let make = |disk: Arc<dyn Disk>, dir: &Path, n: u8| {
        let chainstate = Chainstate::open_with(disk, dir, KEY).unwrap();
        commit(&chainstate, BlockHash::from_bytes([n; 32]), &[coin(n)], 1);
    };
    /// What the file system is, and whether there are old coins.
    type Scene = (&'static str, bool, fn(&SimDisk));
    let scenes: [Scene; 8] = [
        ("with a swap in one step", true, |_| ()),
        ("without old coins", false, |_| ()),
        ("without a swap in one step", true, |sim| sim.be(Kind::NoExchange)),
        ("a mount point", true, |sim| sim.mount(Path::new("/d/chainstate"))),
        ("a mount point, and names that stay while files are open", true, |sim| {
            sim.mount(Path::new("/d/chainstate"));
            sim.be(Kind::FuseNames);
        }),
        ("a lower layer", true, |sim| sim.be(Kind::Overlay)),
        ("FUSE", true, |sim| [Kind::NoExchange, Kind::FuseNames].into_iter().for_each(|kind| sim.be(kind))),
        ("NFS", true, |sim| [Kind::NoExchange, Kind::NfsNames].into_iter().for_each(|kind| sim.be(kind))),
    ];
    for (scene, old_is_there, be) in scenes {
        for at in 0.. {
            let sim = SimDisk::new(at);
            let disk = sim.shared();
            layout.create(&*disk).unwrap();
            disk.sync_dir(Path::new("/")).unwrap();
            if old_is_there {
                make(disk.clone(), &layout.chainstate_dir(), 1);
            }
            be(&sim);
            assert_eq!(rebuilt(&disk, &layout).unwrap(), Rebuilt::Absent);
            make(disk.clone(), &layout.rebuilt_chainstate_dir(), 2);
            assert_eq!(rebuilt(&disk, &layout).unwrap(), Rebuilt::Started);
            sim.fail_at(sim.operations() + at, 1, Accident::Stop);
            // As the job does: nobody uses the old coins until the new ones are in their place.
            let lock = old_is_there.then(|| disk.lock(&layout.chainstate_dir().join("LOCK")).unwrap());
            let result = swap_rebuilt(&disk, &layout);
            drop(lock);
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                let disk = sim.reopen(loss).shared();
                if old_is_there {
                    let found = Chainstate::open_read_only(disk.clone(), &layout.chainstate_dir()).unwrap();
                    let best = found.best_block().unwrap().unwrap().as_bytes()[0];
                    assert!(
                        best == 2 || (best == 1 && result.is_err()),
                        "{scene}, stopped at {at}: before anything is mended"
                    );
                }
                finish_swap(&disk, &layout).unwrap();
                finish_swap(&disk, &layout).unwrap();
                let in_place = Chainstate::exists(&*disk, &layout.chainstate_dir()).unwrap().then(|| {
                    let chainstate = Chainstate::open_with(disk.clone(), &layout.chainstate_dir(), KEY).unwrap();
                    assert_eq!(all_coins(&chainstate).len(), 1);
                    chainstate.best_block().unwrap().unwrap().as_bytes()[0]
                });
                let row = format!("{scene}, stopped at {at}, {loss:?}: {in_place:?}");
                match in_place {
                    Some(2) => {
                        let left = disk.list(&layout.private_dir()).unwrap();
                        assert!(left.is_empty(), "{row}: {left:?}");
                        assert_eq!(rebuilt(&disk, &layout).unwrap(), Rebuilt::Absent, "{row}");
                    }
                    Some(1) => {
                        assert!(result.is_err() && rebuilt(&disk, &layout).unwrap() == Rebuilt::Started, "{row}")
                    }
                    None => assert!(result.is_err() && !old_is_there, "{row}"),
                    Some(_) => panic!("{row}"),
                }
            }
            if result.is_ok() {
                break;
            }
            assert!(at < 150, "{scene}: a swap has fewer than 150 operations");
        }
    }
}

#[test]
fn rebuild_is_refused_where_its_end_could_not_be() {
    let layout = Layout::new(Path::new("/d"), "", None);
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    layout.create(&*disk).unwrap();
    drop(Chainstate::open_with(disk.clone(), &layout.chainstate_dir(), KEY).unwrap());
    sim.mount(&layout.chainstate_dir());
    sim.set_free_bytes(10_000_000);
    let why = rebuilt(&disk, &layout).unwrap_err();
    assert_eq!(why.kind(), FaultKind::Refused);
    assert!(why.to_string().contains("mount point") && why.to_string().contains("found 10000000"), "{why}");
    assert!(!Chainstate::exists(&*disk, &layout.rebuilt_chainstate_dir()).unwrap(), "nothing was begun");
    sim.set_free_bytes(100_000_000);
    assert_eq!(rebuilt(&disk, &layout).unwrap(), Rebuilt::Absent);

    // The real disk alone has links.
    let dir = tempfile::tempdir().unwrap();
    let (disk, layout) = (disk::RealDisk::shared(), Layout::new(dir.path(), "", None));
    layout.create(&*disk).unwrap();
    std::os::unix::fs::symlink("/not/there", layout.chainstate_dir()).unwrap();
    let why = rebuilt(&disk, &layout).unwrap_err();
    assert!(why.kind() == FaultKind::Refused && why.to_string().contains("a link that leads nowhere"), "{why}");
    // One that leads somewhere stays a link.
    let other = tempfile::tempdir().unwrap();
    std::fs::remove_file(layout.chainstate_dir()).unwrap();
    std::os::unix::fs::symlink(other.path(), layout.chainstate_dir()).unwrap();
    for (place, best) in [(layout.chainstate_dir(), 1), (layout.rebuilt_chainstate_dir(), 2)] {
        if best == 2 {
            assert_eq!(rebuilt(&disk, &layout).unwrap(), Rebuilt::Absent);
        }
        let chainstate = Chainstate::open_with(disk.clone(), &place, KEY).unwrap();
        commit(&chainstate, BlockHash::from_bytes([best; 32]), &[], 1);
    }
    swap_rebuilt(&disk, &layout).unwrap();
    assert!(std::fs::symlink_metadata(layout.chainstate_dir()).unwrap().is_symlink());
    let best = Chainstate::open_read_only(disk.clone(), other.path()).unwrap().best_block().unwrap();
    assert_eq!(best, Some(BlockHash::from_bytes([2; 32])));
}
