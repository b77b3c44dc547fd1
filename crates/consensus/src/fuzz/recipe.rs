//! Bytes as a recipe for a block: any bytes give a nearly valid block.
//!
//! Each byte is one choice: the coin that an input spends, its lock, the value of the coinbase. So a fuzzer that
//! changes bytes changes blocks, not their encoding. A plain model judges the recipe, the rules judge the block: both
//! must give the same reason. Past the last byte every choice is 0, which is the valid one.

use super::judged;
use crate::{BlockError, Params, SpentCoin, block};
use kernels::sha256::sha256d;
use primitives::encode::put_compact_size;
use primitives::{Amount, BlockHash, Hash256, Header, Height, MedianTime, OutPoint, Txid, Wtxid, merkle};
use std::collections::HashMap;

/// Maximum number of transactions of a block in addition to the coinbase.
const TRANSACTIONS_MAX: usize = 6;
/// Height of the block: its coinbase may take 25 BTC on regtest.
const HEIGHT: u32 = 200;
const SUBSIDY: i64 = 2_500_000_000;
/// Maximum number of signature operations outside witnesses in a block. Source: Bitcoin Core b88bffe,
/// consensus/consensus.h.
const SIGOPS_MAX: usize = 20_000;
const LOCKTIME_THRESHOLD: u32 = 500_000_000;
/// Maximum number of satoshis. Source: Bitcoin Core b88bffe, consensus/amount.h.
const MAX_MONEY: i64 = 2_100_000_000_000_000;
/// A size without witnesses that is too large, and the size of a witness. Source: consensus/consensus.h.
const LONG_BYTES: usize = 1_000_000;
const HEAVY_BYTES: usize = 4_000_000;
/// Each kind of rare choice occurs once in 64: large blocks take long to hash.
const RARE: usize = 64;

/// The remaining choices.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % bound
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// A coin that the block may spend: from the chain, or from an earlier transaction of the block.
#[derive(Clone, Copy)]
struct Coin {
    outpoint: OutPoint,
    height: u32,
    coinbase: bool,
    value: i64,
}

#[derive(Clone)]
struct In {
    coin: Coin,
    /// False if the coin does not exist.
    exists: bool,
    sequence: u32,
    script_sig: Vec<u8>,
    witness: Vec<Vec<u8>>,
}

#[derive(Clone, Default)]
struct Tx {
    version: u32,
    inputs: Vec<In>,
    outputs: Vec<(i64, Vec<u8>)>,
    lock_time: u32,
}

/// How a block commits to its witnesses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commitment {
    WhereNeeded,
    Always,
    Never,
    Wrong,
    ShortNonce,
    NoNonce,
}

/// Rare properties of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rare {
    Nothing,
    /// The first coins hold all the money that can exist.
    Rich,
    /// The last transaction has an input with a null prevout and another input.
    NullPrevout,
    /// The block is too long without its witnesses.
    Long,
    /// Its weight with witnesses is too large.
    Heavy,
}

/// Median time past of a block of the chain.
fn median_time_past(height: u32) -> u32 {
    1_600_000_000 + height * 600
}

/// Validates the block of a recipe and returns the verdict; panics if the model and the rules disagree.
pub fn fuzz_recipe(data: &[u8]) -> Result<(), BlockError> {
    let mut choices = Choices(data);
    // The last byte, so that the choices before it stay the same.
    let rare = match data.last().map_or(0, |&byte| usize::from(byte) % RARE) {
        60 => Rare::Rich,
        61 => Rare::NullPrevout,
        62 => Rare::Long,
        63 => Rare::Heavy,
        _ => Rare::Nothing,
    };
    let mut coins = chain_coins(rare);
    let txs: Vec<Tx> =
        (0..choices.below(TRANSACTIONS_MAX + 1)).map(|number| transaction(number, &mut choices, &mut coins)).collect();
    let commitment = choices.of(&[
        Commitment::WhereNeeded,
        Commitment::Always,
        Commitment::Never,
        Commitment::Wrong,
        Commitment::ShortNonce,
        Commitment::NoNonce,
    ]);
    let coinbase_height = HEIGHT + choices.of(&[0, 0, 0, 1]);
    let value = (SUBSIDY + fees(&txs) + choices.of(&[0, -1, 0, 1])).clamp(0, MAX_MONEY);
    let mut all = vec![coinbase(coinbase_height, value, choices.of(&[0, 1, SIGOPS_MAX, SIGOPS_MAX + 1]))];
    all.extend(txs);
    put_rare(&mut all, rare);
    let commits = commit(&mut all, commitment);
    let want = wanted(&all, commitment, commits, coinbase_height, rare);
    let verdict = judge(&all, rare);
    let got = verdict.as_ref().map_err(|error| error.reject_reason().into_owned());
    assert_eq!(got.err().as_deref(), want, "the rules, and the model");
    verdict
}

/// Coins of the chain below: old and young, of coinbases and not.
fn chain_coins(rare: Rare) -> Vec<Coin> {
    let coin = |(at, &(height, coinbase)): (usize, &(u32, bool))| Coin {
        outpoint: OutPoint { txid: Txid::from_bytes([at as u8 + 1; 32]), vout: at as u32 },
        height,
        coinbase,
        value: if rare == Rare::Rich && at < 3 { MAX_MONEY } else { 1_000_000 << at },
    };
    let list =
        [(50, false), (100, true), (101, true), (199, false), (190, false), (1, true), (150, true), (120, false)];
    list.iter().enumerate().map(coin).collect()
}

fn transaction(number: usize, choices: &mut Choices<'_>, coins: &mut Vec<Coin>) -> Tx {
    let mut tx = Tx { version: choices.of(&[2, 1, 0, u32::MAX]), ..Tx::default() };
    for _ in 0..=choices.below(3) {
        // The valid choice is a coin that no other transaction takes before.
        let at = (number + choices.below(coins.len() + 1)) % (coins.len() + 1);
        let missing = Coin { outpoint: OutPoint { txid: Txid::from_bytes([0xee; 32]), vout: 7 }, value: 5, ..coins[0] };
        let sequence = choices.of(&[u32::MAX, u32::MAX - 1, 0, 1, 9, 10, 11, 0x0040_0001, 0x0040_0014, 1 << 31]);
        let witness = choices.of(&[0, 1, 2]);
        tx.inputs.push(In {
            coin: *coins.get(at).unwrap_or(&missing),
            exists: at < coins.len(),
            sequence,
            script_sig: Vec::new(),
            witness: vec![vec![7; 3]; witness],
        });
    }
    let now = median_time_past(HEIGHT - 1);
    tx.lock_time = choices.of(&[0, HEIGHT - 1, HEIGHT, LOCKTIME_THRESHOLD - 1, LOCKTIME_THRESHOLD, now - 1, now]);
    let taken: i64 = tx.inputs.iter().map(|input| input.coin.value).sum();
    let given = (taken - choices.of(&[0, 1, 1_000, -1, taken])).max(0);
    let second = choices.of(&[0, 1, given / 2]).min(given);
    let sigops = choices.of(&[0, 1, SIGOPS_MAX / 2]);
    // The number makes transactions distinct: two equal ones would break another rule.
    tx.outputs = vec![(given - second, vec![1, number as u8, 0x75, 0x51]), (second, vec![0xac; sigops])];
    let txid = tx.txid();
    let made = tx.outputs.iter().enumerate().map(|(vout, &(value, _))| Coin {
        outpoint: OutPoint { txid, vout: vout as u32 },
        height: HEIGHT,
        coinbase: false,
        value,
    });
    coins.extend(made);
    tx
}

fn fees(txs: &[Tx]) -> i64 {
    txs.iter().map(|tx| tx.taken() - tx.given()).sum()
}

fn coinbase(height: u32, value: i64, sigops: usize) -> Tx {
    let (push, bytes) = block::height_push(Height::new(height));
    let coin = Coin { outpoint: OutPoint::NULL, height: 0, coinbase: false, value: 0 };
    let script_sig = [&push[..bytes], &[0, 0]].concat();
    let input = In { coin, exists: true, sequence: u32::MAX, script_sig, witness: Vec::new() };
    Tx { version: 2, inputs: vec![input], outputs: vec![(value, vec![0xac; sigops])], lock_time: 0 }
}

/// Applies a rare property to a block.
fn put_rare(txs: &mut [Tx], rare: Rare) {
    let (coinbase, last) = match txs {
        [coinbase, .., last] => (coinbase, Some(last)),
        [coinbase] => (coinbase, None),
        [] => return,
    };
    match (rare, last) {
        (Rare::Long, _) => coinbase.outputs.push((0, vec![0; LONG_BYTES])),
        (Rare::Heavy, Some(last)) => last.inputs[0].witness.push(vec![0; HEAVY_BYTES]),
        (Rare::NullPrevout, Some(last)) => {
            let coin = Coin { outpoint: OutPoint::NULL, height: 0, coinbase: false, value: 0 };
            last.inputs.push(In { coin, exists: false, sequence: 0, script_sig: Vec::new(), witness: Vec::new() });
        }
        _ => {}
    }
}

/// Adds the commitment to the coinbase; returns whether there is one.
fn commit(txs: &mut [Tx], commitment: Commitment) -> bool {
    let needed = txs.iter().any(Tx::has_witness);
    if commitment == Commitment::Never || commitment == Commitment::WhereNeeded && !needed {
        return false;
    }
    let mut leaves: Vec<Hash256> = txs.iter().map(|tx| tx.wtxid().to_hash256()).collect();
    leaves[0] = Hash256::ZERO;
    let nonce = [9; 32];
    let mut hash = sha256d(&[merkle::root(kernels::Kernels::AUTO, &mut leaves).0.0, nonce].concat());
    hash[0] ^= u8::from(commitment == Commitment::Wrong);
    txs[0].outputs.push((0, [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &hash].concat()));
    txs[0].inputs[0].witness = match commitment {
        Commitment::ShortNonce => vec![nonce[1..].to_vec()],
        Commitment::NoNonce => Vec::new(),
        _ => vec![nonce.to_vec()],
    };
    true
}

/// The verdict expected of Core, determined by the simplest means, in the order of its checks.
fn wanted(txs: &[Tx], commitment: Commitment, commits: bool, coinbase_height: u32, rare: Rare) -> Option<&'static str> {
    if rare == Rare::Long {
        return Some("bad-blk-length");
    }
    if let Some(reason) = txs.iter().zip(0..).find_map(|(tx, number)| tx.wanted_alone(number == 0)) {
        return Some(reason);
    }
    let sigops: usize = txs.iter().flat_map(|tx| &tx.outputs).map(|(_, script)| operations(script)).sum();
    if sigops > SIGOPS_MAX {
        return Some("bad-blk-sigops");
    }
    if !txs.iter().all(Tx::is_final) {
        return Some("bad-txns-nonfinal");
    }
    if coinbase_height != HEIGHT {
        return Some("bad-cb-height");
    }
    match commitment {
        _ if !commits && txs.iter().any(Tx::has_witness) => return Some("unexpected-witness"),
        Commitment::ShortNonce | Commitment::NoNonce if commits => return Some("bad-witness-nonce-size"),
        Commitment::Wrong if commits => return Some("bad-witness-merkle-match"),
        _ if rare == Rare::Heavy && txs.len() > 1 => return Some("bad-blk-weight"),
        _ => {}
    }
    wanted_of_coins(txs)
}

/// The part of the expected verdict that depends on coins.
fn wanted_of_coins(txs: &[Tx]) -> Option<&'static str> {
    let mut all_fees = 0;
    let mut spent: Vec<OutPoint> = Vec::new();
    for tx in &txs[1..] {
        for input in &tx.inputs {
            if !input.exists || spent.contains(&input.coin.outpoint) {
                return Some("bad-txns-inputs-missingorspent");
            }
        }
        spent.extend(tx.inputs.iter().map(|input| input.coin.outpoint));
        let mut taken = 0;
        for coin in tx.inputs.iter().map(|input| &input.coin) {
            if coin.coinbase && HEIGHT - coin.height < 100 {
                return Some("bad-txns-premature-spend-of-coinbase");
            }
            taken += coin.value;
            if taken > MAX_MONEY {
                return Some("bad-txns-inputvalues-outofrange");
            }
        }
        if tx.taken() < tx.given() {
            return Some("bad-txns-in-belowout");
        }
        all_fees += tx.taken() - tx.given();
        if all_fees > MAX_MONEY {
            return Some("bad-txns-accumulated-fee-outofrange");
        }
        if !tx.locks_are_met() {
            return Some("bad-txns-nonfinal");
        }
    }
    (txs[0].given() > SUBSIDY + fees(&txs[1..])).then_some("bad-cb-amount")
}

/// Signature operations of a script of this file: a single OP_CHECKSIG, or none.
fn operations(script: &[u8]) -> usize {
    if script.iter().all(|&op| op == 0xac) { script.len() } else { 0 }
}

impl Tx {
    /// Context-free errors of the transaction, as a coinbase or as another one.
    fn wanted_alone(&self, is_coinbase: bool) -> Option<&'static str> {
        let mut given = 0;
        for &(value, _) in &self.outputs {
            given += value;
            if value > MAX_MONEY {
                return Some("bad-txns-vout-toolarge");
            }
            if given > MAX_MONEY {
                return Some("bad-txns-txouttotal-toolarge");
            }
        }
        let outpoints: Vec<OutPoint> = self.inputs.iter().map(|input| input.coin.outpoint).collect();
        if (1..outpoints.len()).any(|at| outpoints[..at].contains(&outpoints[at])) {
            return Some("bad-txns-inputs-duplicate");
        }
        (!is_coinbase && outpoints.contains(&OutPoint::NULL)).then_some("bad-txns-prevout-null")
    }

    fn taken(&self) -> i64 {
        self.inputs.iter().map(|input| input.coin.value).sum()
    }

    fn given(&self) -> i64 {
        self.outputs.iter().map(|output| output.0).sum()
    }

    fn has_witness(&self) -> bool {
        self.inputs.iter().any(|input| !input.witness.is_empty())
    }

    /// Source: Bitcoin Core b88bffe, consensus/tx_verify.cpp, `IsFinalTx`.
    fn is_final(&self) -> bool {
        let limit = if self.lock_time < LOCKTIME_THRESHOLD { HEIGHT } else { median_time_past(HEIGHT - 1) };
        self.lock_time == 0 || self.lock_time < limit || self.inputs.iter().all(|input| input.sequence == u32::MAX)
    }

    /// Source: BIP-0068.
    fn locks_are_met(&self) -> bool {
        let is_met = |input: &In| {
            let wait = input.sequence & 0xffff;
            if input.sequence & 1 << 31 != 0 {
                true
            } else if input.sequence & 1 << 22 != 0 {
                let made = median_time_past(input.coin.height - 1);
                median_time_past(HEIGHT - 1) >= made + (wait << 9)
            } else {
                HEIGHT >= input.coin.height + wait
            }
        };
        self.version < 2 || self.inputs.iter().all(is_met)
    }

    fn serialize(&self, witness: bool) -> Vec<u8> {
        let mut out = self.version.to_le_bytes().to_vec();
        if witness {
            out.extend([0, 1]);
        }
        put_compact_size(&mut out, self.inputs.len() as u64);
        for input in &self.inputs {
            out.extend(input.coin.outpoint.txid.as_bytes());
            out.extend(input.coin.outpoint.vout.to_le_bytes());
            put_bytes(&mut out, &input.script_sig);
            out.extend(input.sequence.to_le_bytes());
        }
        put_compact_size(&mut out, self.outputs.len() as u64);
        for (value, script) in &self.outputs {
            out.extend(value.to_le_bytes());
            put_bytes(&mut out, script);
        }
        for input in self.inputs.iter().filter(|_| witness) {
            put_compact_size(&mut out, input.witness.len() as u64);
            input.witness.iter().for_each(|item| put_bytes(&mut out, item));
        }
        out.extend(self.lock_time.to_le_bytes());
        out
    }

    fn bytes(&self) -> Vec<u8> {
        self.serialize(self.has_witness())
    }

    fn txid(&self) -> Txid {
        Txid::from_bytes(sha256d(&self.serialize(false)))
    }

    fn wtxid(&self) -> Wtxid {
        Wtxid::from_bytes(sha256d(&self.bytes()))
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend(bytes);
}

/// The verdict of the rules.
fn judge(txs: &[Tx], rare: Rare) -> Result<(), BlockError> {
    let params = Params::new(crate::Chain::Regtest);
    let (root, _) = merkle::root(kernels::Kernels::AUTO, &mut txs.iter().map(|tx| tx.txid().to_hash256()).collect());
    let header = Header::new(4, BlockHash::ZERO, root, median_time_past(HEIGHT), 0x207f_ffff, 0);
    let mut bytes = header.0.to_vec();
    put_compact_size(&mut bytes, txs.len() as u64);
    txs.iter().for_each(|tx| bytes.extend(tx.bytes()));
    let mut coins: HashMap<OutPoint, Coin> = chain_coins(rare).into_iter().map(|coin| (coin.outpoint, coin)).collect();
    let context = block::Context {
        height: Height::new(HEIGHT),
        median_time_past: MedianTime::new(median_time_past(HEIGHT - 1)),
        cleanup: crate::Cleanup::Off,
    };
    let mut take = |number: usize, input: usize| {
        if input == 0 && number > 1 {
            let txid = txs[number - 1].txid();
            let height = HEIGHT;
            let made = txs[number - 1].outputs.iter().enumerate().map(|(vout, &(value, _))| {
                let outpoint = OutPoint { txid, vout: vout as u32 };
                (outpoint, Coin { outpoint, height, coinbase: false, value })
            });
            coins.extend(made);
        }
        let coin = coins.remove(&txs[number].inputs[input].coin.outpoint)?;
        let height = Height::new(coin.height);
        let value = Amount(coin.value);
        Some(SpentCoin { height, coinbase: coin.coinbase, value, script: &[] })
    };
    judged(&params, &bytes, &context, &mut take, &|height| MedianTime::new(median_time_past(height.to_u32())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use testkit::Rng;

    #[test]
    fn empty_recipe_gives_a_valid_block() {
        assert_eq!(fuzz_recipe(&[]), Ok(()));
    }

    #[test]
    fn recipes_with_all_the_money_are_refused() {
        // A transaction of two inputs; two of one. What they take is the fee.
        let of_two = [0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0];
        let of_one = [0, 0, 0, 0, 0, 0, 4, 0, 0];
        for (row, bytes, want) in [
            ("inputs", [&[1][..], &of_two, &[0, 0, 0, 0, 60]].concat(), "bad-txns-inputvalues-outofrange"),
            ("fees", [&[2][..], &of_one, &of_one, &[0, 0, 0, 0, 60]].concat(), "bad-txns-accumulated-fee-outofrange"),
        ] {
            assert_eq!(fuzz_recipe(&bytes).unwrap_err().reject_reason(), want, "{row}");
        }
    }

    #[test]
    fn random_recipes_get_the_models_reason() {
        let mut met: BTreeMap<String, usize> = BTreeMap::new();
        let mut rng = Rng::new(1);
        for _ in 0..if testkit::is_slow() { 2_000_000 } else { 20_000 } {
            let mut data = vec![0; 1 + rng.below(60)];
            data[0] = rng.byte();
            // Large blocks take milliseconds each.
            let rare = [59, 60, 60, 60, 61, 61, 62, 63];
            let last = data.len() - 1;
            if rng.below(8) == 0 {
                let bound = if rng.below(30) == 0 { rare.len() } else { rare.len() - 2 };
                data[last] = rare[rng.below(bound)];
            }
            // Few choices that are not the valid one, or every block breaks several rules.
            for _ in 0..rng.below(8) {
                let at = rng.below(data.len());
                data[at] = rng.byte();
            }
            let verdict = fuzz_recipe(&data);
            let reason = verdict.map_or_else(|error| error.reject_reason().into_owned(), |()| "valid".to_owned());
            *met.entry(reason).or_default() += 1;
        }
        for want in [
            "valid",
            "bad-txns-inputs-duplicate",
            "bad-blk-sigops",
            "bad-txns-nonfinal",
            "bad-cb-height",
            "unexpected-witness",
            "bad-witness-nonce-size",
            "bad-witness-merkle-match",
            "bad-txns-inputs-missingorspent",
            "bad-txns-premature-spend-of-coinbase",
            "bad-txns-in-belowout",
            "bad-cb-amount",
            "bad-txns-prevout-null",
            "bad-blk-length",
            "bad-blk-weight",
            "bad-txns-vout-toolarge",
        ] {
            assert!(met.get(want).is_some_and(|&count| count > 5), "{want}: {met:?}");
        }
    }

    #[test]
    fn seeds_of_the_fuzzer_hold() {
        for seed in testkit::fuzz_seeds("recipe") {
            let _ = fuzz_recipe(&seed);
        }
    }
}
