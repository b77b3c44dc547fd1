//! Addresses of payees as text: base58 with its checksum, bech32 and bech32m; the script of each has the same address.
#![no_main]

use consensus::Chain;
use show::output::{Payee, Prefixes, address::decode_base58_check, bech32};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for prefixes in [Prefixes::of(Chain::Main), Prefixes::of(Chain::Test), Prefixes::of(Chain::Regtest)] {
        if let Ok(script) = prefixes.decode(text) {
            let again = prefixes.address(&Payee::of(&script)).expect("a script of an address has one");
            // As in Core, base58 may have white space around it.
            let bare = text.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
            assert!(again.eq_ignore_ascii_case(bare), "{again} for {text:?}");
        }
    }
    let _ = decode_base58_check(text, 100);
    let _ = bech32::decode(text);
    let _ = bech32::locate_errors(text);
});
