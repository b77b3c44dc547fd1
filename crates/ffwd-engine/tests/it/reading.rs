//! Reading blocks with what they spend, and verifying: beside what Core and other programs say of the same blocks.

use crate::support::{damage, indexed, near_end, real};
use ffwd_engine::{Blocks, Ended, ErrorKind, Network, ScriptFlags, ScriptType, Stop, verify_script};

/// A transaction of block 106 of the small chain, and the one that it spends from.
const SPENDING: &str = "1b1bb88eae14d4000d8322b163eb9076e6829e86578269965d8c16b950d6584b";
const SPENT: &str = "647ebf620ba234357707177d3def8e3a8dac4372ffb7b791f8b28fb3433be47a";

#[test]
fn blocks_come_with_what_they_spend() {
    let (_folder, dir) = indexed();
    let blocks: Vec<_> = dir.blocks(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(blocks.len(), 108);
    for pair in blocks.windows(2) {
        assert_eq!((pair[1].header().previous, pair[1].height()), (pair[0].hash(), pair[0].height() + 1));
    }
    assert_eq!(blocks[0].hash(), Network::Regtest.genesis_hash());
    let block = &blocks[106];
    let spending = block.transaction(1);
    assert_eq!((spending.txid().to_string(), spending.is_coinbase()), (SPENDING.to_owned(), false));
    let inputs: Vec<_> = spending.inputs().collect();
    assert_eq!(inputs[0].outpoint().to_string(), format!("{SPENT}:1"));
    let prevouts = inputs.iter().map(|input| input.prevout().unwrap());
    let facts: Vec<_> = prevouts.map(|coin| (coin.value, coin.height, coin.is_coinbase, coin.script_type())).collect();
    let want = [
        (900_000_000, 105, false, ScriptType::ScriptHash),
        (800_000_000, 105, false, ScriptType::WitnessV0ScriptHash),
        (5_000_000_000, 2, true, ScriptType::NonStandard),
    ];
    assert_eq!(facts, want);
    let first = &inputs[0];
    assert_eq!((first.script_sig(), first.sequence(), first.witness().len()), (&[1, 0x51][..], u32::MAX, 0));
    assert_eq!(inputs[1].witness().collect::<Vec<_>>(), [&[0x51][..]]);
    let outputs: Vec<_> = spending.outputs().map(|output| (output.value, output.script_type())).collect();
    assert_eq!(outputs, [(6_690_000_000, ScriptType::PubKey)]);
    assert_eq!((spending.version(), spending.lock_time()), (2, 0));
    let coinbase = block.transaction(0);
    assert!(coinbase.is_coinbase() && coinbase.inputs().all(|input| input.prevout().is_none()));
    assert!(coinbase.spent_outputs().is_empty() && spending.spent_outputs().len() == 3);
    assert_eq!(block.weight(), 3 * block.stripped_size() + block.bytes().len());
    assert!(spending.virtual_size() < spending.bytes().len());
    assert_eq!((block.header().bits, block.header().version), (0x207f_ffff, 0x2000_0000));
}

/// Every script of real chains holds under the rules of its height.
#[test]
fn scripts_of_real_blocks_hold() {
    for (network, file, least) in [
        (Network::Regtest, "snapshots/regtest_wide_0_211.blk.xz", 7),
        (Network::Main, "chains/mainnet_0_14131.blk.xz", 865),
    ] {
        let Some((_folder, dir)) = real(network, file) else { return };
        dir.reindex().run().unwrap();
        let mut verified = 0;
        for block in dir.blocks(..).unwrap() {
            let block = block.unwrap();
            let flags = ScriptFlags::of_block(network, block.height(), &block.hash());
            for tx in block.transactions().skip(1) {
                let spent = tx.spent_outputs();
                for input in 0..spent.len() {
                    verify_script(tx.bytes(), input, &spent, flags)
                        .unwrap_or_else(|why| panic!("{tx:?} {input}: {why}"));
                    verified += 1;
                }
            }
        }
        assert!(verified >= least, "{file}: {verified}");
    }
}

#[test]
fn ranges_of_blocks_are_those_of_rust() {
    let (_folder, dir) = indexed();
    let heights = |blocks: Blocks| blocks.map(|block| block.unwrap().height()).collect::<Vec<_>>();
    assert_eq!(heights(dir.blocks(3..6).unwrap()), [3, 4, 5]);
    assert_eq!(heights(dir.blocks(105..).unwrap()), [105, 106, 107]);
    assert_eq!(heights(dir.blocks(..=1).unwrap()), [0, 1]);
    assert_eq!(heights(dir.blocks(7..7).unwrap()), [0; 0]);
    let mut blocks = dir.blocks(10..20).unwrap();
    blocks.next().unwrap().unwrap();
    assert_eq!((blocks.len(), blocks.heights()), (9, 11..20));
    for beyond in [dir.blocks(100..109), dir.blocks(108..109), dir.blocks(200..)] {
        let why = beyond.unwrap_err();
        assert_eq!(why.kind(), ErrorKind::Refused, "{why}");
        assert!(why.to_string().contains("ends at height 107"), "{why}");
    }
}

/// Changed bytes in a block file or undo file are an error of their block, and of no other.
#[test]
fn damaged_files_are_errors_of_their_blocks() {
    // The coinbase of the last block; the checksum of its undo data.
    for (file, back) in [("blk00000.dat", 60), ("rev00000.dat", 20)] {
        let (folder, dir) = indexed();
        damage(&folder.path().join("regtest/blocks").join(file), near_end(back), 1);
        let read: Vec<_> = dir.blocks(..).unwrap().collect();
        let bad: Vec<_> = read.iter().filter_map(|block| block.as_ref().err()).collect();
        assert_eq!((read.len(), bad.len()), (108, 1), "{file}: {bad:?}");
        let path = folder.path().join("regtest/blocks").join(file);
        assert_eq!((bad[0].kind(), bad[0].path()), (ErrorKind::Damaged, Some(&*path)), "{}", bad[0]);
    }
}

#[test]
fn verify_checks_what_core_checks() {
    let (folder, dir) = indexed();
    let report = dir.verify().run().unwrap();
    assert_eq!((report.blocks, report.level, report.height), (6, 3, 107));
    let report = dir.verify().level(4).all_blocks().verify_all_scripts().cache_bytes(32 << 20).run().unwrap();
    assert_eq!((report.blocks, report.transactions), (107, 109));
    assert_eq!(dir.verify().blocks(10).level(0).run().unwrap().blocks, 10);
    let stop = Stop::new();
    stop.stop();
    assert_eq!(dir.verify().stop(&stop).run().unwrap_err().kind(), ErrorKind::Stopped);
    damage(&folder.path().join("regtest/blocks/rev00000.dat"), near_end(20), 1);
    let why = dir.verify().run().unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Damaged, "{why}");
    assert_eq!(dir.reindex().run().unwrap().ended, Ended::Complete);
    dir.verify().run().unwrap();
}
