//! Simulated eclipse attack on the address memory: how many connections after a restart go to the attacker, by seed.
//!
//! The simulated network has a tenth of the real size: 1,000 honest nodes that accept connections, in 800 groups. Each
//! simulated day the node learns 144 honest addresses from its outbound peers. The attacker has 20 inbound connections
//! from up to as many groups and announces 17,280 addresses of nodes that answer. This is a tenth of the rate limit
//! (one address in ten seconds for each connection). A feeler runs every two minutes; two outbound peers a day are
//! replaced. After 30 days the node restarts with 8 full-relay connections and 2 anchors.
//!
//! A second implementation receives the same events: Core's rules from addrman.h and addrman.cpp, written without
//! tables, as a map from a place to an address. bitcoind itself is not included, because its peers cannot be simulated.

use super::*;
use crate::wire::AddressEntry;
use kernels::sha256::sha256d;
use std::collections::BTreeMap;
use std::collections::HashMap as Map;

const START: u64 = 1_700_000_000;
const DAY: u64 = 24 * 3600;
const DAYS: u64 = 30;
const HONEST: u32 = 1000;
const HONEST_GROUPS: u32 = 800;
const INBOUND: u32 = 20;
const TOLD_PER_DAY: u32 = 8640 / 10;

/// The address memory under attack.
trait Memory {
    fn tell(&mut self, peer: PeerAddress, source: NetAddress, now: u64);
    fn good(&mut self, peer: PeerAddress, now: u64);
    fn attempt(&mut self, peer: PeerAddress, now: u64);
    fn feeler(&mut self, now: u64) -> Option<PeerAddress>;
    fn choose(&mut self, now: u64) -> Option<PeerAddress>;
}

impl Memory for Addresses {
    fn tell(&mut self, peer: PeerAddress, source: NetAddress, now: u64) {
        self.add(&[AddressEntry { peer, services: 9, time: now as u32 }], source, GOSSIP_PENALTY_S, now);
    }

    fn good(&mut self, peer: PeerAddress, now: u64) {
        Addresses::good(self, &peer, now);
    }

    fn attempt(&mut self, peer: PeerAddress, now: u64) {
        self.attempted(&peer, true, now);
    }

    fn feeler(&mut self, now: u64) -> Option<PeerAddress> {
        self.resolve_collisions(now);
        let collision = self.select_collision();
        collision.or_else(|| self.select(From::New, Networks::NONE.with(1), now)).map(|entry| entry.peer)
    }

    fn choose(&mut self, now: u64) -> Option<PeerAddress> {
        self.select(From::Both, Networks::NONE.with(1), now).map(|entry| entry.peer)
    }
}

/// An address in the second implementation.
#[derive(Clone)]
struct Seen {
    time: u64,
    source: NetAddress,
    success: u64,
    tried_at: u64,
    counted_at: u64,
    attempts: i32,
    is_tried: bool,
    /// Number of its places in "new".
    count: u32,
}

/// Second implementation of Core's rules: places are keys of a map.
struct Twin {
    key: [u8; 32],
    seen: Map<PeerAddress, Seen>,
    new: BTreeMap<(u64, u64), PeerAddress>,
    tried: BTreeMap<(u64, u64), PeerAddress>,
    waiting: Vec<PeerAddress>,
    last_good: u64,
    rng: Rng,
}

impl Twin {
    fn hash(&self, parts: &[&[u8]]) -> u64 {
        let bytes = [&[&self.key[..]], parts].concat().concat();
        u64::from_le_bytes(sha256d(&bytes)[..8].try_into().unwrap())
    }

    fn group(address: NetAddress) -> [u8; 4] {
        let bytes = address.bytes();
        [3, 1, bytes[0], bytes[1]]
    }

    fn name(peer: &PeerAddress) -> Vec<u8> {
        [&[18][..], &[0; 10], &[255, 255], peer.address.bytes(), &peer.port.to_be_bytes()].concat()
    }

    fn place(&self, letter: u8, bucket: u64, peer: &PeerAddress) -> (u64, u64) {
        let number = (bucket as u32).to_le_bytes();
        (bucket, self.hash(&[&[letter], &number, &Twin::name(peer)]) % 64)
    }

    fn new_place(&self, peer: &PeerAddress, source: NetAddress) -> (u64, u64) {
        let source = Twin::group(source);
        let lane = self.hash(&[&Twin::group(peer.address), &source]) % 64;
        self.place(b'N', self.hash(&[&source, &lane.to_le_bytes()]) % 1024, peer)
    }

    fn tried_place(&self, peer: &PeerAddress) -> (u64, u64) {
        let lane = self.hash(&[&Twin::name(peer)]) % 8;
        self.place(b'K', self.hash(&[&Twin::group(peer.address), &lane.to_le_bytes()]) % 256, peer)
    }

    fn is_terrible(seen: &Seen, now: u64) -> bool {
        now - seen.tried_at > 60
            && (now.saturating_sub(seen.time) > 30 * DAY
                || (seen.success == 0 && seen.attempts >= 3)
                || (now - seen.success > 7 * DAY && seen.attempts >= 10))
    }

    fn leave_new(&mut self, place: (u64, u64)) {
        let Some(peer) = self.new.remove(&place) else { return };
        let seen = self.seen.get_mut(&peer).unwrap();
        seen.count -= 1;
        if seen.count == 0 {
            self.seen.remove(&peer);
        }
    }

    fn make_tried(&mut self, peer: PeerAddress) {
        self.new.retain(|_, other| *other != peer);
        if let Some(old) = self.tried.insert(self.tried_place(&peer), peer) {
            let place = self.new_place(&old, self.seen[&old].source);
            self.leave_new(place);
            self.new.insert(place, old);
            let seen = self.seen.get_mut(&old).unwrap();
            (seen.is_tried, seen.count) = (false, 1);
        }
        let seen = self.seen.get_mut(&peer).unwrap();
        (seen.is_tried, seen.count) = (true, 0);
    }

    fn resolve(&mut self, now: u64) {
        for peer in std::mem::take(&mut self.waiting) {
            let Some(new) = self.seen.get(&peer) else { continue };
            let Some(old) = self.tried.get(&self.tried_place(&peer)).map(|old| &self.seen[old]) else { continue };
            if now - old.success < 4 * 3600 {
                continue;
            }
            let has_failed = now - old.tried_at < 4 * 3600 && now - old.tried_at > 60;
            if has_failed || (now - old.tried_at >= 4 * 3600 && now - new.success > 40 * 60) {
                self.make_tried(peer);
            } else {
                self.waiting.push(peer);
            }
        }
    }

    fn draw(&mut self, table: Table, now: u64) -> Option<PeerAddress> {
        let (places, buckets) = if table == Table::New { (&self.new, 1024) } else { (&self.tried, 256) };
        if places.is_empty() {
            return None;
        }
        let mut factor = 1.0;
        loop {
            let bucket = self.rng.below(buckets) as u64;
            let start = self.rng.below(64) as u64;
            let mut around =
                places.range((bucket, start)..(bucket, 64)).chain(places.range((bucket, 0)..(bucket, start)));
            let Some((_, peer)) = around.next() else { continue };
            let seen = &self.seen[peer];
            let rest = if now - seen.tried_at < 600 { 0.01 } else { 1.0 };
            let chance = rest * 0.66f64.powi(seen.attempts.min(8)) * factor;
            if (self.rng.below(1 << 30) as f64) < chance * f64::from(1 << 30) {
                return Some(*peer);
            }
            factor *= 1.2;
        }
    }
}

impl Memory for Twin {
    fn tell(&mut self, peer: PeerAddress, source: NetAddress, now: u64) {
        let time = now - u64::from(GOSSIP_PENALTY_S);
        let count = self.seen.get(&peer).map_or(0, |seen| seen.count);
        if let Some(seen) = self.seen.get_mut(&peer) {
            if seen.time + 3600 < time {
                seen.time = time;
            }
            if now <= seen.time || seen.is_tried || count == 8 || self.rng.below(1 << count) != 0 {
                return;
            }
        } else {
            let never =
                Seen { time, source, success: 0, tried_at: 0, counted_at: 0, attempts: 0, is_tried: false, count: 0 };
            self.seen.insert(peer, never);
        }
        let place = self.new_place(&peer, source);
        let there = self.new.get(&place).copied();
        let may = there.is_none_or(|other| {
            Twin::is_terrible(&self.seen[&other], now) || (self.seen[&other].count > 1 && count == 0)
        });
        if there == Some(peer) {
            return;
        }
        if may {
            self.leave_new(place);
            self.new.insert(place, peer);
            self.seen.get_mut(&peer).unwrap().count += 1;
        } else if count == 0 {
            self.seen.remove(&peer);
        }
    }

    fn good(&mut self, peer: PeerAddress, now: u64) {
        self.last_good = now;
        let place = self.tried_place(&peer);
        let Some(seen) = self.seen.get_mut(&peer) else { return };
        (seen.success, seen.tried_at, seen.attempts) = (now, now, 0);
        if seen.is_tried {
            return;
        }
        if !self.tried.contains_key(&place) {
            self.make_tried(peer);
        } else if self.waiting.len() < 10 && !self.waiting.contains(&peer) {
            self.waiting.push(peer);
        }
    }

    fn attempt(&mut self, peer: PeerAddress, now: u64) {
        let last_good = self.last_good;
        let Some(seen) = self.seen.get_mut(&peer) else { return };
        seen.tried_at = now;
        if seen.counted_at < last_good {
            (seen.counted_at, seen.attempts) = (now, seen.attempts + 1);
        }
    }

    fn feeler(&mut self, now: u64) -> Option<PeerAddress> {
        self.resolve(now);
        let waiting = self.waiting.first().and_then(|peer| self.tried.get(&self.tried_place(peer))).copied();
        waiting.or_else(|| self.draw(Table::New, now))
    }

    fn choose(&mut self, now: u64) -> Option<PeerAddress> {
        let is_tried = !self.tried.is_empty() && (self.new.is_empty() || self.rng.below(2) == 0);
        self.draw(if is_tried { Table::Tried } else { Table::New }, now)
    }
}

fn honest(number: u32) -> PeerAddress {
    let group = number % HONEST_GROUPS;
    let [_, _, a, b] = group.to_be_bytes();
    let host = (number / HONEST_GROUPS) as u8 + 1;
    PeerAddress { address: NetAddress::V4([20 + a, b, host, 1]), port: 8333 }
}

/// An address of the attacker, in one of `groups`.
fn attackers(number: u32, groups: u32) -> PeerAddress {
    let [_, _, a, b] = (number % groups).to_be_bytes();
    let [_, _, c, d] = (number / groups).to_be_bytes();
    PeerAddress { address: NetAddress::V4([100 + 31 + a, b, c, d]), port: 8333 }
}

fn is_attackers(peer: &PeerAddress) -> bool {
    peer.address.bytes()[0] >= 131
}

/// Percentage of connections after the restart that go to the attacker, over 100 restarts, anchors included.
fn share(memory: &mut dyn Memory, groups: u32, seed: u64) -> usize {
    let mut rng = Rng::Seeded(seed);
    let mut outbound: Vec<PeerAddress> = (0..10).map(|_| honest(rng.below(HONEST as usize) as u32)).collect();
    for peer in outbound.clone() {
        memory.tell(peer, peer.address, START);
        memory.good(peer, START);
    }
    let mut told = 0;
    for day in 0..DAYS {
        for minute in (0..DAY / 60).step_by(2) {
            let now = START + day * DAY + minute * 60;
            // Honest gossip comes from the outbound peers, the attacker's from inbound ones.
            if minute % 5 == 0 {
                let source = outbound[rng.below(outbound.len())];
                if !is_attackers(&source) {
                    memory.tell(honest(rng.below(HONEST as usize) as u32), source.address, now);
                }
            }
            for _ in 0..(INBOUND * TOLD_PER_DAY) / 720 {
                let source = attackers(told % INBOUND, groups.min(INBOUND));
                memory.tell(attackers(told, groups), source.address, now);
                told += 1;
            }
            if let Some(peer) = memory.feeler(now) {
                memory.attempt(peer, now);
                memory.good(peer, now);
            }
            if minute == 0 {
                for _ in 0..2 {
                    let place = rng.below(8);
                    let Some(peer) = memory.choose(now) else { continue };
                    memory.attempt(peer, now);
                    memory.good(peer, now);
                    outbound[place] = peer;
                }
            }
        }
    }
    let now = START + DAYS * DAY;
    let anchors: usize = outbound[8..].iter().filter(|peer| is_attackers(peer)).count();
    let mut owned = 0;
    for _ in 0..100 {
        let mut groups = BTreeSet::new();
        owned += anchors;
        for _ in 0..10_000 {
            if groups.len() == 8 {
                break;
            }
            let Some(peer) = memory.choose(now) else { break };
            // One of each group.
            if groups.insert(peer.address.group()) {
                owned += usize::from(is_attackers(&peer));
            }
        }
    }
    owned / 10
}

/// Figures: bench/record/2026-11-27-eclipse.md.
#[test]
fn an_attacker_gets_no_more_than_of_core_in_30_days() {
    let groups: &[u32] = if testkit::is_slow() { &[1, 4, 16, 64, 256] } else { &[4] };
    for &count in groups {
        let mut memory = Addresses::plain(&mut Rng::Seeded(u64::from(count)));
        let ours = share(&mut memory, count, 7);
        assert_eq!(memory.check(), None);
        let mut rng = Rng::Seeded(99 + u64::from(count));
        let mut twin = Twin {
            key: rng.bytes(),
            seen: Map::new(),
            new: BTreeMap::new(),
            tried: BTreeMap::new(),
            waiting: Vec::new(),
            last_good: 1,
            rng,
        };
        let twins = share(&mut twin, count, 7);
        println!("{count} groups: {ours} of 100 connections, the twin {twins}");
        // Two memories with different keys differ by chance.
        assert!(ours <= twins + 12, "{count} groups: {ours} of 100 connections, the twin {twins}");
        assert!(count > 4 || ours < 60, "{count} groups: {ours} of 100");
    }
}
