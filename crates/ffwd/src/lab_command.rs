//! The command `ffwd lab`: parses options and runs a job of the lab.

use crate::args::lab::{Lab, LabChain, LabCommit, LabCores, LabEstimate, LabPlot, LabRun, LabWorst, PlotX};
use crate::demo_command::{LAB_ADVICE, make};
use crate::options::values::Dbcache;
use crate::progress::say;
use crate::signals;
use crate::{Failure, INTERRUPTED, out_file, output, settings, written_file};
use demo::chain::Signatures;
use demo::plot::{PlotError, PlotOptions, PlotReport};
use lab::run::{RunError, RunOptions};
use primitives::human;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Empty blocks that bury the full ones deep enough for `-assumevalid`, as the help says.
const TAIL: u32 = 2_100;
/// Message of a command that makes runs, at the first Ctrl-C.
const STOPPING_RUN: &str = "stopping: the run in progress is ended; a second Ctrl-C ends at once";
/// The chain of `lab cores --quick`.
const QUICK_BLOCKS: u32 = 4;
const QUICK_UTXOS: u64 = 20_000;

pub(crate) fn run(given: &Lab) -> Result<ExitCode, Failure> {
    match given {
        Lab::Chain(given) => chain(given),
        Lab::Worst(given) => worst(given),
        #[cfg(feature = "micro")]
        Lab::Micro(given) => crate::micro_command::run(given),
        Lab::Run(given) => plan(given),
        Lab::Commit(given) => commit(given),
        Lab::Cores(given) => cores(given),
        Lab::Estimate(given) => estimate(given),
        Lab::Plot(given) => plot(given),
    }
}

/// Sets `stop` and prints `line` at the first Ctrl-C; exits the program at a later one.
fn stop_at_ctrl_c(stop: &Arc<AtomicBool>, line: &'static str) -> Result<(), Failure> {
    let stop = stop.clone();
    signals::heed(signals::Hangup::Ends, move |at_once| {
        if at_once {
            std::process::exit(INTERRUPTED.into());
        }
        if !stop.swap(true, Ordering::SeqCst) {
            say(line);
        }
    })
}

fn chain(given: &LabChain) -> Result<ExitCode, Failure> {
    let options = demo::chain::Options {
        out: given.out.clone(),
        blocks: given.blocks,
        seed: given.seed,
        utxos: given.utxos,
        tail: given.tail,
        signatures: given.signatures,
        profile: given.profile,
        threads: given.par,
    };
    let report = make(&options)?;
    output::print(&if given.json { output::json(&report) } else { lines(&options, &report) });
    Ok(ExitCode::SUCCESS)
}

fn lines(options: &demo::chain::Options, report: &demo::chain::Report) -> String {
    // Without that block the chain would be rejected.
    let assumed = match options.signatures {
        Signatures::Fake if options.tail < TAIL => {
            format!("\n  its signatures do not verify, and without --tail {TAIL} they cannot be assumed to")
        }
        Signatures::Fake => format!("\n  its signatures do not verify: give --assumevalid {}", report.bestblock),
        Signatures::Real => String::new(),
    };
    format!(
        "chain in {} to height {}, block {}\n  {} full blocks like {} with {} signatures, {} in all\n  \
         {} transactions, {} inputs, {} outputs, {} coins\n  made in {}{assumed}",
        options.out.display(),
        human::count(report.height.into()),
        report.bestblock,
        human::count(report.blocks_full.into()),
        options.profile,
        options.signatures,
        human::bytes(report.bytes),
        human::count(report.transactions),
        human::count(report.inputs),
        human::count(report.outputs),
        human::count(report.txouts),
        human::duration(report.seconds)
    )
}

fn worst(given: &LabWorst) -> Result<ExitCode, Failure> {
    let made = demo::worst::generate(&given.out, given.kind);
    let report = made.map_err(|why| Failure::fault(why.to_string(), LAB_ADVICE))?;
    output::print(&if given.json { output::json(&report) } else { worst_lines(given, &report) });
    Ok(ExitCode::SUCCESS)
}

fn worst_lines(given: &LabWorst, report: &demo::worst::WorstReport) -> String {
    let valid = if report.height_valid == report.height {
        "valid".to_owned()
    } else {
        format!("invalid: a node ends at height {}", human::count(report.height_valid.into()))
    };
    format!(
        "chain in {} to height {}, block {}\n  {} of the kind {}, {valid}\n  {} in all, the largest block has {}\n  made in {}",
        given.out.display(),
        human::count(report.height.into()),
        report.bestblock,
        human::plural(report.blocks_worst.into(), "block", "blocks"),
        report.kind,
        human::bytes(report.bytes),
        human::bytes(report.largest_block_bytes),
        human::duration(report.seconds)
    )
}

fn plan(given: &LabRun) -> Result<ExitCode, Failure> {
    let Some(plan) = given.plan.as_ref().filter(|_| !given.example) else {
        output::print(lab::run::EXAMPLE.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let mut options = RunOptions::new(plan, given.out.clone().unwrap_or_else(|| results_of(plan)));
    options.resume = given.resume;
    options.only.clone_from(&given.only);
    options.profile = given.profile;
    stop_at_ctrl_c(&options.stop, STOPPING_RUN)?;
    let report = match lab::run::run(&options) {
        Ok(report) => report,
        Err(stopped @ RunError::Stopped { .. }) => {
            say(&stopped.to_string());
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(why @ RunError::Only { .. }) => return Err(Failure::Usage(why.to_string())),
        Err(why) => return Err(Failure::fault(why.to_string(), LAB_ADVICE)),
    };
    output::print(&if given.json { output::json(&report) } else { cells(&report, &options.out) });
    Ok(ExitCode::SUCCESS)
}

fn commit(given: &LabCommit) -> Result<ExitCode, Failure> {
    let threads = settings::workers(given.par.unwrap_or(0));
    let options = lab::commit::CommitOptions {
        datadir: given.datadir.clone(),
        chain: given.chain,
        dbcache_bytes: settings::dbcache_bytes(given.dbcache.unwrap_or(Dbcache::Auto), threads),
        threads,
    };
    let report = lab::commit::commit(&options).map_err(|why| Failure::fault(why.to_string(), LAB_ADVICE))?;
    output::print(&if given.json { output::json(&report) } else { committed(&report) });
    Ok(ExitCode::SUCCESS)
}

fn cores(given: &LabCores) -> Result<ExitCode, Failure> {
    let out = if given.out.is_dir() { given.out.join("cores.json") } else { given.out.clone() };
    out_file::check_free(&out, given.overwrite.force)?;
    let options = lab::cores::CoresOptions {
        directory: out.with_extension("work"),
        blocks: if given.quick { QUICK_BLOCKS } else { given.blocks },
        utxos: if given.quick { QUICK_UTXOS } else { given.utxos },
        threads: given.par.map_or(0, NonZeroUsize::get),
        repeats: if given.quick { 1 } else { given.repeats },
        bitcoind: given.bitcoind.clone(),
        stop: Arc::default(),
    };
    stop_at_ctrl_c(&options.stop, STOPPING_RUN)?;
    let report = match lab::cores::measure(&options, crate::args::VERSION, &mut |line| say(line)) {
        Ok(report) => report,
        Err(lab::cores::Error::Run(RunError::Stopped { .. })) => return Ok(ExitCode::from(INTERRUPTED)),
        Err(why) => return Err(Failure::fault(why.to_string(), LAB_ADVICE)),
    };
    written_file::write(&out, &demo::result::json(&report), given.overwrite.force)?;
    output::print(&scaled(&report));
    Ok(ExitCode::SUCCESS)
}

fn scaled(report: &lab::cores::CoresReport) -> String {
    let row = |row: &lab::cores::Row| {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        format!(
            "| {} | {} | {} | {:.2} | {} | {} | {} |\n",
            row.program,
            row.scripts,
            row.threads,
            row.seconds,
            number(row.cpu_seconds),
            number(row.speedup),
            number(row.model_seconds)
        )
    };
    let rows: String = report.rows.iter().map(row).collect();
    let memory =
        |one: &lab::cores::Bandwidth| format!("{} threads {:.1} GB/s", one.threads, one.bytes_per_second / 1e9);
    let memory: Vec<String> = report.memory_bandwidth.iter().map(memory).collect();
    format!(
        "| program | scripts | threads | seconds | processor s | times one thread | model, seconds |\n\
         |---|---|---:|---:|---:|---:|---:|\n{rows}\
         reading from memory: {}\nfirst serial stage: {} with every script, {} with scripts assumed valid",
        memory.join(", "),
        report.first_serial_stage_every_script,
        report.first_serial_stage_assumed_valid
    )
}

fn estimate(given: &LabEstimate) -> Result<ExitCode, Failure> {
    let threads = settings::workers(given.par.unwrap_or(0));
    let options = lab::estimate::EstimateOptions {
        directory: given.datadir.clone().unwrap_or_else(|| PathBuf::from(".")),
        threads,
        dbcache_bytes: settings::dbcache_bytes(given.dbcache.unwrap_or(Dbcache::Auto), threads) as u64,
        download: given.download.map(|mbit| mbit * 1e6 / 8.0),
        made: given.made.map(|blocks| (blocks, given.utxos)),
        quick: given.quick,
        stop: Arc::default(),
    };
    stop_at_ctrl_c(&options.stop, "stopping; a second Ctrl-C ends at once")?;
    let report = match lab::estimate::estimate(&options, &mut |line| say(line)) {
        Ok(report) => report,
        Err(lab::estimate::Error::Stopped) => return Ok(ExitCode::from(INTERRUPTED)),
        Err(why) => return Err(Failure::fault(why.to_string(), LAB_ADVICE)),
    };
    output::print(&if given.json { output::json(&report) } else { estimated(&report) });
    Ok(ExitCode::SUCCESS)
}

/// The machine, its rates, and a table of the eras for each mode.
fn estimated(report: &lab::estimate::Report) -> String {
    let machine = &report.machine;
    let figure = |figure: lab::estimate::Figure, unit: &str| {
        format!("{} {unit} (± {} %)", human::figure(figure.value), human::figure(figure.error_percent))
    };
    let disk = report.disk_bytes_per_second;
    let mut lines = vec![
        format!("{}, {} cores, {} memory", machine.cpu, machine.cores, human::bytes(machine.memory_bytes)),
        format!(
            "  {}, dbcache {}",
            human::plural(report.threads as u64, "worker", "workers"),
            human::bytes(report.dbcache_bytes)
        ),
        format!(
            "  disk: {} a second written and synced (± {} %), {}",
            human::bytes(disk.value as u64),
            human::figure(disk.error_percent),
            figure(report.disk_reads_per_second, "reads of 4 KiB a second")
        ),
        format!("  memory: {} ns a load", human::figure(report.memory_ns)),
        format!(
            "  coins: {} to spend or create, {} to look up in the tables",
            figure(report.coin_ns, "ns"),
            figure(report.look_up_us, "us")
        ),
    ];
    lines.extend(report.eras.iter().map(|era| {
        let scripts = figure(era.scripts_us, "us an input");
        let decode = figure(era.decode_ns, "ns a byte");
        format!("  {}: scripts {scripts}, parsing and hashing {decode}", era.profile)
    }));
    for way in &report.ways {
        lines.push(String::new());
        lines.push(format!("{}, {}:", report.chain, way.way));
        lines.push(format!(
            "  {}, give or take {} %: {} to {}",
            human::duration(way.seconds),
            human::figure(way.error_percent),
            human::duration(way.low_seconds),
            human::duration(way.high_seconds)
        ));
        lines.extend(way.parts.iter().map(|part| {
            format!(
                "  {:13} {:>7} blocks, {:>9} of them, {:>13} inputs: {:>13} by {}",
                part.profile,
                human::count(part.blocks),
                human::bytes(part.bytes),
                human::count(part.inputs),
                human::duration(part.seconds),
                part.bound
            )
        }));
    }
    lines.push(format!("measured in {}", human::duration(report.seconds)));
    lines.join("\n")
}

fn committed(report: &lab::commit::CommitReport) -> String {
    format!(
        "{} at block {} written again in {}\n  read in {}, committed in {}",
        human::plural(report.txouts, "coin", "coins"),
        report.bestblock,
        human::plural(report.generations, "commit", "commits"),
        human::duration(report.read_seconds),
        human::duration(report.commit_seconds)
    )
}

/// The default result directory: `plans/core.toml` gives `core-results` in the current directory.
fn results_of(plan: &Path) -> PathBuf {
    let mut name = plan.file_stem().unwrap_or_default().to_owned();
    name.push("-results");
    PathBuf::from(name)
}

/// A Markdown table of the cells, and the path of the full results.
fn cells(report: &demo::result::Report, out: &Path) -> String {
    let has_least = report.cells.iter().any(|cell| cell.least_memory_mib.is_some());
    let least = |text: &str| if has_least { text.to_owned() } else { String::new() };
    let mut lines = vec![
        format!(
            "| cell | runs | seconds | min .. max | ratio (95 %) | peak memory | written |{}",
            least(" least memory |")
        ),
        format!("|---|--:|--:|--:|--:|--:|--:|{}", least("--:|")),
    ];
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let waiting = report.cells.iter().filter(|cell| cell.runs + cell.failed == 0).count();
    for cell in report.cells.iter().filter(|cell| cell.runs + cell.failed > 0) {
        let spread = cell.stddev_seconds.map(|spread| format!(" ± {}", human::figure(spread))).unwrap_or_default();
        let range = cell.min_seconds.zip(cell.max_seconds);
        lines.push(format!(
            "| {} | {}{} | {} | {} | {} | {} | {} |{}",
            cell.cell,
            cell.runs,
            if cell.failed > 0 { format!(", {} failed", cell.failed) } else { String::new() },
            or_none(cell.mean_seconds.map(|mean| format!("{}{spread}", human::figure(mean)))),
            or_none(range.map(|(min, max)| format!("{} .. {}", human::figure(min), human::figure(max)))),
            or_none(ratio(cell)),
            or_none(cell.peak_rss_anon_bytes.map(human::bytes)),
            or_none(cell.bytes_written.map(human::bytes)),
            least(&format!(" {} |", or_none(least_memory(cell)))),
        ));
        let rest = format!("| | | | | | |{}", least(" |"));
        lines.extend(cell.not_compared.iter().map(|why| format!("|   not compared: {why} {rest}")));
        lines.extend(cell.failures.iter().map(|one| format!("|   run {}: {} {rest}", one.run, one.why)));
    }
    if !report.complete {
        let cells = if waiting > 0 { human::plural(waiting as u64, "cell", "cells") } else { "some runs".to_owned() };
        lines.push(format!("not all of the plan: {cells} to come with --resume"));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.push(format!("results: {0}; draw them with: ffwd lab plot {0}", out.display()));
    lines.join("\n")
}

/// A ratio with its 95 % confidence interval.
fn ratio(cell: &demo::result::Cell) -> Option<String> {
    let between = cell.ratio_low.zip(cell.ratio_high);
    let between = between.map(|(low, high)| format!(" [{} to {}]", human::figure(low), human::figure(high)));
    cell.ratio.map(|ratio| human::figure(ratio) + &between.unwrap_or_default())
}

/// The smallest memory limit that sufficed, and the largest that did not.
fn least_memory(cell: &demo::result::Cell) -> Option<String> {
    cell.least_memory_mib.map(|(enough, not)| match not {
        0 => format!("{enough} MiB or less"),
        not => format!("{enough} MiB, {not} are too few"),
    })
}

fn plot(given: &LabPlot) -> Result<ExitCode, Failure> {
    let options = PlotOptions {
        overwrite: given.overwrite.force,
        inputs: given.inputs.clone(),
        out: given.out.clone(),
        svg: given.svg,
        csv: given.csv,
        baseline: given.baseline.clone(),
        height_across: given.x == PlotX::Height,
        from_height: given.from_height,
    };
    let report = demo::plot::plot(&options).map_err(|why| match why {
        PlotError::Baseline { .. } => Failure::Usage(why.to_string()),
        PlotError::Exists { .. } => {
            Failure::fault(why.to_string(), "Give --force to overwrite it, or name another --out")
        }
        _ => Failure::fault(why.to_string(), LAB_ADVICE),
    })?;
    output::print(&if given.json { output::json(&report) } else { plotted(&report) });
    Ok(ExitCode::SUCCESS)
}

fn plotted(report: &PlotReport) -> String {
    let mut lines = vec![format!(
        "{} in {}, {}",
        human::plural(report.runs.len() as u64, "run", "runs"),
        human::plural(report.lines, "line", "lines"),
        human::bytes(report.bytes)
    )];
    if report.damaged_lines > 0 {
        lines.push(format!("cut or damaged: {}", human::plural(report.damaged_lines, "line", "lines")));
    }
    lines.extend(report.skipped.iter().map(|one| format!("left out: {}: {}", one.path.display(), one.why)));
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(report.files.iter().map(|file| format!("wrote {}", file.display())));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use demo::plot::Skipped;
    use demo::result::{Cell, Failure as RunFailure, Report};

    #[test]
    fn results_directory_follows_plan_name() {
        for (plan, want) in
            [("plans/core.toml", "core-results"), ("core", "core-results"), ("/a.b/c.d.toml", "c.d-results")]
        {
            assert_eq!(results_of(Path::new(plan)), Path::new(want), "{plan}");
        }
    }

    #[test]
    fn cells_print_as_markdown_table() {
        let good = Cell {
            cell: "ffwd reindex".into(),
            runs: 3,
            mean_seconds: Some(12.0),
            stddev_seconds: Some(0.5),
            min_seconds: Some(11.5),
            max_seconds: Some(12.6),
            ratio: Some(0.15),
            ratio_low: Some(0.13),
            ratio_high: Some(0.17),
            least_memory_mib: Some((70, 64)),
            peak_rss_anon_bytes: Some(300_000_000),
            bytes_written: Some(2_000_000_000),
            ..Cell::default()
        };
        let bad = Cell {
            cell: "bitcoind reindex".into(),
            failed: 1,
            not_compared: Some("no run did the work".into()),
            failures: vec![RunFailure { run: 2, why: "exit code 1".into(), ..RunFailure::default() }],
            ..Cell::default()
        };
        let later = Cell { cell: "ffwd rebuild".into(), ..Cell::default() };
        let report = Report { cells: vec![good, bad, later], notes: vec!["no cgroup".into()], ..Report::default() };
        let text = cells(&report, Path::new("out"));
        assert!(!text.contains("ffwd rebuild"), "{text}");
        let whole = cells(&Report { complete: true, ..report.clone() }, Path::new("out"));
        assert!(!whole.contains("--resume"), "{whole}");
        for want in [
            "not all of the plan: 1 cell to come with --resume",
            "| ffwd reindex | 3 | 12.0 ± 0.50 | 11.5 .. 12.6 | 0.15 [0.13 to 0.17] | 300 MB | 2.00 GB | 70 MiB, 64 are too few |",
            "| bitcoind reindex | 0, 1 failed | - | - | - | - | - | - |",
            "not compared: no run did the work",
            "run 2: exit code 1",
            "note: no cgroup",
            "ffwd lab plot out",
        ] {
            assert!(text.contains(want), "{want} in\n{text}");
        }
    }

    #[test]
    fn plot_lines_name_files_and_skipped_inputs() {
        let report = PlotReport {
            out: "r.html".into(),
            files: vec!["r.html".into(), "r-height.csv".into()],
            charts: vec!["height".into()],
            runs: vec!["a".into(), "b".into()],
            lines: 10_001,
            bytes: 2_500_000,
            damaged_lines: 1,
            skipped: vec![Skipped { path: "x.log".into(), why: "no UpdateTip line".into() }],
            notes: vec!["one run has no end".into()],
        };
        let text = plotted(&report);
        let want = "2 runs in 10,001 lines, 2.50 MB\ncut or damaged: 1 line\nleft out: x.log: no UpdateTip line\n\
                    note: one run has no end\nwrote r.html\nwrote r-height.csv";
        assert_eq!(text, want);
    }
}
