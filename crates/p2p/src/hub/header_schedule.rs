//! Who is asked for headers next, who took too long, and when every peer has told its chain: by the clock.

use super::Hub;
use super::header_quota::Holder;
use super::headers::{ANSWER_TIMEOUT, STREAM_COUNT_MAX};
use super::patience::Waited;
use crate::api::{Event, PeerId};
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use primitives::Work;
use std::time::Duration;

/// While no peer has told its whole chain, another is asked at this interval.
pub const STREAM_INTERVAL: Duration = Duration::from_secs(60);
/// How long an asked peer may send nothing at all.
pub const QUIET_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a peer may take for its whole chain, and besides Source: Core's `HEADERS_DOWNLOAD_TIMEOUT_BASE`.
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// this for each header that is expected. Source: Core's `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`.
pub const STREAM_TIMEOUT_HEADER: Duration = Duration::from_millis(1);
/// Seconds between two blocks, by which headers are expected.
const SPACING_S: u64 = 600;
/// A connection younger than this may still tell of a better chain.
const YOUNG: Duration = Duration::from_secs(5);

impl Hub {
    pub(super) fn tick_headers(&mut self, now: Now) {
        self.tick_header_quota();
        self.retry_future(now);
        self.resolve_unknown();
        for id in self.context.peer_ids() {
            self.tick_peer_headers(id, now);
        }
        self.ask_next(now);
        self.tell_done(now);
    }

    /// Asks who is to be asked next, if any peer is: at every tick, and when the handshake of an only peer ends, for which
    /// no tick need be waited for.
    pub(super) fn ask_next(&mut self, now: Now) {
        let best = self.context.chain.best_header();
        let told = self.context.peers.values().any(|peer| peer.is_outbound() && peer.headers.at_end);
        if !self.headers.ask_all && told && best.work >= self.context.chain.minimum_work() {
            self.headers.ask_all = true;
            self.end_presyncs();
        }
        if self.headers.ask_all {
            self.ask_those_not_asked(now);
        } else {
            self.ask_a_few(now);
        }
    }

    /// A chain with minimum work is there: a peer in presync is asked for what it has beyond it. An honest peer, however
    /// slow, tells that in one message; presync would go through the same headers twice.
    fn end_presyncs(&mut self) {
        for peer in self.context.peers.values_mut().filter(|peer| peer.headers.low_work.is_some()) {
            peer.headers.begin_anew();
        }
    }

    /// Blocks announced before their headers were known may be known now, from another peer.
    fn resolve_unknown(&mut self) {
        for peer in self.context.peers.values_mut() {
            let Some(info) = peer.headers.unknown.and_then(|hash| self.context.chain.header(&hash)) else { continue };
            peer.headers.unknown = None;
            peer.note_best_known(info);
        }
    }

    fn tick_peer_headers(&mut self, id: PeerId, now: Now) {
        let at = now.since_start;
        let minimum = self.context.chain.minimum_work();
        let Some(peer) = self.context.peers.get_mut(&id) else { return };
        // Source: Bitcoin Core b88bffe, `MaybeSendSendHeaders`.
        if peer.ready && peer.best_known.is_some_and(|best| best.work > minimum) {
            peer.ask_for_headers();
        }
        if let Some(asked) = peer.headers.asked_at {
            let quiet = at.saturating_sub(asked.max(peer.last_received())) > QUIET_TIMEOUT;
            if quiet || at.saturating_sub(asked) > ANSWER_TIMEOUT {
                let is_told = peer.headers.at_end || self.headers.ask_all;
                let replaceable = peer.kind == Kind::Automatic && !peer.is_noban() && !is_told;
                let others =
                    self.context.peers.values().any(|other| other.ready && other.id != id && other.is_outbound());
                if replaceable && others {
                    self.drop_peer(id, Reason::HeadersStalled, now);
                    return;
                }
                self.headers_of(id).skip_until(at + ANSWER_TIMEOUT);
            }
        }
        self.tick_stream(id, now);
        if let Err(reason) = self.look_at_lag(id, now) {
            self.drop_peer(id, reason, now);
        }
    }

    /// Ends a stream that takes longer than its chain is worth, where another peer waits to be asked.
    fn tick_stream(&mut self, id: PeerId, now: Now) {
        let at = now.since_start;
        let best = self.context.chain.best_header();
        let missing = now.unix.saturating_sub(u64::from(best.header.time())) / SPACING_S;
        let timeout = STREAM_TIMEOUT + STREAM_TIMEOUT_HEADER * u32::try_from(missing).unwrap_or(u32::MAX);
        let Some(peer) = self.context.peers.get_mut(&id) else { return };
        let streams = peer.headers.is_streaming();
        peer.headers.stream_since = streams.then(|| peer.headers.stream_since.unwrap_or(at));
        let late = peer.headers.stream_since.is_some_and(|since| at.saturating_sub(since) > timeout);
        let is_kept = peer.kind != Kind::Automatic || peer.is_noban();
        let enough = best.work >= self.context.chain.minimum_work();
        if !late || self.others_to_tell(id, now).all(|peer| peer.headers.is_streaming()) {
            return;
        }
        if !is_kept && !enough {
            return self.drop_peer(id, Reason::HeadersStalled, now);
        }
        let until = at + STREAM_TIMEOUT;
        self.headers_of(id).skip_until(until);
        self.headers_of(id).backoff_until = Some(until);
    }

    /// Other peers that we connected to, that have not told their chains and may be asked or are being asked.
    pub(super) fn others_to_tell(&self, id: PeerId, now: Now) -> impl Iterator<Item = &Peer> {
        self.context.peers.values().filter(move |peer| {
            let state = &peer.headers;
            let of_use = peer.ready && peer.is_outbound() && peer.kind != Kind::AddressFetch && peer.serves_blocks();
            peer.id != id && of_use && (!state.at_end || state.deferred) && !state.is_skipped(now)
        })
    }

    fn ask_those_not_asked(&mut self, now: Now) {
        let may = |peer: &Peer| peer.ready && peer.kind != Kind::AddressFetch && !peer.headers.is_skipped(now);
        let fresh: Vec<_> =
            self.context.peers.values().filter(|peer| may(peer) && !peer.headers.started).map(|peer| peer.id).collect();
        for id in fresh {
            self.ask_from_best(id, now);
        }
        let waits = |peer: &&Peer| {
            peer.headers.deferred && !peer.headers.is_backing_off(now) && !self.is_far_ahead(Holder::of(peer))
        };
        let deferred = self.context.peers.values().find(waits).map(|peer| peer.id);
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
            let idle = !state.is_streaming() && (!state.at_end || state.deferred) && !state.is_skipped(now);
            peer.ready && peer.kind != Kind::AddressFetch && idle && !self.is_far_ahead(Holder::of(peer))
        };
        let outbound = self.context.peers.values().filter(may).find(|peer| peer.is_outbound() && peer.serves_blocks());
        let Some(id) = outbound.or_else(|| self.context.peers.values().find(may)).map(|peer| peer.id) else { return };
        let advancing = |peer: &&Peer| {
            let state = &peer.headers;
            let advances = state.is_advancing(peer.transport.received_bytes(), peer.last_received(), now);
            state.is_streaming() && advances
        };
        let advancing_count = self.context.peers.values().filter(|peer| peer.is_outbound()).filter(advancing).count();
        let is_enough = advancing_count >= minutes.saturating_add(1);
        if self.stream_count(id) >= STREAM_COUNT_MAX || (is_enough && self.stream_count(id) > 0) {
            return;
        }
        self.headers.first_asked_at.get_or_insert(at);
        self.ask_from_best(id, now);
    }

    /// Whether a peer has told its whole chain, and who may still tell of a better one.
    fn told_and_waited_for(&mut self, now: Now) -> (bool, Vec<(Waited, Work)>) {
        let (mut told, mut waited) = (false, Vec::new());
        let mut is_telling = false;
        if self.outbound.has_young(YOUNG, now) {
            waited.push((Waited::Dial, Work::ZERO));
        }
        for peer in self.context.peers.values() {
            let Some(of) = Waited::of(peer.kind) else { continue };
            let state = &peer.headers;
            told |= state.at_end;
            if peer.ready && (state.at_end || state.is_skipped(now)) {
                self.outbound.heard(peer.kind);
            }
            let answering = peer.ready && !state.at_end && !state.is_skipped(now);
            is_telling |= (answering && state.started) || state.low_work.is_some();
            let age = now.since_start.saturating_sub(peer.connected_at());
            let young = !peer.ready && age < YOUNG;
            if !peer.withholds && !state.is_stale(now) && (answering || young || state.low_work.is_some()) {
                waited.push((of, peer.best_known.map_or(Work::ZERO, |best| best.work)));
            }
        }
        self.headers.settled = told && !is_telling;
        (told, waited)
    }

    fn tell_done(&mut self, now: Now) {
        let (told, waited) = self.told_and_waited_for(now);
        let enough = self.context.chain.best_header().work >= self.context.chain.minimum_work();
        let waits = self.headers.patience.waits(&waited, told && enough, now.since_start);
        let done = told && enough && !waits && !self.outbound.may_bring_more(now);
        if done && !self.headers.done {
            self.context.event(Event::HeadersDone);
        }
        self.headers.done = done;
    }
}
