//! Descriptors as text, on every network: what is printed is read, and stays the same.
#![no_main]

use consensus::Chain;
use server::descriptor::{Descriptors, Known};
use server::output::Prefixes;

/// Depth of keys and scripts costs time by the length of the text.
const TEXT_BYTES_MAX: usize = 1000;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(&data[..data.len().min(TEXT_BYTES_MAX)]) else { return };
    for prefixes in [Prefixes::of(Chain::Main), Prefixes::of(Chain::Regtest)] {
        let Ok(read) = Descriptors::read(text, &prefixes) else { continue };
        let texts = read.texts(&prefixes);
        assert_eq!(texts.len(), read.count());
        for text in texts {
            match Descriptors::read_checked(&text, &prefixes) {
                Ok(again) => assert_eq!(again.texts(&prefixes), [text]),
                // As in Core, of several choices only the first is checked for repeated keys.
                Err(why) => assert!(read.count() > 1 && why.ends_with("is not sane"), "what is printed is read: {why}"),
            }
        }
        for which in 0..read.count() {
            let _ = read.scripts(which, 7, &mut Known::default());
        }
    }
});
