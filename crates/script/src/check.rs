//! Signature checks as values, and the checkers that decide them: immediately, or later in a batch.
//!
//! A [`Check`] contains everything it needs and borrows nothing, so that it can wait, move to another thread, and be
//! laid out in vector lanes.
//!
//! Absent on purpose: hashing and encodings. The inputs here are already parsed, reduced and normalised.

use crate::commitment::Commitment;
use crate::sighash::Longs;
use kernels::Kernels;
use secp256k1::{Parity, PublicKey, Scalar, XOnlyPublicKey, ecdsa, schnorr};

/// A public key of 33 or 65 bytes, as written in the script; it need not be a point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyBytes {
    bytes: [u8; 65],
    used: u8,
}

impl KeyBytes {
    /// Copies a key of 33 or 65 bytes; `None` for any other length.
    #[inline]
    pub fn new(key: &[u8]) -> Option<KeyBytes> {
        if !matches!(key.len(), 33 | 65) {
            return None;
        }
        let mut bytes = [0; 65];
        bytes[..key.len()].copy_from_slice(key);
        Some(KeyBytes { bytes, used: key.len() as u8 })
    }

    /// The key as written.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.used)]
    }
}

impl std::fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&primitives::hex::encode(self.as_slice()))
    }
}

/// A statement about points of the curve that is true or false.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// An ECDSA signature is valid.
    Ecdsa {
        /// R and S, 32 bytes each, big endian, below the group order, S low, neither zero.
        signature: [u8; 64],
        /// The key as written; if it is not a point, the check fails.
        key: KeyBytes,
        /// The signed hash.
        sighash: [u8; 32],
        /// Whether the y of R is odd, by a hint that may be wrong: a batch that uses it and fails tries without it.
        odd: Option<bool>,
    },
    /// A Schnorr signature is valid. Source: BIP-0340.
    Schnorr {
        /// The signature.
        signature: [u8; 64],
        /// The x coordinate of the key.
        key: [u8; 32],
        /// The signed hash.
        sighash: [u8; 32],
    },
    /// `output` is the x coordinate of `internal` plus `tweak` times the generator. Source: BIP-0341.
    Tweak {
        /// The x coordinate in the spent script.
        output: [u8; 32],
        /// Whether the point's y coordinate is odd.
        odd: bool,
        /// The x coordinate of the internal key.
        internal: [u8; 32],
        /// The tweak, big endian.
        tweak: [u8; 32],
    },
}

impl Check {
    /// Decides it with libsecp256k1.
    pub fn holds(&self) -> bool {
        match self {
            Check::Ecdsa { signature, key, sighash, .. } => ecdsa_holds(signature, key, sighash),
            Check::Schnorr { signature, key, sighash } => schnorr_holds(signature, key, sighash),
            Check::Tweak { output, odd, internal, tweak } => tweak_holds(output, *odd, internal, tweak),
        }
    }
}

impl Check {
    /// The check that decides a commitment with this tweak.
    pub(crate) fn of_commitment(commitment: &Commitment<'_>, tweak: [u8; 32]) -> Check {
        let &Commitment { output, odd, internal, .. } = commitment;
        Check::Tweak { output: *output, odd, internal: *internal, tweak }
    }

    /// Sets the hint of an ECDSA signature.
    pub(crate) fn set_hint(&mut self, hint: Option<bool>) {
        if let Check::Ecdsa { odd, .. } = self {
            *odd = hint;
        }
    }

    /// Sets the hash that was computed later than the rest: the hash that a signature signs, or a tweak.
    pub(crate) fn set_hash(&mut self, hash: [u8; 32]) {
        match self {
            Check::Ecdsa { sighash, .. } | Check::Schnorr { sighash, .. } => *sighash = hash,
            Check::Tweak { tweak, .. } => *tweak = hash,
        }
    }
}

fn ecdsa_holds(signature: &[u8; 64], key: &KeyBytes, sighash: &[u8; 32]) -> bool {
    let Ok(key) = PublicKey::from_slice(key.as_slice()) else { return false };
    let Ok(signature) = ecdsa::Signature::from_compact(signature) else { return false };
    ecdsa::verify(&signature, secp256k1::Message::from_digest(*sighash), &key).is_ok()
}

fn schnorr_holds(signature: &[u8; 64], key: &[u8; 32], sighash: &[u8; 32]) -> bool {
    let Ok(key) = XOnlyPublicKey::from_byte_array(*key) else { return false };
    schnorr::verify(&schnorr::Signature::from_byte_array(*signature), sighash, &key).is_ok()
}

fn tweak_holds(output: &[u8; 32], odd: bool, internal: &[u8; 32], tweak: &[u8; 32]) -> bool {
    let Ok(internal) = XOnlyPublicKey::from_byte_array(*internal) else { return false };
    let Ok(tweak) = Scalar::from_be_bytes(*tweak) else { return false };
    match internal.add_tweak(&tweak) {
        Ok((key, parity)) => key.to_byte_array() == *output && (parity == Parity::Odd) == odd,
        Err(_) => false,
    }
}

/// Makes the check of a signature and a key, see [`Pairs::pair`].
pub type PairCheck<'p> = dyn FnMut(usize, usize, Option<&mut Longs>) -> Option<Check> + 'p;

/// The pairs of signature `i` and key `j` that a CHECKMULTISIG may need, both counted from the top of the stack.
/// Signatures match keys in order, so only pairs with `i <= j <= i + keys - signatures` count.
pub struct Pairs<'p> {
    /// The number of signatures that must match, at least 1.
    pub signatures: usize,
    /// The number of keys: at least the number of signatures, at most 20.
    pub keys: usize,
    /// The check of a pair; `None` if the pair fails whatever the curve's arithmetic gives. Long messages go to the
    /// collection, if there is one.
    pub pair: &'p mut PairCheck<'p>,
}

impl std::fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.signatures, self.keys)
    }
}

/// Decides signature checks for a running script.
pub trait Checker {
    /// Whether `check` holds; a checker that defers it returns `true`.
    fn holds(&mut self, check: Check) -> bool;

    /// Whether `check` holds; the script needs the answer to continue.
    fn holds_now(&mut self, check: Check) -> bool {
        check.holds()
    }

    /// Whether a taproot output commits to a leaf; a checker that defers it returns `true`.
    fn commits(&mut self, commitment: &Commitment<'_>) -> bool {
        self.holds(Check::of_commitment(commitment, commitment.tweak()))
    }

    /// The long messages of the current input, if they are kept.
    fn longs(&mut self) -> Option<&mut Longs> {
        None
    }

    /// Whether to call [`Checker::multisig`].
    fn takes_pairs(&self) -> bool {
        false
    }

    /// Whether all signatures of a CHECKMULTISIG match; a checker that defers this returns `true`. With `None` the
    /// script tries the pairs itself, with [`Checker::holds_now`].
    fn multisig(&mut self, _pairs: Pairs<'_>) -> Option<bool> {
        None
    }
}

/// Decides immediately, with libsecp256k1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Immediate;

impl Checker for Immediate {
    #[inline]
    fn holds(&mut self, check: Check) -> bool {
        check.holds()
    }
}

/// Decides many checks at once.
pub trait Batch: Sync {
    /// Which of `checks` hold, in order. `true`: it holds, as [`Check::holds`] would return. `false`: it does not hold,
    /// or the batch could not decide; run the scripts that depend on it again with [`Immediate`].
    fn verify(&self, checks: &[Check]) -> Vec<bool>;

    /// [`Batch::verify`], which also finds hints: for each ECDSA signature that holds, whether the y of R is odd. For a
    /// signature of which it does not find this, `odd` gets the hint that the check has, or else `false`.
    fn verify_and_find(&self, checks: &[Check], odd: &mut [bool]) -> Vec<bool> {
        put_hints(checks, odd);
        self.verify(checks)
    }

    /// Whether recording all pairs of a CHECKMULTISIG costs less than trying them in sequence.
    fn takes_pairs(&self) -> bool {
        false
    }

    /// Its kernels for hashing.
    fn kernels(&self) -> Kernels {
        Kernels::AUTO
    }

    /// Whether hashes are deferred too, and computed many at a time.
    fn takes_hashes(&self) -> bool {
        false
    }
}

/// Copies the hints that checks have.
pub(crate) fn put_hints(checks: &[Check], odd: &mut [bool]) {
    for (odd, check) in odd.iter_mut().zip(checks) {
        *odd = matches!(check, Check::Ecdsa { odd: Some(true), .. });
    }
}

/// Checks in sequence, with libsecp256k1, which always decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneByOne;

impl Batch for OneByOne {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        checks.iter().map(Check::holds).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;
    use secp256k1::{Keypair, Message, SecretKey};

    fn ecdsa_check() -> (Check, PublicKey) {
        let secret = SecretKey::from_secret_bytes([7; 32]).unwrap();
        let public = PublicKey::from_secret_key(&secret);
        let signature = ecdsa::sign(Message::from_digest([9; 32]), &secret).serialize_compact();
        let key = KeyBytes::new(&public.serialize()).unwrap();
        (Check::Ecdsa { signature, key, sighash: [9; 32], odd: None }, public)
    }

    #[test]
    fn ecdsa_check_with_every_kind_of_key() {
        let (good, public) = ecdsa_check();
        let Check::Ecdsa { signature, sighash, .. } = good else { unreachable!() };
        let full = public.serialize_uncompressed();
        let hybrid = |first| {
            let mut key = full;
            key[0] = first;
            key
        };
        let odd = full[64] & 1;
        for (name, key, want) in [
            ("compressed", &public.serialize()[..], true),
            ("uncompressed", &full, true),
            ("hybrid", &hybrid(6 + odd), true),
            ("hybrid with the wrong parity", &hybrid(7 - odd), false),
            ("unknown first byte", &hybrid(5), false),
            ("not a point", &[2; 33], false),
            ("zero", &[0; 33], false),
        ] {
            let key = KeyBytes::new(key).unwrap();
            assert_eq!(Check::Ecdsa { signature, key, sighash, odd: None }.holds(), want, "{name}");
        }
        assert!(KeyBytes::new(&[2; 32]).is_none() && KeyBytes::new(&[]).is_none());
    }

    #[test]
    fn check_with_flipped_bit_fails() {
        let (good, _) = ecdsa_check();
        assert!(good.holds());
        let pair = Keypair::from_secret_bytes([5; 32]).unwrap();
        let (key, _) = pair.x_only_public_key();
        let signature = schnorr::sign_no_aux_rand(&[3; 32], &pair).to_byte_array();
        let (output, parity) = key.add_tweak(&Scalar::from_be_bytes([1; 32]).unwrap()).unwrap();
        let key = key.to_byte_array();
        let schnorr = Check::Schnorr { signature, key, sighash: [3; 32] };
        let odd = parity == Parity::Odd;
        let tweak = Check::Tweak { output: output.to_byte_array(), odd, internal: key, tweak: [1; 32] };
        assert!(schnorr.holds() && tweak.holds());
        for bit in (0..256).step_by(7) {
            let flip = |bytes: &mut [u8]| bytes[bit / 8] ^= 1 << (bit % 8);
            for check in [good, schnorr, tweak] {
                let mut check = check;
                match &mut check {
                    Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. } => flip(&mut signature[..]),
                    Check::Tweak { output, .. } => flip(&mut output[..]),
                }
                assert!(!check.holds(), "bit {bit} of {check:?}");
                if let Check::Tweak { odd, .. } = tweak {
                    let Check::Tweak { output, internal, tweak, .. } = tweak else { unreachable!() };
                    assert!(!Check::Tweak { output, odd: !odd, internal, tweak }.holds());
                }
            }
        }
        let order = hex::literal("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
        let Check::Tweak { output, odd, internal, .. } = tweak else { unreachable!() };
        assert!(!Check::Tweak { output, odd, internal, tweak: order }.holds(), "a tweak of the order or more");
        assert!(!Check::Tweak { output, odd, internal: [0xff; 32], tweak: [1; 32] }.holds(), "no point");
    }

    #[test]
    fn batch_agrees_with_single_checks() {
        let (good, _) = ecdsa_check();
        let Check::Ecdsa { signature, key, .. } = good else { unreachable!() };
        let bad = Check::Ecdsa { signature, key, sighash: [8; 32], odd: None };
        assert_eq!(OneByOne.verify(&[good, bad, good]), [true, false, true]);
        assert!(OneByOne.verify(&[]).is_empty());
    }
}
