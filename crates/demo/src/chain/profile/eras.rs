//! The profiles of mainnet before 2025.
//!
//! Numbers of inputs and outputs, and the kinds of spent coins, are those of the real blocks counted in
//! `estimate/eras.rs`; the tails are cut so that the means are met. Absent on purpose: ages by era, for which there is
//! no source.

use super::{AGES, Kind, Model, band, check};

/// Up to height 300,000: blocks 150,013, 255,018, 277,647 and 300,025.
pub(super) const MAINNET_2012: Model = Model {
    inputs: &[
        band(48_300, 1, 1),
        band(28_000, 2, 2),
        band(8_000, 3, 3),
        band(3_500, 4, 4),
        band(2_500, 5, 5),
        band(6_000, 6, 9),
        band(3_000, 10, 30),
        band(700, 31, 100),
    ],
    outputs: &[
        band(8_500, 1, 1),
        band(83_000, 2, 2),
        band(4_200, 3, 3),
        band(900, 4, 5),
        band(2_600, 6, 20),
        band(800, 21, 100),
    ],
    kinds: &[(Kind::P2pkh, 1_000)],
    ages: &AGES,
    same_block_per_mille: 120,
    recent_per_mille: 480,
    chained_per_mille: 250,
    op_return_per_mille: 0,
    op_return_bytes: band(1, 20, 40),
    block_weight: band(1, 800_000, 1_200_000),
    fee_rate: band(1, 1, 12),
};

/// To segwit, height 481,824: blocks 403,200, 413,567 and 481,823.
pub(super) const MAINNET_2016: Model = Model {
    inputs: &[
        band(70_000, 1, 1),
        band(15_000, 2, 2),
        band(5_600, 3, 3),
        band(2_500, 4, 4),
        band(2_200, 5, 5),
        band(2_900, 6, 20),
        band(1_600, 21, 100),
        band(200, 101, 250),
    ],
    outputs: &[
        band(12_000, 1, 1),
        band(81_400, 2, 2),
        band(2_200, 3, 3),
        band(1_700, 4, 5),
        band(2_300, 6, 20),
        band(400, 21, 60),
    ],
    kinds: &[(Kind::P2pkh, 855), (Kind::P2shMultisig, 145)],
    op_return_per_mille: 4,
    block_weight: band(1, 3_800_000, 3_998_000),
    ..MAINNET_2012
};

/// To taproot, height 709,632: blocks 481,824 and 709,632, one at each end.
pub(super) const MAINNET_2019: Model = Model {
    inputs: &[
        band(76_000, 1, 1),
        band(12_000, 2, 2),
        band(3_700, 3, 3),
        band(2_000, 4, 4),
        band(2_170, 5, 5),
        band(2_300, 6, 20),
        band(1_600, 21, 100),
        band(230, 101, 300),
    ],
    outputs: &[
        band(21_500, 1, 1),
        band(71_600, 2, 2),
        band(2_200, 3, 3),
        band(2_350, 4, 5),
        band(1_300, 6, 20),
        band(800, 21, 100),
        band(250, 101, 300),
    ],
    kinds: &[
        (Kind::P2pkh, 547),
        (Kind::P2shP2wpkh, 172),
        (Kind::P2wpkh, 159),
        (Kind::P2wsh, 71),
        (Kind::P2shMultisig, 51),
    ],
    op_return_per_mille: 50,
    block_weight: band(1, 3_900_000, 3_998_000),
    ..MAINNET_2012
};

/// To the halving at height 840,000: blocks 709,632, 757,739 and 800,000, the last with inscriptions.
pub(super) const MAINNET_2023: Model = Model {
    inputs: &[
        band(87_700, 1, 1),
        band(6_200, 2, 2),
        band(1_700, 3, 3),
        band(1_100, 4, 4),
        band(950, 5, 5),
        band(1_400, 6, 20),
        band(850, 21, 100),
        band(100, 101, 250),
    ],
    outputs: &[
        band(62_500, 1, 1),
        band(30_700, 2, 2),
        band(1_600, 3, 3),
        band(1_800, 4, 5),
        band(1_500, 6, 20),
        band(1_400, 21, 100),
        band(500, 101, 300),
    ],
    kinds: &[
        (Kind::P2trScript, 252),
        (Kind::P2wpkh, 237),
        (Kind::P2pkh, 197),
        (Kind::P2shP2wpkh, 195),
        (Kind::P2wsh, 97),
        (Kind::P2tr, 14),
        (Kind::P2shMultisig, 8),
    ],
    op_return_per_mille: 20,
    block_weight: band(1, 3_900_000, 3_998_000),
    ..MAINNET_2012
};

const _: () = {
    check(&MAINNET_2012);
    check(&MAINNET_2016);
    check(&MAINNET_2019);
    check(&MAINNET_2023);
};
