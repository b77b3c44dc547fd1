//! BIP-0030: no transaction may overwrite existing coins. This module also decides which outputs never become coins.
//!
//! Before BIP-0034 two coinbases could be the same transaction. Two pairs of blocks had such coinbases: the second of
//! each pair overwrote the coins of the first, which stays permitted. Absent on purpose: looking coins up.

use crate::params::Params;
use crate::verdict::Rule;
use primitives::coin::is_unspendable;
use primitives::{BlockHash, Height};

/// From this height on a coinbase under BIP-0034 may repeat one from before BIP-0034 whose script began with this
/// height by chance.
///
/// Source: Bitcoin Core b88bffe, `BIP34_IMPLIES_BIP30_LIMIT`.
pub const BIP34_IMPLIES_BIP30_LIMIT: Height = Height::new(1_983_702);

/// The blocks that overwrote coins.
const REPEATS: [(Height, BlockHash); 2] = [
    (Height::new(91_842), BlockHash::literal("00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec")),
    (Height::new(91_880), BlockHash::literal("00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721")),
];

/// The blocks whose coins were overwritten: 91722's at 91880, 91812's at 91842.
const OVERWRITTEN: [(Height, BlockHash); 2] = [
    (Height::new(91_722), BlockHash::literal("00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e")),
    (Height::new(91_812), BlockHash::literal("00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f")),
];

/// Whether this block may overwrite coins, by height and hash, on every network.
///
/// Its coinbase must never be treated as one that makes new coins. Source: Bitcoin Core b88bffe, `IsBIP30Repeat`.
pub fn is_repeat(height: Height, hash: &BlockHash) -> bool {
    REPEATS.contains(&(height, *hash))
}

/// Whether the coinbase of this block was overwritten later, so that its coins may be missing when the block is
/// disconnected.
///
/// Source: Bitcoin Core b88bffe, `IsBIP30Unspendable`.
pub fn is_overwritten(height: Height, hash: &BlockHash) -> bool {
    OVERWRITTEN.contains(&(height, *hash))
}

/// Height of the block whose coinbase this block repeats and overwrites; `None` for every other block.
pub fn overwritten_by(height: Height, hash: &BlockHash) -> Option<Height> {
    const PAIRS: [(Height, Height); 2] = [(REPEATS[0].0, OVERWRITTEN[1].0), (REPEATS[1].0, OVERWRITTEN[0].0)];
    let pair = PAIRS.into_iter().find(|(repeat, _)| is_repeat(height, hash) && *repeat == height);
    pair.map(|(_, overwritten)| overwritten)
}

/// Whether Core looks up the outputs of this block.
///
/// `bip34_block` is the hash of the ancestor of the block's parent at [`Params::bip34_height`]; `None` if the parent is
/// lower. If it is the known hash, no coinbase can repeat an earlier one until [`BIP34_IMPLIES_BIP30_LIMIT`].
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ConnectBlock`.
pub fn is_enforced(params: &Params, height: Height, hash: &BlockHash, bip34_block: Option<&BlockHash>) -> bool {
    let known_chain = bip34_block == Some(&params.bip34_hash);
    (!is_repeat(height, hash) && !known_chain) || height >= BIP34_IMPLIES_BIP30_LIMIT
}

/// Whether a block can break the rule at all on this network.
///
/// If every coinbase from block 1 on starts with its height, no two coinbases are equal, hence no two transactions (the
/// genesis coinbase makes no coin): the look-ups cannot find anything.
pub fn can_be_broken(params: &Params) -> bool {
    params.bip34_height > Height::new(1)
}

/// If the rule is enforced, no transaction MUST have an output whose outpoint is an existing coin: `bad-txns-BIP30`.
///
/// `exists`: whether an output of the block has such an outpoint.
pub fn check(enforced: bool, exists: bool) -> Result<(), Rule> {
    if enforced && exists { Err(Rule::BadTxnsBip30) } else { Ok(()) }
}

/// Whether an output becomes a coin: not in the genesis block, and not with a provably unspendable script.
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ConnectBlock` (genesis), `CCoinsViewCache::AddCoin`.
#[inline]
pub fn makes_coin(height: Height, script: &[u8]) -> bool {
    height != Height::GENESIS && !is_unspendable(script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chain;

    #[test]
    fn bip30_enforced_except_repeats_and_known_bip34_chain() {
        let [main, test] = [Chain::Main, Chain::Test].map(Params::new);
        let [test4, signet, regtest] = [Chain::Testnet4, Chain::Signet, Chain::Regtest].map(Params::new);
        let other = BlockHash::from_bytes([7; 32]);
        let (known, test_known) = (main.bip34_hash, test.bip34_hash);
        let zero = BlockHash::ZERO;
        for (row, params, height, hash, bip34_block, want) in [
            ("an early block", &main, 1, other, None, true),
            ("a repeat", &main, 91_842, REPEATS[0].1, None, false),
            ("the other repeat", &main, 91_880, REPEATS[1].1, None, false),
            ("a repeat at the other's height", &main, 91_880, REPEATS[0].1, None, true),
            ("an overwritten one", &main, 91_722, OVERWRITTEN[0].1, None, true),
            ("a repeat on another network", &regtest, 91_842, REPEATS[0].1, Some(other), false),
            ("the known block of BIP-0034 itself", &main, 227_931, known, None, true),
            ("the one above it", &main, 227_932, other, Some(known), false),
            ("the one above another", &main, 227_932, other, Some(other), true),
            ("the last one spared", &main, 1_983_701, other, Some(known), false),
            ("the first one after", &main, 1_983_702, other, Some(known), true),
            ("testnet3", &test, 21_111, other, None, true),
            ("testnet3 above", &test, 21_112, other, Some(test_known), false),
            ("testnet3 knows no other's block", &test, 21_112, other, Some(known), true),
            ("testnet4", &test4, 5, other, Some(other), true),
            ("signet", &signet, 5, other, Some(other), true),
            ("regtest", &regtest, 1, other, None, true),
            ("the hash wanted there, which no block has", &regtest, 2, other, Some(zero), false),
        ] {
            assert_eq!(is_enforced(params, Height::new(height), &hash, bip34_block.as_ref()), want, "{row}");
        }
        assert_eq!([&main, &test, &test4, &signet, &regtest].map(can_be_broken), [true, true, false, false, false]);
        assert!(can_be_broken(&regtest.with_activation_height("bip34", Height::new(2)).unwrap()));
    }

    #[test]
    fn a_repeat_overwrites_the_coinbase_of_its_pair() {
        let other = BlockHash::from_bytes([7; 32]);
        for (row, (height, hash), want) in [
            ("the first", REPEATS[0], Some(91_812)),
            ("the second", REPEATS[1], Some(91_722)),
            ("another block of its height", (REPEATS[0].0, other), None),
            ("an overwritten one", OVERWRITTEN[0], None),
        ] {
            assert_eq!(overwritten_by(height, &hash), want.map(Height::new), "{row}");
        }
    }

    #[test]
    fn makes_coin_excludes_genesis_and_unspendable() {
        let long = vec![0x51; 10_001];
        for (height, script, want) in [
            (0, &[0x51][..], false),
            (1, &[0x51], true),
            (1, &[], true),
            (1, &[0x6a], false),
            (1, &[0x51, 0x6a], true),
            (1, &long[1..], true),
            (1, &long, false),
        ] {
            assert_eq!(makes_coin(Height::new(height), script), want, "{height}, {} bytes", script.len());
        }
    }
}
