//! Undo files: the coins that a block spent, as rev?????.dat has them.
#![no_main]

use primitives::undo::UndoReader;

/// Coins of an input's list; more would only take time.
const COUNT_MAX: usize = 10_000;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut reader = UndoReader::new(data);
    let Ok(transactions) = reader.count() else { return };
    for _ in 0..transactions.min(COUNT_MAX) {
        let Ok(inputs) = reader.count() else { return };
        for _ in 0..inputs.min(COUNT_MAX) {
            if reader.entry().is_err() {
                return;
            }
        }
    }
    assert!(reader.offset() <= data.len(), "nothing behind the end is read");
    let _ = reader.finish();
});
