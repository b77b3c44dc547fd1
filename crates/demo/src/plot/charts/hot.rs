//! The functions in which profiled cells spent their processor time.

use super::{Chart, Kind, Row, Series, Unit, axis, table};
use crate::plot::stacks::Stacks;
use primitives::human;

/// Maximum number of functions that are drawn and listed.
const FUNCTIONS_MAX: usize = 20;

/// Maximum length of a function's name.
const NAME_MAX: usize = 70;

/// One chart of all cells that have stacks.
pub(super) fn chart(all: &[Stacks]) -> Option<Chart> {
    let shares: Vec<_> = all.iter().map(Stacks::shares).collect();
    let share_in = |cell: usize, function: &str| {
        shares[cell].iter().find(|(name, _)| *name == function).map_or(0.0, |(_, share)| share * 100.0)
    };
    let mut functions: Vec<&str> = shares.iter().flat_map(|one| one.iter().map(|(name, _)| *name)).collect();
    functions.sort_unstable();
    functions.dedup();
    let greatest = |name: &str| (0..all.len()).map(|cell| share_in(cell, name)).fold(0.0, f64::max);
    functions.sort_by(|a, b| greatest(b).total_cmp(&greatest(a)));
    functions.truncate(FUNCTIONS_MAX);
    let short = |name: &str| name.chars().take(NAME_MAX).collect::<String>();
    let mut series = Vec::new();
    for function in &functions {
        for (cell, stacks) in all.iter().enumerate() {
            let share = share_in(cell, function);
            let name = if all.len() == 1 { short(function) } else { format!("{} · {}", short(function), stacks.cell) };
            let end = Some(format!("{} %", human::figure(share)));
            series.push(Series {
                group: name.clone(),
                name,
                color: cell,
                points: vec![(share, 0.0)],
                end,
                ..Series::default()
            });
        }
    }
    let row = |function: &&str| Row {
        color: None,
        cells: std::iter::once(short(function))
            .chain((0..all.len()).map(|cell| format!("{} %", human::figure(share_in(cell, function)))))
            .collect(),
    };
    let head: Vec<&str> = std::iter::once("function").chain(all.iter().map(|stacks| stacks.cell.as_str())).collect();
    (!series.is_empty()).then(|| Chart {
        id: "functions".to_owned(),
        title: "Where the processors were".to_owned(),
        lead: "Share of the samples in each function itself, of runs that were profiled. With --svg each cell has a flame graph beside \
               this page, and one of what it has more or less of than the cell it is compared with."
            .to_owned(),
        kind: Kind::Bars,
        x: axis("samples", Unit::Percent),
        y: axis("", Unit::Count),
        series,
        y_max: None,
        reference: None,
        table: table(&head, functions.iter().map(row).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_listed_by_their_greatest_share() {
        let stacks = |cell: &str, folded: &[(&str, u64)]| Stacks {
            cell: cell.to_owned(),
            against: None,
            folded: folded.iter().map(|(stack, count)| ((*stack).to_owned(), *count)).collect(),
        };
        assert!(chart(&[]).is_none());
        let all = [stacks("a", &[("t;f", 1), ("t;g", 3)]), stacks("b", &[("t;f", 9), ("t;h", 1)])];
        let chart = chart(&all).unwrap();
        assert_eq!(chart.table.head, ["function", "a", "b"]);
        assert_eq!(chart.table.rows[0].cells, ["f", "25.0 %", "90.0 %"]);
        assert_eq!(chart.series.len(), 6);
    }
}
