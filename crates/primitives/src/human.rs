//! Numbers formatted for people: counts, bytes, times, figures, amounts.
//!
//! All such formatting is here: `1,234,567`, `1.95 GB`, `5 h 03 min`, `0.0123`. Output for programs is written
//! elsewhere, with all digits. Absent on purpose: ticks of an axis, which are as short as possible, and any language
//! but English.

/// 1234567 as `1,234,567`.
#[must_use]
pub fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Digits in groups of three: `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(digits: &str) -> String {
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
#[must_use]
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Bytes in decimal units, three digits or a little more: `999 bytes`, `1.95 GB`.
#[must_use]
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if number < 1_000 {
        return format!("{number} bytes");
    }
    let mut value = number as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1e3, unit + 1);
    }
    format!("{} {}", figure(value), UNITS[unit])
}

/// A rate, ratio or share with three digits or so: `0`, `0.0123`, `1.23`, `12.3`, `1,234`.
#[must_use]
pub fn figure(value: f64) -> String {
    let size = value.abs();
    match value {
        v if !v.is_finite() => "unknown".to_owned(),
        0.0 => "0".to_owned(),
        v if size >= 99.95 => {
            let sign = if v < 0.0 { "-" } else { "" };
            format!("{sign}{}", grouped(&format!("{:.0}", size.round())))
        }
        v if size >= 9.995 => format!("{v:.1}"),
        v if size >= 0.095 => format!("{v:.2}"),
        v if size >= 0.000_95 => format!("{v:.4}"),
        v => format!("{v:.1e}"),
    }
}

/// A time in the unit or two that matter: `4.20 ms`, `0.42 s`, `3 min 12 s`, `5 h 03 min`, `2 d 04 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "unknown".to_owned();
    }
    if seconds > 0.0 && seconds < 0.095 {
        return format!("{} ms", figure(seconds * 1e3));
    }
    if seconds < 59.95 {
        return format!("{} s", figure(seconds));
    }
    let whole = seconds.round() as u64;
    let days = whole / 86_400;
    let hours = whole / 3_600 % 24;
    let minutes = whole / 60 % 60;
    match (days, hours) {
        (0, 0) => format!("{minutes} min {:02} s", whole % 60),
        (0, _) => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours:02} h"),
    }
}

/// An amount in BTC with eight decimals, as Core's RPC prints it.
#[must_use]
pub fn btc(satoshi: i64) -> String {
    let sign = if satoshi < 0 { "-" } else { "" };
    let whole = satoshi.unsigned_abs();
    format!("{sign}{}.{:08}", whole / 100_000_000, whole % 100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_style() {
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
            (bytes(u64::MAX), "18,447 PB"),
            (figure(0.0), "0"),
            (figure(1.5e-7), "1.5e-7"),
            (figure(0.0123), "0.0123"),
            (figure(0.344), "0.34"),
            (figure(1.234), "1.23"),
            (figure(9.999), "10.0"),
            (figure(1_234.5), "1,235"),
            (figure(-1_234.6), "-1,235"),
            (figure(1e15), "1,000,000,000,000,000"),
            (figure(f64::NAN), "unknown"),
            (duration(0.0), "0 s"),
            (duration(0.0042), "4.20 ms"),
            (duration(0.424), "0.42 s"),
            (duration(59.99), "1 min 00 s"),
            (duration(192.4), "3 min 12 s"),
            (duration(18_190.0), "5 h 03 min"),
            (duration(187_300.0), "2 d 04 h"),
            (duration(f64::NAN), "unknown"),
            (duration(f64::INFINITY), "unknown"),
            (duration(-1.0), "unknown"),
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
