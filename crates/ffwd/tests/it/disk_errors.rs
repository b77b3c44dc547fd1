//! The real program on a disk that answers with errors: a library loaded before it (`disk_errors.c`, compiled here by cc)
//! fails any of its calls on the data directory with an I/O error, as a full disk, or as a read-only one.
//!
//! The run ends with a fault that names a path, or does without; the directory is sound, and the same command ends with
//! the right UTXO set. A rebuild and an import meet one error each; with `SLOW=1` these, a sync, the same with
//! all indexes, and two reindexes meet 200 random ones. A row names its seed, `SEED=n` plays it again.

use crate::run::{Ran, Running, command, run, slow};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::Rng;

const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const EROFS: u32 = 30;
/// Reading a map is SIGBUS.
const BUS: u32 = 0;
/// A run that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(180);

const INDEXES: &str = "--txindex --blockfilterindex --coinstatsindex --txospenderindex";
const COMMON: &str = "--datadir @ --chain regtest --assumevalid 0 --dbcache 4 --json";

/// A command on a data directory, from a state to another.
struct Job {
    name: &'static str,
    line: String,
    /// The directory that it starts from, copied for each run; none for an empty one.
    from: Option<PathBuf>,
}

/// The library, a chain, and who serves it.
struct Bench {
    dir: TempDir,
    want: serde_json::Value,
    height: u64,
    /// What the indexes must come to.
    indexed: [serde_json::Value; 2],
    jobs: Vec<Job>,
    _server: Option<Running>,
}

/// What fails.
#[derive(Clone, Copy, Debug)]
struct Error {
    number: u32,
    at: u64,
    times: u64,
}

fn set(directory: &Path) -> serde_json::Value {
    run(directory, "coins info --datadir @ --chain regtest --json").good()["hash_serialized_3"].clone()
}

/// The last record of the indexes whose records are made of all before.
fn indexed(directory: &Path, height: u64) -> [serde_json::Value; 2] {
    let ask = |line: &str| run(directory, &format!("{line} --datadir @ --chain regtest --json")).good();
    let filter = ask(&format!("filter {height}"))["header"].clone();
    [filter, ask(&format!("coins info --height {height}"))["muhash"].clone()]
}

/// Copies a data directory.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg("--sparse=always").arg(from.join("regtest")).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Serves a copy of a data directory, for that is locked; and the port.
fn serve(served: &Path, of: &Path) -> (Running, u16) {
    fs::create_dir_all(served).unwrap();
    copy(of, served);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let line = format!("sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:{port}");
    let (server, begin) = (crate::run::start(served, &line), Instant::now());
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < LIMIT, "it listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, port)
}

impl Bench {
    /// None where the library cannot be made or loaded: on another system than Linux on x86-64.
    fn new() -> Option<Bench> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            println!("skipped: the library knows Linux on x86-64 alone");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/disk_errors.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(dir.path().join("shim.so"))
            .arg(source)
            .output();
        let compiled = compiled.expect("a C compiler is a requirement of ffwd");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let [raw, whole] = ["raw", "whole"].map(|name| dir.path().join(name));
        let made = run(&raw, "lab chain --out @ --blocks 2 --seed 5 --utxos 20000 --json").good();
        fs::create_dir_all(&whole).unwrap();
        copy(&raw, &whole);
        run(&whole, &format!("reindex {COMMON}")).good();
        let (want, height) = (set(&whole), made["height"].as_u64().unwrap());
        run(&whole, "index --only blockfilterindex --only coinstatsindex --datadir @ --chain regtest --json").good();
        let indexed = indexed(&whole, height);
        fs::remove_dir_all(whole.join("regtest/indexes")).unwrap();
        let files = fs::read_dir(raw.join("regtest/blocks")).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<String> = files
            .filter(|path| path.to_string_lossy().contains("blk"))
            .map(|path| path.display().to_string())
            .collect();
        let job = |name, line: String, from: Option<&PathBuf>| Job {
            name,
            line: format!("{line} {COMMON}"),
            from: from.cloned(),
        };
        let mut jobs = vec![
            job("rebuild", "reindex --chainstate-only".into(), Some(&whole)),
            job("import", format!("import {}", files.join(" ")), None),
        ];
        let mut server = None;
        if slow() {
            let (running, port) = serve(&dir.path().join("served"), &whole);
            server = Some(running);
            let sync = format!("sync --connect 127.0.0.1:{port} --exit-at-tip");
            jobs.push(job("sync with indexes", format!("{sync} {INDEXES}"), None));
            jobs.push(job("sync", sync, None));
            jobs.push(job("reindex", "reindex".into(), Some(&raw)));
            jobs.push(job("reindex again", "reindex".into(), Some(&whole)));
        }
        println!("a chain of {height} blocks");
        Some(Bench { dir, want, height, indexed, jobs, _server: server })
    }

    fn start(&self, job: &Job) -> TempDir {
        let directory = tempfile::tempdir_in(self.dir.path()).unwrap();
        if let Some(from) = &job.from {
            copy(from, directory.path());
        }
        directory
    }

    /// Runs it with the library; gives what it left, and what the library says: calls, and which one failed.
    fn run(&self, line: &str, directory: &Path, error: Error) -> (Ran, u64, Option<String>) {
        let log = self.dir.path().join("shim.log");
        let mut command = command(directory, line);
        command.env("LD_PRELOAD", self.dir.path().join("shim.so")).env("SHIM_PATH", directory).env("SHIM_LOG", &log);
        for (name, value) in [("SHIM_AT", error.at), ("SHIM_TIMES", error.times), ("SHIM_ERROR", error.number.into())] {
            command.env(name, value.to_string());
        }
        let ran = ended(command, &format!("{line}, {error:?}"));
        let said = fs::read_to_string(&log).unwrap();
        assert!(!said.contains("unfiltered"), "system calls are not filtered: {said}");
        let calls = said.lines().find_map(|line| line.strip_prefix("calls ")?.parse().ok()).unwrap_or(0);
        let failed = said.lines().find(|line| !line.starts_with("calls ")).map(str::to_owned);
        (ran, calls, failed)
    }

    /// What must hold of a run with this error, and of what it leaves.
    fn check(&self, job: &Job, error: Error, row: &str) -> bool {
        let directory = self.start(job);
        let (ran, _, failed) = self.run(&job.line, directory.path(), error);
        let row = format!("{row}: {failed:?}: {ran:?}");
        let is_fault = ran.code == Some(1);
        assert!(is_fault || ran.code == Some(0), "{row}");
        assert!(!ran.err.contains("panicked"), "{row}");
        if is_fault {
            assert!(failed.is_some(), "nothing failed: {row}");
            let fault = ran.err.lines().find(|line| line.starts_with("Error: ")).unwrap_or_else(|| panic!("{row}"));
            assert!(fault.contains(&*directory.path().to_string_lossy()), "it names no path: {row}");
        } else {
            assert_eq!(set(directory.path()), self.want, "{row}");
        }
        let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
        assert_eq!(info["failed"], serde_json::json!([]), "{row}: {info}");
        let again = run(directory.path(), &job.line);
        assert_eq!(again.code, Some(0), "{row}; then {again:?}");
        assert_eq!(set(directory.path()), self.want, "{row}");
        if job.line.contains(INDEXES) {
            assert_eq!(indexed(directory.path(), self.height), self.indexed, "{row}");
        }
        if slow() {
            run(directory.path(), "verify --level 4 --blocks 0 --datadir @ --chain regtest --json").good();
        }
        is_fault
    }
}

fn ended(mut command: Command, row: &str) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    // What it says fits the pipes.
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{row}: it hangs: {:?}", child.wait_with_output());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn disk_error_at_any_call_is_a_fault_and_loses_nothing() {
    let Some(bench) = Bench::new() else { return };
    for (job, number) in bench.jobs.iter().zip(0u64..) {
        let none = Error { number: EIO, at: 0, times: 0 };
        let (whole, calls, failed) = bench.run(&job.line, bench.start(job).path(), none);
        assert!(whole.code == Some(0) && failed.is_none() && calls > 50, "{}: {calls} calls, {whole:?}", job.name);
        let (begin, mut faults, mut runs) = (Instant::now(), 0, 0);
        for seed in testkit::seeds(if slow() { 200 } else { 1 }) {
            let mut rng = Rng::new(seed * 16 + number);
            let at = 1 + rng.below(calls as usize) as u64;
            let forever = u64::from(u32::MAX);
            let errors = [(EIO, 1), (EIO, forever), (EROFS, forever), (ENOSPC, 1), (ENOSPC, 20)];
            let (number, times) = errors[rng.below(errors.len())];
            let error = Error { number, at, times };
            faults +=
                u32::from(bench.check(job, error, &format!("{}, {error:?} of {calls} calls, seed {seed}", job.name)));
            runs += 1;
        }
        println!("{}: {calls} calls, {faults} of {runs} runs ended by a fault, {:.1?}", job.name, begin.elapsed());
    }
    check_maps(&bench);
}

/// A database's file that cannot be read any more once it is mapped.
fn check_maps(bench: &Bench) {
    let job = &bench.jobs[0];
    let directory = bench.start(job);
    for line in ["coins info", "verify --level 4 --blocks 0", "reindex --chainstate-only"] {
        let line = format!("{line} --datadir @ --chain regtest --json");
        let (ran, _, failed) =
            bench.run(&line, directory.path(), Error { number: BUS, at: 1, times: u64::from(u32::MAX) });
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        let want = "wanted to read it, found an I/O error of the drive (SIGBUS). Committed data is not lost";
        let fault = ran.err.lines().find(|line| line.starts_with("Error: ")).unwrap();
        let path = failed.unwrap_or_default();
        let path = path.strip_prefix("mmap ").unwrap_or_else(|| panic!("{line}: {path}: {ran:?}"));
        assert!(fault.contains(&format!("{path} at byte ")) && fault.contains(want), "{line}: {fault}");
        assert_eq!(set(directory.path()), bench.want, "{line}");
    }
}
