//! Script flags of a block.

use crate::params::{BaseFlags, Params};
use primitives::{BlockHash, Height};
use script::Flags;

/// The script verification flags of a block.
///
/// P2SH, witness and taproot are always set, except in the exception blocks; the others are set from their heights on,
/// in these blocks as well.
///
/// Source: Bitcoin Core b88bffe, `GetBlockScriptFlags`.
pub fn of_block(params: &Params, height: Height, hash: &BlockHash) -> Flags {
    let exception = params.script_flag_exceptions.iter().find(|(block, _)| block == hash);
    let mut flags = match exception {
        None => Flags::P2SH | Flags::WITNESS | Flags::TAPROOT,
        Some((_, BaseFlags::P2shWitness)) => Flags::P2SH | Flags::WITNESS,
        Some((_, BaseFlags::None)) => Flags::NONE,
    };
    for (active_from, flag) in [
        (params.bip66_height, Flags::DERSIG),
        (params.bip65_height, Flags::CHECKLOCKTIMEVERIFY),
        (params.csv_height, Flags::CHECKSEQUENCEVERIFY),
        (params.segwit_height, Flags::NULLDUMMY),
    ] {
        if height >= active_from {
            flags |= flag;
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chain;

    #[test]
    fn script_flags_by_height_and_exception() {
        let base = Flags::P2SH | Flags::WITNESS | Flags::TAPROOT;
        let (der, cltv) = (Flags::DERSIG, Flags::CHECKLOCKTIMEVERIFY);
        let (csv, dummy) = (Flags::CHECKSEQUENCEVERIFY, Flags::NULLDUMMY);
        let bip16 = "00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22";
        let taproot = "0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad";
        let test_bip16 = "00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105";
        let other = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        for (chain, height, hash, want) in [
            (Chain::Main, 1, other, base),
            (Chain::Main, 363_724, other, base),
            (Chain::Main, 363_725, other, base | der),
            (Chain::Main, 388_381, other, base | der | cltv),
            (Chain::Main, 419_328, other, base | der | cltv | csv),
            (Chain::Main, 481_823, other, base | der | cltv | csv),
            (Chain::Main, 481_824, other, Flags::CONSENSUS),
            (Chain::Main, 170_060, bip16, Flags::NONE),
            (Chain::Main, 692_261, taproot, Flags::P2SH | Flags::WITNESS | der | cltv | csv | dummy),
            (Chain::Test, 40_000, test_bip16, Flags::NONE),
            (Chain::Test, 40_000, bip16, base),
            (Chain::Testnet4, 1, other, Flags::CONSENSUS),
            (Chain::Signet, 0, other, base),
            (Chain::Signet, 1, other, Flags::CONSENSUS),
            (Chain::Regtest, 0, other, base | dummy),
            (Chain::Regtest, 1, bip16, Flags::CONSENSUS),
        ] {
            let got = of_block(&Params::new(chain), Height::new(height), &BlockHash::literal(hash));
            assert_eq!(got, want, "{chain} {height} {hash}");
        }
    }
}
