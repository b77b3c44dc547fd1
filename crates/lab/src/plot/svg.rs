//! A chart as SVG, written by hand: a file for documents, and the bars of the page.
//!
//! Absent on purpose: fonts beyond the system's, scripts, links. Colours are classes of `palette.rs`.

use std::fmt::Write as _;

use super::charts::{Axis, Chart, Kind, Series, Unit};
use super::{palette, text};

const WIDTH: f64 = 960.0;
const PLOT_HEIGHT: f64 = 400.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const BOTTOM: f64 = 56.0;
/// Width of a letter at 12 px, on the safe side.
const LETTER: f64 = 6.9;
/// Flushes are marked in so many rows above the lines.
const TICK_ROWS: usize = 6;

/// The chart as a whole file.
pub(super) fn file(chart: &Chart) -> String {
    let (body, height) = match chart.kind {
        Kind::Bars => bars(chart, true),
        Kind::Lines | Kind::Stack | Kind::Steps => plot(chart),
    };
    let title = text::escape(&chart.title);
    let lead = text::escape(&chart.lead);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif\" font-size=\"12\">\n<title>{title}</title><desc>{lead}</desc>\n\
         <style>{}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\" rx=\"10\"/>\n\
         <text class=\"t\" x=\"24\" y=\"34\" font-size=\"17\" font-weight=\"650\">{title}</text>\n{body}</svg>\n",
        palette::svg_css()
    )
}

/// Bars within the page: no ground, no title, no style of its own.
pub(super) fn inline_bars(chart: &Chart) -> String {
    let (body, height) = bars(chart, false);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" font-size=\"12\">{body}</svg>",
        text::escape(&chart.title)
    )
}

fn tick(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => text::clock_tick(value),
        Unit::Count => text::number_tick(value),
        Unit::Mib => format!("{} MiB", text::number_tick(value)),
        Unit::Ratio => format!("{}×", text::number_tick(value)),
        Unit::Ms if value >= 1000.0 => format!("{} s", text::number_tick(value / 1000.0)),
        Unit::Ms => format!("{} ms", text::number_tick(value)),
        Unit::Percent => format!("{} %", text::number_tick(value)),
    }
}

/// From values to places on the drawing.
struct Scale {
    log: bool,
    from: f64,
    to: f64,
    place_from: f64,
    place_to: f64,
}

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.log { value.max(1e-12).log10() } else { value };
        let (from, to) = (of(self.from), of(self.to));
        let share = if to > from { (of(value) - from) / (to - from) } else { 0.0 };
        self.place_from + share * (self.place_to - self.place_from)
    }

    fn ticks(&self, axis: &Axis, wanted: usize) -> Vec<f64> {
        if self.log {
            let (from, to) = (self.from.log10().ceil() as i32, self.to.log10().floor() as i32);
            return (from..=to).map(|power| 10f64.powi(power)).collect();
        }
        text::ticks(self.to, wanted, axis.unit == Unit::Seconds)
            .into_iter()
            .filter(|&value| value >= self.from)
            .collect()
    }
}

/// Lines, steps or columns, with axes and legend; gives the height of the drawing too.
fn plot(chart: &Chart) -> (String, f64) {
    let mut out = String::new();
    let top = legend(chart, &mut out) + 36.0;
    let (x, y) = scales(chart, top);
    grid(chart, &x, &y, &mut out);
    let (width, height) = (x.place_to - x.place_from, y.place_from - y.place_to);
    write(
        &mut out,
        format_args!(
            "<clipPath id=\"inside\"><rect x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\"/></clipPath>\n<g clip-path=\"url(#inside)\">\n",
            x.place_from, y.place_to
        ),
    );
    match chart.kind {
        Kind::Stack => columns(chart, &x, &y, &mut out),
        Kind::Lines | Kind::Steps | Kind::Bars => {
            chart.series.iter().for_each(|series| line(chart, series, &x, &y, &mut out))
        }
    }
    out.push_str("</g>\n");
    for (at, series) in chart.series.iter().enumerate() {
        flushes(series, &palette::class(chart, series.color), &x, top + (at % TICK_ROWS) as f64 * 9.0, &mut out);
    }
    ends(chart, &x, &y, &mut out);
    (out, top + PLOT_HEIGHT + BOTTOM)
}

fn scales(chart: &Chart, top: f64) -> (Scale, Scale) {
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
    let x =
        Scale { log: chart.x.log, from, to: (last + step).max(from + 1e-9), place_from: LEFT, place_to: WIDTH - RIGHT };
    let y = Scale { log: chart.y.log, from: 0.0, to: to_y, place_from: top + PLOT_HEIGHT, place_to: top };
    (x, y)
}

fn stack_tops(chart: &Chart) -> impl Iterator<Item = f64> + '_ {
    let columns = chart.series.first().map_or(0, |series| series.points.len());
    (0..columns).map(|at| chart.series.iter().filter_map(|series| series.points.get(at)).map(|point| point.1).sum())
}

/// Names with their colours, below the title; returns where the last row ends.
fn legend(chart: &Chart, out: &mut String) -> f64 {
    let (mut x, mut y) = (24.0, 58.0);
    let mut seen: Vec<&str> = Vec::new();
    let all = chart.series.iter();
    let order: Vec<&Series> = if chart.kind == Kind::Stack { all.rev().collect() } else { all.collect() };
    for series in order {
        if seen.contains(&series.group.as_str()) {
            continue;
        }
        seen.push(&series.group);
        let name = shortened(&series.group, 60);
        let width = 30.0 + LETTER * name.chars().count() as f64;
        if x + width > WIDTH - RIGHT && x > 24.0 {
            (x, y) = (24.0, y + 20.0);
        }
        let class = palette::class(chart, series.color);
        write(
            out,
            format_args!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" rx=\"3\" fill=\"currentColor\"/>",
                y - 9.0
            ),
        );
        write(out, format_args!("<text class=\"t\" x=\"{}\" y=\"{y}\">{}</text>\n", x + 16.0, text::escape(&name)));
        x += width;
    }
    y
}

fn shortened(name: &str, letters_max: usize) -> String {
    if name.chars().count() <= letters_max {
        return name.to_owned();
    }
    name.chars().take(letters_max - 1).chain(['…']).collect()
}

fn grid(chart: &Chart, x: &Scale, y: &Scale, out: &mut String) {
    for value in y.ticks(&chart.y, 6) {
        let at = y.place(value);
        write(out, format_args!("<path class=\"g\" d=\"M{} {at:.1}H{}\"/>", x.place_from, x.place_to));
        write(
            out,
            format_args!(
                "<text class=\"m\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                x.place_from - 10.0,
                at + 4.0,
                tick(value, chart.y.unit)
            ),
        );
    }
    for value in x.ticks(&chart.x, 9) {
        let at = x.place(value);
        write(out, format_args!("<path class=\"g\" d=\"M{at:.1} {}V{}\"/>", y.place_from, y.place_to));
        write(
            out,
            format_args!(
                "<text class=\"m\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                y.place_from + 20.0,
                tick(value, chart.x.unit)
            ),
        );
    }
    let middle = (x.place_from + x.place_to) / 2.0;
    write(
        out,
        format_args!(
            "<text class=\"m\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            y.place_from + 42.0,
            text::escape(&chart.x.label)
        ),
    );
    write(
        out,
        format_args!(
            "<text class=\"m\" x=\"24\" y=\"{}\">{}</text>\n",
            y.place_to - 10.0,
            text::escape(&chart.y.label)
        ),
    );
    if let Some(value) = chart.reference {
        let at = y.place(value);
        write(
            out,
            format_args!(
                "<path class=\"r\" stroke-dasharray=\"4 4\" d=\"M{} {at:.1}H{}\"/>\n",
                x.place_from, x.place_to
            ),
        );
    }
}

fn line(chart: &Chart, series: &Series, x: &Scale, y: &Scale, out: &mut String) {
    let mut path = String::new();
    let mut before = 0.0;
    for (at, &(px, py)) in series.points.iter().enumerate() {
        let (px, py) = (x.place(px), y.place(py));
        if at > 0 && chart.kind == Kind::Steps {
            write(&mut path, format_args!("L{px:.1} {before:.1}"));
        }
        write(&mut path, format_args!("{}{px:.1} {py:.1}", if at == 0 { 'M' } else { 'L' }));
        before = py;
    }
    let class = palette::class(chart, series.color);
    let dash = if palette::dashed(chart, series.color) { " stroke-dasharray=\"6 4\"" } else { "" };
    let fill = if chart.kind == Kind::Steps { "fill=\"currentColor\" fill-opacity=\"0.12\"" } else { "fill=\"none\"" };
    write(
        out,
        format_args!(
            "<path class=\"{class}\" {fill} stroke=\"currentColor\" stroke-width=\"2\" stroke-linejoin=\"round\"{dash} d=\"{path}\"/>\n"
        ),
    );
}

fn columns(chart: &Chart, x: &Scale, y: &Scale, out: &mut String) {
    let count = chart.series.first().map_or(0, |series| series.points.len());
    let mut sums = vec![0.0; count];
    let width = (x.place_to - x.place_from) / count.max(1) as f64;
    for series in &chart.series {
        let mut path = String::new();
        for (sum, &(px, value)) in sums.iter_mut().zip(&series.points) {
            let (bottom, top) = (y.place(*sum), y.place(*sum + value));
            *sum += value;
            if bottom - top >= 0.05 {
                write(
                    &mut path,
                    format_args!(
                        "M{:.1} {bottom:.1}V{top:.1}h{:.1}V{bottom:.1}z",
                        x.place(px) + 0.5,
                        (width - 1.0).max(0.5)
                    ),
                );
            }
        }
        write(
            out,
            format_args!(
                "<path class=\"{}\" fill=\"currentColor\" d=\"{path}\"/>\n",
                palette::class(chart, series.color)
            ),
        );
    }
}

fn flushes(series: &Series, class: &str, x: &Scale, base: f64, out: &mut String) {
    let mut path = String::new();
    for at in series.ticks.iter().map(|&t| x.place(t)).filter(|at| *at >= x.place_from && *at <= x.place_to) {
        write(&mut path, format_args!("M{at:.1} {}l-3.5 -7h7z", base + 7.0));
    }
    if !path.is_empty() {
        write(out, format_args!("<path class=\"{class}\" fill=\"currentColor\" d=\"{path}\"/>\n"));
    }
}

/// The last point of each run with its time, labels moved apart.
fn ends(chart: &Chart, x: &Scale, y: &Scale, out: &mut String) {
    let mut labels: Vec<_> = chart
        .series
        .iter()
        .filter_map(|series| {
            let &(px, py) = series.points.last()?;
            Some((x.place(px), y.place(py), series.end.as_deref()?, palette::class(chart, series.color)))
        })
        .collect();
    labels.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut placed: Vec<(f64, f64, f64)> = Vec::new();
    for (px, py, label, class) in labels {
        let width = LETTER * label.chars().count() as f64 + 4.0;
        let turned = px + 9.0 + width > WIDTH - 4.0; // No room at the right: to the left, above the line.
        let (left, mut at) = if turned { (px + 4.0 - width, py - 13.0) } else { (px + 9.0, py + 2.0) };
        let hits = |at: f64| {
            placed.iter().any(|&(other, y, wide)| left < other + wide && other < left + width && (at - y).abs() < 15.0)
        };
        for _ in 0..60 {
            if hits(at) {
                at += 3.0;
            }
        }
        placed.push((left, at, width));
        write(
            out,
            format_args!(
                "<g class=\"{class}\" fill=\"currentColor\"><circle class=\"k\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"5\" stroke-width=\"2\"/>"
            ),
        );
        write(
            out,
            format_args!(
                "<text x=\"{left:.1}\" y=\"{:.1}\" font-weight=\"600\">{}</text></g>\n",
                at + 4.0,
                text::escape(label)
            ),
        );
    }
}

/// One bar a series, names at the left; gives the height of the drawing too.
fn bars(chart: &Chart, alone: bool) -> (String, f64) {
    const ROW: f64 = 34.0;
    /// Room at the right for the figure behind the longest bar.
    const FIGURE: f64 = 150.0;
    let mut out = String::new();
    let top = if alone { 56.0 } else { 6.0 };
    let names: Vec<_> = chart.series.iter().map(|series| shortened(&series.name, 52)).collect();
    let left = names.iter().map(|name| name.chars().count() as f64 * LETTER).fold(80.0, f64::max).min(380.0)
        + if alone { 36.0 } else { 12.0 };
    let reach = |series: &Series| {
        series.whisker.map_or(0.0, |(_, high)| high).max(series.points.first().map_or(0.0, |point| point.0))
    };
    let to = chart.series.iter().map(reach).fold(1e-9, f64::max);
    let x = Scale { log: false, from: 0.0, to, place_from: left, place_to: WIDTH - FIGURE };
    let bottom = top + ROW * chart.series.len() as f64;
    for value in x.ticks(&chart.x, 7) {
        let at = x.place(value);
        write(
            &mut out,
            format_args!(
                "<path class=\"g\" d=\"M{at:.1} {top}V{bottom}\"/><text class=\"m\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 18.0,
                tick(value, chart.x.unit)
            ),
        );
    }
    for (at, (series, name)) in chart.series.iter().zip(&names).enumerate() {
        bar(chart, series, name, &x, top + ROW * at as f64 + ROW / 2.0, &mut out);
    }
    (out, bottom + 30.0)
}

fn bar(chart: &Chart, series: &Series, name: &str, x: &Scale, middle: f64, out: &mut String) {
    let value = series.points.first().map_or(0.0, |point| point.0);
    let end = x.place(value);
    let class = palette::class(chart, series.color);
    write(
        out,
        format_args!(
            "<text class=\"t\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            x.place_from - 12.0,
            middle + 4.0,
            text::escape(name)
        ),
    );
    let width = (end - x.place_from).max(1.0);
    write(
        out,
        format_args!(
            "<rect class=\"{class}\" fill=\"currentColor\" x=\"{:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"18\" rx=\"3\"/>",
            x.place_from,
            middle - 9.0
        ),
    );
    let mut far = end;
    if let Some((low, high)) = series.whisker {
        far = far.max(x.place(high));
        write(
            out,
            format_args!(
                "<path class=\"w\" stroke-width=\"1.5\" fill=\"none\" d=\"M{:.1} {middle}H{:.1}\"/>",
                x.place(low),
                x.place(high)
            ),
        );
    }
    for &run in &series.ticks {
        far = far.max(x.place(run));
        write(
            out,
            format_args!(
                "<circle class=\"k {class}\" fill=\"currentColor\" cx=\"{:.1}\" cy=\"{middle}\" r=\"3.5\" stroke-width=\"1.5\"/>",
                x.place(run)
            ),
        );
    }
    let label = series.end.as_deref().unwrap_or_default();
    write(
        out,
        format_args!(
            "<text class=\"t\" x=\"{:.1}\" y=\"{}\" font-weight=\"600\">{}</text>\n",
            far + 12.0,
            middle + 4.0,
            text::escape(label)
        ),
    );
}

fn write(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes everything");
}
