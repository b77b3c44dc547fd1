//! The shape of a chain: numbers and kinds of inputs and outputs, and ages of spent coins.
//!
//! Every share is here or in `profile/eras.rs`, as a table of weights. The figures of `mainnet-2025` come from the
//! chain as it was in 2025: counts of block 866,342, the totals in Core's chain parameters, and published UTXO set
//! reports. They are chosen so that a full block has about 3,750 transactions, 7,300 inputs, 9,800 outputs and 1.5 MB.
//! Those of the eras before it are counted from real blocks: see `estimate/eras.rs`, which has the counts.
//!
//! Absent on purpose: floating point (see `rng`), and dependence on earlier draws.

mod eras;

use super::rng::Rng;
use std::fmt;
use std::str::FromStr;

/// A model of a chain, by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Profile {
    /// Mainnet up to 2014: one signature an input, blocks of a quarter of a megabyte.
    Mainnet2012,
    /// Mainnet before segwit: full blocks, P2PKH and multisignatures in P2SH.
    Mainnet2016,
    /// Mainnet between segwit and taproot.
    Mainnet2019,
    /// Mainnet with inscriptions: a quarter of the inputs run a tapscript.
    Mainnet2023,
    /// Mainnet in 2025.
    #[default]
    Mainnet2025,
}

impl Profile {
    /// All profiles, the oldest first.
    pub const ALL: [Profile; 5] =
        [Profile::Mainnet2012, Profile::Mainnet2016, Profile::Mainnet2019, Profile::Mainnet2023, Profile::Mainnet2025];

    /// The name that `--profile` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Mainnet2012 => "mainnet-2012",
            Profile::Mainnet2016 => "mainnet-2016",
            Profile::Mainnet2019 => "mainnet-2019",
            Profile::Mainnet2023 => "mainnet-2023",
            Profile::Mainnet2025 => "mainnet-2025",
        }
    }

    pub(super) fn model(self) -> &'static Model {
        match self {
            Profile::Mainnet2012 => &eras::MAINNET_2012,
            Profile::Mainnet2016 => &eras::MAINNET_2016,
            Profile::Mainnet2019 => &eras::MAINNET_2019,
            Profile::Mainnet2023 => &eras::MAINNET_2023,
            Profile::Mainnet2025 => &MAINNET_2025,
        }
    }

    /// Number of coins with each form of script, of a thousand.
    pub fn scripts(self) -> Scripts {
        let mut scripts = Scripts::default();
        for &(kind, weight) in self.model().kinds {
            let form = match kind {
                Kind::P2wpkh => &mut scripts.p2wpkh,
                Kind::P2tr | Kind::P2trScript => &mut scripts.p2tr,
                Kind::P2pkh => &mut scripts.p2pkh,
                Kind::P2shP2wpkh | Kind::P2shMultisig => &mut scripts.p2sh,
                Kind::P2wsh => &mut scripts.p2wsh,
                Kind::OpReturn => continue, // No coin.
            };
            *form += weight;
        }
        scripts
    }

    /// For some numbers of blocks: how many of a thousand spent coins are at most this number of blocks old.
    pub fn ages(self) -> Vec<(u32, u32)> {
        let model = self.model();
        let mut sum = model.same_block_per_mille;
        let mut ages = vec![(0, model.same_block_per_mille)];
        let mut recent = 0;
        for band in model.ages {
            recent += band.weight;
            sum = model.same_block_per_mille + model.recent_per_mille * recent / AGE_SUM;
            ages.push((band.to, sum));
        }
        debug_assert!(sum <= 1_000, "shares of a thousand");
        ages
    }
}

/// Coins of a profile by the form of their script, of a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scripts {
    /// Witness v0, one key.
    pub p2wpkh: u32,
    /// Taproot.
    pub p2tr: u32,
    /// One key.
    pub p2pkh: u32,
    /// The hash of a script.
    pub p2sh: u32,
    /// Witness v0, the hash of a script.
    pub p2wsh: u32,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Profile, String> {
        let known = Profile::ALL.into_iter().find(|profile| profile.name() == name);
        known.ok_or_else(|| {
            format!("no profile is named {name:?}: it is one of {}", Profile::ALL.map(Profile::name).join(", "))
        })
    }
}

/// The kind of script that locks an output, and so the way to spend it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// Witness v0, one key.
    P2wpkh,
    /// Taproot, spent by key.
    P2tr,
    /// One key, no witness.
    P2pkh,
    /// P2WPKH inside P2SH.
    P2shP2wpkh,
    /// Witness v0, 2 of 3 keys.
    P2wsh,
    /// Taproot, spent by script.
    P2trScript,
    /// 2 of 3 keys in P2SH, as before witnesses.
    P2shMultisig,
    /// Data; no coin.
    OpReturn,
}

impl Kind {
    /// The kinds that are coins, in the order of their numbers.
    pub(super) const COINS: [Kind; 7] =
        [Kind::P2wpkh, Kind::P2tr, Kind::P2pkh, Kind::P2shP2wpkh, Kind::P2wsh, Kind::P2trScript, Kind::P2shMultisig];
}

/// A range of counts, both ends included, and its weight among its siblings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) weight: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

const fn band(weight: u32, from: u32, to: u32) -> Band {
    Band { weight, from, to }
}

/// All tables of one model. Weights of a table add up to its `_SUM` below.
#[derive(Debug)]
pub(super) struct Model {
    /// Inputs of a transaction.
    pub(super) inputs: &'static [Band],
    /// Outputs of a transaction, OP_RETURN included.
    pub(super) outputs: &'static [Band],
    /// Weight of each kind of coin.
    pub(super) kinds: &'static [(Kind, u32)],
    /// Number of blocks between creation and spend of a coin, for coins of earlier blocks that are at most
    /// [`RECENT_BLOCKS`] old.
    pub(super) ages: &'static [Band],
    /// Of a thousand spent coins, the number created in the same block.
    pub(super) same_block_per_mille: u32,
    /// Of a thousand spent coins, the number created in one of the previous [`RECENT_BLOCKS`] blocks.
    pub(super) recent_per_mille: u32,
    /// Of a thousand spends in the same block, the number that spend the newest coin: chains of transactions.
    pub(super) chained_per_mille: u32,
    /// Of a thousand transactions with two or more outputs, the number with an OP_RETURN.
    pub(super) op_return_per_mille: u32,
    /// Bytes of data after an OP_RETURN; at most 75, because they are one plain push.
    pub(super) op_return_bytes: Band,
    /// Weight that a full block is filled to.
    pub(super) block_weight: Band,
    /// Fee in satoshi per virtual byte.
    pub(super) fee_rate: Band,
}

/// Coins of at most this age count as recent.
pub(super) const RECENT_BLOCKS: usize = 100;
const COUNT_SUM: u32 = 100_000;
const KIND_SUM: u32 = 1_000;
const AGE_SUM: u32 = 1_000;

/// Ages of coins that are spent within [`RECENT_BLOCKS`]. No counts by era are public, so all profiles share this
/// table.
const AGES: [Band; 8] = [
    band(190, 1, 1),
    band(140, 2, 3),
    band(110, 4, 6),
    band(83, 7, 10),
    band(127, 11, 20),
    band(140, 21, 40),
    band(120, 41, 70),
    band(90, 71, 100),
];

const MAINNET_2025: Model = Model {
    inputs: &[
        band(71_260, 1, 1),
        band(16_000, 2, 2),
        band(5_000, 3, 3),
        band(2_500, 4, 4),
        band(1_500, 5, 5),
        band(2_370, 6, 9),
        band(900, 10, 20),
        band(325, 21, 50),
        band(102, 51, 100),
        band(32, 101, 250),
        band(11, 251, 500),
    ],
    outputs: &[
        band(21_000, 1, 1),
        band(63_250, 2, 2),
        band(7_400, 3, 3),
        band(4_050, 4, 5),
        band(2_050, 6, 10),
        band(1_725, 11, 20),
        band(450, 21, 50),
        band(65, 51, 200),
        band(10, 201, 1000),
    ],
    kinds: &[
        (Kind::P2wpkh, 500),
        (Kind::P2tr, 254),
        (Kind::P2pkh, 140),
        (Kind::P2shP2wpkh, 50),
        (Kind::P2wsh, 50),
        (Kind::P2trScript, 6),
    ],
    ages: &AGES,
    same_block_per_mille: 120,
    recent_per_mille: 480,
    chained_per_mille: 250,
    op_return_per_mille: 480,
    op_return_bytes: band(1, 20, 40),
    block_weight: band(1, 3_900_000, 3_998_000),
    fee_rate: band(1, 1, 12),
};

const fn sum_of(bands: &[Band]) -> u32 {
    let mut sum = 0;
    let mut i = 0;
    while i < bands.len() {
        assert!(bands[i].from <= bands[i].to, "a band runs upwards");
        sum += bands[i].weight;
        i += 1;
    }
    sum
}

const fn sum_of_kinds(kinds: &[(Kind, u32)]) -> u32 {
    let mut sum = 0;
    let mut i = 0;
    while i < kinds.len() {
        sum += kinds[i].1;
        i += 1;
    }
    sum
}

/// Conditions that every model must satisfy.
const fn check(model: &Model) {
    assert!(sum_of(model.inputs) == COUNT_SUM && sum_of(model.outputs) == COUNT_SUM);
    assert!(sum_of(model.ages) == AGE_SUM && sum_of_kinds(model.kinds) == KIND_SUM);
    assert!(model.ages[model.ages.len() - 1].to as usize == RECENT_BLOCKS);
    assert!(model.same_block_per_mille + model.recent_per_mille <= 1_000);
    assert!(model.op_return_bytes.to <= 75 && model.block_weight.to <= 4_000_000);
}

const _: () = check(&MAINNET_2025);

fn draw(bands: &[Band], sum: u32, rng: &mut Rng) -> u32 {
    let mut at = rng.below(u64::from(sum)) as u32;
    for band in bands {
        if at < band.weight {
            return rng.within(band.from, band.to);
        }
        at -= band.weight;
    }
    unreachable!("the weights add up to the sum")
}

impl Model {
    pub(super) fn draw_inputs(&self, rng: &mut Rng) -> u32 {
        draw(self.inputs, COUNT_SUM, rng)
    }

    pub(super) fn draw_outputs(&self, rng: &mut Rng) -> u32 {
        draw(self.outputs, COUNT_SUM, rng)
    }

    pub(super) fn draw_age(&self, rng: &mut Rng) -> usize {
        draw(self.ages, AGE_SUM, rng) as usize
    }

    pub(super) fn draw_kind(&self, rng: &mut Rng) -> Kind {
        let mut at = rng.below(u64::from(KIND_SUM)) as u32;
        for &(kind, weight) in self.kinds {
            if at < weight {
                return kind;
            }
            at -= weight;
        }
        unreachable!("the weights add up to the sum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_parse_back() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let why = "mainnet".parse::<Profile>().unwrap_err();
        assert!(why.contains("\"mainnet\"") && why.contains("mainnet-2025"), "{why}");
    }

    #[test]
    fn scripts_and_ages_are_shares_of_a_thousand() {
        for profile in Profile::ALL {
            let Scripts { p2wpkh, p2tr, p2pkh, p2sh, p2wsh } = profile.scripts();
            assert_eq!(p2wpkh + p2tr + p2pkh + p2sh + p2wsh, 1_000, "{profile}");
            let ages = profile.ages();
            assert!(ages.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{profile}: {ages:?}");
            assert_eq!(ages.last(), Some(&(RECENT_BLOCKS as u32, 600)), "{profile}");
        }
        assert_eq!(Profile::Mainnet2012.scripts().p2pkh, 1_000);
    }

    #[test]
    fn profile_draws_have_the_wanted_means() {
        let mut rng = Rng::new(1, 1);
        let count = 200_000;
        // Means of the blocks counted in `estimate/eras.rs`.
        for (profile, inputs, outputs) in [
            (Profile::Mainnet2012, 3_050, 2_760),
            (Profile::Mainnet2016, 3_030, 2_310),
            (Profile::Mainnet2019, 3_030, 2_960),
            (Profile::Mainnet2023, 2_000, 3_380),
            (Profile::Mainnet2025, 1_947, 2_613),
        ] {
            let model = profile.model();
            let have = |draw: &dyn Fn(&mut Rng) -> u32, rng: &mut Rng| {
                (0..count).map(|_| u64::from(draw(rng))).sum::<u64>() * 1_000 / count
            };
            let got_inputs = have(&|rng| model.draw_inputs(rng), &mut rng);
            let got_outputs = have(&|rng| model.draw_outputs(rng), &mut rng);
            for (name, have, want) in [("inputs", got_inputs, inputs), ("outputs", got_outputs, outputs)] {
                assert!(have.abs_diff(want) < want / 25, "{profile}, {name}: {have} a thousand, want {want}");
            }
        }
        let model = Profile::Mainnet2025.model();
        let recent = (0..count).filter(|_| model.draw_age(&mut rng) <= 10).count();
        assert!((recent as u64 * 1_000 / count).abs_diff(523) < 10, "{recent} of {count} at most ten blocks old");
        let p2wpkh = (0..count).filter(|_| model.draw_kind(&mut rng) == Kind::P2wpkh).count();
        assert!((p2wpkh as u64 * 1_000 / count).abs_diff(500) < 10, "{p2wpkh} of {count} P2WPKH");
    }
}
