//! The command `ffwd export`: parses options, prints a report. The crate `export` writes the files.

use crate::args::export::{Export, Format};
use crate::output::{self, row, seconds};
use crate::{Failure, audit_command, begin_read_only, load, out_file};
use export::{CoinsFormat, CoinsReport, CoinsRequest, ExportReport, Request, Selection, TweaksReport, TweaksRequest};
use node::jobs::{CoinsOf, DumpTarget};
use node::reporting::{Event, Progress};
use primitives::{Height, human};
use serde::Serialize;
use serde_json::value::RawValue;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Serialize)]
struct ExportObject {
    from: u32,
    to: u32,
    blocks: u64,
    transactions: u64,
    inputs: u64,
    outputs: u64,
    files: u64,
    bytes_in: u64,
    bytes_out: u64,
    seconds: f64,
}

/// Runs the command.
pub(crate) fn run(given: &Export) -> Result<ExitCode, Failure> {
    if given.table.coins {
        return coins(given);
    }
    if given.tweaks.tweaks {
        return tweaks(given);
    }
    if given.format != Format::Parquet {
        return Err(Failure::Usage("blocks are exported only as parquet: --format csv and sqlite need --coins".into()));
    }
    let selection = Selection::new(&given.tables, &given.columns, given.nested);
    let selection = selection.map_err(|why| Failure::Usage(why.to_string()))?;
    let settings = audit_command::settings(&given.common, &given.files)?;
    let options = &settings.options;
    let reporter = begin_read_only(&settings)?;
    let begun = Instant::now();
    let plan = given.plan.as_deref();
    let out = &*given.out;
    let overwrite = given.overwrite.force;
    let request = Request { from: given.from, to: given.to, selection: &selection, plan, out, overwrite };
    let done = export::export(options, &request, |height| {
        let height = Height::new(height);
        let seconds = begun.elapsed().as_secs_f64();
        reporter.event(Event::Progress(Box::new(Progress { height, seconds, ..Progress::default() })));
    });
    reporter.finish();
    let report = done?;
    let time = begun.elapsed().as_secs_f64();
    output::print(&if given.common.json { json(&report, time) } else { lines(&report, given, time) });
    Ok(ExitCode::SUCCESS)
}

fn json(report: &ExportReport, time: f64) -> String {
    output::json(&ExportObject {
        from: report.from,
        to: report.to,
        blocks: report.counts.blocks,
        transactions: report.counts.transactions,
        inputs: report.counts.inputs,
        outputs: report.counts.outputs,
        files: report.files,
        bytes_in: report.bytes_in,
        bytes_out: report.bytes_out,
        seconds: seconds(time),
    })
}

fn lines(report: &ExportReport, given: &Export, time: f64) -> String {
    let rate = human::figure(report.bytes_in as f64 / 1e6 / time.max(1e-6));
    [
        format!("blocks {} to {} are exported to {}", report.from, report.to, given.out.display()),
        row("transactions", human::count(report.counts.transactions)),
        row("inputs", human::count(report.counts.inputs)),
        row("outputs", human::count(report.counts.outputs)),
        row("files", format!("{}, {}", human::count(report.files), human::bytes(report.bytes_out))),
        row("time", format!("{}: {rate} MB of blocks per second", human::duration(time))),
    ]
    .join("\n")
}

/// The field names are those of `coins info`.
#[derive(Serialize)]
struct CoinsObject {
    chain: &'static str,
    bestblock: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    txouts: u64,
    total_amount: Box<RawValue>,
    path: String,
    bytes_out: u64,
    seconds: f64,
}

fn coins(given: &Export) -> Result<ExitCode, Failure> {
    let format = match given.format {
        Format::Parquet => CoinsFormat::Parquet,
        Format::Csv => CoinsFormat::Csv,
        #[cfg(feature = "sqlite")]
        Format::Sqlite => CoinsFormat::Sqlite,
        #[cfg(not(feature = "sqlite"))]
        Format::Sqlite => return Err(Failure::Usage(crate::features::told("--format sqlite", "sqlite"))),
    };
    out_file::check_free(&given.out, given.overwrite.force)?;
    if given.out.is_dir() {
        let why = format!("{}: a directory, and --coins makes one file", given.out.display());
        return Err(Failure::fault(why, "Name a file with --out"));
    }
    let settings = load(&given.common, None)?;
    let of = match (&given.table.snapshot, given.table.height) {
        (Some(path), _) => CoinsOf::File { path, chain: given.common.core.one("chain") },
        (None, Some(height)) => CoinsOf::Block(DumpTarget::Height(height)),
        (None, None) => CoinsOf::Block(DumpTarget::Tip),
    };
    let reporter = begin_read_only(&settings)?;
    let begun = Instant::now();
    let request = CoinsRequest { of, format, out: &given.out };
    let done = export::export_coins(&settings.options, &request, &|event| reporter.event(event));
    reporter.finish();
    let report = done?;
    let time = begun.elapsed().as_secs_f64();
    output::print(&if given.common.json {
        coins_json(&report, given, time)
    } else {
        coins_lines(&report, given, time)
    });
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct TweaksObject {
    from: u32,
    to: u32,
    transactions: u64,
    outputs: u64,
    path: String,
    bytes_out: u64,
    seconds: f64,
}

fn tweaks(given: &Export) -> Result<ExitCode, Failure> {
    if given.format != Format::Parquet {
        return Err(Failure::Usage("--tweaks exports only parquet: leave --format out".into()));
    }
    out_file::check_free(&given.out, given.overwrite.force)?;
    if given.out.is_dir() {
        let why = format!("{}: a directory, and --tweaks makes one file", given.out.display());
        return Err(Failure::fault(why, "Name a file with --out"));
    }
    let settings = load(&given.common, None)?;
    let reporter = begin_read_only(&settings)?;
    let begun = Instant::now();
    let request = TweaksRequest { from: Height::new(given.from), to: given.to.map(Height::new), out: &given.out };
    let done = export::export_tweaks(&settings.options, &request, &|height| {
        let seconds = begun.elapsed().as_secs_f64();
        reporter.event(Event::Progress(Box::new(Progress { height, seconds, ..Progress::default() })));
    });
    reporter.finish();
    let report = done?;
    let time = begun.elapsed().as_secs_f64();
    output::print(&if given.common.json {
        tweaks_json(&report, given, time)
    } else {
        tweaks_lines(&report, given, time)
    });
    Ok(ExitCode::SUCCESS)
}

fn tweaks_json(report: &TweaksReport, given: &Export, time: f64) -> String {
    output::json(&TweaksObject {
        from: given.from,
        to: report.to.to_u32(),
        transactions: report.rows,
        outputs: report.outputs,
        path: given.out.display().to_string(),
        bytes_out: report.bytes_out,
        seconds: seconds(time),
    })
}

fn tweaks_lines(report: &TweaksReport, given: &Export, time: f64) -> String {
    [
        format!("tweaks of blocks {} to {} are exported to {}", given.from, report.to, given.out.display()),
        row("transactions", human::count(report.rows)),
        row("outputs", human::count(report.outputs)),
        row("file", human::bytes(report.bytes_out)),
        row("time", human::duration(time)),
    ]
    .join("\n")
}

fn coins_json(report: &CoinsReport, given: &Export, time: f64) -> String {
    output::json(&CoinsObject {
        chain: report.chain.name(),
        bestblock: report.base.to_string(),
        height: report.height.map(Height::to_u32),
        txouts: report.sums.coins,
        total_amount: output::amount(report.sums.amount),
        path: given.out.display().to_string(),
        bytes_out: report.bytes_out,
        seconds: seconds(time),
    })
}

fn coins_lines(report: &CoinsReport, given: &Export, time: f64) -> String {
    let rate = human::figure(report.sums.coins as f64 / time.max(1e-6));
    let at =
        report.height.map_or_else(String::new, |height| format!(" at height {}", human::count(height.to_u32().into())));
    [
        format!("UTXO set of {}{at}, block {}, is exported to {}", report.chain, report.base, given.out.display()),
        row("coins", human::count(report.sums.coins)),
        row("amount", format!("{} BTC", human::btc(report.sums.amount))),
        row("file", human::bytes(report.bytes_out)),
        row("time", format!("{}: {rate} coins per second", human::duration(time))),
    ]
    .join("\n")
}
