//! The address memory (Core's address manager): known addresses of peers, their sources, and the results of attempts.
//!
//! It has two tables of buckets: "tried" has addresses to which a connection was made; "new" has addresses from gossip,
//! each in up to eight places. The place of an address follows from a secret key, its group and the group of its source
//! (`place`). An address that would replace another in "tried" waits until that one was tested (`collisions`).
//!
//! Source: Bitcoin Core b88bffe, addrman.cpp, rule by rule. The file is Core's peers.dat ([`peers_file`]). Absent on
//! purpose: the decisions to connect to an address or to send it to a peer ([`crate::hub`]); clocks.

pub mod anchors_file;
pub mod asmap;
mod check;
mod choose;
mod collisions;
mod discouraged;
mod disk_form;
mod entry;
pub mod groups;
pub mod peers_file;
mod place;

pub use choose::{From, Networks};
pub use discouraged::{DISCOURAGED_COUNT_MAX, DISCOURAGED_S, Discouraged};
pub use entry::Entry;
pub use place::{BUCKET_SIZE, BUCKETS_PER_ADDRESS, NEW_BUCKET_COUNT, Place, TRIED_BUCKET_COUNT, Table};

use crate::rng::Rng;
use crate::wire::{AddressEntry, NetAddress, PeerAddress};
use entry::Seconds;
use groups::NetGroups;
use place::Key;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Maximum percentage of the known addresses in an answer to `getaddr`. Source: Core's `MAX_PCT_ADDR_TO_SEND`.
pub const TOLD_PERCENT: usize = 23;
/// Subtracted from the time at which gossip claims an address was seen. Source: Core's `ProcessAddrs`.
pub const GOSSIP_PENALTY_S: u32 = 2 * 3600;
/// Minimum change of an entry's time that is stored. Source: Core's `update_interval` of `Connected_`.
const SEEN_STEP_S: Seconds = 20 * 60;

/// Identifies an entry; never reused.
type Id = NonZeroU64;

/// Number of addresses of one network in each table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    new: usize,
    tried: usize,
}

/// Number of networks: BIP155's numbers, and 0 for addresses that are not routable.
const NETWORK_COUNT: usize = 7;

/// The address memory.
#[derive(Clone, Debug)]
pub struct Addresses {
    key: Key,
    groups: Arc<NetGroups>,
    rng: Rng,
    entries: BTreeMap<Id, Entry>,
    by_peer: HashMap<PeerAddress, Id>,
    /// All entries, in an order that each draw changes.
    order: Vec<Id>,
    next_id: Id,
    new: Vec<Option<Id>>,
    tried: Vec<Option<Id>>,
    /// Number of occupied places in each bucket.
    filled: [Vec<u16>; 2],
    counts: [Counts; NETWORK_COUNT],
    /// Addresses that wait to replace another in "tried".
    collisions: BTreeSet<Id>,
    /// When a connection last succeeded; initially 1, so that "never" (0) is earlier.
    last_good: Seconds,
    /// `-checkaddrman`: all invariants are checked after one in this many operations; 0: never.
    check_ratio: u32,
    /// Results of those checks, for the log.
    said: Vec<String>,
}

/// An entry and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The place.
    pub place: Place,
    /// The entry.
    pub entry: Entry,
}

fn seconds(unix: u64) -> Seconds {
    Seconds::try_from(unix).unwrap_or(Seconds::MAX)
}

impl Addresses {
    /// An empty memory with a random key.
    pub fn new(rng: &mut Rng, groups: Arc<NetGroups>) -> Addresses {
        let key = Key(rng.bytes());
        Addresses::with_key(key, Rng::Seeded(rng.number()), groups)
    }

    /// An empty memory with the key 1 (`-test=addrman`), so that places are predictable.
    pub fn deterministic(groups: Arc<NetGroups>) -> Addresses {
        let mut key = [0; 32];
        key[0] = 1;
        Addresses::with_key(Key(key), Rng::Seeded(0), groups)
    }

    /// An empty memory without a map.
    pub fn plain(rng: &mut Rng) -> Addresses {
        Addresses::new(rng, Arc::default())
    }

    fn with_key(key: Key, rng: Rng, groups: Arc<NetGroups>) -> Addresses {
        Addresses {
            key,
            groups,
            rng,
            entries: BTreeMap::new(),
            by_peer: HashMap::new(),
            order: Vec::new(),
            next_id: NonZeroU64::MIN,
            new: vec![None; NEW_BUCKET_COUNT * BUCKET_SIZE],
            tried: vec![None; TRIED_BUCKET_COUNT * BUCKET_SIZE],
            filled: [vec![0; NEW_BUCKET_COUNT], vec![0; TRIED_BUCKET_COUNT]],
            counts: Default::default(),
            collisions: BTreeSet::new(),
            last_good: 1,
            check_ratio: 0,
            said: Vec::new(),
        }
    }

    /// Sets the ratio of `-checkaddrman`.
    #[must_use]
    pub fn checked_every(mut self, ratio: u32) -> Addresses {
        self.check_ratio = ratio;
        self
    }

    /// How addresses are grouped.
    pub fn groups(&self) -> &Arc<NetGroups> {
        &self.groups
    }

    /// How many addresses are known.
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// Number of addresses in a table: of the network with this BIP155 number, or of all.
    pub fn count_in(&self, table: Table, network: Option<u8>) -> usize {
        let of = |counts: &Counts| match table {
            Table::New => counts.new,
            Table::Tried => counts.tried,
        };
        match network {
            Some(network) => self.counts.get(usize::from(network)).map_or(0, of),
            None => self.counts.iter().map(of).sum(),
        }
    }

    /// Number of known addresses of a network.
    pub fn count_of(&self, network: u8) -> usize {
        self.count_in(Table::New, Some(network)) + self.count_in(Table::Tried, Some(network))
    }

    /// The entry of an address.
    pub fn entry(&self, peer: &PeerAddress) -> Option<&Entry> {
        self.entries.get(self.by_peer.get(peer)?)
    }

    /// Every occupied place of a table, bucket by bucket.
    pub fn placed(&self, table: Table) -> Vec<Placed> {
        let places = self.table(table).iter().enumerate();
        let taken = places.filter_map(|(index, id)| {
            let place = Place { bucket: index / BUCKET_SIZE, position: index % BUCKET_SIZE };
            Some(Placed { place, entry: self.entries.get(&(*id)?)?.clone() })
        });
        taken.collect()
    }

    fn table(&self, table: Table) -> &[Option<Id>] {
        match table {
            Table::New => &self.new,
            Table::Tried => &self.tried,
        }
    }

    /// Puts an address in a place, or empties it; returns the previous one.
    fn put(&mut self, table: Table, index: usize, id: Option<Id>) -> Option<Id> {
        let (places, filled) = match table {
            Table::New => (&mut self.new, &mut self.filled[0]),
            Table::Tried => (&mut self.tried, &mut self.filled[1]),
        };
        let old = std::mem::replace(&mut places[index], id);
        let count = &mut filled[index / BUCKET_SIZE];
        *count -= u16::from(old.is_some());
        *count += u16::from(id.is_some());
        old
    }

    /// The buckets of a table that are not empty.
    fn filled(&self, table: Table) -> Vec<usize> {
        let counts = &self.filled[usize::from(table == Table::Tried)];
        let buckets = counts.iter().enumerate();
        buckets.filter(|(_, count)| **count > 0).map(|(bucket, _)| bucket).collect()
    }

    fn find(&self, peer: &PeerAddress) -> Option<Id> {
        self.by_peer.get(peer).copied()
    }

    fn of(&mut self, id: Id) -> &mut Entry {
        self.entries.get_mut(&id).expect("an entry of the tables is there")
    }

    /// Creates an entry that is in no bucket yet. It counts as new.
    fn create(&mut self, mut entry: Entry) -> Id {
        let id = self.next_id;
        self.next_id = id.checked_add(1).expect("64 bits are enough");
        entry.place = self.order.len();
        self.order.push(id);
        self.counts[entry.network()].new += 1;
        self.by_peer.insert(entry.peer, id);
        self.entries.insert(id, entry);
        id
    }

    fn swap_order(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        for place in [a, b] {
            let id = self.order[place];
            self.of(id).place = place;
        }
    }

    /// Forgets an address that is in no bucket.
    fn delete(&mut self, id: Id) {
        let last = self.order.len() - 1;
        let place = self.of(id).place;
        self.swap_order(place, last);
        self.order.pop();
        let Some(entry) = self.entries.remove(&id) else { return };
        assert!(!entry.is_tried && entry.new_count == 0, "only an address in no bucket is forgotten");
        self.counts[entry.network()].new -= 1;
        self.by_peer.remove(&entry.peer);
    }

    /// Empties a place in "new"; an address that has no other place is forgotten.
    fn clear_new(&mut self, place: Place) {
        let Some(id) = self.put(Table::New, place.index(), None) else { return };
        let entry = self.of(id);
        entry.new_count -= 1;
        if entry.new_count == 0 {
            self.delete(id);
        }
    }

    /// Adds addresses that `source` announced, with times reduced by `penalty_s`; returns whether one got a place.
    ///
    /// Source: Bitcoin Core b88bffe, `AddrManImpl::Add_`.
    pub fn add(&mut self, told: &[AddressEntry], source: NetAddress, penalty_s: u32, now: u64) -> bool {
        self.look();
        let added = told.iter().filter(|one| self.add_one(one, source, penalty_s, seconds(now))).count();
        self.look();
        added > 0
    }

    /// Source: Bitcoin Core b88bffe, `AddrManImpl::AddSingle`.
    fn add_one(&mut self, told: &AddressEntry, source: NetAddress, penalty_s: u32, now: Seconds) -> bool {
        if !told.peer.address.is_routable() {
            return false;
        }
        // The time that a peer announces for itself is trusted.
        let penalty = if told.peer.address == source { 0 } else { penalty_s };
        let seen = told.time.saturating_sub(penalty);
        let id = match self.find(&told.peer) {
            Some(id) if self.may_take_another_place(id, told, seen, now) => id,
            Some(_) => return false,
            None => self.create(Entry { time: seen, ..Entry::new(told, source) }),
        };
        let place = self.key.new_place(&told.peer, source, &self.groups);
        let there = self.new[place.index()];
        if there == Some(id) {
            return false;
        }
        let new_count = self.entries[&id].new_count;
        let may = there.is_none_or(|other| {
            let other = &self.entries[&other];
            other.is_terrible(now) || (other.new_count > 1 && new_count == 0)
        });
        if may {
            self.clear_new(place);
            self.of(id).new_count += 1;
            self.put(Table::New, place.index(), Some(id));
        } else if new_count == 0 {
            self.delete(id);
        }
        may
    }

    /// Updates a known entry from gossip; returns whether it may get one more place in "new".
    fn may_take_another_place(&mut self, id: Id, told: &AddressEntry, seen: u32, now: Seconds) -> bool {
        const HOUR: Seconds = 3600;
        let entry = self.of(id);
        let is_online = now.saturating_sub(told.time.into()) < 24 * HOUR;
        let interval = if is_online { HOUR } else { 24 * HOUR };
        if Seconds::from(entry.time) < Seconds::from(seen) - interval {
            entry.time = seen;
        }
        entry.services |= told.services;
        let count = entry.new_count;
        if told.time <= entry.time || entry.is_tried || count == BUCKETS_PER_ADDRESS {
            return false;
        }
        // Each further place is half as likely.
        self.rng.below(1 << count) == 0
    }

    /// Records an attempt to connect to `peer`; `counts`: a failure counts because we are not offline.
    ///
    /// Source: Bitcoin Core b88bffe, `AddrManImpl::Attempt_`.
    pub fn attempted(&mut self, peer: &PeerAddress, counts: bool, now: u64) {
        self.look();
        let last_good = self.last_good;
        let Some(id) = self.find(peer) else { return };
        let entry = self.of(id);
        entry.last_try = seconds(now);
        if counts && entry.last_counted < last_good {
            entry.last_counted = seconds(now);
            entry.attempts = entry.attempts.saturating_add(1);
        }
    }

    /// Records a successful connection to `peer`; returns whether that moved it to "tried".
    pub fn good(&mut self, peer: &PeerAddress, now: u64) -> bool {
        self.look();
        let moved = self.note_good(peer, Eviction::AfterTest, seconds(now));
        self.look();
        moved
    }

    /// Source: Bitcoin Core b88bffe, `AddrManImpl::Good_`.
    fn note_good(&mut self, peer: &PeerAddress, eviction: Eviction, now: Seconds) -> bool {
        self.last_good = now;
        let Some(id) = self.find(peer) else { return false };
        let entry = self.of(id);
        // The time is sent to other peers, and would reveal who is connected: it changes at the end of the connection.
        (entry.last_success, entry.last_try, entry.attempts) = (now, now, 0);
        if entry.is_tried || entry.new_count == 0 {
            return false;
        }
        let place = self.key.tried_place(peer, &self.groups);
        if eviction == Eviction::AfterTest && self.tried[place.index()].is_some() {
            if self.collisions.len() < collisions::COLLISION_COUNT_MAX {
                self.collisions.insert(id);
            }
            return false;
        }
        self.make_tried(id, place);
        true
    }

    /// Source: Bitcoin Core b88bffe, `AddrManImpl::MakeTried`.
    fn make_tried(&mut self, id: Id, place: Place) {
        let peer = self.entries[&id].peer;
        let start = self.key.new_bucket(&peer, self.entries[&id].source, &self.groups);
        for step in 0..NEW_BUCKET_COUNT {
            let at = self.key.position(Table::New, (start + step) % NEW_BUCKET_COUNT, &peer).index();
            if self.new[at] == Some(id) {
                self.put(Table::New, at, None);
                self.of(id).new_count -= 1;
                if self.entries[&id].new_count == 0 {
                    break;
                }
            }
        }
        assert_eq!(self.entries[&id].new_count, 0, "it was found in as many buckets as it is in");
        if let Some(old) = self.put(Table::Tried, place.index(), None) {
            self.make_new_again(old);
        }
        self.put(Table::Tried, place.index(), Some(id));
        let network = self.entries[&id].network();
        self.of(id).is_tried = true;
        self.counts[network].new -= 1;
        self.counts[network].tried += 1;
    }

    /// Moves an address that lost its place in "tried" to "new", replacing any address there.
    fn make_new_again(&mut self, id: Id) {
        let Entry { peer, source, .. } = self.entries[&id];
        let network = self.entries[&id].network();
        let place = self.key.new_place(&peer, source, &self.groups);
        self.clear_new(place);
        let entry = self.of(id);
        (entry.is_tried, entry.new_count) = (false, 1);
        self.put(Table::New, place.index(), Some(id));
        self.counts[network].tried -= 1;
        self.counts[network].new += 1;
    }

    /// Records the end of a connection to `peer` with a finished handshake: the address was seen until now. The time
    /// is left as it is if the address was seen shortly before, so that times reveal little about single connections.
    /// Source: Bitcoin Core b88bffe, `AddrManImpl::Connected_`.
    pub fn disconnected(&mut self, peer: &PeerAddress, now: u64) {
        let Some(id) = self.find(peer) else { return };
        let entry = self.of(id);
        if seconds(now) - Seconds::from(entry.time) > SEEN_STEP_S {
            entry.time = u32::try_from(now).unwrap_or(u32::MAX);
        }
    }

    /// Stores the services that a peer announced in its own `version` message. Source: Bitcoin Core b88bffe,
    /// `AddrManImpl::SetServices_`.
    pub fn set_services(&mut self, peer: &PeerAddress, offered: u64) {
        if let Some(id) = self.find(peer) {
            self.of(id).services = offered;
        }
    }

    /// Checks all invariants if `-checkaddrman` requires it now.
    fn look(&mut self) {
        const SAID_COUNT_MAX: usize = 64;
        if self.check_ratio == 0 || self.rng.below(self.check_ratio as usize) > 0 {
            return;
        }
        if self.said.len() < SAID_COUNT_MAX {
            let new = self.count_in(Table::New, None);
            let tried = self.count_in(Table::Tried, None);
            self.said.push(format!("CheckAddrman: new {new}, tried {tried}, total {} started", self.count()));
            self.said.push("CheckAddrman: completed".to_owned());
        }
        let code = self.check();
        assert!(code.is_none(), "ADDRMAN CONSISTENCY CHECK FAILED!!! err={}", code.unwrap_or_default());
    }

    /// Removes and returns the results of the checks, for the log.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }
}

/// Whether an address that occupies the place of another is tested before it is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Eviction {
    AfterTest,
    AtOnce,
}

#[cfg(test)]
mod eclipse;
#[cfg(test)]
mod tests;
