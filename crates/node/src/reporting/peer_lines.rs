//! Lines that peers can cause, as many as they like: how many of them are written, to the log and to the user alike.
//!
//! - Each kind of line ([`PeerLine`]) has a budget of its own, so that a flood of one kind hides no other: what peers that
//!   connected to us do hides nothing of those that we chose, and neither hides a line that no peer can cause.
//! - Of the bodies that one connection sends and that are refused, the first alone is told of: its sender is let go.
//! - What was left out is counted, and the count is written when the minute is over.
//!
//! `-logratelimit=0` switches this off. Debug lines (`-debug=net`) are not limited, as in Core.
//! Source: Bitcoin Core b88bffe, logging.cpp, `LogRateLimiter`, which limits bytes an hour by place in the source; CVE-2025-54604,
//! CVE-2025-54605.

use crate::threads::locks::lock;
use p2p::PeerId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which each budget is new.
const WINDOW: Duration = Duration::from_secs(60);
/// Connections that are remembered because a refused body of theirs was told of.
const TOLD_COUNT_MAX: usize = 1024;

/// A kind of line that peers can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerLine {
    /// A connection that was made to us, or ended.
    Inbound,
    /// A connection that we made, or its end.
    Outbound,
    /// Something that a peer said which connected to us.
    InboundSays,
    /// Something that a peer said which we connected to.
    OutboundSays,
    /// A body that is refused, of this connection where it is known; its header is not.
    Refused(Option<PeerId>),
    /// New headers.
    Headers,
}

/// What the budgets are for: the sender of a body makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Inbound,
    Outbound,
    InboundSays,
    OutboundSays,
    Refused,
    Headers,
}

impl PeerLine {
    fn kind(self) -> Kind {
        match self {
            PeerLine::Inbound => Kind::Inbound,
            PeerLine::Outbound => Kind::Outbound,
            PeerLine::InboundSays => Kind::InboundSays,
            PeerLine::OutboundSays => Kind::OutboundSays,
            PeerLine::Refused(_) => Kind::Refused,
            PeerLine::Headers => Kind::Headers,
        }
    }
}

impl Kind {
    /// Lines in a [`WINDOW`].
    fn count_max(self) -> u32 {
        match self {
            // A header chain of a million headers is 500 messages.
            Kind::Headers => 600,
            Kind::Inbound | Kind::Outbound | Kind::InboundSays | Kind::OutboundSays | Kind::Refused => 30,
        }
    }

    /// What the lines are about.
    fn name(self) -> &'static str {
        match self {
            Kind::Inbound => "inbound connections",
            Kind::Outbound => "outbound connections",
            Kind::InboundSays => "what inbound peers sent",
            Kind::OutboundSays => "what outbound peers sent",
            Kind::Refused => "refused block bodies",
            Kind::Headers => "new headers",
        }
    }
}

/// The budgets.
#[derive(Default)]
pub(crate) struct PeerLines {
    is_off: AtomicBool,
    state: Mutex<LineCounts>,
}

#[derive(Default)]
struct LineCounts {
    since: Option<Instant>,
    /// Lines that were written, and that were left out.
    counts: BTreeMap<Kind, (u32, u64)>,
    /// Connections of which a refused body was told.
    told: BTreeSet<PeerId>,
}

impl PeerLines {
    /// Limits nothing from here on: `-logratelimit=0`.
    pub(crate) fn switch_off(&self) {
        self.is_off.store(true, Relaxed);
    }

    /// Whether this line is written.
    pub(crate) fn allow(&self, line: PeerLine) -> bool {
        self.is_off.load(Relaxed) || lock(&self.state).allow(line)
    }

    /// Where a minute is over, what was left out in it. To be asked again and again, whether or not lines come.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.left_out_at(Instant::now())
    }

    fn left_out_at(&self, now: Instant) -> Vec<String> {
        let mut state = lock(&self.state);
        let is_over = state.since.is_some_and(|since| now.duration_since(since) >= WINDOW);
        if state.since.is_none() || is_over {
            state.since = Some(now);
        }
        if !is_over {
            return Vec::new();
        }
        let counts = std::mem::take(&mut state.counts);
        let left_out = counts.into_iter().filter(|(_, (_, left_out))| *left_out > 0);
        left_out
            .map(|(kind, (_, count))| {
                let seconds = WINDOW.as_secs();
                format!("{count} more lines about {} in {seconds} s were not logged: they are limited", kind.name())
            })
            .collect()
    }
}

impl LineCounts {
    fn allow(&mut self, line: PeerLine) -> bool {
        let kind = line.kind();
        let is_first = match line {
            PeerLine::Refused(Some(peer)) => !self.told.contains(&peer),
            _ => true,
        };
        let (written, left_out) = self.counts.entry(kind).or_default();
        let may = is_first && *written < kind.count_max();
        *written += u32::from(may);
        *left_out += u64::from(!may);
        if let (PeerLine::Refused(Some(peer)), true) = (line, may) {
            self.told.insert(peer);
            if self.told.len() > TOLD_COUNT_MAX {
                // The oldest connection has the lowest number.
                self.told.pop_first();
            }
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(lines: &PeerLines, line: impl Fn(u64) -> PeerLine, count: u64) -> usize {
        (0..count).filter(|i| lines.allow(line(*i))).count()
    }

    #[test]
    fn a_flood_of_one_kind_hides_no_other() {
        let lines = PeerLines::default();
        let start = Instant::now();
        assert_eq!(lines.left_out_at(start), [] as [&str; 0]);
        assert_eq!(allowed(&lines, |_| PeerLine::Inbound, 100_000), 30);
        assert_eq!(allowed(&lines, |i| PeerLine::Refused(Some(PeerId(i))), 100_000), 30);
        for line in [PeerLine::Outbound, PeerLine::InboundSays, PeerLine::OutboundSays, PeerLine::Headers] {
            assert!(lines.allow(line), "{line:?}");
        }
        assert_eq!(lines.left_out_at(start + WINDOW / 2), [] as [&str; 0], "not yet");
        let said = lines.left_out_at(start + WINDOW);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("99970 more lines about inbound connections in 60 s"), "{said:?}");
        assert!(said[1].starts_with("99970 more lines about refused block bodies"), "{said:?}");
        assert_eq!(allowed(&lines, |_| PeerLine::Inbound, 100), 30, "a new minute");
        assert_eq!(lines.left_out_at(start + WINDOW + WINDOW / 2), [] as [&str; 0], "which began then");
    }

    #[test]
    fn the_first_refused_body_of_a_connection_alone_is_told() {
        let lines = PeerLines::default();
        let peer = |id: u64| PeerLine::Refused(Some(PeerId(id)));
        assert_eq!(allowed(&lines, |_| peer(1), 500), 1);
        assert_eq!(allowed(&lines, |_| peer(2), 500), 1, "another has its own");
        assert_eq!(allowed(&lines, |_| PeerLine::Refused(None), 5), 5, "whose it is is not known");
        let start = Instant::now();
        lines.left_out_at(start);
        lines.left_out_at(start + 2 * WINDOW);
        assert!(!lines.allow(peer(1)), "also in another minute");
        // What is remembered has a bound: each minute thirty more.
        let start = start + 2 * WINDOW;
        for minute in 0..100 {
            allowed(&lines, |i| peer(1000 + u64::from(minute) * 30 + i), 30);
            lines.left_out_at(start + minute * WINDOW);
        }
        assert!(!lines.allow(peer(1000 + 99 * 30)) && lines.allow(peer(1)), "the oldest is forgotten first");
        assert_eq!(lock(&lines.state).told.len(), TOLD_COUNT_MAX);
    }

    #[test]
    fn limit_that_is_off_leaves_nothing_out() {
        let lines = PeerLines::default();
        lines.switch_off();
        assert_eq!(allowed(&lines, |_| PeerLine::Refused(Some(PeerId(1))), 1000), 1000);
    }
}
