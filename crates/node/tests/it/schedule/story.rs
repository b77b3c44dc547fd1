//! The generator: blocks of random transactions, good or with a flaw, and stories of forks and refused blocks.

use super::model::{Branch, Coin, FLAWS, Flaw, UtxoSet};
use consensus::{Chain, Params};
use primitives::{Header, OutPoint, Target, Txid};
use testkit::Rng;
use testkit::blocks::{self, In};

const BITS: u32 = 0x207f_ffff;
const FIRST_TIME: u32 = 1_700_000_000;
const OP_RETURN: u8 = 0x6a;

/// Groups of blocks as they become known, and where they must end.
pub(crate) struct Story {
    pub(crate) groups: Vec<Vec<Vec<u8>>>,
    pub(crate) end: Branch,
    /// What is wrong with the blocks that are refused, in order.
    pub(super) flaws: Vec<Flaw>,
}

/// A base of 130 blocks; then branches, some with an invalid block below others, each longer than what was best before.
pub(crate) fn story(random: &mut Rng) -> Story {
    let params = Params::new(Chain::Regtest);
    let mut best = Branch::new(params.genesis_hash);
    let mut groups = vec![(0..130).map(|_| best.block(random, Flaw::None)).collect::<Vec<_>>()];
    let mut made = Vec::new();
    let mut forks = vec![best.clone()];
    for _ in 0..1 + random.below(5) {
        let mut branch = forks[random.below(forks.len())].clone();
        let mut group = Vec::new();
        let good = (best.height + 1 - branch.height) as usize + random.below(12);
        for _ in 0..good {
            group.push(branch.block(random, Flaw::None));
            if random.below(4) == 0 {
                forks.push(branch.clone());
            }
        }
        best = branch.clone();
        if random.below(2) == 0 {
            let flaw = FLAWS[random.below(FLAWS.len())];
            let bad = branch.block(random, flaw);
            // Blocks above it, which look good and are spent and created before the verdict.
            branch.tip = Header(*bad.first_chunk().unwrap()).hash();
            branch.height += 1;
            group.push(bad);
            made.push(flaw);
            for _ in 0..random.below(10) {
                group.push(branch.block(random, Flaw::None));
            }
        }
        groups.push(group);
    }
    Story { groups, end: best, flaws: made }
}

impl Branch {
    /// A block on this branch, with a flaw or none; a good one moves the branch on.
    pub(super) fn block(&mut self, random: &mut Rng, flaw: Flaw) -> Vec<u8> {
        let height = self.height + 1;
        let mut set = self.set.clone();
        let (mut spent, mut transactions, mut fees) = (Vec::new(), Vec::new(), 0u64);
        let count = 1 + random.below(12);
        let flawed = random.below(count);
        for index in 0..count {
            let old: Vec<OutPoint> = set
                .iter()
                .filter(|(_, coin)| !coin.coinbase || height - coin.height >= 100)
                .map(|(outpoint, _)| *outpoint)
                .collect();
            if old.is_empty() {
                break;
            }
            if index == flawed && flaw == Flaw::MadeAgain && !self.made.is_empty() {
                transactions.push(self.made[random.below(self.made.len())].clone());
                continue;
            }
            let mut inputs = Vec::new();
            let mut sum = 0;
            for _ in 0..1 + random.below(4.min(old.len())) {
                let outpoint = old[random.below(old.len())];
                if let Some(coin) = set.remove(&outpoint) {
                    sum += coin.value;
                    inputs.push((outpoint, vec![]));
                    spent.push((outpoint, coin));
                }
            }
            let mut wanted = sum;
            if index == flawed {
                match flaw {
                    Flaw::SpentBefore if !self.spent.is_empty() => {
                        inputs.push((self.spent[random.below(self.spent.len())].0, vec![]));
                    }
                    Flaw::SpentTwice if spent.len() > inputs.len() => inputs.push((spent[0].0, vec![])),
                    Flaw::NeverMade | Flaw::SpentBefore | Flaw::SpentTwice | Flaw::MadeAgain => {
                        let txid = Txid::from_bytes(std::array::from_fn(|_| random.u64() as u8));
                        inputs.push((OutPoint { txid, vout: 3 }, vec![]));
                    }
                    Flaw::TooMuch => wanted += 1,
                    Flaw::ScriptFails => inputs[0].1 = vec![OP_RETURN],
                    _ => {}
                }
            }
            let outputs = 1 + random.below(4) as u64;
            let fee = if flaw == Flaw::TooMuch { 0 } else { (random.u64() % 3).min(wanted) };
            let each = (wanted - fee) / outputs;
            let outputs = if index == flawed && flaw == Flaw::NoOutputs { 0 } else { outputs };
            let outputs: Vec<(u64, Vec<u8>)> = (0..outputs)
                .map(|n| (if n == 0 { wanted - fee - each * (outputs - 1) } else { each }, script(random)))
                .collect();
            fees += fee;
            let bytes = transaction(&inputs, &outputs);
            let txid = blocks::txid_of(&bytes);
            for (vout, (value, script)) in outputs.into_iter().enumerate() {
                let coin = Coin { height, coinbase: false, value, script };
                set.insert(OutPoint { txid, vout: vout as u32 }, coin);
            }
            transactions.push((txid, bytes));
        }
        let said_height = if flaw == Flaw::OtherHeight { height + 1 } else { height };
        let reward = fees + u64::from(flaw == Flaw::TooMuchReward);
        let header = self.mined(random, height, said_height, reward, &mut transactions, &mut set);
        if flaw == Flaw::OtherBody {
            let last = transactions.last_mut().expect("there is a coinbase");
            let at = last.1.len() - 1; // A byte of its lock time.
            last.1[at] ^= 1;
        }
        if flaw == Flaw::None {
            (self.tip, self.height, self.set) = (header.hash(), height, set);
            self.spent.extend(spent);
            self.made.extend_from_slice(&transactions[1..]);
        }
        let mut block = header.0.to_vec();
        blocks::put_compact_size(&mut block, transactions.len());
        block.extend(transactions.iter().flat_map(|(_, bytes)| bytes));
        block
    }

    fn mined(
        &self,
        random: &mut Rng,
        height: u32,
        said_height: u32,
        fees: u64,
        transactions: &mut Vec<(Txid, Vec<u8>)>,
        set: &mut UtxoSet,
    ) -> Header {
        let subsidy = (5_000_000_000u64 >> (height / 150)) + fees;
        let mut push = match said_height {
            1..=16 => vec![0x50 + said_height as u8],
            17..=127 => vec![1, said_height as u8],
            _ => vec![2, said_height as u8, (said_height >> 8) as u8],
        };
        push.extend([4]);
        push.extend((random.u64() as u32).to_le_bytes()); // Branches make coinbases of their own.
        let null = OutPoint { txid: Txid::ZERO, vout: u32::MAX };
        let outputs = [(subsidy, script(random)), (0, vec![0x6a, 1, 7])];
        let coinbase = transaction(&[(null, push)], &outputs);
        let txid = blocks::txid_of(&coinbase);
        let [(value, script), _] = outputs;
        set.insert(OutPoint { txid, vout: 0 }, Coin { height, coinbase: true, value, script });
        transactions.insert(0, (txid, coinbase));
        let root = blocks::merkle_root(transactions.iter().map(|(txid, _)| txid.to_hash256()));
        let target = Target::from_compact(BITS).unwrap();
        let time = FIRST_TIME + height * 600;
        (0..)
            .map(|nonce| Header::new(0x2000_0000, self.tip, root, time, BITS, nonce))
            .find(|header| target.is_met_by(&header.hash()))
            .unwrap()
    }
}

fn transaction(inputs: &[(OutPoint, Vec<u8>)], outputs: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let input = |(prevout, script): &(OutPoint, Vec<u8>)| In { script_sig: script.clone(), ..In::of(*prevout) };
    let inputs: Vec<In> = inputs.iter().map(input).collect();
    let outputs: Vec<_> = outputs.iter().map(|(value, script)| (value.cast_signed(), script.clone())).collect();
    blocks::transaction(2, &inputs, &outputs, 0)
}

/// A script that anybody may spend.
fn script(random: &mut Rng) -> Vec<u8> {
    const OP_NOP: u8 = 0x61;
    let mut script = vec![OP_NOP; random.below(40)];
    script.push(0x51); // OP_TRUE
    script
}
