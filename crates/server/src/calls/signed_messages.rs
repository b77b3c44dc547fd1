//! Calls that sign a text with a private key, and verify such a signature.
//!
//! The signature has 65 bytes: 27 plus the number of the public key among those that fit (4 more for a compressed key),
//! then r and s. Source: Bitcoin Core b88bffe, rpc/signmessage.cpp; common/signmessage.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::descriptor::{PrivateKey, hash160, private_key};
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::output::{Payee, Prefixes};
use crate::registry::{Arg, Call, Kind, Run};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernels::sha256::sha256d;
use primitives::encode::put_compact_size;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SecretKey};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "util",
        name: "signmessagewithprivkey",
        about: "Sign a message with the private key of an address",
        args: &[
            Arg::needed("privkey", Kind::Str, "The private key to sign the message with."),
            Arg::needed("message", Kind::Str, "The message to create a signature of."),
        ],
        run: Run::Now(sign_message_with_priv_key),
    },
    Call {
        category: "util",
        name: "verifymessage",
        about: "Verify a signed message.",
        args: &[
            Arg::needed("address", Kind::Str, "The bitcoin address to use for the signature."),
            Arg::needed("signature", Kind::Str, "The signature provided by the signer in base 64 encoding."),
            Arg::needed("message", Kind::Str, "The message that was signed."),
        ],
        run: Run::Now(verify_message),
    },
];

/// Prefix of each signed text: a signature of a text is never one of a transaction. Source: Core's `MESSAGE_MAGIC`.
const MAGIC: &str = "Bitcoin Signed Message:\n";
/// First byte of a signature. Source: Core's `CKey::SignCompact`.
const FIRST: u8 = 27;
/// Added to the first byte for a compressed key.
const COMPRESSED: u8 = 4;

/// The signed digest. Source: Core's `MessageHash`.
fn digest(message: &str) -> Message {
    let mut bytes = Vec::with_capacity(MAGIC.len() + message.len() + 6);
    for text in [MAGIC, message] {
        put_compact_size(&mut bytes, text.len() as u64);
        bytes.extend_from_slice(text.as_bytes());
    }
    Message::from_digest(sha256d(&bytes))
}

fn sign_message_with_priv_key(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let prefixes = Prefixes::of(context.live()?.params().chain);
    let signed = private_key(args.text(0)?, &prefixes).and_then(|key| sign(&key, args.text(1).ok()?));
    signed.map(Json::from).ok_or_else(|| RpcError::not_found("Invalid private key"))
}

/// The signature in base 64; `None` for an invalid key. Source: Core's `CKey::SignCompact`.
fn sign(key: &PrivateKey, message: &str) -> Option<String> {
    let secret = SecretKey::from_secret_bytes(key.secret).ok()?;
    let (id, numbers) = RecoverableSignature::sign_ecdsa_recoverable(digest(message), &secret).serialize_compact();
    let first = FIRST + id.to_u8() + if key.is_compressed { COMPRESSED } else { 0 };
    Some(STANDARD.encode([&[first][..], &numbers].concat()))
}

/// Hash of the key that made the signature; `None` if there is no such key. Source: Core's `CPubKey::RecoverCompact`.
fn signer(signature: &[u8], message: &str) -> Option<[u8; 20]> {
    let (first, numbers) = signature.split_first().filter(|(_, numbers)| numbers.len() == 64)?;
    let flags = first.wrapping_sub(FIRST);
    let id = RecoveryId::from_u8_masked(flags);
    let key = RecoverableSignature::from_compact(numbers, id).ok()?.recover_ecdsa(digest(message)).ok()?;
    let is_compressed = flags & COMPRESSED != 0;
    Some(if is_compressed { hash160(&key.serialize()) } else { hash160(&key.serialize_uncompressed()) })
}

fn verify_message(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let prefixes = Prefixes::of(context.live()?.params().chain);
    let of_type = |why: &str| RpcError::new(Code::Type, why);
    let script = prefixes.decode(args.text(0)?).map_err(|_| RpcError::not_found("Invalid address"))?;
    let Payee::PubKeyHash(wanted) = Payee::of(&script) else { return Err(of_type("Address does not refer to key")) };
    let signature = STANDARD.decode(args.text(1)?).map_err(|_| of_type("Malformed base64 encoding"))?;
    Ok(Json::Bool(signer(&signature, args.text(2)?).as_ref() == Some(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use primitives::hex;

    const SIGNATURE: &str = "IPojfrX2dfPnH26UegfbGQQLrdK844DlHq5157/P6h57WyuS/Qsl+h/WSVGDF4MUi4rWSswW38oimDYfNNUBUOk=";

    /// Of Core's test/util_tests.cpp, `message_sign` and `message_verify`.
    #[test]
    fn signatures_are_cores() {
        let secret = hex::literal("d97f5108f11cda6eeebaaa420fef0726b1f898060b98489fa3098463c0032866");
        let key = PrivateKey { secret, is_compressed: true };
        assert_eq!(sign(&key, "Trust no one").as_deref(), Some(SIGNATURE));
        assert_eq!(sign(&PrivateKey { secret: [0; 32], ..key }, ""), None);
        let long = sign(&PrivateKey { is_compressed: false, ..key }, "Trust no one").unwrap();
        assert_eq!(STANDARD.decode(long).unwrap()[0], 28);
        for (address, signature, message, want) in [
            ("15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs", SIGNATURE, "Trust no one", true),
            (
                "11canuhp9X2NocwCq7xNrQYTmUgZAnLK3",
                "IIcaIENoYW5jZWxsb3Igb24gYnJpbmsgb2Ygc2Vjb25kIGJhaWxvdXQgZm9yIGJhbmtzIAaHRtbCeDZINyavx14=",
                "Trust me",
                true,
            ),
            ("15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs", SIGNATURE, "I never signed this", false),
        ] {
            let script = Prefixes::of(Chain::Main).decode(address).unwrap();
            let signer = signer(&STANDARD.decode(signature).unwrap(), message);
            assert_eq!(Some(&script[3..23]) == signer.as_ref().map(|hash| &hash[..]), want, "{message}");
        }
        for bytes in [0, 1, 64, 66] {
            assert_eq!(signer(&vec![31; bytes], ""), None, "{bytes} bytes are not a signature");
        }
        assert_eq!(signer(&[0xff; 65], ""), None, "r and s are above the group's order");
    }
}
