//! Describes the machine on which figures are measured.
//!
//! Absent on purpose: changing the machine. The governor of the clock rate is reported, not set.

use demo::result::Machine;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directory with the frequency governor of each processor.
const CPUS: &str = "/sys/devices/system/cpu";

/// Directory of block devices by number.
const DEVICES: &str = "/sys/dev/block";

/// This machine, for programs that work in `directory`.
pub(crate) fn here(directory: &Path) -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str, separator: char| {
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(separator));
        line.map(|(_, value)| value.trim().trim_matches('"').to_owned()).unwrap_or_default()
    };
    let memory = field(&text("/proc/meminfo"), "MemTotal", ':');
    let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let os = field(&text("/etc/os-release"), "PRETTY_NAME", '=');
    let kernel = text("/proc/sys/kernel/osrelease").trim().to_owned();
    let cpuinfo = text("/proc/cpuinfo");
    let cpu = |name: &str| of_cpuinfo(&cpuinfo, name).unwrap_or_default().to_owned();
    let flags = of_cpuinfo(&cpuinfo, "flags").or_else(|| of_cpuinfo(&cpuinfo, "Features")).unwrap_or_default();
    Machine {
        cpu: cpu("model name"),
        cpu_family: cpu("cpu family"),
        cpu_model: cpu("model"),
        cpu_stepping: cpu("stepping"),
        cpu_flags: flags.split_whitespace().map(str::to_owned).collect(),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: kib * 1024,
        system: [os, format!("Linux {kernel}")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
        clock_rate: clock_rate(Path::new(CPUS)),
        disk: disk(directory),
    }
}

/// The first value of this name in /proc/cpuinfo.
fn of_cpuinfo<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// The file system of a directory, and its disk if the system reports it.
fn disk(directory: &Path) -> String {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let kind = file_system(&mounts, &directory).unwrap_or_else(|| "a file system that is not told".to_owned());
    let Ok(meta) = fs::metadata(&directory) else { return kind };
    let device = meta.dev();
    let own = PathBuf::from(format!("{DEVICES}/{}:{}", rustix::fs::major(device), rustix::fs::minor(device)));
    let Ok(own) = own.canonicalize() else { return format!("{kind}, on no block device") };
    // The directory of a partition is a subdirectory of its disk's.
    let whole = if own.join("partition").exists() { own.parent().unwrap_or(&own) } else { &own };
    let read = |file: &str| fs::read_to_string(whole.join(file)).map(|text| text.trim().to_owned()).unwrap_or_default();
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let model = Some(read("device/model")).filter(|model| !model.is_empty()).map(|model| format!(" ({model})"));
    let gigabytes = read("size").parse::<u64>().unwrap_or(0) / 2_000_000;
    let turns = match &read("queue/rotational")[..] {
        "1" => ", rotational",
        "0" => ", not rotational",
        _ => "",
    };
    format!("{kind} on disk {name}{}, {gigabytes} GB{turns}", model.unwrap_or_default())
}

/// The type of the file system that contains a directory, from the lines of /proc/self/mountinfo.
fn file_system(mounts: &str, directory: &Path) -> Option<String> {
    let mounted = mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let place = Path::new(place.split(' ').nth(4)?);
        directory.starts_with(place).then(|| (place.as_os_str().len(), kind.split(' ').next().unwrap_or_default()))
    });
    // If two mounts are at one place, the later one is visible.
    mounted.max_by_key(|(length, _)| *length).map(|(_, kind)| kind.to_owned())
}

/// Frequency governor, and whether it may exceed the nominal rate.
fn clock_rate(cpus: &Path) -> String {
    let read = |path: &str| fs::read_to_string(cpus.join(path)).map(|text| text.trim().to_owned()).ok();
    let Some(governor) = read("cpu0/cpufreq/scaling_governor") else {
        return "not told by the system (a virtual machine?)".to_owned();
    };
    let boost = match (read("cpufreq/boost").as_deref(), read("intel_pstate/no_turbo").as_deref()) {
        (Some("1"), _) | (_, Some("0")) => ", boost on",
        (Some("0"), _) | (_, Some("1")) => ", boost off",
        _ => "",
    };
    format!("governor {governor}{boost}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_described() {
        let here = here(Path::new("."));
        assert!(here.cores > 0 && here.memory_bytes > 0 && !here.clock_rate.is_empty() && !here.disk.is_empty());
        assert!(!here.cpu_flags.is_empty(), "{here:?}");
    }

    #[test]
    fn processor_and_file_system_are_told_by_name() {
        let text =
            "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: A B\nflags\t\t: fpu avx2\n\nmodel\t: 7\n";
        for (name, want) in [("model", "143"), ("model name", "A B"), ("cpu family", "6"), ("flags", "fpu avx2")] {
            assert_eq!(of_cpuinfo(text, name), Some(want), "{name}");
        }
        assert_eq!(of_cpuinfo(text, "stepping"), None);
        let mounts =
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /tmp rw - tmpfs none rw\n3 1 0:6 / /tm rw - xfs b rw\n";
        for (directory, want) in [("/tmp/x", "tmpfs"), ("/tm/y", "xfs"), ("/home", "ext4"), ("/tmpx", "ext4")] {
            assert_eq!(file_system(mounts, Path::new(directory)).as_deref(), Some(want), "{directory}");
        }
    }

    #[test]
    fn clock_rate_names_governor_and_boost() {
        let scratch = tempfile::tempdir().unwrap();
        let cpus = scratch.path();
        assert!(clock_rate(cpus).contains("not told"));
        fs::create_dir_all(cpus.join("cpu0/cpufreq")).unwrap();
        fs::create_dir_all(cpus.join("cpufreq")).unwrap();
        fs::write(cpus.join("cpu0/cpufreq/scaling_governor"), "performance\n").unwrap();
        assert_eq!(clock_rate(cpus), "governor performance");
        fs::write(cpus.join("cpufreq/boost"), "0\n").unwrap();
        assert_eq!(clock_rate(cpus), "governor performance, boost off");
    }
}
