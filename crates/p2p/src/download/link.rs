//! One peer in the scheduler: its requests in flight, and its speed.

use super::{
    BLOCK_TIMEOUT, DELIVERY_RATE_MIN, DELIVERY_TIMEOUT, HORIZON, IN_FLIGHT_COUNT_MAX, IN_FLIGHT_COUNT_MIN,
    IN_FLIGHT_COUNT_START, LACKS_MAX, LACKS_MIN, Reach, STALL_TIMEOUT_MIN, Source,
};
use crate::api::Want;
use primitives::{BlockHash, Height};
use std::collections::VecDeque;
use std::time::Duration;

/// Assumed speed of a peer before it is measured, in bytes a second.
const SPEED_START: f64 = 1e6;
/// Bytes on the wire for each block in addition to the block: frame and request.
const OVERHEAD_BYTES: f64 = 61.0;
/// A peer that is idle for less than this is still measured: it answers faster than it gets requests.
const IDLE_MIN: Duration = Duration::from_millis(10);
/// This number of first samples count only if they are higher than the previous ones: while the number of requests
/// still grows, and a transfer begins in the middle of a sample, a line is not slower than its best sample.
const SAMPLES_RISING: u32 = 8;

#[derive(Debug)]
pub(super) struct Link {
    /// The list of its chain, and the part of it that the peer has.
    pub(super) list: usize,
    pub(super) reach: Reach,
    /// False between the setting of new lists and the comparison with the peer's chain.
    pub(super) is_reach_known: bool,
    pub(super) in_flight: VecDeque<BlockHash>,
    pub(super) limit: usize,
    /// Bytes a second, once measured.
    pub(super) speed: Option<f64>,
    round_trip: Duration,
    sampled_bytes: u64,
    /// Since when it has had requests in flight without a pause.
    busy_since: Option<Duration>,
    idle_since: Option<Duration>,
    /// When a block last arrived, or when the first request in flight was sent.
    pub(super) progress_at: Duration,
    /// When bytes last arrived.
    pub(super) bytes_at: Duration,
    /// When it last sent at a useful rate: [`DELIVERY_RATE_MIN`].
    flow_at: Duration,
    /// Whether it has requests in flight, and sends nothing useful.
    pub(super) is_quiet: bool,
    /// Samples with requests in flight for the whole time.
    busy_samples: u32,
    pub(super) slow_since: Option<Duration>,
    /// It counts as lacking blocks below this height, because it sent `notfound`.
    pub(super) lacks_below: Height,
    /// End of the time for which that counts, and the length of that time.
    lacks_until: Duration,
    lacks_for: Duration,
    pub(super) source: Source,
    /// The lowest missing block of its chain, and since when it was requested or the peer reported that it lacks it.
    owed: Option<(Want, Duration)>,
}

/// An interval for which speeds are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// When it began.
    pub(super) since: Duration,
    /// Whether reading was paused in it.
    pub(super) paused: bool,
    /// Time without useful data after which a peer is quiet.
    pub(super) quiet_after: Duration,
}

impl Link {
    pub(super) fn new(source: Source, received_bytes: u64, now: Duration) -> Link {
        Link {
            list: 0,
            reach: Reach::default(),
            is_reach_known: false,
            in_flight: VecDeque::new(),
            limit: IN_FLIGHT_COUNT_START,
            speed: None,
            round_trip: Duration::ZERO,
            sampled_bytes: received_bytes,
            busy_since: None,
            idle_since: Some(now),
            progress_at: now,
            bytes_at: now,
            flow_at: now,
            is_quiet: false,
            busy_samples: 0,
            slow_since: None,
            lacks_below: Height::GENESIS,
            lacks_until: Duration::ZERO,
            lacks_for: Duration::ZERO,
            source,
            owed: None,
        }
    }

    /// Whether it has the block at this index of this list.
    pub(super) fn has(&self, list: usize, place: usize, height: Height) -> bool {
        list == self.list && place < self.reach.count && height >= self.reach.height_min && height >= self.lacks_below
    }

    /// Whether it may get more requests.
    pub(super) fn is_free(&self) -> bool {
        !self.is_quiet && self.in_flight.len() < self.limit
    }

    /// Until its speed is measured, allows at least this number of requests in flight.
    pub(super) fn start_with(&mut self, count: usize) {
        if self.speed.is_none() {
            self.limit = self.limit.max(count);
        }
    }

    pub(super) fn ask(&mut self, hash: BlockHash, now: Duration) {
        if let Some(idle) = self.idle_since.take() {
            self.progress_at = now;
            if self.busy_since.is_none() || now.saturating_sub(idle) > IDLE_MIN {
                self.busy_since = Some(now);
            }
        }
        self.in_flight.push_back(hash);
    }

    /// Removes a request from the queue; `false` if there was no such request.
    pub(super) fn answered(&mut self, hash: &BlockHash, now: Duration) -> bool {
        let Some(at) = self.in_flight.iter().position(|asked| asked == hash) else { return false };
        self.in_flight.remove(at);
        self.progress_at = now;
        self.is_quiet = false;
        if self.in_flight.is_empty() {
            self.idle_since = Some(now);
        }
        true
    }

    /// It reported that it does not have the block at this height: for a while it counts as pruned up to that height.
    /// It may only have announced the block too early.
    pub(super) fn lacks(&mut self, height: Height, now: Duration) {
        if self.lacks_below == Height::GENESIS {
            self.lacks_for = (self.lacks_for * 2).clamp(LACKS_MIN, LACKS_MAX);
            self.lacks_until = now + self.lacks_for;
        }
        self.lacks_below = self.lacks_below.max(height.saturating_add(1));
    }

    /// It delivered a block: the next `notfound` counts for the shortest time again.
    pub(super) fn gave(&mut self) {
        if self.speed.is_none() {
            self.limit = (self.limit + 1).min(IN_FLIGHT_COUNT_MAX);
        }
        if self.lacks_below == Height::GENESIS {
            self.lacks_for = Duration::ZERO;
        }
    }

    /// Forgets an old `notfound`: the peer may have the block now.
    pub(super) fn forget_lacks(&mut self, now: Duration) {
        if now >= self.lacks_until {
            self.lacks_below = Height::GENESIS;
        }
    }

    /// `head` is now the lowest missing block of its chain; `is_asked`: the block was requested from this peer, and
    /// no peer has delivered it. A requested block stays overdue until it arrives, whichever chain the peer announces
    /// next.
    pub(super) fn owe(&mut self, head: Option<Want>, is_asked: impl Fn(&Want) -> bool, now: Duration) {
        if self.owed.is_some_and(|(owed, _)| Some(owed) == head || is_asked(&owed)) {
            return;
        }
        let lacks = |head: &Want| head.height < self.lacks_below || head.height < self.reach.height_min;
        self.owed = head.filter(|head| is_asked(head) || lacks(head)).map(|head| (head, now));
    }

    /// Forgets a request that it will not answer.
    pub(super) fn forgo(&mut self, hash: &BlockHash, now: Duration) {
        self.in_flight.retain(|asked| asked != hash);
        if self.in_flight.is_empty() && self.is_busy() {
            self.idle_since = Some(now);
            self.is_quiet = false;
        }
        self.owed = self.owed.filter(|(want, _)| want.hash != *hash);
    }

    /// Whether the peer reported that it has this block, or keeps blocks of this height.
    pub(super) fn keeps(&self, want: &Want) -> bool {
        want.height >= self.reach.height_min
    }

    /// The overdue block, see [`DELIVERY_TIMEOUT`]. A peer delivers if it sends at least `rate_min` bytes a second.
    pub(super) fn overdue(&self, rate_min: f64, now: Duration) -> Option<Want> {
        let (want, since) = self.owed?;
        let delivers = self.speed.is_some_and(|speed| speed >= rate_min) && self.progress_at <= since;
        let timeout = if delivers { BLOCK_TIMEOUT } else { DELIVERY_TIMEOUT };
        (now.saturating_sub(since) > timeout).then_some(want)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.idle_since.is_none()
    }

    /// Expected seconds until one more requested block arrives.
    pub(super) fn expected_s(&self, block_bytes: f64) -> f64 {
        self.due_s(self.in_flight.len(), block_bytes) + self.round_trip.as_secs_f64()
    }

    /// Expected seconds until the block at this position of its queue arrives, at its current speed.
    pub(super) fn due_s(&self, place: usize, block_bytes: f64) -> f64 {
        let bytes = (place + 1) as f64 * (block_bytes + OVERHEAD_BYTES);
        bytes / self.speed.unwrap_or(SPEED_START).max(1.0)
    }

    /// Measures an interval, at whose end the peer had sent `bytes`.
    pub(super) fn measure(&mut self, bytes: u64, sample: &Sample, now: Duration) {
        let Sample { since, paused, quiet_after } = *sample;
        let passed = now.saturating_sub(since);
        let busy_all_along = self.is_busy() && self.busy_since.is_some_and(|busy| busy <= since);
        let came = bytes.saturating_sub(self.sampled_bytes);
        // The counter falls if bytes turn out not to be a block; the maximum is kept, so that bytes up to it do not
        // count again. While the peer was idle the counter is taken as it is: bytes received before the first request,
        // mainly headers, are ignored.
        self.sampled_bytes = if busy_all_along { self.sampled_bytes.max(bytes) } else { bytes };
        if came > 0 {
            self.bytes_at = now;
        }
        if paused {
            // Little or nothing was read: sent bytes may still be in the socket buffer. The speed is at least that of
            // the bytes read.
            if came > 0 && busy_all_along {
                let least = came as f64 / passed.as_secs_f64();
                self.speed = Some(self.speed.map_or(least, |speed| speed.max(least)));
            }
            self.owed = None;
            self.progress_at = now;
            self.bytes_at = now;
            self.flow_at = now;
            self.is_quiet = false;
            self.slow_since = None;
            return;
        }
        let sample = came as f64 / passed.as_secs_f64();
        if sample >= DELIVERY_RATE_MIN {
            self.flow_at = now;
        }
        let quiet_for = now.saturating_sub(self.flow_at.max(self.progress_at));
        self.is_quiet = self.is_busy() && quiet_for > quiet_after + self.round_trip * 2;
        self.busy_samples = self.busy_samples.saturating_add(u32::from(busy_all_along && came > 0));
        self.speed = match self.speed {
            // With few requests in flight, a sample is only a lower bound.
            Some(speed) if !busy_all_along => Some(speed.max(sample)),
            None if !busy_all_along => None,
            None if came == 0 && now.saturating_sub(self.progress_at) < STALL_TIMEOUT_MIN => None,
            None => Some(sample),
            Some(speed) if sample < speed && came > 0 && self.busy_samples < SAMPLES_RISING => Some(speed),
            Some(_) if came > 0 && self.busy_samples < SAMPLES_RISING => Some(sample),
            Some(speed) => Some(speed + (sample - speed) / 4.0),
        };
    }

    pub(super) fn set_round_trip(&mut self, round_trip: Option<Duration>) {
        self.round_trip = round_trip.unwrap_or(self.round_trip);
    }

    pub(super) fn set_limit(&mut self, block_bytes: f64) {
        let Some(speed) = self.speed else { return };
        let horizon = HORIZON.max(self.round_trip * 2);
        let count = (speed * horizon.as_secs_f64() / (block_bytes + OVERHEAD_BYTES)).ceil();
        self.limit = (count as usize).clamp(IN_FLIGHT_COUNT_MIN, IN_FLIGHT_COUNT_MAX);
    }
}
