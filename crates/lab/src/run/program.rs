//! Command lines of ffwd and bitcoind, and parsing of their results.
//!
//! ffwd prints one JSON object as its last line; for bitcoind, the exit code and the log are evaluated. Tip and UTXO
//! set of both are read by `ffwd coins info` from the resulting directory, after the time has been taken. Absent on
//! purpose: running them; see `process.rs`.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use consensus::Chain;
use serde_json::Value;

use super::plan::{ProgramKind, Work, WorkKind};
use super::snapshot::{DUMPED, Driver, Prepared};
use super::survey::Surveyed;
use demo::result::{ASSUMED_VALID, EVERY_SCRIPT, Settings};

/// Lines of log and standard error that the record of a failed run keeps.
const LAST_LINES: usize = 20;

/// Bytes read from the end of a file for its last lines.
const LAST_BYTES: u64 = 64 << 10;

/// Maximum size of a program's output.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Name of the audit's salt file in the data directory.
pub(super) const SALT_FILE: &str = "audit-salt";

/// The parameters of one run.
pub(super) struct Job<'a> {
    pub(super) kind: ProgramKind,
    pub(super) exe: &'a Path,
    pub(super) extra: &'a [String],
    pub(super) work: &'a Work,
    pub(super) settings: &'a Settings,
    pub(super) chain: &'a Surveyed,
    /// The data directory of the run.
    pub(super) directory: &'a Path,
    /// The server of a sync.
    pub(super) connect: Option<SocketAddr>,
    /// The snapshot of a load.
    pub(super) loaded: Option<&'a Prepared>,
    /// The driver of a dump or load by bitcoind.
    pub(super) driver: Option<&'a Driver>,
}

impl Job<'_> {
    /// The height at which the work is done.
    pub(super) fn target(&self) -> u32 {
        self.work.stopatheight.unwrap_or(self.chain.facts.height).min(self.chain.facts.height)
    }

    /// The command line, beginning with the program.
    pub(super) fn command(&self) -> Vec<String> {
        let mut command = vec![text(self.exe)];
        match self.kind {
            ProgramKind::Ffwd => self.ffwd(&mut command),
            ProgramKind::Bitcoind => self.bitcoind(&mut command),
        }
        command.extend_from_slice(self.extra);
        command
    }

    fn ffwd(&self, command: &mut Vec<String>) {
        let mut add = |words: &[&str]| command.extend(words.iter().map(|&word| word.to_owned()));
        let directory = text(self.directory);
        let network = self.chain.network.name();
        let height = self.work.stopatheight.map(|height| height.to_string());
        if let Some(Prepared { file, hash, .. }) = self.loaded {
            add(&["coins", "load", &text(file), "--snapshot-hash", hash]);
        }
        if self.work.kind == WorkKind::Dump {
            add(&["coins", "dump", &text(&self.directory.join(DUMPED))]);
            height.iter().for_each(|height| add(&["--height", height]));
        }
        if !self.work.kind.has_snapshot() {
            add(command_words(self.work.kind));
        }
        add(&["--datadir", &directory, "--chain", network, "--json"]);
        if self.work.kind == WorkKind::Verify {
            add(&["--level", &self.work.level.to_string(), "--blocks", &self.work.blocks.to_string()]);
            return;
        }
        match self.work.kind {
            WorkKind::Muhash => add(&["--hash", "muhash"]),
            WorkKind::Audit => {
                add(&["--to", &self.target().to_string(), "--salt", &text(&self.directory.join(SALT_FILE))])
            }
            WorkKind::Export => add(&["--out", &text(&self.directory.join("tables"))]),
            _ => {}
        }
        if let Some(mib) = self.settings.dbcache_mib {
            add(&["--dbcache", &mib.to_string()]);
        }
        if let Some(par) = self.settings.par {
            add(&["--par", &par.to_string()]);
        }
        if self.work.kind.is_ffwds_alone() || self.work.kind.is_a_call() {
            return;
        }
        if let Some(hash) = self.assumevalid() {
            add(&["--assumevalid", hash]);
        }
        if let Some(peer) = self.connect {
            add(&["--connect", &peer.to_string()]);
        }
        if self.work.stopatheight.is_some() || self.work.kind == WorkKind::Sync {
            add(&["--stopatheight", &self.target().to_string()]);
        }
    }

    fn bitcoind(&self, command: &mut Vec<String>) {
        let mut add = |word: String| command.push(word);
        add(format!("-datadir={}", text(self.directory)));
        add(format!("-chain={}", self.chain.network.name()));
        // No transactions of peers: otherwise bitcoind adds the unused memory of its mempool, 286 MiB, to -dbcache.
        for word in ["-blocksonly", "-listen=0", "-printtoconsole=0", "-logtimemicros=1", "-dnsseed=0", "-fixedseeds=0"]
        {
            add(word.to_owned());
        }
        self.driver.map_or(vec!["-server=0".to_owned()], Driver::options).into_iter().for_each(&mut add);
        add(self.connect.map_or("-connect=0".to_owned(), |peer| format!("-connect={peer}")));
        match self.work.kind {
            WorkKind::Reindex => add("-reindex".to_owned()),
            WorkKind::Rebuild => add("-reindex-chainstate".to_owned()),
            // The plan's check rejects works that only ffwd has; snapshots are done by the driver.
            WorkKind::Sync
            | WorkKind::Commit
            | WorkKind::Audit
            | WorkKind::Export
            | WorkKind::Doctor
            | WorkKind::Index
            | WorkKind::Muhash
            | WorkKind::Dump
            | WorkKind::Load => {}
            WorkKind::Verify => {
                add(format!("-checklevel={}", self.work.level));
                add(format!("-checkblocks={}", self.work.blocks));
            }
        }
        if !self.work.kind.is_a_call() {
            // The program would not end by itself; the work is done at this height.
            add(format!("-stopatheight={}", self.target()));
        }
        if let Some(mib) = self.settings.dbcache_mib {
            add(format!("-dbcache={mib}"));
        }
        if let Some(par) = self.settings.par {
            add(format!("-par={par}"));
        }
        if let Some(mib) = self.settings.batch_mib {
            add(format!("-dbbatchsize={}", mib << 20));
        }
        if let Some(hash) = self.assumevalid() {
            add(format!("-assumevalid={hash}"));
        }
    }

    fn assumevalid(&self) -> Option<&str> {
        let asked = self.settings.assumevalid.as_deref()?;
        Some(if asked == "tip" { &self.chain.tip } else { asked })
    }

    /// The scripts that the settings select for verification; the log may show otherwise.
    pub(super) fn trust(&self) -> &'static str {
        match self.settings.assumevalid.as_deref() {
            _ if self.work.kind == WorkKind::Verify && self.work.level == 4 => EVERY_SCRIPT,
            _ if self.work.kind == WorkKind::Audit => EVERY_SCRIPT,
            _ if !self.work.kind.runs_scripts_of_blocks() => "no script",
            Some("0") => EVERY_SCRIPT,
            None if self.chain.network == Chain::Regtest => EVERY_SCRIPT,
            Some(_) | None => ASSUMED_VALID,
        }
    }

    /// The program's log in its data directory.
    pub(super) fn log(&self) -> PathBuf {
        net_dir(self.directory, self.chain.network).join("debug.log")
    }
}

/// ffwd's command words for a work, without the arguments of the run.
fn command_words(kind: WorkKind) -> &'static [&'static str] {
    match kind {
        WorkKind::Dump => &["coins", "dump"],
        WorkKind::Load => &["coins", "load"],
        WorkKind::Muhash => &["coins", "info"],
        WorkKind::Reindex => &["reindex"],
        WorkKind::Rebuild => &["reindex", "--chainstate-only"],
        WorkKind::Sync => &["sync"],
        WorkKind::Verify => &["verify"],
        WorkKind::Commit => &["lab", "commit"],
        WorkKind::Audit => &["audit", "part", "--from", "0"],
        WorkKind::Export => &["export"],
        WorkKind::Doctor => &["doctor", "--deep"],
        WorkKind::Index => &["index"],
    }
}

/// Whether a program accepts these arguments in a work. Nothing is run: the arguments are followed by a request for
/// help or version, which is processed after the arguments are parsed.
///
/// # Errors
///
/// The program's message.
pub(super) fn takes(exe: &Path, program: ProgramKind, work: WorkKind, args: &[String]) -> Result<(), String> {
    let mut command = Command::new(exe);
    match program {
        ProgramKind::Ffwd => command.args(command_words(work)).args(args).arg("--help"),
        ProgramKind::Bitcoind => command.args(args).arg("-version"),
    };
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("it does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing said");
    Err(line.trim().trim_start_matches("error: ").to_owned())
}

/// The network's directory of a data directory.
pub(super) fn net_dir(datadir: &Path, network: Chain) -> PathBuf {
    datadir.join(network.net_dir())
}

/// The command line of a program that serves `directory` to one peer of this machine.
pub(super) fn server(kind: ProgramKind, exe: &Path, directory: &Path, network: Chain, at: SocketAddr) -> Vec<String> {
    if kind == ProgramKind::Ffwd {
        let directory = text(directory);
        let at = at.to_string();
        let words = ["sync", "--datadir", &directory, "--chain", network.name(), "--connect", "0", "--listen", &at];
        return std::iter::once(text(exe)).chain(words.map(str::to_owned)).collect();
    }
    let mut command = vec![text(exe), format!("-datadir={}", text(directory)), format!("-chain={}", network.name())];
    for word in
        ["-server=0", "-listen=1", "-listenonion=0", "-connect=0", "-dnsseed=0", "-fixedseeds=0", "-printtoconsole=0"]
    {
        command.push(word.to_owned());
    }
    command.push(format!("-bind={at}"));
    // It must serve in spite of an old tip, and must not ban or throttle a peer that downloads everything.
    command.extend(["-maxtipage=3153600000".to_owned(), "-whitelist=noban,download@127.0.0.1".to_owned()]);
    command
}

/// The first line that `exe --version` prints.
///
/// # Errors
///
/// The reason in words: it does not start, or prints nothing.
pub(super) fn version(exe: &Path) -> Result<String, String> {
    let output = Command::new(exe).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{} does not start: {error}", exe.display()))?;
    let first = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned();
    if !output.status.success() || first.is_empty() {
        return Err(format!("{} --version: {}, nothing printed that names a version", exe.display(), output.status));
    }
    Ok(first.chars().take(120).collect())
}

/// The commit in a version: 7 to 40 hexadecimal digits between other characters, with an optional `-dirty`. `git
/// describe` puts a g before them.
pub(super) fn commit(version: &str) -> Option<String> {
    let is_commit = |word: &&str| {
        (7..=40).contains(&word.len()) && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let words = version.split(|c: char| !c.is_ascii_alphanumeric());
    let word = words.map(|word| word.strip_prefix('g').unwrap_or(word)).find(|word| is_commit(word))?;
    let dirty = if version.contains(&format!("{word}-dirty")) { "-dirty" } else { "" };
    Some(format!("{word}{dirty}"))
}

/// Tip and UTXO set of a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) height: Option<u32>,
    pub(super) bestblock: Option<String>,
    pub(super) txouts: Option<u64>,
    pub(super) hash_serialized_3: Option<String>,
}

/// Reads tip and UTXO set of `directory`, or of a snapshot in it, with `ffwd coins info`; computes the hash if `hash`
/// is set.
///
/// # Errors
///
/// The reason in words, with the end of the program's output.
pub(super) fn coins_info(
    ffwd: &Path,
    directory: &Path,
    snapshot: Option<&Path>,
    network: Chain,
    hash: bool,
) -> Result<Found, String> {
    let hash = if hash { "hash_serialized_3" } else { "none" };
    let mut command = Command::new(ffwd);
    command.args(["coins", "info"]).args(snapshot).arg("--datadir").arg(directory).args([
        "--chain",
        network.name(),
        "--hash",
        hash,
        "--json",
    ]);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{} does not start: {error}", ffwd.display()))?;
    let object = last_object(&output.stdout);
    let Some(object) = object.filter(|_| output.status.success()) else {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing said");
        return Err(format!("`ffwd coins info` on what it left: {}: {said}", output.status));
    };
    let word = |key: &str| object.get(key).and_then(Value::as_str).filter(|word| !word.is_empty()).map(str::to_owned);
    let number = |key: &str| object.get(key).and_then(Value::as_u64);
    Ok(Found {
        height: number("height").and_then(|height| u32::try_from(height).ok()),
        bestblock: word("bestblock"),
        txouts: number("txouts"),
        hash_serialized_3: word("hash_serialized_3"),
    })
}

/// The last line of the output that is a JSON object.
pub(super) fn last_object(output: &[u8]) -> Option<Value> {
    output
        .rsplit(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find(Value::is_object)
}

/// The JSON object in the file `path`.
pub(crate) fn object_in(path: &Path) -> Option<Value> {
    let mut output = Vec::new();
    File::open(path).ok()?.take(OUTPUT_BYTES_MAX).read_to_end(&mut output).ok()?;
    last_object(&output)
}

/// The last lines of each of `files`, with its name.
pub(super) fn last_lines(files: &[&Path]) -> Vec<String> {
    let mut lines = Vec::new();
    for path in files {
        let Ok(mut file) = File::open(path) else { continue };
        let bytes = file.metadata().map_or(0, |meta| meta.len());
        let mut piece = Vec::new();
        let read = file
            .seek(SeekFrom::Start(bytes.saturating_sub(LAST_BYTES)))
            .and_then(|_| file.take(LAST_BYTES).read_to_end(&mut piece));
        if read.is_err() || piece.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&piece).into_owned();
        let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let clipped = |line: &&str| format!("{name}: {}", line.chars().take(500).collect::<String>());
        lines.extend(all[all.len().saturating_sub(LAST_LINES)..].iter().map(clipped));
    }
    lines
}

/// The trust level in a log, if present.
pub(super) fn trust_of_log(path: &Path) -> Option<&'static str> {
    demo::debug_log::trust(File::open(path).ok()?).ok()?
}

/// Whether `path` is an executable file.
pub(super) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::*;
    use demo::result::ChainFacts;

    #[test]
    fn command_lines_match_program_and_work() {
        let chain = Surveyed {
            directory: PathBuf::from("/chain"),
            network: Chain::Regtest,
            facts: ChainFacts { height: 9, ..ChainFacts::default() },
            tip: "aa".to_owned(),
            whole_bytes: 0,
            is_whole: false,
        };
        let settings = |assumevalid: Option<&str>| Settings {
            dbcache_mib: Some(100),
            par: Some(2),
            assumevalid: assumevalid.map(str::to_owned),
            ..Settings::default()
        };
        let work = |kind, stopatheight| Work {
            kind,
            stopatheight,
            server: None,
            level: 3,
            blocks: 6,
            limits: Limits::default(),
            line: 1,
        };
        let peer = SocketAddr::from(([127, 0, 0, 1], 8));
        let prepared = Prepared { directory: "/h".into(), file: "/s".into(), hash: "cc".into() };
        let of = (WorkKind::Load, Some(7));
        let driver = Driver::new(Path::new("p"), Path::new("/w"), Chain::Regtest, of.0, of.1, Path::new("/s")).unwrap();
        let loading = format!(
            "p -datadir=/w -chain=regtest -blocksonly -listen=0 -printtoconsole=0 -logtimemicros=1 -dnsseed=0 -fixedseeds=0 {} -connect=0 -dbcache=100 -par=2 -x",
            driver.options().join(" ")
        );
        for (kind, work, assumevalid, connect, want, trust) in [
            (
                ProgramKind::Ffwd,
                work(WorkKind::Reindex, None),
                Some("tip"),
                None,
                "p reindex --datadir /w --chain regtest --json --dbcache 100 --par 2 --assumevalid aa -x",
                ASSUMED_VALID,
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Rebuild, Some(7)),
                Some("0"),
                None,
                "p reindex --chainstate-only --datadir /w --chain regtest --json --dbcache 100 --par 2 --assumevalid 0 --stopatheight 7 -x",
                EVERY_SCRIPT,
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Sync, None),
                None,
                Some(peer),
                "p sync --datadir /w --chain regtest --json --dbcache 100 --par 2 --connect 127.0.0.1:8 --stopatheight 9 -x",
                EVERY_SCRIPT,
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Verify, None),
                None,
                None,
                "p verify --datadir /w --chain regtest --json --level 3 --blocks 6 -x",
                "no script",
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Audit, None),
                Some("tip"),
                None,
                "p audit part --from 0 --datadir /w --chain regtest --json --to 9 --salt /w/audit-salt --dbcache 100 --par 2 -x",
                EVERY_SCRIPT,
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Export, None),
                None,
                None,
                "p export --datadir /w --chain regtest --json --out /w/tables --dbcache 100 --par 2 -x",
                "no script",
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Commit, None),
                Some("tip"),
                None,
                "p lab commit --datadir /w --chain regtest --json --dbcache 100 --par 2 -x",
                "no script",
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Dump, Some(7)),
                None,
                None,
                "p coins dump /w/dump.dat --height 7 --datadir /w --chain regtest --json --dbcache 100 --par 2 -x",
                "no script",
            ),
            (
                ProgramKind::Ffwd,
                work(WorkKind::Load, Some(7)),
                None,
                None,
                "p coins load /s --snapshot-hash cc --datadir /w --chain regtest --json --dbcache 100 --par 2 -x",
                "no script",
            ),
            (ProgramKind::Bitcoind, work(WorkKind::Load, Some(7)), None, None, &loading, "no script"),
            (
                ProgramKind::Bitcoind,
                work(WorkKind::Rebuild, None),
                Some("tip"),
                None,
                "p -datadir=/w -chain=regtest -blocksonly -listen=0 -printtoconsole=0 -logtimemicros=1 -dnsseed=0 -fixedseeds=0 -server=0 -connect=0 -reindex-chainstate -stopatheight=9 -dbcache=100 -par=2 -assumevalid=aa -x",
                ASSUMED_VALID,
            ),
        ] {
            let settings = settings(assumevalid);
            let (exe, directory, extra) = (Path::new("p"), Path::new("/w"), ["-x".to_owned()]);
            let (loaded, driver) = (work.kind == WorkKind::Load).then_some((&prepared, &driver)).unzip();
            let job = Job {
                kind,
                exe,
                extra: &extra,
                work: &work,
                settings: &settings,
                chain: &chain,
                directory,
                connect,
                loaded,
                driver,
            };
            assert_eq!((job.command().join(" ").as_str(), job.trust()), (want, trust));
        }
    }

    #[test]
    fn commit_is_found_in_every_form_of_a_version() {
        for (version, want) in [
            ("Bitcoin Core daemon version v31.99.0-gb88bffe550a3 bitcoind", Some("b88bffe550a3")),
            ("Bitcoin Core daemon version v31.99.0-b88bffe550a3 bitcoind", Some("b88bffe550a3")),
            ("ffwd 0.1.0 (0123456789ab-dirty)", Some("0123456789ab-dirty")),
            ("Bitcoin Core version v31.0.0 (release build)", None),
            ("ffwd 0.1.0 g (release)", None),
        ] {
            assert_eq!(commit(version).as_deref(), want, "{version}");
        }
    }

    #[test]
    fn last_json_object_of_output_is_found() {
        for (output, want) in [
            ("{\"a\":1}\n", Some(1)),
            ("progress\n{\"a\":1}\n{\"a\":2}\nbye\n", Some(2)),
            ("[1]\n3\n", None),
            ("", None),
            ("{\"a\":", None),
        ] {
            assert_eq!(last_object(output.as_bytes()).and_then(|object| object["a"].as_i64()), want, "{output}");
        }
    }

    #[test]
    fn last_lines_of_a_log_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let (log, none) = (scratch.path().join("debug.log"), scratch.path().join("none"));
        fs::write(&log, (0..50_000).map(|line| format!("line {line}\n\n")).collect::<String>()).unwrap();
        let lines = last_lines(&[&log, &none]);
        assert_eq!((lines.len(), lines[19].as_str()), (LAST_LINES, "debug.log: line 49999"));
    }
}
