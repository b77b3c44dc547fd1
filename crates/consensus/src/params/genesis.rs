//! Genesis blocks: one transaction, whose output never becomes a coin.
//!
//! The merkle root is a constant; a test computes it and the header's hash.

use primitives::{BlockHash, Hash256, Header, hex};

/// The message and the output script of a genesis block.
pub(super) struct GenesisText {
    merkle_root: Hash256,
    /// Push of 486604799, push of 4, push of the message.
    script_sig: &'static [&'static [u8]],
    script: &'static [u8],
}

/// For all networks except testnet4.
pub(super) const STANDARD_GENESIS: GenesisText = GenesisText {
    merkle_root: Hash256::literal("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"),
    script_sig: &[
        &[4, 0xff, 0xff, 0, 0x1d, 1, 4, 69],
        b"The Times 03/Jan/2009 Chancellor on brink of second bailout for banks",
    ],
    script: &hex::literal::<67>(concat!(
        "4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4",
        "f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac"
    )),
};

/// For testnet4. Its message needs a PUSHDATA1.
pub(super) const TESTNET4_GENESIS: GenesisText = GenesisText {
    merkle_root: Hash256::literal("7aa0a7ae1e223414cb807e40cd57e667b718e42aaf9306db9102fe28912b7b4e"),
    script_sig: &[
        &[4, 0xff, 0xff, 0, 0x1d, 1, 4, 0x4c, 76],
        b"03/May/2024 000000000000000000001ebd58c244970b3aa9d783bb001011fbe8ea8e98e00e",
    ],
    script: &hex::literal::<35>("21000000000000000000000000000000000000000000000000000000000000000000ac"),
};

/// The block, serialized. Source: kernel/chainparams.cpp, `CreateGenesisBlock`.
pub(super) fn genesis_block(text: &GenesisText, time: u32, bits: u32, nonce: u32) -> Vec<u8> {
    let script_sig = text.script_sig.concat();
    let mut block = Header::new(1, BlockHash::ZERO, text.merkle_root, time, bits, nonce).0.to_vec();
    block.push(1);
    block.extend_from_slice(&1u32.to_le_bytes());
    block.push(1);
    block.extend_from_slice(&[0; 32]);
    block.extend_from_slice(&u32::MAX.to_le_bytes());
    primitives::encode::put_compact_size(&mut block, script_sig.len() as u64);
    block.extend_from_slice(&script_sig);
    block.extend_from_slice(&u32::MAX.to_le_bytes());
    block.push(1);
    block.extend_from_slice(&5_000_000_000i64.to_le_bytes());
    primitives::encode::put_compact_size(&mut block, text.script.len() as u64);
    block.extend_from_slice(text.script);
    block.extend_from_slice(&0u32.to_le_bytes());
    block
}
