//! The works `dump` and `load`: write a snapshot of the UTXO set, or load one as a second chainstate. Also `muhash`
//! with bitcoind, which works in the same way.
//!
//! ffwd does it with one command, and prints its seconds. bitcoind is started as a server, called by `bitcoin-cli`,
//! and stopped. The seconds are those of the call; memory and bytes are those of the whole process, including start
//! and stop. The input of a load is made once for each chain: a snapshot at the height of the work, and a data
//! directory with all headers and one block.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use consensus::Chain;
use serde_json::Value;

use super::plan::WorkKind;
use demo::result::{Outcome, RunRecord};

/// Name of the written snapshot in the run's directory.
pub(super) const DUMPED: &str = "dump.dat";
/// Time limit for bitcoind to answer, in seconds.
const STARTS_S: u32 = 120;

/// The input of a load.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    /// A data directory with headers beyond the snapshot's base.
    pub(super) directory: PathBuf,
    /// The snapshot.
    pub(super) file: PathBuf,
    /// Its `hash_serialized_3`.
    pub(super) hash: String,
}

/// Writes the snapshot of the complete chain in `source`; the data directory is created later.
///
/// # Errors
///
/// The program's message.
pub(super) fn dump(ffwd: &Path, out: &Path, source: &Path, network: Chain, height: u32) -> Result<Prepared, String> {
    let directory = out.join("headers");
    let file = out.join("snapshot.dat");
    let mut command = Command::new(ffwd);
    command.args(["coins", "dump"]).arg(&file).args(["--height", &height.to_string()]);
    let dumped = said(command.args(["--chain", network.name(), "--json", "--datadir"]).arg(source))?;
    let object = dumped.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice::<Value>(line).ok());
    let hash = object.and_then(|object| Some(object.get("txoutset_hash")?.as_str()?.to_owned()));
    let hash = hash.ok_or("`ffwd coins dump` names no txoutset_hash")?;
    Ok(Prepared { directory, file, hash })
}

/// Creates the data directory of a load, with headers from a server.
///
/// # Errors
///
/// The program's message.
pub(super) fn headers(ffwd: &Path, out: &Path, network: Chain, server: SocketAddr) -> Result<(), String> {
    let directory = out.join("headers");
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut command = Command::new(ffwd);
    command.args(["sync", "--connect", &server.to_string(), "--stopatheight", "1", "--exit-at-tip"]);
    said(command.args(["--chain", network.name(), "--json", "--datadir"]).arg(directory)).map(drop)
}

/// Runs a command to its end; returns its standard output.
fn said(command: &mut Command) -> Result<Vec<u8>, String> {
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?} does not start: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing said");
    Err(format!("{:?}: {}: {last}", command.get_program(), output.status))
}

/// Controls a bitcoind.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    cli: PathBuf,
    /// Arguments with its address.
    to: Vec<String>,
    /// The call that is timed.
    call: Vec<String>,
}

impl Driver {
    /// A driver for the bitcoind `exe` on `directory`, which listens for calls on a free port.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub(super) fn new(
        exe: &Path,
        directory: &Path,
        network: Chain,
        kind: WorkKind,
        height: Option<u32>,
        file: &Path,
    ) -> std::io::Result<Driver> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let to = vec![
            format!("-datadir={}", directory.display()),
            format!("-chain={}", network.name()),
            format!("-rpcport={port}"),
            "-rpcclienttimeout=0".to_owned(),
        ];
        let file = file.display().to_string();
        let call = match (kind, height) {
            (WorkKind::Load, _) => vec!["loadtxoutset".to_owned(), file],
            (WorkKind::Muhash, _) => vec!["gettxoutsetinfo".to_owned(), "muhash".to_owned()],
            (_, None) => vec!["dumptxoutset".to_owned(), file, "latest".to_owned()],
            (_, Some(height)) => ["-named", "dumptxoutset", &format!("path={file}"), &format!("rollback={height}")]
                .map(str::to_owned)
                .into(),
        };
        Ok(Driver { cli: exe.with_file_name("bitcoin-cli"), to, call })
    }

    /// Options of the bitcoind.
    pub(super) fn options(&self) -> Vec<String> {
        vec!["-server=1".to_owned(), self.to[2].clone()]
    }

    fn cli(&self, words: &[String]) -> Result<Vec<u8>, String> {
        said(Command::new(&self.cli).args(&self.to).args(words))
    }

    /// Waits until it answers, makes the call, and stops it; returns the seconds of the call.
    ///
    /// # Errors
    ///
    /// Its message.
    pub(super) fn drive(&self) -> Result<f64, String> {
        let wait = ["-rpcwait".to_owned(), format!("-rpcwaittimeout={STARTS_S}"), "getblockcount".to_owned()];
        self.cli(&wait)?;
        let start = Instant::now();
        let done = self.cli(&self.call);
        let seconds = start.elapsed().as_secs_f64();
        let stopped = self.cli(&["stop".to_owned()]);
        done.and(stopped).map(|_| seconds)
    }
}

/// Sets the seconds of the work itself: those of the call to bitcoind, or those that ffwd printed.
pub(super) fn take_seconds(record: &mut RunRecord, call: Option<Result<f64, String>>, said: Option<f64>) {
    match call {
        Some(Ok(seconds)) => record.seconds = seconds,
        Some(Err(why)) if record.outcome == Outcome::Done => (record.outcome, record.why) = (Outcome::Failed, why),
        Some(Err(why)) => record.why = format!("{}; {why}", record.why),
        None => record.seconds = said.unwrap_or(record.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_those_of_the_works() {
        let driver = |kind, height| {
            let at = (Path::new("/w"), Chain::Regtest);
            Driver::new(Path::new("/bin/bitcoind"), at.0, at.1, kind, height, Path::new("/f")).unwrap()
        };
        for (kind, height, want) in [
            (WorkKind::Load, Some(299), "loadtxoutset /f"),
            (WorkKind::Dump, None, "dumptxoutset /f latest"),
            (WorkKind::Dump, Some(7), "-named dumptxoutset path=/f rollback=7"),
        ] {
            let driver = driver(kind, height);
            assert_eq!(driver.call.join(" "), want);
            assert_eq!(driver.cli, Path::new("/bin/bitcoin-cli"));
            assert_eq!(driver.options()[0], "-server=1");
            assert!(driver.options()[1].starts_with("-rpcport=") && driver.to.contains(&driver.options()[1]));
        }
        let mut record = RunRecord { outcome: Outcome::Done, seconds: 9.0, ..RunRecord::default() };
        take_seconds(&mut record, None, None);
        assert_eq!(record.seconds, 9.0);
        take_seconds(&mut record, None, Some(3.0));
        assert_eq!(record.seconds, 3.0);
        take_seconds(&mut record, Some(Ok(2.0)), Some(3.0));
        assert_eq!((record.seconds, record.outcome), (2.0, Outcome::Done));
        take_seconds(&mut record, Some(Err("no".to_owned())), None);
        assert_eq!((record.outcome, record.why.as_str()), (Outcome::Failed, "no"));
        let why = driver(WorkKind::Load, None).drive().unwrap_err();
        assert!(why.contains("bitcoin-cli") && why.contains("does not start"), "{why}");
    }
}
