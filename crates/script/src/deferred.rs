//! Deferred signature checks: scripts run on the assumption that every check holds, and a batch decides.
//!
//! A script is valid if it succeeded under that assumption and all its recorded checks hold. Otherwise it runs again
//! with immediate checks, and that run gives the verdict and the error.
//!
//! [`verify_all`] does this for a list of inputs; if the batch supports it, the hashes of the commonest inputs, of large
//! transactions and of taproot trees are deferred too. A long message is hashed once, even if its input runs again. An
//! engine that fills batches across blocks does it in steps: [`Deferred::run`] each input, keep the [`Recorded`] of those
//! that are not settled, let a [`Batch`] decide [`Deferred::checks`], call [`Deferred::hold`] for each, and run those
//! that do not hold again with [`Immediate`].

use crate::check::{Batch, Check, Checker, Immediate, Pairs};
use crate::commitment::{Commitment, Trees};
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::lanes::Best;
use crate::sighash::{Ahead, LATER, Longs, Precomputed};
use crate::templates::{self, Later};
use crate::verify::{Scratch, verify, verify_by_interpreter};
use kernels::Kernels;
use std::ops::Range;

/// A checker that records checks without deciding them.
#[derive(Debug, Default)]
pub struct Deferred {
    checks: Vec<Check>,
    groups: Vec<Group>,
    pairs: bool,
    ahead: Ahead,
    longs: Longs,
    /// Whether long messages are kept: only for [`verify_all`], which settles them.
    keeps_longs: bool,
    trees: Trees,
    /// Whether paths of taproot trees are kept: the same, if the batch takes hashes.
    keeps_trees: bool,
}

/// The pairs of one CHECKMULTISIG: for each signature, in order, the keys that it may match, in order.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: usize,
    signatures: usize,
    keys: usize,
}

impl Group {
    /// Number of keys that one signature may match: enough keys must be left for the others.
    fn span(self) -> usize {
        self.keys - self.signatures + 1
    }

    fn checks(self) -> usize {
        self.signatures * self.span()
    }

    /// The position of a pair's check.
    fn place(self, signature: usize, key: usize) -> usize {
        self.first + signature * self.span() + key - signature
    }

    /// Goes through keys and signatures as CHECKMULTISIG does.
    ///
    /// If it accepts, it would also accept with additional valid pairs (matching the first possible key never deprives
    /// a later signature of its key). So pairs that a batch could not decide do no harm.
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

/// The recorded checks of one input, by position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    checks: Range<usize>,
    groups: Range<usize>,
    /// The script failed on the assumption that they hold: it must run again.
    has_failed: bool,
}

impl Recorded {
    /// Whether no check is left for the batch: the input is valid.
    pub fn is_settled(&self) -> bool {
        self.checks.is_empty() && !self.has_failed
    }

    /// The position of its check, if it has one that stands for itself.
    fn only_check(&self) -> Option<usize> {
        (self.checks.len() == 1 && self.groups.is_empty()).then_some(self.checks.start)
    }
}

impl Deferred {
    /// Records single checks; CHECKMULTISIG is checked immediately.
    pub fn new() -> Deferred {
        Deferred::default()
    }

    /// Records the pairs of CHECKMULTISIG too. That pays if a batch is much faster than single checks, so that the
    /// additional pairs, which would not have been tried, do not matter.
    pub fn with_pairs() -> Deferred {
        Deferred { pairs: true, ..Deferred::default() }
    }

    /// Records checks in the form for `batch`.
    pub fn for_batch(batch: &dyn Batch) -> Deferred {
        Deferred { pairs: batch.takes_pairs(), ..Deferred::default() }
    }

    /// From now on records checks in the form for `batch`.
    pub fn suit(&mut self, batch: &dyn Batch) {
        self.pairs = batch.takes_pairs();
    }

    /// All checks recorded so far, for a [`Batch`].
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Clears the checks, keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0, 0);
        self.ahead.clear();
        (self.keeps_longs, self.keeps_trees) = (false, false);
    }

    /// Whether the waiting work has reached the limits of memory or time.
    fn is_full(&self, hashed_bytes_max: usize) -> bool {
        self.checks.len() >= CHECKS_MAX
            || self.ahead.bytes() + self.longs.bytes() + self.trees.bytes() >= MESSAGE_BYTES_MAX
            || self.longs.waiting_bytes() >= hashed_bytes_max
    }

    fn truncate(&mut self, checks: usize, groups: usize) {
        self.checks.truncate(checks);
        self.groups.truncate(groups);
        self.longs.removed(checks);
        self.trees.removed(checks);
    }

    /// Runs an input and records its checks. If it fails on the assumption that they hold, it runs again at once with
    /// immediate checks, and its records are removed; within [`verify_all`], if it has long messages, it runs again when
    /// they are hashed.
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
        let mut has_failed = verify(tx, input, flags, self, scratch).is_err();
        if has_failed && !(self.keeps_longs && self.longs.has_some()) {
            self.truncate(checks, groups);
            verify(tx, input, flags, &mut Immediate, scratch)?;
            has_failed = false;
        }
        Ok(Recorded { checks: checks..self.checks.len(), groups: groups..self.groups.len(), has_failed })
    }

    /// [`Deferred::run`] for which the hashes of a template's input are deferred too: [`Deferred::hash`] computes them.
    fn run_unhashed(
        &mut self,
        tx: &Precomputed<'_>,
        input: usize,
        flags: Flags,
        scratch: &mut Scratch,
    ) -> Result<Recorded, ScriptError> {
        let place = self.checks.len();
        let groups = self.groups.len();
        let hashes = Later { ahead: &mut self.ahead, longs: &mut self.longs };
        let Some(check) = templates::later(tx, input, flags, hashes, place) else {
            return self.run(tx, input, flags, scratch);
        };
        self.record(check);
        Ok(Recorded { checks: place..place + 1, groups: groups..groups, has_failed: false })
    }

    #[inline]
    fn record(&mut self, check: Check) {
        self.longs.recorded(self.checks.len());
        self.checks.push(check);
    }

    /// Computes the deferred hashes of these inputs. Returns the positions of checks that fail whatever the batch's
    /// result, because the hash of a key or script is wrong.
    fn hash(&mut self, kernels: Kernels, waiting: &[Waiting<'_>]) -> Vec<usize> {
        self.longs.settle(kernels, |owner| waiting[owner].tx);
        let checks = &mut self.checks;
        self.longs.settled().for_each(|(check, hash)| checks[check].set_hash(hash));
        self.trees.settle(kernels, |check, tweak| checks[check].set_hash(tweak));
        let wrong = self.ahead.settle(kernels, |check, hash| checks[check].set_hash(hash));
        self.ahead.clear();
        wrong
    }

    /// Whether all recorded checks of an input hold, given the batch's results for [`Deferred::checks`].
    ///
    /// # Panics
    ///
    /// If there are fewer results than checks.
    pub fn hold(&self, recorded: &Recorded, results: &[bool]) -> bool {
        if recorded.has_failed {
            return false;
        }
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
        self.record(check);
        true
    }

    fn commits(&mut self, commitment: &Commitment<'_>) -> bool {
        let tweak = if self.keeps_trees {
            self.trees.put(self.checks.len(), commitment);
            LATER
        } else {
            commitment.tweak()
        };
        self.holds(Check::of_commitment(commitment, tweak))
    }

    #[inline]
    fn longs(&mut self) -> Option<&mut Longs> {
        self.keeps_longs.then_some(&mut self.longs)
    }

    fn takes_pairs(&self) -> bool {
        self.pairs
    }

    fn multisig(&mut self, pairs: Pairs<'_>) -> Option<bool> {
        let group = Group { first: self.checks.len(), signatures: pairs.signatures, keys: pairs.keys };
        // The pairs of one signature are adjacent: lanes prove them together.
        for signature in 0..group.signatures {
            for key in signature..signature + group.span() {
                let Some(check) = (pairs.pair)(signature, key, self.longs()) else {
                    self.truncate(group.first, self.groups.len());
                    return None;
                };
                self.record(check);
            }
        }
        self.groups.push(group);
        Some(true)
    }
}

/// Decides immediately, like [`Immediate`], for an input that runs again: its long messages have been hashed already.
struct Again<'l>(&'l mut Longs);

impl Checker for Again<'_> {
    fn holds(&mut self, check: Check) -> bool {
        check.holds()
    }

    fn longs(&mut self) -> Option<&mut Longs> {
        Some(self.0)
    }
}

/// Number of checks at which [`verify_all`] runs a batch: more than most blocks have, and a memory limit for scripts
/// with many pairs.
const CHECKS_MAX: usize = 16384;
/// The same limit for the bytes of messages that wait to be hashed.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The same limit for the bytes that are hashed for long messages, which share most of them: some 30 ms.
const HASHED_BYTES_MAX: usize = 64 << 20;
/// The same where lanes hash shared blocks in less time, if enough messages have them at the same of the 64 places in a
/// block: 200 to 350 ms.
const HASHED_BYTES_MAX_SHARED: usize = 2 << 30;

/// An input that waits for the batch.
struct Waiting<'t> {
    place: usize,
    tx: &'t Precomputed<'t>,
    input: usize,
    recorded: Recorded,
}

/// Hints about inputs, by their position: whether the y of R is odd, of the only signature of an input. A wrong one costs
/// time, and no verdict.
pub type Hints<'h> = &'h dyn Fn(usize) -> Option<bool>;

/// Takes hints that are found: the position of a valid input, and whether the y of R is odd of its only ECDSA signature. If
/// the batch does not find that, it is the hint that was given, or else `false`; it is `false` for another number of them.
pub type Found<'f> = &'f dyn Fn(usize, bool);

/// Returns whether to stop. Called between two batches, and before each input that runs again.
pub type Stop<'s> = &'s dyn Fn() -> bool;

/// The end of a verification without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Ended {
    /// All of them: they are valid.
    Whole,
    /// [`VerifyOptions::stop`] returned true: some of the inputs were not verified.
    Stopped,
}

/// How inputs are run and decided.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'b> {
    /// Flags of the block.
    pub flags: Flags,
    /// Decides the checks.
    pub batch: &'b dyn Batch,
    /// Hints about the inputs.
    pub hints: Hints<'b>,
    /// Takes the hints that are found, if they are wanted: then each signature takes a little longer.
    pub found: Option<Found<'b>>,
    /// Whether to stop.
    pub stop: Stop<'b>,
}

/// Verifies inputs in order, with their checks in batches. `deferred` is cleared first; its memory is reused.
///
/// # Errors
///
/// The position in `inputs` of the first invalid one, and its error.
pub fn verify_all<'t>(
    inputs: impl IntoIterator<Item = (&'t Precomputed<'t>, usize)>,
    flags: Flags,
    batch: &dyn Batch,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
) -> Result<(), (usize, ScriptError)> {
    let options = VerifyOptions { flags, batch, hints: &|_| None, found: None, stop: &|| false };
    match verify_all_with(inputs, options, deferred, scratch)? {
        Ended::Whole => Ok(()),
        Ended::Stopped => unreachable!("it is never asked to stop"),
    }
}

/// [`verify_all`] with hints, which can be stopped.
///
/// # Errors
///
/// The same, whatever the hints are.
pub fn verify_all_with<'t>(
    inputs: impl IntoIterator<Item = (&'t Precomputed<'t>, usize)>,
    options: VerifyOptions<'_>,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
) -> Result<Ended, (usize, ScriptError)> {
    in_batches(inputs, options, deferred, scratch, |waiting, deferred, scratch| {
        settle(waiting, options, deferred, scratch)
    })
}

/// The hints about inputs that are valid, as [`verify_all_with`] takes them: `false` for those that have none.
/// `None` if this processor has no lanes for signatures.
///
/// # Errors
///
/// As [`verify_all`], but only for some of the invalid inputs: signatures are not all decided.
pub fn make_hints<'t>(
    inputs: impl IntoIterator<Item = (&'t Precomputed<'t>, usize)>,
    flags: Flags,
    best: &Best,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
) -> Result<Option<Vec<bool>>, (usize, ScriptError)> {
    let Some(lanes) = best.lanes() else { return Ok(None) };
    let options = VerifyOptions { flags, batch: best, hints: &|_| None, found: None, stop: &|| false };
    let mut hints = Vec::new();
    let made = in_batches(inputs, options, deferred, scratch, |waiting, deferred, _| {
        deferred.hash(best.kernels(), waiting);
        let is_odd = lanes.have_odd(&deferred.checks);
        let of_input = |waiting: &Waiting<'_>| waiting.recorded.only_check().is_some_and(|check| is_odd[check]);
        hints.extend(waiting.iter().map(of_input));
        Ok(Ended::Whole)
    });
    made.map(|_| Some(hints))
}

/// Runs inputs in order, and calls `settle` for as many at a time as memory allows.
fn in_batches<'t>(
    inputs: impl IntoIterator<Item = (&'t Precomputed<'t>, usize)>,
    options: VerifyOptions<'_>,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
    settle: impl FnMut(&[Waiting<'t>], &mut Deferred, &mut Scratch) -> Result<Ended, (usize, ScriptError)>,
) -> Result<Ended, (usize, ScriptError)> {
    deferred.clear();
    deferred.longs.clear(options.batch.takes_hashes());
    (deferred.keeps_longs, deferred.keeps_trees) = (true, options.batch.takes_hashes());
    let verdict = run_waiting(inputs, options, deferred, scratch, settle);
    (deferred.keeps_longs, deferred.keeps_trees) = (false, false);
    verdict
}

fn run_waiting<'t>(
    inputs: impl IntoIterator<Item = (&'t Precomputed<'t>, usize)>,
    options: VerifyOptions<'_>,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
    mut settle: impl FnMut(&[Waiting<'t>], &mut Deferred, &mut Scratch) -> Result<Ended, (usize, ScriptError)>,
) -> Result<Ended, (usize, ScriptError)> {
    let run = if options.batch.takes_hashes() { Deferred::run_unhashed } else { Deferred::run };
    let shares = options.batch.kernels().shares_blocks();
    let hashed_bytes_max = if shares { HASHED_BYTES_MAX_SHARED } else { HASHED_BYTES_MAX };
    let mut waiting = Vec::new();
    for (place, (tx, input)) in inputs.into_iter().enumerate() {
        deferred.longs.begin(waiting.len());
        match run(deferred, tx, input, options.flags, scratch) {
            Ok(recorded) => {
                if let Some(check) = recorded.only_check() {
                    deferred.checks[check].set_hint((options.hints)(place));
                }
                waiting.push(Waiting { place, tx, input, recorded });
            }
            Err(why) => {
                // An earlier input may still prove invalid.
                return match settle(&waiting, deferred, scratch)? {
                    Ended::Whole => Err((place, why)),
                    Ended::Stopped => Ok(Ended::Stopped),
                };
            }
        }
        if deferred.is_full(hashed_bytes_max) {
            if settle(&waiting, deferred, scratch)? == Ended::Stopped || (options.stop)() {
                return Ok(Ended::Stopped);
            }
            waiting.clear();
            deferred.truncate(0, 0);
            deferred.longs.clear(options.batch.takes_hashes());
        }
    }
    settle(&waiting, deferred, scratch)
}

/// Decides all waiting inputs, in order; inputs that the batch does not prove run again with immediate checks.
fn settle(
    waiting: &[Waiting<'_>],
    VerifyOptions { flags, batch, stop, found, .. }: VerifyOptions<'_>,
    deferred: &mut Deferred,
    scratch: &mut Scratch,
) -> Result<Ended, (usize, ScriptError)> {
    let wrong = deferred.hash(batch.kernels(), waiting);
    let mut odd = vec![false; if found.is_some() { deferred.checks.len() } else { 0 }];
    let mut results = match found {
        Some(_) => batch.verify_and_find(&deferred.checks, &mut odd),
        None => batch.verify(&deferred.checks),
    };
    wrong.into_iter().for_each(|place| results[place] = false);
    for (owner, Waiting { place, tx, input, recorded }) in waiting.iter().enumerate() {
        if !deferred.hold(recorded, &results) {
            if stop() {
                return Ok(Ended::Stopped);
            }
            deferred.longs.begin_again(owner);
            let mut checker = Again(&mut deferred.longs);
            verify_by_interpreter(tx, *input, flags, &mut checker, scratch).map_err(|why| (*place, why))?;
        }
        if let Some(found) = found {
            found(*place, recorded.only_check().is_some_and(|check| odd[check]));
        }
    }
    Ok(Ended::Whole)
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

    /// What a batch could not tell does no harm: where a part of the pairs that hold is enough, the loop says yes with
    /// all.
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
