//! Real blocks with the outputs that they spend: every script accepts, and no signature may change by a bit.

use crate::data;
use primitives::{Block, Tables, Transaction};
use script::lanes::Compared;
use script::{
    Batch, Check, Deferred, Flags, Immediate, Lanes, OneByOne, Precomputed, Scratch, ScriptError, SpentOutput, verify,
    verify_all,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::Rng;

/// A block's name without endings, and how many inputs it has beside the coinbase.
const BLOCKS: [(&str, usize); 14] = [
    ("main_24835_6d160a9dacc0", 74),
    ("main_57043_83b0aaac1fd8", 131),
    ("main_91722_f3f2574dd08e", 0),
    ("main_150013_b6f2166d577c", 94),
    ("main_255018_52f705dd8d96", 380),
    ("main_277647_de6eb1e052a8", 732),
    ("main_300025_58a9022cc78c", 1427),
    ("main_367891_872592b29970", 20817),
    ("main_403200_73e9ac3b6d01", 1036),
    ("main_757739_abad1cabd0ea", 91),
    ("main_866342_b101d3c8f1f1", 7972),
    ("test3_928816_a5ff0141a378", 8692),
    ("test3_928828_f9c4b9cf76c2", 1972),
    ("test3_928831_698dc8022c0a", 9984),
];

/// Flags by height, as far as these blocks need them. Source: Bitcoin Core b88bffe, `GetBlockScriptFlags`,
/// chainparams.cpp.
fn flags_of(name: &str) -> Flags {
    let mut parts = name.split('_');
    let heights = match parts.next() {
        Some("main") => [363_725, 388_381, 419_328, 481_824],
        _ => [330_776, 581_885, 770_112, 834_624],
    };
    let height: u32 = parts.next().unwrap().parse().unwrap();
    let by_height = [Flags::DERSIG, Flags::CHECKLOCKTIMEVERIFY, Flags::CHECKSEQUENCEVERIFY, Flags::NULLDUMMY];
    let on = heights.iter().zip(by_height).filter(|(start, _)| height >= **start);
    on.fold(Flags::P2SH | Flags::WITNESS | Flags::TAPROOT, |flags, (_, flag)| flags | flag)
}

/// The transactions of a block but the coinbase, each with the coins that it spends.
fn spendings<'a>(block: &Block<'a>, coins: &'a [SpentOutput<'a>]) -> Vec<Precomputed<'a>> {
    let mut rest = coins;
    let take = |tx: Transaction<'a>| {
        let (mine, others) = rest.split_at(tx.input_count());
        rest = others;
        Precomputed::new(tx, mine)
    };
    block.transactions().skip(1).map(take).collect()
}

/// Signatures in the scriptSig and witness of an input, by what they look like: where they lie in the transaction.
fn signatures(tx: Transaction<'_>, input: usize) -> Vec<std::ops::Range<usize>> {
    let looks_so = |item: &[u8]| {
        let der =
            (9..=73).contains(&item.len()) && item[0] == 0x30 && item[2] == 2 && item.len() == item[1] as usize + 3;
        der || (matches!(item.len(), 64 | 65) && item[0] != 4)
    };
    let input = tx.input(input);
    let pushes = script::opcode::Instructions::new(input.script_sig()).map(|instruction| instruction.push);
    let place = |item: &[u8]| {
        // The items are pieces of the transaction itself.
        let start = item.as_ptr() as usize - tx.bytes().as_ptr() as usize;
        start..start + item.len()
    };
    pushes.chain(input.witness()).filter(|item| looks_so(item)).map(place).collect()
}

/// The verdict on one input of a transaction's bytes.
fn verdict(bytes: &[u8], coins: &[SpentOutput<'_>], input: usize, flags: Flags) -> Result<(), ScriptError> {
    let mut tables = Tables::new();
    let tx = Precomputed::new(tables.parse_transaction(bytes).unwrap(), coins);
    verify(&tx, input, flags, &mut Immediate, &mut Scratch::new())
}

/// Changes one bit of R, of S, of the hash type, and of a DER signature's length.
fn flip(tx: &Precomputed<'_>, input: usize, flags: Flags, at: &std::ops::Range<usize>, rng: &mut Rng) {
    let mut bytes = tx.transaction().bytes().to_vec();
    let mut try_flip = |offset: usize, bit: u64| {
        bytes[at.start + offset] ^= 1 << bit;
        let verdict = verdict(&bytes, tx.spent(), input, flags);
        bytes[at.start + offset] ^= 1 << bit;
        verdict
    };
    let der = tx.transaction().bytes()[at.start] == 0x30 && !matches!(at.len(), 64 | 65);
    let (r, s, hash_type) = if der {
        let r_bytes = usize::from(tx.transaction().bytes()[at.start + 3]);
        (4..4 + r_bytes, 6 + r_bytes..at.len() - 1, Some(at.len() - 1))
    } else {
        (0..32, 32..64, (at.len() == 65).then_some(64))
    };
    for part in [r, s, hash_type.map_or(0..0, |at| at..at + 1)] {
        if part.is_empty() {
            continue;
        }
        let offset = part.start + rng.u64() as usize % part.len();
        let bit = rng.u64() % 8;
        let verdict = try_flip(offset, bit);
        assert!(verdict.is_err(), "{}: input {input}, byte {offset}, bit {bit}", tx.transaction().txid());
    }
    if der {
        let verdict = try_flip(1, rng.u64() % 7);
        let want = if flags.has(Flags::DERSIG) { Err(ScriptError::SigDer) } else { Ok(()) };
        assert_eq!(verdict, want, "{}: input {input}, the length", tx.transaction().txid());
    }
}

/// Every check of every input is proven by the lanes, and so are those pairs of CHECKMULTISIG that hold, but for keys in forms
/// that they do not take.
fn proven_in_lanes<'t>(
    name: &str,
    inputs: impl Iterator<Item = (&'t Precomputed<'t>, usize)> + Clone,
    flags: Flags,
    scratch: &mut Scratch,
) {
    let Some(lanes) = Lanes::of(kernels::Kernels::AUTO) else { return };
    let mut deferred = Deferred::with_pairs();
    let recorded: Vec<_> = inputs.clone().map(|(tx, input)| deferred.run(tx, input, flags, scratch).unwrap()).collect();
    let proven = lanes.prove(deferred.checks());
    let is_hybrid = |check: &Check| matches!(check, Check::Ecdsa { key, .. } if matches!(key.as_slice()[0], 6 | 7));
    if !deferred.checks().iter().any(is_hybrid) {
        let unproven = recorded.iter().filter(|recorded| !deferred.hold(recorded, &proven)).count();
        assert_eq!(unproven, 0, "{name}: of {} inputs", recorded.len());
    }
    let mut deferred = Deferred::new();
    for (tx, input) in inputs {
        deferred.run(tx, input, flags, scratch).unwrap();
    }
    let proven = lanes.prove(deferred.checks());
    assert_eq!(proven.len(), deferred.checks().len());
    for (check, proven) in deferred.checks().iter().zip(proven) {
        assert!(proven != is_hybrid(check), "{name}: {check:?}");
    }
}

#[test]
fn real_blocks_verify() {
    let mut rng = Rng::new(7);
    for (name, inputs) in BLOCKS {
        let Some(bytes) = testkit::data::load(&format!("blocks/{name}.blk")) else { return };
        let coins = testkit::data::load(&format!("blocks/{name}.spent.xz")).unwrap();
        let (mut tables, coins, flags) = (Tables::new(), data::outputs(&coins), flags_of(name));
        let block = tables.parse_block(&bytes).unwrap();
        assert_eq!(coins.len(), inputs, "{name}");
        let spendings = spendings(&block, &coins);
        let all = || spendings.iter().flat_map(|tx| (0..tx.spent().len()).map(move |input| (tx, input)));
        let mut scratch = Scratch::new();
        for (tx, input) in all() {
            let verdict = verify(tx, input, flags, &mut Immediate, &mut scratch);
            assert_eq!(verdict, Ok(()), "{name}: {}, input {input}", tx.transaction().txid());
        }
        proven_in_lanes(name, all(), flags, &mut scratch);
        let mut flipped = 0;
        let step = if testkit::is_slow() { 1 } else { inputs / 60 + 1 };
        for (tx, input) in all().skip(step / 2).step_by(step) {
            for at in signatures(tx.transaction(), input) {
                flip(tx, input, flags, &at, &mut rng);
                flipped += 1;
            }
        }
        assert!(flipped > 0 || inputs == 0, "{name}: signatures were found");
        println!("{name}: {inputs} inputs good, {flipped} signatures flipped");
    }
}

/// Counts what a batch is asked.
struct Counting<'b> {
    batch: &'b dyn Batch,
    checks: AtomicUsize,
}

impl Batch for Counting<'_> {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        self.checks.fetch_add(checks.len(), Ordering::Relaxed);
        self.batch.verify(checks)
    }
}

/// The checks of a whole block in batches, with and without one bad signature.
#[test]
fn real_blocks_verify_in_batches() {
    for (name, bad) in [("main_300025_58a9022cc78c", 700), ("main_757739_abad1cabd0ea", 20)] {
        let Some(mut bytes) = testkit::data::load(&format!("blocks/{name}.blk")) else { return };
        let coins = testkit::data::load(&format!("blocks/{name}.spent.xz")).unwrap();
        let (coins, flags, mut scratch) = (data::outputs(&coins), flags_of(name), Scratch::new());
        let run = |bytes: &[u8], batch: &dyn Batch, mut deferred: Deferred, scratch: &mut Scratch| {
            let mut tables = Tables::new();
            let block = tables.parse_block(bytes).unwrap();
            let spendings = spendings(&block, &coins);
            let all = spendings.iter().flat_map(|tx| (0..tx.spent().len()).map(move |input| (tx, input)));
            let counting = Counting { batch, checks: AtomicUsize::new(0) };
            let verdict = verify_all(all, flags, &counting, &mut deferred, scratch);
            (verdict, counting.checks.into_inner())
        };
        let (verdict, checks) = run(&bytes, &OneByOne, Deferred::new(), &mut scratch);
        assert_eq!(verdict, Ok(()), "{name}");
        assert!(checks * 2 > coins.len(), "{name}: {checks} checks were put off");
        let (verdict, with_pairs) = run(&bytes, &OneByOne, Deferred::with_pairs(), &mut scratch);
        assert_eq!(verdict, Ok(()), "{name}, with pairs");
        assert!(with_pairs >= checks, "{name}: {with_pairs} checks with pairs");
        for batch in [&script::lanes::best(kernels::Kernels::AUTO) as &dyn Batch, &Compared] {
            let (verdict, checks) = run(&bytes, batch, Deferred::with_pairs(), &mut scratch);
            assert_eq!((verdict, checks), (Ok(()), with_pairs), "{name}, in lanes");
        }
        let place = {
            let mut tables = Tables::new();
            let block = tables.parse_block(&bytes).unwrap();
            let spendings = spendings(&block, &coins);
            let mut all = spendings.iter().flat_map(|tx| (0..tx.spent().len()).map(move |input| (tx, input)));
            let (tx, input) = all.nth(bad).unwrap();
            let start = tx.transaction().bytes().as_ptr() as usize - block.bytes().as_ptr() as usize;
            start + signatures(tx.transaction(), input)[0].start + 10
        };
        bytes[place] ^= 1;
        let ways: [(&dyn Batch, Deferred); 4] = [
            (&OneByOne, Deferred::new()),
            (&OneByOne, Deferred::with_pairs()),
            (&Compared, Deferred::new()),
            (&script::lanes::best(kernels::Kernels::AUTO), Deferred::with_pairs()),
        ];
        for (batch, deferred) in ways {
            let (verdict, _) = run(&bytes, batch, deferred, &mut scratch);
            assert_eq!(verdict.map_err(|(at, _)| at), Err(bad), "{name}");
        }
    }
}
