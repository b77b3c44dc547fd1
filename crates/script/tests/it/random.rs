//! Random changes to good inputs of every kind: templates, interpreter and batch must agree on each.

use crate::wallet::{Kind, spending};
use primitives::Tables;
use script::{Flags, Immediate, Precomputed, Scratch, fuzz_script, verify};
use testkit::Rng;

const HASH_TYPES: [u8; 8] = [1, 2, 3, 0x81, 0x82, 0x83, 0, 0x41];

/// All kinds in one transaction, all hash types: good, except for hash types that taproot does not have.
#[test]
fn generated_inputs_verify() {
    let mut scratch = Scratch::new();
    for hash_type in HASH_TYPES {
        for outputs in [1, 20] {
            let spending = spending(&Kind::ALL, outputs, hash_type, 1);
            let (mut tables, spent) = (Tables::new(), spending.spent());
            let tx = Precomputed::new(tables.parse_transaction(&spending.bytes).unwrap(), &spent);
            for (input, kind) in Kind::ALL.iter().enumerate() {
                let verdict = verify(&tx, input, Flags::CONSENSUS, &mut Immediate, &mut scratch);
                let is_taproot = matches!(kind, Kind::TaprootKey | Kind::TaprootScript | Kind::TaprootMultisig);
                let without_output = hash_type & 3 == 3 && input >= outputs;
                let bad = is_taproot && (hash_type == 0x41 || without_output);
                assert_eq!(verdict.is_ok(), !bad, "{kind:?}, hash type {hash_type:x}: {verdict:?}");
            }
        }
    }
}

/// What inputs share is made once, by whichever thread needs it first.
#[test]
fn threads_share_a_precomputed_transaction() {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().cycle().take(44).collect();
    for hash_type in [1, 2] {
        let spending = spending(&kinds, 3, hash_type, 9);
        let (mut tables, spent) = (Tables::new(), spending.spent());
        let tx = Precomputed::new(tables.parse_transaction(&spending.bytes).unwrap(), &spent);
        std::thread::scope(|scope| {
            for first in 0..4 {
                let tx = &tx;
                scope.spawn(move || {
                    let mut scratch = Scratch::new();
                    for input in (first..44).step_by(4) {
                        let verdict = verify(tx, input, Flags::CONSENSUS, &mut Immediate, &mut scratch);
                        assert_eq!(verdict, Ok(()), "input {input}");
                    }
                });
            }
        });
    }
}

/// An input as `fuzz_script` reads it.
fn seed(kind: Kind, hash_type: u8, number: usize, flags: u32) -> Vec<u8> {
    let spending = spending(&[kind], 1, hash_type, number);
    let (value, script) = &spending.coins[0];
    let mut bytes = flags.to_le_bytes().to_vec();
    bytes.extend(value.to_le_bytes());
    bytes.extend((script.len() as u16).to_le_bytes());
    bytes.extend(script);
    bytes.extend(&spending.bytes);
    bytes
}

/// Changes a few bytes somewhere.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.u64() % 3 {
        let at = rng.u64() as usize % bytes.len();
        match rng.u64() % 8 {
            0..=2 => bytes[at] ^= 1 << (rng.u64() % 8),
            3 | 4 => bytes[at] = rng.u64() as u8,
            5 => bytes[at] = [0, 1, 0x50, 0x51, 0x75, 0x76, 0x7f, 0x80, 0xab, 0xac, 0xff][at % 11],
            6 => bytes.insert(at, rng.u64() as u8),
            _ => drop(bytes.remove(at)),
        }
    }
}

#[test]
fn every_verifier_gives_the_same_verdict() {
    const CONSENSUS: u32 = 0b10_0000_1110_0001_0101;
    let mut rng = Rng::new(5);
    let (mut good, mut bad, mut none) = (0, 0, 0);
    let rounds = if testkit::is_slow() { 3000 } else { 40 };
    for round in 0..rounds {
        for kind in Kind::ALL {
            let hash_type = HASH_TYPES[rng.u64() as usize % HASH_TYPES.len()];
            let flags = match rng.u64() % 4 {
                0 => rng.u64() as u32,
                1 => CONSENSUS & rng.u64() as u32,
                _ => CONSENSUS,
            };
            let seed = seed(kind, hash_type, round, flags);
            for _ in 0..6 {
                let mut bytes = seed.clone();
                mutate(&mut bytes, &mut rng);
                match fuzz_script(&bytes) {
                    Some(Ok(())) => good += 1,
                    Some(Err(_)) => bad += 1,
                    None => none += 1,
                }
            }
        }
    }
    assert!(good > rounds && bad > rounds && none > 0, "{good} good, {bad} bad, {none} not an input");
    println!("{good} good, {bad} bad, {none} not an input");
}

/// Scripts of random opcodes, in every place that runs them.
#[test]
fn random_scripts_never_panic() {
    let mut rng = Rng::new(6);
    for _ in 0..if testkit::is_slow() { 1_000_000 } else { 20_000 } {
        let mut script = |bytes: u64| -> Vec<u8> {
            let length = rng.u64() % bytes;
            (0..length)
                .map(|_| match rng.u64() % 4 {
                    0 => 0x51,
                    1 => rng.u64() as u8 % 5,
                    _ => 0x4c + rng.u64() as u8 % 0x70,
                })
                .collect()
        };
        let (spent, script_sig) = (script(40), script(20));
        let mut bytes = (rng.u64() as u32).to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        bytes.extend((spent.len() as u16).to_le_bytes());
        bytes.extend(&spent);
        bytes.extend([2, 0, 0, 0, 1]);
        bytes.extend([7; 36]);
        bytes.push(script_sig.len() as u8);
        bytes.extend(&script_sig);
        bytes.extend([0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0]);
        assert!(fuzz_script(&bytes).is_some());
    }
}

#[test]
fn seeds_of_the_fuzzer_hold() {
    let (mut good, mut bad) = (0, 0);
    for seed in testkit::fuzz_seeds("script") {
        match fuzz_script(&seed) {
            Some(Ok(())) => good += 1,
            Some(Err(_)) => bad += 1,
            None => {}
        }
    }
    assert!(good > 20 && bad > 100, "{good} inputs hold, {bad} do not");
}
