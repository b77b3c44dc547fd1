//! Samples a running program about ten times a second, from the system and its log.
//!
//! `/proc/PID/status` has RssAnon and VmHWM, `stat` the CPU time, `io` the bytes to and from storage. The last two
//! remain readable until the process is reaped, so the final values are exact. The height is that of the last tip in
//! its log.
//! Absent on purpose: whole logs. Only newly appended text is read, and of a large amount only its end.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use demo::result::SAMPLES_HEADER;

/// Maximum bytes of appended log read at a time.
const TAIL_BYTES: u64 = 1 << 20;

/// The system's counters for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) rss_anon_bytes: u64,
    /// Peak resident memory so far, including mapped files.
    pub(super) peak_rss_bytes: u64,
    pub(super) user_seconds: f64,
    pub(super) system_seconds: f64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    /// Number of read and write system calls.
    pub(super) read_calls: u64,
    pub(super) write_calls: u64,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) usage: Usage,
    pub(super) height: Option<u32>,
}

/// Reads the system's counters of `pid`; missing ones are 0.
pub(super) fn usage(pid: u32) -> Usage {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let stat = read("stat");
    let io = read("io");
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let (user, system) = cpu_ticks(&stat);
    Usage {
        rss_anon_bytes: field(&status, "RssAnon:") * 1024,
        peak_rss_bytes: field(&status, "VmHWM:") * 1024,
        user_seconds: user as f64 / ticks,
        system_seconds: system as f64 / ticks,
        read_bytes: field(&io, "read_bytes:"),
        write_bytes: field(&io, "write_bytes:"),
        read_calls: field(&io, "syscr:"),
        write_calls: field(&io, "syscw:"),
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Ticks in user mode and in system mode, including children that were waited for: fields 14 to 17 of `stat`, counted
/// after the name in brackets.
fn cpu_ticks(stat: &str) -> (u64, u64) {
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let mut fields = rest.split(' ').skip(11).map(|number| number.parse::<u64>().unwrap_or(0));
    let mut next = || fields.next().unwrap_or(0);
    let user = next();
    let system = next();
    let children_user = next();
    let children_system = next();
    (user + children_user, system + children_system)
}

/// Follows a log that another program writes.
#[derive(Debug)]
pub(super) struct LogTail {
    path: PathBuf,
    offset: u64,
    height: Option<u32>,
}

impl LogTail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, height: None }
    }

    /// Height of the last tip so far; `None` if the log does not exist yet.
    pub(super) fn height(&mut self) -> Option<u32> {
        if let Ok(Some(height)) = self.look() {
            self.height = Some(height);
        }
        self.height
    }

    fn look(&mut self) -> io::Result<Option<u32>> {
        let mut file = File::open(&self.path)?;
        let end = file.metadata()?.len();
        if end < self.offset {
            self.offset = 0; // The log was replaced by another file with the same name.
        }
        let from = self.offset.max(end.saturating_sub(TAIL_BYTES));
        file.seek(SeekFrom::Start(from))?;
        let mut piece = Vec::new();
        file.take(end - from).read_to_end(&mut piece)?;
        let whole = memchr::memrchr(b'\n', &piece).map_or(0, |at| at + 1);
        self.offset = from + whole as u64;
        Ok(demo::debug_log::last_height(&piece[..whole]))
    }
}

/// Writes samples as CSV.
///
/// # Errors
///
/// An I/O error.
pub(super) fn write(samples: &[Sample], path: &Path) -> io::Result<()> {
    let mut text = Vec::with_capacity(samples.len() * 64);
    writeln!(text, "{SAMPLES_HEADER}")?;
    for sample in samples {
        let usage = sample.usage;
        write!(
            text,
            "{:.3},{},{:.2},{},{},",
            sample.seconds,
            usage.rss_anon_bytes,
            usage.user_seconds + usage.system_seconds,
            usage.read_bytes,
            usage.write_bytes
        )?;
        match sample.height {
            Some(height) => writeln!(text, "{height}")?,
            None => writeln!(text)?,
        }
    }
    demo::result::write_whole(path, &text)
}

/// Reads seconds and memory of the samples in a file; skips malformed lines.
pub(super) fn read_memory(path: &Path) -> Vec<Sample> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let sample = |line: &str| {
        let mut columns = line.split(',');
        let seconds = columns.next()?.parse().ok()?;
        let usage = Usage { rss_anon_bytes: columns.next()?.parse().ok()?, ..Usage::default() };
        Some(Sample { seconds, usage, height: None })
    };
    text.lines().filter_map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_this_process_is_read() {
        let block = std::hint::black_box(vec![1u8; 20 << 20]);
        let got = usage(std::process::id());
        assert!(got.rss_anon_bytes > block.len() as u64, "{got:?}");
        assert!(got.peak_rss_bytes >= got.rss_anon_bytes, "{got:?}");
        assert_eq!(usage(u32::MAX), Usage::default(), "a process that is not there");
    }

    #[test]
    fn cpu_ticks_parse_after_any_process_name() {
        for (stat, want) in [
            ("12 (ffwd) R 1 1 1 0 -1 4194304 100 0 0 0 5 6 7 8 20 0", (12, 14)),
            ("12 (a) b) c) R 1 1 1 0 -1 4194304 100 0 0 0 5 6 0 0 20 0", (5, 6)),
            ("", (0, 0)),
            ("12 (x", (0, 0)),
        ] {
            assert_eq!(cpu_ticks(stat), want, "{stat}");
        }
    }

    #[test]
    fn log_tail_follows_appends_and_rotation() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("debug.log");
        let tip = |height: u32| {
            format!(
                "2026-01-01T00:00:00Z UpdateTip: new best={:064x} height={height} tx=1 progress=0.1 cache=1.0MiB(1txo)\n",
                1
            )
        };
        let mut tail = LogTail::new(path.clone());
        assert_eq!(tail.height(), None, "not there yet");
        fs::write(&path, tip(1) + &tip(2)).unwrap();
        assert_eq!(tail.height(), Some(2));
        let half = &tip(3)[..40];
        fs::write(&path, tip(1) + &tip(2) + half).unwrap();
        assert_eq!(tail.height(), Some(2), "half a line says nothing");
        fs::write(&path, tip(1) + &tip(2) + &tip(3)).unwrap();
        assert_eq!(tail.height(), Some(3), "the other half came");
        fs::write(&path, tip(9)).unwrap();
        assert_eq!(tail.height(), Some(9), "another file under the same name");
    }
}
