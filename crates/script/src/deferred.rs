//! Signature checks put off: scripts run on the assumption that every check holds, and a batch decides.
//!
//! A script is good when it succeeded under that assumption and all its recorded checks hold. In every other case it
//! runs again with checks on the spot, and that run is the verdict and the error.
//!
//! [`verify_all`] does this for a list of inputs; with a batch that takes them it puts off the hashes of the commonest
//! inputs, too. An engine that fills batches across blocks does it in steps:
//! [`Deferred::run`] each input, keep the [`Recorded`] of those that are not settled, let a [`Batch`] decide
//! ([`Deferred::decide`], or all of [`Deferred::checks`]), ask [`Deferred::hold`] for each, and run those that do not hold
//! again with [`Immediate`].

use crate::check::{Batch, Check, Checker, Immediate, Pairs};
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::sighash::{Ahead, Precomputed};
use crate::templates;
use crate::verify::{Scratch, verify};
use std::ops::Range;

/// Who records checks instead of making them.
#[derive(Debug, Default)]
pub struct Deferred {
    checks: Vec<Check>,
    groups: Vec<Group>,
    pairs: bool,
    ahead: Ahead,
}

/// The pairs of one CHECKMULTISIG: those of the first signature first, each with the keys it may match, in order.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: usize,
    signatures: usize,
    keys: usize,
}

impl Group {
    /// Keys that one signature may match: as many must be left for the others.
    fn span(self) -> usize {
        self.keys - self.signatures + 1
    }

    fn checks(self) -> usize {
        self.signatures * self.span()
    }

    /// Where the check of a pair stands.
    fn place(self, signature: usize, key: usize) -> usize {
        self.first + signature * self.span() + key - signature
    }

    /// The key that a signature is tried with first: the first signature with the first key, the last with the last, and
    /// what is between in steps. Of 2 of 3 signatures that hold one at least is found so.
    fn first_key(self, signature: usize) -> usize {
        let steps = (self.signatures - 1).max(1);
        signature + (self.span() - 1) * signature / steps
    }

    /// Appends the places of pairs that were not tried first and may yet count: those of signatures without a key, between
    /// the keys of those before and after them.
    fn others(self, results: &[bool], places: &mut Vec<usize>) {
        let found = |signature: usize| results[self.place(signature, self.first_key(signature))];
        for signature in (0..self.signatures).filter(|&signature| !found(signature)) {
            let before = (0..signature).rfind(|&other| found(other));
            let after = (signature + 1..self.signatures).find(|&other| found(other));
            let from = before.map_or(signature, |other| self.first_key(other) + signature - other);
            let to = after.map_or(signature + self.span(), |other| self.first_key(other) + signature + 1 - other);
            let keys = (from..to).filter(|&key| key != self.first_key(signature));
            places.extend(keys.map(|key| self.place(signature, key)));
        }
    }

    /// Goes through keys and signatures as CHECKMULTISIG does.
    ///
    /// When it says yes, it would with more pairs that hold, too (taking the first key that fits never costs a later
    /// signature its key): pairs that a batch could not tell do no harm.
    fn holds(self, results: &[bool]) -> bool {
        let mut signature = 0;
        for key in 0..self.keys {
            if signature == self.signatures {
                break;
            }
            if key - signature >= self.span() {
                return false; // More signatures are left than keys.
            }
            if results[self.first + signature * self.span() + key - signature] {
                signature += 1;
            }
        }
        signature == self.signatures
    }
}

/// What one input has recorded, by place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    checks: Range<usize>,
    groups: Range<usize>,
}

impl Recorded {
    /// Whether nothing waits for the batch: the input is good.
    pub fn is_settled(&self) -> bool {
        self.checks.is_empty()
    }
}

impl Deferred {
    /// Records single checks, and lets CHECKMULTISIG check on the spot.
    pub fn new() -> Deferred {
        Deferred::default()
    }

    /// Records the pairs of CHECKMULTISIG, too. That is worth it when a batch is so much faster than single checks
    /// that the pairs which would never have been tried do not matter.
    pub fn with_pairs() -> Deferred {
        Deferred { pairs: true, ..Deferred::default() }
    }

    /// Records what `batch` likes to be given.
    pub fn for_batch(batch: &dyn Batch) -> Deferred {
        Deferred { pairs: batch.takes_pairs(), ..Deferred::default() }
    }

    /// Everything recorded so far, for a [`Batch`].
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// What a batch says of [`Deferred::checks`], asked for no more than [`Deferred::hold`] wants to know: of the pairs of
    /// CHECKMULTISIG first one a signature, and then those that may yet count. Of others the answer is `false`.
    pub fn decide(&self, batch: &dyn Batch) -> Vec<bool> {
        if self.groups.iter().all(|group| group.span() == 1) {
            return batch.verify(&self.checks);
        }
        let mut places = Vec::with_capacity(self.checks.len());
        let mut next = 0;
        for group in &self.groups {
            places.extend(next..group.first);
            places.extend((0..group.signatures).map(|signature| group.place(signature, group.first_key(signature))));
            next = group.first + group.checks();
        }
        places.extend(next..self.checks.len());
        let mut results = vec![false; self.checks.len()];
        self.ask(batch, &places, &mut results);
        places.clear();
        for group in &self.groups {
            if !group.holds(&results) {
                group.others(&results, &mut places);
            }
        }
        if !places.is_empty() {
            self.ask(batch, &places, &mut results);
        }
        results
    }

    /// Asks for the checks at some places.
    fn ask(&self, batch: &dyn Batch, places: &[usize], results: &mut [bool]) {
        let checks: Vec<Check> = places.iter().map(|&place| self.checks[place]).collect();
        for (&place, holds) in places.iter().zip(batch.verify(&checks)) {
            results[place] = holds;
        }
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0, 0);
        self.ahead.clear();
    }

    fn truncate(&mut self, checks: usize, groups: usize) {
        self.checks.truncate(checks);
        self.groups.truncate(groups);
    }

    /// Runs an input, recording its checks. When it fails on the assumption that they hold, it runs again at once with
    /// checks on the spot, and nothing of it stays recorded.
    ///
    /// # Errors
    ///
    /// The verdict; it does not depend on the batch.
    pub fn run(
        &mut self,
        tx: &Precomputed<'_>,
        input: usize,
        flags: Flags,
        scratch: &mut Scratch,
    ) -> Result<Recorded, ScriptError> {
        let (checks, groups) = (self.checks.len(), self.groups.len());
        if verify(tx, input, flags, self, scratch).is_err() {
            self.truncate(checks, groups);
            verify(tx, input, flags, &mut Immediate, scratch)?;
        }
        Ok(Recorded { checks: checks..self.checks.len(), groups: groups..self.groups.len() })
    }

    /// As [`Deferred::run`], but the hashes of a template's input are put off, too: [`Deferred::hash`] makes them.
    fn run_unhashed(
        &mut self,
        tx: &Precomputed<'_>,
        input: usize,
        flags: Flags,
        scratch: &mut Scratch,
    ) -> Result<Recorded, ScriptError> {
        let (place, groups) = (self.checks.len(), self.groups.len());
        let Some(check) = templates::later(tx, input, flags, &mut self.ahead, place) else {
            return self.run(tx, input, flags, scratch);
        };
        self.checks.push(check);
        Ok(Recorded { checks: place..place + 1, groups: groups..groups })
    }

    /// Makes the hashes that were put off. Returns the places of checks that hold for nothing, whatever the batch says,
    /// because a key or script has another hash than it must have.
    fn hash(&mut self) -> Vec<usize> {
        let wrong = self.ahead.settle(&mut self.checks);
        self.ahead.clear();
        wrong
    }

    /// Whether all that an input recorded holds, by the batch's results for [`Deferred::checks`].
    ///
    /// # Panics
    ///
    /// When there are fewer results than checks.
    pub fn hold(&self, recorded: &Recorded, results: &[bool]) -> bool {
        let mut next = recorded.checks.start;
        for group in &self.groups[recorded.groups.clone()] {
            if !results[next..group.first].iter().all(|&holds| holds) || !group.holds(results) {
                return false;
            }
            next = group.first + group.checks();
        }
        results[next..recorded.checks.end].iter().all(|&holds| holds)
    }
}

impl Checker for Deferred {
    #[inline]
    fn holds(&mut self, check: Check) -> bool {
        self.checks.push(check);
        true
    }

    fn takes_pairs(&self) -> bool {
        self.pairs
    }

    fn multisig(&mut self, pairs: Pairs<'_>) -> Option<bool> {
        let group = Group { first: self.checks.len(), signatures: pairs.signatures, keys: pairs.keys };
        for signature in 0..group.signatures {
            for key in signature..signature + group.span() {
                let Some(check) = (pairs.pair)(signature, key) else {
                    self.checks.truncate(group.first);
                    return None;
                };
                self.checks.push(check);
            }
        }
        self.groups.push(group);
        Some(true)
    }
}

/// At this number of checks [`verify_all`] gives them to a batch: enough to fill it, and a bound on memory
/// where scripts ask for many pairs.
const CHECKS_MAX: usize = 4096;

/// An input that waits for the batch.
struct Waiting<'t> {
    place: usize,
    tx: &'t Precomputed<'t>,
    input: usize,
    recorded: Recorded,
}

/// Verifies inputs in order, their checks in batches. `deferred` is cleared first and lends its memory.
///
/// # Errors
///
/// The place in `inputs` of the first bad one, and its error.
pub fn verify_all<'t>(
    inputs: impl IntoIterator<Item = (&'t Precomputed<'t>, usize)>,
    flags: Flags,
    batch: &dyn Batch,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
) -> Result<(), (usize, ScriptError)> {
    deferred.clear();
    let run = if batch.takes_hashes() { Deferred::run_unhashed } else { Deferred::run };
    let mut waiting = Vec::new();
    for (place, (tx, input)) in inputs.into_iter().enumerate() {
        match run(deferred, tx, input, flags, scratch) {
            Ok(recorded) => waiting.push(Waiting { place, tx, input, recorded }),
            Err(why) => {
                settle(&waiting, flags, batch, deferred, scratch)?; // An earlier one may still prove bad.
                return Err((place, why));
            }
        }
        if deferred.checks.len() >= CHECKS_MAX {
            settle(&waiting, flags, batch, deferred, scratch)?;
            waiting.clear();
            deferred.clear();
        }
    }
    settle(&waiting, flags, batch, deferred, scratch)
}

/// Decides all that waits, in order; what the batch does not vouch for runs again with checks on the spot.
fn settle(
    waiting: &[Waiting<'_>],
    flags: Flags,
    batch: &dyn Batch,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
) -> Result<(), (usize, ScriptError)> {
    let wrong = deferred.hash();
    let mut results = deferred.decide(batch);
    wrong.into_iter().for_each(|place| results[place] = false);
    for Waiting { place, tx, input, recorded } in waiting {
        if !deferred.hold(recorded, &results) {
            verify(tx, *input, flags, &mut Immediate, scratch).map_err(|why| (*place, why))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CHECKMULTISIG's own loop, over a table of which pairs hold.
    fn plain(signatures: usize, keys: usize, holds: &dyn Fn(usize, usize) -> bool) -> bool {
        let (mut signature, mut key) = (0, 0);
        while signature < signatures {
            if holds(signature, key) {
                signature += 1;
            }
            key += 1;
            if signatures - signature > keys - key {
                return false;
            }
        }
        true
    }

    #[test]
    fn multisig_groups_decide_as_the_loop() {
        for (signatures, keys) in [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3), (2, 4), (3, 4)] {
            for table in 0..1u32 << (signatures * keys) {
                let holds = |i: usize, j: usize| table >> (i * keys + j) & 1 == 1;
                let group = Group { first: 0, signatures, keys };
                let results: Vec<bool> =
                    (0..signatures).flat_map(|i| (i..i + group.span()).map(move |j| holds(i, j))).collect();
                assert_eq!(results.len(), group.checks());
                let want = plain(signatures, keys, &holds);
                assert_eq!(group.holds(&results), want, "{signatures} of {keys}, {table:b}");
            }
        }
    }

    /// Pairs by a table: which hold, and how often each was asked for.
    struct Table {
        holds: u32,
        keys: usize,
        asked: std::sync::Mutex<Vec<usize>>,
    }

    impl Batch for Table {
        fn verify(&self, checks: &[Check]) -> Vec<bool> {
            let mut asked = self.asked.lock().unwrap();
            let mut ask = |check: &Check| {
                let Check::Tweak { internal, .. } = check else { unreachable!("only such are made") };
                let at = usize::from(internal[0]) * self.keys + usize::from(internal[1]);
                asked.push(at);
                self.holds >> at & 1 == 1
            };
            checks.iter().map(&mut ask).collect()
        }
    }

    fn pair(signature: usize, key: usize) -> Check {
        let mut internal = [0; 32];
        (internal[0], internal[1]) = (signature as u8, key as u8);
        Check::Tweak { output: [0; 32], odd: false, internal, tweak: [0; 32] }
    }

    /// What is decided step by step is what the loop decides, but where a signature fits several keys: there it may be left
    /// open. No pair is asked for twice, and of 2 of 3 signatures that hold three pairs at most.
    #[test]
    fn pairs_are_asked_for_as_they_count() {
        for (signatures, keys) in [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (2, 4), (3, 4), (3, 5)] {
            for table in 0..1u32 << (signatures * keys) {
                let holds = |i: usize, j: usize| table >> (i * keys + j) & 1 == 1;
                let mut deferred = Deferred::with_pairs();
                let recorded = deferred.multisig(Pairs { signatures, keys, pair: &mut |i, j| Some(pair(i, j)) });
                assert_eq!(recorded, Some(true));
                let batch = Table { holds: table, keys, asked: std::sync::Mutex::default() };
                let results = deferred.decide(&batch);
                let have = deferred.hold(&Recorded { checks: 0..deferred.checks.len(), groups: 0..1 }, &results);
                let want = plain(signatures, keys, &holds);
                let name = format!("{signatures} of {keys}, {table:b}");
                assert!(want || !have, "{name}");
                let single = (0..signatures).all(|i| (0..keys).filter(|&j| holds(i, j)).count() <= 1);
                assert!(have == want || !single, "{name}");
                let mut asked = batch.asked.into_inner().unwrap();
                let count = asked.len();
                asked.sort_unstable();
                asked.dedup();
                assert_eq!(asked.len(), count, "{name}: none twice");
                assert!(count <= 3 || (signatures, keys) != (2, 3) || !want, "{name}: {count}");
            }
        }
    }
}
