//! Hints of BIP 456, against a plain reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = primitives::fuzz_hints(data);
});
