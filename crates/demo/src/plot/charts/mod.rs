//! Makes charts from runs: their contents and their tables, independent of the output format.
//!
//! A series is thinned for display ([`POINTS_MAX`]); tables and CSV are made from every point.
//! Absent on purpose: HTML, SVG, actual colours (a chart has an index into a palette).

mod blocks;
mod cells;
mod flushes;
mod height;
mod hot;
mod memory;
mod stages;
mod sweep;
mod waterfall;

use super::input::{Inputs, Run};
use super::{PlotError, PlotOptions};

/// Maximum points of a series: more than a wide screen has columns.
const POINTS_MAX: usize = 1_600;

/// Maximum number of runs that are drawn; of more runs, the longest ones are.
const RUNS_MAX: usize = 24;

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds, shown as a clock.
    Seconds,
    /// A count, such as a height.
    Count,
    /// Bytes.
    Bytes,
    /// Times something.
    Ratio,
    /// Milliseconds.
    Ms,
    /// Percent.
    Percent,
}

/// One axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) unit: Unit,
    /// Whether the scale is logarithmic.
    pub(super) log: bool,
}

/// How series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lines through the points.
    Lines,
    /// Stacked columns; all series have the same x, the left edge of a column.
    Stack,
    /// Steps: y holds from x to the next x.
    Steps,
    /// One bar to the right for each series: one point, from y to x.
    Bars,
}

/// One line, layer or bar.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) name: String,
    /// Name of the group that shares its colour and its entry in the legend.
    pub(super) group: String,
    /// Which colour of the palette.
    pub(super) color: usize,
    pub(super) points: Vec<(f64, f64)>,
    /// Its end is marked, with this text if the text is not empty.
    pub(super) end: Option<String>,
    /// x of the events that are marked on the axis.
    pub(super) ticks: Vec<f64>,
    /// The confidence interval of a bar's value.
    pub(super) whisker: Option<(f64, f64)>,
}

/// A table: its first column is text, the others are figures.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Row>,
}

/// A row, with the colour of its run or series.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) color: Option<usize>,
    pub(super) cells: Vec<String>,
}

/// Everything about one picture.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Name of its files, and its place in the page.
    pub(super) id: String,
    pub(super) title: String,
    /// Its description, one or two sentences.
    pub(super) lead: String,
    pub(super) kind: Kind,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// Upper end of the picture, although lines continue above it.
    pub(super) y_max: Option<f64>,
    /// A horizontal line at this y.
    pub(super) reference: Option<f64>,
    pub(super) table: Table,
}

/// All charts of a report, its summary, and its notes.
#[derive(Debug)]
pub(super) struct Charts {
    pub(super) charts: Vec<Chart>,
    pub(super) summary: Table,
    pub(super) notes: Vec<String>,
}

/// The runs that are drawn, with the colour of each.
pub(super) struct Drawn<'a> {
    pub(super) runs: Vec<(&'a Run, usize)>,
    /// Names that share a colour, by colour.
    pub(super) groups: Vec<&'a str>,
}

/// Makes every chart for which there is data.
///
/// # Errors
///
/// [`PlotError::Baseline`] if no run has the baseline's name.
pub(super) fn make(inputs: &Inputs, options: &PlotOptions) -> Result<Charts, PlotError> {
    let mut notes = Vec::new();
    let drawn = choose(&inputs.runs, &mut notes);
    let mut charts = Vec::new();
    charts.extend(waterfall::charts(inputs));
    charts.extend(cells::charts(inputs, &drawn));
    charts.extend(sweep::charts(inputs));
    charts.extend(height::height(&drawn, options.height_across));
    charts.extend(height::ratio(&drawn, options, &mut notes)?);
    charts.extend(memory::memory(&drawn));
    charts.extend(memory::by_height(&drawn));
    charts.extend(memory::cache(&drawn));
    charts.extend(flushes::times(&drawn));
    charts.extend(flushes::rates(&drawn));
    charts.extend(flushes::memory(&drawn));
    charts.extend(memory::written(&drawn));
    charts.extend(stages::charts(&drawn));
    charts.extend(blocks::times(&drawn));
    charts.extend(hot::chart(&inputs.stacks));
    Ok(Charts { charts, summary: height::summary(&inputs.runs, &drawn), notes })
}

/// Chooses the runs that are drawn, and gives each group a colour in order of appearance.
fn choose<'a>(runs: &'a [Run], notes: &mut Vec<String>) -> Drawn<'a> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    if runs.len() > RUNS_MAX {
        order.sort_by_key(|&at| std::cmp::Reverse(runs[at].points.len()));
        order.truncate(RUNS_MAX);
        order.sort_unstable();
        notes.push(format!(
            "{} runs were read; the {RUNS_MAX} with the most blocks are drawn, all are in the CSV files.",
            runs.len()
        ));
    }
    let mut groups = Vec::<&str>::new();
    let mut drawn = Vec::new();
    for run in order.into_iter().map(|at| &runs[at]) {
        let color = groups.iter().position(|group| *group == run.group).unwrap_or_else(|| {
            groups.push(&run.group);
            groups.len() - 1
        });
        drawn.push((run, color));
    }
    Drawn { runs: drawn, groups }
}

/// Thins `points` for display: in each column the first, the minimum, the maximum and the last one remain.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let columns = POINTS_MAX / 4;
    if points.len() <= POINTS_MAX || last.0 <= first.0 {
        return points.to_vec();
    }
    let width = (last.0 - first.0) / columns as f64;
    let column = |x: f64| (((x - first.0) / width) as usize).min(columns - 1);
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for chunk in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let least = (0..chunk.len()).min_by(|&a, &b| chunk[a].1.total_cmp(&chunk[b].1)).unwrap_or(0);
        let greatest = (0..chunk.len()).max_by(|&a, &b| chunk[a].1.total_cmp(&chunk[b].1)).unwrap_or(0);
        let mut keep = [0, least, greatest, chunk.len() - 1];
        keep.sort_unstable();
        let mut before = usize::MAX;
        for at in keep {
            if at != before {
                kept.push(chunk[at]);
            }
            before = at;
        }
    }
    kept
}

/// A series of a run.
fn line(run: &Run, color: usize, points: &[(f64, f64)]) -> Series {
    Series { name: run.label.clone(), group: run.group.clone(), color, points: thin(points), ..Series::default() }
}

fn axis(label: &str, unit: Unit) -> Axis {
    Axis { label: label.to_owned(), unit, log: false }
}

fn time_axis() -> Axis {
    axis("time since the start", Unit::Seconds)
}

fn table(head: &[&str], rows: Vec<Row>) -> Table {
    Table { head: head.iter().map(|&name| name.to_owned()).collect(), rows }
}

fn row(name: &str, color: usize, figures: impl IntoIterator<Item = String>) -> Row {
    Row { color: Some(color), cells: std::iter::once(name.to_owned()).chain(figures).collect() }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_and_extremes() {
        let mut points: Vec<_> = (0..100_000).map(|at| (f64::from(at), f64::from(at % 7))).collect();
        points[54_321].1 = 99.0;
        points[54_322].1 = -99.0;
        let kept = thin(&points);
        assert!(kept.len() <= POINTS_MAX, "{} points", kept.len());
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[99_999]));
        assert!(kept.contains(&(54_321.0, 99.0)) && kept.contains(&(54_322.0, -99.0)), "the extremes stay");
        assert!(kept.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order");
        assert_eq!(thin(&points[..100]), &points[..100]);
        assert_eq!(thin(&[]), &[]);
    }
}
