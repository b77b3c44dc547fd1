//! Script flags of a block.

use crate::params::{BaseFlags, Params};
use primitives::{Hash256, Height};
use script::Flags;

/// The flags that the scripts of a block are checked with.
///
/// P2SH, witness and taproot always, but for the exception blocks; the others from their heights on, there as well.
///
/// Source: Bitcoin Core b88bffe, `GetBlockScriptFlags`.
pub fn of_block(params: &Params, height: Height, hash: &Hash256) -> Flags {
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
