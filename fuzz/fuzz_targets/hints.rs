//! Hints of BIP 456, against a plain reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    primitives::fuzz_hints(data);
});
