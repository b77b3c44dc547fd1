//! Fixed scenarios, each for one behaviour. Each runs with several seeds, which vary the order of the pipeline's tasks.

use super::*;
use crate::reporting::{Event, Events, JobReport, Progress};
use crate::session::phases::{FromSnapshot, sync_with};
use disk::{Fault as Accident, Loss};
use std::ops::Range;
use store::Layout;

/// Seeds of each scenario.
const NUMBERS: Range<u64> = 0..4;

fn peer(chain: &[Vec<u8>], manner: Manner) -> Peer {
    Peer { chain: Arc::new(chain.to_vec()), manner, latency_ms: 20, rate: 1, loss_percent: 0, message: 2_000 }
}

fn honest(chain: &[Vec<u8>]) -> Peer {
    peer(chain, Manner::Honest)
}

fn empty() -> SimDisk {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(DATADIR)).unwrap();
    disk
}

fn layout() -> Layout {
    Layout::new(Path::new(DATADIR), "regtest", None)
}

/// The first blocks of the chain that all seeds share.
fn first(count: usize) -> &'static [Vec<u8>] {
    &scene().main.blocks[..=count]
}

/// Syncs to the peers' tip; returns the report and the events.
fn sync(options: &Options, alone: &mut Alone) -> (JobReport, Vec<Event>) {
    let said = Mutex::new(Vec::new());
    let from = FromSnapshot::default();
    let done = sync_with(options, &to_tip(), &from, alone, &|event| said.lock().unwrap().push(event));
    (done.unwrap(), said.into_inner().unwrap())
}

/// Syncs an empty disk from these peers.
fn sync_from(peers: Vec<Peer>, number: u64) -> JobReport {
    sync(&options(&empty()), &mut Alone::new(peers, &mut Rng::new(number))).0
}

/// An announced block was not delivered, and no peer has a shorter chain: that is not a success.
#[test]
fn a_sync_whose_only_peer_withholds_a_block_does_not_end_well() {
    for number in NUMBERS {
        let report = sync_from(vec![peer(first(30), Manner::Withholds(10))], number);
        assert_eq!((report.height.to_u32(), report.headers.to_u32(), report.undelivered.len()), (9, 30, 1));
        assert!(report.end_reason.is_some_and(|why| why.what().contains("no peer delivered them")));
    }
}

/// A peer without headers does not prevent the sync from an honest peer.
#[test]
fn a_sync_ends_despite_a_peer_without_headers() {
    for number in NUMBERS {
        let report = sync_from(vec![peer(first(0), Manner::HasNothing), honest(first(20))], number);
        assert_eq!((report.height.to_u32(), report.end_reason), (20, None));
    }
}

/// Progress and remaining work are reported while blocks arrive.
#[test]
fn progress_is_told_while_blocks_come() {
    let mut alone = Alone::new(vec![honest(first(100))], &mut Rng::new(0));
    alone.tells_every = 1;
    let (report, said) = sync(&options(&empty()), &mut alone);
    assert_eq!(report.height.to_u32(), 100);
    let told = said.into_iter().filter_map(|event| if let Event::Progress(told) = event { Some(*told) } else { None });
    let on_the_way: Vec<Progress> = told.filter(|told| told.bytes > 0 && told.height < Height::new(100)).collect();
    assert!(on_the_way.len() >= 2, "{on_the_way:#?}");
    assert!(on_the_way.windows(2).all(|two| two[0].height <= two[1].height));
    assert!(on_the_way[0].height < on_the_way[on_the_way.len() - 1].height);
    for told in &on_the_way {
        assert!(told.bytes < told.bytes_end && told.peers == Some(1), "{told:?}");
        assert_eq!((told.height_end.to_u32(), told.headers.to_u32(), told.presync), (100, 100, None));
    }
}

/// Damages a stored block, in its only transaction.
fn damage(disk: &SimDisk, block: &[u8]) {
    let blocks_dir = layout().blocks_dir().to_path_buf();
    let found = disk
        .list(&blocks_dir)
        .unwrap()
        .into_iter()
        .filter(|entry| entry.name.to_string_lossy().starts_with("blk"))
        .find_map(|entry| {
            let path = blocks_dir.join(entry.name);
            let stored = disk.open(&path).unwrap().bytes().unwrap().to_vec();
            let at = stored.windows(block.len()).position(|bytes| bytes == block)?;
            Some((path, at + block.len() - 10, stored[at + block.len() - 10]))
        });
    let (path, at, byte) = found.expect("it is stored");
    disk.modify(&path).unwrap().write_at(at as u64, &[byte ^ 1]).unwrap();
}

/// A body that is damaged on the disk after it was stored is fetched again.
#[test]
fn a_damaged_body_is_requested_again() {
    for number in NUMBERS {
        let disk = empty();
        let mut rng = Rng::new(number);
        // All blocks except the first arrive and are stored.
        let withholds = peer(first(40), Manner::Withholds(1));
        let mut alone = Alone { stop_ms: Some(9_000), ..Alone::new(vec![withholds], &mut rng) };
        let (report, _) = sync(&options(&disk), &mut alone);
        assert_eq!((report.height, report.stopped), (Height::GENESIS, true));
        let height = 2 + rng.below(39);
        damage(&disk, &first(40)[height]);
        let mut alone = Alone::new(vec![honest(first(40))], &mut rng);
        let (report, said) = sync(&options(&disk), &mut alone);
        assert_eq!((report.height.to_u32(), report.blocks_invalid), (40, 0));
        let refused: Vec<(usize, String)> = said
            .into_iter()
            .filter_map(|event| match event {
                Event::Refused { height, why, .. } => Some((height.to_usize(), why)),
                _ => None,
            })
            .collect();
        let [(at, why)] = &refused[..] else { panic!("once: {refused:?}") };
        assert!(*at == height && why.contains("this body only"), "{refused:?}");
    }
}

/// Headers of a longer chain are kept over a restart. The peer that announced them is disconnected, and the other peers
/// do not have their blocks.
#[test]
fn a_sync_reaches_the_honest_chain_where_better_headers_were_kept() {
    for number in NUMBERS {
        let disk = empty();
        let mut rng = Rng::new(number);
        let teller = peer(&scene().branch.blocks, Manner::Withholds(FORK + 1));
        let options = options(&disk);
        let low = Options { stop_at_height: Some(Height::from_index(FORK)), ..options.clone() };
        let (told, _) = sync(&low, &mut Alone::new(vec![teller], &mut rng));
        assert_eq!((told.height.to_usize(), told.headers.to_u32(), told.end_reason), (FORK, BRANCH, None));
        let mut alone = Alone::new(vec![honest(&scene().main.blocks)], &mut rng);
        let (report, _) = sync(&options, &mut alone);
        assert_eq!((report.height.to_u32(), report.headers.to_u32()), (BLOCKS, BRANCH));
        let why = report.end_reason.expect("the best header chain is not connected").to_string();
        assert!(why.contains(&BRANCH.to_string()) && why.contains("no connected peer gives its blocks"), "{why}");
        assert_eq!(set_of(&disk), (Height::new(BLOCKS), scene().main.set));
    }
}

/// The chain needs more than two runs of the pipeline, of 48 blocks each here.
#[test]
fn a_sync_of_a_chain_longer_than_one_run_ends_at_its_tip() {
    for number in NUMBERS {
        let disk = empty();
        let options = options(&disk);
        assert!(options.sizes.run_blocks_max * 2 < BLOCKS);
        let (report, _) = sync(&options, &mut Alone::new(vec![honest(&scene().main.blocks)], &mut Rng::new(number)));
        assert_eq!((report.height, report.end_reason), (Height::new(BLOCKS), None));
        assert_eq!(set_of(&disk), (Height::new(BLOCKS), scene().main.set));
    }
}

/// A full disk costs the sync its peer addresses, but does not stop it.
#[test]
fn a_sync_on_a_full_disk_does_not_wait_for_addresses() {
    let run = |disk: &SimDisk| {
        let alone = Alone::new(Vec::new(), &mut Rng::new(0));
        sync(&options(disk), &mut Alone { stop_ms: Some(0), addresses: peers_file(), ..alone }).1
    };
    let disk = empty();
    run(&disk);
    let from = disk.operations();
    let twin = disk.reopen(Loss::Nothing);
    let last = twin.operations() + {
        run(&disk);
        disk.operations() - from
    };
    // The file is made, written, synced and renamed, and its directory synced.
    let mut warned = 0;
    for back in 1..=6 {
        let full = twin.reopen(Loss::Nothing);
        full.fail_at(full.operations() + (last - twin.operations()) - back, 1, Accident::NoSpace);
        let said = run(&full);
        let is_said =
            |event: &Event| matches!(event, Event::Warning(text) if text.contains("The addresses of peers stay"));
        warned += usize::from(said.iter().any(is_said));
    }
    assert!(warned >= 4, "{warned}");
}

/// While the coins below a snapshot are hashed (a minute on mainnet), a new block is connected within 10 s.
#[test]
fn the_tip_is_followed_while_the_coins_below_a_snapshot_are_hashed() {
    for number in NUMBERS {
        let disk = empty();
        put(&disk, Path::new(SNAPSHOT), &scene().snapshot);
        let switch = Some((When::Hashing, scene().main.blocks.clone()));
        let alone = Alone::new(vec![honest(first(110))], &mut Rng::new(number));
        let mut alone = Alone { switch, hash_ms: 10_000, ..alone };
        let hash = Some(scene().snapshot_hash);
        let from = FromSnapshot { file: Some(SNAPSHOT.into()), hash, ..FromSnapshot::default() };
        let report = sync_with(&options(&disk), &to_tip(), &from, &mut alone, &|_| ()).unwrap();
        assert_eq!(alone.tips_of_hash, [Height::new(110), Height::new(BLOCKS)], "when it begins, and when it ends");
        assert_eq!(set_of(&disk), (report.height, scene().main.set));
    }
}

/// An empty disk with a false snapshot.
fn with_false_snapshot() -> SimDisk {
    let disk = empty();
    let mut snapshot = scene().snapshot.clone();
    let last = snapshot.len() - 1;
    // In the script of its last coin.
    snapshot[last] ^= 1;
    put(&disk, Path::new(SNAPSHOT), &snapshot);
    disk
}

/// A sync to block 110 with that snapshot, whose hash the user trusts.
fn sync_on_false_snapshot(disk: &SimDisk, events: Events<'_>) -> Result<JobReport, Fault> {
    let options = options(disk);
    let file = snapshot::file_info(disk, Path::new(SNAPSHOT), SetHash::Serialized, options.kernels).unwrap();
    let from = FromSnapshot {
        file: Some(SNAPSHOT.into()),
        hash: file.set.hash.map(|(_, hash)| hash),
        ..FromSnapshot::default()
    };
    let mut alone = Alone::new(vec![honest(first(110))], &mut Rng::new(0));
    sync_with(&options, &to_tip(), &from, &mut alone, events)
}

/// An invalid snapshot is detected at the same point.
#[test]
fn a_snapshot_with_another_hash_is_refused_after_its_past_is_hashed() {
    let disk = with_false_snapshot();
    let fault = sync_on_false_snapshot(&disk, &|_| ()).unwrap_err().to_string();
    assert!(fault.contains("hash mismatch") && fault.contains("the snapshot is false"), "{fault}");
    let report = sync(&options(&disk), &mut Alone::new(vec![honest(first(110))], &mut Rng::new(0))).0;
    assert_eq!(report.height.to_u32(), 110, "the next sync goes on without it");
}

/// The machine stops at one of the last operations of a sync that refuses a false snapshot. The same command continues
/// without it, or refuses it again if nothing of the refusal was on the disk.
#[test]
fn a_refusal_that_is_stopped_goes_on() {
    let set = known(first(110).to_vec()).0.set;
    let run = |disk: &SimDisk| {
        let events = |event: Event| {
            // An earlier one, which is removed before this one takes its place.
            if matches!(&event, Event::Note(text) if text.contains("successfully activated snapshot")) {
                put(disk, &layout().net_dir().join("chainstate_snapshot_INVALID/CURRENT"), b"earlier");
            }
        };
        sync_on_false_snapshot(disk, &events)
    };
    let whole = with_false_snapshot();
    assert!(run(&whole).is_err());
    let end = whole.operations();
    let mut went_on = 0;
    let mut marked = 0;
    for back in 1..=30 {
        let disk = with_false_snapshot();
        disk.fail_at(end - back, 1, Accident::Stop);
        assert!(run(&disk).is_err(), "{back}");
        let loss = [Loss::Nothing, Loss::Unsynced, Loss::Random(back)][(back % 3) as usize];
        let row = format!("{back} before the end, {:?}, {loss:?}", disk.stopped_at());
        let disk = disk.reopen(loss);
        if store::chainstate::invalid_base(&*disk.shared(), &layout()).unwrap().is_some() {
            marked += 1;
            let info = offline::info(&options(&disk)).unwrap();
            assert_eq!((info.snapshot_base, info.height), (None, Height::new(BASE)), "{row}: {}", info.next_step);
            let coins = offline::set_info(&options(&disk), SetHash::Muhash, &|_| ()).unwrap();
            assert_eq!(coins.height, Height::new(BASE), "{row}: the coins of the past are read");
        }
        match run(&disk) {
            Ok(_) => went_on += 1,
            Err(why) => {
                assert!(why.to_string().contains("the snapshot is false"), "{row}: {why}");
                run(&disk).unwrap_or_else(|why| panic!("{row}: {why}"));
            }
        }
        assert_eq!(set_of(&disk), (Height::new(110), set), "{row}");
        for gone in [layout().snapshot_dir(), layout().private_dir().join("snapshot")] {
            assert!(disk.metadata(&gone).unwrap().is_none(), "{row}: {}", gone.display());
        }
        let verified = offline::verify(&options(&disk), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!(verified.blocks, 110, "{row}");
    }
    assert!(went_on > 5 && marked > 2, "{went_on}, {marked}");
}

/// Chains with more work and an invalid block, detected when it is connected or as soon as it arrives.
fn invalid_chains() -> [Vec<Vec<u8>>; 2] {
    let too_much = {
        let mut coinbase = blocks::coinbase(9);
        coinbase.outputs[0].0 += 1;
        coinbase
    };
    [too_much, blocks::coinbase(200)].map(|bad| {
        let mut chain = first(8).to_vec();
        for height in 9..=14 {
            let coinbase = if height == 9 { bad.clone() } else { blocks::coinbase(height) };
            let prev = blocks::hash_of(&chain[chain.len() - 1]);
            chain.push(blocks::block(prev, blocks::GENESIS_TIME + 600 * height + 1, &[coinbase]));
        }
        chain
    })
}

/// A chain with an invalid block is never the better chain, neither in the run that detects it nor in later ones. A
/// mark of unknown cause may be wrong, and is reported.
#[test]
fn an_invalid_chain_is_no_better_one_before_and_after_a_restart() {
    for (number, bad) in invalid_chains().into_iter().enumerate() {
        let disk = empty();
        let mut rng = Rng::new(number as u64);
        let peers = vec![honest(first(10)), peer(&bad, Manner::Dishonest)];
        let (report, _) = sync(&options(&disk), &mut Alone::new(peers.clone(), &mut rng));
        assert_eq!((report.height.to_u32(), report.blocks_invalid, report.end_reason), (10, 1, None), "{number}");
        for run in ["the second run", "the third run"] {
            let (report, said) = sync(&options(&disk), &mut Alone::new(peers.clone(), &mut rng));
            assert_eq!((report.height.to_u32(), report.end_reason), (10, None), "{number}, {run}");
            let warned = said.iter().find(|event| matches!(event, Event::Warning(_)));
            assert!(warned.is_none(), "{number}, {run}: {warned:?}");
        }
        disk.remove_file(&layout().private_dir().join("refused")).unwrap();
        let (report, _) = sync(&options(&disk), &mut Alone::new(peers, &mut rng));
        let why = report.end_reason.expect("the mark may be wrong").to_string();
        let hash = blocks::hash_of(&bad[9]).to_string();
        assert!(why.contains(&hash) && why.contains("reconsiderblock"), "{number}: {why}");
        let info = offline::info(&options(&disk)).unwrap();
        assert_eq!(info.failed.len(), 1, "{number}");
    }
}
