//! Benchmarks of script verification: `cargo bench -p ffwd-script`, or with a word to choose rows,
//! `cargo bench -p ffwd-script -- KeyHash`. Small, and only checked, without `--bench`.
//!
//! A row is as `testkit::bench` says, for one input. `all` parses
//! the transaction, hashes and checks on the spot. `own` is the same with checks that are only recorded: the
//! interpreter's and the hashes' own part. `plain` is `own` without templates. `secp` is libsecp256k1 on those checks
//! alone, `lanes` are the vector lanes on the same. `batch` is `all` in one batch, as a node does it;
//! once more with hashes made on the spot.

#![allow(clippy::unwrap_used, reason = "it serves measurements")]

#[path = "../tests/it/assembler.rs"]
#[allow(dead_code)]
mod assembler;
#[path = "../tests/it/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "../tests/it/wallet.rs"]
#[allow(dead_code)]
mod wallet;

use primitives::{Tables, Transaction};
use script::check::KeyBytes;
use script::sighash::hash_shared;
use script::verify::verify_by_interpreter;
use script::{
    Batch, Check, Checker, Deferred, Flags, Immediate, Lanes, OneByOne, Precomputed, Scratch, SpentOutput, lanes,
    verify, verify_all,
};
use secp256k1::{Keypair, Message, ecdsa, schnorr};
use std::hint::black_box;
use testkit::{Bench, Per};
use wallet::{Kind, Spending, spending};

fn main() {
    let bench = Bench::from_args();
    templates(&bench);
    many_inputs(&bench);
    sums(&bench);
    repeats(&bench);
    blocks(&bench);
}

/// Work: Schnorr signatures by keys of their own, by each kind of lanes: each by its own, and all by one sum. Checked: all
/// hold.
fn sums(bench: &Bench) {
    for count in [16, 32, 64, 128, 256, 512, 1024] {
        let checks: Vec<Check> = (0..bench.size(20, count))
            .map(|number| {
                // Keys in steps of one another would make equal sums.
                let secret = kernels::sha256::sha256(&(number as u64).to_le_bytes());
                let pair = Keypair::from_secret_bytes(secret).unwrap();
                let signature = schnorr::sign_no_aux_rand(&secret, &pair).to_byte_array();
                Check::Schnorr { signature, key: pair.x_only_public_key().0.to_byte_array(), sighash: secret }
            })
            .collect();
        for lanes in Lanes::available().into_iter().filter(|lanes| lanes.is_fast()) {
            let per = Per::of(checks.len(), "signature");
            bench.time(&format!("Schnorr sum {count} {} each", lanes.name()), per, || {
                assert!(lanes.prove_each(black_box(&checks)).iter().all(|&proven| proven));
            });
            bench.time(&format!("Schnorr sum {count} {} sum", lanes.name()), per, || {
                assert!(lanes.hold_by_sum(black_box(&checks)));
            });
        }
    }
}

/// Work: 1,024 ECDSA signatures by few keys or many, by each kind of lanes. Checked: all hold.
fn repeats(bench: &Bench) {
    for keys in [1, 16, 64, 128, 256, 512, 1024] {
        let checks: Vec<Check> = (0..bench.size(80, 1024))
            .map(|number| {
                let [secret, sighash] =
                    [number % keys, number].map(|number: usize| kernels::sha256::sha256(&number.to_le_bytes()));
                let pair = Keypair::from_secret_bytes(secret).unwrap();
                let signature = ecdsa::sign(Message::from_digest(sighash), &pair.secret_key()).serialize_compact();
                let key = KeyBytes::new(&pair.public_key().serialize()).unwrap();
                Check::Ecdsa { signature, key, sighash, odd: None }
            })
            .collect();
        for lanes in Lanes::available().into_iter().filter(|lanes| lanes.is_fast()) {
            bench.time(&format!("ECDSA by {keys} keys {}", lanes.name()), Per::of(checks.len(), "signature"), || {
                assert!(lanes.prove(black_box(&checks)).iter().all(|&proven| proven));
            });
        }
    }
}

/// The four rows of a set of spendings.
fn rows(bench: &Bench, name: &str, spendings: &[Spending]) {
    if !bench.wants(name) {
        return;
    }
    let coins: Vec<Vec<SpentOutput<'_>>> = spendings.iter().map(Spending::spent).collect();
    let per = Per::of(coins.iter().map(Vec::len).sum(), "input");
    let mut scratch = Scratch::new();
    let mut tables = Tables::new();
    let mut each = |run: &mut dyn FnMut(&Precomputed<'_>, usize, &mut Scratch)| {
        for (spending, coins) in spendings.iter().zip(&coins) {
            let tx: Transaction<'_> = tables.parse_transaction(black_box(&spending.bytes)).unwrap();
            let tx = Precomputed::new(tx, coins);
            (0..coins.len()).for_each(|input| run(&tx, input, &mut scratch));
        }
    };
    let all = bench.time(&format!("{name} all"), per, || {
        each(&mut |tx, input, scratch| {
            assert_eq!(verify(tx, input, Flags::CONSENSUS, &mut Immediate, scratch), Ok(()));
        });
    });
    let mut deferred = Deferred::with_pairs();
    let own = bench.time(&format!("{name} own"), per, || {
        deferred.clear();
        each(&mut |tx, input, scratch| {
            assert_eq!(verify(tx, input, Flags::CONSENSUS, &mut deferred, scratch), Ok(()));
        });
    });
    bench.time(&format!("{name} plain"), per, || {
        deferred.clear();
        each(&mut |tx, input, scratch| {
            let verdict = verify_by_interpreter(tx, input, Flags::CONSENSUS, &mut deferred, scratch);
            assert_eq!(verdict, Ok(()));
        });
    });
    let checks = deferred.checks();
    bench.time(&format!("{name} secp ({} checks)", checks.len()), per, || {
        assert_eq!(OneByOne.verify(checks).len(), checks.len());
    });
    if let Some(lanes) = Lanes::of(kernels::Kernels::AUTO) {
        bench.time(&format!("{name} lanes ({} checks)", checks.len()), per, || {
            assert_eq!(lanes.prove(checks).len(), checks.len());
        });
    }
    let mut deferred = Deferred::for_batch(&lanes::best(kernels::Kernels::AUTO));
    bench.time(&format!("{name} batch"), per, || {
        batch(spendings, &coins, &lanes::best(kernels::Kernels::AUTO), &mut deferred);
    });
    bench.time(&format!("{name} batch, hashes on the spot"), per, || {
        batch(spendings, &coins, &HashesOnTheSpot, &mut deferred);
    });
    if bench.is_full() {
        println!("{name}: libsecp256k1's share {:.1} %", 100.0 * (all - own) / all);
    }
}

/// The best batch, with nothing but signatures put off.
struct HashesOnTheSpot;

impl Batch for HashesOnTheSpot {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        lanes::best(kernels::Kernels::AUTO).verify(checks)
    }

    fn takes_pairs(&self) -> bool {
        lanes::best(kernels::Kernels::AUTO).takes_pairs()
    }
}

/// Verifies all inputs in one batch.
fn batch(spendings: &[Spending], coins: &[Vec<SpentOutput<'_>>], batch: &dyn Batch, deferred: &mut Deferred) {
    let mut tables: Vec<Tables> = spendings.iter().map(|_| Tables::new()).collect();
    let parts = tables.iter_mut().zip(spendings).zip(coins);
    let txs: Vec<Precomputed<'_>> = parts
        .map(|((tables, spending), coins)| {
            Precomputed::new(tables.parse_transaction(black_box(&spending.bytes)).unwrap(), coins)
        })
        .collect();
    if batch.takes_hashes() {
        hash_shared(kernels::Kernels::AUTO, &txs);
    }
    let inputs = txs.iter().flat_map(|tx| (0..tx.spent().len()).map(move |input| (tx, input)));
    let verdict = verify_all(inputs, Flags::CONSENSUS, batch, deferred, &mut Scratch::new());
    assert_eq!(verdict, Ok(()));
}

/// Work: transactions of one input and two outputs, 64 different ones.
fn templates(bench: &Bench) {
    for kind in Kind::ALL {
        let number = bench.size(2, 64);
        let spendings: Vec<Spending> =
            (0..number).map(|n| spending(&[kind], 2, if kind >= Kind::TaprootKey { 0 } else { 1 }, n * 7)).collect();
        rows(bench, &format!("{kind:?}"), &spendings);
    }
}

/// Work: one transaction of 5,000 P2PKH inputs, each of which signs all the others: 205 kB hashed for every input.
fn many_inputs(bench: &Bench) {
    for hash_type in [1, 2, 3] {
        let kinds = vec![Kind::KeyHash; bench.size(40, 5000)];
        let name = format!("{} KeyHash inputs, type {hash_type}", kinds.len());
        if bench.wants(&name) {
            let spending = spending(&kinds, bench.size(40, 2), hash_type, 1);
            if let Ok(path) = std::env::var("SCRIPT_BENCH_CASE") {
                std::fs::write(format!("{path}.{hash_type}"), line(&spending)).unwrap();
            }
            rows(bench, &name, &[spending]);
        }
    }
}

/// A spending as `examples/verify_stdin` reads it, so that another program can be timed on the same work.
fn line(spending: &Spending) -> String {
    let hex = primitives::hex::encode;
    let coins: Vec<String> = spending.coins.iter().map(|(value, script)| format!("{value}:{}", hex(script))).collect();
    format!("20e15 0 {} {}\n", coins.join(","), hex(&spending.bytes))
}

/// Work: all inputs of a real block; parsing it is in, its ids are not.
fn blocks(bench: &Bench) {
    for name in ["main_866342_b101d3c8f1f1", "test3_928831_698dc8022c0a", "main_300025_58a9022cc78c"] {
        if !bench.wants(name) {
            continue;
        }
        let Some(bytes) = testkit::data::load(&format!("blocks/{name}.blk")) else { return };
        let coins = testkit::data::load(&format!("blocks/{name}.spent.xz")).unwrap();
        let coins = data::outputs(&coins);
        let flags =
            if name.contains("_300025_") { Flags::P2SH | Flags::WITNESS | Flags::TAPROOT } else { Flags::CONSENSUS };
        let mut scratch = Scratch::new();
        let mut tables = Tables::new();
        let mut run = |checker: &mut dyn Checker| {
            let block = tables.parse_block(&bytes).unwrap();
            let mut rest = &coins[..];
            for tx in block.transactions().skip(1) {
                let (mine, others) = rest.split_at(tx.input_count());
                rest = others;
                let tx = Precomputed::new(tx, mine);
                for input in 0..mine.len() {
                    assert_eq!(verify(&tx, input, flags, checker, &mut scratch), Ok(()));
                }
            }
        };
        let all = bench.time(&format!("{name} all"), Per::of(coins.len(), "input"), || run(&mut Immediate));
        let mut deferred = Deferred::with_pairs();
        let own = bench.time(&format!("{name} own"), Per::of(coins.len(), "input"), || {
            deferred.clear();
            run(&mut deferred);
        });
        if bench.is_full() {
            println!("{name}: libsecp256k1's share {:.1} %", 100.0 * (all - own) / all);
        }
    }
}
