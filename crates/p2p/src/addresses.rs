//! The address memory: where peers may be, who told it, and what came of trying.
//!
//! Two tables of buckets. "Good" holds addresses that a handshake succeeded with, "new" all others.
//! The place of an address follows from a secret key, its group, and (new) the group of who told it:
//! one source group reaches [`SOURCE_BUCKET_COUNT`] of [`NEW_BUCKET_COUNT`] buckets, one address group
//! [`GROUP_BUCKET_COUNT`] of [`GOOD_BUCKET_COUNT`]. So one group of addresses cannot fill the memory.
//! After Bitcoin Core's addrman.h; with smaller tables, and one place for each address.
//!
//! File:   "ffwdaddr" | version u32 | key u64 | count u32 | entries | first 8 bytes of sha256d of it all
//! Entry:  network u8 | length u8 | address | port u16 | services u64 | seen u64 | tried u64 | success u64
//!         | failures u32 | good u8 | group of the source [u8; 5]; all little endian
//!
//! Absent on purpose: the file itself; which addresses are connected to ([`crate::hub`]).

use crate::address_answers::{AddressAnswers, From};
use crate::rng::Rng;
use crate::time::Now;
use crate::wire::{AddressEntry, Group, NetAddress, PeerAddress, limits, services};
use primitives::{DecodeError, Reader};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Buckets of the new table.
pub const NEW_BUCKET_COUNT: usize = 256;
/// Buckets of the good table.
pub const GOOD_BUCKET_COUNT: usize = 64;
/// Addresses of a bucket.
pub const BUCKET_SIZE: usize = 32;
/// Buckets of the new table that one source group reaches.
pub const SOURCE_BUCKET_COUNT: usize = 16;
/// Buckets of the good table that one address group reaches.
pub const GROUP_BUCKET_COUNT: usize = 4;
/// Addresses that are left alone for misbehaviour, at most.
pub const DISCOURAGED_COUNT_MAX: usize = 1000;
/// Of the addresses that are known so many percent are told to a peer that asks. Source: Core's `MAX_PCT_ADDR_TO_SEND`.
pub const TOLD_PERCENT: usize = 23;
/// How long a discouraged address is left alone, in seconds.
pub const DISCOURAGED_S: u64 = 24 * 3600;

const COUNT_MAX: usize = (NEW_BUCKET_COUNT + GOOD_BUCKET_COUNT) * BUCKET_SIZE;
const DAY_S: u64 = 24 * 3600;
/// An address not seen for this time is forgotten. Source: `ADDRMAN_HORIZON`.
const HORIZON_S: u64 = 30 * DAY_S;
/// Failures after which an address that never worked is forgotten. Source: `ADDRMAN_RETRIES`.
const FAILURES_MAX_NEW: u32 = 3;
/// The same for one that worked a week ago or before. Source: `ADDRMAN_MAX_FAILURES`.
const FAILURES_MAX_GOOD: u32 = 10;
/// How long an address is not tried again. Source: `AddrInfo::GetChance`.
const REST_S: u64 = 600;
/// How much later an address has to be seen for that to be noted. Source: Core's `update_interval` of `Connected_`.
const SEEN_STEP_S: u64 = 20 * 60;
/// What gossip says of the time an address was seen is taken to be older by this. Source: Core.
const GOSSIP_PENALTY_S: u64 = 2 * 3600;

/// What is known of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    services: u64,
    seen: u64,
    tried: u64,
    success: u64,
    failures: u32,
    good: bool,
    source: [u8; 5],
}

impl Known {
    /// Not worth keeping. Source: Bitcoin Core b88bffe, `AddrInfo::IsTerrible`.
    fn is_terrible(&self, now: u64) -> bool {
        if now.saturating_sub(self.tried) < 60 {
            return false;
        }
        self.seen > now + REST_S
            || now.saturating_sub(self.seen) > HORIZON_S
            || (self.success == 0 && self.failures >= FAILURES_MAX_NEW)
            || (now.saturating_sub(self.success) > 7 * DAY_S && self.failures >= FAILURES_MAX_GOOD)
    }

    /// How likely it is to be chosen when drawn, of 1. Source: `AddrInfo::GetChance`.
    fn chance(&self, now: u64) -> f64 {
        let rested = if now.saturating_sub(self.tried) < REST_S { 0.01 } else { 1.0 };
        rested * 0.66f64.powi(i32::try_from(self.failures.min(8)).expect("at most 8"))
    }
}

/// Bytes that are no address memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressesError {
    /// They do not start as one, or with another version.
    Start,
    /// They are not what was written: the checksum differs.
    Checksum,
    /// They end too early.
    Cut(DecodeError),
}

impl fmt::Display for AddressesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressesError::Start => write!(f, "no address memory of this version: it starts empty"),
            AddressesError::Checksum => write!(f, "address memory is damaged (checksum): it starts empty"),
            AddressesError::Cut(error) => write!(f, "address memory is damaged ({error}): it starts empty"),
        }
    }
}

impl std::error::Error for AddressesError {}

/// Bytes of a memory without an address: magic, version, key, count, checksum.
pub const EMPTY_BYTES: usize = 8 + 4 + 8 + 4 + 8;

/// The address memory.
#[derive(Debug)]
pub struct Addresses {
    key: u64,
    known: HashMap<PeerAddress, Known>,
    new: Vec<Option<PeerAddress>>,
    good: Vec<Option<PeerAddress>>,
    discouraged: HashMap<NetAddress, u64>,
    answers: AddressAnswers,
}

const MAGIC: &[u8; 8] = b"ffwdaddr";
const VERSION: u32 = 1;

/// Puts the checksum behind what a file holds.
fn put_sum(mut out: Vec<u8>) -> Vec<u8> {
    let sum = kernels::sha256::sha256d(&out);
    out.extend_from_slice(&sum[..8]);
    out
}

impl Addresses {
    /// An empty memory.
    pub fn new(rng: &mut Rng) -> Addresses {
        Addresses {
            key: rng.number(),
            known: HashMap::new(),
            new: vec![None; NEW_BUCKET_COUNT * BUCKET_SIZE],
            good: vec![None; GOOD_BUCKET_COUNT * BUCKET_SIZE],
            discouraged: HashMap::new(),
            answers: AddressAnswers::default(),
        }
    }

    /// How many addresses are known.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// BIP155's numbers of the networks that addresses are known of.
    pub fn networks(&self) -> HashSet<u8> {
        self.known.keys().map(|peer| peer.address.network()).collect()
    }

    fn hash(&self, what: impl Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.key, what).hash(&mut hasher);
        hasher.finish() as usize
    }

    fn new_place(&self, peer: &PeerAddress, source: &[u8; 5]) -> usize {
        let group = peer.address.group();
        let lane = self.hash((0, source, group.bytes())) % SOURCE_BUCKET_COUNT;
        let bucket = self.hash((1, source, lane)) % NEW_BUCKET_COUNT;
        bucket * BUCKET_SIZE + self.hash((2, peer)) % BUCKET_SIZE
    }

    fn good_place(&self, peer: &PeerAddress) -> usize {
        let lane = self.hash((3, peer)) % GROUP_BUCKET_COUNT;
        let bucket = self.hash((4, peer.address.group().bytes(), lane)) % GOOD_BUCKET_COUNT;
        bucket * BUCKET_SIZE + self.hash((5, peer)) % BUCKET_SIZE
    }

    /// Takes addresses from gossip. `source` is the group of who told them.
    pub fn add(&mut self, entries: &[AddressEntry], source: Group, now: u64) {
        let source = source.bytes().try_into().expect("a group has 5 bytes");
        for entry in entries {
            let reachable = entry.peer.address.is_routable();
            let serves = entry.services & (services::NETWORK | services::NETWORK_LIMITED) != 0;
            if !reachable || !serves {
                continue;
            }
            let told = u64::from(entry.time);
            let believable = told > 100_000_000 && told <= now + REST_S;
            let seen = if believable { told.saturating_sub(GOSSIP_PENALTY_S) } else { now.saturating_sub(5 * DAY_S) };
            self.add_one(entry.peer, entry.services, seen, source, now);
        }
    }

    fn add_one(&mut self, peer: PeerAddress, services: u64, seen: u64, source: [u8; 5], now: u64) {
        if let Some(known) = self.known.get_mut(&peer) {
            known.seen = known.seen.max(seen);
            // Gossip may add services; only a handshake takes them away.
            known.services |= services;
            return;
        }
        let known = Known { services, seen, tried: 0, success: 0, failures: 0, good: false, source };
        if !known.is_terrible(now) {
            self.put_new(peer, known, now);
        }
    }

    fn put_new(&mut self, peer: PeerAddress, known: Known, now: u64) {
        let place = self.new_place(&peer, &known.source);
        if let Some(old) = self.new[place] {
            if !self.known.get(&old).is_none_or(|old| old.is_terrible(now)) {
                return;
            }
            self.known.remove(&old);
        }
        self.new[place] = Some(peer);
        self.known.insert(peer, Known { good: false, ..known });
    }

    /// A connection to `peer` is tried.
    pub fn tried(&mut self, peer: &PeerAddress, now: u64) {
        if let Some(known) = self.known.get_mut(peer) {
            known.tried = now;
            known.failures = known.failures.saturating_add(1);
        }
    }

    /// A handshake with `peer` succeeded: these are its services.
    pub fn succeeded(&mut self, peer: &PeerAddress, offered: u64, now: u64) {
        let Some(mut known) = self.known.remove(peer) else { return };
        let new_place = self.new_place(peer, &known.source);
        if self.new[new_place] == Some(*peer) {
            self.new[new_place] = None;
        }
        // When it was seen is told to others, and would tell them who is connected: it changes at the end of the connection.
        (known.services, known.success, known.tried, known.failures, known.good) = (offered, now, now, 0, true);
        let place = self.good_place(peer);
        let old = self.good[place].replace(*peer).filter(|old| old != peer);
        self.known.insert(*peer, known);
        if let Some(old) = old
            && let Some(known) = self.known.remove(&old)
        {
            self.put_new(old, known, now);
        }
    }

    /// A connection to `peer`, whose handshake was done, ended: it was seen until now. Not where it was seen just before, so
    /// that times tell little of single connections. Source: Bitcoin Core b88bffe, `AddrManImpl::Connected_`.
    pub fn disconnected(&mut self, peer: &PeerAddress, now: u64) {
        if let Some(known) = self.known.get_mut(peer)
            && now.saturating_sub(known.seen) > SEEN_STEP_S
        {
            known.seen = now;
        }
    }

    /// Leaves an address alone for a day: it misbehaved.
    pub fn discourage(&mut self, address: NetAddress, now: u64) {
        if self.discouraged.len() >= DISCOURAGED_COUNT_MAX {
            self.discouraged.retain(|_, until| *until > now);
        }
        if self.discouraged.len() >= DISCOURAGED_COUNT_MAX
            && let Some(first) = self.discouraged.iter().min_by_key(|(_, until)| **until).map(|(a, _)| *a)
        {
            self.discouraged.remove(&first);
        }
        self.discouraged.insert(address, now + DISCOURAGED_S);
    }

    /// Whether an address is left alone.
    pub fn is_discouraged(&self, address: &NetAddress, now: u64) -> bool {
        self.discouraged.get(address).is_some_and(|until| *until > now)
    }

    /// An address to connect to, for which `may` holds; `None` when draws find none.
    pub fn choose(
        &self,
        may: impl Fn(&PeerAddress, u64) -> bool,
        now: u64,
        rng: &mut Rng,
    ) -> Option<(PeerAddress, u64)> {
        let good_first = rng.number() & 1 == 0;
        [good_first, !good_first].into_iter().find_map(|good| self.draw(good, &may, now, rng))
    }

    fn draw(
        &self,
        good: bool,
        may: &impl Fn(&PeerAddress, u64) -> bool,
        now: u64,
        rng: &mut Rng,
    ) -> Option<(PeerAddress, u64)> {
        let table = if good { &self.good } else { &self.new };
        // From a random place on, the first that chance and `may` let through; then any that `may` does.
        let start = rng.below(table.len());
        let mut fallback = None;
        for peer in table[start..].iter().chain(&table[..start]).flatten() {
            let Some(known) = self.known.get(peer) else { continue };
            if self.is_discouraged(&peer.address, now) || !may(peer, known.services) {
                continue;
            }
            if (rng.number() as f64) < known.chance(now) * u64::MAX as f64 {
                return Some((*peer, known.services));
            }
            if now.saturating_sub(known.tried) >= REST_S {
                fallback = fallback.or(Some((*peer, known.services)));
            }
        }
        fallback
    }

    /// What a peer that asks for addresses may be told: [`TOLD_PERCENT`] of those that are known, and `count_max`, at most.
    ///
    /// Source: Bitcoin Core b88bffe, `AddrManImpl::GetAddr_`, `MAX_PCT_ADDR_TO_SEND`.
    pub fn sample(&self, count_max: usize, now: u64, rng: &mut Rng) -> Vec<AddressEntry> {
        let count = (self.known.len() * TOLD_PERCENT / 100).min(count_max);
        if count == 0 { Vec::new() } else { self.known(count, None, now, rng) }
    }

    /// What a peer that asks for addresses is told: what others are that ask from there, for about a day; where `from` is not
    /// given, a choice of its own. None that misbehaved or that `is_banned`.
    pub(crate) fn told(
        &mut self,
        from: Option<From>,
        is_banned: impl Fn(&NetAddress) -> bool,
        now: Now,
        rng: &mut Rng,
    ) -> Vec<AddressEntry> {
        let mut answers = std::mem::take(&mut self.answers);
        let choose = |rng: &mut Rng| {
            let mut entries = self.sample(limits::ADDRESS_COUNT_MAX, now.unix, rng);
            entries.retain(|entry| {
                let address = &entry.peer.address;
                !self.is_discouraged(address, now.unix) && !is_banned(address)
            });
            entries
        };
        let entries = match from {
            Some(from) => answers.answer(from, now.since_start, rng, choose),
            None => choose(rng),
        };
        self.answers = answers;
        entries
    }

    /// Addresses worth keeping, of a network or of all, in random order; `count` of them at most, 0: all.
    ///
    /// Source: Bitcoin Core b88bffe, `AddrManImpl::GetAddr_`.
    pub fn known(&self, count: usize, network: Option<u8>, now: u64, rng: &mut Rng) -> Vec<AddressEntry> {
        let is_wanted = |peer: &PeerAddress| network.is_none_or(|network| peer.address.network() == network);
        let known = self.known.iter().filter(|(peer, known)| is_wanted(peer) && !known.is_terrible(now));
        let mut out: Vec<_> = known
            .map(|(peer, known)| AddressEntry {
                peer: *peer,
                services: known.services,
                time: u32::try_from(known.seen).unwrap_or(u32::MAX),
            })
            .collect();
        // The order of a hash table is no secret of the generator's: the choice follows from that alone.
        out.sort_by_key(|entry| entry.peer);
        let count = if count == 0 { out.len() } else { count.min(out.len()) };
        for i in 0..count {
            let other = i + rng.below(out.len() - i);
            out.swap(i, other);
        }
        out.truncate(count);
        out
    }

    /// The memory as bytes of a file.
    ///
    /// Of no address: [`EMPTY_BYTES`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.key.to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.known.len()).expect("bounded by the tables").to_le_bytes());
        for (peer, known) in &self.known {
            let address = peer.address.bytes();
            out.push(peer.address.network());
            out.push(u8::try_from(address.len()).expect("at most 32"));
            out.extend_from_slice(address);
            out.extend_from_slice(&peer.port.to_le_bytes());
            for number in [known.services, known.seen, known.tried, known.success] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&known.failures.to_le_bytes());
            out.push(u8::from(known.good));
            out.extend_from_slice(&known.source);
        }
        put_sum(out)
    }

    /// A file with these bytes behind magic and version, and the right checksum, for `fuzz::fuzz_codec`.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn file_of(contents: &[u8]) -> Vec<u8> {
        put_sum([&MAGIC[..], &VERSION.to_le_bytes(), contents].concat())
    }

    /// Reads what [`Addresses::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// See [`AddressesError`]. The bytes are untrusted: no input panics.
    pub fn from_bytes(bytes: &[u8], now: u64) -> Result<Addresses, AddressesError> {
        let Some((body, sum)) = bytes.split_last_chunk::<8>() else { return Err(AddressesError::Start) };
        if !body.starts_with(MAGIC) || body.get(8..12) != Some(&VERSION.to_le_bytes()) {
            return Err(AddressesError::Start);
        }
        if kernels::sha256::sha256d(body)[..8] != *sum {
            return Err(AddressesError::Checksum);
        }
        let mut reader = Reader::at(body, 12);
        let mut out = Addresses::new(&mut Rng::Seeded(0));
        out.read(&mut reader, now).map_err(AddressesError::Cut)?;
        Ok(out)
    }

    fn read(&mut self, reader: &mut Reader<'_>, now: u64) -> Result<(), DecodeError> {
        self.key = reader.u64()?;
        let count = reader.u32()?;
        for _ in 0..(count as usize).min(COUNT_MAX) {
            let network = reader.u8()?;
            let length = reader.u8()?;
            let address = NetAddress::from_bip155(network, reader.take(usize::from(length))?);
            let port = reader.u16()?;
            let known = Known {
                services: reader.u64()?,
                seen: reader.u64()?,
                tried: reader.u64()?,
                success: reader.u64()?,
                failures: reader.u32()?,
                good: reader.u8()? != 0,
                source: *reader.array()?,
            };
            let Ok(Some(address)) = address else { continue };
            let peer = PeerAddress { address, port };
            if known.is_terrible(now) || self.known.contains_key(&peer) {
                continue;
            }
            if known.good {
                let place = self.good_place(&peer);
                if self.good[place].is_none() {
                    self.good[place] = Some(peer);
                    self.known.insert(peer, known);
                }
            } else {
                self.put_new(peer, known, now);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn peer(a: u8, b: u8, c: u8) -> PeerAddress {
        PeerAddress { address: NetAddress::V4([a, b, c, 1]), port: 8333 }
    }

    fn entry(peer: PeerAddress) -> AddressEntry {
        AddressEntry { peer, services: services::NETWORK | services::WITNESS, time: NOW as u32 - 1000 }
    }

    fn book() -> Addresses {
        Addresses::new(&mut Rng::Seeded(9))
    }

    fn source(a: u8) -> Group {
        NetAddress::V4([a, a, 0, 0]).group()
    }

    #[test]
    fn one_source_group_cannot_fill_the_address_memory() {
        let mut book = book();
        for a in 11..100 {
            for b in 0..200 {
                book.add(&[entry(peer(a, b, 7))], source(8), NOW);
            }
        }
        let bound = SOURCE_BUCKET_COUNT * BUCKET_SIZE;
        assert!(book.count() <= bound, "17,800 addresses of one source: {} are kept", book.count());
        assert!(book.count() > bound / 2);
        // Addresses of one group that all worked.
        for c in 0..=255 {
            let peer = peer(44, 44, c);
            book.add(&[entry(peer)], source(c), NOW);
            book.succeeded(&peer, 9, NOW);
        }
        let good = book.good.iter().flatten().count();
        assert!(good <= GROUP_BUCKET_COUNT * BUCKET_SIZE, "{good}");
    }

    #[test]
    fn unroutable_and_useless_gossip_is_dropped() {
        let mut book = book();
        let good = entry(peer(9, 9, 9));
        let private = entry(peer(10, 0, 0));
        let no_service = AddressEntry { services: 0, ..entry(peer(9, 9, 8)) };
        let old = AddressEntry { time: (NOW - 40 * DAY_S) as u32, ..entry(peer(9, 9, 7)) };
        let future = AddressEntry { time: u32::MAX, ..entry(peer(9, 9, 6)) };
        book.add(&[good.clone(), private, no_service, old, future.clone()], source(1), NOW);
        let mut kept: Vec<_> = book.known.keys().copied().collect();
        kept.sort();
        assert_eq!(kept, [future.peer, good.peer]);
        assert_eq!(book.known[&future.peer].seen, NOW - 5 * DAY_S, "a time of the future is not believed");
    }

    #[test]
    fn failing_address_is_chosen_less_then_forgotten() {
        let mut book = book();
        let mut rng = Rng::Seeded(2);
        let (a, b) = (peer(1, 1, 1), peer(2, 2, 2));
        book.add(&[entry(a), entry(b)], source(3), NOW);
        let choose = |book: &Addresses, rng: &mut Rng, now| book.choose(|_, _| true, now, rng).map(|(p, _)| p);
        book.tried(&a, NOW);
        let drawn: Vec<_> = (0..50).filter_map(|_| choose(&book, &mut rng, NOW)).collect();
        assert!(drawn.iter().filter(|p| **p == b).count() > 40, "the other rests");
        book.discourage(b.address, NOW);
        assert!(book.is_discouraged(&b.address, NOW + DISCOURAGED_S - 1));
        assert_eq!(choose(&book, &mut rng, NOW + REST_S + 1), Some(a), "all that is left, once rested");
        assert_eq!(book.choose(|_, offered| offered & 2 != 0, NOW, &mut rng), None, "no address offers that");
        for i in 0..3 {
            book.tried(&a, NOW + 1000 * i);
        }
        assert!(book.known[&a].is_terrible(NOW + 10_000));
        let is_known =
            |peer: &PeerAddress| book.known(0, None, NOW + 10_000, &mut Rng::Seeded(1)).iter().any(|e| e.peer == *peer);
        assert!(is_known(&b) && !is_known(&a), "it is told to nobody");
    }

    #[test]
    fn a_handshake_tells_nobody_when_it_was() {
        let mut book = book();
        let (a, b) = (peer(1, 1, 1), peer(2, 2, 2));
        book.add(&[entry(a), entry(b)], source(3), NOW);
        let times = |book: &Addresses| {
            let mut told = book.known(0, None, NOW, &mut Rng::Seeded(1));
            told.sort_by_key(|entry| entry.peer);
            told.iter().map(|entry| (entry.peer, entry.time)).collect::<Vec<_>>()
        };
        let before = times(&book);
        book.tried(&a, NOW);
        book.succeeded(&a, 9, NOW);
        assert_eq!(times(&book), before, "it is connected, and its time is as it was");
        let seen = u64::from(before[0].1);
        book.disconnected(&a, seen + SEEN_STEP_S);
        assert_eq!(times(&book), before, "nor does a short time change it");
        book.disconnected(&a, NOW + 5000);
        assert_eq!(times(&book), [(a, NOW as u32 + 5000), before[1]]);
        book.disconnected(&peer(9, 9, 9), NOW);
        assert_eq!(book.count(), 2, "whom nobody knows");
    }

    #[test]
    fn a_part_of_the_addresses_is_told() {
        let mut book = book();
        for i in 0..=255 {
            book.add(&[entry(peer(11 + i % 100, i, 1))], source(i), NOW);
        }
        let known = book.count();
        let told = |max: usize| book.sample(max, NOW, &mut Rng::Seeded(3)).len();
        assert_eq!((told(1000), told(10)), (known * 23 / 100, 10), "of {known}");
        let mut few = Addresses::new(&mut Rng::Seeded(9));
        (0..4).for_each(|i| few.add(&[entry(peer(11, i, 1))], source(i), NOW));
        assert_eq!((few.count(), few.sample(1000, NOW, &mut Rng::Seeded(3)).len()), (4, 0), "23 percent of four");
    }

    #[test]
    fn discouraged_addresses_are_bounded() {
        let mut book = book();
        for i in 0..3000u32 {
            book.discourage(NetAddress::V4(i.to_be_bytes()), NOW + u64::from(i));
        }
        assert_eq!(book.discouraged.len(), DISCOURAGED_COUNT_MAX);
        assert!(book.is_discouraged(&NetAddress::V4(2999u32.to_be_bytes()), NOW));
    }

    #[test]
    fn address_file_round_trips_and_detects_damage() {
        let mut book = book();
        for a in 11..60 {
            let address = if a % 3 == 0 { NetAddress::TorV3([a; 32]) } else { NetAddress::V4([a, 1, 2, 3]) };
            let peer = PeerAddress { address, port: u16::from(a) };
            book.add(&[entry(peer)], source(a), NOW);
            if a % 2 == 0 {
                book.succeeded(&peer, 0x409, NOW);
            }
        }
        let bytes = book.to_bytes();
        let back = Addresses::from_bytes(&bytes, NOW).unwrap();
        assert_eq!((back.known, back.key), (book.known.clone(), book.key));
        assert_eq!((back.new, back.good), (book.new, book.good));
        for cut in 0..bytes.len() {
            assert!(Addresses::from_bytes(&bytes[..cut], NOW).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(Addresses::from_bytes(&bad, NOW).is_err(), "byte {at}");
        }
        // A right checksum over anything at all is survived too.
        let mut rng = Rng::Seeded(4);
        for _ in 0..300 {
            let mut body = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
            let mut random = vec![0; rng.below(400)];
            rng.fill(&mut random);
            body.extend_from_slice(&random);
            let sum = kernels::sha256::sha256d(&body);
            body.extend_from_slice(&sum[..8]);
            let _ = Addresses::from_bytes(&body, NOW);
        }
        let why = Addresses::from_bytes(b"nonsense", NOW).unwrap_err().to_string();
        assert!(why.contains("starts empty"), "{why}");
    }
}
