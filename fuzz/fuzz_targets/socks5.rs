//! SOCKS5 answers of a proxy, to names and addresses of every kind.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    p2p::fuzz_socks5(data);
});
