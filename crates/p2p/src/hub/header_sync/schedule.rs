//! Schedule of header sync: which peer is asked next, timeouts, and when every peer has sent its chain.

use super::super::context::Context;
use super::super::outbound::Outbound;
use super::patience::Waited;
use super::quota::Holder;
use super::{ANSWER_TIMEOUT, HeaderSync, PeerHeaders, STREAM_COUNT_MAX};
use crate::api::{Event, PeerId};
use crate::low_work::Phase;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use primitives::Work;
use std::cmp::Reverse;
use std::time::Duration;

/// While no peer has sent its whole chain, another is asked at this interval.
pub const STREAM_INTERVAL: Duration = Duration::from_secs(60);
/// How long a peer with an outstanding request may send nothing at all.
pub const QUIET_TIMEOUT: Duration = Duration::from_secs(20);
/// Base time for a peer to send its whole chain. Source: Core's `HEADERS_DOWNLOAD_TIMEOUT_BASE`.
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Additional time for each expected header. Source: Core's `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`.
pub const STREAM_TIMEOUT_HEADER: Duration = Duration::from_millis(1);
/// Seconds between two blocks, for the number of expected headers.
const SPACING_S: u64 = 600;
/// A best header of this age, in seconds, is not recent. Source: Core.
const CURRENT_S: u64 = 24 * 3600;
/// A connection younger than this may still send a better chain.
const YOUNG: Duration = Duration::from_secs(5);

impl HeaderSync {
    /// Start of a tick: updates the quota, resubmits headers whose time has come, and resolves announced blocks.
    /// Returns peers whose headers were refused, and why.
    pub(in super::super) fn begin_tick(&mut self, cx: &mut Context, now: Now) -> Vec<(PeerId, Reason)> {
        self.quota.set_tip(cx.chain.tip().height);
        let refused = self.retry_future(cx, now);
        self.told.values_mut().for_each(|told| told.look_at_clock(now));
        self.resolve_unknown(cx);
        refused
    }

    /// Asks the next peer for headers, if one is due: at every tick, and immediately after the handshake of an only
    /// peer.
    pub(in super::super) fn ask_next(&mut self, cx: &mut Context, now: Now) {
        let best = cx.chain.best_header();
        let told = cx.peers.values().any(|peer| peer.is_outbound() && self.seen_of(peer.id).at_end);
        if !self.ask_all && told && best.work >= cx.chain.minimum_work() {
            self.ask_all = true;
            self.end_presyncs();
        }
        if self.ask_all {
            self.ask_those_not_asked(cx, now);
        } else {
            self.ask_a_few(cx, now);
        }
    }

    /// A chain with minimum work is stored: peers in presync are asked for headers beyond it. An honest peer, however
    /// slow, sends those in one message; presync would process the same headers twice.
    fn end_presyncs(&mut self) {
        self.told.values_mut().filter(|told| told.low_work.is_some()).for_each(PeerHeaders::begin_anew);
    }

    /// Resolves announced blocks whose headers were unknown and have since arrived from another peer.
    fn resolve_unknown(&mut self, cx: &Context) {
        for told in self.told.values_mut() {
            let Some(info) = told.unknown.and_then(|hash| cx.chain.header(&hash)) else { continue };
            told.unknown = None;
            told.note_best_known(info);
        }
    }

    /// Checks the timeouts of one peer.
    ///
    /// # Errors
    ///
    /// The [`Reason`] for ending the connection.
    pub(in super::super) fn tick_peer(&mut self, cx: &mut Context, id: PeerId, now: Now) -> Result<(), Reason> {
        let at = now.since_start;
        let minimum = cx.chain.minimum_work();
        let Some(peer) = cx.peers.get_mut(&id) else { return Ok(()) };
        // Source: Bitcoin Core b88bffe, `MaybeSendSendHeaders`.
        if peer.is_ready() && self.best_known(id).is_some_and(|best| best.work > minimum) {
            peer.ask_for_headers();
        }
        let kind = peer.kind;
        let is_noban = peer.is_noban();
        let last_received = peer.last_received();
        let told = self.seen_of(id);
        if let Some(asked) = told.asked_at {
            let quiet = at.saturating_sub(asked.max(last_received)) > QUIET_TIMEOUT;
            if quiet || at.saturating_sub(asked) > ANSWER_TIMEOUT {
                let is_told = told.at_end || self.ask_all;
                // Once caught up, no answer is required. Source: Core's `m_headers_sync_timeout`.
                let is_behind = u64::from(cx.chain.best_header().header.time()) + CURRENT_S <= now.unix;
                let replaceable = kind == Kind::Automatic && !is_noban && !is_told && is_behind;
                let others = cx.peers.values().any(|other| other.is_ready() && other.id != id && other.is_outbound());
                if replaceable && others {
                    return Err(Reason::HeadersStalled);
                }
                self.of(id).skip_until(at + ANSWER_TIMEOUT);
            }
        }
        self.tick_stream(cx, id, now)?;
        self.look_at_lag(cx, id, now)
    }

    /// Ends a stream that takes longer than its expected length allows, if another peer waits to be asked. The stream
    /// that is furthest goes on while it keeps pace: on a slow line, which the streams share, none might ever reach its
    /// end.
    fn tick_stream(&mut self, cx: &Context, id: PeerId, now: Now) -> Result<(), Reason> {
        let at = now.since_start;
        let best = cx.chain.best_header();
        let missing = now.unix.saturating_sub(u64::from(best.header.time())) / SPACING_S;
        let timeout = STREAM_TIMEOUT + STREAM_TIMEOUT_HEADER * u32::try_from(missing).unwrap_or(u32::MAX);
        let Some(peer) = cx.peers.get(&id) else { return Ok(()) };
        let told = self.of(id);
        let streams = told.is_streaming();
        told.stream_since = streams.then(|| told.stream_since.unwrap_or(at));
        told.look_at_pace(told.pace_count(missing), at);
        let late = told.stream_since.is_some_and(|since| at.saturating_sub(since) > timeout);
        let is_kept = peer.kind != Kind::Automatic || peer.is_noban();
        let enough = best.work >= cx.chain.minimum_work();
        let others = || self.others_to_tell(cx, id, now);
        let goes_on = || self.seen_of(id).keeps_pace() && self.is_furthest(cx, id);
        if !late || goes_on() || others().all(|peer| self.seen_of(peer.id).is_streaming()) {
            return Ok(());
        }
        if !is_kept && !enough {
            return Err(Reason::HeadersStalled);
        }
        let until = at + STREAM_TIMEOUT;
        self.of(id).skip_until(until);
        self.of(id).backoff_until = Some(until);
        Ok(())
    }

    /// Whether no other stream of an outbound peer is further than that of this peer: in its phase, then by work, and of
    /// equal ones the older.
    fn is_furthest(&self, cx: &Context, id: PeerId) -> bool {
        let reached = |told: &PeerHeaders| {
            let is_stored = told.low_work.as_ref().is_some_and(|sync| sync.phase() == Phase::Redownload);
            let work = match &told.low_work {
                Some(sync) if is_stored => sync.redownload_work(),
                Some(sync) => sync.work(),
                None => told.best_known.map_or(Work::ZERO, |best| best.work),
            };
            (is_stored, work, Reverse(told.stream_since))
        };
        let own = reached(self.seen_of(id));
        let others = cx.peers.values().filter(|peer| peer.id != id && peer.is_outbound());
        others.map(|peer| self.seen_of(peer.id)).filter(|told| told.is_streaming()).all(|told| reached(told) <= own)
    }

    /// Other outbound peers that have not sent their chains and can be asked or are being asked.
    pub(super) fn others_to_tell<'a>(
        &'a self,
        cx: &'a Context,
        id: PeerId,
        now: Now,
    ) -> impl Iterator<Item = &'a Peer> {
        cx.peers.values().filter(move |peer| {
            let told = self.seen_of(peer.id);
            let of_use =
                peer.is_ready() && peer.is_outbound() && peer.kind != Kind::AddressFetch && peer.serves_blocks();
            peer.id != id && of_use && (!told.at_end || told.deferred) && !told.is_skipped(now)
        })
    }

    fn ask_those_not_asked(&mut self, cx: &mut Context, now: Now) {
        let may = |peer: &&Peer| {
            let told = self.seen_of(peer.id);
            let is_fresh = peer.is_ready() && !told.is_skipped(now) && !told.started;
            is_fresh && peer.kind != Kind::AddressFetch && !peer.is_of_other_chain()
        };
        let fresh: Vec<_> = cx.peers.values().filter(may).map(|peer| peer.id).collect();
        for id in fresh {
            self.ask_from_best(cx, id, now);
        }
        let waits = |peer: &&Peer| {
            let told = self.seen_of(peer.id);
            told.deferred && !told.is_backing_off(now) && !self.is_far_ahead(cx, Holder::of(peer, &cx.config.groups))
        };
        let deferred = cx.peers.values().find(waits).map(|peer| peer.id);
        if let Some(id) = deferred.filter(|id| self.stream_count(cx, *id) < STREAM_COUNT_MAX) {
            self.ask_from_best(cx, id, now);
        }
    }

    fn ask_a_few(&mut self, cx: &mut Context, now: Now) {
        let at = now.since_start;
        let since = self.first_asked_at.map_or(Duration::ZERO, |first| at.saturating_sub(first));
        let minutes = usize::try_from(since.as_secs() / STREAM_INTERVAL.as_secs()).unwrap_or(usize::MAX);
        let may = |peer: &&Peer| {
            let told = self.seen_of(peer.id);
            let idle = !told.is_streaming() && (!told.at_end || told.deferred) && !told.is_skipped(now);
            let is_ours = peer.is_ready() && peer.kind != Kind::AddressFetch && !peer.is_of_other_chain();
            is_ours && idle && !self.is_far_ahead(cx, Holder::of(peer, &cx.config.groups))
        };
        let outbound = cx.peers.values().filter(may).find(|peer| peer.is_outbound() && peer.serves_blocks());
        let Some(id) = outbound.or_else(|| cx.peers.values().find(may)).map(|peer| peer.id) else { return };
        let advancing = |peer: &&Peer| {
            let told = self.seen_of(peer.id);
            let advances = told.is_advancing(peer.transport.received_bytes(), peer.last_received(), now);
            told.is_streaming() && advances
        };
        let advancing_count = cx.peers.values().filter(|peer| peer.is_outbound()).filter(advancing).count();
        let is_enough = advancing_count >= minutes.saturating_add(1);
        let stream_count = self.stream_count(cx, id);
        if stream_count >= STREAM_COUNT_MAX || (is_enough && stream_count > 0) {
            return;
        }
        self.first_asked_at.get_or_insert(at);
        self.ask_from_best(cx, id, now);
    }

    /// Whether a peer has sent its whole chain, and which peers may still send a better one.
    fn told_and_waited_for(
        &mut self,
        cx: &Context,
        outbound: &mut Outbound,
        withholds: impl Fn(PeerId) -> bool,
        now: Now,
    ) -> (bool, Vec<(Waited, Work)>) {
        let mut has_told = false;
        let mut is_telling = false;
        let mut waited = Vec::new();
        if outbound.has_young(YOUNG, now) {
            waited.push((Waited::Dial, Work::ZERO));
        }
        for peer in cx.peers.values() {
            let Some(of) = Waited::of(peer.kind) else { continue };
            if peer.is_of_other_chain() {
                outbound.heard(peer.kind);
                continue;
            }
            let told = self.seen_of(peer.id);
            has_told |= told.at_end;
            if peer.is_ready() && (told.at_end || told.is_skipped(now)) {
                outbound.heard(peer.kind);
            }
            let answering = peer.is_ready() && !told.at_end && !told.is_skipped(now);
            is_telling |= (answering && told.started) || told.low_work.is_some();
            let age = now.since_start.saturating_sub(peer.connected_at());
            let young = !peer.is_ready() && age < YOUNG;
            if !withholds(peer.id) && !told.is_stale(now) && (answering || young || told.low_work.is_some()) {
                waited.push((of, told.best_known.map_or(Work::ZERO, |best| best.work)));
            }
        }
        self.settled = has_told && !is_telling;
        (has_told, waited)
    }

    /// Checks whether all have sent their chains. `withholds` is true for a peer that does not deliver the blocks
    /// it announces.
    pub(in super::super) fn tell_done(
        &mut self,
        cx: &mut Context,
        outbound: &mut Outbound,
        withholds: impl Fn(PeerId) -> bool,
        now: Now,
    ) {
        let (told, waited) = self.told_and_waited_for(cx, outbound, withholds, now);
        let enough = cx.chain.best_header().work >= cx.chain.minimum_work();
        let waits = self.patience.waits(&waited, told && enough, now.since_start);
        let done = told && enough && !waits && !outbound.may_bring_more(now);
        if done && !self.done {
            cx.event(Event::HeadersDone);
        }
        self.done = done;
    }
}
