//! Core's tx_valid.json and tx_invalid.json. The flags of the first are those to leave out, of the second those to set.

use crate::assembler::script;
use crate::data;
use primitives::{Amount, OutPoint, Tables, Txid};
use script::lanes::Compared;
use script::{Deferred, Flags, Immediate, Precomputed, Scratch, SpentOutput, verify, verify_all};
use serde_json::Value;
use std::collections::HashMap;
use testkit::Rng;

struct Case {
    bytes: Vec<u8>,
    coins: HashMap<OutPoint, (i64, Vec<u8>)>,
    flags: String,
}

/// The rows that are no comments.
fn cases(name: &str) -> Option<Vec<Case>> {
    let rows = data::json(name)?;
    let rows = rows.as_array().unwrap().iter().map(|row| row.as_array().unwrap()).filter(|row| row.len() > 1);
    let case = |row: &Vec<Value>| {
        let coins = row[0].as_array().unwrap().iter().map(|coin| {
            let txid = Txid::from_display(coin[0].as_str().unwrap()).unwrap();
            let vout = coin[1].as_i64().unwrap() as u32;
            let value = coin.get(3).map_or(0, |value| value.as_i64().unwrap());
            (OutPoint { txid, vout }, (value, script(coin[2].as_str().unwrap())))
        });
        Case { coins: coins.collect(), bytes: data::unhex(&row[1]), flags: row[2].as_str().unwrap().to_owned() }
    };
    Some(rows.map(case).collect())
}

impl Case {
    /// Whether all inputs are accepted.
    fn accepted(&self, flags: Flags, scratch: &mut Scratch) -> bool {
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&self.bytes).unwrap();
        let spent: Vec<SpentOutput<'_>> = tx
            .inputs()
            .map(|input| {
                let (value, script) = &self.coins[&input.prevout()];
                SpentOutput { value: Amount(*value), script }
            })
            .collect();
        let precomputed = Precomputed::new(tx, &spent);
        let inputs = || 0..tx.input_count();
        let accepted = inputs().all(|input| verify(&precomputed, input, flags, &mut Immediate, scratch).is_ok());
        let all = inputs().map(|input| (&precomputed, input));
        let later = verify_all(all, flags, &Compared, &mut Deferred::with_pairs(), scratch);
        assert_eq!(later.is_ok(), accepted, "in lanes: {later:?}");
        accepted
    }
}

#[test]
fn core_valid_transactions_verify() {
    let Some(cases) = cases("scripts/tx_valid.json") else { return };
    let (mut scratch, mut rng) = (Scratch::new(), Rng::new(2));
    for case in &cases {
        let left_out = data::flags(&case.flags);
        let text = primitives::hex::encode(&case.bytes);
        assert!(case.accepted(!left_out, &mut scratch), "{}: {text}", case.flags);
        for &(name, flag) in Flags::NAMES {
            let one = data::trimmed(!(left_out | flag));
            assert!(case.accepted(one, &mut scratch), "{}, without {name}: {text}", case.flags);
            let some = data::trimmed(!(left_out | data::random_flags(&mut rng)));
            assert!(case.accepted(some, &mut scratch), "{}, with {some:?}: {text}", case.flags);
            // As few flags as possible are left out: with one more of them set, it fails.
            let fewer = data::trimmed(left_out & !flag);
            if fewer != left_out {
                assert!(!case.accepted(!fewer, &mut scratch), "{}, with {name}: {text}", case.flags);
            }
        }
    }
    assert_eq!(cases.len(), 121, "rows");
}

#[test]
fn core_invalid_transactions_fail() {
    let Some(cases) = cases("scripts/tx_invalid.json") else { return };
    let (mut scratch, mut rng) = (Scratch::new(), Rng::new(3));
    let (mut by_script, mut by_shape) = (0, 0);
    for case in &cases {
        if case.flags == "BADTX" {
            by_shape += 1; // Refused before any script runs, for reasons that are not this crate's.
            continue;
        }
        by_script += 1;
        let set = data::flags(&case.flags);
        let text = primitives::hex::encode(&case.bytes);
        assert!(!case.accepted(set, &mut scratch), "{}: {text}", case.flags);
        for &(name, flag) in Flags::NAMES {
            let one = data::filled(set | flag);
            assert!(!case.accepted(one, &mut scratch), "{}, with {name}: {text}", case.flags);
            let some = data::filled(set | data::random_flags(&mut rng));
            assert!(!case.accepted(some, &mut scratch), "{}, with {some:?}: {text}", case.flags);
            // As few flags as possible are set: with one of them left out, it passes.
            let fewer = data::trimmed(set & !flag);
            if fewer != set {
                assert!(case.accepted(fewer, &mut scratch), "{}, without {name}: {text}", case.flags);
            }
        }
    }
    assert_eq!((by_script, by_shape), (84, 9), "rows");
}
