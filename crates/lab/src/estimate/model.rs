//! Computes the time of a sync from rates and counts.
//!
//! For each part of a chain: the processors need the sum of all stages divided by the number of threads; the reading
//! thread, the committing worker, the disk and the download each need their own time. They run in parallel, so the
//! maximum is the time of the part; the parts are sequential, so their times add up. The error is the root of the sum
//! of squares of the variation of each rate and the uncertainty of the model, each weighted by its share of the time.
//!
//! Absent on purpose: any measuring.

use super::eras::{AGES, COUNT_ERROR, Part};
use demo::chain::Profile;

/// Memory for a coin in the tables at average load, in bytes. Source: bench/record/2026-11-21-baseline.md, 80 to 90.
const COIN_BYTES: f64 = 85.0;

/// Share of `--dbcache` for coins: blocks in flight have a quarter, and indexes and headers a little.
const COINS_SHARE: f64 = 0.7;

/// Size of a coin in the tables on disk, and of undo data for an input, in bytes. Source: delvingbitcoin.org/t/2790,
/// 11.16 GB for about 175 million coins and 106 GB for 3.3 G inputs.
const COIN_DISK_BYTES: f64 = 66.0;
const UNDO_BYTES: f64 = 33.0;

/// Processor time to receive a byte from a peer, in seconds, in addition to validation: decryption, and the copy into
/// the page cache. Source: bench/record/2026-11-21-network.md, 0.85 s for 480 MB.
const RECEIVE_S_PER_BYTE: f64 = 0.85 / 480e6;

/// Number of times that a coin is written, including compactions: the value for a cache of at least half the set, and
/// the addition for each tenfold set. Source: bench/record/2026-11-21-baseline.md, 1.44 GB for 0.35 GB with a cache of
/// a quarter of the set.
const WRITES: f64 = 2.0;
const WRITES_PER_TENFOLD: f64 = 2.0;

/// Model error of the coin set's rates, which are measured on a small set.
const SET_ERROR: f64 = 0.2;
/// Model error of script rates, which are measured on small chains.
const SCRIPT_ERROR: f64 = 0.1;
/// Model error of the disk, whose speed varies from minute to minute.
const DISK_ERROR: f64 = 0.3;

/// A figure, and its relative variation between measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Rate {
    /// The mean of some values, and half of the range between minimum and maximum.
    pub(super) fn of(values: &[f64]) -> Rate {
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(0.0, f64::max);
        if mean <= 0.0 {
            return Rate::default();
        }
        Rate { value: mean, error: (greatest - least) / 2.0 / mean }
    }
}

/// Costs of blocks of one era, in processor seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct EraRates {
    /// Scripts and signatures of an input.
    pub(super) scripts: Rate,
    /// Parsing, hashing and context-free rules, for each byte.
    pub(super) decode: Rate,
    /// Rules that need the coins, for each input.
    pub(super) judge: Rate,
    /// Reading from block files, for each byte, in the single reading thread.
    pub(super) read: Rate,
    /// Undo data, index and tip, for each byte, by one worker at a time.
    pub(super) commit: Rate,
}

/// The rates of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Rates of each era, by its index.
    pub(super) eras: Vec<EraRates>,
    /// Spending or creating a coin.
    pub(super) apply: Rate,
    /// Looking up a coin in the tables, with its table block in memory.
    pub(super) look_up: Rate,
    /// Writing and compacting, for each coin written once.
    pub(super) write: Rate,
    /// Utilization of the workers.
    pub(super) busy: f64,
    /// Bytes a second that are written and synced.
    pub(super) disk: Rate,
    /// Random reads of 4 KiB a second, four in parallel, not from memory.
    pub(super) reads: Rate,
}

/// Parameters of the sync.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) threads: f64,
    pub(super) dbcache_bytes: f64,
    pub(super) memory_bytes: f64,
    /// Bytes a second that arrive from peers; `None` if the blocks are in files.
    pub(super) download: Option<f64>,
    pub(super) every_script: bool,
}

/// The bottleneck of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Processors,
    OneThread,
    Disk,
    Download,
}

impl Bound {
    pub(super) fn words(self) -> &'static str {
        match self {
            Bound::Processors => "processors",
            Bound::OneThread => "one thread",
            Bound::Disk => "disk",
            Bound::Download => "download",
        }
    }
}

/// The time of a part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Time {
    pub(super) seconds: f64,
    pub(super) error_seconds: f64,
    pub(super) bound: Bound,
    /// Processor seconds of each stage.
    pub(super) stages: Vec<(&'static str, f64)>,
}

/// Share of spends with these ages that misses a cache of the newest `cached` coins, of `coins` in total.
pub(super) fn missed(cached: f64, made_per_block: f64, ages: &[(u32, u32)], coins: f64) -> f64 {
    if cached >= coins {
        return 0.0;
    }
    let mut held = 0.0;
    let (mut from, mut share) = ages[0];
    for &(to, next) in &ages[1..] {
        let unspent = 1.0 - f64::from(share + next) / 2_000.0;
        let width = f64::from(to - from);
        let more = made_per_block * unspent * width;
        if held + more >= cached {
            let part = (cached - held) / more.max(1e-9);
            return 1.0 - (f64::from(share) + f64::from(next - share) * part) / 1_000.0;
        }
        held += more;
        (from, share) = (to, next);
    }
    // Older coins than in the table are spent uniformly at random.
    let older = (coins - held).max(1.0);
    (1.0 - f64::from(share) / 1_000.0) * (1.0 - ((cached - held) / older).min(1.0))
}

/// The time of one part.
pub(super) fn time(part: &Part, rates: &Rates, settings: &Settings, ages: &[(u32, u32)]) -> Time {
    let era = &rates.eras[part.era];
    let cached = settings.dbcache_bytes * COINS_SHARE / COIN_BYTES;
    let missed = missed(cached, part.outputs / part.blocks, ages, part.coins);
    let run = if settings.every_script { part.inputs } else { part.inputs - part.assumed };
    // A coin that is spent before its generation is committed is never written.
    let coins_written = part.outputs * missed.max(part.coins / (part.coins + part.inputs));
    let writes = WRITES + WRITES_PER_TENFOLD * (part.coins / cached).max(1.0).log10();
    let from_peers = if settings.download.is_some() { part.bytes * RECEIVE_S_PER_BYTE } else { 0.0 };
    let fixed = |value: f64| Rate { value, error: 0.0 };
    // Name, units, rate, model error.
    let stages = [
        ("decode", part.bytes, era.decode, 0.05),
        ("spend and create", part.inputs + part.outputs, rates.apply, SET_ERROR),
        ("look up", part.inputs * missed, rates.look_up, SET_ERROR * 2.0),
        ("judge", part.inputs, era.judge, SCRIPT_ERROR),
        ("scripts", run, era.scripts, SCRIPT_ERROR),
        ("commit", part.bytes, era.commit, 0.05),
        ("write and compact", coins_written * writes / WRITES, rates.write, SET_ERROR * 2.0),
        ("receive", from_peers, fixed(1.0), 0.3),
    ];
    let seconds = |(_, units, rate, _): &(&str, f64, Rate, f64)| units * rate.value;
    let sum: f64 = stages.iter().map(seconds).sum();
    let spread = settings.threads * rates.busy;
    let square = |stage: &(&'static str, f64, Rate, f64)| (seconds(stage) * stage.2.error.hypot(stage.3)).powi(2);
    let own = stages.iter().map(square).sum::<f64>().sqrt();
    let processors = (sum / spread, own.hypot(sum * COUNT_ERROR) / spread);
    let one = part.bytes * era.commit.value.max(if settings.download.is_some() { 0.0 } else { era.read.value });
    let bytes = part.bytes * if settings.download.is_some() { 1.0 } else { 0.0 }
        + part.inputs * UNDO_BYTES
        + coins_written * COIN_DISK_BYTES * writes;
    let table_bytes = part.coins * COIN_DISK_BYTES;
    let in_memory = ((settings.memory_bytes - settings.dbcache_bytes - 1e9).max(0.0) / table_bytes).min(1.0);
    let reads = part.inputs * missed * (1.0 - in_memory);
    let disk = bytes / rates.disk.value.max(1.0) + reads / rates.reads.value.max(1.0);
    let disk_error = disk * rates.disk.error.max(rates.reads.error).hypot(DISK_ERROR);
    let download = settings.download.map_or(0.0, |rate| part.bytes / rate);
    let mut longest = processors;
    let mut bound = Bound::Processors;
    for (candidate, name) in [
        ((one, one * era.commit.error.hypot(0.1)), Bound::OneThread),
        ((disk, disk_error), Bound::Disk),
        ((download, 0.0), Bound::Download),
    ] {
        if candidate.0 > longest.0 {
            (longest, bound) = (candidate, name);
        }
    }
    let stages = stages.iter().map(|stage| (stage.0, seconds(stage))).collect();
    Time { seconds: longest.0, error_seconds: longest.1, bound, stages }
}

/// The age distribution of a chain of `lab chain`, or of mainnet.
pub(super) fn ages(made: bool) -> Vec<(u32, u32)> {
    if made { Profile::Mainnet2025.ages() } else { AGES.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::super::eras;
    use super::*;

    fn rate(value: f64) -> Rate {
        Rate { value, error: 0.0 }
    }

    fn rates() -> Rates {
        let era = EraRates {
            scripts: rate(6e-6),
            decode: rate(1.3e-9),
            judge: rate(0.2e-6),
            read: rate(0.4e-9),
            commit: rate(0.4e-9),
        };
        Rates {
            eras: vec![era; 5],
            apply: rate(250e-9),
            look_up: rate(1.5e-6),
            write: rate(0.5e-6),
            busy: 0.95,
            disk: rate(1e9),
            reads: rate(50e3),
        }
    }

    fn settings() -> Settings {
        Settings { threads: 2.0, dbcache_bytes: 4e9, memory_bytes: 24e9, download: None, every_script: true }
    }

    fn whole(rates: &Rates, settings: &Settings, parts: &[eras::Part], made: bool) -> f64 {
        parts.iter().map(|part| time(part, rates, settings, &ages(made)).seconds).sum()
    }

    /// The rates of the machine of bench/record/2026-11-21-scripts.md and
    /// bench/record/2026-11-21-baseline.md give about their times.
    #[test]
    fn recorded_runs_follow_from_recorded_rates() {
        let parts = eras::made(1_200, 3_200_000);
        let every = whole(&rates(), &settings(), &parts, true);
        assert!((30.0..50.0).contains(&every), "every script: {every}, recorded 38 to 51");
        let assumed = whole(&rates(), &Settings { every_script: false, ..settings() }, &parts, true);
        assert!((4.0..10.0).contains(&assumed), "assumed valid: {assumed}, recorded 5.2 to 9.8");
    }

    #[test]
    fn time_follows_what_is_scarce() {
        let parts = eras::mainnet(938_343);
        let base = whole(&rates(), &settings(), &parts, false);
        for (row, least, slower) in [
            ("one thread", 1.9, Settings { threads: 1.0, ..settings() }),
            ("a slow line", 1.5, Settings { download: Some(1e6), ..settings() }),
            ("a small cache and memory", 1.1, Settings { dbcache_bytes: 1e8, memory_bytes: 1e9, ..settings() }),
        ] {
            let times = whole(&rates(), &slower, &parts, false) / base;
            assert!(times > least, "{row}: {times}");
        }
        let slow = Settings { download: Some(1e6), ..settings() };
        let part = time(&parts[4], &rates(), &slow, &AGES);
        assert_eq!((part.bound, part.seconds.round()), (Bound::Download, (parts[4].bytes / 1e6).round()));
        let many = Settings { threads: 1e6, ..settings() };
        assert_eq!(time(&parts[4], &rates(), &many, &AGES).bound, Bound::OneThread);
        let no_disk = Rates { disk: rate(1e5), ..rates() };
        assert_eq!(time(&parts[0], &no_disk, &settings(), &AGES).bound, Bound::Disk);
    }

    #[test]
    fn errors_grow_with_what_differed() {
        let part = eras::mainnet(0)[4];
        let exact = time(&part, &rates(), &settings(), &AGES);
        let mut rough = rates();
        rough.eras[4].scripts.error = 0.5;
        let rough = time(&part, &rough, &settings(), &AGES);
        assert_eq!(exact.seconds, rough.seconds);
        assert!(rough.error_seconds > exact.error_seconds * 1.5 && exact.error_seconds > exact.seconds * 0.06);
        assert_eq!(Rate::of(&[1.0, 2.0, 3.0]), Rate { value: 2.0, error: 0.5 });
        assert_eq!(Rate::of(&[]), Rate::default());
    }

    #[test]
    fn larger_caches_miss_less() {
        let share = |cached: f64| missed(cached, 7_750.0, &AGES, 175e6);
        assert!((share(0.0) - 0.8).abs() < 1e-9, "only spends in the same block are found without a cache");
        assert_eq!(share(175e6), 0.0);
        let shares: Vec<_> = [0.0, 1e4, 1e5, 1e6, 1e7, 5e7, 1.7e8].map(share).into();
        assert!(shares.windows(2).all(|pair| pair[0] > pair[1]), "{shares:?}");
        assert!((0.08..0.25).contains(&share(4e6)), "450 MiB: {}", share(4e6));
    }
}
