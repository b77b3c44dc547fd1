//! Linux' statistics of this process and its disk. Unavailable ones are 0, or absent.

use std::fs;
use std::path::Path;

/// Memory, processor time and disk of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Machine {
    /// Resident anonymous memory, which `--dbcache` bounds.
    pub(crate) anonymous_bytes: u64,
    /// All resident memory, including mapped files.
    pub(crate) resident_bytes: u64,
    /// Processor time, in seconds.
    pub(crate) processor_s: f64,
    /// Bytes read from the disk.
    pub(crate) read_bytes: u64,
    /// Bytes written to the disk.
    pub(crate) written_bytes: u64,
    /// Bytes free for this user on the file system of the data directory.
    pub(crate) free_bytes: Option<u64>,
}

impl Machine {
    pub(crate) fn look(datadir: &Path) -> Machine {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let free = rustix::fs::statvfs(datadir).ok();
        Machine {
            anonymous_bytes: field(&status, "RssAnon:") * 1024,
            resident_bytes: field(&status, "VmRSS:") * 1024,
            processor_s: processor_ticks(&stat) as f64 / rustix::param::clock_ticks_per_second().max(1) as f64,
            read_bytes: field(&io, "read_bytes:"),
            written_bytes: field(&io, "write_bytes:"),
            free_bytes: free.map(|free| free.f_bavail.saturating_mul(free.f_frsize)),
        }
    }
}

/// The number after a name.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// User and system time: fields 14 and 15, counted from the name in parentheses, which may contain anything.
fn processor_ticks(stat: &str) -> u64 {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field("VmRSS:\t  12 kB\nRssAnon:\t7 kB\n", "RssAnon:"), 7);
        assert_eq!(field("", "RssAnon:"), 0);
        let stat = "1 (a) b) S 0 1 1 0 -1 4194560 24 0 0 0 30 12 5 6 20 0 1";
        assert_eq!(processor_ticks(stat), 42);
    }

    #[test]
    fn this_process_has_memory_and_a_disk() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.anonymous_bytes > 0 && machine.resident_bytes >= machine.anonymous_bytes, "{machine:?}");
        assert!(machine.free_bytes.is_some(), "{machine:?}");
    }
}
