//! A recipe for a block: the rules and a plain model name the same reason.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = consensus::fuzz_recipe(data);
});
