//! Checks in vector lanes (see [`kernels::secp256k1`]), and the choice of the best batch on this machine.
//!
//! The lanes only prove valid checks. For a check that they do not prove, the script runs again with libsecp256k1.
//!
//! Many Schnorr signatures and tweaks are first tried all at once, by one sum with random coefficients; if the sum
//! fails, each is tried separately.
//!
//! Absent on purpose: keys in rare forms (hybrid ones). They are not proven.

use crate::check::{Batch, Check, KeyBytes, OneByOne, put_hints};
use crate::sighash::tagged;
use kernels::Kernels;
use kernels::secp256k1::{self, Claim, Y};
use kernels::sha256::Pieces;
use std::sync::LazyLock;

/// Maximum number of claims at a time if each is proven separately: more would save nothing.
const CLAIMS_MAX: usize = 1024;
/// Maximum number of claims proven by one sum. Up to this number the time for each claim falls; beyond it, their points
/// no longer fit in the processor's caches.
const SUM_CLAIMS_MAX: usize = 4096;
/// Maximum number of checks processed at a time, which keeps their lists small for every script.
const CHECKS_MAX: usize = 16384;

/// The secret from which the coefficients of sums are derived, and which no block can know. `None` if the system gives
/// no random numbers: then each check is proven separately.
static SECRET: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).ok().map(|()| secret)
});

/// The fastest batch for a choice of kernels: vector lanes if some are faster than libsecp256k1.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    kernels: Kernels,
    lanes: Option<Lanes>,
}

/// The fastest batch of these kernels.
pub fn best(kernels: Kernels) -> Best {
    Best { kernels, lanes: Lanes::of(kernels) }
}

impl Best {
    /// The name of the implementation, for a log.
    pub fn name(&self) -> String {
        match &self.lanes {
            Some(lanes) => format!("vector lanes ({})", lanes.name()),
            None => "libsecp256k1, one by one".to_owned(),
        }
    }

    /// Whether it finds hints about signatures: [`Batch::verify_and_find`].
    pub fn finds_hints(&self) -> bool {
        self.lanes.is_some()
    }

    /// The lanes, if some are faster than libsecp256k1.
    pub(crate) fn lanes(&self) -> Option<Lanes> {
        self.lanes
    }
}

impl Batch for Best {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        match &self.lanes {
            Some(lanes) => lanes.verify(checks),
            None => OneByOne.verify(checks),
        }
    }

    fn verify_and_find(&self, checks: &[Check], odd: &mut [bool]) -> Vec<bool> {
        match &self.lanes {
            Some(lanes) => lanes.verify_and_find(checks, odd),
            None => OneByOne.verify_and_find(checks, odd),
        }
    }

    fn takes_pairs(&self) -> bool {
        self.lanes.is_some()
    }

    fn kernels(&self) -> Kernels {
        self.kernels
    }

    fn takes_hashes(&self) -> bool {
        self.lanes.is_some() && self.kernels.hashes_many()
    }
}

/// Many checks at a time, in vector lanes.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    lanes: secp256k1::Lanes,
    /// The kernels that hash challenges.
    kernels: Kernels,
}

impl Lanes {
    /// The lanes for a choice of kernels, if some are faster than libsecp256k1.
    pub fn of(kernels: Kernels) -> Option<Lanes> {
        kernels.signatures().map(|lanes| Lanes { lanes, kernels })
    }

    /// All lanes of this processor, for tests and measurements.
    pub fn available() -> Vec<Lanes> {
        secp256k1::Lanes::available().into_iter().map(|lanes| Lanes { lanes, kernels: Kernels::AUTO }).collect()
    }

    /// Their name.
    pub fn name(self) -> &'static str {
        self.lanes.name()
    }

    /// Minimum number of checks for which the lanes are used: one pass of the ladder takes as long as two separate
    /// checks with sixteen lanes, and as long as four with eight or fewer lanes.
    fn checks_min(self) -> usize {
        if self.lanes.width() >= 16 { 3 } else { 5 }
    }

    /// Which checks the lanes prove, whatever their number.
    pub fn prove(self, checks: &[Check]) -> Vec<bool> {
        self.prove_with(checks, true, None)
    }

    /// Whether they are faster than libsecp256k1.
    #[doc(hidden)]
    pub fn is_fast(self) -> bool {
        self.lanes.cpu() != kernels::cpu::Cpu::Plain
    }

    /// For each check, whether the y of R is odd if it is a valid ECDSA signature: the hint about it.
    pub(crate) fn have_odd(self, checks: &[Check]) -> Vec<bool> {
        let is_even = |check: &Check| ecdsa_with_parity(check, false);
        let (claims, places): (Vec<Claim>, Vec<usize>) =
            checks.iter().enumerate().filter_map(|(place, check)| Some((is_even(check)?, place))).unzip();
        let mut odd = vec![false; checks.len()];
        for (place, is_even) in places.into_iter().zip(self.lanes.prove(&claims)) {
            odd[place] = !is_even;
        }
        odd
    }

    /// Whether one sum proves all of the checks: an ECDSA signature among them needs a hint.
    #[doc(hidden)]
    pub fn hold_by_sum(self, checks: &[Check]) -> bool {
        let (claims, _) = sums(checks, self.kernels);
        claims.len() == checks.len() && SECRET.is_some_and(|secret| self.lanes.prove_together(&claims, &secret))
    }

    /// [`Lanes::prove`] with each check proven separately: the baseline for measurements and tests.
    #[doc(hidden)]
    pub fn prove_each(self, checks: &[Check]) -> Vec<bool> {
        self.prove_with(checks, false, None)
    }

    /// With `by_sum`, first tries the claims that are sums of points all at once; if that fails, and for all other
    /// claims, each is proven separately. With `odd`, which has the hints, those of ECDSA signatures that are proven
    /// separately are found.
    fn prove_with(self, checks: &[Check], by_sum: bool, mut odd: Option<&mut [bool]>) -> Vec<bool> {
        let mut proven = vec![false; checks.len()];
        for (at, (checks, proven)) in checks.chunks(CHECKS_MAX).zip(proven.chunks_mut(CHECKS_MAX)).enumerate() {
            let odd = odd.as_deref_mut().map(|odd| &mut odd[at * CHECKS_MAX..][..checks.len()]);
            let mut rest = Rest::new(self.lanes, proven, odd);
            let (claims, places) = sums(checks, self.kernels);
            let at_a_time = claims.len().div_ceil(claims.len().div_ceil(SUM_CLAIMS_MAX).max(1)).max(1);
            for (claims, places) in claims.chunks(at_a_time).zip(places.chunks(at_a_time)) {
                if by_sum && self.hold_together(claims) {
                    places.iter().for_each(|&place| rest.proven[place] = true);
                } else {
                    let alone = |(&place, &claim): (&usize, &Claim)| (place, without_parity(claim));
                    places.iter().zip(claims).map(alone).for_each(|(place, claim)| rest.put(place, claim));
                }
            }
            let mut places = places.iter().peekable();
            for (place, check) in checks.iter().enumerate() {
                // Those of the list were tried above.
                if places.next_if(|&&tried| tried == place).is_some() {
                    continue;
                }
                if let Some(claim) = ecdsa(check) {
                    rest.put(place, claim);
                }
            }
            rest.prove();
        }
        proven
    }

    /// Whether there are enough claims for a sum, and all hold.
    fn hold_together(self, claims: &[Claim]) -> bool {
        claims.len() >= self.lanes.together_min()
            && self.kernels.sums_signatures()
            && SECRET.is_some_and(|secret| self.lanes.prove_together(claims, &secret))
    }
}

/// Claims that are proven separately. Claims of one signature stay adjacent, as recorded.
struct Rest<'p> {
    lanes: secp256k1::Lanes,
    /// Their positions in `proven`.
    places: Vec<usize>,
    claims: Vec<Claim>,
    proven: &'p mut [bool],
    /// The hints, if those of proven claims are wanted.
    odd: Option<&'p mut [bool]>,
}

impl<'p> Rest<'p> {
    fn new(lanes: secp256k1::Lanes, proven: &'p mut [bool], odd: Option<&'p mut [bool]>) -> Rest<'p> {
        let most = proven.len().min(CLAIMS_MAX);
        Rest { lanes, places: Vec::with_capacity(most), claims: Vec::with_capacity(most), proven, odd }
    }

    fn put(&mut self, place: usize, claim: Claim) {
        self.places.push(place);
        self.claims.push(claim);
        if self.claims.len() == CLAIMS_MAX {
            self.prove();
        }
    }

    /// Proves the waiting claims.
    fn prove(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let mut found = vec![false; self.claims.len()];
        let proven = match self.odd {
            Some(_) => self.lanes.prove_and_find(&self.claims, &mut found),
            None => self.lanes.prove(&self.claims),
        };
        if let Some(odd) = &mut self.odd {
            for (at, claim) in self.claims.iter().enumerate() {
                // A key that is written with its y takes no hint.
                if proven[at] && matches!(claim, Claim::Ecdsa { y: Y::Even | Y::Odd, .. }) {
                    odd[self.places[at]] = found[at];
                }
            }
        }
        for (place, is_proven) in self.places.drain(..).zip(proven) {
            self.proven[place] = is_proven;
        }
        self.claims.clear();
    }
}

impl Batch for Lanes {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        if checks.len() < self.checks_min() { OneByOne.verify(checks) } else { self.prove(checks) }
    }

    /// However few they are: only lanes find hints.
    fn verify_and_find(&self, checks: &[Check], odd: &mut [bool]) -> Vec<bool> {
        put_hints(checks, odd);
        self.prove_with(checks, true, Some(odd))
    }

    fn takes_pairs(&self) -> bool {
        true
    }

    fn kernels(&self) -> Kernels {
        self.kernels
    }

    fn takes_hashes(&self) -> bool {
        self.kernels.hashes_many()
    }
}

/// For tests: the fastest lanes, even for few checks, compared with libsecp256k1; without lanes, [`OneByOne`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Compared;

impl Batch for Compared {
    /// # Panics
    ///
    /// If an invalid check is proven.
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let Some(lanes) = Lanes::of(Kernels::AUTO) else { return OneByOne.verify(checks) };
        let proven = lanes.prove(checks);
        for (check, &proven) in checks.iter().zip(&proven) {
            assert!(!proven || check.holds(), "proven, and does not hold: {check:02x?}");
        }
        proven
    }

    fn takes_hashes(&self) -> bool {
        true
    }
}

/// The claim for an ECDSA check; `None` for keys in rare forms.
fn ecdsa(check: &Check) -> Option<Claim> {
    let Check::Ecdsa { signature, key, sighash, .. } = check else { return None };
    let (r, s) = halves(signature);
    let (x, y) = coordinates(key)?;
    Some(Claim::Ecdsa { x, y, r, s, message: *sighash })
}

/// The claim for an ECDSA check with a parity; `None` for keys with a whole y.
fn ecdsa_with_parity(check: &Check, odd: bool) -> Option<Claim> {
    match ecdsa(check)? {
        Claim::Ecdsa { x, y: y @ (Y::Even | Y::Odd), r, s, message } => {
            Some(Claim::EcdsaWithParity { x, y, r, s, message, odd })
        }
        _ => None,
    }
}

/// The claim without a hint, which may be wrong.
fn without_parity(claim: Claim) -> Claim {
    match claim {
        Claim::EcdsaWithParity { x, y, r, s, message, .. } => Claim::Ecdsa { x, y, r, s, message },
        other => other,
    }
}

/// The claims for the checks that are sums of points (of ECDSA those with a hint), and their positions.
fn sums(checks: &[Check], kernels: Kernels) -> (Vec<Claim>, Vec<usize>) {
    let mut challenges = challenges(checks, kernels).into_iter();
    let claim = |check: &Check| match check {
        Check::Ecdsa { odd, .. } => ecdsa_with_parity(check, (*odd)?),
        Check::Schnorr { signature, key, .. } => {
            let (r, s) = halves(signature);
            Some(Claim::Schnorr { x: *key, r, s, challenge: challenges.next()? })
        }
        Check::Tweak { output, odd, internal, tweak } => {
            Some(Claim::Tweak { x: *internal, tweak: *tweak, sum: *output, odd: *odd })
        }
    };
    checks.iter().map(claim).enumerate().filter_map(|(place, claim)| Some((claim?, place))).unzip()
}

/// The challenge of each Schnorr signature among the checks, in order: its hash with key and message. Source: BIP-0340.
fn challenges(checks: &[Check], kernels: Kernels) -> Vec<[u8; 32]> {
    let message = |check: &Check| match check {
        Check::Schnorr { signature, key, sighash } => Some([halves(signature).0, *key, *sighash]),
        Check::Ecdsa { .. } | Check::Tweak { .. } => None,
    };
    let messages: Vec<[[u8; 32]; 3]> = checks.iter().filter_map(message).collect();
    let tag = &tagged::CHALLENGE_START[..];
    let pieces: Vec<Pieces<'_>> = messages.iter().map(|message| [tag, message.as_flattened(), &[]]).collect();
    let mut challenges = vec![[0; 32]; pieces.len()];
    kernels.sha256_many(&pieces, &mut challenges);
    challenges
}

fn halves(signature: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    let (first, second) = signature.split_first_chunk().expect("64 bytes");
    (*first, second.try_into().expect("32 bytes are left"))
}

/// A key with a first byte of 2 or 3, compressed, or 4, with both coordinates.
fn coordinates(key: &KeyBytes) -> Option<([u8; 32], Y)> {
    let (first, x, rest) = match key.as_slice() {
        [first, rest @ ..] => {
            let (x, rest) = rest.split_first_chunk()?;
            (*first, *x, rest)
        }
        [] => return None,
    };
    Some((
        x,
        match (first, rest) {
            (2, []) => Y::Even,
            (3, []) => Y::Odd,
            (4, y) => Y::Given(y.try_into().ok()?),
            _ => return None,
        },
    ))
}
