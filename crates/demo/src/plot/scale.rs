//! Maps values to positions on a drawing, and makes the labels of axes.
//!
//! Ticks have the shortest form (`5k`, `1h30`), values the full form of `primitives::human`.

use super::charts::Unit;
use primitives::human;

/// Maps values to positions on the drawing.
pub(super) struct Scale {
    pub(super) log: bool,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) place_from: f64,
    pub(super) place_to: f64,
}

impl Scale {
    fn on_axis(&self, value: f64) -> f64 {
        if self.log { value.max(1e-12).log10() } else { value }
    }

    /// Position of `value` between the ends, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let from = self.on_axis(self.from);
        let to = self.on_axis(self.to);
        if to > from { (self.on_axis(value) - from) / (to - from) } else { 0.0 }
    }

    /// Position at which `value` is drawn.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.place_from + self.share(value) * (self.place_to - self.place_from)
    }

    /// The value at a position from 0 to 1.
    pub(super) fn value(&self, share: f64) -> f64 {
        let from = self.on_axis(self.from);
        let to = self.on_axis(self.to);
        let at = from + share * (to - from);
        if self.log { 10f64.powf(at) } else { at }
    }

    /// About `wanted` ticks; on a logarithmic scale every power of ten.
    pub(super) fn ticks(&self, unit: Unit, wanted: usize) -> Vec<f64> {
        if self.log {
            let from = self.from.log10().ceil() as i32;
            let to = self.to.log10().floor() as i32;
            return (from..=to).map(|power| 10f64.powi(power)).collect();
        }
        let mut ticks = ticks(self.to, wanted, unit == Unit::Seconds);
        ticks.retain(|&value| value >= self.from);
        ticks
    }
}

/// Steps between ticks for seconds, as on a clock.
const CLOCK_STEPS: [f64; 22] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
    21_600.0, 43_200.0, 86_400.0, 172_800.0,
];

/// About `wanted` ticks from 0 to `max`, at round numbers; `clock` for seconds.
fn ticks(max: f64, wanted: usize, clock: bool) -> Vec<f64> {
    let rough = max / wanted.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return vec![0.0];
    }
    let round = || {
        let power = 10f64.powf(rough.log10().floor());
        [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|step| step * power)
            .find(|&step| step >= rough * 0.999)
            .unwrap_or(power * 10.0)
    };
    let step = if clock && rough > CLOCK_STEPS[0] {
        CLOCK_STEPS.into_iter().find(|&step| step >= rough).unwrap_or_else(round)
    } else {
        round()
    };
    (0..=(max / step * 1.000_001) as usize).map(|at| at as f64 * step).collect()
}

/// A value at a tick.
pub(super) fn tick(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => clock_tick(value),
        Unit::Count => number_tick(value),
        Unit::Bytes => bytes_tick(value),
        Unit::Ratio => format!("{}×", number_tick(value)),
        Unit::Ms if value >= 1000.0 => format!("{} s", number_tick(value / 1000.0)),
        Unit::Ms => format!("{} ms", number_tick(value)),
        Unit::Percent => format!("{} %", number_tick(value)),
    }
}

/// A value in full.
pub(super) fn text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => human::duration(value),
        Unit::Count => human::count(value.round() as u64),
        Unit::Bytes => human::bytes(value as u64),
        Unit::Ratio => format!("{value:.3}×"),
        Unit::Ms if value >= 1000.0 => human::duration(value / 1000.0),
        Unit::Ms => format!("{} ms", human::figure(value)),
        Unit::Percent => format!("{} %", human::figure(value)),
    }
}

/// A time on an axis: `0s`, `15s`, `2m`, `2m30`, `1h`, `1h30`, `2d`, in the shortest form that is exact.
fn clock_tick(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if (seconds - whole as f64).abs() > 1e-6 {
        return format!("{}s", (seconds * 1000.0).round() / 1000.0);
    }
    let d = whole / 86_400;
    let h = whole / 3600 % 24;
    let m = whole / 60 % 60;
    let s = whole % 60;
    match (d, h, m, s) {
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, 0) => format!("{m}m"),
        (0, 0, m, s) => format!("{m}m{s:02}"),
        (0, h, 0, 0) => format!("{h}h"),
        (0, h, m, _) => format!("{h}h{m:02}"),
        (d, 0, ..) => format!("{d}d"),
        (d, h, ..) => format!("{d}d{h:02}h"),
    }
}

/// A number on an axis: `5k`, `1.5M`, `0.25`.
fn number_tick(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{unit}", (value * 1e6).round() / 1e6)
}

/// Bytes on an axis: `0`, `500 MB`, `1.5 GB`.
fn bytes_tick(value: f64) -> String {
    let (power, unit) = match value {
        v if v >= 1e12 => (1e12, " TB"),
        v if v >= 1e9 => (1e9, " GB"),
        v if v >= 1e6 => (1e6, " MB"),
        v if v >= 1e3 => (1e3, " kB"),
        _ => (1.0, ""),
    };
    format!("{}{unit}", (value / power * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_values_are_readable() {
        for (got, want) in [
            (tick(90.0, Unit::Seconds), "1m30"),
            (tick(5400.0, Unit::Seconds), "1h30"),
            (tick(0.5, Unit::Seconds), "0.5s"),
            (tick(900_000.0, Unit::Count), "900k"),
            (tick(0.25, Unit::Ratio), "0.25×"),
            (tick(1.5e9, Unit::Bytes), "1.5 GB"),
            (tick(0.0, Unit::Bytes), "0"),
            (tick(2500.0, Unit::Ms), "2.5 s"),
            (text(18_190.0, Unit::Seconds), "5 h 03 min"),
            (text(899_999.6, Unit::Count), "900,000"),
            (text(1_949_000_000.0, Unit::Bytes), "1.95 GB"),
            (text(0.5, Unit::Ratio), "0.500×"),
            (text(2500.0, Unit::Ms), "2.50 s"),
            (text(25.0, Unit::Percent), "25.0 %"),
        ] {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(4999.0, 5, false), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert_eq!(ticks(100.0, 5, true), [0.0, 30.0, 60.0, 90.0]);
        for max in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ticks(max, 5, false), [0.0], "{max}");
        }
        for max in [1e-9, 1e-3, 1.0, 7.0, 1e9, 1e300] {
            for clock in [false, true] {
                let count = ticks(max, 6, clock).len();
                assert!((2..=14).contains(&count), "{max} {clock}: {count} ticks");
            }
        }
    }

    #[test]
    fn scale_place_and_value_are_inverse() {
        for (log, from, to) in [(false, 0.0, 50.0), (false, 7.0, 8.0), (true, 0.01, 1000.0)] {
            let scale = Scale { log, from, to, place_from: 84.0, place_to: 932.0 };
            for share in [0.0, 0.3, 1.0] {
                let place = scale.place(scale.value(share));
                assert!((place - (84.0 + share * 848.0)).abs() < 1e-6, "{log} {share}: {place}");
            }
        }
        let flat = Scale { log: false, from: 1.0, to: 1.0, place_from: 84.0, place_to: 932.0 };
        assert_eq!(flat.place(1.0), 84.0, "a scale without a width");
    }
}
