//! Plans of audits (the chain of a data directory in one file), as they are and with the checksum made right.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    node::offline::files::fuzz_plan(data);
});
