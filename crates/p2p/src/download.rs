//! The download scheduler: which block is requested from which peer, and which peer is disconnected.
//!
//! In: the missing blocks in chain order; the peers that can serve them; arrived blocks, and the time.
//! Out: requests, and peers to disconnect with the reason.
//!
//! - The lowest block that was not requested yet goes to the peer that is expected to deliver it first.
//! - A block is requested only if it is less than `window_count` above the lowest missing block, and if the bytes
//!   held plus those expected stay within `window_bytes`. The lowest missing block itself is always requested once
//!   the node has processed all arrived blocks: everything in the window may build on it.
//! - A peer has as many requests in flight as it can answer in [`HORIZON`] (or two round trips, if they are longer)
//!   at its measured speed: [`IN_FLIGHT_COUNT_MIN`] to [`IN_FLIGHT_COUNT_MAX`]. Until its speed is known, the limit
//!   is [`IN_FLIGHT_COUNT_START`] plus one for each arrived block, so it doubles with each round trip (slow start,
//!   Jacobson 1988): a slow line does not begin with a queue of many seconds.
//! - A peer with requests in flight that sent nothing useful for [`QUIET_AFTER`] and two round trips is quiet: its
//!   blocks are also requested from others (`repeat`) and take no space in the window, and it gets no new requests
//!   except for the lowest block.
//! - If a peer could deliver more, but everything in the window is in flight, it also gets requests that are in
//!   flight from slower peers, lowest first, if it would deliver them in less than half of their time (`repeat`):
//!   the slowest line delays neither the window nor the end of a download. (End game, Cohen 2003.)
//! - If the lowest block still stalls, it is requested from a second peer after [`REPEAT_AFTER`] or four times the time
//!   that this peer would need, whichever is longer; and from one more each [`THIRD_AFTER`] while all of them stall.
//!   After the stall timeout (2 s, doubled up to 64 s with each peer disconnected, times 0.85 with each block stored) the
//!   stalling peer is disconnected, unless the user named it, its speed is at least half the median of the others, or
//!   their speed is unknown.
//! - An inbound peer gets a request only if no outbound peer that may get requests has the block: any host can
//!   connect to us. Source: Core prefers outbound peers, too (`m_num_preferred_download_peers`). Once an outbound
//!   peer can serve them, it gets all requests that inbound peers have not begun to answer ([`REPEAT_AFTER`]); blocks
//!   from the inbound peers are still accepted.
//! - The speed of a peer counts only requested blocks; other messages do not raise it.
//! - After `notfound`, that block and all below are not requested from the peer for [`LACKS_MIN`], doubled up to
//!   [`LACKS_MAX`].
//! - A peer slower than a quarter of the median of the busy automatic peers for [`SLOW_AFTER`] is disconnected, one at
//!   a time, if another can replace it and [`DOWNLOAD_PEER_COUNT_MIN`] remain.
//! - The only peer with requests in flight is never disconnected for being slow: only if no byte arrived for 10 min.
//!
//! Where: `list` has the blocks of one chain and their states; `link` one peer, its requests, its measured speed and
//! whether it is quiet; `repeat` the requests that are made of a second peer; `stalling` the peers to disconnect; `seen`
//! the state for reports. The constants below are the limits. `hub/block_download` calls the scheduler.
//!
//! Absent on purpose: the contents and validity of blocks.

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

/// Requests in flight of a peer that has delivered nothing. Core requests 16 from each peer
/// (`MAX_BLOCKS_IN_TRANSIT_PER_PEER`): on a line of 1 Mbit/s these take 13 s if blocks have 100 kB, and fill a window
/// that faster lines could use.
pub const IN_FLIGHT_COUNT_START: usize = 4;
/// The same after initial download: few blocks are missing, and a reorganization needs them all. Source: Core's
/// `MAX_BLOCKS_IN_TRANSIT_PER_PEER`, `HeadersDirectFetchBlocks`.
pub const IN_FLIGHT_COUNT_TIP: usize = 16;
/// A slow peer still has one block in transfer and one queued.
pub const IN_FLIGHT_COUNT_MIN: usize = 2;
/// Enough for 10,000 blocks a second at 50 ms: blocks of the chain's first years have 250 bytes.
pub const IN_FLIGHT_COUNT_MAX: usize = 512;
/// A peer's requests in flight are the blocks that it delivers in this time.
pub const HORIZON: Duration = Duration::from_secs(1);
/// How often speeds are measured.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// A stalling block is requested from a second peer after this time.
pub const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// A block for which two peers stall is requested from a third after this time, and so on.
pub const THIRD_AFTER: Duration = Duration::from_secs(10);
/// First time for which a block is not requested again after `notfound`.
pub const LACKS_MIN: Duration = Duration::from_secs(1);
/// Maximum of that time.
pub const LACKS_MAX: Duration = Duration::from_secs(600);
/// Maximum number of the lowest blocks that are requested from a second peer at once.
pub const REPEAT_COUNT_MAX: usize = 16;
/// First and shortest stall timeout. Source: Core's `BLOCK_STALLING_TIMEOUT_DEFAULT`.
pub const STALL_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Longest stall timeout. Source: Core's `BLOCK_STALLING_TIMEOUT_MAX`.
pub const STALL_TIMEOUT_MAX: Duration = Duration::from_secs(64);
/// A peer with requests in flight that completes no block for this time, plus half of it for each other downloading
/// peer, is disconnected. Source: Core's `BLOCK_DOWNLOAD_TIMEOUT_BASE`.
pub const BLOCK_TIMEOUT: Duration = Duration::from_secs(600);
/// A peer is slow if the others' median speed is more than this many times its own.
pub const SLOW_FACTOR: u64 = 4;
/// How long a peer must be slow before it is disconnected.
pub const SLOW_AFTER: Duration = Duration::from_secs(30);
/// Number of downloading peers that are always kept.
pub const DOWNLOAD_PEER_COUNT_MIN: usize = 2;
/// Blocks are requested from a pruned peer down to this depth below its best block; two blocks are left out for races.
/// Source: Core's `NODE_NETWORK_LIMITED_MIN_BLOCKS` less two.
pub const LIMITED_DEPTH_MAX: u32 = 286;

/// Delivery timeout: a requested block that a peer has not delivered after this time is overdue. Core waits at least
/// 10 minutes ([`BLOCK_TIMEOUT`]); with this shorter time, a block that only one peer announces delays the end of a
/// sync by at most two minutes.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(90);
/// Minimum rate of delivery in bytes a second. While a peer sends an overdue block faster than this, only
/// [`BLOCK_TIMEOUT`] applies. A chain grows by blocks of about 2 MB in 600 s: a slower peer never brings a node to
/// the tip. Its announcements no longer count, but its blocks are still accepted.
pub const DELIVERY_RATE_MIN: f64 = 4000.0;
/// A peer with requests in flight is quiet if for this time, and two round trips, it completed no block and sent less
/// than [`DELIVERY_RATE_MIN`].
pub const QUIET_AFTER: Duration = Duration::from_secs(1);
/// Interval between checks whether an idle peer can take requests from slower ones.
pub const TAKE_INTERVAL: Duration = Duration::from_millis(50);

/// Assumed size of a block before the first one arrives.
const BLOCK_BYTES_START: f64 = 100_000.0;
/// Limits of the download window.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum of bytes held and expected.
    pub window_bytes: usize,
    /// Maximum number of blocks beyond the lowest missing one.
    pub window_count: usize,
    /// Requests in flight of a peer whose speed is not measured yet: [`IN_FLIGHT_COUNT_START`] or
    /// [`IN_FLIGHT_COUNT_TIP`].
    pub start_count: usize,
}

/// How a peer was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The user named it: it is never disconnected for being slow.
    Named,
    /// An automatic outbound peer.
    Sought,
    /// An inbound peer.
    Inbound,
}

/// The part of a list that a peer can serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// It has this many blocks from the start of the list.
    pub count: usize,
    /// It has only blocks from this height on.
    pub height_min: Height,
}

/// Kind of an arrived block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Requested and still missing: it goes to the node.
    Wanted(Want),
    /// Requested from this peer, and already delivered by another.
    Twice,
    /// Requested from this peer, but no longer on a chain to download: another block may build on it.
    Late,
    /// Never requested from this peer.
    Unasked,
}

/// Position of the lowest missing block in a peer's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The peer sends it next; or it was not requested yet, and any peer may free space for it.
    Next,
    /// After other requested blocks.
    Queued,
    /// It was requested from other peers.
    Elsewhere,
}

#[derive(Debug)]
struct Request {
    want: Want,
    /// When it was first requested.
    asked_at: Duration,
    /// The peers that it was requested from, in order.
    owners: Vec<PeerId>,
}

/// The scheduler.
#[derive(Debug)]
pub struct Download {
    /// One list for each chain of the peers, the preferred chain first.
    lists: Vec<List>,
    requests: HashMap<BlockHash, Request>,
    /// Blocks passed to the node without a verdict yet: the sending peer, and their size in bytes. If several peers sent
    /// one, the last that was passed on: an unsolicited body does not stand in the way of a requested one.
    unjudged: HashMap<BlockHash, (PeerId, usize)>,
    unjudged_bytes: usize,
    links: BTreeMap<PeerId, Link>,
    version: u64,
    /// Mean size of recent blocks, and the number of blocks in it.
    block_bytes: f64,
    arrived_count: u32,
    stall_timeout: Duration,
    sampled_at: Duration,
    /// Reading was paused since the last sample.
    was_paused: bool,
    slow_checked_at: Duration,
    window_full: bool,
    /// An outbound peer may be able to serve requests of inbound peers.
    may_take_over: bool,
    /// The lowest missing block of the preferred list, and since when it is the lowest.
    head: Option<(BlockHash, Duration)>,
    /// When idle peers last took requests from slower ones.
    taken_at: Duration,
    /// The user's limit of the download from all peers together, in bytes a second.
    rate_max: Option<f64>,
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
            rate_max: None,
        }
    }
}

impl Download {
    // Lists of missing blocks.

    /// Replaces the lists: each has the blocks of one chain, lowest first; the preferred chain comes first.
    pub fn want(&mut self, lists: Vec<Vec<Want>>) {
        // A list with the same end as an earlier one is complete: it has no further blocks.
        let said: Vec<_> = self.lists.iter().filter(|list| list.more_said).filter_map(List::last).collect();
        // The time of a stalling block is kept, too: new lists do not restart it.
        let held: Vec<_> = self.lists.iter().filter_map(|list| list.held_up).collect();
        self.lists.clear();
        for blocks in lists {
            let state = |hash: &BlockHash| match () {
                () if self.unjudged.contains_key(hash) => WantState::Arrived,
                () if self.requests.contains_key(hash) => WantState::Requested,
                () => WantState::Missing,
            };
            let Some(last) = blocks.last().map(|want| want.hash) else { continue };
            // Chains that fork only above this list share it.
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

    /// Number of lists.
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

    /// Whether few blocks of a list are left to request: true once for each list.
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

    // Peers.

    /// Adds a peer that blocks may be requested from. `received_bytes` is the counter that [`Download::sample`] will
    /// get.
    pub fn add_peer(&mut self, peer: PeerId, source: Source, received_bytes: u64, now: Duration) {
        let link = Link::new(source, received_bytes, now);
        self.links.insert(peer, link);
    }

    /// Sets the list of a peer's chain, and the part of it that the peer has.
    pub fn set_reach(&mut self, peer: PeerId, list: usize, reach: Reach) {
        if let Some(link) = self.links.get_mut(&peer) {
            (link.list, link.reach, link.is_reach_known) = (list, reach, true);
            self.may_take_over |= link.source != Source::Inbound && reach.count > 0;
        }
    }

    /// Requests the blocks in flight from inbound peers again if an outbound peer can serve them: from the latter,
    /// because then no inbound peer is considered. Blocks that the inbound peers still send are accepted.
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

    /// Removes a disconnected peer: its requests go to others.
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

    // Requests.

    /// Assigns requests to peers.
    pub fn assign(&mut self, held_bytes: usize, limits: Limits, now: Duration) -> Vec<(PeerId, Vec<Want>)> {
        let mut out: BTreeMap<PeerId, Vec<Want>> = BTreeMap::new();
        self.window_full = false;
        for link in self.links.values_mut() {
            link.start_with(limits.start_count);
        }
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

    /// Requests blocks of one list; returns whether it requested any.
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
            // A block of quiet peers is on its way again.
            *quiet_count = quiet_count.saturating_sub(usize::from(!owners.is_empty()));
            self.set_state(&want.hash, WantState::Requested);
            self.add_owner(want, peer, now);
            out.entry(peer).or_default().push(want);
            asked = true;
        }
        asked
    }

    /// Whether the block is in flight, or has no verdict yet.
    pub fn is_asked(&self, hash: &BlockHash) -> bool {
        self.requests.contains_key(hash) || self.unjudged.contains_key(hash)
    }

    /// Whether the node has processed every arrived block.
    pub fn node_waits(&self) -> bool {
        self.unjudged.is_empty()
    }

    /// Bytes of the arrived blocks that the node has not processed.
    pub fn unjudged_bytes(&self) -> usize {
        self.unjudged_bytes
    }

    /// Mean size of recent blocks.
    pub fn mean_block_bytes(&self) -> usize {
        self.block_bytes as usize
    }

    fn has_room(&self, quiet_count: usize, held_bytes: usize, limits: Limits) -> bool {
        let expected = (self.requests.len().saturating_sub(quiet_count) + 1) as f64 * self.block_bytes;
        held_bytes as f64 + expected <= limits.window_bytes as f64
    }

    /// Adds a request for a block to a peer: the first one, or a repeated one.
    fn add_owner(&mut self, want: Want, peer: PeerId, now: Duration) {
        let request = self.requests.entry(want.hash);
        request.or_insert_with(|| Request { want, asked_at: now, owners: Vec::new() }).owners.push(peer);
        self.links.get_mut(&peer).expect("chosen among the links").ask(want.hash, now);
    }

    /// The peer that has the block, has a free request slot, and is expected to deliver it first.
    /// The lowest block does not need a free slot, because everything else waits for it. An inbound peer is
    /// considered only if no other peer has the block.
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

    /// Whether a block of this peer has no verdict yet.
    pub fn is_judging(&self, peer: PeerId) -> bool {
        self.unjudged.values().any(|(of, _)| *of == peer)
    }

    // Arrivals.

    /// Records an unsolicited block, which goes to the node all the same; `false` if the node has it already.
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

    /// Records a block that arrived from `peer`.
    pub fn arrived(&mut self, peer: PeerId, hash: &BlockHash, bytes: usize, now: Duration) -> Arrival {
        let Some(link) = self.links.get_mut(&peer) else { return Arrival::Unasked };
        if !link.answered(hash, now) {
            return Arrival::Unasked;
        }
        link.gave();
        // The first blocks outweigh the assumed size.
        self.arrived_count = self.arrived_count.saturating_add(1);
        self.block_bytes += (bytes as f64 - self.block_bytes) / f64::from(self.arrived_count.min(16));
        // It may be due for a request to another peer.
        let missing = || self.lists.iter().find_map(|list| list.missing(hash));
        let asked = self.requests.remove(hash).map(|request| request.want);
        let Some(want) = asked.or_else(missing) else { return Arrival::Twice };
        if !self.lists.iter().any(|list| list.contains(hash)) {
            return Arrival::Late;
        }
        self.begin_judging(peer, hash, bytes);
        Arrival::Wanted(want)
    }

    /// Records a `notfound` of `peer`: for a while the peer counts as pruned up to that block.
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

    /// `peer` sent bytes that are not the block of this height: for a while it counts as lacking that block.
    pub fn lacks(&mut self, peer: PeerId, height: Height, now: Duration) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.lacks(height, now);
        }
    }

    /// The node stored a block (or refused it permanently): it is not requested again. Returns the peer that sent it.
    pub fn judged(&mut self, hash: &BlockHash) -> Option<PeerId> {
        let peer = self.end_judging(hash)?;
        let shorter = self.stall_timeout.mul_f64(0.85);
        self.stall_timeout = shorter.max(STALL_TIMEOUT_MIN);
        Some(peer)
    }

    /// The body that `peer` sent of a block was invalid: the block is requested again, unless another body of it, which
    /// arrived later, has no verdict yet.
    pub fn bad_body(&mut self, peer: PeerId, hash: &BlockHash) {
        if self.unjudged.get(hash).is_some_and(|(of, _)| *of == peer) {
            self.end_judging(hash);
            self.set_state(hash, WantState::Missing);
        }
    }

    // The clock.

    /// Measures speeds from counters of received block bytes. `paused`: reading was paused for a time since the last
    /// call because the node was behind.
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
        let sample = link::Sample { since: self.sampled_at, paused, quiet_after: self.quiet_after() };
        for (id, link) in &mut self.links {
            let Some((bytes, round_trip)) = counters(*id) else { continue };
            link.set_round_trip(round_trip);
            link.measure(bytes, &sample, now);
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
