//! Profiles a run: stacks sampled by `perf`, folded to one line for each stack.
//!
//! The profiler is attached to the running program, so that memory and time are the program's only; the notes of the
//! result state its overhead. The events are tested before anything runs: cycles if hardware counters are available,
//! otherwise the clock.
//! Absent on purpose: samply, whose files lack function names without its own server; and charts, which `plot` draws.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use rustix::process::{Pid, Signal};

/// Samples a second for each thread; a prime number, to avoid lockstep with periodic work.
const HERTZ: &str = "197";

/// Bytes of stack stored with a sample. Frames are unwound afterwards, because optimised code has no frame pointers.
const STACK: &str = "dwarf,16384";

/// Events to try, in this order: first with kernel stacks, which include page zeroing, if permitted.
const EVENTS: [&str; 4] = ["cycles", "cycles:u", "cpu-clock", "cpu-clock:u"];

/// Load for a processor while an event is tested.
const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

/// Time for a profiler to write its last samples.
const GRACE: Duration = Duration::from_secs(60);

/// A `perf` that works on this machine.
#[derive(Clone, Debug)]
pub(super) struct Profiler {
    event: &'static str,
    /// The event that was sampled on request of that event: without hardware counters perf falls back to the clock.
    sampled: String,
}

impl Profiler {
    /// Tests which events this system allows, with files in `directory`.
    ///
    /// # Errors
    ///
    /// Every attempt with its result, in words.
    pub(super) fn find(directory: &Path) -> Result<Profiler, String> {
        let data = directory.join(format!("ffwd-perf-tried-{}.data", std::process::id()));
        let mut tried = Vec::new();
        for event in EVENTS {
            let works = works(event, &data);
            let _ = std::fs::remove_file(&data);
            match works {
                Ok(sampled) => return Ok(Profiler { event, sampled }),
                Err(why) => tried.push(format!("perf record -e {event}: {why}")),
            }
        }
        Err(format!(
            "no profiler works here: {}; perf comes with linux-perf, and kernel.perf_event_paranoid of 2 or less allows it",
            tried.join("; ")
        ))
    }

    /// The note for runs that are profiled.
    pub(super) fn said(&self) -> String {
        format!("Profiled by perf, {} at {HERTZ} Hz: times of these runs are for no record.", self.sampled)
    }

    /// Samples the threads of a process into `data`, including threads that it starts later.
    pub(super) fn attach(&self, pid: u32, data: &Path) -> io::Result<Attached> {
        let pid = pid.to_string();
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-e", self.event, "-F", HERTZ, "--call-graph", STACK, "-p", &pid, "-o"]).arg(data);
        perf.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Attached)
    }
}

/// Whether an event yields samples; returns the event that was sampled.
fn works(event: &str, data: &Path) -> Result<String, String> {
    let mut record = Command::new("perf");
    record.args(["record", "-q", "-e", event, "-F", "997", "--call-graph", STACK, "-o"]).arg(data);
    let output = record.args(["--", "sh", "-c", BUSY]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("it does not start: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing said");
        return Err(format!("{}: {}", output.status, line.trim()));
    }
    match script(data, |lines| io::read_to_string(lines).map(|text| text.lines().count())) {
        Ok(0) => Err("no samples of a busy program".to_owned()),
        Ok(_) => Ok(sampled(data).unwrap_or_else(|| event.to_owned())),
        Err(error) => Err(error.to_string()),
    }
}

/// The event of samples, as perf names it.
fn sampled(data: &Path) -> Option<String> {
    let output = Command::new("perf").args(["evlist", "-i"]).arg(data).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    Some(name.to_owned())
}

/// A running profiler; ends when dropped.
#[derive(Debug)]
pub(super) struct Attached(Child);

impl Drop for Attached {
    fn drop(&mut self) {
        // It normally ends with the program; otherwise it is asked to.
        let start = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            let signal = if start.elapsed() > GRACE { Signal::KILL } else { Signal::INT };
            if start.elapsed() > Duration::from_secs(2) {
                let _ = rustix::process::kill_process(Pid::from_child(&self.0), signal); // Ended meanwhile: as wanted.
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Passes the output of `perf script` for `data` to `read`.
fn script<T>(data: &Path, read: impl FnOnce(BufReader<std::process::ChildStdout>) -> io::Result<T>) -> io::Result<T> {
    let mut perf = Command::new("perf");
    perf.args(["script", "--no-inline", "-i"]).arg(data);
    let mut child = perf.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let result = read(lines);
    let status = child.wait()?;
    if status.success() { result } else { Err(io::Error::other(format!("perf script: {status}"))) }
}

/// Folds the samples in `data`: `thread;main;f;g 17` for 17 samples in g; removes `data`.
///
/// # Errors
///
/// There are no samples, or an I/O error.
pub(super) fn fold(data: &Path, to: &Path) -> io::Result<()> {
    let mut options = Options::default();
    options.nthreads = 1;
    let mut out = BufWriter::new(File::create(to)?);
    script(data, |lines| Folder::from(options).collapse(lines, &mut out))?;
    std::fs::remove_file(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use demo::result::STACKS_FILE;

    /// Where perf works, a busy process leaves stacks; where it does not, what was tried is said.
    #[test]
    fn profiler_samples_or_says_what_was_tried() {
        let scratch = tempfile::tempdir().unwrap();
        let profiler = match Profiler::find(scratch.path()) {
            Ok(profiler) => profiler,
            Err(why) => {
                assert!(EVENTS.iter().all(|event| why.contains(event)), "{why}");
                return println!("skipped: {why}");
            }
        };
        let busy = format!("{BUSY}; {BUSY}; {BUSY}");
        let mut child = Command::new("sh").args(["-c", &busy]).spawn().unwrap();
        let (data, stacks) = (scratch.path().join("perf.data"), scratch.path().join(STACKS_FILE));
        drop(profiler.attach(child.id(), &data).unwrap());
        child.wait().unwrap();
        // Of a program that ended before the profiler was there nothing is left.
        if fold(&data, &stacks).is_ok() {
            let text = std::fs::read_to_string(&stacks).unwrap();
            assert!(text.lines().all(|line| line.starts_with("sh;") || line.starts_with("sh ")), "{text}");
            assert!(!data.exists());
        }
        assert!(fold(&scratch.path().join("absent"), &stacks).is_err());
    }
}
