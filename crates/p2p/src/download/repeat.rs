//! Repeated requests: blocks in flight from quiet peers, blocks in flight from slow peers while faster ones are idle,
//! and the lowest block while it stalls.
//!
//! The first request stays open: a block that its peer still sends is accepted, once.

use super::link::Link;
use super::{Download, REPEAT_AFTER, REPEAT_COUNT_MAX, Request, STALL_TIMEOUT_MAX, TAKE_INTERVAL, THIRD_AFTER};
use crate::api::{PeerId, Want};
use primitives::BlockHash;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// A request is repeated at another peer if the first one needs this many times as long.
const FASTER_FACTOR: f64 = 2.0;
/// It is also required that the first one needs this many seconds longer: smaller differences are within the error of
/// measured speeds.
const FASTER_BY_S: f64 = 0.1;

impl Download {
    /// Requests for which all peers are quiet: they take no space in the window from other blocks.
    pub(super) fn quiet_request_count(&self) -> usize {
        if self.links.values().all(|link| !link.is_quiet) {
            return 0;
        }
        self.requests.values().filter(|request| self.is_quiet(request)).count()
    }

    fn is_quiet(&self, request: &Request) -> bool {
        request.owners.iter().all(|owner| self.links.get(owner).is_none_or(|link| link.is_quiet))
    }

    /// Marks the blocks in flight from quiet peers as missing, to be requested from other peers.
    pub(super) fn ask_again_for_quiet(&mut self) {
        let quiet: Vec<&Link> = self.links.values().filter(|link| link.is_quiet).collect();
        let owed = quiet.iter().flat_map(|link| &link.in_flight);
        let is_open = |hash: &&BlockHash| self.requests.get(*hash).is_some_and(|request| self.is_quiet(request));
        let again: Vec<BlockHash> = owed.filter(is_open).copied().collect();
        for list in &mut self.lists {
            list.again.clear();
            again.iter().for_each(|hash| list.ask_again(hash));
        }
    }

    /// If no new block of a list could be requested: requests blocks in flight from slower peers again, from idle
    /// ones.
    ///
    /// Does nothing while the node has blocks to process: then the node is the bottleneck, not a line.
    pub(super) fn take_from_slower(
        &mut self,
        list: usize,
        window_count: usize,
        out: &mut BTreeMap<PeerId, Vec<Want>>,
        now: Duration,
    ) {
        if !self.node_waits() || now.saturating_sub(self.taken_at) < TAKE_INTERVAL {
            return;
        }
        if list + 1 == self.lists.len() {
            self.taken_at = now;
        }
        let is_idle = |link: &&Link| link.list == list && link.is_free() && link.speed.is_some();
        if !self.links.values().any(|link| is_idle(&link)) {
            return;
        }
        let due = self.due();
        let first = self.lists[list].first_open();
        for place in first..self.lists[list].len().min(first.saturating_add(window_count.max(1))) {
            let want = self.lists[list].at(place).expect("the place is in the list");
            let Some(owned_s) = due.get(&want.hash) else { continue };
            let Some(request) = self.requests.get(&want.hash).filter(|r| r.owners.len() < 2) else { continue };
            let owners = request.owners.clone();
            let Some(other) = self.soonest(list, place, &owners) else { continue };
            let link = &self.links[&other];
            if link.speed.is_some() && link.expected_s(self.block_bytes) * FASTER_FACTOR + FASTER_BY_S < *owned_s {
                self.add_owner(want, other, now);
                out.entry(other).or_default().push(want);
            }
        }
    }

    /// Seconds until each block in flight arrives, by the speed of the fastest peer that has the request.
    fn due(&self) -> HashMap<BlockHash, f64> {
        let mut due: HashMap<BlockHash, f64> = HashMap::new();
        for link in self.links.values() {
            for (place, hash) in link.in_flight.iter().enumerate() {
                let seconds = link.due_s(place, self.block_bytes);
                due.entry(*hash).and_modify(|least| *least = least.min(seconds)).or_insert(seconds);
            }
        }
        due
    }

    /// If no new block of a list could be requested: checks whether its lowest block stalls, and requests it from a
    /// second peer.
    pub(super) fn repeat(&mut self, list: usize, out: &mut BTreeMap<PeerId, Vec<Want>>, now: Duration) {
        let first = self.lists[list].first_open();
        let Some(head) = self.lists[list].head().map(|want| want.hash) else {
            self.lists[list].held_up = None;
            return;
        };
        let owners = self.requests.get(&head).map_or_else(Vec::new, |request| request.owners.clone());
        let (Some(&owner), Some(other)) = (owners.first(), self.soonest(list, first, &owners)) else {
            // Requested twice already: all its peers stall.
            if owners.len() < 2 {
                self.lists[list].held_up = None;
            }
            return;
        };
        let since = match self.lists[list].held_up {
            Some((hash, since)) if hash == head => since,
            _ => {
                self.lists[list].held_up = Some((head, now));
                now
            }
        };
        let expected = self.links[&other].expected_s(self.block_bytes);
        let after = Duration::try_from_secs_f64(4.0 * expected).unwrap_or(STALL_TIMEOUT_MAX).max(REPEAT_AFTER);
        let third_after = self.third_after() * u32::try_from(owners.len() - 1).unwrap_or(u32::MAX);
        if now.saturating_sub(since) < after.max(third_after) {
            return;
        }
        let count = if owners.len() == 1 { REPEAT_COUNT_MAX } else { 1 };
        for place in first..first + count {
            let Some(want) = self.lists[list].at(place) else { return };
            let link = &self.links[&other];
            let free = link.is_free() && link.has(list, place, want.height);
            let same = |r: &&Request| r.owners == owners || r.owners == [owner];
            if self.requests.get(&want.hash).filter(|r| free && same(r)).is_some() {
                self.add_owner(want, other, now);
                out.entry(other).or_default().push(want);
            }
        }
    }

    /// [`THIRD_AFTER`], or, if it is longer, the time that two copies of a block need within the user's limit.
    fn third_after(&self) -> Duration {
        let copies_s = self.rate_max.map_or(0.0, |rate| 2.0 * self.block_bytes / rate.max(1.0));
        Duration::try_from_secs_f64(copies_s).unwrap_or(STALL_TIMEOUT_MAX).max(THIRD_AFTER)
    }
}
