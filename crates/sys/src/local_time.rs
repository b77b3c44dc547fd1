//! The system's time zone: the offset of local time from UTC.
//!
//! Absent on purpose: calendars. On systems without such a call, local time is UTC.

/// Offset of local time from UTC in seconds (positive if ahead), at a time in seconds since 1970; 0 if the system does
/// not report it. A change of /etc/localtime takes effect with the next call. Source: POSIX, `localtime_r`, `tzset`.
#[cfg(unix)]
pub fn ahead_s(unix: u64) -> i32 {
    unsafe extern "C" {
        fn tzset();
    }
    // For musl, libc marks the type as deprecated: a later version of it has 64 bits on every processor.
    #[cfg_attr(target_env = "musl", allow(deprecated))]
    let Ok(time) = libc::time_t::try_from(unix) else { return 0 };
    // SAFETY: `tzset` takes no arguments. It reads the environment, which no thread of this program changes.
    unsafe { tzset() };
    let mut fields = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call, and nothing else refers to `fields`.
    let made = unsafe { libc::localtime_r(&raw const time, fields.as_mut_ptr()) };
    if made.is_null() {
        return 0; // The year does not fit.
    }
    // SAFETY: the call gave back a pointer, so that it filled all fields.
    let ahead = unsafe { fields.assume_init() }.tm_gmtoff;
    i32::try_from(ahead).unwrap_or(0)
}

/// Always 0: unknown on this system.
#[cfg(not(unix))]
pub fn ahead_s(_unix: u64) -> i32 {
    0
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set for this test's own program, which says what a time zone gives.
    const TIME: &str = "FFWD_TEST_LOCAL_TIME";

    /// In a program of its own, because the zone is the process's.
    fn ahead_in(zone: &str, unix: u64) -> i32 {
        let name = "local_time::tests::zones_are_ahead_as_their_rules_say";
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([name, "--exact", "--nocapture"]).env("TZ", zone).env(TIME, unix.to_string());
        let said = String::from_utf8(program.output().unwrap().stdout).unwrap();
        let ahead = said.lines().find_map(|line| line.split_once("ahead: "));
        ahead.unwrap_or_else(|| panic!("{said}")).1.trim().parse().unwrap()
    }

    /// Rules of their own need no files of zones.
    #[test]
    fn zones_are_ahead_as_their_rules_say() {
        if let Ok(unix) = std::env::var(TIME) {
            println!("\nahead: {}", ahead_s(unix.parse().unwrap()));
            return;
        }
        let (winter, summer) = (1_700_000_000, 1_720_000_000);
        let central = "CET-1CEST,M3.5.0,M10.5.0/3";
        for (zone, unix, want) in [
            ("UTC0", winter, 0),
            (central, winter, 3600),
            (central, summer, 7200),
            ("NST3:30", winter, -12_600),
            ("LINT-14", 0, 50_400),
            (central, u64::MAX, 0),
        ] {
            assert_eq!(ahead_in(zone, unix), want, "{zone} at {unix}");
        }
    }
}
