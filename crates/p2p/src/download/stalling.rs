//! Peers that delay the download: timed out, stalling the window, or much slower than the others.
//!
//! A peer is compared with the median of others, because a mean is set by whoever is fastest: one fast peer would have
//! all others disconnected, one after another. A minority of the peers cannot move the median beyond the others' speeds.
//!
//! Source: Bitcoin Core b88bffe, `SendMessages` (`m_stalling_since`, `BLOCK_STALLING_TIMEOUT`,
//! `BLOCK_DOWNLOAD_TIMEOUT_BASE`);
//! the module documentation of `download` has the rules and the differences.

use super::link::Link;
use super::list::List;
use super::{
    BLOCK_TIMEOUT, DELIVERY_RATE_MIN, DOWNLOAD_PEER_COUNT_MIN, Download, QUIET_AFTER, SLOW_AFTER, SLOW_FACTOR,
    STALL_TIMEOUT_MAX, Source,
};
use crate::api::{PeerId, Want};
use crate::reason::Reason;
use primitives::{BlockHash, Height};
use std::time::Duration;

/// Bytes of a read within the user's limit: see `net`'s token bucket.
const READ_BYTES: f64 = 2048.0;

impl Download {
    /// Sets the user's limit of the download from all peers together, in bytes a second: where they share little, no
    /// peer is expected to send faster than its part of it.
    pub fn limit_rate(&mut self, rate_max: Option<u64>) {
        self.rate_max = rate_max.map(|rate| rate as f64);
    }

    /// The peer to disconnect now, and the reason.
    pub fn peer_to_disconnect(&mut self, can_replace: bool, now: Duration) -> Option<(PeerId, Reason)> {
        self.timed_out(now).or_else(|| self.stalling(now)).or_else(|| self.slow(can_replace, now))
    }

    /// Peers for which the lowest missing block of their chain is overdue; and whether they keep blocks of its
    /// height.
    pub fn overdue(&mut self, now: Duration) -> Vec<(PeerId, Want, bool)> {
        let rate_min = self.delivery_rate_min();
        let lists = &self.lists;
        let requests = &self.requests;
        let links = self.links.iter_mut();
        links
            .filter_map(|(id, link)| {
                let is_asked = |want: &Want| requests.get(&want.hash).is_some_and(|r| r.owners.contains(id));
                if link.is_reach_known || lists.is_empty() {
                    let list = lists.get(link.list).filter(|list| list.first_open() < link.reach.count);
                    link.owe(list.and_then(List::head), is_asked, now);
                } else if let Some(head) = lists.iter().filter_map(List::head).find(is_asked) {
                    link.owe(Some(head), is_asked, now);
                }
                link.overdue(rate_min, now).map(|want| (*id, want, link.keeps(&want)))
            })
            .collect()
    }

    /// Gives up a request: the peer is on another chain by now.
    pub fn forgo(&mut self, peer: PeerId, hash: &BlockHash, now: Duration) {
        if let Some(link) = self.links.get_mut(&peer) {
            link.forgo(hash, now);
            self.disown(peer, hash);
        }
    }

    /// The requests of a peer, lowest first; its speed; and since when its first one stalls.
    pub(crate) fn seen_of(&self, peer: PeerId, now: Duration) -> (Vec<Height>, Option<f64>, Option<Duration>) {
        let Some(link) = self.links.get(&peer) else { return Default::default() };
        let asked = link.in_flight.iter().filter_map(|hash| self.requests.get(hash));
        let mut heights: Vec<Height> = asked.map(|request| request.want.height).collect();
        heights.sort_unstable();
        let stalls = self.lists.get(link.list).and_then(|list| list.held_up);
        let stalls = stalls.filter(|(head, _)| link.in_flight.contains(head));
        (heights, link.speed, stalls.map(|(_, since)| now.saturating_sub(since)))
    }

    fn timed_out(&self, now: Duration) -> Option<(PeerId, Reason)> {
        let busy = self.busy_count();
        let others = u32::try_from(busy.saturating_sub(1)).unwrap_or(u32::MAX);
        let timeout = BLOCK_TIMEOUT + BLOCK_TIMEOUT / 2 * others;
        let (id, link) = self.links.iter().find(|(_, link)| {
            let since = if busy > 1 { link.progress_at } else { link.progress_at.max(link.bytes_at) };
            !link.in_flight.is_empty() && now.saturating_sub(since) > timeout
        })?;
        Some((*id, Reason::BlockTimeout(*link.in_flight.front()?)))
    }

    fn stalling(&mut self, now: Duration) -> Option<(PeerId, Reason)> {
        (0..self.lists.len()).find_map(|list| self.stalling_list(list, now))
    }

    fn stalling_list(&mut self, list: usize, now: Duration) -> Option<(PeerId, Reason)> {
        let (head, since) = self.lists[list].held_up?;
        let held = now.saturating_sub(since);
        if held < self.stall_timeout || self.busy_count() + self.idle_count() < 2 {
            return None;
        }
        let stalls = |owner: &&PeerId| {
            let link = self.links.get(*owner);
            // The others may be idle: everything waits for this block.
            let sought = self.median_speed(**owner, |other| other.source != Source::Inbound);
            let median = sought.or_else(|| self.median_speed(**owner, |_| true));
            let keeps_pace = |link: &Link, median: f64| link.speed.is_some_and(|own| own * 2.0 >= median);
            link.zip(median).is_some_and(|(link, median)| link.source != Source::Named && !keeps_pace(link, median))
        };
        let owner = *self.requests.get(&head)?.owners.iter().find(stalls)?;
        self.stall_timeout = (self.stall_timeout * 2).min(STALL_TIMEOUT_MAX);
        Some((owner, Reason::BlockStalled(held)))
    }

    fn slow(&mut self, can_replace: bool, now: Duration) -> Option<(PeerId, Reason)> {
        if !can_replace || self.busy_count() <= DOWNLOAD_PEER_COUNT_MIN {
            return None;
        }
        let medians: Vec<_> = self.links.keys().map(|id| (*id, self.median_of_sought(*id))).collect();
        for (id, median) in medians {
            let link = self.links.get_mut(&id).expect("its key");
            let slow = match (link.speed, median) {
                (Some(own), Some(median)) => link.is_busy() && own * (SLOW_FACTOR as f64) < median,
                _ => false,
            };
            link.slow_since = slow.then(|| link.slow_since.unwrap_or(now));
        }
        if now.saturating_sub(self.slow_checked_at) < SLOW_AFTER / 3 {
            return None;
        }
        let (id, link) = self.links.iter().find(|(_, link)| {
            link.source != Source::Named && link.slow_since.is_some_and(|since| now.saturating_sub(since) >= SLOW_AFTER)
        })?;
        self.slow_checked_at = now;
        let median = self.median_of_sought(*id)?;
        Some((*id, Reason::Slow { bytes_per_s: link.speed? as u64, median_bytes_per_s: median as u64 }))
    }

    /// [`DELIVERY_RATE_MIN`], or half of a peer's part of the user's limit if that is less.
    fn delivery_rate_min(&self) -> f64 {
        let share = self.rate_max.map(|rate| rate / (2 * self.busy_count().max(1)) as f64);
        share.map_or(DELIVERY_RATE_MIN, |share| share.min(DELIVERY_RATE_MIN))
    }

    /// [`QUIET_AFTER`], or two turns of the peers within the user's limit if that is longer.
    pub(super) fn quiet_after(&self) -> Duration {
        let turns_s = self.rate_max.map_or(0.0, |rate| 2.0 * READ_BYTES * self.busy_count() as f64 / rate.max(1.0));
        Duration::try_from_secs_f64(turns_s).unwrap_or(STALL_TIMEOUT_MAX).max(QUIET_AFTER)
    }

    fn busy_count(&self) -> usize {
        self.links.values().filter(|link| !link.in_flight.is_empty()).count()
    }

    /// Peers with nothing in flight that have missing blocks.
    fn idle_count(&self) -> usize {
        let has_open =
            |link: &&Link| self.lists.get(link.list).is_some_and(|list| link.reach.count > list.first_open());
        self.links.values().filter(|link| link.in_flight.is_empty()).filter(has_open).count()
    }

    /// Median speed of the other automatic outbound peers that have requests in flight. Those alone: an inbound peer
    /// may be anybody's, a named peer may be on the local network, and the speed of an idle peer may be an old one.
    fn median_of_sought(&self, peer: PeerId) -> Option<f64> {
        self.median_speed(peer, |other| other.source == Source::Sought && other.is_busy())
    }

    /// Median of the known speeds of other peers; of an even number of speeds, the lower one of the two in the middle.
    fn median_speed(&self, except: PeerId, is_meant: impl Fn(&Link) -> bool) -> Option<f64> {
        let others = self.links.iter().filter(|(id, link)| **id != except && is_meant(link));
        let mut speeds: Vec<f64> = others.filter_map(|(_, link)| link.speed).collect();
        speeds.sort_unstable_by(f64::total_cmp);
        speeds.get(speeds.len().saturating_sub(1) / 2).copied()
    }
}
