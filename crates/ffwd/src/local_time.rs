//! How far local time is ahead of UTC.

use chrono::{DateTime, Local, Offset};

/// Seconds that local time is ahead, at a time in seconds since 1970.
pub(crate) fn ahead_s(unix: u64) -> i32 {
    let time = i64::try_from(unix).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or(0, |time| time.with_timezone(&Local).offset().fix().local_minus_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_within_a_day_of_utc() {
        for unix in [0, 1_700_000_000, 1_720_000_000, u64::MAX] {
            assert!(ahead_s(unix).abs() < 86_400, "{unix}");
        }
    }
}
