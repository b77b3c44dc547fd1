//! A snapshot of the UTXO set, read in pieces, against a plain reader.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = primitives::fuzz_snapshot(data);
});
