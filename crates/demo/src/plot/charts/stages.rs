//! Time per stage and range of blocks, from the lines of `-debug=bench`.
//!
//! Core's lines overlap: "Verify" contains "Connect transactions", "Connect total" contains the time between "Load" and
//! "Flush". Here each millisecond of "Connect block" is in one layer. If a log lacks the enclosing lines, the layers
//! have only the available times.

use super::{Axis, Chart, Drawn, Kind, Row, Series, Table, Unit, axis, table};
use crate::debug_log::{STAGE_BIN, StageSums};
use crate::plot::input::Run;
use primitives::human;

/// Columns of a chart.
const COLUMNS: u32 = 48;

/// Maximum number of charts, one for each group of runs; more would not be readable.
const CHARTS_MAX: usize = 6;

/// A layer: its name, and its milliseconds from the sums of Core's lines (indices of `STAGE_LINES`).
type Layer = (&'static str, fn(&[f64; 12]) -> f64);

/// Layers from the bottom up: reading, checking, connecting, writing, the rest.
pub(in crate::plot) const LAYERS: [Layer; 10] = [
    ("load block", |ms| ms[0]),
    ("sanity checks", |ms| ms[1]),
    ("fork checks", |ms| ms[2]),
    ("connect transactions", |ms| ms[3]),
    ("verify scripts", |ms| (ms[4] - ms[3]).max(0.0)),
    ("write undo", |ms| ms[5]),
    ("flush to cache", |ms| ms[8]),
    ("write chainstate", |ms| ms[9]),
    ("postprocess", |ms| ms[10]),
    ("other", other),
];

fn other(ms: &[f64; 12]) -> f64 {
    let named = ms[1] + ms[2] + ms[4].max(ms[3]) + ms[5];
    let between = (ms[7] - named).max(0.0); // It contains "Index writing".
    let outside = if ms[11] > 0.0 { (ms[11] - ms[0] - ms[7] - ms[8] - ms[9] - ms[10]).max(0.0) } else { 0.0 };
    between + outside
}

/// One chart for each group that has such lines.
pub(super) fn charts(drawn: &Drawn<'_>) -> Vec<Chart> {
    let mut seen = Vec::new();
    let mut charts = Vec::new();
    for &(run, color) in drawn.runs.iter().filter(|(run, _)| !run.stages.is_empty()) {
        if !seen.contains(&color) && charts.len() < CHARTS_MAX {
            seen.push(color);
            charts.extend(chart(run, charts.len() + 1));
        }
    }
    charts
}

fn chart(run: &Run, number: usize) -> Option<Chart> {
    let (first, last) =
        run.stages.first_key_value().zip(run.stages.last_key_value()).map(|((&first, _), (&last, _))| (first, last))?;
    let width = (last - first + 1).div_ceil(COLUMNS);
    let mut columns = vec![StageSums::default(); (last - first + 1).div_ceil(width) as usize];
    let mut all = StageSums::default();
    for (&bin, sums) in &run.stages {
        for into in [&mut columns[((bin - first) / width) as usize], &mut all] {
            into.blocks = into.blocks.saturating_add(sums.blocks);
            into.ms.iter_mut().zip(sums.ms).for_each(|(sum, ms)| *sum += ms);
        }
    }
    let height = |column: usize| f64::from(first + column as u32 * width) * f64::from(STAGE_BIN);
    let mut series = Vec::new();
    for (color, (name, of)) in LAYERS.iter().enumerate().filter(|(_, (_, of))| of(&all.ms) > 0.0) {
        let points = columns
            .iter()
            .enumerate()
            .map(|(at, sums)| (height(at), of(&sums.ms) / f64::from(sums.blocks.max(1))))
            .collect();
        series.push(Series { name: (*name).to_owned(), group: (*name).to_owned(), color, points, ..Series::default() });
    }
    (!series.is_empty()).then(|| Chart {
        id: format!("stages-{number}"),
        title: format!("Time per stage: {}", run.label),
        lead: format!(
            "Milliseconds a block, mean of {} blocks a column, as the program's -debug=bench lines give them.",
            human::count(u64::from(width) * u64::from(STAGE_BIN))
        ),
        kind: Kind::Stack,
        x: axis("height", Unit::Count),
        y: Axis { label: "time per block".to_owned(), unit: Unit::Ms, log: false },
        series,
        y_max: None,
        reference: None,
        table: totals(&all),
    })
}

fn totals(all: &StageSums) -> Table {
    let whole: f64 = LAYERS.iter().map(|(_, of)| of(&all.ms)).sum();
    let figures = |ms: f64| {
        [
            human::duration(ms / 1000.0),
            human::figure(ms / f64::from(all.blocks.max(1))),
            human::figure(100.0 * ms / whole.max(1e-9)),
        ]
    };
    let mut rows: Vec<_> = LAYERS
        .iter()
        .enumerate()
        .filter(|(_, (_, of))| of(&all.ms) > 0.0)
        .map(|(color, (name, of))| super::row(name, color, figures(of(&all.ms))))
        .collect();
    rows.reverse(); // In the order of the layers in the picture.
    let cells = std::iter::once("all".to_owned()).chain(figures(whole)).collect();
    rows.push(Row { color: None, cells });
    table(&["stage", "in all", "ms/block", "%"], rows)
}
