//! Output descriptors of scripts without knowledge of their keys and inner scripts: enough for almost every output of
//! the chain.
//!
//! Absent on purpose: known keys, and parsing of descriptors (`server`).
//! Source: BIP-0380 to 0386; Bitcoin Core b88bffe, script/descriptor.cpp.

pub mod checksum;

use crate::output::solver::is_plain_key;
use crate::output::{Payee, Prefixes};
use crate::text::{put_hex, put_number};
use checksum::put_checksum;

/// Whether 32 bytes are the X coordinate of a point on the curve.
pub fn is_on_curve(x: &[u8; 32]) -> bool {
    secp256k1::XOnlyPublicKey::from_byte_array(*x).is_ok()
}

/// Appends the descriptor of an output script, and its checksum.
pub fn put_descriptor(out: &mut Vec<u8>, script: &[u8], payee: &Payee<'_>, prefixes: &Prefixes) {
    let start = out.len();
    match payee {
        Payee::PubKey(key) if is_plain_key(key) => {
            out.extend_from_slice(b"pk(");
            put_hex(out, key);
        }
        Payee::Multisig(required, keys) if keys.iter().all(|key| is_plain_key(key)) => {
            out.extend_from_slice(b"multi(");
            put_number(out, u64::from(*required));
            for key in keys {
                out.push(b',');
                put_hex(out, key);
            }
        }
        Payee::WitnessV1Taproot(key) if is_on_curve(key) => {
            out.extend_from_slice(b"rawtr(");
            put_hex(out, *key);
        }
        _ => {
            out.extend_from_slice(b"addr(");
            if !prefixes.put_address(out, payee) {
                out.truncate(start);
                out.extend_from_slice(b"raw(");
                put_hex(out, script);
            }
        }
    }
    out.push(b')');
    put_checksum(out, start);
}
