//! Runs a real bitcoind: the program that `BITCOIND_EXE` names, with bitcoin-cli in the same directory.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Options with which bitcoind checks all of a data directory at its start.
pub const CHECKS: &[&str] = &["-checkblocks=0", "-checklevel=4", "-checkblockindex=1"];
/// Longest wait for bitcoind.
const PATIENCE: Duration = Duration::from_secs(120);

/// A bitcoind on regtest; killed when dropped.
pub struct Bitcoind {
    child: Child,
    cli: PathBuf,
    dir: PathBuf,
    /// The port where it answers.
    pub rpc_port: u16,
    /// The port where it listens for peers.
    pub port: u16,
}

/// Another program may take a free port before bitcoind does.
const PORT_TRIES: usize = 3;

/// Whether `BITCOIND_EXE` names a bitcoind; if not, prints that the test is skipped.
pub fn is_there() -> bool {
    let is_there = std::env::var_os("BITCOIND_EXE").is_some();
    if !is_there {
        println!("skipped: BITCOIND_EXE names no bitcoind");
    }
    is_there
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

impl Drop for Bitcoind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Bitcoind {
    /// Starts it on a data directory and waits until it answers.
    pub fn start(dir: &Path, options: &[&str]) -> Bitcoind {
        for _ in 0..PORT_TRIES {
            let mut core = Bitcoind::spawn(dir, options);
            if core.is_ready() {
                return core;
            }
            let words = core.last_words();
            assert!(words.contains("nable to bind"), "bitcoind ends: {words}");
        }
        panic!("bitcoind finds no free port");
    }

    /// Starts it.
    pub fn spawn(dir: &Path, options: &[&str]) -> Bitcoind {
        let exe = PathBuf::from(std::env::var_os("BITCOIND_EXE").expect("see is_there"));
        let rpc_port = free_port();
        let port = free_port();
        let child = Command::new(&exe)
            .arg(format!("-datadir={}", dir.display()))
            .args([format!("-rpcport={rpc_port}"), format!("-bind=127.0.0.1:{port}")])
            .args(["-regtest", "-connect=0", "-listen=1", "-listenonion=0", "-discover=0", "-printtoconsole=0"])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bitcoind starts");
        Bitcoind { child, cli: exe.with_file_name("bitcoin-cli"), dir: dir.to_path_buf(), rpc_port, port }
    }

    /// Waits until it answers. Returns `false` if it ends before that.
    pub fn is_ready(&mut self) -> bool {
        let begin = Instant::now();
        while self.ask(&["getblockcount"]).is_err() {
            if self.child.try_wait().expect("it is a child").is_some() {
                return false;
            }
            assert!(begin.elapsed() < PATIENCE, "bitcoind does not answer: {}", self.last_words());
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.dir.join("regtest/debug.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(60).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        let out = Command::new(&self.cli)
            .arg(format!("-datadir={}", self.dir.display()))
            .args(["-regtest".to_owned(), format!("-rpcport={}", self.rpc_port)])
            .args(words)
            .output()
            .expect("bitcoin-cli starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8").trim().to_owned();
        if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
    }

    /// The answer to a call.
    pub fn rpc(&self, words: &[&str]) -> String {
        self.ask(words).unwrap_or_else(|why| panic!("{words:?}: {why}: {}", self.last_words()))
    }

    /// Makes blocks that anyone may spend.
    pub fn generate(&self, count: u32) {
        self.rpc(&["generatetodescriptor", &count.to_string(), "raw(51)"]);
    }

    /// Hash of its tip.
    pub fn tip(&self) -> String {
        self.rpc(&["getbestblockhash"])
    }

    /// Waits until this is its tip.
    pub fn wait_for(&self, tip: &str) {
        let begin = Instant::now();
        while self.tip() != tip {
            assert!(begin.elapsed() < PATIENCE, "bitcoind stays at {}: {}", self.tip(), self.last_words());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asks it to stop, and waits until it has ended.
    pub fn stop(mut self) {
        // It may end before it answers.
        let _ = self.ask(&["stop"]);
        let begin = Instant::now();
        while self.child.try_wait().expect("it is a child").is_none() {
            assert!(begin.elapsed() < PATIENCE, "bitcoind does not end: {}", self.last_words());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is a child");
    }
}
