//! The numbers of each chart, one file for each chart: every point that was read, not only the thinned ones of the
//! picture.
//!
//! Long form: the first column is the run. Absent on purpose: formatting; a figure is written so that it reads back the same.

use std::io::{self, Write};

use super::charts::Chart;
use super::input::{Inputs, Run};
use crate::debug_log::{STAGE_BIN, STAGE_LINES};

/// Writes the numbers of `chart`.
///
/// # Errors
///
/// An I/O error of `out`.
pub(super) fn write(chart: &Chart, inputs: &Inputs, out: &mut dyn Write) -> io::Result<()> {
    match chart.id.as_str() {
        "height" => heights(&inputs.runs, out),
        "cache" | "flush-times" | "flush-rates" => cache(&inputs.runs, out),
        "memory" | "memory-by-height" | "written" => samples(&inputs.runs, out),
        "block-times" => block_times(&inputs.runs, out),
        id if id.starts_with("stages-") => stages(&inputs.runs, out),
        _ => table(chart, out),
    }
}

fn heights(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"run,seconds,height,transactions,cache_mib,cache_entries\n")?;
    for run in runs {
        let name = quoted(&run.label);
        for point in &run.points {
            write!(out, "{name},{:.6},{},", point.t, point.height)?;
            if point.tx > 0 {
                write!(out, "{}", point.tx)?;
            }
            match point.cache_mib.is_nan() {
                true => writeln!(out, ",,")?,
                false => writeln!(out, ",{},{}", point.cache_mib, point.entries)?,
            }
        }
    }
    Ok(())
}

fn cache(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"run,flush,seconds,height,milliseconds,coins,told_by\n")?;
    for run in runs {
        let name = quoted(&run.label);
        for (at, flush) in run.flushes.iter().enumerate() {
            let ms = flush.ms.map(|ms| ms.to_string()).unwrap_or_default();
            let coins = flush.coins.map(|coins| coins.to_string()).unwrap_or_default();
            let told = if run.flushes_inferred { "size" } else { "log" };
            writeln!(out, "{name},{},{:.6},{},{ms},{coins},{told}", at + 1, flush.t, flush.height)?;
        }
    }
    Ok(())
}

fn samples(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"run,seconds,rss_anon_bytes,write_bytes,height\n")?;
    for run in runs {
        let name = quoted(&run.label);
        for sample in &run.samples {
            let height = sample.height.map(|height| height.to_string()).unwrap_or_default();
            writeln!(out, "{name},{:.3},{},{},{height}", sample.t, sample.rss_anon, sample.written)?;
        }
    }
    Ok(())
}

fn stages(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    write!(out, "run,height_from,blocks")?;
    for name in STAGE_LINES {
        write!(out, ",{}_ms", name.to_ascii_lowercase().replace(' ', "_"))?;
    }
    writeln!(out)?;
    for run in runs {
        let name = quoted(&run.label);
        for (&bin, sums) in &run.stages {
            write!(out, "{name},{},{}", u64::from(bin) * u64::from(STAGE_BIN), sums.blocks)?;
            sums.ms.iter().try_for_each(|ms| write!(out, ",{ms:.3}"))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn block_times(runs: &[Run], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"run,block,milliseconds\n")?;
    for run in runs {
        let name = quoted(&run.label);
        for (at, ms) in run.block_ms.iter().enumerate() {
            writeln!(out, "{name},{},{ms}", at + 1)?;
        }
    }
    Ok(())
}

/// The chart's table if it is complete, and the curve if there is one.
fn table(chart: &Chart, out: &mut dyn Write) -> io::Result<()> {
    if chart.id == "ratio" {
        out.write_all(b"run,baseline_seconds,time_over_baseline\n")?;
        for series in &chart.series {
            let name = quoted(&series.name);
            series.points.iter().try_for_each(|(x, y)| writeln!(out, "{name},{x:.6},{y:.6}"))?;
        }
        return Ok(());
    }
    let line = |cells: &[String]| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
    writeln!(out, "{}", line(&chart.table.head))?;
    chart.table.rows.iter().try_for_each(|row| writeln!(out, "{}", line(&row.cells)))
}

/// A field as RFC 4180 requires it.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn csv_fields_are_quoted_by_rfc_4180() {
        for (field, want) in [("plain", "plain"), ("a,b", "\"a,b\""), ("say \"x\"", "\"say \"\"x\"\"\"")] {
            assert_eq!(super::quoted(field), want);
        }
    }
}
