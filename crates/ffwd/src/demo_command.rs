//! The command `ffwd demo`: runs the whole program in a few seconds, on a chain that it generates.
//!
//! It uses a directory of its own: `chain/` is a data directory that the lab generates, and that the engine reindexes
//! with every script verified; `report.html` is drawn from its debug.log.
//! Absent on purpose: anything that `lab chain`, `reindex` and `lab plot` do not do.

use crate::args::demo::Demo;
use crate::block_bar::BlockBar;
use crate::options::values::Dbcache;
use crate::progress::{Reporter, say};
use crate::signals::Hangup;
use crate::{Failure, heed_ctrl_c, output, settings};
use consensus::{Chain, Params};
use demo::chain;
use demo::plot::{PlotOptions, plot};
use node::jobs;
use node::options::Options;
use node::reporting::JobReport;
use node::utxo_stats::{SetHash, SetInfo};
use primitives::{BlockHash, human};
use serde::Serialize;
use serde_json::value::RawValue;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Number of coins in the demo's chain before its first full block. It is small so that the demo starts quickly.
const UTXOS: u64 = 20_000;

/// Advice printed when a command of the lab fails, or the demo cannot make or draw its chain.
pub(crate) const LAB_ADVICE: &str = "docs/lab.md lists the needs of each command of the lab";

#[derive(Serialize)]
struct DemoObject<'a> {
    directory: &'a Path,
    report: &'a Path,
    made: &'a chain::Report,
    reindex: Box<RawValue>,
}

pub(crate) fn run(given: &Demo) -> Result<ExitCode, Failure> {
    let directory = directory(given.out.as_deref())?;
    let datadir = directory.join("chain");
    let mut wanted = chain::Options::new(&datadir, given.blocks, given.seed);
    wanted.utxos = UTXOS;
    say(&format!("making a chain of {} full blocks with real signatures in {}", given.blocks, directory.display()));
    let made = make(&wanted)?;
    let options = options(datadir.clone(), given.par.unwrap_or(0));
    let reporter = Reporter::new(&options, false);
    let stopping = reporter.clone();
    heed_ctrl_c(&options, &reporter, Hangup::Ends, move || stopping.stopping())?;
    say("reindexing it, with every script verified");
    let events = |event| reporter.event(event);
    let done = jobs::reindex(&options, false, &events);
    reporter.finish();
    let report = done?;
    if report.stopped {
        return Ok(ExitCode::from(crate::INTERRUPTED));
    }
    let set = jobs::set_info(&options, SetHash::Serialized, &events)?;
    agree(&made, &report, &set)?;
    let page = page(&datadir, &directory)?;
    if !given.keep && given.out.is_none() {
        fs::remove_dir_all(&datadir).map_err(|why| fault("removed", &datadir, &why))?;
    }
    output::print(&if given.json {
        let reindex =
            RawValue::from_string(output::job_json(Chain::Regtest.name(), options.kernels, &report, Some(&set)));
        let reindex = reindex.expect("it was printed as JSON just now");
        output::json(&DemoObject { directory: &directory, report: &page, made: &made, reindex })
    } else {
        lines(&made, &report, &set, &page)
    });
    Ok(ExitCode::SUCCESS)
}

/// Generates a chain and shows the progress.
pub(crate) fn make(options: &demo::chain::Options) -> Result<demo::chain::Report, Failure> {
    let mut bar = BlockBar::new();
    let made = demo::chain::generate(options, |progress| bar.progress(&progress));
    bar.finish();
    made.map_err(|why| match why {
        demo::chain::Error::Utxos(_) | demo::chain::Error::TooHigh { .. } => Failure::Usage(why.to_string()),
        _ => Failure::fault(why.to_string(), LAB_ADVICE),
    })
}

/// An empty directory: the one that the user names, or a temporary one.
fn directory(out: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(out) = out else {
        let made = tempfile::Builder::new().prefix("ffwd-demo-").tempdir();
        return made.map(tempfile::TempDir::keep).map_err(|why| fault("made", &std::env::temp_dir(), &why));
    };
    fs::create_dir_all(out).map_err(|why| fault("made", out, &why))?;
    let mut entries = fs::read_dir(out).map_err(|why| fault("listed", out, &why))?;
    match entries.next() {
        None => Ok(out.to_owned()),
        Some(_) => Err(Failure::Usage(format!("{} is not empty: --out takes an empty directory", out.display()))),
    }
}

fn fault(what: &str, path: &Path, why: &io::Error) -> Failure {
    Failure::fault(
        format!("{} cannot be {what}: {why}", path.display()),
        "Give --out a directory that this user may write to",
    )
}

/// Options that verify every script and log each stage of each block, for the report.
fn options(datadir: PathBuf, par: i64) -> Options {
    let params = Params::new(Chain::Regtest);
    Options {
        dbcache_bytes: settings::dbcache_bytes(Dbcache::Auto, settings::workers(par)),
        par: settings::workers(par),
        assumevalid: BlockHash::ZERO,
        debug_bench: true,
        log_time_micros: true,
        build: crate::args::BUILD,
        ..Options::new(datadir, params, std::time::SystemTime::now)
    }
}

/// Checks that the engine ends at the generator's tip with the same number of coins.
fn agree(made: &chain::Report, report: &JobReport, set: &SetInfo) -> Result<(), Failure> {
    if (&report.best.to_string(), set.txouts) == (&made.bestblock, made.txouts) {
        return Ok(());
    }
    let what = format!(
        "the chain was made up to block {} with {} coins, the reindex ended at block {} with {} coins",
        made.bestblock, made.txouts, report.best, set.txouts
    );
    Err(Failure::fault(what, "Please report this"))
}

fn page(datadir: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let log = datadir.join(Chain::Regtest.net_dir()).join("debug.log");
    let options = PlotOptions {
        overwrite: false,
        inputs: vec![log],
        out: directory.join("report.html"),
        svg: false,
        csv: false,
        baseline: None,
        height_across: false,
        from_height: 0,
    };
    plot(&options).map(|report| report.out).map_err(|why| Failure::fault(why.to_string(), LAB_ADVICE))
}

fn lines(made: &chain::Report, report: &JobReport, set: &SetInfo, page: &Path) -> String {
    format!(
        "made: {} blocks, {} of them full, {}, in {}\n{}\nreport: {}",
        human::count(made.height.into()),
        human::count(made.blocks_full.into()),
        human::bytes(made.bytes),
        human::duration(made.seconds),
        output::job_lines("reindex", Chain::Regtest.name(), report, Some(set)),
        page.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_refuses_directory_with_files() {
        let outer = tempfile::tempdir().unwrap();
        assert_eq!(directory(Some(&outer.path().join("new/deep"))).unwrap(), outer.path().join("new/deep"));
        assert_eq!(
            directory(Some(&outer.path().join("new/deep"))).unwrap(),
            outer.path().join("new/deep"),
            "empty is good"
        );
        let why = directory(Some(outer.path())).unwrap_err();
        assert!(matches!(&why, Failure::Usage(text) if text.contains("is not empty")), "{why}");
        fs::write(outer.path().join("file"), "x").unwrap();
        let why = directory(Some(&outer.path().join("file"))).unwrap_err();
        assert!(matches!(&why, Failure::Fault(text) if text.what().contains("file cannot be made")), "{why}");
    }
}
