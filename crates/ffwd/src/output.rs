//! Results on standard output: one JSON object on one line, or text. Nothing else is written there.
//!
//! Field names are gettxoutsetinfo's where it has them. Absent on purpose: computations, apart from rates.

pub(crate) use crate::standard_output::print;

use kernels::Kernels;
use node::Message;
use node::jobs::{DataDirInfo, Failed, Forecast, InUse, VerifyReport};
use node::reporting::JobReport;
use node::stats::{STAGES, Snapshot};
use node::utxo_stats::{SetInfo, Tally};
use primitives::{Height, human};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::path::Path;
use std::time::Duration;

/// Busy time of a stage over all threads, number of tasks, their queueing time, and mean length of the queue.
#[derive(Serialize)]
struct StageTime {
    busy_seconds: f64,
    tasks: u64,
    waiting_seconds: f64,
    queue_depth: f64,
}

/// The stages in pipeline order.
struct Stages<'a>(&'a JobReport);

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(STAGES.iter().enumerate().map(|(index, (_, name))| {
            let stats = &self.0.stats;
            let busy_seconds = seconds(stats.busy[index].as_secs_f64());
            let waiting = stats.waited[index].as_secs_f64();
            let waiting_seconds = seconds(waiting);
            let queue_depth = seconds(waiting / self.0.seconds.max(1e-6));
            (name, StageTime { busy_seconds, tasks: stats.tasks[index], waiting_seconds, queue_depth })
        }))
    }
}

/// Seconds rounded to microseconds; more digits are noise.
pub(crate) fn seconds(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// An amount as gettxoutsetinfo prints it: a number with eight decimals.
pub(crate) fn amount(satoshi: i64) -> Box<RawValue> {
    RawValue::from_string(human::btc(satoshi)).expect("digits around a point are a JSON number")
}

/// Hash of the UTXO set, keyed by the name of its algorithm.
#[derive(Default)]
struct NamedHash {
    serialized: Option<String>,
    muhash: Option<String>,
}

impl NamedHash {
    fn of(set: &SetInfo) -> NamedHash {
        match set.hash {
            Some(("muhash", hash)) => NamedHash { muhash: Some(hash.to_string()), serialized: None },
            Some((_, hash)) => NamedHash { serialized: Some(hash.to_string()), muhash: None },
            None => NamedHash::default(),
        }
    }
}

#[derive(Serialize)]
struct JobObject<'a> {
    chain: &'a str,
    height: u32,
    bestblock: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    txouts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bogosize: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_amount: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
    blocks: u64,
    transactions: u64,
    inputs: u64,
    outputs: u64,
    seconds: f64,
    height_start: u32,
    blocks_invalid: u64,
    bytes: u64,
    scripts_verified: u64,
    coins_asked: u64,
    coins_spent: u64,
    names_asked: u64,
    coins_in_memory: u64,
    coins_in_memory_max: u64,
    coin_bytes: u64,
    coin_bytes_max: u64,
    flushes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without: Vec<&'static str>,
    stopped: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undelivered: Vec<Undelivered>,
    headers: u32,
    records_damaged: Vec<DamagedObject<'a>>,
    records_of_another_chain: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_reason: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    stages: Stages<'a>,
}

/// A block that peers announced but none sent.
#[derive(Serialize)]
struct Undelivered {
    height: u32,
    hash: String,
}

/// A damaged record of a block file.
#[derive(Serialize)]
struct DamagedObject<'a> {
    file: &'a Path,
    offset: u64,
}

/// The names of the disabled optimizations. Empty without the feature `ablation`.
fn left_out(kernels: Kernels) -> Vec<&'static str> {
    #[cfg(feature = "ablation")]
    return kernels.left_out();
    #[cfg(not(feature = "ablation"))]
    {
        let _ = kernels;
        Vec::new()
    }
}

/// Result of a reindex, import or sync, as JSON. `set` is absent if the job was stopped early.
pub(crate) fn job_json(chain: &str, kernels: Kernels, report: &JobReport, set: Option<&SetInfo>) -> String {
    let hash = set.map(NamedHash::of).unwrap_or_default();
    let stats = &report.stats;
    json(&JobObject {
        chain,
        height: report.height.to_u32(),
        bestblock: report.best.to_string(),
        txouts: set.map(|set| set.txouts),
        bogosize: set.map(|set| set.bogosize),
        total_amount: set.map(|set| amount(set.total_amount)),
        hash_serialized_3: hash.serialized,
        muhash: hash.muhash,
        blocks: report.blocks,
        transactions: report.transactions,
        inputs: stats.inputs,
        outputs: stats.outputs,
        seconds: seconds(report.seconds),
        height_start: report.height_start.to_u32(),
        blocks_invalid: report.blocks_invalid,
        bytes: report.bytes,
        scripts_verified: stats.scripts,
        coins_asked: stats.asked,
        coins_spent: stats.spends,
        names_asked: stats.probed,
        coins_in_memory: stats.coins,
        coins_in_memory_max: stats.coins_max,
        coin_bytes: stats.coin_bytes,
        coin_bytes_max: stats.coin_bytes_max,
        flushes: stats.flushes,
        without: left_out(kernels),
        stopped: report.stopped,
        undelivered: undelivered(report),
        headers: report.headers.to_u32(),
        records_of_another_chain: report.other_chain_records,
        records_damaged: report
            .damaged
            .iter()
            .map(|one| DamagedObject { file: &one.path, offset: one.offset })
            .collect(),
        end_reason: report.end_reason.as_ref().map(Message::to_string),
        state: report.state.name(),
        warnings: &report.warnings,
        stages: Stages(report),
    })
}

fn undelivered(report: &JobReport) -> Vec<Undelivered> {
    report
        .undelivered
        .iter()
        .map(|(height, hash)| Undelivered { height: height.to_u32(), hash: hash.to_string() })
        .collect()
}

/// Result of a reindex, import or sync, as text.
pub(crate) fn job_lines(title: &str, chain: &str, report: &JobReport, set: Option<&SetInfo>) -> String {
    let stats = &report.stats;
    let mut lines = vec![format!(
        "{title} of {chain} to height {}, block {}",
        human::count(report.height.to_u32().into()),
        report.best
    )];
    let from = if report.height_start > Height::GENESIS {
        format!(", continued from height {}", human::count(report.height_start.to_u32().into()))
    } else {
        String::new()
    };
    let refused = if report.blocks_invalid > 0 {
        format!(", {} invalid", human::count(report.blocks_invalid))
    } else {
        String::new()
    };
    lines.push(row("blocks", format!("{} connected{refused}{from}", human::count(report.blocks))));
    lines.push(row("transactions", human::count(report.transactions)));
    lines.push(row("inputs", format!("{}; scripts verified: {}", human::count(stats.inputs), scripts(stats))));
    lines.push(row("outputs", human::count(stats.outputs)));
    lines.extend(set.map(set_rows).into_iter().flatten());
    lines.push(row("time", format!("{}: {}", human::duration(report.seconds), rates(report))));
    lines.push(row("busy", busy(stats)));
    lines.push(row("queues", queues(report)));
    lines.push(row("look-ups", look_ups(stats)));
    lines.push(row("memory", memory(stats)));
    lines.extend(report.warnings.iter().map(|warning| row("warning", warning)));
    if let Some(why) = &report.end_reason {
        lines.push(row(
            "incomplete",
            format!("headers go on to height {}; {why}", human::count(report.headers.to_u32().into())),
        ));
    }
    if report.stopped {
        lines.push("stopped; the same command continues from here".to_owned());
    }
    lines.join("\n")
}

pub(crate) fn row(name: &str, value: impl std::fmt::Display) -> String {
    format!("  {name:<14}{value}")
}

fn scripts(stats: &Snapshot) -> String {
    match stats.scripts {
        0 => "none".to_owned(),
        all if all >= stats.inputs => "all".to_owned(),
        some => human::count(some),
    }
}

fn set_rows(set: &SetInfo) -> Vec<String> {
    let mut rows =
        vec![row("UTXO set", format!("{} coins, {} BTC", human::count(set.txouts), human::btc(set.total_amount)))];
    rows.extend(set.hash.map(|(name, hash)| row("hash", format!("{name} {hash}"))));
    rows
}

/// Blocks, inputs and bytes per second.
fn rates(report: &JobReport) -> String {
    let stats = &report.stats;
    let per_second = |number: u64| human::figure(number as f64 / report.seconds.max(1e-6));
    let blocks = per_second(report.blocks);
    let inputs = per_second(stats.inputs);
    format!(
        "{blocks} blocks, {inputs} inputs, {} MB per second",
        human::figure(stats.bytes as f64 / 1e6 / report.seconds.max(1e-6))
    )
}

/// Busy time of the stages, the longest first.
fn busy(stats: &Snapshot) -> String {
    let mut stages: Vec<(Duration, &str)> =
        STAGES.iter().enumerate().map(|(i, (_, name))| (stats.busy[i], *name)).collect();
    stages.retain(|(time, _)| *time >= Duration::from_millis(5));
    stages.sort_by(|a, b| b.cmp(a));
    if stages.is_empty() {
        return "no stage took 5 ms".to_owned();
    }
    stages
        .iter()
        .map(|(time, name)| format!("{name} {}", human::duration(time.as_secs_f64())))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Mean number of tasks queued for each stage, the largest first. For reading: its share of waiting time.
fn queues(report: &JobReport) -> String {
    let depth = |waited: Duration| waited.as_secs_f64() / report.seconds.max(1e-6);
    let mut stages: Vec<(f64, &str)> =
        STAGES.iter().enumerate().map(|(i, (_, name))| (depth(report.stats.waited[i]), *name)).collect();
    stages.retain(|(depth, _)| *depth >= 0.1);
    stages.sort_by(|a, b| b.0.total_cmp(&a.0));
    if stages.is_empty() {
        return "no stage had a queue".to_owned();
    }
    stages.iter().map(|(depth, name)| format!("{name} {depth:.1}")).collect::<Vec<_>>().join(", ")
}

fn memory(stats: &Snapshot) -> String {
    format!("peak {} coins in {} MiB", human::count(stats.coins_max), human::count(stats.coin_bytes_max >> 20))
}

fn look_ups(stats: &Snapshot) -> String {
    let asked = human::count(stats.asked);
    let spends = human::count(stats.spends);
    let share = stats.asked as f64 * 100.0 / stats.spends.max(1) as f64;
    let flushes = human::plural(stats.flushes, "flush", "flushes");
    format!("cache misses {asked} of {spends} spent coins ({share:.1} %); {flushes}")
}

#[derive(Serialize)]
struct SetObject {
    height: u32,
    bestblock: String,
    txouts: u64,
    bogosize: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_serialized_3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    muhash: Option<String>,
    total_amount: Box<RawValue>,
    disk_size: u64,
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    stats: Option<StatsObject>,
}

/// Coins of one kind.
#[derive(Serialize)]
struct TallyObject {
    coins: u64,
    amount: Box<RawValue>,
    script_bytes: u64,
}

impl TallyObject {
    fn of(tally: Tally) -> TallyObject {
        TallyObject { coins: tally.coins, amount: amount(tally.amount), script_bytes: tally.script_bytes }
    }
}

/// The composition of a UTXO set.
#[derive(Serialize)]
struct StatsObject {
    script_types: Map<&'static str, TallyObject>,
    script_lengths: Map<usize, u64>,
    ages: Map<&'static str, TallyObject>,
}

/// A list of pairs, serialized as an object.
struct Map<K, V>(Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Map<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl StatsObject {
    fn of(set: &SetInfo) -> Option<StatsObject> {
        let stats = set.stats.as_ref()?;
        Some(StatsObject {
            script_types: Map(stats.types().map(|(name, tally)| (name, TallyObject::of(tally))).collect()),
            script_lengths: Map(stats.lengths().collect()),
            ages: Map(stats.ages(set.height).into_iter().map(|(name, tally)| (name, TallyObject::of(tally))).collect()),
        })
    }
}

/// The UTXO set as gettxoutsetinfo prints it.
pub(crate) fn set_json(set: &SetInfo) -> String {
    let hash = NamedHash::of(set);
    json(&SetObject {
        height: set.height.to_u32(),
        bestblock: set.best.to_string(),
        txouts: set.txouts,
        bogosize: set.bogosize,
        hash_serialized_3: hash.serialized,
        muhash: hash.muhash,
        total_amount: amount(set.total_amount),
        disk_size: set.disk_size,
        stats: StatsObject::of(set),
    })
}

/// The UTXO set as text.
pub(crate) fn set_lines(chain: &str, set: &SetInfo) -> String {
    let mut lines =
        vec![format!("UTXO set of {chain} at height {}, block {}", human::count(set.height.to_u32().into()), set.best)];
    lines.extend(set_rows(set));
    lines.push(row("bogosize", human::count(set.bogosize)));
    lines.push(row("on disk", human::bytes(set.disk_size)));
    lines.extend(stats_rows(set));
    lines.join("\n")
}

/// Maximum number of rows in the table of script lengths.
const LENGTHS_MAX: usize = 12;

/// Script types, ages and lengths of scripts, each with its share of the coins.
fn stats_rows(set: &SetInfo) -> Vec<String> {
    let Some(stats) = &set.stats else { return Vec::new() };
    let share = |coins: u64| format!("{:5.1} %", coins as f64 * 100.0 / set.txouts.max(1) as f64);
    let line = |name: &str, coins: u64, rest: String| {
        format!("    {name:<24}{:>14}  {}{rest}", human::count(coins), share(coins))
    };
    let tally = |name: &str, tally: Tally| line(name, tally.coins, format!("{:>24} BTC", human::btc(tally.amount)));
    let mut rows = vec![row("script types", "coins, share, amount")];
    rows.extend(stats.types().map(|(name, of)| tally(name, of)));
    rows.push(row("ages", "blocks below the end, in days of 144"));
    rows.extend(stats.ages(set.height).into_iter().map(|(name, of)| {
        let name = if name == "older" {
            name.to_owned()
        } else {
            format!("up to a {name}").replace("a 2", "2").replace("a 5", "5")
        };
        tally(&name, of)
    }));
    let mut lengths: Vec<(usize, u64)> = stats.lengths().collect();
    let up_to =
        |bytes: usize| lengths.iter().filter(|(length, _)| *length <= bytes).map(|(_, coins)| coins).sum::<u64>();
    let small = up_to(28);
    let middle = up_to(36);
    rows.push(row("lengths", "of scripts in bytes, the most frequent ones"));
    rows.push(line("up to 28", small, String::new()));
    rows.push(line("up to 36", middle, String::new()));
    lengths.sort_by_key(|(length, coins)| (std::cmp::Reverse(*coins), *length));
    rows.extend(
        lengths.iter().take(LENGTHS_MAX).map(|(length, coins)| line(&length.to_string(), *coins, String::new())),
    );
    rows
}

#[derive(Serialize)]
struct VerifyObject<'a> {
    chain: &'a str,
    height: u32,
    bestblock: String,
    blocks: u32,
    level: u8,
    transactions: u64,
    seconds: f64,
}

/// Result of a successful verify.
pub(crate) fn verify_json(chain: &str, report: &VerifyReport) -> String {
    json(&VerifyObject {
        chain,
        height: report.height.to_u32(),
        bestblock: report.best.to_string(),
        blocks: report.blocks,
        level: report.level,
        transactions: report.transactions,
        seconds: seconds(report.seconds),
    })
}

/// Result of a successful verify, as text.
pub(crate) fn verify_lines(chain: &str, report: &VerifyReport) -> String {
    format!(
        "the last {} blocks of {chain} up to height {}, block {}, are valid at level {}: {} transactions in {}",
        human::count(report.blocks.into()),
        human::count(report.height.to_u32().into()),
        report.best,
        report.level,
        human::count(report.transactions),
        human::duration(report.seconds)
    )
}

#[derive(Serialize)]
struct FailedObject {
    height: u32,
    hash: String,
    descendants: u64,
}

/// Bytes of block files that the block index does not refer to.
#[derive(Serialize)]
struct UnindexedObject {
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct InfoObject<'a> {
    chain: String,
    height: u32,
    bestblock: String,
    headers: u64,
    blocks_bytes: u64,
    undo_bytes: u64,
    chainstate_bytes: u64,
    reindexing: bool,
    pruned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pruneheight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_blockhash: Option<String>,
    failed: Vec<FailedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unindexed: Option<UnindexedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_space: Option<SpaceObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_use: Option<InUseObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_xor_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
    next_step: &'a str,
}

#[derive(Serialize)]
struct SpaceObject {
    expected_bytes: u64,
    missing_bytes: u64,
    free_bytes: u64,
}

impl From<&Forecast> for SpaceObject {
    fn from(space: &Forecast) -> SpaceObject {
        SpaceObject {
            expected_bytes: space.blocks.expected_bytes + space.coins.expected_bytes,
            missing_bytes: space.missing_bytes(),
            free_bytes: space.blocks.free_bytes,
        }
    }
}

#[derive(Serialize)]
struct InUseObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    program: &'a str,
    ask: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unread: Option<&'a str>,
}

impl<'a> From<&'a InUse> for InUseObject<'a> {
    fn from(InUse { pid, program, question, unread }: &'a InUse) -> InUseObject<'a> {
        InUseObject { pid: *pid, program, ask: question, unread: unread.as_deref() }
    }
}

/// Contents of a data directory.
pub(crate) fn info_json(info: &DataDirInfo) -> String {
    json(&InfoObject {
        chain: info.chain.to_string(),
        height: info.height.to_u32(),
        bestblock: info.best.to_string(),
        headers: info.headers.to_u32().into(),
        blocks_bytes: info.blocks_bytes,
        undo_bytes: info.undo_bytes,
        chainstate_bytes: info.chainstate_bytes,
        reindexing: info.reindexing,
        pruned: info.prune_height.is_some(),
        pruneheight: info.prune_height.map(Height::to_u32),
        snapshot_blockhash: info.snapshot_base.map(|base| base.to_string()),
        failed: info
            .failed
            .iter()
            .map(|&Failed { height, hash, descendants, .. }| FailedObject {
                height: height.to_u32(),
                hash: hash.to_string(),
                descendants,
            })
            .collect(),
        unindexed: info.unindexed.as_ref().map(|found| UnindexedObject { files: found.files, bytes: found.bytes }),
        disk_space: info.space.as_ref().map(SpaceObject::from),
        in_use: info.in_use.as_ref().map(InUseObject::from),
        lost_xor_key: info.lost_key.as_deref(),
        remark: info.remark.as_deref(),
        warnings: &info.warnings,
        next_step: &info.next_step,
    })
}

/// `value` as JSON on one line.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structs of numbers, text and lists have a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{BlockHash, Hash256};
    use serde_json::Value;

    fn report() -> JobReport {
        let mut report = JobReport {
            height: Height::new(206),
            best: BlockHash::from_bytes([7; 32]),
            blocks: 206,
            seconds: 0.5,
            ..JobReport::default()
        };
        (report.stats.transactions, report.stats.inputs, report.stats.outputs) = (300, 94, 500);
        (report.stats.scripts, report.stats.spends, report.stats.asked, report.stats.bytes) = (94, 94, 1, 100_000);
        report.stats.busy[1] = Duration::from_micros(1_500_000);
        report.stats.waited[1] = Duration::from_millis(250);
        report.stats.tasks[1] = 206;
        report
    }

    fn set(hash: Option<&'static str>) -> SetInfo {
        SetInfo {
            height: Height::new(206),
            best: BlockHash::from_bytes([7; 32]),
            transactions: Some(1),
            txouts: 207,
            bogosize: 15_318,
            total_amount: 875_000_000_001,
            hash: hash.map(|name| (name, Hash256([9; 32]))),
            disk_size: 12_345,
            stats: None,
        }
    }

    fn keys(text: &str) -> Vec<String> {
        assert!(!text.contains('\n'), "one line: {text}");
        let Value::Object(object) = serde_json::from_str(text).unwrap() else { panic!("no object: {text}") };
        object.keys().cloned().collect()
    }

    #[test]
    fn json_objects_have_exactly_their_fields() {
        const JOB: &str = "blocks blocks_invalid bestblock bogosize chain coins_asked coins_spent flushes height height_start \
                           inputs outputs bytes headers records_damaged records_of_another_chain names_asked coins_in_memory coins_in_memory_max coin_bytes coin_bytes_max scripts_verified seconds stages state stopped total_amount transactions txouts";
        const INFO: &str = "bestblock blocks_bytes chain chainstate_bytes failed headers height next_step pruned reindexing undo_bytes";
        const SET: &str = "bestblock bogosize disk_size height total_amount txouts";
        let info = DataDirInfo {
            failed: vec![Failed {
                height: Height::new(5),
                hash: BlockHash::from_bytes([3; 32]),
                descendants: 2,
                shuts_out: true,
            }],
            next_step: "nothing".into(),
            ..DataDirInfo::default()
        };
        for (row, text, want) in [
            ("job", job_json("regtest", Kernels::AUTO, &report(), Some(&set(None))), JOB.to_owned()),
            (
                "job, hashed",
                job_json("regtest", Kernels::AUTO, &report(), Some(&set(Some("hash_serialized_3")))),
                format!("{JOB} hash_serialized_3"),
            ),
            (
                "job, muhash",
                job_json("regtest", Kernels::AUTO, &report(), Some(&set(Some("muhash")))),
                format!("{JOB} muhash"),
            ),
            (
                "job, stopped",
                job_json("regtest", Kernels::AUTO, &report(), None),
                JOB.replace("bogosize ", "").replace("total_amount ", "").replace(" txouts", ""),
            ),
            (
                "job, blocks not delivered",
                job_json(
                    "regtest",
                    Kernels::AUTO,
                    &JobReport {
                        undelivered: vec![(primitives::Height::new(207), BlockHash::from_bytes([8; 32]))],
                        ..report()
                    },
                    Some(&set(None)),
                ),
                format!("{JOB} undelivered"),
            ),
            (
                "job, ended by damage",
                job_json(
                    "regtest",
                    Kernels::AUTO,
                    &JobReport { end_reason: Some(Message::new("damage", "Run ffwd sync")), ..report() },
                    Some(&set(None)),
                ),
                format!("{JOB} end_reason"),
            ),
            ("set", set_json(&set(None)), SET.to_owned()),
            ("set, muhash", set_json(&set(Some("muhash"))), format!("{SET} muhash")),
            ("set, hashed", set_json(&set(Some("hash_serialized_3"))), format!("{SET} hash_serialized_3")),
            (
                "verify",
                verify_json("main", &VerifyReport::default()),
                "bestblock blocks chain height level seconds transactions".to_owned(),
            ),
            ("info", info_json(&info), INFO.to_owned()),
            (
                "info, pruned",
                info_json(&DataDirInfo { prune_height: Some(Height::new(7)), ..info.clone() }),
                format!("{INFO} pruneheight"),
            ),
            (
                "info, beside a program",
                info_json(&DataDirInfo {
                    in_use: Some(InUse {
                        pid: Some(12),
                        program: "ffwd (process 12)".into(),
                        question: "bitcoin-cli getblockchaininfo".into(),
                        unread: None,
                    }),
                    ..info.clone()
                }),
                format!("{INFO} in_use"),
            ),
            (
                "info, of another directory",
                info_json(&DataDirInfo { remark: Some("files of main".into()), ..info.clone() }),
                format!("{INFO} remark"),
            ),
            (
                "info, with a snapshot",
                info_json(&DataDirInfo { snapshot_base: Some(BlockHash::from_bytes([2; 32])), ..info.clone() }),
                format!("{INFO} snapshot_blockhash"),
            ),
        ] {
            let mut want: Vec<&str> = want.split_whitespace().collect();
            want.sort_unstable();
            assert_eq!(keys(&text), want, "{row}: {text}");
        }
    }

    #[test]
    fn json_values_are_written_as_in_core() {
        let text = job_json("regtest", Kernels::AUTO, &report(), Some(&set(Some("muhash"))));
        for want in [
            "\"total_amount\":8750.00000001,",
            "\"chain\":\"regtest\",\"height\":206,\"bestblock\":\"0707",
            "\"muhash\":\"0909",
            "\"stages\":{\"read\":{\"busy_seconds\":0.0,\"tasks\":0,\"waiting_seconds\":0.0,\"queue_depth\":0.0},",
            "\"decode\":{\"busy_seconds\":1.5,\"tasks\":206,\"waiting_seconds\":0.25,\"queue_depth\":0.5}",
        ] {
            assert!(text.contains(want), "{want} in {text}");
        }
        assert!(set_json(&SetInfo::default()).contains("\"total_amount\":0.00000000,"));
    }

    #[test]
    fn lines_have_counts_units_and_rates() {
        let lines = job_lines(
            "reindex",
            "regtest",
            &JobReport { stopped: true, blocks_invalid: 2, ..report() },
            Some(&set(Some("muhash"))),
        );
        for want in [
            "reindex of regtest to height 206",
            "206 connected, 2 invalid",
            "94; scripts verified: all",
            "207 coins, 8750.00000001 BTC",
            "muhash 0909",
            "412 blocks, 188 inputs, 0.20 MB per second",
            "decode 1.50 s",
            "1 of 94 spent coins (1.1 %); 0 flushes",
            "stopped; the same command continues",
        ] {
            assert!(lines.contains(want), "{want} in\n{lines}");
        }
        assert!(set_lines("main", &set(None)).contains("12.3 kB"));
        assert!(
            verify_lines("main", &VerifyReport { blocks: 6, level: 3, ..VerifyReport::default() })
                .contains("last 6 blocks")
        );
    }
}
