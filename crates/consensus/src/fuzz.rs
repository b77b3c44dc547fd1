//! Arbitrary bytes as a block to validate: always the same verdict, and never a panic.
//!
//! Not part of the interface. Proof of work and merkle root are corrected, so that the other rules are reached.
//!
//! Layout: height u16 LE | coin's height u16 LE | coin's value i64 LE | coin is a coinbase's u8 | block.
//! Every input spends such a coin, whose script is that of the block's first output.

mod recipe;

pub use recipe::fuzz_recipe;

use crate::{BlockError, BlockSpend, Chain, Params, SpentCoin, block, transaction};
use primitives::{Amount, Block, BlockHash, Height, MedianTime, Reader, Tables, Txid, merkle};
use script::signet;

/// The verdict; `None` for bytes that do not deserialize as a block.
pub fn fuzz_rules(data: &[u8]) -> Option<Result<(), BlockError>> {
    let mut reader = Reader::new(data);
    let (height, coin_height) = (Height::new(reader.u16().ok()?.into()), Height::new(reader.u16().ok()?.into()));
    let value = Amount(reader.u64().ok()?.cast_signed());
    let coinbase = reader.u8().ok()? & 1 == 1;
    let mut bytes = reader.take(reader.remaining()).ok()?.to_vec();
    let mut tables = Tables::new();
    let mut txids = Vec::new();
    tables.parse_block(&bytes).ok()?.txids_into(&mut txids);
    let (root, _) = merkle::root(kernels::Kernels::AUTO, &mut txids.iter().map(|txid| txid.to_hash256()).collect());
    bytes[36..68].copy_from_slice(&root.0);
    bytes[72..76].copy_from_slice(&0x207f_ffff_u32.to_le_bytes());
    let block = tables.parse_block(&bytes).ok()?;
    let script = first_script(&block);
    check_signet(&block, &txids, &script);
    let coin = SpentCoin { height: coin_height, coinbase, value, script: &script };
    let judge = || {
        let median_time_past = MedianTime::new(1_700_000_000);
        let cleanup = crate::Cleanup::Off;
        let context = block::Context { height, median_time_past, cleanup };
        let params = Params::new(Chain::Regtest);
        judged(&params, &bytes, &context, &mut |_, _| Some(coin), &|height| MedianTime::new(height.to_u32()))
    };
    let verdict = judge();
    assert_eq!(verdict, judge(), "the same block, the same verdict");
    if let Err(error) = &verdict {
        let text = error.to_string();
        assert!(text.starts_with(&*error.reject_reason()), "{text}");
    }
    Some(verdict)
}

/// Checks the same block on signets whose challenge is trivial, a key, or a script of the block.
fn check_signet(block: &Block<'_>, txids: &[Txid], script: &[u8]) {
    let key = [&[33, 2][..], &[0x79; 32], &[0xac]].concat();
    for challenge in [&[0x51][..], &key, script] {
        let verdict = || signet::check_solution(block, txids, challenge);
        assert_eq!(verdict(), verdict(), "the same block, the same verdict");
    }
}

/// The script of the block's first output.
fn first_script(block: &Block<'_>) -> Vec<u8> {
    let first = (block.transaction_count() > 0).then(|| block.transaction(0).outputs().next()).flatten();
    first.map_or_else(Vec::new, |output| output.script().to_vec())
}

/// The verdict on a block with the right merkle root, at a height; `coin` returns a coin by number of transaction and
/// input.
fn judged<'c>(
    params: &Params,
    bytes: &[u8],
    context: &block::Context,
    coin: &mut dyn FnMut(usize, usize) -> Option<SpentCoin<'c>>,
    median_time_past: &dyn Fn(Height) -> MedianTime,
) -> Result<(), BlockError> {
    let mut tables = Tables::new();
    let parsed = tables.parse_block(bytes).expect("the caller's bytes are a block");
    let (mut txids, mut wtxids, mut sigops) = (Vec::new(), Vec::new(), Vec::new());
    let mut scratch = block::Scratch::default();
    parsed.txids_into(&mut txids);
    if block::needs_wtxids(params, &parsed, context.height) {
        parsed.wtxids_into(&txids, &mut wtxids);
    }
    let mutation = block::mutation(&parsed, true, &txids, &wtxids, &mut scratch);
    assert!(mutation.is_none_or(|error| error.mutated()), "a mutated body does not invalidate its header");
    // The zero hash meets every target.
    block::check(params, &parsed, &BlockHash::ZERO, &txids, &mut sigops, &mut scratch)?;
    block::check_context(params, &parsed, context, &txids, &wtxids, &mut scratch)?;
    let mut spend = BlockSpend::new(params, context.height, &BlockHash::ZERO, context.median_time_past);
    for (index, tx) in parsed.transactions().enumerate() {
        assert_eq!(sigops[index], transaction::legacy_sigops(&tx), "counted once, and again");
        spend.transaction(&tx, &txids[index], sigops[index], |input| coin(index, input), median_time_past)?;
    }
    spend.finish(&parsed.transaction(0)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use testkit::Rng;

    /// The verdict of a target, if its input is one.
    type Target = fn(&[u8]) -> Option<Result<(), BlockError>>;

    /// The reasons that the kept inputs of both targets meet. `FUZZ_CORPUS=DIR` looks at another corpus too, and says
    /// what it meets.
    #[test]
    fn seeds_of_the_fuzzer_meet_these_reasons() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds").to_owned();
        let mut met = BTreeSet::new();
        for dir in std::env::var("FUZZ_CORPUS").ok().into_iter().chain([kept]) {
            met.clear();
            let targets = [("rules", fuzz_rules as Target), ("recipe", |data| Some(fuzz_recipe(data)))];
            for (target, run) in targets {
                let mut of_target = BTreeSet::new();
                for seed in std::fs::read_dir(format!("{dir}/{target}")).unwrap() {
                    let reason = match run(&std::fs::read(seed.unwrap().path()).unwrap()) {
                        None => continue,
                        Some(Ok(())) => "valid".to_owned(),
                        Some(Err(error)) => error.reject_reason().into_owned(),
                    };
                    of_target.insert(reason);
                }
                println!("{dir}, {target}: {of_target:?}");
                met.extend(of_target);
            }
        }
        for want in MET {
            assert!(met.contains(want), "{want}: {met:?}");
        }
    }

    /// All that a block can be refused for without its header and its scripts, but: bad-txns-oversize (such a block is
    /// too long first), bad-txnmrklroot (the root is made right), bad-txns-fee-outofrange (what is taken is in range
    /// first).
    const MET: [&str; 26] = [
        "valid",
        "bad-blk-length",
        "bad-blk-sigops",
        "bad-blk-weight",
        "bad-cb-amount",
        "bad-cb-height",
        "bad-cb-length",
        "bad-cb-missing",
        "bad-cb-multiple",
        "bad-txns-accumulated-fee-outofrange",
        "bad-txns-duplicate",
        "bad-txns-in-belowout",
        "bad-txns-inputs-duplicate",
        "bad-txns-inputs-missingorspent",
        "bad-txns-inputvalues-outofrange",
        "bad-txns-nonfinal",
        "bad-txns-premature-spend-of-coinbase",
        "bad-txns-prevout-null",
        "bad-txns-txouttotal-toolarge",
        "bad-txns-vin-empty",
        "bad-txns-vout-empty",
        "bad-txns-vout-negative",
        "bad-txns-vout-toolarge",
        "bad-witness-merkle-match",
        "bad-witness-nonce-size",
        "unexpected-witness",
    ];

    /// A good block of two transactions at height 200, and what becomes of it when some bytes are others.
    #[test]
    fn rules_on_any_bytes_give_a_stable_verdict() {
        let coinbase = [
            &[1, 0, 0, 0, 1][..],
            &[0; 32],
            &[0xff; 4],
            &[4, 2, 200, 0, 0x51],
            &[0xff; 4],
            &[1],
            &2_500_000_000u64.to_le_bytes(),
            &[1, 0x51],
            &[0; 4],
        ]
        .concat();
        let spend = [
            &[2, 0, 0, 0, 1][..],
            &[7; 36],
            &[0],
            &[0xfe, 0xff, 0xff, 0xff],
            &[1],
            &5_000_000u64.to_le_bytes(),
            &[2, 0x51, 0xac],
            &[0; 4],
        ]
        .concat();
        let header = [&[0, 0, 0, 0x20][..], &[0; 76]].concat();
        let head = [&200u16.to_le_bytes()[..], &50u16.to_le_bytes(), &6_000_000u64.to_le_bytes(), &[1]].concat();
        let seed = [&head[..], &header, &[2], &coinbase, &spend].concat();
        assert_eq!(fuzz_rules(&seed), Some(Ok(())));
        let mut met: BTreeMap<String, usize> = BTreeMap::new();
        let mut rng = Rng::new(1);
        let mut random = |below: usize| rng.below(below);
        for _ in 0..if testkit::is_slow() { 2_000_000 } else { 20_000 } {
            let mut data = seed.clone();
            for _ in 0..1 + random(3) {
                let at = random(data.len());
                data[at] = [data[at] ^ 1 << random(8), [0, 1, 2, 3, 0x7f, 0x80, 0xff][random(7)]][random(2)];
            }
            match fuzz_rules(&data) {
                Some(Err(error)) => *met.entry(error.reject_reason().into_owned()).or_default() += 1,
                Some(Ok(())) => *met.entry("good".to_owned()).or_default() += 1,
                None => *met.entry("no block".to_owned()).or_default() += 1,
            }
        }
        for want in
            ["good", "no block", "bad-cb-height", "bad-txns-premature-spend-of-coinbase", "bad-txns-in-belowout"]
        {
            assert!(met.contains_key(want), "{want}: {met:?}");
        }
        assert!(met.len() > 10, "{met:?}");
    }
}
