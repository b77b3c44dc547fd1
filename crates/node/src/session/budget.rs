//! The download budget: when blocks may be requested, and how many bytes of them.
//!
//! In: the user's limits, the local time, whether the user paused the download. Out: an `Allowance`. Headers are never
//! limited. Near the tip only the daily limit and a pause apply: outside the download hours the tip stays current, and
//! a tenth of the daily limit is reserved for it. Blocks in flight may still arrive when the allowance ends.
//!
//! Absent on purpose: the rate limit (`p2p` throttles its reads), the clock.

use crate::reporting::state::Pause;
use std::fmt;

/// A chain that lacks at most this many blocks (a day's) is near its tip.
pub(crate) const NEAR_BLOCKS: usize = 144;
/// Divisor: one part in this many of the daily limit is reserved for blocks near the tip.
const NEAR_SHARE: u64 = 10;
const HOURS: u8 = 24;
const MIB: u64 = 1 << 20;

/// A range of hours of the day in local time; it wraps around midnight if the end is not above the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hours {
    from: u8,
    to: u8,
}

impl Hours {
    /// Parses a range such as `22-7`.
    ///
    /// # Errors
    ///
    /// The reason why it is not a range of hours.
    pub fn parse(text: &str) -> Result<Hours, String> {
        let why = || format!("{text} is not a range of hours: expected two numbers from 0 to 24 that differ, as 22-7");
        let (from, to) = text.split_once('-').ok_or_else(why)?;
        let hour = |text: &str| text.trim().parse::<u8>().ok().filter(|&hour| hour <= HOURS).ok_or_else(why);
        let from = hour(from)?;
        let to = hour(to)?;
        if from == to || from == HOURS {
            return Err(why());
        }
        Ok(Hours { from, to: to % HOURS })
    }

    fn has(self, hour: u8) -> bool {
        if self.from < self.to { (self.from..self.to).contains(&hour) } else { hour >= self.from || hour < self.to }
    }

    fn count(self) -> u8 {
        (self.to + HOURS - self.from - 1) % HOURS + 1
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

/// The user's download limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DownloadLimits {
    /// `--maxdownload`: bytes per second.
    pub rate_max: Option<u64>,
    /// `--maxdownloadtarget`: MiB per day.
    pub target_mib: Option<u64>,
    /// `--download-hours`.
    pub hours: Option<Hours>,
}

impl DownloadLimits {
    /// Mean rate that the limits allow over a day, in bytes per second; `None` without limits.
    pub(crate) fn mean_rate(&self) -> Option<f64> {
        let share = self.hours.map_or(1.0, |hours| f64::from(hours.count()) / f64::from(HOURS));
        let by_rate = self.rate_max.map(|rate| rate as f64 * share);
        let by_day = self.target_mib.map(|mib| (mib * MIB) as f64 / 86_400.0);
        by_rate.into_iter().chain(by_day).reduce(f64::min)
    }
}

/// Local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LocalTime {
    /// Days since 1970.
    pub(crate) day: u64,
    /// 0 to 23.
    pub(crate) hour: u8,
}

impl LocalTime {
    /// Computes local time from seconds since 1970 and the offset from UTC in seconds.
    pub(crate) fn of(unix: u64, ahead_s: i32) -> LocalTime {
        let local = unix.saturating_add_signed(i64::from(ahead_s));
        LocalTime { day: local / 86_400, hour: (local % 86_400 / 3600) as u8 }
    }
}

/// Which blocks may be requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allowance {
    /// All blocks.
    All,
    /// Only blocks of a chain that is near its tip.
    NearTip(Pause),
    /// No blocks.
    Nothing(Pause),
}

impl Allowance {
    /// Why not all blocks may be requested.
    pub(crate) fn pause(self) -> Option<Pause> {
        match self {
            Allowance::All => None,
            Allowance::NearTip(pause) | Allowance::Nothing(pause) => Some(pause),
        }
    }
}

/// The download budget, and its usage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    limits: DownloadLimits,
    is_paused: bool,
    now: LocalTime,
    /// Bytes of blocks received on that day.
    used_bytes: u64,
}

impl Budget {
    /// A budget without usage.
    pub(crate) fn new(limits: DownloadLimits) -> Budget {
        Budget { limits, ..Budget::default() }
    }

    /// Updates the time, and whether the user paused the download.
    pub(crate) fn look(&mut self, now: LocalTime, is_paused: bool) {
        if now.day != self.now.day {
            self.used_bytes = 0;
        }
        (self.now, self.is_paused) = (now, is_paused);
    }

    /// Counts a received block.
    pub(crate) fn took(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
    }

    /// Which blocks may be requested now.
    pub(crate) fn allowance(&self) -> Allowance {
        if self.is_paused {
            return Allowance::Nothing(Pause::Call);
        }
        if let Some(mib) = self.limits.target_mib {
            let target = mib.saturating_mul(MIB);
            if self.used_bytes >= target {
                return Allowance::Nothing(Pause::Target { mib });
            }
            if self.used_bytes >= target - target / NEAR_SHARE {
                return Allowance::NearTip(Pause::Target { mib });
            }
        }
        match self.limits.hours {
            Some(hours) if !hours.has(self.now.hour) => Allowance::NearTip(Pause::Hours { from: hours.from }),
            _ => Allowance::All,
        }
    }

    /// Bytes that may still be downloaded today; `None` without a daily limit.
    pub(crate) fn left_bytes(&self) -> Option<u64> {
        let target = self.limits.target_mib?.saturating_mul(MIB);
        Some((target - target / NEAR_SHARE).saturating_sub(self.used_bytes))
    }

    /// Whether there is a daily limit.
    pub(crate) fn has_target(&self) -> bool {
        self.limits.target_mib.is_some()
    }

    /// Day and bytes, stored for the next run: `u64 LE | u64 LE`.
    pub(crate) fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.now.day.to_le_bytes());
        bytes[8..].copy_from_slice(&self.used_bytes.to_le_bytes());
        bytes
    }

    /// Continues with the usage of an earlier run of the same day; input that is not 16 bytes is ignored.
    pub(crate) fn go_on(&mut self, bytes: &[u8], now: LocalTime) {
        self.now = now;
        if let Some((day, used)) = bytes.split_first_chunk::<8>()
            && let Ok(used) = <[u8; 8]>::try_from(used)
            && u64::from_le_bytes(*day) == now.day
        {
            self.used_bytes = u64::from_le_bytes(used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: u8) -> LocalTime {
        LocalTime { day: 20_000, hour }
    }

    #[test]
    fn hours_may_go_over_midnight() {
        for (text, inside, outside, count) in [
            ("22-7", &[22, 23, 0, 6][..], &[7, 12, 21][..], 9),
            ("7-22", &[7, 21], &[6, 22, 0], 15),
            ("0-24", &[0, 12, 23], &[], 24),
            ("23-24", &[23], &[0, 22], 1),
            ("0-1", &[0], &[1, 23], 1),
        ] {
            let hours = Hours::parse(text).unwrap();
            assert!(inside.iter().all(|&hour| hours.has(hour)), "{text}");
            assert!(!outside.iter().any(|&hour| hours.has(hour)), "{text}");
            assert_eq!(hours.count(), count, "{text}");
        }
        for bad in ["", "7", "7-7", "25-3", "-1-4", "24-3", "a-b", "1-2-3"] {
            assert!(Hours::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn local_time_is_ahead_or_behind() {
        assert_eq!(LocalTime::of(86_400, 0), LocalTime { day: 1, hour: 0 });
        assert_eq!(LocalTime::of(86_400, -3600), LocalTime { day: 0, hour: 23 });
        assert_eq!(LocalTime::of(86_400 - 60, 3600), LocalTime { day: 1, hour: 0 });
        assert_eq!(LocalTime::of(10, -3600), LocalTime { day: 0, hour: 0 }, "before 1970");
    }

    #[test]
    fn outside_the_hours_only_the_tip_is_kept_current() {
        let hours = Hours::parse("22-7").unwrap();
        let mut budget = Budget::new(DownloadLimits { hours: Some(hours), ..DownloadLimits::default() });
        budget.look(at(23), false);
        assert_eq!(budget.allowance(), Allowance::All);
        budget.look(at(12), false);
        assert_eq!(budget.allowance(), Allowance::NearTip(Pause::Hours { from: 22 }));
        budget.look(at(12), true);
        assert_eq!(budget.allowance(), Allowance::Nothing(Pause::Call), "a pause goes first");
    }

    #[test]
    fn a_day_has_its_bytes_and_the_tip_its_part_of_them() {
        let mut budget = Budget::new(DownloadLimits { target_mib: Some(10), ..DownloadLimits::default() });
        budget.look(at(1), false);
        assert_eq!((budget.allowance(), budget.left_bytes()), (Allowance::All, Some(9 * MIB)));
        budget.took(9 * MIB);
        assert_eq!(budget.allowance(), Allowance::NearTip(Pause::Target { mib: 10 }));
        budget.took(MIB);
        assert_eq!(budget.allowance(), Allowance::Nothing(Pause::Target { mib: 10 }));
        budget.look(LocalTime { day: 20_001, hour: 0 }, false);
        assert_eq!(budget.allowance(), Allowance::All, "the next day");
    }

    #[test]
    fn what_is_used_is_kept_over_a_restart() {
        let limits = DownloadLimits { target_mib: Some(10), ..DownloadLimits::default() };
        let mut budget = Budget::new(limits);
        budget.look(at(1), false);
        budget.took(4 * MIB);
        let kept = budget.to_bytes();
        let mut next = Budget::new(limits);
        next.go_on(&kept, at(2));
        assert_eq!(next.left_bytes(), Some(5 * MIB));
        let mut next = Budget::new(limits);
        next.go_on(&kept, LocalTime { day: 20_001, hour: 2 });
        assert_eq!(next.left_bytes(), Some(9 * MIB), "another day");
        let mut next = Budget::new(limits);
        next.go_on(&kept[..15], at(2));
        assert_eq!(next.left_bytes(), Some(9 * MIB), "damaged");
    }

    #[test]
    fn the_mean_rate_is_that_of_the_narrowest_limit() {
        let limits = |rate_max, target_mib, hours: Option<&str>| DownloadLimits {
            rate_max,
            target_mib,
            hours: hours.map(|text| Hours::parse(text).unwrap()),
        };
        assert_eq!(limits(None, None, Some("0-12")).mean_rate(), None);
        assert_eq!(limits(Some(1000), None, None).mean_rate(), Some(1000.0));
        assert_eq!(limits(Some(1000), None, Some("22-4")).mean_rate(), Some(250.0));
        let day = limits(Some(1 << 30), Some(86_400), None).mean_rate();
        assert_eq!(day, Some((1 << 20) as f64));
    }
}
