//! debug.log lines of ffwd and bitcoind, as `lab plot` and the demo read them; in pieces of any size.
#![no_main]

use std::io::Read;

/// Gives a few bytes at a time, so that lines are cut anywhere.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(usize::from(self.0.first().copied().unwrap_or(0)) + 1);
        self.0.read(&mut out[..most])
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let whole = demo::debug_log::trust(data).expect("bytes of memory can be read");
    assert_eq!(demo::debug_log::trust(Pieces(data)).expect("as pieces can"), whole);
    let _ = demo::debug_log::last_height(data);
});
