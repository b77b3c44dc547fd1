//! Rows of the indexes: filter rows and filters, coinstats rows and their MuHash, places of transactions and spenders.
#![no_main]

use indexes::coinstats::{StatsRow, decode_muhash};
use indexes::heights::{FilterPos, FilterRow};
use indexes::txindex::DiskTxPos;
use indexes::{filter, locator, spender, txindex};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(row) = FilterRow::decode(data) {
        assert_eq!(FilterRow::decode(&row.encode()).expect("what is written is read"), row);
    }
    if let Ok(row) = StatsRow::decode(data) {
        assert_eq!(StatsRow::decode(&row.encode()).expect("what is written is read").encode(), row.encode());
    }
    let _ = FilterPos::decode(data);
    let _ = decode_muhash(data);
    let _ = DiskTxPos::decode(data);
    let _ = spender::decode_key(data);
    let _ = txindex::decode_key(data);
    let _ = locator::decode(data);
    if let Ok(hashes) = filter::decode(data) {
        assert!(hashes.is_sorted(), "what a filter has is in order");
        assert!(hashes.len() <= data.len() * 8, "each takes a bit at least");
    }
});
