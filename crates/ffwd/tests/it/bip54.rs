//! BIP-0054 on regtest by `-vbparams`, over whole block files.

use crate::data::{self, REGTEST_MAGIC};
use crate::run::run;
use consensus::{Chain, Params};
use primitives::{BlockHash, Txid};
use testkit::blocks::{self, In, Tx, block, hash_of, record};

const ON: &str = "--vbparams consensuscleanup:-1:-1";
/// Blocks that lie above one so that its scripts are not run where the last is assumed valid: two weeks of them, and a few.
const BURIED: u32 = 2_100;
/// `OP_DUP OP_NOTIF OP_CHECKMULTISIG.. OP_ENDIF`: 2,500 signature operations, of which none runs.
fn many() -> Vec<u8> {
    [&[0x76, 0x64][..], &[0xae; 125], &[0x68]].concat()
}

/// A coinbase that keeps the rules; two outputs, so that it has more than 64 bytes at any height.
fn coinbase(height: u32) -> Tx {
    let mut tx = Tx::coinbase(height, 0);
    tx.inputs[0].sequence = u32::MAX - 1;
    tx.lock_time = height - 1;
    tx.outputs.push((0, vec![0x51]));
    tx
}

struct Made {
    records: Vec<u8>,
    tip: BlockHash,
    height: u32,
}

impl Made {
    fn new() -> Made {
        let genesis = Params::new(Chain::Regtest).genesis;
        Made { records: record(REGTEST_MAGIC, &genesis), tip: hash_of(&genesis), height: 0 }
    }

    fn add(&mut self, transactions: Vec<Tx>) -> Txid {
        self.height += 1;
        let all = [vec![coinbase(self.height)], transactions].concat();
        let bytes = block(self.tip, blocks::GENESIS_TIME + 600 * self.height, &all);
        self.records.extend(record(REGTEST_MAGIC, &bytes));
        self.tip = hash_of(&bytes);
        all[0].txid()
    }

    fn grow(&mut self, count: u32) {
        (0..count).for_each(|_| {
            self.add(Vec::new());
        });
    }
}

/// A chain in which block 111 spends an output with 2,500 signature operations; `beside` of them stand in the script of the
/// input as well.
fn chain(beside: usize) -> Made {
    let mut made = Made::new();
    let first = made.add(Vec::new());
    made.grow(109);
    let prepared = Tx { outputs: vec![(0, many())], ..Tx::spend(primitives::OutPoint { txid: first, vout: 0 }, 0) };
    // One OP_CHECKSIG that never runs: it stands behind a branch that is not taken, and leaves a true value.
    let mut script_sig = vec![0x51, 0x00, 0x63];
    script_sig.extend(vec![0xac; beside]);
    script_sig.push(0x68);
    let spend = Tx { inputs: vec![In { script_sig, ..In::of(prepared.out(0)) }], ..Tx::spend(prepared.out(0), 0) };
    made.add(vec![prepared, spend]);
    made
}

#[test]
fn signature_operations_count_also_where_scripts_are_assumed_valid() {
    for (row, beside, buried, line, height, refused) in [
        ("at the limit", 0, 0, ON, 111, false),
        ("one more", 1, 0, ON, 110, true),
        ("one more, off", 1, 0, "", 111, false),
        ("at the limit, assumed valid", 0, BURIED, ON, 111 + BURIED, false),
        ("one more, assumed valid", 1, BURIED, ON, 110, true),
    ] {
        let mut made = chain(beside);
        made.grow(buried);
        let assumed = if buried > 0 { format!("--assumevalid {}", made.tip) } else { String::new() };
        let directory = data::directory("regtest", &made.records);
        let ran = run(directory.path(), &format!("reindex --datadir @ --chain regtest --json {line} {assumed}"));
        assert_eq!(ran.json()["height"], height, "{row}: {ran:?}");
        assert_eq!(ran.err.contains("bad-txns-legacy-sigops"), refused, "{row}: {ran:?}");
    }
}

#[test]
fn chain_that_keeps_no_rule_is_good_where_it_is_off() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let go = |line: &str| run(directory.path(), &format!("{line} --datadir @ --chain regtest --json"));
    let ran = go(&format!("reindex {ON}"));
    // The lock time 0 is the height below the first block; its sequence is the usual one.
    assert!(ran.err.contains("bad-cb-sequence"), "{ran:?}");
    assert_eq!(ran.json()["height"], 0, "{ran:?}");
    // A reindex with the switch marks nothing for ever: without it the chain is good.
    assert_eq!(go("reindex").good()["height"], 206);
    for (line, code, says) in [
        ("info --datadir @ --chain main --vbparams consensuscleanup:-1:-1", 2, "may not be used on mainnet"),
        ("info --datadir @ --chain regtest --vbparams cleanup:-1:-1", 2, "Invalid deployment (cleanup)"),
        ("params --chain regtest", 0, "consensuscleanup    failed, bit 3"),
    ] {
        let ran = run(directory.path(), line);
        assert!(ran.code == Some(code) && format!("{}{}", ran.err, ran.out).contains(says), "{line}: {ran:?}");
    }
}
