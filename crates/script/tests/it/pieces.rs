//! Many inputs in one piece: the verdict is that of each on its own, and the first bad input is told, whatever the batch
//! can tell and wherever its checks end.

use crate::wallet::{Kind, Spending, spending};
use primitives::Tables;
use script::lanes::Compared;
use script::{
    Batch, Check, Deferred, Flags, Immediate, OneByOne, Precomputed, Scratch, ScriptError, lanes, verify, verify_all,
};
use testkit::Rng;

/// A batch that leaves one of every few checks undecided.
struct Timid(usize);

impl Batch for Timid {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        checks.iter().enumerate().map(|(at, check)| at % self.0 != 0 && check.holds()).collect()
    }
}

/// An input of a transaction.
type Input<'t> = (&'t Precomputed<'t>, usize);

/// What each says on its own, in order, up to the first that is bad.
fn one_after_another(inputs: &[Input<'_>]) -> Result<(), (usize, ScriptError)> {
    let mut scratch = Scratch::new();
    let verdicts = inputs.iter().map(|&(tx, input)| verify(tx, input, Flags::CONSENSUS, &mut Immediate, &mut scratch));
    verdicts.enumerate().try_for_each(|(place, verdict)| verdict.map_err(|why| (place, why)))
}

/// Whatever records and whatever decides.
fn together(inputs: &[Input<'_>]) -> Result<(), (usize, ScriptError)> {
    let want = one_after_another(inputs);
    let batches: [(&str, &dyn Batch); 5] = [
        ("one by one", &OneByOne),
        ("best", &lanes::best(kernels::Kernels::AUTO)),
        ("lanes", &Compared),
        ("none told", &Timid(1)),
        ("a third not told", &Timid(3)),
    ];
    for (name, batch) in batches {
        for mut deferred in [Deferred::new(), Deferred::with_pairs()] {
            // The memory that is lent is not empty.
            let _ = deferred.run(inputs[0].0, inputs[0].1, Flags::CONSENSUS, &mut Scratch::new());
            let all = inputs.iter().copied();
            let got = verify_all(all, Flags::CONSENSUS, batch, &mut deferred, &mut Scratch::new());
            assert_eq!(got, want, "{name}, {} inputs, {deferred:?}", inputs.len());
        }
    }
    want
}

/// One transaction as it should be; one of which every signature fails; one of which no input fits its coin.
fn with_transactions(kinds: &[Kind], test: impl FnOnce([&Precomputed<'_>; 3])) {
    let good = spending(kinds, 3, 1, 70);
    let with = |bytes: Vec<u8>, coins| Spending { bytes, coins };
    let mut unsigned = with(good.bytes.clone(), good.coins.clone());
    *unsigned.bytes.last_mut().unwrap() ^= 1; // Of the lock time.
    let mut strange = with(good.bytes.clone(), good.coins.clone());
    strange.coins.iter_mut().for_each(|(_, script)| script[10] ^= 1);
    let spendings = [good, unsigned, strange];
    let mut tables = [(); 3].map(|()| Tables::new());
    let spent = spendings.each_ref().map(Spending::spent);
    let mut txs =
        tables.iter_mut().zip(&spendings).zip(&spent).map(|((tables, spending), spent)| {
            Precomputed::new(tables.parse_transaction(&spending.bytes).unwrap(), spent)
        });
    let txs: [Precomputed<'_>; 3] = std::array::from_fn(|_| txs.next().unwrap());
    test(txs.each_ref());
}

#[test]
fn piece_agrees_with_its_inputs() {
    let kinds: Vec<Kind> = Kind::ALL.repeat(2);
    with_transactions(&kinds, |[good, unsigned, strange]| {
        let mut rng = Rng::new(31);
        let (mut accepted, mut refused) = (0, 0);
        for round in 0..if testkit::is_slow() { 300 } else { 16 } {
            let count = [1, 2, 3, 15, 16, 17, 33, 40][round % 8];
            let mut inputs: Vec<Input<'_>> = (0..count).map(|_| (good, rng.u64() as usize % kinds.len())).collect();
            for _ in 0..round / 2 % 3 {
                let place = rng.u64() as usize % count;
                inputs[place].0 = [unsigned, strange][rng.u64() as usize % 2];
            }
            match together(&inputs) {
                Ok(()) => accepted += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
    });
}

/// Checks are decided as soon as there are 16,384: a bad input is told on either side of that, too.
#[test]
fn piece_larger_than_a_batch_agrees() {
    let Some(lanes) = script::Lanes::of(kernels::Kernels::AUTO) else { return };
    // Two of three keys: four pairs for each input.
    with_transactions(&[Kind::WitnessMultisig, Kind::Key], |[good, unsigned, strange]| {
        let full = 16_384 / 4;
        let count = full + 40;
        for place in [0, full - 2, full - 1, full, full + 1, count - 1] {
            for bad in [unsigned, strange] {
                let mut inputs: Vec<Input<'_>> = (0..count).map(|at| (good, usize::from(at % 50 == 49))).collect();
                inputs[place].0 = bad;
                let mut deferred = Deferred::with_pairs();
                let all = inputs.iter().copied();
                let got = verify_all(all, Flags::CONSENSUS, &lanes, &mut deferred, &mut Scratch::new());
                let (tx, input) = inputs[place];
                let why = verify(tx, input, Flags::CONSENSUS, &mut Immediate, &mut Scratch::new()).unwrap_err();
                assert_eq!(got, Err((place, why)), "place {place}");
            }
        }
        let inputs = vec![(good, 0); count];
        let mut deferred = Deferred::with_pairs();
        assert_eq!(verify_all(inputs, Flags::CONSENSUS, &lanes, &mut deferred, &mut Scratch::new()), Ok(()));
        assert!(deferred.checks().len() < 16_384, "the first ones were decided on the way");
    });
}
