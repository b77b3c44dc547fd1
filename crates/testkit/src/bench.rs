//! The loop of the benchmarks: under `cargo test` small and only checked, under `cargo bench` full and timed.
//!
//! A row is the minimum and the median of 5 to 101 runs, which together take about half a second. A run repeats its
//! work until it takes at least a millisecond. The work checks its own result. An argument selects rows by name.

use std::time::Instant;

/// Approximate total time of a row's runs, in seconds.
const ROW_S: f64 = 0.5;
/// Minimum time of a run in seconds; below it the clock's resolution matters.
const RUN_S: f64 = 0.001;

/// The options of the command line.
#[derive(Debug)]
pub struct Bench {
    full: bool,
    wanted: Option<String>,
}

/// The amount of work in one round, from which a row's unit cost follows.
#[derive(Clone, Copy, Debug)]
pub struct Per {
    count: usize,
    unit: &'static str,
    bytes: usize,
}

impl Per {
    /// A round processes `count` of `unit`.
    #[must_use]
    pub fn of(count: usize, unit: &'static str) -> Per {
        Per { count, unit, bytes: 0 }
    }

    /// Bytes that a round reads or writes; the row then has a rate as well.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Per {
        Per { bytes, ..self }
    }
}

impl Bench {
    /// Parses the command line: `--bench` comes from `cargo bench`, another argument selects the rows that contain it.
    #[must_use]
    pub fn from_args() -> Bench {
        Bench::new(std::env::args().skip(1))
    }

    fn new(words: impl Iterator<Item = String>) -> Bench {
        let (options, words): (Vec<String>, Vec<String>) = words.partition(|word| word.starts_with('-'));
        Bench { full: options.iter().any(|word| word == "--bench"), wanted: words.into_iter().next() }
    }

    /// Whether this is `cargo bench`.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns `small` under `cargo test`, `large` under `cargo bench`.
    #[must_use]
    pub fn size<T>(&self, small: T, large: T) -> T {
        if self.full { large } else { small }
    }

    /// Whether the command line selects this row.
    #[must_use]
    pub fn wants(&self, row: &str) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| row.contains(wanted.as_str()))
    }

    /// Runs `work`; under `cargo bench`, times it and prints the row. Returns the minimum time of one round, in
    /// seconds.
    pub fn time(&self, row: &str, per: Per, mut work: impl FnMut()) -> f64 {
        if !self.wants(row) {
            return 0.0;
        }
        let once = seconds(1, &mut work).max(1e-9);
        if !self.full {
            return once;
        }
        let repeats = (RUN_S / once).ceil().max(1.0) as u32;
        let count = ((ROW_S / (once * f64::from(repeats))) as usize).clamp(5, 101);
        let mut runs: Vec<f64> = (0..count).map(|_| seconds(repeats, &mut work) / f64::from(repeats)).collect();
        runs.sort_by(f64::total_cmp);
        println!("{}", line(row, per, runs[0], runs[runs.len() / 2]));
        runs[0]
    }
}

/// Time of `repeats` rounds in seconds.
fn seconds(repeats: u32, work: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..repeats).for_each(|_| work());
    start.elapsed().as_secs_f64()
}

/// A row: the cost of one unit, and the rate in GB/s (10^9 bytes a second) if bytes are set.
fn line(row: &str, per: Per, least_s: f64, median_s: f64) -> String {
    let each = |seconds: f64| seconds * 1e9 / per.count.max(1) as f64;
    let (scale, name) = match each(least_s) {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "us"),
        _ => (1e6, "ms"),
    };
    let times = format!("{:>9.2} {name}/{} (median {:>9.2})", each(least_s) / scale, per.unit, each(median_s) / scale);
    let rate = if per.bytes == 0 { String::new() } else { format!(" {:>8.2} GB/s", per.bytes as f64 / least_s / 1e9) };
    format!("{row:<44} {times}{rate}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(words: &[&str]) -> Bench {
        Bench::new(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn words_choose_rows_and_size() {
        for (row, words, full, wants) in [
            ("cargo test", &[][..], false, true),
            ("cargo bench", &["--bench"], true, true),
            ("one row", &["--bench", "sha"], true, true),
            ("another", &["xor", "--bench"], true, false),
        ] {
            let bench = bench(words);
            assert_eq!((bench.is_full(), bench.wants("sha256d")), (full, wants), "{row}");
            assert_eq!(bench.size(1, 2), 1 + u32::from(full), "{row}");
        }
    }

    #[test]
    fn work_runs_once_in_a_test_and_not_at_all_where_unwanted() {
        let mut runs = 0;
        bench(&[]).time("row", Per::of(1, "op"), || runs += 1);
        bench(&["other"]).time("row", Per::of(1, "op"), || runs += 1);
        assert_eq!(runs, 1);
    }

    #[test]
    fn line_scales_to_what_one_costs() {
        let per = Per::of(1000, "input");
        assert!(line("row", per, 0.000_5, 0.001).ends_with("   500.00 ns/input (median   1000.00)"));
        assert!(line("row", per, 0.002, 0.003).ends_with("     2.00 us/input (median      3.00)"));
        assert!(line("row", per.bytes(4_000_000), 0.002, 0.003).ends_with("     2.00 GB/s"));
    }
}
