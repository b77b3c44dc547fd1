//! Statistics of blocks that spend their own coins, beside the products of all that is made and all that is spent.

use indexes::block::BlockPlace;
use indexes::{BlockRecords, Wanted};
use primitives::coin::{CoinRef, code, is_unspendable, put_coin, put_coin_hashed};
use primitives::muhash::MuHash;
use primitives::{Amount, BlockHash, Height, OutPoint, Tables, Txid};
use testkit::Rng;
use testkit::blocks::{ANYONE, In, Tx, block, coinbase};

const HEIGHT: u32 = 7;

/// A block whose transactions spend coins from before and coins of its own, and leave some of these.
fn random_block(rng: &mut Rng) -> (Vec<u8>, Vec<OutPoint>) {
    let (mut txs, mut own, mut from_before) = (vec![coinbase(HEIGHT)], Vec::new(), Vec::new());
    for number in 0..rng.below(30) {
        let mut inputs = Vec::new();
        for _ in 0..1 + rng.below(4) {
            if !own.is_empty() && rng.one_in(2) {
                inputs.push(In::of(own.swap_remove(rng.below(own.len()))));
            } else {
                let prevout = OutPoint { txid: Txid::from_bytes(rng.array()), vout: rng.below(3) as u32 };
                from_before.push(prevout);
                inputs.push(In::of(prevout));
            }
        }
        let outputs = (0..1 + rng.below(5))
            .map(|_| (rng.below(1000) as i64, if rng.one_in(6) { vec![0x6a] } else { ANYONE.to_vec() }));
        let tx = Tx { version: 2, inputs, outputs: outputs.collect(), lock_time: number as u32 };
        let spendable = tx.outputs.iter().enumerate().filter(|(_, (_, script))| !is_unspendable(script));
        own.extend(spendable.map(|(vout, _)| tx.out(vout as u32)));
        txs.push(tx);
    }
    (block(BlockHash::from_bytes([1; 32]), 1, &txs), from_before)
}

#[test]
fn coins_that_are_made_and_spent_leave_no_trace() {
    let mut rng = Rng::new(20);
    for round in 0..60 {
        let (bytes, from_before) = random_block(&mut rng);
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes).unwrap();
        let mut txids = Vec::new();
        block.txids_into(&mut txids);
        let (mut created, mut spent, mut made) = (MuHash::new(), MuHash::new(), Vec::new());
        let insert = |set: &mut MuHash, outpoint: &OutPoint, stored: &[u8]| {
            let mut element = Vec::new();
            put_coin_hashed(&mut element, outpoint, &CoinRef::decode(stored).unwrap());
            set.insert(&element);
        };
        for (index, (tx, &txid)) in block.transactions().zip(&txids).enumerate() {
            for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
                let (mut stored, outpoint) = (Vec::new(), OutPoint { txid, vout: vout as u32 });
                put_coin(&mut stored, code(Height::new(HEIGHT), index == 0), output.value(), output.script());
                insert(&mut created, &outpoint, &stored);
                made.push((outpoint, stored));
            }
        }
        let mut coins = Vec::new();
        for outpoint in
            block.transactions().skip(1).flat_map(|tx| tx.inputs().map(|input| input.prevout()).collect::<Vec<_>>())
        {
            let own = made.iter().find(|(name, _)| *name == outpoint).map(|(_, stored)| stored.clone());
            let stored = own.unwrap_or_else(|| {
                assert!(from_before.contains(&outpoint));
                let mut stored = Vec::new();
                put_coin(&mut stored, code(Height::new(HEIGHT - 1), false), Amount(5), ANYONE);
                stored
            });
            insert(&mut spent, &outpoint, &stored);
            coins.push(stored);
        }
        let coins: Vec<CoinRef<'_>> = coins.iter().map(|coin| CoinRef::decode(coin).unwrap()).collect();
        let hash = block.header().hash();
        let place = BlockPlace { hash, height: Height::new(HEIGHT), subsidy: Amount(0), coinbase_is_repeated: false };
        let wanted = Wanted { stats: true, ..Wanted::default() };
        let got = BlockRecords::build(&wanted, &place, &block, &txids, &coins, &sys::spill::SpillFiles::default())
            .stats
            .unwrap();
        assert_eq!(got.outputs, (made.len() as u64, coins.len() as u64), "round {round}: all are counted");
        if coins.len() > from_before.len() {
            assert_ne!(got.created, created, "round {round}: some are left out");
        }
        // created / spent is the same.
        created.combine(&got.spent);
        spent.combine(&got.created);
        assert_eq!(
            created.reduced(),
            spent.reduced(),
            "round {round}: {} of {} spends pass",
            coins.len() - from_before.len(),
            coins.len()
        );
    }
}
