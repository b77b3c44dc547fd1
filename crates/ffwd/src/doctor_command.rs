//! The commands `ffwd doctor`, which prints the defects of a data directory, and `ffwd repair`, which prints the
//! repairs.
//!
//! Absent on purpose: the list of defects and their detection (`node`).

use crate::args::doctor::{Doctor, Repair};
use crate::conf::OnLine;
use crate::exit_codes::{FAULT, INTERRUPTED};
use crate::options::{CoreOption, Place, values};
use crate::sync_command::{checked, load_with_peers};
use crate::{Failure, begin, begin_read_only, limits, load, output, private_files, signals, was_stopped};
use node::jobs::{self, Depth, Examination, Finding, RepairReport};
use primitives::human;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct FindingObject<'a> {
    kind: &'static str,
    what: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    found: &'a str,
    meaning: &'static str,
    command: &'a str,
    seconds: u64,
}

#[derive(Serialize)]
struct DoctorObject<'a> {
    chain: &'static str,
    datadir: String,
    deep: bool,
    findings: Vec<FindingObject<'a>>,
    findings_left_off: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_use: Option<&'a str>,
}

impl<'a> From<&'a Finding> for FindingObject<'a> {
    fn from(finding: &'a Finding) -> FindingObject<'a> {
        let texts = finding.kind.texts();
        FindingObject {
            kind: texts.name,
            what: texts.what,
            path: finding.path.display().to_string(),
            offset: finding.offset,
            height: finding.height.map(|height| height.to_u32()),
            hash: finding.hash.map(|hash| hash.to_string()),
            found: &finding.detail,
            meaning: texts.meaning,
            command: &finding.command,
            seconds: finding.seconds,
        }
    }
}

/// `ffwd doctor`.
///
/// # Errors
///
/// [`Failure`].
pub(crate) fn run(given: &Doctor) -> Result<ExitCode, Failure> {
    let mut settings = load(&given.common, None)?;
    // Whether the configuration enables pruning. An invalid value is ignored here; the commands that prune
    // reject it.
    let prune = settings.files.value(None, "prune", |setting| values::prune(setting.value.text()));
    settings.options.prune = prune.ok().flatten().unwrap_or_default();
    let reporter = begin_read_only(&settings)?;
    let depth = if given.deep { Depth::Deep } else { Depth::Quick };
    let done = jobs::doctor(&settings.options, depth, &|event| reporter.event(event));
    reporter.finish();
    let found = done?;
    if given.common.json {
        let object = DoctorObject {
            chain: settings.options.params.chain.name(),
            datadir: settings.options.datadir.display().to_string(),
            deep: given.deep,
            findings: found.findings.iter().map(FindingObject::from).collect(),
            findings_left_off: found.left_off,
            in_use: found.in_use.as_deref(),
        };
        output::print(&output::json(&object));
    } else {
        output::print(&lines(&found, depth));
    }
    Ok(if found.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAULT) })
}

/// Groups of options that a repair does not use: it has no server, runs no commands, and no job before itself; its log is
/// debug.log.
const NOT_IN_REPAIR: [Place; 4] = [Place::Before, Place::Server, Place::Notify, Place::OwnFiles];
/// Further options that a repair does not use: it sets no bans.
const NAMES_NOT_IN_REPAIR: [&str; 1] = ["bantime"];

fn is_not_in_repair(option: &CoreOption) -> bool {
    let is_of_group = option.line.is_some_and(|line| NOT_IN_REPAIR.contains(&line.place));
    is_of_group || NAMES_NOT_IN_REPAIR.contains(&option.name)
}

#[derive(Serialize)]
struct RepairObject<'a> {
    chain: &'static str,
    datadir: String,
    done: &'a [String],
    blocks_fetched: u64,
    left: &'a [String],
}

/// `ffwd repair`.
///
/// # Errors
///
/// [`Failure`].
pub(crate) fn repair(given: &Repair, line: &OnLine) -> Result<ExitCode, Failure> {
    // It always ends, without peers too, so that nothing is to be checked for `--exit-at-tip`.
    let (settings, sync) = load_with_peers(&given.with_peers, false, line)?;
    let is_json = given.with_peers.common.json;
    if given.with_peers.check_configuration {
        output::print(&checked(&settings, is_not_in_repair, is_json));
        return Ok(ExitCode::SUCCESS);
    }
    private_files();
    let options = &settings.options;
    limits::check(options.par, options.dbcache_bytes)?;
    signals::heed_download(sync.download.switch.clone())?;
    let reporter = begin(&settings)?;
    let events = |event| reporter.event(event);
    #[cfg(feature = "server")]
    crate::serve::read_bans(&sync.peers.control, options, &events);
    let done = jobs::repair(options, &sync, &events);
    reporter.finish();
    let report = match done {
        Err(fault) if was_stopped(&fault, options, &reporter) => return Ok(ExitCode::from(INTERRUPTED)),
        done => done?,
    };
    if is_json {
        output::print(&output::json(&RepairObject {
            chain: options.params.chain.name(),
            datadir: options.datadir.display().to_string(),
            done: &report.done,
            blocks_fetched: report.fetched,
            left: &report.left,
        }));
    } else {
        output::print(&repair_lines(&report));
    }
    Ok(if report.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAULT) })
}

fn repair_lines(report: &RepairReport) -> String {
    if report.done.is_empty() && report.left.is_empty() {
        return "nothing to repair".to_owned();
    }
    let left = report.left.iter().map(|left| format!("left: {left}"));
    report.done.iter().cloned().chain(left).collect::<Vec<_>>().join("\n")
}

/// The findings as text.
fn lines(found: &Examination, depth: Depth) -> String {
    let mut lines: Vec<String> = found.findings.iter().map(finding_lines).collect();
    if found.left_off > 0 {
        lines.push(format!("and {} more findings", human::count(found.left_off)));
    }
    if let Some(program) = &found.in_use {
        lines.push(format!("in use by {program}: files that it is writing were not checked"));
    }
    if found.findings.is_empty() {
        let more = if depth == Depth::Quick { "; --deep reads every byte" } else { "" };
        lines.push(format!("no defect in what was checked{more}"));
    }
    lines.join("\n")
}

fn finding_lines(finding: &Finding) -> String {
    let texts = finding.kind.texts();
    let at = finding.offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
    format!(
        "{}{at}: {}: {}\n    {}\n    {}    (about {})",
        finding.path.display(),
        texts.what,
        finding.detail,
        texts.meaning,
        finding.command,
        human::duration(finding.seconds as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::jobs::Kind;
    use primitives::Height;

    fn finding(kind: Kind) -> Finding {
        Finding {
            kind,
            path: "/d/blocks/blk00007.dat".into(),
            offset: Some(8),
            height: Some(Height::new(5)),
            hash: None,
            detail: "150 blocks".to_owned(),
            swapped: None,
            command: "ffwd x".to_owned(),
            seconds: 12,
        }
    }

    #[test]
    fn each_finding_says_what_where_and_what_helps() {
        for kind in Kind::ALL {
            let found = finding(kind);
            let text = finding_lines(&found);
            let object = output::json(&FindingObject::from(&found));
            for want in ["blk00007.dat", "ffwd x", kind.texts().what, kind.texts().meaning] {
                assert!(text.contains(want) && object.contains(want), "{kind:?}: {want}");
            }
            assert!(object.contains("\"seconds\":12") && object.contains("\"height\":5"), "{object}");
        }
    }

    #[test]
    fn a_healthy_directory_is_said_to_be_so() {
        let none = Examination::default();
        assert!(lines(&none, Depth::Quick).contains("--deep"));
        assert_eq!(lines(&none, Depth::Deep), "no defect in what was checked");
        let findings = vec![finding(Kind::KeyLost)];
        let some = Examination { findings, left_off: 3, in_use: Some("ffwd".into()), ..none };
        let text = lines(&some, Depth::Deep);
        assert!(text.contains("and 3 more findings") && text.contains("in use by ffwd"), "{text}");
    }
}
