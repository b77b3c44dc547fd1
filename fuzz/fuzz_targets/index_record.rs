//! Block index records, and those of block files: what is read is written the same.
#![no_main]

use store::{FileInfo, IndexEntry};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(entry) = IndexEntry::decode(data) {
        let mut out = Vec::new();
        entry.encode(&mut out);
        assert_eq!(IndexEntry::decode(&out).expect("what is written is read"), entry);
    }
    if let Ok(info) = FileInfo::decode(data) {
        let mut out = Vec::new();
        info.encode(&mut out);
        assert_eq!(FileInfo::decode(&out).expect("what is written is read"), info);
    }
});
