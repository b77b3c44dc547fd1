//! `debug.log` in the network's directory, in Core's format, so that tools that read Core's log can read this one.
//!
//! A line is `YYYY-MM-DDTHH:MM:SSZ text`, with `-logtimemicros` `YYYY-MM-DDTHH:MM:SS.UUUUUUZ text`. Source: Bitcoin
//! Core b88bffe, logging.cpp, `UpdateTipLog`. A write error does not stop the program: logging ends. On a full disk
//! or a full pipe only the lines for which there is no space are lost.

use crate::options::{Clock, ReopenLog, unix_seconds};
use disk::Disk;
use primitives::{BlockHash, Height, Work};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Core's categories of `-debug`, in its order; ffwd has lines for addrman, bench and net.
/// Source: Bitcoin Core b88bffe, logging.cpp, `LOG_CATEGORIES_BY_STR`; mining is from version 32.
pub const LOG_CATEGORIES: [&str; 30] = [
    "addrman",
    "bench",
    "blockstorage",
    "cmpctblock",
    "coindb",
    "estimatefee",
    "http",
    "i2p",
    "ipc",
    "kernel",
    "leveldb",
    "mempool",
    "mempoolrej",
    "mining",
    "net",
    "privatebroadcast",
    "proxy",
    "prune",
    "qt",
    "rand",
    "reindex",
    "rpc",
    "scan",
    "selectcoins",
    "tor",
    "txpackages",
    "txreconciliation",
    "validation",
    "walletdb",
    "zmq",
];

/// The log file, opened for appending.
pub(crate) struct Log {
    out: Mutex<Option<Out>>,
    clock: Clock,
    /// `-logtimemicros`.
    micros: bool,
    /// The second of 1970 of the last line.
    last_second: AtomicU64,
    file: Option<LogFile>,
}

/// Location of the log, and the time at which it was opened.
struct LogFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    reopen: ReopenLog,
    /// The number of reopen requests when the file was opened.
    opened: AtomicU32,
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// Values of an UpdateTip line.
pub(crate) struct Tip {
    /// Hash of the block.
    pub hash: BlockHash,
    /// Its height.
    pub height: Height,
    /// Its version.
    pub version: i32,
    /// Work of its chain.
    pub work: Work,
    /// Transactions up to it; 0 if unknown.
    pub transactions: u64,
    /// Its time.
    pub time: u32,
    /// Whether blocks above it are known: then more such lines follow soon.
    pub has_more: bool,
    /// Estimated progress, 0 to 1.
    pub progress: f64,
    /// Bytes of coins in memory.
    pub cache_bytes: u64,
    /// Records of coins in memory.
    pub cache_coins: u64,
}

impl Log {
    /// Appends to the file `path` of `disk`, or writes no log; `clock` gives the times of its lines, in seconds or in
    /// microseconds, and `reopen` counts requests to open the file again.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        path: Option<PathBuf>,
        clock: Clock,
        micros: bool,
        reopen: ReopenLog,
    ) -> Log {
        let Some(path) = path else { return Log::none() };
        let out = disk.append(&path).ok().map(BufWriter::new);
        let opened = AtomicU32::new(reopen.count());
        let file = LogFile { disk, path, reopen, opened };
        Log { out: Mutex::new(out), clock, micros, last_second: AtomicU64::new(0), file: Some(file) }
    }

    /// Writes nothing.
    pub(crate) fn none() -> Log {
        Log { out: Mutex::new(None), clock: || UNIX_EPOCH, micros: false, last_second: AtomicU64::new(0), file: None }
    }

    /// Writes one line with the time. It is in the file when this returns.
    pub(crate) fn line(&self, text: &str) {
        self.write(text, true);
    }

    /// As [`Log::line`], for lines that come in bulk: they are in the file when the next one by [`Log::line`] is, or the
    /// first of another second.
    pub(crate) fn later(&self, text: &str) {
        self.write(text, false);
    }

    fn write(&self, text: &str, at_once: bool) {
        let second = unix_seconds(self.clock);
        let time = if self.micros { date_micros((self.clock)()) } else { date(second) };
        let mut log = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        self.reopen_if_asked(&mut log);
        // In one write: the line is in the file as a whole, or not at all.
        let line = format!("{time} {text}\n");
        // If blocks come slowly, each line is in the file at once.
        let is_due = self.last_second.swap(second, Relaxed) != second || at_once;
        let mut write = |out: &mut Out| {
            out.write_all(line.as_bytes())?;
            if is_due { out.flush() } else { Ok(()) }
        };
        if let Some(Err(why)) = log.as_mut().map(&mut write)
            && !matches!(why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::WouldBlock)
        {
            *log = None;
        }
    }

    /// Lines written before stay in the old file.
    fn reopen_if_asked(&self, log: &mut Option<Out>) {
        let Some(file) = &self.file else { return };
        let asked = file.reopen.count();
        if file.opened.swap(asked, Relaxed) == asked {
            return;
        }
        if let Some(out) = log {
            let _ = out.flush(); // See the module.
        }
        if let Ok(new) = file.disk.append(&file.path) {
            *log = Some(BufWriter::new(new));
        }
    }

    /// Core's line for a new tip. Lines of many blocks are written together.
    pub(crate) fn update_tip(&self, tip: &Tip) {
        let text = format!(
            "UpdateTip: new best={} height={} version=0x{:08x} log2_work={:.6} tx={} date='{}' progress={:.6} cache={:.1}MiB({}txo)",
            tip.hash,
            tip.height,
            tip.version,
            tip.work.log2(),
            tip.transactions,
            date(u64::from(tip.time)),
            tip.progress,
            tip.cache_bytes as f64 / (1024.0 * 1024.0),
            tip.cache_coins,
        );
        self.write(&text, !tip.has_more);
    }

    /// Passes all lines to the system.
    pub(crate) fn flush(&self) {
        if let Some(out) = self.out.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let _ = out.flush(); // See the module: a log is given up, not fought for.
        }
    }
}

/// Seconds since 1970 as `YYYY-MM-DDTHH:MM:SSZ`.
pub(crate) fn date(seconds: u64) -> String {
    let days = seconds / 86_400;
    let rest = seconds % 86_400;
    // Days since 1 March of year 0, in eras of 400 years.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// A time as `YYYY-MM-DDTHH:MM:SS.UUUUUUZ`, as Core writes it with `-logtimemicros`.
fn date_micros(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = date(since.as_secs());
    format!("{}.{:06}Z", date.trim_end_matches('Z'), since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Fault, SimDisk};
    use std::io::Read;
    use std::path::Path;
    use std::time::Duration;

    /// Lines longer than the buffer, of which the second meets the accident.
    #[test]
    fn log_full_disk_loses_lines_and_io_error_ends_it() {
        let lines = |text: String| text.lines().map(|line| line[..24].to_owned()).collect::<Vec<_>>();
        let long = |name: &str| format!("{name} {}", "x".repeat(10_000));
        for (row, fault, want) in
            [("full", Fault::NoSpace, vec!["first", "third"]), ("broken", Fault::Io, vec!["first"])]
        {
            let disk = SimDisk::new(1);
            let log = Log::open(
                Arc::new(disk.clone()),
                Some("/debug.log".into()),
                || UNIX_EPOCH,
                false,
                ReopenLog::default(),
            );
            log.line(&long("first"));
            disk.fail_at(disk.operations(), 1, fault);
            log.line(&long("second"));
            log.line(&long("third"));
            let bytes = disk.open(Path::new("/debug.log")).unwrap().bytes().unwrap();
            let want: Vec<String> =
                want.iter().map(|name| long(&format!("1970-01-01T00:00:00Z {name}"))[..24].to_owned()).collect();
            assert_eq!(lines(String::from_utf8(bytes.to_vec()).unwrap()), want, "{row}");
        }
    }

    /// As the output of a container whose reader is slow.
    #[test]
    fn a_pipe_that_is_full_for_a_while_loses_lines_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Opened for both, so that neither end waits for the other.
        let mut reader = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let log = Log::open(Arc::new(disk::RealDisk), Some(path), || UNIX_EPOCH, false, ReopenLog::default());
        (0..1000).for_each(|number| log.line(&format!("{number} {}", "x".repeat(1000))));
        let mut taken = vec![0; 1 << 20];
        let count = reader.read(&mut taken).unwrap();
        assert!(count > 1000 && count < 900_000, "{count}");
        log.line("later");
        let count = reader.read(&mut taken).unwrap();
        let text = String::from_utf8_lossy(&taken[..count]);
        assert!(text.ends_with("\n1970-01-01T00:00:00Z later\n"), "{text}");
    }

    #[test]
    fn log_that_was_renamed_is_opened_again_when_asked() {
        let disk = SimDisk::new(1);
        let reopen = ReopenLog::default();
        let log = Log::open(Arc::new(disk.clone()), Some("/debug.log".into()), || UNIX_EPOCH, false, reopen.clone());
        log.line("first");
        log.flush();
        disk.rename(Path::new("/debug.log"), Path::new("/debug.log.1")).unwrap();
        log.line("second");
        ReopenLog::default().ask(); // Of another job.
        log.line("still second");
        reopen.ask();
        log.line("third");
        log.flush();
        let text = |path: &str| {
            let bytes = disk.open(Path::new(path)).unwrap().bytes().unwrap();
            String::from_utf8(bytes.to_vec()).unwrap().lines().map(|line| line[21..].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (text("/debug.log.1"), text("/debug.log")),
            (vec!["first".into(), "second".into(), "still second".into()], vec!["third".into()])
        );
    }

    #[test]
    fn lines_in_bulk_are_in_the_file_within_a_second() {
        static NOW: AtomicU64 = AtomicU64::new(7);
        let disk = SimDisk::new(1);
        let clock = || UNIX_EPOCH + Duration::from_secs(NOW.load(Relaxed));
        let log = Log::open(Arc::new(disk.clone()), Some("/debug.log".into()), clock, false, ReopenLog::default());
        let lines = || {
            let bytes = disk.open(Path::new("/debug.log")).unwrap().bytes().unwrap();
            String::from_utf8(bytes.to_vec()).unwrap().lines().count()
        };
        for (second, want) in [(7, 1), (7, 1), (7, 1), (8, 4), (8, 4), (20, 6)] {
            NOW.store(second, Relaxed);
            log.later("x");
            assert_eq!(lines(), want, "after a line in second {second}");
        }
        log.line("y");
        assert_eq!(lines(), 7);
    }

    #[test]
    fn microseconds_have_six_digits() {
        let disk = SimDisk::new(1);
        let log = Log::open(
            Arc::new(disk.clone()),
            Some("/debug.log".into()),
            || UNIX_EPOCH + Duration::from_micros(951_782_400_000_070),
            true,
            ReopenLog::default(),
        );
        log.line("x");
        log.flush();
        let bytes = disk.open(Path::new("/debug.log")).unwrap().bytes().unwrap();
        assert_eq!(&*bytes, b"2000-02-29T00:00:00.000070Z x\n");
    }

    #[test]
    fn date_is_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_231_006_505, "2009-01-03T18:15:05Z"),
            (1_795_219_199, "2026-11-20T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(super::date(seconds), text);
        }
    }
}
