//! Header sync: which peers are asked for headers, and how their headers are processed.
//!
//! - At first one peer is asked, so that not every peer sends the whole chain. Another is asked every minute until
//!   one has finished, or at once if those that were asked are silent, very slow or repeat themselves, up to
//!   [`STREAM_COUNT_MAX`]. Once one has sent its whole chain and the best chain has minimum work, all others are
//!   asked for headers beyond it.
//! - Proof of work and continuity are checked first; headers whose chain has too little work to be stored go through
//!   [`crate::low_work`].
//! - A peer that neither answers a request nor sends anything else is skipped, and disconnected if another can
//!   replace it. The same applies to a peer that takes longer for its whole chain than `STREAM_TIMEOUT` plus
//!   `STREAM_TIMEOUT_HEADER` for each expected header, if another waits to be asked. A peer whose low-work sync fails
//!   is skipped for [`ANSWER_TIMEOUT`].
//! - For an announced unknown block, one further peer is asked, besides those already asked.
//! - Header sync is done when every outbound peer has sent its chain, or its time is over. Headers of inbound peers
//!   are processed, but not waited for.
//! - Headers with a time too far in the future are kept and submitted to the tree again when their time has come.
//! - A peer behind us answers with no headers: `behind` asks once more, for those that it has.
//!
//! Source: Bitcoin Core b88bffe, net_processing.cpp, `ProcessHeadersMessage` and the functions that it calls.
//!
//! Absent on purpose: blocks. Other parts read here which peer has which blocks (`HeaderSync::best_known`).

mod behind;
mod future;
mod lagging;
mod patience;
mod peer_headers;
pub mod quota;
pub mod schedule;

use super::context::Context;
use crate::api::{Event, PeerId};
use crate::chain::{HEADERS_COUNT_MAX, HeaderInfo, HeaderRefusal, hash_all};
use crate::low_work::{LowWorkSync, Phase};
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::{Inventory, Message};
use future::FutureHeaders;
use patience::Patience;
use peer_headers::PeerHeaders;
use primitives::{BlockHash, Header, Height, MedianTime, Work};
use quota::{HeaderQuota, Holder};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of peers that are asked for their whole chain at a time.
pub const STREAM_COUNT_MAX: usize = 3;
/// Timeout of one answer. Source: Core's `HEADERS_RESPONSE_TIME`.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// Maximum number of consecutive messages of unconnecting headers.
pub const UNCONNECTED_COUNT_MAX: u32 = 50;

/// Header sync: the known part of the peers' chains, and outstanding requests.
#[derive(Debug, Default)]
pub(super) struct HeaderSync {
    /// State of each peer, by id.
    told: BTreeMap<PeerId, PeerHeaders>,
    /// Whether all peers are asked, and not only a few.
    ask_all: bool,
    first_asked_at: Option<Duration>,
    future: Vec<FutureHeaders>,
    quota: HeaderQuota,
    /// The announced unknown block for which a further peer was asked.
    asked_for: Option<BlockHash>,
    /// Whether it was logged that headers are far ahead of the clock.
    said_far: bool,
    /// Which peers' further headers the end of header sync still waits for.
    patience: Patience,
    /// See [`Event::HeadersDone`].
    done: bool,
    /// See [`crate::Progress::headers_settled`].
    settled: bool,
    /// The last header of the message just processed, if it is in the tree.
    announced: Option<HeaderInfo>,
}

/// Headers of one message: continuous, with valid proof of work.
#[derive(Clone, Copy)]
struct Batch<'a> {
    headers: &'a [Header],
    hashes: &'a [BlockHash],
    /// Whether the message had the maximum number: then there may be more.
    full: bool,
}

impl HeaderSync {
    /// Adds a new connection.
    pub(super) fn add_peer(&mut self, id: PeerId) {
        self.told.insert(id, PeerHeaders::default());
    }

    /// Removes a connection that ended.
    pub(super) fn remove_peer(&mut self, id: PeerId) {
        self.told.remove(&id);
    }

    fn of(&mut self, id: PeerId) -> &mut PeerHeaders {
        self.told.get_mut(&id).expect("every connection has an entry")
    }

    fn seen_of(&self, id: PeerId) -> &PeerHeaders {
        self.told.get(&id).expect("every connection has an entry")
    }

    // State for other parts.

    /// When a peer last announced a new block with more work than our tip had. Source: Core's
    /// `m_last_block_announcement`.
    pub(super) fn announced_at(&self, id: PeerId) -> Option<Duration> {
        self.told.get(&id).and_then(|told| told.announced_at)
    }

    /// Whether a peer is protected from disconnection because of its chain.
    pub(super) fn is_protected(&self, id: PeerId) -> bool {
        self.told.get(&id).is_some_and(|told| told.lag.is_protected)
    }

    /// See [`Event::HeadersDone`].
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// See [`crate::Progress::headers_settled`].
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// The best block that a peer is known to have.
    pub(super) fn best_known(&self, id: PeerId) -> Option<HeaderInfo> {
        self.told.get(&id)?.best_known
    }

    /// Height and work of the end of a peer's chain, as far as it was sent, stored or not.
    pub(super) fn chain_end(&self, id: PeerId) -> Option<(Height, Work)> {
        let told = self.told.get(&id)?;
        let stored = told.best_known.map(|best| (best.height, best.work));
        stored.into_iter().chain(told.short).max_by_key(|(_, work)| *work)
    }

    /// Whether a peer answered with a headers message, even an empty one.
    pub(super) fn is_heard(&self, id: PeerId) -> bool {
        self.told.get(&id).is_some_and(|told| told.is_heard)
    }

    /// Height that the low-work sync with a peer has reached.
    pub(super) fn presynced(&self, id: PeerId) -> Option<Height> {
        Some(self.told.get(&id)?.low_work.as_ref()?.height())
    }

    /// The greatest height of low-work syncs that do not store yet.
    pub(super) fn presync_height(&self) -> Option<Height> {
        let syncs = self.told.values().filter_map(|told| told.low_work.as_ref());
        syncs.filter(|sync| sync.phase() == Phase::Presync).map(|sync| sync.height()).max()
    }

    /// Peers whose best chain has this block.
    pub(super) fn those_on(&self, cx: &Context, hash: BlockHash, height: Height) -> Vec<PeerId> {
        let is_on = |best: HeaderInfo| cx.chain.ancestor(&best.hash, height) == Some(hash);
        self.told.iter().filter(|(_, told)| told.best_known.is_some_and(is_on)).map(|(id, _)| *id).collect()
    }

    // Requests.

    /// Requests the headers after `locator` from a peer, unless a request is outstanding.
    fn ask_headers(&mut self, cx: &mut Context, id: PeerId, locator: Vec<BlockHash>, now: Now) {
        let (Some(peer), Some(told)) = (cx.peers.get_mut(&id), self.told.get_mut(&id)) else { return };
        let waits = |at: Duration| now.since_start.saturating_sub(at) < ANSWER_TIMEOUT;
        if peer.is_of_other_chain() || told.asked_at.is_some_and(waits) {
            return;
        }
        told.asked_at = Some(now.since_start);
        told.asked_bytes = peer.transport.received_bytes();
        told.deferred = false;
        peer.send(&Message::GetHeaders(locator, BlockHash::ZERO));
    }

    /// Requests headers from one before the best header, so that the answer has the peer's best even if it is ours.
    fn ask_from_best(&mut self, cx: &mut Context, id: PeerId, now: Now) {
        let best = cx.chain.best_header();
        let from = if best.height == Height::GENESIS { best.hash } else { best.header.prev() };
        self.of(id).started = true;
        let locator = cx.chain.locator(&from);
        self.ask_headers(cx, id, locator, now);
    }

    /// Requests the headers after the best header.
    fn ask_beyond_best(&mut self, cx: &mut Context, id: PeerId, now: Now) {
        let locator = cx.chain.locator(&cx.chain.best_header().hash);
        self.ask_headers(cx, id, locator, now);
    }

    /// Forgets where the peers' chains ended and asks them all again, because our best chain changed.
    pub(super) fn ask_all_again(&mut self) {
        for told in self.told.values_mut() {
            (told.started, told.at_end) = (false, false);
        }
    }

    // Received messages.

    /// Removes and returns the last header of the message that [`HeaderSync::on_headers`] processed, if it is in the
    /// tree: the peer announced it.
    pub(super) fn take_announced(&mut self) -> Option<HeaderInfo> {
        self.announced.take()
    }

    /// Handles `headers`, or the header of an unsolicited block.
    ///
    /// # Errors
    ///
    /// The [`Reason`] for ending the connection.
    pub(super) fn on_headers(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        headers: &[Header],
        now: Now,
    ) -> Result<(), Reason> {
        self.announced = None;
        if cx.peers.get(&id).is_some_and(Peer::is_of_other_chain) {
            return Ok(());
        }
        let chain = cx.chain.clone();
        self.of(id).is_heard = true;
        if headers.is_empty() {
            self.on_no_headers(cx, id, now);
            return Ok(());
        }
        let hashes = hash_all(cx.config.kernels, headers);
        if !chain.check_proof_of_work(headers, &hashes) {
            return Err(Reason::HeaderWork);
        }
        if headers[1..].iter().zip(&hashes).any(|(header, parent)| header.prev() != *parent) {
            return Err(Reason::HeadersNotContinuous);
        }
        let batch = Batch { headers, hashes: &hashes, full: headers.len() == HEADERS_COUNT_MAX };
        if let Some(released) = self.continue_low_work(cx, id, batch, now) {
            if released.is_empty() {
                return Ok(());
            }
            let hashes = hash_all(cx.config.kernels, &released);
            return self.store_headers(cx, id, Batch { headers: &released, hashes: &hashes, ..batch }, now);
        }
        let Some(parent) = chain.header(&headers[0].prev()) else {
            return self.on_unconnected(cx, id, hashes[hashes.len() - 1], now);
        };
        self.of(id).unconnected_count = 0;
        self.of(id).asked_at = None;
        let last = chain.header(&hashes[hashes.len() - 1]);
        if !last.is_some_and(|last| is_on_our_chain(cx, &last)) && !self.has_enough_work(cx, id, &parent, batch, now)? {
            return Ok(());
        }
        self.store_headers(cx, id, batch, now)
    }

    fn on_unconnected(&mut self, cx: &mut Context, id: PeerId, last: BlockHash, now: Now) -> Result<(), Reason> {
        let state = self.of(id);
        state.unknown = Some(last);
        state.unconnected_count += 1;
        if state.unconnected_count > UNCONNECTED_COUNT_MAX {
            return Err(Reason::HeadersUnconnected);
        }
        if state.is_backing_off(now) {
            return Ok(());
        }
        self.ask_beyond_best(cx, id, now);
        Ok(())
    }

    /// Continues a low-work sync of this peer; returns the headers that may be stored now. `None`: no sync has
    /// started, or it ended, and the headers are to be processed normally.
    fn continue_low_work(&mut self, cx: &mut Context, id: PeerId, batch: Batch<'_>, now: Now) -> Option<Vec<Header>> {
        let chain = cx.chain.clone();
        let mut sync = self.of(id).low_work.take()?;
        if let Some(header) = future::first_too_new(batch.headers, now) {
            self.is_far_in_future(cx, header, now);
            let state = self.of(id);
            state.short = Some((sync.height(), sync.work()));
            state.end_at_too_new(future::due_unix(header.time()));
            return Some(Vec::new());
        }
        let outcome = sync.process(batch.headers, batch.hashes, batch.full, &*chain);
        if !outcome.success {
            // Without a pause, a peer that shows one chain and sends another would be asked indefinitely.
            self.others_to_tell(cx, id, now).next()?;
            let until = now.since_start + ANSWER_TIMEOUT;
            self.of(id).skip_until(until);
            self.of(id).backoff_until = Some(until);
            return Some(Vec::new());
        }
        self.of(id).asked_at = None;
        if outcome.more {
            let locator = sync.locator(chain.locator(&sync.start().hash));
            self.of(id).low_work = Some(sync);
            self.ask_headers(cx, id, locator, now);
        } else if outcome.headers.is_empty() {
            let state = self.of(id);
            (state.at_end, state.short) = (true, Some((sync.height(), sync.work())));
        }
        Some(outcome.headers)
    }

    /// Whether the chain that ends with these headers has enough work to be stored. If not, and the message is full,
    /// starts a low-work sync with them.
    fn has_enough_work(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        parent: &HeaderInfo,
        batch: Batch<'_>,
        now: Now,
    ) -> Result<bool, Reason> {
        let Batch { headers, full, .. } = batch;
        let claimed = |sum: Work, header: &Header| sum.saturating_add(Work::of_bits(header.bits()));
        let threshold = cx.chain.anti_dos_work();
        // Source: Core's `already_validated_work`: trusted headers need no presync.
        let work = headers.iter().fold(parent.work, claimed);
        if work >= threshold || cx.peers[&id].is_noban() {
            return Ok(true);
        }
        if !full {
            let height = parent.height.saturating_add(u32::try_from(headers.len()).unwrap_or(u32::MAX));
            let state = self.of(id);
            (state.at_end, state.short) = (true, Some((height, work)));
            let peer = cx.peers.get_mut(&id).expect("it just spoke");
            peer.journal.say(|| format!("Ignoring low-work chain (height={height}) from peer={id}"));
            return self.require_minimum_work(cx, id).map(|()| false);
        }
        if self.of(id).is_backing_off(now) {
            return Ok(false);
        }
        let median = cx.chain.median_time_past(&parent.hash).unwrap_or(MedianTime::ZERO);
        let network = cx.config.network;
        let sync = LowWorkSync::new(&network, *parent, median, threshold, now.unix, &mut cx.rng);
        self.of(id).low_work = Some(Box::new(sync));
        self.continue_low_work(cx, id, batch, now);
        Ok(false)
    }

    /// During initial download, an outbound peer that has sent its whole chain must have minimum work.
    fn require_minimum_work(&self, cx: &Context, id: PeerId) -> Result<(), Reason> {
        let enough = self.best_known(id).is_some_and(|best| best.work >= cx.chain.minimum_work());
        let is_chosen = matches!(cx.peers[&id].kind, Kind::Automatic | Kind::BlockRelay);
        if is_chosen && !enough && cx.chain.initial_download() {
            return Err(Reason::LittleWork);
        }
        Ok(())
    }

    /// Submits headers to the tree, and requests more if there may be more.
    fn store_headers(&mut self, cx: &mut Context, id: PeerId, batch: Batch<'_>, now: Now) -> Result<(), Reason> {
        let Batch { headers, hashes, full } = batch;
        let is_known = cx.chain.header(&hashes[hashes.len() - 1]).is_some();
        let holder = Holder::of(&cx.peers[&id], &cx.config.groups);
        if !is_known && self.is_far_ahead(cx, holder) {
            let state = self.of(id);
            (state.at_end, state.deferred) = (false, true);
            return Ok(());
        }
        let verdict = cx.chain.accept_headers(headers, hashes, now.unix);
        if verdict.new_count > 0 {
            self.quota.add(holder, verdict.new_count);
            cx.event(Event::Headers { peer: id, new_count: verdict.new_count });
        }
        if let Some(last) = verdict.last {
            if verdict.new_count > 0 && last.work > cx.chain.tip().work {
                self.of(id).announced_at = Some(now.since_start);
            }
            self.note_best_known(id, last);
            self.protect_from_lag(cx, id);
            self.look_at_lag(cx, id, now)?;
            self.announced = Some(last);
            if !self.of(id).note_progress(last.work, full, now) {
                return Err(Reason::HeadersRepeated);
            }
        }
        self.of(id).too_new = matches!(verdict.refused, Some(HeaderRefusal::TooNew { .. }));
        match verdict.refused {
            Some(HeaderRefusal::Invalid { hash, reason, .. }) => {
                say_refused_header(cx, hash, &reason);
                return Err(Reason::HeaderInvalid { hash, reason });
            }
            Some(HeaderRefusal::Known { hash }) => return self.on_refused_before(cx, id, hash),
            Some(HeaderRefusal::TooNew { index, time }) => {
                let why = "time-too-new, block timestamp too far in the future";
                hashes.get(index).into_iter().for_each(|hash| say_refused_header(cx, *hash, why));
                self.keep_future(cx, id, headers.get(index..).unwrap_or(&[]), time, now);
                let state = self.of(id);
                state.at_end = true;
                if state.low_work.is_some() {
                    state.end_at_too_new(future::due_unix(time));
                }
                return Ok(());
            }
            None => {}
        }
        if self.of(id).low_work.is_some() {
            return Ok(());
        }
        if !full {
            self.of(id).at_end = true;
            return self.require_minimum_work(cx, id);
        }
        self.of(id).at_end = false;
        // One slot more than the number of streams: for a peer that was asked because of an announcement.
        let may_ask = !self.of(id).is_backing_off(now) && !self.is_far_ahead(cx, holder);
        if self.stream_count(cx, id) <= STREAM_COUNT_MAX && may_ask {
            let locator = match verdict.last {
                Some(last) if verdict.new_count == 0 => locator_beyond(cx, &last),
                last => cx.chain.locator(&last.map_or(hashes[hashes.len() - 1], |last| last.hash)),
            };
            self.ask_headers(cx, id, locator, now);
        } else {
            self.of(id).deferred = true;
        }
        Ok(())
    }

    /// A peer is on a chain that was marked invalid before. Inbound and named peers stay connected: they may return
    /// to our chain, and if the user invalidated the chain, they do nothing wrong.
    ///
    /// Source: Bitcoin Core b88bffe, `MaybePunishNodeForBlock`, `MaybeDiscourageAndDisconnect`.
    fn on_refused_before(&mut self, cx: &Context, id: PeerId, hash: BlockHash) -> Result<(), Reason> {
        if matches!(cx.peers[&id].kind, Kind::Inbound | Kind::Manual(_)) {
            self.of(id).at_end = true;
            return Ok(());
        }
        Err(Reason::HeaderInvalid { hash, reason: "duplicate-invalid".to_owned() })
    }

    /// Streams that share the limit with this peer: inbound peers use none of the slots of outbound ones.
    fn stream_count(&self, cx: &Context, id: PeerId) -> usize {
        let sought = cx.peers.get(&id).is_some_and(Peer::is_outbound);
        let streams = cx.peers.values().filter(|peer| self.seen_of(peer.id).is_streaming());
        streams.filter(|peer| peer.is_outbound() || !sought).count()
    }

    /// Records that a peer has a block: it announced it, or a descendant.
    pub(super) fn note_best_known(&mut self, id: PeerId, info: HeaderInfo) {
        if let Some(told) = self.told.get_mut(&id) {
            told.note_best_known(info);
        }
    }

    /// Handles `inv`: only announced blocks matter here.
    pub(super) fn on_inv(&mut self, cx: &mut Context, id: PeerId, list: &[Inventory], now: Now) {
        let mut unknown = None;
        for hash in list.iter().filter_map(Inventory::block) {
            match cx.chain.header(&hash) {
                Some(info) => self.note_best_known(id, info),
                None => unknown = Some(hash),
            }
        }
        if unknown.is_none() {
            return;
        }
        let is_further = self.asked_for != unknown && self.stream_count(cx, id) <= STREAM_COUNT_MAX;
        self.of(id).unknown = unknown;
        let told = self.seen_of(id);
        if self.ask_all || told.started {
            self.ask_beyond_best(cx, id, now);
        } else if is_further && cx.peers[&id].is_outbound() && !told.is_skipped(now) {
            // The peer being asked may be slow on purpose: normal scheduling asks another one. As in Core.
            self.asked_for = unknown;
            self.ask_from_best(cx, id, now);
        }
    }
}

/// Known headers of the best chain, or of the connected one, need no more memory: they are always accepted.
fn is_on_our_chain(cx: &Context, info: &HeaderInfo) -> bool {
    let ends = [cx.chain.best_header().hash, cx.chain.tip().hash];
    ends.iter().any(|of| cx.chain.ancestor(of, info.height) == Some(info.hash))
}

/// Source: Bitcoin Core b88bffe, `AcceptBlockHeader`.
fn say_refused_header(cx: &mut Context, hash: BlockHash, why: &str) {
    cx.debug(|| format!("AcceptBlockHeader: Consensus::ContextualCheckBlockHeader: {hash}, {why}"));
}

/// A locator for a peer that sent headers up to `last`, all of them known: if they are on our best chain, the peer
/// need not send the rest of it. `last` itself is in the locator, so that the answer begins at `last` or above.
fn locator_beyond(cx: &Context, last: &HeaderInfo) -> Vec<BlockHash> {
    let best = cx.chain.best_header();
    if best.height <= last.height || cx.chain.ancestor(&best.hash, last.height) != Some(last.hash) {
        return cx.chain.locator(&last.hash);
    }
    let is_above = |hash: &BlockHash| cx.chain.header(hash).is_some_and(|info| info.height > last.height);
    let mut locator = cx.chain.locator(&best.header.prev());
    let place = locator.iter().take_while(|hash| is_above(hash)).count();
    locator.insert(place, last.hash);
    locator
}

#[cfg(test)]
mod tests {
    use super::super::context::alone::{actions, add_peer, context, now};
    use super::super::outbound::Outbound;
    use super::*;
    use crate::chain::ChainView as _;
    use crate::sim::{Chain, headers_on, made_on};
    use std::sync::Arc;

    #[test]
    fn headers_of_a_peer_are_stored_and_remembered_as_its_chain() {
        let chain = Arc::new(Chain::new());
        let mut cx = context(&chain);
        let id = add_peer(&mut cx, Kind::Automatic);
        let mut sync = HeaderSync::default();
        sync.add_peer(id);
        sync.ask_next(&mut cx, now(1));
        assert!(sync.told[&id].asked_at.is_some() && !sync.is_heard(id));
        let headers = headers_on(&chain.best_header(), 5, 1);
        sync.on_headers(&mut cx, id, &headers, now(2)).unwrap();
        let best = chain.best_header();
        assert_eq!((best.height, sync.best_known(id)), (Height::new(5), Some(best)));
        assert_eq!((sync.take_announced(), sync.take_announced()), (Some(best), None), "taken once");
        assert_eq!((sync.is_heard(id), sync.chain_end(id)), (true, Some((best.height, best.work))));
        assert_eq!(sync.those_on(&cx, best.hash, best.height), [id]);
        let told = actions(&mut cx).into_iter().any(
            |action| matches!(action, crate::hub::Action::Event(Event::Headers { peer, new_count: 5 }) if peer == id),
        );
        assert!(told, "the node hears of them");
        // Its end is the end of all: there is nobody else.
        let mut outbound = Outbound::new(&cx.config, now(0), &mut crate::rng::Rng::Seeded(1)).unwrap();
        sync.tell_done(&mut cx, &mut outbound, |_| false, now(3));
        assert!(sync.is_done() && sync.is_settled());
        sync.remove_peer(id);
        assert_eq!((sync.best_known(id), sync.chain_end(id)), (None, None), "nothing is left of it");
    }

    #[test]
    fn headers_that_are_no_chain_end_the_connection() {
        let chain = Arc::new(Chain::new());
        let mut cx = context(&chain);
        let id = add_peer(&mut cx, Kind::Automatic);
        let mut sync = HeaderSync::default();
        sync.add_peer(id);
        let made = made_on(&chain.best_header(), 3, 1, 0).headers;
        let gap = [made[0], made[2]];
        let result = sync.on_headers(&mut cx, id, &gap, now(1));
        assert_eq!((result, sync.take_announced()), (Err(Reason::HeadersNotContinuous), None));
        for count in 0..=UNCONNECTED_COUNT_MAX {
            let result = sync.on_headers(&mut cx, id, &made[2..], now(1));
            assert_eq!(result.is_err(), count == UNCONNECTED_COUNT_MAX, "{count}");
        }
        assert_eq!(chain.header_count(), 1, "nothing is stored");
    }
}
