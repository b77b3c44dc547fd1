//! Seed nodes and DNS seeds: when each is asked. After Core's p2p_dns_seeds.py and p2p_seednode.py.

use super::world::*;
use crate::addresses::Addresses;
use crate::api::{Config, LogLines, Outbound};
use crate::hub::asked::Added;
use crate::hub::outbound::seeds::{ADDRESSES_MANY, SEED_AGAIN};
use crate::hub::{Action, Hub};
use crate::rng::Rng;
use crate::sim::Chain;
use crate::time::Now;
use crate::trouble::{DialError, TroubleKind};
use crate::wire::{AddressEntry, NetAddress, PeerAddress, services};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEEDS: &[&str] = &["a.example.", "b.example.", "c.example.", "d.example.", "e.example."];

fn now(seconds: u64) -> Now {
    Now { since_start: Duration::from_secs(seconds), unix: START_UNIX + seconds }
}

/// A memory of about this many addresses, to which no connection can be made.
fn memory(count: u32) -> Addresses {
    let mut book = Addresses::plain(&mut Rng::Seeded(5));
    for number in 0..count {
        let [_, _, a, b] = number.to_be_bytes();
        let peer = PeerAddress { address: NetAddress::V4([60 + a, b, 7, 7]), port: 18444 };
        let entry = AddressEntry { peer, services: services::NETWORK | services::WITNESS, time: START_UNIX as u32 };
        book.add(&[entry], NetAddress::V4([60 + b / 2, a, 0, 0]), 0, START_UNIX);
    }
    book
}

/// A hub and its log.
struct Logged {
    hub: Hub,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logged {
    /// Removes and returns the lines.
    fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

fn hub(config: Config) -> Logged {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let taken = Arc::clone(&lines);
    let log = LogLines::new(move |line| taken.lock().unwrap().push(line.to_owned()));
    let debug_addrman = Some(log.clone());
    let mut config = Config { v2transport: false, fixed_seeds: false, log, debug_addrman, ..config };
    config.network.dns_seeds = SEEDS;
    Logged { hub: World::with_config(Chain::new(), config).hub, lines }
}

fn empty() -> Config {
    Config::new(NETWORK)
}

/// What happens from one second to another: when it waits (W and seconds), asks a seed (?), connects to one (!).
fn seen(logged: &mut Logged, seconds: std::ops::Range<u64>) -> String {
    let mut out = String::new();
    for second in seconds {
        logged.hub.tick(now(second));
        let hub = &mut logged.hub;
        let mut step = String::new();
        while let Some(action) = hub.next_action() {
            match action {
                Action::Resolve { name, .. } => {
                    assert!(name.starts_with("x9.") && name.ends_with(".example"), "{name}");
                    step.push('?');
                }
                Action::Dial { peer, target } => {
                    let is_seed = target.to_string().contains("example");
                    step.extend(is_seed.then_some('!'));
                    hub.not_connected(peer, &DialError::of_peer(TroubleKind::Refused, "nobody is there"), now(second));
                }
                _ => {}
            }
        }
        for line in logged.take_lines() {
            let wait = line.strip_prefix("Waiting ").and_then(|rest| rest.split(' ').next());
            step.extend(wait.map(|seconds| format!("W{seconds}")));
        }
        if !step.is_empty() {
            out.push_str(&format!("{second}:{step} "));
        }
    }
    out.trim_end().to_owned()
}

#[test]
fn dns_seeds_are_asked_by_cores_delays() {
    let few = || Config { addresses: Some(memory(5)), ..empty() };
    let many = memory(3000);
    let count = many.count();
    assert!(count >= ADDRESSES_MANY, "{count}");
    for (row, config, want) in [
        ("all at once where no address is known", empty(), "0:?????"),
        ("three after each delay", few(), "0:W11 11:???W11 22:??"),
        ("a longer delay", Config { addresses: Some(many), ..empty() }, "0:W300 300:???W300"),
        ("forced", Config { force_dns_seed: true, ..few() }, "0:?????"),
        ("switched off", Config { dns_seed: false, ..empty() }, ""),
        ("beside named peers alone", Config { outbound: Outbound::Only(Vec::new()), ..empty() }, "0:?????"),
        ("through a proxy", Config { proxy: Some("127.0.0.1:9050".to_owned()), ..empty() }, "0:!!!!!"),
    ] {
        assert_eq!(seen(&mut hub(config), 0..400), want, "{row}");
    }
    let again = SEED_AGAIN.as_secs();
    let mut hub = hub(empty());
    assert_eq!(seen(&mut hub, 0..5), "0:?????");
    for seed in SEEDS {
        hub.hub.resolved(&format!("x9.{}", seed.trim_end_matches('.')), &[], now(5));
    }
    assert_eq!(seen(&mut hub, 5..again + 5), format!("5:!!!!! {again}:?????"), "who has no such name is a node");
}

#[test]
fn seed_nodes_come_first_one_each_ten_seconds() {
    let nodes = || vec!["n.example".to_owned(), "m.example:7".to_owned()];
    let known = |addresses: Option<Addresses>| Config { seed_nodes: nodes(), dns_seed: false, addresses, ..empty() };
    assert_eq!(seen(&mut hub(known(None)), 0..60), "0:! 11:!");
    assert_eq!(seen(&mut hub(known(Some(memory(5)))), 0..60), "11:! 22:!", "those that are known have their time");
    let both = Config { seed_nodes: nodes(), ..empty() };
    assert_eq!(seen(&mut hub(both), 0..60), "0:! 11:! 31:?????", "DNS seeds come after them");
    let only = Config { seed_nodes: nodes(), dns_seed: false, outbound: Outbound::Only(Vec::new()), ..empty() };
    assert_eq!(seen(&mut hub(only), 0..60), "", "named peers are enough");
}

/// A machine without a line asks them all day: the log has the first round.
#[test]
fn dns_seeds_that_are_asked_again_are_not_logged_again() {
    let mut logged = hub(empty());
    let lines = |logged: &Logged| logged.take_lines().iter().filter(|line| line.contains("DNS seed")).count();
    let mut round = |at: u64| {
        logged.hub.tick(now(at));
        let asked = lines(&logged);
        for seed in SEEDS {
            logged.hub.not_resolved(&format!("x9.{}", seed.trim_end_matches('.')), "no such name", now(at + 1));
        }
        logged.hub.tick(now(at + 1));
        while logged.hub.next_action().is_some() {}
        (asked, lines(&logged))
    };
    assert_eq!(round(0), (SEEDS.len(), 1), "each that is asked, and how many addresses were found");
    let again = SEED_AGAIN.as_secs() + 2;
    assert_eq!((round(again), round(2 * again)), ((0, 0), (0, 0)));
}

/// Core's feature_asmap.py reads the log when it has the answer of the call.
#[test]
fn checks_of_the_address_memory_are_in_the_log_before_a_call_returns() {
    for (row, ratio, is_told) in [("every operation", 1, true), ("never", 0, false)] {
        let mut logged = hub(Config { addresses: Some(memory(5).checked_every(ratio)), ..empty() });
        logged.take_lines();
        let started = |total: usize| format!("CheckAddrman: new {total}, tried 0, total {total} started");
        let told = |logged: &Logged, total| logged.take_lines().contains(&started(total));
        assert_eq!(logged.hub.known_addresses(0, None, now(1)).len(), 5, "{row}");
        assert_eq!(told(&logged, 5), is_told, "{row}");
        let peer = PeerAddress { address: NetAddress::V4([90, 7, 7, 7]), port: 18444 };
        assert_eq!(logged.hub.add_address(peer, false, now(1)), Added::Yes, "{row}");
        assert_eq!(told(&logged, 6), is_told, "{row}");
    }
}
