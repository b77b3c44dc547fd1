//! Signature checks put off: scripts run on the assumption that every check holds, and a batch decides.
//!
//! A script is good when it succeeded under that assumption and all its recorded checks hold. In every other case it
//! runs again with checks on the spot, and that run is the verdict and the error.
//!
//! [`verify_all`] does this for a list of inputs; with a batch that takes them it puts off the hashes of the commonest
//! inputs, too. An engine that fills batches across blocks does it in steps:
//! [`Deferred::run`] each input, keep the [`Recorded`] of those that are not settled, let a [`Batch`] decide
//! [`Deferred::checks`], ask [`Deferred::hold`] for each, and run those that do not hold again with [`Immediate`].

use crate::check::{Batch, Check, Checker, Immediate, Pairs};
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::sighash::{Ahead, Precomputed};
use crate::templates;
use crate::verify::{Scratch, verify};
use kernels::Kernels;
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
            if results[self.place(signature, key)] {
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

    /// Records checks in the form that suits `batch`.
    pub fn for_batch(batch: &dyn Batch) -> Deferred {
        Deferred { pairs: batch.takes_pairs(), ..Deferred::default() }
    }

    /// From now on records checks in the form that suits `batch`.
    pub fn suit(&mut self, batch: &dyn Batch) {
        self.pairs = batch.takes_pairs();
    }

    /// Everything recorded so far, for a [`Batch`].
    pub fn checks(&self) -> &[Check] {
        &self.checks
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
        let checks = self.checks.len();
        let groups = self.groups.len();
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
        let place = self.checks.len();
        let groups = self.groups.len();
        let Some(check) = templates::later(tx, input, flags, &mut self.ahead, place) else {
            return self.run(tx, input, flags, scratch);
        };
        self.checks.push(check);
        Ok(Recorded { checks: place..place + 1, groups: groups..groups })
    }

    /// Makes the hashes that were put off. Returns the places of checks that hold for nothing, whatever the batch says,
    /// because a key or script has another hash than it must have.
    fn hash(&mut self, kernels: Kernels) -> Vec<usize> {
        let wrong = self.ahead.settle(kernels, &mut self.checks);
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
        // Those of a signature side by side: lanes prove them together.
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

/// At this number of checks [`verify_all`] gives them to a batch: more than most blocks have, and a bound on memory where
/// scripts ask for many pairs.
const CHECKS_MAX: usize = 16384;
/// And at this number of bytes of messages that wait to be hashed.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

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
        if deferred.checks.len() >= CHECKS_MAX || deferred.ahead.bytes() >= MESSAGE_BYTES_MAX {
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
    let wrong = deferred.hash(batch.kernels());
    let mut results = batch.verify(&deferred.checks);
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

    /// What a batch could not tell does no harm: where a part of the pairs that hold is enough, the loop says yes with all.
    #[test]
    fn pairs_that_were_not_told_make_no_group_hold() {
        for (signatures, keys) in [(1, 3), (2, 2), (2, 3), (3, 3), (2, 4)] {
            for table in 0..1u32 << (signatures * keys) {
                for untold in 0..1u32 << (signatures * keys) {
                    let told = table & !untold;
                    let holds = |table: u32| move |i: usize, j: usize| table >> (i * keys + j) & 1 == 1;
                    let group = Group { first: 0, signatures, keys };
                    let results: Vec<bool> =
                        (0..signatures).flat_map(|i| (i..i + group.span()).map(move |j| holds(told)(i, j))).collect();
                    let is_good = plain(signatures, keys, &holds(table));
                    assert!(is_good || !group.holds(&results), "{signatures} of {keys}, {table:b}, {told:b}");
                }
            }
        }
    }
}
