//! Limits the lines that peers can cause, in the log and for the user.
//!
//! - Each kind of line ([`PeerLine`]) has its own budget of bytes (token bucket, Turner 1986), so that a flood of one
//!   kind does not suppress others: inbound peers cannot suppress lines about outbound peers, and neither can suppress
//!   a line that no peer can cause. All kinds together write at most [`HOUR_BYTES_MAX`] an hour, log and standard
//!   output together.
//! - The peers of one network group use at most half of each budget: a flood from one network does not suppress lines
//!   about peers of others.
//! - Only the first refused body of a connection is reported, because its sender is disconnected.
//! - Suppressed lines are counted, and the count is written after each minute, and at the end.
//!
//! `-logratelimit=0` switches this off, and jobs without peers never switch it on. Debug lines (`-debug=net`) and those
//! of new tips are not limited, as in Core. Source: Bitcoin Core b88bffe, logging.cpp, `LogRateLimiter`, which limits
//! bytes an hour by place in the source; CVE-2025-54604, CVE-2025-54605.

use crate::threads::locks::lock;
use p2p::PeerId;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which the suppressed lines are reported.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum bytes that peers can cause in an hour, log and standard output together.
const HOUR_BYTES_MAX: u64 = 1 << 20;
/// Burst bytes of a kind of line, and the bytes that are added per hour: most honest networks never reach this.
const BURST_BYTES: u64 = 32 << 10;
const REFILL_BYTES_PER_HOUR: u64 = 64 << 10;
/// A header chain of a million headers is 500 messages, each with a line of 70 bytes.
const HEADERS_BURST_BYTES: u64 = 128 << 10;
/// Divisor: the share of one network group.
const GROUP_DIVISOR: f64 = 2.0;
/// Each line is written twice, each time with a timestamp.
const LINE_COPIES: u64 = 2;
const LINE_OVERHEAD_BYTES: u64 = 32;
/// Bytes for a line that reports suppressed lines.
const LEFT_OUT_LINE_BYTES: u64 = LINE_COPIES * (112 + LINE_OVERHEAD_BYTES);
const _: () = {
    let kinds = KINDS.len() as u64;
    let lines = (kinds - 1) * BURST_BYTES + HEADERS_BURST_BYTES + kinds * REFILL_BYTES_PER_HOUR;
    assert!(lines + kinds * 60 * LEFT_OUT_LINE_BYTES <= HOUR_BYTES_MAX);
};
/// Maximum number of connections that are remembered because a refused body of theirs was reported.
const TOLD_COUNT_MAX: usize = 1024;
/// Maximum number of network groups whose share of a kind is remembered, for all kinds together.
const GROUP_COUNT_MAX: usize = 1024;

/// A kind of line that peers can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerLine {
    /// An inbound connection began or ended.
    Inbound,
    /// An outbound connection began or ended.
    Outbound,
    /// Data that an inbound peer sent.
    InboundSays,
    /// Data that an outbound peer sent.
    OutboundSays,
    /// A refused body whose header is not refused.
    RefusedBody,
    /// A refused block, with its header.
    RefusedBlock,
    /// New headers.
    Headers,
}

/// All kinds.
const KINDS: [PeerLine; 7] = [
    PeerLine::Inbound,
    PeerLine::Outbound,
    PeerLine::InboundSays,
    PeerLine::OutboundSays,
    PeerLine::RefusedBody,
    PeerLine::RefusedBlock,
    PeerLine::Headers,
];

impl PeerLine {
    fn burst_bytes(self) -> f64 {
        (if self == PeerLine::Headers { HEADERS_BURST_BYTES } else { BURST_BYTES }) as f64
    }

    /// Subject of the lines.
    fn name(self) -> &'static str {
        match self {
            PeerLine::Inbound => "inbound connections",
            PeerLine::Outbound => "outbound connections",
            PeerLine::InboundSays => "what inbound peers sent",
            PeerLine::OutboundSays => "what outbound peers sent",
            PeerLine::RefusedBody => "refused block bodies",
            PeerLine::RefusedBlock => "refused blocks",
            PeerLine::Headers => "new headers",
        }
    }
}

/// The budgets.
#[derive(Default)]
pub(crate) struct PeerLines {
    is_on: AtomicBool,
    left_out: AtomicU64,
    state: Mutex<LineCounts>,
}

#[derive(Default)]
struct LineCounts {
    since: Option<Instant>,
    /// Budget of each kind.
    budgets: BTreeMap<PeerLine, Bucket>,
    /// Remaining share of a network group in each kind.
    shares: BTreeMap<(PeerLine, String), Bucket>,
    /// Suppressed lines since the last report.
    left_out: BTreeMap<PeerLine, u64>,
    /// Network group of each connection.
    groups: BTreeMap<PeerId, String>,
    /// Connections with a reported refused body.
    told: BTreeSet<PeerId>,
}

/// Bytes that may be written.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    bytes: f64,
    bytes_max: f64,
    bytes_per_s: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket for this share of a kind's budget.
    fn new(line: PeerLine, divisor: f64, now: Instant) -> Bucket {
        let bytes_max = line.burst_bytes() / divisor;
        Bucket { bytes: bytes_max, bytes_max, bytes_per_s: REFILL_BYTES_PER_HOUR as f64 / 3600.0 / divisor, at: now }
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.bytes = (self.bytes + passed * self.bytes_per_s).min(self.bytes_max);
        self.at = now;
    }
}

impl PeerLines {
    /// Starts limiting: a job with peers begins, without `-logratelimit=0`.
    pub(crate) fn switch_on(&self) {
        self.is_on.store(true, Relaxed);
    }

    /// A connection to a peer at `address` began: its lines have a share of the budgets.
    pub(crate) fn came(&self, peer: PeerId, address: &str) {
        lock(&self.state).groups.insert(peer, group(address));
    }

    /// The connection ended.
    pub(crate) fn went(&self, peer: PeerId) {
        lock(&self.state).groups.remove(&peer);
    }

    /// Whether to write this line; `peer` caused it, if known.
    pub(crate) fn allow(&self, line: PeerLine, peer: Option<PeerId>, text: &str) -> bool {
        self.allow_at(line, peer, text, Instant::now())
    }

    fn allow_at(&self, line: PeerLine, peer: Option<PeerId>, text: &str, now: Instant) -> bool {
        if !self.is_on.load(Relaxed) {
            return true;
        }
        let may = lock(&self.state).allow(line, peer, text.len() as u64, now);
        self.left_out.fetch_add(u64::from(!may), Relaxed);
        may
    }

    /// Counts lines that were suppressed before they were made: the network left out events that were unread.
    pub(crate) fn leave_out(&self, line: PeerLine, count: u64) {
        if count > 0 {
            self.left_out.fetch_add(count, Relaxed);
            *lock(&self.state).left_out.entry(line).or_default() += count;
        }
    }

    /// Suppressed lines since the start.
    pub(crate) fn left_out_count(&self) -> u64 {
        self.left_out.load(Relaxed)
    }

    /// Reports the suppressed lines of the last minute, once it is over. Call it regularly, even if no lines arrive.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.left_out_at(Instant::now())
    }

    fn left_out_at(&self, now: Instant) -> Vec<String> {
        let mut state = lock(&self.state);
        let since = *state.since.get_or_insert(now);
        if now.saturating_duration_since(since) < WINDOW {
            return Vec::new();
        }
        state.since = Some(now);
        drop(state);
        self.take_left_out()
    }

    /// Reports the suppressed lines since the last report.
    pub(crate) fn take_left_out(&self) -> Vec<String> {
        let left_out = std::mem::take(&mut lock(&self.state).left_out);
        let line = |(kind, count): (PeerLine, u64)| {
            format!("{count} more lines about {} were left out of the log: they are limited", kind.name())
        };
        left_out.into_iter().map(line).collect()
    }
}

impl LineCounts {
    fn allow(&mut self, line: PeerLine, peer: Option<PeerId>, text_bytes: u64, now: Instant) -> bool {
        let is_body = line == PeerLine::RefusedBody;
        let is_again = is_body && peer.is_some_and(|peer| self.told.contains(&peer));
        let bytes = (LINE_COPIES * (text_bytes + LINE_OVERHEAD_BYTES)) as f64;
        if is_again || !self.take(line, peer, bytes, now) {
            *self.left_out.entry(line).or_default() += 1;
            return false;
        }
        if is_body && let Some(peer) = peer {
            self.told.insert(peer);
            if self.told.len() > TOLD_COUNT_MAX {
                // The oldest connection has the lowest number.
                self.told.pop_first();
            }
        }
        true
    }

    /// Takes bytes from the kind's budget, and from its network group's share.
    fn take(&mut self, line: PeerLine, peer: Option<PeerId>, bytes: f64, now: Instant) -> bool {
        let budget = self.budgets.entry(line).or_insert_with(|| Bucket::new(line, 1.0, now));
        budget.fill(now);
        if budget.bytes < bytes {
            return false;
        }
        if let Some(group) = peer.and_then(|peer| self.groups.get(&peer)) {
            let key = (line, group.clone());
            if self.shares.len() >= GROUP_COUNT_MAX && !self.shares.contains_key(&key) {
                self.forget_full_shares(now);
            }
            let share = self.shares.entry(key).or_insert_with(|| Bucket::new(line, GROUP_DIVISOR, now));
            share.fill(now);
            if share.bytes < bytes {
                return false;
            }
            share.bytes -= bytes;
        }
        let budget = self.budgets.get_mut(&line).expect("it was just seen");
        budget.bytes -= bytes;
        true
    }

    /// Removes full shares, which carry no information. If the others have to be removed too, the kinds' budgets still
    /// apply.
    fn forget_full_shares(&mut self, now: Instant) {
        self.shares.retain(|_, share| {
            share.fill(now);
            share.bytes < share.bytes_max
        });
        if self.shares.len() >= GROUP_COUNT_MAX {
            self.shares.clear();
        }
    }
}

/// The network of an address, as text: 16 bits of IPv4, 32 of IPv6, else the name.
fn group(address: &str) -> String {
    match address.parse::<SocketAddr>().map(|socket| socket.ip()) {
        Ok(IpAddr::V4(ip)) => format!("{}.{}", ip.octets()[0], ip.octets()[1]),
        Ok(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => format!("{}.{}", ip.octets()[0], ip.octets()[1]),
            None => format!("{:x}:{:x}", ip.segments()[0], ip.segments()[1]),
        },
        Err(_) => address.rsplit_once(':').map_or(address, |(name, _)| name).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Peer 12: connected from 203.0.113.7:51234 /Satoshi:31.0.0/ (v2)";

    fn limited() -> PeerLines {
        let lines = PeerLines::default();
        lines.switch_on();
        lines
    }

    /// How many of `count` lines are written, each caused by the peer that `from` names.
    fn allowed(
        lines: &PeerLines,
        line: PeerLine,
        count: u64,
        from: impl Fn(u64) -> Option<PeerId>,
        now: Instant,
    ) -> usize {
        (0..count).filter(|i| lines.allow_at(line, from(*i), TEXT, now)).count()
    }

    #[test]
    fn a_flood_of_one_kind_hides_no_other() {
        let lines = limited();
        let start = Instant::now();
        assert_eq!(lines.left_out_at(start), [] as [&str; 0]);
        let written = allowed(&lines, PeerLine::Inbound, 100_000, |_| None, start);
        assert_eq!(written, 32 * 1024 / (2 * (TEXT.len() + 32)));
        for kind in KINDS.into_iter().filter(|kind| *kind != PeerLine::Inbound) {
            assert!(lines.allow_at(kind, None, TEXT, start), "{kind:?}");
        }
        assert_eq!(lines.left_out_at(start + WINDOW / 2), [] as [&str; 0], "not yet");
        let said = lines.left_out_at(start + WINDOW);
        let want = format!("{} more lines about inbound connections were left out", 100_000 - written);
        assert!(said.len() == 1 && said[0].starts_with(&want), "{said:?}");
        assert_eq!(lines.left_out_count(), 100_000 - written as u64);
        let later = allowed(&lines, PeerLine::Inbound, 100, |_| None, start + WINDOW);
        assert!((3..10).contains(&later), "a few in each minute: {later}");
        assert_eq!(lines.left_out_at(start + WINDOW + WINDOW / 2), [] as [&str; 0], "which began then");
        assert_eq!(lines.take_left_out().len(), 1, "at the end");
        assert_eq!(lines.take_left_out().len(), 0);
    }

    /// Whatever peers do in an hour, of every kind and from every network.
    #[test]
    fn an_hour_of_every_flood_writes_a_megabyte_at_most() {
        let lines = limited();
        let start = Instant::now();
        let mut bytes = 0;
        let mut said = 0;
        for second in 0..3600 {
            let now = start + Duration::from_secs(second);
            for kind in KINDS {
                let text = "x".repeat(60 + (second % 300) as usize);
                for peer in 0..40 {
                    lines.came(PeerId(peer), &format!("{}.1.1.1:8333", second % 200));
                    if lines.allow_at(kind, Some(PeerId(second * 40 + peer)), &text, now) {
                        bytes += 2 * (text.len() + 22);
                    }
                }
            }
            for line in lines.left_out_at(now) {
                said += 1;
                bytes += 2 * (line.len() + 22);
            }
        }
        assert!(bytes <= 1 << 20 && bytes > 1 << 19 && said >= 59 * KINDS.len(), "{bytes} bytes, {said} counts");
    }

    #[test]
    fn a_flood_of_one_network_hides_no_other_peers_line() {
        let lines = limited();
        let start = Instant::now();
        for peer in 0..100 {
            lines.came(PeerId(peer), &format!("20.1.{peer}.1:8333"));
        }
        lines.came(PeerId(200), "30.1.1.1:8333");
        lines.came(PeerId(201), "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion:8333");
        let flood = allowed(&lines, PeerLine::InboundSays, 10_000, |i| Some(PeerId(i % 100)), start);
        assert_eq!(flood, 16 * 1024 / (2 * (TEXT.len() + 32)), "half of the budget");
        for peer in [200, 201] {
            assert!(lines.allow_at(PeerLine::InboundSays, Some(PeerId(peer)), TEXT, start), "{peer}");
        }
        // Another connection of the same network has no share of its own; a kind has.
        lines.went(PeerId(5));
        lines.came(PeerId(300), "[::ffff:20.1.9.9]:1");
        assert!(!lines.allow_at(PeerLine::InboundSays, Some(PeerId(300)), TEXT, start));
        assert!(lines.allow_at(PeerLine::Inbound, Some(PeerId(300)), TEXT, start));
        // As many networks as anybody has: what is remembered has a bound.
        for peer in 1000..4000 {
            lines.came(PeerId(peer), &format!("[{peer:x}::1]:8333"));
            lines.allow_at(PeerLine::OutboundSays, Some(PeerId(peer)), TEXT, start);
        }
        assert!(lock(&lines.state).shares.len() <= GROUP_COUNT_MAX);
    }

    #[test]
    fn the_first_refused_body_of_a_connection_alone_is_told() {
        let lines = limited();
        let start = Instant::now();
        let body = |peer: u64, count, now| allowed(&lines, PeerLine::RefusedBody, count, |_| Some(PeerId(peer)), now);
        assert_eq!(body(1, 500, start), 1);
        assert_eq!(body(2, 500, start), 1, "another has its own");
        assert_eq!(allowed(&lines, PeerLine::RefusedBody, 5, |_| None, start), 5, "whose it is is not known");
        assert_eq!(body(1, 1, start + 2 * WINDOW), 0, "also later");
        // What is remembered has a bound.
        let mut now = start;
        for peer in 1000..3100 {
            now += WINDOW;
            assert_eq!(body(peer, 2, now), 1, "{peer}");
        }
        assert_eq!((body(3099, 1, now), body(1, 1, now)), (0, 1), "the oldest is forgotten first");
        assert_eq!(lock(&lines.state).told.len(), TOLD_COUNT_MAX);
    }

    #[test]
    fn events_that_were_left_out_count_as_lines() {
        let lines = limited();
        lines.leave_out(PeerLine::Outbound, 0);
        lines.leave_out(PeerLine::Inbound, 70);
        lines.leave_out(PeerLine::Inbound, 7);
        assert_eq!(lines.left_out_count(), 77);
        let said = lines.take_left_out();
        let want = "77 more lines about inbound connections were left out of the log";
        assert!(said.len() == 1 && said[0].starts_with(want), "{said:?}");
    }

    #[test]
    fn limit_that_is_off_leaves_nothing_out() {
        let lines = PeerLines::default();
        let now = Instant::now();
        assert_eq!(allowed(&lines, PeerLine::RefusedBody, 1000, |_| Some(PeerId(1)), now), 1000);
        assert_eq!(lines.left_out_count(), 0);
    }
}
