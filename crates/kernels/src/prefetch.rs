//! Prefetch: loads a cache line before it is needed, so that the latencies of many misses overlap.
//!
//! Absent on purpose: hints other than "into every cache level, for reading".

/// Prefetches the start of `slice[index]`.
///
/// A hint: it does not wait, and affects only time. Does nothing if `index` is out of range or the processor has no
/// such instruction.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    if let Some(item) = slice.get(index) {
        let address: *const T = item;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: SSE is part of every x86-64; the instruction never faults, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: `prfm` never faults, writes no register, memory or flag.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address,
                options(nostack, preserves_flags, readonly));
        }
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let _ = address;
    }
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn prefetch_takes_any_index() {
        let numbers: Vec<u64> = (0..100).collect();
        for index in [0, 1, 99, 100, 101, usize::MAX] {
            prefetch(&numbers, index);
            prefetch::<u8>(&[], index);
            prefetch(&[(); 3], index);
        }
        assert_eq!(numbers.iter().sum::<u64>(), 4950);
    }
}
