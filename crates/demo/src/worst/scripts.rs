//! Keys, signatures and scripts that all kinds use.

use kernels::sha256::sha256;
use secp256k1::{Keypair, Message, SecretKey, ecdsa};

use super::tx::SIGHASH_ALL;
use crate::chain::keys::tagged;

pub(super) const OP_0: u8 = 0x00;
pub(super) const OP_PUSHDATA2: u8 = 0x4d;
pub(super) const OP_1: u8 = 0x51;
pub(super) const OP_IF: u8 = 0x63;
pub(super) const OP_ENDIF: u8 = 0x68;
pub(super) const OP_DROP: u8 = 0x75;
pub(super) const OP_DUP: u8 = 0x76;
pub(super) const OP_CODESEPARATOR: u8 = 0xab;
pub(super) const OP_CHECKSIG: u8 = 0xac;
pub(super) const OP_CHECKSIGVERIFY: u8 = 0xad;
pub(super) const OP_CHECKMULTISIG: u8 = 0xae;

/// Tapscript's leaf version. Source: BIP-0342.
pub(super) const LEAF_TAPSCRIPT: u8 = 0xc0;

/// A pair of keys by number.
pub(super) fn pair(number: u32) -> Keypair {
    (0u32..)
        .find_map(|attempt| {
            let text = format!("lab worst key {number} {attempt}");
            SecretKey::from_secret_bytes(sha256(text.as_bytes())).ok()
        })
        .expect("almost every hash is a secret key")
        .keypair()
}

/// Its public half, compressed.
pub(super) fn public(pair: &Keypair) -> [u8; 33] {
    pair.public_key().serialize()
}

/// A push of at most 75 bytes.
pub(super) fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    assert!(bytes.len() <= 75, "longer pushes have another opcode");
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// A signature with its hash type.
pub(super) fn sign(hash: [u8; 32], pair: &Keypair) -> Vec<u8> {
    let mut signature = ecdsa::sign(Message::from_digest(hash), &pair.secret_key()).serialize_der().to_vec();
    signature.push(SIGHASH_ALL);
    signature
}

/// A signature with a valid encoding that never verifies here, because it signs another message.
pub(super) fn wrong_signature(number: u32) -> Vec<u8> {
    sign(sha256(&number.to_le_bytes()), &pair(u32::MAX))
}

/// The script of a witness v0 output of a script.
pub(super) fn p2wsh(script: &[u8]) -> Vec<u8> {
    [&[OP_0, 32][..], &sha256(script)].concat()
}

/// Source: BIP-0341.
pub(super) fn tapleaf(script: &[u8]) -> [u8; 32] {
    let mut head = vec![LEAF_TAPSCRIPT];
    primitives::encode::put_compact_size(&mut head, script.len() as u64);
    let mut hasher = tagged("TapLeaf");
    hasher.update(&head);
    hasher.update(script);
    hasher.finalize()
}

/// A taproot output whose script is under `depth` branches, and the proof that it contains the script.
pub(super) fn taproot(script: &[u8], depth: usize) -> (Vec<u8>, Vec<u8>) {
    let internal = pair(0);
    let mut node = tapleaf(script);
    let mut path = Vec::new();
    for level in 0..depth {
        let other = sha256(&[b"lab worst branch", &level.to_le_bytes()[..]].concat());
        let mut hasher = tagged("TapBranch");
        hasher.update(&node.min(other));
        hasher.update(&node.max(other));
        node = hasher.finalize();
        path.extend_from_slice(&other);
    }
    let (_, x_only, parity) = crate::chain::keys::tweak(internal, &node);
    let mut control = vec![LEAF_TAPSCRIPT | parity.to_u8()];
    control.extend_from_slice(&internal.x_only_public_key().0.to_byte_array());
    control.extend_from_slice(&path);
    ([&[OP_1, 32][..], &x_only].concat(), control)
}
