//! Texts under the pointer: the values of all series at positions across a chart.
//!
//! The texts are made here, so that the script does not format numbers.

use serde_json::{Value, json};

use super::charts::{Chart, Kind, Series};
use super::scale::{Scale, text};

/// Number of positions across a chart; they are three or four pixels apart.
const PLACES: usize = 240;

/// Maximum number of values in one text.
const VALUES_MAX: usize = 12;

/// For each position its x, then a list of series and value; greatest value first, layers in stacking order.
pub(super) fn texts(chart: &Chart, x: &Scale) -> Value {
    let places = (0..=PLACES).map(|at| {
        let x = x.value(at as f64 / PLACES as f64);
        let mut values: Vec<_> = chart
            .series
            .iter()
            .enumerate()
            .filter_map(|(at, series)| Some((at, value(chart.kind, series, x)?)))
            .collect();
        match chart.kind {
            Kind::Stack => values.reverse(),
            Kind::Lines | Kind::Steps | Kind::Bars => values.sort_by(|a, b| b.1.total_cmp(&a.1)),
        }
        values.truncate(VALUES_MAX);
        let values: Vec<_> = values.into_iter().map(|(at, value)| json!([at, text(value, chart.y.unit)])).collect();
        json!([text(x, chart.x.unit), values])
    });
    places.collect()
}

/// The value of a series at `x`: interpolated for lines, otherwise that of the last point up to it; `None` beyond its
/// ends.
fn value(kind: Kind, series: &Series, x: f64) -> Option<f64> {
    let points = &series.points;
    let last = points.last()?;
    // The last column is as wide as the others.
    let x = if kind == Kind::Stack { x.min(last.0) } else { x };
    let next = points.partition_point(|point| point.0 <= x);
    let before = points.get(next.checked_sub(1)?)?;
    match points.get(next) {
        Some(next) if kind == Kind::Lines && next.0 > before.0 => {
            Some(before.1 + (next.1 - before.1) * (x - before.0) / (next.0 - before.0))
        }
        Some(_) => Some(before.1),
        None => (x <= last.0).then_some(last.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_interpolates_lines_and_holds_steps() {
        let series = Series { points: vec![(1.0, 10.0), (2.0, 20.0), (4.0, 0.0)], ..Series::default() };
        for (x, line, step, column) in [
            (0.5, None, None, None),
            (1.0, Some(10.0), Some(10.0), Some(10.0)),
            (1.5, Some(15.0), Some(10.0), Some(10.0)),
            (3.0, Some(10.0), Some(20.0), Some(20.0)),
            (4.0, Some(0.0), Some(0.0), Some(0.0)),
            (4.5, None, None, Some(0.0)),
        ] {
            let got = [Kind::Lines, Kind::Steps, Kind::Stack].map(|kind| value(kind, &series, x));
            assert_eq!(got, [line, step, column], "at {x}");
        }
        assert_eq!(value(Kind::Lines, &Series::default(), 1.0), None, "no points");
    }
}
