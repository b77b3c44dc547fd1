//! The cells of a plan side by side: seconds, one bar each; the table has the other figures.

use super::{Chart, Drawn, Kind, Row, Series, Unit, axis, or_dash, table};
use crate::plot::input::Inputs;
use crate::result::{Cell, Report};
use primitives::human;

/// Maximum number of cells that are drawn for one result.
const CELLS_MAX: usize = 48;

/// One chart for each result of `lab run`.
pub(super) fn charts(inputs: &Inputs, drawn: &Drawn<'_>) -> Vec<Chart> {
    let many = inputs.reports.len() > 1;
    inputs
        .reports
        .iter()
        .enumerate()
        .filter_map(|(at, report)| {
            chart(report, if many { format!("cells-{}", at + 1) } else { "cells".to_owned() }, drawn)
        })
        .collect()
}

fn chart(report: &Report, id: String, drawn: &Drawn<'_>) -> Option<Chart> {
    let cells = || report.cells.iter().take(CELLS_MAX);
    let color = |cell: &Cell| drawn.groups.iter().position(|group| *group == cell.cell).unwrap_or(drawn.groups.len());
    let bars: Vec<_> = cells()
        .filter_map(|cell| {
            let mean = cell.mean_seconds?;
            let whisker = cell.stddev_seconds.map(|deviation| ((mean - deviation).max(0.0), mean + deviation));
            let end = Some(match cell.ratio {
                Some(ratio) if cell.ratio_to.as_ref() != Some(&cell.cell) => {
                    format!("{}, {}×", human::duration(mean), human::figure(ratio))
                }
                _ => human::duration(mean),
            });
            let name = cell.cell.clone();
            let group = cell.cell.clone();
            Some(Series {
                name,
                group,
                color: color(cell),
                points: vec![(mean, 0.0)],
                end,
                ticks: cell.seconds.clone(),
                whisker,
            })
        })
        .collect();
    let rows = cells().map(|cell| Row { color: Some(color(cell)), cells: figures(cell) }).collect();
    let lead = "Mean seconds of the runs that did the work; the whisker is one deviation, the dots are the runs. \
                Ratio: mean over that of the cell it is compared with, with its 95 % interval; below 1 is faster.";
    (!bars.is_empty()).then(|| Chart {
        id,
        title: if report.title.is_empty() { "Time of the work".to_owned() } else { report.title.clone() },
        lead: lead.to_owned(),
        kind: Kind::Bars,
        x: axis("time", Unit::Seconds),
        y: axis("", Unit::Count),
        series: bars,
        y_max: None,
        reference: None,
        table: table(
            &[
                "cell",
                "runs",
                "mean ± sd",
                "range",
                "ratio",
                "95 %",
                "scripts",
                "peak memory",
                "written",
                "per chain byte",
                "CPU",
            ],
            rows,
        ),
    })
}

fn figures(cell: &Cell) -> Vec<String> {
    let mean = cell.mean_seconds.map(|mean| match cell.stddev_seconds {
        Some(deviation) => format!("{} ± {}", human::duration(mean), human::figure(deviation)),
        None => human::duration(mean),
    });
    let runs = if cell.failed == 0 { cell.runs.to_string() } else { format!("{} + {} failed", cell.runs, cell.failed) };
    let is_own = cell.ratio_to.as_ref() == Some(&cell.cell);
    let ratio = if is_own { Some("baseline".to_owned()) } else { cell.ratio.map(human::figure) };
    let between = cell.ratio_low.zip(cell.ratio_high).filter(|_| !is_own);
    vec![
        cell.cell.clone(),
        runs,
        or_dash(mean),
        or_dash(
            cell.min_seconds
                .zip(cell.max_seconds)
                .map(|(min, max)| format!("{} – {}", human::figure(min), human::figure(max))),
        ),
        or_dash(ratio),
        or_dash(between.map(|(low, high)| format!("{} – {}", human::figure(low), human::figure(high)))),
        or_dash(Some(cell.trust.clone()).filter(|trust| !trust.is_empty())),
        or_dash(cell.peak_rss_anon_bytes.map(human::bytes)),
        or_dash(cell.bytes_written.map(human::bytes)),
        or_dash(cell.bytes_written_per_chain_byte.map(human::figure)),
        or_dash(cell.cpu_seconds.map(human::duration)),
    ]
}
