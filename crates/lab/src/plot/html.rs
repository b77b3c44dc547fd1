//! The report as one HTML file that works from disk: styles, script, data and tables inside, nothing fetched.
//!
//! uPlot is vendored (`vendor/`, MIT). Everything that came from a file is escaped: labels are foreign text.

use serde_json::{Value, json};

use super::charts::{Chart, Charts, Kind, Series, Table, Unit};
use super::input::Inputs;
use super::{palette, svg, text};

const UPLOT_JS: &str = include_str!("vendor/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("vendor/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("vendor/LICENSE");
const CSS: &str = include_str!("report.css");
const JS: &str = include_str!("report.js");

/// Tables with more columns than this stand below the picture, not beside it.
const BESIDE_COLUMNS_MAX: usize = 5;

/// The whole page.
pub(super) fn page(charts: &Charts, inputs: &Inputs) -> String {
    let title = title(inputs);
    let sections: String = charts.charts.iter().map(section).collect();
    let links: String = charts
        .charts
        .iter()
        .map(|chart| format!("<a href=\"#{}\">{}</a>", chart.id, text::escape(&link(chart))))
        .collect();
    // In JSON a "<" may stand in strings only; written so, no text can end the script.
    let data = Value::Array(charts.charts.iter().map(data).collect()).to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <title>{title} · ffwd lab</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{UPLOT_CSS}\n{}{CSS}</style>\n</head>\n<body>\n\
         <header><div class=\"mark\">ffwd lab</div><h1>{title}</h1>{}{}<nav><a href=\"#runs\">Runs</a>{links}</nav></header>\n<main>\n\
         <section id=\"runs\"><h2>Runs</h2><div class=\"scroll summary\" style=\"margin-top:10px\">{}</div></section>\n{sections}</main>\n\
         <footer><p>Drag in a picture to look closer, double-click to go back; click a name to hide it. The buttons save the points as drawn; \
         <code>--csv</code> writes all of them.</p><p>{}</p></footer>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>/* {UPLOT_LICENSE} */\n{UPLOT_JS}</script>\n<script>{JS}</script>\n</body>\n</html>\n",
        palette::page_css(),
        meta(inputs),
        notes(charts, inputs),
        table(&charts.summary, false),
        text::escape(&sources(inputs)),
    )
}

fn title(inputs: &Inputs) -> String {
    let titles: Vec<_> =
        inputs.reports.iter().map(|report| report.title.as_str()).filter(|title| !title.is_empty()).collect();
    if !titles.is_empty() {
        return text::escape(&titles.join(" · "));
    }
    match &inputs.runs[..] {
        [one] => text::escape(&one.label),
        runs => format!("{} runs", runs.len()),
    }
}

/// The short name of a chart for its link.
fn link(chart: &Chart) -> String {
    if chart.kind == Kind::Bars { "Cells".to_owned() } else { chart.title.clone() }
}

fn meta(inputs: &Inputs) -> String {
    let mut parts = Vec::new();
    for report in &inputs.reports {
        let machine = &report.machine;
        if machine.cores > 0 {
            parts.push(format!(
                "<b>{}</b>, {} cores, {} memory, {}; page cache {}",
                text::escape(&machine.cpu),
                machine.cores,
                text::bytes(machine.memory_bytes as f64),
                text::escape(&machine.system),
                text::escape(&report.page_cache)
            ));
        }
        for chain in &report.chains {
            let size = text::bytes(chain.bytes as f64);
            parts.push(format!(
                "Chain <b>{}</b>: {} blocks, {size} of block files",
                text::escape(&chain.label),
                text::count(chain.blocks)
            ));
        }
    }
    parts.dedup();
    parts.iter().map(|part| format!("<p class=\"meta\">{part}</p>")).collect()
}

fn sources(inputs: &Inputs) -> String {
    let mut text = format!(
        "{} of logs and results read, {} lines, {} of them damaged.",
        text::bytes(inputs.bytes as f64),
        text::count(inputs.lines),
        text::count(inputs.damaged)
    );
    if inputs.starts_without_blocks > 0 {
        text +=
            &format!(" {} starts of a program connected no block.", text::count(inputs.starts_without_blocks as u64));
    }
    text
}

/// What went wrong or is missing, marked, then what a result says about its runs.
fn notes(charts: &Charts, inputs: &Inputs) -> String {
    let cells = || inputs.reports.iter().flat_map(|report| &report.cells);
    let not_compared = cells()
        .filter_map(|cell| cell.not_compared.as_ref().map(|why| format!("{} is not compared: {why}.", cell.cell)));
    let failures = cells().flat_map(|cell| cell.failures.iter().map(move |failure| (cell, failure)));
    let failures = failures.map(|(cell, failure)| format!("Run {} of {}: {}.", failure.run, cell.cell, failure.why));
    let unfinished = inputs.reports.iter().filter(|report| !report.complete);
    let unfinished = unfinished
        .map(|report| format!("Not all runs of {:?} are in: lab run --resume makes the others.", report.title));
    let skipped =
        inputs.skipped.iter().map(|skipped| format!("Not plotted: {}: {}.", skipped.path.display(), skipped.why));
    let warnings = unfinished.chain(failures).chain(not_compared).chain(charts.notes.iter().cloned()).chain(skipped);
    let said = inputs.reports.iter().flat_map(|report| report.notes.iter().cloned());
    let item = |class: &str, note: &str| format!("<li{class}>{}</li>", text::escape(note));
    let mut items: String = warnings.map(|note| item(" class=\"warn\"", &note)).collect();
    items.extend(said.map(|note| item("", &note)));
    if items.is_empty() { items } else { format!("<ul class=\"notes\">{items}</ul>") }
}

fn section(chart: &Chart) -> String {
    let below = chart.kind == Kind::Bars || chart.table.head.len() > BESIDE_COLUMNS_MAX;
    let picture = match chart.kind {
        Kind::Bars => format!("<div class=\"bars\">{}</div>", svg::inline_bars(chart)),
        Kind::Lines | Kind::Stack | Kind::Steps => {
            "<div><div class=\"legend\"></div><div class=\"plot\"></div></div>".to_owned()
        }
    };
    format!(
        "<section id=\"{id}\" data-chart=\"{id}\"><div class=\"top\"><h2>{}</h2><button class=\"csv\" data-csv=\"{id}\">CSV</button></div>\
         <p class=\"lead\">{}</p><div class=\"body{}\">{picture}<div class=\"scroll\">{}</div></div></section>\n",
        text::escape(&chart.title),
        text::escape(&chart.lead),
        if below { " below" } else { "" },
        table(&chart.table, chart.kind == Kind::Stack),
        id = chart.id,
    )
}

fn table(table: &Table, of_stages: bool) -> String {
    let head: String = table.head.iter().map(|name| format!("<th>{}</th>", text::escape(name))).collect();
    let rows = table.rows.iter().map(|row| {
        let chip = row.color.map(|color| format!(" class=\"{}\"", palette::chip(of_stages, color))).unwrap_or_default();
        let cell = |(at, text): (usize, &String)| {
            format!("<td{}>{}</td>", if at == 0 { chip.as_str() } else { "" }, text::escape(text))
        };
        format!("<tr>{}</tr>", row.cells.iter().enumerate().map(cell).collect::<String>())
    });
    format!("<table><thead><tr>{head}</tr></thead><tbody>{}</tbody></table>", rows.collect::<String>())
}

/// A chart for the script.
fn data(chart: &Chart) -> Value {
    let kind = match chart.kind {
        Kind::Lines => "lines",
        Kind::Stack => "stack",
        Kind::Steps => "steps",
        Kind::Bars => "bars",
    };
    let axis = |axis: &super::charts::Axis| json!({ "label": axis.label, "unit": unit(axis.unit), "log": axis.log });
    let series = chart.series.iter().map(|series| one(chart, series)).collect::<Vec<_>>();
    json!({ "id": chart.id, "kind": kind, "x": axis(&chart.x), "y": axis(&chart.y), "reference": chart.reference, "max": chart.y_max, "series": series })
}

fn one(chart: &Chart, series: &Series) -> Value {
    let class = palette::class(chart, series.color);
    let column =
        |pick: fn(&(f64, f64)) -> f64| series.points.iter().map(|point| rounded(pick(point))).collect::<Vec<_>>();
    let ticks: Vec<_> = series.ticks.iter().map(|&tick| rounded(tick)).collect();
    json!({
        "name": series.name, "group": series.group, "class": class, "css": format!("--{class}"), "dash": palette::dashed(chart, series.color),
        "x": column(|point| point.0), "y": column(|point| point.1), "end": series.end, "ticks": ticks,
    })
}

/// Seven significant digits: more than a picture shows, and half the bytes.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 6 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return value.round();
    }
    let power = 10f64.powi(digits.min(15));
    (value * power).round() / power
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "seconds",
        Unit::Count => "count",
        Unit::Mib => "mib",
        Unit::Ratio => "ratio",
        Unit::Ms => "ms",
        Unit::Percent => "percent",
    }
}
