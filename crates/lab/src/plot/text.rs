//! Numbers as people read them: durations, counts, sizes, ratios; ticks of an axis.
//!
//! Absent on purpose: any layout. The page's script formats its axes alike (`report.js`).

/// `0.34 s`, `12.3 s`, `2 min 05 s`, `3 h 12 min`, `2 d 04 h`.
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".to_owned();
    }
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..10 if seconds < 9.995 => format!("{:.2} s", seconds.max(0.0)),
        0..100 => format!("{:.1} s", seconds),
        100..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..172_800 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// `900,000`.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with three significant digits or so: `0.0123`, `1.23`, `12.3`, `1,234`.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 99.95 => count(value.round().max(0.0) as u64),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.095 => format!("{value:.2}"),
        size if size >= 0.000_95 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Bytes in the unit that suits them: `512 B`, `1.5 MiB`, `12.3 GiB`.
pub(super) fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", figure(value), UNITS[unit])
}

/// Steps between ticks for seconds: those of a clock.
const CLOCK_STEPS: [f64; 22] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0,
    21_600.0, 43_200.0, 86_400.0, 172_800.0,
];

/// Ticks from 0 to `max`, some `wanted` of them, at round numbers; `clock` for seconds.
pub(super) fn ticks(max: f64, wanted: usize, clock: bool) -> Vec<f64> {
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

/// A time on an axis: `0`, `15s`, `2m`, `2m30`, `1h`, `1h30`, `2d`, in the shortest form that is exact.
pub(super) fn clock_tick(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if (seconds - whole as f64).abs() > 1e-6 {
        return format!("{}s", (seconds * 1000.0).round() / 1000.0);
    }
    let (d, h, m, s) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60);
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
pub(super) fn number_tick(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{unit}", (value * 1e6).round() / 1e6)
}

/// `text` fit for HTML and SVG, in text and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        for (got, want) in [
            (duration(0.344), "0.34 s"),
            (duration(12.34), "12.3 s"),
            (duration(125.0), "2 min 05 s"),
            (duration(11_520.0), "3 h 12 min"),
            (duration(187_200.0), "2 d 04 h"),
            (duration(f64::NAN), "–"),
            (count(0), "0"),
            (count(999), "999"),
            (count(900_000), "900,000"),
            (figure(0.0123), "0.0123"),
            (figure(1.234), "1.23"),
            (figure(1234.0), "1,234"),
            (bytes(512.0), "512 B"),
            (bytes(1.5 * 1048576.0), "1.50 MiB"),
            (clock_tick(90.0), "1m30"),
            (clock_tick(5400.0), "1h30"),
            (clock_tick(0.5), "0.5s"),
            (number_tick(900_000.0), "900k"),
            (number_tick(0.25), "0.25"),
            (escape("<a href=\"x\">&'\n"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39; "),
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
}
