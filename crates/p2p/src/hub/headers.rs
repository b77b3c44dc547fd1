//! Header sync: who is asked for headers, and what is done with what comes.
//!
//! - At first one peer is asked, so that the chain is not fetched from each; every minute without an end one
//!   more, up to [`STREAM_COUNT_MAX`]. When one has told its whole chain, and the best chain has minimum
//!   work, all others are asked what they have beyond it.
//! - Proof of work and continuity first; headers whose chain has too little work to be stored go through
//!   [`crate::low_work`].
//! - A peer that was asked and neither answers nor sends anything is passed over, and let go where another
//!   can take its place. So is one that takes longer for its whole chain than [`STREAM_TIMEOUT`] and
//!   [`STREAM_TIMEOUT_HEADER`] for each header that is expected, where another waits to be asked; and one whose
//!   low-work sync fails is passed over for [`ANSWER_TIMEOUT`].
//! - An announced block that is not known has one further peer asked, whichever are being asked.
//! - The peers' chains are told when every peer that we connected to has told its own, or had its time; what peers say
//!   that connected to us is heard, and waited for by nobody.
//! - Headers whose time is too far ahead are kept aside and given to the tree again when it has come.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `ProcessHeadersMessage` and what it calls.

use super::Hub;
use crate::api::{Event, PeerId};
use crate::chain::{HEADERS_COUNT_MAX, HeaderInfo, HeaderRefusal};
use crate::low_work::{LowWorkSync, Phase};
use crate::peer::{Kind, Now, Peer};
use crate::reason::Reason;
use crate::wire::{Inventory, Message};
use primitives::{Hash256, Header, Height, Work};
use std::time::Duration;

/// Peers whose whole chain is fetched at a time.
pub const STREAM_COUNT_MAX: usize = 3;
/// While no peer has told its whole chain, another is asked so often.
pub const STREAM_INTERVAL: Duration = Duration::from_secs(60);
/// An asked peer may send nothing at all for so long.
pub const QUIET_TIMEOUT: Duration = Duration::from_secs(20);
/// And may take so long for one answer. Source: Core's `HEADERS_RESPONSE_TIME`.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// A peer may take so long for its whole chain, and besides. Source: Core's `HEADERS_DOWNLOAD_TIMEOUT_BASE`.
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// So long for each header that is expected. Source: Core's `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`.
pub const STREAM_TIMEOUT_HEADER: Duration = Duration::from_millis(1);
/// Seconds between two blocks, by which headers are expected.
const SPACING_S: u64 = 600;
/// Messages of headers that stand on nothing known, in a row.
pub const UNCONNECTED_COUNT_MAX: u32 = 50;
/// Lists of headers kept aside because of their time.
pub const ASIDE_COUNT_MAX: usize = 16;
/// Headers further ahead of the time at which they may be taken are not kept, in seconds.
pub const ASIDE_S_MAX: u64 = 3600;
/// Blocks may be so far ahead of the clock, in seconds. Source: `MAX_FUTURE_BLOCK_TIME`.
pub const FUTURE_S_MAX: u64 = 7200;
/// A sought peer whose best chain has less work than ours for so long is asked once more. Source: `CHAIN_SYNC_TIMEOUT`.
pub const LAG_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Sought peers that are kept although they lag. Source: `MAX_OUTBOUND_PEERS_TO_PROTECT_FROM_DISCONNECT`.
pub const LAGGING_COUNT_KEPT: usize = 4;
/// A connection younger than this may still tell of a better chain.
const YOUNG: Duration = Duration::from_secs(5);

/// What one peer told and was asked about headers.
#[derive(Debug, Default)]
pub struct PeerHeaders {
    /// When it was asked, while it has not answered.
    asked_at: Option<Duration>,
    /// Whether it was asked once.
    started: bool,
    /// Whether its last answer was the end of its chain.
    told_all: bool,
    /// It has more, and waits for its turn.
    deferred: bool,
    /// It did not answer: it is not asked before this time.
    passed_until: Option<Duration>,
    /// It took too long, or contradicted itself: what it sends before this time starts nothing.
    rests_until: Option<Duration>,
    /// Since when it has been asked for one piece of its chain after the other.
    stream_since: Option<Duration>,
    low_work: Option<Box<LowWorkSync>>,
    unconnected_count: u32,
    /// The last block it announced that is not in the tree.
    unknown: Option<Hash256>,
    lagging_since: Option<Duration>,
    lag_asked: bool,
}

impl PeerHeaders {
    fn is_streaming(&self) -> bool {
        self.asked_at.is_some() || self.low_work.is_some()
    }

    fn is_passed_over(&self, now: Now) -> bool {
        self.rests(now) || self.passed_until.is_some_and(|until| until > now.since_start)
    }

    fn rests(&self, now: Now) -> bool {
        self.rests_until.is_some_and(|until| until > now.since_start)
    }

    /// Forgets what it was asked, for this time.
    fn pass_over(&mut self, until: Duration) {
        (self.asked_at, self.low_work, self.stream_since) = (None, None, None);
        self.passed_until = Some(until);
        self.started = false;
    }
}

/// Headers that wait for their time.
#[derive(Debug)]
struct Aside {
    peer: PeerId,
    headers: Vec<Header>,
    due_unix: u64,
}

/// The state of header sync over all peers.
#[derive(Debug, Default)]
pub(super) struct HeaderSync {
    /// Whether all are asked, and not only a few.
    ask_all: bool,
    first_asked_at: Option<Duration>,
    aside: Vec<Aside>,
    /// The announced block for which a further peer was asked.
    asked_for: Option<Hash256>,
    /// It was said once that headers are far ahead of the clock.
    said_far: bool,
    /// See [`Event::HeadersDone`].
    pub(super) done: bool,
}

impl Hub {
    pub(super) fn presync_height(&self) -> Option<Height> {
        let syncs = self.peers.values().filter_map(|peer| peer.headers.low_work.as_ref());
        syncs.filter(|sync| sync.phase() == Phase::Presync).map(|sync| sync.height()).max()
    }

    /// Asks a peer for what follows `locator`, unless it is still to answer.
    fn ask_headers(&mut self, id: PeerId, locator: Vec<Hash256>, now: Now) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let waits = |at: Duration| now.since_start.saturating_sub(at) < ANSWER_TIMEOUT;
        if peer.headers.asked_at.is_some_and(waits) {
            return;
        }
        peer.headers.asked_at = Some(now.since_start);
        peer.headers.deferred = false;
        peer.send(&Message::GetHeaders(locator, Hash256::ZERO));
    }

    /// Asks from one before the best header, so that the answer tells the peer's best even if it is ours.
    fn ask_from_best(&mut self, id: PeerId, now: Now) {
        let best = self.chain.best_header();
        let from = if best.height == 0 { best.hash } else { best.header.prev() };
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.headers.started = true;
        }
        self.ask_headers(id, self.chain.locator(&from), now);
    }

    /// Forgets what peers said about the end of their chains, and asks them all again: our best chain changed.
    pub(super) fn ask_all_again(&mut self) {
        for peer in self.peers.values_mut() {
            peer.headers.started = false;
            peer.headers.told_all = false;
        }
    }

    // What comes.

    pub(super) fn on_headers(&mut self, id: PeerId, headers: &[Header], now: Now) -> Result<(), Reason> {
        let chain = self.chain.clone();
        if headers.is_empty() {
            let state = &mut self.headers_of(id);
            state.low_work = None;
            state.asked_at = None;
            state.told_all = true;
            return Ok(());
        }
        let hashes = hash_all(headers);
        if !chain.check_proof_of_work(headers, &hashes) {
            return Err(Reason::HeaderWork);
        }
        if headers[1..].iter().zip(&hashes).any(|(header, parent)| header.prev() != *parent) {
            return Err(Reason::HeadersNotContinuous);
        }
        let full = headers.len() == HEADERS_COUNT_MAX;
        if let Some(released) = self.continue_low_work(id, headers, &hashes, full, now) {
            if released.is_empty() {
                return Ok(());
            }
            let hashes = hash_all(&released);
            return self.store_headers(id, &released, &hashes, full, now);
        }
        let Some(parent) = chain.header(&headers[0].prev()) else {
            return self.on_unconnected(id, hashes[hashes.len() - 1], now);
        };
        self.headers_of(id).unconnected_count = 0;
        self.headers_of(id).asked_at = None;
        let last = chain.header(&hashes[hashes.len() - 1]);
        if !last.is_some_and(|last| self.is_on_our_chain(&last))
            && !self.has_enough_work(id, &parent, headers, &hashes, full, now)?
        {
            return Ok(());
        }
        self.store_headers(id, headers, &hashes, full, now)
    }

    fn headers_of(&mut self, id: PeerId) -> &mut PeerHeaders {
        &mut self.peers.get_mut(&id).expect("it just spoke").headers
    }

    /// Known headers of the best chain, or of the connected one, need no more memory: they are always taken.
    fn is_on_our_chain(&self, info: &HeaderInfo) -> bool {
        [self.chain.best_header().hash, self.chain.tip().hash]
            .iter()
            .any(|of| self.chain.ancestor(of, info.height) == Some(info.hash))
    }

    fn on_unconnected(&mut self, id: PeerId, last: Hash256, now: Now) -> Result<(), Reason> {
        let state = self.headers_of(id);
        state.unknown = Some(last);
        state.unconnected_count += 1;
        if state.unconnected_count > UNCONNECTED_COUNT_MAX {
            return Err(Reason::HeadersUnconnected);
        }
        if state.rests(now) {
            return Ok(());
        }
        let best = self.chain.best_header().hash;
        self.ask_headers(id, self.chain.locator(&best), now);
        Ok(())
    }

    /// Goes on with a low-work sync of this peer. `None`: there is none, or it ended, and the headers
    /// are to be looked at as any others. Otherwise the headers that may be stored now.
    fn continue_low_work(
        &mut self,
        id: PeerId,
        headers: &[Header],
        hashes: &[Hash256],
        full: bool,
        now: Now,
    ) -> Option<Vec<Header>> {
        let chain = self.chain.clone();
        let mut sync = self.headers_of(id).low_work.take()?;
        let outcome = sync.process(headers, hashes, full, &*chain);
        if !outcome.success {
            // Asked again at once, a peer that shows one chain and gives another would be asked for ever.
            self.others_to_tell(id, now).next()?;
            let until = now.since_start + ANSWER_TIMEOUT;
            self.headers_of(id).pass_over(until);
            self.headers_of(id).rests_until = Some(until);
            return Some(Vec::new());
        }
        self.headers_of(id).asked_at = None;
        if outcome.more {
            let locator = sync.locator(chain.locator(&sync.start().hash));
            self.headers_of(id).low_work = Some(sync);
            self.ask_headers(id, locator, now);
        } else if outcome.headers.is_empty() {
            self.headers_of(id).told_all = true;
        }
        Some(outcome.headers)
    }

    /// Whether the chain that ends with these headers has enough work to be stored. If not, and the message
    /// is full, a low-work sync is started with them.
    fn has_enough_work(
        &mut self,
        id: PeerId,
        parent: &HeaderInfo,
        headers: &[Header],
        hashes: &[Hash256],
        full: bool,
        now: Now,
    ) -> Result<bool, Reason> {
        let claimed = |sum: Work, header: &Header| sum.saturating_add(Work::of_bits(header.bits()));
        let threshold = self.chain.anti_dos_work();
        if headers.iter().fold(parent.work, claimed) >= threshold {
            return Ok(true);
        }
        if !full {
            self.headers_of(id).told_all = true;
            return self.require_minimum_work(id).map(|()| false);
        }
        if self.headers_of(id).rests(now) {
            return Ok(false);
        }
        let median = self.chain.median_time_past(&parent.hash).unwrap_or(0);
        let network = self.config.network;
        let sync = LowWorkSync::new(&network, *parent, median, threshold, now.unix, &mut self.rng);
        self.headers_of(id).low_work = Some(Box::new(sync));
        self.continue_low_work(id, headers, hashes, full, now);
        Ok(false)
    }

    /// A sought peer that has told its whole chain must have minimum work while we are in initial download.
    fn require_minimum_work(&self, id: PeerId) -> Result<(), Reason> {
        let peer = &self.peers[&id];
        let enough = peer.best_known.is_some_and(|best| best.work >= self.chain.minimum_work());
        if peer.kind == Kind::Automatic && !enough && self.chain.initial_download() {
            return Err(Reason::LittleWork);
        }
        Ok(())
    }

    /// Gives headers to the tree, and asks for more when there may be more.
    fn store_headers(
        &mut self,
        id: PeerId,
        headers: &[Header],
        hashes: &[Hash256],
        full: bool,
        now: Now,
    ) -> Result<(), Reason> {
        let verdict = self.chain.accept_headers(headers, hashes, now.unix);
        if verdict.new_count > 0 {
            self.event(Event::Headers { peer: id, new_count: verdict.new_count });
        }
        if let Some(last) = verdict.last {
            self.note_best_known(id, last);
        }
        match verdict.refused {
            Some(HeaderRefusal::Invalid { hash, reason, .. }) => {
                return Err(Reason::HeaderInvalid { hash, reason });
            }
            Some(HeaderRefusal::TooNew { index, time }) => {
                self.keep_aside(id, headers.get(index..).unwrap_or(&[]), time, now);
                self.headers_of(id).told_all = true;
                return Ok(());
            }
            None => {}
        }
        if self.headers_of(id).low_work.is_some() {
            return Ok(());
        }
        if !full {
            self.headers_of(id).told_all = true;
            return self.require_minimum_work(id);
        }
        self.headers_of(id).told_all = false;
        // One place more than streams are begun: for who was asked because of an announcement.
        if self.stream_count(id) <= STREAM_COUNT_MAX && !self.headers_of(id).rests(now) {
            let from = verdict.last.map_or(hashes[hashes.len() - 1], |last| last.hash);
            self.ask_headers(id, self.chain.locator(&from), now);
        } else {
            self.headers_of(id).deferred = true;
        }
        Ok(())
    }

    /// Streams that a peer has to share places with: who connected to us takes no place of those that we chose.
    fn stream_count(&self, id: PeerId) -> usize {
        let sought = self.peers.get(&id).is_some_and(Peer::is_outbound);
        self.peers.values().filter(|peer| peer.headers.is_streaming() && (peer.is_outbound() || !sought)).count()
    }

    pub(super) fn note_best_known(&mut self, id: PeerId, info: HeaderInfo) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if !info.invalid && peer.best_known.is_none_or(|best| info.work > best.work) {
            peer.best_known = Some(info);
        }
    }

    fn keep_aside(&mut self, peer: PeerId, headers: &[Header], time: u32, now: Now) {
        let due_unix = u64::from(time).saturating_sub(FUTURE_S_MAX);
        let near = due_unix.saturating_sub(now.unix) <= ASIDE_S_MAX;
        let Some(last) = headers.last() else { return };
        if !near {
            // Whose clock is wrong, theirs or ours, only the user can know. Said once, for anybody may cause it.
            if !std::mem::replace(&mut self.headers.said_far, true) {
                let note = format!(
                    "header {} is not taken: its time {time} is {} s ahead of this machine's clock, {}, and 7200 are \
                     allowed: is the clock right?",
                    headers[0].hash(),
                    u64::from(time).saturating_sub(now.unix),
                    now.unix
                );
                self.event(Event::Note(note));
            }
            return;
        }
        let again = |aside: &Aside| aside.headers.last() == Some(last);
        if self.headers.aside.len() >= ASIDE_COUNT_MAX || self.headers.aside.iter().any(again) {
            return;
        }
        self.headers.aside.push(Aside { peer, headers: headers.to_vec(), due_unix });
        let note = format!(
            "header {} kept aside: its time {time} is more than two hours ahead of the clock, {}",
            headers[0].hash(),
            now.unix
        );
        self.event(Event::Note(note));
    }

    /// `inv`: blocks are announced; everything else is of no use here.
    pub(super) fn on_inv(&mut self, id: PeerId, list: &[Inventory], now: Now) -> Result<(), Reason> {
        let blocks = list.iter().filter(|entry| matches!(entry.kind, Inventory::BLOCK | Inventory::WITNESS_BLOCK));
        let mut unknown = None;
        for entry in blocks {
            match self.chain.header(&entry.hash) {
                Some(info) => self.note_best_known(id, info),
                None => unknown = Some(entry.hash),
            }
        }
        if unknown.is_some() {
            let is_further = self.headers.asked_for != unknown && self.stream_count(id) <= STREAM_COUNT_MAX;
            let peer = self.peers.get_mut(&id).expect("it just spoke");
            peer.headers.unknown = unknown;
            if self.headers.ask_all || peer.headers.started {
                let best = self.chain.best_header().hash;
                self.ask_headers(id, self.chain.locator(&best), now);
            } else if is_further && peer.is_outbound() && !peer.headers.is_passed_over(now) {
                // Who is being asked may be slow on purpose: the network's own pace brings another. As Core does.
                self.headers.asked_for = unknown;
                self.ask_from_best(id, now);
            }
        }
        Ok(())
    }

    // The clock.

    pub(super) fn tick_headers(&mut self, now: Now) {
        self.retry_aside(now);
        self.resolve_unknown();
        for id in self.peer_ids() {
            self.tick_peer_headers(id, now);
        }
        let best = self.chain.best_header();
        let told = self.peers.values().any(|peer| peer.is_outbound() && peer.headers.told_all);
        self.headers.ask_all |= told && best.work >= self.chain.minimum_work();
        if self.headers.ask_all {
            self.ask_those_not_asked(now);
        } else {
            self.ask_a_few(now);
        }
        self.tell_done(now);
    }

    fn retry_aside(&mut self, now: Now) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.headers.aside).into_iter().partition(|aside| aside.due_unix <= now.unix);
        self.headers.aside = later;
        for Aside { peer, headers, .. } in due {
            // The parent may be gone or refused by now; the tree says so.
            if self.chain.header(&headers[0].prev()).is_none() {
                continue;
            }
            let hashes = hash_all(&headers);
            let verdict = self.chain.accept_headers(&headers, &hashes, now.unix);
            if verdict.new_count > 0 {
                self.event(Event::Headers { peer, new_count: verdict.new_count });
            }
            if let Some(last) = verdict.last {
                self.note_best_known(peer, last);
            }
            match verdict.refused {
                Some(HeaderRefusal::Invalid { hash, reason, .. }) => {
                    self.drop_peer(peer, Reason::HeaderInvalid { hash, reason }, now);
                }
                Some(HeaderRefusal::TooNew { index, time }) => {
                    self.keep_aside(peer, headers.get(index..).unwrap_or(&[]), time, now);
                }
                None => {}
            }
        }
    }

    /// Blocks announced before their headers were known may be known now, from another peer.
    fn resolve_unknown(&mut self) {
        for peer in self.peers.values_mut() {
            let Some(info) = peer.headers.unknown.and_then(|hash| self.chain.header(&hash)) else { continue };
            peer.headers.unknown = None;
            if !info.invalid && peer.best_known.is_none_or(|best| info.work > best.work) {
                peer.best_known = Some(info);
            }
        }
    }

    fn tick_peer_headers(&mut self, id: PeerId, now: Now) {
        let at = now.since_start;
        let minimum = self.chain.minimum_work();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        // Source: Bitcoin Core b88bffe, `MaybeSendSendHeaders`.
        if peer.ready && peer.best_known.is_some_and(|best| best.work > minimum) {
            peer.ask_for_headers();
        }
        if let Some(asked) = peer.headers.asked_at {
            let quiet = at.saturating_sub(asked.max(peer.last_received())) > QUIET_TIMEOUT;
            if quiet || at.saturating_sub(asked) > ANSWER_TIMEOUT {
                let replaceable = peer.kind == Kind::Automatic && !peer.headers.told_all && !self.headers.ask_all;
                let others = self.peers.values().any(|other| other.ready && other.id != id && other.is_outbound());
                if replaceable && others {
                    self.drop_peer(id, Reason::HeadersStalled, now);
                    return;
                }
                self.headers_of(id).pass_over(at + ANSWER_TIMEOUT);
            }
        }
        self.tick_stream(id, now);
        if self.peers.contains_key(&id) {
            self.tick_lagging(id, now);
        }
    }

    /// Ends a stream that takes longer than its chain is worth, where another peer waits to be asked.
    fn tick_stream(&mut self, id: PeerId, now: Now) {
        let at = now.since_start;
        let best = self.chain.best_header();
        let missing = now.unix.saturating_sub(u64::from(best.header.time())) / SPACING_S;
        let timeout = STREAM_TIMEOUT + STREAM_TIMEOUT_HEADER * u32::try_from(missing).unwrap_or(u32::MAX);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let streams = peer.headers.is_streaming();
        peer.headers.stream_since = streams.then(|| peer.headers.stream_since.unwrap_or(at));
        let late = peer.headers.stream_since.is_some_and(|since| at.saturating_sub(since) > timeout);
        let (kind, enough) = (peer.kind, best.work >= self.chain.minimum_work());
        if !late || self.others_to_tell(id, now).all(|peer| peer.headers.is_streaming()) {
            return;
        }
        if kind == Kind::Automatic && !enough {
            return self.drop_peer(id, Reason::HeadersStalled, now);
        }
        let until = at + STREAM_TIMEOUT;
        self.headers_of(id).pass_over(until);
        self.headers_of(id).rests_until = Some(until);
    }

    /// Other peers that we connected to, that have not told their chains and may be asked or are being asked.
    fn others_to_tell(&self, id: PeerId, now: Now) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(move |peer| {
            let state = &peer.headers;
            let of_use = peer.ready && peer.is_outbound() && peer.kind != Kind::AddressFetch && peer.serves_blocks();
            peer.id != id && of_use && (!state.told_all || state.deferred) && !state.is_passed_over(now)
        })
    }

    /// Source: Bitcoin Core b88bffe, `ConsiderEviction`.
    fn tick_lagging(&mut self, id: PeerId, now: Now) {
        let tip = self.chain.tip();
        let sought = self.peers.values().filter(|peer| peer.kind == Kind::Automatic && peer.ready).count();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let keeps_up = peer.best_known.is_some_and(|best| best.work >= tip.work);
        let state = &mut peer.headers;
        if keeps_up || peer.kind != Kind::Automatic || !peer.ready {
            (state.lagging_since, state.lag_asked) = (None, false);
            return;
        }
        let since = *state.lagging_since.get_or_insert(now.since_start);
        let lag = now.since_start.saturating_sub(since);
        if lag > LAG_TIMEOUT && !state.lag_asked {
            state.lag_asked = true;
            self.ask_from_best(id, now);
        } else if lag > LAG_TIMEOUT + ANSWER_TIMEOUT && sought > LAGGING_COUNT_KEPT {
            self.drop_peer(id, Reason::Lagging, now);
        }
    }

    fn ask_those_not_asked(&mut self, now: Now) {
        let may = |peer: &Peer| peer.ready && peer.kind != Kind::AddressFetch && !peer.headers.is_passed_over(now);
        let fresh: Vec<_> =
            self.peers.values().filter(|peer| may(peer) && !peer.headers.started).map(|peer| peer.id).collect();
        for id in fresh {
            self.ask_from_best(id, now);
        }
        let waits = |peer: &&Peer| peer.headers.deferred && !peer.headers.rests(now);
        let deferred = self.peers.values().find(waits).map(|peer| peer.id);
        if let Some(id) = deferred.filter(|id| self.stream_count(*id) < STREAM_COUNT_MAX) {
            self.ask_from_best(id, now);
        }
    }

    fn ask_a_few(&mut self, now: Now) {
        let at = now.since_start;
        let since = self.headers.first_asked_at.map_or(Duration::ZERO, |first| at.saturating_sub(first));
        let minutes = usize::try_from(since.as_secs() / STREAM_INTERVAL.as_secs()).unwrap_or(usize::MAX);
        let may = |peer: &&Peer| {
            let state = &peer.headers;
            let idle = !state.is_streaming() && (!state.told_all || state.deferred) && !state.is_passed_over(now);
            peer.ready && peer.kind != Kind::AddressFetch && idle
        };
        let outbound = self.peers.values().filter(may).find(|peer| peer.is_outbound() && peer.serves_blocks());
        let Some(id) = outbound.or_else(|| self.peers.values().find(may)).map(|peer| peer.id) else { return };
        if self.stream_count(id) >= minutes.saturating_add(1).min(STREAM_COUNT_MAX) {
            return;
        }
        self.headers.first_asked_at.get_or_insert(at);
        self.ask_from_best(id, now);
    }

    fn tell_done(&mut self, now: Now) {
        let mut told = false;
        let mut waiting = self.outbound.has_young(YOUNG, now);
        for peer in self.peers.values().filter(|peer| peer.is_outbound() && peer.kind != Kind::AddressFetch) {
            let state = &peer.headers;
            told |= state.told_all;
            if peer.ready && (state.told_all || state.is_passed_over(now)) {
                self.outbound.heard(peer.kind);
            }
            let answering = peer.ready && !state.told_all && !state.is_passed_over(now);
            let age = now.since_start.saturating_sub(peer.connected_at());
            let young = !peer.ready && age < YOUNG;
            waiting |= answering || young || state.low_work.is_some();
        }
        let enough = self.chain.best_header().work >= self.chain.minimum_work();
        let done = told && enough && !waiting && !self.outbound.may_bring_more(now);
        if done && !self.headers.done {
            self.event(Event::HeadersDone);
        }
        self.headers.done = done;
    }
}

fn hash_all(headers: &[Header]) -> Vec<Hash256> {
    let bytes: Vec<[u8; 80]> = headers.iter().map(|header| header.0).collect();
    let mut hashes = vec![[0; 32]; bytes.len()];
    simd::sha256::sha256d_80(&bytes, &mut hashes);
    hashes.into_iter().map(Hash256).collect()
}
