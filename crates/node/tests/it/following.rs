//! The whole of `sync` over real sockets: as a server, and as one that follows. What decides where it ends, and what happens with
//! slow, silent and hostile peers, is played by seed in `session::world`.

use crate::chain::hash_of;
use crate::data_directory::{DATADIR, options};
use crate::peers::{Blocks, Far, Manner, Until, extend, genesis, sync_options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs::{self, SyncOptions};
use node::options::Options;
use node::reporting::{Event, JobReport, Progress};
use primitives::Height;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const LIMIT: Duration = Duration::from_secs(60);

/// A sync in a thread of its own, told to stop when this goes.
pub(crate) struct Running {
    pub(crate) options: Options,
    said: Arc<Mutex<Vec<Event>>>,
    thread: Option<JoinHandle<Result<JobReport, node::Fault>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.options.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Running {
    pub(crate) fn start(options: Options, sync: SyncOptions) -> Running {
        let said = Arc::<Mutex<Vec<Event>>>::default();
        let (heard, given) = (Arc::clone(&said), options.clone());
        let thread = std::thread::spawn(move || jobs::sync(&given, &sync, &|event| heard.lock().unwrap().push(event)));
        Running { options, said, thread: Some(thread) }
    }

    /// What was said first that this finds.
    pub(crate) fn wait<T>(&self, what: &str, find: impl Fn(&Event) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = self.said.lock().unwrap().iter().find_map(&find) {
                return found;
            }
            assert!(begin.elapsed() < LIMIT, "{what}: {:#?}", self.notes());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> String {
        self.wait("it listens", |event| match event {
            Event::Note(text) => text.strip_prefix("Bound to ").map(str::to_owned),
            _ => None,
        })
    }

    pub(crate) fn is_at(&self, height: u32) {
        self.wait(&format!("it is at {height}"), |event| match event {
            Event::Progress(progress) => (progress.height == Height::new(height)).then_some(()),
            _ => None,
        });
    }

    fn notes(&self) -> Vec<String> {
        let said = self.said.lock().unwrap();
        said.iter().filter_map(|event| if let Event::Note(text) = event { Some(text.clone()) } else { None }).collect()
    }

    fn progress(&self) -> Vec<Progress> {
        let said = self.said.lock().unwrap();
        said.iter()
            .filter_map(|event| if let Event::Progress(p) = event { Some((**p).clone()) } else { None })
            .collect()
    }

    /// Waits until it ends by itself.
    fn ends(mut self) -> JobReport {
        let (begin, thread) = (Instant::now(), self.thread.take().unwrap());
        while !thread.is_finished() {
            if begin.elapsed() > LIMIT {
                self.options.stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let report = thread.join().unwrap().unwrap();
        assert!(begin.elapsed() < LIMIT, "it does not end: {:#?}, {:#?}", self.notes(), self.progress().last());
        report
    }

    /// Has it stop.
    pub(crate) fn stop(mut self) -> JobReport {
        self.options.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

/// An empty directory.
pub(crate) fn fresh() -> Options {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(DATADIR)).unwrap();
    Options { par: 2, ..options(&disk, false) }
}

pub(crate) fn blocks(count: u32) -> Blocks {
    let mut blocks = genesis();
    extend(&mut blocks, count, 0);
    blocks
}

/// A sync that goes on, and takes connections.
pub(crate) fn listening(peers: &[String]) -> SyncOptions {
    SyncOptions { exit_at_tip: false, listen: vec!["127.0.0.1:0".parse().unwrap()], ..sync_options(peers, Until::Tip) }
}

/// What it was given a moment ago still lies in the writer's buffer.
#[test]
fn block_stored_just_now_is_served() {
    let server = Running::start(fresh(), listening(&[Far::new(&blocks(30)).listen_at("127.0.0.1:0")]));
    server.is_at(30);
    let client = Running::start(fresh(), sync_options(&[server.address()], Until::Tip));
    assert_eq!(client.ends().height, Height::new(30), "{:#?}", server.notes());
    assert_eq!(server.stop().height, Height::new(30));
}

#[test]
fn sync_keeps_the_addresses_file() {
    let (options, peers) = (fresh(), [Far::new(&blocks(5)).listen_at("127.0.0.1:0")]);
    Running::start(options.clone(), sync_options(&peers, Until::Tip)).ends();
    let own = private_dir(options.disk.clone());
    assert_eq!(own.read("addresses", 1 << 20).unwrap(), None, "no addresses, no file");
    own.write("addresses", b"not ours").unwrap();
    Running::start(options.clone(), sync_options(&peers, Until::Tip)).ends();
    let bytes = own.read("addresses", 1 << 20).unwrap().expect("it is there");
    assert!(bytes.starts_with(b"ffwdaddr"));
}

fn private_dir(disk: Arc<dyn Disk>) -> store::private_files::PrivateDir {
    store::private_files::PrivateDir::new(disk, store::Layout::new(Path::new(DATADIR), "regtest", None).private_dir())
}

/// They are an aid: a full disk costs them, and not the sync.
#[test]
fn sync_on_a_full_disk_does_not_wait_for_addresses() {
    // The last that a sync does on the disk: a file is made, written, synced and renamed, its directory synced, then
    // the log written.
    for back in 2..=6 {
        let said = Mutex::new(Vec::new());
        let run = |disk: &SimDisk| {
            let options = options(disk, false);
            // It ends as soon as it may.
            options.stop.store(true, Ordering::Relaxed);
            jobs::sync(&options, &sync_options(&[], Until::Tip), &|event| {
                if let Event::Warning(text) = event {
                    said.lock().unwrap().push(text);
                }
            })
        };
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        run(&disk).unwrap();
        // A file that is there is written again, even without addresses.
        private_dir(Arc::new(disk.clone())).write("addresses", b"").unwrap();
        let twin = disk.reopen(Loss::Nothing);
        let (from, twin_from) = (disk.operations(), twin.operations());
        run(&disk).unwrap();
        twin.fail_at(twin_from + (disk.operations() - from) - back, 1, Accident::NoSpace);
        run(&twin).unwrap();
        let said = said.into_inner().unwrap();
        assert!(
            said.iter().any(|text| text.contains("The addresses of peers stay")),
            "{back} before the end: {said:?}"
        );
    }
}

/// By how much the clock was moved, in seconds.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// What was announced did not come, and no peer says that the chain ends below: that is no success.
#[test]
fn sync_whose_only_peer_withholds_a_block_does_not_end_well() {
    let chain = blocks(30);
    let far = Far::new(&chain).without(crate::chain::hash_of(&chain[10])).listen_at("127.0.0.1:0");
    let clock = || SystemTime::now() + Duration::from_secs(MOVED.load(Ordering::Relaxed));
    let sync = Running::start(Options { clock, ..fresh() }, sync_options(&[far], Until::Tip));
    sync.is_at(9);
    std::thread::sleep(Duration::from_secs(1));
    MOVED.store(100, Ordering::Relaxed);
    let report = sync.ends();
    assert_eq!((report.height.to_u32(), report.headers.to_u32(), report.undelivered.len()), (9, 30, 1));
    assert!(report.end_reason.is_some_and(|why| why.what().contains("no peer gave them")));
}

/// It has nothing, and says so.
fn empty_headers() -> Manner {
    Arc::new(|command| (command == "getheaders").then(|| vec![("headers", vec![0])]))
}

/// It is told how far it is while blocks come, and how much is left.
#[test]
fn sync_reports_progress() {
    let peers = [Far::new(&blocks(40)).with_pace(Duration::from_millis(50)).listen_at("127.0.0.1:0")];
    let sync = Running::start(fresh(), SyncOptions { exit_at_tip: false, ..sync_options(&peers, Until::Tip) });
    sync.is_at(40);
    let on_the_way: Vec<Progress> =
        sync.progress().into_iter().filter(|p| p.bytes > 0 && p.height < Height::new(40)).collect();
    assert!(on_the_way.len() >= 2, "{:#?}", sync.progress());
    assert!(on_the_way.windows(2).all(|two| two[0].height <= two[1].height));
    assert!(on_the_way[0].height < on_the_way[on_the_way.len() - 1].height);
    for progress in &on_the_way {
        assert!(progress.bytes < progress.bytes_end && progress.peers == Some(1), "{progress:?}");
        assert_eq!((progress.height_end.to_u32(), progress.headers.to_u32(), progress.presync), (40, 40, None));
    }
    sync.stop();
}

/// A body that is damaged on the disk after it was stored is fetched again.
#[test]
fn damaged_body_is_requested_again() {
    let (options, chain) = (fresh(), blocks(40));
    // All but the first come, and stay in the files.
    let first = crate::chain::hash_of(&chain[1]);
    let far = Far::new(&chain).without(first);
    let sync = Running::start(options.clone(), sync_options(&[far.listen_at("127.0.0.1:0")], Until::Tip));
    let path = Path::new(DATADIR).join("regtest/blocks/blk00000.dat");
    let begin = Instant::now();
    let last = crate::chain::file(&chain[40..]);
    // The index is written at the end; what was stored by then is in it.
    while begin.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(sync.stop().height, Height::GENESIS);
    options.stop.store(false, Ordering::Relaxed);
    let stored = options.disk.open(&path).unwrap().bytes().unwrap().to_vec();
    assert!(stored.windows(last.len()).any(|bytes| bytes == last), "the last block is there");
    let damaged = crate::chain::file(&chain[20..21]);
    let at = stored.windows(damaged.len()).position(|bytes| bytes == damaged).expect("and the twentieth");
    // In its only transaction.
    let place = at + damaged.len() - 10;
    options.disk.modify(&path).unwrap().write_at(place as u64, &[stored[place] ^ 1]).unwrap();
    let peers = [Far::new(&chain).listen_at("127.0.0.1:0")];
    let sync = Running::start(options, sync_options(&peers, Until::Tip));
    let refused = sync.wait("the body is refused", |event| match event {
        Event::Refused { height, why, .. } => Some((*height, why.clone())),
        _ => None,
    });
    assert!(refused.0 == Height::new(20) && refused.1.contains("this body only"), "{refused:?}");
    let report = sync.ends();
    assert_eq!((report.height.to_u32(), report.blocks_invalid), (40, 0));
}

/// One follows a peer, another follows the first: a block more, and a reorg of twenty.
#[test]
fn second_node_follows_the_first_through_a_reorg() {
    let chain = blocks(30);
    let far = Far::new(&chain);
    let shared = Arc::clone(&far.shared);
    let first = Running::start(fresh(), listening(&[far.listen_at("127.0.0.1:0")]));
    let second = Running::start(fresh(), listening(&[first.address()]));
    second.is_at(30);
    let mut longer = chain.clone();
    extend(&mut longer, 31, 0);
    shared.switch(&longer, 1);
    second.is_at(31);
    let mut other = chain[..=11].to_vec();
    extend(&mut other, 33, 1);
    shared.switch(&other, 22);
    second.is_at(33);
    let best = crate::chain::hash_of(&other[33]);
    for sync in [second, first] {
        let (notes, report) = (sync.notes(), sync.stop());
        assert_eq!((report.height.to_u32(), report.best, report.blocks_invalid), (33, best, 0), "{notes:#?}");
    }
}

/// Beside those that are sought or named by `--connect`, and in place of none.
#[test]
fn addnode_peer_is_connected() {
    let added = vec![Far::new(&blocks(20)).listen_at("127.0.0.1:0")];
    for connect in [Some(vec![]), None] {
        let sync = SyncOptions { connect, addnode: added.clone(), ..sync_options(&[], Until::Tip) };
        assert_eq!(Running::start(fresh(), sync).ends().height, Height::new(20));
    }
}

/// With nothing but empty answers there is nothing to do, and with an honest peer beside it everything.
#[test]
fn sync_ends_despite_a_peer_without_headers() {
    let evil = Far::new(&blocks(20)).with_manner(empty_headers()).listen_at("127.0.0.1:0");
    let good = Far::new(&blocks(20)).listen_at("127.0.0.1:0");
    let sync = Running::start(fresh(), sync_options(&[evil.clone(), good], Until::Tip));
    let (notes, report) = (sync.notes(), sync.ends());
    assert_eq!(report.height, Height::new(20));
    assert!(!notes.iter().any(|text| text.contains(&evil) && text.contains(" gone: ")), "no offence: {notes:#?}");
}

/// Headers of a longer chain are kept over a restart: who told of them is gone, and no other peer has their blocks.
#[test]
fn sync_reaches_the_honest_chain_where_better_headers_were_kept() {
    let mut longer = blocks(10);
    extend(&mut longer, 50, 2);
    let (options, chain) = (fresh(), blocks(30));
    let teller = Far::new(&longer).without(hash_of(&longer[11])).listen_at("127.0.0.1:0");
    let first = Options { stop_at_height: Some(Height::new(10)), ..options.clone() };
    let told = Running::start(first, sync_options(&[teller], Until::Stop(10))).ends();
    assert_eq!((told.height, told.headers), (Height::new(10), Height::new(50)), "{told:?}");
    let good = Far::new(&chain).listen_at("127.0.0.1:0");
    let options = Options { stop: Arc::default(), ..options };
    let sync = Running::start(options, sync_options(&[good], Until::Seen(30)));
    sync.is_at(30);
    assert_eq!(sync.stop().best, hash_of(chain.last().unwrap()));
}

/// Blocks that the pipeline is given at a time.
#[test]
fn sync_of_a_chain_longer_than_one_run_ends_at_its_tip() {
    let count = 16_384 + 100;
    let sync = Running::start(fresh(), sync_options(&[Far::new(&blocks(count)).listen_at("127.0.0.1:0")], Until::Tip));
    assert_eq!(sync.ends().height, Height::new(count));
}
