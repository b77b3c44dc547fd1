//! Memory that the machine and the cgroups of this process leave for a cache, and its changes.
//!
//! The rule: subtract [`BESIDE_BYTES`] from the available memory for everything outside the budget. Half of the rest is
//! the cache, the other half stays for the system's page cache, on which look-ups depend. At least [`CACHE_BYTES_MIN`],
//! at most [`CACHE_BYTES_MAX`].
//!
//! Available is the minimum of `MemAvailable` and, for this process's cgroup and each cgroup above it, its limit less
//! its usage without its page cache. The limit is the lower one of `memory.max` and `memory.high`, with cgroups v1
//! `memory.limit_in_bytes`. While the program runs this is measured repeatedly, and its own memory counts as available.
//!
//! The cache shrinks immediately if less is available. While tasks stall on memory (`memory.pressure`,
//! `/proc/pressure/memory`) it shrinks by quarters, at most to a quarter of the rule's result: in a small cgroup,
//! reading and writing files stalls on memory too, and fewer coins in memory cause more reads. It grows again in steps
//! of an eighth, up to the size chosen first.
//!
//! A file that is absent or has another format sets no limit.
//!
//! Absent on purpose: applying the result (`pipeline`), the clock.

use std::path::{Component, Path, PathBuf};

/// Maximum bytes that a process uses outside its budget.
pub const BESIDE_BYTES: u64 = 150 << 20;
/// Minimum of the automatic choice: Core's minimum for `-dbcache`.
pub const CACHE_BYTES_MIN: u64 = 4 << 20;
/// Maximum of the automatic choice: mainnet's UTXO set needs about this much memory.
pub const CACHE_BYTES_MAX: u64 = 16 << 30;
/// The choice if the system does not report its memory: Core's `-dbcache` with little memory.
const CACHE_BYTES_UNKNOWN: u64 = 450 << 20;
/// Per cent of the last ten seconds in which some task stalled on memory: above the first the cache shrinks, below the
/// second it may grow again.
const PRESSURE_HIGH: f64 = 10.0;
const PRESSURE_LOW: f64 = 1.0;
/// Divisor: the part of the rule's result that is kept under memory pressure.
const PRESSURE_LEAVES: u64 = 4;
/// Number of measurements after a step in which pressure is ignored, because its average covers ten seconds.
const LOOKS_BETWEEN: u32 = 5;

/// Reads the system's files about memory.
#[derive(Clone, Debug)]
pub struct MachineMemory {
    /// `/`, or another directory in tests.
    root: PathBuf,
}

impl Default for MachineMemory {
    fn default() -> MachineMemory {
        MachineMemory { root: PathBuf::from("/") }
    }
}

impl MachineMemory {
    /// Bytes for a cache by the rule; `own` bytes of the memory in use are this program's.
    #[must_use]
    pub fn cache_bytes(&self, own: u64) -> u64 {
        let Some(left) = self.left() else { return CACHE_BYTES_UNKNOWN };
        let rest = left.saturating_add(own).saturating_sub(BESIDE_BYTES);
        (rest / 2).clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX)
    }

    /// Available bytes; `None` if the system does not report them.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        let machine = self.number_of(Path::new("proc/meminfo"), "MemAvailable:").map(|kib| kib.saturating_mul(1024));
        let groups = self.cgroups();
        groups.iter().filter_map(|group| self.left_in(group)).chain(machine).min()
    }

    /// Bytes that the machine has, or this program may have if that is less; `None` if the system does not report them.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let machine = self.number_of(Path::new("proc/meminfo"), "MemTotal:").map(|kib| kib.saturating_mul(1024));
        let groups = self.cgroups();
        groups.iter().filter_map(|group| self.limit_of(group)).chain(machine).min()
    }

    /// Bytes of anonymous memory of this process.
    #[must_use]
    pub fn own(&self) -> u64 {
        self.number_of(Path::new("proc/self/status"), "RssAnon:").map_or(0, |kib| kib.saturating_mul(1024))
    }

    /// Per cent of the last ten seconds in which some task stalled on memory: of the cgroup, else of the machine.
    fn pressure(&self) -> f64 {
        let groups = self.cgroups();
        let own = groups.iter().find(|group| group.version == Version::V2);
        let of_group = own.and_then(|group| self.pressure_of(&group.path.join("memory.pressure")));
        of_group.or_else(|| self.pressure_of(Path::new("proc/pressure/memory"))).unwrap_or(0.0)
    }

    /// Source: Linux, Documentation/accounting/psi.rst.
    fn pressure_of(&self, file: &Path) -> Option<f64> {
        let text = self.read(file)?;
        let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
        line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
    }

    /// Bytes available below a cgroup's limits; `None` without a limit.
    fn left_in(&self, group: &Cgroup) -> Option<u64> {
        let names = group.version.names();
        let limit = self.limit_of(group)?;
        let stat = group.path.join("memory.stat");
        let files: u64 = names.files.iter().filter_map(|name| self.number_of(&stat, name)).fold(0, u64::saturating_add);
        let in_use = self.bytes_in(group, names.in_use).unwrap_or(0).saturating_sub(files);
        Some(limit.saturating_sub(in_use))
    }

    fn limit_of(&self, group: &Cgroup) -> Option<u64> {
        group.version.names().limits.iter().filter_map(|name| self.bytes_in(group, name)).min()
    }

    fn bytes_in(&self, group: &Cgroup, name: &str) -> Option<u64> {
        self.read(&group.path.join(name))?.trim().parse().ok()
    }

    /// The cgroups of this process that limit memory and those above them, up to the roots of their hierarchies.
    fn cgroups(&self) -> Vec<Cgroup> {
        let (Some(own), Some(mounts)) =
            (self.read(Path::new("proc/self/cgroup")), self.read(Path::new("proc/self/mountinfo")))
        else {
            return Vec::new();
        };
        [Version::V2, Version::V1].into_iter().flat_map(|version| cgroups_of(version, &own, &mounts)).collect()
    }

    /// The number after a name, in a file of lines.
    fn number_of(&self, file: &Path, name: &str) -> Option<u64> {
        let text = self.read(file)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn read(&self, file: &Path) -> Option<String> {
        disk::system_text(&self.root.join(file))
    }
}

/// A directory of a hierarchy of cgroups.
struct Cgroup {
    version: Version,
    path: PathBuf,
}

/// The version of cgroups, which determines the files to read. Source: Linux, Documentation/admin-guide/cgroup-v2.rst
/// and cgroup-v1/memory.rst.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// Files of a cgroup, and fields of its `memory.stat`.
struct Names {
    limits: &'static [&'static str],
    in_use: &'static str,
    files: [&'static str; 2],
}

impl Version {
    fn names(self) -> Names {
        match self {
            Version::V2 => Names {
                limits: &["memory.max", "memory.high"],
                in_use: "memory.current",
                files: ["inactive_file", "active_file"],
            },
            // No limit is a number that exceeds any machine's memory.
            Version::V1 => Names {
                limits: &["memory.limit_in_bytes"],
                in_use: "memory.usage_in_bytes",
                files: ["total_inactive_file", "total_active_file"],
            },
        }
    }

    /// The path in the process's line of `/proc/self/cgroup` for the hierarchy that limits memory.
    fn own(self, lines: &str) -> Option<&str> {
        lines.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = match self {
                Version::V2 => controllers.is_empty(),
                Version::V1 => controllers.split(',').any(|name| name == "memory"),
            };
            if is_it { path.strip_prefix('/') } else { None }
        })
    }

    /// From a line of `/proc/self/mountinfo` for that hierarchy: the mounted part of it and the mount point, without
    /// the leading slashes.
    fn mount(self, line: &str) -> Option<(String, String)> {
        let (place, of) = line.split_once(" - ")?;
        let kind = of.split_whitespace().next()?;
        let options = of.split_whitespace().last()?;
        let mut words = place.split_whitespace().skip(3).map(|word| unescaped(word.trim_start_matches('/')));
        if self.is_mounted_as(kind, options) { Some((words.next()?, words.next()?)) } else { None }
    }

    /// Whether a file system of this type with these options is that hierarchy.
    fn is_mounted_as(self, kind: &str, options: &str) -> bool {
        match self {
            Version::V2 => kind == "cgroup2",
            Version::V1 => kind == "cgroup" && options.split(',').any(|name| name == "memory"),
        }
    }
}

/// The cgroup named by `own` and those above it, if they are visible through a mount of the hierarchy.
///
/// The mount may show only a part of the hierarchy: the first mount that contains the cgroup is used. In a namespace
/// paths start at its root, and the path of a mount made outside is `/..`: the names between are hidden, but the
/// mounted directory is above the cgroup, and limits it. Source: Linux, Documentation/admin-guide/cgroup-v2.rst,
/// "Namespace".
fn cgroups_of(version: Version, own: &str, mounts: &str) -> Vec<Cgroup> {
    let Some(own) = version.own(own) else { return Vec::new() };
    let group = |mount: &str, group: &Path| Cgroup { version, path: Path::new(mount).join(group) };
    let mounts: Vec<(String, String)> = mounts.lines().filter_map(|line| version.mount(line)).collect();
    for (inside, mount) in &mounts {
        if let Ok(below) = Path::new(own).strip_prefix(inside)
            && !is_above(below)
        {
            return below.ancestors().map(|below| group(mount, below)).collect();
        }
    }
    let above = mounts.iter().find(|(inside, _)| levels_above(inside) > levels_above(own) && is_only_above(inside));
    above.map(|(_, mount)| group(mount, Path::new(""))).into_iter().collect()
}

/// Number of components `..` at the beginning of a path.
fn levels_above(path: &str) -> usize {
    Path::new(path).components().take_while(|part| *part == Component::ParentDir).count()
}

fn is_only_above(path: &str) -> bool {
    Path::new(path).components().all(|part| part == Component::ParentDir)
}

fn is_above(path: &Path) -> bool {
    path.components().next() == Some(Component::ParentDir)
}

/// Unescapes a path of `/proc/self/mountinfo`, where space, tab, end of line and backslash are `\` and three octal
/// digits. Source: Linux, `cgroup_show_path` and `seq_path`. systemd's names of units have backslashes.
fn unescaped(text: &str) -> String {
    let mut out = text.to_owned();
    for (escape, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(escape, plain);
    }
    out
}

/// Adapts a cache's size to the available memory.
#[derive(Debug)]
pub(crate) struct Watch {
    memory: MachineMemory,
    chosen: u64,
    now: u64,
    /// Measurements until pressure counts again.
    rest: u32,
}

impl Watch {
    /// A watch of a cache whose size was chosen as `chosen` bytes.
    pub(crate) fn new(memory: MachineMemory, chosen: u64) -> Watch {
        Watch { memory, chosen, now: chosen, rest: 0 }
    }

    /// Returns the new size of the cache in bytes if it changes. Call it about every second.
    pub(crate) fn look(&mut self) -> Option<u64> {
        let allowed = self.memory.cache_bytes(self.memory.own()).min(self.chosen);
        let pressure = self.memory.pressure();
        self.rest = self.rest.saturating_sub(1);
        let mut next = self.now;
        if pressure >= PRESSURE_HIGH && self.rest == 0 {
            next = (next - next / 4).max(allowed / PRESSURE_LEAVES).min(next);
            self.rest = LOOKS_BETWEEN;
        }
        if allowed < next {
            // Small changes in other programs' usage are ignored.
            if next < self.now || allowed < next - next / 16 {
                next = allowed;
            }
        } else if pressure < PRESSURE_LOW && self.rest == 0 && allowed > next + next / 8 {
            next += next / 8;
        }
        let next = next.max(CACHE_BYTES_MIN);
        let has_changed = next != self.now;
        self.now = next;
        has_changed.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine that says what these files say.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, MachineMemory) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = dir.path().to_path_buf();
        (dir, MachineMemory { root })
    }

    const MOUNTS: &str =
        "24 1 0:1 / /proc rw - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
    const MIB: u64 = 1 << 20;

    #[test]
    fn left_is_the_least_of_machine_and_cgroups() {
        let meminfo = ("proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 100 kB\nMemAvailable:  1048576 kB\n");
        let (mounts, own) = (("proc/self/mountinfo", MOUNTS), ("proc/self/cgroup", "0::/a/b\n"));
        let of = |files: &[(&str, &str)]| {
            let (_dir, machine) = machine(files);
            machine.left()
        };
        assert_eq!(of(&[]), None, "nothing is said");
        assert_eq!(of(&[meminfo]), Some(1024 * MIB));
        assert_eq!(of(&[meminfo, mounts, own]), Some(1024 * MIB), "no limits");
        let max = ("sys/fs/cgroup/a/b/memory.max", "524288000\n");
        let current = ("sys/fs/cgroup/a/b/memory.current", "209715200\n");
        let stat =
            ("sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 104857600\ninactive_file 52428800\nactive_file 52428800\n");
        assert_eq!(of(&[meminfo, mounts, own, max]), Some(500 * MIB));
        assert_eq!(of(&[meminfo, mounts, own, max, current]), Some(300 * MIB));
        assert_eq!(of(&[meminfo, mounts, own, max, current, stat]), Some(400 * MIB), "its files can go");
        let high = ("sys/fs/cgroup/a/b/memory.high", "419430400");
        assert_eq!(of(&[meminfo, mounts, own, max, high, current, stat]), Some(300 * MIB));
        let none = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(of(&[meminfo, mounts, own, none, current]), Some(1024 * MIB), "no limit");
        let above = ("sys/fs/cgroup/a/memory.max", "104857600\n");
        assert_eq!(of(&[meminfo, mounts, own, max, above]), Some(100 * MIB), "a parent's limit");
        let part = ("proc/self/mountinfo", "30 23 0:26 /a /cg rw - cgroup2 cgroup2 rw\n");
        assert_eq!(of(&[part, own, ("cg/b/memory.max", "1048576")]), Some(MIB), "a part of the hierarchy is mounted");
        assert_eq!(of(&[("proc/meminfo", "MemAvailable: much"), mounts, ("proc/self/cgroup", "junk"), max]), None);
    }

    #[test]
    fn cgroups_are_found_through_mounts_and_namespaces() {
        let of = |own: &str, mounts: &str| -> Vec<String> {
            let groups = cgroups_of(Version::V2, own, mounts);
            groups.iter().map(|group| group.path.display().to_string()).collect()
        };
        let mount =
            |inside: &str, at: &str| format!("30 23 0:26 {inside} {at} rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
        for (row, own, mounts, want) in [
            ("nested", "0::/a/b", mount("/", "/cg"), &["cg/a/b", "cg/a", "cg/"][..]),
            ("root of a namespace", "0::/", mount("/", "/cg"), &["cg/"]),
            ("below the root of a namespace", "0::/b", mount("/", "/cg"), &["cg/b", "cg/"]),
            ("mounted outside of the namespace", "0::/b", mount("/..", "/cg"), &["cg/"]),
            ("far outside", "0::/", mount("/../..", "/cg"), &["cg/"]),
            ("left the namespace", "0::/../c", mount("/", "/cg"), &[]),
            ("left it, the mount is the parent", "0::/../c", mount("/..", "/cg"), &["cg/c", "cg/"]),
            ("left it, the mount is further up", "0::/../c", mount("/../..", "/cg"), &["cg/"]),
            ("left it further than the mount", "0::/../../c", mount("/..", "/cg"), &[]),
            ("another branch", "0::/a", mount("/../d", "/cg"), &[]),
            ("another part first", "0::/a/b", mount("/c", "/x") + &mount("/a", "/cg"), &["cg/b", "cg/"]),
            ("hidden names last", "0::/b", mount("/..", "/x") + &mount("/", "/cg"), &["cg/b", "cg/"]),
            ("the beginning of a name", "0::/ab", mount("/a", "/cg"), &[]),
            ("a backslash", "0::/m-1\\x2d2.scope/x", mount("/m-1\\134x2d2.scope", "/c\\040g"), &["c g/x", "c g/"]),
            ("v1 alone", "4:memory:/a", mount("/", "/cg"), &[]),
        ] {
            assert_eq!(of(own, &mounts), want, "{row}");
        }
        // The limit of a cgroup above that cannot be named counts.
        let (_dir, machine) = machine(&[
            ("proc/meminfo", "MemAvailable: 1048576 kB"),
            ("proc/self/mountinfo", &mount("/..", "/cg")),
            ("proc/self/cgroup", "0::/\n"),
            ("cg/memory.max", "max\n"),
            ("cg/memory.high", "104857600\n"),
            ("cg/memory.current", "52428800\n"),
        ]);
        assert_eq!(machine.left(), Some(50 * MIB));
    }

    #[test]
    fn cgroups_v1_limit_too() {
        let meminfo = ("proc/meminfo", "MemAvailable:  1048576 kB\n");
        let mounts = (
            "proc/self/mountinfo",
            "25 19 0:22 / /cg/cpu rw - cgroup cgroup rw,cpu\n26 19 0:23 /docker /cg/memory rw - cgroup cgroup rw,memory\n\
             27 19 0:24 / /cg/unified rw - cgroup2 cgroup2 rw\n",
        );
        let own = ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/box\n0::/y\n");
        let of = |files: &[(&str, &str)]| {
            let (_dir, machine) = machine(&[&[meminfo, mounts, own], files].concat());
            machine.left()
        };
        assert_eq!(of(&[]), Some(1024 * MIB));
        let none = ("cg/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
        let in_use = ("cg/memory/box/memory.usage_in_bytes", "104857600\n");
        assert_eq!(of(&[none, in_use]), Some(1024 * MIB), "no limit");
        let limit = ("cg/memory/box/memory.limit_in_bytes", "524288000\n");
        assert_eq!(of(&[limit, in_use]), Some(400 * MIB));
        let stat =
            ("cg/memory/box/memory.stat", "active_file 0\ntotal_inactive_file 10485760\ntotal_active_file 41943040\n");
        assert_eq!(of(&[limit, in_use, stat]), Some(450 * MIB), "its files can go");
        assert_eq!(of(&[limit, ("cg/memory/memory.limit_in_bytes", "1048576")]), Some(MIB), "a parent's limit");
    }

    #[test]
    fn cache_is_half_of_what_is_left_beyond_150_mib() {
        for (kib, own, want) in [
            ("10", 0, CACHE_BYTES_MIN),
            ("409600", 0, 125 * MIB),
            ("409600", 100 * MIB, 175 * MIB),
            ("99999999999", 0, CACHE_BYTES_MAX),
        ] {
            let text = format!("MemAvailable: {kib} kB");
            let (_dir, machine) = machine(&[("proc/meminfo", &text)]);
            assert_eq!(machine.cache_bytes(own), want, "{kib} KiB, {own}");
        }
        assert_eq!(machine(&[]).1.cache_bytes(0), CACHE_BYTES_UNKNOWN);
        assert!(MachineMemory::default().cache_bytes(0) >= CACHE_BYTES_MIN);
    }

    #[test]
    fn watch_gives_way_and_comes_back() {
        let pressure = |avg: &str| format!("some avg10={avg} avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
        let (dir, machine) = machine(&[
            ("proc/meminfo", "MemAvailable: 1048576 kB"),
            ("proc/pressure/memory", &pressure("0.00")),
            ("proc/self/status", "Name:\tffwd\nRssAnon:\t  0 kB\n"),
        ]);
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let chosen = machine.cache_bytes(0);
        assert_eq!(chosen, 437 * MIB);
        let mut watch = Watch::new(machine, chosen);
        assert_eq!(watch.look(), None);
        // Its own memory counts as left.
        write("proc/meminfo", "MemAvailable: 624576 kB");
        write("proc/self/status", "RssAnon:\t  424000 kB\n");
        assert_eq!(watch.look(), None);
        // Others take memory.
        write("proc/meminfo", "MemAvailable: 200000 kB");
        let less = (624_000 * 1024 - BESIDE_BYTES) / 2;
        assert_eq!(watch.look(), Some(less));
        assert_eq!(watch.look(), None);
        // Tasks wait for memory: a quarter, then nothing for some looks.
        write("proc/pressure/memory", &pressure("25.5"));
        assert_eq!(watch.look(), Some(less - less / 4));
        assert_eq!(watch.look(), None);
        let steps = (0..100).filter_map(|_| watch.look()).count();
        assert!(steps >= 4, "{steps}");
        assert_eq!(watch.now, less / 4, "there it ends");
        write("proc/meminfo", "MemAvailable: 0 kB");
        write("proc/self/status", "RssAnon:\t  200000 kB\n");
        assert_eq!(watch.look(), Some((200_000 * 1024 - BESIDE_BYTES) / 2), "others take more");
        write("proc/self/status", "RssAnon:\t  100000 kB\n");
        assert_eq!(watch.look(), Some(CACHE_BYTES_MIN));
        // All is well again: it comes back in steps, to what was chosen.
        write("proc/pressure/memory", &pressure("0.10"));
        write("proc/meminfo", "MemAvailable: 4048576 kB");
        let back: Vec<u64> = (0..100).filter_map(|_| watch.look()).collect();
        assert!(back.len() > 10 && back.is_sorted() && back.iter().all(|bytes| *bytes <= chosen), "{back:?}");
        assert!(watch.now > chosen - chosen / 8, "{back:?}");
    }
}
