//! Reorgs, as stories: blocks are disconnected and connected, and what waits then is what Core would keep.

use super::*;
use crate::mempool::CLUSTER_MAX;
use primitives::coin::{code, put_coin};
use primitives::{Amount, BlockHash, Height, MedianTime};
use std::collections::HashMap;
use std::convert::Infallible;
use testkit::blocks::{In, Tx, block};

/// Pay to anchor: anyone may spend it, and it is standard.
const ANCHOR: &[u8] = &[0x51, 2, 0x4e, 0x73];
const NOW: u64 = 1_700_000_000;

/// A set of coins, and what the next block is.
struct Chain {
    mempool: Mempool,
    coins: HashMap<OutPoint, Vec<u8>>,
    height: u32,
    now: u64,
}

impl Chain {
    /// At height 200, with a coin of a coinbase of height 100 and one of height 101.
    fn new() -> Chain {
        let mut chain = Chain { mempool: Mempool::default(), coins: HashMap::new(), height: 200, now: NOW };
        chain.coin(0, 100, true);
        chain.coin(1, 101, true);
        chain.coin(2, 150, false);
        chain
    }

    fn coin(&mut self, vout: u32, height: u32, coinbase: bool) {
        let mut stored = Vec::new();
        put_coin(&mut stored, code(Height::new(height), coinbase), Amount(1_000_000), ANCHOR);
        self.coins.insert(known(vout), stored);
    }

    fn body(&self, txs: &[Tx]) -> Vec<u8> {
        block(BlockHash::ZERO, 0, &[&[Tx::coinbase(self.height, 0)], txs].concat())
    }

    /// The block of the tip, which had these, is taken off; the coins are given back as they were.
    fn disconnect(&mut self, txs: &[Tx]) {
        self.mempool.disconnected(&self.body(txs));
        self.height -= 1;
    }

    fn connect(&mut self, txs: &[Tx]) {
        self.height += 1;
        let txids: Vec<Txid> =
            std::iter::once(Tx::coinbase(self.height, 0).txid()).chain(txs.iter().map(Tx::txid)).collect();
        self.mempool.connected(&self.body(txs), &txids, self.now);
        for tx in txs {
            tx.inputs.iter().for_each(|input| drop(self.coins.remove(&input.prevout)));
            for (vout, (value, script)) in (0..).zip(&tx.outputs) {
                let mut stored = Vec::new();
                put_coin(&mut stored, code(Height::new(self.height), false), Amount(*value), script);
                self.coins.insert(tx.out(vout), stored);
            }
        }
    }

    fn rest(&self, adds: bool) {
        let median_times = |height: Height| MedianTime::new(height.to_u32() * 600);
        let tip = Height::new(self.height);
        let next =
            Next { height: tip + 1, median_time_past: median_times(tip), median_times: &median_times, now: self.now };
        let coin = |outpoint: &OutPoint| Ok::<_, Infallible>(self.coins.get(outpoint).cloned());
        self.mempool.rest(adds, &next, coin).unwrap();
        lock(&self.mempool.state).pool.invariants();
    }

    /// What is said of transactions that a call gives.
    fn offer(&self, txs: &[Tx], offer: Offer) -> Vec<String> {
        let median_times = |height: Height| MedianTime::new(height.to_u32() * 600);
        let tip = Height::new(self.height);
        let next =
            Next { height: tip + 1, median_time_past: median_times(tip), median_times: &median_times, now: self.now };
        let coin = |outpoint: &OutPoint| Ok::<_, Infallible>(self.coins.get(outpoint).cloned());
        let offered: Vec<Vec<u8>> = txs.iter().map(Tx::bytes).collect();
        let judged = self.mempool.offer(&offered, offer, &next, coin).unwrap();
        lock(&self.mempool.state).pool.invariants();
        judged.into_iter().map(|judged| judged.map_or_else(|why| why.line(), |entry| entry.fee.0.to_string())).collect()
    }

    fn waiting(&self) -> Vec<Txid> {
        self.mempool.entries().iter().map(|entry| entry.txid).collect()
    }
}

fn known(vout: u32) -> OutPoint {
    OutPoint { txid: Txid::from_bytes([9; 32]), vout }
}

/// Spends an output of `of` satoshis and leaves two, 1,000 and 1,000 satoshis for the fee.
fn spend(prevout: OutPoint, of: i64) -> Tx {
    let outputs = vec![(of - 2000, ANCHOR.to_vec()), (1000, ANCHOR.to_vec())];
    Tx { outputs, ..Tx::spend(prevout, 0) }
}

fn ids(txs: &[&Tx]) -> Vec<Txid> {
    txs.iter().map(|tx| tx.txid()).collect()
}

/// Reorgs whose transactions no chain takes again add up to the bound, and what came before them gives way.
#[test]
fn reorgs_add_up_to_the_bound_alone() {
    let mut chain = Chain::new();
    let (first, second) = (spend(known(0), 1_000_000), spend(known(2), 1_000_000));
    chain.disconnect(std::slice::from_ref(&first));
    chain.rest(true);
    let one = chain.mempool.memory_bytes();
    chain.mempool.bytes_max = one + one / 2;
    chain.disconnect(std::slice::from_ref(&second));
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&second]));
    assert!(chain.mempool.memory_bytes() < chain.mempool.bytes_max);
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&second]), "what is within the bound stays");
}

/// Core's feature_block: a transaction of one block is spent in the next, and both come back.
#[test]
fn chain_of_two_blocks_waits_and_is_mined_again() {
    let mut chain = Chain::new();
    let parent = spend(known(0), 1_000_000);
    let child = spend(parent.out(0), 998_000);
    let other = spend(known(2), 1_000_000);
    chain.disconnect(std::slice::from_ref(&child));
    chain.disconnect(&[parent.clone(), other.clone()]);
    assert!(chain.waiting().is_empty(), "before the chain rests");
    assert!(chain.mempool.is_stale());
    chain.connect(&[]);
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&parent, &other, &child]));
    assert!(!chain.mempool.is_stale());
    let entry = chain.mempool.get(&child.txid()).unwrap();
    assert_eq!((entry.fee, entry.height.to_u32(), entry.time), (Amount(1000), 199, NOW));
    assert_eq!((entry.weight, entry.vsize(), entry.sigop_cost), (77 * 4, 77, 0));
    assert_eq!(entry.bytes, child.bytes());
    assert_eq!(entry.output(1), Some((Amount(1000), ANCHOR.to_vec())));
    assert_eq!(entry.output(2), None);
    assert_eq!(chain.mempool.spender(&parent.out(0)).unwrap().txid, child.txid());
    assert!(chain.mempool.spender(&child.out(0)).is_none());
    assert_eq!(chain.mempool.sequence(), 4);

    chain.connect(std::slice::from_ref(&parent));
    assert_eq!(chain.waiting(), ids(&[&other, &child]), "mined, its child waits on");
    chain.connect(&[other, child]);
    assert!(chain.waiting().is_empty() && chain.mempool.is_empty.load(Relaxed));
    assert_eq!((chain.mempool.sequence(), chain.mempool.memory_bytes()), (7, 0));
}

#[test]
fn what_the_new_chain_has_or_spends_does_not_wait() {
    let mut chain = Chain::new();
    let parent = spend(known(0), 1_000_000);
    let child = spend(parent.out(0), 998_000);
    let grandchild = spend(child.out(0), 996_000);
    let other = spend(known(2), 1_000_000);
    let instead = spend(known(0), 900_000);
    chain.disconnect(&[other.clone(), parent.clone(), child.clone(), grandchild]);
    chain.connect(&[instead, other.clone()]);
    chain.rest(true);
    assert!(chain.waiting().is_empty(), "one is there again, one spends what is spent, two miss their parent");

    // The same where they wait already.
    let mut chain = Chain::new();
    chain.disconnect(&[parent.clone(), child.clone(), other.clone()]);
    chain.rest(true);
    assert_eq!(chain.waiting().len(), 3);
    let instead = Tx { inputs: vec![In::of(parent.out(1)), In::of(known(2))], ..spend(known(2), 1_000_000) };
    chain.connect(&[parent, instead]);
    assert_eq!(chain.waiting(), ids(&[&child]), "its other output was not spent");
    lock(&chain.mempool.state).pool.invariants();
}

#[test]
fn coinbase_that_is_too_young_again_takes_what_spends_it_along() {
    let mut chain = Chain::new();
    let (old, young) = (spend(known(0), 1_000_000), spend(known(1), 1_000_000));
    let child = spend(young.out(0), 998_000);
    chain.disconnect(&[old.clone(), young.clone(), child.clone()]);
    chain.connect(&[]);
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&old, &young, &child]), "201 is 100 above 101");
    let time = chain.now;
    chain.now += 10;
    chain.disconnect(&[]);
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&old]));
    assert_eq!(chain.mempool.entries()[0].time, time, "it came before");
    chain.disconnect(&[]);
    chain.rest(true);
    assert!(chain.waiting().is_empty());
}

#[test]
fn locked_transactions_wait_for_no_block() {
    for (row, sequence, lock_time, height, want) in [
        ("lock time of the next block", 0, 201, 200, false),
        ("lock time of the tip", 0, 200, 200, true),
        ("it is final", u32::MAX, 201, 200, true),
        ("51 blocks on a coin of 150", 51, 0, 200, true),
        ("52 blocks on a coin of 150", 52, 0, 200, false),
    ] {
        let mut chain = Chain::new();
        let mut tx = spend(known(2), 1_000_000);
        (tx.inputs[0].sequence, tx.lock_time, chain.height) = (sequence, lock_time, height + 1);
        chain.disconnect(&[tx]);
        chain.rest(true);
        assert_eq!(chain.waiting().len() == 1, want, "{row}");
    }
    // On a parent that waits: not one block, and no block is enough.
    for (sequence, want) in [(0, 2), (1, 1)] {
        let mut chain = Chain::new();
        let parent = spend(known(2), 1_000_000);
        let mut child = spend(parent.out(0), 998_000);
        child.inputs[0].sequence = sequence;
        chain.disconnect(&[child]);
        chain.disconnect(&[parent]);
        chain.rest(true);
        assert_eq!(chain.waiting().len(), want, "{sequence}");
    }
}

#[test]
fn what_core_would_not_take_does_not_wait() {
    let standard = spend(known(2), 1_000_000);
    let with = |outputs: Vec<(i64, Vec<u8>)>| Tx { outputs, ..standard.clone() };
    let signed =
        |item: Vec<u8>| Tx { inputs: vec![In { witness: vec![item], ..In::of(known(2)) }], ..standard.clone() };
    for (row, tx, want) in [
        ("standard", standard.clone(), true),
        ("to anyone", with(vec![(5000, vec![0x51]), (5000, vec![0x51])]), false),
        ("more than it has", with(vec![(1_000_001, ANCHOR.to_vec()), (0, vec![0x6a])]), false),
        ("dust and a fee", with(vec![(999_000, ANCHOR.to_vec()), (1, ANCHOR.to_vec())]), false),
        ("dust and no fee", with(vec![(999_999, ANCHOR.to_vec()), (1, ANCHOR.to_vec())]), true),
        ("a witness for an anchor", signed(vec![1]), false),
        ("a missing coin", Tx { inputs: vec![In::of(known(7))], ..standard.clone() }, false),
    ] {
        let mut chain = Chain::new();
        chain.disconnect(&[tx]);
        chain.rest(true);
        assert_eq!(chain.waiting().len() == 1, want, "{row}");
    }
}

/// A script that consensus lets pass and policy does not: NOP1 is for a later rule.
#[test]
fn scripts_are_verified_by_the_rules_of_policy() {
    for (script, want) in [(vec![0x51], true), (vec![0xb0, 0x51], false)] {
        let mut chain = Chain::new();
        let hash = kernels::sha256::sha256(&script);
        let mut stored = Vec::new();
        let program = [&[0, 32][..], &hash].concat();
        put_coin(&mut stored, code(Height::new(150), false), Amount(1_000_000), &program);
        chain.coins.insert(known(2), stored);
        let mut tx = spend(known(2), 1_000_000);
        tx.inputs[0].witness = vec![script];
        chain.disconnect(std::slice::from_ref(&tx));
        chain.rest(true);
        assert_eq!(chain.waiting() == ids(&[&tx]), want);
    }
}

#[test]
fn no_more_hang_together_than_core_allows() {
    let mut chain = Chain::new();
    let mut txs = vec![spend(known(2), 1_000_000)];
    for at in 1..=CLUSTER_MAX as i64 {
        let parent = txs.last().unwrap();
        txs.push(spend(parent.out(0), 1_000_000 - 2000 * at));
    }
    let beside = spend(txs[10].out(1), 1000);
    let beside = Tx { outputs: vec![(400, ANCHOR.to_vec()), (400, ANCHOR.to_vec())], ..beside };
    chain.disconnect(&txs);
    chain.rest(true);
    assert_eq!(chain.waiting(), txs[..CLUSTER_MAX].iter().map(Tx::txid).collect::<Vec<_>>());
    chain.disconnect(&[]);
    chain.connect(&txs[..10]);
    assert!(chain.waiting().is_empty(), "the chain does not rest");
    // What was mined counts no more; a leaf is below 404,000 with all that it hangs on.
    let state = lock(&chain.mempool.state);
    let pool = &state.pool;
    assert_eq!(pool.entries().count(), CLUSTER_MAX - 10);
    assert!(pool.has_room_in_cluster(&[beside.inputs[0].prevout], 400));
    assert!(!pool.has_room_in_cluster(&[beside.inputs[0].prevout], 404_000));
    assert!(pool.has_room_in_cluster(&[known(0)], 404_000));
    assert!(!pool.has_room_in_cluster(&[known(0)], 404_001));
}

#[test]
fn what_is_too_much_or_too_old_goes() {
    let mut chain = Chain::new();
    let (tx, other) = (spend(known(2), 1_000_000), spend(known(0), 1_000_000));
    let child = spend(tx.out(0), 998_000);
    chain.disconnect(std::slice::from_ref(&child));
    chain.rest(true);
    assert!(chain.waiting().is_empty(), "its parent is in no block and does not wait: here that is made up");
    chain.disconnect(&[tx.clone(), child]);
    chain.disconnect(std::slice::from_ref(&other));
    chain.rest(false);
    assert!(chain.waiting().is_empty() && chain.mempool.is_empty.load(Relaxed), "too many blocks: none is taken in");
    chain.disconnect(std::slice::from_ref(&tx));
    chain.rest(true);
    chain.now += EXPIRY_S;
    chain.connect(&[]);
    assert_eq!(chain.waiting().len(), 1, "two weeks");
    chain.now += 1;
    chain.connect(&[]);
    assert!(chain.waiting().is_empty(), "and a second");
    chain.disconnect(std::slice::from_ref(&tx));
    chain.rest(true);
    chain.mempool.expire_after(3600);
    chain.now += 3600;
    chain.coin(3, 150, false);
    let other = spend(known(3), 1_000_000);
    assert_eq!(chain.offer(std::slice::from_ref(&other), Offer::Take), ["1000"]);
    assert_eq!(chain.waiting(), ids(&[&tx, &other]), "an hour");
    chain.now += 1;
    assert_eq!(chain.offer(&[spend(known(1), 1_000_000)], Offer::Test).len(), 1);
    assert_eq!(chain.waiting(), ids(&[&tx, &other]), "a test removes nothing");
    let third = spend(other.out(0), 998_000);
    assert_eq!(chain.offer(std::slice::from_ref(&third), Offer::Take), ["1000"]);
    assert_eq!(chain.waiting(), ids(&[&other, &third]), "and a second, when another one comes");
    chain.connect(&[other.clone(), third]);
    chain.mempool.expire_after(EXPIRY_S);
    chain.disconnect(&[tx]);
    chain.rest(true);
    let sequence = chain.mempool.sequence();
    chain.mempool.clear();
    assert!(chain.waiting().is_empty());
    assert_eq!(chain.mempool.sequence(), sequence + 1);
}

/// As in Core: what calls add to a fee counts for the minimum, stays while the transaction is elsewhere, and goes when a
/// block has it or spends its coins.
#[test]
fn fees_that_calls_change_stay_until_a_block_decides() {
    let mut chain = Chain::new();
    let free = Tx { outputs: vec![(999_000, ANCHOR.to_vec()), (1000, ANCHOR.to_vec())], ..Tx::spend(known(2), 0) };
    let id = free.txid();
    let of = |chain: &Chain| chain.mempool.get(&id).map(|entry| (entry.fee.0, entry.modified_fee()));
    assert_eq!(chain.offer(std::slice::from_ref(&free), Offer::Take), ["min relay fee not met, 0 < 8"]);
    chain.mempool.prioritise(id, 7).unwrap();
    assert_eq!(chain.offer(std::slice::from_ref(&free), Offer::Take), ["min relay fee not met, 7 < 8"]);
    chain.mempool.prioritise(id, 1).unwrap();
    assert_eq!(chain.mempool.fee_deltas(), [(id, 8)], "they add up");
    assert_eq!(chain.offer(std::slice::from_ref(&free), Offer::Take), ["0"]);
    assert_eq!(of(&chain), Some((0, 8)));
    chain.mempool.prioritise(id, -10).unwrap();
    assert_eq!((of(&chain), chain.mempool.fee_deltas()), (Some((0, -2)), vec![(id, -2)]));
    chain.mempool.prioritise(id, i64::MIN).unwrap();
    assert_eq!(of(&chain), Some((0, i64::MIN)), "no further down");
    chain.mempool.prioritise(id, i64::MAX).unwrap();
    chain.mempool.prioritise(id, 1).unwrap();
    assert_eq!((of(&chain), chain.mempool.fee_deltas()), (Some((0, 0)), Vec::new()), "0 is no change");

    chain.mempool.prioritise(id, 5).unwrap();
    chain.disconnect(&[]);
    chain.rest(true);
    assert_eq!(of(&chain), Some((0, 5)), "after a reorg");
    chain.mempool.clear();
    assert_eq!((of(&chain), chain.mempool.fee_deltas()), (None, vec![(id, 5)]), "with another set of coins");
    let other = spend(known(0), 1_000_000);
    chain.mempool.prioritise(other.txid(), 3).unwrap();
    chain.connect(&[free]);
    assert_eq!(chain.mempool.fee_deltas(), [(other.txid(), 3)], "a block has it");
    assert_eq!(chain.offer(std::slice::from_ref(&other), Offer::Take), ["1000"]);
    chain.connect(&[spend(known(0), 900_000)]);
    assert!(chain.mempool.fee_deltas().is_empty() && chain.waiting().is_empty(), "a block spends its coin");
    assert!(chain.mempool.is_empty.load(Relaxed));
}

/// A transaction with dust pays no fee, so none may be made up for it.
#[test]
fn fee_of_a_transaction_with_dust_is_not_changed() {
    let mut chain = Chain::new();
    let dusty = Tx { outputs: vec![(999_999, ANCHOR.to_vec()), (1, ANCHOR.to_vec())], ..Tx::spend(known(2), 0) };
    chain.disconnect(std::slice::from_ref(&dusty));
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&dusty]));
    assert_eq!(chain.mempool.prioritise(dusty.txid(), 1), Err(HasDust));
    assert!(chain.mempool.fee_deltas().is_empty());
    chain.mempool.accept_nonstandard();
    assert_eq!(chain.mempool.prioritise(dusty.txid(), 1), Ok(()));
}

/// What a call gives is judged as Core judges it, with Core's reasons (validation.cpp, `PreChecks`; policy/policy.cpp).
#[test]
fn offered_transactions_are_refused_with_cores_reasons() {
    let good = spend(known(2), 1_000_000);
    let with = |outputs: Vec<(i64, Vec<u8>)>| Tx { outputs, ..good.clone() };
    let to = |value: i64| (value, ANCHOR.to_vec());
    let of = |inputs: Vec<In>| Tx { inputs, ..good.clone() };
    let signed = |script_sig: Vec<u8>| of(vec![In { script_sig, ..In::of(known(2)) }]);
    for (row, tx, want) in [
        ("good", good.clone(), "1000"),
        ("least fee", with(vec![to(999_000 - 8), to(1000)]), "8"),
        ("less than that", with(vec![to(999_000 - 7), to(1000)]), "min relay fee not met, 7 < 8"),
        ("no output", with(vec![]), "bad-txns-vout-empty"),
        ("a coin twice", of(vec![In::of(known(2)), In::of(known(2))]), "bad-txns-inputs-duplicate"),
        ("a coinbase", Tx::coinbase(201, 0), "coinbase"),
        ("version 4", Tx { version: 4, ..good.clone() }, "version"),
        ("scriptSig that does more than push", signed(vec![0x61]), "scriptsig-not-pushonly"),
        ("long scriptSig", signed(vec![0; 1651]), "scriptsig-size"),
        ("to anyone", with(vec![to(5000), (5000, vec![0x51])]), "scriptpubkey"),
        ("two of dust", with(vec![to(1), to(1)]), "dust"),
        ("one of dust, and a fee", with(vec![to(1), to(5000)]), "dust, tx with dust output must be 0-fee"),
        ("64 bytes", with(vec![to(5000)]), "tx-size-small"),
        (
            "locked",
            Tx { lock_time: 201, inputs: vec![In { sequence: 0, ..In::of(known(2)) }], ..good.clone() },
            "non-final",
        ),
        ("locked to its coin", of(vec![In { sequence: 52, ..In::of(known(2)) }]), "non-BIP68-final"),
        ("a coin that is not there", of(vec![In::of(known(7))]), "bad-txns-inputs-missingorspent"),
        (
            "more than it has",
            with(vec![to(1_000_001), to(1000)]),
            "bad-txns-in-belowout, value in (0.01) < value out (0.01001001)",
        ),
        (
            "a witness for an anchor",
            of(vec![In { witness: vec![vec![1]], ..In::of(known(2)) }]),
            "bad-witness-nonstandard",
        ),
    ] {
        let chain = Chain::new();
        assert_eq!(chain.offer(std::slice::from_ref(&tx), Offer::Test), [want], "{row}");
        assert!(chain.waiting().is_empty(), "{row}");
    }
    let mut chain = Chain::new();
    chain.height = 199;
    let young = chain.offer(&[spend(known(1), 1_000_000)], Offer::Test);
    let want = "bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 99";
    assert_eq!(young, [want]);
    chain.connect(std::slice::from_ref(&good));
    assert_eq!(chain.offer(&[good], Offer::Test), ["txn-already-known"]);
}

#[test]
fn offered_transactions_wait_once_and_keep_what_they_spend() {
    let chain = Chain::new();
    let parent = spend(known(0), 1_000_000);
    let child = spend(parent.out(0), 998_000);
    let both = [parent.clone(), child.clone()];
    assert_eq!(chain.offer(&[child.clone(), parent.clone()], Offer::Test), ["bad-txns-inputs-missingorspent"]);
    assert_eq!(chain.offer(&both, Offer::Test), ["1000", "1000"]);
    assert!(chain.waiting().is_empty() && chain.mempool.sequence() == 1);
    assert_eq!(chain.offer(&both, Offer::Take), ["1000", "1000"]);
    assert_eq!((chain.waiting(), chain.mempool.sequence()), (ids(&[&parent, &child]), 3));
    assert_eq!(chain.offer(&both, Offer::Take), ["txn-already-in-mempool"]);
    let mut other = parent.clone();
    other.inputs[0].witness = vec![vec![1]];
    assert_eq!(chain.offer(&[other], Offer::Take), ["txn-same-nonwitness-data-in-mempool"]);
    let instead = with_fee(known(0), 900_000);
    assert_eq!(chain.offer(&[instead], Offer::Take), ["bip125-replacement-disallowed"]);
    assert_eq!(chain.waiting(), ids(&[&parent, &child]));
}

/// Spends an output of a million satoshis, and pays much.
fn with_fee(prevout: OutPoint, fee: i64) -> Tx {
    Tx { outputs: vec![(1_000_000 - fee, ANCHOR.to_vec()), (0, vec![0x6a])], ..Tx::spend(prevout, 0) }
}

#[test]
fn what_is_not_standard_waits_where_that_is_allowed() {
    let mut chain = Chain::new();
    let odd = Tx { version: 7, ..spend(known(2), 1_000_000) };
    assert_eq!(chain.offer(std::slice::from_ref(&odd), Offer::Test), ["version"]);
    chain.mempool.accept_nonstandard();
    assert_eq!(chain.offer(std::slice::from_ref(&odd), Offer::Take), ["1000"]);
    chain.disconnect(&[]);
    chain.connect(&[]);
    chain.rest(true);
    assert_eq!(chain.waiting(), ids(&[&odd]), "a reorg asks for no more");
    let small = Tx { outputs: vec![(900_000, ANCHOR.to_vec())], ..Tx::spend(known(0), 0) };
    assert_eq!(chain.offer(&[small], Offer::Test), ["tx-size-small"], "as in Core, always");
    chain.mempool.bytes_max = chain.mempool.memory_bytes() + 10;
    assert_eq!(chain.offer(&[spend(known(0), 1_000_000)], Offer::Take), ["mempool full"]);
}
