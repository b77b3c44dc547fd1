//! An input with its coin: templates, interpreter and deferred checks give the same verdict.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = script::fuzz_script(data);
});
