//! One block for each rule, made by hand on a regtest chain of 101 blocks: it breaks that rule, and its neighbour does not.
//!
//! Scripts are not run: witnesses and redeem scripts are here for their size and place only.

use crate::ledger::{Coin, Ledger, Refused};
use consensus::{BlockError, Chain, Class, Params, Place, Rule, transaction};
use primitives::{Amount, Hash256, Header, Height, OutPoint, Tables, Txid};
use script::ScriptError;
use testkit::blocks::{ANYONE, COIN, In, Tx, block, commit, meets_easiest, mine, with_body};

/// The block on which the cases stand.
const BASE: u32 = 101;
const SUBSIDY: i64 = 50 * COIN;
const TIME: u32 = 1_700_000_000;

/// 101 blocks whose coinbases pay to a script that is always true; that of block 1 is mature for block 102, not for 101.
fn base(params: Params) -> (Ledger, Vec<Tx>) {
    let (mut ledger, mut coinbases) = (Ledger::new(params), Vec::new());
    ledger.scripts = false;
    for height in 1..=BASE {
        let coinbase = Tx::coinbase(height, SUBSIDY);
        let bytes = block(ledger.tip(), TIME + height, std::slice::from_ref(&coinbase));
        ledger.connect(&bytes).unwrap();
        coinbases.push(coinbase);
    }
    (ledger, coinbases)
}

/// The verdict on `bytes`; an empty text for none.
fn verdict(ledger: &Ledger, bytes: &[u8]) -> String {
    judged(ledger, bytes).map_or_else(String::new, |error| error.reject_reason().into_owned())
}

fn judged(ledger: &Ledger, bytes: &[u8]) -> Option<BlockError> {
    let mut ledger = ledger.clone();
    let before = (ledger.height(), ledger.coins.len());
    match ledger.connect(bytes) {
        Ok(_) => {
            assert_eq!(ledger.height(), before.0 + 1);
            None
        }
        Err(Refused::Verdict(error)) => {
            assert_eq!((ledger.height(), ledger.coins.len()), before, "a refused block leaves no trace");
            Some(error)
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// What a table of cases works with.
struct Bench {
    ledger: Ledger,
    /// Of blocks 1, 2, ...
    coinbases: Vec<Tx>,
}

impl Bench {
    fn new() -> Bench {
        let (ledger, coinbases) = base(Params::new(Chain::Regtest));
        Bench { ledger, coinbases }
    }

    /// A spend of block 1's coinbase that leaves no fee.
    fn spend(&self) -> Tx {
        Tx::spend(self.coinbases[0].out(0), SUBSIDY)
    }

    fn with(&self, change: impl FnOnce(&mut Tx)) -> Tx {
        let mut tx = self.spend();
        change(&mut tx);
        tx
    }

    fn coinbase(&self, change: impl FnOnce(&mut Tx)) -> Tx {
        let mut tx = Tx::coinbase(BASE + 1, SUBSIDY);
        change(&mut tx);
        tx
    }

    fn block(&self, txs: &[Tx]) -> Vec<u8> {
        block(self.ledger.tip(), TIME + BASE + 1, txs)
    }

    /// A coinbase, then these.
    fn plus(&self, txs: &[Tx]) -> Vec<u8> {
        self.block(&[&[self.coinbase(|_| {})], txs].concat())
    }
}

fn check(bench: &Bench, rows: &[(&str, Vec<u8>, &str)]) {
    for (row, bytes, want) in rows {
        assert_eq!(verdict(&bench.ledger, bytes), *want, "{row}");
    }
}

#[test]
fn header_rules_and_neighbours() {
    let bench = Bench::new();
    let tx = [bench.coinbase(|_| {})];
    let good = bench.plus(&[]);
    let header = |version, time, bits| {
        with_body(mine(version, bench.ledger.tip(), tx[0].txid().to_hash256(), time, bits), &[tx[0].bytes()])
    };
    let (time, bits) = (TIME + BASE + 1, 0x207f_ffff);
    let mut unproved = good.clone();
    while meets_easiest(&Header(*unproved.first_chunk().unwrap())) {
        unproved[76] = unproved[76].wrapping_add(1);
    }
    // Blocks 91 to 101 have the times TIME + 91 to TIME + 101.
    let median = TIME + 96;
    check(
        &bench,
        &[
            ("good", good.clone(), ""),
            ("no work", unproved, "high-hash"),
            ("other bits", header(4, time, 0x207f_fffe), "bad-diffbits"),
            ("at the median", header(4, median, bits), "time-too-old"),
            ("above the median", header(4, median + 1, bits), ""),
            ("two hours ahead", header(4, (crate::ledger::NOW + 7200) as u32, bits), ""),
            ("more than two hours ahead", header(4, (crate::ledger::NOW + 7201) as u32, bits), "time-too-new"),
            ("version 3", header(3, time, bits), "bad-version(0x00000003)"),
        ],
    );
    // BIP-0094 on regtest: the 144th block may not be more than ten minutes before its parent.
    let mut bip94 = Ledger::new(Params::new(Chain::Regtest).with_bip94().unwrap());
    for height in 1..=143 {
        let time = if height == 143 { TIME + 10_000 } else { TIME + height };
        bip94.connect(&block(bip94.tip(), time, &[Tx::coinbase(height, 0)])).unwrap();
    }
    for (time, want) in [(TIME + 9400, ""), (TIME + 9399, "time-timewarp-attack")] {
        assert_eq!(verdict(&bip94, &block(bip94.tip(), time, &[Tx::coinbase(144, 0)])), want);
    }
}

#[test]
fn body_rules_and_neighbours() {
    let bench = Bench::new();
    let [a, b] = [bench.spend(), Tx::spend(bench.coinbases[1].out(0), SUBSIDY)];
    let coinbase = bench.coinbase(|_| {});
    let good = bench.plus(&[a.clone(), b.clone()]);
    let header = Header(*good.first_chunk().unwrap());
    let body = [coinbase.bytes(), a.bytes(), b.bytes()];
    let doubled = [&body[..], &body[2..]].concat();
    let null = OutPoint::NULL;
    let long = |bytes: usize| bench.with(|tx| tx.outputs.push((0, vec![0x6a; bytes])));
    // Everything but the script of the second output, with lengths of that size.
    let rest = bench.plus(&[long(100_000)]).len() - 100_000;
    check(
        &bench,
        &[
            ("good", good.clone(), ""),
            (
                "another order",
                with_body(header, &[body[0].clone(), body[2].clone(), body[1].clone()]),
                "bad-txnmrklroot",
            ),
            ("the last one doubled", with_body(header, &doubled), "bad-txns-duplicate"),
            (
                "no transaction",
                with_body(mine(4, header.prev(), Hash256::ZERO, header.time(), header.bits()), &[]),
                "bad-blk-length",
            ),
            ("1,000,000 bytes", bench.plus(&[long(1_000_000 - rest)]), ""),
            ("1,000,001 bytes", bench.plus(&[long(1_000_001 - rest)]), "bad-blk-length"),
            ("no coinbase", bench.block(&[a.clone(), b.clone()]), "bad-cb-missing"),
            ("coinbase second", bench.block(&[a.clone(), coinbase.clone()]), "bad-cb-missing"),
            ("two coinbases", bench.plus(&[a.clone(), bench.coinbase(|tx| tx.lock_time = 1)]), "bad-cb-multiple"),
            ("no inputs", bench.plus(&[bench.with(|tx| tx.inputs.clear())]), "bad-txns-vin-empty"),
            ("no outputs", bench.plus(&[bench.with(|tx| tx.outputs.clear())]), "bad-txns-vout-empty"),
            (
                "coinbase without outputs",
                bench.block(&[bench.coinbase(|tx| tx.outputs.clear())]),
                "bad-txns-vout-empty",
            ),
            ("negative", bench.plus(&[bench.with(|tx| tx.outputs[0].0 = -1)]), "bad-txns-vout-negative"),
            (
                "too large",
                bench.plus(&[bench.with(|tx| tx.outputs[0].0 = Amount::MAX.0 + 1)]),
                "bad-txns-vout-toolarge",
            ),
            ("all there is", bench.plus(&[bench.with(|tx| tx.outputs[0].0 = Amount::MAX.0)]), "bad-txns-in-belowout"),
            (
                "all there is and one",
                bench.plus(&[bench.with(|tx| tx.outputs = vec![(Amount::MAX.0, vec![]), (1, vec![])])]),
                "bad-txns-txouttotal-toolarge",
            ),
            (
                "an input twice",
                bench.plus(&[bench.with(|tx| tx.inputs.push(tx.inputs[0].clone()))]),
                "bad-txns-inputs-duplicate",
            ),
            (
                "an input twice, far apart",
                bench.plus(&[bench.with(|tx| {
                    let others = bench.coinbases[1..].iter().map(|coinbase| In::of(coinbase.out(0)));
                    tx.inputs.extend(others.chain([In::of(bench.coinbases[0].out(0))]).collect::<Vec<_>>());
                })]),
                "bad-txns-inputs-duplicate",
            ),
            (
                "coinbase script of one byte",
                bench.block(&[bench.coinbase(|tx| tx.inputs[0].script_sig.truncate(1))]),
                "bad-cb-length",
            ),
            ("of 2 bytes", bench.block(&[bench.coinbase(|tx| tx.inputs[0].script_sig.truncate(2))]), ""),
            ("of 100 bytes", bench.block(&[bench.coinbase(|tx| tx.inputs[0].script_sig.resize(100, 0))]), ""),
            (
                "of 101 bytes",
                bench.block(&[bench.coinbase(|tx| tx.inputs[0].script_sig.resize(101, 0))]),
                "bad-cb-length",
            ),
            ("a null prevout", bench.plus(&[bench.with(|tx| tx.inputs.push(In::of(null)))]), "bad-txns-prevout-null"),
            ("20,000 CHECKSIG", bench.plus(&[bench.with(|tx| tx.outputs.push((0, vec![0xac; 20_000])))]), ""),
            (
                "20,001 CHECKSIG",
                bench.plus(&[bench.with(|tx| tx.outputs.push((0, vec![0xac; 20_001])))]),
                "bad-blk-sigops",
            ),
            (
                "in the coinbase script",
                bench.block(&[bench.coinbase(|tx| {
                    tx.inputs[0].script_sig.push(0xac);
                    tx.outputs.push((0, vec![0xac; 20_000]));
                })]),
                "bad-blk-sigops",
            ),
        ],
    );
    // In a block its length speaks first.
    let (bytes, mut tables) = (long(1_000_000).bytes(), Tables::new());
    let tx = tables.parse_transaction(&bytes).unwrap();
    let want = Rule::BadTxnsOversize { stripped_bytes: tx.stripped_bytes() };
    assert_eq!(transaction::check(&tx, &mut transaction::Scratch::default()), Err(want));
}

#[test]
fn contextual_rules_and_neighbours() {
    let bench = Bench::new();
    let (height, median) = (BASE + 1, TIME + 96);
    let locked = |lock_time, sequence| {
        bench.with(|tx| {
            tx.lock_time = lock_time;
            tx.inputs[0].sequence = sequence;
        })
    };
    let witness = |tx: &mut Tx| tx.inputs[0].witness = vec![vec![1; 40]];
    // A spend of one coin with a witness, committed to; then one thing changed.
    let segwit = |change: fn(&mut Vec<Tx>)| {
        let mut txs = vec![bench.coinbase(|_| {}), bench.with(witness)];
        commit(&mut txs);
        change(&mut txs);
        bench.block(&txs)
    };
    let heavy = |bytes: usize| {
        let mut txs = vec![bench.coinbase(|_| {}), bench.with(|tx| tx.inputs[0].witness = vec![vec![0; bytes]])];
        commit(&mut txs);
        bench.block(&txs)
    };
    let weight = |bytes: &[u8]| Tables::new().parse_block(bytes).unwrap().weight();
    let rest = weight(&heavy(3_900_000)) - 3_900_000;
    check(
        &bench,
        &[
            ("locked to the height below", bench.plus(&[locked(height - 1, 0)]), ""),
            ("locked to this height", bench.plus(&[locked(height, 0)]), "bad-txns-nonfinal"),
            ("locked, and final", bench.plus(&[locked(height, u32::MAX)]), ""),
            ("locked to a second below the median", bench.plus(&[locked(median - 1, 0)]), ""),
            ("locked to the median", bench.plus(&[locked(median, 0)]), "bad-txns-nonfinal"),
            (
                "a locked coinbase",
                bench.block(&[bench.coinbase(|tx| {
                    tx.lock_time = height;
                    tx.inputs[0].sequence = 0;
                })]),
                "bad-txns-nonfinal",
            ),
            ("another height", bench.block(&[Tx::coinbase(height + 1, SUBSIDY)]), "bad-cb-height"),
            (
                "the height in more bytes",
                bench.block(&[bench.coinbase(|tx| {
                    tx.inputs[0].script_sig = vec![2, height as u8, 0];
                })]),
                "bad-cb-height",
            ),
            ("committed", segwit(|_| {}), ""),
            ("no reserved value", segwit(|txs| txs[0].inputs[0].witness.clear()), "bad-witness-nonce-size"),
            ("two reserved values", segwit(|txs| txs[0].inputs[0].witness.push(vec![])), "bad-witness-nonce-size"),
            ("31 bytes", segwit(|txs| txs[0].inputs[0].witness[0].truncate(31)), "bad-witness-nonce-size"),
            ("another reserved value", segwit(|txs| txs[0].inputs[0].witness[0][0] = 1), "bad-witness-merkle-match"),
            ("another witness", segwit(|txs| txs[1].inputs[0].witness[0][0] = 2), "bad-witness-merkle-match"),
            (
                "a later commitment counts",
                segwit(|txs| {
                    let last = [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &[0; 32]].concat();
                    txs[0].outputs.push((0, last));
                }),
                "bad-witness-merkle-match",
            ),
            (
                "37 bytes are no commitment",
                segwit(|txs| {
                    let short = [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], &[0; 31]].concat();
                    txs[0].outputs.push((0, short));
                }),
                "",
            ),
            ("a witness and no commitment", bench.plus(&[bench.with(witness)]), "unexpected-witness"),
            ("weight 4,000,000", heavy(4_000_000 - rest), ""),
            ("weight 4,000,001", heavy(4_000_001 - rest), "bad-blk-weight"),
        ],
    );
    // Before segwit no witness is allowed, committed to or not; before CSV the block's own time counts.
    let early = Params::new(Chain::Regtest).with_activation_height("segwit", Height::new(1000)).unwrap();
    let (early, _) = base(early.with_activation_height("csv", Height::new(1000)).unwrap());
    assert_eq!(verdict(&early, &segwit(|_| {})), "unexpected-witness");
    let own = TIME + BASE + 1;
    assert_eq!(verdict(&early, &bench.plus(&[locked(own - 1, 0)])), "");
    assert_eq!(verdict(&early, &bench.plus(&[locked(own, 0)])), "bad-txns-nonfinal");
}

#[test]
fn spending_rules_and_neighbours() {
    let mut bench = Bench::new();
    let odd = |n: u8| OutPoint { txid: Txid::from_bytes([n; 32]), vout: 7 };
    let script_hash = [&[0xa9, 0x14][..], &[3; 20], &[0x87]].concat();
    for (n, value, script) in [
        (1, Amount::MAX.0, ANYONE.to_vec()),
        (2, Amount::MAX.0, ANYONE.to_vec()),
        (3, Amount::MAX.0 + 1, ANYONE.to_vec()),
        (4, -1, ANYONE.to_vec()),
        (5, 0, script_hash),
    ] {
        bench.ledger.coins.insert(odd(n), Coin { height: Height::new(1), coinbase: false, value, script });
    }
    let (first, second) = (bench.spend(), bench.coinbases[1].out(0));
    let chained = Tx::spend(first.out(0), SUBSIDY);
    let locked = |version, sequence| {
        let mut tx = chained.clone();
        tx.version = version;
        tx.inputs[0].sequence = sequence;
        [first.clone(), tx]
    };
    let also = |prevout| bench.with(|tx| tx.inputs.push(In::of(prevout)));
    // 19,997 signature operations in an output, and a P2SH input with some more.
    let redeem = |operations: usize| {
        bench.with(|tx| {
            tx.outputs.push((0, vec![0xac; 19_997]));
            let script_sig = [&[operations as u8][..], &vec![0xac; operations]].concat();
            tx.inputs.push(In { script_sig, ..In::of(odd(5)) });
        })
    };
    check(
        &bench,
        &[
            ("one after the other", bench.plus(&[first.clone(), chained.clone()]), ""),
            ("one before the other", bench.plus(&[chained.clone(), first.clone()]), "bad-txns-inputs-missingorspent"),
            ("never there", bench.plus(&[also(odd(99))]), "bad-txns-inputs-missingorspent"),
            ("spent before in the block", bench.plus(&[first.clone(), also(second)]), "bad-txns-inputs-missingorspent"),
            (
                "depth 99",
                bench.plus(&[Tx::spend(bench.coinbases[2].out(0), 0)]),
                "bad-txns-premature-spend-of-coinbase",
            ),
            ("depth 100", bench.plus(&[Tx::spend(second, 0)]), ""),
            (
                "missing and premature",
                bench
                    .plus(&[Tx { inputs: vec![In::of(bench.coinbases[50].out(0)), In::of(odd(99))], ..first.clone() }]),
                "bad-txns-inputs-missingorspent",
            ),
            ("a coin above all there is", bench.plus(&[Tx::spend(odd(3), 0)]), "bad-txns-inputvalues-outofrange"),
            ("a coin below nothing", bench.plus(&[Tx::spend(odd(4), 0)]), "bad-txns-inputvalues-outofrange"),
            ("coins above all there is", bench.plus(&[also(odd(1))]), "bad-txns-inputvalues-outofrange"),
            (
                "out of range, then premature",
                bench.plus(&[Tx { inputs: vec![In::of(odd(4)), In::of(bench.coinbases[50].out(0))], ..first.clone() }]),
                "bad-txns-inputvalues-outofrange",
            ),
            ("out below in by one", bench.plus(&[bench.with(|tx| tx.outputs[0].0 += 1)]), "bad-txns-in-belowout"),
            ("a fee of all there is", bench.plus(&[Tx::spend(odd(1), 0)]), ""),
            (
                "fees above all there is",
                bench.plus(&[Tx::spend(odd(1), 0), Tx::spend(odd(2), 0)]),
                "bad-txns-accumulated-fee-outofrange",
            ),
            ("version 1, one block", bench.plus(&locked(1, 1)), ""),
            ("version 2, no block", bench.plus(&locked(2, 0)), ""),
            ("version 2, one block", bench.plus(&locked(2, 1)), "bad-txns-nonfinal"),
            ("version 0x80000000, one block", bench.plus(&locked(0x8000_0000, 1)), "bad-txns-nonfinal"),
            ("version 0xffffffff, one block", bench.plus(&locked(u32::MAX, 1)), "bad-txns-nonfinal"),
            ("version 2, 512 seconds", bench.plus(&locked(2, 1 << 22 | 1)), "bad-txns-nonfinal"),
            ("version 2, switched off", bench.plus(&locked(2, 1 << 31 | 1)), ""),
            ("20,000 signature operations with P2SH", bench.plus(&[redeem(3)]), ""),
            ("20,001 signature operations with P2SH", bench.plus(&[redeem(4)]), "bad-blk-sigops"),
            (
                "subsidy and fee",
                bench.block(&[bench.coinbase(|tx| tx.outputs[0].0 += 5), bench.with(|tx| tx.outputs[0].0 -= 5)]),
                "",
            ),
            (
                "one too much",
                bench.block(&[bench.coinbase(|tx| tx.outputs[0].0 += 6), bench.with(|tx| tx.outputs[0].0 -= 5)]),
                "bad-cb-amount",
            ),
            ("less than that", bench.block(&[bench.coinbase(|tx| tx.outputs[0].0 = 0)]), ""),
        ],
    );
    // Before CSV there are no relative locks.
    let (early, _) = base(Params::new(Chain::Regtest).with_activation_height("csv", Height::new(1000)).unwrap());
    assert_eq!(verdict(&early, &bench.plus(&locked(2, 1))), "");
}

/// Where BIP-0034 comes late, a coinbase can be the same transaction as an earlier one.
#[test]
fn bip30_rule_and_neighbours() {
    let params = Params::new(Chain::Regtest).with_activation_height("bip34", Height::new(1000)).unwrap();
    let (ledger, coinbases) = base(params);
    let again = |txs: &[Tx]| block(ledger.tip(), TIME + BASE + 1, txs);
    assert_eq!(verdict(&ledger, &again(&coinbases[4..5])), "bad-txns-BIP30");
    // Also when the block itself spends the old one: the set is looked at as it was before the block.
    let spent = Tx::spend(coinbases[0].out(0), SUBSIDY);
    assert_eq!(verdict(&ledger, &again(&[coinbases[0].clone(), spent.clone()])), "bad-txns-BIP30");
    // But not when an earlier block spent it.
    let mut ledger = ledger.clone();
    ledger.connect(&again(&[Tx::coinbase(BASE + 1, SUBSIDY), spent])).unwrap();
    let bytes = block(ledger.tip(), TIME + BASE + 2, &coinbases[..1]);
    assert_eq!(verdict(&ledger, &bytes), "");
}

/// Where a verdict points to, and what follows from it.
#[test]
fn verdict_names_transaction_and_input() {
    let bench = Bench::new();
    let mut tx = bench.spend();
    tx.inputs.push(In::of(bench.coinbases[60].out(0)));
    let error = judged(&bench.ledger, &bench.plus(std::slice::from_ref(&tx))).unwrap();
    assert_eq!(error.place, Place::Transaction { index: 1, txid: tx.txid(), input: Some(1) });
    assert_eq!((error.class(), error.mutated()), (Class::Consensus, false));
    let place = |words: &str| format!("{words} {} (number 1", tx.txid());
    let want = place("bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 41 in transaction")
        + ", input 1)";
    assert_eq!(error.to_string(), want);
    let script = BlockError { rule: Rule::BlockScriptVerifyFlagFailed { error: ScriptError::EvalFalse }, ..error };
    assert_eq!(script.to_string(), place(&format!("{}, input 1 of", script.reject_reason())) + ")");
}

/// A body without coinbase: only a transaction of 64 bytes makes it another's.
#[test]
fn transaction_of_64_bytes_without_coinbase_is_mutated() {
    let bench = Bench::new();
    let mut tx = bench.with(|tx| tx.outputs[0].1.clear());
    for (script_bytes, want) in [(3, None), (4, Some("mutated")), (5, None)] {
        tx.outputs[0].1 = vec![0x51; script_bytes];
        assert_eq!(tx.bytes().len(), 60 + script_bytes);
        let bytes = bench.block(std::slice::from_ref(&tx));
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes).unwrap();
        let found = consensus::block::mutation(&block, true, &[tx.txid()], &[tx.wtxid()], &mut Default::default());
        assert_eq!(found.map(|error| error.reject_reason().into_owned()).as_deref(), want, "{script_bytes}");
        assert!(found.is_none_or(|error| error.mutated()));
        // To Core's CheckBlock it is a block without coinbase, whatever its size.
        assert_eq!(verdict(&bench.ledger, &bytes), "bad-cb-missing");
    }
}
