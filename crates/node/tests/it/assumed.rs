//! An assumed-valid block that is not on the best header chain: said wherever a person looks, with the command that helps.

use crate::chain::{file, hash_of};
use crate::following::blocks;
use crate::peers::{Blocks, MINUTE, Until, extend, sync_options};
use crate::states::{from, invalidate, serving, synced, until};
use node::handle::Handle;
use node::jobs::{self, SyncOptions};
use node::options::Options;
use node::reporting::{Event, Events, JobReport};
use primitives::BlockHash;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ELSEWHERE: &str = "is not on the best header chain: every script is verified";
const HELPS: &str = "bitcoin-cli getchaintips";

/// A chain of 30 blocks, and one of 40 with the first ten of it.
fn chains() -> (Blocks, Blocks) {
    let mut long = blocks(10);
    extend(&mut long, 40, 1);
    (blocks(30), long)
}

/// What a job said in warnings, and its report.
fn said(job: impl FnOnce(Events<'_>) -> JobReport) -> (Vec<String>, JobReport) {
    let warnings = Mutex::new(Vec::new());
    let report = job(&|event| {
        if let Event::Warning(text) = event {
            warnings.lock().unwrap().push(text);
        }
    });
    (warnings.into_inner().unwrap(), report)
}

/// That the block is named once, that it helps, and that the report has it.
fn named(row: &str, warnings: &[String], report: &JobReport, assumed: &BlockHash) {
    let about: Vec<&String> = warnings.iter().filter(|text| text.contains(ELSEWHERE)).collect();
    assert_eq!(about.len(), 1, "{row}: {warnings:#?}");
    for word in [&assumed.to_string(), "height 30", HELPS, "--assumevalid"] {
        assert!(about[0].contains(word), "{row}: {word}: {about:?}");
    }
    assert_eq!(report.warnings, [about[0].clone()], "{row}");
}

/// A directory that was synced to the short chain, whose last block is assumed valid, and then to the long one.
fn both() -> (Options, BlockHash, Blocks) {
    let (short, long) = chains();
    let assumed = hash_of(&short[30]);
    let options = Options { assumevalid: assumed, ..synced(&short) };
    let told = until("never", &options, &sync_options(&[serving(&long)], Until::Tip));
    named("a peer offers the longer chain", &told.warnings, &told.report, &assumed);
    assert_eq!((told.report.best, told.report.end_reason), (hash_of(&long[40]), None));
    (options, assumed, long)
}

#[test]
fn assumed_block_that_is_not_on_the_best_chain_is_said() {
    let (options, assumed, _) = both();
    let told = until("no_connections", &options, &from(&[]));
    named("at opening", &told.warnings, &told.report, &assumed);
    let (warnings, report) = said(|events| jobs::reindex(&options, true, events).unwrap());
    named("reindex --chainstate-only", &warnings, &report, &assumed);
    let (warnings, report) = said(|events| jobs::reindex(&options, false, events).unwrap());
    named("reindex", &warnings, &report, &assumed);
    let info = jobs::info(&options).unwrap();
    assert_eq!(info.warnings, report.warnings);
    assert!(info.to_string().contains(&format!("warning      {}", report.warnings[0])), "{info}");
    let other = Options { assumevalid: BlockHash::ZERO, ..options };
    assert_eq!(jobs::info(&other).unwrap().warnings, [""; 0]);
}

#[test]
fn assumed_block_is_beside_the_chain_that_an_import_brings() {
    let (short, long) = chains();
    let assumed = hash_of(&short[30]);
    let options = Options { assumevalid: assumed, ..synced(&short) };
    let disk_file = options.disk.create(Path::new("/long.dat")).unwrap();
    disk_file.write_at(0, &file(&long)).unwrap();
    let (warnings, report) = said(|events| jobs::import(&options, &["/long.dat".into()], events).unwrap());
    assert_eq!(report.best, hash_of(&long[40]));
    named("import", &warnings, &report, &assumed);
}

/// Stops a job when it is dropped, also by a test that fails.
struct AtEnd(Arc<AtomicBool>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What calls are answered while the directory is served: the warning ends with its cause.
#[test]
fn assumed_block_is_in_the_warnings_of_calls_while_that_holds() {
    let (options, assumed, long) = both();
    let options = Options { stop: Arc::default(), ..options };
    let handle = Arc::new(Handle::default());
    let (asked, stop) = (handle.clone(), options.stop.clone());
    let fork = hash_of(&long[11]);
    let asking = std::thread::spawn(move || {
        let _stop = AtEnd(stop);
        let begin = Instant::now();
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            while !holds() {
                assert!(begin.elapsed() < MINUTE, "{what}");
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        until("it is open", &|| asked.live().is_ok());
        let live = asked.live().unwrap();
        let has = |words: &str| live.alerts.texts().iter().any(|text| text.contains(words));
        assert!(has(ELSEWHERE) && has(HELPS) && has(&assumed.to_string()), "{:?}", live.alerts.texts());
        let id = live.index.headers().find(&fork).unwrap();
        asked.ask(move |quiet| quiet.invalidate(id)).unwrap().unwrap();
        until("the assumed block is on the best chain that is not marked", &|| !has(ELSEWHERE));
        let id = live.index.headers().find(&assumed).unwrap();
        asked.ask(move |quiet| quiet.invalidate(id)).unwrap().unwrap();
        until("the assumed block is marked", &|| has("is marked invalid") && has("reconsiderblock"));
    });
    let sync = SyncOptions { handle: Some(handle), ..SyncOptions::alone() };
    let report = jobs::sync(&options, &sync, &|_| ());
    asking.join().unwrap();
    let warnings = report.unwrap().warnings;
    assert!(warnings.iter().any(|text| text.contains(&assumed.to_string())), "{warnings:?}");
}

#[test]
fn assumed_block_that_is_marked_is_said_with_the_mark() {
    let (short, _) = chains();
    let assumed = hash_of(&short[30]);
    let options = Options { assumevalid: assumed, stop: Arc::default(), ..synced(&short) };
    invalidate(&options, hash_of(&short[20]));
    let told = until("never", &options, &sync_options(&[serving(&short)], Until::Tip));
    told.warned(&format!(
        "Block {assumed} at height 30, assumed valid, is marked invalid and so not on the best header chain"
    ));
    told.warned("reconsiderblock");
    let info = jobs::info(&options).unwrap();
    assert_eq!(info.warnings.len(), 2, "the chain that is shut out, too: {info}");
    assert_eq!(told.report.warnings, info.warnings);
}

#[test]
fn assumed_block_that_no_peer_knows_is_said_once_all_headers_are_there() {
    let (short, _) = chains();
    let options = Options { assumevalid: BlockHash::from_bytes([7; 32]), ..synced(&short) };
    let told = until("no_connections", &options, &from(&[]));
    assert_eq!(told.report.warnings, [""; 0], "it may come yet");
    let told = until("never", &options, &sync_options(&[serving(&short)], Until::Tip));
    told.warned("is not on the best header chain nor on another chain of the peers");
    assert_eq!((told.report.warnings.len(), told.report.end_reason), (1, None));
    assert_eq!(jobs::info(&options).unwrap().warnings, [""; 0]);
}
