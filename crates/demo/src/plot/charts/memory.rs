//! Memory, the coins cache with its flushes, and bytes written, over time.

use super::{Chart, Drawn, Kind, Series, Unit, axis, line, or_dash, row, table, time_axis};
use crate::plot::input::{Run, Sample};
use primitives::human;

const MIB: f64 = 1_048_576.0;

/// Anonymous memory over time.
pub(super) fn memory(drawn: &Drawn<'_>) -> Option<Chart> {
    let runs = sampled(drawn, |sample| sample.rss_anon);
    let rows = runs.iter().map(|&(run, color)| {
        let greatest = run.samples.iter().max_by(|a, b| a.rss_anon.total_cmp(&b.rss_anon)).copied().unwrap_or_default();
        let last = alive(run).last().copied().unwrap_or_default();
        let figures = [
            human::bytes(greatest.rss_anon as u64),
            human::duration(greatest.t),
            human::bytes(mean(alive(run)) as u64),
            human::bytes(last.rss_anon as u64),
        ];
        row(&run.label, color, figures)
    });
    (!runs.is_empty()).then(|| Chart {
        id: "memory".to_owned(),
        title: "Memory".to_owned(),
        lead: "Anonymous memory (RssAnon) as sampled: what the program itself allocated, without mapped files."
            .to_owned(),
        kind: Kind::Lines,
        x: time_axis(),
        y: axis("RssAnon, bytes", Unit::Bytes),
        series: runs.iter().map(|&(run, color)| samples(run, color, alive(run), |sample| sample.rss_anon)).collect(),
        y_max: None,
        reference: None,
        table: table(&["anonymous memory", "peak", "at", "mean", "last"], rows.collect()),
    })
}

/// Anonymous memory by height.
pub(super) fn by_height(drawn: &Drawn<'_>) -> Option<Chart> {
    let has_height = |run: &Run| run.samples.iter().any(|sample| sample.height.is_some() && sample.rss_anon > 0.0);
    let runs: Vec<_> = drawn.runs.iter().filter(|(run, _)| has_height(run)).copied().collect();
    let points = |run: &Run| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for sample in alive(run) {
            let Some(height) = sample.height.map(f64::from) else { continue };
            // After a reorganisation the chain is drawn at the maximum height so far.
            let height = points.last().map_or(height, |last| last.0.max(height));
            points.push((height, sample.rss_anon));
        }
        points
    };
    let rows = runs.iter().map(|&(run, color)| {
        let points = points(run);
        let greatest = points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        let by = |share: f64| {
            let height = points.last().map_or(0.0, |last| last.0 * share);
            let until = points.iter().take_while(|point| point.0 <= height);
            human::bytes(until.map(|point| point.1).fold(0.0, f64::max) as u64)
        };
        let peak = [human::bytes(greatest.1 as u64), human::count(greatest.0 as u64)];
        row(&run.label, color, peak.into_iter().chain([0.25, 0.5, 0.75].map(by)))
    });
    (!runs.is_empty()).then(|| Chart {
        id: "memory-by-height".to_owned(),
        title: "Memory by height".to_owned(),
        lead: "Anonymous memory (RssAnon) as sampled, over the height of the tip. The table has the peak, and the greatest up to a quarter, a half and three quarters of the height.".to_owned(),
        kind: Kind::Lines,
        x: axis("height", Unit::Count),
        y: axis("RssAnon, bytes", Unit::Bytes),
        series: runs.iter().map(|&(run, color)| line(run, color, &points(run))).collect(),
        y_max: None,
        reference: None,
        table: table(&["anonymous memory", "peak", "at height", "to 25 %", "to 50 %", "to 75 %"], rows.collect()),
    })
}

/// Bytes written to storage over time.
pub(super) fn written(drawn: &Drawn<'_>) -> Option<Chart> {
    let runs = sampled(drawn, |sample| sample.written);
    let rows = runs.iter().map(|&(run, color)| {
        let last = run.samples.last().copied().unwrap_or_default();
        row(
            &run.label,
            color,
            [
                human::bytes(last.written as u64),
                format!("{}/s", human::bytes((last.written / last.t.max(1e-3)) as u64)),
            ],
        )
    });
    (!runs.is_empty()).then(|| Chart {
        id: "written".to_owned(),
        title: "Bytes written".to_owned(),
        lead: "Bytes that the program sent to storage since its start, as the system counted them.".to_owned(),
        kind: Kind::Lines,
        x: time_axis(),
        y: axis("written, bytes", Unit::Bytes),
        series: runs.iter().map(|&(run, color)| samples(run, color, &run.samples, |sample| sample.written)).collect(),
        y_max: None,
        reference: None,
        table: table(&["bytes written", "in all", "rate"], rows.collect()),
    })
}

/// Size of the coins cache over time, with flushes marked.
pub(super) fn cache(drawn: &Drawn<'_>) -> Option<Chart> {
    let has_cache = |run: &Run| run.points.iter().any(|point| !point.cache_mib.is_nan());
    let runs: Vec<_> = drawn.runs.iter().filter(|(run, _)| has_cache(run)).copied().collect();
    let series = runs.iter().map(|&(run, color)| {
        let points: Vec<_> = cached(run).collect();
        Series { ticks: run.flushes.iter().map(|flush| flush.t).collect(), ..line(run, color, &points) }
    });
    let series: Vec<_> = series.collect();
    let rows = runs.iter().map(|&(run, color)| {
        let peak = run
            .points
            .iter()
            .filter(|point| !point.cache_mib.is_nan())
            .max_by(|a, b| a.cache_mib.total_cmp(&b.cache_mib));
        let per_entry = peak
            .filter(|peak| peak.entries > 0)
            .map(|peak| human::figure(f64::from(peak.cache_mib) * MIB / peak.entries as f64));
        let took: Option<f64> = run.flushes.iter().map(|flush| flush.ms).sum();
        let coins: Option<u64> = run.flushes.iter().map(|flush| flush.coins).sum();
        let some = !run.flushes.is_empty();
        let count = human::count(run.flushes.len() as u64);
        let figures = [
            or_dash(peak.map(|peak| human::bytes((f64::from(peak.cache_mib) * MIB) as u64))),
            or_dash(peak.map(|peak| human::count(peak.entries))),
            or_dash(per_entry),
            if run.flushes_inferred && some { format!("{count}*") } else { count },
            or_dash(coins.filter(|_| some).map(human::count)),
            or_dash(took.filter(|_| some).map(|ms| human::duration(ms / 1000.0))),
        ];
        row(&run.label, color, figures)
    });
    let inferred = runs.iter().any(|(run, _)| run.flushes_inferred && !run.flushes.is_empty());
    let star = if inferred {
        " * told from the cache's size: the log has no line about flushes (-debug=coindb, -debug=bench)."
    } else {
        ""
    };
    (!series.is_empty()).then(|| Chart {
        id: "cache".to_owned(),
        title: "Coins cache and flushes".to_owned(),
        lead: format!(
            "Size of the coins cache as the log gives it at each block. The marks above are flushes to disk.{star}"
        ),
        kind: Kind::Lines,
        x: time_axis(),
        y: axis("cache, bytes", Unit::Bytes),
        series,
        y_max: None,
        reference: None,
        table: table(
            &["coins cache", "peak", "entries", "B/entry", "flushes", "coins flushed", "took"],
            rows.collect(),
        ),
    })
}

/// Seconds and bytes of the cache.
fn cached(run: &Run) -> impl Iterator<Item = (f64, f64)> + '_ {
    run.points.iter().filter(|point| !point.cache_mib.is_nan()).map(|point| (point.t, f64::from(point.cache_mib) * MIB))
}

fn sampled<'a>(drawn: &Drawn<'a>, value: impl Fn(&Sample) -> f64) -> Vec<(&'a Run, usize)> {
    drawn.runs.iter().filter(|(run, _)| run.samples.iter().any(|sample| value(sample) > 0.0)).copied().collect()
}

/// The samples without those at the end, taken after the memory was released.
fn alive(run: &Run) -> &[Sample] {
    let end = run.samples.iter().rposition(|sample| sample.rss_anon > 0.0).map_or(0, |last| last + 1);
    &run.samples[..end]
}

fn samples(run: &Run, color: usize, samples: &[Sample], value: impl Fn(&Sample) -> f64) -> Series {
    let points: Vec<_> = samples.iter().map(|sample| (sample.t, value(sample))).collect();
    line(run, color, &points)
}

/// Mean over time: delayed samples have more weight.
fn mean(samples: &[Sample]) -> f64 {
    let mut area = 0.0;
    let mut time = 0.0;
    for pair in samples.windows(2) {
        let width = (pair[1].t - pair[0].t).max(0.0);
        area += width * (pair[0].rss_anon + pair[1].rss_anon) / 2.0;
        time += width;
    }
    if time > 0.0 { area / time } else { samples.first().map_or(0.0, |sample| sample.rss_anon) }
}
