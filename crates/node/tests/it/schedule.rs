//! Random chains in random orders of tasks: every order ends with the set, the undo data and the verdicts of a plain model.
//!
//! One thread plays all workers (`Pipeline::set_deterministic`), so that a seed gives the same order again; about half of the runs
//! use threads instead. `SLOW=1` runs for ten minutes.

use crate::memory_backend::Memory;
use coins::table::HashKey;
use consensus::{Chain, Params};
use node::engine::{Activated, Engine, Setup};
use node::headers::AssumeValid;
use node::pipeline::Settings;
use primitives::{Amount, BlockHash, CoinKey, Hash256, Header, Height, OutPoint, Target, Txid, Work, coin};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const BITS: u32 = 0x207f_ffff;
const FIRST_TIME: u32 = 1_700_000_000;
const OP_RETURN: u8 = 0x6a;
const NOW: i64 = 1_795_262_400;

/// SplitMix64.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// A coin of the model.
#[derive(Clone)]
struct Coin {
    height: u32,
    coinbase: bool,
    value: u64,
    script: Vec<u8>,
}

type Set = BTreeMap<OutPoint, Coin>;

/// What is wrong with a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Flaw {
    None,
    /// Spends a coin that an earlier block of its chain spent.
    SpentBefore,
    /// Spends a coin twice.
    SpentTwice,
    /// Spends a coin that never was.
    NeverMade,
    /// Takes more than there is.
    TooMuch,
    /// Has a transaction again that an earlier block has, whose coins may be there.
    MadeAgain,
    /// Has a transaction without outputs.
    NoOutputs,
    /// Its coinbase says another height.
    OtherHeight,
    /// Its body has another Merkle root.
    OtherBody,
    /// Its coinbase takes more than it may.
    TooMuchReward,
    /// A script says no.
    ScriptFails,
}

const FLAWS: [Flaw; 10] = [
    Flaw::SpentBefore,
    Flaw::SpentTwice,
    Flaw::NeverMade,
    Flaw::TooMuch,
    Flaw::MadeAgain,
    Flaw::NoOutputs,
    Flaw::OtherHeight,
    Flaw::OtherBody,
    Flaw::TooMuchReward,
    Flaw::ScriptFails,
];

impl Flaw {
    /// Whether a verdict gives the reason, in Core's words.
    fn says(self, verdict: &str) -> bool {
        let want = match self {
            Flaw::None => unreachable!("nobody refuses it"),
            // Where one of its coins is unspent, the second judgement looks for that first.
            Flaw::MadeAgain if verdict.contains("bad-txns-BIP30") => return true,
            Flaw::SpentBefore | Flaw::NeverMade | Flaw::SpentTwice | Flaw::MadeAgain => {
                "bad-txns-inputs-missingorspent"
            }
            Flaw::TooMuch => "bad-txns-in-belowout",
            Flaw::NoOutputs => "bad-txns-vout-empty",
            Flaw::OtherHeight => "bad-cb-height",
            Flaw::OtherBody => "bad-txnmrklroot",
            Flaw::TooMuchReward => "bad-cb-amount",
            Flaw::ScriptFails => "block-script-verify-flag-failed",
        };
        verdict.contains(want)
    }
}

/// A chain as it grows: what is spendable in it, and what was.
#[derive(Clone)]
pub(crate) struct Branch {
    pub(crate) tip: BlockHash,
    height: u32,
    set: Set,
    spent: Vec<(OutPoint, Coin)>,
    made: Vec<(Txid, Vec<u8>)>,
}

fn varint(out: &mut Vec<u8>, n: usize) {
    assert!(n < 253, "these are small");
    out.push(n as u8);
}

fn transaction(inputs: &[(OutPoint, Vec<u8>)], outputs: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    varint(&mut out, inputs.len());
    for (outpoint, script) in inputs {
        out.extend(outpoint.txid.to_bytes());
        out.extend(outpoint.vout.to_le_bytes());
        varint(&mut out, script.len());
        out.extend(script);
        out.extend([0xff; 4]);
    }
    varint(&mut out, outputs.len());
    for (value, script) in outputs {
        out.extend(value.to_le_bytes());
        varint(&mut out, script.len());
        out.extend(script);
    }
    out.extend([0; 4]);
    out
}

fn merkle_root(txids: &[Txid]) -> Hash256 {
    let mut level: Vec<Hash256> = txids.iter().map(|txid| txid.to_hash256()).collect();
    while level.len() > 1 {
        level = level
            .chunks(2)
            .map(|pair| Hash256(simd::sha256::sha256d(&[pair[0].0, pair[pair.len() - 1].0].concat())))
            .collect();
    }
    level[0]
}

/// A script that anybody may spend.
fn script(random: &mut Random) -> Vec<u8> {
    const OP_NOP: u8 = 0x61;
    let mut script = vec![OP_NOP; random.below(40)];
    script.push(0x51); // OP_TRUE
    script
}

impl Branch {
    /// A block on this branch, with a flaw or none; a good one moves the branch on.
    fn block(&mut self, random: &mut Random, flaw: Flaw) -> Vec<u8> {
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
                        let txid = Txid::from_bytes(std::array::from_fn(|_| random.next() as u8));
                        inputs.push((OutPoint { txid, vout: 3 }, vec![]));
                    }
                    Flaw::TooMuch => wanted += 1,
                    Flaw::ScriptFails => inputs[0].1 = vec![OP_RETURN],
                    _ => {}
                }
            }
            let outputs = 1 + random.below(4) as u64;
            let fee = if flaw == Flaw::TooMuch { 0 } else { (random.next() % 3).min(wanted) };
            let each = (wanted - fee) / outputs;
            let outputs = if index == flawed && flaw == Flaw::NoOutputs { 0 } else { outputs };
            let outputs: Vec<(u64, Vec<u8>)> = (0..outputs)
                .map(|n| (if n == 0 { wanted - fee - each * (outputs - 1) } else { each }, script(random)))
                .collect();
            fees += fee;
            let bytes = transaction(&inputs, &outputs);
            let txid = Txid::from_bytes(simd::sha256::sha256d(&bytes));
            for (vout, (value, script)) in outputs.into_iter().enumerate() {
                let coin = Coin { height, coinbase: false, value, script };
                set.insert(OutPoint { txid, vout: vout as u32 }, coin);
            }
            transactions.push((txid, bytes));
        }
        let said_height = if flaw == Flaw::OtherHeight { height + 1 } else { height };
        let reward = fees + u64::from(flaw == Flaw::TooMuchReward);
        let header = self.mined(random, (height, said_height), reward, &mut transactions, &mut set);
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
        varint(&mut block, transactions.len());
        block.extend(transactions.iter().flat_map(|(_, bytes)| bytes));
        block
    }

    fn mined(
        &self,
        random: &mut Random,
        (height, said_height): (u32, u32),
        fees: u64,
        transactions: &mut Vec<(Txid, Vec<u8>)>,
        set: &mut Set,
    ) -> Header {
        let subsidy = (5_000_000_000u64 >> (height / 150)) + fees;
        let mut push = match said_height {
            1..=16 => vec![0x50 + said_height as u8],
            17..=127 => vec![1, said_height as u8],
            _ => vec![2, said_height as u8, (said_height >> 8) as u8],
        };
        push.extend([4]);
        push.extend((random.next() as u32).to_le_bytes()); // Branches make coinbases of their own.
        let null = OutPoint { txid: Txid::ZERO, vout: u32::MAX };
        let outputs = [(subsidy, script(random)), (0, vec![0x6a, 1, 7])];
        let coinbase = transaction(&[(null, push)], &outputs);
        let txid = Txid::from_bytes(simd::sha256::sha256d(&coinbase));
        let [(value, script), _] = outputs;
        set.insert(OutPoint { txid, vout: 0 }, Coin { height, coinbase: true, value, script });
        transactions.insert(0, (txid, coinbase));
        let root = merkle_root(&transactions.iter().map(|(txid, _)| *txid).collect::<Vec<_>>());
        let target = Target::from_compact(BITS).unwrap();
        let time = FIRST_TIME + height * 600;
        (0..)
            .map(|nonce| Header::new(0x2000_0000, self.tip, root, time, BITS, nonce))
            .find(|header| target.is_met_by(&header.hash()))
            .unwrap()
    }

    /// The set as the tables should hold it.
    fn table(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.set
            .iter()
            .map(|(outpoint, made)| {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                key.extend_from_slice(CoinKey::new(outpoint).as_bytes());
                let code = coin::code(Height::new(made.height), made.coinbase);
                coin::put_coin(&mut value, code, Amount(made.value as i64), &made.script);
                (key, value)
            })
            .collect()
    }
}

/// Groups of blocks as they become known, and where they must end.
pub(crate) struct Story {
    pub(crate) groups: Vec<Vec<Vec<u8>>>,
    pub(crate) end: Branch,
    /// What is wrong with the blocks that are refused, in order.
    flaws: Vec<Flaw>,
}

/// A base of 130 blocks; then branches, some with an invalid block below others, each longer than what was best before.
pub(crate) fn story(random: &mut Random) -> Story {
    let params = Params::new(Chain::Regtest);
    let mut best = Branch { tip: params.genesis_hash, height: 0, set: Set::new(), spent: vec![], made: vec![] };
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

/// What runs of one story have in common.
#[derive(Default)]
struct Same {
    /// Undo data by block.
    undo: HashMap<BlockHash, Option<Vec<u8>>>,
    /// What was refused or lost and why, in order.
    reasons: Option<Vec<String>>,
}

/// One way to run a story.
struct Way {
    settings: Settings,
    eager: bool,
    /// The order in which one thread does everything; threads where there is none.
    choices: Option<Random>,
    moods: Option<Random>,
}

impl Way {
    fn any(random: &mut Random) -> Way {
        let settings = Settings {
            par: 1 + random.below(8),
            window_blocks: [1, 2, 5, 30, 200][random.below(5)],
            budget_bytes: [0, 1 << 20, 64 << 20][random.below(3)],
        };
        let eager = random.below(2) == 0;
        let (choices, moods) = (Random(random.next()), Random(random.next()));
        let choices = (random.below(2) == 0).then_some(choices);
        Way { settings, eager, choices, moods: (random.below(2) == 0).then_some(moods) }
    }
}

/// Runs a story and compares its end with the model's, and with what other runs gave.
fn check(story: &Story, way: Way, same: &mut Same) {
    let params = Params::new(Chain::Regtest);
    let memory = Memory::new(&params);
    let index = memory.index();
    memory.eager.store(way.eager, Ordering::Relaxed);
    *memory.moods.lock().unwrap() = way.moods;
    let setup = Setup {
        pipeline: way.settings,
        assume: AssumeValid { hash: BlockHash::ZERO, minimum_chain_work: Work::ZERO },
        stop_at: None,
        tip: node::tree::GENESIS,
        secret: HashKey([1, 2, 3, 4]),
    };
    let mut engine = Engine::new(&params, &memory, index, setup);
    if let Some(mut random) = way.choices {
        engine.pipeline.set_deterministic(Box::new(move |choices| random.below(choices.len())));
    }
    for block in story.groups.iter().flat_map(|group| group.iter().map(Some).chain([None])) {
        let Some(block) = block else {
            assert_eq!(engine.activate().unwrap(), Activated::Tip);
            continue;
        };
        let header = Header(*block.first_chunk().unwrap());
        let accepted = index.write().accept(&params, &header, header.hash(), NOW);
        // On a block that is refused by now nothing is built.
        let Ok(id) = accepted else { continue };
        memory.found(id, block.clone());
    }
    let (tip, best) = engine.tip_and_hash();
    engine.pipeline.flush((tip, best)).unwrap();
    drop(engine);
    assert_eq!((index.headers().height(tip).to_u32(), best), (story.end.height, story.end.tip));
    assert_eq!(*memory.tables.lock().unwrap(), story.end.table());
    let reasons = std::mem::take(&mut *memory.reasons.lock().unwrap());
    let want = &story.flaws;
    let all = reasons.len() == want.len() && reasons.iter().zip(want).all(|(reason, flaw)| flaw.says(reason));
    assert!(all, "{reasons:?}, want {want:?}");
    assert_eq!(*same.reasons.get_or_insert_with(|| reasons.clone()), reasons, "the same verdicts each time");
    for (node, bytes) in memory.connected.lock().unwrap().iter() {
        let hash = index.headers().hash(*node);
        assert_eq!(same.undo.entry(hash).or_insert_with(|| bytes.clone()), bytes, "undo data are the same each time");
    }
}

#[test]
fn any_order_of_tasks_ends_as_the_model_says() {
    let end = testkit::is_slow().then(|| Instant::now() + Duration::from_secs(600));
    let (mut runs, mut invalid, mut flaws) = (0u32, 0, HashSet::new());
    for seed in 0.. {
        let mut random = Random(seed);
        let (story, mut same) = (story(&mut random), Same::default());
        for _ in 0..4 {
            check(&story, Way::any(&mut random), &mut same);
            runs += 1;
        }
        invalid += story.flaws.len();
        flaws.extend(story.flaws.iter().copied());
        if end.map_or(seed >= 9, |end| Instant::now() >= end) {
            break;
        }
    }
    println!("{runs} runs, {invalid} invalid blocks in their stories, of {} kinds", flaws.len());
    assert!(flaws.len() > 5, "blocks are refused at many stages: {flaws:?}");
}
