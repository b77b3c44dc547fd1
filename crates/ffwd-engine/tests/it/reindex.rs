//! Reindexing: the result, its parts, events, stops, two at a time.

use crate::support::{SMALL_BEST, SMALL_HASH, blocks_dir, damage, expected, indexed, real, small};
use ffwd_engine::{DataDir, Ended, ErrorKind, Event, Index, Network, Stop};
use std::sync::Mutex;

#[test]
fn reindex_gives_the_set_that_core_has() {
    let (folder, dir) = small();
    let events = Mutex::new(Vec::new());
    let report = dir.reindex().on_event(|event| events.lock().unwrap().push(event)).run().unwrap();
    assert_eq!((report.ended, report.height, report.height_start), (Ended::Complete, 107, 0));
    assert_eq!((report.blocks, report.blocks_invalid, report.damaged.len()), (107, 0, 0));
    assert_eq!(report.best_block.to_string(), SMALL_BEST);
    assert!(report.transactions >= 109 && report.bytes > 20_000 && report.seconds > 0.0);
    assert_eq!(dir.coins().unwrap().hash_serialized_3().unwrap().to_string(), SMALL_HASH);
    let events = events.into_inner().unwrap();
    let last = events.iter().rev().find_map(|event| match event {
        Event::Progress(progress) => Some(progress),
        _ => None,
    });
    let last = last.expect("there is progress");
    assert_eq!((last.height, last.height_end, last.peers), (107, 107, None));
    assert!(last.bytes > 20_000 && last.bytes <= last.bytes_end && !last.state.is_empty(), "{last:?}");
    assert!(folder.path().join("regtest/debug.log").is_file());
}

/// No state of the process: each job has its own network, cache, threads and temporary files.
#[test]
fn two_data_directories_are_reindexed_at_once() {
    let Some((_one, one)) = real(Network::Signet, "chains/signet_0_120.blk.xz") else { return };
    let Some((_two, two)) = real(Network::Regtest, "snapshots/regtest_assumeutxo_0_399.blk.xz") else { return };
    let dumps = testkit::data::load("snapshots/dumps.json").unwrap();
    let dumps: serde_json::Value = serde_json::from_slice(&dumps).unwrap();
    let want_one = expected("signet", 120)["hash_serialized_3"].as_str().unwrap().to_owned();
    let want_two = dumps["regtest_assumeutxo_399"]["txoutset_hash"].as_str().unwrap().to_owned();
    let hash = |dir: &DataDir| {
        let report = dir.reindex().verify_all_scripts().cache_bytes(8 << 20).run().unwrap();
        assert_eq!(report.ended, Ended::Complete);
        dir.coins().unwrap().hash_serialized_3().unwrap().to_string()
    };
    let got = std::thread::scope(|scope| {
        let first = scope.spawn(|| hash(&one));
        let second = scope.spawn(|| hash(&two));
        [first.join().unwrap(), second.join().unwrap()]
    });
    assert_eq!(got, [want_one, want_two]);
}

#[test]
fn a_job_keeps_other_jobs_out_of_its_data_directory() {
    let (folder, dir) = indexed();
    let inner = Mutex::new(Vec::new());
    let meanwhile = |event: Event| {
        let mut inner = inner.lock().unwrap();
        if matches!(event, Event::Progress(_)) && inner.is_empty() {
            inner.extend([dir.reindex().run().unwrap_err(), dir.verify().run().unwrap_err()]);
            inner.extend([dir.coins().unwrap_err(), dir.blocks(..).unwrap_err()]);
        }
    };
    let report = dir.reindex().on_event(meanwhile).run().unwrap();
    assert_eq!(report.ended, Ended::Complete);
    let inner = inner.into_inner().unwrap();
    assert_eq!(inner.len(), 4);
    for why in inner {
        assert_eq!(why.kind(), ErrorKind::InUse, "{why}");
        assert!(why.path().unwrap().starts_with(folder.path()), "{why}");
        assert!(why.to_string().contains(&format!("process {}", std::process::id())), "{why}");
    }
}

#[test]
fn a_reindex_that_was_stopped_goes_on() {
    let (_folder, dir) = small();
    let half = dir.reindex().stop_at_height(60).run().unwrap();
    assert_eq!((half.height, dir.coins().unwrap().height()), (60, 60));
    let stop = Stop::new();
    stop.stop();
    match dir.reindex().stop(&stop).run() {
        Ok(report) => assert_eq!(report.ended, Ended::Stopped),
        Err(why) => assert_eq!(why.kind(), ErrorKind::Stopped),
    }
    let report = dir.reindex().run().unwrap();
    assert_eq!((report.ended, report.height), (Ended::Complete, 107));
    assert_eq!(dir.coins().unwrap().hash_serialized_3().unwrap().to_string(), SMALL_HASH);
}

#[test]
fn coins_alone_are_rebuilt() {
    let (_folder, dir) = indexed();
    let report = dir.reindex().coins_only().verify_all_scripts().run().unwrap();
    assert_eq!((report.height, report.blocks), (107, 107));
    assert_eq!(dir.coins().unwrap().hash_serialized_3().unwrap().to_string(), SMALL_HASH);
}

#[test]
fn optional_indexes_are_kept() {
    let (folder, dir) = small();
    let all = [Index::Transactions, Index::BlockFilters, Index::CoinStats, Index::Spenders, Index::SilentPayments];
    let job = all.into_iter().fold(dir.reindex(), |job, index| job.index(index).index(index));
    assert_eq!(job.run().unwrap().ended, Ended::Complete);
    let found: Vec<String> = std::fs::read_dir(folder.path().join("regtest/indexes"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found.len(), 5, "{found:?}");
}

#[test]
fn blocks_may_lie_elsewhere() {
    let (folder, _) = small();
    let elsewhere = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(elsewhere.path(), Network::Regtest);
    std::fs::copy(folder.path().join("regtest/blocks/blk00000.dat"), blocks.join("blk00000.dat")).unwrap();
    std::fs::remove_dir_all(folder.path().join("regtest")).unwrap();
    let dir = DataDir::builder(folder.path(), Network::Regtest).blocks_dir(elsewhere.path()).threads(1).open().unwrap();
    assert_eq!((dir.path(), dir.network()), (folder.path(), Network::Regtest));
    assert_eq!(dir.reindex().run().unwrap().height, 107);
    assert_eq!(dir.blocks(..).unwrap().count(), 108);
}

/// A body that is not its header's is told of, with its place, and the chain ends below it.
#[test]
fn damaged_records_are_in_the_report() {
    let (folder, dir) = small();
    let path = folder.path().join("regtest/blocks/blk00000.dat");
    damage(&path, |bytes| bytes.len() / 2, 60);
    let told = Mutex::new(Vec::new());
    let report = dir
        .reindex()
        .on_event(|event| match event {
            Event::Warning(text) => told.lock().unwrap().push(text),
            Event::BlockRefused { height, reason, .. } => told.lock().unwrap().push(format!("{height}: {reason}")),
            _ => {}
        })
        .run()
        .unwrap();
    assert!(report.height > 20 && report.height < 107, "{report:?}");
    assert!(matches!(&report.ended, Ended::Incomplete(why) if !why.is_empty()), "{report:?}");
    assert_eq!(report.damaged.first().map(|record| &record.path), Some(&path), "{report:?}");
    assert!(!told.into_inner().unwrap().is_empty());
}
