//! Header sync: who is asked for headers, and what is done with what comes.
//!
//! - At first one peer is asked, so that the chain is not fetched from each; every minute without an end one
//!   more, and at once where those that were asked are silent, very slow or repeat themselves, up to [`STREAM_COUNT_MAX`]. When one has told its whole chain, and the best chain has minimum
//!   work, all others are asked what they have beyond it.
//! - Proof of work and continuity first; headers whose chain has too little work to be stored go through
//!   [`crate::low_work`].
//! - A peer that was asked and neither answers nor sends anything is skipped, and disconnected where another
//!   can take its place. So is one that takes longer for its whole chain than `STREAM_TIMEOUT` and
//!   `STREAM_TIMEOUT_HEADER` for each header that is expected, where another waits to be asked; and one whose
//!   low-work sync fails is skipped for [`ANSWER_TIMEOUT`].
//! - An announced block that is not known has one further peer asked, whichever are being asked.
//! - The peers' chains are told when every peer that we connected to has told its own, or had its time; what peers say
//!   that connected to us is heard, but not waited for.
//! - Headers whose time is too far ahead are kept and given to the tree again when it has come.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `ProcessHeadersMessage` and what it calls.

use super::Hub;
use super::future_headers::FutureHeaders;
use super::header_quota::Holder;
use super::patience::Patience;
use crate::api::{Event, PeerId};
use crate::chain::{HEADERS_COUNT_MAX, HeaderInfo, HeaderRefusal, hash_all};
use crate::low_work::{LowWorkSync, Phase};
use crate::peer::{Kind, Peer};
use crate::peer_headers::PeerHeaders;
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::{Inventory, Message};
use primitives::{BlockHash, Header, Height, MedianTime, Work};
use std::time::Duration;

/// Peers whose whole chain is fetched at a time.
pub const STREAM_COUNT_MAX: usize = 3;
/// How long it may take for one answer. Source: Core's `HEADERS_RESPONSE_TIME`.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// Messages of unconnecting headers, in a row.
pub const UNCONNECTED_COUNT_MAX: u32 = 50;

/// The state of header sync over all peers.
#[derive(Debug, Default)]
pub(super) struct HeaderSync {
    /// Whether all are asked, and not only a few.
    pub(super) ask_all: bool,
    pub(super) first_asked_at: Option<Duration>,
    pub(super) future: Vec<FutureHeaders>,
    /// The announced block for which a further peer was asked.
    pub(super) asked_for: Option<BlockHash>,
    /// It was said once that headers are far ahead of the clock.
    pub(super) said_far: bool,
    /// Whose further headers the end of header sync still waits for.
    pub(super) patience: Patience,
    /// See [`Event::HeadersDone`].
    pub(super) done: bool,
    /// See [`crate::Progress::headers_settled`].
    pub(super) settled: bool,
}

impl Hub {
    pub(super) fn presync_height(&self) -> Option<Height> {
        let syncs = self.context.peers.values().filter_map(|peer| peer.headers.low_work.as_ref());
        syncs.filter(|sync| sync.phase() == Phase::Presync).map(|sync| sync.height()).max()
    }

    /// Asks a peer for what follows `locator`, unless it is still to answer.
    pub(super) fn ask_headers(&mut self, id: PeerId, locator: Vec<BlockHash>, now: Now) {
        let Some(peer) = self.context.peers.get_mut(&id) else { return };
        let waits = |at: Duration| now.since_start.saturating_sub(at) < ANSWER_TIMEOUT;
        if peer.headers.asked_at.is_some_and(waits) {
            return;
        }
        peer.headers.asked_at = Some(now.since_start);
        peer.headers.asked_bytes = peer.transport.received_bytes();
        peer.headers.deferred = false;
        peer.send(&Message::GetHeaders(locator, BlockHash::ZERO));
    }

    /// Asks from one before the best header, so that the answer tells the peer's best even if it is ours.
    pub(super) fn ask_from_best(&mut self, id: PeerId, now: Now) {
        let best = self.context.chain.best_header();
        let from = if best.height == Height::GENESIS { best.hash } else { best.header.prev() };
        if let Some(peer) = self.context.peers.get_mut(&id) {
            peer.headers.started = true;
        }
        self.ask_headers(id, self.context.chain.locator(&from), now);
    }

    /// Forgets what peers said about the end of their chains, and asks them all again: our best chain changed.
    pub(super) fn ask_all_again(&mut self) {
        for peer in self.context.peers.values_mut() {
            peer.headers.started = false;
            peer.headers.at_end = false;
        }
    }

    // What comes.

    pub(super) fn on_headers(&mut self, id: PeerId, headers: &[Header], now: Now) -> Result<(), Reason> {
        let chain = self.context.chain.clone();
        self.headers_of(id).is_heard = true;
        if headers.is_empty() {
            let state = &mut self.headers_of(id);
            state.low_work = None;
            state.asked_at = None;
            state.at_end = true;
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

    pub(super) fn headers_of(&mut self, id: PeerId) -> &mut PeerHeaders {
        &mut self.context.peers.get_mut(&id).expect("it just spoke").headers
    }

    /// Known headers of the best chain, or of the connected one, need no more memory: they are always taken.
    fn is_on_our_chain(&self, info: &HeaderInfo) -> bool {
        [self.context.chain.best_header().hash, self.context.chain.tip().hash]
            .iter()
            .any(|of| self.context.chain.ancestor(of, info.height) == Some(info.hash))
    }

    fn on_unconnected(&mut self, id: PeerId, last: BlockHash, now: Now) -> Result<(), Reason> {
        let state = self.headers_of(id);
        state.unknown = Some(last);
        state.unconnected_count += 1;
        if state.unconnected_count > UNCONNECTED_COUNT_MAX {
            return Err(Reason::HeadersUnconnected);
        }
        if state.is_backing_off(now) {
            return Ok(());
        }
        let best = self.context.chain.best_header().hash;
        self.ask_headers(id, self.context.chain.locator(&best), now);
        Ok(())
    }

    /// Continues a low-work sync of this peer. `None`: it has not started, or it ended, and the headers
    /// are to be looked at as any others. Otherwise the headers that may be stored now.
    fn continue_low_work(
        &mut self,
        id: PeerId,
        headers: &[Header],
        hashes: &[BlockHash],
        full: bool,
        now: Now,
    ) -> Option<Vec<Header>> {
        let chain = self.context.chain.clone();
        let mut sync = self.headers_of(id).low_work.take()?;
        let outcome = sync.process(headers, hashes, full, &*chain);
        if !outcome.success {
            // Asked again at once, a peer that shows one chain and gives another would be asked for ever.
            self.others_to_tell(id, now).next()?;
            let until = now.since_start + ANSWER_TIMEOUT;
            self.headers_of(id).skip_until(until);
            self.headers_of(id).backoff_until = Some(until);
            return Some(Vec::new());
        }
        self.headers_of(id).asked_at = None;
        if outcome.more {
            let locator = sync.locator(chain.locator(&sync.start().hash));
            self.headers_of(id).low_work = Some(sync);
            self.ask_headers(id, locator, now);
        } else if outcome.headers.is_empty() {
            let state = self.headers_of(id);
            (state.at_end, state.short) = (true, Some((sync.height(), sync.work())));
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
        hashes: &[BlockHash],
        full: bool,
        now: Now,
    ) -> Result<bool, Reason> {
        let claimed = |sum: Work, header: &Header| sum.saturating_add(Work::of_bits(header.bits()));
        let threshold = self.context.chain.anti_dos_work();
        // Source: Core's `already_validated_work`: who is trusted is spared presync.
        let work = headers.iter().fold(parent.work, claimed);
        if work >= threshold || self.context.peers[&id].is_noban() {
            return Ok(true);
        }
        if !full {
            let height = parent.height.saturating_add(u32::try_from(headers.len()).unwrap_or(u32::MAX));
            let state = self.headers_of(id);
            (state.at_end, state.short) = (true, Some((height, work)));
            let peer = self.context.peers.get_mut(&id).expect("it just spoke");
            peer.journal.say(|| format!("Ignoring low-work chain (height={height}) from peer={id}"));
            return self.require_minimum_work(id).map(|()| false);
        }
        if self.headers_of(id).is_backing_off(now) {
            return Ok(false);
        }
        let median = self.context.chain.median_time_past(&parent.hash).unwrap_or(MedianTime::ZERO);
        let network = self.context.config.network;
        let sync = LowWorkSync::new(&network, *parent, median, threshold, now.unix, &mut self.context.rng);
        self.headers_of(id).low_work = Some(Box::new(sync));
        self.continue_low_work(id, headers, hashes, full, now);
        Ok(false)
    }

    /// A sought peer that has told its whole chain must have minimum work while we are in initial download.
    fn require_minimum_work(&self, id: PeerId) -> Result<(), Reason> {
        let peer = &self.context.peers[&id];
        let enough = peer.best_known.is_some_and(|best| best.work >= self.context.chain.minimum_work());
        if peer.kind == Kind::Automatic && !enough && self.context.chain.initial_download() {
            return Err(Reason::LittleWork);
        }
        Ok(())
    }

    /// Gives headers to the tree, and asks for more when there may be more.
    fn store_headers(
        &mut self,
        id: PeerId,
        headers: &[Header],
        hashes: &[BlockHash],
        full: bool,
        now: Now,
    ) -> Result<(), Reason> {
        let is_known = self.context.chain.header(&hashes[hashes.len() - 1]).is_some();
        let holder = Holder::of(&self.context.peers[&id]);
        if !is_known && self.is_far_ahead(holder) {
            let state = self.headers_of(id);
            (state.at_end, state.deferred) = (false, true);
            return Ok(());
        }
        let verdict = self.context.chain.accept_headers(headers, hashes, now.unix);
        if verdict.new_count > 0 {
            self.note_new_headers(holder, verdict.new_count);
            self.context.event(Event::Headers { peer: id, new_count: verdict.new_count });
        }
        if let Some(last) = verdict.last {
            self.note_best_known(id, last);
            self.protect_from_lag(id);
            self.look_at_lag(id, now)?;
            self.fetch_announced(id, &last, now);
            if !self.headers_of(id).note_progress(last.work, full, now) {
                return Err(Reason::HeadersRepeated);
            }
        }
        self.headers_of(id).too_new = matches!(verdict.refused, Some(HeaderRefusal::TooNew { .. }));
        match verdict.refused {
            Some(HeaderRefusal::Invalid { hash, reason, .. }) => {
                self.say_refused_header(hash, &reason);
                return Err(Reason::HeaderInvalid { hash, reason });
            }
            Some(HeaderRefusal::Known { hash }) => return self.on_refused_before(id, hash),
            Some(HeaderRefusal::TooNew { index, time }) => {
                let why = "time-too-new, block timestamp too far in the future";
                hashes.get(index).into_iter().for_each(|hash| self.say_refused_header(*hash, why));
                self.keep_future(id, headers.get(index..).unwrap_or(&[]), time, now);
                self.headers_of(id).at_end = true;
                return Ok(());
            }
            None => {}
        }
        if self.headers_of(id).low_work.is_some() {
            return Ok(());
        }
        if !full {
            self.headers_of(id).at_end = true;
            return self.require_minimum_work(id);
        }
        self.headers_of(id).at_end = false;
        // One place more than streams are begun: for who was asked because of an announcement.
        let may_ask = !self.headers_of(id).is_backing_off(now) && !self.is_far_ahead(holder);
        if self.stream_count(id) <= STREAM_COUNT_MAX && may_ask {
            let locator = match verdict.last {
                Some(last) if verdict.new_count == 0 => self.locator_beyond(&last),
                last => self.context.chain.locator(&last.map_or(hashes[hashes.len() - 1], |last| last.hash)),
            };
            self.ask_headers(id, locator, now);
        } else {
            self.headers_of(id).deferred = true;
        }
        Ok(())
    }

    /// A peer is on a chain that was refused before. Who connected to us and who a person named stay: they may come back to
    /// ours, and where a person refused the chain they do nothing wrong.
    ///
    /// Source: Bitcoin Core b88bffe, `MaybePunishNodeForBlock`, `MaybeDiscourageAndDisconnect`.
    fn on_refused_before(&mut self, id: PeerId, hash: BlockHash) -> Result<(), Reason> {
        if matches!(self.context.peers[&id].kind, Kind::Inbound | Kind::Manual(_)) {
            self.headers_of(id).at_end = true;
            return Ok(());
        }
        Err(Reason::HeaderInvalid { hash, reason: "duplicate-invalid".to_owned() })
    }

    /// Source: Bitcoin Core b88bffe, `AcceptBlockHeader`.
    fn say_refused_header(&mut self, hash: BlockHash, why: &str) {
        if self.context.config.debug_net {
            let text = format!("AcceptBlockHeader: Consensus::ContextualCheckBlockHeader: {hash}, {why}");
            self.context.event(Event::Debug(text));
        }
    }

    /// A locator for a peer that told headers up to `last`, all of them known: where they are of our best chain, it need not
    /// tell the rest of that. `last` itself is in it, so that the peer's answer begins there at the lowest.
    fn locator_beyond(&self, last: &HeaderInfo) -> Vec<BlockHash> {
        let best = self.context.chain.best_header();
        if best.height <= last.height || self.context.chain.ancestor(&best.hash, last.height) != Some(last.hash) {
            return self.context.chain.locator(&last.hash);
        }
        let is_above = |hash: &BlockHash| self.context.chain.header(hash).is_some_and(|info| info.height > last.height);
        let mut locator = self.context.chain.locator(&best.header.prev());
        let place = locator.iter().take_while(|hash| is_above(hash)).count();
        locator.insert(place, last.hash);
        locator
    }

    /// Streams that a peer has to share places with: who connected to us takes no place of those that we chose.
    pub(super) fn stream_count(&self, id: PeerId) -> usize {
        let sought = self.context.peers.get(&id).is_some_and(Peer::is_outbound);
        self.context
            .peers
            .values()
            .filter(|peer| peer.headers.is_streaming() && (peer.is_outbound() || !sought))
            .count()
    }

    pub(super) fn note_best_known(&mut self, id: PeerId, info: HeaderInfo) {
        if let Some(peer) = self.context.peers.get_mut(&id) {
            peer.note_best_known(info);
        }
    }

    /// `inv`: blocks are announced; everything else is of no use here.
    pub(super) fn on_inv(&mut self, id: PeerId, list: &[Inventory], now: Now) -> Result<(), Reason> {
        let mut unknown = None;
        for hash in list.iter().filter_map(Inventory::block) {
            match self.context.chain.header(&hash) {
                Some(info) => self.note_best_known(id, info),
                None => unknown = Some(hash),
            }
        }
        if unknown.is_some() {
            let is_further = self.headers.asked_for != unknown && self.stream_count(id) <= STREAM_COUNT_MAX;
            let peer = self.context.peers.get_mut(&id).expect("it just spoke");
            peer.headers.unknown = unknown;
            if self.headers.ask_all || peer.headers.started {
                let best = self.context.chain.best_header().hash;
                self.ask_headers(id, self.context.chain.locator(&best), now);
            } else if is_further && peer.is_outbound() && !peer.headers.is_skipped(now) {
                // Who is being asked may be slow on purpose: the network's own pace brings another. As Core does.
                self.headers.asked_for = unknown;
                self.ask_from_best(id, now);
            }
        }
        Ok(())
    }
}
