//! What does not need a node: that a node ends where it should is tested with the program (`crates/ffwd/tests/it/worst.rs`).

use super::*;
use kernels::sha256::sha256;
use primitives::hex;

#[test]
fn kinds_are_named_and_found_by_name() {
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert!("slow".parse::<Kind>().unwrap_err().contains("deep-mast"));
}

#[test]
fn same_kind_is_the_same_bytes_and_no_directory_is_written_twice() {
    let top = tempfile::tempdir().unwrap();
    let made = ["a", "b"].map(|name| generate(&top.path().join(name), Kind::Multisig).unwrap());
    let bytes = ["a", "b"].map(|name| {
        let path = top.path().join(name).join("regtest/blocks/blk00000.dat");
        sha256(&std::fs::read(path).unwrap())
    });
    assert_eq!((bytes[0], &made[0].bestblock), (bytes[1], &made[1].bestblock));
    assert_eq!((made[0].blocks_worst, made[0].height_valid), (1, made[0].height));
    assert!(made[0].largest_block_bytes > 3_000_000, "{:?}", made[0]);
    assert!(matches!(generate(&top.path().join("a"), Kind::Multisig), Err(Error::Taken { .. })));
}

/// BIP-0143, the example of native P2WSH, has another sequence; here the parts that are its own: the layout of a transaction.
#[test]
fn transaction_without_witness_is_its_stripped_bytes() {
    let mut tx = tx::Tx {
        inputs: vec![tx::Input { txid: [7; 32], vout: 1, script: vec![0x51], witness: Vec::new() }],
        outputs: vec![tx::Output { value: 5, script: vec![0x51] }],
    };
    let want = format!("0200000001{}010000000151ffffffff010500000000000000015100000000", "07".repeat(32));
    assert_eq!((hex::encode(&tx.bytes()), hex::encode(&tx.stripped())), (want.clone(), want.clone()));
    let txid = tx.txid();
    tx.inputs[0].witness = vec![vec![1, 2]];
    let with =
        format!("02000000000101{}010000000151ffffffff010500000000000000015101020102{}", "07".repeat(32), "00000000");
    assert_eq!((hex::encode(&tx.bytes()), tx.txid()), (with, txid));
}
