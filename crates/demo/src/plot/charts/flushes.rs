//! Time of each write of the coins cache over the run, and coins written in a millisecond.

use super::{Chart, Drawn, Kind, Series, Unit, axis, line, or_dash, row, table, time_axis};
use crate::plot::input::{Flush, Run};
use primitives::human;

/// Milliseconds of each flush.
pub(super) fn times(drawn: &Drawn<'_>) -> Option<Chart> {
    let runs = with(drawn, |flush| flush.ms);
    let rows = runs.iter().map(|&(run, color)| {
        let ms: Vec<f64> = run.flushes.iter().filter_map(|flush| flush.ms).collect();
        let figures = [
            human::count(ms.len() as u64),
            human::figure(ms.iter().sum::<f64>() / ms.len() as f64),
            human::figure(ms.iter().copied().fold(0.0, f64::max)),
            human::duration(ms.iter().sum::<f64>() / 1000.0),
            human::count(run.partial_batches),
        ];
        row(&run.label, color, figures)
    });
    (!runs.is_empty()).then(|| Chart {
        id: "flush-times".to_owned(),
        title: "Flush times".to_owned(),
        lead: "Milliseconds that each flush of the UTXO set took, at the time when it ended. ffwd flushes in the background, Core between blocks. \
               Partial batches: the parts in which Core writes a flush, except the last of each."
            .to_owned(),
        kind: Kind::Lines,
        x: time_axis(),
        y: axis("flush, ms", Unit::Ms),
        series: runs.iter().map(|&(run, color)| series(run, color, |flush| flush.ms)).collect(),
        y_max: None,
        reference: None,
        table: table(&["flushes", "number", "mean ms", "longest ms", "in all", "partial batches"], rows.collect()),
    })
}

/// Coins that each flush wrote in a millisecond.
pub(super) fn rates(drawn: &Drawn<'_>) -> Option<Chart> {
    let runs = with(drawn, rate);
    let rows = runs.iter().map(|&(run, color)| {
        let known = || run.flushes.iter().filter_map(|flush| flush.coins.zip(flush.ms));
        let coins: u64 = known().map(|(coins, _)| coins).sum();
        let ms: f64 = known().map(|(_, ms)| ms).sum();
        let slowest = run.flushes.iter().filter_map(rate).min_by(f64::total_cmp);
        let figures =
            [human::count(coins), human::figure(coins as f64 / ms.max(1e-3)), or_dash(slowest.map(human::figure))];
        row(&run.label, color, figures)
    });
    (!runs.is_empty()).then(|| Chart {
        id: "flush-rates".to_owned(),
        title: "Coins a millisecond".to_owned(),
        lead: "Changed coins of each flush over its milliseconds: deletions count as the others do.".to_owned(),
        kind: Kind::Lines,
        x: time_axis(),
        y: axis("coins/ms", Unit::Count),
        series: runs.iter().map(|&(run, color)| series(run, color, rate)).collect(),
        y_max: None,
        reference: None,
        table: table(&["flushes", "coins", "coins/ms", "slowest"], rows.collect()),
    })
}

/// Maximum anonymous memory during each flush.
pub(super) fn memory(drawn: &Drawn<'_>) -> Option<Chart> {
    let runs: Vec<_> = drawn.runs.iter().filter(|(run, _)| at_flushes(run).len() >= 2).copied().collect();
    let rows = runs.iter().map(|&(run, color)| {
        let points = at_flushes(run);
        let peak = |points: &mut dyn Iterator<Item = f64>| points.fold(0.0, f64::max);
        let all = peak(&mut run.samples.iter().map(|sample| sample.rss_anon));
        let flushing = peak(&mut points.iter().map(|point| point.1));
        let sum = points.iter().map(|point| point.1).sum::<f64>();
        let figures = [flushing, sum / points.len() as f64, all].map(|bytes| human::bytes(bytes as u64));
        row(&run.label, color, figures)
    });
    (!runs.is_empty()).then(|| Chart {
        id: "flush-memory".to_owned(),
        title: "Memory at each flush".to_owned(),
        lead: "The greatest anonymous memory among the samples while a flush went on, at the time when it ended."
            .to_owned(),
        kind: Kind::Lines,
        x: time_axis(),
        y: axis("RssAnon, bytes", Unit::Bytes),
        series: runs.iter().map(|&(run, color)| line(run, color, &at_flushes(run))).collect(),
        y_max: None,
        reference: None,
        table: table(&["memory", "peak at a flush", "mean at flushes", "peak of the run"], rows.collect()),
    })
}

/// When each flush ended, and the maximum memory that was sampled during it, or just before its end.
fn at_flushes(run: &Run) -> Vec<(f64, f64)> {
    let greatest = |flush: &Flush| {
        let begin = flush.t - flush.ms.unwrap_or(0.0) / 1000.0;
        let end = run.samples.partition_point(|sample| sample.t <= flush.t);
        let start = run.samples.partition_point(|sample| sample.t < begin).min(end.saturating_sub(1));
        let memory = run.samples[start..end].iter().map(|sample| sample.rss_anon).fold(0.0, f64::max);
        (memory > 0.0).then_some((flush.t, memory))
    };
    run.flushes.iter().filter_map(greatest).collect()
}

fn rate(flush: &Flush) -> Option<f64> {
    flush.coins.zip(flush.ms).filter(|(_, ms)| *ms > 0.0).map(|(coins, ms)| coins as f64 / ms)
}

fn with<'a>(drawn: &Drawn<'a>, value: impl Fn(&Flush) -> Option<f64>) -> Vec<(&'a Run, usize)> {
    // A single flush makes no line; the table of the cache has it.
    let count = |run: &Run| run.flushes.iter().filter(|flush| value(flush).is_some()).count();
    drawn.runs.iter().filter(|(run, _)| count(run) >= 2).copied().collect()
}

fn series(run: &Run, color: usize, value: impl Fn(&Flush) -> Option<f64>) -> Series {
    let points: Vec<_> = run.flushes.iter().filter_map(|flush| Some((flush.t, value(flush)?))).collect();
    Series { ticks: points.iter().map(|point| point.0).collect(), ..line(run, color, &points) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::input::Sample;

    #[test]
    fn memory_at_a_flush_is_the_greatest_while_it_goes_on() {
        let sample = |t: f64, rss_anon: f64| Sample { t, rss_anon, ..Sample::default() };
        let flush = |t: f64, ms: Option<f64>| Flush { t, height: 1, ms, coins: None };
        let run = Run {
            samples: vec![sample(0.1, 5.0), sample(1.0, 9.0), sample(2.0, 30.0), sample(2.5, 20.0), sample(3.0, 2.0)],
            flushes: vec![flush(2.6, Some(700.0)), flush(3.5, None), flush(0.05, None)],
            ..Run::default()
        };
        assert_eq!(at_flushes(&run), [(2.6, 30.0), (3.5, 2.0)], "the last flush ended before the first sample");
    }
}
