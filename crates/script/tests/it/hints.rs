//! Hints about signatures: made from valid inputs, right ones used by one sum, wrong ones of no matter to the verdict.

use crate::wallet::{Kind, Spending, spending};
use primitives::Tables;
use script::{Batch, Check, Deferred, Flags, Lanes, Precomputed, Scratch, ScriptError, lanes};
use script::{Ended, VerifyOptions, make_hints, verify_all, verify_all_with};
use std::sync::Mutex;
use testkit::Rng;

/// Keeps the checks that it is asked for, and decides them by the best lanes.
struct Seen {
    checks: Mutex<Vec<Check>>,
}

impl Batch for Seen {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        self.checks.lock().unwrap().extend(checks);
        lanes::best(kernels::Kernels::AUTO).verify(checks)
    }

    fn takes_pairs(&self) -> bool {
        true
    }

    fn takes_hashes(&self) -> bool {
        true
    }
}

type Verdict = Result<(), (usize, ScriptError)>;

/// Calls `with` with all inputs of a transaction.
fn with_inputs<T>(spending: &Spending, with: impl FnOnce(Vec<(&Precomputed<'_>, usize)>) -> T) -> T {
    let coins = spending.spent();
    let mut tables = Tables::new();
    let tx = Precomputed::new(tables.parse_transaction(&spending.bytes).unwrap(), &coins);
    with((0..coins.len()).map(|input| (&tx, input)).collect())
}

/// `None` on a processor without lanes.
fn made(spending: &Spending) -> Option<Vec<bool>> {
    let best = lanes::best(kernels::Kernels::AUTO);
    let made = with_inputs(spending, |inputs| {
        make_hints(inputs, Flags::CONSENSUS, &best, &mut Deferred::for_batch(&best), &mut Scratch::new())
    });
    made.expect("the inputs are valid")
}

/// The verdict with these hints, and the checks.
fn hinted(spending: &Spending, hints: &[bool]) -> (Verdict, Vec<Check>) {
    let seen = Seen { checks: Mutex::default() };
    let verdict = with_inputs(spending, |inputs| {
        let hint = |place: usize| hints.get(place).copied();
        let options =
            VerifyOptions { flags: Flags::CONSENSUS, batch: &seen, hints: &hint, found: None, stop: &|| false };
        verify_all_with(inputs, options, &mut Deferred::with_pairs(), &mut Scratch::new())
    });
    (verdict.map(|ended| assert_eq!(ended, Ended::Whole)), seen.checks.into_inner().unwrap())
}

/// As many inputs as a sum wants, of every kind.
fn many() -> Spending {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().cycle().take(300).collect();
    spending(&kinds, 2, 1, 77)
}

#[test]
fn right_hints_let_one_sum_prove_ecdsa() {
    let spending = many();
    let Some(hints) = made(&spending) else { return println!("skipped: this processor has no lanes") };
    assert_eq!(hints.len(), 300, "one for each input");
    let (verdict, checks) = hinted(&spending, &hints);
    assert_eq!(verdict, Ok(()));
    let alone: Vec<Check> =
        checks.into_iter().filter(|check| matches!(check, Check::Ecdsa { odd: Some(_), .. })).collect();
    // Of eleven kinds four have one ECDSA signature; the pairs of CHECKMULTISIG get no hint.
    assert!(alone.len() >= 80, "{} signatures have a hint", alone.len());
    let is_odd = |check: &&Check| matches!(check, Check::Ecdsa { odd: Some(true), .. });
    let odd = alone.iter().filter(is_odd).count();
    assert!(odd > 10 && odd < alone.len() - 10, "{odd} of {} are odd", alone.len());
    for lanes in Lanes::available() {
        assert!(lanes.hold_by_sum(&alone), "{}", lanes.name());
        for wrong in (0..alone.len()).step_by(9) {
            let mut changed = alone.clone();
            let Check::Ecdsa { odd: Some(odd), .. } = &mut changed[wrong] else { unreachable!("filtered above") };
            *odd = !*odd;
            assert!(!lanes.hold_by_sum(&changed), "{}: hint {wrong} is wrong", lanes.name());
            assert_eq!(lanes.prove(&changed), vec![true; changed.len()], "{}: hint {wrong}", lanes.name());
        }
    }
}

#[test]
fn wrong_hints_change_no_verdict() {
    let mut rng = Rng::new(5);
    let good = many();
    for round in 0..if testkit::is_slow() { 200 } else { 12 } {
        let mut spending = Spending { coins: good.coins.clone(), bytes: good.bytes.clone() };
        // In some rounds another amount: the signatures after segwit are false.
        if round % 3 == 2 {
            let at = rng.below(spending.coins.len());
            spending.coins[at].0 ^= 1;
        }
        let want = with_inputs(&spending, |inputs| {
            verify_all(inputs, Flags::CONSENSUS, &script::OneByOne, &mut Deferred::new(), &mut Scratch::new())
        });
        let hints: Vec<bool> = (0..[300, 40, 500][round % 3]).map(|_| rng.below(2) == 1).collect();
        assert_eq!(hinted(&spending, &hints).0, want, "round {round}");
    }
}

/// What a verification finds is what `make_hints` makes, whatever hints it had itself, and it gives the same verdict.
#[test]
fn a_verification_finds_the_hints() {
    let good = many();
    let Some(hints) = made(&good) else { return println!("skipped: this processor has no lanes") };
    let wrong: Vec<bool> = hints.iter().map(|odd| !odd).collect();
    for lanes in Lanes::available() {
        for (name, given) in [("none", &[][..]), ("the right ones", &hints), ("wrong ones", &wrong)] {
            let found: Mutex<Vec<Option<bool>>> = Mutex::new(vec![None; hints.len()]);
            let verdict = |spending: &Spending| {
                let put = |place: usize, odd: bool| found.lock().unwrap()[place] = Some(odd);
                with_inputs(spending, |inputs| {
                    let hints = |place: usize| given.get(place).copied();
                    let flags = Flags::CONSENSUS;
                    let options =
                        VerifyOptions { flags, batch: &lanes, hints: &hints, found: Some(&put), stop: &|| false };
                    verify_all_with(inputs, options, &mut Deferred::with_pairs(), &mut Scratch::new())
                })
            };
            assert_eq!(verdict(&good), Ok(Ended::Whole));
            let all: Vec<bool> = found.lock().unwrap().iter().map(|odd| odd.expect("one for each input")).collect();
            let differ: Vec<usize> = (0..all.len()).filter(|&at| all[at] != hints[at]).collect();
            assert!(differ.is_empty(), "{}, given {name}: {differ:?} differ", lanes.name());
            let mut bad = Spending { coins: good.coins.clone(), bytes: good.bytes.clone() };
            bad.coins[250].0 ^= 1;
            let want = with_inputs(&bad, |inputs| {
                let (mut deferred, mut scratch) = (Deferred::new(), Scratch::new());
                verify_all(inputs, Flags::CONSENSUS, &script::OneByOne, &mut deferred, &mut scratch)
            });
            assert_eq!(verdict(&bad).map(|_| ()), want, "{}, given {name}", lanes.name());
        }
    }
}
