//! Why nothing happens: situations of docs/situations.md, each played by a sync over sockets on loopback until its state is told.

use crate::chain::hash_of;
use crate::following::{blocks, fresh};
use crate::peers::{Blocks, Far, MINUTE, Manner, Until, extend, honest, open, sync_options};
use node::handle::{Handle, Live, Quiet};
use node::jobs::{self, SyncOptions};
use node::options::{Options, Prune, Sizes};
use node::reporting::state::SessionState;
use node::reporting::{Event, JobReport};
use primitives::{BlockHash, Height, Work};
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use store::blockfiles::Limits;

/// What a sync told until one state was reached, or it ended.
pub(crate) struct Told {
    states: Vec<SessionState>,
    pub(crate) warnings: Vec<String>,
    notes: Vec<String>,
    pub(crate) report: JobReport,
}

impl Told {
    /// The state of this name, which must have been reached.
    pub(crate) fn state(&self, name: &str) -> &SessionState {
        let found = self.states.iter().rev().find(|state| state.name() == name);
        found.unwrap_or_else(|| panic!("{name} is not among {:?}; {:?}", self.states, self.notes))
    }

    pub(crate) fn warned(&self, of: &str) {
        assert!(self.warnings.iter().any(|text| text.contains(of)), "{of} is not in {:#?}", self.warnings);
    }
}

/// Syncs until the state `name` is told.
pub(crate) fn until(name: &str, options: &Options, sync: &SyncOptions) -> Told {
    let options = Options { stop: Arc::default(), ..options.clone() };
    let (begin, told) = (Instant::now(), Mutex::new((Vec::new(), Vec::new(), Vec::new())));
    let report = jobs::sync(&options, sync, &|event| {
        let mut told = told.lock().unwrap();
        match event {
            Event::Warning(text) => told.1.push(text),
            Event::Note(text) => told.2.push(text),
            Event::Progress(progress) => {
                if progress.state.name() == name || begin.elapsed() > MINUTE {
                    options.stop.store(true, Ordering::Relaxed);
                }
                if told.0.last() != Some(&progress.state) {
                    told.0.push(progress.state);
                }
            }
            _ => {}
        }
    });
    let (states, warnings, notes) = told.into_inner().unwrap();
    let report = report.unwrap_or_else(|fault| panic!("{fault}: {notes:#?}"));
    Told { states, warnings, notes, report }
}

/// A sync from these peers that goes on.
pub(crate) fn from(peers: &[String]) -> SyncOptions {
    sync_options(peers, Until::Seen(u32::MAX))
}

/// An address where nothing listens.
fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

pub(crate) fn serving(blocks: &Blocks) -> String {
    Far::listen(blocks, honest(), &open())
}

/// A directory that was synced to the end of this chain.
pub(crate) fn synced(blocks: &Blocks) -> Options {
    let options = fresh();
    let report = jobs::sync(&options, &sync_options(&[serving(blocks)], Until::Tip), &|_| ()).unwrap();
    assert_eq!(report.best, hash_of(blocks.last().unwrap()));
    options
}

#[test]
fn peer_that_refuses_connections_is_the_state() {
    let peer = closed();
    let told = until("no_peer", &fresh(), &from(std::slice::from_ref(&peer)));
    let sentence = told.state("no_peer").sentence();
    assert!(sentence.contains(&peer) && sentence.contains("refused"), "{sentence}");
}

#[test]
fn name_without_an_address_is_the_state() {
    let told = until("dns_failed", &fresh(), &from(&["nosuch.invalid:18444".to_owned()]));
    assert!(told.state("dns_failed").sentence().contains("nosuch.invalid"));
}

#[test]
fn dead_proxy_is_the_state_and_one_line() {
    let proxy = closed();
    let sync = SyncOptions { proxy: Some(proxy.clone()), ..from(&["11.22.33.44:8333".to_owned()]) };
    let told = until("proxy_refuses", &fresh(), &sync);
    assert!(told.state("proxy_refuses").sentence().contains(&proxy));
    let lines = told.notes.iter().filter(|text| text.contains("proxy")).count();
    assert!(lines <= 1, "{:#?}", told.notes);
}

#[test]
fn local_peer_is_not_sought_through_the_proxy() {
    let sync = SyncOptions { proxy: Some(closed()), ..from(&[closed()]) };
    let told = until("no_peer_past_proxy", &fresh(), &sync);
    assert!(told.state("no_peer_past_proxy").sentence().contains("not through the proxy"));
}

#[test]
fn connect_0_and_a_network_that_is_off_are_states() {
    let told = until("no_connections", &fresh(), &from(&[]));
    assert!(!told.state("no_connections").is_trouble(), "it was asked for");
    let sync = from(&[serving(&blocks(3))]);
    sync.peers.control.set_active(false);
    let told = until("network_off", &fresh(), &sync);
    assert!(told.state("network_off").sentence().contains("setnetworkactive true"));
}

#[test]
fn peer_without_headers_is_the_state() {
    let mute: Manner = Arc::new(|command| (command == "getheaders").then(Vec::new));
    let peer = Far::new(&blocks(9)).with_manner(mute).listen_at("127.0.0.1:0");
    until("no_headers", &fresh(), &from(&[peer])).state("no_headers");
}

#[test]
fn chain_with_less_than_minimum_work_is_the_state() {
    let minimum_chain_work = Work::of_bits(0x1d00_ffff);
    let options = Options { minimum_chain_work, ..fresh() };
    let told = until("little_work", &options, &from(&[serving(&blocks(9))]));
    assert!(told.state("little_work").sentence().contains("--minimumchainwork"));
}

/// A version message of a peer that keeps its last blocks alone.
fn limited_version(height: i32) -> Vec<u8> {
    let mut out = 70016i32.to_le_bytes().to_vec();
    out.extend((8u64 | 1024).to_le_bytes());
    out.extend([0; 8 + 26 + 26]);
    out.extend(7u64.to_le_bytes());
    out.push(0);
    out.extend(height.to_le_bytes());
    out.push(1);
    out
}

#[test]
fn only_pruned_peers_are_the_state_with_their_lowest_block() {
    let limited: Manner = Arc::new(|command| {
        (command == "version").then(|| vec![("version", limited_version(400)), ("verack", Vec::new())])
    });
    let peer = Far::new(&blocks(400)).with_manner(limited).listen_at("127.0.0.1:0");
    let told = until("peers_pruned", &fresh(), &from(&[peer]));
    let sentence = told.state("peers_pruned").sentence();
    assert!(sentence.contains("below height 115") && sentence.contains("block 1 is needed"), "{sentence}");
}

#[test]
fn peers_that_are_behind_are_the_state() {
    let options = synced(&blocks(40));
    let told = until("peers_behind", &options, &from(&[serving(&blocks(20))]));
    let sentence = told.state("peers_behind").sentence();
    assert!(sentence.contains("height 20") && sentence.contains("at 40"), "{sentence}");
}

#[test]
fn withheld_block_is_the_state_with_its_peer() {
    let chain = blocks(30);
    let peer = Far::new(&chain).without(hash_of(&chain[10])).listen_at("127.0.0.1:0");
    let told = until("waiting_for_block", &fresh(), &from(std::slice::from_ref(&peer)));
    let sentence = told.state("waiting_for_block").sentence();
    assert!(sentence.contains("block 10") && sentence.contains(&peer), "{sentence}");
}

/// A tip that is old is not followed: newer blocks are waited for.
#[test]
fn old_tip_waits_for_newer_blocks_and_claims_no_end() {
    let told = until("waiting_for_newer_blocks", &fresh(), &from(&[serving(&blocks(20))]));
    assert!(told.states.iter().all(|state| state.name() != "following"), "{:?}", told.states);
    assert!(told.state("waiting_for_newer_blocks").sentence().contains("height 20"));
}

/// Marks a block of a directory by the call, as a person would.
pub(crate) fn invalidate(options: &Options, hash: BlockHash) {
    ask(options, move |live, quiet| {
        let id = live.index.headers().find(&hash).unwrap();
        quiet.invalidate(id).unwrap().unwrap();
    });
}

/// Has a served data directory do what a call would.
pub(crate) fn ask(options: &Options, call: impl FnOnce(&Live, &mut Quiet<'_, '_, '_>) + Send + 'static) {
    let handle = Arc::new(Handle::default());
    let asked = handle.clone();
    let stop = options.stop.clone();
    let asking = std::thread::spawn(move || {
        let begin = Instant::now();
        while asked.live().is_err() && begin.elapsed() < MINUTE {
            std::thread::yield_now();
        }
        let live = asked.live().unwrap();
        let done = asked.ask(move |quiet| {
            call(&live, quiet);
            Ok(())
        });
        done.unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    let sync = SyncOptions { handle: Some(handle), ..SyncOptions::alone() };
    jobs::sync(options, &sync, &|_| ()).unwrap();
    asking.join().unwrap();
}

#[test]
fn mark_of_an_earlier_run_that_shuts_out_a_better_chain_is_said() {
    let chain = blocks(40);
    let options = Options { stop: Arc::default(), ..synced(&chain) };
    let bad = hash_of(&chain[30]);
    invalidate(&options, bad);
    let told = until("never", &options, &sync_options(&[serving(&chain)], Until::Tip));
    let name = bad.to_string();
    told.warned(&format!("block {name} at height 30 is marked invalid, with 11 blocks from it on"));
    told.warned("reconsiderblock");
    told.state("chain_shut_out");
    let why = told.report.end_reason.expect("it is no success").to_string();
    assert!(why.contains(&name) && why.contains("reconsiderblock"), "{why}");
    assert_eq!(told.report.height, Height::new(29));
    let info = jobs::info(&options).unwrap().to_string();
    assert!(info.contains(&name) && info.contains("A chain with more work is shut out"), "{info}");
}

#[test]
fn stop_height_below_the_tip_is_said() {
    let chain = blocks(40);
    let options = Options { stop_at_height: Some(Height::new(15)), ..synced(&chain) };
    let told = until("at_stop_height", &options, &sync_options(&[serving(&chain)], Until::Stop(15)));
    told.warned("The chain is at height 40, already above --stopatheight 15");
    assert_eq!(told.report.end_reason, None, "it was asked for");
}

#[test]
fn block_files_without_an_index_are_said_to_be_indexed_first() {
    let options = synced(&blocks(20));
    for part in ["blocks/index", "chainstate"] {
        let dir = options.datadir.join("regtest").join(part);
        for entry in options.disk.list(&dir).unwrap() {
            options.disk.remove_file(&dir.join(&entry.name)).unwrap();
        }
    }
    let told = until("no_connections", &options, &from(&[]));
    assert!(told.notes.iter().any(|text| text.contains("no index lists")), "{:#?}", told.notes);
    assert_eq!(told.report.height, Height::new(20));
}

/// A chain with more work that begins below the pruned blocks: bitcoind ends with "Failed to disconnect block".
#[test]
fn better_chain_that_begins_below_the_pruned_blocks_is_said() {
    let limits = Limits { file_bytes_max: 16 << 10, chunk_bytes: 4 << 10 };
    let fresh = fresh();
    let sizes = Sizes { limits, ..fresh.sizes };
    let options = Options { prune: Prune::Manual, sizes, stop: Arc::default(), ..fresh };
    let short = blocks(700);
    jobs::sync(&options, &sync_options(&[serving(&short)], Until::Tip), &|_| ()).unwrap();
    ask(&options, |_, quiet| assert!(quiet.prune_to(Height::new(400)).unwrap() > Some(Height::new(100))));
    let options = Options { stop: Arc::default(), ..options };
    assert_eq!(jobs::info(&options).unwrap().warnings, [""; 0]);
    let mut long = blocks(50);
    extend(&mut long, 800, 1);
    let warnings = Mutex::new(Vec::new());
    let first = format!("leaves the connected chain at height 51, block {}", hash_of(&long[51]));
    for row in ["offered by a peer", "offered again"] {
        let sync = sync_options(&[serving(&long)], Until::Tip);
        let said = jobs::sync(&options, &sync, &|event| {
            if let Event::Warning(text) = event {
                warnings.lock().unwrap().push(text);
            }
        });
        let why = said.expect_err(row).to_string();
        assert!(why.contains(&first) && why.contains("ffwd sync --datadir DIR"), "{row}: {why}");
        let told = std::mem::take(&mut *warnings.lock().unwrap());
        assert!(told.iter().any(|text| text.contains(&first)), "{row}: {told:#?}");
    }
    assert_eq!(jobs::info(&options).unwrap().best, hash_of(&short[700]), "what is connected stays");
}
