//! Resource limits for a program: memory, processor time, disk rate and operations by cgroups (version 2, or 1 as a
//! fallback), processors by affinity. A limit that the system does not allow is reported, and the run is made without
//! it.
//!
//! Absent on purpose: privileges. If creating a cgroup is not permitted, the results state this.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;

use super::plan::Limits;

const ROOT: &str = "/sys/fs/cgroup";
const MIB: u64 = 1 << 20;
/// The default period of both cgroup versions.
const CPU_PERIOD_US: u64 = 100_000;

/// The limits in force for one run. Its cgroups are removed when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// cgroup directories that the program has to enter.
    groups: Vec<PathBuf>,
    /// Processors it may use.
    pub(super) cpus: Option<CpuSet>,
    /// In words: the limits in force, and the missing ones with the reason.
    pub(super) said: Vec<String>,
}

impl Applied {
    /// Sets up `limits` for a program that works in `directory`.
    pub(super) fn new(limits: &Limits, directory: &Path) -> Self {
        let mut applied = Self::default();
        if let Some(mib) = limits.memory_mib {
            let bytes = mib * MIB;
            let files = [("memory", "memory.max"), ("memory", "memory.limit_in_bytes")];
            applied.put(&format!("memory {mib} MiB"), &files, &[bytes.to_string(), bytes.to_string()]);
            applied.forbid_swap(bytes);
        }
        if let Some(percent) = limits.cpu_percent {
            // Processor time in each period, in microseconds.
            let quota = percent * CPU_PERIOD_US / 100;
            let period = CPU_PERIOD_US;
            let files = [("cpu", "cpu.max"), ("cpu", "cpu.cfs_quota_us")];
            applied.put(
                &format!("processor time {percent} %"),
                &files,
                &[format!("{quota} {period}"), quota.to_string()],
            );
        }
        for (rate, unit, what, v2, v1) in [
            (limits.read_mib_per_s, MIB, "reading at MiB/s", "rbps", "blkio.throttle.read_bps_device"),
            (limits.write_mib_per_s, MIB, "writing at MiB/s", "wbps", "blkio.throttle.write_bps_device"),
            (limits.reads_per_s, 1, "reads a second", "riops", "blkio.throttle.read_iops_device"),
            (limits.writes_per_s, 1, "writes a second", "wiops", "blkio.throttle.write_iops_device"),
        ] {
            let Some(rate) = rate else { continue };
            let what = format!("{what}: {rate}");
            match device(directory) {
                Some(device) => {
                    let values = [format!("{device} {v2}={}", rate * unit), format!("{device} {}", rate * unit)];
                    applied.put(&what, &[("io", "io.max"), ("blkio", v1)], &values);
                }
                None => {
                    applied.said.push(format!("{what}: not limited, {} is on no block device", directory.display()))
                }
            }
        }
        applied.set_cpus(limits);
        applied
    }

    /// Forbids swap, so that the memory limit is effective. A system without swap lacks the file.
    fn forbid_swap(&self, bytes: u64) {
        for group in &self.groups {
            let _ = fs::write(group.join("memory.swap.max"), "0");
            let _ = fs::write(group.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        }
    }

    fn set_cpus(&mut self, limits: &Limits) {
        let Some(wanted) = &limits.cpus else { return };
        let usable = rustix::thread::sched_getaffinity(None).unwrap_or_default();
        let mut set = CpuSet::new();
        wanted.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU && usable.is_set(cpu)).for_each(|&cpu| set.set(cpu));
        let list = wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if set.count() as usize == wanted.len() {
            self.said.push(format!("processors {list}"));
            self.cpus = Some(set);
        } else {
            self.said.push(format!(
                "processors {list}: not limited, this machine lets us use {} processors and not all of these",
                usable.count()
            ));
        }
    }

    /// Writes a limit into a cgroup of version 2, otherwise of version 1: `files` and `values` in that order.
    fn put(&mut self, what: &str, files: &[(&str, &str); 2], values: &[String; 2]) {
        let mut why = "the system has no cgroup for it".to_owned();
        for (version, ((controller, file), value)) in files.iter().zip(values).enumerate() {
            for parent in parents(version == 0, controller) {
                match self.group(&parent, controller, file).and_then(|group| write(&group.join(file), value)) {
                    Ok(()) => {
                        self.said.push(format!("{what}, by a cgroup"));
                        return;
                    }
                    Err(error) => why = error,
                }
            }
        }
        self.said.push(format!("{what}: not limited, {why}"));
    }

    /// Our group below `parent`, with `file` in it.
    fn group(&mut self, parent: &Path, controller: &str, file: &str) -> Result<PathBuf, String> {
        let group = parent.join(format!("ffwd-lab-{}", std::process::id()));
        let is_new = !self.groups.contains(&group);
        if is_new {
            fs::create_dir_all(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        }
        if !group.join(file).exists() {
            let _ = write(&parent.join("cgroup.subtree_control"), &format!("+{controller}")); // Checked below.
        }
        if !group.join(file).exists() {
            if is_new {
                let _ = fs::remove_dir(&group); // An empty group does no harm.
            }
            return Err(format!("{} does not give the controller {controller}", parent.display()));
        }
        if is_new {
            self.groups.push(group.clone());
        }
        Ok(group)
    }

    /// The command that enters the cgroups and then executes `command`.
    pub(super) fn command(&self, command: &[String]) -> Vec<String> {
        const ENTER: &str = "n=$1; shift; while [ $n -gt 0 ]; do echo $$ > \"$1/cgroup.procs\" || exit 126; shift; n=$((n-1)); done; exec \"$@\"";
        if self.groups.is_empty() {
            return command.to_vec();
        }
        let mut wrapped = vec![
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            ENTER.to_owned(),
            "sh".to_owned(),
            self.groups.len().to_string(),
        ];
        wrapped.extend(self.groups.iter().map(|group| group.to_string_lossy().into_owned()));
        wrapped.extend_from_slice(command);
        wrapped
    }

    /// Whether the system killed a process of the cgroups for its memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.groups.iter().any(|group| {
            let text = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
            let killed = |text: String| {
                text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
            };
            killed(text("memory.events")) || killed(text("memory.oom_control"))
        })
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        for group in &self.groups {
            let _ = fs::remove_dir(group); // It is busy only while it still contains a process.
        }
    }
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| format!("{}: {error}", path.display()))
}

/// Candidate parents for our cgroup: our own, its parent, the root.
fn parents(version_2: bool, controller: &str) -> Vec<PathBuf> {
    let roots = if version_2 { vec![PathBuf::from(ROOT)] } else { vec![Path::new(ROOT).join(controller)] };
    let marker = if version_2 { "cgroup.controllers" } else { "cgroup.procs" };
    let own = own_group(version_2, controller);
    let mut found = Vec::new();
    for root in roots.into_iter().filter(|root| root.join(marker).exists()) {
        let own = own.as_deref().map_or(root.clone(), |own| root.join(own.trim_start_matches('/')));
        let parent = own.parent().filter(|parent| parent.starts_with(&root)).map(Path::to_owned);
        for group in [Some(own), parent, Some(root)].into_iter().flatten() {
            if !found.contains(&group) {
                found.push(group);
            }
        }
    }
    found
}

/// The path of our cgroup: `0::/path` for version 2, `4:memory:/path` for version 1.
fn own_group(version_2: bool, controller: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let number = parts.next()?;
        let names = parts.next()?;
        let path = parts.next()?;
        let is_it =
            if version_2 { number == "0" && names.is_empty() } else { names.split(',').any(|name| name == controller) };
        is_it.then(|| path.to_owned())
    })
}

/// `MAJOR:MINOR` of the disk with `directory`, not of its partition; `None` without a disk.
fn device(directory: &Path) -> Option<String> {
    let number = fs::metadata(directory).ok()?.dev();
    let major = rustix::fs::major(number);
    let minor = rustix::fs::minor(number);
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !own.exists() {
        return None;
    }
    if own.join("partition").exists() {
        let whole = fs::canonicalize(&own).ok()?.parent()?.join("dev");
        return Some(fs::read_to_string(whole).ok()?.trim().to_owned());
    }
    Some(format!("{major}:{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the system allows, each limit is either in force or named with a reason, and nothing is left behind.
    #[test]
    fn limit_is_in_force_or_reported() {
        let limits = Limits {
            memory_mib: Some(512),
            cpus: Some(vec![0]),
            read_mib_per_s: Some(50),
            write_mib_per_s: Some(50),
            reads_per_s: Some(1500),
            writes_per_s: Some(1500),
            cpu_percent: Some(50),
            ..Limits::default()
        };
        let applied = Applied::new(&limits, Path::new("."));
        assert_eq!(applied.said.len(), 7, "{:?}", applied.said);
        for said in &applied.said {
            assert!(
                said.ends_with("by a cgroup") || said.contains("not limited, ") || said.starts_with("processors "),
                "{said}"
            );
        }
        let command = applied.command(&["true".to_owned()]);
        let status = std::process::Command::new(&command[0]).args(&command[1..]).status().unwrap();
        assert!(status.success(), "{command:?}: {status}");
        assert!(!applied.ran_out_of_memory());
        let groups = applied.groups.clone();
        drop(applied);
        assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
        println!("limits on this system: {} cgroups", groups.len());
    }

    #[test]
    fn no_limits_give_no_report() {
        let applied = Applied::new(&Limits::default(), Path::new("."));
        assert!(applied.said.is_empty() && applied.groups.is_empty() && applied.cpus.is_none());
        assert_eq!(applied.command(&["x".to_owned()]), ["x"]);
    }
}
