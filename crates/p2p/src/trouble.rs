//! Errors of connection attempts: their kinds, recent counts, and which of them are logged.
//!
//! An error is forgotten if it did not occur for [`FORGOTTEN_AFTER`], or when a connection shows that it is over.
//! Each kind is logged once, and again only if it did not occur for that time; repetitions are counted.
//!
//! Absent on purpose: the messages about the state of a sync (`node`).

use crate::wire::Target;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

/// An error that did not occur for this time is over.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Maximum number of distinct errors: most are names that cannot be looked up. No network has as many DNS seeds.
pub const TROUBLE_COUNT_MAX: usize = 32;

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TroubleKind {
    /// The system has no route: network or host unreachable, or no address of that family. The subject is the peer.
    NoRoute,
    /// A name cannot be looked up. The subject is the name.
    Lookup,
    /// The proxy cannot be reached, or does not answer. The subject is the proxy.
    ProxyUnreachable,
    /// The proxy answers, but refuses the request. The subject is the proxy.
    ProxyRefuses,
    /// Nothing listens at that port. The subject is the peer.
    Refused,
    /// The peer does not answer. The subject is the peer.
    TimedOut,
    /// The connection ended before the handshake was finished. The subject is the peer.
    NoHandshake,
    /// Anything else. The subject is the peer.
    Other,
}

impl TroubleKind {
    /// Its machine-readable name.
    pub fn name(self) -> &'static str {
        match self {
            TroubleKind::NoRoute => "no-route",
            TroubleKind::Lookup => "lookup-failed",
            TroubleKind::ProxyUnreachable => "proxy-unreachable",
            TroubleKind::ProxyRefuses => "proxy-refuses",
            TroubleKind::Refused => "refused",
            TroubleKind::TimedOut => "timed-out",
            TroubleKind::NoHandshake => "no-handshake",
            TroubleKind::Other => "other",
        }
    }

    /// Whether each subject is counted separately.
    fn is_by_subject(self) -> bool {
        use TroubleKind::{Lookup, NoHandshake, ProxyRefuses, ProxyUnreachable};
        matches!(self, Lookup | ProxyUnreachable | ProxyRefuses | NoHandshake)
    }

    /// The kind of a system error.
    pub fn of_connect(error: &io::Error) -> TroubleKind {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable => TroubleKind::NoRoute,
            ErrorKind::ConnectionRefused => TroubleKind::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => TroubleKind::TimedOut,
            _ => TroubleKind::Other,
        }
    }
}

/// Why one connection attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialError {
    /// Its kind.
    pub kind: TroubleKind,
    /// The name or proxy; empty if the subject is the peer itself.
    pub subject: String,
    /// The message of the system or the proxy.
    pub why: String,
}

impl DialError {
    /// An error of the peer itself.
    pub fn of_peer(kind: TroubleKind, why: impl Into<String>) -> DialError {
        DialError { kind, subject: String::new(), why: why.into() }
    }

    /// An error of a name or a proxy.
    pub fn of(kind: TroubleKind, subject: &str, why: impl Into<String>) -> DialError {
        DialError { kind, subject: subject.to_owned(), why: why.into() }
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DialError { kind, subject, why } = self;
        match kind {
            TroubleKind::Lookup => write!(f, "cannot look up {subject}: {why}"),
            TroubleKind::ProxyUnreachable => write!(f, "proxy {subject} cannot be reached: {why}"),
            TroubleKind::ProxyRefuses => write!(f, "proxy {subject} does not connect: {why}"),
            TroubleKind::NoRoute
            | TroubleKind::Refused
            | TroubleKind::TimedOut
            | TroubleKind::NoHandshake
            | TroubleKind::Other => f.write_str(why),
        }
    }
}

impl std::error::Error for DialError {}

/// An error, and how often it occurred since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its kind.
    pub kind: TroubleKind,
    /// The name, the proxy, or the peer that was tried last: see [`TroubleKind`].
    pub subject: String,
    /// The last message of the system or the proxy.
    pub why: String,
    /// Number of occurrences.
    pub count: u64,
    /// Time since its first occurrence.
    pub since: Duration,
    /// Time since its last occurrence.
    pub last: Duration,
}

/// The current errors.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    /// Errors by kind, and by subject if that is counted separately.
    met: BTreeMap<(TroubleKind, String), Met>,
    /// When each kind last occurred, kept even if it was over meanwhile.
    logged: BTreeMap<TroubleKind, Duration>,
}

#[derive(Debug)]
struct Met {
    subject: String,
    why: String,
    count: u64,
    first_at: Duration,
    last_at: Duration,
}

impl Troubles {
    /// Records a failed connection to `target`, or a failed lookup; returns whether to log it.
    pub(crate) fn meet(&mut self, error: &DialError, target: &str, now: Duration) -> bool {
        self.forget(now);
        let subject = if error.subject.is_empty() { target } else { &error.subject };
        let key = (error.kind, if error.kind.is_by_subject() { subject.to_owned() } else { String::new() });
        if let Some(met) = self.met.get_mut(&key) {
            met.count += 1;
            met.last_at = now;
            subject.clone_into(&mut met.subject);
            met.why.clone_from(&error.why);
        } else if self.met.len() < TROUBLE_COUNT_MAX {
            let subject = subject.to_owned();
            let why = error.why.clone();
            self.met.insert(key, Met { subject, why, count: 1, first_at: now, last_at: now });
        }
        self.logged.insert(error.kind, now).is_none()
    }

    /// Records a connection to `target`, through a proxy or not: forgets the errors that it disproves.
    pub(crate) fn connected(&mut self, target: &Target, is_proxied: bool) {
        // A peer on this machine, or on the local network, does not prove a route to others.
        let has_route = !is_proxied && target.network_name() != "not_publicly_routable";
        let name = if let Target::Name(name, _) = target { Some(name.as_str()) } else { None };
        let target = target.to_string();
        self.met.retain(|(kind, _), met| match kind {
            TroubleKind::NoRoute => !has_route,
            TroubleKind::Lookup => name != Some(met.subject.as_str()),
            TroubleKind::ProxyUnreachable | TroubleKind::ProxyRefuses => !is_proxied,
            TroubleKind::Refused | TroubleKind::TimedOut | TroubleKind::Other => met.subject != target,
            TroubleKind::NoHandshake => true,
        });
    }

    /// Records a connection to `target` that ended before its handshake was finished; returns whether to log it: the
    /// first time for each peer.
    pub(crate) fn ended(&mut self, target: &str, why: &str, now: Duration) -> bool {
        let before = self.met.len();
        self.meet(&DialError::of_peer(TroubleKind::NoHandshake, why), target, now);
        self.met.len() > before
    }

    /// Records a finished handshake with `target`.
    pub(crate) fn shaken(&mut self, target: &str) {
        self.met.remove(&(TroubleKind::NoHandshake, target.to_owned()));
    }

    /// Records a successful lookup.
    pub(crate) fn looked_up(&mut self, name: &str) {
        self.met.remove(&(TroubleKind::Lookup, name.to_owned()));
    }

    /// Forgets errors that did not occur for a while.
    pub(crate) fn forget(&mut self, now: Duration) {
        let is_recent = |at: Duration| now.saturating_sub(at) < FORGOTTEN_AFTER;
        self.met.retain(|_, met| is_recent(met.last_at));
        self.logged.retain(|_, at| is_recent(*at));
    }

    /// The current errors, the most frequent first.
    pub(crate) fn list(&self, now: Duration) -> Vec<Trouble> {
        let mut out: Vec<Trouble> = self
            .met
            .iter()
            .map(|((kind, _), met)| Trouble {
                kind: *kind,
                subject: met.subject.clone(),
                why: met.why.clone(),
                count: met.count,
                since: now.saturating_sub(met.first_at),
                last: now.saturating_sub(met.last_at),
            })
            .collect();
        out.sort_by(|a, b| b.count.cmp(&a.count).then(a.kind.cmp(&b.kind)));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn connect_errors_have_their_kinds() {
        use io::ErrorKind;
        for (row, error, want) in [
            ("no route", io::Error::from(ErrorKind::NetworkUnreachable), TroubleKind::NoRoute),
            ("no route to the host", io::Error::from(ErrorKind::HostUnreachable), TroubleKind::NoRoute),
            ("no address of the family", io::Error::from(ErrorKind::AddrNotAvailable), TroubleKind::NoRoute),
            ("nothing listens", io::Error::from(ErrorKind::ConnectionRefused), TroubleKind::Refused),
            ("no answer", io::Error::from(ErrorKind::TimedOut), TroubleKind::TimedOut),
            ("anything else", io::Error::other("too many open files"), TroubleKind::Other),
        ] {
            assert_eq!(TroubleKind::of_connect(&error), want, "{row}");
        }
    }

    #[test]
    fn repeated_trouble_is_one_line_and_a_count() {
        let mut troubles = Troubles::default();
        let refused = DialError::of_peer(TroubleKind::Refused, "refused");
        let lines = (0..50).filter(|i| troubles.meet(&refused, &format!("1.1.1.{i}:8333"), *i * S)).count();
        assert_eq!(lines, 1, "one line");
        let lookup = |name: &str| DialError::of(TroubleKind::Lookup, name, "no such name");
        let lines = ["a", "b", "a"].into_iter().filter(|name| troubles.meet(&lookup(name), "seed", 50 * S)).count();
        assert_eq!(lines, 1, "one for all names");
        let list = troubles.list(60 * S);
        let seen: Vec<_> = list.iter().map(|t| (t.kind, t.subject.as_str(), t.count, t.since, t.last)).collect();
        let want = [
            (TroubleKind::Refused, "1.1.1.49:8333", 50, 60 * S, 11 * S),
            (TroubleKind::Lookup, "a", 2, 10 * S, 10 * S),
            (TroubleKind::Lookup, "b", 1, 10 * S, 10 * S),
        ];
        assert_eq!(seen, want);
        // Not met for a while: over, and news when it comes again.
        let later = 50 * S + FORGOTTEN_AFTER;
        troubles.forget(later);
        assert!(troubles.list(later).is_empty());
        assert!(troubles.meet(&refused, "1.1.1.1:8333", later) && !troubles.meet(&refused, "1.1.1.1:8333", later));
        // Names without end are not all remembered.
        assert_eq!((0..1000).filter(|i| troubles.meet(&lookup(&i.to_string()), "seed", later)).count(), 1);
        assert_eq!(troubles.list(later).len(), TROUBLE_COUNT_MAX);
    }

    #[test]
    fn a_connection_ends_what_it_shows_to_be_over() {
        let proxy = || DialError::of(TroubleKind::ProxyUnreachable, "127.0.0.1:9050", "refused");
        let kinds = |is_proxied: bool, target: &str| {
            let mut troubles = Troubles::default();
            for error in [
                DialError::of_peer(TroubleKind::NoRoute, "unreachable"),
                DialError::of_peer(TroubleKind::Refused, "refused"),
                DialError::of(TroubleKind::Lookup, "seed", "no such name"),
                proxy(),
            ] {
                troubles.meet(&error, "1.1.1.1:1", S);
            }
            troubles.connected(&Target::parse(target, 1).unwrap(), is_proxied);
            // It comes again at once: no news.
            assert!(!troubles.meet(&proxy(), "1.1.1.1:1", 2 * S));
            troubles.list(2 * S).into_iter().map(|trouble| trouble.kind.name()).collect::<Vec<_>>().join(" ")
        };
        let all = "proxy-unreachable lookup-failed refused";
        assert_eq!(kinds(false, "2.2.2.2"), all, "there is a route");
        assert_eq!(kinds(false, "1.1.1.1"), "proxy-unreachable lookup-failed", "and this peer answers");
        assert_eq!(kinds(true, "2.2.2.2"), "no-route lookup-failed proxy-unreachable refused");
        assert_eq!(kinds(false, "127.0.0.1"), "proxy-unreachable no-route lookup-failed refused", "no route is seen");
        assert_eq!(kinds(false, "seed"), "proxy-unreachable no-route refused", "nor by a name");
    }
}
