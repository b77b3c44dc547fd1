//! A block that is judged, with right work and root.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = consensus::fuzz_rules(data);
});
