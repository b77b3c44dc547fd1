//! The command `ffwd audit`: parses options, prints the record or the verdict. The crate `audit` does the work.

use crate::args::audit::{Audit, AuditCoins, AuditJoin, AuditPart, AuditPlan, Files, Secret};
use crate::args::{Common, Overwrite};
use crate::output::{self, row};
use crate::settings::{Settings, hints_used, signature_hints};
use crate::{Failure, begin_read_only, load, out_file, written_file};
use audit::{BlocksRecord, CoinsRecord, Finding, Keys, Kind, Record, Refusal, Salt, Verdict};
use node::options;
use primitives::human;
use serde::Serialize;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

/// Input limit in bytes: above the size of any record, or of a salt with white space around it.
const INPUT_BYTES_MAX: u64 = 1 << 20;

/// Advice printed when an audit fails.
const FINDING_ADVICE: &str = "docs/audit.md explains each finding; on a failing drive, copy the files and try again";

/// Runs one of the commands.
pub(crate) fn run(command: &Audit) -> Result<ExitCode, Failure> {
    match command {
        Audit::Plan(given) => plan(given),
        Audit::Part(given) => part(given),
        Audit::Coins(given) => coins(given),
        Audit::Join(given) => join(given),
    }
}

/// Reads a small file or standard input. `wanted` names its contents and their origin, for the error message.
fn read(path: &Path, wanted: &str) -> Result<String, Failure> {
    let failed = |why: std::io::Error| {
        Failure::fault(
            format!("{}: wanted {wanted}, it cannot be read: {why}", path.display()),
            "Name a file that this user may read",
        )
    };
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().take(INPUT_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    } else {
        fs::File::open(path).map_err(failed)?.take(INPUT_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    }
    Ok(text)
}

fn salt(secret: &Secret) -> Result<Salt, Failure> {
    const WANTED: &str = "a salt, 64 hexadecimal digits (openssl rand -hex 32)";
    let text = read(&secret.salt, WANTED)?;
    // The text is a secret: it is not shown.
    Salt::from_hex(&text).ok_or_else(|| {
        let what = format!("{}: wanted {WANTED}", secret.salt.display());
        Failure::fault(what, "Make one: openssl rand -hex 32 > FILE")
    })
}

/// Settings of a read-only command. Another process may serve the files, over the socket of `--files`.
pub(crate) fn settings(common: &Common, files: &Files) -> Result<Settings, Failure> {
    let mut settings = load(common, None)?;
    if let Some(socket) = &files.files {
        settings.options.disk = options::served_disk(socket, &settings.options.datadir);
    }
    Ok(settings)
}

/// Refuses an output file that exists, before any work is done.
fn check_free(out: Option<&Path>, overwrite: Overwrite) -> Result<(), Failure> {
    out.map_or(Ok(()), |out| out_file::check_free(out, overwrite.force))
}

#[derive(Serialize)]
struct PlanObject {
    height: u32,
    bestblock: String,
    ranges: Vec<[u64; 3]>,
}

fn plan(given: &AuditPlan) -> Result<ExitCode, Failure> {
    check_free(given.out.as_deref(), given.overwrite)?;
    let settings = settings(&given.common, &given.files)?;
    let plan = audit::plan(&settings.options, given.from, given.to, given.parts as usize)?;
    if let Some(out) = &given.out {
        written_file::write(out, &audit::encode_plan(&settings.options)?, given.overwrite.force)?;
    }
    if given.common.json {
        let ranges = plan.ranges.iter().map(|(from, to, bytes)| [u64::from(*from), u64::from(*to), *bytes]).collect();
        let height = plan.ranges.last().map_or(0, |(_, to, _)| *to);
        output::print(&output::json(&PlanObject { height, bestblock: plan.best.to_string(), ranges }));
    } else {
        let lines = plan.ranges.iter().map(|(from, to, bytes)| format!("{from} {to} {}", human::bytes(*bytes)));
        output::print(&lines.collect::<Vec<_>>().join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A finding as JSON, for programs that run parts. It includes whether a retry may help.
#[derive(Serialize)]
struct FindingObject<'f> {
    ok: bool,
    from: u32,
    to: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    kind: &'static str,
    why: &'f str,
}

fn part(given: &AuditPart) -> Result<ExitCode, Failure> {
    check_free(given.secret.out.as_deref(), given.secret.overwrite)?;
    let mut settings = settings(&given.common, &given.files)?;
    settings.options.signature_hints = signature_hints(&given.signature_hints)?;
    let salt = salt(&given.secret)?;
    let reporter = begin_read_only(&settings)?;
    let done = audit::part(&settings.options, &salt, given.from, given.to, given.plan.as_deref());
    reporter.finish();
    hints_used(&settings.options).into_iter().for_each(|line| reporter.say(&line));
    let record = match done {
        Ok(record) => record,
        Err(finding) => return Err(found(&finding, given.common.json)),
    };
    write(&record, &given.secret, given.common.json)
}

fn found(finding: &Finding, json: bool) -> Failure {
    if json {
        let kind = match finding.kind {
            Kind::Invalid => "invalid",
            Kind::Fault => "fault",
        };
        let (from, to) = finding.range;
        let height = finding.height;
        output::print(&output::json(&FindingObject { ok: false, from, to, height, kind, why: &finding.why }));
    }
    Failure::fault(finding.to_string(), FINDING_ADVICE)
}

fn coins(given: &AuditCoins) -> Result<ExitCode, Failure> {
    check_free(given.secret.out.as_deref(), given.secret.overwrite)?;
    let settings = settings(&given.common, &given.files)?;
    let salt = salt(&given.secret)?;
    let reporter = begin_read_only(&settings)?;
    let done = audit::coins(&settings.options, &salt, given.keys.unwrap_or(Keys::ALL), given.hash.into());
    reporter.finish();
    write(&done?, &given.secret, given.common.json)
}

/// Writes the record to its file, or prints it.
fn write(record: &Record, secret: &Secret, json: bool) -> Result<ExitCode, Failure> {
    let text = record.to_text();
    let Some(out) = &secret.out else {
        output::print(&text);
        return Ok(ExitCode::SUCCESS);
    };
    written_file::write(out, format!("{text}\n").as_bytes(), secret.overwrite.force)?;
    output::print(&if json { text } else { record_lines(record) });
    Ok(ExitCode::SUCCESS)
}

fn record_lines(record: &Record) -> String {
    match record {
        Record::Blocks(record) => blocks_lines(record),
        Record::Coins(record) => coins_lines(record),
    }
}

fn blocks_lines(record: &BlocksRecord) -> String {
    [
        format!("blocks {} to {} of {} are valid, every script verified", record.from, record.to, record.chain),
        row("last block", &record.last),
        row("transactions", human::count(record.transactions)),
        row("coins made", human::count(record.made_coins)),
        row("coins spent", human::count(record.spent_coins)),
        row("next", "ffwd audit join, with the records of all ranges and of the coins"),
    ]
    .join("\n")
}

fn coins_lines(record: &CoinsRecord) -> String {
    [
        format!("UTXO set of {} at height {}, block {}", record.chain, record.height, record.best),
        row("keys", format!("{:04x} to {:04x}", record.keys_from, record.keys_to)),
        row("coins", human::count(record.coins)),
        row("amount", human::btc(i64::try_from(record.amount).unwrap_or(i64::MAX))),
    ]
    .join("\n")
}

#[derive(Serialize)]
struct VerdictObject<'v> {
    ok: bool,
    chain: &'v str,
    height: u32,
    bestblock: &'v str,
    chainwork: &'v str,
    ranges: usize,
    transactions: u64,
    inputs: u64,
    outputs: u64,
    fees: u64,
    txouts: u64,
    bogosize: u64,
    total_amount: Box<serde_json::value::RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: &'v Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: &'v Option<String>,
}

#[derive(Serialize)]
struct RefusalObject<'r> {
    ok: bool,
    why: &'r str,
    ranges: &'r [(u32, u32)],
}

fn join(given: &AuditJoin) -> Result<ExitCode, Failure> {
    let mut records = Vec::new();
    for file in &given.files {
        records.push((file.display().to_string(), read(file, "a record of ffwd audit part or coins (--out)")?));
    }
    match audit::join(&records) {
        Ok(verdict) => {
            output::print(&if given.json { verdict_json(&verdict) } else { verdict_lines(&verdict) });
            Ok(ExitCode::SUCCESS)
        }
        Err(Refusal { why, ranges }) => {
            if given.json {
                output::print(&output::json(&RefusalObject { ok: false, why: &why, ranges: &ranges }));
            }
            Err(Failure::fault(why, FINDING_ADVICE))
        }
    }
}

fn signed(satoshi: u64) -> i64 {
    i64::try_from(satoshi).unwrap_or(i64::MAX)
}

fn verdict_json(verdict: &Verdict) -> String {
    output::json(&VerdictObject {
        ok: true,
        chain: &verdict.chain,
        height: verdict.height,
        bestblock: &verdict.best,
        chainwork: &verdict.work,
        ranges: verdict.parts.0,
        transactions: verdict.transactions,
        inputs: verdict.inputs,
        outputs: verdict.outputs,
        fees: verdict.fees,
        txouts: verdict.coins,
        bogosize: verdict.bogosize,
        total_amount: output::amount(signed(verdict.amount)),
        muhash: &verdict.muhash,
        hash_serialized_3: &verdict.hash_serialized_3,
    })
}

fn verdict_lines(verdict: &Verdict) -> String {
    let mut lines = vec![
        format!(
            "{} is valid from the genesis block to height {}, block {}",
            verdict.chain, verdict.height, verdict.best
        ),
        row("ranges", human::count(verdict.parts.0 as u64)),
        row("transactions", human::count(verdict.transactions)),
        row("inputs", format!("{}, every script verified", human::count(verdict.inputs))),
        row("work", &verdict.work),
        row("coins", human::count(verdict.coins)),
        row("amount", human::btc(signed(verdict.amount))),
    ];
    let hashes = [("muhash", &verdict.muhash), ("hash_serialized_3", &verdict.hash_serialized_3)];
    lines.extend(hashes.into_iter().filter_map(|(name, hash)| Some(row("hash", format!("{name} {}", hash.as_ref()?)))));
    lines.join("\n")
}
