//! Headers whose time is too far ahead of the clock: kept, and given to the tree again when their time has come.

use super::Hub;
use super::header_quota::Holder;
use crate::api::{Event, PeerId};
use crate::chain::{HeaderRefusal, hash_all};
use crate::peer::Peer;
use crate::reason::Reason;
use crate::time::Now;
use primitives::Header;

/// Lists of headers kept because of their time.
pub const FUTURE_HEADERS_COUNT_MAX: usize = 16;
/// Headers further ahead of the time at which they may be taken are not kept, in seconds.
pub const FUTURE_HEADERS_S_MAX: u64 = 3600;
/// How far a block's time may be ahead of the clock, in seconds. Source: `MAX_FUTURE_BLOCK_TIME`.
pub const FUTURE_BLOCK_S_MAX: u64 = 7200;

/// Headers that wait for their time.
#[derive(Debug)]
pub(super) struct FutureHeaders {
    peer: PeerId,
    holder: Holder,
    headers: Vec<Header>,
    due_unix: u64,
}

impl Hub {
    pub(super) fn keep_future(&mut self, peer: PeerId, headers: &[Header], time: u32, now: Now) {
        let due_unix = u64::from(time).saturating_sub(FUTURE_BLOCK_S_MAX);
        let near = due_unix.saturating_sub(now.unix) <= FUTURE_HEADERS_S_MAX;
        let Some(last) = headers.last() else { return };
        if !near {
            // Whose clock is wrong, theirs or ours, only the user can know. Said once, for any peer may cause it.
            if !std::mem::replace(&mut self.headers.said_far, true) {
                let note = format!(
                    "header {} is not taken: its time {time} is {} s ahead of this machine's clock, {}, and 7200 are \
                     allowed: is the clock right?",
                    headers[0].hash(),
                    u64::from(time).saturating_sub(now.unix),
                    now.unix
                );
                self.context.event(Event::Note(note));
            }
            return;
        }
        if self.headers.future.iter().any(|aside| aside.headers.last() == Some(last)) || !self.has_place(peer) {
            return;
        }
        let Some(holder) = self.context.peers.get(&peer).map(Holder::of) else { return };
        self.headers.future.push(FutureHeaders { peer, holder, headers: headers.to_vec(), due_unix });
        let text = format!(
            "header {} kept for later: its time {time} is more than two hours ahead of the clock, {}",
            headers[0].hash(),
            now.unix
        );
        let inbound = self.context.peers.get(&peer).is_some_and(|peer| !peer.is_outbound());
        self.context.event(Event::PeerNote { inbound, text });
    }

    /// Makes a place for one more list, if there is none: a peer has one at a time, and those that connected to us give
    /// theirs up for those that we connected to.
    fn has_place(&mut self, peer: PeerId) -> bool {
        let is_outbound = |of: PeerId| self.context.peers.get(&of).is_some_and(Peer::is_outbound);
        let future = &self.headers.future;
        let own = future.iter().position(|aside| aside.peer == peer);
        let other = || future.iter().position(|aside| is_outbound(peer) && !is_outbound(aside.peer));
        let is_full = future.len() >= FUTURE_HEADERS_COUNT_MAX;
        if let Some(place) = own.or_else(|| if is_full { other() } else { None }) {
            self.headers.future.remove(place);
            return true;
        }
        !is_full
    }

    /// See [`crate::Progress::headers_too_new`].
    pub(super) fn headers_too_new(&self) -> bool {
        let told: Vec<_> =
            self.context.peers.values().filter(|peer| peer.is_outbound() && peer.headers.at_end).collect();
        let too_new = told.iter().filter(|peer| peer.headers.too_new).count();
        too_new > 0 && too_new * 2 >= told.len()
    }

    pub(super) fn retry_future(&mut self, now: Now) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.headers.future).into_iter().partition(|aside| aside.due_unix <= now.unix);
        self.headers.future = later;
        for FutureHeaders { peer, holder, headers, .. } in due {
            // The parent may be gone or refused by now; the tree says so. They count as if they came now.
            if self.context.chain.header(&headers[0].prev()).is_none() || self.is_far_ahead(holder) {
                continue;
            }
            let hashes = hash_all(&headers);
            let verdict = self.context.chain.accept_headers(&headers, &hashes, now.unix);
            if verdict.new_count > 0 {
                self.note_new_headers(holder, verdict.new_count);
                self.context.event(Event::Headers { peer, new_count: verdict.new_count });
            }
            if let Some(last) = verdict.last {
                self.note_best_known(peer, last);
            }
            match verdict.refused {
                Some(HeaderRefusal::Invalid { hash, reason, .. }) => {
                    self.drop_peer(peer, Reason::HeaderInvalid { hash, reason }, now);
                }
                Some(HeaderRefusal::TooNew { index, time }) => {
                    self.keep_future(peer, headers.get(index..).unwrap_or(&[]), time, now);
                }
                Some(HeaderRefusal::Known { .. }) | None => {}
            }
        }
    }
}
