//! Version bits (BIP-0009) that no deployment of the network uses: detects rules that miners have activated and ffwd
//! does not know.
//!
//! For each such bit a deployment without start and timeout is assumed; the first period is never counted. These are
//! not consensus rules.
//!
//! Source: Bitcoin Core b88bffe, versionbits.cpp, `WarningBitsConditionChecker`, `CheckUnknownActivations`.

use crate::deployments::{ThresholdState, bits, fixed_state};
use crate::params::{Chain, Params};
use primitives::Height;

/// Bits of a version that announce deployments; miners may roll those above (BIP-0323). Source: Core's
/// `VERSIONBITS_NUM_BITS`.
const BIT_COUNT: usize = 5;

/// Unknown rules, by the bit that announced them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownActivation {
    /// The bit of the version.
    pub bit: u8,
    /// Whether the rules are active; otherwise they will be in the next period.
    pub is_active: bool,
}

/// The unknown activations in the versions of the chain up to `tip`. `version` returns that of the block at a height.
///
/// The result is the same for each `tip` within one period ([`Params::difficulty_adjustment_interval`]).
pub fn unknown_activations(params: &Params, tip: Height, version: impl Fn(Height) -> i32) -> Vec<UnknownActivation> {
    let period = params.difficulty_adjustment_interval();
    let threshold = if params.chain == Chain::Main { 1815 } else { period * 3 / 4 };
    let complete_count = (tip.to_u32() + 1) / period;
    let least = counted_from(params.chain);
    let known = known_bits(params);
    let mut locked_in = [None; BIT_COUNT];
    for number in (least / period).max(1)..complete_count {
        let mut counts = [0_u32; BIT_COUNT];
        for height in (number * period).max(least)..(number + 1) * period {
            if let Some(bits) = bits(version(Height::new(height))) {
                let unknown = bits & !known;
                counts.iter_mut().enumerate().for_each(|(bit, count)| *count += unknown >> bit & 1);
            }
        }
        for (bit, first) in locked_in.iter_mut().enumerate() {
            if first.is_none() && counts[bit] >= threshold {
                *first = Some(number);
            }
        }
    }
    let announced = locked_in.into_iter().zip(0_u8..);
    announced
        .filter_map(|(first, bit)| Some(UnknownActivation { bit, is_active: first? + 1 < complete_count }))
        .collect()
}

/// The bits of the deployments that may begin on this network.
fn known_bits(params: &Params) -> u32 {
    let may_begin = params.deployments.iter().filter(|one| fixed_state(one) != Some(ThresholdState::Failed));
    may_begin.fold(0, |bits, one| bits | 1 << one.bit)
}

/// Lowest height whose versions count. Source: Core's `MinBIP9WarningHeight`.
const fn counted_from(chain: Chain) -> u32 {
    match chain {
        Chain::Main => 711_648,
        Chain::Test => 2_013_984,
        Chain::Testnet4 | Chain::Signet | Chain::Regtest => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: i32 = 0x2000_0000;

    /// As Core's feature_versionbits_warning.py has it.
    #[test]
    fn activations_follow_the_periods() {
        let regtest = Params::new(Chain::Regtest);
        let (period, threshold) = (144, 108);
        let signalled = |number: u32, count: u32, version: i32| {
            move |height: Height| {
                let within = height.to_u32().checked_sub(number * period);
                if within.is_some_and(|place| place < count) { version } else { PLAIN }
            }
        };
        let locked_in = vec![UnknownActivation { bit: 4, is_active: false }];
        let active = vec![UnknownActivation { bit: 4, is_active: true }];
        for (row, number, count, version, tip, want) in [
            ("one less than the threshold", 1, threshold - 1, PLAIN | 1 << 4, 4 * period, vec![]),
            ("at the threshold, before the period ends", 1, threshold, PLAIN | 1 << 4, 2 * period - 2, vec![]),
            ("locked in", 1, threshold, PLAIN | 1 << 4, 2 * period - 1, locked_in.clone()),
            ("still locked in", 1, threshold, PLAIN | 1 << 4, 3 * period - 2, locked_in),
            ("active", 1, threshold, PLAIN | 1 << 4, 3 * period - 1, active.clone()),
            ("active for ever", 1, threshold, PLAIN | 1 << 4, 9 * period, active),
            ("in the first period", 0, period, PLAIN | 1 << 4, 4 * period, vec![]),
            ("without the top bits", 1, period, 1 << 4, 4 * period, vec![]),
            ("a bit that miners may roll", 1, period, PLAIN | 1 << 5, 4 * period, vec![]),
            ("a known deployment", 1, period, PLAIN | 1 << 28, 4 * period, vec![]),
        ] {
            let got = unknown_activations(&regtest, Height::new(tip), signalled(number, count, version));
            assert_eq!(got, want, "{row}");
        }
    }

    #[test]
    fn signals_for_a_deployment_that_is_asked_for_are_known() {
        let regtest = Params::new(Chain::Regtest);
        let moved = crate::params::VersionBitsTimes {
            deployment: crate::Deployment::ConsensusCleanup,
            start_time: 0,
            timeout: i64::MAX,
            min_activation_height: 0,
        };
        let asked = regtest.clone().with_version_bits(&moved).unwrap();
        let bit = asked.deployment(crate::Deployment::ConsensusCleanup).bit;
        let count = |params| unknown_activations(params, Height::new(431), |_| PLAIN | 1 << bit).len();
        assert_eq!((count(&regtest), count(&asked)), (1, 0));
    }

    #[test]
    fn mainnet_counts_1815_of_2016_blocks_from_its_height_on() {
        let main = Params::new(Chain::Main);
        let got = |from: u32, count: u32| {
            let version = |height: Height| {
                if (from..from + count).contains(&height.to_u32()) { PLAIN | 1 << 2 } else { PLAIN }
            };
            unknown_activations(&main, Height::new(711_648 + 3 * 2016 - 1), version)
        };
        assert_eq!(got(711_648, 1815), [UnknownActivation { bit: 2, is_active: true }]);
        assert_eq!(got(711_648, 1814), []);
        assert_eq!(got(711_648 - 2016, 2016), [], "those below do not count");
    }
}
