//! Time and memory over a setting: one line for each program, if a plan has at least three values of the setting.
//!
//! Cells of one line differ only in that setting.

use super::{Axis, Chart, Kind, Row, Series, Unit, axis, or_dash, table};
use crate::plot::input::Inputs;
use crate::result::{Cell, Report, Settings};
use primitives::human;

/// Minimum number of values of a line.
const VALUES_MIN: usize = 3;

/// A numeric setting.
struct Setting {
    id: &'static str,
    name: &'static str,
    value: fn(&Settings) -> Option<f64>,
    /// The other settings, which are equal in all cells of a line.
    without: fn(&mut Settings),
}

const SETTINGS: [Setting; 3] = [
    Setting {
        id: "dbcache",
        name: "dbcache, MiB",
        value: |settings| settings.dbcache_mib.map(|mib| mib as f64),
        without: |settings| settings.dbcache_mib = None,
    },
    Setting {
        id: "batch",
        name: "dbbatchsize, MiB",
        value: |settings| settings.batch_mib.map(|mib| mib as f64),
        without: |settings| settings.batch_mib = None,
    },
    Setting {
        id: "threads",
        name: "par",
        value: |settings| settings.par.filter(|par| *par > 0).map(|par| par as f64),
        without: |settings| settings.par = None,
    },
];

/// Charts of time and peak memory for every setting of which some program has enough values.
pub(super) fn charts(inputs: &Inputs) -> Vec<Chart> {
    let of = |(at, report): (usize, &Report)| {
        let suffix = if inputs.reports.len() > 1 { format!("-{}", at + 1) } else { String::new() };
        SETTINGS.iter().flat_map(|setting| both(report, setting, &suffix)).collect::<Vec<_>>()
    };
    inputs.reports.iter().enumerate().flat_map(of).collect()
}

/// The cells of a line, by the value of the setting.
struct Line<'a> {
    name: String,
    cells: Vec<(f64, &'a Cell)>,
}

fn lines<'a>(report: &'a Report, setting: &Setting) -> Vec<Line<'a>> {
    let mut lines: Vec<(Cell, Line<'a>)> = Vec::new();
    for cell in report.cells.iter().filter(|cell| cell.mean_seconds.is_some()) {
        let Some(value) = (setting.value)(&cell.settings) else { continue };
        let mut settings = Settings { label: String::new(), ..cell.settings.clone() };
        (setting.without)(&mut settings);
        let program = cell.program.clone();
        let work = cell.work.clone();
        let chain = cell.chain.clone();
        let key = Cell { program, work, chain, settings, ..Cell::default() };
        match lines.iter_mut().find(|(other, _)| *other == key) {
            Some((_, line)) => line.cells.push((value, cell)),
            None => {
                let name = format!("{} {}, {}", cell.program, cell.work, cell.chain);
                lines.push((key, Line { name, cells: vec![(value, cell)] }));
            }
        }
    }
    let mut lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
    for line in &mut lines {
        line.cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        line.cells.dedup_by(|a, b| a.0 == b.0);
    }
    lines.retain(|line| line.cells.len() >= VALUES_MIN);
    lines
}

fn both(report: &Report, setting: &Setting, suffix: &str) -> Vec<Chart> {
    let lines = lines(report, setting);
    if lines.is_empty() {
        return Vec::new();
    }
    let time = (format!("Time by {}", setting.name), "seconds", Unit::Seconds);
    let memory = (format!("Peak memory by {}", setting.name), "RssAnon, bytes", Unit::Bytes);
    vec![
        chart(&lines, setting, &format!("time-by-{}{suffix}", setting.id), time, |cell| cell.mean_seconds),
        chart(&lines, setting, &format!("memory-by-{}{suffix}", setting.id), memory, |cell| {
            cell.peak_rss_anon_bytes.map(|bytes| bytes as f64)
        }),
    ]
}

fn chart(
    lines: &[Line<'_>],
    setting: &Setting,
    id: &str,
    heading: (String, &str, Unit),
    value: fn(&Cell) -> Option<f64>,
) -> Chart {
    let (title, label, unit) = heading;
    let series = lines.iter().enumerate().map(|(color, line)| Series {
        name: line.name.clone(),
        group: line.name.clone(),
        color,
        points: line.cells.iter().filter_map(|&(x, cell)| Some((x, value(cell)?))).collect(),
        ..Series::default()
    });
    let rows = lines.iter().enumerate().flat_map(|(color, line)| {
        line.cells.iter().map(move |(x, cell)| Row {
            color: Some(color),
            cells: vec![
                line.name.clone(),
                human::figure(*x),
                or_dash(cell.mean_seconds.map(human::duration)),
                or_dash(cell.interval_percent.map(|percent| format!("± {} %", human::figure(percent)))),
                or_dash(cell.peak_rss_anon_bytes.map(human::bytes)),
                or_dash(cell.bytes_written.map(human::bytes)),
                or_dash(cell.flushes.map(human::count)),
            ],
        })
    });
    Chart {
        id: id.to_owned(),
        title,
        lead: "Means of the runs that did the work; all else is the same along a line. The table has the 95 % interval of each mean.".to_owned(),
        kind: Kind::Lines,
        x: Axis { log: setting.id != "threads", ..axis(setting.name, Unit::Count) },
        y: axis(label, unit),
        series: series.collect(),
        y_max: None,
        reference: None,
        table: table(&["program", setting.name, "mean", "95 %", "peak memory", "written", "flushes"], rows.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(program: &str, dbcache: u64, par: Option<i64>, seconds: f64) -> Cell {
        let settings = Settings { label: format!("{dbcache}"), dbcache_mib: Some(dbcache), par, ..Settings::default() };
        let (program, peak) = (program.to_owned(), Some(dbcache << 20));
        Cell { program, settings, mean_seconds: Some(seconds), peak_rss_anon_bytes: peak, ..Cell::default() }
    }

    #[test]
    fn sweep_has_one_line_for_each_program() {
        let cells = vec![
            cell("ffwd", 4000, None, 5.0),
            cell("ffwd", 100, None, 9.0),
            cell("Core", 100, None, 90.0),
            cell("ffwd", 450, None, 7.0),
            cell("Core", 450, None, 70.0),
            cell("Core", 4000, None, 50.0),
            cell("ffwd", 450, Some(1), 13.0),
        ];
        let inputs = Inputs { reports: vec![Report { cells, ..Report::default() }], ..Inputs::default() };
        let charts = charts(&inputs);
        let ids: Vec<_> = charts.iter().map(|chart| chart.id.as_str()).collect();
        assert_eq!(ids, ["time-by-dbcache", "memory-by-dbcache"], "one value of par is no line");
        let lines: Vec<_> = charts[0].series.iter().map(|line| line.points.clone()).collect();
        assert_eq!(
            lines,
            [[(100.0, 9.0), (450.0, 7.0), (4000.0, 5.0)], [(100.0, 90.0), (450.0, 70.0), (4000.0, 50.0)]]
        );
        assert_eq!(charts[1].series[0].points[0], (100.0, 104_857_600.0));
        assert!(super::charts(&Inputs::default()).is_empty());
    }
}
