//! Runs one program from start to end, and samples it.
//!
//! A thread waits for the end, so its time is exact; the process is reaped later, after its last counters were read. A
//! program that exceeds its time is asked to stop (SIGTERM), then killed.
//! Absent on purpose: the choice of the program; see `program.rs`.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::limits::Applied;
use super::profile::Profiler;
use super::sample::{self, LogTail, Sample, Usage};

/// Time for a program to stop after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(20);

/// The first samples are denser, so that a short run has some.
const FIRST_SAMPLE: Duration = Duration::from_millis(5);

/// The program to run.
pub(super) struct Job<'a> {
    pub(super) command: &'a [String],
    /// The directory for `stdout.txt` and `stderr.txt`.
    pub(super) directory: &'a Path,
    /// The log that the program writes.
    pub(super) log: &'a Path,
    pub(super) limits: &'a Applied,
    /// The profiler of its stacks, and the file for the samples.
    pub(super) profile: Option<(&'a Profiler, PathBuf)>,
    pub(super) timeout: Duration,
    pub(super) sample: Duration,
    /// Set from outside to end everything.
    pub(super) stop: &'a AtomicBool,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) started_unix_us: i64,
    pub(super) seconds: f64,
    pub(super) status: ExitStatus,
    pub(super) timed_out: bool,
    /// It was ended because `stop` was set.
    pub(super) stopped: bool,
    pub(super) usage: Usage,
    pub(super) peak_rss_anon_bytes: u64,
    pub(super) samples: Vec<Sample>,
    /// Seconds that sampling took, over all seconds.
    pub(super) sampling_share: f64,
}

impl Ended {
    /// How it ended, in words: `exit code 1`, `signal 9`.
    pub(super) fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "an end that the system does not name".to_owned(),
        }
    }
}

/// Runs `job`, and passes seconds and height of each sample to `watch`.
///
/// # Errors
///
/// The program cannot be started. A failure of the program itself does not cause an error.
pub(super) fn run(job: &Job<'_>, watch: &mut dyn FnMut(f64, Option<u32>)) -> io::Result<Ended> {
    let command = job.limits.command(job.command);
    let stdout = File::create(job.directory.join("stdout.txt"))?;
    let stderr = File::create(job.directory.join("stderr.txt"))?;
    let started_unix_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    let start = Instant::now();
    let mut child = spawn(&command, stdout, stderr, job.limits)?;
    let pid = child.id();
    let over = when_over(&child).inspect_err(|_| {
        let _ = child.kill().and_then(|()| child.wait()); // Its end could not be detected.
    })?;
    // If the profiler does not start, the run continues, and the record lacks its file.
    let profiled = job.profile.as_ref().and_then(|(profiler, data)| profiler.attach(pid, data).ok());
    let mut watched = Watched {
        tail: LogTail::new(job.log.to_owned()),
        samples: Vec::new(),
        peak: Usage::default(),
        cost: Duration::ZERO,
    };
    let mut timed_out = false;
    let mut stopped = false;
    let mut asked: Option<Instant> = None;
    let mut step = FIRST_SAMPLE.min(job.sample);
    let mut next = start + step;
    let end = loop {
        match over.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Disconnected) => break Instant::now(),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let height = watched.take(pid, start);
        watch(start.elapsed().as_secs_f64(), height);
        step = (step * 2).min(job.sample);
        next = (next + step).max(Instant::now());
        timed_out |= asked.is_none() && start.elapsed() > job.timeout;
        stopped |= asked.is_none() && job.stop.load(Ordering::Relaxed);
        match asked {
            None if timed_out || stopped => {
                signal(&child, Signal::TERM);
                asked = Some(Instant::now());
            }
            Some(since) if since.elapsed() > GRACE => signal(&child, Signal::KILL),
            None | Some(_) => {}
        }
    };
    let seconds = (end - start).as_secs_f64();
    let last = sample::usage(pid); // Not reaped yet: CPU time and bytes are still available.
    let status = child.wait()?;
    drop(profiled);
    stopped |= job.stop.load(Ordering::Relaxed) && !status.success();
    let height = watched.tail.height();
    watched.samples.push(Sample { seconds, usage: Usage { rss_anon_bytes: 0, ..last }, height });
    Ok(Ended {
        started_unix_us,
        seconds,
        status,
        timed_out,
        stopped,
        usage: Usage { peak_rss_bytes: watched.peak.peak_rss_bytes, ..last },
        peak_rss_anon_bytes: watched.peak.rss_anon_bytes,
        sampling_share: watched.cost.as_secs_f64() / seconds.max(1e-9),
        samples: watched.samples,
    })
}

/// The samples so far.
struct Watched {
    tail: LogTail,
    samples: Vec<Sample>,
    peak: Usage,
    cost: Duration,
}

impl Watched {
    fn take(&mut self, pid: u32, start: Instant) -> Option<u32> {
        let before = Instant::now();
        let usage = sample::usage(pid);
        let height = self.tail.height();
        self.peak.rss_anon_bytes = self.peak.rss_anon_bytes.max(usage.rss_anon_bytes);
        self.peak.peak_rss_bytes = self.peak.peak_rss_bytes.max(usage.peak_rss_bytes);
        // A process that has just ended reports no memory; its end is detected next.
        if usage.peak_rss_bytes > 0 {
            self.samples.push(Sample { seconds: (before - start).as_secs_f64(), usage, height });
        }
        self.cost += before.elapsed();
        height
    }
}

/// Starts the program. It inherits the processor affinity of the calling thread.
fn spawn(command: &[String], stdout: File, stderr: File, limits: &Applied) -> io::Result<Child> {
    let mut started = Command::new(&command[0]);
    started.args(&command[1..]).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let Some(cpus) = limits.cpus else { return started.spawn() };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            rustix::thread::sched_setaffinity(None, &cpus)?;
            started.spawn()
        });
        thread?.join().expect("nothing in it panics")
    })
}

/// Sends the time at which the child ends, without reaping it.
///
/// # Errors
///
/// A thread cannot be started.
fn when_over(child: &Child) -> io::Result<mpsc::Receiver<Instant>> {
    let (tell, over) = mpsc::channel();
    let pid = Pid::from_child(child);
    std::thread::Builder::new().spawn(move || {
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        let _ = tell.send(Instant::now()); // The receiver is dropped if the wait was abandoned.
    })?;
    Ok(over)
}

fn signal(child: &Child, signal: Signal) {
    let _ = rustix::process::kill_process(Pid::from_child(child), signal); // It ended meanwhile, as intended.
}

/// A serving program; stopped when dropped.
pub(super) struct Server(Child);

impl Server {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(super) fn start(command: &[String]) -> io::Result<Self> {
        let mut server = Command::new(&command[0]);
        server.args(&command[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        server.spawn().map(Self)
    }

    /// Whether it is running.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(&self.0, Signal::TERM);
        let asked = Instant::now();
        while self.is_running() {
            if asked.elapsed() > GRACE {
                signal(&self.0, Signal::KILL);
                let _ = self.0.wait(); // A killed process ends.
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(script: &str, timeout_s: f64, stop: bool) -> (Ended, usize) {
        let scratch = tempfile::tempdir().unwrap();
        let command = ["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let job = Job {
            command: &command,
            directory: scratch.path(),
            log: &scratch.path().join("debug.log"),
            limits: &Applied::default(),
            profile: None,
            timeout: Duration::from_secs_f64(timeout_s),
            sample: Duration::from_millis(20),
            stop: &AtomicBool::new(stop),
        };
        let mut watched = 0;
        let ended = run(&job, &mut |_, _| watched += 1).unwrap();
        (ended, watched)
    }

    #[test]
    fn process_end_distinguishes_exit_signal_timeout() {
        let (ended, watched) = go("sleep 0.3", 60.0, false);
        assert!(ended.status.success() && !ended.timed_out && !ended.stopped, "{ended:?}");
        assert!((0.3..5.0).contains(&ended.seconds), "{} s", ended.seconds);
        assert!(watched >= 5 && ended.samples.len() >= 5, "{watched} samples");
        assert!(ended.peak_rss_anon_bytes > 0 && ended.usage.peak_rss_bytes > 0);
        let (ended, _) = go("exit 3", 60.0, false);
        assert_eq!((ended.how().as_str(), ended.timed_out), ("exit code 3", false));
        let (ended, _) = go("kill -9 $$", 60.0, false);
        assert_eq!(ended.how(), "signal 9");
        let (ended, _) = go("exec sleep 30", 0.1, false);
        assert!(ended.timed_out && !ended.stopped && ended.seconds < 20.0, "{ended:?}");
        let (ended, _) = go("exec sleep 30", 60.0, true);
        assert!(ended.stopped && !ended.timed_out && ended.seconds < 20.0, "{ended:?}");
    }

    #[test]
    fn process_counters_include_the_end() {
        let (ended, _) = go("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done", 60.0, false);
        let cpu_seconds = ended.usage.user_seconds + ended.usage.system_seconds;
        assert!(cpu_seconds > 0.0, "{:?}", ended.usage);
        assert!(cpu_seconds < ended.seconds + 0.05, "{:?} in {} s", ended.usage, ended.seconds);
    }
}
