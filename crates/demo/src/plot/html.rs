//! The report as one HTML file that works from disk: styles, script, data and tables inside, without network access.
//!
//! The charts are those of `svg.rs`; the script (`report.js`) shows values under the pointer, zooms, and hides runs.
//! Everything that came from a file is escaped: labels are untrusted text.

use primitives::human;
use serde_json::{Value, json};

use super::charts::{Chart, Charts, Kind, Series, Table};
use super::input::Inputs;
use super::markup::escape;
use super::{palette, pointer, svg};

const CSS: &str = include_str!("report.css");
const JS: &str = include_str!("report.js");

/// Tables with more columns than this are placed below the chart, not to its right.
const BESIDE_COLUMNS_MAX: usize = 5;

/// Widths of a chart with its table below it, and with its table to its right, so that letters have the same size on a
/// wide screen.
const WIDTH: f64 = 1100.0;
const WIDTH_BESIDE: f64 = 660.0;

/// The whole page.
pub(super) fn page(charts: &Charts, inputs: &Inputs) -> String {
    let title = title(inputs);
    let sections: String = charts.charts.iter().map(section).collect();
    let links: String =
        charts.charts.iter().map(|chart| format!("<a href=\"#{}\">{}</a>", chart.id, escape(&link(chart)))).collect();
    // In JSON a "<" occurs only in strings; with this escape no text can end the script.
    let data = Value::Array(charts.charts.iter().map(data).collect()).to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <title>{title} · ffwd lab</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{}{CSS}</style>\n</head>\n<body>\n\
         <header><div class=\"mark\">ffwd lab</div><h1>{title}</h1>{}{}<nav><a href=\"#runs\">Runs</a>{links}</nav></header>\n<main>\n\
         <section id=\"runs\"><h2>Runs</h2><div class=\"scroll summary\" style=\"margin-top:10px\">{}</div></section>\n{sections}</main>\n\
         <footer><p>Drag in a picture to look closer, double-click to go back; click a name to hide it. The buttons save the points as drawn; \
         <code>--csv</code> writes all of them.</p><p>{}</p></footer>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>{JS}</script>\n</body>\n</html>\n",
        palette::page_css(),
        meta(inputs),
        notes(charts, inputs),
        table(&charts.summary, false),
        escape(&sources(inputs)),
    )
}

fn title(inputs: &Inputs) -> String {
    let titles: Vec<_> =
        inputs.reports.iter().map(|report| report.title.as_str()).filter(|title| !title.is_empty()).collect();
    if !titles.is_empty() {
        return escape(&titles.join(" · "));
    }
    match &inputs.runs[..] {
        [one] => escape(&one.label),
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
                "<b>{}</b>, {} cores, {} memory, {}; clock rate: {}; page cache {}",
                escape(&machine.cpu),
                machine.cores,
                human::bytes(machine.memory_bytes),
                escape(&machine.system),
                escape(if machine.clock_rate.is_empty() { "unknown" } else { &machine.clock_rate }),
                escape(&report.page_cache)
            ));
        }
        for chain in &report.chains {
            let size = human::bytes(chain.bytes);
            parts.push(format!(
                "Chain <b>{}</b>: {} blocks, {size} of block files",
                escape(&chain.label),
                human::count(chain.blocks)
            ));
        }
    }
    parts.dedup();
    parts.iter().map(|part| format!("<p class=\"meta\">{part}</p>")).collect()
}

fn sources(inputs: &Inputs) -> String {
    let mut text = format!(
        "{} of logs and results read, {} lines, {} of them damaged.",
        human::bytes(inputs.bytes),
        human::count(inputs.lines),
        human::count(inputs.damaged)
    );
    if inputs.starts_without_blocks > 0 {
        text +=
            &format!(" {} starts of a program connected no block.", human::count(inputs.starts_without_blocks as u64));
    }
    text
}

/// Marked notes about failures and missing data, then the notes of a result about its runs.
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
    let item = |class: &str, note: &str| format!("<li{class}>{}</li>", escape(note));
    let mut items: String = warnings.map(|note| item(" class=\"warn\"", &note)).collect();
    items.extend(said.map(|note| item("", &note)));
    if items.is_empty() { items } else { format!("<ul class=\"notes\">{items}</ul>") }
}

/// Whether the table of a chart is placed below it.
fn is_below(chart: &Chart) -> bool {
    chart.kind == Kind::Bars || chart.table.head.len() > BESIDE_COLUMNS_MAX
}

fn width(chart: &Chart) -> f64 {
    if is_below(chart) { WIDTH } else { WIDTH_BESIDE }
}

fn section(chart: &Chart) -> String {
    let drawing = svg::inline(chart, width(chart));
    let picture = match chart.kind {
        Kind::Bars => format!("<div class=\"plot\">{drawing}</div>"),
        Kind::Lines | Kind::Stack | Kind::Steps => {
            format!(
                "<div>{}<div class=\"plot live\">{drawing}<div class=\"tip\" hidden></div></div></div>",
                legend(chart)
            )
        }
    };
    format!(
        "<section id=\"{id}\" data-chart=\"{id}\"><div class=\"top\"><h2>{}</h2><button class=\"csv\">CSV</button></div>\
         <p class=\"lead\">{}</p><div class=\"body{}\">{picture}<div class=\"scroll\">{}</div></div></section>\n",
        escape(&chart.title),
        escape(&chart.lead),
        if is_below(chart) { " below" } else { "" },
        table(&chart.table, chart.kind == Kind::Stack),
        id = chart.id,
    )
}

/// A button for each group, in the order of the drawing's `data-g`.
fn legend(chart: &Chart) -> String {
    let button = |(at, series): (usize, &&Series)| {
        let chip = palette::chip(chart.kind == Kind::Stack, series.color);
        let name = escape(&series.group);
        format!(
            "<button class=\"{chip}\" data-group=\"{at}\" aria-pressed=\"true\" title=\"show or hide\">{name}</button>"
        )
    };
    let buttons: String = svg::groups(chart).iter().enumerate().map(button).collect();
    format!("<div class=\"legend\">{buttons}</div>")
}

fn table(table: &Table, of_stages: bool) -> String {
    let head: String = table.head.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    let rows = table.rows.iter().map(|row| {
        let chip = row.color.map(|color| format!(" class=\"{}\"", palette::chip(of_stages, color))).unwrap_or_default();
        let cell = |(at, text): (usize, &String)| {
            format!("<td{}>{}</td>", if at == 0 { chip.as_str() } else { "" }, escape(text))
        };
        format!("<tr>{}</tr>", row.cells.iter().enumerate().map(cell).collect::<String>())
    });
    format!("<table><thead><tr>{head}</tr></thead><tbody>{}</tbody></table>", rows.collect::<String>())
}

/// A chart for the script: the position of its x axis, the texts under the pointer, its points for the CSV file.
fn data(chart: &Chart) -> Value {
    let live = (chart.kind != Kind::Bars).then(|| {
        let x = svg::inline_across(chart, width(chart));
        json!({ "left": x.place_from, "right": x.place_to, "texts": pointer::texts(chart, &x) })
    });
    let groups = svg::groups(chart);
    let series: Vec<_> = chart.series.iter().map(|series| one(chart, series, svg::group_of(&groups, series))).collect();
    json!({ "id": chart.id, "labels": [chart.x.label, chart.y.label], "live": live, "series": series })
}

fn one(chart: &Chart, series: &Series, group: usize) -> Value {
    let chip = palette::chip(chart.kind == Kind::Stack, series.color);
    let column =
        |pick: fn(&(f64, f64)) -> f64| series.points.iter().map(|point| rounded(pick(point))).collect::<Vec<_>>();
    json!({ "name": series.name, "group": group, "chip": chip, "x": column(|point| point.0), "y": column(|point| point.1) })
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
