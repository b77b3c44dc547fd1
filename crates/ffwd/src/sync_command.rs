//! The command `ffwd sync`: merges the options of the command line and the files, then runs the job.
//!
//! Absent on purpose: the job itself (`node`), and the meaning of an option (`settings`, `sync_settings`,
//! `server_settings`).

use crate::args::{HashType, Sync, WithPeers};
use crate::before_sync::BeforeSync;
use crate::conf::OnLine;
use crate::conf::{Conf, Entry};
use crate::options::{self, CoreOption, Effect, Shown, Times};
use crate::settings::{Role, Settings};
use crate::snapshot_source::{Asked, source};
use crate::{Failure, coins_command, load_as, output, work};
#[cfg(feature = "server")]
use crate::{serve, settings};
use consensus::Chain;
use node::jobs::{self, FromSnapshot, SyncOptions};
use node::options::Options;
use node::reporting::Events;
use std::process::ExitCode;

/// Everything that a sync needs to start.
struct Prepared {
    settings: Settings,
    sync: SyncOptions,
    before: BeforeSync,
    #[cfg(feature = "server")]
    server: serve::Wanted,
}

/// Reads and checks the options of a command that downloads blocks from peers. Nothing is changed.
///
/// # Errors
///
/// [`Failure`]: an option that bitcoind rejects, or that ffwd does not support.
pub(crate) fn load_with_peers(
    given: &WithPeers,
    exit_at_tip: bool,
    line: &OnLine,
) -> Result<(Settings, SyncOptions), Failure> {
    let mut settings = load_as(Role::Sync, &given.common, Some(&given.writing), line)?;
    let sync = settings.sync(given, exit_at_tip)?;
    Ok((settings, sync))
}

/// The same for a sync, with its server, its commands, and the jobs before it.
///
/// # Errors
///
/// Those of [`load_with_peers`].
fn prepare(given: &Sync, line: &OnLine) -> Result<Prepared, Failure> {
    let (mut settings, sync) = load_with_peers(&given.with_peers, given.exit_at_tip, line)?;
    #[cfg(feature = "server")]
    let server = serve::Wanted::of(settings.server(&given.server, false)?, false, &settings.categories);
    #[cfg(feature = "server")]
    let sync = {
        let mut sync = sync;
        sync.handle = server.handle();
        sync.peers.control = server.peers();
        if let Some(handle) = &sync.handle {
            sync.download.switch = handle.download().clone();
        }
        let read = |setting: &_| Ok(settings::number(setting));
        let seconds = settings.files.option(&given.with_peers.core, "bantime", read)?;
        seconds.into_iter().for_each(|seconds| sync.peers.control.bans().set_default(seconds));
        sync
    };
    settings.commands = settings.files.commands(&given.notify);
    let before = settings.files.before_sync(&given.before)?;
    settings.warnings.extend(settings.files.missing_blocks());
    Ok(Prepared {
        settings,
        sync,
        before,
        #[cfg(feature = "server")]
        server,
    })
}

/// The command `ffwd sync`.
///
/// # Errors
///
/// [`Failure`].
pub(crate) fn run(given: &Sync, line: &OnLine) -> Result<ExitCode, Failure> {
    let mut prepared = prepare(given, line)?;
    let common = &given.with_peers.common;
    if given.with_peers.check_configuration {
        output::print(&checked(&prepared.settings, |_| false, common.json));
        return Ok(ExitCode::SUCCESS);
    }
    prepared.settings.own_files(&given.own_files)?;
    prepared.settings.make_default_datadir()?;
    let Prepared { settings, sync, before, .. } = &prepared;
    crate::signals::heed_download(sync.download.switch.clone())?;
    // A sync that follows the chain does not end by itself: stopping it is success.
    let ends = given.exit_at_tip;
    let hash = given.trust.snapshot_hash.map(coins_command::as_hash);
    let asked = Asked {
        values: &given.snapshot,
        list: given.snapshot_list.as_deref(),
        datadir: &settings.options.datadir,
        params: &settings.options.params,
        proxy: sync.proxy.as_deref(),
    };
    let from = FromSnapshot { hash, hints: given.hints.clone(), ..source(&asked)? };
    work("sync", settings, common, HashType::None, ends, |options, events| {
        let job = |options: &Options, events: Events<'_>| match before.run(options, events)? {
            Some(stopped) => Ok(stopped),
            None => jobs::sync_from(options, sync, &from, events),
        };
        #[cfg(feature = "server")]
        return prepared.server.around(options, events, job);
        #[cfg(not(feature = "server"))]
        job(options, events)
    })
}

/// How each line is handled, then the warnings: for `--check-configuration`. The command does not use the options
/// of which `is_without` is true.
pub(crate) fn checked(settings: &Settings, is_without: fn(&CoreOption) -> bool, is_json: bool) -> String {
    let conf = &settings.files.conf;
    let chain = settings.files.chain;
    let lines: Vec<(String, String)> =
        conf.applying(chain).map(|entry| becomes(entry, conf, chain, is_without)).collect();
    let warnings = &settings.warnings;
    let datadir = settings.options.datadir.display();
    if is_json {
        let lines: Vec<_> =
            lines.iter().map(|(line, outcome)| serde_json::json!({ "line": line, "outcome": outcome })).collect();
        let all = serde_json::json!({ "chain": chain.name(), "datadir": datadir.to_string(), "lines": lines, "warnings": warnings });
        return all.to_string();
    }
    let head = format!("network {chain}, data directory {datadir}");
    let lines = lines.into_iter().map(|(line, outcome)| format!("{line}: {outcome}"));
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    let end = ["ffwd can start on this configuration".to_owned()];
    std::iter::once(head).chain(lines).chain(warnings).chain(end).collect::<Vec<_>>().join("\n")
}

/// An entry with its value, unless that is secret, and how the entry is handled.
fn becomes(entry: &Entry, conf: &Conf, chain: Chain, is_without: fn(&CoreOption) -> bool) -> (String, String) {
    let place = &entry.setting.place;
    let Some(option) = options::find(&entry.name) else { return (format!("{place}: {}", entry.name), String::new()) };
    let value = match option.shown {
        Shown::Yes => entry.setting.value.text(),
        Shown::Never => "****",
    };
    let outcome = match is_without(option) {
        true => "no effect on this command".to_owned(),
        false => outcome(option, entry, conf, chain),
    };
    (format!("{place}: {}={value}", entry.name), outcome)
}

fn outcome(option: &CoreOption, entry: &Entry, conf: &Conf, chain: Chain) -> String {
    if let Some(why) = option.why_unused() {
        return if entry.asks_for_nothing() { "already so in ffwd".to_owned() } else { format!("not used: {why}") };
    }
    let counts = match option.times {
        _ if option.effect == Effect::FileOnly => true,
        Times::Once => conf.get(option.name, chain).is_some_and(|setting| setting.place == entry.setting.place),
        // Negated lists are empty.
        Times::Many => {
            let all = conf.list(option.name, chain);
            all.is_empty() || all.iter().any(|setting| setting.place == entry.setting.place)
        }
    };
    let on_line = conf.on_line().iter().any(|other| other.name == option.name);
    match (counts, on_line && option.times == Times::Once) {
        (_, true) => "no effect: the command line has another value".to_owned(),
        (true, false) => "used".to_owned(),
        (false, false) => "no effect: another value counts".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::spelling::rewrite;
    use clap::Parser;
    use serde::Deserialize;
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::fs;
    use std::path::Path;

    /// Snippets, and what bitcoind and ffwd did with them: written by interop/configuration.py, which says what the fields are.
    const TABLE: &str = include_str!("../testdata/configuration.json");

    #[derive(Deserialize)]
    struct Row {
        name: String,
        #[serde(default)]
        conf: Option<String>,
        #[serde(default)]
        bytes: Option<String>,
        #[serde(default)]
        settings: Option<String>,
        #[serde(default)]
        files: BTreeMap<String, String>,
        #[serde(default)]
        dirs: Vec<String>,
        #[serde(default)]
        line: Vec<String>,
        #[serde(default = "yes")]
        datadir: bool,
        core: Did,
        ffwd: Did,
        #[serde(default)]
        differs: Option<String>,
    }

    fn yes() -> bool {
        true
    }

    #[derive(Deserialize, PartialEq, Debug)]
    struct Did {
        verdict: String,
        says: Vec<String>,
        #[serde(default)]
        dir: Option<String>,
    }

    /// Lines, each once, without the name of the row's directory.
    fn said(text: &str, top: &Path) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for line in text.replace(top.to_str().unwrap(), "@").lines().map(str::trim) {
            if !line.is_empty() && !out.iter().any(|known| known == line) {
                out.push(line.to_owned());
            }
        }
        out
    }

    fn lay_out(row: &Row, top: &Path) {
        row.dirs.iter().for_each(|name| fs::create_dir_all(top.join(name)).unwrap());
        let mut files: Vec<(&str, Vec<u8>)> =
            row.files.iter().map(|(name, text)| (name.as_str(), text.as_bytes().to_vec())).collect();
        let at = format!("{}/", top.display());
        files.extend(row.conf.iter().map(|text| ("bitcoin.conf", text.replace("@/", &at).into_bytes())));
        files.extend(row.bytes.iter().map(|hex| ("bitcoin.conf", primitives::hex::decode(hex).unwrap())));
        files.extend(row.settings.iter().map(|text| ("regtest/settings.json", text.as_bytes().to_vec())));
        for (name, bytes) in files {
            let path = top.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    fn play(row: &Row) -> Did {
        let made = tempfile::tempdir().unwrap();
        let top = made.path();
        lay_out(row, top);
        let at = top.to_str().unwrap();
        let place = if row.datadir { format!("-datadir={at}") } else { format!("-conf={at}/bitcoin.conf") };
        let words = ["ffwd".to_owned(), "sync".to_owned(), place].into_iter();
        let words = words.chain(row.line.iter().map(|word| word.replace("@/", &format!("{at}/"))));
        let prepared = rewrite(words.map(OsString::from)).map_err(Failure::Usage).and_then(|line| {
            let cli = Cli::try_parse_from(line.words).map_err(|why| Failure::Usage(why.to_string()))?;
            let Command::Sync(given) = cli.command else { panic!("{}", row.name) };
            prepare(&given, &line.on_line)
        });
        match prepared {
            Err(why) => Did { verdict: "refused".to_owned(), says: said(&why.to_string(), top), dir: None },
            Ok(Prepared { settings, .. }) => {
                let says: Vec<String> = settings.warnings.iter().flat_map(|warning| said(warning, top)).collect();
                let verdict = if says.is_empty() { "taken" } else { "warned" };
                let dir = settings.options.datadir.display().to_string().replace(at, "@");
                Did { verdict: verdict.to_owned(), says, dir: Some(dir) }
            }
        }
    }

    /// What bitcoind refuses is refused, what it warns of is warned of, what it takes is taken, or named.
    #[test]
    fn configuration_is_taken_warned_of_and_refused_as_bitcoind_does() {
        let rows: Vec<Row> = serde_json::from_str(TABLE).unwrap();
        assert!(rows.len() >= 300, "{}", rows.len());
        for row in &rows {
            assert_eq!(
                play(row),
                row.ffwd,
                "{}: if it is right, interop/configuration.py --record writes it",
                row.name
            );
            let core = row.core.verdict.as_str();
            let ffwd = row.ffwd.verdict.as_str();
            let is_alike = core == ffwd || (core, ffwd) == ("taken", "warned");
            let is_elsewhere = row.core.dir.is_some() && row.ffwd.dir.is_some() && row.core.dir != row.ffwd.dir;
            let is_as_core = is_alike && !is_elsewhere;
            assert_eq!(is_as_core, row.differs.is_none(), "{}: {:?}, {:?}", row.name, row.core, row.ffwd);
        }
        let refused = rows.iter().filter(|row| row.core.verdict == "refused").count();
        let differ = rows.iter().filter(|row| row.differs.is_some()).count();
        assert!(refused >= 100 && differ <= 12, "{refused} refused, {differ} differ");
    }

    /// As bitcoind's own unit of Bitcoin Core b88bffe.
    #[test]
    fn the_unit_reads_the_configuration_that_bitcoinds_unit_reads() {
        let unit = include_str!("../../../dist/ffwd.service");
        let value = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let words = value("ExecStart=").split_whitespace().map(OsString::from);
        let Ok(Cli { command: Command::Sync(given) }) = Cli::try_parse_from(rewrite(words).unwrap().words) else {
            panic!("{unit}")
        };
        assert_eq!(
            given.with_peers.common.core.one::<std::path::PathBuf>("conf").as_deref(),
            Some(Path::new("/etc/bitcoin/bitcoin.conf"))
        );
        assert_eq!(
            given.with_peers.common.core.one::<std::path::PathBuf>("datadir").as_deref(),
            Some(Path::new("/var/lib/bitcoind"))
        );
        for (name, want) in [
            // bitcoind's unit has `!`; with `+` the empty CapabilityBoundingSet does not count for it.
            ("ExecStartPre=", "+/bin/chgrp bitcoin /etc/bitcoin"),
            ("ConfigurationDirectory=", "bitcoin"),
            ("ConfigurationDirectoryMode=", "0710"),
            ("User=", "bitcoin"),
        ] {
            assert_eq!(value(name), want, "{name}");
        }
    }

    #[test]
    fn each_line_is_told_with_what_becomes_of_it() {
        let made = tempfile::tempdir().unwrap();
        let conf =
            "regtest=1\ndbcache=50\ndbcache=60\nmaxmempool=300\nrpcpassword=secret\npar=2\ndaemon=0\n[main]\npar=3\n";
        fs::write(made.path().join("bitcoin.conf"), conf).unwrap();
        let at = made.path().to_str().unwrap();
        let words = ["ffwd", "sync", "-datadir", at, "-par=4", "-server"].map(OsString::from);
        let line = rewrite(words).unwrap();
        let Ok(Cli { command: Command::Sync(given) }) = Cli::try_parse_from(line.words) else { panic!("sync") };
        let prepared = prepare(&given, &line.on_line).unwrap();
        let text = checked(&prepared.settings, |_| false, false).replace(at, "@");
        for want in [
            "network regtest, data directory @",
            "@/bitcoin.conf line 1: regtest=1: used",
            "@/bitcoin.conf line 2: dbcache=50: used",
            "@/bitcoin.conf line 3: dbcache=60: no effect: another value counts",
            "@/bitcoin.conf line 4: maxmempool=300: not used: ffwd takes and relays no transactions",
            "@/bitcoin.conf line 5: rpcpassword=****: used",
            "@/bitcoin.conf line 6: par=2: no effect: the command line has another value",
            "@/bitcoin.conf line 7: daemon=0: already so in ffwd",
            "warning: @/bitcoin.conf line 3: dbcache is set before, at line 2",
            "ffwd can start on this configuration",
        ] {
            assert!(text.lines().any(|line| line.starts_with(want)), "{want}\n{text}");
        }
        assert!(!text.contains("secret") && !text.contains("par=3"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&checked(&prepared.settings, |_| false, true)).unwrap();
        assert_eq!((json["chain"].as_str(), json["lines"][1]["outcome"].as_str()), (Some("regtest"), Some("used")));
    }
}
