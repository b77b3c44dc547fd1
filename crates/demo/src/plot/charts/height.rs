//! Height over time, the ratio between runs, and the summary of all runs.

use primitives::human;
use std::collections::BTreeMap;

use super::{Axis, Chart, Drawn, Kind, Row, Series, Table, Unit, axis, line, or_dash, row, table, time_axis};
use crate::plot::input::{Point, Run};
use crate::plot::{PlotError, PlotOptions};

/// Points of a ratio curve.
const RATIO_POINTS: usize = 600;

/// In this first share of the baseline's time no ratio is drawn, because both times are near zero.
const RATIO_FROM: f64 = 0.005;

/// From this share of the time on, ratios determine the height of the picture.
const RATIO_SETTLED: f64 = 0.05;

/// Runs are compared only if both begin within this share of their common heights.
const BEGIN_SHARE: f64 = 0.01;

/// Shares of the height whose times are in the table.
const QUARTERS: [(f64, &str); 4] = [(0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1.0, "100 %")];

/// The summary: one row for each run, including those that are not drawn.
pub(in crate::plot) fn summary(runs: &[Run], drawn: &Drawn<'_>) -> Table {
    /// Maximum rows of the page's summary; the CSV has all rows.
    const ROWS_MAX: usize = 200;
    let rows = runs.iter().take(ROWS_MAX).map(|run| {
        let color = drawn.runs.iter().find(|(other, _)| std::ptr::eq(*other, run)).map(|&(_, color)| color);
        let from = run.points.first();
        let to = run.points.last();
        let blocks = to.zip(from).map(|(to, from)| f64::from(to.height.saturating_sub(from.height)));
        let rate = blocks.map(|blocks| blocks / run.seconds.max(1e-3));
        let cells = vec![
            run.label.clone(),
            or_dash(Some(run.version.clone()).filter(|version| !version.is_empty())),
            or_dash(Some(run.trust.clone()).filter(|trust| !trust.is_empty())),
            or_dash(from.zip(to).map(|(from, to)| {
                format!("{} – {}", human::count(u64::from(from.height)), human::count(u64::from(to.height)))
            })),
            human::duration(run.seconds),
            or_dash(rate.map(human::figure)),
            run.ending.clone(),
            human::count(run.damaged),
        ];
        Row { color, cells }
    });
    table(&["run", "program", "scripts", "heights", "time", "blocks/s", "ended", "damaged lines"], rows.collect())
}

/// Height over time, or time over height.
pub(super) fn height(drawn: &Drawn<'_>, height_across: bool) -> Option<Chart> {
    let runs: Vec<_> = drawn.runs.iter().filter(|(run, _)| !run.points.is_empty()).collect();
    // The median of several repeats has its time written next to its line.
    let middle = |run: &Run| {
        let mut group: Vec<_> = runs.iter().map(|(other, _)| *other).filter(|other| other.group == run.group).collect();
        group.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        std::ptr::eq(group[group.len() / 2], run)
    };
    let series = runs.iter().map(|&&(run, color)| {
        let place = |point: &Point| match (point.t, f64::from(point.height)) {
            (t, height) if height_across => (height, t),
            place => place,
        };
        let points: Vec<_> = run.points.iter().map(place).collect();
        let end = run.points.last().map(|last| if middle(run) { human::duration(last.t) } else { String::new() });
        Series { end, ..line(run, color, &points) }
    });
    let series: Vec<_> = series.collect();
    let rows = runs.iter().map(|&&(run, color)| {
        let top = run.points.last().map_or(0, |last| last.height);
        let times =
            QUARTERS.map(|(share, _)| or_dash(run.reached((share * f64::from(top)).ceil()).map(human::duration)));
        row(&run.label, color, times)
    });
    let head: Vec<_> = ["time to reach"].into_iter().chain(QUARTERS.map(|(_, name)| name)).collect();
    (!series.is_empty()).then(|| Chart {
        id: "height".to_owned(),
        title: if height_across { "Time against height" } else { "Height against time" }.to_owned(),
        lead: "Every block that became the tip. The dot is the last one; the table has the time at which each quarter of the height was reached.".to_owned(),
        kind: Kind::Lines,
        x: if height_across { axis("height", Unit::Count) } else { time_axis() },
        y: if height_across { time_axis() } else { axis("height", Unit::Count) },
        series,
        y_max: None,
        reference: None,
        table: table(&head, rows.collect()),
    })
}

/// Time divided by the baseline's time at the same height, over the baseline's time.
pub(super) fn ratio(
    drawn: &Drawn<'_>,
    options: &PlotOptions,
    notes: &mut Vec<String>,
) -> Result<Option<Chart>, PlotError> {
    let baseline = options.baseline.as_deref();
    let mut works = BTreeMap::<&str, Vec<(&Run, usize)>>::new();
    for &(run, color) in drawn.runs.iter().filter(|(run, _)| run.points.len() > 1) {
        works.entry(&run.work).or_default().push((run, color));
    }
    let known = |name: &str| drawn.runs.iter().any(|(run, _)| is_named(run, name));
    if let Some(name) = baseline.filter(|name| !known(name)) {
        let names = drawn.runs.iter().map(|(run, _)| run.label.clone()).collect();
        return Err(PlotError::Baseline { name: name.to_owned(), names });
    }
    let mut series = Vec::new();
    let mut rows = Vec::new();
    let mut against = Vec::new();
    for (_, runs) in works.iter().filter(|(_, runs)| runs.len() > 1) {
        let Some(base) = choose_baseline(runs, baseline) else { continue };
        let mut compared = 0;
        for &(run, color) in runs {
            let common = match comparable(run, base) {
                Ok((from, to)) => (from.max(f64::from(options.from_height).min(to)), to),
                Err(why) => {
                    notes.push(format!("{} is not compared with {}: {why}.", run.label, base.label));
                    continue;
                }
            };
            compared += usize::from(!std::ptr::eq(run, base));
            series.push(line(run, color, &curve(run, base, common.0, common.1)));
            let at = |share: f64| Some(human::figure(ratio_at(run, base, common.0 + (common.1 - common.0) * share)?.1));
            rows.push(row(&run.label, color, QUARTERS.map(|(share, _)| or_dash(at(share)))));
        }
        if compared == 0 {
            let alone = series.iter().rposition(|line: &Series| line.name == base.label);
            alone.map(|at| (series.remove(at), rows.remove(at)));
        } else {
            against.push(base.label.clone());
        }
    }
    let head: Vec<_> = std::iter::once("time over the baseline's").chain(QUARTERS.map(|(_, name)| name)).collect();
    Ok((!series.is_empty()).then(|| Chart {
        id: "ratio".to_owned(),
        title: "Time ratio".to_owned(),
        lead: format!(
            "Time to a height over the time of {} to the same height, drawn over the latter's time. Below 1 is faster.",
            against.join("; ")
        ),
        kind: Kind::Lines,
        x: Axis { label: "the baseline's time".to_owned(), ..time_axis() },
        y: axis("time over the baseline's", Unit::Ratio),
        y_max: settled(&series),
        series,
        reference: Some(1.0),
        table: table(&head, rows),
    }))
}

/// The greatest ratio except at the start, where both times are small and their ratio is meaningless.
fn settled(series: &[Series]) -> Option<f64> {
    let after_start = series.iter().flat_map(|series| {
        let end = series.points.last().map_or(0.0, |last| last.0);
        series.points.iter().filter(move |point| point.0 > end * RATIO_SETTLED).map(|point| point.1)
    });
    after_start.max_by(f64::total_cmp).map(|greatest| greatest.max(1.0))
}

fn is_named(run: &Run, name: &str) -> bool {
    run.label == name || run.group == name || run.program == name
}

/// The named run, otherwise the one that takes longest to reach the common height; of several repeats the median one.
fn choose_baseline<'a>(runs: &[(&'a Run, usize)], name: Option<&str>) -> Option<&'a Run> {
    let top = runs.iter().filter_map(|(run, _)| run.points.last()).map(|last| last.height).min()?;
    let time = |run: &Run| run.reached(f64::from(top)).unwrap_or(0.0);
    let slowest = || runs.iter().max_by(|a, b| time(a.0).total_cmp(&time(b.0))).map(|(run, _)| run.group.as_str());
    let mut chosen: Vec<_> = match name {
        Some(name) => runs.iter().filter(|(run, _)| is_named(run, name)).map(|&(run, _)| run).collect(),
        None => Vec::new(),
    };
    if chosen.is_empty() {
        let group = slowest()?;
        chosen = runs.iter().filter(|(run, _)| run.group == group).map(|&(run, _)| run).collect();
    }
    chosen.sort_by(|a, b| time(a).total_cmp(&time(b)));
    chosen.get(chosen.len() / 2).copied()
}

/// The heights that two runs have in common, or why they cannot be compared.
fn comparable(run: &Run, base: &Run) -> Result<(f64, f64), String> {
    let ends = |run: &Run| run.points.first().zip(run.points.last()).map(|(first, last)| (first.height, last.height));
    let (Some((from, to)), Some((base_from, base_to))) = (ends(run), ends(base)) else {
        return Err("it has no blocks".to_owned());
    };
    let top = to.min(base_to);
    if !run.trust.is_empty() && !base.trust.is_empty() && run.trust != base.trust {
        return Err(format!("it checked {}, the other {}", scripts(&run.trust), scripts(&base.trust)));
    }
    if f64::from(from.abs_diff(base_from)) > (f64::from(top) * BEGIN_SHARE).max(1.0) {
        return Err(format!("it begins at height {from}, the other at {base_from}"));
    }
    let hash = |run: &Run| tip_at(run, top).map_or(0, |point| point.hash);
    if hash(run) != 0 && hash(base) != 0 && hash(run) != hash(base) {
        return Err(format!("another chain: the blocks at height {top} differ"));
    }
    Ok((f64::from(from.max(base_from)), f64::from(top)))
}

fn scripts(trust: &str) -> &str {
    if trust == crate::result::EVERY_SCRIPT { "every script" } else { "no script below an assumed-valid block" }
}

/// The last tip at `height`: the one that remained in the chain.
fn tip_at(run: &Run, height: u32) -> Option<&Point> {
    run.points.iter().rev().find(|point| point.height == height)
}

fn curve(run: &Run, base: &Run, from: f64, to: f64) -> Vec<(f64, f64)> {
    let end = base.reached(to).unwrap_or(0.0);
    let begin = base.reached(from).unwrap_or(0.0).max(end * RATIO_FROM);
    let step = |at: usize| base.height_at(begin + (end - begin) * at as f64 / RATIO_POINTS as f64);
    let mut points: Vec<_> =
        (0..=RATIO_POINTS).filter_map(|at| ratio_at(run, base, step(at).clamp(from, to))).collect();
    points.dedup_by(|a, b| a.0 <= b.0);
    points
}

/// The baseline's time at `height`, and the run's time divided by it.
fn ratio_at(run: &Run, base: &Run, height: f64) -> Option<(f64, f64)> {
    let own = run.reached(height)?;
    let other = base.reached(height)?;
    (other > 0.0).then(|| (other, own / other))
}
