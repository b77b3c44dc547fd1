//! The command `ffwd lab micro`: parses options, prints tables. The crate `micro` has the experiments.

use crate::args::lab::LabMicro;
use crate::demo_command::LAB_ADVICE;
use crate::progress::say;
use crate::{Failure, output};
use std::process::ExitCode;

/// Minimum speed-up over the shipped variant, in percent and beyond both error margins, for a variant to be
/// named.
const FASTER_PERCENT: f64 = 10.0;

pub(crate) fn run(given: &LabMicro) -> Result<ExitCode, Failure> {
    if given.list {
        output::print(&micro::list().join("\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let options = micro::Options {
        filter: given.filter.clone(),
        min_time: given.min_time,
        quick: given.quick,
        data: micro::default_data(),
        ..micro::Options::default()
    };
    let progress = |now: micro::Progress<'_>| say(&format!("{} of {}: {}", now.done + 1, now.total, now.experiment));
    let ran = match &given.compare {
        Some(path) => micro::Other::at(path).and_then(|other| micro::run_beside(&options, &other, progress)),
        None => micro::run(&options, progress),
    };
    let report = ran.map_err(|why| match why {
        micro::Error::NoSuch { .. } | micro::Error::Compare(_) => Failure::Usage(why.to_string()),
        _ => Failure::fault(why.to_string(), LAB_ADVICE),
    })?;
    output::print(if given.json { output::json(&report) } else { report.markdown() }.trim_end());
    if let Some(why) = &report.no_counters {
        say(why);
    }
    for (shipped, faster) in report.faster_than_shipped(FASTER_PERCENT) {
        say(&format!(
            "{}: {} is faster than {}, which ffwd ships",
            shipped.experiment, faster.variant, shipped.variant
        ));
    }
    for row in report.slower_than_other() {
        say(&format!("slower than in the other run: {row}"));
    }
    match report.disagreements() {
        wrong if wrong.is_empty() => Ok(ExitCode::SUCCESS),
        wrong => {
            let what = format!("variants disagree with the plain one: {}", wrong.join("; "));
            Err(Failure::fault(what, "Do not use these variants; please report this"))
        }
    }
}
