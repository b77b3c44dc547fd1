//! `ffwd export`: options in, files and a report out. The work is `export`'s.

use crate::args::export::{Export, Format};
use crate::output::{self, row, seconds};
use crate::{Failure, audit_command, begin_read_only};
use export::{ExportReport, Request, Selection};
use node::reporting::{Event, Progress};
use primitives::{Height, human};
use serde::Serialize;
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
    let Format::Parquet = given.format;
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
