//! Encodings of signatures and public keys: the rules for their bytes, and their form for libsecp256k1.
//!
//! Absent on purpose: curves. The checker decides whether a key is a point and a signature valid.

use crate::error::ScriptError;
use crate::flags::Flags;

/// Order of the curve's group, big endian. Source: SEC 2, secp256k1.
const ORDER: [u8; 32] = primitives::hex::literal("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
/// Half of the order, rounded down: the greatest low S.
const HALF_ORDER: [u8; 32] =
    primitives::hex::literal("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0");

/// An ECDSA signature as R and S, 32 bytes each, big endian, both below the group's order.
pub(crate) type Compact = [u8; 64];

/// Whether `signature`, hash type included, is strict DER: 9 to 73 bytes,
/// `30 length 02 length R 02 length S type`, R and S positive and without needless zeros.
///
/// Source: BIP-0066; Bitcoin Core b88bffe, `IsValidSignatureEncoding`.
#[inline]
pub fn is_strict_der(signature: &[u8]) -> bool {
    let &[0x30, length, 2, r_bytes, ref rest @ .., _] = signature else { return false };
    if !(9..=73).contains(&signature.len()) || usize::from(length) + 3 != signature.len() {
        return false;
    }
    let Some((r, rest)) = rest.split_at_checked(usize::from(r_bytes)) else { return false };
    let &[2, s_bytes, ref s @ ..] = rest else { return false };
    s.len() == usize::from(s_bytes) && is_positive_integer(r) && is_positive_integer(s)
}

/// Whether `number` is a non-negative DER integer in as few bytes as possible.
#[inline]
fn is_positive_integer(number: &[u8]) -> bool {
    match *number {
        [] => false,
        [0] => true,
        [0, next, ..] => next & 0x80 != 0,
        [first, ..] => first & 0x80 == 0,
    }
}

/// R and S of a signature, without the hash type, in the loose form that was accepted before BIP-0066. `None` if even
/// that cannot be parsed. If a number is too large both become zero: parsed, and never valid.
///
/// Looser than DER: the total length is skipped without a check, lengths may have any number of leading zeros, numbers
/// may be negative or padded, and bytes may follow.
///
/// Source: Bitcoin Core b88bffe, `ecdsa_signature_parse_der_lax` in pubkey.cpp.
#[inline]
pub(crate) fn parse_lax(signature: &[u8]) -> Option<Compact> {
    let (&tag, rest) = signature.split_first()?;
    let (&length, rest) = rest.split_first()?;
    if tag != 0x30 {
        return None;
    }
    let skipped = if length & 0x80 == 0 { 0 } else { usize::from(length & 0x7f) };
    let rest = rest.get(skipped..)?;
    let (r, rest) = lax_integer(rest)?;
    let (s, _) = lax_integer(rest)?;
    let mut compact = [0; 64];
    let (r_out, s_out) = compact.split_at_mut(32);
    let fits = put_number(r, r_out) && put_number(s, s_out) && *r_out < ORDER[..] && *s_out < ORDER[..];
    Some(if fits { compact } else { [0; 64] })
}

/// One integer, and the rest of the bytes.
#[inline]
fn lax_integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[tag, length], rest) = bytes.split_first_chunk()?;
    if tag != 2 {
        return None;
    }
    let (size, rest) = if length & 0x80 == 0 {
        (usize::from(length), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
        let digits = without_leading_zeros(digits);
        if digits.len() >= 4 {
            return None;
        }
        (digits.iter().fold(0, |size, &digit| size << 8 | usize::from(digit)), rest)
    };
    rest.split_at_checked(size)
}

#[inline]
fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    &bytes[zeros..]
}

/// Right-aligns a big-endian number in 32 bytes; returns whether it fits.
#[inline]
fn put_number(number: &[u8], out: &mut [u8]) -> bool {
    let digits = without_leading_zeros(number);
    if digits.len() > out.len() {
        return false;
    }
    let start = out.len() - digits.len();
    out[start..].copy_from_slice(digits);
    true
}

/// Replaces a high S by its negative, which is equally valid, and the only one of the two that libsecp256k1 accepts.
#[inline]
pub(crate) fn normalize_s(compact: &mut Compact) {
    if is_low_s(compact) {
        return;
    }
    let s = &mut compact[32..];
    let mut borrow = false;
    for (digit, &order) in s.iter_mut().zip(&ORDER).rev() {
        let (difference, first) = order.overflowing_sub(*digit);
        let (difference, second) = difference.overflowing_sub(u8::from(borrow));
        *digit = difference;
        borrow = first || second;
    }
}

/// Whether S is at most half the group order.
#[inline]
pub(crate) fn is_low_s(compact: &Compact) -> bool {
    compact[32..] <= HALF_ORDER[..]
}

/// Checks a signature's bytes against the flags; an empty signature always passes.
///
/// Source: Bitcoin Core b88bffe, `CheckSignatureEncoding`.
#[inline]
pub(crate) fn check_signature(signature: &[u8], flags: Flags) -> Result<(), ScriptError> {
    let Some((&hash_type, der)) = signature.split_last() else { return Ok(()) };
    if flags.has_any(Flags::DERSIG | Flags::LOW_S | Flags::STRICTENC) && !is_strict_der(signature) {
        return Err(ScriptError::SigDer);
    }
    if flags.has(Flags::LOW_S) && !parse_lax(der).is_some_and(|compact| is_low_s(&compact)) {
        return Err(ScriptError::SigHighS);
    }
    if flags.has(Flags::STRICTENC) && !matches!(hash_type & 0x7f, 1..=3) {
        return Err(ScriptError::SigHashtype);
    }
    Ok(())
}

/// Checks a key's bytes against the flags. `witness_v0`: the script is a version 0 witness script.
///
/// Source: Bitcoin Core b88bffe, `CheckPubKeyEncoding`.
#[inline]
pub(crate) fn check_key(key: &[u8], flags: Flags, witness_v0: bool) -> Result<(), ScriptError> {
    let compressed = key.len() == 33 && matches!(key[0], 2 | 3);
    let uncompressed = key.len() == 65 && key[0] == 4;
    if flags.has(Flags::STRICTENC) && !compressed && !uncompressed {
        return Err(ScriptError::PubkeyType);
    }
    if flags.has(Flags::WITNESS_PUBKEYTYPE) && witness_v0 && !compressed {
        return Err(ScriptError::WitnessPubkeyType);
    }
    Ok(())
}

/// Whether a key has the length that its first byte requires: 33 for 02 and 03, 65 for 04 and the hybrid 06 and 07.
///
/// Source: Bitcoin Core b88bffe, `CPubKey::ValidSize`.
#[inline]
pub(crate) fn is_key_shaped(key: &[u8]) -> bool {
    matches!((key.first(), key.len()), (Some(2 | 3), 33) | (Some(4 | 6 | 7), 65))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;
    use testkit::Rng;

    const R: &str = "3045022100b7f43ca4f5bd6d3cf9cbd5b4c1e3f8be0d1c2a3b4c5d6e7f8091a2b3c4d5e6f7";
    const S: &str = "02201122334455667788990011223344556677889900112233445566778899001122";

    fn good() -> Vec<u8> {
        hex::decode(&format!("{R}{S}01")).unwrap()
    }

    #[test]
    fn strict_der_accepts_and_refuses_as_core() {
        assert!(is_strict_der(&good()));
        for (hex, want) in [
            ("300602010102010101", true),
            ("300602010002010001", true),
            ("30060201010201010100", false),
            ("3006020101020101", false),
            ("310602010102010101", false),
            ("300702010102010101", false),
            ("300603010102010101", false),
            ("300602010103010101", false),
            ("300602020102010101", false),
            ("300602810102010101", false),
            ("30060202008102010101", false),
            ("3007020200810201 0101", true),
            ("3007020200010201 0101", false),
            ("3006020181020101 01", false),
            ("3006020101020181 01", false),
            ("30060200020200 8101", false),
            ("3007020101020200 8101", true),
            ("3007020101020200 0101", false),
            ("30050200020101 0101", false),
            ("", false),
            ("30", false),
        ] {
            let bytes = hex::decode(&hex.replace(' ', "")).unwrap();
            assert_eq!(is_strict_der(&bytes), want, "{hex}");
        }
        for cut in 0..good().len() {
            assert!(!is_strict_der(&good()[..cut]), "cut at {cut}");
        }
        let long = hex::decode(&format!("304702220{}0222{}01", "0".to_owned() + &"81".repeat(33), "0081".repeat(17)));
        assert!(long.is_none_or(|bytes| !is_strict_der(&bytes)));
    }

    /// What strict DER accepts, the loose reader reads; and the loose forms of it, too.
    #[test]
    fn lax_der_reads_as_core() {
        let strict = good();
        let want = parse_lax(&strict[..strict.len() - 1]).unwrap();
        assert_eq!(hex::encode(&want), format!("{}{}", &R[10..], &S[4..]));
        let r = &R[10..];
        let s = &S[4..];
        for (name, hex) in [
            ("length of the whole is not believed", format!("3000022100{r}0220{s}")),
            ("length in 4 bytes", format!("3084ffffffff022100{r}0220{s}")),
            ("bytes behind", format!("3045022100{r}0220{s}ffff")),
            ("negative R", format!("30440220{r}0220{s}")),
            ("padded R and S", format!("3048022300 0000{r}02220000{s}").replace(' ', "")),
            ("lengths with zeros", format!("304502850000000021 00{r}0283000020{s}").replace(' ', "")),
        ] {
            let bytes = hex::decode(&hex).unwrap();
            assert_eq!(parse_lax(&bytes), Some(want), "{name}");
        }
        for (name, hex) in [
            ("nothing", String::new()),
            ("no sequence", format!("3145022100{r}0220{s}")),
            ("cut length", "30".to_owned()),
            ("length longer than all", "30ff0201010201".to_owned()),
            ("no integer R", format!("3045032100{r}0220{s}")),
            ("no integer S", format!("3045022100{r}0320{s}")),
            ("S cut", format!("3045022100{r}0220{}", &s[2..])),
            ("length of 4 digits", format!("304502840100002100{r}0220{s}")),
            ("length of 8 digits", format!("30450288010000000000002100{r}0220{s}")),
            ("length of R longer than all", format!("3045028300ffff00{r}0220{s}")),
        ] {
            let bytes = hex::decode(&hex).unwrap();
            assert_eq!(parse_lax(&bytes), None, "{name}");
        }
        for (name, r, s) in [
            ("R is the order", hex::encode(&ORDER), "01".to_owned()),
            ("S is the order", "01".to_owned(), hex::encode(&ORDER)),
            ("33 digits", "01".repeat(33), "01".to_owned()),
        ] {
            let hex = format!("300002{:02x}{r}02{:02x}{s}", r.len() / 2, s.len() / 2);
            assert_eq!(parse_lax(&hex::decode(&hex).unwrap()), Some([0; 64]), "{name}");
        }
    }

    /// libsecp256k1's own loose reader is the twin, on changed signatures; so is its normalisation.
    #[test]
    fn lax_der_agrees_with_libsecp256k1() {
        let mut rng = Rng::new(11);
        let mut random = |below: usize| rng.below(below);
        let (mut readable, mut unreadable) = (0, 0);
        for round in 0..20_000 {
            let mut bytes = good();
            bytes.pop();
            for _ in 0..round % 4 {
                // Mostly the bytes that say what follows.
                let at = if random(3) == 0 { random(bytes.len()) } else { [0, 1, 2, 3, 4, 37, 38, 39][random(8)] };
                match random(4) {
                    0 => bytes.insert(at.min(bytes.len()), [0, 0x80, 0x81, 0x82, 0x84, 0xff][random(6)]),
                    1 => drop(bytes.remove(at.min(bytes.len() - 1))),
                    _ => bytes[at.min(70)] = random(256) as u8,
                }
                bytes.resize(bytes.len().max(71), 0xff);
            }
            let mut twin = secp256k1::ecdsa::Signature::from_der_lax(&bytes).ok();
            let mut ours = parse_lax(&bytes);
            assert_eq!(ours, twin.map(|twin| twin.serialize_compact()), "{}", hex::encode(&bytes));
            if let (Some(ours), Some(twin)) = (&mut ours, &mut twin) {
                normalize_s(ours);
                twin.normalize_s();
                assert_eq!(*ours, twin.serialize_compact(), "{}", hex::encode(&bytes));
                readable += 1;
            } else {
                unreadable += 1;
            }
        }
        assert!(readable > 2000 && unreadable > 2000, "{readable} readable, {unreadable} not");
    }

    #[test]
    fn low_s_boundary() {
        let mut compact = [0; 64];
        compact[32..].copy_from_slice(&HALF_ORDER);
        assert!(is_low_s(&compact));
        let unchanged = compact;
        normalize_s(&mut compact);
        assert_eq!(compact, unchanged);
        compact[63] += 1; // (n + 1) / 2 becomes (n - 1) / 2.
        assert!(!is_low_s(&compact));
        normalize_s(&mut compact);
        assert_eq!(compact, unchanged);
        compact[32..].copy_from_slice(&ORDER);
        compact[63] -= 1;
        normalize_s(&mut compact);
        assert_eq!((compact[62], compact[63]), (0, 1));
    }

    #[test]
    fn signature_encoding_flags() {
        let mut high = good();
        high[39] = 0x7f;
        high[40..44].fill(0xff);
        let (mut hash_type_4, mut loose) = (good(), good());
        *hash_type_4.last_mut().unwrap() = 4;
        loose[1] += 1;
        for (name, signature, flags, want) in [
            ("empty", &[][..], Flags::DERSIG | Flags::STRICTENC | Flags::LOW_S, Ok(())),
            ("good", &good(), Flags::DERSIG | Flags::STRICTENC | Flags::LOW_S, Ok(())),
            ("loose, no flag", &loose, Flags::NONE, Ok(())),
            ("loose, DERSIG", &loose, Flags::DERSIG, Err(ScriptError::SigDer)),
            ("loose, LOW_S", &loose, Flags::LOW_S, Err(ScriptError::SigDer)),
            ("loose, STRICTENC", &loose, Flags::STRICTENC, Err(ScriptError::SigDer)),
            ("hash type 4, DERSIG", &hash_type_4, Flags::DERSIG, Ok(())),
            ("hash type 4, STRICTENC", &hash_type_4, Flags::STRICTENC, Err(ScriptError::SigHashtype)),
        ] {
            assert_eq!(check_signature(signature, flags), want, "{name}");
        }
        let high =
            hex::decode("3026020101022100fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd036414001").unwrap();
        assert_eq!(check_signature(&high, Flags::DERSIG), Ok(()));
        assert_eq!(check_signature(&high, Flags::LOW_S), Err(ScriptError::SigHighS));
    }

    #[test]
    fn public_key_encoding_flags() {
        let key = |first: u8, bytes: usize| {
            let mut key = vec![0x11; bytes];
            key[0] = first;
            key
        };
        for (key, shaped, strict, witness) in [
            (key(2, 33), true, true, true),
            (key(3, 33), true, true, true),
            (key(4, 65), true, true, false),
            (key(6, 65), true, false, false),
            (key(7, 65), true, false, false),
            (key(4, 33), false, false, false),
            (key(5, 33), false, false, false),
            (key(2, 65), false, false, false),
            (key(2, 32), false, false, false),
            (Vec::new(), false, false, false),
        ] {
            assert_eq!(is_key_shaped(&key), shaped, "{key:?}");
            assert_eq!(check_key(&key, Flags::STRICTENC, false).is_ok(), strict, "{key:?}");
            assert_eq!(check_key(&key, Flags::WITNESS_PUBKEYTYPE, true).is_ok(), witness, "{key:?}");
            assert_eq!(check_key(&key, Flags::WITNESS_PUBKEYTYPE, false), Ok(()), "{key:?}");
        }
    }
}
