//! A simulated network of peers, each with a chain, a latency, a bandwidth, a loss rate and a behaviour. Its interface
//! to a session is that of `p2p`: events out; requests and verdicts in.

use crate::session::link::Line;
use p2p::{BlockVerdict, ChainView, Event, HeaderInfo, HeaderRefusal, PeerId, Progress, Want};
use primitives::{BlockHash, Header, Height};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use testkit::Rng;

/// Maximum number of blocks in flight.
const WINDOW: usize = 24;
/// A block that does not arrive is requested again after `AGAIN_MS`, and counts as withheld after `WITHHELD_MS`.
const AGAIN_MS: u64 = 3_000;
const WITHHELD_MS: u64 = 90_000;

/// Behaviour of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    Honest,
    /// It never sends the block at this height.
    Withholds(usize),
    /// For this height it sends another block's body.
    BadBody(usize),
    /// It sends garbage instead of this block.
    Garbage(usize),
    /// It sends its headers slowly, one at a time.
    Dribbles,
    /// It disconnects after this time in milliseconds, and later reconnects.
    Leaves(u64),
    /// It reports that it has no headers.
    HasNothing,
    /// It stays on its chain when the honest peers switch.
    Dishonest,
}

/// Blocks of a chain, genesis first.
pub(super) type Blocks = Arc<Vec<Vec<u8>>>;

/// A peer.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its blocks.
    pub(super) chain: Blocks,
    pub(super) manner: Manner,
    pub(super) latency_ms: u64,
    /// Bandwidth in bytes per millisecond.
    pub(super) rate: u64,
    /// Lost blocks, in percent.
    pub(super) loss_percent: usize,
    /// Number of headers per message.
    pub(super) message: usize,
}

#[derive(Default)]
struct Of {
    /// Number of headers sent so far.
    told: usize,
    has_all_told: bool,
    next_ms: u64,
    is_gone: bool,
    withholds: bool,
}

struct NetState {
    peers: Vec<Peer>,
    of: Vec<Of>,
    places: Vec<HashMap<BlockHash, usize>>,
    now_ms: u64,
    rng: Rng,
    wants: Vec<Vec<Want>>,
    has_said_more: bool,
    targets: Vec<BlockHash>,
    /// Blocks in flight, with peer and body, by arrival time and a unique number.
    on_way: BTreeMap<(u64, u64), (usize, Want, Vec<u8>)>,
    count: u64,
    /// Requested blocks: time of the first request, and time of the next.
    asked: HashMap<BlockHash, (u64, u64)>,
    /// Delivered blocks without a verdict.
    unjudged: HashSet<BlockHash>,
    /// Blocks of the current lists that the node has stored.
    done: HashSet<BlockHash>,
    undelivered: Vec<Want>,
    /// Number of delivered blocks.
    pub(super) given: u64,
}

/// The network, shared by the session and its `Conduct`.
#[derive(Clone)]
pub(super) struct Net(Arc<Mutex<NetState>>);

impl Net {
    pub(super) fn new(peers: Vec<Peer>, rng: Rng) -> Net {
        let places = peers.iter().map(places_of).collect();
        let of = peers.iter().map(|_| Of::default()).collect();
        Net(Arc::new(Mutex::new(NetState {
            peers,
            of,
            places,
            now_ms: 0,
            rng,
            wants: Vec::new(),
            has_said_more: false,
            targets: Vec::new(),
            on_way: BTreeMap::new(),
            count: 0,
            asked: HashMap::new(),
            unjudged: HashSet::new(),
            done: HashSet::new(),
            undelivered: Vec::new(),
            given: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, NetState> {
        self.0.lock().unwrap()
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_millis(self.state().now_ms)
    }

    /// The current requests, for the message of a failing test.
    pub(super) fn describe(&self) -> String {
        let state = self.state();
        let wants: Vec<Vec<u32>> =
            state.wants.iter().map(|list| list.iter().map(|want| want.height.to_u32()).collect()).collect();
        format!(
            "{} ms, wants {wants:?}, {} asked for, {} not judged",
            state.now_ms,
            state.asked.len(),
            state.unjudged.len()
        )
    }

    /// A reorganization: all honest peers switch to this chain.
    pub(super) fn switch(&self, chain: &Blocks) {
        let state = &mut *self.state();
        for (place, peer) in state.peers.iter_mut().enumerate() {
            if peer.manner == Manner::Honest {
                peer.chain = chain.clone();
                state.places[place] = places_of(peer);
                state.of[place] = Of { next_ms: state.now_ms + peer.latency_ms, ..Of::default() };
            }
        }
    }

    /// Advances the time and handles all events that are due.
    pub(super) fn tick(&self, step_ms: u64, chain: &dyn ChainView, unix: u64, events: &Sender<Event>) {
        let mut state = self.state();
        state.now_ms += step_ms;
        for place in 0..state.peers.len() {
            state.come_and_go(place);
            state.tell_headers(place, chain, unix, events);
        }
        state.tell_targets(chain, events);
        state.deliver(events);
        state.ask(events);
    }
}

fn places_of(peer: &Peer) -> HashMap<BlockHash, usize> {
    if peer.manner == Manner::HasNothing {
        return HashMap::new();
    }
    peer.chain.iter().enumerate().map(|(place, block)| (testkit::blocks::hash_of(block), place)).collect()
}

fn header(block: &[u8]) -> Header {
    Header(*block.first_chunk().expect("a block has a header"))
}

impl NetState {
    fn come_and_go(&mut self, place: usize) {
        let Manner::Leaves(at_ms) = self.peers[place].manner else { return };
        // Disconnected for as long as it was connected.
        let is_gone = (self.now_ms / at_ms.max(1)) % 2 == 1;
        if is_gone != self.of[place].is_gone {
            self.of[place] = Of { is_gone, next_ms: self.now_ms + self.peers[place].latency_ms, ..Of::default() };
        }
    }

    fn tell_headers(&mut self, place: usize, chain: &dyn ChainView, unix: u64, events: &Sender<Event>) {
        let peer = &self.peers[place];
        let of = &mut self.of[place];
        if of.is_gone || of.has_all_told || of.next_ms > self.now_ms {
            return;
        }
        let (count, pause_ms) = match peer.manner {
            Manner::Dribbles => (1, 20_000),
            Manner::HasNothing => {
                of.has_all_told = true;
                return;
            }
            _ => (peer.message, peer.latency_ms * 2),
        };
        let from = of.told + 1;
        let end = (from + count).min(peer.chain.len());
        let headers: Vec<Header> = peer.chain[from.min(end)..end].iter().map(|block| header(block)).collect();
        let hashes: Vec<BlockHash> = headers.iter().map(Header::hash).collect();
        of.next_ms = self.now_ms + pause_ms.max(1);
        of.told = end - 1;
        of.has_all_told = end == peer.chain.len();
        if headers.is_empty() {
            return;
        }
        let verdict = chain.accept_headers(&headers, &hashes, unix);
        if verdict.new_count > 0 {
            let _ = events.send(Event::Headers { peer: PeerId(place as u64), new_count: verdict.new_count });
        }
        if let Some(HeaderRefusal::Invalid { .. }) = verdict.refused {
            of.is_gone = true;
        }
    }

    /// The best block that a peer has sent the header of, unless it is refused.
    fn best(&self, place: usize, chain: &dyn ChainView) -> Option<HeaderInfo> {
        let of = &self.of[place];
        let block = self.peers[place].chain.get(of.told).filter(|_| !of.is_gone && of.told > 0)?;
        chain.header(&header(block).hash()).filter(|info| !info.invalid)
    }

    fn tell_targets(&mut self, chain: &dyn ChainView, events: &Sender<Event>) {
        let least = chain.tip().work;
        let bests =
            (0..self.peers.len()).filter_map(|place| Some((self.of[place].withholds, self.best(place, chain)?)));
        let mut bests: Vec<_> = bests.filter(|(_, best)| best.work >= least).collect();
        bests.sort_by_key(|(withholds, best)| (*withholds, std::cmp::Reverse(best.work)));
        let mut list: Vec<BlockHash> = Vec::new();
        for (_, best) in bests {
            if !list.contains(&best.hash) {
                list.push(best.hash);
            }
        }
        if list != self.targets {
            self.targets.clone_from(&list);
            let _ = events.send(Event::Targets(list));
        }
    }

    fn deliver(&mut self, events: &Sender<Event>) {
        while let Some(entry) = self.on_way.first_entry().filter(|entry| entry.key().0 <= self.now_ms) {
            let (place, want, bytes) = entry.remove();
            if self.asked.remove(&want.hash).is_none() {
                continue;
            }
            self.unjudged.insert(want.hash);
            self.undelivered.retain(|known| known.hash != want.hash);
            self.given += 1;
            let peer = PeerId(place as u64);
            let bytes = p2p::BlockBytes::detached(bytes);
            let _ = events.send(Event::Block { peer, hash: want.hash, height: want.height, bytes });
        }
    }

    fn ask(&mut self, events: &Sender<Event>) {
        let now = self.now_ms;
        let lists = self.wants.clone();
        // Blocks of an earlier list that were lost do not occupy the window.
        let is_listed = |hash: &BlockHash| lists.iter().flatten().any(|want| want.hash == *hash);
        self.asked.retain(|hash, (_, again)| *again > now || is_listed(hash));
        let mut open = 0;
        for want in lists.iter().flatten() {
            if self.unjudged.contains(&want.hash) || self.done.contains(&want.hash) {
                continue;
            }
            open += 1;
            let since = match self.asked.get(&want.hash) {
                Some((_, again)) if *again > now => continue,
                Some((since, _)) => *since,
                None if self.asked.len() >= WINDOW => continue,
                None => now,
            };
            self.ask_for(*want, since);
        }
        if open == 0 && !lists.is_empty() && !self.has_said_more {
            self.has_said_more = true;
            let _ = events.send(Event::WantMore);
        }
    }

    /// Requests a block from one of the peers that have it.
    fn ask_for(&mut self, want: Want, since: u64) {
        let has = |place: &usize| !self.of[*place].is_gone && self.places[*place].contains_key(&want.hash);
        let able: Vec<usize> = (0..self.peers.len()).filter(has).collect();
        if able.is_empty() {
            return;
        }
        if self.now_ms - since > WITHHELD_MS && !self.undelivered.contains(&want) {
            self.undelivered.push(want);
            able.iter().for_each(|&place| self.of[place].withholds = true);
        }
        let place = able[self.rng.below(able.len())];
        let peer = &self.peers[place];
        let height = self.places[place][&want.hash];
        let is_lost = self.rng.below(100) < peer.loss_percent;
        let mut bytes = peer.chain[height].clone();
        match peer.manner {
            Manner::BadBody(bad) if bad == height => {
                let at = bytes.len() - 6;
                bytes[at] ^= 1;
            }
            Manner::Garbage(bad) if bad == height => bytes.truncate(bytes.len() - 3),
            _ => {}
        }
        let is_withheld = matches!(peer.manner, Manner::Withholds(kept) if kept == height);
        let arrival = self.now_ms + peer.latency_ms * 2 + bytes.len() as u64 / peer.rate.max(1);
        self.asked.insert(want.hash, (since, self.now_ms + AGAIN_MS));
        if !is_lost && !is_withheld {
            self.count += 1;
            self.on_way.insert((arrival, self.count), (place, want, bytes));
        }
    }
}

/// The session's interface to the network, over the chain that knows refused blocks.
pub(super) struct SimLine {
    pub(super) net: Net,
    pub(super) chain: Arc<dyn ChainView>,
    pub(super) events: Mutex<Sender<Event>>,
    /// The addresses that it reports at the end.
    pub(super) addresses: Vec<u8>,
}

impl Line for SimLine {
    fn want(&self, lists: Vec<Vec<Want>>) {
        let mut state = self.net.state();
        state.wants = lists;
        state.done.clear();
        state.has_said_more = false;
    }

    fn verdict(&self, hash: BlockHash, verdict: BlockVerdict) {
        let state = &mut *self.net.state();
        state.unjudged.remove(&hash);
        let has = |place: usize| state.places[place].contains_key(&hash);
        match verdict {
            BlockVerdict::Stored => drop(state.done.insert(hash)),
            BlockVerdict::BadBody { peer, reason } | BlockVerdict::Unreadable { peer, reason } => {
                // The peer that sent it is disconnected: one with this behaviour.
                let place = usize::try_from(peer.0).expect("the ids of peers are their places");
                let manner = state.peers[place].manner;
                assert!(matches!(manner, Manner::BadBody(_) | Manner::Garbage(_)), "{peer}, {manner:?}: {reason}");
                state.of[place].is_gone = true;
            }
            BlockVerdict::Invalid(_) => {
                for place in 0..state.peers.len() {
                    state.of[place].is_gone |= has(place);
                }
            }
        }
    }

    fn pause(&self, _is_paused: bool) {}

    fn new_tip(&self) {}

    fn echo(&self) {}

    fn progress(&self) -> Progress {
        let state = self.net.state();
        let there = |place: &usize| !state.of[*place].is_gone;
        let here: Vec<usize> = (0..state.peers.len()).filter(there).collect();
        let is_slow = |place: usize| state.peers[place].manner == Manner::Dribbles;
        let is_settled = here.iter().any(|&place| state.of[place].has_all_told)
            && here.iter().all(|&place| state.of[place].has_all_told);
        let is_done = here.iter().any(|&place| state.of[place].has_all_told)
            && here.iter().all(|&place| state.of[place].has_all_told || is_slow(place));
        let claims = here.iter().filter(|&&place| !state.of[place].withholds);
        let best_claim = claims.filter_map(|&place| state.best(place, &*self.chain)).max_by_key(|best| best.work);
        Progress {
            outbound_count: here.len(),
            headers_done: is_done,
            headers_settled: is_settled,
            best_claim,
            undelivered: state.undelivered.clone(),
            ..Progress::default()
        }
    }

    fn halt(&self) {
        if !self.addresses.is_empty() {
            let _ = self.events.lock().unwrap().send(Event::Addresses(self.addresses.clone()));
        }
    }
}

/// Height of the last block of a chain.
pub(super) fn height_of(chain: &[Vec<u8>]) -> Height {
    Height::from_index(chain.len() - 1)
}
