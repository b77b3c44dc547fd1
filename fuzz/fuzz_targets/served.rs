//! The served protocol: what a program answers that serves files of an object store (remote).
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    disk::fuzz_served(data);
});
