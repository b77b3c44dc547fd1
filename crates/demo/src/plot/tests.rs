//! Whole reports.

use super::*;
use crate::debug_log::tests::{MORE_FLUSHES, REINDEX, SYNC, tip, written};
use crate::result::{Cell, RESULT_FILE, Report, RunRecord, SAMPLES_FILE, SAMPLES_HEADER};
use std::fs;
use std::process::Command;

/// A result of `lab run` with two cells of one run each.
fn result(directory: &Path) {
    let mut report = Report {
        format: crate::result::FORMAT.to_owned(),
        title: "A <b>plan</b>".to_owned(),
        complete: true,
        ..Report::default()
    };
    for (number, (name, seconds)) in [("core rebuild", 8.0), ("ffwd rebuild", 2.0)].into_iter().enumerate() {
        let run = format!("runs/00{}", number + 1);
        let samples = (0..40).map(|at| {
            format!("{:.3},{},1.0,0,{},{}\n", seconds * f64::from(at) / 40.0, 1_000_000 * (at + 1), 5000 * at, at)
        });
        fs::create_dir_all(directory.join(&run)).unwrap();
        fs::write(
            directory.join(&run).join(SAMPLES_FILE),
            format!("{SAMPLES_HEADER}\n{}", samples.collect::<String>()),
        )
        .unwrap();
        let (cell, program) = (name.to_owned(), name.split(' ').next().unwrap().to_owned());
        report.runs.push(RunRecord {
            run: number + 1,
            cell: cell.clone(),
            directory: run,
            seconds,
            ..RunRecord::default()
        });
        report.cells.push(Cell {
            cell,
            program,
            work: "rebuild".to_owned(),
            runs: 1,
            mean_seconds: Some(seconds),
            ..Cell::default()
        });
    }
    report.runs[1].directory = "../outside".to_owned();
    let outside = directory.join("../outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join(SAMPLES_FILE), "0,1,1,1,1,1\n").unwrap();
    report.runs.push(RunRecord { run: 3, directory: "runs/002".to_owned(), ..report.runs[1].clone() });
    fs::write(directory.join(RESULT_FILE), serde_json::to_vec(&report).unwrap()).unwrap();
}

/// Two logs, a result, and a file that is no log, with a name that would be a tag.
fn everything(scratch: &Path) -> PlotOptions {
    let directory = scratch.join("in");
    fs::create_dir_all(directory.join("result")).unwrap();
    let later = "2026-01-01T00:00:02Z Disabling script";
    fs::write(directory.join("a.log"), written(REINDEX).replace(later, &format!("{MORE_FLUSHES}{later}"))).unwrap();
    fs::write(directory.join("b.log"), written(SYNC).replace("2026-01-02", "2026-01-01")).unwrap();
    fs::write(directory.join("<script>alert(1)<.log"), written(REINDEX)).unwrap();
    fs::write(directory.join("none.log"), "nothing of a log\n").unwrap();
    result(&directory.join("result"));
    PlotOptions {
        overwrite: true,
        inputs: vec![directory],
        out: scratch.join("out/report.html"),
        svg: true,
        csv: true,
        baseline: None,
        height_across: false,
        from_height: 0,
    }
}

#[test]
fn report_has_every_chart_and_no_external_reference() {
    let scratch = tempfile::tempdir().unwrap();
    let options = everything(scratch.path());
    let report = plot(&options).unwrap();
    assert_eq!(
        report.charts,
        [
            "cells",
            "height",
            "ratio",
            "memory",
            "memory-by-height",
            "cache",
            "flush-times",
            "flush-rates",
            "written",
            "stages-1",
            "stages-2",
            "block-times"
        ]
    );
    let names = ["<script>alert(1)<", "a", "b, background", "b", "core rebuild", "ffwd rebuild"];
    assert_eq!(report.runs, names);
    let skipped: Vec<_> = report.skipped.iter().map(|one| one.why.as_str()).collect();
    assert!(skipped.iter().any(|why| why.contains("leads out of the result")), "{skipped:?}");
    assert!(skipped.iter().any(|why| why.contains("not a debug.log")), "{skipped:?}");
    assert_eq!(report.damaged_lines, 1);
    let html = fs::read_to_string(&report.out).unwrap();
    for found in ["src=", "<link rel=\"stylesheet", "@import", "<script>alert", "<b>plan"] {
        assert!(!html.contains(found), "{found}");
    }
    assert_eq!(
        html.matches("url(").count(),
        html.matches("url(#in-").count(),
        "pictures refer to their own parts alone"
    );
    assert!(html.contains("none.log: no line begins with a time"), "what is not plotted is named");
    assert!(html.contains("is not compared with"), "another trust level is said");
    for chart in &report.charts {
        let svg = fs::read_to_string(beside(&options.out, chart, "svg")).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>") && !svg.contains("NaN"), "{chart}");
        assert!(html.contains(&format!("data-chart=\"{chart}\"")), "{chart}");
    }
    let csv = |chart: &str| fs::read_to_string(beside(&options.out, chart, "csv")).unwrap();
    assert!(csv("height").contains("a,3.000000,1,10,11,100\n"), "{}", csv("height"));
    assert!(csv("cache").contains("a,3,6.000000,2,1000,20,log\n"), "{}", csv("cache"));
    assert!(csv("flush-times").contains("a,1,2.000000,0,1550.25,,log\n"), "{}", csv("flush-times"));
    assert!(html.contains("1,550") && html.contains("partial batches"), "the flush of a snapshot is in the table");
    assert!(csv("stages-1").contains("a,0,3,3.000,6.000,"), "{}", csv("stages-1"));
    assert!(csv("memory").contains("core rebuild,0.000,1000000,0,"), "{}", csv("memory"));
    assert!(csv("cells").contains("ffwd rebuild,1,2.00 s,"), "{}", csv("cells"));
}

#[test]
fn baseline_is_slowest_unless_named() {
    let scratch = tempfile::tempdir().unwrap();
    let ticks = |step: u32| {
        (0..100)
            .map(|height| {
                format!("2026-01-01T00:{:02}:{:02}Z {}\n", height * step / 60, height * step % 60, tip(height))
            })
            .collect::<String>()
    };
    for (name, step) in [("slow", 4), ("fast", 1)] {
        fs::write(scratch.path().join(format!("{name}.log")), ticks(step)).unwrap();
    }
    let options = |baseline: Option<&str>| PlotOptions {
        overwrite: true,
        inputs: vec![scratch.path().to_owned()],
        out: scratch.path().join("report.html"),
        svg: false,
        csv: true,
        baseline: baseline.map(str::to_owned),
        height_across: false,
        from_height: 0,
    };
    let last = |baseline| {
        plot(&options(baseline)).unwrap();
        let csv = fs::read_to_string(scratch.path().join("report-ratio.csv")).unwrap();
        csv.lines().rfind(|line| line.starts_with(if baseline.is_none() { "fast" } else { "slow" })).unwrap().to_owned()
    };
    assert_eq!(
        (last(None).as_str(), last(Some("fast")).as_str()),
        ("fast,396.000000,0.250000", "slow,99.000000,4.000000")
    );
    let error = plot(&options(Some("none"))).unwrap_err();
    assert_eq!(error.to_string(), "no run is named \"none\"; there are: fast, slow");
}

#[test]
fn unplottable_inputs_are_named() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    fs::write(path("text.log"), "hello\n").unwrap();
    fs::write(path("no-tips.log"), "2026-01-01T00:00:00Z Bitcoin Core version v31.0.0\n").unwrap();
    fs::write(path("other.json"), "{\"a\": 1}").unwrap();
    fs::write(path("bad.json"), "{").unwrap();
    fs::create_dir(path("empty")).unwrap();
    for (name, want) in [
        ("text.log", "no line begins with a time"),
        ("no-tips.log", "1 of 1 lines begin with a time, but no line is a whole \"UpdateTip: new best=\""),
        ("other.json", "format is \"\""),
        ("bad.json", "not a result of lab run"),
        ("empty", "found no such file"),
        ("nowhere", "cannot be read"),
    ] {
        let options = PlotOptions {
            overwrite: true,
            inputs: vec![path(name)],
            out: path("report.html"),
            svg: false,
            csv: false,
            baseline: None,
            height_across: false,
            from_height: 0,
        };
        let error = plot(&options).unwrap_err().to_string();
        assert!(error.contains(want), "{name}: {error}");
        assert!(!path("report.html").exists(), "{name}");
    }
}

/// A load of a snapshot has flushes and no tip.
#[test]
fn log_of_flushes_alone_is_drawn() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    for (name, line) in [
        ("a", "FlushSnapshotToDisk: completed (1234.25ms)"),
        ("b", "BatchWrite took=2345ms, maxMem=317MiB"),
        ("c", "BatchWrite: completed in 3456ms"),
    ] {
        let at = |second: u32| format!("2026-01-01T00:00:0{second}Z {line}\n");
        fs::write(path(&format!("{name}.log")), at(1) + &at(2)).unwrap();
    }
    let options = PlotOptions {
        overwrite: true,
        inputs: vec![path("a.log"), path("b.log"), path("c.log")],
        out: path("report.html"),
        svg: true,
        csv: true,
        baseline: None,
        height_across: false,
        from_height: 0,
    };
    plot(&options).unwrap();
    let csv = fs::read_to_string(path("report-flush-times.csv")).unwrap();
    for want in ["1234.25", "2345", "3456"] {
        assert!(csv.contains(want), "{want} in {csv}");
    }
    plot(&PlotOptions { height_across: true, ..options }).unwrap();
}

/// What is filled begins and ends at the line of zero, also where the first step does not.
#[test]
fn areas_begin_and_end_at_the_baseline() {
    let scratch = tempfile::tempdir().unwrap();
    let fast: String =
        (1..400).map(|height| format!("2026-01-01T00:00:00.{:06}Z {}\n", height * 3, tip(height))).collect();
    fs::write(scratch.path().join("fast.log"), fast).unwrap();
    let options = PlotOptions {
        overwrite: true,
        inputs: vec![scratch.path().join("fast.log")],
        out: scratch.path().join("report.html"),
        svg: true,
        csv: false,
        baseline: None,
        height_across: false,
        from_height: 0,
    };
    let report = plot(&options).unwrap();
    let mut areas = 0;
    for file in report.files.iter().filter(|file| file.extension().is_some_and(|end| end == "svg")) {
        let svg = fs::read_to_string(file).unwrap();
        let places = |path: &str| -> Vec<f64> {
            let steps = path.split(['M', 'L']).filter(|step| !step.is_empty());
            steps.map(|step| step.split(' ').nth(1).unwrap().trim_end_matches('"').parse().unwrap()).collect()
        };
        for path in svg.split("<path ").filter(|path| path.contains("fill-opacity")) {
            let ys = places(path.split("d=\"").nth(1).unwrap().split('"').next().unwrap());
            let lowest = ys.iter().copied().fold(0.0, f64::max);
            assert!((ys[0] - lowest).abs() < 0.2 && (ys[ys.len() - 1] - lowest).abs() < 0.2, "{}", file.display());
            assert!(svg.contains(&format!(" {lowest:.1}H")), "a line of the grid is there: {lowest}");
            areas += 1;
        }
    }
    assert!(areas > 0);
}

/// What a person does to a picture: points at its middle, drags over its second quarter, goes back, hides its first name.
const HANDS: &str = "
for (const live of document.querySelectorAll('.live')) {
  const svg = live.querySelector('svg'), box = svg.getBoundingClientRect(), tip = live.querySelector('.tip');
  const send = (name, share) => svg.dispatchEvent(new PointerEvent(name, { bubbles: true, clientX: box.left + share * box.width, clientY: box.top + 100 }));
  const seen = () => svg.querySelectorAll('[data-at]:not([display])').length;
  const zoomed = () => svg.querySelector('.zoom').getAttribute('transform');
  send('pointermove', 0.5);
  const values = tip.hidden ? 0 : tip.querySelectorAll('span').length, ticks = seen();
  send('pointerdown', 0.25); send('pointermove', 0.4); send('pointerup', 0.5);
  const closer = zoomed();
  send('dblclick', 0.5);
  const back = zoomed() === 'matrix(1 0 0 1 0 0)' && seen() === ticks;
  live.parentNode.querySelector('.legend button').click();
  const hidden = svg.querySelectorAll('[data-g=\"0\"]:not([display])').length === 0;
  if (values >= 2 && closer.startsWith('matrix(') && !closer.startsWith('matrix(1 ') && back && hidden) live.dataset.handled = 'well';
}
";

/// Opens the report as a person would: every picture is there and answers, nothing failed, nothing was fetched (the page forbids it).
#[test]
fn every_chart_is_live_in_chromium() {
    let chromium = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    let Some(chromium) = chromium else {
        println!("skipped: no Chromium here, so the report is not opened");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let report = plot(&everything(scratch.path())).unwrap();
    let page = fs::read_to_string(&report.out).unwrap();
    fs::write(&report.out, page.replace("</body>", &format!("<script>{HANDS}</script></body>"))).unwrap();
    let output = Command::new("timeout")
        .args(["60", chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
        ])
        .args(["--enable-logging=stderr", "--virtual-time-budget=3000", "--window-size=1280,4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", scratch.path().join("profile").display()))
        .arg(format!("file://{}", report.out.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    if dom.trim().is_empty() {
        println!(
            "skipped: {chromium} does not start here: {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
        );
        return;
    }
    let drawn = report.charts.iter().filter(|chart| *chart != "cells").count();
    assert!(dom.contains("data-errors=\"0\""), "a script failed");
    assert!(dom.contains(&format!("data-charts=\"{drawn}\"")), "not every chart is live");
    assert_eq!(dom.matches("<svg").count(), report.charts.len(), "a picture for each");
    assert_eq!(dom.matches("data-handled=\"well\"").count(), drawn, "not every picture answers");
    assert!(dom.contains("aria-label=\"A &lt;b&gt;plan&lt;/b&gt;\""), "the bars are a picture too");
    let console: Vec<_> = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    assert!(console.is_empty(), "{console:?}");
}

/// The whole way of a log like mainnet's. Only here the time is looked at, so only here it may fail for a slow machine.
#[test]
fn long_log_plots_within_seconds() {
    if !testkit::is_slow() {
        println!("skipped: SLOW is not set, so no log of 900,000 blocks is written");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("long.log");
    let line = |height: u32| {
        format!(
            "2026-01-{:02}T{:02}:{:02}:{:02}Z {}\n",
            1 + height / 86_400,
            height / 3600 % 24,
            height / 60 % 60,
            height % 60,
            tip(height)
        )
    };
    fs::write(&path, (0..900_000).map(line).collect::<String>()).unwrap();
    let options = PlotOptions {
        overwrite: true,
        inputs: vec![path],
        out: scratch.path().join("report.html"),
        svg: false,
        csv: false,
        baseline: None,
        height_across: false,
        from_height: 0,
    };
    let start = std::time::Instant::now();
    let report = plot(&options).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!("{} lines, {} bytes: {seconds:.2} s", report.lines, report.bytes);
    assert_eq!((report.lines, report.damaged_lines), (900_000, 0));
    assert!(seconds < 3.0, "{seconds} s, even with the checks of a test build");
}
