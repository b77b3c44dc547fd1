//! The history of a database on a disk that fails: what is read is what a map says.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    leveldb::fuzz_history(data);
});
