//! Mainnet by era: number of blocks, bytes, transactions, inputs and outputs, and the types of the spends.
//!
//! Counted data: real blocks, one row each in [`Era::counted`]. A test counts them again if the test data exists.
//! Cited: transactions by height from the chain parameters of Bitcoin Core (`chainTxData`, checkpoints and snapshots of
//! its releases, and of b88bffe), the totals in [`TOTAL`] with their sources. An era has its cited number of
//! transactions. Bytes, inputs and outputs for each transaction are the means of its counted blocks; one factor for all
//! eras scales the sums to the cited totals: 0.98 for bytes, 0.95 for inputs, 0.95 for outputs.
//!
//! Absent on purpose: ages by era, and the size of the UTXO set by height, because no available source has them.

use demo::chain::Profile;

/// Totals of mainnet at [`HEIGHT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Total {
    pub(super) transactions: f64,
    pub(super) bytes: f64,
    pub(super) inputs: f64,
    pub(super) outputs: f64,
}

/// The height of the totals, 2026-08-11.
pub(super) const HEIGHT: u32 = 962_057;

/// Bytes: delvingbitcoin.org/t/2790, an audit of all block files. Transactions: Core's count at 938,343, extrapolated
/// with its rate. Outputs: the sizes of published hints, one bit for each output, extrapolated. Inputs: outputs less
/// the UTXO set and OP_RETURN; the size of undo data divided by its bytes for each input agrees. Both may be off by 6
/// %.
pub(super) const TOTAL: Total =
    Total { transactions: 1.391e9, bytes: 760_823_248_710.0, inputs: 3.3e9, outputs: 3.76e9 };

/// Error of the number of inputs and outputs, as a share.
pub(super) const COUNT_ERROR: f64 = 0.06;

/// Of a thousand outputs, the number that are unspent at the tip: 3.76 G outputs in the whole chain, 175 M coins.
pub(super) const SURVIVORS_PER_MILLE: f64 = 47.0;

/// Of a thousand spends, the number of coins up to that age in blocks. A model of the whole history, fitted to 41 %
/// within ten blocks and the majority within a hundred (BIP draft of block undo data), and to block 866,342 beyond
/// that.
pub(super) const AGES: [(u32, u32); 9] =
    [(0, 200), (1, 280), (10, 420), (100, 620), (144, 670), (1_000, 820), (10_000, 910), (52_560, 960), (200_000, 990)];

/// Transactions up to a height.
const TRANSACTIONS: [(u32, u64); 19] = [
    (0, 1),
    (225_430, 14_264_869),
    (279_000, 30_549_816),
    (295_000, 36_544_669),
    (446_482, 184_495_391),
    (478_913, 243_756_039),
    (506_081, 295_363_220),
    (534_292, 331_282_217),
    (563_378, 383_732_546),
    (623_950, 517_186_863),
    (654_683, 582_083_445),
    (724_466, 712_531_200),
    (751_565, 760_120_522),
    (804_000, 881_818_374),
    (840_000, 991_032_194),
    (880_000, 1_145_604_538),
    (910_000, 1_226_586_151),
    (935_000, 1_305_397_408),
    (HEIGHT, 1_391_000_000),
];

/// Types of spends, as far as they differ in the cost of script verification.
pub(super) const SPENDS: [&str; 8] =
    ["P2PKH", "P2SH multisignature", "P2SH-P2WPKH", "P2WPKH", "P2WSH", "taproot, key", "taproot, script", "other"];

/// A real block without its coinbase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) height: u32,
    pub(super) bytes: u64,
    pub(super) transactions: u64,
    pub(super) inputs: u64,
    pub(super) outputs: u64,
    /// Inputs by [`SPENDS`].
    pub(super) spends: [u64; 8],
}

const fn counted(height: u32, bytes: u64, of: [u64; 3], spends: [u64; 8]) -> Counted {
    let [transactions, inputs, outputs] = of;
    Counted { height, bytes, transactions, inputs, outputs, spends }
}

/// A part of the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Era {
    /// The kind of its blocks.
    pub(super) profile: Profile,
    /// Its first height, and that of the next era.
    pub(super) from: u32,
    pub(super) to: u32,
    /// Counted real blocks. The counted blocks; a block at a border counts for both eras.
    pub(super) counted: &'static [Counted],
    /// Bytes, inputs and outputs for each transaction, if the counted blocks are not representative.
    pub(super) cited: Option<[f64; 3]>,
}

const SEGWIT: Counted = counted(481_824, 989_323, [1_865, 5_192, 4_122], [4_673, 512, 6, 1, 0, 0, 0, 0]);
const TAPROOT: Counted = counted(709_632, 1_410_904, [2_042, 6_630, 7_449], [1_789, 89, 2_028, 1_873, 849, 0, 0, 2]);

/// All eras, the oldest first.
pub(super) const ERAS: [Era; 5] = [
    Era {
        profile: Profile::Mainnet2012,
        from: 0,
        to: 300_000,
        counted: &[
            counted(150_013, 20_563, [46, 94, 87], [94, 0, 0, 0, 0, 0, 0, 0]),
            counted(255_018, 74_706, [145, 380, 304], [380, 0, 0, 0, 0, 0, 0, 0]),
            counted(277_647, 149_164, [212, 732, 768], [732, 0, 0, 0, 0, 0, 0, 0]),
            counted(300_025, 284_231, [460, 1_427, 1_225], [1_424, 0, 0, 0, 0, 0, 0, 3]),
        ],
        cited: None,
    },
    Era {
        profile: Profile::Mainnet2016,
        from: 300_000,
        to: 481_824,
        counted: &[
            counted(403_200, 224_249, [442, 1_036, 1_205], [886, 150, 0, 0, 0, 0, 0, 0]),
            counted(413_567, 999_887, [1_556, 4_886, 3_580], [3_957, 929, 0, 0, 0, 0, 0, 0]),
            counted(481_823, 998_220, [1_695, 5_259, 3_743], [4_716, 541, 0, 0, 0, 0, 0, 2]),
        ],
        cited: None,
    },
    Era { profile: Profile::Mainnet2019, from: 481_824, to: 709_632, counted: &[SEGWIT, TAPROOT], cited: None },
    Era {
        profile: Profile::Mainnet2023,
        from: 709_632,
        to: 840_000,
        counted: &[
            TAPROOT,
            counted(757_739, 22_767, [62, 91, 134], [14, 4, 4, 51, 18, 0, 0, 0]),
            counted(800_000, 1_634_536, [3_720, 4_911, 12_101], [488, 8, 235, 823, 271, 161, 2_925, 0]),
        ],
        cited: None,
    },
    Era {
        profile: Profile::Mainnet2025,
        from: 840_000,
        to: HEIGHT,
        counted: &[
            counted(866_342, 1_581_623, [4_863, 7_972, 10_325], [905, 0, 223, 4_374, 97, 2_223, 150, 0]),
            counted(880_000, 1_991_943, [561, 12_586, 1_634], [71, 262, 575, 11_278, 120, 241, 39, 0]),
        ],
        // Of the two blocks, one consists half of spends within the block, the other of consolidations with 22 inputs
        // each. Between 850,000 and the tip a block has on average 1.592 MB (582.39 GB at 850,000:
        // delvingbitcoin.org/t/1222), 6,000 to 6,500 inputs, 7,750 outputs.
        cited: Some([486.0, 2.05, 2.5]),
    },
];

/// The work in one part of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// The era whose rates apply, as an index into [`ERAS`].
    pub(super) era: usize,
    pub(super) blocks: f64,
    pub(super) transactions: f64,
    pub(super) bytes: f64,
    pub(super) inputs: f64,
    pub(super) outputs: f64,
    /// Inputs whose scripts are skipped if scripts are assumed valid.
    pub(super) assumed: f64,
    /// Coins in the UTXO set at its end.
    pub(super) coins: f64,
}

impl Era {
    /// Bytes, inputs and outputs for each transaction, unscaled.
    fn per_transaction(&self) -> [f64; 3] {
        let sum = |of: fn(&Counted) -> u64| self.counted.iter().map(of).sum::<u64>() as f64;
        let transactions = sum(|block| block.transactions);
        self.cited.unwrap_or([
            sum(|block| block.bytes) / transactions,
            sum(|block| block.inputs) / transactions,
            sum(|block| block.outputs) / transactions,
        ])
    }

    pub(super) fn transactions(&self) -> f64 {
        transactions_at(self.to) - transactions_at(self.from)
    }

    /// Of a thousand inputs, the number of each type of [`SPENDS`].
    pub(super) fn spends_per_mille(&self) -> [u64; 8] {
        let inputs: u64 = self.counted.iter().map(|block| block.inputs).sum();
        std::array::from_fn(|form| self.counted.iter().map(|block| block.spends[form]).sum::<u64>() * 1_000 / inputs)
    }
}

/// Linear interpolation between two heights of [`TRANSACTIONS`].
fn transactions_at(height: u32) -> f64 {
    let at = TRANSACTIONS.partition_point(|(known, _)| *known < height).clamp(1, TRANSACTIONS.len() - 1);
    let (h0, t0) = TRANSACTIONS[at - 1];
    let (h1, t1) = TRANSACTIONS[at];
    t0 as f64 + (t1 - t0) as f64 * f64::from(height - h0) / f64::from(h1 - h0)
}

/// The factors that make the sums over all eras the cited totals: bytes, inputs, outputs.
pub(super) fn factors() -> [f64; 3] {
    let mut sums = [0.0; 3];
    for era in &ERAS {
        let transactions = era.transactions();
        let each = era.per_transaction();
        sums.iter_mut().zip(each).for_each(|(sum, each)| *sum += transactions * each);
    }
    [TOTAL.bytes / sums[0], TOTAL.inputs / sums[1], TOTAL.outputs / sums[2]]
}

/// Mainnet from its genesis to [`HEIGHT`]; scripts below `assumed_to` may be assumed valid.
pub(super) fn mainnet(assumed_to: u32) -> Vec<Part> {
    let factors = factors();
    let mut outputs = 0.0;
    let part = |(index, era): (usize, &Era)| {
        let transactions = era.transactions();
        let of = era.per_transaction();
        let sum = |which: usize| transactions * of[which] * factors[which];
        outputs += sum(2);
        let below = f64::from(assumed_to.clamp(era.from, era.to) - era.from) / f64::from(era.to - era.from);
        Part {
            era: index,
            blocks: f64::from(era.to - era.from),
            transactions,
            bytes: sum(0),
            inputs: sum(1),
            outputs: sum(2),
            assumed: sum(1) * below,
            coins: outputs * SURVIVORS_PER_MILLE / 1_000.0,
        }
    };
    ERAS.iter().enumerate().map(part).collect()
}

/// A chain of `lab chain` with this number of full blocks of the newest profile, on this number of coins. The contents
/// of a full block are means, which a test of `chain` checks.
pub(super) fn made(blocks: u32, utxos: u64) -> Vec<Part> {
    let blocks = f64::from(blocks);
    let utxos = utxos as f64;
    let newest = ERAS.len() - 1;
    let splits = utxos / 25.0;
    let fan_out = Part {
        era: newest,
        blocks: utxos / 17_700.0 + 100.0,
        transactions: splits,
        bytes: utxos * 45.0,
        inputs: splits,
        outputs: utxos + splits,
        assumed: splits,
        coins: utxos,
    };
    let full = Part {
        era: newest,
        blocks,
        transactions: blocks * 3_780.0,
        bytes: blocks * 1_520_000.0,
        inputs: blocks * 7_360.0,
        outputs: blocks * 9_850.0,
        assumed: blocks * 7_360.0,
        coins: utxos + blocks * 1_100.0,
    };
    vec![fan_out, full]
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{Input, Tables, Transaction};

    /// Index into [`SPENDS`]: what an input shows without its coin.
    fn form(input: &Input<'_>) -> usize {
        let (script, witness) = (input.script_sig(), input.witness().collect::<Vec<_>>());
        match (&witness[..], script.len()) {
            ([], _) => legacy(script),
            (_, 23) => 2,
            (_, 35) => 4,
            ([_, key], 0) if key.len() == 33 && matches!(key[0], 2 | 3) => 3,
            ([signature], 0) if matches!(signature.len(), 64 | 65) => 5,
            ([.., control], 0) if control.len() % 32 == 1 && matches!(control.first(), Some(0xc0 | 0xc1)) => 6,
            _ => 4,
        }
    }

    fn legacy(script: &[u8]) -> usize {
        let (mut pushes, mut rest) = (Vec::new(), script);
        while let Some((&op, after)) = rest.split_first() {
            let (head, bytes) = match op {
                76 => (1, usize::from(after.first().copied().unwrap_or(0))),
                77 => (2, usize::from(u16::from_le_bytes([after[0], after[1]]))),
                0..=75 => (0, usize::from(op)),
                _ => (0, 0),
            };
            let end = (head + bytes).min(after.len());
            pushes.push(&after[head.min(end)..end]);
            rest = &after[end..];
        }
        match &pushes[..] {
            [_, key] if matches!(key.len(), 33 | 65) => 0,
            [.., redeem] if redeem.last() == Some(&0xae) => 1,
            _ => 7,
        }
    }

    /// Every row is what the block has.
    #[test]
    fn counted_blocks_are_as_their_rows_say() {
        let Some(data) = testkit::data::dir() else { return };
        let files: Vec<_> =
            std::fs::read_dir(data.join("blocks")).unwrap().map(|entry| entry.unwrap().path()).collect();
        for row in ERAS.iter().flat_map(|era| era.counted) {
            let name = |path: &std::path::Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
            let is_it = |path: &&std::path::PathBuf| {
                let name = name(path);
                path.extension().is_some_and(|end| end == "blk")
                    && (name == format!("main_{}", row.height) || name.starts_with(&format!("main_{}_", row.height)))
            };
            let path = files.iter().find(is_it).unwrap_or_else(|| panic!("block {} is there", row.height));
            let bytes = std::fs::read(path).unwrap();
            let mut tables = Tables::new();
            let block = tables.parse_block(&bytes).unwrap();
            let mut spends = [0; 8];
            let rest = || block.transactions().skip(1);
            rest().flat_map(|tx: Transaction<'_>| tx.inputs()).for_each(|input| spends[form(&input)] += 1);
            let have = Counted {
                height: row.height,
                bytes: bytes.len() as u64,
                transactions: rest().count() as u64,
                inputs: rest().map(|tx| tx.input_count() as u64).sum(),
                outputs: rest().map(|tx| tx.output_count() as u64).sum(),
                spends,
            };
            assert_eq!(have, *row);
        }
    }

    #[test]
    fn eras_follow_each_other_and_sum_up_to_the_totals() {
        assert!(ERAS.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert_eq!((ERAS[0].from, ERAS[4].to), (0, HEIGHT));
        assert!(factors().iter().all(|factor| (0.92..1.02).contains(factor)), "{:?}", factors());
        let parts = mainnet(938_343);
        let sum = |of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>();
        for (have, want) in [
            (sum(|part| part.bytes), TOTAL.bytes),
            (sum(|part| part.inputs), TOTAL.inputs),
            (sum(|part| part.outputs), TOTAL.outputs),
            (sum(|part| part.transactions), TOTAL.transactions),
            (parts[4].coins, 176.7e6),
        ] {
            assert!((have / want - 1.0).abs() < 0.001, "{have}, want {want}");
        }
        // Blocks at 850,000 had 582.39 GB.
        let below = sum(|part| part.bytes) - parts[4].bytes * f64::from(HEIGHT - 850_000) / f64::from(HEIGHT - 840_000);
        assert!((below / 582.39e9 - 1.0).abs() < 0.01, "{below}");
        assert!(parts[..4].iter().all(|part| part.assumed == part.inputs) && parts[4].assumed < parts[4].inputs);
        assert_eq!(transactions_at(880_000) as u64, 1_145_604_538);
        assert!(ERAS.iter().all(|era| (993..=1_000).contains(&era.spends_per_mille().iter().sum::<u64>())));
    }
}
