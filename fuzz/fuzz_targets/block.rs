//! The tables of a block, a coin, undo data, against plain readers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    primitives::fuzz_block(data);
});
