//! State of the scheduler for reports and for reading sockets: which peer has which requests, and which block is
//! awaited.

use super::link::Link;
use super::list::List;
use super::{Download, Request, Turn};
use crate::api::{PeerId, Want};
use primitives::Height;
use std::time::Duration;

impl Download {
    /// Whether this peer has requests in flight.
    pub fn owes(&self, peer: PeerId) -> bool {
        self.links.get(&peer).is_some_and(|link| !link.in_flight.is_empty())
    }

    /// When this peer, which has requests in flight, sends the lowest missing block.
    pub fn turn_of_first(&self, peer: PeerId) -> Turn {
        let list = self.links.get(&peer).map_or(0, |link| link.list);
        let Some(request) = self.first_request(list) else { return Turn::Next };
        match self.links.get(&peer) {
            Some(link) if link.in_flight.front() == Some(&request.want.hash) => Turn::Next,
            Some(_) if request.owners.contains(&peer) => Turn::Queued,
            _ => Turn::Elsewhere,
        }
    }

    /// A peer from which the lowest block was requested after other blocks.
    pub fn first_is_queued_at(&self) -> Option<PeerId> {
        let mut owners = (0..self.lists.len()).filter_map(|list| Some(&self.first_request(list)?.owners)).flatten();
        owners.find(|owner| self.turn_of_first(**owner) == Turn::Queued).copied()
    }

    fn first_request(&self, list: usize) -> Option<&Request> {
        self.requests.get(&self.lists.get(list)?.head()?.hash)
    }

    /// The lowest missing block of the preferred list, the peer that it was first requested from, and for how long it
    /// has been both requested and the lowest. If no peer can serve it: no peer, and for how long it has been the
    /// lowest. `None` if it is requested once there is space for it.
    pub fn waits_for(&self, now: Duration) -> Option<(Want, Option<PeerId>, Duration)> {
        let list = self.lists.first()?;
        let want = list.head()?;
        let since = self.head.filter(|(hash, _)| *hash == want.hash).map_or(now, |(_, since)| since);
        if let Some(request) = self.requests.get(&want.hash) {
            // A block in a peer's queue waits only for those before it.
            return Some((want, request.owners.first().copied(), now.saturating_sub(since.max(request.asked_at))));
        }
        let has = |link: &Link| !link.is_reach_known || link.has(0, list.first_open(), want.height);
        (!self.links.values().any(has)).then(|| (want, None, now.saturating_sub(since)))
    }

    /// Requests in flight.
    pub fn in_flight_count(&self) -> usize {
        self.requests.len()
    }

    /// Blocks of the preferred list that have not arrived.
    pub fn open_count(&self) -> usize {
        self.lists.first().map_or(0, List::open_count)
    }

    /// Height up to which the preferred list has arrived without a gap; `None` if there is no list.
    pub fn arrived_to(&self) -> Option<Height> {
        let list = self.lists.first()?;
        let last = || list.at(list.len().checked_sub(1)?).map(|want| want.height);
        list.head().map(|want| want.height.saturating_sub(1)).or_else(last)
    }

    /// Peers that can serve the lowest block of their list that has not arrived.
    pub fn peer_count(&self) -> usize {
        let serves = |link: &&Link| {
            let Some(list) = self.lists.get(link.list) else { return false };
            list.head().is_some_and(|want| link.has(link.list, list.first_open(), want.height))
        };
        self.links.values().filter(serves).count()
    }

    /// Whether the last [`Download::assign`] stopped because of the window's bytes.
    pub fn is_window_full(&self) -> bool {
        self.window_full
    }
}
