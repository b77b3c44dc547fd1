//! The files of a database: manifest, tables, log.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = leveldb::fuzz_open(data);
});
