//! Peers that say and do anything, in any order.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    p2p::fuzz_peer(data);
});
