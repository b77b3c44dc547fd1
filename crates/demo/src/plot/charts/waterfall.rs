//! The time that each optimization saves in whole runs: from none to all, enabled one by one, and each disabled
//! separately.
//!
//! Cells belong to a waterfall if optimizations were disabled in them; cells with the same work, chain and settings
//! make one picture.

use super::{Chart, Kind, Row, Series, Unit, axis, or_dash, table};
use crate::plot::input::Inputs;
use crate::result::{Cell, Report};
use primitives::human;

/// Minimum number of steps of a waterfall.
const STEPS_MIN: usize = 3;

/// One chart for each work, chain and settings that has a waterfall.
pub(super) fn charts(inputs: &Inputs) -> Vec<Chart> {
    let mut charts: Vec<Chart> = inputs.reports.iter().flat_map(of_report).collect();
    let many = charts.len() > 1;
    for (number, chart) in (1..).zip(&mut charts).filter(|_| many) {
        chart.id = format!("waterfall-{number}");
    }
    charts
}

fn of_report(report: &Report) -> Vec<Chart> {
    let same = |a: &&Cell, b: &&Cell| (&a.work, &a.chain, &a.settings) == (&b.work, &b.chain, &b.settings);
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in &report.cells {
        match groups.iter_mut().find(|group| same(&group[0], &cell)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups.iter().filter_map(|group| chart(group)).collect()
}

/// The cells from all off to all on, each with one idea more than the one before.
fn steps<'a>(cells: &[&'a Cell]) -> Vec<&'a Cell> {
    let mut steps: Vec<&Cell> = cells.iter().copied().max_by_key(|cell| cell.without.len()).into_iter().collect();
    while let Some(last) = steps.last() {
        let is_next = |cell: &&&Cell| {
            cell.without.len() + 1 == last.without.len() && cell.without.iter().all(|idea| last.without.contains(idea))
        };
        // If several cells could come next, the order of the plan decides.
        match cells.iter().find(is_next) {
            Some(next) => steps.push(next),
            None => break,
        }
    }
    steps
}

fn chart(cells: &[&Cell]) -> Option<Chart> {
    let steps = steps(cells);
    let all_on = *steps.last().filter(|last| last.without.is_empty())?;
    let first = steps[0].mean_seconds?;
    let end = all_on.mean_seconds?;
    if steps.len() < STEPS_MIN {
        return None;
    }
    let bar = |name: &str, color: usize, from: f64, to: f64, end: String| Series {
        name: name.to_owned(),
        group: name.to_owned(),
        color,
        points: vec![(from.max(to), from.min(to))],
        end: Some(end),
        ..Series::default()
    };
    let mut bars = vec![bar("all off", 0, 0.0, first, human::duration(first))];
    let mut rows = Vec::new();
    let mut before = first;
    for pair in steps.windows(2) {
        let idea = pair[0].without.iter().find(|idea| !pair[1].without.contains(idea))?;
        let Some(now) = pair[1].mean_seconds else { continue };
        let alone = cells.iter().find(|cell| cell.without == [idea.clone()]).and_then(|cell| cell.mean_seconds);
        let signed =
            |seconds: f64| format!("{}{}", if seconds < 0.0 { "-" } else { "+" }, human::duration(seconds.abs()));
        let text = format!("{}, {}×", signed(now - before), human::figure(before / now.max(1e-9)));
        bars.push(bar(idea, if now <= before { 1 } else { 2 }, before, now, text));
        rows.push(Row {
            color: None,
            cells: vec![
                idea.clone(),
                human::duration(now),
                signed(now - before),
                human::figure(before / now.max(1e-9)),
                or_dash(alone.map(human::duration)),
                or_dash(alone.map(|alone| signed(alone - end))),
                or_dash(alone.map(|alone| human::figure(alone / end.max(1e-9)))),
            ],
        });
        before = now;
    }
    bars.push(bar("all on", 0, 0.0, end, human::duration(end)));
    let title = format!("Waterfall: {} of {}, {}", all_on.work, all_on.chain, all_on.settings.label);
    Some(Chart {
        id: "waterfall".to_owned(),
        title: title.trim_end_matches([',', ' ']).to_owned(),
        lead: "Mean seconds of whole runs: with every idea off, with one more on at a time, with all. \
               The table has each idea in that order, and the cost of disabling only it."
            .to_owned(),
        kind: Kind::Bars,
        x: axis("time", Unit::Seconds),
        y: axis("", Unit::Count),
        series: bars,
        y_max: None,
        reference: None,
        table: table(&["idea", "with it and those above", "saves", "times", "all but it", "costs", "times "], rows),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(without: &[&str], seconds: f64) -> Cell {
        let without = without.iter().map(|&idea| idea.to_owned()).collect();
        Cell { work: "rebuild".to_owned(), without, mean_seconds: Some(seconds), ..Cell::default() }
    }

    #[test]
    fn waterfall_goes_from_all_off_to_all_on() {
        let cells = vec![
            cell(&["a", "b", "c"], 100.0),
            cell(&["b", "c"], 60.0),
            cell(&["c"], 61.0),
            cell(&[], 20.0),
            cell(&["a"], 30.0),
            cell(&["b"], 19.0),
        ];
        let [chart] = &of_report(&Report { cells, ..Report::default() })[..] else { panic!("one chart") };
        let bars: Vec<_> = chart.series.iter().map(|bar| (bar.name.as_str(), bar.points[0])).collect();
        assert_eq!(
            bars,
            [
                ("all off", (100.0, 0.0)),
                ("a", (100.0, 60.0)),
                ("b", (61.0, 60.0)),
                ("c", (61.0, 20.0)),
                ("all on", (20.0, 0.0))
            ]
        );
        assert_eq!(chart.table.rows[0].cells[5], "+10.0 s");
        assert_eq!(chart.table.rows[1].cells[2], "+1.00 s");
    }

    #[test]
    fn other_plans_have_no_waterfall() {
        let cells = vec![cell(&[], 3.0), cell(&["a"], 4.0)];
        assert!(of_report(&Report { cells, ..Report::default() }).is_empty(), "two cells");
        assert!(of_report(&Report { cells: vec![cell(&[], 3.0); 5], ..Report::default() }).is_empty(), "nothing off");
    }
}
