//! The solutions of signet's first blocks.

use primitives::{Block, Reader, Tables, hex};
use script::signet::{SignetError, check_solution};

/// Signet's challenge: 1 of 2 keys. Source: Bitcoin Core b88bffe, `SigNetParams`.
const CHALLENGE: &str = concat!(
    "512103ad5e0edad18cb1f0fc0d28a3d4f1f3e445640337489abb10404f2d1e086be430",
    "210359ef5021964fe22d6f8e05b2463c9540ce96883fe3b278760f048f5189f2e6c452ae",
);

fn verdict(block: &Block<'_>, challenge: &[u8]) -> Result<(), SignetError> {
    let mut txids = Vec::new();
    block.txids_into(&mut txids);
    check_solution(block, &txids, challenge)
}

#[test]
fn signet_blocks_are_solved() {
    let Some(bytes) = testkit::data::load("chains/signet_0_120.blk.xz") else { return };
    let challenge = hex::decode(CHALLENGE).unwrap();
    let mut reader = Reader::new(&bytes);
    let mut height = 0;
    while reader.remaining() > 0 {
        reader.take(4).unwrap();
        let length = reader.u32().unwrap() as usize;
        let mut raw = reader.take(length).unwrap().to_vec();
        let mut tables = Tables::new();
        if height == 0 {
            let block = tables.parse_block(&raw).unwrap();
            assert_eq!(verdict(&block, &challenge), Err(SignetError::NoCommitment), "genesis has none");
            height += 1;
            continue;
        }
        assert_eq!(verdict(&tables.parse_block(&raw).unwrap(), &challenge), Ok(()), "block {height}");
        // The header's version, parent and time are signed; its bits and nonce are not.
        for (at, want) in [(0, false), (4, false), (68, false), (72, true), (76, true)] {
            raw[at] ^= 1;
            let block = tables.parse_block(&raw).unwrap();
            assert_eq!(verdict(&block, &challenge).is_ok(), want, "block {height}, byte {at}");
            raw[at] ^= 1;
        }
        let start = raw.windows(4).position(|window| window == [0xec, 0xc7, 0xda, 0xa2]).unwrap();
        for at in [5, 12, 40, 60] {
            raw[start + at] ^= 1;
            let block = tables.parse_block(&raw).unwrap();
            assert!(verdict(&block, &challenge).is_err(), "block {height}, byte {at} of the solution");
            raw[start + at] ^= 1;
        }
        let trivial = verdict(&tables.parse_block(&raw).unwrap(), &[0x51]);
        assert_eq!(trivial, Ok(()), "block {height}: OP_TRUE accepts any solution that has no witness");
        height += 1;
    }
    assert_eq!(height, 121, "blocks");
}
