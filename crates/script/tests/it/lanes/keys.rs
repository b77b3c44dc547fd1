//! One ECDSA signature and several keys, as CHECKMULTISIG has them, beside libsecp256k1.

use super::*;

/// A signature of a nonce, as checks of both keys that it holds with: `base G + key R` and `base G - key R`, as far as they
/// are points. Nothing is signed where there is no base.
fn by_nonce(nonce: Number, base: Option<Number>, key: Number) -> Vec<Check> {
    let Ok(r) = SecretKey::from_secret_bytes(x_of(&nonce.point())).map(Number) else { return Vec::new() };
    let sighash = base.map_or([0; 32], |base| base.times(r).negated().bytes());
    let mut signature = ecdsa::Signature::from_compact(&joined(r.bytes(), key.times(r).bytes())).unwrap();
    signature.normalize_s();
    let signature = signature.serialize_compact();
    let step = key.times(nonce);
    let secrets = [step, step.negated()].map(|step| base.map_or(Some(step), |base| base.plus(step)));
    // One of the two in full.
    let check = |(form, secret): (u64, Number)| Check::Ecdsa {
        signature,
        key: written(&secret.point(), form * 2),
        sighash,
        odd: None,
    };
    (0..).zip(secrets).filter_map(|(form, secret)| Some((form, secret?))).map(check).collect()
}

/// The same signature with another key.
fn with_key(check: &Check, other: KeyBytes) -> Check {
    let &Check::Ecdsa { signature, sighash, .. } = check else { unreachable!("only such are made") };
    Check::Ecdsa { signature, key: other, sighash, odd: None }
}

/// A signature's checks, between others that are of other keys, in any form and number.
fn among_others(checks: &[Check], rng: &mut Rng) -> Vec<Check> {
    let mut all: Vec<Check> = Vec::new();
    for check in checks {
        all.push(*check);
        for _ in 0..rng.below(3) {
            let Check::Ecdsa { key, .. } = check else { unreachable!("only such are made") };
            let mut near = key.as_slice().to_vec();
            match rng.below(4) {
                0 if near.len() == 33 => near[0] ^= 1, // The negative.
                0 => near[34] ^= 1,
                1 => near[1 + rng.below(32)] ^= 1 << rng.below(8),
                2 => near[1..33].copy_from_slice(&edge(rng)),
                _ => near = written(&Number::random(rng).point(), rng.u64() % 3).as_slice().to_vec(),
            }
            all.insert(rng.below(all.len() + 1), with_key(check, KeyBytes::new(&near).unwrap()));
        }
    }
    all
}

/// Both keys of a signature, and others, of which nothing holds.
#[test]
fn lanes_tell_the_keys_of_a_signature() {
    lanes_of_this_machine().into_iter().for_each(lanes_tell_the_keys_of_a_signature_in);
}

fn lanes_tell_the_keys_of_a_signature_in(lanes: Lanes) {
    let mut rng = Rng::new(41);
    for _ in 0..if testkit::is_slow() { 200 } else { 3 } {
        let mut checks: Vec<Check> = Vec::new();
        for _ in 0..300 {
            let [nonce, base, key] = [(); 3].map(|()| Number::random(&mut rng));
            let both = by_nonce(nonce, Some(base), key);
            assert_eq!(both.len(), 2, "random sums are points");
            checks.extend(among_others(&both, &mut rng));
            if rng.below(3) == 0 {
                checks.push(good(&mut rng));
            }
        }
        assert_eq!(compare(lanes, &checks).1, 0, "all that hold are proven: {lanes:?}");
    }
}

/// Small numbers, powers of two, numbers that have to do with each other, nothing signed: whatever the lanes say, nothing is
/// proven that does not hold.
#[test]
fn lanes_agree_on_exceptional_keys() {
    lanes_of_this_machine().into_iter().for_each(lanes_agree_on_exceptional_keys_in);
}

fn lanes_agree_on_exceptional_keys_in(lanes: Lanes) {
    let (special, [bases, keys]) = (special(), small_digits());
    let mut rng = Rng::new(42);
    let mut checks: Vec<Check> = Vec::new();
    for _ in 0..if testkit::is_slow() { 30_000 } else { 400 } {
        let pick = |from: &[Number], rng: &mut Rng| from[rng.below(from.len())];
        let (nonce, key) = (pick(&special, &mut rng), pick(&special, &mut rng));
        let base = match rng.below(4) {
            0 => Some(key.times(nonce)), // One key is infinity, the other twice a half.
            1 => None,
            _ => Some(pick(&special, &mut rng)),
        };
        checks.extend(among_others(&by_nonce(nonce, base, key), &mut rng));
        let (nonce, base, key) = (pick(&special, &mut rng), pick(&bases, &mut rng), pick(&keys, &mut rng));
        checks.extend(among_others(&by_nonce(nonce, Some(base), key), &mut rng));
        let nonce = related(&[Number::small(1), Number::random(&mut rng)], &mut rng);
        let key = related(&[Number::small(1), nonce], &mut rng);
        let base = related(&[key, nonce, key.times(nonce)], &mut rng);
        checks.extend(among_others(&by_nonce(nonce, Some(base), key), &mut rng));
    }
    let (holds, unproven) = compare(lanes, &checks);
    println!("{holds} of {} hold, {unproven} of them are not proven", checks.len());
    assert!(holds * 5 > checks.len() && holds < checks.len(), "{holds} of {} hold", checks.len());
    assert!(unproven > 0 && unproven * 3 < holds, "{unproven} of {holds} not proven");
}
