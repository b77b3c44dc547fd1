//! The command `ffwd hints`: parses options, prints the result. `node::jobs` does the work.

use crate::args::hints::{Hints, HintsMake};
use crate::output::{self, row, seconds};
use crate::{Failure, begin_read_only, load};
use node::jobs::{self, HintsReport, SignatureHintsReport};
use primitives::human;
use serde::Serialize;
use std::process::ExitCode;

/// Runs one of the commands.
pub(crate) fn run(command: Hints) -> Result<ExitCode, Failure> {
    match command {
        Hints::Make(given) if given.signatures => make_signatures(&given),
        Hints::Make(given) => make(&given),
    }
}

#[derive(Serialize)]
struct HintsObject {
    path: String,
    height: u32,
    bestblock: String,
    unspent: u64,
    bytes: u64,
    seconds: f64,
}

fn make(given: &HintsMake) -> Result<ExitCode, Failure> {
    let settings = load(&given.common, None)?;
    let options = &settings.options;
    let reporter = begin_read_only(&settings)?;
    let done = jobs::make_hints(options, &given.file, &|event| reporter.event(event));
    reporter.finish();
    let report = done?;
    output::print(&if given.common.json { json(&report) } else { lines(options.params.chain.name(), &report) });
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct SignatureHintsObject {
    path: String,
    height: u32,
    bestblock: String,
    inputs: u64,
    bytes: u64,
    seconds: f64,
}

fn make_signatures(given: &HintsMake) -> Result<ExitCode, Failure> {
    let settings = load(&given.common, None)?;
    let options = &settings.options;
    let reporter = begin_read_only(&settings)?;
    let done = jobs::make_signature_hints(options, &given.file, &|event| reporter.event(event));
    reporter.finish();
    let report = done?;
    output::print(&if given.common.json {
        output::json(&SignatureHintsObject {
            path: report.path.display().to_string(),
            height: report.height.to_u32(),
            bestblock: report.best.to_string(),
            inputs: report.inputs,
            bytes: report.bytes,
            seconds: seconds(report.seconds),
        })
    } else {
        signature_lines(options.params.chain.name(), &report)
    });
    Ok(ExitCode::SUCCESS)
}

fn signature_lines(chain: &str, report: &SignatureHintsReport) -> String {
    let height = human::count(report.height.to_u32().into());
    [
        format!("hints about signatures of {chain} up to height {height}, block {}", report.best),
        row("inputs", human::count(report.inputs)),
        row("file", format!("{}, {}", report.path.display(), human::bytes(report.bytes))),
        row("time", human::duration(report.seconds)),
    ]
    .join("\n")
}

fn json(report: &HintsReport) -> String {
    output::json(&HintsObject {
        path: report.path.display().to_string(),
        height: report.height.to_u32(),
        bestblock: report.best.to_string(),
        unspent: report.unspent,
        bytes: report.bytes,
        seconds: seconds(report.seconds),
    })
}

fn lines(chain: &str, report: &HintsReport) -> String {
    let height = human::count(report.height.to_u32().into());
    [
        format!("hints of {chain} up to height {height}, block {}", report.best),
        row("unspent", human::count(report.unspent)),
        row("file", format!("{}, {}", report.path.display(), human::bytes(report.bytes))),
        row("time", human::duration(report.seconds)),
    ]
    .join("\n")
}
