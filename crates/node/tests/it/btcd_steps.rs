//! btcd's suite, one step after the other: after each of the 205 the chain stands where the step says.
//!
//! Every rule is Core's, so a rejection is compared by Core's reject string for btcd's code.
//! Absent here: the suite as one file (`traps`).

use crate::memory_backend::Memory;
use crate::traps::{child, combinations, engine_on};
use consensus::{Chain, Params};
use node::chain::tree::Fate;
use node::pipeline::engine::{Activated, Engine};
use primitives::{BlockHash, Header, OutPoint, Tables, Txid, hex};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

/// Two o'clock of 2026-11-21, minutes after the suite was made: its block b47 is nearly three hours ahead of that.
const NOW: i64 = 1_795_226_400;

/// What became of a block.
#[derive(Debug)]
enum Answer {
    /// It is the tip.
    Tip,
    /// It is connected, and another block stands on it.
    Connected,
    /// It is known, and lies beside the chain.
    Beside,
    /// Its parent is not known.
    Orphan,
    /// It was refused for this reason.
    Rejected(String),
    /// Its bytes are no block.
    NotABlock,
}

/// One engine that is given block after block.
struct Follower<'w> {
    params: &'w Params,
    memory: &'w Memory,
    engine: Engine<'w>,
    waiting: HashMap<BlockHash, Vec<Vec<u8>>>,
}

impl Follower<'_> {
    fn tip(&self) -> (String, u32) {
        let (tip, hash) = self.engine.tip_and_hash();
        (hash.to_string(), self.memory.index().headers().height(tip).to_u32())
    }

    /// Takes a block in, and what waited for it; the answer, and all reasons for which any block was refused.
    fn take(&mut self, block: &[u8]) -> (Answer, Vec<String>) {
        let mut tables = Tables::new();
        if tables.parse_block(block).is_err() {
            return (Answer::NotABlock, vec![]);
        }
        let header = Header(*block.first_chunk().unwrap());
        let mut queue = VecDeque::from([block.to_vec()]);
        while let Some(block) = queue.pop_front() {
            let header = Header(*block.first_chunk().unwrap());
            if self.memory.index().headers().find(&header.prev()).is_none() {
                self.waiting.entry(header.prev()).or_default().push(block);
                return (Answer::Orphan, vec![]);
            }
            let accepted = self.memory.index().write().accept(self.params, &header, header.hash(), NOW);
            let id = match accepted {
                Ok(id) => id,
                Err(error) => return (Answer::Rejected(error.to_string()), vec![error.to_string()]),
            };
            if self.memory.index().headers().fate(id) == Fate::Failed {
                let why = self.engine.check_alone(id, block).unwrap_err().to_string();
                return (Answer::Rejected(why.clone()), vec![why]);
            }
            self.memory.found(id, block);
            queue.extend(self.waiting.remove(&header.hash()).unwrap_or_default());
        }
        assert_eq!(self.engine.activate().unwrap(), Activated::Tip);
        self.engine.check_stale_blocks().unwrap();
        let reasons = std::mem::take(&mut *self.memory.reasons.lock().unwrap());
        (self.answer(&header.hash(), &reasons), reasons)
    }

    fn answer(&self, hash: &BlockHash, reasons: &[String]) -> Answer {
        let index = self.memory.index().read();
        let tree = index.headers();
        let id = tree.find(hash).unwrap();
        let tip = self.engine.tip();
        match tree.fate(id) {
            Fate::FailedParent => Answer::Rejected("bad-prevblk".into()),
            Fate::Failed => Answer::Rejected(reasons.join("; ")),
            Fate::Open if !index.has_body(id) => Answer::Rejected(reasons.join("; ")),
            Fate::Open if id == tip => Answer::Tip,
            Fate::Open if tree.is_ancestor(id, tip) => Answer::Connected,
            Fate::Open => Answer::Beside,
        }
    }

    /// Whether a coin is there, in memory or in the tables.
    fn has_coin(&self, name: &str) -> bool {
        let (txid, vout) = name.split_once(':').unwrap();
        let outpoint = OutPoint { txid: Txid::from_display(txid).unwrap(), vout: vout.parse().unwrap() };
        self.engine.coin(&outpoint).unwrap().is_some()
    }
}

/// Core's reject string for btcd's code at this step.
fn core_reason(step: &str, code: &str) -> &'static str {
    match (step, code) {
        (_, "ErrMissingTxOut") => "bad-txns-inputs-missingorspent",
        (_, "ErrBadCoinbaseValue") => "bad-cb-amount",
        (_, "ErrTooManySigOps") => "bad-blk-sigops",
        (_, "ErrImmatureSpend") => "bad-txns-premature-spend-of-coinbase",
        (_, "ErrBlockTooBig") => "bad-blk-length",
        (_, "ErrBadCoinbaseScriptLen") => "bad-cb-length",
        (_, "ErrFirstTxNotCoinbase") => "bad-cb-missing",
        (_, "ErrNoTransactions") => "bad-blk-length",
        (_, "ErrHighHash") => "high-hash",
        (_, "ErrTimeTooNew") => "time-too-new",
        (_, "ErrBadMerkleRoot") => "bad-txnmrklroot",
        // Its bits are negative: Core meets that first.
        ("b49a", _) => "high-hash",
        // Twice the same spend: btcd looks for the name first, Core for the coin.
        ("b51", _) => "bad-txns-inputs-missingorspent",
        (_, "ErrUnexpectedDifficulty") => "bad-diffbits",
        (_, "ErrMultipleCoinbases") => "bad-cb-multiple",
        (_, "ErrDuplicateTx") => "bad-txns-duplicate",
        (_, "ErrTimeTooOld") => "time-too-old",
        (_, "ErrSpendTooHigh") => "bad-txns-in-belowout",
        (_, "ErrBadCoinbaseHeight") => "bad-cb-height",
        (_, "ErrOverwriteTx") => "bad-txns-BIP30",
        (_, "ErrUnfinalizedTx") => "bad-txns-nonfinal",
        _ => panic!("{step}: no reason is known for {code}"),
    }
}

/// Does one step and compares.
fn step(follower: &mut Follower<'_>, step: &Value, row: &str) {
    let text = |field: &str| step[field].as_str().unwrap_or_default();
    let (name, before) = (text("name"), follower.tip());
    let row = format!("{row}, {} {name}", text("kind"));
    let raw = step["raw"].as_str().map(|raw| hex::decode(raw).unwrap());
    let mut take = || follower.take(raw.as_ref().expect("the step has a block"));
    let wanted = || (text("hash").to_owned(), step["height"].as_u64().unwrap() as u32);
    match text("kind") {
        "accepted" => {
            let (answer, reasons) = take();
            let (tip, want) = match (step["main_chain"].as_bool().unwrap(), step["orphan"].as_bool().unwrap()) {
                (true, false) => (wanted(), matches!(answer, Answer::Tip)),
                (false, false) => (before, matches!(answer, Answer::Beside)),
                (_, true) => (before, matches!(answer, Answer::Orphan)),
            };
            assert!(want && reasons.is_empty(), "{row}: {answer:?}, {reasons:?}");
            assert_eq!(follower.tip(), tip, "{row}");
        }
        // The same transactions twice, under a root that says so. Core has no rule against that, and never looks at coins
        // beside the chain: the block is refused when its branch is tried.
        "rejected" if name == "b56p2" => {
            let block = raw.expect("the step has a block");
            let (answer, reasons) = follower.take(&block);
            assert!(matches!(answer, Answer::Beside) && reasons.is_empty(), "{row}: {answer:?}, {reasons:?}");
            let header = Header(*block.first_chunk().unwrap());
            let (answer, reasons) = follower.take(&child(&block, header.version(), 118, header.time() + 1));
            assert!(matches!(&answer, Answer::Rejected(why) if why == "bad-prevblk"), "{row}: {answer:?}");
            assert!(reasons[0].contains("bad-txns-inputs-missingorspent"), "{row}: {reasons:?}");
            assert_eq!(follower.tip(), before, "{row}");
        }
        "rejected" => {
            let (answer, reasons) = take();
            let want = core_reason(name, text("reject"));
            assert!(reasons.iter().any(|reason| reason.contains(want)), "{row}: {want} in {reasons:?}, {answer:?}");
            if name == "b12" {
                // Two blocks waited for it: the first is good and the tip now, the second is the one that is refused.
                assert!(matches!(answer, Answer::Connected), "{row}: {answer:?}");
                return;
            }
            // Where the branch is only tried now, it may be an earlier block of it that is bad.
            let stands_on_bad = |why: &str| why == "bad-prevblk" && ["b8", "b19", "b22"].contains(&name);
            let rejected = matches!(&answer, Answer::Rejected(why) if why.contains(want) || stands_on_bad(why));
            assert!(rejected, "{row}: {answer:?}");
            assert_eq!(follower.tip(), before, "{row}");
        }
        "orphan_or_rejected" => {
            let (answer, _) = take();
            assert!(matches!(&answer, Answer::Rejected(why) if why == "bad-prevblk"), "{row}: {answer:?}");
            assert_eq!(follower.tip(), before, "{row}");
        }
        "rejected_non_canonical" => {
            let (answer, _) = take();
            assert!(matches!(answer, Answer::NotABlock), "{row}: {answer:?}");
            assert_eq!(follower.tip(), before, "{row}");
        }
        "expected_tip" => assert_eq!(before, wanted(), "{row}"),
        // Whether a coin is there once this block is taken off the chain; `main_chain` holds the answer.
        "disconnect_expect_utxo" => {
            if before.0 == text("hash") {
                follower.engine.disconnect_tip().unwrap();
            }
            assert_ne!(follower.tip().0, text("hash"), "{row}");
            assert_eq!(follower.has_coin(text("reject")), step["main_chain"].as_bool().unwrap(), "{row}");
        }
        kind => panic!("{row}: an unknown kind {kind}"),
    }
}

#[test]
fn btcd_suite_agrees_after_each_step() {
    let Some(bytes) = testkit::data::load("suites/btcd_fullblocktests.jsonl.xz") else { return };
    let text = String::from_utf8(bytes).unwrap();
    let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps.len(), 205);
    for (settings, eager) in combinations() {
        let params = Params::new(Chain::Regtest);
        let memory = Memory::new(&params);
        memory.eager.store(eager, Ordering::Relaxed);
        let engine = engine_on(&params, &memory, settings);
        let (params, memory) = (&params, &memory);
        let mut follower = Follower { params, memory, engine, waiting: HashMap::new() };
        for (number, line) in steps.iter().enumerate() {
            step(&mut follower, line, &format!("{settings:?}, eager {eager}, step {number}"));
        }
    }
}
