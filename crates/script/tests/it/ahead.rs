//! Hashes that are put off and made many at a time, beside those made on the spot.

use crate::wallet::{Kind, Spending, spending};
use primitives::Tables;
use script::sighash::{hash_shared, legacy, taproot, witness_v0};
use script::{Batch, Check, Deferred, Flags, OneByOne, Precomputed, Scratch, ScriptError, lanes, verify_all};
use std::sync::Mutex;
use testkit::Rng;

const HASH_TYPES: [u8; 8] = [1, 2, 3, 0x81, 0x82, 0x83, 0, 0x41];

/// Says yes to all, and keeps what it was asked for.
struct Seen {
    hashes: bool,
    checks: Mutex<Vec<Check>>,
}

impl Seen {
    fn new(hashes: bool) -> Seen {
        Seen { hashes, checks: Mutex::default() }
    }
}

impl Batch for Seen {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        self.checks.lock().unwrap().extend(checks);
        vec![true; checks.len()]
    }

    fn takes_hashes(&self) -> bool {
        self.hashes
    }
}

type Verdict = Result<(), (usize, ScriptError)>;

/// The verdict on all inputs of some transactions, in order; `shared`: with what inputs share hashed first.
fn verdict(spendings: &[Spending], batch: &dyn Batch, shared: bool) -> Verdict {
    let coins: Vec<_> = spendings.iter().map(Spending::spent).collect();
    let mut tables: Vec<Tables> = spendings.iter().map(|_| Tables::new()).collect();
    let txs: Vec<Precomputed<'_>> = (spendings.iter().zip(&coins).zip(&mut tables))
        .map(|((spending, coins), tables)| Precomputed::new(tables.parse_transaction(&spending.bytes).unwrap(), coins))
        .collect();
    if shared {
        hash_shared(kernels::Kernels::AUTO, &txs);
    }
    let inputs = txs.iter().flat_map(|tx| (0..tx.spent().len()).map(move |input| (tx, input)));
    verify_all(inputs, Flags::CONSENSUS, batch, &mut Deferred::for_batch(batch), &mut Scratch::new())
}

/// Transactions of one input and of many, of few outputs and of more than a kept message may have.
fn some(hash_type: u8) -> Vec<Spending> {
    let mut kinds: Vec<Vec<Kind>> = Kind::ALL.iter().map(|&kind| vec![kind]).collect();
    kinds.push([Kind::KeyHash; 11].to_vec());
    kinds.push([Kind::KeyHash; 12].to_vec());
    kinds.push(Kind::ALL.to_vec());
    let all = kinds.iter().enumerate();
    all.map(|(at, kinds)| spending(kinds, [1, 2, 31, 12][at % 4], hash_type, 1000 * at)).collect()
}

/// The very same checks, in the same order.
#[test]
fn put_off_hashes_are_those_made_on_the_spot() {
    for hash_type in [1, 2, 0x81, 0x82, 0x41] {
        let spendings = some(hash_type);
        let (plain, later, both) = (Seen::new(false), Seen::new(true), Seen::new(true));
        let want = verdict(&spendings, &plain, false);
        assert_eq!(want.is_ok(), hash_type != 0x41, "taproot has no such hash type");
        assert_eq!(verdict(&spendings, &later, false), want);
        assert_eq!(verdict(&spendings, &both, true), want);
        let plain = plain.checks.into_inner().unwrap();
        assert!(plain.len() > 30 || hash_type == 0x41);
        assert_eq!(later.checks.into_inner().unwrap(), plain, "{hash_type:x}");
        assert_eq!(both.checks.into_inner().unwrap(), plain, "{hash_type:x}, shared hashes first");
    }
}

#[test]
fn shared_hashes_are_those_made_when_wanted() {
    const LONG: &str = "taproot, and a script that is too long to be copied";
    let kinds: Vec<Kind> = Kind::ALL.into_iter().cycle().take(70).collect();
    let several = |kind, count| std::iter::repeat_n(kind, count).collect();
    for (row, kinds) in [
        ("version 0", several(Kind::WitnessKeyHash, 3)),
        ("wrapped", vec![Kind::Key, Kind::WrappedKeyHash]),
        ("taproot", several(Kind::TaprootKey, 2)),
        ("all kinds", Kind::ALL.to_vec()),
        ("taproot is not seen", [several(Kind::KeyHash, 8), vec![Kind::TaprootKey]].concat()),
        ("as many as are gathered", kinds[..64].to_vec()),
        ("too many", kinds),
        (LONG, several(Kind::TaprootKey, 2)),
    ] {
        let spending = spending(&kinds, 3, 1, 5);
        let (mut coins, mut tables) = (spending.spent(), Tables::new());
        if row == LONG {
            coins[0].script = &[0x51; 5000];
        }
        let tx = tables.parse_transaction(&spending.bytes).unwrap();
        let (now, ahead) = (Precomputed::new(tx, &coins), [Precomputed::new(tx, &coins)]);
        hash_shared(kernels::Kernels::AUTO, &ahead);
        let input = kinds.len() - 1;
        for hash_type in HASH_TYPES {
            let hashes = |tx: &Precomputed<'_>| {
                let (code, kind) = (&[0x51, 0x52][..], u32::from(hash_type));
                let taproot = taproot(tx, input, hash_type, None, None);
                (legacy(tx, input, code, kind), witness_v0(tx, input, code, kind), taproot)
            };
            assert_eq!(hashes(&ahead[0]), hashes(&now), "{row}, {hash_type:x}");
        }
    }
}

/// A changed byte in a coin's script, a key, a signature or anywhere else of one among many inputs: the same first error at
/// the same place.
#[test]
fn put_off_hashes_give_the_same_first_error() {
    let mut rng = Rng::new(11);
    let (mut good, mut bad) = (0, 0);
    for round in 0..if testkit::is_slow() { 2000 } else { 120 } {
        let kinds = [
            Kind::KeyHash,
            Kind::WitnessKeyHash,
            Kind::WrappedKeyHash,
            Kind::TaprootKey,
            Kind::WitnessMultisig,
            Kind::TaprootScript,
        ];
        let kinds: Vec<Kind> = (0..6).map(|_| kinds[rng.below(kinds.len())]).collect();
        let mut spendings = [spending(&kinds[..2], 2, 1, round), spending(&kinds[2..], 1, 1, round + 100)];
        for _ in 0..1 + rng.below(2) {
            let spending = &mut spendings[rng.below(2)];
            let at = rng.below(spending.coins.len());
            let script = &mut spending.coins[at].1;
            match rng.below(3) {
                0 => {
                    let at = rng.below(script.len());
                    script[at] ^= 1 << rng.below(8);
                }
                // Not in the counts: the transaction stays one.
                _ => {
                    let mut changed = spending.bytes.clone();
                    let at = rng.below(changed.len());
                    changed[at] ^= 1 << rng.below(8);
                    let same = |tx: primitives::Transaction<'_>| tx.input_count() == spending.coins.len();
                    if Tables::new().parse_transaction(&changed).is_ok_and(same) {
                        spending.bytes = changed;
                    }
                }
            }
        }
        let want = verdict(&spendings, &OneByOne, false);
        for shared in [false, true] {
            assert_eq!(verdict(&spendings, &lanes::Compared, shared), want, "round {round}");
        }
        *(if want.is_ok() { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 0 && bad > 50, "{good} good, {bad} bad");
}
