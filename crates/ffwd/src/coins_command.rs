//! The command `ffwd coins`: parses options, prints the result. `node::jobs` does the work.

use crate::args::coins::{Coins, CoinsDiff, CoinsDump, CoinsInfo, CoinsLoad};
use crate::args::{Common, Writing};
use crate::output::{self, row, seconds};
use crate::{
    Failure, INTERRUPTED, begin, begin_read_only, exit_codes, limits, load, look_up, private_files, was_stopped,
};
use node::Fault;
use node::jobs::{self, DiffReport, Difference, DumpOut, DumpReport, DumpTarget, LoadReport};
use node::options::real_disk;
use primitives::{BlockHash, Hash256, hex, human};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

/// Runs one of the commands.
pub(crate) fn run(command: Coins) -> Result<ExitCode, Failure> {
    match command {
        Coins::Info(given) => match &given.file {
            Some(file) => file_info(&given, file),
            None => info(&given),
        },
        Coins::Dump(given) => dump(&given),
        Coins::Load(given) => load_snapshot(&given),
        Coins::Diff(given) => Ok(diff(&given)),
    }
}

fn info(given: &CoinsInfo) -> Result<ExitCode, Failure> {
    if let Some(block) = given.height {
        return look_up::coins_at(given, &block);
    }
    let settings = load(&given.common, None)?;
    let options = &settings.options;
    let reporter = begin_read_only(&settings)?;
    let done = jobs::set_details(options, given.hash().into(), &|event| reporter.event(event));
    reporter.finish();
    let set = done?;
    let chain = options.params.chain.name();
    output::print(&if given.common.json { output::set_json(&set) } else { output::set_lines(chain, &set) });
    Ok(ExitCode::SUCCESS)
}

fn file_info(given: &CoinsInfo, file: &Path) -> Result<ExitCode, Failure> {
    let info =
        jobs::file_info(&*real_disk(), file, given.hash().into(), crate::settings::kernels(&given.common, None)?)?;
    if let Some(wanted) =
        given.common.core.one::<consensus::Chain>("chain").filter(|wanted| info.chain != Some(*wanted))
    {
        let found = info.chain.map_or("an unrecognized network", |chain| chain.name());
        let why = format!("{}: a snapshot of {found}, not of {wanted}", file.display());
        return Err(Failure::fault(why, "Name the network with --chain"));
    }
    let chain = info.chain.map_or("an unrecognized network", |chain| chain.name());
    if given.common.json {
        output::print(&output::set_json(&info.set));
        return Ok(ExitCode::SUCCESS);
    }
    let known = match info.is_known {
        Some(true) => "yes: Core knows this UTXO set",
        Some(false) => "no: Core knows another UTXO set of this block",
        None => "no: not a snapshot that Core knows, or not hashed",
    };
    let lines = output::set_lines(chain, &info.set);
    output::print(&format!("{lines}\n{}\n{}", row("file", human::bytes(info.bytes)), row("known", known)));
    Ok(ExitCode::SUCCESS)
}

/// The field names are those of dumptxoutset.
#[derive(Serialize)]
struct DumpObject {
    coins_written: u64,
    base_hash: String,
    base_height: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    txoutset_hash: String,
    nchaintx: u64,
    sha256: String,
    bytes: u64,
    seconds: f64,
}

fn dump(given: &CoinsDump) -> Result<ExitCode, Failure> {
    let settings = load(&given.common, None)?;
    let target = match (given.height, given.hash) {
        (Some(height), _) => DumpTarget::Height(height),
        (None, Some(hash)) => DumpTarget::Hash(hash),
        (None, None) => DumpTarget::Tip,
    };
    let is_stdout = given.file == Path::new("-");
    let opened = |why: std::io::Error| {
        Failure::fault(format!("{}: {why}", given.file.display()), "Name a file that this user may write")
    };
    let stream = if is_stdout {
        Some(File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(opened)?))
    } else if std::fs::metadata(&given.file).is_ok_and(|known| known.file_type().is_fifo()) {
        Some(File::options().write(true).open(&given.file).map_err(opened)?)
    } else {
        None
    };
    let mut stream = stream.map(Watched::new);
    let options = &settings.options;
    let reporter = begin_read_only(&settings)?;
    let out = match &mut stream {
        Some(stream) => DumpOut::Stream(stream),
        None => DumpOut::File(given.file.clone()),
    };
    let done = jobs::dump(options, target, out, &|event| reporter.event(event));
    reporter.finish();
    if is_stdout && done.is_err() && stream.is_some_and(|stream| stream.is_closed) {
        return Ok(ExitCode::from(exit_codes::CLOSED_PIPE));
    }
    let report = done?;
    let text = if given.common.json { dump_json(&report) } else { dump_lines(options.params.chain.name(), &report) };
    // Standard output may carry the snapshot itself.
    if is_stdout {
        reporter.say(&text)
    } else {
        output::print(&text)
    }
    Ok(ExitCode::SUCCESS)
}

fn dump_json(report: &DumpReport) -> String {
    output::json(&DumpObject {
        coins_written: report.coins_written,
        base_hash: report.base_hash.to_string(),
        base_height: report.base_height.to_u32(),
        path: report.path.as_ref().map(|path| path.display().to_string()),
        txoutset_hash: report.txoutset_hash.to_string(),
        nchaintx: report.nchaintx,
        sha256: hex::encode(&report.sha256),
        bytes: report.bytes,
        seconds: seconds(report.seconds),
    })
}

fn dump_lines(chain: &str, report: &DumpReport) -> String {
    let rate = human::figure(report.coins_written as f64 / report.seconds.max(1e-6));
    let height = human::count(report.base_height.to_u32().into());
    [
        format!("snapshot of {chain} at height {height}, block {}", report.base_hash),
        row("coins", human::count(report.coins_written)),
        row("hash", format!("hash_serialized_3 {}", report.txoutset_hash)),
        row("sha256", hex::encode(&report.sha256)),
        row("transactions", human::count(report.nchaintx)),
        row("file", human::bytes(report.bytes)),
        row("time", format!("{}: {rate} coins per second", human::duration(report.seconds))),
    ]
    .join("\n")
}

/// The field names are those of loadtxoutset.
#[derive(Serialize)]
struct LoadObject {
    coins_loaded: u64,
    tip_hash: String,
    base_height: u32,
    path: String,
    txoutset_hash: String,
    known: bool,
    seconds: f64,
}

fn load_snapshot(given: &CoinsLoad) -> Result<ExitCode, Failure> {
    let writing = Writing { prune: given.prune, ..Writing::default() };
    let settings = load(&given.common, Some(&writing))?;
    private_files();
    let options = &settings.options;
    limits::check(options.par, options.dbcache_bytes)?;
    let reporter = begin(&settings)?;
    let users_hash = given.trust.snapshot_hash.map(as_hash);
    let done = jobs::load(options, &given.file, users_hash, &|event| reporter.event(event));
    reporter.finish();
    let report = match done {
        Err(fault) if was_stopped(&fault, options, &reporter) => return Ok(ExitCode::from(INTERRUPTED)),
        done => done?,
    };
    output::print(&if given.common.json { load_json(&report) } else { load_lines(&given.common, &report) });
    Ok(ExitCode::SUCCESS)
}

/// A block hash as a generic hash.
pub(crate) fn as_hash(hash: BlockHash) -> Hash256 {
    Hash256(*hash.as_bytes())
}

fn load_json(report: &LoadReport) -> String {
    output::json(&LoadObject {
        coins_loaded: report.coins_loaded,
        tip_hash: report.tip_hash.to_string(),
        base_height: report.base_height.to_u32(),
        path: report.path.display().to_string(),
        txoutset_hash: report.txoutset_hash.to_string(),
        known: report.is_known,
        seconds: seconds(report.seconds),
    })
}

fn load_lines(common: &Common, report: &LoadReport) -> String {
    let rate = human::figure(report.coins_loaded as f64 / report.seconds.max(1e-6));
    let whose = if report.is_known { "known to Core" } else { "given by you" };
    let next = if report.is_known {
        "ffwd sync, or bitcoind: to the tip, then the past"
    } else {
        "ffwd sync: to the tip, then the past"
    };
    let height = human::count(report.base_height.to_u32().into());
    let chain = common.core.one::<consensus::Chain>("chain").map_or_else(String::new, |chain| format!(" of {chain}"));
    [
        format!("snapshot{chain} at height {height}, block {}, is loaded", report.tip_hash),
        row("coins", human::count(report.coins_loaded)),
        row("hash", format!("hash_serialized_3 {} ({whose})", report.txoutset_hash)),
        row("time", format!("{}: {rate} coins per second", human::duration(report.seconds))),
        row("next", next),
    ]
    .join("\n")
}

#[derive(Serialize)]
struct DiffObject {
    first_base: String,
    first_coins: u64,
    second_base: String,
    second_coins: u64,
    only_first: u64,
    only_second: u64,
    changed: u64,
}

/// Exit codes as in diff(1) and cmp(1): 0 for equal sets, 1 for a difference, 2 if a file cannot be read.
fn diff(given: &CoinsDiff) -> ExitCode {
    let mut out = Watched::new(BufWriter::new(std::io::stdout().lock()));
    let found = compare(given, &mut out);
    match found {
        Ok(DiffReport { only_first: 0, only_second: 0, changed: 0, .. }) => ExitCode::from(exit_codes::DONE),
        Ok(_) => ExitCode::from(exit_codes::FAULT),
        // The reader closed the output. Lines are only written for differences, so the sets differ.
        Err(_) if out.is_closed => ExitCode::from(exit_codes::FAULT),
        Err(failure) => {
            failure.tell();
            ExitCode::from(exit_codes::USAGE)
        }
    }
}

fn compare(given: &CoinsDiff, out: &mut impl Write) -> Result<DiffReport, Failure> {
    let report = jobs::diff(&*real_disk(), &given.first, &given.second, |difference, outpoint| {
        if given.json {
            return Ok(());
        }
        let sign = match difference {
            Difference::First => '-',
            Difference::Second => '+',
            Difference::Changed => '!',
        };
        writeln!(out, "{sign} {outpoint}").map_err(|why| {
            Fault::refused(format!("standard output: {why}"), "Write to a file, or to a program that reads all of it")
        })
    })?;
    let text = if given.json { diff_json(&report) } else { diff_line(&report) };
    // A closed standard output is not an error.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    Ok(report)
}

/// An output that records whether its reader has closed it.
struct Watched<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Watched<W> {
    fn new(out: W) -> Watched<W> {
        Watched { out, is_closed: false }
    }

    fn look<T>(&mut self, done: std::io::Result<T>) -> std::io::Result<T> {
        self.is_closed |= done.as_ref().is_err_and(|why| why.kind() == std::io::ErrorKind::BrokenPipe);
        done
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let done = self.out.write(bytes);
        self.look(done)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let done = self.out.flush();
        self.look(done)
    }
}

fn diff_json(report: &DiffReport) -> String {
    output::json(&DiffObject {
        first_base: report.first.0.to_string(),
        first_coins: report.first.1,
        second_base: report.second.0.to_string(),
        second_coins: report.second.1,
        only_first: report.only_first,
        only_second: report.only_second,
        changed: report.changed,
    })
}

fn diff_line(report: &DiffReport) -> String {
    let DiffReport { first, second, only_first, only_second, changed } = report;
    format!(
        "{} coins at block {} and {} at block {}: {} only in the first, {} only in the second, {} differ",
        human::count(first.1),
        first.0,
        human::count(second.1),
        second.0,
        human::count(*only_first),
        human::count(*only_second),
        human::count(*changed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;
    use serde_json::Value;

    fn keys(text: &str) -> Vec<String> {
        let Value::Object(object) = serde_json::from_str(text).unwrap() else { panic!("no object: {text}") };
        object.keys().cloned().collect()
    }

    #[test]
    fn json_has_cores_names_and_a_few_more() {
        let dumped = DumpReport {
            coins_written: 1,
            base_hash: BlockHash::ZERO,
            base_height: Height::new(2),
            path: Some("/x".into()),
            txoutset_hash: Hash256::ZERO,
            nchaintx: 3,
            sha256: [0; 32],
            bytes: 4,
            seconds: 0.5,
        };
        let want = [
            "base_hash",
            "base_height",
            "bytes",
            "coins_written",
            "nchaintx",
            "path",
            "seconds",
            "sha256",
            "txoutset_hash",
        ];
        let mut got = keys(&dump_json(&dumped));
        got.sort_unstable();
        assert_eq!(got, want);
        assert!(
            dump_lines("regtest", &dumped).ends_with("2.00 coins per second"),
            "{}",
            dump_lines("regtest", &dumped)
        );
        let loaded = LoadReport {
            coins_loaded: 1,
            tip_hash: BlockHash::ZERO,
            base_height: Height::new(2),
            path: "/x".into(),
            txoutset_hash: Hash256::ZERO,
            is_known: false,
            seconds: 0.5,
        };
        let mut got = keys(&load_json(&loaded));
        got.sort_unstable();
        assert_eq!(got, ["base_height", "coins_loaded", "known", "path", "seconds", "tip_hash", "txoutset_hash"]);
        assert!(load_lines(&Common::default(), &loaded).contains("given by you"));
        assert_eq!(keys(&diff_json(&DiffReport::default())).len(), 7);
    }
}
