//! Draws a chart as SVG, both for the page and as a separate file.
//!
//! Colours are classes of `palette.rs`. Attributes for the script of the page: `data-g` is the entry of the legend
//! that an element belongs to, `data-at` its position as a share of the width, `data-level` the zoom level at which it
//! is shown; the contents of a group `zoom` are stretched. Without the script the chart is complete.
//! Absent on purpose: fonts other than the system's, scripts, links.

use std::fmt::{Arguments, Write as _};

use super::charts::{Chart, Kind, Series};
use super::markup::{escape, shortened};
use super::palette;
use super::scale::{Scale, tick};

const FILE_WIDTH: f64 = 960.0;
const PLOT_HEIGHT: f64 = 400.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const BOTTOM: f64 = 56.0;
/// Space for the name of the axis above the axes, if there is neither title nor legend.
const TOP: f64 = 26.0;
/// Width of a letter at 12 px, rounded up.
const LETTER: f64 = 6.9;
/// Number of rows above the lines in which flushes are marked.
const TICK_ROWS: usize = 6;
/// Number of ticks on the x axis, for each zoom level of the page.
const TICKS_ACROSS: [usize; 3] = [9, 36, 144];

/// The chart as a separate file.
pub(super) fn file(chart: &Chart) -> String {
    let mut body = String::new();
    let height = if chart.kind == Kind::Bars {
        bars(chart, FILE_WIDTH, Some(56.0), &mut body)
    } else {
        let top = legend(chart, &mut body) + 36.0;
        Drawing::new(chart, FILE_WIDTH, top).draw(1, &mut body)
    };
    let title = escape(&chart.title);
    let lead = escape(&chart.lead);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {FILE_WIDTH} {height}\" width=\"{FILE_WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif\" font-size=\"12\">\n<title>{title}</title><desc>{lead}</desc>\n\
         <style>{}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\" rx=\"10\"/>\n\
         <text class=\"t\" x=\"24\" y=\"34\" font-size=\"17\" font-weight=\"650\">{title}</text>\n{body}</svg>\n",
        palette::svg_css()
    )
}

/// The chart within the page, which has its own title and legend: without background and style, but with finer ticks
/// for the zoom.
pub(super) fn inline(chart: &Chart, width: f64) -> String {
    let mut body = String::new();
    let height = if chart.kind == Kind::Bars {
        bars(chart, width, None, &mut body)
    } else {
        let drawing = Drawing::new(chart, width, TOP);
        let height = drawing.draw(TICKS_ACROSS.len(), &mut body);
        drawing.pointer(&mut body);
        height
    };
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" font-size=\"12\">{body}</svg>",
        escape(&chart.title)
    )
}

/// The horizontal scale of the picture that [`inline`] draws.
pub(super) fn inline_across(chart: &Chart, width: f64) -> Scale {
    Drawing::new(chart, width, TOP).x
}

/// The groups of a chart in the order of the legend, each with one of its series.
pub(super) fn groups(chart: &Chart) -> Vec<&Series> {
    let mut groups = Vec::<&Series>::new();
    for series in &chart.series {
        if !groups.iter().any(|other| other.group == series.group) {
            groups.push(series);
        }
    }
    if chart.kind == Kind::Stack {
        groups.reverse();
    }
    groups
}

/// The index in [`groups`] of a series.
pub(super) fn group_of(groups: &[&Series], series: &Series) -> usize {
    groups.iter().position(|other| other.group == series.group).unwrap_or(0)
}

/// Names with their colours, below the title; returns where the last row ends.
fn legend(chart: &Chart, out: &mut String) -> f64 {
    let mut x = 24.0;
    let mut y = 58.0;
    for series in groups(chart) {
        let name = shortened(&series.group, 60);
        let width = 30.0 + LETTER * name.chars().count() as f64;
        if x + width > FILE_WIDTH - RIGHT && x > 24.0 {
            (x, y) = (24.0, y + 20.0);
        }
        let class = palette::class(chart, series.color);
        let box_y = y - 9.0;
        put(
            out,
            format_args!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"{box_y}\" width=\"10\" height=\"10\" rx=\"3\" fill=\"currentColor\"/>"
            ),
        );
        put(out, format_args!("<text class=\"t\" x=\"{}\" y=\"{y}\">{}</text>\n", x + 16.0, escape(&name)));
        x += width;
    }
    y
}

/// Lines, steps or columns between two axes.
struct Drawing<'a> {
    chart: &'a Chart,
    groups: Vec<&'a Series>,
    x: Scale,
    y: Scale,
}

impl<'a> Drawing<'a> {
    fn new(chart: &'a Chart, width: f64, top: f64) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let last = points().fold(0.0, |last: f64, point| last.max(point.0));
        let stacked = chart.kind == Kind::Stack;
        let step = chart.series.first().map_or(0.0, |series| match series.points[..] {
            [a, b, ..] if stacked => b.0 - a.0,
            [a] if stacked => a.0.max(1.0),
            _ => 0.0,
        });
        let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let from = if chart.x.log || stacked { first } else { 0.0 };
        let greatest = match chart.y_max {
            Some(max) => max,
            None if stacked => stack_tops(chart).fold(0.0, f64::max),
            None => points().fold(0.0, |most: f64, point| most.max(point.1)),
        };
        let rows = chart.series.iter().filter(|series| !series.ticks.is_empty()).count().min(TICK_ROWS);
        let to_y = greatest.max(chart.reference.unwrap_or(0.0)).max(1e-9) * (1.08 + 0.03 * rows as f64);
        let to = (last + step).max(from + 1e-9);
        let x = Scale { log: chart.x.log, from, to, place_from: LEFT, place_to: width - RIGHT };
        let y = Scale { log: chart.y.log, from: 0.0, to: to_y, place_from: top + PLOT_HEIGHT, place_to: top };
        Self { chart, groups: groups(chart), x, y }
    }

    /// Draws it with the first of [`TICKS_ACROSS`] and the finer ones of `levels`; returns the height of the drawing.
    fn draw(&self, levels: usize, out: &mut String) -> f64 {
        self.grid(levels, out);
        let x = &self.x;
        let y = &self.y;
        let id = &self.chart.id;
        let width = x.place_to - x.place_from;
        let height = y.place_from - y.place_to;
        let left = x.place_from;
        let top = y.place_to;
        put(
            out,
            format_args!(
                "<clipPath id=\"in-{id}\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/></clipPath>\n"
            ),
        );
        put(out, format_args!("<g clip-path=\"url(#in-{id})\"><g class=\"zoom\">\n"));
        match self.chart.kind {
            Kind::Stack => self.columns(out),
            Kind::Lines | Kind::Steps | Kind::Bars => {
                self.chart.series.iter().for_each(|series| self.line(series, out))
            }
        }
        let marked = self.chart.series.iter().filter(|series| !series.ticks.is_empty());
        for (row, series) in marked.enumerate() {
            self.flushes(series, y.place_to + (row % TICK_ROWS) as f64 * 9.0, out);
        }
        out.push_str("</g></g>\n");
        self.ends(out);
        y.place_from + BOTTOM
    }

    /// The class of a series' colour and its entry in the legend, as attributes.
    fn named(&self, series: &Series) -> String {
        format!("class=\"{}\" data-g=\"{}\"", palette::class(self.chart, series.color), group_of(&self.groups, series))
    }

    fn grid(&self, levels: usize, out: &mut String) {
        let x = &self.x;
        let y = &self.y;
        let left = x.place_from;
        let right = x.place_to;
        let top = y.place_to;
        let bottom = y.place_from;
        for value in y.ticks(self.chart.y.unit, 6) {
            let at = y.place(value);
            let text = tick(value, self.chart.y.unit);
            put(out, format_args!("<path class=\"g\" d=\"M{left} {at:.1}H{right}\"/>"));
            put(
                out,
                format_args!(
                    "<text class=\"m\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>\n",
                    left - 10.0,
                    at + 4.0
                ),
            );
        }
        // A logarithmic scale has only powers of ten.
        let levels = if x.log { 1 } else { levels };
        for (level, wanted) in TICKS_ACROSS.into_iter().enumerate().take(levels) {
            for value in x.ticks(self.chart.x.unit, wanted) {
                let at = x.place(value);
                let share = x.share(value);
                let text = tick(value, self.chart.x.unit);
                let display = if level == 0 { "" } else { " display=\"none\"" };
                put(
                    out,
                    format_args!(
                        "<g data-level=\"{level}\" data-at=\"{share:.5}\" transform=\"translate({at:.1})\"{display}>"
                    ),
                );
                put(out, format_args!("<path class=\"g\" d=\"M0 {top}V{bottom}\"/>"));
                put(
                    out,
                    format_args!(
                        "<text class=\"m\" y=\"{}\" text-anchor=\"middle\">{text}</text></g>\n",
                        bottom + 20.0
                    ),
                );
            }
        }
        let middle = (left + right) / 2.0;
        let below = bottom + 42.0;
        let label = escape(&self.chart.x.label);
        put(
            out,
            format_args!("<text class=\"m\" x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{label}</text>\n"),
        );
        let above = top - 10.0;
        let label = escape(&self.chart.y.label);
        put(out, format_args!("<text class=\"m\" x=\"24\" y=\"{above}\">{label}</text>\n"));
        if let Some(value) = self.chart.reference {
            let at = y.place(value);
            put(out, format_args!("<path class=\"r\" stroke-dasharray=\"4 4\" d=\"M{left} {at:.1}H{right}\"/>\n"));
        }
    }

    fn line(&self, series: &Series, out: &mut String) {
        let mut path = String::new();
        let mut before = 0.0;
        for (at, &(x, y)) in series.points.iter().enumerate() {
            let x = self.x.place(x);
            let y = self.y.place(y);
            if at > 0 && self.chart.kind == Kind::Steps {
                put(&mut path, format_args!("L{x:.1} {before:.1}"));
            }
            put(&mut path, format_args!("{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' }));
            before = y;
        }
        let named = self.named(series);
        if self.chart.kind == Kind::Steps {
            self.area(series, &path, &named, out);
        }
        let dash = if palette::dashed(self.chart, series.color) { " stroke-dasharray=\"6 4\"" } else { "" };
        put(
            out,
            format_args!(
                "<path {named} fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" stroke-linejoin=\"round\"{dash} d=\"{path}\"/>\n"
            ),
        );
    }

    /// The area below the steps of `path`, closed at the baseline, also if the first value is not zero.
    fn area(&self, series: &Series, path: &str, named: &str, out: &mut String) {
        let (Some(&(first, _)), Some(&(last, _))) = (series.points.first(), series.points.last()) else { return };
        let base = self.y.place_from;
        let steps = path.replacen('M', "L", 1);
        put(
            out,
            format_args!(
                "<path {named} fill=\"currentColor\" fill-opacity=\"0.12\" d=\"M{:.1} {base:.1}{steps}L{:.1} {base:.1}\"/>\n",
                self.x.place(first),
                self.x.place(last)
            ),
        );
    }

    fn columns(&self, out: &mut String) {
        let count = self.chart.series.first().map_or(0, |series| series.points.len());
        let mut sums = vec![0.0; count];
        let width = ((self.x.place_to - self.x.place_from) / count.max(1) as f64 - 1.0).max(0.5);
        for series in &self.chart.series {
            let mut path = String::new();
            for (sum, &(x, value)) in sums.iter_mut().zip(&series.points) {
                let bottom = self.y.place(*sum);
                let top = self.y.place(*sum + value);
                *sum += value;
                if bottom - top >= 0.05 {
                    let left = self.x.place(x) + 0.5;
                    put(&mut path, format_args!("M{left:.1} {bottom:.1}V{top:.1}h{width:.1}V{bottom:.1}z"));
                }
            }
            put(out, format_args!("<path {} fill=\"currentColor\" d=\"{path}\"/>\n", self.named(series)));
        }
    }

    /// A stroke for each flush.
    fn flushes(&self, series: &Series, top: f64, out: &mut String) {
        let mut path = String::new();
        for at in series.ticks.iter().map(|&t| self.x.share(t)).filter(|share| (0.0..=1.0).contains(share)) {
            put(&mut path, format_args!("M{:.1} {top}v7", LEFT + at * (self.x.place_to - LEFT)));
        }
        if !path.is_empty() {
            put(
                out,
                format_args!(
                    "<path {} stroke=\"currentColor\" stroke-width=\"3\" d=\"{path}\"/>\n",
                    self.named(series)
                ),
            );
        }
    }

    /// The last point of each run with its time, labels moved apart.
    fn ends(&self, out: &mut String) {
        let mut marked: Vec<_> = self
            .chart
            .series
            .iter()
            .filter_map(|series| {
                let &(x, y) = series.points.last()?;
                Some((series, self.x.share(x), self.x.place(x), self.y.place(y), series.end.as_deref()?))
            })
            .collect();
        marked.sort_by(|a, b| b.2.total_cmp(&a.2));
        let mut placed: Vec<(f64, f64, f64)> = Vec::new();
        for (series, share, x, y, label) in marked {
            let width = LETTER * label.chars().count() as f64 + 4.0;
            let turned = x + 9.0 + width > self.x.place_to + RIGHT - 4.0; // Else left, above the line.
            let (left, mut at) = if turned { (x + 4.0 - width, y - 13.0) } else { (x + 9.0, y + 2.0) };
            let hits = |at: f64| {
                placed
                    .iter()
                    .any(|&(other, y, wide)| left < other + wide && other < left + width && (at - y).abs() < 15.0)
            };
            for _ in 0..60 {
                if hits(at) {
                    at += 3.0;
                }
            }
            placed.push((left, at, width));
            let named = self.named(series);
            put(
                out,
                format_args!(
                    "<g {named} data-at=\"{share:.5}\" transform=\"translate({x:.1})\" fill=\"currentColor\">"
                ),
            );
            put(out, format_args!("<circle class=\"k\" cy=\"{y:.1}\" r=\"5\" stroke-width=\"2\"/>"));
            let left = left - x;
            let at = at + 4.0;
            let label = escape(label);
            put(out, format_args!("<text x=\"{left:.1}\" y=\"{at:.1}\" font-weight=\"600\">{label}</text></g>\n"));
        }
    }

    /// Elements that the script moves: the line under the pointer, and the selected range.
    fn pointer(&self, out: &mut String) {
        let top = self.y.place_to;
        let bottom = self.y.place_from;
        put(out, format_args!("<path class=\"r cursor\" display=\"none\" d=\"M0 {top}V{bottom}\"/>"));
        put(out, format_args!("<rect class=\"pick\" display=\"none\" y=\"{top}\" height=\"{}\"/>", bottom - top));
    }
}

fn stack_tops(chart: &Chart) -> impl Iterator<Item = f64> + '_ {
    let columns = chart.series.first().map_or(0, |series| series.points.len());
    (0..columns).map(|at| chart.series.iter().filter_map(|series| series.points.get(at)).map(|point| point.1).sum())
}

/// One bar for each series, with names at the left, below a title that ends at `title`; returns the height of the
/// drawing.
fn bars(chart: &Chart, width: f64, title: Option<f64>, out: &mut String) -> f64 {
    const ROW: f64 = 34.0;
    /// Space at the right for the figure after the longest bar.
    const FIGURE: f64 = 150.0;
    let top = title.unwrap_or(6.0);
    let names: Vec<_> = chart.series.iter().map(|series| shortened(&series.name, 52)).collect();
    let left = names.iter().map(|name| name.chars().count() as f64 * LETTER).fold(80.0, f64::max).min(380.0)
        + if title.is_some() { 36.0 } else { 12.0 };
    let reach = |series: &Series| {
        series.whisker.map_or(0.0, |(_, high)| high).max(series.points.first().map_or(0.0, |point| point.0))
    };
    let to = chart.series.iter().map(reach).fold(1e-9, f64::max);
    let x = Scale { log: false, from: 0.0, to, place_from: left, place_to: width - FIGURE };
    let bottom = top + ROW * chart.series.len() as f64;
    for value in x.ticks(chart.x.unit, 7) {
        let at = x.place(value);
        let below = bottom + 18.0;
        let text = tick(value, chart.x.unit);
        put(out, format_args!("<path class=\"g\" d=\"M{at:.1} {top}V{bottom}\"/>"));
        put(out, format_args!("<text class=\"m\" x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{text}</text>\n"));
    }
    for (at, (series, name)) in chart.series.iter().zip(&names).enumerate() {
        bar(chart, series, name, &x, top + ROW * at as f64 + ROW / 2.0, out);
    }
    bottom + 30.0
}

fn bar(chart: &Chart, series: &Series, name: &str, x: &Scale, middle: f64, out: &mut String) {
    let (value, begin) = series.points.first().copied().unwrap_or_default();
    let left = x.place_from;
    let end = x.place(value);
    let base = middle + 4.0;
    let class = palette::class(chart, series.color);
    let begin = x.place(begin);
    put(
        out,
        format_args!(
            "<text class=\"t\" x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>",
            left - 12.0,
            escape(name)
        ),
    );
    let width = (end - begin).max(1.0);
    let top = middle - 9.0;
    put(
        out,
        format_args!(
            "<rect class=\"{class}\" fill=\"currentColor\" x=\"{begin:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"18\" rx=\"3\"/>"
        ),
    );
    let mut far = end;
    if let Some((low, high)) = series.whisker {
        let low = x.place(low);
        let high = x.place(high);
        far = far.max(high);
        put(
            out,
            format_args!("<path class=\"w\" stroke-width=\"1.5\" fill=\"none\" d=\"M{low:.1} {middle}H{high:.1}\"/>"),
        );
    }
    for run in series.ticks.iter().map(|&run| x.place(run)) {
        far = far.max(run);
        put(
            out,
            format_args!(
                "<circle class=\"k {class}\" fill=\"currentColor\" cx=\"{run:.1}\" cy=\"{middle}\" r=\"3.5\" stroke-width=\"1.5\"/>"
            ),
        );
    }
    let at = far + 12.0;
    let label = escape(series.end.as_deref().unwrap_or_default());
    put(out, format_args!("<text class=\"t\" x=\"{at:.1}\" y=\"{base}\" font-weight=\"600\">{label}</text>\n"));
}

fn put(out: &mut String, text: Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
