//! Headers with a time too far in the future: kept, and submitted to the tree again when their time has come.

use super::super::context::Context;
use super::HeaderSync;
use super::quota::Holder;
use crate::api::{Event, PeerId};
use crate::chain::{HeaderRefusal, hash_all};
use crate::peer::Peer;
use crate::reason::Reason;
use crate::time::Now;
use primitives::Header;

/// Maximum number of header lists kept because of their time.
const FUTURE_HEADERS_COUNT_MAX: usize = 16;
/// Headers further ahead of the time at which they become valid are not kept, in seconds.
const FUTURE_HEADERS_S_MAX: u64 = 3600;
/// Maximum time of a block ahead of the clock, in seconds. Source: `MAX_FUTURE_BLOCK_TIME`.
const FUTURE_BLOCK_S_MAX: u64 = 7200;

/// Headers that wait for their time.
#[derive(Debug)]
pub(super) struct FutureHeaders {
    peer: PeerId,
    holder: Holder,
    headers: Vec<Header>,
    due_unix: u64,
}

/// When a header with this time is valid, in seconds since 1970.
pub(super) fn due_unix(time: u32) -> u64 {
    u64::from(time).saturating_sub(FUTURE_BLOCK_S_MAX)
}

/// The first of these headers whose time is too far in the future.
pub(super) fn first_too_new(headers: &[Header], now: Now) -> Option<&Header> {
    headers.iter().find(|header| due_unix(header.time()) > now.unix)
}

impl HeaderSync {
    pub(super) fn keep_future(&mut self, cx: &mut Context, peer: PeerId, headers: &[Header], time: u32, now: Now) {
        let due_unix = due_unix(time);
        let (Some(first), Some(last)) = (headers.first(), headers.last()) else { return };
        if self.is_far_in_future(cx, first, now) {
            return;
        }
        if self.future.iter().any(|aside| aside.headers.last() == Some(last)) || !self.has_place(cx, peer) {
            return;
        }
        let Some(holder) = cx.peers.get(&peer).map(|peer| Holder::of(peer, &cx.config.groups)) else { return };
        self.future.push(FutureHeaders { peer, holder, headers: headers.to_vec(), due_unix });
        let text = format!(
            "header {} kept for later: its time {time} is more than two hours ahead of the clock, {}",
            headers[0].hash(),
            now.unix
        );
        let inbound = cx.peers.get(&peer).is_some_and(|peer| !peer.is_outbound());
        cx.event(Event::PeerNote { peer: Some(peer), inbound, text });
    }

    /// Whether a header's time is so far ahead that it is not kept. Logged once, because any peer may cause it: only the
    /// user can know whose clock is wrong, theirs or ours.
    pub(super) fn is_far_in_future(&mut self, cx: &mut Context, header: &Header, now: Now) -> bool {
        let time = u64::from(header.time());
        let is_far = due_unix(header.time()) > now.unix + FUTURE_HEADERS_S_MAX;
        if is_far && !std::mem::replace(&mut self.said_far, true) {
            let note = format!(
                "header {} is not taken: its time {time} is {} s ahead of this machine's clock, {}, and 7200 are \
                 allowed: is the clock right?",
                header.hash(),
                time - now.unix,
                now.unix
            );
            cx.event(Event::Note(note));
        }
        is_far
    }

    /// Makes space for one more list: each peer has one at a time, and lists of inbound peers are evicted for those
    /// of outbound peers. Returns whether there is space.
    fn has_place(&mut self, cx: &Context, peer: PeerId) -> bool {
        let is_outbound = |of: PeerId| cx.peers.get(&of).is_some_and(Peer::is_outbound);
        let future = &self.future;
        let own = future.iter().position(|aside| aside.peer == peer);
        let other = || future.iter().position(|aside| is_outbound(peer) && !is_outbound(aside.peer));
        let is_full = future.len() >= FUTURE_HEADERS_COUNT_MAX;
        if let Some(place) = own.or_else(|| if is_full { other() } else { None }) {
            self.future.remove(place);
            return true;
        }
        !is_full
    }

    /// See [`crate::Progress::headers_too_new`].
    pub(in super::super) fn headers_too_new(&self, cx: &Context) -> bool {
        let outbound = cx.peers.values().filter(|peer| peer.is_outbound()).map(|peer| self.seen_of(peer.id));
        let told: Vec<_> = outbound.filter(|told| told.at_end).collect();
        let too_new = told.iter().filter(|told| told.too_new).count();
        too_new > 0 && too_new * 2 >= told.len()
    }

    /// Submits headers whose time has come to the tree; returns peers whose headers it refuses, and why.
    pub(in super::super) fn retry_future(&mut self, cx: &mut Context, now: Now) -> Vec<(PeerId, Reason)> {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.future).into_iter().partition(|aside| aside.due_unix <= now.unix);
        self.future = later;
        let mut refused = Vec::new();
        for FutureHeaders { peer, holder, headers, .. } in due {
            // The parent may have been removed or refused meanwhile; the tree decides. They count as if they arrived
            // now.
            if cx.chain.header(&headers[0].prev()).is_none() || self.is_far_ahead(cx, holder) {
                continue;
            }
            let hashes = hash_all(cx.config.kernels, &headers);
            let verdict = cx.chain.accept_headers(&headers, &hashes, now.unix);
            if verdict.new_count > 0 {
                self.quota.add(holder, verdict.new_count);
                cx.event(Event::Headers { peer, new_count: verdict.new_count });
            }
            if let Some(last) = verdict.last {
                self.note_best_known(peer, last);
            }
            match verdict.refused {
                Some(HeaderRefusal::Invalid { hash, reason, .. }) => {
                    refused.push((peer, Reason::HeaderInvalid { hash, reason }));
                }
                Some(HeaderRefusal::TooNew { index, time }) => {
                    self.keep_future(cx, peer, headers.get(index..).unwrap_or(&[]), time, now);
                }
                Some(HeaderRefusal::Known { .. }) | None => {}
            }
        }
        refused
    }
}
