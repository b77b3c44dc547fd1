//! The download scheduler: which block is asked of which peer, and which peer is disconnected.
//!
//! In: the blocks wanted, in chain order; who can serve them; what arrived, and the time.
//! Out: requests, and peers to disconnect with the reason.
//!
//! - The lowest block that no peer was asked for goes to the peer that is expected to deliver it first.
//! - Nothing is asked for that lies `window_count` above the lowest block that has not arrived, nor so
//!   much that the bytes held and those expected exceed `window_bytes`; but that lowest block always is, if the
//!   node has done with what came: everything in the window may stand on it.
//! - A peer has as many requests in flight as it can answer in [`HORIZON`] (or two round trips, if they
//!   are longer) at the speed it shows: [`IN_FLIGHT_COUNT_MIN`] to [`IN_FLIGHT_COUNT_MAX`]. Until its speed is known these are
//!   [`IN_FLIGHT_COUNT_START`] and one more for each block that came, so they double with each round trip (slow start, Jacobson
//!   1988): a slow line does not begin with a queue of many seconds.
//! - A peer that owes blocks and sent nothing useful for [`QUIET_AFTER`] and two round trips is quiet: what it owes is asked of
//!   others ([`repeat`]) and takes no room, and nothing more is asked of it but the lowest block.
//! - When a peer could deliver more, but everything in the window is in flight, it is asked for what slower ones owe and it
//!   would deliver in less than half of their time, lowest first ([`repeat`]): the slowest line holds up neither the window nor
//!   the end of a download. (End game, Cohen 2003.)
//! - A lowest block that is held up all the same is asked of another peer too after [`REPEAT_AFTER`], or four times what the
//!   other would need; of one more each [`THIRD_AFTER`] while all who were asked hold it up. After the stall timeout (2 s, doubled with each peer
//!   disconnected up to 64 s, times 0.85 with each block stored) a peer that holds it up is disconnected, unless its speed is at
//!   least half the others' mean or theirs is not known, or it was named by a person.
//! - A peer that connected to us is asked only for what no peer has that we connected to and may still ask:
//!   any host can connect to us. Source: Core prefers outbound peers, too (`m_num_preferred_download_peers`).
//!   When one that we connected to can give it, it is asked for all that they owe and have not begun to deliver
//!   ([`REPEAT_AFTER`]); what they give is taken all the same.
//! - A peer's speed is that of blocks that were asked for; whatever else it sends makes it no faster.
//! - What a peer says that it lacks, and all below, is not asked of it for [`LACKS_MIN`], doubled up to [`LACKS_MAX`].
//! - A peer slower than a quarter of the others' mean for [`SLOW_AFTER`] is disconnected, one at a time, if
//!   another can take its place and [`DOWNLOAD_PEER_COUNT_MIN`] remain.
//! - The only peer with requests in flight is never disconnected for being slow: only when no byte came for 10 min.
//!
//! Absent on purpose: what a block is, and whether it is good.

mod link;
mod list;
mod repeat;
mod seen;
mod stalling;

use crate::api::{PeerId, Want};
use link::Link;
use list::{List, WantState};
use primitives::{BlockHash, Height};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Requests in flight of a peer that has given nothing. Core asks each for 16 (`MAX_BLOCKS_IN_TRANSIT_PER_PEER`): on a line of
/// 1 Mbit/s these take 13 s where blocks have 100 kB, and fill a window that faster lines could use.
pub const IN_FLIGHT_COUNT_START: usize = 4;
/// A slow peer still has one block coming and one behind it.
pub const IN_FLIGHT_COUNT_MIN: usize = 2;
/// Enough for 10,000 blocks a second at 50 ms: the chain's first years have blocks of 250 bytes.
pub const IN_FLIGHT_COUNT_MAX: usize = 512;
/// A peer's requests in flight are what it delivers in this time.
pub const HORIZON: Duration = Duration::from_secs(1);
/// How often speeds are measured.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// A block that is held up is asked of a second peer after this time.
pub const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// A block that two peers hold up is asked of a third after this time, and so on.
pub const THIRD_AFTER: Duration = Duration::from_secs(10);
/// What a peer said that it lacks is not asked of it again for this time at first.
pub const LACKS_MIN: Duration = Duration::from_secs(1);
/// And for this time at most.
pub const LACKS_MAX: Duration = Duration::from_secs(600);
/// How many of the lowest blocks are asked a second time at once.
pub const REPEAT_COUNT_MAX: usize = 16;
/// First and least stall timeout. Source: Core's `BLOCK_STALLING_TIMEOUT_DEFAULT`.
pub const STALL_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Greatest stall timeout. Source: Core's `BLOCK_STALLING_TIMEOUT_MAX`.
pub const STALL_TIMEOUT_MAX: Duration = Duration::from_secs(64);
/// A peer that has requests in flight and completes none for this time, and half of it again for each
/// other peer that downloads, is disconnected. Source: Core's `BLOCK_DOWNLOAD_TIMEOUT_BASE`.
pub const BLOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// A peer is slow when the others' mean is more than this many times its speed.
pub const SLOW_FACTOR: u64 = 4;
/// How long a peer must be slow to be disconnected.
pub const SLOW_AFTER: Duration = Duration::from_secs(30);
/// How many peers that download are always kept.
pub const DOWNLOAD_PEER_COUNT_MIN: usize = 2;
/// A peer with only its last blocks is asked down to this depth below its best: two for races.
/// Source: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS` less two.
pub const LIMITED_DEPTH_MAX: u32 = 286;

/// A block that a peer was asked for and did not deliver for this time is overdue. Core waits for 10 minutes and more
/// ([`BLOCK_TIMEOUT`]); this much less so that what one peer announces alone holds up the end of a sync for two minutes at most.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(90);
/// While it sends that block faster than this, in bytes a second, only [`BLOCK_TIMEOUT`] counts. A chain grows by blocks of 2 MB
/// or so in 600 s: what is slower than this never brings a node to the tip, and only its say is lost, not what it sends.
pub const DELIVERY_RATE_MIN: f64 = 4000.0;
/// A peer that owes blocks is quiet when for this time, and two round trips, it completed none and sent less than
/// [`DELIVERY_RATE_MIN`].
pub const QUIET_AFTER: Duration = Duration::from_secs(1);
/// How often it is seen whether an idle peer is asked for what slower ones owe.
pub const TAKE_INTERVAL: Duration = Duration::from_millis(50);

/// Size that is assumed of blocks before the first arrives.
const BLOCK_BYTES_START: f64 = 100_000.0;
/// How far the window goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes held and expected, at most.
    pub window_bytes: usize,
    /// Blocks beyond the lowest that has not arrived.
    pub window_count: usize,
}

/// How a peer came to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A person named it: it is never disconnected for being slow.
    Named,
    /// We sought it.
    Sought,
    /// It connected to us.
    Inbound,
}

/// What of the list a peer can serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// How many blocks of the start of the list it has.
    pub count: usize,
    /// And of those only from this height on.
    pub height_min: Height,
}

/// What an arrived block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Asked for and wanted: it goes to the node.
    Wanted(Want),
    /// Asked of this peer, and given by another.
    Twice,
    /// Asked of this peer, and on no chain that is wanted now: another may build on it.
    Late,
    /// Never asked of this peer.
    Unasked,
}

/// When a peer sends the lowest block that has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is what it sends next; or no peer was asked for it, and then any peer may free a place.
    Next,
    /// After others that it was asked for.
    Queued,
    /// Others were asked for it.
    Elsewhere,
}

#[derive(Debug)]
struct Request {
    want: Want,
    /// When it was first asked for.
    asked_at: Duration,
    /// Who was asked, in order.
    owners: Vec<PeerId>,
}

/// The scheduler.
#[derive(Debug)]
pub struct Download {
    /// One for each chain that peers have, the preferred first.
    lists: Vec<List>,
    requests: HashMap<BlockHash, Request>,
    /// Handed to the node, no verdict yet: who sent it, and its bytes.
    unjudged: HashMap<BlockHash, (PeerId, usize)>,
    unjudged_bytes: usize,
    links: BTreeMap<PeerId, Link>,
    version: u64,
    /// Mean of the sizes of blocks that came of late, and of how many it is made.
    block_bytes: f64,
    arrived_count: u32,
    stall_timeout: Duration,
    sampled_at: Duration,
    /// Nothing was read for a time since then.
    was_paused: bool,
    slow_checked_at: Duration,
    window_full: bool,
    /// A peer that we connected to may be able to give what those owe that connected to us.
    may_take_over: bool,
    /// The lowest block of the preferred list that has not arrived, since it is that.
    head: Option<(BlockHash, Duration)>,
    /// When it was last seen what idle peers can take from slower ones.
    taken_at: Duration,
}

impl Default for Download {
    fn default() -> Download {
        Download {
            lists: Vec::new(),
            requests: HashMap::new(),
            unjudged: HashMap::new(),
            unjudged_bytes: 0,
            links: BTreeMap::new(),
            version: 0,
            block_bytes: BLOCK_BYTES_START,
            arrived_count: 0,
            stall_timeout: STALL_TIMEOUT_MIN,
            sampled_at: Duration::ZERO,
            was_paused: false,
            slow_checked_at: Duration::ZERO,
            window_full: false,
            may_take_over: false,
            head: None,
            taken_at: Duration::ZERO,
        }
    }
}

impl Download {
    // What is wanted.

    /// Replaces the lists: each has blocks of one chain, lowest first; the preferred chain comes first.
    pub fn want(&mut self, lists: Vec<Vec<Want>>) {
        // A list that ends where one did before is all there is: there is no more of it to ask for.
        let said: Vec<_> = self.lists.iter().filter(|list| list.more_said).filter_map(List::last).collect();
        // So is a block that is held up: whoever changes what is wanted gives nobody more time for it.
        let held: Vec<_> = self.lists.iter().filter_map(|list| list.held_up).collect();
        self.lists.clear();
        for blocks in lists {
            let state = |hash: &BlockHash| match () {
                () if self.unjudged.contains_key(hash) => WantState::Arrived,
                () if self.requests.contains_key(hash) => WantState::Requested,
                () => WantState::Missing,
            };
            let Some(last) = blocks.last().map(|want| want.hash) else { continue };
            // Chains that part only further up have the same list.
            if self.lists.iter().all(|list| list.last() != Some(last)) {
                let mut list = List::new(blocks, state);
                list.more_said = said.contains(&last);
                list.held_up =
                    held.iter().find(|(hash, _)| list.head().is_some_and(|head| head.hash == *hash)).copied();
                self.lists.push(list);
            }
        }
        for link in self.links.values_mut() {
            (link.list, link.reach, link.is_reach_known) = (0, Reach::default(), false);
        }
        self.version += 1;
    }

    /// Changes with each call of [`Download::want`]: a [`Reach`] belongs to one version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many lists there are.
    pub fn list_count(&self) -> usize {
        self.lists.len()
    }

    /// Length of a list.
    pub fn count(&self, list: usize) -> usize {
        self.lists.get(list).map_or(0, List::len)
    }

    /// The block at a place in a list.
    pub fn at(&self, list: usize, place: usize) -> Option<Want> {
        self.lists.get(list)?.at(place)
    }

    /// Whether few blocks of a list are left to ask for: true once for each.
    pub fn wants_more(&mut self) -> bool {
        let mut few = false;
        for list in self.lists.iter_mut().filter(|list| !list.more_said) {
            list.more_said = list.missing_count() * 2 <= list.len();
            few |= list.more_said;
        }
        few
    }

    fn set_state(&mut self, hash: &BlockHash, state: WantState) {
        self.lists.iter_mut().for_each(|list| list.set(hash, state));
    }

    // Who can serve.

    /// A peer whose blocks may be asked for. `received_bytes` is the counter that [`Download::sample`] will see.
    pub fn add_peer(&mut self, peer: PeerId, source: Source, received_bytes: u64, now: Duration) {
        let link = Link::new(source, received_bytes, now);
        self.links.insert(peer, link);
    }

    /// Says on which of the present lists a peer's chain is, and what of it the peer has.
    pub fn set_reach(&mut self, peer: PeerId, list: usize, reach: Reach) {
        if let Some(link) = self.links.get_mut(&peer) {
            (link.list, link.reach, link.is_reach_known) = (list, reach, true);
            self.may_take_over |= link.source != Source::Inbound && reach.count > 0;
        }
    }

    /// What peers that connected to us owe, and one that we connected to can give, is asked for anew: of the latter, for
    /// then no other comes into question. They still owe it: what they give all the same is taken.
    fn take_over(&mut self, now: Duration) {
        if !std::mem::take(&mut self.may_take_over) {
            return;
        }
        let is_inbound = |id: &PeerId| self.links.get(id).is_some_and(|link| link.source == Source::Inbound);
        let delivers =
            |id: &PeerId| self.links.get(id).is_some_and(|link| now.saturating_sub(link.progress_at) < REPEAT_AFTER);
        let sought: Vec<&Link> = self.links.values().filter(|link| link.source != Source::Inbound).collect();
        let can_give = |want: &Want| {
            let has = |link: &&Link| {
                let place = self.lists.get(link.list).and_then(|list| list.place(&want.hash));
                place.is_some_and(|place| link.has(link.list, place, want.height))
            };
            sought.iter().any(has)
        };
        let owed = self.requests.values().filter(|r| r.owners.iter().all(is_inbound) && can_give(&r.want));
        let (later, due): (Vec<_>, Vec<_>) =
            owed.map(|r| (r.want.hash, r.owners.iter().any(delivers))).partition(|(_, delivers)| *delivers);
        self.may_take_over = !later.is_empty();
        for (hash, _) in due {
            self.requests.remove(&hash);
            self.set_state(&hash, WantState::Missing);
        }
    }

    /// A peer is gone: what it was asked for is asked of others.
    pub fn remove_peer(&mut self, peer: PeerId) {
        let Some(link) = self.links.remove(&peer) else { return };
        self.lists.iter_mut().for_each(|list| list.forget_held_up(|head| link.in_flight.contains(head)));
        for hash in link.in_flight {
            self.disown(peer, &hash);
        }
    }

    fn disown(&mut self, peer: PeerId, hash: &BlockHash) {
        let Some(request) = self.requests.get_mut(hash) else { return };
        request.owners.retain(|owner| *owner != peer);
        if request.owners.is_empty() {
            self.requests.remove(hash);
            self.set_state(hash, WantState::Missing);
        }
    }

    // What is asked.

    /// Chooses what is asked of whom now.
    pub fn assign(&mut self, held_bytes: usize, limits: Limits, now: Duration) -> Vec<(PeerId, Vec<Want>)> {
        let mut out: BTreeMap<PeerId, Vec<Want>> = BTreeMap::new();
        self.window_full = false;
        self.note_head(now);
        for list in 0..self.lists.len() {
            let mut quiet_count = self.quiet_request_count();
            let room = |of: &Download, quiet: usize| of.has_room(quiet, held_bytes, limits);
            if self.assign_list(list, limits.window_count, room, &mut quiet_count, &mut out, now) {
                self.lists[list].held_up = None;
            } else {
                self.take_from_slower(list, limits.window_count, &mut out, now);
                self.repeat(list, &mut out, now);
            }
        }
        out.into_iter().collect()
    }

    /// Asks for blocks of one list; whether anything was asked for.
    fn assign_list(
        &mut self,
        list: usize,
        window_count: usize,
        has_room: impl Fn(&Download, usize) -> bool,
        quiet_count: &mut usize,
        out: &mut BTreeMap<PeerId, Vec<Want>>,
        now: Duration,
    ) -> bool {
        let first = self.lists[list].first_open();
        let mut asked = false;
        let mut from = first;
        let end = first.saturating_add(window_count.max(1));
        while let Some(place) = self.lists[list].first_to_ask(from..end) {
            let all_busy = self.links.values().filter(|link| link.list == list).all(|link| !link.is_free());
            if place != first && all_busy {
                break;
            }
            let is_lowest = place == first && self.node_waits();
            if !(is_lowest || has_room(self, *quiet_count)) {
                self.window_full = true;
                break;
            }
            from = place + 1;
            let want = self.lists[list].at(place).expect("what is to be asked for is in the list");
            let owners = self.requests.get(&want.hash).map_or_else(Vec::new, |request| request.owners.clone());
            let Some(peer) = self.soonest(list, place, &owners) else { continue };
            // What quiet peers owed is on its way again.
            *quiet_count = quiet_count.saturating_sub(usize::from(!owners.is_empty()));
            self.set_state(&want.hash, WantState::Requested);
            self.add_owner(want, peer, now);
            out.entry(peer).or_default().push(want);
            asked = true;
        }
        asked
    }

    /// Whether a peer was asked for this block and has not delivered it, or the node has it and has not judged it.
    pub fn is_asked(&self, hash: &BlockHash) -> bool {
        self.requests.contains_key(hash) || self.unjudged.contains_key(hash)
    }

    /// Whether the node has done with every block that came.
    pub fn node_waits(&self) -> bool {
        self.unjudged.is_empty()
    }

    /// Bytes of the blocks that came and that the node has not done with.
    pub fn unjudged_bytes(&self) -> usize {
        self.unjudged_bytes
    }

    /// Mean size of the blocks that came of late.
    pub fn mean_block_bytes(&self) -> usize {
        self.block_bytes as usize
    }

    fn has_room(&self, quiet_count: usize, held_bytes: usize, limits: Limits) -> bool {
        let expected = (self.requests.len().saturating_sub(quiet_count) + 1) as f64 * self.block_bytes;
        held_bytes as f64 + expected <= limits.window_bytes as f64
    }

    /// A peer is asked for a block, be it the first that is or one more.
    fn add_owner(&mut self, want: Want, peer: PeerId, now: Duration) {
        let request = self.requests.entry(want.hash);
        request.or_insert_with(|| Request { want, asked_at: now, owners: Vec::new() }).owners.push(peer);
        self.links.get_mut(&peer).expect("chosen among the links").ask(want.hash, now);
    }

    /// The peer that has the block and is expected to deliver it first, if one has a free place;
    /// for the lowest block there is always a place, for everything else waits for it. A peer that connected to us
    /// comes into question only where no other has the block.
    fn soonest(&self, list: usize, place: usize, except: &[PeerId]) -> Option<PeerId> {
        let height = self.lists[list].at(place)?.height;
        let first = self.lists[list].first_open();
        let is_free = |link: &Link| link.is_free() || (place == first && except.is_empty());
        let has = |id: &PeerId, link: &Link| !except.contains(id) && link.has(list, place, height);
        let is_sought = |link: &Link| link.source != Source::Inbound;
        let from_sought = self.links.iter().any(|(id, link)| is_sought(link) && has(id, link));
        let expected = |link: &Link| link.expected_s(self.block_bytes);
        self.links
            .iter()
            .filter(|(id, link)| has(id, link) && is_free(link) && (is_sought(link) || !from_sought))
            .min_by(|(_, a), (_, b)| a.is_quiet.cmp(&b.is_quiet).then(expected(a).total_cmp(&expected(b))))
            .map(|(id, _)| *id)
    }

    /// Whether a block of this peer waits for the node's verdict.
    pub fn is_judging(&self, peer: PeerId) -> bool {
        self.unjudged.values().any(|(of, _)| *of == peer)
    }

    // What came.

    /// A block that was not asked for goes to the node all the same; `false` where the node has it already.
    pub fn taken_unasked(&mut self, peer: PeerId, hash: &BlockHash, bytes: usize) -> bool {
        if self.unjudged.contains_key(hash) {
            return false;
        }
        self.begin_judging(peer, hash, bytes);
        true
    }

    fn begin_judging(&mut self, peer: PeerId, hash: &BlockHash, bytes: usize) {
        if let Some((_, before)) = self.unjudged.insert(*hash, (peer, bytes)) {
            self.unjudged_bytes -= before;
        }
        self.unjudged_bytes += bytes;
        self.set_state(hash, WantState::Arrived);
    }

    fn end_judging(&mut self, hash: &BlockHash) -> Option<PeerId> {
        let (peer, bytes) = self.unjudged.remove(hash)?;
        self.unjudged_bytes -= bytes;
        Some(peer)
    }

    /// A block came from `peer`.
    pub fn arrived(&mut self, peer: PeerId, hash: &BlockHash, bytes: usize, now: Duration) -> Arrival {
        let Some(link) = self.links.get_mut(&peer) else { return Arrival::Unasked };
        if !link.answered(hash, now) {
            return Arrival::Unasked;
        }
        link.gave();
        // The first blocks say more of the size than what was assumed.
        self.arrived_count = self.arrived_count.saturating_add(1);
        self.block_bytes += (bytes as f64 - self.block_bytes) / f64::from(self.arrived_count.min(16));
        // It may be about to be asked of another.
        let missing = || self.lists.iter().find_map(|list| list.missing(hash));
        let asked = self.requests.remove(hash).map(|request| request.want);
        let Some(want) = asked.or_else(missing) else { return Arrival::Twice };
        if !self.lists.iter().any(|list| list.contains(hash)) {
            return Arrival::Late;
        }
        self.begin_judging(peer, hash, bytes);
        Arrival::Wanted(want)
    }

    /// `peer` says that it does not have a block: it is taken for pruned up to there, for a while.
    pub fn not_found(&mut self, peer: PeerId, hash: &BlockHash, now: Duration) {
        let Some(link) = self.links.get_mut(&peer) else { return };
        if !link.answered(hash, now) {
            return;
        }
        if let Some(request) = self.requests.get(hash) {
            link.lacks(request.want.height, now);
        }
        self.disown(peer, hash);
    }

    /// `peer` gave what is no block of this height: it is taken to lack it for a while.
    pub fn lacks(&mut self, peer: PeerId, height: Height, now: Duration) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.lacks(height, now);
        }
    }

    /// The node stored a block (or refused it for ever): it is not asked for again. Returns who sent it.
    pub fn judged(&mut self, hash: &BlockHash) -> Option<PeerId> {
        let peer = self.end_judging(hash)?;
        let shorter = self.stall_timeout.mul_f64(0.85);
        self.stall_timeout = shorter.max(STALL_TIMEOUT_MIN);
        Some(peer)
    }

    /// The body of a block was bad: it is asked for again. Returns who sent it.
    pub fn bad_body(&mut self, hash: &BlockHash) -> Option<PeerId> {
        let peer = self.end_judging(hash)?;
        self.set_state(hash, WantState::Missing);
        Some(peer)
    }

    // The clock.

    /// Measures speeds, by counters of the bytes of blocks that came. `paused` says that nothing was read for a time since
    /// the last call, because the node is behind.
    pub fn sample(
        &mut self,
        paused: bool,
        now: Duration,
        counters: impl Fn(PeerId) -> Option<(u64, Option<Duration>)>,
    ) {
        self.was_paused |= paused;
        let passed = now.saturating_sub(self.sampled_at);
        if passed < SAMPLE_INTERVAL {
            return;
        }
        let paused = std::mem::take(&mut self.was_paused);
        for (id, link) in &mut self.links {
            let Some((bytes, round_trip)) = counters(*id) else { continue };
            link.set_round_trip(round_trip);
            link.measure(bytes, self.sampled_at, passed, paused, now);
            link.set_limit(self.block_bytes);
            link.forget_lacks(now);
        }
        self.ask_again_for_quiet();
        if paused {
            self.lists.iter_mut().for_each(|list| list.held_up = None);
        }
        self.take_over(now);
        self.sampled_at = now;
    }

    fn note_head(&mut self, now: Duration) {
        let head = self.lists.first().and_then(List::head).map(|want| want.hash);
        if head != self.head.map(|(hash, _)| hash) {
            self.head = head.map(|hash| (hash, now));
        }
    }
}

#[cfg(test)]
mod tests;
