//! The machine that figures are measured on, as the system describes it.
//!
//! Absent on purpose: changing it. Whether the clock rate is held is said, not set.

use demo::result::Machine;
use std::fs;
use std::path::Path;

/// Where the system tells how each processor's clock rate is chosen.
const CPUS: &str = "/sys/devices/system/cpu";

/// This machine.
pub(crate) fn here() -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str, separator: char| {
        let line = text.lines().find(|line| line.starts_with(name)).and_then(|line| line.split_once(separator));
        line.map(|(_, value)| value.trim().trim_matches('"').to_owned()).unwrap_or_default()
    };
    let memory = field(&text("/proc/meminfo"), "MemTotal", ':');
    let kib: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let os = field(&text("/etc/os-release"), "PRETTY_NAME", '=');
    let kernel = text("/proc/sys/kernel/osrelease").trim().to_owned();
    Machine {
        cpu: field(&text("/proc/cpuinfo"), "model name", ':'),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: kib * 1024,
        system: [os, format!("Linux {kernel}")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", "),
        clock_rate: clock_rate(Path::new(CPUS)),
    }
}

/// Governor of the clock rate, and whether it may go beyond the nominal one.
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
        let here = here();
        assert!(here.cores > 0 && here.memory_bytes > 0 && !here.clock_rate.is_empty());
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
