//! Two regtest chains, with what Core's own indexes say of every block: `regtest_*.core.jsonl.xz`.

use indexes::block::BlockPlace;
use indexes::coinstats::{StatsRow, Totals, finalize_all};
use indexes::{BlockRecords, SipKey, Wanted, filter, spender, txindex};
use primitives::coin::{CoinRef, code, is_unspendable, put_coin};
use primitives::muhash::MuHash;
use primitives::{Amount, Hash256, Height, OutPoint, Tables};
use std::collections::HashMap;

#[test]
fn filters_and_statistics_of_chains_are_cores() {
    for name in ["assumeutxo_0_399", "wide_0_211"] {
        let Some(blocks) = testkit::data::load(&format!("snapshots/regtest_{name}.blk.xz")) else { return };
        let rows = testkit::data::load(&format!("snapshots/regtest_{name}.core.jsonl.xz")).unwrap();
        let rows: Vec<serde_json::Value> =
            String::from_utf8(rows).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let blocks = testkit::data::records(&blocks);
        assert_eq!(blocks.len(), rows.len());
        check(name, &blocks, &rows);
    }
}

fn check(name: &str, blocks: &[&[u8]], rows: &[serde_json::Value]) {
    let key = SipKey { k0: 1, k1: 2 };
    let wanted = Wanted { tx: Some(key), spender: Some(key), filter: true, stats: true, tweaks: false };
    let mut coins: HashMap<OutPoint, Vec<u8>> = HashMap::new();
    let (mut header, mut totals) = (Hash256([0; 32]), Totals::default());
    let (mut sums, mut steps) = (Vec::new(), Vec::new());
    for (height, (bytes, row)) in blocks.iter().zip(rows).enumerate() {
        let mut tables = Tables::new();
        let block = tables.parse_block(bytes).unwrap();
        let (hash, height) = (block.header().hash(), Height::from_index(height));
        assert_eq!(row["hash"], hash.to_string(), "{name}: rows are in the order of the blocks");
        let mut txids = Vec::new();
        block.txids_into(&mut txids);
        let spent: Vec<Vec<u8>> = {
            let mut spent = Vec::new();
            for (index, tx) in block.transactions().enumerate() {
                if index > 0 {
                    spent.extend(tx.inputs().map(|input| coins.remove(&input.prevout()).expect("it is there")));
                }
                for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
                    let mut coin = Vec::new();
                    put_coin(&mut coin, code(height, index == 0), output.value(), output.script());
                    if height > Height::GENESIS {
                        coins.insert(OutPoint { txid: txids[index], vout: vout as u32 }, coin);
                    }
                }
            }
            spent
        };
        let spent: Vec<CoinRef<'_>> = spent.iter().map(|coin| CoinRef::decode(coin).unwrap()).collect();
        let subsidy = Amount(5_000_000_000 >> (height.to_u32() / 150));
        let place = BlockPlace { hash, height, subsidy, coinbase_is_repeated: false };
        let records = BlockRecords::build(&wanted, &place, &block, &txids, &spent, &sys::spill::SpillFiles::default());
        let made = records.filter.as_ref().unwrap();
        assert_eq!(row["filter"], primitives::hex::encode(&made.bytes), "{name}: filter at {height}");
        header = filter::header(&made.hash, &header);
        assert_eq!(row["header"], header.to_string(), "{name}: filter header at {height}");
        check_places(&records, bytes, &block, &txids, key);
        let stats = records.stats.as_ref().unwrap();
        let before = totals;
        totals = totals.with(stats).expect("the amounts are those of a valid chain");
        sums.push((before, totals));
        assert!(records.memory_bytes() > 0);
        steps.push(records.stats.expect("it was asked for"));
    }
    let parts: Vec<(&MuHash, &MuHash)> = steps.iter().map(|block| (&block.created, &block.spent)).collect();
    let (hashes, _) = finalize_all(&MuHash::new(), &parts);
    for ((row, (before, totals)), &muhash) in rows.iter().zip(sums).zip(&hashes).skip(1) {
        check_stats(name, row, &before, &StatsRow { muhash, totals });
    }
    assert_eq!(totals.outputs as usize, coins.len(), "{name}");
}

/// Every transaction lies where its place says, and every input's entry names its transaction.
fn check_places(
    records: &BlockRecords,
    bytes: &[u8],
    block: &primitives::Block<'_>,
    txids: &[primitives::Txid],
    key: SipKey,
) {
    let mut spenders = records.spenders.as_ref().unwrap().iter();
    for (index, tx) in block.transactions().enumerate() {
        let (offset, _) = txindex_offset(records, index);
        if let Some(offset) = offset {
            assert!(bytes[offset..].starts_with(tx.bytes()));
            let mut stored = Vec::new();
            txindex::put_key(&mut stored, records.tx.as_ref().unwrap()[index], 7);
            assert!(stored.starts_with(&txindex::key_prefix(key, &txids[index])));
            assert_eq!(txindex::decode_key(&stored), Ok((7, offset as u32)));
        }
        for input in tx.inputs().filter(|_| index > 0) {
            let (order, at) = spenders.next().unwrap();
            assert_eq!(*order, spender::order(key, input.prevout_bytes()));
            assert!(bytes[80 + *at as usize..].starts_with(tx.bytes()));
        }
    }
    assert!(spenders.next().is_none());
}

fn txindex_offset(records: &BlockRecords, index: usize) -> (Option<usize>, usize) {
    let places = records.tx.as_ref().unwrap();
    (places.get(index).map(|place| (place & 0xff_ffff) as usize), places.len())
}

fn check_stats(name: &str, row: &serde_json::Value, before: &Totals, got: &StatsRow) {
    let stats = &row["stats"];
    let totals = &got.totals;
    for (field, got) in [
        ("txouts", i128::from(totals.outputs)),
        ("bogosize", i128::from(totals.bogosize)),
        ("total_amount", i128::from(totals.amount)),
        ("total_unspendable_amount", i128::from(totals.unspendable())),
        ("prevout_spent", (totals.prevouts - before.prevouts) as i128),
        ("coinbase", (totals.coinbase - before.coinbase) as i128),
        ("new_outputs_ex_coinbase", (totals.new_outputs - before.new_outputs) as i128),
        ("unspendable", i128::from(totals.unspendable() - before.unspendable())),
    ] {
        let want = stats[field].as_i64().unwrap_or_else(|| panic!("{field} in {stats}"));
        assert_eq!(got, i128::from(want), "{name}: {field} of {}", row["hash"]);
    }
    assert_eq!(stats["muhash"], got.muhash.to_string(), "{name}: muhash of {}", row["hash"]);
    assert_eq!(StatsRow::decode(&got.encode()).unwrap(), *got);
}
