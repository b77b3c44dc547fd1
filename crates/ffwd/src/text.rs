//! Numbers as people read them.

use std::time::Duration;

/// 1234567 as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 block`, `2 blocks`.
pub(crate) fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Bytes in decimal units, three digits or a little more.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if number < 1_000 {
        return format!("{number} bytes");
    }
    let (mut value, mut unit) = (number as f64 / 1e3, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1e3, unit + 1);
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A rate or a share: three digits, or all before the point.
pub(crate) fn rate(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// A time as long as it needs to be: `0.42 s`, `3 min 12 s`, `5 h 3 min`, `2 d 4 h`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds < 59.95 {
        return format!("{} s", rate(seconds));
    }
    let whole = seconds.round() as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", whole % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// The same for a [`Duration`].
pub(crate) fn busy(time: Duration) -> String {
    duration(time.as_secs_f64())
}

/// An amount in BTC with eight decimals, as Core's RPC prints it.
pub(crate) fn btc(satoshi: i64) -> String {
    let (sign, whole) = (if satoshi < 0 { "-" } else { "" }, satoshi.unsigned_abs());
    format!("{sign}{}.{:08}", whole / 100_000_000, whole % 100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (got, want) in [
            (count(0), "0"),
            (count(999), "999"),
            (count(1_000), "1,000"),
            (count(1_234_567), "1,234,567"),
            (count(u64::MAX), "18,446,744,073,709,551,615"),
            (plural(1, "flush", "flushes"), "1 flush"),
            (plural(1_000, "flush", "flushes"), "1,000 flushes"),
            (bytes(999), "999 bytes"),
            (bytes(1_000), "1.00 kB"),
            (bytes(1_949_000_000), "1.95 GB"),
            (bytes(999_600), "1.00 MB"),
            (bytes(12_340_000), "12.3 MB"),
            (bytes(u64::MAX), "18447 PB"),
            (rate(0.0), "0.00"),
            (rate(9.999), "10.0"),
            (rate(1_234.5), "1,235"),
            (duration(0.424), "0.42 s"),
            (duration(59.99), "1 min 0 s"),
            (duration(192.4), "3 min 12 s"),
            (duration(18_190.0), "5 h 3 min"),
            (duration(187_300.0), "2 d 4 h"),
            (duration(f64::NAN), "unknown"),
            (duration(f64::INFINITY), "unknown"),
            (duration(-1.0), "unknown"),
            (busy(Duration::from_millis(1_500)), "1.50 s"),
            (btc(0), "0.00000000"),
            (btc(1), "0.00000001"),
            (btc(-150_000_000), "-1.50000000"),
            (btc(2_099_999_997_690_000), "20999999.97690000"),
            (btc(i64::MIN), "-92233720368.54775808"),
        ] {
            assert_eq!(got, want);
        }
    }
}
