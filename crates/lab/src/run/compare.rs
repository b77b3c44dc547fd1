//! Computes cells from runs: means, deviations, ratios with their intervals, and which cells are comparable.
//!
//! Two cells are comparable if they ended at the same tip with the same UTXO set, and verified the scripts of the same
//! blocks.
//! The interval of a ratio is Welch's on the logarithms of the means: var(ln mean) = s^2 / (n mean^2), with the
//! Welch-Satterthwaite number of degrees of freedom, at 95 %.
//! Absent on purpose: a ratio without a baseline that did the same work; an interval from one run.

use super::plan::{Plan, PlannedCell};
use super::sample::Sample;
use demo::result::{Cell, ChainFacts, Failure, Outcome, RunRecord};

/// Number of points in a cell's memory curve.
const CURVE_POINTS: usize = 200;

/// Student's t at 97.5 %, for 1 to 30 degrees of freedom. Source: any table.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 97.5 % quantile of the normal distribution.
const Z_975: f64 = 1.959_964;

/// Makes the rows of the report, in the order of the plan.
pub(super) fn cells(
    plan: &Plan,
    chains: &[ChainFacts],
    runs: &[RunRecord],
    curves: &dyn Fn(&RunRecord) -> Vec<Sample>,
) -> Vec<Cell> {
    let mut cells: Vec<_> = plan.cells.iter().map(|planned| cell(plan, planned, chains, runs, curves)).collect();
    for at in 0..cells.len() {
        let base = baseline(plan, at);
        let compared = match base {
            Some(base) => compare(&cells[at], &cells[base]),
            None => Err("the baseline does not do this work with these settings".to_owned()),
        };
        let to = base.map(|base| cells[base].cell.clone());
        let cell = &mut cells[at];
        match compared {
            Ok((ratio, between)) => {
                (cell.ratio, cell.ratio_to) = (Some(ratio), to);
                (cell.ratio_low, cell.ratio_high) = between.unzip();
            }
            Err(why) => cell.not_compared = Some(why),
        }
    }
    cells
}

fn cell(
    plan: &Plan,
    planned: &PlannedCell,
    chains: &[ChainFacts],
    runs: &[RunRecord],
    curves: &dyn Fn(&RunRecord) -> Vec<Sample>,
) -> Cell {
    let own = || runs.iter().filter(|run| run.cell == planned.name);
    let done: Vec<_> = own().filter(|run| run.outcome == Outcome::Done).collect();
    let failed = || own().filter(|run| run.outcome != Outcome::Done);
    let failure = |run: &RunRecord| Failure {
        run: run.run,
        outcome: run.outcome,
        why: run.why.clone(),
        last_lines: run.last_lines.clone(),
    };
    let chain = chains.iter().find(|chain| chain.label == plan.chains[planned.chain].label);
    let mut cell = Cell {
        cell: planned.name.clone(),
        program: plan.programs[planned.program].label.clone(),
        work: plan.works[planned.work].kind.name().to_owned(),
        chain: plan.chains[planned.chain].label.clone(),
        settings: plan.settings[planned.settings].clone(),
        without: plan.programs[planned.program].ideas_off(),
        runs: done.len(),
        failed: failed().count(),
        failures: failed().map(failure).collect(),
        seconds: done.iter().map(|run| run.seconds).collect(),
        ..Cell::default()
    };
    let Some(first) = done.first() else { return cell };
    let mean_of = |value: fn(&RunRecord) -> f64| done.iter().map(|run| value(run)).sum::<f64>() / done.len() as f64;
    let mean = mean_of(|run| run.seconds);
    cell.mean_seconds = Some(mean);
    cell.stddev_seconds = deviation(&cell.seconds);
    cell.interval_percent = interval_percent(&cell.seconds);
    let mean_if_all = |value: fn(&RunRecord) -> Option<f64>| {
        let values: Option<Vec<f64>> = done.iter().map(|run| value(run)).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    };
    cell.seconds_from_first_block = mean_if_all(|run| run.seconds_from_first_block);
    cell.commit_seconds = mean_if_all(|run| run.commit_seconds);
    cell.flushes = done.iter().find_map(|run| run.flushes);
    cell.min_seconds = cell.seconds.iter().copied().min_by(f64::total_cmp);
    cell.max_seconds = cell.seconds.iter().copied().max_by(f64::total_cmp);
    cell.peak_rss_anon_bytes = done.iter().map(|run| run.peak_rss_anon_bytes).max();
    cell.cpu_seconds = Some(mean_of(|run| run.cpu_seconds));
    cell.user_seconds = Some(mean_of(|run| run.user_seconds));
    cell.system_seconds = Some(mean_of(|run| run.system_seconds));
    cell.read_calls = Some(mean_of(|run| run.read_calls as f64) as u64);
    cell.write_calls = Some(mean_of(|run| run.write_calls as f64) as u64);
    cell.bytes_read = Some(mean_of(|run| run.bytes_read as f64) as u64);
    let written = mean_of(|run| run.bytes_written as f64);
    cell.bytes_written = Some(written as u64);
    cell.bytes_written_per_chain_byte = chain.filter(|chain| chain.bytes > 0).map(|chain| written / chain.bytes as f64);
    cell.trust.clone_from(&first.trust);
    cell.height = first.height;
    cell.bestblock.clone_from(&first.bestblock);
    cell.txouts = first.txouts;
    cell.hash_serialized_3 = done.iter().find_map(|run| run.hash_serialized_3.clone());
    cell.not_compared = own_disagreement(&done);
    let nearest = done.iter().min_by(|a, b| (a.seconds - mean).abs().total_cmp(&(b.seconds - mean).abs()));
    cell.memory_curve = nearest.map(|run| curve(&curves(run))).unwrap_or_default();
    cell
}

/// The disagreement between the runs of one cell, if any.
fn own_disagreement(done: &[&RunRecord]) -> Option<String> {
    let (first, rest) = done.split_first()?;
    for run in rest {
        if let Err(why) = same_end(ends(run), ends(first)) {
            return Some(format!("its own runs {} and {} differ: {why}", first.run, run.run));
        }
    }
    None
}

/// Tip, set and trust.
type Ends<'a> = (Option<&'a str>, Option<&'a str>, &'a str);

fn ends(run: &RunRecord) -> Ends<'_> {
    (run.bestblock.as_deref(), run.hash_serialized_3.as_deref(), &run.trust)
}

/// Two ends agree unless both know a value, and the values differ.
fn same_end(one: Ends<'_>, other: Ends<'_>) -> Result<(), String> {
    let differ = |a: Option<&str>, b: Option<&str>, what: &str| match a.zip(b) {
        Some((a, b)) if a != b => Err(format!("another {what}, {a} and {b}")),
        Some(_) | None => Ok(()),
    };
    differ(one.0, other.0, "tip")?;
    differ(one.1, other.1, "UTXO set hash")?;
    differ(Some(one.2), Some(other.2), "trust level")
}

/// The cell with which this one is compared: that of the baseline program with the same work, chain and settings. If
/// only the baseline ran this work and chain, its first cell of them. A work that the baseline does not do has its
/// first program as baseline.
fn baseline(plan: &Plan, at: usize) -> Option<usize> {
    let own = &plan.cells[at];
    let alike = || plan.cells.iter().filter(|other| other.work == own.work && other.chain == own.chain);
    let program =
        if alike().any(|other| other.program == plan.baseline) { plan.baseline } else { alike().next()?.program };
    let is_alone = alike().all(|other| other.program == program);
    plan.cells.iter().position(|other| {
        (&other.work, &other.chain, other.program) == (&own.work, &own.chain, program)
            && (is_alone || other.settings == own.settings)
    })
}

/// The ratio of `cell` to `base` and the interval around it, or why it is missing.
type Ratio = (f64, Option<(f64, f64)>);

fn compare(cell: &Cell, base: &Cell) -> Result<Ratio, String> {
    if let Some(why) = &cell.not_compared {
        return Err(why.clone());
    }
    let (Some(mean), Some(base_mean)) = (cell.mean_seconds, base.mean_seconds) else {
        let whose = if cell.mean_seconds.is_none() { "it" } else { "the baseline" };
        return Err(format!("no run of {whose} did the work"));
    };
    if cell.cell != base.cell {
        if base.not_compared.as_ref().is_some_and(|why| why.starts_with("its own runs")) {
            return Err("the runs of the baseline do not agree with each other".to_owned());
        }
        let of = |cell: &Cell| (cell.bestblock.clone(), cell.hash_serialized_3.clone(), cell.trust.clone());
        let own = of(cell);
        let other = of(base);
        if own.0.is_none() || other.0.is_none() || own.1.is_none() || other.1.is_none() {
            return Err("tip or UTXO set hash of one of them is not known".to_owned());
        }
        let why =
            same_end((own.0.as_deref(), own.1.as_deref(), &own.2), (other.0.as_deref(), other.1.as_deref(), &other.2));
        why.map_err(|why| format!("{} has {why}", base.cell))?;
    }
    let ratio = mean / base_mean;
    let is_own = cell.cell == base.cell;
    Ok((ratio, if is_own { None } else { interval(&cell.seconds, &base.seconds) }))
}

/// Sample standard deviation (n - 1); `None` for fewer than two values.
fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Half of the 95 % interval around the mean, in percent of the mean; `None` for fewer than two values.
pub(super) fn interval_percent(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(t_975(count - 1.0) * deviation(values)? / count.sqrt() / mean * 100.0)
}

/// Outliers differ from the median by more than this many median absolute deviations; 1.4826 of these are a standard
/// deviation.
const OUTLIER: f64 = 3.5 * 1.4826;

/// Minimum number of values for the detection of outliers.
const OUTLIERS_OF_MIN: usize = 5;

/// The outliers among the values.
pub(super) fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < OUTLIERS_OF_MIN {
        return Vec::new();
    }
    let median = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let middle = median(values.to_vec());
    let spread = median(values.iter().map(|value| (value - middle).abs()).collect()).max(middle * 0.005);
    (0..values.len()).filter(|&at| (values[at] - middle).abs() > OUTLIER * spread).collect()
}

/// The 95 % interval of the ratio of the means.
fn interval(own: &[f64], base: &[f64]) -> Option<(f64, f64)> {
    let part = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some((mean, (deviation(values)? / mean).powi(2) / values.len() as f64, (values.len() - 1) as f64))
    };
    let (own_mean, own_var, own_free) = part(own)?;
    let (base_mean, base_var, base_free) = part(base)?;
    let var = own_var + base_var;
    let ratio = own_mean / base_mean;
    if var <= 0.0 {
        return Some((ratio, ratio));
    }
    let free = var.powi(2) / (own_var.powi(2) / own_free + base_var.powi(2) / base_free);
    let width = t_975(free) * var.sqrt();
    Some((ratio * (-width).exp(), ratio * width.exp()))
}

/// Student's t at 97.5 % for any number of degrees of freedom: interpolated in 1 / degrees.
fn t_975(free: f64) -> f64 {
    let between = |low: f64, t_low: f64, high_inverse: f64, t_high: f64| {
        let share = (1.0 / low - 1.0 / free) / (1.0 / low - high_inverse);
        t_low + (t_high - t_low) * share
    };
    if free <= 1.0 {
        return T_975[0];
    }
    let low = free.floor() as usize;
    match T_975.get(low - 1..) {
        Some([t_low, t_high, ..]) => between(low as f64, *t_low, 1.0 / (low + 1) as f64, *t_high),
        Some(_) | None => between(30.0, T_975[29], 0.0, Z_975),
    }
}

/// Seconds and memory, thinned to the maximum of each part.
fn curve(samples: &[Sample]) -> Vec<(f64, u64)> {
    let part = samples.len().div_ceil(CURVE_POINTS).max(1);
    let greatest = |part: &[Sample]| {
        part.iter()
            .max_by_key(|sample| sample.usage.rss_anon_bytes)
            .map(|sample| (sample.seconds, sample.usage.rss_anon_bytes))
    };
    samples.chunks(part).filter_map(greatest).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample::Usage;
    use super::*;
    use std::path::Path;

    fn plan(more: &str) -> Plan {
        let text = format!(
            "[[program]]\nlabel = \"core\"\nkind = \"bitcoind\"\npath = \"/b\"\n[[program]]\nlabel = \"ffwd\"\n[[chain]]\nlabel = \"c\"\ndatadir = \"x\"\n\
             [[work]]\nkind = \"rebuild\"\n{more}"
        );
        super::super::plan::parse(&text, Path::new("/")).unwrap()
    }

    fn run(cell: &str, run: usize, seconds: f64) -> RunRecord {
        RunRecord {
            run,
            cell: cell.to_owned(),
            seconds,
            bestblock: Some("tip".to_owned()),
            hash_serialized_3: Some("set".to_owned()),
            trust: "every script".to_owned(),
            bytes_written: 300,
            ..RunRecord::default()
        }
    }

    fn report(plan: &Plan, runs: &[RunRecord]) -> Vec<Cell> {
        let chains = [ChainFacts { label: "c".to_owned(), bytes: 200, ..ChainFacts::default() }];
        cells(plan, &chains, runs, &|_| Vec::new())
    }

    #[test]
    fn summary_gives_means_and_ratios() {
        let runs = [
            run("core rebuild", 1, 10.0),
            run("core rebuild", 2, 12.0),
            run("ffwd rebuild", 3, 2.0),
            run("ffwd rebuild", 4, 2.4),
        ];
        let cells = report(&plan(""), &runs);
        let (core, ffwd) = (&cells[0], &cells[1]);
        assert_eq!(
            (core.mean_seconds, core.min_seconds, core.max_seconds, core.runs),
            (Some(11.0), Some(10.0), Some(12.0), 2)
        );
        assert!((core.stddev_seconds.unwrap() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!((core.ratio, core.ratio_to.as_deref()), (Some(1.0), Some("core rebuild")));
        assert!((ffwd.ratio.unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(ffwd.bytes_written_per_chain_byte, Some(1.5));
        // By hand: both coefficients of variation are 0.12856, var = 2 x 0.12856^2 / 2, two degrees of freedom, t = 4.303.
        let width = 4.303 * 0.128_56;
        assert!((ffwd.ratio_low.unwrap() - 0.2 * f64::exp(-width)).abs() < 1e-4, "{:?}", ffwd.ratio_low);
        assert!((ffwd.ratio_high.unwrap() - 0.2 * f64::exp(width)).abs() < 1e-4, "{:?}", ffwd.ratio_high);
    }

    #[test]
    fn work_that_the_baseline_does_not_do_is_compared_with_its_first_program() {
        let plan = plan(
            "programs = [\"core\"]\n[[program]]\nlabel = \"old\"\n[[work]]\nkind = \"reindex\"\nprograms = [\"old\", \"ffwd\"]\n",
        );
        let runs = [run("core rebuild", 1, 10.0), run("old reindex", 2, 4.0), run("ffwd reindex", 3, 2.0)];
        let cells = report(&plan, &runs);
        let to: Vec<_> = cells.iter().map(|cell| (cell.ratio, cell.ratio_to.as_deref().unwrap())).collect();
        let want = [(Some(1.0), "core rebuild"), (Some(1.0), "old reindex"), (Some(0.5), "old reindex")];
        assert_eq!(to, want);
    }

    #[test]
    fn different_results_have_no_ratio() {
        type Spoil = fn(&mut RunRecord);
        let rows: [(&str, Spoil, &str); 5] = [
            ("tip", |run| run.bestblock = Some("other".to_owned()), "another tip"),
            ("set", |run| run.hash_serialized_3 = Some("other".to_owned()), "another UTXO set hash"),
            ("trust", |run| run.trust = "assumed valid".to_owned(), "another trust level"),
            ("unknown set", |run| run.hash_serialized_3 = None, "not known"),
            ("failed", |run| run.outcome = Outcome::Killed, "no run of it did the work"),
        ];
        for (row, spoil, want) in rows {
            let mut runs = [run("core rebuild", 1, 10.0), run("ffwd rebuild", 2, 2.0)];
            spoil(&mut runs[1]);
            let cells = report(&plan(""), &runs);
            let why = cells[1].not_compared.as_deref().unwrap_or_default();
            assert!(why.contains(want), "{row}: {why:?}");
            assert_eq!((cells[1].ratio, cells[0].ratio), (None, Some(1.0)), "{row}");
        }
        let mut runs = [run("core rebuild", 1, 10.0), run("ffwd rebuild", 2, 2.0), run("ffwd rebuild", 3, 2.0)];
        runs[2].hash_serialized_3 = Some("other".to_owned());
        let why = report(&plan(""), &runs)[1].not_compared.clone().unwrap_or_default();
        assert!(why.contains("its own runs 2 and 3 differ"), "{why}");
    }

    #[test]
    fn single_program_is_compared_with_its_first_settings() {
        let more = "programs = [\"core\"]\n[[settings]]\nlabel = \"a\"\n[[settings]]\nlabel = \"b\"\n";
        let plan = plan(more);
        let cells = report(&plan, &[run("core rebuild, a", 1, 4.0), run("core rebuild, b", 2, 2.0)]);
        assert_eq!((cells[1].ratio, cells[1].ratio_to.as_deref()), (Some(0.5), Some("core rebuild, a")));
        assert_eq!(cells[1].ratio_low, None, "one run each has no interval");
    }

    #[test]
    fn intervals_and_outliers_of_seconds() {
        assert_eq!(interval_percent(&[3.0]), None);
        // By hand: the deviation of 9, 10, 11 is 1; 4.303 / sqrt(3) of 10.
        assert!((interval_percent(&[9.0, 10.0, 11.0]).unwrap() - 24.84).abs() < 0.01);
        assert_eq!(outliers(&[10.0, 10.1, 9.9, 10.0, 14.0]), [4]);
        assert!(outliers(&[10.0, 10.1, 9.9, 14.0]).is_empty() && outliers(&[10.0, 11.0, 9.0, 10.5, 9.5]).is_empty());
    }

    #[test]
    fn student_t_matches_tables() {
        for (free, want) in [(1.0, 12.706), (0.5, 12.706), (2.0, 4.303), (30.0, 2.042), (60.0, 2.000), (1e9, 1.960)] {
            assert!((t_975(free) - want).abs() < 2e-3, "{free}: {}", t_975(free));
        }
        assert!((3.182..4.303).contains(&t_975(2.5)));
    }

    #[test]
    fn memory_curve_keeps_the_peak() {
        let sample = |at: u32| Sample {
            seconds: f64::from(at),
            usage: Usage { rss_anon_bytes: u64::from(if at == 777 { 9999 } else { at % 10 }), ..Usage::default() },
            height: None,
        };
        let samples: Vec<_> = (0..1000).map(sample).collect();
        let curve = curve(&samples);
        assert!(curve.len() <= CURVE_POINTS && curve.contains(&(777.0, 9999)), "{} points", curve.len());
    }
}
