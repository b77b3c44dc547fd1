//! Every parser of a peer's bytes, and those of peers.dat, anchors.dat and the file of `-asmap`; what parses comes back
//! the same when it is written.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    p2p::fuzz_codec(data);
});
