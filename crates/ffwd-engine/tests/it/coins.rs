//! The UTXO set: hashes and counts beside Core's, coins one by one.

use crate::support::{SMALL_BEST, SMALL_HASH, damage, expected, indexed, real};
use ffwd_engine::{ErrorKind, Network, OutPoint, ScriptType};
use std::collections::BTreeMap;

#[test]
fn the_set_is_cores() {
    let (_folder, dir) = indexed();
    let coins = dir.coins().unwrap();
    assert_eq!((coins.height(), coins.best_block().to_string()), (107, SMALL_BEST.to_owned()));
    assert_eq!(coins.hash_serialized_3().unwrap().to_string(), SMALL_HASH);
    // From bitcoind's gettxoutsetinfo of the same chain.
    let info = coins.info().unwrap();
    assert_eq!((info.coins, info.transactions, info.bogosize, info.total_amount), (111, 107, 5846, 534_989_990_000));
    assert!(info.disk_size > 0);
}

#[test]
fn sets_of_real_chains_are_as_expected() {
    for (network, file, chain, height) in [
        (Network::Main, "chains/mainnet_0_14131.blk.xz", "mainnet", 14131),
        (Network::Signet, "chains/signet_0_120.blk.xz", "signet", 120),
    ] {
        let Some((_folder, dir)) = real(network, file) else { return };
        dir.reindex().run().unwrap();
        let want = expected(chain, height);
        let coins = dir.coins().unwrap();
        assert_eq!(coins.height(), height);
        let hash = coins.hash_serialized_3().unwrap().to_string();
        assert_eq!(hash, want["hash_serialized_3"].as_str().unwrap(), "{chain}");
        assert_eq!(coins.muhash().unwrap().to_string(), want["muhash"].as_str().unwrap(), "{chain}");
    }
}

#[test]
fn coins_come_in_order_and_by_name() {
    let (_folder, dir) = indexed();
    let coins = dir.coins().unwrap();
    let all: Vec<_> = coins.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(all.len(), 111);
    assert!(all.windows(2).all(|pair| pair[0].outpoint.txid.to_bytes() <= pair[1].outpoint.txid.to_bytes()));
    let mut types: BTreeMap<ScriptType, (u64, i64)> = BTreeMap::new();
    for coin in &all {
        let tally = types.entry(coin.script_type()).or_default();
        tally.0 += 1;
        tally.1 += coin.value;
        assert_eq!(coins.get(&coin.outpoint).unwrap().as_ref(), Some(coin));
    }
    for (script_type, amount) in [
        (ScriptType::PubKeyHash, 1_000_000_000),
        (ScriptType::WitnessV1Taproot, 700_000_000),
        (ScriptType::WitnessV0KeyHash, 600_000_000),
        (ScriptType::Multisig, 500_000_000),
        (ScriptType::Anchor, 499_990_000),
    ] {
        assert_eq!(types.get(&script_type), Some(&(1, amount)), "{script_type}");
    }
    // The genesis block's coinbase is not in the set.
    assert_eq!(types.get(&ScriptType::PubKey), Some(&(1, 6_690_000_000)));
    assert_eq!(types.get(&ScriptType::ScriptHash), None, "it is spent");
    let never = OutPoint { txid: all[0].outpoint.txid, vout: 1_000_000 };
    assert_eq!(coins.get(&never).unwrap(), None);
}

/// A set that is open while it is rebuilt answers for the set that it was, or says that it cannot.
#[test]
fn an_open_set_never_answers_for_another() {
    let (_folder, dir) = indexed();
    let coins = dir.coins().unwrap();
    dir.reindex().stop_at_height(50).run().unwrap();
    match coins.hash_serialized_3() {
        Ok(hash) => assert_eq!((hash.to_string(), coins.height()), (SMALL_HASH.to_owned(), 107)),
        Err(why) => assert_ne!(why.kind(), ErrorKind::Internal, "{why}"),
    }
    assert_eq!(dir.coins().unwrap().height(), 50);
}

#[test]
fn a_damaged_table_is_an_error_and_ends_the_coins() {
    let (folder, dir) = indexed();
    let tables = std::fs::read_dir(folder.path().join("regtest/chainstate")).unwrap();
    let mut tables = tables.map(|entry| entry.unwrap().path());
    let table = tables.find(|path| path.extension().is_some_and(|end| end == "ldb")).expect("the set has a table");
    damage(&table, |_| 40, 1);
    let coins = dir.coins().unwrap();
    for why in [coins.hash_serialized_3().unwrap_err(), coins.info().unwrap_err()] {
        assert_eq!(why.kind(), ErrorKind::Damaged, "{why}");
        assert!(why.path().is_some_and(|path| path.starts_with(folder.path())), "{why}");
    }
    let mut iter = coins.iter().unwrap();
    let why = iter.find_map(Result::err).expect("the damage is met");
    assert_eq!(why.kind(), ErrorKind::Damaged);
    assert!(iter.next().is_none(), "nothing follows it");
}
