//! How long single blocks took: a histogram over a logarithmic scale.

use super::{Axis, Chart, Drawn, Kind, Series, Unit, axis, row, table};
use primitives::human;

/// Columns per factor of ten.
const PER_DECADE: f64 = 6.0;

/// Start of the first column in milliseconds; shorter times are also in it.
const FLOOR_MS: f64 = 0.01;

/// Number of columns, up to some three hours; longer times are in the last one.
const COLUMNS: usize = 54;

/// Share of blocks by the time they took.
pub(super) fn times(drawn: &Drawn<'_>) -> Option<Chart> {
    let runs: Vec<_> = drawn.runs.iter().filter(|(run, _)| !run.block_ms.is_empty()).copied().collect();
    let counted: Vec<_> = runs.iter().map(|(run, _)| count(&run.block_ms)).collect();
    let used = |column: &usize| counted.iter().any(|counts| counts[*column] > 0);
    let first = (0..COLUMNS).find(used)?.saturating_sub(1);
    let last = (0..COLUMNS).rfind(used)?;
    let series = runs.iter().zip(&counted).map(|(&(run, color), counts)| {
        let share =
            |column: usize| if column > last { 0.0 } else { 100.0 * counts[column] as f64 / run.block_ms.len() as f64 };
        let points = (first..=last + 1).map(|column| (edge(column), share(column))).collect();
        Series { name: run.label.clone(), group: run.group.clone(), color, points, ..Series::default() }
    });
    let rows = runs.iter().map(|&(run, color)| {
        let mut sorted = run.block_ms.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let at = |share: f64| human::figure(f64::from(sorted[((sorted.len() - 1) as f64 * share).round() as usize]));
        let mean = sorted.iter().map(|&ms| f64::from(ms)).sum::<f64>() / sorted.len() as f64;
        let star = if run.block_ms_from_tips { "*" } else { "" };
        let figures = [
            format!("{}{star}", human::count(sorted.len() as u64)),
            human::figure(mean),
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
        ];
        row(&run.label, color, figures)
    });
    let star = if runs.iter().any(|(run, _)| run.block_ms_from_tips) {
        " * told from the times of the tips; where the log has whole seconds only, the blocks of a second share it evenly."
    } else {
        ""
    };
    Some(Chart {
        id: "block-times".to_owned(),
        title: "Block times".to_owned(),
        lead: format!("Share of blocks by the time that each took.{star}"),
        kind: Kind::Steps,
        x: Axis { label: "time of a block".to_owned(), unit: Unit::Ms, log: true },
        y: axis("share of blocks", Unit::Percent),
        series: series.collect(),
        y_max: None,
        reference: None,
        table: table(&["ms a block", "blocks", "mean", "median", "90 %", "99 %", "max"], rows.collect()),
    })
}

/// The left edge of a column, in milliseconds.
fn edge(column: usize) -> f64 {
    FLOOR_MS * 10f64.powf(column as f64 / PER_DECADE)
}

fn count(block_ms: &[f32]) -> [u64; COLUMNS] {
    let mut counts = [0; COLUMNS];
    for &ms in block_ms {
        let column = (f64::from(ms) / FLOOR_MS).max(1.0).log10() * PER_DECADE;
        counts[(column as usize).min(COLUMNS - 1)] += 1;
    }
    counts
}
