//! Counts how often a thread had to wait for the disk because of a page.
//!
//! Absent on purpose: systems that do not count for each thread, which are all except Linux; the count is 0 there.

/// Major faults of the calling thread since it began: accesses to mapped pages that were not in memory.
#[cfg(target_os = "linux")]
pub fn major_faults() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to room for one `rusage`, in which all zeros are a value too; the call writes no more than
    // it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_majflt).unwrap_or(0)
}

/// Not counted on this system.
#[cfg(not(target_os = "linux"))]
pub fn major_faults() -> u64 {
    0
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    #[test]
    fn faults_are_those_of_the_thread_and_never_fewer() {
        let before = super::major_faults();
        assert!(super::major_faults() >= before);
        // As the system says it in text: the twelfth field.
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let told: u64 = fields[9].parse().unwrap();
        assert!((before..=super::major_faults()).contains(&told));
    }
}
