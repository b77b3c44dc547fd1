//! The vector lanes against libsecp256k1: on random signatures, on changed ones, and on those made to meet every exception.

mod keys;

use crate::wallet::{Kind, Spending, spending};
use primitives::Tables;
use script::check::KeyBytes;
use script::{Batch, Check, Deferred, Flags, Lanes, OneByOne, Precomputed, Scratch, ScriptError, lanes, verify_all};
use secp256k1::{Keypair, Message, Parity, PublicKey, Scalar, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use testkit::Rng;

/// Source: SEC 2, secp256k1.
const ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
const PRIME: &str = "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f";
const ZERO: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Twice this is one, modulo the order.
const HALF: &str = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1";
/// What multiplies a point to (beta x, y). Source: libsecp256k1, `scalar_impl.h`.
const LAMBDA: &str = "5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72";

fn literal(hex: &str) -> [u8; 32] {
    primitives::hex::literal(hex)
}

fn random(rng: &mut Rng) -> [u8; 32] {
    std::array::from_fn(|_| rng.u64() as u8)
}

fn joined(first: [u8; 32], second: [u8; 32]) -> [u8; 64] {
    *[first, second].as_flattened().first_chunk().unwrap()
}

/// Numbers modulo the order, none of them zero, by libsecp256k1's secrets.
#[derive(Clone, Copy, Debug)]
struct Number(SecretKey);

impl Number {
    fn new(bytes: [u8; 32]) -> Number {
        Number(SecretKey::from_secret_bytes(bytes).unwrap())
    }

    fn small(number: u64) -> Number {
        let mut bytes = [0; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        Number::new(bytes)
    }

    fn random(rng: &mut Rng) -> Number {
        Number::new(random(rng))
    }

    fn bytes(self) -> [u8; 32] {
        self.0.to_secret_bytes()
    }

    fn times(self, other: Number) -> Number {
        Number(self.0.mul_tweak(&Scalar::from(other.0)).unwrap())
    }

    fn plus(self, other: Number) -> Option<Number> {
        self.0.add_tweak(&Scalar::from(other.0)).ok().map(Number)
    }

    fn negated(self) -> Number {
        Number(self.0.negate())
    }

    /// By Fermat.
    fn inverse(self) -> Number {
        let mut exponent = literal(ORDER);
        exponent[31] -= 2;
        let mut power = Number::small(1);
        for byte in exponent {
            for bit in (0..8).rev() {
                power = power.times(power);
                power = if byte >> bit & 1 == 1 { power.times(self) } else { power };
            }
        }
        power
    }

    fn point(self) -> PublicKey {
        PublicKey::from_secret_key(&self.0)
    }
}

fn x_of(point: &PublicKey) -> [u8; 32] {
    point.serialize()[1..].try_into().unwrap()
}

/// The key in one of its forms, hybrid ones included.
fn written(key: &PublicKey, form: u64) -> KeyBytes {
    let mut full = key.serialize_uncompressed();
    match form {
        0 => return KeyBytes::new(&full).unwrap(),
        1 => full[0] = 6 | full[64] & 1,
        _ => return KeyBytes::new(&key.serialize()).unwrap(),
    }
    KeyBytes::new(&full).unwrap()
}

/// A signature whose verification computes `base G + key P`, where P is `secret G`. It holds when the sum's x is `r`.
fn ecdsa_of(secret: Number, base: Option<Number>, key: Number, r: Number) -> Check {
    let s = r.times(key.inverse());
    let sighash = base.map_or([0; 32], |base| base.times(s).bytes());
    let mut signature = ecdsa::Signature::from_compact(&joined(r.bytes(), s.bytes())).unwrap();
    signature.normalize_s();
    let key = KeyBytes::new(&secret.point().serialize()).unwrap();
    Check::Ecdsa { signature: signature.serialize_compact(), key, sighash, odd: None }
}

/// One that holds; none where the sum is infinity.
fn ecdsa_by_sum(secret: Number, base: Option<Number>, key: Number) -> Option<Check> {
    let sum = match base {
        Some(base) => base.plus(key.times(secret))?,
        None => key.times(secret),
    };
    let r = Number(SecretKey::from_secret_bytes(x_of(&sum.point())).ok()?);
    Some(ecdsa_of(secret, base, key, r))
}

/// The same for a tweak, `base G + P`.
fn tweak_by_sum(secret: Number, base: Number) -> Option<Check> {
    let internal = secret.point().x_only_public_key().0;
    let (output, parity) = internal.add_tweak(&Scalar::from(base.0)).ok()?;
    Some(Check::Tweak {
        output: output.to_byte_array(),
        odd: parity == Parity::Odd,
        internal: internal.to_byte_array(),
        tweak: base.bytes(),
    })
}

/// A random check that holds.
fn good(rng: &mut Rng) -> Check {
    let (secret, sighash) = (Number::random(rng), random(rng));
    match rng.u64() % 4 {
        0 => {
            let pair = Keypair::from_secret_key(&secret.0);
            let signature = schnorr::sign_no_aux_rand(&sighash, &pair).to_byte_array();
            Check::Schnorr { signature, key: pair.x_only_public_key().0.to_byte_array(), sighash }
        }
        1 => tweak_by_sum(secret, Number::random(rng)).unwrap(),
        _ => {
            let signature = ecdsa::sign(Message::from_digest(sighash), &secret.0).serialize_compact();
            // The signature of every other nonce has a high R: both parities of everything come by.
            Check::Ecdsa { signature, key: written(&secret.point(), rng.u64() % 8 * 2), sighash, odd: None }
        }
    }
}

/// The same, one of eight of ECDSA two to four times.
fn good_again(rng: &mut Rng) -> Vec<Check> {
    let check = good(rng);
    let is_again = matches!(check, Check::Ecdsa { .. }) && rng.below(8) == 0;
    vec![check; if is_again { 2 + rng.below(3) } else { 1 }]
}

/// The numbers of a check. A key in ECDSA may have any first byte: that is changed, too.
fn fields(check: &mut Check) -> Vec<&mut [u8]> {
    match check {
        Check::Ecdsa { signature, sighash, .. } => {
            let (r, s) = signature.split_at_mut(32);
            vec![r, s, sighash]
        }
        Check::Schnorr { signature, key, sighash } => {
            let (r, s) = signature.split_at_mut(32);
            vec![r, s, key, sighash]
        }
        Check::Tweak { output, internal, tweak, .. } => vec![output, internal, tweak],
    }
}

/// 32 bytes at a bound, or near one.
fn edge(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = match rng.u64() % 6 {
        0 => [0; 32],
        1 => [0xff; 32],
        2 => literal(ORDER),
        3 => literal(PRIME),
        4 => literal(LAMBDA),
        _ => literal(HALF),
    };
    let by = [0, 0, 1, 2, 0xff, 0xfe][rng.u64() as usize % 6];
    bytes[31] = bytes[31].wrapping_add(by);
    bytes
}

/// Changes a check somewhere: a bit, a number, or the key.
fn change(check: &mut Check, rng: &mut Rng) {
    let choice = rng.u64() % 8;
    if let Check::Ecdsa { key, .. } = check {
        let mut bytes = key.as_slice().to_vec();
        match choice {
            0 => bytes[0] = rng.u64() as u8 % 8,
            1 => bytes[1..33].copy_from_slice(&edge(rng)),
            2 => {
                let at = rng.u64() as usize % bytes.len();
                bytes[at] ^= 1 << (rng.u64() % 8);
            }
            3 if bytes.len() == 65 => bytes[33..].copy_from_slice(&edge(rng)),
            _ => {}
        }
        *key = KeyBytes::new(&bytes).unwrap();
        if choice < 4 {
            return;
        }
    }
    if let (Check::Tweak { odd, .. }, 0) = (&mut *check, choice) {
        *odd = !*odd;
        return;
    }
    let mut fields = fields(check);
    let which = rng.u64() as usize % fields.len();
    if choice < 6 {
        fields[which][rng.u64() as usize % 32] ^= 1 << (rng.u64() % 8);
    } else {
        fields[which].copy_from_slice(&edge(rng));
    }
}

/// Every kind of lanes that is made for this processor; where none is, the portable ones.
fn lanes_of_this_machine() -> Vec<Lanes> {
    let mut all = Lanes::available();
    if all.len() > 1 {
        all.remove(0);
    }
    all
}

/// Proves `checks` and asks libsecp256k1; nothing may be proven that does not hold. Returns how many hold, and how many
/// of these were not proven.
fn compare(lanes: Lanes, checks: &[Check]) -> (usize, usize) {
    let (proven, holds) = (lanes.prove(checks), OneByOne.verify(checks));
    assert_eq!((proven.len(), holds.len()), (checks.len(), checks.len()));
    for ((check, &proven), &holds) in checks.iter().zip(&proven).zip(&holds) {
        assert!(holds || !proven, "proven, and does not hold: {check:?}");
    }
    no_false_sum(lanes, checks, |at| holds[at]);
    let count = |holds: &[bool]| holds.iter().filter(|&&holds| holds).count();
    (count(&holds), count(&holds) - count(&proven))
}

/// Proves all checks that are no ECDSA by one sum, and the first half of them: the sum is of no false one. `holds` says it of
/// a place.
fn no_false_sum(lanes: Lanes, checks: &[Check], holds: impl Fn(usize) -> bool) {
    let places: Vec<usize> = (0..checks.len()).filter(|&at| !matches!(checks[at], Check::Ecdsa { .. })).collect();
    for end in [places.len(), places.len() / 2] {
        let sums: Vec<Check> = places[..end].iter().map(|&at| checks[at]).collect();
        let is_true = !lanes.hold_by_sum(&sums) || places[..end].iter().all(|&at| holds(at));
        assert!(is_true, "proven by one sum, and not all hold: {lanes:?}, {sums:?}");
    }
}

/// A random check that holds, and that one sum can prove with others.
fn good_sum(rng: &mut Rng) -> Check {
    loop {
        let check = good(rng);
        if !matches!(check, Check::Ecdsa { .. }) {
            return check;
        }
    }
}

/// Schnorr signatures and tweaks by one sum: as many as a sum is worth it and more, with one that is bad at every place.
#[test]
fn one_bad_check_is_told_from_all_others() {
    lanes_of_this_machine().into_iter().for_each(one_bad_check_is_told_from_all_others_in);
}

fn one_bad_check_is_told_from_all_others_in(lanes: Lanes) {
    let mut rng = Rng::new(18);
    let mut checks: Vec<Check> = (0..if testkit::is_slow() { 1100 } else { 150 }).map(|_| good_sum(&mut rng)).collect();
    assert!(lanes.hold_by_sum(&checks), "{}", lanes.name());
    assert_eq!(lanes.prove(&checks), vec![true; checks.len()]);
    for bad in 0..checks.len() {
        let good = checks[bad];
        while checks[bad].holds() {
            change(&mut checks[bad], &mut rng);
        }
        assert!(!lanes.hold_by_sum(&checks), "check {bad} is bad: {:?}", checks[bad]);
        if bad % 16 == 0 {
            let want: Vec<bool> = (0..checks.len()).map(|at| at != bad).collect();
            assert_eq!(lanes.prove(&checks), want, "check {bad} is bad");
        }
        checks[bad] = good;
    }
    // With others between them, of which one is bad.
    let mut mixed: Vec<Check> = (0..300).map(|_| good(&mut rng)).collect();
    for bad in 0..4 {
        let want: Vec<bool> = mixed.iter().map(Check::holds).collect();
        assert_eq!(want.iter().filter(|holds| !**holds).count(), bad);
        assert_eq!(lanes.prove(&mixed), want);
        while mixed[bad * 50].holds() {
            change(&mut mixed[bad * 50], &mut rng);
        }
    }
}

/// Few keys many times: their signatures are proven by tables of the keys, good ones all of them. Then some are changed,
/// and some are by keys and multiples that have to do with each other.
#[test]
fn lanes_agree_on_keys_that_come_again() {
    lanes_of_this_machine().into_iter().for_each(lanes_agree_on_keys_that_come_again_in);
}

fn lanes_agree_on_keys_that_come_again_in(lanes: Lanes) {
    let mut rng = Rng::new(19);
    let special = special();
    let (mut all, mut unproven) = (0, 0);
    for round in 0..if testkit::is_slow() { 100 } else { 2 } {
        let secrets: Vec<Number> = (0..1 + rng.below(20)).map(|_| Number::random(&mut rng)).collect();
        let of_random = |_| {
            let (secret, base, key) =
                (secrets[rng.below(secrets.len())], Number::random(&mut rng), Number::random(&mut rng));
            ecdsa_by_sum(secret, Some(base), key).unwrap()
        };
        let mut checks: Vec<Check> = (0..400).map(of_random).collect();
        assert_eq!(compare(lanes, &checks), (checks.len(), 0), "{lanes:?}, round {round}");
        for check in checks.iter_mut().step_by(3) {
            change(check, &mut rng);
        }
        checks.extend((0..400).filter_map(|_| {
            let [secret, base, key] = std::array::from_fn(|at| special[rng.below(special.len().min(4 + 30 * at))]);
            ecdsa_by_sum(secret, Some(base), key)
        }));
        let (holds, left) = compare(lanes, &checks);
        (all, unproven) = (all + holds, unproven + left);
    }
    assert!(unproven * 2 < all, "{lanes:?}: {unproven} of {all} that hold are not proven");
    println!("{lanes:?}: {all} hold among others, {unproven} of them are not proven");
}

/// Lists of changed checks that are made of one list of good ones, whose making takes longer than the lanes do.
const CHANGED_LISTS: usize = 3;

/// Proves `count` checks and more in each of the lanes; says how many, and how many of them were good. A quarter is good as
/// libsecp256k1 made it; of the others, which are the same ones, two of three are changed. Some of ECDSA stand side by side
/// more than once, so that changed keys are claimed of one signature.
fn random_checks(all_lanes: &[Lanes], seed: u64, count: usize) -> (usize, usize) {
    let mut rng = Rng::new(seed);
    let (mut all, mut good_ones, mut round) = (0, 0, 0);
    while all < count {
        let good_checks: Vec<Check> = (0..1 + round % 259).flat_map(|_| good_again(&mut rng)).collect();
        for list in 0..=CHANGED_LISTS {
            let mut checks = good_checks.clone();
            for check in checks.iter_mut().filter(|_| list > 0) {
                if !rng.u64().is_multiple_of(3) {
                    change(check, &mut rng);
                }
            }
            for &lanes in all_lanes {
                prove_changed(lanes, &checks, &good_checks, &format!("seed {seed}, round {round}"));
            }
            all += checks.len();
            good_ones += checks.iter().zip(&good_checks).filter(|(check, good)| check == good).count();
        }
        round += 1;
    }
    (all, good_ones)
}

/// Proves checks that are `good_checks`, some of them changed. Those that are not are proven; of the others libsecp256k1 is
/// asked where one is proven.
fn prove_changed(lanes: Lanes, checks: &[Check], good_checks: &[Check], row: &str) {
    let proven = lanes.prove(checks);
    assert_eq!(proven.len(), checks.len());
    for ((check, good), proven) in checks.iter().zip(good_checks).zip(proven) {
        assert!(proven || check != good, "good, and not proven: {lanes:?}, {row}, {check:?}");
        assert!(!proven || check == good || check.holds(), "proven, and does not hold: {lanes:?}, {row}, {check:?}");
    }
    no_false_sum(lanes, checks, |at| checks[at] == good_checks[at] || checks[at].holds());
}

/// Chance does not meet what the lanes leave out: every good check is proven. With SLOW=1, half a million checks in each
/// kind of lanes, or as many as `CHECKS` says, on all processors; each thread has a seed of its own, `SEED` the first. `KIND`
/// has the beginning of the name of the only kind wanted.
#[test]
fn lanes_agree_on_random_checks() {
    let named = std::env::var("CHECKS").ok().map(|text| text.parse().expect("CHECKS is a number"));
    let count: usize = if testkit::is_slow() { named.unwrap_or(520_000) } else { 1800 };
    let threads = if testkit::is_slow() { std::thread::available_parallelism().unwrap().get() } else { 1 };
    let seed: u64 = std::env::var("SEED").map_or(11, |text| text.parse().expect("SEED is a number"));
    let kind = std::env::var("KIND").unwrap_or_default();
    let mut wanted = lanes_of_this_machine();
    wanted.retain(|lanes| lanes.name().starts_with(&kind));
    assert!(!wanted.is_empty(), "no lanes {kind} on this processor");
    let half = Number::new(literal(HALF));
    assert_eq!(half.plus(half).unwrap().bytes(), Number::small(1).bytes());
    let (all, good_ones) = std::thread::scope(|scope| {
        let wanted = &wanted;
        let part = |thread| scope.spawn(move || random_checks(wanted, seed + thread as u64, count / threads));
        let parts: Vec<_> = (0..threads).map(part).collect();
        let sums = parts.into_iter().map(|part| part.join().expect("a thread that compares"));
        sums.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    });
    for lanes in wanted {
        println!("{}: {all} checks, {good_ones} of them good", lanes.name());
    }
    assert!(good_ones * 2 > all && good_ones < all);
}

/// The first input that is bad is told, whether a batch or the script finds it.
#[test]
fn lanes_report_first_bad_input() {
    let mut spending = spending(&[Kind::WitnessKeyHash; 40], 2, 1, 3);
    spending.coins[30].1[5] ^= 1; // Another key's hash: no signature is looked at.
    let verdict = |spending: &Spending| {
        let (mut tables, spent) = (Tables::new(), spending.spent());
        let tx = Precomputed::new(tables.parse_transaction(&spending.bytes).unwrap(), &spent);
        let mut deferred = Deferred::for_batch(&lanes::best(kernels::Kernels::AUTO));
        let inputs = (0..spent.len()).map(|input| (&tx, input));
        verify_all(inputs, Flags::CONSENSUS, &lanes::best(kernels::Kernels::AUTO), &mut deferred, &mut Scratch::new())
    };
    assert_eq!(verdict(&spending), Err((30, ScriptError::EqualVerify)));
    for bad in [35, 20, 0] {
        spending.coins[bad].0 += 1; // What was signed is another value.
        let want = if bad > 30 { (30, ScriptError::EqualVerify) } else { (bad, ScriptError::EvalFalse) };
        assert_eq!(verdict(&spending), Err(want), "input {bad}");
    }
}

/// Every number of lanes filled, every lane bad alone.
#[test]
fn lanes_partly_filled_agree() {
    lanes_of_this_machine().into_iter().for_each(lanes_partly_filled_agree_in);
}

fn lanes_partly_filled_agree_in(lanes: Lanes) {
    let mut rng = Rng::new(12);
    let checks: Vec<Check> = (0..36).map(|_| good(&mut rng)).collect();
    for count in 0..=checks.len() {
        assert_eq!(lanes.prove(&checks[..count]), vec![true; count], "{count} checks");
        assert_eq!(Batch::verify(&lanes, &checks[..count]), vec![true; count], "{count} checks, as a batch");
    }
    for bad in 0..checks.len() {
        let mut checks = checks.clone();
        fields(&mut checks[bad])[0][31] ^= 1;
        let want: Vec<bool> = (0..checks.len()).map(|at| at != bad).collect();
        assert_eq!(lanes.prove(&checks), want, "check {bad} is bad");
        let bad_ones = vec![checks[bad]; checks.len()];
        assert_eq!(lanes.prove(&bad_ones), vec![false; checks.len()], "all as check {bad}");
    }
}

/// Numbers that lead the ladder to where its formulas do not hold, if anything does.
fn special() -> Vec<Number> {
    let lambda = Number::new(literal(LAMBDA));
    let two_to_128 = (0..128).fold(Number::small(1), |power, _| power.times(Number::small(2)));
    let mut special: Vec<Number> = (1..=9).chain([15, 16, 17, 31, 32, 33, 63, 4095, 4096]).map(Number::small).collect();
    special.push(two_to_128);
    special.extend(special.clone().iter().map(|number| number.inverse()));
    special.extend(special.clone().iter().map(|number| number.times(lambda)));
    special.extend([Number::small(1).plus(lambda).unwrap(), lambda.times(lambda)]);
    special.extend(special.clone().iter().map(|number| number.negated()));
    special
}

/// Numbers whose digits leave the ladder's sum small all the way: odd ones, and odd ones with odd multiples of lambda.
fn small_digits() -> [Vec<Number>; 2] {
    let lambda = Number::new(literal(LAMBDA));
    let odd: Vec<Number> = [1, 3, 31, 33, 255, 257, 4095, 4097].map(Number::small).to_vec();
    let both = |sign: fn(Number) -> Number| {
        let all = odd.iter().flat_map(|&a| odd.iter().map(move |&b| (a, b)));
        all.filter_map(move |(a, b)| a.plus(sign(b).times(lambda))).collect::<Vec<Number>>()
    };
    let mut keys = [both(|number| number), both(Number::negated)].concat();
    keys.extend(keys.clone().iter().map(|number| number.negated()));
    let mut bases = odd;
    bases.extend(bases.clone().iter().map(|number| number.negated()));
    [bases, keys]
}

/// Sums of small multiples of the generator, of lambda times it, and of each other: additions of equal and of opposite
/// points. Whatever the lanes say, nothing is proven that does not hold.
#[test]
fn lanes_agree_on_exceptional_sums() {
    lanes_of_this_machine().into_iter().for_each(lanes_agree_on_exceptional_sums_in);
}

fn lanes_agree_on_exceptional_sums_in(lanes: Lanes) {
    let (special, [bases, keys]) = (special(), small_digits());
    let lambda = Number::new(literal(LAMBDA));
    let mut rng = Rng::new(13);
    let (mut checks, mut forged): (Vec<Check>, Vec<Check>) = Default::default();
    let pick = |from: &[Number], rng: &mut Rng| from[rng.u64() as usize % from.len()];
    for _ in 0..if testkit::is_slow() { 50_000 } else { 1500 } {
        let (secret, key) = (pick(&special, &mut rng), pick(&special, &mut rng));
        let base = match rng.u64() % 4 {
            0 => Some(key.times(secret)), // The sum's halves are equal.
            1 => None,                    // Nothing was signed: zero times G.
            _ => Some(pick(&special, &mut rng)),
        };
        checks.extend(ecdsa_by_sum(secret, base, key));
        checks.extend(tweak_by_sum(secret, pick(&special, &mut rng)));
        let mut secret = pick(&bases, &mut rng);
        for _ in 0..rng.u64() % 3 {
            secret = secret.times(lambda);
        }
        let (base, key) = (pick(&bases, &mut rng), pick(&keys, &mut rng));
        checks.extend(ecdsa_by_sum(secret, Some(base), key));
        forged.push(ecdsa_of(secret, Some(base), key, Number::random(&mut rng)));
    }
    // Random keys, with which the halves are equal, or nothing is signed.
    for _ in 0..100 {
        let (secret, key) = (Number::random(&mut rng), Number::random(&mut rng));
        checks.extend(ecdsa_by_sum(secret, Some(key.times(secret)), key));
        checks.extend(ecdsa_by_sum(secret, None, key));
        checks.extend(tweak_by_sum(secret, secret));
    }
    let (holds, unproven) = compare(lanes, &checks);
    assert_eq!(holds, checks.len(), "all hold");
    println!("{holds} sums, {unproven} not proven");
    assert!(unproven > 0 && unproven * 4 < holds, "{unproven} of {holds} not proven");
    // The same sums, of which another x is claimed.
    assert_eq!(compare(lanes, &forged), (0, 0));
    let changed: Vec<Check> = checks
        .iter()
        .map(|check| {
            let mut check = *check;
            change(&mut check, &mut rng);
            check
        })
        .collect();
    compare(lanes, &changed);
}

/// Powers of two, runs of ones and sparse numbers, times lambda or not, and their inverses and negatives.
fn sparse(rng: &mut Rng) -> Number {
    let power = |rng: &mut Rng| {
        let mut bytes = [0; 32];
        let bit = rng.u64() as usize % 255;
        bytes[31 - bit / 8] = 1 << (bit % 8);
        Number::new(bytes)
    };
    let mut number = power(rng);
    for _ in 0..rng.u64() % 3 {
        let other = power(rng);
        let other = if rng.u64().is_multiple_of(2) { other } else { other.negated() };
        number = number.plus(other).unwrap_or(number);
    }
    if rng.u64().is_multiple_of(3) {
        number = number.plus(Number::small(1).negated()).unwrap_or(number);
    }
    for choice in 0..3 {
        number = match (rng.u64() % 3, choice) {
            (0, 0) => number.times(Number::new(literal(LAMBDA))),
            (0, 1) => number.inverse(),
            (0, _) => number.negated(),
            _ => number,
        };
    }
    number
}

/// A number that has to do with those before it, or none of them.
fn related(to: &[Number], rng: &mut Rng) -> Number {
    let other = to[rng.u64() as usize % to.len()];
    match rng.u64() % 8 {
        0 => other,
        1 => other.negated(),
        2 => other.inverse(),
        3 => other.times(Number::new(literal(LAMBDA))),
        4 => other.times(Number::small(1 + rng.u64() % 64)),
        5 => other.plus(sparse(rng)).unwrap_or(other),
        6 => Number::random(rng),
        _ => sparse(rng),
    }
}

/// A Schnorr signature with this nonce.
fn schnorr_of(secret: Number, nonce: Number, sighash: [u8; 32]) -> Option<Check> {
    let even = |number: Number| {
        let (x, parity) = number.point().x_only_public_key();
        (x.to_byte_array(), if parity == Parity::Even { number } else { number.negated() })
    };
    let ((key, secret), (r, nonce)) = (even(secret), even(nonce));
    let tag = kernels::sha256::sha256(b"BIP0340/challenge");
    let challenge = Number::new(kernels::sha256::sha256(&[tag, tag, r, key, sighash].concat()));
    let s = nonce.plus(challenge.times(secret))?.bytes();
    Some(Check::Schnorr { signature: joined(r, s), key, sighash })
}

/// Something near: another parity, the negative of a number, the next one, or one more by the order.
fn nudge(check: &mut Check, rng: &mut Rng) {
    let choice = rng.u64() % 5;
    match check {
        Check::Ecdsa { key, .. } if choice == 0 => {
            let mut bytes = key.as_slice().to_vec();
            bytes[0] ^= 1;
            *key = KeyBytes::new(&bytes).unwrap();
            return;
        }
        Check::Tweak { odd, .. } if choice == 0 => {
            *odd = !*odd;
            return;
        }
        _ => {}
    }
    let mut fields = fields(check);
    let which = rng.u64() as usize % fields.len();
    let number: &mut [u8; 32] = (&mut *fields[which]).try_into().unwrap();
    let subtract = |from: &str, number: &[u8; 32]| {
        let mut borrow = false;
        let mut difference: [u8; 32] = literal(from);
        for (to, &by) in difference.iter_mut().zip(number).rev() {
            let (less, first) = to.overflowing_sub(by);
            let (less, second) = less.overflowing_sub(u8::from(borrow));
            (*to, borrow) = (less, first | second);
        }
        difference
    };
    *number = match choice {
        1 => subtract(ORDER, number),
        2 => subtract(PRIME, number),
        3 => subtract(ORDER, &subtract(ZERO, number)), // The order more.
        _ => {
            number[31] = number[31].wrapping_add([1, 0xff][rng.u64() as usize % 2]);
            return;
        }
    };
}

/// Signatures of which keys, nonces and scalars have to do with each other and with windows, halves and lambda.
#[test]
fn lanes_agree_on_related_numbers() {
    lanes_of_this_machine().into_iter().for_each(lanes_agree_on_related_numbers_in);
}

fn lanes_agree_on_related_numbers_in(lanes: Lanes) {
    let mut rng = Rng::new(17);
    let (mut all, mut good, mut missed) = (0, 0, 0);
    for _ in 0..if testkit::is_slow() { 400 } else { 4 } {
        let mut checks: Vec<Check> = Vec::new();
        for _ in 0..100 {
            let secret = related(&[Number::small(1), Number::random(&mut rng)], &mut rng);
            let key = related(&[Number::small(1), secret], &mut rng);
            let base = related(&[key, secret, key.times(secret)], &mut rng);
            checks.extend(ecdsa_by_sum(secret, Some(base), key));
            checks.extend(tweak_by_sum(secret, base));
            checks.extend(schnorr_of(secret, base, random(&mut rng)));
        }
        let (holds, unproven) = compare(lanes, &checks);
        assert_eq!(holds, checks.len(), "all hold");
        for check in &mut checks {
            nudge(check, &mut rng);
        }
        let (nudged, _) = compare(lanes, &checks);
        (all, good, missed) = (all + 2 * checks.len(), good + holds + nudged, missed + unproven);
    }
    println!("{all} checks, {good} of them good, {missed} of these not proven");
    assert!(good < all * 2 / 3 && missed * 20 < all, "{good} of {all} good, {missed} not proven");
}

/// Signatures whose sum is infinity have no r: none is proven, whatever r claims.
#[test]
fn lanes_agree_on_sums_at_infinity() {
    lanes_of_this_machine().into_iter().for_each(lanes_agree_on_sums_at_infinity_in);
}

fn lanes_agree_on_sums_at_infinity_in(lanes: Lanes) {
    let (mut checks, mut rng) = (Vec::new(), Rng::new(14));
    let special = special();
    for at in 0..200 {
        let secret = if at % 2 == 0 { Number::random(&mut rng) } else { special[at / 2 % special.len()] };
        // z = -r d, so that z / s + r / s d = 0, for any r and s.
        let r = [Number::small(1), secret.times(secret), Number::random(&mut rng)][at % 3];
        let s = Number::small(1 + at as u64);
        let sighash = r.times(secret).negated().bytes();
        let signature = joined(r.bytes(), s.bytes());
        checks.push(Check::Ecdsa { signature, key: written(&secret.point(), at as u64 % 3), sighash, odd: None });
        // t = -d, where P = d G has an even y.
        let (internal, parity) = secret.point().x_only_public_key();
        let tweak = if parity == Parity::Even { secret.negated() } else { secret }.bytes();
        for output in [[0; 32], internal.to_byte_array(), literal(PRIME)] {
            checks.push(Check::Tweak { output, odd: at % 2 == 0, internal: internal.to_byte_array(), tweak });
        }
        // s = e d: the same for Schnorr. The challenge is hashed from r.
        let key = internal.to_byte_array();
        let even = if parity == Parity::Even { secret } else { secret.negated() };
        for r in [[0; 32], key, literal(PRIME)] {
            let tag = kernels::sha256::sha256(b"BIP0340/challenge");
            let challenge = kernels::sha256::sha256(&[tag, tag, r, key, [9; 32]].concat());
            let s = Number::new(challenge).times(even).bytes();
            let signature = joined(r, s);
            checks.push(Check::Schnorr { signature, key, sighash: [9; 32] });
        }
    }
    assert_eq!(compare(lanes, &checks), (0, 0));
}

/// A tweak of zero changes nothing: the sum is the key itself. No hash is zero; lanes leave it to libsecp256k1, because zero
/// times the generator has no coordinates.
#[test]
fn lanes_agree_on_tweak_of_zero() {
    lanes_of_this_machine().into_iter().for_each(lanes_agree_on_tweak_of_zero_in);
}

fn lanes_agree_on_tweak_of_zero_in(lanes: Lanes) {
    let mut rng = Rng::new(15);
    let tweak = |tweak: [u8; 32], rng: &mut Rng| {
        let internal: XOnlyPublicKey = Number::random(rng).point().x_only_public_key().0;
        let key = internal.to_byte_array();
        Check::Tweak { output: key, odd: false, internal: key, tweak }
    };
    let checks: Vec<Check> = (0..20).map(|_| tweak([0; 32], &mut rng)).collect();
    assert_eq!(compare(lanes, &checks), (20, 20));
    let checks: Vec<Check> = (0..20).map(|_| tweak(literal(ORDER), &mut rng)).collect();
    assert_eq!(compare(lanes, &checks), (0, 0), "the order is no tweak");
}

/// High S never passes libsecp256k1; a sum with x = r + n does.
#[test]
fn lanes_prove_neither_high_s_nor_wrapped_x() {
    lanes_of_this_machine().into_iter().for_each(lanes_prove_neither_high_s_nor_wrapped_x_in);
}

fn lanes_prove_neither_high_s_nor_wrapped_x_in(lanes: Lanes) {
    let mut rng = Rng::new(16);
    let mut checks = Vec::new();
    while checks.len() < 20 {
        let check = good(&mut rng);
        if let Check::Ecdsa { signature, key, sighash, .. } = check {
            let s = Number::new(signature[32..].try_into().unwrap()).negated().bytes();
            let signature = joined(*signature.first_chunk().unwrap(), s);
            checks.push(Check::Ecdsa { signature, key, sighash, odd: None });
        }
    }
    assert_eq!(compare(lanes, &checks), (0, 0), "high S");
    // A point whose x is above the order, by trying; then the key for it: P = (s R - z G) / r.
    let mut above = literal(ORDER);
    let point = loop {
        above[31] += 1;
        let key = [&[2][..], &above].concat();
        if let Ok(point) = PublicKey::from_slice(&key) {
            break point;
        }
    };
    let r = Number::small(u64::from(above[31] - literal(ORDER)[31]));
    let (s, z) = (Number::small(77), Number::random(&mut rng));
    let scaled = |point: PublicKey, by: Number| point.mul_tweak(&Scalar::from(by.0)).unwrap();
    let key = scaled(point, s).combine(&z.negated().point()).unwrap();
    let key = KeyBytes::new(&scaled(key, r.inverse()).serialize()).unwrap();
    let signature = joined(r.bytes(), s.bytes());
    let check = Check::Ecdsa { signature, key, sighash: z.bytes(), odd: None };
    assert_eq!(compare(lanes, &[check; 5]), (5, 5), "x = r + n holds, and is not proven");
    assert_eq!(lanes::best(kernels::Kernels::AUTO).verify(&[check]), [true], "a few checks are asked one by one");
}
