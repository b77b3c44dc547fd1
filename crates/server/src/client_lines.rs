//! Lines of debug.log that a client without a password can cause, within a limit: a flood fills no disk.
//!
//! Each kind has a token bucket (Turner 1986): a burst of [`BURST_COUNT`] lines, then one in [`INTERVAL`]. Lines that
//! are left out are counted, and the count is written before the next line of the kind.
//! Source: the words are those of Bitcoin Core b88bffe, httprpc.cpp and httpserver.cpp, which has no limit here.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a kind that are written at once.
const BURST_COUNT: u32 = 20;
/// Time after which one more line of a kind is written: some 100 KB an hour for each kind.
const INTERVAL: Duration = Duration::from_secs(5);

/// The limits of all kinds.
#[derive(Debug, Default)]
pub(crate) struct ClientLines {
    passwords: Mutex<Limit>,
    refused: Mutex<Limit>,
}

impl ClientLines {
    /// Lines about a wrong password.
    pub(crate) fn wrong_password(&self, client: Option<SocketAddr>) -> Vec<String> {
        let client = client.map_or_else(|| "an unknown address".to_owned(), |client| client.to_string());
        let line = format!("[warning] ThreadRPCServer incorrect password attempt from {client}");
        take(&self.passwords, "wrong passwords", line)
    }

    /// Lines about a request that is refused because the work queue is full.
    pub(crate) fn refused(&self) -> Vec<String> {
        let line = "[warning] Request rejected because http work queue depth exceeded, it can be increased with the \
                    -rpcworkqueue= setting";
        take(&self.refused, "rejected requests", line.to_owned())
    }
}

/// The line, after the count of those that were left out; nothing beyond the limit.
fn take(limit: &Mutex<Limit>, what: &str, line: String) -> Vec<String> {
    let left_out = limit.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
    let count = |count| format!("{count} more lines about {what} were left out of the log: they are limited");
    match left_out {
        None => Vec::new(),
        Some(0) => vec![line],
        Some(left_out) => vec![count(left_out), line],
    }
}

/// The token bucket of a kind.
#[derive(Debug, Default)]
struct Limit {
    /// Lines of the burst that are used.
    used_count: u32,
    /// Since when the used ones are earned back.
    since: Option<Instant>,
    left_out_count: u64,
}

impl Limit {
    /// Takes a line: the number of lines left out before it; `None` if it is left out too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let since = self.since.unwrap_or(now);
        let earned = now.saturating_duration_since(since).as_secs() / INTERVAL.as_secs();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX).min(self.used_count);
        self.used_count -= earned;
        // What is not a whole line yet is kept, except when nothing is left to earn.
        self.since = Some(if self.used_count == 0 { now } else { since + INTERVAL * earned });
        if self.used_count >= BURST_COUNT {
            self.left_out_count += 1;
            return None;
        }
        self.used_count += 1;
        Some(std::mem::take(&mut self.left_out_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_counted_and_a_line_is_earned_in_each_interval() {
        let (start, mut limit) = (Instant::now(), Limit::default());
        let written = (0..100).filter(|_| limit.take(start).is_some()).count();
        assert_eq!(written, BURST_COUNT as usize);
        assert_eq!(limit.take(start + INTERVAL * 3 / 2), Some(80), "one is earned, and the count is told");
        assert_eq!(limit.take(start + INTERVAL * 3 / 2), None);
        assert_eq!(limit.take(start + INTERVAL * 2), Some(1), "half an interval was kept");
        let later = start + INTERVAL * 1000;
        let written = (0..100).filter(|_| limit.take(later).is_some()).count();
        assert_eq!(written, BURST_COUNT as usize, "no more than a burst is earned");
    }

    #[test]
    fn lines_are_cores() {
        let lines = ClientLines::default();
        let client = Some("127.0.0.1:5".parse().unwrap());
        let want = "[warning] ThreadRPCServer incorrect password attempt from 127.0.0.1:5";
        assert_eq!(lines.wrong_password(client), [want]);
        assert!(lines.refused()[0].contains("http work queue depth exceeded"));
    }
}
