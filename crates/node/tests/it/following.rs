//! Smoke tests of `sync` over real sockets: as a server, as one that follows, and what the network's threads alone do. What
//! decides where it ends, and what happens with slow, silent and hostile peers, is played by seed in `session::world`.

use crate::data_directory::{DATADIR, options};
use crate::peers::{Blocks, Far, Until, extend, genesis, sync_options};
use disk::{Disk, SimDisk};
use node::jobs::{self, SyncOptions};
use node::options::Options;
use node::reporting::{Event, JobReport, Progress};
use primitives::Height;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
fn sync_keeps_addresses_in_peers_dat() {
    let (options, peers) = (fresh(), [Far::new(&blocks(5)).listen_at("127.0.0.1:0")]);
    let layout = store::Layout::new(Path::new(DATADIR), "regtest", None);
    let dir = |path: &Path| store::private_files::PrivateDir::new(options.disk.clone(), path.to_owned());
    let (net, own) = (dir(layout.net_dir()), dir(&layout.private_dir()));
    own.write("addresses", b"of an earlier version").unwrap();
    Running::start(options.clone(), sync_options(&peers, Until::Tip)).ends();
    let bytes = net.read("peers.dat", 1 << 20).unwrap().expect("it is there");
    assert_eq!((&bytes[..6], own.read("addresses", 1 << 20).unwrap()), (&[0xfa, 0xbf, 0xb5, 0xda, 4, 36][..], None));
    Running::start(options.clone(), sync_options(&peers, Until::Tip)).ends();
    assert_eq!(net.read("peers.dat", 1 << 20).unwrap(), Some(bytes), "the same key");
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
